//! Memory of a dispatch: the bytes of all buffers and of shared memory, with shadow state that finds races and bytes that
//! nobody wrote.
//!
//! Each *cell* (the smallest scalar that the kernel accesses) remembers its last write and two reads since: the last one,
//! and the latest of the most distant ones that are concurrent with it (another group before another sub-group before
//! another lane), so that a write by anybody meets a reader that is not itself. [`SyncClock`] decides whether two accesses are
//! ordered, not the order in which the simulator happened to run them. Atomics have stamps of their own, so that they hide
//! no plain access.
//!
//! A store of the bits that a cell has already counts as a read: several invocations may store the same value, because
//! every device then answers the same, but a store of other bits at the same time is a race.
//!
//! Missed races: with a third concurrent reader, if the later write is ordered after the two that are kept; with a write
//! that another racing write has replaced (that pair is reported); and those that this run's data did not lead to.

// These small functions are the hot path, and the compiler does not inline them across its units by itself.
#![allow(clippy::inline_always)]
// The interface names the invocation, the range, the value and the instruction of each access.
#![allow(clippy::too_many_arguments)]

use crate::clock::{CLASSES, Horizon, SyncClock, rank};
use crate::code::{Pc, Semantics};
use crate::fault::FaultKind;
use crate::findings::{AccessKind, Findings, FoundFault, Invocation, Object, Subject};

/// Value that a load returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loaded {
    /// Zero-extended little-endian value.
    pub(crate) bits: u64,
    /// Whether any byte was never written or was written with an undefined value.
    pub(crate) undefined: bool,
}

const OUT_OF_RANGE: Loaded = Loaded { bits: 0, undefined: true };

/// Contents of shared memory that nobody wrote.
const POISON: u8 = 0xe5;

/// Access to a cell; time 0 is none.
#[derive(Clone, Copy, Default)]
struct Stamp {
    /// Number of the invocation, see [`SyncClock::number`].
    who: u32,
    time: u32,
    /// Instruction, with [`SILENT`] for a store that changed nothing and the rank of an atomic's scope from [`RANK`] on.
    pc: u32,
}

const SILENT: u32 = 1 << 29;
const RANK: u32 = 30;
const PC: u32 = SILENT - 1;

/// Concurrent accesses of one kind to a cell.
#[derive(Clone, Copy, Default)]
struct Accesses {
    last: Stamp,
    /// Access that was concurrent with the last one.
    far: Stamp,
}

/// Plain accesses to a cell.
#[derive(Clone, Copy, Default)]
struct ShadowCell {
    write: Stamp,
    reads: Accesses,
}

/// Atomic accesses to a cell.
#[derive(Clone, Copy, Default)]
struct AtomicCell {
    writes: Accesses,
    reads: Accesses,
}

/// Bytes of a buffer or of one group's shared memory, with their shadow.
#[derive(Default)]
struct ShadowedMemory {
    bytes: Vec<u8>,
    /// One bit for each byte.
    undefined: Vec<u8>,
    /// Shadow of each cell; empty until the first access.
    cells: Vec<ShadowCell>,
    /// Shadow of each cell; empty until the first atomic.
    atomics: Vec<AtomicCell>,
}

impl ShadowedMemory {
    #[inline(always)]
    fn read(&self, offset: u64, bytes: u32) -> Option<u64> {
        let rest = self.bytes.get(usize::try_from(offset).ok()?..)?;
        Some(match bytes {
            4 => u32::from_le_bytes(*rest.first_chunk()?).into(),
            8 => u64::from_le_bytes(*rest.first_chunk()?),
            2 => u16::from_le_bytes(*rest.first_chunk()?).into(),
            1 => (*rest.first()?).into(),
            _ => return None,
        })
    }

    /// Writes bits to a range that [`Self::read`] has checked.
    #[inline]
    fn write(&mut self, offset: u64, bytes: u32, bits: u64) {
        let rest = &mut self.bytes[offset as usize..];
        match bytes {
            4 => rest[..4].copy_from_slice(&(bits as u32).to_le_bytes()),
            8 => rest[..8].copy_from_slice(&bits.to_le_bytes()),
            2 => rest[..2].copy_from_slice(&(bits as u16).to_le_bytes()),
            _ => rest[0] = bits as u8,
        }
    }

    /// Returns the first byte of `undefined` that has bits of a range, and the mask of its bits in two bytes.
    #[inline(always)]
    fn mask(offset: u64, bytes: u32) -> (usize, u32) {
        ((offset / 8) as usize, (0xff_u32.wrapping_shr(8_u32.wrapping_sub(bytes))).wrapping_shl(offset as u32 % 8))
    }

