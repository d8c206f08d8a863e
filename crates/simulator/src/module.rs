//! A SPIR-V module, decoded as far as a compute shader needs: types, constants with their specialisation, decorations,
//! and functions as lists of blocks. Errors name the instruction.

use crate::alu;
use crate::code::LaneFunction;
use crate::kernel::buffer::SpecValue;
use crate::kernel::instructions::{HEADER, MAGIC, instructions, string};
use crate::kernel::interface::Scalar;
use crate::lanes::{Active, LaneSet};
use crate::matrix::MatrixType;
use rspirv::grammar::{INSTRUCTION_TABLE, OperandKind, OperandQuantifier};
use rspirv::spirv::{Decoration, Dim, ExecutionMode, FPEncoding, Op, StorageClass};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Id of a SPIR-V module.
pub(crate) type Id = u32;

/// Decoded instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    /// Index of its first word in the module.
    pub(crate) at: usize,
    pub(crate) op: Op,
    /// Result type; 0 if there is none.
    pub(crate) ty: Id,
    /// Result; 0 if there is none.
    pub(crate) result: Id,
    /// Operands behind the result.
    pub(crate) operands: Vec<u32>,
}

impl Inst {
    /// Returns an operand. The error says that the instruction is too short.
    pub(crate) fn operand(&self, index: usize) -> Result<u32, String> {
        let operand = self.operands.get(index).copied();
        operand.ok_or_else(|| format!("Op{:?} has only {} operands", self.op, self.operands.len()))
    }

    /// Returns the operands from `index` on.
    pub(crate) fn rest(&self, index: usize) -> &[u32] {
        self.operands.get(index..).unwrap_or_default()
    }
}

/// Type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueType {
    Void,
    Scalar(Scalar),
    Vector {
        component: Id,
        count: u32,
    },
    /// Columns are vectors.
    Matrix {
        column: Id,
        count: u32,
    },
    Array {
        element: Id,
        count: u64,
    },
    RuntimeArray {
        element: Id,
    },
    Struct(Vec<Id>),
    Pointer {
        class: StorageClass,
        pointee: Id,
    },
    /// Texel buffer, with or without its sampler.
    Texels,
    Cooperative {
        component: Id,
        matrix: MatrixType,
    },
    /// A type that a compute kernel can declare without use: functions, other images.
    Opaque(Op),
}

/// Constant: its scalars in order. A null pointer is 0.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) ty: Id,
    pub(crate) scalars: Vec<u64>,
    /// Whether this is an `OpUndef`.
    pub(crate) is_undefined: bool,
}

/// Basic block.
#[derive(Clone, Debug)]
pub(crate) struct BasicBlock {
    pub(crate) label: Id,
    /// Instructions, with the terminator last.
    pub(crate) instructions: Vec<Inst>,
    /// Merge block of a selection or loop that begins here.
    pub(crate) merge: Option<Id>,
    /// Continue target of a loop that begins here.
    pub(crate) continue_target: Option<Id>,
}

/// How a type nests others.
#[derive(Clone, Copy, Default)]
struct Nesting {
    depth: u32,
    /// Parts of parts and so on, of all elements.
    parts: u64,
}

/// Place of a type's values in memory.
struct TypeLayout {
    bytes: u64,
    alignment: u64,
    /// Byte offsets of a structure's members.
    offsets: Vec<u64>,
}

/// Function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    pub(crate) parameters: Vec<Id>,
    pub(crate) blocks: Vec<BasicBlock>,
}

/// Set of extended instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtendedSet {
    Glsl,
    /// Debug information and other sets without semantics.
    NonSemantic,
    Unknown,
}

