//! Suggestions by meaning: the equivalents of other benchmark tools' options and commands, and the command for a kernel.

use crate::basis::error::{meant, unknown};
use crate::basis::printable::shell_word;
use crate::{CATALOGUE, Format, brief};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, ArgMatches, Command};
use std::ffi::OsString;
use std::path::Path;

/// Words of other tools that share an equivalent: a line of `suggest.txt`.
struct ForeignWords {
    names: &'static str,
    /// Commands for which the tip holds, or [`COMMAND`]; empty for all.
    commands: &'static str,
    tip: &'static str,
}

/// Mark of words in the place of a command.
const COMMAND: &str = "COMMAND";

/// Returns the lines of `suggest.txt`.
fn foreign_words() -> impl Iterator<Item = ForeignWords> {
    let lines = include_str!("suggest.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut parts = line.splitn(3, '|').map(str::trim);
        Some(ForeignWords { names: parts.next()?, commands: parts.next()?, tip: parts.next()? })
    })
}

/// Commands that write JSON with --json.
const WRITE_JSON: &str = "bench run ab peak compare";

/// Options of other tools whose value is an output format.
const FORMATTED: &str = "format output-format benchmark-format benchmark-out-format style to";

/// Says in a sentence, as all messages of gpukern are, what clap refuses: the word, the known word that was probably meant,
/// by meaning or else by spelling, and where all are listed. `command` is the subcommand that was typed, of `root`.
pub(super) fn sentence(error: &Error, root: &Command, command: Option<&str>, words: &[OsString]) -> String {
    let texts = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => vec![],
    };
    let text = |kind| texts(kind).first().cloned().unwrap_or_default();
    let mut root = root.clone();
    root.build();
    let named = command.and_then(|name| root.find_subcommand(name));
    let typed = named.map_or_else(|| "gpukern".into(), |command| format!("gpukern {}", command.get_name()));
    let usage = named.unwrap_or(&root).clone().render_usage().to_string().replace("Usage: ", "");
    // One form is enough to see what is missing.
    let usage = usage.lines().next().unwrap_or_default();
    // clap names an option with its value: `--table <FORM>`.
    let word = text(ContextKind::InvalidArg);
    let word = word.split(" <").next().unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand);
            let names: Vec<_> = root.get_subcommands().map(Command::get_name).collect();
            let tip = command_tip(&word).map(offered).or_else(|| meant(&word, &names)).unwrap_or_default();
            format!("unknown command '{}'; {}", brief(&word), and_list(&tip, "gpukern --help"))
        }
        ErrorKind::UnknownArgument if word.starts_with('-') && word.parse::<f64>().is_ok() => {
            format!("'{}' is a negative number, and this option takes none; `{typed} --help` explains it", brief(word))
        }
        ErrorKind::UnknownArgument if word.starts_with('-') => {
            let tip = unknown_option(word, words, command, named.unwrap_or(&root), &root);
            let tip = and_list(&tip.unwrap_or_default(), &format!("{typed} --help"));
            format!("unknown option '{}'; {tip}", brief(word))
        }
        ErrorKind::UnknownArgument if CATALOGUE.algorithms.iter().any(|algorithm| algorithm.variant(word).is_ok()) => {
            format!("'{word}' is a variant; name it after -V, several with commas between them")
        }
        ErrorKind::UnknownArgument => format!("unexpected argument '{}'; usage: {usage}", brief(word)),
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).is_empty() => {
            format!("{word} needs a value; `{typed} --help` describes it")
        }
        ErrorKind::InvalidValue => {
            let known = texts(ContextKind::ValidValue);
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            unknown("value", &text(ContextKind::InvalidValue), &format!(" for '{word}'"), &known)
        }
        ErrorKind::MissingRequiredArgument => {
            format!("{} is missing; usage: {usage}", texts(ContextKind::InvalidArg).join(" and "))
        }
        ErrorKind::ArgumentConflict => conflict(word, &texts(ContextKind::PriorArg)),
        ErrorKind::ValueValidation if !word.is_empty() => {
            format!("malformed value '{}' for '{word}'; {}", brief(&text(ContextKind::InvalidValue)), reason(error))
        }
        // Messages of gpukern's own, and rare mistakes.
        _ => {
            let text = error.to_string();
            let text = text.split("\n\n").next().unwrap_or_default();
            text.trim_start_matches("error: ").trim_end().into()
        }
    }
}

