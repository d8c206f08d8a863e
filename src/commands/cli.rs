//! The command line. The comments below are its help: the first paragraph is what `-h` shows, `--help` has all of it.

#![allow(rustdoc::broken_intra_doc_links, clippy::doc_markdown, reason = "clap shows these texts as they are")]

use super::old_options::OldOptions;
use super::options::Typed;
use super::sources::SOURCES;
use super::{Stop, compare_commits, help, suggest, topics};
use crate::basis::alike::distinct;
use crate::basis::command_line;
use crate::basis::messages::output_width;
use crate::basis::units::Bytes;
use crate::compare::{REFUSED, gate};
use crate::plan::options::SamplingArgs;
use crate::plan::request::KernelFiles;
use crate::record::figure::LongColumn;
use crate::report::long;
use crate::{AxisValues, Error, FieldOptions, Format, Record, Request, Selection, VulkanOptions};
use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Check and benchmark Vulkan compute kernels: which is fastest, and is it right?
#[derive(Debug, Parser)]
#[command(
    name = "gpukern",
    version,
    long_version = env!("GPUKERN_LONG_VERSION"),
    disable_help_flag = true,
    disable_help_subcommand = true,
    after_help = "Start with:\n  \
        gpukern bench matmul                 which variant is fastest\n  \
        gpukern run k.comp --init > k.toml   describe your own kernel\n  \
        gpukern run k.toml                   verify and time it\n\n\
        `gpukern COMMAND -h` lists options; `gpukern help topics` lists the manual.",
    after_long_help = "Examples:\n  \
        gpukern devices                               what is here and what it can do\n  \
        gpukern bench matmul --variant subgroup       one variant at the default sizes\n  \
        gpukern bench matmul -s 64..1024 -t f32,f16   every variant, two element types\n  \
        gpukern bench matmul -s 1000x70x130 --json -  one odd size, JSON to stdout\n  \
        gpukern run k.comp --init > k.toml            describe your own kernel\n  \
        gpukern run k.toml                            verify it, then time it\n  \
        gpukern verify                                is every kernel right here?\n  \
        gpukern sanitize k.toml                       races and other hidden faults\n  \
        gpukern compare before.json after.json        what got slower, beyond noise\n  \
        gpukern compare-commits main                  slower or wrong in this branch?\n  \
        gpukern ab matmul -V tiled --against local    which of two variants is faster\n  \
        gpukern export run.json --to markdown         a table for a pull request\n  \
        gpukern report run.json -o report.html        charts in one HTML file\n  \
        gpukern peak                                  the limits of this device\n  \
        gpukern tune matmul                           find and save the best tiles\n  \
        gpukern help topics                           how to do these things, by task\n\n\
        Exit codes: 0 success · 1 a case is wrong, or slower than its baseline · 2 usage error · 3 the device or the \
        system failed · 4 a comparison is undecided · 130 interrupted (what was measured is kept)"
)]
pub struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,

    /// Options of Vulkan: validation, loader, cache, time limits.
    #[command(flatten)]
    pub vulkan: Typed<VulkanOptions>,

    /// Hide progress; print only results, notes and errors
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print each case's outcome as it finishes
    #[arg(long, short, global = true)]
    pub verbose: bool,

    /// Color the output: auto, always or never
    ///
    /// `auto`, the default, colors terminal output unless NO_COLOR is set. JSON, files and formats for other
    /// tools never have colors.
    #[arg(long, global = true, value_name = "WHEN", hide_possible_values = true)]
    pub color: Option<ColorWhen>,
}

/// When output has colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless the environment says otherwise.
    Auto,
    /// Wherever text for a person goes.
    Always,
    /// Nowhere.
    Never,
}

impl Cli {
    /// Parses a command line; options that it does not state take the values of their variables. A mistake gets a better
    /// suggestion than clap's, if there is one.
    pub(super) fn parsed(words: &[OsString], variables: &Variables) -> Result<Self, Stop> {
        // clap itself would read COLUMNS of this process, not of the host.
        let columns = variables.get(OsStr::new("COLUMNS")).and_then(|columns| columns.to_str()?.trim().parse().ok());
        let mut documented = help::command_line().term_width(output_width(columns).min(topics::MAX_WIDTH));
        let asks_for_all = |word: &OsString| word == "--help" || word == "help";
        if words.iter().take_while(|word| *word != "--").any(asks_for_all) {
            documented = help::in_full(documented);
        }
        let command = with_variables(documented.clone(), variables);
        let matches = command.clone().try_get_matches_from(words);
        let despite_mistakes = command.clone().ignore_errors(true).try_get_matches_from(words).ok();
        let message = despite_mistakes.as_ref().and_then(suggest::kernels_elsewhere);
        if let Some(message) = message {
            return Err(Error::Usage(message).into());
        }
        let cli = matches.and_then(|matches| {
            let mut cli = Self::from_arg_matches(&matches)?;
            if let Command::Config(args) = &mut cli.command
                && let Some(command) = documented.find_subcommand("config")
                && let Some(matches) = matches.subcommand_matches("config")
            {
                args.stated = stated_options(command, matches, variables);
            }
            Ok(cli)
        });
        let name = despite_mistakes.as_ref().and_then(ArgMatches::subcommand_name);
        cli.map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingSubcommand => Stop::Help(Box::new(error)),
            _ => Error::Usage(suggest::sentence(&error, &command, name, words)).into(),
        })
    }
}

#[cfg(test)]
impl Cli {
    /// Parses a command line without variables, of words between spaces, without the program's name.
    pub(super) fn parsed_line(line: &str) -> Result<Self, Stop> {
        let words: Vec<_> = format!("gpukern {line}").split(' ').map(OsString::from).collect();
        Self::parsed(&words, &Variables::new())
    }
}

/// Environment variables by name.
pub(super) type Variables = BTreeMap<OsString, OsString>;

/// Makes the value of each option's variable its default. clap itself would read the environment of this process, not that of
/// the host.
fn with_variables(command: clap::Command, variables: &Variables) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_env().map(|name| variables.get(name).cloned()) {
        None => arg,
        Some(None) => arg.env(Resettable::Reset),
        Some(Some(value)) => {
            let value: &'static OsString = Box::leak(Box::new(value));
            arg.env(Resettable::Reset).default_value(value.as_os_str()).hide_default_value(true)
        }
    });
    command.mut_subcommands(|command| with_variables(command, variables))
}

