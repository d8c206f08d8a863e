//! A case on simulated devices: at every sub-group size that it admits, on several schedules, judged by its oracle.

use crate::algorithms::{Algorithm, CaseSpec, Oracle, Problem, Variant};
use crate::basis::alike::distinct;
use crate::basis::dtype::HostArray;
use crate::basis::threads;
use crate::case::check::{self, WrongElement};
use crate::device::simulated_device;
use crate::fault::{FaultKind, KernelFault, SourcePlace};
use crate::kernel::buffer::BufferSpec;
use crate::kernel::instructions::instructions;
use crate::kernel::program::{Dispatch, Program, Step};
use crate::program::{Arithmetic, Reconvergence, Simulated, SimulationError, SimulationSettings, simulate};
use rayon::prelude::*;
use rspirv::spirv::Op;
use serde::Serialize;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A common size of sub-groups.
const COMMON_SIZE: u32 = 32;

/// Devices and schedules to simulate.
#[derive(Clone, Debug)]
pub struct SanitizeOptions {
    pub subgroup_sizes: Vec<u32>,
    /// Schedules of each size: 0, and others seeded by the case.
    pub schedules: u32,
    /// [`Arithmetic::Loose`] adds loose runs to the exact ones.
    pub arithmetic: Arithmetic,
    /// Time for a case.
    pub timeout: Duration,
    /// Request to end, seen between runs.
    pub interrupted: &'static AtomicBool,
}

/// Everything found in a case.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CaseReport {
    /// Id of the case, as in records.
    pub id: String,
    /// Kernel and the options of the case, for tables.
    pub kernel: String,
    /// Size in full.
    pub extents: String,
    /// Results by sub-group size.
    pub sizes: Vec<SizeReport>,
    /// Whether the sub-group size makes no difference, so that one of them was enough.
    pub any_size: bool,
    /// Faults that count.
    pub faults: Vec<KernelFault>,
    /// Faults that the caller accepts.
    pub accepted: Vec<KernelFault>,
    /// Whether the caller accepts a wrong answer.
    pub accepts_wrong_answer: bool,
    /// Simulated runs.
    pub runs: u32,
    pub lane_operations: u64,
    /// Whether work-groups wait for others, which were assumed to make progress.
    pub assumed_progress: bool,
    /// Reason why answers cannot be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
    /// Reason why nothing was simulated: no inputs, or no right answer to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Result at a sub-group size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeReport {
    pub subgroup_size: u32,
    #[serde(flatten)]
    pub result: SizeResult,
}

/// Verdict on the runs at a sub-group size.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum SizeResult {
    Right,
    /// The first wrong value, and the schedules with wrong answers.
    Wrong {
        reason: String,
        schedules: Vec<u64>,
    },
    /// The kernel does not support sub-groups of this size.
    Unsuitable {
        reason: String,
    },
    /// The simulator could not finish.
    Failed {
        reason: String,
    },
}

impl CaseReport {
    fn add_size(&mut self, subgroup_size: u32, result: SizeResult) {
        self.sizes.push(SizeReport { subgroup_size, result });
    }

    /// Returns the sub-group sizes whose result `is` selects.
    fn sizes_where(&self, is: impl Fn(&SizeResult) -> bool) -> Vec<u32> {
        self.sizes.iter().filter(|size| is(&size.result)).map(|size| size.subgroup_size).collect()
    }

    /// Returns the sub-group sizes at which answers were judged.
    pub fn judged_sizes(&self) -> Vec<u32> {
        self.sizes_where(|result| matches!(result, SizeResult::Right | SizeResult::Wrong { .. }))
    }

    /// Returns the sub-group sizes with a wrong answer.
    pub fn wrong_sizes(&self) -> Vec<u32> {
        self.sizes_where(|result| matches!(result, SizeResult::Wrong { .. }))
    }

    /// Whether an answer is wrong, and neither is that accepted nor a fault that says just that.
    pub fn is_wrong(&self) -> bool {
        let is_accepted = self.accepts_wrong_answer || self.accepted.iter().any(|fault| fault.kind.is_of_answer());
        !self.wrong_sizes().is_empty() && !is_accepted
    }

    /// Whether anything could not be simulated.
    pub fn has_failed(&self) -> bool {
        self.error.is_some() || !self.sizes_where(|result| matches!(result, SizeResult::Failed { .. })).is_empty()
    }

