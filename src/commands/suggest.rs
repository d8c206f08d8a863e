//! Suggestions by meaning: what the words of other benchmark tools are called here, and where a kernel belongs.

use crate::algorithms::ALGORITHMS;
use crate::basis::printable::{brief, shell_word};
use crate::export::Format;
use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, Error};
use std::ffi::OsString;
use std::path::Path;

/// Options of other tools (hyperfine, Criterion, nvbench, clpeak, Google Benchmark and the like), the commands for which
/// the answer holds, and the answer. Names are without dashes; underscores count as dashes.
const OPTIONS: &[(&str, &str, &str)] = &[
    (
        "w warmup warm-up warmups warmup-runs warm-up-time cold-warmup-runs benchmark-min-warmup-time",
        "bench run tune peak ab",
        "leave it out: gpukern warms up each case until the device's clock is steady",
    ),
    (
        "r n m M runs min-runs max-runs iterations iters repeats repetitions reps loops count rounds-count samples \
         sample-size min-samples nresamples benchmark-repetitions benchmark-enable-random-interleaving",
        "bench run",
        "`--precision 1%` and `--max-time 2s` decide how many samples a case gets; `--processes 5` repeats it in fresh \
         processes",
    ),
    (
        "min-time time duration measurement-time time-limit benchmark-min-time stopping-criterion",
        "bench run",
        "`--max-time 5s` limits the time of each case, and `--precision 0.5%` asks for more samples",
    ),
    (
        "o out output out-file outfile output-file save-json result results export-json json-file json-out benchmark-out \
         write record",
        "bench run ab peak",
        "`--json run.json` writes what was measured to a file",
    ),
    (
        "json o out output out-file outfile output-file save-json result results export-json json-file json-out write record",
        "verify",
        "`--junit verify.xml` writes the results to a file; `gpukern bench --json run.json` writes times",
    ),
    (
        "html page plot plots graph chart charts plotting-backend",
        "bench run",
        "`--json run.json` writes the record, and `gpukern report run.json --output report.html` draws it",
    ),
    (
        "l ls list list-tests list-benches list-benchmarks benchmark-list-tests list-variants list-algorithms",
        "bench verify tune ab",
        "`gpukern list` names the algorithms and their variants; `gpukern bench --dry-run` lists cases",
    ),
    ("l list list-devices device-list enumerate", "peak devices run", "`gpukern devices` lists the devices"),
    ("list-devices device-list enumerate", "bench verify tune ab", "`gpukern devices` lists the devices"),
    (
        "b f k filter filters pattern name benchmark benchmarks benchmark-filter case cases exact test tests include-only",
        "bench",
        "`--variant naive,tiled` chooses variants, and `--only ID` one case",
    ),
    ("f filter pattern case only", "verify tune", "`--variant naive,tiled` chooses variants"),
    ("f filter pattern case", "run", "`--only ID` measures one case"),
    (
        "p devices device-id device-index gpu gpus gpu-id gpu-index cpu adapter adapters platform backend card physical-device",
        "bench run peak tune verify ab devices",
        "`--device 0` chooses a device by its index, a part of its name, `gpu` or `cpu`; `gpukern devices` lists them",
    ),
    (
        "type types datatype data-type dtypes element-type fp16 fp32 fp64 f16 f32 f64 bf16 half float double compute-sp \
         compute-dp compute-hp",
        "bench verify tune ab",
        "`--dtype f32,f16` chooses element types",
    ),
    (
        "n m k N M K L P shape sizes dim dims dimensions length range a axis axes parameter parameter-scan parameter-list \
         param params problem-size size-range elements",
        "bench verify tune ab",
        "`--size 64..1024` sweeps sizes, and `--size 1000x70x130` is one M×N×K",
    ),
    (
        "shape sizes dims dimensions a axis axes parameter parameter-scan parameter-list param params problem-size L P",
        "run",
        "`--size M=64..1024` sweeps an axis of the description",
    ),
    (
        "algorithm algorithms algo problem kernel-name",
        "bench verify tune ab",
        "name it without an option: `gpukern bench matmul`",
    ),
    (
        "kernel kernels shader file input-file source spirv spv glsl",
        "bench verify tune",
        "`gpukern run kernel.comp` measures your own kernels",
    ),
    (
        "kernel kernels shader file input-file source spirv spv glsl i",
        "run",
        "name it without an option: `gpukern run kernel.comp`",
    ),
    (
        "baseline load-baseline baseline-lenient compare-with compare-to diff before",
        "bench run",
        "`--compare before.json` compares with an earlier record",
    ),
    (
        "save-baseline",
        "bench run",
        "`--json before.json` writes a record, and `--compare before.json` compares a later run with it",
    ),
    ("before old base reference", "compare", "name the two records: `gpukern compare before.json after.json`"),
    ("after new", "compare", "name the two records: `gpukern compare before.json after.json`"),
    (
        "threshold noise-threshold tolerance fail-threshold max-regression regression regression-threshold min-change",
        "compare ab bench run history",
        "`--min-effect 2%` is the smallest change that matters",
    ),
    (
        "alpha confidence confidence-level significance significance-level p-value",
        "compare ab bench run",
        "the levels are fixed, intervals at 95 %; `--min-effect 2%` is the smallest change that matters",
    ),
    ("quick fast short profile-time", "bench run", "`--max-time 200ms --precision 5%` is quick"),
    (
        "cold cold-cache prepare flush-cache flush-caches clear-cache drop-caches no-cache",
        "bench run",
        "`--cache cold` empties the caches before each run",
    ),
    (
        "i ignore-failure keep-going continue-on-error",
        "bench run verify",
        "leave it out: a case that fails does not end the run",
    ),
    (
        "check verify correctness no-check no-verify skip-verify",
        "bench",
        "leave it out: every answer is verified before it is timed; `gpukern verify` verifies alone",
    ),
    ("all every", "bench", "leave out `--variant`: every variant is measured"),
    ("all every", "verify", "leave it out: `gpukern verify` verifies everything; `--full` adds the largest sizes"),
    ("init-description template describe skeleton", "run", "`--init` prints a description to complete"),
    (
        "layers debug-layer validate validation-layers",
        "bench run verify tune ab peak devices",
        "`--validation` turns on the validation layer",
    ),
    (
        "icd driver vk-driver driver-files",
        "bench run verify tune peak devices",
        "set VK_DRIVER_FILES to the driver's manifest, or compare two drivers: `gpukern ab --a-driver a.json --b-driver b.json`",
    ),
    ("colour colours colors benchmark-color", "", "`--color always` or `--color never`"),
    ("no-color no-colors no-colour nocolor", "", "`--color never`"),
    ("s silent discard-output no-progress", "", "`--quiet`"),
    ("debug trace log log-level show-output vv", "", "`--verbose` prints each case's outcome as it finishes"),
    ("usage manual help-all long-help ?", "", "`--help`"),
    ("version", "", "`gpukern --version`"),
];

