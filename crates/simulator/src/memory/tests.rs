//! Rules of races and unwritten bytes: each idiom, and the idiom without the synchronisation that it needs.

use super::*;

const SUBGROUP: u32 = 4;
const BUFFER: Object = Object::Buffer(0);
/// Semantics of GLSL's `barrier()` and of one that orders buffers too.
const BARRIER: Semantics = Semantics { scope: 2, bits: 0x108 };
const BARRIER_ALL: Semantics = Semantics { scope: 2, bits: 0x148 };
/// Barrier that only waits.
const CONTROL: Semantics = Semantics { scope: 2, bits: 0 };
/// GLSL's `memoryBarrierBuffer()`, `groupMemoryBarrier()`, `memoryBarrierShared()` and `subgroupMemoryBarrierShared()`.
const FENCE_BUFFER: Semantics = Semantics { scope: 1, bits: 0x48 };
const FENCE_GROUP: Semantics = Semantics { scope: 2, bits: 0x148 };
const FENCE_SHARED: Semantics = Semantics { scope: 1, bits: 0x108 };
const FENCE_SUBGROUP: Semantics = Semantics { scope: 3, bits: 0x148 };
const RELAXED: Semantics = Semantics { scope: 1, bits: 0 };
const RELEASE: Semantics = Semantics { scope: 1, bits: 0x44 };
const ACQUIRE: Semantics = Semantics { scope: 1, bits: 0x42 };
const ACQ_REL: Semantics = Semantics { scope: 1, bits: 0x48 };

/// Memory with two groups of eight invocations, in sub-groups of four.
struct Bench {
    memory: Memory,
    granule: u32,
}

/// Invocation by group and local index.
type Who = (u32, u32);

impl Bench {
    fn new() -> Self {
        Self::with(4, 2)
    }

    fn with(granule: u32, groups: u32) -> Self {
        let mut bench = Self { memory: Memory::new(vec![(vec![0; 4096], true), (vec![0; 64], false)]), granule };
        bench.begin(groups);
        bench
    }

    fn begin(&mut self, groups: u32) {
        self.memory.begin_dispatch(groups, 8, SUBGROUP, 256, self.granule);
        for group in 0..groups {
            self.memory.begin_group(group);
        }
    }

    fn who((group, local): Who) -> Invocation {
        Invocation { group, local, subgroup: local / SUBGROUP }
    }

    fn load(&mut self, who: Who, object: Object, offset: u64, pc: Pc) -> u64 {
        self.memory.load(Self::who(who), object, offset, self.granule, pc).bits
    }

    fn store(&mut self, who: Who, object: Object, offset: u64, value: u64, pc: Pc) {
        self.memory.store(Self::who(who), object, offset, self.granule, value, false, pc);
    }

    fn add(&mut self, who: Who, object: Object, offset: u64, semantics: Semantics) {
        self.memory.atomic(Self::who(who), object, offset, 4, semantics, 90, |old| Some(old.wrapping_add(1)));
    }

    fn poll(&mut self, who: Who, object: Object, offset: u64, semantics: Semantics) {
        self.memory.atomic(Self::who(who), object, offset, 4, semantics, 91, |_| None);
    }

    fn barrier(&mut self, group: u32, semantics: Semantics) {
        self.memory.control_barrier(group, None, semantics);
    }

    fn fence(&mut self, who: Who, semantics: Semantics) {
        self.memory.memory_barrier(Self::who(who), semantics);
    }

    fn fence_all(&mut self, group: u32, semantics: Semantics) {
        for local in 0..8 {
            self.fence((group, local), semantics);
        }
    }

    /// Kinds of the findings and the instructions of their two accesses.
    fn found(&self) -> Vec<(FaultKind, Pc, Option<Pc>)> {
        self.memory.findings.iter().map(|(finding, _)| (finding.kind, finding.pc, finding.other)).collect()
    }
}

