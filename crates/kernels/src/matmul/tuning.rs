//! Selection of the built-in tile for a case, and the search space for the best one.

use super::constants::{Constants, Pace};
use super::division::{BlockDivision, TileTable};
use super::grid::count_blocks;
use super::model::{Slab, predicted};
use super::parts::slabs_per_part;
use crate::algorithms::tile::{Tile, Tiles};
use crate::prelude::*;

/// Assumed number of cores of a GPU, its streaming multiprocessors or compute units: Vulkan does not report it.
pub(super) const GPU_CORES: u64 = 132;
/// Assumed number of cores of a software device.
pub(super) const CPU_CORES: u64 = 8;

/// Most parts of K: beyond, adding them up costs more than they save.
const MAX_PARTS: u64 = 1024;
/// Most groups per core, in the search for numbers of groups and of parts of K.
const MAX_GROUPS_PER_CORE: u64 = 4;

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

/// Logarithm of the ratio of times that the model cannot distinguish.
const LOG_TIME_RESOLUTION: f64 = 0.02;

impl TileTable {
    /// Returns the tile of a case: the requested one, or else the built-in one.
    pub(super) fn for_case(&self, case: &CaseSpec, device: &DeviceInfo) -> ProductTile {
        match case.tile {
            Some(Tile::Product(tile)) => tile,
            _ => self.built_in(case, device),
        }
    }

    /// Returns the built-in tile within the device's limits: the fastest by the [model](super::model) if it covers the
    /// kernel. Otherwise the largest tile that idles at most a quarter of all cores' time; if there is none, the
    /// smallest, with parts of K for the idle cores, or with its blocks shared evenly. If no tile is within the limits,
    /// returns the last, which the program's check then refuses.
    pub(super) fn built_in(&self, case: &CaseSpec, device: &DeviceInfo) -> ProductTile {
        if self.division.is_modelled(device) {
            return self.fastest(case, device);
        }
        let cores = if device.kind == DeviceKind::Cpu { CPU_CORES } else { GPU_CORES };
        let dims = Dims::from(case.size);
        let is_busy = |tile: &ProductTile| {
            let blocks = count_blocks(tile, dims);
            4 * blocks >= 3 * blocks.div_ceil(cores) * cores
        };
        let tiles: Vec<ProductTile> = self.tiles(case, device).collect();
        let mut legal = tiles.clone();
        legal.retain(|tile| self.division.check_tile(tile, case, device).is_ok());
        let tile = *legal.iter().find(|tile| is_busy(tile)).or(legal.last()).unwrap_or(&tiles[tiles.len() - 1]);
        let blocks = count_blocks(&tile, dims).max(1);
        // A part has at least four slabs.
        let most_parts = tile.slabs(dims.k) / 4;
        if self.division.shares_blocks() && !is_busy(&tile) && most_parts > 1 {
            return tile.with_groups(cores.min(blocks * most_parts) as u32);
        }
        if self.division.cuts_k() {
            return tile.with_k_parts((cores / blocks).min(most_parts).max(1) as u32);
        }
        tile
    }

    /// Returns the legal tile that the model predicts to be the fastest, or the last one if none is legal.
    fn fastest(&self, case: &CaseSpec, device: &DeviceInfo) -> ProductTile {
        let tiles = self.subdivided_tiles(case, device);
        let legal = tiles.iter().copied().filter(|tile| self.division.check_tile(tile, case, device).is_ok());
        let fastest = legal.min_by_key(|tile| rank(time(self.division, tile, case, device), Some((*tile).into())));
        fastest.unwrap_or(tiles[tiles.len() - 1])
    }

    /// Returns the table's tiles for a case, each with every plausible number of parts or groups.
    pub(super) fn subdivided_tiles(&self, case: &CaseSpec, device: &DeviceInfo) -> Vec<ProductTile> {
        self.tiles(case, device).flat_map(|tile| subdivisions(tile, self.division, case, device)).collect()
    }