/// Options that ask for a format, whose value says which.
const FORMATTED: &str = "format output-format benchmark-format benchmark-out-format style to";

/// Words for commands, and the answer.
const COMMANDS: &[(&str, &str)] = &[
    ("version", "`gpukern --version`"),
    ("benchmark benchmarks measure time perf start go", "`gpukern bench`"),
    ("info ls list-devices gpus gpu adapters device deviceinfo enumerate vulkaninfo", "`gpukern devices`"),
    ("algorithms variants kernels benches cases show", "`gpukern list`"),
    ("test tests check validate conformance", "`gpukern verify`"),
    ("diff cmp vs judge gate", "`gpukern compare before.json after.json`"),
    ("duel versus race", "`gpukern ab`"),
    ("autotune optimize optimise search", "`gpukern tune`"),
    ("limits limit roofline roof bandwidth flops clpeak peaks", "`gpukern peak`"),
    ("plot html page chart charts draw graph view", "`gpukern report run.json --output report.html`"),
    ("convert csv markdown junit format", "`gpukern export run.json --to markdown`"),
    ("join combine", "`gpukern merge`"),
    ("trend trends steps timeline log", "`gpukern history`"),
    ("exec execute launch kernel shader compile", "`gpukern run kernel.comp`"),
    ("init new", "`gpukern run kernel.comp --init`"),
    ("settings options defaults configuration configure env", "`gpukern config`"),
    ("completion complete", "`gpukern completions`"),
    ("manual doc docs", "`gpukern man`"),
];

