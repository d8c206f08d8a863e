//! Selection of the built-in tile for a case, and the search space for the best one.

use super::constants::{Constants, Pace};
use super::division::{BlockDivision, TileTable};
use super::model::{Slab, predicted};
use super::parts::slabs_per_part;
use crate::algorithms::product_tile::Dims;
use crate::algorithms::product_tile::ProductTile;
use crate::algorithms::tile::Tiles;
use crate::algorithms::{CaseSpec, tile};
use crate::basis::dtype::DType;
use crate::basis::units::Nanos;
use crate::device::capability::{Accumulator, DeviceInfo, DeviceKind};
use std::iter;

/// Assumed number of cores (streaming multiprocessors, compute units) of a GPU and of a software device: Vulkan does
/// not report it.
const CORES: [u64; 2] = [132, 8];

impl TileTable {
    /// Returns the tile of a case: the requested one, or else the built-in one.
    pub(super) fn for_case(&self, case: &CaseSpec, device: &DeviceInfo) -> ProductTile {
        match case.tile {
            Some(tile::Tile::Product(tile)) => tile,
            _ => self.built_in(case, device),
        }
    }

    /// Returns the built-in tile within the device's limits: the fastest by the [model](super::model) if it covers the
    /// kernel. Otherwise the largest tile that idles at most a quarter of all cores' time; if there is none, the
    /// smallest, with parts of K for the idle cores, or with its blocks shared evenly. If no tile is within the limits,
    /// returns the last, which the program's check then refuses.
    pub(super) fn built_in(&self, case: &CaseSpec, device: &DeviceInfo) -> ProductTile {
        let legal = |tile: &ProductTile| self.division.legal(tile, case, device).is_ok();
        if self.division.is_modelled(device) {
            let subdivided_tiles = self.subdivided_tiles(case, device);
            let rank = |tile: &ProductTile| rank(time(self.division, tile, case, device), Some((*tile).into()));
            let best = subdivided_tiles.iter().copied().filter(legal).min_by_key(rank);
            return best.unwrap_or(subdivided_tiles[subdivided_tiles.len() - 1]);
        }
        let cores = CORES[usize::from(device.kind == DeviceKind::Cpu)];
        let dims = Dims::from(case.size);
        let busy = |tile: &ProductTile| {
            let blocks = tile.blocks(dims).iter().product::<u64>();
            4 * blocks >= 3 * blocks.div_ceil(cores) * cores
        };
        let tiles: Vec<ProductTile> = self.tiles(case, device).collect();
        let fitting = || tiles.iter().filter(|tile| legal(tile));
        let tile = *fitting().find(|tile| busy(tile)).or(fitting().next_back()).unwrap_or(&tiles[tiles.len() - 1]);
        let blocks = tile.blocks(dims).iter().product::<u64>().max(1);
        let slabs = tile.slabs(dims.k) / 4;
        if self.division.shares() && !busy(&tile) && slabs > 1 {
            return tile.with_groups(cores.min(blocks * slabs) as u32);
        }
        let parts = (cores / blocks).min(slabs).max(1);
        if self.division.cuts_k() { tile.with_k_parts(parts as u32) } else { tile }
    }

    /// Returns the tiles for a case, each with every plausible number of parts.
    pub(super) fn subdivided_tiles(&self, case: &CaseSpec, device: &DeviceInfo) -> Vec<ProductTile> {
        self.tiles(case, device).flat_map(|tile| subdivisions(tile, self.division, case, device)).collect()
    }

