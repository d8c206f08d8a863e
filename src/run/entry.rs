//! The entry points of SPIR-V: a module with one of them alone, and what that one uses.

use crate::basis::error;
use crate::kernel::instructions::{HEADER, Instruction, instructions};
use rspirv::grammar::{INSTRUCTION_TABLE, OperandKind};
use rspirv::spirv::{Decoration, ExecutionMode, ExecutionModel, Op};
use std::collections::{BTreeMap, BTreeSet};

const COMPUTE: u32 = ExecutionModel::GLCompute as u32;
const SET: u32 = Decoration::DescriptorSet as u32;
const BINDING: u32 = Decoration::Binding as u32;
/// The version from which an entry point names all global variables that it uses.
const NAMES_ALL: u32 = 0x1_0400;

/// The entry point that is wanted among the compute shaders of a module.
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

/// An entry point of a module.
struct DeclaredEntry<'a> {
    name: String,
    function: u32,
    /// The word at which it is declared.
    at: usize,
    /// The global variables that it names.
    variables: &'a [u32],
}

/// The module with one entry point alone, called `main`, without the functions and variables that it never uses; and what
/// a person may call these variables.
///
/// # Errors
/// When there is no such entry point, or the module is damaged.
pub(super) fn isolate(words: &[u32], wanted: Option<&str>) -> Result<(Vec<u32>, Vec<String>), String> {
    if words.len() < HEADER {
        return Err("it is shorter than the header of SPIR-V; compile it again".into());
    }
    let all = instructions(words).collect::<Result<Vec<_>, _>>()?;
    let end = all.iter().position(|own| own.op() == Some(Op::Function)).unwrap_or(all.len());
    let (head, functions) = all.split_at(end);
    let points = || head.iter().filter(|own| own.op() == Some(Op::EntryPoint));
    let entries = points().filter_map(|own| match own.operands() {
        [COMPUTE, function, rest @ ..] if !rest.is_empty() => {
            let (name, literal) = string(rest);
            // A message has a name in one line.
            let name = name.replace('\n', "\\n");
            Some(DeclaredEntry { name, function: *function, at: own.at, variables: &rest[literal..] })
        }
        _ => None,
    });
    let entries: Vec<_> = entries.collect();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let name = chosen(wanted, &names)?;
    let Some(entry) = entries.iter().find(|entry| entry.name == name) else {
        return Err("its entry points changed while they were read".into());
    };
    // What describes a program for debuggers would refer to what is gone.
    let described: BTreeSet<u32> = head.iter().filter_map(|own| description(*own)).collect();
    let describes = |own: &&Instruction<'_>| match own.operands() {
        [_, _, set, ..] if own.op() == Some(Op::ExtInst) => described.contains(set),
        _ => false,
    };
    let functions: Vec<_> = functions.iter().filter(|own| !describes(own)).copied().collect();
    let (functions, gone) = reached(entry, words[1], head, &functions);
    if gone.is_empty() && points().count() == 1 && entry.name == "main" {
        return Ok((words.to_vec(), vec![]));
    }
    let mut module = words[..HEADER].to_vec();
    for own in head.iter().filter(|own| !describes(own)) {
        let (op, operands) = (own.op(), own.operands());
        let is_gone = |place: usize| operands.get(place).is_some_and(|id| gone.contains(id));
        match op {
            Some(Op::EntryPoint) if own.at == entry.at => {
                let renamed = [COMPUTE, entry.function, u32::from_le_bytes(*b"main"), 0];
                let variables: Vec<u32> = entry.variables.iter().copied().filter(|id| !gone.contains(id)).collect();
                module.push(((1 + renamed.len() + variables.len()) as u32) << 16 | Op::EntryPoint as u32);
                module.extend(renamed);
                module.extend(variables);
            }
            Some(Op::EntryPoint) => {}
            Some(Op::ExecutionMode | Op::ExecutionModeId) if operands.first() != Some(&entry.function) => {}
            Some(Op::Variable) if is_gone(1) => {}
            Some(Op::Name | Op::Decorate | Op::DecorateId | Op::DecorateString) if is_gone(0) => {}
            _ => module.extend(own.words),
        }
    }
    module.extend(functions.iter().flat_map(|own| own.words));
    Ok((module, names_of(head, &gone)))
}

