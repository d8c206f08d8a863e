//! The journal of a run: whatever kills it, at most the cases in flight are lost, and `--resume` completes the record.

use super::ab::software_driver;
use super::workers::two_of;
use super::{
    brief_bench, check_text, expect_error, expect_exit, expect_refusal, gpukern, journal, limited, line, read_json,
    signal, start, stderr, stdout, temporary, use_drivers, wait_for_journal,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Sizes of a bench of six short cases.
const SIZES: &str = "8,16,24";
/// Number of its cases.
const CASES: usize = 6;

fn bench(sizes: &str) -> Command {
    brief_bench(&["matmul", "-V", "naive,local", "-s", sizes])
}

/// Returns the remedy of a refusal to resume a [`bench`] of these sizes, with more options.
fn repeating(sizes: &str, more: &str) -> String {
    let sizes: String = sizes.split(',').map(|size| format!(" --size={size}")).collect();
    format!(
        "repeat the options of `gpukern bench matmul --variant=naive --variant=local{sizes} --device=cpu --precision=50% \
         --max-time=100ms{more} --no-peak`, or measure anew"
    )
}

/// Returns the id of each measured case with its `field`, a number that is 0 if it is absent.
fn measured_with(field: &str, record: &Value) -> Vec<(String, u64)> {
    let cases = record["cases"].as_array().expect("cases").iter();
    let measured = cases.filter(|case| case["outcome"]["status"] == "measured");
    measured.map(|case| (case["id"].as_str().expect("an id").into(), case[field].as_u64().unwrap_or(0))).collect()
}

/// Returns the id and the process of each measured case.
fn cases(record: &Value) -> Vec<(String, u64)> {
    measured_with("process", record)
}

/// Starts `command` and kills it once its journal has `lines` lines, including its head.
#[cfg(unix)]
fn kill_at(command: &mut Command, path: &Path, lines: usize) {
    let mut child = start(command);
    wait_for_journal(&mut child, path, |text| text.lines().count() >= lines);
    child.kill().expect("it was alive");
    child.wait().expect("it ends");
}

/// Returns a generator of pseudo-random numbers with a fixed seed.
fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

#[test]
#[cfg(unix)]
fn a_killed_run_is_completed_and_says_which_process_measured_what() {
    let (_folder, path) = temporary("run.json");
    kill_at(bench(SIZES).arg("--json").arg(&path), &path, 4);
    assert!(!path.exists());
    let kept = std::fs::read_to_string(journal(&path)).expect("a journal").lines().count() - 1;
    // Other commands read the journal like a record.
    for arguments in [["export", "--to=csv"], ["report", "-o-"]] {
        let said = stderr(&expect_exit(gpukern(&arguments).arg(journal(&path)), 0));
        let note = format!("note: '@/run.json.part' is the journal of an unfinished run: it has {kept} cases");
        check_text(line(&said, "note: "), &note);
    }
    expect_exit(gpukern(&["compare"]).arg(journal(&path)).arg(journal(&path)), 0);

    let output = expect_exit(bench(SIZES).arg("--resume").arg(&path), 0);
    let said = format!("resuming: {kept} case{} measured, {} to go", if kept == 1 { "" } else { "s" }, CASES - kept);
    assert_eq!(line(&stderr(&output), "resuming: "), said);
    // Whether a grid fits the width, which explains its figures, depends on the marks of a busy device.
    let printed = stdout(&output);
    assert!(
        !journal(&path).exists() && printed.contains("matmul f32, uniform input, all answers verified"),
        "{printed}"
    );
    let record = read_json(&path);
    let found = cases(&record);
    assert_eq!(found.iter().map(|(id, _)| id).collect::<BTreeSet<_>>().len(), CASES);
    assert_eq!(found.len(), CASES);
    assert_eq!(found.iter().filter(|(_, process)| *process == 0).count(), kept);
    let processes = record["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), 2);
    let command = |index: usize| processes[index]["command"].to_string();
    assert!(command(0).contains("--json") && command(1).contains("--resume"), "{processes:?}");

    // A complete record has nothing left to measure.
    expect_error(bench(SIZES).arg("--resume").arg(&path), 0, &["resuming: 6 cases measured, 0 to go"]);
    assert_eq!(cases(&read_json(&path)), found);
}

#[test]
#[cfg(unix)]
fn a_killed_verification_is_completed_and_repeats_what_ran_too_seldom() {
    let (_folder, path) = temporary("verified.json");
    let verify = |more: &[&str]| {
        let mut command = gpukern(&["verify", "matmul", "-V", "naive", "--size=64,65,66,67", "--device=cpu"]);
        command.args(more);
        command
    };
    kill_at(verify(&[]).arg("--json").arg(&path), &path, 4);
    let kept = std::fs::read_to_string(journal(&path)).expect("a journal").lines().count() - 1;
    let resumed = expect_exit(verify(&[]).arg("--resume").arg(&path), 0);
    let said = line(&stderr(&resumed), "resuming: ").to_string();
    assert!(said.starts_with(&format!("resuming: {kept} cases measured, ")), "{said}");
    assert!(!stderr(&resumed).contains("without times") && !journal(&path).exists());
    let record = read_json(&path);
    let ids: BTreeSet<_> =
        record["cases"].as_array().expect("cases").iter().map(|case| case["id"].to_string()).collect();
    let all = ids.len();
    assert_eq!(record["cases"].as_array().map(Vec::len), Some(all));
    assert!(all > kept, "{all}");
    let repeated = |times: &str, expected: String| {
        let output = expect_exit(verify(&[times]).arg("--resume").arg(&path), 0);
        let said = stderr(&output);
        assert_eq!(line(&said, "resuming: "), expected, "{said}{}", stdout(&output));
        let record = read_json(&path);
        let cases = record["cases"].as_array().expect("cases");
        let runs = cases.iter().filter(|case| case["outcome"]["repeated"]["runs"] == 2).count();
        assert_eq!((cases.len(), runs), (all, all), "{said}{}", stdout(&output));
    };
    repeated("--repeat=2", format!("resuming: 0 cases measured, {all} to go"));
    repeated("--repeat=1", format!("resuming: {all} cases measured, 0 to go"));
}

/// Kills four runs, or as many as `GPUKERN_KILLS` states.
#[test]
#[cfg(unix)]
fn runs_that_are_killed_at_random_lose_no_case_and_have_none_twice() {
    let kills: u32 = std::env::var("GPUKERN_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(4);
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = random();
    for number in 0..kills {
        let path = folder.path().join(format!("run-{number}.json"));
        // Every fourth run measures each case in several processes.
        let processes: usize = if number % 4 == 3 { 2 } else { 1 };
        let mut option = "--json";
        let mut deaths = 0;
        loop {
            let whole_lines = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).matches('\n').count();
            let kept = || whole_lines(std::fs::read(journal(&path)).unwrap_or_default());
            let before = kept();
            let mut command = bench(SIZES);
            command.args((processes > 1).then(|| format!("--processes={processes}"))).arg(option).arg(&path);
            let mut child = start(&mut command);
            // The third of each three dies early, perhaps while it reads the journal; the others some time after their next case.
            if deaths % 3 != 2 {
                while child.try_wait().expect("a process").is_none() && kept() < before.max(1) + 1 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            std::thread::sleep(Duration::from_millis(random(80)));
            if deaths == 5 {
                child.wait().expect("it ends");
            }
            if let Some(status) = child.try_wait().expect("a process") {
                break assert_eq!(status.code(), Some(0), "run {number} after {deaths} deaths");
            }
            child.kill().expect("it was alive");
            child.wait().expect("it ends");
            deaths += 1;
            if path.exists() {
                break;
            }
            assert!(kept() >= before, "run {number}: cases of the journal are gone");
            if kept() > 0 {
                option = "--resume";
            }
        }
        let found = cases(&read_json(&path));
        let distinct: BTreeSet<_> = found.iter().collect();
        let expected = CASES * processes;
        assert_eq!((found.len(), distinct.len()), (expected, expected), "run {number} after {deaths} deaths");
        assert_eq!(found.iter().map(|(id, _)| id).collect::<BTreeSet<_>>().len(), CASES, "run {number}");
        // A process killed between writing the record and removing the journal leaves both.
        if journal(&path).exists() {
            expect_exit(bench(SIZES).arg("--resume").arg(&path), 0);
            assert!(!journal(&path).exists());
        }
    }
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    let odd = left
        .iter()
        .filter(|name| !name.to_string_lossy().ends_with("json") && !name.to_string_lossy().ends_with("draft"));
    assert_eq!(odd.count(), 0, "{left:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_disk_that_is_full_in_the_middle_loses_the_cases_behind_it_and_no_others() {
    let (folder, path) = temporary("run.json");
    // POSIX shells count blocks of 512 bytes.
    let mut command = limited("ulimit -f 20", &bench(SIZES));
    let output = expect_exit(command.arg("--json").arg(&path).env("GPUKERN_CACHE", folder.path().join("cache")), 3);
    let message = stderr(&output);
    // Where the disk is full depends on the lengths of the samples.
    let (_, part) = line(&message, "cannot add matmul/").split_once(" to ").expect("a file");
    let limit = "the file would exceed this process's file-size limit; raise `ulimit -f`, or LimitFSIZE= of a service";
    check_text(part, &format!("'@/run.json.part': {limit}; it is kept in memory until the end"));
    check_text(line(&message, "error: "), &format!("error: cannot write JSON to '@/run.json': {limit}"));
    let remedy = "some of what was measured is in '@/run.json.part'; --resume '@/run.json' completes it";
    check_text(line(&message, "some of "), remedy);
    assert!(stdout(&output).contains("median time"), "{message}");
    assert!(!path.exists());
    let text = std::fs::read_to_string(journal(&path)).expect("a journal");
    let kept = text.lines().count() - 1;
    assert!(text.ends_with('\n') && (1..CASES).contains(&kept), "{kept} cases");
    expect_exit(bench(SIZES).arg("--resume").arg(&path), 0);
    let found = cases(&read_json(&path));
    assert_eq!(found.iter().map(|(id, _)| id).collect::<BTreeSet<_>>().len(), CASES);
    assert_eq!(found.iter().filter(|(_, process)| *process == 0).count(), kept);
    assert!(!journal(&path).exists());
}

#[test]
#[cfg(unix)]
fn a_journal_that_cannot_be_resumed_is_refused_and_unchanged() {
    let (_folder, path) = temporary("run.json");
    let resume = |sizes: &str, more: &[&str]| {
        let mut bench = bench(sizes);
        bench.args(more).arg("--resume").arg(&path);
        bench
    };
    let refused = |sizes: &str, more: &[&str], message: &str| expect_refusal(&mut resume(sizes, more), message);
    refused(
        SIZES,
        &[],
        "there is nothing to resume: neither '@/run.json.part' nor '@/run.json' is there; begin with --json \
         '@/run.json'",
    );
    kill_at(bench(SIZES).arg("--json").arg(&path), &path, 3);
    let text = std::fs::read_to_string(journal(&path)).expect("a journal");
    expect_refusal(
        bench(SIZES).arg("--json").arg(&path),
        "'@/run.json.part' has 2 cases of a run that was killed; --resume '@/run.json' in place of --json completes it, or \
         delete it",
    );
    let remedy = repeating("8,16,24", "");
    let other_plan = format!("cannot resume: the run has another plan: its cases or its sampling differ; {remedy}");
    refused("8,16", &[], &other_plan);
    refused(SIZES, &["--seed", "2"], &other_plan);
    refused(SIZES, &["--clock", "host"], &other_plan);
    assert_eq!(std::fs::read_to_string(journal(&path)).expect("there"), text, "a refusal changed the journal");

    let with = |from: &str, to: &str, message: &str| {
        std::fs::write(journal(&path), text.replace(from, to)).expect("written");
        refused(SIZES, &[], &format!("cannot resume: {message}"));
    };
    let [head, first] = [0, 1]
        .map(|at| -> Value { serde_json::from_str(text.lines().nth(at).expect("a line")).expect("a line of JSON") });
    let hash = first["kernels"][0]["hash"].as_str().expect("a hash");
    let case = "'matmul/naive/f32/8x8x8'";
    let other_program = format!("{case} would run another program now (kernels or tuned tiles changed); measure anew");
    with(hash, "0123456789abcdef", &other_program);
    let device = head["devices"][0]["name"].as_str().expect("a name");
    let other_device = "device 0 was 'another device' (Mesa) and is now 'llvmpipe' (Mesa); measure anew";
    with(device, "another device", other_device);
    let version = format!("\"version\":{}", head["version"]);
    with(&version, "\"version\":\"0.0.1\"", &format!("the run was started by gpukern 0.0.1; {remedy}"));

    // An incomplete last line is that of the case in flight.
    std::fs::write(journal(&path), &text[..text.len() - 40]).expect("written");
    expect_error(gpukern(&["export", "--to", "csv"]).arg(journal(&path)), 0, &["and part of the next"]);
    expect_exit(&mut resume(SIZES, &[]), 0);
    assert_eq!(cases(&read_json(&path)).len(), CASES);
}

#[test]
#[cfg(unix)]
fn two_runs_do_not_share_a_journal() {
    let (_folder, path) = temporary("run.json");
    let long = ["bench", "matmul", "-V", "naive", "-s", "16..512:16", "--precision", "0.001%", "--no-peak", "--json"];
    let mut first = start(gpukern(&long).arg(&path));
    wait_for_journal(&mut first, &path, |text| !text.is_empty());
    for option in ["--json", "--resume"] {
        expect_refusal(
            bench(SIZES).arg(option).arg(&path),
            "'@/run.json.part' is being written by another process; wait for it",
        );
    }
    first.kill().expect("it was alive");
    first.wait().expect("it ends");
}

/// Returns the command of a bench of four cases on the two devices of `drivers` at once.
#[cfg(unix)]
fn at_once(drivers: &std::ffi::OsStr) -> Command {
    let mut command = bench("8,16");
    use_drivers(command.args(["--parallel", "-d", "all"]), drivers);
    command
}

#[test]
#[cfg(unix)]
fn devices_that_are_measured_at_once_lose_nothing_either() {
    let Some(driver) = software_driver() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let drivers = two_of(&driver, folder.path());
    let whole = folder.path().join("whole.json");
    expect_exit(at_once(&drivers).arg("--json").arg(&whole), 0);
    let whole = read_json(&whole);
    assert_eq!(measured_with("device", &whole).len(), 8);

    for how in ["KILL", "TERM"] {
        let path = folder.path().join(format!("{how}.json"));
        let mut child = start(at_once(&drivers).arg("--json").arg(&path));
        wait_for_journal(&mut child, &path, |text| text.matches('\n').count() > 3);
        signal(&child, how);
        let code = child.wait().expect("it ends").code();
        assert_eq!(code, if how == "KILL" { None } else { Some(130) }, "{how}");
        assert_eq!((journal(&path).exists(), path.exists()), (how == "KILL", how != "KILL"), "{how}");
        let there = if how == "KILL" { journal(&path) } else { path.clone() };
        let csv = stdout(&expect_exit(gpukern(&["export", "--to", "csv"]).arg(there), 0));
        let kept = csv.matches(",measured,").count();
        assert!((3..=8).contains(&kept), "{how}: {kept}");

        let output = expect_exit(at_once(&drivers).arg("--resume").arg(&path), 0);
        let said = format!("resuming: {kept} cases measured, {} to go", 8 - kept);
        assert_eq!(line(&stderr(&output), "resuming: "), said, "{how}");
        let record = read_json(&path);
        assert_eq!(measured_with("device", &record), measured_with("device", &whole), "{how}");
        assert_eq!((&record["devices"], &record["plan"]), (&whole["devices"], &whole["plan"]), "{how}");
        assert!(!journal(&path).exists(), "{how}");
    }
}

#[test]
fn a_shard_is_resumed_only_as_the_same_shard() {
    let (_folder, path) = temporary("run.json");
    let refused = |shard: &[&str], said: &str| {
        let message = format!("cannot resume: the run measured {said}");
        expect_refusal(bench("8,16").args(shard).arg("--resume").arg(&path), &message);
    };
    expect_exit(bench("8,16").arg("--json").arg(&path), 0);
    // Shard 1/1 has all cases, and is still another plan.
    for shard in ["1/1", "1/2"] {
        let differ = format!("all cases (no --shard), and this one measures --shard {shard}");
        refused(&["--shard", shard], &format!("{differ}; {}", repeating("8,16", "")));
    }
    expect_exit(bench("8,16").args(["--shard", "1/2", "--json"]).arg(&path), 0);
    let remedy = repeating("8,16", " --shard=1/2");
    refused(&[], &format!("--shard 1/2, and this one measures all cases (no --shard); {remedy}"));
    refused(&["--shard", "2/2"], &format!("--shard 1/2, and this one measures --shard 2/2; {remedy}"));
    expect_exit(bench("8,16").args(["--shard", "1/2", "--resume"]).arg(&path), 0);
}

#[test]
fn an_interrupted_record_is_resumed_and_a_finished_one_leaves_no_journal() {
    let (folder, path) = temporary("run.json");
    expect_exit(bench("8,16").arg("--json").arg(&path), 0);
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    let names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["run.json"]);
    // An interruption leaves cases without a time, and one that was cut short.
    let mut record = read_json(&path);
    record["cases"][1]["outcome"] = serde_json::json!({ "status": "interrupted" });
    let warnings = record.pointer_mut("/cases/2/outcome/warnings").expect("warnings").as_array_mut().expect("a list");
    warnings.push(serde_json::json!({ "kind": "interrupted" }));
    std::fs::write(&path, record.to_string()).expect("written");
    let resume = |variable: &str, value: &str| {
        let mut command = bench("8,16");
        command.arg("--resume").arg(&path).env(variable, value);
        command
    };
    let refusal =
        "cannot resume: RADV_DEBUG is nocache; the record has no value for it; set it as it was, or measure anew";
    expect_refusal(&mut resume("RADV_DEBUG", "nocache"), refusal);
    let output = expect_exit(&mut resume("VK_LOADER_DRIVERS_DISABLE", "none"), 0);
    let said = stderr(&output);
    assert_eq!(line(&said, "resuming: "), "resuming: 2 cases measured, 2 to go");
    let changed = said.lines().find(|line| line.contains("VK_LOADER")).expect(&said);
    check_text(changed, "note      VK_LOADER_DRIVERS_DISABLE is none; the record has no value for it");
    let found = cases(&read_json(&path));
    assert_eq!(found.len(), 4);
    assert_eq!(found.iter().filter(|(_, process)| *process == 1).count(), 2);
    // A complete record is checked for changed variables too.
    let refusal = "cannot resume: RADV_DEBUG is longer than the 1000 characters that a record keeps; the record has no value \
                   for it; set it as it was, or measure anew";
    expect_refusal(&mut resume("RADV_DEBUG", &"x".repeat(1001)), refusal);
}

#[test]
fn some_cases_of_a_record_get_more_processes_and_the_others_can_follow() {
    let (_folder, path) = temporary("run.json");
    let counts = || {
        let record = read_json(&path);
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for (id, _) in cases(&record) {
            *counts.entry(id).or_default() += 1;
        }
        // The test's output, if it fails.
        for case in record["cases"].as_array().expect("cases") {
            let outcome = &case["outcome"];
            println!("{} {} {} {}", case["id"], case["process"], outcome["status"], outcome["warnings"]);
        }
        println!();
        counts.into_values().collect::<Vec<_>>()
    };
    let more = |arguments: &[&str], code| expect_exit(bench("8,16").args(arguments).arg("--resume").arg(&path), code);
    expect_exit(bench("8,16").args(["--processes", "2", "--json"]).arg(&path), 0);
    assert_eq!(counts(), [2; 4]);
    let whole = read_json(&path);
    let output = more(&["--processes", "4", "--only", "matmul/local/f32/16x16x16"], 0);
    assert_eq!(line(&stderr(&output), "resuming: "), "resuming: 8 cases measured, 2 to go");
    assert_eq!(counts(), [4, 2, 2, 2]);
    let record = read_json(&path);
    assert_eq!((&record["plan"], record["processes"].as_array().map(Vec::len)), (&whole["plan"], Some(4)));
    let request = &record["request"];
    assert!(request["selection"].is_object() && request["only"].is_null(), "the record is still one of all: {request}");
    // The table shows all cases.
    assert!(stdout(&output).contains("naive") && stdout(&output).contains(" 8 "), "{}", stdout(&output));
    more(&["--processes", "3"], 0);
    assert_eq!(counts(), [4, 3, 3, 3]);
    let unknown = more(&["--processes", "5", "--only", "matmul/local/f32/9x9x9"], 2);
    check_text(
        &stderr(&unknown),
        "error: no selected case is called 'matmul/local/f32/9x9x9'; ids look like matmul/local/f32/8x8x8, \
         matmul/local/f32/16x16x16, matmul/naive/f32/8x8x8; choose its variant, dtype and size\n",
    );
    assert_eq!(counts(), [4, 3, 3, 3]);
}
