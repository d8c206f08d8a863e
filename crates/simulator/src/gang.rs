//! Gang: invocations of a work-group that execute together, a sub-group or several.

use crate::findings::Invocation;

/// Position of a gang in a dispatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gang {
    /// Linear number of the work-group.
    pub(crate) group: u32,
    /// Local invocation index of lane 0; a multiple of the sub-group size.
    pub(crate) first: u32,
    /// Lanes; the last sub-group may be partial.
    pub(crate) lanes: u32,
    pub(crate) subgroup_size: u32,
}

impl Gang {
    #[inline]
    pub(crate) fn invocation(&self, lane: usize) -> Invocation {
        let local = self.first + lane as u32;
        // Sub-group sizes are powers of two.
        Invocation { group: self.group, local, subgroup: local >> self.subgroup_size.trailing_zeros() }
    }

    /// Returns the lane range of the sub-group that holds `lane`; the last one may be partial.
    pub(crate) fn subgroup_of(&self, lane: usize) -> std::ops::Range<usize> {
        let size = self.subgroup_size as usize;
        let begin = lane / size * size;
        begin..(begin + size).min(self.lanes as usize)
    }
}
