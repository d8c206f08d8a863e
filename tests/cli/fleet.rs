//! Shards, merges and histories from outside.

use super::{brief_bench, check_text, expect_refusal, expect_refusals, gpukern, line, read_json, run, stdout};
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
    expect_refusal(
        gpukern(&["merge"]).args([at("1.json"), at("1.json")]).arg("-o").arg(at("x.json")),
        "'@/1.json' has case 'matmul/naive/f32/24x24x24' of 'llvmpipe', and so does '@/1.json'; merge records that \
         share no case. To add processes to a record, measure again with --resume and more --processes",
    );

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
    check_text(line(&stdout(&output), "2 runs of 6 cases: "), "2 runs of 6 cases: too few runs to find a step");
    check_text(
        &super::stderr(&output),
        "left out: cannot use '@/runs/device/driver/c.json': it is JSON, but not a record; a record begins with \
         {\"schema\":\"gpukern-run/…\"; `gpukern bench` and `gpukern run` write one with --json PATH; and 2 more, which --json names\n",
    );
    let page = std::fs::read_to_string(at("page.html")).expect("a page");
    assert!(page.contains("a test") && page.contains("0123456789ab (trunk)"));
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    for (devices, command) in [("", "bench matmul"), ("cpu,", "bench matmul"), ("host,", "bench matmul"), ("", "peak")]
    {
        let mut command = gpukern(&command.split(' ').collect::<Vec<_>>());
        expect_refusal(
            command.args(["-d", devices]),
            "'' names no device; give --device (or GPUKERN_DEVICE) an index, part of a name, a UUID, gpu, cpu or all, \
             or leave it out",
        );
    }
    expect_refusals(
        Path::new("."),
        "
        $ gpukern bench matmul --shard 3/2
        --shard: '3/2' is not a shard; write 2/8 for the second of eight
        $ gpukern bench matmul --parallel --device host
        --parallel measures GPUs at once; leave out --device host
        $ gpukern bench matmul --parallel --in-process
        --parallel takes other processes, and --in-process forbids them
        $ gpukern history /nonexistent
        cannot read the folder '/nonexistent': it does not exist; name a folder of records
        $ gpukern history src
        no measured case in the folder 'src'; put records there, written by `gpukern bench` or `gpukern run` with \
        --json PATH
        $ gpukern history src --to otava
        --to otava writes several files; name a folder: -o DIR
        $ gpukern history src --to otter -o x
        unknown format 'otter'; available: otava
        $ gpukern history src --order Cargo.toml
        --order 'Cargo.toml': '[package]' is no commit; write started, committed, or a file of commits, the oldest \
        first: git log --reverse --format=%H > FILE
        $ gpukern history src --apart hosts
        unknown --apart 'hosts'; did you mean 'host'? available: driver, host, branch, label
        ",
    );
}
