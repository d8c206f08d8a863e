//! `run`: the user's kernels, verified, timed, compared and guarded.

use super::{
    BRIEF, brief_bench, check_text, expect_error, expect_exit, expect_output, expect_refusal, expect_refusals, gpukern,
    line, replaced, run_process, signal, stderr, stdout, unmeasured, within, words,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Kernel that doubles A into D, with a work-group size that is a specialization constant.
const DOUBLE: &str = "#version 460
    layout(local_size_x_id = 0) in;
    layout(constant_id = 1) const int WORK = 1;
    layout(binding = 0) readonly buffer A { float a[]; };
    layout(binding = 1) writeonly buffer D { float d[]; };
    layout(push_constant) uniform P { uint n; } p;
    void main() {
        uint i = gl_GlobalInvocationID.x;
        if (i >= p.n) return;
        float sum = 0.0;
        for (int j = 0; j < WORK; j++) sum += a[i] * 2.0 / float(WORK);
        d[i] = sum;
    }";

/// Reference of another kernel to [`DOUBLE`].
const REFERENCE: &str = "[reference]\nkernel = 'slow.comp'\ngroups = ['cdiv(N, 64)']\nspec = { 0 = 64 }\n";

const DESCRIPTION: &str = "name = 'double'
    [kernel]
    source = 'double.comp'
    [axes]
    N = 1000
    [spec]
    0 = 64
    [push]
    n = 'N'
    [buffer.A]
    type = 'f32'
    shape = ['N']
    fill = 'iota'
    [buffer.D]
    type = 'f32'
    shape = ['N']
    check = { rtol = 1e-5, atol = 1e-5 }
    [dispatch]
    groups = ['cdiv(N, 64)']
    [work]
    flops = 'N'
    bytes = '8*N'
    ";

/// Creates a folder with the kernel, its description, and these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("double.comp", DOUBLE), ("double.toml", DESCRIPTION)].iter().chain(files) {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

/// Returns the command of `run` with few samples, with `@` for the folder.
pub(super) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = gpukern(&["run"]);
    command.args(BRIEF).args(arguments.iter().map(|argument| within(folder, argument)));
    command
}

/// WGSL with two entry points, each with its own buffer and function.
const TWO: &str = "
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> d: array<f32>;
@group(0) @binding(2) var<storage, read_write> e: array<f32>;
var<workgroup> part: array<f32, 32>;
fn twice(x: f32) -> f32 { return x + x; }
fn thrice(x: f32) -> f32 { return twice(x) + x; }
@compute @workgroup_size(64) fn double(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&d) { d[id.x] = twice(a[id.x]); }
}
@compute @workgroup_size(32) fn triple(
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    part[lane] = thrice(a[id.x]);
    workgroupBarrier();
    if id.x < arrayLength(&e) { e[id.x] = part[lane]; }
}
";

/// Compiles WGSL, with all its entry points, to SPIR-V of this version.
fn spirv(source: &str, version: (u8, u8)) -> Vec<u8> {
    let module = naga::front::wgsl::parse_str(source).expect("WGSL");
    let (flags, all) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    let info = naga::valid::Validator::new(flags, all).validate(&module).expect("valid");
    let mut options = naga::back::spv::Options { lang_version: version, ..Default::default() };
    options.flags |= naga::back::spv::WriterFlags::DEBUG;
    let words = naga::back::spv::write_vec(&module, &info, &options, None).expect("SPIR-V");
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn cases(output: &Output) -> Vec<Value> {
    let record: Value = serde_json::from_str(&stdout(output)).expect("JSON");
    record["cases"].as_array().expect("cases").clone()
}

#[test]
fn a_constant_whose_id_has_two_defaults_has_the_one_that_its_name_states() {
    // GLSL's default of `local_size_x_id` is 1, whatever the constant of the same id says.
    let kernel = "#version 450
        layout(constant_id = 0) const uint T = 32;
        layout(local_size_x_id = 0) in;
        layout(binding = 0) writeonly buffer Y { uint y[]; };
        layout(push_constant) uniform P { uint x; };
        void main() { y[gl_GlobalInvocationID.x] = 10000 * T + 100 * gl_WorkGroupSize.x + x; }";
    let description = "[kernel]
        source = 'k.comp'
        [push]
        x = 'local_x'
        [buffer.Y]
        type = 'u32'
        shape = [32]
        check = 'exact'
        [dispatch]
        groups = ['32 / local_x', 1, 1]
        [reference]
        kernel = 'r.comp'
        groups = [1, 1, 1]";
    let reference = kernel.replace("local_size_x_id = 0", "local_size_x = 32").replace("+ x", "+ 32");
    let folder = folder(&[("k.comp", kernel), ("r.comp", &reference), ("k.toml", description)]);
    let output = stdout(&expect_exit(gpukern(&["run"]).arg(folder.path().join("k.toml")).args(BRIEF), 0));
    assert!(output.contains("all answers verified"), "{output}");
}

#[test]
fn a_kernel_is_verified_by_another_and_timed_and_its_record_is_read_by_other_commands() {
    let slow = DOUBLE.replace("const int WORK = 1", "const int WORK = 4");
    let files = [("slow.comp", slow.as_str()), ("ref.toml", &format!("{DESCRIPTION}{REFERENCE}"))];
    let folder = folder(&files);
    let path = folder.path();
    let output = expect_exit(&mut command(path, &["--config=@/ref.toml", "--json=-"]), 0);
    let cases = cases(&output);
    let [case] = &cases[..] else { panic!("{cases:?}") };
    assert_eq!(case["id"], "double/double/f32/N=1000");
    assert_eq!(case["outcome"]["status"], "measured");
    assert_eq!(case["outcome"]["verification"]["tolerance"], 1.0, "{case}");
    assert_eq!(case["work"]["bytes"], 8000);
    let run = path.join("run.json");
    fs::write(&run, &output.stdout).expect("written");
    expect_exit(gpukern(&["compare"]).args([&run, &run]), 0);
    expect_exit(gpukern(&["export", "--to=markdown"]).arg(&run), 0);
    expect_exit(gpukern(&["report", "-o", "-"]).arg(&run), 0);
    let long = stdout(&expect_exit(gpukern(&["report", "--columns", "residual"]).arg(&run), 0));
    assert!(long.contains("residual") && !long.contains("GB/s"), "{long}");
    expect_refusal(
        gpukern(&["report", "--columns", "residual", "-o", "-"]).arg(&run),
        "--columns is about printed tables, and --output draws a page; leave one out",
    );
    let resumed = ["--config=@/ref.toml", "--resume=@/run.json"];
    expect_error(&mut command(path, &resumed), 0, &["resuming: 1 case measured, 0 to go\n"]);
    // A changed kernel of the same name makes another plan.
    fs::write(path.join("double.comp"), DOUBLE.replace("2.0", "3.0")).expect("written");
    expect_refusal(
        &mut command(path, &resumed),
        "cannot resume: double.comp changed (code, grid or arguments) since the run was recorded; measure anew",
    );
    expect_error(&mut command(path, &["--config=@/ref.toml"]), 1, &["the reference has"]);
}

#[test]
fn accesses_outside_a_buffer_are_seen_in_kernels_that_ask_for_its_length() {
    let kernel = |body: &str| {
        format!(
            "#version 460
            layout(local_size_x = 64) in;
            layout(binding = 0) readonly buffer A {{ float a[]; }};
            layout(binding = 1) writeonly buffer D {{ float d[]; }};
            void main() {{ uint i = gl_GlobalInvocationID.x; {body} }}"
        )
    };
    let files = [
        ("slow.comp", kernel("if (i < 1000) d[i] = a[i] + (i + 1 < 1000 ? a[i + 1] : 0);")),
        ("right.comp", kernel("if (i < d.length()) d[i] = a[i] + (i + 1 < a.length() ? a[i + 1] : 0);")),
        ("reads.comp", kernel("if (i < d.length()) d[i] = a[i] + a[i + 1];")),
        ("writes.comp", kernel("if (a.length() > 0) d[i] = a[i] + (i + 1 < a.length() ? a[i + 1] : 0);")),
    ];
    let reference = "[reference]\nkernel = 'slow.comp'\ngroups = ['cdiv(N, 64)']\n";
    let toml =
        DESCRIPTION.replace("'double.comp'", "['right.comp', 'reads.comp', 'writes.comp']").replace("0 = 64", "");
    let toml = toml.replace("[push]\n    n = 'N'", "") + reference;
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).chain([("k.toml", &*toml)]).collect();
    let folder = folder(&files);
    let output = expect_exit(&mut command(folder.path(), &["@/k.toml", "--json=-"]), 1);
    let statuses: Vec<_> = cases(&output).iter().map(|case| case["outcome"]["status"].clone()).collect();
    assert_eq!(statuses, ["measured", "rejected", "rejected"], "{}", stderr(&output));
    let notes = stderr(&output);
    check_text(
        line(&notes, "rejected  double/reads/"),
        "rejected  double/reads/f32/N=1000: D[999] was never written, or was computed from memory that nothing wrote (it \
         is gpukern's NaN filler); the reference has 999",
    );
    check_text(
        line(&notes, "rejected  double/writes/"),
        "rejected  double/writes/f32/N=1000: the kernel wrote outside buffer D: it wrote byte 4000 of a buffer of 4000 \
         bytes (0 to 3999)",
    );
}

/// Kernel that finds the greatest of the first `n - DROPPED` elements, and at least `LEAST`, or else their sum.
const REDUCTION: &str = "#version 460
    layout(local_size_x = 1) in;
    layout(constant_id = 0) const float LEAST = -1e30;
    layout(constant_id = 1) const uint DROPPED = 0;
    layout(constant_id = 2) const bool SUM = false;
    layout(binding = 0) readonly buffer A { float a[]; };
    layout(binding = 1) writeonly buffer D { float d[]; };
    layout(push_constant) uniform P { uint n; } p;
    void main() {
        float m = SUM ? 0.0 : LEAST;
        for (uint i = 0; i + DROPPED < p.n; i++) m = SUM ? m + a[i] : max(m, a[i]);
        d[0] = m;
    }";

#[test]
fn mistakes_that_the_inputs_hide_are_found_by_other_inputs() {
    let description = "[kernel]
        source = 'k.comp'
        [axes]
        N = [500, 100]
        [push]
        n = 'N'
        [buffer.A]
        type = 'f32'
        shape = ['N']
        fill = 'varied'
        [buffer.D]
        type = 'f32'
        shape = [1]
        check = { rtol = RTOL }
        [dispatch]
        groups = 1
        [reference]
        kernel = 'right.comp'";
    let right = REDUCTION.replace("= -1e30", "= -2e30");
    let sum = right.replace("SUM = false", "SUM = true");
    for (kernel, right, tolerance, said) in [
        (
            right.replace("= -2e30", "= 0.0"),
            &right,
            "1e-2",
            Some("if A has only negative numbers, D[0] is 0, the reference has -"),
        ),
        (
            sum.replace("DROPPED = 0", "DROPPED = 1"),
            &sum,
            "0.5",
            Some("if A has only positive numbers, small but for the last, D[0] is"),
        ),
        (right.replace("= -2e30", "= -3e30"), &right, "1e-2", None),
    ] {
        let description = description.replace("RTOL", tolerance);
        let folder = folder(&[("k.comp", &kernel), ("right.comp", right), ("k.toml", &description)]);
        let exit = i32::from(said.is_some());
        let output = expect_exit(&mut command(folder.path(), &["@/k.toml", "--json=-"]), exit);
        let cases = cases(&output);
        assert!(cases.len() == 2 && cases[0]["outcome"]["status"] == cases[1]["outcome"]["status"], "{cases:?}");
        let [status, worst] = ["status", "worst"].map(|key| cases[0]["outcome"][key].as_str().unwrap_or_default());
        let others = worst.strip_prefix("right for these inputs, wrong for others: ").unwrap_or_default();
        assert_eq!(status, if said.is_some() { "rejected" } else { "measured" });
        assert!(others.starts_with(said.unwrap_or_default()), "{worst}");
    }
}

