//! Workers: a driver that crashes or hangs costs one case, and the record keeps the cause.

use super::ab::software_driver;
use super::failures::{failing_library, with_failing};
use super::{
    BRIEF, at_once, check_text, driver_manifest, expect_error, expect_exit, expect_output, expect_refusal, gpukern,
    line, patched, read_json, replaced, signal, statuses, stderr, stdout, temporary, unmeasured, use_drivers,
    wait_until, words,
};
use gpukern::{DType, find_shader};
use std::path::Path;
use std::process::{Child, Command};

/// Returns a command under the layer that makes the kernel `matmul/naive` fail in `function`.
pub(super) fn with_bad_naive(function: &str, how: &str, arguments: &[&str], folder: &Path) -> Command {
    let kernel = find_shader("matmul/naive", DType::F32).expect("it is compiled");
    let mut command = with_failing(function, arguments, folder);
    command.env("GPUKERN_TEST_HOW", how).env("GPUKERN_TEST_KERNEL", kernel.spirv.len().to_string());
    command
}

/// Returns the manifests of two devices: the driver of `manifest`, twice.
pub(super) fn two_of(manifest: &Path, folder: &Path) -> std::ffi::OsString {
    let copies = ["one.json", "two.json"].map(|name| folder.join(name));
    for copy in &copies {
        std::fs::copy(manifest, copy).expect("copied");
    }
    std::env::join_paths(copies).expect("paths without colons")
}

const VERIFY: [&str; 10] =
    ["verify", "matmul", "-V", "naive,local", "-s", "8,24", "-t", "f32", "--input=uniform", "--layout=nn"];

/// Waits for the end of a process that may hang. Returns its exit code.
#[cfg(unix)]
fn end_of(child: &mut Child) -> Option<i32> {
    let mut status = None;
    wait_until("the end", || {
        status = child.try_wait().expect("a process");
        status.is_some()
    });
    status.and_then(|status| status.code())
}

#[test]
fn a_crash_or_a_lost_device_costs_only_its_cases_wherever_it_happens() {
    let folder = tempfile::tempdir().expect("a folder");
    for (how, cause) in
        [("segv", "SIGSEGV"), ("abort", "SIGABRT"), ("exit", "exit code 7"), ("error", "failed: ERROR_DEVICE_LOST")]
    {
        for function in ["vkCreateComputePipelines", "vkQueueSubmit", "vkWaitForFences"] {
            let output = expect_exit(&mut with_bad_naive(function, how, &VERIFY, folder.path()), 3);
            assert_eq!(
                line(&stdout(&output), "2 passed"),
                "2 passed, 0 rejected, 2 crashed, 0 skipped",
                "{function} {how}"
            );
            let notes = stderr(&output);
            let line = line(&notes, "crashed   matmul/naive/f32/8x8x8 and 1 more: ");
            let at = line.find(" (kernel ").expect("a kernel");
            assert!(line[..at].contains(cause), "{function} {how}: {line}");
            check_text(
                &line[at + 1..],
                if how == "abort" {
                    "(kernel matmul/naive.f32; driver llvmpipe Mesa); its process last printed: the layer aborts"
                } else {
                    "(kernel matmul/naive.f32; driver llvmpipe Mesa)"
                },
            );
        }
    }
}

#[test]
fn a_choice_of_auto_that_crashes_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = with_failing("vkCreateComputePipelines", &["bench", "matmul", "-V=auto", "-s=64"], folder.path());
    let kernel = find_shader("matmul/texel", DType::F32).expect("it is compiled");
    bench.env("GPUKERN_TEST_HOW", "segv").env("GPUKERN_TEST_KERNEL", kernel.spirv.len().to_string());
    let said = stderr(&expect_exit(bench.args(BRIEF).arg("--no-tuned"), 3));
    let note = "note      auto chose texel, which failed: name another variant in place of auto, or run `gpukern tune`, after \
                which auto leaves out what fails";
    assert_eq!(line(&said, "note      auto"), note, "{said}");
}

#[test]
fn a_crash_in_the_canary_is_not_blamed_on_a_case() {
    let folder = tempfile::tempdir().expect("a folder");
    let canary = find_shader("fma/chains", DType::F32).expect("it is compiled").spirv.len().to_string();
    let bench = ["bench", "matmul", "-V", "naive", "-s", "8"];
    for (function, at) in [("vkCreateComputePipelines", "in"), ("vkQueueSubmit", "in or after")] {
        let mut command = with_failing(function, &bench, folder.path());
        command.args(BRIEF).env("GPUKERN_TEST_HOW", "segv").env("GPUKERN_TEST_KERNEL", &canary);
        let notes = stderr(&expect_exit(&mut command, 3));
        let said = line(&notes, "crashed   matmul/naive/f32/8x8x8: ");
        check_text(
            said,
            &format!(
                "crashed   matmul/naive/f32/8x8x8: SIGSEGV {at} {function}, in gpukern's own canary before the case \
                 (kernel fma/chains.f32; driver llvmpipe Mesa)"
            ),
        );
    }
}

