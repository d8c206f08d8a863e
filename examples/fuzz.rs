//! Feeds mutated files to the program's readers: of records (and every output made from a record), kernel descriptions,
//! arrays, SPIR-V and expressions; and to the simulator. `scripts/fuzz` runs each target.
//!
//!   fuzz TARGET [--seconds N] [--executions N] [--seed N]
//!
//! Needs no nightly compiler and no coverage feedback, because mutations follow the syntax of their files: they swap
//! values for other and hostile ones, move lines and words, cut, repeat and join pieces, and flip bits. Execution N of
//! seed S gets the input of execution 0 of seed S + N. A panic, or an execution longer than [`TIMEOUT`], ends the program;
//! it prints the seed and saves the input.

use gpukern::{
    CATALOGUE, DType, Format, Layout, NamedRecord, Outcome, Record, Settings, check_array, check_description,
    check_expression, check_kernel, compare, html, parse_record, tables, try_kernel,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest execution, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Kernel with everything that a description can refer to.
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
layout(set = 2, binding = 0) uniform Args { Floats to; uint n; Floats list[2]; mat2 m; } args;
layout(set = 2, binding = 1) readonly buffer Table { uint count; uvec2 ptr[]; } table;
layout(push_constant) uniform P { uint M; int first; float scale; uvec2 size; Floats T; vec2 m[2]; };
shared float partial[BM * 2];
void main() {
    uint i = gl_GlobalInvocationID.x;
    partial[i % BM] = scale;
    data_d[i] = float(data_a[i]) * partial[0] + data_a4[0].x + float(size.y + uint(first) + width) + bias.x + T.at[i];
    args.list[1].at[i] = args.m[1].x + float(table.count + table.ptr[2].x + args.n);
}
";

/// Description of [`KERNEL`].
const DESCRIPTION: &str = r#"name = "k"
[kernel]
source = "k.spv"
bind = { A4 = ["A", "A + 256"], A = { buffer = "A", offset = "256*i", range = "2*M" } }
times = "1 + log2(K)"
subgroup = [8, 16]
[uniform.Args]
to = "T + 4*i"
"list[0]" = "D"
"list[1]" = "D"
"m[1].x" = "1/M"
"*" = 1
[uniform.Table]
count = "M"
"ptr[3].y" = 7
"*" = 0
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
fill = "0.5"
[dispatch]
groups = ["cdiv(M, local_x)", "cdiv(BM, local_y)"]
[reference]
command = "python3 ref.py {in} {out} {M}"
[work]
flops = "2*M*K"
bytes = 1e9
"#;

/// Pieces of descriptions that break parsers and checks.
#[rustfmt::skip]
const TOML: [&str; 50] = [
    "0", "-1", "1e999", "nan", "inf", "9223372036854775807", "-9223372036854775808", "\"2^62\"", "\"M\"", "\"K\"",
    "\"BM\"", "\"1/0\"", "\"M % 0\"", "\"1..9223372036854775807\"", "\"1..9:9223372036854775807\"",
    "\"((((((((((((((((\"", "\"-9223372036854775807 - 1\"", "[]", "[[]]", "{}", "true", "\"\"", "\"\\u0000\"",
    "'{M}'", "\"@k.spv\"", "\"@.npy\"", "\"normal(1e308, 1e308)\"", "\"uniform(-1e308,1e308)\"", "\"exact\"",
    "{ ulp = 18446744073709551615 }", "{ nmse = nan }", "[kernel]", "[[pass]]", "[[pass.pass]]", "[uniform.Args]",
    "[uniform.A]", "\"ptr[4294967295].x\"", "\"T + 2^62\"", "\"set\"", "{ picks = \"A\" }",
    "{ mean = 0, deviation = 1 }", "times = 16384", "indirect = \"A + 4\"", "[spec]", "[axes]", "source = \"k.spv\"",
    "groups = 1", "scratch = true", "\u{feff}", "[\"M\", \"M\", \"M\", \"M\", \"M\", \"M\", \"M\", \"M\", \"M\"]",
];

/// Values that break parsers and checks.
#[rustfmt::skip]
const JSON: [&str; 22] = [
    "null", "true", "-1", "0", "-0.0", "1e308", "1e999", "-1e-320", "0.1", "18446744073709551616", "9007199254740993",
    "\"\"", "\"\\u0000\"", "\"\\ud800\"", "\"gpukern-run/3\"", "\"gpukern-run/1\"", "\"unstable-clock\"", "{}", "[]",
    "[[[[[[[[[[", "{\"kind\":\"drift\"}", "\u{feff}",
];

/// Pieces of the headers of arrays.
#[rustfmt::skip]
const PYTHON: [&str; 26] = [
    "'descr'", "'<f4'", "'|O'", "'>f8'", "[('a', '<f4', (2, 3)), ('b', '|S7')]", "'fortran_order'", "True", "None",
    "'shape'", "(2, 3)", "()", "(18446744073709551615, 18446744073709551615)", "(0, 18446744073709551616)", "-1",
    "1e999", "1j", "0x_1", "1_0", "{}", "{1}", "[[[1]]]", "b'\\xff'", "'\\ud800'", "'''", "\n", "\u{e9}",
];

/// Pieces of expressions.
#[rustfmt::skip]
const EXPRESSIONS: [&str; 20] = [
    "M", "N", "K", "x", "0", "-1", "0x10", "1_000", ".5", "1e308", "9223372036854775807", "(", ")", "(M + K)",
    "min(M, ", "max(", "sqrt(K)", "cdiv(M, N)", "\u{e9}", "2^63",
];

/// Operators between pieces of expressions.
const OPERATORS: [&str; 20] =
    ["+", "-", "*", "/", "%", "^", "==", "!=", "<", ">=", "&&", "||", "!", ",", " ", ")", "(", "&", "<=", ">"];

/// Reader under test, with the inputs that it gets.
struct Target {
    name: &'static str,
    /// Valid files, as small as possible, that together contain every construct.
    corpus: fn() -> Vec<Vec<u8>>,
    mutate: fn(&mut Mutator, &[u8]) -> Vec<u8>,
    /// Whether the reader accepts a file.
    accepts: fn(&[u8], &Fixture) -> bool,
}

const TARGETS: [Target; 6] = [
    Target {
        name: "records",
        corpus: records,
        mutate: Mutator::json,
        accepts: |input, fixture| {
            parse_record(input, "fuzz", &CATALOGUE)
                .map(|loaded| print_everything(loaded.record, &fixture.other))
                .is_ok()
        },
    },
    Target {
        name: "descriptions",
        corpus: descriptions,
        mutate: Mutator::lines,
        accepts: |input, fixture| {
            check_description(&String::from_utf8_lossy(input), fixture.folder.path(), &CATALOGUE).is_ok()
        },
    },
    Target {
        name: "arrays",
        corpus: arrays,
        mutate: Mutator::array,
        accepts: |input, fixture| {
            let path = fixture.folder.path().join("x.npy");
            std::fs::write(&path, input).expect("the folder takes a file");
            check_array(&path).is_ok()
        },
    },
    Target {
        name: "simulator",
        corpus: simulated_modules,
        mutate: Mutator::words,
        accepts: |input, _| try_kernel(input).is_ok(),
    },
    Target { name: "spirv", corpus: modules, mutate: Mutator::words, accepts: |input, _| check_kernel(input).is_ok() },
    Target {
        name: "expressions",
        corpus: expressions,
        mutate: Mutator::pieces,
        accepts: |input, _| check_expression(&String::from_utf8_lossy(input)).is_ok(),
    },
];

/// Surroundings of the inputs.
struct Fixture {
    /// Folder with the files that descriptions name.
    folder: tempfile::TempDir,
    /// Record to compare with.
    other: Record,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("k.spv"), compiled()).expect("written");
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kernels");
        for file in std::fs::read_dir(kernels).expect("a folder") {
            let file = file.expect("a file");
            std::fs::copy(file.path(), folder.path().join(file.file_name())).expect("copied");
        }
        let other = parse_record(&records()[0], "corpus", &CATALOGUE).expect("the fixture is a record").record;
        Self { folder, other }
    }
}

