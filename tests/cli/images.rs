//! `run`: kernels that see buffers as images, verified by kernels that see the same bytes as buffers.

use super::run::command;
use super::{expect_error, expect_exit, expect_output, gpukern, stdout};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Kernel over images, the reference over their bytes, and the buffers of both; the grid covers N×N+4.
struct Filter {
    /// File of the kernel, whose extension is its language.
    source: &'static str,
    kernel: &'static str,
    /// Body of the reference, with the invocation `x`, `y` inside of `W`×`H`.
    reference: &'static str,
    /// Declarations of the reference's buffers.
    declared: &'static str,
    buffers: &'static str,
}

const GLSL: &str = "#version 460
layout(local_size_x = 16, local_size_y = 16) in;
";

/// A filter of bytes: each texel from its left neighbor, with colors inverted; and in place, with channels swapped.
const BYTES: Filter = Filter {
    source: "bytes.comp",
    kernel: "layout(binding = 0, rgba8) readonly uniform image2D src;
        layout(binding = 1) writeonly uniform image2D dst;
        layout(binding = 2, rgba8) uniform image2D both;
        void main() {
            ivec2 at = ivec2(gl_GlobalInvocationID.xy);
            if (any(greaterThanEqual(at, imageSize(dst)))) return;
            imageStore(dst, at, vec4(1) - imageLoad(src, ivec2(max(at.x - 1, 0), at.y)));
            imageStore(both, at, imageLoad(both, at).abgr);
        }",
    declared: "buffer S { uint src[]; }; layout(binding = 1) buffer D { uint dst[]; };
        layout(binding = 2) buffer B { uint both[]; };
        uint swapped(uint v) { return v << 24 | (v & 0xff00) << 8 | v >> 8 & 0xff00 | v >> 24; }",
    reference: "dst[y * W + x] = ~src[y * W + max(x, 1) - 1]; both[y * W + x] = swapped(both[y * W + x]);",
    buffers: "[buffer.src]\ntype = 'u8'\nshape = ['H', 'W', 4]\nfill = 'varied'
        [buffer.dst]\ntype = 'u8'\nshape = ['H', 'W', 4]\nimage = 'r8g8b8a8_unorm'
        [buffer.both]\ntype = 'u8'\nshape = ['H', 'W', 4]\nfill = 'varied'\ncheck = 'exact'\n",
};

/// A transposition in WGSL, from a sampled to a storage image.
const WGSL: Filter = Filter {
    source: "transpose.wgsl",
    kernel: "@group(0) @binding(0) var src: texture_2d<f32>;
        @group(0) @binding(1) var dst: texture_storage_2d<rgba32float, write>;
        @compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            let size = textureDimensions(src);
            if id.x < size.x && id.y < size.y { textureStore(dst, id.yx, 2.0 * textureLoad(src, id.xy, 0)); }
        }",
    declared: "buffer S { vec4 src[]; }; layout(binding = 1) buffer D { vec4 dst[]; };",
    reference: "dst[x * H + y] = 2.0 * src[y * W + x];",
    buffers: "[buffer.src]\ntype = 'f32'\nshape = ['H', 'W', 4]\nimage = 'r32g32b32a32_sfloat'\nfill = 'varied'
        [buffer.dst]\ntype = 'f32'\nshape = ['W', 'H', 4]\n",
};

/// A histogram of bytes by atomic operations on an image of 256 counters.
const ATOMICS: Filter = Filter {
    source: "histogram.comp",
    kernel: "layout(binding = 0, r8ui) readonly uniform uimage2D src;
        layout(binding = 1, r32ui) uniform uimage1D counts;
        void main() {
            ivec2 at = ivec2(gl_GlobalInvocationID.xy);
            if (any(greaterThanEqual(at, imageSize(src)))) return;
            imageAtomicAdd(counts, int(imageLoad(src, at).r), 1);
        }",
    declared: "buffer S { uint src[]; }; layout(binding = 1) buffer C { uint counts[]; };",
    reference: "uint at = y * W + x; atomicAdd(counts[bitfieldExtract(src[at / 4], int(at % 4) * 8, 8)], 1);",
    buffers: "[buffer.src]\ntype = 'u8'\nshape = ['H', 'W']\nfill = 'varied'
        [buffer.counts]\ntype = 'u32'\nshape = 256\nfill = 'zero'\ncheck = 'exact'\n",
};

/// Slices of a volume, written to the layers of an array, each above the one below it.
const VOLUME: Filter = Filter {
    source: "volume.comp",
    kernel: "layout(binding = 0, r16f) readonly uniform image3D src;
        layout(binding = 1, r32f) writeonly uniform image2DArray dst;
        void main() {
            ivec2 at = ivec2(gl_GlobalInvocationID.xy);
            if (any(greaterThanEqual(at, imageSize(src).xy))) return;
            for (int z = 0; z < 3; z++)
                imageStore(dst, ivec3(at, z), imageLoad(src, ivec3(at, z)) - imageLoad(src, ivec3(at, (z + 2) % 3)));
        }",
    declared: "buffer S { uint src[]; }; layout(binding = 1) buffer D { float dst[]; };
        float load(uint i) { return unpackHalf2x16(src[i / 2])[i % 2]; }",
    reference: "for (uint z = 0; z < 3; z++)
        dst[(z * H + y) * W + x] = load((z * H + y) * W + x) - load(((z + 2) % 3 * H + y) * W + x);",
    buffers: "[buffer.src]\ntype = 'f16'\nshape = [3, 'H', 'W']\nfill = 'normal'
        [buffer.dst]\ntype = 'f32'\nshape = [3, 'H', 'W']\n",
};

