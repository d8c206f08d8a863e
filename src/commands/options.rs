//! The options that state a request: one entry each, with its help and the field that it sets. `-h` shows the first paragraph
//! of a help text, `--help` all of it.

use crate::plan::axes::{self, AXES, Axis, Value};
use crate::plan::options::SamplingArgs;
use crate::{AxisValues, Request, Selection, VulkanOptions};
use clap::builder::{RangedU64ValueParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde::Serialize;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

/// Value whose fields are set by options of the command line.
pub trait Options: Default {
    /// Returns the options of a command.
    fn options(command: &str) -> Vec<Entry<Self>>;
}

/// Option, and the function that sets its field from the parsed command line.
pub struct Entry<T> {
    arg: Arg,
    set: Box<dyn Fn(&mut T, &ArgMatches)>,
}

/// Value parsed from the command line.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Typed<T>(pub T);

impl<T> Deref for Typed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Typed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Options> clap::Args for Typed<T> {
    fn augment_args(command: Command) -> Command {
        let entries = T::options(command.get_name());
        command.args(entries.into_iter().map(|entry| entry.arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Options> clap::FromArgMatches for Typed<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut value = T::default();
        for entry in T::options("") {
            // A command may have only some of the options.
            if matches.try_contains_id(entry.arg.get_id().as_str()).unwrap_or(false) {
                (entry.set)(&mut value, matches);
            }
        }
        Ok(Self(value))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: 'static> Entry<T> {
    fn new<V: Clone + Send + Sync + 'static>(arg: Arg, set: impl Fn(&mut T, Vec<V>) + 'static) -> Self {
        let id = arg.get_id().clone();
        let set = move |target: &mut T, matches: &ArgMatches| {
            set(target, matches.get_many(id.as_str()).into_iter().flatten().cloned().collect());
        };
        Self { arg, set: Box::new(set) }
    }

    pub(super) fn id(&self) -> &str {
        self.arg.get_id().as_str()
    }

    fn with(self, change: impl FnOnce(Arg) -> Arg) -> Self {
        Self { arg: change(self.arg), ..self }
    }

    /// Makes this an option of a value that has its own value in a field.
    fn within<U: 'static>(self, field: fn(&mut U) -> &mut T) -> Entry<U> {
        Entry { arg: self.arg, set: Box::new(move |target, matches| (self.set)(field(target), matches)) }
    }
}

/// Returns an argument from its usage, such as `config FILE`, with short and long help from the paragraphs of `help`.
fn documented(usage: &'static str, help: &'static str) -> Arg {
    let arg = match usage.split_once(' ') {
        None => Arg::new(usage).long(usage),
        Some((name, value)) => Arg::new(name).long(name).value_name(value),
    };
    match help.split_once("\n\n") {
        None => arg.help(help),
        Some((first, _)) => arg.help(first.trim_end_matches('.')).long_help(help),
    }
}

fn flag<T: 'static>(usage: &'static str, help: &'static str, field: fn(&mut T) -> &mut bool) -> Entry<T> {
    let set = move |target: &mut T, values: Vec<bool>| *field(target) = values == [true];
    Entry::new(documented(usage, help).action(ArgAction::SetTrue), set)
}

fn text<T: 'static>(usage: &'static str, help: &'static str, field: fn(&mut T) -> &mut Option<String>) -> Entry<T> {
    let set = move |target: &mut T, mut values: Vec<String>| *field(target) = values.pop();
    Entry::new(documented(usage, help), set)
}

/// Returns an option with a time value that has a default.
fn time<T: 'static>(
    usage: &'static str,
    default: &'static str,
    help: &'static str,
    field: fn(&mut T) -> &mut String,
) -> Entry<T> {
    let set = move |target: &mut T, values: Vec<String>| *field(target) = values.concat();
    Entry::new(documented(usage, help).default_value(default), set)
}

