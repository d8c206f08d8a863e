//! Cache folder for files kept between runs: compiled pipelines and measured limits, by device and driver. Files may be
//! missing, damaged or read-only: then they are produced again, and nothing fails.

use crate::basis::destination::{Destination, make_private_folder};
use crate::basis::input_file;
use crate::basis::printable::hex;
use crate::device::capability::DeviceInfo;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Cache folder, if there is one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CacheFolder {
    /// Path; an `OsString`, because serde refuses to write a `PathBuf` that is not UTF-8.
    folder: Option<OsString>,
}

/// Size limit of a cache file: far more than any driver stores for all kernels.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Prefix of the names of folders that hold `capture`'s layer.
pub const LAYER_FOLDER: &str = "capture-";

/// Bytes of the checksum at the beginning of each file.
const CHECKSUM_BYTES: usize = 32;

impl CacheFolder {
    /// Uses `folder`, or else `gpukern` below the user's cache folder (`$XDG_CACHE_HOME`, `~/.cache`, …).
    pub fn new(folder: Option<&Path>) -> Self {
        Self { folder: folder.map(Path::to_path_buf).or_else(Self::usual).map(PathBuf::into_os_string) }
    }

    /// Returns the cache in a folder below, which is that of these variables and their values.
    pub fn of_variables(self, variables: &str) -> Self {
        let name = format!("variables-{}", hex(&Sha256::digest(variables)[..8]));
        Self { folder: self.folder.map(|folder| Path::new(&folder).join(name).into_os_string()) }
    }

    /// Returns the default folder.
    pub fn usual() -> Option<PathBuf> {
        dirs::cache_dir().map(|user| user.join("gpukern"))
    }

    /// Returns the error that prevents writing to the folder, if any.
    pub fn trouble(&self) -> Option<io::Error> {
        let folder = Path::new(self.folder.as_ref()?);
        make_checked_folder(folder).and_then(|()| tempfile::tempfile_in(folder)).err()
    }

    /// Creates a cache that stores nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the path of the file of this kind for a device with its driver.
    fn file(&self, kind: &str, device: &DeviceInfo) -> Option<PathBuf> {
        let mut key = Sha256::new();
        for part in [&device.name, &device.uuid, &device.driver.name, &device.driver.info, &device.api_version] {
            key.update(part.as_bytes());
            key.update([0]);
        }
        key.update(device.driver.version.to_le_bytes());
        Some(Path::new(self.folder.as_ref()?).join(format!("{}.{kind}", hex(&key.finalize()[..8]))))
    }

    /// Lists the cache files, including those of layers in folders below.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![];
        let Some(folder) = &self.folder else { return files };
        for path in list_folder(Path::new(folder)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let key = name.split('.').next().unwrap_or_default();
            if key.len() == 16 && key.chars().all(|c| c.is_ascii_hexdigit()) {
                files.push(path);
            } else if name.starts_with(LAYER_FOLDER) {
                files.extend(list_folder(&path));
            }
        }
        files
    }

    /// Reads the contents of this kind for a device with its driver; `None` if missing or damaged.
    pub fn get(&self, kind: &str, device: &DeviceInfo) -> Option<Vec<u8>> {
        let path = self.file(kind, device)?;
        check_private(path.parent()?).ok()?;
        check_private(&path).ok()?;
        let file = input_file::read(&path, MAX_FILE_BYTES).ok()?;
        let (checksum, contents) = file.split_at_checked(CHECKSUM_BYTES)?;
        // A driver may trust its own data more than it should, so it gets nothing truncated or altered.
        if Sha256::digest(contents)[..] == *checksum { Some(contents.to_vec()) } else { None }
    }

    /// Returns the absolute path of a file with these contents in a folder below the cache; writes the file unless an
    /// earlier run did. Fails if there is no cache, it cannot be written, or every user can write to it.
    pub fn file_of(&self, folder: &str, name: &str, contents: &[u8]) -> io::Result<PathBuf> {
        let cache = self.folder.as_ref().ok_or_else(|| io::Error::other("there is no cache folder"))?;
        let folder = std::path::absolute(cache)?.join(folder);
        make_checked_folder(&folder)?;
        check_private(Path::new(cache))?;
        let path = folder.join(name);
        let cached = check_private(&path).and_then(|()| input_file::read(&path, contents.len() as u64));
        if !cached.is_ok_and(|cached| cached == contents) {
            Destination::open(&path)?.private()?.write(contents)?;
        }
        Ok(path)
    }

    /// Stores `contents` atomically, if possible.
    pub fn put(&self, kind: &str, device: &DeviceInfo, contents: &[u8]) {
        // A cache that cannot be written costs only time.
        let _ = self.try_put(kind, device, contents);
    }

    fn try_put(&self, kind: &str, device: &DeviceInfo, contents: &[u8]) -> io::Result<()> {
        let Some(path) = self.file(kind, device) else { return Ok(()) };
        make_checked_folder(path.parent().unwrap_or(Path::new(".")))?;
        Destination::open(&path)?.private()?.write(&[&Sha256::digest(contents)[..], contents].concat())
    }
}

