//! The JSON document of a run. Its schema is `docs/record.schema.json`, generated from these types; a test compares
//! the two.

mod case_size;
pub mod class;
pub mod entry;
pub mod figure;
pub mod fixture;
pub mod marks;
pub mod merge;
mod origin;
pub mod peak;
pub mod processes;
pub mod reader;

use crate::algorithms::{Problem, Variant};
use crate::basis::dtype::DType;
use crate::basis::error::{Error, Exit};
use crate::basis::units::Metric;
use crate::basis::units::{Bytes, Nanos, Work, percent, significant};
use crate::case::Computes;
use crate::case::accepted::AcceptedMutation;
use crate::case::check::{CheckMethod, CheckResult, WrongElements};
use crate::case::compiled::CompiledKernel;
use crate::case::method::{CacheState, Clock};
use crate::case::tile::CaseTile;
use crate::case::{CaseOptions, Form, Shortcut};
use crate::device::capability::DeviceInfo;
use crate::plan::axes::{self, AxisValues};
use crate::plan::options::Selection;
use crate::plan::request::Request;
use crate::plan::{CaseGroup, Shard};
use crate::stats::{Summary, noise};
pub use case_size::CaseSize;
pub use entry::CatalogueEntry;
pub use origin::{CHOOSING, MAX_TEXT_LENGTH, Origin, is_commit};
pub use peak::Peak;
use serde::{Deserialize, Deserializer, Serialize};
use std::ops::{Deref, DerefMut};

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

/// One variant on one problem on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Case {
    /// Stable name, the key that joins records: `matmul/subgroup/f32/1024x1024x1024`.
    pub id: String,
    /// Algorithm.
    pub algorithm: String,
    /// Variant.
    pub variant: String,
    /// Options of the case other than the size.
    #[serde(flatten)]
    pub options: CaseOptions,
    /// What the catalogue says of it.
    #[serde(skip)]
    #[schemars(skip)]
    pub entry: CatalogueEntry,
    /// Element type of the output of a user's kernel, where that is none of `dtype`, which is f32 then.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "of_buffer")]
    #[schemars(with = "Option<String>")]
    pub element: Option<DType>,
    /// Size as it was asked for: `1024`.
    #[schemars(with = "String")]
    pub size: CaseSize,
    /// Index of the device.
    pub device: usize,
    /// Index of the process that measured it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub process: usize,
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
    /// Outcome of the case.
    pub outcome: Outcome,
}

/// Outcome of a case.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Outcome {
    /// The answer is right and was timed.
    Measured(Box<Measured>),
    /// The answer is wrong, or the data have none: there is no time.
    Rejected(Verification),
    /// The device cannot run it.
    Skipped {
        /// The missing feature, operation or limit.
        reason: String,
    },
    /// The device or its driver failed, or nobody could say what the answer is.
    Failed {
        /// Description of the failure.
        error: String,
        /// Whether the user can mend it, as in a reference script.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        mistake: bool,
    },
    /// Its process died: the driver's fault or the kernel's. Readers from before this and the next refuse the record.
    Crashed(Death),
    /// It did not end within its time, and its process was ended.
    TimedOut(Death),
    /// The run was interrupted before this case had a sample.
    Interrupted,
    /// Its kernels were compiled and not run. Readers from before this refuse the record.
    Inspected,
}

impl Outcome {
    /// Returns the outcome of a case that the device, its driver or the system failed.
    pub fn failed(error: String) -> Self {
        Self::Failed { error, mistake: false }
    }

    /// Returns the outcome of a case that ended with `error`.
    pub fn of(error: &Error) -> Self {
        Self::Failed { error: error.to_string(), mistake: matches!(error, Error::Usage(_)) }
    }

    /// Returns the exit code of a failure.
    pub fn exit(&self) -> Option<Exit> {
        match self {
            Self::Failed { mistake: true, .. } => Some(Exit::Usage),
            Self::Failed { .. } | Self::Crashed(_) | Self::TimedOut(_) => Some(Exit::Failure),
            _ => None,
        }
    }

