//! Poison: known contents of all that a kernel may write, and of the red zones around all data, which it may not write.

use super::cause::PoisonedPart;
use super::sampler::Sampler;
use super::{LoadedProblem, MAX_COPY_BYTES, Workbench, region, whole};
use crate::case::check;
use crate::kernel::buffer::{BufferSpec, FILLER, RED_ZONE, Role};
use crate::kernel::program::{BufferId, Program};
use crate::vulkan::{DeviceBuffer, Recorder, Region, VulkanError};
use std::ops::Range;
use std::rc::Rc;

/// Initial word of a built-in program's scratch buffers, from which its counters start.
pub(super) const ALL_BITS: u32 = u32::MAX;

/// Size in bytes of the largest input that is guarded by a copy; the device has no room for copies of larger ones.
const MAX_GUARDED_BYTES: u64 = 512 << 20;

/// Fill pattern of outputs, users' scratch buffers and red zones before a run. An answer must be correct over both
/// patterns, with the red zones unchanged.
#[derive(Clone, Copy)]
pub(super) enum Poison {
    /// NaN in every floating-point type: a kernel that computes with memory it should not read gets NaN.
    NaN,
    /// Ordinary numbers in every type, of four kinds in turn. They show what NaN hides: out-of-bounds arithmetic
    /// changes numbers but not NaN, a correct answer may have NaN's bits, and numbers can win a comparison, whereas NaN
    /// loses them all.
    Number,
}

/// Four words that tile a buffer.
type Words = [u32; 4];
/// Bytes of [`Words`].
pub(super) const WORDS_BYTES: u64 = 16;

impl Poison {
    /// Returns the words for a buffer by number. They differ, to reveal copies from one buffer to another.
    pub(super) fn words(self, number: usize) -> Words {
        match self {
            // Also NaN as two f16 or bf16 halves, and as f64 in pairs.
            Self::NaN => [FILLER.start() + (number % 0x7f) as u32; 4],
            Self::Number => {
                let number = (number % PATTERN_COUNT) as u32;
                let in_both_halves = 0x0001_0001 * number;
                // Large (1e30 as f32), large and negative, a small integer, about 1.5; finite in all float types.
                [0x7149_7b49 + in_both_halves, 0xf149_8349 + in_both_halves, 3 + number, 0x3fc0_3e00 + in_both_halves]
            }
        }
    }
}

/// Number of different [`Poison::Number`] patterns.
pub(super) const PATTERN_COUNT: usize = 0x30;

/// Bytes of each pattern in the pattern buffer, from which larger areas are filled.
pub(super) const PATTERN_BYTES: u64 = 4096;

/// Copy of an input that kernels could overwrite, to detect that they did.
pub(super) struct InputCopy {
    /// Number of the buffer.
    number: usize,
    copy: Rc<DeviceBuffer>,
}

/// Bytes per zone when several are read at once; more than any zone has.
const MAX_ZONE_BYTES: u64 = 2 * RED_ZONE;

/// Bytes of a buffer that no kernel may write.
struct RedZone<'a> {
    buffer: &'a DeviceBuffer,
    spec: &'a BufferSpec,
    /// Byte range within the buffer.
    range: Range<u64>,
    /// Words that fill the zone.
    words: Words,
}

/// Returns the zones around the data of buffer `number`. Scratch that was not poisoned started with all bits set.
fn red_zones<'a>(
    number: usize,
    spec: &'a BufferSpec,
    buffer: &'a DeviceBuffer,
    poison: Poison,
    is_poisoned: bool,
) -> Vec<RedZone<'a>> {
    let end = RED_ZONE + spec.bytes().0;
    // Data are copied in whole words; the remainder of the last word keeps its value from that time.
    let word_end = end.next_multiple_of(4);
    let poison = poison.words(number);
    let remainder = match spec.role {
        Role::Input | Role::InPlace => Poison::NaN.words(number),
        Role::Scratch if !is_poisoned => [ALL_BITS; 4],
        Role::Output | Role::Scratch => poison,
    };
    let mut zones = vec![];
    for (range, words) in [(0..RED_ZONE, poison), (end..word_end, remainder), (word_end..buffer.size.0, poison)] {
        if !range.is_empty() {
            zones.push(RedZone { buffer, spec, range, words });
        }
    }
    zones
}

