//! Operations of sub-groups, barriers and cooperative matrices.

use super::Lowerer;
use crate::code::{Combine, Reduction, Reg, RegisterOp, Semantics, SubgroupOp};
use crate::kernel::interface::Scalar;
use crate::matrix::{MatrixInstruction, MatrixMemory, MatrixType};
use crate::module::{Id, Inst, ValueType};
use rspirv::spirv::{GroupOperation, Op};

/// SPIR-V's `Scope` of a sub-group.
const SUBGROUP: u64 = 3;

impl Lowerer {
    pub(super) fn barrier(&mut self, inst: &Inst) -> Result<(), String> {
        let constant = |index| self.module.scalar_constant(inst.operand(index)?).map(|value| value as u32);
        let instruction = if inst.op == Op::ControlBarrier {
            let memory = Semantics { scope: constant(1)?, bits: constant(2)? };
            RegisterOp::ControlBarrier { execution: constant(0)?, memory }
        } else {
            RegisterOp::MemoryBarrier(Semantics { scope: constant(0)?, bits: constant(1)? })
        };
        self.emit(instruction)
    }

    /// Lowers an operation of the invocations of a sub-group.
    pub(super) fn group_operation(&mut self, inst: &Inst) -> Result<(), String> {
        let has_scope = has_scope(inst.op);
        let operands = if has_scope { inst.rest(1) } else { inst.rest(0) };
        if has_scope && self.module.scalar_constant(inst.operand(0)?)? != SUBGROUP {
            return Err(format!("Op{:?} has a scope other than the sub-group", inst.op));
        }
        let operand =
            |index: usize| operands.get(index).copied().ok_or_else(|| format!("Op{:?} is cut short", inst.op));
        let (op, value, argument) = match inst.op {
            Op::GroupNonUniformElect => (SubgroupOp::Elect, None, None),
            Op::GroupNonUniformAll | Op::SubgroupAllKHR => (SubgroupOp::All, Some(operand(0)?), None),
            Op::GroupNonUniformAny | Op::SubgroupAnyKHR => (SubgroupOp::Any, Some(operand(0)?), None),
            Op::GroupNonUniformAllEqual | Op::SubgroupAllEqualKHR => (SubgroupOp::AllEqual, Some(operand(0)?), None),
            Op::GroupNonUniformBroadcast | Op::SubgroupReadInvocationKHR => {
                (SubgroupOp::Broadcast, Some(operand(0)?), Some(operand(1)?))
            }
            Op::GroupNonUniformBroadcastFirst | Op::SubgroupFirstInvocationKHR => {
                (SubgroupOp::BroadcastFirst, Some(operand(0)?), None)
            }
            Op::GroupNonUniformBallot | Op::SubgroupBallotKHR => (SubgroupOp::Ballot, Some(operand(0)?), None),
            Op::GroupNonUniformInverseBallot => (SubgroupOp::InverseBallot, Some(operand(0)?), None),
            Op::GroupNonUniformBallotBitExtract => (SubgroupOp::BallotBitExtract, Some(operand(0)?), Some(operand(1)?)),
            Op::GroupNonUniformBallotBitCount => {
                (SubgroupOp::BallotBitCount(reduction(operand(0)?)?), Some(operand(1)?), None)
            }
            Op::GroupNonUniformBallotFindLSB => (SubgroupOp::BallotFindLsb, Some(operand(0)?), None),
            Op::GroupNonUniformBallotFindMSB => (SubgroupOp::BallotFindMsb, Some(operand(0)?), None),
            Op::GroupNonUniformShuffle => (SubgroupOp::Shuffle, Some(operand(0)?), Some(operand(1)?)),
            Op::GroupNonUniformShuffleXor => (SubgroupOp::ShuffleXor, Some(operand(0)?), Some(operand(1)?)),
            Op::GroupNonUniformShuffleUp => (SubgroupOp::ShuffleUp, Some(operand(0)?), Some(operand(1)?)),
            Op::GroupNonUniformShuffleDown => (SubgroupOp::ShuffleDown, Some(operand(0)?), Some(operand(1)?)),
            Op::GroupNonUniformRotateKHR => (SubgroupOp::Rotate, Some(operand(0)?), Some(operand(1)?)),
            Op::GroupNonUniformQuadBroadcast => (SubgroupOp::QuadBroadcast, Some(operand(0)?), Some(operand(1)?)),
            Op::GroupNonUniformQuadSwap => (SubgroupOp::QuadSwap, Some(operand(0)?), Some(operand(1)?)),
            Op::GroupNonUniformQuadAllKHR => (SubgroupOp::QuadAll, Some(operand(0)?), None),
            Op::GroupNonUniformQuadAnyKHR => (SubgroupOp::QuadAny, Some(operand(0)?), None),
            Op::GroupNonUniformPartitionNV => (SubgroupOp::Partition, Some(operand(0)?), None),
            other => {
                let combine = combine(other).ok_or_else(|| format!("Op{other:?} is not simulated"))?;
                let reduction = reduction(operand(0)?)?;
                let argument = if is_partitioned(reduction) { Some(operand(2)?) } else { operands.get(2).copied() };
                (SubgroupOp::Reduce(reduction, combine), Some(operand(1)?), argument)
            }
        };
        let second = if op == SubgroupOp::Rotate { operands.get(2).copied() } else { None };
        self.emit_group_operation(inst, op, value, argument, second)
    }

