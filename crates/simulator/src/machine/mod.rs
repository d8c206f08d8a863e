//! The simulated device: executes the work-groups of a dispatch.

mod access;
mod execute;
mod gang_run;

use crate::code::{Pc, Reg, RegisterOp};
use crate::fault::FaultKind;
use crate::findings::{Hazards, Invocation, Object, Subject, UndefinedStores};
use crate::gang::Gang;
use crate::lanes::LaneSet;
use crate::lower::Kernel;
use crate::matrix::MatrixLayout;
use crate::memory::Memory;
use crate::precision::{GOLDEN_GAMMA, mix};
use crate::program::Reconvergence;
use crate::registers::Registers;
pub(crate) use access::{Bound, address};
use execute::BadIndex;
use gang_run::GangRun;
use rspirv::spirv::BuiltIn;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

/// Blocks that a gang runs before others have their turn.
const SLICE: u64 = 1 << 14;
/// The same once invocations wait for each other.
const SHORT_SLICE: u64 = 1 << 8;
/// Work, roughly in operations of a lane, between looks at the clock: some milliseconds.
const CHECK_INTERVAL: u64 = 1 << 18;
/// Rounds in which no invocation changed memory, after which all of them are taken to wait for one that has not begun.
const IDLE_ROUNDS: u32 = 3;
/// Most work-groups of a dispatch.
const MAX_GROUPS: u64 = 1 << 22;
/// Most bytes of registers and shared memory of the work-groups that run at once.
const MAX_GROUP_BYTES: u64 = 1 << 30;
/// Bytes of a register's entries in the lists of a gang.
const ENTRY_BYTES: u64 = 32;
/// Bytes of a register's heap blocks besides the values: their headers, and marks of undefined values.
const MARK_BYTES: u64 = 192;

/// Dispatch to execute.
pub(crate) struct Launch {
    pub(crate) groups: [u32; 3],
    pub(crate) subgroup_size: u32,
    /// Ranges bound to each slot, by element; `None` where nothing is bound.
    pub(crate) bindings: Vec<Vec<Option<Bound>>>,
    /// Bytes of each buffer, by number.
    pub(crate) buffer_bytes: Vec<u64>,
    pub(crate) push: Vec<u8>,
    /// Bytes behind the data of a buffer that can be read, as those of a larger allocation.
    pub(crate) readable_behind: u64,
    pub(crate) seed: u64,
    pub(crate) reconvergence: Reconvergence,
    pub(crate) is_loose: bool,
    pub(crate) deadline: Option<Instant>,
}

/// Reason why a dispatch did not end.
pub(crate) enum Stopped {
    TooLarge(String),
    TooLong(String),
}

/// Pseudo-random numbers for errors, by instruction and invocation, so that they do not depend on the schedule.
pub(crate) struct Random {
    seed: u64,
    count: u64,
}

impl Random {
    fn next(&mut self, pc: Pc, who: Invocation) -> u64 {
        self.count += 1;
        let place = self.seed ^ u64::from(pc) << 40 ^ u64::from(who.group) << 20 ^ u64::from(who.local);
        mix(place.wrapping_add(self.count.wrapping_mul(GOLDEN_GAMMA)))
    }
}

pub(crate) struct SimulatedDevice<'a> {
    kernel: &'a Kernel,
    memory: &'a mut Memory,
    launch: Launch,
    layout: Rc<MatrixLayout>,
    random: Random,
    /// Indices beyond their arrays that made the offset in a register.
    bad_indices: HashMap<Reg, BadIndex>,
    pub(crate) undefined_stores: UndefinedStores,
    /// Blocks that a gang runs before others have their turn.
    slice: u64,
    /// Work until the clock is read again, roughly in operations of a lane.
    until_check: u64,
    /// Whether the deadline has passed.
    is_late: bool,
    pub(crate) hazards: Hazards,
    /// For each exchange within sub-groups, a sum of hashes of the lanes that took part.
    pub(crate) exchanges: HashMap<Pc, u64>,
    /// Instructions times active lanes.
    pub(crate) operations: u64,
    /// Whether a work-group waited for another one.
    pub(crate) assumed_progress: bool,
}

/// Work-group in execution.
struct GroupRun {
    number: u32,
    gangs: Vec<GangRun>,
    /// Where the group waited when every group that had begun waited, and one more began for that.
    waited_at: Option<(Pc, Invocation)>,
}

