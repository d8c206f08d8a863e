//! `bench` and `verify` on the software device.

use super::{expect_exit, gpukern, stderr, stdout};
use gpukern::{ALGORITHMS, find_algorithm};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Options that keep a bench short.
const QUICK: [&str; 4] = ["--max-time", "50ms", "--precision", "20%"];

fn quick(arguments: &[&str]) -> std::process::Command {
    let mut command = gpukern(arguments);
    command.args(QUICK);
    command
}

fn valid_record(json: &str) -> Value {
    let record: Value = serde_json::from_str(json).expect("JSON");
    let schema: Value = serde_json::from_str(include_str!("../../docs/record.schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<_> = validator.iter_errors(&record).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    record
}

#[test]
fn json_on_standard_output_is_a_valid_record_and_nothing_else() {
    let output = expect_exit(&mut quick(&["bench", "matmul", "-V", "subgroup", "-s", "1000x70x130", "--json", "-"]), 0);
    let record = valid_record(&stdout(&output));
    assert_eq!(record["schema"], "gpukern-run/2");
    let case = &record["cases"][0];
    assert_eq!(case["id"], "matmul/subgroup/f32/1000x70x130");
    assert_eq!(case["outcome"]["status"], "measured");
    let samples = case["outcome"]["samples"].as_array().expect("samples");
    assert_eq!(case["outcome"]["summary"]["count"], samples.len());
    assert!(samples.iter().all(|sample| sample["device"].as_f64().is_some_and(|time| time > 0.0)));
    let verification = &case["outcome"]["verification"];
    let figure = |name: &str| verification[name].as_f64().expect("a number");
    assert!(figure("residual") <= figure("tolerance"), "{verification}");
}

#[test]
fn a_case_that_is_named_twice_is_measured_once() {
    let bench = ["bench", "matmul", "-V", "naive,tiled,auto", "-s", "8,8x8x8", "--json", "-"];
    let record = valid_record(&stdout(&expect_exit(&mut quick(&bench), 0)));
    let ids: Vec<_> = record["cases"].as_array().expect("cases").iter().map(|case| case["id"].to_string()).collect();
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), unique.len()), (3, 3), "{ids:?}");
}

#[test]
fn the_table_has_a_row_for_each_size_and_a_column_for_each_variant() {
    let text = stdout(&expect_exit(&mut quick(&["bench", "matmul", "-s", "8,16", "--table", "compact"]), 0));
    let heading = text.lines().find(|line| line.contains("size")).expect("a heading");
    for variant in ["naive", "naive-column", "local", "local-2d", "subgroup", "subgroup-shuffle"] {
        assert!(heading.contains(variant), "{text}");
    }
    assert_eq!(text.matches('★').count(), 3, "one mark explained, one in each row:\n{text}");
}

#[test]
fn a_record_file_replaces_an_older_one_and_the_table_still_goes_to_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.json");
    std::fs::write(&path, "an older record").expect("written");
    let output = expect_exit(quick(&["bench", "matmul", "-V", "v0,v2", "-s", "16"]).arg("--json").arg(&path), 0);
    assert!(stdout(&output).contains("★"));
    let record = valid_record(&std::fs::read_to_string(&path).expect("written"));
    assert_eq!(record["cases"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_configuration_is_measured_and_options_win_over_it() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/benches-config/blog-matmul.toml");
    let output = expect_exit(&mut quick(&["bench", "--config", config, "-s", "24", "--json", "-"]), 0);
    let record = valid_record(&stdout(&output));
    let ids: Vec<_> = record["cases"].as_array().expect("cases").iter().map(|case| case["id"].clone()).collect();
    assert!(ids.iter().all(|id| id.as_str().is_some_and(|id| id.ends_with("24x24x24"))), "{ids:?}");
    assert!(ids.len() >= 3, "{ids:?}");
}

#[test]
fn the_same_seed_gives_the_same_residual_and_another_seed_another() {
    let residual = |seed: &str| {
        let output =
            expect_exit(&mut quick(&["bench", "matmul", "-V", "v0", "-s", "64", "--json", "-", "--seed", seed]), 0);
        valid_record(&stdout(&output))["cases"][0]["outcome"]["verification"]["residual"].to_string()
    };
    let first = residual("1");
    assert_eq!(first, residual("1"));
    assert_ne!(first, residual("2"));
}

/// Runs `verify` and expects everything to pass but what the software device lacks.
fn conforms(arguments: &[&str]) {
    let output = expect_exit(gpukern(&["verify"]).args(arguments), 0);
    let (text, notes) = (stdout(&output), stderr(&output));
    assert!(text.contains(" passed, 0 wrong, "), "{text}\n{notes}");
    // Everything but the matrix units, which the software device lacks, types that a variant has no kernel
    // for, and products that are too large for some.
    for skipped in notes.lines().filter(|line| line.starts_with("skipped")) {
        let known = [
            "matrix-unit/",
            "matmul/coopmat",
            "matmul/split/",
            "lu/blocked-split/",
            "has no ",
            "is for at most 8 rows or columns of C",
        ];
        let expected = known.iter().any(|known| skipped.contains(known));
        assert!(expected, "{skipped}\n{text}");
    }
}

#[test]
fn every_variant_conforms_at_awkward_sizes() {
    let others: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).filter(|name| *name != "matmul").collect();
    conforms(&others);
    // The slow variants on a product of 1000 in six types are nine tenths of the time of the test below.
    let matmul = find_algorithm("matmul").expect("it is registered");
    let (smaller, largest) = matmul.verify_size.cpu.rsplit_once(',').expect("several sizes");
    assert_eq!(largest, "1000");
    conforms(&["matmul", "--size", smaller]);
}

#[test]
#[ignore = "takes minutes on a software device: scripts/test --full"]
fn every_variant_conforms_at_every_size_that_verify_has_by_itself() {
    conforms(&[]);
}

#[test]
#[cfg(unix)]
fn an_interrupt_keeps_what_was_measured_and_marks_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.json");
    let mut child = gpukern(&[
        "bench",
        "matmul",
        "-V",
        "naive",
        "-s",
        "8,512..4096",
        "--max-time",
        "600s",
        "--precision",
        "0.001%",
        "--json",
    ])
    .arg(&path)
    .stderr(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.next().expect("a line").expect("UTF-8").starts_with("device"));
    // The warm-up of the first case takes up to three seconds.
    std::thread::sleep(std::time::Duration::from_secs(8));
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let record = valid_record(&std::fs::read_to_string(&path).expect("the record is written"));
    let statuses: Vec<_> =
        record["cases"].as_array().expect("cases").iter().map(|case| case["outcome"]["status"].clone()).collect();
    assert_eq!(statuses.len(), 5, "{statuses:?}");
    assert_eq!((&statuses[0], &statuses[4]), (&"measured".into(), &"interrupted".into()), "{statuses:?}");
}
