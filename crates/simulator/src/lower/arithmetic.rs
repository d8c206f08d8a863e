//! Values: arithmetic component by component, composites, matrices, and what is made of simpler operations.

use super::{LoweredValue, Lowerer};
use crate::alu;
use crate::code::{Reg, RegisterOp};
use crate::kernel::instructions::is_atomic_update;
use crate::kernel::interface::Scalar;
use crate::module::{Inst, ValueType};
use rspirv::spirv::Op;

/// Widest integers, for shifts and masks of raw bits.
const BITS: Scalar = Scalar::Int { bits: 64, signed: false };

impl Lowerer {
    /// Lowers an instruction other than a phi, a call or a terminator.
    pub(super) fn lower_instruction(&mut self, inst: &Inst) -> Result<(), String> {
        match inst.op {
            Op::Nop | Op::AssumeTrueKHR | Op::LifetimeStart | Op::LifetimeStop => Ok(()),
            Op::Variable => self.function_variable(inst),
            Op::Load => self.lower_load(inst),
            Op::Store => {
                let pointer = self.pointer(inst.operand(0)?)?;
                let values = self.registers(inst.operand(1)?)?;
                self.store(&pointer, &values, inst.rest(2))
            }
            Op::CopyMemory => {
                let (to, from) = (self.pointer(inst.operand(0)?)?, self.pointer(inst.operand(1)?)?);
                let values = self.load(&from, inst.rest(2))?;
                self.store(&to, &values, inst.rest(2))
            }
            Op::AccessChain | Op::InBoundsAccessChain | Op::PtrAccessChain | Op::InBoundsPtrAccessChain => {
                self.access_chain(inst)
            }
            Op::ArrayLength => self.array_length(inst),
            Op::Undef => {
                let count = self.module.scalar_count(inst.ty)? as u32;
                let registers = self.undefined(count)?;
                self.define(inst, registers)
            }
            Op::CopyObject | Op::CopyLogical | Op::ExpectKHR | Op::UConvert | Op::SConvert | Op::FConvert
                if self.type_of(inst.operand(0)?)? == inst.ty || matches!(inst.op, Op::CopyLogical) =>
            {
                self.copy_value(inst)
            }
            Op::ExtInst => self.extended_instruction(inst),
            Op::FunctionCall => Err("has a call inside an instruction".into()),
            Op::ControlBarrier | Op::MemoryBarrier => self.barrier(inst),
            Op::ReadClockKHR => self.read_clock(inst),
            Op::ImageFetch | Op::Image | Op::ImageQuerySize => self.texels(inst),
            Op::CooperativeMatrixLoadKHR
            | Op::CooperativeMatrixStoreKHR
            | Op::CooperativeMatrixMulAddKHR
            | Op::CooperativeMatrixLengthKHR => self.matrix_instruction(inst),
            op if matches!(op, Op::AtomicLoad | Op::AtomicStore) || is_atomic_update(op) => self.atomic(inst),
            op if is_group_operation(op) => self.group_operation(inst),
            _ => self.lower_value(inst),
        }
    }

    fn lower_value(&mut self, inst: &Inst) -> Result<(), String> {
        match inst.op {
            Op::CompositeConstruct
            | Op::CompositeConstructReplicateEXT
            | Op::CompositeExtract
            | Op::CompositeInsert
            | Op::VectorShuffle
            | Op::VectorExtractDynamic
            | Op::VectorInsertDynamic
            | Op::Transpose => self.composite(inst),
            Op::Select => self.select(inst),
            Op::Bitcast | Op::ConvertPtrToU | Op::ConvertUToPtr => self.bitcast(inst),
            Op::PtrEqual | Op::PtrNotEqual | Op::PtrDiff => self.compare_pointers(inst),
            Op::VectorTimesScalar
            | Op::MatrixTimesScalar
            | Op::VectorTimesMatrix
            | Op::MatrixTimesVector
            | Op::MatrixTimesMatrix
            | Op::OuterProduct
            | Op::Dot => self.product(inst),
            Op::SDot | Op::UDot | Op::SUDot | Op::SDotAccSat | Op::UDotAccSat | Op::SUDotAccSat => {
                self.integer_dot(inst)
            }
            Op::Any | Op::All => {
                let op = if inst.op == Op::Any { Op::LogicalOr } else { Op::LogicalAnd };
                let values = self.registers(inst.operand(0)?)?;
                let mut result = *values.first().ok_or("has a vote of no values")?;
                for value in &values[1..] {
                    result = self.compute(op, Scalar::Bool, Scalar::Bool, &[result, *value])?;
                }
                self.define(inst, vec![result])
            }
            Op::IAddCarry | Op::ISubBorrow | Op::UMulExtended | Op::SMulExtended => self.extended_arithmetic(inst),
            _ => self.componentwise(inst),
        }
    }

