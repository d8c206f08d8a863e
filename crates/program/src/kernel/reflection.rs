//! Reads the interface of a kernel from its SPIR-V: work-group size, specialization constants, arguments (the
//! push-constant block), bound buffers, shared memory and capabilities.
//!
//! `build.rs` includes this file and prints the result as constants; at run time it reads users' files. So it imports
//! only files of the crate that `build.rs` includes too.

use super::instructions::{HEADER, Instruction as Words, MAGIC, instructions};
use super::interface::{
    Argument, ArgumentKind, Block, Elements, Interface, LongArray, Scalar, SizeOp, Slot, SlotKind, SpecConstant, Word,
};
use super::required::Required;
use rspirv::dr::{Instruction, Module, Operand};
use rspirv::spirv::{BuiltIn, Capability, Decoration, Dim, ExecutionMode, ExecutionModel, Op, StorageClass};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

impl Interface {
    /// Reads the interface of the SPIR-V module `binary`: one compute shader, `main`. A shared-memory size that cannot
    /// be evaluated counts as 0: the driver refuses a kernel that needs too much. The error message names what is
    /// invalid or unsupported in the module, and the remedy.
    pub fn read(binary: &[u8]) -> Result<Self, String> {
        let (interface, shared) = Self::reflect(binary)?;
        let shared = shared.unwrap_or_else(|_| vec![SizeOp::Push(Word::Literal(0))]);
        Ok(Self { shared: shared.into(), ..interface })
    }

    /// Reads the interface of a built-in kernel, whose shared-memory size must be known.
    pub fn read_built_in(binary: &[u8]) -> Result<Self, String> {
        let (interface, shared) = Self::reflect(binary)?;
        interface.has_built_in_slots()?;
        Ok(Self { shared: shared?.into(), ..interface })
    }

    /// Checks that the kernel binds only texel views, at bindings 0, 1, … of set 0. The error message names the binding
    /// that violates this.
    pub fn has_built_in_slots(&self) -> Result<(), String> {
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

    /// Reads the interface without shared memory, and separately the size of that memory.
    fn reflect(binary: &[u8]) -> Result<(Self, Result<Vec<SizeOp>, String>), String> {
        let declarations = Declarations::read(binary)?;
        let module = rspirv::dr::load_words(&declarations.words)
            .map_err(|e| format!("its declarations cannot be read: {e}; check it with `spirv-val`"))?;
        entry_point(&module)?;
        let reflector = Reflector::new(&module, declarations.size_ids);
        let local_size = reflector.local_size()?;
        let interface = Self {
            version: declarations.version,
            local_size,
            constants: reflector.constants(local_size)?.into(),
            arguments: reflector.arguments()?.into(),
            slots: reflector.slots()?.into(),
            asks_lengths: declarations.asks_lengths,
            shared: Cow::Borrowed(&[]),
            capabilities: declarations.capabilities.into(),
            features: declarations.features.into(),
        };
        Ok((interface, reflector.shared()))
    }
}

/// Declarations that the interface depends on. Functions and unknown instructions are dropped, so that damage or
/// novelties there do not matter.
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
                "it is not SPIR-V: its first word is not the magic number; compile it, for example with `glslc`".into(),
            );
        }
        let [_, minor, major, _] = words[1].to_le_bytes();
        let mut found = Self {
            version: [major, minor],
            words: words[..HEADER].to_vec(),
            capabilities: vec![],
            features: vec![],
            size_ids: None,
            asks_lengths: false,
        };
        let mut last = None;
        let mut in_functions = false;
        let mut has_entry_point = false;
        let mut required = Required::default();
        for instruction in instructions(&words) {
            let instruction = instruction?;
            last = instruction.op();
            in_functions |= last == Some(Op::Function);
            has_entry_point |= last == Some(Op::EntryPoint);
            found.asks_lengths |= last == Some(Op::ArrayLength);
            required.read(last, instruction.operands());
            match (last, instruction.operands()) {
                _ if in_functions => {}
                (Some(Op::Capability), &[capability]) => found.capabilities.push(
                    Capability::from_u32(capability)
                        .map_or_else(|| capability.to_string(), |c| format!("{c:?}"))
                        .into(),
                ),
                (Some(Op::ExecutionModeId), &[_, LOCAL_SIZE_ID, x, y, z]) => found.size_ids = Some([x, y, z]),
                _ if needed(instruction) => found.words.extend(instruction.words),
                _ => {}
            }
        }
        // A file cut off before its first function has an entry point without a function, which crashes drivers.
        if (in_functions || has_entry_point) && last != Some(Op::FunctionEnd) {
            return Err("it is damaged: it does not end after a function".into());
        }
        found.features = required.features.into_iter().map(Cow::Owned).collect();
        Ok(found)
    }
}