#[test]
fn several_processes_measure_each_case_once() {
    let folder = folder(&[]);
    let path = folder.path();
    let output = expect_exit(&mut command(path, &["@/double.toml", "--processes=3", "--json=-"]), 0);
    // The record has the description, and of the source only the hash.
    let record: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let files = record["kernel_files"].as_array().expect("files");
    let texts: Vec<_> =
        files.iter().map(|file| (file["text"].as_str(), file["sha256"].as_str().map(str::len))).collect();
    assert_eq!(texts, [(None, Some(64)), (Some(DESCRIPTION), Some(64))]);
    let measured: Vec<_> = cases(&output).iter().map(|case| case["process"].as_u64().unwrap_or(0)).collect();
    assert_eq!(measured, [0, 1, 2]);
}

#[test]
fn a_record_has_the_hashes_of_the_files_that_its_answers_were_judged_by() {
    let folder = folder(&[]);
    let path = folder.path();
    let description = DESCRIPTION.replace("'iota'", "'@a.bin'") + "[reference]\nfile = 'right.bin'\n";
    fs::write(path.join("k.toml"), description).expect("written");
    let numbers = |factor: u16| (0..1000).flat_map(|i| f32::from(factor * i).to_le_bytes()).collect::<Vec<_>>();
    let [input, right] = [numbers(1), numbers(2)];
    fs::write(path.join("a.bin"), &input).expect("written");
    fs::write(path.join("right.bin"), &right).expect("written");
    let output = expect_exit(&mut command(path, &["@/k.toml", "--json=-"]), 0);
    let record: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let files = record["kernel_files"].as_array().expect("files");
    let hash = |contents| Sha256::digest(contents).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (name, contents) in [("a.bin", &input[..]), ("right.bin", &right), ("double.comp", DOUBLE.as_bytes())] {
        let is_named = |file: &&Value| file["path"].as_str().is_some_and(|path| path.ends_with(name));
        let named: Vec<_> = files.iter().filter(is_named).collect();
        let [file] = named[..] else { panic!("{name}: {files:?}") };
        assert_eq!(file["sha256"].as_str().expect("a hash"), hash(contents), "{name}");
        assert_eq!(file["text"].as_str(), None, "{file}");
    }
    // The program and the record name the same commit; outside a checkout, neither names one.
    let version = stdout(&expect_exit(&mut gpukern(&["--version"]), 0));
    let commit = record["origin"]["built_from"].as_str().map_or_else(String::new, |commit| format!(" ({commit})"));
    assert_eq!(version, format!("gpukern {}{commit}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(commit.is_empty(), env!("GPUKERN_BUILT_FROM").is_empty(), "{version}");
    assert_eq!(stdout(&expect_exit(&mut gpukern(&["-V"]), 0)), concat!("gpukern ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn kernels_of_several_processes_stay_in_the_order_of_the_command_line() {
    let folder = folder(&[("c.comp", DOUBLE), ("a.comp", DOUBLE), ("b.comp", DOUBLE)]);
    let path = folder.path();
    let kernels = ["@/double.toml", "@/c.comp", "@/a.comp", "@/b.comp", "-s=N=900,1000,800", "--processes=3"];
    expect_exit(command(path, &kernels).arg(within(path, "--json=@/run.json")), 0);
    let run = within(path, "@/run.json");
    let csv = stdout(&expect_exit(&mut gpukern(&["export", &run, "--to", "csv"]), 0));
    let places: Vec<usize> = ["/c/", "/a/", "/b/"]
        .iter()
        .flat_map(|kernel| {
            ["N=900", "N=1000", "N=800"].map(|size| csv.find(&format!("{kernel}f32/{size},")).expect(&csv))
        })
        .collect();
    let of_kernel = |kernel: usize| &places[3 * kernel..3 * kernel + 3];
    assert!((0..3).all(|kernel| of_kernel(kernel).is_sorted()), "{csv}");
    assert!((0..3).all(|size| [0, 1, 2].map(|kernel| of_kernel(kernel)[size]).is_sorted()), "{csv}");
}

#[test]
fn a_record_alone_repeats_the_measurement_of_own_kernels() {
    let script = "cp \"$1/A.npy\" \"$2/D.npy\"\n";
    let more = "[reference]\ncommand = 'sh ref.sh {in} {out}; cat .key >&2 || true'\n";
    let folder = folder(&[(".key", "secret"), ("data.bin", "\u{0}\u{0}\u{0}\u{0}"), ("other.sh", "secret\n")]);
    let path = folder.path();
    // Scripts that the command names, and that these read in turn.
    fs::create_dir(path.join("parts")).expect("made");
    let scripts = [("ref.sh", ". ./parts/first.sh\n"), ("parts/first.sh", ". ./last.sh\n"), ("last.sh", script)];
    for (name, text) in scripts {
        fs::write(path.join(name), text).expect("written");
    }
    let kernel = "// ".to_string() + &"x".repeat(64 << 10) + "\n";
    fs::write(path.join("long.glsl"), kernel).expect("written");
    let source = DOUBLE.replace(
        "layout(local_size_x_id",
        "#extension GL_GOOGLE_include_directive : enable\n#include \"long.glsl\"\nlayout(local_size_x_id",
    );
    fs::write(path.join("double.comp"), source.replace("a[i] * 2.0", "a[i]")).expect("written");
    fs::write(path.join("double.toml"), DESCRIPTION.to_string() + more).expect("written");
    let run = within(path, "@/run.json");
    expect_exit(command(path, &["@/double.toml", "--sources", "--json"]).arg(&run), 0);
    let text = fs::read_to_string(&run).expect("a record");
    assert!(!text.contains("secret") && text.contains("A.npy") && !text.contains("xxxxxx"), "only its own short texts");
    let again = within(path, "@/again");
    let export = |run: &str| gpukern(&["export", run, "--to", "sources", "-o", &again]);
    let written = expect_exit(&mut export(&run), 0);
    assert!(stdout(&written).contains("run double.toml --"), "{}", stdout(&written));
    assert!(stdout(&written).starts_with("cd ") && stdout(&written).ends_with(" --json=run.json\n"), "{written:?}");
    let notes = stderr(&written);
    assert!(line(&notes, "note      not written").contains("long.glsl") && notes.contains("--no-commands"), "{notes}");
    assert!(notes.contains("what a command reads without naming it"), "{notes}");
    for name in ["double.comp", "double.toml", "ref.sh", "parts/first.sh", "last.sh"] {
        let [copy, original] = [Path::new(&again), path].map(|folder| fs::read(folder.join(name)).expect(name));
        assert_eq!(copy, original, "{name}");
    }
    fs::rename(path.join("long.glsl"), Path::new(&again).join("long.glsl")).expect("moved");
    let again_alone = expect_exit(&mut command(path, &["@/again/double.toml"]), 0);
    assert!(!stdout(&again_alone).contains("unverified"), "its own reference: {}", stdout(&again_alone));
    expect_refusal(&mut export(&run), "'@/again' is not empty; name a new folder: -o DIR");
    fs::write(&run, text.replace("A.npy", "B.npy")).expect("written");
    let changed =
        "the text of '@/last.sh' in '@/run.json' does not have the hash that stands beside it: the record was changed";
    expect_refusal(&mut export(&run), changed);
}

#[test]
fn sources_stay_out_of_the_record_unless_asked_for() {
    let folder = folder(&[]);
    let path = folder.path();
    let run = within(path, "@/run.json");
    for arguments in [&["run", "@/double.toml"][..], &["verify", "--config=@/c.toml"], &["bench", "--config=@/c.toml"]]
    {
        fs::write(path.join("c.toml"), "[[run]]\nkernel = 'double.toml'\n").expect("written");
        let mut command = gpukern(&[]);
        command.args(arguments.iter().map(|argument| within(path, argument))).args(["--json", &run]);
        expect_exit(&mut command, 0);
        let text = fs::read_to_string(&run).expect("a record");
        assert!(!text.contains("local_size_x_id") && text.contains("cdiv("), "{arguments:?}");
    }
    let mut export = gpukern(&["export", &run, "--to", "sources", "-o"]);
    let why = "it was measured without --sources, or they are larger than 64 KiB, or no text";
    expect_refusal(export.arg(path.join("again")), &format!("'@/run.json' has no sources: {why}"));
    expect_exit(brief_bench(&["matmul", "-V", "naive", "-s", "8", "--json"]).arg(&run), 0);
    let mut export = gpukern(&["export", &run, "--to", "sources", "-o"]);
    expect_error(export.arg(path.join("again")), 2, &["it has only built-in kernels, which `", " bench matmul "]);
}

#[test]
fn further_rounds_take_the_options_of_the_first_but_those_about_the_comparison() {
    let folder = folder(&[]);
    let path = folder.path();
    expect_exit(&mut command(path, &["@/double.toml", "--json=@/before.json"]), 0);
    super::forget_conditions(&path.join("before.json"));
    let before = within(path, "--compare=@/before.json");
    let options = [&*before, "--process-noise", "900%", "--min-effect=1%", "--budget=20s", "--save"];
    let mut again = command(path, &["@/double.toml", "--timeout=20s", "--rounds=@/rounds"]);
    expect_error(again.args(options).arg(within(path, "D=@/d.npy")), 4, &["round 2: 1 undecided"]);
    let round = fs::read_to_string(path.join("rounds/round-2.json")).expect("a record");
    let round: Value = serde_json::from_str(&round).expect("JSON");
    let started: jiff::Timestamp = round["started"].as_str().expect("text").parse().expect("a time");
    let saved = fs::metadata(path.join("d.npy")).and_then(|file| file.modified()).expect("it was saved");
    assert!(jiff::Timestamp::try_from(saved).expect("a time") < started, "a round saved it again");
}

#[test]
fn one_of_several_entry_points_is_chosen_and_has_only_its_buffers() {
    let folder = folder(&[]);
    let path = folder.path();
    for version in [(1, 3), (1, 5)] {
        fs::write(path.join("two.spv"), spirv(TWO, version)).expect("written");
        expect_refusal(
            &mut command(path, &["@/two.spv"]),
            "@/two.spv: it has several entry points (double, triple); choose one with --entry or `entry`",
        );
        expect_refusal(
            &mut command(path, &["@/two.spv", "--entry=tripple"]),
            "@/two.spv: unknown entry point 'tripple'; did you mean 'triple'? available: double, triple",
        );
        for (entry, output, local, shown) in [("double", "d", 64, "0 2 4"), ("triple", "e", 32, "0 3 6")] {
            let (entry, output) =
                (format!("--entry={entry}"), format!("--set=buffer.{output}={{ type = 'f32', shape = 'N' }}"));
            let (groups, print) =
                (format!("--set=dispatch.groups=cdiv(N,{local})"), format!("--print={}[0:3]", &output[13..14]));
            let inputs = ["@/two.spv", "--size=N=256", "--set=buffer.a={ type = 'f32', shape = 'N', fill = 'iota' }"];
            let arguments = [&inputs[..], &[&entry, &output, &groups, &print]].concat();
            expect_output(
                &mut command(path, &arguments),
                0,
                &[", elements 0 to 2 of 256 (", &format!("\n  {shown}\n")],
            );
        }
    }
}

#[test]
fn a_wrong_case_is_saved_with_a_reproducer() {
    let (right, wrong) = (DOUBLE.replace("const int WORK = 1", "const int WORK = 4"), DOUBLE.replace("2.0", "3.0"));
    let files = [
        ("slow.comp", &*right),
        ("wrong_in_every_element_by_a_factor_of_three_halves.comp", &*wrong),
        ("ref.toml", &format!("{DESCRIPTION}{REFERENCE}")),
    ];
    let folder = folder(&files);
    let path = folder.path();
    let arguments = [
        "@/wrong_in_every_element_by_a_factor_of_three_halves.comp",
        "@/double.comp",
        "--config=@/ref.toml",
        "--keep-failures",
        "@/kept",
    ];
    expect_error(&mut command(path, &arguments), 1, &["1 failure saved in "]);
    let kept: Vec<_> =
        fs::read_dir(path.join("kept")).expect("kept").map(|entry| entry.expect("a folder").path()).collect();
    let [failure] = &kept[..] else { panic!("{kept:?}") };
    let all = stderr(&expect_exit(&mut command(path, &["@/kept"]), 2));
    assert!(all.contains("it holds 1 case; name one of them, or run each: for c in "), "{all}");
    let text = fs::read_to_string(failure.join("failure.json")).expect("a document");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let bound = &document["dispatches"][0]["bindings"]["descriptors"];
    assert_eq!((&bound[0]["buffer"], &bound[1]["buffer"]), (&"A".into(), &"D".into()), "{text}");
    assert_eq!(document["dispatches"][0]["bindings"]["push_constants"], serde_json::json!([232, 3, 0, 0]), "{text}");
    assert!(failure.join(document["dispatches"][0]["spirv"].as_str().expect("a file")).is_file());
    assert_eq!(fs::read(failure.join("A.bin")).expect("the input")[4..8], 1f32.to_le_bytes());
    // The command of the reproducer runs only that case.
    let (_, again) = document["command"].as_str().expect("a command").rsplit_once("gpukern ").expect("of gpukern");
    let words: Vec<_> = again.split(' ').chain(["--json=-"]).collect();
    let cases = cases(&expect_exit(gpukern(&words).current_dir(path), 1));
    assert_eq!(
        cases.iter().map(|case| &case["id"]).collect::<Vec<_>>(),
        ["double/wrong_in_every_element_by_a_factor_of_three_halves/f32/N=1000"]
    );
    // Its SPIR-V and files suffice to judge it again.
    for file in ["wrong_in_every_element_by_a_factor_of_three_halves.comp", "slow.comp", "ref.toml"] {
        fs::remove_file(path.join(file)).expect("removed");
    }
    let saved = self::cases(&expect_exit(gpukern(&["run", "--json=-", "--no-peak"]).arg(failure), 1));
    assert_eq!(saved[0]["outcome"]["worst"], document["case"]["outcome"]["worst"], "{saved:?}");
    let folder = self::folder(&files);
    let path = folder.path();
    let duel = [
        "@/double.comp",
        "@/wrong_in_every_element_by_a_factor_of_three_halves.comp",
        "--config=@/ref.toml",
        "--ab",
        "--keep-failures=@/duel",
    ];
    expect_error(&mut command(path, &duel), 1, &["1 failure saved in "]);
}

#[test]
fn a_failure_that_its_folder_cannot_repeat_is_not_run_again() {
    let folder = folder(&[("failing.toml", &format!("{DESCRIPTION}[reference]\ncommand = 'exit 3; {{out}}'\n"))]);
    let path = folder.path();
    let said = "1 failure saved in @/kept; `gpukern run FOLDER` repeats one";
    expect_error(&mut command(path, &["@/failing.toml", "--keep-failures=@/kept"]), 2, &[&within(path, said)]);
    // Without the reference, which is what failed, the kernel would pass.
    let kept = "@/kept/double_f32_N_1000";
    let reason = "it may pass without its reference, which made it fail or itself failed, and which cannot be kept: ";
    let again = stderr(&expect_exit(&mut command(path, &[kept]), 2));
    assert!(again.contains(reason) && again.contains("this measures the case anew: `"), "{again}");
    // Whatever else would run it says the same.
    let [kept, config] = [kept, "@/kept.toml"].map(|name| within(path, name));
    fs::write(&config, format!("[[run]]\ndescription = '{kept}/case.toml'\n")).expect("written");
    for words in [
        ["sanitize", &kept],
        ["run", &format!("{kept}/case.toml")],
        ["verify", &format!("--config={config}")],
        ["ab", &kept],
    ] {
        let said = stderr(&expect_exit(gpukern(&words).args((words[0] == "ab").then_some("--b-env=A=b")), 2));
        assert!(said.contains(reason), "{words:?}: {said}");
    }
    // The command that does has the options that decide how it fails.
    fs::write(path.join("all.toml"), "[[run]]\ndescription = 'failing.toml'\n").expect("written");
    let options = ["--config=@/all.toml", "--timeout=5s", "--keep-failures=@/again"].map(|word| within(path, word));
    expect_exit(gpukern(&["verify"]).args(options), 2);
    let again = fs::read_to_string(path.join("again/double_f32_N_1000/failure.json")).expect("kept");
    assert!(again.contains(" --timeout=5s"), "{again}");
}

#[test]
fn without_a_reference_a_time_is_marked_and_elements_are_shown_and_saved() {
    let folder = folder(&[]);
    let path = folder.path();
    let arguments = ["--config=@/double.toml", "--print=D[0:3]", "--save=D=@/d.npy"];
    let output = expect_exit(&mut command(path, &arguments), 0);
    let text = stdout(&output);
    let (table, elements) = text.split_once("\nD, ").expect("elements");
    check_text(line(table, "double f32"), "double f32");
    assert_eq!(elements, "elements 0 to 2 of 1000 (--print 'D[:]' shows all)\n  0 2 4\n");
    let saved = fs::read(path.join("d.npy")).expect("it was saved");
    assert_eq!(saved[saved.len() - 4..], 1998f32.to_le_bytes());
    // The saved file serves as a reference.
    let mut checked = command(path, &["--config=@/double.toml", "--set=reference.file=@/d.npy", "--json=-"]);
    check_verified(&cases(&expect_exit(&mut checked, 0)));
    expect_refusal(&mut command(path, &["--config=@/double.toml", "--print=E"]), "unknown output 'E'; available: D");
}

#[test]
fn a_check_that_could_not_fail_is_noted_under_the_table_and_in_the_record() {
    let reference = DOUBLE.replace("local_size_x_id = 0", "local_size_x = 64");
    let loose = DESCRIPTION.replace("rtol = 1e-5", "rtol = 1e-3") + "[reference]\n kernel = 'reference.comp'\n";
    let blind = loose.replace("fill = 'iota'", "fill = 'zero'");
    let files =
        [("loose.toml", loose.as_str()), ("blind.toml", blind.as_str()), ("reference.comp", reference.as_str())];
    let folder = folder(&files);
    let loose = ["--config=@/loose.toml", "--size=N=8192"];
    let note = |arguments: &[&str]| {
        let text = words(&stdout(&expect_exit(&mut command(folder.path(), arguments), 0)));
        let (_, note) = text.split_once(", all answers verified, some weakly (w) ").expect("they are");
        let note = note.split_once(" w the check ").expect("a note").1;
        // Few samples of a short run have no interval.
        note.split(" ± ").next().unwrap_or_default().to_string()
    };
    check_text(
        &note(&loose),
        "would also accept every element from its neighbor (in most places), or one element in a thousand from its \
         neighbor (in most places) in D (iota; rtol = 1e-3, atol = 1e-5); choose a fill whose neighbors differ by more \
         than the tolerance, or check = \"exact\"",
    );
    check_text(
        &note(&["--config=@/blind.toml"]),
        "would also accept zeros in D (zero; rtol = 1e-3, atol = 1e-5); choose another fill, or a smaller tolerance if \
         there is one",
    );
    let output = expect_exit(&mut command(folder.path(), &[loose[0], loose[1], "--json=-"]), 0);
    let accepts = &cases(&output)[0]["outcome"]["accepts"];
    assert_eq!((&accepts[0]["buffer"], &accepts[0]["mutation"]), (&"D".into(), &"neighbors".into()), "{accepts}");
}

#[test]
fn kernels_and_choices_take_turns_and_one_of_two_wins() {
    let slow = DOUBLE.replace("const int WORK = 1", "const int WORK = 600");
    let folder = folder(&[("slow.comp", slow.as_str())]);
    let path = folder.path();
    let both = ["@/double.comp", "@/slow.comp", "--config=@/double.toml", "--json=-"];
    let output = expect_exit(&mut command(path, &both), 0);
    let names: Vec<_> = cases(&output).iter().map(|case| case["variant"].as_str().expect("text").to_string()).collect();
    assert_eq!(names, ["double", "slow"]);
    // Each kernel uses the first of the choices that --tune would search.
    let ab =
        ["@/slow.comp", "@/double.comp", "--config=@/double.toml", "--ab", "--size=N=2000", "--set=spec.0=[64,128]"];
    // A verdict takes a dozen rounds.
    let judge = |args: &[&str], code| {
        let mut command = gpukern(&["run", "--max-time=5s", "--no-peak"]);
        let text = stdout(&expect_exit(command.args(args.iter().map(|argument| within(path, argument))), code));
        let verdict = line(&text, "B is ").split(':').next().map(String::from);
        (text.lines().next().expect("a heading").to_string(), verdict.expect("a verdict"))
    };
    assert_eq!(judge(&ab, 0), ("double f32 2000".into(), "B is faster than A".into()));
    let specs = ["--config=@/double.toml", "--ab", "--set=spec.WORK=[1,600]", "--size=N=2000"];
    assert_eq!(judge(&specs, 1), ("double f32 2000".into(), "B is SLOWER than A".into()));
    let sizes = ["@/slow.comp", "@/double.comp", "--config=@/double.toml", "--ab", "--size=N=1000,2000", "--json=-"];
    let document: Value = serde_json::from_str(&stdout(&super::run(&mut command(path, &sizes)))).expect("JSON");
    let sizes = document["cases"].as_array().expect("two cases").iter();
    let sizes: Vec<_> = sizes.map(|case| case["b"]["case"]["id"].as_str().expect("an id")).collect();
    assert_eq!(sizes, ["double/double/f32/N=1000", "double/double/f32/N=2000"]);
    let tune = [
        "--config=@/double.toml",
        "--tune",
        "--set=spec.WORK=[1,300,600]",
        "--set=where.short=WORK < 500",
        "--size=N=100000",
    ];
    let text = stdout(&expect_exit(&mut command(path, &tune), 0));
    assert!(text.contains("WORK=1") && text.contains("WORK=300") && !text.contains("WORK=600"), "{text}");
    assert!(text.contains(": WORK = 1, "), "{text}");
    // Named choices are timed in the order of their names.
    let named = ["--config=@/double.toml", "--set=spec.WORK=[1,2,3]", "-V=double[WORK=3],double[WORK=1]", "--json=-"];
    let output = expect_exit(&mut command(path, &named), 0);
    let names: Vec<_> = cases(&output).iter().map(|case| case["variant"].as_str().expect("text").to_string()).collect();
    assert_eq!(names, ["double[WORK=3]", "double[WORK=1]"]);
    assert!(!stderr(&output).contains("the first of"), "{}", stderr(&output));
}

#[test]
fn one_choice_for_several_sizes_is_named_and_choices_have_their_constants_as_fields() {
    let description = DESCRIPTION.to_string() + "[reference]\n kernel = 'reference.comp'\n";
    let reference = DOUBLE.replace("local_size_x_id = 0", "local_size_x = 64");
    let folder = folder(&[("checked.toml", description.as_str()), ("reference.comp", reference.as_str())]);
    let path = folder.path();
    let tune =
        ["--config=@/checked.toml", "--tune", "--set=spec.WORK=[1,2]", "--size=N=1000,2000", "--json=@/tuned.json"];
    let text = words(&stdout(&expect_exit(&mut command(path, &tune), 0)));
    // Whether alike choices are told apart on a busy machine is a matter of luck; a unit test has fixed times.
    assert!(text.contains("one choice for the 2 sizes: WORK = "), "{text}");
    let record = within(path, "@/tuned.json");
    let choices = stdout(&expect_exit(&mut gpukern(&["report", &record, "--json", "-"]), 0));
    let choices: Value = serde_json::from_str(&choices).expect("JSON");
    for variant in choices["problems"][0]["variants"].as_array().expect("two") {
        let value = variant["choice"]["WORK"].as_str().expect("a constant");
        assert_eq!(variant["variant"], format!("double[WORK={value}]"));
    }
}

#[test]
fn the_first_of_several_choices_is_timed_printed_and_named() {
    let folder = folder(&[]);
    let first = ["--config=@/double.toml", "--set=spec.WORK=[1,2]", "--print=D[0:2]"];
    let output = expect_exit(&mut command(folder.path(), &first), 0);
    check_text(
        stdout(&output).split_once("\nD, ").expect("elements").1,
        "elements 0 to 1 of 1000 (--print 'D[:]' shows all)\n  0 2\n",
    );
    check_text(
        line(&stderr(&output), "note      double: "),
        "note      double: WORK = 1, the first of 2 choices; --tune times all",
    );
    expect_refusal(
        command(folder.path(), &first).arg("--tune"),
        "--print and --save take one case, and this selects 2; give each axis one value and name one kernel, without \
         --tune and --ab",
    );
    expect_refusal(
        &mut command(folder.path(), &["--config=@/double.toml", "--tune"]),
        "nothing to tune: no value in [spec] is a list, such as LANES = [32, 64]; to tune a macro, make it a \
         constant: layout(constant_id = 0) const uint LANES = 32;",
    );
    let listed = expect_exit(&mut command(folder.path(), &["--config=@/double.toml", "--dry-run"]), 0);
    check_text(&unmeasured(&stdout(&listed)), "    # s  double/double/f32/N=1000\n\n1 case, roughly # s\n");
    // Unwritten elements are reported as such, not as rounding errors.
    let half = ["--config=@/double.toml", "--set=dispatch.groups=cdiv(N,128)", "--set=reference.file=@/d.npy"];
    expect_exit(&mut command(folder.path(), &["--config=@/double.toml", "--save=D=@/d.npy"]), 0);
    let said = stderr(&expect_exit(&mut command(folder.path(), &half), 1));
    check_text(
        line(&said, "rejected  "),
        "rejected  double/double/f32/N=1000: D[512] was never written (the reference has 1024): does \
         the grid, or an `if`, leave it out, or is its value undefined? (488 elements are wrong)",
    );
    // A description of --config is no saved failure, whose driver is the suspect.
    assert!(said.contains("if the cause is not clear") && !said.contains("suspect the driver"), "{said}");
}

#[test]
fn the_limit_of_loops_is_suspected_where_an_invocation_may_reach_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let source = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) writeonly buffer D { uint d[]; };
        layout(push_constant) uniform P { uint n; };
        void main() {
            uint s = 0;
            for (uint k = 0; k < n; ++k) s += n + k;
            d[gl_GlobalInvocationID.x] = s;
        }";
    let description = "kernel.source = \"sum.comp\"\naxes = { N = 5, M = \"N\", K = \"N\" }\npush.n = \"N\"\n\
                       buffer.D = { shape = [64], type = \"u32\" }\ndispatch.groups = [1, 1, 1]\n";
    fs::write(path("sum.comp"), source).expect("written");
    fs::write(path("sum.toml"), description).expect("written");
    let run = |arguments: [&str; 2]| {
        let mut command = gpukern(&["run", "--config", &path("sum.toml"), "--no-peak", "--max-time=0.1s"]);
        command.args(arguments);
        command
    };
    let file = path("d.npy");
    expect_exit(&mut run(["-q", &format!("--save=D={file}")]), 0);
    let reference = format!("--set=reference.file={file}");
    let said = |size: &str| stderr(&expect_exit(&mut run([&reference, size]), 1));
    let [small, large] = ["-s=N=40", "-s=N=100000"].map(said);
    let note = "note      if a loop is long: this driver silently stops an invocation";
    assert!(!small.contains(note) && large.contains(note), "40³ points are fewer: {small}\n{large}");
    // Nothing checks these, and no size says how many rounds the first one takes.
    for (rounds, is_told) in [("while (s < 1e30 && n > 0u)", true), ("for (uint k = 0; k < n; ++k)", false)] {
        let source =
            source.replace("uint s = 0;", "float s = 0;").replace("d[gl_GlobalInvocationID.x] = s", "d[0] = uint(s)");
        let source =
            source.replace("for (uint k = 0; k < n; ++k) s += n + k;", &format!("{rounds} s = s * 0.5 + 1.0;"));
        fs::write(path("sum.comp"), source).expect("written");
        let said = stderr(&expect_exit(&mut run(["-s=N=5", "-v"]), 0));
        assert_eq!(said.contains("65535 loop iterations"), is_told, "{rounds}: {said}");
    }
}

/// A product that `matmul` can judge.
const PRODUCT: &str = "#version 460
        layout(local_size_x = 8, local_size_y = 8) in;
        layout(binding = 0) readonly buffer A { float a[]; };
        layout(binding = 1) readonly buffer B { float b[]; };
        layout(binding = 2) writeonly buffer D { float d[]; };
        layout(push_constant) uniform P { uint m, n, k; };
        void main() {
            uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
            if (row >= m || column >= n) return;
            float sum = 0.0;
            for (uint i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + column];
            d[row * n + column] = sum;
        }";

/// Options with which built-in variants take turns with it.
const AGAINST_BUILT_IN: [&str; 12] = [
    "@/mm.comp",
    "--size=M=65",
    "--size=N=40",
    "--size=K=33",
    "--set=push={ m = 'M', n = 'N', k = 'K' }",
    "--set=buffer.A={ type = 'f32', shape = ['M', 'K'], fill = 'uniform(0,1)' }",
    "--set=buffer.B={ type = 'f32', shape = ['K', 'N'], fill = 'uniform(0,1)' }",
    "--set=buffer.D={ type = 'f32', shape = ['M', 'N'] }",
    "--set=dispatch.groups=[cdiv(N,8),cdiv(M,8)]",
    "--set=reference={ builtin = 'matmul', size = ['M', 'N', 'K'], roles = { A = 'A', B = 'B', C = 'D' } }",
    "--against=matmul:tiled,auto",
    "--json=-",
];

#[test]
fn a_built_in_algorithm_judges_and_its_variants_take_turns() {
    let folder = folder(&[("mm.comp", PRODUCT)]);
    let output = expect_exit(&mut command(folder.path(), &AGAINST_BUILT_IN), 0);
    let cases = cases(&output);
    let names: Vec<_> = cases.iter().map(|case| case["variant"].as_str().expect("text")).collect();
    assert_eq!(names, ["mm", "matmul:tiled", "matmul:auto"]);
    let choice = cases[2]["notes"][0].as_str().expect("a note");
    let chosen =
        cases[2]["chosen_by_auto"].as_str().and_then(|chosen| chosen.strip_prefix("matmul:")).expect("a variant");
    assert!(choice.contains(&format!("auto chose {chosen}, by its model")), "{choice}");
    assert!(
        cases[1]["chosen_by_auto"].is_null() && cases[1]["notes"].as_array().is_some_and(Vec::is_empty),
        "{cases:?}"
    );
    check_verified(&cases);
    // A stated check replaces the bound of the built-in algorithm.
    let off = PRODUCT.replace("d[row * n + column] = sum", "d[row * n + column] = 1.001 * sum");
    fs::write(folder.path().join("mm.comp"), off).expect("written");
    expect_exit(&mut command(folder.path(), &AGAINST_BUILT_IN), 1);
    let tolerant = [&AGAINST_BUILT_IN[..], &["--set=buffer.D.check={ rtol = 1e-2 }"]].concat();
    expect_exit(&mut command(folder.path(), &tolerant), 0);
}

#[test]
fn ab_judges_ones_own_kernel_by_a_built_in_one() {
    let folder = folder(&[("mm.comp", PRODUCT)]);
    let ab = |more: &[&str]| {
        let options: Vec<_> = AGAINST_BUILT_IN.into_iter().filter(|option| !option.starts_with("--against")).collect();
        command(folder.path(), &[&options[..], &["--ab"], more].concat())
    };
    // A verdict takes longer; whose turn comes first is no matter of time.
    let trial: Value = serde_json::from_str(&stdout(&super::run(&mut ab(&["--against=naive"])))).expect("JSON");
    let labels = ["a", "b"].map(|side| &trial[side]["label"]);
    assert_eq!(labels, ["matmul:naive", "mm"].map(Value::from).each_ref(), "{trial}");
    expect_refusal(
        &mut ab(&["--against=naive,tiled"]),
        "--ab takes two kernels, two values of a list in [spec], or one kernel and one built-in variant (--against), but \
         size 65x40x33 has 3: mm, matmul:naive, matmul:tiled; choose two with -V",
    );
}

#[test]
fn built_in_kernels_beside_a_users_have_what_tune_found() {
    let folder = folder(&[("mm.comp", PRODUCT)]);
    let tuned = folder.path().join("tuned.toml");
    let tune = ["tune", "matmul", "-s=65x40x33", "--budget=1ms", "--tuned"];
    expect_exit(gpukern(&tune).arg(&tuned), 0);
    let found = fs::read_to_string(&tuned).expect("saved").replace("\ngflops = ", "\ngflops = 1");
    let other = replaced(&found, "\ntile = .*", "\ntile = \"64x64x8/32x16/8x8\"");
    assert_ne!(other, found);
    fs::write(&tuned, other).expect("written");
    let notes_with = |more: &[&str]| {
        let mut run = command(folder.path(), &AGAINST_BUILT_IN);
        let output = expect_exit(run.args(more).env("GPUKERN_TUNED", &tuned), 0);
        cases(&output).iter().map(|case| case["notes"].to_string()).collect::<Vec<_>>()
    };
    let notes = notes_with(&[]);
    assert!(notes[1].contains("tile 64×64×8 in 32×16 in 8×8, tuned 20"), "{notes:?}");
    assert!(notes[2].contains(", the fastest of the results of 20"), "{notes:?}");
    let notes = notes_with(&["--no-tuned"]);
    assert!(notes[1] == "[]" && notes[2].contains(", by its model"), "{notes:?}");
}

/// Description of kernels with scratch S beside A and D, with a right kernel as reference.
const SCRATCH: &str = "[kernel]
    source = ['right.comp', 'flag.comp', 'own.comp', 'changes.comp']
    [axes]
    N = 1000
    [push]
    n = 'N'
    [buffer.A]
    type = 'f32'
    shape = ['N']
    fill = 'uniform(1, 2)'
    [buffer.D]
    type = 'f32'
    shape = ['N']
    [buffer.S]
    type = 'u32'
    shape = ['N']
    scratch = true
    [dispatch]
    groups = ['cdiv(N, 64)']
    [reference]
    kernel = 'right.comp'
    groups = ['cdiv(N, 64)']
    ";

/// Returns a kernel for [`SCRATCH`] with this body, in which `i` is below `n`.
fn of_scratch(body: &str) -> String {
    let access = if body.contains("a[i] =") { "" } else { "readonly" };
    format!(
        "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) {access} buffer A {{ float a[]; }};
        layout(binding = 1) buffer D {{ float d[]; }};
        layout(binding = 2) buffer S {{ uint s[]; }};
        layout(push_constant) uniform P {{ uint n; }} p;
        void main() {{ uint i = gl_GlobalInvocationID.x; if (i >= p.n) return; {body} }}"
    )
}

#[test]
fn a_kernel_that_finds_in_its_timed_runs_that_all_is_done_is_rejected_and_so_is_one_that_changes_its_input() {
    let kernels = [
        ("right.comp", "s[i] = 7; d[i] = 2.0 * a[i];"),
        ("flag.comp", "if (s[i] == 7) return; s[i] = 7; d[i] = 2.0 * a[i];"),
        ("own.comp", "s[i] = 7; if (d[i] >= 2.0 && d[i] <= 4.0) return; d[i] = 2.0 * a[i];"),
        ("changes.comp", "s[i] = 7; d[i] = 2.0 * a[i]; a[i] = 0.0;"),
    ];
    let kernels = kernels.map(|(name, body)| (name, of_scratch(body)));
    let mut files: Vec<_> = kernels.iter().map(|(name, text)| (*name, text.as_str())).collect();
    files.push(("scratch.toml", SCRATCH));
    let folder = folder(&files);
    let output = expect_exit(&mut command(folder.path(), &["--config=@/scratch.toml", "--json=-"]), 1);
    let found = |variant: &str| {
        let cases = cases(&output);
        let case = cases.iter().find(|case| case["variant"] == variant).expect("a case");
        (case["outcome"]["status"].to_string(), case["outcome"]["worst"].as_str().unwrap_or_default().to_string())
    };
    assert_eq!(found("right").0, "\"measured\"");
    for variant in ["flag", "own"] {
        let (status, worst) = found(variant);
        assert_eq!(status, "\"rejected\"");
        assert!(worst.starts_with("right at first, wrong after ") && worst.contains(" more runs: D["), "{worst}");
    }
    assert_eq!(found("changes").1, "the kernel changed its input A; give A a check if it is meant to change");
}

#[test]
fn a_kernel_that_compares_what_lies_beyond_an_end_is_rejected() {
    let extreme = |compared: &str, bound: &str| {
        of_scratch(&format!(
            "s[i] = 7; if (i % 64 != 0) return; float most = a[i];
            for (uint j = i; j < {bound}; j++) {{ float x = a[j]; if (x {compared} most) most = x; }}
            d[i / 64] = most;"
        ))
    };
    let description = SCRATCH
        .replace("'right.comp', 'flag.comp', 'own.comp', 'changes.comp'", "'right.comp', 'wrong.comp'")
        .replacen("shape = ['N']", "shape = ['N' ]", 1)
        .replacen("shape = ['N']", "shape = ['cdiv(N, 64)']", 1);
    for compared in ["<", ">"] {
        let (right, wrong) = (extreme(compared, "min(i + 64, p.n)"), extreme(compared, "i + 64"));
        let folder = folder(&[("right.comp", &right), ("wrong.comp", &wrong), ("extreme.toml", &description)]);
        let output = expect_exit(&mut command(folder.path(), &["--config=@/extreme.toml", "--json=-"]), 1);
        let statuses: Vec<_> = cases(&output).iter().map(|case| case["outcome"]["status"].to_string()).collect();
        assert_eq!(statuses, ["\"measured\"", "\"rejected\""], "{compared}: {}", stderr(&output));
    }
}

#[test]
fn an_output_that_the_command_does_not_write_is_an_error_with_a_check_and_unverified_without() {
    let both = of_scratch("d[i] = a[i]; s[i] = 7;");
    let folder = folder(&[("both.comp", both.as_str())]);
    // These are the replaced spellings of options.
    let given = "--right-by=cp {in}/A.npy {out}/D.npy; cp {in}/A.npy {out}/s.npy";
    let outputs = ["--buffer=A=f32[N]:iota", "--buffer=D=f32[N]", "--buffer=S=u32[N]"];
    let run = |check: &[&str], code| {
        let mut run = command(folder.path(), &["@/both.comp", "--size=N=100", "--push=n=N", "--groups=2", given]);
        expect_exit(run.args(outputs).args(check).arg("--json=-"), code)
    };
    let unknown = run(&[], 0);
    let verification = cases(&unknown)[0]["outcome"]["verification"].clone();
    assert_eq!(verification["unverified"], "there is no reference for S", "{verification}");
    let output = run(&["--check=S=exact"], 2);
    check_text(
        cases(&output)[0]["outcome"]["error"].as_str().expect("a mistake"),
        "the reference command `cp {in}/A.npy {out}/D.npy; cp {in}/A.npy {out}/s.npy` wrote D.npy, s.npy to {out}; \
         make it write S.npy too, which has a check",
    );
}

#[test]
fn the_wrong_elements_of_all_outputs_are_counted() {
    let kernel = |d: &str, s: &str| of_scratch(&format!("d[i] = {d}; s[i] = {s};"));
    let wrong = kernel("i == 5 ? 0.5 : 7.0", "i < 3 ? 9u : i");
    let description = "[axes]\nN = 100\n[kernel]\nsource = 'wrong.comp'\n[push]\nn = 'N'\n[dispatch]\ngroups = 2\n\
        [buffer.A]\ntype = 'f32'\nshape = 'N'\nfill = 'iota'\n[buffer.D]\ntype = 'f32'\nshape = 'N'\n\
        [buffer.S]\ntype = 'u32'\nshape = 'N'\n[reference]\nkernel = 'right.comp'\n";
    let right = kernel("7.0", "i");
    let folder = folder(&[("wrong.comp", &wrong), ("right.comp", &right), ("two.toml", description)]);
    let kept = within(folder.path(), "--keep-failures=@/kept");
    let output = expect_exit(command(folder.path(), &["@/two.toml", "--json=-"]).arg(kept), 1);
    let verification = cases(&output)[0]["outcome"].clone();
    assert_eq!(verification["wrong"]["count"], 4, "{verification}");
    let saved = fs::read_dir(folder.path().join("kept")).expect("a folder").next().expect("a case").expect("read");
    let listed = fs::read_to_string(saved.path().join("wrong.csv")).expect("written");
    assert_eq!(listed, "element,got,expected\nD[5],0.5,7\nS[0],9,0\nS[1],9,1\nS[2],9,2\n");
}

#[test]
fn a_failure_tells_which_variables_of_the_driver_it_had_otherwise() {
    let wrong = DOUBLE.replace("a[i] * 2.0", "a[i] * 3.0");
    let reference = "[reference]\nkernel = 'double.comp'\nspec = { 0 = 64 }\ngroups = [16]\n";
    let text = DESCRIPTION.replace("'double.comp'", "'wrong.comp'") + "\n" + reference;
    let folder = folder(&[("wrong.comp", &wrong), ("wrong.toml", &text)]);
    let path = folder.path();
    let mut failing = command(path, &["@/wrong.toml", "--keep-failures=@/kept"]);
    expect_exit(failing.env("LP_NUM_THREADS", "1"), 1);
    let kept = fs::read_dir(path.join("kept")).expect("a folder").next().expect("a case").expect("read").path();
    let [kept, description] = [kept.clone(), kept.join("case.toml")].map(|path| path.display().to_string());
    let note = "note      rejected with LP_NUM_THREADS=1 (not set now); to repeat it, put `LP_NUM_THREADS=1` before the command";
    for file in [&kept, &description] {
        line(&stderr(&expect_exit(&mut command(path, &[file]), 1)), note);
        let repeated = stderr(&expect_exit(command(path, &[file]).env("LP_NUM_THREADS", "1"), 1));
        assert!(!repeated.contains("to repeat it"), "{repeated}");
    }
    for (variable, is_told) in [("RADV_DEBUG=llvm", true), ("LP_NUM_THREADS=1", false)] {
        let mut duel = gpukern(&["ab", &kept, "--b-env", variable]);
        let said = stderr(&expect_exit(&mut duel, 1));
        assert_eq!(said.contains(note), is_told, "{said}");
    }
}

#[test]
fn options_that_would_be_ignored_are_refused() {
    let folder = folder(&[]);
    let named = DESCRIPTION.replace("0 = 64", "0 = 64\n    WORK = 1");
    fs::write(folder.path().join("named.toml"), named).expect("written");
    expect_refusals(
        folder.path(),
        "
        $ gpukern run @/named.toml --set=spec.1=2
        --set spec.1=2: spec.1: is the same constant as WORK; set only one of them
        $ gpukern run @/double.toml -s=N=64 -s=N=128
        --size states N twice; write its values in one: N=64,128
        ",
    );
}

#[test]
fn a_kernel_that_writes_elsewhere_crashes_or_hangs_ends_as_such() {
    let behind = DOUBLE.replace("if (i >= p.n) return;", "if (i == p.n) d[i] = 7.0;\n if (i >= p.n) return;");
    let wild = "#version 460
        #extension GL_EXT_buffer_reference : require
        layout(local_size_x = 1) in;
        layout(buffer_reference, std430) buffer Floats { float at[]; };
        layout(binding = 1) writeonly buffer D { float d[]; };
        layout(push_constant) uniform P { Floats a; };
        void main() { d[0] = 1.0; a.at[1 << 30] = 1.0; }";
    let endless = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 1) buffer D { float d[]; };
        void main() { for (int i = 0; i < 60000; i++) d[gl_GlobalInvocationID.x & 63] += 1.0; }";
    let files = [("behind.comp", behind.as_str()), ("wild.comp", wild), ("endless.comp", endless)];
    let folder = folder(&files);
    let path = folder.path();
    expect_exit(&mut command(path, &["@/behind.comp", "--config=@/double.toml", "--size=N=960"]), 0);
    // 1000 is not a multiple of 64, so an extra invocation writes one element beyond the end.
    let output = expect_exit(&mut command(path, &["@/behind.comp", "--config=@/double.toml"]), 1);
    check_text(
        line(&stderr(&output), "rejected  "),
        "rejected  double/behind/f32/N=1000: the kernel wrote outside buffer D: it wrote byte 4000 of a buffer of 4000 \
         bytes (0 to 3999)",
    );
    let buffers =
        ["--set=buffer.A={ type = 'f32', shape = 16, fill = 'zero' }", "--set=buffer.D={ type = 'f32', shape = 64 }"];
    let wild = ["@/wild.comp", "--set=push.a=A", "--set=dispatch.groups=1", "--json=-"];
    let output = expect_exit(command(path, &wild).args(buffers), 3);
    assert_eq!(cases(&output)[0]["outcome"]["status"], "crashed", "{}", stdout(&output));
    let endless = ["@/endless.comp", "--set=dispatch.groups=[65535,65535,16]", "--timeout=10s", "--json=-"];
    let output = expect_exit(command(path, &endless).arg(buffers[1]), 3);
    assert_eq!(cases(&output)[0]["outcome"]["status"], "timed-out", "{}", stdout(&output));
}

#[test]
fn tables_of_a_configuration_run_kernels_beside_algorithms() {
    let config = "[[bench]]\nalgorithm = 'matmul'\nvariant = 'naive'\nsize = 8\n[[run]]\ndescription = 'double.toml'\n";
    let folder = folder(&[("all.toml", config)]);
    let config_option = within(folder.path(), "--config=@/all.toml");
    let output = expect_exit(&mut brief_bench(&[&config_option, "--json=-"]), 0);
    let record: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(record["method"]["robust_access"], true, "{record}");
    let bare = expect_exit(&mut brief_bench(&[&config_option, "--json=-", "--no-robust-access"]), 0);
    let bare: Value = serde_json::from_str(&stdout(&bare)).expect("JSON");
    assert_eq!(
        (&bare["method"]["robust_access"], &bare["cases"][1]["outcome"]["status"]),
        (&false.into(), &"measured".into())
    );
    let ids: Vec<_> = cases(&output).iter().map(|case| case["id"].as_str().expect("text").to_string()).collect();
    assert_eq!(ids, ["matmul/naive/f32/8x8x8", "double/double/f32/N=1000"]);
    let kept = within(folder.path(), "--keep-failures=@/kept");
    let junit = stdout(&expect_exit(&mut gpukern(&["verify", &config_option, "--junit=-", &kept]), 0));
    assert!(ids.iter().all(|id| junit.contains(id.rsplit('/').next().expect("a size"))), "{junit}");
    let demanding =
        ["verify", &config_option, "--require-reference", "--json=-", &within(folder.path(), "--junit=@/j.xml")];
    let output = expect_exit(&mut gpukern(&demanding), 1);
    assert!(stderr(&output).contains("error: nothing checks 1 answer (--require-reference)"), "{}", stderr(&output));
    let junit = fs::read_to_string(folder.path().join("j.xml")).expect("read");
    assert_eq!(junit.matches("<failure type=\"unverified\"").count(), 1, "{junit}");
    let wrong = config.replace("'double.toml'", "'wrong.toml'");
    fs::write(folder.path().join("all.toml"), wrong).expect("written");
    let double = fs::read_to_string(folder.path().join("double.toml")).expect("read");
    fs::write(folder.path().join("wrong.toml"), double + "[reference]\ncommand = 'false'\n").expect("written");
    let forbidden = ["verify", &config_option, "--no-commands"];
    expect_refusal(
        &mut gpukern(&forbidden),
        "@/wrong.toml:24: reference.command: --no-commands forbids `false`; leave --no-commands out if you trust it",
    );
}

#[test]
fn a_kernel_that_does_not_compile_fails_its_own_cases() {
    let config = "[[run]]\ndescription = 'broken.toml'\n[[run]]\ndescription = 'double.toml'\n";
    let folder = folder(&[("all.toml", config), ("broken.comp", DOUBLE)]);
    let path = folder.path();
    let description = fs::read_to_string(path.join("double.toml")).expect("read").replace("double", "broken");
    fs::write(path.join("broken.toml"), description).expect("written");
    let bench = |json: &str, status| {
        let options = ["--config=@/all.toml", json].map(|option| within(path, option));
        expect_exit(&mut brief_bench(&[&options[0], &options[1]]), status)
    };
    bench("--json=@/before.json", 0);
    let no_kernel = DOUBLE.replace("gl_GlobalInvocationID", "gl_Nothing");
    fs::write(path.join("broken.comp"), no_kernel).expect("written");
    let output = bench("--json=@/after.json", 2);
    let expected = "broken.comp:8: error: 'gl_Nothing' : undeclared identifier";
    assert!(line(&stderr(&output), "failed  ").contains(expected), "{}", stderr(&output));
    assert!(!stderr(&output).contains("8 | "), "in one line, without the source: {}", stderr(&output));
    let alone = stderr(&expect_exit(&mut gpukern(&["run", &within(path, "@/broken.toml")]), 2));
    line(&alone, "  8 | uint i = gl_Nothing.x;");
    assert!(stdout(&output).contains("double f32"), "{}", stdout(&output));
    let records = ["@/before.json", "@/after.json"].map(|record| within(path, record));
    let compared = stdout(&expect_exit(&mut gpukern(&["compare", &records[0], &records[1], "--min-effect=400%"]), 1));
    let failed = "FAILED  broken/broken/f32/N=1000: ";
    assert!(compared.contains(failed) && compared.contains("1 newly failed"), "{compared}");
    assert!(!compared.contains("not compared"), "{compared}");
}

#[cfg(unix)]
#[test]
fn a_watch_says_a_line_each_time_that_the_kernel_is_saved() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let folder = folder(&[]);
    let mut watch = command(folder.path(), &["--config=@/double.toml", "--watch"]);
    let mut child = watch.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut next = |word: &str| lines.find(|line| line.contains(word)).unwrap_or_else(|| panic!("no line has {word}"));
    next("unverified");
    next("save a file to measure again");
    fs::write(folder.path().join("double.comp"), "#version 460\nno kernel").expect("written");
    next("double.comp:2");
    fs::write(folder.path().join("double.comp"), DOUBLE.replace("const int WORK = 1", "const int WORK = 50"))
        .expect("written");
    let line = next("unverified");
    // With one process per side, any verdict is possible on a software device.
    let verdicts = ["undecided: ", "same", "SLOWER: ", "faster: "];
    assert!(verdicts.iter().any(|verdict| line.contains(verdict)), "{line}");
    signal(&child, "INT");
    assert!(child.wait().expect("it ends").code().is_some());
}

