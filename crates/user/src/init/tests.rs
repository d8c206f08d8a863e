//! Describes generated and hostile kernels, and checks that their descriptions are right.

use super::super::description::Description;
use super::super::options::describe;
use super::super::resolve::resolve;
use super::super::resolved::{ResolvedBuffer, ResolvedProblem};
use super::*;
use crate::kernels::CATALOGUE;
use crate::plan::request::FieldOptions;
use toml::Table;

/// Describes a kernel; returns the description and the problem that it resolves to.
fn described(ending: &str, source: &str) -> (String, ResolvedProblem) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(format!("k.{ending}"));
    std::fs::write(&path, source).expect("written");
    let described = describe(&[path], None, &FieldOptions::default()).expect("a kernel");
    let text = init(&described[0], None).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let description = Description::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}\n{source}"));
    let described = Described { description, folder: folder.path().to_path_buf(), ..Described::default() };
    let problem = resolve(&CATALOGUE, &[described]).unwrap_or_else(|e| panic!("{e}\n{text}\n{source}"));
    assert!(problem.points[0].pass_lists.iter().all(Result::is_ok), "{text}\n{source}");
    (text, problem)
}

/// Checks that a description has all of these parts.
#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Returns the bytes of a buffer at the first point, where N is 1001 or 1024.
fn bytes(problem: &ResolvedProblem, name: &str) -> u64 {
    let buffers: &[ResolvedBuffer] = &problem.points[0].buffers;
    let buffer = buffers.iter().find(|buffer| buffer.name == name).expect(name);
    buffer.shape.iter().product::<u64>() * buffer.element.bytes()
}

#[test]
fn a_group_that_works_on_a_row_has_an_axis_of_its_own() {
    let source = "#version 460
        layout(local_size_x_id = 0) in;
        layout(constant_id = 0) const uint LANES = 128;
        layout(binding = 0) readonly buffer X { float x[]; };
        layout(binding = 1) writeonly buffer Y { float y[]; };
        layout(push_constant) uniform P { uint columns; };
        void main() {
            const uint first = gl_WorkGroupID.x * columns;
            for (uint i = gl_LocalInvocationID.x; i < columns; i += LANES) y[first + i] = 2 * x[first + i];
        }";
    let (text, problem) = described("comp", source);
    assert_contains(
        &text,
        &["groups = [\"M\", \"1\", \"1\"]", "M = \"N+3\"", "work-groups of 128×1×1", "columns = \"N\""],
    );
    let rows = problem.points[0].values.clone();
    assert_eq!(bytes(&problem, "Y"), 4 * rows[0] as u64 * rows[1] as u64, "{text}");
    // A group that works on a tile of N is one of cdiv(N, 128).
    // A row that is compared with the number of rows, whatever that is called.
    let checked = source.replace("{ uint columns; }", "{ uint columns, batch; }");
    let checked = checked.replace("const uint first", "if (gl_WorkGroupID.x >= batch) return; const uint first");
    let (text, problem) = described("comp", &checked);
    assert_contains(&text, &["groups = [\"M\", \"1\", \"1\"]", "columns = \"N\"", "batch = \"M\""]);
    assert_eq!(bytes(&problem, "Y"), 4 * rows[0] as u64 * rows[1] as u64, "{text}");
    let (text, _) = described("comp", &source.replace("first + i", "gl_WorkGroupID.x * 128 + i"));
    assert!(text.contains("cdiv(N, local_x)"), "{text}");
    // A row of a quantised matrix has a block for so many columns.
    let sum = "float s = 0; for (uint b = gl_LocalInvocationID.x; b < columns / 32; b += LANES) s += x[first + b];";
    let blocks =
        checked.replace("* columns;", "* (columns / 32);").replace("for (uint i", &format!("{sum} for (uint i"));
    let blocks = blocks.replace("y[first + i] = 2 * x[first + i]", "y[gl_WorkGroupID.x] = s");
    let (text, problem) = described("comp", &blocks);
    assert_contains(&text, &["groups = [\"M\", \"1\", \"1\"]", "columns = \"N\"", "batch = \"M\"", "shape = [\"M\"]"]);
    assert_eq!(bytes(&problem, "X"), 4 * (rows[0] as u64 * rows[1] as u64 / 32), "{text}");
    // A part of a row is none.
    let (text, _) = described("comp", &source.replace("gl_WorkGroupID.x * columns", "gl_WorkGroupID.x / 4 * columns"));
    assert!(!text.contains("groups = [\"M\""), "{text}");
    // A group that does not know which one it is would repeat the work of the others.
    let (text, _) = described("comp", &source.replace("gl_WorkGroupID.x * columns", "0"));
    assert!(text.contains("groups = [\"1\", \"1\", \"1\"]"), "{text}");
}

