//! Poison: known contents of everything that a kernel may write, and of red zones around all data, which no kernel may
//! write.

use super::sampler::Sampler;
use super::{LoadedProblem, MAX_COPY_BYTES, Workbench, region, whole};
use crate::kernel::buffer::{BufferSpec, FILLER, RED_ZONE, Role};
use crate::kernel::program::{BufferId, Program};
use crate::vulkan::{DeviceBuffer, Recorder, Region, Use, VulkanError};
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
    /// Ordinary numbers in every type, of four kinds in turn. Complements NaN: out-of-bounds arithmetic changes numbers
    /// but not NaN; a correct answer with NaN's bits differs from it; and in comparisons numbers can win, whereas NaN
    /// loses all.
    Number,
}

/// Four words that tile a buffer.
type Words = [u32; 4];

impl Poison {
    /// Returns the words for a buffer by number; each buffer has different ones, so that copies from one to another are
    /// detected.
    pub(super) fn words(self, number: usize) -> Words {
        match self {
            // Also NaN as two f16 or bf16 halves, and as f64 in pairs.
            Self::NaN => [FILLER.start() + (number % 0x7f) as u32; 4],
            Self::Number => {
                let number = (number % PATTERN_COUNT) as u32;
                let both = 0x0001_0001 * number;
                // Large (1e30 as f32), large and negative, a small integer, about 1.5; finite in all floating-point
                // types.
                [0x7149_7b49 + both, 0xf149_8349 + both, 3 + number, 0x3fc0_3e00 + both]
            }
        }
    }
}

/// Poison of a buffer.
#[derive(Clone, Copy)]
pub(super) struct BufferPoison {
    pub(super) kind: Poison,
    /// Number of the buffer.
    pub(super) buffer: usize,
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

/// Bytes of a buffer that no kernel may write.
struct RedZone<'a> {
    buffer: &'a DeviceBuffer,
    spec: &'a BufferSpec,
    /// Byte range within the buffer.
    from: u64,
    to: u64,
    /// Words that fill the zone.
    words: Words,
}

/// Returns the zones around the data of buffer `number`.
fn red_zones<'a>(
    number: usize,
    spec: &'a BufferSpec,
    buffer: &'a DeviceBuffer,
    poison: Poison,
    poisoned: bool,
) -> impl Iterator<Item = RedZone<'a>> {
    let end = RED_ZONE + spec.bytes().0;
    // Data are copied in whole words; the remainder of the last word keeps its value from that time.
    let whole = end.next_multiple_of(4);
    let poison = poison.words(number);
    let data = match spec.role {
        Role::Input | Role::InPlace => Poison::NaN.words(number),
        Role::Scratch if !poisoned => [ALL_BITS; 4],
        Role::Output | Role::Scratch => poison,
    };
    let parts = [(0, RED_ZONE, poison), (end, whole, data), (whole, buffer.size.0, poison)];
    let parts = parts.into_iter().filter(|(from, to, _)| from < to);
    parts.map(move |(from, to, words)| RedZone { buffer, spec, from, to, words })
}

impl RedZone<'_> {
    /// Describes a kernel's write into the zone, if `contents`, the zone's bytes, show one.
    fn describe_write(&self, contents: &[u8]) -> Option<String> {
        let words = self.words.map(u32::to_le_bytes);
        let words = words.as_flattened();
        let (at, _) = (self.from..).zip(contents).find(|(at, byte)| **byte != words[(at % 16) as usize])?;
        let place = at as i64 - RED_ZONE as i64;
        let name = &self.spec.name;
        let bytes = self.spec.bytes().0;
        let last = bytes.saturating_sub(1);
        Some(format!(
            "the kernel wrote outside buffer {name}: it wrote byte {place} of a buffer of {bytes} bytes (0 to {last})"
        ))
    }
}

impl Workbench {
    /// Poisons everything that programs write, except in-place data, which each run restores.
    pub(super) fn poison(&self, loaded: &LoadedProblem, poison: Poison) -> Result<(), VulkanError> {
        loaded.red_zone_poison.set(poison);
        let mut recorder = Recorder::new(&self.device)?;
        for (number, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            let poison = BufferPoison { kind: poison, buffer: number };
            if spec.role != Role::Input {
                self.record_poison(&mut recorder, &whole(buffer), poison);
                continue;
            }
            let Region { offset, bytes, .. } = region(buffer, spec);
            for (offset, end) in [(0, offset), (offset + bytes, buffer.size.0)] {
                self.record_poison(&mut recorder, &Region { buffer, offset, bytes: end - offset }, poison);
            }
        }
        recorder.finish()?.run().map(drop)
    }

