//! The help of the commands, with the same headings in each: `-h` is one screen, `--help` has everything.

use super::options::Options;
use crate::{Cli, VulkanOptions};
use anstream::ColorChoice;
use clap::{Arg, ArgAction, Command, CommandFactory};
use std::ffi::OsString;

/// Commands whose help shows the options of Vulkan: those that load it, and `config`, which prints them.
pub(super) const USE_VULKAN: [&str; 9] =
    ["devices", "bench", "run", "inspect", "peak", "tune", "verify", "ab", "config"];

/// Heading with its options in order. `tune/budget` is an option of one command that others have under another heading.
struct Heading {
    title: &'static str,
    /// Options that `-h` shows.
    usual: &'static str,
    /// Options that only `--help` shows.
    more: &'static str,
}

const HEADINGS: [Heading; 8] = [
    Heading { title: "What to show", usual: "report/variant", more: "" },
    Heading {
        title: "What to measure",
        usual: "compare-commits/config prepare compare-commits/bench variant against a-spirv b-spirv a-driver b-driver a-env b-env size dtype bench/layout tune/layout config ab tune init watch full peak/quick \
            overlapped sample subgroup schedules arithmetic sanitize/timeout",
        more: "run/variant layout input solve host only quick seed subgroup-size stop eps max-rounds by-inspection set define include entry",
    },
    Heading { title: "What to capture", usual: "capture/output kernel call max-bytes", more: "every" },
    Heading { title: "Device", usual: "device", more: "parallel" },
    Heading {
        title: "Sampling",
        usual: "precision max-time processes tune/budget",
        more: "noise clock cache energy pause repeat",
    },
    Heading {
        title: "Output",
        usual: "json to output svg trace page top table dry-run raw isa ir diff print save junit verify/keep-failures devices/verbose",
        more: "columns explain label resume keep-failures quiet verbose color help",
    },
    Heading {
        title: "Comparison",
        usual: "compare reference baseline candidate gate min-effect fail-within expect require-reference known sanitize/allow compare-commits/allow order apart speedup-over",
        more: "budget rounds process-noise allow force",
    },
    Heading {
        title: "Advanced",
        usual: "bench/tuned tune/tuned inspect/tuned config/tuned",
        more: "tuned no-tuned no-peak no-commands sources shard timeout max-run validation loader cache-dir in-process no-robust-access",
    },
];

/// Help of `devices --verbose`; elsewhere --verbose prints cases.
const DEVICES_VERBOSE: &str = "Add features, all limits and what each variant needs";

/// Pages, and the options that only they describe; the pages of other commands name them in a line.
const SHARED: [[&str; 2]; 2] = [
    ["gpukern --help", "quiet verbose color timeout max-run validation loader cache-dir in-process no-robust-access"],
    ["gpukern compare --help", "process-noise allow force"],
];

/// Returns the command line with the help that it prints: options that commands share are described on one page only.
pub(super) fn command_line() -> Command {
    documented().mut_subcommands(|mut command| {
        let own_page = format!("gpukern {} --help", command.get_name());
        let mut references = vec![];
        for [page, options] in SHARED.into_iter().filter(|[page, _]| *page != own_page) {
            let mut shared = vec![];
            command = command.mut_args(|arg| {
                let name = arg.get_long().unwrap_or_default();
                // An option that `-h` shows has a meaning of its own in this command.
                let is_shared = arg.is_hide_short_help_set() && options.split(' ').any(|option| option == name);
                if arg.is_hide_set() || !is_shared {
                    return arg;
                }
                shared.push(format!("--{name}"));
                arg.hide_long_help(true)
            });
            if !shared.is_empty() {
                references.push(format!("`{page}` describes {}", shared.join(", ")));
            }
        }
        let examples = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        command.after_long_help(format!("Other options: {}.\n\n{examples}", references.join("; ")))
    })
}