fn number<T: 'static>(usage: &'static str, help: &'static str, field: fn(&mut T) -> &mut Option<u32>) -> Entry<T> {
    let set = move |target: &mut T, mut values: Vec<u32>| *field(target) = values.pop();
    Entry::new(documented(usage, help).value_parser(value_parser!(u32).range(1..=1000)), set)
}

fn path<T: 'static>(usage: &'static str, help: &'static str, field: fn(&mut T) -> &mut Option<PathBuf>) -> Entry<T> {
    let set = move |target: &mut T, mut values: Vec<PathBuf>| *field(target) = values.pop();
    Entry::new(documented(usage, help).value_parser(value_parser!(PathBuf)), set)
}

/// Returns an option that can be repeated.
fn list<T: 'static>(usage: &'static str, help: &'static str, field: fn(&mut T) -> &mut Vec<String>) -> Entry<T> {
    let set = move |target: &mut T, values: Vec<String>| *field(target) = values;
    Entry::new(documented(usage, help).action(ArgAction::Append), set)
}

/// Makes a variable of the environment the default of an argument.
fn from_environment(arg: Arg, variable: &'static str) -> Arg {
    arg.env(variable).hide_env(true)
}

impl Options for Request {
    fn options(command: &str) -> Vec<Entry<Self>> {
        let selected = Selection::options(command)
            .into_iter()
            .map(|entry| entry.within(|target: &mut Self| &mut target.selection));
        selected.chain(sources()).chain(measuring()).collect()
    }
}

/// Returns the options for the source of a request, and for the part of it to measure.
fn sources() -> Vec<Entry<Request>> {
    vec![
        path(
            "config FILE",
            "Read what to measure from this TOML file\n\nOptions override its fields. benches-config/ has examples.",
            |target: &mut Request| &mut target.config,
        ),
        flag(
            "no-commands",
            "Refuse descriptions that run commands (for files that you do not trust)",
            |target: &mut Request| &mut target.no_commands,
        ),
        flag("sources", "Keep the text of your kernels in the record", |target: &mut Request| &mut target.sources),
        text(
            "shard I/N",
            "Measure part I of N of the cases\n\nParts take about the same time, and are the same on every machine; \
             `merge` joins their records.",
            |target: &mut Request| &mut target.shard,
        ),
        text(
            "label TEXT",
            "Name the record in histories and reports: mesa-main, nightly\n\n[env: GPUKERN_LABEL]",
            |target: &mut Request| &mut target.label,
        )
        .with(|arg| from_environment(arg, "GPUKERN_LABEL")),
        flag(
            "host",
            "Add a CPU library's time for the same work, and the speed-ups\n\n`--device host` measures the CPU alone, \
             without Vulkan.",
            |target: &mut Request| &mut target.host,
        ),
    ]
}

/// Returns the options for how cases are measured.
fn measuring() -> Vec<Entry<Request>> {
    vec![
        flag("no-peak", "Do not show shares of the device's limits", |target: &mut Request| &mut target.no_peak),
        path(
            "tuned FILE",
            "Use the tiles that `gpukern tune` saved in this file\n\n[default: gpukern/tuned.toml in your \
             configuration folder, if it exists] [env: GPUKERN_TUNED]",
            |target: &mut Request| &mut target.tuned,
        )
        .with(|arg| from_environment(arg, "GPUKERN_TUNED")),
        flag("no-tuned", "Use the built-in tiles, and let `auto` use its model", |target: &mut Request| {
            &mut target.no_tuned
        }),
        number(
            "processes N",
            "Measure each case in N fresh processes\n\nEach takes the cases in random order. One record \
             holds all of them; tables show the median of their medians with ± between processes.",
            |target: &mut Request| &mut target.processes,
        ),
        number(
            "noise N",
            "Show how much N processes differ [default: 8 processes]\n\nLike --processes, with the \
             smallest changes that a comparison can detect here.",
            |target: &mut Request| &mut target.noise,
        )
        .with(|arg| {
            let arg = arg.num_args(0..=1).require_equals(true).default_missing_value("8");
            arg.conflicts_with_all(["compare", "processes"])
        }),
        list(
            "only ID",
            "Measure only the cases with this id or pattern; repeatable\n\nTakes an id as \
             records and errors print it, words of \
             an id (naive/64x64x64), or a pattern ('*/tile-*'). With --resume, completes only these.",
            |target: &mut Request| &mut target.only,
        ),
    ]
}

