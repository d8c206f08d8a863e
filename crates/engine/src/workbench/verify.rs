//! Runs programs over poison and checks their answers, before and after samples.

use super::cause::{MAX_PROBED_SECONDS, left_out_in};
use super::poison::{InputCopy, Poison};
use super::sampler::{Contents, Sampler};
use super::{LoadedProblem, Workbench};
use crate::basis::dtype::HostArray;
use crate::basis::random::generator;
use crate::basis::units::Nanos;
use crate::case::check::CheckResult;
use crate::case::method::Clock;
use crate::device::cache;
use crate::kernel::buffer::{RED_ZONE, Role};
use crate::kernel::program::Program;
use crate::record::{Correctness, Phases, Repeated, SKETCH_SUMS, Verification, has_details};
use crate::sampling;
use crate::user::oracle::FROM_FILLER;
use crate::vulkan::{Recorder, Region, VulkanError};
use rand::Rng;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::time::Instant;

/// Byte offset that turns a correct answer into a wrong one: at least one element of the widest type.
const SHIFT_BYTES: u64 = 8;

/// Result of a program's verified first run.
pub struct Verified {
    /// Check of the answer, or why there is none.
    pub check: Result<CheckResult, String>,
    /// Fingerprint of the answer.
    pub answer: u64,
    /// Another one, for records, of an answer that cannot be judged and was the same in both runs, and its [`sketch`].
    pub unjudged: Option<(String, Vec<f64>)>,
    /// Run over the other poison; `None` after a wrong answer.
    pub second_run: Option<SecondRun>,
    /// Reason why the answer cannot be judged, if so.
    pub unverified: Option<String>,
    /// Device time of the first run.
    pub time: Nanos,
    /// Host time of all phases, including the download.
    pub phases: Phases,
}

/// Second run of a verified program.
pub struct SecondRun {
    /// Sampler that can run again over the scratch contents it left.
    pub sampler: Sampler,
    /// Device time.
    pub time: Nanos,
}

/// Returns a hash that identifies an answer.
pub(super) fn fingerprint(loaded: &LoadedProblem, outputs: &[HostArray]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for output in loaded.oracle.in_order(outputs).iter() {
        hasher.write(output.as_bytes());
    }
    hasher.finish()
}

/// Returns what records keep of an answer that nothing judges: a fingerprint, and its sketch.
fn unjudged_answer(loaded: &LoadedProblem, outputs: &[HostArray]) -> (String, Vec<f64>) {
    let outputs = loaded.oracle.in_order(outputs);
    let bytes: Vec<_> = outputs.iter().map(HostArray::as_bytes).collect();
    (cache::fingerprint(&bytes), sketch(loaded, &outputs))
}

/// Numbers that rounding hardly changes, of each floating-point output: the root mean square, and sums with random signs,
/// divided by the norm. An answer that differs by a share x of its norm changes these sums by about x. Elements that are not
/// finite count as 0; of many, every n-th counts.
fn sketch(loaded: &LoadedProblem, outputs: &[HostArray]) -> Vec<f64> {
    let mut sketch = vec![];
    let specs = loaded.specs.iter().filter(|spec| spec.role.is_output());
    for (_, output) in specs.zip(outputs).filter(|(spec, output)| spec.dtype.is_float() && !output.is_empty()) {
        let mut signs = generator(0, 0);
        let mut squares = 0.0;
        let mut sums = [0.0; SKETCH_SUMS];
        let indices = (0..output.len()).step_by(output.len().div_ceil(MAX_SKETCHED));
        let count = indices.len() as f64;
        for index in indices {
            let value = Some(output.get(index)).filter(|value| value.is_finite()).unwrap_or(0.0);
            squares += value * value;
            let bits = signs.next_u64();
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum += if bits >> at & 1 == 0 { value } else { -value };
            }
        }
        let norm = squares.sqrt().clamp(f64::MIN_POSITIVE, f64::MAX);
        sketch.push((squares / count).sqrt().min(f64::MAX));
        sketch.extend(sums.map(|sum| (sum / norm).clamp(f64::MIN, f64::MAX)));
    }
    sketch
}

/// Most elements of an output that its sketch reads.
const MAX_SKETCHED: usize = 1 << 20;

/// Describes the first element in which the outputs of two runs differ, once the rows of sets are sorted.
fn find_change(loaded: &LoadedProblem, first: &[HostArray], second: &[HostArray]) -> Option<String> {
    let specs = loaded.specs.iter().filter(|spec| spec.role.is_output());
    for (spec, (before, after)) in specs.zip(first.iter().zip(second)) {
        let mut bytes = before.as_bytes().iter().zip(after.as_bytes());
        if let Some(byte) = bytes.position(|(before, after)| before != after) {
            let index = byte / spec.dtype.bytes() as usize;
            let name = &spec.name;
            return Some(format!("{name}[{index}] is {}, it was {}", after.shown(index), before.shown(index)));
        }
    }
    None
}

