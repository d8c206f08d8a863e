//! Tests the check of a case with mutations of the right answer.

use super::poison::Poison;
use super::verify::check;
use super::{LoadedProblem, Workbench};
use crate::algorithms::OutputComparison;
use crate::basis::dtype::{DType, HostArray};
use crate::case::accepted::AcceptedMutation;
use crate::kernel::buffer::{BufferSpec, RED_ZONE, Role};
use crate::kernel::program::Program;
use crate::mutation::{self, AcceptedChange, RightAnswer};
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
    /// Number of the buffer.
    number: usize,
    /// Index among the outputs.
    index: usize,
    comparison: OutputComparison,
    /// Whether the check can judge a part of the output.
    is_divisible: bool,
    /// Ranges of elements that are mutated.
    ranges: Vec<Range<usize>>,
    /// Contents of these ranges in a correct answer.
    right: Vec<u8>,
    /// Contents of these ranges before the run.
    before: Vec<u8>,
    /// Whether all elements of the complete output are equal.
    is_constant: bool,
}

/// Most elements of all outputs for which complete answers are mutated, if the check cannot judge parts.
const MAX_MUTATED_WHOLE: u64 = 1 << 16;

/// Whether any output that the check compares is changed in place: only then may a run that does nothing pass.
fn compares_in_place(loaded: &LoadedProblem) -> bool {
    let outputs = loaded.specs.iter().filter(|spec| spec.role.is_output());
    let mut in_place = outputs.enumerate().filter(|(_, spec)| spec.role == Role::InPlace);
    in_place.any(|(index, _)| loaded.oracle.comparison(index).is_some())
}

/// Returns the number of elements in all outputs.
fn element_count(loaded: &LoadedProblem) -> u64 {
    loaded.specs.iter().filter(|spec| spec.role.is_output()).map(|spec| spec.len).sum()
}

/// Whether the outputs pass the check with `wrong` in place of the one at `index`.
fn passes(loaded: &LoadedProblem, program: &Program, outputs: &mut [HostArray], index: usize, wrong: &[u8]) -> bool {
    let right = outputs[index].clone();
    outputs[index].as_bytes_mut().copy_from_slice(wrong);
    let passes = check(loaded, program, outputs).is_ok_and(|check| check.passes());
    outputs[index] = right;
    passes
}

/// Whether all elements are equal.
fn is_repeated(contents: &[u8], dtype: DType) -> bool {
    let size = dtype.bytes() as usize;
    contents.get(size..).is_some_and(|rest| rest.iter().zip(contents).all(|(next, previous)| next == previous))
}

