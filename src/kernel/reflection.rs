//! The interface of a kernel, all that a host needs to run it, from its SPIR-V: work-group size, specialization
//! constants, arguments (the push-constant block), texel views, shared memory and capabilities.
//!
//! `build.rs` includes this file and prints what it reads as constants; at run time it reads users' files. It therefore
//! names nothing else of the crate but what `build.rs` includes too.

use super::instructions::{HEADER, Instruction as Words, MAGIC, instructions};
use super::required::Required;
use rspirv::dr::{Instruction, Module, Operand};
use rspirv::spirv::{BuiltIn, Capability, Decoration, Dim, ExecutionMode, ExecutionModel, Op, StorageClass};
use std::borrow::Cow;
use std::collections::HashMap;

/// The interface that a kernel shows to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The version of SPIR-V, major and minor.
    pub version: [u8; 2],
    /// Invocations in a work-group along x, y, z.
    pub local_size: [Word; 3],
    /// The specialization constants, but for nameless ones that only set the work-group size.
    pub constants: Cow<'static, [SpecConstant]>,
    /// The members of the push-constant block, in memory order.
    pub arguments: Cow<'static, [Argument]>,
    /// The texel views (`samplerBuffer`), each a buffer seen as texels of four f32: bindings 0, 1, … of descriptor set 0.
    pub views: Cow<'static, [Cow<'static, str>]>,
    /// Bytes of shared memory, in reverse Polish notation over the specialization constants.
    pub shared: Cow<'static, [SizeOp]>,
    /// The SPIR-V capabilities that the kernel declares, by name; by number where this program has no name for one.
    pub capabilities: Cow<'static, [Cow<'static, str>]>,
    /// The features of Vulkan, by name, that its instructions need beyond them.
    pub features: Cow<'static, [Cow<'static, str>]>,
}

/// A 32-bit value known when the kernel was compiled, or set when the pipeline is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A constant of the shader.
    Literal(u32),
    /// A specialization constant.
    Constant {
        /// Its `constant_id`.
        id: u32,
        /// Its value when not set.
        default: u32,
    },
}

/// A specialization constant: `layout(constant_id = ID) const uint NAME = …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecConstant {
    /// The name in the source; empty where the file has been stripped of names.
    pub name: Cow<'static, str>,
    /// Its `constant_id`.
    pub id: u32,
}

/// One member of the push-constant block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The name in the source; empty where the file has been stripped of names.
    pub name: Cow<'static, str>,
    /// Bytes from the start of the block.
    pub offset: u32,
    pub kind: ArgumentKind,
}

/// The kind of value that a push-constant member holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A buffer reference, or an address as an integer: 8 bytes.
    Address,
    /// An integer: 4 bytes.
    U32,
    /// A float: 4 bytes.
    F32,
}

impl ArgumentKind {
    /// Bytes in the push-constant block.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Address => 8,
            Self::U32 | Self::F32 => 4,
        }
    }
}

/// One operation of a size in reverse Polish notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeOp {
    /// Push a value.
    Push(Word),
    /// Replace the two topmost values by their sum.
    Add,
    /// Replace the two topmost values by their product.
    Mul,
    /// Replace the two topmost values by their difference.
    Sub,
    /// Replace the two topmost values by their quotient.
    Div,
    /// Replace the two topmost values by the larger.
    Max,
}

impl Interface {
    /// Reads the interface of the SPIR-V module `binary`: one compute shader, `main`.
    ///
    /// # Errors
    /// What is wrong with the file, or cannot be served, and what to do.
    pub fn read(binary: &[u8]) -> Result<Self, String> {
        let (interface, shared) = Self::reflect(binary)?;
        Ok(Self { shared: shared?.into(), ..interface })
    }

    /// Reads the interface of a module that takes the place of a kernel: all but its shared memory, whose size may be any
    /// expression that a driver knows.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn read_substitute(binary: &[u8]) -> Result<Self, String> {
        Self::reflect(binary).map(|(interface, _)| interface)
    }

    /// The interface with no shared memory, and the size of that memory.
    fn reflect(binary: &[u8]) -> Result<(Self, Result<Vec<SizeOp>, String>), String> {
        let declarations = Declarations::read(binary)?;
        let module = rspirv::dr::load_words(&declarations.kept)
            .map_err(|e| format!("its declarations cannot be read: {e}; check it with `spirv-val`"))?;
        entry_point(&module)?;
        let reflector = Reflector::new(&module, declarations.size_ids);
        let local_size = reflector.local_size()?;
        let interface = Self {
            version: declarations.version,
            local_size,
            constants: reflector.constants(local_size).into(),
            arguments: reflector.arguments()?.into(),
            views: reflector.views()?.into(),
            shared: Cow::Borrowed(&[]),
            capabilities: declarations.capabilities.into(),
            features: declarations.features.into(),
        };
        Ok((interface, reflector.shared()))
    }
}