impl RedZone<'_> {
    /// Describes a kernel's write into the zone, if `contents`, the zone's bytes, show one.
    fn describe_write(&self, contents: &[u8]) -> Option<String> {
        let words = self.words.map(u32::to_le_bytes);
        let words = words.as_flattened();
        let expected = |position: u64| words[(position % WORDS_BYTES) as usize];
        let (position, _) = self.range.clone().zip(contents).find(|(position, byte)| **byte != expected(*position))?;
        let written = position as i64 - RED_ZONE as i64;
        let name = &self.spec.name;
        let bytes = self.spec.bytes().0;
        let last = bytes.saturating_sub(1);
        if self.range.clone().zip(contents).all(|(position, byte)| *byte != expected(position)) {
            return Some(format!(
                "none of the guard bytes beside buffer {name} is as gpukern filled it: the kernel wrote outside, or the driver \
                 lost that work"
            ));
        }
        Some(format!(
            "the kernel wrote outside buffer {name}: it wrote byte {written} of a buffer of {bytes} bytes (0 to {last})"
        ))
    }
}

impl Workbench {
    /// Poisons everything that programs write, except in-place data, which each run restores.
    pub(super) fn poison(&self, loaded: &LoadedProblem, poison: Poison) -> Result<(), VulkanError> {
        loaded.red_zone_poison.set(poison);
        let mut recorder = Recorder::new(&self.device)?;
        for (number, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            let is_input = spec.role == Role::Input;
            let targets =
                if is_input { PoisonedPart::Zones.regions(number, spec, buffer) } else { vec![whole(buffer)] };
            for target in targets {
                self.record_poison(&mut recorder, &target, poison, number);
            }
        }
        recorder.finish()?.run().map(drop)
    }

    /// Records the poisoning of `target`, a part of the buffer with this number.
    pub(super) fn record_poison(&self, recorder: &mut Recorder, target: &Region<'_>, poison: Poison, number: usize) {
        let Region { buffer, offset, bytes } = *target;
        if let Poison::NaN = poison {
            return recorder.fill(target, Poison::NaN.words(number)[0]);
        }
        let pattern = (number % PATTERN_COUNT) as u64 * PATTERN_BYTES;
        // The words are aligned with the start of the buffer, not of the target.
        let mut filled = bytes.min(PATTERN_BYTES - WORDS_BYTES);
        recorder.copy((&self.patterns, pattern + offset % WORDS_BYTES), (buffer, offset), filled);
        // Each copy of the filled part behind itself doubles it.
        while filled < bytes {
            let more = filled.min(bytes - filled);
            recorder.barrier();
            recorder.copy((buffer, offset), (buffer, offset + filled), more);
            filled += more;
        }
    }

    /// Copies the inputs that a program may write to, by number: those that users' kernels do not declare `readonly`.
    /// Skips inputs that the device has no room to copy.
    pub(super) fn copy_inputs(&self, loaded: &LoadedProblem, program: &Program) -> Result<Vec<InputCopy>, VulkanError> {
        let mut copies = vec![];
        let mut recorder = Recorder::new(&self.device)?;
        let mut earlier_copies = loaded.input_copies.borrow_mut();
        let mut is_new = false;
        for (number, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            let is_guarded = spec.role == Role::Input && spec.bytes().0 <= MAX_GUARDED_BYTES;
            if !is_guarded || !program.may_write(BufferId(number)) {
                continue;
            }
            if let Some(copy) = earlier_copies.get(&number) {
                copies.push(InputCopy { number, copy: Rc::clone(copy) });
            } else if let Ok(copy) = self.create_buffer(spec) {
                let Region { offset, bytes, .. } = region(buffer, spec);
                recorder.copy((buffer, offset), (&copy, offset), bytes);
                is_new = true;
                let copy = Rc::new(copy);
                earlier_copies.insert(number, Rc::clone(&copy));
                copies.push(InputCopy { number, copy });
            }
        }
        if is_new {
            recorder.finish()?.run()?;
        }
        Ok(copies)
    }

    /// Restores the inputs, which other kernels use too, and names one that differed from its copy, if any.
    pub(super) fn restore_inputs(
        &mut self,
        loaded: &LoadedProblem,
        copies: &[InputCopy],
    ) -> Result<Option<String>, VulkanError> {
        let mut changed = None;
        for InputCopy { number, copy } in copies {
            let spec = &loaded.specs[*number];
            let buffer = &loaded.buffers[*number];
            if !self.holds_same_data(spec, buffer, copy)? {
                let mut recorder = Recorder::new(&self.device)?;
                let Region { offset, bytes, .. } = region(buffer, spec);
                recorder.copy((copy.as_ref(), offset), (buffer, offset), bytes);
                recorder.finish()?.run()?;
                changed = Some(check::changed_input(&spec.name));
            }
        }
        Ok(changed)
    }