/// Returns the options that the command line or a variable states.
fn stated_options(command: &clap::Command, matches: &ArgMatches, variables: &Variables) -> Vec<StatedOption> {
    let mut stated = vec![];
    for arg in command.get_arguments() {
        let (id, Some(name)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
        let from = match (matches.value_source(id), arg.get_env()) {
            (Some(ValueSource::CommandLine), _) => "command line".to_string(),
            (Some(ValueSource::DefaultValue), Some(variable)) if variables.contains_key(variable) => {
                variable.to_string_lossy().into_owned()
            }
            _ => continue,
        };
        let values: Vec<_> = matches.get_raw(id).into_iter().flatten().map(OsStr::to_string_lossy).collect();
        stated.push(StatedOption { name: name.into(), from, value: values.join(",") });
    }
    stated
}

/// The commands. There is one of them a process: its size is nothing.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)]
pub enum Command {
    /// List Vulkan devices, their features and what runs on them
    #[command(after_long_help = "Examples:\n  \
        gpukern devices         every device, the default one marked\n  \
        gpukern devices -v      features, all limits, what each variant needs\n  \
        gpukern devices -d gpu  only GPUs\n  \
        gpukern devices --json  for a program")]
    Devices {
        /// Only these: an index, part of a name, UUID, gpu, cpu
        #[arg(long, short, value_name = "DEVICE,..", value_delimiter = ',')]
        device: Vec<String>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Verify and time your own kernels (GLSL, SPIR-V, WGSL, …)
    ///
    /// Measures them as `bench` measures built-in kernels. `gpukern help description` explains the format of a description.
    #[command(after_long_help = "Exit codes: 0 success · 1 wrong, or slower than its baseline (with --ab, \
        than its rival) · 2 usage error · 3 the device or the system failed · 4 undecided · 130 interrupted\n\n\
        Examples:\n  \
        gpukern run k.comp                         what a run still needs\n  \
        gpukern run k.comp --init > k.toml         a description to complete\n  \
        gpukern run k.toml                         verify and time it\n  \
        gpukern run k.toml --against tiled,auto    beside built-in variants\n  \
        gpukern run k.toml --tune                  the best of the lists in [spec]\n  \
        gpukern run k.toml old.comp new.comp --ab  which of two is faster\n  \
        gpukern run k.toml --watch                 a line each time you save it")]
    Run(Box<RunArgs>),
    /// List algorithms, or the variants of one in detail
    #[command(after_long_help = "Examples:\n  \
        gpukern list         every algorithm with its variants\n  \
        gpukern list lu      everything about one of them\n  \
        gpukern list --json  for a program")]
    List {
        /// Show only this algorithm, in detail
        algorithm: Option<String>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure built-in kernels; verify every answer first
    #[command(
        after_long_help = "With --compare, the exit code is that of `compare` (0 same or faster, 1 slower or wrong, \
        4 undecided) unless the measurement itself failed.\n\n\
        Examples:\n  \
        gpukern bench matmul  every variant at the default sizes\n  \
        gpukern bench matmul -s 512 -t f32,f16 --json run.json\n  \
        gpukern bench matmul -s 512 -t f32,f16 --compare run.json --budget 60s\n  \
        gpukern bench matmul -t f32 --reference results/reference-h100.csv"
    )]
    Bench(Box<BenchArgs>),
    /// Measure a device's limits: arithmetic, bandwidth, launches
    ///
    /// `bench` and `run` show what share of these limits each case reaches. A limit is the best sample of the best
    /// kernel; every kernel is verified. Limits are kept per device and driver. If none are kept, `bench` measures the
    /// few that it needs, in seconds.
    #[command(after_long_help = "Examples:\n  \
        gpukern peak          everything, about 20 seconds\n  \
        gpukern peak --quick  only what `bench` needs\n  \
        gpukern peak --json peak.json")]
    Peak {
        /// Where it runs.
        #[command(flatten)]
        on: DeviceArgs,

        /// Measure only what `bench` needs (takes seconds)
        #[arg(long)]
        quick: bool,

        /// Write the figures as JSON to this file, or `-`
        #[arg(long, value_name = "PATH|-")]
        json: Option<PathBuf>,
    },
    /// Find the best tiles or block widths for a device; save them
    ///
    /// `tune` searches the tiles of a product or the block widths of a factorization, and `bench` uses what it finds.
    /// Every tile is verified before it is timed. Slow tiles are dropped early; the best then alternate with the
    /// built-in tile. A result applies to a device, its driver, an element type, and sizes near the same power of two.
    /// Ctrl-C keeps what was found.
    #[command(after_long_help = "Examples:\n  \
        gpukern tune matmul                               one minute, default sizes\n  \
        gpukern tune matmul --size 512..4096 --budget 5m  five minutes for these sizes\n  \
        gpukern tune lu -V all -s 1024,4096               block widths of LU\n  \
        gpukern bench matmul -V auto,tiled                use them\n  \
        gpukern bench matmul -V tiled --no-tuned          ignore them")]
    Tune(TuneArgs),
    /// Check every variant at awkward sizes against a reference
    #[command(
        after_long_help = "Exit codes: 0 all right · 1 an answer is wrong · 2 usage error · 3 a case failed, crashed or \
        timed out\n\n\
        `gpukern help drivers` compares and bisects drivers, and reports their bugs.\n\n\
        Examples:\n  \
        gpukern verify                                         everything, in minutes\n  \
        gpukern verify --expect known.toml --junit verify.xml  for CI\n  \
        gpukern verify --config gpukern.toml                   your own kernels"
    )]
    Verify(VerifyArgs),
    /// Find races and other bugs that your GPU hides
    ///
    /// `sanitize` finds races, values that nothing wrote, accesses out of bounds, barriers that not all invocations
    /// reach, and answers that depend on the sub-group size or the schedule, each with its source lines. It needs no
    /// device. `gpukern help races` describes all faults.
    #[command(
        after_long_help = "Exit codes: 0 no faults · 1 a fault, or a wrong answer · 2 usage error · 3 a case could not be \
        simulated\n\n\
        Examples:\n  \
        gpukern sanitize matmul -V tiled -s 33     a built-in kernel\n  \
        gpukern sanitize k.toml                    your own, as `run` takes it\n  \
        gpukern sanitize cases/*                   what `capture -o cases` saved\n  \
        gpukern sanitize k.toml --allow lockstep   report everything else\n  \
        gpukern sanitize lu --known known.toml --junit sanitize.xml"
    )]
    Sanitize(Box<SanitizeArgs>),
    /// Compare two records: a verdict per case, an exit code for CI
    ///
    /// `gpukern help verdicts` says what a verdict means.
    Compare(CompareArgs),
    /// Did a change in git make a kernel slower or wrong?
    ///
    /// Measures the kernels that gpukern.toml lists, alternating between their present versions (uncommitted changes
    /// included) and those of the commit BASE (of a branch, where yours left it), and compares the two. Writes
    /// candidate.json, baseline.json, comparison.json, comparison.md, junit.xml and report.html to the folder
    /// gpukern-results. See `gpukern help ci`.
    #[command(
        after_long_help = "Exit codes: 0 no case is slower · 1 a kernel became slower, wrong or unverified, fails or is gone · \
        2 usage error, or nothing to compare · 3 the device failed · 4 undecided or wrong on both sides. If BASE has no \
        gpukern.toml, only wrong answers and failures count. If BASE cannot be measured, the exit code is 1.\n\n\
        Examples:\n  \
        gpukern compare-commits main                   what a branch changed\n  \
        gpukern compare-commits HEAD                   what is not committed yet\n  \
        gpukern compare-commits main --min-effect 3%   on a quiet GPU"
    )]
    CompareCommits(CompareCommitsArgs),
    /// Which of two variants, SPIR-V files or drivers is faster?
    ///
    /// The two sides take turns on one case, so drift affects both equally.
    #[command(
        after_long_help = "Exit codes: 0 B is the same or faster · 1 B is slower, an answer is wrong, or driver B \
        cannot run what driver A runs · 2 usage error · 3 a side crashed, or the device or the system failed · 4 undecided\n\n\
        Examples:\n  \
        # two variants, four sizes\n  \
        gpukern ab matmul -V tiled --against local-2d -s 64..512\n  \
        # each against its partner\n  \
        gpukern ab collectives -V '*-subgroup' --against '*-shared' -s 64\n  \
        # your kernel in place of naive's\n  \
        gpukern ab matmul -V naive --b-spirv mine.spv -s 512\n  \
        gpukern ab matmul -V tiled -s 512 --a-driver old.json --b-driver new.json\n  \
        # your kernel, under another compiler\n  \
        gpukern ab k.toml --b-env RADV_DEBUG=llvm"
    )]
    Ab(Box<AbArgs>),
    /// Show or save what the driver makes of kernels
    ///
    /// `inspect` runs no kernel. It prints registers, spills, shared memory, occupancy, code size and the time to create each pipeline, as
    /// the driver reports them (VK_KHR_pipeline_executable_properties). It also works on devices that execute nothing.
    #[command(
        after_long_help = "Exit codes: 0 all compiled · 2 usage error · 3 a compilation failed, crashed or took too long\n\n\
        Examples:\n  \
        gpukern inspect matmul -V tiled,coopmat -s 4096    two built-in kernels\n  \
        gpukern inspect k.toml                             your own, every choice\n  \
        gpukern inspect matmul -V naive,tiled -s 8 --diff  figures and code, compared\n  \
        gpukern inspect k.toml --json new.json             a record for `compare`"
    )]
    Inspect(Box<InspectArgs>),
    /// Profile any Vulkan program: device time, kernel by kernel
    ///
    /// `capture` runs the program with a Vulkan layer that times its dispatches. The program is neither changed nor
    /// rebuilt, and its exit code is passed through. `gpukern help profiles` says how to read the profile.
    #[command(after_long_help = "Exit codes: the program's own, if it is not 0 (128 and the signal that ended it) · \
        1 a case of -o does not repeat · 2 usage error · 3 it used no Vulkan device, nothing was captured with -o, or a \
        file cannot be written\n\n\
        Examples:\n  \
        gpukern capture -- python infer.py           where its device time goes\n  \
        gpukern capture --page p.html -- ./prog      with a timeline\n  \
        gpukern capture --trace t.json -- ./prog -v  for ui.perfetto.dev\n  \
        gpukern capture -o cases --top 10 -- ./prog  its ten most expensive kernels")]
    Capture(Box<CaptureArgs>),
    /// Convert a record to a format that other tools read
    #[command(after_long_help = "Examples:\n  \
        gpukern export run.json --to markdown          a table for a pull request\n  \
        gpukern export run.json --to csv -o run.csv    for a spreadsheet\n  \
        gpukern export run.json --to google-benchmark  for its compare.py\n  \
        gpukern export run.json --to sources -o again  kernels' sources, to run again")]
    Export {
        /// Records that `bench --json` or `run --json` wrote, several only as csv or jsonl; or one result of `ab --json`, as
        /// csv, markdown or latex
        #[arg(required = true)]
        run: Vec<PathBuf>,

        #[arg(long, value_name = "FORMAT", help = formats_help())]
        to: Option<String>,

        /// In tables (csv, jsonl, markdown, latex), state each variant's speed-up over this one
        #[arg(long, value_name = "VARIANT")]
        speedup_over: Option<String>,

        /// Write to this file, or sources into this new folder [default: standard output]
        #[arg(long, short, value_name = "PATH|-")]
        output: Option<PathBuf>,
    },
    /// Print records as tables, or draw them as one HTML page
    #[command(after_long_help = "Examples:\n  \
        gpukern report run.json                              the tables again\n  \
        gpukern report run.json -o report.html               a page of one record\n  \
        gpukern report old.json new.json -o report.html      two, compared; or several\n  \
        gpukern report run.json -o report.html --svg charts  the charts as files, too\n  \
        gpukern report --baseline old-*.json --candidate new-*.json -o report.html")]
    Report(Box<ReportArgs>),
    /// Join the records of shards, or of several devices, into one
    ///
    /// Records with different versions, options, commits or methods, or with the same case, are refused with the
    /// reason. Shards from several hosts with the same device become one device.
    #[command(after_long_help = "Examples:\n  \
        gpukern bench matmul --shard 1/2 --json 1.json  on one machine\n  \
        gpukern bench matmul --shard 2/2 --json 2.json  on another\n  \
        gpukern merge 1.json 2.json -o matmul.json")]
    Merge {
        /// Records that `bench --json` wrote
        #[arg(required = true, value_name = "RUN.json")]
        run: Vec<PathBuf>,

        /// Write to this file [default: standard output]
        #[arg(long, short, value_name = "PATH|-")]
        output: Option<PathBuf>,
    },
    /// Show trends and steps of each case in a folder of records
    ///
    /// All records in the folder and below it count, whatever their names. To merge two histories, copy one into the
    /// other. A single disturbed run is not a step, and at most 1 % of cases have a false one. `gpukern help fleet` has
    /// recipes.
    #[command(
        after_long_help = "Exit codes: 0 success · 1 a case is slower or wrong, with --fail-within · 2 usage error\n\n\
        Examples:\n  \
        gpukern history runs                                   trends and steps\n  \
        gpukern history runs --fail-within 10 --json h.json    for a nightly job\n  \
        gpukern history runs --order committed --apart driver  by commit date, driver\n  \
        gpukern history runs --to otava -o otava               for Apache Otava"
    )]
    History(HistoryArgs),
    /// Print the defaults in effect, and where each comes from
    ///
    /// The command line takes precedence, then the environment, then a file, then gpukern itself. The file is
    /// gpukern/config.toml in your configuration folder, or the one that GPUKERN_CONFIG names; an empty GPUKERN_CONFIG
    /// means no file.
    #[command(after_long_help = "The file can set:\n  \
        device = \"gpu\"         # as --device takes it; also a list\n  \
        precision = \"0.5%\"\n  \
        color = \"auto\"         # always, never\n  \
        table = \"compact\"      # long, both\n\n\
        Examples:\n  \
        gpukern config                        settings in effect, and why\n  \
        gpukern config --precision 0.5%       with an option of the command line\n  \
        GPUKERN_CONFIG= gpukern bench matmul  measure without your defaults, as in CI")]
    Config(ConfigArgs),
    /// Print a completion script for a shell
    #[command(after_long_help = "Examples:\n  \
        gpukern completions bash > ~/.local/share/bash-completion/completions/gpukern\n  \
        # with fpath+=(~/.zfunc) before compinit\n  \
        gpukern completions zsh > ~/.zfunc/_gpukern\n  \
        gpukern completions fish > ~/.config/fish/completions/gpukern.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command
    #[command(after_long_help = "Examples:\n  \
        # read it\n  \
        gpukern man | man -l -\n  \
        # install gpukern.1, gpukern-bench.1 and the others\n  \
        gpukern man --output ~/.local/share/man/man1")]
    Man {
        /// Write all pages to this folder
        #[arg(long, short, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// Print the help of a command, or a page on a topic
    ///
    /// Topics are tasks, such as `checks` for whether an answer is right or `verdicts` for whether a time changed.
    #[command(after_long_help = "Examples:\n  \
        gpukern help bench    all options of a command\n  \
        gpukern help topics   the pages\n  \
        gpukern help kernels  one of them: time your own kernel")]
    Help {
        /// A command, a topic, or `topics` for a list
        #[arg(value_name = "COMMAND|TOPIC")]
        subject: Vec<String>,
    },
    /// Do what another process of this program orders through standard input.
    #[command(hide = true)]
    Worker {
        /// Compile kernels, in place of work on a device.
        #[arg(long)]
        compiler: bool,
    },
    /// Run a program, and end it with all that it started when standard input ends.
    #[command(hide = true)]
    Guard {
        /// A folder to be removed then; repeatable.
        #[arg(long)]
        scratch: Vec<PathBuf>,

        /// Pass on standard output as standard error, in place of discarding it.
        #[arg(long)]
        joined: bool,

        /// The program and its arguments.
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
}

/// Options of `config`: those that a default or a variable of the environment stands for.
#[derive(Debug, clap::Args)]
pub struct ConfigArgs {
    /// Where it runs.
    #[command(flatten)]
    pub on: DeviceArgs,

    /// See `gpukern bench --help`
    #[arg(long, value_name = "PERCENT")]
    pub precision: Option<String>,

    /// See `gpukern bench --help`
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    pub table: Option<TableForm>,

    /// See `gpukern bench --help`
    #[arg(long, value_name = "TEXT", env = "GPUKERN_LABEL", hide_env = true)]
    pub label: Option<String>,

    /// See `gpukern bench --help`
    #[arg(long, value_name = "FILE", env = "GPUKERN_TUNED", hide_env = true)]
    pub tuned: Option<PathBuf>,

    /// Options that the command line or a variable states.
    #[arg(skip)]
    pub(crate) stated: Vec<StatedOption>,
}

/// Option that the command line or a variable states.
#[derive(Debug)]
pub(crate) struct StatedOption {
    pub(crate) name: String,
    /// The variable, or `command line`.
    pub(crate) from: String,
    pub(crate) value: String,
}

/// Options of `bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// Request that the options state.
    #[command(flatten)]
    pub request: Typed<Request>,

    /// Measure all devices at once, each in its own process
    ///
    /// Shares of limits are not shown.
    #[arg(long, conflicts_with_all = ["noise", "processes", "host", "compare", "explain", "keep_failures"])]
    pub parallel: bool,

    /// List the cases and their expected time; measure nothing
    #[arg(long, conflicts_with_all = ["resume", "explain", "compare", "reference", "keep_failures"])]
    pub dry_run: bool,

    /// Configuration of a baseline, whose kernels take turns with those of --config; `compare-commits` sets it. The records
    /// of the two sides are written beside that of both.
    #[arg(long, hide = true, value_name = "FILE", requires = "config")]
    pub beside: Option<PathBuf>,

    /// Thresholds that will judge both sides: each must be for one of their cases. `compare-commits` sets it.
    #[arg(long, hide = true, value_name = "FILE", requires = "beside")]
    pub gate: Option<PathBuf>,

    /// Show what `--variant auto` chooses from, instead of the usual table
    ///
    /// It measures the best of each variant that the model covers, and the WAYS candidates predicted to be fastest
    /// [default: 12]. `--json` writes these times in place of a record.
    #[arg(long, value_name = "WAYS", num_args = 0..=1, require_equals = true, default_missing_value = "12", conflicts_with_all = ["resume", "noise", "processes", "host", "compare", "keep_failures"])]
    pub explain: Option<usize>,

    /// Times of others.
    #[command(flatten)]
    pub published: PublishedArgs,

    /// Outputs of the record.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Outputs of a record: its file, its tables, its comparison.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutputArgs {
    /// Write the record as JSON to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    #[serde(serialize_with = "command_line::path")]
    pub json: Option<PathBuf>,

    /// Complete the record of a run that was interrupted or killed
    ///
    /// Repeat the options of that run, with this one in place of --json. Cases in the file or its journal (FILE.part) are
    /// kept.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    #[serde(serialize_with = "command_line::path")]
    pub resume: Option<PathBuf>,

    /// Save a reproducer for every case that was wrong, crashed or hung
    #[arg(long, value_name = "DIR")]
    #[serde(serialize_with = "command_line::path")]
    pub keep_failures: Option<PathBuf>,

    /// Times of others, an option of `bench`.
    #[arg(skip)]
    #[serde(skip)]
    pub published: PublishedArgs,

    /// The form of the tables.
    #[command(flatten)]
    pub tables: TableArgs,

    /// Baseline of the comparison.
    #[command(flatten)]
    pub comparing: Comparing,
}