    /// Returns the plausible subdivisions of a block.
    fn parts(&self, case: &CaseSpec, device: &DeviceInfo, [bm, bn, bk]: [u32; 3]) -> Vec<ProductTile> {
        let lanes = case.subgroup_size(device);
        let fits = |[wm, wn]: &[u32; 2]| bm.is_multiple_of(*wm) && bn.is_multiple_of(*wn);
        match self.division {
            BlockDivision::Columns => vec![],
            BlockDivision::Quads | BlockDivision::Warps => {
                // A lane's sums occupy registers, and its multiply-adds per slab are unrolled code. On a software
                // device, spilled sums cost less than the reads they save.
                let software = device.kind == DeviceKind::Cpu;
                let (most_sums, most_code) = if software { (1 << 10, 1 << 14) } else { (1 << 7, 1 << 12) };
                // Depths between powers of two make better use of shared memory for matrix units only.
                let affordable =
                    |[tm, tn]: &[u32; 2]| tm * tn <= most_sums && tm * tn * bk <= most_code && bk.is_power_of_two();
                let warps = |[tm, tn]: [u32; 2]| match self.division {
                    BlockDivision::Warps => {
                        (0..=lanes.ilog2()).map(|power| [tm << power, tn * (lanes >> power)]).collect()
                    }
                    _ => vec![[bm, bn]],
                };
                let lanes = pairs(&LANES).filter(affordable);
                let tiles = lanes.flat_map(|[tm, tn]| {
                    warps([tm, tn])
                        .into_iter()
                        .filter(fits)
                        .map(move |warp| ProductTile::new([bm, bn, bk], warp, [tm, tn]))
                });
                tiles.collect()
            }
            BlockDivision::Matrices(_) | BlockDivision::Halves => {
                let (_, part) = self.division.matrices(case.dtype, device).expect("it has matrices");
                // 32-bit sums take a whole register each.
                let narrow = self.division == BlockDivision::Matrices(Accumulator::Narrow);
                let most = if narrow { 128 * 128 } else { 64 * 128 };
                let warps = pairs(&WARPS).filter(fits).filter(|[wm, wn]| wm * wn <= most);
                warps.map(|[wm, wn]| ProductTile::new([bm, bn, bk], [wm, wn], [part.m, part.n])).collect()
            }
            // The driver subdivides the block; only the number of invocations is a choice, expressed in warps.
            BlockDivision::Block(_) => {
                let warps = [[bm / 2, bn / 2], [bm / 2, bn / 4], [bm / 4, bn / 4]].into_iter();
                warps.filter(fits).map(|[wm, wn]| ProductTile::new([bm, bn, bk], [wm, wn], [16, 16])).collect()
            }
        }
    }
}

impl Tiles for TileTable {
    fn built_in(&self, case: &CaseSpec, device: &DeviceInfo) -> tile::Tile {
        Self::built_in(self, case, device).into()
    }

    fn legal(&self, tile: &tile::Tile, case: &CaseSpec, device: &DeviceInfo) -> Result<(), String> {
        match tile {
            tile::Tile::Product(tile) => self.division.legal(tile, case, device),
            tile::Tile::Columns(_) => Err("has no block of a product".into()),
        }
    }

    fn candidates(&self, case: &CaseSpec, device: &DeviceInfo) -> Vec<tile::Tile> {
        let oblong = |[bm, bn]: &[u32; 2]| bm.max(bn) <= &(MAX_ASPECT_RATIO * bm.min(bn));
        let blocks = pairs(&BLOCKS).filter(oblong).flat_map(|[bm, bn]| SLABS.map(|bk| [bm, bn, bk]));
        let tiles = self.tiles(case, device).chain(blocks.flat_map(|block| self.parts(case, device, block)));
        tiles.flat_map(|tile| subdivisions(tile, self.division, case, device)).map(Into::into).collect()
    }
}

/// Returns the sort key of a candidate: the predicted time, in steps smaller than which the model cannot resolve; then
/// one-pass products first. Sorting is stable, so ties keep the order of the tile table, which comes from searches.
pub(super) fn rank(predicted: Nanos, tile: Option<tile::Tile>) -> (i64, bool) {
    (
        (predicted.0.max(1.0).ln() / LOG_TIME_RESOLUTION).floor() as i64,
        matches!(tile, Some(tile::Tile::Product(tile)) if tile.takes_two_passes()),
    )
}

/// Logarithm of the ratio of times that the model cannot distinguish.
const LOG_TIME_RESOLUTION: f64 = 0.02;

