//! Feeds mutated descriptions of kernels and mutated SPIR-V to what reads them for `gpukern run`, until a panic, an
//! execution that takes too long or a number of executions: `cargo run --release --example fuzz_run`.
//!
//! Mutations know what the two are made of: lines, words and values of TOML, words of SPIR-V. The same `--seed` gives the
//! same inputs.

use gpukern::{check_description, check_kernel};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::time::{Duration, Instant};

/// A kernel with all that a description speaks of.
const KERNEL: &str = "#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0, local_size_y = 2) in;
layout(constant_id = 1) const uint BM = 64;
layout(constant_id = 2) const bool FAST = false;
layout(constant_id = 3) const float SLOPE = 0.5;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(set = 0, binding = 0) readonly buffer A { float16_t data_a[]; };
layout(set = 0, binding = 0) readonly buffer A4 { vec4 data_a4[]; };
layout(set = 1, binding = 3) buffer D { float data_d[]; };
layout(set = 0, binding = 2) uniform Shape { uint width; vec4 bias; };
layout(push_constant) uniform P { uint M; int first; float scale; uvec2 size; Floats T; vec2 m[2]; };
shared float partial[BM * 2];
void main() {
    uint i = gl_GlobalInvocationID.x;
    partial[i % BM] = scale;
    data_d[i] = float(data_a[i]) * partial[0] + data_a4[0].x + float(size.y + uint(first) + width) + bias.x + T.at[i];
}
";

/// A description of it.
const DESCRIPTION: &str = r#"name = "k"
[kernel]
source = "k.spv"
bind = { A4 = "A" }
[axes]
M = "512..1024"
K = [4, "M/2", "1..9:4"]
[spec]
BM = [64, 128]
FAST = true
SLOPE = "1/4"
0 = 32
[where]
legal = "BM * K <= 65536 && M % 4 == 0"
[push]
first = -7
scale = "1/sqrt(M)"
"size.x" = "cdiv(K, min(M, 3))"
"*" = 0
[buffer.A]
type = "f16"
shape = ["M", "K"]
fill = "uniform(-1, 1)"
[buffer.D]
type = "f32"
shape = ["M"]
check = { rtol = 1e-4, atol = 1e-5 }
[buffer.Shape]
type = "bytes"
shape = 32
fill = "iota"
[buffer.T]
type = "f32"
shape = "BM * local_x"
scratch = true
[dispatch]
groups = ["cdiv(M, local_x)", "cdiv(BM, local_y)"]
[reference]
command = "python3 ref.py {in} {out} {M}"
[work]
flops = "2*M*K"
bytes = 1e9
"#;

/// Pieces of descriptions that break parsers and checks.
const HOSTILE: [&str; 40] = [
    "0",
    "-1",
    "1e999",
    "nan",
    "inf",
    "9223372036854775807",
    "-9223372036854775808",
    "\"2^62\"",
    "\"M\"",
    "\"K\"",
    "\"BM\"",
    "\"1/0\"",
    "\"M % 0\"",
    "\"1..9223372036854775807\"",
    "\"1..9:9223372036854775807\"",
    "\"((((((((((((((((\"",
    "\"-9223372036854775807 - 1\"",
    "[]",
    "[[]]",
    "{}",
    "true",
    "\"\"",
    "\"\\u0000\"",
    "'{M}'",
    "\"@k.spv\"",
    "\"@.npy\"",
    "\"normal(1e308, 1e308)\"",
    "\"uniform(-1e308,1e308)\"",
    "\"exact\"",
    "{ ulp = 18446744073709551615 }",
    "{ nmse = nan }",
    "[kernel]",
    "[[pass]]",
    "[spec]",
    "[axes]",
    "source = \"k.spv\"",
    "groups = 1",
    "scratch = true",
    "\u{feff}",
    "[\"M\", \"M\", \"M\", \"M\", \"M\", \"M\", \"M\", \"M\", \"M\"]",
];

struct Mutator {
    random: ChaCha8Rng,
}

impl Mutator {
    fn below(&mut self, count: usize) -> usize {
        (self.random.next_u64() % count.max(1) as u64) as usize
    }

