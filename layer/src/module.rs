//! Reads the descriptor bindings of an entry point from SPIR-V, to decide whether its dispatches can be captured.

/// Memory that an entry point accesses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resources {
    /// Set and binding of each buffer.
    pub buffers: Vec<(u32, u32)>,
    /// Reason why dispatches of the entry point cannot be captured.
    pub beyond: Option<String>,
    /// Whether the module declares `PhysicalStorageBufferAddresses`.
    pub addresses: bool,
}

const OP_ENTRY_POINT: u32 = 15;
const OP_CAPABILITY: u32 = 17;
const OP_TYPE_IMAGE: u32 = 25;
const OP_TYPE_SAMPLER: u32 = 26;
const OP_TYPE_SAMPLED_IMAGE: u32 = 27;
const OP_TYPE_ARRAY: u32 = 28;
const OP_TYPE_RUNTIME_ARRAY: u32 = 29;
const OP_TYPE_POINTER: u32 = 32;
const OP_FUNCTION: u32 = 54;
const OP_VARIABLE: u32 = 59;
const OP_DECORATE: u32 = 71;
const OP_TYPE_ACCELERATION_STRUCTURE: u32 = 5341;
const BINDING: u32 = 33;
const DESCRIPTOR_SET: u32 = 34;
const PHYSICAL_STORAGE_BUFFER_ADDRESSES: u32 = 5347;

impl Resources {
    /// Reads the resources of the entry point of this name. Before SPIR-V 1.4 an entry point does not list its buffers;
    /// then all of the module's buffers count.
    pub(crate) fn of(spirv: &[u32], entry: &str) -> Self {
        let mut found = Self::default();
        let Some((&version, mut words)) = spirv.get(1).zip(spirv.get(5..)) else {
            found.beyond = Some("its module is no SPIR-V".into());
            return found;
        };
        let (mut listed, mut sets, mut bindings) = (None, vec![], vec![]);
        // `inner`: pointer and array types by id, with the id of their element type. `opaque`: image, sampler and
        // acceleration-structure types by id, with their opcode.
        let (mut inner, mut opaque, mut variables) = (vec![], vec![], vec![]);
        while let Some(&first) = words.first() {
            let (length, code) = ((first >> 16) as usize, first & 0xffff);
            let Some(operands) = words.get(1..length.max(1)) else { break };
            match (code, operands) {
                (OP_CAPABILITY, [PHYSICAL_STORAGE_BUFFER_ADDRESSES]) => found.addresses = true,
                (OP_ENTRY_POINT, [_, _, rest @ ..]) => {
                    let text: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).collect();
                    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                    if text[..end] == *entry.as_bytes() && version >= 0x0001_0400 {
                        listed = rest.get(end / 4 + 1..);
                    }
                }
                (OP_DECORATE, &[id, DESCRIPTOR_SET, set]) => sets.push((id, set)),
                (OP_DECORATE, &[id, BINDING, binding]) => bindings.push((id, binding)),
                (
                    OP_TYPE_IMAGE | OP_TYPE_SAMPLER | OP_TYPE_SAMPLED_IMAGE | OP_TYPE_ACCELERATION_STRUCTURE,
                    [id, ..],
                ) => {
                    opaque.push((*id, code));
                }
                (OP_TYPE_ARRAY | OP_TYPE_RUNTIME_ARRAY, &[id, of, ..]) | (OP_TYPE_POINTER, &[id, _, of]) => {
                    inner.push((id, of));
                }
                (OP_VARIABLE, &[kind, id, ..]) => variables.push((id, kind)),
                (OP_FUNCTION, _) => break,
                _ => {}
            }
            words = &words[length.max(1)..];
        }
        let of = |list: &[(u32, u32)], id: u32| list.iter().find(|(at, _)| *at == id).map(|(_, value)| *value);
        for (id, kind) in variables {
            let (Some(set), Some(binding)) = (of(&sets, id), of(&bindings, id)) else { continue };
            if listed.is_some_and(|listed| !listed.contains(&id)) {
                continue;
            }
            let mut element = kind;
            // At most a pointer and seven levels of arrays.
            for _ in 0..8 {
                element = of(&inner, element).unwrap_or(element);
            }
            match of(&opaque, element) {
                None => found.buffers.push((set, binding)),
                Some(code) => {
                    let what = match code {
                        OP_TYPE_SAMPLER => "a sampler",
                        OP_TYPE_ACCELERATION_STRUCTURE => "an acceleration structure",
                        _ => "an image",
                    };
                    found.beyond.get_or_insert_with(|| format!("binding {set}.{binding} is {what}"));
                }
            }
        }
        found
    }
}
