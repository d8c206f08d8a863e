//! Reads the interface of a kernel from its SPIR-V: work-group size, specialization constants, arguments (the
//! push-constant block), bound buffers, shared memory and capabilities.
//!
//! `build.rs` includes this file and prints the result as constants; at run time it reads users' files. So it imports
//! only files of the crate that `build.rs` includes too.

use super::instructions::{HEADER, Instruction as Words, MAGIC, instructions};
use super::interface::{
    Argument, ArgumentKind, Block, Elements, ImageShape, ImageType, Interface, LongArray, Scalar, SizeOp, Slot,
    SlotKind, SpecConstant, Word,
};
use super::required::Required;
use rspirv::dr::{Instruction, Module, Operand};
use rspirv::spirv::{
    BuiltIn, Capability, Decoration, Dim, ExecutionMode, ExecutionModel, ImageFormat, Op, StorageClass,
};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

/// Purpose that a kernel's interface is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InterfaceUse {
    Compile,
    Run,
    BuildIn,
}

impl Interface {
    /// Reads the interface of the SPIR-V module `binary`: one compute shader, `main`. A shared-memory size that cannot
    /// be evaluated counts as 0: the driver refuses a kernel that needs too much. The error message names what is
    /// invalid or unsupported in the module, and the remedy.
    pub fn read(binary: &[u8]) -> Result<Self, String> {
        Self::reflect(binary, InterfaceUse::Run)
    }

    /// Reads what compiling a kernel takes: not its push constants and descriptors, which may be of kinds that gpukern does
    /// not bind.
    pub fn read_unbound(binary: &[u8]) -> Result<Self, String> {
        Self::reflect(binary, InterfaceUse::Compile)
    }

    /// Reads the interface of a built-in kernel, whose shared-memory size must be known.
    pub fn read_built_in(binary: &[u8]) -> Result<Self, String> {
        let interface = Self::reflect(binary, InterfaceUse::BuildIn)?;
        interface.check_slots()?;
        Ok(interface)
    }

    /// Checks that the kernel binds only texel views, at bindings 0, 1, … of set 0. The error names one that is not.
    pub fn check_slots(&self) -> Result<(), String> {
        for (expected, slot) in (0..).zip(self.slots.iter()) {
            let name = slot.names().first().copied().unwrap_or_default().to_string();
            if slot.kind != SlotKind::Texel {
                return Err(format!(
                    "{name} is a buffer that a descriptor binds; declare it as a buffer reference in the push constants"
                ));
            }
            if slot.set != 0 {
                return Err(format!("{name} is not in set 0"));
            }
            if slot.binding != expected {
                return Err(format!("{name} must have binding {expected}: they are numbered from 0"));
            }
        }
        Ok(())
    }

    fn reflect(binary: &[u8], purpose: InterfaceUse) -> Result<Self, String> {
        let declarations = Declarations::read(binary)?;
        let module = rspirv::dr::load_words(&declarations.words)
            .map_err(|e| format!("its declarations cannot be read: {e}; check it with `spirv-val`"))?;
        check_entry_point(&module)?;
        let reflector = Reflector::new(&module, declarations.size_ids);
        let local_size = reflector.local_size()?;
        let is_bound = purpose != InterfaceUse::Compile;
        Ok(Self {
            version: declarations.version,
            local_size,
            constants: reflector.constants(local_size)?.into(),
            arguments: if is_bound { reflector.arguments()? } else { vec![] }.into(),
            slots: if is_bound { reflector.slots()? } else { vec![] }.into(),
            asks_lengths: declarations.asks_lengths,
            shared: match reflector.shared() {
                Err(_) if purpose != InterfaceUse::BuildIn => vec![SizeOp::Push(Word::Literal(0))].into(),
                shared => shared?.into(),
            },
            capabilities: declarations.capabilities.into(),
            features: declarations.features.into(),
        })
    }
}

/// Blocks that the addresses in a kernel's blocks point to (buffer references in GLSL), to any depth.
#[derive(Clone, Debug, Default)]
pub struct Pointees {
    /// Types of the push-constant block and, by set and binding, of the bound blocks.
    push: Option<u32>,
    slots: HashMap<(u32, u32), u32>,
    /// Type that the address at an offset of a block points to.
    targets: HashMap<(u32, u32), u32>,
    blocks: HashMap<u32, Block>,
}

impl Pointees {
    /// Reads them from a module whose interface is readable.
    pub fn read(binary: &[u8]) -> Result<Self, String> {
        let declarations = Declarations::read(binary)?;
        let module = rspirv::dr::load_words(&declarations.words).map_err(|e| e.to_string())?;
        let reflector = Reflector::new(&module, declarations.size_ids);
        let mut pointees = Self::default();
        for class in [StorageClass::PushConstant, StorageClass::StorageBuffer, StorageClass::Uniform] {
            for variable in reflector.variables(class) {
                let id = variable.result_id.ok_or("a variable has no id")?;
                let block = reflector.pointee(variable)?;
                let number = |decoration| reflector.number(id, None, decoration);
                match (number(Decoration::DescriptorSet), number(Decoration::Binding)) {
                    (Some(set), Some(binding)) => drop(pointees.slots.entry((set, binding)).or_insert(block)),
                    _ => pointees.push = pointees.push.or(Some(block)),
                }
            }
        }
        let mut unvisited: Vec<u32> = pointees.push.into_iter().chain(pointees.slots.values().copied()).collect();
        while let Some(block) = unvisited.pop() {
            reflector.addresses.take();
            // A block with too many members has no addresses that could be described.
            let _ = reflector.members(&BlockPart::whole(block));
            for (offset, target) in reflector.addresses.take() {
                pointees.targets.insert((block, offset), target);
                let definition = reflector.definition(target)?;
                if definition.class.opcode == Op::TypeStruct && !pointees.blocks.contains_key(&target) {
                    pointees.blocks.insert(target, reflector.block(target, definition)?);
                    unvisited.push(target);
                }
            }
        }
        Ok(pointees)
    }

    /// Returns the type of the block of a slot, or of the push constants.
    pub fn root(&self, slot: Option<&Slot>) -> Option<u32> {
        slot.map_or(self.push, |slot| self.slots.get(&(slot.set, slot.binding)).copied())
    }

    /// Returns the block that the address at an offset of a block of type `root` points to, with its type.
    pub fn target(&self, root: u32, offset: u32) -> Option<(u32, &Block)> {
        let offset = match self.blocks.get(&root).and_then(|block| Some((block.fixed, block.array?.stride))) {
            // Elements of an array point to blocks of one type.
            Some((fixed, stride)) if u64::from(offset) >= fixed && stride > 0 => {
                (fixed + (u64::from(offset) - fixed) % stride) as u32
            }
            _ => offset,
        };
        let target = *self.targets.get(&(root, offset))?;
        Some((target, self.blocks.get(&target)?))
    }
}

/// Declarations that the interface depends on, without functions and unknown instructions: those may be damaged.
struct Declarations {
    version: [u8; 2],
    /// Header and the instructions that the reflector reads.
    words: Vec<u32>,
    capabilities: Vec<Cow<'static, str>>,
    features: Vec<Cow<'static, str>>,
    /// Ids of the work-group size from `OpExecutionModeId … LocalSizeId x y z`, SPIR-V 1.6's way to write it (section
    /// 3.6); rspirv 0.13 mistakes it for an instruction of a function.
    size_ids: Option<[u32; 3]>,
    /// Whether the module contains an `OpArrayLength`.
    asks_lengths: bool,
}

