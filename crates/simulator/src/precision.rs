//! Errors that Vulkan allows.

use crate::kernel::interface::Scalar;
use rspirv::spirv::Op;

/// Error that Vulkan allows an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ErrorBound {
    Add,
}

pub(crate) fn error_bound(_op: Op, _scalar: Scalar) -> Option<ErrorBound> {
    None
}

pub(crate) fn extended_error_bound(_number: u32, _scalar: Scalar) -> Option<ErrorBound> {
    None
}

impl ErrorBound {
    pub(crate) fn perturb(self, _scalar: Scalar, result: u64, _operands: [u64; 4], _random: u64) -> u64 {
        result
    }
}
