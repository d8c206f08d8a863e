//! The workers of a session, for devices and for the host. If loading all drivers crashes a worker, each driver is
//! tried in a separate process, and the session continues without the drivers that crash.

use super::process::{DRIVER_FILES, EndKind, StartedWorker, WorkerEnd, WorkerProcess};
use crate::basis::error::Error;
use crate::basis::printable::Shown;
use crate::device::capability::DeviceInfo;
use crate::session::Setup;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Environment variable that lists further driver manifests for the Vulkan loader.
const MORE_DRIVER_FILES: &str = "VK_ADD_DRIVER_FILES";
/// Path of a missing manifest, with which the loader loads no driver.
const NO_DRIVER: &str = "/nonexistent/driver.json";
/// Folder of manifests below the system's and the user's configuration folders.
const MANIFESTS: &str = "vulkan/icd.d";

/// Workers of a session: the idle one between two executors, and the messages of all.
pub struct Workers<'a> {
    pub(super) setup: &'a Setup,
    /// Worker that has listed the devices and is not in use.
    pub(super) idle: RefCell<Option<WorkerProcess>>,
    /// Messages of the validation layer from all workers, including those of other threads.
    pub(super) messages: Arc<Mutex<Vec<String>>>,
    /// Manifests of the drivers to load; `None` for the system's.
    drivers: Option<OsString>,
    /// One line per driver that crashes.
    pub dead_drivers: Vec<String>,
    /// Devices that workers see.
    pub devices: Vec<DeviceInfo>,
}

impl<'a> Workers<'a> {
    /// Starts a worker and lists the devices that it sees.
    ///
    /// # Errors
    /// When the worker cannot start or load Vulkan, or a driver crashes it.
    pub fn open(setup: &'a Setup) -> Result<Self, Error> {
        let mut workers = Self {
            setup,
            idle: RefCell::default(),
            messages: Arc::default(),
            drivers: setup.drivers.clone(),
            dead_drivers: vec![],
            devices: vec![],
        };
        let started = match workers.start(&AtomicBool::new(false)) {
            Err(ended) if ended.how != EndKind::Refused => workers.start_without_dead_drivers(&ended),
            started => started.map_err(|ended| ended.to_string()),
        };
        let StartedWorker { process, devices } = started.map_err(Error::Failure)?;
        workers.devices = devices.map_err(Error::Failure)?;
        workers.idle = RefCell::new(Some(process));
        Ok(workers)
    }

    /// Tries each driver in a separate worker, after the worker with all drivers `ended`, and starts a worker that
    /// loads those that do not crash. Fails if every driver crashes, or none does.
    fn start_without_dead_drivers(&mut self, ended: &WorkerEnd) -> Result<StartedWorker, String> {
        let uninterrupted = AtomicBool::new(false);
        // If a worker dies even without drivers, the loader or a layer is at fault.
        let suspects = match WorkerProcess::start(self.setup, Some(OsStr::new(NO_DRIVER)), &uninterrupted) {
            Err(ended) if ended.how != EndKind::Refused => vec![],
            _ => {
                let chosen = self.setup.chosen_drivers().map(|(manifests, _)| manifests);
                manifests(chosen.filter(|manifests| !manifests.is_empty()).as_ref())
            }
        };
        let culprit = if suspects.is_empty() { "the Vulkan loader or a layer" } else { "a driver or a layer" };
        let mut alive = vec![];
        for manifest in suspects {
            match WorkerProcess::start(self.setup, Some(manifest.as_os_str()), &uninterrupted) {
                Err(ended) if ended.how != EndKind::Refused => {
                    let how = match ended.how {
                        EndKind::Hung => "hung",
                        EndKind::Killed => "was killed",
                        EndKind::Crashed | EndKind::Refused => "crashed",
                    };
                    let manifest = manifest.shown();
                    self.dead_drivers.push(format!("driver {manifest} {how} while listing its devices: {ended}"));
                }
                _ => alive.push(manifest),
            }
        }
        let crashes: String = self.dead_drivers.iter().map(|driver| format!("; {driver}")).collect();
        if self.dead_drivers.is_empty() || alive.is_empty() {
            let what = match ended.how {
                EndKind::Killed => "the worker that lists devices died twice".into(),
                EndKind::Hung => format!("{culprit} hung while listing devices"),
                EndKind::Crashed | EndKind::Refused => format!("{culprit} crashed while listing devices"),
            };
            // A driver that is known to crash says the same again.
            return Err(match &self.dead_drivers[..] {
                [] => format!("{what}: {ended}"),
                dead => {
                    let remedy = "`gpukern devices --in-process` loads it without a worker, for a debugger";
                    format!("{}; {remedy}", dead.join("; "))
                }
            });
        }
        let alive =
            env::join_paths(&alive).map_err(|e| format!("cannot pass a driver manifest's path to a worker: {e}"))?;
        self.drivers = Some(alive);
        let mut started = self
            .start(&uninterrupted)
            .map_err(|ended| format!("a driver crashes only when others are loaded too: {ended}{crashes}"))?;
        started.devices = started.devices.map_err(|error| format!("{error}{crashes}"));
        Ok(started)
    }