    #[inline(always)]
    fn is_undefined(&self, offset: u64, bytes: u32) -> bool {
        let (index, mask) = Self::mask(offset, bytes);
        let high = || u32::from(self.undefined.get(index + 1).copied().unwrap_or(0)) & mask >> 8 != 0;
        u32::from(self.undefined[index]) & mask != 0 || mask > 0xff && high()
    }

    #[inline]
    fn set_undefined(&mut self, offset: u64, bytes: u32, undefined: bool) {
        let (index, mask) = Self::mask(offset, bytes);
        for (byte, mask) in self.undefined[index..].iter_mut().zip([mask as u8, (mask >> 8) as u8]) {
            *byte = if undefined { *byte | mask } else { *byte & !mask };
        }
    }

    /// Returns the cells of an access, and those of atomics if there were any.
    #[inline(always)]
    fn cells(&mut self, offset: u64, bytes: u32, granule_shift: u32) -> (&mut [ShadowCell], &mut [AtomicCell]) {
        let first = offset.wrapping_shr(granule_shift) as usize;
        let end = first + (bytes.wrapping_shr(granule_shift) as usize).max(1);
        if end > self.cells.len() {
            self.cells.resize((self.bytes.len() >> granule_shift) + 1, ShadowCell::default());
        }
        (&mut self.cells[first..end], self.atomics.get_mut(first..end).unwrap_or_default())
    }
}

/// Returns the bytes of shadow state for each cell.
pub(crate) fn shadow_bytes(has_atomics: bool) -> u64 {
    (size_of::<ShadowCell>() + if has_atomics { size_of::<AtomicCell>() } else { 0 }) as u64
}

/// Access that is being checked. The rare functions take a copy, so that the compiler keeps it in CPU registers.
#[derive(Clone, Copy)]
struct CellAccess<'a> {
    clock: &'a SyncClock,
    horizon: Horizon,
    stamp: Stamp,
    who: Invocation,
    object: Object,
    offset: u64,
    bytes: u32,
    kind: AccessKind,
}

impl<'a> CellAccess<'a> {
    #[inline(always)]
    fn new(
        clock: &'a SyncClock,
        who: Invocation,
        object: Object,
        range: (u64, u32),
        kind: AccessKind,
        pc: u32,
    ) -> Self {
        let horizon = clock.horizon(who.group);
        let stamp = Stamp { who: clock.number(who), time: horizon.now, pc };
        Self { clock, horizon, stamp, who, object, offset: range.0, bytes: range.1, kind }
    }

    /// Whether barriers of the group, or the invocation's program order, order an access before this one.
    #[inline(always)]
    fn is_ordered(&self, who: u32, time: u32) -> bool {
        let Horizon { all, group, group_mask, .. } = self.horizon;
        time < all || who == self.stamp.who || time < group && (who ^ self.stamp.who) & group_mask == 0
    }

    #[inline(always)]
    fn check(&self, findings: &mut Findings, stamp: Stamp, kind: AccessKind) {
        if !self.is_ordered(stamp.who, stamp.time) {
            self.judge(findings, stamp, kind);
        }
    }

    #[inline(always)]
    fn check_all(&self, findings: &mut Findings, accesses: &Accesses, kind: AccessKind) {
        self.check(findings, accesses.last, kind);
        self.check(findings, accesses.far, kind);
    }

    /// Adds a finding unless synchronization orders the accesses.
    #[cold]
    #[inline(never)]
    fn judge(self, findings: &mut Findings, stamp: Stamp, kind: AccessKind) {
        if kind == AccessKind::Atomic && self.kind == AccessKind::Atomic {
            let scope = (stamp.pc >> RANK).min(self.stamp.pc >> RANK);
            if self.distance(stamp.who) <= scope {
                return;
            }
        }
        if self.clock.is_ordered(stamp.who, stamp.time, self.who) {
            return;
        }
        let (pc, other) = (self.stamp.pc & PC, stamp.pc & PC);
        let fault = match self.object {
            _ if self.distance(stamp.who) == 0 && pc != other => FaultKind::Lockstep,
            Object::Shared => FaultKind::RaceShared,
            Object::Buffer(_) => FaultKind::RaceStorage,
        };
        let kind = if kind == AccessKind::Read && stamp.pc & SILENT != 0 { AccessKind::Write } else { kind };
        let Self { clock, who, object, offset, bytes, kind: access, .. } = self;
        let other_who = Some(clock.invocation(stamp.who));
        let passed_barrier = self.distance(stamp.who) < 2 && clock.has_barrier_since(who.group, stamp.time);
        findings.add(fault, pc, Some(other), || {
            let subject = Subject::Memory { object, offset, bytes, access, other: Some(kind), passed_barrier };
            FoundFault { kind: fault, pc, other: Some(other), who, other_who, subject }
        });
    }

