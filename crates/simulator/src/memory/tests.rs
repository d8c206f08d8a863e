//! Rules of races and unwritten bytes: each idiom, and the idiom without the synchronization that it needs.
//!
//! A script is a sequence of steps `INVOCATION:OPERATION`. The invocation is `group.local`, or `group.*` for all eight in
//! turn; sub-groups have four. Operations are `r` (load), `w` (store), `a` (atomic add) and `p` (atomic load) of a cell of
//! the buffer (`b`) or shared memory (`s`), `f` (memory barrier), `c` (control barrier of the group) and `g` (of the
//! sub-group), with semantics after a slash. An instruction's number is that of its step, from 1 on, so that `>` is needed
//! to repeat the step before.

use super::*;

/// Semantics by name, with scope and bits: `barrier` is GLSL's `barrier()`, `all` orders buffers too; `buffer`, `shared`
/// and `subgroup` are memory barriers.
const SEMANTICS: &str = "relaxed 1 0, relaxed-group 2 0, acquire 1 42, release 1 44, acqrel 1 48, acquire-group 2 42, \
    release-group 2 44, release-shared 1 104, barrier 2 108, all 2 148, none 2 0, unordered 2 140, buffer 1 48, \
    shared 1 108, subgroup 3 148";

fn semantics(name: &str) -> Semantics {
    let mut all = SEMANTICS.split(", ").map(|text| text.split(' ').collect::<Vec<_>>());
    let words = all.find(|words| words[0] == name).expect("semantics");
    let number = |text: &str| u32::from_str_radix(text, 16).expect("a number");
    Semantics { scope: number(words[1]), bits: number(words[2]) }
}

/// Executes a step in one invocation.
fn step(memory: &mut Memory, who: Invocation, operation: &str, granule: u32, pc: Pc) {
    let (action, order) = operation.split_once('/').unwrap_or((operation, "relaxed"));
    let order = semantics(order);
    let (place, value) = action.split_once('=').unwrap_or((action, "0"));
    let object = if place[1..].starts_with('s') { Object::Shared } else { Object::Buffer(0) };
    let offset = place.get(2..).map_or(0, |cell| cell.parse::<u64>().unwrap_or(0) * u64::from(granule));
    let add = |old: u64| Some(old.wrapping_add(1));
    match &action[..1] {
        "r" => drop(memory.load(who, object, offset, granule, pc)),
        "w" => memory.store(who, object, offset, granule, value.parse().unwrap_or(0), false, pc),
        "a" => drop(memory.atomic(who, object, offset, granule, order, pc, add)),
        "p" => drop(memory.atomic(who, object, offset, granule, order, pc, |_| None)),
        "f" => memory.memory_barrier(who, order),
        "c" => memory.control_barrier(who.group, None, order),
        "g" => memory.control_barrier(who.group, Some(who.subgroup), order),
        _ => panic!("operation {operation}"),
    }
}

/// Runs a script in a dispatch of four groups and returns the findings: `race-shared 3-1` for step 3 against step 1.
fn run(memory: &mut Memory, script: &str, granule: u32) -> String {
    memory.begin_dispatch(4, 8, 4, 256, granule);
    (0..4).for_each(|group| memory.begin_group(group));
    let mut pc = 0;
    for text in script.split_whitespace() {
        let (repeats, text) = text.strip_prefix('>').map_or((false, text), |text| (true, text));
        pc += Pc::from(!repeats);
        let (who, operation) = text.split_once(':').expect("an invocation");
        let (group, local) = who.split_once('.').expect("a local index");
        let locals = local.parse().map_or(0..8, |local: u32| local..local + 1);
        for local in locals {
            let who = Invocation { group: group.parse().expect("a group"), local, subgroup: local / 4 };
            step(memory, who, operation, granule, pc);
        }
    }
    let found = memory
        .findings
        .iter()
        .map(|(finding, _)| format!("{} {}-{}", finding.kind, finding.pc, finding.other.expect("another access")));
    found.collect::<Vec<_>>().join(", ")
}

fn check(cases: &[(&str, &str, &str)]) {
    for granule in [4, 1] {
        for (name, script, expected) in cases {
            assert_eq!(
                run(&mut Memory::new(vec![(vec![0; 256], true)]), script, granule),
                *expected,
                "{name}, granule {granule}: {script}"
            );
        }
    }
}

