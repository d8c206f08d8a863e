//! Output destinations: files replaced atomically, devices and pipes written directly, private folders; and the
//! identity of files behind different paths.

use crate::basis::printable::Shown;
#[cfg(unix)]
use crate::basis::printable::shell_word;
use crate::basis::threads;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::{Builder, NamedTempFile, TempDir};

/// Most symbolic links followed in a row, as on Linux.
const MAX_LINKS: usize = 40;

/// Prefix of the names of temporary files and folders.
const PREFIX: &str = ".gpukern-";
/// Suffix of a file that is written before it replaces another.
const DRAFT: &str = ".draft";
/// Suffix of a [`Scratch`] folder.
const SCRATCH: &str = ".scratch";
/// Name of the lock file inside a folder, for systems that cannot lock folders.
const LOCK: &str = ".gpukern-lock";
/// Time limit for a reader to open a pipe.
const READER_TIMEOUT: Duration = Duration::from_secs(10);
/// Age from which a draft or folder without a lock counts as an orphan. A younger one may not be locked yet.
const MIN_ORPHAN_AGE: Duration = Duration::from_secs(10);

/// Destination for output, checked to be writable before there is anything to write.
pub enum Destination {
    /// Device, pipe or standard stream, written directly.
    Stream(File),
    /// Regular file: written as a draft in the same folder, then renamed, so that an older file survives any failure.
    Draft { path: PathBuf, draft: NamedTempFile },
}

impl Destination {
    /// Opens `path` without changing its contents. A symbolic link stays; its target will be replaced. Fails if the
    /// path is a folder, read-only, too long or in a folder that does not exist.
    pub fn open(path: &Path) -> io::Result<Self> {
        let metadata = match path.metadata() {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(metadata) = &metadata {
            if metadata.is_dir() {
                return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder"));
            }
            if metadata.permissions().readonly() {
                return Err(io::Error::new(ErrorKind::PermissionDenied, "it is read-only"));
            }
            // A path such as /dev/stdout: a user who redirected it to a file reads that file, not its replacement.
            if let Some(stream) = standard_stream(metadata) {
                return Ok(Self::Stream(stream));
            }
            if !metadata.is_file() {
                return Ok(Self::Stream(open_stream(path, READER_TIMEOUT)?));
            }
        }
        let path = resolve_links(path)?;
        let folder = folder_of(&path);
        if folder.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            let missing = format!("there is no folder '{}'", folder.shown());
            return Err(io::Error::new(ErrorKind::NotFound, missing));
        }
        let draft = with_usual_permissions(Builder::new().prefix(PREFIX).suffix(DRAFT)).tempfile_in(folder)?;
        // Without file locks, drafts of dead processes stay.
        let _ = draft.as_file().try_lock();
        remove_orphans(folder, draft.path());
        if let Some(metadata) = metadata {
            draft.as_file().set_permissions(metadata.permissions())?;
        }
        Ok(Self::Draft { path, draft })
    }

    /// Makes a file readable by this user only; streams stay as they are.
    pub fn private(self) -> io::Result<Self> {
        #[cfg(unix)]
        if let Self::Draft { draft, .. } = &self {
            draft.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        Ok(self)
    }

    /// Whether the destination is a regular file, which is replaced in one step.
    pub fn is_file(&self) -> bool {
        matches!(self, Self::Draft { .. })
    }

    /// Writes `contents`. A file is replaced only after all of them are on disk; on failure the older file stays.
    pub fn write(self, contents: &[u8]) -> io::Result<()> {
        self.write_by(|file| file.write_all(contents))
    }

    /// Writes through the callback `contents`, with the guarantees of [`Self::write`].
    pub fn write_by(self, contents: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        self.write_unexplained(contents).map_err(explained)
    }

    /// Writes as [`Self::write_by`] does, and returns the system's error as it is.
    fn write_unexplained(self, contents: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Stream(mut stream) => contents(&mut stream),
            Self::Draft { path, mut draft } => {
                contents(draft.as_file_mut())?;
                draft.as_file().sync_all()?;
                draft.persist(path)?;
                Ok(())
            }
        }
    }
}

/// Returns a write error with a remedy if a resource limit caused it: "File too large" sounds like a full disk.
pub fn explained(error: io::Error) -> io::Error {
    if error.kind() != ErrorKind::FileTooLarge {
        return error;
    }
    let remedy = "the file would exceed this process's file-size limit; raise `ulimit -f`, or LimitFSIZE= of \
                  a service";
    io::Error::new(ErrorKind::FileTooLarge, remedy)
}

