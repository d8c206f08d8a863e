//! The interface of a kernel that is none of ours: beside what [`Interface`] has, the buffers that descriptors bind, the
//! push-constant block whatever its members are, and specialization constants of every type.

use crate::kernel::binding::DescriptorKind;
use crate::kernel::reflection::{DEEPEST, Declarations, Interface, Reflector, SizeOp, Word, entry_point, ids, literal};
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{Decoration, Op, StorageClass};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What a foreign kernel shows to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// Version, work-group size, shared memory and capabilities. It has neither arguments nor views: what stands for them
    /// is in the other fields.
    pub interface: Interface,
    /// The specialization constants, by id.
    pub constants: Vec<Constant>,
    /// The members of the push-constant block, in memory order.
    pub push: Vec<Member>,
    /// What is bound, by set and binding.
    pub slots: BTreeMap<(u32, u32), Slot>,
}

/// A specialization constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Constant {
    /// The name in the source; `local_size_x` and so on for nameless ones that set the work-group size; else empty.
    pub name: String,
    /// Its `constant_id`.
    pub id: u32,
    pub scalar: Scalar,
    /// The bits of its default.
    pub default: u64,
}

/// A member of the push-constant block: a number, or one of a vector or an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The name in the source: `p.ne00`, `size.x`, `strides[2]`; empty where the file has been stripped of names.
    pub name: String,
    /// Bytes from the start of the block.
    pub offset: u32,
    pub kind: MemberKind,
}

/// The kind of value that a member takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberKind {
    /// A number.
    Scalar(Scalar),
    /// The address of a buffer.
    Address,
}

impl MemberKind {
    /// Bytes that it takes.
    #[must_use]
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Self::Scalar(scalar) => scalar.bytes(),
            Self::Address => 8,
        }
    }
}

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// A boolean, which has 4 bytes as a specialization constant.
    Bool,
    /// An integer of so many bits.
    Int { bits: u32, signed: bool },
    /// A float of so many bits.
    Float { bits: u32 },
    /// The upper half of an f32.
    Bfloat16,
}

impl Scalar {
    /// Bytes that it takes.
    #[must_use]
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Self::Bool => 4,
            Self::Int { bits, .. } | Self::Float { bits } => bits / 8,
            Self::Bfloat16 => 2,
        }
    }

    /// Its name: `f32`, `u8`, `bool`.
    #[must_use]
    pub(crate) fn name(self) -> String {
        match self {
            Self::Bool => "bool".into(),
            Self::Int { bits, signed } => format!("{}{bits}", if signed { 'i' } else { 'u' }),
            Self::Float { bits } => format!("f{bits}"),
            Self::Bfloat16 => "bf16".into(),
        }
    }
}

/// A set and binding, with all blocks that are declared for it: they see the same buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub kind: DescriptorKind,
    pub blocks: Vec<Block>,
}

/// A block: how a kernel sees a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// What a person may call it: the name of the block, of the variable and of its only member, those that it has.
    pub names: Vec<String>,
    /// Whether the kernel may write to it.
    pub writable: bool,
    /// Whether the kernel may read it.
    pub readable: bool,
    /// Bytes before the array at its end, or of the whole where it has none.
    pub fixed: u64,
    /// The array without a length at its end.
    pub array: Option<Elements>,
}

/// The elements of an array without a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    /// Bytes from one to the next.
    pub stride: u64,
    /// The type of which each element is made, where it is one number or several of one type.
    pub scalar: Option<Scalar>,
}

impl Slot {
    /// The names of all blocks, without repetition, the best first.
    #[must_use]
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let names = self.blocks.iter().flat_map(|block| &block.names).map(String::as_str);
        names.filter(|name| seen.insert(*name)).collect()
    }

    /// Whether a kernel may write to it.
    #[must_use]
    pub(crate) fn is_writable(&self) -> bool {
        self.kind == DescriptorKind::Storage && self.blocks.iter().any(|block| block.writable)
    }

    /// Whether a kernel may read it.
    #[must_use]
    pub(crate) fn is_readable(&self) -> bool {
        self.blocks.iter().any(|block| block.readable)
    }
}

