//! Files kept between runs in the user's cache folder: compiled pipelines and measured limits, keyed by device and
//! driver. Everything here may be missing, damaged or read-only: then it is made again, and nothing fails.

use crate::basis::destination::Destination;
use crate::basis::input_file;
use crate::device::capability::DeviceInfo;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder of files kept between runs, if there is one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CacheFolder {
    /// Its path, which need not be text: serde writes such a string whole, and no such path.
    folder: Option<OsString>,
}

/// Largest file that is read: far more than a driver keeps of all kernels.
const MOST_BYTES: u64 = 256 << 20;

/// Bytes of the checksum before the contents of a file.
const CHECKSUM: usize = 32;

impl CacheFolder {
    /// A cache in `folder`, or in `gpukern` below the user's cache folder (`$XDG_CACHE_HOME`, `~/.cache`, …).
    #[must_use]
    pub fn new(folder: Option<&Path>) -> Self {
        let usual = || dirs::cache_dir().map(|user| user.join("gpukern"));
        Self { folder: folder.map(Path::to_path_buf).or_else(usual).map(PathBuf::into_os_string) }
    }

    /// Why nothing can be kept in the folder, if so.
    pub(crate) fn trouble(&self) -> Option<std::io::Error> {
        let folder = self.folder.as_ref()?;
        std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder)).err()
    }

    /// A cache that keeps nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The file of this kind for a device with its driver.
    fn file(&self, kind: &str, device: &DeviceInfo) -> Option<PathBuf> {
        let mut key = Sha256::new();
        for part in [&device.name, &device.uuid, &device.driver.name, &device.driver.info, &device.api_version] {
            key.update(part.as_bytes());
            key.update([0]);
        }
        key.update(device.driver.version.to_le_bytes());
        Some(Path::new(self.folder.as_ref()?).join(format!("{}.{kind}", hex(&key.finalize()[..8]))))
    }

    /// The contents kept of this kind for a device with its driver; `None` where there are none, or damaged ones.
    #[must_use]
    pub fn get(&self, kind: &str, device: &DeviceInfo) -> Option<Vec<u8>> {
        let file = input_file::read(&self.file(kind, device)?, MOST_BYTES).ok()?;
        let (checksum, contents) = file.split_at_checked(CHECKSUM)?;
        // A driver may trust its own data more than it should: hand it nothing that was cut off or altered.
        (Sha256::digest(contents)[..] == *checksum).then(|| contents.to_vec())
    }

    /// Keeps `contents`, in one step or not at all.
    pub fn put(&self, kind: &str, device: &DeviceInfo, contents: &[u8]) {
        let Some(path) = self.file(kind, device) else { return };
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            Destination::open(&path)?.write(&[&Sha256::digest(contents)[..], contents].concat())
        };
        // A cache that cannot be written costs time, nothing else.
        let _ = write();
    }
}

/// The first 64 bits of the SHA-256 of `parts`, in hexadecimal.
#[must_use]
pub(crate) fn fingerprint(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hex(&hash.finalize()[..8])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::tests::software_device;

    #[test]
    fn what_was_kept_comes_back_for_the_same_device_and_driver_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = CacheFolder::new(Some(&folder.path().join("below")));
        let device = software_device();
        assert_eq!(cache.get("pipelines", &device), None);
        cache.put("pipelines", &device, b"compiled");
        assert_eq!(cache.get("pipelines", &device).as_deref(), Some(&b"compiled"[..]));
        assert_eq!(cache.get("peak", &device), None);
        let mut newer = software_device();
        newer.driver.version += 1;
        assert_eq!(cache.get("pipelines", &newer), None);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = CacheFolder::new(Some(folder.path()));
        let device = software_device();
        cache.put("pipelines", &device, b"compiled");
        let path = cache.file("pipelines", &device).expect("a folder was given");
        let whole = std::fs::read(&path).expect("written");
        // A file of a terabyte is none of ours.
        std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(1 << 40)).expect("grown");
        assert_eq!(cache.get("pipelines", &device), None);
        for damaged in [&whole[..10], &whole[..whole.len() - 1], &[whole.clone(), vec![1]].concat()] {
            std::fs::write(&path, damaged).expect("written");
            assert_eq!(cache.get("pipelines", &device), None);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_failure() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let cache = CacheFolder::new(Some(&file.path().join("below")));
        cache.put("peak", &software_device(), b"figures");
        assert_eq!(cache.get("peak", &software_device()), None);
    }
}