/// A mistake of the command line with what its words mean here, where they are known from other tools; `command` is the
/// one that they were typed for.
pub(super) fn improved(mut error: Error, command: Option<&str>, words: &[OsString]) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let tip = match (text(ContextKind::InvalidArg), text(ContextKind::InvalidSubcommand)) {
        (_, Some(word)) => of_command(&word),
        (Some(option), _) if option.starts_with('-') => of_option(command, &option, &value(&option, words)),
        _ if command == Some("report") && lacks_output(&error) => {
            Some("`--output report.html` writes the page to a file, `--output -` to standard output".into())
        }
        _ => None,
    };
    // Nothing here takes words that begin with dashes: no `-- --word`.
    error.remove(ContextKind::Suggested);
    let Some(tip) = tip else { return error };
    // What is spelt alike is not meant, and the usage would show it.
    for kind in
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedCommand, ContextKind::Usage]
    {
        error.remove(kind);
    }
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

fn lacks_output(error: &Error) -> bool {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|option| option.starts_with("--output")),
        _ => false,
    }
}

/// The value behind an option among the words of a command line.
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

fn is_among(word: &str, words: &str) -> bool {
    words.split(' ').any(|other| other == word)
}

/// What an option of another tool is called here.
fn of_option(command: Option<&str>, option: &str, value: &str) -> Option<String> {
    let name = option.trim_start_matches('-').replace('_', "-");
    let measures = command.is_none_or(|command| ["bench", "run"].contains(&command));
    let asks_for_format = is_among(&name, FORMATTED) && !value.is_empty();
    let exported = format_of(if asks_for_format { value } else { name.trim_start_matches("export-") });
    match exported {
        Some("json") if asks_for_format && command.is_none_or(writes_json) => {
            return Some("`--json -` prints JSON, `--json run.json` writes it to a file".into());
        }
        Some(format) if measures && format != "json" => {
            return Some(format!(
                "`--json run.json` writes the record, and `gpukern export run.json --to {format}` converts it"
            ));
        }
        _ => {}
    }
    let is_meant = |commands: &str| commands.is_empty() || command.is_none_or(|command| is_among(command, commands));
    let found = OPTIONS.iter().find(|(words, commands, _)| is_among(&name, words) && is_meant(commands));
    found.map(|(.., tip)| (*tip).to_string())
}

fn writes_json(command: &str) -> bool {
    ["bench", "run", "ab", "peak", "compare"].contains(&command)
}

/// The format that a word of another tool means.
fn format_of(word: &str) -> Option<&'static str> {
    match word.to_lowercase().as_str() {
        "json" | "jsonbin" => Some("json"),
        "md" | "asciidoc" | "orgmode" => Some("markdown"),
        "xml" | "xml-file" => Some("junit"),
        "csv-file" | "tsv" => Some("csv"),
        "ndjson" => Some("jsonl"),
        other => Format::ALL.map(Format::name).into_iter().find(|name| *name == other),
    }
}