impl Foreign {
    /// Reads the interface of the SPIR-V module `binary`: one compute shader, `main`.
    ///
    /// # Errors
    /// What is wrong with it, or cannot be served, and what to do.
    pub(crate) fn read(binary: &[u8]) -> Result<Self, String> {
        let declarations = Declarations::read(binary)?;
        let module = rspirv::dr::load_words(&declarations.kept)
            .map_err(|e| format!("its declarations cannot be read: {e}; check it with `spirv-val`"))?;
        entry_point(&module)?;
        let reflector = Reflector::new(&module, declarations.size_ids);
        let local_size = reflector.local_size()?;
        // An expression that this program does not know leaves the driver to refuse what is too large.
        let shared = reflector.shared().unwrap_or_else(|_| vec![SizeOp::Push(Word::Literal(0))]);
        let interface = Interface {
            version: declarations.version,
            local_size,
            constants: reflector.constants(local_size).into(),
            arguments: Cow::Borrowed(&[]),
            views: Cow::Borrowed(&[]),
            shared: shared.into(),
            capabilities: declarations.capabilities.into(),
            features: declarations.features.into(),
        };
        Ok(Self {
            constants: constants(&reflector, local_size)?,
            push: push(&reflector)?,
            slots: slots(&reflector)?,
            interface,
        })
    }

    /// Bytes of the push-constant block.
    #[must_use]
    pub(crate) fn push_bytes(&self) -> u32 {
        self.push.iter().map(|member| member.offset.saturating_add(member.kind.bytes())).max().unwrap_or(0)
    }
}

/// Largest push-constant block that is taken for one: devices have 128 to 256 bytes, and some 4096.
const MOST_PUSH: u32 = 1 << 16;

/// The specialization constants of every type.
fn constants(reflector: &Reflector<'_>, local_size: [Word; 3]) -> Result<Vec<Constant>, String> {
    let mut found = BTreeMap::new();
    for instruction in &reflector.module.types_global_values {
        let Some(result) = instruction.result_id else { continue };
        let Some(id) = reflector.spec_id(result) else { continue };
        if found.contains_key(&id) {
            continue;
        }
        let mut name = reflector.name(result, None);
        let axis = local_size.iter().position(|word| matches!(word, Word::Constant { id: own, .. } if *own == id));
        if let (true, Some(axis)) = (name.is_empty(), axis) {
            name = format!("local_size_{}", ["x", "y", "z"][axis]);
        }
        let (scalar, default) = match (instruction.class.opcode, instruction.operands.first()) {
            (Op::SpecConstantTrue, _) => (Scalar::Bool, 1),
            (Op::SpecConstantFalse, _) => (Scalar::Bool, 0),
            (Op::SpecConstant, Some(value)) => {
                let kind = instruction.result_type.ok_or("a constant has no type")?;
                let scalar = scalar(reflector.definition(kind)?)
                    .ok_or_else(|| format!("specialization constant {id} is no number"))?;
                let bits = match value {
                    Operand::LiteralBit32(bits) => u64::from(*bits),
                    Operand::LiteralBit64(bits) => *bits,
                    other => return Err(format!("specialization constant {id} has the default {other:?}")),
                };
                (scalar, bits)
            }
            // Composites and expressions are made of other constants.
            _ => continue,
        };
        found.insert(id, Constant { name, id, scalar, default });
    }
    Ok(found.into_values().collect())
}

/// The number that a type is.
fn scalar(definition: &Instruction) -> Option<Scalar> {
    match (definition.class.opcode, definition.operands.as_slice()) {
        (Op::TypeBool, _) => Some(Scalar::Bool),
        (Op::TypeInt, &[Operand::LiteralBit32(bits @ (8 | 16 | 32 | 64)), Operand::LiteralBit32(signed)]) => {
            Some(Scalar::Int { bits, signed: signed != 0 })
        }
        (Op::TypeFloat, &[Operand::LiteralBit32(bits @ (16 | 32 | 64))]) => Some(Scalar::Float { bits }),
        (Op::TypeFloat, [Operand::LiteralBit32(16), _]) => Some(Scalar::Bfloat16),
        _ => None,
    }
}

