//! `gpukern capture`: programs under the layer, their exit codes and their profiles.
#![cfg(target_os = "linux")]

use super::workers::with_bad_naive;
use super::{
    check_schema, expect_error, expect_exit, expect_output, expect_refusal, gpukern, line, read_json, signal, start,
    stderr, stdout, steady, temporary, wait_until, words,
};
use gpukern::{DType, find_shader};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Program with many dispatches.
const BENCH: [&str; 10] = [
    env!("CARGO_BIN_EXE_gpukern"),
    "bench",
    "matmul",
    "--variant=naive,tiled",
    "--size=64",
    "--no-peak",
    "--no-tuned",
    "--max-time=100ms",
    "--precision=50%",
    "--json=-",
];

fn capture(options: &[&str], program: &[&str]) -> Command {
    let mut command = gpukern(&["capture"]);
    command.args(options).arg("--").args(program);
    command
}

/// Returns the command of a shell that runs `line`, with `words` as `$0` and so on.
fn shell<'a>(line: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    [&["sh", "-c", line], words].concat()
}

/// Returns the kernels of the only device in the profile at `path`, after checking it against its schema.
fn kernels(path: &Path) -> Vec<Value> {
    let profile = read_json(path);
    check_schema(&profile, include_str!("../../docs/profile.schema.json"));
    let devices: Vec<&Value> = profile["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .flat_map(|process| process["devices"].as_array().expect("devices"))
        .filter(|device| device["dispatches"].as_u64() > Some(0))
        .collect();
    let [device] = &devices[..] else { panic!("{profile:#}") };
    assert!(device["busy"].as_f64() <= profile["wall"].as_f64(), "{profile:#}");
    device["kernels"].as_array().expect("kernels").clone()
}

#[test]
fn the_profile_of_a_bench_has_its_kernels_and_its_output_is_untouched() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let [json, trace, page] = [("json", "p.json"), ("trace", "t.json"), ("page", "p.html")]
        .map(|(option, name)| format!("--{option}={}", path(name)));
    let output = expect_exit(&mut capture(&[&json, &trace, &page], &BENCH), 0);
    let text = stdout(&output);
    // The program prints its record first, then gpukern the profile.
    let (record, profile) = text.split_once('\n').expect("two documents");
    let record: Value = serde_json::from_str(record).expect("the program's own output");
    // The heading is wrapped where the program's path is long.
    let heading = steady(&words(profile));
    assert!(heading.starts_with("gpukern bench matmul --variant=naive,tiled --size=64 "), "{heading}");
    assert!(profile.lines().all(|line| line.chars().count() <= 80), "{profile}");
    // Every sample is a dispatch of the kernel that the record names.
    let kernels = kernels(Path::new(&path("p.json")));
    for case in record["cases"].as_array().expect("cases") {
        let samples = case["outcome"]["samples"].as_array().expect("samples").len();
        let hash = &case["kernels"][0]["hash"];
        let found = kernels.iter().find(|own| own["hash"] == *hash);
        let found = found.unwrap_or_else(|| panic!("{hash}: {kernels:#?}"));
        assert!(found["calls"].as_u64() >= Some(samples as u64), "{found:#}");
        assert!(found["times"]["median"].as_f64() > Some(0.0), "{found:#}");
    }
    let share: f64 = kernels.iter().map(|own| own["share"].as_f64().expect("a share")).sum();
    assert!((share - 1.0).abs() < 1e-6, "{kernels:#?}");
    let events = read_json(Path::new(&path("t.json")));
    let dispatches =
        events["traceEvents"].as_array().expect("events").iter().filter(|event| event["cat"] == "dispatch");
    let calls: u64 = kernels.iter().filter_map(|own| own["calls"].as_u64()).sum();
    assert_eq!(dispatches.count() as u64, calls);
    let page = std::fs::read_to_string(path("p.html")).expect("written");
    assert!(page.contains("<svg") && page.contains("Timeline"), "{page}");
}

