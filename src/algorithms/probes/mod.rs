//! Probes of a device's limits: arithmetic, memory, shared memory, atomics, matrix units, launches.
//!
//! They are algorithms like any other, so they can be benched one by one, and `gpukern peak` trusts a figure only
//! after its answer was verified. Their work is what they really do. All keep within the loop iterations that the
//! software device allows, consume their results, and compute with ordinary numbers, never denormal ones.

mod atomic_add;
pub(crate) mod fma;
mod launch;
pub(crate) mod matrix_unit;
mod memory;
mod quantity;
mod shared_memory;

pub(crate) use atomic_add::ATOMIC_ADD;
pub(crate) use fma::FMA;
pub(crate) use launch::LAUNCH;
pub(crate) use matrix_unit::MATRIX_UNIT;
pub(crate) use memory::{MEMORY_COPY, MEMORY_READ, MEMORY_WRITE};
pub(crate) use quantity::{AtomicPattern, Bounds, Direction, Operation, Quantity, Unit};
pub(crate) use shared_memory::SHARED_MEMORY;

use super::{Check, CheckMethod, Oracle, WrongElement, WrongElements};
use crate::basis::dtype::HostArray;
use serde::{Deserialize, Serialize};

/// Invocations of a work-group.
const GROUP: u64 = 256;
/// The largest power of two that sizes may have.
const MOST: u64 = 1 << 30;

/// Checks that a size is a power of two from `least` to [`MOST`]; `what` names it in the error.
fn power_of_two(what: &str, n: u64, least: u64) -> Result<u64, String> {
    if n.is_power_of_two() && (least..=MOST).contains(&n) {
        Ok(n)
    } else {
        Err(format!("{n} {what} are no power of two from {least} to 2^30; write 2^{}", n.max(least).ilog2().min(30)))
    }
}

/// Integers that a kernel must produce exactly.
struct Exact {
    name: &'static str,
    expected: Vec<i32>,
}

impl Oracle for Exact {
    fn check(&self, outputs: &[HostArray]) -> Result<Check, String> {
        let HostArray::I32(output) = &outputs[0] else {
            return Err(format!("{} is not of 32-bit integers", self.name));
        };
        let mut wrong = WrongElements::default();
        for (i, (got, expected)) in output.iter().zip(&self.expected).enumerate() {
            if got != expected {
                wrong.add(|| WrongElement::new(format!("{}[{i}]", self.name), got, expected));
            }
        }
        Ok(exact(wrong))
    }
}

/// The check of an answer that may not err: its residual is how many values are `wrong`.
fn exact(wrong: WrongElements) -> Check {
    Check {
        residual: wrong.count as f64,
        tolerance: 0.0,
        method: CheckMethod::Elementwise,
        worst: wrong.first.first().map_or_else(String::new, ToString::to_string),
        metrics: vec![],
        wrong,
    }
}

/// The direction of traffic to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// As many of each; both count.
    Copy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_integer_counts_and_the_first_is_named() {
        let oracle = Exact { name: "C", expected: vec![1, 2, 3] };
        let right = oracle.check(&[HostArray::I32(vec![1, 2, 3])]).expect("an answer");
        assert!(right.passes());
        let wrong = oracle.check(&[HostArray::I32(vec![1, 5, 6])]).expect("an answer");
        assert!(!wrong.passes());
        assert_eq!((wrong.residual, wrong.worst.as_str()), (2.0, "C[1] is 5, expected 2"));
    }

    #[test]
    fn sizes_that_a_kernel_cannot_mask_are_refused_with_a_remedy() {
        assert_eq!(power_of_two("invocations", 1024, 64), Ok(1024));
        let error = power_of_two("invocations", 1000, 64).expect_err("no power of two");
        assert_eq!(error, "1000 invocations are no power of two from 64 to 2^30; write 2^9");
    }
}