/// Comparison of what is measured with earlier records, in further rounds, which are processes of their own.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparing {
    /// Compare with this record, as `compare` does
    ///
    /// Undecided cases are remeasured until --budget runs out. Repeat the option for each record of the baseline.
    #[arg(long, value_name = "RUN.json")]
    #[serde(serialize_with = "command_line::paths")]
    pub compare: Vec<PathBuf>,

    /// Spend at most this long remeasuring undecided cases [default: 30s]
    ///
    /// Each further round runs in a new process; 0s turns them off.
    #[arg(long, value_name = "TIME", requires = "compare")]
    pub budget: Option<String>,

    /// Save the records of further rounds in this new or empty folder
    #[arg(long, value_name = "DIR", requires = "compare")]
    #[serde(serialize_with = "command_line::path")]
    pub rounds: Option<PathBuf>,

    /// How they are compared.
    #[command(flatten)]
    pub judging: Judging,
}

/// Options of `run`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct RunArgs {
    /// Descriptions (.toml) and kernels (.comp, .glsl, .spv, .wgsl, …)
    ///
    /// Several kernels (.comp or .glsl, .spv, .wgsl, .slang, .hlsl) must solve the same problem. Given with a
    /// description, they replace its kernel.
    pub kernel: Vec<PathBuf>,

    /// Read the kernels' description from this file
    ///
    /// `gpukern help description` has the format. Options on the command line override its fields.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Set an axis: M=512..4096; or all axes: 64x100
    #[arg(long, short, value_name = "AXIS=VALUES")]
    pub size: Vec<String>,

    /// Only these, also of --against: 'softmax*'
    #[arg(long, short = 'V', value_name = "NAME,..", value_delimiter = ',')]
    pub variant: Vec<String>,

    /// Set a field of the description: dispatch.groups=64 · buffer.A.type=f16 · spec.BM=[64,128]
    ///
    /// KEY is the TOML key of any field that `gpukern help description` lists. The value is TOML, or text that needs no
    /// quotes.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Ways to compile a source.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Earlier options that `--set` replaces.
    #[command(flatten)]
    pub(crate) old: OldOptions,

    /// Refuse descriptions that run commands
    #[arg(long)]
    pub no_commands: bool,

    /// Keep the text of your kernels in the record
    ///
    /// `export --to sources` writes the files, to measure them again from the record alone. Otherwise a record has only hashes.
    #[arg(long)]
    pub sources: bool,

    /// Print a draft description for you to complete
    ///
    /// It contains what the code reveals; guesses are marked (…).
    #[arg(long, conflicts_with_all = ["tune", "ab", "watch"])]
    pub init: bool,

    /// Measure these built-in variants too
    ///
    /// They solve the problem of the reference's `builtin`, take turns with your kernel, and use the tiles that
    /// `gpukern tune` found. `auto` is the fastest that `tune` measured, otherwise the one that a model predicts.
    #[arg(long, value_name = "VARIANT,..", value_delimiter = ',')]
    pub against: Vec<String>,

    /// Time every combination of the lists in [spec]
    #[arg(long, conflicts_with_all = ["ab", "watch"])]
    pub tune: bool,

    /// List the cases and their expected time; measure nothing
    #[arg(long, conflicts_with_all = ["ab", "watch", "init", "print", "save", "resume", "compare"])]
    pub dry_run: bool,

    /// Test whether the second kernel is faster: run k.toml a.comp b.comp --ab
    ///
    /// The first kernel, or the first of two choices in [spec], is the baseline; with --against, the built-in variant
    /// is the baseline, unless -V gives the order. The two take turns, and each size gets a verdict.
    #[arg(long, conflicts_with_all = ["watch", "compare", "resume", "energy", "sources"])]
    pub ab: bool,

    /// Measure again whenever a file is saved
    #[arg(long, conflicts_with_all = ["json", "resume", "compare", "against", "print", "save", "keep_failures", "energy"])]
    pub watch: bool,

    /// Show elements of an output: D, or D[0:4,0:4]
    #[arg(long, value_name = "BUFFER")]
    pub print: Vec<String>,

    /// Write an output as .npy: D=out.npy
    #[arg(long, value_name = "BUFFER=FILE")]
    pub save: Vec<String>,

    /// Run each case N more times and compare the answers: --repeat 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "watch")]
    pub repeat: Option<u32>,

    /// Where it runs.
    #[command(flatten)]
    pub on: DeviceArgs,

    /// Seed of the input data [default: 1]
    #[arg(long)]
    pub seed: Option<u64>,

    /// How to sample.
    #[command(flatten)]
    pub sampling: Typed<SamplingArgs>,

    /// Do not show shares of the device's limits
    #[arg(long)]
    pub no_peak: bool,

    /// With --against, use the tiles that `gpukern tune` saved in this file
    ///
    /// [default: gpukern/tuned.toml in your configuration folder, if it exists] [env: GPUKERN_TUNED]
    #[arg(long, value_name = "FILE", env = "GPUKERN_TUNED", hide_env = true)]
    pub tuned: Option<PathBuf>,

    /// With --against, use the built-in tiles, and let `auto` use its model
    #[arg(long)]
    pub no_tuned: bool,

    /// Name the record in histories and reports [env: GPUKERN_LABEL]
    #[arg(long, value_name = "TEXT", env = "GPUKERN_LABEL", hide_env = true)]
    pub label: Option<String>,

    /// Measure each case in N fresh processes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["ab", "watch"])]
    pub processes: Option<u32>,

    /// Measure only the case with this id; repeatable
    #[arg(long, value_name = "ID")]
    pub only: Vec<String>,

    /// Outputs of the record.
    #[command(flatten)]
    pub output: OutputArgs,
}