#[test]
fn the_examples_are_what_their_references_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kernels");
    // Axes that are small enough for the software device. `reduction`, `scan` and `softmax` have several passes, `q4_0` and
    // `q8_0` quantised matrices, `matmul` a kernel in WGSL.
    for arguments in [
        &["reduction.toml", "-s=N=1000,70000"][..],
        &["scan.toml", "-s=N=1000,60000"],
        &["softmax.toml", "-s=COLUMNS=100,1000"],
        &["q4_0.toml", "-s=M=16", "-s=K=256"],
        &["q8_0.toml", "-s=M=16", "-s=K=256"],
        &["matmul.toml", "-s=M=37,64"],
    ] {
        let mut run = gpukern(&["run", "--json=-"]);
        check_verified(&cases(&expect_exit(run.args(BRIEF).arg(root.join(arguments[0])).args(&arguments[1..]), 0)));
    }
}

/// Checks that there are cases, and that each is measured and verified.
fn check_verified(cases: &[Value]) {
    assert!(!cases.is_empty());
    for case in cases {
        assert_eq!(case["outcome"]["status"], "measured", "{case}");
        assert!(case["outcome"]["verification"]["residual"].is_number(), "{case}");
    }
}

#[test]
fn a_source_that_is_too_much_for_its_compiler_is_the_users_mistake_and_the_next_one_compiles() {
    // Such a deeply nested expression overflows the compiler's stack.
    let head =
        "@group(0) @binding(0) var<storage, read_write> d: array<u32>;\n@compute @workgroup_size(1) fn main() { ";
    let deep = |operators: usize| format!("{head}d[0] = d[1]{}; }}", " + 1u".repeat(operators));
    let folder = folder(&[("deep.wgsl", &deep(20_000)), ("deeper.wgsl", &deep(2_500_000))]);
    // Only a process has its compiler in another.
    let run = |name, code: i32| {
        let output = run_process(&mut command(folder.path(), &[name, "--init"]));
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        stderr(&output)
    };
    run("@/deep.wgsl", 0);
    let ending = replaced(&run("@/deeper.wgsl", 2), r"SIG\w+( \([^)]*\))?", "SIG…");
    check_text(
        &ending,
        "error: @/deeper.wgsl: its compiler ended with SIG…; it is nested too deeply, or too large: split it into \
         smaller parts\n",
    );
}

