//! Sub-group operations (`OpGroupNonUniform*`): each sub-group of a gang computes among its active lanes.

use crate::code::{Combine, Pc, Reduction, Reg, RegisterOp, SubgroupOp};
use crate::fault::FaultKind;
use crate::findings::{Findings, Subject};
use crate::gang::Gang;
use crate::kernel::interface::Scalar;
use crate::lanes::Active;
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

/// Executes a [`RegisterOp::Subgroup`]; does nothing for others.
///
/// A result is undefined where an operand is, or where it comes from a lane that is inactive or missing. The origin of
/// the undefined value is that of the operand if there is one, else this instruction: most exchanges have lanes at the
/// edge whose result nobody uses, so an operand explains a fault better.
pub(crate) fn execute(
    instruction: &RegisterOp,
    registers: &mut Registers,
    active: &Active,
    gang: &Gang,
    pc: Pc,
    findings: &mut Findings,
) {
    let RegisterOp::Subgroup { op, scalar, to, value, argument, second } = *instruction else { return };
    let lanes = gang.lanes as usize;
    let components = if matches!(op, SubgroupOp::Ballot | SubgroupOp::Partition) { 4 } else { 1 };
    let results = vec![0; lanes * components];
    let undefined = Undefined::default();
    let operands = Operands { op, scalar, value, argument, second };
    let mut execution = Execution { operands, registers, active, gang, pc, findings, results, undefined };
    for (begin, members) in subgroups(active, gang) {
        execution.subgroup(begin, members);
    }
    let Execution { results, undefined, .. } = execution;
    let marks = (!undefined.lanes.is_empty()).then_some(undefined);
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

/// Fields of [`RegisterOp::Subgroup`] that are read.
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
    undefined: Undefined,
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
            let text = || format!("works on clusters of {cluster} lanes in sub-groups of {size}");
            report(self.findings, self.gang, self.pc, members[0], text);
            for &lane in members {
                self.undefined.insert(lane.into(), self.pc);
            }
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
            SubgroupOp::All
            | SubgroupOp::Any
            | SubgroupOp::AllEqual
            | SubgroupOp::QuadAll
            | SubgroupOp::QuadAny
            | SubgroupOp::BroadcastFirst
            | SubgroupOp::Ballot => self.vote(begin, members),
            SubgroupOp::InverseBallot
            | SubgroupOp::BallotBitExtract
            | SubgroupOp::BallotBitCount(_)
            | SubgroupOp::BallotFindLsb
            | SubgroupOp::BallotFindMsb => self.read_ballots(begin, members),
            SubgroupOp::Partition => self.partition(begin, members),
            SubgroupOp::Reduce(reduction, combine) => {
                let plain = match reduction {
                    Reduction::PartitionedReduce => Reduction::Reduce,
                    Reduction::PartitionedInclusiveScan => Reduction::InclusiveScan,
                    Reduction::PartitionedExclusiveScan => Reduction::ExclusiveScan,
                    _ => return self.reduce(members, reduction, combine),
                };
                self.reduce_partitions(begin, members, plain, combine);
            }
            _ => self.exchange(begin, members, cluster),
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
        for &lane in members {
            self.give(lane, result, origin);
        }
    }

    /// Gives each of `members` the value of another lane.
    fn exchange(&mut self, begin: usize, members: &[u16], cluster: u64) {
        let Operands { op, value, argument, .. } = self.operands;
        let registers = self.registers;
        let (values, arguments) = (registers.get(value), registers.get(argument));
        for &lane in members {
            let id = usize::from(lane) - begin;
            let source = source(op, id as u64, arguments[usize::from(lane)], cluster)
                .filter(|&source| source < self.gang.subgroup_size.into())
                .map(|source| begin + source as usize)
                .filter(|&source| source < self.gang.lanes as usize && self.active.set.contains(source));
            let mut origin = self.undefined_origin(argument, &[lane]);
            match source {
                Some(source) => origin = origin.or_else(|| self.undefined_origin(value, &[source as u16])),
                None => origin = origin.or(Some(self.pc)),
            }
            self.give(lane, source.map_or(0, |source| values[source]).into(), origin);
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
            let origin = origin.or(result.is_none().then_some(self.pc));
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
        // Not combined with the first value, because adding 0.0 changes -0.0.
        let mut total = None;
        let mut origin = None;
        for &lane in members {
            let value = values[usize::from(lane)];
            let before = (total.unwrap_or(identity), origin);
            let sum = total.map_or(value, |total| operator(total, value));
            total = Some(sum);
            origin = origin.or_else(|| self.undefined_origin(self.operands.value, &[lane]));
            match reduction {
                Reduction::ExclusiveScan => self.give(lane, before.0.into(), before.1),
                _ => self.give(lane, sum.into(), origin),
            }
        }
        if !matches!(reduction, Reduction::InclusiveScan | Reduction::ExclusiveScan) {
            for &lane in members {
                self.give(lane, total.unwrap_or(identity).into(), origin);
            }
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
                self.undefined.insert(lane.into(), origin.unwrap_or(self.pc));
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
        if let Some(origin) = origin {
            self.undefined.insert(lane.into(), origin);
        }
    }

    /// Returns the origin of an undefined value that one of `lanes` holds in a register.
    fn undefined_origin(&self, register: Reg, lanes: &[u16]) -> Option<Pc> {
        let marks = self.registers.undefined(register)?;
        lanes.iter().find_map(|&lane| marks.origin(lane.into()))
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
        let text = || format!("needs the same operand in all lanes, but has {first:#x} and {other:#x}");
        report(self.findings, self.gang, self.pc, lane, text);
    }
}

/// Reports misuse of a sub-group at a lane.
pub(crate) fn report(findings: &mut Findings, gang: &Gang, pc: Pc, lane: u16, text: impl FnOnce() -> String) {
    let who = gang.invocation(lane.into());
    findings.report(FaultKind::InactiveLane, pc, None, who, || Subject::Text(text()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::LaneSet;
    use SubgroupOp::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    const TO: Reg = 9;

    /// Operands by lane of the gang; an undefined value is `None`.
    struct GroupCase {
        op: SubgroupOp,
        size: usize,
        cluster: usize,
        active: Vec<usize>,
        value: Vec<Option<u128>>,
        argument: Vec<u128>,
    }

    impl GroupCase {
        /// Makes random operands that the operation accepts: some must be equal in all lanes, or a partition.
        fn random(op: SubgroupOp, size: usize, is_partial: bool, random: &mut ChaCha8Rng) -> Self {
            let mut below = |limit: usize| random.next_u32() as usize % limit;
            // The last sub-group lacks lanes.
            let lanes = size * 2 + size / 2;
            let name = format!("{op:?}");
            let ballot = (0..4).fold(0, |bits, _| bits << 32 | below(1 << 32) as u128) >> [0, 64, 126, 127][below(4)];
            let has_ballots = name.contains("Ballot") && op != Ballot;
            let (kinds, uniform, cluster) = (1 + below(3), below(size + 1), 1 << below(size.ilog2() as usize + 1));
            let value = (0..lanes).map(|_| Some(if has_ballots { ballot } else { below(kinds) as u128 }));
            let mut value: Vec<Option<u128>> = value.collect();
            let is_equal = |lane: usize, id: &usize| value.get(lane / size * size + id) == Some(&value[lane]);
            let argument = (0..lanes).map(|lane| match op {
                Broadcast | Rotate => uniform as u128,
                QuadBroadcast | QuadSwap => uniform as u128 % 5,
                Reduce(Reduction::Clustered, _) => cluster as u128,
                Reduce(..) => (0..size).filter(|id| is_equal(lane, id)).fold(0, |bits, id| bits | 1 << id),
                _ => below(size + 1) as u128,
            });
            let argument = argument.collect();
            let active: Vec<usize> = (0..lanes).filter(|_| !is_partial || below(4) != 0).collect();
            if let Some(lane) = active.get(below(lanes * 2)) {
                value[*lane] = None;
            }
            let cluster = if name.starts_with("Quad") { 4 } else { cluster };
            Self { op, size, cluster, active, value, argument }
        }

        /// Returns the result in a lane by the operation's definition, `None` if undefined.
        fn naive(&self, lane: usize) -> Option<u128> {
            let (begin, id, argument) = (lane / self.size * self.size, lane % self.size, self.argument[lane]);
            let active = self.active.iter().filter(|lane| **lane / self.size == begin / self.size);
            let active: Vec<usize> = active.map(|lane| lane - begin).collect();
            let index = argument as usize;
            let is_equal = |lane: usize| argument >> lane & 1 == 1;
            let is_near = |lane: usize| lane / self.cluster == id / self.cluster;
            let is_in = |reduction: Reduction, lane: usize| match reduction {
                Reduction::Reduce => true,
                Reduction::Clustered => is_near(lane),
                Reduction::InclusiveScan => lane <= id,
                Reduction::ExclusiveScan => lane < id,
                Reduction::PartitionedReduce => is_equal(lane),
                Reduction::PartitionedInclusiveScan => is_equal(lane) && lane <= id,
                Reduction::PartitionedExclusiveScan => is_equal(lane) && lane < id,
            };
            let is_source = |lane: usize| match self.op {
                Elect => false,
                BallotBitExtract | BallotBitCount(_) | BallotFindLsb | BallotFindMsb | InverseBallot => lane == id,
                QuadAll | QuadAny => is_near(lane),
                Reduce(reduction, _) => is_in(reduction, lane),
                Broadcast | Shuffle => lane == index,
                BroadcastFirst => lane == active[0],
                ShuffleXor => lane == id ^ index,
                ShuffleUp => lane + index == id,
                ShuffleDown => lane == id + index,
                Rotate => is_near(lane) && lane % self.cluster == (id + index) % self.cluster,
                QuadBroadcast => is_near(lane) && lane % 4 == index,
                QuadSwap => is_near(lane) && index < 3 && lane ^ id == index + 1,
                _ => true,
            };
            let sources: Vec<usize> = active.iter().copied().filter(|lane| is_source(*lane)).collect();
            let operands: Vec<u128> = sources.iter().map(|lane| self.value[begin + lane]).collect::<Option<_>>()?;
            let own = self.value[lane].unwrap_or(0);
            let set: Vec<usize> = (0..self.size).filter(|bit| own >> bit & 1 == 1).collect();
            let mask = |keep: &dyn Fn(u128) -> bool| {
                let kept = sources.iter().zip(&operands).filter(|(_, value)| keep(**value));
                kept.fold(0, |bits, (lane, _)| bits | 1 << lane)
            };
            match self.op {
                Elect => Some((active[0] == id).into()),
                All | QuadAll => Some((!operands.contains(&0)).into()),
                Any | QuadAny => Some(operands.iter().any(|value| *value != 0).into()),
                AllEqual => Some(operands.iter().all(|value| *value == own).into()),
                Ballot => Some(mask(&|value| value != 0)),
                Partition => Some(mask(&|value| value == own)),
                InverseBallot => Some(set.contains(&id).into()),
                BallotBitExtract => (index < self.size).then(|| set.contains(&index).into()),
                BallotFindLsb => set.first().map(|bit| *bit as u128),
                BallotFindMsb => set.last().map(|bit| *bit as u128),
                BallotBitCount(reduction) => Some(set.iter().filter(|bit| is_in(reduction, **bit)).count() as u128),
                Reduce(_, Combine::Add) => Some(operands.iter().sum()),
                Reduce(..) => operands.into_iter().min().or(Some(u32::MAX.into())),
                _ => operands.first().copied(),
            }
        }

        /// Returns the results by lane, `None` if undefined, and the first finding.
        fn execute(&self) -> (Vec<Option<u128>>, Option<Subject>) {
            let lanes = self.value.len();
            let gang = Gang { group: 0, first: 0, lanes: lanes as u32, subgroup_size: self.size as u32 };
            let list: Vec<u16> = self.active.iter().map(|lane| *lane as u16).collect();
            let mut active = Active { set: LaneSet::EMPTY, list, is_all: self.active.len() == lanes };
            self.active.iter().for_each(|lane| active.set.insert(*lane));
            let mut registers = Registers::new(&vec![true; TO as usize + 4], lanes);
            for (lane, word) in (0..lanes).flat_map(|lane| (0..4).map(move |word| (lane, word))) {
                let bits = |words: u128| u64::from((words >> (32 * word)) as u32);
                registers.set(word, lane, bits(self.value[lane].unwrap_or(0)));
                registers.set(4 + word, lane, bits(self.argument[lane]));
                registers.set(8, lane, self.cluster as u64);
                if self.value[lane].is_none() {
                    registers.mark(0, lane, 3);
                }
            }
            let (op, scalar) = (self.op, Scalar::Int { bits: 32, signed: false });
            let instruction = RegisterOp::Subgroup { op, scalar, to: TO, value: 0, argument: 4, second: Some(8) };
            let mut findings = Findings::default();
            execute(&instruction, &mut registers, &active, &gang, 7, &mut findings);
            let words = if matches!(op, Ballot | Partition) { 0..4 } else { 0..1 };
            let word = |lane: usize, word: u32| u128::from(registers.get(TO + word)[lane]) << (32 * word);
            let result =
                |lane| registers.origin(TO, lane).is_none().then(|| words.clone().map(|bits| word(lane, bits)).sum());
            ((0..lanes).map(result).collect(), findings.iter().next().map(|(finding, _)| finding.subject.clone()))
        }
    }

    #[test]
    fn operations_equal_their_definitions() {
        let mut ops = vec![Elect, All, Any, AllEqual, Broadcast, BroadcastFirst, Ballot, InverseBallot, QuadAny];
        ops.extend([BallotFindLsb, BallotFindMsb, Shuffle, ShuffleXor, ShuffleUp, ShuffleDown, Rotate, Partition]);
        ops.extend([QuadBroadcast, QuadSwap, QuadAll, BallotBitExtract]);
        let scans = [Reduction::Reduce, Reduction::InclusiveScan, Reduction::ExclusiveScan];
        ops.extend(scans.map(BallotBitCount));
        let mut reductions = scans.to_vec();
        reductions.extend([Reduction::Clustered, Reduction::PartitionedReduce]);
        reductions.extend([Reduction::PartitionedInclusiveScan, Reduction::PartitionedExclusiveScan]);
        ops.extend(
            reductions.iter().flat_map(|reduction| [Combine::Add, Combine::Min].map(|op| Reduce(*reduction, op))),
        );
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let runs = ops.iter().flat_map(|op| [1, 4, 8, 32, 128].map(|size| (*op, size)));
        let runs = runs.filter(|(op, size)| *size >= 4 || !format!("{op:?}").starts_with("Quad"));
        for (op, size, round) in runs.flat_map(|(op, size)| (0..12).map(move |round| (op, size, round))) {
            let case = GroupCase::random(op, size, round > 2, &mut random);
            let (results, finding) = case.execute();
            assert_eq!(finding, None, "{op:?} {size}");
            for &lane in &case.active {
                assert_eq!(results[lane], case.naive(lane), "{op:?} {size}, lane {lane} of {:?}", case.active);
            }
        }
    }

    #[test]
    fn misused_operands_are_reported() {
        let clustered = Reduce(Reduction::Clustered, Combine::Add);
        // Operation, sub-group size, operands of even and odd lanes, cluster size of a rotation.
        let cases = [
            (Broadcast, 4, [1, 2], 4, "needs the same operand in all lanes, but has 0x1 and 0x2"),
            (InverseBallot, 4, [1, 2], 4, "needs the same operand in all lanes, but has 0x1 and 0x2"),
            (Broadcast, 4, [9, 9], 4, ""),
            (Shuffle, 4, [1, 2], 4, ""),
            (Rotate, 4, [1, 3], 4, "needs the same operand in all lanes, but has 0x1 and 0x3"),
            (Rotate, 4, [1, 1], 8, "works on clusters of 8 lanes in sub-groups of 4"),
            (clustered, 4, [0, 0], 4, "works on clusters of 0 lanes in sub-groups of 4"),
            (clustered, 4, [3, 3], 4, "works on clusters of 3 lanes in sub-groups of 4"),
            (QuadAll, 2, [0, 0], 2, "works on clusters of 4 lanes in sub-groups of 2"),
        ];
        for (op, size, operands, cluster, expected) in cases {
            let argument: Vec<u128> = (0..size).map(|lane| operands[lane % 2]).collect();
            let value = argument.iter().map(|operand| Some(*operand)).collect();
            let case = GroupCase { op, size, cluster, active: (0..size).collect(), value, argument };
            let expected = (!expected.is_empty()).then(|| Subject::Text(expected.to_string()));
            assert_eq!(case.execute().1, expected, "{op:?}");
        }
    }

    #[test]
    fn floats_are_equal_by_value() {
        let equal =
            |left: f32, right: f32| is_equal(Scalar::Float { bits: 32 }, left.to_bits().into(), right.to_bits().into());
        assert!(equal(0.0, -0.0) && !equal(f32::NAN, f32::NAN));
    }
}