impl Declarations {
    fn read(binary: &[u8]) -> Result<Self, String> {
        const LOCAL_SIZE_ID: u32 = ExecutionMode::LocalSizeId as u32;
        let words = read_words(binary)?;
        let [_, minor, major, _] = words[1].to_le_bytes();
        let mut declarations = Self {
            version: [major, minor],
            words: words[..HEADER].to_vec(),
            capabilities: vec![],
            features: vec![],
            size_ids: None,
            asks_lengths: false,
        };
        let mut last_op = None;
        let mut in_functions = false;
        let mut has_entry_point = false;
        let mut required = Required::default();
        for instruction in instructions(&words) {
            let instruction = instruction?;
            last_op = instruction.op();
            in_functions |= last_op == Some(Op::Function);
            has_entry_point |= last_op == Some(Op::EntryPoint);
            declarations.asks_lengths |= last_op == Some(Op::ArrayLength);
            required.read(last_op, instruction.operands());
            if in_functions {
                continue;
            }
            match (last_op, instruction.operands()) {
                (Some(Op::Capability), &[number]) => {
                    let name = Capability::from_u32(number).map(|capability| format!("{capability:?}"));
                    declarations.capabilities.push(name.unwrap_or_else(|| number.to_string()).into());
                }
                (Some(Op::ExecutionModeId), &[_, LOCAL_SIZE_ID, x, y, z]) => declarations.size_ids = Some([x, y, z]),
                _ if is_read(instruction) => declarations.words.extend(instruction.words),
                _ => {}
            }
        }
        // A file cut off before its first function has an entry point without a function, which crashes drivers.
        if (in_functions || has_entry_point) && last_op != Some(Op::FunctionEnd) {
            return Err("it is damaged: it does not end after a function".into());
        }
        declarations.features = required.features.into_iter().map(Cow::Owned).collect();
        Ok(declarations)
    }
}

/// Returns the words of a SPIR-V module, or an error if its size or its first word shows that it is none.
fn read_words(binary: &[u8]) -> Result<Vec<u32>, String> {
    if binary.len() < 4 * HEADER || !binary.len().is_multiple_of(4) {
        return Err(format!(
            "its size, {} bytes, is impossible for SPIR-V; compile it, for example with `glslc -o FILE.spv`",
            binary.len()
        ));
    }
    let words: Vec<u32> =
        binary.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    if words[0] == MAGIC.swap_bytes() {
        return Err("its byte order is another machine's; compile it for this one".into());
    }
    if words[0] != MAGIC {
        return Err(
            "it is not SPIR-V: its first word is not the magic number; compile it, for example with `glslc`".into()
        );
    }
    Ok(words)
}

/// Whether the reflector reads this instruction.
fn is_read(instruction: Words<'_>) -> bool {
    const DECORATIONS: [Decoration; 11] = [
        Decoration::SpecId,
        Decoration::BuiltIn,
        Decoration::Binding,
        Decoration::DescriptorSet,
        Decoration::Offset,
        Decoration::ArrayStride,
        Decoration::MatrixStride,
        Decoration::RowMajor,
        Decoration::BufferBlock,
        Decoration::NonWritable,
        Decoration::NonReadable,
    ];
    let operands = instruction.operands();
    let is_decoration = |operand: Option<&u32>| DECORATIONS.iter().any(|known| operand == Some(&(*known as u32)));
    match instruction.op() {
        Some(Op::Decorate) => is_decoration(operands.get(1)),
        Some(Op::MemberDecorate) => is_decoration(operands.get(2)),
        // rspirv panics at operations with operands other than ids and numbers.
        Some(Op::SpecConstantOp) => operands.get(2).is_some_and(|operation| {
            let arithmetic = (Op::ConvertFToU as u32..=Op::Not as u32).contains(operation);
            *operation == Op::CompositeExtract as u32 || arithmetic && *operation != Op::GenericCastToPtrExplicit as u32
        }),
        Some(
            Op::EntryPoint
            | Op::ExecutionMode
            | Op::Name
            | Op::MemberName
            | Op::TypeBool
            | Op::TypeInt
            | Op::TypeFloat
            | Op::TypeVector
            | Op::TypeMatrix
            | Op::TypeImage
            | Op::TypeSampler
            | Op::TypeSampledImage
            | Op::TypeArray
            | Op::TypeRuntimeArray
            | Op::TypeStruct
            | Op::TypePointer
            | Op::Constant
            | Op::ConstantComposite
            | Op::SpecConstant
            | Op::SpecConstantComposite
            | Op::SpecConstantTrue
            | Op::SpecConstantFalse
            | Op::Variable,
        ) => true,
        _ => false,
    }
}

/// Checks that the module is a single compute shader, `main`.
fn check_entry_point(module: &Module) -> Result<(), String> {
    let entries: Vec<_> = module.entry_points.iter().map(|entry| entry.operands.as_slice()).collect();
    match entries[..] {
        [[Operand::ExecutionModel(ExecutionModel::GLCompute), _, Operand::LiteralString(name), ..]]
            if name == "main" =>
        {
            Ok(())
        }
        [] => Err("it has no entry point; compile a compute shader with `void main()`".into()),
        [[Operand::ExecutionModel(model), _, Operand::LiteralString(name), ..], ..] => Err(format!(
            "its entry point is '{}' of execution model {}{}; compile one compute shader with `void main()`",
            name.replace('\n', "\\n"),
            *model as u32,
            if entries.len() > 1 { ", and there are others" } else { "" }
        )),
        _ => Err("its entry point has neither model nor name; check it with `spirv-val`".into()),
    }
}

struct Reflector<'a> {
    module: &'a Module,
    /// Ids of the work-group size from `LocalSizeId`, if present.
    size_ids: Option<[u32; 3]>,
    /// Declarations, by result id.
    definitions: HashMap<u32, &'a Instruction>,
    /// Operands of the decorations, by id, member and decoration.
    decorations: HashMap<(u32, Option<u32>, Decoration), &'a [Operand]>,
    /// Names of ids and of their members.
    names: HashMap<(u32, Option<u32>), &'a str>,
    /// Number of block members listed so far.
    listed_members: Cell<usize>,
    /// Addresses among the members listed so far: their offsets, and the types that they point to.
    addresses: RefCell<Vec<(u32, u32)>>,
}

impl<'a> Reflector<'a> {
    fn new(module: &'a Module, size_ids: Option<[u32; 3]>) -> Self {
        let mut reflector = Self {
            module,
            size_ids,
            definitions: HashMap::new(),
            decorations: HashMap::new(),
            names: HashMap::new(),
            listed_members: Cell::new(0),
            addresses: RefCell::new(vec![]),
        };
        // Inserted in reverse, so that the first of several definitions wins.
        for instruction in module.types_global_values.iter().rev() {
            reflector.definitions.extend(instruction.result_id.map(|id| (id, instruction)));
        }
        for instruction in module.annotations.iter().rev() {
            let (key, value) = match (instruction.class.opcode, instruction.operands.as_slice()) {
                (Op::Decorate, [Operand::IdRef(id), Operand::Decoration(decoration), rest @ ..]) => {
                    ((*id, None, *decoration), rest)
                }
                (
                    Op::MemberDecorate,
                    [Operand::IdRef(id), Operand::LiteralBit32(member), Operand::Decoration(decoration), rest @ ..],
                ) => ((*id, Some(*member), *decoration), rest),
                _ => continue,
            };
            reflector.decorations.insert(key, value);
        }
        for instruction in module.debug_names.iter().rev() {
            let (key, name) = match (instruction.class.opcode, instruction.operands.as_slice()) {
                (Op::Name, [Operand::IdRef(id), Operand::LiteralString(name)]) => ((*id, None), name),
                (Op::MemberName, [Operand::IdRef(id), Operand::LiteralBit32(member), Operand::LiteralString(name)]) => {
                    ((*id, Some(*member)), name)
                }
                _ => continue,
            };
            reflector.names.insert(key, name);
        }
        reflector
    }

