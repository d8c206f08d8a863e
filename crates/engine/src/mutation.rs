//! Mutations of a correct answer. A check that accepts one could not detect the corresponding mistake.

use crate::algorithms::OutputComparison;
use crate::basis::dtype::DType;
use crate::case::accepted::Mutation;
use std::ops::Range;

/// Share of the changed elements that an element-wise check must accept to count as blind to a mutation.
const MIN_SHARE: f64 = 0.25;
/// Fewest changed elements for which a share is meaningful.
const MIN_CHANGED: u64 = 8;
/// Elements of an output that are mutated: a few milliseconds, however large the output.
const SAMPLED_ELEMENTS: usize = 1 << 13;
/// Number of ranges that the sampled elements come from, including the first and the last elements.
const RANGE_COUNT: usize = 8;
/// Parts of an output that are zeroed one at a time, unless it has few rows.
const ZEROED_PARTS: usize = 8;
/// Longest row whose columns count as members of a structure.
const MAX_MEMBERS: usize = 16;
/// Length of the windows in each of which one element is replaced by its neighbor.
const REPLACEMENT_WINDOW: usize = 1000;

/// Returns ranges of an output of `len` elements in rows of `row`, with about [`SAMPLED_ELEMENTS`] together, in whole
/// rows unless these are too long; a single range if there are no more elements.
pub(crate) fn sample_ranges(len: usize, row: usize) -> Vec<Range<usize>> {
    let row = if row > SAMPLED_ELEMENTS / 2 { 1 } else { row.max(1) };
    let rows = len / row;
    let count = (SAMPLED_ELEMENTS / row).clamp(1, RANGE_COUNT);
    let rows_per_range = (SAMPLED_ELEMENTS / count / row).max(2);
    if rows <= count * rows_per_range {
        return std::iter::once(0..len).collect();
    }
    // Evenly over the rows, including the first and the last; a single range takes the last.
    let last_start = rows - rows_per_range;
    let mut ranges = vec![];
    for index in 0..count {
        let start = if count == 1 { last_start } else { index * last_start / (count - 1) };
        ranges.push(start * row..(start + rows_per_range) * row);
    }
    ranges
}

/// Correct answer, from which the mutations are made: an output, or a sample of its elements.
pub(crate) struct RightAnswer<'a> {
    pub dtype: DType,
    pub comparison: &'a OutputComparison,
    pub contents: &'a [u8],
    /// Contents of the same elements before the kernel ran, which an element that it left out still has.
    pub before: &'a [u8],
    /// Elements that a work-group writes on average, taken as the share of the last one.
    pub last_group_len: usize,
    /// Number of elements per range of a sample; all elements of a complete output.
    pub range_len: usize,
    /// Whether all elements of the complete output are equal.
    pub is_constant: bool,
}

/// Mutation that a check accepts.
#[derive(Debug, PartialEq)]
pub(crate) struct AcceptedChange {
    pub mutation: Mutation,
    /// Member of a structure that was changed; `None` for all.
    pub member: Option<u32>,
    /// Share of the changed elements that the check accepts.
    pub share: f64,
}

