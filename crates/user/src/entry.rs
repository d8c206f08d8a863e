//! Isolates an entry point of SPIR-V with everything that it uses.

use crate::basis::error;
use crate::kernel::instructions::{HEADER, Instruction, instructions};
use rspirv::grammar::{INSTRUCTION_TABLE, OperandKind};
use rspirv::spirv::{Decoration, ExecutionMode, ExecutionModel, Op};
use std::collections::{BTreeMap, BTreeSet};

const COMPUTE: u32 = ExecutionModel::GLCompute as u32;
const SET: u32 = Decoration::DescriptorSet as u32;
const BINDING: u32 = Decoration::Binding as u32;
/// First version in which an entry point lists all global variables that it uses.
const LISTS_ALL_VARIABLES: u32 = 0x1_0400;

/// Selects an entry point among the compute shaders of a module.
pub(super) fn chosen<'a>(wanted: Option<&str>, kernels: &[&'a str]) -> Result<&'a str, String> {
    match (wanted, kernels) {
        (_, []) => Err("it has no compute shader; write one, with a work-group size".into()),
        (Some(wanted), all) => {
            let found = all.iter().find(|name| **name == wanted.replace('\n', "\\n"));
            found.copied().ok_or_else(|| error::unknown("entry point", wanted, "", all))
        }
        (None, [only]) => Ok(only),
        (None, all) => {
            let main = all.iter().find(|name| **name == "main").copied();
            main.ok_or_else(|| {
                let names = all.join(", ");
                format!("it has several entry points ({names}); choose one with --entry or `entry`")
            })
        }
    }
}

/// Returns the module with only the selected entry point, renamed to `main`, without functions and variables that it
/// never uses; also returns the names of these variables.
pub(super) fn isolate(words: &[u32], wanted: Option<&str>) -> Result<(Vec<u32>, Vec<String>), String> {
    if words.len() < HEADER {
        return Err("it is shorter than the header of SPIR-V; compile it again".into());
    }
    let all = instructions(words).collect::<Result<Vec<_>, _>>()?;
    let end = all.iter().position(|instruction| instruction.op() == Some(Op::Function)).unwrap_or(all.len());
    let (head, functions) = all.split_at(end);
    let points = || head.iter().filter(|instruction| instruction.op() == Some(Op::EntryPoint));
    let mut entries: Vec<(String, Instruction<'_>)> = vec![];
    for instruction in points() {
        if let [COMPUTE, _, name @ ..] = instruction.operands()
            && !name.is_empty()
        {
            // Messages show names in one line.
            entries.push((string(name).0.replace('\n', "\\n"), *instruction));
        }
    }
    let name = chosen(wanted, &entries.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())?;
    let Some(entry) = entries.iter().find(|(known, _)| known == name).map(|(_, entry)| entry) else {
        return Err("its entry points changed while they were read".into());
    };
    let (function, rest) = (entry.operands()[1], &entry.operands()[2..]);
    let listed = &rest[string(rest).1..];
    // Debug information may refer to removed instructions.
    let described: BTreeSet<u32> = head.iter().filter_map(|instruction| description(*instruction)).collect();
    let describes = |instruction: &&Instruction<'_>| match instruction.operands() {
        [_, _, set, ..] if instruction.op() == Some(Op::ExtInst) => described.contains(set),
        _ => false,
    };
    let functions: Vec<_> = functions.iter().filter(|instruction| !describes(instruction)).copied().collect();
    let (functions, removed) = reached(function, listed, words[1], head, &functions);
    if removed.is_empty() && points().count() == 1 && name == "main" {
        return Ok((words.to_vec(), vec![]));
    }
    let mut module = words[..HEADER].to_vec();
    for instruction in head.iter().filter(|instruction| !describes(instruction)) {
        let (op, operands) = (instruction.op(), instruction.operands());
        let is_gone = |place: usize| operands.get(place).is_some_and(|id| removed.contains(id));
        match op {
            Some(Op::EntryPoint) if instruction.at == entry.at => {
                let renamed = [COMPUTE, function, u32::from_le_bytes(*b"main"), 0];
                let variables: Vec<u32> = listed.iter().copied().filter(|id| !removed.contains(id)).collect();
                module.push(((1 + renamed.len() + variables.len()) as u32) << 16 | Op::EntryPoint as u32);
                module.extend(renamed);
                module.extend(variables);
            }
            Some(Op::EntryPoint) => {}
            Some(Op::ExecutionMode | Op::ExecutionModeId) if operands.first() != Some(&function) => {}
            Some(Op::Variable) if is_gone(1) => {}
            Some(Op::Name | Op::Decorate | Op::DecorateId | Op::DecorateString) if is_gone(0) => {}
            _ => module.extend(instruction.words),
        }
    }
    module.extend(functions.iter().flat_map(|instruction| instruction.words));
    Ok((module, names_of(head, &removed)))
}