    fn definition(&self, id: u32) -> Result<&'a Instruction, String> {
        self.definitions.get(&id).copied().ok_or_else(|| format!("%{id} has no definition"))
    }

    /// Returns the operands of a decoration of `id` (or of its `member`).
    fn decoration(&self, id: u32, member: Option<u32>, wanted: Decoration) -> Option<&'a [Operand]> {
        self.decorations.get(&(id, member, wanted)).copied()
    }

    /// Returns the number that a decoration of `id` (or of its `member`) holds.
    fn number(&self, id: u32, member: Option<u32>, decoration: Decoration) -> Option<u32> {
        match self.decoration(id, member, decoration)? {
            [Operand::LiteralBit32(number)] => Some(*number),
            _ => None,
        }
    }

    /// Returns the `constant_id` of a specialization constant.
    fn spec_id(&self, id: u32) -> Option<u32> {
        self.number(id, None, Decoration::SpecId)
    }

    fn name(&self, id: u32, member: Option<u32>) -> String {
        // Error messages show the name on one line, so its line breaks are escaped.
        self.names.get(&(id, member)).copied().unwrap_or_default().replace('\n', "\\n")
    }

    /// Returns the work-group size: from the composite decorated `BuiltIn WorkgroupSize`, which overrides the execution
    /// mode (SPIR-V section 3.6), or else from the mode.
    fn local_size(&self) -> Result<[Word; 3], String> {
        let is_size = |id: u32| {
            self.decoration(id, None, Decoration::BuiltIn) == Some(&[Operand::BuiltIn(BuiltIn::WorkgroupSize)])
        };
        let mut declarations = self.module.types_global_values.iter();
        let composite = declarations.find(|instruction| instruction.result_id.is_some_and(is_size));
        let size_ids = match composite {
            Some(composite) => Some(ids(composite).collect()),
            None => self.size_ids.map(Vec::from),
        };
        let sizes: Vec<Word> = if let Some(size_ids) = size_ids {
            size_ids.into_iter().map(|id| self.word(id)).collect::<Result<_, _>>()?
        } else {
            let mode = self.module.execution_modes.iter().find_map(|mode| match mode.operands.as_slice() {
                [_, Operand::ExecutionMode(ExecutionMode::LocalSize), sizes @ ..] => Some(sizes),
                _ => None,
            });
            let sizes = mode.ok_or("the kernel declares no work-group size")?;
            sizes.iter().map(|size| literal(size).map(Word::Literal)).collect::<Result<_, _>>()?
        };
        sizes.try_into().map_err(|_| "its work-group size does not have three extents".into())
    }

    /// Returns constant `id`, specialized or not, as a [`Word`].
    fn word(&self, id: u32) -> Result<Word, String> {
        let definition = self.definition(id)?;
        let value = || literal(definition.operands.first().ok_or_else(|| format!("%{id} has no value"))?);
        match (definition.class.opcode, self.spec_id(id)) {
            (Op::SpecConstant, Some(id)) => Ok(Word::Constant { id, default: value()? }),
            (Op::Constant, _) => Ok(Word::Literal(value()?)),
            (other, _) => Err(format!("%{id} is {other:?}, not a 32-bit constant")),
        }
    }

    /// Lists the numeric specialization constants, by id. Composites and expressions are derived from them.
    fn constants(&self, local_size: [Word; 3]) -> Result<Vec<SpecConstant>, String> {
        let mut constants: BTreeMap<u32, SpecConstant> = BTreeMap::new();
        for instruction in &self.module.types_global_values {
            let Some(result) = instruction.result_id else { continue };
            let Some(id) = self.spec_id(result) else { continue };
            if let Some(first) = constants.get_mut(&id) {
                if let Some(Operand::LiteralBit32(bits)) = instruction.operands.first()
                    && u64::from(*bits) != first.default
                {
                    first.is_ambiguous = true;
                    // The default that the source states, not that of `local_size_x_id`.
                    let name = self.name(result, None);
                    if !name.is_empty() && first.name.starts_with("local_size_") {
                        (first.name, first.default) = (name.into(), u64::from(*bits));
                    }
                }
                continue;
            }
            let mut name = self.name(result, None);
            if name.is_empty() {
                let is_own = |word: &Word| matches!(word, Word::Constant { id: size_id, .. } if *size_id == id);
                if let Some(axis) = local_size.iter().position(is_own) {
                    name = format!("local_size_{}", ["x", "y", "z"][axis]);
                }
            }
            let (scalar, default) = match (instruction.class.opcode, instruction.operands.first()) {
                (Op::SpecConstantTrue, _) => (Scalar::Bool, 1),
                (Op::SpecConstantFalse, _) => (Scalar::Bool, 0),
                (Op::SpecConstant, Some(value)) => {
                    let kind = instruction.result_type.ok_or("a constant has no type")?;
                    let scalar = scalar(self.definition(kind)?)
                        .ok_or_else(|| format!("specialization constant {id} is not a number"))?;
                    match value {
                        Operand::LiteralBit32(bits) => (scalar, u64::from(*bits)),
                        Operand::LiteralBit64(bits) => (scalar, *bits),
                        other => return Err(format!("specialization constant {id} has the default {other:?}")),
                    }
                }
                // Composites and expressions are derived from other constants.
                _ => continue,
            };
            constants.insert(id, SpecConstant { name: name.into(), id, scalar, default, is_ambiguous: false });
        }
        Ok(constants.into_values().collect())
    }

    /// Lists the members of the push-constant block, in memory order.
    fn arguments(&self) -> Result<Vec<Argument>, String> {
        let Some(variable) = self.variables(StorageClass::PushConstant).next() else { return Ok(vec![]) };
        let mut block = BlockPart::whole(self.pointee(variable)?);
        let types: Vec<u32> = ids(self.definition(block.type_id)?).collect();
        // naga wraps a variable in a structure whose only member has no name.
        if let [own] = types.as_slice()
            && self.definition(*own)?.class.opcode != Op::TypeStruct
            && self.name(block.type_id, Some(0)).is_empty()
        {
            block.name = self.name(variable.result_id.ok_or("a variable has no id")?, None);
        }
        let members = self.members(&block)?;
        match members.iter().find(|member| member.offset > MAX_PUSH_OFFSET) {
            Some(member) => {
                Err(format!("push constant '{}' is at byte {}, beyond what any device has", member.name, member.offset))
            }
            None => Ok(members),
        }
    }

    /// Lists every descriptor slot with the blocks declared for it.
    fn slots(&self) -> Result<Vec<Slot>, String> {
        let mut slots: BTreeMap<[u32; 3], Slot> = BTreeMap::new();
        for class in [StorageClass::UniformConstant, StorageClass::StorageBuffer, StorageClass::Uniform] {
            for variable in self.variables(class) {
                let id = variable.result_id.ok_or("a variable has no id")?;
                let mut definition = self.definition(self.pointee(variable)?)?;
                let count = self.buffer_count(id, definition)?;
                if count.is_some() {
                    definition = self.definition(ids(definition).next().ok_or("an array has no elements")?)?;
                }
                let kind = self.slot_kind(class, id, definition)?;
                let name = self.name(id, None);
                let misplaced =
                    || format!("buffer '{name}' has no set or no binding; declare `layout(set = 0, binding = …)`");
                let block = match kind {
                    SlotKind::Texel => {
                        // Whatever is left over behind the last whole texel belongs to one more.
                        let floats = Elements { stride: 4, scalar: Some(Scalar::Float { bits: 32 }) };
                        let names = vec![name.clone().into()].into();
                        Block { names, readable: true, array: Some(floats), ..Block::default() }
                    }
                    SlotKind::Storage | SlotKind::Uniform => self.block(id, definition)?,
                    _ => self.image_block(id, kind, definition)?,
                };
                let set = self.number(id, None, Decoration::DescriptorSet).ok_or_else(misplaced)?;
                let binding = self.number(id, None, Decoration::Binding).ok_or_else(misplaced)?;
                for element in 0..count.unwrap_or(1) {
                    let empty = Slot { set, binding, element, kind, blocks: Cow::Borrowed(&[]) };
                    let slot = slots.entry([set, binding, element]).or_insert(empty);
                    if slot.kind != kind {
                        let noun = if kind.is_image() { "" } else { " buffer" };
                        let [first, second] = [slot.kind.min(kind), slot.kind.max(kind)].map(SlotKind::name);
                        return Err(format!("set {set}, binding {binding} is a {first} buffer and a {second}{noun}"));
                    }
                    let mut block = block.clone();
                    if count.is_some() {
                        // The block's only member gets an index as well, because it may serve as a name of the buffer.
                        for name in block.names.to_mut() {
                            *name = format!("{name}[{element}]").into();
                        }
                    }
                    slot.blocks.to_mut().push(block);
                }
            }
        }
        Ok(slots.into_values().collect())
    }

    /// Returns the number of buffers if variable `id` is an array of buffers, as its type `definition` says.
    fn buffer_count(&self, id: u32, definition: &Instruction) -> Result<Option<u32>, String> {
        let length = match (definition.class.opcode, definition.operands.as_slice()) {
            (Op::TypeArray, &[_, Operand::IdRef(length)]) => self.length(length)?,
            (Op::TypeRuntimeArray, _) => {
                let name = self.name(id, None);
                return Err(format!("'{name}' is an array of buffers without a length; declare how many"));
            }
            _ => return Ok(None),
        };
        match u32::try_from(length) {
            Ok(count @ 1..=MAX_BUFFERS_PER_ARRAY) => Ok(Some(count)),
            _ => Err(format!(
                "'{}' is an array of {length} buffers; {MAX_BUFFERS_PER_ARRAY} are the most",
                self.name(id, None)
            )),
        }
    }

    /// Returns the descriptor type of variable `id`, whose type is `definition`.
    fn slot_kind(&self, class: StorageClass, id: u32, definition: &Instruction) -> Result<SlotKind, String> {
        let name = self.name(id, None);
        if class == StorageClass::UniformConstant {
            return self.opaque_kind(&name, definition);
        }
        if definition.class.opcode != Op::TypeStruct {
            return Err(format!("'{name}' is not a block; declare each buffer as its own block"));
        }
        // Before SPIR-V 1.3, a storage buffer was a uniform one with this decoration.
        let is_buffer_block =
            definition.result_id.is_some_and(|block| self.decoration(block, None, Decoration::BufferBlock).is_some());
        if class == StorageClass::StorageBuffer || is_buffer_block {
            Ok(SlotKind::Storage)
        } else {
            Ok(SlotKind::Uniform)
        }
    }

    /// Returns the kind of the image, sampler or texel buffer `name`.
    fn opaque_kind(&self, name: &str, definition: &Instruction) -> Result<SlotKind, String> {
        let is_combined = definition.class.opcode == Op::TypeSampledImage;
        let image = self.image_definition(definition)?;
        let refuse =
            |kind: &str, remedy: &str| Err(format!("'{name}' is {kind}, which gpukern does not bind; {remedy}"));
        let &[
            Operand::IdRef(texel),
            Operand::Dim(dimensions),
            Operand::LiteralBit32(depth),
            _,
            Operand::LiteralBit32(samples),
            Operand::LiteralBit32(sampled),
            ..,
        ] = image.operands.as_slice()
        else {
            return match image.class.opcode {
                Op::TypeSampler => {
                    refuse("a separate sampler", "combine it with its image (sampler2D), or load texels without one")
                }
                _ => refuse("neither a buffer nor an image", "use buffers and images"),
            };
        };
        let is_float = self.definition(texel)?.class.opcode == Op::TypeFloat;
        match dimensions {
            // `samplerBuffer`, or `textureBuffer`, which has no sampler around its image.
            Dim::DimBuffer if sampled == 1 && is_float => Ok(SlotKind::Texel),
            Dim::DimBuffer => refuse("a texel buffer", "use a storage buffer"),
            Dim::DimCube => refuse("a cube image", "use a 2D array"),
            Dim::Dim1D | Dim::Dim2D | Dim::Dim3D if samples == 1 => refuse("a multisampled image", "use one sample"),
            Dim::Dim1D | Dim::Dim2D | Dim::Dim3D if depth == 1 => {
                refuse("a depth image", "compare the texels of a color image in the kernel")
            }
            Dim::Dim1D | Dim::Dim2D | Dim::Dim3D if is_combined => Ok(SlotKind::CombinedImage),
            Dim::Dim1D | Dim::Dim2D | Dim::Dim3D if sampled == 1 => Ok(SlotKind::SampledImage),
            Dim::Dim1D | Dim::Dim2D | Dim::Dim3D => Ok(SlotKind::StorageImage),
            other => refuse(&format!("an image of {other:?}"), "use 1D, 2D or 3D"),
        }
    }

    /// Returns the declaration of an image's type, without a sampler around it.
    fn image_definition<'b>(&'b self, definition: &'b Instruction) -> Result<&'b Instruction, String> {
        match definition.class.opcode {
            Op::TypeSampledImage => self.definition(ids(definition).next().ok_or("a sampled image has no type")?),
            _ => Ok(definition),
        }
    }

    /// Describes image variable `id`, whose type is `definition`.
    fn image_block(&self, id: u32, kind: SlotKind, definition: &Instruction) -> Result<Block, String> {
        let name = self.name(id, None);
        let image = self.image_definition(definition)?;
        let &[
            Operand::IdRef(texel),
            Operand::Dim(dimensions),
            _,
            Operand::LiteralBit32(arrayed),
            _,
            _,
            Operand::ImageFormat(format),
            ..,
        ] = image.operands.as_slice()
        else {
            return Err(format!("image '{name}' has an incomplete type; check it with `spirv-val`"));
        };
        let dimensions = [Dim::Dim1D, Dim::Dim2D, Dim::Dim3D].iter().position(|known| *known == dimensions);
        let image = ImageType {
            shape: ImageShape { dimensions: dimensions.map_or(0, |index| index as u32 + 1), arrayed: arrayed != 0 },
            format: (format != ImageFormat::Unknown).then(|| format!("{format:?}")),
            scalar: scalar(self.definition(texel)?)
                .ok_or_else(|| format!("image '{name}' has no numbers; check it with `spirv-val`"))?,
        };
        let is_decorated = |decoration| self.decoration(id, None, decoration).is_some();
        let names: Vec<Cow<'static, str>> = if name.is_empty() { vec![] } else { vec![name.into()] };
        Ok(Block {
            names: names.into(),
            writable: kind == SlotKind::StorageImage && !is_decorated(Decoration::NonWritable),
            readable: !is_decorated(Decoration::NonReadable),
            image: Some(image),
            ..Block::default()
        })
    }

    /// Iterates over the declarations of the module's variables of a storage class.
    fn variables(&self, class: StorageClass) -> impl Iterator<Item = &'a Instruction> {
        self.module.types_global_values.iter().filter(move |instruction| {
            instruction.class.opcode == Op::Variable
                && instruction.operands.first() == Some(&Operand::StorageClass(class))
        })
    }

    fn pointee(&self, variable: &Instruction) -> Result<u32, String> {
        let pointer = self.definition(variable.result_type.ok_or("a variable has no type")?)?;
        ids(pointer).next().ok_or_else(|| "a pointer points to no type".into())
    }

    /// Returns the bytes of shared memory, as an expression: array lengths may depend on specialization constants.
    fn shared(&self) -> Result<Vec<SizeOp>, String> {
        let mut program = vec![SizeOp::Push(Word::Literal(0))];
        for variable in self.variables(StorageClass::Workgroup) {
            self.type_bytes(self.pointee(variable)?, MAX_DEPTH, &mut program)?;
            program.push(SizeOp::Add);
        }
        Ok(program)
    }

    /// Appends the size in bytes of type `id`; fails beyond `depth` levels of nesting.
    fn type_bytes(&self, id: u32, depth: usize, program: &mut Vec<SizeOp>) -> Result<(), String> {
        let depth = deeper(depth, program)?;
        let definition = self.definition(id)?;
        let mut push = |bytes| program.push(SizeOp::Push(Word::Literal(bytes)));
        match (definition.class.opcode, definition.operands.as_slice()) {
            (Op::TypeInt | Op::TypeFloat, [Operand::LiteralBit32(bits), ..]) => push(bits / 8),
            (Op::TypeBool, _) => push(4),
            (Op::TypePointer, _) => push(8),
            (Op::TypeVector | Op::TypeMatrix, [Operand::IdRef(element), Operand::LiteralBit32(count)]) => {
                push(*count);
                self.type_bytes(*element, depth, program)?;
                program.push(SizeOp::Mul);
            }
            (Op::TypeArray, [Operand::IdRef(element), Operand::IdRef(length)]) => {
                self.type_bytes(*element, depth, program)?;
                self.value(*length, depth, program)?;
                program.push(SizeOp::Mul);
            }
            (Op::TypeStruct, _) => {
                push(0);
                for member in ids(definition) {
                    self.type_bytes(member, depth, program)?;
                    program.push(SizeOp::Add);
                }
            }
            (other, _) => return Err(format!("its shared memory holds a {other:?}; use numbers, vectors and arrays")),
        }
        Ok(())
    }

    /// Appends the constant expression `id`; fails beyond `depth` levels of nesting.
    fn value(&self, id: u32, depth: usize, program: &mut Vec<SizeOp>) -> Result<(), String> {
        let depth = deeper(depth, program)?;
        let definition = self.definition(id)?;
        if definition.class.opcode != Op::SpecConstantOp {
            program.push(SizeOp::Push(self.word(id)?));
            return Ok(());
        }
        let operation = match definition.operands.first() {
            Some(Operand::LiteralSpecConstantOpInteger(operation)) => *operation,
            other => return Err(format!("%{id} applies {other:?}")),
        };
        if operation == Op::CompositeExtract {
            let composite = self.definition(ids(definition).next().ok_or("an extract has no operand")?)?;
            let index = literal(definition.operands.last().ok_or("an extract has no index")?)? as usize;
            let component = ids(composite).nth(index).ok_or("an extract is out of range")?;
            return self.value(component, depth, program);
        }
        let operands: Vec<u32> = ids(definition).collect();
        // `a > b ? a : b`
        if let (Op::Select, &[condition, a, b]) = (operation, operands.as_slice()) {
            let compared = self.definition(condition)?;
            let greater = Operand::LiteralSpecConstantOpInteger(Op::UGreaterThan);
            if compared.operands.first() != Some(&greater) || ids(compared).collect::<Vec<_>>() != [a, b] {
                return Err("an array length selects something other than the larger of two, `a > b ? a : b`".into());
            }
            self.value(a, depth, program)?;
            self.value(b, depth, program)?;
            program.push(SizeOp::Max);
            return Ok(());
        }
        let operation = match operation {
            Op::IAdd => SizeOp::Add,
            Op::IMul => SizeOp::Mul,
            Op::ISub => SizeOp::Sub,
            Op::UDiv | Op::SDiv => SizeOp::Div,
            other => return Err(format!("an array length uses {other:?}; use +, -, *, / and the larger of two")),
        };
        let &[left, right] = operands.as_slice() else { return Err(format!("%{id} does not have two operands")) };
        self.value(left, depth, program)?;
        self.value(right, depth, program)?;
        program.push(operation);
        Ok(())
    }
}

