//! `ab`: two variants, SPIR-V files or drivers in turns.

use super::failures::with_failing;
use super::{
    driver_manifest, expect_error, expect_exit, expect_output, expect_refusal, expect_refusals, gpukern, line, patched,
    run, stderr, stdout, temporary, unmeasured, words,
};
use gpukern::{DType, find_shader};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

/// Returns the command of `ab` on a small product.
fn ab(arguments: &[&str]) -> std::process::Command {
    let mut command = gpukern(&["ab", "matmul", "-s", "32"]);
    command.args(arguments);
    command
}

fn document(output: &std::process::Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|e| panic!("{e}: {}{}", stdout(output), stderr(output)))
}

fn spirv(kernel: &str) -> Vec<u8> {
    find_shader(kernel, DType::F32).expect("it is compiled").spirv.to_vec()
}

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    path.to_str().expect("UTF-8").to_string()
}

/// Opcodes of SPIR-V: `OpFMul` and `OpFAdd`.
const MULTIPLY_FLOATS: u32 = 133;
const ADD_FLOATS: u32 = 129;
/// `OpULessThan` and `OpUGreaterThanEqual`.
const LESS_THAN: u32 = 176;
const NOT_LESS_THAN: u32 = 174;

#[test]
fn a_case_that_only_a_can_run_is_no_success_of_b() {
    // On one row, the naive product takes many times as long.
    let sizes = "-s=1x1024x1024,64x16x16";
    let mut command = gpukern(&["ab", "matmul", "-V", "gemv-texel", "--against", "naive", sizes]);
    assert!(stdout(&expect_exit(&mut command, 4)).contains("1 faster, 1 without a verdict"));
    let mut command = gpukern(&["ab", "matmul", "-V", "tiled", "--against", "gemv-texel", "-s=64x16x16,32x16x16"]);
    expect_exit(&mut command, 2);
}

#[test]
fn a_difference_of_tens_of_percent_is_found_both_ways() {
    // The naive product takes many times as long as the tiled one on the CPU.
    let verdict = |a: &str, b: &str, code| {
        let mut ab =
            gpukern(&["ab", "matmul", "-s", "128", "--a", a, "--b", b, "--min-effect", "5%", "--max-time", "600s"]);
        let text = unmeasured(&stdout(&expect_exit(&mut ab, code)));
        ["B is", "  A  ", "  B  "].map(|start| words(line(&text, start))).join("; ")
    };
    let rest = "than A: B/A #, # % interval # … #, # rounds";
    assert_eq!(verdict("naive", "tile-2d", 0), format!("B is faster {rest}; A naive # s; B tile-2d # s"));
    assert_eq!(verdict("tile-2d", "naive", 1), format!("B is SLOWER {rest}; A tile-2d # s; B naive # s"));
}

#[test]
fn a_result_is_printed_again_exported_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let json = path("ab.json");
    for candidates in ["tile-2d", "tile-2d,naive"] {
        let mut measure = ab(&["-V", candidates, "--against", "naive", "--json", &json, "--max-time", "2s"]);
        let printed = stdout(&measure.output().expect("it runs"));
        let again = stdout(&expect_exit(&mut gpukern(&["report", &json]), 0));
        assert!(printed.starts_with(&again), "{printed}{again}");
        let csv = stdout(&expect_exit(&mut gpukern(&["export", &json, "--to", "csv"]), 0));
        assert!(csv.lines().next().is_some_and(|names| names.contains(",ratio,ratio_low,ratio_high,")), "{csv}");
        assert_eq!(csv.lines().count(), 1 + candidates.split(',').count(), "{csv}");
        let markdown = stdout(&expect_exit(&mut gpukern(&["export", &json, "--to", "markdown"]), 0));
        assert!(markdown.contains("| B/A | 95 % interval | p |"), "{markdown}");
        let latex = stdout(&expect_exit(&mut gpukern(&["export", &json, "--to", "latex"]), 0));
        assert!(latex.contains("B/A & 95 \\% interval & p") && latex.contains("\\end{tabular}\n"), "{latex}");
        // As below the table of a record: what measured it, and when.
        assert!(latex.contains("\n% gpukern ") && latex.contains("\n% device "), "{latex}");
        assert!(latex.contains(", A, B and a second copy of A were timed in turns on "), "{latex}");
        expect_exit(&mut gpukern(&["report", &json, "-o", &path("page.html"), "--svg", &path("charts")]), 0);
        let page = std::fs::read_to_string(path("page.html")).expect("written");
        assert!(page.contains("A/B comparison") && page.contains("<table"), "{page}");
    }
    let error = stderr(&expect_exit(&mut gpukern(&["export", &json, "--to", "junit"]), 2));
    assert!(error.contains("csv, markdown and latex also take the result of `ab`"), "{error}");
    std::fs::write(&json, r#"{"schema":"gpukern-ab/1","version":1}"#).expect("written");
    let error = stderr(&expect_exit(&mut gpukern(&["report", &json]), 2));
    assert!(error.contains("it is damaged"), "{error}");
}