/// Result of a run over poison.
pub(super) struct CheckedRun {
    pub(super) sampler: Sampler,
    pub(super) time: Nanos,
    pub(super) download: Nanos,
    pub(super) outputs: Vec<HostArray>,
    /// Description of a write out of bounds or to an input.
    pub(super) bad_write: Option<String>,
}

/// Saves `outputs` if the user asked for that, and checks them.
fn save_and_check(loaded: &LoadedProblem, program: &Program, outputs: &[HostArray]) -> Result<CheckResult, String> {
    loaded.oracle.save(outputs)?;
    check(loaded, program, outputs)
}

/// Checks `outputs`, within what the program allows beyond the tolerance, and against what else it guarantees.
pub(super) fn check(loaded: &LoadedProblem, program: &Program, outputs: &[HostArray]) -> Result<CheckResult, String> {
    let mut check = loaded.oracle.check(outputs)?;
    check.tolerance += program.allowance;
    if let Some(promise) = program.promise {
        check.enforce(promise);
    }
    Ok(check)
}

/// Reason why an answer does not count.
pub(crate) enum VerificationError {
    /// The answer is wrong or missing, or the kernel wrote out of bounds.
    Rejected(Verification),
    /// The device failed.
    Device(VulkanError),
}

impl VerificationError {
    /// Rejects an answer, and says when it was wrong.
    pub(crate) fn rejected(when: &str, wrong: Verification) -> Self {
        Self::Rejected(Verification { worst: format!("{when}: {}", wrong.worst), ..wrong })
    }
}

impl From<VulkanError> for VerificationError {
    fn from(error: VulkanError) -> Self {
        Self::Device(error)
    }
}

/// Answer of a further run, compared with a verified one.
pub(crate) enum LaterAnswer {
    /// Equal, bit for bit.
    Same,
    /// Different, and as correct as this.
    Different(Correctness),
    /// Wrong, or the kernel wrote out of bounds.
    Wrong(Verification),
}

/// Converts a check to the correctness of the answer, or to the reason why there is no right answer. `unverified` is the
/// reason why the answer cannot be judged, if so.
pub(crate) fn correctness(
    check: Result<CheckResult, String>,
    unverified: Option<String>,
) -> Result<Correctness, Verification> {
    let check = check.map_err(Verification::without_answer)?;
    if !check.passes() {
        return Err(check.into());
    }
    match unverified {
        Some(unverified) => Ok(Correctness::Unverified { unverified }),
        None => Ok(Verification::from(check).into()),
    }
}

/// Rewords the check of a second answer, over different memory contents than the first, which was correct.
fn reword_second_check(check: Result<CheckResult, String>) -> Result<CheckResult, String> {
    let reword = |wrong: &str| format!("right in one run, wrong in the next with other memory contents: {wrong}");
    match check {
        Ok(check) if check.passes() => Ok(check),
        Ok(check) => Ok(CheckResult { worst: reword(&check.worst), ..check }),
        Err(reason) => Err(reword(&reason)),
    }
}

/// Saves and judges `outputs`, the answer of a further run over NaN. The error also says which elements of a wrong one were
/// never written. That of a user's kernel says so already.
fn judge(loaded: &LoadedProblem, program: &Program, outputs: &[HostArray]) -> Result<(), Verification> {
    let Err(mut wrong) = correctness(save_and_check(loaded, program, outputs), None) else { return Ok(()) };
    if let Some(unwritten) = left_out_in(loaded, outputs).filter(|_| !program.is_users()) {
        wrong.worst = format!("{}; {unwritten}", wrong.worst);
    }
    Err(wrong)
}

/// Number of launches over the same scratch of which each is judged.
const SUCCESSIVE_LAUNCHES: usize = 8;

impl Workbench {
    /// Runs a program once over poisoned outputs.
    pub(super) fn run_over_poison(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        poison: Poison,
    ) -> Result<CheckedRun, VulkanError> {
        self.poison(loaded, poison)?;
        let copies = self.copy_inputs(loaded, program)?;
        let sampler = self.record_sampler(loaded, &program.guarded(), 1, Clock::DeviceTimestamps, poison, None)?;
        let time = sampler.sample()?.device_total;
        let start = Instant::now();
        let outputs = self.download_outputs(loaded)?;
        let download = start.elapsed().into();
        let changed = self.restore_inputs(loaded, &copies)?;
        let bad_write = self.find_out_of_bounds_write(loaded, &sampler, poison)?.or(changed);
        Ok(CheckedRun { sampler, time, download, outputs, bad_write })
    }