impl<'a> SimulatedDevice<'a> {
    pub(crate) fn new(kernel: &'a Kernel, memory: &'a mut Memory, launch: Launch) -> Self {
        let layout = Rc::new(MatrixLayout::new(launch.seed));
        let random = Random { seed: launch.seed, count: 0 };
        Self {
            kernel,
            memory,
            launch,
            layout,
            random,
            bad_indices: HashMap::new(),
            undefined_stores: UndefinedStores::new(),
            slice: SLICE,
            until_check: CHECK_INTERVAL,
            is_late: false,
            hazards: Hazards::new(),
            exchanges: HashMap::new(),
            operations: 0,
            assumed_progress: false,
        }
    }

    fn invocations(&self) -> u64 {
        product(self.kernel.module.local_size)
    }

    /// Executes the dispatch. Faults are in the memory's findings.
    pub(crate) fn dispatch(&mut self) -> Result<(), Stopped> {
        let invocations = self.invocations();
        if invocations == 0 || invocations > crate::lanes::MAX_LANES as u64 {
            return Err(Stopped::TooLarge(format!("its work-groups have {invocations} invocations")));
        }
        let count = product(self.launch.groups);
        if count > MAX_GROUPS {
            return Err(Stopped::TooLong(format!("it has {count} work-groups; choose a smaller size")));
        }
        self.check_group_bytes(1)?;
        let (groups, shared) = (count as u32, self.kernel.code.shared_bytes);
        let subgroup = self.launch.subgroup_size;
        self.memory.begin_dispatch(groups, invocations as u32, subgroup, shared, self.kernel.granule);
        self.run_groups(self.order(groups))
    }

    /// Checks the memory of work-groups that run at once: registers of single sub-groups, and shared memory.
    fn check_group_bytes(&self, groups: usize) -> Result<(), Stopped> {
        let Kernel { code, granule, shadow_bytes, .. } = self.kernel;
        let (invocations, subgroup_size) = (self.invocations(), u64::from(self.launch.subgroup_size));
        let used = code.used.iter().filter(|used| **used).count() as u64;
        let overhead = code.used.len() as u64 * ENTRY_BYTES + used * MARK_BYTES;
        let registers = used * invocations * 8 + overhead * invocations.div_ceil(subgroup_size);
        let shared = code.shared_bytes * (2 + shadow_bytes / u64::from(*granule));
        let bytes = (registers + shared).saturating_mul(groups as u64);
        if bytes <= MAX_GROUP_BYTES {
            return Ok(());
        }
        let [bytes, most] = [bytes, MAX_GROUP_BYTES].map(gpukern_model::basis::units::Bytes);
        let whose = if groups == 1 { "a work-group".into() } else { format!("{groups} work-groups that wait") };
        Err(Stopped::TooLarge(format!("its values take {bytes} for {whose}, of at most {most}")))
    }

    /// Returns the order in which work-groups begin: ascending for seed 0, otherwise shuffled.
    fn order(&self, groups: u32) -> VecDeque<u32> {
        let mut order: Vec<u32> = (0..groups).collect();
        shuffle(&mut order, self.launch.seed);
        order.into()
    }