impl RunArgs {
    /// Returns the request that the options state.
    pub(crate) fn request(&self, vulkan: VulkanOptions) -> Request {
        let kernel = self.kernel.clone();
        let against = self.against.clone();
        Request {
            kernels: Some(KernelFiles { kernel, fields: self.fields(), against, tune: self.tune }),
            selection: Selection {
                variant: super::run::whole_names(&self.variant),
                device: self.on.device.clone(),
                axes: self.seed.into_iter().fold(AxisValues::default(), |axes, seed| axes.with("seed", seed)),
                sampling: self.sampling.0.clone(),
                ..Selection::default()
            },
            config: self.config.clone(),
            no_commands: self.no_commands,
            sources: self.sources,
            no_peak: self.no_peak,
            tuned: self.tuned.clone(),
            no_tuned: self.no_tuned,
            label: self.label.clone(),
            processes: self.processes,
            only: self.only.clone(),
            vulkan,
            ..Request::default()
        }
    }

    /// Returns the fields of the description that the options replace.
    pub(crate) fn fields(&self) -> FieldOptions {
        self.source.fields(&self.size, [&self.old.0[..], &self.set].concat())
    }
}

/// Times of others, to be shown beside those of a record.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PublishedArgs {
    /// Show published figures next to yours
    ///
    /// FILE is a record, or CSV with the columns algorithm, dtype, size, time, source and, where relevant, layout, goal
    /// and input. A kernel of yours has its name as the algorithm.
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "command_line::path")]
    pub reference: Option<PathBuf>,
}

/// The form of the tables of records.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableArgs {
    /// The table: compact, long or both
    ///
    /// Compact has sizes by variants; long has a line for each case, with rate, interval, samples and error.
    /// [default: compact; for a single variant long]
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    pub table: Option<TableForm>,

    /// Columns of the long table, or `all` [default: those that fit]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', long_help = columns_help())]
    pub columns: Vec<String>,
}

impl TableArgs {
    /// Returns the columns of the long table; `None` for those that fit.
    pub fn columns(&self) -> crate::Result<Option<Vec<&'static LongColumn>>> {
        long::chosen(&self.columns).map_err(|reason| usage!("--columns: {reason}"))
    }

    /// Returns the form of the table: by default compact, but long with --columns or `energy`, which only that shows, and
    /// for a `record` without variants to compare.
    pub fn table_form(&self, record: &Record, energy: bool) -> TableForm {
        let needs_long = !self.columns.is_empty() || energy || !has_rivals(record);
        self.table.unwrap_or(if needs_long { TableForm::Long } else { TableForm::Compact })
    }
}

/// Whether an algorithm of the record has several variants.
fn has_rivals(record: &Record) -> bool {
    let variants = distinct(record.cases.iter().map(|case| (&case.algorithm, &case.variant)));
    distinct(variants.iter().map(|(algorithm, _)| algorithm)).len() < variants.len()
}

/// How two sides are compared.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Judging {
    /// The smallest change that matters [default: 2%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub min_effect: Option<String>,

    /// Assume that medians of two processes differ by at most this much in 95 % of pairs
    ///
    /// [default: 1%; 20% if fewer than three processes ran on a software device]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub process_noise: Option<String>,

    /// Compare even if WHAT differs: --allow driver
    ///
    /// WHAT is device, processor, driver, validation-layers, clock, cache, seed, work, buffers, gone (cases
    /// that the candidate lacks), check (a check that became too weak) and, in `compare`, slower. Any other difference is still
    /// refused.
    #[arg(long, value_name = "WHAT,..", value_delimiter = ',', value_parser = REFUSED, hide_possible_values = true)]
    pub allow: Vec<String>,

    /// Compare no matter what differs
    #[arg(long)]
    pub force: bool,
}

impl Judging {
    /// Returns the name of the first option that is given.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let options = [
            ("min-effect", self.min_effect.is_some()),
            ("process-noise", self.process_noise.is_some()),
            ("allow", !self.allow.is_empty()),
            ("force", self.force),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

/// How results are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableForm {
    /// A row for each size, a column for each variant.
    Compact,
    /// A line for each case with rate, interval, samples and error.
    Long,
    /// Both.
    Both,
}

/// The devices of a command.
#[derive(Clone, Debug, clap::Args)]
pub struct DeviceArgs {
    /// Devices: an index, part of a name, gpu, cpu, all
    ///
    /// A UUID also works. [default: the best GPU, otherwise the software device] [env: GPUKERN_DEVICE]
    #[arg(long, short, value_name = "DEVICE,..", value_delimiter = ',', env = "GPUKERN_DEVICE", hide_env = true)]
    pub device: Vec<String>,
}

/// Options of `tune`.
#[derive(Debug, clap::Args)]
pub struct TuneArgs {
    /// The algorithm: matmul or lu
    #[arg(value_name = "ALGORITHM")]
    pub algorithm: String,

