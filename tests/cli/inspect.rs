//! `inspect`: compiles kernels and runs none.

use super::failures::with_failing;
use super::workers::with_bad_naive;
use super::{expect_error, expect_exit, expect_refusal, gpukern, statuses, stderr, stdout, valid_record};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const INSPECT: [&str; 7] = ["inspect", "matmul", "-V", "naive,local", "-s", "8,24", "-t=f32"];

#[test]
fn kernels_are_compiled_and_nothing_is_submitted() {
    let folder = tempfile::tempdir().expect("a folder");
    // Any submission fails.
    let inspect = |more: &[&str]| expect_exit(with_failing("vkQueueSubmit", &INSPECT, folder.path()).args(more), 0);
    let text = stdout(&inspect(&[]));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for word in ["naive", "local", "create", "cached", "2 kernels"] {
        assert!(text.contains(word), "lacks {word}: {text}");
    }
    let record = valid_record(&stdout(&inspect(&["--json", "-"])));
    assert_eq!((&record["kind"], statuses(&record)), (&"inspection".into(), vec!["inspected"; 4]));
    let inspection = &record["cases"][0]["kernels"][0]["inspection"];
    assert!(inspection["created"].as_f64().is_some_and(|time| time > 0.0), "{inspection}");
    let text = stdout(&inspect(&["--junit", "-"]));
    assert!(text.contains(r#"tests="4" failures="0" errors="0""#), "{text}");
    inspect(&["--raw", "--isa"]);
}

#[test]
fn a_compiler_that_crashes_costs_only_its_kernel() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = with_bad_naive("vkCreateComputePipelines", "segv", &INSPECT, folder.path());
    let output = expect_exit(&mut command, 3);
    let (text, notes) = (stdout(&output), stderr(&output));
    assert!(text.contains("local") && text.contains("1 kernel, 2 failed"), "{text}");
    assert!(notes.contains("crashed   matmul/naive/f32/8x8x8: SIGSEGV"), "{notes}");
}

#[test]
fn a_driver_that_opens_one_device_in_a_process_is_given_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernels = ["softmax.toml", "reduction.toml", "scan.toml"];
    let kernels = kernels.map(|name| format!("{}/examples/kernels/{name}", env!("CARGO_MANIFEST_DIR")));
    let inspect = ["inspect", &kernels[0], &kernels[1], &kernels[2], "--json", "-"];
    let mut command = with_failing("vkCreateDevice", &inspect, folder.path());
    let output = expect_exit(command.env("GPUKERN_TEST_HOW", "segv").env("GPUKERN_TEST_SECOND", "1"), 0);
    let record = valid_record(&stdout(&output));
    assert!(statuses(&record).iter().all(|status| *status == "inspected"), "{:?}", statuses(&record));
}

#[test]
fn a_compiler_that_hangs_is_abandoned_after_the_timeout() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = with_bad_naive("vkCreateComputePipelines", "hang", &INSPECT, folder.path());
    let output = expect_exit(command.args(["-s8", "--timeout=1s"]), 3);
    let notes = stderr(&output);
    assert!(notes.contains("vkCreateComputePipelines has not returned after 1."), "{notes}");
}

#[test]
fn every_choice_of_a_description_is_a_row_and_its_commands_are_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let toml = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels/softmax.toml");
    let output = expect_exit(&mut with_failing("vkQueueSubmit", &["inspect", toml, "--json", "-"], folder.path()), 0);
    assert!(!stderr(&output).contains("runs:"), "{}", stderr(&output));
    let record = valid_record(&stdout(&output));
    assert!(statuses(&record).iter().all(|status| *status == "inspected"), "{:?}", statuses(&record));
    assert!(!record["cases"][0]["kernels"].as_array().expect("kernels").is_empty());
}

#[test]
fn two_kernels_are_compared_and_three_are_too_many() {
    let diff = |variants: &str, code: i32| {
        expect_exit(&mut gpukern(&["inspect", "matmul", "-V", variants, "-s=8", "-t=f32", "--diff"]), code)
    };
    let text = stdout(&diff("naive,local", 0));
    assert!(text.starts_with("A  matmul f32 naive 8\nB  matmul f32 local 8\n"), "{text}");
    let message = stderr(&diff("naive,local,tiled", 2));
    assert!(message.contains("--diff compares two kernels, but 3 are selected: naive 8;"), "{message}");
}