    /// Returns the verdict on the answer, in words: `wrong with sub-groups of 4 8`.
    pub fn answer(&self) -> String {
        let (judged, wrong) = (self.judged_sizes(), self.wrong_sizes());
        if judged.is_empty() {
            return if self.has_failed() { "not simulated" } else { "skipped" }.into();
        }
        if wrong.is_empty() {
            let is_differing = |fault: &KernelFault| fault.kind == FaultKind::DifferingAnswers;
            return match self.unverified {
                Some(_) if self.faults.iter().chain(&self.accepted).any(is_differing) => "differs between runs",
                Some(_) => "unverified",
                None => "right",
            }
            .into();
        }
        let mut text = "wrong".to_string();
        if wrong.len() < judged.len() {
            let _ = write!(text, " with sub-groups of {}", spans(&wrong));
        }
        let schedules = distinct(self.sizes.iter().flat_map(|size| match &size.result {
            SizeResult::Wrong { schedules, .. } => schedules.clone(),
            _ => vec![],
        }));
        if !schedules.contains(&0) {
            text += " in some orders";
        }
        text
    }

    fn add_faults(&mut self, faults: impl IntoIterator<Item = KernelFault>) {
        for fault in faults {
            let same = self.faults.iter_mut().find(|known| is_same(known, &fault) || is_reverse(known, &fault));
            let Some(known) = same else {
                self.faults.push(fault);
                continue;
            };
            if is_reverse(known, &fault) && fault.at > fault.other {
                // The later line comes first.
                let KernelFault { at, other, what, other_what, remedy, .. } = fault.clone();
                *known = KernelFault { at, other, what, other_what, remedy, ..known.clone() };
            }
            known.count = known.count.saturating_add(fault.count);
            known.subgroup_sizes.extend(fault.subgroup_sizes);
            known.subgroup_sizes.sort_unstable();
            known.subgroup_sizes.dedup();
        }
    }
}

/// Beginning of the remedy for reliance on lockstep.
pub(crate) const SUBGROUP_BARRIER: &str = "subgroupBarrier() ";

impl CaseReport {
    /// Drops consequences of races: reliance on lockstep at the same places, which is the same race at sub-group sizes where
    /// one sub-group has both invocations, and values that were read before the other invocation wrote them. A value that is
    /// undefined at a sub-group size without the race has another cause. That nothing writes an element explains an answer
    /// only where nothing else does.
    fn drop_consequences(&mut self) {
        let is_left_out = |fault: &KernelFault| fault.kind == FaultKind::Uninitialized && fault.at.is_none();
        if !self.faults.iter().all(is_left_out) {
            self.faults.retain(|fault| !is_left_out(fault));
        }
        let is_race = |fault: &KernelFault| matches!(fault.kind, FaultKind::RaceShared | FaultKind::RaceStorage);
        let is_there = |race: &KernelFault, fault: &KernelFault| {
            let is_swapped = (&race.at, &race.other) == (&fault.other, &fault.at);
            is_swapped || (&race.at, &race.other) == (&fault.at, &fault.other)
        };
        let races: Vec<_> = self.faults.iter().filter(|fault| is_race(fault)).cloned().collect();
        let in_step: Vec<_> = self.faults.iter().filter(|fault| fault.kind == FaultKind::Lockstep).cloned().collect();
        for race in self.faults.iter_mut().filter(|fault| is_race(fault)) {
            let sizes = in_step.iter().filter(|fault| is_there(race, fault)).flat_map(|fault| &fault.subgroup_sizes);
            let sizes: Vec<u32> = sizes.copied().collect();
            race.subgroup_sizes.extend(sizes);
            race.subgroup_sizes.sort_unstable();
            race.subgroup_sizes.dedup();
        }
        self.faults.retain(|fault| {
            let is_cause = |race: &KernelFault| match fault.kind {
                FaultKind::Lockstep => is_there(race, fault),
                FaultKind::Uninitialized => {
                    let reads_it = fault.other.is_some() && [&race.at, &race.other].contains(&&fault.other);
                    reads_it && fault.subgroup_sizes.iter().all(|size| race.subgroup_sizes.contains(size))
                }
                _ => false,
            };
            !races.iter().any(is_cause)
        });
        // A barrier that another fault needs at the same place orders the sub-group too.
        for fault in self.faults.iter_mut().filter(|fault| fault.kind == FaultKind::Lockstep) {
            let Some(place) = fault.remedy.strip_prefix(SUBGROUP_BARRIER) else { continue };
            let race = races.iter().find(|race| race.remedy.split_once("() ").is_some_and(|(_, at)| at == place));
            if let Some(race) = race {
                fault.remedy.clone_from(&race.remedy);
            }
        }
    }
}