/// Says why an option does not go with others, or with itself.
fn conflict(word: &str, others: &[String]) -> String {
    let given = others.iter().map(String::as_str).chain([word]);
    let is_given = |option: &str| given.clone().any(|given| given.starts_with(option));
    if others.iter().any(|other| other.starts_with(word)) {
        format!("{word} is given twice; give it once")
    } else if is_given("--ab") && is_given("--processes") {
        "--ab alternates two kernels in one process; leave --processes out, or measure each with it and use `gpukern compare`"
            .into()
    } else {
        format!("{word} does not go with {}; leave one out", others.join(" and "))
    }
}

/// Returns the reason for which a value is refused.
fn reason(error: &Error) -> String {
    let reason = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    in_range(&reason).unwrap_or(reason)
}

/// Says which whole numbers are allowed, in place of the message about one that is not.
fn in_range(message: &str) -> Option<String> {
    if message == "invalid digit found in string" {
        return Some("write a whole number".into());
    }
    let (least, most) = message.split_once(" is not in ")?.1.split_once("..")?;
    let most = most.trim_start_matches('=');
    // A limit of the type is none that matters.
    let is_limit = [u64::MAX.to_string(), u32::MAX.to_string()].iter().any(|limit| limit == most);
    Some(if is_limit { format!("write {least} or more") } else { format!("write a number from {least} to {most}") })
}

/// Offers code that stands alone: ``try `gpukern bench` ``; other tips are sentences.
fn offered(tip: String) -> String {
    let is_code = tip.split('`').step_by(2).all(|words| matches!(words.trim(), "" | "or" | ","));
    if is_code { format!("try {tip}") } else { tip }
}

/// Returns what was probably meant by an option that the command `named` lacks: its own of one letter, another tool's, another
/// command's, or one of its own with a typo.
fn unknown_option(
    word: &str,
    words: &[OsString],
    command: Option<&str>,
    named: &Command,
    root: &Command,
) -> Option<String> {
    // Dashes would make any two options similar.
    let name = word.trim_start_matches('-');
    if let [letter] = name.chars().collect::<Vec<_>>()[..]
        && named.get_arguments().any(|own| own.get_short() == Some(letter))
    {
        return Some(format!("write -{letter}"));
    }
    let options = named.get_arguments().filter(|option| !option.is_hide_set());
    // Nobody who means something else should switch off every refusal.
    let names: Vec<_> = options.filter_map(Arg::get_long).filter(|name| *name != "force").collect();
    let spelt = || Some(meant(name, &names)?.replacen('\'', "'--", 1));
    option_tip(command, word, &value(word, words)).map(offered).or_else(|| owners(name, root)).or_else(spelt)
}

/// Ends a tip with the command that lists what is known; a tip by meaning stands alone.
fn and_list(tip: &str, command: &str) -> String {
    match tip {
        "" => format!("`{command}` lists all"),
        tip if tip.ends_with('?') => format!("{tip} `{command}` lists all"),
        tip => tip.into(),
    }
}

/// Returns the value of an option in the words of a command line.
fn value(option: &str, words: &[OsString]) -> String {
    let mut words = words.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if word == option {
            return words.next().filter(|value| !value.starts_with("--")).unwrap_or_default().into_owned();
        }
        if let Some(value) = word.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')) {
            return value.into();
        }
    }
    String::new()
}