    /// Returns the reason of a failure, crash or timeout, for which the device, its driver or the system is at fault.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Failed { error, .. } => Some(error.clone()),
            Self::Crashed(death) | Self::TimedOut(death) => Some(death.to_string()),
            _ => None,
        }
    }

    /// Returns the reason for a missing time: a wrong answer, a missing capability or a failure.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Rejected(verification) => Some(match verification.wrong.count {
                0 | 1 => verification.worst.clone(),
                count => format!("{} (one of {count} wrong elements)", verification.worst),
            }),
            Self::Skipped { reason } => Some(reason.clone()),
            _ => self.failure(),
        }
    }

    /// Returns the status in prose: `timed out`. For programs it is spelled as in the record: `timed-out`.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Measured(_) => "measured",
            Self::Rejected(_) => "rejected",
            Self::Skipped { .. } => "skipped",
            Self::Failed { .. } => "failed",
            Self::Crashed(_) => "crashed",
            Self::TimedOut(_) => "timed out",
            Self::Interrupted => "interrupted",
            Self::Inspected => "inspected",
        }
    }
}

/// The end of the process that ran a case, and of the case with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Death {
    /// How it ended: `SIGSEGV`, `exit code 1`, `vkWaitForFences has not returned after 30 s`.
    pub cause: String,
    /// The kernels of the case, one of which was being compiled or run.
    pub kernels: Vec<String>,
    /// The driver and its version.
    pub driver: String,
    /// The last lines that the process wrote to standard error.
    #[serde(default)]
    pub said: Vec<String>,
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cause, kernels, driver, said } = self;
        write!(f, "{cause} (in {}; driver {driver})", kernels.join(", "))?;
        match said.last() {
            Some(last) => write!(f, "; its process last printed: {last}"),
            None => Ok(()),
        }
    }
}

/// A timed case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Measured {
    /// Whether the answer is right.
    pub verification: Correctness,
    /// Wrong answers, made from the right one, that its check would also accept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<AcceptedMutation>,
    /// A fingerprint of the contents of its inputs, where files or another program supply them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// Device time of one run of the program.
    pub summary: Summary,
    /// Runs of the program in each sample; a sample's device time is divided by it.
    pub repeats: u32,
    /// Every sample, in the order taken.
    pub samples: Vec<Sample>,
    /// Warnings for readers of the numbers.
    pub warnings: Vec<Warning>,
    /// Conditions around the samples.
    #[serde(default)]
    pub conditions: Conditions,
    /// Energy of a run, if requested and if the device reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// Whether its answer was the same in further runs, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<Repeated>,
    /// Host time spent on the case.
    pub phases: Phases,
}

/// Answers of further runs, each with the same bits in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Repeated {
    /// Number of runs.
    pub runs: u32,
    /// Runs whose answer differs from that of the first.
    pub differing: u32,
    /// The first of them, counted from 1; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
    /// The first element that differs there, and both values.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub element: String,
}

impl std::fmt::Display for Repeated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { runs, differing, first, element } = self;
        match first {
            None => write!(f, "its answer was the same in {runs} runs"),
            Some(first) => {
                write!(f, "its answer differs in {differing} of {runs} runs, first in run {first}: {element}")
            }
        }
    }
}

/// Energy of a case that ran back to back, by the counter of its whole board: idle power and memory are in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Energy {
    /// Joules of one run of the program.
    pub joules: f64,
    /// Mean power of the board meanwhile, in watts.
    pub watts: f64,
    /// Time between the two readings of the counter, in seconds.
    pub seconds: f64,
    /// Share of that time in which the device ran the program: the rest are gaps between submissions, which count too.
    pub busy: f64,
}

impl Energy {
    /// Describes the energy of a case with this work, in a sentence.
    pub fn sentence(self, work: Work) -> String {
        let Self { joules, watts, seconds, busy } = self;
        let efficiency = match work.operations {
            0 => String::new(),
            _ => format!(" ({} GFLOP/J)", work.per_joule(joules)),
        };
        format!(
            "energy: {} J a run{efficiency}, {watts:.0} W over {seconds:.1} s, of which the device ran it {}",
            significant(joules),
            percent(busy)
        )
    }
}

/// Whether the answer of a timed case is right.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Correctness {
    /// It is: this is what was found when it was checked.
    Verified(Verification),
    /// Nobody knows. A reader from before this variant misses the `tolerance` and refuses the record.
    Unverified {
        /// Why it was not checked.
        unverified: String,
    },
}

impl Correctness {
    /// Returns the verification, if the answer was checked.
    pub fn verified(&self) -> Option<&Verification> {
        match self {
            Self::Verified(verification) => Some(verification),
            Self::Unverified { .. } => None,
        }
    }

    /// Returns a sentence with the reason if the answer was not checked.
    pub fn unverified(&self) -> Option<String> {
        match self {
            Self::Verified(_) => None,
            Self::Unverified { unverified } => Some(format!("unverified: {unverified}")),
        }
    }
}

