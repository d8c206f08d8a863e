//! Candidates of `--variant auto` for a product, each with the time predicted by the [model](super::model).

use super::constants::{Constants, Pace};
use super::direct;
use super::division::TileTable;
use super::gemv::GemvSchedule;
use super::model::{Slab, predicted, streamed};
use super::tuning::{pace, rank};
use super::units::{STAGED_WIDE, WORKGROUP_WIDE};
use super::variants::{DOT, TILE_2D, TILED, texel_rows};
use crate::algorithms::Candidate;
use crate::prelude::*;

/// Variants with tiles, except those less accurate than their element type, which a user must request explicitly.
static WITH_TILES: [(&str, &TileTable); 6] = [
    ("tiled", &TILED),
    ("coopmat", &STAGED_WIDE),
    ("coopmat2", &WORKGROUP_WIDE),
    ("vectorised", &TILE_2D),
    ("tile-2d", &TILE_2D),
    ("dot", &DOT),
];

/// Variants without a tile that are the fastest at some size.
const WITHOUT_TILES: [&str; 5] = ["naive", "local", "subgroup", "local-2d", "texel"];

/// Returns rows and columns of C, and k per step, of a work-group of a variant in [`WITHOUT_TILES`], with sub-groups of
/// `lanes`; `None` for other variants.
fn block_without_tile(variant: &str, lanes: u32, dims: Dims) -> Option<[u32; 3]> {
    match variant {
        "naive" if lanes == 8 => Some([1, 8, 1]),
        "naive" => Some([16, 16, 1]),
        "local" | "subgroup" => Some([1, lanes, lanes]),
        "local-2d" => Some([16, 16, 16]),
        "texel" if lanes == 8 => Some([texel_rows(dims), 64, 4]),
        "texel" => Some([16, 4 * lanes, 4]),
        _ => None,
    }
}

/// Returns the pace of a variant in [`WITHOUT_TILES`].
fn pace_without_tile(variant: &str, constants: &Constants) -> Pace {
    match variant {
        "naive" => constants.naive,
        "local" => constants.local,
        "subgroup" => constants.subgroup,
        "local-2d" => constants.local_2d,
        _ => constants.texel,
    }
}

/// Returns the candidates that `device` can run, predicted fastest first. Without any, returns the simplest variant,
/// whose case then reports why it cannot run. Excludes variants less accurate than the element type.
pub(super) fn candidates(matmul: &Algorithm, case: &CaseSpec, device: &DeviceInfo) -> Vec<Candidate> {
    let mut candidates = vec![];
    for (variant, tile) in with_tiles(case, device).chain(without_tiles(device)) {
        let Some(predicted) = predict(Constants::of(device), (variant, tile), case, device) else { continue };
        let tile = tile.map(Into::into);
        if is_feasible(matmul, variant, &CaseSpec { tile, ..*case }, device) {
            candidates.push(Candidate { variant, tile, predicted });
        }
    }
    candidates.sort_by_key(|candidate| rank(candidate.predicted, candidate.tile));
    if candidates.is_empty() {
        candidates.push(Candidate { variant: "naive", tile: None, predicted: Nanos(0.0) });
    }
    candidates
}

/// Whether `device` can run a variant with the case's tile.
fn is_feasible(matmul: &Algorithm, variant: &str, case: &CaseSpec, device: &DeviceInfo) -> bool {
    let Ok(variant) = matmul.variant(variant) else { return false };
    let Ok(problem) = (matmul.problem)(case) else { return false };
    matmul.feasible(variant, case, problem.as_ref(), device).is_ok()
}

/// Iterates over variants with tiles: every tile with every plausible number of parts if the model covers the kernel,
/// otherwise the built-in tile only.
fn with_tiles(case: &CaseSpec, device: &DeviceInfo) -> impl Iterator<Item = (&'static str, Option<ProductTile>)> {
    WITH_TILES.iter().flat_map(move |(variant, table)| {
        let modeled = table.division.is_modelled(device);
        let tiles = if modeled { table.subdivided_tiles(case, device) } else { vec![table.built_in(case, device)] };
        tiles.into_iter().map(move |tile| (*variant, Some(tile)))
    })
}

/// Iterates over variants without tiles. On a software device, `gemv` is for the types without texels.
fn without_tiles(device: &DeviceInfo) -> impl Iterator<Item = (&'static str, Option<ProductTile>)> {
    let gemv: &[_] = if device.kind == DeviceKind::Cpu { &["gemv-texel", "gemv"] } else { &["gemv"] };
    WITHOUT_TILES.iter().chain(gemv).chain(&["coopmat-direct"]).map(|variant| (*variant, None))
}