/// What a word in the place of a command means.
fn of_command(word: &str) -> Option<String> {
    if ALGORITHMS.iter().any(|algorithm| algorithm.name == word && !algorithm.finds_limits()) {
        return Some(format!("`gpukern bench {word}` measures it"));
    }
    let file = shell_word(word);
    match ending(word) {
        "json" => return Some(format!("`gpukern report {file} --output report.html` draws a record")),
        "toml" => {
            return Some(format!(
                "`gpukern run {file}` measures a kernel, `gpukern bench --config {file}` a configuration"
            ));
        }
        kernel if crate::run::ENDINGS.contains(&kernel) => return Some(format!("`gpukern run {file}` measures it")),
        _ => {}
    }
    let word = word.replace('_', "-");
    COMMANDS.iter().find(|(words, _)| is_among(&word, words)).map(|(_, tip)| (*tip).to_string())
}

fn ending(word: &str) -> &str {
    Path::new(word).extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

/// What to say of a command line with kernels of the user's where a command takes algorithms of gpukern; `None` of any other.
/// A command that takes one has `refused` the second.
pub(super) fn kernels_elsewhere(matches: &ArgMatches, refused: Option<&ContextValue>) -> Option<String> {
    let (command, matches) = matches.subcommand()?;
    let (more, does) = match command {
        "ab" => (" --ab", "says which of two is faster"),
        "tune" => (" --tune", "finds the best of the lists in its [spec]"),
        "bench" | "verify" => ("", "verifies and measures it"),
        _ => return None,
    };
    let is_kernel = |word: &&String| crate::run::ENDINGS.contains(&ending(word)) || ending(word) == "toml";
    let refused = match refused {
        Some(ContextValue::String(word)) if !word.starts_with('-') => Some(word),
        _ => None,
    };
    let named = matches.get_many::<String>("algorithm").into_iter().flatten().filter(is_kernel);
    let mut kernels: Vec<_> = named.collect();
    let first = *kernels.first()?;
    kernels.extend(refused.filter(is_kernel));
    let configured = if ending(first) == "toml" && command == "bench" {
        format!("; a configuration is named with --config={}", brief(first))
    } else {
        String::new()
    };
    let typed: Vec<_> = kernels.iter().map(|kernel| shell_word(kernel)).collect();
    Some(format!(
        "'{}' is not a built-in algorithm, which `{command}` takes: `gpukern run {}{more}` {does}{configured}",
        brief(first),
        typed.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::super::cli::Cli;
    use super::super::help;
    use super::*;

    /// The answer to a command line that is a mistake.
    fn answer(line: &str) -> String {
        let words: Vec<_> = format!("gpukern {line}").split(' ').map(OsString::from).collect();
        Cli::parsed(&words, &crate::commands::cli::Variables::new()).expect_err(line).to_string()
    }

    #[test]
    fn words_of_other_tools_are_answered_by_their_meaning() {
        for (line, expected) in [
            ("bench matmul --format json", "tip: `--json -` prints JSON"),
            ("bench matmul --benchmark_format=json", "tip: `--json -` prints JSON"),
            ("bench matmul --benchmark_out=x.json", "tip: `--json run.json` writes"),
            ("bench matmul --format csv", "`gpukern export run.json --to csv`"),
            ("run k.comp --export-markdown t.md", "`gpukern export run.json --to markdown`"),
            ("bench matmul --export-json a.json", "tip: `--json run.json` writes"),
            ("bench matmul --output a.json", "tip: `--json run.json` writes"),
            ("bench matmul -o a.json", "tip: `--json run.json` writes"),
            ("bench matmul --warmup 3", "tip: leave it out: gpukern warms up"),
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
            ("list --no-color", "tip: `--color never`"),
            ("--warmup", "gpukern warms up"),
            ("version", "tip: `gpukern --version`"),
            ("benchmark matmul", "tip: `gpukern bench`"),
            ("matmul", "tip: `gpukern bench matmul`"),
            ("k.comp", "tip: `gpukern run k.comp`"),
            ("run.json", "tip: `gpukern report run.json"),
            ("diff a b", "tip: `gpukern compare"),
            ("report run.json", "--output <PATH|->\n\n  tip: `--output report.html` writes"),
        ] {
            let said = answer(line);
            assert!(said.contains(expected), "{line}: {said}");
            assert!(said.matches("tip:").count() == 1 && !said.contains("similar"), "{line}: {said}");
        }
        // What is only misspelt, clap answers.
        assert!(answer("bench matmul --jsno x").contains("a similar argument exists: '--json'"));
        assert!(answer("benhc").contains("a similar subcommand exists: 'bench'"));
        assert!(!answer("bench matmul --zzz").contains("tip"));
    }

    #[test]
    fn every_tip_names_options_and_commands_that_there_are() {
        let root = help::documented();
        let has = |command: &str, option: &str| {
            let own = root.find_subcommand(command).unwrap_or_else(|| panic!("no command {command}"));
            own.get_arguments().any(|arg| arg.get_long() == Some(option))
        };
        let global = |option: &str| ["version", "help"].contains(&option) || has("list", option);
        let options = OPTIONS.iter().map(|(_, commands, tip)| (*commands, *tip));
        for (commands, tip) in options.chain(COMMANDS.iter().map(|(_, tip)| ("", *tip))) {
            for quoted in tip.split('`').skip(1).step_by(2) {
                let of = quoted.strip_prefix("gpukern ").and_then(|rest| rest.split(' ').next());
                let of = of.filter(|of| !of.starts_with('-'));
                assert!(of.is_none_or(|of| root.find_subcommand(of).is_some()), "{tip}");
                for option in quoted.split(' ').filter_map(|word| word.strip_prefix("--")) {
                    let all = of.map_or_else(|| commands.split(' ').collect(), |of| vec![of]);
                    assert!(global(option) || all.iter().all(|command| has(command, option)), "{commands}: {tip}");
                }
            }
        }
        // A word that is an option of the command is no word of another tool.
        let taken = OPTIONS.iter().flat_map(|(words, commands, _)| {
            let commands = commands.split(' ').filter(|command| !command.is_empty());
            let long = move || words.split(' ').filter(|word| word.len() > 1);
            commands.flat_map(move |command| long().map(move |word| (command, word)))
        });
        let taken: Vec<_> = taken.filter(|(command, word)| has(command, word)).collect();
        assert!(taken.is_empty(), "{taken:?}");
        let is_command = |word: &str| root.find_subcommand(word).is_some();
        assert!(!COMMANDS.iter().flat_map(|(words, _)| words.split(' ')).any(is_command));
        assert!(help::USE_VULKAN.iter().all(|command| is_command(command)));
    }

    #[test]
    fn a_kernel_of_ones_own_behind_a_command_for_ours_is_told_the_right_one() {
        let parsed = |line: &str| {
            Cli::parsed(
                &format!("gpukern {line}").split(' ').map(OsString::from).collect::<Vec<_>>(),
                &crate::commands::cli::Variables::new(),
            )
        };
        let of = |line: &str| parsed(line).expect_err("a mistake").to_string();
        assert!(of("ab a.comp b.comp").contains("`gpukern run a.comp b.comp --ab` says which of two is faster"));
        assert!(of("ab -s 512 a.comp b.spv").contains("`gpukern run a.comp b.spv --ab`"));
        assert!(of("-q tune k.toml --budget 5s").contains("`gpukern run k.toml --tune` finds"));
        assert!(of("bench k.wgsl").contains("`gpukern run k.wgsl` verifies and measures it\n"));
        assert!(of("bench sweep.toml").contains("; a configuration is named with --config=sweep.toml\n"));
        assert!(of("verify --json x").contains("`--junit verify.xml` writes"), "{}", of("verify --json x"));
        for right in [
            "ab matmul -V naive --a-spirv a.spv --b-spirv=b.spv -s 512",
            "bench --config k.toml",
            "tune lu --tuned here.toml",
            "verify lu --junit x.xml",
            "verify --expect known.toml matmul",
            "run a.comp b.comp --ab",
            "list",
        ] {
            assert!(parsed(right).is_ok(), "{right}");
        }
    }
}