    /// Returns 0 for an invocation of the same sub-group, 1 of the same group, 2 of another group.
    #[inline(always)]
    fn distance(&self, who: u32) -> u32 {
        let different = who ^ self.stamp.who;
        u32::from(different >> self.clock.subgroup_shift != 0) + u32::from(different >> self.clock.group_shift != 0)
    }

    /// Adds this access to others of its kind.
    #[inline(always)]
    fn add_to(&self, accesses: &mut Accesses) {
        let last = accesses.last;
        if !self.is_ordered(last.who, last.time) {
            let far = accesses.far;
            if self.is_ordered(far.who, far.time) || self.distance(last.who) >= self.distance(far.who) {
                accesses.far = last;
            }
        }
        accesses.last = self.stamp;
    }
}

/// Bytes of buffers and shared memory, with their shadow.
pub(crate) struct Memory {
    pub(crate) findings: Findings,
    /// Number of stores and atomics that changed a value: whether invocations that wait have something to wait for.
    pub(crate) changes: u64,
    buffers: Vec<ShadowedMemory>,
    /// Shared memory of each group that runs.
    shared: Vec<Option<ShadowedMemory>>,
    /// Shared memory of groups that ended, for others.
    spare: Vec<ShadowedMemory>,
    shared_bytes: usize,
    granule_shift: u32,
    /// Clocks of buffers and of shared memory.
    clocks: [SyncClock; 2],
}

impl Memory {
    /// Creates buffers from their contents and whether these are defined.
    pub(crate) fn new(buffers: Vec<(Vec<u8>, bool)>) -> Self {
        let buffers = buffers.into_iter().map(|(bytes, defined)| {
            let undefined = vec![if defined { 0 } else { u8::MAX }; bytes.len().div_ceil(8)];
            ShadowedMemory { bytes, undefined, ..ShadowedMemory::default() }
        });
        Self {
            findings: Findings::default(),
            changes: 0,
            buffers: buffers.collect(),
            shared: Vec::new(),
            spare: Vec::new(),
            shared_bytes: 0,
            granule_shift: 2,
            clocks: CLASSES.map(SyncClock::new),
        }
    }

    pub(crate) fn bytes(&self, buffer: u32) -> &[u8] {
        self.buffers.get(buffer as usize).map_or(&[], |region| &region.bytes)
    }

    /// Returns the first byte of a buffer that was not written with a defined value.
    pub(crate) fn first_undefined(&self, buffer: u32) -> Option<usize> {
        let undefined = &self.buffers.get(buffer as usize)?.undefined;
        let at = undefined.iter().position(|bits| *bits != 0)?;
        Some(8 * at + undefined[at].trailing_zeros() as usize)
    }

    /// Whether a byte was written with a defined value.
    pub(crate) fn is_defined(&self, buffer: u32, byte: u64) -> bool {
        let region = self.buffers.get(buffer as usize);
        region.is_some_and(|region| byte < region.bytes.len() as u64 && !region.is_undefined(byte, 1))
    }

    /// Fills a buffer with a word, between dispatches.
    pub(crate) fn fill(&mut self, buffer: u32, word: u32) {
        if let Some(region) = self.buffers.get_mut(buffer as usize) {
            for chunk in region.bytes.chunks_mut(4) {
                chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
            }
            region.undefined.fill(0);
        }
    }

    /// Copies the common length of two buffers, between dispatches.
    pub(crate) fn copy(&mut self, from: u32, to: u32) {
        let Ok([from, to]) = self.buffers.get_disjoint_mut([from as usize, to as usize]) else { return };
        let length = from.bytes.len().min(to.bytes.len());
        to.bytes[..length].copy_from_slice(&from.bytes[..length]);
        to.undefined[..length / 8].copy_from_slice(&from.undefined[..length / 8]);
        for byte in (length / 8 * 8) as u64..length as u64 {
            to.set_undefined(byte, 1, from.is_undefined(byte, 1));
        }
    }