/// Joins sub-group sizes: with spaces, and `4..32` for three or more in a row.
pub fn spans(sizes: &[u32]) -> String {
    let mut text: Vec<String> = vec![];
    for run in sizes.chunk_by(|a, b| *b == 2 * a) {
        match run {
            [first, _, .., last] => text.push(format!("{first}..{last}")),
            _ => text.push(listed(run)),
        }
    }
    text.join(", ")
}

/// Joins numbers with commas.
pub fn listed<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Simulated run of one program.
#[derive(Clone, Copy, Debug)]
struct PlannedRun {
    /// Index of the program.
    program: usize,
    seed: u64,
    reconvergence: Reconvergence,
    arithmetic: Arithmetic,
}

/// Run with its judged answer.
struct JudgedRun {
    run: PlannedRun,
    /// Hash of the outputs.
    answer: u64,
    matrix_element: Option<SourcePlace>,
    /// `None` for a right answer, otherwise the first wrong value; the error is the simulator's.
    wrong: Result<Option<String>, String>,
    /// Where the answer differs from the first run's, if nobody knows the right one.
    differs: Option<String>,
}

/// Answer of the first exact run, with which others are compared if nobody knows the right one.
struct FirstAnswer {
    subgroup_size: u32,
    oracle: Option<Box<dyn Oracle>>,
}

/// Program of a sub-group size.
type SizedProgram = (u32, Program);

/// A posed case, with everything that its runs share.
struct PosedCase<'a> {
    options: &'a SanitizeOptions,
    specs: Vec<BufferSpec>,
    inputs: Vec<HostArray>,
    deadline: Option<Instant>,
}

/// Simulates a case at every sub-group size of `options`. The caller fills in the names of the case.
pub fn sanitize(algorithm: &Algorithm, variant: &Variant, case: &CaseSpec, options: &SanitizeOptions) -> CaseReport {
    let deadline = Instant::now().checked_add(options.timeout);
    let mut report = CaseReport::default();
    let posed = (algorithm.problem)(case).and_then(|problem| {
        let inputs = problem.inputs().map_err(|error| error.to_string())?;
        Ok((PosedCase { options, specs: problem.buffers(), inputs, deadline }, problem))
    });
    let (posed, problem) = match posed {
        Ok(posed) => posed,
        Err(reason) => return CaseReport { error: Some(reason), ..report },
    };
    let mut programs = vec![];
    for subgroup_size in &options.subgroup_sizes {
        let device = simulated_device(*subgroup_size);
        match algorithm.feasible(variant, case, &*problem, &device) {
            Ok(program) => programs.push((*subgroup_size, without_red_zones(program, &posed.specs))),
            Err(reason) => report.add_size(*subgroup_size, SizeResult::Unsuitable { reason }),
        }
    }
    if programs.is_empty() {
        return report;
    }
    let oracle = match posed.right_answer(&*problem) {
        Ok(oracle) => oracle,
        Err(reason) => return CaseReport { error: Some(reason), ..report },
    };
    // Where the size makes no difference, a second one can only show how a fault depends on it. The first is a common one,
    // because small sub-groups take longer.
    let mut first = programs.len();
    if is_independent(&programs) {
        let common = programs.iter().position(|(subgroup_size, _)| *subgroup_size >= COMMON_SIZE);
        programs.swap(0, common.unwrap_or(first - 1));
        first = 1;
    }
    let mut first_answer = None;
    for (start, end) in [(0, first), (first, programs.len())] {
        if start == end || start > 0 && report.faults.is_empty() && report.wrong_sizes().is_empty() {
            continue;
        }
        let judges = (&*problem, &*oracle, &mut first_answer);
        let judged = posed.run(&programs, start..end, case.seed, judges, &mut report);
        for (index, (subgroup_size, _)) in programs.iter().enumerate().take(end).skip(start) {
            report.add_size(*subgroup_size, result_of(&judged, index));
        }
        add_faults_of_answers(&mut report, &programs, &judged);
    }
    report.any_size = programs.len() > 1 && report.judged_sizes().len() == 1 && first == 1;
    report.sizes.sort_by_key(|size| size.subgroup_size);
    report.drop_consequences();
    report.faults.sort_by(|a, b| (a.kind, &a.kernel, &a.at, &a.other).cmp(&(b.kind, &b.kernel, &b.at, &b.other)));
    report
}