    fn function_variable(&mut self, inst: &Inst) -> Result<(), String> {
        let ValueType::Pointer { class, pointee } = *self.module.ty(inst.ty)? else {
            return Err("a variable's type is no pointer".into());
        };
        let value = self.private_variable(inst, class, pointee)?;
        self.define_value(inst, value);
        Ok(())
    }

    fn lower_load(&mut self, inst: &Inst) -> Result<(), String> {
        if let Some((LoweredValue::Texels(slot), _)) = self.find(inst.operand(0)?) {
            let slot = *slot;
            self.define_value(inst, LoweredValue::Texels(slot));
            return Ok(());
        }
        let pointer = self.pointer(inst.operand(0)?)?;
        let registers = self.load(&pointer, inst.rest(1))?;
        self.define(inst, registers)
    }

    fn copy_value(&mut self, inst: &Inst) -> Result<(), String> {
        match self.find(inst.operand(0)?) {
            Some((value @ (LoweredValue::Pointer(_) | LoweredValue::Texels(_)), ty)) if *ty == inst.ty => {
                let value = value.clone();
                self.define_value(inst, value);
                Ok(())
            }
            _ => {
                let registers = self.registers(inst.operand(0)?)?;
                self.define(inst, registers)
            }
        }
    }

    fn read_clock(&mut self, inst: &Inst) -> Result<(), String> {
        let first = self.new_registers(2)?;
        self.emit(RegisterOp::Clock { to: first })?;
        let zero = self.constant(0)?;
        let count = self.module.scalar_count(inst.ty)?;
        self.define(inst, [first, zero][..count.min(2) as usize].to_vec())
    }

    /// Lowers an operation that acts on each component by itself; an operand of one component serves all.
    fn componentwise(&mut self, inst: &Inst) -> Result<(), String> {
        if inst.ty == 0 {
            return Err(format!("Op{:?} is not simulated", inst.op));
        }
        let to = self.module.component_scalar(inst.ty).map_err(|_| format!("Op{:?} is not simulated", inst.op))?;
        let first = inst.operand(0).map_err(|_| format!("Op{:?} is not simulated", inst.op))?;
        let from = self.type_of(first).and_then(|ty| self.module.component_scalar(ty));
        let from = from.map_err(|_| format!("Op{:?} is not simulated", inst.op))?;
        let mut operands = vec![];
        for id in &inst.operands {
            operands.push(self.registers(*id)?);
        }
        let count = self.module.scalar_count(inst.ty)? as usize;
        let mut results = vec![];
        for index in 0..count {
            let mut chosen = vec![];
            for operand in &operands {
                let register = operand.get(index).or(operand.first());
                chosen.push(*register.ok_or_else(|| format!("Op{:?} has an empty operand", inst.op))?);
            }
            results.push(self.compute(inst.op, from, to, &chosen)?);
        }
        self.define(inst, results)
    }

    fn select(&mut self, inst: &Inst) -> Result<(), String> {
        let conditions = self.registers(inst.operand(0)?)?;
        let (yes, no) = (self.registers(inst.operand(1)?)?, self.registers(inst.operand(2)?)?);
        let mut results = vec![];
        for (index, (yes, no)) in yes.into_iter().zip(no).enumerate() {
            let condition = *conditions.get(index).or(conditions.first()).ok_or("OpSelect has no condition")?;
            let to = self.new_register()?;
            self.emit(RegisterOp::Select { to, condition, yes, no })?;
            results.push(to);
        }
        self.define(inst, results)
    }

