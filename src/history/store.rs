//! A store: a folder of records, with folders below it, merged by copying.

use crate::basis::error::Error;
use crate::basis::printable::printable;
use crate::record::Record;
use crate::record::reader;
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// A record of a store.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Path of its file.
    pub(crate) name: String,
    pub(crate) record: Record,
}

/// The records below `folder`, and a sentence for each file there that is none.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn read(folder: &Path) -> Result<(Vec<Run>, Vec<String>), Error> {
    let (mut files, mut left_out) = (vec![], vec![]);
    let entries = std::fs::read_dir(folder).map_err(|e| {
        let shown = printable(&folder.display().to_string()).into_owned();
        Error::Usage(format!("cannot read the folder '{shown}': {e}; name a folder of records"))
    })?;
    walk(entries, &mut files, &mut left_out);
    files.sort();
    let read = |path: &PathBuf| match reader::read(path) {
        Ok(loaded) => Ok(Run { name: path.display().to_string(), record: loaded.record }),
        Err(error) => Err(error.to_string()),
    };
    let mut runs = vec![];
    for run in files.par_iter().map(read).collect::<Vec<_>>() {
        match run {
            Ok(run) => runs.push(run),
            Err(reason) => left_out.push(reason),
        }
    }
    Ok((runs, left_out))
}

/// Collects the files of a folder and of those below it whose name ends in `.json`. Links to folders are not followed, so
/// no file is found twice or for ever.
fn walk(entries: std::fs::ReadDir, files: &mut Vec<PathBuf>, left_out: &mut Vec<String>) {
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                left_out.push(format!("a folder cannot be read to its end: {error}"));
                continue;
            }
        };
        let (path, hidden) = (entry.path(), entry.file_name().as_encoded_bytes().starts_with(b"."));
        let kind = entry.file_type();
        if hidden {
            continue;
        }
        if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
            match std::fs::read_dir(&path) {
                Ok(entries) => walk(entries, files, left_out),
                Err(error) => left_out.push(format!("'{}': {error}", printable(&path.display().to_string()))),
            }
        } else if path.extension().is_some_and(|extension| extension == "json") && path.is_file() {
            files.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_from_folders_below_and_other_files_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("device/driver");
        std::fs::create_dir_all(&below).expect("made");
        let record = include_bytes!("../../tests/fixtures/run-1.json");
        std::fs::write(below.join("a.json"), record).expect("written");
        std::fs::write(folder.path().join("b.json"), &record[..100]).expect("written");
        std::fs::write(folder.path().join("c.json"), "[]").expect("written");
        std::fs::write(folder.path().join(".hidden.json"), "").expect("written");
        std::fs::write(folder.path().join("notes.txt"), "not looked at").expect("written");
        let (runs, left_out) = read(folder.path()).expect("a store");
        assert_eq!(runs.len(), 1);
        assert!(runs[0].name.ends_with("device/driver/a.json"), "{}", runs[0].name);
        assert!(
            left_out.len() == 2 && left_out[0].contains("b.json") && left_out[1].contains("c.json"),
            "{left_out:?}"
        );
        let error = read(Path::new("/nonexistent")).expect_err("no folder").to_string();
        assert!(error.contains("'/nonexistent'") && error.contains("name a folder of records"), "{error}");
    }
}
