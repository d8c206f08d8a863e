//! Searches the cause of a wrong answer of a user's kernel.

use super::poison::Poison;
use super::verify::{CheckedRun, fingerprint};
use super::{LoadedProblem, Workbench, region};
use crate::basis::dtype::HostArray;
use crate::case::method::Clock;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::Program;
use crate::vulkan::{DeviceBuffer, Recorder, Region, VulkanError};
use std::collections::HashSet;

/// Longest run, in seconds, for which the cause of a wrong answer is searched by running it again.
pub(super) const MAX_PROBED_SECONDS: f64 = 1.0;

/// Memory whose poison differs from the first run's, to find the cause of a wrong answer.
#[derive(Clone, Copy)]
pub(super) enum PoisonedPart {
    Nothing,
    /// Red zones of all buffers.
    Zones,
    /// Red zone before the data of the buffer with this number.
    Before(usize),
    /// Red zone behind the data of the buffer with this number.
    Behind(usize),
    /// Data of all outputs and scratch buffers.
    Data,
    /// Data of the output with this number.
    DataOf(usize),
    /// Data of all scratch buffers.
    Scratch,
}

impl PoisonedPart {
    /// Returns the regions of buffer `number` that belong to this part. The problem's buffers do not include scratch.
    pub(super) fn regions<'b>(self, number: usize, spec: &BufferSpec, buffer: &'b DeviceBuffer) -> Vec<Region<'b>> {
        let data = region(buffer, spec);
        let data_end = data.offset + data.bytes;
        let before = Region { buffer, offset: 0, bytes: data.offset };
        let behind = Region { buffer, offset: data_end, bytes: buffer.size.0 - data_end };
        match self {
            Self::Zones => vec![before, behind],
            Self::Before(changed) if changed == number => vec![before],
            Self::Behind(changed) if changed == number => vec![behind],
            Self::Data if spec.role == Role::Output => vec![data],
            Self::DataOf(changed) if changed == number && spec.role == Role::Output => vec![data],
            _ => vec![],
        }
    }

    /// Returns the smallest parts of all zones or all data, with this number of buffers.
    fn parts(self, buffers: usize) -> Vec<Self> {
        match self {
            Self::Zones => (0..buffers).flat_map(|number| [Self::Behind(number), Self::Before(number)]).collect(),
            _ => (0..buffers).map(Self::DataOf).chain([Self::Scratch]).collect(),
        }
    }

    /// Describes the cause of a wrong answer, given that `element` changed together with this memory.
    fn message(self, loaded: &LoadedProblem, element: &str) -> String {
        let name = |number: usize| &loaded.specs[number].name;
        match self {
            Self::Behind(number) => {
                format!(
                    "the kernel reads past the end of {}: {element} depends on what lies there, gpukern's filler",
                    name(number)
                )
            }
            Self::Before(number) => {
                format!(
                    "the kernel reads before the start of {}: {element} depends on what lies there, gpukern's filler",
                    name(number)
                )
            }
            Self::DataOf(number) => {
                let name = name(number);
                format!(
                    "{element} depends on what {name} held before, gpukern's filler: the kernel reads it and has not written it"
                )
            }
            Self::Scratch => {
                format!(
                    "{element} depends on what scratch buffers held before, gpukern's filler: the kernel reads them and has not written them"
                )
            }
            Self::Zones => format!(
                "the kernel reads outside of its buffers: {element} depends on what lies there, gpukern's filler"
            ),
            Self::Nothing | Self::Data => {
                format!("{element} depends on memory that the kernel reads and has not written")
            }
        }
    }
}

/// Runs that have to give the same answer before memory is the cause of another one.
const REPEATS: usize = 4;

/// Number of unwritten elements after which no more are listed.
const MAX_SUSPECTS: usize = 1 << 20;

/// Iterates over the buffer numbers of the outputs.
fn numbers_of_outputs(loaded: &LoadedProblem) -> impl Iterator<Item = usize> {
    let outputs = loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output());
    outputs.map(|(number, _)| number)
}

