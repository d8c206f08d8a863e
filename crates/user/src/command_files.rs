//! Finds the files that a shell command names, such as its script. All possible readings of a word count, because a
//! file that is missed may be overwritten.

use crate::basis::pattern;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most levels of nested quotes: `sh -c "python3 -c '…'"`.
const MAX_DEPTH: u32 = 4;
/// Most folders to search, and most words to look for in each.
const MAX_FOLDERS: usize = 32;
const MAX_WORDS: usize = 1000;
/// Most files and folders beside a script that are looked at.
const MAX_BESIDE: usize = 1000;
/// Longest script that is read for what it imports.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;
/// Longest expansion of variables that is read, because values that use variables grow exponentially. Linux passes no
/// longer argument to a program (`MAX_ARG_STRLEN`).
const MAX_EXPANDED_BYTES: usize = 128 << 10;

/// Returns the files that a shell's `line` may name when it is run in `folder`.
pub fn files_of_line(line: &str, folder: &Path) -> BTreeSet<PathBuf> {
    let mut words = CommandWords::default();
    words.read(line, 0);
    words.find_files(folder)
}

/// Returns the files that the `arguments` of a program name, those of an interpreter's script included.
pub fn files_of_arguments<'a>(arguments: impl IntoIterator<Item = &'a str>, folder: &Path) -> BTreeSet<PathBuf> {
    let mut words = CommandWords::default();
    for argument in arguments {
        words.add(argument, 0);
    }
    words.find_files(folder)
}

/// Returns the files with a script's ending, beside it or in folders there, whose names it has as words, and those that
/// these name in turn: what it imports. Nothing hidden is among them.
pub fn imported(script: &Path) -> BTreeSet<PathBuf> {
    let (Some(mut text), Some(ending)) = (text_of(script), script.extension()) else {
        return BTreeSet::new();
    };
    let mut candidates = beside(script.parent().unwrap_or(Path::new("")));
    candidates.retain(|(_, path)| path != script && path.extension() == Some(ending));
    let mut found = BTreeSet::new();
    loop {
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let is_word = |name: &str| words.contains(name) || name.contains('-') && text.contains(name);
        // A package's own file is read with any other of it.
        let is_named = |names: &[String]| match names {
            [package @ .., last] if last == "__init__" && !package.is_empty() => {
                package.iter().all(|name| is_word(name))
            }
            names => names.iter().all(|name| is_word(name)),
        };
        let (named, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|(names, _)| is_named(names));
        if named.is_empty() {
            return found;
        }
        for (_, path) in named {
            text.push('\n');
            text += &text_of(&path).unwrap_or_default();
            found.insert(path);
        }
        candidates = others;
    }
}

/// Returns the text of a script; `None` if the file is data by its length or bytes.
fn text_of(path: &Path) -> Option<String> {
    let is_short = path.metadata().is_ok_and(|file| file.len() <= MAX_SCRIPT_BYTES);
    if is_short { std::fs::read_to_string(path).ok() } else { None }
}

/// Returns the files in a folder and those below it, each with the names of its folders and its own without ending.
fn beside(folder: &Path) -> Vec<(Vec<String>, PathBuf)> {
    let mut files = vec![];
    let mut folders = vec![(vec![], folder.to_path_buf())];
    let mut seen = 0;
    while let Some((names, folder)) = folders.pop() {
        // A bare name has an empty folder, which nobody can read.
        let readable = if folder == Path::new("") { Path::new(".") } else { &folder };
        for entry in std::fs::read_dir(readable).into_iter().flatten().flatten() {
            let name = entry.file_name();
            seen += 1;
            if seen > MAX_BESIDE || name.to_string_lossy().starts_with('.') {
                continue;
            }
            let path = folder.join(&name);
            // Links to folders may lead anywhere, and round in a circle.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let stem = if is_folder { Some(&*name) } else { path.file_stem() };
            let names = [&names[..], &[stem.unwrap_or_default().to_string_lossy().into_owned()]].concat();
            if is_folder { folders.push((names, path)) } else { files.push((names, path)) }
        }
    }
    files
}

/// Words of a command, with everything that they may expand to.
#[derive(Default)]
struct CommandWords {
    all: BTreeSet<String>,
    /// Values of the variables that the command sets.
    variables: BTreeMap<String, String>,
}

impl CommandWords {
    /// Adds the words of `line`, which is quoted `depth` times.
    fn read(&mut self, line: &str, depth: u32) {
        for word in split(line) {
            self.add(&word, depth);
        }
    }