#[test]
fn a_record_has_a_crashed_case_once_beside_the_measured_ones() {
    let (folder, path) = temporary("run.json");
    let bench = ["bench", "matmul", "-V", "local,naive,texel", "-s", "8", "--json"];
    let mut command = with_bad_naive("vkCreateComputePipelines", "segv", &bench, folder.path());
    expect_exit(command.arg(&path).args(BRIEF), 3);
    let record = read_json(&path);
    assert_eq!(statuses(&record), ["measured", "crashed", "measured"]);
    let outcome = &record["cases"][1]["outcome"];
    assert_eq!(
        (&outcome["cause"], &outcome["kernels"][0]),
        (&"SIGSEGV in vkCreateComputePipelines".into(), &"matmul/naive.f32".into())
    );
    // Other commands read the record.
    for arguments in [["export", "--to=junit"], ["report", "-o-"]] {
        expect_output(gpukern(&arguments).arg(&path), 0, &["SIGSEGV"]);
    }

    // A driver's report of a lost device is kept.
    let bench = ["bench", "matmul", "-V", "naive,local", "-s", "8", "--json"];
    let mut command = with_bad_naive("vkWaitForFences", "error", &bench, folder.path());
    expect_exit(command.env("GPUKERN_TEST_FAULT", "1").arg(&path).args(BRIEF), 3);
    let record = read_json(&path);
    assert_eq!(statuses(&record), ["crashed", "measured"]);
    let said = &record["cases"][0]["outcome"]["said"];
    let expected = [
        "device fault: the layer lost it",
        "device fault: invalid write at 0xdead0000, within 4096 bytes",
        "device fault: page fault (code 0x7, data 0x8)",
    ];
    assert_eq!(*said, serde_json::json!(expected), "{record}");

    // No other process repeats the case.
    let mut command = with_bad_naive("vkQueueSubmit", "segv", &bench, folder.path());
    expect_exit(command.arg(&path).arg("--processes=3").args(BRIEF), 3);
    let record = read_json(&path);
    let mut statuses = statuses(&record);
    statuses.sort_unstable();
    assert_eq!(statuses, ["crashed", "measured", "measured", "measured"]);
    let csv = stdout(&expect_exit(gpukern(&["export", "--to", "csv"]).arg(&path), 0));
    assert_eq!((csv.lines().count(), csv.matches(",crashed,").count()), (3, 1), "{csv}");
}

#[test]
fn a_call_without_an_end_times_out_and_the_others_go_on() {
    let single = ["verify", "matmul", "-V", "naive", "-s", "8", "-t", "f32", "--input=uniform", "--layout=nn"];
    // The larger size of the variant is left out.
    let two_passed = "2 passed, 0 rejected, 1 timed out, 1 skipped";
    // A compilation may take ten times as long as another call.
    let cases = [
        ("vkQueueSubmit", &VERIFY[..], 8, 8, two_passed),
        ("vkWaitForFences", &VERIFY[..], 8, 8, two_passed),
        ("vkCreateShaderModule", &single[..], 2, 20, "0 passed, 0 rejected, 1 timed out, 0 skipped"),
        ("vkCreateComputePipelines", &single[..], 2, 20, "0 passed, 0 rejected, 1 timed out, 0 skipped"),
    ];
    at_once(&cases, |(function, verify, timeout, seconds, summary)| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = with_bad_naive(function, "hang", verify, folder.path());
        let output = expect_exit(command.arg(format!("--timeout={timeout}s")), 3);
        assert_eq!(line(&stdout(&output), &summary[..8]), *summary, "{function}");
        let start = format!("timed out matmul/naive/f32/8x8x8: {function} has not returned after ");
        let notes = stderr(&output);
        let said = line(&notes, &format!("{start}{seconds}."));
        check_text(&unmeasured(said), &format!("{start}# s (kernel matmul/naive.f32; driver llvmpipe Mesa)"));
    });
}

#[test]
#[cfg(unix)]
fn an_interruption_ends_a_hung_case_at_once() {
    let (folder, path) = temporary("run.json");
    let sign = folder.path().join("sign");
    // Waiting for the hung case would take an hour.
    let bench = ["bench", "matmul", "-V", "naive", "-s", "8,16", "--timeout=1h", "--json"];
    let mut command = with_bad_naive("vkWaitForFences", "hang", &bench, folder.path());
    let mut child = command.arg(&path).args(BRIEF).env("GPUKERN_TEST_SIGN", &sign).spawn().expect("the binary starts");
    wait_until("a call that hangs", || sign.exists());
    signal(&child, "INT");
    assert_eq!(end_of(&mut child), Some(130));
    assert_eq!(statuses(&read_json(&path)), ["interrupted", "interrupted"]);
}

