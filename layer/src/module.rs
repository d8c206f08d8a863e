//! Reads the descriptor bindings of an entry point from SPIR-V, to decide whether its dispatches can be captured.

use std::collections::{HashMap, HashSet};

/// Memory that an entry point accesses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resources {
    /// Set and binding of each buffer and image.
    pub descriptors: Vec<(u32, u32)>,
    /// Reason why dispatches of the entry point cannot be captured.
    pub uncapturable: Option<String>,
    /// Whether the module declares `PhysicalStorageBufferAddresses`.
    pub addresses: bool,
    /// Whether a block other than the push constants has members that are addresses.
    pub stored_addresses: bool,
}

// Numbers from the SPIR-V specification.
const OP_ENTRY_POINT: u32 = 15;
const OP_CAPABILITY: u32 = 17;
const OP_TYPE_IMAGE: u32 = 25;
const OP_TYPE_SAMPLER: u32 = 26;
const OP_TYPE_SAMPLED_IMAGE: u32 = 27;
const OP_TYPE_ARRAY: u32 = 28;
const OP_TYPE_RUNTIME_ARRAY: u32 = 29;
const OP_TYPE_STRUCT: u32 = 30;
const OP_TYPE_POINTER: u32 = 32;
const PUSH_CONSTANT: u32 = 9;
const PHYSICAL_STORAGE_BUFFER: u32 = 5349;
const OP_FUNCTION: u32 = 54;
const OP_VARIABLE: u32 = 59;
const OP_DECORATE: u32 = 71;
const OP_TYPE_ACCELERATION_STRUCTURE: u32 = 5341;
const BINDING: u32 = 33;
const DESCRIPTOR_SET: u32 = 34;
const PHYSICAL_STORAGE_BUFFER_ADDRESSES: u32 = 5347;
/// First version in which an entry point lists all global variables that it uses.
const LISTS_ALL_VARIABLES: u32 = 0x0001_0400;
/// Most nested types of a variable that are followed: a pointer and seven levels of arrays.
const MAX_NESTED_TYPES: u32 = 8;

impl Resources {
    /// Reads the resources of the entry point of this name. Before SPIR-V 1.4 an entry point does not list its buffers;
    /// then all of the module's buffers count.
    pub(crate) fn of(spirv: &[u32], entry: &str) -> Self {
        let mut resources = Self { stored_addresses: stores_addresses(spirv), ..Self::default() };
        let Some((&version, _)) = spirv.get(1).zip(spirv.get(5..)) else {
            resources.uncapturable = Some("its module is no SPIR-V".into());
            return resources;
        };
        // Variables that the entry point lists.
        let mut listed = None;
        // Types of variables, by the variable's id; sets and bindings too.
        let mut variables = vec![];
        let mut sets = HashMap::new();
        let mut bindings = HashMap::new();
        // Element types of pointers and arrays, and the images of sampled images, by the type's id.
        let mut element_types = HashMap::new();
        // Types that cannot be captured, in words, by the type's id.
        let mut unsupported_types = HashMap::new();
        for instruction in declarations(spirv) {
            match instruction {
                (OP_CAPABILITY, [PHYSICAL_STORAGE_BUFFER_ADDRESSES]) => resources.addresses = true,
                (OP_ENTRY_POINT, [_, _, rest @ ..]) if version >= LISTS_ALL_VARIABLES => {
                    listed = listed_variables(rest, entry).or(listed);
                }
                (OP_DECORATE, &[id, DESCRIPTOR_SET, set]) => drop(sets.insert(id, set)),
                (OP_DECORATE, &[id, BINDING, binding]) => drop(bindings.insert(id, binding)),
                (OP_TYPE_SAMPLER, &[id, ..]) => drop(unsupported_types.insert(id, "a separate sampler")),
                (OP_TYPE_ACCELERATION_STRUCTURE, &[id, ..]) => {
                    unsupported_types.insert(id, "an acceleration structure");
                }
                (OP_TYPE_IMAGE, &[id, _, dimension, depth, _, multisampled, ..]) => {
                    if let Some(unsupported) = unsupported_image(dimension, depth, multisampled) {
                        unsupported_types.insert(id, unsupported);
                    }
                }
                (OP_TYPE_ARRAY | OP_TYPE_RUNTIME_ARRAY | OP_TYPE_SAMPLED_IMAGE, &[id, element, ..])
                | (OP_TYPE_POINTER, &[id, _, element]) => {
                    element_types.insert(id, element);
                }
                (OP_VARIABLE, &[kind, id, ..]) => variables.push((id, kind)),
                _ => {}
            }
        }
        for (id, kind) in variables {
            let (Some(&set), Some(&binding)) = (sets.get(&id), bindings.get(&id)) else { continue };
            if listed.is_some_and(|listed| !listed.contains(&id)) {
                continue;
            }
            let mut innermost = kind;
            for _ in 0..MAX_NESTED_TYPES {
                innermost = element_types.get(&innermost).copied().unwrap_or(innermost);
            }
            resources.descriptors.push((set, binding));
            if let Some(resource) = unsupported_types.get(&innermost) {
                resources.uncapturable.get_or_insert_with(|| format!("binding {set}.{binding} is {resource}"));
            }
        }
        resources
    }
}