impl Reflector<'_> {
    /// Lists the numbers and addresses of a block, in memory order.
    fn members(&self, block: &BlockPart) -> Result<Vec<Argument>, String> {
        let mut members = vec![];
        let result = self.flatten(block, MAX_DEPTH, &mut members);
        self.listed_members.set(self.listed_members.get() + members.len());
        members.sort_by_key(|member| member.offset);
        result.map(|()| members)
    }

    /// Appends the numbers and addresses in a part of a block.
    fn flatten(&self, part: &BlockPart, depth: usize, members: &mut Vec<Argument>) -> Result<(), String> {
        let has_room = members.len() < MAX_MEMBERS && self.listed_members.get() + members.len() < MAX_TOTAL_MEMBERS;
        if depth == 0 || !has_room {
            return Err("a block has too many members, or they contain themselves".into());
        }
        let definition = self.definition(part.type_id)?;
        let kind = match (scalar(definition), definition.class.opcode) {
            (Some(scalar), _) => ArgumentKind::Scalar(scalar),
            (None, Op::TypePointer) => {
                let pointees = ids(definition).next();
                self.addresses.borrow_mut().extend(pointees.map(|pointee| (part.offset, pointee)));
                ArgumentKind::Address
            }
            _ => {
                for inner in self.parts(part, depth - 1)? {
                    self.flatten(&inner, depth - 1, members)?;
                }
                return Ok(());
            }
        };
        members.push(Argument { name: part.name.clone().into(), offset: part.offset, kind });
        Ok(())
    }

    /// Lists the direct parts of a vector, matrix, array or structure.
    fn parts(&self, whole: &BlockPart, depth: usize) -> Result<Vec<BlockPart>, String> {
        let BlockPart { type_id: id, name, matrix_stride, by_rows, .. } = whole;
        let definition = self.definition(*id)?;
        let parts = match (definition.class.opcode, definition.operands.as_slice()) {
            (Op::TypeVector, &[Operand::IdRef(component), Operand::LiteralBit32(count @ 2..=4)]) => {
                // In a matrix stored by rows, the components of a column lie one row apart.
                let stride = match matrix_stride {
                    Some(stride) if *by_rows => *stride,
                    _ => self.size(component, depth)? as u32,
                };
                let mut components = whole.elements(component, count.into(), stride);
                for (component, letter) in components.iter_mut().zip(["x", "y", "z", "w"]) {
                    component.name = join_names(name, letter);
                    component.matrix_stride = None;
                }
                components
            }
            (Op::TypeMatrix, &[Operand::IdRef(column), Operand::LiteralBit32(count @ 2..=4)]) => {
                let stride = matrix_stride.ok_or_else(|| format!("matrix '{name}' has no stride"))?;
                let component = ids(self.definition(column)?).next().ok_or("a vector has no components")?;
                let column_stride = if *by_rows { self.size(component, depth)? as u32 } else { stride };
                whole.elements(column, count.into(), column_stride)
            }
            (Op::TypeArray | Op::TypeRuntimeArray, &[Operand::IdRef(element), ref length @ ..]) => {
                let length = match length.iter().find_map(Operand::id_ref_any) {
                    Some(length) => self.length(length)?,
                    // A single element stands for a run-time array.
                    None => 1,
                };
                let stride = self.stride(*id).ok_or_else(|| format!("array '{name}' has no stride"))?;
                whole.elements(element, length, stride as u32)
            }
            (Op::TypeStruct, _) => self.structure_parts(whole, definition)?,
            (other, _) => {
                return Err(format!(
                    "member '{name}' is a {other:?}; use numbers, vectors, matrices, arrays and buffer references"
                ));
            }
        };
        // Nested empty structures may double at each level, and the limit on members would never stop them.
        if parts.is_empty() { Err(format!("member '{name}' is empty; remove it")) } else { Ok(parts) }
    }

    /// Lists the members of a structure, whose type is `definition`.
    fn structure_parts(&self, whole: &BlockPart, definition: &Instruction) -> Result<Vec<BlockPart>, String> {
        let id = whole.type_id;
        let mut parts = vec![];
        for (index, type_id) in (0..).zip(ids(definition)) {
            let name = join_names(&whole.name, &self.name(id, Some(index)));
            let offset = self.number(id, Some(index), Decoration::Offset);
            let offset = offset.ok_or_else(|| format!("member '{name}' has no offset"))?;
            parts.push(BlockPart {
                type_id,
                name,
                offset: whole.offset.saturating_add(offset),
                matrix_stride: self.number(id, Some(index), Decoration::MatrixStride),
                by_rows: self.decoration(id, Some(index), Decoration::RowMajor).is_some(),
            });
        }
        Ok(parts)
    }

    /// Returns the bytes from one element of the array type `id` to the next.
    fn stride(&self, id: u32) -> Option<u64> {
        self.number(id, None, Decoration::ArrayStride).map(u64::from)
    }

    /// Returns the length of an array, constant `id`; with the defaults of the specialization constants that set it.
    fn length(&self, id: u32) -> Result<u64, String> {
        let definition = self.definition(id)?;
        definition.operands.first().ok_or("an array has no length")?;
        // An expression that cannot be evaluated has at least one element.
        let length = self.evaluate(id, &mut MAX_SIZE_OPERATIONS.clone()).filter(|length| *length > 0);
        Ok(length.map_or(1, i64::cast_unsigned))
    }

    /// Evaluates an integer constant with the defaults of specialization constants, in at most `steps` steps.
    fn evaluate(&self, id: u32, steps: &mut usize) -> Option<i64> {
        *steps = steps.checked_sub(1)?;
        let definition = self.definition(id).ok()?;
        match (definition.class.opcode, definition.operands.first()) {
            (Op::Constant | Op::SpecConstant, Some(value)) => literal(value).ok().map(i64::from),
            (Op::SpecConstantTrue, _) => Some(1),
            (Op::SpecConstantFalse, _) => Some(0),
            (Op::SpecConstantOp, Some(Operand::LiteralSpecConstantOpInteger(Op::CompositeExtract))) => {
                let composite = self.definition(ids(definition).next()?).ok()?;
                let index = literal(definition.operands.last()?).ok()? as usize;
                self.evaluate(ids(composite).nth(index)?, steps)
            }
            (Op::SpecConstantOp, Some(Operand::LiteralSpecConstantOpInteger(operation))) => {
                let operands = ids(definition).map(|id| self.evaluate(id, steps)).collect::<Option<Vec<_>>>()?;
                apply(*operation, &operands)
            }
            _ => None,
        }
    }

    /// Whether type `id` is an address, or an array of addresses.
    fn is_pointer(&self, id: u32, depth: usize) -> bool {
        let Ok(definition) = self.definition(id) else { return false };
        if depth == 0 {
            return false;
        }
        match definition.class.opcode {
            Op::TypePointer => true,
            Op::TypeArray | Op::TypeRuntimeArray => {
                ids(definition).next().is_some_and(|element| self.is_pointer(element, depth - 1))
            }
            _ => false,
        }
    }

    /// Describes the block of type `definition` that `variable` declares.
    fn block(&self, variable: u32, definition: &Instruction) -> Result<Block, String> {
        let id = definition.result_id.ok_or("a block has no id")?;
        let member_types: Vec<u32> = ids(definition).collect();
        let is_decorated = |decoration| {
            let mut indices = 0..member_types.len() as u32;
            self.decoration(variable, None, decoration).is_some()
                || !member_types.is_empty()
                    && indices.all(|index| self.decoration(id, Some(index), decoration).is_some())
        };
        let mut fixed = 0;
        let mut array = None;
        for (index, member) in (0..).zip(&member_types) {
            let offset = self.number(id, Some(index), Decoration::Offset).map_or(0, u64::from);
            let member_definition = self.definition(*member)?;
            if member_definition.class.opcode == Op::TypeRuntimeArray {
                let element = ids(member_definition).next().ok_or("an array has no elements")?;
                let bytes = self.size(element, MAX_DEPTH)?;
                let stride = self.stride(*member).unwrap_or(bytes);
                array = Some(Elements { stride, scalar: self.uniform_scalar(element) });
                fixed = offset;
            } else {
                fixed = fixed.max(offset.saturating_add(self.size(*member, MAX_DEPTH)?));
            }
        }
        let members = self.members(&BlockPart::whole(id)).unwrap_or_default();
        if array.is_none() {
            // The stride between matrix columns may exceed their length.
            for member in &members {
                fixed = fixed.max(u64::from(member.offset) + u64::from(member.kind.bytes()));
            }
        }
        let long = if members.is_empty() && array.is_none() { self.long_array(id, &member_types) } else { None };
        Ok(Block {
            names: self.block_names(variable, id, &member_types).into_iter().map(Cow::Owned).collect(),
            writable: !is_decorated(Decoration::NonWritable),
            readable: !is_decorated(Decoration::NonReadable),
            fixed,
            array,
            members: members.into(),
            scalar: self.uniform_scalar(id),
            long,
            image: None,
        })
    }

    /// Lists the names of a block with these members that `variable` declares.
    fn block_names(&self, variable: u32, id: u32, member_types: &[u32]) -> Vec<String> {
        let mut names = vec![self.name(variable, None), self.name(id, None)];
        // An address member is named after the data it points to, not after this buffer.
        if let [member] = member_types
            && !self.is_pointer(*member, MAX_DEPTH)
        {
            names.push(self.name(id, Some(0)));
        }
        // naga gives each variable its own name, and the block none or a generic one.
        if names[0].is_empty() || names[0] != names[1] {
            names.dedup();
        }
        names.retain(|name| !name.is_empty());
        names
    }

    /// Returns the fixed-length array at the end of a block with these members, if there is one.
    fn long_array(&self, id: u32, member_types: &[u32]) -> Option<LongArray> {
        let last = *member_types.last()?;
        let array = self.definition(last).ok()?;
        if array.class.opcode != Op::TypeArray {
            return None;
        }
        let stride = self.stride(last)?;
        let mut parts = self.parts(&BlockPart::whole(id), MAX_DEPTH).ok()?;
        let end = parts.last_mut()?;
        end.type_id = ids(array).next()?;
        let start = u64::from(end.offset);
        let mut first = vec![];
        for part in &parts {
            self.flatten(part, MAX_DEPTH, &mut first).ok()?;
        }
        self.listed_members.set(self.listed_members.get() + first.len());
        first.sort_by_key(|member| member.offset);
        Some(LongArray { start, stride, first })
    }

    /// Returns the common type of all numbers in type `id`, if they share one.
    fn uniform_scalar(&self, id: u32) -> Option<Scalar> {
        let mut common = None;
        let mut unvisited = vec![id];
        for _ in 0..MAX_TYPES {
            let Some(id) = unvisited.pop() else { return common };
            let definition = self.definition(id).ok()?;
            match (scalar(definition), definition.class.opcode) {
                (Some(scalar), _) if common.is_none_or(|common| common == scalar) => common = Some(scalar),
                (None, Op::TypeVector | Op::TypeMatrix | Op::TypeArray | Op::TypeRuntimeArray) => {
                    unvisited.push(ids(definition).next()?);
                }
                (None, Op::TypeStruct) => unvisited.extend(ids(definition)),
                _ => return None,
            }
        }
        None
    }

    /// Returns the size in bytes of type `id` in a buffer, without trailing padding.
    fn size(&self, id: u32, depth: usize) -> Result<u64, String> {
        let depth = depth.checked_sub(1).ok_or("the type of one of its buffers contains itself")?;
        let definition = self.definition(id)?;
        if let Some(scalar) = scalar(definition) {
            return Ok(u64::from(scalar.bytes()));
        }
        match (definition.class.opcode, definition.operands.as_slice()) {
            (Op::TypeFloat, [Operand::LiteralBit32(bits), ..]) => Ok(u64::from(bits / 8)),
            (Op::TypePointer, _) => Ok(8),
            (Op::TypeVector | Op::TypeMatrix, &[Operand::IdRef(part), Operand::LiteralBit32(count)]) => {
                Ok(self.size(part, depth)?.saturating_mul(u64::from(count)))
            }
            (Op::TypeArray, &[Operand::IdRef(element), Operand::IdRef(length)]) => {
                let stride = match self.stride(id) {
                    Some(stride) => stride,
                    None => self.size(element, depth)?,
                };
                Ok(stride.saturating_mul(self.length(length)?))
            }
            (Op::TypeRuntimeArray, _) => Ok(0),
            (Op::TypeStruct, _) => {
                // Only the last member is measured: visiting all would take exponential time in nested structures.
                let Some((index, member)) = (0..).zip(ids(definition)).last() else { return Ok(0) };
                let offset = self.number(id, Some(index), Decoration::Offset).map_or(0, u64::from);
                Ok(offset.saturating_add(self.size(member, depth)?))
            }
            (other, _) => Err(format!(
                "one of its buffers holds a {other:?}; use numbers, vectors, matrices, arrays and structures"
            )),
        }
    }
}

