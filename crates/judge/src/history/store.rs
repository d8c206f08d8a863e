//! Store of records: a folder with subfolders, which can be merged by copying; and the order of its runs.

use crate::algorithms::catalogue::Catalogue;
use crate::basis::error::Error;
use crate::basis::printable::{Shown, printable};
use crate::basis::threads;
use crate::record::{NamedRecord, Origin, reader};
use rayon::prelude::*;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Lists the files below `folder` that may be records, in order, with a sentence for each unreadable folder.
///
/// # Errors
/// When the folder cannot be read.
pub fn files(folder: &Path) -> Result<(Vec<PathBuf>, Vec<String>), Error> {
    let mut files = vec![];
    let mut left_out = vec![];
    let entries = std::fs::read_dir(folder).map_err(|e| {
        let shown = folder.shown();
        let reason = match e.kind() {
            ErrorKind::NotFound => "it does not exist".into(),
            ErrorKind::NotADirectory => "it is a file".into(),
            _ => e.to_string(),
        };
        Error::Usage(format!("cannot read the folder '{shown}': {reason}; name a folder of records"))
    })?;
    walk(entries, &mut files, &mut left_out);
    files.sort();
    Ok((files, left_out))
}

/// Reads the records in `files`, named by path; appends a sentence to `left_out` for each file that is not a record.
pub fn read(files: &[PathBuf], mut left_out: Vec<String>, catalogue: &Catalogue) -> (Vec<NamedRecord>, Vec<String>) {
    let mut runs = vec![];
    threads::prepare();
    let read: Vec<_> = files.par_iter().map(|path| reader::read(path, catalogue)).collect();
    for (path, read) in files.iter().zip(read) {
        match read {
            Ok(run) => runs.push(NamedRecord { name: path.shown(), ..run }),
            Err(error) => left_out.push(error.to_string()),
        }
    }
    (runs, left_out)
}

/// Collects the `.json` files of a folder and its subfolders. Does not follow links to folders, so that no file is
/// found twice and no loop is endless.
fn walk(entries: std::fs::ReadDir, files: &mut Vec<PathBuf>, left_out: &mut Vec<String>) {
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                left_out.push(format!("cannot read all of a folder: {error}"));
                continue;
            }
        };
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if is_hidden {
            continue;
        }
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            match std::fs::read_dir(&path) {
                Ok(entries) => walk(entries, files, left_out),
                Err(error) => left_out.push(format!("'{}': {error}", path.shown())),
            }
        } else if path.extension().is_some_and(|extension| extension == "json") && path.is_file() {
            files.push(path);
        }
    }
}

/// Order of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOrder {
    /// By start time.
    Started,
    /// By date of the commit, then by start time.
    Committed,
    /// By position in a list of commits, oldest first, then by start time.
    Listed(Vec<String>),
}

/// Sorts `runs` and removes duplicates; runs without a place in the order are named in `left_out`.
pub(super) fn ordered(runs: Vec<NamedRecord>, order: &RunOrder, left_out: &mut Vec<String>) -> Vec<NamedRecord> {
    let mut keyed = vec![];
    for run in runs {
        match sort_key(&run, order) {
            Ok(key) => keyed.push((key, run)),
            Err(reason) => left_out.push(format!("'{}' {reason}", printable(&run.name))),
        }
    }
    keyed.sort_by(|(a, first), (b, second)| a.cmp(b).then_with(|| first.name.cmp(&second.name)));
    let mut indices: HashMap<_, usize> = HashMap::new();
    let mut unique = vec![];
    for (_, run) in keyed {
        let record = &run.record;
        let first = record.processes().into_iter().next().map(|process| (process.started, process.command));
        // The sides of one measurement differ in their commits alone.
        let Origin { host, commit, .. } = record.origin.clone();
        let identity = (first, host, commit, record.cases.first().map(|case| case.id.clone()));
        match indices.get(&identity) {
            None => {
                indices.insert(identity, unique.len());
                unique.push(run);
            }
            Some(index) => {
                let known: &mut NamedRecord = &mut unique[*index];
                // A run that was resumed has more cases.
                let other =
                    if known.record.cases.len() < run.record.cases.len() { std::mem::replace(known, run) } else { run };
                left_out.push(format!("'{}' is the same run as '{}'", printable(&other.name), printable(&known.name)));
            }
        }
    }
    unique
}

/// Returns the sort key of a run: that of its commit, then its start time.
fn sort_key(run: &NamedRecord, order: &RunOrder) -> Result<(i128, i128), String> {
    let nanoseconds = |text: &str| text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_nanosecond).ok();
    if run.record.method.validation {
        return Err("ran under the validation layers, which distort times".into());
    }
    let started = nanoseconds(&run.record.started).ok_or("does not say when it began")?;
    let origin = &run.record.origin;
    let commit = match order {
        RunOrder::Started => 0,
        RunOrder::Committed => {
            let committed = origin.committed.as_deref().and_then(nanoseconds);
            committed.ok_or("does not say when its commit was made")?
        }
        RunOrder::Listed(commits) => {
            let commit = origin.commit.as_deref().ok_or("does not name its commit")?;
            // Either may be abbreviated.
            let index = commits.iter().position(|listed| commit.starts_with(&**listed) || listed.starts_with(commit));
            let index = index.ok_or(format!("is from commit {commit}, which is not in the list of commits"))?;
            index as i128
        }
    };
    Ok((commit, started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::CATALOGUE;

    #[test]
    fn records_are_read_from_folders_below_and_other_files_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("device/driver");
        std::fs::create_dir_all(&below).expect("made");
        let record = include_bytes!("../../../../tests/fixtures/run-1.json");
        std::fs::write(below.join("a.json"), record).expect("written");
        std::fs::write(folder.path().join("b.json"), &record[..100]).expect("written");
        std::fs::write(folder.path().join("c.json"), "[]").expect("written");
        std::fs::write(folder.path().join(".hidden.json"), "").expect("written");
        std::fs::write(folder.path().join("notes.txt"), "not looked at").expect("written");
        let (paths, left_out) = files(folder.path()).expect("a store");
        let (runs, left_out) = read(&paths, left_out, &CATALOGUE);
        assert_eq!(runs.len(), 1);
        assert!(runs[0].name.ends_with("device/driver/a.json"), "{}", runs[0].name);
        assert!(
            left_out.len() == 2 && left_out[0].contains("b.json") && left_out[1].contains("c.json"),
            "{left_out:?}"
        );
        let error = files(Path::new("/nonexistent")).expect_err("no folder").to_string();
        assert!(error.contains("'/nonexistent'") && error.contains("name a folder of records"), "{error}");
    }
}
