//! Answers of two kernels without a reference; and of two drivers, also if another kernel is the reference, which the same driver
//! may miscompile alike. The answer of A is B's reference: nobody knows which of them is right, but what computes something
//! else is no faster.

use super::super::sides::{added, has_no_reference};
use super::super::{MeasurementCall, Setup};
use super::Match;
use crate::case::check::ANSWER_DIFFERS;
use crate::record::Correctness;
use crate::user::algorithm::Save;
use crate::user::resolved::{Fill, Reference, ResolvedPoint};
use crate::{
    Case, CaseGroup, Error, Host, LimitPolicy, MeasureOptions, Outcome, Plan, PlanSection, Result, Timing, Tuned,
    UserKernels,
};
use std::collections::BTreeSet;
use tempfile::TempDir;

/// Answer of A, in files.
pub(super) struct AnswerOfA {
    _folder: TempDir,
    /// The kernels that B runs, with this answer as their reference.
    pub(super) kernels: Vec<UserKernels>,
    /// The group of the match, of these kernels.
    pub(super) group: CaseGroup,
    /// Whether the kernels have a reference of their own, by which A was judged.
    pub(super) has_reference: bool,
}

/// Note on an A that is no reference.
pub(super) const NOT_THE_SAME: &str =
    "note      the answer of A is incomplete or not the same each time, so that of B is not compared with it";

/// Runs of A whose answers have to be the first one's.
const SELF_CHECKS: usize = 3;

impl AnswerOfA {
    /// Runs the kernel of `section` with the setup of A. Returns `None` if the host knows the answer, or if A fails, which its
    /// timed runs will say, or answers differently each time: then the answer of B may differ, too.
    pub(super) fn find(section: &PlanSection, setup: &Setup, host: &Host) -> Result<Option<Self>> {
        let [kernels] = &setup.kernels[..] else { return Ok(None) };
        let points = &kernels.problem.points;
        let outputs: Vec<usize> = points.first().map_or_else(Vec::new, |point| {
            let buffers = point.buffers.iter().enumerate();
            buffers.filter(|(_, buffer)| buffer.role.is_output() && buffer.parts.is_empty()).map(|(at, _)| at).collect()
        });
        let is_of_driver = |point: &ResolvedPoint| matches!(point.reference, Reference::None | Reference::Kernel(_));
        if outputs.is_empty() || !points.iter().all(is_of_driver) {
            return Ok(None);
        }
        let has_reference = points.iter().any(|point| point.reference != Reference::None);
        let folder =
            tempfile::tempdir().map_err(|e| Error::Failure(format!("cannot make a folder for answers: {e}")))?;
        let path = |output: usize| folder.path().join(format!("{output}.npy"));
        let name = |output: usize| points[0].buffers[output].name.clone();
        let saves = outputs.iter().map(|output| Save { buffer: name(*output), path: path(*output) }).collect();
        let saving = UserKernels { saves, ..kernels.clone() };
        let plan_of =
            |group| Plan { sections: vec![PlanSection { groups: vec![group], ..section.clone() }], run_tables: vec![] };
        let plan = plan_of(added(&section.groups[0], &saving, &mut vec![])?);
        let tuned = Tuned::none();
        let options = MeasureOptions::new(Timing::VerifyOnly, LimitPolicy::Ignore, &tuned, host.command_line());
        let setup = setup.with_kernels(vec![saving]);
        // The timed runs say what failed.
        let measured = MeasurementCall::new(&plan, &setup, &options, host).measure_in_fresh_processes("A");
        if !measured.is_ok_and(|record| record.is_some()) || outputs.iter().any(|output| !path(*output).exists()) {
            return Ok(None);
        }
        let mut compared = kernels.clone();
        for point in &mut compared.problem.points {
            point.reference =
                Reference::Files(outputs.iter().map(|output| (*output, Fill::Npy(path(*output)))).collect());
        }
        let mut kernels = vec![];
        let group = added(&section.groups[0], &compared, &mut kernels)?;
        let plan = plan_of(group.clone());
        let setup = setup.with_kernels(kernels.clone());
        for _ in 0..SELF_CHECKS {
            let call = MeasurementCall::new(&plan, &setup, &options, host);
            let again = call.measure_in_fresh_processes("A").ok().flatten();
            let is_same = |case: &Case| !matches!(case.outcome, Outcome::Rejected(_));
            if !again.is_some_and(|record| record.cases.iter().all(is_same)) {
                host.messages.line(NOT_THE_SAME);
                return Ok(None);
            }
        }
        Ok(Some(Self { _folder: folder, kernels, group, has_reference }))
    }
}

