//! Parts of simple problems: sizes of vectors and square matrices, grids with an invocation per element, and [`Plain`],
//! a problem made of data and two functions.

use crate::algorithms::MAX_ELEMENTS;
use crate::basis::error::Error;
use crate::kernel::buffer::Role;
use crate::kernel::program::folded_groups;
use crate::prelude::*;

/// Work-group size: several sub-groups on any device, and allowed on every device.
pub(super) const GROUP: u32 = 256;

pub(super) fn vector_length(case: &CaseSpec) -> Result<u64, String> {
    match case.size {
        Size::Uniform(n) if n <= MAX_ELEMENTS => Ok(n),
        Size::Uniform(_) => Err("kernels can index 2^31 elements; choose a smaller size".into()),
        Size::Two(..) | Size::Three(..) => Err("a vector has one extent; write N".into()),
    }
}

/// Returns the order n of an n×n matrix.
pub(super) fn matrix_order(case: &CaseSpec) -> Result<u64, String> {
    match case.size {
        Size::Uniform(n) if n.checked_mul(n).is_some_and(|elements| elements <= MAX_ELEMENTS) => Ok(n),
        Size::Uniform(n) => Err(format!(
            "the matrix would have {n}×{n} elements, more than the 2^31 that kernels can index; choose a smaller size"
        )),
        Size::Two(..) | Size::Three(..) => Err("the matrix is square; write N".into()),
    }
}

/// Returns the first extent of a case whose size was accepted.
pub fn extent(case: &CaseSpec) -> u64 {
    match case.size {
        Size::Uniform(n) | Size::Two(n, _) | Size::Three(n, ..) => n,
    }
}

/// Returns the grid over `down` rows of `across` elements, with `group` elements per work-group along x and y. Rows
/// beyond the device's limit continue along z.
pub(super) fn groups_over([across, down]: [u64; 2], group: [u32; 2], device: &DeviceInfo) -> [u64; 3] {
    let [width, height] = group.map(u64::from);
    let [y, z] = folded_groups(down.div_ceil(height), device.limits.group_count[1]);
    [across.div_ceil(width), y, z]
}

/// Describes a buffer of a problem that the host fills and kernels only read.
pub(super) fn input(name: &'static str, dtype: DType, len: u64) -> BufferSpec {
    BufferSpec::new(name, Role::Input, dtype, len)
}

/// Describes a buffer of a problem that kernels write.
pub(super) fn output(name: &'static str, dtype: DType, len: u64) -> BufferSpec {
    BufferSpec::new(name, Role::Output, dtype, len)
}

/// Describes a buffer of a problem that the host fills and kernels change.
pub(super) fn in_place(name: &'static str, dtype: DType, len: u64) -> BufferSpec {
    BufferSpec::new(name, Role::InPlace, dtype, len)
}

/// Describes one of a program's own buffers.
pub(super) fn scratch(name: &'static str, dtype: DType, len: u64) -> BufferSpec {
    BufferSpec::new(name, Role::Scratch, dtype, len)
}

/// Converts a buffer number to an argument.
pub(super) fn buffer(index: usize) -> ArgumentValue {
    ArgumentValue::Buffer(BufferId(index))
}

/// Converts the buffer numbers of a list to arguments.
pub(super) fn buffers<const N: usize>(numbers: [(&str, usize); N]) -> [(&str, ArgumentValue); N] {
    numbers.map(|(name, number)| (name, buffer(number)))
}

/// Converts a count to an argument. It fits in 32 bits if the buffers do; programs with longer buffers are refused.
pub(super) fn number(value: u64) -> ArgumentValue {
    ArgumentValue::U32(u32::try_from(value).unwrap_or(u32::MAX))
}

/// Lists a kernel's arguments: its buffers, then its numbers.
pub(super) fn arguments<'n>(
    buffers: &[(&'n str, BufferId)],
    numbers: &[(&'n str, u64)],
) -> Vec<(&'n str, ArgumentValue)> {
    let buffers = buffers.iter().map(|(name, id)| (*name, ArgumentValue::Buffer(*id)));
    let numbers = numbers.iter().map(|(name, value)| (*name, number(*value)));
    buffers.chain(numbers).collect()
}

/// Returns the words of a buffer that a problem declares as i32.
pub(super) fn integers(array: &HostArray) -> &[i32] {
    match array {
        HostArray::I32(words) => words,
        other => unreachable!("the problem's buffer is i32, not {other:?}"),
    }
}

/// Returns the values of an f32 buffer; values of any other type are rounded to f32.
pub(super) fn reals(array: &HostArray) -> Vec<f32> {
    match array {
        HostArray::F32(values) => values.clone(),
        other => (0..other.len()).map(|i| other.get(i) as f32).collect(),
    }
}

/// Returns the values of an array in f64.
pub(super) fn doubles(array: &HostArray) -> Vec<f64> {
    (0..array.len()).map(|i| array.get(i)).collect()
}

/// Builds a dispatch of `shader` with one invocation per element of a vector; adds `n` to the arguments.
pub(super) fn over_vector(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let [x, y] = folded_groups(extent(case).div_ceil(u64::from(GROUP)), device.limits.group_count[0]);
    dispatch(shader, arguments, case, device).groups([x, y, 1])
}

/// Builds a dispatch of `shader` with one invocation per element of a matrix, in work-groups within a row; adds `n` to
/// the arguments.
pub(super) fn over_matrix(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    dispatch(shader, arguments, case, device).groups(groups_over([extent(case); 2], [GROUP, 1], device))
}

/// Builds a dispatch without a grid, in work-groups of [`GROUP`]; adds `n` to the arguments.
fn dispatch(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = [("n", number(extent(case)))];
    let dispatch = Dispatch::new(shader, &[arguments, &n].concat()).group_size([GROUP, 1, 1]);
    // Only the result of sub-group operations depends on the sub-group size, so other kernels require none.
    if shader.interface.capabilities.iter().any(|capability| capability.starts_with("GroupNonUniform")) {
        return dispatch.subgroups_of(case.subgroup_size(device));
    }
    dispatch
}

/// Problem made of data, a function that generates its inputs, and one that makes the oracle from them.
pub(super) struct Plain {
    /// Size in full, for case ids.
    pub(super) extents: String,
    pub(super) buffers: Vec<BufferSpec>,
    pub(super) work: Work,
    /// Length of the chain of operations, if each waits for the one before.
    pub(super) chain: Option<u64>,
    pub(super) inputs: Box<dyn Fn() -> Vec<HostArray>>,
    pub(super) oracle: Box<dyn Fn(&[HostArray]) -> Box<dyn Oracle>>,
}

impl Problem for Plain {
    fn extents(&self) -> String {
        self.extents.clone()
    }

    fn buffers(&self) -> Vec<BufferSpec> {
        self.buffers.clone()
    }

    fn work(&self) -> Work {
        self.work
    }

    fn chain(&self) -> Option<u64> {
        self.chain
    }

    fn inputs(&self) -> Result<Vec<HostArray>, Error> {
        Ok((self.inputs)())
    }

    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, Error> {
        Ok((self.oracle)(inputs))
    }
}
