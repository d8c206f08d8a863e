//! Reading of files that the user names: regular files up to a size. A named pipe would block forever, and a sparse
//! file of terabytes exceed any memory.

use crate::basis::units::Bytes;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Size limit of hand-written files: configurations, limits of a gate, results of `tune`.
pub const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Reads the regular file at `path`, at most `most` bytes, or a pipe that a shell has opened, such as `<(…)`.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let metadata = path.metadata().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => io::Error::new(e.kind(), "no such file"),
        _ => e,
    })?;
    if metadata.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    if !metadata.is_file() && !is_stream(path) {
        return Err(io::Error::other("it is not a regular file"));
    }
    let too_large = || io::Error::other(format!("it is larger than {}", Bytes(most)));
    if metadata.is_file() && metadata.len() > most {
        return Err(too_large());
    }
    let mut bytes = vec![];
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// Reads a hand-written UTF-8 file.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read(path, MAX_TEXT_BYTES)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Whether `path` names a stream that this process already has open, or the one that is always empty.
fn is_stream(path: &Path) -> bool {
    ["/dev/fd", "/proc/self/fd", "/dev/stdin", "/dev/null"].iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_files_up_to_a_size_are_read_and_all_else_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, sparse, pipe] = ["file", "sparse", "pipe"].map(|name| folder.path().join(name));
        std::fs::write(&file, "text").expect("written");
        File::create(&sparse).and_then(|file| file.set_len(1 << 40)).expect("made");
        assert_eq!(read(&file, 4).expect("read"), b"text");
        let refused = |path: &Path, most: u64| read(path, most).expect_err("refused").to_string();
        assert_eq!(refused(&file, 3), "it is larger than 3 B");
        assert!(refused(&sparse, 1 << 20).starts_with("it is larger than"));
        assert_eq!(refused(folder.path(), 1), "it is a folder");
        if cfg!(unix) {
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
            assert_eq!(refused(&pipe, 1), "it is not a regular file");
        }
        std::fs::write(&file, [0xff]).expect("written");
        assert_eq!(read_text(&file).expect_err("refused").to_string(), "it is not UTF-8 text");
    }
}
