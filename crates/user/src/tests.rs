//! Resolves descriptions as users write them, and checks the messages for wrong ones.

use super::description::{Described, Description, Formula, KernelFields, OneOrMany};
use super::init::{complete, init};
use super::loaded::load_kernels;
use super::options::describe;
use super::resolve::resolve;
use super::resolved::{Fill, PassList, Reference, ResolvedBuffer, ResolvedProblem, Tolerance};
use crate::basis::dtype::DType;
use crate::kernel::buffer::Role;
use crate::kernel::image::TexelFilter;
use crate::kernel::interface::SlotKind;
use crate::kernels::CATALOGUE;
use crate::plan::request::FieldOptions;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Three aliases of one binding, a uniform block, a specialized work-group size, push constants of several types.
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
layout(push_constant) uniform P { uint M; int first; float scale; uvec2 size; uint64_t big; float16_t part; };
shared float partial[BM];
void main() {
    uint i = gl_GlobalInvocationID.x;
    partial[i % BM] = SCALE;
    if (i < M) data_d[i] = float(data_a[i]) * scale + data_a4[0].x + float(size.y + uint(first) + uint(big) + width)
        + float(part) + (FAST ? 1.0 : SLOPE) + float(SHIFT) + bias.x;
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

/// Two-dimensional work-groups, a float among the push constants, and no readonly or writeonly block.
const GRID: &str = "#version 460
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer S { uint s[]; };
layout(set = 0, binding = 2) buffer D { float d[]; };
layout(push_constant) uniform P { uint rows, columns; float eps; };
void main() {
    uint y = gl_GlobalInvocationID.y, x = gl_GlobalInvocationID.x;
    if (y < rows && x < columns) { d[y * columns + x] = a[y * columns + x] + eps; atomicAdd(s[y], 1u); }
}
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
legal = "BM * K < 65536"
[push]
first = -7
scale = "1/sqrt(M)"
"size.x" = "K"
"size.y" = 2
big = "2^40"
part = 0.5
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

/// Writes a file in `folder`, and the folders on the way to it. Returns its path.
fn write(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

/// Writes the kernels to a folder.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let head = "#version 460\nlayout(local_size_x = 1) in;\nlayout(set = 0, binding = 0";
    let two = format!("{WGSL}@compute @workgroup_size(1) fn other() {{ d[0] = a[0]; }}\n");
    let image = format!("{head}, r32f) uniform image2D I;\nvoid main() {{ imageStore(I, ivec2(0), vec4(0)); }}\n");
    let array = format!("{head}) buffer A {{ float a[]; }} many[2];\nvoid main() {{ many[0].a[0] = 0; }}\n");
    for (name, text) in [
        ("k.comp", KERNEL),
        ("scale.glsl", "#define SCALE 2.0\n"),
        ("k.wgsl", WGSL),
        ("copy.comp", COPY),
        ("copy2.comp", COPY),
        ("pushed.comp", &COPY.replace("void", "layout(push_constant) uniform P { uint n, m; };\nvoid")),
        ("address.comp", ADDRESS),
        ("broken.comp", "#version 460\nvoid main() { undeclared = 1; }\n"),
        ("broken.wgsl", "fn main() { let x: f32 = 1u; }\n"),
        ("two.wgsl", &two),
        ("nothing.wgsl", "fn helper() {}\n"),
        ("image.comp", &image),
        ("images.comp", IMAGE_KERNEL),
        ("array.comp", &array),
        ("k.spv", "SPIR-V it is not"),
        ("k.txt", ""),
        ("k.slang", ""),
    ] {
        write(&folder, name, text);
    }
    folder
}

/// Resolves the description `text` of a file in `folder`.
fn resolved(folder: &Path, text: &str) -> Result<ResolvedProblem, String> {
    let description = Description::parse(text)?;
    let file = Some((folder.join("k.toml"), text.to_string()));
    let described = Described { description, folder: folder.to_path_buf(), file, ..Described::default() };
    resolve(&CATALOGUE, &[described]).map_err(|e| e.to_string())
}

/// Returns the passes of a configuration at a point.
fn passes(problem: &ResolvedProblem, point: usize, configuration: usize) -> &PassList {
    problem.points[point].pass_lists[configuration].as_ref().expect("it is not excluded")
}

/// Returns the indices of the buffers that a dispatch binds.
fn bound(list: &PassList, dispatch: usize) -> Vec<usize> {
    list.dispatches[dispatch].descriptors.iter().map(|descriptor| descriptor.at.buffer.0).collect()
}

#[test]
fn a_description_becomes_numbers_and_bytes() {
    let folder = folder();
    let problem = resolved(folder.path(), RIGHT).expect("it is right");
    assert_eq!((&*problem.name, problem.axes.join(" ")), ("k", "M K".to_string()));
    assert_eq!(problem.modules.len(), 1);
    assert_eq!(problem.modules[0].files.len(), 2, "{:?}", problem.modules[0].files);
    let choices: Vec<_> = problem.configurations.iter().map(|configuration| configuration.choice.clone()).collect();
    assert_eq!(choices, [64, 128].map(|bm| vec![("BM".to_string(), bm.to_string())]));
    let points: Vec<_> = problem.points.iter().map(|point| point.values.clone()).collect();
    assert_eq!(points, [[512, 4], [512, 256], [1024, 4], [1024, 512]]);
    let point = &problem.points[3];
    assert_eq!(point.work.operations, 2 * 1024 * 512);
    assert_eq!(point.work.bytes.0, 1024 * 512 * 2 + 1024 * 4 + 32);
    let [a, d, shape] = &point.buffers[..] else { panic!("{:?}", point.buffers) };
    assert_eq!((a.role, &a.shape[..]), (Role::Input, &[1024, 512][..]));
    assert_eq!(a.fill, Some(Fill::Uniform { low: -1.0, high: 1.0 }));
    assert_eq!((d.role, &d.tolerance, &d.fill), (Role::Output, &Tolerance::Nmse(1e-6), &None));
    assert_eq!(shape.bytes(), 32);
    assert_eq!(point.reference, Reference::None);
    assert_eq!(point.pass_lists[1], Err("where.legal does not hold: BM * K < 65536".into()), "128 × 512 is 65536");
}

#[test]
fn constants_push_constants_and_bindings_match_the_kernel() {
    let folder = folder();
    let text = RIGHT.replace("< 65536", "<= 65536").replace("M = \"512..1024\"", "M = 1024");
    let problem = resolved(folder.path(), &text).expect("it is right");
    let dispatch = &passes(&problem, 1, 1).dispatches[0];
    let constants: Vec<_> = dispatch.constants.iter().map(|c| (c.id, c.bits, c.bytes)).collect();
    let slope = u64::from(0.25f32.to_bits());
    assert_eq!(constants, [(1, 128, 4), (2, 1, 4), (3, slope, 4), (0, 32, 4)]);
    assert_eq!(dispatch.groups, [32, 64, 1]);
    let push: Vec<u8> = [
        &1024u32.to_le_bytes()[..],
        &(-7i32).to_le_bytes(),
        &0.03125f32.to_le_bytes(),
        &[0; 4],
        &512u32.to_le_bytes(),
        &2u32.to_le_bytes(),
        &(1u64 << 40).to_le_bytes(),
        &half::f16::from_f32(0.5).to_le_bytes(),
        // Vulkan requires multiples of four bytes.
        &[0; 2],
    ]
    .concat();
    assert_eq!(dispatch.push, push);
    let bindings = dispatch.descriptors.iter().map(|own| (own.at.set, own.at.binding, own.at.kind, own.at.buffer.0));
    let expected = [(0, 0, SlotKind::Storage, 0), (0, 2, SlotKind::Uniform, 2), (1, 3, SlotKind::Storage, 1)];
    assert_eq!(bindings.collect::<Vec<_>>(), expected);
}

#[test]
fn wgsl_overrides_are_compiled_in_for_each_choice() {
    let folder = folder();
    let text = "[kernel]\nsource = 'k.wgsl'\n[axes]\nN = 4096\n[spec]\nBLOCK = [32, 64]\n\
                [buffer.a]\ntype = 'f32'\nshape = ['N']\nfill = 'normal'\n[buffer.d]\ntype = 'f32'\nshape = 'N'\n\
                [dispatch]\ngroups = 'cdiv(N, local_x)'\n";
    let problem = resolved(folder.path(), text).expect("it is right");
    assert_eq!([0, 1].map(|choice| passes(&problem, 0, choice).dispatches[0].groups[0]), [128, 64]);
    assert_eq!((problem.points[0].pass_lists.len(), problem.modules.len()), (2, 2));
    assert_eq!(problem.points[0].buffers[1].role, Role::Output);
}

/// Overrides with and without an id, a default and a use; two lengths of arrays follow from them.
const OVERRIDES: &str = "
@id(42) override BLOCK: u32;
override DOUBLE = 2 * BLOCK;
override gain: f32;
const SEVEN = 7;
override seven: u32 = SEVEN;
override unused: f32;
var<workgroup> first: array<f32, BLOCK + 1>;
var<workgroup> second: array<f32, DOUBLE>;
@group(0) @binding(0) var<storage, read_write> d: array<f32>;
@compute @workgroup_size(BLOCK) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    d[id.x] = gain + f32(seven + DOUBLE) + first[0] + second[1];
}
";