    /// Returns a tile for every plausible way to divide a block of `[bm, bn, bk]` among invocations.
    fn tiles_of_block(&self, block: [u32; 3], case: &CaseSpec, device: &DeviceInfo) -> Vec<ProductTile> {
        let [bm, bn, _] = block;
        let divides_block = |[wm, wn]: &[u32; 2]| bm.is_multiple_of(*wm) && bn.is_multiple_of(*wn);
        match self.division {
            BlockDivision::Columns => vec![],
            BlockDivision::Quads => parts_of_lane(block, device).map(|part| ProductTile::flat(block, part)).collect(),
            BlockDivision::Warps => {
                let lanes = case.subgroup_size(device);
                let mut tiles = vec![];
                for [tm, tn] in parts_of_lane(block, device) {
                    for power in 0..=lanes.ilog2() {
                        let warp = [tm << power, tn * (lanes >> power)];
                        if divides_block(&warp) {
                            tiles.push(ProductTile::new(block, warp, [tm, tn]));
                        }
                    }
                }
                tiles
            }
            BlockDivision::Matrices(_) | BlockDivision::Halves => {
                let shape = self.division.matrices(case.dtype, device).expect("it has matrices");
                // 32-bit sums take a whole register each.
                let is_narrow = self.division == BlockDivision::Matrices(Accumulator::Narrow);
                let most = if is_narrow { 128 * 128 } else { 64 * 128 };
                let warps = pairs(&WARPS).filter(divides_block).filter(|[wm, wn]| wm * wn <= most);
                warps.map(|warp| ProductTile::new(block, warp, [shape.m, shape.n])).collect()
            }
            // The driver subdivides the block; only the number of invocations is a choice, expressed in warps.
            BlockDivision::Block(_) => {
                let warps = [[bm / 2, bn / 2], [bm / 2, bn / 4], [bm / 4, bn / 4]].into_iter();
                warps.filter(divides_block).map(|warp| ProductTile::new(block, warp, [16, 16])).collect()
            }
        }
    }
}

/// Iterates over plausible rows and columns per invocation of a kernel without matrix units.
fn parts_of_lane([_, _, bk]: [u32; 3], device: &DeviceInfo) -> impl Iterator<Item = [u32; 2]> {
    // A lane's sums occupy registers, and its multiply-adds per slab are unrolled code. On a software device, spilled
    // sums cost less than the reads they save.
    let is_software = device.kind == DeviceKind::Cpu;
    let most_sums = if is_software { 1 << 10 } else { 1 << 7 };
    let most_unrolled = if is_software { 1 << 14 } else { 1 << 12 };
    // Depths between powers of two make better use of shared memory for matrix units only.
    let is_plausible =
        move |[tm, tn]: &[u32; 2]| tm * tn <= most_sums && tm * tn * bk <= most_unrolled && bk.is_power_of_two();
    pairs(&LANES).filter(is_plausible)
}

impl Tiles for TileTable {
    fn built_in(&self, case: &CaseSpec, device: &DeviceInfo) -> Tile {
        Self::built_in(self, case, device).into()
    }

    fn check_tile(&self, tile: &Tile, case: &CaseSpec, device: &DeviceInfo) -> Result<(), String> {
        match tile {
            Tile::Product(tile) => self.division.check_tile(tile, case, device),
            Tile::Columns(_) => Err("has no block of a product".into()),
        }
    }

