//! Registers of a gang, with a mark for each lane whose value is undefined.

use crate::code::{Pc, Reg};
use crate::lanes::{Active, LaneSet};

/// Lanes whose value in a register is undefined.
#[derive(Clone)]
pub(crate) struct Undefined {
    pub(crate) lanes: LaneSet,
    /// Instruction that made the value undefined, for the report; of several, the last.
    pub(crate) origin: Pc,
}

/// Registers of a gang.
pub(crate) struct Registers {
    lanes: usize,
    values: Vec<Vec<u64>>,
    undefined: Vec<Option<Box<Undefined>>>,
}

impl Registers {
    /// Creates the registers that are `used`; others have no values.
    pub(crate) fn new(used: &[bool], lanes: usize) -> Self {
        let values = used.iter().map(|used| if *used { vec![0; lanes] } else { vec![] });
        Self { lanes, values: values.collect(), undefined: vec![None; used.len()] }
    }

    /// Returns the values of all lanes.
    #[inline]
    pub(crate) fn get(&self, register: Reg) -> &[u64] {
        &self.values[register as usize]
    }

    /// Moves a register's values out, so that it can be written while others are read; [`Self::put`] returns them.
    #[inline]
    pub(crate) fn take(&mut self, register: Reg) -> Vec<u64> {
        std::mem::take(&mut self.values[register as usize])
    }

    #[inline]
    pub(crate) fn put(&mut self, register: Reg, values: Vec<u64>) {
        debug_assert_eq!(values.len(), self.lanes);
        self.values[register as usize] = values;
    }

    #[inline]
    pub(crate) fn set(&mut self, register: Reg, lane: usize, value: u64) {
        self.values[register as usize][lane] = value;
    }

    #[inline]
    pub(crate) fn undefined(&self, register: Reg) -> Option<&Undefined> {
        self.undefined[register as usize].as_deref()
    }

    #[inline]
    pub(crate) fn is_undefined(&self, register: Reg, lane: usize) -> bool {
        self.undefined(register).is_some_and(|undefined| undefined.lanes.contains(lane))
    }

    /// Marks one lane's value as undefined.
    pub(crate) fn mark(&mut self, register: Reg, lane: usize, origin: Pc) {
        let undefined = &mut self.undefined[register as usize];
        if let Some(undefined) = undefined {
            undefined.lanes.insert(lane);
            undefined.origin = origin;
        } else {
            let mut lanes = LaneSet::EMPTY;
            lanes.insert(lane);
            *undefined = Some(Box::new(Undefined { lanes, origin }));
        }
    }

    /// Replaces the origin of a register's undefined values.
    pub(crate) fn set_origin(&mut self, register: Reg, origin: Pc) {
        if let Some(undefined) = &mut self.undefined[register as usize] {
            undefined.origin = origin;
        }
    }

    /// Marks one lane's value as defined.
    #[inline]
    pub(crate) fn define_lane(&mut self, register: Reg, lane: usize) {
        if let Some(undefined) = &mut self.undefined[register as usize] {
            undefined.lanes.remove(lane);
        }
    }

    /// Marks the values of the active lanes as defined.
    #[inline]
    pub(crate) fn define(&mut self, register: Reg, active: &Active) {
        if self.undefined[register as usize].is_some() {
            self.set_undefined(register, active, None);
        }
    }

    /// Replaces the active lanes' marks by those of `marks`; lanes that are not active keep theirs.
    pub(crate) fn set_undefined(&mut self, register: Reg, active: &Active, marks: Option<Undefined>) {
        let slot = &mut self.undefined[register as usize];
        if slot.is_none() && marks.is_none() {
            return;
        }
        let kept = match slot {
            None => None,
            Some(_) if active.is_all => None,
            Some(old) => {
                let lanes = old.lanes.without(&active.set);
                (!lanes.is_empty()).then_some(Undefined { lanes, origin: old.origin })
            }
        };
        let marks = marks.and_then(|marks| {
            let lanes = marks.lanes.and(&active.set);
            (!lanes.is_empty()).then_some(Undefined { lanes, origin: marks.origin })
        });
        *slot = match (kept, marks) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(Box::new(one)),
            (Some(kept), Some(marks)) => {
                Some(Box::new(Undefined { lanes: kept.lanes.or(&marks.lanes), origin: marks.origin }))
            }
        };
    }

    /// Marks a result as undefined in the active lanes in which one of the operands is.
    #[inline]
    pub(crate) fn spread(&mut self, to: Reg, from: impl IntoIterator<Item = Reg>, active: &Active) {
        let mut marks: Option<Undefined> = None;
        for operand in from {
            let Some(undefined) = self.undefined(operand) else { continue };
            marks = Some(match marks {
                None => undefined.clone(),
                Some(marks) => Undefined { lanes: marks.lanes.or(&undefined.lanes), origin: marks.origin },
            });
        }
        if marks.is_some() || self.undefined[to as usize].is_some() {
            self.set_undefined(to, active, marks);
        }
    }

    /// Returns the registers of a range of lanes, as a gang of their own.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Self {
        let slice_marks = |undefined: &Option<Box<Undefined>>| {
            let undefined = undefined.as_deref()?;
            let lanes = undefined.lanes.slice(range.clone());
            (!lanes.is_empty()).then(|| Box::new(Undefined { lanes, origin: undefined.origin }))
        };
        Self {
            lanes: range.len(),
            values: self.values.iter().map(|values| values.get(range.clone()).unwrap_or(&[]).to_vec()).collect(),
            undefined: self.undefined.iter().map(slice_marks).collect(),
        }
    }
}