impl PosedCase<'_> {
    fn simulate(&self, program: &Program, subgroup_size: u32, run: PlannedRun) -> Result<Simulated, String> {
        let PlannedRun { seed, reconvergence, arithmetic, .. } = run;
        let settings = SimulationSettings { subgroup_size, seed, reconvergence, arithmetic, deadline: self.deadline };
        guarded(|| simulate(program, &self.specs, &self.inputs, &settings))
    }

    /// Returns the oracle, from the reference program on a simulated device if the problem has one.
    fn right_answer(&self, problem: &dyn Problem) -> Result<Box<dyn Oracle>, String> {
        let exact =
            PlannedRun { program: 0, seed: 0, reconvergence: Reconvergence::AtMerges, arithmetic: Arithmetic::Exact };
        let mut reason = String::new();
        for subgroup_size in [COMMON_SIZE].iter().chain(&self.options.subgroup_sizes) {
            let device = simulated_device(*subgroup_size);
            let Some((program, make_oracle)) = problem.reference(&device) else {
                return problem.oracle(&self.inputs).map_err(|error| error.to_string());
            };
            let program = program.feasible(&self.specs, &device);
            match program.and_then(|program| self.simulate(&program, *subgroup_size, exact)) {
                Ok(simulated) => {
                    let is_beyond = |fault: &&KernelFault| fault.kind == FaultKind::OutOfBounds;
                    if let Some(fault) = simulated.faults.iter().find(is_beyond) {
                        return Err(format!("the reference {}", fault.what));
                    }
                    let oracle = make_oracle(simulated.outputs).map_err(|error| error.to_string())?;
                    let element = unwritten_element(&*oracle, &simulated.unwritten);
                    return element.map_or(Ok(oracle), |element| {
                        Err(format!("the reference never writes {element}; does its grid, or an `if`, leave it out?"))
                    });
                }
                Err(error) => reason = error,
            }
        }
        Err(format!("the reference {reason}"))
    }

    /// Runs these programs on every schedule, on all cores, and adds the faults to `report`.
    fn run(
        &self,
        programs: &[SizedProgram],
        range: std::ops::Range<usize>,
        seed: u64,
        (problem, oracle, first_answer): (&dyn Problem, &dyn Oracle, &mut Option<FirstAnswer>),
        report: &mut CaseReport,
    ) -> Vec<JudgedRun> {
        let mut runs = vec![];
        let arithmetics = match self.options.arithmetic {
            Arithmetic::Exact => &[Arithmetic::Exact][..],
            Arithmetic::Loose => &[Arithmetic::Exact, Arithmetic::Loose],
        };
        for program in range {
            for arithmetic in arithmetics {
                let others =
                    (0..u64::from(self.options.schedules.max(1)) - 1).map(|other| seed.max(1).wrapping_add(other));
                let seeds = std::iter::once(0).chain(others);
                runs.extend(seeds.map(|seed| {
                    let reconvergence = reconvergence(&programs[program].1, seed);
                    PlannedRun { program, seed, reconvergence, arithmetic: *arithmetic }
                }));
            }
        }
        let simulate = |run: &PlannedRun| {
            if self.options.interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            let (subgroup_size, program) = &programs[run.program];
            self.simulate(program, *subgroup_size, *run)
        };
        threads::prepare();
        let simulated: Vec<_> = runs.par_iter().map(simulate).collect();
        let mut judged = vec![];
        for (run, simulated) in runs.into_iter().zip(simulated) {
            let sized = &programs[run.program];
            judged.push(match simulated {
                Ok(simulated) => {
                    if run.arithmetic == Arithmetic::Exact && first_answer.is_none() {
                        let oracle = problem.oracle_of(&simulated.outputs, &self.inputs);
                        *first_answer = Some(FirstAnswer { subgroup_size: sized.0, oracle });
                    }
                    let first = first_answer.as_ref();
                    let differs = first.and_then(|first| first.difference(run, sized.0, &simulated.outputs));
                    JudgedRun { differs, ..self.judge(run, sized, oracle, simulated, report) }
                }
                Err(reason) => JudgedRun { run, answer: 0, matrix_element: None, wrong: Err(reason), differs: None },
            });
        }
        judged
    }

    /// Judges a run and adds its faults to the report. If lanes that reconverge elsewhere change the answer or the faults,
    /// that is the fault, and the others are consequences.
    fn judge(
        &self,
        run: PlannedRun,
        sized: &SizedProgram,
        oracle: &dyn Oracle,
        simulated: Simulated,
        report: &mut CaseReport,
    ) -> JudgedRun {
        let wrong = report.wrong(&sized.1, oracle, &simulated);
        let (answer, matrix_element) = (hash(&simulated.outputs), simulated.matrix_element.clone());
        let mut counted = simulated;
        if run.reconvergence != Reconvergence::AtMerges && (wrong.is_some() || !counted.faults.is_empty()) {
            let in_order = PlannedRun { reconvergence: Reconvergence::AtMerges, ..run };
            if let Ok(other) = self.simulate(&sized.1, sized.0, in_order) {
                let is_wrong = report.wrong(&sized.1, oracle, &other).is_some();
                let is_only_here = |fault: &&KernelFault| !other.faults.iter().any(|known| is_same(known, fault));
                let consequence = counted.faults.iter().find(is_only_here);
                if wrong.is_some() && !is_wrong || consequence.is_some() {
                    let what = match (&wrong, consequence) {
                        (Some(wrong), _) if !is_wrong => {
                            format!("has other active lanes if they reconverge elsewhere, and then {wrong}")
                        }
                        (_, Some(fault)) => {
                            format!("has other active lanes if they reconverge elsewhere, and then one {}", fault.what)
                        }
                        _ => String::new(),
                    };
                    let mut fault = fault_of_answer(FaultKind::Reconvergence, sized, what);
                    let first = first_missing(&counted.exchanges, &other.exchanges)
                        .or_else(|| first_missing(&other.exchanges, &counted.exchanges));
                    fault.at = first.or_else(|| consequence.and_then(|fault| fault.at.clone()));
                    counted = other;
                    counted.faults.push(fault);
                }
            }
        }
        if wrong.is_some()
            && counted.changed_input.is_none()
            && let Some(element) = unwritten_element(oracle, &counted.unwritten)
        {
            let what = format!("nothing writes {element}, and the answer is wrong");
            let remedy = "look whether the grid, or an `if`, leaves it out".into();
            counted.faults.push(KernelFault { remedy, ..fault_of_answer(FaultKind::Uninitialized, sized, what) });
        }
        report.count(sized.0, counted);
        JudgedRun { run, answer, matrix_element, wrong: Ok(wrong), differs: None }
    }
}

