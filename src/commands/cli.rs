//! The command line. The comments below are its help.

#![allow(rustdoc::broken_intra_doc_links, reason = "clap shows these texts, whose brackets are brackets")]

use crate::basis::printable::{brief, shell_word};
use crate::plan::axes::AxisValues;
use crate::plan::options::{SamplingArgs, Selection};
use crate::plan::request::{KernelFiles, Request, VulkanOptions};
use crate::run::options::Fields;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Measure compute kernels on any Vulkan device: which variant of an algorithm is fastest here, and is its answer
/// right.
#[derive(Debug, Parser)]
#[command(
    name = "gpukern",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  \
        gpukern devices                                      what is here and what it can do\n  \
        gpukern bench matmul --variant subgroup              one variant over the default sizes\n  \
        gpukern bench matmul --size 64..1024 --dtype f32,f16 every variant, two element types\n  \
        gpukern bench matmul -s 1000x70x130 --json -         one odd size, JSON to standard output\n  \
        gpukern verify                                       is every kernel right on this device?\n  \
        gpukern compare before.json after.json               what got slower, and is that noise?\n  \
        gpukern bench matmul --compare before.json           measure until that is known\n  \
        gpukern ab matmul --a local --b tiled -s 512         two variants in turns, one verdict\n  \
        gpukern export run.json --to markdown                a record for a pull-request comment\n  \
        gpukern report run.json -o report.html               charts, in one page without a network\n  \
        gpukern peak                                         how fast this device is at best\n  \
        gpukern tune matmul                                  find and keep the best tiles for this device\n\n\
        Exit codes: 0 all well · 1 a result was rejected or a comparison regressed · 2 usage · 3 the device or the \
        system failed · 4 a comparison is undecided · 130 interrupted (what was measured is kept)"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// What a command that uses Vulkan loads, keeps and waits for.
    #[command(flatten)]
    pub vulkan: VulkanOptions,

    /// No progress on standard error: errors alone, and what to know of the results.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say of every case what came of it, as it ends.
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

/// The commands whose help has the options of Vulkan: the others never load it.
const USE_VULKAN: [&str; 7] = ["devices", "bench", "run", "peak", "tune", "verify", "ab"];

impl Cli {
    /// The parsed command line; what is wrong with it, and its help, end the process.
    #[must_use]
    pub fn from_command_line() -> Self {
        Self::parsed(&std::env::args_os().collect::<Vec<_>>()).unwrap_or_else(|error| error.exit())
    }

    /// The parsed command line of these words.
    fn parsed(words: &[OsString]) -> Result<Self, clap::Error> {
        let matches = Self::documented().try_get_matches_from(words);
        let understood = Self::documented().ignore_errors(true).try_get_matches_from(words);
        let refused = matches.as_ref().err().and_then(|error| error.get(ContextKind::InvalidArg));
        match understood.ok().and_then(|understood| kernels_elsewhere(&understood, refused)) {
            Some(mistake) => Err(Self::command().error(ErrorKind::ValueValidation, mistake)),
            None => matches.and_then(|matches| Self::from_arg_matches(&matches)),
        }
    }

    /// The command line with the options of Vulkan in the help of the commands that use it. Everywhere else they are hidden.
    #[must_use]
    pub(crate) fn documented() -> clap::Command {
        let options = VulkanOptions::command_for_update();
        let shown: Vec<_> = options.get_arguments().map(|arg| arg.clone().hide(false).global(false)).collect();
        USE_VULKAN.into_iter().fold(Self::command(), |command, name| {
            command.mut_subcommand(name, |own| own.next_help_heading("Vulkan").args(shown.clone()))
        })
    }
}

/// What to say of a command line with kernels of the user's where a command takes algorithms of gpukern; `None` of any other.
/// A command that takes one has `refused` the second.
fn kernels_elsewhere(matches: &ArgMatches, refused: Option<&ContextValue>) -> Option<String> {
    let (command, matches) = matches.subcommand()?;
    let (more, does) = match command {
        "ab" => (" --ab", "says which of two is faster"),
        "tune" => (" --tune", "finds the best of the lists in its [spec]"),
        "bench" | "verify" => ("", "verifies and measures it"),
        _ => return None,
    };
    let ending =
        |word: &str| Path::new(word).extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_owned();
    let is_kernel = |word: &&String| crate::run::ENDINGS.contains(&&*ending(word)) || ending(word) == "toml";
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
        "'{}' is no algorithm of gpukern, which `{command}` takes: `gpukern run {}{more}` {does}{configured}",
        brief(first),
        typed.join(" ")
    ))
}