    /// Variants by name, alias or pattern ('tile-*') [default: tiled, or those that have the --dtype]
    #[arg(long, short = 'V', value_name = "NAME,..", value_delimiter = ',')]
    pub variant: Vec<String>,

    /// Sizes, or @FILE with one per line [default: those of `bench`]
    #[arg(long, short, value_name = "SWEEP", value_delimiter = ',', allow_negative_numbers = true)]
    pub size: Vec<String>,

    /// File of sizes, now `--size @FILE`.
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "size")]
    pub shapes: Option<PathBuf>,

    /// Values of axes other than the size.
    #[command(flatten)]
    pub axes: Typed<AxisValues>,

    /// Where it runs.
    #[command(flatten)]
    pub on: DeviceArgs,

    /// Try no new tile after this long, for all problems together; each is timed at least once
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub budget: String,

    /// Caches before each run: hot or cold [default: hot]
    ///
    /// Choose cold for inference, which reads each layer's weights once per token. `bench` prefers the results of its own
    /// `--cache`.
    #[arg(long, value_name = "STATE", conflicts_with = "by_inspection")]
    pub cache: Option<String>,

    /// Choose tiles from the compiler's statistics; run none
    ///
    /// The driver compiles the built-in tile, then its neighbors, until one does not spill registers. This also works
    /// on stub devices that execute nothing. Measured results are never replaced.
    #[arg(long)]
    pub by_inspection: bool,

    /// Save the results in this file
    ///
    /// [default: gpukern/tuned.toml in your configuration folder] [env: GPUKERN_TUNED]
    #[arg(long, value_name = "FILE", env = "GPUKERN_TUNED", hide_env = true)]
    pub tuned: Option<PathBuf>,
}

/// Options of `inspect`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct InspectArgs {
    /// Algorithms, or descriptions, kernels and Fossilize archives (.foz)
    #[arg(value_name = "ALGORITHM|FILE", required = true)]
    pub what: Vec<String>,

    /// Variants by name, alias or pattern ('tile-*') [default: all]
    #[arg(long, short = 'V', value_name = "NAME,..", value_delimiter = ',')]
    pub variant: Vec<String>,

    /// Sizes, or axes of your own kernels: M=512 [default: as `bench`]
    #[arg(long, short, value_name = "SWEEP", allow_negative_numbers = true)]
    pub size: Vec<String>,

    /// Set a field of your own kernel's description: spec.BM=[64,128]
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Ways to compile a source.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Earlier options that `--set` replaces.
    #[arg(long, hide = true, value_name = "NAME=VALUES")]
    pub spec: Vec<String>,

    /// Values of axes other than the size.
    #[command(flatten)]
    pub axes: Typed<AxisValues>,

    /// Where it runs.
    #[command(flatten)]
    pub on: DeviceArgs,

    /// Inspect only the case with this id; repeatable
    #[arg(long, value_name = "ID")]
    pub only: Vec<String>,

    /// Use the tiles that `gpukern tune` saved in this file
    #[arg(long, value_name = "FILE", env = "GPUKERN_TUNED", hide_env = true)]
    pub tuned: Option<PathBuf>,

    /// Use the tiles, and the choice of `auto`, for hot or cold caches [default: hot]
    #[arg(long, value_name = "STATE")]
    pub cache: Option<String>,

    /// Show every statistic under the driver's own name
    #[arg(long)]
    pub raw: bool,

    /// Print the machine code, where the driver shows it
    #[arg(long)]
    pub isa: bool,

    /// Print the compiler's intermediate representations
    #[arg(long)]
    pub ir: bool,

    /// Compare two kernels: figures side by side, machine code as a diff
    ///
    /// The other options have to leave two: two variants, two choices of constants, or one kernel on two devices. With
    /// --ir the diff is of the intermediate representations.
    #[arg(long, conflicts_with = "raw")]
    pub diff: bool,

    /// Save SPIR-V (or what --isa or --ir names) in this folder
    ///
    /// SPIR-V comes with what a program needs to run it: constants, groups, arguments. With --isa or --ir, only those are
    /// saved.
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,

    /// Write the record as JSON to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    pub json: Option<PathBuf>,

    /// Write JUnit XML to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    pub junit: Option<PathBuf>,
}

/// Options of `capture`.
#[derive(Debug, clap::Args)]
pub struct CaptureArgs {
    /// The program and its arguments, after `--`
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub program: Vec<OsString>,

    /// Let dispatches overlap as they do in the program
    ///
    /// Otherwise each waits for the one before it, so that its time includes no other dispatch. Times of dispatches
    /// that overlap include each other.
    #[arg(long)]
    pub overlapped: bool,

    /// Time one in N dispatches, which slows the program less
    ///
    /// It times the first two dispatches of each kernel and one in N of the others. Total times and
    /// shares assume that the others take as long; gaps between dispatches are not measured.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub sample: u32,

    /// Write each kernel as a case for `gpukern run` to this folder
    ///
    /// The folder must be new or empty. Each case has the kernel, its constants, and what it read and wrote: the
    /// program's own data. `gpukern run DIR/NAME` verifies and times it.
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Capture only kernels whose name matches
    #[arg(long, value_name = "REGEX", requires = "output")]
    pub kernel: Option<String>,

    /// Capture this call of each kernel
    ///
    /// Calls of the same kernel with the same grid are counted from 1.
    #[arg(long, value_name = "K", default_value_t = 1, requires = "output", value_parser = clap::value_parser!(u64).range(1..))]
    pub call: u64,

    /// After --call, capture every Nth call
    #[arg(long, value_name = "N", requires = "output", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,

    /// Capture at most this much data
    #[arg(long, value_name = "SIZE", default_value = "4GiB", requires = "output")]
    pub max_bytes: Bytes,

    /// Write the profile as JSON to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    pub json: Option<PathBuf>,

    /// Write a trace for ui.perfetto.dev to this file
    #[arg(long, value_name = "PATH|-")]
    pub trace: Option<PathBuf>,

    /// Write a page with a timeline to this file
    #[arg(long, value_name = "PATH|-")]
    pub page: Option<PathBuf>,

    /// Kernels to show, and to capture
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub top: u32,
}

/// Options of `verify`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct VerifyArgs {
    /// Algorithms to verify [default: all]
    #[arg(value_name = "ALGORITHM")]
    pub algorithm: Vec<String>,

    /// Variants by name, alias or pattern ('tile-*') [default: all]
    #[arg(long, short = 'V', value_name = "NAME,..", value_delimiter = ',')]
    pub variant: Vec<String>,

    /// Sizes [default: awkward ones for each algorithm]
    #[arg(long, short, value_name = "SWEEP", value_delimiter = ',', allow_negative_numbers = true)]
    pub size: Vec<String>,

    /// Values of axes other than the size.
    #[command(flatten)]
    pub axes: Typed<AxisValues>,

    /// Where it runs.
    #[command(flatten)]
    pub on: DeviceArgs,

    /// Verify the cases of this TOML file instead
    ///
    /// It is a file for `bench --config`; its [[bench]] and [[run]] tables are verified at their own sizes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["algorithm", "variant", "size", "quick", "full"])]
    pub config: Option<PathBuf>,

    /// Refuse descriptions that run commands
    #[arg(long, requires = "config")]
    pub no_commands: bool,

    /// Keep the text of your kernels in the record
    ///
    /// `export --to sources` writes the files, to measure them again from the record alone. Otherwise a record has only hashes.
    #[arg(long, requires = "config")]
    pub sources: bool,

    /// The default: skip the largest sizes on a software device
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,

    /// Also run the largest sizes on a software device, which takes many minutes
    #[arg(long)]
    pub full: bool,

    /// Write the outcomes as a record: `compare` finds what newly fails
    #[arg(long, value_name = "PATH|-")]
    pub json: Option<PathBuf>,

    /// Complete this record (even of a killed run): check only what it lacks
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub resume: Option<PathBuf>,

    /// Run each case N more times and compare the answers: --repeat 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,

    /// Accept the known failures in this file
    ///
    /// A TOML file of `[[known]]` tables with `case` (an id, or a pattern with `*`), a `reason` and, if it matters, a
    /// `status` (rejected, failed, crashed or timed-out). These are errors: a new failure, a known one that passes and,
    /// in a complete run, a table that matches no case.
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,

    /// Fail if a kernel has no reference, or would pass if it did nothing
    #[arg(long, requires = "config")]
    pub require_reference: bool,

    /// Save a reproducer for every case that was wrong, crashed or hung
    #[arg(long, value_name = "DIR")]
    pub keep_failures: Option<PathBuf>,

    /// Write JUnit XML to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    pub junit: Option<PathBuf>,
}

/// Ways to compile the source of a user's kernel.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SourceArgs {
    /// Define a macro: NAME or NAME=TEXT
    #[arg(long, short = 'D', value_name = "NAME=TEXT")]
    pub define: Vec<String>,

    /// Look for #include files in this folder too
    #[arg(long, short = 'I', value_name = "FOLDER")]
    pub include: Vec<String>,

    /// Choose the entry point of a file that has several
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
}

impl SourceArgs {
    /// Returns the options that change a description.
    pub(crate) fn fields(&self, size: &[String], set: Vec<String>) -> FieldOptions {
        let Self { define, include, entry } = self.clone();
        FieldOptions { size: size.to_vec(), define, include, entry, set }
    }
}

