//! History in the format of Apache Otava (<https://otava.apache.org>): a CSV file for each case of a device with a row
//! for each run that measured it, and a configuration that names these files as tests.
//!
//! Each case has its own file, because Otava has no missing values. The column of the branch is not called `branch`:
//! Otava would refuse a file with several branches.

use super::{json, write_csv};
use crate::basis::error::Error;
use crate::basis::printable::printable;
use crate::history::{CaseSeries, History};
use crate::record::NamedRecord;
use serde_json::{Map, json};

/// Name of the configuration file.
const CONFIGURATION: &str = "otava.yaml";

/// Columns that Otava takes for attributes.
const ATTRIBUTES: [&str; 6] = ["commit", "git_branch", "label", "driver", "gpukern", "file"];

/// Returns names of files with their texts, the configuration first. Its paths are relative to its folder.
pub fn documents(history: &History) -> Result<Vec<(String, String)>, Error> {
    let mut tests = Map::new();
    let mut files = vec![];
    for (at, series) in history.series.iter().enumerate() {
        let letters = series.id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
        let file = format!("{:04}-{}.csv", at + 1, letters.take(100).collect::<String>());
        let name = format!("{:04} {} on {}", at + 1, series.id, series.device);
        let metrics = json!({ "time": { "direction": -1, "scale": 1, "column": "time_ns" } });
        let test =
            json!({ "type": "csv", "file": file, "time_column": "time", "attributes": ATTRIBUTES, "metrics": metrics });
        tests.insert(name, test);
        let headings = ["time"].into_iter().chain(ATTRIBUTES).chain(["time_ns"]);
        let rows = rows(history, series).map(|row| row.map(|field| printable(&field).into_owned()).to_vec());
        files.push((file, write_csv(std::iter::once(headings.map(String::from).collect()).chain(rows))?));
    }
    // JSON is valid YAML, with all necessary quotes.
    files.insert(0, (CONFIGURATION.into(), json(&json!({ "tests": tests }))?));
    Ok(files)
}

fn rows(history: &History, series: &CaseSeries) -> impl Iterator<Item = [String; 8]> {
    series.points.iter().map(|point| {
        let NamedRecord { name, record, .. } = &history.runs[point.run];
        let [commit, branch, label] = [&record.origin.commit, &record.origin.branch, &record.origin.label]
            .map(|text| text.clone().unwrap_or_default());
        let driver = record.device(record.cases[point.case].device).map(|device| device.driver.info.clone());
        let started = record.started.clone();
        let version = record.version.clone();
        let time = point.time.0.to_string();
        [started, commit, branch, label, driver.unwrap_or_default(), version, name.clone(), time]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::fixture::{driver_change, settings};
    use crate::record::fixture::HOSTILE;

    #[test]
    fn each_case_is_a_file_and_a_test_of_the_configuration() {
        let files = documents(&History::new(driver_change(), vec![], &settings())).expect("files");
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["otava.yaml", "0001-matmul-naive-f32-64x64x64.csv", "0002-matmul-local-f32-64x64x64.csv"]);
        let tests: serde_json::Value = serde_json::from_str(&files[0].1).expect("JSON");
        assert_eq!(tests["tests"].as_object().map(Map::len), Some(2));
        let lines: Vec<_> = files[1].1.lines().collect();
        assert_eq!(lines[0], "time,commit,git_branch,label,driver,gpukern,file,time_ns");
        assert_eq!((lines.len(), lines[1]), (41, "2026-01-01T00:00:00Z,0c0ffee,,,Mesa 22.3,0.0.0,000.json,248750"));
    }

    #[test]
    fn hostile_names_stay_in_their_field() {
        let mut runs = driver_change();
        for run in &mut runs {
            run.record.cases[0].id = HOSTILE.into();
            run.record.origin.label = Some(HOSTILE.into());
        }
        let files = documents(&History::new(runs, vec![], &settings())).expect("files");
        assert!(files.iter().all(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))));
        let mut reader = csv::Reader::from_reader(files[1].1.as_bytes());
        assert!(reader.records().all(|row| row.expect("a row").get(3) == Some(&printable(HOSTILE))));
    }
}