/// The commands. There is one of them a process: its size is nothing.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)]
pub enum Command {
    /// List the Vulkan devices, what they can do, and which variants run on them.
    Devices {
        /// Only these devices: an index, a part of the name, a UUID, `gpu`, `cpu` or `all`.
        #[arg(long, short, value_name = "DEVICE,..", value_delimiter = ',')]
        device: Vec<String>,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List algorithms and variants: what each one shows, what it needs, where it comes from.
    List {
        /// Only this algorithm, with everything about its variants.
        algorithm: Option<String>,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure variants of algorithms; every answer is verified before it is timed.
    #[command(after_help = "With --compare the exit code is that of `compare` (0 same or faster, 1 slower, 4 \
        undecided) unless measuring itself went wrong.\n\n\
        Examples:\n  \
        gpukern bench matmul -s 512 -t f32,f16 --json run.json\n  \
        gpukern bench matmul -s 512 -t f32,f16 --compare run.json --budget 60s\n  \
        gpukern bench lu --compare old-1.json --compare old-2.json --compare old-3.json\n  \
        gpukern bench matmul -t f32 --reference results/reference-h100.csv")]
    Bench(Box<BenchArgs>),
    /// Measure the limits of a device: arithmetic, bandwidths, launches. `bench` holds its cases against them.
    #[command(
        after_help = "Figures are the best of the samples of the best kernel, each verified. They are kept per device and \
        driver; a bench without kept ones measures the few it needs in about two seconds.\n\n\
        Examples:\n  \
        gpukern peak                 everything, some 20 seconds\n  \
        gpukern peak --json peak.json"
    )]
    Peak {
        /// Where it runs.
        #[command(flatten)]
        on: DeviceArgs,

        /// Only what `bench` needs, in about two seconds.
        #[arg(long)]
        quick: bool,

        /// Write the figures as JSON, an array with an object for each device, to this file, or to standard output (`-`) in
        /// place of the tables.
        #[arg(long, value_name = "PATH|-")]
        json: Option<PathBuf>,
    },
    /// Find the best tiles of a product, or block widths of a factorisation, for a device, and keep them for `bench`.
    #[command(
        after_help = "Every tile that is timed is verified first. Those that lose are dropped after a few samples; the \
        best run against the built-in tile in turns. Results hold for a device, its driver, an element type and sizes \
        near the same power of two. Ctrl-C keeps what was found.\n\n\
        Examples:\n  \
        gpukern tune matmul                                   tiled, f32, the default sizes, a minute\n  \
        gpukern tune matmul --size 512..4096 --budget 5m      these sizes, five minutes for all of them\n  \
        gpukern tune matmul -V tile-2d -t f16,f64             another variant and other element types\n  \
        gpukern tune lu -V all -s 1024,4096                   block widths of factorisations\n  \
        gpukern tune matmul --tuned here.toml                 keep the results in this file\n  \
        gpukern bench matmul -V auto,tiled                    use them\n  \
        gpukern bench matmul -V tiled --no-tuned              do without"
    )]
    Tune(TuneArgs),
    /// Run every variant at awkward sizes against the oracle: a conformance run.
    Verify(VerifyArgs),
    /// Did it change? A verdict for each case of two records; the exit code gates CI. See docs/compare.md.
    Compare(CompareArgs),
    /// Which of two is faster? Two variants, two SPIR-V files or two drivers, in turns, and one verdict.
    #[command(
        after_help = "Exit codes: 0 B is the same or faster · 1 B is slower, or an answer is wrong · 2 usage · 3 the \
        device or the system failed · 4 undecided\n\n\
        Examples:\n  \
        gpukern ab matmul --a local-2d --b tiled -s 512                      two variants\n  \
        gpukern ab matmul -V naive --b-spirv mine.spv -s 512                 a kernel of yours in place of naive's\n  \
        gpukern ab matmul -V naive --a-spirv old.spv --b-spirv new.spv -s 512\n  \
        gpukern ab matmul -V tiled -s 512 --a-driver old_icd.json --b-driver new_icd.json"
    )]
    Ab(Box<AbArgs>),
    /// Measure kernels of yours as `bench` measures ours: verified, with warm clocks, held against the limits. See docs/run.md.
    #[command(after_help = "Exit codes: those of `bench`; of `ab` with --ab.\n\n\
        Examples:\n  \
        gpukern run k.comp                                   what is missing to run it\n  \
        gpukern run k.comp --init > k.toml                   a description to be completed\n  \
        gpukern run k.toml                                   verified and timed\n  \
        gpukern run k.toml --against tiled,auto              beside built-in variants\n  \
        gpukern run k.toml --tune                            the best of the lists in [spec]\n  \
        gpukern run k.toml old.comp new.comp --ab            which of two is faster\n  \
        gpukern run k.toml --watch                           a line each time that it is saved")]
    Run(Box<RunArgs>),
    /// Write a record in a format that dashboards and tools read.
    Export {
        /// A record that `bench --json` wrote.
        run: PathBuf,

        /// The format: custom-smaller-is-better and custom-bigger-is-better (github-action-benchmark), bencher,
        /// google-benchmark, hyperfine, nvbench, junit, csv, markdown, jsonl.
        #[arg(long, value_name = "FORMAT")]
        to: String,

        /// Write to this file [default: standard output].
        #[arg(long, short, value_name = "PATH|-")]
        output: Option<PathBuf>,
    },
    /// Draw records as one HTML page with charts and tables, several side by side.
    #[command(after_help = "Examples:\n  \
        gpukern report run.json -o run.html\n  \
        gpukern report old.json new.json -o change.html\n  \
        gpukern report --baseline old-*.json --candidate new-*.json -o change.html")]
    Report(Box<ReportArgs>),
    /// Join records of shards, or of several devices, in one.
    #[command(
        after_help = "Refused with the reason: other versions, options, commits or methods, and cases that are there twice. \
        Shards of alike devices on several hosts become one device.\n\n\
        Examples:\n  \
        gpukern bench matmul --shard 1/2 --json 1.json   on one machine\n  \
        gpukern bench matmul --shard 2/2 --json 2.json   on another\n  \
        gpukern merge 1.json 2.json -o matmul.json"
    )]
    Merge {
        /// Records that `bench --json` wrote.
        #[arg(required = true, value_name = "RUN.json")]
        run: Vec<PathBuf>,

        /// Write the joined record to this file [default: standard output].
        #[arg(long, short, value_name = "PATH|-")]
        output: Option<PathBuf>,
    },
    /// How times changed over a folder of records: a trend for each case, where it stepped, what else changed there.
    #[command(
        after_help = "The folder is the whole store: records in it and below it, however they are named, merged by copying. \
        Steps are found by ranks, so a disturbed run is none, with at most 1 % false cases. See docs/fleet/README.md.\n\n\
        Examples:\n  \
        gpukern history runs                                  trends and steps\n  \
        gpukern history runs -o history.html                  the same with a chart for each case\n  \
        gpukern history runs --order committed --apart driver a series for each driver, by the date of commits\n  \
        gpukern history runs --to otava -o otava              for Apache Otava"
    )]
    History(HistoryArgs),
    /// Print the completion script of a shell.
    #[command(after_help = "Examples:\n  \
        gpukern completions bash > ~/.local/share/bash-completion/completions/gpukern\n  \
        gpukern completions zsh > ~/.zfunc/_gpukern          with fpath+=(~/.zfunc) before compinit\n  \
        gpukern completions fish > ~/.config/fish/completions/gpukern.fish")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command.
    #[command(after_help = "Examples:\n  \
        gpukern man | man -l -                               read it\n  \
        gpukern man --output ~/.local/share/man/man1         install gpukern.1, gpukern-bench.1 and the others")]
    Man {
        /// Write a page for the program and one for each command to this folder, in place of the one to standard output.
        #[arg(long, short, value_name = "DIR")]
        output: Option<PathBuf>,
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

/// Options of `bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// What to measure, and how.
    #[command(flatten)]
    pub request: Request,

    /// Measure all devices at once, each in a process of its own, and say when they disturb each other. Without shares of
    /// limits.
    #[arg(long, conflicts_with_all = ["noise", "processes", "host", "compare", "explain", "keep_failures"])]
    pub parallel: bool,

    /// List the cases with an estimate of the time that they take, in place of measuring them.
    #[arg(long, conflicts_with_all = ["json", "resume", "explain", "compare", "reference", "keep_failures"])]
    pub dry_run: bool,

    /// Show what `--variant auto` chooses from, with predicted and measured times, in place of measuring cases; with
    /// `--json` these, in place of a record. Times so many of the ways that should be fastest, and the best way of each
    /// variant.
    #[arg(long, value_name = "WAYS", num_args = 0..=1, require_equals = true, default_missing_value = "12", conflicts_with_all = ["resume", "noise", "processes", "host", "compare", "keep_failures"])]
    pub explain: Option<usize>,

    /// What becomes of the record.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What becomes of a record: where it goes, how it is shown, what it is compared with.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OutputArgs {
    /// Write the record as JSON to this file, or to standard output (`-`) in place of the table.
    #[arg(long, value_name = "PATH|-")]
    pub json: Option<PathBuf>,

    /// Complete the record of a run that was interrupted or killed, from this file or from its journal (FILE.part): the same
    /// options again, with this one in place of --json. What is there is not measured again.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub resume: Option<PathBuf>,

    /// Keep what runs each case again that crashed, hung or was wrong in a folder of this one: SPIR-V, constants, inputs,
    /// wrong elements, the device, the driver's last words, the command.
    #[arg(long, value_name = "DIR")]
    pub keep_failures: Option<PathBuf>,

    /// Show figures of others beside the measured ones, and how many times as fast each case is as they are: a record, or a
    /// CSV file with the columns algorithm, dtype, size, time, source and, where they matter, layout, goal
    /// and input.
    #[arg(long, value_name = "FILE")]
    pub reference: Option<PathBuf>,

    /// The table: sizes by variants, a line for each case, or both [default: compact].
    #[arg(long, value_name = "FORM")]
    pub table: Option<TableForm>,

    /// The columns of the long table beside size and variant, which this option asks for, or `all` [default: those that
    /// fit]: median, interval, min, rate, bandwidth, limit, samples, residual, allowed, host, reference, marks.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub columns: Vec<String>,

    /// What the record is compared with.
    #[command(flatten)]
    pub comparing: Comparing,
}