/// Identity of a file or folder, whichever path names it: by links, through `./`, in a case that the system ignores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileId {
    /// Identity of the file, or of the nearest existing folder above a file that does not exist.
    existing: Inode,
    /// Path components below that folder that do not exist.
    missing: Vec<OsString>,
}

/// Device and inode number, which hard links share; elsewhere the canonical path.
#[cfg(unix)]
type Inode = (u64, u64);
#[cfg(not(unix))]
type Inode = PathBuf;

impl FileId {
    /// Identifies the file or folder at `path`, which need not exist. `None` for a device or pipe, which many may use.
    pub fn of(path: &Path) -> Option<Self> {
        // A link such as /dev/stdout may lead to a pipe, which has no path.
        let mut path = if path.exists() { path.to_path_buf() } else { resolve_links(path).ok()? };
        let mut missing = vec![];
        loop {
            match path.metadata() {
                Ok(metadata) if metadata.is_file() || metadata.is_dir() => {
                    missing.reverse();
                    return Some(Self { existing: inode(&path, &metadata)?, missing });
                }
                Ok(_) => return None,
                Err(_) => {
                    let name = path.file_name()?;
                    // Most file systems of Windows and macOS ignore case.
                    let ignores_case = cfg!(any(windows, target_os = "macos"));
                    missing.push(if ignores_case { name.to_ascii_lowercase() } else { name.to_os_string() });
                    path = folder_of(&path).to_path_buf();
                }
            }
        }
    }

    /// Identifies all folders above the file at `path`, which need not exist.
    pub fn folders(path: &Path) -> Vec<Self> {
        let absolute = path.canonicalize().or_else(|_| resolve_links(path).and_then(std::path::absolute));
        let path = absolute.unwrap_or_else(|_| path.to_path_buf());
        path.ancestors().skip(1).filter_map(Self::of).collect()
    }

