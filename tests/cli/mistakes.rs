//! Mistakes of the user: a message with the value and the remedy, exit code 2, nothing on standard output, no device opened.

use super::{
    brief_bench, check_text, expect_error, expect_exit, expect_refusal, expect_refusals, gpukern, limited, line, run,
    stderr, stdout, temporary, within, words,
};
use std::path::Path;

/// Mistaken command lines, each with its message. `src/basis/size.rs` and `src/plan/options.rs` test further mistakes in
/// sizes, percentages and times.
const MISTAKES: &str = "
    $ gpukern bench
    no algorithm given; name one of: …
    $ gpukern list matmil
    unknown algorithm 'matmil'; did you mean 'matmul'? available: …
    $ gpukern run typo.toml
    cannot read 'typo.toml': no such file; `gpukern run KERNEL --init > FILE.toml` drafts one
    $ gpukern bench --config missing.toml
    cannot read configuration 'missing.toml': no such file; list your kernels in it (`gpukern help ci`), or name another file
    $ gpukern bench matmull
    unknown algorithm 'matmull'; did you mean 'matmul'? available: …
    $ gpukern bench matmul -V subgruop
    unknown variant 'subgruop' for matmul; did you mean 'subgroup'? available: …
    $ gpukern bench matmul -V atuo
    unknown variant 'atuo' for matmul; did you mean 'auto'? available: …
    $ gpukern inspect matmul -V tiled,atuo
    unknown variant 'atuo' for matmul; did you mean 'auto'? available: …
    $ gpukern bench lu -V atuo
    unknown variant 'atuo' for lu; available: naive, offset-copy, in-place, blocked, blocked-split, blocked-pivot, \
    blocked-pivot-texel, refined
    $ gpukern bench matmul -V blocked
    'blocked' is a variant of lu, not of matmul; name lu before -V, or a variant of matmul: …
    $ gpukern bench matmul -t f23
    unknown dtype 'f23' for matmul; did you mean 'f32'? available: f32, f64, f16, bf16, i32, i8
    $ gpukern bench matmul -t i64
    no chosen variant of matmul has dtype i64; available: f32, f64, f16, bf16, i32, i8
    $ gpukern bench matmul --input unifrom
    unknown input 'unifrom'; did you mean 'uniform'? available: …
    $ gpukern bench matmul -s 12k
    malformed size '12k'; write 1024 or 2^16, a list 128,1000, a sweep 128..8192 or 128..1024:128, or a product 1000x70x130
    $ gpukern bench matmul -s 2x3
    matmul cannot have size 2x3: give one extent or three: N or MxNxK
    $ gpukern bench matmul -s 100000
    matmul cannot have size 100000: A would have 100000×100000 elements, more than the 2^31 that kernels can index; \
    choose a smaller size
    $ gpukern bench matmul -s -1
    malformed size '-1'; write 1024 or 2^16, a list 128,1000, a sweep 128..8192 or 128..1024:128, or a product 1000x70x130
    $ gpukern bench matmul --precision 0%
    precision '0%' is out of range; write a percentage above 0% and up to 100%
    $ gpukern bench matmul --precision high
    malformed precision 'high'; write a percentage such as 1% or 0.5%
    $ gpukern bench matmul --precision 1
    precision '1' has no percent sign; write 1%
    $ gpukern bench matmul --max-time 5
    --max-time: malformed time '5'; write 500ms, 5s or 1m
    $ gpukern bench matmul --subgroup-size 7
    sub-group size '7' is not a power of two up to 128; `gpukern devices` lists the range
    $ gpukern bench matmul -s 8 --only foo
    no selected case is called 'foo'; ids look like matmul/naive/f32/8x8x8; choose its variant, dtype and size
    $ gpukern bench matmul -s 8 -V naive,tiled --only matmul/tiled/f32/8
    no selected case is called 'matmul/tiled/f32/8'; ids look like matmul/tiled/f32/8x8x8, matmul/naive/f32/8x8x8; \
    choose its variant, dtype and size
    $ gpukern bench eigen --eps -1
    eps -1 is not a positive number; write --eps 1e-4
    $ gpukern bench eigen --eps 1e30 --stop neighbour
    eps 1e30 asks for no precision: it may be met before the first round; write --eps 1e-4
    $ gpukern bench matmul --eps 1e-3
    --eps applies only to eigen, which iterates; leave it out for matmul
    $ gpukern bench matmul lu --stop bracket
    --stop applies only to eigen, which iterates; leave it out for matmul, lu
    $ gpukern bench lu --max-rounds 3
    --max-rounds applies only to eigen, which iterates; leave it out for lu
";

#[test]
fn mistakes_are_answered_with_the_value_and_the_remedy() {
    expect_refusals(Path::new("."), MISTAKES);
}

#[test]
fn an_empty_command_line_is_answered_with_help_and_not_with_an_error() {
    for variables in [&[][..], &[("GPUKERN_VALIDATION", "1")]] {
        let help = stderr(&expect_exit(gpukern(&[]).envs(variables.iter().copied()), 2));
        assert!(help.starts_with("Check and benchmark") && help.contains("Commands:"), "{help}");
    }
}