impl FirstAnswer {
    /// Says where the outputs of a run differ from this answer by more than their tolerance, if they do.
    fn difference(&self, run: PlannedRun, subgroup_size: u32, outputs: &[HostArray]) -> Option<String> {
        let check = self.oracle.as_ref()?.check(outputs).ok().filter(|check| !check.passes())?;
        let Some(wrong) = check.wrong.first.first() else { return Some(check.worst) };
        let WrongElement { element, got, expected } = wrong;
        if run.arithmetic == Arithmetic::Loose {
            let seed = run.seed;
            return Some(format!("{element} is {expected} in exact arithmetic, but {got} in loose (schedule {seed})"));
        }
        let how = if subgroup_size == self.subgroup_size {
            format!("in another order (schedule {})", run.seed)
        } else {
            format!("with sub-groups of {subgroup_size}")
        };
        Some(format!("{element} is {expected} with sub-groups of {}, but {got} {how}", self.subgroup_size))
    }
}

/// Runs a simulation. A panic, a fault of the simulator itself, fails this run alone.
fn guarded(simulate: impl FnOnce() -> Result<Simulated, SimulationError>) -> Result<Simulated, String> {
    let result = catch_unwind(AssertUnwindSafe(simulate)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        format!("the simulator failed, which is a fault of gpukern: {}", text.unwrap_or("it panicked"))
    })?;
    result.map_err(|error| match error {
        SimulationError::Unsupported(reason) | SimulationError::TooLong(reason) | SimulationError::TooLarge(reason) => {
            reason
        }
    })
}

/// Returns the place of the first exchange of one run that the other lacks, or whose lanes differ there.
fn first_missing(exchanges: &[(SourcePlace, u64)], others: &[(SourcePlace, u64)]) -> Option<SourcePlace> {
    let missing = exchanges.iter().find(|exchange| !others.contains(exchange));
    missing.map(|(place, _)| place.clone())
}