fn list_folder(folder: &Path) -> impl Iterator<Item = PathBuf> {
    folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Creates a folder if it is missing, and checks that not every user can write to it.
fn make_checked_folder(folder: &Path) -> io::Result<()> {
    make_private_folder(folder)?;
    check_private(folder)
}

/// Refuses a folder or file that every user of this host can write: drivers execute code from a pipeline cache, and a
/// checksum is no signature. Owner and group are not checked: CI caches are often restored by root or another user, and
/// group permissions are given on purpose.
fn check_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&path.metadata()?.permissions()) & 0o002 != 0 {
        return Err(io::Error::other("every user of this host can write there; revoke that with chmod o-w"));
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Returns the first 64 bits of the SHA-256 of the concatenated `parts`, in hexadecimal.
pub fn fingerprint(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hex(&hash.finalize()[..8])
}

/// Returns the SHA-256 of `contents`, in hexadecimal.
pub fn sha256(contents: &[u8]) -> String {
    hex(&Sha256::digest(contents))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;

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
        // A file of a terabyte exceeds the size limit.
        std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(1 << 40)).expect("grown");
        assert_eq!(cache.get("pipelines", &device), None);
        for damaged in [&whole[..10], &whole[..whole.len() - 1], &[whole.clone(), vec![1]].concat()] {
            std::fs::write(&path, damaged).expect("written");
            assert_eq!(cache.get("pipelines", &device), None);
        }
    }

    #[test]
    #[cfg(unix)]
    fn what_is_kept_is_private_and_what_everybody_can_write_is_not_believed() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("made/below");
        let cache = CacheFolder::new(Some(&below));
        let device = software_device();
        cache.put("pipelines", &device, b"compiled");
        let file = cache.file("pipelines", &device).expect("a folder was given");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        let set = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
        assert_eq!([below.parent().expect("made"), &below, &file].map(mode), [0o700, 0o700, 0o600]);
        // Permissions as in a CI cache that another user restored.
        set(&below, 0o775);
        set(&file, 0o664);
        assert_eq!(cache.get("pipelines", &device).as_deref(), Some(&b"compiled"[..]));
        set(&file, 0o666);
        assert_eq!(cache.get("pipelines", &device), None);
        cache.put("pipelines", &device, b"again");
        assert_eq!((mode(&file), cache.get("pipelines", &device).as_deref()), (0o600, Some(&b"again"[..])));
        set(&below, 0o1777);
        assert_eq!(cache.get("pipelines", &device), None);
        let trouble = "every user of this host can write there; revoke that with chmod o-w";
        assert_eq!(cache.trouble().expect("refused").to_string(), trouble);
        cache.put("peak", &device, b"figures");
        set(&below, 0o700);
        assert_eq!(cache.get("peak", &device), None, "nothing was cached there");
        assert!(cache.trouble().is_none());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_failure() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let cache = CacheFolder::new(Some(&file.path().join("below")));
        cache.put("peak", &software_device(), b"figures");
        assert_eq!(cache.get("peak", &software_device()), None);
    }
}
