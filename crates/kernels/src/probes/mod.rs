//! Probes of a device's limits: arithmetic, memory, shared memory, atomics, matrix units, launches.
//!
//! They are ordinary algorithms, so each can be run by `bench`, and `gpukern peak` uses a figure only after its answer
//! was verified. Their nominal work equals their actual work. All stay within the loop iterations that the software
//! device allows, consume their results, and compute with normal numbers.

pub mod fma;
mod launch;
pub mod matrix_unit;
mod memory;

pub use fma::FMA;
pub use launch::LAUNCH;
pub use matrix_unit::MATRIX_UNIT;
pub use memory::{ATOMIC_ADD, MEMORY_COPY, MEMORY_READ, MEMORY_WRITE, SHARED_MEMORY};

use crate::prelude::*;
use rand::Rng;

/// Invocations per work-group.
const GROUP: u64 = 256;
/// Largest size, a power of two.
const MAX_SIZE: u64 = 1 << 30;
/// Reason why programs need not report a wrong size.
const SIZE_IS_CHECKED: &str = "the problem of this case was made, which checks its size";

/// Checks that `n`, a number of `things`, is a power of two from `least` to [`MAX_SIZE`].
fn power_of_two(things: &str, n: u64, least: u64) -> Result<u64, String> {
    if n.is_power_of_two() && (least..=MAX_SIZE).contains(&n) {
        return Ok(n);
    }
    let power = n.max(least).ilog2().min(30);
    Err(format!("{n} {things} are not a power of two from {least} to 2^30; write 2^{power}"))
}

fn random_words(len: u64, seed: u64) -> Vec<i32> {
    let mut words = vec![0i32; len as usize];
    generator(seed, 0).fill_bytes(bytemuck::cast_slice_mut(&mut words));
    words
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
