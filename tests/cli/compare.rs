//! `compare`: verdicts, exit codes and refusals. Records are made here; no device is needed.

use super::{
    BRIEF, brief_bench, check_schema, check_text, expect_error, expect_exit, expect_output, expect_refusal,
    expect_refusals, forget_conditions, gpukern, limited, line, read_json, run, stderr, stdout, steady, words,
};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Temporary folder of records.
struct Records(TempDir);

impl Records {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_string()
    }

    fn record(&self, name: &str, record: &Value) -> String {
        self.write(name, &record.to_string())
    }
}

/// Returns a record of `cases` cases with `count` samples each, spread around `center` in a fixed pattern without drift.
fn record(started: &str, cases: usize, count: usize, center: f64, spread: f64) -> Value {
    let text = include_str!("../fixtures/run-1.json");
    let mut record: Value = serde_json::from_str(text).expect("JSON");
    record["schema"] = "gpukern-run/2".into();
    record["started"] = started.into();
    let mut case = record["cases"][0].clone();
    let samples: Vec<Value> = (0..count)
        .map(|i| {
            let swing = ((i * 7919) % 1009) as f64 / 504.0 - 1.0;
            json!({"device": (center * (1.0 + spread * swing) * 16.0).round() / 16.0, "host": 1.5 * center})
        })
        .collect();
    case["outcome"]["samples"] = samples.into();
    let case = |index: usize| {
        let mut case = case.clone();
        case["id"] = format!("lu/case-{index}/f32/1024x1024").into();
        case
    };
    record["cases"] = (0..cases).map(case).collect();
    record
}

/// Checks the JSON of a comparison against the published schema.
fn check_comparison(document: &Value) {
    check_schema(document, include_str!("../../docs/compare.schema.json"));
}

fn quiet(started: &str, center: f64) -> Value {
    record(started, 2, 50, center, 0.005)
}

/// Compares with these arguments. Returns standard output at a width of 80 columns.
fn compare(arguments: &[&str], code: i32) -> String {
    let mut command = gpukern(&["compare"]);
    stdout(&expect_exit(command.args(arguments).env("COLUMNS", "80"), code))
}

/// Returns the findings that [`compare`] prints below its table, without the remedies below them, which name files.
fn findings(arguments: &[&str], code: i32) -> String {
    let text = compare(arguments, code);
    // The table ends with an empty line, behind a line on hidden columns if there are some.
    let (_, findings) = text.split_once("\n\n").unwrap_or_else(|| panic!("{text}"));
    findings.split("\nThe baseline needs").next().unwrap_or_default().to_string()
}