/// The members of the push-constant block.
fn push(reflector: &Reflector<'_>) -> Result<Vec<Member>, String> {
    let mut members = vec![];
    if let Some(variable) = reflector.variables(StorageClass::PushConstant).next() {
        flatten(
            reflector,
            reflector.pointee(variable)?,
            &Place { name: String::new(), offset: 0 },
            DEEPEST,
            &mut members,
        )?;
    }
    members.sort_by_key(|member| member.offset);
    match members.iter().find(|member| member.offset > MOST_PUSH) {
        Some(member) => {
            Err(format!("push constant '{}' is at byte {}, which no device has", member.name, member.offset))
        }
        None => Ok(members),
    }
}

/// A part of the push constants.
struct Place {
    name: String,
    offset: u32,
}

/// Members of a push-constant block at most.
const MOST_MEMBERS: usize = 4096;

/// Appends the numbers that type `id` at `place` is made of.
fn flatten(
    reflector: &Reflector<'_>,
    id: u32,
    place: &Place,
    depth: usize,
    members: &mut Vec<Member>,
) -> Result<(), String> {
    let endless = || "its push constants are too many, or hold themselves".to_string();
    let depth = depth.checked_sub(1).filter(|_| members.len() < MOST_MEMBERS).ok_or_else(endless)?;
    let definition = reflector.definition(id)?;
    let single = |kind| Member { name: place.name.clone(), offset: place.offset, kind };
    if let Some(scalar) = scalar(definition) {
        members.push(single(MemberKind::Scalar(scalar)));
        return Ok(());
    }
    // Of such, a structure that doubles at each level would add no members, and go on for ever.
    let empty = || format!("push constant '{}' holds nothing; leave it out", place.name);
    let part = |name: String, bytes: u32| Place { name, offset: place.offset.saturating_add(bytes) };
    match (definition.class.opcode, definition.operands.as_slice()) {
        (Op::TypePointer, _) => members.push(single(MemberKind::Address)),
        (Op::TypeVector, &[Operand::IdRef(component), Operand::LiteralBit32(count @ 2..=4)]) => {
            let bytes = size(reflector, component, depth)? as u32;
            for (at, letter) in (0..count).zip(["x", "y", "z", "w"]) {
                let name = dotted(&place.name, letter);
                flatten(reflector, component, &part(name, at.saturating_mul(bytes)), depth, members)?;
            }
        }
        (Op::TypeArray, &[Operand::IdRef(element), Operand::IdRef(length)]) => {
            let length = length_of(reflector, length)?;
            if length == 0 {
                return Err(empty());
            }
            let stride =
                stride(reflector, id).ok_or_else(|| format!("push constant '{}' has no stride", place.name))?;
            for at in 0..length.min(MOST_MEMBERS as u64 + 1) as u32 {
                let name = format!("{}[{at}]", place.name);
                flatten(reflector, element, &part(name, at.saturating_mul(stride as u32)), depth, members)?;
            }
        }
        (Op::TypeStruct, []) => return Err(empty()),
        (Op::TypeStruct, _) => {
            for (index, member) in (0..).zip(ids(definition)) {
                let name = dotted(&place.name, &reflector.name(id, Some(index)));
                let offset = decorated(reflector, id, Some(index), Decoration::Offset)
                    .ok_or_else(|| format!("push constant '{name}' has no offset"))?;
                flatten(reflector, member, &part(name, offset), depth, members)?;
            }
        }
        (other, _) => {
            let name = &place.name;
            return Err(format!(
                "push constant '{name}' is a {other:?}; use numbers, vectors, arrays and buffer references"
            ));
        }
    }
    Ok(())
}

