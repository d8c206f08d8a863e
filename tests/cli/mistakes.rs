//! Mistakes of the user: a message with the value and the remedy, exit code 2, nothing on standard output, no device opened.

use super::{brief_bench, expect_error, expect_exit, expect_refusal, gpukern, limited, run, stderr, stdout, temporary};
use std::path::Path;

/// Runs a command that must be refused. A missing loader proves that it looks for no device. Returns the message.
fn refused(arguments: &[&str], expected: &[&str]) -> String {
    let output = expect_exit(gpukern(arguments).env("GPUKERN_LOADER", "/nonexistent"), 2);
    let message = stderr(&output);
    for part in expected {
        assert!(message.contains(part), "{arguments:?} lacks '{part}':\n{message}");
    }
    assert!(stdout(&output).is_empty() && !message.contains("panicked"), "{message}");
    message
}

/// Mistaken arguments of `bench`, each with parts of its message. `src/basis/size.rs` and `src/plan/options.rs` test further
/// mistakes in sizes, percentages and times.
const MISTAKES: &[(&str, &[&str])] = &[
    ("matmull", &["unknown algorithm 'matmull'", "did you mean 'matmul'?"]),
    ("matmul -V subgruop", &["unknown variant 'subgruop' for matmul; did you mean 'subgroup'?"]),
    ("matmul -V blocked", &["'blocked' is a variant of lu, not of matmul, which has: naive, "]),
    ("matmul -t f23", &["unknown dtype 'f23' for matmul; did you mean 'f32'?"]),
    ("matmul -t i64", &["no chosen variant of matmul has dtype i64; available: f32, f64, f16, bf16, i32, i8"]),
    ("matmul --input unifrom", &["unknown input 'unifrom'; did you mean 'uniform'?"]),
    ("matmul -s 12k", &["malformed size '12k'", "128..8192"]),
    ("matmul -s 2x3", &["give one extent or three"]),
    ("matmul -s 100000", &["matmul cannot have size 100000", "choose a smaller size"]),
    ("matmul -s -1", &["malformed size '-1'; write 1024"]),
    ("matmul --precision 0%", &["precision '0%' is out of range"]),
    ("matmul --precision high", &["malformed precision 'high'"]),
    ("matmul --precision 1", &["precision '1' has no percent sign; write 1%, or 100% if it is a factor"]),
    ("matmul --max-time 5", &["--max-time: malformed time '5'; write 500ms, 5s or 1m"]),
    ("matmul --subgroup-size 7", &["sub-group size '7' is not a power of two"]),
    ("matmul -s 8 --only foo", &["no selected case is called 'foo'; ids look like matmul/naive/f32/8x8x8; choose"]),
    (
        "matmul -s 8 -V naive,tiled --only matmul/tiled/f32/8",
        &["'matmul/tiled/f32/8'; ids look like matmul/tiled/f32/8x8x8, "],
    ),
    ("eigen --eps -1", &["eps -1 is not a positive number; write --eps 1e-4"]),
    ("eigen --eps 1e30 --stop neighbour", &["eps 1e30 asks for no precision"]),
    ("matmul --eps 1e-3", &["--eps applies only to eigen, which iterates; leave it out for matmul"]),
    ("matmul lu --stop bracket", &["--stop applies only to eigen, which iterates; leave it out for matmul, lu"]),
    ("lu --max-rounds 3", &["--max-rounds applies only to eigen"]),
];

#[test]
fn mistakes_are_answered_with_the_value_and_the_remedy() {
    for (arguments, expected) in MISTAKES {
        let arguments: Vec<_> = ["bench"].into_iter().chain(arguments.split(' ')).collect();
        let message = refused(&arguments, expected);
        assert!(!message.contains("-- -1"), "{message}");
    }
    refused(&["bench"], &["no algorithm given; name one of: matmul"]);
    refused(&["list", "matmil"], &["unknown algorithm 'matmil'; did you mean 'matmul'?"]);
    refused(&["run", "typo.toml"], &["cannot read 'typo.toml': no such file\n"]);
}

#[test]
fn configurations_that_make_no_sense_are_refused_with_their_path() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, expected) in [
        ("", "measures nothing; add a [[bench]] table"),
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
    // Messages are wrapped only to the width of a terminal.
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    let wrapped = stderr(&run(gpukern(&["bench", "matmul", "--device", "voodoo"]).env("COLUMNS", "40")));
    let lines: Vec<_> = wrapped.lines().collect();
    assert!(lines.len() > 1 && lines[1..].iter().all(|line| line.starts_with("  ")), "{wrapped}");
    assert!(lines.iter().all(|line| line.chars().count() <= 40), "{wrapped}");
}

