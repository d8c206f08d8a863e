//! The entry points of SPIR-V: a module with one of them alone, and what that one uses.

use crate::basis::error;
use crate::kernel::reflection::HEADER;
use rspirv::grammar::{INSTRUCTION_TABLE, OperandKind};
use std::collections::BTreeSet;

const OP_NAME: u32 = 5;
const OP_EXT_INST: u32 = 12;
const OP_ENTRY_POINT: u32 = 15;
const OP_EXECUTION_MODE: u32 = 16;
const OP_FUNCTION: u32 = 54;
const OP_FUNCTION_END: u32 = 56;
const OP_FUNCTION_CALL: u32 = 57;
const OP_VARIABLE: u32 = 59;
const OP_DECORATE: u32 = 71;
const OP_EXECUTION_MODE_ID: u32 = 331;
const OP_DECORATE_ID: u32 = 332;
const OP_DECORATE_STRING: u32 = 5632;
const COMPUTE: u32 = 5;
/// The version from which an entry point names all global variables that it uses.
const NAMES_ALL: u32 = 0x1_0400;

/// The entry point that is wanted among the compute shaders of a module.
pub(super) fn chosen<'a>(wanted: Option<&str>, kernels: &[&'a str]) -> Result<&'a str, String> {
    match (wanted, kernels) {
        (_, []) => Err("it has no compute shader; write one, with a work-group size".into()),
        (Some(wanted), all) => {
            let found = all.iter().find(|name| **name == wanted);
            found.copied().ok_or_else(|| error::unknown("entry point", wanted, "", all))
        }
        (None, [only]) => Ok(only),
        (None, all) => {
            let main = all.iter().find(|name| **name == "main").copied();
            main.ok_or_else(|| {
                let names = all.join(", ");
                format!("it has several compute shaders: {names}; name one with --entry or as `entry`")
            })
        }
    }
}

/// An entry point of a module.
struct Entry<'a> {
    name: String,
    function: u32,
    instruction: &'a [u32],
    /// The global variables that it names.
    variables: &'a [u32],
}

/// The module with one entry point alone, called `main`; of several, without the functions and variables of the others.
///
/// # Errors
/// When there is no such entry point, or the module is damaged.
pub(super) fn isolate(words: &[u32], wanted: Option<&str>) -> Result<Vec<u32>, String> {
    if words.len() < HEADER {
        return Err("it is shorter than the header of SPIR-V; compile it again".into());
    }
    let all = instructions(words)?;
    let end = all.iter().position(|instruction| opcode(instruction) == OP_FUNCTION).unwrap_or(all.len());
    let (head, functions) = all.split_at(end);
    // Execution model, function, name, variables.
    let points = || head.iter().copied().filter(|own| opcode(own) == OP_ENTRY_POINT && own.len() > 3);
    let entries = points().filter(|own| own[1] == COMPUTE).map(|instruction| {
        let (name, literal) = string(&instruction[3..]);
        Entry { name, function: instruction[2], instruction, variables: &instruction[3 + literal..] }
    });
    let entries: Vec<_> = entries.collect();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let name = chosen(wanted, &names)?;
    let Some(entry) = entries.iter().find(|entry| entry.name == name) else {
        return Err("its entry points changed while they were read".into());
    };
    // What describes a program for debuggers would refer to what is gone.
    let whole = points().count() == 1 || head.iter().any(|own| opcode(own) == OP_EXT_INST);
    let kept = if whole { Kept::all(functions) } else { Kept::of(entry, words[1], head, functions) };
    let mut module = words[..HEADER].to_vec();
    for own in head {
        let target = own.get(1).copied();
        match opcode(own) {
            OP_ENTRY_POINT if std::ptr::eq(*own, entry.instruction) => {
                let renamed = [COMPUTE, entry.function, u32::from_le_bytes(*b"main"), 0];
                let variables: Vec<u32> =
                    entry.variables.iter().copied().filter(|id| !kept.gone.contains(id)).collect();
                module.push(((1 + renamed.len() + variables.len()) as u32) << 16 | OP_ENTRY_POINT);
                module.extend(renamed);
                module.extend(variables);
            }
            OP_ENTRY_POINT => {}
            OP_EXECUTION_MODE | OP_EXECUTION_MODE_ID if target != Some(entry.function) => {}
            OP_VARIABLE if own.get(2).is_some_and(|id| kept.gone.contains(id)) => {}
            OP_NAME | OP_DECORATE | OP_DECORATE_ID | OP_DECORATE_STRING
                if target.is_some_and(|id| kept.gone.contains(&id)) => {}
            _ => module.extend(*own),
        }
    }
    module.extend(kept.functions.into_iter().flatten());
    Ok(module)
}

