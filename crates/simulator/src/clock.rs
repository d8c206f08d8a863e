//! Happens-before: whether an earlier access of one invocation is ordered before a later one of another, by barriers and
//! by atomics, whatever the schedule.
//!
//! Time is one counter that advances at each synchronisation; an access carries the time at which it was made. "Accesses
//! of X before time T" then says what is known of X. Two classes of storage, buffers and shared memory, are ordered
//! separately.

use crate::code::Semantics;
use crate::findings::{Invocation, Object};

/// Number of storage classes: buffers are class 0, shared memory is class 1.
pub(crate) const CLASSES: usize = 2;

/// Returns the storage class of an object.
pub(crate) fn class_of(object: Object) -> usize {
    usize::from(object == Object::Shared)
}

/// Invocations among which a scope orders: 0 in a sub-group, 1 in a work-group, 2 in the whole dispatch; `None` for a
/// single invocation.
pub(crate) fn rank(scope: u32) -> Option<usize> {
    match scope {
        3 => Some(0),
        2 => Some(1),
        0 | 1 | 5 => Some(2),
        _ => None,
    }
}

const ACQUIRE: u32 = 0x2 | 0x8 | 0x10;
const RELEASE: u32 = 0x4 | 0x8 | 0x10;

/// Returns which classes semantics order; none if they lack an ordering among `ordering`.
fn classes(semantics: Semantics, ordering: u32) -> [bool; CLASSES] {
    let ordered = semantics.bits & ordering != 0;
    [ordered && semantics.bits & 0x40 != 0, ordered && semantics.bits & 0x100 != 0]
}

/// Last fences of an invocation.
#[derive(Clone, Default)]
struct Lane {
    /// Time of the last memory barrier of at least each rank, for each class.
    fences: [[u32; CLASSES]; 3],
    /// Accesses before this time were made available by a memory barrier before a control barrier.
    released: [u32; CLASSES],
    /// Time of the last control barrier before a memory barrier.
    arrived: [u32; CLASSES],
}

/// Synchronisation of a work-group.
#[derive(Default)]
struct Group {
    /// Time at which the group began.
    start: u32,
    /// Time of the last control barrier.
    control: u32,
    /// Time of the last control barrier that orders each class.
    barriers: [u32; CLASSES],
    /// The same of each sub-group's barriers.
    subgroups: Vec<[u32; CLASSES]>,
    lanes: Vec<Lane>,
    /// Whether memory barriers were executed since the last control barrier.
    fenced: [bool; CLASSES],
}

/// Clocks of a dispatch.
#[derive(Default)]
pub(crate) struct Clock {
    now: u32,
    dispatch: u32,
    groups: Vec<Option<Box<Group>>>,
    invocations: u32,
    /// Bits of an invocation's number that are its local index.
    pub(crate) group_shift: u32,
    /// Bits of an invocation's number that are its lane.
    pub(crate) subgroup_shift: u32,
}

/// Times before which accesses are ordered before any access that an invocation makes now.
#[derive(Clone, Copy)]
pub(crate) struct Horizon {
    pub(crate) now: u32,
    /// Accesses of anybody.
    pub(crate) all: u32,
    /// Accesses of the invocation's group.
    pub(crate) group: u32,
}

impl Clock {
    pub(crate) fn begin_dispatch(&mut self, groups: u32, invocations: u32, subgroup_size: u32) {
        self.now += 1;
        self.dispatch = self.now;
        self.groups.clear();
        self.groups.resize_with(groups as usize, || None);
        self.invocations = invocations;
        self.group_shift = invocations.max(1).next_power_of_two().trailing_zeros().min(31);
        self.subgroup_shift = subgroup_size.max(1).next_power_of_two().trailing_zeros().min(self.group_shift);
    }