struct Mutator {
    random: ChaCha8Rng,
}

impl Mutator {
    fn below(&mut self, end: usize) -> usize {
        (self.random.next_u64() % end.max(1) as u64) as usize
    }

    fn any<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    /// Returns the place of a value in `text`, roughly: between a byte of `begins` and the next one of `ends`.
    fn value(&mut self, text: &[u8], begins: &[u8], ends: &[u8]) -> Range<usize> {
        let start = self.below(text.len());
        let Some(start) = text[start..].iter().position(|byte| begins.contains(byte)).map(|at| start + at + 1) else {
            return start..text.len();
        };
        let end = text[start..].iter().position(|byte| ends.contains(byte)).map_or(text.len(), |at| start + at);
        start..end
    }

    /// Makes one change that suits any text; `hostile` are values to insert.
    fn change(&mut self, text: &mut Vec<u8>, hostile: &[&str], begins: &[u8], ends: &[u8]) {
        if text.is_empty() {
            return;
        }
        let place = self.below(text.len());
        match self.below(9) {
            0 => text[place] = self.random.next_u32() as u8,
            1 => text[place] ^= 1 << self.below(8),
            2 => text.truncate(self.below(4 * text.len())),
            3 | 4 => {
                let (value, range) = (self.any(hostile), self.value(text, begins, ends));
                text.splice(range, value.bytes());
            }
            5 => {
                // Value from another place of the text.
                let [from, to] = [0; 2].map(|_| self.value(text, begins, ends));
                let value = text[from].to_vec();
                text.splice(to, value);
            }
            6 => {
                let end = (place + self.below(200)).min(text.len());
                let copy = text[place..end].to_vec();
                text.splice(end..end, copy);
            }
            7 => drop(text.drain(place..(place + self.below(100)).min(text.len()))),
            _ => {
                let (depth, range) = (self.below(300), self.value(text, begins, ends));
                let open: [&[u8]; 4] = [b"[", b"{\"a\":", b"(", b"-"];
                text.splice(range, self.any(&open).repeat(depth));
            }
        }
    }