#[test]
fn a_note_names_what_a_kernel_lacks_of_the_description() {
    let folder = folder(&[("plain.comp", &DOUBLE.replace("layout(constant_id = 1) const int", "const int"))]);
    let arguments = ["@/double.toml", "@/double.comp", "@/plain.comp", "--set=spec.WORK=2"];
    let output = expect_exit(&mut command(folder.path(), &arguments), 0);
    let note = "note      plain runs without WORK, which it does not declare\n";
    assert_eq!(stderr(&output).matches(note).count(), 1, "{}", stderr(&output));
}

#[test]
fn proposed_descriptions_run() {
    const HEAD: &str =
        "#version 460\nlayout(local_size_x = 64) in;\nlayout(push_constant) uniform P { uint n, m; } p;\n";
    let vectors = "layout(std430, binding = 0) readonly buffer A { uint count; vec3 a[]; } from;
        layout(binding = 1) buffer B { vec2 b[]; } to;
        void main() { uint i = gl_GlobalInvocationID.x; if (i < p.n) to.b[i] = from.a[i].xy + float(from.count); }";
    let totals = "layout(std430, binding = 0) buffer Totals { uint count; float sum; double most; } totals;
        void main() { totals.count = p.n; totals.sum = 0.5; totals.most = 2.0; }";
    let unchecked = "layout(binding = 0) buffer A { float a[]; };
        void main() { uint i = 3u * gl_GlobalInvocationID.x; a[i + 2] = a[i + 1] + a[i]; }";
    let rows =
        "layout(binding = 0) readonly buffer A { float a[]; }; layout(binding = 1) writeonly buffer B { float b[]; };
        void main() {
            uint row = gl_GlobalInvocationID.x; if (row >= p.n) return;
            float sum = 0.0; for (uint k = 0; k < p.m; k++) sum += a[row * p.m + k];
            b[row] = sum;
        }";
    let two = "@group(0) @binding(0) var<storage, read> x: S; @group(0) @binding(1) var<storage, read_write> y: S;
        struct S { at: array<vec4<f32>> }
        @compute @workgroup_size(16) fn main(@builtin(global_invocation_id) i: vec3<u32>) { y.at[i.x] = x.at[i.x]; }";
    for (name, text) in [
        ("vectors.comp", format!("{HEAD}{vectors}")),
        ("totals.comp", format!("{HEAD}{totals}")),
        ("unchecked.comp", format!("{HEAD}{unchecked}")),
        ("rows.comp", format!("{HEAD}{rows}")),
        ("two.wgsl", two.into()),
    ] {
        let folder = folder(&[(name, &text)]);
        let kernel = format!("@/{name}");
        let description = stdout(&expect_exit(&mut command(folder.path(), &[&*kernel, "--init"]), 0));
        // The first value of an axis is enough.
        let description = replaced(&description, r",?\.\.[0-9]+|,[0-9]+\.\.[0-9]+", "");
        fs::write(folder.path().join("k.toml"), &description).expect("written");
        let output = run_process(&mut command(folder.path(), &["@/k.toml", "--json=-"]));
        assert_eq!(output.status.code(), Some(0), "{description}\n{}", stderr(&output));
        assert_eq!(cases(&output)[0]["outcome"]["status"], "measured", "{description}");
    }
}