impl From<Verification> for Correctness {
    fn from(verification: Verification) -> Self {
        Self::Verified(verification)
    }
}

impl Measured {
    /// Returns one sentence per reason for doubt: an unverified answer, accepted mutations, warnings.
    pub fn cautions(&self) -> impl Iterator<Item = String> {
        let warnings = self.warnings.iter().map(|warning| warning.explanation().to_string());
        self.verification.unverified().into_iter().chain(AcceptedMutation::sentence(&self.accepts)).chain(warnings)
    }
}

/// How near a case comes to a limit of its device: the ratio of the least time that the limit allows for its nominal
/// work to its median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Share {
    /// The limit that allows the least.
    pub limit: Limit,
    /// The least time that it allows.
    pub least: Nanos,
    /// Predicted time at the limit divided by the median: 1 at the limit.
    pub fraction: f64,
    /// Between which shares it lies, as the limit is known; absent in records from before that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// Prefix of a share of which only the upper bound is known.
pub const AT_MOST: &str = "≤";

impl Share {
    /// Formats the share with `percent`; as an upper bound, `≤52%`, if a limit that was measured on a busy device
    /// leaves the share uncertain by a factor of two.
    pub fn told(self, percent: impl Fn(f64) -> String) -> String {
        format!("{}{}", if self.most().is_some() { AT_MOST } else { "" }, percent(self.shown()))
    }

    /// Returns the displayed fraction: the upper bound if only that is known.
    pub fn shown(self) -> f64 {
        self.most().unwrap_or(self.fraction)
    }

    /// Formats the shortest time that the limit allows, `≤52.10 µs`; divided by the median, it gives the displayed
    /// share.
    pub fn least_told(self, case: &Case) -> String {
        let (sign, least) = match self.most() {
            Some(most) => (AT_MOST, Nanos(self.least.0 * most / self.fraction)),
            None => ("", self.least),
        };
        format!("{sign}{}", case.shown(least))
    }

    /// Returns the upper bound of the share, if only that is known.
    pub fn most(self) -> Option<f64> {
        self.interval.filter(|[low, high]| *high > 2.0 * low).map(|[_, high]| high.min(1.0))
    }

    /// Whether the share is informative: not if the limit is so uncertain that the share may be anything up to 1, or
    /// its bounds differ by a large factor.
    pub fn is_known(self) -> bool {
        const WIDE: f64 = 8.0;
        self.interval.is_none_or(|[low, high]| high <= 2.0 * low || high <= 1.0 && high < WIDE * low)
    }

    /// Returns the share of the same limit for another time.
    pub fn of_time(self, median: Nanos) -> Self {
        let fraction = self.least.0 / median.0;
        let scale = fraction / self.fraction;
        Self { fraction, interval: self.interval.map(|ends| ends.map(|end| end * scale)), ..self }
    }
}

/// Limit that bounds the speed of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The arithmetic rate for its element type.
    Compute,
    /// The bandwidth for a working set of its size.
    Memory,
    /// The time of a launch, or of as many as the case's structure has.
    Launch,
}

impl Limit {
    /// Returns the name in tables and pages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Launch => "launch",
        }
    }
}

/// Conditions around the samples of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Conditions {
    /// Time of the canary kernel, a fixed chain of dependent arithmetic, before and after the samples.
    pub canary: Option<[Nanos; 2]>,
    /// Steps of that chain: times of canaries of other lengths say nothing beside each other. 2048 where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_steps: Option<u32>,
    /// Median of all its readings around and between the samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_median: Option<Nanos>,
    /// The best that it ever took on this device with this driver, as far as is known when the run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_best: Option<Nanos>,
    /// Clock of the device in MHz before and after the samples, where the system tells it.
    pub clock_mhz: Option<[f64; 2]>,
    /// Share of the host's processors that other programs took from warm-up to the last sample, or since the run began
    /// where that was too short; for what runs on these processors itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// Time on the host's processors, of all threads together, that one run took: the median over the samples, in
    /// nanoseconds; for what runs on these processors itself. Other programs hardly change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Nanos>,
}

/// Ratio by which a canary may be slower than its best before the device counts as slow.
pub const SLOW: f64 = 1.05;

impl Conditions {
    /// Returns the canary's time while the case was sampled.
    pub fn canary(&self) -> Option<Nanos> {
        let midpoint = self.canary.map(|[before, after]| Nanos(f64::midpoint(before.0, after.0)));
        self.canary_median.or(midpoint).filter(|time| time.0 > 0.0)
    }