#[test]
fn both_sides_start_with_cold_caches_if_asked_to() {
    let mut measure = ab(&["-V", "tile-2d", "--against", "naive", "--cache=cold", "--max-time", "1s"]);
    let output = measure.output().expect("it runs");
    let said = stderr(&output);
    assert!(said.contains("the caches were emptied before each run (--cache cold)"), "{said}");
    expect_error(&mut ab(&["-V", "tile-2d", "--against", "naive", "--cache=tepid"]), 2, &["'tepid'"]);
}

#[test]
fn a_variant_is_the_same_as_itself() {
    let output = expect_exit(
        &mut ab(&["--a", "v0", "--b", "naive", "--min-effect", "30%", "--max-time", "600s", "--json", "-"]),
        0,
    );
    let document = document(&output);
    assert_eq!((&document["schema"], &document["turns"]), (&json!("gpukern-ab/1"), &json!("batches")));
    assert_eq!((&document["finding"]["verdict"], &document["exit"]), (&json!("same"), &json!(0)));
    assert!(document["origin"]["processor"].is_string(), "{}", document["origin"]);
    let rounds = document["rounds"].as_array().expect("rounds");
    assert!(rounds.len() >= 6 && rounds.iter().all(|round| round.as_array().is_some_and(|r| r.len() == 3)));
    let samples = document["b"]["case"]["outcome"]["samples"].as_array().expect("samples");
    assert!(samples.len() >= rounds.len(), "{}", samples.len());
}

#[test]
fn a_match_without_enough_time_is_undecided() {
    let mut command = ab(&["--a", "naive", "--b", "naive", "--max-time", "1ms"]);
    let said = stdout(&expect_exit(&mut command, 4));
    let start = "\nundecided, but A and B run the same SPIR-V with the same constants: ";
    assert!(said.replace("\n  ", " ").contains(start), "{said}");
    // More time would not tell them apart.
    assert!(!said.contains("for more rounds, give"), "{said}");
    let output = expect_exit(command.args(["--json", "-"]), 4);
    let document = document(&output);
    assert_eq!(document["finding"], Value::Null);
    assert!(!document["rounds"].as_array().expect("rounds").is_empty());
}

#[test]
fn a_kernel_of_the_user_s_runs_in_place_of_a_variant_s() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = write(&folder, "own.spv", &spirv("matmul/naive"));
    let options = ["-V", "naive", "--min-effect", "30%", "--json", "-", "--b-spirv"];
    let output = run(ab(&options).arg(&own));
    // A busy machine may leave the comparison undecided, but the same kernel is never another.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
    let same = document(&output);
    let hash = |document: &Value, side: &str| document[side]["case"]["kernels"][0]["hash"].clone();
    assert_eq!(same["a"]["label"], "matmul/naive.f32");
    assert_eq!(same["b"]["label"], own);
    assert_eq!(hash(&same, "a"), hash(&same, "b"));
    // Another compiler number in the header gives the same kernel another hash.
    let mut other = spirv("matmul/naive");
    other[8] ^= 1;
    let other = write(&folder, "other.spv", &other);
    let output = run(ab(&options).arg(&other));
    let other = document(&output);
    assert!(hash(&other, "b").is_string() && hash(&other, "a") != hash(&other, "b"), "{}", stderr(&output));
}

