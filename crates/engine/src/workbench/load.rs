//! Loads a problem onto a device: buffers, inputs and the right answer.

use super::poison::Poison;
use super::verify::CheckedRun;
use super::{LoadedProblem, Workbench, whole};
use crate::algorithms::{MakeOracle, Oracle, Problem};
use crate::basis::dtype::HostArray;
use crate::basis::error::Error;
use crate::device::cache;
use crate::kernel::buffer::Role;
use crate::kernel::program::Program;
use crate::record::Phases;
use crate::vulkan::{Recorder, VulkanError};
use std::cell::{Cell, RefCell};
use std::time::Instant;

impl Workbench {
    /// Creates the buffers of `problem`, poisons them, uploads the inputs and computes the answer on the host.
    ///
    /// # Errors
    /// When the device has no room for the buffers, or the inputs or the answer are unavailable.
    pub fn load(&mut self, problem: &dyn Problem) -> Result<LoadedProblem, VulkanError> {
        let start = Instant::now();
        let inputs = problem.inputs().map_err(VulkanError::Problem)?;
        let mut loaded = self.load_inputs(problem, inputs)?;
        loaded.phases.inputs = start.elapsed().into();
        Ok(loaded)
    }

    /// Loads a problem with these inputs.
    pub(crate) fn load_inputs(
        &mut self,
        problem: &dyn Problem,
        inputs: Vec<HostArray>,
    ) -> Result<LoadedProblem, VulkanError> {
        let mut phases = Phases::default();
        let specs = problem.buffers();
        let mut buffers = vec![];
        for spec in &specs {
            buffers.push(self.create_buffer(spec)?);
        }
        // In-place buffers have a second one for their initial contents.
        let mut initial = vec![];
        for spec in &specs {
            initial.push(if spec.role == Role::InPlace { Some(self.create_buffer(spec)?) } else { None });
        }

        let mut recorder = Recorder::new(&self.device)?;
        for (number, (buffer, initial)) in buffers.iter().zip(&initial).enumerate() {
            for buffer in std::iter::once(buffer).chain(initial) {
                self.record_poison(&mut recorder, &whole(buffer), Poison::NaN, number);
            }
        }
        recorder.finish()?.run()?;
        let start = Instant::now();
        let input_numbers = (0..specs.len()).filter(|number| specs[*number].role.is_input());
        for (number, input) in input_numbers.zip(&inputs) {
            self.upload(initial[number].as_ref().unwrap_or(&buffers[number]), input.as_bytes())?;
        }
        phases.upload = start.elapsed().into();

        let mut input_fingerprint = None;
        if problem.inputs_are_given() {
            let contents: Vec<_> = inputs.iter().map(HostArray::as_bytes).collect();
            input_fingerprint = Some(cache::fingerprint(&contents));
        }

        let start = Instant::now();
        let reference = problem.reference(&self.device.info);
        let oracle = match &reference {
            None => problem.oracle(&inputs).map_err(VulkanError::Problem)?,
            // Placeholder until the reference program has run.
            Some(_) => Box::new(|_: &[HostArray]| Err("the reference has not run".into())),
        };
        let mut loaded = LoadedProblem {
            specs,
            buffers,
            initial,
            oracle,
            reference: None,
            fills: problem.fills(),
            input_fingerprint,
            check_was_tested: Cell::new(false),
            input_copies: RefCell::default(),
            red_zone_poison: Cell::new(Poison::NaN),
            first_bad_write: RefCell::default(),
            phases,
        };
        if let Some((program, oracle)) = reference {
            drop(inputs);
            let (oracle, program) = self.run_reference(&loaded, program, oracle)?;
            (loaded.oracle, loaded.reference) = (oracle, Some(program));
        }
        loaded.phases.oracle = start.elapsed().into();
        Ok(loaded)
    }

    /// Runs the reference program and returns the oracle that compares with its outputs, and the program as it ran.
    fn run_reference(
        &mut self,
        loaded: &LoadedProblem,
        program: Program,
        make_oracle: MakeOracle,
    ) -> Result<(Box<dyn Oracle>, Program), VulkanError> {
        let unusable = |reason| VulkanError::Problem(Error::Usage(format!("the reference is unusable: {reason}")));
        let program = program
            .feasible(&loaded.specs, &self.device.info)
            .map_err(|reason| VulkanError::Problem(Error::Failure(format!("the reference {reason}"))))?;
        let CheckedRun { outputs, bad_write, .. } = self.run_over_poison(loaded, &program, Poison::NaN)?;
        if let Some(bad_write) = bad_write {
            return Err(unusable(format!("{bad_write}; are the shapes of the buffers right?")));
        }
        let unwritten = self.list_unwritten(loaded, &program, &outputs)?;
        let oracle = make_oracle(outputs).map_err(VulkanError::Problem)?;
        if let Some(element) = unwritten.iter().find_map(|(output, index)| oracle.element(*output, *index)) {
            let limit = self.device.info.limits.loop_iterations.map_or_else(String::new, |most| {
                format!(
                    " Or do its loops take more than {most} iterations in all, after which this driver silently stops?"
                )
            });
            return Err(unusable(format!(
                "it never writes {element}; does its grid, or an `if`, leave it out?{limit}"
            )));
        }
        Ok((oracle, program))
    }
}