#[test]
fn a_record_is_the_same_as_itself() {
    let records = Records::new();
    let path = records.record("a.json", &record("2026-01-01T00:00:00Z", 3, 20, 1e6, 0.3));
    insta::assert_snapshot!(findings(&[&path, &path], 0), @"
    all cases: same code, measured once for both sides

    3 same (changes below 2 % are ignored)
    ");
}

#[test]
fn a_slowdown_is_accepted_by_name_and_nothing_else_accepts_it() {
    let records = Records::new();
    let [a, b] = [records.record("a.json", &quiet("a", 1e6)), records.record("b.json", &quiet("b", 1.05e6))];
    let accepted = compare(&[&a, &b, "--allow", "slower"], 0);
    assert!(accepted.contains("all cases: accepted by --allow slower"), "{accepted}");
    compare(&[&a, &b, "--force"], 1);
    compare(&[&a, &b, "--allow", "gone,buffers,work,check"], 1);
    // A wrong answer stays one.
    let mut wrong = quiet("b", 1e6);
    wrong["cases"][0]["outcome"] = json!({ "status": "failed", "error": "the driver has no such kernel" });
    compare(&[&a, &records.record("wrong.json", &wrong), "--allow", "slower"], 1);
    let junit = records.write("junit.xml", "");
    compare(&[&a, &b, "--allow", "slower", "--junit", &junit], 0);
    let tests = std::fs::read_to_string(junit).expect("written");
    assert!(tests.contains(r#"failures="0""#) && tests.contains("accepted by --allow slower"), "{tests}");
}

#[test]
fn five_percent_more_is_slower_and_less_is_faster() {
    let records = Records::new();
    let [a, b] = [records.record("a.json", &quiet("a", 1e6)), records.record("b.json", &quiet("b", 1.05e6))];
    insta::assert_snapshot!(compare(&[&a, &b], 1), @"
    NVIDIA H100 80GB HBM3, lu f32, uniform input
     case                  verdict   ratio   95 % interval   baseline   candidate
    ──────────────────────────────────────────────────────────────────────────────
     lu/case-0/1024x1024   SLOWER    1.050   1.040 … 1.061   1.000 ms    1.050 ms
     lu/case-1/1024x1024   SLOWER    1.050   1.039 … 1.061   1.000 ms    1.050 ms

    all cases: p < 0.0001

    slowed most: lu/case-0/1024x1024, which takes 5 % longer
    2 slower (changes below 2 % are ignored)
    ");
    insta::assert_snapshot!(findings(&[&b, &a], 0), @"
    all cases: p < 0.0001

    sped up most: lu/case-0/1024x1024, which takes 4.8 % less time
    2 faster (changes below 2 % are ignored)
    ");
    compare(&[&a, &b, "--min-effect", "10%"], 0);
}

#[test]
fn nothing_is_advised_for_undecided_cases_of_which_none_is_slower() {
    let records = Records::new();
    // Three processes of a side, which differ by 2 %.
    let side = |option: &str, time: f64| {
        let record = |factor: f64| {
            records.record(&format!("{option}-{factor}.json"), &quiet(&format!("{option}{factor}"), time * factor))
        };
        [0.98, 1.0, 1.02].map(|factor| [format!("--{option}"), record(factor)]).concat()
    };
    let page = records.0.path().join("page.html");
    for (time, code, word) in [(0.95e6, 0, "not slower"), (1e6, 4, "undecided")] {
        let sides = [side("baseline", 1e6), side("candidate", time)].concat();
        let sides: Vec<&str> = sides.iter().map(String::as_str).collect();
        let is_advised = |text: &str| text.contains("The candidate needs");
        let text = compare(&sides, code);
        assert!(text.contains(word) && is_advised(&text) == (code != 0), "{text}");
        expect_exit(gpukern(&["report"]).args(&sides).arg("-o").arg(&page), 0);
        let text = std::fs::read_to_string(&page).expect("written");
        assert!(text.contains(word) && is_advised(&text) == (code != 0), "{time}");
    }
}

#[test]
fn few_or_noisy_samples_are_undecided() {
    let records = Records::new();
    let a = records.record("a.json", &quiet("a", 1e6));
    let few = records.record("few.json", &record("b", 2, 3, 1.05e6, 0.005));
    let noisy = records.record("noisy.json", &record("c", 2, 20, 1.05e6, 0.6));
    insta::assert_snapshot!(findings(&[&a, &few], 4), @"
    all cases: 3 samples, needs 6
    all cases: candidate has 3 samples, 6 are needed

    2 undecided (changes below 2 % are ignored)
    ");
    compare(&[&a, &noisy], 4);
    compare(&[&a, &a, "--process-noise", "50%"], 0);
    let again = records.record("again.json", &quiet("d", 1e6));
    insta::assert_snapshot!(findings(&[&a, &again, "--process-noise", "50%"], 4), @"
    all cases: a side has only 1 process
    all cases: with fewer than 3 processes per side, ±50 % between processes is
      assumed

    undecided: lu/case-1/1024x1024 takes 0.6598 … 1.491 times as long (95 %
      interval)
    2 undecided (changes below 2 % are ignored)
    ");
}

#[test]
fn several_processes_of_a_side_are_taken_together() {
    let records = Records::new();
    let side = |name: &str, center: f64| -> Vec<String> {
        let run = |i: usize| {
            records.record(&format!("{name}{i}.json"), &quiet(&format!("{name}{i}"), center + 2e3 * i as f64))
        };
        (0..4).map(run).collect()
    };
    let [a, b] = [side("a", 1e6), side("b", 1.06e6)];
    let output =
        expect_exit(gpukern(&["compare", "--json", "-", "--baseline"]).args(&a).arg("--candidate").args(&b), 1);
    let document: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    check_comparison(&document);
    assert_eq!(document["schema"], "gpukern-compare/1");
    assert_eq!(document["exit"], 1);
    let case = &document["cases"][0];
    assert_eq!((&case["verdict"], &case["baseline"]["processes"]), (&json!("slower"), &json!(4)), "{case}");
    let [low, high] = [0, 1].map(|end| case["interval"][end].as_f64().expect("a number"));
    assert!(low < 1.06 && 1.06 < high, "{case}");
    expect_refusal(
        gpukern(&["compare", &a[0], &b[0], "--candidate"]).args(&b),
        "'@/b0.json' is, or has, the same run as another record of its side; give each run once",
    );
}

#[test]
fn a_new_wrong_answer_is_a_regression_and_a_missing_case_is_listed() {
    let records = Records::new();
    let a = records.record("a.json", &quiet("a", 1e6));
    let mut wrong = quiet("b", 1e6);
    wrong["cases"][0]["outcome"] = json!({"status": "rejected", "residual": null, "tolerance": 0.1, "method": "elementwise", "worst": "C is NaN", "metrics": []});
    let wrong = records.record("wrong.json", &wrong);
    insta::assert_snapshot!(findings(&[&a, &wrong], 1), @"
    lu/case-1/1024x1024: within ±2 %

    REJECTED  lu/case-0/f32/1024x1024: C is NaN

    1 newly rejected, 1 same (changes below 2 % are ignored)
    ");
    let mut short = quiet("c", 1e6);
    short["cases"].as_array_mut().expect("cases").pop();
    let short = records.record("short.json", &short);
    insta::assert_snapshot!(findings(&[&a, &short], 4), @"
    lu/case-0/1024x1024: within ±2 %

    gone  lu/case-1/f32/1024x1024: only in the baseline

    1 same, 1 gone (changes below 2 % are ignored)
    1 case of the baseline did not run in the candidate; if that is intended, add
      --allow gone.
    ");
    findings(&[&a, &short, "--allow", "gone"], 0);
}

#[test]
fn records_that_differ_in_more_than_time_are_refused_unless_that_is_allowed() {
    let records = Records::new();
    let a = records.record("a.json", &quiet("a", 1e6));
    for (pointer, value, difference) in [
        (
            "/devices/0/driver/info",
            json!("590.1"),
            "driver: NVIDIA 580.159.04 (2435301632) → NVIDIA 590.1 (2435301632)",
        ),
        ("/devices/0/name", json!("other"), "device: NVIDIA H100 80GB HBM3 → other"),
        ("/method/validation", json!(true), "validation layers: off → on"),
        ("/method/cache", json!("cold"), "cache: hot → cold"),
        ("/method/clock", json!("host"), "clock: device timestamps → host"),
        ("/cases/0/seed", json!(2), "seed: 1 in lu/case-0/f32/1024x1024 → 2 in lu/case-0/f32/1024x1024"),
    ] {
        let mut other = quiet("b", 1e6);
        *other.pointer_mut(pointer).expect("there") = value;
        let b = records.record("b.json", &other);
        let name = difference.split_once(':').expect("a name").0.replace(' ', "-");
        let remedy = if name == "driver" {
            "if the driver is what you want to judge, add --allow driver".into()
        } else {
            format!("measure both sides the same way, or add --allow {name} to compare them anyway")
        };
        let refusal = format!("the records were not measured under the same conditions:\n  {difference}\n{remedy}");
        for more in [&[][..], &["--allow", "work,buffers"]] {
            expect_refusal(gpukern(&["compare", &a, &b]).args(more), &refusal);
        }
        for more in [&["--force"][..], &["--allow", &name]] {
            let text = compare(&[&[&*a, &b], more].concat(), 0);
            assert_eq!(text.lines().next(), Some(&*format!("  {difference}")), "{more:?}");
        }
    }
    expect_refusal(
        &mut gpukern(&["compare", &a, &a, "--allow", "time"]),
        "unknown value 'time' for '--allow'; available: …",
    );
    // Only differences that are not allowed are printed.
    let mut other = quiet("b", 1e6);
    other["devices"][0]["driver"]["info"] = "590.1".into();
    other["method"]["cache"] = "cold".into();
    let b = records.record("b.json", &other);
    expect_refusal(
        &mut gpukern(&["compare", &a, &b, "--allow", "driver"]),
        "the records were not measured under the same conditions:\n  cache: hot → cold\nmeasure both sides the same \
         way, or add --allow cache to compare them anyway",
    );
}

#[test]
fn another_version_of_gpukern_is_named_and_compared() {
    let records = Records::new();
    let a = records.record("a.json", &quiet("a", 1e6));
    let mut other = quiet("b", 1e6);
    other["version"] = "9.9.9".into();
    let b = records.record("b.json", &other);
    assert_eq!(compare(&[&a, &b], 0).lines().next(), Some("  gpukern: 0.1.0 → 9.9.9"));
}

#[test]
fn thresholds_are_kept_and_crossed() {
    let records = Records::new();
    let [a, b] = [records.record("a.json", &quiet("a", 1e6)), records.record("b.json", &quiet("b", 1.05e6))];
    let gate = |text: &str, code: i32| {
        let gate = records.write("thresholds.toml", text);
        findings(&[&a, &b, "--gate", &gate], code)
    };
    let text = gate("[[threshold]]\ncase = 'lu/*'\nmax-slowdown = '8%'\nmax-time = '2ms'\nmin-rate = '10 GFLOP/s'", 0);
    assert_eq!(text.lines().nth(1), Some("all cases: within its max-slowdown"));
    insta::assert_snapshot!(gate("[[threshold]]\ncase = '*case-0*'\nmax-slowdown = '3%'\nmax-time = '1.01ms'", 1), @"
    all cases: p < 0.0001

    threshold  lu/case-0/f32/1024x1024: 5.000 % slower, max-slowdown is 3 %
    threshold  lu/case-0/f32/1024x1024: takes 1.050 ms, max-time is 1.01 ms
    slowed most: lu/case-0/1024x1024, which takes 5 % longer
    2 thresholds crossed, 2 slower (changes below 2 % are ignored)
    ");
    insta::assert_snapshot!(gate("[[threshold]]\ncase = '*'\nmin-share = '60%'", 1), @"
    all cases: p < 0.0001

    threshold  *: undecided: 2 cases without a share of a hardware limit, which
      min-share needs (measured with --no-peak?)
    slowed most: lu/case-0/1024x1024, which takes 5 % longer
    2 slower, 1 threshold undecided (changes below 2 % are ignored)
    ");
    // A case within the looser of two thresholds may still cross the stricter one.
    let threshold = |most: &str| format!("[[threshold]]\ncase = '*'\nmax-slowdown = '{most}'\n");
    gate(&threshold("8%"), 0);
    gate(&(threshold("8%") + &threshold("3%")), 1);
    gate(&(threshold("8%") + &threshold("5.05%")), 1);
    for (text, message) in [
        (
            "case = 'mat*'\nmax-time = '1s'",
            "@/thresholds.toml: the threshold for 'mat*' matches no case; `*` stands for any text",
        ),
        (
            "case = '*'\nmax-tiem = '1s'",
            "@/thresholds.toml:3: unknown field 'max-tiem'; did you mean 'max-time'? available: case, max-slowdown, \
             max-time, min-share, min-rate, min-bandwidth, max-spills",
        ),
    ] {
        let gate = records.write("thresholds.toml", &format!("[[threshold]]\n{text}"));
        expect_refusal(&mut gpukern(&["compare", &a, &b, "--gate", &gate]), message);
    }
}

#[test]
fn a_threshold_of_what_the_candidate_did_not_measure_is_not_kept_in_silence() {
    let records = Records::new();
    let mut short = quiet("b", 1e6);
    short["cases"].as_array_mut().expect("cases").pop();
    let [a, b] = [records.record("a.json", &quiet("a", 1e6)), records.record("b.json", &short)];
    let gate = |case: &str, code: i32| {
        let gate = records.write("thresholds.toml", &format!("[[threshold]]\ncase = '{case}'\nmax-slowdown = '8%'"));
        findings(&[&a, &b, "--gate", &gate], code)
    };
    let lost = gate("*", 4);
    assert!(lost.contains("undecided: 1 case that the candidate did not measure"), "{lost}");
    insta::assert_snapshot!(gate("*case-1*", 4), @"
    lu/case-0/1024x1024: within ±2 %

    gone  lu/case-1/f32/1024x1024: only in the baseline

    threshold  *case-1*: undecided: the candidate measured none of its cases
    1 same, 1 gone, 1 threshold undecided (changes below 2 % are ignored)
    1 case of the baseline did not run in the candidate; if that is intended, add
      --allow gone.
    ");
}

#[test]
fn thresholds_that_need_no_baseline_bind_cases_that_are_new_or_have_other_inputs() {
    let records = Records::new();
    let mut short = quiet("a", 1e6);
    short["cases"].as_array_mut().expect("cases").pop();
    let of_inputs = |started, inputs: &str| {
        let mut record = quiet(started, 1e6);
        record["cases"].as_array_mut().expect("cases").truncate(1);
        record["cases"][0]["outcome"]["inputs"] = inputs.into();
        record
    };
    let partly = [("e", "11"), ("f", "22")].map(|(name, inputs)| {
        let mut record = quiet(name, 1e6);
        record["cases"][0]["outcome"]["inputs"] = inputs.into();
        records.record(&format!("{name}.json"), &record)
    });
    let text = compare(&[&partly[0], &partly[1]], 4);
    assert!(text.contains("\n1 case not compared, because the data or the work differ"), "{text}");
    let [fewer, all] = [records.record("a.json", &short), records.record("b.json", &quiet("b", 1e6))];
    let [old, new] = [("c", "11"), ("d", "22")]
        .map(|(name, inputs)| records.record(&format!("{name}.json"), &of_inputs(name, inputs)));
    let gate = |[a, b]: [&String; 2], case: &str, threshold: &str, code: i32| {
        let gate = records.write("thresholds.toml", &format!("[[threshold]]\ncase = '{case}'\n{threshold}"));
        let mut command = gpukern(&["compare", a, b, "--gate", &gate]);
        let text = stdout(&expect_exit(command.env("COLUMNS", "200"), code));
        let said: Vec<_> = text
            .lines()
            .filter(|line| ["threshold ", "not ", "new "].iter().any(|start| line.starts_with(start)))
            .collect();
        said.join("\n")
    };
    gate([&fewer, &all], "*case-1*", "max-time = '2ms'", 0);
    gate([&fewer, &all], "*case-1*", "max-slowdown = '3%'", 0);
    check_text(
        &gate([&fewer, &all], "*case-1*", "max-time = '1us'", 1),
        "new  lu/case-1/f32/1024x1024: only in the candidate: 1.000 ms\nthreshold  lu/case-1/f32/1024x1024: takes \
         1.000 ms, max-time is 1 µs",
    );
    let other = "not compared  lu/case-0/f32/1024x1024: measured on both sides: its inputs changed: other contents in \
                 files, or from the inputs command (11 → 22); 1.000 ms → 1.000 ms";
    assert_eq!(gate([&old, &new], "*", "max-time = '2ms'", 0), other);
    gate([&old, &new], "*", "max-time = '1us'", 1);
    let undecided = "threshold  *: undecided: 1 case that solves another problem than in the baseline, so that max-slowdown \
                     compares nothing";
    assert_eq!(gate([&old, &new], "*", "max-slowdown = '3%'", 4), format!("{other}\n{undecided}"));
    gate([&old, &old], "*", "max-slowdown = '3%'", 0);
}

#[test]
fn mistakes_on_the_command_line_are_answered_with_the_remedy() {
    let records = Records::new();
    records.record("a.json", &quiet("a", 1e6));
    records.write("not.json", "hello");
    expect_refusals(
        records.0.path(),
        "
        $ gpukern compare
        no baseline given; write `gpukern compare BASELINE.json CANDIDATE.json`, or --baseline FILE
        $ gpukern compare --baseline @/a.json
        no candidate given; write `gpukern compare BASELINE.json CANDIDATE.json`, or --candidate FILE
        $ gpukern compare - -
        standard input ('-') is given twice; it holds one record
        $ gpukern compare @/a.json /nonexistent.json
        cannot read '/nonexistent.json': no such file
        $ gpukern compare @/a.json @/not.json
        cannot use '@/not.json': it is not JSON; a record begins with {\"schema\":\"gpukern-run/…\"; `gpukern \
        bench` and `gpukern run` write one with --json PATH
        $ gpukern compare @/a.json @/a.json --min-effect tiny
        --min-effect: malformed percentage 'tiny'; write a percentage from 0% to 1000%, such as 2%
        $ gpukern compare @/a.json @/a.json --gate /nonexistent.toml
        cannot read thresholds '/nonexistent.toml': no such file; `gpukern help gate` shows a file
        ",
    );
}

#[test]
fn a_record_may_come_from_standard_input_and_the_comparison_go_to_a_file() {
    let records = Records::new();
    let a = records.record("a.json", &quiet("a", 1e6));
    let path: PathBuf = records.0.path().join("out.json");
    let mut child = gpukern(&["compare", "-", &a, "--json"])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(quiet("b", 1e6).to_string().as_bytes()).expect("written");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    line(&stdout(&output), "2 same (changes below 2 % are ignored)");
    let document = read_json(&path);
    assert_eq!(document["cases"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_comparison_is_written_as_tests_for_ci_systems() {
    let records = Records::new();
    let [a, b] = [records.record("a.json", &quiet("a", 1e6)), records.record("b.json", &quiet("b", 1.05e6))];
    let path = records.0.path().join("kernels.xml");
    let output = expect_exit(gpukern(&["compare", &a, &b, "--json", "-", "--junit"]).arg(&path), 1);
    let document: Value = serde_json::from_str(&stdout(&output)).expect("standard output is JSON alone");
    check_comparison(&document);
    let text = std::fs::read_to_string(path).expect("written");
    let failures = |text: &str| {
        let xml = roxmltree::Document::parse(text).expect("XML");
        xml.descendants().filter_map(|node| node.attribute("failures").map(String::from)).collect::<Vec<_>>()
    };
    assert_eq!(failures(&text), ["2", "2"], "{text}");
    let text = compare(&[&a, &a, "--junit", "-"], 0);
    assert_eq!(failures(&text), ["0", "0"], "{text}");
    expect_refusal(
        &mut gpukern(&["compare", &a, &a, "--junit", "-", "--json", "-"]),
        "--json and --junit both name standard output ('-'); give one of them a file",
    );
}

#[test]
fn names_that_would_act_on_a_terminal_are_printed_as_text() {
    let records = Records::new();
    let mut nasty = quiet("a", 1e6);
    nasty["cases"][0]["id"] = "<b>\u{1b}[2J\u{7}".into();
    let path = records.record("a.json", &nasty);
    let row = compare(&[&path, &path], 0);
    assert_eq!(words(line(&row, " <b>")), "<b>\\u{1b}[2J\\u{7} same – – 1.000 ms");
}

/// Limits the CPU time, which other processes do not affect, to several times the usual second or two.
#[test]
#[cfg(unix)]
fn a_thousand_cases_of_a_thousand_samples_are_compared_in_seconds() {
    let records = Records::new();
    let a = records.record("a.json", &record("a", 1000, 1000, 1e6, 0.01));
    let b = records.record("b.json", &record("b", 1000, 1000, 1.001e6, 0.01));
    expect_output(&mut limited("ulimit -t 10", &gpukern(&["compare", &a, &b])), 0, &["\n1000 same"]);
}

/// Returns the command of a short bench of one small case. On a busy machine it takes longer to have the samples of a verdict.
fn short_bench(more: &[&str]) -> Command {
    let mut command = gpukern(&["bench", "matmul", "-V", "naive", "-s", "16", "--no-peak", "--precision=50%"]);
    command.arg("--max-time=5s").args(more);
    command
}

/// Writes a record of that bench, with every time multiplied by `factor`. Returns its path.
fn baseline(records: &Records, factor: f64) -> String {
    let path = records.0.path().join("measured.json");
    expect_output(short_bench(&["--json"]).arg(&path), 0, &["matmul"]);
    let mut record: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("written")).expect("JSON");
    // Other tests disturb the canary.
    record["cases"][0]["outcome"].as_object_mut().expect("an outcome").remove("conditions");
    for sample in record["cases"][0]["outcome"]["samples"].as_array_mut().expect("samples") {
        sample["device"] = (sample["device"].as_f64().expect("a number") * factor).into();
    }
    records.record("baseline.json", &record)
}

#[test]
fn a_bench_is_judged_against_a_baseline_and_exits_as_compare_does() {
    let records = Records::new();
    let same = baseline(&records, 1.0);
    let path = records.0.path().join("run.json");
    let path = path.to_str().expect("UTF-8");
    // On a busy machine the cases may stay undecided.
    let judged = |output: &Output, code| {
        let said = stdout(output) + &stderr(output);
        let is_open = said.contains("\n1 undecided (") && !said.contains("not slower by");
        let code = if is_open { 4 } else { code };
        assert_eq!(output.status.code(), Some(code), "{said}");
    };
    let output = run(&mut short_bench(&["--compare", &same, "--min-effect", "900%", "--json", path]));
    judged(&output, 0);
    let text = stdout(&output);
    assert_eq!(line(&text, "matmul f32"), "matmul f32, uniform input, all answers verified");
    assert!(text.contains(" (changes below 900 % are ignored)\n"), "{text}");
    let faster = baseline(&records, 0.02);
    let options = ["--process-noise", "50%", "--compare", &faster, "--json", "-"];
    let output = run(&mut short_bench(&options));
    judged(&output, 1);
    let record: Value = serde_json::from_str(&stdout(&output)).expect("standard output is the record alone");
    assert_eq!(record["cases"].as_array().map(Vec::len), Some(1));
    // From here on, times are made up: what a busy machine measures may be of any width.
    let side = |name: &str, time: f64| {
        let mut record = read_json(Path::new(path));
        // Of the first process alone: on a busy machine, the record has further rounds.
        record["cases"].as_array_mut().expect("cases").truncate(1);
        record.as_object_mut().expect("a record").remove("processes");
        let outcome = record["cases"][0]["outcome"].as_object_mut().expect("an outcome");
        outcome.remove("conditions");
        let sample = outcome["samples"][0].clone();
        let samples = (0..50).map(|index| {
            let mut sample = sample.clone();
            sample["device"] = (time * (1.0 + 0.001 * f64::from(index % 7))).into();
            sample
        });
        outcome["samples"] = samples.collect();
        record["started"] = name.into();
        records.record(name, &record)
    };
    let candidate = side("candidate.json", 1e6);
    // `compare` reads the written record.
    compare(&[&side("fiftieth.json", 2e4), &candidate, "--process-noise", "50%"], 1);
    // With one process per side on the CPU, other programs may have caused the change, unless it is enormous.
    compare(&[&side("enormous.json", 1e3), &candidate], 1);
    let seventh = side("seventh.json", 1.5e5);
    expect_output(
        &mut gpukern(&["compare", &seventh, &candidate]),
        4,
        &["change may just be a busy moment", "for n in $(seq 2 5); do"],
    );
}

#[test]
#[cfg(unix)]
fn the_commands_that_a_comparison_prints_run_as_they_are() {
    let records = Records::new();
    let path = |name: &str| records.0.path().join(name).to_str().expect("UTF-8").to_string();
    let [old, new] = ["an old.json", "new.json"].map(path);
    for (path, threads) in [(&old, "1"), (&new, "2")] {
        expect_exit(short_bench(&["--json", path]).env("LP_NUM_THREADS", threads), 0);
    }
    let text = stdout(&run(gpukern(&["compare", &old, &new, "--force"]).env("COLUMNS", "80")));
    let recipe = text
        .split_once("these commands should decide ")
        .and_then(|(_, rest)| rest.split_once(":\n"))
        .expect("commands")
        .1;
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", recipe]).env("COLUMNS", "80").env("GPUKERN_CONFIG", "").output().expect("a shell");
    let followed = stdout(&output);
    let sides = words(&followed).contains(" (changes below ") && !followed.contains("only 1 process");
    assert!(sides, "{followed}{}", stderr(&output));
    let threads = |path: &str| read_json(Path::new(path))["origin"]["environment"]["LP_NUM_THREADS"].clone();
    assert!(threads(&old) == "1" && threads(&new) == "2");
    assert_eq!(read_json(Path::new(&old))["processes"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_baseline_too_small_to_decide_is_reported_before_measuring() {
    let records = Records::new();
    let same = baseline(&records, 1.0);
    let said = |more: &[&str]| {
        let output = run(short_bench(&["--compare", &same, "--budget", "0"]).args(more));
        stderr(&output)
    };
    let notes = |more: &[&str]| words(said(more).split("device 0").next().unwrap_or_default());
    // A long command is wrapped, with a backslash at the end of a line.
    let text = steady(&notes(&[])).replace(" \\ ", " ");
    let (start, end) = text.split_once(" gpukern bench matmul ").expect("a command");
    assert_eq!(
        start,
        "note the baseline has 1 process; with fewer than 3, a verdict on a software device also needs CPU times that confirm it. Add more \
         first:"
    );
    let (_, end) = end.split_once(" --processes 5 --resume @/baseline.json ").expect("more processes");
    assert_eq!(end, "note this run has 1 process and needs 3 or more: add --processes 5");
    assert_eq!(notes(&["--process-noise", "5%"]), "");
}

#[test]
fn a_report_of_two_sides_shows_the_verdicts_of_their_comparison() {
    let records = Records::new();
    let side = |name: &str, center: f64| {
        [0, 1, 2].map(|i| {
            records.record(&format!("{name}{i}.json"), &quiet(&format!("{name}{i}"), center + 1e3 * f64::from(i)))
        })
    };
    let (a, b) = (side("a", 1e6), side("b", 1.06e6));
    let report = |more: &[&str]| {
        let mut command = gpukern(&["report", "-o", "-", "--baseline"]);
        command.args(&a).arg("--candidate").args(&b).args(more);
        command
    };
    let page = |more: &[&str]| stdout(&expect_exit(&mut report(more), 0));
    let text = page(&[]);
    let verdict = |page: &str| {
        let is_verdict =
            |line: &str| ["<p class=\"verdict\">", "<p>No verdict"].iter().any(|start| line.starts_with(start));
        let lines: Vec<_> = page.lines().skip_while(|line| !is_verdict(line)).take(2).collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(verdict(&text), @r#"
    <p class="verdict">slowed most: lu/case-0/f32/1024x1024, which takes 6 % longer.</p>
    <p class="quiet">candidate compared with baseline, 3 processes each: 2 slower (changes below 2 % are ignored).</p>
    "#);
    let row = r#"</th><td class="w" data-name="verdict"><span class="slower">SLOWER</span></td>"#;
    assert_eq!(text.matches(row).count(), 2, "{text}");
    assert_eq!(
        verdict(&page(&["--min-effect", "20%"])).lines().next(),
        Some(
            r#"<p class="verdict">candidate compared with baseline, 3 processes each: 2 same (changes below 20 % are ignored).</p>"#
        )
    );
    let mut other = quiet("c", 1e6);
    other["devices"][0]["driver"]["info"] = "590.1".into();
    let c = records.record("c.json", &other);
    expect_refusal(
        &mut report(&[&c]),
        "the records were not measured under the same conditions:\n  driver: NVIDIA 580.159.04 (2435301632) → NVIDIA \
         580.159.04 (2435301632) and NVIDIA 590.1 (2435301632)\nif the driver is what you want to judge, add --allow \
         driver",
    );
    insta::assert_snapshot!(verdict(&page(&[&c, "--force"])), @r#"
    <p class="verdict">undecided: lu/case-0/f32/1024x1024 takes 0.9696 … 1.067 times as long (95 % interval).</p>
    <p class="quiet">candidate compared with baseline, 4 and 3 processes: 2 undecided (changes below 2 % are ignored).</p>
    "#);
    // Two records are two sides; any other number is not compared.
    let two = |more: &[&str]| stdout(&expect_exit(gpukern(&["report", "-o", "-", &a[0], &c]).args(more), 0));
    let same = r#"<p class="verdict">c.json compared with a0.json: 2 same (changes below 2 % are ignored).</p>"#;
    assert!(verdict(&two(&["--force"])).starts_with(same));
    let none = verdict(&two(&[]));
    assert_eq!(
        none.split('(').next(),
        Some("<p>No verdict, because the records were not measured under the same conditions ")
    );
    expect_refusal(
        &mut gpukern(&["report", "-o", "-", &a[0], "--force"]),
        "--allow, --force, --min-effect and --process-noise are about a comparison; name two records, or --baseline \
         and --candidate",
    );
    expect_exit(&mut gpukern(&["report", "-o", "-", "--baseline", &a[0]]), 2);
}

#[test]
fn records_of_two_devices_are_a_fleet_and_not_two_sides() {
    let records = Records::new();
    let side = |name: &str, times: [f64; 2]| {
        let mut other = quiet(&format!("{name}2"), times[1]);
        (other["devices"][0]["name"], other["devices"][0]["vendor_id"]) = ("Radeon Pro W7900".into(), 0x1002.into());
        let first = records.record(&format!("{name}1.json"), &quiet(&format!("{name}1"), times[0]));
        [first, records.record(&format!("{name}2.json"), &other)]
    };
    let [a, b] = [side("a", [1e6, 2e6]), side("b", [1e6, 2.2e6])];
    let text = stdout(&expect_exit(gpukern(&["report"]).args(&a).env("COLUMNS", "80"), 0));
    let (tables, fleet) = text.split_once("\nover 2 devices, time").unwrap_or_else(|| panic!("{text}"));
    assert!(tables.contains("a1.json\n") && tables.contains("a2.json\n") && !text.contains("candidate"), "{text}");
    assert!(words(fleet).contains("÷ fastest device case fastest device slowest ÷ fastest"), "{fleet}");
    assert!(words(fleet).contains("2.000 Radeon Pro W7900"), "{fleet}");
    let mut command = gpukern(&["compare", "--json", "-", "--baseline"]);
    let output = expect_exit(command.args(&a).arg("--candidate").args(&b), 1);
    let fleet = serde_json::from_str::<Value>(&stdout(&output)).expect("JSON")["fleet"].take();
    assert_eq!((&fleet["devices"], &fleet["cases"][0]["slower_percent"]), (&json!(2), &json!(50.0)), "{fleet}");
    assert_eq!(fleet["cases"][0]["worst"]["device"], "Radeon Pro W7900", "{fleet}");
    assert_eq!((&fleet["vendors"][0]["name"], &fleet["vendors"][1]["name"]), (&json!("AMD"), &json!("NVIDIA")));
}

#[test]
fn undecided_cases_are_measured_again_in_other_processes_whose_records_are_kept() {
    let records = Records::new();
    let baseline = baseline(&records, 1.0);
    let folder = records.0.path().join("rounds");
    let kept = records.0.path().join("kept.json");
    let options = ["--compare", &baseline, "--process-noise", "900%", "--budget", "9s", "--rounds"];
    let output = expect_exit(short_bench(&options).arg(&folder).arg("--json").arg(&kept), 4);
    line(&stderr(&output), "round 2: 1 undecided, 9 s of 9 s left");
    let text = words(&stdout(&output));
    assert!(text.contains(" 1 undecided (") && text.contains(" A longer --budget may decide 1 case."), "{text}");
    // The record has every round, and its later readers take them for processes.
    let record = read_json(&kept);
    let processes = 1 + std::fs::read_dir(&folder).expect("a folder").count();
    let measured: Vec<_> =
        record["cases"].as_array().expect("cases").iter().map(|case| case["process"].as_u64().unwrap_or(0)).collect();
    assert_eq!(record["processes"].as_array().map(Vec::len), Some(processes), "{text}");
    assert_eq!(measured, (0..processes as u64).collect::<Vec<_>>(), "one case in each");
    let shown = stdout(&expect_exit(gpukern(&["report"]).arg(&kept), 0));
    assert!(shown.contains(&format!("{processes} processes")), "{shown}");
    let resumed = processes.to_string();
    let mut resume = short_bench(&["--processes", &resumed, "--resume"]);
    assert!(stderr(&expect_exit(resume.arg(&kept), 0)).contains(", 0 to go"));
    let round = folder.join("round-2.json");
    let text = stdout(&run(gpukern(&["compare", "--json", "-", &baseline]).arg(round)));
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["cases"][0]["id"], "matmul/naive/f32/16x16x16");
    expect_refusal(
        short_bench(&options).arg(&folder),
        "cannot keep rounds in '@/rounds': it is not empty; name a new folder",
    );
    let mut none = short_bench(&["--compare", &baseline, "--process-noise", "900%", "--budget", "0s"]);
    let said = stderr(&expect_exit(&mut none, 4));
    assert!(!said.contains("round 2"), "{said}");
}

#[test]
fn further_rounds_measure_the_hosts_cores_where_those_are_undecided() {
    let records = Records::new();
    let [first, again] = ["first.json", "again.json"].map(|name| records.0.path().join(name));
    expect_exit(short_bench(&["--host", "--json"]).arg(&first), 0);
    forget_conditions(&first);
    let folder = records.0.path().join("rounds");
    let options = ["--host", "--process-noise", "900%", "--budget", "6s", "--compare"];
    let mut bench = short_bench(&options);
    let output = run(bench.arg(&first).arg("--rounds").arg(&folder).arg("--json").arg(&again));
    let notes = stderr(&output);
    // On a busy machine one of the two may have become ten times as slow, which is decided.
    let undecided = line(&notes, "round 2: ").split(' ').nth(2).expect("a count");
    let round = read_json(&folder.join("round-2.json"));
    let ids: Vec<_> = round["cases"].as_array().expect("cases").iter().map(|case| &case["id"]).collect();
    assert_eq!(ids.len().to_string(), undecided, "{ids:?}");
    assert!(undecided == "1" || ids == ["matmul/naive/f32/16x16x16", "matmul/faer/f32/16x16x16"], "{ids:?}");
    // A record of the host alone can be pooled with records that have other devices.
    let alone = records.0.path().join("alone.json");
    let only = ["--host", "--only", "matmul/faer/f32/16x16x16", "--json"];
    expect_exit(short_bench(&only).arg(&alone), 0);
    let output = run(gpukern(&["compare"]).args([&first, &again]).arg("--candidate").arg(&alone));
    let code = output.status.code();
    assert!(!stdout(&output).contains("device:") && matches!(code, Some(0 | 1 | 4)), "{output:?}");
}

#[test]
fn a_baseline_that_cannot_be_compared_loses_nothing_that_was_measured() {
    let records = Records::new();
    let other = records.record("other.json", &quiet("a", 1e6));
    let path = records.0.path().join("run.json");
    // Without a common variant nothing is measured.
    let output = expect_exit(short_bench(&["--compare", &other, "--json"]).arg(&path), 2);
    check_text(
        line(&stderr(&output), "error: "),
        "error: no case was measured on both sides: the baseline has, for example, lu/naive, and the candidate \
         matmul/naive",
    );
    assert!(stdout(&output).is_empty());
    expect_exit(short_bench(&["--json"]).arg(&path), 0);
    let mut larger = read_json(&path);
    (larger["cases"][0]["id"], larger["cases"][0]["size"]) = ("matmul/naive/f32/24x24x24".into(), "24".into());
    let larger = records.record("larger.json", &larger);
    std::fs::remove_file(&path).expect("removed");
    let output = expect_exit(short_bench(&["--compare", &larger, "--json"]).arg(&path), 2);
    check_text(
        line(&stderr(&output), "error: "),
        "error: no case was measured on both sides: the baseline has, for example, matmul/naive/f32/24x24x24, and the \
         candidate matmul/naive/f32/16x16x16. Cases are matched by id, which has the kernel's name. To compare two variants or kernels, use \
         `gpukern ab` or `gpukern run k.toml a.comp b.comp --ab`",
    );
    assert!(path.is_file());
    assert_eq!(line(&stdout(&output), "matmul f32"), "matmul f32, uniform input, all answers verified");
}

#[test]
fn mistakes_about_a_baseline_are_found_before_a_device_is_opened() {
    let records = Records::new();
    records.record("a.json", &quiet("a", 1e6));
    expect_refusals(
        records.0.path(),
        "
        $ gpukern bench matmul -V naive -s 16 --min-effect 5%
        --min-effect applies only to comparisons; name a record to compare with: --compare RUN.json
        $ gpukern bench matmul -V naive -s 16 --compare /nonexistent.json
        cannot read '/nonexistent.json': no such file
        $ gpukern bench matmul -V naive -s 16 --compare @/a.json --compare @/a.json
        '@/a.json' is, or has, the same run as another record of its side; give each run once
        $ gpukern bench matmul -V naive -s 16 --compare @/a.json --budget soon
        --budget: malformed time 'soon'; write 500ms, 5s or 1m
        $ gpukern bench matmul -V naive -s 16 --compare @/a.json --process-noise much
        --process-noise: malformed percentage 'much'; write a percentage from 0% to 1000%, such as 2%
        $ gpukern bench matmul -V naive -s 16 --compare @/a.json --only none
        no selected case is called 'none'; ids look like matmul/naive/f32/16x16x16; choose its variant, dtype and size
        ",
    );

    expect_error(&mut short_bench(&["--budget", "1s"]), 2, &["--compare <RUN.json> is missing"]);
}

/// Runs git in a folder, as somebody who has no configuration.
#[cfg(unix)]
fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").current_dir(folder).args(identity).args(arguments).output().expect("git starts");
    assert!(output.status.success(), "git {arguments:?}: {}", stderr(&output));
}

/// Options with which commits are compared quickly.
#[cfg(unix)]
const QUICK: &str = "--device cpu --no-peak --max-time 100ms";

/// Returns `compare-commits` in a repository, with one process and these options of `bench`: it judges answers, but hardly times.
#[cfg(unix)]
fn compare_commits(folder: &Path, base: &str, bench: &str) -> Command {
    let mut command = gpukern(&["compare-commits", base, "--processes", "1", "--min-effect", "900%"]);
    command.args(["--bench", bench]).current_dir(folder);
    command
}

/// Makes a repository of a folder, with its files in one commit.
#[cfg(unix)]
fn commit_all(folder: &Path) {
    git(folder, &["init", "--quiet"]);
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "--message=all files"]);
}

#[cfg(unix)]
#[test]
fn a_submodule_that_is_checked_out_is_there_for_the_baseline_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let [library, path] = ["library", "app"].map(|name| folder.path().join(name));
    for path in [&library, &path] {
        std::fs::create_dir(path).expect("a folder");
    }
    std::fs::write(library.join("value.h"), "#define VALUE(x) x\n").expect("written");
    commit_all(&library);
    let include = "#extension GL_GOOGLE_include_directive : require\n#include \"a library/value.h\"\n";
    let code = COPY[0].replacen('\n', &format!("\n{include}"), 1).replace("x[i]", "VALUE(x[i])");
    std::fs::write(path.join("copy.comp"), code).expect("written");
    std::fs::write(path.join("copy.toml"), COPY[1]).expect("written");
    std::fs::write(path.join("gpukern.toml"), "[[run]]\ndescription = 'copy.toml'\n").expect("written");
    git(&path, &["init", "--quiet"]);
    let address = library.to_str().expect("UTF-8");
    git(&path, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", address, "a library"]);
    commit_all(&path);
    // Where it came from is out of reach now.
    std::fs::remove_dir_all(&library).expect("removed");
    let compared = stdout(&expect_exit(&mut compare_commits(&path, "HEAD", QUICK), 0));
    assert!(compared.contains("same code, measured once for both sides"), "{compared}");
}

#[test]
fn options_of_compare_commits_are_checked_before_anything_runs() {
    for (options, expected) in [
        (["--bench", "--devic cpu"], "--bench '--devic cpu': unknown option '--devic'; did you mean '--device'?"),
        (["--bench", "--json=x"], "--bench '--json=x': --json is set by `compare-commits` itself"),
        (["--min-effect", "5"], "--min-effect: percentage '5' has no percent sign"),
        (
            ["--gate", "gpukern-results/g.toml"],
            "--gate 'gpukern-results/g.toml' is in gpukern-results, which is replaced",
        ),
        (["--gate", "none.toml"], "cannot read thresholds 'none.toml': no such file"),
    ] {
        expect_error(gpukern(&["compare-commits"]).args(options), 2, &[expected]);
    }
}

/// A kernel that copies, and its description.
#[cfg(unix)]
const COPY: [&str; 2] = [
    "#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer X { uint x[]; };\n\
     layout(binding = 1) buffer Y { uint y[]; };\nvoid main() { uint i = gl_GlobalInvocationID.x; y[i] = x[i]; }\n",
    "[kernel]\nsource = 'copy.comp'\n[axes]\nN = 4096\n[buffer.X]\ntype = 'u32'\nshape = 'N'\nfill = 'iota'\n\
     [buffer.Y]\ntype = 'u32'\nshape = 'N'\n[dispatch]\ngroups = 'N / 64'\n",
];

/// Writes a kernel like [`COPY`] that computes the first of `values`, a reference that computes the second, and a description
/// of both.
#[cfg(unix)]
fn write_copy(folder: &Path, values: [&str; 2], description: &str) {
    for (file, value) in ["copy.comp", "reference.comp"].into_iter().zip(values) {
        std::fs::write(folder.join(file), COPY[0].replace("x[i];", value)).expect("written");
    }
    let description = format!("{description}[reference]\nkernel = 'reference.comp'\n");
    std::fs::write(folder.join("copy.toml"), description).expect("written");
}

#[cfg(unix)]
#[test]
fn a_renamed_kernel_is_compared_with_the_one_that_it_replaces() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    write("copy.comp", COPY[0]);
    write("copy.toml", COPY[1]);
    write("gpukern.toml", "[[run]]\ndescription = 'copy.toml'\n");
    commit_all(path);
    // Without a reference, the kernel before the change is one.
    write("copy.comp", &COPY[0].replace("x[i];", "x[i] + 1;"));
    let compare = |exit, allow: &[&str]| stdout(&expect_exit(compare_commits(path, "HEAD", QUICK).args(allow), exit));
    let wrong = compare(1, &[]);
    let reason = "differs from the baseline's answer (if intended, add --allow check): Y[0] is 1, the baseline has 0";
    assert!(words(&wrong).contains(reason), "{wrong}");
    let said = "copy/copy/u32/N=4096: differs from the baseline's answer: Y[0] is 1, the baseline has 0";
    line(&compare(0, &["--allow", "check"]), &format!("  {said}"));
    let comment = std::fs::read_to_string(path.join("gpukern-results/comparison.md")).expect("written");
    assert_eq!(comment.matches(&format!("\n    {said}\n")).count(), 1, "{comment}");
    write("copy.comp", COPY[0]);
    git(path, &["mv", "copy.comp", "clone.comp"]);
    git(path, &["mv", "copy.toml", "clone.toml"]);
    write("clone.toml", &COPY[1].replace("copy.comp", "clone.comp"));
    write("gpukern.toml", "[[run]]\ndescription = 'clone.toml'\n");
    let renamed = compare(0, &[]);
    line(&renamed, "Renamed: copy → clone");
    assert!(renamed.contains("same code, measured once for both sides"), "{renamed}");
    let comparison = read_json(&path.join("gpukern-results/comparison.json"));
    assert_eq!(comparison["cases"][0]["id"], "clone/clone/u32/N=4096");
    assert_eq!(comparison["unmatched"].as_array().map(Vec::len), Some(0));
    // Neither the code nor what it should compute is the same: another kernel.
    write("clone.comp", &COPY[0].replace("x[i];", "3 * x[i];"));
    let other = compare(2, &[]);
    assert!(other.contains("Nothing was compared.") && !other.contains("Renamed"), "{other}");
}

#[cfg(unix)]
#[test]
fn descriptions_of_one_name_in_two_folders_are_compared_each_with_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    for (name, expression) in [("a", "x[i];"), ("b", "3 * x[i];")] {
        std::fs::create_dir(path.join(name)).expect("made");
        write(&format!("{name}/copy.comp"), &COPY[0].replace("x[i];", expression));
        write(&format!("{name}/copy.toml"), COPY[1]);
    }
    let list = |names: &[&str]| {
        let tables = names.iter().map(|name| format!("[[run]]\ndescription = '{name}/copy.toml'\n"));
        write("gpukern.toml", &tables.collect::<String>());
    };
    list(&["b"]);
    commit_all(path);
    let compare = |exit| stdout(&expect_exit(&mut compare_commits(path, "HEAD", QUICK), exit));
    let ids = || {
        let comparison = read_json(&path.join("gpukern-results/comparison.json"));
        ["cases", "unmatched"].map(|key| {
            let listed = comparison[key].as_array().expect("a list");
            listed.iter().map(|case| case["id"].as_str().expect("an id").to_string()).collect::<Vec<_>>()
        })
    };
    // The new one has the name that the old one had.
    list(&["a", "b"]);
    let added = compare(0);
    assert!(!added.contains("Renamed") && added.contains("measured once"), "{added}");
    assert_eq!(ids(), [vec!["copy-2/copy/u32/N=4096"], vec!["copy/copy/u32/N=4096"]]);
    commit_all(path);
    list(&["b"]);
    compare(1);
    assert_eq!(ids(), [vec!["copy/copy/u32/N=4096"], vec!["copy@baseline/copy/u32/N=4096"]]);
}

/// Returns a kernel of one invocation that reads X and writes Y.
#[cfg(unix)]
fn one_invocation(body: &str) -> String {
    format!(
        "#version 450\nlayout(local_size_x = 1) in;\nlayout(binding = 0) readonly buffer X {{ float x[]; }};\n\
         layout(binding = 1) writeonly buffer Y {{ float y[]; }};\nvoid main() {{ {body} }}\n"
    )
}

/// A process that memory or space runs out on must not leave a comparison that looks complete.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_dies_ends_compare_commits_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    let double = |expression: &str| one_invocation(&format!("y[0] = {expression};"));
    write("double.comp", &double("2 * x[0]"));
    // Processes after the first continue its record; the reference of one kills it.
    write(
        "reference.sh",
        "p=$PPID\nfor i in 1 2 3 4 5; do\nif tr '\\0' ' ' < /proc/$p/cmdline | grep -q -e ' --resume'; then kill -9 $p; fi\n\
         p=$(sed 's/.*) . \\([0-9]*\\) .*/\\1/' /proc/$p/stat)\ndone\ncp \"$1/X.npy\" \"$2/Y.npy\"\n",
    );
    write(
        "double.toml",
        "[kernel]\nsource = 'double.comp'\n[buffer.X]\ntype = 'f32'\nshape = 1\nfill = 'zero'\n[buffer.Y]\ntype = 'f32'\n\
         shape = 1\n[dispatch]\ngroups = 1\n[reference]\ncommand = 'sh reference.sh {in} {out}'\n",
    );
    write("gpukern.toml", "[[run]]\ndescription = 'double.toml'\n");
    commit_all(path);
    write("double.comp", &double("x[0] + x[0]"));
    let mut command = gpukern(&["compare-commits", "HEAD", "--processes", "2", "--min-effect", "0.1%"]);
    let output = command.args(["--bench", QUICK]).current_dir(path).output().expect("output");
    let said = stdout(&output);
    assert!(said.contains("Process 2 of 2 ended without a result: signal 9."), "{said}{}", stderr(&output));
    // One process may already have found it slower.
    assert!([Some(1), Some(3)].contains(&output.status.code()), "{said}");
}

#[cfg(unix)]
#[test]
fn a_kernel_that_became_wrong_for_other_inputs_fails_even_by_a_reference_with_the_same_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    let most = |least: &str| {
        let each = "for (uint i = 0; i < 500; i++) most = max(most, x[i]);";
        one_invocation(&format!("float most = {least};\n{each}\ny[0] = most;"))
    };
    let description = "[kernel]\nsource = 'most.comp'\n[axes]\nN = 500\n[buffer.X]\ntype = 'f32'\nshape = 'N'\nfill = 'varied'\n\
                       [buffer.Y]\ntype = 'f32'\nshape = 1\n[dispatch]\ngroups = 1\n[reference]\nkernel = 'right.comp'\n";
    write("most.comp", &most("x[0]"));
    write("right.comp", &most("-1e30"));
    write("most.toml", description);
    write("gpukern.toml", "[[run]]\ndescription = 'most.toml'\n");
    commit_all(path);
    let compare = |exit, allow: &[&str]| stdout(&expect_exit(compare_commits(path, "HEAD", QUICK).args(allow), exit));
    write("most.comp", &most("0.0"));
    // Nobody touched the check, so that no label is about it.
    for allow in [&[][..], &["--allow", "check"]] {
        let wrong = words(&compare(1, allow));
        assert!(
            wrong.contains(": right for these inputs, wrong for others: if X has only negative numbers"),
            "{wrong}"
        );
        assert!(!wrong.contains("baseline's check"), "{wrong}");
    }
    write("right.comp", &most("-0.0"));
    let by_old_check = words(&compare(1, &[]));
    let reason =
        "fails the baseline's check (if intended, add --allow check): right for these inputs, wrong for others: if X";
    assert!(by_old_check.contains(reason), "{by_old_check}");
    compare(0, &["--allow", "check"]);
}

#[cfg(unix)]
#[test]
fn a_new_kernel_that_nothing_of_the_baseline_judges_is_told_and_a_misspelt_threshold_before_measuring() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    for name in ["kept", "copy", "clone"] {
        write(&format!("{name}.comp"), COPY[0]);
        write(&format!("{name}.toml"), &COPY[1].replace("copy.comp", &format!("{name}.comp")));
    }
    write("gpukern.toml", "[[run]]\ndescription = 'kept.toml'\n[[run]]\ndescription = 'copy.toml'\n");
    commit_all(path);
    write("clone.comp", &COPY[0].replace("x[i];", "3 * x[i];"));
    write("gpukern.toml", "[[run]]\ndescription = 'kept.toml'\n[[run]]\ndescription = 'clone.toml'\n");
    let command = |case: &str| {
        write("gate.toml", &format!("[[threshold]]\ncase = '{case}'\nmax-slowdown = '900%'\n"));
        let mut command = compare_commits(path, "HEAD", QUICK);
        command.args(["--allow", "gone", "--gate", "gate.toml"]);
        command
    };
    let misspelt = stderr(&expect_exit(&mut command("kepd/*"), 2));
    assert!(misspelt.contains("the threshold for 'kepd/*' matches no case; did you mean 'kept'? "), "{misspelt}");
    assert!(!misspelt.contains("process 1 of"), "it was measured: {misspelt}");
    // A threshold may be for what is gone.
    let told = stdout(&expect_exit(&mut command("*/copy/*"), 4));
    let sentence = "Not judged by a check of the baseline, as new, or as renamed with other code and another check: clone, which \
         nothing checks (gone: copy)";
    line(&told, sentence);
    let comment = std::fs::read_to_string(path.join("gpukern-results/comparison.md")).expect("written");
    assert_eq!(comment.matches(&format!("\n{sentence}\n")).count(), 1, "{comment}");
    let row = comment.lines().find(|line| line.contains("clone/clone/u32/N=4096")).expect("it is listed");
    assert!(row.contains("only in the candidate") && row.contains("unverified: there is no reference"), "{row}");
    // All that a job reads says that it failed, and why.
    let sentence = "Nothing checks 2 cases (--require-reference); `gpukern help checks` shows how.";
    line(&stdout(&expect_exit(command("*/copy/*").arg("--require-reference"), 1)), sentence);
    let result = |name: &str| std::fs::read_to_string(path.join("gpukern-results").join(name)).expect("written");
    assert!(result("comparison.md").starts_with("**Failed: ") && result("comparison.md").contains(sentence));
    assert!(result("comparison.json").ends_with("\"exit\":1}\n"), "{}", result("comparison.json"));
    assert_eq!(result("junit.xml").matches("<failure type=\"unverified\"").count(), 2, "{}", result("junit.xml"));
}

#[cfg(unix)]
#[test]
fn an_answer_that_nobody_judges_is_newly_doubtful_if_only_the_candidate_leaves_elements_out() {
    let records = Records::new();
    let path = records.0.path();
    records.write("copy.toml", COPY[1]);
    let config = records.write("gpukern.toml", "[[run]]\ndescription = 'copy.toml'\n");
    let of = |name: &str, source: &str| {
        records.write("copy.comp", source);
        let [verified, timed] = ["verified", "timed"].map(|how| path.join(format!("{name}-{how}.json")));
        let mut verify = gpukern(&["verify", "--config", &config, "--json"]);
        let said = stderr(&expect_exit(verify.arg(&verified), 0));
        expect_exit(brief_bench(&["--config", &config, "--json"]).arg(&timed), 0);
        forget_conditions(&timed);
        ([verified, timed].map(|record| record.to_str().expect("UTF-8").to_string()), said)
    };
    let doubt = "there is no reference; Y[200] was never written: does the grid, or an `if`, leave it out, or is its value undefined?";
    let ([all, timed_all], said) = of("all", COPY[0]);
    line(&said, "note      copy/copy/u32/N=4096: unverified: there is no reference");
    let ([part, timed_part], said) = of("part", &COPY[0].replace("y[i] =", "if (i < 200u) y[i] ="));
    line(&said, &format!("note      copy/copy/u32/N=4096: unverified: {doubt}"));
    for (before, after) in [(&all, &part), (&timed_all, &timed_part)] {
        let newly = words(&compare(&[before, after], 1));
        assert!(newly.contains(&format!("DOUBTFUL copy/copy/u32/N=4096: {doubt}")), "{newly}");
        assert!(newly.contains("1 newly doubtful") && newly.contains("add --allow check"), "{newly}");
    }
    let both = words(&compare(&[&part, &part], 0));
    assert!(both.contains(&format!("doubtful on both sides copy/copy/u32/N=4096: without times: {doubt}")), "{both}");
    assert!(compare(&[&part, &all], 0).contains("1 fixed"));
    compare(&[&all, &part, "--allow", "check"], 0);
    line(&compare(&[&timed_part, &timed_part], 0), "1 same");
    // A driver that miscompiles gives the same code another answer. Floating-point numbers it may round otherwise.
    for before in [&all, &timed_all] {
        let answer = read_json(Path::new(before))["cases"][0]["outcome"]["answer"].as_str().expect("one").to_string();
        let text = std::fs::read_to_string(before).expect("a record").replace(&answer, "0123456789abcdef");
        let after = records.write("other.json", &text);
        let changed = "its answer changed, and no reference says which is right";
        let newly = words(&compare(&[before, &after], 1));
        assert!(newly.contains(&format!("DOUBTFUL copy/copy/u32/N=4096: {changed}")), "{newly}");
        compare(&[before, &after, "--allow", "check"], 0);
        let floats = |name: &str, record: &str, sums: [f64; 2]| {
            let sketch = format!(r#""sketch":[0.5,{},-0.1,1.2,{}],"answer":"#, sums[0], sums[1]);
            let text = std::fs::read_to_string(record).expect("a record").replace("u32[", "f32[");
            records.write(name, &text.replace(r#""answer":"#, &sketch))
        };
        let before = floats("f.json", before, [1.0, -0.3]);
        assert!(words(&compare(&[&before, &floats("g.json", &after, [1.001, -0.3])], 0)).contains(changed));
        let gross = floats("g.json", &after, [1.0, 0.3]);
        let newly = words(&compare(&[&before, &gross], 1));
        assert!(newly.contains(": its answer changed by more than rounding explains, and no"), "{newly}");
        compare(&[&before, &gross, "--allow", "check"], 0);
    }
}

#[cfg(unix)]
#[test]
fn a_branch_is_compared_with_where_it_left_its_base_and_a_wrong_kernel_of_both_warns() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    write("copy.comp", COPY[0]);
    write("copy.toml", &format!("{}[reference]\nkernel = 'right.comp'\n", COPY[1]));
    write("right.comp", COPY[0]);
    write("other.toml", &COPY[1].replace("copy.comp", "right.comp"));
    write("gpukern.toml", "[[run]]\ndescription = 'copy.toml'\n[[run]]\ndescription = 'other.toml'\n");
    commit_all(path);
    git(path, &["branch", "base"]);
    git(path, &["commit", "--quiet", "--allow-empty", "--message=of the branch"]);
    git(path, &["checkout", "--quiet", "base"]);
    write("copy.comp", &COPY[0].replace("x[i];", "x[i] + 0 * i;"));
    git(path, &["commit", "--quiet", "--all", "--message=of the base"]);
    git(path, &["checkout", "--quiet", "-"]);
    let compare = |base: &str, exit| stdout(&expect_exit(&mut compare_commits(path, base, QUICK), exit));
    let unchanged = compare("base", 0);
    assert!(unchanged.contains(", where this branch left base.") && unchanged.contains("measured once"), "{unchanged}");
    write("copy.comp", &COPY[0].replace("x[i];", "x[i] + 1;"));
    git(path, &["commit", "--quiet", "--all", "--message=wrong"]);
    write("copy.comp", &COPY[0].replace("x[i];", "x[i] + 2;"));
    let wrong = compare("HEAD", 4);
    assert!(wrong.contains("1 wrong on both sides"), "{wrong}");
}

#[cfg(unix)]
#[test]
fn a_description_that_one_side_lacks_is_gone_or_new_and_one_that_both_lack_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    write("copy.comp", COPY[0]);
    write("copy.toml", COPY[1]);
    let second = COPY[1].replace("[kernel]", "name = 'second'\n[kernel]").replace("4096", "8192");
    write("second.toml", &second);
    write("gpukern.toml", "[[run]]\ndescription = 'copy.toml'\n[[run]]\ndescription = 'second.toml'\n");
    commit_all(path);
    let compare = |exit| {
        let output = expect_exit(&mut compare_commits(path, "HEAD", QUICK), exit);
        stdout(&output) + &stderr(&output)
    };
    std::fs::remove_file(path.join("second.toml")).expect("it is there");
    let gone = compare(1);
    assert!(gone.contains("1 same, 1 gone"), "{gone}");
    // Nothing accepts a configuration with which the next change could not be measured.
    let mut allowed = compare_commits(path, "HEAD", QUICK);
    let accepted = stdout(&expect_exit(allowed.args(["--allow", "gone"]).env("COLUMNS", "40"), 1));
    assert!(accepted.contains("second.toml': no such file"), "{accepted}");
    assert!(accepted.contains("; put it back, or take it out of gpukern.toml"), "{accepted}");
    let comment = std::fs::read_to_string(path.join("gpukern-results/comparison.md")).expect("written");
    assert!(comment.contains("\n\nNot counted as failures (`--allow`): gone.\n\n"), "{comment}");
    assert!(
        comment.contains("In this folder, `gpukern compare-commits ")
            && comment.trim_end().ends_with("--allow gone` repeats this."),
        "{comment}"
    );
    git(path, &["commit", "--quiet", "--all", "--message=one is gone"]);
    let missing = compare(2);
    let comment = std::fs::read_to_string(path.join("gpukern-results/comparison.md")).expect("written");
    assert!(comment.contains(" In a clone, `git checkout "), "{comment}");
    assert!(missing.contains("second.toml': no such file"), "{missing}");
    write("second.toml", &second);
    let new = compare(0);
    assert!(new.contains("1 same, 1 new"), "{new}");
}

#[cfg(unix)]
#[test]
fn a_reference_that_no_longer_ends_fails_and_does_not_let_a_wrong_kernel_pass_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    write("copy.comp", COPY[0]);
    write("copy.toml", &format!("{}[reference]\ncommand = 'sh right.sh {{in}} {{out}}'\n", COPY[1]));
    write("right.sh", "cp $1/X.npy $2/Y.npy\n");
    write("other.comp", COPY[0]);
    write("other.toml", &COPY[1].replace("copy.comp", "other.comp"));
    write("gpukern.toml", "[[run]]\ndescription = 'copy.toml'\n[[run]]\ndescription = 'other.toml'\n");
    commit_all(path);
    let compare = |exit| {
        let output = expect_exit(&mut compare_commits(path, "HEAD", &format!("{QUICK} --timeout 1s")), exit);
        stdout(&output) + &stderr(&output)
    };
    write("right.sh", "while true; do sleep 1; done\n");
    let hung = words(&compare(1));
    assert!(hung.contains("newly failed") && hung.contains("did not end within 10 s"), "{hung}");
    git(path, &["commit", "--quiet", "--all", "--message=it hangs"]);
    write("copy.comp", &COPY[0].replace("x[i];", "x[i] + 1;"));
    compare(4);
}

/// Writes a kernel and a reference of these values of Y, which both call `buffer`.
#[cfg(unix)]
fn write_called(path: &Path, kernel: &str, reference: &str, buffer: &str) {
    write_copy(path, [kernel, reference], &COPY[1].replace("buffer.Y", &format!("buffer.{buffer}")));
    for file in ["copy.comp", "reference.comp"] {
        let text = std::fs::read_to_string(path.join(file)).expect("written");
        std::fs::write(path.join(file), text.replace("buffer Y", &format!("buffer {buffer}"))).expect("written");
    }
}

/// Makes a repository of a kernel that copies, and its reference.
#[cfg(unix)]
fn copying_repository() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_called(folder.path(), "x[i];", "x[i] | 0;", "Y");
    std::fs::write(folder.path().join("gpukern.toml"), "[[run]]\ndescription = 'copy.toml'\n").expect("written");
    commit_all(folder.path());
    folder
}

#[cfg(unix)]
#[test]
fn other_names_and_another_text_of_the_same_grid_are_the_same_code() {
    let folder = copying_repository();
    let path = folder.path();
    let compare = || stdout(&expect_exit(&mut compare_commits(path, "HEAD", QUICK), 0));
    let replace = |file: &str, changes: &[[&str; 2]]| {
        let text = std::fs::read_to_string(path.join(file)).expect("written");
        let text = changes.iter().fold(text, |text, [from, to]| text.replace(from, to));
        std::fs::write(path.join(file), text).expect("written");
    };
    // Other names are the same data.
    write_called(path, "x[i] + 0;", "x[i] | 0;", "OUT");
    let renamed = compare();
    assert!(!renamed.contains("not compared"), "{renamed}");
    for (file, changes) in [
        ("copy.comp", &[["uint i ", "uint index "], ["[i]", "[index]"]][..]),
        ("copy.toml", &[["'N / 64'", "'cdiv(N, 64)'"]]),
    ] {
        write_called(path, "x[i];", "x[i] | 0;", "OUT");
        replace(file, changes);
        let same = compare();
        assert!(same.contains("same code, measured once for both sides"), "{file}: {same}");
    }
}

#[cfg(unix)]
#[test]
fn a_change_of_its_own_check_does_not_hide_a_wrong_answer() {
    let folder = copying_repository();
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    let sources = |kernel: &str, reference: &str, buffer: &str| write_called(path, kernel, reference, buffer);
    let compare = |exit, allow: &[&str]| stdout(&expect_exit(compare_commits(path, "HEAD", QUICK).args(allow), exit));
    // Right by a new reference, and wrong by that of the baseline.
    sources("x[i] + 1;", "x[i] - 4294967295u;", "Y");
    let wrong = compare(1, &[]);
    line(&wrong, "This change also edits how answers are checked: copy (the reference)");
    assert!(wrong.contains("fails the baseline's check (if intended, add --allow check): Y["), "{wrong}");
    compare(0, &["--allow", "check"]);
    // Only the check changed: the code is measured once.
    sources("x[i];", "x[i] - 0;", "Y");
    let once = compare(0, &[]);
    assert!(once.contains("same code, measured once for both sides"), "{once}");
    // Without its reference, or by a wrong one, the same code may be wrong.
    write("copy.toml", COPY[1]);
    let unverified = compare(1, &[]);
    assert!(unverified.contains("no longer verified"), "{unverified}");
    sources("x[i];", "x[i] + 1;", "Y");
    line(&compare(1, &[]), "REJECTED  copy/copy/u32/N=4096: Y[0] is 0, the reference has 1");
    // A size at which nobody compares anything fails the comparison, unless that is meant.
    sources("x[i];", "x[i] | 0;", "Y");
    let other = std::fs::read_to_string(path.join("copy.toml")).expect("written").replace("N = 4096", "N = [4096, 64]");
    write("copy.toml", &other);
    git(path, &["commit", "--quiet", "--all", "--message=sizes"]);
    write("copy.toml", &other.replace("64]", "128]"));
    let gone = compare(1, &[]);
    line(&gone, "1 case of the baseline did not run in the candidate; if that is intended, add --allow gone.");
    let comment = std::fs::read_to_string(path.join("gpukern-results/comparison.md")).expect("written");
    // Beside other programs, the case that both have may be undecided.
    assert!(comment.starts_with("**Failed: 1 ") && comment.contains(", 1 gone, 1 new"), "{comment}");
    let junit = std::fs::read_to_string(path.join("gpukern-results/junit.xml")).expect("written");
    assert_eq!(junit.matches("<failure ").count(), 1, "{junit}");
    let allowed = run(compare_commits(path, "HEAD", QUICK).args(["--allow", "gone"]));
    assert!(matches!(allowed.status.code(), Some(0 | 4)), "{}", stdout(&allowed));
    // Looser checks are for the next change to use.
    write("copy.toml", &other.replace("[buffer.Y]\n", "[buffer.Y]\ncheck = { ulp = 1 }\n"));
    let loose = compare(1, &[]);
    assert!(words(&loose).contains("its check became looser: the tolerance of Y: \"exact\" → { ulp = 1 }"), "{loose}");
    let accepted = compare(0, &["--allow", "check"]);
    assert!(words(&accepted).contains("its check became looser: the tolerance of Y"), "{accepted}");
    for file in ["comparison.json", "junit.xml"] {
        let text = std::fs::read_to_string(path.join("gpukern-results").join(file)).expect("written");
        assert!(text.contains("accepted by --allow check: the answer is right, but"), "{file}: {text}");
    }
    // A check of the baseline that does not run says nothing.
    let broken = other.replace("kernel = 'reference.comp'", "command = 'false {in} {out}'");
    write("second.toml", &COPY[1].replace("[kernel]", "name = 'second'\n[kernel]"));
    write("gpukern.toml", "[[run]]\ndescription = 'copy.toml'\n[[run]]\ndescription = 'second.toml'\n");
    git(path, &["add", "second.toml"]);
    write("copy.toml", &broken);
    git(path, &["commit", "--quiet", "--all", "--message=a reference that fails"]);
    write("copy.toml", &other);
    write("copy.comp", &COPY[0].replace("x[i];", "x[i] + 0;"));
    line(&compare(1, &[]), "2 cases of the baseline could not be judged, because its reference or inputs failed");
}

#[cfg(unix)]
#[test]
fn the_check_of_the_baseline_judges_new_sizes_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    write("gpukern.toml", "[[run]]\ndescription = 'copy.toml'\n");
    write_copy(path, ["x[i];", "x[i] | 0;"], COPY[1]);
    commit_all(path);
    write_copy(path, ["x[i] + 1;", "x[i] - 4294967295u;"], &COPY[1].replace("N = 4096", "N = [256, 128]"));
    let mut command = gpukern(&["compare-commits", "HEAD", "--processes", "1", "--allow", "gone"]);
    command.args(["--bench", "--device cpu --no-peak --max-time 100ms"]);
    let wrong = stdout(&expect_exit(command.current_dir(path), 1));
    let reason = "fails the baseline's check (if intended, add --allow check): Y[";
    assert_eq!(wrong.matches(reason).count(), 2, "{wrong}");
    // Sizes of more axes are numbers, which mean others on each side: these are told, and judged by the new check only.
    let axes = |first: &str| {
        let of_four = format!("A = {first}\nB = [4, 8]\nC = [8, 16]\nN = 64");
        COPY[1].replace("N = 4096", &of_four).replace("'N'", "['A', 'B', 'C', 'N']").replace("'N / 64'", "'A * B * C'")
    };
    write_copy(path, ["x[i];", "x[i] | 0;"], &axes("2"));
    git(path, &["commit", "--quiet", "--all", "--message=four axes"]);
    write_copy(path, ["x[i] + 0;", "x[i] | 0;"], &axes("[2, 4]"));
    // The verdicts, and so the exit code, depend on the machine.
    let more = stdout(&command.output().expect("gpukern runs"));
    assert!(
        more.contains("new  copy/copy/u32/A=4,B=4,C=8,N=64 and 3 more")
            && !more.contains("REJECTED")
            && !more.contains("FAILED"),
        "{more}"
    );
}

#[cfg(unix)]
#[test]
fn a_renamed_source_is_the_same_kernel_under_an_unchanged_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    let described = |source: &str| {
        let reference = "[reference]\ncommand = 'sh reference.sh {in} {out}'\n";
        write("copy.toml", &(COPY[1].replace("copy.comp", source) + reference));
    };
    write("copy.comp", COPY[0]);
    described("copy.comp");
    write("reference.sh", ". ./answer.sh\n");
    write("answer.sh", "cp \"$1/X.npy\" \"$2/Y.npy\"\n");
    write("gpukern.toml", "[[run]]\ndescription = 'copy.toml'\n");
    commit_all(path);
    write("clone.comp", COPY[0]);
    described("clone.comp");
    // The reference does not name this file.
    write("unused.sh", "exit 1\n");
    let mut command = gpukern(&["compare-commits", "HEAD", "--processes", "1"]);
    command.args(["--bench", "--device cpu --no-peak --max-time 50ms"]);
    let renamed = stdout(&expect_exit(command.current_dir(path), 0));
    assert!(!renamed.contains("what decides whether") && renamed.contains("measured once"), "{renamed}");
}

#[cfg(unix)]
#[test]
fn further_processes_forget_no_wrong_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect("written");
    let described = |name: &str, reference: &str| {
        write(
            &format!("{name}.toml"),
            &format!("{}[reference]\n{reference}\n", COPY[1].replace("copy.comp", &format!("{name}.comp"))),
        );
    };
    write("quick.comp", COPY[0]);
    write("quick.toml", &COPY[1].replace("copy.comp", "quick.comp"));
    write("copy.comp", COPY[0]);
    described("copy", "command = 'sh reference.sh {in} {out}'");
    // The command does not name this file.
    write("reference.sh", ". ./answer.sh\n");
    write("answer.sh", "cp \"$1/X.npy\" \"$2/Y.npy\"\n");
    let listed = "[[run]]\ndescription = 'quick.toml'\n[[run]]\ndescription = 'copy.toml'\n";
    write("gpukern.toml", listed);
    write("gate.toml", "[[threshold]]\ncase = '*'\nmax-slowdown = '900%'\n");
    commit_all(path);
    // Another kernel is measured in further processes: no two samples are within this of each other.
    let compare = |exit| {
        let mut command = gpukern(&["compare-commits", "HEAD", "--processes", "2", "--min-effect", "0.001%"]);
        command.args(["--bench", "--device cpu --no-peak --max-time 50ms", "--gate", "gate.toml"]);
        let output = expect_exit(command.current_dir(path), exit);
        assert!(stderr(&output).contains("process 2 of 2"), "{output:?}");
        stdout(&output)
    };
    write("quick.comp", &COPY[0].replace("x[i];", "x[i] + 0;"));
    write("copy.comp", &COPY[0].replace("x[i];", "0 * x[i];"));
    let zeros = "{ head -c -16384 \"$1/X.npy\"; head -c 16384 /dev/zero; } > \"$2/Y.npy\"\n";
    write("answer.sh", zeros);
    let wrong = compare(1);
    assert!(wrong.contains("fails the baseline's check (if intended, add --allow check): Y["), "{wrong}");
    line(&wrong, "This change also edits how answers are checked: copy (answer.sh)");
    // The kernel did not change, and what its reference reads breaks.
    write("copy.comp", COPY[0]);
    line(&compare(1), "REJECTED  copy/copy/u32/N=4096: ");
    // A new kernel that is wrong, one that does not compile, and another gate.
    write("answer.sh", "cp \"$1/X.npy\" \"$2/Y.npy\"\n");
    write("copy.comp", COPY[0]);
    write("new.comp", &COPY[0].replace("x[i];", "x[i] + 1;"));
    described("new", "kernel = 'copy.comp'");
    write("broken.comp", "void main() { return 1; }\n");
    described("broken", "kernel = 'copy.comp'");
    write(
        "gpukern.toml",
        &format!("{listed}[[run]]\ndescription = 'new.toml'\n[[run]]\ndescription = 'broken.toml'\n"),
    );
    write("gate.toml", "[[threshold]]\ncase = '*'\nmax-slowdown = '999%'\n");
    let new = compare(1);
    line(&new, "This change also edits the gate that judges it.");
    line(&new, "REJECTED  new/new/u32/N=4096: a new case");
    line(&new, "FAILED  broken/broken/");
}

#[cfg(unix)]
#[test]
fn the_script_for_ci_compares_the_files_with_those_of_a_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let [copy, description] = COPY;
    // `PREPARE` makes the source on both sides.
    std::fs::write(path.join("copy.in"), copy).expect("written");
    std::fs::write(path.join("copy.toml"), description).expect("written");
    let compare = |base: &str| {
        compare_commits(path, base, QUICK).args(["--prepare", "cp copy.in copy.comp"]).output().expect("it starts")
    };
    commit_all(path);
    std::fs::write(path.join("other.toml"), description.replace("copy.comp", "other.comp")).expect("written");
    std::fs::write(path.join("other.comp"), copy.replace("= x[i]", "= 2 * x[i]")).expect("written");
    let configuration = "[[run]]\ndescription = 'copy.toml'\n[[run]]\ndescription = 'other.toml'\n";
    std::fs::write(path.join("gpukern.toml"), configuration).expect("written");
    let first = compare("HEAD");
    assert_eq!(first.status.code(), Some(0), "{}{}", stdout(&first), stderr(&first));
    assert!(stdout(&first).contains("HEAD has no gpukern.toml"), "{}", stdout(&first));
    git(path, &["add", "gpukern.toml", "other.*"]);
    git(path, &["commit", "--quiet", "--message=a configuration"]);
    // An unchanged kernel is measured once for both sides, and a changed one in turns.
    std::fs::write(path.join("copy.in"), copy.replace("x[i];", "x[i] + 0;")).expect("written");
    std::fs::write(path.join("reference.comp"), copy.replace("x[i];", "x[i] | 0;")).expect("written");
    let with_reference = format!("{description}[reference]\nkernel = 'reference.comp'\n");
    std::fs::write(path.join("copy.toml"), with_reference).expect("written");
    let changed = compare("HEAD");
    assert_eq!(changed.status.code(), Some(0), "{}{}", stdout(&changed), stderr(&changed));
    line(&stdout(&changed), "This change also edits how answers are checked: copy (the reference)");
    let results = |name: &str| read_json(&path.join("gpukern-results").join(name));
    let comparison = results("comparison.json");
    let is_once = |case: &Value| case["test"] == "same code, measured once for both sides";
    let cases = comparison["cases"].as_array().expect("cases").iter();
    let cases: Vec<_> = cases.map(|case| (case["id"].as_str().expect("an id"), is_once(case))).collect();
    assert_eq!(cases, [("copy/copy/u32/N=4096", false), ("other/other/u32/N=4096", true)]);
    let samples = |name: &str, case: usize| results(name)["cases"][case]["outcome"]["samples"].clone();
    assert_ne!(samples("baseline.json", 0), samples("candidate.json", 0));
    // Uncommitted changes count.
    std::fs::write(path.join("copy.in"), copy.replace("x[i];", "z[i];")).expect("written");
    let second = compare("HEAD");
    assert_eq!(second.status.code(), Some(1), "{}{}", stdout(&second), stderr(&second));
    let comparison = std::fs::read_to_string(path.join("gpukern-results/comparison.md")).expect("written");
    assert!(
        comparison.starts_with("**Failed: 1 newly failed") && comparison.contains("'z' : undeclared"),
        "{comparison}"
    );
    let is_written = |file: &&str| path.join("gpukern-results").join(file).is_file();
    assert!(["baseline.json", "candidate.json", "junit.xml", "report.html"].iter().all(is_written));
    // Reasons of the baseline do not name the folder that it was in.
    git(path, &["commit", "--quiet", "--all", "--message=broken"]);
    std::fs::write(path.join("copy.in"), copy).expect("written");
    let mended = compare("HEAD");
    assert_eq!(mended.status.code(), Some(0), "{}{}", stdout(&mended), stderr(&mended));
    let comparison = std::fs::read_to_string(path.join("gpukern-results/comparison.md")).expect("written");
    assert!(comparison.contains("; before: copy.toml:2: kernel.source: copy.comp:"), "{comparison}");
    // A mistake keeps them, and its own are no longer green.
    std::fs::write(path.join("gpukern.toml"), "[[run]]\ndescription = 'none.toml'\n").expect("written");
    let third = compare("HEAD");
    assert_eq!(third.status.code(), Some(2), "{}{}", stdout(&third), stderr(&third));
    line(&stdout(&third), "The results of the last run are now in gpukern-results/earlier.");
    assert!(std::fs::read_to_string(path.join("gpukern-results/junit.xml")).is_ok_and(|file| file.contains("<error ")));
    assert!(stderr(&third).contains("gpukern.toml:1: cannot read"), "{}", stderr(&third));
    assert!(path.join("gpukern-results/earlier/baseline.json").is_file());
    // A clean end leaves no work tree behind.
    let trees = Command::new("git").current_dir(path).args(["worktree", "list"]).output().expect("git starts");
    assert_eq!(stdout(&trees).lines().count(), 1, "{}", stdout(&trees));
}

#[test]
fn a_verified_case_beside_a_measured_one_is_told_how_to_get_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let [verified, measured] = ["verified.json", "measured.json"].map(|name| folder.path().join(name));
    let verify =
        ["verify", "matmul", "-V", "naive", "-s", "8", "-t", "f32", "--input=uniform", "--layout=nn", "--json"];
    expect_exit(gpukern(&verify).arg(&verified), 0);
    expect_exit(gpukern(&["bench", "matmul", "-V", "naive", "-s", "8", "--json"]).arg(&measured).args(BRIEF), 0);
    for (sides, states, side) in [
        ([&verified, &measured], "verified only → measured", "baseline"),
        ([&measured, &verified], "measured → verified only", "candidate"),
    ] {
        let reason = format!(
            "there is nothing to compare: matmul/naive/f32/8x8x8: {states}; the {side} has no time of it, because \
             `verify` takes none; measure both with `bench` or `run`"
        );
        expect_error(gpukern(&["compare", "--allow=validation-layers"]).args(sides), 2, &[&reason]);
    }
}

#[test]
fn what_is_right_on_neither_side_leaves_a_comparison_undecided() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("copy.comp"), COPY[0].replace("x[i];", "x[i] + 1;")).expect("written");
    std::fs::write(path("right.comp"), COPY[0]).expect("written");
    for (reference, exit, said) in [
        ("kernel = 'right.comp'", 1, "wrong on both sides"),
        ("command = 'false {out}'", 2, "cannot run on either side"),
    ] {
        std::fs::write(path("copy.toml"), format!("{}[reference]\n{reference}\n", COPY[1])).expect("written");
        let record = path("run.json");
        let _ = std::fs::remove_file(&record);
        expect_exit(gpukern(&["run", "--json"]).arg(&record).arg(path("copy.toml")).args(BRIEF), exit);
        expect_output(gpukern(&["compare"]).args([&record, &record]), 4, &[said]);
    }
}