/// Comparison of what is measured with earlier records, in further rounds, which are processes of their own.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Comparing {
    /// Compare with this record, as `compare` does, and measure undecided cases again until --budget ends; once for each
    /// record where the baseline has several.
    #[arg(long, value_name = "BASELINE.json")]
    pub compare: Vec<PathBuf>,

    /// Time for further rounds of undecided cases, each in a process of its own; 0s for none [default: 30s].
    #[arg(long, value_name = "TIME", requires = "compare")]
    pub budget: Option<String>,

    /// Keep the records of further rounds in this folder, as round-2.json and so on; it must be empty or new.
    #[arg(long, value_name = "DIR", requires = "compare")]
    pub rounds: Option<PathBuf>,

    /// How they are compared.
    #[command(flatten)]
    pub judging: Judging,
}

/// Options of `run`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct RunArgs {
    /// Descriptions (.toml) and kernels that solve the same problem: .comp or .glsl, .spv, .wgsl, .slang, .hlsl.
    pub kernel: Vec<PathBuf>,

    /// What they take and compute: a TOML file; options given here win over its fields. See docs/run.md.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What they take and compute, field by field.
    #[command(flatten)]
    pub(crate) fields: Fields,

    /// Refuse descriptions that have commands run ([reference] command, [inputs] command): for those of others.
    #[arg(long)]
    pub no_commands: bool,

    /// Print a description of the kernel, as far as it can be known from it, to be completed.
    #[arg(long, conflicts_with_all = ["tune", "ab", "watch"])]
    pub init: bool,

    /// Variants of the built-in algorithm that is the reference, beside them in the same turns; `auto` for the best by the
    /// model.
    #[arg(long, value_name = "VARIANT,..", value_delimiter = ',')]
    pub against: Vec<String>,

    /// Time every choice of the lists in [spec] that [where] lets pass, and say which is best.
    #[arg(long, conflicts_with_all = ["ab", "watch"])]
    pub tune: bool,

    /// Which of two is faster? Two kernels, or two choices of [spec], in turns, and one verdict.
    #[arg(long, conflicts_with_all = ["watch", "against", "compare", "resume"])]
    pub ab: bool,

    /// Measure again whenever a source, what it includes or the description changes: a line each time.
    #[arg(long, conflicts_with_all = ["json", "resume", "compare", "against", "print", "save", "keep_failures"])]
    pub watch: bool,

    /// Show elements of a buffer: D, or D[0:4,0:4].
    #[arg(long, value_name = "BUFFER")]
    pub print: Vec<String>,

    /// Write a buffer as .npy: D=out.npy.
    #[arg(long, value_name = "BUFFER=FILE")]
    pub save: Vec<String>,

    /// Keep what runs each case again that crashed, hung or was wrong in a folder of this one, as `bench` does.
    #[arg(long, value_name = "DIR")]
    pub keep_failures: Option<PathBuf>,

    /// Where it runs.
    #[command(flatten)]
    pub on: DeviceArgs,

    /// Seed of the input data [default: 1].
    #[arg(long)]
    pub seed: Option<u64>,

    /// How to sample.
    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// Write the record as JSON to this file, or to standard output (`-`) in place of the table.
    #[arg(long, value_name = "PATH|-")]
    pub json: Option<PathBuf>,

    /// Complete the record of a run that was interrupted or killed.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub resume: Option<PathBuf>,

    /// Do not hold cases against the limits of the device.
    #[arg(long)]
    pub no_peak: bool,

    /// The table: sizes by kernels, a line for each case, or both [default: long].
    #[arg(long, value_name = "FORM")]
    pub table: Option<TableForm>,

    /// The columns of the long table, as `bench` has them.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub columns: Vec<String>,

    /// Measure each case in so many fresh processes, as `bench` does.
    #[arg(long, value_name = "N", conflicts_with_all = ["ab", "watch"])]
    pub processes: Option<u32>,

    /// What the record is compared with.
    #[command(flatten)]
    pub comparing: Comparing,

    /// Measure only the case with this id, as records and errors name it; repeatable.
    #[arg(long, value_name = "ID")]
    pub only: Vec<String>,
}

