//! The journal of a run: a file beside the record, with a line for each finished case, so that a killed process loses only
//! the cases in flight.

use super::failures::FailureKeeper;
use super::{CommandOutput, JSON, Progress, Target};
use crate::basis::destination::{Destination, explained};
use crate::plan::CaseId;
use crate::record::{Warning, reader};
use crate::{CATALOGUE, Case, DeviceInfo, Observer, Outcome, Plan, Record, Result, Shown, counted, printable};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
    is_incomplete: bool,
    /// Whether the journal takes no more cases.
    is_closed: bool,
}

/// Destination of a measurement's record.
#[derive(Default)]
pub(super) struct RecordFile {
    target: Option<Target>,
    /// Record to be completed; taken when the measurement starts.
    pub(super) earlier: Option<Record>,
    /// Journal that the measurement wrote.
    pub(super) journal: Option<Journal>,
    /// Record in the file that the new one replaces.
    replaced: Option<ReplacedRecord>,
}

/// Facts about a record that is replaced; nothing else of it is read.
#[derive(serde::Deserialize)]
struct ReplacedRecord {
    cases: Vec<serde::de::IgnoredAny>,
    #[serde(default)]
    processes: Vec<serde::de::IgnoredAny>,
}

impl ReplacedRecord {
    /// Reads a record at `path`; `None` for anything else, and for one without cases.
    fn at(path: &Path) -> Option<Self> {
        let file = path.is_file().then(|| File::open(path))?.ok()?;
        let record: Self = serde_json::from_reader(io::BufReader::new(file)).ok()?;
        (!record.cases.is_empty()).then_some(record)
    }

    /// Keeps the record at `path` beside it under a name that is free if the new `record` is worth less, and says so; `None` if
    /// it is not, or the file cannot be renamed.
    fn keep(&self, path: &Path, record: &Record) -> Option<String> {
        let why = if is_interrupted(record) {
            "as this run was interrupted".to_string()
        } else if self.processes.len() > record.processes().len() {
            format!("as it has {}", counted(self.processes.len(), "process"))
        } else {
            return None;
        };
        // One interruption must not replace what another has kept.
        let numbered = (2..).map(|number| beside(path, &format!(".before-{number}")));
        let kept = std::iter::once(beside(path, ".before")).chain(numbered).find(|path| !path.exists())?;
        std::fs::rename(path, &kept).ok()?;
        let cases = counted(self.cases.len(), "case");
        Some(format!("kept the {cases} of '{}' in '{}', {why}\n", path.shown(), kept.shown()))
    }
}

impl RecordFile {
    /// Opens the file of `--json` or `--resume`. Refuses a new record if a journal of a killed run is in the way.
    pub(super) fn open(json: Option<&PathBuf>, resume: Option<&PathBuf>, notes: &mut String) -> Result<Self> {
        let target = Target::open_if_named(JSON, json.or(resume))?;
        let earlier = resume.map(|path| read_earlier(path, notes)).transpose()?;
        let mut file = Self { target, earlier, ..Self::default() };
        if let (Some(path), None) = (file.path(), &file.earlier) {
            check_no_journal(path)?;
            file.replaced = ReplacedRecord::at(path);
        }
        Ok(file)
    }

    /// Returns the path of the record, unless it goes to standard output or nowhere.
    pub(super) fn path(&self) -> Option<&Path> {
        self.target.as_ref()?.file()
    }

    /// Returns whether the record to be completed is one of all cases of `plan`.
    pub(super) fn completes(&self, plan: &Plan) -> bool {
        self.earlier.as_ref().is_some_and(|earlier| earlier.plan.as_ref() == Some(&plan.hash()))
    }

    pub(super) fn remove_journal(&mut self) {
        if let Some(journal) = self.journal.take() {
            let _ = std::fs::remove_file(&journal.path);
        }
    }

    /// Writes `record`, and then removes its journal. Returns false, and adds the error with a note about the journal, if the
    /// record could not be written.
    pub(super) fn deliver(mut self, record: &Record, answer: &mut CommandOutput) -> bool {
        let replaced = self.replaced.take().zip(self.path());
        let kept = replaced.and_then(|(replaced, path)| replaced.keep(path, record));
        let is_written = answer.deliver_json(self.target.take(), record);
        if is_written {
            self.remove_journal();
        } else if let Some(journal) = &self.journal {
            answer.late_notes.push_str(&journal.note());
        }
        // Also where the new record could not be written: the earlier one has another name now.
        answer.late_notes.extend(kept);
        is_written
    }
}