    /// A description with one to six changes.
    fn description(&mut self) -> String {
        let mut lines: Vec<String> = DESCRIPTION.lines().map(ToString::to_string).collect();
        for _ in 0..=self.below(6) {
            let at = self.below(lines.len());
            match self.below(7) {
                0 => drop(lines.remove(at)),
                1 => {
                    let other = lines[self.below(lines.len())].clone();
                    lines.insert(at, other);
                }
                2 => lines.insert(at, HOSTILE[self.below(HOSTILE.len())].to_string()),
                3 | 4 => {
                    if let Some((key, _)) = lines[at].split_once('=') {
                        lines[at] = format!("{key}= {}", HOSTILE[self.below(HOSTILE.len())]);
                    }
                }
                5 => {
                    let other = self.below(lines.len());
                    lines.swap(at, other);
                }
                _ => {
                    let mut letters: Vec<char> = lines[at].chars().collect();
                    let place = self.below(letters.len());
                    if place < letters.len() {
                        letters[place] = char::from(32 + self.below(95) as u8);
                    }
                    lines[at] = letters.into_iter().collect();
                }
            }
            if lines.is_empty() {
                break;
            }
        }
        lines.join("\n")
    }

    /// A module with one to four changes.
    fn module(&mut self, right: &[u32]) -> Vec<u32> {
        let mut words = right.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(words.len());
            match self.below(7) {
                0 => words[at] = self.random.next_u64() as u32,
                1 => words[at] ^= 1 << self.below(32),
                2 => words[at] = words[self.below(words.len())],
                3 => words[at] = self.below(64) as u32,
                4 => drop(words.remove(at)),
                5 => words.insert(at, right[self.below(right.len())]),
                _ => words.truncate(at.max(6)),
            }
        }
        words
    }
}

/// The number behind an option, or a default.
fn option(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let place = arguments.iter().position(|argument| argument == name);
    place.and_then(|place| arguments.get(place + 1)?.parse().ok()).unwrap_or(default)
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let right = compiled();
    let bytes: Vec<u8> = right.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(folder.path().join("k.spv"), &bytes).expect("written");
    check_kernel(&bytes).expect("the kernel is right");
    check_description(DESCRIPTION, folder.path()).expect("the description is right");
    let executions = option("--executions", 1_000_000);
    let mut mutator = Mutator { random: ChaCha8Rng::seed_from_u64(option("--seed", 1)) };
    for (what, of) in [("SPIR-V", 0), ("TOML", 1)] {
        let (begun, mut accepted, mut slowest) = (Instant::now(), 0u64, Duration::ZERO);
        for _ in 0..executions {
            let one = Instant::now();
            let answer = if of == 0 { spirv(&mut mutator, &right) } else { toml(&mut mutator, folder.path()) };
            accepted += u64::from(answer.is_ok());
            slowest = slowest.max(one.elapsed());
        }
        let seconds = begun.elapsed().as_secs();
        println!(
            "{executions} mutated {what}: {accepted} accepted, none panicked, the slowest took {slowest:.1?}, {seconds} s"
        );
    }
}

fn spirv(mutator: &mut Mutator, right: &[u32]) -> Result<(), String> {
    let bytes: Vec<u8> = mutator.module(right).iter().flat_map(|word| word.to_le_bytes()).collect();
    shown(|| check_kernel(&bytes), || format!("{bytes:?}"))
}

fn toml(mutator: &mut Mutator, folder: &Path) -> Result<(), String> {
    let text = mutator.description();
    shown(|| check_description(&text, folder), || text.clone())
}

/// The answer of `run`; where it panics, the input is printed first.
fn shown(run: impl FnOnce() -> Result<(), String>, input: impl Fn() -> String) -> Result<(), String> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    caught.unwrap_or_else(|panic| {
        println!("this input panics:\n{}", input());
        std::panic::resume_unwind(panic)
    })
}

/// The kernel as SPIR-V.
fn compiled() -> Vec<u32> {
    let compiler = shaderc::Compiler::new().expect("shaderc starts");
    let mut options = shaderc::CompileOptions::new().expect("shaderc starts");
    options.set_target_env(shaderc::TargetEnv::Vulkan, shaderc::EnvVersion::Vulkan1_2 as u32);
    let kind = shaderc::ShaderKind::Compute;
    compiler
        .compile_into_spirv(KERNEL, kind, "k.comp", "main", Some(&options))
        .expect("it compiles")
        .as_binary()
        .to_vec()
}
