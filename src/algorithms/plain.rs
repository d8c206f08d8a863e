//! Problems that are data: which buffers there are, what fills them and what is right.

use super::{Oracle, Problem};
use crate::basis::dtype::HostArray;
use crate::basis::units::Work;
use crate::kernel::buffer::BufferSpec;

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

    fn inputs(&self) -> Result<Vec<HostArray>, String> {
        Ok((self.inputs)())
    }

    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, String> {
        Ok((self.oracle)(inputs))
    }
}