#[test]
fn control_barriers_order_the_classes_that_they_name() {
    check(&[
        ("barrier() orders shared memory", "0.0:ws1=7 0.0:c/barrier 0.6:rs1", ""),
        ("and writes after reads", "0.6:rs1 0.0:c/barrier 0.0:ws1=7", ""),
        ("and nothing of buffers", "0.0:wb1=7 0.0:c/barrier 0.6:rb1", "race-storage 3-1"),
        ("0x40 orders buffers", "0.0:wb1=7 0.0:c/all 0.6:rb1", ""),
        ("a barrier without semantics", "0.0:ws1=7 0.0:c/none 0.6:rs1", "race-shared 3-1"),
        ("a barrier without acquire or release", "0.0:wb1=7 0.0:c/unordered 0.6:rb1", "race-storage 3-1"),
        ("scope of a sub-group", "0.0:ws1=7 0.0:c/subgroup 0.6:rs1", "race-shared 3-1"),
        ("no barrier", "0.0:ws1=7 0.6:rs1", "race-shared 2-1"),
        ("no barrier, reader first", "0.6:rs1 0.0:ws1=7", "race-shared 2-1"),
        ("another cell", "0.0:ws1=7 0.6:rs2", ""),
        ("program order", "0.0:ws1=7 0.0:rs1 0.0:ws1=8", ""),
        ("a barrier of another group", "0.0:wb1=7 1.0:c/all 0.6:rb1", "race-storage 3-1"),
        ("a barrier for another group", "0.0:wb1=7 0.0:c/all 1.0:c/all 1.0:rb1", "race-storage 4-1"),
        ("shared memory of another group", "0.0:ws1=7 1.0:rs1 1.1:rs1", ""),
    ]);
}

#[test]
fn fences_beside_a_barrier_order_their_class() {
    check(&[
        ("memoryBarrierBuffer(); barrier();", "0.0:wb1=7 0.*:f/buffer 0.0:c/barrier 0.6:rb1", ""),
        ("barrier(); memoryBarrierBuffer();", "0.0:wb1=7 0.0:c/barrier 0.*:f/buffer 0.6:rb1", "race-storage 4-1"),
        ("of another class", "0.0:wb1=7 0.*:f/shared 0.0:c/barrier 0.6:rb1", "race-storage 4-1"),
        ("of a sub-group", "0.0:wb1=7 0.*:f/subgroup 0.0:c/barrier 0.6:rb1", "race-storage 4-1"),
        ("a write after the fence", "0.*:f/buffer 0.0:wb1=7 0.0:c/barrier 0.6:rb1", "race-storage 4-2"),
        ("a read before the fence", "0.0:wb1=7 0.0:c/barrier 0.6:rb1 0.*:f/buffer", "race-storage 3-1"),
        ("fences alone", "0.0:ws1=7 0.*:f/shared 0.6:rs1", "race-shared 3-1"),
        ("shared memory", "0.0:ws1=7 0.*:f/shared 0.0:c/none 0.6:rs1", ""),
    ]);
}

#[test]
fn sub_groups_need_their_own_barriers() {
    check(&[
        ("in step", "0.0:ws1=7 0.1:rs1", "lockstep 2-1"),
        ("the same instruction", "0.0:ws1=7 >0.1:ws1=8", "race-shared 1-1"),
        ("subgroupBarrier()", "0.0:ws1=7 0.0:g/subgroup 0.1:rs1", ""),
        ("of another sub-group", "0.0:ws1=7 0.4:g/subgroup 0.1:rs1", "lockstep 3-1"),
        ("between sub-groups", "0.0:ws1=7 0.0:g/subgroup 0.4:g/subgroup 0.4:rs1", "race-shared 4-1"),
        ("without semantics", "0.0:ws1=7 0.0:g/none 0.1:rs1", "lockstep 3-1"),
        ("memory barrier", "0.0:ws1=7 0.*:f/subgroup 0.1:rs1", ""),
        ("wider memory barrier", "0.0:ws1=7 0.*:f/shared 0.1:rs1", ""),
        ("memory barrier of another class", "0.0:ws1=7 0.*:f/buffer 0.1:rs1", "lockstep 3-1"),
        ("memory barrier of the writer only", "0.0:ws1=7 0.0:f/shared 0.1:rs1", "lockstep 3-1"),
    ]);
}

#[test]
fn writes_meet_every_reader() {
    check(&[
        ("last reader is the writer", "0.5:rs1 0.1:rs1 0.1:ws1=7", "race-shared 3-1"),
        ("first reader is the writer", "0.1:rs1 0.5:rs1 0.1:ws1=7", "race-shared 3-2"),
        ("reader between", "0.1:rs1 0.5:rs1 0.1:rs1 0.1:ws1=7", "race-shared 4-2"),
        ("same sub-group, then another", "0.5:rs1 0.0:rs1 0.1:rs1 0.1:ws1=7", "race-shared 4-1"),
        ("another group", "1.0:rb1 0.0:rb1 0.1:rb1 0.0:c/all 0.1:wb1=7", "race-storage 5-1"),
        ("after a barrier", "0.5:rs1 0.0:rs1 0.1:rs1 0.0:c/barrier 0.1:ws1=7", ""),
    ]);
}