/// Runs a description beside these files, and checks that all cases are right. Returns the cases.
fn right(files: &[(&str, &str)], description: &str, arguments: &[&str]) -> Vec<Value> {
    let folder = folder(files);
    fs::write(folder.path().join("k.toml"), description).expect("written");
    let found = cases(&expect_exit(&mut command(folder.path(), &[&["@/k.toml", "--json=-"], arguments].concat()), 0));
    check_verified(&found);
    found
}

const GROUPS: &str = "[axes]\nn = '100, 1000'\n[dispatch]\ngroups = ['cdiv(n, local_x)']\n";

#[test]
fn members_of_uniform_blocks_are_stated_by_name_and_counters_begin_where_they_should() {
    let scaled = "
        struct Params { n: u32, scale: f32, m: mat3x3<f32>, v: vec3<f32>, list: array<vec4<u32>, 2> }
        @group(0) @binding(0) var<uniform> params: Params;
        @group(0) @binding(1) var<storage, read> a: array<f32>;
        @group(0) @binding(2) var<storage, read_write> b: array<f32>;
        @group(0) @binding(3) var<storage, read_write> count: atomic<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x >= params.n { return; }
            b[id.x] = a[id.x] * params.scale + params.m[1][2] + params.v.z + f32(params.list[1].y);
            // Wrong from the second run on, unless the counter is reset.
            if atomicAdd(&count, 1u) >= params.n + 5u { b[id.x] = 0.0; }
        }";
    let plain = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) readonly buffer A { float a[]; };
        layout(binding = 1) buffer B { float b[]; };
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i < a.length()) b[i] = a[i] * 2.5 + 8.0 + float(a.length() / 4);
        }";
    let description = format!(
        "[kernel]\nsource = 'scaled.wgsl'\n{GROUPS}
        [uniform.params]
        scale = 2.5
        'm[1].z' = 7
        'list[1].y' = 'n / 4'
        '*' = 1
        [buffer.a]\ntype = 'f32'\nshape = ['n']\nfill = 'uniform(-1, 1)'
        [buffer.b]\ntype = 'f32'\nshape = ['n']
        [buffer.count]\ntype = 'u32'\nshape = 1\nscratch = true\nfill = '5'
        [reference]\nkernel = 'plain.comp'\ngroups = ['cdiv(n, local_x)']"
    );
    let files = [("scaled.wgsl", scaled), ("plain.comp", plain)];
    assert_eq!(right(&files, &description, &[]).len(), 2);
    // Options take precedence over the description.
    let off = folder(&files);
    fs::write(off.path().join("k.toml"), &description).expect("written");
    expect_error(&mut command(off.path(), &["@/k.toml", "--set=uniform.params.scale=3"]), 1, &["the reference has"]);
}

