//! The JSON document of a run. Its schema is `docs/record.schema.json`, generated from these types; a test compares
//! the two.

mod case_size;
mod caution;
pub mod class;
pub mod entry;
pub mod figure;
pub mod fixture;
pub mod marks;
pub mod merge;
mod origin;
mod outcome;
pub mod peak;
pub mod processes;
pub mod reader;
mod share;

use crate::algorithms::{Problem, Variant};
use crate::basis::dtype::DType;
use crate::basis::units::{Bytes, Nanos, Work, in_words};
use crate::case::Computes;
use crate::case::compiled::CompiledKernel;
use crate::case::input::Input;
use crate::case::method::{CacheState, Clock};
use crate::case::tile::CaseTile;
use crate::case::{CaseOptions, Form, Shortcut};
use crate::device::cache::sha256;
use crate::device::capability::DeviceInfo;
use crate::plan::axes::{self, AxisValues};
use crate::plan::options::Selection;
use crate::plan::request::Request;
use crate::plan::{CaseGroup, Shard};
pub use case_size::CaseSize;
pub use caution::{Caveat, Warning};
pub use entry::CatalogueEntry;
pub use origin::{CHOOSING, MAX_TEXT_LENGTH, Origin, changes_drivers, is_commit, short_commit};
pub use outcome::{
    Conditions, Correctness, Death, Energy, Measured, Outcome, Phases, Repeated, SKETCH_SUMS, SLOW, Sample,
    Verification, has_details, last_words,
};
pub use peak::Peak;
use serde::{Deserialize, Serialize};
pub use share::{AT_LEAST, AT_MOST, Limit, RANGE, Share};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::Path;

/// Name and version of the schema: the number changes when a reader of the old one would misread the new one.
pub const SCHEMA: &str = "gpukern-run/2";

/// Everything that one `bench` command measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Record {
    /// `gpukern-run/2`.
    pub schema: String,
    /// Kind of record, if its cases were not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Version of gpukern.
    pub version: String,
    /// When the run began (RFC 3339, UTC).
    pub started: String,
    /// The command line.
    pub command: Vec<String>,
    /// Request of the command: the options of `bench` or `run` that are not the usual ones, by their names. Absent in
    /// records of other commands, and in those from before it was noted.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::plan::request")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>")]
    pub request: Option<Request>,
    /// Origin: person, host and commit; for several processes, the facts that all of them share.
    #[serde(default, skip_serializing_if = "is_default")]
    pub origin: Origin,
    /// A hash of what was to be measured and how: one record completes another of the same plan. Absent where that is
    /// not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// A hash of the cases and the sampling that were asked for, of all shards and on whatever devices: records with
    /// the same one can be merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// The shards of these cases that it has; empty where it has all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<Shard>,
    /// The processes that measured it, where there were several: each case once in each (`--processes`), or some cases
    /// in one and the rest in another (`--resume`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
    /// How it was measured.
    pub method: Method,
    /// The devices that were measured.
    pub devices: Vec<DeviceInfo>,
    /// The limits of those devices that the shares refer to; empty where none were measured.
    #[serde(default)]
    pub peaks: Vec<Peak>,
    /// The cases, in the order they were measured.
    pub cases: Vec<Case>,
    /// Descriptions and sources of users' kernels, and files of their inputs and references. Empty without any; older
    /// records have fewer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_files: Vec<KernelFile>,
    /// Remarks about all cases of a device.
    #[serde(default)]
    pub caveats: Vec<Caveat>,
    /// Host time of the whole run, including what is not part of any case.
    pub wall_time: Nanos,
    /// Time that devices spent on verified runs, warm-ups and samples.
    #[serde(default)]
    pub device_time: Nanos,
    /// Cost of measuring besides the samples: `wall_time` minus `device_time`.
    #[serde(default)]
    pub overhead: Nanos,
}

/// File on which the cases of a user's kernels depend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct KernelFile {
    /// Path, as the command or the description states it.
    pub path: String,
    /// SHA-256 of the contents, in hexadecimal.
    pub sha256: String,
    /// Text of a description, and with `--sources` of a source or a script, as UTF-8 of at most 64 KiB; of all, at most 1 MiB.
    /// Its owner may not want to hand out more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl KernelFile {
    /// Most bytes of a text, and of all texts of a record.
    pub const MAX_TEXT: usize = 64 << 10;
    pub const MAX_TEXTS: usize = 1 << 20;

    /// Reads a file; `None` if it is gone, or a pipe, which can be read only once. Keeps a text of as many bytes as `left`
    /// allows, and takes them from it.
    pub fn read(path: &Path, left: &mut usize) -> Option<Self> {
        let contents = path.is_file().then(|| std::fs::read(path))?.ok()?;
        let sha256 = sha256(&contents);
        let fits = contents.len() <= Self::MAX_TEXT.min(*left);
        let text = fits.then(|| String::from_utf8(contents).ok()).flatten();
        *left -= text.as_ref().map_or(0, String::len);
        Some(Self { path: path.display().to_string(), sha256, text })
    }

    pub fn is_description(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|ending| ending == "toml")
    }

    /// Whether the text is that of the file, as its hash says.
    pub fn is_genuine(&self) -> bool {
        self.text.as_ref().is_none_or(|text| sha256(text.as_bytes()) == self.sha256)
    }
}

