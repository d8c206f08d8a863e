//! Execution state of a gang: which lanes are where.

use crate::code::{Code, Pc};
use crate::gang::Gang;
use crate::lanes::{Active, LaneSet};
use crate::lower::Kernel;
use crate::program::Reconvergence;
use crate::registers::Registers;

/// Lanes that wait until all lanes that entered a construct together have left it.
struct Join {
    /// First instruction of the merge block.
    at: Pc,
    expected: LaneSet,
}

/// Gang in execution.
pub(crate) struct GangRun {
    pub(crate) gang: Gang,
    pub(crate) registers: Registers,
    /// Lanes that can go on, by their next instruction.
    pub(crate) pending: Vec<(Pc, LaneSet)>,
    /// Lanes that wait at a barrier of the work-group, by its instruction.
    pub(crate) parked: Vec<(Pc, LaneSet)>,
    pub(crate) finished: LaneSet,
    /// Constructs that lanes leave together, if lanes reconverge late.
    joins: Vec<Join>,
    reconvergence: Reconvergence,
    /// Whether lanes that take the other side of a branch go first.
    pub(crate) swaps_sides: bool,
    /// Whether lanes that wait for others of their sub-group have been interrupted, and go in turns.
    is_interrupted: bool,
    /// Last atomic that the gang executed, and how many since the last time slice began.
    pub(crate) last_atomic: Option<Pc>,
    pub(crate) atomics: u32,
}

impl GangRun {
    pub(crate) fn new(gang: Gang, registers: Registers, reconvergence: Reconvergence, swaps_sides: bool) -> Self {
        let mut run = Self {
            gang,
            registers,
            pending: vec![],
            parked: vec![],
            finished: LaneSet::EMPTY,
            joins: vec![],
            reconvergence,
            swaps_sides,
            is_interrupted: false,
            last_atomic: None,
            atomics: 0,
        };
        run.restart(gang, reconvergence);
        run
    }

    /// Begins a work-group with the registers of an earlier one.
    pub(crate) fn restart(&mut self, gang: Gang, reconvergence: Reconvergence) {
        self.gang = gang;
        self.reconvergence = reconvergence;
        self.is_interrupted = false;
        self.pending.clear();
        self.pending.push((0, self.all()));
        self.parked.clear();
        self.joins.clear();
        self.finished = LaneSet::EMPTY;
    }

    pub(crate) fn all(&self) -> LaneSet {
        LaneSet::first(self.gang.lanes as usize)
    }

    pub(crate) fn active(&self, set: LaneSet) -> Active {
        Active::new(set, self.gang.lanes as usize)
    }

    /// Sends lanes on to an instruction.
    pub(crate) fn push(&mut self, pc: Pc, lanes: LaneSet) {
        if lanes.is_empty() {
            return;
        }
        self.leave(pc, &lanes);
        let meets = self.reconvergence != Reconvergence::Late || self.waits_at(pc);
        match self.pending.iter_mut().find(|(at, _)| meets && *at == pc) {
            Some((_, waiting)) => *waiting = waiting.or(&lanes),
            None => self.pending.push((pc, lanes)),
        }
    }

    /// Whether lanes that come to a block need not wait for others there.
    pub(crate) fn may_go_on(&mut self, pc: Pc, lanes: &LaneSet) -> bool {
        if !self.pending.is_empty() {
            return false;
        }
        self.leave(pc, lanes);
        let finished = self.finished;
        self.joins.retain(|join| join.at != pc || !join.expected.without(lanes).without(&finished).is_empty());
        !self.waits_at(pc)
    }

    /// Notes that lanes branch beyond the merge blocks of constructs: they leave those by a `break`, a `continue` or a
    /// `return`.
    fn leave(&mut self, pc: Pc, lanes: &LaneSet) {
        for join in self.joins.iter_mut().filter(|join| join.at < pc) {
            join.expected = join.expected.without(lanes);
        }
        self.joins.retain(|join| !join.expected.is_empty());
    }

    /// Returns the number of constructs that lanes leave together.
    pub(crate) fn joins(&self) -> usize {
        self.joins.len()
    }