#[test]
fn passes_repeat_with_a_number_that_expressions_know() {
    let swap = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) buffer Keys { uint key[]; };
        layout(push_constant) uniform P { uint n; uint stride; uint block; };
        void main() {
            uint i = gl_GlobalInvocationID.x, j = i ^ stride;
            if (j <= i || j >= n) return;
            uint a = key[i], b = key[j];
            if ((a > b) == ((i & block) == 0)) { key[i] = b; key[j] = a; }
        }";
    let insert = "#version 460
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer Keys { uint key[]; };
        void main() {
            for (int i = 1; i < key.length(); i++) {
                uint own = key[i];
                int at = i;
                for (; at > 0 && key[at - 1] > own; at--) key[at] = key[at - 1];
                key[at] = own;
            }
        }";
    let description = "
        name = 'bitonic'
        [axes]
        n = '64, 128'
        [[pass]]
        times = 'log2(n)'
        index = 'k'
        [[pass.pass]]
        source = 'swap.comp'
        times = 'k + 1'
        index = 'j'
        push = { stride = '2^(k-j)', block = '2^(k+1)' }
        groups = ['cdiv(n, local_x)']
        [buffer.Keys]
        type = 'u32'
        shape = ['n']
        fill = 'uniform(0, 1000000)'
        check = 'exact'
        [reference]
        kernel = 'insert.comp'
        groups = 1";
    right(&[("swap.comp", swap), ("insert.comp", insert)], description, &[]);
}

