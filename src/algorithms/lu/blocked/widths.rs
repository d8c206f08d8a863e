//! How columns are cut into blocks without pivoting.

use crate::device::capability::{DeviceInfo, DeviceKind};

/// Columns of the blocks of a factorisation: whole blocks make an outer block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    /// Of a block, whose diagonal block one work-group factorises.
    pub(super) block: u64,
    /// Of an outer block, after which the rest of the matrix is updated.
    pub(super) outer: u64,
}

impl Widths {
    /// What was measured to be fastest for a matrix of n columns, by the kind of device and by whether large products are
    /// split: what comes before such a product does not pay for few columns.
    pub(super) fn built_in(n: u64, split: bool, device: &DeviceInfo) -> Self {
        let [block, outer] = match (device.kind, n) {
            (DeviceKind::Cpu, ..=32) => [32, 32],
            (DeviceKind::Cpu, _) => [64, 64],
            (_, ..=2048) if !split => [64, 64],
            _ => [64, 256],
        };
        Self { block, outer }
    }
}
