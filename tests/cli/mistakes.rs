//! What a user gets wrong: a message that names the value and the remedy, exit code 2, nothing on standard output,
//! and before any device is opened.

use super::{expect_exit, gpukern, stderr, stdout};
use std::path::Path;

/// Runs a command that must be refused; a loader that does not exist proves that no device was looked for.
fn refused(arguments: &[&str], expected: &[&str]) {
    let output = expect_exit(gpukern(arguments).env("GPUKERN_LOADER", "/nonexistent"), 2);
    let message = stderr(&output);
    for part in expected {
        assert!(message.contains(part), "{arguments:?} lacks '{part}':\n{message}");
    }
    assert!(stdout(&output).is_empty() && !message.contains("panicked"), "{message}");
}

#[test]
fn unknown_names_are_answered_with_the_nearest_known_ones() {
    refused(&["bench", "matmull"], &["unknown algorithm 'matmull'", "did you mean 'matmul'?"]);
    refused(
        &["bench", "matmul", "-V", "subgruop"],
        &["unknown variant 'subgruop' for matmul; did you mean 'subgroup'?"],
    );
    refused(&["bench", "matmul", "-t", "f23"], &["unknown dtype 'f23'; did you mean 'f32'?"]);
    refused(&["bench", "matmul", "--input", "unifrom"], &["unknown input 'unifrom'; did you mean 'uniform'?"]);
    refused(&["list", "matmil"], &["unknown algorithm 'matmil'; did you mean 'matmul'?"]);
    refused(&["bench"], &["no algorithm given; name one of: matmul"]);
}

#[test]
fn impossible_sizes_are_refused() {
    refused(&["bench", "matmul", "-s", "0"], &["size '0' is zero"]);
    refused(&["bench", "matmul", "-s", "12k"], &["malformed size '12k'", "128..8192"]);
    refused(&["bench", "matmul", "-s", "2x3"], &["takes one extent or three"]);
    refused(&["bench", "matmul", "-s", "99999999999"], &["size '99999999999' is too large"]);
    refused(&["bench", "matmul", "-s", "100000"], &["matmul cannot have size 100000", "choose a smaller size"]);
    refused(&["bench", "matmul", "-s", "512..64"], &["runs downwards; write 64..512"]);
}

#[test]
fn nonsensical_precision_and_times_are_refused() {
    refused(&["bench", "matmul", "--precision", "0%"], &["precision '0%' is out of range"]);
    refused(&["bench", "matmul", "--precision", "high"], &["malformed precision 'high'"]);
    refused(&["bench", "matmul", "--max-time", "5"], &["malformed time '5'; write 500ms, 5s or 1m"]);
    refused(&["bench", "matmul", "--subgroup-size", "7"], &["sub-group size '7' is no power of two"]);
}

#[test]
fn configurations_that_make_no_sense_are_refused_with_their_path() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, expected) in [
        ("", "missing field `bench`"),
        ("bench = []", "measures nothing; add a [[bench]] table"),
        ("[[bench]]\nalgorithm = 'matmul'\nvariants = 'all'", "unknown field `variants`"),
        ("[[bench]]\nalgorithm = 'matmul'\nvariant = ['all', 'naive']", "mix 'all' with names"),
        ("[[bench]]\nalgorithm = 'matmul'\nsize = -3", "expected a string, a positive integer"),
        ("[[bench]]\nvariant = 'naive'", "no algorithm given"),
        ("[[bench]\n", "is not valid"),
    ] {
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).expect("written");
        let shown = path.to_str().expect("UTF-8");
        refused(&["bench", "--config", shown], &[shown, expected]);
    }
    refused(&["bench", "--config", "missing.toml"], &["cannot read configuration 'missing.toml'", "benches-config/"]);
}

#[test]
fn json_that_cannot_be_written_is_refused_before_measuring() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let bench =
        |path: &str, expected: &str| refused(&["bench", "matmul", "-s", "8", "--json", path], &[path, expected]);
    bench(&inside("no/such/folder/run.json"), "cannot write JSON");
    bench(folder.path().to_str().expect("UTF-8"), "it is a folder");
    bench(&inside(&"n".repeat(300)), "cannot write JSON");
    let read_only = inside("read-only.json");
    std::fs::write(&read_only, "kept").expect("written");
    let mut permissions = Path::new(&read_only).metadata().expect("there").permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&read_only, permissions).expect("set");
    bench(&read_only, "it is read-only");
    assert_eq!(std::fs::read_to_string(&read_only).expect("there"), "kept");
}

#[test]
fn a_device_that_is_not_there_is_answered_with_those_that_are() {
    let output = expect_exit(gpukern(&["bench", "matmul", "-s", "8"]).env("GPUKERN_DEVICE", "voodoo"), 2);
    assert!(stderr(&output).contains("no device matches 'voodoo'; available: 0 ("), "{}", stderr(&output));
}

#[test]
fn sizes_beyond_the_device_are_skipped_with_the_limit_and_the_sweep_goes_on() {
    let arguments = ["bench", "matmul", "-V", "naive", "-s", "8,1x1x70000", "--max-time", "50ms"];
    let output = expect_exit(&mut gpukern(&arguments), 0);
    assert!(stderr(&output).contains("matmul/naive/f32/1x1x70000 will be skipped: needs 70000 loop iterations"));
    assert!(stdout(&output).contains("skipped"), "{}", stdout(&output));
    let output = expect_exit(&mut gpukern(&["bench", "matmul", "-V", "naive", "-s", "30000"]), 2);
    let message = stderr(&output);
    assert!(
        message.contains("30000x30000x30000 will be skipped: needs a buffer of")
            || message.contains("of device memory"),
        "{message}"
    );
    assert!(message.contains("nothing to measure"), "{message}");
}
