//! What `--variant auto` chooses from: the ways to compute a product, each with the time that it should take by the
//! [model](super::model). Its constants for GPUs were fitted to an H100, those for software devices to two cores of llvmpipe, from what
//! `gpukern bench matmul -V auto --explain` measured; `gpukern tune` measures where they do not hold.

use super::model::{Machine, Pace, Slab, Stream, predicted, streamed};
use super::parts::slabs;
use super::tile::{BlockDivision, Choice, Tile};
use super::tuning::choices;
use super::variants::texel_rows;
use super::{Dims, MATMUL};
use crate::algorithms::{Candidate, CaseSpec, tile};
use crate::basis::dtype::DType;
use crate::basis::units::Nanos;
use crate::device::capability::{Accumulator, DeviceInfo, DeviceKind};

/// The paces of tiled kernels on GPUs: in lanes, with and without warps, and in matrices of 16 bits.
const IN_WARPS: Pace = Pace { products: 191.0, reads: 1e5, fetches: 59.0, wait: 67.0, ends: 480.0 };
const IN_QUADS: Pace = Pace { products: 196.0, reads: 175.0, fetches: 39.0, wait: 162.0, ends: 254.0 };
const IN_COLUMNS: Pace = Pace { products: 62.0, reads: 274.0, fetches: 42.0, wait: 600.0, ends: 312.0 };
const IN_MATRICES: Pace = Pace { products: 2180.0, reads: 680.0, fetches: 69.0, wait: 130.0, ends: 220.0 };
const IN_BLOCKS: Pace = Pace { products: 870.0, reads: 7800.0, fetches: 305.0, wait: 355.0, ends: 434.0 };
/// On software devices, where all memory is alike and nothing waits.
const IN_SOFTWARE: Pace = Pace { products: 0.9, reads: 1e9, fetches: 1e9, wait: 0.0, ends: 10_000.0 };

/// A variant without a tile: what a work-group computes, rows by columns by the k of a step, and how fast.
struct Plain {
    variant: &'static str,
    block: fn(u32, Dims) -> [u32; 3],
    gpu: Pace,
    software: Pace,
}

const fn plain(products: f64, wait: f64, ends: f64) -> Pace {
    Pace { products, reads: 1e9, fetches: 1e9, wait, ends }
}

/// Those that are the fastest of some size.
static PLAIN: &[Plain] = &[
    Plain {
        variant: "naive",
        block: |lanes, _| if lanes == 8 { [1, 8, 1] } else { [16, 16, 1] },
        gpu: plain(22.6, 1.4, 193.0),
        software: plain(0.065, 0.0, 100.0),
    },
    Plain {
        variant: "local",
        block: |lanes, _| [1, lanes, lanes],
        gpu: plain(12.1, 273.0, 140.0),
        software: plain(0.07, 0.0, 1000.0),
    },
    Plain {
        variant: "subgroup",
        block: |lanes, _| [1, lanes, lanes],
        gpu: plain(13.9, 289.0, 1013.0),
        software: plain(0.1, 0.0, 1000.0),
    },
    Plain {
        variant: "local-2d",
        block: |_, _| [16, 16, 16],
        gpu: plain(26.5, 3.2, 9.9),
        software: plain(0.3, 0.0, 5000.0),
    },
    Plain {
        variant: "texel",
        block: |lanes, dims| if lanes == 8 { [texel_rows(dims), 64, 4] } else { [16, 4 * lanes, 4] },
        gpu: plain(457.0, 259.0, 795.0),
        software: plain(13.0, 0.0, 12_000.0),
    },
];

/// The variants for few rows or columns, which read their operands once, on GPUs and on software devices.
const GEMV: [Stream; 2] = [
    Stream { share: 0.95, products: 60.0, loads: 1e9, stores: 1e9, step: [1, 1], ends: 3000.0 },
    Stream { share: 0.9, products: 0.7, loads: 0.7, stores: 0.017, step: [32, 16], ends: 2000.0 },
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
    let mut found: Vec<_> = tiled(case, device).chain(others(case, device)).filter(runs).collect();
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
        matches!(tile, Some(tile::Tile::Product(tile)) if tile.k_parts > 1),
    )
}

/// The logarithm of the ratio of times that the model cannot tell apart.
const ALIKE: f64 = 0.02;

/// The variants with tiles: each tile of the table over the numbers of parts that are worth a try, where the model knows the pace of
/// the kernel well enough to choose, else the built-in tile.
fn tiled(case: &CaseSpec, device: &DeviceInfo) -> impl Iterator<Item = Candidate> {
    let accurate = choices().filter(|(variant, _)| !LESS_ACCURATE.contains(variant));
    accurate.flat_map(move |(variant, choice)| {
        let division = choice.division;
        let tiles =
            if division.is_modelled(device) { ways(choice, case, device) } else { vec![choice.built_in(case, device)] };
        tiles.into_iter().map(move |tile| {
            let predicted = time(division, &tile, case, device);
            Candidate { variant, tile: Some(tile.into()), predicted }
        })
    })
}

