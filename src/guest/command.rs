//! Commands of the user's that make inputs or answers: .npy files in folders, both ways.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `text` in `folder`, with what is in braces replaced by the paths of `places`.
///
/// # Errors
/// When it cannot be started or fails; with its last words.
pub(super) fn run(text: &str, folder: &Path, places: &[(&str, &Path)]) -> Result<(), String> {
    let mut words = words(text)?.into_iter().map(|mut word| {
        for (name, path) in places {
            word = word.replace(&format!("{{{name}}}"), &path.to_string_lossy());
        }
        word
    });
    let program = words.next().ok_or("the command is empty; write one, or leave it out")?;
    let mut command = Command::new(&program);
    // Standard output may be the pipe to another process of this program.
    command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().map_err(|e| format!("the command `{text}` cannot be started: {program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("the command `{text}` failed ({}): {last}", output.status))
}

/// The words of a command line; quotes keep blanks in a word.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("the command `{text}` has a quote {open} that does not end; close it"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_blanks_in_a_word() {
        let found = words("python3 'my ref.py' \"{in}\" '' x").expect("it is closed");
        assert_eq!(found, ["python3", "my ref.py", "{in}", "", "x"]);
        assert!(words("say 'no").is_err());
    }

    #[test]
    #[cfg(unix)]
    fn a_command_runs_in_its_folder_with_the_paths_in_it_and_says_why_it_failed() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out");
        run("sh -c 'pwd > {out}'", folder.path(), &[("out", &out)]).expect("it runs");
        assert!(std::fs::read_to_string(&out).expect("written").contains(&*folder.path().to_string_lossy()));
        let failed = run("sh -c 'echo wrong >&2; exit 7'", folder.path(), &[]).expect_err("it fails");
        assert!(failed.contains("exit status: 7") && failed.ends_with("wrong"), "{failed}");
        let missing = run("no-such-program-here", folder.path(), &[]).expect_err("there is none");
        assert!(missing.contains("cannot be started: no-such-program-here"), "{missing}");
    }
}