    /// Identifies the regular file behind a standard stream.
    #[cfg(unix)]
    pub fn of_stream(stream: &impl std::os::fd::AsFd) -> Option<Self> {
        let metadata = File::from(stream.as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
        if !metadata.is_file() {
            return None;
        }
        Some(Self { existing: inode(Path::new(""), &metadata)?, missing: vec![] })
    }

    /// Returns nothing: only Unix can identify the file behind a stream.
    #[cfg(not(unix))]
    pub fn of_stream<S>(_: &S) -> Option<Self> {
        None
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere a path may have no canonical form")]
fn inode(_: &Path, metadata: &Metadata) -> Option<Inode> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn inode(path: &Path, _: &Metadata) -> Option<Inode> {
    path.canonicalize().ok()
}

/// Creates a folder and its missing parents, accessible only to this user.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Private folder for files exchanged with other programs, deleted on drop. A new one deletes those of dead processes.
pub struct Scratch {
    /// Lock on the folder; the first field, so released before the folder's deletion: Windows cannot delete open files.
    _lock: Option<File>,
    folder: TempDir,
    /// Second folder, with a link to the first one, if the first one's path has characters that a shell interprets.
    link: Option<Box<Self>>,
}

/// Name of the link in the second folder of a [`Scratch`].
const LINK: &str = "to";
/// Folders to create the second folder in; none has a path that needs quoting in a shell.
#[cfg(unix)]
const LINK_PARENTS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

impl Scratch {
    /// Creates a folder for temporary files. Fails if neither its path nor a link to it is plain text for a shell.
    pub fn new() -> io::Result<Self> {
        let parent = std::path::absolute(std::env::temp_dir())?;
        if !parent.is_dir() {
            let message = format!("TMPDIR: there is no folder '{}'; make it, or set TMPDIR to another", parent.shown());
            return Err(io::Error::new(ErrorKind::NotFound, message));
        }
        // The original error quotes a random path that the user has never seen.
        let folder = Self::inside(&parent).map_err(|e| {
            io::Error::new(e.kind(), format!("'{}' ({}); set TMPDIR to another folder", parent.shown(), e.kind()))
        })?;
        folder.with_plain_path()
    }

    /// Creates a folder in `parent`.
    pub fn inside(parent: &Path) -> io::Result<Self> {
        let mut builder = Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.prefix(PREFIX).suffix(SCRATCH).tempdir_in(parent)?;
        let lock = lockable(folder.path()).ok().filter(|folder| folder.try_lock().is_ok());
        remove_orphans(parent, folder.path());
        Ok(Self { _lock: lock, folder, link: None })
    }

    /// Adds a link if the path needs quoting in a shell.
    #[cfg(unix)]
    fn with_plain_path(mut self) -> io::Result<Self> {
        let own = self.folder.path();
        if own.to_str().is_some_and(|path| shell_word(path) == path) {
            return Ok(self);
        }
        for parent in LINK_PARENTS {
            let Ok(link) = Self::inside(Path::new(parent)) else { continue };
            if std::os::unix::fs::symlink(own, link.folder.path().join(LINK)).is_ok() {
                self.link = Some(Box::new(link));
                return Ok(self);
            }
        }
        Err(io::Error::other(format!(
            "the path '{}' has characters that a shell interprets; set TMPDIR to another folder",
            own.shown()
        )))
    }

    #[cfg(not(unix))]
    fn with_plain_path(self) -> io::Result<Self> {
        Ok(self)
    }

    /// Returns the path, through the link if there is one.
    pub fn path(&self) -> PathBuf {
        match &self.link {
            Some(link) => link.folder.path().join(LINK),
            None => self.folder.path().to_path_buf(),
        }
    }

    /// Lists the folders that someone else must delete if this process cannot.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.folder.path()).chain(self.link.iter().map(|link| link.folder.path()))
    }
}

/// Opens the file to lock for `folder`: the folder itself, or on Windows, which can lock only files, a file in it.
pub fn lockable(folder: &Path) -> io::Result<File> {
    if cfg!(windows) {
        return File::options().create(true).append(true).read(true).open(folder.join(LOCK));
    }
    File::open(folder)
}

/// Deletes drafts and scratch folders of this user's dead processes in `folder`: live processes hold a lock. A new one
/// may not be locked yet, so only old ones are deleted. `own` belongs to this process and shows who the user is.
fn remove_orphans(folder: &Path, own: &Path) {
    let (Ok(entries), Ok(own)) = (folder.read_dir(), own.metadata()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let Ok(metadata) = entry.metadata() else { continue };
        let is_draft = name.ends_with(DRAFT) && metadata.is_file();
        let is_scratch = name.ends_with(SCRATCH) && metadata.is_dir();
        if !is_draft && !is_scratch || !have_same_owner(&metadata, &own) {
            continue;
        }
        let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
        if age.is_none_or(|age| age < MIN_ORPHAN_AGE) {
            continue;
        }
        let path = entry.path();
        let file = if is_draft { File::open(&path) } else { lockable(&path) };
        if file.is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = if is_draft { std::fs::remove_file(path) } else { std::fs::remove_dir_all(path) };
        }
    }
}

/// Whether two files have the same owner. Root could otherwise delete other users' files.
#[cfg(unix)]
fn have_same_owner(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    a.uid() == b.uid()
}

#[cfg(not(unix))]
fn have_same_owner(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Opens a device or pipe for writing. Opening a pipe blocks until there is a reader.
fn open_stream(path: &Path, timeout: Duration) -> io::Result<File> {
    let (sender, opened) = mpsc::channel();
    let pipe = path.to_path_buf();
    threads::start(move || sender.send(File::options().write(true).open(pipe)))?;
    opened.recv_timeout(timeout).unwrap_or_else(|_| {
        let message = format!("it is a pipe that nobody opened for reading within {timeout:?}");
        Err(io::Error::new(ErrorKind::TimedOut, message))
    })
}

/// Returns the folder of a file; `.` for a bare file name.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Follows symbolic links to their target, which need not exist.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        if !path.is_symlink() {
            return Ok(path);
        }
        let target = path.read_link()?;
        path = match path.parent() {
            Some(folder) => folder.join(target),
            None => target,
        };
    }
    Err(io::Error::other("it is an endless chain of links"))
}

/// Returns the standard stream that is the file with this `metadata`, sharing its position.
#[cfg(unix)]
fn standard_stream(metadata: &Metadata) -> Option<File> {
    use std::os::fd::AsFd;
    let file = inode(Path::new(""), metadata);
    for stream in [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()] {
        let Ok(stream) = stream.map(File::from) else { continue };
        if stream.metadata().is_ok_and(|own| inode(Path::new(""), &own) == file) {
            return Some(stream);
        }
    }
    None
}

#[cfg(not(unix))]
fn standard_stream(_: &Metadata) -> Option<File> {
    None
}