/// Returns GLSL with work-groups of this `size`; with `arrays` of floats, such as `readonly X`, whose elements are `x[i]`; and with
/// these `parameters`.
fn glsl(size: &str, arrays: &[&str], parameters: &str, body: &str) -> String {
    let mut source = format!("#version 460\nlayout({size}) in;\n");
    for (binding, array) in arrays.iter().enumerate() {
        let name = array.rsplit(' ').next().unwrap_or_default();
        let own = name.to_lowercase();
        let access = array.trim_end_matches(name);
        let _ = writeln!(source, "layout(binding = {binding}) {access}buffer {name} {{ float {own}[]; }};");
    }
    source + &format!("layout(push_constant) uniform P {{ {parameters} }};\nvoid main() {{ {body} }}\n")
}

/// Describes a kernel of `x`, `y` and `n`, with work-groups of 64, that has this body.
fn along_n(body: &str) -> String {
    with_constants("", body)
}

/// Describes a kernel of [`along_n`] with these declarations of constants.
fn with_constants(constants: &str, body: &str) -> String {
    let source = glsl("local_size_x = 64", &["readonly X", "Y"], "uint n;", body);
    described("comp", &source.replace("void main", &format!("{constants}\nvoid main"))).0
}

#[test]
fn there_are_fewer_groups_where_an_invocation_works_on_several_elements() {
    let each = "for (uint j = 0; j < 4; j++) { uint i = base + j; if (i < n) y[i] = x[i]; }";
    let next = each.replace("base + j", "base + j * 64");
    for (body, elements) in [
        ("uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = x[i];", ""),
        (&*format!("uint base = gl_GlobalInvocationID.x * 4; {each}"), "4*"),
        (&*format!("uint base = gl_WorkGroupID.x * 256 + gl_LocalInvocationID.x; {next}"), "4*"),
        (
            "uint i = gl_WorkGroupID.x * 128 + gl_LocalInvocationID.x; if (i < n) y[i] = x[i]; if (i + 64 < n) y[i + 64] = 0;",
            "2*",
        ),
        // One for each element, although only every fourth has work.
        (&*format!("if (gl_GlobalInvocationID.x >= n) return; uint base = gl_GlobalInvocationID.x * 4; {each}"), ""),
        ("for (uint i = gl_GlobalInvocationID.x; i < n; i += 64 * gl_NumWorkGroups.x) y[i] = x[i];", ""),
        ("uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = x[i]; if (i + 1 < n) y[i] += x[i + 1];", ""),
    ] {
        let text = along_n(body);
        let groups = format!("groups = [\"cdiv(N, {elements}local_x)\", \"1\", \"1\"]");
        assert!(text.contains(&groups), "{groups} of {body}:\n{text}");
        assert_eq!(text.matches("shape = [\"N\"]").count(), 2, "{body}:\n{text}");
    }
}

