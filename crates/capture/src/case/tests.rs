//! Converts dispatches, as the layer reports them, to folders that `run` accepts.

use super::*;
use crate::fixture::{CapturedFixture, bound, case, dispatch, floats, region, scale, submission};
use crate::user::check_description;
use crate::user::fixture::described;
use gpukern_layer::format::{CapturedImage, CapturedRegion, CapturedSampler, DescriptorBinding};
use serde_json::{Value, json};

impl CapturedFixture {
    /// Writes the case to a folder below the spool; returns the folder and the description.
    fn write(&self, starts: &Starts) -> Result<(PathBuf, String), String> {
        let all = [self.events.clone()];
        let chosen = select_dispatches(&all, None, &|_, _, _| "k".into());
        let folder = self.spool.path().join("01-k");
        let mut store = Store::default();
        let mut draft = Draft::new(&chosen[0], self.spool.path(), &folder, &mut store)?;
        draft.write(starts, true, &mut store)?;
        let text = std::fs::read_to_string(folder.join(CASE)).expect("written");
        check_description(&text, &folder, &crate::kernels::CATALOGUE).map_err(|e| format!("{e}\n{text}"))?;
        Ok((folder, text))
    }
}

#[test]
fn a_call_becomes_a_description() {
    let captured = scale(2f32.to_bits(), true);
    let (folder, text) = captured.write(&Starts::Known).expect("taken");
    insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "VERSION"));
    let read = |name: &str| std::fs::read(folder.join(name)).expect("written");
    assert_eq!(read("out/D.bin"), floats(&[2.1, 4.1, 7.0, 6.0]));
    let other = |value: f32| f32::from_bits(!value.to_bits());
    assert_eq!(read("in/D.bin"), floats(&[other(2.1), other(4.1), 7.0, 6.0]));
}

#[test]
fn a_replay_shows_which_elements_are_written() {
    let captured = scale(2f32.to_bits(), false);
    captured.file("d.before", &floats(&[2.1, 4.1, 7.0, 6.0]));
    let (_, text) = captured.write(&Starts::Known).expect("taken");
    assert_eq!(described(&text)["buffer"]["D"]["fill"], Value::Null, "an output");
    let other = |value: f32| f32::from_bits(!value.to_bits());
    let left = floats(&[2.1, 4.1, other(7.0), other(6.0)]);
    let (folder, text) = captured.write(&Starts::Found([("D".to_string(), left)].into())).expect("taken");
    assert_eq!(described(&text)["buffer"]["D"]["fill"], "@in/D.bin");
    let start = std::fs::read(folder.join("in/D.bin")).expect("written");
    assert_eq!(start, floats(&[other(2.1), other(4.1), 7.0, 6.0]));
}

