//! Dispatches shared by several variants: A, B and C as arguments, and a work-group per block of C.

use super::{evenly, parts};
use crate::algorithms::CaseSpec;
use crate::algorithms::product_tile::Dims;
use crate::algorithms::product_tile::{ProductTile, load_width};
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::device::capability::DeviceInfo;
use crate::elements::groups_over;
use crate::kernel::program::{ArgumentValue, BufferId, Dispatch};
use crate::kernel::shaders::Shader;

/// Returns the row lengths of A and B as stored.
pub(super) fn row_lengths(case: &CaseSpec) -> [u64; 2] {
    let Dims { m, n, k } = Dims::from(case.size);
    match case.layout {
        Layout::Nn => [k, n],
        Layout::Nt => [k, k],
        Layout::Tn => [m, n],
    }
}

/// Returns the largest power of two that divides `length`, at most the elements in 16 bytes.
pub(super) fn step(length: u64, dtype: DType) -> u32 {
    1 << length.trailing_zeros().min(load_width(dtype).ilog2())
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

/// Builds a dispatch without a grid, with A, B, C, the extents, and texel views as arguments.
pub(super) fn product(shader: &'static Shader, dims: Dims, views: &[(&str, BufferId)]) -> Dispatch {
    let [a, b, c] = [0, 1, 2].map(|index| ArgumentValue::Buffer(BufferId(index)));
    // `Dims` come from sizes below 2^31.
    let [m, n, k] = [dims.m, dims.n, dims.k].map(|extent| ArgumentValue::U32(extent as u32));
    let views = views.iter().map(|(name, id)| (*name, ArgumentValue::Buffer(*id)));
    let arguments = [("A", a), ("B", b), ("C", c), ("M", m), ("N", n), ("K", k)];
    let arguments = arguments.into_iter().chain(views);
    let arguments = arguments.chain(parts::argument(shader)).chain(evenly::arguments(shader));
    Dispatch::new(shader, &arguments.collect::<Vec<_>>())
}