/// What is left of a module.
struct Kept<'a> {
    /// The instructions of the functions.
    functions: Vec<&'a [u32]>,
    /// The ids that nothing defines any more.
    gone: BTreeSet<u32>,
}

impl<'a> Kept<'a> {
    fn all(functions: &[&'a [u32]]) -> Self {
        Self { functions: functions.to_vec(), gone: BTreeSet::new() }
    }

    /// What `entry` reaches in a module of this version.
    fn of(entry: &Entry<'_>, version: u32, head: &[&'a [u32]], functions: &[&'a [u32]]) -> Self {
        let bodies: Vec<&[&[u32]]> = functions.split_inclusive(|own| opcode(own) == OP_FUNCTION_END).collect();
        let id = |body: &[&[u32]]| body.first().and_then(|own| own.get(2)).copied();
        let (mut reached, mut next) = (BTreeSet::new(), vec![entry.function]);
        while let Some(function) = next.pop() {
            if reached.insert(function) {
                let body = bodies.iter().filter(|body| id(body) == Some(function)).flat_map(|body| body.iter());
                let calls = body.filter(|own| opcode(own) == OP_FUNCTION_CALL).filter_map(|own| own.get(3).copied());
                next.extend(calls);
            }
        }
        let is_reached = |body: &&&[&[u32]]| id(body).is_some_and(|id| reached.contains(&id));
        let (kept, gone): (Vec<&&[&[u32]]>, Vec<_>) = bodies.iter().partition(is_reached);
        let functions: Vec<&[u32]> = kept.into_iter().flat_map(|body| body.iter().copied()).collect();
        let mentioned: BTreeSet<u32> = functions.iter().flat_map(|own| own[1..].iter().copied()).collect();
        let named: BTreeSet<u32> = entry.variables.iter().copied().collect();
        let is_used = |id: &u32| mentioned.contains(id) && (version < NAMES_ALL || named.contains(id));
        let variables = head.iter().filter(|own| opcode(own) == OP_VARIABLE).filter_map(|own| own.get(2).copied());
        let unused = variables.filter(|id| !is_used(id));
        let defined = gone.into_iter().flat_map(|body| body.iter()).filter_map(|own| result(own));
        Self { functions, gone: unused.chain(defined).collect() }
    }
}

/// The id that an instruction defines.
fn result(instruction: &[u32]) -> Option<u32> {
    let grammar = INSTRUCTION_TABLE.lookup_opcode(opcode(instruction))?;
    let place = grammar.operands.iter().position(|operand| operand.kind == OperandKind::IdResult)?;
    instruction.get(1 + place).copied()
}

/// Sets the work-group size of a module whose source states none, which glslang takes for one of 1.
pub(super) fn resize(words: &mut [u32], size: [u32; 3]) -> Result<(), String> {
    const LOCAL_SIZE: u32 = 17;
    let mut at = HEADER;
    for length in instructions(words)?.iter().map(|own| own.len()).collect::<Vec<_>>() {
        let own = &mut words[at..at + length];
        if opcode(own) == OP_EXECUTION_MODE && length == 6 && own[2] == LOCAL_SIZE && own[3..] == [1; 3] {
            own[3..].copy_from_slice(&size);
            return Ok(());
        }
        at += length;
    }
    Err("it states a work-group size itself; leave out `local_size`".into())
}

fn opcode(instruction: &[u32]) -> u32 {
    instruction[0] & 0xffff
}

/// The instructions of a module, none of them empty.
fn instructions(words: &[u32]) -> Result<Vec<&[u32]>, String> {
    let (mut found, mut at) = (vec![], HEADER);
    while at < words.len() {
        let length = (words[at] >> 16) as usize;
        if length == 0 || at + length > words.len() {
            return Err(format!("it is damaged at word {at}: an instruction reaches beyond its end"));
        }
        found.push(&words[at..at + length]);
        at += length;
    }
    Ok(found)
}

/// A string among operands, and the words that it takes.
fn string(words: &[u32]) -> (String, usize) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), (end / 4 + 1).min(words.len()))
}