/// Whether a record lacks cases, samples or processes because its run was interrupted.
fn is_interrupted(record: &Record) -> bool {
    let planned = record.request.as_ref().and_then(|request| request.processes).unwrap_or(1) as usize;
    // Each process has an entry for a case, or one entry has their medians.
    let mut entries: HashMap<(&str, usize), usize> = HashMap::new();
    for case in &record.cases {
        let processes = match &case.outcome {
            Outcome::Measured(measured) => measured.process_medians.len().max(1),
            Outcome::Interrupted => 1,
            // The other processes skip what was wrong or failed in one.
            _ => planned,
        };
        *entries.entry((&case.id, case.device)).or_default() += processes;
    }
    let was_cut_short = |case: &Case| match &case.outcome {
        Outcome::Interrupted => true,
        Outcome::Measured(measured) => measured.warnings.contains(&Warning::Interrupted),
        _ => false,
    };
    record.cases.iter().any(was_cut_short) || entries.values().any(|count| *count < planned)
}

/// Returns the path of the journal for the record at `path`.
pub(super) fn path_of(path: &Path) -> PathBuf {
    beside(path, ".part")
}

/// Returns the path of a file beside the record at `path` whose name has this end, too.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

/// Reads the record to be completed by `--resume`: its journal if the run was killed, otherwise the file itself.
fn read_earlier(path: &Path, notes: &mut String) -> Result<Record> {
    let journal = path_of(path);
    if journal.exists() {
        check_free(&journal)?;
        return Ok(super::read_record(&journal, notes)?.record);
    }
    if !path.exists() {
        let name = path.shown();
        return Err(usage!(
            "there is nothing to resume: neither '{}' nor '{name}' is there; begin with --json '{name}'",
            journal.shown()
        ));
    }
    Ok(super::read_record(path, notes)?.record)
}

/// Refuses a new run with its record at `path` if a journal there still has cases of a killed run.
fn check_no_journal(path: &Path) -> Result<()> {
    let journal = path_of(path);
    if !journal.exists() {
        return Ok(());
    }
    check_free(&journal)?;
    let problem = match reader::read(&journal, &CATALOGUE).map(|loaded| loaded.record.cases.len()) {
        Ok(0) => return Ok(()),
        Ok(count) => format!("has {count} cases of a run that was killed"),
        Err(_) => "is in the way".into(),
    };
    Err(usage!(
        "'{}' {problem}; --resume '{}' in place of --json completes it, or delete it",
        journal.shown(),
        path.shown()
    ))
}

/// Time that a process which is ending, or has just been started, may take to release a lock that it inherited.
const LOCK_RELEASE_TIME: Duration = Duration::from_secs(1);

/// Refuses a journal that another process is writing.
fn check_free(journal: &Path) -> Result<()> {
    let start = Instant::now();
    while let Ok(Err(TryLockError::WouldBlock)) = File::open(journal).map(|file| file.try_lock()) {
        if start.elapsed() > LOCK_RELEASE_TIME {
            return Err(usage!("'{}' is being written by another process; wait for it", journal.shown()));
        }
        std::thread::sleep(LOCK_RELEASE_TIME / 50);
    }
    Ok(())
}

impl Journal {
    /// Creates the journal for the record at `path`, with the cases of `record`, whose last process is this one. Replaces an
    /// existing journal. Fails with the reason if the file cannot be written, such as on a full disk.
    fn begin(path: &Path, record: &Record) -> Result<Self, String> {
        let path = path_of(path);
        Self::try_begin(&path, record)
            .map_err(|e| format!("no journal can be kept in '{}', so a run that is killed is lost: {e}", path.shown()))
    }

