//! Shared by the similarity transform's algorithms: sizes, error bounds, buffer numbers.

use crate::algorithms::Sweeps;
use crate::basis::dtype::HostArray;
use crate::device::capability::{DeviceInfo, Feature};
use crate::error_bound;

/// Sweeps of the algorithms on matrices.
pub(super) const MATRIX_SIZES: Sweeps = Sweeps { gpu: "256..4096", cpu: "128,256" };
pub(super) const AWKWARD_MATRICES: Sweeps = Sweeps::same("1,2,3,31,33,127,257,1000");
/// Sweeps of the algorithms on vectors.
pub(super) const VECTOR_SIZES: Sweeps = Sweeps { gpu: "2^16..2^24", cpu: "2^14..2^18" };
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

/// Chooses the form of atomic float addition for a device: its index in `[native, compare-exchange]`, and a note for
/// the record.
pub(super) fn float_atomics(device: &DeviceInfo) -> (usize, &'static str) {
    if device.features.contains(&Feature::ShaderBufferFloat32AtomicAdd) {
        (0, "float atomics: native")
    } else {
        (1, "float atomics: compare-exchange")
    }
}

/// Returns the values of an f32 array.
pub(super) fn reals(array: &HostArray) -> Vec<f32> {
    match array {
        HostArray::F32(values) => values.clone(),
        other => (0..other.len()).map(|i| other.get(i) as f32).collect(),
    }
}

/// Buffer numbers of `eigen`.
pub(super) const M: usize = 0;
pub(super) const V: usize = 1;
pub(super) const LAMBDA: usize = 2;
pub(super) const STOP: usize = 3;
pub(super) const ROUNDS: usize = 4;
pub(super) const D: usize = 5;
pub(super) const S: usize = 6;

/// Bits of 1.0f32.
pub(super) const ONE: u32 = 0x3f80_0000;
