//! A request: what is to be measured and how, as one value, and the command that asks for the same.

#![allow(rustdoc::broken_intra_doc_links, clippy::doc_markdown, reason = "clap shows these texts as they are")]

use super::options::Selection;
use crate::basis::printable::shell_word;
use crate::run::options::Fields;
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use toml::{Table, Value};

/// What is to be measured and how. The names of its fields are those of the options of `bench` and of `run`.
#[derive(Clone, Debug, Default, PartialEq, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Request {
    /// The user's kernels, which `run` measures in place of algorithms.
    #[arg(skip)]
    #[serde(flatten)]
    pub(crate) kernels: Option<KernelFiles>,

    /// What to measure.
    #[command(flatten)]
    #[serde(flatten)]
    pub selection: Selection,

    /// Read what to measure from this TOML file
    ///
    /// Options on the command line override its fields. benches-config/ has examples.
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "texts")]
    pub config: Option<PathBuf>,

    /// Refuse descriptions that run commands
    ///
    /// Use this for descriptions that you do not trust: [reference] and [inputs] may have a command.
    #[arg(long)]
    pub no_commands: bool,

    /// Measure part I of N of the cases
    ///
    /// Parts take about the same time, and are the same on every machine; `merge` joins their records.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,

    /// Name the record in histories and reports: mesa-main, nightly
    ///
    /// [env: GPUKERN_LABEL]
    #[arg(long, value_name = "TEXT", env = "GPUKERN_LABEL", hide_env = true)]
    pub label: Option<String>,

    /// Add a CPU library's time for the same work, and the speed-ups
    ///
    /// `--device host` measures the CPU alone, without Vulkan.
    #[arg(long)]
    pub host: bool,

    /// Do not show shares of the device's limits
    #[arg(long)]
    pub no_peak: bool,

    /// Use the tiles that `gpukern tune` kept in this file
    ///
    /// [default: gpukern/tuned.toml in your configuration folder, if it exists] [env: GPUKERN_TUNED]
    #[arg(long, value_name = "FILE", env = "GPUKERN_TUNED", hide_env = true)]
    #[serde(serialize_with = "texts")]
    pub tuned: Option<PathBuf>,

    /// Use the built-in tiles, and let `auto` use its model
    #[arg(long)]
    pub no_tuned: bool,

    /// Measure each case in N fresh processes
    ///
    /// They run one after another, each with the cases in random order. One record holds all of them; tables show the
    /// median of the processes' medians, with ± between processes, and `compare` counts N processes.
    #[arg(long, value_name = "N")]
    pub processes: Option<u32>,

    /// Show how much N processes differ [default: 8 processes]
    ///
    /// Like --processes, with a table of their spread and of the smallest changes that a comparison can detect here.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "8")]
    #[arg(conflicts_with_all = ["compare", "processes"])]
    pub noise: Option<u32>,

    /// Measure only the case with this id; repeatable
    ///
    /// Use the id from a record or an error: matmul/naive/f32/64x64x64. With --resume, complete only this case of a record
    /// of all.
    #[arg(long, value_name = "ID")]
    pub only: Vec<String>,

    /// How Vulkan is loaded, watched and waited for.
    #[arg(skip)]
    #[serde(flatten)]
    pub vulkan: VulkanOptions,

    /// The user's defaults for what neither the options nor `config` say. Without `config` the selection has them.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) defaults: Selection,
}

/// Kernels of the user's, as `run` takes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct KernelFiles {
    /// Descriptions and sources.
    #[serde(serialize_with = "texts")]
    pub(crate) kernel: Vec<PathBuf>,
    #[serde(flatten)]
    pub(crate) fields: Fields,
    /// Variants of the built-in algorithm that is the reference.
    pub(crate) against: Vec<String>,
    /// Whether every choice of specialization constants is measured.
    pub(crate) tune: bool,
}