#[test]
fn the_program_s_exit_code_is_handed_on() {
    let line = "\"$0\" \"$@\" > \"$0.out\" 2>&1; exit 7";
    let folder = tempfile::tempdir().expect("a folder");
    // The shell names its output file after the program, so the program is a link in a temporary folder.
    let program = folder.path().join("gpukern");
    std::os::unix::fs::symlink(BENCH[0], &program).expect("linked");
    let words = [&[program.to_str().expect("text")], &BENCH[1..]].concat();
    expect_output(&mut capture(&[], &shell(line, &words)), 7, &["exit code 7"]);
    for (program, code, said) in [
        (shell("exit 3", &[]), 3, "created no Vulkan device: it does not use Vulkan"),
        (shell("true", &[]), 3, "created no Vulkan device"),
        (shell("kill -SEGV $$", &[]), 139, "note: 'sh' ended: SIGSEGV; exit code 139"),
        (vec![BENCH[0], "devices", "--device", "none"], 2, "created no Vulkan device"),
    ] {
        expect_error(&mut capture(&[], &program), code, &[said]);
    }
}

#[test]
fn a_program_that_cannot_be_started_is_a_mistake() {
    for (program, remedy) in [
        (
            "no-such-program",
            "cannot start 'no-such-program': no such program; name a program in PATH, or give its path: \
             ./no-such-program",
        ),
        ("./no-such-program", "cannot start './no-such-program': no such program; check the path"),
        (
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            "cannot start './Cargo.toml': Permission denied; is it executable? chmod +x",
        ),
    ] {
        expect_refusal(&mut capture(&[], &[program]), remedy);
    }
    let full = tempfile::tempdir().expect("a folder");
    std::fs::write(full.path().join("mine"), "").expect("written");
    let full = full.path().to_str().expect("text");
    for (options, said) in [
        (&["-o", full][..], "--output '@': it has files already; choose a folder that is new or empty"),
        (&["--kernel", "mul"], "--output <DIR> is missing; usage: gpukern capture [OPTIONS] <PROGRAM>..."),
        (
            &["-o", "/nonexistent/cases", "--kernel", "("],
            "--kernel '(' is no regular expression: found open group without closing ')'",
        ),
        (
            &["-o", "x", "--max-bytes", "much"],
            "malformed value 'much' for '--max-bytes'; write a size such as 512MiB or 4GiB",
        ),
    ] {
        expect_refusal(&mut capture(options, &["true"]), said);
    }
}

#[test]
fn a_capture_without_cases_fails_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, option, reason) in [
        ("a", "--kernel=no such kernel", "no kernel in the profile that `run` can take fits --kernel and --call"),
        ("b", "--call=99999999", "no kernel in the profile that `run` can take fits --kernel and --call"),
    ] {
        let output = folder.path().join(name);
        let options = ["-o", output.to_str().expect("text"), option];
        expect_error(&mut capture(&options, &BENCH), 3, &["error: captured no case: ", reason]);
    }
}

/// Kernel of images: an array of two with a sampler, one that it only stores to, and layers that it reads and writes.
const IMAGES: &str = "#version 460
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0) uniform sampler2D A[2];
layout(binding = 1) writeonly uniform image2D D;
layout(binding = 2, r32ui) uniform uimage2DArray C;
void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    if (any(greaterThanEqual(at, imageSize(D)))) return;
    vec2 place = (vec2(at) + 0.3) / vec2(imageSize(D));
    imageStore(D, at, 0.5 * (textureLod(A[0], place, 0) + textureLod(A[1], place.yx, 0)));
    imageStore(C, ivec3(at, 1), imageLoad(C, ivec3(at, 0)) + imageLoad(C, ivec3(at, 1)));
}
";

const IMAGES_CASE: &str = r#"
[kernel]
source = "images.comp"
[buffer."A[0]"]
type = "u8"
shape = [10, 14, 4]
image = "r8g8b8a8_unorm"
sampler = { filter = "linear", address = "repeat" }
fill = "varied"
[buffer."A[1]"]
type = "f32"
shape = [7, 5]
image = "r32_sfloat"
fill = "uniform(0, 1)"
[buffer.D]
type = "u8"
shape = [12, 20, 2]
image = "r8g8_unorm"
[buffer.C]
type = "u32"
shape = [2, 12, 20]
fill = "iota"
check = "exact"
[dispatch]
groups = [3, 2]
"#;

