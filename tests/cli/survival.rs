//! Disturbances that lose no results: signals, closed streams, full disks, paths that are not UTF-8.
#![cfg(unix)]

use super::{
    check_text, expect_error, expect_exit, gpukern, journal, limited, line, read_json, run, run_process, signal, start,
    statuses, stderr, stdout, temporary, valid_record, wait_for_journal, wait_until,
};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Bench of two cases that takes about a second.
const BENCH: [&str; 8] = ["bench", "matmul", "-V", "naive,local", "-s", "16", "--no-peak", "--max-time=20ms"];
/// Bench that would take minutes.
const LONG: [&str; 9] = ["bench", "matmul", "-V", "naive", "-s", "16..512:16", "--precision", "0.001%", "--no-peak"];

/// Sends a signal to a process and its children, as Ctrl-Z does.
fn group(child: &Child, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), "--".into(), format!("-{}", child.id())]).status();
    assert!(status.expect("kill runs").success());
}

/// Returns whether a process is running; it need not be a child of this one.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

#[test]
fn signals_that_end_a_process_keep_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["INT", "TERM", "HUP", "QUIT"] {
        let path = folder.path().join(format!("{name}.json"));
        let mut child = gpukern(&LONG).arg("--json").arg(&path).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let child = child.as_mut().expect("it starts");
        wait_for_journal(child, &path, |text| text.lines().count() > 1);
        signal(child, name);
        // A closing terminal and `timeout -s INT` send two signals; that is not a second Ctrl-C.
        if ["HUP", "INT"].contains(&name) {
            signal(child, name);
        }
        let mut table = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut table).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{name}");
        assert!(table.contains("interrupted"), "{name}: {table}");
        let record = valid_record(&std::fs::read_to_string(&path).expect("written"));
        let statuses = statuses(&record);
        assert_eq!(statuses.len(), 32, "{name}");
        assert!(statuses[0] == "measured" && statuses[31] == "interrupted", "{name}: {statuses:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_hangup_that_the_parent_ignores_stays_ignored() {
    let (_folder, path) = temporary("run.json");
    let bench = gpukern(&BENCH);
    let mut command = limited("trap '' HUP", &bench);
    let child = command.arg("--json").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    wait_for_journal(&mut child, &path, |text| !text.is_empty());
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
        let hushed = run_process(gpukern(arguments).stderr(full()));
        assert_eq!(hushed.status.code(), usual.status.code(), "{arguments:?}");
        assert_eq!(hushed.stdout.is_empty(), usual.stdout.is_empty(), "{arguments:?}");
        // The reader closes the pipe at once.
        let mut child = gpukern(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stderr.take());
        let closed = child.wait_with_output().expect("it ends");
        assert_eq!(closed.status.code(), usual.status.code(), "{arguments:?}");
        assert_eq!(closed.stdout.is_empty(), usual.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(read_json(&path)["cases"].as_array().expect("cases").len(), 2);
}

#[test]
#[cfg(target_os = "linux")]
fn a_record_that_cannot_be_written_takes_no_table_with_it() {
    let ab = ["ab", "matmul", "-s", "16", "--a", "naive", "--b", "naive", "--max-time", "1ms"];
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/run-1.json");
    for (arguments, expected) in [
        (&BENCH[..], "naive"),
        (&ab[..], "A  naive"),
        (&["compare", fixture, fixture], "naive/1024x1024"),
        (&[&BENCH[..], &["--noise=2"]].concat(), "naive"),
    ] {
        let output = expect_exit(gpukern(arguments).args(["--json", "/dev/full"]), 3);
        assert!(stdout(&output).contains(expected), "{arguments:?}: {}", stdout(&output));
        let message = stderr(&output);
        let last = message.trim_end().lines().last().expect("a message");
        check_text(last, "error: cannot write JSON to '/dev/full': No space left on device");
    }
    // The file-size limit is exceeded while the shell does not ignore SIGXFSZ.
    let (folder, path) = temporary("run.json");
    let mut command = limited("ulimit -f 1", &gpukern(&BENCH));
    let output = expect_exit(command.arg("--json").arg(&path).env("GPUKERN_CACHE", folder.path().join("cache")), 3);
    assert!(stdout(&output).contains("naive"), "{}", stdout(&output));
    check_text(
        line(&stderr(&output), "error: "),
        "error: cannot write JSON to '@/run.json': the file would exceed this process's file-size limit; raise `ulimit \
         -f`, or LimitFSIZE= of a service",
    );
    // Standard output may exceed the limit too.
    let mut command = limited("ulimit -f 1", &gpukern(&["list", "--json"]));
    let shown = std::fs::File::create(&path).expect("made");
    expect_error(command.stdout(shown), 3, &["cannot write to standard output: the file would exceed"]);
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
    let command = read_json(&path)["command"].to_string();
    assert!(command.contains("run\u{fffd}.json") && command.contains("c\u{fffd}.toml"), "{command}");
    // Each of several processes gets the same paths.
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
fn a_worker_and_further_processes_end_with_the_one_that_started_them() {
    let (_folder, path) = temporary("run.json");
    for more in [&[][..], &["--noise=2"]] {
        let mut parent = start(gpukern(&LONG).args(more).arg("--json").arg(&path));
        // By then the processes that ran git and listed devices have ended.
        wait_for_journal(&mut parent, &path, |text| text.lines().count() > 1);
        let children = format!("/proc/{0}/task/{0}/children", parent.id());
        let mut child = String::new();
        wait_until("a child that stays", || {
            let children = std::fs::read_to_string(&children).unwrap_or_default();
            child = children.split_whitespace().find(|child| is_alive(child)).unwrap_or_default().to_string();
            !child.is_empty()
        });
        parent.kill().expect("it was alive");
        parent.wait().expect("it ends");
        wait_until("the end of a process without its parent", || !is_alive(&child));
        std::fs::remove_file(journal(&path)).expect("there");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_was_stopped_drops_the_sample_and_says_so() {
    // The case takes as many samples as allowed, of milliseconds each.
    let mut child =
        gpukern(&["bench", "matmul", "-V", "naive", "-s", "96", "--precision", "0.001%", "--max-time", "1h"])
            .args(["--no-peak", "--json", "-"])
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
    let mut stops = 0;
    // The first stops hit the start and the warm-up. Growing pauses make later ones hit samples, which take most of the time,
    // however slow the machine is.
    let mut pause = Duration::from_millis(300);
    while child.try_wait().expect("a process").is_none() {
        std::thread::sleep(pause);
        group(&child, "STOP");
        std::thread::sleep(Duration::from_secs(1));
        group(&child, "CONT");
        stops += 1;
        pause = pause.mul_f64(1.2);
    }
    let output = child.wait_with_output().expect("it ends");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a record");
    let outcome = &record["cases"][0]["outcome"];
    let warnings = outcome["warnings"].as_array().expect("warnings");
    let dropped = warnings.iter().find(|warning| warning["kind"] == "stopped").map(|warning| &warning["dropped"]);
    assert!(dropped.is_some_and(|dropped| (1..=stops).contains(&dropped.as_u64().expect("a count"))), "{warnings:?}");
    let samples = outcome["samples"].as_array().expect("samples");
    assert!(samples.iter().all(|sample| sample["host"].as_f64().expect("a time") < 9e8), "{samples:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn an_interruption_while_limits_are_measured_ends_them_and_no_share_is_made_up() {
    let (folder, path) = temporary("run.json");
    let mut command = gpukern(&["bench", "matmul", "-V", "naive", "-s", "8", "--max-time=20ms", "--json"]);
    command.arg(&path).env("GPUKERN_CACHE", folder.path().join("cache"));
    let mut child = start(&mut command);
    wait_for_journal(&mut child, &path, |text| text.lines().count() > 1);
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let record = read_json(&path);
    // Completely measured limits would be in the record.
    assert_eq!(record["peaks"].as_array().map(Vec::len), Some(0));
    assert_eq!(record["cases"][0]["outcome"]["status"], "measured");
    assert!(record["cases"][0]["share"].is_null());
}
