//! Pointers, loads and stores: logical pointers become a place and an offset, private memory becomes registers.

use super::{LoweredValue, Lowerer};
use crate::code::{AtomicOp, Location, MemoryPlace, Reg, RegisterOp, Semantics, Term};
use crate::kernel::interface::Scalar;
use crate::module::{Id, Inst, ValueType};
use rspirv::spirv::{Decoration, Op, StorageClass};

/// Where the columns or rows of a matrix in memory lie.
#[derive(Clone, Copy, Debug)]
struct MatrixStride {
    /// Bytes from one column to the next, or from one row to the next if row-major.
    stride: u64,
    is_row_major: bool,
}

#[derive(Clone, Copy, Debug)]
enum PointerRoot {
    /// `count` registers from `first`: offsets count registers.
    Private { first: Reg, count: u32 },
    /// Memory: offsets count bytes.
    Memory(MemoryPlace),
}

/// Pointer during lowering.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    root: PointerRoot,
    offset: Option<Reg>,
    pub(super) constant: u64,
    pub(super) class: StorageClass,
    pub(super) pointee: Id,
    /// Layout of matrices behind the pointer, as the member of the structure that holds them is decorated.
    matrix: Option<MatrixStride>,
    /// Bytes between the components of a vector that is a column of a row-major matrix.
    component_stride: Option<u64>,
    /// Whether the next index selects a descriptor of an array.
    pub(super) selects_descriptor: bool,
    /// Variable that holds what the pointer points to, if it is known.
    pub(super) variable: Option<Id>,
}

/// Scalar in memory.
#[derive(Clone, Copy)]
struct Leaf {
    offset: u64,
    scalar: Scalar,
}

/// Type of addresses.
const ADDRESS: Scalar = Scalar::Int { bits: 64, signed: false };
/// Alignment operand of a load or store.
const ALIGNED: u32 = 2;

impl Pointer {
    pub(super) fn to(place: MemoryPlace, class: StorageClass, pointee: Id) -> Self {
        Self {
            root: PointerRoot::Memory(place),
            offset: None,
            constant: 0,
            class,
            pointee,
            matrix: None,
            component_stride: None,
            selects_descriptor: false,
            variable: None,
        }
    }

    pub(super) fn private(first: Reg, count: u32, class: StorageClass, pointee: Id) -> Self {
        Self { root: PointerRoot::Private { first, count }, ..Self::to(MemoryPlace::Push, class, pointee) }
    }

    fn location(&self, place: MemoryPlace, leaf: Leaf, alignment: Option<u32>) -> Location {
        Location {
            place,
            offset: self.offset,
            constant: self.constant.wrapping_add(leaf.offset),
            alignment: alignment.unwrap_or(leaf.scalar.bytes()),
        }
    }
}

impl Lowerer {
    /// Returns a pointer value: of a variable, or an address in a register.
    pub(super) fn pointer(&mut self, id: Id) -> Result<Pointer, String> {
        if let Some((LoweredValue::Pointer(pointer), _)) = self.find(id) {
            return Ok(pointer.clone());
        }
        let ty = self.type_of(id)?;
        let ValueType::Pointer { class, pointee } = *self.module.ty(ty)? else {
            return Err(format!("id %{id} is no pointer"));
        };
        let mut pointer = Pointer::to(MemoryPlace::Address, class, pointee);
        pointer.offset = Some(self.register(id)?);
        Ok(pointer)
    }

    /// Returns a pointer as a value.
    pub(super) fn address_of(&mut self, pointer: &Pointer) -> Result<Reg, String> {
        let PointerRoot::Memory(place) = pointer.root else {
            return Err("uses a pointer to private memory as a value".into());
        };
        if let (MemoryPlace::Address, 0, Some(address)) = (place, pointer.constant, pointer.offset) {
            return Ok(address);
        }
        let to = self.new_register()?;
        let location = Location { place, offset: pointer.offset, constant: pointer.constant, alignment: 1 };
        self.emit(RegisterOp::AddressOf { to, location })?;
        Ok(to)
    }