/// The declarations that say how to run a module: all before the first function that is needed here, so that neither
/// damage nor novelties elsewhere are in the way.
pub(super) struct Declarations {
    pub(super) version: [u8; 2],
    /// Header and instructions.
    pub(super) kept: Vec<u32>,
    pub(super) capabilities: Vec<Cow<'static, str>>,
    pub(super) features: Vec<Cow<'static, str>>,
    /// The ids of the work-group size from `OpExecutionModeId … LocalSizeId x y z`, by which SPIR-V 1.6 states it
    /// (section 3.6) and which rspirv 0.13 takes for an instruction of a function.
    pub(super) size_ids: Option<[u32; 3]>,
}

impl Declarations {
    pub(super) fn read(binary: &[u8]) -> Result<Self, String> {
        const LOCAL_SIZE_ID: u32 = ExecutionMode::LocalSizeId as u32;
        if binary.len() < 4 * HEADER || !binary.len().is_multiple_of(4) {
            return Err(format!(
                "it has {} bytes, which SPIR-V has not; compile it, as with `glslc -o FILE.spv`",
                binary.len()
            ));
        }
        let words: Vec<u32> =
            binary.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
        if words[0] == MAGIC.swap_bytes() {
            return Err("its bytes are in the order of another machine; compile it for this one".into());
        }
        if words[0] != MAGIC {
            return Err("it is not SPIR-V: its first word is not the magic number; compile it, as with `glslc`".into());
        }
        let [_, minor, major, _] = words[1].to_le_bytes();
        let mut found = Self {
            version: [major, minor],
            kept: words[..HEADER].to_vec(),
            capabilities: vec![],
            features: vec![],
            size_ids: None,
        };
        let (mut last, mut in_functions, mut entered) = (None, false, false);
        let mut required = Required::default();
        for own in instructions(&words) {
            let own = own?;
            last = own.op();
            in_functions |= last == Some(Op::Function);
            entered |= last == Some(Op::EntryPoint);
            required.read(last, own.operands());
            match (last, own.operands()) {
                _ if in_functions => {}
                (Some(Op::Capability), &[capability]) => found.capabilities.push(
                    Capability::from_u32(capability)
                        .map_or_else(|| capability.to_string(), |c| format!("{c:?}"))
                        .into(),
                ),
                (Some(Op::ExecutionModeId), &[_, LOCAL_SIZE_ID, x, y, z]) => found.size_ids = Some([x, y, z]),
                _ if needed(own) => found.kept.extend(own.words),
                _ => {}
            }
        }
        // An entry point without a function, as where a file was cut off before the first, crashes drivers.
        if (in_functions || entered) && last != Some(Op::FunctionEnd) {
            return Err("it is damaged: it does not end with the end of a function".into());
        }
        found.features = required.features.into_iter().map(Cow::Owned).collect();
        Ok(found)
    }
}

