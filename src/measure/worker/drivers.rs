//! The drivers that Vulkan's loader would load, by their manifests: where one of them crashes, each is asked in a process
//! of its own, and the others are used without it.

use super::process::{Ended, How, Process};
use crate::device::capability::DeviceInfo;
use crate::measure::session::Setup;
use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The loader's variable for the manifests of drivers, and what older loaders call it.
pub(super) const DRIVER_FILES: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
/// The loader's variable for further manifests.
const MORE_DRIVER_FILES: &str = "VK_ADD_DRIVER_FILES";
/// The folder of manifests below the system's and the user's folders.
const MANIFESTS: &str = "vulkan/icd.d";

/// A driver whose process ended when its devices were listed.
#[derive(Clone, Debug)]
pub(crate) struct DeadDriver {
    manifest: PathBuf,
    ended: Ended,
}

impl std::fmt::Display for DeadDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { manifest, ended } = self;
        let how = if ended.how == How::Hung { "hangs" } else { "crashes" };
        write!(f, "driver {} {how} when its devices are listed: {ended}", manifest.display())
    }
}

/// The drivers of a machine, asked one by one.
pub(super) struct Sorted {
    /// A process that sees the devices of all drivers that live, and these devices.
    pub(super) process: Process,
    pub(super) devices: Vec<DeviceInfo>,
    /// The manifests of these drivers, as the loader takes them.
    pub(super) alive: OsString,
    pub(super) dead: Vec<DeadDriver>,
}

/// Asks each driver in a process of its own, after one with all of them `ended`.
///
/// # Errors
/// When no driver is left, or none is to blame.
pub(super) fn sort(setup: &Setup, ended: &Ended) -> Result<Sorted, String> {
    let (mut alive, mut dead) = (vec![], vec![]);
    for manifest in manifests(setup.drivers.as_ref()) {
        match Process::start(setup, Some(manifest.as_os_str()), &AtomicBool::new(false)) {
            Err(ended) if ended.how != How::Refused => dead.push(DeadDriver { manifest, ended }),
            _ => alive.push(manifest),
        }
    }
    let said = || dead.iter().map(|driver| format!("; {driver}")).collect::<String>();
    if dead.is_empty() || alive.is_empty() {
        return Err(format!("a driver or a layer crashed when devices were listed: {ended}{}", said()));
    }
    let alive = env::join_paths(&alive).map_err(|e| format!("a manifest's path cannot be passed on: {e}"))?;
    let started = Process::start(setup, Some(&alive), &AtomicBool::new(false));
    let (process, devices) = started.map_err(|ended| format!("a driver crashes beside others: {ended}{}", said()))?;
    let devices = devices.map_err(|error| format!("{error}{}", said()))?;
    Ok(Sorted { process, devices, alive, dead })
}

/// The manifests that the loader reads: those that were `chosen`, those that variables name, or else those in its folders.
fn manifests(chosen: Option<&OsString>) -> Vec<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|paths| !paths.is_empty());
    let paths = |list: OsString| env::split_paths(&list).flat_map(|path| files(&path)).collect::<Vec<_>>();
    let found = if let Some(list) = chosen.cloned().or_else(|| DRIVER_FILES.iter().find_map(|name| named(name))) {
        paths(list)
    } else {
        let more = named(MORE_DRIVER_FILES).map(paths).unwrap_or_default();
        more.into_iter().chain(folders().iter().flat_map(|folder| files(&folder.join(MANIFESTS)))).collect()
    };
    let mut known = BTreeSet::new();
    found.into_iter().filter(|path| known.insert(path.clone())).collect()
}

/// A manifest, or those in a folder of them.
fn files(path: &Path) -> Vec<PathBuf> {
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
        assert_eq!(files(folder.path()), ["a.json", "b.json"].map(|name| folder.path().join(name)));
        let file = folder.path().join("b.json");
        assert_eq!(files(&file), std::slice::from_ref(&file));
        assert!(files(&folder.path().join("missing.json")).len() == 1, "the loader says what is wrong with it");
    }
}