    /// Lowers an access chain; `first_index` is the operand of the first index.
    pub(super) fn access_chain(&mut self, inst: &Inst) -> Result<(), String> {
        let mut pointer = self.pointer(inst.operand(0)?)?;
        if !matches!(self.module.ty(inst.ty)?, ValueType::Pointer { .. }) {
            return Err(format!("Op{:?} gives no pointer", inst.op));
        }
        let mut terms = vec![];
        let has_element = matches!(inst.op, Op::PtrAccessChain | Op::InBoundsPtrAccessChain);
        if has_element {
            let stride = match self.module.decoration(self.type_of(inst.operand(0)?)?, Decoration::ArrayStride) {
                Some([stride, ..]) => u64::from(*stride),
                _ => self.module.bytes(pointer.pointee)?,
            };
            self.add_index(&mut pointer, &mut terms, inst.operand(1)?, stride, None)?;
        }
        for index in inst.rest(if has_element { 2 } else { 1 }) {
            self.descend(&mut pointer, &mut terms, *index)?;
        }
        if !terms.is_empty() {
            let first = self.code.terms.len() as u32;
            self.code.terms.extend(terms);
            let to = self.new_register()?;
            let (base, constant) = (pointer.offset, pointer.constant);
            self.emit(RegisterOp::Offset { to, base, constant, terms: first..self.code.terms.len() as u32 })?;
            pointer.offset = Some(to);
            pointer.constant = 0;
        }
        self.define_value(inst, LoweredValue::Pointer(pointer));
        Ok(())
    }

    /// Moves a pointer to a part of what it points to.
    fn descend(&mut self, pointer: &mut Pointer, terms: &mut Vec<Term>, index: Id) -> Result<(), String> {
        let ty = pointer.pointee;
        if pointer.selects_descriptor {
            let element = self.register(index)?;
            if let PointerRoot::Memory(MemoryPlace::Slot { element: chosen, .. }) = &mut pointer.root {
                *chosen = Some(element);
            }
            pointer.selects_descriptor = false;
            pointer.pointee = self.module.part(ty, 0)?;
            return Ok(());
        }
        let is_private = matches!(pointer.root, PointerRoot::Private { .. });
        let (stride, bound) = match *self.module.ty(ty)? {
            ValueType::Struct(_) => return self.descend_to_member(pointer, index, is_private),
            ValueType::Array { count, .. } => {
                (if is_private { None } else { Some(self.module.stride(ty)?) }, Some(count))
            }
            ValueType::RuntimeArray { .. } => (Some(self.module.stride(ty)?), None),
            ValueType::Vector { component, count } => {
                let stride = pointer.component_stride.take().unwrap_or(self.module.bytes(component)?);
                (Some(stride), Some(u64::from(count)))
            }
            ValueType::Matrix { column, count } => {
                let layout = pointer.matrix;
                let stride = match layout {
                    Some(MatrixStride { is_row_major: true, .. }) => {
                        u64::from(self.module.component_scalar(ty)?.bytes())
                    }
                    Some(MatrixStride { stride, .. }) => stride,
                    None => self.module.bytes(column)?,
                };
                pointer.component_stride = layout.filter(|layout| layout.is_row_major).map(|layout| layout.stride);
                (Some(stride), Some(u64::from(count)))
            }
            ValueType::Cooperative { .. } => {
                self.matrix_element.get_or_insert(self.at);
                (None, Some(self.module.scalar_count(ty)?))
            }
            _ => return Err("has an index into a type without parts".into()),
        };
        let part = self.module.part(ty, 0)?;
        let stride = match stride {
            Some(stride) if !is_private => stride,
            _ => self.module.scalar_count(part)?,
        };
        pointer.pointee = part;
        self.add_index(pointer, terms, index, stride, bound)
    }

