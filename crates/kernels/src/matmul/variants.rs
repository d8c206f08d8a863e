//! The variants of matmul. To add one, write a kernel in `glsl/matmul/` that includes `matmul.glsl`, and an entry here.

use super::division::{BlockDivision, TileTable};
use super::grid::{block_per_group, product, row_lengths};
use super::parts::strip_grid;
use super::units::{self, SPLIT, STAGED_NARROW, STAGED_WIDE, WORKGROUP_NARROW, WORKGROUP_WIDE};
use super::{direct, evenly, gemv};
use crate::algorithms::tile::Tunable;
use crate::case::Shortcut;
use crate::elements::groups_over;
use crate::prelude::*;

/// Edge of the square work-groups of `naive` and `local-2d`: 256 invocations, which every known device allows.
const EDGE: u32 = 16;

pub(super) static VARIANTS: &[Variant] = &[
    variant! { "naive" or "v0",
        "no shared memory: each invocation reads its row of A and its column of B from global memory",
        from "the matmul post, kernel v0; the SYCL workshop",
        &["matmul/naive"] => &|shaders, case, device| {
            let dims = Dims::from(case.size);
            let dispatch = element_per_invocation(shaders[0], [dims.n, dims.m], [EDGE, EDGE], dims, device);
            Program::single(dispatch.loops(dims.k))
        }
    },
    variant! { "naive-column",
        "naive with x along the rows of C: the same arithmetic, but loads and stores do not coalesce",
        from "the matmul post, the published code's work-group {B,1}",
        &["matmul/naive-column"] => &|shaders, case, device| {
            let dims = Dims::from(case.size);
            let group = [case.subgroup_size(device), 1];
            Program::single(element_per_invocation(shaders[0], [dims.m, dims.n], group, dims, device).loops(dims.k))
        }
    },
    variant! { "local" or "v1", "stages a tile of one row of A in shared memory, with two work-group barriers per tile",
    from "the matmul post, kernel v1; Data Parallel C++, figure 9-8",
    &["matmul/local"] => &|shaders, case, device| Program::single(row_per_group(shaders[0], case, device)) },
    variant! { "local-2d", "square tiles of A and B in shared memory, reused in both dimensions",
        from "the SYCL workshop, the tiled exercise",
        &["matmul/local-2d"] => &|shaders, case, device| {
            let dims = Dims::from(case.size);
            let dispatch = element_per_invocation(shaders[0], [dims.n, dims.m], [EDGE, EDGE], dims, device);
            let loops = dims.k.next_multiple_of(u64::from(EDGE)) + dims.k.div_ceil(u64::from(EDGE));
            Program::single(dispatch.loops(loops))
        }
    },
    variant! { "subgroup" or "v2",
        "keeps the tile in registers and passes it around with subgroupBroadcast: no shared memory, no barrier",
        from "the matmul post, kernel v2; Data Parallel C++, figure 9-12",
        &["matmul/subgroup"] => &|shaders, case, device| {
            Program::single(row_per_group(shaders[0], case, device).subgroups_of(case.subgroup_size(device)))
        }
    },
    variant! { "subgroup-shuffle", "subgroup with subgroupShuffle: shows the cost of a lane chosen at run time",
        from "Data Parallel C++, select_from_group (figure 9-14)",
        &["matmul/subgroup-shuffle"] => &|shaders, case, device| {
            Program::single(row_per_group(shaders[0], case, device).subgroups_of(case.subgroup_size(device)))
        }
    },
    variant! { "tile-1d", "each invocation keeps a 1-D tile of C in registers: one value of B feeds several products",
        from "S. Boehm, How to optimize a CUDA matmul kernel (2022), kernel 4",
        &["matmul/tile-1d"] => &|shaders, case, device| Program::single(in_slabs(shaders[0], &TILE_1D, case, device))
    },
    variant! { "tile-2d",
        "each invocation keeps a 2-D tile of C in registers: far fewer shared-memory reads per product",
        from "S. Boehm, How to optimize a CUDA matmul kernel (2022), kernel 5",
        &["matmul/tile-2d"] => &|shaders, case, device| Program::single(in_slabs(shaders[0], &TILE_2D, case, device))
    },
    variant! { "vectorised", "tile-2d with 16-byte loads and stores, and A transposed in shared memory",
        from "S. Boehm, How to optimize a CUDA matmul kernel (2022), kernel 6",
        &["matmul/vectorised"] => &|shaders, case, device| {
            let dispatch = in_quads(in_slabs(shaders[0], &TILE_2D, case, device), case);
            Program::single(dispatch.constant("C_ALIGNED", in_fours(Dims::from(case.size).n)))
        }
    },
    variant! { "tiled",
        "register tiles inside warp tiles, prefetched slabs, no bank conflicts, a grid ordered for the cache",
        from "S. Boehm, How to optimize a CUDA matmul kernel (2022), kernel 10; CUTLASS",
        &["matmul/tiled", "matmul/tiled-evenly", "matmul/sum-shared"] => &|shaders, case, device| {
            let tile = TILED.for_case(case, device);
            evenly::program(shaders, tile, case, device, |shader| tiled(shader, tile, case, device))
        }
    },
    variant! { "dot",
        "8-bit integers by packed dot products: four products and their sum an instruction; sums in 32 bits",
        from "SPV_KHR_integer_dot_product",
        &["matmul/dot"] => &|shaders, case, device| {
            Program::single(in_quads(in_slabs(shaders[0], &DOT, case, device), case))
        }
    },
    variant! { "coopmat",
    "matrix units via cooperative matrices of a sub-group, staged in shared memory; sums in 32 bits",
    from "GL_KHR_cooperative_matrix; CUTLASS",
    &["matmul/coopmat", "matmul/coopmat-parts", "matmul/sum-parts"] => &|shaders, case, device| {
        units::staged(shaders, Accumulator::Wide, case, device)
    } },
    variant! { "coopmat-narrow", "coopmat with 16-bit sums: less accurate, half the registers",
    from "GL_KHR_cooperative_matrix; CUTLASS",
    measures Measures::Shortcuts(&[Shortcut::LessAccurate]),
    &["matmul/coopmat-narrow", "matmul/coopmat-narrow-parts", "matmul/sum-parts"] => &|shaders, case, device| {
        units::staged(shaders, Accumulator::Narrow, case, device)
    } },
    variant! { "coopmat-direct",
    "coopmat without shared memory: each lane loads its components from global memory, sub-groups split K",
    from "ours; see docs/studies/matmul.md",
    &["matmul/coopmat-direct"] => &|shaders, case, device| direct::program(shaders[0], case, device) },
    variant! { "coopmat2",
    "matrix units via cooperative matrices of a whole work-group, staged by the driver; sums in 32 bits",
    from "GL_NV_cooperative_matrix2",
    &["matmul/coopmat2"] => &|shaders, case, device| {
        units::workgroup_scope(shaders[0], Accumulator::Wide, case, device)
    } },
    variant! { "coopmat2-narrow", "coopmat2 with 16-bit sums: less accurate",
    from "GL_NV_cooperative_matrix2",
    measures Measures::Shortcuts(&[Shortcut::LessAccurate]),
    &["matmul/coopmat2-narrow"] => &|shaders, case, device| {
        units::workgroup_scope(shaders[0], Accumulator::Narrow, case, device)
    } },
    variant! { "split",
    "f32 on the matrix units: splits each operand into two f16 halves and sums three of their products",
    from "H. Ootomo, R. Yokota (2022), arXiv 2203.03341",
    measures Measures::Shortcuts(&[Shortcut::LessAccurate]),
    &["matmul/split-largest", "matmul/split-halves", "matmul/split", "matmul/split-parts",
        "matmul/sum-parts"] => &units::split },
    variant! { "texel",
        "for software devices: loads through texel views, several rows in registers, A passed around by shuffle",
        from "measured on llvmpipe; see docs/studies/matmul.md",
        &["matmul/texel"] => &|shaders, case, device| {
            let dims = Dims::from(case.size);
            let lanes = case.subgroup_size(device);
            // A GPU has enough registers, but spills are expensive.
            let (rows, quads) = if device.kind == DeviceKind::Cpu { (texel_rows(dims), 2) } else { (16, 1) };
            let dispatch = product(shaders[0], dims, &[("A4", BufferId(0)), ("B4", BufferId(1))])
                .groups(groups_over([dims.n, dims.m], [lanes * quads * 4, rows], device))
                .group_size([lanes, 1, 1])
                .subgroups_of(lanes)
                .constant("ROWS", rows)
                .constant("QUADS", quads)
                .loops(dims.k.div_ceil(4));
            Program::single(in_quads(dispatch, case))
        }
    },
    variant! { "gemv",
    "for at most 8 rows or columns of C: reads the other operand once, 16 bytes at a time, and splits K",
    from "ours; see docs/studies/matmul.md",
    &["matmul/gemv-along", "matmul/gemv-across"] => &|shaders, case, device| {
        gemv::program(shaders, false, case, device)
    } },
    variant! { "gemv-texel", "gemv for software devices: loads through texel views",
    from "measured on llvmpipe; see docs/studies/matmul.md",
    &["matmul/gemv-texel-along", "matmul/gemv-texel-across"] => &|shaders, case, device| {
        gemv::program(shaders, true, case, device)
    } },
];

