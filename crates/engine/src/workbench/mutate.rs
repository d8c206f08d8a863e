//! Tests the check of a case with mutations of the right answer.

use super::poison::Poison;
use super::verify::check_outputs;
use super::{LoadedProblem, Workbench};
use crate::algorithms::OutputComparison;
use crate::basis::dtype::HostArray;
use crate::case::accepted::AcceptedMutation;
use crate::kernel::buffer::{BufferSpec, RED_ZONE, Role};
use crate::kernel::program::Program;
use crate::mutation;
use crate::mutation::{AcceptedChange, RightAnswer};
use crate::vulkan::{DeviceBuffer, VulkanError};
use std::ops::Range;

/// Mistakes that the check of a case would not notice.
#[derive(Debug, Default)]
pub struct BlindSpots {
    /// Mutations of the correct answer that the check accepts.
    pub accepts: Vec<AcceptedMutation>,
    /// Whether the check accepts the outputs' contents from before the run.
    pub accepts_nothing_done: bool,
}

/// Output of a problem, prepared for mutations.
struct MutatedOutput {
    /// Number of the buffer, and index among the outputs.
    place: usize,
    output: usize,
    comparison: OutputComparison,
    /// Whether the check can judge a part of the output.
    is_divisible: bool,
    /// Ranges of elements that are mutated.
    stretches: Vec<Range<usize>>,
    /// Sampled elements: correct ones, and those before the run.
    right: Vec<u8>,
    before: Vec<u8>,
}

/// Most elements of all outputs for which complete answers are mutated, if the check cannot judge parts.
const MAX_MUTATED_WHOLE: u64 = 1 << 16;

/// Returns the number of elements in all outputs.
fn element_count(loaded: &LoadedProblem) -> u64 {
    loaded.specs.iter().filter(|spec| spec.role.is_output()).map(|spec| spec.len).sum()
}

/// Returns 1 if the check accepts the outputs with `wrong` in place of one of them, else 0.
fn accepted_whole(
    loaded: &LoadedProblem,
    program: &Program,
    outputs: &mut [HostArray],
    output: usize,
    wrong: &[u8],
) -> f64 {
    let right = outputs[output].clone();
    outputs[output].as_bytes_mut().copy_from_slice(wrong);
    let passes = check_outputs(loaded, program, outputs).is_ok_and(|check| check.passes());
    outputs[output] = right;
    f64::from(u8::from(passes))
}

impl Workbench {
    /// Mutates the correct answer that the outputs hold after [`Self::verify`], and tests the problem's check with each
    /// mutation. Samples the outputs if the check can judge parts; skips large ones that it can only judge as a whole.
    ///
    /// # Errors
    /// When the device fails.
    pub fn blind_spots(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<BlindSpots, VulkanError> {
        let outputs = self.mutated_outputs(loaded)?;
        let mut whole = vec![];
        if outputs.iter().any(|output| !output.is_divisible) {
            whole = self.download_outputs(loaded)?;
        }
        let groups = program.dispatches().last().map_or([1; 3], |dispatch| dispatch.groups);
        let groups = groups.into_iter().fold(1, u64::saturating_mul).max(1);
        let all = loaded.specs.iter().filter(|spec| spec.role.is_output()).enumerate();
        let mut in_place =
            all.filter(|(output, spec)| spec.role == Role::InPlace && loaded.oracle.comparison(*output).is_some());
        let mut spots = BlindSpots { accepts: vec![], accepts_nothing_done: in_place.next().is_some() };
        for output in &outputs {
            let spec = &loaded.specs[output.place];
            let comparison = &output.comparison;
            let mut accepts = |wrong: &[u8], changed: u64| {
                if output.is_divisible {
                    loaded.oracle.accepted_share(output.output, &output.stretches, wrong, changed).unwrap_or(0.0)
                } else {
                    accepted_whole(loaded, program, &mut whole, output.output, wrong)
                }
            };
            spots.accepts_nothing_done &= !output.is_divisible || accepts(&output.before, 1) >= 1.0;
            let answer = RightAnswer {
                dtype: spec.dtype,
                comparison,
                contents: &output.right,
                before: &output.before,
                last: (spec.len / groups).max(1) as usize,
                stretch: output.stretches.first().map_or(1, Range::len),
            };
            let check = [loaded.fills.join(", "), comparison.tolerance.clone()];
            let check = check.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
            for AcceptedChange { mutation, member, share } in answer.accepted(&mut accepts) {
                let buffer = spec.name.to_string();
                spots.accepts.push(AcceptedMutation { buffer, mutation, member, share, check: check.clone() });
            }
        }
        spots.accepts_nothing_done = spots.accepts_nothing_done && self.accepts_nothing_done(loaded, program)?;
        Ok(spots)
    }

    /// Returns the compared outputs, each with a sample of its elements.
    fn mutated_outputs(&mut self, loaded: &LoadedProblem) -> Result<Vec<MutatedOutput>, VulkanError> {
        let mut outputs = vec![];
        let all = loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output());
        for (output, (place, spec)) in all.enumerate() {
            let Some(comparison) = loaded.oracle.comparison(output) else { continue };
            let is_divisible = loaded.oracle.accepted_share(output, &[], &[], 0).is_some();
            let stretches = match is_divisible {
                true => mutation::sampled(spec.len as usize, comparison.row),
                false if element_count(loaded) <= MAX_MUTATED_WHOLE => std::iter::once(0..spec.len as usize).collect(),
                false => continue,
            };
            let mut right = vec![];
            let mut before = vec![];
            // Use the oracle's answer if it has one: the kernel's may be wrong within the tolerance.
            let known = loaded.oracle.answer(output, &stretches);
            for stretch in &stretches {
                if known.is_none() {
                    right.extend(self.read_elements(&loaded.buffers[place], spec, stretch)?);
                }
                before.extend(self.contents_before_run(loaded, place, stretch)?);
            }
            let right = known.unwrap_or(right);
            outputs.push(MutatedOutput { place, output, comparison, is_divisible, stretches, right, before });
        }
        Ok(outputs)
    }

    /// Downloads elements of a buffer.
    fn read_elements(
        &mut self,
        buffer: &DeviceBuffer,
        spec: &BufferSpec,
        elements: &Range<usize>,
    ) -> Result<Vec<u8>, VulkanError> {
        let size = spec.dtype.bytes();
        let mut bytes = vec![0; elements.len() * size as usize];
        self.download(buffer, RED_ZONE + elements.start as u64 * size, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns elements of an output as a run finds them: initial contents, or poison.
    fn contents_before_run(
        &mut self,
        loaded: &LoadedProblem,
        place: usize,
        elements: &Range<usize>,
    ) -> Result<Vec<u8>, VulkanError> {
        let spec = &loaded.specs[place];
        if let Some(initial) = &loaded.initial[place] {
            self.read_elements(initial, spec, elements)
        } else {
            let word = Poison::NaN.words(place)[0].to_le_bytes();
            let size = spec.dtype.bytes() as usize;
            Ok((elements.start * size..elements.end * size).map(|at| word[at % 4]).collect())
        }
    }

    /// Whether the check accepts the outputs' contents from before the run.
    fn accepts_nothing_done(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<bool, VulkanError> {
        let mut outputs = vec![];
        for (place, spec) in loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output()) {
            let before = self.contents_before_run(loaded, place, &(0..spec.len as usize))?;
            outputs.push(HostArray::of_bytes(spec.dtype, &before));
        }
        Ok(check_outputs(loaded, program, &outputs).is_ok_and(|check| check.passes()))
    }
}