#[test]
fn a_file_replaces_the_kernel_that_it_fits() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = write(&folder, "tiled.spv", &spirv("matmul/tiled"));
    let matmul = |size| gpukern(&["ab", "matmul", "-s", size, "-V", "tiled", "--min-effect", "30%", "--json", "-"]);
    // At this size the product runs only the first of the variant's kernels.
    let same = document(&run(matmul("96x96x4").args(["--b-spirv", &own])));
    assert_eq!((&same["a"]["label"], &same["b"]["label"]), (&"matmul/tiled.f32".into(), &own.into()));
    assert_eq!(same["b"]["case"]["outcome"]["status"], "measured");
    let naive = write(&folder, "naive.spv", &spirv("matmul/naive"));
    expect_refusal(
        matmul("96x96x4").args(["--b-spirv", &naive]),
        "cannot run '@/naive.spv' in place of matmul/tiled.f32, matmul/tiled-evenly.f32, matmul/sum-shared.f32: it \
         fits 0 of the 3 kernels of variant 'tiled'; start from the source of one in glsl/, or choose a variant with \
         one kernel",
    );
    // A file that replaces a kernel which the case does not run is refused.
    let sums = write(&folder, "sums.spv", &spirv("matmul/sum-shared"));
    expect_output(matmul("96x96x4").args(["--b-spirv", &sums]), 3, &["the case does not use matmul/sum-shared.f32"]);
}

#[test]
fn a_kernel_with_a_wrong_answer_has_no_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = patched(&spirv("matmul/naive"), MULTIPLY_FLOATS, ADD_FLOATS, 1);
    let wrong = write(&folder, "wrong.spv", &wrong);
    expect_output(
        &mut ab(&["-V", "naive", "--b-spirv", &wrong]),
        1,
        &["no verdict: B was rejected (0 rounds)", "rejected: "],
    );
}

#[test]
fn an_element_that_a_kernel_left_out_was_never_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let nothing = patched(&spirv("matmul/naive"), NOT_LESS_THAN, LESS_THAN, 2);
    let nothing = write(&folder, "nothing.spv", &nothing);
    let said = expect_exit(&mut ab(&["-V", "naive", "--b-spirv", &nothing]), 1);
    let said = stdout(&said);
    // The kernel that works has its time.
    assert!(unmeasured(line(&said, "  A  ")).ends_with(" # s"), "{said}");
    let said = words(&said);
    assert!(said.contains("rejected: C[0][0] is NaN; C[0][0] and 1023 others of 1024 were never written"), "{said}");
}

#[test]
fn a_side_that_works_has_its_time_beside_one_that_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let sides = ["ab", "matmul", "-V", "naive", "-s", "8", "--b-env=GPUKERN_TEST_FAIL=vkQueueSubmit"];
    let mut command = with_failing("none", &sides, folder.path());
    let output = stdout(&expect_exit(command.env("GPUKERN_TEST_HOW", "abort"), 3));
    line(&output, "no verdict: B crashed (0 rounds");
    let time = unmeasured(line(&output, "  A  "));
    assert!(time.ends_with(" # s"), "{output}");
}

