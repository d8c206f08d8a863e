//! Stores the files of cases: private, compressed if that helps, and shared between cases with the same contents.

use crate::basis::destination::make_private_folder;
use crate::user::array::COMPRESSED;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Fewest bytes for which it pays to compress a file and to share it with other cases.
const MIN_SHARED_BYTES: usize = 1 << 14;

/// Files with large contents that have been written, to be shared by later cases.
#[derive(Default)]
pub struct Store {
    /// Paths by the SHA-256 of their contents, uncompressed.
    files: HashMap<[u8; 32], PathBuf>,
}

impl Store {
    /// Writes `bytes` to a file below `folder`, and returns its name: `name` with the extension `.bin` or `.bin.zst`.
    /// Cases with the same contents share a file through hard links, so each folder stays complete by itself.
    pub(super) fn put(&mut self, folder: &Path, name: &str, bytes: &[u8]) -> io::Result<String> {
        let plain = format!("{name}.bin");
        let compressed_name = format!("{plain}.{COMPRESSED}");
        self.forget(&folder.join(&plain));
        self.forget(&folder.join(&compressed_name));
        if bytes.len() < MIN_SHARED_BYTES {
            return write(&folder.join(&plain), bytes).map(|()| plain);
        }
        let hash: [u8; 32] = Sha256::digest(bytes).into();
        if let Some(file) = self.files.get(&hash) {
            let is_compressed = file.extension().is_some_and(|ending| ending == COMPRESSED);
            let file_name = if is_compressed { &compressed_name } else { &plain };
            // Some file systems lack hard links.
            if link(file, &folder.join(file_name)).is_ok() {
                return Ok(file_name.clone());
            }
        }
        let compressed = zstd::encode_all(bytes, 0)?;
        // Contents that hardly shrink stay readable by other programs.
        let shrinks = compressed.len() < bytes.len() / 8 * 7;
        let (file_name, contents) = if shrinks { (compressed_name, &compressed[..]) } else { (plain, bytes) };
        let path = folder.join(&file_name);
        write(&path, contents)?;
        self.files.insert(hash, path);
        Ok(file_name)
    }

    /// Removes a file that is about to be replaced, so that later contents are not linked to it.
    fn forget(&mut self, path: &Path) {
        self.files.retain(|_, file| file != path);
        let _ = std::fs::remove_file(path);
    }

    /// Follows a folder that was renamed.
    pub fn follow_rename(&mut self, from: &Path, to: &Path) {
        for file in self.files.values_mut() {
            if let Ok(inner) = file.strip_prefix(from) {
                *file = to.join(inner);
            }
        }
    }
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    make_parent(to)?;
    let _ = std::fs::remove_file(to);
    std::fs::hard_link(from, to)
}

fn make_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => make_private_folder(folder),
        None => Ok(()),
    }
}

/// Writes a file that only this user can read. Removes an existing one first, because it may be linked to another case.
pub(super) fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    make_parent(path)?;
    let _ = std::fs::remove_file(path);
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)?.write_all(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::array::read_raw;

    #[test]
    fn large_contents_are_compressed_shared_and_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = Store::default();
        let mut put = |name: &str, bytes: &[u8]| store.put(folder.path(), name, bytes).expect("written");
        let small = put("in/small", &[1, 2, 3]);
        let zeros = put("1/in/A", &[0; MIN_SHARED_BYTES]);
        let again = put("2/in/B", &[0; MIN_SHARED_BYTES]);
        let noise: Vec<u8> = (0..MIN_SHARED_BYTES as u64 * 2).flat_map(|at| Sha256::digest(at.to_le_bytes())).collect();
        let dense = put("in/noise", &noise);
        assert_eq!(
            [&*small, &*zeros, &*again, &*dense],
            ["in/small.bin", "1/in/A.bin.zst", "2/in/B.bin.zst", "in/noise.bin"]
        );
        let path = |name: &str| folder.path().join(name);
        assert_eq!(read_raw(&path(&again), MIN_SHARED_BYTES as u64), Ok(vec![0; MIN_SHARED_BYTES]));
        assert_eq!(read_raw(&path(&dense), noise.len() as u64).as_ref(), Ok(&noise));
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let of = |name: &str| path(name).metadata().expect("there");
            assert_eq!((of(&zeros).ino(), of(&zeros).nlink()), (of(&again).ino(), 2));
            assert_eq!([of(&small).mode() & 0o777, of("1/in").mode() & 0o777], [0o600, 0o700]);
        }
        // Links also work after the first folder was renamed.
        std::fs::rename(path("1"), path("3")).expect("moved");
        store.follow_rename(&path("1"), &path("3"));
        let mut put = |name: &str, bytes: &[u8]| store.put(folder.path(), name, bytes).expect("written");
        let third = put("4/in/C", &[0; MIN_SHARED_BYTES]);
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::MetadataExt::nlink(&path(&third).metadata().expect("there")), 3);
        let zeros = zeros.replace("1/", "3/");
        // A file with replaced contents must not be linked to.
        let answer: Vec<u8> = noise.iter().map(|byte| !byte).collect();
        assert_eq!([&*noise, &*answer].map(|bytes| put("5/in/D", bytes)), ["5/in/D.bin", "5/in/D.bin"]);
        let shared = put("6/in/D", &noise);
        assert_eq!(read_raw(&path(&shared), noise.len() as u64).as_ref(), Ok(&noise));
        assert_eq!(put("5/in/D", &[2; MIN_SHARED_BYTES]), "5/in/D.bin.zst");
        assert!(!path("5/in/D.bin").exists(), "what an older description named is gone");
        // Replacing a shared file leaves the other link unchanged.
        assert_eq!(put("2/in/B", &[1; MIN_SHARED_BYTES]), again);
        assert_eq!(read_raw(&path(&zeros), MIN_SHARED_BYTES as u64), Ok(vec![0; MIN_SHARED_BYTES]));
    }
}