    /// Runs all groups: one at a time as long as it goes on, in turns if it waits for others.
    fn run_groups(&mut self, mut waiting: VecDeque<u32>) -> Result<(), Stopped> {
        let mut running: VecDeque<GroupRun> = VecDeque::new();
        let mut spare: Vec<GangRun> = vec![];
        let mut idle_rounds = 0;
        // Lanes that were interrupted because they may wait for others of their sub-group.
        let mut suspects = vec![];
        let total = waiting.len();
        loop {
            if running.is_empty() {
                let Some(number) = waiting.pop_front() else { return Ok(()) };
                running.push_back(self.begin(number, &mut spare));
            }
            let changes = self.memory.changes;
            let mut has_ended = false;
            for _ in 0..running.len() {
                let Some(mut group) = running.pop_front() else { break };
                if self.run_group(&mut group) {
                    running.push_back(group);
                    continue;
                }
                has_ended = true;
                self.end(group, &mut spare);
            }
            self.check_deadline(total - waiting.len() - running.len(), total)?;
            if has_ended || self.memory.changes != changes {
                for (pc, who) in suspects.drain(..) {
                    self.memory.findings.report(FaultKind::Progress, pc, None, who, || Subject::Advised {
                        text: "waits for another invocation of its sub-group, which runs only if this one is interrupted",
                        remedy: "do in the loop what the others wait for, or let one invocation per sub-group wait",
                    });
                }
                idle_rounds = 0;
                continue;
            }
            idle_rounds += 1;
            if idle_rounds >= IDLE_ROUNDS && running.iter().any(is_spinning) {
                idle_rounds = 0;
                self.slice = SHORT_SLICE;
                if unblock(&mut running, &mut suspects) {
                    continue;
                }
                // Interruptions did not help.
                suspects.clear();
                let Some(number) = waiting.pop_front() else {
                    self.give_up(&running);
                    return Ok(());
                };
                self.check_group_bytes(running.len() + 1)?;
                self.assumed_progress = true;
                for group in &mut running {
                    group.waited_at = group.waited_at.or_else(|| waiting_at(group));
                }
                running.push_back(self.begin(number, &mut spare));
            }
        }
    }

    /// Counts work, and looks at the clock from time to time. Returns whether the deadline has passed.
    #[inline]
    fn spend(&mut self, work: u64) -> bool {
        if let Some(rest) = self.until_check.checked_sub(work) {
            self.until_check = rest;
        } else {
            self.until_check = CHECK_INTERVAL;
            self.is_late |= self.memory.is_full();
            self.is_late |= self.launch.deadline.is_some_and(|deadline| Instant::now() > deadline);
        }
        self.is_late
    }

