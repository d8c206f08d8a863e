//! Probes of a device's limits: arithmetic, memory, shared memory, atomics, matrix units, launches.
//!
//! They are algorithms like any other, so they can be benched one by one, and `gpukern peak` trusts a figure only
//! after its answer was verified. Their work is what they really do. All keep within the loop iterations that the
//! software device allows, consume their results, and compute with ordinary numbers, never denormal ones.

pub(crate) mod fma;
mod launch;
pub(crate) mod matrix_unit;
mod memory;

pub(crate) use fma::FMA;
pub(crate) use launch::LAUNCH;
pub(crate) use matrix_unit::MATRIX_UNIT;
pub(crate) use memory::{ATOMIC_ADD, MEMORY_COPY, MEMORY_READ, MEMORY_WRITE, SHARED_MEMORY};

use crate::basis::dtype::HostArray;
use crate::basis::random::generator;
use rand::Rng;

/// Invocations of a work-group.
const GROUP: u64 = 256;
/// The largest power of two that sizes may have.
const MOST: u64 = 1 << 30;

/// Checks that a size is a power of two from `least` to [`MOST`]; `what` names it in the error.
fn power_of_two(what: &str, n: u64, least: u64) -> Result<u64, String> {
    if n.is_power_of_two() && (least..=MOST).contains(&n) {
        Ok(n)
    } else {
        Err(format!("{n} {what} are not a power of two from {least} to 2^30; write 2^{}", n.max(least).ilog2().min(30)))
    }
}

/// Random words of a buffer.
fn words(len: u64, seed: u64) -> Vec<i32> {
    let mut words = vec![0i32; len as usize];
    generator(seed, 0).fill_bytes(bytemuck::cast_slice_mut(&mut words));
    words
}

/// The words of a buffer of 32-bit integers.
fn integers(array: &HostArray) -> &[i32] {
    match array {
        HostArray::I32(words) => words,
        other => unreachable!("buffers of this probe are i32, not {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_a_kernel_cannot_mask_are_refused_with_a_remedy() {
        assert_eq!(power_of_two("invocations", 1024, 64), Ok(1024));
        let error = power_of_two("invocations", 1000, 64).expect_err("no power of two");
        assert_eq!(error, "1000 invocations are not a power of two from 64 to 2^30; write 2^9");
    }
}