impl RunArgs {
    /// What is to be measured, and how.
    #[must_use]
    pub(crate) fn request(&self, vulkan: VulkanOptions) -> Request {
        let Self { kernel, config, fields, against, tune, .. } = self;
        let (kernel, fields, against) = (kernel.clone(), fields.clone(), against.clone());
        Request {
            kernels: Some(KernelFiles { kernel, fields, against, tune: *tune }),
            selection: Selection {
                device: self.on.device.clone(),
                axes: self.seed.into_iter().fold(AxisValues::default(), |axes, seed| axes.with("seed", seed)),
                sampling: self.sampling.clone(),
                ..Selection::default()
            },
            config: config.clone(),
            no_commands: self.no_commands,
            no_peak: self.no_peak,
            processes: self.processes,
            only: self.only.clone(),
            vulkan,
            ..Request::default()
        }
    }

    /// What becomes of the record, as `bench` has it.
    #[must_use]
    pub fn output(&self) -> OutputArgs {
        OutputArgs {
            json: self.json.clone(),
            resume: self.resume.clone(),
            keep_failures: self.keep_failures.clone(),
            reference: None,
            // A kernel of one's own has a line for what is asked of it: its rate, its error.
            table: self.table.or(Some(TableForm::Long)),
            columns: self.columns.clone(),
            comparing: self.comparing.clone(),
        }
    }
}

impl OutputArgs {
    /// The form of the table: whoever names columns wants the one that has them.
    #[must_use]
    pub fn table_form(&self) -> TableForm {
        let usual = if self.columns.is_empty() { TableForm::Compact } else { TableForm::Long };
        self.table.unwrap_or(usual)
    }
}

/// How two sides are compared.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Judging {
    /// The smallest change that matters [default: 2%].
    #[arg(long, value_name = "PERCENT")]
    pub min_effect: Option<String>,

    /// How far the medians of two processes lie apart by chance, in 95 of 100 cases [default: 1%; 20% where fewer than
    /// three processes ran on a CPU device].
    #[arg(long, value_name = "PERCENT")]
    pub process_noise: Option<String>,

    /// Compare although device, driver, validation layers, clock, cache, seed or work differ.
    #[arg(long)]
    pub force: bool,
}

