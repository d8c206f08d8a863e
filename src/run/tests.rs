//! Descriptions as people write them: what becomes of right ones, and what is said of wrong ones.

use super::description::Description;
use super::fault::Described;
use super::job::{BindingKind, Fill, Reference, Role, Tolerance, Undertaking};
use super::options::{Fields, describe};
use super::resolve::resolve;
use crate::basis::error::Error;
use clap::Parser;
use std::path::{Path, PathBuf};

/// Three aliases of one binding, a uniform block, a specialized work-group, push constants of several types.
const KERNEL: &str = r#"#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#include "scale.glsl"
layout(local_size_x_id = 0, local_size_y = 2) in;
layout(constant_id = 1) const uint BM = 64;
layout(constant_id = 2) const bool FAST = false;
layout(constant_id = 3) const float SLOPE = 0.5;
layout(constant_id = 4) const int SHIFT = -3;
layout(set = 0, binding = 0) readonly buffer A { A_TYPE data_a[]; };
layout(set = 0, binding = 0) readonly buffer A4 { vec4 data_a4[]; };
layout(set = 1, binding = 3) buffer D { float data_d[]; };
layout(set = 0, binding = 2) uniform Shape { uint width; vec4 bias; };
layout(push_constant) uniform P { uint M; int first; float scale; uvec2 size; uint64_t long; float16_t half; };
shared float partial[BM];
void main() {
    uint i = gl_GlobalInvocationID.x;
    partial[i % BM] = SCALE;
    if (i < M) data_d[i] = float(data_a[i]) * scale + data_a4[0].x + float(size.y + uint(first) + uint(long) + width)
        + float(half) + (FAST ? 1.0 : SLOPE) + float(SHIFT) + bias.x;
}
"#;

const WGSL: &str = "
override BLOCK: u32 = 64;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> d: array<f32>;
@compute @workgroup_size(BLOCK) fn double(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&d) { d[id.x] = 2.0 * a[id.x]; }
}
";

const COPY: &str = "#version 460
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) writeonly buffer D { float d[]; };
void main() { d[gl_GlobalInvocationID.x] = a[gl_GlobalInvocationID.x]; }
";

const ADDRESS: &str = "#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform P { Floats A; Floats D; uint N; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < N) D.at[i] = A.at[i]; }
";

const RIGHT: &str = r#"
[kernel]
source = "k.comp"
define = { A_TYPE = "float16_t" }
[axes]
M = "512..1024"
K = [4, "M/2"]
[spec]
BM = [64, 128]
FAST = true
SLOPE = "1/4"
0 = 32
[where]
legal = "BM * K <= 65536"
[push]
first = -7
scale = "1/sqrt(M)"
"size.x" = "K"
"size.y" = 2
long = "2^40"
half = 0.5
[buffer.A]
type = "f16"
shape = ["M", "K"]
fill = "uniform(-1, 1)"
[buffer.D]
type = "f32"
shape = ["M"]
check = { nmse = 1e-6 }
[buffer.Shape]
type = "bytes"
shape = 32
fill = "zero"
[dispatch]
groups = ["cdiv(M, local_x)", "cdiv(BM, local_y)"]
[work]
flops = "2*M*K"
"#;

/// A folder with the kernels.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("k.comp", KERNEL);
    write("scale.glsl", "#define SCALE 2.0\n");
    write("k.wgsl", WGSL);
    write("copy.comp", COPY);
    write("copy2.comp", COPY);
    write("address.comp", ADDRESS);
    write("broken.comp", "#version 460\nvoid main() { undeclared = 1; }\n");
    write("broken.wgsl", "fn main() { let x: f32 = 1u; }\n");
    write("two.wgsl", &format!("{WGSL}@compute @workgroup_size(1) fn other() {{ d[0] = a[0]; }}\n"));
    write("nothing.wgsl", "fn helper() {}\n");
    write(
        "image.comp",
        "#version 460\nlayout(local_size_x = 1) in;\nlayout(set = 0, binding = 0, r32f) uniform image2D I;\n\
                         void main() { imageStore(I, ivec2(0), vec4(0)); }\n",
    );
    write(
        "array.comp",
        "#version 460\nlayout(local_size_x = 1) in;\nlayout(set = 0, binding = 0) buffer A { float a[]; } A[2];\n\
                         void main() { A[0].a[0] = 0; }\n",
    );
    write("k.spv", "SPIR-V it is not");
    write("k.txt", "");
    write("k.slang", "");
    folder
}

fn described(folder: &Path, text: &str) -> Result<Described, Error> {
    let description = Description::parse(text).map_err(Error::Usage)?;
    let file = Some((folder.join("k.toml"), text.to_string()));
    Ok(Described { description, folder: folder.to_path_buf(), file })
}

