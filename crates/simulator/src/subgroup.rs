//! Sub-group operations (`OpGroupNonUniform*`): each sub-group of a gang computes among its active lanes.

use crate::code::{Combine, Instruction, Pc, Reduction, Reg, SubgroupOp};
use crate::fault::FaultKind;
use crate::findings::{Finding, Findings, Subject};
use crate::gang::Gang;
use crate::kernel::interface::Scalar;
use crate::lanes::{Active, LaneSet};
use crate::registers::{Registers, Undefined};

/// Iterates over the sub-groups that have active lanes: first lane, and active lanes in ascending order.
pub(crate) fn subgroups<'a>(active: &'a Active, gang: &'a Gang) -> impl Iterator<Item = (usize, &'a [u16])> {
    let mut rest = &active.list[..];
    std::iter::from_fn(move || {
        let lanes = gang.subgroup_of(usize::from(*rest.first()?));
        let (members, others) = rest.split_at(rest.partition_point(|&lane| usize::from(lane) < lanes.end));
        rest = others;
        Some((lanes.start, members))
    })
}

/// Executes an [`Instruction::Subgroup`]; does nothing for others.
///
/// A result is undefined where an operand is, or where it comes from a lane that is inactive or missing. The origin of
/// the undefined value is that of the operand if there is one, else this instruction: most exchanges have lanes at the
/// edge whose result nobody uses, so an operand explains a fault better.
pub(crate) fn execute(
    instruction: &Instruction,
    registers: &mut Registers,
    active: &Active,
    gang: &Gang,
    pc: Pc,
    findings: &mut Findings,
) {
    let Instruction::Subgroup { op, scalar, to, value, argument, second } = *instruction else { return };
    let lanes = gang.lanes as usize;
    let components = if matches!(op, SubgroupOp::Ballot | SubgroupOp::Partition) { 4 } else { 1 };
    let results = vec![0; lanes * components];
    let undefined = LaneSet::EMPTY;
    let operands = Operands { op, scalar, value, argument, second };
    let mut execution = Execution { operands, registers, active, gang, pc, findings, results, undefined, origin: None };
    for (begin, members) in subgroups(active, gang) {
        execution.subgroup(begin, members);
    }
    let Execution { results, undefined, origin, .. } = execution;
    let marks = (!undefined.is_empty()).then(|| Undefined { lanes: undefined, origin: origin.unwrap_or(pc) });
    for (to, results) in (to..).zip(results.chunks_exact(lanes.max(1))) {
        if active.is_all {
            let mut values = registers.take(to);
            values.copy_from_slice(results);
            registers.put(to, values);
        } else {
            active.list.iter().for_each(|&lane| registers.set(to, lane.into(), results[usize::from(lane)]));
        }
        registers.set_undefined(to, active, marks.clone());
    }
}

/// Fields of [`Instruction::Subgroup`] that are read.
#[derive(Clone, Copy)]
struct Operands {
    op: SubgroupOp,
    scalar: Scalar,
    value: Reg,
    argument: Reg,
    second: Option<Reg>,
}

/// Execution of one instruction. Results are written to registers at the end, because these may be operands too.
struct Execution<'a> {
    operands: Operands,
    registers: &'a Registers,
    active: &'a Active,
    gang: &'a Gang,
    pc: Pc,
    findings: &'a mut Findings,
    /// Results of all lanes of the gang, component by component.
    results: Vec<u64>,
    /// Lanes whose result is undefined.
    undefined: LaneSet,
    /// Origin of an undefined operand.
    origin: Option<Pc>,
}