/// The set of instructions that describe a program for debuggers, where this imports one.
fn description(own: Instruction<'_>) -> Option<u32> {
    let (id, name) = own.operands().split_first().filter(|_| own.op() == Some(Op::ExtInstImport))?;
    let name = string(name).0;
    ["NonSemantic.Shader.DebugInfo", "OpenCL.DebugInfo"].iter().any(|set| name.starts_with(set)).then_some(*id)
}

/// What a person may call the variables among `ids`: their names, those of their blocks and of their only members.
fn names_of(head: &[Instruction<'_>], ids: &BTreeSet<u32>) -> Vec<String> {
    let of = |op: Op| head.iter().filter(move |own| own.op() == Some(op)).map(|own| own.operands());
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

/// The set and binding of everything that is bound.
fn places(head: &[Instruction<'_>]) -> BTreeMap<u32, BTreeMap<u32, u32>> {
    let mut found: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    for own in head.iter().filter(|own| own.op() == Some(Op::Decorate)) {
        if let [id, decoration @ (SET | BINDING), number] = *own.operands() {
            found.entry(id).or_default().insert(decoration, number);
        }
    }
    found
}

/// The functions that `entry` reaches in a module of this version, as their instructions, and the ids that nothing defines
/// or uses without the others.
fn reached<'a>(
    entry: &DeclaredEntry<'_>,
    version: u32,
    head: &[Instruction<'a>],
    functions: &[Instruction<'a>],
) -> (Vec<Instruction<'a>>, BTreeSet<u32>) {
    let bodies = || functions.split_inclusive(|own| own.op() == Some(Op::FunctionEnd));
    let id = |body: &[Instruction<'_>]| body.first().and_then(|own| own.operands().get(1)).copied();
    let by_id: BTreeMap<u32, &[Instruction<'_>]> = bodies().filter_map(|body| Some((id(body)?, body))).collect();
    let (mut reached, mut next) = (BTreeSet::new(), vec![entry.function]);
    while let Some(function) = next.pop() {
        if reached.insert(function) {
            let body = by_id.get(&function).copied().unwrap_or_default();
            let calls = body.iter().filter(|own| own.op() == Some(Op::FunctionCall));
            next.extend(calls.filter_map(|own| own.operands().get(2)));
        }
    }
    let is_reached = |body: &&[Instruction<'_>]| id(body).is_some_and(|id| reached.contains(&id));
    let (kept, gone): (Vec<_>, Vec<_>) = bodies().partition(is_reached);
    let functions = kept.concat();
    let mentioned: BTreeSet<u32> = functions.iter().flat_map(mentioned).collect();
    let named: BTreeSet<u32> = entry.variables.iter().copied().collect();
    let is_used = |id: &u32| mentioned.contains(id) && (version < NAMES_ALL || named.contains(id));
    let variables = || head.iter().filter(|own| own.op() == Some(Op::Variable)).map(|own| own.operands());
    let variables = || variables().filter_map(|words| Some((*words.get(1)?, *words.get(2)?)));
    let places = places(head);
    let bound = |(id, class): (u32, u32)| Some((places.get(&id)?, class));
    let seen: BTreeSet<_> = variables().filter(|(id, _)| is_used(id)).filter_map(bound).collect();
    // Another view of a buffer that is used stays: its names are names of the buffer.
    let is_view = |own| bound(own).is_some_and(|place| seen.contains(&place));
    let unused = variables().filter(|own| !is_used(&own.0) && !is_view(*own)).map(|(id, _)| id);
    let defined = gone.concat().into_iter().filter_map(result);
    (functions, unused.chain(defined).collect())
}

/// The operands of an instruction that may be variables: all but the numbers of those that have many.
fn mentioned(own: &Instruction<'_>) -> Vec<u32> {
    let numbers = match own.op() {
        Some(Op::Function | Op::Variable | Op::Load | Op::Store | Op::CopyMemory | Op::Switch) => 0..2,
        Some(Op::CompositeExtract) => 0..3,
        Some(Op::CompositeInsert | Op::VectorShuffle) => 0..4,
        _ => 0..usize::MAX,
    };
    let operands = own.operands().iter().copied().enumerate();
    match own.op() {
        // The pointer stands behind type and result.
        Some(Op::Load) => operands.filter(|(at, _)| *at == 2).map(|(_, id)| id).collect(),
        // The third is the number of the instruction.
        Some(Op::ExtInst) => operands.filter(|(at, _)| *at != 3).map(|(_, id)| id).collect(),
        _ => operands.filter(|(at, _)| numbers.contains(at)).map(|(_, id)| id).collect(),
    }
}

/// The id that an instruction defines.
fn result(own: Instruction<'_>) -> Option<u32> {
    let grammar = INSTRUCTION_TABLE.lookup_opcode(own.op()? as u32)?;
    let place = grammar.operands.iter().position(|operand| operand.kind == OperandKind::IdResult)?;
    own.operands().get(place).copied()
}

/// Sets the work-group size of a module whose source states none, which glslang takes for one of 1.
pub(super) fn resize(words: &mut [u32], size: [u32; 3]) -> Result<(), String> {
    const LOCAL_SIZE: u32 = ExecutionMode::LocalSize as u32;
    let of_one = |own: &Instruction<'_>| {
        own.op() == Some(Op::ExecutionMode) && matches!(own.operands(), [_, LOCAL_SIZE, 1, 1, 1])
    };
    let Some(at) = instructions(words).flatten().find(of_one).map(|own| own.at) else {
        return Err("it states a work-group size itself; leave out `local_size`".into());
    };
    words[at + 3..at + 6].copy_from_slice(&size);
    Ok(())
}

/// A string among operands, and the words that it takes.
fn string(words: &[u32]) -> (String, usize) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), (end / 4 + 1).min(words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::interface::{Interface, SlotKind};
    use std::time::{Duration, Instant};

    /// Two entry points, each with a buffer and a function of its own.
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
        instructions(words).filter(|own| own.as_ref().is_ok_and(|own| own.op() == Some(op))).count()
    }

    #[test]
    fn an_entry_point_alone_has_what_it_reaches() {
        let of = |wanted| isolate(&two(), Some(wanted)).expect("it is there").0;
        for (wanted, functions) in [("double", 2), ("triple", 3)] {
            assert_eq!((count(&of(wanted), Op::Function), count(&of(wanted), Op::EntryPoint)), (functions, 1));
        }
        let error = resize(&mut of("double"), [8, 4, 2]).expect_err("64 invocations");
        assert!(error.contains("leave out `local_size`"), "{error}");
        let mut triple = of("triple");
        resize(&mut triple, [8, 4, 2]).expect("one invocation");
        assert!(triple.windows(4).any(|words| words == [ExecutionMode::LocalSize as u32, 8, 4, 2]));
    }

    #[test]
    fn views_of_a_buffer_that_is_used_stay_as_its_names() {
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
    fn no_word_and_no_end_of_a_file_makes_it_panic() {
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
    fn many_functions_that_call_each_other_take_no_time() {
        const MANY: u32 = 200_000;
        let main = |function| [0x5_000f, COMPUTE, function, u32::from_le_bytes(*b"main"), 0];
        let mut words = [&[0x0723_0203, 0x1_0500, 0, MANY + 9, 0][..], &main(1), &main(2)].concat();
        for function in 1..MANY {
            let call = [0x4_0039, 1, MANY + 1, function + 1];
            words.extend([&[0x5_0036, 1, function, 0, 1][..], &call, &[0x1_0038]].concat());
        }
        let begun = Instant::now();
        isolate(&words, None).expect("an entry point");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