/// Decoded module, specialised.
#[derive(Default)]
pub(crate) struct SpirvModule {
    pub(crate) types: HashMap<Id, ValueType>,
    pub(crate) constants: HashMap<Id, Constant>,
    pub(crate) names: HashMap<Id, String>,
    /// Names of structures' members.
    pub(crate) member_names: HashMap<(Id, u32), String>,
    decorations: HashMap<(Id, Decoration), Vec<u32>>,
    member_decorations: HashMap<(Id, u32, Decoration), Vec<u32>>,
    /// Variables outside functions, in order.
    pub(crate) variables: Vec<Inst>,
    pub(crate) functions: HashMap<Id, Rc<Function>>,
    pub(crate) extended_sets: HashMap<Id, ExtendedSet>,
    pub(crate) entry: Id,
    pub(crate) local_size: [u32; 3],
    /// Pointer types that are used before they are declared.
    forward_pointers: HashSet<Id>,
    /// Scalars of each type that has values.
    scalar_counts: HashMap<Id, u64>,
    nestings: HashMap<Id, Nesting>,
    /// Layouts of the types that have one, once all are read.
    layouts: HashMap<Id, TypeLayout>,
    /// Types in order, in which parts precede what they are part of.
    type_order: Vec<Id>,
    /// Scalars of all constants.
    constant_scalars: u64,
    local_size_ids: Option<[Id; 3]>,
    /// Whether the entry point asks for maximal reconvergence.
    pub(crate) reconverges_maximally: bool,
    pub(crate) capabilities: Vec<u32>,
    /// Sub-group size that the module is read for: cooperative matrices take registers by it.
    pub(crate) subgroup_size: u32,
}

/// Most scalars of one value; more are data of a compiler's mistake, or of a fuzzer.
const MAX_SCALARS: u64 = 1 << 16;
/// Most scalars of all constants.
const MAX_CONSTANT_SCALARS: u64 = 1 << 22;
/// Deepest nesting of types, which SPIR-V limits too.
const MAX_TYPE_DEPTH: u32 = 255;
/// Most members of a structure, which SPIR-V limits too.
const MAX_MEMBERS: usize = 16383;

/// Splits off an instruction's result type and result, as the grammar has them.
fn decode(at: usize, words: &[u32]) -> Result<Inst, String> {
    let number = words[0] & 0xffff;
    let unknown = || format!("instruction {number} at word {at} is not known here");
    let op = Op::from_u32(number).ok_or_else(unknown)?;
    let grammar = INSTRUCTION_TABLE.lookup_opcode(number).ok_or_else(unknown)?;
    let mut operands = &words[1..];
    let mut inst = Inst { at, op, ty: 0, result: 0, operands: vec![] };
    let mut required = 0;
    for operand in grammar.operands {
        match operand.kind {
            OperandKind::IdResultType | OperandKind::IdResult => {
                let [first, rest @ ..] = operands else { return Err(format!("Op{op:?} at word {at} is cut short")) };
                if operand.kind == OperandKind::IdResult {
                    inst.result = *first;
                } else {
                    inst.ty = *first;
                }
                operands = rest;
            }
            _ if operand.quantifier == OperandQuantifier::One => required += 1,
            _ => {}
        }
    }
    if operands.len() < required {
        return Err(format!("Op{op:?} at word {at} is cut short"));
    }
    inst.operands = operands.to_vec();
    Ok(inst)
}

impl SpirvModule {
    /// Decodes a module and evaluates its constants with the values of `specialisation`.
    pub(crate) fn read(words: &[u32], specialisation: &[SpecValue], subgroup_size: u32) -> Result<Self, String> {
        if words.len() < HEADER || words[0] != MAGIC {
            return Err("is not SPIR-V".into());
        }
        let mut module = Self { local_size: [1; 3], subgroup_size, ..Self::default() };
        let mut function: Option<(Id, Function)> = None;
        for instruction in instructions(words) {
            let instruction = instruction?;
            let inst = decode(instruction.at, instruction.words)?;
            match inst.op {
                Op::Function => function = Some((inst.result, Function::default())),
                Op::FunctionEnd => {
                    if let Some((id, mut function)) = function.take() {
                        module.widen_switches(&mut function);
                        module.functions.insert(id, Rc::new(function));
                    }
                }
                _ => match &mut function {
                    Some((_, function)) => add_to_function(function, inst)?,
                    None => module.declare(inst, specialisation)?,
                },
            }
        }
        if let Some(ids) = module.local_size_ids {
            for (extent, id) in module.local_size.iter_mut().zip(ids) {
                *extent =
                    module.constants.get(&id).and_then(|constant| constant.scalars.first()).map_or(1, |x| *x as u32);
            }
        }
        module.override_local_size();
        module.measure_types();
        if !module.functions.contains_key(&module.entry) {
            return Err("has no entry point with a body".into());
        }
        Ok(module)
    }

