//! How a register-tiled product is cut up, and which cut a device gets for a size.

use super::Dims;
use crate::capability::{DeviceInfo, DeviceKind};
use crate::units::Bytes;

/// The extents of a register-tiled product, in elements.
///
/// A work-group computes a `bm`×`bn` block of C from slabs of `bk` columns of A and `bk` rows of B. Within it a
/// warp (as many neighbouring invocations as that takes) owns `wm`×`wn` elements and an invocation `tm`×`tn` of them.
/// Kernels without warp tiles have `wm` = `bm` and `wn` = `bn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of C that a work-group computes.
    pub bm: u32,
    /// Columns of C that a work-group computes.
    pub bn: u32,
    /// Columns of A, and rows of B, that are in shared memory at a time.
    pub bk: u32,
    /// Rows of C that a warp computes.
    pub wm: u32,
    /// Columns of C that a warp computes.
    pub wn: u32,
    /// Rows of C that an invocation computes.
    pub tm: u32,
    /// Columns of C that an invocation computes.
    pub tn: u32,
}

impl Tile {
    /// A tile without warp tiles.
    #[must_use]
    pub const fn flat([bm, bn, bk]: [u32; 3], [tm, tn]: [u32; 2]) -> Self {
        Self { bm, bn, bk, wm: bm, wn: bn, tm, tn }
    }

    /// Invocations of a work-group.
    #[must_use]
    pub fn invocations(&self) -> u32 {
        (self.bm / self.tm.max(1)) * (self.bn / self.tn.max(1))
    }

    /// Shared memory of a work-group for elements of 4 bytes, without the padding of a kernel.
    #[must_use]
    pub fn shared_bytes(&self) -> Bytes {
        Bytes(4 * u64::from(self.bk) * (u64::from(self.bm) + u64::from(self.bn)))
    }

    /// Work-groups for a product of these extents, along the columns and the rows of C.
    #[must_use]
    pub(crate) fn blocks(&self, dims: Dims) -> [u64; 2] {
        [dims.n.div_ceil(u64::from(self.bn)), dims.m.div_ceil(u64::from(self.bm))]
    }

    /// Whether the kernels can be cut up like this on `device`.
    ///
    /// # Errors
    /// What does not divide, or which limit of the device is exceeded.
    pub fn legal(&self, device: &DeviceInfo) -> Result<(), String> {
        let Self { bm, bn, bk, wm, wn, tm, tn } = *self;
        let fits = |part: u32, whole: u32| part > 0 && whole.is_multiple_of(part);
        for (part, whole, what) in [
            (tm, wm, "the rows of an invocation must divide those of its warp"),
            (tn, wn, "the columns of an invocation must divide those of its warp"),
            (wm, bm, "the rows of a warp must divide those of the work-group"),
            (wn, bn, "the columns of a warp must divide those of the work-group"),
            (self.invocations(), bm * bk, "the invocations must divide a slab of A"),
            (self.invocations(), bk * bn, "the invocations must divide a slab of B"),
        ] {
            if !fits(part, whole) {
                return Err(format!("{what}: {part} does not divide {whole}"));
            }
        }
        let limits = &device.limits;
        if self.invocations() > limits.group_invocations.min(limits.group_size[0]) {
            return Err(format!(
                "needs {} invocations; the device has at most {} in a group",
                self.invocations(),
                limits.group_invocations
            ));
        }
        if self.shared_bytes() > limits.shared_memory {
            return Err(format!(
                "needs {} of shared memory; the device has {}",
                self.shared_bytes(),
                limits.shared_memory
            ));
        }
        Ok(())
    }
}

/// The tiles of a variant, the largest first.
pub(super) struct Choice {
    /// For GPUs.
    pub(super) gpu: &'static [Tile],
    /// For software devices, whose shared memory is ordinary memory: only registers count.
    pub(super) software: Tile,
}

/// Cores (streaming multiprocessors, compute units) that a GPU is assumed to have: Vulkan does not tell.
const CORES: u64 = 132;

impl Choice {
    /// The largest legal tile that still gives every two cores three work-groups, so that no core idles for long when
    /// the work-groups run out; else the smallest legal one. Where none is legal the last, which the check of the
    /// program's limits then refuses.
    pub(super) fn of(&self, dims: Dims, device: &DeviceInfo) -> Tile {
        if device.kind == DeviceKind::Cpu {
            return self.software;
        }
        let legal: Vec<_> = self.gpu.iter().filter(|tile| tile.legal(device).is_ok()).collect();
        let busy = |tile: &Tile| tile.blocks(dims).iter().product::<u64>() >= CORES * 3 / 2;
        let chosen = legal.iter().copied().find(|tile| busy(tile)).or(legal.last().copied());
        *chosen.unwrap_or(&self.gpu[self.gpu.len() - 1])
    }
}
