//! A request: what is to be measured and how, as one value, and the command that asks for the same.

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

    /// Measure what this TOML file says; options given here win over its fields. See benches-config/.
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "texts")]
    pub config: Option<PathBuf>,

    /// Refuse descriptions that have commands run ([reference] command, [inputs] command): for those of others.
    #[arg(long)]
    pub no_commands: bool,

    /// Measure one of so many parts of the cases, about equal in time, the same for everybody; `merge` joins the records.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,

    /// Call the record so, in histories and reports: `mesa-main`, `nightly`.
    #[arg(long, value_name = "TEXT", env = "GPUKERN_LABEL", hide_env_values = true)]
    pub label: Option<String>,

    /// Add what one would use on the CPU for the same work, and the speed-up of each variant over it. `--device host`
    /// measures that alone, without Vulkan.
    #[arg(long)]
    pub host: bool,

    /// Do not hold cases against the limits of the device.
    #[arg(long)]
    pub no_peak: bool,

    /// Take the tiles that `gpukern tune` kept from this file [default: gpukern/tuned.toml in the user's configuration
    /// folder, if there is one].
    #[arg(long, value_name = "FILE", env = "GPUKERN_TUNED", hide_env_values = true)]
    #[serde(serialize_with = "texts")]
    pub tuned: Option<PathBuf>,

    /// Take the built-in tiles, and the model's choice for `--variant auto`.
    #[arg(long)]
    pub no_tuned: bool,

    /// Measure each case in so many fresh processes, one after the other, the cases in random order: one record holds all,
    /// tables show the median of the processes' medians, ± between processes, and `compare` takes them as so many.
    #[arg(long, value_name = "N")]
    pub processes: Option<u32>,

    /// The same, with a table of how far the processes lie apart and which changes a comparison here can see
    /// [default: 8 processes].
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "8")]
    #[arg(conflicts_with_all = ["compare", "processes"])]
    pub noise: Option<u32>,

    /// Measure only the case with this id, as records and errors name it; repeatable.
    #[arg(long, value_name = "ID")]
    pub only: Vec<String>,

    /// How Vulkan is loaded, watched and waited for.
    #[arg(skip)]
    #[serde(flatten)]
    pub vulkan: VulkanOptions,
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
    /// Run under the Khronos validation layer, synchronisation validation on; any message is an error.
    #[arg(long, global = true, hide = true, overrides_with = "validation", env = "GPUKERN_VALIDATION", hide_env_values = true, value_parser = truth)]
    pub validation: bool,

    /// Load Vulkan from this library in place of the system's loader.
    #[arg(
        long,
        global = true,
        hide = true,
        overrides_with = "loader",
        value_name = "FILE",
        env = "GPUKERN_LOADER",
        hide_env_values = true
    )]
    #[serde(serialize_with = "texts")]
    pub loader: Option<PathBuf>,

    /// Keep compiled kernels and measured limits in this folder [default: gpukern in the user's cache folder].
    #[arg(
        long,
        global = true,
        hide = true,
        overrides_with = "cache_dir",
        value_name = "DIR",
        env = "GPUKERN_CACHE",
        hide_env_values = true
    )]
    #[serde(serialize_with = "texts")]
    pub cache_dir: Option<PathBuf>,

    /// Abandon a driver call, and its case, after this time; after ten times this time while it compiles a pipeline, and
    /// after ten times what it took before if that is longer. A command of a description has ten times this time
    #[arg(long, global = true, hide = true, overrides_with = "timeout", value_name = "TIME", default_value = "30s")]
    pub timeout: String,

    /// Time that one run of a program may take: what is foretold to take longer is skipped, with the forecast.
    #[arg(long, global = true, hide = true, overrides_with = "max_run", value_name = "TIME", default_value = "60s")]
    pub max_run: String,

    /// Do all work on devices in this process, for debuggers. A driver that crashes ends it, and one that hangs is
    /// waited for.
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