#[test]
fn configurations_that_make_no_sense_are_refused_with_their_path() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, message) in [
        (
            "",
            "configuration '@/config.toml' measures nothing; add a [[run]] table for a kernel of yours, or a [[bench]] table",
        ),
        (
            "[[bench]]\nalgorithm = 'matmul'\nvariants = 'all'",
            "@/config.toml:3: unknown field 'variants'; did you mean 'variant'? available: …",
        ),
        (
            "[[bench]]\nalgorithm = 'matmul'\nvariant = ['all', 'naive']",
            "@/config.toml: variants 'all,naive' mix 'all' with names; write either",
        ),
        (
            "[[bench]]\nalgorithm = 'matmul'\nsize = -3",
            "@/config.toml:3: expected a string, a positive integer or a list of them",
        ),
        ("[[bench]]\nvariant = 'naive'", "@/config.toml: no algorithm given; name one of: …"),
        (
            "[[run]]\nsize = 'N=8'",
            "@/config.toml:1: [[run]] names no kernel; add description = \"k.toml\" or kernel = \"k.comp\"",
        ),
        (
            "[buffer.A]\ntype = 'f32'",
            "@/config.toml describes a kernel; `gpukern run @/config.toml` checks and times it. A configuration lists it in a table [[run]]: description = \"@/config.toml\"",
        ),
        (
            "[[bench]\n",
            "@/config.toml:1: '[[bench]': write a table's name in brackets: [NAME], or [[NAME]] for one of a list",
        ),
    ] {
        std::fs::write(folder.path().join("config.toml"), text).expect("written");
        expect_refusal(gpukern(&["bench", "--config"]).arg(folder.path().join("config.toml")), message);
    }
}

#[test]
fn json_that_cannot_be_written_is_refused_before_measuring() {
    let folder = tempfile::tempdir().expect("a folder");
    let read_only = folder.path().join("read-only.json");
    std::fs::write(&read_only, "kept").expect("written");
    let mut permissions = read_only.metadata().expect("there").permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&read_only, permissions).expect("set");
    let long = "n".repeat(300);
    expect_refusals(
        folder.path(),
        &format!(
            "
            $ gpukern bench matmul -s 8 --json @/no/such/folder/run.json
            cannot write JSON to '@/no/such/folder/run.json': there is no folder '@/no/such/folder'; choose another \
            --json path, or - for standard output
            $ gpukern bench matmul -s 8 --json @/
            cannot write JSON to '@/': it is a folder; choose another --json path, or - for standard output
            $ gpukern bench matmul -s 8 --json @/{long}
            cannot write JSON to '@/{long}': File name too long; choose another --json path, or - for standard output
            $ gpukern bench matmul -s 8 --json @/read-only.json
            cannot write JSON to '@/read-only.json': it is read-only; choose another --json path, or - for standard \
            output
            "
        ),
    );
    assert_eq!(std::fs::read_to_string(&read_only).expect("there"), "kept");
}

#[test]
fn a_device_that_is_not_there_is_answered_with_those_that_are() {
    // Messages are wrapped only to the width of a terminal.
    let mut bench = gpukern(&["bench", "matmul", "-s", "8"]);
    expect_refusal(bench.env("GPUKERN_DEVICE", "voodoo"), "no device matches 'voodoo'; available: 0 (llvmpipe)");
    let wrapped = stderr(&run(gpukern(&["bench", "matmul", "--device", "voodoo"]).env("COLUMNS", "40")));
    let lines: Vec<_> = wrapped.lines().collect();
    assert!(lines.len() > 1 && lines[1..].iter().all(|line| line.starts_with("  ")), "{wrapped}");
    assert!(lines.iter().all(|line| line.chars().count() <= 40), "{wrapped}");
}

#[test]
fn sizes_beyond_the_device_are_skipped_with_the_limit_and_the_sweep_goes_on() {
    let output = expect_exit(&mut brief_bench(&["matmul", "-V", "naive", "-s", "8,1x1x70000"]), 0);
    check_text(
        line(&stderr(&output), "skipped "),
        "skipped   matmul/naive/f32/1x1x70000: needs 70000 loop iterations an invocation; this driver silently stops \
         after 65535",
    );
    assert_eq!(words(line(&stdout(&output), " 1x1x70000")), "1x1x70000 naive skipped");
    // The limit is that of a buffer, or of all the device's memory.
    let said = stderr(&expect_exit(&mut brief_bench(&["matmul", "-V", "naive", "-s", "30000"]), 2));
    assert!(!said.contains("will be skipped"), "said once: {said}");
    line(&said, "error: no case is left: matmul/naive/f32/30000x30000x30000: needs ");
}

