//! The workers of a session, for devices and for the host. If loading all drivers crashes a worker, each driver is
//! tried in a separate process, and the session continues without the drivers that crash.

use super::process::{DRIVER_FILES, EndKind, Started, WorkerEnd, WorkerProcess};
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
    pub dead: Vec<String>,
}

impl<'a> Workers<'a> {
    /// Starts a worker and lists the devices that it sees.
    ///
    /// # Errors
    /// When the worker cannot start or load Vulkan, or a driver crashes it.
    pub fn open(setup: &'a Setup) -> Result<(Self, Vec<DeviceInfo>), Error> {
        let mut workers = Self {
            setup,
            idle: RefCell::default(),
            messages: Arc::default(),
            drivers: setup.drivers.clone(),
            dead: vec![],
        };
        let started = match workers.start(&AtomicBool::new(false)) {
            Err(ended) if ended.how != EndKind::Refused => workers.start_without_dead_drivers(&ended),
            started => started.map_err(|ended| ended.to_string()),
        };
        let (process, devices) = started.map_err(Error::Failure)?;
        workers.idle = RefCell::new(Some(process));
        Ok((workers, devices.map_err(Error::Failure)?))
    }

    /// Tries each driver in a separate worker, after the worker with all drivers `ended`, and starts a worker that
    /// loads those that do not crash.
    ///
    /// # Errors
    /// When every driver crashes, or none does.
    fn start_without_dead_drivers(&mut self, ended: &WorkerEnd) -> Result<Started, String> {
        let uninterrupted = AtomicBool::new(false);
        let mut alive = vec![];
        // If a worker dies even without drivers, the loader or a layer is at fault.
        let suspects = match WorkerProcess::start(self.setup, Some(OsStr::new(NO_DRIVER)), &uninterrupted) {
            Err(ended) if ended.how != EndKind::Refused => vec![],
            _ => manifests(self.drivers.as_ref()),
        };
        let culprit = if suspects.is_empty() { "the Vulkan loader or a layer" } else { "a driver or a layer" };
        for manifest in suspects {
            match WorkerProcess::start(self.setup, Some(manifest.as_os_str()), &uninterrupted) {
                Err(ended) if ended.how != EndKind::Refused => {
                    let how = match ended.how {
                        EndKind::Hung => "hung",
                        EndKind::Killed => "was killed",
                        EndKind::Crashed | EndKind::Refused => "crashed",
                    };
                    let manifest = manifest.shown();
                    self.dead.push(format!("driver {manifest} {how} while listing its devices: {ended}"));
                }
                _ => alive.push(manifest),
            }
        }
        let crashes = self.dead.iter().map(|driver| format!("; {driver}")).collect::<String>();
        if self.dead.is_empty() || alive.is_empty() {
            let what = match ended.how {
                EndKind::Killed => "the worker that lists devices died twice".into(),
                EndKind::Hung => format!("{culprit} hung while listing devices"),
                EndKind::Crashed | EndKind::Refused => format!("{culprit} crashed while listing devices"),
            };
            return Err(format!("{what}: {ended}{crashes}"));
        }
        let alive =
            env::join_paths(&alive).map_err(|e| format!("cannot pass a driver manifest's path to a worker: {e}"))?;
        self.drivers = Some(alive);
        let started = self.start(&uninterrupted);
        let (process, devices) =
            started.map_err(|ended| format!("a driver crashes only when others are loaded too: {ended}{crashes}"))?;
        Ok((process, devices.map_err(|error| format!("{error}{crashes}"))))
    }

    /// Starts a worker with the same drivers.
    pub(super) fn start(&self, interrupted: &AtomicBool) -> Result<Started, WorkerEnd> {
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
            dead: self.dead.clone(),
        }
    }

    /// Adds messages of the validation layer.
    pub(super) fn hear(&self, messages: Vec<String>) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
    }
}

/// Returns the manifests that the loader reads: the `chosen` ones, or those from the environment, or those in its
/// folders.
pub fn manifests(chosen: Option<&OsString>) -> Vec<PathBuf> {
    let mut manifests = vec![];
    if let Some(list) = chosen.cloned().or_else(|| DRIVER_FILES.iter().find_map(|name| path_list(name))) {
        manifests.extend(env::split_paths(&list).flat_map(|path| manifest_files(&path)));
    } else {
        if let Some(list) = path_list(MORE_DRIVER_FILES) {
            manifests.extend(env::split_paths(&list).flat_map(|path| manifest_files(&path)));
        }
        manifests.extend(folders().iter().flat_map(|folder| manifest_files(&folder.join(MANIFESTS))));
    }
    let mut seen = BTreeSet::new();
    manifests.retain(|path| seen.insert(path.clone()));
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
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.extension() == Some(OsStr::new("json"))).collect();
    files.sort();
    files
}

/// Returns the folders that the loader searches, in order ("Driver Discovery on Linux" in its documentation).
fn folders() -> Vec<PathBuf> {
    let list = |name: &str, default: &str| {
        let list = env::var_os(name).filter(|list| !list.is_empty()).unwrap_or_else(|| default.into());
        env::split_paths(&list).collect::<Vec<_>>()
    };
    let fixed = ["/usr/local/etc", "/etc"].map(PathBuf::from);
    let config = dirs::config_dir().into_iter().chain(list("XDG_CONFIG_DIRS", "/etc/xdg"));
    let data = dirs::data_dir().into_iter().chain(list("XDG_DATA_DIRS", "/usr/local/share:/usr/share"));
    config.chain(fixed).chain(data).collect()
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