fn resolved(folder: &Path, text: &str) -> Result<Undertaking, String> {
    let described = described(folder, text).map_err(|e| e.to_string())?;
    resolve(&[described]).map_err(|e| e.to_string())
}

#[test]
fn a_description_becomes_numbers_and_bytes() {
    let folder = folder();
    let run = resolved(folder.path(), RIGHT).expect("it is right");
    assert_eq!((run.name.as_str(), run.axes.as_slice()), ("k", &["M".to_string(), "K".to_string()][..]));
    assert_eq!(run.modules.len(), 1);
    assert_eq!(run.modules[0].files.len(), 2, "{:?}", run.modules[0].files);
    let choices: Vec<_> = run.contenders.iter().map(|contender| contender.choice.clone()).collect();
    assert_eq!(choices, [64, 128].map(|bm| vec![("BM".to_string(), bm.to_string())]));
    assert_eq!(
        run.points.iter().map(|p| p.values.clone()).collect::<Vec<_>>(),
        [[512, 4], [512, 256], [1024, 4], [1024, 512]]
    );
    let point = &run.points[3];
    assert_eq!(point.work.operations, 2 * 1024 * 512);
    assert_eq!(point.work.bytes.0, 1024 * 512 * 2 + 1024 * 4 + 32);
    let [a, d, shape] = &point.buffers[..] else { panic!("{:?}", point.buffers) };
    assert_eq!(
        (a.role, a.fill.clone(), a.shape.as_slice()),
        (Role::Input, Some(Fill::Uniform { low: -1.0, high: 1.0 }), &[1024, 512][..])
    );
    assert_eq!((d.role, d.tolerance, d.fill.clone()), (Role::Output, Tolerance::Nmse(1e-6), None));
    assert_eq!(shape.bytes(), 32);
    assert_eq!(point.reference, Reference::None);
    assert_eq!(point.jobs[1], Err("where.legal does not hold: BM * K <= 65536".into()), "128 × 512 is 65536");
}

#[test]
fn constants_push_constants_grid_and_bindings_are_packed_as_the_kernel_declares_them() {
    let folder = folder();
    let text = RIGHT.replace("<= 65536", "<= 65536 + 1").replace("M = \"512..1024\"", "M = 1024");
    let run = resolved(folder.path(), &text).expect("it is right");
    let job = run.points[1].jobs[1].as_ref().expect("it is legal");
    let pass = &job.passes[0];
    let constants: Vec<_> = pass.constants.iter().map(|c| (c.id, c.bits, c.bytes)).collect();
    let slope = u64::from(0.25f32.to_bits());
    assert_eq!(constants, [(1, 128, 4), (2, 1, 4), (3, slope, 4), (0, 32, 4)]);
    assert_eq!(pass.groups, [32, 64, 1]);
    let push: Vec<u8> = [
        &1024u32.to_le_bytes()[..],
        &(-7i32).to_le_bytes(),
        &0.03125f32.to_le_bytes(),
        &[0; 4],
        &512u32.to_le_bytes(),
        &2u32.to_le_bytes(),
        &(1u64 << 40).to_le_bytes(),
        &half::f16::from_f32(0.5).to_le_bytes(),
    ]
    .concat();
    assert_eq!(pass.push, push);
    let bindings: Vec<_> = pass.bindings.iter().map(|b| (b.set, b.binding, b.kind, b.buffer)).collect();
    let (storage, uniform) = (BindingKind::Storage, BindingKind::Uniform);
    assert_eq!(bindings, [(0, 0, storage, 0), (0, 2, uniform, 2), (1, 3, storage, 1)]);
}

#[test]
fn overrides_of_wgsl_are_compiled_in_for_each_choice() {
    let folder = folder();
    let text = "[kernel]\nsource = 'k.wgsl'\n[axes]\nN = 4096\n[spec]\nBLOCK = [32, 64]\n\
                [buffer.a]\ntype = 'f32'\nshape = ['N']\nfill = 'normal'\n[buffer.d]\ntype = 'f32'\nshape = 'N'\n\
                [dispatch]\ngroups = 'cdiv(N, local_x)'\n";
    let run = resolved(folder.path(), text).expect("it is right");
    let groups: Vec<_> = run.points[0].jobs.iter().flatten().map(|job| job.passes[0].groups[0]).collect();
    assert_eq!((groups, run.modules.len()), (vec![128, 64], 2));
    assert_eq!(run.points[0].buffers[1].role, Role::Output);
}