/// Lists the elements, each as (output, index), that still hold the poison from before the run.
fn find_unwritten(loaded: &LoadedProblem, outputs: &[HostArray], poison: Poison) -> Vec<(usize, usize)> {
    let mut unwritten = vec![];
    for (output, (number, contents)) in numbers_of_outputs(loaded).zip(outputs).enumerate() {
        let BufferSpec { role, dtype, .. } = loaded.specs[number];
        if role != Role::Output {
            continue;
        }
        let size = dtype.bytes() as usize;
        let words = poison.words(number).map(u32::to_le_bytes);
        let words = words.as_flattened();
        for (index, element) in contents.as_bytes().chunks_exact(size).enumerate() {
            // The poison's words also begin at the data, because the red zone before it is a multiple of them.
            let mut poisoned = (index * size..).zip(element);
            if poisoned.all(|(position, byte)| *byte == words[position % words.len()]) {
                unwritten.push((output, index));
            }
        }
    }
    unwritten.truncate(MAX_SUSPECTS);
    unwritten
}

/// Says which elements one run over NaN left unwritten. Only those of floats are certain: integers may have these bits.
pub(super) fn left_out_in(loaded: &LoadedProblem, outputs: &[HostArray]) -> Option<String> {
    let is_float = |output: usize| {
        numbers_of_outputs(loaded).nth(output).is_some_and(|number| loaded.specs[number].dtype.is_float())
    };
    let mut unwritten = find_unwritten(loaded, outputs, Poison::NaN);
    unwritten.retain(|(output, _)| is_float(*output));
    describe_unwritten(loaded, &unwritten)
}

/// Names the first of these elements, each as (output, index), and counts those of the same output.
fn describe_unwritten(loaded: &LoadedProblem, unwritten: &[(usize, usize)]) -> Option<String> {
    let (output, index) = *unwritten.first()?;
    let spec = &loaded.specs[numbers_of_outputs(loaded).nth(output)?];
    let element = loaded.oracle.element(output, index).unwrap_or_else(|| format!("{}[{index}]", spec.name));
    Some(match unwritten.iter().filter(|(other, _)| *other == output).count() {
        1 => format!("{element} was never written"),
        count => format!("{element} and {} others of {} were never written", count - 1, spec.len),
    })
}

/// Names the first element that differs between the outputs of two runs, in more than the order of a set's rows.
fn find_difference(loaded: &LoadedProblem, a: &[HostArray], b: &[HostArray]) -> Option<String> {
    let ordered = [a, b].map(|outputs| loaded.oracle.in_order(outputs));
    for (output, (number, (a, b))) in numbers_of_outputs(loaded).zip(a.iter().zip(b)).enumerate() {
        if ordered[0][output].as_bytes() == ordered[1][output].as_bytes() {
            continue;
        }
        let size = loaded.specs[number].dtype.bytes() as usize;
        for (index, (a, b)) in a.as_bytes().chunks_exact(size).zip(b.as_bytes().chunks_exact(size)).enumerate() {
            if a != b
                && let Some(name) = loaded.oracle.element(output, index)
            {
                return Some(name);
            }
        }
    }
    None
}

impl Workbench {
    /// Lists the elements, each as (output, index), that still hold the poison after runs over both patterns.
    pub(super) fn list_unwritten(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        outputs: &[HostArray],
    ) -> Result<Vec<(usize, usize)>, VulkanError> {
        let mut suspects = find_unwritten(loaded, outputs, Poison::NaN);
        if !suspects.is_empty() {
            let CheckedRun { outputs, .. } = self.run_over_poison(loaded, program, Poison::Number)?;
            let unwritten: HashSet<_> = find_unwritten(loaded, &outputs, Poison::Number).into_iter().collect();
            suspects.retain(|suspect| unwritten.contains(suspect));
        }
        Ok(suspects)
    }

    /// Says which elements of a wrong answer the program leaves unwritten: their NaN is the poison, and no result.
    pub(super) fn find_elements_left_out(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
    ) -> Result<Option<String>, VulkanError> {
        let CheckedRun { outputs, .. } = self.run_over_poison(loaded, program, Poison::NaN)?;
        let unwritten = self.list_unwritten(loaded, program, &outputs)?;
        Ok(describe_unwritten(loaded, &unwritten))
    }