/// Options of `sanitize`.
#[derive(Debug, clap::Args)]
pub struct SanitizeArgs {
    /// Algorithms, or descriptions, kernels and captured cases of your own
    #[arg(value_name = "ALGORITHM|FILE", required = true)]
    pub what: Vec<String>,

    /// Variants by name, alias or pattern ('tile-*') [default: all]
    #[arg(long, short = 'V', value_name = "NAME,..", value_delimiter = ',')]
    pub variant: Vec<String>,

    /// Sizes, or axes of your own kernels: M=64
    ///
    /// [default: those of `verify` with at most 10^7 operations, or all of a description]
    #[arg(long, short, value_name = "SWEEP", allow_negative_numbers = true)]
    pub size: Vec<String>,

    /// Values of axes other than the size.
    #[command(flatten)]
    pub axes: Typed<AxisValues>,

    /// Set a field of your own kernel's description: spec.BM=[64,128]
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Ways to compile a source.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Refuse descriptions that run commands
    #[arg(long)]
    pub no_commands: bool,

    /// Sub-group sizes to simulate: 4..128, or 8,32,64
    #[arg(long, value_name = "SIZES", default_value = "4..128")]
    pub subgroup: String,

    /// Schedules to try at each sub-group size
    ///
    /// The first runs everything in order. The others vary the order of work-groups and sub-groups, which side of a
    /// branch goes first, how lanes reconverge, and where cooperative matrices keep their elements; --seed chooses
    /// different ones.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub schedules: u32,

    /// Arithmetic: exact, or loose, which errs as far as Vulkan allows
    ///
    /// `loose` adds runs in which every operation errs, as devices may. An answer outside its tolerance is then a
    /// fault of precision.
    #[arg(long, value_name = "KIND", default_value = "exact", value_parser = ["exact", "loose"], hide_possible_values = true)]
    pub arithmetic: String,

    /// Accept faults with these ids: lockstep, precision, …
    #[arg(long, value_name = "ID,..", value_delimiter = ',')]
    pub allow: Vec<String>,

    /// Accept the known faults in this file
    ///
    /// A TOML file of `[[known]]` tables with `case` (an id, or a pattern with `*`), a `reason` and, if it matters, the
    /// id of a `fault`. These are errors: a fault that is not listed, a listed one that is gone and, in a complete run,
    /// a table with a `fault` that matches no case.
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,

    /// Write the findings as JSON to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    pub json: Option<PathBuf>,

    /// Write JUnit XML to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    pub junit: Option<PathBuf>,
}

/// Options of `history`.
#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    /// The folder of records, at any depth: runs/DEVICE/DRIVER/…
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// Order of the runs: started, committed, or a file
    ///
    /// `committed` is the date of their commits; a file lists one commit per line, oldest first.
    #[arg(long, value_name = "ORDER|FILE", default_value = "started")]
    pub order: String,

    /// Separate series by driver, host, branch or label
    ///
    /// Each device, and each processor of a software device, is always a separate series.
    #[arg(long, value_name = "WHAT,..", value_delimiter = ',')]
    pub apart: Vec<String>,

    /// The smallest step to report [default: 1%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub min_effect: Option<String>,

    /// Exit with 1 if a case became slower in the last RUNS runs, or is wrong
    ///
    /// It counts as wrong if it is in the newest run. Finding a step takes at least three runs after it, usually six to eight.
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..))]
    pub fail_within: Option<u32>,

    /// Write runs, series, steps and events as JSON to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    pub json: Option<PathBuf>,

    /// Write a page with a chart for each case to this file, or `-`
    ///
    /// `-` is standard output, in place of the table; with --to, this is the folder for the files.
    #[arg(long, short, value_name = "PATH|-")]
    pub output: Option<PathBuf>,

    /// Write for another tool: otava
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<String>,
}

/// Returns the help of `--columns`.
fn columns_help() -> String {
    format!(
        "Columns of the long table, or `all` [default: those that fit]\n\nBy name or heading: {}. Implies --table long.",
        LongColumn::list()
    )
}

/// Returns the help of `--gate`.
fn gate_help() -> String {
    let names = gate::names("`");
    format!("Thresholds for the candidate\n\nA TOML file of `[[threshold]]` tables: `case`, and {names}.")
}

/// Returns the help of `export --to`.
fn formats_help() -> String {
    format!("The format: {}; or {SOURCES}, to repeat a run of your own kernels", Format::list())
}

impl VerifyArgs {
    /// Returns the cases to verify.
    pub fn selection(&self) -> Selection {
        Selection {
            algorithm: self.algorithm.clone(),
            variant: self.variant.clone(),
            size: self.size.clone(),
            axes: self.axes.0.clone(),
            device: self.on.device.clone(),
            ..Selection::default()
        }
    }
}

/// Options of `compare`.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(
    override_usage = "gpukern compare [OPTIONS] <BASELINE> <CANDIDATE>\n       \
    gpukern compare [OPTIONS] --baseline <FILE>... --candidate <FILE>...",
    after_long_help = "Exit codes: 0 no case is slower · 1 a case is slower, newly rejected, doubtful or failed, or beyond a \
    threshold of --gate · 2 usage error · 4 undecided\n\n\
    Examples:\n  \
    gpukern compare before.json after.json  what got slower, and is that noise?\n  \
    gpukern compare --baseline b*.json --candidate c*.json  pooled\n  \
    gpukern compare before.json after.json --gate thresholds.toml --to markdown"
)]
pub struct CompareArgs {
    /// The record to compare with; `-` is standard input
    #[arg(value_name = "BASELINE", requires = "after")]
    #[serde(serialize_with = "command_line::path")]
    pub before: Option<PathBuf>,

    /// The record to judge
    #[arg(value_name = "CANDIDATE")]
    #[serde(serialize_with = "command_line::path")]
    pub after: Option<PathBuf>,

    /// Records of the baseline, pooled
    #[arg(long, value_name = "FILE", num_args = 1..)]
    #[serde(serialize_with = "command_line::paths")]
    pub baseline: Vec<PathBuf>,

    /// Records of the candidate, pooled
    #[arg(long, value_name = "FILE", num_args = 1..)]
    #[serde(serialize_with = "command_line::paths")]
    pub candidate: Vec<PathBuf>,

    /// How they are compared.
    #[command(flatten)]
    pub judging: Judging,

    /// Thresholds for the candidate
    #[arg(long, value_name = "FILE", long_help = gate_help())]
    #[serde(serialize_with = "command_line::path")]
    pub gate: Option<PathBuf>,

    /// Write the comparison as JSON to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    #[serde(serialize_with = "command_line::path")]
    pub json: Option<PathBuf>,

    /// Print text, or markdown for a pull request
    #[arg(long, value_name = "FORM", default_value = "text", hide_possible_values = true)]
    pub to: ComparisonForm,

    /// Write JUnit XML to this file, or `-`
    ///
    /// For CI systems that show tests: slower cases fail, undecided ones are skipped.
    #[arg(long, value_name = "PATH|-")]
    #[serde(serialize_with = "command_line::path")]
    pub junit: Option<PathBuf>,

    /// Fail if nothing checks the answer of a case of the candidate
    #[arg(long)]
    pub require_reference: bool,

    /// Command that measures both sides anew, for the advice; `compare-commits` sets it.
    #[arg(long, hide = true, value_name = "COMMAND")]
    pub measured_by: Option<String>,
}

/// Options of `compare-commits`.
#[derive(Debug, clap::Args)]
pub struct CompareCommitsArgs {
    /// The commit to compare with: a branch, tag or hash
    ///
    /// The default is for CI, which checks out a merge: HEAD^1 is then the target branch.
    #[arg(value_name = "BASE", default_value = "HEAD^1")]
    pub base: String,

    /// The file that lists the kernels, as a path in the repository
    #[arg(long, value_name = "FILE", default_value = "gpukern.toml")]
    pub config: String,

    /// A command that builds files that are not committed: 'make spirv'
    #[arg(long, value_name = "COMMAND", default_value = "", hide_default_value = true)]
    pub prepare: String,

    /// Options for `gpukern bench`
    ///
    /// A reference may take ten times `--timeout` (30 s) before it counts as hung. [default: --no-peak --max-time 1s]
    #[arg(long, value_name = "OPTIONS", default_value = compare_commits::BENCH, hide_default_value = true, allow_hyphen_values = true)]
    pub bench: String,

    /// Number of processes; both sides take turns in each
    ///
    /// With fewer than three, a software device gets no verdict. If a case is undecided, the same number runs again.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub processes: u32,

    /// The smallest change that matters
    #[arg(long, value_name = "PERCENT", default_value = compare_commits::MIN_EFFECT, allow_hyphen_values = true)]
    pub min_effect: String,

    /// Thresholds for the candidate
    #[arg(long, value_name = "FILE", long_help = gate_help())]
    pub gate: Option<PathBuf>,

    /// Accept these differences: gone, buffers, work, check, slower
    ///
    /// Otherwise these fail: cases that are gone, those whose data (`buffers`) or operations (`work`) changed, kernels that
    /// are right only by the reference or tolerance of this change (`check`), and slower ones.
    #[arg(long, value_name = "WHAT,..", value_delimiter = ',', value_parser = ["gone", "buffers", "work", "check", "slower"], hide_possible_values = true)]
    pub allow: Vec<String>,