    /// Adds a word and all its readings: its parts, its expansion, and a command line within it.
    fn add(&mut self, word: &str, depth: u32) {
        if word.is_empty() || depth > MAX_DEPTH || self.all.len() > MAX_WORDS {
            return;
        }
        if let Some((name, value)) = word.split_once('=')
            && !name.is_empty()
            && name.chars().all(is_variable_char)
        {
            self.variables.insert(name.into(), value.into());
        }
        if !self.all.insert(word.into()) {
            return;
        }
        // Values of options and variables, elements of lists, and options with their values attached.
        for piece in word.split(['=', ',', ':', '@']) {
            self.add(piece, depth + 1);
        }
        if word.starts_with('-') && word.is_char_boundary(2) {
            self.add(word.get(2..).unwrap_or_default(), depth + 1);
        }
        // Python's `-m package.module`.
        if word.chars().all(|c| c.is_alphanumeric() || "._".contains(c)) {
            let path = word.replace('.', "/");
            self.all.extend([format!("{path}.py"), format!("{path}/__main__.py")]);
        }
        if let Some(expanded) = self.expand(word) {
            self.add(&expanded, depth + 1);
        }
        self.read(word, depth + 1);
    }

    /// Expands the variables of a word and a leading `~/`; `None` if there are none, or the result is too long.
    fn expand(&self, word: &str) -> Option<String> {
        let mut parts = word.split('$');
        let mut text = parts.next().unwrap_or_default().to_string();
        if let Some(rest) = text.strip_prefix("~/")
            && let Some(home) = dirs::home_dir()
        {
            text = home.join(rest).to_string_lossy().into_owned();
        }
        for part in parts {
            let braced = part.strip_prefix('{').and_then(|part| part.split_once('}'));
            let end = part.find(|c| !is_variable_char(c)).unwrap_or(part.len());
            let (name, rest) = braced.unwrap_or(part.split_at(end));
            text += &self.value_of(name);
            text += rest;
            if text.len() > MAX_EXPANDED_BYTES {
                return None;
            }
        }
        Some(text).filter(|text| text != word)
    }

    /// Returns the value of a variable that the command or the environment sets; empty for an unset one.
    fn value_of(&self, name: &str) -> String {
        // The working folder of the command, in which all words are looked up.
        if name == "PWD" {
            return ".".into();
        }
        match self.variables.get(name) {
            Some(value) => value.clone(),
            None => std::env::var(name).unwrap_or_default(),
        }
    }

    /// Finds files with these names in `folder`, in folders that other words name, and on the `PATH`.
    fn find_files(&self, folder: &Path) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::new();
        for folder in self.find_folders(folder) {
            for word in &self.all {
                files.extend(matching(&folder.join(word)).into_iter().filter(|path| path.is_file()));
            }
        }
        for folder in std::env::var_os("PATH").iter().flat_map(std::env::split_paths) {
            let names = self.all.iter().filter(|word| !word.contains('/'));
            files.extend(names.map(|name| folder.join(name)).filter(|path| path.is_file()));
        }
        files
    }

    /// Returns `folder` and the folders that words name, relative to it or to each other: `cd sub && cd deep`.
    fn find_folders(&self, folder: &Path) -> Vec<PathBuf> {
        let mut folders = vec![folder.to_path_buf()];
        let mut searched = 0;
        while searched < folders.len() {
            for word in self.all.iter().filter(|word| !word.contains('*')) {
                let path = folders[searched].join(word);
                if folders.len() < MAX_FOLDERS && path.is_dir() && !contains_folder(&folders, &path) {
                    folders.push(path);
                }
            }
            searched += 1;
        }
        folders
    }
}

/// Whether `path` is one of the folders, under any name.
fn contains_folder(folders: &[PathBuf], path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    folders.iter().any(|folder| folder.canonicalize().is_ok_and(|folder| folder == path))
}

/// Returns the path, or its matches if the last part is a glob pattern.
fn matching(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.contains(['*', '?', '[']) {
        return vec![path.to_path_buf()];
    }
    // Broader than the shell's pattern: brackets and `?` match any text.
    let mut loose = String::new();
    let mut in_brackets = false;
    for c in name.chars() {
        match c {
            '[' => in_brackets = true,
            ']' => {
                in_brackets = false;
                loose.push('*');
            }
            '?' => loose.push('*'),
            _ if in_brackets => {}
            c => loose.push(c),
        }
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut paths = vec![path.to_path_buf()];
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        if pattern::matches(&loose, &entry.file_name().to_string_lossy()) {
            paths.push(entry.path());
        }
    }
    paths
}