    /// Runs the program with [`Poison::Number`] instead of NaN in the `changed` memory; returns the outputs, or `None`
    /// if the program overwrote an input.
    fn run_with_changed_poison(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        changed: PoisonedPart,
    ) -> Result<Option<Vec<HostArray>>, VulkanError> {
        self.poison(loaded, Poison::NaN)?;
        let mut recorder = Recorder::new(&self.device)?;
        for (number, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            for target in changed.regions(number, spec, buffer) {
                self.record_poison(&mut recorder, &target, Poison::Number, number);
            }
        }
        // The command buffer must not be empty.
        recorder.barrier();
        recorder.finish()?.run()?;
        // Scratch buffers belong to the sampler, which poisons them.
        let scratch =
            if matches!(changed, PoisonedPart::Data | PoisonedPart::Scratch) { Poison::Number } else { Poison::NaN };
        let copies = self.copy_inputs(loaded, program)?;
        self.record_sampler(loaded, program, 1, Clock::DeviceTimestamps, scratch, None)?.sample()?;
        let outputs = self.download_outputs(loaded)?;
        if self.restore_inputs(loaded, &copies)?.is_some() {
            return Ok(None);
        }
        Ok(Some(outputs))
    }

    /// Searches the cause of a user's wrong answer: memory that the kernel should not read, or elements that it never
    /// writes; or answers that vary from run to run.
    pub(super) fn find_cause(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
    ) -> Result<Option<String>, VulkanError> {
        let Some(first) = self.run_with_changed_poison(loaded, program, PoisonedPart::Nothing)? else {
            return Ok(None);
        };
        for changed in [PoisonedPart::Zones, PoisonedPart::Data] {
            let Some(second) = self.run_with_changed_poison(loaded, program, changed)? else { return Ok(None) };
            let Some(element) = find_difference(loaded, &first, &second) else { continue };
            // A race may give the same answer twice, and another one to the changed memory.
            for (part, outputs) in [(PoisonedPart::Nothing, &first), (changed, &second)] {
                for _ in 0..REPEATS {
                    let Some(again) = self.run_with_changed_poison(loaded, program, part)? else { return Ok(None) };
                    // Fingerprints compare bits, so that NaN equals NaN.
                    if fingerprint(loaded, &again) != fingerprint(loaded, outputs) {
                        let reason = "differs from run to run: a race, shared memory that nothing wrote, or atomics in any \
                                      order; `gpukern sanitize` tells which";
                        return Ok(Some(format!("{element} {reason}")));
                    }
                }
            }
            let unwritten: HashSet<_> = find_unwritten(loaded, &first, Poison::NaN).into_iter().collect();
            // A sum that includes poison may equal the poison, but not in every element.
            let mut written = first.clone();
            for (output, index) in find_unwritten(loaded, &second, Poison::Number) {
                if unwritten.contains(&(output, index)) {
                    let from = second[output].as_bytes();
                    let size = from.len() / second[output].len();
                    let bytes = index * size..(index + 1) * size;
                    written[output].as_bytes_mut()[bytes.clone()].copy_from_slice(&from[bytes]);
                }
            }
            let is_data = matches!(changed, PoisonedPart::Data);
            if is_data && find_difference(loaded, &written, &second).is_none() {
                let by_atomics = if program.has_atomics() {
                    " Or does an atomic change what it holds? Then give the buffer a `fill`."
                } else {
                    ""
                };
                return Ok(Some(format!(
                    "{element} was never written: does the grid, or an `if`, leave it out, or is its value undefined?\
                     {by_atomics}"
                )));
            }
            for part in changed.parts(loaded.specs.len()) {
                let outputs = self.run_with_changed_poison(loaded, program, part)?;
                if let Some(outputs) = outputs
                    && let Some(element) = find_difference(loaded, &first, &outputs)
                {
                    return Ok(Some(part.message(loaded, &element)));
                }
            }
            return Ok(Some(changed.message(loaded, &element)));
        }
        Ok(None)
    }
}