#[test]
fn blocks_see_parts_of_a_buffer_that_swap_and_what_is_not_used_is_not_asked_for() {
    let step = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) readonly buffer X { float x[]; };
        layout(binding = 1) writeonly buffer Y { float y[]; };
        layout(binding = 2) buffer Storage { float unused[]; } storage;
        layout(binding = 2) uniform Uniform { uint unused; } uniforms;
        layout(push_constant) uniform P { uint n; };
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i < n) y[i] = i == 0 || i == n - 1 ? x[i] : 0.5 * (x[i - 1] + x[i + 1]);
        }";
    let serial = "#version 460
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer T { float t[]; };
        layout(push_constant) uniform P { uint n; uint half_of_it; };
        void main() {
            for (uint round = 0; round < 3; round++) {
                uint from = round % 2 * half_of_it, to = half_of_it - from;
                for (uint i = 0; i < n; i++)
                    t[to + i] = i == 0 || i == n - 1 ? t[from + i] : 0.5 * (t[from + i - 1] + t[from + i + 1]);
            }
        }";
    let description = format!(
        "[kernel]\nsource = 'step.comp'\ntimes = 3\n{GROUPS}
        [kernel.bind]
        X = ['T', {{ buffer = 'T', offset = '256*cdiv(4*n, 256)', range = '4*n' }}]
        Y = ['T + 256*cdiv(4*n, 256)', {{ buffer = 'T', range = '4*n' }}]
        [buffer.T]\ntype = 'f32'\nshape = ['128*cdiv(4*n, 256)']\nfill = 'uniform(0, 1)'\ncheck = {{ rtol = 1e-6 }}
        [reference]\nkernel = 'serial.comp'\ngroups = 1\npush = {{ half_of_it = '64*cdiv(4*n, 256)' }}"
    );
    right(&[("step.comp", step), ("serial.comp", serial)], &description, &[]);
}

#[test]
fn members_of_structures_are_compared_by_their_own_tolerances() {
    let hits = "#version 460
        #ifndef ID
        #define ID i
        #define SCALE 1.0
        #define PADDING 0
        #endif
        layout(local_size_x = 64) in;
        struct Hit { vec3 at; float t; uint id; };
        layout(std430, binding = 0) buffer Hits { Hit hits[]; };
        layout(std430, binding = 0) buffer Words { uint words[]; };
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i >= hits.length()) return;
            hits[i].t = length(hits[i].at) * SCALE;
            hits[i].id = ID + hits[i].id / 1000;
            if (PADDING == 1) words[8 * i + 6] = i;
        }";
    let description =
        "[kernel]\nsource = 'hits.comp'\ndefine = { ID = 'i', SCALE = '1.0', PADDING = 0 }\n[axes]\nn = 300
        [buffer.Hits]\nshape = ['n']
        [buffer.Hits.at]\nfill = 'normal(0, 2)'
        [buffer.Hits.id]\nfill = 'uniform(0, 5000)'
        [buffer.Hits.t]\ncheck = { rtol = 1e-3 }
        [dispatch]\ngroups = ['cdiv(n, local_x)']\n[reference]\nkernel = 'hits.comp'";
    let files = [("hits.comp", hits)];
    for right_option in ["SCALE=1.0005", "PADDING=1"] {
        right(&files, description, &["-D", right_option]);
    }
    let folder = folder(&files);
    fs::write(folder.path().join("k.toml"), description).expect("written");
    for (wrong, expected) in [
        (["-D", "SCALE=1.01"], "].t is "),
        (["-D", "ID=(i ^ 1)"], "Hits[0].id is 5, the reference has 4"),
        (["--set", "buffer.Hits.tt.check=exact"], "unknown member 'tt' of hits.comp; did you mean 't'?"),
    ] {
        let output = run_process(&mut command(folder.path(), &[&["@/k.toml"], &wrong[..]].concat()));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    expect_exit(&mut command(folder.path(), &["@/k.toml", "--print=Hits.id[0:3]", "--save=Hits.t=@/t.npy"]), 0);
    let saved = fs::read(folder.path().join("t.npy")).expect("saved");
    assert!(String::from_utf8_lossy(&saved).contains("'shape': (300,"));
}

/// Kernel whose table of addresses leads to blocks of addresses.
const TABLE: &str = "#version 460
        #extension GL_EXT_buffer_reference : require
        #extension GL_EXT_buffer_reference2 : require
        layout(local_size_x = 64) in;
        layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
        layout(buffer_reference, std430) buffer Layer { Floats weights; Floats bias; uint stride; };
        layout(buffer_reference, std430) buffer Model { uint count; float scale; Layer layers[2]; Floats to; };
        layout(push_constant) uniform P { Model model; uint n; } p;
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i >= p.n) return;
            float sum = 0.0;
            for (uint k = 0; k < p.model.count; k++) {
                Layer layer = p.model.layers[k];
                sum += layer.weights.at[i * layer.stride] + layer.bias.at[i];
            }
            p.model.to.at[i] = sum * p.model.scale;
        }";
/// Kernel of an array of addresses.
const ARRAY: &str = "#version 460
        #extension GL_EXT_buffer_reference : require
        #extension GL_EXT_buffer_reference2 : require
        layout(local_size_x = 64) in;
        layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
        layout(buffer_reference, std430) buffer Pointers { Floats ptrs[3]; };
        layout(std430, binding = 0) writeonly buffer D { float d[]; };
        layout(push_constant) uniform P { Pointers table; uint n; } p;
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i < p.n) d[i] = p.table.ptrs[1].at[i] - p.table.ptrs[i % 2 * 2].at[i];
        }";
/// The same as [`TABLE`] over buffers.
const PLAIN: &str = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) buffer A { float a[]; };
        layout(binding = 1) buffer B { float b[]; };
        layout(binding = 2) buffer D { float d[]; };
        layout(push_constant) uniform P { uint n; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < n) d[i] = (a[2 * i] + b[i] + b[i] + a[i + 4]) * 0.5; }";
/// The same as [`ARRAY`] over buffers.
const DIFFERENCE: &str = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) buffer A { float a[]; };
        layout(binding = 1) buffer B { float b[]; };
        layout(binding = 2) buffer D { float d[]; };
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i < d.length()) d[i] = a[i] - (i % 2 == 0 ? b[i] : a[i + 4]);
        }";
/// Description of [`TABLE`].
const MODEL: &str = "
[kernel]
        source = 'table.comp'
        [axes]
        n = 500
        [push]
        model = 'M'
        [uniform.M]
        count = 2
        scale = 0.5
        'layers[0]' = 'M.first'
        'layers[1]' = 'M.second'
        to = 'D'
        [uniform.'M.first']
        weights = 'A'
        bias = 'B'
        stride = 2
        [uniform.'M.second']
        weights = 'B'
        bias = 'A + 16'
        stride = 1
        [buffer.A]
        type = 'f32'
        shape = ['2*n']
        fill = 'normal'
        [buffer.B]
        type = 'f32'
        shape = ['n']
        fill = 'normal'
        [buffer.D]
        type = 'f32'
        shape = ['n']
        [dispatch]
        groups = ['cdiv(n, local_x)']
        [reference]
        kernel = 'plain.comp'";
/// Description of [`ARRAY`].
const POINTERS: &str = "[kernel]\nsource = 'array.comp'\n[axes]\nn = 500
        [uniform.table]\n'ptrs[0]' = 'B'\n'ptrs[1]' = 'A'\n'ptrs[2]' = 'A + 16'
        [buffer.A]\ntype = 'f32'\nshape = ['n + 4']\nfill = 'normal'
        [buffer.B]\ntype = 'f32'\nshape = ['n']\nfill = 'normal'
        [buffer.D]\ntype = 'f32'\nshape = ['n']
        [dispatch]\ngroups = ['cdiv(n, local_x)']\n[reference]\nkernel = 'difference.comp'";

