//! Work-groups that share the blocks of C evenly: see `matmul-evenly.glsl`. The slabs of all blocks form one sequence,
//! and each group computes a stretch of it. The product kernel stores blocks computed by one group, and leaves partial
//! sums of others in slots, two per group; a second pass adds them.

use super::grid::count_blocks;
use super::parts::{OPERANDS, STRIP, SUMMING_INVOCATIONS, invocations_per_quad};
use crate::elements::{arguments, groups_over, scratch};
use crate::prelude::*;

/// Buffer of partial sums, behind A, B and C.
const SUMS: BufferId = BufferId(OPERANDS);

/// Slabs of all blocks in sequence, divided into one stretch per group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretches {
    blocks: u64,
    /// Slabs per block.
    slabs: u64,
    /// Work-groups, of one stretch each.
    pub(super) groups: u64,
}

impl Stretches {
    /// Divides a product among the groups of its tile.
    pub(super) fn of_tile(tile: &ProductTile, dims: Dims) -> Self {
        Self { blocks: count_blocks(tile, dims), slabs: tile.slabs(dims.k), groups: u64::from(tile.groups.max(1)) }
    }

    /// Checks that `groups` groups can share the blocks of a tile.
    pub(super) fn check_groups(tile: &ProductTile, dims: Dims, groups: u32) -> Result<(), String> {
        let Self { blocks, slabs, .. } = Self::of_tile(tile, dims);
        let groups = u64::from(groups);
        let all_slabs = blocks.saturating_mul(slabs);
        if groups > all_slabs {
            return Err(format!("has more groups than there are slabs of all blocks, {all_slabs}"));
        }
        let sums = 2 * groups * u64::from(tile.bm) * u64::from(tile.bn);
        if all_slabs.saturating_mul(groups).max(sums) > u64::from(u32::MAX) {
            return Err("has more slabs times groups, or sums, than 32 bits count".into());
        }
        Ok(())
    }

    /// Returns the slabs in the longest stretch.
    pub(super) fn longest(&self) -> u64 {
        (self.blocks * self.slabs).div_ceil(self.groups)
    }

    /// Returns an upper bound, at most one too large, of the blocks that a stretch touches.
    pub(super) fn blocks_of_longest(&self) -> u64 {
        let longest = self.longest();
        let slabs = self.slabs.max(1);
        let ends_with_blocks = self.blocks.is_multiple_of(self.groups) || self.groups.is_multiple_of(self.blocks);
        longest.div_ceil(slabs) + u64::from(!ends_with_blocks)
    }

    /// Returns the most groups that share a block.
    pub(super) fn sharers(&self) -> u64 {
        self.slabs.div_ceil((self.blocks * self.slabs / self.groups).max(1)) + 1
    }

    /// Returns an upper bound of the partial sums of shared blocks; exact if groups are a multiple of blocks, or blocks
    /// of groups.
    pub(super) fn sums(&self) -> u64 {
        if self.blocks.is_multiple_of(self.groups) {
            return 0;
        }
        if self.groups.is_multiple_of(self.blocks) {
            return self.groups;
        }
        // A block with j boundaries between stretches inside has j + 1 sums, and blocks without boundaries have none.
        let boundaries = self.groups - 1;
        boundaries + boundaries.min(self.blocks)
    }
}