/// How results are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableForm {
    /// A row for each size, a column for each variant.
    Compact,
    /// A line for each case with rate, interval, samples and residual.
    Long,
    /// Both.
    Both,
}

/// The devices of a command.
#[derive(Clone, Debug, clap::Args)]
pub struct DeviceArgs {
    /// Devices: an index, a part of the name, a UUID, `gpu`, `cpu` or `all`.
    #[arg(
        long,
        short,
        value_name = "DEVICE,..",
        value_delimiter = ',',
        env = "GPUKERN_DEVICE",
        hide_env_values = true
    )]
    pub device: Vec<String>,
}

/// Options of `tune`.
#[derive(Debug, clap::Args)]
pub struct TuneArgs {
    /// The algorithm: matmul or lu.
    #[arg(value_name = "ALGORITHM")]
    pub algorithm: String,

    /// Variants by name or alias [default: tiled].
    #[arg(long, short = 'V', value_name = "NAME,..", value_delimiter = ',')]
    pub variant: Vec<String>,

    /// Sizes [default: those of `bench`].
    #[arg(long, short, value_name = "SWEEP", value_delimiter = ',', allow_negative_numbers = true)]
    pub size: Vec<String>,

    /// Search the shapes of a model of yours: a file with one `MxNxK` a line, comments from # on.
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    pub shapes: Option<PathBuf>,

    /// What is asked for beside the size.
    #[command(flatten)]
    pub axes: AxisValues,

    /// Where it runs.
    #[command(flatten)]
    pub on: DeviceArgs,

    /// Time for all searches together. Every problem gets one tile at least, however long that
    /// takes.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub budget: String,

    /// Keep the results in this file [default: gpukern/tuned.toml in the user's configuration folder].
    #[arg(long, value_name = "FILE", env = "GPUKERN_TUNED", hide_env_values = true)]
    pub tuned: Option<PathBuf>,
}

/// Options of `verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Algorithms to verify [default: all].
    #[arg(value_name = "ALGORITHM")]
    pub algorithm: Vec<String>,

    /// Variants by name or alias [default: all].
    #[arg(long, short = 'V', value_name = "NAME,..", value_delimiter = ',')]
    pub variant: Vec<String>,

    /// Sizes [default: awkward ones, different for each algorithm].
    #[arg(long, short, value_name = "SWEEP", value_delimiter = ',', allow_negative_numbers = true)]
    pub size: Vec<String>,

    /// What is asked for beside the size.
    #[command(flatten)]
    pub axes: AxisValues,

    /// Where it runs.
    #[command(flatten)]
    pub on: DeviceArgs,

    /// Leave out the largest sizes where none are given: two minutes at most on two cores. This is the default.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,

    /// Every size, which takes a software device many minutes.
    #[arg(long)]
    pub full: bool,

    /// Known failures: a TOML file of `[[known]]` tables with `case`, an id or a pattern with `*`, a `reason` and, where
    /// it matters, a `status` (rejected, failed, crashed or timed-out). New failures and known ones that pass are errors.
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,

    /// Keep what runs each case again that crashed, hung or was wrong in a folder of this one: SPIR-V, constants, inputs,
    /// wrong elements, the device, the driver's last words, the command.
    #[arg(long, value_name = "DIR")]
    pub keep_failures: Option<PathBuf>,

    /// Write junit XML to this file, or to standard output (`-`) in place of the table.
    #[arg(long, value_name = "PATH|-")]
    pub junit: Option<PathBuf>,
}

/// Options of `history`.
#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    /// The folder, such as runs with records in runs/DEVICE/DRIVER/.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// Order of the runs: `started`, `committed` (the date of their commits), or a file with a commit a line, the oldest
    /// first.
    #[arg(long, value_name = "ORDER|FILE", default_value = "started")]
    pub order: String,

    /// Keep series apart by these beside the device: driver, host, branch, label.
    #[arg(long, value_name = "WHAT,..", value_delimiter = ',')]
    pub apart: Vec<String>,

    /// The smallest step that is told [default: 1%].
    #[arg(long, value_name = "PERCENT")]
    pub min_effect: Option<String>,

    /// Write a page with a chart for each case to this file, or to standard output (`-`) in place of the table; with --to,
    /// files to this folder.
    #[arg(long, short, value_name = "PATH|-")]
    pub output: Option<PathBuf>,

    /// Write for another tool: otava (a CSV file for each case and otava.yaml).
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<String>,
}

impl VerifyArgs {
    /// What to verify.
    #[must_use]
    pub fn selection(&self) -> Selection {
        let Self { algorithm, variant, size, axes, on, .. } = self;
        let (algorithm, variant, size) = (algorithm.clone(), variant.clone(), size.clone());
        Selection { algorithm, variant, size, axes: axes.clone(), device: on.device.clone(), ..Selection::default() }
    }
}

/// Options of `compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 all same or faster · 1 a case is slower, newly wrong, or breaks a limit of \
    --gate · 2 usage · 4 undecided")]
pub struct CompareArgs {
    /// The record to compare with, written by `bench --json`; `-` is standard input.
    #[arg(value_name = "BASELINE", requires = "after")]
    pub before: Option<PathBuf>,

