//! Request of a measurement as one value, and its command.

use super::options::Selection;
use crate::basis::command_line::{self, arguments};
use crate::basis::printable::shown_word;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::{Path, PathBuf};
use toml::Table;

/// Request of a measurement. Its fields have the names of the options of `bench` and `run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Request {
    /// User's kernels, which `run` measures instead of algorithms.
    pub kernels: Option<KernelFiles>,
    /// Algorithms, sizes, axes, devices and sampling.
    pub selection: Selection,
    /// Configuration that completes `selection`.
    #[serde(serialize_with = "command_line::path")]
    pub config: Option<PathBuf>,
    /// Whether descriptions that run commands are refused.
    pub no_commands: bool,
    /// Whether the record keeps the texts of the user's kernels.
    pub sources: bool,
    /// Part of the cases, as typed: `1/4`.
    pub shard: Option<String>,
    /// Name of the record in histories and reports.
    pub label: Option<String>,
    /// Whether a CPU library does the same work too.
    pub host: bool,
    /// Whether shares of the device's limits are left out.
    pub no_peak: bool,
    /// File of tuned tiles.
    #[serde(serialize_with = "command_line::path")]
    pub tuned: Option<PathBuf>,
    /// Whether tuned tiles are ignored.
    pub no_tuned: bool,
    /// Number of processes that measure each case.
    pub processes: Option<u32>,
    /// Number of processes that measure each case to show how much they differ.
    pub noise: Option<u32>,
    /// Ids of the only cases to be measured.
    pub only: Vec<String>,
    /// Options of Vulkan.
    pub vulkan: VulkanOptions,
    /// User's defaults for fields that neither the options nor `config` set. Without `config`, the selection includes
    /// them.
    #[serde(skip)]
    pub defaults: Selection,
}

/// User's kernels, with the arguments of `run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct KernelFiles {
    /// Descriptions and sources.
    #[serde(serialize_with = "command_line::paths")]
    pub kernel: Vec<PathBuf>,
    /// Fields of the description that options state.
    pub fields: FieldOptions,
    /// Variants of the built-in algorithm that is the reference.
    pub against: Vec<String>,
    /// Whether every choice of specialization constants is measured.
    pub tune: bool,
}

/// Options for loading Vulkan, validation and timeouts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct VulkanOptions {
    /// Whether the validation layer is on.
    pub validation: bool,
    /// Library to load Vulkan from.
    #[serde(serialize_with = "command_line::path")]
    pub loader: Option<PathBuf>,
    /// Folder of compiled kernels and measured limits.
    #[serde(serialize_with = "command_line::path")]
    pub cache_dir: Option<PathBuf>,
    /// Time after which a driver call is abandoned.
    pub timeout: String,
    /// Predicted time from which a run is skipped.
    pub max_run: String,
    /// Whether this process does all device work.
    pub in_process: bool,
    /// Whether the user's kernels run without robust buffer access.
    pub no_robust_access: bool,
}

/// Changes to a description from the command line, unparsed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Fields", rename_all = "kebab-case", default)]
pub struct FieldOptions {
    /// Values of axes: `M=512..4096`.
    pub size: Vec<String>,
    /// Macros: `NAME`, `NAME=TEXT`.
    pub define: Vec<String>,
    /// Folders that `#include` searches.
    pub include: Vec<String>,
    /// Entry point.
    pub entry: Option<String>,
    /// Values of other fields: `buffer.A.type=f16`.
    pub set: Vec<String>,
}

impl Default for VulkanOptions {
    fn default() -> Self {
        Self {
            validation: false,
            loader: None,
            cache_dir: None,
            timeout: "30s".into(),
            max_run: "60s".into(),
            in_process: false,
            no_robust_access: false,
        }
    }
}

impl Request {
    /// Whether results of `tune` matter: built-in variants have them, also beside the user's kernels.
    pub fn uses_tuned(&self) -> bool {
        !self.no_tuned && self.kernels.as_ref().is_none_or(|files| !files.against.is_empty())
    }

    /// Returns the command of this request, for pasting into a shell.
    pub fn command(&self) -> String {
        self.command_with("gpukern", Table::new())
    }

    /// Returns the command of this request for a program at this path, with the additional options `more`.
    pub fn command_with(&self, program: &str, more: Table) -> String {
        let command = if self.kernels.is_some() { "run" } else { "bench" };
        let fields = self.stated().into_iter().chain(more).collect();
        format!("{} {command} {}", shown_word(program), arguments(fields))
    }

    /// Returns the fields that differ from the defaults, as shown to the user.
    pub fn stated(&self) -> Table {
        let usual = Self { kernels: self.kernels.is_some().then(KernelFiles::default), ..Self::default() };
        let mut stated = command_line::stated(self, &usual);
        if self.kernels.is_some() {
            stated.entry("kernels").or_insert_with(|| Table::new().into());
        }
        stated
    }

    /// Returns this request without the number of processes.
    pub fn once(&self) -> Self {
        Self { processes: None, noise: None, ..self.clone() }
    }

    /// Returns this request with each path of a file replaced by that of `locate`, if it returns one.
    pub fn with_files(mut self, locate: impl Fn(&Path) -> Option<PathBuf>) -> Self {
        let kernels = self.kernels.iter_mut().flat_map(|kernels| &mut kernels.kernel);
        let options = [&mut self.config, &mut self.tuned, &mut self.vulkan.loader];
        for path in options.into_iter().flatten().chain(kernels) {
            if let Some(located) = locate(path) {
                *path = located;
            }
        }
        self
    }
}

/// Serializes the request of a record, with the fields that differ from the defaults.
pub fn serialize<S: Serializer>(request: &Option<Request>, serializer: S) -> Result<S::Ok, S::Error> {
    request.as_ref().map(Request::stated).serialize(serializer)
}

/// Deserializes the request of a record; `None` if another version wrote it, with unknown options.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Request>, D::Error> {
    Ok(serde_json::from_value(serde_json::Value::deserialize(deserializer)?).ok())
}