fn is_variable_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Splits a shell command into words, without quotes.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word = String::new();
    // The quotation mark that is open.
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            // On Windows, backslashes separate the parts of paths.
            ('\\', None) if !cfg!(windows) => word.extend(rest.next()),
            // Between double quotes, a backslash escapes only these characters.
            ('\\', Some('"')) if !cfg!(windows) => match rest.clone().next() {
                Some('"' | '\\' | '$' | '`') => word.extend(rest.next()),
                _ => word.push(c),
            },
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, None) if " \t\r\n`;|&<>()".contains(c) => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a folder with these files and their texts.
    fn folder_of(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        folder
    }

    #[test]
    fn scripts_are_found_in_any_quoting() {
        let paths = ["ref x.py", "ref.py", "sub/deep/ref y.py", "data-1.txt", "pkg/tool.py", "unnamed.py"];
        let folder = folder_of(&paths.map(|path| (path, "")));
        for (line, expected) in [
            ("python3 'ref x.py' {in} {out}", "ref x.py"),
            ("python3 \"ref x.py\" {in}", "ref x.py"),
            ("python3 ref\\ x.py {in}", "ref x.py"),
            ("python3 'ref'\" x.py\"", "ref x.py"),
            ("sh -c \"python3 'ref x.py'\"", "ref x.py"),
            ("sh -c 'sh -c \"python3 ref\\ x.py\"'", "ref x.py"),
            ("python3 -c \"exec(open('ref x.py').read())\"", "ref x.py"),
            ("python3 <'ref x.py'", "ref x.py"),
            ("cd sub && cd deep; python3 'ref y.py'", "sub/deep/ref y.py"),
            ("cd sub/deep;python3 ./ref\\ y.py", "sub/deep/ref y.py"),
            ("env -C sub/deep python3 'ref y.py'", "sub/deep/ref y.py"),
            ("make -Csub/deep -f'ref y.py'", "sub/deep/ref y.py"),
            ("python3 $PWD/ref.py", "ref.py"),
            ("python3 \"${PWD}/ref x.py\"", "ref x.py"),
            ("s='ref x.py'; python3 \"$s\"", "ref x.py"),
            ("n=x; python3 \"ref $n.py\"", "ref x.py"),
            ("python3 re?.py", "ref.py"),
            ("python3 [r]ef*.py", "ref.py"),
            ("./tool --table=data-1.txt", "data-1.txt"),
            ("python3 -m pkg.tool", "pkg/tool.py"),
            ("cat ref.py|python3 -", "ref.py"),
            ("(python3 sub/../ref.py)", "sub/../ref.py"),
        ] {
            let found = files_of_line(line, folder.path());
            assert!(found.contains(&folder.path().join(expected)), "{line}: {found:?}");
            assert!(!found.contains(&folder.path().join("unnamed.py")), "{line}: {found:?}");
        }
        let program = ["python3", "-Xdev", "ref x.py", "--in=data-1.txt"];
        let found = files_of_arguments(program, folder.path());
        assert!(["ref x.py", "data-1.txt"].iter().all(|name| found.contains(&folder.path().join(name))), "{found:?}");
        // Variables that contain themselves are not expanded without end.
        files_of_line(&"a=$a$a '\"\\ ".repeat(5000), folder.path());
    }

    #[test]
    fn what_a_script_imports_is_found_in_packages_and_through_others() {
        let texts = [
            ("ref.py", "import npy, my.tools\nfrom .hidden import secret"),
            ("npy.py", "load('first-part')"),
            ("first-part.py", "import ref"),
            ("my/__init__.py", ""),
            ("my/tools.py", "from . import deep"),
            ("my/deep.py", ""),
            ("my/unnamed.py", ""),
            ("other/tools.py", ""),
            ("npy.txt", ""),
            (".hidden/secret.py", ""),
            (".npy.py", ""),
        ];
        let folder = folder_of(&texts);
        let found = imported(&folder.path().join("ref.py"));
        let expected = ["npy.py", "first-part.py", "my/__init__.py", "my/tools.py", "my/deep.py"];
        assert_eq!(found, expected.iter().map(|path| folder.path().join(path)).collect());
        assert!(beside(Path::new("")).iter().any(|(_, path)| path == Path::new("Cargo.toml")), "as the user names it");
    }
}