/// A kind of record that has no times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Its kernels were compiled and not run.
    Inspection,
}

/// Record with its file name.
#[derive(Clone, Debug)]
pub struct NamedRecord {
    /// File from which the record was read, or its name as given; escape it before printing.
    pub name: String,
    /// Record, with summaries that match its samples.
    pub record: Record,
    /// Notes about repairs and oddities, for standard error.
    pub notes: Vec<String>,
}

impl NamedRecord {
    /// Returns a record without notes.
    pub fn new(name: impl Into<String>, record: Record) -> Self {
        Self { name: name.into(), record, notes: vec![] }
    }
}

/// A process that measured cases of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Process {
    /// When it began (RFC 3339, UTC).
    pub started: String,
    /// Its command line.
    pub command: Vec<String>,
    /// Where it ran, and at which commit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub origin: Origin,
    /// Seed of the random order in which it took its cases; absent where that is the order of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
}

/// How a run was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Method {
    /// Whether the validation layers were on, which slows the host side down.
    pub validation: bool,
    /// Where the times of samples come from.
    pub clock: Clock,
    /// State of the caches before a sample.
    pub cache: CacheState,
    /// Whether devices kept accesses through descriptors inside of these (`robustBufferAccess`), as for kernels of a
    /// user's, which takes time. Absent where an older version measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robust_access: Option<bool>,
}

impl Method {
    /// Names what differs from another method: `clock and cache`.
    pub fn differences(&self, other: &Self) -> String {
        let parts = [
            ("validation layers", self.validation != other.validation),
            ("clock", self.clock != other.clock),
            ("cache", self.cache != other.cache),
            ("robust access", self.robust_access != other.robust_access),
        ];
        let names: Vec<_> = parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
        in_words(&names, "and")
    }
}

/// One variant on one problem on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Case {
    /// Stable name, the key that joins records: `matmul/subgroup/f32/1024x1024x1024`.
    pub id: String,
    /// Algorithm.
    pub algorithm: String,
    /// Variant.
    pub variant: String,
    /// The variant that `auto` chose, as if it had been named: `texel`, or `matmul:gemv` beside a user's kernel. Absent for
    /// others, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_by_auto: Option<String>,
    /// Chosen constants and sub-group size of a user's kernel, as its description has them. Absent if there is nothing to
    /// choose, and in older records.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub choice: BTreeMap<String, String>,
    /// Options of the case other than the size.
    #[serde(flatten)]
    pub options: CaseOptions,
    /// The catalogue's facts about it.
    #[serde(skip)]
    #[schemars(skip)]
    pub entry: CatalogueEntry,
    /// Element type of the output of a user's kernel, in older records, whose `dtype` is f32 then.
    #[serde(default, skip_serializing)]
    pub element: Option<DType>,
    /// Size as it was asked for: `1024`.
    #[schemars(with = "String")]
    pub size: CaseSize,
    /// Index of the device.
    pub device: usize,
    /// Index of the process that measured it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub process: usize,
    /// Place in the order of the request, where several processes took their cases in random orders. Absent from shards, and
    /// from older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// The buffers of a user's kernel and what fills them: `A f32[64,64] uniform(-1,1)`. Absent for the algorithms
    /// that are built in, whose input and seed say it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<String>,
    /// Nominal work.
    pub work: Work,
    /// Bytes of the outputs, all of which are written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub written: Bytes,
    /// The operations of a chain in which each waits for the one before, where the case is such a chain: the median
    /// divided by it is the time of one operation. `null` for others.
    pub chain: Option<u64>,
    /// Launches that must come one after the other.
    #[serde(default)]
    pub launches: u64,
    /// Arithmetic of the computation, if it is not the element type's; the share refers to its limit.
    #[serde(default)]
    pub computes: Option<Computes>,
    /// Shortcuts of the variant; it is ranked among variants with the same shortcuts.
    /// Absent if there are none, and in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortcuts: Vec<Shortcut>,
    /// Notes for readers besides the outcome: `float atomics: compare-exchange`.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The tile that it ran with, of which a note tells too; absent where there is none to choose, and in records from
    /// before it was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tile: Option<CaseTile>,
    /// The kernels that it runs.
    #[serde(default)]
    pub kernels: Vec<CompiledKernel>,
    /// How near its median comes to what the hardware allows for its problem: arithmetic, memory, one launch. `null`
    /// without measured limits.
    #[serde(default)]
    pub share: Option<Share>,
    /// How near its median comes to what its own launches allow, each waiting for the one before; absent where these
    /// are not what binds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<Share>,
    /// Median of the host baseline of the same problem, divided by this one's.
    #[serde(default)]
    pub speedup: Option<f64>,
    /// 95 % interval of a speed-up over another variant, which only tables state.
    #[serde(skip)]
    pub speedup_interval: Option<[f64; 2]>,
    /// Outcome of the case.
    pub outcome: Outcome,
}