#[test]
fn mistakes_are_answered_before_a_device_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder, "text.spv", b"#version 460 void main() {}!");
    write(&folder, "texel.spv", &spirv("matmul/texel"));
    write(&folder, "empty.json", b"{}");
    expect_refusals(
        folder.path(),
        "
        $ gpukern ab matmul -s 32 -V naive
        nothing to compare; add --against VARIANT, --a-spirv or --b-spirv, --a-driver or --b-driver, or --a-env or \
        --b-env
        $ gpukern ab matmul -s 32 -V naive --b-env LP_NUM_THREADS
        'LP_NUM_THREADS' sets no variable; write NAME=VALUE, as --b-env RADV_DEBUG=nocache
        $ gpukern ab matmul -s 32 -V naive --b-env RADV_DEBUG=llvm,RADV_PERFTEST=x
        'RADV_DEBUG=llvm,RADV_PERFTEST=x' has several variables; give each its own option
        $ gpukern ab matmul -s 32 --against naive
        no variant given to judge; add -V NAME
        $ gpukern ab matmul -s 32 -V v0,v1,v2 --against v0,v1
        -V names 3 and --against 2; name as many, or one for all
        $ gpukern ab matmul -s 32 -V naive,local --b-spirv @/text.spv
        a file takes the place of a kernel of one variant, -V names 2; name one
        $ gpukern ab matmul -s 32 --a naive --b tilde
        unknown variant 'tilde' for matmul; did you mean 'tiled'? available: …
        $ gpukern ab matmul -s 32 --a naive --b-spirv @/text.spv
        compare one difference at a time: keep only --against VARIANT, --a-spirv or --b-spirv, --a-driver or \
        --b-driver, or --a-env or --b-env
        $ gpukern ab matmul -s 32 --b-spirv @/text.spv
        no variant given that both run; add -V NAME
        $ gpukern ab matmul -s 32 -V naive --b-spirv @/text.spv
        cannot run '@/text.spv' in place of matmul/naive.f32: it is not SPIR-V: its first word is not the magic \
        number; compile it, for example with `glslc`
        $ gpukern ab matmul -s 32 -V naive --b-spirv @/texel.spv
        cannot run '@/texel.spv' in place of matmul/naive.f32: it needs SPIR-V capabilities that the kernel does \
        not need and the device may lack: SampledBuffer, GroupNonUniform, GroupNonUniformShuffle; remove them
        $ gpukern ab matmul -s 32 -V naive --b-spirv /nonexistent.spv
        cannot run '/nonexistent.spv' in place of matmul/naive.f32: no such file; name a SPIR-V file of a kernel
        $ gpukern ab matmul -s 32 -V naive --a-driver @/empty.json --b-driver @/empty.json
        '@/empty.json' is not a usable driver manifest: it names no ICD.library_path; drivers install theirs in vulkan/icd.d/
        $ gpukern ab @/none.toml --a-driver @/empty.json --b-driver @/empty.json
        cannot read '@/none.toml': no such file; `gpukern run KERNEL --init > FILE.toml` drafts one
        $ gpukern ab @/none.toml -V naive --a-driver @/empty.json --b-driver @/empty.json
        --variant naive chooses built-in kernels, and '@/none.toml' has its own
        $ gpukern ab matmul -s 32 --a naive --b local -t f32,f61
        unknown dtype 'f61' for matmul; did you mean 'f64'? available: f32, f64, f16, bf16, i32, i8
        $ gpukern ab matmul -s 32 --a naive --b local --max-time soon
        --max-time: malformed time 'soon'; write 500ms, 5s or 1m
        $ gpukern ab matmul -s 32 --a naive --b local --min-effect x
        --min-effect: malformed percentage 'x'; write a percentage from 0% to 1000%, such as 2%
        ",
    );
}

/// Returns the labels of A and B and the size of each case of a document.
fn cases(document: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("text").to_string();
    let case = |case: &Value| {
        let size = text(&case["a"]["case"]["id"]).rsplit('/').next().expect("an id").to_string();
        format!("{} {} {size}", text(&case["a"]["label"]), text(&case["b"]["label"]))
    };
    document["cases"].as_array().expect("several cases").iter().map(case).collect()
}

