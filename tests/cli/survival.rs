//! What happens around a run takes nothing from it: signals, streams that are closed, full disks, paths that are no text.
#![cfg(unix)]

use super::{expect_exit, gpukern, run, stderr, stdout};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A bench of some two cases that takes about a second.
const BENCH: [&str; 9] = ["bench", "matmul", "-V", "naive,local", "-s", "16", "--no-peak", "--max-time", "200ms"];
/// One that would take minutes.
const LONG: [&str; 9] = ["bench", "matmul", "-V", "naive", "-s", "16..512:16", "--precision", "0.001%", "--no-peak"];

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Signals a process and all that it started, as Ctrl-Z does.
fn group(child: &Child, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), "--".into(), format!("-{}", child.id())]).status();
    assert!(status.expect("kill runs").success());
}

/// Whether a process is there, which need not be a child of this one.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

fn record(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).expect("written")).expect("whole")
}

/// Waits until the journal of a run has a case, however busy the machine is.
fn until_a_case_is_kept(record: &Path) {
    let (journal, begun) = (record.with_extension("json.part"), Instant::now());
    while std::fs::read_to_string(&journal).unwrap_or_default().lines().count() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no case ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn signals_that_end_a_process_keep_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["INT", "TERM", "HUP", "QUIT"] {
        let path = folder.path().join(format!("{name}.json"));
        let mut child = gpukern(&LONG).arg("--json").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.as_mut().expect("it starts");
        until_a_case_is_kept(&path);
        signal(child, name);
        // What a terminal does that closes: it must not count as a second Ctrl-C.
        if name == "HUP" {
            signal(child, name);
        }
        let mut table = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut table).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{name}");
        assert!(table.contains("interrupted"), "{name}: {table}");
        let record = record(&path);
        let statuses: Vec<_> =
            record["cases"].as_array().expect("cases").iter().map(|c| &c["outcome"]["status"]).collect();
        assert_eq!(statuses.len(), 32, "{name}");
        assert!(*statuses[0] == "measured" && *statuses[31] == "interrupted", "{name}: {statuses:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn whoever_made_a_process_deaf_to_hangups_meant_it() {
    let mut command = Command::new("nohup");
    let bench = gpukern(&BENCH);
    command.arg(bench.get_program()).args(bench.get_args());
    command.envs(bench.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "HUP");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}

#[test]
#[cfg(target_os = "linux")]
fn standard_error_that_is_closed_or_full_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/run-1.json");
    let path = folder.path().join("run.json");
    let tuned = folder.path().join("tuned.toml");
    let [shown, tuned] = [&path, &tuned].map(|path| path.to_str().expect("UTF-8"));
    let commands: [&[&str]; 5] = [
        &[&BENCH[..], &["--json", shown]].concat(),
        &["compare", fixture, fixture],
        &["verify", "matmul", "-V", "naive", "-s", "8", "-t", "f32"],
        &["tune", "matmul", "-s", "32", "--budget", "1ms", "--tuned", tuned],
        &["bench", "matmull"],
    ];
    for arguments in commands {
        let full = || std::fs::File::options().write(true).open("/dev/full").expect("it is there");
        let usual = run(&mut gpukern(arguments));
        let hushed = run(gpukern(arguments).stderr(full()));
        assert_eq!(hushed.status.code(), usual.status.code(), "{arguments:?}");
        assert_eq!(hushed.stdout.is_empty(), usual.stdout.is_empty(), "{arguments:?}");
        // A reader that goes away at once.
        let mut child = gpukern(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stderr.take());
        let closed = child.wait_with_output().expect("it ends");
        assert_eq!(closed.status.code(), usual.status.code(), "{arguments:?}");
        assert_eq!(closed.stdout.is_empty(), usual.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(record(&path)["cases"].as_array().expect("cases").len(), 2);
}

#[test]
#[cfg(target_os = "linux")]
fn a_record_that_cannot_be_written_takes_no_table_with_it() {
    let ab = ["ab", "matmul", "-s", "16", "--a", "naive", "--b", "naive", "--max-time", "1ms"];
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/run-1.json");
    for (arguments, expected) in [
        (&BENCH[..], "naive"),
        (&ab[..], "A  naive"),
        (&["compare", fixture, fixture], "lu/naive"),
        (&[&BENCH[..], &["--noise=2"]].concat(), "naive"),
    ] {
        let output = expect_exit(gpukern(arguments).args(["--json", "/dev/full"]), 3);
        assert!(stdout(&output).contains(expected), "{arguments:?}: {}", stdout(&output));
        let message = stderr(&output);
        let last = message.trim_end().lines().last().expect("a message");
        assert!(last.contains("cannot write JSON to '/dev/full': No space left on device"), "{arguments:?}: {message}");
    }
    // A file that may not grow, without anybody who ignores the signal of that.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.json");
    let bench = gpukern(&BENCH);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\""]).arg(bench.get_program()).args(bench.get_args());
    limited.arg("--json").arg(&path).env("GPUKERN_CACHE", folder.path().join("cache"));
    limited
        .envs(bench.get_envs().filter_map(|(name, value)| Some((name, value?))).filter(|(n, _)| *n != "GPUKERN_CACHE"));
    let output = expect_exit(&mut limited, 3);
    assert!(
        stdout(&output).contains("naive") && stderr(&output).contains("cannot write JSON to"),
        "{}",
        stderr(&output)
    );
}