#[test]
fn overrides_need_no_default_and_may_follow_from_others() {
    let folder = folder();
    let kernel = write(&folder, "overrides.wgsl", OVERRIDES);
    let described = describe(&[PathBuf::from(&kernel)], None, &FieldOptions::default()).expect("a kernel");
    let text = init(&described[0], None).expect("a description");
    let spec: Vec<_> = text.lines().skip_while(|line| !line.starts_with("[spec]")).skip(1).take(3).collect();
    let expected = [
        "BLOCK = 8                     # (…) u32, without a default",
        "gain = 0.75                   # (…) f32, without a default",
        "seven = 7                     # u32",
    ];
    assert_eq!(spec, expected, "{text}");
    assert!(!text.contains("DOUBLE") && !text.contains("unused"), "{text}");
    let text = text.replace(",1024..65536", "");
    let groups = |spec: &str, groups: &str| {
        let text = text.replace("BLOCK = 8 ", spec).replace("cdiv(N, local_x)", groups);
        resolved(Path::new(""), &text).map(|problem| passes(&problem, 0, 0).dispatches[0].groups[0])
    };
    assert_eq!(groups("BLOCK = 8 ", "cdiv(N, local_x)"), Ok(128));
    assert_eq!(groups("42 = 16 ", "DOUBLE + local_x + seven"), Ok(32 + 16 + 7));
    assert_eq!(groups("BLOCK = 16\nDOUBLE = 5 ", "DOUBLE"), Ok(5));
    let condition = "[where]\na = \"DOUBLE == 32 && local_x == 16\"\n";
    let problem =
        resolved(Path::new(""), &(text.replace("BLOCK = 8 ", "BLOCK = 16 ") + condition)).expect("it is right");
    assert_eq!(passes(&problem, 0, 0).dispatches[0].groups[0], 64);
    let message = groups("", "1").expect_err("BLOCK has no value");
    assert!(message.contains("spec.BLOCK: has no value, and no default in"), "{message}");
    let sets = ["buffer.d={ type = 'f32', shape = [64] }", "dispatch.groups=1", "spec.BLOCK=64"];
    let message = typed(&[&kernel], &[], &sets).expect_err("gain has no value");
    assert!(message.contains("spec.gain: has no value"), "{message}");
    let lacks = typed(&[&kernel], &[], &["spec.42=64"]).expect_err("nothing is described");
    assert!(lacks.contains("    --set spec.gain=0.75 \\\n"), "{lacks}");
    assert!(!lacks.contains("BLOCK"), "{lacks}");
}

#[test]
fn addresses_passes_scratch_and_references_use_the_right_buffers() {
    let folder = folder();
    let text = "[[pass]]\nsource = 'copy.comp'\nbind = { D = 'T' }\ngroups = 'N/64'\n\
                [[pass]]\nsource = 'address.comp'\npush = { A = 'T' }\ngroups = 'N/64'\n\
                [axes]\nN = 128\n[buffer.T]\ntype = 'f32'\nshape = 'N'\nscratch = true\n\
                [buffer.A]\ntype = 'f32'\nshape = 'N'\nfill = 'iota'\n[buffer.D]\ntype = 'f32'\nshape = 'N'\n\
                [reference]\nkernel = 'copy.comp'\ngroups = 2\n";
    let problem = resolved(folder.path(), text).expect("it is right");
    let point = &problem.points[0];
    assert_eq!(point.buffers.iter().map(|buffer| &*buffer.name).collect::<Vec<_>>(), ["A", "D"]);
    let list = passes(&problem, 0, 0);
    assert_eq!(list.scratch[0].name, "T");
    assert_eq!(bound(list, 0), [0, 2]);
    let addresses: Vec<_> = list.dispatches[1].addresses.iter().map(|a| (a.offset, a.buffer.0)).collect();
    assert_eq!(addresses, [(0, 2), (8, 1)]);
    let Reference::Kernel(reference) = &point.reference else { panic!("{:?}", point.reference) };
    assert_eq!(bound(reference, 0), [0, 1]);
}