#[test]
fn each_pair_has_a_verdict_at_each_size() {
    let (_folder, path) = temporary("ab.json");
    let mut command =
        gpukern(&["ab", "matmul", "-V", "tile-2d,local", "--against", "naive", "-s", "16,24", "--max-time=100ms"]);
    let output = run(command.arg("--json").arg(&path).env("COLUMNS", "80"));
    let (text, said) = (stdout(&output), stderr(&output));
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{text}{said}");
    assert!(text.starts_with("matmul f32 against naive, uniform input, all answers verified\n"), "{text}");
    // A single word of a printed command, such as a path, may be wider.
    let is_word = |line: &str| !line.trim().trim_end_matches(" \\").contains(' ');
    assert!(text.lines().all(|line| line.chars().count() <= 80 || is_word(line)), "{text}");
    for (variant, size) in [("tile-2d", "16"), ("tile-2d", "24"), ("local", "16"), ("local", "24")] {
        let of = |line: &&str| line.split_whitespace().take(2).collect::<Vec<_>>() == [variant, size];
        assert!(text.lines().any(|line| of(&line)), "{variant} {size}: {text}");
    }
    assert!(words(&text).contains("(differences below 2 % are ignored)"), "{text}");
    line(&said, "4 of 4: local against naive at 24: ");
    let document = super::read_json(&path);
    let expected = ["tile-2d 16x16x16", "tile-2d 24x24x24", "local 16x16x16", "local 24x24x24"];
    assert_eq!(cases(&document), expected.map(|case| format!("naive {case}")));
    assert_eq!(document["exit"].as_i64(), output.status.code().map(i64::from));
}

#[test]
fn patterns_pair_variants_and_what_one_side_lacks_is_left_out() {
    let ab = ["ab", "collectives", "-V", "vote-*-subgroup", "--against", "vote-*-shared", "-s", "64"];
    let output = run(gpukern(&ab).args(["--max-time=20ms", "--json=-"]));
    let all = cases(&document(&output));
    assert!(all.len() >= 2, "{all:?}");
    for case in all {
        let [a, b, _] = case.split(' ').collect::<Vec<_>>()[..] else { panic!("{case}") };
        assert_eq!(a.strip_suffix("-shared"), b.strip_suffix("-subgroup"), "{case}");
    }
    // Only one of the two variants supports f16; both support f32.
    let mixed = ["ab", "matmul", "-V", "spli*", "--against", "naive", "-s", "16", "-t", "f16,f32", "--json=-"];
    expect_refusal(
        &mut gpukern(&mixed),
        "'split' needs feature cooperativeMatrix; choose a size and type that both can run",
    );
    let none = ["ab", "matmul", "-V", "spli*", "--against", "naive", "-s", "16", "-t", "f16"];
    expect_refusal(
        &mut gpukern(&none),
        "'spli*' and 'naive' have no case in common; choose an element type and a layout that both have",
    );
}

#[test]
#[cfg(unix)]
fn an_interruption_keeps_the_cases_before_it() {
    let (_folder, path) = temporary("ab.json");
    // The first match is decided at once; the second would take hours.
    let mut command =
        gpukern(&["ab", "matmul", "-V", "tile-2d,naive", "--against", "naive", "-s", "96", "--max-time=1h"]);
    command.args(["--min-effect=0.0001%", "--json"]).arg(&path);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
    super::wait_until("the first verdict", || {
        assert!(child.try_wait().expect("a process").is_none(), "it ended first");
        std::fs::read_to_string(&path).is_ok_and(|text| !text.is_empty())
    });
    // The first case is in the file even if the process is killed now.
    assert_eq!(super::read_json(&path)["not_measured"], 1);
    super::signal(&child, "INT");
    let output = child.wait_with_output().expect("it ends");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert_eq!(words(line(&text, " tile-2d")).split(' ').nth(1), Some("faster"), "{text}");
    let document = super::read_json(&path);
    assert_eq!(document["exit"], 130);
    let first = &document["cases"][0];
    assert_eq!((&first["b"]["label"], &first["finding"]["verdict"]), (&json!("tile-2d"), &json!("faster")));
}

/// Returns the manifest of a software driver, if one is installed in a usual place.
pub(super) fn software_driver() -> Option<PathBuf> {
    let folders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(Path::new(folder)).ok()).flatten();
    let mut files = files.filter_map(|entry| Some(entry.ok()?.path()));
    files.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lvp_icd")))
}