fn is_default<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}

impl Record {
    /// Returns the name of a device, with its index if several have the same name.
    pub fn device_name(&self, index: usize) -> String {
        let Some(device) = self.device(index) else { return String::new() };
        let is_ambiguous = self.devices.iter().filter(|other| other.name == device.name).count() > 1;
        if is_ambiguous { format!("{} [{index}]", device.name) } else { device.name.clone() }
    }

    /// Returns the device with this index.
    pub fn device(&self, index: usize) -> Option<&DeviceInfo> {
        self.devices.iter().find(|device| device.index == index)
    }

    /// Returns the processes that measured the record; at least one.
    pub fn processes(&self) -> Vec<Process> {
        if !self.processes.is_empty() {
            return self.processes.clone();
        }
        let Self { started, command, origin, .. } = self.clone();
        vec![Process { started, command, order: None, origin }]
    }
}

/// Gives direct access to the options: `case.dtype`.
impl Deref for Case {
    type Target = CaseOptions;

    fn deref(&self) -> &CaseOptions {
        &self.options
    }
}

impl DerefMut for Case {
    fn deref_mut(&mut self) -> &mut CaseOptions {
        &mut self.options
    }
}

impl CaseGroup {
    /// Returns the case of the variant or baseline with this name on a device.
    pub fn case(&self, variant: &str, problem: &dyn Problem, device: usize, outcome: Outcome) -> Case {
        let entry = self.algorithm.variants.iter().find(|entry| entry.name == variant);
        let outputs: Vec<_> = problem.buffers().into_iter().filter(|buffer| buffer.role.is_output()).collect();
        Case {
            id: self.id_of(variant).to_string(),
            algorithm: self.algorithm.name.to_string(),
            variant: variant.into(),
            chosen_by_auto: None,
            choice: entry.map_or_else(BTreeMap::new, |entry| entry.choice.clone()),
            options: self.spec.options,
            entry: CatalogueEntry::default(),
            element: None,
            size: self.spec.size.into(),
            device,
            process: 0,
            place: None,
            buffers: problem.data(),
            work: problem.work(),
            written: Bytes(outputs.iter().map(|buffer| buffer.bytes().0).sum()),
            chain: problem.chain(),
            launches: 0,
            computes: None,
            shortcuts: entry.map_or(&[][..], Variant::shortcuts).to_vec(),
            notes: vec![],
            tile: None,
            kernels: vec![],
            share: None,
            structure: None,
            speedup: None,
            speedup_interval: None,
            outcome,
        }
    }
}

impl Case {
    /// Returns the key that joins cases of several records: the id, without the element type of a user's kernel, which
    /// older versions named f32, or as that of one output.
    pub fn key(&self) -> String {
        let Self { id, algorithm, variant, options, .. } = self;
        match id.strip_prefix(&format!("{algorithm}/{variant}/{}/", options.dtype)) {
            Some(extents) if !self.buffers.is_empty() => format!("{algorithm}/{variant}/{extents}"),
            _ => id.clone(),
        }
    }

    /// Brings the case of an older record up to date: moves its element type into its options and its id, and says that
    /// the description of a user's kernel states the input.
    pub(crate) fn update(&mut self) {
        if !self.buffers.is_empty() || self.kernels.iter().any(CompiledKernel::is_users) {
            self.options.input = Input::Described;
        }
        let Some(element) = self.element.take() else { return };
        let Self { id, algorithm, variant, options, .. } = self;
        if let Some(extents) = id.strip_prefix(&format!("{algorithm}/{variant}/{}/", options.dtype)) {
            *id = format!("{algorithm}/{variant}/{element}/{extents}");
        }
        options.dtype = element;
    }