    /// Gives the literals of every switch two words, as those of 64 bits have.
    fn widen_switches(&self, function: &mut Function) {
        let mut types = HashMap::new();
        for inst in function.blocks.iter().flat_map(|block| &block.instructions) {
            types.insert(inst.result, inst.ty);
        }
        for inst in function.blocks.iter_mut().filter_map(|block| block.instructions.last_mut()) {
            if inst.op != Op::Switch || inst.operands.len() < 2 {
                continue;
            }
            let ty = types.get(&inst.operands[0]).copied();
            let ty = ty.or_else(|| self.constants.get(&inst.operands[0]).map(|constant| constant.ty)).unwrap_or(0);
            if self.scalar(ty).is_ok_and(|scalar| scalar.bytes() == 8) {
                continue;
            }
            let cases: Vec<u32> = inst.operands.split_off(2);
            for case in cases.chunks_exact(2) {
                inst.operands.extend([case[0], 0, case[1]]);
            }
        }
    }

    /// Applies the constant that is decorated as the built-in `WorkgroupSize`; it precedes every other statement of the
    /// work-group size.
    fn override_local_size(&mut self) {
        const WORKGROUP_SIZE: u32 = rspirv::spirv::BuiltIn::WorkgroupSize as u32;
        for ((id, decoration), operands) in &self.decorations {
            if *decoration == Decoration::BuiltIn
                && operands.first() == Some(&WORKGROUP_SIZE)
                && let Some(constant) = self.constants.get(id)
                && let [x, y, z] = constant.scalars[..]
            {
                self.local_size = [x as u32, y as u32, z as u32];
            }
        }
    }

