//! Who takes cases through a device: a runner in this process, or one in a worker.

use crate::algorithms::Variant;
use crate::algorithms::tile::Tile;
use crate::basis::units::{Bytes, Nanos};
use crate::case::method::Round;
use crate::device::cache::CacheFolder;
use crate::device::capability::DeviceInfo;
use crate::plan::{CaseGroup, CaseId, PlannedRun, Sampling};
use crate::record::{Case, Outcome, Record};
use crate::tuning::tuned::{self, Configuration, Tuned};
use crate::tuning::{Found, Refusal};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The executor of cases on one device.
pub(crate) trait Executor {
    /// The device.
    fn info(&self) -> &DeviceInfo;

    /// Whether a validation layer watches.
    fn validated(&self) -> bool;

    /// The files kept of it between runs.
    fn cache(&self) -> &CacheFolder;

    /// Runs every case of `run`.
    fn run(&mut self, run: &PlannedRun, observer: &mut dyn Observer) -> Vec<Case>;

    /// Searches the tiles of the variant of `group` on its problem; tells `progress` of every tile before it is tried and
    /// after it is timed, and of the best so far. Interrupted, it returns what it has; `None` if that is nothing.
    ///
    /// # Errors
    /// Why the device cannot run the case at all, or that it ran it wrongly with every tile that was tried.
    fn tune(&mut self, group: &CaseGroup, question: Question, progress: Progress<'_>)
    -> Result<Option<Found>, Refusal>;

    /// Samples both sides and a control in turns on the problem of `group` until `decided` returns true for the rounds,
    /// or `max_time` of `sampling` is over. Returns both cases, and the rounds.
    fn duel(
        &mut self,
        group: &CaseGroup,
        sides: &[Side; 2],
        sampling: &Sampling,
        decided: Decided<'_>,
    ) -> ([Case; 2], Vec<Round>);

    /// Times candidates of `auto` on the problem that they share, each a group of one variant: the median of each, or why
    /// it has none.
    ///
    /// # Errors
    /// Why the problem cannot be loaded.
    fn explain(&mut self, candidates: &[CaseGroup], sampling: &Sampling) -> Result<Explained, String>;

    /// Whether the device executes anything.
    ///
    /// # Errors
    /// Why that cannot be said.
    fn executes(&mut self) -> Result<bool, String>;

    /// Times what the host does with the device beside running kernels.
    fn host_side(&mut self) -> HostSide;
}

/// An observer of a run, told of each step.
pub trait Observer {
    /// Called when another process begins, with the record as it stands: its own entry is the last of the processes.
    fn process(&mut self, _: &Record) {}
    /// Called before the cases of a device.
    fn device(&mut self, _: &DeviceInfo) {}
    /// Called with the cases that will be skipped, by id, and why.
    fn skipped(&mut self, _: &[(CaseId, String)]) {}
    /// Called before the limits of the device are measured.
    fn limits(&mut self) {}
    /// Called with the id of a case that begins.
    fn begin(&mut self, _: &str) {}
    /// Called with a case that ended.
    fn end(&mut self, _: &Case) {}
}

/// An observer that does nothing.
pub(crate) struct Silent;

impl Observer for Silent {}

/// A question to a search for the fastest tile of a variant on a problem.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Question {
    /// A tile that an earlier search found, so that this one ends with nothing worse.
    pub kept: Option<Tile>,
    /// Tiles to leave out: their processes died.
    pub avoid: Vec<Tile>,
    /// Host time to spend.
    pub budget: Duration,
}

/// Told of every tile before it is tried and after it is timed, and of the best so far with its time.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(Tile, Option<(Tile, Nanos)>);

/// Whether the rounds so far decide a duel.
pub(crate) type Decided<'a> = &'a mut dyn FnMut(&[Round]) -> bool;

/// The names of the sides.
pub(crate) const SIDE_NAMES: [&str; 2] = ["A", "B"];

/// One side of a duel on the problem of a group.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Side {
    /// The name of a variant of the group's algorithm.
    variant: String,
    /// The label of a kernel of the variant, and the SPIR-V that runs in its place.
    pub(crate) substitute: Option<(String, Vec<u8>)>,
}

impl Side {
    /// The side of `variant`, which may have another kernel in place of one of its own.
    pub(crate) fn new(variant: &Variant, substitute: Option<(String, Vec<u8>)>) -> Self {
        Self { variant: variant.name.to_string(), substitute }
    }

    /// Its variant.
    ///
    /// # Panics
    /// When the algorithm of `group` has no such variant: the side was made for another.
    pub(crate) fn variant<'g>(&self, group: &'g CaseGroup) -> &'g Variant {
        group.algorithm.variant(&self.variant).expect("the side of another algorithm")
    }
}

/// A time of each candidate, or why it has none.
pub(crate) type Explained = Vec<Result<Nanos, String>>;

/// Bytes of each copy of [`HostSide`].
pub(crate) const TRANSFERRED: Bytes = Bytes(64 << 20);

/// Times of what the host does with a device, or why there are none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HostSide {
    /// Submissions of nothing, until their end is known.
    pub(crate) submissions: Result<Vec<Nanos>, String>,
    /// Copies to the device.
    pub(crate) uploads: Result<Vec<Nanos>, String>,
    /// Copies from it.
    pub(crate) downloads: Result<Vec<Nanos>, String>,
    /// Share of the host's processors that other programs took meanwhile, where the system tells.
    pub(crate) others: Option<f64>,
}

impl HostSide {
    /// No times, for this reason.
    pub(crate) fn missing(reason: &str) -> Self {
        let missing = || Err(reason.to_string());
        Self { submissions: missing(), uploads: missing(), downloads: missing(), others: None }
    }
}

/// The cases of `run` that `device` cannot run, each with the reason, in plan order.
pub(crate) fn skipped(run: &PlannedRun, device: &DeviceInfo, tuned: &Tuned) -> Vec<(CaseId, String)> {
    run.groups_on(device.kind)
        .flat_map(|group| tuned::choose(group, device, tuned).into_iter().map(move |chosen| (group, chosen)))
        .filter_map(|(group, chosen)| {
            let problem = (group.algorithm.problem)(&group.spec).ok()?;
            let reason = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device).err()?;
            Some((group.id(chosen.variant), reason))
        })
        .collect()
}

/// `run` without the cases that are `gone`, by id.
pub(crate) fn without(run: &PlannedRun, device: &DeviceInfo, tuned: &Tuned, gone: &dyn Fn(&str) -> bool) -> PlannedRun {
    let mut run = run.clone();
    for group in &mut run.groups {
        let is_gone = |group: &CaseGroup, variant: &_| gone(&group.id(variant).to_string());
        let automatic = CaseGroup { variants: vec![], ..group.clone() };
        let automatic = tuned::choose(&automatic, device, tuned);
        if automatic.iter().any(|chosen| is_gone(group, chosen.variant)) {
            group.auto = false;
        }
        let mut variants = std::mem::take(&mut group.variants);
        variants.retain(|variant| !is_gone(group, variant));
        group.variants = variants;
    }
    run.groups.retain(|group| group.cases() > 0);
    run
}

/// The case of `chosen` in `group` that `device` did not measure.
pub(crate) fn unmeasured(group: &CaseGroup, chosen: &Configuration, device: &DeviceInfo, outcome: Outcome) -> Case {
    let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
    group.case(&chosen.variant.name, problem.as_ref(), device.index, outcome)
}