#[test]
fn equal_values_may_be_stored_together() {
    check(&[
        ("same value", "0.*:ws1=0 0.0:c/barrier 0.*:ws2=1", ""),
        ("different values", "0.0:ws1=1 >0.4:ws1=2", "race-shared 1-1"),
        ("a value that was there, then another", "0.0:wb1=0 >0.4:wb1=2", "race-storage 1-1"),
        ("a read beside writes of a new value", "0.0:wb1=1 >0.4:wb1=1 0.4:rb1", "race-storage 2-1"),
        ("a read beside a write that changes nothing", "0.0:wb1=0 0.4:rb1", ""),
        ("across groups", "0.0:wb1=1 >1.0:wb1=1 >2.0:wb1=1", ""),
    ]);
}

#[test]
fn atomics_race_with_plain_accesses_only() {
    check(&[
        ("atomics", "0.*:as1 1.*:ab1 0.*:ab1 2.*:pb1", ""),
        ("a plain read", "0.*:as1 0.7:rs1", "race-shared 2-1"),
        ("a plain read after a barrier", "0.*:as1 0.0:c/barrier 0.7:rs1", ""),
        ("an atomic load and a plain read", "0.*:ps1 0.7:rs1", ""),
        ("initial value", "0.0:wb1=1 0.0:c/all 0.*:ab1 1.0:ab1", "race-storage 4-1"),
        ("initial value of the group", "0.0:ws1=1 0.0:c/barrier 0.*:as1", ""),
        ("initial value, no barrier", "0.0:ws1=1 0.4:as1", "race-shared 2-1"),
        ("too narrow a scope", "0.0:ab1/relaxed-group 1.0:ab1/relaxed-group", "race-storage 2-1"),
        ("narrow scope in the group", "0.0:ab1/relaxed-group 0.4:ab1/relaxed-group", ""),
    ]);
}

#[test]
fn atomics_synchronize_groups() {
    check(&[
        ("flag", "0.0:wb1=7 0.0:ab9/release 1.0:pb9/acquire 1.0:rb1", ""),
        ("flag without release", "0.0:wb1=7 0.0:ab9 1.0:pb9/acquire 1.0:rb1", "race-storage 4-1"),
        ("flag without acquire", "0.0:wb1=7 0.0:ab9/release 1.0:pb9 1.0:rb1", "race-storage 4-1"),
        ("flag of another class", "0.0:wb1=7 0.0:ab9/release-shared 1.0:pb9/acquire 1.0:rb1", "race-storage 4-1"),
        ("another flag", "0.0:wb1=7 0.0:ab9/release 1.0:pb8/acquire 1.0:rb1", "race-storage 4-1"),
        ("flag read too early", "0.0:wb1=7 1.0:pb9/acquire 0.0:ab9/release 1.0:rb1", "race-storage 4-1"),
        ("write after the release", "0.0:ab9/release 0.0:wb1=7 1.0:pb9/acquire 1.0:rb1", "race-storage 4-2"),
        (
            "scope of a group",
            "0.0:wb1=7 0.0:ab9/release-group 1.0:pb9/acquire 1.0:rb1",
            "race-storage 3-2, race-storage 4-1",
        ),
        ("scope within a group", "0.0:wb1=7 0.0:ab9/release-group 0.4:pb9/acquire-group 0.4:rb1", ""),
        ("fences", "0.0:wb1=7 0.0:f/buffer 0.0:ab9 1.0:pb9 1.0:f/buffer 1.0:rb1", ""),
        ("no fence before", "0.0:wb1=7 0.0:ab9 1.0:pb9 1.0:f/buffer 1.0:rb1", "race-storage 5-1"),
        ("no fence after", "0.0:wb1=7 0.0:f/buffer 0.0:ab9 1.0:pb9 1.0:rb1", "race-storage 5-1"),
        ("write after the fence", "0.0:f/buffer 0.0:wb1=7 0.0:ab9 1.0:pb9 1.0:f/buffer 1.0:rb1", "race-storage 6-2"),
        ("write after read", "0.0:rb1 0.0:ab9/release 1.0:pb9/acquire 1.0:wb1=7", ""),
        ("other lanes", "0.5:wb1=7 0.0:c/all 0.0:ab9/release 1.0:pb9/acquire 1.0:c/all 1.6:rb1", ""),
        ("other lanes, no barrier before", "0.5:wb1=7 0.0:ab9/release 1.0:pb9/acquire 1.0:rb1", "race-storage 4-1"),
        ("other lanes, no barrier after", "0.0:wb1=7 0.0:ab9/release 1.0:pb9/acquire 1.6:rb1", "race-storage 4-1"),
        ("old idiom", "0.5:wb1=7 0.*:f/buffer 0.0:c/barrier 0.0:ab9 1.0:pb9 1.0:f/buffer 1.0:c/barrier 1.6:rb1", ""),
        ("late fence", "0.0:wb1=7 0.0:ab9/release 1.0:pb9/acquire 1.0:c/barrier 1.*:f/buffer 1.6:rb1", ""),
        ("late fences", "0.0:wb1=7 0.0:f/buffer 0.0:ab9 1.0:pb9 1.0:c/barrier 1.*:f/buffer 1.6:rb1", ""),
        ("sub-group", "0.1:wb1=7 0.0:g/subgroup 0.0:ab9/release 1.0:pb9/acquire 1.0:g/subgroup 1.2:rb1", ""),
        ("look-back", "0.0:wb1=7 0.0:ab9/release 1.0:ab9/acquire 1.0:ab8/release 2.0:pb8/acquire 2.0:rb1", ""),
        (
            "broken chain",
            "0.0:wb1=7 0.0:ab9/release 1.0:ab9 1.0:ab8/release 2.0:pb8/acquire 2.0:rb1",
            "race-storage 6-1",
        ),
        ("last group", "0.0:wb1=7 0.0:ab9/acqrel 1.0:wb2=7 1.0:ab9/acqrel 2.0:ab9/acqrel 2.0:rb1 2.0:rb2", ""),
        ("not the last", "0.0:wb1=7 0.0:ab9/acqrel 1.0:ab9/acqrel 2.0:wb2=7 1.0:rb1 1.0:rb2", "race-storage 6-4"),
        ("relaxed counter", "0.0:wb1=7 0.0:ab9 2.0:ab9 2.0:rb1", "race-storage 4-1"),
        ("counter resets", "0.0:rb1 1.0:rb1 0.0:ab9/acqrel 1.0:ab9/acqrel 2.0:ab9/acqrel 2.0:wb1=3", ""),
        (
            "plain flag",
            "0.0:wb1=7 0.0:f/buffer 0.0:wb9=1 1.0:rb9 1.0:f/buffer 1.0:rb1",
            "race-storage 4-3, race-storage 6-1",
        ),
    ]);
}