/// No call hangs here: the host submits rounds until the device reports convergence, which it never does.
#[test]
#[cfg(unix)]
fn a_run_that_goes_on_round_by_round_ends_when_it_is_asked_to_or_has_taken_too_long() {
    let (folder, sign) = temporary("sign");
    let endless =
        ["bench", "eigen", "-V", "pipeline", "-s", "16", "--eps=1e-30", "--max-rounds=4294967295", "--no-peak"];
    let round = find_shader("eigen/next-matrix", DType::F32).expect("it is compiled").spirv.len();
    let mut command = with_failing("vkQueueSubmit", &endless, folder.path());
    command.env("GPUKERN_TEST_HOW", "never").env("GPUKERN_TEST_KERNEL", round.to_string());
    let mut child = command.env("GPUKERN_TEST_SIGN", &sign).spawn().expect("the binary starts");
    wait_until("a round", || sign.exists());
    signal(&child, "TERM");
    assert_eq!(end_of(&mut child), Some(130));
    expect_error(&mut gpukern(&[&endless[..], &["--max-run=1s"]].concat()), 2, &["stopped after ", "`--max-run`"]);
}

#[test]
fn a_run_that_would_take_minutes_is_skipped_with_the_forecast() {
    let verify = ["verify", "matmul", "-V", "naive", "-s", "64,4096", "-t", "f32", "--input=uniform", "--layout=nn"];
    let output = expect_exit(&mut gpukern(&verify), 0);
    let notes = stderr(&output);
    let skipped = replaced(line(&notes, "skipped  "), r"\d+(m|h| min| h)\b", "#$1");
    check_text(
        &replaced(&skipped, r"#( min|m| h|h)", "#"),
        "skipped   matmul/naive/f32/4096x4096x4096: predicted to take about # a run; `--max-run #` allows it",
    );
    assert_eq!(line(&stdout(&output), "1 passed"), "1 passed, 0 rejected, 1 skipped");
    assert!(!notes.contains('±'), "signs of times beside answers alone: {notes}");
    let all = ["verify", "matmul", "-V", "naive", "-s", "4096", "-t", "f32", "--input=uniform", "--max-run=1s"];
    expect_error(&mut gpukern(&all), 2, &["no case is left", "predicted to take about"]);
}

/// The time of a small run is mostly launches and compilation, and predicts nothing. `forecast.rs` of the engine tests
/// the prediction on a scripted device.
#[test]
fn a_slow_small_run_does_not_skip_the_case() {
    let verify = ["verify", "lu", "-V", "blocked-pivot-texel", "-s", "1500", "--input=uniform"];
    expect_output(&mut gpukern(&verify), 0, &["2 passed, 0 rejected, 0 skipped"]);
}

#[test]
fn an_allocation_that_crashes_costs_the_cases_that_need_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let verify = ["verify", "row-sum", "-V", "local", "-s", "8,4096", "-t", "f32", "--input=uniform"];
    let mut command = with_failing("vkAllocateMemory", &verify, folder.path());
    // Transfer buffers of all cases have 16 MiB; the larger matrix has 64.
    let output = expect_exit(command.env("GPUKERN_TEST_HOW", "segv").env("GPUKERN_TEST_BYTES", "20000000"), 3);
    assert_eq!(line(&stdout(&output), "1 passed"), "1 passed, 0 rejected, 1 crashed, 0 skipped", "{}", stderr(&output));
}

#[test]
fn a_device_that_crashes_when_opened_leaves_the_host_s_cases() {
    let bench = ["bench", "matmul", "-V", "naive", "-s", "8", "--device", "cpu,host", "--timeout=15s"];
    let cases = [("segv", "SIGSEGV"), ("abort", "SIGABRT"), ("exit", "exit code 7"), ("hang", "vkCreateDevice")];
    at_once(&cases, |(how, cause)| {
        let (folder, path) = temporary("run.json");
        let mut command = with_failing("vkCreateDevice", &bench, folder.path());
        expect_error(command.env("GPUKERN_TEST_HOW", how).args(BRIEF).arg("--json").arg(&path), 3, &[cause]);
        let expected = if *how == "hang" { "timed-out" } else { "crashed" };
        assert_eq!(statuses(&read_json(&path)), [expected, "measured"], "{how}");
    });
}

