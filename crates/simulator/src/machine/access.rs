//! Loads, stores and atomics: from a location in the code to bytes of a buffer, with checks of bounds and alignment.

use super::{SimulatedDevice, gang_run::GangRun};
use crate::alu;
use crate::code::{AtomicOp, BAD_OFFSET, Location, MemoryPlace, Pc, Reg, RegisterOp};
use crate::fault::FaultKind;
use crate::findings::{AccessKind, Invocation, MAX_STORES, Object, Subject, UndefinedStore};
use crate::lanes::Active;
use crate::memory::Loaded;

/// Bits of an address that are an offset; those above are the number of a buffer from 1.
const OFFSET_BITS: u32 = 40;
/// Number, in addresses, of shared memory, for variable pointers.
const SHARED: u64 = 0xff_ffff;
/// Bytes of a texel.
const TEXEL: u64 = 16;

/// Returns the device address of a buffer's first byte.
pub(crate) fn address(buffer: usize) -> u64 {
    (buffer as u64 + 1) << OFFSET_BITS
}

/// Range of a buffer that a descriptor binds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) buffer: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Resolved location: memory that is accessible, and an offset in it that may lie beyond its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessTarget {
    object: Object,
    /// First byte of the accessible range.
    begin: u64,
    length: u64,
    /// Offset from `begin`.
    offset: u64,
}

impl AccessTarget {
    pub(super) fn at(self, offset: u64) -> Self {
        Self { offset: self.offset.wrapping_add(offset), ..self }
    }
}