/// Variants with tunable tiles, the one tuned by default first.
pub(super) static TUNABLE: &[Tunable] = &[
    Tunable { variant: "tiled", tiles: &TILED },
    Tunable { variant: "coopmat", tiles: &STAGED_WIDE },
    Tunable { variant: "coopmat-narrow", tiles: &STAGED_NARROW },
    Tunable { variant: "coopmat2", tiles: &WORKGROUP_WIDE },
    Tunable { variant: "coopmat2-narrow", tiles: &WORKGROUP_NARROW },
    Tunable { variant: "split", tiles: &SPLIT },
    Tunable { variant: "vectorised", tiles: &TILE_2D },
    Tunable { variant: "tile-2d", tiles: &TILE_2D },
];

/// Returns the rows of C per work-group of `texel` on a software device; no more than C has, because rows beyond are
/// computed as well.
pub(super) fn texel_rows(dims: Dims) -> u32 {
    match dims.m {
        0..=8 => 8,
        9..=16 => 16,
        _ => 32,
    }
}

/// Tiles of `tile-1d`, whose invocations compute one column each.
static TILE_1D: TileTable = TileTable {
    division: BlockDivision::Columns,
    gpu: &[ProductTile::flat([64, 64, 8], [8, 1]), ProductTile::flat([32, 32, 8], [4, 1])],
    software: &[ProductTile::flat([32, 32, 8], [16, 1])],
    bytes: &[],
};

