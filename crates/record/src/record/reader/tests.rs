use super::*;
use crate::basis::dtype::DType;
use crate::kernels::CATALOGUE;
use crate::record::{Outcome, Warning};
use proptest::prelude::*;

const OLD: &str = include_str!("../../../../../tests/fixtures/run-1.json");

/// Returns the fixture in the current schema.
fn current() -> String {
    let record = parse(OLD.as_bytes(), "old", &CATALOGUE).expect("a record").record;
    serde_json::to_string(&record).expect("JSON")
}

/// Returns the record in `text`, which is called `x`.
fn loaded(text: &str) -> NamedRecord {
    parse(text.as_bytes(), "x", &CATALOGUE).expect("a record")
}

fn refused(text: &str, expected: &[&str]) {
    let message = parse(text.as_bytes(), "run.json", &CATALOGUE).expect_err("refused").to_string();
    for part in expected.iter().chain(&["run.json"]) {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
    assert!(!message.contains(|c: char| c.is_control()), "{message:?}");
}

/// Returns the current fixture with the value at `pointer` replaced.
fn with(pointer: &str, value: Value) -> String {
    let mut record: Value = serde_json::from_str(&current()).expect("JSON");
    *record.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is there")) = value;
    record.to_string()
}

#[test]
fn an_old_record_is_upgraded_and_says_so() {
    let loaded = parse(OLD.as_bytes(), "old", &CATALOGUE).expect("a record");
    assert_eq!(loaded.record.schema, SCHEMA);
    assert_eq!(loaded.notes, ["'old' is a gpukern-run/1 record, read as gpukern-run/2"]);
    let warnings = &loaded.record.cases[1].measured().expect("measured").warnings;
    assert_eq!(*warnings, [Warning::UnstableClock, Warning::TimeLimit, Warning::Interrupted]);
}

#[test]
fn a_current_record_reads_back_as_it_was_written() {
    let first = parse(OLD.as_bytes(), "old", &CATALOGUE).expect("a record").record;
    let second = loaded(&current());
    assert_eq!((second.record, second.notes), (first, vec![]));
}

#[test]
fn the_element_type_that_older_records_add_to_f32_is_that_of_the_case() {
    let mut record: Value = serde_json::from_str(&current()).expect("JSON");
    record["cases"][0]["element"] = "u32".into();
    let read = loaded(&record.to_string()).record;
    assert_eq!((read.cases[0].dtype, read.cases[0].id.as_str()), (DType::U32, "lu/naive/u32/1024x1024"));
    assert_eq!(serde_json::to_value(&read).expect("JSON")["cases"][0]["element"], Value::Null);
    let mixed = loaded(&with("/cases/0/dtype", "mixed".into())).record;
    assert_eq!(mixed.cases[0].dtype, DType::Mixed);
}

#[test]
fn a_byte_order_mark_and_pretty_printing_do_not_matter() {
    let pretty: Value = serde_json::from_str(&current()).expect("JSON");
    let text = format!("\u{feff}{pretty:#}\r\n");
    assert_eq!(loaded(&text).record.cases.len(), 2);
}

#[test]
fn other_text_is_distinguished_from_truncated_json() {
    refused("", &["is empty"]);
    refused("gpukern: error", &["it is not JSON", r#"{"schema":"gpukern-run/"#]);
    let text = current();
    for cut in [1, 100, text.len() / 2, text.len() - 1] {
        let cut = (cut..=text.len()).find(|cut| text.is_char_boundary(*cut)).expect("a boundary");
        refused(&text[..cut], &["it is cut short", "line 1, column"]);
    }
    refused(&text.replacen(':', ";", 1), &["it is damaged, or not JSON", "line 1, column 10"]);
    let invalid = [b"{\"schema\":\"".as_slice(), b"\xff", b"\"}"].concat();
    let wide: Vec<u8> = std::iter::once(0xfeff).chain("{}".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let messages = [invalid, wide].map(|bytes| parse(&bytes, "x", &CATALOGUE).expect_err("refused").to_string());
    insta::assert_snapshot!(messages.join("\n"), @"
    'x' is not UTF-8 text (line 1, column 12); is it another kind of file, or damaged?
    'x' is UTF-16, but records are UTF-8: convert it, and write the next with `--json PATH` instead of `>`
    ");
}

#[test]
fn documents_of_other_tools_are_recognized() {
    refused(r#"[{"name":"a","unit":"ns","value":1}]"#, &["the input of github-action-benchmark"]);
    refused(r#"{"lastUpdate":1,"repoUrl":"","entries":{}}"#, &["the history of github-action-benchmark"]);
    refused(r#"{"context":{},"benchmarks":[]}"#, &["Google Benchmark"]);
    refused(r#"{"results":[{"command":"ls","mean":1.0,"stddev":null}]}"#, &["hyperfine"]);
    refused(r#"{"schema":"gpukern-peak/1"}"#, &["limits of a device"]);
    refused(r#"{"schema":"other/3"}"#, &["its schema is 'other/3'"]);
    refused("[]", &["it is JSON, but not a record"]);
    refused(
        r#"{"cases":[]}"#,
        &["it is JSON, but not a record", "`gpukern bench` and `gpukern run` write one with --json PATH"],
    );
    refused(r#"{"schema":"gpukern-run/2"}"#, &["lacks `cases`"]);
    refused("null", &["it is not JSON"]);
}

#[test]
fn a_schema_from_the_future_asks_for_an_update() {
    let text = with("/schema", "gpukern-run/9".into()).replace("\"version\":\"0.1.0\"", "\"version\":\"7.1.0\"");
    refused(&text, &["gpukern-run/9 record, written by gpukern 7.1.0", "reads up to gpukern-run/2: update it"]);
    refused(&with("/schema", "gpukern-run/0".into()), &["its schema is 'gpukern-run/0'"]);
}

#[test]
fn impossible_numbers_are_refused_with_their_position() {
    let sample = "/cases/1/outcome/samples/3/device";
    let case = "'lu/offset-copy/f32/1024x1024'";
    refused(&with(sample, Value::Null), &["case 2", case, "invalid type: null, expected f64", "line 1, column"]);
    refused(&with(sample, (-1.0).into()), &[case, "sample 4 has a device time of -1 ns"]);
    refused(&with(sample, 1e300.into()), &[case, "100 days"]);
    refused(&with(sample, "1e999".into()).replace("\"1e999\"", "1e999"), &[case, "number out of range"]);
    for (pointer, value, expected) in [
        ("/cases/0/outcome/summary/median", (-5.0).into(), "it quotes a time of -5 ns"),
        ("/cases/0/outcome/repeats", 0.into(), "0 repeats"),
        ("/cases/0/chain", 0.into(), "a chain of 0 operations"),
        ("/wall_time", (-1.0).into(), "`wall_time` is -1 ns"),
        ("/wall_time", Value::Null, "invalid type: null, expected f64"),
        ("/cases/0/device", 3.into(), "names device 3; the record has: 0"),
    ] {
        refused(&with(pointer, value), &[expected]);
    }
}

#[test]
fn a_duplicate_case_is_refused_by_name() {
    let mut record: Value = serde_json::from_str(&current()).expect("JSON");
    let first = record["cases"][0].clone();
    record["cases"].as_array_mut().expect("cases").push(first);
    refused(&format!("{record:#}"), &["case 'lu/naive/f32/1024x1024' appears twice for device 0", "line "]);
}

#[test]
fn an_error_behind_the_cases_has_the_right_place() {
    let text = serde_json::from_str::<Value>(&current()).expect("JSON");
    // Keys are sorted here, so that `devices` and `wall_time` lie behind `cases`.
    let text = format!("{text:#}").replace("\"validation\": false", "\"validation\": 7");
    let line = text.lines().position(|line| line.contains("\"validation\": 7")).expect("there") + 1;
    refused(&text, &[&format!("(line {line}, column"), "invalid type: integer `7`, expected a boolean"]);
}

#[test]
fn samples_override_a_contradicting_summary() {
    let loaded = loaded(&with("/cases/0/outcome/summary/median", 1.0.into()));
    let expected = parse(OLD.as_bytes(), "old", &CATALOGUE).expect("a record").record;
    assert_eq!(loaded.record.cases[0], expected.cases[0]);
    assert_eq!(loaded.notes, ["'x': the summary of lu/naive/f32/1024x1024 contradicts its samples; using the samples"]);
}

#[test]
fn cases_that_were_only_verified_are_noted() {
    let loaded = loaded(&with("/cases/0/outcome/samples", Value::Array(vec![])));
    assert_eq!(loaded.notes, ["'x': 1 case without times, such as those of `verify`"]);
    assert!(matches!(loaded.record.cases[0].outcome, Outcome::Measured(_)));
}

#[test]
fn control_characters_in_names_are_escaped() {
    assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d<b>"), "a\\u{1b}[31mb\\nc\\u{202e}d<b>");
    refused(
        &with("/cases/0/id", "x\u{1b}]0;gone\u{7}".into()).replace("\"device\":0", "\"device\":9"),
        &["case 'x\\u{1b}]0;gone\\u{7}' names device 9"],
    );
}

#[test]
fn errors_name_a_missing_file_or_a_folder() {
    for (path, expected) in [("/nonexistent/run.json", "no such file"), (".", "it is a folder")] {
        let message = read(Path::new(path), &CATALOGUE).expect_err("refused").to_string();
        assert!(message.contains(path) && message.contains(expected), "{message}");
    }
}

#[test]
fn endless_input_is_refused() {
    let message = read_all(std::io::repeat(b' ')).expect_err("refused").to_string();
    assert_eq!(message, "cannot read standard input: it is larger than 256 MiB, too large for a record");
}

#[test]
fn impossible_figures_are_refused_with_their_position() {
    let pointer = |field: &str| format!("/cases/0/outcome/{field}");
    for (pointer, value, expected) in [
        (pointer("samples/0/device"), 5e-324, "sample 1 has a device time of"),
        (pointer("summary/median"), 5e-324, "it quotes a time of"),
        (pointer("verification/residual"), 1e308, "it has a time, but its residual, 1"),
        (pointer("verification/residual"), 1.0, "is not within"),
        (pointer("verification/residual"), -1.0, "a residual or a tolerance of -1, below zero"),
        (pointer("verification/tolerance"), -1.0, "a residual or a tolerance of -1, below zero"),
    ] {
        refused(&with(&pointer, value.into()), &["line 1, column", "case 'lu/naive/f32/1024x1024'", expected]);
    }
    refused(&with(&pointer("verification/residual"), Value::Null), &["its residual, none, is not within"]);
    for size in ["0", "0x10", "64x0x64"] {
        refused(&with("/cases/1/size", size.into()), &["line 1, column", &format!("its size is {size}")]);
    }
    assert!(
        parse(with(&pointer("samples/0/device"), 0.0.into()).as_bytes(), "x", &CATALOGUE).is_ok(),
        "a tick may be long"
    );
    let negative = serde_json::json!([{
        "schema": "gpukern-peak/1", "version": "", "measured": "", "extent": "quick", "device": "a device", "uuid": "",
        "driver": "", "missing": [], "levels": [], "figures": [
            { "quantity": { "kind": "arithmetic", "dtype": "f32" }, "best": -1.0, "median": 1.0, "case": "" }
        ]
    }]);
    refused(&with("/peaks", negative), &["`peaks`: a limit of 'a device' is -1"]);
}

/// Returns text that breaks careless parsers.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_string()),
        Just("-1".to_string()),
        Just("1e999".to_string()),
        Just("-0.0".to_string()),
        Just("99999999999999999999999".to_string()),
        Just("\"\\u0000\\ud800\"".to_string()),
        Just("{}".to_string()),
        (1usize..300_000).prop_map(|depth| "[".repeat(depth)),
        (1usize..2000).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
        (1usize..2000).prop_map(|depth| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth)),
        any::<f64>().prop_map(|value| value.to_string()),
        ".{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn flipped_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = current().into_bytes();
        for (place, byte) in flips {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = parse(&bytes, "x", &CATALOGUE);
    }

    #[test]
    fn cut_and_joined_documents_never_panic(ends in any::<[prop::sample::Index; 2]>()) {
        let text = current();
        let [first, second] = ends.map(|end| end.index(text.len()));
        let _ = parse(&text.as_bytes()[..first], "x", &CATALOGUE);
        let _ = parse(&[&text.as_bytes()[..first], &text.as_bytes()[second..]].concat(), "x", &CATALOGUE);
    }

    #[test]
    fn replaced_values_never_panic(place in any::<prop::sample::Index>(), value in hostile()) {
        // A value begins after a colon and ends before the next comma or bracket.
        let text = current();
        let colons: Vec<_> = text.match_indices(':').map(|(at, _)| at + 1).collect();
        let start = colons[place.index(colons.len())];
        let end = text[start..].find([',', '}', ']']).map_or(text.len(), |length| start + length);
        let _ = parse([&text[..start], &value, &text[end..]].concat().as_bytes(), "x", &CATALOGUE);
    }

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,200}") {
        let _ = parse(text.as_bytes(), "x", &CATALOGUE);
    }

    #[test]
    fn positions_invert_offsets(text in "[a-zé\n]{0,60}", place in any::<prop::sample::Index>()) {
        let offset = place.index(text.len() + 1);
        let (line, column) = position(text.as_bytes(), offset);
        prop_assert_eq!(offset_of(&text, line, column), offset);
    }
}

#[test]
fn a_share_of_a_variants_own_launches_is_that_of_its_structure() {
    // A version that counted 3,070 launches as the hardware limit of LU with 1024 rows wrote this record.
    let text = include_bytes!("../../../../../results/lavapipe-lu.json");
    let record = parse(text, "published", &CATALOGUE).expect("a record").record;
    let case = record.cases.iter().find(|case| case.launches == 3070).expect("lu/in-place");
    let share = case.share.expect("a share");
    let own = case.structure.expect("its own launches");
    assert_eq!((share.limit, own.limit), (Limit::Compute, Limit::Launch));
    assert!((own.least.0 / 13_481_869.0 - 1.0).abs() < 1e-6 && share.least.0 < own.least.0, "{share:?} {own:?}");
}

#[test]
fn names_of_any_length_are_cut_and_ids_are_not() {
    let long = "é".repeat(3_000);
    let mut record: Value = serde_json::from_str(&current()).expect("JSON");
    record["devices"][0]["name"] = long.as_str().into();
    record["cases"][0]["id"] = long.as_str().into();
    record["cases"][0]["variant"] = long.as_str().into();
    record["cases"][0]["size"] = long.as_str().into();
    let loaded = parse(record.to_string().as_bytes(), "run.json", &CATALOGUE).expect("no reason to refuse it");
    let case = &loaded.record.cases[0];
    for name in [&loaded.record.devices[0].name, &case.variant, &case.size.to_string()] {
        assert_eq!((name.chars().count(), name.chars().last()), (crate::record::MAX_TEXT_LENGTH, Some('…')));
    }
    assert_eq!(case.id, long);
    assert_eq!(loaded.notes, ["'run.json': 3 names longer than 1000 characters cut to that length"]);
}