    /// Whether two buffers hold the same data.
    fn holds_same_data(
        &mut self,
        spec: &BufferSpec,
        first: &DeviceBuffer,
        second: &DeviceBuffer,
    ) -> Result<bool, VulkanError> {
        let bytes = spec.bytes().0;
        for from in (0..bytes).step_by(MAX_COPY_BYTES as usize) {
            let mut contents = vec![0; MAX_COPY_BYTES.min(bytes - from) as usize];
            let mut other_contents = contents.clone();
            self.download(first, RED_ZONE + from, &mut contents)?;
            self.download(second, RED_ZONE + from, &mut other_contents)?;
            if contents != other_contents {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Describes a kernel's write outside its buffers, if there was one.
    pub(super) fn find_out_of_bounds_write(
        &mut self,
        loaded: &LoadedProblem,
        sampler: &Sampler,
        poison: Poison,
    ) -> Result<Option<String>, VulkanError> {
        let mut zones = vec![];
        for (number, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            zones.extend(red_zones(number, spec, buffer, poison, sampler.poisoned));
        }
        for (number, (spec, buffer)) in (loaded.specs.len()..).zip(&sampler.scratch) {
            zones.extend(red_zones(number, spec, buffer, sampler.poison, sampler.poisoned));
        }
        // Check as many zones at once as fit: each wait for the device costs more than the reading.
        for zones in zones.chunks((MAX_COPY_BYTES / MAX_ZONE_BYTES) as usize) {
            let mut recorder = Recorder::new(&self.device)?;
            recorder.barrier();
            let offsets = (0..).step_by(MAX_ZONE_BYTES as usize);
            for (zone, offset) in zones.iter().zip(offsets.clone()) {
                let bytes = zone.range.end - zone.range.start;
                recorder.copy((zone.buffer, zone.range.start), (&self.download_staging, offset), bytes);
            }
            recorder.finish()?.run()?;
            for (zone, offset) in zones.iter().zip(offsets) {
                let bytes = (zone.range.end - zone.range.start) as usize;
                let contents = &self.download_staging.mapped()[offset as usize..][..bytes];
                if let Some(description) = zone.describe_write(contents) {
                    return Ok(Some(description));
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_is_nan_in_every_type_or_numbers_in_every_type_and_other_words_for_each_buffer() {
        for number in [0, 1, 47, 48, 126, 127, 1000] {
            for (poison, is_nan) in [(Poison::NaN, true), (Poison::Number, false)] {
                let words = poison.words(number);
                let half = |bits: u32| half::f16::from_bits(bits as u16);
                let brain = |bits: u32| half::bf16::from_bits(bits as u16);
                for (at, word) in words.into_iter().enumerate() {
                    let twice = u64::from(words[at ^ 1]) << 32 | u64::from(word);
                    let are_nan = [
                        half(word).is_nan(),
                        half(word >> 16).is_nan(),
                        brain(word).is_nan(),
                        brain(word >> 16).is_nan(),
                        f32::from_bits(word).is_nan(),
                        f64::from_bits(twice).is_nan(),
                    ];
                    assert_eq!(are_nan, [is_nan; 6], "{word:x}");
                    let finite = half(word).is_finite() && half(word >> 16).is_finite();
                    assert!(is_nan || finite && f32::from_bits(word).is_finite() && f64::from_bits(twice).is_finite());
                    assert_ne!(word, poison.words(number + 1)[at]);
                }
            }
        }
    }

    #[test]
    fn poison_read_out_of_bounds_wins_a_comparison_or_is_small() {
        for number in 0..PATTERN_COUNT {
            let words = Poison::Number.words(number);
            let single = words.map(f32::from_bits);
            assert!(single[0] > 9e29 && single[1] < -9e29 && single[2] < 1e-30 && (1.0..2.5).contains(&single[3]));
            let signed = words.map(|word| word as i32);
            assert!(signed[0] > 1 << 30 && signed[1] < -(1 << 26) && signed[2] < 64, "{signed:?}");
            let halves = words.map(|word| half::f16::from_bits((word >> 16) as u16).to_f32());
            assert!(halves[0] > 9e3 && halves[1] < -9e3, "{halves:?}");
        }
    }
}