/// Tiles of `tile-2d` and `vectorised`.
pub(super) static TILE_2D: TileTable = TileTable {
    division: BlockDivision::Quads,
    gpu: &[
        ProductTile::flat([128, 128, 8], [8, 8]),
        ProductTile::flat([64, 64, 8], [8, 8]),
        ProductTile::flat([64, 64, 16], [4, 4]),
        ProductTile::flat([32, 32, 8], [4, 4]),
    ],
    software: &[ProductTile::flat([64, 64, 16], [16, 16]), ProductTile::flat([32, 32, 8], [8, 8])],
    bytes: &[],
};

/// Tiles of `dot`.
pub(super) static DOT: TileTable = TileTable {
    division: BlockDivision::Quads,
    gpu: &[
        ProductTile::flat([128, 128, 32], [8, 8]),
        ProductTile::flat([64, 128, 32], [8, 4]),
        ProductTile::flat([64, 64, 32], [4, 4]),
        ProductTile::flat([32, 32, 32], [4, 4]),
    ],
    software: &[ProductTile::flat([64, 64, 32], [16, 16]), ProductTile::flat([32, 32, 32], [8, 8])],
    bytes: &[],
};

/// Tiles of `tiled`. A warp is 32 lanes on GPUs, 8 on the software device.
pub(super) static TILED: TileTable = TileTable {
    division: BlockDivision::Warps,
    gpu: &[
        ProductTile::new([128, 256, 16], [64, 32], [8, 8]),
        ProductTile::new([128, 128, 16], [64, 32], [8, 8]),
        ProductTile::new([64, 128, 16], [64, 16], [4, 8]),
        ProductTile::new([64, 64, 16], [32, 32], [8, 4]),
        ProductTile::new([32, 64, 32], [32, 16], [4, 4]),
        ProductTile::new([32, 32, 16], [16, 32], [4, 4]),
        ProductTile::new([32, 128, 16], [32, 32], [8, 4]),
        ProductTile::new([32, 256, 16], [32, 64], [8, 8]),
        ProductTile::new([16, 128, 32], [16, 32], [4, 4]),
        ProductTile::new([64, 128, 16], [32, 64], [8, 8]),
        ProductTile::new([64, 256, 16], [32, 64], [8, 8]),
        ProductTile::new([128, 32, 16], [64, 16], [8, 4]),
        ProductTile::new([256, 32, 16], [64, 32], [8, 8]),
        ProductTile::new([128, 16, 32], [32, 16], [4, 4]),
        ProductTile::new([128, 64, 16], [64, 32], [8, 8]),
        ProductTile::new([256, 64, 16], [64, 32], [8, 8]),
    ],
    software: &[ProductTile::new([64, 64, 16], [64, 32], [16, 16]), ProductTile::new([32, 32, 8], [16, 32], [8, 8])],
    bytes: &[],
};