/// Predicts the time of a tiled kernel.
fn time(division: BlockDivision, tile: &ProductTile, case: &CaseSpec, device: &DeviceInfo) -> Nanos {
    let constants = Constants::of(device);
    let slab = Slab::of(division, tile, case, device, &constants.machine);
    predicted(tile, slab, &pace(constants, division, tile, case), case, &constants.machine)
}

pub(super) fn pace(constants: &Constants, division: BlockDivision, tile: &ProductTile, case: &CaseSpec) -> Pace {
    let times = |pace: Pace, faster: f64| Pace { products: faster * pace.products, ..pace };
    match division {
        // GPUs multiply these types at half the rate at best.
        BlockDivision::Warps if matches!(case.dtype, DType::F64 | DType::I32) => times(constants.in_warps(tile), 0.5),
        BlockDivision::Warps => constants.in_warps(tile),
        BlockDivision::Quads => constants.quads,
        BlockDivision::Columns => constants.columns,
        // Bytes are multiplied at twice the rate.
        BlockDivision::Matrices(_) | BlockDivision::Halves if case.dtype == DType::I8 => times(constants.matrices, 2.0),
        BlockDivision::Matrices(Accumulator::Wide) => constants.in_matrices(tile),
        BlockDivision::Matrices(Accumulator::Narrow) | BlockDivision::Halves => constants.matrices,
        BlockDivision::Block(_) => constants.blocks,
    }
}

/// Returns a tile with every plausible number of parts of K, or of groups that share its blocks.
fn subdivisions(tile: ProductTile, division: BlockDivision, case: &CaseSpec, device: &DeviceInfo) -> Vec<ProductTile> {
    if division.shares() {
        return iter::once(tile).chain(plausible_groups(&tile, case, device)).collect();
    }
    plausible_parts(&tile, division, case, device).into_iter().map(|parts| tile.with_k_parts(parts)).collect()
}

/// Returns a tile with plausible numbers of groups: one to four per core, also rounded to a multiple of the blocks,
/// with at least two slabs per group.
fn plausible_groups(tile: &ProductTile, case: &CaseSpec, device: &DeviceInfo) -> Vec<ProductTile> {
    let dims = Dims::from(case.size);
    let blocks = tile.blocks(dims).iter().product::<u64>();
    let slabs = blocks * tile.slabs(dims.k);
    let of_cores = (1..=4).map(|groups| groups * Constants::of(device).machine.cores);
    let mut groups: Vec<_> = of_cores.flat_map(|groups| [groups, groups / blocks * blocks]).collect();
    groups.dedup();
    let worth_a_try = |groups: &u64| *groups > 0 && *groups != blocks && 2 * groups <= slabs;
    groups.into_iter().filter(worth_a_try).map(|groups| tile.with_groups(groups as u32)).collect()
}

/// Returns plausible numbers of parts of K for a tile: one, and those that give each core one to four work-groups, with
/// at least two slabs per part.
fn plausible_parts(tile: &ProductTile, division: BlockDivision, case: &CaseSpec, device: &DeviceInfo) -> Vec<u32> {
    let dims = Dims::from(case.size);
    let blocks = tile.blocks(dims).iter().product::<u64>().max(1);
    let most = (slabs_per_part(*tile, dims.k) / 2).min(MAX_PARTS);
    let mut parts = vec![1];
    if division.cuts_k() {
        for groups in 1..=4 {
            let wanted = groups * Constants::of(device).machine.cores / blocks;
            if wanted > 1 && wanted <= most && !parts.contains(&(wanted as u32)) {
                parts.push(wanted as u32);
            }
        }
    }
    parts
}

/// Most parts of K: beyond, adding them up costs more than they save.
const MAX_PARTS: u64 = 1024;

/// Candidate rows and columns of a block.
const BLOCKS: [u32; 7] = [16, 32, 64, 96, 128, 192, 256];
/// Candidate columns of a slab of A.
const SLABS: [u32; 5] = [8, 16, 32, 48, 64];
/// Candidate rows and columns per invocation.
const LANES: [u32; 4] = [4, 8, 16, 32];
/// Candidate rows and columns of a sub-group's matrices.
const WARPS: [u32; 6] = [16, 32, 48, 64, 96, 128];
/// Largest aspect ratio of a block: longer ones read too much for their number of multiply-adds.
const MAX_ASPECT_RATIO: u32 = 8;