/// Returns a command line that prints its help in full: each option with all of its text, without empty lines between options.
pub(super) fn in_full(command: Command) -> Command {
    let after = command.get_after_long_help().or(command.get_after_help()).cloned();
    let about = command.get_long_about().or(command.get_about()).cloned();
    let command = command.mut_args(|arg| {
        let text = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        // A paragraph ends without a full stop if it is the summary.
        let paragraphs: Vec<_> = text.split("\n\n").map(|paragraph| paragraph.trim_end_matches('.')).collect();
        let end = if paragraphs.len() > 1 && !text.ends_with(']') { "." } else { "" };
        let is_hidden = arg.is_hide_long_help_set();
        let arg = if arg.get_id() == "help" { arg.action(ArgAction::HelpShort) } else { arg };
        arg.hide_short_help(is_hidden).help(paragraphs.join(". ") + end)
    });
    // The list of commands shows the short description of each.
    let command = command.before_help(about.unwrap_or_default()).after_help(after.unwrap_or_default());
    command.help_template("{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}").mut_subcommands(in_full)
}

/// Returns the command line with all options of each command, as manual pages and completions have them. Only commands that
/// use Vulkan show its options.
pub(super) fn documented() -> Command {
    let vulkan = VulkanOptions::options("");
    let is_vulkan = |arg: &Arg| vulkan.iter().any(|entry| entry.id() == arg.get_id().as_str());
    let root = Cli::command().arg(help()).mut_args(|arg| {
        if is_vulkan(&arg) {
            arg.help_heading("Options of commands that use Vulkan").hide_short_help(true)
        } else {
            arg
        }
    });
    let global: Vec<Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    root.mut_subcommands(|command| {
        let uses_vulkan = USE_VULKAN.contains(&command.get_name());
        // Options about cases are hidden where there are none.
        let of_cases = match command.get_name() {
            "devices" => &["max-run"][..],
            "bench" | "run" | "peak" | "tune" | "verify" | "sanitize" | "ab" => &[],
            _ => &["verbose"],
        };
        let is_sanitize = command.get_name() == "sanitize";
        let copies = global.iter().map(|arg| {
            if is_sanitize && arg.get_id() == "timeout" {
                let text = "Give up on a case after this time";
                return arg.clone().global(false).help_heading(None).default_value("60s").help(text).long_help(text);
            }
            let is_hidden = is_vulkan(arg) && !uses_vulkan || of_cases.contains(&arg.get_id().as_str());
            arg.clone().hide(is_hidden).global(false).help_heading(None)
        });
        arrange(command.args(copies).arg(help()))
    })
}

/// Whether `gpukern help SUBJECT` asks for a command's options; without a subject, for the program's.
pub(super) fn is_command(subject: &[String]) -> bool {
    match subject {
        [] => true,
        [name] => Cli::command().find_subcommand(name).is_some(),
        _ => false,
    }
}

fn help() -> Arg {
    let text = "Print help (-h: short, --help: in full)";
    Arg::new("help").long("help").short('h').action(ArgAction::Help).help(text)
}

/// Puts the options of a command in order under their headings.
fn arrange(mut command: Command) -> Command {
    let name = command.get_name().to_string();
    let mut position = 0;
    for Heading { title, usual, more } in HEADINGS {
        let entries = usual
            .split_whitespace()
            .map(|entry| (entry, true))
            .chain(more.split_whitespace().map(|entry| (entry, false)));
        for (entry, is_usual) in entries {
            let (command_name, option) = entry.split_once('/').unwrap_or((&name, entry));
            if command_name != name {
                continue;
            }
            let lacks_heading = |arg: &&Arg| arg.get_long() == Some(option) && arg.get_help_heading().is_none();
            let Some(arg) = command.get_arguments().find(lacks_heading) else { continue };
            let id = arg.get_id().clone();
            position += 1;
            let is_usual = is_usual || option == "help";
            // clap moves a changed argument to the end, so headings appear in the order of the table.
            command = command.mut_arg(id, |arg| {
                let arg = if entry == "devices/verbose" { arg.help(DEVICES_VERBOSE) } else { arg };
                arg.next_line_help(false).help_heading(title).hide_short_help(!is_usual).display_order(position)
            });
        }
    }
    command.after_help(format!("`gpukern {name} --help` has more options, and examples."))
}

