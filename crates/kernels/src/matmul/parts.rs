//! Products split along K: the product kernel stores the sums of each part, and a second pass adds them.

use crate::algorithms::CaseSpec;
use crate::algorithms::product_tile::Dims;
use crate::algorithms::product_tile::{ProductTile, stored};
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{ArgumentValue, BufferId, Dispatch, Program, Step, folded_groups};
use crate::kernel::shaders::Shader;

/// Parts that an invocation of the second pass reads at once, equal to its kernel's constant.
const PARTS_PER_READ: u32 = 4;
/// Name of the argument with the number of parts. Not a specialization constant, to avoid recompilation for each
/// number.
const PARTS: &str = "PARTS";
/// Buffers of a product: A, B and C.
pub(super) const OPERANDS: usize = 3;
/// Work-group size of the second pass.
pub(super) const SUMMING: u32 = 256;
/// Invocations of the second pass that occupy a large device.
const OCCUPYING_INVOCATIONS: u64 = 1 << 16;
/// Most invocations that share a quad of C.
const MAX_SHARING: u64 = 32;

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
    let count = m * n;
    // Each part starts at a quad.
    let len = u64::from(tile.k_parts) * count.next_multiple_of(4);
    let sums = BufferId(OPERANDS + program.scratch.len());
    let dtype = stored(case.dtype, &tile);
    program.scratch.push(BufferSpec::new("sums of parts", Role::Scratch, dtype, len));
    if let Some(Step::Dispatch(last)) = program.steps.pop() {
        let product = last.argument("C", ArgumentValue::Buffer(sums)).argument(PARTS, ArgumentValue::U32(tile.k_parts));
        program.steps.push(Step::Dispatch(product));
    }
    program.steps.push(Step::Dispatch(added_up(sum, sums, count, tile.k_parts, device)));
    program
}

/// Returns the parts argument of kernels that have one; its value is a placeholder that [`program`] replaces.
pub(super) fn argument(shader: &'static Shader) -> Option<(&'static str, ArgumentValue)> {
    shader.interface.arguments.iter().any(|argument| argument.name == PARTS).then_some((PARTS, ArgumentValue::U32(1)))
}

/// Block rows of C per strip in `tiled`'s grid: with 128 rows per block, the groups that run concurrently on a large
/// GPU (some 264) then cover about 1024 rows and 4096 columns.
pub(super) const STRIP: u64 = 8;

/// Returns the grid of work-groups in strips of block rows, which advance through the columns of C together (see
/// `tiled.comp`); the strips of one part of K follow those of the previous part.
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

/// Builds the second pass. For a small C, several invocations share a quad, so that many parts are read at once.
fn added_up(shader: &'static Shader, sums: BufferId, count: u64, parts: u32, device: &DeviceInfo) -> Dispatch {
    let quads = count.div_ceil(4);
    let group = SUMMING.min(device.limits.group_invocations);
    let down = sharing(quads, u64::from(parts));
    let arguments = [
        ("SUMS", ArgumentValue::Buffer(sums)),
        ("C", ArgumentValue::Buffer(BufferId(2))),
        ("COUNT", number(count)),
        (PARTS, ArgumentValue::U32(parts)),
    ];
    Dispatch::new(shader, &arguments)
        .group_size([group, 1, 1])
        .groups(in_groups(quads.div_ceil(u64::from(group / down)), device))
        .constant("DOWN", down)
        .loops(u64::from(parts.div_ceil(down) + down))
}

/// Returns how many invocations add up a quad with `parts` parts, for `quads` quads: a power of two.
pub(super) fn sharing(quads: u64, parts: u64) -> u32 {
    let wanted =
        (OCCUPYING_INVOCATIONS / quads.max(1)).clamp(1, MAX_SHARING).min((parts / u64::from(PARTS_PER_READ)).max(1));
    1 << wanted.ilog2()
}

/// Converts a count to an argument. It fits in 32 bits if the buffers do; programs with longer buffers are refused.
pub(super) fn number(value: u64) -> ArgumentValue {
    ArgumentValue::U32(u32::try_from(value).unwrap_or(u32::MAX))
}

/// Returns the folded one-dimensional grid of `count` work-groups.
pub(super) fn in_groups(count: u64, device: &DeviceInfo) -> [u64; 3] {
    let groups = count.max(1);
    let [y, z] = folded_groups(groups.div_ceil(ROW_OF_GROUPS), device.limits.group_count[1]);
    [groups.min(ROW_OF_GROUPS), y, z]
}

/// Work-groups along x of a folded one-dimensional grid.
const ROW_OF_GROUPS: u64 = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::dtype::DType;
    use crate::basis::size::Size;
    use crate::device::capability::Feature;
    use crate::device::fixture::{gpu, matrix, software_device};
    use crate::matmul::MATMUL;
    use crate::shaders::find;

    fn program(size: Size, k_parts: u32) -> Program {
        let tile = ProductTile { wm: 16, wn: 16, ..ProductTile::flat([32, 32, 16], [16, 16]) }.with_k_parts(k_parts);
        let case = CaseSpec { tile: Some(tile.into()), ..CaseSpec::new(&MATMUL, size, DType::F16) };
        let coopmat = MATMUL.variant("coopmat").expect("it is in the table");
        let mut device = gpu();
        device.features = Feature::ALL.iter().copied().collect();
        device.cooperative_matrices = vec![matrix([16; 3], "f16", "f32")];
        coopmat.program(&case, &device).expect("it runs on a device with matrices")
    }

    #[test]
    fn one_part_is_a_product_and_several_are_one_to_memory_and_a_second_pass() {
        let whole = program(Size::Three(33, 31, 1600), 1);
        assert_eq!((whole.dispatches().count(), whole.scratch.len()), (1, 0));
        let cut = program(Size::Three(33, 31, 1600), 5);
        let [product, sum] = cut.dispatches().collect::<Vec<_>>()[..] else { panic!("two dispatches") };
        assert_eq!((product.groups, cut.scratch[0].len), ([2, 1, 5], 5 * 1024), "33·31 elements are 1023");
        let sees = |pass: &Dispatch, id| pass.buffers().any(|buffer| buffer == BufferId(id));
        assert!(sees(product, 3) && !sees(product, 2) && sees(sum, 3) && sees(sum, 2));
        assert_eq!(cut.launches(), 2);
        // 100 slabs: in 5 parts; in 3, one of which has 34; in one.
        assert_eq!(
            [5, 3, 1]
                .map(|parts| program(Size::Three(33, 31, 1600), parts).dispatches().next().map(|d| d.loop_iterations)),
            [20, 34, 100].map(Some)
        );
    }

    #[test]
    fn more_invocations_share_an_element_the_fewer_there_are() {
        for (count, parts, expected) in
            [(64 * 64, 132, 32), (64 * 64, 5, 1), (1 << 20, 16, 1), (1, 2, 1), (256 * 256, 64, 4)]
        {
            let sum = find("matmul/sum-parts", DType::F32).expect("it is in glsl/matmul");
            let dispatch = added_up(sum, BufferId(3), count, parts, &software_device());
            let groups: u64 = dispatch.groups.iter().product();
            let down = dispatch.word(2);
            assert_eq!(down, Some(expected), "{count} in {parts}");
            let across = u64::from(256 / expected);
            assert!(groups * across * 4 >= count && (groups - 1) * across * 4 < count, "{count}: {groups}");
        }
    }
}
