//! Cooperative matrices (`SPV_KHR_cooperative_matrix`): each lane of a sub-group holds some of the elements, and which is
//! the device's choice.

use crate::code::{Location, Reg};
use crate::kernel::interface::Scalar;

/// Type of a cooperative matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MatrixType {
    pub(crate) scalar: Scalar,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    /// SPIR-V's `CooperativeMatrixUse`: 0 for A, 1 for B, 2 for the accumulator.
    pub(crate) usage: u32,
}

impl MatrixType {
    /// Returns the registers that hold a matrix in a sub-group of `lanes`: elements of each lane, rounded up.
    pub(crate) fn registers(&self, lanes: u32) -> u32 {
        (self.rows * self.columns).div_ceil(lanes)
    }
}

/// Memory operand of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MatrixMemory {
    /// First element.
    pub(crate) at: Location,
    /// Distance of rows, or of columns if column-major, in units of `stride_bytes`.
    pub(crate) stride: Option<Reg>,
    pub(crate) stride_bytes: u64,
    pub(crate) is_column_major: bool,
}

/// Instruction on cooperative matrices, named by their first registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MatrixInstruction {
    Load { to: Reg, matrix: MatrixType, memory: MatrixMemory },
    Store { from: Reg, matrix: MatrixType, memory: MatrixMemory },
    /// `to = a * b + c`. `operands` are SPIR-V's `CooperativeMatrixOperands`: signedness of A 1, B 2, C 4, result 8;
    /// saturating accumulation 16.
    MulAdd { to: Reg, a: (Reg, MatrixType), b: (Reg, MatrixType), c: (Reg, MatrixType), result: MatrixType, operands: u32 },
}