#[test]
fn a_specialization_constant_stays_a_factor_of_the_grid() {
    let constants = "layout(constant_id = 0) const uint PER = 8; layout(constant_id = 1) const uint UNUSED = 8;";
    let body = "uint base = gl_WorkGroupID.x * 64 * PER + gl_LocalInvocationID.x;
            float sum = UNUSED;
            for (uint j = 0; j < PER; j++) { uint i = base + j * 64; if (i < n) sum += x[i]; }
            if (gl_LocalInvocationID.x == 0) y[gl_WorkGroupID.x] = sum;";
    let text = with_constants(constants, body);
    assert_contains(
        &text,
        &["cdiv(N, PER*local_x)", "shape = [\"N\"]                 # (…)", "shape = [\"cdiv(N, 512)\"]      # (…)"],
    );
    let half = body.replace("* PER + gl", "* 2 * PER + gl").replace("j < PER", "j < 2 * PER");
    assert!(with_constants(constants, &half).contains("cdiv(N, 2*PER*local_x)"));
    let both = body.replace("* PER + gl", "* PER * UNUSED + gl").replace("j < PER", "j < PER * UNUSED");
    assert!(with_constants(constants, &both).contains("cdiv(N, PER*UNUSED*local_x)"));
    // One element is no reason to forget the constant: a search would time the other values with too many groups.
    for constants in [constants.replace("PER = 8", "PER = 1"), constants.replace("= 8", "= 1")] {
        let text = with_constants(&constants, body);
        assert_contains(&text, &["cdiv(N, PER*local_x)", "PER = 1 "]);
    }
    // A tile has as many rows, however many invocations copy them.
    let body = "for (uint j = gl_LocalInvocationID.y; j < TILE; j += ROWS) {
            uint x = gl_WorkGroupID.x * TILE + gl_LocalInvocationID.x, y = gl_WorkGroupID.y * TILE + j;
            if (x < w && y < h) b[y * w + x] = a[y * w + x];
        }";
    let source = |size: &str, rows: &str| {
        let constants = "layout(constant_id = 0) const uint TILE = 16;";
        glsl(size, &["readonly A", "writeonly B"], "uint w, h;", body)
            .replace("void main", &format!("{constants}\n{rows}\nvoid main"))
    };
    for (size, rows) in [
        ("local_size_x_id = 0, local_size_y_id = 1", "layout(constant_id = 1) const uint ROWS = 8;"),
        ("local_size_x_id = 0, local_size_y = 8", "const uint ROWS = 8;"),
    ] {
        let (text, _) = described("comp", &source(size, rows));
        assert_contains(&text, &["groups = [\"cdiv(N, local_x)\", \"cdiv(M, TILE)\", \"1\"]"]);
    }
}

#[test]
fn a_stencil_has_the_shape_that_its_guards_allow() {
    let shapes = |text: &str| {
        text.lines()
            .filter_map(|line| line.strip_prefix("shape = "))
            .map(|l| l[..12].trim_end().to_string())
            .collect::<Vec<_>>()
    };
    let with_neighbour = |code: &str| {
        let head = "uint i = gl_GlobalInvocationID.x; if (i >= n) return; float s = x[i];";
        along_n(&format!("{head} {code} y[i] = s;"))
    };
    for neighbour in [
        "if (i < n - 1) s += x[i + 1];",
        "s += i < n - 1 ? x[i + 1] : 0.0;",
        "s += x[i < n - 1 ? i + 1 : i];",
        "s += x[i == n - 1 ? i : i + 1];",
        "s += x[min(i + 1, n - 1)];",
        "if (i > 0 && i + 1 < n) s += x[i - 1] + x[i + 1];",
        "if (!(i == 0 || i == n - 1)) s += x[i + 1];",
        "if (i == n - 1) { y[i] = s; return; } s += x[i + 1];",
        "uint j = i; if (i + 2 < n) j = i + 2; s += x[j];",
    ] {
        let text = with_neighbour(neighbour);
        assert_eq!(shapes(&text), ["[\"N\"]"; 2], "{neighbour}\n{text}");
    }
    // Places that no guard covers: behind the end of a branch, and of a variable that changes within.
    for neighbour in ["if (i < n - 1) s += 1.0; s += x[i + 1];", "if (i < n - 1) { i++; s += x[i + 1]; }"] {
        let text = with_neighbour(neighbour);
        assert!(shapes(&text)[0] != "[\"N\"]" || text.contains("indices reach N + 1: one off?"), "{neighbour}\n{text}");
    }
    for (guard, down) in [
        ("x < width && y < height", "min(y + 1, height - 1)"),
        ("x < width && y <= height", "min(y + 1, height - 1)"),
        ("!(x > width || y > height)", "min(y + 1, height - 1)"),
        ("x < width && y < height", "min(y + 1, height)"),
    ] {
        let body = format!(
            "uint x = gl_GlobalInvocationID.x, y = gl_GlobalInvocationID.y;
            if ({guard}) b[y * width + x] = a[y * width + x] + a[({down}) * width + x];"
        );
        let size = "local_size_x = 16, local_size_y = 16";
        let source = glsl(size, &["readonly A", "writeonly B"], "uint width, height;", &body);
        let (text, _) = described("comp", &source);
        assert_eq!(shapes(&text), ["[\"M\", \"N\"]"; 2], "{guard}, {down}\n{text}");
        // The rows of a border around the input are longer.
        let bordered = source.replace("a[y * width + x] + ", "a[(y + 2) * (width + 2) + x + 2] + ");
        assert_ne!(shapes(&described("comp", &bordered).0)[0], "[\"M\", \"N\"]");
    }
}

