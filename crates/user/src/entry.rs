//! Isolates an entry point of SPIR-V with everything that it uses.

use crate::basis::error;
use crate::kernel::instructions::{self, HEADER, Instruction, instructions};
use crate::kernel::lines::LINE_INSTRUCTIONS;
use rspirv::grammar::{INSTRUCTION_TABLE, OperandKind};
use rspirv::spirv::{Decoration, ExecutionMode, ExecutionModel, Op, StorageClass};
use std::collections::{BTreeMap, BTreeSet};

const COMPUTE: u32 = ExecutionModel::GLCompute as u32;
const SET: u32 = Decoration::DescriptorSet as u32;
const BINDING: u32 = Decoration::Binding as u32;
const PUSH_CONSTANT: u32 = StorageClass::PushConstant as u32;
/// First version in which an entry point lists all global variables that it uses.
const LISTS_ALL_VARIABLES: u32 = 0x1_0400;

/// Selects an entry point among the compute shaders of a module.
pub(super) fn chosen<'a>(wanted: Option<&str>, kernels: &[&'a str]) -> Result<&'a str, String> {
    if kernels.is_empty() {
        return Err("it has no compute shader; write one, with a work-group size".into());
    }
    if let Some(wanted) = wanted {
        let kernel = kernels.iter().find(|name| **name == wanted.replace('\n', "\\n"));
        return kernel.copied().ok_or_else(|| error::unknown("entry point", wanted, "", kernels));
    }
    if let [only] = kernels {
        return Ok(only);
    }
    let main = kernels.iter().find(|name| **name == "main").copied();
    main.ok_or_else(|| {
        let names = kernels.join(", ");
        format!("it has several entry points ({names}); choose one with --entry or `entry`")
    })
}

/// Returns the module with only the selected entry point, renamed to `main`, without functions and variables that it
/// never uses; also returns the names of these variables. If it changes, it loses its `DebugInfo` instructions, apart
/// from source lines if `keeps_lines`.
pub(super) fn isolate(
    words: &[u32],
    wanted: Option<&str>,
    keeps_lines: bool,
) -> Result<(Vec<u32>, Vec<String>), String> {
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
    let Some((_, entry)) = entries.iter().find(|(known, _)| known == name) else {
        return Err("its entry points changed while they were read".into());
    };
    let function = entry.operands()[1];
    let name_and_interface = &entry.operands()[2..];
    let interface = &name_and_interface[string(name_and_interface).1..];
    // Debug information may refer to removed instructions.
    let debug_sets: BTreeSet<u32> = head.iter().filter_map(|instruction| debug_set(*instruction)).collect();
    let is_debug = |instruction: &Instruction<'_>| match instruction.operands() {
        [_, _, set, number, ..] if instruction.op() == Some(Op::ExtInst) => {
            debug_sets.contains(set) && !(keeps_lines && LINE_INSTRUCTIONS.contains(number))
        }
        _ => false,
    };
    let functions: Vec<_> = functions.iter().filter(|instruction| !is_debug(instruction)).copied().collect();
    let bodies = || functions.split_inclusive(|instruction| instruction.op() == Some(Op::FunctionEnd));
    let called = find_called(function, bodies());
    let (bodies, removed_bodies): (Vec<_>, Vec<_>) =
        bodies().partition(|body| function_id(body).is_some_and(|id| called.contains(&id)));
    let code = bodies.concat();
    let mut removed = find_unused(head, &code, interface, words[1]);
    removed.extend(removed_bodies.concat().into_iter().filter_map(result));
    if removed.is_empty() && points().count() == 1 && name == "main" {
        return Ok((words.to_vec(), vec![]));
    }
    let mut module = words[..HEADER].to_vec();
    for instruction in head.iter().filter(|instruction| !is_debug(instruction)) {
        let operands = instruction.operands();
        let is_removed = |operand: usize| operands.get(operand).is_some_and(|id| removed.contains(id));
        match instruction.op() {
            Some(Op::EntryPoint) if instruction.at == entry.at => {
                let mut renamed = vec![COMPUTE, function, u32::from_le_bytes(*b"main"), 0];
                renamed.extend(interface.iter().filter(|id| !removed.contains(id)));
                module.push(((1 + renamed.len()) as u32) << 16 | Op::EntryPoint as u32);
                module.extend(renamed);
            }
            Some(Op::EntryPoint) => {}
            Some(Op::ExecutionMode | Op::ExecutionModeId) if operands.first() != Some(&function) => {}
            Some(Op::Variable) if is_removed(1) => {}
            Some(Op::Name | Op::Decorate | Op::DecorateId | Op::DecorateString) if is_removed(0) => {}
            _ => module.extend(instruction.words),
        }
    }
    module.extend(code.iter().flat_map(|instruction| instruction.words));
    Ok((module, names_of(head, &removed)))
}

