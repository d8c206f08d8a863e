//! Dispatches shared by several variants: A, B and C as arguments, and a work-group per block of C.

use super::{evenly, parts};
use crate::algorithms::product_tile::load_width;
use crate::elements::{arguments, groups_over};
use crate::prelude::*;

/// Returns the lengths of the rows of A and of B as stored.
pub(super) fn row_lengths(case: &CaseSpec) -> [u64; 2] {
    let Dims { m, n, k } = Dims::from(case.size);
    match case.layout {
        Layout::Nn => [k, n],
        Layout::Nt => [k, k],
        Layout::Tn => [m, n],
    }
}

/// Returns how many elements of rows of `length` can be accessed at once, wherever a row starts: the largest power of
/// two that divides `length`, at most the elements in 16 bytes.
pub(super) fn step(length: u64, dtype: DType) -> u32 {
    1 << length.trailing_zeros().min(load_width(dtype).ilog2())
}

/// Returns the number of blocks of C.
pub(super) fn count_blocks(tile: &ProductTile, dims: Dims) -> u64 {
    tile.blocks(dims).iter().product()
}

/// Builds a dispatch of one work-group per block of C, with the constants of every tiled kernel.
pub(super) fn block_per_group(
    shader: &'static Shader,
    tile: ProductTile,
    invocations: u32,
    dims: Dims,
    device: &DeviceInfo,
) -> Dispatch {
    product(shader, dims, &[])
        .groups(groups_over([dims.n, dims.m], [tile.bn, tile.bm], device))
        .group_size([invocations, 1, 1])
        .constant("BM", tile.bm)
        .constant("BN", tile.bn)
        .constant("BK", tile.bk)
}

/// Builds a dispatch of a product, with A, B, C, the extents, and texel views as arguments. Callers set the grid.
/// Arguments of kernels that split K or share blocks get placeholders, which `parts::program` and `evenly::program`
/// replace.
pub(super) fn product(shader: &'static Shader, dims: Dims, views: &[(&str, BufferId)]) -> Dispatch {
    let buffers = [&[("A", BufferId(0)), ("B", BufferId(1)), ("C", BufferId(2))], views].concat();
    let mut arguments = arguments(&buffers, &[("M", dims.m), ("N", dims.n), ("K", dims.k)]);
    arguments.extend(parts::placeholder(shader));
    arguments.extend(evenly::placeholders(shader));
    Dispatch::new(shader, &arguments)
}