    fn descend_to_member(&mut self, pointer: &mut Pointer, index: Id, is_private: bool) -> Result<(), String> {
        let ty = pointer.pointee;
        let number = self.module.scalar_constant(index)? as u32;
        // The offset is a sum over the members before.
        self.list(number as usize)?;
        let member = self.module.part(ty, number)?;
        pointer.constant = pointer.constant.wrapping_add(if is_private {
            self.module.component(ty, &[number])?.0
        } else {
            self.module.member_offset(ty, number)?
        });
        pointer.matrix = self.matrix_layout(ty, number);
        pointer.pointee = member;
        Ok(())
    }

    fn matrix_layout(&self, ty: Id, member: u32) -> Option<MatrixStride> {
        let stride = self.module.member_decoration(ty, member, Decoration::MatrixStride)?.first()?;
        let is_row_major = self.module.member_decoration(ty, member, Decoration::RowMajor).is_some();
        Some(MatrixStride { stride: u64::from(*stride), is_row_major })
    }

    /// Adds `index * stride` to a pointer: at once if the index is constant and in bounds, otherwise as a term.
    fn add_index(
        &mut self,
        pointer: &mut Pointer,
        terms: &mut Vec<Term>,
        index: Id,
        stride: u64,
        bound: Option<u64>,
    ) -> Result<(), String> {
        let scalar = self.module.scalar(self.type_of(index)?)?;
        if let Ok(value) = self.module.scalar_constant(index)
            && (value as i64) >= 0
            && bound.is_none_or(|bound| value < bound)
            && value <= u64::from(u32::MAX) >> 1
        {
            pointer.constant = pointer.constant.wrapping_add(value.wrapping_mul(stride));
            return Ok(());
        }
        terms.push(Term { index: self.register(index)?, scalar, stride, bound, variable: pointer.variable });
        Ok(())
    }

    /// Lists the scalars of a type in memory, in order.
    fn leaves(&mut self, ty: Id, pointer: &Pointer) -> Result<Vec<Leaf>, String> {
        self.module.scalar_count(ty)?;
        self.list(usize::try_from(self.module.nested_parts(ty)).unwrap_or(usize::MAX))?;
        let mut leaves = vec![];
        self.add_leaves(ty, 0, pointer.matrix, pointer.component_stride, &mut leaves)?;
        Ok(leaves)
    }

    fn add_leaves(
        &self,
        ty: Id,
        base: u64,
        matrix: Option<MatrixStride>,
        component_stride: Option<u64>,
        leaves: &mut Vec<Leaf>,
    ) -> Result<(), String> {
        match self.module.ty(ty)? {
            ValueType::Scalar(scalar) => leaves.push(Leaf { offset: base, scalar: *scalar }),
            ValueType::Pointer { .. } => leaves.push(Leaf { offset: base, scalar: ADDRESS }),
            ValueType::Vector { component, count } => {
                let stride = component_stride.unwrap_or(self.module.bytes(*component)?);
                for index in 0..u64::from(*count) {
                    self.add_leaves(*component, base + index * stride, None, None, leaves)?;
                }
            }
            ValueType::Matrix { column, count } => {
                let (stride, component_stride) = match matrix {
                    Some(MatrixStride { stride, is_row_major: true }) => {
                        (u64::from(self.module.component_scalar(ty)?.bytes()), Some(stride))
                    }
                    Some(MatrixStride { stride, .. }) => (stride, None),
                    None => (self.module.bytes(*column)?, None),
                };
                for index in 0..u64::from(*count) {
                    self.add_leaves(*column, base + index * stride, None, component_stride, leaves)?;
                }
            }
            ValueType::Array { element, count } => {
                let stride = self.module.stride(ty)?;
                for index in 0..*count {
                    self.add_leaves(*element, base + index * stride, matrix, None, leaves)?;
                }
            }
            ValueType::Struct(members) => {
                for (number, member) in (0..).zip(members) {
                    let offset = base + self.module.member_offset(ty, number)?;
                    self.add_leaves(*member, offset, self.matrix_layout(ty, number), None, leaves)?;
                }
            }
            _ => return Err("loads or stores a type without a place in memory".into()),
        }
        Ok(())
    }