impl Workbench {
    /// Mutates the correct answer that the outputs hold after [`Self::verify`], and tests the problem's check with each
    /// mutation. Samples the outputs if the check can judge parts; skips large ones that it can only judge as a whole.
    pub fn find_blind_spots(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<BlindSpots, VulkanError> {
        let outputs = self.sample_outputs(loaded)?;
        let mut complete_outputs = vec![];
        if outputs.iter().any(|output| !output.is_divisible) {
            complete_outputs = self.download_outputs(loaded)?;
        }
        let groups = program.dispatches().last().map_or([1; 3], |dispatch| dispatch.groups);
        let groups = groups.into_iter().fold(1, u64::saturating_mul).max(1);
        let mut spots = BlindSpots { accepts: vec![], accepts_nothing_done: compares_in_place(loaded) };
        for output in &outputs {
            let spec = &loaded.specs[output.number];
            let comparison = &output.comparison;
            let mut accepts = |wrong: &[u8], changed: u64| {
                if output.is_divisible {
                    loaded.oracle.accepted_share(output.index, &output.ranges, wrong, changed).unwrap_or(0.0)
                } else if passes(loaded, program, &mut complete_outputs, output.index, wrong) {
                    1.0
                } else {
                    0.0
                }
            };
            spots.accepts_nothing_done &= !output.is_divisible || accepts(&output.before, 1) >= 1.0;
            let answer = RightAnswer {
                dtype: spec.dtype,
                comparison,
                contents: &output.right,
                before: &output.before,
                last_group_len: (spec.len / groups).max(1) as usize,
                range_len: output.ranges.first().map_or(1, Range::len),
                is_constant: output.is_constant,
            };
            let mut check = vec![loaded.fills.join(", "), comparison.tolerance.clone()];
            check.retain(|part| !part.is_empty());
            let check = check.join("; ");
            for AcceptedChange { mutation, member, share } in answer.find_accepted(&mut accepts) {
                let buffer = spec.name.to_string();
                spots.accepts.push(AcceptedMutation { buffer, mutation, member, share, check: check.clone() });
            }
        }
        if spots.accepts_nothing_done {
            spots.accepts_nothing_done = self.accepts_nothing_done(loaded, program)?;
        }
        Ok(spots)
    }

    /// Returns the compared outputs, each with a sample of its elements.
    fn sample_outputs(&mut self, loaded: &LoadedProblem) -> Result<Vec<MutatedOutput>, VulkanError> {
        let mut outputs = vec![];
        let specs = loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output());
        for (index, (number, spec)) in specs.enumerate() {
            let Some(comparison) = loaded.oracle.comparison(index) else { continue };
            let is_divisible = loaded.oracle.accepted_share(index, &[], &[], 0).is_some();
            if !is_divisible && element_count(loaded) > MAX_MUTATED_WHOLE {
                continue;
            }
            let all = 0..spec.len as usize;
            let ranges = if is_divisible { mutation::sample_ranges(all.end, comparison.row) } else { vec![all] };
            let before = self.contents_before_run(loaded, number, &ranges)?;
            // Use the oracle's answer if it has one: the kernel's may be wrong within the tolerance.
            let right = match loaded.oracle.answer(index, &ranges) {
                Some(right) => right,
                None => self.read_elements(&loaded.buffers[number], spec, &ranges)?,
            };
            // A sample does not tell whether the rest is as constant.
            let mut is_constant = is_repeated(&right, spec.dtype);
            if is_constant && ranges.len() > 1 {
                let whole = 0..spec.len as usize;
                let contents = match loaded.oracle.answer(index, std::slice::from_ref(&whole)) {
                    Some(contents) => contents,
                    None => self.read_elements(&loaded.buffers[number], spec, &[whole])?,
                };
                is_constant = is_repeated(&contents, spec.dtype);
            }
            outputs.push(MutatedOutput { number, index, comparison, is_divisible, ranges, right, before, is_constant });
        }
        Ok(outputs)
    }

    /// Downloads ranges of a buffer's elements.
    fn read_elements(
        &mut self,
        buffer: &DeviceBuffer,
        spec: &BufferSpec,
        ranges: &[Range<usize>],
    ) -> Result<Vec<u8>, VulkanError> {
        let size = spec.dtype.bytes();
        let mut contents = vec![];
        for range in ranges {
            let mut bytes = vec![0; range.len() * size as usize];
            self.download(buffer, RED_ZONE + range.start as u64 * size, &mut bytes)?;
            contents.extend(bytes);
        }
        Ok(contents)
    }

    /// Returns ranges of an output's elements as a run finds them: initial contents, or poison.
    fn contents_before_run(
        &mut self,
        loaded: &LoadedProblem,
        number: usize,
        ranges: &[Range<usize>],
    ) -> Result<Vec<u8>, VulkanError> {
        let spec = &loaded.specs[number];
        if let Some(initial) = &loaded.initial[number] {
            return self.read_elements(initial, spec, ranges);
        }
        let word = Poison::NaN.words(number)[0].to_le_bytes();
        let size = spec.dtype.bytes() as usize;
        let positions = ranges.iter().flat_map(|range| range.start * size..range.end * size);
        Ok(positions.map(|position| word[position % word.len()]).collect())
    }

    /// Whether the check accepts the outputs' contents from before the run.
    fn accepts_nothing_done(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<bool, VulkanError> {
        let mut outputs = vec![];
        for (number, spec) in loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output()) {
            let all = 0..spec.len as usize;
            let before = self.contents_before_run(loaded, number, &[all])?;
            outputs.push(HostArray::of_bytes(spec.dtype, &before));
        }
        Ok(check(loaded, program, &outputs).is_ok_and(|check| check.passes()))
    }
}
