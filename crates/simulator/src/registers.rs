//! Registers of a gang, with a mark for each lane whose value is undefined.

use crate::code::{Pc, Reg};
use crate::lanes::{Active, LaneSet};

/// Lanes whose value in a register is undefined.
#[derive(Clone, Default)]
pub(crate) struct Undefined {
    pub(crate) lanes: LaneSet,
    /// Instruction that made the value of each of these lanes undefined, for the report. Other lanes have no meaning.
    origins: Vec<Pc>,
}

impl Undefined {
    pub(crate) fn new(lanes: LaneSet, origin: Pc) -> Self {
        Self { lanes, origins: vec![origin; lanes.iter().last().map_or(0, |last| last + 1)] }
    }

    pub(crate) fn insert(&mut self, lane: usize, origin: Pc) {
        self.lanes.insert(lane);
        self.origins.resize(self.origins.len().max(lane + 1), origin);
        self.origins[lane] = origin;
    }

    /// Returns the origin of a lane's undefined value.
    pub(crate) fn origin(&self, lane: usize) -> Option<Pc> {
        self.lanes.contains(lane).then(|| self.origins[lane])
    }

    /// Adds the lanes of `other`; those in both keep their origin.
    fn join(&mut self, other: &Self) {
        other.lanes.without(&self.lanes).iter().for_each(|lane| self.insert(lane, other.origins[lane]));
    }
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

    /// Returns the origin of a lane's value, if that is undefined.
    #[inline]
    pub(crate) fn origin(&self, register: Reg, lane: usize) -> Option<Pc> {
        self.undefined(register)?.origin(lane)
    }

    /// Marks one lane's value as undefined.
    pub(crate) fn mark(&mut self, register: Reg, lane: usize, origin: Pc) {
        self.undefined[register as usize].get_or_insert_default().insert(lane, origin);
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
        let mut kept = slot.take().filter(|_| !active.is_all).unwrap_or_default();
        kept.lanes = kept.lanes.without(&active.set);
        if let Some(mut marks) = marks {
            marks.lanes = marks.lanes.and(&active.set);
            if kept.lanes.is_empty() {
                *kept = marks;
            } else {
                kept.join(&marks);
            }
        }
        *slot = (!kept.lanes.is_empty()).then_some(kept);
    }

    /// Marks a result as undefined in the active lanes in which one of the operands is, by the origin of the first.
    #[inline]
    pub(crate) fn spread(&mut self, to: Reg, from: impl IntoIterator<Item = Reg>, active: &Active) {
        let mut marks: Option<Undefined> = None;
        for operand in from {
            let Some(undefined) = self.undefined(operand) else { continue };
            match &mut marks {
                None => marks = Some(undefined.clone()),
                Some(marks) => marks.join(undefined),
            }
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
            let origins = undefined.origins.get(range.start..).unwrap_or_default().to_vec();
            (!lanes.is_empty()).then(|| Box::new(Undefined { lanes, origins }))
        };
        Self {
            lanes: range.len(),
            values: self.values.iter().map(|values| values.get(range.clone()).unwrap_or(&[]).to_vec()).collect(),
            undefined: self.undefined.iter().map(slice_marks).collect(),
        }
    }
}