    /// Emits an operation for each component of its value; operations on ballots take all four components at once.
    fn emit_group_operation(
        &mut self,
        inst: &Inst,
        op: SubgroupOp,
        value: Option<Id>,
        argument: Option<Id>,
        second: Option<Id>,
    ) -> Result<(), String> {
        let zero = self.constant(0)?;
        let (values, scalar) = match value {
            Some(id) => (self.registers(id)?, self.group_scalar(inst, self.type_of(id)?)?),
            None => (vec![zero], Scalar::Bool),
        };
        let argument = match argument {
            // The lanes of partitioned operations are a ballot.
            Some(id) if matches!(op, SubgroupOp::Reduce(reduction, _) if is_partitioned(reduction)) => {
                let ballot = self.registers(id)?;
                self.consecutive(&ballot)?
            }
            Some(id) => self.register(id)?,
            None => zero,
        };
        let second = second.map(|id| self.register(id)).transpose()?;
        let takes_ballot = matches!(
            op,
            SubgroupOp::InverseBallot
                | SubgroupOp::BallotBitExtract
                | SubgroupOp::BallotBitCount(_)
                | SubgroupOp::BallotFindLsb
                | SubgroupOp::BallotFindMsb
        );
        let values = if takes_ballot { vec![self.consecutive(&values)?] } else { values };
        let width = if matches!(op, SubgroupOp::Ballot | SubgroupOp::Partition) { 4 } else { 1 };
        let mut results = vec![];
        for value in values {
            let to = self.new_registers(width)?;
            self.emit(RegisterOp::Subgroup { op, scalar, to, value, argument, second })?;
            results.extend(to..to + width);
        }
        if op == SubgroupOp::AllEqual && results.len() > 1 {
            let mut all = results[0];
            for result in &results[1..] {
                all = self.compute(Op::LogicalAnd, Scalar::Bool, Scalar::Bool, &[all, *result])?;
            }
            results = vec![all];
        }
        self.define(inst, results)
    }

    /// Returns the type that an operation computes with; the instruction says whether integers are signed.
    fn group_scalar(&self, inst: &Inst, ty: Id) -> Result<Scalar, String> {
        Ok(match self.module.component_scalar(ty)? {
            Scalar::Int { bits, .. } => {
                let signed = matches!(inst.op, Op::GroupNonUniformSMin | Op::GroupNonUniformSMax);
                Scalar::Int { bits, signed }
            }
            scalar => scalar,
        })
    }

    /// Copies registers to consecutive ones.
    fn consecutive(&mut self, registers: &[Reg]) -> Result<Reg, String> {
        let [_, _, _, _] = registers else { return Err("has a ballot that is not four words".into()) };
        let first = self.new_registers(4)?;
        for (to, from) in (first..).zip(registers) {
            self.emit(RegisterOp::Copy { to, from: *from })?;
        }
        Ok(first)
    }

    /// Lowers an instruction of `SPV_KHR_cooperative_matrix`.
    pub(super) fn matrix_instruction(&mut self, inst: &Inst) -> Result<(), String> {
        match inst.op {
            Op::CooperativeMatrixLengthKHR => {
                let length = self.module.scalar_count(inst.operand(0)?)?;
                let length = self.constant(length)?;
                self.define(inst, vec![length])
            }
            Op::CooperativeMatrixLoadKHR => {
                let matrix = self.matrix_type(inst.ty)?;
                let memory = self.matrix_memory(inst.operand(0)?, inst.rest(1), matrix)?;
                let count = self.module.scalar_count(inst.ty)? as u32;
                let to = self.new_registers(count)?;
                self.emit(RegisterOp::Matrix(Box::new(MatrixInstruction::Load { to, matrix, memory })))?;
                self.define(inst, (to..to + count).collect())
            }
            Op::CooperativeMatrixStoreKHR => {
                let matrix = self.matrix_type(self.type_of(inst.operand(1)?)?)?;
                let from = self.consecutive_matrix(inst.operand(1)?)?;
                let memory = self.matrix_memory(inst.operand(0)?, inst.rest(2), matrix)?;
                self.emit(RegisterOp::Matrix(Box::new(MatrixInstruction::Store { from, matrix, memory })))
            }
            Op::CooperativeMatrixMulAddKHR => {
                let mut operand = |index: usize| {
                    let id = inst.operand(index)?;
                    Ok::<_, String>((self.consecutive_matrix(id)?, self.matrix_type(self.type_of(id)?)?))
                };
                let (a, b, c) = (operand(0)?, operand(1)?, operand(2)?);
                let result = self.matrix_type(inst.ty)?;
                let operands = inst.operands.get(3).copied().unwrap_or(0);
                let count = self.module.scalar_count(inst.ty)? as u32;
                let to = self.new_registers(count)?;
                let instruction = MatrixInstruction::MulAdd { to, a, b, c, result, operands };
                self.emit(RegisterOp::Matrix(Box::new(instruction)))?;
                self.define(inst, (to..to + count).collect())
            }
            op => Err(format!("Op{op:?} is not simulated")),
        }
    }