impl Options for Selection {
    fn options(command: &str) -> Vec<Entry<Self>> {
        let comma = |arg: Arg| arg.value_delimiter(',');
        let set = |target: &mut Self, values| target.algorithm = values;
        let algorithm = Arg::new("algorithm").value_name("ALGORITHM").action(ArgAction::Append).num_args(1..);
        let entries = vec![
            Entry::new(algorithm.help("Algorithms to measure; `gpukern list` names them"), set),
            list(
                "variant NAME,..",
                "Variants by name, alias or pattern; all; auto [default: all]\n\n`*` stands for any text: 'tile-*'. \
                 `auto` is the fastest that `tune` measured, otherwise the one that a model predicts.",
                |target: &mut Self| &mut target.variant,
            )
            .with(|arg| comma(arg).short('V')),
            list(
                "size SWEEP",
                "Sizes: 1024, a sweep 128..8192, or MxNxK\n\n128,1000 · 128..8192 (doubling) · 128..1024:128 (step) \
                 · 2^16..2^25 · 1000x70x130 · @FILE (one per line).",
                |target: &mut Self| &mut target.size,
            )
            .with(|arg| comma(arg).short('s').allow_negative_numbers(true)),
            list(
                "device DEVICE,..",
                "Devices: an index, part of a name, gpu, cpu, all\n\nA UUID also works. `host` is the CPU's cores, \
                 without Vulkan. [default: the best GPU, otherwise the software device] [env: GPUKERN_DEVICE]",
                |target: &mut Self| &mut target.device,
            )
            .with(|arg| from_environment(comma(arg).short('d'), "GPUKERN_DEVICE")),
            text(
                "pause TIME",
                "Wait this long before each sample, so that the device idles and lowers its clock. For tests",
                |target: &mut Self| &mut target.pause,
            )
            .with(|arg| arg.hide(true)),
        ];
        let axes =
            AxisValues::options(command).into_iter().map(|entry| entry.within(|target: &mut Self| &mut target.axes));
        let sampling = SamplingArgs::options(command).into_iter();
        entries
            .into_iter()
            .chain(axes)
            .chain(sampling.map(|entry| entry.within(|target: &mut Self| &mut target.sampling)))
            .collect()
    }
}

impl Options for AxisValues {
    fn options(command: &str) -> Vec<Entry<Self>> {
        AXES.iter().filter_map(|axis| axis_option(axis, command)).collect()
    }
}

/// Returns the option of an axis; `None` if the command does not have it.
fn axis_option(axis: &'static Axis, command: &str) -> Option<Entry<AxisValues>> {
    let arg = Arg::new(axis.name).long(axis.name).short(axis.short).help(axis.help.of(command)?);
    // The simulator refuses it, and names its own option.
    let arg = arg.hide(command == "sanitize" && axis.name == axes::SUBGROUP_SIZE.name);
    let set = |target: &mut AxisValues, texts| target.set(axis, texts);
    Some(match axis.value {
        Value::Flag => Entry::new(arg.action(ArgAction::SetTrue), |target: &mut AxisValues, values: Vec<bool>| {
            target.set(axis, values.into_iter().filter(|is_set| *is_set).map(|_| "true".into()).collect());
        }),
        Value::List(name) => Entry::new(arg.value_name(name).action(ArgAction::Append).value_delimiter(','), set),
        Value::Word(name) => Entry::new(arg.value_name(name), set),
        Value::Whole(name, most) => {
            let parser = RangedU64ValueParser::<u64>::new().range(0..=most).map(|number| number.to_string());
            Entry::new(arg.value_name(name).value_parser(ValueParser::new(parser)), set)
        }
        Value::Real(name) => {
            let parser = |text: &str| text.parse::<f64>().map(|number| number.to_string());
            Entry::new(arg.value_name(name).allow_negative_numbers(true).value_parser(parser), set)
        }
    })
}