    fn composite(&mut self, inst: &Inst) -> Result<(), String> {
        let results = match inst.op {
            Op::CompositeConstruct | Op::CompositeConstructReplicateEXT => {
                let mut parts = vec![];
                for id in &inst.operands {
                    parts.extend(self.registers(*id)?);
                }
                let count = self.module.scalar_count(inst.ty)? as usize;
                let is_replicated = inst.op == Op::CompositeConstructReplicateEXT
                    || matches!(self.module.ty(inst.ty)?, ValueType::Cooperative { .. });
                if is_replicated { parts.iter().copied().cycle().take(count).collect() } else { parts }
            }
            Op::CompositeExtract => {
                let composite = self.registers(inst.operand(0)?)?;
                let whole = self.type_of(inst.operand(0)?)?;
                if matches!(self.module.ty(whole)?, ValueType::Cooperative { .. }) {
                    self.matrix_element.get_or_insert(self.at);
                }
                let (first, ty) = self.module.component(whole, inst.rest(1))?;
                let count = self.module.scalar_count(ty)?;
                let part = composite.get(first as usize..(first + count) as usize);
                part.ok_or("extracts beyond a composite")?.to_vec()
            }
            Op::CompositeInsert => {
                let part = self.registers(inst.operand(0)?)?;
                let mut composite = self.registers(inst.operand(1)?)?;
                let (first, _) = self.module.component(inst.ty, inst.rest(2))?;
                let slots = composite.get_mut(first as usize..first as usize + part.len());
                slots.ok_or("inserts beyond a composite")?.copy_from_slice(&part);
                composite
            }
            Op::VectorShuffle => {
                let mut all = self.registers(inst.operand(0)?)?;
                all.extend(self.registers(inst.operand(1)?)?);
                let mut results = vec![];
                for index in inst.rest(2) {
                    // 0xffffffff asks for no particular component.
                    results.push(match all.get(*index as usize) {
                        Some(register) => *register,
                        None => self.undefined(1)?[0],
                    });
                }
                results
            }
            Op::VectorExtractDynamic | Op::VectorInsertDynamic => return self.dynamic_component(inst),
            _ => {
                let matrix = self.registers(inst.operand(0)?)?;
                let (rows, columns) = self.matrix_extents(inst.operand(0)?)?;
                (0..rows * columns).map(|index| matrix[index % columns * rows + index / columns]).collect()
            }
        };
        self.define(inst, results)
    }

    /// Returns rows and columns of a matrix.
    fn matrix_extents(&self, id: u32) -> Result<(usize, usize), String> {
        let ty = self.type_of(id)?;
        let ValueType::Matrix { column, count } = *self.module.ty(ty)? else {
            return Err(format!("id %{id} is no matrix"));
        };
        Ok((self.module.scalar_count(column)? as usize, count as usize))
    }

    fn dynamic_component(&mut self, inst: &Inst) -> Result<(), String> {
        let vector = self.registers(inst.operand(0)?)?;
        let is_insert = inst.op == Op::VectorInsertDynamic;
        let index = inst.operand(if is_insert { 2 } else { 1 })?;
        let scalar = self.module.scalar(self.type_of(index)?)?;
        let index = self.register(index)?;
        let count = vector.len() as u32;
        let first = self.new_registers(count)?;
        for (to, from) in (first..).zip(&vector) {
            self.emit(RegisterOp::Copy { to, from: *from })?;
        }
        let term = self.code.terms.len() as u32;
        let bound = Some(u64::from(count));
        self.code.terms.push(crate::code::Term { index, scalar, stride: 1, bound, variable: None });
        let offset = self.new_register()?;
        self.emit(RegisterOp::Offset { to: offset, base: None, constant: 0, terms: term..term + 1 })?;
        if is_insert {
            let from = self.register(inst.operand(1)?)?;
            self.emit(RegisterOp::StoreIndexed { from, first, count, index: offset })?;
            return self.define(inst, (first..first + count).collect());
        }
        let to = self.new_register()?;
        self.emit(RegisterOp::LoadIndexed { to, first, count, index: offset })?;
        self.define(inst, vec![to])
    }

