//! Kernels that try to be timed for less work than was verified.

use super::{
    BRIEF, check_text, expect_error, expect_exit, gpukern, line, read_json, replaced, stderr, temporary, within,
};
use serde_json::Value;
use std::path::Path;

/// Runs the cheating kernels with these options. Returns the cases and standard error.
fn run(options: &[&str], code: i32) -> (Vec<Value>, String) {
    let (_folder, path) = temporary("run.json");
    let cheats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cheats");
    let mut command = gpukern(&["run"]);
    command.arg(cheats.join("cheats.toml")).args(BRIEF).args(options.iter().map(|option| within(&cheats, option)));
    let output = expect_exit(command.arg("--json").arg(&path), code);
    (read_json(&path)["cases"].as_array().expect("cases").clone(), stderr(&output))
}

#[test]
fn a_kernel_that_leaves_its_work_to_other_runs_is_rejected_and_an_honest_one_is_not() {
    let expected = |case: &Value| {
        let (variant, size) = (case["variant"].as_str().expect("a name"), case["id"].as_str().expect("an id"));
        let is_honest = variant == "honest" || variant == "knows-a-size" && size.ends_with("N=1000");
        if is_honest { "measured" } else { "rejected" }
    };
    let (mut cases, mut notes) = run(&[], 1);
    // Work left undone is seen in times, which a busy moment can hide; every other cheat is caught at once.
    let is_hidden = |case: &Value| {
        let skips_work = ["finds-its-answer", "keeps-its-answer"].contains(&case["variant"].as_str().expect("a name"));
        skips_work && case["outcome"]["status"] == "measured"
    };
    let mut tries = 1;
    while cases.iter().any(is_hidden) && tries < 6 {
        (cases, notes) = run(&[], 1);
        tries += 1;
    }
    assert_eq!(cases.len(), 12, "{notes}");
    for case in &cases {
        assert_eq!(case["outcome"]["status"], expected(case), "{}: {notes}", case["id"]);
        // After how many runs an answer is wrong is luck, and so are whether two cases share a line, and whether times or
        // answers show first that runs leave work undone.
        let skips = "its time depends on what its outputs and scratch hold: ";
        let found = match case["variant"].as_str().expect("a name") {
            "finds-its-answer" | "keeps-its-answer" => &[skips][..],
            "stops-working" | "works-now-and-then" => {
                &["right at first, wrong after ", "right at first, wrong in the run after the timed ones: ", skips]
            }
            _ => continue,
        };
        let worst = case["outcome"]["worst"].as_str().expect("a reason");
        assert!(found.iter().any(|start| worst.starts_with(start)), "{case}");
    }
    for variant in ["finds-its-answer", "keeps-its-answer"] {
        let line = format!("/{variant}/f32/N=1000 and 1 more: its time depends on what its outputs and scratch hold: ");
        assert!(notes.contains(&line), "{line}: {notes}");
    }
}

#[test]
fn a_kernel_that_changes_its_input_or_what_is_outside_once_it_was_verified_is_rejected() {
    for (kernel, found) in [
        (
            "@/spoils-its-input.comp",
            "rejected  honest/spoils-its-input/f32/N=1000: right at first, wrong after # more runs: in timed \
             runs, the kernel changed its input A; give A a check if it is meant to change (or a kernel that took \
             turns with it did)",
        ),
        (
            "@/marks-what-is-outside.comp",
            "rejected  honest/marks-what-is-outside/f32/N=1000: right at first, wrong after # more \
             runs: in timed runs, the kernel wrote outside buffer B: it wrote byte 4020 of a buffer of 4000 bytes (0 \
             to 3999) (or a kernel that took turns with it did)",
        ),
    ] {
        let (cases, notes) = run(&[kernel, "-s", "N=1000"], 1);
        assert_eq!(cases[0]["outcome"]["status"], "rejected");
        check_text(&replaced(line(&notes, "rejected  "), r"after \d+ more", "after # more"), found);
    }
}

#[test]
fn the_first_runs_over_one_scratch_are_judged_each() {
    let (cases, notes) = run(&["@/errs-in-its-second-run.comp", "-s", "N=1000"], 1);
    assert_eq!(cases[0]["outcome"]["status"], "rejected");
    let found = "N=1000: right at first, wrong in launch 2 over the same scratch: B[";
    assert!(line(&notes, "rejected  ").contains(found), "{notes}");
}

#[test]
fn repeated_runs_start_with_the_same_bits_and_say_so() {
    let (cases, notes) = run(&["@/honest.comp", "-s", "N=1000", "--repeat", "5"], 0);
    assert_eq!(cases[0]["outcome"]["repeated"], serde_json::json!({ "runs": 5, "differing": 0 }));
    line(&notes, "note      1 case gave the same answer in 5 more runs");
    let verify = ["verify", "row-sum", "-s", "8", "-t", "f32", "--input", "uniform", "--repeat", "3"];
    expect_error(&mut gpukern(&verify), 0, &[" cases gave the same answer in 3 more runs"]);
}
