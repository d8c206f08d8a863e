//! Documents that a command writes where an option says: to standard output, or to a destination.

use crate::basis::destination::Destination;
use crate::basis::error::Error;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The name of a document, and the option that says where it goes: for messages.
pub(super) type Document = [&'static str; 2];

/// A document in JSON, such as a record of `bench`.
pub(super) const JSON: Document = ["JSON", "--json"];

/// The place of a document, found writable before any time is spent measuring.
pub(super) struct Target {
    document: Document,
    path: PathBuf,
    /// `None` for standard output.
    destination: Option<Destination>,
}

/// Refuses a file that is to be written where another is read or written: it would be gone.
pub(super) fn check_apart(outputs: &[(&str, Option<&Path>)], inputs: &[(&str, &Path)]) -> Result<(), Error> {
    let mut taken: Vec<_> = inputs.iter().filter_map(|(name, path)| Some((*name, place(path)?))).collect();
    for (option, path) in outputs.iter().filter_map(|(option, path)| Some((*option, (*path)?))) {
        let Some(place) = place(path) else { continue };
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == place) {
            return Err(Error::Usage(format!(
                "{option} would overwrite '{}', which is {other} too; choose another path",
                path.display()
            )));
        }
        taken.push((option, place));
    }
    Ok(())
}

/// The file behind `path`, or where it would be made; `None` for what is no file, such as /dev/null or `-`.
fn place(path: &Path) -> Option<PathBuf> {
    if path == Path::new("-") || path.metadata().is_ok_and(|there| !there.is_file()) {
        return None;
    }
    path.canonicalize().ok().or_else(|| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    })
}

impl Target {
    /// Opens the place `-` or a path for the document.
    pub(super) fn open(document: Document, path: &Path) -> Result<Self, Error> {
        let [name, option] = document;
        let destination = (path != Path::new("-")).then(|| Destination::open(path)).transpose().map_err(|reason| {
            Error::Usage(format!(
                "cannot write {name} to '{}': {reason}; choose another {option} path, or - for standard output",
                path.display()
            ))
        })?;
        Ok(Self { document, path: path.to_path_buf(), destination })
    }

    /// The path, where it is that of a file.
    pub(super) fn file(&self) -> Option<&Path> {
        self.destination.as_ref().filter(|destination| destination.is_file()).map(|_| self.path.as_path())
    }

    /// Writes what there is of `document` so far, where it goes to a file: a process that is killed loses little.
    pub(super) fn keep_json(&self, document: &impl Serialize) -> Result<(), Error> {
        self.file().map_or(Ok(()), |path| Self::open(self.document, path)?.deliver_json(document).map(drop))
    }

    /// Delivers `text`; returns what belongs on standard output.
    pub(super) fn deliver(self, text: &str) -> Result<Option<String>, Error> {
        let Some(destination) = self.destination else { return Ok(Some(text.to_string())) };
        destination.write(text.as_bytes()).map(|()| None).map_err(|error| {
            Error::Failure(format!("cannot write {} to '{}': {error}", self.document[0], self.path.display()))
        })
    }

    /// Delivers `document` as one line of JSON; returns what belongs on standard output.
    pub(super) fn deliver_json(self, document: &impl Serialize) -> Result<Option<String>, Error> {
        let text = serde_json::to_string(document).map_err(|e| Error::Failure(e.to_string()))? + "\n";
        self.deliver(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyphen_is_standard_output_and_anything_else_a_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        let target = Target::open(JSON, Path::new("-")).expect("standard output");
        assert_eq!(target.deliver_json(&[1, 2]).expect("delivered").as_deref(), Some("[1,2]\n"));
        let target = Target::open(JSON, &path).expect("writable");
        target.keep_json(&[1]).expect("kept");
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), "[1]\n");
        assert_eq!(target.deliver("newer").expect("delivered"), None);
        assert_eq!(Target::open(JSON, &path).expect("writable").deliver("new").expect("delivered"), None);
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), "new");
    }

    #[test]
    fn a_file_is_written_once_and_none_that_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let [record, fresh] = ["run.json", "new.json"].map(|name| folder.path().join(name));
        std::fs::write(&record, "").expect("written");
        let same = folder.path().join("./new.json");
        let apart = |outputs: &[(&str, Option<&Path>)]| check_apart(outputs, &[("a record", &record)]);
        assert!(apart(&[("--json", Some(&fresh)), ("--junit", None)]).is_ok());
        let error = apart(&[("--json", Some(&record))]).expect_err("it is read").to_string();
        assert!(error.contains("--json would overwrite") && error.contains("which is a record too"), "{error}");
        let error = apart(&[("--json", Some(&fresh)), ("--junit", Some(&same))]).expect_err("both").to_string();
        assert!(error.contains("--junit would overwrite") && error.contains("which is --json too"), "{error}");
        for shared in [Path::new("-"), Path::new(if cfg!(unix) { "/dev/null" } else { "NUL" })] {
            assert!(apart(&[("--json", Some(shared)), ("--junit", Some(shared))]).is_ok(), "{}", shared.display());
        }
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&record, &link).expect("linked");
            assert!(apart(&[("--json", Some(&link))]).is_err());
        }
    }

    #[test]
    fn places_that_cannot_be_written_are_the_user_s_to_change_and_a_full_disk_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [folder.path().to_path_buf(), folder.path().join("missing/run.json")] {
            let error = Target::open(JSON, &path).err().expect("refused");
            let text = error.to_string();
            assert!(text.contains(&path.display().to_string()) && text.contains("--json"), "{text}");
            assert!(matches!(error, Error::Usage(_)), "{text}");
        }
        if cfg!(target_os = "linux") {
            let error =
                Target::open(JSON, Path::new("/dev/full")).expect("it can be opened").deliver("x").expect_err("full");
            assert!(matches!(&error, Error::Failure(text) if text.contains("'/dev/full'")), "{error}");
        }
    }
}