    /// Fail if nothing checks the answer of a case of the candidate
    #[arg(long)]
    pub require_reference: bool,
}

/// Options of `report`.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[command(override_usage = "gpukern report [OPTIONS] <RUN>...\n       \
    gpukern report [OPTIONS] --baseline <FILE>... --candidate <FILE>...")]
pub struct ReportArgs {
    /// Records that `bench --json` or `run --json` wrote, or one result of `ab --json`
    #[arg(required_unless_present = "baseline", conflicts_with_all = ["baseline", "candidate"])]
    #[serde(serialize_with = "command_line::paths")]
    pub run: Vec<PathBuf>,

    /// Compare: the records of the baseline, pooled
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "candidate")]
    #[serde(serialize_with = "command_line::paths")]
    pub baseline: Vec<PathBuf>,

    /// The records of the candidate, pooled
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "baseline")]
    #[serde(serialize_with = "command_line::paths")]
    pub candidate: Vec<PathBuf>,

    /// Only these variants: names or patterns ('tile-*') [default: all]
    #[arg(long, short = 'V', value_name = "NAME,..", value_delimiter = ',')]
    pub variant: Vec<String>,

    /// State each variant's speed-up over this one, in place of its share of the limit
    #[arg(long, value_name = "VARIANT", conflicts_with = "baseline")]
    pub speedup_over: Option<String>,

    /// How they are compared.
    #[command(flatten)]
    pub judging: Judging,

    /// The form of the tables.
    #[command(flatten)]
    pub tables: TableArgs,

    /// Times of others.
    #[command(flatten)]
    #[serde(flatten)]
    pub published: PublishedArgs,

    /// Write a page to this file; `-` is standard output [default: print tables]
    #[arg(long, short, value_name = "PATH|-")]
    #[serde(serialize_with = "command_line::path")]
    pub output: Option<PathBuf>,

    /// Write, as JSON, which variants to ship: the fastest of each problem and device, and small sets that lose little
    ///
    /// docs/choices.schema.json describes it. `-` is standard output, in place of the tables.
    #[arg(long, value_name = "PATH|-", conflicts_with_all = ["baseline", "output"])]
    #[serde(serialize_with = "command_line::path")]
    pub json: Option<PathBuf>,

    /// Also write the charts as SVG files to this folder
    ///
    /// `column-*.svg` are the same charts with text that is legible at 8.5 cm, the width of a paper's column.
    #[arg(long, value_name = "DIR")]
    #[serde(serialize_with = "command_line::path")]
    pub svg: Option<PathBuf>,
}

/// How a comparison is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComparisonForm {
    /// A table for a terminal.
    #[default]
    Text,
    /// GitHub-flavoured Markdown, for a comment on a pull request.
    Markdown,
}