    /// Whether the counter is about to overflow; stamps must then be cleared and the clock be made anew.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.now > u32::MAX / 2
    }

    pub(crate) fn begin_group(&mut self, group: u32) {
        self.now += 1;
        let lanes = self.invocations as usize;
        let subgroups = (lanes >> self.subgroup_shift) + 1;
        let (lanes, subgroups) = (vec![Lane::default(); lanes], vec![[0; CLASSES]; subgroups]);
        if let Some(slot) = self.groups.get_mut(group as usize) {
            *slot = Some(Box::new(Group { start: self.now, lanes, subgroups, ..Group::default() }));
        }
    }

    pub(crate) fn end_group(&mut self, group: u32) {
        if let Some(slot) = self.groups.get_mut(group as usize) {
            *slot = None;
        }
    }

    /// Returns the number of an invocation in stamps. Groups beyond 2³² invocations share numbers with earlier ones.
    pub(crate) fn number(&self, who: Invocation) -> u32 {
        (who.group << self.group_shift) | who.local
    }

    /// Returns the invocation that has a number.
    pub(crate) fn invocation(&self, number: u32) -> Invocation {
        let local = number & ((1 << self.group_shift) - 1);
        Invocation { group: number >> self.group_shift, local, subgroup: local >> self.subgroup_shift }
    }

    pub(crate) fn horizon(&self, group: u32, class: usize) -> Horizon {
        match self.groups.get(group as usize) {
            // Shared memory of an earlier group may have the same cells.
            Some(Some(own)) if class == 1 => Horizon { now: self.now, all: own.start, group: own.barriers[1] },
            Some(Some(own)) => Horizon { now: self.now, all: self.dispatch, group: own.barriers[class] },
            _ => Horizon { now: self.now, all: self.dispatch, group: 0 },
        }
    }

    fn group(&mut self, group: u32) -> Option<&mut Group> {
        self.groups.get_mut(group as usize)?.as_deref_mut()
    }

    pub(crate) fn memory_barrier(&mut self, who: Invocation, semantics: Semantics) {
        let Some(rank) = rank(semantics.scope) else { return };
        self.now += 1;
        let now = self.now;
        let Some(group) = self.group(who.group) else { return };
        let Some(lane) = group.lanes.get_mut(who.local as usize) else { return };
        for (class, covered) in classes(semantics, ACQUIRE | RELEASE).into_iter().enumerate() {
            if !covered {
                continue;
            }
            for fences in &mut lane.fences[..=rank] {
                fences[class] = now;
            }
            if rank >= 1 {
                lane.arrived[class] = group.control;
                group.fenced[class] = true;
            }
        }
    }

    pub(crate) fn control_barrier(&mut self, group: u32, subgroup: Option<u32>, semantics: Semantics) {
        self.now += 1;
        let now = self.now;
        let Some(group) = self.group(group) else { return };
        let covered = classes(semantics, ACQUIRE | RELEASE);
        let rank = rank(semantics.scope);
        if let Some(subgroup) = subgroup {
            let Some(times) = group.subgroups.get_mut(subgroup as usize) else { return };
            for class in 0..CLASSES {
                if covered[class] && rank.is_some() {
                    times[class] = now;
                }
            }
            return;
        }
        group.control = now;
        for (class, covered) in covered.into_iter().enumerate() {
            if covered && rank >= Some(1) {
                group.barriers[class] = now;
            } else if group.fenced[class] {
                for lane in &mut group.lanes {
                    lane.released[class] = lane.fences[1][class];
                }
            }
            group.fenced[class] = false;
        }
    }

    /// Whether accesses that invocation `earlier` made at `time` are ordered before those that `later` makes now.
    pub(crate) fn is_ordered(&self, earlier: u32, time: u32, later: Invocation, class: usize) -> bool {
        let from = self.invocation(earlier);
        let Some(Some(group)) = self.groups.get(later.group as usize) else { return false };
        if (earlier ^ self.number(later)) >> self.group_shift == 0 {
            let (Some(a), Some(b)) = (group.lanes.get(from.local as usize), group.lanes.get(later.local as usize))
            else {
                return false;
            };
            let ordered = group.barriers[class].max(a.released[class]).max(b.arrived[class]);
            if time < ordered {
                return true;
            }
            if from.subgroup == later.subgroup {
                let barrier = group.subgroups.get(from.subgroup as usize).map_or(0, |times| times[class]);
                if time < barrier.max(a.fences[0][class].min(b.fences[0][class])) {
                    return true;
                }
            }
        }
        false
    }
}