#[test]
fn addresses_passes_scratch_and_references_find_their_buffers() {
    let folder = folder();
    let text = "[[pass]]\nsource = 'copy.comp'\nbind = { D = 'T' }\ngroups = 'N/64'\n\
                [[pass]]\nsource = 'address.comp'\npush = { A = 'T' }\ngroups = 'N/64'\n\
                [axes]\nN = 128\n[buffer.T]\ntype = 'f32'\nshape = 'N'\nscratch = true\n\
                [buffer.A]\ntype = 'f32'\nshape = 'N'\nfill = 'iota'\n[buffer.D]\ntype = 'f32'\nshape = 'N'\n\
                [reference]\nkernel = 'copy.comp'\ngroups = 2\n";
    let run = resolved(folder.path(), text).expect("it is right");
    let point = &run.points[0];
    assert_eq!(point.buffers.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["A", "D"]);
    let job = point.jobs[0].as_ref().expect("a job");
    assert_eq!(job.scratch[0].name, "T");
    assert_eq!(job.passes[0].bindings.iter().map(|b| b.buffer).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(job.passes[1].addresses.iter().map(|a| (a.offset, a.buffer)).collect::<Vec<_>>(), [(0, 2), (8, 1)]);
    let Reference::Kernel(reference) = &point.reference else { panic!("{:?}", point.reference) };
    assert_eq!(reference.passes[0].bindings.iter().map(|b| b.buffer).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_description_goes_through_json_unchanged() {
    let folder = folder();
    let run = resolved(folder.path(), RIGHT).expect("it is right");
    let text = serde_json::to_string(&run).expect("JSON");
    assert_eq!(serde_json::from_str::<Undertaking>(&text).expect("the same"), run);
}

#[derive(Parser)]
struct Line {
    kernel: Vec<PathBuf>,
    #[command(flatten)]
    fields: Fields,
}

fn typed(arguments: &[&str]) -> Result<Undertaking, String> {
    let line = Line::try_parse_from(std::iter::once(&"run").chain(arguments)).map_err(|e| e.to_string())?;
    let described = describe(&line.kernel, None, &line.fields).map_err(|e| e.to_string())?;
    resolve(&described).map_err(|e| e.to_string())
}

#[test]
fn options_say_what_a_description_says() {
    let folder = folder();
    let [copy, k] = ["copy.comp", "k.comp"].map(|name| folder.path().join(name).display().to_string());
    let run = typed(&[
        &copy,
        "-s",
        "N=64,128",
        "--buffer",
        "A=f32[N]:uniform(-1,1)",
        "--buffer",
        "D=f32[N]",
        "--check",
        "D=exact",
        "--groups",
        "N/64",
        "--flops",
        "N",
        "--right",
        &copy,
    ]);
    // The reference says its own grid.
    assert_eq!(run.expect_err("no grid").split(": ").last(), Some("[\"cdiv(N, local_x)\", 1, 1]"));
    let description = folder.path().join("copy.toml");
    let text = "[kernel]\nsource='copy.comp'\n[axes]\nN=64\n[buffer.A]\ntype='f32'\nshape='N'\nfill='zero'\n[buffer.D]\ntype='f32'\n\
                shape='N'\n[dispatch]\ngroups='N/64'\n";
    std::fs::write(&description, text).expect("written");
    let description = description.display().to_string();
    let run = typed(&[&description, "-s", "N=64,128", "--check", "D=ulp:2"]).expect("it is right");
    assert_eq!(run.points.len(), 2);
    assert_eq!(run.points[1].buffers[1].tolerance, Tolerance::Ulp(2));
    let two =
        typed(&[&description, &folder.path().join("copy2.comp").display().to_string(), &copy]).expect("two kernels");
    assert_eq!(two.contenders.iter().map(|c| c.kernel.as_str()).collect::<Vec<_>>(), ["copy2", "copy"]);
    let lacks = typed(&[&k, "-D", "A_TYPE=float"]).expect_err("nothing is described");
    for part in
        ["buffer A (set 0, binding 0): --buffer 'A=f32[N]:uniform(-1,1)'", "push constant size.y (u32)", "--init"]
    {
        assert!(lacks.contains(part), "{lacks}");
    }
}

#[test]
fn what_init_prints_is_a_description() {
    let folder = folder();
    for name in ["copy.comp", "k.wgsl", "address.comp"] {
        let path = folder.path().join(name);
        let described = describe(&[path], None, &Fields::default()).expect("a kernel");
        let text = super::init::init(&described[0]).expect("a description");
        let text = text.replace("1024..65536", "1024");
        let run = resolved(Path::new(""), &text);
        assert!(run.is_ok() || name == "address.comp", "{name}: {run:?}\n{text}");
        if name == "copy.comp" {
            insta::assert_snapshot!(text.replace(&folder.path().display().to_string(), ""));
        }
    }
}