    /// The record to be judged.
    #[arg(value_name = "CANDIDATE")]
    pub after: Option<PathBuf>,

    /// More records of the baseline: other processes of the same program. Three or more on each side tell how
    /// processes differ.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub baseline: Vec<PathBuf>,

    /// More records of the candidate.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub candidate: Vec<PathBuf>,

    /// How they are compared.
    #[command(flatten)]
    pub judging: Judging,

    /// Limits that the candidate must keep: a TOML file of `[[limit]]` tables.
    #[arg(long, value_name = "FILE")]
    pub gate: Option<PathBuf>,

    /// Write the comparison as JSON to this file, or to standard output (`-`) in place of the table.
    #[arg(long, value_name = "PATH|-")]
    pub json: Option<PathBuf>,

    /// Print the comparison in this form.
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub to: ComparisonForm,

    /// The same as junit XML, for CI systems that show tests: slower cases fail, undecided ones are skipped.
    #[arg(long, value_name = "PATH|-")]
    pub junit: Option<PathBuf>,
}

/// Options of `report`.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Records that `bench --json` wrote.
    #[arg(required_unless_present = "baseline", conflicts_with_all = ["baseline", "candidate"])]
    pub run: Vec<PathBuf>,

    /// Compare: the records of the baseline, which the page shows as one.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "candidate")]
    pub baseline: Vec<PathBuf>,

    /// The records of the candidate.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "baseline")]
    pub candidate: Vec<PathBuf>,

    /// How they are compared.
    #[command(flatten)]
    pub judging: Judging,

    /// Write the page to this file, or to standard output (`-`).
    #[arg(long, short, value_name = "PATH|-")]
    pub output: PathBuf,

    /// Write the charts as SVG files into this folder, too.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

/// How a comparison is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ComparisonForm {
    /// A table for a terminal.
    Text,
    /// GitHub-flavoured Markdown, for a comment on a pull request.
    Markdown,
}

/// Options of `ab`.
#[derive(Debug, clap::Args)]
pub struct AbArgs {
    /// The algorithm; `gpukern list` names them.
    pub algorithm: String,

    /// A variant by name or alias.
    #[arg(long, value_name = "VARIANT")]
    pub a: Option<String>,

    /// The variant that is judged.
    #[arg(long, value_name = "VARIANT")]
    pub b: Option<String>,

    /// SPIR-V that runs in place of the kernel of --variant [default: the kernel itself]. Its entry point is `main`; push
    /// constants, specialization constants and work-group size must be those of the kernel in glsl/.
    #[arg(long, value_name = "FILE")]
    pub a_spirv: Option<PathBuf>,

    /// The SPIR-V that is judged [default: the kernel itself].
    #[arg(long, value_name = "FILE")]
    pub b_spirv: Option<PathBuf>,

    /// The manifest of a Vulkan driver; each round runs in a process of its own with `VK_DRIVER_FILES` set to it.
    #[arg(long, value_name = "MANIFEST.json")]
    pub a_driver: Option<PathBuf>,

    /// The driver that is judged.
    #[arg(long, value_name = "MANIFEST.json")]
    pub b_driver: Option<PathBuf>,

    /// The variant that both SPIR-V files or both drivers run.
    #[arg(long, short = 'V', value_name = "VARIANT")]
    pub variant: Option<String>,

    /// The size: 1024, or 1000x70x130 (M×N×K).
    #[arg(long, short, value_name = "SIZE", allow_negative_numbers = true)]
    pub size: String,

    /// What is asked for beside the size.
    #[command(flatten)]
    pub axes: AxisValues,