#[test]
#[cfg(target_os = "linux")]
fn paths_need_not_be_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &[u8]| -> PathBuf { folder.path().join(OsStr::from_bytes(name)) };
    let [path, config, tuned, cache] = [&b"run\xff.json"[..], b"c\xfe.toml", b"t\xfd.toml", b"cache\xfc"].map(inside);
    std::fs::write(&config, "[[bench]]\nalgorithm = 'matmul'\nvariant = 'naive'\nsize = 8\nmax-time = '20ms'")
        .expect("written");
    std::fs::write(&tuned, "schema = \"gpukern-tuned/1\"\n").expect("written");
    let bench = || {
        let mut command = gpukern(&["bench", "--no-peak", "--config"]);
        command.arg(&config).arg("--tuned").arg(&tuned).arg("--cache-dir").arg(&cache);
        command
    };
    expect_exit(bench().arg("--json").arg(&path), 0);
    let command = record(&path)["command"].to_string();
    assert!(command.contains("run\u{fffd}.json") && command.contains("c\u{fffd}.toml"), "{command}");
    // Each process of several is told the same paths.
    expect_exit(bench().arg("--noise=2"), 0);
    expect_exit(gpukern(&["export", "--to", "csv"]).arg(&path), 0);
    expect_exit(gpukern(&["compare"]).arg(&path).arg(&path), 0);
    expect_exit(gpukern(&["report", "-o"]).arg(inside(b"page\xff.html")).arg(&path), 0);
    for arguments in [&["bench", "--config"][..], &["compare", "--gate"], &["bench", "matmul", "-s", "8", "--tuned"]] {
        let output = run(gpukern(arguments).arg(inside(b"missing\xff")));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    for option in ["--size", "--device", "--variant"] {
        let output = run(gpukern(&["bench", "matmul", option]).arg(OsStr::from_bytes(b"\xff")));
        assert_eq!(output.status.code(), Some(2), "{option}: {}", stderr(&output));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn processes_of_several_end_with_the_one_that_started_them() {
    let mut parent =
        gpukern(&LONG).arg("--noise=2").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    let begun = Instant::now();
    // The first ones ask git for the commit and drivers for their devices, and end by themselves.
    let child = loop {
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        std::thread::sleep(Duration::from_millis(500));
        if let Some(child) = children.split_whitespace().find(|child| is_alive(child)) {
            break child.to_string();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no child stayed");
    };
    parent.kill().expect("it was alive");
    parent.wait().expect("it ends");
    let begun = Instant::now();
    while is_alive(&child) {
        assert!(begun.elapsed() < Duration::from_secs(5), "process {child} goes on without its parent");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_was_stopped_drops_the_sample_and_says_so() {
    let mut child =
        gpukern(&["bench", "matmul", "-V", "naive", "-s", "256", "--precision", "0.001%", "--max-time", "6s"])
            .args(["--no-peak", "--json", "-"])
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    lines.read_line(&mut String::new()).expect("a line");
    // The first of these may still meet the warm-up.
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(2200));
        group(&child, "STOP");
        std::thread::sleep(Duration::from_secs(2));
        group(&child, "CONT");
    }
    let output = child.wait_with_output().expect("it ends");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a record");
    let outcome = &record["cases"][0]["outcome"];
    let warnings = outcome["warnings"].as_array().expect("warnings");
    let dropped = warnings.iter().find(|warning| warning["kind"] == "stopped").map(|warning| &warning["dropped"]);
    assert!(dropped.is_some_and(|dropped| (1..=3).contains(&dropped.as_u64().expect("a count"))), "{warnings:?}");
    let samples = outcome["samples"].as_array().expect("samples");
    assert!(samples.iter().all(|sample| sample["host"].as_f64().expect("a time") < 1.9e9), "{samples:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn an_interruption_while_limits_are_measured_ends_at_once_and_no_share_is_made_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.json");
    let mut child = gpukern(&["bench", "matmul", "-V", "naive", "-s", "8", "--max-time", "20ms", "--json"])
        .arg(&path)
        .env("GPUKERN_CACHE", folder.path().join("cache"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    lines.read_line(&mut String::new()).expect("a line");
    until_a_case_is_kept(&path);
    signal(&child, "INT");
    let begun = Instant::now();
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let record = record(&path);
    assert_eq!(record["peaks"].as_array().map(Vec::len), Some(0));
    assert_eq!(record["cases"][0]["outcome"]["status"], "measured");
    assert!(record["cases"][0]["share"].is_null());
}