/// Deepest nesting of types and constant expressions that is followed.
const MAX_DEPTH: usize = 64;
/// Most operations of a size expression: a file that doubles an expression at each level would exhaust memory.
const MAX_SIZE_OPERATIONS: usize = 1 << 12;
/// Largest offset accepted in a push-constant block, in bytes: devices have 128 to 256, and some 4096.
const MAX_PUSH_OFFSET: u32 = 1 << 16;
/// Most buffers in an array of buffers.
const MAX_BUFFERS_PER_ARRAY: u32 = 256;
/// Most members listed of one block.
const MAX_MEMBERS: usize = 4096;
/// Most members listed of all blocks of a module.
const MAX_TOTAL_MEMBERS: usize = 1 << 16;
/// Most types visited to find a common numeric type: structures may double at each level.
const MAX_TYPES: usize = 1024;

/// Returns the remaining depth one level down, or an error if it or the expression's length is exhausted.
fn deeper(depth: usize, program: &[SizeOp]) -> Result<usize, String> {
    if depth == 0 || program.len() >= MAX_SIZE_OPERATIONS {
        return Err("the expression for its shared-memory size is too long; use plain arrays".into());
    }
    Ok(depth - 1)
}

/// Applies an operation to integers of 32 bits; `None` if it is unknown, or its result is not an integer of 64 bits.
fn apply(operation: Op, operands: &[i64]) -> Option<i64> {
    match (operation, operands) {
        (Op::UConvert | Op::SConvert, &[a]) => Some(a),
        (Op::IAdd, &[a, b]) => a.checked_add(b),
        (Op::ISub, &[a, b]) => a.checked_sub(b),
        (Op::IMul, &[a, b]) => a.checked_mul(b),
        (Op::UDiv | Op::SDiv, &[a, b]) => a.checked_div(b),
        (Op::UMod | Op::SRem | Op::SMod, &[a, b]) => a.checked_rem(b),
        (Op::ShiftLeftLogical, &[a, b @ 0..32]) => a.checked_mul(1 << b),
        (Op::ShiftRightLogical | Op::ShiftRightArithmetic, &[a, b @ 0..32]) => Some(a >> b),
        (Op::BitwiseAnd | Op::LogicalAnd, &[a, b]) => Some(a & b),
        (Op::BitwiseOr | Op::LogicalOr, &[a, b]) => Some(a | b),
        (Op::BitwiseXor, &[a, b]) => Some(a ^ b),
        (Op::LogicalNot, &[a]) => Some(1 - a),
        (Op::Select, &[condition, a, b]) => Some(if condition == 0 { b } else { a }),
        (Op::IEqual | Op::LogicalEqual, &[a, b]) => Some((a == b).into()),
        (Op::INotEqual | Op::LogicalNotEqual, &[a, b]) => Some((a != b).into()),
        (Op::UGreaterThan | Op::SGreaterThan, &[a, b]) => Some((a > b).into()),
        (Op::UGreaterThanEqual | Op::SGreaterThanEqual, &[a, b]) => Some((a >= b).into()),
        (Op::ULessThan | Op::SLessThan, &[a, b]) => Some((a < b).into()),
        (Op::ULessThanEqual | Op::SLessThanEqual, &[a, b]) => Some((a <= b).into()),
        _ => None,
    }
}