#[test]
fn sizes_beyond_the_device_are_skipped_with_the_limit_and_the_sweep_goes_on() {
    let output = expect_exit(&mut brief_bench(&["matmul", "-V", "naive", "-s", "8,1x1x70000"]), 0);
    assert!(stderr(&output).contains("matmul/naive/f32/1x1x70000 will be skipped: needs 70000 loop iterations"));
    assert!(stdout(&output).contains("skipped"), "{}", stdout(&output));
    let output = expect_exit(&mut brief_bench(&["matmul", "-V", "naive", "-s", "30000"]), 2);
    let message = stderr(&output);
    assert!(
        message.contains("30000x30000x30000 will be skipped: needs a buffer of")
            || message.contains("of device memory"),
        "{message}"
    );
    assert!(message.contains("nothing to measure"), "{message}");
}

#[test]
fn a_quick_run_that_leaves_out_all_that_was_asked_for_says_so() {
    let arguments = ["verify", "matmul", "-V", "naive", "--quick", "-s", "4096", "-d", "cpu"];
    let output = expect_exit(&mut gpukern(&arguments), 2);
    let expected = "nothing to measure: these cases need another kind of device; the largest sizes are skipped on a \
                    software device; --full runs them";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
}

#[test]
#[cfg(unix)]
fn names_of_megabytes_and_hostile_ones_are_answered_in_a_few_lines() {
    let (_folder, path) = temporary("config.toml");
    let shown = path.to_str().expect("UTF-8");
    let long = "a".repeat(5_000_000);
    let hostile = "x\u{1b}]0;gone\u{7}\u{202e}\u{61c}\u{feff}\u{e0041}";
    for text in [
        format!("[[bench]]\nalgorithm = '{long}'"),
        format!("[[bench]]\nalgorithm = 'matmul'\nvariant = '{long}'"),
        format!("[[bench]]\nalgorithm = 'matmul'\nsize = '{long}'"),
        format!("[[bench]]\nalgorithm = 'matmul'\nprecision = '{long}'"),
        format!("[[bench]]\nalgorithm = 'matmul'\nmax-time = '{long}'"),
        format!("[[bench]]\nalgorithm = 'matmul'\n{long} = 1"),
        format!("[[bench]]\nalgorithm = 'matmul'\nvariant = \"{hostile}\""),
        format!("[[bench]]\nalgorithm = 'matmul'\ninput = \"{hostile}\""),
        format!("[[bench]]\nalgorithm = 'matmul'\nunknown = 1 # {hostile}"),
    ] {
        std::fs::write(&path, &text).expect("written");
        let mut command = limited("ulimit -t 3", &gpukern(&["bench", "--config", shown]));
        let output = expect_exit(command.env("GPUKERN_LOADER", "/nonexistent"), 2);
        let message = stderr(&output);
        assert!(message.len() < 3000, "{} bytes", message.len());
        let acts = |c: char| c != '\n' && (c.is_control() || hostile[1..].contains(c) && !c.is_ascii());
        assert!(!message.contains(acts), "{message:?}");
    }
}

#[test]
#[cfg(unix)]
fn tables_that_say_the_same_are_one() {
    let (_folder, path) = temporary("config.toml");
    std::fs::write(&path, "[[bench]]\nalgorithm = 'matmul'\nvariant = 'naive'\nsize = '8..4096:8'\n".repeat(100_000))
        .expect("written");
    let mut command = limited("ulimit -t 10", &gpukern(&["bench", "--config", path.to_str().expect("UTF-8")]));
    expect_exit(command.env("GPUKERN_LOADER", "/nonexistent"), 3);
}

#[test]
#[cfg(unix)]
fn pipes_and_huge_files_are_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let [pipe, sparse] = [inside("pipe"), inside("sparse")];
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    std::fs::File::create(&sparse).and_then(|file| file.set_len(1 << 42)).expect("made");
    for (file, reason) in [(&pipe, "it is not a regular file"), (&sparse, "it is larger than")] {
        refused(&["compare", file, file], &[file, reason]);
        refused(&["export", "--to", "csv", file], &[file, reason]);
        refused(&["bench", "--config", file], &[file, reason]);
        refused(&["bench", "matmul", "--tuned", file], &[file, reason]);
        refused(&["ab", "matmul", "-s", "8", "-V", "naive", "--b-spirv", file], &[file, reason]);
    }
    // A shell's <(…) is a pipe that is already open.
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/run-1.json");
    let export = gpukern(&["export", "--to", "csv", "/dev/stdin"]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "cat \"$0\" | \"$@\"", record]).arg(export.get_program()).args(export.get_args());
    command.env("GPUKERN_CONFIG", "");
    assert!(stdout(&expect_exit(&mut command, 0)).contains("lu"));
}