/// Whether a case is rejected because its answer is not that of the reference.
pub(super) fn differs_from_reference(case: &Case) -> bool {
    matches!(&case.outcome, Outcome::Rejected(verification) if verification.worst.contains("the reference has"))
}

/// Says of a case of B that it was compared with A, whose answer may be wrong. Returns whether its answer differs.
pub(super) fn say_compared(case: &mut Case, has_reference: bool) -> bool {
    // A write outside the buffers is wrong whatever A does.
    let differs = differs_from_reference(case);
    if let Outcome::Rejected(verification) = &mut case.outcome {
        if differs {
            let worst = verification.worst.replace("the reference has", "A has");
            verification.worst = format!("{ANSWER_DIFFERS} A's: {worst}");
        }
    } else if !has_reference {
        say_unverified(case, "there is no reference: its answer is A's, within the tolerance");
    }
    differs
}

/// Says why nobody knows whether the answer of a case is right.
pub(super) fn say_unverified(case: &mut Case, unverified: &str) {
    if let Outcome::Measured(measured) = &mut case.outcome {
        measured.accepts.clear();
        measured.verification = Correctness::Unverified { unverified: unverified.into() };
    }
}

/// Suffix of kernels that nothing judges, beside the same that the answer of A judges.
const UNJUDGED: &str = "@unjudged";

/// Makes the answer of A the reference in each match that has none. Returns `kernels` with these references, and as they were.
pub(super) fn judge_by_a(matches: &mut [Match<'_>], kernels: &[UserKernels]) -> Result<Vec<UserKernels>> {
    let mut all = kernels.to_vec();
    let mut judged = BTreeSet::new();
    for current in &*matches {
        let CaseGroup { algorithm, spec, .. } = &current.group;
        let Some(own) = all.iter_mut().find(|own| own.name == algorithm.name) else { continue };
        let size = own.problem.sizes().iter().position(|size| *size == spec.size);
        let a = algorithm.variants.iter().position(|variant| *variant.name == *current.labels[0]);
        let (Some(size), Some(a), true) = (size, a, has_no_reference(&own.problem)) else { continue };
        let point = &mut own.problem.points[size];
        if let Some(Ok(list)) = point.pass_lists.get(a) {
            point.reference = Reference::Kernel(list.clone());
            judged.insert(own.name.clone());
        }
    }
    for current in matches {
        let is_judged = |own: &UserKernels| judged.contains(&own.name) && own.name == current.group.algorithm.name;
        let Some(place) = kernels.iter().position(is_judged) else { continue };
        let (plain, own) = (&kernels[place], all[place].clone());
        let unjudged = UserKernels { name: format!("{}{UNJUDGED}", plain.name), ..plain.clone() };
        let of = |own: &UserKernels, all: &mut Vec<UserKernels>| {
            let group = added(&current.group, own, all)?;
            let [a, b] = current.labels.each_ref().map(|label| group.variants.iter().find(|own| *own.name == **label));
            let (Some(a), Some(b)) = (a, b) else { return Err(usage!("{}: a side is gone", own.name)) };
            Ok(Match::of_variants(a, b, group.clone()))
        };
        *current = Match { unjudged: Some(Box::new(of(&unjudged, &mut all)?)), ..of(&own, &mut all)? };
    }
    Ok(all)
}

/// Gives cases of kernels that nothing judges the names of these kernels.
pub(super) fn rename(cases: [&mut Case; 2]) {
    for case in cases {
        case.algorithm = case.algorithm.replace(UNJUDGED, "");
        case.id = case.id.replace(UNJUDGED, "");
    }
}