/// Iterates over the ids among an instruction's operands.
fn ids(instruction: &Instruction) -> impl Iterator<Item = u32> {
    instruction.operands.iter().filter_map(|operand| match operand {
        Operand::IdRef(id) => Some(*id),
        _ => None,
    })
}

fn literal(operand: &Operand) -> Result<u32, String> {
    match operand {
        Operand::LiteralBit32(value) => Ok(*value),
        other => Err(format!("{other:?} is not a number of 32 bits")),
    }
}

/// Returns the numeric type of a type declaration, if it is one.
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

/// Node in the tree of a block's types: a member of a structure, an element of an array, a column or row of a matrix,
/// or a component of a vector. The leaves are numbers and addresses.
struct BlockPart {
    /// Id of its type in the module.
    type_id: u32,
    name: String,
    /// Byte offset from the start of the block.
    offset: u32,
    /// Bytes from one column of a matrix to the next, or from one row if it is stored by rows.
    matrix_stride: Option<u32>,
    /// Whether a matrix is stored by rows.
    by_rows: bool,
}

impl BlockPart {
    /// Returns the root of the tree of a block of this type.
    fn whole(type_id: u32) -> Self {
        Self { type_id, name: String::new(), offset: 0, matrix_stride: None, by_rows: false }
    }