impl Execution<'_> {
    /// Executes for one sub-group; `begin` is its first lane, `members` are its active lanes.
    fn subgroup(&mut self, begin: usize, members: &[u16]) {
        let Operands { op, argument, second, .. } = self.operands;
        let size = u64::from(self.gang.subgroup_size);
        let constant = |register: Reg| self.registers.get(register)[usize::from(members[0])];
        let cluster = match op {
            SubgroupOp::QuadBroadcast | SubgroupOp::QuadSwap | SubgroupOp::QuadAll | SubgroupOp::QuadAny => 4,
            SubgroupOp::Rotate => second.map_or(size, constant),
            SubgroupOp::Reduce(Reduction::Clustered, _) => constant(argument),
            _ => size,
        };
        if cluster != size && (!cluster.is_power_of_two() || cluster > size) {
            self.report(members[0], || format!("works on clusters of {cluster} lanes in sub-groups of {size}"));
            members.iter().for_each(|&lane| self.undefined.insert(lane.into()));
            return;
        }
        self.check_uniform(members);
        let part = |lane: u16| (usize::from(lane) - begin) / cluster as usize;
        for members in members.chunk_by(|&left, &right| part(left) == part(right)) {
            self.cluster(begin, members, cluster);
        }
    }

    /// Executes for the active lanes of a cluster, which is the whole sub-group for most operations.
    fn cluster(&mut self, begin: usize, members: &[u16], cluster: u64) {
        match self.operands.op {
            SubgroupOp::Elect => self.results[usize::from(members[0])] = 1,
            SubgroupOp::Broadcast
            | SubgroupOp::Shuffle
            | SubgroupOp::ShuffleXor
            | SubgroupOp::ShuffleUp
            | SubgroupOp::ShuffleDown
            | SubgroupOp::Rotate
            | SubgroupOp::QuadBroadcast
            | SubgroupOp::QuadSwap => self.exchange(begin, members, cluster),
            SubgroupOp::InverseBallot
            | SubgroupOp::BallotBitExtract
            | SubgroupOp::BallotBitCount(_)
            | SubgroupOp::BallotFindLsb
            | SubgroupOp::BallotFindMsb => self.read_ballots(begin, members),
            SubgroupOp::Partition => self.partition(begin, members),
            SubgroupOp::Reduce(reduction, combine) => match reduction {
                Reduction::PartitionedReduce
                | Reduction::PartitionedInclusiveScan
                | Reduction::PartitionedExclusiveScan => self.reduce_partitions(begin, members, reduction, combine),
                _ => self.reduce(members, reduction, combine),
            },
            _ => self.vote(begin, members),
        }
    }

    /// Returns one value to all `members`, computed from the operands of all of them or of the first.
    fn vote(&mut self, begin: usize, members: &[u16]) {
        let Operands { op, scalar, value, .. } = self.operands;
        let values = self.registers.get(value);
        let mut operands = members.iter().map(|&lane| values[usize::from(lane)]);
        let first = values[usize::from(members[0])];
        let result = match op {
            SubgroupOp::All | SubgroupOp::QuadAll => operands.all(|value| value != 0).into(),
            SubgroupOp::Any | SubgroupOp::QuadAny => operands.any(|value| value != 0).into(),
            SubgroupOp::AllEqual => operands.all(|value| is_equal(scalar, first, value)).into(),
            SubgroupOp::Ballot => mask_of(begin, members.iter().filter(|&&lane| values[usize::from(lane)] != 0)),
            _ => first.into(),
        };
        let contributors = if op == SubgroupOp::BroadcastFirst { &members[..1] } else { members };
        let origin = self.undefined_origin(value, contributors);
        members.iter().for_each(|&lane| self.give(lane, result, origin));
    }

    /// Gives each of `members` the value of another lane.
    fn exchange(&mut self, begin: usize, members: &[u16], cluster: u64) {
        let Operands { op, value, argument, .. } = self.operands;
        let registers = self.registers;
        let (values, arguments) = (registers.get(value), registers.get(argument));
        for &lane in members {
            if let Some(origin) = self.undefined_origin(argument, &[lane]) {
                self.give(lane, 0, Some(origin));
                continue;
            }
            let id = usize::from(lane) - begin;
            let source = source(op, id as u64, arguments[usize::from(lane)], cluster)
                .filter(|&source| source < self.gang.subgroup_size.into())
                .map(|source| begin + source as usize)
                .filter(|&source| source < self.gang.lanes as usize && self.active.set.contains(source));
            match source {
                Some(source) => {
                    let origin = self.undefined_origin(value, &[source as u16]);
                    self.give(lane, values[source].into(), origin);
                }
                None => self.undefined.insert(lane.into()),
            }
        }
    }

    /// Computes from ballots that are operands. Bits beyond the sub-group's size are ignored.
    fn read_ballots(&mut self, begin: usize, members: &[u16]) {
        let Operands { op, value, argument, .. } = self.operands;
        let size = self.gang.subgroup_size.clamp(1, 128);
        for &lane in members {
            let (ballot, mut origin) = self.ballot(value, lane);
            let ballot = ballot & u128::MAX >> (128 - size);
            let id = (usize::from(lane) - begin).min(127);
            let below = !(u128::MAX << id);
            let result = match op {
                SubgroupOp::InverseBallot => Some(ballot >> id & 1),
                SubgroupOp::BallotBitExtract => {
                    origin = origin.or_else(|| self.undefined_origin(argument, &[lane]));
                    let index = self.registers.get(argument)[usize::from(lane)];
                    (index < u64::from(size)).then(|| ballot >> index & 1)
                }
                SubgroupOp::BallotFindLsb => (ballot != 0).then(|| ballot.trailing_zeros().into()),
                SubgroupOp::BallotFindMsb => ballot.checked_ilog2().map(u128::from),
                SubgroupOp::BallotBitCount(Reduction::InclusiveScan) => {
                    Some((ballot & (below | 1 << id)).count_ones().into())
                }
                SubgroupOp::BallotBitCount(Reduction::ExclusiveScan) => Some((ballot & below).count_ones().into()),
                _ => Some(ballot.count_ones().into()),
            };
            if result.is_none() {
                self.undefined.insert(lane.into());
            }
            self.give(lane, result.unwrap_or(0), origin);
        }
    }

    /// Gives each lane the ballot of lanes whose value equals its own. A NaN equals only itself.
    fn partition(&mut self, begin: usize, members: &[u16]) {
        let Operands { scalar, value, .. } = self.operands;
        let values = self.registers.get(value);
        let origin = self.undefined_origin(value, members);
        for &lane in members {
            let value = values[usize::from(lane)];
            let is_member = |&&other: &&u16| other == lane || is_equal(scalar, value, values[usize::from(other)]);
            self.give(lane, mask_of(begin, members.iter().filter(is_member)), origin);
        }
    }

    /// Reduces or scans over `members`.
    fn reduce(&mut self, members: &[u16], reduction: Reduction, combine: Combine) {
        let operator = crate::alu::combine(combine, self.operands.scalar);
        let identity = crate::alu::identity(combine, self.operands.scalar);
        let values = self.registers.get(self.operands.value);
        let marks = self.registers.undefined(self.operands.value);
        // Not combined with the first value, because adding 0.0 changes -0.0.
        let mut total = None;
        let mut origin = None;
        for &lane in members {
            let value = values[usize::from(lane)];
            let before = (total.unwrap_or(identity), origin);
            let sum = total.map_or(value, |total| operator(total, value));
            total = Some(sum);
            origin = origin.or(marks.filter(|marks| marks.lanes.contains(lane.into())).map(|marks| marks.origin));
            match reduction {
                Reduction::InclusiveScan | Reduction::PartitionedInclusiveScan => self.give(lane, sum.into(), origin),
                Reduction::ExclusiveScan | Reduction::PartitionedExclusiveScan => {
                    self.give(lane, before.0.into(), before.1);
                }
                _ => {}
            }
        }
        if matches!(reduction, Reduction::Reduce | Reduction::Clustered | Reduction::PartitionedReduce) {
            members.iter().for_each(|&lane| self.give(lane, total.unwrap_or(identity).into(), origin));
        }
    }

    /// Reduces over the lanes of each lane's ballot, which is in the argument registers. Ballots that are no partition
    /// leave results undefined.
    fn reduce_partitions(&mut self, begin: usize, members: &[u16], reduction: Reduction, combine: Combine) {
        for &lane in members {
            let (ballot, origin) = self.ballot(self.operands.argument, lane);
            let is_member = |lane: &u16| ballot >> (usize::from(*lane) - begin).min(127) & 1 == 1;
            let part: Vec<u16> = members.iter().copied().filter(is_member).collect();
            let agrees = |&other: &u16| self.ballot(self.operands.argument, other).0 == ballot;
            if origin.is_some() || !part.contains(&lane) || !part.iter().all(agrees) {
                self.undefined.insert(lane.into());
                self.origin = self.origin.or(origin);
            } else if part[0] == lane {
                self.reduce(&part, reduction, combine);
            }
        }
    }

    /// Sets the result of a lane, undefined if an operand from `origin` is.
    fn give(&mut self, lane: u16, result: u128, origin: Option<Pc>) {
        let lanes = self.gang.lanes as usize;
        if self.results.len() == lanes {
            self.results[usize::from(lane)] = result as u64;
        } else {
            for (component, results) in self.results.chunks_exact_mut(lanes).enumerate() {
                results[usize::from(lane)] = u64::from((result >> (32 * component)) as u32);
            }
        }
        if origin.is_some() {
            self.undefined.insert(lane.into());
            self.origin = self.origin.or(origin);
        }
    }

    /// Returns the origin of an undefined value that one of `lanes` holds in a register.
    fn undefined_origin(&self, register: Reg, lanes: &[u16]) -> Option<Pc> {
        let marks = self.registers.undefined(register)?;
        lanes.iter().any(|&lane| marks.lanes.contains(lane.into())).then_some(marks.origin)
    }

    /// Returns a lane's ballot in four registers, and the origin of one that is undefined.
    fn ballot(&self, first: Reg, lane: u16) -> (u128, Option<Pc>) {
        let words = (first..).take(4).zip([0, 32, 64, 96]);
        let word = |register: Reg| u128::from(self.registers.get(register)[usize::from(lane)] as u32);
        let ballot = words.clone().fold(0, |ballot, (register, shift)| ballot | word(register) << shift);
        (ballot, words.into_iter().find_map(|(register, _)| self.undefined_origin(register, &[lane])))
    }

    /// Reports an operand that must be dynamically uniform and is not. Undefined operands are skipped.
    fn check_uniform(&mut self, members: &[u16]) {
        let Operands { op, value, argument, .. } = self.operands;
        let operand = |&lane: &u16| {
            let (operand, origin) = match op {
                SubgroupOp::Broadcast | SubgroupOp::QuadBroadcast | SubgroupOp::Rotate => {
                    let operand = self.registers.get(argument)[usize::from(lane)];
                    (operand.into(), self.undefined_origin(argument, &[lane]))
                }
                SubgroupOp::InverseBallot => self.ballot(value, lane),
                _ => return None,
            };
            origin.is_none().then_some((lane, operand))
        };
        let mut operands = members.iter().filter_map(operand);
        let Some((_, first)) = operands.next() else { return };
        let Some((lane, other)) = operands.find(|(_, operand)| *operand != first) else { return };
        self.report(lane, || format!("needs the same operand in all lanes, but has {first:#x} and {other:#x}"));
    }

    fn report(&mut self, lane: u16, text: impl FnOnce() -> String) {
        let (kind, pc, who) = (FaultKind::InactiveLane, self.pc, self.gang.invocation(lane.into()));
        let make = || Finding { kind, pc, other: None, who, other_who: None, subject: Subject::Text(text()) };
        self.findings.add(kind, pc, None, make);
    }
}

