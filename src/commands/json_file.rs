//! Where a document goes: standard output, or a file that is replaced in one step or not at all.

use crate::basis::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What is written, and the option that says where: for the messages.
#[derive(Clone, Copy)]
pub(super) struct Document {
    pub(super) name: &'static str,
    pub(super) option: &'static str,
}

/// A record of `bench`.
const JSON: Document = Document { name: "JSON", option: "--json" };

/// A destination that was tried before any time is spent measuring.
pub(super) enum JsonTarget {
    /// Standard output.
    Output,
    /// A device, a pipe or the like, which is written as it is.
    Stream { document: Document, path: PathBuf, stream: File },
    /// A file, written beside its final place first, so that an older one survives any failure.
    File { document: Document, path: PathBuf, draft: NamedTempFile },
}

impl JsonTarget {
    /// Opens the destination `-` or a path.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        Self::open_for(path, JSON)
    }

    /// As [`Self::open`], for another document.
    pub(super) fn open_for(path: &Path, document: Document) -> Result<Self, Error> {
        if path == Path::new("-") {
            return Ok(Self::Output);
        }
        let shown = path.display();
        let refuse = |reason: String| {
            Error::Usage(format!(
                "cannot write {} to '{shown}': {reason}; choose another {} path, or - for standard output",
                document.name, document.option
            ))
        };
        match path.metadata() {
            Ok(there) if there.is_dir() => return Err(refuse("it is a folder".into())),
            Ok(there) if there.permissions().readonly() => return Err(refuse("it is read-only".into())),
            Ok(there) if !there.is_file() => {
                let stream = File::options().write(true).open(path).map_err(|e| refuse(e.to_string()))?;
                return Ok(Self::Stream { document, path: path.to_path_buf(), stream });
            }
            // A file to replace, or none yet.
            _ => {}
        }
        // A link stays, and what it points to is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let draft = tempfile::Builder::new()
            .prefix(".gpukern-")
            .suffix(".json")
            .permissions_like_a_new_file()
            .tempfile_in(folder)
            .map_err(|e| refuse(e.to_string()))?;
        Ok(Self::File { document, path, draft })
    }

    /// Delivers `text`; returns what belongs on standard output.
    pub(super) fn deliver(self, text: &str) -> Result<Option<String>, Error> {
        let (document, path, written) = match self {
            Self::Output => return Ok(Some(text.to_string())),
            Self::Stream { document, path, mut stream } => (document, path, stream.write_all(text.as_bytes())),
            Self::File { document, path, draft } => {
                let written = replace(&path, draft, text);
                (document, path, written)
            }
        };
        written
            .map(|()| None)
            .map_err(|error| Error::Failure(format!("cannot write {} to '{}': {error}", document.name, path.display())))
    }
}

/// Writes `text` to the draft, and puts that in the place of `path` once it is on the disk.
fn replace(path: &Path, mut draft: NamedTempFile, text: &str) -> std::io::Result<()> {
    draft.write_all(text.as_bytes())?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    Ok(())
}

/// Temporary files are private by default; a record is as public as any file of the user's.
trait LikeNewFile {
    fn permissions_like_a_new_file(&mut self) -> &mut Self;
}

impl LikeNewFile for tempfile::Builder<'_, '_> {
    fn permissions_like_a_new_file(&mut self) -> &mut Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The process's umask applies to it, as to any new file.
            self.permissions(std::fs::Permissions::from_mode(0o666));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_file_is_kept_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        std::fs::write(&path, "old").expect("written");
        let target = JsonTarget::open(&path).expect("writable");
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), "old");
        drop(target);
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1, "a draft was left behind");
        let delivered = JsonTarget::open(&path).expect("writable").deliver("new").expect("delivered");
        assert_eq!((delivered, std::fs::read_to_string(&path).expect("readable").as_str()), (None, "new"));
    }

    #[test]
    #[cfg(unix)]
    fn a_link_stays_and_a_pipe_is_written_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link] = ["run.json", "latest.json"].map(|name| folder.path().join(name));
        std::fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink("run.json", &link).expect("linked");
        JsonTarget::open(&link).expect("writable").deliver("new").expect("delivered");
        assert!(link.symlink_metadata().expect("there").is_symlink());
        assert_eq!(std::fs::read_to_string(&file).expect("readable"), "new");

        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe).expect("readable")
        });
        JsonTarget::open(&pipe).expect("writable").deliver("streamed").expect("delivered");
        assert_eq!(reader.join().expect("it read"), "streamed");
        assert!(!pipe.metadata().expect("there").is_file(), "the pipe was replaced");
    }

    #[test]
    fn places_that_cannot_be_written_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [folder.path().to_path_buf(), folder.path().join("missing/run.json")] {
            let error = JsonTarget::open(&path).err().expect("refused").to_string();
            assert!(error.contains(&path.display().to_string()) && error.contains("--json"), "{error}");
        }
    }
}