/// How Vulkan is loaded, watched and waited for. The last of several counts.
#[derive(Clone, Debug, PartialEq, clap::Parser, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct VulkanOptions {
    /// Run under the Khronos validation layer; any message is an error
    ///
    /// Synchronization validation is on. [env: GPUKERN_VALIDATION]
    #[arg(long, global = true, hide = true, overrides_with = "validation", env = "GPUKERN_VALIDATION", hide_env = true, value_parser = truth)]
    pub validation: bool,

    /// Load Vulkan from this library instead of the system's
    ///
    /// [env: GPUKERN_LOADER]
    #[arg(
        long,
        global = true,
        hide = true,
        overrides_with = "loader",
        value_name = "FILE",
        env = "GPUKERN_LOADER",
        hide_env = true
    )]
    #[serde(serialize_with = "texts")]
    pub loader: Option<PathBuf>,

    /// Keep compiled kernels and measured limits in this folder
    ///
    /// [default: gpukern in your cache folder] [env: GPUKERN_CACHE]
    #[arg(
        long,
        global = true,
        hide = true,
        overrides_with = "cache_dir",
        value_name = "DIR",
        env = "GPUKERN_CACHE",
        hide_env = true
    )]
    #[serde(serialize_with = "texts")]
    pub cache_dir: Option<PathBuf>,

    /// Abandon a driver call, and its case, after this time
    ///
    /// Pipeline compilation and a description's commands get ten times this; a call that was slow last time gets ten
    /// times that long.
    #[arg(long, global = true, hide = true, overrides_with = "timeout", value_name = "TIME", default_value = "30s")]
    pub timeout: String,

    /// Skip runs predicted to take longer than this; print the prediction
    #[arg(long, global = true, hide = true, overrides_with = "max_run", value_name = "TIME", default_value = "60s")]
    pub max_run: String,

    /// Do all device work in this process, for debuggers
    ///
    /// A driver that crashes ends gpukern, and there is no timeout for one that hangs.
    #[arg(long, global = true, hide = true, overrides_with = "in_process")]
    pub in_process: bool,
}

/// What a variable of the environment says of a flag; one that is empty is as good as none.
fn truth(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" | "on" => Ok(true),
        "" | "0" | "false" | "f" | "no" | "n" | "off" => Ok(false),
        _ => Err("set GPUKERN_VALIDATION to 1, true, yes or on, or to 0, false, no or off".into()),
    }
}

impl Default for VulkanOptions {
    fn default() -> Self {
        let (timeout, max_run) = ("30s".into(), "60s".into());
        Self { validation: false, loader: None, cache_dir: None, timeout, max_run, in_process: false }
    }
}

/// The positional arguments of the commands, by the names of their fields.
const POSITIONAL: [&str; 2] = ["algorithm", "kernel"];

impl Request {
    /// The command that asks for this, for a person to paste into a shell.
    #[must_use]
    pub(crate) fn command(&self) -> String {
        let command = if self.kernels.is_some() { "run" } else { "bench" };
        format!("gpukern {command} {}", self.arguments())
    }

    /// The arguments of [`Self::command`] behind the name of the command.
    #[must_use]
    pub(crate) fn arguments(&self) -> String {
        let usual = Self { kernels: self.kernels.is_some().then(KernelFiles::default), ..Self::default() };
        let [own, usual] = [self, &usual].map(|all| Table::try_from(all).expect("every field is a value of TOML"));
        let (mut positional, mut options) = (vec![], vec![]);
        // What is the default is left out: a person reads it.
        for (name, value) in own.into_iter().filter(|(name, value)| usual.get(name) != Some(value)) {
            let values = if let Value::Array(values) = value { values } else { vec![value] };
            for value in values {
                match value {
                    Value::String(text) if POSITIONAL.contains(&&*name) => positional.push(text),
                    Value::Boolean(_) => options.push(format!("--{name}")),
                    // In one word, so that a value that begins with a dash stays a value.
                    Value::String(text) => options.push(format!("--{name}={text}")),
                    // In JSON a small number is short.
                    Value::Float(number) => options.push(format!("--{name}={}", serde_json::Value::from(number))),
                    number => options.push(format!("--{name}={number}")),
                }
            }
        }
        // One that begins with a dash stays no option.
        let words = if positional.iter().any(|word| word.starts_with('-')) {
            options.push("--".into());
            options.into_iter().chain(positional)
        } else {
            positional.into_iter().chain(options)
        };
        words.map(|word| shell_word(&word).into_owned()).collect::<Vec<_>>().join(" ")
    }
}

/// Paths as the texts that a person reads: they need not be text.
fn texts<P, S: Serializer>(paths: &P, serializer: S) -> Result<S::Ok, S::Error>
where
    for<'a> &'a P: IntoIterator<Item = &'a PathBuf>,
{
    serializer.collect_seq(paths.into_iter().map(|path| path.to_string_lossy()))
}