    /// Starts a worker with the same drivers.
    pub(super) fn start(&self, interrupted: &AtomicBool) -> Result<StartedWorker, WorkerEnd> {
        WorkerProcess::start(self.setup, self.drivers.as_deref(), interrupted)
    }

    /// Ends the idle worker, so that the next job runs in a fresh one.
    pub fn renew(&self) {
        self.idle.borrow_mut().take();
    }

    /// Returns the messages of the validation layer so far.
    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns workers with the same drivers for another thread.
    pub fn for_another_thread(&self) -> Self {
        Self {
            setup: self.setup,
            idle: RefCell::default(),
            messages: Arc::clone(&self.messages),
            drivers: self.drivers.clone(),
            dead_drivers: self.dead_drivers.clone(),
            devices: self.devices.clone(),
        }
    }

    /// Adds messages of the validation layer.
    pub(super) fn add_messages(&self, messages: Vec<String>) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
    }
}

/// Returns the manifests that the loader reads: the `chosen` ones, the environment's, or those in its folders.
pub fn manifests(chosen: Option<&OsString>) -> Vec<PathBuf> {
    let list = chosen.cloned().or_else(|| DRIVER_FILES.iter().find_map(|name| path_list(name)));
    let mut paths: Vec<PathBuf> = vec![];
    if let Some(list) = list {
        paths.extend(env::split_paths(&list));
    } else {
        paths.extend(path_list(MORE_DRIVER_FILES).iter().flat_map(env::split_paths));
        paths.extend(folders().iter().map(|folder| folder.join(MANIFESTS)).filter(|folder| folder.is_dir()));
    }
    let mut manifests: Vec<_> = paths.iter().flat_map(|path| manifest_files(path)).collect();
    let mut unique = BTreeSet::new();
    manifests.retain(|path| unique.insert(path.clone()));
    manifests
}

/// Returns the path list in this environment variable, unless it is empty.
fn path_list(variable: &str) -> Option<OsString> {
    env::var_os(variable).filter(|paths| !paths.is_empty())
}

/// Returns the manifests in a folder, or `path` itself if it is not a folder.
pub fn manifest_files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_path_buf()];
    }
    // A folder or an entry that cannot be read counts as empty, as it does for the loader.
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension() == Some(OsStr::new("json")));
    files.sort();
    files
}

/// Returns the folders that the loader searches, in order ("Driver Discovery on Linux" in its documentation).
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![];
    folders.extend(dirs::config_dir());
    let config = path_list("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
    folders.extend(env::split_paths(&config));
    folders.extend(["/usr/local/etc", "/etc"].map(PathBuf::from));
    folders.extend(dirs::data_dir());
    let data = path_list("XDG_DATA_DIRS").unwrap_or_else(|| "/usr/local/share:/usr/share".into());
    folders.extend(env::split_paths(&data));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_of_a_folder_are_sorted_by_name() {
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