#[test]
fn variables_of_the_environment_that_make_no_sense_are_refused() {
    let mut command = gpukern(&["list"]);
    for (variable, value, expected) in [
        (
            "GPUKERN_VALIDATION",
            "rubbish",
            "'rubbish' for '--validation': set GPUKERN_VALIDATION to 1, true, yes or on, or",
        ),
        ("GPUKERN_VALIDATION", "2", "set GPUKERN_VALIDATION to 1"),
    ] {
        expect_refusal(command.env(variable, value), expected);
    }
    for value in ["", "0", "Off", "1", "TRUE"] {
        expect_exit(command.env("GPUKERN_VALIDATION", value), 0);
    }
    let bench = |variable: &str, value: &str, expected: &str| {
        let mut command = gpukern(&["bench", "matmul", "-s", "8"]);
        expect_refusal(command.env("GPUKERN_LOADER", "/nonexistent").env(variable, value), expected);
    };
    bench("GPUKERN_LABEL", " ", "is no label");
    bench("GPUKERN_COMMIT", "rubbish", "GPUKERN_COMMIT is 'rubbish'");
    bench("GPUKERN_TUNED", "/nonexistent", "there are no tuning results in '/nonexistent'");
}

#[test]
fn sub_groups_of_a_size_are_required_of_kernels_that_have_them() {
    for (variant, reason) in [("naive", "has no use for sub-groups of 64"), ("subgroup", "needs sub-groups of 64")] {
        expect_refusal(&mut brief_bench(&["matmul", "-V", variant, "-s", "8", "--subgroup-size", "64"]), reason);
    }
}

#[test]
fn too_few_rounds_are_the_fault_of_the_question() {
    expect_error(&mut brief_bench(&["eigen", "-s", "64", "--max-rounds", "1"]), 1, &["not converged after 1 rounds"]);
}

#[test]
fn wrapping_puts_no_command_of_a_ci_service_at_the_beginning_of_a_line() {
    let (_folder, path) = temporary("evil.json");
    let schema = format!("gpukern-run {}::error file=x::pwned", "deadbeef ".repeat(4));
    std::fs::write(&path, serde_json::json!({ "schema": schema }).to_string()).expect("written");
    let mut wrapped = 0;
    for columns in 20..=120 {
        let output = run(gpukern(&["compare"]).args([&path, &path]).env("COLUMNS", columns.to_string()));
        let message = stderr(&output);
        assert!(message.contains("deadbeef"), "{message}");
        assert!(!message.lines().any(|line| line.trim_start().starts_with("::")), "{message}");
        wrapped += usize::from(message.lines().any(|line| line.trim_start().starts_with("\\u{3a}:error")));
    }
    assert!(wrapped > 0, "no width breaks the line there");
}

#[test]
fn quoted_words_cannot_forge_a_line() {
    for (arguments, shown) in [
        (&["list", "--color", "\r\u{202e}::error"][..], "'\\r\\u{202e}::error'"),
        (&["list", "--color=::error"], "'\\u{3a}:error'"),
        (&["list", "a\nFORGED"], "'a\\nFORGED' has a line break"),
        (&["bench", "--loader=x\nFORGED"], "'--loader=x\\nFORGED' has a line break"),
        (&["bench", "--FORGED\n::error=x"], "has a line break"),
    ] {
        let output = expect_exit(gpukern(arguments).env("GPUKERN_LOADER", "/nonexistent"), 2);
        let message = stderr(&output);
        assert!(message.contains(shown), "{arguments:?}: {message}");
        let forged =
            message.lines().any(|line| ["FORGED", "::error"].iter().any(|start| line.trim_start().starts_with(start)));
        assert!(!forged && !message.contains(['\r', '\u{202e}']), "{arguments:?}: {message}");
    }
    // File names may contain line breaks.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a\nFORGED.comp"), "#version 460\nnonsense").expect("written");
    std::fs::write(folder.path().join("k.toml"), "[buffer.\"A\\nFORGED\"]\ntype = 'f32'\n").expect("written");
    for (file, shown) in
        [("a\nFORGED.comp", "a\\nFORGED.comp"), ("k.toml", "line 1: the name 'A\\nFORGED' has a line break")]
    {
        let output = expect_exit(gpukern(&["run", file]).current_dir(folder.path()), 2);
        let message = stderr(&output);
        assert!(message.contains(shown) && !message.contains("\nFORGED"), "{message}");
    }
}