    /// Returns options that select only this case, on any device.
    pub fn selection(&self) -> Selection {
        Selection {
            algorithm: vec![self.algorithm.clone()],
            variant: vec![self.variant.clone()],
            size: vec![self.size.to_string()],
            axes: AxisValues::of_case(&self.options),
            ..Selection::default()
        }
    }

    /// Returns the key that orders failures to be repeated, from the least work: operations and bytes, because the number of
    /// extents differs between notations of a size (`8` is `8x8x8` too), then the product of the extents. Sizes of a newer
    /// version come last.
    pub fn effort(&self) -> (u64, Bytes, u64) {
        let extents = self.size.known().map(|size| size.shortest().extents());
        let points = extents.map_or(u64::MAX, |extents| extents.into_iter().fold(1, u64::saturating_mul));
        (self.work.operations, self.work.bytes, points)
    }

    /// Returns the key of cases that are the same kind of failure: of the same kernels on a device. A variant has others for
    /// each element type and layout, and may have others for sizes that its tiles divide.
    pub fn failure_kind(&self) -> (usize, &str, &str, DType, Vec<&str>, &'static str) {
        let compiled = || self.kernels.iter().map(|kernel| &*kernel.name).collect();
        let kernels = match &self.outcome {
            Outcome::Crashed(death) | Outcome::TimedOut(death) if !death.kernels.is_empty() => {
                death.kernels.iter().map(|kernel| &**kernel).collect()
            }
            _ => compiled(),
        };
        (self.device, &self.algorithm, &self.variant, self.dtype, kernels, self.outcome.status())
    }

    /// Formats the size for a table row, with the required sub-group size if there is one.
    pub fn row(&self) -> String {
        self.subgroup_size.map_or_else(|| self.size.to_string(), |width| format!("{} @{width}", self.size))
    }

    /// Returns the operation of a chain, and its form.
    pub fn form(&self) -> Option<Form> {
        self.entry.form
    }

    /// Whether the answer is the same as that of `other`, regardless of variant, sub-group size and device.
    pub fn same_problem(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm
            && axes::same(&self.options, &other.options, |separates| separates.problems)
            && self.size.same(&other.size)
    }

    /// Whether tables and charts show this case together with `other`: same algorithm, goal, element type and input.
    pub fn same_kind(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && axes::same(&self.options, &other.options, |separates| separates.tables)
    }

    /// Returns the heading of this kind of case: `lu --solve f32, uniform input`. Without the input for a user's
    /// kernel, whose description defines it.
    pub fn kind(&self) -> String {
        self.subject() + &self.of_input()
    }

    /// Returns the input for a heading, `, uniform input`; empty for a user's kernel.
    pub fn of_input(&self) -> String {
        if self.entry.algorithm.is_some() { format!(", {} input", self.input) } else { String::new() }
    }

    /// Returns the algorithm with its goal, element type and any unusual layout: `lu --solve f32`.
    pub fn subject(&self) -> String {
        axes::heading(&self.algorithm, &self.options, |_| true)
    }

    /// Returns the algorithm with its goal: `lu --solve`.
    pub fn asked(&self) -> String {
        axes::heading(&self.algorithm, &self.options, |axis| axis.name == axes::GOAL.name)
    }

    /// Returns the arithmetic.
    pub fn computed_in(&self) -> Computes {
        self.computes.unwrap_or(Computes { dtype: self.dtype, operations: 1 })
    }

    /// Returns the measurement, if the case was measured.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            _ => None,
        }
    }

    /// Returns the verification, if the answer was checked.
    pub fn verification(&self) -> Option<&Verification> {
        match &self.outcome {
            Outcome::Rejected(verification) => Some(verification),
            _ => self.measured().and_then(|measured| measured.verification.verified()),
        }
    }

    /// Whether the case has a time, and an answer that was found right.
    pub fn is_verified(&self) -> bool {
        self.measured().is_some_and(|measured| measured.verification.verified().is_some())
    }

    /// Returns the measurement of a case with times; `verify` has only that of its one run, by which nobody judges.
    pub fn timed(&self) -> Option<&Measured> {
        self.measured().filter(|measured| !measured.samples.is_empty())
    }

    /// Whether the case has a time, and an answer of which nobody knows whether it is right.
    pub fn is_unverified(&self) -> bool {
        self.measured().is_some_and(|measured| measured.verification.verified().is_none())
    }

    /// Converts the time of the whole case to the displayed one: for a chain, the time of one operation.
    pub fn shown(&self, time: Nanos) -> Nanos {
        Nanos(time.0 / self.chain.unwrap_or(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::fixture::assert_committed;

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        assert_committed("docs/record.schema.json", &schemars::schema_for!(Record));
    }
}
