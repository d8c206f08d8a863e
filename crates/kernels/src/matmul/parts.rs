//! Products split along K: the groups of a part sum up only a range of K. The product kernel stores the sums of each
//! part, and a second pass adds them, in quads: four neighboring elements of C at a time.

use crate::algorithms::product_tile::stored;
use crate::elements::{buffer, number, scratch};
use crate::kernel::program::folded_groups;
use crate::prelude::*;

/// Parts that an invocation of the second pass reads at once, equal to its kernel's constant.
const PARTS_PER_READ: u32 = 4;
/// Name of the argument with the number of parts. Not a specialization constant, to avoid recompilation for each
/// number.
const PARTS: &str = "PARTS";
/// Buffers of a product: A, B and C.
pub(super) const OPERANDS: usize = 3;
/// Work-group size of the second pass.
pub(super) const SUMMING_INVOCATIONS: u32 = 256;
/// Invocations of the second pass that occupy a large device.
const OCCUPYING_INVOCATIONS: u64 = 1 << 16;
/// Most invocations that add up a quad of C together.
const MAX_INVOCATIONS_PER_QUAD: u64 = 32;

/// Builds the program of a product. `kernels` are the kernel for the whole of K, the one for parts of K, and the one
/// that adds the parts; `product` builds a program from one of the first two, whose last step computes C.
pub(super) fn program(
    kernels: &[&'static Shader],
    tile: ProductTile,
    case: &CaseSpec,
    device: &DeviceInfo,
    product: impl FnOnce(&'static Shader) -> Program,
) -> Program {
    let [whole, parts, sum] = *kernels else { unreachable!("the registry names three kernels") };
    if tile.k_parts == 1 {
        return product(whole);
    }
    let mut program = product(parts);
    let Dims { m, n, .. } = Dims::from(case.size);
    let elements = m * n;
    // Each part starts at a quad.
    let len = u64::from(tile.k_parts) * elements.next_multiple_of(4);
    let sums = BufferId(OPERANDS + program.scratch.len());
    let dtype = stored(case.dtype, &tile);
    program.scratch.push(scratch("sums of parts", dtype, len));
    if let Some(Step::Dispatch(last)) = program.steps.pop() {
        let product = last.argument("C", ArgumentValue::Buffer(sums)).argument(PARTS, ArgumentValue::U32(tile.k_parts));
        program.steps.push(Step::Dispatch(product));
    }
    program.steps.push(Step::Dispatch(second_pass(sum, sums, elements, tile.k_parts, device)));
    program
}

/// Returns the argument [`PARTS`] if `shader` has it; its value is a placeholder that [`program`] replaces.
pub(super) fn placeholder(shader: &'static Shader) -> Option<(&'static str, ArgumentValue)> {
    let has_parts = shader.interface.arguments.iter().any(|argument| argument.name == PARTS);
    has_parts.then_some((PARTS, ArgumentValue::U32(1)))
}

/// Rows of blocks of C per strip in `tiled`'s grid: with 128 rows per block, the groups that run concurrently on a large
/// GPU (some 264) then cover about 1024 rows and 4096 columns.
pub(super) const STRIP: u64 = 8;

/// Returns the grid of work-groups in strips of [`STRIP`] rows of blocks, which advance through the columns of C together
/// (see `tiled.comp`); the strips of one part of K follow those of the previous part.
pub(super) fn strip_grid(tile: ProductTile, dims: Dims, device: &DeviceInfo) -> [u64; 3] {
    let [across, down] = tile.blocks(dims);
    // At most as many strips as the grid's axis allows, and none taller than the matrix.
    let parts = u64::from(tile.k_parts.max(1));
    let strips = down.div_ceil(STRIP).min(u64::from(device.limits.group_count[2]) / parts).max(1);
    [down.div_ceil(strips), across, strips * parts]
}

/// Returns the slabs in the longest part.
pub(super) fn slabs_per_part(tile: ProductTile, k: u64) -> u64 {
    tile.slabs(k).div_ceil(u64::from(tile.k_parts.max(1)))
}

/// Builds the second pass, which adds the `parts` sums of each of the `elements` of C.
fn second_pass(shader: &'static Shader, sums: BufferId, elements: u64, parts: u32, device: &DeviceInfo) -> Dispatch {
    let quads = elements.div_ceil(4);
    let group = SUMMING_INVOCATIONS.min(device.limits.group_invocations);
    let per_quad = invocations_per_quad(quads, u64::from(parts));
    let sums = ArgumentValue::Buffer(sums);
    let arguments = [("SUMS", sums), ("C", buffer(2)), ("COUNT", number(elements)), (PARTS, ArgumentValue::U32(parts))];
    Dispatch::new(shader, &arguments)
        .group_size([group, 1, 1])
        .groups(in_groups(quads.div_ceil(u64::from(group / per_quad)), device))
        .constant("DOWN", per_quad)
        .loops(u64::from(parts.div_ceil(per_quad) + per_quad))
}

/// Returns how many invocations of a second pass add up a quad of `parts` parts together. Several do if there are too
/// few `quads` to occupy the device; each needs at least one full read. The kernels require a power of two.
pub(super) fn invocations_per_quad(quads: u64, parts: u64) -> u32 {
    let to_occupy_device = (OCCUPYING_INVOCATIONS / quads.max(1)).clamp(1, MAX_INVOCATIONS_PER_QUAD);
    let with_full_reads = (parts / u64::from(PARTS_PER_READ)).max(1);
    let most = to_occupy_device.min(with_full_reads);
    // The largest power of two not above.
    1 << most.ilog2()
}

/// Work-groups along x of a one-dimensional grid that is folded because the device limits each axis.
const GROUPS_PER_ROW: u64 = 1 << 15;

/// Returns the grid of `count` work-groups in one dimension, folded into rows of [`GROUPS_PER_ROW`].
pub(super) fn in_groups(count: u64, device: &DeviceInfo) -> [u64; 3] {
    let groups = count.max(1);
    let [y, z] = folded_groups(groups.div_ceil(GROUPS_PER_ROW), device.limits.group_count[1]);
    [groups.min(GROUPS_PER_ROW), y, z]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::Feature;
    use crate::device::fixture::{gpu, matrix, software_device};
    use crate::matmul::MATMUL;
    use crate::shaders::find;

    fn program(size: Size, k_parts: u32) -> Program {
        let tile = ProductTile { wm: 16, wn: 16, ..ProductTile::flat([32, 32, 16], [16, 16]) }.with_k_parts(k_parts);
        let case = CaseSpec { tile: Some(tile.into()), ..CaseSpec::new(&MATMUL, size, DType::F16) };
        let mut device = gpu();
        device.features = Feature::ALL.iter().copied().collect();
        device.cooperative_matrices = vec![matrix([16; 3], "f16", "f32")];
        crate::fixture::program(&MATMUL, "coopmat", &case, &device)
    }

    #[test]
    fn one_part_is_a_product_and_several_are_one_to_memory_and_a_second_pass() {
        let whole = program(Size::Three(33, 31, 1600), 1);
        assert_eq!((whole.dispatches().count(), whole.scratch.len()), (1, 0));
        let cut = program(Size::Three(33, 31, 1600), 5);
        let [product, sum] = cut.dispatches().collect::<Vec<_>>()[..] else { panic!("two dispatches") };
        assert_eq!((product.groups, cut.scratch[0].len), ([2, 1, 5], 5 * 1024), "33·31 elements are 1023");
        let uses = |pass: &Dispatch, id| pass.buffers().any(|buffer| buffer == BufferId(id));
        assert!(uses(product, 3) && !uses(product, 2) && uses(sum, 3) && uses(sum, 2));
        assert_eq!(cut.launches(), 2);
        // 100 slabs: in 5 parts; in 3, one of which has 34; in one.
        for (parts, slabs) in [(5, 20), (3, 34), (1, 100)] {
            let program = program(Size::Three(33, 31, 1600), parts);
            assert_eq!(program.dispatches().next().expect("a product").loop_iterations, slabs);
        }
    }

    #[test]
    fn more_invocations_share_an_element_the_fewer_there_are() {
        for (count, parts, expected) in
            [(64 * 64, 132, 32), (64 * 64, 5, 1), (1 << 20, 16, 1), (1, 2, 1), (256 * 256, 64, 4)]
        {
            let sum = find("matmul/sum-parts", DType::F32).expect("it is in glsl/matmul");
            let dispatch = second_pass(sum, BufferId(3), count, parts, &software_device());
            let groups: u64 = dispatch.groups.iter().product();
            let down = dispatch.word(2);
            assert_eq!(down, Some(expected), "{count} in {parts}");
            let across = u64::from(256 / expected);
            assert!(groups * across * 4 >= count && (groups - 1) * across * 4 < count, "{count}: {groups}");
        }
    }
}
