//! The workers of a session, for devices and for the host. Where one of the drivers that Vulkan's loader would load
//! crashes, each is asked in a process of its own, and the others are used without it.

use super::process::{DRIVER_FILES, How, Started, WorkerExit, WorkerProcess};
use crate::basis::error::Error;
use crate::basis::printable::Shown;
use crate::device::capability::DeviceInfo;
use crate::measure::session::Setup;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// The loader's variable for further manifests.
const MORE_DRIVER_FILES: &str = "VK_ADD_DRIVER_FILES";
/// A manifest that is not there, with which the loader loads no driver.
const NO_DRIVER: &str = "/nonexistent/driver.json";
/// The folder of manifests below the system's and the user's folders.
const MANIFESTS: &str = "vulkan/icd.d";

/// The worker of a session between two executors, and what it said.
pub(crate) struct Workers<'a> {
    pub(super) setup: &'a Setup,
    /// A process that has listed the devices and is not in use.
    pub(super) idle: RefCell<Option<WorkerProcess>>,
    /// What the validation layer said in all processes, those of other threads too.
    pub(super) messages: Arc<Mutex<Vec<String>>>,
    /// The manifests of the drivers to load, where one of the system's crashes.
    drivers: Option<OsString>,
    /// Those that crash, and how.
    pub(crate) dead: Vec<String>,
}

impl<'a> Workers<'a> {
    /// Starts a worker and lists the devices that it sees.
    ///
    /// # Errors
    /// When it cannot be started, or cannot load Vulkan, or dies of a driver.
    pub(crate) fn open(setup: &'a Setup) -> Result<(Self, Vec<DeviceInfo>), Error> {
        let (idle, messages) = (RefCell::default(), Arc::default());
        let mut workers = Self { setup, idle, messages, drivers: setup.drivers.clone(), dead: vec![] };
        let started = match workers.start(&AtomicBool::new(false)) {
            Err(ended) if ended.how != How::Refused => workers.start_without_dead_drivers(&ended),
            started => started.map_err(|ended| ended.to_string()),
        };
        let (process, devices) = started.map_err(Error::Failure)?;
        workers.idle = RefCell::new(Some(process));
        Ok((workers, devices.map_err(Error::Failure)?))
    }

    /// Asks each driver in a process of its own, after one with all of them `ended`, and starts a worker that loads those
    /// that live.
    ///
    /// # Errors
    /// When no driver is left, or none is to blame.
    fn start_without_dead_drivers(&mut self, ended: &WorkerExit) -> Result<Started, String> {
        let uninterrupted = AtomicBool::new(false);
        let mut alive = vec![];
        // A worker that dies without a driver dies of the loader or a layer.
        let suspects = match WorkerProcess::start(self.setup, Some(OsStr::new(NO_DRIVER)), &uninterrupted) {
            Err(ended) if ended.how != How::Refused => vec![],
            _ => manifests(self.drivers.as_ref()),
        };
        let culprit = if suspects.is_empty() { "the Vulkan loader or a layer" } else { "a driver or a layer" };
        for manifest in suspects {
            match WorkerProcess::start(self.setup, Some(manifest.as_os_str()), &uninterrupted) {
                Err(ended) if ended.how != How::Refused => {
                    let how = match ended.how {
                        How::Hung => "hung",
                        How::Killed => "was killed",
                        How::Crashed | How::Refused => "crashed",
                    };
                    let manifest = manifest.shown();
                    self.dead.push(format!("driver {manifest} {how} while listing its devices: {ended}"));
                }
                _ => alive.push(manifest),
            }
        }
        let said = self.dead.iter().map(|driver| format!("; {driver}")).collect::<String>();
        if self.dead.is_empty() || alive.is_empty() {
            let what = match ended.how {
                How::Killed => "the worker that lists devices died twice".into(),
                How::Hung => format!("{culprit} hung while listing devices"),
                How::Crashed | How::Refused => format!("{culprit} crashed while listing devices"),
            };
            return Err(format!("{what}: {ended}{said}"));
        }
        let alive =
            env::join_paths(&alive).map_err(|e| format!("cannot pass a driver manifest's path to a worker: {e}"))?;
        self.drivers = Some(alive);
        let started = self.start(&uninterrupted);
        let (process, devices) =
            started.map_err(|ended| format!("a driver crashes only when others are loaded too: {ended}{said}"))?;
        Ok((process, devices.map_err(|error| format!("{error}{said}"))))
    }

    /// A new worker that sees the same drivers, with the devices that it sees.
    pub(super) fn start(&self, interrupted: &AtomicBool) -> Result<Started, WorkerExit> {
        WorkerProcess::start(self.setup, self.drivers.as_deref(), interrupted)
    }

    /// Ends the worker that is not in use: what is measured next is in a new one.
    pub(crate) fn renew(&self) {
        self.idle.borrow_mut().take();
    }

    /// What the validation layer said so far.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Workers for another thread, of the same drivers.
    pub(crate) fn beside(&self) -> Self {
        let Self { setup, messages, drivers, dead, .. } = self;
        let (messages, drivers, dead) = (Arc::clone(messages), drivers.clone(), dead.clone());
        Self { setup, idle: RefCell::default(), messages, drivers, dead }
    }

    /// Adds what the validation layer said.
    pub(super) fn hear(&self, messages: Vec<String>) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
    }
}

/// The manifests that the loader reads: those that were `chosen`, those that variables name, or else those in its folders.
pub(crate) fn manifests(chosen: Option<&OsString>) -> Vec<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|paths| !paths.is_empty());
    let paths = |list: OsString| env::split_paths(&list).flat_map(|path| manifest_files(&path)).collect::<Vec<_>>();
    let found = if let Some(list) = chosen.cloned().or_else(|| DRIVER_FILES.iter().find_map(|name| named(name))) {
        paths(list)
    } else {
        let more = named(MORE_DRIVER_FILES).map(paths).unwrap_or_default();
        more.into_iter().chain(folders().iter().flat_map(|folder| manifest_files(&folder.join(MANIFESTS)))).collect()
    };
    let mut known = BTreeSet::new();
    found.into_iter().filter(|path| known.insert(path.clone())).collect()
}

/// A manifest, or those in a folder of them.
pub(crate) fn manifest_files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_path_buf()];
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.extension() == Some(OsStr::new("json"))).collect();
    files.sort();
    files
}

/// The folders that the loader looks into, in its order ("Driver Discovery on Linux" of its documentation).
fn folders() -> Vec<PathBuf> {
    let list = |name: &str, default: &str| {
        let list = env::var_os(name).filter(|list| !list.is_empty()).unwrap_or_else(|| default.into());
        env::split_paths(&list).collect::<Vec<_>>()
    };
    let fixed = ["/usr/local/etc", "/etc"].map(PathBuf::from);
    let own = dirs::config_dir().into_iter().chain(list("XDG_CONFIG_DIRS", "/etc/xdg"));
    let data = dirs::data_dir().into_iter().chain(list("XDG_DATA_DIRS", "/usr/local/share:/usr/share"));
    own.chain(fixed).chain(data).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_the_manifests_in_it_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.json", "a.json", "a.txt"] {
            std::fs::write(folder.path().join(name), "{}").expect("written");
        }
        assert_eq!(manifest_files(folder.path()), ["a.json", "b.json"].map(|name| folder.path().join(name)));
        let file = folder.path().join("b.json");
        assert_eq!(manifest_files(&file), std::slice::from_ref(&file));
        assert!(
            manifest_files(&folder.path().join("missing.json")).len() == 1,
            "the loader says what is wrong with it"
        );
    }
}