/// Two planes, bound as arrays of images, through a linear filter: halved in width by the mean of two texels.
const LINEAR: Filter = Filter {
    source: "halve.comp",
    kernel: "layout(binding = 0) uniform sampler2D planes[2];
        layout(binding = 1, r8) writeonly uniform image2D halves[2];
        void main() {
            ivec2 at = ivec2(gl_GlobalInvocationID.xy);
            ivec2 size = imageSize(halves[0]);
            if (any(greaterThanEqual(at, size))) return;
            vec2 place = (vec2(at) + 0.5) / vec2(size);
            for (int plane = 0; plane < 2; plane++)
                imageStore(halves[plane], at, texture(planes[plane], place));
        }",
    declared: "buffer P { uint bytes[]; } planes[2]; layout(binding = 1) buffer H_ { uint bytes[]; } halves[2];
        uint load(uint plane, uint i) { return bitfieldExtract(planes[plane].bytes[i / 4], int(i % 4) * 8, 8); }",
    reference: "if (x < W / 8) for (uint plane = 0; plane < 2; plane++) {
        uint word = 0;
        for (uint i = 0; i < 4; i++) {
            uint at = y * W + 8 * x + 2 * i;
            word |= (load(plane, at) + load(plane, at + 1)) / 2 << 8 * i;
        }
        halves[plane].bytes[y * W / 8 + x] = word;
    }",
    buffers: "[buffer.'planes[0]']\ntype = 'u8'\nshape = ['H', 'W']\nfill = 'varied'
        image = 'r8_unorm'\nsampler = { filter = 'linear' }
        [buffer.'planes[1]']\ntype = 'u8'\nshape = ['H', 'W']\nfill = 'iota'
        image = 'r8_unorm'\nsampler = { filter = 'linear', address = 'repeat' }
        [buffer.'halves[0]']\ntype = 'u8'\nshape = ['H', 'cdiv(W, 2)']\ncheck = { atol = 1 }
        [buffer.'halves[1]']\ntype = 'u8'\nshape = ['H', 'cdiv(W, 2)']\ncheck = { atol = 1 }\n",
};

/// Writes a filter, its reference and its description `k.toml` to a folder.
fn folder(filter: &Filter, widths: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let Filter { source, kernel, reference, declared, buffers } = filter;
    let head = if Path::new(source).extension().is_some_and(|ending| ending == "comp") { GLSL } else { "" };
    let reference = format!(
        "{GLSL}layout(push_constant) uniform P {{ uint W, H; }};\nlayout(binding = 0) {declared}
        void main() {{ uint x = gl_GlobalInvocationID.x; uint y = gl_GlobalInvocationID.y;
            if (x >= W || y >= H) return; {reference} }}"
    );
    let description = format!(
        "[kernel]\nsource = '{source}'\n[axes]\nW = {widths}\nH = 'W + 4'\n{buffers}[dispatch]
        groups = ['cdiv(W, 16)', 'cdiv(H, 16)']\n[reference]\nkernel = 'reference.comp'\npush = {{ W = 'W', H = 'H' }}\n"
    );
    let files = [(*source, format!("{head}{kernel}")), ("reference.comp", reference), ("k.toml", description)];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

#[test]
fn filters_over_images_agree_with_kernels_over_their_bytes() {
    for (filter, widths) in [(BYTES, "[33, 128]"), (WGSL, "33"), (ATOMICS, "36"), (VOLUME, "30"), (LINEAR, "64")] {
        let folder = folder(&filter, widths);
        let output = expect_exit(&mut command(folder.path(), &["@/k.toml", "--json=-"]), 0);
        let record: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        for case in record["cases"].as_array().expect("cases") {
            let outcome = &case["outcome"];
            assert_eq!(outcome["status"], "measured", "{}: {outcome}", filter.source);
            assert!(outcome["verification"]["unverified"].is_null(), "{}: {outcome}", filter.source);
        }
    }
}

#[test]
fn a_wrong_filter_is_rejected_and_a_right_one_competes_with_a_kernel_over_buffers() {
    let folder = folder(&BYTES, "32");
    let path = folder.path();
    let right = fs::read_to_string(path.join("bytes.comp")).expect("written");
    fs::write(path.join("wrong.comp"), right.replace("if (any", "if (at.y == 7) return; if (any")).expect("written");
    let wrong = ["dst[7][0][0] was never written: does the grid, or an `if`, leave it out, or is its value undefined?"];
    expect_error(&mut command(path, &["@/wrong.comp", "--config=@/k.toml"]), 1, &wrong);
    // The reference sees the images as buffers, and may compete with them.
    let both = ["@/bytes.comp", "@/reference.comp", "--config=@/k.toml", "--set=push.W=W", "--set=push.H=H"];
    expect_exit(&mut command(path, &both), 0);
    expect_output(gpukern(&["inspect"]).arg(path.join("k.toml")), 0, &["bytes"]);
    let note = "binds src as an image; images are not simulated";
    expect_error(gpukern(&["sanitize"]).arg(path.join("k.toml")), 3, &[note]);
}

#[test]
fn kernels_that_need_what_the_device_lacks_are_skipped_with_the_reason() {
    let folder = folder(&BYTES, "32");
    for (options, reason) in [
        (
            ["buffer.dst.type=i8", "buffer.dst.image=b8g8r8a8_snorm"],
            "needs storage images of b8g8r8a8_snorm for dst, which the device lacks",
        ),
        (["axes.W=1", "axes.H=70000"], "needs 1 × 1×70000×1 texels for src; the device has images of at most "),
    ] {
        let options = options.map(|option| format!("--set={option}"));
        let mut command = command(folder.path(), &["@/k.toml"]);
        expect_error(command.args(options), 2, &[reason]);
    }
}