    /// The device: an index, a part of the name, a UUID, `gpu` or `cpu`.
    #[arg(
        long,
        short,
        value_name = "DEVICE",
        env = "GPUKERN_DEVICE",
        hide_env_values = true,
        // Behind the first four axes.
        display_order = 12
    )]
    pub device: Option<String>,

    /// The smallest difference that matters [default: 2%].
    #[arg(long, value_name = "PERCENT")]
    pub min_effect: Option<String>,

    /// Stop after this time even if undecided [default: 10s; 60s for drivers].
    #[arg(long, value_name = "TIME")]
    pub max_time: Option<String>,

    /// Write what was measured as JSON to this file, or to standard output (`-`) in place of the verdict.
    #[arg(long, value_name = "PATH|-")]
    pub json: Option<PathBuf>,

    /// Keep what runs a side again that crashed, hung or was wrong in a folder of this one, as `bench` does.
    #[arg(long, value_name = "DIR")]
    pub keep_failures: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::axes::{AXES, Axis, Value as AxisKind};
    use clap::CommandFactory;
    use proptest::array::{uniform2, uniform4, uniform5, uniform7, uniform10};
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;

    #[test]
    fn the_help_of_export_names_every_format() {
        let mut command = Cli::command();
        let export = command.find_subcommand_mut("export").expect("it is a command");
        let help = export.render_long_help().to_string();
        assert!(crate::export::Format::ALL.iter().all(|format| help.contains(format.name())), "{help}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::documented().debug_assert();
    }

    #[test]
    fn options_of_vulkan_are_in_the_help_of_the_commands_that_use_it() {
        let mut command = Cli::documented();
        command.build();
        for own in command.get_subcommands_mut().filter(|own| !["worker", "guard"].contains(&own.get_name())) {
            let (name, help) = (own.get_name().to_string(), own.render_long_help().to_string());
            assert_eq!(help.contains("--validation"), USE_VULKAN.contains(&name.as_str()), "{name}: {help}");
            assert!(name == "help" || help.contains("--quiet"), "{name}: {help}");
        }
        let parsed =
            |line: &[&str]| Cli::from_arg_matches(&Cli::documented().get_matches_from(line)).expect("it parses").vulkan;
        let before = parsed(&["gpukern", "--validation", "--timeout", "5s", "list"]);
        assert!(before.validation && before.timeout == "5s" && !before.in_process);
        let behind = parsed(&["gpukern", "--max-run=2s", "bench", "lu", "--timeout=9s", "--in-process"]);
        assert_eq!((&*behind.timeout, &*behind.max_run, behind.in_process), ("9s", "2s", true));
    }

    #[test]
    fn the_options_of_each_command_are_those_of_the_table_of_axes() {
        let root = Cli::command();
        for name in ["bench", "verify", "tune", "ab"] {
            let command = root.find_subcommand(name).expect("it is a command");
            for axis in AXES {
                let arg = command.get_arguments().find(|arg| arg.get_id() == axis.name);
                assert_eq!(arg.is_some(), axis.is_option_of(name), "{name} --{}", axis.name);
            }
        }
        // Of users' kernels a seed is all that is asked.
        let [of_bench, of_run] = ["bench", "run"].map(|name| {
            let command = root.find_subcommand(name).expect("it is a command");
            let seed = command.get_arguments().find(|arg| arg.get_id() == "seed").expect("it has the option");
            seed.get_help().map(ToString::to_string)
        });
        assert_eq!(of_bench, of_run);
    }

    #[test]
    fn a_kernel_of_ones_own_behind_a_command_for_ours_is_told_the_right_one() {
        let parsed =
            |line: &str| Cli::parsed(&format!("gpukern {line}").split(' ').map(OsString::from).collect::<Vec<_>>());
        let of = |line: &str| parsed(line).expect_err("a mistake").to_string();
        assert!(of("ab a.comp b.comp").contains("`gpukern run a.comp b.comp --ab` says which of two is faster"));
        assert!(of("ab -s 512 a.comp b.spv").contains("`gpukern run a.comp b.spv --ab`"));
        assert!(of("-q tune k.toml --budget 5s").contains("`gpukern run k.toml --tune` finds"));
        assert!(of("bench k.wgsl").contains("`gpukern run k.wgsl` verifies and measures it\n"));
        assert!(of("bench sweep.toml").contains("; a configuration is named with --config=sweep.toml\n"));
        for right in [
            "ab matmul -V naive --a-spirv a.spv --b-spirv=b.spv -s 512",
            "bench --config k.toml",
            "tune lu --tuned here.toml",
            "verify --expect known.toml matmul",
            "run a.comp b.comp --ab",
            "list",
        ] {
            assert!(parsed(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn the_value_of_an_option_is_not_taken_for_a_command() {
        let root = Cli::documented();
        let commands: Vec<&clap::Command> = root.get_subcommands().collect();
        let takes = |arg: &&clap::Arg| arg.get_action().takes_values() && arg.get_long().is_some();
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
                        // Numbers and names of a set are nothing else; what else a command needs is not given.
                        let refused = root.clone().try_get_matches_from(&words).err().map(|error| error.kind());
                        if matches!(refused, Some(ErrorKind::ValueValidation | ErrorKind::InvalidValue)) {
                            continue;
                        }
                        let matches = root.clone().ignore_errors(true).try_get_matches_from(&words).expect("ignored");
                        let (name, own) = matches.subcommand().unwrap_or_else(|| panic!("{words:?}: no command"));
                        let found = own.get_raw(arg.get_id().as_str()).and_then(Iterator::last);
                        assert_eq!((name, found), (command.get_name(), Some(value.as_ref())), "{words:?}");
                        tried += 1;
                    }
                }
            }
        }
        assert!(tried > 500, "{tried}");
    }

    /// The words of a command as a shell takes them.
    fn words(command: &str) -> Vec<OsString> {
        let (mut words, mut word, mut quoted) = (vec![], None::<String>, false);
        let mut rest = command.chars();
        while let Some(c) = rest.next() {
            match c {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                '\\' if !quoted => word.get_or_insert_default().extend(rest.next()),
                ' ' if !quoted => words.extend(word.take().map(OsString::from)),
                c => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word.map(OsString::from));
        words
    }

    /// The request that a command line makes.
    fn request(command: &str) -> Request {
        let cli = Cli::parsed(&words(command)).expect("it parses");
        match cli.command {
            Command::Bench(args) => Request { vulkan: cli.vulkan, ..args.request },
            Command::Run(args) => args.request(cli.vulkan),
            _ => panic!("{command}"),
        }
    }

    /// A text without a comma, which stands between the items of a list.
    const ITEM: &str = "[ -+\\--~é]{1,8}";
    const TEXT: &str = "[ -~é]{1,10}";

    /// What an environment variable can say is said, so that none does.
    fn vulkan() -> impl Strategy<Value = VulkanOptions> {
        let times = prop_oneof![Just(["30s".to_string(), "60s".to_string()]), uniform2(TEXT)];
        (uniform2(TEXT), times, any::<bool>()).prop_map(|([loader, cache_dir], [timeout, max_run], in_process)| {
            let (loader, cache_dir) = (Some(loader.into()), Some(cache_dir.into()));
            VulkanOptions { validation: true, loader, cache_dir, timeout, max_run, in_process }
        })
    }

    /// Texts for some of the axes, each of the kind that it is typed as.
    fn axes() -> impl Strategy<Value = AxisValues> {
        let texts = |axis: &Axis| match axis.value {
            AxisKind::Flag => vec(Just("true".to_string()), 0..2).boxed(),
            AxisKind::Word(_) => vec(TEXT, 0..2).boxed(),
            AxisKind::List(..) => vec(ITEM, 0..3).boxed(),
            AxisKind::Whole(_, most) => vec((0..=most).prop_map(|number| number.to_string()), 0..2).boxed(),
            AxisKind::Real(_) => vec((-1e300..1e300).prop_map(|number: f64| number.to_string()), 0..2).boxed(),
        };
        AXES.iter().map(|axis| texts(axis)).collect::<Vec<_>>().prop_map(|typed| {
            let typed =
                AXES.iter().zip(typed).flat_map(|(axis, texts)| texts.into_iter().map(|text| (axis.name, text)));
            typed.fold(AxisValues::default(), |values, (name, text)| values.with(name, text))
        })
    }

    fn selection() -> impl Strategy<Value = Selection> {
        let lists = (vec("-?[a-z]{1,8}", 1..3), uniform2(vec(ITEM, 0..3)), vec(ITEM, 1..3));
        (lists, uniform5(of(TEXT)), axes()).prop_map(|(lists, texts, axes)| {
            let (algorithm, [variant, size], device) = lists;
            let [precision, max_time, clock, cache, pause] = texts;
            let sampling = SamplingArgs { precision, max_time, clock, cache };
            Selection { algorithm, variant, size, axes, device, sampling, pause }
        })
    }

    fn of_bench() -> impl Strategy<Value = Request> {
        let processes = prop_oneof![(of(any::<u32>()), Just(None)), (Just(None), of(any::<u32>()))];
        let (texts, flags) = (uniform2(of(TEXT)), uniform4(any::<bool>()));
        (selection(), uniform2(TEXT), texts, flags, processes, vec(TEXT, 0..2), vulkan()).prop_map(
            |(
                selection,
                [label, tuned],
                [config, shard],
                [host, no_peak, no_tuned, no_commands],
                (processes, noise),
                only,
                vulkan,
            )| {
                let (label, tuned, config) = (Some(label), Some(tuned.into()), config.map(PathBuf::from));
                let kernels = None;
                Request {
                    kernels,
                    selection,
                    config,
                    no_commands,
                    shard,
                    label,
                    host,
                    no_peak,
                    tuned,
                    no_tuned,
                    processes,
                    noise,
                    only,
                    vulkan,
                }
            },
        )
    }

    fn kernels() -> impl Strategy<Value = KernelFiles> {
        let lists = (uniform10(vec(TEXT, 0..2)), vec(TEXT, 0..3), vec(ITEM, 0..2));
        (lists, uniform7(of(TEXT)), any::<[bool; 2]>()).prop_map(|((lists, kernel, against), texts, [by, tune])| {
            let [size, define, include, spec, conditions, push, buffer, bind, check, role] = lists;
            let [entry, vulkan, groups, answer, inputs_by, flops, bytes] = texts;
            let (right, right_by) = if by { (None, answer) } else { (answer, None) };
            let fields = Fields {
                size,
                define,
                include,
                entry,
                vulkan,
                spec,
                conditions,
                push,
                buffer,
                bind,
                check,
                groups,
                right,
                role,
                right_by,
                inputs_by,
                flops,
                bytes,
            };
            KernelFiles { kernel: kernel.into_iter().map(PathBuf::from).collect(), fields, against, tune }
        })
    }

    fn of_run() -> impl Strategy<Value = Request> {
        (kernels(), of_bench()).prop_map(|(kernels, of_bench)| {
            let Request { selection, config, no_commands, no_peak, processes, only, vulkan, .. } = of_bench;
            let Selection { device, axes, sampling, .. } = selection;
            let axes = axes.seed().into_iter().fold(AxisValues::default(), |axes, seed| axes.with("seed", seed));
            let selection = Selection { axes, device, sampling, ..Selection::default() };
            Request {
                kernels: Some(kernels),
                selection,
                config,
                no_commands,
                no_peak,
                processes,
                only,
                vulkan,
                ..Request::default()
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn the_command_of_a_request_asks_for_the_same(of_bench in of_bench(), of_run in of_run()) {
            for asked in [of_bench, of_run] {
                let command = asked.command();
                prop_assert_eq!(request(&command), asked, "{}", command);
            }
        }
    }

    #[test]
    fn the_command_of_a_request_names_what_is_not_usual_alone() {
        let command = "gpukern bench matmul lu --size=64 --seed=7 --solve --device=0";
        assert_eq!(Request { selection: request(command).selection, ..Request::default() }.command(), command);
        let run = Request {
            kernels: Some(KernelFiles { kernel: vec!["-k.comp".into()], ..KernelFiles::default() }),
            ..Request::default()
        };
        assert_eq!(run.command(), "gpukern run -- -k.comp");
    }
}
