//! Executes the instructions of a gang.

use super::{CHECK_INTERVAL, SimulatedDevice, gang_run::GangRun};
use crate::code::{BAD_OFFSET, Edge, LaneFunction, Pc, Reg, RegisterOp, Semantics};
use crate::fault::FaultKind;
use crate::findings::{Invocation, MAX_STORES, Subject};
use crate::gang::Gang;
use crate::lanes::{Active, LaneSet};
use crate::matrix::MatrixUnit;
use crate::memory::Loaded;
use crate::module::Id;
use crate::registers::Undefined;
use crate::subgroup;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// SPIR-V's `Scope` of a work-group.
const WORKGROUP: u32 = 2;

/// Index that went beyond its array.
#[derive(Clone, Copy)]
pub(super) struct BadIndex {
    pub(super) index: i64,
    pub(super) bound: u64,
    variable: Option<Id>,
}

impl<'a> SimulatedDevice<'a> {
    /// Runs a gang for at most `blocks` blocks. Returns whether it could still go on.
    pub(super) fn run_gang(&mut self, run: &mut GangRun, blocks: u64) -> bool {
        let mut left = blocks;
        while let Some((pc, lanes)) = run.take_next(self.kernel) {
            if left == 0 || self.is_late {
                run.push(pc, lanes);
                return true;
            }
            left = self.run_lanes(run, pc, lanes, left);
        }
        false
    }

    /// Runs lanes from an instruction on until they part, wait or end, or have run `blocks` blocks. Returns how many
    /// blocks are left.
    fn run_lanes(&mut self, run: &mut GangRun, mut pc: Pc, lanes: LaneSet, mut blocks: u64) -> u64 {
        let kernel = self.kernel;
        let active = run.active(lanes);
        if let Ok(block) = kernel.code.blocks.binary_search(&pc) {
            run.enter(&kernel.code, block as u32, &lanes);
        }
        loop {
            let instruction = &kernel.code.instructions[pc as usize];
            self.operations += active.list.len() as u64;
            if self.spend(active.list.len() as u64) {
                run.push(pc, lanes);
                return 0;
            }
            let edge = match instruction {
                RegisterOp::Jump(edge) => edge,
                RegisterOp::Branch { .. } | RegisterOp::Switch { .. } => match self.choose(run, pc, &active) {
                    Some(edge) => edge,
                    None => return blocks.saturating_sub(1),
                },
                RegisterOp::Finish => {
                    run.finished = run.finished.or(&lanes);
                    return blocks;
                }
                RegisterOp::Unreachable => {
                    self.add_text(
                        FaultKind::OutOfBounds,
                        pc,
                        run.gang.invocation(active.lanes().next().unwrap_or(0)),
                        || "reaches code that the module says is never reached".into(),
                    );
                    run.finished = run.finished.or(&lanes);
                    return blocks;
                }
                RegisterOp::ControlBarrier { execution, .. } if *execution <= WORKGROUP => {
                    run.parked.push((pc, lanes));
                    return blocks;
                }
                _ => {
                    self.execute(run, pc, instruction, &active);
                    pc += 1;
                    continue;
                }
            };
            self.take_moves(run, edge, &active);
            pc = kernel.code.blocks[edge.block as usize];
            blocks = blocks.saturating_sub(1);
            // Lanes that wait elsewhere may come before these.
            if blocks == 0 || !run.may_go_on(pc, &lanes) {
                run.push(pc, lanes);
                return blocks;
            }
            run.enter(&kernel.code, edge.block, &lanes);
            self.spend(run.joins() as u64);
        }
    }