    /// Returns the alignment that memory operands state; only addresses need one.
    fn alignment(operands: &[u32]) -> Option<u32> {
        match operands {
            [mask, alignment, ..] if mask & ALIGNED != 0 && alignment.is_power_of_two() => Some(*alignment),
            _ => None,
        }
    }

    /// Loads a value.
    pub(super) fn load(&mut self, pointer: &Pointer, operands: &[u32]) -> Result<Vec<Reg>, String> {
        match pointer.root {
            PointerRoot::Private { first, count } => self.load_private(pointer, first, count),
            PointerRoot::Memory(place) => {
                let alignment = Self::alignment(operands);
                let mut registers = vec![];
                for (number, leaf) in self.leaves(pointer.pointee, pointer)?.into_iter().enumerate() {
                    let to = self.new_register()?;
                    let at = pointer.location(place, leaf, alignment.filter(|_| number == 0));
                    self.note_access(place, leaf.scalar);
                    self.emit(RegisterOp::Load { to, at, scalar: leaf.scalar })?;
                    registers.push(to);
                }
                Ok(registers)
            }
        }
    }

    fn load_private(&mut self, pointer: &Pointer, first: Reg, count: u32) -> Result<Vec<Reg>, String> {
        let wanted = self.module.scalar_count(pointer.pointee)? as u32;
        let begin = Self::private_begin(pointer, first, count, wanted)?;
        let mut registers = vec![];
        for number in 0..wanted {
            if pointer.class == StorageClass::Input && pointer.offset.is_none() {
                registers.push(begin + number);
                continue;
            }
            let to = self.new_register()?;
            self.emit(match pointer.offset {
                None => RegisterOp::Copy { to, from: begin + number },
                Some(index) => {
                    let count = (first + count).saturating_sub(begin + number);
                    RegisterOp::LoadIndexed { to, first: begin + number, count, index }
                }
            })?;
            registers.push(to);
        }
        Ok(registers)
    }

    /// Returns the first register behind a private pointer, without its dynamic offset. Specialisation can leave an array
    /// without elements: any access to it is out of bounds then, but only once it is executed.
    fn private_begin(pointer: &Pointer, first: Reg, count: u32, wanted: u32) -> Result<Reg, String> {
        if pointer.offset.is_none() && pointer.constant.saturating_add(u64::from(wanted)) > u64::from(count) {
            return Err("accesses a variable beyond its end".into());
        }
        Ok(first + pointer.constant as u32)
    }

    /// Stores a value.
    pub(super) fn store(&mut self, pointer: &Pointer, values: &[Reg], operands: &[u32]) -> Result<(), String> {
        match pointer.root {
            PointerRoot::Private { first, count } => {
                let begin = Self::private_begin(pointer, first, count, values.len() as u32)?;
                for (to, from) in (begin..).zip(values) {
                    self.emit(match pointer.offset {
                        None => RegisterOp::Copy { to, from: *from },
                        Some(index) => {
                            let count = (first + count).saturating_sub(to);
                            RegisterOp::StoreIndexed { from: *from, first: to, count, index }
                        }
                    })?;
                }
            }
            PointerRoot::Memory(place) => {
                let alignment = Self::alignment(operands);
                let leaves = self.leaves(pointer.pointee, pointer)?;
                if leaves.len() != values.len() {
                    return Err("stores a value of another type than its pointer's".into());
                }
                for (number, (leaf, from)) in leaves.into_iter().zip(values).enumerate() {
                    let at = pointer.location(place, leaf, alignment.filter(|_| number == 0));
                    self.note_access(place, leaf.scalar);
                    self.emit(RegisterOp::Store { from: *from, at, scalar: leaf.scalar })?;
                }
            }
        }
        Ok(())
    }

    /// Notes the width of an access to memory that invocations share.
    fn note_access(&mut self, place: MemoryPlace, scalar: Scalar) {
        if place != MemoryPlace::Push {
            self.granule = self.granule.min(scalar.bytes());
        }
    }

