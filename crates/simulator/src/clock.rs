//! Happens-before: whether an access of one invocation is ordered before a later one of another, by barriers and atomics,
//! whatever the schedule.
//!
//! Time is a counter that advances at each synchronization, and accesses are stamped with it, so that "accesses of X
//! before time T" says what is known of X. Buffers and shared memory have a clock each, because semantics name them
//! separately.
//!
//! Barriers of a group are times that every access is compared with. Synchronization by atomics is rare, so it only keeps
//! *logs*, which are searched if nothing else orders two accesses: an invocation that releases logs the accesses before
//! and refers to the log of its group; the atomic's location refers to the invocation's log; an invocation that acquires
//! refers to the location's log; each up to the length that it has then.
//!
//! Atomic writes always continue a release sequence, plain atomic stores too, which may hide a race.

use crate::code::Semantics;
use crate::findings::{Invocation, Object};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

const ACQUIRE: u32 = 0x2 | 0x8 | 0x10;
const RELEASE: u32 = 0x4 | 0x8 | 0x10;

/// Bits of `MemorySemantics` for buffers (`UniformMemory`) and shared memory (`WorkgroupMemory`).
pub(crate) const CLASSES: [u32; 2] = [0x40, 0x100];

/// Returns the reach of a scope: 0 for a sub-group, 1 for a work-group, 2 for the dispatch; `None` for one invocation.
pub(crate) fn rank(scope: u32) -> Option<usize> {
    match scope {
        3 => Some(0),
        2 => Some(1),
        0 | 1 | 5 => Some(2),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum LogEntry {
    /// Accesses before a time of all invocations whose number equals `who` above the lowest `shift` bits.
    Accesses { who: u32, shift: u32, before: u32 },
    /// The first `length` entries of another log, which `who` wrote if it is an invocation's.
    Past { log: u32, length: u32, who: u32 },
}

/// Most entries of all logs of a dispatch.
const MAX_ENTRIES: usize = 1 << 25;
/// Most entries that a search reads; accesses are taken to be ordered by older ones.
const MAX_SEARCH: u64 = 1 << 16;

/// Logs by number; 0 is an empty log.
#[derive(Default)]
struct Logs {
    entries: Vec<Vec<LogEntry>>,
    /// Entries of all logs, and of the lists of what invocations observed.
    count: usize,
    /// Entries that searches have read.
    searched: Cell<u64>,
}

impl Logs {
    /// Adds an entry, unless it was added just before; creates the log if its number is 0.
    fn push(&mut self, log: &mut u32, entry: LogEntry) {
        if *log == 0 {
            *log = self.entries.len().max(1) as u32;
            self.entries.resize_with(*log as usize + 1, Vec::new);
        }
        let entries = &mut self.entries[*log as usize];
        if !entries.iter().rev().take(8).any(|old| *old == entry) {
            entries.push(entry);
            self.count += 1;
        }
    }

    /// Returns a reference to the present entries of a log, if any.
    fn past(&self, log: u32, who: u32) -> Option<LogEntry> {
        let length = self.entries.get(log as usize).map_or(0, Vec::len) as u32;
        (length > 0).then_some(LogEntry::Past { log, length, who })
    }

    fn refer(&mut self, log: &mut u32, to: u32, who: u32) {
        if let Some(entry) = self.past(to, who) {
            self.push(log, entry);
        }
    }

    /// Whether accesses of `target` at `time` are in one of the logs. Logs of its group (above `shift`) are searched first.
    fn contains(&self, roots: [u32; 3], target: u32, time: u32, shift: u32) -> bool {
        let mut stack: Vec<_> = roots.into_iter().filter_map(|log| self.past(log, 0)).collect();
        let mut visited = HashMap::new();
        let mut left = MAX_SEARCH;
        while let Some(LogEntry::Past { log, length, .. }) = stack.pop() {
            let seen = visited.entry(log).or_insert(0);
            let Some(entries) = self.entries[log as usize].get(*seen..length as usize) else { continue };
            *seen = length as usize;
            let read = 1 + entries.len() as u64;
            self.searched.set(self.searched.get() + read);
            left = match left.checked_sub(read) {
                Some(left) => left,
                None => return true,
            };
            let mut likely = None;
            for entry in entries {
                match *entry {
                    LogEntry::Accesses { who, shift, before } if (who ^ target) >> shift == 0 && time < before => {
                        return true;
                    }
                    LogEntry::Accesses { .. } => {}
                    LogEntry::Past { who, .. } => {
                        stack.push(*entry);
                        likely = if (who ^ target) >> shift == 0 { Some(*entry) } else { likely };
                    }
                }
            }
            stack.extend(likely);
        }
        false
    }
}

/// Synchronization of an invocation.
#[derive(Clone, Default)]
struct Lane {
    /// Time of the last memory barrier of at least each rank.
    fences: [u32; 3],
    /// Accesses before this time were released by a memory barrier before a control barrier.
    released: u32,
    /// Releases and acquisitions.
    log: u32,
    /// Time of the last acquisition.
    acquired: u32,
    /// Logs of locations that were read and not yet acquired, with the rank of the atomic.
    observed: Vec<(usize, LogEntry)>,
}

impl Lane {
    /// Notes the log of a location that an atomic read; a poll replaces the one before.
    /// Returns the number of entries that this adds.
    fn observe(&mut self, rank: usize, entry: LogEntry) -> usize {
        let same = |old: &LogEntry| matches!((old, &entry), (LogEntry::Past { log, .. }, LogEntry::Past { log: new, .. }) if log == new);
        if let Some(old) = self.observed.iter_mut().rev().take(16).find(|(_, old)| same(old)) {
            *old = (rank, entry);
            return 0;
        }
        self.observed.push((rank, entry));
        1
    }

    /// Acquires the observed logs that a barrier of a rank covers.
    fn acquire(&mut self, logs: &mut Logs, rank: usize, now: u32) {
        for (_, entry) in self.observed.extract_if(.., |(of, _)| *of <= rank) {
            logs.push(&mut self.log, entry);
            self.acquired = now;
        }
    }
}

/// Synchronization of a work-group.
#[derive(Default)]
struct Group {
    /// Accesses before this time, of earlier dispatches or of a group whose shared memory this one has, do not count.
    start: u32,
    /// Time of the last control barrier, whatever its semantics.
    control: u32,
    /// Time of the last control barrier of at least each rank.
    fences: [u32; 3],
    /// Whether memory barriers were executed since the last control barrier.
    fenced: bool,
    /// Whether `released` of the lanes is not in the log.
    unlogged: bool,
    /// Acquisitions that the group shares since a barrier.
    log: u32,
    /// Acquisitions before a barrier that an invocation shares after its next memory barrier.
    late: u32,
    /// Time of the last barrier of each sub-group, and log of acquisitions that it shares.
    subgroups: Vec<(u32, u32)>,
    lanes: Vec<Lane>,
    /// Whether an invocation has read an atomic that others released.
    synchronized: bool,
}

impl Group {
    /// Logs all accesses that precede a release by an invocation with number `me`, its own ones before time `fence`.
    fn release(&mut self, logs: &mut Logs, who: Invocation, me: u32, [subgroup, group]: [u32; 2], fence: u32) {
        if std::mem::take(&mut self.unlogged) {
            for (local, lane) in (0..).zip(&self.lanes) {
                logs.push(
                    &mut self.log,
                    LogEntry::Accesses { who: me ^ who.local ^ local, shift: 0, before: lane.released },
                );
            }
        }
        let (barrier, known) = self.subgroups.get(who.subgroup as usize).copied().unwrap_or_default();
        let log = &mut self.lanes[who.local as usize].log;
        for (shift, before) in [(0, fence), (subgroup, barrier.min(fence)), (group, self.fences[1].min(fence))] {
            logs.push(log, LogEntry::Accesses { who: me, shift, before });
        }
        logs.refer(log, known, me);
        logs.refer(log, self.log, me);
    }
}

/// Clock of one class of storage in a dispatch.
#[derive(Default)]
pub(crate) struct SyncClock {
    /// Bit of the class in semantics.
    class: u32,
    /// Time; saturates, which makes later accesses unordered.
    now: u32,
    dispatch: u32,
    invocations: u32,
    groups: Vec<Option<Box<Group>>>,
    logs: Logs,
    /// Logs of atomics by object, offset, group and sub-group; `u32::MAX` for synchronization beyond them.
    variables: BTreeMap<(Object, u64, u32, u32), u32>,
    /// Bits of an invocation's number that are its local index.
    pub(crate) group_shift: u32,
    /// Bits of an invocation's number that are its lane.
    pub(crate) subgroup_shift: u32,
}

/// Times before which accesses are ordered before anything that an invocation does now.
#[derive(Clone, Copy)]
pub(crate) struct Horizon {
    pub(crate) now: u32,
    /// Accesses of anybody.
    pub(crate) all: u32,
    /// Accesses of the invocation's group.
    pub(crate) group: u32,
    /// Bits of an invocation's number that are its group.
    pub(crate) group_mask: u32,
}

impl SyncClock {
    pub(crate) fn new(class: u32) -> Self {
        Self { class, ..Self::default() }
    }

    pub(crate) fn begin_dispatch(&mut self, groups: u32, invocations: u32, subgroup_size: u32) {
        self.now = self.now.saturating_add(1);
        self.dispatch = self.now;
        self.invocations = invocations;
        self.groups.clear();
        self.groups.resize_with(groups as usize, || None);
        self.logs = Logs::default();
        self.variables.clear();
        self.group_shift = invocations.clamp(1, 1 << 30).next_power_of_two().trailing_zeros();
        self.subgroup_shift =
            subgroup_size.clamp(1, 1 << 30).next_power_of_two().trailing_zeros().min(self.group_shift);
    }

    /// Whether the counter may overflow in a dispatch; clock and stamps must then be renewed.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.now > u32::MAX / 2
    }

    /// Whether the logs take as much memory as they may.
    pub(crate) fn is_full(&self) -> bool {
        self.logs.count > MAX_ENTRIES
    }

    /// Returns the entries of logs that were searched since the last call.
    pub(crate) fn take_searched(&self) -> u64 {
        self.logs.searched.take()
    }

    pub(crate) fn begin_group(&mut self, group: u32) {
        self.now = self.now.saturating_add(1);
        let start = if self.class == CLASSES[1] { self.now } else { self.dispatch };
        if let Some(slot) = self.groups.get_mut(group as usize) {
            let lanes = vec![Lane::default(); self.invocations as usize];
            let subgroups = vec![(0, 0); (lanes.len() >> self.subgroup_shift) + 1];
            *slot = Some(Box::new(Group { start, subgroups, lanes, ..Group::default() }));
        }
    }

    pub(crate) fn end_group(&mut self, group: u32) {
        self.groups.get_mut(group as usize).and_then(Option::take);
    }

    /// Returns the number of an invocation in stamps. Invocations 2³² numbers apart share one.
    #[inline]
    pub(crate) fn number(&self, who: Invocation) -> u32 {
        who.group.wrapping_shl(self.group_shift) | who.local
    }

    /// Returns the invocation that has a number.
    pub(crate) fn invocation(&self, number: u32) -> Invocation {
        let local = number & ((1 << self.group_shift) - 1);
        Invocation { group: number >> self.group_shift, local, subgroup: local >> self.subgroup_shift }
    }

    #[inline]
    pub(crate) fn horizon(&self, group: u32) -> Horizon {
        let group = self.groups.get(group as usize).and_then(Option::as_deref);
        let (all, group) = group.map_or((self.dispatch, 0), |group| (group.start, group.fences[1]));
        Horizon { now: self.now, all, group, group_mask: u32::MAX.wrapping_shl(self.group_shift) }
    }

    /// Whether semantics order this class in one of the ways `ordering`.
    fn covers(&self, semantics: Semantics, ordering: u32) -> bool {
        semantics.bits & ordering != 0 && semantics.bits & self.class != 0
    }

    pub(crate) fn memory_barrier(&mut self, who: Invocation, semantics: Semantics) {
        let Some(rank) = rank(semantics.scope).filter(|_| self.covers(semantics, ACQUIRE | RELEASE)) else { return };
        let acquires = self.covers(semantics, ACQUIRE);
        self.now = self.now.saturating_add(1);
        let Some(Some(group)) = self.groups.get_mut(who.group as usize) else { return };
        let Some(lane) = group.lanes.get_mut(who.local as usize) else { return };
        lane.fences[..=rank].fill(self.now);
        if acquires {
            lane.acquire(&mut self.logs, rank, self.now);
        }
        if rank >= 1 {
            group.fenced = true;
            self.logs.refer(&mut lane.log, group.late, u32::MAX);
        }
    }

    pub(crate) fn control_barrier(&mut self, group: u32, subgroup: Option<u32>, semantics: Semantics) {
        self.now = self.now.saturating_add(1);
        let needed = usize::from(subgroup.is_none());
        let covered = rank(semantics.scope).filter(|rank| *rank >= needed && self.covers(semantics, ACQUIRE | RELEASE));
        let Some(Some(group)) = self.groups.get_mut(group as usize) else { return };
        let shift = self.subgroup_shift;
        let (first, count) = subgroup.map_or((0, usize::MAX), |index| ((index as usize) << shift, 1 << shift));
        let known = match subgroup.and_then(|index| group.subgroups.get_mut(index as usize)) {
            Some((time, log)) => {
                *time = if covered.is_some() { self.now } else { *time };
                log
            }
            None => &mut group.log,
        };
        for lane in group.lanes.iter_mut().skip(first).take(count).filter(|_| group.synchronized) {
            if let Some(rank) = covered {
                lane.acquire(&mut self.logs, rank, self.now);
                self.logs.refer(known, lane.log, u32::MAX);
            } else if subgroup.is_none() {
                let log = if lane.fences[1] >= lane.acquired { &mut *known } else { &mut group.late };
                self.logs.refer(log, lane.log, u32::MAX);
                lane.observed.iter().for_each(|(_, entry)| self.logs.push(&mut group.late, *entry));
            }
        }
        if subgroup.is_some() {
            return;
        }
        group.control = self.now;
        let fenced = std::mem::take(&mut group.fenced);
        if let Some(rank) = covered {
            group.fences[..=rank].fill(self.now);
        } else if fenced {
            group.lanes.iter_mut().for_each(|lane| lane.released = lane.fences[1]);
            group.unlogged = true;
        }
    }

    /// Synchronizes by an atomic that read an object and, if `wrote`, wrote it.
    pub(crate) fn atomic(&mut self, who: Invocation, object: Object, offset: u64, semantics: Semantics, wrote: bool) {
        let Some(rank) = rank(semantics.scope) else { return };
        let (acquires, releases) = (self.covers(semantics, ACQUIRE), self.covers(semantics, RELEASE));
        let (me, shifts) = (self.number(who), [self.subgroup_shift, self.group_shift]);
        self.now = self.now.saturating_add(releases.into());
        let Some(Some(group)) = self.groups.get_mut(who.group as usize) else { return };
        let Some(lane) = group.lanes.get(who.local as usize) else { return };
        if self.variables.is_empty() && !releases && lane.fences[0].max(group.fences[0]) == 0 {
            return;
        }
        let rank = if object == Object::Shared { rank.min(1) } else { rank };
        let domains = [(who.group, who.subgroup), (who.group, u32::MAX), (u32::MAX, u32::MAX)];
        for (rank, domain) in domains.into_iter().enumerate().take(rank + 1).rev() {
            let key = (object, offset, domain.0, domain.1);
            let mut variable = self.variables.get(&key).copied().unwrap_or(0);
            let lane = &mut group.lanes[who.local as usize];
            if let Some(entry) = self.logs.past(variable, u32::MAX) {
                if acquires {
                    self.logs.push(&mut lane.log, entry);
                    lane.acquired = self.now;
                } else {
                    self.logs.count += lane.observe(rank, entry);
                }
                group.synchronized = true;
            }
            let fence = if releases { self.now } else { lane.fences[rank].max(group.fences[rank]) };
            // Barriers of the group order more than a release within the group after them.
            if wrote && fence > if rank < 2 { group.fences[1] } else { 0 } {
                group.release(&mut self.logs, who, me, shifts, fence);
                let known = variable != 0;
                self.logs.refer(&mut variable, group.lanes[who.local as usize].log, me);
                if !known {
                    self.variables.insert(key, variable);
                }
            }
        }
    }

    /// Whether a work-group passed a control barrier, whatever it orders, after a time.
    pub(crate) fn has_barrier_since(&self, group: u32, time: u32) -> bool {
        self.groups.get(group as usize).and_then(Option::as_deref).is_some_and(|group| group.control > time)
    }

    /// Whether accesses that invocation `earlier` made at `time` are ordered before those that `later` makes now.
    pub(crate) fn is_ordered(&self, earlier: u32, time: u32, later: Invocation) -> bool {
        let from = self.invocation(earlier);
        let Some(Some(group)) = self.groups.get(later.group as usize) else { return false };
        let Some(to_lane) = group.lanes.get(later.local as usize) else { return false };
        let subgroup = group.subgroups.get(later.subgroup as usize).copied().unwrap_or_default();
        if (earlier ^ self.number(later)) >> self.group_shift == 0 {
            let Some(lane) = group.lanes.get(from.local as usize) else { return false };
            let mut ordered = group.fences[1].max(lane.released);
            if from.subgroup == later.subgroup {
                ordered = ordered.max(subgroup.0).max(lane.fences[0].min(to_lane.fences[0]));
            }
            if time < ordered {
                return true;
            }
        }
        self.logs.contains([group.log, subgroup.1, to_lane.log], earlier, time, self.group_shift)
    }
}