/// Names the commands that have an option of this name.
fn owners(option: &str, root: &Command) -> Option<String> {
    let has = |command: &&Command| {
        !command.is_hide_set()
            && command.get_arguments().any(|own| own.get_long() == Some(option) && !own.is_hide_set())
    };
    let names: Vec<_> = root.get_subcommands().filter(has).map(|own| format!("`gpukern {}`", own.get_name())).collect();
    (!names.is_empty()).then(|| format!("it is an option of {}", names.join(", ")))
}

/// Returns whether `word` is in a list separated by spaces.
fn is_among(word: &str, words: &str) -> bool {
    words.split(' ').any(|listed| listed == word)
}

/// Returns the equivalent of an option of another tool.
fn option_tip(command: Option<&str>, option: &str, value: &str) -> Option<String> {
    let name = option.trim_start_matches('-').replace('_', "-");
    let measures = command.is_none_or(|command| ["bench", "run"].contains(&command));
    let asks_for_format = is_among(&name, FORMATTED) && !value.is_empty();
    let exported = format_of(if asks_for_format { value } else { name.trim_start_matches("export-") });
    match exported {
        Some("json") if asks_for_format && command.is_none_or(|command| is_among(command, WRITE_JSON)) => {
            return Some("`--json -` prints JSON, `--json run.json` writes it to a file".into());
        }
        Some(format) if measures && format != "json" => {
            return Some(format!(
                "`--json run.json` writes the record, and `gpukern export run.json --to {format}` converts it"
            ));
        }
        _ => {}
    }
    for ForeignWords { names, commands, tip } in foreign_words() {
        let applies = commands.is_empty() || command.is_none_or(|command| is_among(command, commands));
        if commands != COMMAND && applies && is_among(&name, names) {
            return Some(tip.to_string());
        }
    }
    None
}

/// Returns the equivalent of a format name of another tool.
fn format_of(word: &str) -> Option<&'static str> {
    match word.to_lowercase().as_str() {
        "json" | "jsonbin" => Some("json"),
        "md" | "asciidoc" | "orgmode" => Some("markdown"),
        "xml" | "xml-file" => Some("junit"),
        "csv-file" | "tsv" => Some("csv"),
        "ndjson" => Some("jsonl"),
        word => Format::ALL.map(Format::name).into_iter().find(|name| *name == word),
    }
}

/// Returns the command that an unknown command word stands for.
fn command_tip(word: &str) -> Option<String> {
    if CATALOGUE.algorithms.iter().any(|algorithm| algorithm.name == word && !algorithm.finds_limits()) {
        return Some(format!("`gpukern bench {word}` measures it"));
    }
    let file = shell_word(word);
    match extension(word) {
        "json" => return Some(format!("`gpukern report {file} --output report.html` draws a record")),
        "toml" => {
            return Some(format!(
                "`gpukern run {file}` measures a kernel, `gpukern bench --config {file}` a configuration"
            ));
        }
        kernel if crate::user::ENDINGS.contains(&kernel) => return Some(format!("`gpukern run {file}` measures it")),
        _ => {}
    }
    let word = word.replace('_', "-");
    let words = foreign_words().find(|words| words.commands == COMMAND && is_among(&word, words.names))?;
    Some(words.tip.to_string())
}

