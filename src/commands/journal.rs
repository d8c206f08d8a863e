//! The journal of a run: beside the record that it is to write, a file with a line for each case that ended, so that a
//! process that is killed loses the cases in flight alone.

use super::progress::Progress;
use crate::basis::destination::{Destination, explained};
use crate::basis::error::Error;
use crate::basis::printable::{Shown, printable};
use crate::device::capability::DeviceInfo;
use crate::measure::executor::Observer;
use crate::plan::CaseId;
use crate::record::reader;
use crate::record::{Case, Outcome, Record};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A journal that is being written.
pub(super) struct Journal {
    path: PathBuf,
    /// The file, locked as long as the process lives.
    file: File,
    /// Bytes of whole lines.
    length: u64,
    /// Index of this process among those that measure the record.
    process: usize,
    /// Whether a line could not be written, and that was said.
    complained: bool,
    /// Whether nothing is added any more.
    closed: bool,
}

/// The path of the journal of the record at `path`.
pub(super) fn path_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".part");
    name.into()
}

/// The record that `--resume` names, to be completed: its journal, or itself where the run was interrupted.
pub(super) fn earlier(path: &Path, notes: &mut String) -> Result<Record, Error> {
    let journal = path_of(path);
    if journal.exists() {
        check_free(&journal)?;
        return Ok(super::read(&journal, notes)?.record);
    }
    if !path.exists() {
        let (shown, journal) = (path.shown(), journal.shown());
        return Err(Error::Usage(format!(
            "there is nothing to resume: neither '{journal}' nor '{shown}' is there; begin with --json '{shown}'"
        )));
    }
    Ok(super::read(path, notes)?.record)
}

/// Refuses a new run whose record would be at `path`, where a journal there has cases of another that nobody resumed.
pub(super) fn check_none(path: &Path) -> Result<(), Error> {
    let journal = path_of(path);
    if !journal.exists() {
        return Ok(());
    }
    check_free(&journal)?;
    let cases = reader::read(&journal).map(|loaded| loaded.record.cases.len());
    if matches!(cases, Ok(0)) {
        return Ok(());
    }
    let what =
        cases.map_or_else(|_| "is in the way".into(), |count| format!("has {count} cases of a run that was killed"));
    Err(Error::Usage(format!(
        "'{}' {what}; --resume '{}' in place of --json completes it, or delete it",
        journal.shown(),
        path.shown()
    )))
}

/// Refuses a journal that another process is writing.
fn check_free(journal: &Path) -> Result<(), Error> {
    match File::open(journal).map(|file| file.try_lock()) {
        Ok(Err(TryLockError::WouldBlock)) => {
            Err(Error::Usage(format!("'{}' is being written by another process; wait for it", journal.shown())))
        }
        _ => Ok(()),
    }
}

impl Journal {
    /// Begins the journal of the record at `path`, which is `record` so far: the last of its processes is this one. The one
    /// that was there is replaced.
    ///
    /// # Errors
    /// When there can be none, such as on a full disk.
    fn begin(path: &Path, record: &Record) -> Result<Self, String> {
        let path = path_of(path);
        let process = record.processes.len().saturating_sub(1);
        let begin = || -> io::Result<(File, u64)> {
            let mut text = line(&Record { cases: vec![], ..record.clone() })?;
            for case in &record.cases {
                text.extend(line(case)?);
            }
            // In one step: there is always one journal with all that is known.
            Destination::open(&path)?.write(&text)?;
            // Not to append alone: who may do no more can neither shorten nor lock it on Windows.
            let mut file = File::options().write(true).open(&path)?;
            file.seek(SeekFrom::End(0))?;
            // Where files cannot be locked, nobody is told that this one is in use.
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Err(io::Error::other("another process is writing it"));
            }
            Ok((file, text.len() as u64))
        };
        let (file, length) = begin().map_err(|e| {
            format!("no journal can be kept in '{}', so a run that is killed is lost: {e}", path.shown())
        })?;
        Ok(Self { path, file, length, process, complained: false, closed: false })
    }

    /// Adds a case that ended. Where it cannot be written, such as on a full disk, the journal stays as it was.
    /// Returns why, once.
    fn add(&mut self, case: &Case) -> Option<String> {
        if self.closed || case.outcome == Outcome::Interrupted {
            return None;
        }
        let case = Case { process: self.process, ..case.clone() };
        let written = line(&case).and_then(|text| self.file.write_all(&text).map(|()| text.len() as u64));
        let written = written.map_err(explained);
        match written {
            Ok(length) => {
                self.length += length;
                None
            }
            Err(error) => {
                // Half a line would spoil all that follows.
                let _ = self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::End(0)));
                let (id, path) = (printable(&case.id), self.path.shown());
                (!std::mem::replace(&mut self.complained, true))
                    .then(|| format!("cannot add {id} to '{path}': {error}; it is kept in memory until the end"))
            }
        }
    }

    /// Removes the journal: its record is where it belongs.
    pub(super) fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// Keeps the journal of a record that could not be written; says where it is.
    pub(super) fn keep(self) -> String {
        let lacks = if self.complained { "some of " } else { "" };
        let record = self.path.with_extension("");
        format!("{lacks}what was measured is in '{}'; --resume '{}' completes it\n", self.path.shown(), record.shown())
    }
}

/// A document on a line of its own.
fn line(document: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(document)?;
    text.push(b'\n');
    Ok(text)
}

/// The observer of a run: progress for a person, and the journal for whoever kills it.
pub(super) struct RunObserver {
    pub(super) progress: Progress,
    /// The path of the record, where there is to be a journal.
    pub(super) path: Option<PathBuf>,
    pub(super) journal: Option<Journal>,
}

impl RunObserver {
    /// A watch over a run whose record is to be at `path`.
    pub(super) fn new(progress: Progress, path: Option<&Path>) -> Self {
        Self { progress, path: path.map(Path::to_path_buf), journal: None }
    }
}

impl Observer for RunObserver {
    fn process(&mut self, record: &Record) {
        let Some(path) = &self.path else { return };
        // Another may have begun one since this run was allowed to.
        let free = if self.journal.is_some() { Ok(()) } else { check_free(&path_of(path)) };
        let begun = free.map_err(|busy| format!("no journal is kept: {busy}"));
        match begun.and_then(|()| Journal::begin(path, record)) {
            Ok(journal) => self.journal = Some(journal),
            // Without the entry of this process nothing of it could be read.
            Err(reason) => {
                self.path = None;
                if let Some(journal) = &mut self.journal {
                    journal.complained = true;
                    journal.closed = true;
                }
                self.progress.line(&reason);
            }
        }
    }

    fn device(&mut self, info: &DeviceInfo) {
        self.progress.device(info);
    }

    fn skipped(&mut self, skipped: &[(CaseId, String)]) {
        self.progress.skipped(skipped);
    }

    fn limits(&mut self) {
        self.progress.limits();
    }

    fn begin(&mut self, id: &str) {
        self.progress.begin(id);
    }

    fn end(&mut self, case: &Case) {
        if let Some(complaint) = self.journal.as_mut().and_then(|journal| journal.add(case)) {
            self.progress.line(&complaint);
        }
        self.progress.end(case);
    }
}