#[test]
fn axes_have_the_order_in_which_the_kernel_declares_their_extents() {
    for (declared, expected) in [("M, N, K", "MxNxK"), ("N, K, M", "NxKxM"), ("K, M, N", "KxMxN")] {
        let source = glsl(
            "local_size_x = 16, local_size_y = 16",
            &["readonly A", "readonly B", "writeonly C"],
            &format!("uint {declared};"),
            "uint col = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y;
            if (row >= M || col >= N) return;
            float s = 0;
            for (uint k = 0; k < K; ++k) s += a[row * K + k] * b[k * N + col];
            c[row * N + col] = s;",
        );
        let (text, problem) = described("comp", &source);
        assert_eq!(problem.axes.join("x"), expected, "{text}");
        assert!(text.contains(&format!("# names for expressions below; -s {expected} sets them\n")), "{text}");
        let roles = "roles = { A = \"A\", B = \"B\", C = \"C\" }";
        assert_contains(&text, &["shape = [\"M\", \"K\"]", "shape = [\"K\", \"N\"]", "shape = [\"M\", \"N\"]", roles]);
    }
}

#[test]
fn a_shape_that_names_an_axis_is_a_guess() {
    let text = along_n(
        "uint i = gl_GlobalInvocationID.x, l = gl_LocalInvocationID.x;\n\
         for (uint k = 0; k < n; k += 16) if (i < n && k + l < n) y[i * n + k + l] = x[i * n + k + l];",
    );
    assert_eq!(text.matches("shape = [\"N*N\"]               # (…)\n").count(), 2, "{text}");
    let text = along_n("uint i = gl_GlobalInvocationID.x; if (i > 0 && i < n) y[i] = x[i - 1] + x[i + 2];");
    assert_contains(
        &text,
        &[
            "shape = [\"N + 2\"]             # (…) as far as indices may reach\n",
            "shape = [\"N\"]                 # (…)\n",
        ],
    );
}

#[test]
fn a_bound_that_is_one_off_does_not_become_the_shape() {
    for (guard, reached) in [("i <= n", "N + 1"), ("i + 1 < n", "max(1, N - 1)")] {
        let text = along_n(&format!("uint i = gl_GlobalInvocationID.x; if ({guard}) y[i] = x[i];"));
        let line = format!("shape = [\"N\"]                 # (…) indices reach {reached}: one off?\n");
        assert_eq!(text.matches(&line).count(), 2, "{text}");
    }
}