#[test]
fn a_case_whose_worker_crashed_is_repeated_and_a_side_is_measured_but_a_crash_of_verify_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = with_bad_naive("vkQueueSubmit", "segv", &VERIFY, folder.path());
    // A driver that crashes now and then is not right, although the case passes.
    let output = expect_exit(command.env("GPUKERN_TEST_ONCE", folder.path().join("once")), 3);
    assert_eq!(line(&stdout(&output), "3 "), "3 passed, 0 rejected, 1 crashed, 0 skipped");
    check_text(
        line(&stderr(&output), "note      matmul: "),
        "note      matmul: it ran again alone, and then: passed (naive 8)",
    );
    let (_folder, path) = temporary("ab.json");
    let ab = ["ab", "matmul", "--a", "local", "--b", "naive", "-s", "16", "--max-time=50ms"];
    let command = || with_bad_naive("vkQueueSubmit", "segv", &ab, folder.path());
    let status = |side: &str| read_json(&path)[side]["case"]["outcome"]["status"].clone();
    expect_exit(command().arg("--json").arg(&path), 3);
    assert_eq!([status("a"), status("b")], ["measured", "crashed"]);
    let once = folder.path().join("once in ab");
    expect_exit(command().env("GPUKERN_TEST_ONCE", once).arg("--json").arg(&path), 4);
    assert_eq!([status("a"), status("b")], ["measured", "measured"]);
    let notes = read_json(&path)["b"]["case"]["notes"].clone();
    check_text(
        notes.as_array().and_then(|notes| notes.last()?.as_str()).expect("a note"),
        "its worker, which may have run other cases before, died (SIGSEGV in or after vkQueueSubmit); measured again in a new one",
    );
}

#[test]
fn a_driver_that_crashes_is_listed_with_how_and_the_others_are_there() {
    let Some(good) = software_driver() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let bad = driver_manifest(folder.path(), &failing_library());
    let both = std::env::join_paths([&bad, &good]).expect("paths without colons");
    let bench = [&["bench", "matmul", "-V", "naive", "-s", "8"], &BRIEF[..]].concat();
    let slow = ["devices", "--timeout=15s"];
    let cases = [
        (&["devices"][..], "segv", "crashed while listing its devices: SIGSEGV"),
        (&["devices", "--json"], "exit", "crashed while listing its devices: exit code 7"),
        (&slow, "hang", "hung while listing its devices: vkEnumerateInstanceExtensionProperties has"),
        (&bench, "abort", "crashed while listing its devices: SIGABRT"),
        #[cfg(target_os = "linux")]
        (&slow, "load", "hung while listing its devices: vkEnumerateInstanceExtensionProperties has"),
    ];
    at_once(&cases, |(arguments, how, cause)| {
        let mut command = gpukern(arguments);
        use_drivers(&mut command, &both).env("GPUKERN_TEST_HOW", how);
        let output = expect_exit(command.env("GPUKERN_VALIDATION", "0"), 0);
        let start = if arguments[0] == "bench" { "left out: " } else { "" };
        let said = stderr(&output);
        line(&said, &format!("{start}driver {} {cause}", bad.display()));
        // A person who waits learns for what, and how long at most.
        if cause.starts_with("hung") {
            line(&said, "waiting for the Vulkan drivers to load: 5 s so far, at most 15 s, then each is tried alone");
            line(&said, &format!("waiting for driver {} to load: 5 s so far, at most 15 s", bad.display()));
        } else {
            assert!(!said.contains("waiting for"), "{said}");
        }
        assert!(stdout(&output).contains("llvmpipe"), "{}", stdout(&output));
    });
}

#[test]
fn the_time_that_the_user_allows_is_for_loading_drivers_where_nothing_else_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = driver_manifest(folder.path(), &failing_library());
    let mut command = gpukern(&["devices", "--timeout=1s"]);
    use_drivers(&mut command, bad.as_os_str()).env("GPUKERN_TEST_HOW", "hang").env("GPUKERN_VALIDATION", "0");
    let said = stderr(&expect_exit(&mut command, 3));
    assert!(said.contains("vkEnumerateInstanceExtensionProperties has not returned after 1."), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn where_the_only_driver_crashes_no_other_is_asked_for() {
    // No variable hides the drivers there.
    let has_files = |folder| std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some());
    if ["/etc/vulkan/icd.d", "/usr/local/etc/vulkan/icd.d"].into_iter().any(has_files) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let manifests = folder.path().join("vulkan/icd.d");
    std::fs::create_dir_all(&manifests).expect("a folder");
    driver_manifest(&manifests, &failing_library());
    let mut command = gpukern(&["devices"]);
    for variable in ["XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME"] {
        command.env(variable, folder.path().join("missing"));
    }
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        command.env_remove(variable);
    }
    command.env("XDG_DATA_DIRS", folder.path()).env("GPUKERN_TEST_HOW", "segv").env("GPUKERN_VALIDATION", "0");
    check_text(
        line(&stderr(&expect_exit(&mut command, 3)), "error: driver "),
        "error: driver @/vulkan/icd.d/driver.json crashed while listing its devices: SIGSEGV; `gpukern devices \
         --in-process` loads it without a worker, for a debugger",
    );
}