fn hash(outputs: &[HostArray]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for output in outputs {
        hasher.write(output.as_bytes());
    }
    hasher.finish()
}

/// Returns where lanes meet on a schedule; only exchanges within sub-groups show a difference.
fn reconvergence(program: &Program, seed: u64) -> Reconvergence {
    match seed {
        _ if !has_capability(program, is_of_subgroups) || seed == 0 => Reconvergence::AtMerges,
        _ if seed % 2 == 1 => Reconvergence::Late,
        _ => Reconvergence::BehindLoops,
    }
}

fn is_of_subgroups(name: &str) -> bool {
    name.contains("GroupNonUniform") || name.contains("Subgroup") || name.starts_with("CooperativeMatrix")
}

/// Whether two faults are a race seen from both sides.
fn is_reverse(a: &KernelFault, b: &KernelFault) -> bool {
    let is_race = matches!(a.kind, FaultKind::RaceShared | FaultKind::RaceStorage | FaultKind::Lockstep);
    is_race && (a.kind, &a.kernel, &a.at, &a.other) == (b.kind, &b.kernel, &b.other, &b.at)
}

fn is_same(a: &KernelFault, b: &KernelFault) -> bool {
    a.kernel == b.kernel && a.is_same(b)
}

impl CaseReport {
    /// Counts a run with its faults.
    fn count(&mut self, subgroup_size: u32, simulated: Simulated) {
        self.runs += 1;
        self.lane_operations = self.lane_operations.saturating_add(simulated.lane_operations);
        self.assumed_progress |= simulated.assumed_progress;
        let faults = simulated.faults.into_iter();
        self.add_faults(faults.map(|fault| KernelFault { subgroup_sizes: vec![subgroup_size], ..fault }));
    }

    /// Returns what is wrong with the answer of a run, if anything.
    fn wrong(&mut self, program: &Program, oracle: &dyn Oracle, simulated: &Simulated) -> Option<String> {
        // Built-in kernels may use their inputs up.
        if let Some(name) = simulated.changed_input.as_ref().filter(|_| program.is_users()) {
            return Some(check::changed_input(name));
        }
        let mut check = match oracle.check(&simulated.outputs) {
            Ok(check) => check,
            Err(reason) => return Some(reason),
        };
        check.tolerance += program.allowance;
        if let Some(promise) = program.promise {
            check.enforce(promise);
        }
        if check.passes() {
            self.unverified = self.unverified.take().or_else(|| {
                let mut doubts = oracle.doubts(&simulated.outputs);
                // The oracle may name elements itself.
                if doubts.len() == 1
                    && let Some(element) = unwritten_element(oracle, &simulated.unwritten)
                {
                    doubts.push(format!("{element} was never written"));
                }
                (!doubts.is_empty()).then(|| doubts.join("; "))
            });
            return None;
        }
        Some(check.wrong.first.first().map_or(check.worst, ToString::to_string))
    }
}

/// Names the first element that nothing wrote, by the first byte of each output that nothing wrote.
fn unwritten_element(oracle: &dyn Oracle, unwritten: &[Option<usize>]) -> Option<String> {
    unwritten.iter().enumerate().find_map(|(output, at)| oracle.element(output, (*at)?))
}

/// Returns the verdict on a program's exact runs. A loose run whose answer is wrong is a fault of its own.
fn result_of(judged: &[JudgedRun], program: usize) -> SizeResult {
    let (mut first_wrong, mut failure, mut schedules) = (None, None, vec![]);
    for JudgedRun { run, wrong, .. } in judged {
        match wrong {
            Ok(None) => {}
            _ if run.program != program || run.arithmetic != Arithmetic::Exact => {}
            Ok(Some(reason)) => {
                schedules.push(run.seed);
                first_wrong.get_or_insert(reason);
            }
            Err(reason) => failure = failure.or(Some(reason)),
        }
    }
    match (first_wrong, failure) {
        (Some(reason), _) => SizeResult::Wrong { reason: reason.clone(), schedules },
        (None, Some(reason)) => SizeResult::Failed { reason: reason.clone() },
        (None, None) => SizeResult::Right,
    }
}