    /// Returns the canary's time while the case was sampled, divided by its best.
    pub fn slowness(&self) -> Option<f64> {
        Some(self.canary()?.0 / self.canary_best?.0).filter(|ratio| ratio.is_finite())
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sample {
    /// Time of one run of the program by the clock of the method, in nanoseconds.
    #[serde(rename = "device")]
    pub time: Nanos,
    /// Host time from submission to completion of the whole sample, in nanoseconds.
    pub host: Nanos,
    /// Whether it lies more than three interquartile ranges outside the quartiles (Tukey's far out). Labelled, never
    /// dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outlier: bool,
}

/// How right an answer is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Verification {
    /// The largest error in the terms of the algorithm's error bound; `null` where there is none: an output is
    /// not finite, or the kernel wrote beside its buffers.
    pub residual: Option<f64>,
    /// The largest residual that a right implementation can have.
    pub tolerance: f64,
    /// How the answer was checked.
    pub method: CheckMethod,
    /// Where the answer is worst; empty when it is exact.
    pub worst: String,
    /// Other figures of the answer: rounds, growth factor, ….
    pub metrics: Vec<Metric>,
    /// The elements that are wrong, where single ones can be told.
    #[serde(default, skip_serializing_if = "WrongElements::is_empty")]
    pub wrong: WrongElements,
}

impl From<CheckResult> for Verification {
    fn from(check: CheckResult) -> Self {
        Self {
            residual: check.residual.is_finite().then_some(check.residual),
            tolerance: check.tolerance,
            method: check.method,
            worst: check.worst,
            metrics: check.metrics,
            wrong: check.wrong,
        }
    }
}

impl Verification {
    /// Formats the residual with its tolerance.
    pub fn figures(&self) -> String {
        let residual =
            self.residual.map_or_else(|| "no residual".into(), |residual| format!("residual {residual:.2e}"));
        format!("{residual}, allowed {:.2e}", self.tolerance)
    }

    /// Returns the verification of outputs that are no answer: a zero pivot, too few rounds, writes out of bounds.
    pub fn without_answer(reason: String) -> Self {
        let method = CheckMethod::Elementwise;
        let metrics = vec![];
        let wrong = WrongElements::default();
        Self { residual: None, tolerance: 0.0, method, worst: reason, metrics, wrong }
    }
}

/// A reason to be careful with a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The batches of the warm-up did not settle within 1 %.
    UnstableClock,
    /// Sampling ended at the time limit before the asked-for precision.
    TimeLimit,
    /// Sampling was interrupted.
    Interrupted,
    /// The process was stopped (SIGSTOP, Ctrl-Z) and went on during samples, which were dropped.
    Stopped {
        /// How many.
        dropped: u32,
    },
    /// The canary kernel ran at another speed after the samples than before.
    Drift {
        /// Its time after, divided by its time before.
        ratio: f64,
    },
    /// The canary kernel ran slower than at its best on this device and driver: the clock was low, or others use it.
    SlowClock {
        /// Its time around the samples, divided by its best.
        ratio: f64,
    },
    /// The case beats the limit that binds it, so one of the two figures is wrong.
    AboveLimit {
        /// Its share of the limit, more than 1.
        fraction: f64,
    },
}

impl Warning {
    /// Describes the kind of warning, for the footer of a table.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::UnstableClock => "times did not settle within 1 % during warm-up",
            Self::TimeLimit => "sampling reached --max-time (or 1000 samples) before --precision",
            Self::Interrupted => "interrupted while sampling",
            Self::Stopped { .. } => "the process was suspended during sampling; the samples around that were dropped",
            Self::Drift { .. } => {
                "the device's speed changed by more than 2 % during sampling, as a fixed kernel beside it shows"
            }
            Self::SlowClock { .. } => {
                "the device ran more than 5 % slower than at its best, as a fixed kernel beside it shows"
            }
            Self::AboveLimit { .. } => "faster than the measured limit, which is therefore wrong; rerun `gpukern peak`",
        }
    }
}

/// Remarks about all cases of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Caveat {
    /// Intervals are of this process. Others of the same program lie further apart on the host's cores: memory lies
    /// elsewhere, threads start on other cores, and other programs take their part.
    OneProcess {
        /// Index of the device.
        device: usize,
        /// How far the medians of two processes are assumed to lie apart (95 of 100 times), as a ratio less 1.
        apart: f64,
    },
    /// It was measured while others were, which slowed it down. Readers from before this and the next refuse the
    /// record.
    Disturbed {
        /// Index of the device.
        device: usize,
        /// Time of the canary kernel beside the others, divided by its time alone.
        ratio: f64,
    },
}