#[test]
fn a_quick_run_that_leaves_out_all_that_was_asked_for_says_so() {
    let arguments = ["verify", "matmul", "-V", "naive", "--quick", "-s", "4096", "-d", "cpu"];
    expect_refusal(
        &mut gpukern(&arguments),
        "no case is left: these cases need another kind of device; the largest sizes are skipped on a software device; \
         --full runs them",
    );
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
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    std::fs::File::create(folder.path().join("sparse")).and_then(|file| file.set_len(1 << 42)).expect("made");
    for (file, record, other) in [
        ("@/pipe", "it is not a regular file", "it is not a regular file"),
        ("@/sparse", "it is larger than 256 MiB", "it is larger than 16 MiB"),
    ] {
        expect_refusals(
            folder.path(),
            &format!(
                "
                $ gpukern compare {file} {file}
                cannot read '{file}': {record}; name a record that --json PATH of `gpukern bench` or `gpukern run` wrote
                $ gpukern export --to csv {file}
                cannot read '{file}': {record}; name a record that --json PATH of `gpukern bench` or `gpukern run` wrote
                $ gpukern bench --config {file}
                cannot read configuration '{file}': {other}; list your kernels in it (`gpukern help ci`), or name another file
                $ gpukern bench matmul --tuned {file}
                cannot use tuning results: {file}: {other}; name another with --tuned, ignore it with `gpukern bench \
            --no-tuned`, or delete it if `gpukern tune` made it
                $ gpukern ab matmul -s 8 -V naive --b-spirv {file}
                cannot run '{file}' in place of matmul/naive.f32: {other}; name a SPIR-V file of a kernel
                "
            ),
        );
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
    expect_refusal(
        command.env("GPUKERN_VALIDATION", "2"),
        "malformed value '2' for '--validation'; set GPUKERN_VALIDATION to 1, true, yes or on, or to 0, false, no or off",
    );
    for value in ["", "0", "Off", "1", "TRUE"] {
        expect_exit(command.env("GPUKERN_VALIDATION", value), 0);
    }
    let bench = |variable: &str, value: &str, expected: &str| {
        let mut command = gpukern(&["bench", "matmul", "-s", "8"]);
        expect_refusal(command.env("GPUKERN_LOADER", "/nonexistent").env(variable, value), expected);
    };
    bench(
        "GPUKERN_LABEL",
        " ",
        "--label ' ' is no label; write one of 1 to 1000 characters, such as 'mesa-main, 24 h'",
    );
    bench(
        "GPUKERN_COMMIT",
        "rubbish",
        "GPUKERN_COMMIT is 'rubbish', which is no commit; write 7 to 64 hexadecimal digits",
    );
    bench(
        "GPUKERN_TUNED",
        "/nonexistent",
        "there are no tuning results in '/nonexistent'; make them with `gpukern tune`, or leave --tuned out",
    );
}

#[test]
fn sub_groups_of_a_size_are_required_of_kernels_that_have_them() {
    for (variant, reason) in [
        (
            "naive",
            "no case is left: matmul/naive/f32/8x8x8/subgroup-64: its code is the same for all sub-group sizes, so 64 cannot be required",
        ),
        (
            "subgroup",
            "no case is left: matmul/subgroup/f32/8x8x8/subgroup-64: needs sub-groups of 64; the device has 8",
        ),
    ] {
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
        assert!(words(&message).contains("deadbeef deadbeef"), "{message}");
        assert!(!message.lines().any(|line| line.trim_start().starts_with("::")), "{message}");
        wrapped += usize::from(message.lines().any(|line| line.trim_start().starts_with("\\u{3a}:error")));
    }
    assert!(wrapped > 0, "no width breaks the line there");
}

#[test]
fn quoted_words_cannot_forge_a_line() {
    // File names may contain line breaks.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a\nFORGED.comp"), "#version 460\nnonsense").expect("written");
    std::fs::write(folder.path().join("k.toml"), "[buffer.\"A\\nFORGED\"]\ntype = 'f32'\n").expect("written");
    for (line, message) in [
        (
            "list --color \r\u{202e}::error",
            "unknown value '\\r\\u{202e}::error' for '--color'; available: auto, always, never",
        ),
        ("list --color=::error", "unknown value '\\u{3a}:error' for '--color'; available: auto, always, never"),
        ("list a\nFORGED", "the argument 'a\\nFORGED' has a line break; write it in one line"),
        ("bench --loader=x\nFORGED", "the argument '--loader=x\\nFORGED' has a line break; write it in one line"),
        (
            "bench --FORGED\n::error=x",
            "the argument '--FORGED\\n\\u{3a}:error=x' has a line break; write it in one line",
        ),
        (
            "run @/a\nFORGED.comp",
            "@/a\\nFORGED.comp: error: @/a\n@/a\\nFORGED.comp: FORGED.comp:2: '' :  syntax error, unexpected \
                 IDENTIFIER",
        ),
        ("run @/k.toml", "@/k.toml:1: the name 'A\\nFORGED' has a line break; write it in one line"),
    ] {
        let mut command = gpukern(&[]);
        command.args(line.split(' ').map(|word| within(folder.path(), word))).env("GPUKERN_LOADER", "/nonexistent");
        expect_refusal(&mut command, message);
    }
}