/// Returns a fault that only the answers of a program show.
fn fault_of_answer(kind: FaultKind, (subgroup_size, program): &SizedProgram, what: String) -> KernelFault {
    KernelFault {
        kind,
        kernel: distinct(program.dispatches().map(|dispatch| dispatch.shader.label())).join(", "),
        at: None,
        other: None,
        what,
        other_what: String::new(),
        remedy: kind.remedy().into(),
        subgroup_sizes: vec![*subgroup_size],
        count: 1,
    }
}

/// Adds the faults that only answers show: they depend on the sub-group size, the schedule or the arithmetic.
fn add_faults_of_answers(report: &mut CaseReport, programs: &[SizedProgram], judged: &[JudgedRun]) {
    let mut found: Vec<KernelFault> = vec![];
    let mut add = |kind, sized: &SizedProgram, what| match found.iter_mut().find(|fault| fault.kind == kind) {
        Some(fault) => fault.subgroup_sizes.push(sized.0),
        None => found.push(fault_of_answer(kind, sized, what)),
    };
    // A race at every size is the cause; at which sizes its answer happens to be right says nothing.
    let judged_sizes = report.judged_sizes();
    let is_race = |fault: &&KernelFault| matches!(fault.kind, FaultKind::RaceShared | FaultKind::RaceStorage);
    let has_race = report
        .faults
        .iter()
        .filter(is_race)
        .any(|race| judged_sizes.iter().all(|size| race.subgroup_sizes.contains(size)));
    let depends_on_size = report.wrong_sizes().len() < judged_sizes.len() && !has_race;
    for SizeReport { subgroup_size, result } in report.sizes.iter().filter(|_| depends_on_size) {
        if let SizeResult::Wrong { reason, schedules } = result
            && schedules.contains(&0)
            && let Some(sized) = programs.iter().find(|(size, _)| size == subgroup_size)
        {
            add(FaultKind::SubgroupSize, sized, reason.clone());
        }
    }
    for (index, sized) in programs.iter().enumerate() {
        let runs = |arithmetic| {
            judged.iter().filter(move |judged| (judged.run.program, judged.run.arithmetic) == (index, arithmetic))
        };
        let differs_in = |arithmetic| runs(arithmetic).find_map(|judged| judged.differs.clone());
        match (differs_in(Arithmetic::Exact), differs_in(Arithmetic::Loose)) {
            (Some(difference), _) => add(FaultKind::DifferingAnswers, sized, difference),
            (None, Some(difference)) => add(FaultKind::Precision, sized, difference),
            (None, None) => {}
        }
        let wrong_in = |arithmetic| {
            runs(arithmetic).find_map(|judged| Some((judged.run.seed, judged.wrong.as_ref().ok()?.as_ref()?)))
        };
        let (kind, (seed, reason)) = match (wrong_in(Arithmetic::Exact), wrong_in(Arithmetic::Loose)) {
            (None, Some(wrong)) => (FaultKind::Precision, wrong),
            (Some(wrong), _) if layout_decides(judged, index) => (FaultKind::MatrixLayout, wrong),
            _ => continue,
        };
        add(kind, sized, format!("{reason} (schedule {seed})"));
    }
    let place = judged.iter().find_map(|judged| judged.matrix_element.clone());
    for fault in found.iter_mut().filter(|fault| fault.kind == FaultKind::MatrixLayout) {
        fault.at.clone_from(&place);
    }
    report.add_faults(found);
}

/// Whether a program that accesses single elements of cooperative matrices gives another answer for another layout.
fn layout_decides(judged: &[JudgedRun], program: usize) -> bool {
    let runs = judged.iter().filter(|judged| judged.run.program == program && judged.matrix_element.is_some());
    let answers: Vec<u64> = runs.map(|judged| judged.answer).collect();
    answers.windows(2).any(|pair| pair[0] != pair[1])
}

fn has_capability(program: &Program, is: impl Fn(&str) -> bool) -> bool {
    program.dispatches().any(|dispatch| dispatch.shader.interface.capabilities.iter().any(|name| is(name)))
}

/// Whether the programs are equal, and their kernels have no operation that a sub-group takes part in.
fn is_independent(programs: &[SizedProgram]) -> bool {
    let is_equal = programs.windows(2).all(|pair| pair[0].1 == pair[1].1);
    let is_of_any_size =
        |program: &Program| !has_capability(program, is_of_subgroups) && !program.dispatches().any(orders_subgroups);
    is_equal && programs.iter().all(|(_, program)| is_of_any_size(program))
}

