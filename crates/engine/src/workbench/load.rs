//! Loads a problem onto a device: buffers, inputs and the right answer.

use super::poison::{BufferPoison, Poison};
use super::verify::CheckedRun;
use super::{LoadedProblem, Workbench, whole};
use crate::algorithms::{MakeOracle, Oracle, Problem};
use crate::basis::dtype::HostArray;
use crate::basis::error::Error;
use crate::device::cache;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::Program;
use crate::record::Phases;
use crate::vulkan::{DeviceBuffer, Recorder, Use, VulkanError};
use std::cell::{Cell, RefCell};
use std::time::Instant;

impl Workbench {
    /// Creates a buffer for each of `specs`, and a second one for the initial contents of each in-place buffer.
    fn create_buffers(
        &self,
        specs: &[BufferSpec],
    ) -> Result<(Vec<DeviceBuffer>, Vec<Option<DeviceBuffer>>), VulkanError> {
        let make = |spec: &BufferSpec| DeviceBuffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel);
        let buffers = specs.iter().map(make).collect::<Result<_, _>>()?;
        let initial = specs.iter().map(|spec| (spec.role == Role::InPlace).then(|| make(spec)).transpose());
        Ok((buffers, initial.collect::<Result<_, _>>()?))
    }

    /// Creates the buffers of `problem`, poisons them, uploads the inputs and computes the answer on the host.
    ///
    /// # Errors
    /// When the device has no room for the buffers, or the inputs or the answer are unavailable.
    pub fn load(&mut self, problem: &dyn Problem) -> Result<LoadedProblem, VulkanError> {
        let mut phases = Phases::default();
        let specs = problem.buffers();
        let (buffers, initial) = self.create_buffers(&specs)?;

        let start = Instant::now();
        let inputs = problem.inputs().map_err(VulkanError::Problem)?;
        phases.inputs = start.elapsed().into();

        let mut recorder = Recorder::new(&self.device)?;
        for (number, (buffer, initial)) in buffers.iter().zip(&initial).enumerate() {
            for buffer in std::iter::once(buffer).chain(initial) {
                self.record_poison(&mut recorder, &whole(buffer), BufferPoison { kind: Poison::NaN, buffer: number });
            }
        }
        recorder.finish()?.run()?;
        let start = Instant::now();
        let targets = specs.iter().zip(&buffers).zip(&initial).filter(|((spec, _), _)| spec.role.is_input());
        for (((_, buffer), initial), input) in targets.zip(&inputs) {
            self.upload(initial.as_ref().unwrap_or(buffer), input.as_bytes())?;
        }
        phases.upload = start.elapsed().into();

        let input_fingerprint = problem.inputs_are_given().then(|| {
            let contents: Vec<_> = inputs.iter().map(HostArray::as_bytes).collect();
            cache::fingerprint(&contents)
        });

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
            loaded.oracle = self.run_reference(&loaded, program, oracle)?;
        }
        loaded.phases.oracle = start.elapsed().into();
        Ok(loaded)
    }

    /// Runs the reference program and returns the oracle that compares with its outputs.
    fn run_reference(
        &mut self,
        loaded: &LoadedProblem,
        program: Program,
        make_oracle: MakeOracle,
    ) -> Result<Box<dyn Oracle>, VulkanError> {
        let unusable = |why: String| VulkanError::Problem(Error::Usage(format!("the reference is unusable: {why}")));
        let program = program
            .feasible(&loaded.specs, &self.device.info)
            .map_err(|reason| VulkanError::Problem(Error::Failure(format!("the reference {reason}"))))?;
        let CheckedRun { outputs, bad_write, .. } = self.run_over_poison(loaded, &program, Poison::NaN)?;
        if let Some(bad_write) = bad_write {
            return Err(unusable(bad_write));
        }
        let unwritten = self.list_unwritten(loaded, &program, &outputs)?;
        let oracle = make_oracle(outputs).map_err(VulkanError::Problem)?;
        match unwritten.iter().find_map(|(output, index)| oracle.element(*output, *index)) {
            Some(element) => {
                Err(unusable(format!("it never writes {element}; does its grid, or an `if`, leave it out?")))
            }
            None => Ok(oracle),
        }
    }
}
