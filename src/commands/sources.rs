//! `gpukern export --to sources`: the texts of own kernels that a record has, as files, and the command that measures them
//! again.

use super::{CommandOutput, Files, create_folder, read_record, write_files};
use crate::basis::file_name::is_plain;
use crate::basis::printable::shown_word;
use crate::compare::recipe::assignments;
use crate::record::KernelFile;
use crate::record::changes_drivers;
use crate::report::and_more;
use crate::{Error, Host, Record, Result, Shown, printable};
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};
use toml::Table;

/// Name of the format.
pub(super) const SOURCES: &str = "sources";

/// Stands for each folder between the highest that the files' paths reach and the one where the command ran, of which the
/// record has no name.
const HERE: &str = "here";
/// Folder of files with absolute paths, beside others.
const ABSOLUTE: &str = "absolute";
/// Most missing files that are named.
const MAX_NAMED: usize = 5;

/// Writes the files of the only record of `runs` to a new folder. Prints the command that measures them again.
pub(super) fn write(runs: &[PathBuf], over: Option<&str>, output: Option<&Path>, host: &Host) -> Result<CommandOutput> {
    let ([run], Some(folder)) = (runs, output.filter(|folder| *folder != Path::new("-"))) else {
        return Err(usage!(
            "--to {SOURCES} writes the files of one record to a new folder; name both: RUN.json -o DIR"
        ));
    };
    if over.is_some() {
        return Err(usage!("--speedup-over is about tables, and sources are none; leave it out"));
    }
    let mut notes = String::new();
    let record = read_record(run, &mut notes)?.record;
    if record.kernel_files.iter().all(|file| file.text.is_none() || file.is_description()) {
        return Err(without_texts(run, &record, host));
    }
    if let Some(file) = record.kernel_files.iter().find(|file| !file.is_genuine()) {
        return Err(usage!(
            "the text of '{}' in '{}' does not have the hash that stands beside it: the record was changed",
            printable(&file.path),
            run.shown()
        ));
    }
    let layout = SourceLayout::of(&record.kernel_files);
    let is_written = |file: &&KernelFile| file.text.is_some() && layout.place(Path::new(&file.path)).is_some();
    let (written, missing): (Vec<_>, Vec<_>) = record.kernel_files.iter().partition(is_written);
    let place = |file: &&KernelFile| Some((layout.place(Path::new(&file.path))?, file.text.clone()?));
    let files: Vec<(PathBuf, String)> = written.iter().filter_map(place).collect();
    let paths = files.iter().map(|(path, _)| folder.join(path));
    Files::default().read("the record", runs).written("--output", paths.collect::<Vec<_>>()).check(host)?;
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(usage!("'{}' is not empty; name a new folder: -o DIR", folder.shown()));
    }
    // It may have no file of its own.
    let here: PathBuf = folder.join(layout.here()).components().collect();
    create_folder(&here, "write sources to", "--output folder")?;
    for (path, text) in &files {
        let parent = folder.join(path.parent().unwrap_or(Path::new("")));
        create_folder(&parent, "write sources to", "--output folder")?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        write_files(["a source", "--output"], &parent, &[(name, text.clone())])?;
    }
    add_notes(&mut notes, &missing, &layout, &record);
    let command = command(&record, &layout, host);
    Ok(CommandOutput::document(format!("cd {}\n{command}\n", shown_word(&here.display().to_string())), notes))
}

/// Returns the error of a record that has no text of a kernel.
fn without_texts(run: &Path, record: &Record, host: &Host) -> Error {
    let why = match &record.request {
        Some(request) if record.kernel_files.is_empty() => {
            let command = request.command_with(&host.program_name(), Table::new());
            format!("it has only built-in kernels, which `{command}` measures again")
        }
        _ => "it was measured without --sources, or they are larger than 64 KiB, or no text".into(),
    };
    usage!("'{}' has no sources: {why}", run.shown())
}