#[test]
#[cfg(unix)]
fn a_worker_that_is_killed_while_devices_are_listed_gets_a_second_try() {
    let Some(good) = software_driver() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let bad = driver_manifest(folder.path(), &failing_library());
    let both = std::env::join_paths([&bad, &good]).expect("paths without colons");
    let devices = |drivers: &std::ffi::OsStr| {
        let mut command = gpukern(&["devices"]);
        use_drivers(&mut command, drivers).env("GPUKERN_TEST_HOW", "kill").env("GPUKERN_VALIDATION", "0");
        command
    };
    let output = expect_exit(devices(&both).env("GPUKERN_TEST_ONCE", folder.path().join("once")), 0);
    assert!(stdout(&output).contains("llvmpipe") && !stderr(&output).contains("kill"), "{}", stderr(&output));
    // A driver that always kills the worker is left out.
    expect_error(&mut devices(&both), 0, &["was killed while listing its devices: killed (SIGKILL"]);
    check_text(
        &stderr(&expect_exit(&mut devices(bad.as_os_str()), 3)),
        "error: driver @/driver.json was killed while listing its devices: killed (SIGKILL; out of memory?); `gpukern devices \
         --in-process` loads it without a worker, for a debugger\n",
    );
}

#[test]
#[cfg(unix)]
fn a_search_whose_worker_is_killed_goes_on_and_blames_no_tile() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernel = find_shader("matmul/tiled", DType::F32).expect("it is compiled").spirv.len().to_string();
    let tune = |once: bool| {
        let [tuned, mark] = ["tuned.toml", "once"].map(|name| folder.path().join(format!("{once}-{name}")));
        let tune = ["tune", "matmul", "-V", "tiled", "-s", "32", "--budget", "1s", "--tuned"];
        let mut command = with_failing("vkQueueSubmit", &tune, folder.path());
        command.arg(tuned).env("GPUKERN_TEST_HOW", "kill").env("GPUKERN_TEST_KERNEL", &kernel);
        if once {
            command.env("GPUKERN_TEST_ONCE", mark);
        }
        command
    };
    let output = expect_exit(&mut tune(true), 0);
    assert!(folder.path().join("true-once").exists(), "no worker was killed");
    assert!(stdout(&output).contains("tiled") && !stderr(&output).contains("killed"), "{}", stderr(&output));
    let output = expect_exit(&mut tune(false), 3);
    assert!((stdout(&output) + &stderr(&output)).contains("killed (SIGKILL"), "{}", stderr(&output));
}

#[test]
fn a_device_of_no_use_is_left_out_with_the_reason_beside_others() {
    let Some(good) = software_driver() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let with_null = |arguments: &[&str]| {
        let mut command = with_failing("none", arguments, folder.path());
        let drivers = two_of(&good, folder.path());
        use_drivers(&mut command, &drivers).env("GPUKERN_TEST_NULL", "1");
        command
    };
    let path = folder.path().join("run.json");
    let bench = ["bench", "matmul", "-V", "naive", "-s", "8", "--json"];
    for options in [&["-d", "all"][..], &["-d", "0,1"], &["-d", "all", "--parallel"]] {
        let output = expect_exit(with_null(&bench).arg(&path).args(BRIEF).args(options), 0);
        let notes = stderr(&output);
        check_text(
            line(&notes, "left out: "),
            "left out: device 0 'llvmpipe', which cannot be measured: it reports nonsense: its sub-groups have 0 \
             invocations",
        );
        let record = read_json(&path);
        assert_eq!((statuses(&record), &record["cases"][0]["device"]), (vec!["measured"], &1.into()), "{options:?}");
    }
    expect_refusal(
        with_null(&bench).arg(&path).args(BRIEF).args(["-d", "0"]),
        "cannot measure on 'llvmpipe': it reports nonsense: its sub-groups have 0 invocations; choose another --device",
    );
}