    /// Records the poisoning of `target`, a part of a buffer.
    pub(super) fn record_poison(&self, recorder: &mut Recorder, target: &Region<'_>, poison: BufferPoison) {
        let Region { buffer, offset, bytes } = *target;
        if let Poison::NaN = poison.kind {
            return recorder.fill(target, Poison::NaN.words(poison.buffer)[0]);
        }
        let pattern = (poison.buffer % PATTERN_COUNT) as u64 * PATTERN_BYTES;
        // The phase of the pattern depends on the position in the buffer. The filled part doubles by copying it behind
        // itself.
        let mut filled = bytes.min(PATTERN_BYTES - 16);
        recorder.copy((&self.patterns, pattern + offset % 16), (buffer, offset), filled);
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
        let mut known = loaded.input_copies.borrow_mut();
        let mut is_new = false;
        for (place, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            let guarded = spec.role == Role::Input && spec.bytes().0 <= MAX_GUARDED_BYTES;
            if !guarded || !program.may_write(BufferId(place)) {
                continue;
            }
            if let Some(copy) = known.get(&place) {
                copies.push(InputCopy { number: place, copy: Rc::clone(copy) });
                continue;
            }
            if let Ok(copy) = DeviceBuffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel) {
                let Region { offset, bytes, .. } = region(buffer, spec);
                recorder.copy((buffer, offset), (&copy, offset), bytes);
                let copy = Rc::new(copy);
                known.insert(place, Rc::clone(&copy));
                is_new = true;
                copies.push(InputCopy { number: place, copy });
            }
        }
        if is_new {
            recorder.finish()?.run()?;
        }
        Ok(copies)
    }

    /// Names the input that differs from its copy, if any, and restores all of them, because other kernels use them
    /// too.
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
                let name = &spec.name;
                changed =
                    Some(format!("the kernel changed its input {name}; give {name} a check if it is meant to change"));
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
        let mut is_same = true;
        for from in (0..bytes).step_by(MAX_COPY_BYTES as usize) {
            let mut contents = vec![0; MAX_COPY_BYTES.min(bytes - from) as usize];
            let mut other_contents = contents.clone();
            self.download(first, RED_ZONE + from, &mut contents)?;
            self.download(second, RED_ZONE + from, &mut other_contents)?;
            is_same &= contents == other_contents;
        }
        Ok(is_same)
    }

    /// Describes a kernel's write outside its buffers, if there was one.
    pub(super) fn out_of_bounds_write(
        &mut self,
        loaded: &LoadedProblem,
        sampler: &Sampler,
        poison: Poison,
    ) -> Result<Option<String>, VulkanError> {
        let own = sampler.scratch.iter().map(|(spec, buffer)| (spec, buffer, sampler.poison));
        let shared = loaded.specs.iter().zip(&loaded.buffers).map(|(spec, buffer)| (spec, buffer, poison));
        let zones: Vec<_> = shared
            .chain(own)
            .enumerate()
            .flat_map(|(number, (spec, buffer, poison))| red_zones(number, spec, buffer, poison, sampler.poisoned))
            .collect();
        // Check as many zones at once as fit: each wait for the device costs more than the reading.
        for zones in zones.chunks((MAX_COPY_BYTES / (2 * RED_ZONE)) as usize) {
            let mut recorder = Recorder::new(&self.device)?;
            recorder.barrier();
            for (RedZone { buffer, from, to, .. }, at) in zones.iter().zip((0..).step_by(2 * RED_ZONE as usize)) {
                recorder.copy((buffer, *from), (&self.download_staging, at), to - from);
            }
            recorder.finish()?.run()?;
            for (zone, at) in zones.iter().zip((0..).step_by(2 * RED_ZONE as usize)) {
                let contents = &self.download_staging.mapped()[at..][..(zone.to - zone.from) as usize];
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
                    let found = [
                        half(word).is_nan(),
                        half(word >> 16).is_nan(),
                        brain(word).is_nan(),
                        brain(word >> 16).is_nan(),
                        f32::from_bits(word).is_nan(),
                        f64::from_bits(twice).is_nan(),
                    ];
                    assert_eq!(found, [is_nan; 6], "{word:x}");
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
