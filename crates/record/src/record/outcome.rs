//! Outcome of a case: its measurement, or why there is none.

use super::Warning;
use crate::basis::error::{Error, Exit};
use crate::basis::units::{Metric, Nanos, Work, percent, significant};
use crate::case::accepted::AcceptedMutation;
use crate::case::check::{ANSWER_DIFFERS, CheckMethod, CheckResult, WrongElements};
use crate::stats::Summary;
use serde::{Deserialize, Serialize};

/// Outcome of a case.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Outcome {
    /// The answer is right and was timed.
    Measured(Box<Measured>),
    /// The answer is wrong, or the data have none: there is no time.
    Rejected(Verification),
    /// The device cannot run it, or not in time.
    Skipped {
        /// The missing feature, operation or limit, or another reason not to run it.
        reason: String,
        /// Whether the device lacks what the case needs: nothing else, such as a predicted time, kept it from running.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        unsupported: bool,
    },
    /// The device or its driver failed, or nobody could say what the answer is.
    // The latter means that the reference, which computes the answer, failed.
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

    /// Returns the outcome of a case for which the device lacks something.
    pub fn unsupported(reason: String) -> Self {
        Self::Skipped { reason, unsupported: true }
    }

    /// Whether the device lacks what the case needs.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Skipped { unsupported: true, .. })
    }

    /// Returns the outcome of a case that the device might run, but that is not run.
    pub fn left_out(reason: String) -> Self {
        Self::Skipped { reason, unsupported: false }
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
                count => {
                    let are = if verification.worst.starts_with(ANSWER_DIFFERS) { "differ" } else { "are wrong" };
                    let first = verification.wrong.first.first().map(|wrong| &wrong.element);
                    // The text begins with the worst element.
                    let first = first.filter(|first| !verification.worst.starts_with(first.as_str()));
                    let first = first.map_or_else(String::new, |first| format!(", the first is {first}"));
                    format!("{} ({count} elements {are}{first})", verification.worst)
                }
            }),
            Self::Skipped { reason, .. } => Some(reason.clone()),
            _ => self.failure(),
        }
    }

    /// Returns the status as tables and messages print it: `timed out`. Serialization spells it `timed-out`.
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
    /// How it ended: `SIGSEGV in vkWaitForFences`, `exit code 1`, `vkWaitForFences has not returned after 30 s`.
    pub cause: String,
    /// The kernels of the case, or of gpukern's own canary, one of which was being compiled or run; empty if none was.
    pub kernels: Vec<String>,
    /// The driver and its version.
    pub driver: String,
    /// The first line that the process wrote to standard error, and the last ones.
    #[serde(default)]
    pub said: Vec<String>,
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cause, kernels, driver, said } = self;
        let kernels = match &kernels[..] {
            [] => String::new(),
            [kernel] => format!("kernel {kernel}; "),
            several => format!("kernels {}; ", several.join(", ")),
        };
        write!(f, "{cause} ({kernels}driver {driver}){}", last_words(said))
    }
}

/// Returns the first line that a process printed and the last two, as the end of a sentence; empty if it printed none.
pub fn last_words(said: &[String]) -> String {
    match said {
        [] => String::new(),
        [first, hidden @ .., a, b] if !hidden.is_empty() => {
            format!("; its process last printed: {first} | … {} more … | {a} | {b}", hidden.len())
        }
        few => format!("; its process last printed: {}", few.join(" | ")),
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
    /// Conditions of each process, where several are combined.
    #[serde(skip)]
    pub process_conditions: Vec<Conditions>,
    /// A fingerprint of the contents of its inputs, where files or another program supply them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// A fingerprint of its answer, where nothing judges it and further runs gave the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Numbers of such an answer that rounding hardly changes, for each floating-point output: the root mean square, and four
    /// sums with random signs, divided by the norm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sketch: Vec<f64>,
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
    /// Medians of the processes that were combined to it, in order; empty for a single one.
    #[serde(skip)]
    #[schemars(skip)]
    pub process_medians: Vec<Nanos>,
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

/// Whether the reason why an answer is unverified also says what may be wrong with it.
pub fn has_details(unverified: &str) -> bool {
    unverified.contains("; ")
}

impl Correctness {
    /// Returns the verification, if the answer was checked.
    pub fn verified(&self) -> Option<&Verification> {
        match self {
            Self::Verified(verification) => Some(verification),
            Self::Unverified { .. } => None,
        }
    }

    /// Returns the reason if the answer was not checked.
    pub fn unverified_reason(&self) -> Option<&str> {
        match self {
            Self::Verified(_) => None,
            Self::Unverified { unverified } => Some(unverified),
        }
    }

    /// Returns the reason why the answer was not checked, if it also says what may be wrong with it.
    pub fn doubt(&self) -> Option<&str> {
        self.unverified_reason().filter(|reason| has_details(reason))
    }

    /// Returns a sentence with the reason if the answer was not checked.
    pub fn unverified(&self) -> Option<String> {
        self.unverified_reason().map(|reason| format!("unverified: {reason}"))
    }
}

impl From<Verification> for Correctness {
    fn from(verification: Verification) -> Self {
        Self::Verified(verification)
    }
}

impl Measured {
    /// Returns the number of processes that measured it.
    pub fn processes(&self) -> usize {
        self.process_medians.len().max(1)
    }

    /// Returns one sentence per reason for doubt: an unverified answer, accepted mutations, warnings.
    pub fn cautions(&self) -> impl Iterator<Item = String> {
        let warnings = self.warnings.iter().map(|warning| warning.explanation().to_string());
        self.verification.unverified().into_iter().chain(self.weak_check()).chain(warnings)
    }

    /// Says which mistakes its check would not notice; `None` if none is known.
    pub fn weak_check(&self) -> Option<String> {
        AcceptedMutation::sentence(&self.accepts)
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

/// Sums in the sketch of an output, besides its root mean square: that an answer differs and all of them stay is as rare as a
/// small change of each.
pub const SKETCH_SUMS: usize = 4;

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

    /// Returns the largest error as a share of what is allowed; `None` if no number says it, or if nothing is allowed.
    pub fn share_of_bound(&self) -> Option<f64> {
        let residual = self.residual?;
        if residual == 0.0 { Some(0.0) } else { (self.tolerance > 0.0).then(|| residual / self.tolerance) }
    }

    /// Returns the verification of outputs that are no answer: a zero pivot, too few rounds, writes out of bounds.
    pub fn without_answer(reason: String) -> Self {
        let method = CheckMethod::Elementwise;
        let metrics = vec![];
        let wrong = WrongElements::default();
        Self { residual: None, tolerance: 0.0, method, worst: reason, metrics, wrong }
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

#[cfg(test)]
mod tests {
    use super::*;

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