impl SimulatedDevice<'_> {
    /// Returns the range that a place's descriptor binds for a lane.
    pub(super) fn bound_at(&self, run: &GangRun, place: MemoryPlace, lane: usize) -> Option<Bound> {
        let MemoryPlace::Slot { slot, element, .. } = place else { return None };
        let element = element.map_or(0, |element| run.registers.get(element)[lane]);
        *self.launch.bindings.get(slot as usize)?.get(usize::try_from(element).ok()?)?
    }

    pub(super) fn texel_buffer(&self, slot: u32) -> Option<Bound> {
        *self.launch.bindings.get(slot as usize)?.first()?
    }

    /// Resolves a location for one lane; `None` if it names no memory at all.
    #[inline]
    fn target(&self, run: &GangRun, at: &Location, lane: usize) -> Option<AccessTarget> {
        let offset = at.offset.map_or(0, |register| run.registers.get(register)[lane]).wrapping_add(at.constant);
        match at.place {
            MemoryPlace::Shared => {
                Some(AccessTarget { object: Object::Shared, begin: 0, length: self.kernel.code.shared_bytes, offset })
            }
            MemoryPlace::Slot { .. } => {
                let Bound { buffer, offset: begin, length } = self.bound_at(run, at.place, lane)?;
                Some(AccessTarget { object: Object::Buffer(buffer), begin, length, offset })
            }
            MemoryPlace::Address => {
                let (number, offset) = (offset >> OFFSET_BITS, offset & ((1 << OFFSET_BITS) - 1));
                if number == SHARED {
                    let length = self.kernel.code.shared_bytes;
                    return Some(AccessTarget { object: Object::Shared, begin: 0, length, offset });
                }
                let buffer = u32::try_from(number.checked_sub(1)?).ok()?;
                let length = self.launch.buffer_bytes.get(buffer as usize).copied()?;
                Some(AccessTarget { object: Object::Buffer(buffer), begin: 0, length, offset })
            }
            MemoryPlace::Push => None,
        }
    }

    /// Resolves a location for all active lanes; entries of other lanes are `None`.
    pub(super) fn places(&self, run: &GangRun, at: &Location, active: &Active) -> Vec<Option<AccessTarget>> {
        let mut places = vec![None; run.gang.lanes as usize];
        active.lanes().for_each(|lane| places[lane] = self.target(run, at, lane));
        places
    }

    /// Stores a location's address, for pointers that are values.
    pub(super) fn address_of(&mut self, run: &mut GangRun, to: Reg, at: &Location, active: &Active) {
        for lane in active.lanes() {
            let address = match self.target(run, at, lane) {
                Some(AccessTarget { object: Object::Shared, offset, .. }) => SHARED << OFFSET_BITS | offset,
                Some(AccessTarget { object: Object::Buffer(buffer), begin, offset, .. }) => {
                    address(buffer as usize).wrapping_add(begin).wrapping_add(offset)
                }
                None => at.offset.map_or(0, |register| run.registers.get(register)[lane]).wrapping_add(at.constant),
            };
            run.registers.set(to, lane, address);
        }
        match at.offset {
            Some(offset) => run.registers.spread(to, [offset], active),
            None => run.registers.define(to, active),
        }
    }

    /// Checks the address of an access; reports what is wrong with it.
    #[inline]
    fn check_address(&mut self, run: &GangRun, at: &Location, pc: Pc, lane: usize) -> bool {
        let Some(register) = at.offset else { return true };
        let value = run.registers.get(register)[lane];
        let is_misaligned = value.wrapping_add(at.constant) & (u64::from(at.alignment) - 1) != 0;
        if value != BAD_OFFSET && (at.place != MemoryPlace::Address || !is_misaligned && value >> OFFSET_BITS != 0) {
            return true;
        }
        self.report_address(run, at, register, pc, lane)
    }

    /// Reports what is wrong with an address. Returns whether the access is possible nevertheless.
    #[cold]
    fn report_address(&mut self, run: &GangRun, at: &Location, register: Reg, pc: Pc, lane: usize) -> bool {
        let value = run.registers.get(register)[lane];
        if value == BAD_OFFSET {
            self.report_index(run, register, pc, lane);
            return false;
        }
        let address = value.wrapping_add(at.constant);
        if at.place == MemoryPlace::Address && address & (u64::from(at.alignment) - 1) != 0 {
            let alignment = at.alignment;
            self.add_text(FaultKind::OutOfBounds, pc, run.gang.invocation(lane), || {
                format!("accesses an address that is no multiple of {alignment} bytes")
            });
        }
        if at.place == MemoryPlace::Address && address >> OFFSET_BITS == 0 {
            self.add_text(FaultKind::OutOfBounds, pc, run.gang.invocation(lane), || {
                format!("accesses address {address:#x}, which is in no buffer")
            });
            return false;
        }
        true
    }

    /// Returns the offset within its object of an access, or reports that it is out of bounds.
    #[inline]
    fn in_bounds(
        &mut self,
        target: Option<AccessTarget>,
        bytes: u32,
        access: AccessKind,
        who: Invocation,
        pc: Pc,
    ) -> Option<(Object, u64)> {
        let kind = FaultKind::OutOfBounds;
        let Some(AccessTarget { object, begin, length, offset }) = target else {
            self.add_text(kind, pc, who, || "accesses memory that nothing binds".into());
            return None;
        };
        let end = offset.checked_add(u64::from(bytes));
        if end.is_some_and(|end| end <= length) && offset & (u64::from(bytes.min(self.kernel.granule)) - 1) == 0 {
            return Some((object, begin + offset));
        }
        self.memory.findings.report(kind, pc, None, who, || Subject::Memory {
            object,
            offset: begin.wrapping_add(offset),
            bytes,
            access,
            other: None,
            passed_barrier: false,
        });
        None
    }

    #[inline]
    pub(super) fn load_at(&mut self, target: Option<AccessTarget>, bytes: u32, who: Invocation, pc: Pc) -> Loaded {
        // Only reads may go beyond the data.
        let target = target.map(|target| match target.object {
            Object::Buffer(_) => AccessTarget { length: target.length + self.launch.readable_behind, ..target },
            Object::Shared => target,
        });
        match self.in_bounds(target, bytes, AccessKind::Read, who, pc) {
            Some((object, offset)) => self.memory.load(who, object, offset, bytes, pc),
            // The fault is reported here; its consequences are not.
            None => Loaded { bits: 0, undefined: false },
        }
    }

    /// Returns the instruction that made the undefined value in memory, if one stored it.
    pub(super) fn origin(&self, target: Option<AccessTarget>) -> Option<Pc> {
        let AccessTarget { object, begin, offset, .. } = target?;
        self.undefined_stores.get(&(object, begin.wrapping_add(offset))).map(|store| store.origin)
    }

    /// Stores a value; `origin` is where it comes from if it is undefined.
    #[inline]
    pub(super) fn store_at(
        &mut self,
        target: Option<AccessTarget>,
        bytes: u32,
        bits: u64,
        origin: Option<Pc>,
        who: Invocation,
        pc: Pc,
    ) {
        let Some((object, offset)) = self.in_bounds(target, bytes, AccessKind::Write, who, pc) else { return };
        self.memory.store(who, object, offset, bytes, bits, origin.is_some(), pc);
        if let Some(origin) = origin {
            self.note_undefined(object, offset, UndefinedStore { pc, origin, who });
        }
    }

    /// Remembers that an undefined value was stored.
    fn note_undefined(&mut self, object: Object, offset: u64, store: UndefinedStore) {
        if self.undefined_stores.len() < MAX_STORES {
            self.undefined_stores.insert((object, offset), store);
        }
    }

    pub(super) fn load(&mut self, run: &mut GangRun, pc: Pc, instruction: &RegisterOp, active: &Active) {
        let RegisterOp::Load { to, at, scalar } = instruction else { return };
        if let Some(offset) = at.offset {
            self.report_undefined(run, offset, pc, active, "has an address made of");
        }
        let bytes = scalar.bytes();
        let mut values = run.registers.take(*to);
        run.registers.define(*to, active);
        let mut uniform = None;
        if let (MemoryPlace::Push, None, Some(lane)) = (at.place, at.offset, active.lanes().next()) {
            uniform = Some(self.load_push(run, at, bytes, run.gang.invocation(lane), pc, lane));
        }
        for lane in active.lanes() {
            let who = run.gang.invocation(lane);
            let loaded = if let Some(uniform) = uniform {
                uniform
            } else if !self.check_address(run, at, pc, lane) {
                Loaded { bits: 0, undefined: false }
            } else if at.place == MemoryPlace::Push {
                self.load_push(run, at, bytes, who, pc, lane)
            } else {
                let target = self.target(run, at, lane);
                self.load_at(target, bytes, who, pc)
            };
            values[lane] = if bytes == 4 && *scalar == crate::kernel::interface::Scalar::Bool {
                u64::from(loaded.bits != 0)
            } else {
                loaded.bits
            };
            if loaded.undefined {
                run.registers.mark(*to, lane, self.origin(self.target(run, at, lane)).unwrap_or(pc));
            }
        }
        run.registers.put(*to, values);
    }

    fn load_push(&mut self, run: &GangRun, at: &Location, bytes: u32, who: Invocation, pc: Pc, lane: usize) -> Loaded {
        let offset = at.offset.map_or(0, |register| run.registers.get(register)[lane]).wrapping_add(at.constant);
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let range = self.launch.push.get(begin..begin.saturating_add(bytes as usize));
        let Some(range) = range else {
            let size = self.launch.push.len();
            self.add_text(FaultKind::OutOfBounds, pc, who, || {
                format!("reads byte {offset} of the push constants, of which {size} are given")
            });
            return Loaded { bits: 0, undefined: false };
        };
        let mut word = [0; 8];
        word[..range.len()].copy_from_slice(range);
        Loaded { bits: u64::from_le_bytes(word), undefined: false }
    }

    pub(super) fn store(&mut self, run: &mut GangRun, pc: Pc, instruction: &RegisterOp, active: &Active) {
        let RegisterOp::Store { from, at, scalar } = instruction else { return };
        if let Some(offset) = at.offset {
            self.report_undefined(run, offset, pc, active, "has an address made of");
        }
        let bytes = scalar.bytes();
        for lane in active.lanes() {
            if !self.check_address(run, at, pc, lane) {
                continue;
            }
            let target = self.target(run, at, lane);
            let origin = run.registers.origin(*from, lane);
            let bits = run.registers.get(*from)[lane];
            self.store_at(target, bytes, bits, origin, run.gang.invocation(lane), pc);
        }
    }

    /// Reads a component of a texel. The last texel may reach beyond the buffer's data; what lies there is undefined.
    pub(super) fn fetch(&mut self, run: &mut GangRun, pc: Pc, instruction: &RegisterOp, active: &Active) {
        let RegisterOp::Fetch { to, slot, index, component } = instruction else { return };
        self.report_undefined(run, *index, pc, active, "has an address made of");
        run.registers.define(*to, active);
        let bound = self.texel_buffer(*slot);
        for lane in active.lanes() {
            let who = run.gang.invocation(lane);
            let texel = run.registers.get(*index)[lane] & u64::from(u32::MAX);
            let Some(Bound { buffer, offset: begin, length }) = bound else { continue };
            let offset = texel * TEXEL + 4 * u64::from(*component);
            let loaded = if offset + 4 > length && offset + 4 <= length.next_multiple_of(TEXEL) {
                Loaded { bits: 0, undefined: true }
            } else {
                let target = AccessTarget { object: Object::Buffer(buffer), begin, length, offset };
                self.load_at(Some(target), 4, who, pc)
            };
            run.registers.set(*to, lane, loaded.bits);
            if loaded.undefined {
                run.registers.mark(*to, lane, pc);
            }
        }
    }

    pub(super) fn atomic(&mut self, run: &mut GangRun, pc: Pc, instruction: &RegisterOp, active: &Active) {
        let RegisterOp::Atomic { op, to, at, scalar, value, comparator, semantics } = instruction else { return };
        if let Some(offset) = at.offset {
            self.report_undefined(run, offset, pc, active, "has an address made of");
        }
        run.registers.define(*to, active);
        run.last_atomic = Some(pc);
        run.atomics = run.atomics.saturating_add(1);
        let bytes = scalar.bytes();
        for lane in active.lanes() {
            let who = run.gang.invocation(lane);
            if !self.check_address(run, at, pc, lane) {
                continue;
            }
            let target = self.target(run, at, lane);
            let Some((object, offset)) = self.in_bounds(target, bytes, AccessKind::Atomic, who, pc) else { continue };
            let operand = run.registers.get(*value)[lane];
            let compared = run.registers.get(*comparator)[lane];
            let update = |old| alu::update(*op, *scalar, old, operand, compared);
            let loaded = self.memory.atomic(who, object, offset, bytes, *semantics, pc, update);
            let source = |register| run.registers.origin(register, lane);
            let operand = source(*value).or_else(|| source(*comparator).filter(|_| *op == AtomicOp::CompareExchange));
            // The value before, if it was undefined, and where it came from.
            let before = loaded.undefined.then(|| self.origin(target).unwrap_or(pc));
            let origin = match (op, operand) {
                (AtomicOp::Load, _) => None,
                (AtomicOp::Store | AtomicOp::Exchange, origin) => {
                    self.memory.set_undefined(who, object, offset, bytes, origin.is_some());
                    origin
                }
                (_, Some(origin)) => {
                    self.memory.set_undefined(who, object, offset, bytes, true);
                    Some(origin)
                }
                (_, None) => before,
            };
            if let Some(origin) = origin {
                self.note_undefined(object, offset, UndefinedStore { pc, origin, who });
            }
            run.registers.set(*to, lane, loaded.bits);
            if let Some(origin) = before {
                run.registers.mark(*to, lane, origin);
            }
        }
    }
}