    pub(super) fn download_outputs(&mut self, loaded: &LoadedProblem) -> Result<Vec<HostArray>, VulkanError> {
        let mut outputs = vec![];
        for (spec, buffer) in loaded.specs.iter().zip(&loaded.buffers) {
            if spec.role.is_output() {
                let mut output = HostArray::zeros(spec.dtype, spec.len as usize);
                self.download(buffer, RED_ZONE, output.as_bytes_mut())?;
                outputs.push(output);
            }
        }
        Ok(outputs)
    }

    /// Runs the program over poison and compares the outputs with the oracle; if they are correct, runs it again over
    /// different poison, on which the answer must not depend.
    pub fn verify(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<Verified, VulkanError> {
        let start = Instant::now();
        let mut phases = loaded.phases;
        let CheckedRun { time, download, outputs, bad_write, .. } =
            self.run_over_poison(loaded, program, Poison::NaN)?;
        phases.download = download;
        let answer = fingerprint(loaded, &outputs);
        let mut second_run = None;
        let mut check = save_and_check(loaded, program, &outputs);
        let mut unverified = loaded.oracle.doubt(&outputs);
        if loaded.reference.as_ref().is_some_and(|reference| reference.runs_the_code_of(program)) {
            unverified.get_or_insert_with(|| "the reference is this kernel itself".into());
        }
        if let Some(bad_write) = bad_write {
            check = Err(bad_write);
        }
        let mut unjudged = None;
        if check.as_ref().is_ok_and(CheckResult::passes) {
            if unverified.is_some() {
                unjudged = Some(unjudged_answer(loaded, &outputs));
            }
            drop(outputs);
            let CheckedRun { mut sampler, time, outputs, bad_write, .. } =
                self.run_over_poison(loaded, program, Poison::Number)?;
            // As in samples, without a time limit.
            sampler.lift_time_limit();
            let is_same = fingerprint(loaded, &outputs) == answer;
            unjudged = unjudged.filter(|_| is_same);
            // Nobody else says that an unchecked answer depends on the filler.
            if let Some(reason) = &mut unverified
                && !is_same
                && bad_write.is_none()
                && !has_details(reason)
                && program.is_users()
                && time.seconds() < MAX_PROBED_SECONDS
                && let Ok(Some(cause)) = self.find_cause(loaded, program)
            {
                *reason = format!("{reason}; {cause}");
            }
            check = match bad_write {
                Some(bad_write) => Err(bad_write),
                None if is_same => check,
                None => reword_second_check(save_and_check(loaded, program, &outputs)),
            };
            second_run = Some(SecondRun { sampler, time });
        }
        if !check.as_ref().is_ok_and(CheckResult::passes) && time.seconds() < MAX_PROBED_SECONDS {
            self.explain(&mut check, loaded, program);
        }
        if !check.as_ref().is_ok_and(CheckResult::passes) {
            // Clears the traces, so that a kernel sampled over the same buffers is not blamed for them.
            self.poison(loaded, Poison::NaN)?;
        }
        phases.verification = start.elapsed().into();
        Ok(Verified { check, answer, unjudged, second_run, unverified, time, phases })
    }

    /// Runs the program once and says what is wrong with its answer, if that is.
    pub(crate) fn find_wrong_answer(&mut self, loaded: &LoadedProblem, program: &Program) -> Option<String> {
        let CheckedRun { outputs, .. } = self.run_over_poison(loaded, program, Poison::NaN).ok()?;
        match check(loaded, program, &outputs) {
            Ok(check) if check.passes() => None,
            Ok(CheckResult { worst: said, .. }) | Err(said) => Some(said),
        }
    }

    /// Adds the cause of a wrong answer, or of none, to its description, if further runs show it.
    fn explain(&mut self, check: &mut Result<CheckResult, String>, loaded: &LoadedProblem, program: &Program) {
        if !program.is_users() {
            if let Ok(Some(unwritten)) = self.find_elements_left_out(loaded, program) {
                let (Ok(CheckResult { worst: said, .. }) | Err(said)) = check;
                *said = format!("{said}; {unwritten}");
            }
        } else if let Ok(wrong) = check
            && let Ok(Some(cause)) = self.find_cause(loaded, program)
        {
            // The cause says better what the filler in the answer says too.
            let (wrong_element, expected) = wrong.worst.split_once(FROM_FILLER).unwrap_or((&wrong.worst, ""));
            let expected = expected.trim_start_matches("; ");
            wrong.worst = match cause.split_once(": ") {
                _ if expected.is_empty() => format!("{wrong_element}; {cause}"),
                Some((said, why)) if said.starts_with(wrong_element) => format!("{said} ({expected}): {why}"),
                _ => format!("{wrong_element} is wrong, {expected}; {cause}"),
            };
        }
    }

    /// Takes another sample of a program whose `answer` was correct, and judges the answer that it leaves if that
    /// differs. The program's own buffers keep their contents from earlier samples, which reveals a counter that is not
    /// reset, or a flag that says that all is done. The outputs start half plausible but wrong: the first half is the
    /// answer shifted by eight bytes, the rest zeros, as in fresh memory.
    pub(crate) fn verify_another_sample(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        answer: u64,
    ) -> Result<LaterAnswer, VulkanError> {
        let copies = self.copy_inputs(loaded, program)?;
        if let Some(bad_write) = self.restore_and_find_bad_write(loaded, program, sampler, &copies)? {
            return Ok(LaterAnswer::Wrong(Verification::without_answer(bad_write)));
        }
        self.write_half_plausible_outputs(loaded)?;
        sampler.sample()?;
        let outputs = self.download_outputs(loaded)?;
        let changed = self.restore_inputs(loaded, &copies)?;
        if let Some(bad_write) = self.find_out_of_bounds_write(loaded, sampler, Poison::Number)?.or(changed) {
            return Ok(LaterAnswer::Wrong(Verification::without_answer(bad_write)));
        }
        if fingerprint(loaded, &outputs) == answer {
            return Ok(LaterAnswer::Same);
        }
        Ok(match correctness(save_and_check(loaded, program, &outputs), loaded.oracle.doubt(&outputs)) {
            Ok(correctness) => LaterAnswer::Different(correctness),
            Err(wrong) => LaterAnswer::Wrong(wrong),
        })
    }

    /// Fills the outputs, which hold a right answer, with plausible but wrong contents: the first half of the answer
    /// shifted by eight bytes, then zeros.
    fn write_half_plausible_outputs(&mut self, loaded: &LoadedProblem) -> Result<(), VulkanError> {
        let mut halves = vec![];
        let outputs: Vec<_> =
            loaded.specs.iter().zip(&loaded.buffers).filter(|(spec, _)| spec.role == Role::Output).collect();
        for (spec, buffer) in &outputs {
            let mut half = vec![0; (spec.bytes().0 / 2 / SHIFT_BYTES * SHIFT_BYTES) as usize];
            self.download(buffer, RED_ZONE, &mut half)?;
            if half.len() as u64 > SHIFT_BYTES {
                half.rotate_left(SHIFT_BYTES as usize);
                halves.push((buffer, half));
            }
        }
        self.poison(loaded, Poison::Number)?;
        let mut recorder = Recorder::new(&self.device)?;
        for (spec, buffer) in &outputs {
            // The last partial word keeps its poison, which serves as a red zone.
            let bytes = spec.bytes().0 / 4 * 4;
            if bytes > 0 {
                recorder.fill(&Region { buffer, offset: RED_ZONE, bytes }, 0);
            }
        }
        recorder.barrier();
        recorder.finish()?.run()?;
        for (buffer, half) in halves {
            self.upload(buffer, &half)?;
        }
        Ok(())
    }

    /// Restores the inputs that timed runs changed, and describes the first write to an input or out of bounds on these
    /// buffers. It stays the answer for all later kernels, because kernels take turns on the buffers and any of them
    /// may be the culprit. `None` for built-in kernels, which are not watched here.
    pub(super) fn restore_and_find_bad_write(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        copies: &[InputCopy],
    ) -> Result<Option<String>, VulkanError> {
        if !program.is_users() {
            return Ok(None);
        }
        let changed_input = self.restore_inputs(loaded, copies)?;
        let out_of_bounds = self.find_out_of_bounds_write(loaded, sampler, loaded.red_zone_poison.get())?;
        let mut first = loaded.first_bad_write.borrow_mut();
        if first.is_none()
            && let Some(write) = out_of_bounds.or(changed_input)
        {
            *first = Some(format!("in timed runs, {write} (or a kernel that took turns with it did)"));
        }
        Ok(first.clone())
    }

    /// Checks that neither the time nor the answer of a run depends on previous contents of outputs and scratch.
    /// `answer` was correct over fresh contents, and `sampled` is the median of samples.
    pub(crate) fn check_contents_dependence(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        answer: u64,
        sampled: Nanos,
    ) -> Result<(), VerificationError> {
        let dependence = sampling::depends_on_contents(sampled, |fresh_first| {
            if self.is_interrupted() { Ok(None) } else { sampler.time_over_contents(fresh_first) }
        })?;
        if let Some([fresh, left]) = dependence {
            let wrong = Verification::without_answer(format!(
                "its time depends on what its outputs and scratch hold: {left} if that is the answer of an earlier run, \
                 {fresh} if not, so timed runs leave work undone; scratch that runs may not keep needs a fill"
            ));
            return Err(VerificationError::Rejected(wrong));
        }
        // Of two runs in succession, one is wrong if the kernel leaves the work to one of several.
        for _ in 0..2 {
            if self.is_interrupted() || !sampler.run_over_fresh_contents()? {
                return Ok(());
            }
            let outputs = self.download_outputs(loaded)?;
            if fingerprint(loaded, &outputs) == answer {
                continue;
            }
            judge(loaded, program, &outputs).map_err(|wrong| {
                VerificationError::rejected("right at first, wrong in the run after the timed ones", wrong)
            })?;
        }
        Ok(())
    }

    /// Launches a user's program several times over scratch that keeps what it held, from the first launch on, and judges every
    /// answer that differs from `answer`: samples hide all but the last one. Nothing else outlives a launch, so other programs
    /// are not launched.
    pub(crate) fn check_launches(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        answer: u64,
    ) -> Result<(), VerificationError> {
        let keeps_scratch = sampler.scratch.len() > sampler.initial.len();
        if !program.is_users() || program.rounds.is_some() || !keeps_scratch {
            return Ok(());
        }
        // The device may have no room for more scratch.
        let Ok(mut sampler) = self.record_sampler(loaded, program, 1, sampler.clock, Poison::Number, None) else {
            return Ok(());
        };
        sampler.lift_time_limit();
        let start = Instant::now();
        for launch in 1..=SUCCESSIVE_LAUNCHES {
            if self.is_interrupted() || start.elapsed().as_secs_f64() > MAX_PROBED_SECONDS {
                return Ok(());
            }
            sampler.sample()?;
            let outputs = self.download_outputs(loaded)?;
            if fingerprint(loaded, &outputs) == answer {
                continue;
            }
            judge(loaded, program, &outputs).map_err(|wrong| {
                let when = format!("right at first, wrong in launch {launch} over the same scratch");
                VerificationError::rejected(&when, wrong)
            })?;
        }
        Ok(())
    }

    /// Runs a program `runs` times over the same contents and compares the answers with the first; `None` if
    /// interrupted before the second.
    ///
    /// # Errors
    /// When an answer is wrong, or the device fails.
    pub(crate) fn rerun(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        runs: u32,
    ) -> Result<Option<Repeated>, VerificationError> {
        let single_run = if program.rounds.is_none() {
            Some(self.record_one_over(loaded, program, sampler, Contents::Fresh)?)
        } else {
            None
        };
        let mut repeated = Repeated::default();
        // The first answer, in order.
        let mut first: Option<Vec<HostArray>> = None;
        // Whether the answer with a fingerprint is right, so that each different answer is checked once.
        let mut checked_answers: HashMap<u64, bool> = HashMap::new();
        let mut wrong_runs = 0;
        let mut first_wrong = None;
        while repeated.runs < runs && !self.is_interrupted() {
            if let Some(single_run) = &single_run {
                single_run.run()?;
            } else {
                self.poison(loaded, Poison::NaN)?;
                sampler.sample()?;
            }
            let outputs = self.download_outputs(loaded)?;
            repeated.runs += 1;
            let is_right = *checked_answers.entry(fingerprint(loaded, &outputs)).or_insert_with(|| {
                let Err(wrong) = judge(loaded, program, &outputs) else { return true };
                first_wrong.get_or_insert((repeated.runs, wrong));
                false
            });
            if !is_right {
                wrong_runs += 1;
            }
            let ordered = loaded.oracle.in_order(&outputs);
            let Some(first) = &first else {
                first = Some(ordered.into_owned());
                continue;
            };
            if let Some(element) = find_change(loaded, first, &ordered) {
                let order = if matches!(ordered, Cow::Owned(_)) { " (rows of sets sorted)" } else { "" };
                repeated.differing += 1;
                if repeated.first.is_none() {
                    repeated.first = Some(repeated.runs);
                    repeated.element = element + order;
                }
            }
        }
        if let Some((run, wrong)) = first_wrong {
            let when = format!("wrong in {wrong_runs} of {} runs, first in run {run}", repeated.runs);
            return Err(VerificationError::rejected(&when, wrong));
        }
        Ok((repeated.runs > 1).then_some(repeated))
    }
}