#[test]
fn values_without_a_decimal_are_stored_as_bits() {
    for (bits, expected) in [(0x7fc0_1234, r#""bits 0x7fc01234""#), ((-0f32).to_bits(), "-0.0")] {
        let (_, text) = scale(bits, true).write(&Starts::Known).expect("taken");
        assert_eq!(described(&text)["push"]["scale"].to_string(), expected);
    }
}

#[test]
fn overlapping_bindings_share_a_buffer() {
    let captured = CapturedFixture::new(
        "#version 460
        layout(local_size_x = 1) in;
        layout(set = 0, binding = 0) readonly buffer A { float a[]; };
        layout(set = 0, binding = 1) buffer B { float b[]; };
        void main() { b[0] += a[0]; }",
        case(vec![bound(0, 0, 0, 24), bound(1, 0, 16, 16)], vec![region("a", 32, true, None)], vec![]),
        vec![],
    );
    captured.file("a.before", &floats(&[1.0; 8]));
    captured.file("a.after", &floats(&[1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0]));
    let (_, text) = captured.write(&Starts::Known).expect("taken");
    let case = described(&text);
    assert_eq!(case["kernel"]["bind"]["0.1"], json!({"buffer": "A", "offset": 16, "range": 16}));
    assert_eq!([&case["buffer"]["A"]["fill"], &case["reference"]["file"]["A"]], ["@in/A.bin", "out/A.bin"]);
}

const ADDRESS: &str = "#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform P { Floats A; Floats D; uint n; };
void main() { D.at[0] = A.at[n]; }";

#[test]
fn addresses_become_buffers_except_within_buffers() {
    let regions = || vec![region("a", 32, false, Some(1 << 40)), region("d", 16, true, Some(1 << 41))];
    let push = [((1u64 << 40) + 16).to_le_bytes(), (1u64 << 41).to_le_bytes(), [1, 0, 0, 0, 0, 0, 0, 0]].concat();
    let captured = CapturedFixture::new(ADDRESS, case(vec![], regions(), push), vec![]);
    captured.file("a.before", &floats(&[5.0; 8]));
    captured.file("d.before", &floats(&[0.0; 4]));
    captured.file("d.after", &floats(&[5.0, 0.0, 0.0, 0.0]));
    let (_, text) = captured.write(&Starts::Known).expect("taken");
    assert_eq!(described(&text)["push"], json!({"A": "A + 16", "D": "D", "n": 1}));
    // They have the type behind the address, and a float's tolerance, as if they were bound.
    let output = described(&text)["buffer"]["D"].clone();
    assert_eq!((&output["type"], &output["check"]), (&json!("f32"), &json!({"rtol": 1e-4, "atol": 5e-4})));
    // An output may have held anything before, also what looks like an address or an integer.
    captured.file("d.before", &[&((1u64 << 40) + 4).to_le_bytes()[..], &[0; 8]].concat());
    captured.file("d.after", &floats(&[5.0; 4]));
    let (_, text) = captured.write(&Starts::Known).expect("taken");
    assert_eq!(described(&text)["buffer"]["D"]["type"], "f32");
    captured.file("a.before", &[&[0; 8][..], &((1u64 << 41) + 4).to_le_bytes(), &[0; 16]].concat());
    let refused = captured.write(&Starts::Known).expect_err("an address");
    assert_eq!(refused, "has an address at byte 8 of A, which `run` cannot rewrite");
}

const TABLES: &str = "#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(buffer_reference, std430) buffer Layer { Floats w; uint n; };
layout(buffer_reference, std430) buffer Model { uint count; Layer layers[]; };
layout(push_constant) uniform P { Model model; Floats D; };
void main() { D.at[0] = model.layers[0].w.at[model.count] + float(model.layers[1].n); }";

#[test]
fn addresses_in_blocks_to_which_addresses_lead_are_found_to_any_depth() {
    let start = |number: u64| number << 40;
    let regions = [("m", 24, 1), ("l", 32, 2), ("a", 32, 3), ("d", 16, 4)];
    let regions = regions.map(|(name, bytes, number)| region(name, bytes, name == "d", Some(start(number))));
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let push = words(&[start(1), start(4)]);
    let captured = CapturedFixture::new(TABLES, case(vec![], regions.to_vec(), push.clone()), vec![]);
    captured.file("m.before", &words(&[1, start(2), start(2) + 16]));
    captured.file("l.before", &words(&[start(3) + 4, 3, 0, 5]));
    captured.file("a.before", &floats(&[5.0; 8]));
    captured.file("d.before", &floats(&[0.0; 4]));
    captured.file("d.after", &floats(&[10.0, 0.0, 0.0, 0.0]));
    let (_, text) = captured.write(&Starts::Known).expect("taken");
    let case_text = described(&text);
    assert_eq!(case_text["push"], json!({"model": "model", "D": "D"}));
    let blocks = json!({
        "model": {"count": 1, "layers[0]": "layers_0_", "layers[1]": "layers_1_"},
        "layers_0_": {"w": "w + 4", "n": 3},
        "layers_1_": {"w": "bits 0x0", "n": 5},
    });
    assert_eq!(case_text["uniform"], blocks);
    let names: Vec<_> = case_text["buffer"].as_object().expect("buffers").keys().collect();
    assert_eq!(names, ["D", "w"]);
    // An address that no type declares.
    captured.file("a.before", &words(&[0, 0, start(2), 0]));
    let refused = captured.write(&Starts::Known).expect_err("an address");
    assert_eq!(refused, "has an address at byte 16 of w, which `run` cannot rewrite");
    let mut changed = regions;
    changed[1].after = Some("l.after".into());
    let changed = CapturedFixture {
        spool: captured.spool,
        ..CapturedFixture::new(TABLES, case(vec![], changed.to_vec(), push), vec![])
    };
    changed.file("l.after", &words(&[start(3) + 4, 4, 0, 5]));
    let refused = changed.write(&Starts::Known).expect_err("a block that changes");
    assert_eq!(refused, "writes to the block layers_0_, which holds addresses");
}

#[test]
fn unsupported_dispatches_are_refused_with_the_reason() {
    let captured = scale(0, true);
    for (change, expected) in [
        (
            Box::new(|case: &mut CapturedDispatch| case.base = [1, 0, 0]) as Box<dyn Fn(&mut CapturedDispatch)>,
            "vkCmdDispatchBase",
        ),
        (Box::new(|case| case.groups = [0, 1, 1]), "empty grid"),
        (Box::new(|case| drop(case.bindings.pop())), "nothing bound at 0.1"),
        (Box::new(|case| case.lost = Some("4 GiB more".into())), "4 GiB more"),
        (Box::new(|case| case.bindings[1].region = Some(9)), "is damaged"),
        (Box::new(|case| case.regions[1].bytes = 17), "has not the 17 bytes"),
    ] {
        let mut other =
            CapturedFixture { spool: tempfile::tempdir().expect("a folder"), events: captured.events.clone() };
        other.file("a.before", &[0; 16]);
        other.file("d.before", &[0; 16]);
        other.file("d.after", &[1; 16]);
        if let Some(LayerEvent::Case(case)) = other.events.last_mut() {
            change(case);
        }
        let error = other.write(&Starts::Known).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn folder_names_are_safe_and_slow_kernels_come_first() {
    assert_eq!(folder_name(3, "mul_mat_vec"), "03-mul_mat_vec");
    for hostile in ["../../etc/passwd", "/", "", "..", "a\0b\n", "\u{202e}x", "-rf"] {
        let name = folder_name(1, hostile);
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)) && name.len() > 3, "{name}");
    }
    let mut captured = scale(0, true);
    let Some(LayerEvent::Case(first)) = captured.events.last().cloned() else { panic!("a case") };
    let second = CapturedDispatch { groups: [2, 1, 1], ..first };
    captured.events.push(LayerEvent::Case(second));
    let dispatches = vec![dispatch(0, 1, 0, 10), dispatch(0, 2, 0, 30), dispatch(0, 1, 0, 12)];
    captured.events.push(submission(0, [0, 1], dispatches));
    let mut all = [captured.events];
    let kernels = |all: &[Vec<LayerEvent>], top| {
        let chosen = select_dispatches(all, top, &|_, _, _| "k".into());
        chosen.iter().map(|selected| (selected.case.groups[0], selected.total, selected.median)).collect::<Vec<_>>()
    };
    assert_eq!(kernels(&all, None), [(2, 60.0, Some(60.0)), (1, 44.0, Some(24.0))]);
    assert_eq!(kernels(&all, Some(1)), [(2, 60.0, Some(60.0))]);
    // The first call of a pipeline includes a software device's compiler.
    for event in &mut all[0] {
        match event {
            LayerEvent::Device(device) => device.kind = 4,
            LayerEvent::Submission(submission) => submission.dispatches.rotate_left(1),
            _ => {}
        }
    }
    assert_eq!(kernels(&all, None), [(2, 60.0, None), (1, 44.0, Some(24.0))]);
    if let Some(LayerEvent::Submission(submission)) = all[0].last_mut() {
        submission.dispatches.push(dispatch(0, 2, 0, 5));
    }
    assert_eq!(kernels(&all, None), [(1, 44.0, Some(24.0)), (2, 10.0, Some(10.0))]);
    // Of a sample, only some calls have times; the total is that of all.
    if let Some(LayerEvent::Submission(submission)) = all[0].last_mut() {
        submission.dispatches.extend([dispatch(0, 2, 0, 0), dispatch(0, 2, 0, 0)]);
    }
    if let LayerEvent::Process(process) = &mut all[0][0] {
        process.sample = 2;
    }
    assert_eq!(kernels(&all, None)[1], (2, 40.0, Some(10.0)), "four calls of 5 ticks");
}