/// Sets the permissions of a new file to the usual ones, subject to the umask; `tempfile` makes files private.
fn with_usual_permissions<'b, 'p, 's>(builder: &'b mut Builder<'p, 's>) -> &'b mut Builder<'p, 's> {
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).expect("readable")
    }

    fn write(path: &Path, text: &str) -> io::Result<()> {
        Destination::open(path)?.write(text.as_bytes())
    }

    /// Makes a file or folder old enough to be an orphan.
    fn make_old(file: &File) {
        file.set_modified(std::time::SystemTime::now() - 2 * MIN_ORPHAN_AGE).expect("set");
    }

    #[cfg(unix)]
    fn mode(path: &Path) -> u32 {
        std::os::unix::fs::PermissionsExt::mode(&path.metadata().expect("there").permissions()) & 0o777
    }

    #[cfg(unix)]
    fn make_pipe(folder: &Path) -> PathBuf {
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
        pipe
    }

    #[test]
    fn an_older_file_is_kept_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        std::fs::write(&path, "old").expect("written");
        let destination = Destination::open(&path).expect("writable");
        assert_eq!(read(&path), "old");
        drop(destination);
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1, "a draft was left behind");
        write(&path, "new").expect("written");
        assert_eq!(read(&path), "new");
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1, "a draft was left behind");
    }

    #[test]
    fn drafts_of_dead_processes_are_removed_and_those_of_living_ones_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = [".gpukern-dead.draft", ".gpukern-alive.draft", ".gpukern-new.draft", "gpukern.draft"];
        let paths = names.map(|name| folder.path().join(name));
        let files = paths.clone().map(|path| File::create(path).expect("made"));
        files[1].lock().expect("locked");
        for index in [0, 1, 3] {
            make_old(&files[index]);
        }
        write(&folder.path().join("run.json"), "{}").expect("written");
        assert_eq!(paths.map(|path| path.exists()), [false, true, true, true]);
    }

    #[test]
    #[cfg(unix)]
    fn what_another_user_left_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".gpukern-other.draft");
        make_old(&File::create(&path).expect("made"));
        // Only root may change a file's owner.
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            write(&folder.path().join("run.json"), "{}").expect("written");
            assert!(path.exists());
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_that_nobody_reads_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = make_pipe(folder.path());
        let error = open_stream(&pipe, Duration::from_millis(1)).expect_err("nobody reads").to_string();
        assert!(error.starts_with("it is a pipe that nobody opened for reading"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn a_scratch_folder_is_private_and_those_of_dead_processes_are_removed() {
        let parent = tempfile::tempdir().expect("a folder");
        let make_folder = |name: &str| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).expect("made");
            std::fs::write(path.join("A.npy"), "input").expect("written");
            let folder = File::open(&path).expect("a folder");
            make_old(&folder);
            (path, folder)
        };
        let [dead, alive, other] =
            [".gpukern-dead.scratch", ".gpukern-alive.scratch", "gpukern.scratch"].map(make_folder);
        alive.1.lock().expect("locked");
        let first = Scratch::inside(parent.path()).expect("made");
        let second = Scratch::inside(parent.path()).expect("made");
        let exist = [&dead.0, &alive.0, &other.0, &first.path(), &second.path()].map(|path| path.exists());
        assert_eq!(exist, [false, true, true, true, true]);
        assert_eq!(mode(&first.path()), 0o700);
        let path = first.path();
        drop(first);
        assert!(!path.exists(), "it was left behind");
    }

    #[test]
    #[cfg(unix)]
    fn a_scratch_folder_has_a_path_that_no_shell_acts_on() {
        let parent = tempfile::tempdir().expect("a folder");
        for name in ["a b", "a;b", "it's", "$(false)", "\"", "caf\u{e9}"] {
            let odd = parent.path().join(name);
            std::fs::create_dir(&odd).expect("made");
            let scratch = Scratch::inside(&odd).and_then(Scratch::with_plain_path).expect("made");
            let path = scratch.path();
            let folders: Vec<_> = scratch.folders().map(Path::to_path_buf).collect();
            assert_eq!(shell_word(path.to_str().expect("text")), path.to_str().expect("text"));
            write(&path.join("D.npy"), "answer").expect("written");
            assert_eq!(read(&folders[0].join("D.npy")), "answer", "{name}: it is elsewhere");
            drop(scratch);
            assert_eq!(folders.iter().map(|folder| folder.exists()).collect::<Vec<_>>(), [false; 2], "{name}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_stay_and_what_they_point_to_is_replaced_or_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link, second, fresh] =
            ["run.json", "latest.json", "same.json", "fresh.json"].map(|name| folder.path().join(name));
        std::fs::write(&file, "old").expect("written");
        let below = folder.path().join("below");
        std::fs::create_dir(&below).expect("made");
        std::os::unix::fs::symlink("run.json", &link).expect("linked");
        std::os::unix::fs::symlink(below.join("../latest.json"), &second).expect("linked");
        std::os::unix::fs::symlink("below/later.json", &fresh).expect("linked");
        for (link, target) in [(&link, &file), (&second, &file), (&fresh, &below.join("later.json"))] {
            let text = link.display().to_string();
            write(link, &text).expect("written");
            assert!(link.symlink_metadata().expect("there").is_symlink(), "{text} was replaced");
            assert_eq!(read(target), text);
        }
        let endless = folder.path().join("endless");
        std::os::unix::fs::symlink("endless", &endless).expect("linked");
        write(&endless, "").expect_err("it points to itself");
    }

    #[test]
    #[cfg(unix)]
    fn the_mode_of_what_is_replaced_is_kept_and_a_new_file_has_the_usual_one() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let [path, usual, fresh] = ["run.json", "usual.json", "fresh.json"].map(|name| folder.path().join(name));
        for old_mode in [0o600, 0o640, 0o666, 0o755] {
            std::fs::write(&path, "old").expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(old_mode)).expect("set");
            write(&path, "new").expect("written");
            assert_eq!((mode(&path), read(&path)), (old_mode, "new".into()));
        }
        std::fs::write(&usual, "").expect("written");
        write(&fresh, "new").expect("written");
        assert_eq!(mode(&fresh), mode(&usual));
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_is_written_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = make_pipe(folder.path());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || read(&pipe)
        });
        write(&pipe, "streamed").expect("written");
        assert_eq!(reader.join().expect("it read"), "streamed");
        assert!(!pipe.metadata().expect("there").is_file(), "the pipe was replaced");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error_of_writing_and_not_of_opening() {
        let destination = Destination::open(Path::new("/dev/full")).expect("it can be opened");
        assert_eq!(destination.write(b"x").expect_err("it is full").kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn a_limit_of_the_process_is_named_with_its_remedy_and_no_other_error_changes() {
        let text = explained(io::Error::from(ErrorKind::FileTooLarge)).to_string();
        let remedy = "raise `ulimit -f`, or LimitFSIZE= of a service";
        assert_eq!(text, format!("the file would exceed this process's file-size limit; {remedy}"));
        assert_eq!(explained(io::Error::from(ErrorKind::StorageFull)).kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn a_file_is_the_same_by_every_path_also_before_it_exists() {
        let folder = tempfile::tempdir().expect("a folder");
        let id = |name: &str| FileId::of(&folder.path().join(name)).expect("a file or a folder");
        std::fs::create_dir(folder.path().join("below")).expect("made");
        std::fs::write(folder.path().join("here"), "").expect("written");
        assert_eq!(id("here"), id("below/../here"));
        assert_eq!(id("new/er"), id("below/../new/./er"));
        assert_ne!(id("new"), id("newer"));
        assert_ne!(id("new"), id("below/new"));
        assert_eq!(FileId::of(Path::new("new")), FileId::of(Path::new("./new")));
        assert!(FileId::folders(&folder.path().join("below/new/file")).contains(&id("below/new")));
        assert!(!FileId::folders(&folder.path().join("below")).contains(&id("below")));
        assert_eq!(FileId::of(Path::new(if cfg!(unix) { "/dev/null" } else { "NUL" })), None);
    }

    #[test]
    fn places_that_cannot_be_written_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let read_only = folder.path().join("read-only");
        std::fs::write(&read_only, "old").expect("written");
        let mut permissions = read_only.metadata().expect("there").permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&read_only, permissions).expect("set");
        let long = folder.path().join("n".repeat(300));
        let cases = [
            (folder.path().to_path_buf(), "it is a folder"),
            (read_only.clone(), "it is read-only"),
            (folder.path().join("missing/run.json"), "there is no folder '"),
            (read_only.join("run.json"), "Not a directory"),
            (long, "File name too long"),
        ];
        for (path, reason) in cases {
            let error = Destination::open(&path).err().expect("refused").to_string();
            assert!(!cfg!(target_os = "linux") || error.contains(reason), "{}: {error}", path.display());
        }
        assert_eq!(read(&read_only), "old");
    }
}