    /// Chooses the way at a branch: the edge that all active lanes take, or `None` after sending lanes several ways.
    fn choose(&mut self, run: &mut GangRun, pc: Pc, active: &Active) -> Option<&'a Edge> {
        let kernel = self.kernel;
        let mut ways: Vec<(&Edge, LaneSet)> = vec![];
        let selector = match &kernel.code.instructions[pc as usize] {
            RegisterOp::Branch { condition, yes, no } => {
                let mut taken = LaneSet::EMPTY;
                let values = run.registers.get(*condition);
                for lane in active.lanes().filter(|lane| values[*lane] != 0) {
                    taken.insert(lane);
                }
                if taken.is_empty() || taken == active.set {
                    self.report_undefined(run, *condition, pc, active, "decides a branch by");
                    return Some(if taken.is_empty() { no } else { yes });
                }
                ways.push((yes, taken));
                ways.push((no, active.set.without(&taken)));
                *condition
            }
            RegisterOp::Switch { selector, cases, default } => {
                self.spend((cases.len() * active.list.len()) as u64);
                let values = run.registers.get(*selector);
                let mut rest = active.set;
                for (case, edge) in cases {
                    let mut taken = LaneSet::EMPTY;
                    for lane in rest.iter().filter(|lane| values[*lane] == *case) {
                        taken.insert(lane);
                    }
                    rest = rest.without(&taken);
                    ways.push((edge, taken));
                }
                ways.push((default, rest));
                *selector
            }
            _ => return None,
        };
        self.report_undefined(run, selector, pc, active, "decides a branch by");
        ways.retain(|(_, lanes)| !lanes.is_empty());
        if let [(edge, _)] = ways[..] {
            return Some(edge);
        }
        // Where lanes reconverge late, those that came last go first.
        if run.swaps_sides {
            ways.reverse();
        }
        for (edge, lanes) in ways {
            let part = run.active(lanes);
            self.take_moves(run, edge, &part);
            run.push(kernel.code.blocks[edge.block as usize], lanes);
        }
        None
    }

    fn take_moves(&mut self, run: &mut GangRun, edge: &Edge, active: &Active) {
        let kernel = self.kernel;
        self.spend(u64::from(edge.moves.end - edge.moves.start) * active.list.len() as u64);
        for (to, from) in &kernel.code.moves[edge.moves.start as usize..edge.moves.end as usize] {
            copy(run, *to, *from, active);
        }
    }

    /// Executes a barrier of sub-groups.
    fn subgroup_barrier(&mut self, run: &GangRun, active: &Active, semantics: Semantics) {
        let invocations = |lanes: &LaneSet| lanes.iter().map(|lane| run.gang.invocation(lane)).collect::<Vec<_>>();
        let live = invocations(&run.all().without(&run.finished));
        for lanes in invocations(&active.set).chunk_by(|a, b| a.subgroup == b.subgroup) {
            let Invocation { group, subgroup, .. } = lanes[0];
            let is_whole = lanes.len() == run.gang.subgroup_size as usize;
            if is_whole || lanes.len() == live.iter().filter(|lane| lane.subgroup == subgroup).count() {
                self.memory.control_barrier(group, Some(subgroup), semantics);
                continue;
            }
            // Lanes that do not execute it are not ordered by it.
            for lane in lanes {
                self.memory.memory_barrier(*lane, semantics);
            }
        }
    }

    fn execute(&mut self, run: &mut GangRun, pc: Pc, instruction: &RegisterOp, active: &Active) {
        match instruction {
            RegisterOp::Compute { .. } => self.compute(run, pc, instruction, active),
            RegisterOp::Copy { to, from } => {
                copy(run, *to, *from, active);
                self.note_read(run, *to, pc, active);
            }
            RegisterOp::Select { to, condition, yes, no } => select(run, *to, *condition, [*yes, *no], active),
            RegisterOp::Undefine { first, count } => self.undefine(run, pc, *first..first + count, active),
            RegisterOp::LoadIndexed { .. } | RegisterOp::StoreIndexed { .. } => {
                self.private(run, pc, instruction, active);
            }
            RegisterOp::Offset { .. } => self.offset(run, instruction, active),
            RegisterOp::AddressOf { to, location } => self.address_of(run, *to, location, active),
            RegisterOp::Load { .. }
            | RegisterOp::Store { .. }
            | RegisterOp::Fetch { .. }
            | RegisterOp::Atomic { .. } => {
                self.access(run, pc, instruction, active);
            }
            RegisterOp::ArrayLength { to, place, start, stride } => {
                for lane in active.lanes() {
                    let length = self.bound_at(run, *place, lane).map_or(0, |bound| bound.length);
                    run.registers.set(*to, lane, (length.saturating_sub(*start) / stride) & u64::from(u32::MAX));
                }
                run.registers.define(*to, active);
            }
            RegisterOp::TexelCount { to, slot } => {
                let texels = self.texel_buffer(*slot).map_or(0, |bound| bound.length.div_ceil(16));
                active.lanes().for_each(|lane| run.registers.set(*to, lane, texels));
                run.registers.define(*to, active);
            }
            RegisterOp::Subgroup { .. } => {
                let GangRun { registers, gang, .. } = run;
                subgroup::execute(instruction, registers, active, gang, pc, &mut self.memory.findings);
                self.note_exchange(pc, gang, active);
            }
            RegisterOp::Matrix(matrix) => self.matrix(run, pc, matrix, active),
            RegisterOp::ControlBarrier { memory, .. } => self.subgroup_barrier(run, active, *memory),
            RegisterOp::MemoryBarrier(semantics) => {
                active.lanes().for_each(|lane| self.memory.memory_barrier(run.gang.invocation(lane), *semantics));
            }
            RegisterOp::Clock { to } => {
                let now = self.operations;
                active.lanes().for_each(|lane| run.registers.set(*to, lane, now & u64::from(u32::MAX)));
                run.registers.define(*to, active);
            }
            // Instructions that end a block or make lanes wait are not executed here.
            RegisterOp::Jump(_)
            | RegisterOp::Branch { .. }
            | RegisterOp::Switch { .. }
            | RegisterOp::Finish
            | RegisterOp::Unreachable => {}
        }
    }

    fn undefine(&mut self, run: &mut GangRun, pc: Pc, registers: Range<Reg>, active: &Active) {
        self.spend(registers.len() as u64);
        for register in registers {
            run.registers.set_undefined(register, active, Some(Undefined::new(active.set, pc)));
        }
    }

    /// Executes an access to memory.
    fn access(&mut self, run: &mut GangRun, pc: Pc, instruction: &RegisterOp, active: &Active) {
        match instruction {
            RegisterOp::Load { .. } => self.load(run, pc, instruction, active),
            RegisterOp::Store { .. } => self.store(run, pc, instruction, active),
            RegisterOp::Fetch { .. } => self.fetch(run, pc, instruction, active),
            _ => self.atomic(run, pc, instruction, active),
        }
        let searched = self.memory.take_searched();
        self.spend(searched);
    }

    /// Notes which lanes take part in an exchange, to find the one at which other lanes meet in another run. Whole
    /// sub-groups, the usual case, count as nothing.
    fn note_exchange(&mut self, pc: Pc, gang: &Gang, active: &Active) {
        if active.is_all {
            return;
        }
        let is_whole = |begin: usize, members: &[u16]| members.len() == gang.subgroup_of(begin).len();
        for (begin, members) in subgroup::subgroups(active, gang).filter(|(begin, members)| !is_whole(*begin, members))
        {
            let mut hasher = DefaultHasher::new();
            (gang.invocation(begin).subgroup, gang.group).hash(&mut hasher);
            for lane in members {
                (usize::from(*lane) - begin).hash(&mut hasher);
            }
            let sum = self.exchanges.entry(pc).or_insert(0);
            *sum = sum.wrapping_add(hasher.finish());
        }
    }

    /// Lets an undefined value of a variable come from the instruction that first reads it.
    fn note_read(&self, run: &mut GangRun, register: Reg, pc: Pc, active: &Active) {
        if run.registers.undefined(register).is_none() {
            return;
        }
        let made_by = |origin: Pc| &self.kernel.code.instructions[origin as usize];
        for lane in active.lanes() {
            if let Some(RegisterOp::Undefine { .. }) = run.registers.origin(register, lane).map(made_by) {
                run.registers.mark(register, lane, pc);
            }
        }
    }

    fn compute(&mut self, run: &mut GangRun, pc: Pc, instruction: &RegisterOp, active: &Active) {
        let RegisterOp::Compute { operation, to, from, hazard, absorbing, error } = instruction else { return };
        let registers = &mut run.registers;
        let mut values = registers.take(*to);
        let operands = from.map(|register| registers.get(register));
        let [a, b, c, d] = operands;
        match operation {
            LaneFunction::One(apply) => apply(active, &mut values, a),
            LaneFunction::Two(apply) => apply(active, &mut values, a, b),
            LaneFunction::Three(apply) => apply(active, &mut values, a, b, c),
            LaneFunction::Four(apply) => apply(active, &mut values, a, b, c, d),
        }
        if let Some((bound, scalar)) = error
            && self.launch.is_loose
        {
            for lane in active.lanes() {
                let random = self.random.next(pc, run.gang.invocation(lane));
                let operands = operands.map(|values| values.get(lane).copied().unwrap_or(0));
                values[lane] = bound.perturb(*scalar, values[lane], operands, random);
            }
        }
        let mut hazards = vec![];
        if let Some((is_hazard, scalar)) = hazard {
            for lane in active.lanes().filter(|lane| is_hazard(a[*lane], b[*lane])) {
                hazards.push(lane);
                if self.hazards.len() < MAX_STORES {
                    let operands = || [a[lane], b[lane]].map(|bits| crate::alu::to_f64(*scalar, bits));
                    self.hazards.entry((pc, run.gang.invocation(lane))).or_insert_with(operands);
                }
            }
        }
        registers.put(*to, values);
        registers.spread(*to, from[..operation.operand_count()].iter().copied(), active);
        if let Some(absorbing) = absorbing
            && registers.undefined(*to).is_some()
        {
            let is_decided = |register: &Reg, lane| {
                registers.get(*register)[lane] == *absorbing && registers.origin(*register, lane).is_none()
            };
            let decided = active.lanes().filter(|lane| from[..2].iter().any(|register| is_decided(register, *lane)));
            decided.collect::<Vec<_>>().into_iter().for_each(|lane| registers.define_lane(*to, lane));
        }
        for lane in hazards {
            registers.mark(*to, lane, pc);
        }
    }

    /// Accesses an array in private memory.
    fn private(&mut self, run: &mut GangRun, pc: Pc, instruction: &RegisterOp, active: &Active) {
        let (first, count, index) = match instruction {
            RegisterOp::LoadIndexed { first, count, index, .. }
            | RegisterOp::StoreIndexed { first, count, index, .. } => (*first, *count, *index),
            _ => return,
        };
        self.report_undefined(run, index, pc, active, "has an address made of");
        if let RegisterOp::LoadIndexed { to, .. } = instruction {
            run.registers.define(*to, active);
        }
        for lane in active.lanes() {
            let offset = run.registers.get(index)[lane];
            if offset >= u64::from(count) {
                self.report_index(run, index, pc, lane);
                continue;
            }
            let element = first + offset as Reg;
            let (to, from) = match instruction {
                RegisterOp::LoadIndexed { to, .. } => (*to, element),
                RegisterOp::StoreIndexed { from, .. } => (element, *from),
                _ => continue,
            };
            let value = run.registers.get(from)[lane];
            run.registers.set(to, lane, value);
            match run.registers.origin(from, lane) {
                Some(origin) => run.registers.mark(to, lane, origin),
                None => run.registers.define_lane(to, lane),
            }
        }
        if let RegisterOp::LoadIndexed { to, .. } = instruction {
            self.note_read(run, *to, pc, active);
        }
    }

    fn offset(&mut self, run: &mut GangRun, instruction: &RegisterOp, active: &Active) {
        let RegisterOp::Offset { to, base, constant, terms } = instruction else { return };
        let terms = &self.kernel.code.terms[terms.start as usize..terms.end as usize];
        let registers = &mut run.registers;
        let mut values = registers.take(*to);
        match base {
            Some(base) => {
                let base = registers.get(*base);
                active.lanes().for_each(|lane| values[lane] = base[lane].wrapping_add(*constant));
            }
            None => active.lanes().for_each(|lane| values[lane] = *constant),
        }
        let mut bad = None;
        for term in terms {
            let indices = registers.get(term.index);
            for lane in active.lanes() {
                let index = crate::alu::sign_extend(term.scalar, indices[lane]);
                if term.bound.is_some_and(|bound| index < 0 || index as u64 >= bound) {
                    let (bound, variable) = (term.bound.unwrap_or(0), term.variable);
                    bad.get_or_insert(BadIndex { index, bound, variable });
                    values[lane] = BAD_OFFSET;
                } else if values[lane] != BAD_OFFSET {
                    values[lane] = values[lane].wrapping_add((index as u64).wrapping_mul(term.stride));
                }
            }
        }
        if let Some(base) = base {
            let base = registers.get(*base);
            active.lanes().filter(|lane| base[*lane] == BAD_OFFSET).for_each(|lane| values[lane] = BAD_OFFSET);
        }
        registers.put(*to, values);
        registers.spread(*to, terms.iter().map(|term| term.index).chain(*base), active);
        if let Some(bad) = bad.or_else(|| self.bad_indices.get(base.as_ref()?).copied()) {
            self.bad_indices.insert(*to, bad);
        }
    }

    fn matrix(&mut self, run: &mut GangRun, pc: Pc, instruction: &crate::matrix::MatrixInstruction, active: &Active) {
        use crate::matrix::MatrixInstruction;
        let layout = self.layout.clone();
        let gang = run.gang;
        let unit = MatrixUnit { layout: &layout, active, gang: &gang, pc };
        unit.check(instruction, &mut self.memory.findings);
        // The clock is read after each, because a product may take long.
        self.spend(CHECK_INTERVAL);
        match *instruction {
            MatrixInstruction::Load { memory, matrix, .. } => {
                let places = self.places(run, &memory.at, active);
                let bytes = matrix.scalar.bytes();
                unit.load(instruction, &mut run.registers, &mut |lane, offset| {
                    let at = places[lane].map(|place| place.at(offset));
                    let Loaded { bits, undefined } = self.load_at(at, bytes, gang.invocation(lane), pc);
                    (bits, undefined.then(|| self.origin(at).unwrap_or(pc)))
                });
            }
            MatrixInstruction::Store { memory, matrix, .. } => {
                let places = self.places(run, &memory.at, active);
                let bytes = matrix.scalar.bytes();
                unit.store(instruction, &run.registers, &mut |lane, offset, bits, origin| {
                    let at = places[lane].map(|place| place.at(offset));
                    self.store_at(at, bytes, bits, origin, gang.invocation(lane), pc);
                });
            }
            MatrixInstruction::MulAdd { .. } => unit.multiply_add(instruction, &mut run.registers),
        }
    }

    /// Reports the active lanes whose value in a register is undefined, when that decides something: the first of each
    /// origin.
    pub(super) fn report_undefined(&mut self, run: &GangRun, register: Reg, pc: Pc, active: &Active, verb: &str) {
        let Some(undefined) = run.registers.undefined(register) else { return };
        let mut origins = vec![];
        for lane in active.lanes() {
            if let Some(origin) = undefined.origin(lane).filter(|origin| !origins.contains(origin)) {
                origins.push(origin);
                self.report_use(origin, pc, run.gang.invocation(lane), verb);
            }
        }
    }

    /// Reports the use of an undefined value that came from `origin`.
    pub(super) fn report_use(&mut self, origin: Pc, pc: Pc, who: Invocation, verb: &str) {
        let kind = self.kernel.code.instructions[origin as usize].fault_of_result();
        let subject = || Subject::Text(format!("{verb} an undefined value"));
        self.memory.findings.report(kind, pc, Some(origin), who, subject);
    }

    pub(super) fn add_text(&mut self, kind: FaultKind, pc: Pc, who: Invocation, text: impl FnOnce() -> String) {
        self.memory.findings.report(kind, pc, None, who, || Subject::Text(text()));
    }

    /// Reports an access through an index out of bounds, which made the offset in `register`.
    pub(super) fn report_index(&mut self, run: &GangRun, register: Reg, pc: Pc, lane: usize) {
        let unknown = BadIndex { index: -1, bound: 0, variable: None };
        let BadIndex { index, bound, variable } = self.bad_indices.get(&register).copied().unwrap_or(unknown);
        let who = run.gang.invocation(lane);
        self.memory.findings.report(FaultKind::OutOfBounds, pc, None, who, || Subject::Index {
            index,
            bound,
            variable,
        });
    }
}