/// Writes a call that stores these floats to a block, which this many bindings refer to; returns its buffers.
fn written(declarations: &str, bindings: u32, values: &[f32]) -> Value {
    let glsl = format!("#version 460\nlayout(local_size_x = 1) in;\n{declarations}");
    let bytes = 4 * values.len() as u64;
    let bindings = (0..bindings).map(|binding| bound(binding, 0, 0, bytes)).collect();
    let captured = CapturedFixture::new(&glsl, case(bindings, vec![region("d", bytes, true, None)], vec![]), vec![]);
    captured.file("d.before", &vec![0; bytes as usize]);
    captured.file("d.after", &floats(values));
    described(&captured.write(&Starts::Known).expect("taken").1)["buffer"].take()
}

#[test]
fn tolerances_ignore_sentinels() {
    let ramp: Vec<f32> = (1..=4096).map(|at| at as f32 / 4096.0).collect();
    let array = "layout(binding = 0) buffer D { float d[]; }; void main() { d[0] = 1.0; }";
    for sentinel in [-3.4e38, 1e9, f32::NEG_INFINITY, 65504.0] {
        let mut values = ramp.clone();
        values[7] = sentinel;
        let check = &written(array, 1, &values)["D"]["check"];
        assert_eq!(*check, json!({"rtol": 1e-4, "atol": 1e-4}), "{sentinel}");
    }
    let columns: Vec<f32> = (1..=1024).flat_map(|at| [at as f32, 1.0, 1e-6 * at as f32, 0.5]).collect();
    let vectors = "layout(binding = 0) buffer D { vec4 d[]; }; void main() { d[0] = vec4(1.0); }";
    let buffers = written(vectors, 1, &columns);
    assert_eq!((&buffers["D"]["shape"], &buffers["D"]["check"]["atol"][0]), (&json!([1024, 4]), &json!(0.1024)));
}