    /// Lowers a reinterpretation of bits, between numbers, vectors of other widths and addresses.
    fn bitcast(&mut self, inst: &Inst) -> Result<(), String> {
        let from = self.type_of(inst.operand(0)?)?;
        let from_bits = 8 * self.module.component_scalar(from)?.bytes();
        let to_bits = 8 * self.module.component_scalar(inst.ty)?.bytes();
        let values = self.registers(inst.operand(0)?)?;
        if from_bits == to_bits {
            return self.define(inst, values);
        }
        let results = if from_bits < to_bits {
            let mut results = vec![];
            for parts in values.chunks((to_bits / from_bits) as usize) {
                let mut whole = parts[0];
                for (number, part) in (1..).zip(&parts[1..]) {
                    let shift = self.constant(u64::from(from_bits) * number)?;
                    let part = self.compute(Op::ShiftLeftLogical, BITS, BITS, &[*part, shift])?;
                    whole = self.compute(Op::BitwiseOr, BITS, BITS, &[whole, part])?;
                }
                results.push(whole);
            }
            results
        } else {
            let mask = self.constant(u64::MAX >> (64 - to_bits))?;
            let mut results = vec![];
            for value in values {
                for number in 0..u64::from(from_bits / to_bits) {
                    let shift = self.constant(u64::from(to_bits) * number)?;
                    let part = self.compute(Op::ShiftRightLogical, BITS, BITS, &[value, shift])?;
                    results.push(self.compute(Op::BitwiseAnd, BITS, BITS, &[part, mask])?);
                }
            }
            results
        };
        self.define(inst, results)
    }

    fn compare_pointers(&mut self, inst: &Inst) -> Result<(), String> {
        let (a, b) = (self.register(inst.operand(0)?)?, self.register(inst.operand(1)?)?);
        let result = match inst.op {
            Op::PtrEqual => self.compute(Op::IEqual, BITS, Scalar::Bool, &[a, b])?,
            Op::PtrNotEqual => self.compute(Op::INotEqual, BITS, Scalar::Bool, &[a, b])?,
            _ => {
                let pointer = self.pointer(inst.operand(0)?)?;
                let bytes = self.module.bytes(pointer.pointee)?.max(1);
                let size = self.constant(bytes)?;
                let signed = Scalar::Int { bits: 64, signed: true };
                let difference = self.compute(Op::ISub, BITS, BITS, &[a, b])?;
                let elements = self.compute(Op::SDiv, signed, signed, &[difference, size])?;
                self.compute(Op::SConvert, signed, self.module.scalar(inst.ty)?, &[elements])?
            }
        };
        self.define(inst, vec![result])
    }

    /// Lowers products of scalars, vectors and matrices.
    fn product(&mut self, inst: &Inst) -> Result<(), String> {
        let scalar = self.module.component_scalar(inst.ty)?;
        let (a, b) = (self.registers(inst.operand(0)?)?, self.registers(inst.operand(1)?)?);
        if a.is_empty() || b.is_empty() {
            return Err(format!("Op{:?} has an empty operand", inst.op));
        }
        let multiply = if matches!(scalar, Scalar::Int { .. }) { Op::IMul } else { Op::FMul };
        let mut results = vec![];
        match inst.op {
            Op::VectorTimesScalar | Op::MatrixTimesScalar => {
                for value in &a {
                    results.push(self.compute(multiply, scalar, scalar, &[*value, b[0]])?);
                }
            }
            Op::OuterProduct => {
                for factor in &b {
                    for value in &a {
                        results.push(self.compute(Op::FMul, scalar, scalar, &[*value, *factor])?);
                    }
                }
            }
            Op::Dot => results.push(self.dot(scalar, &a, &b)?),
            Op::VectorTimesMatrix => {
                for column in b.chunks(a.len()) {
                    results.push(self.dot(scalar, &a, column)?);
                }
            }
            _ => {
                let (rows, columns) = self.matrix_extents(inst.operand(0)?)?;
                for vector in b.chunks(columns) {
                    for row in 0..rows {
                        let elements: Vec<Reg> = (0..columns).map(|column| a[column * rows + row]).collect();
                        results.push(self.dot(scalar, &elements, vector)?);
                    }
                }
            }
        }
        self.define(inst, results)
    }

    /// Returns the sum of products, from the first component on.
    pub(super) fn dot(&mut self, scalar: Scalar, a: &[Reg], b: &[Reg]) -> Result<Reg, String> {
        let mut sum = None;
        for (a, b) in a.iter().zip(b) {
            let product = self.compute(Op::FMul, scalar, scalar, &[*a, *b])?;
            sum = Some(match sum {
                None => product,
                Some(sum) => self.compute(Op::FAdd, scalar, scalar, &[sum, product])?,
            });
        }
        sum.ok_or_else(|| "has a product of empty vectors".into())
    }