/// Returns the id of an imported set of debug instructions.
fn debug_set(instruction: Instruction<'_>) -> Option<u32> {
    let (id, name) = instruction.operands().split_first().filter(|_| instruction.op() == Some(Op::ExtInstImport))?;
    let name = string(name).0;
    ["NonSemantic.Shader.DebugInfo", "OpenCL.DebugInfo"].iter().any(|set| name.starts_with(set)).then_some(*id)
}

/// Iterates over the operands of the instructions with this opcode.
fn operands_of<'a>(head: &'a [Instruction<'a>], op: Op) -> impl Iterator<Item = &'a [u32]> {
    head.iter().filter(move |instruction| instruction.op() == Some(op)).map(|instruction| instruction.operands())
}

/// Returns the names of the variables among `ids`, of their blocks and of the blocks' first members; of push constants, of all.
fn names_of(head: &[Instruction<'_>], ids: &BTreeSet<u32>) -> Vec<String> {
    let mut pointees = BTreeMap::new();
    for words in operands_of(head, Op::TypePointer) {
        if let [pointer, _, pointee, ..] = words {
            pointees.insert(pointer, pointee);
        }
    }
    let [mut called, mut pushed] = [BTreeSet::new(), BTreeSet::new()];
    for words in operands_of(head, Op::Variable) {
        if let [pointer, variable, class, ..] = words
            && ids.contains(variable)
        {
            called.insert(variable);
            called.extend(pointees.get(pointer));
            pushed.extend(pointees.get(pointer).filter(|_| *class == PUSH_CONSTANT));
        }
    }
    let names = operands_of(head, Op::Name).filter_map(|words| match words {
        [id, name @ ..] if called.contains(id) => Some(name),
        _ => None,
    });
    let member_names = operands_of(head, Op::MemberName).filter_map(|words| match words {
        [block, at, name @ ..] if called.contains(block) && (*at == 0 || pushed.contains(block)) => Some(name),
        _ => None,
    });
    names.chain(member_names).map(|name| string(name).0).filter(|name| !name.is_empty()).collect()
}

/// Returns the id of the function that a body defines. A source line may precede it.
fn function_id(body: &[Instruction<'_>]) -> Option<u32> {
    body.iter().find(|instruction| instruction.op() == Some(Op::Function))?.operands().get(1).copied()
}

/// Returns the functions that function `entry` calls, directly or not, and itself.
fn find_called<'a>(entry: u32, bodies: impl Iterator<Item = &'a [Instruction<'a>]>) -> BTreeSet<u32> {
    let bodies: BTreeMap<u32, _> = bodies.filter_map(|body| Some((function_id(body)?, body))).collect();
    let mut called = BTreeSet::new();
    let mut next = vec![entry];
    while let Some(function) = next.pop() {
        if called.insert(function) {
            let body = bodies.get(&function).copied().unwrap_or_default();
            next.extend(operands_of(body, Op::FunctionCall).filter_map(|words| words.get(2)));
        }
    }
    called
}

/// Returns the ids of variables that `code` never uses. Newer versions of SPIR-V list used variables in the `interface`
/// of the entry point.
fn find_unused(head: &[Instruction<'_>], code: &[Instruction<'_>], interface: &[u32], version: u32) -> BTreeSet<u32> {
    let mentioned: BTreeSet<u32> = code.iter().flat_map(mentioned).collect();
    let interface: BTreeSet<u32> = interface.iter().copied().collect();
    let is_used = |id: u32| mentioned.contains(&id) && (version < LISTS_ALL_VARIABLES || interface.contains(&id));
    let mut numbers: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    for words in operands_of(head, Op::Decorate) {
        if let [id, decoration @ (SET | BINDING), number] = *words {
            numbers.entry(id).or_default().insert(decoration, number);
        }
    }
    let mut unused = BTreeSet::new();
    let mut used_bindings = BTreeSet::new();
    for words in operands_of(head, Op::Variable) {
        let [_, id, class, ..] = *words else { continue };
        if !is_used(id) {
            unused.insert((id, class));
        } else if let Some(binding) = numbers.get(&id) {
            used_bindings.insert((binding, class));
        }
    }
    // A second view of a used buffer stays, because its names are names of the buffer.
    unused.retain(|(id, class)| numbers.get(id).is_none_or(|binding| !used_bindings.contains(&(binding, *class))));
    unused.into_iter().map(|(id, _)| id).collect()
}

/// Returns the operands that may be variables: all but the literals of instructions with many of them.
fn mentioned(instruction: &Instruction<'_>) -> Vec<u32> {
    let operands = instruction.operands();
    let first = |count: usize| operands[..operands.len().min(count)].to_vec();
    match instruction.op() {
        Some(Op::Function | Op::Variable | Op::Store | Op::CopyMemory | Op::Switch) => first(2),
        Some(Op::CompositeExtract) => first(3),
        Some(Op::CompositeInsert | Op::VectorShuffle) => first(4),
        Some(Op::Line) => vec![],
        // The pointer follows type and result.
        Some(Op::Load) => operands.iter().copied().skip(2).take(1).collect(),
        // The fourth operand is the opcode in the extended set.
        Some(Op::ExtInst) => operands.iter().enumerate().filter(|(index, _)| *index != 3).map(|(_, id)| *id).collect(),
        _ => operands.to_vec(),
    }
}

/// Returns the id that an instruction defines.
fn result(instruction: Instruction<'_>) -> Option<u32> {
    let grammar = INSTRUCTION_TABLE.lookup_opcode(instruction.op()? as u32)?;
    let index = grammar.operands.iter().position(|operand| operand.kind == OperandKind::IdResult)?;
    instruction.operands().get(index).copied()
}

/// Sets the work-group size of a module whose source states none: glslang then writes 1×1×1.
pub(super) fn resize(words: &mut [u32], size: [u32; 3]) -> Result<(), String> {
    const LOCAL_SIZE: u32 = ExecutionMode::LocalSize as u32;
    let is_default = |instruction: &Instruction<'_>| {
        instruction.op() == Some(Op::ExecutionMode) && matches!(instruction.operands(), [_, LOCAL_SIZE, 1, 1, 1])
    };
    let Some(start) = instructions(words).flatten().find(is_default).map(|instruction| instruction.at) else {
        return Err("it states a work-group size itself; leave out `local_size`, or state it as layout(local_size_x_id = 0) to choose it".into());
    };
    // The extents follow the opcode, the entry point and the mode.
    words[start + 3..start + 6].copy_from_slice(&size);
    Ok(())
}

/// Decodes a string among operands; also returns its length in words.
pub fn string(words: &[u32]) -> (String, usize) {
    let last = words.iter().position(|word| word.to_le_bytes().contains(&0));
    (instructions::string(words), last.map_or(words.len(), |last| last + 1))
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

    fn spirv(wgsl: &str) -> Vec<u32> {
        let module = naga::front::wgsl::parse_str(wgsl).expect("WGSL");
        let (flags, all) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
        let info = naga::valid::Validator::new(flags, all).validate(&module).expect("valid");
        let options = naga::back::spv::Options { lang_version: (1, 5), ..Default::default() };
        naga::back::spv::write_vec(&module, &info, &options, None).expect("SPIR-V")
    }

    fn count(words: &[u32], op: Op) -> usize {
        instructions(words).flatten().filter(|instruction| instruction.op() == Some(op)).count()
    }

    #[test]
    fn an_isolated_entry_point_keeps_the_functions_that_it_calls() {
        let [mut double, mut triple] =
            ["double", "triple"].map(|name| isolate(&spirv(TWO), Some(name), false).expect("it is there").0);
        assert_eq!([&double, &triple].map(|module| count(module, Op::Function)), [2, 3]);
        assert_eq!([&double, &triple].map(|module| count(module, Op::EntryPoint)), [1, 1]);
        let error = resize(&mut double, [8, 4, 2]).expect_err("64 invocations");
        assert_eq!(
            error,
            "it states a work-group size itself; leave out `local_size`, or state it as layout(local_size_x_id = 0) to choose it"
        );
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
        let (module, _) = isolate(&spirv(views), Some("double"), false).expect("it is there");
        let slots = Interface::read(&crate::loaded::bytes(&module)).expect("an interface").slots;
        let [slot] = &slots[..] else { panic!("{slots:?}") };
        assert_eq!((slot.kind, slot.blocks.len()), (SlotKind::Storage, 2), "{slot:?}");
    }

    #[test]
    fn damaged_modules_cause_no_panic() {
        let words = spirv(TWO);
        for at in 0..words.len() {
            let _ = isolate(&words[..at], Some("double"), false);
            for other in [0, 1, words[at] ^ 1, words[at] ^ 1 << 16, words[at.max(1) - 1], u32::MAX] {
                let mut hostile = words.clone();
                hostile[at] = other;
                let _ = (isolate(&hostile, Some("double"), false), resize(&mut hostile, [8, 4, 2]));
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
        isolate(&words, None, false).expect("an entry point");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}