    /// Writes bytes of the host, between dispatches.
    pub(crate) fn replace(&mut self, buffer: u32, at: u64, bytes: &[u8]) {
        let Some(region) = self.buffers.get_mut(buffer as usize) else { return };
        for (offset, byte) in (at..).zip(bytes) {
            if let Some(slot) = region.bytes.get_mut(offset as usize) {
                *slot = *byte;
                region.set_undefined(offset, 1, false);
            }
        }
    }

    /// Begins a dispatch, ordered after all earlier ones. `granule` is the size in bytes of the smallest scalar that the
    /// kernel accesses: 1, 2 or 4.
    pub(crate) fn begin_dispatch(
        &mut self,
        groups: u32,
        invocations: u32,
        subgroup_size: u32,
        shared_bytes: u64,
        granule: u32,
    ) {
        self.shared.clear();
        self.shared.resize_with(groups as usize, || None);
        self.spare.clear();
        self.shared_bytes = shared_bytes as usize;
        self.granule_shift = granule.clamp(1, 4).trailing_zeros();
        if self.clocks.iter().any(SyncClock::is_exhausted) {
            self.clocks = CLASSES.map(SyncClock::new);
            for region in &mut self.buffers {
                region.cells.clear();
            }
        }
        for region in &mut self.buffers {
            region.atomics.clear();
        }
        self.clocks.iter_mut().for_each(|clock| clock.begin_dispatch(groups, invocations, subgroup_size));
    }

    /// Begins a group, with shared memory that nobody wrote.
    pub(crate) fn begin_group(&mut self, group: u32) {
        self.clocks.iter_mut().for_each(|clock| clock.begin_group(group));
        let Some(slot) = self.shared.get_mut(group as usize) else { return };
        let mut region = self.spare.pop().unwrap_or_default();
        region.bytes.clear();
        region.bytes.resize(self.shared_bytes, POISON);
        region.undefined.clear();
        region.undefined.resize(self.shared_bytes.div_ceil(8), u8::MAX);
        *slot = Some(region);
    }

    /// Whether synchronization takes as much memory as it may.
    pub(crate) fn is_full(&self) -> bool {
        self.clocks.iter().any(SyncClock::is_full)
    }

    /// Returns the work, since the last call, of searches for what orders accesses.
    pub(crate) fn take_searched(&self) -> u64 {
        self.clocks.iter().map(SyncClock::take_searched).sum()
    }

    pub(crate) fn end_group(&mut self, group: u32) {
        self.clocks.iter_mut().for_each(|clock| clock.end_group(group));
        self.spare.extend(self.shared.get_mut(group as usize).and_then(Option::take));
    }

    /// Returns the region of an object, its clock and the findings.
    #[inline(always)]
    fn parts(&mut self, who: Invocation, object: Object) -> Option<(&mut ShadowedMemory, &SyncClock, &mut Findings)> {
        let region = match object {
            Object::Shared => self.shared.get_mut(who.group as usize)?.as_mut()?,
            Object::Buffer(buffer) => self.buffers.get_mut(buffer as usize)?,
        };
        Some((region, &self.clocks[usize::from(object == Object::Shared)], &mut self.findings))
    }

    #[inline]
    pub(crate) fn load(&mut self, who: Invocation, object: Object, offset: u64, bytes: u32, pc: Pc) -> Loaded {
        let granule_shift = self.granule_shift;
        let Some((region, clock, findings)) = self.parts(who, object) else { return OUT_OF_RANGE };
        let access = CellAccess::new(clock, who, object, (offset, bytes), AccessKind::Read, pc & PC);
        let Some(bits) = region.read(offset, bytes) else { return OUT_OF_RANGE };
        let undefined = region.is_undefined(offset, bytes);
        let (cells, atomics) = region.cells(offset, bytes, granule_shift);
        for cell in cells {
            access.check(findings, cell.write, AccessKind::Write);
            access.add_to(&mut cell.reads);
        }
        for cell in atomics {
            access.check_all(findings, &cell.writes, AccessKind::Atomic);
        }
        Loaded { bits, undefined }
    }