impl RightAnswer<'_> {
    /// Returns the mutations that the check accepts. `accepts` takes the mutated contents and the number of changed
    /// elements, and returns the share that the check accepts.
    pub(crate) fn find_accepted(&self, mut accepts: impl FnMut(&[u8], u64) -> f64) -> Vec<AcceptedChange> {
        let mut mutations: Vec<_> = Mutation::ALL.into_iter().map(|mutation| (mutation, None)).collect();
        let row = self.comparison.row;
        if (2..=MAX_MEMBERS).contains(&row) {
            for member in 0..row as u32 {
                mutations.extend([(Mutation::NeighborRows, Some(member)), (Mutation::Zeros, Some(member))]);
            }
        }
        let mut accepted: Vec<AcceptedChange> = vec![];
        for (mutation, member) in mutations {
            // A mutation accepted everywhere is accepted in each member.
            let is_covered = accepted
                .iter()
                .any(|change| change.mutation == mutation && change.member.is_none() && change.share >= 1.0);
            if !self.comparison.ordered && mutation.moves() || is_covered {
                continue;
            }
            let accepts_zeros = accepted.iter().any(|change| change.mutation == Mutation::Zeros);
            if mutation == Mutation::ZerosInPart {
                if !accepts_zeros && self.accepts_zeros_in_part(&mut accepts) {
                    accepted.push(AcceptedChange { mutation, member, share: 1.0 });
                }
                continue;
            }
            let Some(wrong) = self.mutate(mutation, member) else { continue };
            let changed = self.count_changed(&wrong);
            // Constants count even if they change nothing: a kernel that only clears passes if all should be zeros.
            let is_complete = self.range_len == self.len() || self.is_constant;
            let is_whole = member.is_none() && is_complete;
            // A single element is always one number.
            let is_one_number = mutation == Mutation::OneNumber && !accepts_zeros && self.len() > 1;
            if changed == 0 && !((mutation == Mutation::Zeros || is_one_number) && is_whole) {
                continue;
            }
            let share = accepts(&wrong, changed);
            let counts_in_part = changed >= MIN_CHANGED && mutation != Mutation::LowBitsCleared;
            if share >= 1.0 || share >= MIN_SHARE && counts_in_part {
                accepted.push(AcceptedChange { mutation, member, share });
            }
        }
        accepted
    }

    /// Whether the check accepts zeros in place of any part that has other elements.
    fn accepts_zeros_in_part(&self, accepts: &mut impl FnMut(&[u8], u64) -> f64) -> bool {
        self.parts().into_iter().any(|part| {
            let mut wrong = self.contents.to_vec();
            wrong[part.start * self.size()..part.end * self.size()].fill(0);
            let changed = self.count_changed(&wrong);
            changed > 0 && accepts(&wrong, changed) >= 1.0
        })
    }

    /// Returns the bytes per element.
    fn size(&self) -> usize {
        self.dtype.bytes() as usize
    }

    fn len(&self) -> usize {
        self.contents.len() / self.size()
    }

    /// Returns the rows if there are few, such as members of a structure of arrays; otherwise equal parts.
    fn parts(&self) -> Vec<Range<usize>> {
        let len = self.len();
        let row = self.comparison.row;
        let has_few_rows = self.range_len == len && row > 1 && len / row <= MAX_MEMBERS;
        let part_len = if has_few_rows { row } else { len.div_ceil(ZEROED_PARTS).max(1) };
        (0..len).step_by(part_len).map(|start| start..len.min(start + part_len)).collect()
    }

    /// Returns the number of elements that differ in value from the correct ones.
    fn count_changed(&self, wrong: &[u8]) -> u64 {
        let size = self.size();
        let mut count = 0;
        for (wrong, right) in wrong.chunks_exact(size).zip(self.contents.chunks_exact(size)) {
            let wrong_value = self.dtype.value(wrong);
            let right_value = self.dtype.value(right);
            let are_zeros = wrong_value == 0.0 && right_value == 0.0;
            let are_nan = wrong_value.is_nan() && right_value.is_nan();
            if wrong != right && !are_zeros && !are_nan {
                count += 1;
            }
        }
        count
    }

    /// Returns the answer with one mutation; `None` if the mutation does not apply.
    fn mutate(&self, mutation: Mutation, member: Option<u32>) -> Option<Vec<u8>> {
        let size = self.size();
        let len = self.len();
        let row = self.comparison.row;
        let mut wrong = self.contents.to_vec();
        match mutation {
            Mutation::Neighbors if len > 1 => wrong.rotate_right(size),
            Mutation::NeighborRows if row > 1 && 2 * row <= len => wrong.rotate_right(row * size),
            // `find_accepted` tries each part separately.
            Mutation::Neighbors | Mutation::NeighborRows | Mutation::ZerosInPart => return None,
            Mutation::BlocksExchanged => {
                let row = if 4 * row <= len { row } else { 1 };
                let quarter = len / row / 4 * row * size;
                let (first, rest) = wrong.split_at_mut(quarter);
                let last = rest.len().checked_sub(quarter)?;
                first.swap_with_slice(&mut rest[last..]);
            }
            Mutation::FewNeighbors => self.replace_few(&mut wrong),
            Mutation::FirstContents => wrong.copy_from_slice(self.before),
            Mutation::LastGroupMissing => {
                let written = len.checked_sub(self.last_group_len).filter(|written| *written > 0)? * size;
                wrong[written..].copy_from_slice(&self.before[written..]);
            }
            Mutation::Zeros => wrong.fill(0),
            Mutation::OneNumber => {
                let first = wrong.get(..size)?.to_vec();
                for element in wrong.chunks_exact_mut(size) {
                    element.copy_from_slice(&first);
                }
            }
            Mutation::LowBitsCleared => self.change_each(&mut wrong, leading_bits)?,
            Mutation::SignsFlipped => self.change_each(&mut wrong, negated)?,
        }
        if let Some(member) = member {
            for index in (0..len).filter(|index| index % row != member as usize) {
                let bytes = index * size..(index + 1) * size;
                wrong[bytes.clone()].copy_from_slice(&self.contents[bytes]);
            }
        }
        Some(wrong)
    }

    /// Replaces one element in each window of [`REPLACEMENT_WINDOW`] by the element before it: the one that differs
    /// most from it, lest a check accept the change by chance.
    fn replace_few(&self, wrong: &mut [u8]) {
        let size = self.size();
        let len = self.len();
        let element = |index: usize| &self.contents[index * size..(index + 1) * size];
        let difference = |index: &usize| {
            let value = self.dtype.value(element(*index));
            let neighbor = self.dtype.value(element(index - 1));
            // NaN sorts above all other differences. Equal infinities would give NaN.
            if value == neighbor { 0.0 } else { (value - neighbor).abs() }
        };
        // Ranges of a sample that are shorter than a window each begin a window, and the windows then overlap.
        for start in (0..len).step_by(REPLACEMENT_WINDOW.min(self.range_len)) {
            let window = start..len.min(start + REPLACEMENT_WINDOW);
            // The first element of a range has no neighbor in the sample.
            let indices = window.filter(|index| index % self.range_len != 0);
            if let Some(index) = indices.max_by(|a, b| difference(a).total_cmp(&difference(b))) {
                wrong[index * size..(index + 1) * size].copy_from_slice(element(index - 1));
            }
        }
    }

    /// Changes the bits of every element that is neither zero nor NaN.
    fn change_each(&self, wrong: &mut [u8], change: fn(DType, u64) -> Option<u64>) -> Option<()> {
        let size = self.size();
        for element in wrong.chunks_exact_mut(size) {
            let value = self.dtype.value(element);
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(element);
            let changed = change(self.dtype, u64::from_le_bytes(bits))?;
            if value != 0.0 && !value.is_nan() {
                element.copy_from_slice(&changed.to_le_bytes()[..size]);
            }
        }
        Some(())
    }
}

