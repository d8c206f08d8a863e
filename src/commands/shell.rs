//! `gpukern completions` and `gpukern man`: what packages install beside the binary.

use super::Answer;
use super::document::Document;
use crate::basis::error::{Error, Exit};
use crate::commands::cli::{Cli, CompletionsArgs, ManArgs};
use std::path::Path;

const PAGE: Document = Document { name: "a manual page", option: "--output" };

/// The completion script of a shell.
pub(super) fn completions(args: &CompletionsArgs) -> Answer {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut Cli::documented(), "gpukern", &mut script);
    Answer::success(String::from_utf8_lossy(&script).into_owned())
}

/// The manual page of the program on standard output, or one for it and each of its commands in a folder.
pub(super) fn man(args: &ManArgs) -> Result<Answer, Error> {
    let mut program = Cli::documented();
    program.build();
    let Some(folder) = &args.output else { return Ok(Answer::success(page(&program)?)) };
    std::fs::create_dir_all(folder).map_err(|e| unwritable(folder, &e))?;
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let mut pages = 0_u32;
    for command in std::iter::once(&program).chain(commands) {
        // `gpukern bench` is gpukern-bench(1), as git and cargo name theirs.
        let name = command.get_display_name().unwrap_or(command.get_name()).replace(' ', "-");
        let path = folder.join(format!("{name}.1"));
        PAGE.open(&path)?.deliver(&page(command)?)?;
        pages += 1;
    }
    Ok(Answer::new(String::new(), format!("{pages} pages in {}\n", folder.display()), Exit::Success))
}

/// The manual page of one command.
fn page(command: &clap::Command) -> Result<String, Error> {
    let mut roff = vec![];
    // Its title is that of the page: gpukern-bench(1).
    let title = command.get_display_name().unwrap_or(command.get_name()).replace(' ', "-");
    let manual = clap_mangen::Man::new(command.clone()).title(title.to_uppercase());
    manual.render(&mut roff).map_err(|e| Error::Failure(format!("the manual page cannot be made: {e}")))?;
    Ok(String::from_utf8_lossy(&roff).into_owned())
}

fn unwritable(folder: &Path, error: &std::io::Error) -> Error {
    Error::Usage(format!(
        "cannot write manual pages to '{}': {error}; choose another --output folder",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::Shell;

    #[test]
    fn a_folder_of_manual_pages_has_one_for_each_command_that_help_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = Some(folder.path().join("man1"));
        man(&ManArgs { output: output.clone() }).expect("it is written");
        let text = |name: &str| std::fs::read_to_string(output.as_ref().expect("set").join(name));
        for command in Cli::documented().get_subcommands() {
            let page = text(&format!("gpukern-{}.1", command.get_name()));
            assert_eq!(page.is_ok(), !command.is_hide_set(), "{}", command.get_name());
        }
        let program = text("gpukern.1").expect("the page of the program");
        assert!(program.contains(".TH GPUKERN 1"), "{program}");
        assert!(program.contains("gpukern\\-bench(1)"), "{program}");
        // The options of Vulkan stand in the pages of the commands that use it.
        let [bench, export] = ["bench", "export"].map(|command| text(&format!("gpukern-{command}.1")).expect("a page"));
        assert!(bench.contains("in\\-process") && !export.contains("in\\-process"));
    }

    #[test]
    fn every_shell_completes_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell, Shell::Elvish] {
            let script = completions(&CompletionsArgs { shell }).output;
            assert!(["bench", "verify", "compare"].iter().all(|command| script.contains(command)), "{shell}");
        }
    }
}