    fn declare(&mut self, inst: Inst, specialisation: &[SpecValue]) -> Result<(), String> {
        let id = |index| inst.operand(index);
        match inst.op {
            Op::Capability => self.capabilities.push(id(0)?),
            Op::ExtInstImport => {
                let name = string(&inst.operands);
                let set = match name.as_str() {
                    "GLSL.std.450" => ExtendedSet::Glsl,
                    _ if name.starts_with("NonSemantic.") || name.contains("DebugInfo") => ExtendedSet::NonSemantic,
                    _ => ExtendedSet::Unknown,
                };
                self.extended_sets.insert(inst.result, set);
            }
            Op::EntryPoint => {
                if self.entry != 0 {
                    return Err("has several entry points; choose one with --entry".into());
                }
                self.entry = id(1)?;
            }
            Op::ExecutionMode | Op::ExecutionModeId => self.set_mode(&inst)?,
            Op::Name => {
                self.names.insert(id(0)?, string(inst.rest(1)));
            }
            Op::MemberName => {
                self.member_names.insert((id(0)?, id(1)?), string(inst.rest(2)));
            }
            Op::Decorate | Op::DecorateId => {
                if let Some(decoration) = Decoration::from_u32(id(1)?) {
                    self.decorations.insert((id(0)?, decoration), inst.rest(2).to_vec());
                }
            }
            Op::MemberDecorate => {
                if let Some(decoration) = Decoration::from_u32(id(2)?) {
                    self.member_decorations.insert((id(0)?, id(1)?, decoration), inst.rest(3).to_vec());
                }
            }
            Op::Variable => self.variables.push(inst),
            Op::TypeForwardPointer => {
                self.forward_pointers.insert(id(0)?);
            }
            Op::GroupDecorate | Op::DecorationGroup => return Err(format!("uses Op{:?}", inst.op)),
            _ => {
                if let Some(ty) = self.read_type(&inst)? {
                    if self.forward_pointers.contains(&inst.result) && !matches!(ty, ValueType::Pointer { .. }) {
                        return Err(format!("type %{} is announced as a pointer and is none", inst.result));
                    }
                    self.insert_type(inst.result, ty)?;
                } else if inst.result != 0 && inst.ty != 0 {
                    self.read_constant(&inst, specialisation)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a type. Its parts are declared already, and no id is declared twice, so that no type contains itself.
    fn insert_type(&mut self, id: Id, ty: ValueType) -> Result<(), String> {
        let (parts, copies) = match &ty {
            ValueType::Struct(members) => (&members[..], 1),
            ValueType::Array { element, count } => (std::slice::from_ref(element), *count),
            ValueType::RuntimeArray { element } => (std::slice::from_ref(element), 1),
            _ => (&[][..], 1),
        };
        let mut nesting = Nesting::default();
        for part in parts.iter().filter_map(|part| self.nestings.get(part)) {
            nesting.depth = nesting.depth.max(part.depth);
            nesting.parts = nesting.parts.saturating_add(part.parts);
        }
        let nesting =
            Nesting { depth: nesting.depth + 1, parts: nesting.parts.saturating_mul(copies).saturating_add(1) };
        if nesting.depth > MAX_TYPE_DEPTH || parts.len() > MAX_MEMBERS {
            return Err(format!("type %{id} has {} members, nested {} deep", parts.len(), nesting.depth));
        }
        if self.types.insert(id, ty).is_some() {
            return Err(format!("type %{id} is declared twice"));
        }
        self.nestings.insert(id, nesting);
        self.type_order.push(id);
        if let Ok(count) = self.scalar_count(id) {
            self.scalar_counts.insert(id, count);
        }
        Ok(())
    }

    /// Lays out all types, parts first, so that each is measured once.
    fn measure_types(&mut self) {
        for id in std::mem::take(&mut self.type_order) {
            if let Ok(layout) = self.measure(id) {
                self.layouts.insert(id, layout);
            }
        }
    }

    fn measure(&self, id: Id) -> Result<TypeLayout, String> {
        let mut offsets = vec![];
        if let ValueType::Struct(members) = self.ty(id)? {
            let mut end: Result<u64, String> = Ok(0);
            for (index, member) in (0..).zip(members) {
                let natural = end.and_then(|end| Ok(end.next_multiple_of(self.alignment(*member)?)));
                end = natural.clone().and_then(|begin| Ok(begin + self.bytes(*member)?));
                let decorated = self.member_decoration(id, index, Decoration::Offset).and_then(|words| words.first());
                offsets.push(decorated.map_or(natural, |offset| Ok(u64::from(*offset)))?);
            }
        }
        Ok(TypeLayout { alignment: self.alignment(id)?, bytes: self.bytes(id)?, offsets })
    }

    /// Returns the parts of a type, theirs and so on.
    pub(crate) fn nested_parts(&self, id: Id) -> u64 {
        self.nestings.get(&id).map_or(1, |nesting| nesting.parts)
    }

    fn set_mode(&mut self, inst: &Inst) -> Result<(), String> {
        // SPV_KHR_maximal_reconvergence.
        const MAXIMALLY_RECONVERGES: u32 = 6023;
        let mode = inst.operand(1)?;
        if mode == ExecutionMode::LocalSize as u32 {
            self.local_size = [inst.operand(2)?, inst.operand(3)?, inst.operand(4)?];
        } else if mode == ExecutionMode::LocalSizeId as u32 {
            self.local_size_ids = Some([inst.operand(2)?, inst.operand(3)?, inst.operand(4)?]);
        } else if mode == MAXIMALLY_RECONVERGES {
            self.reconverges_maximally = true;
        }
        Ok(())
    }

    fn read_type(&self, inst: &Inst) -> Result<Option<ValueType>, String> {
        let id = |index| inst.operand(index);
        Ok(Some(match inst.op {
            Op::TypeVoid => ValueType::Void,
            Op::TypeBool => ValueType::Scalar(Scalar::Bool),
            Op::TypeInt => match id(0)? {
                bits @ (8 | 16 | 32 | 64) => ValueType::Scalar(Scalar::Int { bits, signed: id(1)? == 1 }),
                bits => return Err(format!("has integers of {bits} bits")),
            },
            Op::TypeFloat => match (id(0)?, inst.operands.get(1)) {
                (16, Some(&encoding)) if encoding == FPEncoding::BFloat16KHR as u32 => {
                    ValueType::Scalar(Scalar::Bfloat16)
                }
                (bits @ (16 | 32 | 64), None) => ValueType::Scalar(Scalar::Float { bits }),
                (bits, _) => return Err(format!("has floats of {bits} bits in an encoding that is not simulated")),
            },
            Op::TypeVector if (2..=16).contains(&id(1)?) && matches!(self.ty(id(0)?)?, ValueType::Scalar(_)) => {
                ValueType::Vector { component: id(0)?, count: id(1)? }
            }
            Op::TypeMatrix if (2..=4).contains(&id(1)?) && matches!(self.ty(id(0)?)?, ValueType::Vector { .. }) => {
                ValueType::Matrix { column: id(0)?, count: id(1)? }
            }
            Op::TypeArray => ValueType::Array { element: self.declared(id(0)?)?, count: self.scalar_constant(id(1)?)? },
            Op::TypeRuntimeArray => ValueType::RuntimeArray { element: self.declared(id(0)?)? },
            Op::TypeStruct => {
                for member in &inst.operands {
                    self.declared(*member)?;
                }
                ValueType::Struct(inst.operands.clone())
            }
            Op::TypePointer => {
                let class =
                    StorageClass::from_u32(id(0)?).ok_or_else(|| format!("has storage class {}", inst.operands[0]))?;
                ValueType::Pointer { class, pointee: id(1)? }
            }
            Op::TypeImage if id(1)? == Dim::DimBuffer as u32 => ValueType::Texels,
            Op::TypeSampledImage if self.types.get(&id(0)?) == Some(&ValueType::Texels) => ValueType::Texels,
            Op::TypeCooperativeMatrixKHR => {
                let constant = |index| self.scalar_constant(id(index)?);
                let scalar = self.scalar(id(0)?)?;
                let [scope, rows, columns, usage] = [constant(1)?, constant(2)?, constant(3)?, constant(4)?];
                if scope != 3 {
                    return Err("has cooperative matrices of a scope other than the sub-group".into());
                }
                if rows.saturating_mul(columns) > MAX_SCALARS || rows * columns == 0 {
                    return Err(format!("has cooperative matrices of {rows}×{columns}"));
                }
                let matrix = MatrixType { scalar, rows: rows as u32, columns: columns as u32, usage: usage as u32 };
                ValueType::Cooperative { component: id(0)?, matrix }
            }
            // Of all others, only types and strings have a result without a type.
            op if inst.result != 0 && inst.ty == 0 && op != Op::String => ValueType::Opaque(op),
            _ => return Ok(None),
        }))
    }

    fn read_constant(&mut self, inst: &Inst, specialisation: &[SpecValue]) -> Result<(), String> {
        let given = self.decorations.get(&(inst.result, Decoration::SpecId)).and_then(|words| words.first());
        let given = given.and_then(|id| specialisation.iter().find(|value| value.id == *id)).map(|value| value.bits);
        let is_specialisable = matches!(inst.op, Op::SpecConstant | Op::SpecConstantTrue | Op::SpecConstantFalse);
        let given = given.filter(|_| is_specialisable);
        let scalars = match inst.op {
            Op::ConstantTrue | Op::SpecConstantTrue => vec![u64::from(given.unwrap_or(1) != 0)],
            Op::ConstantFalse | Op::SpecConstantFalse => vec![u64::from(given.unwrap_or(0) != 0)],
            Op::Constant | Op::SpecConstant => {
                let high = inst.operands.get(1).copied().unwrap_or(0);
                let stated = u64::from(inst.operand(0)?) | u64::from(high) << 32;
                vec![given.unwrap_or(stated) & mask(self.scalar(inst.ty)?)]
            }
            Op::ConstantNull | Op::Undef => vec![0; self.scalar_count(inst.ty)? as usize],
            Op::ConstantComposite | Op::SpecConstantComposite => {
                let mut scalars = vec![];
                for part in &inst.operands {
                    scalars.extend(&self.constant(*part)?.scalars);
                    if scalars.len() as u64 > MAX_SCALARS {
                        return Err(format!("has a constant of more than {MAX_SCALARS} numbers"));
                    }
                }
                // A cooperative matrix is filled with one value, in each register of a lane.
                if let (ValueType::Cooperative { .. }, [scalar]) = (self.ty(inst.ty)?, &scalars[..]) {
                    scalars = vec![*scalar; self.scalar_count(inst.ty)? as usize];
                }
                scalars
            }
            Op::ConstantCompositeReplicateEXT | Op::SpecConstantCompositeReplicateEXT => {
                let part = self.constant(inst.operand(0)?)?.scalars.clone();
                let copies = self.scalar_count(inst.ty)? as usize / part.len().max(1);
                part.repeat(copies)
            }
            Op::SpecConstantOp => self.evaluate(inst)?,
            // Others, such as strings of debug information, are no values.
            _ => return Ok(()),
        };
        let expected = self.scalar_count(inst.ty)?;
        if scalars.len() as u64 != expected {
            return Err(format!("constant %{} has {} numbers, its type {expected}", inst.result, scalars.len()));
        }
        self.constant_scalars += expected;
        if self.constant_scalars > MAX_CONSTANT_SCALARS {
            return Err(format!("has constants of more than {MAX_CONSTANT_SCALARS} numbers"));
        }
        let is_undefined = inst.op == Op::Undef;
        self.constants.insert(inst.result, Constant { ty: inst.ty, scalars, is_undefined });
        Ok(())
    }

    /// Evaluates an `OpSpecConstantOp`.
    fn evaluate(&self, inst: &Inst) -> Result<Vec<u64>, String> {
        let number = inst.operand(0)?;
        let op = Op::from_u32(number).ok_or_else(|| format!("has a constant of instruction {number}"))?;
        let arguments = inst.rest(1);
        let operand = |index: usize| {
            let id = arguments.get(index).ok_or_else(|| format!("has an Op{op:?} with too few operands"))?;
            self.constant(*id)
        };
        match op {
            Op::Select => {
                let (conditions, yes, no) = (operand(0)?, operand(1)?, operand(2)?);
                let condition = |index: usize| conditions.scalars.get(index).or(conditions.scalars.first());
                let pairs = yes.scalars.iter().zip(&no.scalars).enumerate();
                Ok(pairs.map(|(index, (yes, no))| if condition(index) == Some(&1) { *yes } else { *no }).collect())
            }
            Op::CompositeExtract => {
                let composite = operand(0)?;
                let (first, ty) = self.component(composite.ty, &arguments[1..])?;
                let count = self.scalar_count(ty)?;
                let scalars = composite.scalars.get(first as usize..(first + count) as usize);
                scalars.map(<[u64]>::to_vec).ok_or_else(|| "extracts beyond a constant".into())
            }
            Op::CompositeInsert => {
                let (part, mut composite) = (operand(0)?, operand(1)?.clone());
                let (first, _) = self.component(composite.ty, &arguments[2..])?;
                for (slot, value) in composite.scalars.iter_mut().skip(first as usize).zip(&part.scalars) {
                    *slot = *value;
                }
                Ok(composite.scalars)
            }
            Op::VectorShuffle => {
                let all: Vec<u64> = operand(0)?.scalars.iter().chain(&operand(1)?.scalars).copied().collect();
                Ok(arguments[2..].iter().map(|index| all.get(*index as usize).copied().unwrap_or(0)).collect())
            }
            _ => self.evaluate_scalars(op, arguments, inst.ty),
        }
    }

    /// Evaluates a component-wise operation on constants.
    fn evaluate_scalars(&self, op: Op, arguments: &[Id], ty: Id) -> Result<Vec<u64>, String> {
        let mut operands = vec![];
        for id in arguments {
            operands.push(self.constant(*id)?);
        }
        let first = operands.first().ok_or_else(|| format!("has an Op{op:?} without operands"))?;
        let from = self.component_scalar(first.ty)?;
        let operation = alu::operation(op, from, self.component_scalar(ty)?)
            .ok_or_else(|| format!("has a constant by Op{op:?}, which is not simulated"))?;
        let mut results = vec![];
        for index in 0..first.scalars.len() {
            let mut values = [[0]; 4];
            for (value, operand) in values.iter_mut().zip(&operands) {
                value[0] = operand.scalars.get(index).or(operand.scalars.first()).copied().unwrap_or(0);
            }
            results.push(apply_once(operation, &values));
        }
        Ok(results)
    }

    /// Returns the id of a type that is declared already, so that no type contains itself.
    fn declared(&self, id: Id) -> Result<Id, String> {
        if self.forward_pointers.contains(&id) { Ok(id) } else { self.ty(id).map(|_| id) }
    }

    /// Returns a type. The error says that the id is none.
    pub(crate) fn ty(&self, id: Id) -> Result<&ValueType, String> {
        self.types.get(&id).ok_or_else(|| format!("id %{id} is no type"))
    }

    pub(crate) fn constant(&self, id: Id) -> Result<&Constant, String> {
        self.constants.get(&id).ok_or_else(|| format!("id %{id} is no constant"))
    }

    /// Returns the value of a constant that is one scalar.
    pub(crate) fn scalar_constant(&self, id: Id) -> Result<u64, String> {
        let first = self.constant(id)?.scalars.first();
        first.copied().ok_or_else(|| format!("constant %{id} is empty"))
    }

    /// Returns a scalar type.
    pub(crate) fn scalar(&self, id: Id) -> Result<Scalar, String> {
        match self.ty(id)? {
            ValueType::Scalar(scalar) => Ok(*scalar),
            // Addresses.
            ValueType::Pointer { .. } => Ok(Scalar::Int { bits: 64, signed: false }),
            _ => Err(format!("type %{id} is no scalar")),
        }
    }

    /// Returns the scalar type of a scalar, vector, matrix or cooperative matrix.
    pub(crate) fn component_scalar(&self, id: Id) -> Result<Scalar, String> {
        match self.ty(id)? {
            ValueType::Vector { component, .. } => self.scalar(*component),
            ValueType::Matrix { column, .. } => self.component_scalar(*column),
            ValueType::Cooperative { matrix, .. } => Ok(matrix.scalar),
            _ => self.scalar(id),
        }
    }

    /// Returns how many scalars a value of a type has; a pointer counts as one, a cooperative matrix as the
    /// elements of a lane.
    pub(crate) fn scalar_count(&self, id: Id) -> Result<u64, String> {
        if let Some(count) = self.scalar_counts.get(&id) {
            return Ok(*count);
        }
        if self.forward_pointers.contains(&id) {
            return Ok(1);
        }
        let count = match self.ty(id)? {
            ValueType::Scalar(_) | ValueType::Pointer { .. } => 1,
            ValueType::Vector { component, count } => self.scalar_count(*component)? * u64::from(*count),
            ValueType::Matrix { column, count } => self.scalar_count(*column)? * u64::from(*count),
            ValueType::Array { element, count } => self.scalar_count(*element)?.saturating_mul(*count),
            ValueType::Struct(members) => {
                let mut sum = 0;
                for member in members {
                    sum += self.scalar_count(*member)?;
                }
                sum
            }
            ValueType::Cooperative { matrix, .. } => u64::from(matrix.registers(self.subgroup_size)),
            ValueType::Void => 0,
            ValueType::RuntimeArray { .. } | ValueType::Texels | ValueType::Opaque(_) => {
                return Err(format!("has a value of type %{id}, which is not simulated"));
            }
        };
        if count > MAX_SCALARS { Err(format!("has a value of {count} numbers")) } else { Ok(count) }
    }

    /// Returns the type of a composite's part.
    pub(crate) fn part(&self, id: Id, index: u32) -> Result<Id, String> {
        match self.ty(id)? {
            ValueType::Vector { component, .. } | ValueType::Cooperative { component, .. } => Ok(*component),
            ValueType::Matrix { column, .. } => Ok(*column),
            ValueType::Array { element, .. } | ValueType::RuntimeArray { element } => Ok(*element),
            ValueType::Struct(members) => {
                let member = members.get(index as usize).copied();
                member.ok_or_else(|| format!("structure %{id} has no member {index}"))
            }
            _ => Err(format!("type %{id} has no parts")),
        }
    }

    /// Returns the first scalar and the type of a composite's part by literal indices.
    pub(crate) fn component(&self, mut ty: Id, indices: &[u32]) -> Result<(u64, Id), String> {
        let mut first = 0u64;
        for index in indices {
            let part = self.part(ty, *index)?;
            first += match self.ty(ty)? {
                ValueType::Struct(members) => {
                    let mut before = 0;
                    for member in &members[..*index as usize] {
                        before += self.scalar_count(*member)?;
                    }
                    before
                }
                _ => self.scalar_count(part)?.saturating_mul(u64::from(*index)),
            };
            ty = part;
        }
        if first > MAX_SCALARS { Err(format!("has an index of {first}")) } else { Ok((first, ty)) }
    }

    /// Returns the operands of an id's decoration.
    pub(crate) fn decoration(&self, id: Id, decoration: Decoration) -> Option<&[u32]> {
        self.decorations.get(&(id, decoration)).map(Vec::as_slice)
    }

    pub(crate) fn member_decoration(&self, id: Id, member: u32, decoration: Decoration) -> Option<&[u32]> {
        self.member_decorations.get(&(id, member, decoration)).map(Vec::as_slice)
    }

    /// Returns the bytes from one element of an array to the next: as decorated, or packed by the natural layout.
    pub(crate) fn stride(&self, array: Id) -> Result<u64, String> {
        if let Some([stride, ..]) = self.decoration(array, Decoration::ArrayStride) {
            return Ok(u64::from(*stride));
        }
        let element = self.part(array, 0)?;
        Ok(self.bytes(element)?.next_multiple_of(self.alignment(element)?))
    }

    /// Returns the byte offset of a structure's member.
    pub(crate) fn member_offset(&self, id: Id, index: u32) -> Result<u64, String> {
        if let Some([offset, ..]) = self.member_decoration(id, index, Decoration::Offset) {
            return Ok(u64::from(*offset));
        }
        if let Some(offset) = self.layouts.get(&id).and_then(|layout| layout.offsets.get(index as usize)) {
            return Ok(*offset);
        }
        let ValueType::Struct(members) = self.ty(id)? else { return Err(format!("type %{id} is no structure")) };
        let mut offset = 0u64;
        for (number, member) in members.iter().enumerate().take(index as usize + 1) {
            offset = offset.next_multiple_of(self.alignment(*member)?);
            if number < index as usize {
                offset += self.bytes(*member)?;
            }
        }
        Ok(offset)
    }

    /// Returns the bytes of a value in memory.
    pub(crate) fn bytes(&self, id: Id) -> Result<u64, String> {
        if let Some(layout) = self.layouts.get(&id) {
            return Ok(layout.bytes);
        }
        let limit = |bytes: u64| if bytes > 1 << 40 { Err(format!("type %{id} is too large")) } else { Ok(bytes) };
        match self.ty(id)? {
            ValueType::Scalar(scalar) => Ok(u64::from(scalar.bytes())),
            ValueType::Pointer { .. } => Ok(8),
            ValueType::Vector { component, count } => Ok(self.bytes(*component)? * u64::from(*count)),
            ValueType::Matrix { column, count } => Ok(self.bytes(*column)? * u64::from(*count)),
            ValueType::Array { count, .. } => limit(self.stride(id)?.saturating_mul(*count)),
            ValueType::Struct(members) => {
                let Some(last) = members.len().checked_sub(1) else { return Ok(0) };
                limit(self.member_offset(id, last as u32)?.saturating_add(self.bytes(members[last])?))
            }
            ValueType::RuntimeArray { .. } => Ok(0),
            _ => Err(format!("type %{id} has no place in memory")),
        }
    }

    /// Returns the natural alignment in bytes: that of the widest scalar.
    fn alignment(&self, id: Id) -> Result<u64, String> {
        if let Some(layout) = self.layouts.get(&id) {
            return Ok(layout.alignment);
        }
        match self.ty(id)? {
            ValueType::Struct(members) => {
                let mut widest = 1;
                for member in members {
                    widest = widest.max(self.alignment(*member)?);
                }
                Ok(widest)
            }
            ValueType::Array { element, .. } | ValueType::RuntimeArray { element } => self.alignment(*element),
            ValueType::Cooperative { .. } | ValueType::Void | ValueType::Texels | ValueType::Opaque(_) => {
                Err(format!("type %{id} has no place in memory"))
            }
            _ => Ok(u64::from(self.component_scalar(id)?.bytes())),
        }
    }
}

/// Returns the bits that a value of a scalar type occupies in a register.
pub(crate) fn mask(scalar: Scalar) -> u64 {
    match scalar {
        Scalar::Bool => 1,
        Scalar::Int { bits, .. } | Scalar::Float { bits } => u64::MAX >> (64 - bits),
        Scalar::Bfloat16 => 0xffff,
    }
}

/// Computes one value.
pub(crate) fn apply_once(operation: LaneFunction, [a, b, c, d]: &[[u64; 1]; 4]) -> u64 {
    let active = Active { set: LaneSet::first(1), list: vec![0], is_all: true };
    let mut to = [0];
    match operation {
        LaneFunction::One(apply) => apply(&active, &mut to, a),
        LaneFunction::Two(apply) => apply(&active, &mut to, a, b),
        LaneFunction::Three(apply) => apply(&active, &mut to, a, b, c),
        LaneFunction::Four(apply) => apply(&active, &mut to, a, b, c, d),
    }
    to[0]
}

fn add_to_function(function: &mut Function, inst: Inst) -> Result<(), String> {
    match inst.op {
        Op::FunctionParameter => function.parameters.push(inst.result),
        Op::Label => {
            function.blocks.push(BasicBlock {
                label: inst.result,
                instructions: vec![],
                merge: None,
                continue_target: None,
            });
        }
        _ => {
            let Some(block) = function.blocks.last_mut() else {
                // Debug information may precede the first block.
                return if inst.op == Op::Line || inst.op == Op::NoLine {
                    Ok(())
                } else {
                    Err(format!("has Op{:?} outside a block", inst.op))
                };
            };
            match inst.op {
                Op::SelectionMerge => block.merge = Some(inst.operand(0)?),
                Op::LoopMerge => {
                    block.merge = Some(inst.operand(0)?);
                    block.continue_target = Some(inst.operand(1)?);
                }
                Op::Line | Op::NoLine | Op::Nop => {}
                _ => block.instructions.push(inst),
            }
        }
    }
    Ok(())
}