/// Returns the number of stored significand bits of a float type.
fn stored_bits(dtype: DType) -> Option<u32> {
    match dtype {
        DType::F64 => Some(52),
        DType::F32 => Some(23),
        DType::F16 => Some(10),
        DType::Bf16 => Some(7),
        _ => None,
    }
}

/// Returns the bits of the number's negative.
fn negated(dtype: DType, bits: u64) -> Option<u64> {
    match stored_bits(dtype) {
        Some(_) => Some(bits ^ 1 << (8 * dtype.bytes() - 1)),
        None => dtype.is_signed_integer().then(|| bits.wrapping_neg()),
    }
}

/// Returns the number with only its four leading significant bits, 13 for f64. No arithmetic has fewer than four (fp8
/// e4m3 has four), so no rounding justifies a tolerance of 12 %; a sum would need 2^40 terms in the worst case to lose
/// three quarters of f64's 53 bits.
#[expect(clippy::unnecessary_wraps, reason = "one of the changes of `RightAnswer::change_each`")]
fn leading_bits(dtype: DType, bits: u64) -> Option<u64> {
    if let Some(stored) = stored_bits(dtype) {
        let leading = if dtype == DType::F64 { 12 } else { 3 };
        return Some(bits & !0 << (stored - leading));
    }
    let unused = 64 - 8 * dtype.bytes() as u32;
    let is_negative = dtype.is_signed_integer() && bits << unused >> 63 == 1;
    let magnitude = if is_negative { bits.wrapping_neg() << unused >> unused } else { bits };
    let leading = magnitude & !0 << (64 - magnitude.leading_zeros()).saturating_sub(4);
    Some(if is_negative { leading.wrapping_neg() } else { leading })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mutations of an f32 answer that an element-wise check accepts.
    fn accepted(
        comparison: &OutputComparison,
        right: &[f32],
        before: &[f32],
        is_near: impl Fn(f32, f32) -> bool,
    ) -> Vec<AcceptedChange> {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let contents = &bytes(right);
        let before = &bytes(before);
        let range_len = right.len();
        let answer = RightAnswer {
            dtype: DType::F32,
            comparison,
            contents,
            before,
            last_group_len: 4,
            range_len,
            is_constant: false,
        };
        answer.find_accepted(|wrong, changed| {
            let found = wrong.chunks_exact(4).map(|bytes| DType::F32.value(bytes) as f32);
            let wrong = found.zip(right).filter(|(found, right)| !is_near(*found, **right)).count();
            1.0 - wrong as f64 / changed.max(1) as f64
        })
    }

    /// Returns the mutations that the check accepts of an answer in rows of `row`, over outputs that held NaN.
    fn accepted_over_nan(row: usize, right: &[f32], is_near: impl Fn(f32, f32) -> bool) -> Vec<AcceptedChange> {
        let comparison = OutputComparison { row, ..OutputComparison::default() };
        accepted(&comparison, right, &vec![f32::NAN; right.len()], is_near)
    }

    fn whole(mutation: Mutation) -> AcceptedChange {
        AcceptedChange { mutation, member: None, share: 1.0 }
    }

    /// Returns values of both signs without two equal neighbors.
    fn varied(len: usize) -> Vec<f32> {
        (0..len).map(|index| ((index * 37 + 11) % 101) as f32 - 50.5).collect()
    }

    #[test]
    fn an_exact_check_of_varied_values_accepts_no_mutation() {
        for row in [1, 4, 32] {
            assert_eq!(accepted_over_nan(row, &varied(64), |a, b| a == b), [], "{row}");
        }
    }

    #[test]
    fn a_check_without_bound_accepts_every_mutation_of_numbers() {
        let right = varied(64);
        let before: Vec<f32> = right.iter().map(|value| value + 1.0).collect();
        let comparison = OutputComparison { row: 4, ..OutputComparison::default() };
        let changes = accepted(&comparison, &right, &before, |_, _| true);
        let all: Vec<_> = Mutation::ALL.into_iter().filter(|mutation| *mutation != Mutation::ZerosInPart).collect();
        assert_eq!(changes.iter().map(|change| change.mutation).collect::<Vec<_>>(), all);
        let unordered = OutputComparison { ordered: false, ..comparison };
        let changes = accepted(&unordered, &right, &before, |_, _| true);
        assert!(changes.iter().all(|change| !change.mutation.moves()) && changes.len() == 6, "{changes:?}");
    }

    #[test]
    fn mutations_below_the_tolerance_name_the_row_part_or_number() {
        let near = |a: f32, b: f32| (a - b).abs() <= 1e-5 + 1e-4 * b.abs();
        // Rows of a structure of arrays, of which the last has a different unit.
        let mut rows = varied(80);
        rows.extend(varied(20).iter().map(|value| value * 1e-8));
        assert_eq!(accepted_over_nan(20, &rows, near), [whole(Mutation::ZerosInPart)]);
        let changes = accepted_over_nan(1, &rows, near);
        assert!(changes.contains(&whole(Mutation::ZerosInPart)), "{changes:?}");
        assert_eq!(accepted_over_nan(1, &[1.0; 64], near), [whole(Mutation::OneNumber)]);
        assert_eq!(accepted_over_nan(1, &[0.0; 64], near), [whole(Mutation::Zeros)]);
    }

    #[test]
    fn neighbors_of_a_slope_within_a_relative_tolerance_are_accepted_in_most_places() {
        let slope: Vec<f32> = (0..1 << 13).map(|index| index as f32).collect();
        let changes = accepted_over_nan(1, &slope, |a, b| (a - b).abs() <= 1e-3 * b.abs());
        let mutations: Vec<_> = changes.iter().map(|change| (change.mutation, change.member)).collect();
        assert_eq!(mutations, [(Mutation::Neighbors, None), (Mutation::FewNeighbors, None)]);
        assert!((0.8..1.0).contains(&changes[0].share), "{changes:?}");
    }

    #[test]
    fn a_member_far_below_the_tolerance_is_named_by_its_column() {
        let right: Vec<f32> = (0..100u32).flat_map(|index| [1.5 + index as f32, f32::from_bits(index)]).collect();
        let changes = accepted_over_nan(2, &right, |a, b| (a - b).abs() <= 1e-5);
        assert!(changes.iter().all(|change| change.member != Some(0)), "{changes:?}");
        let of_member: Vec<_> = changes.into_iter().filter(|change| change.member == Some(1)).collect();
        let expected = [Mutation::NeighborRows, Mutation::Zeros];
        assert_eq!(of_member, expected.map(|mutation| AcceptedChange { member: Some(1), ..whole(mutation) }));
    }

    #[test]
    fn only_changes_of_the_answer_are_mutations_except_clearing_zeros() {
        let halves: Vec<f32> = (0..64).map(|index| if index < 32 { 2.5 } else { -2.5 }).collect();
        assert_eq!(accepted(&OutputComparison::default(), &halves, &halves, |a, b| a == b), []);
        assert_eq!(accepted_over_nan(1, &[0.0; 64], |a, b| a == b), [whole(Mutation::Zeros)]);
    }

    #[test]
    fn low_bits_survive_rounding() {
        let leading = |dtype, bits| leading_bits(dtype, bits).expect("a number");
        assert_eq!(leading(DType::F32, u64::from(1.999f32.to_bits())), u64::from(1.875f32.to_bits()));
        assert_eq!(f64::from_bits(leading(DType::F64, 1.999_999_9_f64.to_bits())), 2.0 - 2f64.powi(-12));
        assert_eq!(leading(DType::F16, 0x3fff), 0x3f80);
        assert_eq!(leading(DType::U32, 0x1234_5678), 0x1200_0000);
        assert_eq!(leading(DType::U8, 0b111), 0b111);
        assert_eq!(leading(DType::I16, u64::from((-0x123i16).cast_unsigned())) as u16, (-0x120i16).cast_unsigned());
        assert_eq!(negated(DType::U8, 3), None);
        assert_eq!(negated(DType::I8, 3).expect("signed") as u8, (-3i8).cast_unsigned());
    }

    #[test]
    fn a_sample_has_whole_rows_with_the_first_and_the_last() {
        assert!(sample_ranges(8192, 1).into_iter().eq(std::iter::once(0..8192)));
        for (len, row) in [(1 << 20, 1), (1 << 20, 100), (3 << 20, 1 << 12), (1 << 24, 1 << 22)] {
            let row = if row > SAMPLED_ELEMENTS { 1 } else { row };
            let ranges = sample_ranges(len, row);
            for Range { start, end } in &ranges {
                let has_whole_rows = start.is_multiple_of(row) && end.is_multiple_of(row);
                assert!(has_whole_rows && end - start >= 2 * row, "{len} {row}: {ranges:?}");
            }
            assert_eq!(ranges.last().expect("a range").end, len / row * row, "{len} {row}: {ranges:?}");
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
            assert!(ranges.iter().map(Range::len).sum::<usize>() <= 2 * SAMPLED_ELEMENTS, "{ranges:?}");
        }
    }
}