#[test]
fn drivers_take_turns_in_processes_of_their_own() {
    let Some(manifest) = software_driver() else { return };
    let driver = manifest.to_str().expect("UTF-8");
    let options = ["-V", "naive", "--a-driver", driver, "--b-driver", driver, "--min-effect", "900%", "--json", "-"];
    let output = run(&mut ab(&options));
    let document = document(&output);
    assert_eq!(document["turns"], "processes");
    let rounds = document["rounds"].as_array().map_or(0, Vec::len);
    // On a busy machine the match may stay undecided.
    match (output.status.code(), document["finding"]["verdict"].as_str()) {
        (Some(0), Some("same")) => assert!(rounds >= 6, "{document}"),
        (Some(4), Some("undecided")) => assert!(rounds >= 1, "{document}"),
        // Time ended before the first look at the rounds.
        (Some(4), None) => assert!((1..6).contains(&rounds), "{document}"),
        other => panic!("{other:?}: {document}"),
    }
    line(&stderr(&output), "round 1: A ");
}

#[test]
fn a_driver_has_other_variables_on_each_side() {
    let Some(manifest) = software_driver() else { return };
    // The manifest as a variable: side A has the driver that this process has, and side B one that is not there.
    let folder = tempfile::tempdir().expect("a folder");
    let absent = format!("VK_DRIVER_FILES={}", folder.path().join("none.json").display());
    let absent_old = absent.replace("DRIVER_FILES", "ICD_FILENAMES");
    let mut ab = ab(&["-V", "naive", "--b-env", &absent, "--b-env", &absent_old]);
    ab.env("VK_DRIVER_FILES", &manifest).env("VK_ICD_FILENAMES", &manifest);
    let output = run(&mut ab);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("B with environment 'VK_DRIVER_FILES="), "{}", stderr(&output));
}

#[test]
fn drivers_run_descriptions() {
    let Some(manifest) = software_driver() else { return };
    let driver = manifest.to_str().expect("UTF-8");
    let folder = tempfile::tempdir().expect("a folder");
    let glsl = "#version 460\nlayout(local_size_x = 1) in;\nlayout(binding = 0) writeonly buffer Y { float y[]; };\n\
                void main() { y[gl_GlobalInvocationID.x] = 1.0; }\n";
    write(&folder, "k.comp", glsl.as_bytes());
    let toml =
        "kernel.source = 'k.comp'\naxes.N = 8\nbuffer.Y = { type = 'f32', shape = 'N' }\ndispatch.groups = 'N'\n";
    let toml = write(&folder, "k.toml", toml.as_bytes());
    let options = ["-s", "64", "--a-driver", driver, "--b-driver", driver, "--min-effect", "900%", "--json", "-"];
    let document = document(&run(gpukern(&["ab", &toml]).args(options)));
    let id = &document["a"]["case"]["id"];
    assert_eq!((&document["turns"], id), (&"processes".into(), &"k/k/f32/N=64".into()), "{document}");
    let doubt = &document["b"]["case"]["outcome"]["verification"]["unverified"];
    assert_eq!(doubt, "there is no reference: its answer is A's, within the tolerance", "{document}");
}