#[test]
fn a_product_has_an_inner_extent() {
    let source = glsl(
        "local_size_x = 8, local_size_y = 8",
        &["readonly A", "readonly B", "writeonly C"],
        "uint M, N, K;",
        "uvec2 first = gl_GlobalInvocationID.xy * uvec2(2, 4);
        for (uint i = 0; i < 4; i++) for (uint j = 0; j < 2; j++) {
            uint row = first.y + i, column = first.x + j;
            if (row >= M || column >= N) continue;
            float sum = 0;
            for (uint k = 0; k < K; k++) sum += a[row * K + k] * b[k * N + column];
            c[row * N + column] = sum;
        }",
    );
    let (text, _) = described("comp", &source);
    assert_contains(
        &text,
        &["K = \"N+6\"", "K = \"K\"", "[\"M\", \"K\"]", "[\"K\", \"N\"]", "[\"M\", \"N\"]", "cdiv(M, 4*local_y)"],
    );
}

#[test]
fn a_pitch_is_the_length_of_a_row() {
    let source = glsl(
        "local_size_x = 8, local_size_y = 8",
        &["readonly X", "writeonly Y"],
        "uint width, height, srcPitch, scale;",
        "uvec2 at = gl_GlobalInvocationID.xy;
        if (at.x < width && at.y < height) y[at.y * width + at.x] = float(scale) * x[at.y * srcPitch + at.x];",
    );
    let (text, _) = described("comp", &source);
    assert_contains(&text, &["srcPitch = \"N\"", "scale = 1 ", "\nheight = \"M\""]);
    assert_eq!(text.matches("shape = [\"M\", \"N\"]").count(), 2, "{text}");
    // Along one axis there are no rows.
    let line = source.replace(", local_size_y = 8", "").replace("at.y * srcPitch + at.x", "at.x * srcPitch");
    let (text, _) = described("comp", &line.replace("&& at.y < height", "").replace("at.y * width + ", ""));
    assert!(text.contains("srcPitch = 2 "), "{text}");
}

#[test]
fn no_two_guesses_are_equal_so_that_exchanged_parameters_change_the_answer() {
    let source = glsl(
        "local_size_x = 64",
        &["readonly X", "writeonly Y"],
        "uint n, to, from, first; float scale, bias;",
        "uint i = gl_GlobalInvocationID.x; if (i < n) y[i * to] = scale * x[i * from + first] + bias;",
    );
    let (text, _) = described("comp", &source);
    assert_contains(&text, &["\nto = 1 ", "\nfrom = 2 ", "\nfirst = 3 ", "\nscale = 0.75 ", "\nbias = 0.625 "]);
}

#[test]
fn the_larger_of_two_indices_is_compared_for_both() {
    let source = glsl(
        "local_size_x = 16, local_size_y = 16",
        &["readonly A", "writeonly B"],
        "uint n;",
        "uvec2 i = gl_GlobalInvocationID.xy; if (max(i.x, i.y) < n) b[i.x * n + i.y] = a[i.y * n + i.x];",
    );
    let (text, problem) = described("comp", &source);
    let size = problem.points[0].values[0] as u64;
    assert_eq!([bytes(&problem, "A"), bytes(&problem, "B")], [4 * size * size; 2], "{text}");
}

/// Elements of generated buffers, with their strides in the layouts `scalar`, `std430` and `std140`.
const ELEMENTS: [(&str, [u64; 3]); 16] = [
    ("float", [4, 4, 16]),
    ("vec2", [8, 8, 16]),
    ("vec3", [12, 16, 16]),
    ("vec4", [16, 16, 16]),
    ("double", [8, 8, 16]),
    ("f16vec3", [6, 8, 16]),
    ("uint", [4, 4, 16]),
    ("uvec2", [8, 8, 16]),
    ("int8_t", [1, 1, 16]),
    ("i8vec4", [4, 4, 16]),
    ("uint16_t", [2, 2, 16]),
    ("uint64_t", [8, 8, 16]),
    ("mat2", [16, 16, 32]),
    ("Same", [16, 16, 16]),
    ("Mixed", [8, 8, 16]),
    ("Nested", [28, 32, 48]),
];