/// `outer.inner`, or what there is of it.
fn dotted(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", inner) => inner.to_string(),
        (outer, "") => outer.to_string(),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

/// The number that a decoration gives.
fn decorated(reflector: &Reflector<'_>, id: u32, member: Option<u32>, decoration: Decoration) -> Option<u32> {
    match reflector.decoration(id, member, decoration) {
        Some([Operand::LiteralBit32(value)]) => Some(*value),
        _ => None,
    }
}

fn stride(reflector: &Reflector<'_>, id: u32) -> Option<u64> {
    decorated(reflector, id, None, Decoration::ArrayStride).map(u64::from)
}

/// The length of an array; of one that a specialization constant sets, the default.
fn length_of(reflector: &Reflector<'_>, id: u32) -> Result<u64, String> {
    let definition = reflector.definition(id)?;
    let value = definition.operands.first().ok_or("an array has no length")?;
    match definition.class.opcode {
        Op::Constant | Op::SpecConstant => literal(value).map(u64::from),
        // Computed from specialization constants: one element at least.
        _ => Ok(1),
    }
}

/// The set and binding of everything that is bound.
fn slots(reflector: &Reflector<'_>) -> Result<BTreeMap<(u32, u32), Slot>, String> {
    if let Some(variable) = reflector.variables(StorageClass::UniformConstant).next() {
        let name = variable.result_id.map_or_else(String::new, |id| reflector.name(id, None));
        return Err(format!("'{name}' is an image, a sampler or a texel buffer; use storage and uniform buffers"));
    }
    let mut slots = BTreeMap::new();
    for class in [StorageClass::StorageBuffer, StorageClass::Uniform] {
        for variable in reflector.variables(class) {
            let id = variable.result_id.ok_or("a variable has no id")?;
            let block_id = reflector.pointee(variable)?;
            let definition = reflector.definition(block_id)?;
            let name = reflector.name(id, None);
            if definition.class.opcode != Op::TypeStruct {
                return Err(format!(
                    "'{name}' is an array of buffers or no block; declare each buffer as a block of its own"
                ));
            }
            let place = |decoration| decorated(reflector, id, None, decoration);
            let (Some(set), Some(binding)) = (place(Decoration::DescriptorSet), place(Decoration::Binding)) else {
                return Err(format!(
                    "buffer '{name}' has no set or no binding; declare `layout(set = 0, binding = …)`"
                ));
            };
            let old = reflector.decoration(block_id, None, Decoration::BufferBlock).is_some();
            let kind = if class == StorageClass::StorageBuffer || old {
                DescriptorKind::Storage
            } else {
                DescriptorKind::Uniform
            };
            let slot = slots.entry((set, binding)).or_insert_with(|| Slot { kind, blocks: vec![] });
            if slot.kind != kind {
                return Err(format!("set {set}, binding {binding} is a storage buffer and a uniform buffer"));
            }
            slot.blocks.push(block(reflector, id, definition)?);
        }
    }
    Ok(slots)
}

/// The block of type `definition` that `variable` is.
fn block(reflector: &Reflector<'_>, variable: u32, definition: &Instruction) -> Result<Block, String> {
    let block_id = definition.result_id.ok_or("a block has no id")?;
    let members: Vec<u32> = ids(definition).collect();
    let mut names = vec![reflector.name(block_id, None), reflector.name(variable, None)];
    if members.len() == 1 {
        names.push(reflector.name(block_id, Some(0)));
    }
    // naga calls each variable by its own name and the block by none or by a general one.
    if names[1].is_empty() || names[0] != names[1] {
        names.dedup();
    }
    names.retain(|name| !name.is_empty());
    let marked = |decoration| {
        let each = |index| reflector.decoration(block_id, Some(index), decoration).is_some();
        reflector.decoration(variable, None, decoration).is_some()
            || (!members.is_empty() && (0..members.len() as u32).all(each))
    };
    let (mut fixed, mut array) = (0, None);
    for (index, member) in (0..).zip(&members) {
        let offset = decorated(reflector, block_id, Some(index), Decoration::Offset).map_or(0, u64::from);
        let of = reflector.definition(*member)?;
        if of.class.opcode == Op::TypeRuntimeArray {
            let element = ids(of).next().ok_or("an array has no elements")?;
            let bytes = size(reflector, element, DEEPEST)?;
            let stride = stride(reflector, *member).unwrap_or(bytes);
            array = Some(Elements { stride, scalar: uniform_scalar(reflector, element, DEEPEST) });
            fixed = offset;
        } else {
            fixed = fixed.max(offset.saturating_add(size(reflector, *member, DEEPEST)?));
        }
    }
    Ok(Block {
        names,
        writable: !marked(Decoration::NonWritable),
        readable: !marked(Decoration::NonReadable),
        fixed,
        array,
    })
}

/// The one type of number that type `id` is made of.
fn uniform_scalar(reflector: &Reflector<'_>, id: u32, depth: usize) -> Option<Scalar> {
    let depth = depth.checked_sub(1)?;
    let definition = reflector.definition(id).ok()?;
    if let Some(scalar) = scalar(definition) {
        return Some(scalar);
    }
    match definition.class.opcode {
        Op::TypeVector | Op::TypeMatrix | Op::TypeArray => uniform_scalar(reflector, ids(definition).next()?, depth),
        Op::TypeStruct => {
            let mut members = ids(definition);
            let first = members.next()?;
            if members.next().is_some() { None } else { uniform_scalar(reflector, first, depth) }
        }
        _ => None,
    }
}

/// Bytes of type `id` in a buffer, without padding behind it.
fn size(reflector: &Reflector<'_>, id: u32, depth: usize) -> Result<u64, String> {
    let depth = depth.checked_sub(1).ok_or("a type of its buffers holds itself")?;
    let definition = reflector.definition(id)?;
    if let Some(scalar) = scalar(definition) {
        return Ok(u64::from(scalar.bytes()));
    }
    match (definition.class.opcode, definition.operands.as_slice()) {
        (Op::TypeFloat, [Operand::LiteralBit32(bits), ..]) => Ok(u64::from(bits / 8)),
        (Op::TypePointer, _) => Ok(8),
        (Op::TypeVector | Op::TypeMatrix, &[Operand::IdRef(of), Operand::LiteralBit32(count)]) => {
            Ok(size(reflector, of, depth)?.saturating_mul(u64::from(count)))
        }
        (Op::TypeArray, &[Operand::IdRef(element), Operand::IdRef(length)]) => {
            let each = stride(reflector, id).map_or_else(|| size(reflector, element, depth), Ok)?;
            Ok(each.saturating_mul(length_of(reflector, length)?))
        }
        (Op::TypeRuntimeArray, _) => Ok(0),
        (Op::TypeStruct, _) => {
            let mut end = 0u64;
            // A structure that doubles at each level would take for ever: only its last member counts.
            if let Some((index, member)) = (0..).zip(ids(definition)).last() {
                let offset = decorated(reflector, id, Some(index), Decoration::Offset).map_or(0, u64::from);
                end = offset.saturating_add(size(reflector, member, depth)?);
            }
            Ok(end)
        }
        (other, _) => {
            Err(format!("one of its buffers holds a {other:?}; use numbers, vectors, matrices, arrays and structures"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::reflection::tests::module;
    use std::time::{Duration, Instant};

    #[test]
    fn structures_of_nothing_that_double_at_each_level_end() {
        let class = StorageClass::PushConstant as u32;
        let offset = |of, member| vec![Op::MemberDecorate as u32, of, member, Decoration::Offset as u32, 0];
        let mut declarations: Vec<Vec<u32>> = (11..70).flat_map(|of| [offset(of, 0), offset(of, 1)]).collect();
        declarations.push(vec![Op::TypeStruct as u32, 10]);
        declarations.extend((11..70).map(|of| vec![Op::TypeStruct as u32, of, of - 1, of - 1]));
        declarations.push(vec![Op::TypePointer as u32, 70, class, 69]);
        declarations.push(vec![Op::Variable as u32, 70, 71, class]);
        let declarations: Vec<&[u32]> = declarations.iter().map(Vec::as_slice).collect();
        let refused = Foreign::read(&module(&declarations)).expect_err("it holds nothing");
        assert_eq!(refused, "push constant '' holds nothing; leave it out");
    }

    #[test]
    fn many_declarations_take_no_time() {
        const MANY: u32 = 1 << 17;
        let uint = vec![Op::TypeInt as u32, 2, 32, 0];
        let id = |constant| vec![Op::Decorate as u32, 10 + constant, Decoration::SpecId as u32, constant];
        let constants = (0..MANY).map(|constant| vec![Op::SpecConstant as u32, 2, 10 + constant, 7]);
        let declarations: Vec<_> = (0..MANY).map(id).chain([uint]).chain(constants).collect();
        let declarations: Vec<&[u32]> = declarations.iter().map(Vec::as_slice).collect();
        let begun = Instant::now();
        let found = Foreign::read(&module(&declarations)).expect("a kernel");
        assert_eq!(found.constants.len(), MANY as usize);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