#[test]
fn element_types_of_captured_buffers() {
    let ramp: Vec<f32> = (1..=16_384).map(|at| at as f32).collect();
    let mixed = [&[f32::from_bits(3)], &ramp[1..]].concat();
    let several = "layout(binding = 0) buffer D { float d[]; }; layout(binding = 1) buffer E { uint e[]; };
                   void main() { d[0] = 1; e[1] = 2; }";
    let aliased = "layout(binding = 0) buffer E { uint e[]; }; layout(binding = 0) buffer D { float d[]; };
                   void main() { d[0] = 1; e[1] = 2; }";
    let structures = "struct P { vec3 at; float mass; vec4 v; }; layout(binding = 0) buffer D { P p[]; };
                      void main() { p[0].mass = 1; }";
    for (declarations, bindings, values, expected) in [
        ("layout(binding = 0) buffer D { float d[16384]; }; void main() { d[0] = 1; }", 1, &ramp, "f32"),
        ("layout(binding = 0) buffer D { mat4 m[1024]; }; void main() { m[0][0] = vec4(1); }", 1, &ramp, "f32"),
        (structures, 1, &ramp, "f32"),
        (several, 2, &ramp, "f32"),
        (several, 2, &mixed, "bytes"),
        (aliased, 1, &ramp, "f32"),
    ] {
        assert_eq!(written(declarations, bindings, values)["D"]["type"], expected, "{declarations}");
    }
}

#[test]
fn structures_of_several_types_are_written_by_member() {
    let values: Vec<f32> = (0..512).flat_map(|at| [at as f32 * 4.0, f32::from_bits(at)]).collect();
    let hits = "struct H { float t; uint id; }; layout(binding = 0) buffer D { H h[]; }; void main() { h[0].id = 1; }";
    let buffer = &written(hits, 1, &values)["D"];
    let expected = json!({"shape": [512], "fill": "@in/D.bin", "t": {"check": {"rtol": 1e-4, "atol": 0.2044}}, "id": {"check": "exact"}});
    assert_eq!(*buffer, expected);
    // A part of a structure at the end.
    assert_eq!(written(hits, 1, &values[1..])["D"]["type"], "bytes");
}