/// Predicts the time of a variant, with this tile if it has one; `None` if the variant cannot compute the case or is
/// not modeled.
pub(super) fn predict(
    constants: &Constants,
    (variant, tile): (&str, Option<ProductTile>),
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Option<Nanos> {
    let machine = &constants.machine;
    if let Some(tile) = tile {
        let (_, table) = WITH_TILES.iter().find(|(own, _)| *own == variant)?;
        // Invocations handle single elements, so row alignment does not matter.
        let is_scalar = variant == "tile-2d";
        let pace = if is_scalar { constants.scalars } else { pace(constants, table.division, &tile, case) };
        let slab = Slab::of_tile(table.division, &tile, case, device, machine);
        return Some(predicted(&tile, slab, &pace, case, machine));
    }
    let lanes = case.subgroup_size(device);
    if let Some(block) = block_without_tile(variant, lanes, Dims::from(case.size)) {
        let pace = pace_without_tile(variant, constants);
        let slab = Slab::without_tile(block, if block[0] == 1 { lanes } else { 256 }, case, machine);
        return Some(predicted(&ProductTile::flat(block, [1, 1]), slab, &pace, case, machine));
    }
    if variant == "coopmat-direct" {
        return Some(direct::predicted(constants, case));
    }
    if !["gemv", "gemv-texel"].contains(&variant) {
        return None;
    }
    let schedule = GemvSchedule::of_case(case, variant == "gemv-texel", device)?;
    Some(streamed(&constants.gemv, &schedule, case, machine))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::tile::{Tile, Tunable};
    use crate::case::Goal;
    use crate::device::fixture::{gpu, software_device};
    use crate::matmul::MATMUL;

    fn candidates(case: &CaseSpec, device: &DeviceInfo) -> Vec<Candidate> {
        super::candidates(&MATMUL, case, device)
    }

    #[test]
    fn every_tunable_variant_is_a_candidate_by_its_own_table_unless_it_is_less_accurate() {
        let is_exact = |tunable: &&Tunable| MATMUL.variant(tunable.variant).is_ok_and(|v| v.shortcuts().is_empty());
        let tunable = MATMUL.tunable.iter().filter(is_exact);
        let mut tables: Vec<_> = tunable.map(|t| (t.variant, std::ptr::from_ref(t.tiles).cast::<()>())).collect();
        // The only one with a table that is not searched.
        tables.push(("dot", std::ptr::from_ref(&DOT).cast()));
        assert_eq!(WITH_TILES.map(|(name, table)| (name, std::ptr::from_ref(table).cast())).to_vec(), tables);
    }

    #[test]
    fn a_software_device_multiplies_bytes_by_dot_products_and_vectors_without_texels() {
        let first = |size, dtype| candidates(&CaseSpec::new(&MATMUL, size, dtype), &software_device())[0].variant;
        assert_eq!(first(Size::Three(64, 512, 512), DType::I8), "dot");
        assert_eq!(first(Size::Three(1, 512, 512), DType::I8), "gemv");
        assert_eq!(first(Size::Three(1, 512, 512), DType::F16), "gemv");
    }

    fn first(m: u64, n: u64, k: u64, device: &DeviceInfo) -> Candidate {
        candidates(&CaseSpec::new(&MATMUL, Size::Three(m, n, k), DType::F32), device)[0]
    }

    #[test]
    fn every_candidate_is_a_variant_that_runs_and_as_accurate_as_its_type() {
        for device in [software_device(), gpu()] {
            for (n, dtype) in
                [1, 64, 2048].into_iter().flat_map(|n| MATMUL.dtypes(Goal::Result).map(move |dtype| (n, dtype)))
            {
                let case = CaseSpec::new(&MATMUL, Size::Uniform(n), dtype);
                let candidates = candidates(&case, &device);
                assert!(candidates.is_sorted_by_key(|own| rank(own.predicted, own.tile)), "{dtype} {n}");
                for Candidate { variant, predicted, .. } in candidates {
                    let exact = MATMUL.variant(variant).is_ok_and(|v| v.supports(dtype) && v.shortcuts().is_empty());
                    assert!(exact, "{variant} {dtype}");
                    assert!(predicted.0.is_finite() && predicted.0 > 0.0, "{variant} {dtype} {n}: {predicted:?}");
                }
            }
        }
    }

    #[test]
    fn every_type_and_layout_has_a_kernel_that_auto_may_choose() {
        let mut device = gpu();
        device.cooperative_matrices.clear();
        for device in [software_device(), device] {
            for (dtype, layout) in
                MATMUL.dtypes(Goal::Result).flat_map(|dtype| Layout::ALL.map(|layout| (dtype, layout)))
            {
                let case = CaseSpec::new(&MATMUL, Size::Three(40, 50, 60), dtype).with(|own| own.layout = layout);
                let variant = MATMUL.variant(candidates(&case, &device)[0].variant).expect("a variant");
                assert!(variant.shaders(dtype, layout).is_some(), "{} {dtype} {layout}", variant.name);
            }
        }
    }

    #[test]
    fn the_first_tile_of_a_variant_is_its_built_in_one() {
        for (m, n, k) in [(4096, 4096, 4096), (64, 64, 65_536), (32, 4096, 4096), (1000, 70, 3), (5, 5, 5)] {
            let case = CaseSpec::new(&MATMUL, Size::Three(m, n, k), DType::F32);
            let candidates = candidates(&case, &gpu());
            let tile = candidates.iter().find(|candidate| candidate.variant == "tiled").and_then(|tiled| tiled.tile);
            assert_eq!(tile, Some(TILED.built_in(&case, &gpu()).into()), "{m}×{n}×{k}");
        }
    }

    #[test]
    fn few_blocks_with_a_deep_k_are_shared_and_many_are_not() {
        let groups = |m, n, k| match first(m, n, k, &gpu()).tile {
            Some(Tile::Product(tile)) => Some(tile.groups),
            _ => None,
        };
        assert!(groups(64, 64, 65_536) > Some(100) && groups(256, 256, 16_384) > Some(100));
        assert_eq!((groups(4096, 4096, 4096), groups(8192, 8192, 64)), (Some(0), Some(0)));
    }

    #[test]
    fn few_rows_or_columns_are_read_at_the_speed_of_memory() {
        for (m, n) in [(1, 4096), (4096, 1)] {
            assert_eq!(first(m, n, 4096, &gpu()).variant, "gemv", "{m}×{n}");
            assert_eq!(first(m, n, 4096, &software_device()).variant, "gemv-texel", "{m}×{n}");
        }
        // On llvmpipe `texel` is faster with 8 vectors.
        assert_eq!(first(8, 4096, 4096, &software_device()).variant, "texel");
        assert_eq!(first(9, 4096, 4096, &software_device()).variant, "texel");
        assert_eq!(first(512, 512, 512, &software_device()).variant, "texel");
    }
}