    fn check_deadline(&self, done: usize, total: usize) -> Result<(), Stopped> {
        if self.memory.is_full() {
            return Err(Stopped::TooLarge("its invocations synchronize too often; choose a smaller size".into()));
        }
        if self.is_late || self.launch.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(Stopped::TooLong(format!(
                "after --timeout, {done} of {total} work-groups were done: does a loop wait forever? If not, choose a smaller \
                 size or a longer --timeout"
            )));
        }
        Ok(())
    }

    /// Begins a work-group.
    fn begin(&mut self, number: u32, spare: &mut Vec<GangRun>) -> GroupRun {
        self.memory.begin_group(number);
        let invocations = self.invocations() as u32;
        let size = self.launch.subgroup_size;
        // In step if the seed is 0; otherwise each sub-group by itself.
        let lanes = if self.launch.seed == 0 { invocations.next_multiple_of(size) } else { size };
        let mut gangs = vec![];
        for first in (0..invocations).step_by(lanes as usize) {
            let gang = Gang { group: number, first, lanes: lanes.min(invocations - first), subgroup_size: size };
            let reusable = spare.iter().position(|run| run.gang.lanes == gang.lanes);
            let mut run = match reusable {
                Some(index) => {
                    let mut run = spare.swap_remove(index);
                    run.restart(gang, self.launch.reconvergence);
                    run
                }
                None => self.new_run(gang),
            };
            self.set_builtins(&mut run);
            gangs.push(run);
        }
        shuffle(&mut gangs, self.launch.seed.wrapping_mul(u64::from(number) + 1));
        GroupRun { number, gangs, waited_at: None }
    }

    fn new_run(&self, gang: Gang) -> GangRun {
        let mut registers = Registers::new(&self.kernel.code.used, gang.lanes as usize);
        for (register, bits) in &self.kernel.code.constants {
            registers.put(*register, vec![*bits; gang.lanes as usize]);
        }
        let Launch { reconvergence, seed, .. } = self.launch;
        // Where lanes meet depends on whether the seed is odd, if anything does.
        let bits = if reconvergence == Reconvergence::AtMerges { seed } else { seed / 2 };
        GangRun::new(gang, registers, reconvergence, bits % 2 == 1)
    }

    fn end(&mut self, group: GroupRun, spare: &mut Vec<GangRun>) {
        if let Some((pc, who)) = group.waited_at {
            self.add_text(FaultKind::Progress, pc, who, || {
                "waits for a work-group that need not run before it ends".into()
            });
        }
        self.memory.end_group(group.number);
        if !self.undefined_stores.is_empty() {
            self.undefined_stores.retain(|(object, _), _| *object != Object::Shared);
        }
        // Gangs that were split do not serve as others do.
        if spare.len() < 1 + self.invocations() as usize / self.launch.subgroup_size as usize {
            spare.extend(group.gangs);
        }
    }

    /// Reports that every invocation waits.
    fn give_up(&mut self, running: &VecDeque<GroupRun>) {
        for group in running {
            if let Some((pc, who)) = waiting_at(group) {
                self.memory.findings.report(FaultKind::Progress, pc, None, who, || Subject::Advised {
                    text: "waits for what no invocation does",
                    remedy: "let another invocation do it, which does not wait before",
                });
            }
            self.memory.end_group(group.number);
        }
    }

    /// Runs a group until it ends, or for a time slice of each gang. Returns whether it still runs.
    fn run_group(&mut self, group: &mut GroupRun) -> bool {
        loop {
            let mut goes_on = false;
            for run in &mut group.gangs {
                run.atomics = 0;
                goes_on |= self.run_gang(run, self.slice);
            }
            if goes_on || self.spend(1 + group.gangs.len() as u64) {
                return true;
            }
            if !self.release_barrier(group) {
                let is_stuck = group.gangs.iter().any(|run| !run.pending.is_empty());
                if !is_stuck {
                    return false;
                }
                group.gangs.iter_mut().for_each(GangRun::leave_joins);
            }
        }
    }

    /// Lets the invocations go on that wait at a barrier of their group, once nobody runs. Returns whether there are any.
    fn release_barrier(&mut self, group: &mut GroupRun) -> bool {
        let mut parked: Vec<Pc> = group.gangs.iter().flat_map(|run| run.parked.iter().map(|(pc, _)| *pc)).collect();
        parked.sort_unstable();
        parked.dedup();
        let Some(&pc) = parked.first() else { return false };
        let missing = group.gangs.iter().find_map(|run| {
            let mut here = LaneSet::EMPTY;
            run.parked.iter().filter(|(at, _)| *at == pc).for_each(|(_, lanes)| here = here.or(lanes));
            let lane = run.all().without(&here).iter().next()?;
            Some((run.gang.invocation(lane), run.finished.contains(lane)))
        });
        if let Some((who, has_ended)) = missing {
            let kind = FaultKind::DivergentBarrier;
            let other = parked.get(1).copied();
            let text = if has_ended {
                "waits for all invocations, but one has ended"
            } else {
                "waits for all invocations, but one does not come here"
            };
            self.memory.findings.report(kind, pc, other, who, || Subject::Text(text.into()));
        }
        if let RegisterOp::ControlBarrier { memory, .. } = self.kernel.code.instructions[pc as usize] {
            self.memory.control_barrier(group.number, None, memory);
        }
        for run in &mut group.gangs {
            let parked = std::mem::take(&mut run.parked);
            for (at, lanes) in parked {
                if at == pc { run.push(pc + 1, lanes) } else { run.parked.push((at, lanes)) }
            }
        }
        true
    }

    /// Sets the registers of built-in values.
    fn set_builtins(&self, run: &mut GangRun) {
        let gang = run.gang;
        for (builtin, first, count) in &self.kernel.builtins {
            let mut values = [0; 4];
            for lane in 0..gang.lanes as usize {
                if lane == 0
                    || !matches!(builtin, BuiltIn::NumWorkgroups | BuiltIn::WorkgroupSize | BuiltIn::WorkgroupId)
                {
                    values = self.builtin(*builtin, &gang, lane);
                }
                let used = (*first..first + count)
                    .zip(values)
                    .filter(|(register, _)| self.kernel.code.used[*register as usize]);
                for (register, value) in used {
                    run.registers.set(register, lane, u64::from(value));
                }
            }
        }
    }

    /// Returns the components of a built-in value; those of scalars are in the first.
    fn builtin(&self, builtin: BuiltIn, gang: &Gang, lane: usize) -> [u32; 4] {
        let [width, height, _] = self.kernel.module.local_size;
        let local = gang.first + lane as u32;
        let size = gang.subgroup_size;
        let position = || [local % width, local / width % height, local / width / height];
        let [columns, rows, _] = self.launch.groups;
        let group = || [gang.group % columns, gang.group / columns % rows, gang.group / columns / rows];
        let vector = |[x, y, z]: [u32; 3]| [x, y, z, 0];
        let scalar = |value: u32| [value, 0, 0, 0];
        let subgroup_lane = local % size;
        // Bits of the lanes from `begin` to `end`.
        let mask = |begin: u32, end: u32| {
            let bits = |count: u32| if count >= 128 { u128::MAX } else { (1 << count) - 1 };
            let bits = bits(end) & !bits(begin);
            [bits as u32, (bits >> 32) as u32, (bits >> 64) as u32, (bits >> 96) as u32]
        };
        match builtin {
            BuiltIn::NumWorkgroups => vector(self.launch.groups),
            BuiltIn::WorkgroupSize => vector(self.kernel.module.local_size),
            BuiltIn::WorkgroupId => vector(group()),
            BuiltIn::LocalInvocationId => vector(position()),
            BuiltIn::GlobalInvocationId => {
                let (extents, group, position) = (self.kernel.module.local_size, group(), position());
                vector(std::array::from_fn(|axis| group[axis].wrapping_mul(extents[axis]).wrapping_add(position[axis])))
            }
            BuiltIn::LocalInvocationIndex => scalar(local),
            BuiltIn::SubgroupSize => scalar(size),
            BuiltIn::NumSubgroups => scalar((self.invocations() as u32).div_ceil(size)),
            BuiltIn::SubgroupId => scalar(local / size),
            BuiltIn::SubgroupLocalInvocationId => scalar(subgroup_lane),
            BuiltIn::SubgroupEqMask => mask(subgroup_lane, subgroup_lane + 1),
            BuiltIn::SubgroupGeMask => mask(subgroup_lane, size),
            BuiltIn::SubgroupGtMask => mask(subgroup_lane + 1, size),
            BuiltIn::SubgroupLeMask => mask(0, subgroup_lane + 1),
            BuiltIn::SubgroupLtMask => mask(0, subgroup_lane),
            // Device index, view index and the like.
            _ => [0; 4],
        }
    }
}

