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
fn the_table_has_sizes_by_variants_and_fits_the_terminal() {
    // Signs of a busy machine take space too.
    for columns in [80_usize, 260] {
        let mut bench = quick(&["bench", "matmul", "-s", "8,16"]);
        let text = stdout(&expect_exit(bench.env("COLUMNS", columns.to_string()), 0));
        let heading = text.lines().find(|line| line.contains("size ") || line.contains("variant ")).expect("a heading");
        // What is across on a wide terminal is down on a narrow one.
        let across = columns == 260;
        for variant in ["naive", "naive-column", "local", "local-2d", "subgroup", "subgroup-shuffle"] {
            let line = text.lines().any(|line| line.starts_with(&format!(" {variant} ")));
            assert_eq!((heading.contains(variant), line), (across, !across), "{variant} at {columns}:\n{text}");
        }
        assert_eq!(text.matches('★').count(), 3, "one mark explained, one for each size:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
    }
}

#[test]
fn figures_of_others_stand_beside_the_measured_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("reference.csv");
    std::fs::write(&path, "algorithm,dtype,size,time,source\nmatmul,f32,16,1 ns,magic 2.0\n").expect("written");
    let bench = ["bench", "matmul", "-V", "naive,local", "-s", "8,16"];
    let text = stdout(&expect_exit(quick(&bench).arg("--reference").arg(&path), 0));
    assert!(text.contains("reference: magic 2.0 (16)") && text.contains("★ 1.000"), "{text}");
    let long =
        stdout(&expect_exit(quick(&bench).arg("--reference").arg(&path).args(["--columns", "median,reference"]), 0));
    assert!(long.contains("× reference") && !long.contains("GFLOP/s"), "{long}");
    std::fs::write(&path, "algorithm,dtype,size,time,source\nmatmul,f32,16,soon,magic\n").expect("written");
    let output = expect_exit(quick(&bench).arg("--reference").arg(&path), 2);
    assert!(stderr(&output).contains("line 2: malformed time 'soon'"), "{}", stderr(&output));
}

#[test]
fn a_dry_run_lists_cases_with_their_time_and_measures_nothing() {
    let output = expect_exit(&mut quick(&["bench", "matmul", "-V", "naive,split", "-s", "8,16", "--dry-run"]), 0);
    let text = stdout(&output);
    assert!(text.contains("s  matmul/naive/f32/8x8x8\n") && text.contains("2 cases, about "), "{text}");
    assert!(text.contains("matmul/split/f32/8x8x8 and 1 more like it will be skipped"), "{text}");
    assert!(!text.contains('★'));
}

#[test]
fn quiet_says_nothing_of_progress_and_verbose_says_what_came_of_each_case() {
    let bench = ["bench", "matmul", "-V", "naive", "-s", "8,16"];
    let said = |more: &[&str]| stderr(&expect_exit(quick(&bench).args(more), 0));
    assert!(said(&[]).contains("device 0: "));
    assert!(!said(&["-q"]).contains("device 0: llvm"), "{}", said(&["-q"]));
    assert!(said(&["-v"]).contains("matmul/naive/f32/8x8x8: "));
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
    let sizes: Vec<_> = matmul.verify_size.cpu.split(',').collect();
    let smaller: Vec<_> = sizes.iter().copied().filter(|size| *size != "1000").collect();
    assert_eq!(smaller.len() + 1, sizes.len());
    conforms(&["matmul", "--size", &smaller.join(",")]);
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
    // `timeout -s INT` sends one to the process and one to its group.
    for _ in 0..2 {
        let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.expect("kill runs").success());
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted"), "a table is printed all the same");
    let record = valid_record(&std::fs::read_to_string(&path).expect("the record is written"));
    let statuses: Vec<_> =
        record["cases"].as_array().expect("cases").iter().map(|case| case["outcome"]["status"].clone()).collect();
    assert_eq!(statuses.len(), 5, "{statuses:?}");
    assert_eq!((&statuses[0], &statuses[4]), (&"measured".into(), &"interrupted".into()), "{statuses:?}");
}