/// Whether the reflector looks at an instruction.
fn needed(own: Words<'_>) -> bool {
    const DECORATIONS: [Decoration; 10] = [
        Decoration::SpecId,
        Decoration::BuiltIn,
        Decoration::Binding,
        Decoration::DescriptorSet,
        Decoration::Offset,
        Decoration::ArrayStride,
        Decoration::MatrixStride,
        Decoration::BufferBlock,
        Decoration::NonWritable,
        Decoration::NonReadable,
    ];
    let operands = own.operands();
    let decorates = |at: usize| operands.get(at).is_some_and(|&found| DECORATIONS.iter().any(|&d| d as u32 == found));
    match own.op() {
        Some(Op::Decorate) => decorates(1),
        Some(Op::MemberDecorate) => decorates(2),
        // rspirv panics at operations whose operands are more than ids and numbers.
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

/// Checks that the module is one compute shader, `main`.
pub(super) fn entry_point(module: &Module) -> Result<(), String> {
    let entries: Vec<_> = module.entry_points.iter().map(|entry| entry.operands.as_slice()).collect();
    match entries[..] {
        [[Operand::ExecutionModel(ExecutionModel::GLCompute), _, Operand::LiteralString(name), ..]]
            if name == "main" =>
        {
            Ok(())
        }
        [] => Err("it has no entry point; compile a compute shader with `void main()`".into()),
        [[Operand::ExecutionModel(model), _, Operand::LiteralString(name), ..], ..] => Err(format!(
            "its entry point is '{name}' of execution model {}{}; compile one compute shader with `void main()`",
            *model as u32,
            if entries.len() > 1 { ", and it has others" } else { "" }
        )),
        _ => Err("its entry point has neither model nor name; check it with `spirv-val`".into()),
    }
}

pub(super) struct Reflector<'a> {
    pub(super) module: &'a Module,
    /// The ids of the work-group size, where nothing else states it.
    pub(super) size_ids: Option<[u32; 3]>,
    /// The declarations, by the ids that they define.
    definitions: HashMap<u32, &'a Instruction>,
    /// What stands behind a decoration of an id, or of one of its members.
    decorations: HashMap<(u32, Option<u32>, Decoration), &'a [Operand]>,
    /// The names of ids, and of their members.
    names: HashMap<(u32, Option<u32>), &'a str>,
}

impl<'a> Reflector<'a> {
    pub(super) fn new(module: &'a Module, size_ids: Option<[u32; 3]>) -> Self {
        let mut found =
            Self { module, size_ids, definitions: HashMap::new(), decorations: HashMap::new(), names: HashMap::new() };
        // Of several the first counts.
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

    pub(super) fn definition(&self, id: u32) -> Result<&'a Instruction, String> {
        self.definitions.get(&id).copied().ok_or_else(|| format!("%{id} has no definition"))
    }

    /// The operands after the decoration itself, for a decoration of `id` (or of its `member`).
    pub(super) fn decoration(&self, id: u32, member: Option<u32>, wanted: Decoration) -> Option<&'a [Operand]> {
        self.decorations.get(&(id, member, wanted)).copied()
    }

    pub(super) fn spec_id(&self, id: u32) -> Option<u32> {
        match self.decoration(id, None, Decoration::SpecId)? {
            [Operand::LiteralBit32(spec)] => Some(*spec),
            _ => None,
        }
    }

    pub(super) fn name(&self, id: u32, member: Option<u32>) -> String {
        self.names.get(&(id, member)).copied().unwrap_or_default().to_string()
    }

    /// The work-group size: the composite decorated `BuiltIn WorkgroupSize` where there is one (it overrides the
    /// execution mode: SPIR-V section 3.6), else the `LocalSize` mode.
    pub(super) fn local_size(&self) -> Result<[Word; 3], String> {
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
        sizes.try_into().map_err(|_| "its work-group size has not three extents".into())
    }

    /// A constant or specialization constant as a `Word`.
    pub(super) fn word(&self, id: u32) -> Result<Word, String> {
        let definition = self.definition(id)?;
        let value = || literal(definition.operands.first().ok_or_else(|| format!("%{id} has no value"))?);
        match (definition.class.opcode, self.spec_id(id)) {
            (Op::SpecConstant, Some(id)) => Ok(Word::Constant { id, default: value()? }),
            (Op::Constant, _) => Ok(Word::Literal(value()?)),
            (other, _) => Err(format!("%{id} is {other:?}, not a 32-bit constant")),
        }
    }

    /// The specialization constants, but for nameless ones that set an extent of `local_size`.
    pub(super) fn constants(&self, local_size: [Word; 3]) -> Vec<SpecConstant> {
        let extent = |wanted| local_size.iter().any(|word| matches!(word, Word::Constant { id, .. } if *id == wanted));
        let constants = self.module.types_global_values.iter().filter_map(|instruction| {
            let result = instruction.result_id?;
            let (name, id) = (self.name(result, None), self.spec_id(result)?);
            (!name.is_empty() || !extent(id)).then(|| SpecConstant { name: name.into(), id })
        });
        constants.collect()
    }

    /// The members of the push-constant block, in memory order; of a vector, its components.
    fn arguments(&self) -> Result<Vec<Argument>, String> {
        let Some(variable) = self.variables(StorageClass::PushConstant).next() else { return Ok(vec![]) };
        let block = self.definition(self.pointee(variable)?)?;
        let block_id = block.result_id.ok_or("the push-constant block has no id")?;
        let mut arguments = vec![];
        for (index, member) in ids(block).enumerate() {
            let index = index as u32;
            let name = self.name(block_id, Some(index));
            let Some(&[Operand::LiteralBit32(offset)]) = self.decoration(block_id, Some(index), Decoration::Offset)
            else {
                return Err(format!("argument {name} has no offset"));
            };
            let definition = self.definition(member)?;
            if let (Op::TypeVector, &[Operand::IdRef(component), Operand::LiteralBit32(count @ 2..=4)]) =
                (definition.class.opcode, definition.operands.as_slice())
            {
                let kind = argument_kind(self.definition(component)?, &name)?;
                arguments.extend(["x", "y", "z", "w"].iter().zip(0..count).map(|(component, at)| Argument {
                    name: if name.is_empty() { name.clone() } else { format!("{name}.{component}") }.into(),
                    offset: offset.saturating_add(at * kind.bytes()),
                    kind,
                }));
                continue;
            }
            let kind = argument_kind(definition, &name)?;
            arguments.push(Argument { name: name.into(), offset, kind });
        }
        arguments.sort_by_key(|argument| argument.offset);
        Ok(arguments)
    }

    /// The names of the texel views (`samplerBuffer`), in the order of their bindings 0, 1, … of set 0.
    fn views(&self) -> Result<Vec<Cow<'static, str>>, String> {
        for class in [StorageClass::StorageBuffer, StorageClass::Uniform] {
            if let Some(variable) = self.variables(class).next() {
                let name = variable.result_id.map_or_else(String::new, |id| self.name(id, None));
                return Err(format!(
                    "{name} is a buffer that a descriptor binds; declare it as a buffer reference in the push constants"
                ));
            }
        }
        let mut views = vec![];
        for variable in self.variables(StorageClass::UniformConstant) {
            let id = variable.result_id.ok_or("a variable has no id")?;
            let name = self.name(id, None);
            let image = self.definition(self.pointee(variable)?)?;
            let image = match image.class.opcode {
                Op::TypeSampledImage => self.definition(ids(image).next().ok_or("a sampled image has no type")?)?,
                _ => image,
            };
            let [Operand::IdRef(texel), Operand::Dim(Dim::DimBuffer), ..] = image.operands.as_slice() else {
                return Err(format!("{name} is neither an argument nor a texel view (samplerBuffer)"));
            };
            if self.definition(*texel)?.class.opcode != Op::TypeFloat {
                return Err(format!("{name} has texels of integers; views are made of four f32 (samplerBuffer)"));
            }
            let literal = |decoration| match self.decoration(id, None, decoration) {
                Some([Operand::LiteralBit32(value)]) => Ok(*value),
                _ => Err(format!("{name} has no {decoration:?}")),
            };
            if literal(Decoration::DescriptorSet)? != 0 {
                return Err(format!("{name} is not in set 0"));
            }
            views.push((literal(Decoration::Binding)?, name));
        }
        views.sort();
        match (0..).zip(&views).find(|(expected, (binding, _))| expected != binding) {
            Some((expected, (_, name))) => {
                Err(format!("{name} must have binding {expected}: they are numbered from 0"))
            }
            None => Ok(views.into_iter().map(|(_, name)| name.into()).collect()),
        }
    }

    pub(super) fn variables(&self, class: StorageClass) -> impl Iterator<Item = &'a Instruction> {
        self.module.types_global_values.iter().filter(move |instruction| {
            instruction.class.opcode == Op::Variable
                && instruction.operands.first() == Some(&Operand::StorageClass(class))
        })
    }

    pub(super) fn pointee(&self, variable: &Instruction) -> Result<u32, String> {
        let pointer = self.definition(variable.result_type.ok_or("a variable has no type")?)?;
        ids(pointer).next().ok_or_else(|| "a pointer points to no type".into())
    }

    /// Bytes of shared memory as a sum in reverse Polish notation, since array lengths may depend on
    /// specialization constants.
    pub(super) fn shared(&self) -> Result<Vec<SizeOp>, String> {
        let mut program = vec![SizeOp::Push(Word::Literal(0))];
        for variable in self.variables(StorageClass::Workgroup) {
            self.type_bytes(self.pointee(variable)?, DEEPEST, &mut program)?;
            program.push(SizeOp::Add);
        }
        Ok(program)
    }

    /// Pushes the bytes of type `id`, whose definition may be nested `depth` times.
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

    /// Pushes a constant expression over specialization constants, which may be nested `depth` times.
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
                return Err("an array length selects other than the larger of two, `a > b ? a : b`".into());
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
        let &[left, right] = operands.as_slice() else { return Err(format!("%{id} has not two operands")) };
        self.value(left, depth, program)?;
        self.value(right, depth, program)?;
        program.push(operation);
        Ok(())
    }
}