#[test]
fn images_are_captured_and_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    std::fs::write(path("images.comp"), IMAGES).expect("written");
    std::fs::write(path("images.toml"), IMAGES_CASE).expect("written");
    let program = [BENCH[0], "run", &path("images.toml"), "--no-peak", "--max-time=50ms"];
    let cases = path("cases");
    expect_output(&mut capture(&["-o", &cases], &program), 0, &["  repeats"]);
    // Other cases are gpukern's own kernels.
    let folders = std::fs::read_dir(&cases).expect("cases").map(|entry| entry.expect("a folder").path());
    let texts = folders.filter_map(|folder| Some((std::fs::read_to_string(folder.join("case.toml")).ok()?, folder)));
    let found = texts.into_iter().find(|(text, _)| text.contains("r8g8_unorm"));
    let (text, folder) = found.expect("a case of the kernel");
    let case = folder.to_str().expect("text");
    expect_output(&mut gpukern(&["run", case, "--no-peak", "--max-time=50ms"]), 0, &["same bits"]);
    // The image's own sampler matters.
    for (own, other) in [(r#"filter = "linear""#, r#"filter = "nearest""#), (r#""repeat""#, r#""clamp-to-edge""#)] {
        let changed = text.replace(own, other);
        assert_ne!(changed, text);
        std::fs::write(folder.join("case.toml"), changed).expect("written");
        expect_output(&mut gpukern(&["run", case, "--no-peak", "--max-time=50ms"]), 1, &["rejected"]);
    }
}

#[test]
fn a_program_that_is_killed_leaves_the_profile_of_what_it_did() {
    let (_folder, json) = temporary("p.json");
    // The program is killed once it has reported some dispatches; the shell ends with the same status.
    let line = "\"$0\" \"$@\" --in-process > /dev/null & \
        until [ \"$(cat \"$GPUKERN_CAPTURE\"/*.events 2>/dev/null | wc -c)\" -gt 30000 ]; do sleep 0.01; done; \
        kill -KILL $!; wait $!";
    let words = [&BENCH[..7], &["--max-time=300s", "--precision=0.00001%"]].concat();
    let option = format!("--json={}", json.display());
    expect_output(&mut capture(&[&option], &shell(line, &words)), 137, &["exit code 137 after"]);
    assert!(!kernels(&json).is_empty());
}

#[test]
fn a_kernel_that_ends_its_compiler_is_saved_and_compiled_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = folder.path().join("cases");
    let capture = ["capture", "--output", cases.to_str().expect("UTF-8"), "--"];
    let crashing = |arguments: &[&str]| with_bad_naive("vkCreateComputePipelines", "segv", arguments, folder.path());
    let output = expect_exit(&mut crashing(&[&capture[..], &BENCH, &["--in-process"]].concat()), 139);
    let said = stderr(&output);
    let note = line(&said, "note: the driver was compiling ");
    let kernel = std::fs::read_dir(&cases).expect("cases").map(|entry| entry.expect("an entry").path());
    let kernel = kernel.filter(|path| path.to_string_lossy().contains("compiling-")).collect::<Vec<_>>();
    let [kernel] = &kernel[..] else { panic!("{kernel:?}: {said}") };
    assert!(note.contains(&format!("`gpukern inspect {}` compiles it again", kernel.display())), "{note}");
    let kernel = kernel.to_str().expect("UTF-8");
    let naive = find_shader("matmul/naive", DType::F32).expect("it is compiled");
    let saved = std::fs::read(Path::new(kernel).join("kernel.spv")).expect("saved");
    assert_eq!(saved.len(), naive.spirv.len());
    expect_output(&mut gpukern(&["inspect", kernel]), 0, &["1 kernel"]);
    let said = stderr(&expect_exit(&mut crashing(&["inspect", kernel]), 3));
    assert!(said.contains("SIGSEGV in vkCreateComputePipelines"), "{said}");
    let output = expect_exit(&mut crashing(&[&["capture", "--"], &BENCH[..], &["--in-process"]].concat()), 139);
    assert!(stderr(&output).contains("when the program ended; --output DIR saves it"), "{}", stderr(&output));
}

#[test]
fn a_signal_to_gpukern_also_ends_the_program() {
    let (_folder, ready) = temporary("ready");
    let line = "trap 'exit 5' TERM; touch \"$0\"; while :; do sleep 0.05; done";
    let mut command = capture(&[], &shell(line, &[ready.to_str().expect("text")]));
    let child = start(&mut command);
    wait_until("the program's trap", || ready.exists());
    signal(&child, "TERM");
    let output = child.wait_with_output().expect("a process");
    assert_eq!(output.status.code(), Some(5));
}
