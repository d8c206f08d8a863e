//! Shared-memory bandwidth: each invocation goes round an array of 16-byte vectors, one an invocation, neighbours
//! beside one another, so without bank conflicts.
//!
//! Nominal work: n·256·4096·16 bytes for n work-groups of 256 invocations and 4096 loads each; no operations.

use super::{GROUP, Quantity, integers, power_of_two, words};
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

/// Reads of shared memory.
pub(crate) static SHARED_MEMORY: Algorithm = Algorithm {
    name: Borrowed("shared-memory"),
    fingerprint: None,
    summary: "shared-memory bandwidth: n work-groups of 256 invocations load 4096 vectors of 16 bytes each",
    work: "n·256·4096·16 bytes; no operations",
    default_size: Sweeps { gpu: "2^13", cpu: "2^4" },
    verify_size: Sweeps::same("1,2,64"),
    iterative: false,
    inputs: &[Input::Uniform],
    layouts: &[Layout::Nn],
    variants: Borrowed(&[Variant {
        name: Borrowed("read"),
        aliases: &[],
        summary: "16-byte loads without bank conflicts",
        source: "the usual method: a tile is filled once and read again and again",
        measures: Measures::Limit(|_, _| Some(Quantity::SharedMemory)),
        kernels: &["shared-memory/read"],
        program: Static(&|shaders, case, _| {
            let groups = groups(case).expect("the problem of this case was made, which checks its size");
            let arguments = [("X", Value::Buffer(BufferId(0))), ("Y", Value::Buffer(BufferId(1)))];
            Program::single(
                Dispatch::new(shaders[0], &arguments)
                    .group_size([GROUP as u32, 1, 1])
                    .groups([groups, 1, 1])
                    .constant("LOADS", LOADS)
                    .loops(u64::from(LOADS) / UNROLL),
            )
        }),
    }]),
    tunable: &[],
    candidates: None,
    solution: None,
    problem: Static(&problem),
};

/// Loads of an invocation.
const LOADS: u32 = 4096;
/// Loads in one iteration of the kernel's loop.
const UNROLL: u64 = 16;

fn groups(case: &CaseSpec) -> Result<u64, String> {
    match case.size {
        Size::Uniform(n) if n <= 1 << 15 => power_of_two("work-groups", n, 1),
        size => Err(format!("'{size}' is not one number up to 2^15, the work-groups; write 2^12")),
    }
}

fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let (groups, seed, dtype) = (groups(case)?, case.seed, DType::I32);
    Ok(Box::new(Plain {
        extents: groups.to_string(),
        buffers: vec![
            BufferSpec::new("X", Role::Input, dtype, 4 * GROUP),
            BufferSpec::new("Y", Role::Output, dtype, groups * GROUP),
        ],
        work: Work { operations: 0, bytes: Bytes(groups * GROUP * u64::from(LOADS) * 16) },
        chain: None,
        inputs: Box::new(move || vec![HostArray::I32(words(4 * GROUP, seed))]),
        // Every invocation goes round the tile LOADS / 256 times.
        oracle: Box::new(move |inputs| {
            let round = integers(&inputs[0]).iter().fold(0i32, |sum, word| sum.wrapping_add(*word));
            let sum = round.wrapping_mul((u64::from(LOADS) / GROUP) as i32);
            exact("Y", vec![sum; (groups * GROUP) as usize])
        }),
    }))
}