/// Iterates over the instructions before the first function: opcodes with their operands. Ends where a module is damaged.
pub(crate) fn declarations(spirv: &[u32]) -> impl Iterator<Item = (u32, &[u32])> {
    let mut words = spirv.get(5..).unwrap_or_default();
    std::iter::from_fn(move || {
        let first = *words.first()?;
        let (length, code) = (((first >> 16) as usize).max(1), first & 0xffff);
        let operands = words.get(1..length)?;
        words = &words[length..];
        (code != OP_FUNCTION).then_some((code, operands))
    })
}

/// Returns the kind of an image type that cannot be captured, by its operands.
fn unsupported_image(dimension: u32, depth: u32, multisampled: u32) -> Option<&'static str> {
    match (dimension, depth, multisampled) {
        (3, ..) => Some("a cube image"),
        (5, ..) => Some("a texel buffer"),
        (_, 1, _) => Some("a depth image"),
        (_, _, 1) => Some("a multisampled image"),
        _ => None,
    }
}

/// Whether a structure other than the push constants has a member that is an address, or an array of addresses.
fn stores_addresses(spirv: &[u32]) -> bool {
    let mut structures = vec![];
    let mut pushed = vec![];
    let mut elements = HashMap::new();
    let mut addresses = HashSet::new();
    for instruction in declarations(spirv) {
        match instruction {
            (OP_TYPE_STRUCT, [id, members @ ..]) => structures.push((*id, members)),
            (OP_TYPE_POINTER, &[id, PHYSICAL_STORAGE_BUFFER, _]) => drop(addresses.insert(id)),
            (OP_TYPE_POINTER, &[_, PUSH_CONSTANT, block]) => pushed.push(block),
            (OP_TYPE_ARRAY | OP_TYPE_RUNTIME_ARRAY, &[id, element, ..]) => drop(elements.insert(id, element)),
            _ => {}
        }
    }
    let is_address = |member: &u32| {
        let mut innermost = *member;
        for _ in 0..MAX_NESTED_TYPES {
            innermost = elements.get(&innermost).copied().unwrap_or(innermost);
        }
        addresses.contains(&innermost)
    };
    structures.iter().any(|(id, members)| !pushed.contains(id) && members.iter().any(is_address))
}

/// Returns the variables that an entry point lists after its name, if the name is `entry`.
fn listed_variables<'a>(operands: &'a [u32], entry: &str) -> Option<&'a [u32]> {
    let text: Vec<u8> = operands.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = text.iter().position(|byte| *byte == 0)?;
    if text[..end] != *entry.as_bytes() {
        return None;
    }
    operands.get(end / 4 + 1..)
}