#[test]
fn known_failures_are_expected_new_ones_and_those_that_went_away_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let [known, junit] = ["known.toml", "verify.xml"].map(|name| folder.path().join(name));
    let table = |case: &str| format!("[[known]]\ncase = '{case}'\nstatus = 'crashed'\nreason = 'bug 1'\n");
    // JUnit agrees with the exit code: known failures are skipped, and those that went away fail.
    for (cases, code, note, failures, errors) in [
        (&["matmul/naive/*"][..], 0, "2 known failures as expected", 0, 0),
        (&["matmul/naive/f32/8x8x8"], 3, "1 known failure as expected", 0, 1),
        (&["*/naive/*", "*/local/*"], 1, "error: the known failure '*/local/*' (bug 1) passes", 1, 0),
        (&["*/naive/*", "lu/*"], 0, "table 'lu/*' (bug 1), line 5, matches no case of this run", 0, 0),
    ] {
        std::fs::write(&known, cases.iter().map(|case| table(case)).collect::<String>()).expect("written");
        let mut command = with_bad_naive("vkQueueSubmit", "segv", &VERIFY, folder.path());
        expect_error(command.arg("--expect").arg(&known).arg("--junit").arg(&junit), code, &[note]);
        let xml = std::fs::read_to_string(&junit).expect("written");
        assert!(xml.contains(&format!("failures=\"{failures}\" errors=\"{errors}\"")), "{xml}");
        assert!(xml.contains(" type=\"crashed\" message=\"known: ") && xml.contains(": SIGSEGV"), "{xml}");
    }
    // A whole run has the case of each pattern for its algorithm.
    std::fs::write(&known, table("row-sum/typo/*")).expect("written");
    let reason = "error: the [[known]] table 'row-sum/typo/*' (bug 1), line 1, matches no case of this run: correct or";
    expect_error(gpukern(&["verify", "row-sum", "--full", "--expect"]).arg(&known), 1, &[reason]);
    // New failures come first, with their reasons.
    std::fs::write(&known, table("matmul/naive/f32/8x8x8")).expect("written");
    let mut command = with_bad_naive("vkQueueSubmit", "segv", &VERIFY, folder.path());
    let said = stderr(&expect_exit(command.arg("--expect").arg(&known), 3));
    let [new, old] =
        ["\ncrashed   matmul/naive/", "\nknown     matmul/naive/f32/8x8x8 crashed: "].map(|start| said.find(start));
    assert!(new.is_some() && new < old, "{said}");
    assert!(!said.contains("crashed   matmul/naive/f32/8x8x8:"), "{said}");
    // A table of another status is named once, and no second one proposed.
    std::fs::write(&known, table("matmul/naive/*").replace("crashed", "rejected")).expect("written");
    let mut command = with_bad_naive("vkQueueSubmit", "segv", &VERIFY, folder.path());
    let output = expect_exit(command.arg("--expect").arg(&known), 3);
    let said = words(&stderr(&output));
    let note = "the known failure 'matmul/naive/*' (bug 1), line 1, expects rejected: a new failure, unless its status there is changed";
    assert_eq!(said.matches(note).count(), 1, "{said}");
    assert!(!stdout(&output).contains("[[known]]"), "{}", stdout(&output));
}

#[test]
fn a_reproducer_is_saved_once_and_as_soon_as_its_case_has_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let naive = folder.path().join("naive");
    let save = ["inspect", "matmul", "-V", "naive", "-s", "8", "-t", "f32", "--save"];
    expect_output(gpukern(&save).arg(&naive), 0, &[]);
    // The kernel of the second case ends gpukern itself.
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    let description =
        "[kernel]\nsource = 'k.comp'\n[buffer.D]\ntype = 'u32'\nshape = [1]\n[dispatch]\ngroups = [1, 1, 1]\n";
    file("wrong.toml", &format!("{description}[reference]\ncommand = 'head -c 4 /dev/zero > {{out}}/D.bin'\n"));
    file("k.comp", "#version 450\nlayout(binding = 0) writeonly buffer D { uint d[]; };\nvoid main() { d[0] = 1; }\n");
    let table = |path: &Path| format!("[[run]]\ndescription = '{}'\n", path.display());
    file("all.toml", &(table(Path::new("wrong.toml")) + &table(&naive.join("matmul_naive_f32_8x8x8/case.toml"))));
    let verify = |how: &str, code| {
        let mut command = with_bad_naive("vkQueueSubmit", how, &["verify", "--in-process", "--config"], folder.path());
        command.arg(folder.path().join("all.toml")).arg("--keep-failures").arg(folder.path().join("early"));
        expect_exit(&mut command, code);
        std::fs::read_dir(folder.path().join("early")).expect("kept").count()
    };
    assert_eq!([verify("exit", 7), verify("never", 1)], [1, 1]);
}

