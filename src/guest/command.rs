//! Commands of the user's that make inputs or answers: .npy files in folders, both ways.

use std::path::Path;
use std::process::{Command, Stdio};

/// Has the shell run `line` in `folder`, with what is in braces replaced by the paths of `places`.
///
/// # Errors
/// When it cannot be started or fails; with its last words.
pub(super) fn run(line: &str, folder: &Path, places: &[(&str, &Path)]) -> Result<(), String> {
    let mut text = line.to_string();
    for (name, path) in places {
        text = text.replace(&format!("{{{name}}}"), &path.to_string_lossy());
    }
    let (shell, option) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut command = Command::new(shell);
    // Standard output may be the pipe to another process of this program.
    command.args([option, &text]).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().map_err(|e| format!("the command `{line}` cannot be started: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("the command `{line}` failed ({}): {last}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_command_runs_in_its_folder_with_the_paths_in_it_and_says_why_it_failed() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out");
        run("pwd > {out}", folder.path(), &[("out", &out)]).expect("it runs");
        assert!(std::fs::read_to_string(&out).expect("written").contains(&*folder.path().to_string_lossy()));
        let failed = run("echo wrong >&2; exit 7", folder.path(), &[]).expect_err("it fails");
        assert!(failed.contains("exit status: 7") && failed.ends_with("wrong"), "{failed}");
        let missing = run("no-such-program-here", Path::new(""), &[]).expect_err("there is none");
        assert!(missing.contains("no-such-program-here"), "{missing}");
    }
}
