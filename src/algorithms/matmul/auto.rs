//! What `--variant auto` chooses from: the ways to compute a product, each with the time that it should take by the
//! [model](super::model).

use super::constants::{Constants, Pace};
use super::gemv::Schedule;
use super::model::{Slab, predicted, streamed};
use super::parts::slabs;
use super::tile::{BlockDivision, Tile, TileTable};
use super::tuning::choices;
use super::variants::texel_rows;
use super::{Dims, MATMUL, direct};
use crate::algorithms::{Candidate, CaseSpec, tile};
use crate::basis::dtype::DType;
use crate::basis::units::Nanos;
use crate::device::capability::{Accumulator, DeviceInfo, DeviceKind};
use std::iter;

/// A variant without a tile that is the fastest of some size.
struct Plain {
    variant: &'static str,
    /// What a work-group computes, rows by columns by the k of a step, on sub-groups of so many lanes.
    block: fn(u32, Dims) -> [u32; 3],
    pace: fn(&Constants) -> Pace,
}

static PLAIN: &[Plain] = &[
    Plain {
        variant: "naive",
        block: |lanes, _| if lanes == 8 { [1, 8, 1] } else { [16, 16, 1] },
        pace: |constants| constants.naive,
    },
    Plain { variant: "local", block: |lanes, _| [1, lanes, lanes], pace: |constants| constants.local },
    Plain { variant: "subgroup", block: |lanes, _| [1, lanes, lanes], pace: |constants| constants.subgroup },
    Plain { variant: "local-2d", block: |_, _| [16, 16, 16], pace: |constants| constants.local_2d },
    Plain {
        variant: "texel",
        block: |lanes, dims| if lanes == 8 { [texel_rows(dims), 64, 4] } else { [16, 4 * lanes, 4] },
        pace: |constants| constants.texel,
    },
];

/// Variants that compute less accurately than the element type promises: for a person to ask for.
const LESS_ACCURATE: [&str; 3] = ["split", "coopmat-narrow", "coopmat2-narrow"];

/// The ways to compute a case that `device` can run, what should be fastest first; without any, the plainest, whose case then says
/// why it cannot run. Kernels that compute less accurately than the element type promises are not among them.
pub(super) fn candidates(case: &CaseSpec, device: &DeviceInfo) -> Vec<Candidate> {
    let runs = |candidate: &Candidate| {
        let case = CaseSpec { tile: candidate.tile, ..*case };
        let found = MATMUL.variant(candidate.variant).and_then(|variant| {
            let problem = (MATMUL.problem)(&case)?;
            MATMUL.feasible(variant, &case, problem.as_ref(), device)
        });
        found.is_ok()
    };
    let candidate = |(variant, tile): (&'static str, Option<Tile>)| {
        let predicted = predict(Constants::of(device), (variant, tile), case, device)?;
        Some(Candidate { variant, tile: tile.map(tile::Tile::from), predicted })
    };
    let mut found: Vec<_> = tiled(case, device).chain(others(device)).filter_map(candidate).filter(runs).collect();
    found.sort_by_key(|candidate| rank(candidate.predicted, candidate.tile));
    if found.is_empty() {
        found.push(Candidate { variant: "naive", tile: None, predicted: Nanos(0.0) });
    }
    found
}

/// The order of ways: by predicted time. Those that differ by less than the model can tell are alike, and a product in one pass is
/// then preferred, then what is earlier in its table, where the tiles are that searches found.
pub(super) fn rank(predicted: Nanos, tile: Option<tile::Tile>) -> (i64, bool) {
    (
        (predicted.0.max(1.0).ln() / ALIKE).floor() as i64,
        matches!(tile, Some(tile::Tile::Product(tile)) if tile.takes_two_passes()),
    )
}

/// The logarithm of the ratio of times that the model cannot tell apart.
const ALIKE: f64 = 0.02;