#[test]
fn addresses_lead_to_blocks_of_addresses() {
    let model = &MODEL.replace("\n        ", "\n");
    let files = [("table.comp", TABLE), ("array.comp", ARRAY), ("plain.comp", PLAIN), ("difference.comp", DIFFERENCE)];
    right(&files, model, &[]);
    right(&files, POINTERS, &[]);
    let folder = folder(&files);
    let refused = |description: &str, option: &str, code: i32| {
        fs::write(folder.path().join("k.toml"), description).expect("written");
        stderr(&expect_exit(&mut command(folder.path(), &["@/k.toml", option]), code))
    };
    for (description, option, code, expected) in [
        (model.as_str(), "--set=uniform.'M.second'.bias=A", 1, "rejected"),
        (POINTERS, "--set=uniform.table.'ptrs[2]'=A", 1, "rejected"),
        (model.as_str(), "--set=uniform.M.scal=1", 2, "unknown member 'scal'; did you mean 'scale'?"),
        (
            model.as_str(),
            "--set=push.model=Q",
            2,
            "there is no buffer 'Q'; buffers: A, B, D; or give its members in [uniform.Q]",
        ),
    ] {
        let message = refused(description, option, code);
        assert!(message.contains(expected), "{message}");
    }
    let proposed = stdout(&expect_exit(&mut command(folder.path(), &["@/table.comp", "--init"]), 0));
    for line in
        ["\"layers[1]\" = \"model.layers.1\"", "[uniform.\"model.layers.1\"]", "[buffer.\"model.layers.1.bias\"]"]
    {
        assert!(proposed.contains(line), "{line}\n{proposed}");
    }
}

#[test]
fn addresses_stand_in_blocks_and_a_grid_in_a_buffer() {
    let held = "#version 460
        #extension GL_EXT_buffer_reference : require
        #extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
        layout(local_size_x = 64) in;
        layout(buffer_reference, std430) buffer F { float at[]; };
        layout(binding = 0) uniform Args { F a; uint n; F outs[2]; mat2 m; } args;
        layout(std430, binding = 1) readonly buffer Table { uint count; uint64_t ptr[]; } table;
        // The member names the buffer whose address it holds.
        layout(std430, binding = 2) readonly buffer Only { F C; } only;
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i >= args.n) return;
            args.outs[0].at[i] = args.a.at[i] * args.m[1][0];
            F(table.ptr[1]).at[i] = float(table.count) + args.a.at[i];
            only.C.at[i] += 1.0;
        }";
    let plain = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) buffer A { float a[]; };
        layout(binding = 1) buffer B { float b[]; };
        layout(binding = 2) buffer C { float c[]; };
        layout(push_constant) uniform P { uint n; };
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i < n) { b[i] = a[i + 4] * 3.0; c[i] = a[i + 4] + 6.0; }
        }";
    let count = "#version 460
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer Counts { uint count[]; };
        layout(push_constant) uniform P { uint n; };
        void main() { count[1] = (n + 63) / 64; count[2] = 1; count[3] = 1; }";
    let description = "
        [axes]
        n = 500
        [[pass]]
        source = 'count.comp'
        groups = 1
        [[pass]]
        source = 'held.comp'
        indirect = 'Counts + 4'
        subgroup = 8
        [uniform.args]
        a = 'A + 16'
        'outs[0]' = 'B'
        'outs[1]' = 'C'
        'm[1].x' = 3
        '*' = 0
        [uniform.table]
        count = 5
        'ptr[1]' = 'C'
        '*' = 0
        [buffer.Counts]\ntype = 'u32'\nshape = 4\nscratch = true
        [buffer.A]\ntype = 'f32'\nshape = ['n + 4']\nfill = 'iota'
        [buffer.B]\ntype = 'f32'\nshape = ['n']
        [buffer.C]\ntype = 'f32'\nshape = ['n']
        [reference]\nkernel = 'plain.comp'\ngroups = ['cdiv(n, local_x)']";
    right(&[("held.comp", held), ("plain.comp", plain), ("count.comp", count)], description, &[]);
}

#[test]
fn arrays_of_buffers_are_bound_one_by_one() {
    let sum = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) readonly buffer X { float x[]; } from[3];
        layout(binding = 1) buffer Y { float y[]; } to[2];
        layout(push_constant) uniform P { uint n; };
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i >= n) return;
            float all = 0.0;
            for (int k = 0; k < 3; k++) all += from[k].x[i];
            to[1].y[i] = all;
            to[0].y[i] = from[2].x[i];
        }";
    let plain = "#version 460
        layout(local_size_x = 64) in;
        layout(binding = 0) readonly buffer A { float a[]; };
        layout(binding = 1) readonly buffer B { float b[]; };
        layout(binding = 2) buffer C { float c[]; };
        layout(binding = 3) buffer D { float d[]; };
        layout(push_constant) uniform P { uint n; };
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i < n) { d[i] = a[i] + b[i] + a[i]; c[i] = a[i]; }
        }";
    let description = format!(
        "[kernel]\nsource = 'sum.comp'\n{GROUPS}
        [kernel.bind]\n'from[0]' = 'A'\n'X[1]' = 'B'\n'X[2]' = 'A'\n'Y[0]' = 'C'
        [buffer.A]\ntype = 'f32'\nshape = ['n']\nfill = 'iota'
        [buffer.B]\ntype = 'f32'\nshape = ['n']\nfill = 'uniform(0, 1)'
        [buffer.C]\ntype = 'f32'\nshape = ['n']
        [buffer.'to[1]']\ntype = 'f32'\nshape = ['n']
        [reference]\nkernel = 'plain.comp'\nbind = {{ D = 'to[1]' }}\ngroups = ['cdiv(n, local_x)']"
    );
    right(&[("sum.comp", sum), ("plain.comp", plain)], &description, &[]);
}

#[test]
fn sub_group_sizes_compete() {
    let description = DESCRIPTION.replace("source = 'double.comp'", "source = 'double.comp'\n    subgroup = [8, 16]");
    let folder = folder(&[]);
    fs::write(folder.path().join("k.toml"), description).expect("written");
    let output = expect_exit(&mut command(folder.path(), &["@/k.toml", "--tune", "--json=-"]), 0);
    let variants: Vec<_> =
        cases(&output).iter().map(|case| (case["variant"].clone(), case["outcome"]["status"].clone())).collect();
    // Sub-group sizes that the device does not list are skipped.
    let expected = [("double[subgroup=8]", "measured"), ("double[subgroup=16]", "skipped")];
    assert_eq!(variants, expected.map(|(variant, status)| (variant.into(), status.into())));
}

#[test]
fn without_a_reference_a_kernel_with_another_answer_gets_no_verdict() {
    let other = |expression: &str| DOUBLE.replace("a[i] * 2.0", expression);
    let files = [
        ("half.comp", other("a[i] * (i % 2u == 1u ? 2.0 : 1.0)")),
        ("last.comp", other("a[i] * (i == p.n - 1u ? 0.0 : 2.0)")),
        ("sum.comp", other("a[i] + a[i]")),
        ("tail.comp", DOUBLE.replace("i >= p.n", "i + 1u >= p.n")),
        ("tail2.comp", other("a[i] + a[i]").replace("i >= p.n", "i + 1u >= p.n")),
    ];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, &**text)));
    let run = |file: &str, more: &[&str]| {
        let mut run = command(folder.path(), &["--config=@/double.toml", "@/double.comp", file]);
        run.args(more);
        run
    };
    for file in ["@/half.comp", "@/last.comp"] {
        let judged = words(&stdout(&expect_exit(&mut run(file, &["--ab"]), 1)));
        assert!(judged.contains("rejected: its answer differs from A's: ") && judged.contains(", A has "), "{judged}");
        assert!(judged.contains("no verdict: B was rejected"), "{judged}");
    }
    // An answer with elements that nothing wrote is no reference.
    let tails = command(folder.path(), &["--config=@/double.toml", "@/tail.comp", "@/tail2.comp", "--ab"]).output();
    let tails = tails.expect("output");
    let said = words(&(stdout(&tails) + &stderr(&tails)));
    assert!(
        said.contains("the answer of A is incomplete or not the same each time") && !said.contains("failed"),
        "{said}"
    );
    let output = run("@/sum.comp", &["--ab"]).output().expect("output");
    let same = words(&stdout(&output));
    assert!(same.contains("unverified: there is no reference: its answer is A's, within the tolerance"), "{same}");
    let note = words(&stderr(&expect_exit(&mut run("@/half.comp", &[]), 0)));
    assert!(note.contains("/half/f32/N=1000: its answer differs from that of double by more than rounding"), "{note}");
}

/// Table that `gpukern capture` adds to a description.
const CAPTURED: &str = "[captured]
    program = 'infer'
    device = 'a device'
    driver = 'its driver'
    call = 3
    microseconds = 63.1
    exact = true
    ";

#[test]
fn folders_are_cases_each_a_problem_of_its_own_and_other_kernels_compete_on_their_data() {
    let reference = "[reference]\nkernel = '../double.comp'\nspec = { 0 = 64 }\ngroups = [16]\n";
    let text = DESCRIPTION.replace("'double.comp'", "'../double.comp'");
    let case = format!("{text}\n{CAPTURED}\n{reference}");
    let wrong = DOUBLE.replace("a[i] * 2.0", "a[i] * (i == 7u ? 3.0 : 2.0)");
    let folder = folder(&[("wrong.comp", &wrong)]);
    for name in ["a", "b"] {
        fs::create_dir(folder.path().join(name)).expect("made");
        fs::write(folder.path().join(name).join("case.toml"), &case).expect("written");
    }
    let output = expect_exit(&mut command(folder.path(), &["@/a", "@/b", "--json=@/r.json"]), 0);
    let record: Value = serde_json::from_slice(&fs::read(folder.path().join("r.json")).expect("there")).expect("JSON");
    let names: Vec<_> = record["cases"].as_array().expect("cases").iter().map(|case| &case["algorithm"]).collect();
    assert_eq!(names, ["double", "double-2"]);
    let text = stdout(&output);
    line(&text, "captured on a device, its driver");
    assert_eq!(text.lines().filter(|line| line.starts_with(" case ")).count(), 1, "{text}");
    line(&text, " double-2 ");
    assert_eq!(text.matches("63.10 µs there, ").count(), 2, "{text}");
    let judged = stdout(&expect_exit(&mut command(folder.path(), &["@/a", "@/wrong.comp", "--ab"]), 1));
    assert_eq!(line(&judged, "  B  "), "  B  wrong   rejected: D[7] is 21, the reference has 14");
    expect_refusal(
        &mut command(folder.path(), &["@/a", "@/b", "@/wrong.comp"]),
        "'@/wrong.comp' stands beside several cases; name it beside one of them",
    );
    fs::write(folder.path().join("b/case.toml"), format!("{DESCRIPTION}\n[inputs]\ncommand = 'touch {{out}}/x'\n"))
        .expect("written");
    expect_refusal(
        &mut command(folder.path(), &["@/b"]),
        "@/b/case.toml:25: inputs.command: a case runs no commands, and this has `touch {out}/x`; name @/b/case.toml \
         if you trust it",
    );
}

#[test]
fn a_record_says_that_the_description_states_the_input_and_compares_with_an_older_one() {
    let folder = folder(&[]);
    let path = folder.path();
    let recorded = stdout(&expect_exit(&mut command(path, &["--config=@/double.toml", "--json=-"]), 0));
    let record: Value = serde_json::from_str(&recorded).expect("JSON");
    assert_eq!(record["cases"][0]["input"], "described");
    // Older records called every input uniform.
    let older = recorded.replace(r#""described""#, r#""uniform""#);
    let [now, before] = [("now.json", &recorded), ("before.json", &older)].map(|(name, text)| {
        fs::write(path.join(name), text).expect("written");
        path.join(name).to_str().expect("UTF-8").to_string()
    });
    let output = gpukern(&["compare", &before, &now]).output().expect("it runs");
    let text = stdout(&output) + &stderr(&output);
    assert!(text.contains("1 same") && !text.contains("input"), "{text}");
    let tables = [&now, &before].map(|record| stdout(&expect_exit(&mut gpukern(&["report", record]), 0)));
    assert_eq!(tables[0], tables[1]);
}