    /// Lists `count` elements of a type that are `stride` bytes apart, but at most one more than a block may have
    /// members, which is enough to refuse the block.
    fn elements(&self, type_id: u32, count: u64, stride: u32) -> Vec<Self> {
        let element = |index: u32| Self {
            type_id,
            name: format!("{}[{index}]", self.name),
            offset: self.offset.saturating_add(index.saturating_mul(stride)),
            matrix_stride: self.matrix_stride,
            by_rows: self.by_rows,
        };
        (0..count.min(MAX_MEMBERS as u64 + 1) as u32).map(element).collect()
    }
}

/// Joins names as `outer.inner`; an empty one is left out.
fn join_names(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", inner) => inner.to_string(),
        (outer, "") => outer.to_string(),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Returns a compute shader with an empty function and only these `declarations`, each an opcode and its operands.
    fn module(declarations: &[&[u32]]) -> Vec<u8> {
        let main = [Op::EntryPoint as u32, 5, 1, u32::from_le_bytes(*b"main"), 0];
        let group = [Op::ExecutionMode as u32, 1, 17, 8, 4, 1];
        let body: [&[u32]; 2] = [&[Op::Function as u32, 98, 1, 0, 99], &[Op::FunctionEnd as u32]];
        let mut words = vec![MAGIC, 0x1_0500, 0, 100, 0];
        for instruction in [&[&main[..], &group[..]], declarations, &body].concat() {
            words.push((instruction.len() as u32) << 16 | instruction[0]);
            words.extend(&instruction[1..]);
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    const UINT: &[u32] = &[Op::TypeInt as u32, 2, 32, 0];
    const VECTOR: &[u32] = &[Op::TypeVector as u32, 4, 2, 3];

    #[test]
    fn addresses_may_be_integers_and_vectors_are_their_components() {
        let offset = |member: u32, bytes: u32| [Op::MemberDecorate as u32, 5, member, Decoration::Offset as u32, bytes];
        let class = StorageClass::PushConstant as u32;
        let interface = Interface::read(&module(&[
            &[Op::MemberName as u32, 5, 1, u32::from_le_bytes(*b"size"), 0],
            &offset(0, 0),
            &offset(1, 16),
            UINT,
            &[Op::TypeInt as u32, 3, 64, 0],
            VECTOR,
            &[Op::TypeStruct as u32, 5, 3, 4],
            &[Op::TypePointer as u32, 6, class, 5],
            &[Op::Variable as u32, 6, 7, class],
        ]))
        .expect("a kernel");
        let integer = |name: &'static str, offset, bits| {
            let kind = ArgumentKind::Scalar(Scalar::Int { bits, signed: false });
            Argument { name: name.into(), offset, kind }
        };
        let expected =
            [integer("", 0, 64), integer("size.x", 16, 32), integer("size.y", 20, 32), integer("size.z", 24, 32)];
        assert_eq!(interface.arguments[0].kind.in_words(), ArgumentKind::Address.in_words());
        assert_eq!(*interface.arguments, expected);
        assert_eq!((interface.version, interface.local_size), ([1, 5], [8, 4, 1].map(Word::Literal)));
    }

    #[test]
    fn shared_structures_are_sums_and_expressions_without_end_are_refused() {
        let binary = |last: &[u32]| {
            let class = StorageClass::Workgroup as u32;
            let pointer: &[u32] = &[Op::TypePointer as u32, 9, class, 8];
            module(&[UINT, VECTOR, last, pointer, &[Op::Variable as u32, 9, 10, class]])
        };
        let shared = |last: &[u32]| Interface::read_built_in(&binary(last));
        let push = |value| SizeOp::Push(Word::Literal(value));
        let sum = [push(0), push(0), push(4), SizeOp::Add, push(3), push(4), SizeOp::Mul, SizeOp::Add, SizeOp::Add];
        assert_eq!(*shared(&[Op::TypeStruct as u32, 8, 2, 4]).expect("a kernel").shared, sum);
        let endless = shared(&[Op::TypeStruct as u32, 8, 8, 8]).expect_err("it holds itself");
        assert_eq!(endless, "the expression for its shared-memory size is too long; use plain arrays");
        // A substitute for a kernel may use any size of shared memory that its driver accepts.
        assert!(Interface::read(&binary(&[Op::TypeStruct as u32, 8, 8, 8])).is_ok());
    }

    #[test]
    fn a_buffer_that_a_descriptor_binds_is_refused_in_a_built_in_kernel() {
        let class = StorageClass::StorageBuffer as u32;
        let pointer: &[u32] = &[Op::TypePointer as u32, 6, class, 5];
        let block: &[u32] = &[Op::TypeStruct as u32, 5, 2];
        let decorate = |decoration| [Op::Decorate as u32, 7, decoration as u32, 0];
        let [set, binding] = [Decoration::DescriptorSet, Decoration::Binding].map(decorate);
        let name: &[u32] = &[Op::Name as u32, 7, u32::from_le_bytes(*b"X\0\0\0")];
        let variable: &[u32] = &[Op::Variable as u32, 6, 7, class];
        let binary = module(&[name, &set, &binding, UINT, block, pointer, variable]);
        assert!(Interface::read(&binary).is_ok(), "a user's kernel may");
        let refused = Interface::read_built_in(&binary);
        let expected = "X is a buffer that a descriptor binds; declare it as a buffer reference in the push constants";
        assert_eq!(refused, Err(expected.to_string()));
    }

    #[test]
    fn buffers_are_called_by_their_variables_and_by_their_blocks() {
        let class = StorageClass::StorageBuffer as u32;
        let decorate = |decoration| [Op::Decorate as u32, 7, decoration as u32, 0];
        let [set, binding] = [Decoration::DescriptorSet, Decoration::Binding].map(decorate);
        let name = |id: u32, name: &[u8; 4]| [Op::Name as u32, id, u32::from_le_bytes(*name)];
        let interface = Interface::read(&module(&[
            &name(5, b"T\0\0\0"),
            &name(7, b"x\0\0\0"),
            &set,
            &binding,
            UINT,
            &[Op::TypeStruct as u32, 5, 2],
            &[Op::TypePointer as u32, 6, class, 5],
            &[Op::Variable as u32, 6, 7, class],
        ]));
        assert_eq!(interface.expect("a kernel").slots[0].names(), ["x", "T"]);
    }

    #[test]
    fn structures_of_nothing_that_double_at_each_level_end() {
        let class = StorageClass::PushConstant as u32;
        let offset = |id, member| vec![Op::MemberDecorate as u32, id, member, Decoration::Offset as u32, 0];
        let mut declarations: Vec<Vec<u32>> = (11..70).flat_map(|id| [offset(id, 0), offset(id, 1)]).collect();
        declarations.push(vec![Op::TypeStruct as u32, 10]);
        declarations.extend((11..70).map(|id| vec![Op::TypeStruct as u32, id, id - 1, id - 1]));
        declarations.push(vec![Op::TypePointer as u32, 70, class, 69]);
        declarations.push(vec![Op::Variable as u32, 70, 71, class]);
        let declarations: Vec<&[u32]> = declarations.iter().map(Vec::as_slice).collect();
        let refused = Interface::read(&module(&declarations)).expect_err("it holds nothing");
        assert_eq!(refused, "member '' is empty; remove it");
    }

    #[test]
    fn many_declarations_take_no_time() {
        const MANY: u32 = 1 << 17;
        let uint = vec![Op::TypeInt as u32, 2, 32, 0];
        let id = |constant| vec![Op::Decorate as u32, 10 + constant, Decoration::SpecId as u32, constant];
        let constants = (0..MANY).map(|constant| vec![Op::SpecConstant as u32, 2, 10 + constant, 7]);
        let declarations: Vec<_> = (0..MANY).map(id).chain([uint]).chain(constants).collect();
        let declarations: Vec<&[u32]> = declarations.iter().map(Vec::as_slice).collect();
        let start = Instant::now();
        let interface = Interface::read(&module(&declarations)).expect("a kernel");
        assert_eq!(interface.constants.len(), MANY as usize);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}
