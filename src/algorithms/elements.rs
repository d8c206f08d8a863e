//! What simple problems share. Those on vectors and square matrices: their sizes, and grids with an invocation for each element. Those
//! that are data: which buffers there are, what fills them and what is right. And grids over the elements of any matrix.

use super::{CaseSpec, MOST_ELEMENTS, Oracle, Problem};
use crate::basis::dtype::HostArray;
use crate::basis::error::Error;
use crate::basis::size::Size;
use crate::basis::units::Work;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::BufferSpec;
use crate::kernel::program::{ArgumentValue, BufferId, Dispatch, folded_groups};
use crate::kernel::shaders::Shader;

/// Invocations of a work-group: several sub-groups of any size that a device can have, and few enough for every device.
pub(super) const GROUP: u32 = 256;

/// The length of a vector.
pub(super) fn vector_length(case: &CaseSpec) -> Result<u64, String> {
    match case.size {
        Size::Uniform(n) if n <= MOST_ELEMENTS => Ok(n),
        Size::Uniform(_) => Err("kernels can index 2^31 elements; choose a smaller size".into()),
        Size::Two(..) | Size::Three(..) => Err("a vector has one extent; write N".into()),
    }
}

/// The order n of an n×n matrix.
pub(super) fn matrix_order(case: &CaseSpec) -> Result<u64, String> {
    match case.size {
        Size::Uniform(n) if n.checked_mul(n).is_some_and(|elements| elements <= MOST_ELEMENTS) => Ok(n),
        Size::Uniform(n) => Err(format!(
            "the matrix would have {n}×{n} elements, more than the 2^31 that kernels can index; choose a smaller size"
        )),
        Size::Two(..) | Size::Three(..) => Err("the matrix is square; write N".into()),
    }
}

/// The first extent of a case whose problem has accepted its size.
pub(crate) fn extent(case: &CaseSpec) -> u64 {
    match case.size {
        Size::Uniform(n) | Size::Two(n, _) | Size::Three(n, ..) => n,
    }
}

/// The work-groups of a grid over `down` rows of `across` elements, where each group has `group` of them along x and y.
/// Rows beyond the device's limit go on along z.
pub(super) fn groups_over([across, down]: [u64; 2], group: [u32; 2], device: &DeviceInfo) -> [u64; 3] {
    let [width, height] = group.map(u64::from);
    let [y, z] = folded_groups(down.div_ceil(height), device.limits.group_count[1]);
    [across.div_ceil(width), y, z]
}

/// A buffer as an argument.
pub(super) fn buffer(index: usize) -> ArgumentValue {
    ArgumentValue::Buffer(BufferId(index))
}

/// `shader` with one invocation for each element of a vector, and `n` among its arguments.
pub(super) fn over_vector(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let [x, y] = folded_groups(extent(case).div_ceil(u64::from(GROUP)), device.limits.group_count[0]);
    dispatch(shader, arguments, case, device).groups([x, y, 1])
}

/// `shader` with one invocation for each element of a matrix, work-groups within a row, and `n` among its arguments.
pub(super) fn over_matrix(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    dispatch(shader, arguments, case, device).groups(groups_over([extent(case); 2], [GROUP, 1], device))
}

fn dispatch(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    // Below 2^31: the problem has checked it.
    let n = [("n", ArgumentValue::U32(extent(case) as u32))];
    let dispatch = Dispatch::new(shader, &[arguments, &n].concat()).group_size([GROUP, 1, 1]);
    // Only kernels with sub-group operations can tell, and only those are bound to a size.
    if shader.interface.capabilities.iter().any(|capability| capability.starts_with("GroupNonUniform")) {
        return dispatch.subgroups_of(case.subgroup_size(device));
    }
    dispatch
}

/// What makes an oracle from inputs.
type MakeOracle = Box<dyn Fn(&[HostArray]) -> Box<dyn Oracle>>;

/// A problem without anything of its own to compute: two functions make its inputs and, from these, its oracle.
pub(super) struct Plain {
    /// The size written out in full.
    pub(super) extents: String,
    pub(super) buffers: Vec<BufferSpec>,
    pub(super) work: Work,
    /// The number of operations, where each waits for the one before.
    pub(super) chain: Option<u64>,
    pub(super) inputs: Box<dyn Fn() -> Vec<HostArray>>,
    pub(super) oracle: MakeOracle,
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
