//! Writes the file of events of a process.

use crate::format::{self, CaptureSettings, ENDING, FOLDER, LayerEvent, MAGIC, ProcessInfo, SETTINGS};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Writes the events of a process to its file, and captured bytes to files of their own.
pub(crate) struct EventWriter {
    folder: PathBuf,
    pub(crate) settings: CaptureSettings,
    file: Mutex<File>,
    /// Time of the first event.
    start: Instant,
    process: u32,
}

/// Id of the process that looked for its writer last, and that writer. A child process after `fork` has another id and
/// opens its own file.
static WRITER: Mutex<Option<(u32, Option<&'static EventWriter>)>> = Mutex::new(None);

/// Most files of events that one process id may have.
const MAX_FILES: u32 = 1000;

/// Application and engine name of the instance created last.
pub(crate) static APPLICATION: Mutex<(Option<String>, Option<String>)> = Mutex::new((None, None));

/// Returns the process's writer; `None` if capture was not requested or the file cannot be created.
pub(crate) fn event_writer() -> Option<&'static EventWriter> {
    let mut last = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((owner, writer)) = *last
        && owner == process
    {
        return writer;
    }
    // Leaked: the writer lives as long as the process.
    let writer: Option<&'static EventWriter> = EventWriter::new(process).map(|writer| &*Box::leak(Box::new(writer)));
    *last = Some((process, writer));
    writer
}

impl EventWriter {
    fn new(process: u32) -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os(FOLDER)?);
        let settings = format::decode_settings(&std::fs::read(folder.join(SETTINGS)).ok()?)?;
        // `exec` keeps the process id, so the file of this id may exist already.
        let create = |n: u32| File::create_new(folder.join(format!("{process}-{n}.{ENDING}"))).ok();
        let mut file = (0..MAX_FILES).find_map(create)?;
        file.write_all(&MAGIC).ok()?;
        let (application, engine) = APPLICATION.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sample = settings.sample;
        let writer = Self { folder, settings, file: Mutex::new(file), start: Instant::now(), process };
        writer.write_event(&LayerEvent::Process(ProcessInfo {
            id: process,
            arguments: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
            application,
            engine,
            sample,
        }));
        Some(writer)
    }

    /// Returns the nanoseconds since the first event.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Appends an event to the file. Errors such as a full disk are ignored: the program must not fail, and the reader
    /// reports an incomplete file.
    pub(crate) fn write_event(&self, event: &LayerEvent) {
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&format::encode_frame(event));
    }

    /// Writes the bytes of a buffer to a file of this name in the folder.
    pub(crate) fn write_file(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        std::fs::write(self.folder.join(name), bytes)
    }

    /// Returns the prefix of this process's file names, its id.
    pub(crate) fn prefix(&self) -> String {
        self.process.to_string()
    }
}