/// Levels to which types and constant expressions may be nested.
pub(super) const DEEPEST: usize = 64;
/// Operations that a size may take: a file that doubles an expression at each of its levels would fill the memory.
const MOST_OPERATIONS: usize = 1 << 12;

/// The depth left one level down.
fn deeper(depth: usize, program: &[SizeOp]) -> Result<usize, String> {
    let left = depth.checked_sub(1).filter(|_| program.len() < MOST_OPERATIONS);
    left.ok_or_else(|| "the size of its shared memory is too long an expression; use plain arrays".into())
}

/// The kind of value that a member of type `definition` of the push-constant block holds.
fn argument_kind(definition: &Instruction, name: &str) -> Result<ArgumentKind, String> {
    match (definition.class.opcode, definition.operands.as_slice()) {
        (Op::TypePointer, _) | (Op::TypeInt, [Operand::LiteralBit32(64), _]) => Ok(ArgumentKind::Address),
        (Op::TypeInt, [Operand::LiteralBit32(32), _]) => Ok(ArgumentKind::U32),
        (Op::TypeFloat, [Operand::LiteralBit32(32), ..]) => Ok(ArgumentKind::F32),
        (other, _) => Err(format!("argument {name} is a {other:?}; use a buffer reference, uint or float")),
    }
}