    /// Makes one to five changes to a record.
    fn json(&mut self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        for _ in 0..=self.below(5) {
            self.change(&mut text, &JSON, b":,[", b",}]");
        }
        text
    }

    /// Makes one to six changes to a description.
    fn lines(&mut self, text: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(text).into_owned();
        let mut lines: Vec<String> = text.lines().map(ToString::to_string).collect();
        for _ in 0..=self.below(6) {
            if lines.is_empty() {
                break;
            }
            let (at, other) = (self.below(lines.len()), self.below(lines.len()));
            let value = match self.below(8) {
                0 => {
                    lines.remove(at);
                    continue;
                }
                1 => {
                    let copy = lines[other].clone();
                    lines.insert(at, copy);
                    continue;
                }
                2 => {
                    lines.insert(at, self.any(&TOML).to_string());
                    continue;
                }
                3 => {
                    lines.swap(at, other);
                    continue;
                }
                4 => {
                    let mut line = std::mem::take(&mut lines[at]).into_bytes();
                    self.change(&mut line, &TOML, b"=\"[,{", b"\"],}");
                    lines[at] = String::from_utf8_lossy(&line).into_owned();
                    continue;
                }
                5 => format!("'{}'", String::from_utf8_lossy(&self.pieces(&[]))),
                _ => self.any(&TOML).to_string(),
            };
            if let Some((key, _)) = lines[at].split_once('=') {
                lines[at] = format!("{key}= {value}");
            }
        }
        lines.join("\n").into_bytes()
    }

    /// Changes an array's header so that it may contradict the data, and cuts or extends the data.
    fn array(&mut self, file: &[u8]) -> Vec<u8> {
        let mut file = file.to_vec();
        let start = if file[6] == 1 { 10 } else { 12 };
        let end = file.iter().position(|byte| *byte == b'\n').map_or(file.len(), |at| at + 1);
        let (mut header, mut data) = (file[start..end].to_vec(), file[end..].to_vec());
        for _ in 0..self.below(4) {
            self.change(&mut header, &PYTHON, b"{:,([", b",)}]:");
        }
        file.truncate(start);
        if self.below(4) > 0 {
            file[8..].copy_from_slice(&(header.len() as u32).to_le_bytes()[..start - 8]);
        }
        if self.below(4) == 0 {
            let place = self.below(start);
            file[place] = self.random.next_u32() as u8;
        }
        if self.below(4) == 0 {
            data.resize(self.below(2 * data.len()), 0);
        }
        [file, header, data].concat()
    }