#[test]
fn two_drivers_with_different_answers_get_no_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let glsl = "#version 460\n#extension GL_KHR_shader_subgroup_basic : require\nlayout(local_size_x = 32) in;\n\
                layout(binding = 0) writeonly buffer Y { uint y[]; };\n\
                void main() { y[gl_GlobalInvocationID.x] = gl_SubgroupSize; }\n";
    write(&folder, "k.comp", glsl.as_bytes());
    let toml = "kernel.source = 'k.comp'\naxes.N = 64\nbuffer.Y = { type = 'u32', shape = 'N' }\n\
                dispatch.groups = 'N / 32'\n";
    let toml = write(&folder, "k.toml", toml.as_bytes());
    let mut command = gpukern(&["ab", &toml, "--device", "cpu"]);
    command.args(["--a-env", "LP_NATIVE_VECTOR_WIDTH=256", "--b-env", "LP_NATIVE_VECTOR_WIDTH=128"]);
    let kept = folder.path().join("kept");
    let output = stdout(&expect_exit(command.arg("--keep-failures").arg(&kept), 1));
    line(&output, "no verdict: B was rejected");
    let said = words(&output);
    assert!(said.contains("its answer differs from A's: Y[0] is 4, A has 8"), "{output}");
    assert!(said.contains("(64 elements differ, the first is Y[0])"), "{output}");
    // The answer of A is kept with it, so that the case fails again wherever B answers; it proves nothing right.
    let kept = kept.join("B_k_u32_N_64");
    for (width, exit) in [("128", 1), ("256", 0)] {
        let mut again = gpukern(&["run", "--max-time", "100ms"]);
        let output = expect_exit(again.arg(&kept).env("LP_NATIVE_VECTOR_WIDTH", width), exit);
        assert_eq!(stdout(&output).contains("unverified: nothing verified the reference"), exit == 0, "{output:?}");
    }
    let simulated = stdout(&expect_exit(gpukern(&["sanitize"]).arg(&kept), 1));
    line(&simulated, "differing answers      Y[0] is 4 with sub-groups of 4, but 8");
}

#[test]
fn a_driver_that_lost_what_a_case_needs_is_worse() {
    let folder = tempfile::tempdir().expect("a folder");
    let glsl = "#version 460\nlayout(local_size_x = 32) in;\nlayout(binding = 0) writeonly buffer Y { uint y[]; };\n\
                void main() { y[gl_GlobalInvocationID.x] = 1; }\n";
    write(&folder, "k.comp", glsl.as_bytes());
    let toml = "kernel = { source = 'k.comp', subgroup = 8 }\naxes.N = 64\nbuffer.Y = { type = 'u32', shape = 'N' }\n\
                dispatch.groups = 'N / 32'\n";
    let toml = write(&folder, "k.toml", toml.as_bytes());
    let [wide, narrow] = ["LP_NATIVE_VECTOR_WIDTH=256", "LP_NATIVE_VECTOR_WIDTH=128"];
    let duel = |a: &str, b: &str, exit| {
        let mut command = gpukern(&["ab", &toml, "--device", "cpu", "--a-env", a, "--b-env", b]);
        expect_exit(command.args(["--max-time", "1s"]), exit)
    };
    let output = stdout(&duel(wide, narrow, 1));
    line(&output, "B CANNOT run what A runs: its driver lacks what the case needs");
    let said = words(&output);
    assert!(said.contains("=128 skipped: needs sub-groups of 8; the device has 4"), "{output}");
    // A case that only B runs is no loss, and nothing to compare.
    duel(narrow, wide, 2);
    let [good, bad] = ["good.json", "bad.json"].map(|name| folder.path().join(name));
    for (path, width, exit) in [(&good, "256", 0), (&bad, "128", 2)] {
        let mut run = gpukern(&["run", &toml, "--device", "cpu", "--max-time", "100ms", "--json"]);
        expect_exit(run.arg(path).env("LP_NATIVE_VECTOR_WIDTH", width), exit);
    }
    for (allow, exit) in [("device,driver", 1), ("device,driver,gone", 0)] {
        let mut compare = gpukern(&["compare", "--allow", allow]);
        let output = stdout(&expect_exit(compare.args([&good, &bad]), exit));
        assert!(output.contains("newly skipped"), "{output}");
    }
}

#[test]
fn a_driver_that_does_not_load_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = driver_manifest(folder.path(), Path::new("/nonexistent.so"));
    let broken = broken.to_str().expect("UTF-8");
    let mut ab = ab(&["-V", "naive", "--a-driver", broken, "--b-driver", broken]);
    expect_error(&mut ab, 2, &[" is not a usable driver manifest: its library '/nonexistent.so' is not there"]);
}