    fn waits_at(&self, pc: Pc) -> bool {
        self.joins.iter().any(|join| join.at == pc)
    }

    /// Takes the lanes that go next: those that are furthest behind, so that lanes meet where their paths merge; or, if
    /// they reconverge late, those that came last, except that lanes which entered a construct together meet behind it.
    /// `None` if all lanes have ended or wait at a barrier, or for lanes that do.
    pub(crate) fn take_next(&mut self, kernel: &Kernel) -> Option<(Pc, LaneSet)> {
        if self.is_interrupted {
            return if self.pending.is_empty() { None } else { Some(self.pending.remove(0)) };
        }
        if self.reconvergence != Reconvergence::Late {
            let ranks = match self.reconvergence {
                Reconvergence::BehindLoops => &kernel.natural_ranks[..],
                _ if self.swaps_sides => &kernel.swapped_ranks[..],
                _ => &[],
            };
            let rank = |pc: Pc| ((!ranks.is_empty()).then(|| ranks[kernel.code.block_at(pc)]), pc);
            let (index, _) = self.pending.iter().enumerate().min_by_key(|(_, (pc, _))| rank(*pc))?;
            return Some(self.pending.swap_remove(index));
        }
        if let Some(index) = self.pending.iter().rposition(|(pc, _)| !self.waits_at(*pc)) {
            return Some(self.pending.remove(index));
        }
        while let Some(join) = self.joins.last() {
            let at = join.at;
            let index = self.pending.iter().position(|(pc, _)| *pc == at);
            let here = index.map_or(LaneSet::EMPTY, |index| self.pending[index].1);
            if !join.expected.without(&here).without(&self.finished).is_empty() {
                return None;
            }
            self.joins.pop();
            if let Some(index) = index.filter(|_| !self.waits_at(at)) {
                return Some(self.pending.remove(index));
            }
        }
        self.pending.pop()
    }

    /// Notes that lanes enter a block: if all of them do, they will meet again at its merge block.
    pub(crate) fn enter(&mut self, code: &Code, block: u32, lanes: &LaneSet) {
        if self.reconvergence != Reconvergence::Late {
            return;
        }
        let Some(merge) = code.merges[block as usize] else { return };
        if *lanes != self.all().without(&self.finished) {
            return;
        }
        let at = code.blocks[merge as usize];
        if self.joins.last().is_none_or(|join| join.at != at) {
            self.joins.push(Join { at, expected: *lanes });
        }
    }

    /// Lets lanes go on that wait for others to leave a construct, when those others cannot.
    pub(crate) fn leave_joins(&mut self) {
        self.joins.clear();
    }

    /// Lets lanes take turns, wherever they are, as interruptions would.
    pub(crate) fn interrupt(&mut self) {
        self.is_interrupted = true;
        self.joins.clear();
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Splits the gang into one for each sub-group, which then can wait for each other.
    pub(crate) fn split(&self) -> Vec<Self> {
        let size = self.gang.subgroup_size as usize;
        let mut parts = vec![];
        for begin in (0..self.gang.lanes as usize).step_by(size) {
            let range = begin..(begin + size).min(self.gang.lanes as usize);
            let slice = |entries: &[(Pc, LaneSet)]| {
                let entries = entries.iter().map(|(pc, lanes)| (*pc, lanes.slice(range.clone())));
                entries.filter(|(_, lanes)| !lanes.is_empty()).collect()
            };
            let gang = Gang { first: self.gang.first + begin as u32, lanes: range.len() as u32, ..self.gang };
            parts.push(Self {
                gang,
                registers: self.registers.slice(range.clone()),
                pending: slice(&self.pending),
                parked: slice(&self.parked),
                finished: self.finished.slice(range.clone()),
                joins: vec![],
                reconvergence: self.reconvergence,
                swaps_sides: self.swaps_sides,
                is_interrupted: self.is_interrupted,
                last_atomic: self.last_atomic,
                atomics: self.atomics,
            });
        }
        parts
    }
}
