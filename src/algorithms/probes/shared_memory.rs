//! Shared-memory bandwidth: each invocation goes round an array of 16-byte vectors, one an invocation, neighbours
//! beside one another, so without bank conflicts.
//!
//! Nominal work: n·256·4096·16 bytes for n work-groups of 256 invocations and 4096 loads each; no operations.

use super::{Exact, GROUP, Quantity, power_of_two};
use crate::algorithms::input::{Input, generator};
use crate::algorithms::{Algorithm, CaseSpec, Measures, Oracle, Problem, Sweeps, Variant};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle::Static;
use crate::basis::layout::Layout;
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Work};
use crate::kernel::buffer::BufferSpec;
use crate::kernel::buffer::Role;
use crate::kernel::program::{BufferId, Dispatch, Program, Value};
use rand::Rng;
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
    problem: Static(&|case| Ok(Box::new(Reads { groups: groups(case)?, seed: case.seed }))),
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

struct Reads {
    groups: u64,
    seed: u64,
}

impl Problem for Reads {
    fn extents(&self) -> String {
        self.groups.to_string()
    }

    fn buffers(&self) -> Vec<BufferSpec> {
        let dtype = DType::I32;
        vec![
            BufferSpec::new("X", Role::Input, dtype, 4 * GROUP),
            BufferSpec::new("Y", Role::Output, dtype, self.groups * GROUP),
        ]
    }

    fn work(&self) -> Work {
        Work { operations: 0, bytes: Bytes(self.groups * GROUP * u64::from(LOADS) * 16) }
    }

    fn inputs(&self) -> Result<Vec<HostArray>, String> {
        let mut words = vec![0i32; 4 * GROUP as usize];
        generator(self.seed, 0).fill_bytes(bytemuck::cast_slice_mut(&mut words));
        Ok(vec![HostArray::I32(words)])
    }

    /// Every invocation goes round the tile LOADS / 256 times.
    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, String> {
        let HostArray::I32(x) = &inputs[0] else { unreachable!("inputs() makes 32-bit integers") };
        let round = x.iter().fold(0i32, |sum, word| sum.wrapping_add(*word));
        let sum = round.wrapping_mul((u64::from(LOADS) / GROUP) as i32);
        Ok(Box::new(Exact { name: "Y", expected: vec![sum; (self.groups * GROUP) as usize] }))
    }
}