/// Whether the reflector reads this instruction.
fn needed(instruction: Words<'_>) -> bool {
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
    let decorates = |at: usize| operands.get(at).is_some_and(|&found| DECORATIONS.iter().any(|&d| d as u32 == found));
    match instruction.op() {
        Some(Op::Decorate) => decorates(1),
        Some(Op::MemberDecorate) => decorates(2),
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
fn entry_point(module: &Module) -> Result<(), String> {
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
    members: Cell<usize>,
}

impl<'a> Reflector<'a> {
    fn new(module: &'a Module, size_ids: Option<[u32; 3]>) -> Self {
        let mut found = Self {
            module,
            size_ids,
            definitions: HashMap::new(),
            decorations: HashMap::new(),
            names: HashMap::new(),
            members: Cell::new(0),
        };
        // Inserted in reverse, so that the first of several definitions wins.
        for instruction in module.types_global_values.iter().rev() {
            found.definitions.extend(instruction.result_id.map(|id| (id, instruction)));
        }
        for instruction in module.annotations.iter().rev() {
            let decorated = match (instruction.class.opcode, instruction.operands.as_slice()) {
                (Op::Decorate, [Operand::IdRef(id), Operand::Decoration(decoration), rest @ ..]) => {
                    Some(((*id, None, *decoration), rest))
                }
                (
                    Op::MemberDecorate,
                    [Operand::IdRef(id), Operand::LiteralBit32(member), Operand::Decoration(decoration), rest @ ..],
                ) => Some(((*id, Some(*member), *decoration), rest)),
                _ => None,
            };
            found.decorations.extend(decorated);
        }
        for instruction in module.debug_names.iter().rev() {
            let named = match (instruction.class.opcode, instruction.operands.as_slice()) {
                (Op::Name, [Operand::IdRef(id), Operand::LiteralString(name)]) => Some(((*id, None), name.as_str())),
                (Op::MemberName, [Operand::IdRef(id), Operand::LiteralBit32(member), Operand::LiteralString(name)]) => {
                    Some(((*id, Some(*member)), name.as_str()))
                }
                _ => None,
            };
            found.names.extend(named);
        }
        found
    }

    fn definition(&self, id: u32) -> Result<&'a Instruction, String> {
        self.definitions.get(&id).copied().ok_or_else(|| format!("%{id} has no definition"))
    }

    /// Returns the operands of a decoration of `id` (or of its `member`).
    fn decoration(&self, id: u32, member: Option<u32>, wanted: Decoration) -> Option<&'a [Operand]> {
        self.decorations.get(&(id, member, wanted)).copied()
    }

    fn spec_id(&self, id: u32) -> Option<u32> {
        match self.decoration(id, None, Decoration::SpecId)? {
            [Operand::LiteralBit32(spec)] => Some(*spec),
            _ => None,
        }
    }

    fn name(&self, id: u32, member: Option<u32>) -> String {
        // Error messages show the name on one line.
        self.names.get(&(id, member)).copied().unwrap_or_default().replace('\n', "\\n")
    }

    /// Returns the work-group size: from the composite decorated `BuiltIn WorkgroupSize`, which overrides the execution
    /// mode (SPIR-V section 3.6), or else from the mode.
    fn local_size(&self) -> Result<[Word; 3], String> {
        let composite = self.module.types_global_values.iter().find(|instruction| {
            instruction.result_id.is_some_and(|id| {
                matches!(
                    self.decoration(id, None, Decoration::BuiltIn),
                    Some([Operand::BuiltIn(BuiltIn::WorkgroupSize)])
                )
            })
        });
        let sizes = match (composite, self.size_ids) {
            (Some(composite), _) => ids(composite).map(|id| self.word(id)).collect::<Result<Vec<_>, _>>()?,
            (None, Some(sizes)) => sizes.into_iter().map(|id| self.word(id)).collect::<Result<_, _>>()?,
            (None, None) => {
                let mode = self.module.execution_modes.iter().find_map(|mode| match mode.operands.as_slice() {
                    [_, Operand::ExecutionMode(ExecutionMode::LocalSize), sizes @ ..] => Some(sizes),
                    _ => None,
                });
                let sizes = mode.ok_or("the kernel declares no work-group size")?;
                sizes.iter().map(|size| literal(size).map(Word::Literal)).collect::<Result<_, _>>()?
            }
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
        let mut found = BTreeMap::new();
        for instruction in &self.module.types_global_values {
            let Some(result) = instruction.result_id else { continue };
            let Some(id) = self.spec_id(result) else { continue };
            if found.contains_key(&id) {
                continue;
            }
            let mut name = self.name(result, None);
            let axis =
                local_size.iter().position(|word| matches!(word, Word::Constant { id: size_id, .. } if *size_id == id));
            if let (true, Some(axis)) = (name.is_empty(), axis) {
                name = format!("local_size_{}", ["x", "y", "z"][axis]);
            }
            let (scalar, default) = match (instruction.class.opcode, instruction.operands.first()) {
                (Op::SpecConstantTrue, _) => (Scalar::Bool, 1),
                (Op::SpecConstantFalse, _) => (Scalar::Bool, 0),
                (Op::SpecConstant, Some(value)) => {
                    let kind = instruction.result_type.ok_or("a constant has no type")?;
                    let scalar = scalar(self.definition(kind)?)
                        .ok_or_else(|| format!("specialization constant {id} is not a number"))?;
                    let bits = match value {
                        Operand::LiteralBit32(bits) => u64::from(*bits),
                        Operand::LiteralBit64(bits) => *bits,
                        other => return Err(format!("specialization constant {id} has the default {other:?}")),
                    };
                    (scalar, bits)
                }
                // Composites and expressions are derived from other constants.
                _ => continue,
            };
            found.insert(id, SpecConstant { name: name.into(), id, scalar, default });
        }
        Ok(found.into_values().collect())
    }

    /// Lists the members of the push-constant block, in memory order.
    fn arguments(&self) -> Result<Vec<Argument>, String> {
        let variable = self.variables(StorageClass::PushConstant).next();
        let block = variable.map(|variable| self.pointee(variable)).transpose()?;
        let members = block.map(|block| members(self, block)).transpose()?.unwrap_or_default();
        match members.iter().find(|member| member.offset > MAX_PUSH_OFFSET) {
            Some(member) => {
                Err(format!("push constant '{}' is at byte {}, beyond what any device has", member.name, member.offset))
            }
            None => Ok(members),
        }
    }

    /// Lists every descriptor slot with the blocks declared for it.
    fn slots(&self) -> Result<Vec<Slot>, String> {
        let mut found: BTreeMap<[u32; 3], (SlotKind, Vec<Block>)> = BTreeMap::new();
        for class in [StorageClass::UniformConstant, StorageClass::StorageBuffer, StorageClass::Uniform] {
            for variable in self.variables(class) {
                let id = variable.result_id.ok_or("a variable has no id")?;
                let (definition, count) = self.elements(id, self.definition(self.pointee(variable)?)?)?;
                let (kind, block) = self.bound(class, id, definition)?;
                let place = |decoration| decorated(self, id, None, decoration);
                let (Some(set), Some(binding)) = (place(Decoration::DescriptorSet), place(Decoration::Binding)) else {
                    let name = self.name(id, None);
                    return Err(format!(
                        "buffer '{name}' has no set or no binding; declare `layout(set = 0, binding = …)`"
                    ));
                };
                for element in 0..count.unwrap_or(1) {
                    let slot = found.entry([set, binding, element]).or_insert_with(|| (kind, vec![]));
                    if slot.0 != kind {
                        let [one, other] = [slot.0.min(kind), slot.0.max(kind)].map(SlotKind::name);
                        return Err(format!("set {set}, binding {binding} is a {one} buffer and a {other} buffer"));
                    }
                    let mut block = block.clone();
                    if count.is_some() {
                        // The block's only member gets an index as well, because it may serve as a name of the buffer.
                        let named = block.names.iter().map(|name| format!("{name}[{element}]").into());
                        block.names = named.collect::<Vec<_>>().into();
                    }
                    slot.1.push(block);
                }
            }
        }
        let slot = |([set, binding, element], (kind, blocks)): ([u32; 3], (_, Vec<Block>))| Slot {
            set,
            binding,
            element,
            kind,
            blocks: blocks.into(),
        };
        Ok(found.into_iter().map(slot).collect())
    }

    /// Returns the element type and length if variable `id` is an array of buffers, else its type `definition`.
    fn elements(&self, id: u32, definition: &'a Instruction) -> Result<(&'a Instruction, Option<u32>), String> {
        let (of, length) = match (definition.class.opcode, definition.operands.as_slice()) {
            (Op::TypeArray, &[Operand::IdRef(of), Operand::IdRef(length)]) => (of, length_of(self, length)?),
            (Op::TypeRuntimeArray, _) => {
                let name = self.name(id, None);
                return Err(format!("'{name}' is an array of buffers without a length; declare how many"));
            }
            _ => return Ok((definition, None)),
        };
        let count = u32::try_from(length).ok().filter(|count| (1..=MAX_BUFFERS_PER_ARRAY).contains(count));
        let count = count.ok_or_else(|| {
            format!("'{}' is an array of {length} buffers; {MAX_BUFFERS_PER_ARRAY} are the most", self.name(id, None))
        })?;
        Ok((self.definition(of)?, Some(count)))
    }

    /// Returns the descriptor type and block declaration of variable `id`, whose type is `definition`.
    fn bound(&self, class: StorageClass, id: u32, definition: &Instruction) -> Result<(SlotKind, Block), String> {
        let name = self.name(id, None);
        if class == StorageClass::UniformConstant {
            if !self.is_texel_view(definition)? {
                return Err(format!(
                    "'{name}' is an image, a sampler or a texel buffer; use storage and uniform buffers"
                ));
            }
            let names = Cow::Owned(vec![name.into()]);
            let array = None;
            let members = Cow::Borrowed(&[][..]);
            return Ok((
                SlotKind::Texel,
                Block { names, writable: false, readable: true, fixed: 0, array, members, scalar: None, long: None },
            ));
        }
        if definition.class.opcode != Op::TypeStruct {
            return Err(format!("'{name}' is not a block; declare each buffer as its own block"));
        }
        let old = definition.result_id.is_some_and(|of| self.decoration(of, None, Decoration::BufferBlock).is_some());
        let kind = if class == StorageClass::StorageBuffer || old { SlotKind::Storage } else { SlotKind::Uniform };
        Ok((kind, block(self, id, definition)?))
    }

    /// Whether a type is a texel buffer of floats (`samplerBuffer`).
    fn is_texel_view(&self, definition: &Instruction) -> Result<bool, String> {
        let image = match definition.class.opcode {
            Op::TypeSampledImage => self.definition(ids(definition).next().ok_or("a sampled image has no type")?)?,
            _ => definition,
        };
        let [Operand::IdRef(texel), Operand::Dim(Dim::DimBuffer), ..] = image.operands.as_slice() else {
            return Ok(false);
        };
        Ok(self.definition(*texel)?.class.opcode == Op::TypeFloat)
    }

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

    /// Returns the bytes of shared memory as an expression in reverse Polish notation, because array lengths may depend
    /// on specialization constants.
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

/// Deepest nesting of types and constant expressions that is followed.
const MAX_DEPTH: usize = 64;
/// Most operations of a size expression: a file that doubles an expression at each level would exhaust memory.
const MAX_SIZE_OPERATIONS: usize = 1 << 12;

/// Returns the remaining depth one level down, or an error if it or the expression's length is exhausted.
fn deeper(depth: usize, program: &[SizeOp]) -> Result<usize, String> {
    let left = depth.checked_sub(1).filter(|_| program.len() < MAX_SIZE_OPERATIONS);
    left.ok_or_else(|| "the expression for its shared-memory size is too long; use plain arrays".into())
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

/// Largest offset accepted in a push-constant block, in bytes: devices have 128 to 256, and some 4096.
const MAX_PUSH_OFFSET: u32 = 1 << 16;

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

/// Most buffers in an array of buffers.
const MAX_BUFFERS_PER_ARRAY: u32 = 256;

/// Most members listed of one block.
const MAX_MEMBERS: usize = 4096;
/// Most members listed of all blocks of a module.
const MAX_TOTAL_MEMBERS: usize = 1 << 16;

/// Lists the numbers and addresses of the block of type `id`, in memory order.
fn members(reflector: &Reflector<'_>, id: u32) -> Result<Vec<Argument>, String> {
    let mut members = vec![];
    let whole = BlockPart { kind: id, name: String::new(), offset: 0, matrix: None };
    let found = flatten(reflector, &whole, MAX_DEPTH, &mut members);
    reflector.members.set(reflector.members.get() + members.len());
    members.sort_by_key(|member| member.offset);
    found.map(|()| members)
}

/// Part of a block: a member, element, row or component, and finally a number.
struct BlockPart {
    /// Id of its type.
    kind: u32,
    name: String,
    /// Byte offset from the start of the block.
    offset: u32,
    /// Stride in bytes of a matrix, and whether it is stored by rows (the stride then separates rows, not columns).
    matrix: Option<(u32, bool)>,
}

/// Appends the numbers and addresses in a part of a block.
fn flatten(
    reflector: &Reflector<'_>,
    part: &BlockPart,
    depth: usize,
    members: &mut Vec<Argument>,
) -> Result<(), String> {
    let endless = || "a block has too many members, or they contain themselves".to_string();
    let is_short = members.len() < MAX_MEMBERS && reflector.members.get() + members.len() < MAX_TOTAL_MEMBERS;
    let depth = depth.checked_sub(1).filter(|_| is_short).ok_or_else(endless)?;
    let definition = reflector.definition(part.kind)?;
    let kind = match (scalar(definition), definition.class.opcode) {
        (Some(scalar), _) => ArgumentKind::Scalar(scalar),
        (None, Op::TypePointer) => ArgumentKind::Address,
        _ => {
            return parts(reflector, part, depth)?
                .iter()
                .try_for_each(|inner| flatten(reflector, inner, depth, members));
        }
    };
    members.push(Argument { name: part.name.clone().into(), offset: part.offset, kind });
    Ok(())
}

/// Lists the direct parts of a vector, matrix, array or structure.
fn parts(reflector: &Reflector<'_>, of: &BlockPart, depth: usize) -> Result<Vec<BlockPart>, String> {
    let BlockPart { kind: id, name, offset, matrix } = of;
    let definition = reflector.definition(*id)?;
    let within = |at: u32, stride: u32| offset.saturating_add(at.saturating_mul(stride));
    let row = |kind: u32, count: u64, stride: u32, matrix: Option<(u32, bool)>| {
        let part = |at: u32| BlockPart { kind, name: format!("{name}[{at}]"), offset: within(at, stride), matrix };
        (0..count.min(MAX_MEMBERS as u64 + 1) as u32).map(part).collect::<Vec<_>>()
    };
    let found = match (definition.class.opcode, definition.operands.as_slice()) {
        (Op::TypeVector, &[Operand::IdRef(kind), Operand::LiteralBit32(count @ 2..=4)]) => {
            // In a matrix stored by rows, the components of a column lie one row column_stride.
            let stride = match *matrix {
                Some((stride, true)) => stride,
                _ => size(reflector, kind, depth)? as u32,
            };
            let part =
                |(at, letter)| BlockPart { kind, name: dotted(name, letter), offset: within(at, stride), matrix: None };
            (0..count).zip(["x", "y", "z", "w"]).map(part).collect()
        }
        (Op::TypeMatrix, &[Operand::IdRef(column), Operand::LiteralBit32(count @ 2..=4)]) => {
            let (stride, by_rows) = matrix.ok_or_else(|| format!("matrix '{name}' has no stride"))?;
            let component = ids(reflector.definition(column)?).next().ok_or("a vector has no components")?;
            let column_stride = if by_rows { size(reflector, component, depth)? as u32 } else { stride };
            row(column, count.into(), column_stride, *matrix)
        }
        (Op::TypeArray | Op::TypeRuntimeArray, &[Operand::IdRef(element), ref length @ ..]) => {
            // A single element stands for a run-time array.
            let length = length.iter().find_map(Operand::id_ref_any);
            let length = length.map(|length| length_of(reflector, length)).transpose()?.unwrap_or(1);
            let stride = stride(reflector, *id).ok_or_else(|| format!("array '{name}' has no stride"))?;
            row(element, length, stride as u32, *matrix)
        }
        (Op::TypeStruct, _) => {
            let member = |(index, kind): (u32, u32)| {
                let name = dotted(name, &reflector.name(*id, Some(index)));
                let member_offset = decorated(reflector, *id, Some(index), Decoration::Offset);
                let member_offset = member_offset.ok_or_else(|| format!("member '{name}' has no offset"))?;
                let by_rows = reflector.decoration(*id, Some(index), Decoration::RowMajor).is_some();
                let matrix_stride = decorated(reflector, *id, Some(index), Decoration::MatrixStride);
                let matrix = matrix_stride.map(|stride| (stride, by_rows));
                Ok(BlockPart { kind, name, offset: offset.saturating_add(member_offset), matrix })
            };
            (0..).zip(ids(definition)).map(member).collect::<Result<_, String>>()?
        }
        (other, _) => {
            return Err(format!(
                "member '{name}' is a {other:?}; use numbers, vectors, matrices, arrays and buffer references"
            ));
        }
    };
    // Nested empty structures that double at each level add no members, so the limit on members would never stop them.
    if found.is_empty() { Err(format!("member '{name}' is empty; remove it")) } else { Ok(found) }
}

/// Joins names as `outer.inner`; an empty one is left out.
fn dotted(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", inner) => inner.to_string(),
        (outer, "") => outer.to_string(),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

/// Returns the number that a decoration holds.
fn decorated(reflector: &Reflector<'_>, id: u32, member: Option<u32>, decoration: Decoration) -> Option<u32> {
    match reflector.decoration(id, member, decoration) {
        Some([Operand::LiteralBit32(value)]) => Some(*value),
        _ => None,
    }
}

fn stride(reflector: &Reflector<'_>, id: u32) -> Option<u64> {
    decorated(reflector, id, None, Decoration::ArrayStride).map(u64::from)
}

/// Returns the length of an array; the default if a specialization constant sets it.
fn length_of(reflector: &Reflector<'_>, id: u32) -> Result<u64, String> {
    let definition = reflector.definition(id)?;
    let value = definition.operands.first().ok_or("an array has no length")?;
    match definition.class.opcode {
        Op::Constant | Op::SpecConstant => literal(value).map(u64::from),
        // Computed from specialization constants: at least one element.
        _ => Ok(1),
    }
}

/// Whether type `id` is an address, or an array of addresses.
fn is_pointer(reflector: &Reflector<'_>, id: u32, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    reflector.definition(id).is_ok_and(|definition| match definition.class.opcode {
        Op::TypePointer => true,
        Op::TypeArray | Op::TypeRuntimeArray => {
            ids(definition).next().is_some_and(|element| is_pointer(reflector, element, depth))
        }
        _ => false,
    })
}

/// Describes the block of type `definition` that `variable` declares.
fn block(reflector: &Reflector<'_>, variable: u32, definition: &Instruction) -> Result<Block, String> {
    let block_id = definition.result_id.ok_or("a block has no id")?;
    let parts: Vec<u32> = ids(definition).collect();
    let mut names = vec![reflector.name(block_id, None), reflector.name(variable, None)];
    // An address member is named after the data it points to, not after this buffer.
    if parts.len() == 1 && !is_pointer(reflector, parts[0], MAX_DEPTH) {
        names.push(reflector.name(block_id, Some(0)));
    }
    // naga gives each variable its own name, and the block none or a generic one.
    if names[1].is_empty() || names[0] != names[1] {
        names.dedup();
    }
    names.retain(|name| !name.is_empty());
    let marked = |decoration| {
        let each = |index| reflector.decoration(block_id, Some(index), decoration).is_some();
        reflector.decoration(variable, None, decoration).is_some()
            || (!parts.is_empty() && (0..parts.len() as u32).all(each))
    };
    let mut fixed = 0;
    let mut array = None;
    for (index, member) in (0..).zip(&parts) {
        let offset = decorated(reflector, block_id, Some(index), Decoration::Offset).map_or(0, u64::from);
        let of = reflector.definition(*member)?;
        if of.class.opcode == Op::TypeRuntimeArray {
            let element = ids(of).next().ok_or("an array has no elements")?;
            let bytes = size(reflector, element, MAX_DEPTH)?;
            let stride = stride(reflector, *member).unwrap_or(bytes);
            array = Some(Elements { stride, scalar: uniform_scalar(reflector, element) });
            fixed = offset;
        } else {
            fixed = fixed.max(offset.saturating_add(size(reflector, *member, MAX_DEPTH)?));
        }
    }
    let members = members(reflector, block_id).unwrap_or_default();
    if array.is_none() {
        // The stride between matrix columns may exceed their length.
        let end = |member: &Argument| u64::from(member.offset) + u64::from(member.kind.bytes());
        fixed = members.iter().map(end).fold(fixed, u64::max);
    }
    let long = if members.is_empty() && array.is_none() { long_array(reflector, block_id, &parts) } else { None };
    Ok(Block {
        names: names.into_iter().map(Cow::Owned).collect(),
        writable: !marked(Decoration::NonWritable),
        readable: !marked(Decoration::NonReadable),
        fixed,
        array,
        members: members.into(),
        scalar: uniform_scalar(reflector, block_id),
        long,
    })
}

/// Returns the fixed-length array at the end of a block with these `members`, if there is one.
fn long_array(reflector: &Reflector<'_>, block_id: u32, members: &[u32]) -> Option<LongArray> {
    let last = *members.last()?;
    let array = reflector.definition(last).ok().filter(|of| of.class.opcode == Op::TypeArray)?;
    let element = ids(array).next()?;
    let stride = stride(reflector, last)?;
    let whole = BlockPart { kind: block_id, name: String::new(), offset: 0, matrix: None };
    let mut parts = parts(reflector, &whole, MAX_DEPTH).ok()?;
    let end = parts.last_mut()?;
    end.kind = element;
    let start = u64::from(end.offset);
    let mut first = vec![];
    parts.iter().try_for_each(|part| flatten(reflector, part, MAX_DEPTH, &mut first)).ok()?;
    reflector.members.set(reflector.members.get() + first.len());
    first.sort_by_key(|member| member.offset);
    Some(LongArray { start, stride, first })
}

/// Most types visited to find a common numeric type: structures may double at each level.
const MAX_TYPES: usize = 1024;

/// Returns the common type of all numbers in type `id`, if they share one.
fn uniform_scalar(reflector: &Reflector<'_>, id: u32) -> Option<Scalar> {
    let mut found = None;
    let mut left = vec![id];
    for _ in 0..MAX_TYPES {
        let Some(id) = left.pop() else { return found };
        let definition = reflector.definition(id).ok()?;
        match (scalar(definition), definition.class.opcode) {
            (Some(number), _) if found.is_none_or(|known| known == number) => found = Some(number),
            (None, Op::TypeVector | Op::TypeMatrix | Op::TypeArray | Op::TypeRuntimeArray) => {
                left.push(ids(definition).next()?);
            }
            (None, Op::TypeStruct) => left.extend(ids(definition)),
            _ => return None,
        }
    }
    None
}

/// Returns the size in bytes of type `id` in a buffer, without trailing padding.
fn size(reflector: &Reflector<'_>, id: u32, depth: usize) -> Result<u64, String> {
    let depth = depth.checked_sub(1).ok_or("the type of one of its buffers contains itself")?;
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
            // Only the last member is measured: visiting all would take exponential time in nested structures.
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
        let found = Interface::read(&module(&[
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
        assert_eq!(found.arguments[0].kind.in_words(), ArgumentKind::Address.in_words());
        assert_eq!(*found.arguments, expected);
        assert_eq!((found.version, found.local_size), ([1, 5], [8, 4, 1].map(Word::Literal)));
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
        let place = |decoration| [Op::Decorate as u32, 7, decoration as u32, 0];
        let (set, binding) = (place(Decoration::DescriptorSet), place(Decoration::Binding));
        let name: &[u32] = &[Op::Name as u32, 7, u32::from_le_bytes(*b"X\0\0\0")];
        let variable: &[u32] = &[Op::Variable as u32, 6, 7, class];
        let binary = module(&[name, &set, &binding, UINT, block, pointer, variable]);
        assert!(Interface::read(&binary).is_ok(), "a user's kernel may");
        let refused = Interface::read_built_in(&binary);
        let expected = "X is a buffer that a descriptor binds; declare it as a buffer reference in the push constants";
        assert_eq!(refused, Err(expected.to_string()));
    }

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
        let begun = Instant::now();
        let found = Interface::read(&module(&declarations)).expect("a kernel");
        assert_eq!(found.constants.len(), MANY as usize);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