    fn candidates(&self, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile> {
        let mut tiles: Vec<_> = self.tiles(case, device).collect();
        for [bm, bn] in pairs(&BLOCKS) {
            if bm.max(bn) <= MAX_ASPECT_RATIO * bm.min(bn) {
                tiles.extend(SLABS.iter().flat_map(|bk| self.tiles_of_block([bm, bn, *bk], case, device)));
            }
        }
        let built_in = Self::built_in(self, case, device);
        let subdivided = tiles.into_iter().flat_map(|tile| subdivisions(tile, self.division, case, device));
        subdivided.filter(|tile| *tile == built_in || fits(tile, Dims::from(case.size))).map(Into::into).collect()
    }
}

/// Whether no smaller candidate block covers the product as well: rows beyond the last one would be computed in vain.
fn fits(tile: &ProductTile, dims: Dims) -> bool {
    let is_needed = |extent: u32, candidates: &[u32], whole: u64| {
        candidates.iter().all(|smaller| *smaller >= extent || u64::from(*smaller) < whole)
    };
    is_needed(tile.bm, &BLOCKS, dims.m) && is_needed(tile.bn, &BLOCKS, dims.n) && is_needed(tile.bk, &SLABS, dims.k)
}

/// Returns the sort key of a candidate: the predicted time, in steps smaller than which the model cannot resolve; then
/// one-pass products first. Sorting is stable, so ties keep the order of the tile table, which comes from searches.
pub(super) fn rank(predicted: Nanos, tile: Option<Tile>) -> (i64, bool) {
    let time = (predicted.0.max(1.0).ln() / LOG_TIME_RESOLUTION).floor() as i64;
    (time, matches!(tile, Some(Tile::Product(tile)) if tile.takes_two_passes()))
}

/// Predicts the time of a tiled kernel.
fn time(division: BlockDivision, tile: &ProductTile, case: &CaseSpec, device: &DeviceInfo) -> Nanos {
    let constants = Constants::of(device);
    let slab = Slab::of_tile(division, tile, case, device, &constants.machine);
    predicted(tile, slab, &pace(constants, division, tile, case), case, &constants.machine)
}

/// Returns the pace of a tiled kernel for the case's element type.
pub(super) fn pace(constants: &Constants, division: BlockDivision, tile: &ProductTile, case: &CaseSpec) -> Pace {
    let mut pace = match division {
        BlockDivision::Warps => constants.in_warps(tile),
        BlockDivision::Quads => constants.quads,
        BlockDivision::Columns => constants.columns,
        BlockDivision::Matrices(Accumulator::Wide) if case.dtype != DType::I8 => constants.in_matrices(tile),
        BlockDivision::Matrices(_) | BlockDivision::Halves => constants.matrices,
        BlockDivision::Block(_) => constants.blocks,
    };
    match division {
        // GPUs multiply these types at half the rate at best.
        BlockDivision::Warps if matches!(case.dtype, DType::F64 | DType::I32) => pace.products *= 0.5,
        // Bytes are multiplied at twice the rate.
        BlockDivision::Matrices(_) | BlockDivision::Halves if case.dtype == DType::I8 => pace.products *= 2.0,
        _ => {}
    }
    pace
}

/// Returns a tile with every plausible number of parts of K, or of groups that share its blocks.
fn subdivisions(tile: ProductTile, division: BlockDivision, case: &CaseSpec, device: &DeviceInfo) -> Vec<ProductTile> {
    if division.shares_blocks() {
        return [vec![tile], plausible_groups(&tile, case, device)].concat();
    }
    plausible_parts(&tile, division, case, device).into_iter().map(|parts| tile.with_k_parts(parts)).collect()
}

/// Returns a tile with plausible numbers of groups that share its blocks: one to four per core, also rounded to a
/// multiple of the blocks, with at least two slabs per group.
fn plausible_groups(tile: &ProductTile, case: &CaseSpec, device: &DeviceInfo) -> Vec<ProductTile> {
    let dims = Dims::from(case.size);
    let blocks = count_blocks(tile, dims);
    let slabs = blocks * tile.slabs(dims.k);
    let mut numbers = vec![];
    for per_core in 1..=MAX_GROUPS_PER_CORE {
        let groups = per_core * Constants::of(device).machine.cores;
        numbers.extend([groups, groups / blocks * blocks]);
    }
    numbers.dedup();
    numbers.retain(|groups| *groups > 0 && *groups != blocks && 2 * groups <= slabs);
    numbers.into_iter().map(|groups| tile.with_groups(groups as u32)).collect()
}

/// Returns plausible numbers of parts of K for a tile: one, and those that give each core one to four work-groups, with
/// at least two slabs per part.
fn plausible_parts(tile: &ProductTile, division: BlockDivision, case: &CaseSpec, device: &DeviceInfo) -> Vec<u32> {
    if !division.cuts_k() {
        return vec![1];
    }
    let dims = Dims::from(case.size);
    let blocks = count_blocks(tile, dims).max(1);
    let most = (slabs_per_part(*tile, dims.k) / 2).min(MAX_PARTS);
    let mut numbers = vec![1];
    for per_core in 1..=MAX_GROUPS_PER_CORE {
        let parts = per_core * Constants::of(device).machine.cores / blocks;
        if parts > 1 && parts <= most && !numbers.contains(&(parts as u32)) {
            numbers.push(parts as u32);
        }
    }
    numbers
}

/// Iterates over all pairs of `extents`.
fn pairs(extents: &'static [u32]) -> impl Iterator<Item = [u32; 2]> {
    extents.iter().flat_map(move |a| extents.iter().map(move |b| [*a, *b]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::tile::Tunable;
    use crate::basis::size::sweep;
    use crate::device::capability::{self, FlexibleMatrices, FlexibleMatrix};
    use crate::device::fixture::{matrix, software_device};
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

    fn table(tunable: &Tunable) -> &'static TileTable {
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
            Tile::Product(tile) => tile,
            Tile::Columns(_) => panic!("{} is no product", tunable.variant),
        };
        MATMUL.tiles(tunable, case, device).into_iter().map(product).collect()
    }

    /// Iterates over the variant's element types, one of each size.
    fn dtypes_of(tunable: &Tunable) -> impl Iterator<Item = DType> {
        let variant = MATMUL.variant(tunable.variant).expect("a tunable variant");
        [DType::F32, DType::F16, DType::I8].into_iter().filter(|dtype| variant.supports(*dtype))
    }

    fn case(n: u64) -> CaseSpec {
        CaseSpec::new(&MATMUL, Size::Uniform(n), DType::F32)
    }

    #[test]
    fn no_tile_of_a_search_reaches_further_beyond_the_product_than_it_has_to() {
        for device in [software_device(), gpu()] {
            for tunable in TUNABLE {
                let dtype = dtypes_of(tunable).next().expect("it has a type");
                for (size, most) in [("1x4096x4096", [16, 256, 64]), ("512x20x24", [256, 32, 32])] {
                    let case = CaseSpec::new(&MATMUL, size.parse().expect("a size"), dtype);
                    let built_in = table(tunable).built_in(&case, &device);
                    let space = space(tunable, &case, &device);
                    for tile in space.into_iter().filter(|tile| *tile != built_in) {
                        let extents = [tile.bm, tile.bn, tile.bk];
                        let is_within = extents.iter().zip(most).all(|(extent, most)| *extent <= most);
                        assert!(is_within, "{} {size}: {tile}", tunable.variant);
                    }
                }
            }
        }
    }

    #[test]
    fn the_space_has_the_built_in_tiles_and_legal_ones_alone_each_once() {
        for device in [software_device(), gpu()] {
            for (tunable, dtype) in
                TUNABLE.iter().flat_map(|tunable| dtypes_of(tunable).map(move |dtype| (tunable, dtype)))
            {
                let table = table(tunable);
                let variant = tunable.variant;
                let case = |n| case(n).with(|options| options.dtype = dtype);
                let is_legal = |tile: &ProductTile| table.division.check_tile(tile, &case(1024), &device).is_ok();
                let space = space(tunable, &case(1024), &device);
                if device.cooperative_matrices.is_empty() && table.division.needs_matrices() {
                    assert!(space.is_empty(), "{variant}: {}", space.len());
                    continue;
                }
                assert!(space.len() > 40, "{variant}: {}", space.len());
                for (index, tile) in space.iter().enumerate() {
                    assert!(is_legal(tile), "{variant}: {tile}");
                    assert!(!space[..index].contains(tile), "{variant}: {tile} twice");
                }
                // The search would silently skip illegal tiles of the table.
                for tile in table.tiles(&case(1024), &device) {
                    assert!(is_legal(&tile), "{variant} {dtype}: {tile}");
                }
                for n in [1, 128, 512, 1024, 2048, 8192] {
                    // Numbers of parts and groups depend on the size.
                    let built_in = table.built_in(&case(n), &device).with_k_parts(1).with_groups(0);
                    assert!(space.contains(&built_in), "{variant} {n}: {built_in}");
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
                    let case = CaseSpec { size, ..case(1).with(|options| options.dtype = dtype) };
                    table(tunable).built_in(&case, &device).with_k_parts(1).with_groups(0)
                };
                let large = tile(Size::Uniform(8192));
                let cuts_large = |size: Size| {
                    let Dims { m, n, .. } = Dims::from(size);
                    tile(size) == large
                        && !m.is_multiple_of(u64::from(large.bm))
                        && !n.is_multiple_of(u64::from(large.bn))
                };
                assert!(sizes.iter().any(|size| cuts_large(*size)), "{} {dtype}: {large}", tunable.variant);
                // Kernels that load and store single elements in some tiles.
                let is_odd = |size: &Size| Dims::from(*size).n % 2 == 1 && tile(*size).bm * tile(*size).bn >= 64 * 64;
                assert!(sizes.iter().any(is_odd), "{} {dtype}: rows that start at odd elements", tunable.variant);
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
        for tile in small {
            assert!(BlockDivision::Warps.invocations(&tile, 32) <= 128, "{tile}");
            assert!(BlockDivision::Warps.shared_bytes(&tile, &case(1024)) <= Bytes(16 << 10), "{tile}");
        }
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
                let variant = MATMUL.variant(tunable.variant).expect("a tunable variant");
                for (n, dtype) in [257, 1024, 4096].into_iter().flat_map(|n| dtypes_of(tunable).map(move |d| (n, d))) {
                    let case = case(n).with(|options| options.dtype = dtype);
                    let with_tile = CaseSpec { tile: Some(tunable.tiles.built_in(&case, &device)), ..case };
                    let program = |case| format!("{:?}", variant.program(&case, &device));
                    assert_eq!(program(case), program(with_tile), "{} {dtype} {n}", tunable.variant);
                }
            }
        }
    }

    #[test]
    fn a_tile_that_a_case_asks_for_reaches_its_program() {
        let device = gpu();
        for tunable in TUNABLE {
            let variant = MATMUL.variant(tunable.variant).expect("a tunable variant");
            let matrices = table(tunable).division.needs_matrices();
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
        for tunable in TUNABLE {
            let division = table(tunable).division;
            if matches!(division, BlockDivision::Quads | BlockDivision::Columns) {
                continue;
            }
            let variant = MATMUL.variant(tunable.variant).expect("a tunable variant");
            for dtype in dtypes_of(tunable) {
                let case = case(1001).with(|options| options.dtype = dtype);
                for tile in space(tunable, &case, &device) {
                    let case = CaseSpec { tile: Some(tile.into()), ..case };
                    let program = variant.program(&case, &device).expect("it is legal");
                    // The second pass has its own shared memory.
                    let is_product = |dispatch: &&Dispatch| !dispatch.shader.label().contains("matmul/sum-");
                    let dispatch = program.dispatches().filter(is_product).last().expect("a product");
                    let expected = Bytes(dispatch.shader.shared_bytes(&dispatch.constants));
                    assert_eq!(division.shared_bytes(&tile, &case), expected, "{} {dtype}: {tile}", tunable.variant);
                }
            }
        }
    }

    /// Tiles of a division that the model does not cover.
    const NOT_MODELLED: TileTable = TileTable {
        division: BlockDivision::Quads,
        gpu: &[
            ProductTile::new([128, 128, 16], [64, 32], [8, 8]),
            ProductTile::flat([64, 64, 16], [8, 4]),
            ProductTile::flat([32, 32, 16], [4, 4]),
        ],
        software: &[ProductTile::flat([64, 64, 8], [16, 16]), ProductTile::flat([16, 16, 8], [8, 8])],
        bytes: &[],
    };

    /// Returns the rows of a block in the built-in tile.
    fn built_in_rows(n: u64, change: impl Fn(&mut DeviceInfo)) -> u32 {
        let mut device = software_device();
        device.kind = DeviceKind::DiscreteGpu;
        change(&mut device);
        NOT_MODELLED.built_in(&case(n), &device).bm
    }

    #[test]
    fn small_products_get_small_tiles_so_that_every_core_has_work() {
        for (n, bm) in [(8192, 128), (2048, 128), (1024, 64), (512, 32), (1, 32)] {
            assert_eq!(built_in_rows(n, |_| ()), bm, "{n}");
        }
        for (n, bm) in [(256, 64), (128, 16)] {
            assert_eq!(built_in_rows(n, |device| device.kind = DeviceKind::Cpu), bm, "{n}");
        }
    }

    #[test]
    fn a_device_with_little_room_gets_a_smaller_tile() {
        assert_eq!(built_in_rows(8192, |device| device.limits.shared_memory = Bytes(16 << 10)), 64);
        assert_eq!(built_in_rows(8192, |device| device.limits.group_invocations = 128), 64);
        assert_eq!(built_in_rows(8192, |device| device.limits.group_invocations = 1), 32);
    }
}
