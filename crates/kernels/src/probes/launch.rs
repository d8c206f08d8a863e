//! Probe of launch costs: n dispatches in one command buffer.
//!
//! Nominal work: none; the time of a launch is the kernel time divided by n. Every variant leaves a counter increased
//! by n, which reveals a missing dispatch, or one of zero work-groups that ran.

use super::integers;
use crate::algorithms::{Algorithm, CaseSpec, Measures, Problem, Sweeps, Variant};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle::Static;
use crate::basis::random::generator;
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Work};
use crate::case::quantity::{Operation, Quantity};
use crate::elements::Plain;
use crate::error_bound::exact;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{ArgumentValue, BufferId, Dispatch, Program, Step};
use crate::kernel::shaders::Shader;
use rand::Rng;
use std::borrow::Cow::Borrowed;

/// Chains of dispatches.
pub static LAUNCH: Algorithm = Algorithm {
    name: Borrowed("launch"),
    summary: "cost of a dispatch: n of them in one command buffer",
    work: "no operations, no bytes; the time of one dispatch is the kernel time divided by n",
    default_size: Sweeps::same("1024"),
    verify_size: Sweeps::same("1,2,33"),
    variants: Borrowed(&[
        variant! { "empty",
            "dispatches of an empty kernel, in no order",
            from "the usual method",
            measures Measures::Limit {
                of: |_, _| Some(Quantity::Latency { of: Operation::EmptyDispatch }),
                quick: false,
            },
            &["launch/empty", "launch/count"] => &|shaders, case, _| {
                let n = dispatches(case).expect("the problem of this case was made, which checks its size");
                let empty = Step::Dispatch(Dispatch::new(shaders[0], &[]));
                chain(std::iter::repeat_n(empty, n as usize - 1).chain([count(shaders[1], n)]))
            }
        },
        variant! { "dependent",
            "dispatches that each add 1 to the previous result, with a barrier before each",
            from "the usual method",
            measures Measures::Limit {
                of: |_, _| Some(Quantity::Latency { of: Operation::DependentDispatch }),
                quick: true,
            },
            &["launch/count"] => &|shaders, case, _| {
                let n = dispatches(case).expect("the problem of this case was made, which checks its size");
                chain(std::iter::repeat_n(count(shaders[0], 1), n as usize))
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
                let n = dispatches(case).expect("the problem of this case was made, which checks its size");
                let skipped = match count(shaders[0], 1) {
                    Step::Dispatch(dispatch) => Step::Dispatch(dispatch.indirect(BufferId(1))),
                    other => other,
                };
                chain(std::iter::repeat_n(skipped, n as usize - 1).chain([count(shaders[0], n)]))
            }
        },
    ]),
    problem: Static(&problem),
    ..Algorithm::PLAIN
};

/// Most dispatches in a command buffer; more would not change the average.
const MAX_DISPATCHES: u64 = 1 << 16;

fn dispatches(case: &CaseSpec) -> Result<u64, String> {
    match case.size {
        Size::Uniform(n) if n <= MAX_DISPATCHES => Ok(n),
        size => Err(format!("'{size}' is not one number up to {MAX_DISPATCHES}, the dispatches; write 1024")),
    }
}

fn count(shader: &'static Shader, add: u64) -> Step {
    // `add` is at most MAX_DISPATCHES.
    Step::Dispatch(Dispatch::new(
        shader,
        &[("C", ArgumentValue::Buffer(BufferId(0))), ("ADD", ArgumentValue::U32(add as u32))],
    ))
}

fn chain(steps: impl Iterator<Item = Step>) -> Program {
    Program { steps: steps.collect(), ..Program::default() }
}

/// Poses the count of dispatches in C. G is the indirect grid, of zero work-groups.
fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let dispatches = dispatches(case)?;
    let seed = case.seed;
    let dtype = DType::I32;
    Ok(Box::new(Plain {
        extents: dispatches.to_string(),
        buffers: vec![BufferSpec::new("C", Role::InPlace, dtype, 1), BufferSpec::new("G", Role::Input, dtype, 3)],
        work: Work { operations: 0, bytes: Bytes(0) },
        chain: Some(dispatches),
        inputs: Box::new(move || {
            let start = generator(seed, 0).next_u32() as i32;
            vec![HostArray::I32(vec![start]), HostArray::I32(vec![0, 1, 1])]
        }),
        oracle: Box::new(move |inputs| exact("C", vec![integers(&inputs[0])[0].wrapping_add(dispatches as i32)])),
    }))
}
