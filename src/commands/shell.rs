//! `gpukern completions` and `gpukern man`: files that packages install with the binary.

use super::sources::SOURCES;
use super::{CommandOutput, Document, create_folder, help, topics, write_files};
use crate::simulator::fault::FaultKind;
use crate::{CATALOGUE, DType, Error, Exit, Format, Layout, Result, Shown};
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use std::fmt::Write as _;
use std::path::Path;

const PAGE: Document = ["a manual page", "--output"];

pub(super) fn completions(shell: Shell) -> CommandOutput {
    let mut program = with_names();
    let mut script = vec![];
    clap_complete::generate(shell, &mut program, "gpukern", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Fish {
        // For fish, clap completes the values of options but not positional arguments.
        for command in program.get_subcommands() {
            let name = command.get_name();
            let names: Vec<_> = command.get_positionals().flat_map(|arg| names(name, arg.get_id().as_str())).collect();
            if !names.is_empty() {
                let names = names.join(" ");
                let _ =
                    writeln!(script, "complete -c gpukern -n '__fish_gpukern_using_subcommand {name}' -f -a '{names}'");
            }
        }
    }
    CommandOutput::document(script, String::new())
}

/// Returns the command line with the names that its arguments accept. The program itself parses them as text, to suggest the
/// nearest name for an unknown one.
fn with_names() -> clap::Command {
    help::documented().mut_subcommands(|command| {
        let command_name = command.get_name().to_string();
        command.mut_args(|arg| match names(&command_name, arg.get_id().as_str()) {
            names if names.is_empty() => arg,
            names => arg.value_parser(PossibleValuesParser::new(names)),
        })
    })
}

/// Returns the names that an argument of a command accepts; none if it accepts other values.
fn names(command: &str, argument: &str) -> Vec<&'static str> {
    let measured = || CATALOGUE.algorithms.iter().filter(|algorithm| !algorithm.finds_limits());
    match (command, argument) {
        (_, "algorithm") => measured().map(|algorithm| &*algorithm.name).collect(),
        (_, "variant" | "against") => {
            let variants = measured().flat_map(|algorithm| algorithm.variants.iter().map(|variant| &*variant.name));
            let mut names: Vec<_> = variants.chain(["all", "auto"]).collect();
            names.sort_unstable();
            names.dedup();
            names
        }
        (_, "dtype") => DType::ALL.map(DType::name).to_vec(),
        (_, "layout") => Layout::ALL.map(Layout::name).to_vec(),
        ("sanitize", "allow") => FaultKind::ALL.map(FaultKind::name).to_vec(),
        ("export", "to") => Format::ALL.map(Format::name).into_iter().chain([SOURCES]).collect(),
        ("history", "to") => vec!["otava"],
        ("help", "subject") => topics::names().collect(),
        _ => vec![],
    }
}

/// Returns the manual page of the program, or writes those of the program and all commands to a folder.
pub(super) fn man(folder: Option<&Path>) -> Result<CommandOutput> {
    // A page has no text for an option that `-h` does not show.
    let show_all = |command: clap::Command| command.mut_args(|arg| arg.hide_short_help(false));
    let mut program = show_all(help::documented()).mut_subcommands(show_all);
    program.build();
    let Some(folder) = folder else {
        return Ok(CommandOutput::document(page(&program)?, String::new()));
    };
    create_folder(folder, "write manual pages to", "--output folder")?;
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let mut pages = vec![];
    for command in std::iter::once(&program).chain(commands) {
        pages.push((format!("{}.1", page_name(command)), page(command)?));
    }
    write_files(PAGE, folder, &pages)?;
    let note = format!("{} pages in {}\n", pages.len(), folder.shown());
    Ok(CommandOutput::new(String::new(), note, Exit::Success))
}

/// Returns the name of a manual page: gpukern-bench for `gpukern bench`, as git and cargo name theirs.
fn page_name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).replace(' ', "-")
}

fn page(command: &clap::Command) -> Result<String> {
    let mut roff = vec![];
    let manual = clap_mangen::Man::new(command.clone()).title(page_name(command).to_uppercase());
    manual.render(&mut roff).map_err(|e| Error::Failure(format!("the manual page cannot be made: {e}")))?;
    Ok(String::from_utf8_lossy(&roff).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_manual_pages_has_one_for_each_command_that_help_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("man1");
        man(Some(&output)).expect("it is written");
        let text = |name: &str| std::fs::read_to_string(output.join(name));
        for command in help::documented().get_subcommands() {
            let page = text(&format!("gpukern-{}.1", command.get_name()));
            assert_eq!(page.is_ok(), !command.is_hide_set(), "{}", command.get_name());
        }
        let program = text("gpukern.1").expect("the page of the program");
        assert!(program.contains(".TH GPUKERN 1"), "{program}");
        assert!(program.contains("gpukern\\-bench(1)"), "{program}");
        // The options of Vulkan stand in the pages of the commands that use it.
        let [bench, export] = ["bench", "export"].map(|command| text(&format!("gpukern-{command}.1")).expect("a page"));
        assert!(bench.contains("in\\-process") && !export.contains("in\\-process"));
        for option in bench.split(".TP\n").skip(1) {
            assert!(option.lines().nth(1).is_some_and(|help| !help.is_empty()), "{option}");
        }
    }

    #[test]
    fn every_shell_completes_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell, Shell::Elvish] {
            let script = completions(shell).output;
            assert!(["bench", "verify", "compare"].iter().all(|command| script.contains(command)), "{shell}");
            // Elvish and PowerShell complete only commands and options.
            let values = [
                "matmul",
                "next-matrix",
                "subgroup-shuffle",
                "bf16",
                "nt",
                "custom-smaller-is-better",
                "otava",
                "weak-checks",
            ];
            if !matches!(shell, Shell::PowerShell | Shell::Elvish) {
                assert!(values.iter().all(|name| script.contains(name)), "{shell}: {script}");
            }
        }
    }
}