/// Returns the id of an imported set of debug instructions.
fn description(instruction: Instruction<'_>) -> Option<u32> {
    let (id, name) = instruction.operands().split_first().filter(|_| instruction.op() == Some(Op::ExtInstImport))?;
    let name = string(name).0;
    ["NonSemantic.Shader.DebugInfo", "OpenCL.DebugInfo"].iter().any(|set| name.starts_with(set)).then_some(*id)
}

/// Returns the names of the variables among `ids`, of their blocks and of the blocks' first members.
fn names_of(head: &[Instruction<'_>], ids: &BTreeSet<u32>) -> Vec<String> {
    let of = |op: Op| {
        head.iter().filter(move |instruction| instruction.op() == Some(op)).map(|instruction| instruction.operands())
    };
    let pointees: BTreeMap<u32, u32> =
        of(Op::TypePointer).filter_map(|words| Some((*words.first()?, *words.get(2)?))).collect();
    let variables = of(Op::Variable).filter(|words| words.get(1).is_some_and(|id| ids.contains(id)));
    let called: BTreeSet<u32> =
        variables.flat_map(|words| [Some(words[1]), pointees.get(&words[0]).copied()]).flatten().collect();
    let named = of(Op::Name).filter(|words| words.first().is_some_and(|id| called.contains(id)));
    let named = named.map(|words| string(&words[1..]).0);
    let members = of(Op::MemberName).filter(|words| words.len() > 2 && words[1] == 0 && called.contains(&words[0]));
    let members = members.map(|words| string(&words[2..]).0);
    named.chain(members).filter(|name| !name.is_empty()).collect()
}

/// Collects set and binding of each bound variable.
fn places(head: &[Instruction<'_>]) -> BTreeMap<u32, BTreeMap<u32, u32>> {
    let mut found: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    for instruction in head.iter().filter(|instruction| instruction.op() == Some(Op::Decorate)) {
        if let [id, decoration @ (SET | BINDING), number] = *instruction.operands() {
            found.entry(id).or_default().insert(decoration, number);
        }
    }
    found
}

/// Returns the functions that function `entry` calls, directly or not, as instructions, and the ids that only removed
/// code defines or uses. The entry point lists the variables `listed`.
fn reached<'a>(
    entry: u32,
    listed: &[u32],
    version: u32,
    head: &[Instruction<'a>],
    functions: &[Instruction<'a>],
) -> (Vec<Instruction<'a>>, BTreeSet<u32>) {
    let bodies = || functions.split_inclusive(|instruction| instruction.op() == Some(Op::FunctionEnd));
    let id = |body: &[Instruction<'_>]| body.first().and_then(|instruction| instruction.operands().get(1)).copied();
    let by_id: BTreeMap<u32, &[Instruction<'_>]> = bodies().filter_map(|body| Some((id(body)?, body))).collect();
    let (mut reached, mut next) = (BTreeSet::new(), vec![entry]);
    while let Some(function) = next.pop() {
        if reached.insert(function) {
            let body = by_id.get(&function).copied().unwrap_or_default();
            let calls = body.iter().filter(|instruction| instruction.op() == Some(Op::FunctionCall));
            next.extend(calls.filter_map(|instruction| instruction.operands().get(2)));
        }
    }
    let is_reached = |body: &&[Instruction<'_>]| id(body).is_some_and(|id| reached.contains(&id));
    let (called, removed): (Vec<_>, Vec<_>) = bodies().partition(is_reached);
    let functions = called.concat();
    let mentioned: BTreeSet<u32> = functions.iter().flat_map(mentioned).collect();
    let listed: BTreeSet<u32> = listed.iter().copied().collect();
    let is_used = |id: &u32| mentioned.contains(id) && (version < LISTS_ALL_VARIABLES || listed.contains(id));
    let variables = || {
        head.iter()
            .filter(|instruction| instruction.op() == Some(Op::Variable))
            .map(|instruction| instruction.operands())
    };
    let variables = || variables().filter_map(|words| Some((*words.get(1)?, *words.get(2)?)));
    let places = places(head);
    let bound = |(id, class): (u32, u32)| Some((places.get(&id)?, class));
    let seen: BTreeSet<_> = variables().filter(|(id, _)| is_used(id)).filter_map(bound).collect();
    // A second view of a used buffer stays, because its names are names of the buffer.
    let is_view = |variable| bound(variable).is_some_and(|place| seen.contains(&place));
    let unused = variables().filter(|variable| !is_used(&variable.0) && !is_view(*variable)).map(|(id, _)| id);
    let defined = removed.concat().into_iter().filter_map(result);
    (functions, unused.chain(defined).collect())
}

/// Returns the operands that may be variables: all but the literals of instructions with many of them.
fn mentioned(instruction: &Instruction<'_>) -> Vec<u32> {
    let numbers = match instruction.op() {
        Some(Op::Function | Op::Variable | Op::Load | Op::Store | Op::CopyMemory | Op::Switch) => 0..2,
        Some(Op::CompositeExtract) => 0..3,
        Some(Op::CompositeInsert | Op::VectorShuffle) => 0..4,
        _ => 0..usize::MAX,
    };
    let operands = instruction.operands().iter().copied().enumerate();
    match instruction.op() {
        // The pointer follows type and result.
        Some(Op::Load) => operands.filter(|(at, _)| *at == 2).map(|(_, id)| id).collect(),
        // The third operand is the opcode in the extended set.
        Some(Op::ExtInst) => operands.filter(|(at, _)| *at != 3).map(|(_, id)| id).collect(),
        _ => operands.filter(|(at, _)| numbers.contains(at)).map(|(_, id)| id).collect(),
    }
}

/// Returns the id that an instruction defines.
fn result(instruction: Instruction<'_>) -> Option<u32> {
    let grammar = INSTRUCTION_TABLE.lookup_opcode(instruction.op()? as u32)?;
    let place = grammar.operands.iter().position(|operand| operand.kind == OperandKind::IdResult)?;
    instruction.operands().get(place).copied()
}

/// Sets the work-group size of a module whose source states none: glslang then writes 1×1×1.
pub(super) fn resize(words: &mut [u32], size: [u32; 3]) -> Result<(), String> {
    const LOCAL_SIZE: u32 = ExecutionMode::LocalSize as u32;
    let of_one = |instruction: &Instruction<'_>| {
        instruction.op() == Some(Op::ExecutionMode) && matches!(instruction.operands(), [_, LOCAL_SIZE, 1, 1, 1])
    };
    let Some(at) = instructions(words).flatten().find(of_one).map(|instruction| instruction.at) else {
        return Err("it states a work-group size itself; leave out `local_size`".into());
    };
    words[at + 3..at + 6].copy_from_slice(&size);
    Ok(())
}

/// Decodes a string among operands; also returns its length in words.
pub fn string(words: &[u32]) -> (String, usize) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), (end / 4 + 1).min(words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::interface::{Interface, SlotKind};
    use std::time::{Duration, Instant};

    /// Two entry points, each with its own buffer and function.
    const TWO: &str = "
        @group(0) @binding(0) var<storage, read_write> d: array<f32>;
        @group(0) @binding(1) var<storage, read_write> e: array<f32>;
        fn twice(x: f32) -> f32 { return x + x; }
        fn thrice(x: f32) -> f32 { return twice(x) + x; }
        @compute @workgroup_size(64) fn double(@builtin(local_invocation_index) i: u32) { d[i] = twice(d[i]); }
        @compute @workgroup_size(1) fn triple(@builtin(local_invocation_index) i: u32) { e[i] = thrice(e[i]); }";

    fn two() -> Vec<u32> {
        spirv(TWO)
    }

    fn spirv(wgsl: &str) -> Vec<u32> {
        let module = naga::front::wgsl::parse_str(wgsl).expect("WGSL");
        let (flags, all) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
        let info = naga::valid::Validator::new(flags, all).validate(&module).expect("valid");
        let options = naga::back::spv::Options { lang_version: (1, 5), ..Default::default() };
        naga::back::spv::write_vec(&module, &info, &options, None).expect("SPIR-V")
    }

    fn count(words: &[u32], op: Op) -> usize {
        instructions(words)
            .filter(|instruction| instruction.as_ref().is_ok_and(|instruction| instruction.op() == Some(op)))
            .count()
    }

    #[test]
    fn an_isolated_entry_point_keeps_the_functions_that_it_calls() {
        let of = |wanted| isolate(&two(), Some(wanted)).expect("it is there").0;
        for (wanted, functions) in [("double", 2), ("triple", 3)] {
            assert_eq!((count(&of(wanted), Op::Function), count(&of(wanted), Op::EntryPoint)), (functions, 1));
        }
        let error = resize(&mut of("double"), [8, 4, 2]).expect_err("64 invocations");
        assert_eq!(error, "it states a work-group size itself; leave out `local_size`");
        let mut triple = of("triple");
        resize(&mut triple, [8, 4, 2]).expect("one invocation");
        assert!(triple.windows(4).any(|words| words == [ExecutionMode::LocalSize as u32, 8, 4, 2]));
    }

    #[test]
    fn views_of_a_used_buffer_stay() {
        let views = "
            @group(0) @binding(0) var<storage, read_write> d: array<f32>;
            @group(0) @binding(0) var<storage, read_write> e: array<u32>;
            @group(0) @binding(0) var<uniform> u: vec4<u32>;
            @group(0) @binding(1) var<storage, read_write> f: array<u32>;
            @compute @workgroup_size(1) fn double(@builtin(local_invocation_index) i: u32) { d[i] = 2.0 * d[i]; }
            @compute @workgroup_size(1) fn other(@builtin(local_invocation_index) i: u32) { f[i] = u.x; }
            @compute @workgroup_size(1) fn third(@builtin(local_invocation_index) i: u32) { e[i] = 1u; }";
        let (module, _) = isolate(&spirv(views), Some("double")).expect("it is there");
        let module: Vec<u8> = module.iter().flat_map(|word| word.to_le_bytes()).collect();
        let slots = Interface::read(&module).expect("an interface").slots;
        let [slot] = &slots[..] else { panic!("{slots:?}") };
        assert_eq!((slot.kind, slot.blocks.len()), (SlotKind::Storage, 2), "{slot:?}");
    }

    #[test]
    fn damaged_modules_cause_no_panic() {
        let words = two();
        for at in 0..words.len() {
            let _ = isolate(&words[..at], Some("double"));
            for other in [0, 1, words[at] ^ 1, words[at] ^ 1 << 16, words[at.max(1) - 1], u32::MAX] {
                let mut hostile = words.clone();
                hostile[at] = other;
                let _ = (isolate(&hostile, Some("double")), resize(&mut hostile, [8, 4, 2]));
            }
        }
    }

    #[test]
    fn a_long_chain_of_calls_is_isolated_quickly() {
        const MANY: u32 = 200_000;
        let main = |function| [0x5_000f, COMPUTE, function, u32::from_le_bytes(*b"main"), 0];
        let mut words = [&[0x0723_0203, 0x1_0500, 0, MANY + 9, 0][..], &main(1), &main(2)].concat();
        for function in 1..MANY {
            let call = [0x4_0039, 1, MANY + 1, function + 1];
            words.extend([&[0x5_0036, 1, function, 0, 1][..], &call, &[0x1_0038]].concat());
        }
        let start = Instant::now();
        isolate(&words, None).expect("an entry point");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}
