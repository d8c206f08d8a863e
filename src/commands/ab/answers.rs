//! Answers of two drivers to a kernel without a reference. The answer of A is B's reference: nobody knows which of them is
//! right, but a driver that computes something else is no faster.

use super::super::sides::added;
use super::super::{MeasurementCall, Setup};
use crate::record::Correctness;
use crate::user::algorithm::Save;
use crate::user::resolved::{Fill, Reference};
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
}

impl AnswerOfA {
    /// Runs the kernel of `section` once with the setup of A. Returns `None` if it has a reference, or if A fails, which its
    /// timed runs will say.
    pub(super) fn find(section: &PlanSection, setup: &Setup, host: &Host) -> Result<Option<Self>> {
        let [kernels] = &setup.kernels[..] else { return Ok(None) };
        let points = &kernels.problem.points;
        let outputs: Vec<usize> = points.first().map_or_else(Vec::new, |point| {
            let buffers = point.buffers.iter().enumerate();
            buffers.filter(|(_, buffer)| buffer.role.is_output() && buffer.parts.is_empty()).map(|(at, _)| at).collect()
        });
        if outputs.is_empty() || points.iter().any(|point| point.reference != Reference::None) {
            return Ok(None);
        }
        let folder =
            tempfile::tempdir().map_err(|e| Error::Failure(format!("cannot make a folder for answers: {e}")))?;
        let path = |output: usize| folder.path().join(format!("{output}.npy"));
        let name = |output: usize| points[0].buffers[output].name.clone();
        let saves = outputs.iter().map(|output| Save { buffer: name(*output), path: path(*output) }).collect();
        let saving = UserKernels { saves, ..kernels.clone() };
        let groups = vec![added(&section.groups[0], &saving, &mut vec![])?];
        let plan = Plan { sections: vec![PlanSection { groups, ..section.clone() }], run_tables: vec![] };
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
        Ok(Some(Self { _folder: folder, kernels, group }))
    }
}

/// Says of a case of B that it was compared with A, whose answer may be wrong.
pub(super) fn say_compared(case: &mut Case) {
    match &mut case.outcome {
        Outcome::Rejected(verification) => {
            let worst = verification.worst.replace("the reference has", "that of A has");
            verification.worst = format!("its answer is not that of A: {worst}");
        }
        Outcome::Measured(measured) => {
            measured.accepts.clear();
            let unverified = "there is no reference; its answer is that of A, within the tolerance".into();
            measured.verification = Correctness::Unverified { unverified };
        }
        _ => {}
    }
}
