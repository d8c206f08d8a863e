//! Manifests of drivers, which the Vulkan loader ignores without a word if something is wrong with them.

use crate::basis::input_file;
use crate::basis::printable::{Shown, brief};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Returns why no manifest of a path list is usable: the only problem, or each with its file. `None` if one is usable, or a
/// folder, in which the loader looks for more.
pub fn problems(manifests: &OsStr) -> Option<String> {
    let mut problems = vec![];
    for path in std::env::split_paths(manifests).filter(|path| !path.as_os_str().is_empty()) {
        if path.is_dir() {
            return None;
        }
        problems.push((problem(&path)?, path));
    }
    match &problems[..] {
        [] => None,
        [(problem, _)] => Some(problem.clone()),
        several => {
            let each = several.iter().map(|(problem, path)| format!("'{}': {problem}", path.shown()));
            Some(each.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Returns why the Vulkan loader would silently ignore the manifest of a driver.
pub fn problem(path: &Path) -> Option<String> {
    let text = match input_file::read_text(path) {
        Ok(text) => text,
        Err(error) => return Some(error.to_string()),
    };
    let manifest = match parse(&text) {
        Ok(manifest) => manifest,
        Err(problem) => return Some(problem),
    };
    let Some(library) = manifest.pointer("/ICD/library_path").and_then(serde_json::Value::as_str) else {
        return Some("it names no ICD.library_path".into());
    };
    if !library.contains(['/', '\\']) {
        return (cfg!(target_os = "linux") && !is_in_library_path(library))
            .then(|| format!("its library '{}' is in none of the system's folders", brief(library)));
    }
    let file = path.parent().unwrap_or(Path::new("")).join(library);
    let Ok(mut opened) = std::fs::File::open(&file) else {
        return Some(format!("its library '{}' is not there", file.shown()));
    };
    if !cfg!(target_os = "linux") {
        return None;
    }
    let Some(machine) = elf_machine(&mut opened) else {
        return Some(format!("its library '{}' is not an ELF file", file.shown()));
    };
    let own = std::env::current_exe().and_then(std::fs::File::open).ok().as_mut().and_then(elf_machine);
    own.is_some_and(|own| own != machine)
        .then(|| format!("its library '{}' is for another architecture than gpukern", file.shown()))
}

/// Parses the text of a manifest. The error says where it is not JSON, and why.
pub fn parse(text: &str) -> Result<serde_json::Value, String> {
    // In a file that was cut short, the line break at its end would be a wrong character of a text.
    serde_json::from_str(text.trim_end()).map_err(|error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        if error.is_eof() {
            return format!("it is not valid JSON: it ends too early, in line {line}, column {column}");
        }
        let said = error.to_string();
        let what = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
        format!("it is not valid JSON: line {line}, column {column}: {what}")
    })
}

/// Returns the word size and the architecture that an ELF file is for; `None` for any other file.
fn elf_machine(file: &mut std::fs::File) -> Option<[u8; 3]> {
    let mut header = [0; 20];
    file.read_exact(&mut header).ok()?;
    (header[..4] == *b"\x7fELF").then_some([header[4], header[18], header[19]])
}

/// Whether the system may find a library that is named without a folder.
fn is_in_library_path(library: &str) -> bool {
    let stated = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let stated = std::env::split_paths(&stated).collect::<Vec<_>>();
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let usual = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"].map(PathBuf::from);
    let folders = stated.into_iter().chain(usual.into_iter().flat_map(|folder| [folder.join(&triple), folder]));
    // Folders that only the linker's cache knows.
    let is_cached = || {
        std::fs::read("/etc/ld.so.cache")
            .is_ok_and(|cache| cache.windows(library.len().max(1)).any(|bytes| bytes == library.as_bytes()))
    };
    folders.into_iter().any(|folder| folder.join(library).exists()) || is_cached()
}