/// Headers before an array, with their sizes.
const HEADERS: [(&str, u64); 4] =
    [("", 0), ("uint count;", 4), ("vec2 origin; int flags[3];", 20), ("vec4 color;", 16)];

#[test]
fn generated_kernels_get_buffers_of_the_right_size() {
    for (index, (element, strides)) in ELEMENTS.iter().cycle().take(8 * ELEMENTS.len()).enumerate() {
        let (layout, stride) = [("scalar", strides[0]), ("std430", strides[1]), ("std140", strides[2])][index % 3];
        let (header, header_bytes) = HEADERS[index / 16 % 4];
        let block = ["layout(push_constant)", "layout(binding = 2)"][index / 2 % 2];
        let bound = ["p.n", "uint(p.n)", "b.length()"][index / 5 % 3];
        let source = format!(
            "#version 460
            #extension GL_EXT_scalar_block_layout : require
            #extension GL_EXT_shader_explicit_arithmetic_types : require
            #extension GL_EXT_shader_16bit_storage : require
            #extension GL_EXT_shader_8bit_storage : require
            layout(local_size_x = 64) in;
            struct Same {{ vec3 p; float w; }};
            struct Mixed {{ float x; uint n; }};
            struct Nested {{ Mixed m[2]; vec3 v; }};
            layout({layout}, binding = 0) readonly buffer A {{ {header} {element} a[]; }};
            layout({layout}, binding = 1) writeonly buffer B {{ {element} b[]; }};
            {block} uniform P {{ uint n; float scale; uint unused; }} p;
            void main() {{ uint i = gl_GlobalInvocationID.x; if (i < {bound} && p.scale != 0.0) b[i] = a[i]; }}"
        );
        let (text, problem) = described("comp", &source);
        let alignment = match (layout, *element) {
            ("std140", _) | ("std430", "vec3" | "vec4" | "Same" | "Nested") => 16,
            ("scalar", "double" | "uint64_t")
            | ("std430", "vec2" | "uvec2" | "double" | "uint64_t" | "mat2" | "f16vec3") => 8,
            _ => 4,
        };
        // Elements of an array are 16 bytes apart in std140.
        let header_bytes = if layout == "std140" && header.contains("flags") { 64 } else { header_bytes };
        let first = header_bytes.next_multiple_of(alignment);
        assert_eq!(bytes(&problem, "B"), 1001 * stride, "{text}\n{source}");
        let expected = first + 1001 * stride;
        assert!((expected..expected + 8).contains(&bytes(&problem, "A")), "{expected}\n{text}\n{source}");
        assert!(text.contains("unused = 0"), "{text}");
    }
}

#[test]
fn buffers_reach_as_far_as_indices() {
    const HEAD: &str = "struct P { n: u32, m: u32 } struct V { count: u32, list: array<vec3<f32>> }
        @group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read> v: V;
        @group(0) @binding(2) var<storage, read_write> y: array<f32>;
        @group(0) @binding(3) var<uniform> p: P;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>,
            @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) { let i = id.x;";
    for (body, expected) in [
        ("y[i] = x[i];", &[("x", 4096), ("y", 4096)][..]),
        ("if i < p.n { y[i] = x[i]; }", &[("x", 4004), ("y", 4004)]),
        ("if i >= p.n { return; } y[i] = x[4u * i + 3u];", &[("x", 16016), ("y", 4004)]),
        ("y[group.x] = x[i] * f32(local);", &[("x", 4096), ("y", 64)]),
        ("if i < p.n { for (var k = 0u; k < p.m; k++) { y[i] += x[k]; } }", &[("x", 4004), ("y", 4004)]),
        ("if i < p.n { y[i] = v.list[i].x; }", &[("v", 16 + 16016), ("y", 4004)]),
        ("if i < arrayLength(&y) { y[i] = x[i / 4u]; }", &[("x", 1004), ("y", 4004)]),
        ("if i < p.n { y[i] = x[i * p.m]; }", &[("x", 4004), ("y", 4004)]),
    ] {
        let (text, problem) = described("wgsl", &format!("{HEAD} {body} }}"));
        for (name, size) in expected {
            assert_eq!(bytes(&problem, name), *size, "{name}\n{text}\n{body}");
        }
    }
    let (_, problem) = described("wgsl", &format!("{HEAD} if i < p.n {{ y[i] = x[i * p.n + (p.n - 1u)]; }} }}"));
    assert_eq!(bytes(&problem, "x"), 4 * 255 * 255);
}

