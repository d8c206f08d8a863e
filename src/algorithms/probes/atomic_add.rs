//! Rate of atomic additions: `NxC` is N invocations that add 64 times each, spread over C counters, powers of two. One
//! counter is the worst case, as many as invocations the best.
//!
//! Nominal work: 64·N operations; no bytes to speak of.

use super::{AtomicPattern, GROUP, Quantity, integers, power_of_two, words};
use crate::algorithms::error_bound::exact;
use crate::algorithms::input::Input;
use crate::algorithms::plain::Plain;
use crate::algorithms::{Algorithm, CaseSpec, Measures, Problem, Sweeps, Variant};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle::Static;
use crate::basis::layout::Layout;
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Work};
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{BufferId, Dispatch, Program, Value};
use std::borrow::Cow::Borrowed;

/// Atomic additions.
pub(crate) static ATOMIC_ADD: Algorithm = Algorithm {
    name: Borrowed("atomic-add"),
    fingerprint: None,
    summary: "rate of atomic additions: N invocations add 64 times each to C counters",
    work: "64·N operations; no bytes to speak of",
    default_size: Sweeps { gpu: "2^18x1,2^18x2^18", cpu: "2^12x1,2^12x2^12" },
    verify_size: Sweeps::same("64x1,2^12x2^12,2^12x64"),
    iterative: false,
    inputs: &[Input::Uniform],
    layouts: &[Layout::Nn],
    variants: Borrowed(&[Variant {
        name: Borrowed("counters"),
        aliases: &[],
        summary: "32-bit integer atomicAdd to global memory, its result unused",
        source: "the usual method",
        measures: Measures::Limit(|size, _| match size {
            Size::Two(_, 1) => Some(Quantity::Atomics { pattern: AtomicPattern::Same }),
            Size::Two(..) => Some(Quantity::Atomics { pattern: AtomicPattern::Spread }),
            Size::Uniform(_) | Size::Three(..) => None,
        }),
        kernels: &["atomic-add/counters"],
        program: Static(&|shaders, case, _| {
            let [invocations, counters] =
                extents(case).expect("the problem of this case was made, which checks its size");
            let group = invocations.min(GROUP);
            // Below 2^30.
            let mask = Value::U32((counters - 1) as u32);
            Program::single(
                Dispatch::new(shaders[0], &[("C", Value::Buffer(BufferId(0))), ("MASK", mask)])
                    .group_size([group as u32, 1, 1])
                    .groups([invocations / group, 1, 1])
                    .constant("ADDS", ADDS)
                    .loops(u64::from(ADDS)),
            )
        }),
    }]),
    tunable: &[],
    candidates: None,
    solution: None,
    problem: Static(&problem),
};

/// Additions of an invocation: 0 and 1 in turn.
const ADDS: u32 = 64;

/// Invocations and counters.
fn extents(case: &CaseSpec) -> Result<[u64; 2], String> {
    let Size::Two(invocations, counters) = case.size else {
        return Err(format!("'{}' is not NxC, invocations and counters; write 2^18x1", case.size));
    };
    let invocations = power_of_two("invocations", invocations, 64)?;
    if invocations > 1 << 23 || counters > invocations {
        return Err(format!("'{}' has more than 2^23 invocations, or fewer of them than counters", case.size));
    }
    Ok([invocations, power_of_two("counters", counters, 1)?])
}

fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let ([invocations, counters], seed) = (extents(case)?, case.seed);
    Ok(Box::new(Plain {
        extents: format!("{invocations}x{counters}"),
        buffers: vec![BufferSpec::new("C", Role::InPlace, DType::I32, counters)],
        work: Work { operations: invocations * u64::from(ADDS), bytes: Bytes(0) },
        chain: None,
        inputs: Box::new(move || vec![HostArray::I32(words(counters, seed))]),
        oracle: Box::new(move |inputs| {
            // Below 2^31, as there are at most 2^23 invocations.
            let added = (invocations / counters * u64::from(ADDS) / 2) as i32;
            exact("C", integers(&inputs[0]).iter().map(|start| start.wrapping_add(added)).collect())
        }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_would_overflow_or_idle_are_refused() {
        for size in [Size::Uniform(64), Size::Two(1 << 24, 1), Size::Two(64, 128), Size::Two(100, 1), Size::Two(64, 3)]
        {
            assert!(extents(&CaseSpec::new(&ATOMIC_ADD, size, DType::I32)).is_err(), "{size}");
        }
    }
}
