//! Host versions of the collective operations: results for the values of one sub-group of any size.

/// Collective operation of a sub-group. Kernels report its number to identify themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Primitive {
    /// Barriers only: every lane keeps its value.
    Nothing,
    Broadcast,
    VoteAny,
    VoteAll,
    VoteNone,
    Ballot,
    Select,
    ShiftLeft,
    ShiftRight,
    Xor,
    Reverse,
    ReduceAdd,
    Scan,
}

/// Odd multipliers that spread small numbers over all 32 bits, equal to those in `glsl/include/collectives.glsl`.
const SPREAD: [u32; 4] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f];

impl Primitive {
    /// Every primitive.
    pub(super) const ALL: [Self; 13] = [
        Self::Nothing,
        Self::Broadcast,
        Self::VoteAny,
        Self::VoteAll,
        Self::VoteNone,
        Self::Ballot,
        Self::Select,
        Self::ShiftLeft,
        Self::ShiftRight,
        Self::Xor,
        Self::Reverse,
        Self::ReduceAdd,
        Self::Scan,
    ];

    /// Returns the values of a work-group after a chain of `n` operations on `x`, in sub-groups of `lanes`. Host
    /// version of `main` in `glsl/include/collectives.glsl`.
    pub(super) fn chain(self, x: &[i32], lanes: usize, n: u64) -> Vec<i32> {
        let mut results = vec![];
        for start in x.chunks(lanes) {
            let mut keys: Vec<i32> = start.iter().map(|x| x.wrapping_mul(SPREAD[0] as i32)).collect();
            let mut values = keys.clone();
            for i in 0..n {
                values = self.operation(&values, start, i);
                // Each lane's own key makes the values of the lanes differ again.
                for (value, key) in values.iter_mut().zip(&mut keys) {
                    *value ^= *key;
                    *key = key.wrapping_add(SPREAD[1] as i32);
                }
            }
            results.extend(values);
        }
        results
    }

    /// Applies step `i` of the chain that began with `start` to the `values` of a sub-group. Host version of the kernels'
    /// `operation`.
    fn operation(self, values: &[i32], start: &[i32], i: u64) -> Vec<i32> {
        let lanes = values.len();
        // A condition that holds in one lane on average, so that votes go both ways.
        let is_small: Vec<bool> = values.iter().map(|value| (*value as u32) < u32::MAX / lanes as u32).collect();
        let add_vote = |holds: bool| {
            let step = if holds { SPREAD[2] as i32 } else { 0 };
            values.iter().map(|value| value.wrapping_add(step)).collect()
        };
        // Lanes without a source keep their value.
        let or_own = |shifted: Vec<Option<i32>>| {
            shifted.into_iter().zip(values).map(|(value, own)| value.unwrap_or(*own)).collect()
        };
        // Figure 9-15 shifts by 5 of 8 lanes.
        let distance = (5 * lanes / 8).max(1);
        match self {
            Self::Nothing => values.to_vec(),
            Self::Broadcast => broadcast(values, i as usize % lanes),
            Self::VoteAny => add_vote(any(&is_small)),
            Self::VoteAll => add_vote(all(&is_small.iter().map(|is_small| !is_small).collect::<Vec<_>>())),
            Self::VoteNone => add_vote(none(&is_small)),
            Self::Ballot => {
                let negative: Vec<bool> = values.iter().map(|value| *value < 0).collect();
                let words = ballot(&negative).into_iter().zip(SPREAD);
                let digest = words.fold(0u32, |sum, (word, odd)| sum.wrapping_add(word.wrapping_mul(odd)));
                vec![digest as i32; lanes]
            }
            Self::Select => {
                let ids: Vec<usize> = start.iter().map(|x| *x as usize % lanes).collect();
                select(values, &ids)
            }
            Self::ShiftLeft => or_own(shift_left(values, distance)),
            Self::ShiftRight => or_own(shift_right(values, distance)),
            Self::Xor => xor(values, 1),
            Self::Reverse => xor(values, lanes - 1),
            Self::ReduceAdd => reduce_add(values),
            Self::Scan => scan(values),
        }
    }
}

/// Gives every lane the value of `lane` (figure 9-10).
fn broadcast(x: &[i32], lane: usize) -> Vec<i32> {
    vec![x[lane]; x.len()]
}

/// Whether the condition holds in any lane (figure 9-13).
fn any(x: &[bool]) -> bool {
    x.contains(&true)
}

/// Whether the condition holds in all lanes (figure 9-13).
fn all(x: &[bool]) -> bool {
    !x.contains(&false)
}

/// Whether the condition holds in no lane (figure 9-13).
fn none(x: &[bool]) -> bool {
    !x.contains(&true)
}

/// Returns the mask of the lanes in which the condition holds: lane l is bit l mod 32 of word l / 32.
fn ballot(x: &[bool]) -> [u32; 4] {
    let mut words = [0; 4];
    for lane in (0..x.len()).filter(|lane| x[*lane]) {
        words[lane / 32] |= 1 << (lane % 32);
    }
    words
}

/// Gives each lane the value of the lane that its id names (figure 9-14).
fn select(x: &[i32], ids: &[usize]) -> Vec<i32> {
    ids.iter().map(|id| x[*id]).collect()
}

/// Gives each lane the value `delta` lanes above; the last lanes have none (figure 9-15).
fn shift_left(x: &[i32], delta: usize) -> Vec<Option<i32>> {
    (0..x.len()).map(|lane| x.get(lane + delta).copied()).collect()
}

/// Gives each lane the value `delta` lanes below; the first lanes have none.
fn shift_right(x: &[i32], delta: usize) -> Vec<Option<i32>> {
    (0..x.len()).map(|lane| lane.checked_sub(delta).map(|source| x[source])).collect()
}