/// Says what else the command needs, and what it may do.
fn add_notes(notes: &mut String, missing: &[&KernelFile], layout: &SourceLayout, record: &Record) {
    let mut add = |why: &str, wanted: &dyn Fn(&KernelFile) -> bool| {
        let files: Vec<_> = missing.iter().filter(|file| wanted(file)).collect();
        if !files.is_empty() {
            let names: Vec<_> = files.iter().take(MAX_NAMED).map(|file| printable(&file.path)).collect();
            let more = and_more(files.len() - names.len());
            let _ = writeln!(notes, "note      not written, as {why}: {}{more}", names.join(", "));
        }
    };
    // A command also names the programs that it runs, which are elsewhere.
    let is_near = |file: &KernelFile| layout.place(Path::new(&file.path)).is_some();
    add("the record has only their hashes", &|file| file.text.is_none() && is_near(file));
    add("their names may mean something to a program", &|file| file.text.is_some());
    let options = record.request.iter().flat_map(|request| [&request.config, &request.tuned]).flatten();
    for path in options {
        let _ = writeln!(notes, "note      the command reads '{}', which the record does not have", path.shown());
    }
    notes.push_str("note      descriptions may run commands: read a stranger's first, or add --no-commands\n");
    notes.push_str(
        "note      what a command reads without naming it, such as data or libraries, is not in the record\n",
    );
}

/// Returns the command that measures the record again, from the folder of its files.
fn command(record: &Record, layout: &SourceLayout, host: &Host) -> String {
    let Some(request) = &record.request else {
        return record.command.iter().map(|word| shown_word(word)).collect::<Vec<_>>().join(" ");
    };
    let mut request = request.clone().with_files(|path| layout.argument(path));
    // They belong to the machine where it was measured.
    (request.vulkan.loader, request.vulkan.cache_dir) = (None, None);
    for folder in request.kernels.iter_mut().flat_map(|kernels| &mut kernels.fields.include) {
        if let Some(path) = layout.argument(Path::new(folder)) {
            *folder = path.display().to_string();
        }
    }
    let variables = record.origin.environment.iter().filter(|(name, _)| changes_drivers(name));
    let variables = assignments(&variables.map(|(name, value)| (name.clone(), value.clone())).collect());
    let more = Table::from_iter([("json".to_string(), "run.json".into())]);
    variables + &request.command_with(&host.program_name(), more)
}

/// Where the files of a record are below a new folder: as they were to each other.
struct SourceLayout {
    /// Number of folders above the one of the command that the paths reach.
    up: usize,
    /// The deepest folder with all texts that have absolute paths.
    root: Option<Vec<String>>,
    has_relative: bool,
}

/// Path without `.` and `..`.
struct NormalPath {
    /// Number of `..` before the names; `None` for an absolute path.
    up: Option<usize>,
    names: Vec<String>,
}

impl NormalPath {
    fn of(path: &Path) -> Self {
        let mut normal = Self { up: path.is_relative().then_some(0), names: vec![] };
        for part in path.components() {
            match part {
                Component::Normal(name) => normal.names.push(name.to_string_lossy().into_owned()),
                Component::ParentDir if normal.names.pop().is_none() => normal.up = normal.up.map(|up| up + 1),
                _ => {}
            }
        }
        normal
    }
}

impl SourceLayout {
    fn of(files: &[KernelFile]) -> Self {
        let paths = files.iter().filter(|file| file.text.is_some()).map(|file| NormalPath::of(Path::new(&file.path)));
        let (absolute, relative): (Vec<_>, Vec<_>) = paths.partition(|path| path.up.is_none());
        let folder = |path: NormalPath| path.names.split_last().map(|(_, folder)| folder.to_vec()).unwrap_or_default();
        let common =
            |a: Vec<String>, b: Vec<String>| a.into_iter().zip(b).map_while(|(a, b)| (a == b).then_some(a)).collect();
        Self {
            up: relative.iter().filter_map(|path| path.up).max().unwrap_or(0),
            has_relative: !relative.is_empty(),
            root: absolute.into_iter().map(folder).reduce(common),
        }
    }

