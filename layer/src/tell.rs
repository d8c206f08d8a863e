//! The file in which a process tells what it does.

use crate::format::{ENDING, Event, FOLDER, MAGIC, Process, SETTINGS, Settings, frame, read_settings};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where events go.
pub(crate) struct Teller {
    folder: PathBuf,
    pub(crate) settings: Settings,
    file: Mutex<File>,
    start: Instant,
    process: u32,
}

/// That of the process of this number: a child that a fork made gets its own.
static TELLER: Mutex<Option<(u32, Option<&'static Teller>)>> = Mutex::new(None);

/// What the program says of itself when it makes an instance, the last one.
pub(crate) static APPLICATION: Mutex<(Option<String>, Option<String>)> = Mutex::new((None, None));

/// Where this process tells what it does; `None` where nobody asked for it, or nothing can be written.
pub(crate) fn teller() -> Option<&'static Teller> {
    let mut known = TELLER.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    match *known {
        Some((of, teller)) if of == process => teller,
        _ => {
            // For as long as the process runs.
            let made: Option<&'static Teller> = Teller::new(process).map(|teller| &*Box::leak(Box::new(teller)));
            *known = Some((process, made));
            made
        }
    }
}

impl Teller {
    fn new(process: u32) -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os(FOLDER)?);
        let settings = read_settings(&std::fs::read(folder.join(SETTINGS)).ok()?)?;
        // A process that replaced itself by another program keeps its number.
        let create = |n: u32| File::create_new(folder.join(format!("{process}-{n}.{ENDING}"))).ok();
        let mut file = (0..1000).find_map(create)?;
        file.write_all(&MAGIC).ok()?;
        let (application, engine) = APPLICATION.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let teller = Self { folder, settings, file: Mutex::new(file), start: Instant::now(), process };
        teller.tell(&Event::Process(Process {
            id: process,
            arguments: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
            application,
            engine,
        }));
        Some(teller)
    }

    /// Nanoseconds since the first event.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Adds an event to the file. A disk that is full is the reader's to notice: the program goes on.
    pub(crate) fn tell(&self, event: &Event) {
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&frame(event));
    }

    /// Writes the bytes of a buffer to a file of this name, if there is space for them.
    pub(crate) fn keep(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        std::fs::write(self.folder.join(name), bytes)
    }

    /// Names that no other process takes start with this.
    pub(crate) fn prefix(&self) -> String {
        self.process.to_string()
    }
}