    /// Makes one to five changes to a SPIR-V module.
    fn words(&mut self, module: &[u8]) -> Vec<u8> {
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let mut words: Vec<u32> = module.chunks_exact(4).map(word).collect();
        for _ in 0..=self.below(5) {
            let (at, other) = (self.below(words.len()), self.below(words.len()));
            match self.below(8) {
                0 => words[at] = self.random.next_u32(),
                1 => words[at] ^= 1 << self.below(32),
                2 => words[at] = words[other],
                3 => words[at] = self.below(64) as u32,
                4 => drop(words.remove(at)),
                5 => words.insert(at, words[other]),
                6 => {
                    // Copies roughly one instruction to another place.
                    let length = ((words[at] >> 16) as usize).clamp(1, 64).min(words.len() - at);
                    let instruction = words[at..at + length].to_vec();
                    words.splice(other..other, instruction);
                }
                _ => words.truncate(at.max(6)),
            }
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Appends pieces of expressions to a valid expression, or to nothing.
    fn pieces(&mut self, text: &[u8]) -> Vec<u8> {
        let mut text = if self.below(2) == 0 { vec![] } else { text.to_vec() };
        for _ in 0..self.below(12) {
            text.extend(self.any(&EXPRESSIONS).bytes());
            text.extend(self.any(&OPERATORS).bytes());
        }
        if self.below(2) == 0 {
            text.extend(self.any(&EXPRESSIONS).bytes());
        }
        if self.below(4) == 0 {
            self.change(&mut text, &EXPRESSIONS, b"+-*/(, ", b"+-*/), ");
        }
        if self.below(16) == 0 {
            text = text.repeat(self.below(100));
        }
        text
    }
}

/// Returns records of the current and the previous schema; one has few samples, for many executions per second.
fn records() -> Vec<Vec<u8>> {
    let old = include_str!("../tests/fixtures/run-1.json");
    let mut record = parse_record(old.as_bytes(), "corpus", &CATALOGUE).expect("the fixture is a record").record;
    let whole = serde_json::to_vec(&record).expect("JSON");
    record.cases.truncate(1);
    if let Outcome::Measured(measured) = &mut record.cases[0].outcome {
        measured.samples.truncate(2);
    }
    vec![old.as_bytes().to_vec(), whole, serde_json::to_vec(&record).expect("JSON")]
}

/// Returns [`DESCRIPTION`] many times and the examples' descriptions once, because the examples' kernels are compiled
/// in each execution, which is slow.
fn descriptions() -> Vec<Vec<u8>> {
    let examples = [
        include_str!("kernels/matmul.toml"),
        include_str!("kernels/q4_0.toml"),
        include_str!("kernels/reduction.toml"),
        include_str!("kernels/scan.toml"),
        include_str!("kernels/softmax.toml"),
    ];
    std::iter::repeat_n(DESCRIPTION, 95).chain(examples).map(|text| text.as_bytes().to_vec()).collect()
}

/// Returns an array of each format version, and one with contiguous columns.
fn arrays() -> Vec<Vec<u8>> {
    let file = |version: u8, order: &str| {
        let header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': (2, 3), }}          \n");
        let length = (header.len() as u32).to_le_bytes();
        let length = &length[..if version == 1 { 2 } else { 4 }];
        [&b"\x93NUMPY"[..], &[version, 0], length, header.as_bytes(), &[0; 24]].concat()
    };
    vec![file(1, "False"), file(2, "False"), file(3, "False"), file(1, "True")]
}

/// Returns the description's kernel and built-in kernels.
fn modules() -> Vec<Vec<u8>> {
    let mut all = vec![compiled()];
    for name in ["matmul", "lu", "collectives", "row-sum"] {
        let variants = CATALOGUE.find(name).into_iter().flat_map(|algorithm| algorithm.variants.iter());
        let shaders = variants.filter_map(|variant| variant.shaders(DType::F32, Layout::Nn)).flatten();
        // Kernels with texel views are refused as users' kernels.
        let modules = shaders.map(|shader| shader.spirv.to_vec()).filter(|spirv| check_kernel(spirv).is_ok());
        all.extend(modules.take(8));
    }
    all
}

/// Returns those of [`modules`] that the simulator takes: the defaults of some constants do not go together.
fn simulated_modules() -> Vec<Vec<u8>> {
    modules().into_iter().filter(|spirv| try_kernel(spirv).is_ok()).collect()
}

fn expressions() -> Vec<Vec<u8>> {
    let all =
        ["cdiv(M, 64) * 4", "1 / sqrt(K)", "M * K <= 16384 && K % 32 == 0", "2^3^2 - -1", "min(M, 3) + max(1, N)"];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Compiles [`KERNEL`] to SPIR-V.
fn compiled() -> Vec<u8> {
    let compiler = shaderc::Compiler::new().expect("shaderc starts");
    let mut options = shaderc::CompileOptions::new().expect("shaderc starts");
    options.set_target_env(shaderc::TargetEnv::Vulkan, shaderc::EnvVersion::Vulkan1_2 as u32);
    let kind = shaderc::ShaderKind::Compute;
    compiler
        .compile_into_spirv(KERNEL, kind, "k.comp", "main", Some(&options))
        .expect("it compiles")
        .as_binary_u8()
        .to_vec()
}

/// Makes every output that a record has: exports, tables, a comparison and a page.
fn print_everything(record: Record, other: &Record) {
    for format in Format::ALL {
        // An error is a valid result: not every format can hold every record.
        let _ = format.export(&record, None);
    }
    let view = tables::View::of_width(80);
    let _ = (tables::compact(&record, &view), tables::long(&record, &view), tables::notes(&record, true));
    let _ = compare(std::slice::from_ref(other), std::slice::from_ref(&record), &Settings::default());
    let _ = html::report(&[NamedRecord::new("fuzz", record)], None);
}

struct Options {
    target: Target,
    executions: u64,
    seconds: u64,
    seed: u64,
}

fn options() -> Result<Options, String> {
    let mut arguments = std::env::args().skip(1);
    let names = TARGETS.map(|target| target.name).join(", ");
    let name = arguments.next().ok_or(format!("name a target: {names}"))?;
    let target = TARGETS.into_iter().find(|target| target.name == name);
    let target = target.ok_or(format!("unknown target '{name}'; available: {names}"))?;
    let mut options = Options { target, executions: u64::MAX, seconds: u64::MAX, seed: 1 };
    while let Some(name) = arguments.next() {
        let field = match name.as_str() {
            "--executions" => &mut options.executions,
            "--seconds" => &mut options.seconds,
            "--seed" => &mut options.seed,
            _ => return Err(format!("unknown option '{name}'; available: --executions N, --seconds N, --seed N")),
        };
        let value = arguments.next().ok_or(format!("{name} needs a number"))?;
        *field = value.parse().map_err(|_| format!("malformed {name} '{value}'; write a whole number"))?;
    }
    Ok(options)
}

/// Execution in progress: its start, seed and input.
type Trial = Arc<Mutex<Option<(Instant, u64, Vec<u8>)>>>;

/// Ends the program when an input takes too long.
fn watch(target: &'static str, trial: Trial) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let trial = trial.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, seed, input)) = trial.as_ref().filter(|(started, ..)| started.elapsed() > TIMEOUT) {
                fail(target, "takes longer than it may", *seed, input);
            }
        }
    });
}