    fn matrix_type(&self, ty: Id) -> Result<MatrixType, String> {
        match self.module.ty(ty)? {
            ValueType::Cooperative { matrix, .. } => Ok(*matrix),
            _ => Err("has a matrix operand that is no cooperative matrix".into()),
        }
    }

    /// Returns the first of consecutive registers that hold a matrix.
    fn consecutive_matrix(&mut self, id: Id) -> Result<Reg, String> {
        let registers = self.registers(id)?;
        let first = *registers.first().ok_or("has an empty matrix")?;
        if registers.iter().zip(first..).all(|(register, expected)| *register == expected) {
            return Ok(first);
        }
        let first = self.new_registers(registers.len() as u32)?;
        for (to, from) in (first..).zip(registers) {
            self.emit(RegisterOp::Copy { to, from })?;
        }
        Ok(first)
    }

    /// Returns the memory of a load or store: `operands` are its layout and stride.
    fn matrix_memory(&mut self, pointer: Id, operands: &[u32], matrix: MatrixType) -> Result<MatrixMemory, String> {
        let (at, pointee) = self.location_of(pointer, matrix.scalar)?;
        let layout = *operands.first().ok_or("has a matrix in memory without a layout")?;
        let layout = self.module.scalar_constant(layout)?;
        if layout > 1 {
            return Err(format!("has a matrix in memory of layout {layout}, which is not simulated"));
        }
        let stride = operands.get(1).map(|id| self.register(*id)).transpose()?;
        let stride_bytes = match self.module.ty(pointee)? {
            ValueType::Array { .. } | ValueType::RuntimeArray { .. } => self.module.stride(pointee)?,
            _ => self.module.bytes(pointee)?,
        };
        Ok(MatrixMemory { at, stride, stride_bytes, is_column_major: layout == 1 })
    }
}

/// Whether a group operation has a scope as its first operand: `OpGroupNonUniformElect` to `OpGroupNonUniformQuadSwap`, and
/// the rotation.
pub(super) fn has_scope(op: Op) -> bool {
    matches!(op as u32, 333..=366) || op == Op::GroupNonUniformRotateKHR
}

fn is_partitioned(reduction: Reduction) -> bool {
    matches!(
        reduction,
        Reduction::PartitionedReduce | Reduction::PartitionedInclusiveScan | Reduction::PartitionedExclusiveScan
    )
}

fn reduction(number: u32) -> Result<Reduction, String> {
    Ok(match GroupOperation::from_u32(number) {
        Some(GroupOperation::Reduce) => Reduction::Reduce,
        Some(GroupOperation::InclusiveScan) => Reduction::InclusiveScan,
        Some(GroupOperation::ExclusiveScan) => Reduction::ExclusiveScan,
        Some(GroupOperation::ClusteredReduce) => Reduction::Clustered,
        Some(GroupOperation::PartitionedReduceNV) => Reduction::PartitionedReduce,
        Some(GroupOperation::PartitionedInclusiveScanNV) => Reduction::PartitionedInclusiveScan,
        Some(GroupOperation::PartitionedExclusiveScanNV) => Reduction::PartitionedExclusiveScan,
        _ => return Err(format!("has group operation {number}")),
    })
}

/// Returns the operator of a reduction.
fn combine(op: Op) -> Option<Combine> {
    Some(match op {
        Op::GroupNonUniformIAdd | Op::GroupNonUniformFAdd => Combine::Add,
        Op::GroupNonUniformIMul | Op::GroupNonUniformFMul => Combine::Mul,
        Op::GroupNonUniformSMin | Op::GroupNonUniformUMin | Op::GroupNonUniformFMin => Combine::Min,
        Op::GroupNonUniformSMax | Op::GroupNonUniformUMax | Op::GroupNonUniformFMax => Combine::Max,
        Op::GroupNonUniformBitwiseAnd | Op::GroupNonUniformLogicalAnd => Combine::And,
        Op::GroupNonUniformBitwiseOr | Op::GroupNonUniformLogicalOr => Combine::Or,
        Op::GroupNonUniformBitwiseXor | Op::GroupNonUniformLogicalXor => Combine::Xor,
        _ => return None,
    })
}