#[test]
fn algorithms_and_files_are_not_inspected_together() {
    for (words, expected) in [
        (&["matmul", "k.toml"][..], "'matmul' is an algorithm and 'k.toml' a file"),
        (&["k.toml", "-V", "naive"], "--variant naive chooses built-in kernels"),
        (&["matmul", "--spec", "BM=1"], "--spec BM=1 is for your own kernels"),
        (&["matmul", "--set", "spec.BM=1"], "--set spec.BM=1 is for your own kernels"),
        (&["matmull"], "matmul"),
        (&["missing.toml"], "missing.toml"),
    ] {
        expect_refusal(gpukern(&["inspect"]).args(words), expected);
    }
}

/// Writes the inspection of a kernel with this number of spilled registers to `folder`. Returns its path.
fn spilling(folder: &Path, spills: u32) -> PathBuf {
    let inspect = ["inspect", "matmul", "-V", "naive", "-s", "8", "-t", "f32", "--json", "-"];
    let mut record: Value = serde_json::from_str(&stdout(&expect_exit(&mut gpukern(&inspect), 0))).expect("JSON");
    let statistics = json!([{"name": "VGPRs", "value": 256.0}, {"name": "Spilled VGPRs", "value": spills}]);
    record["cases"][0]["kernels"][0]["statistics"] = statistics;
    let path = folder.join(format!("{spills}.json"));
    std::fs::write(&path, record.to_string()).expect("written");
    path
}

#[test]
fn a_spill_is_a_regression_without_statistics_and_breaks_a_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let [none, some] = [0, 442].map(|spills| spilling(folder.path(), spills));
    let compare = |before: &Path, after: &Path, more: &[&str], code| {
        stdout(&expect_exit(gpukern(&["compare"]).arg(before).arg(after).args(more), code))
    };
    let text = compare(&none, &some, &[], 1);
    assert!(text.contains("WORSE   matmul/naive/f32/8x8x8: spills 0 → 442"), "{text}");
    assert!(text.contains("1 worse (more spills, or less occupancy)"), "{text}");
    assert!(compare(&some, &none, &[], 0).contains("better  matmul/naive/f32/8x8x8: spills 442 → 0"));
    let document: Value = serde_json::from_str(&compare(&none, &some, &["--json", "-"], 1)).expect("JSON");
    let change = &document["inspected"][0]["changes"][0];
    assert_eq!((&change["figure"], &change["candidate"]), (&"spills".into(), &442.0.into()), "{document}");
    let text = compare(&none, &some, &["--junit", "-"], 1);
    assert!(text.contains(r#"<failure type="worse" message="spills 0 → 442"/>"#), "{text}");
    assert!(compare(&none, &some, &["--to", "markdown"], 1).contains("- **worse** `matmul/naive/f32/8x8x8`"));
    let gate = folder.path().join("gate.toml");
    std::fs::write(&gate, "[[limit]]\ncase = \"matmul/*\"\nmax-spills = 100\n").expect("written");
    let gate = ["--gate", gate.to_str().expect("UTF-8")];
    // An unchanged number of spills can still exceed the limit.
    std::fs::copy(&some, folder.path().join("again.json")).expect("copied");
    let again = folder.path().join("again.json");
    assert!(compare(&some, &again, &gate, 1).contains("spills 442, max-spills is 100"));
    assert!(compare(&some, &none, &gate, 0).contains("1 better"));
    let page = folder.path().join("page.html");
    let mut report = gpukern(&["report", "-o"]);
    expect_exit(report.arg(&page).args([&none, &some]), 0);
    assert!(std::fs::read_to_string(&page).expect("written").contains("spills 0 → 442"));
}

#[test]
fn a_device_that_executes_nothing_is_named_so_and_accused_of_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let dropping = |arguments: &[&str]| {
        let mut command = with_failing("vkQueueSubmit", arguments, folder.path());
        command.env("GPUKERN_TEST_HOW", "drop");
        command
    };
    for command in [
        &["verify", "matmul", "-V", "naive", "-s", "8", "-t=f32"][..],
        &["bench", "matmul", "-V=naive", "-s=8", "--no-peak"],
    ] {
        expect_error(&mut dropping(command), 3, &["the device executes nothing: a fill of four bytes did not arrive"]);
    }
    expect_exit(&mut dropping(&INSPECT), 0);
}
