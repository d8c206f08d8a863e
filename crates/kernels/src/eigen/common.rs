//! Shared by the similarity transform's algorithms: sizes, error bounds, buffer numbers.

use crate::device::capability::Feature;
use crate::error_bound;
use crate::prelude::*;
use std::borrow::Cow;

/// Sweeps of the algorithms on matrices.
pub(super) const MATRIX_SIZES: Sweeps = Sweeps { gpu: "256..4096", cpu: "128,256" };
/// Orders of matrices around the boundaries of sub-groups and work-groups, for verification.
pub(super) const AWKWARD_MATRICES: Sweeps = Sweeps::same("1,2,3,31,33,127,257,1000");
/// Sweeps of the algorithms on vectors.
pub(super) const VECTOR_SIZES: Sweeps = Sweeps { gpu: "2^16..2^24", cpu: "2^14..2^18" };
/// Lengths of vectors around the boundaries of sub-groups and work-groups, for verification.
pub(super) const AWKWARD_VECTORS: Sweeps = Sweeps::same("1,2,3,31,33,127,1000,4097,2^20,1048577");

/// Unit roundoff of f32.
pub(super) const U: f64 = 1.0 / (1u64 << 24) as f64;

/// Returns `γ_m` of f32: the relative error bound of m roundings.
pub(super) fn gamma(m: f64) -> f64 {
    error_bound::gamma(m, U)
}

/// Roundings equivalent to one division: Vulkan allows a quotient an error of 2.5 units in the last place, and such a
/// unit is at most 2u ("Precision and Operation of SPIR-V Instructions").
pub(super) const DIVISION: f64 = 5.0;

/// Whether a device adds floats atomically; kernels replace that by a loop of compare-exchange.
pub(super) fn has_float_atomics(device: &DeviceInfo) -> bool {
    device.features.contains(&Feature::ShaderBufferFloat32AtomicAdd)
}

/// Returns the note for the record on a device that does not add floats atomically.
pub(super) fn float_atomics_note(device: &DeviceInfo) -> Option<Cow<'static, str>> {
    (!has_float_atomics(device)).then(|| "float atomics: compare-exchange".into())
}

// Buffer numbers of `eigen`.
/// Matrix, in the end the transformed one.
pub(super) const M: usize = 0;
/// Eigenvector.
pub(super) const V: usize = 1;
/// Eigenvalue.
pub(super) const LAMBDA: usize = 2;
/// Stop flag.
pub(super) const STOP: usize = 3;
/// Number of rounds.
pub(super) const ROUNDS: usize = 4;
/// Vector d of the part of the transform that is left undone.
pub(super) const D: usize = 5;
/// Row sums.
pub(super) const S: usize = 6;

/// Bits of 1.0f32.
pub(super) const ONE: u32 = 0x3f80_0000;