/// Builds the dispatch of a kernel that processes K in slabs. An invocation has a loop iteration per slab, those of its inner
/// loop, and one more that finds the end.
fn in_slabs(shader: &'static Shader, table: &TileTable, case: &CaseSpec, device: &DeviceInfo) -> Dispatch {
    let dims = Dims::from(case.size);
    let tile = table.for_case(case, device);
    let iterations = dims.k.div_ceil(u64::from(tile.bk)) * u64::from(tile.bk + 2);
    let dispatch = tile_per_invocation(shader, tile, dims, device).loops(iterations);
    // An invocation of `tile-1d` computes one column.
    if table.division == BlockDivision::Columns { dispatch } else { dispatch.constant("TN", tile.tn) }
}

fn tiled(shader: &'static Shader, tile: ProductTile, case: &CaseSpec, device: &DeviceInfo) -> Dispatch {
    let dims = Dims::from(case.size);
    in_quads(tile_per_invocation(shader, tile, dims, device), case)
        .constant("C_ALIGNED", in_fours(dims.n))
        .constant("WM", tile.wm)
        .constant("WN", tile.wn)
        .constant("TN", tile.tn)
        .groups(strip_grid(tile, dims, device))
        // All loops but the one over slabs are unrolled.
        .loops(tile.slabs(dims.k))
}

/// Sets the constants for which operands the kernel can access four elements at a time: see `matmul-quads.glsl`.
fn in_quads(dispatch: Dispatch, case: &CaseSpec) -> Dispatch {
    let [a, b] = row_lengths(case).map(in_fours);
    dispatch.constant("A_ALIGNED", a).constant("B_ALIGNED", b)
}

/// Returns 1 if rows of `length` elements consist of whole quads, else 0: the value of a constant.
fn in_fours(length: u64) -> u32 {
    u32::from(length.is_multiple_of(4))
}