/// Returns the file name extension of a word, or an empty text.
fn extension(word: &str) -> &str {
    Path::new(word).extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

/// Returns the message for a command line that names the user's kernels where a command takes built-in algorithms.
pub(super) fn kernels_elsewhere(matches: &ArgMatches) -> Option<String> {
    let (command, matches) = matches.subcommand()?;
    if command == "ab" && ["a_driver", "b_driver", "a_env", "b_env"].iter().any(|option| matches.contains_id(option)) {
        return None;
    }
    let option = match command {
        "ab" => " --ab",
        "tune" => " --tune",
        "bench" | "verify" => "",
        _ => return None,
    };
    // `ab` takes a description for two drivers.
    let is_kernel = |word: &&String| {
        crate::user::ENDINGS.contains(&extension(word)) || command != "ab" && extension(word) == "toml"
    };
    let kernel = matches.get_many::<String>("algorithm").into_iter().flatten().find(is_kernel)?;
    let kernel = brief(kernel);
    let otherwise = match command {
        "ab" => ", and `gpukern ab k.toml`, for two drivers, a description",
        "verify" => ", and `verify --config` a file that lists them (`gpukern help ci`)",
        _ => "",
    };
    Some(format!(
        "'{kernel}' is not a built-in algorithm, which `{command}` takes; `gpukern run{option}` takes kernels of your own{otherwise}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::{Stop, help};
    use super::*;
    use crate::Cli;

    fn message(line: &str) -> String {
        match Cli::parsed_line(line).expect_err(line) {
            Stop::Error(error) => error.to_string(),
            Stop::Help(_) => "help".into(),
        }
    }

    #[test]
    fn words_of_other_tools_get_a_tip_by_meaning() {
        for (line, expected) in [
            ("bench matmul --format json", "`--json -` prints JSON"),
            ("bench matmul --benchmark_format=json", "`--json -` prints JSON"),
            ("bench matmul --benchmark_out=x.json", "; `--json run.json` writes"),
            ("bench matmul --format csv", "`gpukern export run.json --to csv`"),
            ("run k.comp --export-markdown t.md", "`gpukern export run.json --to markdown`"),
            ("bench matmul --export-json a.json", "; `--json run.json` writes"),
            ("bench matmul --output a.json", "; `--json run.json` writes"),
            ("bench matmul -o a.json", "; `--json run.json` writes"),
            ("bench matmul --warmup 3", "; leave it out: gpukern warms up"),
            ("bench matmul --runs 10", "`--precision 1%` and `--max-time 2s`"),
            ("bench matmul --min-time 3", "`--max-time 5s`"),
            ("bench --list", "`gpukern list` names"),
            ("bench matmul --filter tiled", "`--variant naive,tiled`"),
            ("bench matmul --benchmark_filter=x", "`--variant naive,tiled`"),
            ("bench matmul --devices 0", "`--device 0`"),
            ("bench matmul --save-baseline main", "`--compare before.json` compares a later run"),
            ("bench matmul --baseline main", "`--compare before.json`"),
            ("compare a.json b.json --noise-threshold 0.1", "`--min-effect 2%`"),
            ("run k.comp --parameter-scan x", "`--size M=64..1024`"),
            ("bench matmul --axis n=[1:3]", "`--size 64..1024`"),
            ("list --no-color", "try `--color never`"),
            ("--warmup", "gpukern warms up"),
            ("version", "try `gpukern --version`"),
            ("benchmark matmul", "try `gpukern bench`"),
            ("matmul", "`gpukern bench matmul` measures it"),
            ("k.comp", "`gpukern run k.comp` measures"),
            ("run.json", "; `gpukern report run.json"),
            ("diff a b", "try `gpukern compare"),
        ] {
            let text = message(line);
            assert!(text.contains(expected), "{line}: {text}");
            assert!(!text.contains("did you mean"), "{line}: {text}");
        }
    }

    #[test]
    fn a_mistake_is_told_in_a_sentence() {
        for (line, expected) in [
            (
                "bench matmul --jsno x",
                "unknown option '--jsno'; did you mean '--json'? `gpukern bench --help` lists all",
            ),
            ("benhc", "unknown command 'benhc'; did you mean 'bench'? `gpukern --help` lists all"),
            (
                "ab k.toml --set a=1 --a-env=A=1",
                "unknown option '--set'; it is an option of `gpukern run`, `gpukern sanitize`, `gpukern inspect`",
            ),
            ("bench matmul --zzz", "unknown option '--zzz'; `gpukern bench --help` lists all"),
            ("verify matmul --s 8", "unknown option '--s'; write -s"),
            (
                "verify matmul --cache cold",
                "unknown option '--cache'; it is an option of `gpukern run`, `gpukern bench`, `gpukern tune`, \
                 `gpukern ab`, `gpukern inspect`",
            ),
            (
                "list --size 8",
                "unknown option '--size'; it is an option of `gpukern run`, `gpukern bench`, `gpukern tune`, \
                 `gpukern verify`, `gpukern sanitize`, `gpukern ab`, `gpukern inspect`",
            ),
            ("compare a.json", "<CANDIDATE> is missing; usage: gpukern compare [OPTIONS] <BASELINE> <CANDIDATE>"),
            ("bench --table x", "unknown value 'x' for '--table'; available: compact, long, both"),
            ("bench matmul --processes x", "malformed value 'x' for '--processes'; write a whole number"),
            ("bench matmul --json", "--json needs a value; `gpukern bench --help` describes it"),
            ("list a b", "unexpected argument 'b'; usage: gpukern list [OPTIONS] [ALGORITHM]"),
            ("capture --call 0 -o d -- x", "malformed value '0' for '--call'; write 1 or more"),
            ("bench matmul --processes=-3", "malformed value '-3' for '--processes'; write a number from 1 to 1000"),
            (
                "bench matmul --processes -3",
                "'-3' is a negative number, and this option takes none; `gpukern bench --help` explains it",
            ),
        ] {
            assert_eq!(message(line), expected, "{line}");
        }
    }

    #[test]
    fn every_tip_names_options_and_commands_that_there_are() {
        let root = help::documented();
        let has = |command: &str, option: &str| {
            root.find_subcommand(command).expect(command).get_arguments().any(|arg| arg.get_long() == Some(option))
        };
        let global = |option: &str| ["version", "help"].contains(&option) || has("list", option);
        for ForeignWords { commands, tip, .. } in foreign_words() {
            let commands = if commands == COMMAND { "" } else { commands };
            for quoted in tip.split('`').skip(1).step_by(2) {
                let command = quoted.strip_prefix("gpukern ").and_then(|rest| rest.split(' ').next());
                let command = command.filter(|word| !word.starts_with('-'));
                assert!(command.is_none_or(|command| root.find_subcommand(command).is_some()), "{tip}");
                let commands: Vec<_> = command.unwrap_or(commands).split(' ').collect();
                for option in quoted.split(' ').filter_map(|word| word.strip_prefix("--")) {
                    assert!(global(option) || commands.iter().all(|command| has(command, option)), "{tip}");
                }
            }
        }
        // An option of a command needs no tip for that command.
        for ForeignWords { names, commands, .. } in foreign_words().filter(|words| words.commands != COMMAND) {
            for command in commands.split(' ').filter(|command| !command.is_empty()) {
                let taken = names.split(' ').find(|name| name.len() > 1 && has(command, name));
                assert_eq!(taken, None, "{command}");
            }
        }
        let is_command = |word: &str| root.find_subcommand(word).is_some();
        let mut commands = foreign_words().filter(|words| words.commands == COMMAND);
        assert!(!commands.any(|words| words.names.split(' ').any(is_command)));
        assert!(help::USE_VULKAN.iter().all(|command| is_command(command)));
    }

    #[test]
    fn users_kernels_named_for_a_command_of_built_in_algorithms_get_the_right_command() {
        for (line, expected) in [
            ("ab -s 512 a.comp b.spv", "`gpukern run --ab` takes"),
            ("-q tune k.toml --budget 5s", "`gpukern run --tune` takes"),
            ("bench k.wgsl", "'k.wgsl' is not a built-in algorithm, which `bench` takes; `gpukern run` takes kernels"),
        ] {
            assert!(message(line).contains(expected), "{line}: {}", message(line));
        }
        assert!(message("verify --output x").contains("`--json run.json` writes"), "{}", message("verify --output x"));
        for right in [
            "ab matmul -V naive --a-spirv a.spv --b-spirv=b.spv -s 512",
            "bench --config k.toml",
            "tune lu --tuned here.toml",
            "verify lu --junit x.xml",
            "verify --expect known.toml matmul",
            "run a.comp b.comp --ab",
            "list",
        ] {
            assert!(Cli::parsed_line(right).is_ok(), "{right}");
        }
    }
}