/// The ids among an instruction's operands.
pub(super) fn ids(instruction: &Instruction) -> impl Iterator<Item = u32> {
    instruction.operands.iter().filter_map(|operand| match operand {
        Operand::IdRef(id) => Some(*id),
        _ => None,
    })
}

pub(super) fn literal(operand: &Operand) -> Result<u32, String> {
    match operand {
        Operand::LiteralBit32(value) => Ok(*value),
        other => Err(format!("{other:?} is not a number of 32 bits")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A compute shader that declares no more than `declarations`, each an opcode and its operands, and does nothing.
    pub(in crate::kernel) fn module(declarations: &[&[u32]]) -> Vec<u8> {
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
        let argument = |name: &'static str, offset, kind| Argument { name: name.into(), offset, kind };
        let expected = [
            argument("", 0, ArgumentKind::Address),
            argument("size.x", 16, ArgumentKind::U32),
            argument("size.y", 20, ArgumentKind::U32),
            argument("size.z", 24, ArgumentKind::U32),
        ];
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
        let shared = |last: &[u32]| Interface::read(&binary(last));
        let push = |value| SizeOp::Push(Word::Literal(value));
        let sum = [push(0), push(0), push(4), SizeOp::Add, push(3), push(4), SizeOp::Mul, SizeOp::Add, SizeOp::Add];
        assert_eq!(*shared(&[Op::TypeStruct as u32, 8, 2, 4]).expect("a kernel").shared, sum);
        let endless = shared(&[Op::TypeStruct as u32, 8, 8, 8]).expect_err("it holds itself");
        assert!(endless.contains("too long an expression"), "{endless}");
        // What takes a kernel's place may have shared memory of any size that its driver understands.
        assert!(Interface::read_substitute(&binary(&[Op::TypeStruct as u32, 8, 8, 8])).is_ok());
    }

    #[test]
    fn a_buffer_that_a_descriptor_binds_is_refused() {
        let class = StorageClass::StorageBuffer as u32;
        let pointer: &[u32] = &[Op::TypePointer as u32, 6, class, 5];
        let block: &[u32] = &[Op::TypeStruct as u32, 5, 2];
        let name: &[u32] = &[Op::Name as u32, 7, u32::from_le_bytes(*b"X\0\0\0")];
        let refused = Interface::read(&module(&[name, UINT, block, pointer, &[Op::Variable as u32, 6, 7, class]]));
        let expected = "X is a buffer that a descriptor binds; declare it as a buffer reference in the push constants";
        assert_eq!(refused, Err(expected.to_string()));
    }
}