/// Iterates over all pairs of `extents`.
fn pairs(extents: &'static [u32]) -> impl Iterator<Item = [u32; 2]> {
    extents.iter().flat_map(move |a| extents.iter().map(move |b| [*a, *b]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::tile::Tunable;
    use crate::basis::size::{Size, sweep};
    use crate::basis::units::Bytes;
    use crate::device::capability::{self, FlexibleMatrices, FlexibleMatrix};
    use crate::device::fixture::{matrix, software_device};
    use crate::kernel::program::Dispatch;
    use crate::matmul::MATMUL;
    use crate::matmul::units::{SPLIT, STAGED_NARROW, STAGED_WIDE, WORKGROUP_NARROW, WORKGROUP_WIDE};
    use crate::matmul::variants::{TILE_2D, TILED, TUNABLE};

    fn gpu() -> DeviceInfo {
        let mut device = crate::device::fixture::gpu();
        device.features = capability::Feature::ALL.iter().copied().collect();
        device.cooperative_matrices =
            vec![matrix([16; 3], "f16", "f16"), matrix([16; 3], "f16", "f32"), matrix([16, 16, 32], "i8", "i32")];
        let flexible = |accumulator: &str, invocations| FlexibleMatrix {
            granularity: [16; 3],
            input: "f16".into(),
            accumulator: accumulator.into(),
            scope: "workgroup".into(),
            invocations,
        };
        let sizes = [32, 64, 128, 256, 512];
        let halves = ["f16", "f32"].into_iter().flat_map(|a| sizes.map(|size| flexible(a, size)));
        let bytes =
            sizes.map(|size| FlexibleMatrix { granularity: [16, 16, 32], input: "i8".into(), ..flexible("i32", size) });
        let shapes = halves.chain(bytes).collect();
        device.flexible_matrices = Some(FlexibleMatrices { most_extent: 1024, shapes });
        device
    }

    fn choice(tunable: &Tunable) -> &'static TileTable {
        match tunable.variant {
            "tiled" => &TILED,
            "coopmat" => &STAGED_WIDE,
            "coopmat-narrow" => &STAGED_NARROW,
            "coopmat2" => &WORKGROUP_WIDE,
            "coopmat2-narrow" => &WORKGROUP_NARROW,
            "split" => &SPLIT,
            "vectorised" | "tile-2d" => &TILE_2D,
            other => panic!("{other} has no tiles"),
        }
    }

    /// Returns the tiles of a search.
    fn space(tunable: &Tunable, case: &CaseSpec, device: &DeviceInfo) -> Vec<ProductTile> {
        let product = |tile| match tile {
            tile::Tile::Product(tile) => tile,
            tile::Tile::Columns(_) => panic!("{} is no product", tunable.variant),
        };
        MATMUL.tiles(tunable, case, device).into_iter().map(product).collect()
    }

    /// Iterates over the variant's element types, one of each size.
    fn dtypes_of(tunable: &Tunable) -> impl Iterator<Item = DType> {
        let variant = MATMUL.variant(tunable.variant).expect("it is in the table");
        [DType::F32, DType::F16, DType::I8].into_iter().filter(|dtype| variant.supports(*dtype))
    }

    fn case(n: u64) -> CaseSpec {
        CaseSpec::new(&MATMUL, Size::Uniform(n), DType::F32)
    }

    #[test]
    fn the_space_has_the_built_in_tiles_and_legal_ones_alone_each_once() {
        for device in [software_device(), gpu()] {
            for (tunable, dtype) in
                TUNABLE.iter().flat_map(|tunable| dtypes_of(tunable).map(move |dtype| (tunable, dtype)))
            {
                let case = |n| case(n).with(|options| options.dtype = dtype);
                let space = space(tunable, &case(1024), &device);
                let matrices = device.cooperative_matrices.is_empty() && choice(tunable).division.needs_matrices();
                assert_eq!(space.is_empty(), matrices, "{}: {}", tunable.variant, space.len());
                assert!(matrices || space.len() > 40, "{}: {}", tunable.variant, space.len());
                for (index, tile) in space.iter().enumerate() {
                    assert_eq!(
                        choice(tunable).division.legal(tile, &case(1024), &device),
                        Ok(()),
                        "{}: {tile}",
                        tunable.variant
                    );
                    assert!(!space[..index].contains(tile), "{}: {tile} twice", tunable.variant);
                }
                // Tiles that the search would skip silently.
                for tile in choice(tunable).tiles(&case(1024), &device).filter(|_| !matrices) {
                    assert_eq!(
                        choice(tunable).division.legal(&tile, &case(1024), &device),
                        Ok(()),
                        "{} {dtype}",
                        tunable.variant
                    );
                }
                for n in [1, 128, 512, 1024, 2048, 8192] {
                    // Numbers of parts and groups depend on the size.
                    let built_in = choice(tunable).built_in(&case(n), &device).with_k_parts(1).with_groups(0);
                    assert!(matrices || space.contains(&built_in), "{} {n}: {built_in}", tunable.variant);
                }
            }
        }
    }

    #[test]
    fn verify_runs_the_tiles_of_large_products_at_their_edges() {
        let device = gpu();
        let sizes = sweep(MATMUL.verify_size.gpu).expect("a sweep");
        for tunable in TUNABLE {
            for dtype in dtypes_of(tunable) {
                let tile = |size| {
                    choice(tunable)
                        .built_in(&CaseSpec { size, ..case(1).with(|options| options.dtype = dtype) }, &device)
                        .with_k_parts(1)
                        .with_groups(0)
                };
                let large = tile(Size::Uniform(8192));
                let cut = |size: Size| {
                    let Dims { m, n, .. } = Dims::from(size);
                    !m.is_multiple_of(u64::from(large.bm)) && !n.is_multiple_of(u64::from(large.bn))
                };
                let seen = sizes.iter().any(|size| tile(*size) == large && cut(*size));
                assert!(seen, "{} {dtype}: {large}", tunable.variant);
                // Kernels that load and store single elements in some tiles.
                let odd = |size: &Size| Dims::from(*size).n % 2 == 1 && tile(*size).bm * tile(*size).bn >= 64 * 64;
                assert!(sizes.iter().any(odd), "{} {dtype}: rows that start at odd elements", tunable.variant);
            }
        }
    }

    #[test]
    fn a_small_device_has_a_small_space_and_every_tile_of_it_fits() {
        let mut device = gpu();
        device.limits.shared_memory = Bytes(16 << 10);
        device.limits.group_invocations = 128;
        let [small, large] = [&device, &gpu()].map(|device| space(&TUNABLE[0], &case(1024), device));
        assert!(!small.is_empty() && small.len() < large.len(), "{} of {}", small.len(), large.len());
        let [invocations, subdivisions] = [
            small.iter().map(|tile| u64::from(BlockDivision::Warps.invocations(tile, 32))).max(),
            small.iter().map(|tile| BlockDivision::Warps.shared_bytes(tile, &case(1024)).0).max(),
        ];
        assert!(invocations <= Some(128) && subdivisions <= Some(16 << 10), "{invocations:?} {subdivisions:?}");
    }

    #[test]
    fn warps_are_the_sub_groups_of_the_device() {
        let device = gpu();
        for tile in space(&TUNABLE[0], &case(1024), &device) {
            assert_eq!(tile.wm / tile.tm * (tile.wn / tile.tn), 32, "{tile}");
        }
    }

    #[test]
    fn the_built_in_tile_that_a_search_speaks_of_is_the_one_that_runs() {
        for device in [software_device(), gpu()] {
            for tunable in TUNABLE {
                let variant = MATMUL.variant(tunable.variant).expect("it is in the table");
                for (n, dtype) in [257, 1024, 4096].into_iter().flat_map(|n| dtypes_of(tunable).map(move |d| (n, d))) {
                    let case = case(n).with(|options| options.dtype = dtype);
                    let named = CaseSpec { tile: Some(tunable.built_in(&case, &device)), ..case };
                    let [own, named] = [case, named].map(|case| variant.program(&case, &device));
                    assert_eq!(format!("{own:?}"), format!("{named:?}"), "{} {dtype} {n}", tunable.variant);
                }
            }
        }
    }

    #[test]
    fn a_tile_that_a_case_asks_for_reaches_its_program() {
        let device = gpu();
        for tunable in TUNABLE {
            let variant = MATMUL.variant(tunable.variant).expect("it is in the table");
            let matrices = choice(tunable).division.needs_matrices();
            let tile = if matrices {
                ProductTile::new([32, 64, 32], [32, 32], [16, 16])
            } else {
                ProductTile::flat([32, 64, 8], [4, 8])
            };
            for dtype in dtypes_of(tunable) {
                let case = CaseSpec { tile: Some(tile.into()), ..case(1024).with(|options| options.dtype = dtype) };
                let program = variant.program(&case, &device).expect("it runs");
                let groups: u64 = program.dispatches().last().expect("a dispatch").groups.iter().product();
                assert_eq!(groups, 32 * 16, "{} {dtype}", tunable.variant);
            }
        }
    }

    #[test]
    fn the_shared_memory_of_a_tile_is_what_its_kernel_takes() {
        let device = gpu();
        for tunable in TUNABLE
            .iter()
            .filter(|tunable| !matches!(choice(tunable).division, BlockDivision::Quads | BlockDivision::Columns))
        {
            let variant = MATMUL.variant(tunable.variant).expect("it is in the table");
            for dtype in dtypes_of(tunable) {
                let case = case(1001).with(|options| options.dtype = dtype);
                for tile in space(tunable, &case, &device) {
                    let program =
                        variant.program(&CaseSpec { tile: Some(tile.into()), ..case }, &device).expect("it is legal");
                    // The second pass has its own shared memory.
                    let product = |dispatch: &&Dispatch| !dispatch.shader.label().contains("matmul/sum-");
                    let dispatch = program.dispatches().filter(product).last().expect("a product");
                    let taken = Bytes(dispatch.shader.shared_bytes(&dispatch.constants));
                    let counted = choice(tunable).division.shared_bytes(&tile, &case);
                    assert_eq!(counted, taken, "{} {dtype}: {tile}", tunable.variant);
                }
            }
        }
    }

    // A division that the model does not cover.
    const CHOICE: TileTable = TileTable {
        division: BlockDivision::Quads,
        gpu: &[
            ProductTile::new([128, 128, 16], [64, 32], [8, 8]),
            ProductTile::flat([64, 64, 16], [8, 4]),
            ProductTile::flat([32, 32, 16], [4, 4]),
        ],
        software: &[ProductTile::flat([64, 64, 8], [16, 16]), ProductTile::flat([16, 16, 8], [8, 8])],
        bytes: &[],
    };

    fn chosen(n: u64, change: impl Fn(&mut DeviceInfo)) -> u32 {
        let mut device = software_device();
        device.kind = DeviceKind::DiscreteGpu;
        change(&mut device);
        CHOICE.built_in(&case(n), &device).bm
    }

    #[test]
    fn small_products_get_small_tiles_so_that_every_core_has_work() {
        for (n, bm) in [(8192, 128), (2048, 128), (1024, 64), (512, 32), (1, 32)] {
            assert_eq!(chosen(n, |_| ()), bm, "{n}");
        }
        for (n, bm) in [(256, 64), (128, 16)] {
            assert_eq!(chosen(n, |device| device.kind = DeviceKind::Cpu), bm, "{n}");
        }
    }

    #[test]
    fn a_device_with_little_room_gets_a_smaller_tile() {
        assert_eq!(chosen(8192, |device| device.limits.shared_memory = Bytes(16 << 10)), 64);
        assert_eq!(chosen(8192, |device| device.limits.group_invocations = 128), 64);
        assert_eq!(chosen(8192, |device| device.limits.group_invocations = 1), 32);
    }
}