    /// Lowers an atomic instruction; `op`, and the constant that takes the place of a value, follow from its opcode.
    pub(super) fn atomic(&mut self, inst: &Inst) -> Result<(), String> {
        let (op, step) = match inst.op {
            Op::AtomicLoad => (AtomicOp::Load, Some(0)),
            Op::AtomicStore => (AtomicOp::Store, None),
            Op::AtomicExchange => (AtomicOp::Exchange, None),
            Op::AtomicCompareExchange => (AtomicOp::CompareExchange, None),
            Op::AtomicIIncrement => (AtomicOp::Add, Some(1)),
            Op::AtomicIDecrement => (AtomicOp::Sub, Some(1)),
            Op::AtomicIAdd | Op::AtomicFAddEXT => (AtomicOp::Add, None),
            Op::AtomicISub => (AtomicOp::Sub, None),
            Op::AtomicSMin | Op::AtomicUMin | Op::AtomicFMinEXT => (AtomicOp::Min, None),
            Op::AtomicSMax | Op::AtomicUMax | Op::AtomicFMaxEXT => (AtomicOp::Max, None),
            Op::AtomicAnd => (AtomicOp::And, None),
            Op::AtomicOr => (AtomicOp::Or, None),
            Op::AtomicXor => (AtomicOp::Xor, None),
            op => return Err(format!("Op{op:?} is not simulated")),
        };
        let pointer = self.pointer(inst.operand(0)?)?;
        let PointerRoot::Memory(place) = pointer.root else { return Err("has an atomic in private memory".into()) };
        let scalar = match self.module.scalar(pointer.pointee)? {
            // The instruction, not the type, says how minima and maxima compare.
            Scalar::Int { bits, .. } => {
                Scalar::Int { bits, signed: matches!(inst.op, Op::AtomicSMin | Op::AtomicSMax) }
            }
            scalar => scalar,
        };
        let semantics = Semantics {
            scope: self.module.scalar_constant(inst.operand(1)?)? as u32,
            bits: self.module.scalar_constant(inst.operand(2)?)? as u32,
        };
        let mut operand = |index: usize| self.register(inst.operand(index)?);
        let (value, comparator) = match (op, step) {
            (_, Some(step)) => {
                let step = self.constant(step)?;
                (step, step)
            }
            (AtomicOp::CompareExchange, _) => (operand(4)?, operand(5)?),
            _ => {
                let value = operand(3)?;
                (value, value)
            }
        };
        self.note_access(place, scalar);
        let to = self.new_register()?;
        let at = pointer.location(place, Leaf { offset: 0, scalar }, None);
        self.emit(RegisterOp::Atomic { op, to, at, scalar, value, comparator, semantics })?;
        if inst.result == 0 { Ok(()) } else { self.define(inst, vec![to]) }
    }

    /// Lowers `OpArrayLength`.
    pub(super) fn array_length(&mut self, inst: &Inst) -> Result<(), String> {
        let pointer = self.pointer(inst.operand(0)?)?;
        let PointerRoot::Memory(place @ MemoryPlace::Slot { .. }) = pointer.root else {
            return Err("OpArrayLength of memory that no descriptor binds".into());
        };
        let member = inst.operand(1)?;
        let start = self.module.member_offset(pointer.pointee, member)?;
        let stride = self.module.stride(self.module.part(pointer.pointee, member)?)?.max(1);
        let to = self.new_register()?;
        self.emit(RegisterOp::ArrayLength { to, place, start, stride })?;
        self.define(inst, vec![to])
    }

    /// Returns the location of a pointer, for instructions that access memory themselves.
    pub(super) fn location_of(&mut self, id: Id, scalar: Scalar) -> Result<(Location, Id), String> {
        let pointer = self.pointer(id)?;
        let PointerRoot::Memory(place) = pointer.root else { return Err("accesses private memory".into()) };
        self.note_access(place, scalar);
        Ok((pointer.location(place, Leaf { offset: 0, scalar }, None), pointer.pointee))
    }
}
