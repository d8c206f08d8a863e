//! What `--variant auto` chooses from: the ways to compute a product, each with the time that it should take.

use super::model::{self, Machine, Pace};
use super::parts::slabs;
use super::tile::{BlockDivision, Tile};
use super::tuning::TUNABLE;
use super::{Dims, MATMUL};
use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::basis::units::Nanos;
use crate::device::capability::{DeviceInfo, DeviceKind};

/// A way to compute a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// The variant.
    pub(crate) variant: &'static str,
    /// Its tile, where it has a choice.
    pub(crate) tile: Option<Tile>,
    /// What it should take.
    pub(crate) predicted: Nanos,
}

/// The ways to compute a case on `device`, what should be fastest first. Kernels that compute less accurately than the element type
/// promises are not among them.
pub(crate) fn candidates(case: &CaseSpec, device: &DeviceInfo) -> Vec<Candidate> {
    let mut found = vec![];
    let problem = (MATMUL.problem)(case);
    let Ok(problem) = problem.as_ref() else { return found };
    let mut add = |variant: &'static str, tile: Option<Tile>, block: Tile, pace: Pace| {
        let with_tile = CaseSpec { tile, ..*case };
        let known = MATMUL.variant(variant);
        if known.is_ok_and(|known| MATMUL.feasible(known, &with_tile, problem.as_ref(), device).is_ok()) {
            found.push(Candidate { variant, tile, predicted: model::predicted(&block, pace, case, device) });
        }
    };
    let software = device.kind == DeviceKind::Cpu;
    for tunable in TUNABLE
        .iter()
        .filter(|tunable| !["split", "coopmat-narrow", "coopmat2-narrow", "coopmat2"].contains(&tunable.variant))
    {
        for tile in tunable.choice.tiles(case.dtype, device) {
            let division = tunable.choice.division;
            let rate = match (division, software) {
                (BlockDivision::Matrices(_), _) => 2200.0,
                (BlockDivision::Warps, false) => 350.0,
                (_, false) => 220.0,
                (_, true) => 4.0,
            };
            let pace = Pace {
                rate,
                wait: if software { 0.0 } else { 600.0 },
                ends: if software { 0.0 } else { 1500.0 },
                resident: 2,
            };
            for parts in parts_worth_a_try(&tile, case, device, division) {
                add(tunable.variant, Some(tile.over(parts)), tile.over(parts), pace);
            }
        }
    }
    let width = case.subgroup_size(device);
    for (variant, block, rate, wait) in [
        ("naive", [16, 16, 1], 30.0, 40.0),
        ("local", [1, width, width], 30.0, 500.0),
        ("subgroup", [1, width, width], 30.0, 400.0),
        ("local-2d", [16, 16, 16], 60.0, 500.0),
        ("tile-1d", [64, 64, 8], 120.0, 500.0),
        ("texel", if software { [32, 64, 4] } else { [16, width * 4, 4] }, if software { 35.0 } else { 230.0 }, 500.0),
    ] {
        let pace = Pace {
            rate: if software && variant != "texel" { rate / 100.0 } else { rate },
            wait: if software { 0.0 } else { wait },
            ends: if software { 0.0 } else { 1000.0 },
            resident: if software { 1 } else { 8 },
        };
        add(variant, None, Tile::flat(block, [1, 1]), pace);
    }
    found.sort_by(|a, b| a.predicted.0.total_cmp(&b.predicted.0));
    found
}

/// Numbers of parts of K that may be best for a tile: one, and those that give each core one work-group, two or four.
fn parts_worth_a_try(tile: &Tile, case: &CaseSpec, device: &DeviceInfo, division: BlockDivision) -> Vec<u32> {
    let dims = Dims::from(case.size);
    let blocks = tile.blocks(dims).iter().product::<u64>();
    let cores = Machine::of(device).cores;
    let most = (slabs(*tile, dims.k) / 2).min(1024);
    let mut parts = vec![1];
    if division.cuts_k() {
        for groups in [1, 2, 4] {
            let wanted = (groups * cores / blocks) as u32;
            if u64::from(wanted) <= most && wanted > 1 && !parts.contains(&wanted) {
                parts.push(wanted);
            }
        }
    }
    parts
}

#[allow(dead_code)]
const UNUSED: Option<DType> = None;