/// Returns the lane, within the sub-group, from which lane `id` takes its value.
fn source(op: SubgroupOp, id: u64, argument: u64, cluster: u64) -> Option<u64> {
    let first = id / cluster * cluster;
    match op {
        SubgroupOp::Broadcast | SubgroupOp::Shuffle => Some(argument),
        SubgroupOp::ShuffleXor => Some(id ^ argument),
        SubgroupOp::ShuffleUp => id.checked_sub(argument),
        SubgroupOp::ShuffleDown => id.checked_add(argument),
        SubgroupOp::Rotate => Some(first + id.wrapping_add(argument) % cluster),
        SubgroupOp::QuadBroadcast => (argument < cluster).then(|| first + argument),
        SubgroupOp::QuadSwap => (argument < 3).then(|| id ^ (argument + 1)),
        _ => None,
    }
}

/// Returns the ballot of lanes of the sub-group that begins at `begin`.
fn mask_of<'a>(begin: usize, lanes: impl Iterator<Item = &'a u16>) -> u128 {
    lanes.fold(0, |mask, &lane| mask | 1 << (usize::from(lane) - begin).min(127))
}

/// Whether two values are equal; floats as by `OpFOrdEqual`.
fn is_equal(scalar: Scalar, left: u64, right: u64) -> bool {
    match scalar {
        Scalar::Bool | Scalar::Int { .. } => left == right,
        _ => crate::alu::to_f64(scalar, left) == crate::alu::to_f64(scalar, right),
    }
}