#[test]
fn a_reproducer_of_each_failure_is_saved() {
    let (folder, kept) = temporary("kept");
    let mut command = with_bad_naive("vkQueueSubmit", "abort", &VERIFY, folder.path());
    expect_error(command.arg("--keep-failures").arg(&kept), 3, &["2 failures saved in "]);
    let case = kept.join("matmul_naive_f32_8x8x8");
    let failure = read_json(&case.join("failure.json"));
    assert_eq!(failure["case"]["outcome"]["said"][0], "the layer aborts");
    assert_eq!(failure["dispatches"][0]["kernel"], "matmul/naive.f32");
    let spirv = std::fs::read(case.join("matmul-naive.f32.spv")).expect("kept");
    assert_eq!(spirv, find_shader("matmul/naive", DType::F32).expect("it is compiled").spirv.to_vec());
    assert_eq!(std::fs::metadata(case.join("A.bin")).expect("kept").len(), 8 * 8 * 4);
    expect_output(gpukern(&["inspect"]).arg(&case), 0, &["1 kernel"]);
    // `compare` names the crash.
    let [before, after] = ["before.json", "after.json"].map(|name| folder.path().join(name));
    expect_output(gpukern(&VERIFY).arg("--json").arg(&before), 0, &[]);
    expect_error(
        with_bad_naive("vkQueueSubmit", "abort", &VERIFY, folder.path()).arg("--json").arg(&after),
        3,
        &["SIGABRT in or after vkQueueSubmit"],
    );
    let crashed = "CRASHED  matmul/naive/f32/8x8x8 and 1 more: SIGABRT";
    expect_output(gpukern(&["compare", "--allow=validation-layers"]).arg(&before).arg(&after), 1, &[crashed]);
    // A side of `ab` keeps its variables.
    let sides = ["ab", "matmul", "-V", "naive", "-s", "8", "--b-env=RADV_DEBUG=llvm"];
    let mut command = with_bad_naive("vkQueueSubmit", "abort", &sides, folder.path());
    expect_error(command.arg("--keep-failures").arg(&kept), 3, &["2 failures saved in "]);
    let side = read_json(&kept.join("B_matmul_naive_f32_8x8x8/failure.json"));
    assert_eq!(side["variables"]["RADV_DEBUG"], "llvm");
    let (of_both, command) = side["command"].as_str().expect("a command").split_once("gpukern ").expect("variables");
    assert!(of_both.contains("VK_INSTANCE_LAYERS=") && !of_both.contains("RADV_DEBUG"), "{of_both}");
    assert!(command.contains(" --b-env=RADV_DEBUG=llvm "), "{command}");
    // So does its description, which also names the device on which it crashed.
    let head = std::fs::read_to_string(case.join("case.toml")).expect("kept");
    assert!(line(&head, "# with ").contains("VK_INSTANCE_LAYERS=VK_LAYER_GPUKERN_failing"), "{head}");
    let sane = stderr(&expect_exit(gpukern(&["sanitize", "--schedules=1"]).arg(&case), 0));
    assert!(
        line(&sane, "note      crashed on llvmpipe").contains("without faults here: suspect the driver, or"),
        "{sane}"
    );
    let here = stderr(&expect_exit(gpukern(&["run", "--max-time=50ms", "--no-peak"]).arg(&case), 0));
    assert!(!here.contains("; this is "), "{here}");
    let other = std::fs::read_to_string(case.join("failure.json")).expect("kept").replace("llvmpipe (", "other (");
    std::fs::write(case.join("failure.json"), other).expect("written");
    let there = stderr(&expect_exit(gpukern(&["run", "--max-time=50ms", "--no-peak"]).arg(&case), 0));
    assert!(line(&there, "note      crashed on other (").contains("; this is llvmpipe ("), "{there}");
    // The saved kernel runs, and its answer is judged by the built-in oracle.
    expect_output(gpukern(&["run", "--max-time=50ms", "--no-peak"]).arg(&case), 0, &["all answers verified"]);
    let mut bad = with_bad_naive("vkQueueSubmit", "abort", &["run", "--no-peak"], folder.path());
    expect_error(bad.arg(&case), 3, &["the layer aborts"]);
    // The command of the reproducer runs the case on a working driver.
    let command = failure["command"].as_str().expect("a command");
    let (variables, command) = command.split_once(" gpukern ").expect("variables");
    assert!(variables.split(' ').any(|set| set == "VK_INSTANCE_LAYERS=VK_LAYER_GPUKERN_failing"), "{variables}");
    let arguments: Vec<_> = command.split(' ').collect();
    expect_output(gpukern(&arguments).arg("--max-time=100ms"), 0, &["naive"]);
}