#[test]
fn images_get_the_extents_of_the_grid_and_their_formats() {
    let source = "#version 460
        layout(local_size_x = 8, local_size_y = 8) in;
        layout(binding = 0) uniform sampler2D planes[2];
        layout(binding = 1, r16f) uniform image2DArray layers;
        layout(binding = 2) writeonly uniform uimage3D volume;
        void main() { ivec2 at = ivec2(gl_GlobalInvocationID.xy);
            vec4 sum = texelFetch(planes[0], at, 0) + texelFetch(planes[1], at, 0);
            imageStore(layers, ivec3(at, 0), imageLoad(layers, ivec3(at, 0)) + sum);
            imageStore(volume, ivec3(at, 0), uvec4(sum)); }";
    let (text, problem) = described("comp", source);
    let buffers: Vec<String> = problem.points[0].buffers.iter().map(ToString::to_string).collect();
    let expected = [
        "planes[0] u8[256,256,4] r8g8b8a8_unorm varied",
        "planes[1] u8[256,256,4] r8g8b8a8_unorm varied",
        "layers f16[1,256,256] r16_sfloat varied",
        "volume u8[1,256,256,4] r8g8b8a8_uint",
    ];
    assert_eq!(buffers, expected, "{text}");
    assert!(text.lines().skip(2).all(|line| line.chars().count() <= 80 || line.starts_with("source")), "{text}");
    assert!(text.contains("N = \"256..2048\"") && text.contains("no check seen"), "{text}");
    // The size of an image is an extent, and a kernel that checks it runs at odd ones, too.
    let check = "ivec3 size = imageSize(volume); if (at.x >= size.x || at.y >= size.y) return;";
    let (text, _) = described("comp", &source.replace("vec4 sum =", &format!("{check} vec4 sum =")));
    assert!(text.contains("N = \"255,256..2048\""), "{text}");
}

#[test]
fn names_constants_and_addresses_are_described() {
    let head = "#version 460
        #extension GL_EXT_buffer_reference : require
        #extension GL_EXT_shader_explicit_arithmetic_types : require
        layout(local_size_x = 32) in;
        layout(constant_id = 0) const float LOW = -1.0 / 0.0; layout(constant_id = 1) const double NONE = 0.0 / 0.0;
        layout(constant_id = 2) const uint SIZE = 12;
        layout(buffer_reference, std430) buffer Vectors { f16vec4 at[]; };
        layout(binding = 0) buffer S { float a[3 * SIZE + 1]; };
        layout(binding = 1) buffer T { uint b[]; };
        struct Both { Vectors T; Vectors other; };
        layout(push_constant) uniform P { uint8_t few; Both first; Both second; } p;
        void main() { uint i = gl_GlobalInvocationID.x;
            if (i < uint(p.few)) { p.first.other.at[i] = p.second.other.at[i] + p.first.T.at[i]; }
            a[i % SIZE] = LOW + float(NONE) + float(b[i]); p.second.T.at[0] = f16vec4(0.0); }";
    let (text, problem) = described("comp", head);
    assert_eq!(bytes(&problem, "S"), 4 * 37, "{text}");
    assert_contains(
        &text,
        &[
            "LOW = \"bits 0xff800000\"",
            "few = \"min(N, 255)\"",
            "type = \"f16\"\nshape = [\"N\", 4]              # (…)\n",
            "shape = [37]                  # the block's size",
        ],
    );
    let two = "@group(0) @binding(0) var<storage, read> x: S; @group(0) @binding(1) var<storage, read_write> y: S;
        struct S { at: array<f32> }
        @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) i: vec3<u32>) { y.at[i.x] = x.at[i.x]; }";
    let (text, _) = described("wgsl", two);
    assert!(text.contains("\n[buffer.x]") && text.contains("\n[buffer.y]"), "{text}");
}