/// Options of `ab`.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AbArgs {
    /// An algorithm; for drivers and environments also a description or a captured case
    #[arg(value_name = "ALGORITHM|FILE")]
    pub algorithm: String,

    /// Judge these variants: names, aliases, patterns ('*-subgroup')
    ///
    /// With SPIR-V files or drivers, both sides run them.
    #[arg(long, short = 'V', visible_alias = "b", value_name = "NAME,..", value_delimiter = ',')]
    pub variant: Vec<String>,

    /// The baseline: one variant per judged variant, or one for all
    ///
    /// Two patterns pair the variants whose `*` matches the same text.
    #[arg(long, visible_alias = "a", value_name = "NAME,..", value_delimiter = ',')]
    pub against: Vec<String>,

    /// Baseline: SPIR-V that replaces the variant's kernel
    ///
    /// Its entry point is `main`; push constants, specialization constants and work-group size must be those of the
    /// kernel in glsl/ [default: the kernel itself].
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "command_line::path")]
    pub a_spirv: Option<PathBuf>,

    /// Judge this SPIR-V [default: the kernel itself]
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "command_line::path")]
    pub b_spirv: Option<PathBuf>,

    /// Baseline: the manifest of a Vulkan driver
    ///
    /// Each round runs in a process of its own with `VK_DRIVER_FILES` set to it.
    #[arg(long, value_name = "ICD.json")]
    #[serde(serialize_with = "command_line::path")]
    pub a_driver: Option<PathBuf>,

    /// Judge this driver
    #[arg(long, value_name = "ICD.json")]
    #[serde(serialize_with = "command_line::path")]
    pub b_driver: Option<PathBuf>,

    /// Baseline: the driver with this environment variable
    ///
    /// As with --a-driver, each round runs in a process of its own. Repeat it for several variables; a side without any
    /// has those of this process.
    #[arg(long, value_name = "NAME=VALUE")]
    pub a_env: Vec<String>,

    /// Judge the driver with this variable
    #[arg(long, value_name = "NAME=VALUE")]
    pub b_env: Vec<String>,

    /// Sizes: 1024, a sweep 128..8192, or MxNxK; each has a verdict [default: as `bench`]
    #[arg(long, short, value_name = "SWEEP", value_delimiter = ',', allow_negative_numbers = true)]
    pub size: Vec<String>,

    /// Values of axes other than the size.
    #[command(flatten)]
    pub axes: Typed<AxisValues>,

    /// The device: an index, part of a name, gpu, cpu
    ///
    /// A UUID also works. [default: the best GPU, otherwise the software device] [env: GPUKERN_DEVICE]
    #[arg(long, short, value_name = "DEVICE", env = "GPUKERN_DEVICE", hide_env = true)]
    pub device: Option<String>,

    /// The smallest difference that matters [default: 2%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub min_effect: Option<String>,

    /// Stop a case after this time even if undecided
    ///
    /// [default: 10s; 60s for drivers]
    #[arg(long, value_name = "TIME")]
    pub max_time: Option<String>,

    /// Caches before each run: hot or cold [default: hot]
    #[arg(long, value_name = "STATE")]
    pub cache: Option<String>,

    /// Use the tiles that `gpukern tune` saved in this file [default: built-in tiles]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["a_driver", "b_driver", "a_env", "b_env"])]
    #[serde(serialize_with = "command_line::path")]
    pub tuned: Option<PathBuf>,

    /// Write what was measured as JSON to this file, or `-`
    #[arg(long, value_name = "PATH|-")]
    #[serde(serialize_with = "command_line::path")]
    pub json: Option<PathBuf>,

    /// Save a reproducer for a side that was wrong, crashed or hung
    #[arg(long, value_name = "DIR")]
    #[serde(serialize_with = "command_line::path")]
    pub keep_failures: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use crate::plan::axes::{AXES, Axis, Value as AxisKind};
    use crate::record::fixture::four_cases;
    use proptest::array::{uniform2, uniform4, uniform5};
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;

    #[test]
    fn the_command_line_is_consistent() {
        help::documented().debug_assert();
    }

    #[test]
    fn options_of_vulkan_are_in_the_help_of_the_commands_that_use_it() {
        let mut command = help::command_line();
        command.build();
        for command in command.get_subcommands_mut() {
            let name = command.get_name().to_string();
            if ["worker", "guard"].contains(&name.as_str()) {
                continue;
            }
            let help = command.render_long_help().to_string();
            assert_eq!(help.contains("--validation"), help::USE_VULKAN.contains(&name.as_str()), "{name}: {help}");
            assert!(name == "help" || help.contains("--quiet"), "{name}: {help}");
        }
        let before = Cli::parsed_line("--validation --timeout 5s list").expect("it parses").vulkan;
        assert!(before.validation && before.timeout == "5s" && !before.in_process);
        let behind = Cli::parsed_line("--max-run=2s bench lu --timeout=9s --in-process").expect("it parses").vulkan;
        assert!(behind.timeout == "9s" && behind.max_run == "2s" && behind.in_process);
    }

    #[test]
    fn the_value_of_an_option_is_not_taken_for_a_command() {
        let root = help::documented();
        let commands: Vec<&clap::Command> = root.get_subcommands().collect();
        let is_free = |arg: &clap::Arg| arg.get_possible_values().is_empty();
        let takes = |arg: &&clap::Arg| arg.get_action().takes_values() && arg.get_long().is_some() && is_free(arg);
        let global: Vec<&clap::Arg> = root.get_arguments().filter(takes).filter(|arg| arg.is_global_set()).collect();
        assert!(global.len() > 3);
        let mut tried = 0;
        for command in &commands {
            for arg in command.get_arguments().filter(takes).chain(global.iter().copied()) {
                for value in ["run", "bench", "compare", "worker", "help"] {
                    let option = format!("--{}", arg.get_long().expect("it is one"));
                    let typed = if arg.is_require_equals_set() {
                        vec![format!("{option}={value}")]
                    } else {
                        vec![option, value.to_string()]
                    };
                    let behind = [&["gpukern".into(), command.get_name().to_string()], &typed[..]].concat();
                    let in_front = [&["gpukern".into()], &typed[..], &[command.get_name().to_string()]].concat();
                    for words in if arg.is_global_set() { vec![behind, in_front] } else { vec![behind] } {
                        // Options that take a number refuse these words.
                        let refused = root.clone().try_get_matches_from(&words).err().map(|error| error.kind());
                        if matches!(refused, Some(ErrorKind::ValueValidation | ErrorKind::InvalidValue)) {
                            continue;
                        }
                        let matches = root.clone().ignore_errors(true).try_get_matches_from(&words).expect("ignored");
                        let (name, matches) = matches.subcommand().unwrap_or_else(|| panic!("{words:?}: no command"));
                        let parsed = matches.get_raw(arg.get_id().as_str()).and_then(Iterator::last);
                        assert_eq!((name, parsed), (command.get_name(), Some(value.as_ref())), "{words:?}");
                        tried += 1;
                    }
                }
            }
        }
        assert!(tried > 500, "{tried}");
    }

    /// Returns the text of `$'…'`, up to its end.
    fn unescaped(rest: &mut std::str::Chars<'_>) -> String {
        let mut text = String::new();
        while let Some(c) = rest.next().filter(|c| *c != '\'') {
            let digits = match (c, rest.as_str().chars().next()) {
                ('\\', Some('x')) => 2,
                ('\\', Some('U')) => 8,
                ('\\', _) => {
                    text.extend(rest.next());
                    continue;
                }
                _ => {
                    text.push(c);
                    continue;
                }
            };
            let code: String = rest.by_ref().skip(1).take(digits).collect();
            text.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
        }
        text
    }

    /// Splits a command into words as a shell does.
    fn words(command: &str) -> Vec<OsString> {
        let (mut words, mut word, mut quoted) = (vec![], None::<String>, false);
        let mut rest = command.chars();
        while let Some(c) = rest.next() {
            match c {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                '$' if !quoted && rest.as_str().starts_with('\'') => {
                    rest.next();
                    word.get_or_insert_default().push_str(&unescaped(&mut rest));
                }
                '\\' if !quoted => word.get_or_insert_default().extend(rest.next()),
                ' ' if !quoted => words.extend(word.take().map(OsString::from)),
                c => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word.map(OsString::from));
        words
    }

    fn request(command: &str) -> Request {
        let cli = Cli::parsed(&words(command), &Variables::new()).expect("it parses");
        match cli.command {
            Command::Bench(args) => Request { vulkan: cli.vulkan.0, ..args.request.0 },
            Command::Run(args) => args.request(cli.vulkan.0),
            _ => panic!("{command}"),
        }
    }

    /// Pattern of a list item: text without the separating comma and surrounding spaces.
    const ITEM: &str = "[!-+\\--~é]([ -+\\--~é]{0,6}[!-+\\--~é])?";
    const TEXT: &str = "[ -~é]{1,10}";

    /// Returns options whose variables are all overridden.
    fn vulkan_options() -> impl Strategy<Value = VulkanOptions> {
        let times = prop_oneof![Just(["30s".to_string(), "60s".to_string()]), uniform2(TEXT)];
        (uniform2(TEXT), times, any::<bool>()).prop_map(|([loader, cache_dir], [timeout, max_run], in_process)| {
            let (loader, cache_dir) = (Some(loader.into()), Some(cache_dir.into()));
            VulkanOptions { validation: true, loader, cache_dir, timeout, max_run, in_process, no_robust_access: true }
        })
    }

    /// Returns values for some of the axes, each of the axis's kind.
    fn axis_values() -> impl Strategy<Value = AxisValues> {
        let texts = |axis: &Axis| match axis.value {
            AxisKind::Flag => vec(Just("true".to_string()), 0..2).boxed(),
            AxisKind::Word(_) => vec(TEXT, 0..2).boxed(),
            AxisKind::List(..) => vec(ITEM, 0..3).boxed(),
            AxisKind::Whole(_, most) => vec((0..=most).prop_map(|number| number.to_string()), 0..2).boxed(),
            AxisKind::Real(_) => vec((-1e300..1e300).prop_map(|number: f64| number.to_string()), 0..2).boxed(),
        };
        AXES.iter().map(|axis| texts(axis)).collect::<Vec<_>>().prop_map(|texts| {
            let mut values = AxisValues::default();
            for (axis, texts) in AXES.iter().zip(texts) {
                values = texts.into_iter().fold(values, |values, text| values.with(axis.name, text));
            }
            values
        })
    }

    fn selection() -> impl Strategy<Value = Selection> {
        let lists = (vec("-?[a-z]{1,8}", 1..3), uniform2(vec(ITEM, 0..3)), vec(ITEM, 1..3));
        (lists, uniform5(of(TEXT)), axis_values(), any::<bool>()).prop_map(|(lists, texts, axes, energy)| {
            let (algorithm, [variant, size], device) = lists;
            let [precision, max_time, clock, cache, pause] = texts;
            let sampling = SamplingArgs { precision, max_time, clock, cache, energy };
            Selection { algorithm, variant, size, axes, device, sampling, pause }
        })
    }

    fn bench_request() -> impl Strategy<Value = Request> {
        let processes = prop_oneof![(of(1u32..=1000), Just(None)), (Just(None), of(1u32..=1000))];
        let (texts, flags) = (uniform4(of(TEXT)), uniform5(any::<bool>()));
        (selection(), texts, flags, processes, vec(TEXT, 0..2), vulkan_options()).prop_map(
            |(selection, texts, flags, (processes, noise), only, vulkan)| {
                let [config, shard, label, tuned] = texts;
                let [config, tuned] = [config, tuned].map(|path| path.map(PathBuf::from));
                let [host, no_peak, no_tuned, no_commands, keeps_sources] = flags;
                let sources = Request { selection, config, no_commands, shard, label, host, ..Request::default() };
                Request { no_peak, sources: keeps_sources, tuned, no_tuned, processes, noise, only, vulkan, ..sources }
            },
        )
    }

    fn kernel_files() -> impl Strategy<Value = KernelFiles> {
        let lists = (uniform4(vec(TEXT, 0..2)), vec(TEXT, 0..3), vec(ITEM, 0..2));
        (lists, of(TEXT), any::<bool>()).prop_map(|((lists, kernel, against), entry, tune)| {
            let [size, define, include, set] = lists;
            let fields = FieldOptions { size, define, include, entry, set };
            KernelFiles { kernel: kernel.into_iter().map(PathBuf::from).collect(), fields, against, tune }
        })
    }

    fn run_request() -> impl Strategy<Value = Request> {
        (kernel_files(), bench_request()).prop_map(|(kernels, request)| {
            let Selection { device, axes, sampling, .. } = request.selection;
            let axes = axes.seed().into_iter().fold(AxisValues::default(), |axes, seed| axes.with("seed", seed));
            Request {
                kernels: Some(kernels),
                selection: Selection { axes, device, sampling, ..Selection::default() },
                shard: None,
                label: None,
                host: false,
                noise: None,
                ..request
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn a_request_survives_its_command_and_its_record(bench in bench_request(), run in run_request()) {
            for asked in [bench, run] {
                let command = asked.command();
                prop_assert_eq!(&request(&command), &asked, "{}", command);
                let text = serde_json::to_string(&Record { request: Some(asked.clone()), ..four_cases() }).expect("JSON");
                let read: Record = serde_json::from_str(&text).expect("a record");
                prop_assert_eq!(read.request, Some(asked), "{}", text);
            }
        }

        #[test]
        fn a_changed_request_differs_only_in_the_change(asked in bench_request(), id in "[a-z/]{1,9}") {
            let changed = Request { processes: Some(5), only: vec![id.clone()], ..asked.once() };
            let again = request(&changed.command());
            prop_assert_eq!((again.processes, again.noise, &again.only), (Some(5), None, &vec![id]));
            let whole = Request { processes: asked.processes, noise: asked.noise, only: asked.only.clone(), ..again };
            prop_assert_eq!(whole, asked);
        }
    }

    #[test]
    fn a_request_with_an_option_of_another_version_is_none() {
        let asked = Request { shard: Some("1/2".into()), ..Request::default() };
        let mut json = serde_json::to_value(Record { request: Some(asked), ..four_cases() }).expect("JSON");
        for (pointer, value) in
            [("/request/selection/axes-to-come", "x"), ("/request/to-come", "x"), ("/request/shard", "")]
        {
            let (group, name) = pointer.rsplit_once('/').expect("a pointer");
            let mut changed = json.clone();
            changed["request"]["selection"] = serde_json::json!({});
            changed.pointer_mut(group).expect("a group")[name] = value.into();
            let read: Record = serde_json::from_value(changed).expect("a record");
            assert_eq!(read.request.is_some(), name == "shard", "{pointer}");
        }
        json["request"].take();
        assert_eq!(serde_json::from_value::<Record>(json).expect("a record").request, None);
    }

    #[test]
    fn the_command_of_a_request_states_only_values_that_are_not_defaults() {
        let command = "gpukern bench matmul lu --size=64 --seed=7 --solve --device=0";
        assert_eq!(Request { selection: request(command).selection, ..Request::default() }.command(), command);
        let run = Request {
            kernels: Some(KernelFiles { kernel: vec!["-k.comp".into()], ..KernelFiles::default() }),
            ..Request::default()
        };
        assert_eq!(run.command(), "gpukern run -- -k.comp");
    }
}
