//! Documents that a command writes to standard output or to a file, and the check that no command overwrites its input.

use super::{config, journal};
use crate::basis::destination::{Destination, FileId};
use crate::basis::printable;
use crate::commands::cli::OutputArgs;
use crate::engine::worker::{manifest_files, manifests};
use crate::tuning::tuned;
use crate::{Error, Host, Request, Result, Shown, UserKernels, input_file};
use serde::Serialize;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Name of a document, and the option that names its path; for messages.
pub(super) type Document = [&'static str; 2];

/// Document in JSON, such as a record of `bench`.
pub(super) const JSON: Document = ["JSON", "--json"];

/// Results as tests of a CI system.
pub(super) const JUNIT: Document = ["JUnit XML", "--junit"];

/// Destination of a document, found writable before any time is spent measuring.
pub(super) struct Target {
    document: Document,
    path: PathBuf,
    /// `None` for standard output.
    destination: Option<Destination>,
}

/// Files that a command reads and writes, checked before any is opened for writing so that none is overwritten.
#[derive(Clone, Default)]
pub(super) struct Files {
    /// Input files, each with its description.
    read: Vec<(&'static str, PathBuf)>,
    /// Output files, each with the option that names it.
    written: Vec<(&'static str, PathBuf)>,
    /// Folders that may hold no other input or output, each with the option that names it.
    reserved: Vec<(&'static str, PathBuf)>,
}

impl Files {
    /// Returns the files that a command which measures `request` and `kernels` reads and writes, to be checked before
    /// any of them is opened for writing. The file with the results of `tune` counts even if no option names it.
    pub(super) fn of_measuring(
        request: &Request,
        output: &OutputArgs,
        kernels: &[UserKernels],
        loader: Option<&OsString>,
    ) -> Self {
        let default_tuned = tuned::default_path().filter(|_| request.uses_tuned());
        let mut files = Self::default()
            .read("the loader", loader)
            .read("--config", &request.config)
            .read_sizes(&request.selection.size)
            .read_sizes(request.kernels.as_ref().map_or(&[], |kernels| &kernels.fields.size))
            .read("the results of `tune`", request.tuned.clone().or(default_tuned))
            .read("--reference", &output.published.reference)
            .read("--compare", &output.comparing.compare)
            .written_record("--json", output.json.as_deref())
            .written_record("--resume", output.resume.as_deref())
            .written("--keep-failures", &output.keep_failures)
            .reserved_folder("--rounds", output.comparing.rounds.as_deref());
        for UserKernels { saves, .. } in kernels {
            files = files.written("--save", saves.iter().map(|save| &save.path));
        }
        files.of_kernels(kernels)
    }

    /// Adds the files that have sizes: `@FILE`.
    pub(super) fn read_sizes(self, sizes: &[String]) -> Self {
        self.read("--size", sizes.iter().filter_map(|size| size.strip_prefix('@')).map(PathBuf::from))
    }

    /// Adds the files that `kernels` are read from.
    pub(super) fn of_kernels(mut self, kernels: &[UserKernels]) -> Self {
        self.read.extend(kernels.iter().flat_map(|kernels| kernels.problem.files()));
        self
    }

    /// Adds input files; `-` is standard input.
    pub(super) fn read(mut self, what: &'static str, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        self.read.extend(paths.into_iter().map(|path| (what, path.as_ref().to_path_buf())));
        self
    }

    /// Adds files or folders that `option` writes; `-` is standard output.
    pub(super) fn written(mut self, option: &'static str, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        self.written.extend(paths.into_iter().map(|path| (option, path.as_ref().to_path_buf())));
        self
    }

    /// Adds a folder that only `option` may use.
    pub(super) fn reserved_folder(mut self, option: &'static str, folder: Option<&Path>) -> Self {
        self.reserved.extend(folder.map(|folder| (option, folder.to_path_buf())));
        self.written(option, folder)
    }

    /// Adds a record that `option` writes, and its journal. `--resume` reads and writes the same file without conflict.
    pub(super) fn written_record(self, option: &'static str, path: Option<&Path>) -> Self {
        let journal = path.filter(|path| *path != Path::new("-")).map(journal::path_of);
        self.written(option, path).written("the journal of the record", journal)
    }

    /// Refuses a file that would be written over one that is read or written.
    pub(super) fn check(&self, host: &Host) -> Result<()> {
        let mut streams = vec![];
        for (name, id) in [
            ("standard output", FileId::of_stream(&io::stdout())),
            ("standard error", FileId::of_stream(&io::stderr())),
        ] {
            streams.extend(id.map(|id| (name, id)));
        }
        let on_stdout: Vec<_> = self.written.iter().filter(|(_, path)| path == Path::new("-")).collect();
        if let [(first, _), (second, _), ..] = on_stdout[..] {
            return Err(usage!("{first} and {second} both name standard output ('-'); give one of them a file"));
        }
        let mut uses = vec![];
        for (what, path) in self.read.iter().chain(&implicit_inputs(host)) {
            let id = if path == Path::new("-") { FileId::of_stream(&io::stdin()) } else { FileId::of(path) };
            let Some(id) = id else { continue };
            // With `>> run.json` the shell has opened the file, and nothing has been written yet.
            if let Some((stream, _)) = streams.iter().find(|(_, stream)| *stream == id) {
                return Err(would_overwrite(stream, path, &id, what, host));
            }
            uses.push((*what, id));
        }
        for (option, path) in self.written.iter().filter(|(_, path)| path != Path::new("-")) {
            let Some(id) = FileId::of(path) else { continue };
            // A path such as /dev/stdout names the stream on purpose.
            let streams = if is_system_path(path) { &[][..] } else { &streams[..] };
            let other_use = uses.iter().chain(streams).find(|(_, used)| *used == id).map(|(what, _)| *what);
            if let Some(other_use) = other_use.or_else(|| executable_kind(path)) {
                return Err(would_overwrite(option, path, &id, other_use, host));
            }
            for (owner, folder) in self.reserved.iter().filter(|(owner, _)| owner != option) {
                if FileId::of(folder).is_some_and(|folder| FileId::folders(path).contains(&folder)) {
                    return Err(usage!(
                        "{option} '{}' lies in the folder of {owner}, which has it alone; choose another path",
                        path.shown()
                    ));
                }
            }
            uses.push((option, id));
        }
        Ok(())
    }
}

/// Returns the error for a file that would be overwritten. Keeps the error itself out of that file.
fn would_overwrite(option: &str, path: &Path, id: &FileId, other_use: &str, host: &Host) -> Error {
    if FileId::of_stream(&io::stderr()).as_ref() == Some(id) {
        host.messages.divert();
    }
    usage!("{option} would overwrite '{}', which is named as {other_use} too; choose another path", path.shown())
}

/// Returns whether a path is that of a device, a stream or a process.
fn is_system_path(path: &Path) -> bool {
    path.starts_with("/dev") || path.starts_with("/proc")
}

/// Refuses arguments and `GPUKERN_` variables that have a line break but name no file, and those that name the file to which
/// standard error is redirected: a message about them would forge a line, or overwrite the file. Skips the arguments of
/// programs: those after `--`, and all of `capture`.
pub(super) fn check_words(host: &Host) -> Result<()> {
    let words = &host.arguments;
    let is_capture = words.iter().any(|word| word == "capture");
    let end = words.iter().position(|word| word == "--").unwrap_or(if is_capture { 0 } else { words.len() });
    let variables = host.variables.iter().filter(|(name, _)| name.to_string_lossy().starts_with("GPUKERN_"));
    let stderr = FileId::of_stream(&io::stderr());
    if stderr.is_some() && stderr_is_record() {
        host.messages.divert();
    }
    for word in words[..end].iter().skip(1).chain(variables.map(|(_, value)| value)) {
        let text = word.to_string_lossy();
        let mut paths = vec![Path::new(word)];
        paths.extend(text.split_once('=').map(|(_, value)| Path::new(value)));
        paths.retain(|path| !is_system_path(path));
        let argument = printable::brief(&text);
        if text.contains('\n') && !paths.iter().any(|path| path.exists()) {
            return Err(usage!("the argument '{argument}' has a line break; write it in one line"));
        }
        if stderr.is_some() && paths.iter().any(|path| path.is_file() && FileId::of(path) == stderr) {
            host.messages.divert();
            return Err(usage!(
                "standard error would overwrite '{argument}', which the command line names; choose another path"
            ));
        }
    }
    Ok(())
}

/// Returns whether standard error appends to a record, as with `2>> run.json`. The check cannot wait: a command that reads a
/// folder finds the record there only after its first notes.
fn stderr_is_record() -> bool {
    let mut start = [0; 256];
    let length = File::open("/dev/fd/2").and_then(|mut file| file.read(&mut start)).unwrap_or(0);
    let start = String::from_utf8_lossy(&start[..length]);
    start.starts_with('{') && start.contains("\"gpukern-")
}

/// Returns files that every command depends on although no option names them: this program, the user's defaults, the cache,
/// drivers, layers, and other files that variables of the Vulkan loader and the linker name.
fn implicit_inputs(host: &Host) -> Vec<(&'static str, PathBuf)> {
    let mut inputs = vec![];
    inputs.extend(std::env::current_exe().ok().map(|path| ("the running program", path)));
    inputs.extend(config::path(host).map(|path| ("the file of your defaults", path)));
    inputs.extend(host.cache.files().into_iter().map(|path| ("a file of the cache", path)));
    let mut files = manifests(None);
    for (name, value) in &host.variables {
        let name = name.to_string_lossy();
        if !["VK_", "LD_", "DYLD_"].iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        for path in std::env::split_paths(value) {
            // A folder of layers may hold files that are not manifests.
            let is_layers = name.starts_with("VK_") && path.is_dir();
            files.extend(if is_layers { manifest_files(&path) } else { vec![path] });
        }
        // LD_PRELOAD also allows spaces as separators.
        files.extend(value.to_string_lossy().split_whitespace().map(PathBuf::from));
    }
    for path in files.into_iter().filter(|path| path.is_file()) {
        if path.extension().is_some_and(|ending| ending == "json") {
            let text = input_file::read_text(&path).unwrap_or_default();
            let manifest: Value = serde_json::from_str(&text).unwrap_or_default();
            if !["ICD", "layer", "layers"].iter().any(|key| manifest.get(key).is_some()) {
                continue;
            }
            add_libraries(&manifest, path.parent().unwrap_or(Path::new(".")), &mut inputs);
        }
        inputs.push(("a file that the environment names", path));
    }
    inputs
}

/// Adds the libraries that a manifest in `folder` names, at any depth.
fn add_libraries(manifest: &Value, folder: &Path, inputs: &mut Vec<(&'static str, PathBuf)>) {
    match manifest {
        Value::Object(fields) => {
            if let Some(library) = fields.get("library_path").and_then(Value::as_str) {
                inputs.push(("a library that the environment names", folder.join(library)));
            }
            fields.values().for_each(|value| add_libraries(value, folder, inputs));
        }
        Value::Array(values) => values.iter().for_each(|value| add_libraries(value, folder, inputs)),
        _ => {}
    }
}

/// Returns the kind of an executable at `path`, which no option may overwrite.
fn executable_kind(path: &Path) -> Option<&'static str> {
    let mut start = [0; 4];
    if path.is_file() {
        let _ = File::open(path).ok()?.read(&mut start);
    }
    match start {
        [0x7f, b'E', b'L', b'F'] => Some("a program or a library"),
        [b'#', b'!', ..] => Some("a script"),
        _ => None,
    }
}

/// Creates the folder that an option names. An error reads: cannot `action` 'folder': reason; choose another `kind`.
pub(super) fn create_folder(folder: &Path, action: &str, kind: &str) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| usage!("cannot {action} '{}': {e}; choose another {kind}", folder.shown()))
}

/// Writes texts to files of these names in an existing folder.
pub(super) fn write_files(document: Document, folder: &Path, files: &[(String, String)]) -> Result<()> {
    files.iter().try_for_each(|(name, text)| Target::open(document, &folder.join(name))?.deliver(text).map(drop))
}

impl Target {
    /// Opens `path` for the document; `-` is standard output.
    pub(super) fn open(document: Document, path: &Path) -> Result<Self> {
        let [name, option] = document;
        let destination = (path != Path::new("-")).then(|| Destination::open(path)).transpose().map_err(|reason| {
            usage!(
                "cannot write {name} to '{}': {reason}; choose another {option} path, or - for standard output",
                path.shown()
            )
        })?;
        Ok(Self { document, path: path.to_path_buf(), destination })
    }

    pub(super) fn open_if_named(document: Document, path: Option<&PathBuf>) -> Result<Option<Self>> {
        path.map(|path| Self::open(document, path)).transpose()
    }

    /// Returns the path if the destination is a file.
    pub(super) fn file(&self) -> Option<&Path> {
        if self.destination.as_ref()?.is_file() { Some(&self.path) } else { None }
    }

    /// Writes an unfinished `document` if its destination is a file, so that a killed process loses little.
    pub(super) fn write_unfinished(&self, document: &impl Serialize) -> Result<()> {
        match self.file() {
            Some(path) => Self::open(self.document, path)?.deliver_json(document).map(drop),
            None => Ok(()),
        }
    }

    /// Writes `text` to a file, or returns it for standard output.
    pub(super) fn deliver(self, text: &str) -> Result<Option<String>> {
        let Some(destination) = self.destination else { return Ok(Some(text.to_string())) };
        destination.write(text.as_bytes()).map(|()| None).map_err(|error| {
            Error::Failure(format!("cannot write {} to '{}': {error}", self.document[0], self.path.shown()))
        })
    }

    /// Writes `document` as one line of JSON to a file, or returns it for standard output.
    pub(super) fn deliver_json(self, document: &impl Serialize) -> Result<Option<String>> {
        let text = serde_json::to_string(document).map_err(|e| Error::Failure(e.to_string()))? + "\n";
        self.deliver(&printable::json(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host::in_memory([], [], "gpukern")
    }

    #[test]
    fn a_hyphen_is_standard_output_and_anything_else_a_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        let target = Target::open(JSON, Path::new("-")).expect("standard output");
        assert_eq!(target.deliver_json(&[1, 2]).expect("delivered").as_deref(), Some("[1,2]\n"));
        let target = Target::open(JSON, &path).expect("writable");
        target.write_unfinished(&[1]).expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), "[1]\n");
        assert_eq!(target.deliver("newer").expect("delivered"), None);
        assert_eq!(Target::open(JSON, &path).expect("writable").deliver("new").expect("delivered"), None);
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), "new");
    }

    #[test]
    fn a_file_is_written_once_and_none_that_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let [record, fresh] = ["run.json", "new.json"].map(|name| folder.path().join(name));
        std::fs::write(&record, "").expect("written");
        let same = folder.path().join("./new.json");
        let check = |outputs: &[(&'static str, &Path)]| {
            let files = Files::default().read("a record", [&record]);
            outputs.iter().fold(files, |files, (option, path)| files.written(option, [path])).check(&host())
        };
        assert!(check(&[("--json", &fresh)]).is_ok());
        let refused = |outputs: &[(&'static str, &Path)]| check(outputs).expect_err("a file twice").to_string();
        let read = format!(
            "--json would overwrite '{}', which is named as a record too; choose another path",
            record.display()
        );
        assert_eq!(refused(&[("--json", &record)]), read);
        let both =
            format!("--junit would overwrite '{}', which is named as --json too; choose another path", same.display());
        assert_eq!(refused(&[("--json", &fresh), ("--junit", &same)]), both);
        let nothing = Path::new(if cfg!(unix) { "/dev/null" } else { "NUL" });
        assert!(check(&[("--json", nothing), ("--junit", nothing)]).is_ok());
        let stdout = Path::new("-");
        let both = "--json and --junit both name standard output ('-'); give one of them a file";
        assert_eq!(refused(&[("--json", stdout), ("--junit", stdout)]), both);
        #[cfg(unix)]
        {
            let dangling = folder.path().join("dangling");
            std::os::unix::fs::symlink("new.json", &dangling).expect("linked");
            check(&[("--json", &dangling), ("--junit", &fresh)]).expect_err("both make new.json");
        }
    }

    #[test]
    fn places_that_cannot_be_written_are_the_user_s_to_change_and_a_full_disk_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("missing");
        let no_folder = format!("there is no folder '{}'", missing.display());
        for (path, reason) in [(folder.path(), "it is a folder"), (&missing.join("run.json"), &no_folder)] {
            let place = format!("cannot write JSON to '{}'", path.display());
            let expected = format!("{place}: {reason}; choose another --json path, or - for standard output");
            let error = Target::open(JSON, path).err();
            assert!(matches!(&error, Some(Error::Usage(text)) if *text == expected), "{error:?}");
        }
        if cfg!(target_os = "linux") {
            let full = Target::open(JSON, Path::new("/dev/full")).expect("it can be opened").deliver("x");
            let expected = "cannot write JSON to '/dev/full': No space left on device (os error 28)";
            assert!(matches!(&full, Err(Error::Failure(text)) if text == expected), "{full:?}");
        }
    }
}
