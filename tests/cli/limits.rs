//! `peak`, shares of limits, the host baseline and the clocks and caches of `bench`.

use super::{expect_refusal, gpukern, read_json, run, stderr, stdout, temporary, valid_record};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::Path;

fn json(arguments: &[&str]) -> Value {
    let output = run(&mut gpukern(arguments));
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

fn case(record: &Value) -> &Value {
    let case = &record["cases"][0];
    assert_eq!(case["outcome"]["status"], "measured", "{case}");
    case
}

const BENCH: [&str; 7] = ["bench", "matmul", "-V", "subgroup", "-s", "32", "--max-time=20ms"];

/// Measures a record without limits.
fn quick(more: &[&str]) -> Value {
    json(&[&BENCH, more, &["--no-peak", "--json", "-"]].concat())
}

/// Replaces the limits kept in `cache` with those of `peak`, marked as undisturbed, so that they do not depend on load.
fn keep_undisturbed(cache: &Path, peak: &Value) {
    let mut files = std::fs::read_dir(cache).expect("a cache").map(|file| file.expect("a file").path());
    let file = files.find(|file| file.to_string_lossy().contains(".limits")).expect("limits are kept");
    let mut peak = peak.clone();
    for figure in peak["figures"].as_array_mut().expect("figures") {
        figure["disturbed"] = false.into();
        figure["canary"] = Value::Null;
    }
    let contents = serde_json::to_vec(&peak).expect("JSON");
    std::fs::write(file, [&Sha256::digest(&contents)[..], &contents[..]].concat()).expect("written");
}

#[test]
fn peak_measures_verified_limits_and_bench_holds_its_cases_against_them() {
    let cache = tempfile::tempdir().expect("a folder");
    let cache = cache.path().to_str().expect("UTF-8");
    let peaks = json(&["peak", "--quick", "--cache-dir", cache, "--json", "-"]);
    let figures = peaks[0]["figures"].as_array().expect("figures");
    let missing = peaks[0]["missing"].as_array().expect("what is missing");
    // The ranges include every CPU of this century. On a busy machine some limits are missing.
    for (kind, sensible) in [("arithmetic", 1e8..1e14), ("bandwidth", 1e7..1e13), ("latency", 1.0..1e7)] {
        match figures.iter().find(|figure| figure["quantity"]["kind"] == kind) {
            Some(figure) => assert!(sensible.contains(&figure["best"].as_f64().expect("a number")), "{figures:?}"),
            None => assert!(kind != "arithmetic" && !missing.is_empty(), "no {kind} in {figures:?}"),
        }
    }
    keep_undisturbed(Path::new(cache), &peaks[0]);
    let output = run(&mut gpukern(&[&BENCH[..], &["--cache-dir", cache, "--json", "-"]].concat()));
    let record = valid_record(&stdout(&output));
    assert_eq!(record["peaks"][0]["measured"], peaks[0]["measured"], "what was kept is used");
    let share = &case(&record)["share"];
    assert!(share["fraction"].as_f64().is_some_and(|fraction| fraction > 0.0), "{share}");
    let record = quick(&["--cache-dir", cache]);
    assert!(case(&record)["share"].is_null() && record["peaks"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn the_host_is_measured_without_any_vulkan() {
    let nowhere = ["--loader", "/nonexistent/libvulkan.so", "--device", "host", "--json", "-"];
    let record = json(&[&["bench", "matmul", "row-sum", "-s", "33", "--max-time", "20ms"][..], &nowhere].concat());
    assert_eq!(record["devices"][0]["kind"], "host");
    assert_eq!(case(&record)["id"], "matmul/faer/f32/33x33x33");
    assert_eq!(record["cases"][1]["id"], "row-sum/rayon/f32/33");
}

#[test]
fn a_baseline_tells_how_much_faster_a_variant_is() {
    let (_folder, path) = temporary("run.json");
    let path = path.to_str().expect("UTF-8");
    let bench = [&BENCH[..], &["--no-peak", "--host", "--table=both", "--json", path]].concat();
    let table = stdout(&run(&mut gpukern(&bench)));
    assert!(table.contains("faer (host)") && table.contains("× host"), "{table}");
    let record = read_json(Path::new(path));
    let [own, host] = [0, 1].map(|i| record["cases"][i]["outcome"]["summary"]["median"].as_f64().expect("a time"));
    let speedup = case(&record)["speedup"].as_f64().expect("a ratio");
    assert!((speedup - host / own).abs() < 1e-9 * speedup, "{speedup}");
    assert!(record["cases"][1]["speedup"].is_null());
}

#[test]
fn the_record_says_which_clock_and_which_caches() {
    let record = quick(&[]);
    assert_eq!([&record["method"]["clock"], &record["method"]["cache"]], ["device-timestamps", "hot"]);
    assert_eq!(record["method"]["robust_access"], false);
    let record = quick(&["--clock", "host"]);
    assert_eq!(record["method"]["clock"], "host");
    let outcome = &case(&record)["outcome"];
    let repeats = outcome["repeats"].as_f64().expect("a count");
    let sample = &outcome["samples"][0];
    let [device, host] = ["device", "host"].map(|clock| sample[clock].as_f64().expect("a time"));
    assert!((device * repeats - host).abs() < 1e-6 * host, "{sample}");
    expect_refusal(
        &mut gpukern(&["bench", "matmul", "--clock", "sundial"]),
        "unknown clock 'sundial'; available: device, host",
    );
}

#[test]
fn cold_caches_are_emptied_before_every_run() {
    // The host time of a sample includes the read of up to a GiB that empties the caches.
    let host_time = |cache: &str| {
        let bench = [
            "bench",
            "row-sum",
            "-V",
            "local",
            "-s",
            "64",
            "--cache",
            cache,
            "--no-peak",
            "--max-time=50ms",
            "--json=-",
        ];
        let record = json(&bench);
        assert_eq!(record["method"]["cache"], cache);
        let outcome = &case(&record)["outcome"];
        let samples = outcome["samples"].as_array().expect("samples").iter();
        let least = samples.filter_map(|sample| sample["host"].as_f64()).fold(f64::INFINITY, f64::min);
        (least, outcome["repeats"].as_f64().expect("a count"))
    };
    let ((hot, _), (cold, repeats)) = (host_time("hot"), host_time("cold"));
    assert!(repeats == 1.0 && cold > 10.0 * hot && cold > 1e6, "{hot} ns with warm caches, {cold} ns with cold ones");
}

#[test]
fn the_record_accounts_for_its_time() {
    let record = quick(&[]);
    let [wall, device, overhead] =
        ["wall_time", "device_time", "overhead"].map(|field| record[field].as_f64().expect("a time"));
    assert!(device > 0.0 && overhead > 0.0 && (wall - device - overhead).abs() < 1.0, "{wall} {device} {overhead}");
    assert!(case(&record)["outcome"]["conditions"]["canary"].is_array());
    assert_eq!(case(&record)["kernels"][0]["name"], "matmul/subgroup.f32");
}