/// Whether a kernel has a barrier of sub-groups, which needs no capability, or one of memory alone, which is accepted
/// between lanes of one sub-group: what they order depends on the sub-groups' size.
fn orders_subgroups(dispatch: &Dispatch) -> bool {
    /// SPIR-V's `Scope` of a sub-group.
    const SUBGROUP: u32 = 3;
    let mut scopes = vec![];
    for instruction in instructions(&dispatch.shader.words()).map_while(Result::ok) {
        match (instruction.op(), instruction.operands()) {
            (Some(Op::Constant), [_, id, SUBGROUP]) => scopes.push(*id),
            (Some(Op::ControlBarrier), [scope, ..]) if scopes.contains(scope) => return true,
            (Some(Op::MemoryBarrier), _) => return true,
            _ => {}
        }
    }
    false
}

/// Ends the ranges of descriptors with the data of their buffers: an access to a red zone is out of bounds.
fn without_red_zones(mut program: Program, specs: &[BufferSpec]) -> Program {
    let buffers = [specs, &program.scratch].concat();
    let rounds = program.rounds.iter_mut().flat_map(|rounds| &mut rounds.body);
    for step in program.steps.iter_mut().chain(rounds) {
        let Step::Dispatch(dispatch) = step else { continue };
        for descriptor in &mut dispatch.descriptors {
            let bytes = buffers.get(descriptor.at.buffer.0).map_or(0, |spec| spec.bytes().0);
            let data = bytes.saturating_sub(descriptor.at.offset);
            descriptor.bytes = descriptor.bytes.map(|bytes| bytes.min(data));
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undefined_value_is_a_consequence_of_a_race_only_where_there_is_one() {
        let place =
            |line| Some(SourcePlace { line: Some(("k.comp".into(), line)), instruction: String::new(), text: None });
        let fault = |kind, lines: [u32; 2], subgroup_sizes: &[u32]| {
            let [at, other] = lines.map(place);
            KernelFault {
                kind,
                kernel: "k".into(),
                at,
                other,
                what: String::new(),
                other_what: String::new(),
                remedy: String::new(),
                subgroup_sizes: subgroup_sizes.to_vec(),
                count: 1,
            }
        };
        let race = fault(FaultKind::RaceShared, [19, 15], &[4, 8]);
        for (sizes, kept) in [(&[4][..], 1), (&[8, 128], 2)] {
            let undefined = fault(FaultKind::Uninitialized, [22, 15], sizes);
            let mut report = CaseReport { faults: vec![race.clone(), undefined], ..CaseReport::default() };
            report.drop_consequences();
            assert_eq!(report.faults.len(), kept, "{sizes:?}");
        }
    }

    #[test]
    fn one_barrier_for_a_race_is_the_remedy_of_reliance_on_lockstep_at_its_place() {
        let place =
            |line| Some(SourcePlace { line: Some(("k.comp".into(), line)), instruction: String::new(), text: None });
        let fault = |kind, at, remedy: &str| KernelFault {
            kind,
            kernel: "k".into(),
            at: place(at),
            other: place(18),
            what: String::new(),
            other_what: String::new(),
            remedy: remedy.into(),
            subgroup_sizes: vec![4],
            count: 1,
        };
        let mut report = CaseReport {
            faults: vec![
                fault(FaultKind::RaceShared, 20, "barrier() after line 18"),
                fault(FaultKind::Lockstep, 22, "subgroupBarrier() after line 18"),
                fault(FaultKind::Lockstep, 30, "subgroupBarrier() after line 25"),
            ],
            ..CaseReport::default()
        };
        report.drop_consequences();
        let remedies: Vec<_> = report.faults.iter().map(|fault| &*fault.remedy).collect();
        let expected = ["barrier() after line 18", "barrier() after line 18", "subgroupBarrier() after line 25"];
        assert_eq!(remedies, expected);
    }

    #[test]
    fn a_fault_of_the_simulator_fails_one_run_and_says_so() {
        let index = std::hint::black_box(3);
        let failed = guarded(|| panic!("no register {index}"));
        let expected = "the simulator failed, which is a fault of gpukern: no register 3";
        assert_eq!(failed.map(|_| ()), Err(expected.to_string()));
        let refused = guarded(|| Err(SimulationError::TooLong("2 of 3 work-groups were done".into())));
        assert_eq!(refused.map(|_| ()), Err("2 of 3 work-groups were done".to_string()));
    }
}