    /// Returns the folder where the command runs.
    fn here(&self) -> PathBuf {
        std::iter::repeat_n(HERE, self.up).collect()
    }

    /// Returns the place of a file below the new folder; `None` if a part of its path has a name that means something to
    /// a system or a program, as `.git`, or may be none on another system.
    fn place(&self, path: &Path) -> Option<PathBuf> {
        let NormalPath { up, names } = NormalPath::of(path);
        let above = up.map_or(self.up, |up| self.up - up.min(self.up));
        let names = if up.is_some() { &names[..] } else { names.strip_prefix(&self.root.as_ref()?[..])? };
        let letter = |c: char| if !c.is_ascii() && c.is_alphanumeric() || " +".contains(c) { '_' } else { c };
        let is_safe = |name: &String| is_plain(&name.chars().map(letter).collect::<String>()) && !name.ends_with(' ');
        let group = (up.is_none() && self.has_relative).then_some(ABSOLUTE);
        let parents = std::iter::repeat_n(HERE, above).chain(group);
        (!names.is_empty() && names.iter().all(is_safe))
            .then(|| parents.chain(names.iter().map(String::as_str)).collect())
    }

    /// Returns another path for one that the command names, if it was absolute, seen from where the command runs.
    fn argument(&self, path: &Path) -> Option<PathBuf> {
        let NormalPath { up: None, names } = NormalPath::of(path) else { return None };
        let below: PathBuf = names.strip_prefix(&self.root.as_ref()?[..])?.iter().collect();
        Some(match self.has_relative {
            true => Path::new(ABSOLUTE).join(below),
            false if below.as_os_str().is_empty() => ".".into(),
            false => below,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(paths: &[&str]) -> SourceLayout {
        let file = |path: &&str| KernelFile { path: (*path).into(), sha256: String::new(), text: Some(String::new()) };
        SourceLayout::of(&paths.iter().map(file).collect::<Vec<_>>())
    }

    fn places(paths: &[&str]) -> Vec<Option<String>> {
        let layout = layout(paths);
        paths.iter().map(|path| Some(layout.place(Path::new(path))?.to_str()?.replace('\\', "/"))).collect()
    }

    #[test]
    fn files_stay_where_they_were_to_each_other_and_below_the_folder() {
        let some = |paths: &[&str]| paths.iter().map(|path| Some((*path).to_string())).collect::<Vec<_>>();
        assert_eq!(places(&["a/k.toml", "a/../b/./x y.comp"]), some(&["a/k.toml", "b/x y.comp"]));
        assert_eq!(places(&["k.toml", "../../s/x.glsl", "../y"]), some(&["here/here/k.toml", "s/x.glsl", "here/y"]));
        assert_eq!(layout(&["../y"]).here(), Path::new("here"));
        assert_eq!(places(&["/h/p/k.toml", "/h/p/s/k.comp", "/h/../h/p/ö"]), some(&["k.toml", "s/k.comp", "ö"]));
        assert_eq!(places(&["k.toml", "/usr/x.glsl"]), some(&["k.toml", "absolute/x.glsl"]));
        for path in [".git/config", "a/.bashrc", "c:k", "nul", "a\\..\\b", "-k", "a\n", ""] {
            assert_eq!(layout(&["k.toml"]).place(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn arguments_of_the_command_are_paths_below_the_folder() {
        let shown =
            |files: &[&str], path: &str| layout(files).argument(Path::new(path)).map(|path| path.display().to_string());
        assert_eq!(shown(&["/h/p/k.toml"], "/h/p/k.toml").as_deref(), Some("k.toml"));
        assert_eq!(shown(&["/h/p/case.toml"], "/h/p").as_deref(), Some("."));
        assert_eq!(shown(&["/h/k.toml"], "k.toml"), None);
        assert_eq!(shown(&["/h/k.toml"], "/elsewhere/tuned.toml"), None);
        assert_eq!(layout(&["k.toml"]).place(Path::new("/usr/bin/python3")), None);
    }
}
