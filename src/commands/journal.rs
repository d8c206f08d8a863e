//! The journal of a run: a file beside the record, with a line for each finished case, so that a killed process loses only
//! the cases in flight.

use super::campaign::Announcements;
use super::progress::Progress;
use crate::basis::destination::{Destination, explained};
use crate::basis::error::Error;
use crate::basis::printable::{Shown, printable};
use crate::device::capability::DeviceInfo;
use crate::engine::executor::Observer;
use crate::kernels::CATALOGUE;
use crate::plan::CaseId;
use crate::record::reader;
use crate::record::{Case, Outcome, Record};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Journal that is being written.
pub(super) struct Journal {
    path: PathBuf,
    /// File, locked while the process lives.
    file: File,
    /// Length of the whole lines, in bytes.
    length: u64,
    /// Index of this process among those that measure the record.
    process: usize,
    /// Whether a line could not be written; reported once.
    complained: bool,
    /// Whether the journal takes no more cases.
    closed: bool,
}

/// Returns the path of the journal for the record at `path`.
pub(super) fn path_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".part");
    name.into()
}

/// Reads the record to be completed by `--resume`: its journal if the run was killed, otherwise the file itself.
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

/// Refuses a new run with its record at `path` if a journal there still has cases of a killed run.
pub(super) fn check_none(path: &Path) -> Result<(), Error> {
    let journal = path_of(path);
    if !journal.exists() {
        return Ok(());
    }
    check_free(&journal)?;
    let cases = reader::read(&journal, &CATALOGUE).map(|loaded| loaded.record.cases.len());
    if matches!(cases, Ok(0)) {
        return Ok(());
    }
    let problem =
        cases.map_or_else(|_| "is in the way".into(), |count| format!("has {count} cases of a run that was killed"));
    Err(Error::Usage(format!(
        "'{}' {problem}; --resume '{}' in place of --json completes it, or delete it",
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
    /// Creates the journal for the record at `path`, with the cases of `record`, whose last process is this one. Replaces an
    /// existing journal.
    ///
    /// # Errors
    /// If the file cannot be written, such as on a full disk.
    fn begin(path: &Path, record: &Record) -> Result<Self, String> {
        let path = path_of(path);
        let process = record.processes.len().saturating_sub(1);
        let begin = || -> io::Result<(File, u64)> {
            let mut text = line(&Record { cases: vec![], ..record.clone() })?;
            for case in &record.cases {
                text.extend(line(case)?);
            }
            // Replaced in one step, so that a process killed here loses no case.
            Destination::open(&path)?.write(&text)?;
            // Windows cannot truncate or lock a file that is open only for appending.
            let mut file = File::options().write(true).open(&path)?;
            file.seek(SeekFrom::End(0))?;
            // Some file systems have no locks; the journal is used without one there.
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

    /// Adds a finished case. If it cannot be written, such as on a full disk, the journal stays as it was; the reason is
    /// returned the first time.
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
                // Half a line would make every later line unreadable.
                let _ = self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::End(0)));
                let (id, path) = (printable(&case.id), self.path.shown());
                (!std::mem::replace(&mut self.complained, true))
                    .then(|| format!("cannot add {id} to '{path}': {error}; it is kept in memory until the end"))
            }
        }
    }

    /// Removes the journal once its record is written.
    pub(super) fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// Returns a note about the journal of a record that could not be written.
    pub(super) fn note(&self) -> String {
        let lacks = if self.complained { "some of " } else { "" };
        let record = self.path.with_extension("");
        format!("{lacks}what was measured is in '{}'; --resume '{}' completes it\n", self.path.shown(), record.shown())
    }
}

/// Returns `document` as one line of JSON.
fn line(document: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(document)?;
    text.push(b'\n');
    Ok(text)
}

/// Observer of a run: shows progress and writes the journal.
pub(super) struct RunObserver {
    pub(super) progress: Progress,
    announcements: Announcements,
    /// Path of the record, if the run keeps a journal.
    path: Option<PathBuf>,
    pub(super) journal: Option<Journal>,
}

impl RunObserver {
    /// Returns a watch over a run that writes its record to `path`.
    pub(super) fn new(progress: Progress, announcements: Announcements, path: Option<&Path>) -> Self {
        Self { progress, announcements, path: path.map(Path::to_path_buf), journal: None }
    }
}

impl Observer for RunObserver {
    fn process(&mut self, record: &Record) {
        let Some(path) = &self.path else { return };
        // Another process may have started one since `check_none`.
        let free = if self.journal.is_some() { Ok(()) } else { check_free(&path_of(path)) };
        let ready = free.map_err(|busy| format!("no journal is kept: {busy}"));
        match ready.and_then(|()| Journal::begin(path, record)) {
            Ok(journal) => self.journal = Some(journal),
            // Cases of a process that has no entry in the journal could not be read back.
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
        if self.announcements == Announcements::Full {
            self.progress.device(info);
        }
    }

    fn skipped(&mut self, skipped: &[(CaseId, String)]) {
        if self.announcements == Announcements::Full {
            self.progress.skipped(skipped);
        }
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