/// Runs a script and checks the kinds of fault that it leads to.
fn check(name: &str, script: impl FnOnce(&mut Bench), expected: &[FaultKind]) {
    let mut bench = Bench::new();
    script(&mut bench);
    let kinds: Vec<_> = bench.found().iter().map(|finding| finding.0).collect();
    assert_eq!(kinds, expected, "{name}");
}

use FaultKind::{Lockstep, RaceShared, RaceStorage};

#[test]
fn control_barriers_order_the_classes_that_they_name() {
    let cases: [(&str, Object, Option<Semantics>, &[FaultKind]); 8] = [
        ("barrier() orders shared memory", Object::Shared, Some(BARRIER), &[]),
        ("barrier() orders no buffers", BUFFER, Some(BARRIER), &[RaceStorage]),
        ("0x40 orders buffers", BUFFER, Some(BARRIER_ALL), &[]),
        ("no semantics order nothing", Object::Shared, Some(CONTROL), &[RaceShared]),
        (
            "classes without an ordering order nothing",
            BUFFER,
            Some(Semantics { scope: 2, bits: 0x140 }),
            &[RaceStorage],
        ),
        ("scope of a sub-group orders no group", BUFFER, Some(FENCE_SUBGROUP), &[RaceStorage]),
        ("no barrier, shared", Object::Shared, None, &[RaceShared]),
        ("no barrier, buffer", BUFFER, None, &[RaceStorage]),
    ];
    for (name, object, barrier, expected) in cases {
        for readers_first in [false, true] {
            let script = |bench: &mut Bench| {
                if readers_first {
                    bench.load((0, 6), object, 8, 1);
                } else {
                    bench.store((0, 0), object, 8, 7, 1);
                }
                if let Some(barrier) = barrier {
                    bench.barrier(0, barrier);
                }
                if readers_first {
                    bench.store((0, 0), object, 8, 7, 2);
                } else {
                    bench.load((0, 6), object, 8, 2);
                }
            };
            check(name, script, expected);
        }
    }
}

#[test]
fn fences_beside_a_barrier_order_their_class() {
    let cases: [(&str, Option<Semantics>, Option<Semantics>, &[FaultKind]); 6] = [
        ("memoryBarrierBuffer(); barrier();", Some(FENCE_BUFFER), None, &[]),
        ("barrier(); memoryBarrierBuffer();", None, Some(FENCE_BUFFER), &[]),
        ("groupMemoryBarrier(); barrier();", Some(FENCE_GROUP), None, &[]),
        ("memoryBarrierShared(); barrier();", Some(FENCE_SHARED), None, &[RaceStorage]),
        ("subgroupMemoryBarrier(); barrier();", Some(FENCE_SUBGROUP), None, &[RaceStorage]),
        ("barrier();", None, None, &[RaceStorage]),
    ];
    for (name, before, after, expected) in cases {
        let script = |bench: &mut Bench| {
            bench.store((0, 0), BUFFER, 8, 7, 1);
            before.into_iter().for_each(|fence| bench.fence_all(0, fence));
            bench.barrier(0, BARRIER);
            after.into_iter().for_each(|fence| bench.fence_all(0, fence));
            bench.load((0, 6), BUFFER, 8, 2);
        };
        check(name, script, expected);
    }
    let late = |bench: &mut Bench| {
        bench.fence_all(0, FENCE_BUFFER);
        bench.store((0, 0), BUFFER, 8, 7, 1);
        bench.barrier(0, BARRIER);
        bench.load((0, 6), BUFFER, 8, 2);
    };
    check("a write between fence and barrier", late, &[RaceStorage]);
    let without_barrier = |bench: &mut Bench| {
        bench.store((0, 0), Object::Shared, 8, 7, 1);
        bench.fence_all(0, FENCE_SHARED);
        bench.load((0, 6), Object::Shared, 8, 2);
    };
    check("a fence without a barrier", without_barrier, &[RaceShared]);
}
