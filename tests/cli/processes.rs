//! `bench --processes`: each case in several fresh processes, and one record of all.

use super::{
    brief_bench, check_text, expect_error, expect_exit, expect_output, expect_refusal, gpukern, journal, line,
    read_json, signal, start, stdout, temporary, wait_for_journal,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const SIZES: &str = "8,16,24";

fn bench(more: &[&str]) -> Command {
    let mut command = brief_bench(&["matmul", "-V", "naive,local", "-s", SIZES]);
    command.args(more);
    command
}

/// Returns the processes of each measured case by id, and the ids of each process in their order.
fn sightings(record: &Value) -> (BTreeMap<String, Vec<u64>>, BTreeMap<u64, Vec<String>>) {
    let (mut processes, mut orders) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
    for case in record["cases"].as_array().expect("cases") {
        assert_eq!(case["outcome"]["status"], "measured", "{case}");
        let (id, process) = (case["id"].as_str().expect("an id"), case["process"].as_u64().unwrap_or(0));
        processes.entry(id.to_string()).or_default().push(process);
        orders.entry(process).or_default().push(id.to_string());
    }
    (processes, orders)
}

#[test]
fn one_record_holds_all_processes_and_tables_and_exports_have_a_row_a_case() {
    let (folder, path) = temporary("run.json");
    let output = expect_exit(bench(&["--processes=3", "--table=long", "--json"]).arg(&path), 0);
    let rows = stdout(&output).lines().filter(|line| line.contains("naive") || line.contains("local")).count();
    assert_eq!(rows, 6, "{}", stdout(&output));
    let record = read_json(&path);
    let (processes, orders) = sightings(&record);
    assert!(processes.len() == 6 && processes.values().all(|seen| *seen == [0, 1, 2]), "{processes:?}");
    assert!(orders.values().collect::<BTreeSet<_>>().len() > 1, "the same order in all: {orders:?}");
    let seeds: Vec<_> = record["processes"].as_array().expect("processes").iter().map(|p| &p["order"]).collect();
    assert_eq!(seeds, [0, 1, 2]);
    // A second run measures the cases in the same orders.
    let again = folder.path().join("again.json");
    expect_exit(bench(&["--processes=3", "--json"]).arg(&again), 0);
    assert_eq!(sightings(&read_json(&again)).1, orders);

    let csv = stdout(&expect_exit(gpukern(&["export", "--to", "csv"]).arg(&path), 0));
    assert_eq!(csv.lines().count(), 1 + 6, "{csv}");
    expect_output(gpukern(&["report", "-o", "-"]).arg(&path), 0, &["naive"]);
    let compared = stdout(&super::run(gpukern(&["compare", "--json", "-"]).args([&path, &again])));
    let compared: Value = serde_json::from_str(&compared).expect("JSON");
    let cases = compared["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 6);
    for side in ["baseline", "candidate"] {
        assert!(cases.iter().all(|case| case[side]["processes"] == 3), "{compared}");
    }
}

#[test]
fn the_noise_of_processes_is_a_view_of_the_same_record() {
    let (_folder, path) = temporary("run.json");
    let output = expect_exit(bench(&["--noise=2", "--json"]).arg(&path), 0);
    let text = stdout(&output);
    check_text(text.lines().next().expect("a heading"), "2 processes of the same run on llvmpipe");
    line(&text, " matmul/naive/f32/24x24x24 ");
    assert!(sightings(&read_json(&path)).0.values().all(|seen| *seen == [0, 1]));
}

#[test]
fn the_host_s_cases_are_measured_in_processes_of_their_own_too() {
    let (_folder, path) = temporary("run.json");
    let mut command = gpukern(&["bench", "matmul", "-s", "8,16", "--device=host", "--max-time=20ms", "--processes=2"]);
    // The host's cases need no Vulkan.
    expect_exit(command.args(["--loader=/nonexistent", "--json"]).arg(&path), 0);
    let (processes, _) = sightings(&read_json(&path));
    assert!(processes.len() == 2 && processes.values().all(|seen| *seen == [0, 1]), "{processes:?}");
}

/// Starts the bench and waits until its journal has a case of process 1.
fn in_the_second_process(path: &Path) -> std::process::Child {
    let mut command = bench(&["--processes=3", "--json"]);
    let mut child = start(command.arg(path));
    wait_for_journal(&mut child, path, |text| text.contains("\"process\":1"));
    child
}

#[test]
#[cfg(unix)]
fn a_killed_run_of_several_processes_is_completed() {
    let (_folder, path) = temporary("run.json");
    let mut child = in_the_second_process(&path);
    child.kill().expect("it was alive");
    child.wait().expect("it ends");
    expect_error(bench(&["--processes=3", "--resume"]).arg(&path), 0, &["resuming: "]);
    assert!(!journal(&path).exists());
    let record = read_json(&path);
    let (processes, _) = sightings(&record);
    assert_eq!(processes.len(), 6);
    for (id, seen) in processes {
        let distinct: BTreeSet<_> = seen.iter().collect();
        assert_eq!((seen.len(), distinct.len()), (3, 3), "{id}: {seen:?}");
    }
    // A complete record can get more processes.
    expect_exit(bench(&["--processes=4", "--resume"]).arg(&path), 0);
    assert!(sightings(&read_json(&path)).0.values().all(|seen| seen.len() == 4));
    // A complete run that replaces it keeps one of more processes, and none of as many.
    expect_error(bench(&["--processes=1", "--json"]).arg(&path), 0, &["kept the ", "run.json.before', as"]);
    expect_exit(bench(&["--processes=1", "--json"]).arg(&path), 0);
    let kept = read_json(&path.with_extension("json.before"));
    assert!(sightings(&kept).0.values().all(|seen| seen.len() == 4));
    assert!(!path.with_extension("json.before-2").exists());
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_of_several_processes_keeps_what_it_has() {
    let (_folder, path) = temporary("run.json");
    expect_exit(bench(&["--json"]).arg(&path), 0);
    let complete = std::fs::read(&path).expect("a record");
    let mut child = in_the_second_process(&path);
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let kept = path.with_extension("json.before");
    let is_kept = || std::fs::read(&kept).expect("the record before") == complete;
    assert!(is_kept(), "a complete record is not lost");
    let record = read_json(&path);
    let measured = record["cases"].as_array().expect("cases").iter();
    let measured = measured.filter(|case| case["outcome"]["status"] == "measured").count();
    assert!((7..18).contains(&measured), "{measured}");
    expect_exit(gpukern(&["export", "--to", "csv"]).arg(&path), 0);
    // Nor by a second interruption, which keeps the partial one under another name.
    let mut child = in_the_second_process(&path);
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(is_kept() && path.with_extension("json.before-2").exists());
}

#[test]
fn a_number_of_processes_that_makes_no_sense_is_refused() {
    for (options, reason) in [
        (&["--processes=0"][..], "malformed value '0' for '--processes'; write a number from 1 to 1000"),
        (&["--noise=1"], "--noise=1: it takes two processes to differ; write a number from 2 to 1000"),
        (&["--processes=2", "--in-process"], "--processes=2 takes other processes, and --in-process forbids them"),
    ] {
        expect_refusal(&mut bench(options), reason);
    }
}
