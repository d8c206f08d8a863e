//! Answers of two drivers to a kernel without a reference, or with another kernel as the reference, which the same driver may
//! miscompile alike. The answer of A is B's reference: nobody knows which of them is right, but a driver that computes
//! something else is no faster.

use super::super::sides::added;
use super::super::{MeasurementCall, Setup};
use crate::record::Correctness;
use crate::user::algorithm::Save;
use crate::user::resolved::{Fill, Reference, ResolvedPoint};
use crate::{
    Case, CaseGroup, Error, Host, LimitPolicy, MeasureOptions, Outcome, Plan, PlanSection, Result, Timing, Tuned,
    UserKernels,
};
use tempfile::TempDir;

/// Answer of A, in files.
pub(super) struct AnswerOfA {
    _folder: TempDir,
    /// The kernels that B runs, with this answer as their reference.
    pub(super) kernels: Vec<UserKernels>,
    /// The group of the match, of these kernels.
    pub(super) group: CaseGroup,
    /// Whether the kernels have a reference of their own, by which A was judged.
    has_reference: bool,
}

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
                host.messages
                    .line("note      the answer of A is not the same each time, so that of B is not compared with it");
                return Ok(None);
            }
        }
        Ok(Some(Self { _folder: folder, kernels, group, has_reference }))
    }

    /// Says of a case of B that it was compared with A, whose answer may be wrong.
    pub(super) fn say_compared(&self, case: &mut Case) {
        match &mut case.outcome {
            Outcome::Rejected(verification) => {
                let worst = verification.worst.replace("the reference has", "A has");
                verification.worst = format!("its answer differs from A's: {worst}");
            }
            Outcome::Measured(measured) if !self.has_reference => {
                measured.accepts.clear();
                let unverified = "there is no reference: its answer is A's, within the tolerance".into();
                measured.verification = Correctness::Unverified { unverified };
            }
            _ => {}
        }
    }
}
