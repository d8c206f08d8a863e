//! Probe of launch costs: n dispatches in one command buffer.
//!
//! Nominal work: none; the time of a launch is the kernel time divided by n. Every variant adds n to the counter in
//! buffer C, which reveals a missing dispatch. Buffer G is a grid of zero work-groups for indirect dispatches, which
//! would change the counter if they ran.

use super::SIZE_IS_CHECKED;
use crate::case::quantity::{Operation, Quantity};
use crate::elements::{Plain, buffer, in_place, input, integers};
use crate::error_bound::exact;
use crate::prelude::*;
use rand::Rng;

/// Cost of dispatches.
pub static LAUNCH: Algorithm = Algorithm {
    name: Borrowed("launch"),
    summary: "cost of a dispatch: n of them in one command buffer",
    work: "no operations, no bytes; the time of one dispatch is the kernel time divided by n",
    default_size: Sweeps::same("1024"),
    verify_size: Sweeps::same("1,2,33"),
    variants: Borrowed(&[
        variant! { "empty", "dispatches of an empty kernel, in no order",
            from "the usual method",
            measures Measures::Limit {
                of: |_, _| Some(Quantity::Latency { of: Operation::EmptyDispatch }),
                quick: false,
            },
            &["launch/empty", "launch/count"] => &|shaders, case, _| {
                let n = dispatches(case).expect(SIZE_IS_CHECKED);
                let empty = Dispatch::new(shaders[0], &[]);
                program(std::iter::repeat_n(empty, n as usize - 1).chain([count(shaders[1], n)]))
            }
        },
        variant! { "dependent", "dispatches that each add 1 to the previous result, with a barrier before each",
            from "the usual method",
            measures Measures::Limit {
                of: |_, _| Some(Quantity::Latency { of: Operation::DependentDispatch }),
                quick: true,
            },
            &["launch/count"] => &|shaders, case, _| {
                let n = dispatches(case).expect(SIZE_IS_CHECKED);
                program(std::iter::repeat_n(count(shaders[0], 1), n as usize))
            }
        },
        variant! { "indirect",
            "indirect dispatches of zero work-groups, with a barrier before each: the cost of skipping a step",
            from "vkCmdDispatchIndirect with counts that the device holds",
            measures Measures::Limit {
                of: |_, _| Some(Quantity::Latency { of: Operation::EmptyIndirectDispatch }),
                quick: false,
            },
            &["launch/count"] => &|shaders, case, _| {
                let n = dispatches(case).expect(SIZE_IS_CHECKED);
                let skipped = count(shaders[0], 1).indirect(BufferId(1));
                program(std::iter::repeat_n(skipped, n as usize - 1).chain([count(shaders[0], n)]))
            }
        },
    ]),
    problem: Static(&problem),
    ..Algorithm::PLAIN
};

/// Most dispatches in a command buffer; more would not change the average.
const MAX_DISPATCHES: u64 = 1 << 16;

/// Reads the number of dispatches from the size.
fn dispatches(case: &CaseSpec) -> Result<u64, String> {
    match case.size {
        Size::Uniform(n) if n <= MAX_DISPATCHES => Ok(n),
        size => Err(format!("'{size}' is not one number up to {MAX_DISPATCHES}, the dispatches; write 1024")),
    }
}

/// Builds a dispatch that adds `increment` to the counter.
fn count(shader: &'static Shader, increment: u64) -> Dispatch {
    // The increment is at most MAX_DISPATCHES.
    Dispatch::new(shader, &[("C", buffer(0)), ("ADD", ArgumentValue::U32(increment as u32))])
}

/// Builds a program of dispatches in this order.
fn program(dispatches: impl Iterator<Item = Dispatch>) -> Program {
    Program { steps: dispatches.map(Step::Dispatch).collect(), ..Program::default() }
}

/// Creates the problem of counting the dispatches of a case in C; G, with zero work-groups along x, is only read.
fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let dispatches = dispatches(case)?;
    let seed = case.seed;
    Ok(Box::new(Plain {
        extents: dispatches.to_string(),
        buffers: vec![in_place("C", DType::I32, 1), input("G", DType::I32, 3)],
        work: Work { operations: 0, bytes: Bytes(0) },
        chain: Some(dispatches),
        inputs: Box::new(move || {
            let start = generator(seed, 0).next_u32() as i32;
            vec![HostArray::I32(vec![start]), HostArray::I32(vec![0, 1, 1])]
        }),
        oracle: Box::new(move |inputs| exact("C", vec![integers(&inputs[0])[0].wrapping_add(dispatches as i32)])),
    }))
}
