//! Shards, merges and histories from outside.

use super::{brief_bench, gpukern, read_json, run, stdout};
use serde_json::Value;
use std::path::Path;

fn bench(folder: &Path, name: &str, more: &[&str]) -> Value {
    let path = folder.join(name);
    let mut command = brief_bench(&["matmul", "-V", "naive,local", "-s", "8,16,24", "--table", "compact"]);
    command.arg("--json").arg(&path).args(more);
    // A history leaves out records of runs under validation layers.
    command.env("GPUKERN_VALIDATION", "0");
    let output = run(command.env("GPUKERN_COMMIT", "0123456789abcdef").env("GPUKERN_BRANCH", "trunk"));
    assert!(output.status.success(), "{}", super::stderr(&output));
    read_json(&path)
}

fn ids(record: &Value) -> Vec<String> {
    let cases = record["cases"].as_array().expect("cases");
    let mut ids: Vec<_> = cases.iter().map(|case| case["id"].as_str().expect("an id").to_string()).collect();
    ids.sort();
    ids
}

#[test]
fn shards_are_merged_to_what_one_machine_measures_and_kept_in_a_history() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let whole = bench(folder.path(), "whole.json", &["--label", "a test"]);
    let origin = &whole["origin"];
    assert_eq!((&origin["commit"], &origin["branch"]), (&"0123456789abcdef".into(), &"trunk".into()));
    assert!(origin["label"] == "a test" && origin["host"].is_string(), "{origin}");
    let parts =
        ["1", "2"].map(|index| bench(folder.path(), &format!("{index}.json"), &["--shard", &format!("{index}/2")]));
    assert!(
        parts
            .iter()
            .all(|part| part["cases"].as_array().is_some_and(|cases| cases.len() % 2 == 0 && !cases.is_empty()))
    );

    let merge = |names: &[&str]| {
        run(gpukern(&["merge"]).args(names.iter().map(|name| at(name))).arg("-o").arg(at("merged.json")))
    };
    let output = merge(&["1.json", "2.json"]);
    assert!(output.status.success(), "{}", super::stderr(&output));
    let merged = read_json(&at("merged.json"));
    assert_eq!((ids(&merged), merged["devices"].as_array().map(Vec::len)), (ids(&whole), Some(1)));
    let again = run(gpukern(&["merge"]).args([at("1.json"), at("1.json")]).arg("-o").arg(at("x.json")));
    assert!(again.status.code() == Some(2) && super::stderr(&again).contains("; merge records that share no case"));

    let store = at("runs/device/driver");
    std::fs::create_dir_all(&store).expect("made");
    std::fs::copy(at("whole.json"), store.join("a.json")).expect("copied");
    std::fs::copy(at("merged.json"), store.join("b.json")).expect("copied");
    for file in ["c.json", "d.json", "e.json"] {
        std::fs::write(store.join(file), "{}").expect("written");
    }
    let mut command = gpukern(&["history"]);
    let output = run(command.arg(at("runs")).arg("-o").arg(at("page.html")));
    assert!(output.status.success(), "{}", super::stderr(&output));
    assert!(stdout(&output).contains("2 runs of 6 cases: none has enough runs"), "{}", stdout(&output));
    let notes = super::stderr(&output);
    let line = notes.lines().find(|line| line.starts_with("left out: ")).expect(&notes);
    assert!(line.contains("c.json") && line.ends_with("; and 2 more") && !notes.contains("d.json"), "{notes}");
    let page = std::fs::read_to_string(at("page.html")).expect("a page");
    assert!(page.contains("a test") && page.contains("0123456789ab (trunk)"));
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    for (arguments, expected) in [
        (&["bench", "matmul", "--shard", "3/2"][..], "'3/2' is not a shard; write 2/8"),
        (&["bench", "matmul", "--label", " "], "--label ' ' is no label"),
        (&["bench", "matmul", "--parallel", "--device", "host"], "--parallel measures GPUs at once"),
        (&["bench", "matmul", "--parallel", "--in-process"], "--parallel takes other processes"),
        (&["bench", "matmul", "-d", ""], "'' names no device; give --device"),
        (&["bench", "matmul", "-d", "cpu,"], "'' names no device; give --device"),
        (&["bench", "matmul", "-d", "host,"], "'' names no device; give --device"),
        (&["peak", "-d", ""], "'' names no device; give --device"),
        (&["history", "/nonexistent"], "cannot read the folder '/nonexistent'"),
        (&["history", "src"], "no measured case in the folder 'src'"),
        (&["history", "src", "--to", "otava"], "name a folder: -o DIR"),
        (&["history", "src", "--to", "otter", "-o", "x"], "unknown format 'otter'; available: otava"),
        (&["history", "src", "--order", "Cargo.toml"], "is no commit"),
        (&["history", "src", "--apart", "hosts"], "did you mean 'host'?"),
    ] {
        let output = run(&mut gpukern(arguments));
        let said = super::stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{arguments:?}: {said}");
    }
}