/// Resolves kernels and descriptions with these values of `--size` and `--set`.
fn typed(kernels: &[&str], size: &[&str], set: &[&str]) -> Result<ResolvedProblem, String> {
    let [size, set] = [size, set].map(|texts| texts.iter().map(ToString::to_string).collect());
    let kernels: Vec<_> = kernels.iter().map(PathBuf::from).collect();
    let described = describe(&kernels, None, &FieldOptions { size, set, ..FieldOptions::default() });
    resolve(&CATALOGUE, &described.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

/// Kernel that doubles A with a constant, a push constant and a buffer that [`COPY`] lacks.
const TILED: &str = "#version 460
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint TILE = 16;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) buffer D { float d[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(push_constant) uniform P { float alpha; };
void main() { uint i = gl_GlobalInvocationID.x; d[i] = alpha * a[i] + bias[i % TILE]; }
";

const TILED_DESCRIPTION: &str = "[kernel]\nsource = 'tiled.comp'\n[axes]\nN = 128\n[spec]\nTILE = [8, 16]\n\
    [where]\nfits = 'N % TILE == 0'\n[push]\nalpha = 0.5\n\
    [buffer.A]\ntype = 'f32'\nshape = 'N'\nfill = 'iota'\n[buffer.D]\ntype = 'f32'\nshape = 'N'\n\
    [buffer.Bias]\ntype = 'f32'\nshape = 'N'\nfill = 'iota'\n[dispatch]\ngroups = 'N/64'\n";

#[test]
fn a_kernel_is_run_without_what_the_description_sets_for_another() {
    let folder = folder();
    let tiled = write(&folder, "tiled.comp", TILED);
    let description = write(&folder, "tiled.toml", TILED_DESCRIPTION);
    let copy = folder.path().join("copy.comp").display().to_string();
    let brief = write(&folder, "brief.toml", "[kernel]\nsource = 'copy.comp'\n[dispatch]\ngroups = 'N/64'\n");
    let all = vec!["TILE".to_string(), "alpha".into(), "Bias".into()];
    let left_out = |problem: &ResolvedProblem| match &problem.left_out[..] {
        [own] if own.kernel == "copy" => own.names.clone(),
        others => panic!("{others:?}"),
    };
    // A kernel that works on four elements per invocation hardly needs the grid of one that works on one.
    let four = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) readonly buffer A { float a[]; };
        layout(binding = 1) writeonly buffer D { float d[]; };
        layout(push_constant) uniform P { uint n; };
        void main() { for (uint j = 0; j < MOST; j++) { uint i = gl_GlobalInvocationID.x * MOST + j; if (i < n) d[i] = a[i]; } }";
    let [one, four] = ["1", "4"].map(|most| write(&folder, &format!("of{most}.comp"), four.replace("MOST", most)));
    let shared = write(
        &folder,
        "shared.toml",
        "[kernel]\nsource = 'of1.comp'\n[axes]\nN = 256\n[push]\nn = 'N'\n[buffer.A]\ntype = 'f32'\nshape = 'N'\nfill = 'iota'\n\
         [buffer.D]\ntype = 'f32'\nshape = 'N'\n[dispatch]\ngroups = 'cdiv(N, local_x)'\n",
    );
    let grids = |kernels: &[&String]| {
        let all: Vec<&str> = std::iter::once(&shared).chain(kernels.iter().copied()).map(String::as_str).collect();
        let problem = typed(&all, &[], &[]).expect("they fit");
        problem.left_out.into_iter().find_map(|own| own.grids.map(|[grid, _]| (own.kernel, grid)))
    };
    let grid = "[cdiv(N, 4*local_x), 1, 1]".to_string();
    assert_eq!((grids(&[&one, &four]), grids(&[&one])), (Some(("of4".to_string(), grid)), None));
    let partial = |sizes: &[&str]| typed(&[&shared], sizes, &[]).expect("it fits").partial_groups;
    assert_eq!([partial(&[]), partial(&["N=256,257"])], [Some(false), Some(true)]);
    let names = |problem: &ResolvedProblem| -> Vec<String> {
        problem.configurations.iter().map(|own| format!("{} {}", own.kernel, own.choice.len())).collect()
    };
    let both = typed(&[&description, &copy, &tiled], &[], &[]).expect("one description fits two kernels");
    assert_eq!((names(&both), left_out(&both)), (words(&["copy 0", "tiled 1", "tiled 1"]), all.clone()));
    let replaced = typed(&[&description, &copy], &[], &[]).expect("its own kernel has the names");
    assert_eq!((names(&replaced), left_out(&replaced)), (words(&["copy 0"]), all.clone()));
    assert_eq!(replaced.points[0].buffers.len(), 3, "it is the same problem");
    let inherited = typed(&[&description, &brief], &["64"], &["push.alpha=2", "spec.TILE=8"]).expect("it inherits");
    assert_eq!((names(&inherited), left_out(&inherited)), (words(&["tiled 0", "copy 0"]), all));
    assert_eq!((&inherited.points[0].values, passes(&inherited, 0, 1).dispatches[0].groups[0]), (&vec![64], 1));
    // A name that no kernel has is a typo, and so is one that a description sets for its own kernel alone.
    let typos = [
        (vec![&description, &copy], "spec.TIEL=8", "--set spec.TIEL=8: spec.TIEL: copy.comp has no specialization"),
        (
            vec![&description, &brief],
            "push.alpah=2",
            "--set push.alpah=2: push.alpah: unknown push constant 'alpah'; did",
        ),
        (vec![&description, &brief], "buffer.Bais.type=f32", "--set buffer.Bais.type=f32: buffer.Bais"),
    ];
    for (files, set, expected) in typos {
        let files: Vec<&str> = files.into_iter().map(String::as_str).collect();
        let message = typed(&files, &[], &[set]).expect_err(set);
        assert!(message.starts_with(expected), "{message}");
    }
    let own = write(&folder, "own.toml", TILED_DESCRIPTION.replace("tiled.comp", "copy.comp"));
    let message = typed(&[&description, &own], &[], &[]).expect_err("its own kernel lacks it");
    assert!(message.contains("own.toml:6: spec.TILE: copy.comp has no specialization constants"), "{message}");
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn options_and_descriptions_are_equivalent() {
    let folder = folder();
    let [copy, copy2, k] =
        ["copy.comp", "copy2.comp", "k.comp"].map(|name| folder.path().join(name).display().to_string());
    let sets = [
        "buffer.A={ type = 'f32', shape = ['N'], fill = 'uniform(-1,1)' }",
        "buffer.D.type=f32",
        "buffer.D.shape=N",
        "buffer.D.check=exact",
        "dispatch.groups=[N/64, 1]",
        "work.flops=N",
        &format!("reference.kernel={copy}"),
    ];
    let problem = typed(&[&copy], &["N=64,128"], &sets);
    assert_eq!(problem.expect("a reference that states no grid has that of the kernel").points.len(), 2);
    let description = write(&folder, "copy.toml", PLAIN.replace("N = 128", "N = 64"));
    let problem = typed(&[&description], &["N=64,128"], &["buffer.D.check={ ulp = 2 }"]).expect("it is right");
    assert_eq!(problem.points.len(), 2);
    assert_eq!(problem.points[1].buffers[1].tolerance, Tolerance::Ulp(2));
    let two = typed(&[&description, &copy2, &copy], &[], &[]).expect("two kernels");
    assert_eq!(two.configurations.iter().map(|c| &*c.kernel).collect::<Vec<_>>(), ["copy2", "copy"]);
    let lacks = typed(&[&k], &[], &["kernel.define.A_TYPE=float"]).expect_err("nothing is described");
    for part in [
        "    --set 'buffer.A={ type = \"f32\", shape = [\"M\"], fill = \"varied\" }' \\\n",
        "    --set uniform.Shape.width=5 \\\n    --set uniform.Shape.bias.x=0.875 \\\n",
        "    --set push.size.x=0 \\\n    --set push.size.y=3 \\\n",
        "--init > ",
    ] {
        assert!(lacks.contains(part), "{lacks}");
    }
}

#[test]
fn kernels_of_one_name_are_told_apart_by_folder_file_or_number() {
    let folder = folder();
    let source = std::fs::read_to_string(folder.path().join("copy.comp")).expect("it is there");
    let [old, new] = ["old/copies", "new/copies"].map(|part| {
        write(&folder, &format!("{part}/copy.comp"), &source);
        write(&folder, &format!("{part}/copy.toml"), PLAIN)
    });
    let again = write(&folder, "new/copies/again.toml", PLAIN);
    let names = |files: &[&str]| -> Vec<String> {
        let problem = typed(files, &[], &[]).expect("it resolves");
        problem.configurations.into_iter().map(|configuration| configuration.kernel).collect()
    };
    assert_eq!(names(&[&old, &new]), ["copy", "new:copy"]);
    assert_eq!(names(&[&new, &again]), ["copy", "again:copy"]);
    assert_eq!(names(&[&new, &new]), ["copy", "copy-2"]);
    let [a, b] = [&old, &new].map(|description| description.replace(".toml", ".comp"));
    assert_eq!(names(&[&old, &a, &b]), ["old:copy", "new:copy"]);
}

#[test]
fn a_problem_keeps_its_name_with_another_kernel() {
    let folder = folder();
    let description = write(&folder, "copy.toml", PLAIN);
    let other = folder.path().join("copy2.comp").display().to_string();
    for files in [&[&*description][..], &[&*description, &*other]] {
        assert_eq!(typed(files, &[], &[]).expect("it runs").name, "copy");
    }
}

#[test]
fn the_only_independent_axis_needs_no_name() {
    let folder = folder();
    for axes in ["N = 128", "N = 128\nM = '2 * N'"] {
        let description = write(&folder, "copy.toml", PLAIN.replace("N = 128", axes));
        let points = typed(&[&description], &["64,256"], &[]).expect("it has one").points;
        assert_eq!(points.iter().map(|point| point.values[0]).collect::<Vec<_>>(), [64, 256], "{axes}");
    }
    let two = PLAIN.replace("N = 128", "N = 128\nM = 3") + "\n[work]\nflops = 'N * M'\n";
    let description = write(&folder, "copy.toml", two);
    let refused = typed(&[&description], &["64"], &[]).expect_err("it has two");
    assert_eq!(
        refused,
        "--size '64' is not NAME=VALUE; write --size N=512..4096, or a value for each of N, M: --size 64x64"
    );
    // In the order of the description, as tables show them.
    let points = typed(&[&description], &["64x5"], &[]).expect("each has one").points;
    assert_eq!(points[0].values, [64, 5]);
    // Or by name, as the id of a case has them.
    for sizes in [&["N=64,M=5"][..], &["M=5", "N=64"]] {
        let points = typed(&[&description], sizes, &[]).expect("each has one").points;
        assert_eq!(points[0].values, [64, 5], "{sizes:?}");
    }
    let points = typed(&[&description], &["N=64,128,M=5"], &[]).expect("N has two").points;
    assert_eq!(points.iter().map(|point| &point.values[..]).collect::<Vec<_>>(), [[64, 5], [128, 5]]);
    // A list of sizes is no product of their extents, whether on the command line or in a file.
    let file = write(&folder, "shapes.txt", "64x5  # rows, columns\n100x5\n64x7\n");
    for sizes in [&["64x5,100x5,64x7"][..], &["64x5", "100x5,64x7"], &[&*format!("@{file}")]] {
        let points = typed(&[&description], sizes, &[]).expect("each has one").points;
        let values: Vec<_> = points.iter().map(|point| &point.values[..]).collect();
        assert_eq!(values, [[64, 5], [64, 7], [100, 5]], "{sizes:?}");
    }
    let dependent = write(&folder, "dependent.toml", PLAIN.replace("N = 128", "N = 128\nM = 3\nK = 'N + M'"));
    let refused = typed(&[&dependent], &["64x5,64x5x69"], &[]).expect_err("one has a value more");
    assert!(refused.starts_with("--size '64x5,64x5x69' is not NAME=VALUE"), "{refused}");
    let refused = typed(&[&description], &["64x5", "M=7"], &[]).expect_err("M has two");
    assert_eq!(refused, "--size states M twice; write its values in one: M=5,7");
    // An axis that nothing uses would only change the name of a result.
    let unused = write(&folder, "unused.toml", PLAIN.replace("N = 128", "N = 128\nM = 3"));
    let refused = typed(&[&unused], &["M=4"], &[]).expect_err("nothing uses M");
    assert!(refused.starts_with("--size sets M, which nothing in the description uses"), "{refused}");
    typed(&[&unused], &["M=3", "N=64"], &[]).expect("M is as before");
}

/// Kernel with 64-bit constants, and one value of each kind.
const WIDE: &str = "#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(constant_id = 0) const uint64_t C = 18446744073709551615ul;
layout(constant_id = 1) const int64_t S = 1l;
layout(binding = 0) writeonly buffer Y { uint64_t y[]; };
layout(push_constant) uniform P { uint64_t add; };
void main() { y[0] = C + add + uint64_t(S); }
";

#[test]
fn integers_of_64_bits_are_exact_in_descriptions() {
    let folder = folder();
    write(&folder, "wide.comp", WIDE);
    let text = |spec: &str, push: &str| {
        format!(
            "[kernel]\nsource = 'wide.comp'\n[axes]\nN = 2\n[spec]\n{spec}\n[push]\nadd = {push}\n[buffer.Y]\n\
             type = 'u64'\nshape = 1\n[dispatch]\ngroups = 1\n"
        )
    };
    let numbers = |spec: &str, push: &str| -> Result<(Vec<u64>, u64), String> {
        let problem = resolved(folder.path(), &text(spec, push))?;
        let dispatch = &passes(&problem, 0, 0).dispatches[0];
        let push = u64::from_le_bytes(dispatch.push[..].try_into().expect("eight bytes"));
        Ok((dispatch.constants.iter().map(|constant| constant.bits).collect::<Vec<_>>(), push))
    };
    for (spec, push, expected) in [
        ("C = 18446744073709551615", "18446744073709551615", (vec![u64::MAX], u64::MAX)),
        ("C = 0xFFFFFFFFFFFFFFFF", "0xFFFFFFFFFFFFFFFF", (vec![u64::MAX], u64::MAX)),
        ("S = -9223372036854775808", "'2^64 - 1'", (vec![1 << 63], u64::MAX)),
        ("C = '2^63 + 1'\nS = 'C - 2^63'", "'C - N'", (vec![(1 << 63) + 1, 1], (1 << 63) - 1)),
        ("S = 1", "'C - 1'", (vec![1], u64::MAX - 1)),
    ] {
        assert_eq!(numbers(spec, push), Ok(expected), "{spec} {push}");
    }
    for (spec, push) in [("S = -9223372036854775809", "0"), ("S = 1", "18446744073709551616"), ("S = 1", "'C + 1'")] {
        let refused = numbers(spec, push).expect_err("too large");
        assert!(refused.contains("beyond 64 bits: integers go from -2^63 to 2^64 - 1"), "{refused}");
    }
    let kernel = Some(KernelFields { source: OneOrMany::One("wide.comp".into()), ..KernelFields::default() });
    let description = Description { kernel, ..Description::default() };
    let described = Described { description, folder: folder.path().to_path_buf(), ..Described::default() };
    let written = init(&described, None).expect("a description");
    assert!(written.contains("C = \"18446744073709551615\""), "{written}");
}

#[test]
fn choices_that_do_not_run_are_not_judged() {
    let folder = folder();
    write(&folder, "lanes.comp", LANES);
    let run_named = |name: &str, lanes: &str, all_choices: bool| {
        let text = format!(
            "[kernel]\nsource = 'lanes.comp'\n[spec]\n{name} = {lanes}\n[buffer.Y]\ntype = 'f32'\nshape = 64\n\
             [dispatch]\ngroups = '64 / LANES'\n"
        );
        let description = Description::parse(&text)?;
        let folder = folder.path().to_path_buf();
        let described = Described { description, folder, all_choices, ..Described::default() };
        resolve(&CATALOGUE, &[described]).map_err(|e| e.to_string())
    };
    let run = |lanes: &str, all_choices| run_named("LANES", lanes, all_choices);
    // A constant of `local_size_x_id` has both names.
    run_named("local_size_x", "32", false).expect("it is LANES");
    let lists = &run("[64, 0, 32, -1]", false).expect("64 is possible").points[0].pass_lists;
    assert_eq!(lists.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, false]);
    for (lanes, all_choices) in [("[64, 0]", true), ("[0, 64]", false), ("0", false)] {
        let refused = run(lanes, all_choices).expect_err("0 would run");
        assert_eq!(refused, "dispatch.groups: expression '64 / LANES' divides by zero", "{lanes}");
    }
}

/// Kernel whose work-group size is a specialization constant.
const LANES: &str = "#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 64;
layout(binding = 0) writeonly buffer Y { float y[]; };
void main() { y[gl_GlobalInvocationID.x] = LANES; }
";

/// Kernel that writes structures of a float and an integer.
const HITS: &str = "#version 450
layout(local_size_x = 64) in;
struct Hit { float t; uint id; };
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Hits { Hit hits[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < hits.length()) hits[i] = Hit(exp(x[i]), i); }
";

#[test]
fn structures_of_several_types_are_described_by_member() {
    let folder = folder();
    let kernel = write(&folder, "hits.comp", HITS);
    let described = describe(&[kernel.clone().into()], None, &FieldOptions::default()).expect("it is found");
    let written = init(&described[0], None).expect("a description");
    let hits = written.split("[buffer.Hits]").nth(1).expect("it is bound");
    assert!(hits.contains("shape = [\"N\"]                 # (…) structures of 8 bytes\n# t.check = "), "{written}");
    let written =
        written.replace(&kernel, "hits.comp").replace("# t.check = { rtol = 1e-4,", "t.check = { rtol = 1e-2,");
    let hits = |text: &str| {
        let problem = resolved(folder.path(), text)?;
        Ok::<_, String>(
            problem.points[0].buffers.iter().find(|buffer| buffer.name == "Hits").expect("described").clone(),
        )
    };
    let buffer: ResolvedBuffer = hits(&written).expect("a description");
    assert_eq!((buffer.element, &buffer.shape[..], buffer.role), (DType::Bytes, &[1001, 8][..], Role::Output));
    let parts: Vec<_> = buffer.parts.iter().map(ToString::to_string).collect();
    assert_eq!(parts, ["Hits.t f32[1001]", "Hits.id u32[1001]"]);
    assert_eq!(buffer.parts[0].tolerance, Tolerance::Close { rtol: 1e-2, atol: 1e-5 });
    for (old, new, expected) in [
        ("t.check", "u.check", "buffer.Hits.u: unknown member 'u' of hits.comp"),
        ("t.check", "type = \"f32\"\nt.check", "buffer.Hits.type: stands beside members"),
        ("t.check", "tpye = \"f32\"\nt.check", "unknown field 'tpye'; did you mean 'type'? available: type, shape"),
        ("t.check", "t.chekc", "t: unknown field `chekc`, expected `fill` or `check`"),
        (
            "t.check = { rtol = 1e-2,",
            "id.check = { ulp = 1, ",
            "buffer.Hits.id.check: states tolerances of several kinds",
        ),
        ("t.check", "t.fill = \"unifrom(0, 1)\"\nt.check", "buffer.Hits.t.fill: unknown fill 'unifrom'"),
    ] {
        let refused = hits(&written.replace(old, new)).expect_err(new);
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn members_behind_headers_and_without_names_are_found() {
    let folder = folder();
    let source = "#version 450
layout(local_size_x = 64) in;
struct Pair { float a; uint b; };
struct Body { vec3 at; float mass; mat2x3 turn; uint ids[3]; Pair pair; };
layout(std430, binding = 0) buffer Bodies { uint count; double energy; Body body[]; };
void main() { body[gl_GlobalInvocationID.x].ids[1] = count; }";
    write(&folder, "bodies.comp", source);
    let description = |members: &str| {
        format!(
            "[kernel]\nsource = \"bodies.comp\"\n[buffer.Bodies]\nshape = [3, 2]\n{members}\n[dispatch]\ngroups = 1"
        )
    };
    let parts = |members: &str| {
        let problem = resolved(folder.path(), &description(members))?;
        Ok::<_, String>(problem.points[0].buffers[0].clone())
    };
    let bodies = parts("fill = \"iota\"\ncheck = \"exact\"\ncount.fill = 7").expect("a description");
    let names: Vec<String> = bodies.parts.iter().map(ToString::to_string).collect();
    let expected = [
        "Bodies.count u32[1] uniform(7,7)",
        "Bodies.energy f64[1] iota",
        "Bodies.at f32[3,2,3] iota",
        "Bodies.mass f32[3,2] iota",
        "Bodies.turn f32[3,2,6] iota",
        "Bodies.ids u32[3,2,3] iota",
        "Bodies.pair.a f32[3,2] iota",
        "Bodies.pair.b u32[3,2] iota",
    ];
    assert_eq!(names, expected);
    assert_eq!(bodies.shape, [16 + 6 * 80]);
    let contents = bodies.contents(1, 0, Path::new(".")).expect("filled");
    let word = |at: usize| u32::from_le_bytes(contents[at..at + 4].try_into().expect("four"));
    assert_eq!([word(0), word(4), word(16 + 80 + 48)], [7, 0, 3], "padding is zero");
    assert_eq!(f32::from_bits(word(16 + 80 + 12)), 1.0, "the second mass");
    let element = |part: usize, index| bodies.parts[part].places.as_ref().expect("a member").name(index);
    assert_eq!(
        [element(0, 0), element(2, 13), element(4, 4)].join(" "),
        "Bodies.count Bodies.body[2][0].at.y Bodies.body[0][0].turn[1].y"
    );
    assert_eq!((bodies.parts[2].index_of_byte(16 + 4 * 80 + 4), bodies.parts[2].index_of_byte(28)), (Some(13), None));
    // Components may be described apart from the others, and members by their place.
    let apart = parts("fill = 0\n\"at.x\".check = { ulp = 1 }\n\"@28\".fill = 1").expect("a description");
    let names: Vec<_> = apart.parts.iter().map(|part| format!("{} {}", part.name, part.tolerance)).collect();
    assert_eq!(names[2..4], ["Bodies.at.x { ulp = 1 }", "Bodies.at { rtol = 1e-4, atol = 1e-5 }"]);
    assert_eq!(apart.parts[4].to_string(), "Bodies.mass f32[3,2] uniform(1,1)");
    for (members, expected) in [
        ("body.fill = 1", "buffer.Bodies.body: unknown member 'body' of bodies.comp"),
        ("pair.fill = 1", "buffer.Bodies: 'pair' has f32 and u32; describe its members"),
    ] {
        let refused = parts(members).expect_err(members);
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn arrays_of_records_are_written_and_read() {
    let folder = folder();
    write(&folder, "hits.comp", HITS);
    let text = "[kernel]\nsource = \"hits.comp\"\n[buffer.X]\ntype = \"f32\"\nshape = 2\nfill = 1
[buffer.Hits]\nshape = 2\n[dispatch]\ngroups = 1";
    let problem = resolved(folder.path(), text).expect("a description");
    let hits = &problem.points[0].buffers[1];
    let path = folder.path().join("hits.npy");
    let contents = [1.5f32.to_bits(), 1, 2.5f32.to_bits(), 2].map(u32::to_le_bytes).concat();
    hits.write_array(std::fs::File::create(&path).expect("made"), &contents).expect("written");
    assert_eq!((hits.check_array(&path), hits.read_array(&path).as_ref()), (Ok(()), Ok(&contents)));
    // NumPy's own types, order, and padding.
    let store = |descr: &str, data: &[u8]| {
        let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,), }}\n");
        let file = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat();
        std::fs::write(&path, file).expect("written");
        hits.read_array(&path)
    };
    let record = |id: i64, t: f64| [&id.to_le_bytes()[..], &[9; 4], &t.to_le_bytes()].concat();
    let data = [record(1, 1.5), record(2, 2.5)].concat();
    assert_eq!(store("[('id', '<i8'), ('', '|V4'), ('t', '<f8')]", &data), Ok(contents.clone()));
    for (descr, expected) in [
        ("[('id', '<i8'), ('', '|V4'), ('s', '<f8')]", "its records have no field 't'"),
        ("[('id', '<i8'), ('', '|V4'), ('t', '<f4', (2,))]", "its field 't' has 2 numbers or another type"),
        ("[('id', '<i8'), ('t', '|V12')]", "its field 't' has 1 numbers or another type"),
        ("[('id', '<i8'), ('t', [('u', '<f4')])]", "its records are"),
        ("[('id', '<i8'), ('t', '<f4', (99999999999999999999,))]", "its records are"),
    ] {
        let refused = store(descr, &data).expect_err(descr);
        assert!(refused.contains(expected), "{refused}");
    }
    let refused = store("[('id', '<i8'), ('', '|V4'), ('t', '<f8')]", &[record(-1, 1.5), record(2, 2.5)].concat());
    assert!(refused.expect_err("no u32").contains("field 'id': its element [0][0] is -1"));
}

#[test]
fn kernels_without_a_description_are_completed() {
    let folder = folder();
    let kernel = write(&folder, "wide.comp", WIDE);
    let fields = FieldOptions { size: vec!["N=64".into()], set: vec!["spec.C=3".into()], ..FieldOptions::default() };
    let mut described = describe(&[kernel.into()], None, &fields).expect("it is found");
    assert!(complete(&mut described[0]).expect("a kernel"));
    let problem = resolve(&CATALOGUE, &described).expect("it is complete");
    assert_eq!((problem.points.len(), &problem.points[0].values), (1, &vec![64]));
    assert_eq!(passes(&problem, 0, 0).dispatches[0].constants[0].bits, 3);
    assert!(!complete(&mut described[0]).expect("a description"));
}

#[test]
fn what_init_prints_is_a_description() {
    let folder = folder();
    write(&folder, "grid.comp", GRID);
    let members = "struct P { n: u32, s: array<vec4<f32>, 20> }\n@group(1) @binding(0) var<uniform> p: P;\n";
    write(&folder, "members.wgsl", format!("{members}{}", WGSL.replace("2.0 * ", "f32(p.n) * p.s[3].y * ")));
    for name in ["copy.comp", "k.wgsl", "members.wgsl", "address.comp", "grid.comp"] {
        let path = folder.path().join(name);
        let described = describe(&[path], None, &FieldOptions::default()).expect("a kernel");
        let text = init(&described[0], None).expect("a description");
        assert!(text.lines().skip(2).all(|line| line.chars().count() <= 80 || line.starts_with("source")), "{text}");
        let text = text.replace(",1024..65536", "").replace(",256..2048", "");
        let problem = resolved(Path::new(""), &text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        let roles: Vec<_> = problem.points[0].buffers.iter().map(|buffer| buffer.role).collect();
        if name != "grid.comp" {
            assert_eq!(roles, [Role::Input, Role::Output], "{name}");
            continue;
        }
        assert_eq!(roles, [Role::Input, Role::InPlace, Role::Output]);
        insta::assert_snapshot!(text.replace(&folder.path().display().to_string(), ""));
        assert_eq!(passes(&problem, 0, 0).dispatches[0].groups, [16, 17, 1]);
    }
}

/// Valid description of `copy.comp`, which the mistakes below change.
const PLAIN: &str = "[kernel]
source = 'copy.comp'
[axes]
N = 128
[buffer.A]
type = 'f32'
shape = ['N']
fill = 'iota'
[buffer.D]
type = 'f32'
shape = ['N']
[dispatch]
groups = ['cdiv(N, 64)']
";

/// Changed text, its replacement, and the expected part of the message; empty if the change is valid. A replacement that
/// starts with `+` is added on a new line after the text, with `^` before it.
type Mistake = (&'static str, &'static str, &'static str);

const SOURCE: &str = "source = 'copy.comp'";
const GROUPS: &str = "groups = ['cdiv(N, 64)']";
const TYPE_AND_SHAPE: &str = "type = 'f32'\nshape = ['N']\nfill";
const SHAPE_BUFFER: &str = "[buffer.Shape]\ntype = \"bytes\"\nshape = 32\nfill = \"zero\"";

/// Mistakes in `PLAIN`.
const PLAIN_MISTAKES: &[Mistake] = &[
    (SOURCE, "source = 'gone.comp'", "kernel.source: "),
    (SOURCE, "+times = 3", ""),
    (SOURCE, "+times = -1", "kernel.times: is -1 ('-1'); a program has 0 to 16384"),
    (SOURCE, "+times = '2^40'", "kernel.times: is 1099511627776"),
    (SOURCE, "+times = 2\nindex = 'N'", "kernel.index: 'N' is an axis"),
    (SOURCE, "+times = 2\nindex = 'a b'", "kernel.index: 'a b' cannot stand"),
    (SOURCE, "+subgroup = 12", "kernel.subgroup: is 12 ('12'); sub-groups have"),
    (SOURCE, "+subgroup = [8, 16]", ""),
    (SOURCE, "+bind = { A = 'A + 4*N' }", "kernel.bind.A: sees from byte 512 of A"),
    (SOURCE, "+bind = { A = 'A + 64*N' }", "A, which has 512; keep within it"),
    (SOURCE, "+times = 2\nbind = { A = ['A', 'A + 256'] }", ""),
    (SOURCE, "+bind = { A = 'A - 4' }", "unknown buffer 'A - 4'"),
    (SOURCE, "+bind = { A = [] }", "kernel.bind.A: is an empty list"),
    (SOURCE, "+bind = { A = { buffer = 'A', range = 1000 } }", "sees 1000 bytes from byte 0 of A"),
    (GROUPS, "indirect = 'A + 504'", "begins at byte 504 of A, which has 512 bytes"),
    (GROUPS, "indirect = 'A + 16'", ""),
    (GROUPS, "indirect = 'A'\ngroups = 1", "dispatch.indirect: stands beside groups"),
    (GROUPS, "indirect = 'Z'", "dispatch.indirect: unknown buffer 'Z'"),
    ("[axes]", "^[uniform.B]\nx = 1", "uniform.B: unknown block 'B'"),
    ("[axes]", "^[uniform.A]\n'a[1]' = 1", "buffer.A: is given member by member"),
    (SOURCE, "source = ''", "is a folder; name a file"),
    (SOURCE, "+entry = 'nope'", "GLSL begins at main, not at 'nope'"),
    ("[kernel]", "^name = ''", "name: '' is not a valid name"),
    ("[kernel]", "^name = 'a/b'", "name: 'a/b' is not a valid name"),
    ("N = 128", "+local_x = 4", "axes.local_x: stands for the size of the work-group"),
    ("[dispatch]", "^[work]\nbytes = '2^63'", "it is a count from 0 to 2^63 - 1"),
    (SOURCE, "source = 'absent'", "absent': no such file"),
    (SOURCE, "source = 'k.txt'", "gpukern does not know this extension"),
    (SOURCE, "source = 'k.spv'", "it is not SPIR-V"),
    (SOURCE, "source = 'k.slang'", "slangc"),
    (SOURCE, "source = 'broken.comp'", "broken.comp:2: error: 'undeclared'"),
    (SOURCE, "source = 'broken.wgsl'", "broken.wgsl:1"),
    (SOURCE, "source = 'nothing.wgsl'", "it has no compute shader"),
    (SOURCE, "source = 'two.wgsl'", "it has several entry points (double, other); choose one with --entry or `entry`"),
    (SOURCE, "source = 'two.wgsl'\nentry = 'othr'", "did you mean 'other'?"),
    (SOURCE, "source = 'k.wgsl'\ndefine = { X = 1 }", "WGSL has no macros ('X')"),
    (SOURCE, "source = 'image.comp'", "buffer.I: is missing: image.comp binds I at set 0, binding 0; write [buffer.I]"),
    (
        SOURCE,
        "source = 'array.comp'",
        "binds many[0] = A[0] = a[0] at set 0, binding 0; write [buffer.\"many[0]\"] with",
    ),
    (SOURCE, "source = []", "kernel.source: is missing"),
    (SOURCE, "pass = [{ source = 'copy.comp' }]", "kernel.pass: is for [[pass]]; write [[pass]] in place of [kernel]"),
    (SOURCE, "sources = 'copy.comp'", "unknown field 'sources'; did you mean 'source'?"),
    (SOURCE, "+vulkan = '1.1'", "kernel.vulkan: '1.1' is not supported"),
    (SOURCE, "+bind = { X = 'A' }", "kernel.bind.X: unknown block 'X'"),
    (SOURCE, "+bind = { A = 'B' }", "kernel.bind.A: unknown buffer 'B'"),
    ("[kernel]", "[kernels]", "unknown field 'kernels'; did you mean 'kernel'?"),
    ("[kernel]\nsource = 'copy.comp'", "", "kernel: is missing"),
    ("[axes]", "^[[pass]]\nsource = 'copy.comp'", "pass: stands beside [kernel]"),
    ("N = 128", "N = 'N'", "axes.N: depends on itself"),
    ("N = 128", "N = 'M'\nM = 'N + 1'", "N, M need each other's values"),
    ("N = 128", "N = 'M'", "axes.N: unknown axis 'M'"),
    ("N = 128", "N = '128..64'", "runs downwards; write 64..128"),
    ("N = 128", "N = '64..100'", "has only 64, because values double; write 64,100, or add a step: '64..100:36'"),
    ("N = 128", "N = '1..9:0'", "has the step 0"),
    ("N = 128", "N = '0..9'", "doubles from 0"),
    ("N = 128", "N = '1..M'", "a range has numbers at its ends"),
    ("N = 128", "N = '1..1000000:1'", "has more than 10000 values"),
    ("N = 128", "N = '1..1000:1'\nM = '1..1000:1'", "axes: span more than 10000 points"),
    ("N = 128", "N = []", "axes.N: has no value"),
    ("N = 128", "N = 1.5", "'1.5' is not an integer"),
    ("N = 128", "N = 1_28k", ":4: '128k' is not a number"),
    ("N = 128", "+'a b' = 1", "'a b' cannot stand in expressions"),
    ("N = 128", "N = 'ceil(2)'", "unknown function 'ceil'"),
    ("N = 128", "N = '1 +'", "ends where a number"),
    ("N = 128", "N = '2^70'", "beyond 64 bits"),
    (TYPE_AND_SHAPE, "type = 'f23'\nshape = ['N']\nfill", "buffer.A.type: unknown type 'f23'; did you mean"),
    (TYPE_AND_SHAPE, "type = 'f16'\nshape = ['N']\nfill", "is f16, but copy.comp declares elements of f32"),
    (TYPE_AND_SHAPE, "shape = ['N']\nfill", "buffer.A.type: is missing"),
    ("shape = ['N']\nfill", "fill", "buffer.A.shape: is missing"),
    ("shape = ['N']\nfill", "shape = []\nfill", "has 0 extents"),
    ("shape = ['N']\nfill", "shape = ['N - 128']\nfill", "has the extent 0 ('N - 128')"),
    ("shape = ['N']\nfill", "shape = ['N - 256']\nfill", "has the extent -128"),
    ("shape = ['N']\nfill", "shape = ['M']\nfill", "unknown name 'M'; available: N"),
    ("shape = ['N']\nfill", "shape = ['N', '2^40']\nfill", "which no device holds"),
    ("shape = ['N']\nfill", "shape = ['2^62', 64]\nfill", "which no device holds"),
    ("shape = ['N']\nfill", "shape = ['N / (N - 128)']\nfill", "divides by zero"),
    ("fill = 'iota'", "fill = 7", ""),
    ("fill = 'iota'", "fill = [7]", "expected a number, or an expression in quotes"),
    ("fill = 'iota'", "", "buffer.A.fill: is missing, and no kernel writes to it"),
    ("fill = 'iota'", "fill = 'random'", "unknown fill 'random'"),
    ("fill = 'iota'", "fill = 'uniform(1)'", "has the wrong arguments"),
    ("fill = 'iota'", "fill = '@gone.npy'", "gone.npy"),
    ("fill = 'iota'", "fill = '@short.npy'", "it has the shape [4], the buffer [128]"),
    ("fill = 'iota'", "fill = '@bytes.npy'", "it has the shape [64, 2], the buffer [128]"),
    ("fill = 'iota'", "fill = '@k.bin'", "it has 3 bytes, the buffer 512"),
    ("fill = 'iota'", "fill = '@copy.comp'", "is no .npy, .bin or .bin.zst"),
    ("fill = 'iota'", "+check = 'exact'", "buffer.A.check: is for buffers that kernels write"),
    ("fill = 'iota'", "scratch = true\ncheck = 'exact'", "buffer.A.scratch: cannot be checked"),
    ("[buffer.A]", "[buffer.B]", "binds A = a at set 0, binding 0"),
    ("[buffer.A]", "^[buffer.C]\ntype = 'u8'\nshape = 1", "buffer.C: unknown block 'C'"),
    ("[buffer.A]", "^[buffer.'0.0']\ntype = 'f32'\nshape = 1\nfill = 'zero'", "is the same buffer as"),
    ("[buffer.D]", "+fill = 'zero'", "buffer: has no output"),
    ("[dispatch]", "^[buffer.D.check]\nrtol = -1", "rtol is -1"),
    ("[dispatch]", "^[buffer.D.check]\nrtol = 1e-3\nulp = 4", "states tolerances of several kinds"),
    ("[dispatch]", "^[buffer.D.check]", "states no tolerance"),
    (
        "shape = ['N']\n[dispatch]",
        "shape = ['N']\ncheck = 'exactly'\n[dispatch]",
        "unknown check 'exactly'; did you mean 'exact'?",
    ),
    (GROUPS, "", "dispatch.groups: is missing"),
    (GROUPS, "groups = [0]", "dispatch.groups: is 0 along x"),
    (GROUPS, "groups = [1, 'N - 129']", "is -1 along y"),
    (GROUPS, "groups = [1, 1, 1, 1]", "has 4 extents"),
    (GROUPS, "groups = ['2^40']", "use 1 to 2^32 - 1 work-groups"),
    (GROUPS, "groups = ['cdiv(N, BM)']", "unknown name 'BM'; available: N, local_x"),
    (GROUPS, "group = [1]", "unknown field 'group'; did you mean 'groups'?"),
    ("[dispatch]", "^[spec]\nBM = 64", "spec.BM: copy.comp has no specialization constants"),
    (
        "[dispatch]",
        "^[kernel.define]\nBM = 64\n[spec]\nBM = 64",
        "'BM' is a macro of copy.comp, not a specialization constant; to set it here, in place of its #define, write \
         layout(constant_id = 0) const uint BM = 1;",
    ),
    ("[dispatch]", "^[push]\nM = 64", "push.M: copy.comp has no push constants"),
    (
        SOURCE,
        "source = 'pushed.comp'\n[push]\nm = 64",
        "push.m: pushed.comp declares push constants but uses none; leave",
    ),
    ("[dispatch]", "^[where]\nsmall = 'N < 64'", "where: rules out every combination of the axes"),
    ("[dispatch]", "^[where]\nsmall = 'N <'", "where.small: expression 'N <' ends"),
    ("[dispatch]", "^[where]\nsmall = 'local_x < 64'", "rules out everything: where.small does not hold"),
    ("[dispatch]", "^[work]\nflops = '-N'", "work.flops: is -128"),
    ("[dispatch]", "^[reference]", "reference: is empty"),
    ("[dispatch]", "^[reference]\nfile = 'a.npy'\ncommand = 'x {out}'", "states file and command; keep one"),
    ("[dispatch]", "^[reference]\nfile = 'gone.npy'", "reference.file: "),
    ("[dispatch]", "^[reference]\nfile = 'short.npy'", "it has the shape [4], the buffer [128]"),
    ("[dispatch]", "^[reference]\nfile = { A = 'short.npy' }", "unknown output 'A'; available: D"),
    ("[dispatch]", "^[reference]\ncommand = 'python3 ref.py'", "has no {out}"),
    ("[dispatch]", "^[reference]\nkernel = 'copy.comp'", ""),
    ("[dispatch]", "^[reference]\nkernel = 'copy.comp'\ngroups = 0", "reference.groups: is 0 along x"),
    ("[dispatch]", "^[reference]\nbuiltin = 'matmull'", "did you mean 'matmul'?"),
    ("[dispatch]", "^[reference]\nbuiltin = 'row-sum'", "reference.size: is missing"),
    (
        "[dispatch]",
        "^[reference]\nbuiltin = 'matmul'\nsize = [8, 8, 16]",
        "reference.roles.B: is missing: no buffer here is called B; say which one it is: roles = { B = \"…\" }; available: A",
    ),
    (
        "[dispatch]",
        "^[reference]\nbuiltin = 'matmul'\nsize = 8\nroles = { D = 'C' }",
        "reference.roles.D: is a buffer of this kernel; the algorithm's comes first: C = \"D\"",
    ),
    ("[dispatch]", "^[reference]\nbuiltin = 'matmul'\nsize = 8", "reference.roles.A: is A of 128 elements of f32, but"),
    ("[dispatch]", "^[reference]\nbuiltin = 'matmul'\nsize = 0", "has the extent 0"),
    ("[dispatch]", "^[reference]\nbuiltin = 'matmul'\nsize = 8\nroles = { X = 'D' }", "unknown buffer 'X' of matmul"),
    ("[dispatch]", "^[reference]\nbuiltin = 'matmul'\nsize = 8\nlayout = 'nx'", "unknown layout 'nx'"),
    ("[dispatch]", "[dispatch", ":12: '[dispatch': write a table's name in brackets"),
];

/// Mistakes in `RIGHT`.
const RIGHT_MISTAKES: &[Mistake] = &[
    ("define = { A_TYPE = \"float16_t\" }", "", "k.comp:9: error: "),
    ("define = {", "include = [\"gone\"]\ndefine = { X = 1,", ""),
    ("BM = [64, 128]", "BN = 64", "spec.BN: unknown specialization constant 'BN'; did you mean 'BM'?"),
    ("BM = [64, 128]", "BM = []", "spec.BM: is an empty list"),
    ("BM = [64, 128]", "BM = -1", "spec.BM: is -1 ('-1'), but the kernel takes u32 from 0 to 4294967295"),
    (SHAPE_BUFFER, "", "sets no value for 'width', 'bias.x'"),
    (SHAPE_BUFFER, "[uniform.Shape]\nwidth = 'M'\n'*' = 0", ""),
    (
        SHAPE_BUFFER,
        "[uniform.Shape]\nwidht = 'M'\n'*' = 0",
        "uniform.Shape.widht: unknown member 'widht'; did you mean 'width'?",
    ),
    ("[buffer.Shape]", "^[uniform.Shape]\nwidth = '-M'\n'*' = 0", "buffer.Shape: is given member by member"),
    ("BM = [64, 128]", "BM = 0.5", "has the fraction"),
    ("FAST = true", "FAST = 2", "the kernel takes bool from 0 to 1"),
    ("first = -7", "", "push: sets no value for 'first', which k.comp declares; add first = … to [push]"),
    ("first = -7", "+second = 1", "push.second: unknown push constant 'second'"),
    ("first = -7", "first = '2^31'", "takes i32 from -2147483648 to 2147483647"),
    ("scale = \"1/sqrt(M)\"", "scale = \"1/(M - M)\"", "is not a finite number"),
    ("shape = [\"M\"]\ncheck", "shape = [\"BM\"]\ncheck", "names 'BM', a specialization constant: only scratch may"),
    ("shape = 32", "shape = 16", "makes 16 bytes, but k.comp declares 32 bytes at least"),
    ("shape = [\"M\", \"K\"]", "shape = 7", ""),
    ("2*M*K", "2*M*X", "work.flops: expression '2*M*X' has an unknown name 'X'"),
];

/// Kernel with images of several kinds.
const IMAGE_KERNEL: &str = "#version 460
    layout(local_size_x = 64) in;
    layout(binding = 0) uniform sampler2D S;
    layout(binding = 1, rgba8) writeonly uniform image2D planes[2];
    layout(binding = 2, r32ui) uniform uimage3D counts;
    layout(binding = 3) writeonly buffer D { float d[]; };
    void main() {
        ivec2 at = ivec2(gl_GlobalInvocationID.xy);
        imageStore(planes[0], at, texture(S, vec2(at) / 8.0));
        imageStore(planes[1], at, vec4(imageAtomicAdd(counts, ivec3(at, 0), 1)));
        d[0] = 1.0;
    }";

/// Valid description of [`IMAGE_KERNEL`].
const IMAGES: &str = "[kernel]
source = 'images.comp'
[axes]
N = 8
[buffer.S]
type = 'u8'
shape = ['N - 1', 'N', 4]
image = 'r8g8b8a8_unorm'
sampler = { filter = 'linear' }
fill = 'varied'
[buffer.'planes[0]']
type = 'u8'
shape = ['N', 'N', 4]
[buffer.'planes[1]']
type = 'u8'
shape = ['N', 'N', 4]
[buffer.counts]
type = 'u32'
shape = [2, 'N - 2', 'N']
fill = 'zero'
check = 'exact'
[buffer.D]
type = 'f32'
shape = 1
[dispatch]
groups = 1
";

const IMAGE_MISTAKES: &[Mistake] = &[
    (
        "type = 'u8'",
        "type = 'f32'",
        "buffer.S.type: is f32, but r8g8b8a8_unorm has components of u8; make them the same",
    ),
    (
        "shape = ['N - 1', 'N', 4]",
        "shape = ['N', 'N']",
        "buffer.S.shape: is [8, 8], but an image of r8g8b8a8_unorm has height, width, 4 components; write these",
    ),
    ("shape = [2, 'N - 2', 'N']", "shape = [2, 'N']", "an image of r32_uint has depth, height, width; write these"),
    ("shape = ['N - 1', 'N', 4]", "shape = ['2^33', 1, 4]", "buffer.S.shape: is [8589934592, 1, 4], larger than any"),
    ("image = 'r8g8b8a8_unorm'", "", "buffer.S.image: is missing, and images.comp states no format; write"),
    ("image = 'r8g8b8a8_unorm'", "image = 'r8g8b8a8_srgb'", "unknown image format 'r8g8b8a8_srgb'; did you mean"),
    (
        "image = 'r8g8b8a8_unorm'",
        "image = 'r8g8b8a8_uint'",
        "is r8g8b8a8_uint, whose texels are u32 in kernels, but images.comp declares f32",
    ),
    ("fill = 'zero'", "image = 'r32_sint'", "is r32_sint, but images.comp declares r32_uint; make them the same"),
    ("shape = 1", "+image = 'r32_sfloat'", "buffer.D.image: is for images, and no kernel binds it as one"),
    ("fill = 'zero'", "+sampler = {}", "buffer.counts.sampler: is for images with a sampler"),
    ("filter = 'linear'", "filter = 'cubic'", "unknown value 'cubic'; available: nearest, linear"),
    ("filter = 'linear'", "normalized = false, address = 'repeat'", "buffer.S.sampler: has normalized = false, which"),
    ("filter = 'linear'", "normalized = false, address = 'clamp-to-border'", ""),
    ("[axes]", "bind = { S = 'S + 4' }\n[axes]", "kernel.bind: binds a part of S, which is an image; bind all of it"),
    ("groups = 1", "indirect = 'counts'", "buffer.counts: is an image and a plain buffer of the same kernel"),
];

#[test]
fn images_have_the_extents_of_their_buffers() {
    let folder = folder();
    let problem = resolved(folder.path(), IMAGES).expect("it is right");
    let [s, first, _, counts, d] = &problem.points[0].buffers[..] else { panic!("{problem:?}") };
    let image = s.image.expect("an image");
    assert_eq!((image.format.name(), image.extent, image.dimensions), ("r8g8b8a8_unorm".into(), [8, 7, 1], 2));
    assert_eq!((image.is_stored, image.is_sampled), (false, true));
    assert_eq!(image.sampler.map(|sampler| sampler.filter), Some(TexelFilter::Linear));
    assert_eq!(first.image.map(|image| (image.is_stored, image.sampler)), Some((true, None)));
    assert_eq!(counts.image.map(|image| (image.extent, image.layers)), Some(([8, 6, 2], None)));
    assert_eq!([s.role, first.role, counts.role], [Role::Input, Role::Output, Role::InPlace]);
    assert_eq!(d.image, None);
}

/// A kernel that reads a texel view in a set of its own.
const TEXELS: &str = "#version 460
    layout(local_size_x = 1) in;
    layout(set = 1, binding = 2) uniform samplerBuffer x;
    layout(binding = 9) buffer D { float d; };
    void main() { d = texelFetch(x, textureSize(x) - 1).z; }";

#[test]
fn a_buffer_of_floats_may_be_bound_as_texels() {
    let folder = folder();
    write(&folder, "texels.comp", TEXELS);
    let text = "kernel.source = 'texels.comp'\ndispatch.groups = 1\nbuffer.D = { type = 'f32', shape = 1 }\n\
                buffer.x = { type = 'f32', shape = 7, fill = 'uniform(0, 1)' }\n";
    let problem = resolved(folder.path(), text).expect("it is right");
    let list = problem.points[0].pass_lists[0].as_ref().expect("passes");
    let bound = &list.dispatches[0].descriptors;
    let view = bound.iter().map(|own| own.at).find(|at| at.kind == SlotKind::Texel).expect("a view");
    assert_eq!((view.set, view.binding, problem.points[0].buffers[view.buffer.0].name.as_str()), (1, 2, "x"));
    for (from, to, expected) in [
        ("'f32', shape = 7", "'f16', shape = 8", "buffer.x.type: is f16, but texels.comp declares elements of f32"),
        (
            "'f32', shape = 7",
            "'u8', shape = 7",
            "buffer.x.shape: makes 7 bytes, but texels.comp declares elements of 4",
        ),
        ("kernel.", "kernel.bind.x = 'x + 16'\nkernel.", "kernel.bind.x: binds a part of x as texels; bind all of it"),
        (", fill = 'uniform(0, 1)'", "", "buffer.x.fill: is missing, and no kernel writes to it"),
    ] {
        let message = resolved(folder.path(), &text.replacen(from, to, 1)).expect_err(to);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn other_opaque_types_are_refused_by_name() {
    let folder = folder();
    let head =
        "#version 460\nlayout(local_size_x = 1) in;\nlayout(binding = 9) buffer D { float d; };\nlayout(binding = 0";
    for (declared, value, expected) in [
        (
            ", r32f) uniform imageCube x;",
            "imageLoad(x, ivec3(0))",
            "'x' is a cube image, which gpukern does not bind; use",
        ),
        (", r32f) uniform image2DMS x;", "imageLoad(x, ivec2(0), 0)", "'x' is a multisampled image"),
        (") uniform sampler2DShadow x;", "vec4(texture(x, vec3(0)))", "'x' is a depth image"),
        (") uniform isamplerBuffer x;", "texelFetch(x, 0)", "'x' is a texel buffer, which gpukern does not bind"),
        (", r32f) uniform imageBuffer x;", "imageLoad(x, 0)", "'x' is a texel buffer"),
        (
            ") uniform texture2D t; layout(binding = 1) uniform sampler x;",
            "texture(sampler2D(t, x), vec2(0))",
            "'x' is a separate sampler, which gpukern does not bind; combine it with its image (sampler2D)",
        ),
        (
            ", r11f_g11f_b10f) uniform image2D x;",
            "imageLoad(x, ivec2(0))",
            "has the format R11fG11fB10f in opaque.comp",
        ),
    ] {
        let source = format!("{head}{declared}\nvoid main() {{ d = {value}.x; }}\n");
        write(&folder, "opaque.comp", source);
        let text = PLAIN.replace("'copy.comp'", "'opaque.comp'").replace("[buffer.A]", "[buffer.x]");
        let message = resolved(folder.path(), &text).expect_err(declared);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn every_mistake_is_reported_with_field_and_remedy() {
    let folder = folder();
    super::array::write(&folder.path().join("short.npy"), DType::F32, &[4], &[0; 16]).expect("written");
    super::array::write(&folder.path().join("bytes.npy"), DType::U8, &[64, 2], &[0; 128]).expect("written");
    write(&folder, "k.bin", [1, 2, 3]);
    assert!(resolved(folder.path(), PLAIN).is_ok());
    let of_plain = PLAIN_MISTAKES.iter().map(|mistake| (PLAIN, mistake));
    let of_right = RIGHT_MISTAKES.iter().map(|mistake| (RIGHT, mistake));
    let of_images = IMAGE_MISTAKES.iter().map(|mistake| (IMAGES, mistake));
    let mut count = 0;
    let mut failures = vec![];
    for (right, (from, to, expected)) in of_plain.chain(of_right).chain(of_images) {
        let changed = match to.split_at_checked(1) {
            Some(("+", added)) => format!("{from}\n{added}"),
            Some(("^", added)) => format!("{added}\n{from}"),
            _ => (*to).to_string(),
        };
        let wrong = right.replacen(from, &changed, 1);
        assert_ne!(wrong, right, "'{from}' is not there");
        match resolved(folder.path(), &wrong) {
            Ok(_) if expected.is_empty() => {}
            Err(message) if !expected.is_empty() && message.contains(expected) => count += 1,
            other => failures.push(format!("{to}\n  expected: {expected}\n  said: {:?}", other.err())),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count >= 90, "{count}");
}

#[test]
fn a_mistake_is_reported_with_file_and_line() {
    let folder = folder();
    let message = resolved(folder.path(), &PLAIN.replace(GROUPS, "groups = [0]")).expect_err("no groups");
    let expected = format!("{}:13: dispatch.groups: is 0 along x", folder.path().join("k.toml").display());
    assert!(message.starts_with(&expected), "{message}");
    let pass = "[[pass]]\nsource = 'copy.comp'\ngroups = 1\n";
    let others = &PLAIN[PLAIN.find("[axes]").expect("axes")..PLAIN.find("[dispatch]").expect("a grid")];
    for (passes, expected) in [
        (format!("{pass}{pass}").replacen("= 1\n", "= 2\n", 1).replace("= 1\n", "= 0\n"), ":6: pass.1.groups: is 0"),
        (format!("{pass}[[pass]]\nsource = 'gone.comp'\n"), ":5: pass.1.source: "),
        (format!("{pass}[[pass]]\nsource = 'copy.comp'\n"), ":4: pass.1.groups: is missing"),
        (format!("{pass}[[pass]]\ntimes = -1\n{}", pass.replace("pass", "pass.pass")), ":5: pass.1.times: is -1"),
        (
            format!("[[pass]]\ntimes = 2\n{}times = 3\nindex = 'i'\n", pass.replace("pass", "pass.pass")),
            ":7: pass.0.pass.0.index: 'i' is an axis",
        ),
        (format!("{pass}[[pass]]\nbind.X = 'A'\n{}", &pass[9..]), ":5: pass.1.bind.X: unknown block"),
    ] {
        let message = resolved(folder.path(), &(passes + others)).expect_err(expected);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_mistake_in_an_option_names_the_option() {
    let folder = folder();
    let copy = folder.path().join("copy.comp").display().to_string();
    let plain = write(&folder, "plain.toml", PLAIN);
    for (file, text, expected) in [
        (&copy, "buffer", "--set 'buffer' is not KEY=VALUE in one line; write --set dispatch.groups=64"),
        (&copy, "buffer.A[0].type=f32", "--set 'buffer.A[0].type=f32' is not KEY=VALUE in one line"),
        (&copy, "name=", "--set 'name=' is not KEY=VALUE in one line"),
        (&copy, "buffer.A={ type = f32 }", "--set buffer.A={ type = f32 }: '{ type = f32 }' is no value of TOML"),
        (
            &copy,
            "buffer.A.dtype=f32",
            "--set buffer.A.dtype=f32: unknown field 'dtype'; did you mean 'type'? available: type, shape",
        ),
        (
            &copy,
            "buffers.A.type=f32",
            "--set buffers.A.type=f32: unknown field 'buffers'; did you mean 'buffer'? available: name",
        ),
        (&copy, "kernel.source.x=1", "--set kernel.source.x=1: there is no source.x"),
        (&copy, "pass.0.groups=1", "--set pass.0.groups=1: there is no pass.0"),
        (&plain, "dispatch.groups=0", "--set dispatch.groups=0: dispatch.groups: is 0 along x"),
        (&plain, "dispatch={ groups = 0 }", "--set dispatch={ groups = 0 }: dispatch.groups: is 0 along x"),
        (
            &plain,
            "spec.BM=1",
            "--set spec.BM=1: spec.BM: copy.comp has no specialization constants; leave 'BM' out, or",
        ),
        (&plain, "buffer.A.fill=@gone.npy", "--set buffer.A.fill=@gone.npy: buffer.A.fill: "),
    ] {
        let message = typed(&[file], &[], &[text]).expect_err(text);
        assert!(message.starts_with(expected), "{text}: {message}");
    }
    let message = typed(&[&copy], &["N"], &[]).expect_err("it has no value");
    assert_eq!(message, "--size 'N' is not NAME=VALUE; write --size M=512..4096");
    // A stranger's first attempt names only the kernel.
    let message = typed(&[&copy], &["100"], &[]).expect_err("nothing says which axis");
    assert!(
        message.ends_with("; no description says what is sized: `gpukern run KERNEL --init` drafts one"),
        "{message}"
    );
}

#[test]
fn a_written_description_parses_to_the_same_value() {
    let examples = crate::basis::fixture::in_repository("examples");
    let folders = ["kernels", "public"].map(|name| examples.join(name).read_dir().expect("examples"));
    let files = folders.into_iter().flatten().map(|entry| entry.expect("an example").path());
    // One file is a configuration of `bench`.
    let is_description =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml") && !path.ends_with("all.toml");
    let texts = files.filter(is_description).map(|path| std::fs::read_to_string(path).expect("an example"));
    let texts: Vec<String> = texts.chain([RIGHT, PLAIN].map(String::from)).collect();
    assert!(texts.len() > 40, "{}", texts.len());
    for text in texts {
        let description = Description::parse(&text).expect("a description");
        let written = super::written::Commented { description: description.clone(), ..Default::default() }.text();
        assert_eq!(Description::parse(&written), Ok(description), "{written}");
    }
}

#[test]
fn set_takes_a_key_and_an_unquoted_value() {
    let set = |text: &str, change: &str| {
        let described =
            Described { description: Description::parse(text).expect("a description"), ..Described::default() };
        let fields = FieldOptions { set: vec![change.into()], ..FieldOptions::default() };
        described.with(&fields).map(|described| described.description)
    };
    for (text, change, expected) in [
        ("", "dispatch.groups=[64,1,1]", "dispatch = { groups = [64, 1, 1] }"),
        ("", "dispatch.groups=[cdiv(N,64),1]", "dispatch = { groups = ['cdiv(N,64)', 1] }"),
        ("", "push.n=2*N", "push = { n = '2*N' }"),
        ("", "buffer.A.fill=7", "buffer.A.fill = 7"),
        ("", "buffer.'a=b'.type = f16", "buffer.'a=b'.type = 'f16'"),
        // Members of structures, whether or not the table exists.
        ("[push]\nsize.x = 1\nsize.y = 2", "push.size.y=N", "[push]\nsize.x = 1\nsize.y = 'N'"),
        ("[push]\n'size.x' = 1", "push.size.z=3", "[push]\n'size.x' = 1\n'size.z' = 3"),
        // A value or a table is replaced; others stay.
        ("[reference]\ncommand = 'x'", "reference={ kernel = 'k.comp' }", "[reference]\nkernel = 'k.comp'"),
        ("[buffer.A]\ntype = 'f32'\nshape = 4", "buffer.A.type=f16", "[buffer.A]\ntype = 'f16'\nshape = 4"),
        // A number becomes text if the field takes text.
        ("", "kernel.vulkan=1.3", "kernel.vulkan = '1.3'"),
    ] {
        let mut expected = Description::parse(expected).expect("a description");
        expected.kernel.get_or_insert_default();
        assert_eq!(set(text, change), Ok(expected), "{change}");
    }
    let passes = set("[[pass]]\nsource = 'a.comp'\n[[pass]]\nsource = 'b.comp'", "pass.1.groups=N").expect("passes");
    assert_eq!(passes.pass[1].groups, Some(OneOrMany::One(Formula::Text("N".into()))));
}

#[test]
fn a_kernel_without_a_constant_of_the_grid_is_named() {
    let folder = folder();
    let tiled = PLAIN.replace("[dispatch]", "[spec]\nBM = [64, 128]\n[dispatch]").replace("cdiv(N, 64)", "cdiv(N, BM)");
    let tiled = tiled.replace(SOURCE, "source = ['sized.comp', 'copy.comp']");
    let sized = COPY.replace("layout(local", "layout(constant_id = 0) const uint BM = 64;\nlayout(local");
    write(&folder, "sized.comp", sized.replace("x]; }", "x] + BM; }"));
    let message = resolved(folder.path(), &tiled).expect_err("copy.comp has no BM");
    let why = "'BM', a specialization constant that copy.comp does not have; describe it in a file of its own";
    assert!(message.contains(why), "{message}");
    // Follows the remedy.
    let sized = write(&folder, "sized.toml", tiled.replace("['sized.comp', 'copy.comp']", "'sized.comp'"));
    let own = write(&folder, "own.toml", format!("[kernel]\n{SOURCE}\n[dispatch]\n{GROUPS}\n"));
    let problem = typed(&[&sized, &own], &[], &[]).expect("each has its grid");
    assert_eq!(problem.configurations.len(), 3);
}

#[test]
fn messages_about_an_argument_name_no_field() {
    let folder = folder();
    let gone = folder.path().join("gone.comp").display().to_string();
    assert_eq!(typed(&[&gone], &[], &[]).expect_err("no file"), format!("cannot read '{gone}': no such file"));
    let message = typed(&[], &[], &[]).expect_err("nothing");
    assert!(message.starts_with("no kernel given; name a file, such as `gpukern run k.comp`"), "{message}");
}

#[test]
fn a_reference_from_an_option_uses_the_grid_of_the_kernel() {
    let folder = folder();
    let plain = write(&folder, "plain.toml", PLAIN);
    let copy = folder.path().join("copy.comp").display().to_string();
    let problem = typed(&[&plain], &[], &[&format!("reference.kernel={copy}")]).expect("it has groups");
    let Reference::Kernel(list) = &problem.points[0].reference else { panic!("{:?}", problem.points[0].reference) };
    assert_eq!(list.dispatches[0].groups, [2, 1, 1]);
}

#[test]
fn glsl_versions_without_vulkan_are_refused() {
    let folder = folder();
    let refused = |version| {
        format!("copy.comp: its `#version {version}` has no compute shaders for Vulkan; write `#version 460`")
    };
    for (first, expected) in [
        ("", "copy.comp: it has no `#version`; make `#version 460` its first line"),
        ("# version 110 core", &refused("110 core")),
        ("#version 100", &refused("100")),
        ("#version 140", &refused("140")),
        ("#version 300 es  // as WebGL has it", &refused("300 es")),
        ("#version 440 compatibility", &refused("440 compatibility")),
        ("#version", &refused("")),
    ] {
        let copy = write(&folder, "copy.comp", format!("{first}\nvoid main() {{}}\n"));
        let message = typed(&[&copy], &[], &[]).expect_err(first);
        assert!(message.ends_with(expected), "{message}");
    }
    for right in ["#version 310 es", "#version 450 core /* as ever */", "#version 460//"] {
        let source = format!("{right}\nlayout(local_size_x = 64) in;\nvoid main() {{}}\n");
        let message = typed(&[&write(&folder, "copy.comp", source)], &[], &[]).expect_err("nothing is described");
        assert!(!message.contains("version"), "{message}");
    }
}

#[test]
fn a_kernel_beside_a_case_may_name_its_entry_point_differently() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder, "01-double/kernel.wgsl", WGSL);
    let description = "name = 'double'\n[axes]\nN = 256\n[kernel]\nsource = 'kernel.wgsl'\nentry = 'double'\n\
                       [buffer.a]\ntype = 'f32'\nshape = ['N']\nfill = 'iota'\n[buffer.d]\ntype = 'f32'\nshape = ['N']\n\
                       [dispatch]\ngroups = ['N / 64']\n";
    write(&folder, "01-double/case.toml", description);
    let load = |name: &str, text: &str| {
        let kernels = [folder.path().join("01-double"), write(&folder, name, text).into()];
        let described = describe(&kernels, None, &FieldOptions::default()).expect("a case");
        let kernels = load_kernels(&described[0]).map_err(|fault| fault.to_string())?;
        Ok(kernels.into_iter().map(|kernel| kernel.name).collect::<Vec<_>>().join(", "))
    };
    // In a file with another entry point, in another language, and with a syntax error.
    let two = format!("{WGSL}\n@compute @workgroup_size(1) fn main() {{}}");
    assert_eq!(load("own.wgsl", &two), Ok("kernel, own".to_string()));
    assert_eq!(load("mine.comp", &COPY.replace("= a[", "= 2 * a[")), Ok("kernel, mine".to_string()));
    let message: String = load("broken.comp", "#version 460\nvoid main() {").expect_err("a syntax error");
    assert!(message.contains("broken.comp") && !message.contains("begins at main"), "{message}");
}

#[test]
fn kernels_beside_a_case_take_its_values_by_place_whatever_their_names() {
    const SCALE: &str = "#version 460
        layout(local_size_x = 64) in;
        layout(set = 0, binding = 0) readonly buffer A { float a[]; };
        layout(set = 0, binding = 1) writeonly buffer D { float d[]; };
        layout(set = 1, binding = 0) uniform U { float bias; uint last; } u;
        layout(push_constant) uniform P { uint n; float scale; } p;
        void main() { uint i = gl_GlobalInvocationID.x; if (i < p.n + u.last) d[i] = a[i] * p.scale + u.bias; }";
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder, "01-scale/kernel.comp", SCALE);
    let description = "[kernel]\nsource = 'kernel.comp'\nbind = { '0.0' = 'A', '0.1' = 'D' }\n\
                       [buffer.A]\ntype = 'f32'\nshape = [256]\nfill = 'iota'\n\
                       [buffer.D]\ntype = 'f32'\nshape = [256]\n[push]\nn = 200\nscale = 2.5\n\
                       [uniform.'1.0']\nbias = 0.5\nlast = 7\n[dispatch]\ngroups = [4]\n";
    write(&folder, "01-scale/case.toml", description);
    let case = folder.path().join("01-scale").display().to_string();
    let mine = write(&folder, "mine.toml", "[kernel]\nsource = 'mine.comp'\n[dispatch]\ngroups = [4]\n");
    let renamed = SCALE.replace("uint n; float scale", "uint count; float factor").replace("p.n", "p.count");
    let renamed =
        renamed.replace("p.scale", "p.factor").replace("bias", "offset").replace("A {", "T {").replace("D {", "A {");
    let swapped = SCALE.replace("uint n; float scale; } p", "uint scale; float n; } p").replace("p.n", "p.scale");
    let swapped = swapped.replace("a[i] * p.scale", "a[i] * p.n");
    // Both members, and one, where the captured kernel has others: by name.
    let reversed = SCALE.replace("uint n; float scale;", "float scale; uint n;");
    let fewer = SCALE.replace("uint n; ", "").replace("p.n", "200");
    for (glsl, values) in [
        (renamed, [200, 2.5f32.to_bits()].as_slice()),
        (swapped, &[200, 2.5f32.to_bits()]),
        (reversed, &[2.5f32.to_bits(), 200]),
        (fewer, &[2.5f32.to_bits()]),
    ] {
        let source = write(&folder, "mine.comp", &glsl);
        for beside in [&source, &mine] {
            let problem = typed(&[&case, beside], &[], &[]).unwrap_or_else(|message| panic!("{message}\n{glsl}"));
            let list = passes(&problem, 0, 1);
            let push: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(list.dispatches[0].push, push, "{glsl}");
            let block = list.scratch.iter().find_map(|buffer| match &buffer.fill {
                Some(Fill::Block(block)) => Some(block.bytes[..8].to_vec()),
                _ => None,
            });
            assert_eq!(block, Some([0.5f32.to_le_bytes(), 7u32.to_le_bytes()].concat()), "{glsl}");
        }
    }
}

#[test]
fn a_description_beside_a_case_states_only_differences() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder, "01-copy/kernel.comp", COPY);
    write(&folder, "01-copy/in/from.bin", [0; 1024]);
    let description = "[kernel]\nsource = 'kernel.comp'\n[kernel.bind]\n'0.0' = 'from'\n'0.1' = 'to'\n\
                       [buffer.from]\ntype = 'f32'\nshape = [256]\nfill = '@in/from.bin'\n\
                       [buffer.to]\ntype = 'f32'\nshape = [256]\n[dispatch]\ngroups = [4]\n";
    write(&folder, "01-copy/case.toml", description);
    // Different block names, and half as many work-groups of twice the size.
    write(&folder, "mine.comp", COPY.replace("local_size_x = 64", "local_size_x = 128").replace("a[", "x["));
    let mine = write(&folder, "mine.toml", "[kernel]\nsource = 'mine.comp'\n[dispatch]\ngroups = [2]\n");
    let case = folder.path().join("01-copy").display().to_string();
    let problem = typed(&[&case, &mine], &[], &[]).expect("one problem");
    assert_eq!(problem.points[0].pass_lists.len(), 2);
    assert_eq!([0, 1].map(|kernel| passes(&problem, 0, kernel).dispatches[0].groups), [[4, 1, 1], [2, 1, 1]]);
    assert_eq!(problem.points[0].buffers.len(), 2);
}