    fn try_begin(path: &Path, record: &Record) -> io::Result<Self> {
        let mut text = json_line(&Record { cases: vec![], ..record.clone() })?;
        for case in &record.cases {
            text.extend(json_line(case)?);
        }
        // Replaced in one step, so that a process killed here loses no case.
        Destination::open(path)?.write(&text)?;
        // Windows cannot truncate or lock a file that is open only for appending.
        let mut file = File::options().write(true).open(path)?;
        file.seek(SeekFrom::End(0))?;
        // Some file systems have no locks; the journal is used without one there.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(io::Error::other("another process is writing it"));
        }
        let process = record.processes.len().saturating_sub(1);
        let length = text.len() as u64;
        Ok(Self { path: path.to_path_buf(), file, length, process, is_incomplete: false, is_closed: false })
    }

    /// Adds a finished case. If it cannot be written, such as on a full disk, the journal stays as it was; the reason is
    /// returned the first time.
    fn add(&mut self, case: &Case) -> Option<String> {
        if self.is_closed || case.outcome == Outcome::Interrupted {
            return None;
        }
        let case = Case { process: self.process, ..case.clone() };
        let error = match self.write_line(&case) {
            Ok(()) => return None,
            Err(error) => explained(error),
        };
        // Half a line would make every later line unreadable.
        let _ = self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::End(0)));
        if self.is_incomplete {
            return None;
        }
        self.is_incomplete = true;
        let id = printable(&case.id);
        Some(format!("cannot add {id} to '{}': {error}; it is kept in memory until the end", self.path.shown()))
    }

    fn write_line(&mut self, case: &Case) -> io::Result<()> {
        let text = json_line(case)?;
        self.file.write_all(&text)?;
        self.length += text.len() as u64;
        Ok(())
    }

    /// Returns a note about the journal of a record that could not be written.
    fn note(&self) -> String {
        let lacks = if self.is_incomplete { "some of " } else { "" };
        let record = self.path.with_extension("");
        format!("{lacks}what was measured is in '{}'; --resume '{}' completes it\n", self.path.shown(), record.shown())
    }
}

fn json_line(document: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(document)?;
    text.push(b'\n');
    Ok(text)
}

/// Observer of a measurement: shows progress and writes the journal.
pub(super) struct RunObserver<'a> {
    pub(super) progress: Progress,
    /// Whether devices and skipped cases are announced.
    pub(super) announces: bool,
    /// Path of the record, if a journal is kept beside it.
    pub(super) path: Option<PathBuf>,
    pub(super) journal: Option<Journal>,
    /// Writer of reproducers, so that they survive the run.
    pub(super) keeper: Option<FailureKeeper<'a>>,
    /// Record without cases, which names the devices of their reproducers.
    pub(super) record: Option<Record>,
}

impl Observer for RunObserver<'_> {
    fn process(&mut self, record: &Record) {
        self.record = self.keeper.map(|_| Record { cases: vec![], ..record.clone() });
        let Some(path) = &self.path else { return };
        // Another process may have started a journal after this one checked that there was none.
        let busy = if self.journal.is_none() { check_free(&path_of(path)).err() } else { None };
        let journal = match busy {
            None => Journal::begin(path, record),
            Some(busy) => Err(format!("no journal is kept: {busy}")),
        };
        match journal {
            Ok(journal) => self.journal = Some(journal),
            // Cases of a process that has no entry in the journal could not be read back.
            Err(reason) => {
                self.path = None;
                if let Some(journal) = &mut self.journal {
                    journal.is_incomplete = true;
                    journal.is_closed = true;
                }
                self.progress.line(&reason);
            }
        }
    }

    fn device(&mut self, info: &DeviceInfo) {
        if self.announces {
            self.progress.device(info);
        }
    }

    fn skipped(&mut self, skipped: &[(CaseId, String)]) {
        if self.announces {
            self.progress.skipped(skipped);
        }
    }

    fn limits(&mut self) {
        self.progress.limits();
    }

    fn begin(&mut self, id: &str) {
        self.progress.begin(id);
    }

    fn died(&mut self, id: &str, cause: &str) {
        self.progress.died(id, cause);
    }

    fn end(&mut self, case: &Case) {
        if let Some(complaint) = self.journal.as_mut().and_then(|journal| journal.add(case)) {
            self.progress.line(&complaint);
        }
        self.progress.end(case);
        // The end of the run may find a driver guilty of what looks like the user's mistake.
        let is_mistake = matches!(case.outcome, Outcome::Failed { mistake: true, .. });
        if let (Some(keeper), Some(record), false) = (&self.keeper, &self.record, is_mistake) {
            // The end of the run tries again, and reports the error.
            let _ = keeper.keep(record, case);
        }
    }
}