#[test]
fn the_sides_of_ab_that_fail_are_kept_with_their_wrong_elements() {
    const ADD_FLOATS: u32 = 129;
    const SUBTRACT_FLOATS: u32 = 131;
    let folder = tempfile::tempdir().expect("a folder");
    let [kernel, kept] = ["wrong.spv", "kept"].map(|name| folder.path().join(name));
    let wrong = patched_naive(ADD_FLOATS, SUBTRACT_FLOATS);
    std::fs::write(&kernel, &wrong).expect("written");
    let mut command = gpukern(&["ab", "matmul", "-V", "naive", "-s", "40", "--max-time=50ms"]);
    expect_error(command.arg("--b-spirv").arg(&kernel).arg("--keep-failures").arg(&kept), 1, &["1 failure saved in "]);
    let side = kept.join("B_matmul_naive_f32_40x40x40");
    assert_eq!(std::fs::read(side.join("matmul-naive.f32.spv")).expect("kept"), wrong);
    // The table has the size of the case, and the note is on the driver, as that of `sanitize`.
    let run = expect_exit(gpukern(&["run", "--max-time=50ms", "--no-peak"]).arg(&side), 1);
    assert!(stdout(&run).contains("rejected") && stdout(&run).contains("\n 40 "), "{run:?}");
    assert!(line(&stderr(&run), "note      `gpukern sanitize`").contains(", suspect the driver, or"), "{run:?}");
    let failure = read_json(&side.join("failure.json"));
    // All 1,600 elements are wrong; the file has the first 1,024.
    assert_eq!(failure["wrong_elements"], serde_json::json!({ "file": "wrong.csv", "in_the_file": 1024, "all": 1600 }));
    let csv = std::fs::read_to_string(side.join("wrong.csv")).expect("kept");
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (1025, "element,got,expected"));
    let [element, got, expected] = lines[1].split(',').collect::<Vec<_>>()[..] else { panic!("{}", lines[1]) };
    let value = |text: &str| text.parse::<f64>().expect("a number");
    assert!(element == "C[0][0]" && (value(got) + value(expected)).abs() < 1e-4, "{}", lines[1]);
}

#[test]
fn in_this_process_a_run_is_the_same() {
    expect_output(gpukern(&VERIFY).arg("--in-process"), 0, &["4 passed, 0 rejected, 0 skipped"]);
}

/// Returns the kernel of matmul/naive with the operations `from` replaced by `to`.
fn patched_naive(from: u32, to: u32) -> Vec<u8> {
    let naive = find_shader("matmul/naive", DType::F32).expect("it is compiled");
    patched(&naive.spirv, from, to, usize::MAX)
}

#[test]
fn a_kernel_without_an_end_times_out_and_the_other_side_is_measured() {
    const ADD: u32 = 128;
    const MULTIPLY: u32 = 132;
    let folder = tempfile::tempdir().expect("a folder");
    let [kernel, path] = ["endless.spv", "ab.json"].map(|name| folder.path().join(name));
    // The loop counter is multiplied where it should be increased, and stays 0.
    std::fs::write(&kernel, patched_naive(ADD, MULTIPLY)).expect("written");
    // The software device ends each invocation after 65,535 iterations; all invocations together take minutes.
    let mut command =
        gpukern(&["ab", "matmul", "-V", "naive", "-s", "2048x2048x4", "--max-time=300ms", "--timeout=20s"]);
    let output = expect_exit(command.arg("--b-spirv").arg(&kernel).arg("--json").arg(&path), 3);
    let trial = read_json(&path);
    let status = |side: &str| trial[side]["case"]["outcome"]["status"].clone();
    assert_eq!((status("a"), status("b")), ("measured".into(), "timed-out".into()), "{}", stderr(&output));
}

#[test]
fn code_that_was_compiled_without_a_drivers_variable_is_not_run_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let [caches, own] = ["mesa", "own"].map(|name| folder.path().join(name));
    let verify = |width: Option<&str>| {
        let mut verify = gpukern(&["verify", "matmul", "-V=naive", "-t=f32", "-s=8", "--cache-dir"]);
        verify.arg(&own).env("MESA_SHADER_CACHE_DIR", &caches);
        verify.envs(width.map(|width| ("LP_NATIVE_VECTOR_WIDTH", width)));
        expect_exit(&mut verify, 0);
    };
    // With a variable, nothing of the driver's cache is used, nor kept; each value has its own of gpukern's.
    verify(Some("128"));
    assert!(!caches.exists(), "{}", caches.display());
    verify(Some("256"));
    let names = || std::fs::read_dir(&own).expect("kept").flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
    let of_variables = names().iter().filter(|name| name.to_string_lossy().starts_with("variables-")).count();
    assert_eq!((of_variables, names().len()), (2, 2), "{:?}", names());
    verify(None);
    assert!(names().len() > 2, "{:?}", names());
}