    /// Lowers a dot product of integers: of packed bytes, or of vectors whose components are widened first.
    fn integer_dot(&mut self, inst: &Inst) -> Result<(), String> {
        let to = self.module.scalar(inst.ty)?;
        let (a, b) = (self.registers(inst.operand(0)?)?, self.registers(inst.operand(1)?)?);
        let is_saturating = matches!(inst.op, Op::SDotAccSat | Op::UDotAccSat | Op::SUDotAccSat);
        let accumulator = if is_saturating { Some(self.register(inst.operand(2)?)?) } else { None };
        let first = self.type_of(inst.operand(0)?)?;
        let is_packed = matches!(self.module.ty(first)?, ValueType::Scalar(_));
        if is_packed {
            let operation = alu::packed_dot(inst.op, to).ok_or("has a packed dot product that is not simulated")?;
            let operands: Vec<Reg> = [a[0], b[0]].into_iter().chain(accumulator).collect();
            let result = self.emit_compute(operation, &operands, None, None)?;
            return self.define(inst, vec![result]);
        }
        if is_saturating && to.bytes() == 8 {
            return Err(format!("Op{:?} on vectors with a 64-bit accumulator is not simulated", inst.op));
        }
        let bits = 8 * self.module.component_scalar(first)?.bytes();
        let is_signed = |is_a: bool| match inst.op {
            Op::SDot | Op::SDotAccSat => true,
            Op::SUDot | Op::SUDotAccSat => is_a,
            _ => false,
        };
        let wide = Scalar::Int { bits: 64, signed: true };
        let mut sum = self.constant(0)?;
        for (a, b) in a.into_iter().zip(b) {
            let mut widen = |register, is_a| {
                let signed = is_signed(is_a);
                let op = if signed { Op::SConvert } else { Op::UConvert };
                self.compute(op, Scalar::Int { bits, signed }, wide, &[register])
            };
            let (a, b) = (widen(a, true)?, widen(b, false)?);
            let product = self.compute(Op::IMul, wide, wide, &[a, b])?;
            sum = self.compute(Op::IAdd, wide, wide, &[sum, product])?;
        }
        if let Some(accumulator) = accumulator {
            let op = if is_signed(true) { Op::SConvert } else { Op::UConvert };
            let accumulator = self.compute(op, to, wide, &[accumulator])?;
            sum = self.compute(Op::IAdd, wide, wide, &[sum, accumulator])?;
            sum = self.clamp_to(sum, 8 * to.bytes(), is_signed(true))?;
        }
        let result = self.compute(Op::SConvert, wide, to, &[sum])?;
        self.define(inst, vec![result])
    }

    /// Clamps a signed 64-bit integer to the range of a narrower type.
    fn clamp_to(&mut self, value: Reg, bits: u32, signed: bool) -> Result<Reg, String> {
        const SMIN: u32 = 39;
        const SMAX: u32 = 42;
        let wide = Scalar::Int { bits: 64, signed: true };
        let greatest = if signed { (1u64 << (bits - 1)) - 1 } else { u64::MAX >> (64 - bits) };
        let least = if signed { (!greatest).cast_signed() } else { 0 };
        let (greatest, least) = (self.constant(greatest)?, self.constant(least.cast_unsigned())?);
        let value = self.extended(SMIN, wide, &[value, greatest])?;
        self.extended(SMAX, wide, &[value, least])
    }

    /// Lowers sums with a carry, differences with a borrow, and products of twice the width.
    fn extended_arithmetic(&mut self, inst: &Inst) -> Result<(), String> {
        let scalar = self.module.component_scalar(self.type_of(inst.operand(0)?)?)?;
        let (a, b) = (self.registers(inst.operand(0)?)?, self.registers(inst.operand(1)?)?);
        let mut results = vec![];
        for part in 0..2 {
            let operation = alu::operation_part(inst.op, scalar, part)
                .ok_or_else(|| format!("Op{:?} on {} is not simulated", inst.op, scalar.name()))?;
            for (a, b) in a.iter().zip(&b) {
                results.push(self.emit_compute(operation, &[*a, *b], None, None)?);
            }
        }
        self.define(inst, results)
    }
}

/// Whether an instruction exchanges values within a sub-group.
fn is_group_operation(op: Op) -> bool {
    super::groups::has_scope(op)
        || matches!(
            op,
            Op::SubgroupBallotKHR
                | Op::SubgroupFirstInvocationKHR
                | Op::SubgroupAllKHR
                | Op::SubgroupAnyKHR
                | Op::SubgroupAllEqualKHR
                | Op::SubgroupReadInvocationKHR
                | Op::GroupNonUniformPartitionNV
                | Op::GroupNonUniformQuadAllKHR
                | Op::GroupNonUniformQuadAnyKHR
        )
}