/// The variants with tiles: each tile of the table over the numbers of parts that are worth a try, where the model knows the pace of
/// the kernel well enough to choose, else the built-in tile.
fn tiled(case: &CaseSpec, device: &DeviceInfo) -> impl Iterator<Item = (&'static str, Option<Tile>)> {
    let accurate = choices().filter(|(variant, _)| !LESS_ACCURATE.contains(variant));
    accurate.flat_map(move |(variant, choice)| {
        let modelled = choice.division.is_modelled(device);
        let tiles = if modelled { ways(choice, case, device) } else { vec![choice.built_in(case, device)] };
        tiles.into_iter().map(move |tile| (variant, Some(tile)))
    })
}

/// The variants without. Which of two is for a device is a matter of its kind.
fn others(device: &DeviceInfo) -> impl Iterator<Item = (&'static str, Option<Tile>)> {
    let gemv = if device.kind == DeviceKind::Cpu { "gemv-texel" } else { "gemv" };
    PLAIN.iter().map(|plain| plain.variant).chain([gemv, "coopmat-direct"]).map(|variant| (variant, None))
}

/// The time that a variant should take, with this tile where it has some, by these constants; `None` where it cannot compute the
/// case, or is not modelled.
pub(super) fn predict(
    constants: &Constants,
    (variant, tile): (&str, Option<Tile>),
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Option<Nanos> {
    let machine = &constants.machine;
    if let Some(tile) = tile {
        let (_, choice) = choices().find(|(own, _)| *own == variant)?;
        // Its invocations have single elements, so it is all the same to it where rows start.
        let in_scalars = variant == "tile-2d";
        let pace = if in_scalars { constants.scalars } else { pace(constants, choice.division, &tile, case) };
        let slab = Slab::of(choice.division, &tile, case, device, machine);
        return Some(predicted(&tile, slab, &pace, case, machine));
    }
    if let Some(plain) = PLAIN.iter().find(|plain| plain.variant == variant) {
        let lanes = case.subgroup_size(device);
        let block = (plain.block)(lanes, Dims::from(case.size));
        let slab = Slab::plain(block, if block[0] == 1 { lanes } else { 256 }, case, machine);
        return Some(predicted(&Tile::flat(block, [1, 1]), slab, &(plain.pace)(constants), case, machine));
    }
    if variant == "coopmat-direct" {
        return Some(direct::predicted(constants, case));
    }
    let texels = variant == "gemv-texel";
    let schedule = Schedule::of(case, texels, device).filter(|_| texels || variant == "gemv")?;
    Some(streamed(&constants.gemv, &schedule, case, machine))
}

/// The predicted time of a tiled kernel.
pub(super) fn time(division: BlockDivision, tile: &Tile, case: &CaseSpec, device: &DeviceInfo) -> Nanos {
    let constants = Constants::of(device);
    let slab = Slab::of(division, tile, case, device, &constants.machine);
    predicted(tile, slab, &pace(constants, division, tile, case), case, &constants.machine)
}

fn pace(constants: &Constants, division: BlockDivision, tile: &Tile, case: &CaseSpec) -> Pace {
    let times = |pace: Pace, faster: f64| Pace { products: faster * pace.products, ..pace };
    match division {
        // A GPU multiplies half as many of these at best.
        BlockDivision::Warps if matches!(case.dtype, DType::F64 | DType::I32) => times(constants.in_warps(tile), 0.5),
        BlockDivision::Warps => constants.in_warps(tile),
        BlockDivision::Quads => constants.quads,
        BlockDivision::Columns => constants.columns,
        // Bytes are multiplied twice as fast.
        BlockDivision::Matrices(_) | BlockDivision::Halves if case.dtype == DType::I8 => times(constants.matrices, 2.0),
        BlockDivision::Matrices(Accumulator::Wide) => constants.in_matrices(tile),
        BlockDivision::Matrices(Accumulator::Narrow) | BlockDivision::Halves => constants.matrices,
        BlockDivision::Block(_) => constants.blocks,
    }
}

/// The tiles of a table for a case, each over the numbers of parts that are worth a try.
pub(super) fn ways(choice: &TileTable, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile> {
    choice.tiles(case.dtype, device).flat_map(|tile| shared(tile, choice.division, case, device)).collect()
}

/// A tile, and the same over the numbers of parts, or with the numbers of groups, that are worth a try.
pub(super) fn shared(tile: Tile, division: BlockDivision, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile> {
    if division.shares() {
        return iter::once(tile).chain(groups_worth_a_try(&tile, case, device)).collect();
    }
    parts_worth_a_try(&tile, division, case, device).into_iter().map(|parts| tile.over(parts)).collect()
}

/// A tile with the numbers of groups that may be best for it: one to four for each core, or so many that each block has a whole number of
/// them, of two slabs at least.
fn groups_worth_a_try(tile: &Tile, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile> {
    let dims = Dims::from(case.size);
    let blocks = tile.blocks(dims).iter().product::<u64>();
    let slabs = blocks * tile.slabs(dims.k);
    let of_cores = (1..=4).map(|groups| groups * Constants::of(device).machine.cores);
    let mut groups: Vec<_> = of_cores.flat_map(|groups| [groups, groups / blocks * blocks]).collect();
    groups.dedup();
    let worth_a_try = |groups: &u64| *groups > 0 && *groups != blocks && 2 * groups <= slabs;
    groups.into_iter().filter(worth_a_try).map(|groups| tile.shared_by(groups as u32)).collect()
}

/// Numbers of parts of K that may be best for a tile: one, and those that give each core one to four work-groups, of two slabs at
/// least.
fn parts_worth_a_try(tile: &Tile, division: BlockDivision, case: &CaseSpec, device: &DeviceInfo) -> Vec<u32> {
    let dims = Dims::from(case.size);
    let blocks = tile.blocks(dims).iter().product::<u64>().max(1);
    let most = (slabs(*tile, dims.k) / 2).min(MOST_PARTS);
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

/// More parts of K are more to add up than they save.
const MOST_PARTS: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Goal;
    use crate::basis::size::Size;
    use crate::device::capability::tests::{gpu, software_device};

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
                    assert!(!LESS_ACCURATE.contains(&variant), "{variant}");
                    assert!(MATMUL.variant(variant).is_ok_and(|v| v.supports(dtype)), "{variant} {dtype}");
                    assert!(predicted.0.is_finite() && predicted.0 > 0.0, "{variant} {dtype} {n}: {predicted:?}");
                }
            }
        }
    }

    #[test]
    fn the_first_tile_of_a_variant_is_its_built_in_one() {
        for (m, n, k) in [(4096, 4096, 4096), (64, 64, 65_536), (32, 4096, 4096), (1000, 70, 3), (5, 5, 5)] {
            let case = CaseSpec::new(&MATMUL, Size::Three(m, n, k), DType::F32);
            let candidates = candidates(&case, &gpu());
            let tile = candidates.iter().find(|candidate| candidate.variant == "tiled").and_then(|tiled| tiled.tile);
            let (_, tiled) = choices().find(|(variant, _)| *variant == "tiled").expect("it has tiles");
            assert_eq!(tile, Some(tiled.built_in(&case, &gpu()).into()), "{m}×{n}×{k}");
        }
    }

    #[test]
    fn few_blocks_with_a_deep_k_are_shared_and_many_are_not() {
        let groups = |m, n, k| match first(m, n, k, &gpu()).tile {
            Some(tile::Tile::Product(tile)) => Some(tile.groups),
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
        // On llvmpipe `texel` is the faster with 8 vectors.
        assert_eq!(first(8, 4096, 4096, &software_device()).variant, "texel");
        assert_eq!(first(9, 4096, 4096, &software_device()).variant, "texel");
        assert_eq!(first(512, 512, 512, &software_device()).variant, "texel");
    }
}