/// Returns the value of `--color` in unparsed words: help and mistakes of the command line are colored by it too.
pub(super) fn color(words: &[OsString]) -> ColorChoice {
    let mut words = words.iter().filter_map(|word| word.to_str());
    let mut last = None;
    while let Some(word) = words.next() {
        match word.strip_prefix("--color") {
            Some("") => last = words.next(),
            Some(value) => last = value.strip_prefix('=').or(last),
            None => {}
        }
    }
    match last {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commands as help shows them, in 80 columns.
    fn commands() -> Vec<Command> {
        let mut root = command_line().term_width(80);
        root.build();
        root.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect()
    }

    #[test]
    fn every_option_has_its_heading_and_headings_have_one_order() {
        for command in commands() {
            let options = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
            let headings: Vec<_> = options
                .map(|arg| {
                    let heading =
                        arg.get_help_heading().and_then(|title| HEADINGS.iter().position(|known| known.title == title));
                    heading.unwrap_or_else(|| panic!("{} {arg}: add it to HEADINGS", command.get_name()))
                })
                .collect();
            assert!(headings.is_sorted(), "{}: {headings:?}", command.get_name());
        }
        for option in
            HEADINGS.iter().flat_map(|heading| heading.usual.split_whitespace().chain(heading.more.split_whitespace()))
        {
            let option = option.rsplit('/').next();
            let exists = commands().iter().any(|command| command.get_arguments().any(|arg| arg.get_long() == option));
            assert!(exists, "{option:?} is an option of no command");
        }
    }

    #[test]
    fn short_help_is_one_screen_and_long_help_has_examples() {
        for mut command in commands().into_iter().map(|command| command.term_width(80)) {
            let name = command.get_name().to_string();
            let short = command.render_help().to_string();
            let widest = short.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(short.lines().count() <= 40 && widest <= 80, "{} lines\n{short}", short.lines().count());
            let options = short.lines().filter(|line| line.trim_start().starts_with('-'));
            assert!(options.clone().count() > 0, "{short}");
            for option in options {
                assert!(option.trim_start().contains("  "), "{name}: '{option}' has its text in the next line");
            }
            let long = command.render_long_help().to_string();
            let (_, examples) = long.split_once("Examples:\n").unwrap_or_else(|| panic!("{name}: {long}"));
            for line in examples.lines() {
                assert!(line.starts_with("  "), "{name}: '{line}' belongs to the example above, or {long}");
                let is_one =
                    line.starts_with("  gpukern ") || line.starts_with("  # ") || line.starts_with("  GPUKERN_");
                assert!(is_one, "{name}: an example is one line of 80 columns at most: {examples}");
            }
            let output = short.split("\n\n").find(|part| part.starts_with("Output:")).expect("a heading");
            assert!(output.lines().last().is_some_and(|line| line.starts_with("  -h, --help ")), "{name}: {output}");
            assert!(!short.contains("Examples:"), "{name}: {short}");
        }
        let mut root = command_line().term_width(80);
        let short = root.render_help().to_string();
        assert!((24..=40).contains(&short.lines().count()), "{short}");
        for mut command in commands().into_iter().map(in_full) {
            let full = command.render_help().to_string();
            assert!(
                full.lines().count() <= 150 && full.contains("Examples:\n"),
                "{} lines\n{full}",
                full.lines().count()
            );
        }
        let mut bench = commands().into_iter().find(|command| command.get_name() == "bench").expect("it is a command");
        let lines = bench.render_help().to_string().lines().count();
        assert!((24..=40).contains(&lines), "{lines}");
    }

    #[test]
    fn every_global_option_is_understood_before_and_behind_a_command() {
        use super::super::cli::ColorWhen;
        for line in ["-v --color never list", "list --color=never -v"] {
            let cli = Cli::parsed_line(line).expect(line);
            assert!(cli.verbose && !cli.quiet && cli.color == Some(ColorWhen::Never), "{line}");
        }
        let choice = |line: &str| color(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(choice("gpukern bench --color always -h"), ColorChoice::Always);
        assert_eq!(choice("gpukern --color=always bench --color=never"), ColorChoice::Never);
        assert_eq!(choice("gpukern bench --colors never"), ColorChoice::Auto);
    }
}