/// Gives each lane the value of lane ⊕ `mask` (figures 9-16 and 9-17).
fn xor(x: &[i32], mask: usize) -> Vec<i32> {
    (0..x.len()).map(|lane| x[lane ^ mask]).collect()
}

/// Gives every lane the sum modulo 2³².
fn reduce_add(x: &[i32]) -> Vec<i32> {
    vec![x.iter().fold(0, |sum, value| sum.wrapping_add(*value)); x.len()]
}

/// Gives each lane the sum modulo 2³² of the values up to its own.
fn scan(x: &[i32]) -> Vec<i32> {
    let sums = x.iter().scan(0i32, |sum, value| {
        *sum = sum.wrapping_add(*value);
        Some(*sum)
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const COUNT: [i32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    #[test]
    fn broadcasting_lane_3_gives_the_figure_of_the_document() {
        assert_eq!(broadcast(&[2, 9, 7, 10, 4, 8, 5, 3], 3), [10; 8]);
    }

    #[test]
    fn votes_give_the_figure_of_the_document_and_the_ballot_has_a_bit_a_lane() {
        let x = [0, 1, 1, 0, 1, 1, 0, 0].map(|x| x == 1);
        assert_eq!((any(&x), all(&x), none(&x)), (true, false, false));
        assert_eq!((any(&[true; 8]), all(&[true; 8]), none(&[true; 8])), (true, true, false));
        assert_eq!((any(&[false; 8]), all(&[false; 8]), none(&[false; 8])), (false, false, true));
        assert_eq!(ballot(&x), [0b0011_0110, 0, 0, 0]);
        let mut wide = [false; 128];
        wide[127] = true;
        assert_eq!(ballot(&wide), [0, 0, 0, 1 << 31]);
    }

    #[test]
    fn selecting_by_precomputed_ids_sorts_as_in_the_figure() {
        assert_eq!(select(&[3, 1, 2, 5, 4, 2, 1, 0], &[7, 1, 6, 2, 5, 0, 4, 3]), [0, 1, 1, 2, 2, 3, 4, 5]);
    }

    #[test]
    fn shifts_leave_what_they_have_no_source_for_undefined() {
        assert_eq!(shift_left(&COUNT, 5), [Some(5), Some(6), Some(7), None, None, None, None, None]);
        assert_eq!(shift_right(&COUNT, 5), [None, None, None, None, None, Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn xor_swaps_neighbors_or_reverses_as_in_the_figures() {
        assert_eq!(xor(&COUNT, 1), [1, 0, 3, 2, 5, 4, 7, 6]);
        assert_eq!(xor(&COUNT, 7), [7, 6, 5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn the_last_lane_of_a_scan_is_the_sum() {
        assert_eq!(scan(&[3, 1, 2, 5, 4, 2, 1, 0]), [3, 4, 6, 11, 15, 17, 18, 18]);
        assert_eq!(reduce_add(&[3, 1, 2, 5, 4, 2, 1, 0]), [18; 8]);
    }

    #[test]
    fn one_step_at_eight_lanes_does_what_the_figures_do() {
        let step = |primitive: Primitive| primitive.operation(&COUNT, &[7, 1, 6, 2, 5, 0, 4, 3], 3);
        assert_eq!(step(Primitive::Broadcast), [3; 8]);
        assert_eq!(step(Primitive::Select), [7, 1, 6, 2, 5, 0, 4, 3]);
        assert_eq!(step(Primitive::ShiftLeft), [5, 6, 7, 3, 4, 5, 6, 7]);
        assert_eq!(step(Primitive::ShiftRight), [0, 1, 2, 3, 4, 0, 1, 2]);
        assert_eq!(step(Primitive::Xor), xor(&COUNT, 1));
        assert_eq!(step(Primitive::Reverse), xor(&COUNT, 7));
    }

    /// Returns pseudo-random values.
    fn values(lanes: usize) -> Vec<i32> {
        (0..2 * lanes).map(|place| (place * place * 977 % 65_536) as i32).collect()
    }

    #[test]
    fn votes_of_a_chain_go_both_ways_at_every_sub_group_size() {
        for lanes in [4, 8, 16, 32, 64, 128] {
            let x = &values(lanes)[..lanes];
            for primitive in [Primitive::VoteAny, Primitive::VoteAll, Primitive::VoteNone] {
                // Whether the vote of step n fails: the first lane then changes only by its key.
                let is_lost = |n: &u64| {
                    let before = primitive.chain(x, lanes, *n)[0];
                    let after = primitive.chain(x, lanes, n + 1)[0];
                    let steps = (SPREAD[1] as i32).wrapping_mul(*n as i32);
                    after == before ^ x[0].wrapping_mul(SPREAD[0] as i32).wrapping_add(steps)
                };
                let lost = (0..100).filter(is_lost).count();
                assert!((10..=90).contains(&lost), "{primitive:?} of {lanes}: {lost} of 100");
            }
        }
    }

    #[test]
    fn primitives_and_lengths_of_a_chain_are_told_apart_by_its_end() {
        let x = values(8);
        for n in 8..40 {
            let ends: BTreeSet<_> = Primitive::ALL.into_iter().map(|primitive| primitive.chain(&x, 8, n)).collect();
            // A condition holds in no lane exactly if its negation holds in all, so these two votes are one function.
            assert_eq!(ends.len(), Primitive::ALL.len() - 1, "after {n}");
        }
        for primitive in Primitive::ALL {
            let ends: BTreeSet<_> = (0..100).map(|n| primitive.chain(&x, 8, n)).collect();
            assert_eq!(ends.len(), 100, "{primitive:?}");
        }
    }
}