#[test]
fn only_guesses_are_marked() {
    let source = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) readonly buffer A { uint count; vec3 a[]; };
        layout(binding = 1) writeonly buffer B { float b[]; };
        layout(push_constant) uniform P { uint n; uint offset; uint pad; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < n) b[i] = a[i + offset].x + float(count); }";
    let (text, _) = described("comp", source);
    let marked: Vec<&str> = text.lines().filter(|line| line.contains("# (…)") && !line.starts_with('#')).collect();
    let names: Vec<&str> = marked.iter().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name).collect();
    assert_eq!(names, ["N", "n", "offset", "shape", "fill", "fill", "shape", "groups"], "{text}");
    assert_contains(&text, &["pad = 0                       # u32, not used", "# (…) behind count (16 bytes)"]);
}

#[test]
fn groups_along_a_direction_without_invocations_are_told() {
    let body = "uint i = gl_GlobalInvocationID.x; if (i < n) d[i + n * ROW] = float(i);";
    let source = glsl("local_size_x = 64", &["writeonly D"], "uint n;", body);
    for (row, remark) in [("gl_WorkGroupID.y", "groups along y apart"), ("0", "\"1\"] # (…)\n")] {
        let (text, _) = described("comp", &source.replace("ROW", row));
        assert!(text.contains(remark), "{row}\n{text}");
    }
}

#[test]
fn every_number_of_a_matrix_in_a_product_is_used() {
    let source = "#version 460
        layout(local_size_x = 64) in;
        layout(std140, binding = 0) uniform C { mat4 view; uint pad; uint n; };
        layout(std430, binding = 1) writeonly buffer O { float depth[]; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < n) depth[i] = (view * vec4(float(i))).z; }";
    let (text, _) = described("comp", source);
    let unused: Vec<&str> = text.lines().filter(|line| line.contains("not used")).collect();
    assert!(unused.len() == 1 && unused[0].starts_with("pad = "), "{text}");
}

#[test]
fn names_in_foreign_modules_cannot_inject_toml() {
    let hostile = "x\n[reference]\ncommand = \"touch owned\" # \"\"\"\u{7f}';touch owned;'";
    let mut commented = Commented::default();
    commented.remark(format!("buffer.{hostile}.type"), format!("also {hostile}"));
    add_buffer(hostile, hostile, "f32", OneOrMany::default(), false, Access::UNKNOWN, &mut commented);
    let text = commented.text();
    assert!(text.lines().all(|line| !line.starts_with("[ref") && !line.starts_with("command")), "{text}");
    let read: Table = toml::from_str(&text).expect("TOML");
    assert_eq!(read["buffer"].as_table().expect("buffers").keys().collect::<Vec<_>>(), [hostile]);
    let shown = set_option("buffer", "A';touch owned;'", &table(&commented.description)["buffer"][hostile]);
    assert!(shown.starts_with(r#"--set 'buffer."A'\'';touch owned;'\''"={ "#), "{shown}");
}

#[test]
fn a_constant_that_is_false_is_written_whatever_its_name() {
    let text = "[kernel]\nsource = 'k.comp'\n[spec]\nFLAG = false\n[buffer.D]\ntype = 'f32'\nscratch = false\n";
    let description: Description = toml::from_str(text).expect("a description");
    let written = table(&description);
    assert_eq!(written["spec"]["FLAG"], Value::Boolean(false));
    assert!(written["buffer"]["D"].get("scratch").is_none(), "{written:?}");
}