/// Returns the product of three extents; the greatest number if it is larger.
fn product(extents: [u32; 3]) -> u64 {
    if extents.contains(&0) {
        0
    } else {
        extents.into_iter().fold(1, |all, extent| u64::saturating_mul(all, extent.into()))
    }
}

/// Lets a gang of waiting sub-groups, or, if there is none, lanes that may wait for others of their sub-group, run one by
/// one. Returns whether there was one that did not; `suspects` are the lanes.
fn unblock(running: &mut VecDeque<GroupRun>, suspects: &mut Vec<(Pc, Invocation)>) -> bool {
    let mut was_unblocked = false;
    for group in running.iter_mut().filter(|group| is_spinning(group)) {
        if let Some(index) = group.gangs.iter().position(|run| run.gang.lanes > run.gang.subgroup_size) {
            let parts = group.gangs[index].split();
            group.gangs.splice(index..=index, parts);
            was_unblocked = true;
        }
    }
    if was_unblocked {
        return true;
    }
    let known = suspects.len();
    let gangs = running.iter_mut().flat_map(|group| &mut group.gangs);
    for run in gangs.filter(|run| run.atomics > 0 && run.pending.len() > 1 && !run.is_interrupted()) {
        run.interrupt();
        suspects.push((run.last_atomic.unwrap_or(run.pending[0].0), run.gang.invocation(0)));
    }
    suspects.len() > known
}

/// Returns an atomic that a group executed in its last time slice, as one that waits does.
fn waiting_at(group: &GroupRun) -> Option<(Pc, Invocation)> {
    let run = group.gangs.iter().find(|run| run.atomics > 0)?;
    Some((run.last_atomic?, run.gang.invocation(0)))
}

/// Whether a group executed atomics in its last time slice, as one that waits does.
fn is_spinning(group: &GroupRun) -> bool {
    waiting_at(group).is_some()
}

/// Shuffles a list by a seed; seed 0 leaves it in order.
fn shuffle<T>(list: &mut [T], seed: u64) {
    if seed == 0 {
        return;
    }
    let mut random = Random { seed, count: 0 };
    let nobody = Invocation { group: 0, local: 0, subgroup: 0 };
    for last in (1..list.len()).rev() {
        list.swap(last, (random.next(0, nobody) % (last as u64 + 1)) as usize);
    }
}