fn copy(run: &mut GangRun, to: Reg, from: Reg, active: &Active) {
    if to == from {
        return;
    }
    let registers = &mut run.registers;
    let mut values = registers.take(to);
    let source = registers.get(from);
    if active.is_all {
        values.copy_from_slice(source);
    } else {
        active.lanes().for_each(|lane| values[lane] = source[lane]);
    }
    registers.put(to, values);
    registers.spread(to, [from], active);
}

/// Chooses between two registers; only the chosen value and the condition count for what is undefined.
fn select(run: &mut GangRun, to: Reg, condition: Reg, [yes, no]: [Reg; 2], active: &Active) {
    let registers = &mut run.registers;
    let mut values = registers.take(to);
    let conditions = registers.get(condition);
    let (yes_values, no_values) = (registers.get(yes), registers.get(no));
    active
        .lanes()
        .for_each(|lane| values[lane] = if conditions[lane] != 0 { yes_values[lane] } else { no_values[lane] });
    let mut marks: Option<Undefined> = None;
    if [yes, no, condition].iter().any(|register| registers.undefined(*register).is_some()) {
        for lane in active.lanes() {
            let chosen = if conditions[lane] != 0 { yes } else { no };
            let origin = registers.origin(chosen, lane).or_else(|| registers.origin(condition, lane));
            if let Some(origin) = origin {
                marks.get_or_insert_default().insert(lane, origin);
            }
        }
    }
    registers.put(to, values);
    registers.set_undefined(to, active, marks);
}