impl Options for SamplingArgs {
    fn options(_: &str) -> Vec<Entry<Self>> {
        vec![
            text(
                "precision PERCENT",
                "Sample to this ± of the median [default: 1%]\n\nSampling ends when its 95 % confidence interval is within ± \
                 this percentage.",
                |target: &mut Self| &mut target.precision,
            ),
            text(
                "max-time TIME",
                "Stop sampling a case after this time [default: 1s]\n\nAlso after 1000 samples, whatever the precision.",
                |target: &mut Self| &mut target.max_time,
            ),
            text(
                "clock CLOCK",
                "Time samples with the device's clock or the host's [default: device]\n\n`host` times \
                 submissions of at least 100 ms.",
                |target: &mut Self| &mut target.clock,
            ),
            text(
                "cache STATE",
                "Caches before each run: hot or cold [default: hot]\n\n`cold` flushes them by reading 1 GiB (at most a \
                 quarter of the device's memory).",
                |target: &mut Self| &mut target.cache,
            ),
            flag(
                "energy",
                "Also measure each case's energy\n\nAdds joules per run and GFLOP/J, read from the board while each case runs \
                 on for 2.5 s (NVIDIA only, through NVML).",
                |target: &mut Self| &mut target.energy,
            ),
        ]
    }
}

impl Options for VulkanOptions {
    fn options(_: &str) -> Vec<Entry<Self>> {
        let entries = vec![
            flag(
                "validation",
                "Run under the Khronos validation layer; any message is an error\n\nSynchronization validation is on. \
                 [env: GPUKERN_VALIDATION]",
                |target: &mut Self| &mut target.validation,
            )
            .with(|arg| from_environment(arg.value_parser(truth), "GPUKERN_VALIDATION")),
            path(
                "loader FILE",
                "Load Vulkan from this library instead of the system's\n\n[env: GPUKERN_LOADER]",
                |target: &mut Self| &mut target.loader,
            )
            .with(|arg| from_environment(arg, "GPUKERN_LOADER")),
            path(
                "cache-dir DIR",
                "Keep compiled kernels and measured limits in this folder\n\n[default: gpukern in your cache folder] \
                 [env: GPUKERN_CACHE]",
                |target: &mut Self| &mut target.cache_dir,
            )
            .with(|arg| from_environment(arg, "GPUKERN_CACHE")),
            time(
                "timeout TIME",
                "30s",
                "Abandon a driver call, and its case, after this time\n\nPipeline compilation (except in \
                 `inspect`) and a description's commands get ten times as long. A call that was slow before gets ten times its earlier time.",
                |target: &mut Self| &mut target.timeout,
            ),
            time(
                "max-run TIME",
                "60s",
                "Skip runs predicted to take longer than this; print the prediction",
                |target: &mut Self| &mut target.max_run,
            ),
            flag(
                "in-process",
                "Do all device work in this process, for debuggers\n\nA driver that crashes ends gpukern, and there is \
                 no timeout for one that hangs.",
                |target: &mut Self| &mut target.in_process,
            ),
            flag(
                "no-robust-access",
                "Run your own kernels without robust buffer access\n\nThey are timed as in a program that does not \
                 enable it; one that accesses memory out of bounds may then crash the driver.",
                |target: &mut Self| &mut target.no_robust_access,
            ),
        ];
        // If an option is repeated, the last value counts.
        let global = |arg: Arg| {
            let id = arg.get_id().clone();
            arg.global(true).overrides_with(id)
        };
        entries.into_iter().map(|entry| entry.with(global)).collect()
    }
}

/// Parses the value of a flag in a variable of the environment; an empty value means off.
fn truth(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" | "on" => Ok(true),
        "" | "0" | "false" | "f" | "no" | "n" | "off" => Ok(false),
        _ => Err("set GPUKERN_VALIDATION to 1, true, yes or on, or to 0, false, no or off".into()),
    }
}