#[test]
fn dispatches_and_reused_shared_memory_start_anew() {
    let mut memory = Memory::new(vec![(vec![0; 256], true)]);
    assert_eq!(run(&mut memory, "0.0:wb1=7 1.0:rb2 0.0:ws1=1", 4), "");
    assert_eq!(run(&mut memory, "1.0:rb1 0.0:wb2=7", 1), "");
    memory.end_group(0);
    memory.begin_group(0);
    let who = Invocation { group: 0, local: 5, subgroup: 1 };
    assert_eq!(memory.load(who, Object::Shared, 4, 4, 9), Loaded { bits: 0xe5e5_e5e5, undefined: true });
    assert_eq!(memory.findings.iter().count(), 0);
}

#[test]
fn bytes_that_nobody_wrote_are_undefined() {
    let mut memory = Memory::new(vec![(vec![1; 18], true), (vec![2; 18], false)]);
    memory.begin_dispatch(1, 8, 4, 0, 1);
    memory.begin_group(0);
    let who = Invocation { group: 0, local: 0, subgroup: 0 };
    let load = |memory: &mut Memory, offset, bytes| memory.load(who, Object::Buffer(1), offset, bytes, 1).undefined;
    memory.store(who, Object::Buffer(1), 4, 8, 9, false, 2);
    assert!(load(&mut memory, 0, 4) && !load(&mut memory, 4, 8) && load(&mut memory, 8, 8));
    memory.store(who, Object::Buffer(1), 6, 2, 9, true, 3);
    assert!(load(&mut memory, 4, 4) && !load(&mut memory, 8, 4));
    let add = |old: u64| Some(old + 1);
    assert!(memory.atomic(who, Object::Buffer(1), 0, 4, semantics("relaxed"), 4, add).undefined);
    assert!(load(&mut memory, 0, 4));
    memory.set_undefined(who, Object::Buffer(1), 0, 4, false);
    assert!(
        !load(&mut memory, 0, 4) && memory.is_defined(1, 3) && !memory.is_defined(1, 6) && !memory.is_defined(1, 18)
    );
    assert!(load(&mut memory, 16, 4), "beyond the end");
    memory.store(who, Object::Buffer(1), 16, 4, 9, false, 5);
    memory.store(who, Object::Buffer(7), u64::MAX, 8, 9, false, 5);
    memory.copy(1, 0);
    assert!(
        memory.is_defined(0, 3) && !memory.is_defined(0, 6) && !memory.is_defined(0, 17) && memory.bytes(0)[17] == 2
    );
    memory.fill(1, 0x0403_0201);
    memory.replace(1, 17, &[8, 8]);
    assert!(memory.is_defined(1, 6) && memory.bytes(1)[14..] == [3, 4, 1, 8]);
    assert_eq!(memory.findings.iter().count(), 0);
}