const FILTER: &str = "#version 460
layout(local_size_x = 1) in;
layout(binding = 0) uniform sampler2D A[2];
layout(binding = 1) uniform sampler3D V;
layout(binding = 2) writeonly uniform image2D D;
void main() {
    vec4 sum = texture(A[0], vec2(0.5)) + texture(A[1], vec2(0.5)) + texelFetch(V, ivec3(0), 0);
    imageStore(D, ivec2(0), sum);
}";

/// Call of [`FILTER`] in which both elements of `A` are the same image, as `change` left it.
fn filter(change: impl Fn(&mut CapturedDispatch)) -> CapturedFixture {
    let sampler = |normalized| CapturedSampler {
        filter: "linear".into(),
        addresses: ["repeat", "repeat", "clamp-to-border"].map(String::from),
        border: "float-transparent-black".into(),
        normalized,
    };
    let image = |name: &str, bytes, format: &str, extents: &[u32], changed| CapturedRegion {
        image: Some(CapturedImage { format: format.into(), extents: extents.to_vec() }),
        ..region(name, bytes, changed, None)
    };
    let sampled = |element, binding, region, normalized| DescriptorBinding {
        element,
        sampler: Some(sampler(normalized)),
        ..bound(binding, region, 0, 24)
    };
    let bindings = vec![sampled(0, 0, 0, true), sampled(1, 0, 0, true), sampled(0, 1, 1, false), bound(2, 2, 0, 12)];
    let regions = vec![
        image("a", 24, "r8g8b8a8_snorm", &[3, 2], false),
        image("v", 24, "r32_sfloat", &[1, 2, 3], false),
        image("d", 12, "r8g8_unorm", &[2, 3], true),
    ];
    let mut case = case(bindings, regions, vec![]);
    change(&mut case);
    let captured = CapturedFixture::new(FILTER, case, vec![]);
    captured.file("a.before", &[1; 24]);
    captured.file("v.before", &[2; 24]);
    captured.file("d.before", &[3; 12]);
    captured.file("d.after", &[4, 5, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
    captured
}

#[test]
fn images_become_buffers_with_extents_format_and_sampler() {
    let captured = filter(|_| {});
    let (folder, text) = captured.write(&Starts::Known).expect("taken");
    let case = described(&text);
    assert_eq!(case["kernel"]["bind"], json!({"0.0": "A_0_", "0.0[1]": "A_0_", "0.1": "V", "0.2": "D"}));
    assert_eq!(
        case["buffer"]["A_0_"],
        json!({
            "type": "i8", "shape": [3, 2, 4], "image": "r8g8b8a8_snorm", "fill": "@in/A_0_.bin",
            "sampler": {"filter": "linear", "address": "repeat", "normalized": true}
        })
    );
    // Vulkan has no such sampler of a volume: the kernel can only fetch texels.
    let volume = json!({"type": "f32", "shape": [1, 2, 3], "image": "r32_sfloat", "fill": "@in/V.bin"});
    assert_eq!(case["buffer"]["V"], volume);
    let [shape, check] = ["shape", "check"].map(|field| &case["buffer"]["D"][field]);
    assert_eq!([shape, check], [&json!([2, 3, 2]), &json!({"rtol": 0.0, "atol": 1.0})]);
    let fill = std::fs::read(folder.join("in/D.bin")).expect("written");
    assert_eq!(fill, [!4, !5, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3], "what the call wrote is inverted");
}

#[test]
fn images_that_run_lacks_are_refused_with_the_reason() {
    type Change = fn(&mut CapturedSampler);
    for (change, expected) in [
        ((|sampler| sampler.normalized = false) as Change, "samples an image in two ways"),
        (|sampler| sampler.filter = "cubic-ext".into(), "has a sampler with cubic-ext, repeat"),
        (|sampler| sampler.addresses[1] = "x".into(), "has a sampler with several address modes: repeat, x"),
        (
            |sampler| {
                sampler.addresses.fill("clamp-to-border".into());
                sampler.border = "float-opaque-white".into();
            },
            "has a sampler with the border float-opaque-white",
        ),
    ] {
        let captured = filter(|case| case.bindings[0].sampler.iter_mut().for_each(change));
        assert_eq!(captured.write(&Starts::Known).expect_err("refused"), expected);
    }
}