    #[inline]
    pub(crate) fn store(
        &mut self,
        who: Invocation,
        object: Object,
        offset: u64,
        bytes: u32,
        bits: u64,
        undefined: bool,
        pc: Pc,
    ) {
        let granule_shift = self.granule_shift;
        let Some((region, clock, findings)) = self.parts(who, object) else { return };
        let access = CellAccess::new(clock, who, object, (offset, bytes), AccessKind::Write, pc & PC);
        let Some(old) = region.read(offset, bytes) else { return };
        let was_undefined = region.is_undefined(offset, bytes);
        if undefined || was_undefined {
            region.set_undefined(offset, bytes, undefined);
        }
        region.write(offset, bytes, bits);
        let is_change = old != bits;
        let mut changed = match (undefined, was_undefined) {
            (false, false) => old ^ bits,
            // Whichever store comes last, the value is undefined, and reported as that if it matters.
            (true, true) => 0,
            _ => u64::MAX,
        };
        let cell_bits = 8 * (bytes.min(1 << granule_shift));
        let mask = u64::MAX >> (64 - cell_bits);
        let (cells, atomics) = region.cells(offset, bytes, granule_shift);
        let mut atomics = atomics.iter_mut();
        for cell in cells {
            let silent = changed & mask == 0;
            if silent {
                access.add_to(&mut cell.reads);
                cell.reads.last.pc |= SILENT;
            } else {
                access.check(findings, cell.write, AccessKind::Write);
                access.check_all(findings, &cell.reads, AccessKind::Read);
                *cell = ShadowCell { write: access.stamp, ..ShadowCell::default() };
            }
            if let Some(atomic) = atomics.next() {
                access.check_all(findings, &atomic.writes, AccessKind::Atomic);
                if !silent {
                    access.check_all(findings, &atomic.reads, AccessKind::Atomic);
                    *atomic = AtomicCell::default();
                }
            }
            changed = changed.checked_shr(cell_bits).unwrap_or(0);
        }
        self.changes += u64::from(is_change);
    }

    /// Marks bytes as defined or not after an atomic that ignores the old value: a store or exchange.
    pub(crate) fn set_undefined(&mut self, who: Invocation, object: Object, offset: u64, bytes: u32, undefined: bool) {
        let Some((region, ..)) = self.parts(who, object) else { return };
        if region.read(offset, bytes).is_some() {
            region.set_undefined(offset, bytes, undefined);
        }
    }

    /// Executes an atomic; `update` returns the new value of the old one, or `None` to write nothing. The new value is as
    /// defined as the old one was.
    pub(crate) fn atomic(
        &mut self,
        who: Invocation,
        object: Object,
        offset: u64,
        bytes: u32,
        semantics: Semantics,
        pc: Pc,
        update: impl FnOnce(u64) -> Option<u64>,
    ) -> Loaded {
        let granule_shift = self.granule_shift;
        let rank = rank(semantics.scope);
        let pc = pc & PC | (rank.unwrap_or(0) as u32) << RANK;
        let Some((region, clock, findings)) = self.parts(who, object) else { return OUT_OF_RANGE };
        let access = CellAccess::new(clock, who, object, (offset, bytes), AccessKind::Atomic, pc);
        let Some(bits) = region.read(offset, bytes) else { return OUT_OF_RANGE };
        let undefined = region.is_undefined(offset, bytes);
        let new = update(bits);
        if let Some(new) = new {
            region.write(offset, bytes, new);
        }
        if region.atomics.len() <= region.bytes.len() >> granule_shift {
            region.atomics.resize((region.bytes.len() >> granule_shift) + 1, AtomicCell::default());
        }
        let (cells, atomics) = region.cells(offset, bytes, granule_shift);
        for (cell, atomic) in cells.iter_mut().zip(atomics) {
            access.check(findings, cell.write, AccessKind::Write);
            access.check_all(findings, &atomic.writes, AccessKind::Atomic);
            if new.is_some() {
                access.check_all(findings, &cell.reads, AccessKind::Read);
                access.check_all(findings, &atomic.reads, AccessKind::Atomic);
                access.add_to(&mut atomic.writes);
            } else {
                access.add_to(&mut atomic.reads);
            }
        }
        self.changes += u64::from(new.is_some_and(|new| new != bits));
        self.clocks.iter_mut().for_each(|clock| clock.atomic(who, object, offset, semantics, new.is_some()));
        Loaded { bits, undefined }
    }

    /// Executes a memory barrier of one invocation.
    pub(crate) fn memory_barrier(&mut self, who: Invocation, semantics: Semantics) {
        self.clocks.iter_mut().for_each(|clock| clock.memory_barrier(who, semantics));
    }

    /// Executes a control barrier: all invocations of the group, or of one sub-group, have arrived and leave.
    pub(crate) fn control_barrier(&mut self, group: u32, subgroup: Option<u32>, semantics: Semantics) {
        self.clocks.iter_mut().for_each(|clock| clock.control_barrier(group, subgroup, semantics));
    }
}

#[cfg(test)]
mod tests;
