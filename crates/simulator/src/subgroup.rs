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

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    const OPERANDS: [Reg; 3] = [0, 4, 8];
    const TO: Reg = 9;
    const INT: Scalar = Scalar::Int { bits: 32, signed: false };

    /// Sub-group as the naive definitions see it, by lane within it.
    struct Case {
        op: SubgroupOp,
        size: usize,
        active: Vec<usize>,
        value: Vec<u128>,
        argument: Vec<u128>,
        cluster: usize,
    }

    fn operations() -> Vec<SubgroupOp> {
        use SubgroupOp::*;
        let simple = [Elect, All, Any, AllEqual, Broadcast, BroadcastFirst, Ballot, InverseBallot, BallotBitExtract]
            .into_iter()
            .chain([BallotFindLsb, BallotFindMsb, Shuffle, ShuffleXor, ShuffleUp, ShuffleDown, Rotate])
            .chain([QuadBroadcast, QuadSwap, QuadAll, QuadAny, Partition]);
        let scans = [Reduction::Reduce, Reduction::InclusiveScan, Reduction::ExclusiveScan];
        let others = [Reduction::Clustered, Reduction::PartitionedReduce];
        let partitioned = [Reduction::PartitionedInclusiveScan, Reduction::PartitionedExclusiveScan];
        let reductions = scans.into_iter().chain(others).chain(partitioned);
        let combines =
            [Combine::Add, Combine::Mul, Combine::Min, Combine::Max, Combine::And, Combine::Or, Combine::Xor];
        let reduce = reductions.flat_map(|reduction| combines.map(|combine| Reduce(reduction, combine)));
        simple.chain(scans.map(BallotBitCount)).chain(reduce).collect()
    }

    /// Returns the result in a lane (`None` if undefined), and the lanes whose values it depends on.
    fn naive(case: &Case, id: usize) -> (Option<u128>, Vec<usize>) {
        use SubgroupOp::*;
        let Case { size, active, value, cluster, .. } = case;
        let argument = case.argument[id] as usize;
        let quad = |lane: &usize| lane / 4 == id / 4;
        let from = |source: Option<usize>| match source.filter(|source| active.contains(source)) {
            Some(source) => (Some(value[source]), vec![source]),
            None => (None, vec![]),
        };
        let own = |result: Option<u128>| (result, vec![id]);
        let vote = |lanes: Vec<usize>, result: &dyn Fn(&[usize]) -> u128| (Some(result(&lanes)), lanes);
        let bits = |lanes: &[usize], is_set: &dyn Fn(usize) -> bool| {
            lanes.iter().filter(|lane| is_set(**lane)).fold(0, |bits, lane| bits | 1 << lane)
        };
        let set: Vec<usize> = (0..*size).filter(|bit| value[id] >> bit & 1 == 1).collect();
        let count = |keep: &dyn Fn(&usize) -> bool| own(Some(set.iter().filter(|bit| keep(bit)).count() as u128));
        match case.op {
            Elect => (Some((active[0] == id).into()), vec![]),
            All => vote(active.clone(), &|lanes| lanes.iter().all(|lane| value[*lane] != 0).into()),
            Any => vote(active.clone(), &|lanes| lanes.iter().any(|lane| value[*lane] != 0).into()),
            AllEqual => vote(active.clone(), &|lanes| lanes.iter().all(|lane| value[*lane] == value[lanes[0]]).into()),
            QuadAll => vote(active.iter().copied().filter(quad).collect(), &|lanes| {
                lanes.iter().all(|lane| value[*lane] != 0).into()
            }),
            QuadAny => vote(active.iter().copied().filter(quad).collect(), &|lanes| {
                lanes.iter().any(|lane| value[*lane] != 0).into()
            }),
            Ballot => vote(active.clone(), &|lanes| bits(lanes, &|lane| value[lane] != 0)),
            Partition => vote(active.clone(), &|lanes| bits(lanes, &|lane| value[lane] == value[id])),
            Broadcast | Shuffle => from(Some(argument)),
            BroadcastFirst => from(active.first().copied()),
            ShuffleXor => from(Some(id ^ argument)),
            ShuffleUp => from(id.checked_sub(argument)),
            ShuffleDown => from(Some(id + argument)),
            Rotate => from(Some((id + argument & cluster - 1) + (id & !(cluster - 1)))),
            QuadBroadcast => from((argument < 4).then_some(id & !3 | argument)),
            QuadSwap => from((argument < 3).then_some([id ^ 1, id ^ 2, id ^ 3][argument.min(2)])),
            InverseBallot => own(Some(value[id] >> id & 1)),
            BallotBitExtract => own((argument < *size).then(|| value[id] >> argument & 1)),
            BallotFindLsb => own(set.first().map(|bit| *bit as u128)),
            BallotFindMsb => own(set.last().map(|bit| *bit as u128)),
            BallotBitCount(Reduction::InclusiveScan) => count(&|bit| *bit <= id),
            BallotBitCount(Reduction::ExclusiveScan) => count(&|bit| *bit < id),
            BallotBitCount(_) => count(&|_| true),
            Reduce(reduction, combine) => {
                let keep = |lane: usize| match reduction {
                    Reduction::Reduce => true,
                    Reduction::InclusiveScan => lane <= id,
                    Reduction::ExclusiveScan => lane < id,
                    Reduction::Clustered => lane / cluster == id / cluster,
                    Reduction::PartitionedReduce => case.argument[id] >> lane & 1 == 1,
                    Reduction::PartitionedInclusiveScan => case.argument[id] >> lane & 1 == 1 && lane <= id,
                    Reduction::PartitionedExclusiveScan => case.argument[id] >> lane & 1 == 1 && lane < id,
                };
                vote(active.iter().copied().filter(|lane| keep(*lane)).collect(), &|lanes| {
                    let operands = lanes.iter().map(|lane| value[*lane] as u32);
                    u128::from(match combine {
                        Combine::Add => operands.fold(0, u32::wrapping_add),
                        Combine::Mul => operands.fold(1, u32::wrapping_mul),
                        Combine::Min => operands.min().unwrap_or(u32::MAX),
                        Combine::Max => operands.max().unwrap_or(0),
                        Combine::And => operands.fold(u32::MAX, |left, right| left & right),
                        Combine::Or => operands.fold(0, |left, right| left | right),
                        Combine::Xor => operands.fold(0, |left, right| left ^ right),
                    })
                })
            }
        }
    }

    /// Makes operands for one sub-group: uniform where the operation needs it.
    fn case(op: SubgroupOp, size: usize, active: Vec<usize>, random: &mut ChaCha8Rng) -> Case {
        use SubgroupOp::*;
        let is_ballot =
            matches!(op, InverseBallot | BallotBitExtract | BallotBitCount(_) | BallotFindLsb | BallotFindMsb);
        let ballot = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        let ballot = ballot >> [0, 64, 126, 127][random.next_u32() as usize % 4];
        let kinds = 1 + random.next_u32() % 3;
        let value: Vec<u128> =
            (0..size).map(|_| if is_ballot { ballot } else { (random.next_u32() % kinds).into() }).collect();
        let uniform = random.next_u32() % (size as u32 + 1);
        let cluster = 1 << random.next_u32() % (size.ilog2() + 1);
        let argument = (0..size).map(|lane| match op {
            Broadcast | Rotate => uniform.into(),
            QuadBroadcast | QuadSwap => (uniform % 5).into(),
            Reduce(Reduction::Clustered, _) => cluster as u128,
            Reduce(..) => (0..size).filter(|other| value[*other] == value[lane]).fold(0, |bits, lane| bits | 1 << lane),
            _ => (random.next_u32() % (size as u32 + 1)).into(),
        });
        Case { op, size, active, argument: argument.collect(), value, cluster }
    }

    fn active_of(lanes: usize, is_active: impl Fn(usize) -> bool) -> Active {
        let list: Vec<u16> = (0..lanes).filter(|lane| is_active(*lane)).map(|lane| lane as u16).collect();
        let mut set = LaneSet::EMPTY;
        list.iter().for_each(|&lane| set.insert(lane.into()));
        Active { set, is_all: list.len() == lanes, list }
    }

    fn instruction(op: SubgroupOp, scalar: Scalar, has_second: bool) -> Instruction {
        let [value, argument, second] = OPERANDS;
        Instruction::Subgroup { op, scalar, to: TO, value, argument, second: has_second.then_some(second) }
    }

    #[test]
    fn operations_equal_their_definitions() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for (op, size, round) in operations().into_iter().flat_map(|op| {
            [1, 4, 8, 32, 128].into_iter().flat_map(move |size| (0..12).map(move |round| (op, size, round)))
        }) {
            let needs_quads = matches!(
                op,
                SubgroupOp::QuadAll | SubgroupOp::QuadAny | SubgroupOp::QuadBroadcast | SubgroupOp::QuadSwap
            );
            if size < 4 && needs_quads {
                continue;
            }
            // The last sub-group is partial.
            let lanes = size * 2 + size / 2;
            let gang = Gang { group: 0, first: 0, lanes: lanes as u32, subgroup_size: size as u32 };
            let mask: Vec<bool> = (0..lanes).map(|_| round < 2 || random.next_u32() % 4 != 0).collect();
            let active = active_of(lanes, |lane| mask[lane]);
            let mut registers = Registers::new(TO + 4, lanes);
            let undefined = (round % 2 == 1).then(|| random.next_u32() as usize % lanes).filter(|lane| mask[*lane]);
            let mut cases = Vec::new();
            for (begin, members) in subgroups(&active, &gang) {
                let members = members.iter().map(|lane| usize::from(*lane) - begin).collect();
                let case = case(op, size, members, &mut random);
                for lane in begin..gang.subgroup_of(begin).end {
                    for word in 0..4 {
                        let bits = |words: u128| u64::from((words >> (32 * word)) as u32);
                        registers.set(word, lane, bits(case.value[lane - begin]));
                        registers.set(OPERANDS[1] + word, lane, bits(case.argument[lane - begin]));
                    }
                    registers.set(OPERANDS[2], lane, case.cluster as u64);
                }
                cases.push((begin, case));
            }
            undefined.iter().for_each(|lane| registers.mark(0, *lane, 3));
            let mut findings = Findings::default();
            execute(&instruction(op, INT, true), &mut registers, &active, &gang, 7, &mut findings);
            assert_eq!(findings.iter().count(), 0, "{op:?} {size}: {:?}", findings.iter().next());
            for (begin, case) in &cases {
                for id in &case.active {
                    let (expected, sources) = naive(case, *id);
                    let is_undefined = registers.is_undefined(TO, begin + id);
                    let spoiled = undefined.is_some_and(|lane| lane >= *begin && sources.contains(&(lane - begin)));
                    assert_eq!(
                        is_undefined,
                        spoiled || expected.is_none(),
                        "{op:?} {size}, lane {id} of {:?}",
                        case.active
                    );
                    let words = if matches!(op, SubgroupOp::Ballot | SubgroupOp::Partition) { 0..4 } else { 0..1 };
                    let result = words
                        .fold(0, |bits, word| bits | u128::from(registers.get(TO + word)[begin + id]) << (32 * word));
                    let is_equal = is_undefined || expected == Some(result);
                    assert!(is_equal, "{op:?} {size}, lane {id} of {:?}: {result}, not {expected:?}", case.active);
                }
            }
        }
    }

    #[test]
    fn misused_operands_are_reported() {
        let clustered = SubgroupOp::Reduce(Reduction::Clustered, Combine::Add);
        // Operation, sub-group size, arguments of the lanes in turn, cluster size of a rotation.
        let cases = [
            (SubgroupOp::Broadcast, 4, [1, 2], 4, "needs the same operand in all lanes, but has 0x1 and 0x2"),
            (SubgroupOp::Broadcast, 4, [9, 9], 4, ""),
            (SubgroupOp::Shuffle, 4, [1, 2], 4, ""),
            (SubgroupOp::Rotate, 4, [1, 3], 4, "needs the same operand in all lanes, but has 0x1 and 0x3"),
            (SubgroupOp::Rotate, 4, [1, 1], 8, "works on clusters of 8 lanes in sub-groups of 4"),
            (clustered, 4, [0, 0], 4, "works on clusters of 0 lanes in sub-groups of 4"),
            (clustered, 4, [3, 3], 4, "works on clusters of 3 lanes in sub-groups of 4"),
            (SubgroupOp::QuadAll, 2, [0, 0], 2, "works on clusters of 4 lanes in sub-groups of 2"),
        ];
        for (op, size, arguments, cluster, expected) in cases {
            let gang = Gang { group: 0, first: 0, lanes: size, subgroup_size: size };
            let mut registers = Registers::new(TO + 4, size as usize);
            for lane in 0..size as usize {
                registers.set(OPERANDS[1], lane, arguments[lane % 2]);
                registers.set(OPERANDS[2], lane, cluster);
            }
            let mut findings = Findings::default();
            let active = active_of(size as usize, |_| true);
            execute(&instruction(op, INT, true), &mut registers, &active, &gang, 7, &mut findings);
            let texts: Vec<&Subject> = findings.iter().map(|(finding, _)| &finding.subject).collect();
            let expected = Subject::Text(expected.to_string());
            let is_expected =
                if expected == Subject::Text(String::new()) { texts.is_empty() } else { texts == [&expected] };
            assert!(is_expected, "{op:?}: {texts:?}");
        }
    }

    #[test]
    fn floats_are_equal_by_value() {
        let float = Scalar::Float { bits: 32 };
        let cases = [(0.0, -0.0, true), (1.0, 1.0, true), (1.0, 2.0, false), (f32::NAN, f32::NAN, false)];
        for (left, right, expected) in cases {
            assert_eq!(
                is_equal(float, f32::to_bits(left).into(), f32::to_bits(right).into()),
                expected,
                "{left} {right}"
            );
        }
    }
}