/// Saves the input, prints how to repeat the execution and ends the program.
fn fail(target: &str, what: &str, seed: u64, input: &[u8]) -> ! {
    let path = std::env::temp_dir().join(format!("gpukern-fuzz-{target}-{seed}"));
    let saved = std::fs::write(&path, input).map_or_else(|e| format!("is lost: {e}"), |()| path.display().to_string());
    println!("{target}: an input {what}: fuzz {target} --executions 1 --seed {seed}; {saved}");
    std::process::exit(1)
}

fn main() -> Result<(), String> {
    let Options { target, executions, seconds, seed } = options()?;
    let (fixture, corpus) = (Fixture::new(), (target.corpus)());
    for input in &corpus {
        // Mutations of an invalid file would reach only the first check. Arrays with contiguous columns are refused.
        assert!((target.accepts)(input, &fixture) || target.name == "arrays", "{}", String::from_utf8_lossy(input));
    }
    let trial = Trial::default();
    watch(target.name, Arc::clone(&trial));
    let set = |to| *trial.lock().unwrap_or_else(PoisonError::into_inner) = to;
    let (started, limit) = (Instant::now(), Duration::from_secs(seconds));
    let (mut done, mut accepted, mut slowest) = (0u64, 0u64, Duration::ZERO);
    while done < executions && started.elapsed() < limit {
        let seed = seed.wrapping_add(done);
        let mut mutator = Mutator { random: ChaCha8Rng::seed_from_u64(seed) };
        let first = mutator.below(corpus.len());
        let input = (target.mutate)(&mut mutator, &corpus[first]);
        let start = Instant::now();
        set(Some((start, seed, input.clone())));
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (target.accepts)(&input, &fixture)));
        set(None);
        accepted += u64::from(answer.unwrap_or_else(|_| fail(target.name, "panics", seed, &input)));
        (done, slowest) = (done + 1, slowest.max(start.elapsed()));
    }
    println!(
        "{}: {done} executions in {:.1} s, no panic; {accepted} inputs were accepted; the slowest took {:.2} ms",
        target.name,
        started.elapsed().as_secs_f64(),
        1e3 * slowest.as_secs_f64(),
    );
    Ok(())
}