/// The variants without.
fn others(case: &CaseSpec, device: &DeviceInfo) -> impl Iterator<Item = Candidate> {
    let software = device.kind == DeviceKind::Cpu;
    let lanes = case.subgroup_size(device);
    let plain = PLAIN.iter().map(move |plain| {
        let block = (plain.block)(lanes, Dims::from(case.size));
        let pace = if software { plain.software } else { plain.gpu };
        let slab = Slab::plain(block, if block[0] == 1 { lanes } else { 256 }, device);
        let predicted = predicted(&Tile::flat(block, [1, 1]), slab, &pace, case, device);
        Candidate { variant: plain.variant, tile: None, predicted }
    });
    let stream = move |variant| Candidate {
        variant,
        tile: None,
        predicted: streamed(&GEMV[usize::from(software)], case, device),
    };
    // Which of the two is for a device is a matter of its kind.
    plain.chain([stream(if software { "gemv-texel" } else { "gemv" })])
}

/// The predicted time of a tiled kernel.
pub(super) fn time(division: BlockDivision, tile: &Tile, case: &CaseSpec, device: &DeviceInfo) -> Nanos {
    predicted(tile, Slab::of(division, tile, case, device), &pace(division, case, device), case, device)
}

fn pace(division: BlockDivision, case: &CaseSpec, device: &DeviceInfo) -> Pace {
    if device.kind == DeviceKind::Cpu {
        return IN_SOFTWARE;
    }
    match division {
        // A GPU multiplies half as many of these at best.
        BlockDivision::Warps if matches!(case.dtype, DType::F64 | DType::I32) => {
            Pace { products: IN_WARPS.products / 2.0, ..IN_WARPS }
        }
        BlockDivision::Warps => IN_WARPS,
        BlockDivision::Quads => IN_QUADS,
        BlockDivision::Columns => IN_COLUMNS,
        BlockDivision::Matrices(Accumulator::Wide | Accumulator::Narrow) | BlockDivision::Halves => {
            // Bytes are multiplied twice as fast.
            let faster = if case.dtype == DType::I8 { 2.0 } else { 1.0 };
            Pace { products: faster * IN_MATRICES.products, ..IN_MATRICES }
        }
        BlockDivision::Block(_) => IN_BLOCKS,
    }
}

/// The tiles of a table for a case, each over the numbers of parts that are worth a try.
pub(super) fn ways(choice: &Choice, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile> {
    choice.tiles(case.dtype, device).flat_map(|tile| over_parts(tile, choice.division, case, device)).collect()
}

/// A tile over the numbers of parts that are worth a try.
pub(super) fn over_parts(
    tile: Tile,
    division: BlockDivision,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> impl Iterator<Item = Tile> + use<> {
    parts_worth_a_try(&tile, division, case, device).into_iter().map(move |parts| tile.over(parts))
}

/// Numbers of parts of K that may be best for a tile: one, and those that give each core a work-group, two or four, of two slabs at
/// least.
fn parts_worth_a_try(tile: &Tile, division: BlockDivision, case: &CaseSpec, device: &DeviceInfo) -> Vec<u32> {
    let dims = Dims::from(case.size);
    let blocks = tile.blocks(dims).iter().product::<u64>().max(1);
    let most = (slabs(*tile, dims.k) / 2).min(MOST_PARTS);
    let mut parts = vec![1];
    if division.cuts_k() {
        for groups in [1, 2, 4] {
            let wanted = groups * Machine::of(device).cores / blocks;
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
    fn few_blocks_with_a_deep_k_are_cut_into_parts_and_many_are_not() {
        let parts = |m, n, k| match first(m, n, k, &gpu()).tile {
            Some(tile::Tile::Product(tile)) => Some(tile.k_parts),
            _ => None,
        };
        assert!(parts(64, 64, 65_536) > Some(100) && parts(256, 256, 16_384) > Some(4));
        assert_eq!((parts(4096, 4096, 4096), parts(8192, 8192, 64)), (Some(1), Some(1)));
    }

    #[test]
    fn few_rows_or_columns_are_read_at_the_speed_of_memory() {
        for (m, n) in [(1, 4096), (8, 4096), (4096, 1)] {
            assert_eq!(first(m, n, 4096, &gpu()).variant, "gemv", "{m}×{n}");
            assert_eq!(first(m, n, 4096, &software_device()).variant, "gemv-texel", "{m}×{n}");
        }
        assert_eq!(first(9, 4096, 4096, &software_device()).variant, "texel");
        assert_eq!(first(512, 512, 512, &software_device()).variant, "texel");
    }
}
