//! Sets of lanes. A gang is a number of invocations of a work-group that execute together: one sub-group, or several.

/// Most lanes of a gang: the largest work-group that is simulated.
pub(crate) const MAX_LANES: usize = 1024;

const WORDS: usize = MAX_LANES / 64;

/// Set of lanes of a gang.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub(crate) struct LaneSet([u64; WORDS]);

impl PartialEq for LaneSet {
    // In registers: the derived one calls a function.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |bits, (one, other)| bits | (one ^ other)) == 0
    }
}

impl LaneSet {
    pub(crate) const EMPTY: Self = Self([0; WORDS]);

    /// Returns the set of the first `count` lanes.
    pub(crate) fn first(count: usize) -> Self {
        let mut words = [0; WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            *word = match count.saturating_sub(index * 64) {
                0 => 0,
                rest if rest >= 64 => u64::MAX,
                rest => (1 << rest) - 1,
            };
        }
        Self(words)
    }

    #[inline]
    pub(crate) fn contains(&self, lane: usize) -> bool {
        self.0[lane / 64] >> (lane % 64) & 1 == 1
    }

    #[inline]
    pub(crate) fn insert(&mut self, lane: usize) {
        self.0[lane / 64] |= 1 << (lane % 64);
    }

    #[inline]
    pub(crate) fn remove(&mut self, lane: usize) {
        self.0[lane / 64] &= !(1 << (lane % 64));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        let mut count = 0;
        for word in self.0 {
            count += word.count_ones() as usize;
        }
        count
    }

    #[inline]
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] & other.0[index]))
    }

    #[inline]
    pub(crate) fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] | other.0[index]))
    }

    #[inline]
    pub(crate) fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] & !other.0[index]))
    }

    /// Iterates over the lanes in ascending order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }
}

impl LaneSet {
    /// Returns the lanes of a range, renumbered from 0.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Self {
        let mut slice = Self::EMPTY;
        for lane in range.clone().filter(|lane| self.contains(*lane)) {
            slice.insert(lane - range.start);
        }
        slice
    }
}

/// Lanes that execute an instruction.
#[derive(Clone)]
pub(crate) struct Active {
    /// The lanes as a set.
    pub(crate) set: LaneSet,
    /// The lanes in ascending order.
    pub(crate) list: Vec<u16>,
    /// Whether these are all lanes of the gang, so that whole registers can be computed at once.
    pub(crate) is_all: bool,
}

impl Active {
    pub(crate) fn new(set: LaneSet, lanes: usize) -> Self {
        let mut list = Vec::with_capacity(lanes);
        let is_all = set.count() == lanes;
        if is_all {
            list.extend(0..lanes as u16);
        } else {
            list.extend(set.iter().map(|lane| lane as u16));
        }
        Self { set, list, is_all }
    }

    /// Iterates over the lanes as indices.
    #[inline]
    pub(crate) fn lanes(&self) -> impl Iterator<Item = usize> + '_ {
        self.list.iter().map(|lane| usize::from(*lane))
    }
}