impl Caveat {
    /// Returns the caveats about `devices`.
    pub fn of(devices: &[DeviceInfo]) -> Vec<Self> {
        let on_host = devices.iter().filter(|device| device.kind.runs_on_host_cores());
        on_host.map(|device| Self::OneProcess { device: device.index, apart: noise::ASSUMED_ON_HOST }).collect()
    }

    /// Returns this caveat with its device's index mapped by `index`.
    fn moved(self, index: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::OneProcess { device, apart } => Self::OneProcess { device: index(device), apart },
            Self::Disturbed { device, ratio } => Self::Disturbed { device: index(device), ratio },
        }
    }
}

impl std::fmt::Display for Caveat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OneProcess { device, apart } => write!(
                f,
                "device {device} (CPU): ± covers this process only; separate runs can differ by {:.0} % or more \
                 (`--processes 5` measures that)",
                100.0 * apart
            ),
            Self::Disturbed { device, ratio } => write!(
                f,
                "the devices measured in parallel slowed device {device}: its canary kernel took {}× its time alone; \
                 measure without --parallel",
                crate::basis::units::ratio(*ratio)
            ),
        }
    }
}

/// Host time by what it was spent on. Upload, inputs and oracle serve all variants of a size and are counted with
/// each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Phases {
    /// Making the input data.
    pub inputs: Nanos,
    /// Copying them to the device.
    pub upload: Nanos,
    /// Solving the problem on the host.
    pub oracle: Nanos,
    /// The first run, its download and its comparison with the oracle.
    pub verification: Nanos,
    /// Copying the outputs back (part of the verification).
    pub download: Nanos,
    /// Warming up.
    pub warm_up: Nanos,
    /// Taking samples.
    pub sampling: Nanos,
    /// Device time in verification, warm-up and samples.
    #[serde(default)]
    pub device: Nanos,
}

/// Reads the type of a user's buffer.
fn of_buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DType>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.map(|name| DType::of_buffer(&name)).transpose().map_err(serde::de::Error::custom)
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
        let of_variant = self.algorithm.variants.iter().find(|known| known.name == variant);
        let outputs: Vec<_> = problem.buffers().into_iter().filter(|buffer| buffer.role.is_output()).collect();
        let named = outputs.iter().any(|output| DType::ALL.contains(&output.dtype));
        Case {
            id: self.id_of(variant).to_string(),
            algorithm: self.algorithm.name.to_string(),
            variant: variant.into(),
            options: self.spec.options,
            entry: CatalogueEntry::default(),
            element: outputs.first().map(|output| output.dtype).filter(|_| !named),
            size: self.spec.size.into(),
            device,
            process: 0,
            buffers: problem.data(),
            work: problem.work(),
            written: Bytes(outputs.iter().map(|buffer| buffer.bytes().0).sum()),
            chain: problem.chain(),
            launches: 0,
            computes: None,
            shortcuts: of_variant.map_or(&[][..], Variant::shortcuts).to_vec(),
            notes: vec![],
            tile: None,
            kernels: vec![],
            share: None,
            structure: None,
            speedup: None,
            outcome,
        }
    }
}

impl Case {
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
        axes::heading(&self.algorithm, &CaseOptions { dtype: self.element(), ..self.options }, |_| true)
    }

    /// Returns the element type.
    pub fn element(&self) -> DType {
        self.element.unwrap_or(self.dtype)
    }

    /// Returns the algorithm with its goal: `lu --solve`.
    pub fn asked(&self) -> String {
        axes::heading(&self.algorithm, &self.options, |axis| axis.name == axes::GOAL.name)
    }

    /// Returns the arithmetic.
    pub fn computed_in(&self) -> Computes {
        self.computes.unwrap_or(Computes { dtype: self.element(), operations: 1 })
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

    #[test]
    fn an_infinite_residual_is_null_in_json() {
        let check = CheckResult {
            residual: f64::INFINITY,
            tolerance: 1e-3,
            method: CheckMethod::Elementwise,
            worst: "C[0][0] is NaN".into(),
            metrics: vec![],
            wrong: WrongElements::default(),
        };
        let json = serde_json::to_value(Outcome::Rejected(check.into())).expect("JSON");
        assert_eq!(json["status"], "rejected");
        assert!(json["residual"].is_null() && json["worst"] == "C[0][0] is NaN", "{json}");
    }
}