/// Builds a dispatch of one work-group per block, with `tm`×`tn` elements of the block per invocation.
fn tile_per_invocation(shader: &'static Shader, tile: ProductTile, dims: Dims, device: &DeviceInfo) -> Dispatch {
    let invocations = (tile.bm / tile.tm.max(1)) * (tile.bn / tile.tn.max(1));
    block_per_group(shader, tile, invocations, dims, device).constant("TM", tile.tm)
}

/// Builds a dispatch of work-groups one sub-group wide, each for adjacent elements of one row of C.
///
/// The tile of A is as wide as the group. For the sub-group variants it must not be wider than the sub-group; for
/// `local` the posts use the same width (their B), so the two differ only in how the tile is shared.
fn row_per_group(shader: &'static Shader, case: &CaseSpec, device: &DeviceInfo) -> Dispatch {
    let dims = Dims::from(case.size);
    let width = case.subgroup_size(device);
    let dispatch = element_per_invocation(shader, [dims.n, dims.m], [width, 1], dims, device);
    dispatch.loops(dims.k + dims.k.div_ceil(u64::from(width)))
}

/// Builds a dispatch of one invocation for each of `elements` along x and y, in work-groups of `group`.
fn element_per_invocation(
    shader: &'static Shader,
    elements: [u64; 2],
    group: [u32; 2],
    dims: Dims,
    device: &DeviceInfo,
) -> Dispatch {
    let [width, height] = group;
    product(shader, dims, &[]).groups(groups_over(elements, group, device)).group_size([width, height, 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::Feature;
    use crate::device::fixture::{gpu, matrix, software_device};
    use crate::fixture::program;
    use crate::matmul::MATMUL;
    use crate::matmul::parts::STRIP;
    use crate::shaders::find;

    fn groups(variant: &str, size: Size) -> [u64; 3] {
        let case = CaseSpec::new(&MATMUL, size, DType::F32);
        let program = program(&MATMUL, variant, &case, &software_device());
        program.dispatches().next().expect("one dispatch").groups
    }

    #[test]
    fn the_grid_covers_c_whatever_the_sizes() {
        assert_eq!(groups("naive", Size::Three(33, 100, 7)), [7, 3, 1]);
        assert_eq!(groups("naive-column", Size::Three(33, 100, 7)), [5, 100, 1]);
        assert_eq!(groups("subgroup", Size::Three(33, 100, 7)), [13, 33, 1]);
    }

    #[test]
    fn rows_beyond_the_group_limit_are_folded() {
        assert_eq!(groups("local", Size::Three(100_000, 1, 1)), [1, 50_000, 2]);
    }

    #[test]
    fn the_strips_of_tiled_cover_every_block_row_once() {
        let device = software_device();
        let shader = find("matmul/tiled", DType::F32).expect("it is in glsl/matmul");
        let tile = TILED.software[0];
        for m in [1, 64, 65, 512, 513, 100_000, 10_000_000] {
            let case = CaseSpec::new(&MATMUL, Size::Three(m, 200, 8), DType::F32);
            let [strip, across, strips] = tiled(shader, tile, &case, &device).groups;
            let rows = m.div_ceil(u64::from(tile.bm));
            assert_eq!(across, 4);
            assert!(strip * strips >= rows && strip * strips - rows < strips, "{m}: {strips} strips of {strip}");
            assert!(strip <= STRIP || strips == 65_535, "{m}: {strips} strips of {strip}");
        }
    }

    #[test]
    fn quads_are_used_only_where_every_row_starts_at_one() {
        let device = software_device();
        for (size, expected) in
            [([8, 8, 8], [1, 1]), ([7, 8, 8], [1, 1]), ([8, 7, 8], [1, 0]), ([8, 8, 7], [0, 1]), ([8, 6, 6], [0, 0])]
        {
            for name in ["vectorised", "tiled", "texel"] {
                let case = CaseSpec::new(&MATMUL, Size::Three(size[0], size[1], size[2]), DType::F32);
                let program = program(&MATMUL, name, &case, &device);
                let dispatch = program.dispatches().next().expect("one dispatch");
                let constant = |name: &str| dispatch.constant_value(name).expect("it is set");
                assert_eq!(["A_ALIGNED", "B_ALIGNED"].map(constant), expected, "{name} {size:?}");
            }
        }
    }

    #[test]
    fn every_tile_of_the_tables_is_legal_and_takes_the_shared_memory_that_it_says() {
        let mut device = software_device();
        device.limits.shared_memory = Bytes(48 << 10);
        let shader = find("matmul/tiled", DType::F32).expect("it is in glsl/matmul");
        let case = CaseSpec::new(&MATMUL, Size::Uniform(1), DType::F32);
        for table in [&TILE_2D, &TILED] {
            for tile in table.gpu.iter().chain(table.software) {
                assert_eq!(table.division.check_tile(tile, &case, &device), Ok(()), "{tile:?}");
                let dispatch = tiled(shader, *tile, &case, &device);
                let shared = Bytes(shader.shared_bytes(&dispatch.constants));
                assert_eq!(shared, table.division.shared_bytes(tile, &case), "{tile:?}");
            }
        }
        // The warps of a GPU's tiles are its sub-groups.
        for tile in TILED.gpu {
            assert_eq!(tile.wm / tile.tm * (tile.wn / tile.tn), 32, "{tile:?}");
        }
    }

    #[test]
    fn a_variant_none_of_whose_tiles_is_legal_is_refused() {
        let case = CaseSpec::new(&MATMUL, Size::Uniform(64), DType::F32);
        let problem = (MATMUL.problem)(&case).expect("its size is usual");
        let split = MATMUL.variant("split").expect("it is in the table");
        let mut device = gpu();
        device.features = Feature::ALL.iter().copied().collect();
        device.cooperative_matrices = vec![matrix([16, 16, 16], "f16", "f32")];
        for (size, legal) in [(32, true), (64, true), (128, false)] {
            device.subgroup.size = size;
            let refusal = MATMUL.feasible(split, &case, &*problem, &device).err();
            assert_eq!(refusal.is_none(), legal, "{size}: {refusal:?}");
            assert!(refusal.is_none_or(|reason| reason.contains("the invocations must divide the pieces of a slab")));
        }
    }

    #[test]
    fn tiles_of_dot_hold_four_bytes_in_a_word_and_a_device_without_dot_products_is_told_so() {
        let mut device = software_device();
        device.limits.shared_memory = Bytes(48 << 10);
        for layout in [Layout::Nn, Layout::Nt, Layout::Tn] {
            let case = CaseSpec::new(&MATMUL, Size::Uniform(1), DType::I8).with(|options| options.layout = layout);
            for tile in DOT.gpu.iter().chain(DOT.software) {
                assert_eq!(DOT.division.check_tile(tile, &case, &device), Ok(()), "{tile:?}");
                let case = CaseSpec { tile: Some((*tile).into()), ..case };
                let program = program(&MATMUL, "dot", &case, &device);
                let dispatch = program.dispatches().next().expect("one dispatch");
                let shared = Bytes(dispatch.shader.shared_bytes(&dispatch.constants));
                assert_eq!(shared, DOT.division.shared_bytes(tile, &case), "{tile:?} {layout}");
                let mut without = device.clone();
                without.features.remove(&Feature::ShaderIntegerDotProduct);
                let missing = program.unsupported(&without);
                assert_eq!(missing.as_deref(), Some("needs feature shaderIntegerDotProduct"));
            }
        }
    }

    #[test]
    fn the_numbers_of_the_post_are_aliases() {
        for (alias, name) in [("v0", "naive"), ("v1", "local"), ("v2", "subgroup")] {
            assert_eq!(MATMUL.variant(alias).map(|variant| &*variant.name), Ok(name));
        }
    }
}
