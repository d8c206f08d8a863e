//! Baselines: the program that a user would choose on the CPU for an algorithm.

use super::{Algorithm, CaseSpec, Problem};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::threads::prepare;
use crate::case::check::CheckResult;

/// Program that a user would choose on the CPU for an algorithm.
pub struct Baseline {
    /// Supported element types.
    pub dtypes: &'static [DType],
    /// Canonical name: that of the library, `faer` or `rayon`.
    pub name: &'static str,
    /// Method, and its differences from the variants, in one sentence.
    pub summary: &'static str,
    /// Constructor of the program for a case and its inputs; returns `None` if the inputs have unexpected types.
    pub make: MakeHostProgram,
}

/// Constructor of the program for a case and its inputs.
pub type MakeHostProgram = for<'a> fn(&CaseSpec, &'a [HostArray]) -> Option<Box<dyn HostProgram + 'a>>;

/// Baseline with its data: ready to run, and again after each [`HostProgram::restore`].
pub trait HostProgram {
    /// Restores data that a run changes in place. Not timed.
    fn restore(&mut self);
    /// Does the timed work.
    fn run(&mut self);
    /// Returns the contents of the problem's output buffers (including in-place ones), in buffer order.
    fn outputs(&self) -> Vec<HostArray>;
}

impl Algorithm {
    /// Returns the baseline, if it supports the element type of a case.
    pub fn baseline_of(&self, case: &CaseSpec) -> Option<&'static Baseline> {
        self.baseline.filter(|baseline| baseline.dtypes.contains(&case.dtype))
    }

    /// Creates the baseline's program for a case with these inputs, if there is a baseline.
    pub fn host_program<'a>(&self, case: &CaseSpec, inputs: &'a [HostArray]) -> Option<Box<dyn HostProgram + 'a>> {
        prepare();
        (self.baseline_of(case)?.make)(case, inputs)
    }
}

/// Compares the outputs of `program` with the correct answer, by the problem's own oracle. The error says why there is
/// no correct answer, or why the outputs are not an answer, as in [`super::Oracle::check`].
pub fn check(problem: &dyn Problem, inputs: &[HostArray], program: &dyn HostProgram) -> Result<CheckResult, String> {
    problem.oracle(inputs).map_err(|e| e.to_string())?.check(&program.outputs())
}