/// Builds the program of a product. `kernels` are the kernel with one group per block, the one with shared blocks, and
/// the one that adds partial sums; `product` builds a dispatch of one of the first two.
pub(super) fn program(
    kernels: &[&'static Shader],
    tile: ProductTile,
    case: &CaseSpec,
    device: &DeviceInfo,
    product: impl FnOnce(&'static Shader) -> Dispatch,
) -> Program {
    let [whole, shared, sum] = *kernels else { unreachable!("the registry names three kernels") };
    if tile.groups == 0 {
        return Program::single(product(whole));
    }
    let dims = Dims::from(case.size);
    let stretches = Stretches::of_tile(&tile, dims);
    let product = product(shared)
        .argument("SUMS", ArgumentValue::Buffer(SUMS))
        .argument("GROUPS", ArgumentValue::U32(tile.groups))
        .constant("STRIP", rows_per_strip(device))
        .groups([stretches.groups, 1, 1])
        .loops(stretches.longest() + stretches.blocks_of_longest());
    let len = 2 * stretches.groups * u64::from(tile.bm) * u64::from(tile.bn);
    Program {
        steps: vec![Step::Dispatch(product), Step::Dispatch(second_pass(sum, &tile, dims, stretches, device))],
        scratch: vec![scratch("sums of shared blocks", case.dtype.of_sums(), len)],
        ..Program::default()
    }
}

/// Returns the arguments of kernels with shared blocks that `shader` takes; their values are placeholders that
/// [`program`] replaces.
pub(super) fn placeholders(shader: &'static Shader) -> Vec<(&'static str, ArgumentValue)> {
    let mut placeholders = vec![("SUMS", ArgumentValue::Buffer(SUMS)), ("GROUPS", ArgumentValue::U32(1))];
    placeholders.retain(|(name, _)| shader.interface.arguments.iter().any(|argument| argument.name == *name));
    placeholders
}

/// Returns the rows of blocks per strip of the grid. The number hardly matters on software devices, so there it is small
/// enough for small products to have several strips.
fn rows_per_strip(device: &DeviceInfo) -> u32 {
    if device.kind == DeviceKind::Cpu { 2 } else { STRIP as u32 }
}

/// Builds the second pass, which adds the partial sums of each block that several groups share.
fn second_pass(
    shader: &'static Shader,
    tile: &ProductTile,
    dims: Dims,
    stretches: Stretches,
    device: &DeviceInfo,
) -> Dispatch {
    let quads = u64::from(tile.bm) * u64::from(tile.bn) / 4;
    let group = SUMMING_INVOCATIONS.min(device.limits.group_invocations);
    let per_quad = invocations_per_quad(quads * stretches.blocks, stretches.sharers());
    let numbers = [("M", dims.m), ("N", dims.n), ("K", dims.k), ("GROUPS", u64::from(tile.groups))];
    Dispatch::new(shader, &arguments(&[("SUMS", SUMS), ("C", BufferId(2))], &numbers))
        .group_size([group, 1, 1])
        .groups(groups_over([quads, stretches.blocks], [group / per_quad, 1], device))
        .constant("DOWN", per_quad)
        .constant("STRIP", rows_per_strip(device))
        .constant("C_ALIGNED", u32::from(dims.n.is_multiple_of(4)))
        .constant("BM", tile.bm)
        .constant("BN", tile.bn)
        .constant("BK", tile.bk)
        .loops(stretches.sharers().div_ceil(u64::from(per_quad)) + u64::from(per_quad))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;
    use crate::matmul::MATMUL;

    const TILE: ProductTile = ProductTile::new([32, 32, 8], [16, 32], [8, 8]);

    fn program(size: Size, groups: u32) -> Program {
        let case = CaseSpec { tile: Some(TILE.with_groups(groups).into()), ..CaseSpec::new(&MATMUL, size, DType::F32) };
        crate::fixture::program(&MATMUL, "tiled", &case, &software_device())
    }

    /// Returns the blocks that each group touches, by walking its stretch as the kernel does.
    fn walked(stretches: &Stretches) -> Vec<Vec<u64>> {
        let Stretches { blocks, slabs, groups } = *stretches;
        let first = |group: u64| group * blocks * slabs / groups;
        let touched_blocks = |group| {
            let mut touched: Vec<_> = (first(group)..first(group + 1)).map(|slab| slab / slabs).collect();
            touched.dedup();
            touched
        };
        (0..groups).map(touched_blocks).collect()
    }

    #[test]
    fn what_is_said_of_stretches_is_what_a_walk_along_them_finds() {
        for (blocks, slabs, groups) in
            (1..9).flat_map(|b| (1..9).flat_map(move |s| (1..=b * s).map(move |g| (b, s, g))))
        {
            let stretches = Stretches { blocks, slabs, groups };
            let walked = walked(&stretches);
            let most = walked.iter().map(|own| own.len() as u64).max().expect("a group");
            assert!([most, most + 1].contains(&stretches.blocks_of_longest()), "{stretches:?}: {most}");
            let groups_of = |block: u64| walked.iter().filter(|own| own.contains(&block)).count() as u64;
            let sharers: Vec<u64> = (0..blocks).map(groups_of).collect();
            let most = sharers.iter().copied().max().expect("a block");
            let is_even = (blocks * slabs).is_multiple_of(groups);
            assert!(most <= stretches.sharers(), "{stretches:?}: {most}");
            assert!(!is_even || stretches.sharers() <= most + 1, "{stretches:?}: {most}");
            let sums: u64 = sharers.iter().filter(|groups| **groups > 1).sum();
            assert!(sums <= stretches.sums(), "{stretches:?}: {sums}");
            // Two slots per group suffice: blocks between its first and its last are entirely its own.
            for own in &walked {
                let mut between = own.iter().skip(1).rev().skip(1);
                assert!(between.all(|block| groups_of(*block) == 1), "{stretches:?}: {own:?}");
            }
        }
        let sums = |groups| Stretches { blocks: 8, slabs: 6, groups }.sums();
        assert_eq!([1, 4, 7, 24, 48].map(sums), [0, 0, 12, 24, 48]);
    }

    #[test]
    fn groups_that_share_blocks_are_a_product_with_slots_and_a_second_pass() {
        let size = Size::Three(33, 31, 800);
        let whole = program(size, 0);
        assert_eq!((whole.dispatches().count(), whole.scratch.len()), (1, 0));
        let shared = program(size, 7);
        let [product, sum] = shared.dispatches().collect::<Vec<_>>()[..] else { panic!("two dispatches") };
        assert_eq!((product.groups, shared.scratch[0].len), ([7, 1, 1], 2 * 7 * 1024));
        // Two blocks of 100 slabs: 29 per group, in at most two blocks. Both passes see the sums, and write C.
        assert_eq!(product.loop_iterations, 29 + 2);
        for pass in [product, sum] {
            assert!([2, 3].iter().all(|id| pass.buffers().any(|buffer| buffer == BufferId(*id))));
        }
        // A block of 256 quads, each added up by two of a group's 256 invocations.
        assert_eq!(sum.groups, [1, 2, 1]);
    }

    #[test]
    fn more_groups_than_slabs_or_than_32_bits_count_are_refused() {
        let refused = |size, groups| {
            let case = CaseSpec::new(&MATMUL, size, DType::F32);
            Stretches::check_groups(&TILE, Dims::from(case.size), groups).err()
        };
        assert_eq!(refused(Size::Three(33, 31, 800), 200), None);
        let message = refused(Size::Three(33, 31, 800), 201).expect("too many");
        assert_eq!(message, "has more groups than there are slabs of all blocks, 200");
        assert!(
            refused(Size::Three(1 << 20, 1 << 20, 1 << 10), 264).is_some_and(|message| message.contains("32 bits"))
        );
    }
}
