//! Search for tiles: the order of candidates (promising ones, then neighbors of the best so far, then the rest at
//! random) and the results, which `tuned` stores. Uses a device's description only.

pub mod tuned;

use crate::algorithms::tile::Tile;
use crate::basis::alike::distinct;
use crate::basis::random::generator;
use crate::basis::units::Nanos;
use crate::device::capability::DeviceKind;
use crate::plan::shuffle;
use crate::stats::noise;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::time::Duration;

/// Largest distance between neighboring tiles: two, because a lane's tile changes with its warp's.
const NEAR: u32 = 2;

/// Untried tiles of a search space. Untried neighbors of the best tile come next (coordinate descent). The same seed
/// and times give the same order.
#[derive(Debug)]
pub struct Search {
    /// First tiles in reverse order.
    first: Vec<Tile>,
    /// Other tiles in random order.
    rest: Vec<Tile>,
}

impl Search {
    /// Returns a search of `space` that begins with `first`, in this order.
    pub fn new(first: &[Tile], space: Vec<Tile>, seed: u64) -> Self {
        let mut first = distinct(first.iter().copied());
        let mut rest: Vec<_> = space.into_iter().filter(|tile| !first.contains(tile)).collect();
        shuffle(&mut rest, &mut generator(seed, 0));
        first.reverse();
        Self { first, rest }
    }

    /// Returns the next affordable tile, given the fastest so far; `None` if none is left.
    pub fn next(&mut self, best: Option<Tile>, is_affordable: impl Fn(&Tile) -> bool) -> Option<Tile> {
        while let Some(tile) = self.first.pop() {
            if is_affordable(&tile) {
                return Some(tile);
            }
        }
        let candidates: Vec<usize> = (0..self.rest.len()).filter(|index| is_affordable(&self.rest[*index])).collect();
        let mut next = *candidates.first()?;
        if let Some(best) = best {
            let distance_to = |index: &usize| distance(best, self.rest[*index]);
            let nearest = candidates.into_iter().min_by_key(distance_to)?;
            if distance_to(&nearest) <= NEAR {
                next = nearest;
            }
        }
        Some(self.rest.remove(next))
    }
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// Best tile and its median.
    pub best: (Tile, Nanos),
    /// Built-in tile, and its median if measured.
    pub built_in: (Tile, Option<Nanos>),
    /// Between which the time of the built-in tile ÷ that of the best lies; `None` if they did not alternate: then the best is
    /// the built-in tile, that of an earlier search, or one where the built-in tile does not work.
    pub gain: Option<[f64; 2]>,
    /// Tile with a shorter median than the built-in one and the best, which stays because nobody can tell, and between which the
    /// time of the built-in tile ÷ its own lies; `None` if they did not alternate.
    #[serde(default)]
    pub unclear: Option<(Tile, Nanos, Option<[f64; 2]>)>,
    /// Other variants that `auto` may select, with their medians, predicted fastest first; empty if there was no time.
    pub rivals: Vec<(String, Nanos)>,
    /// Variants, of these and the searched one, that may be as fast as the fastest, as [`tied`] names them.
    #[serde(default)]
    pub tied: Vec<String>,
    /// Other variants that `auto` may select, for which there was no time.
    #[serde(default)]
    pub untimed: Vec<String>,
    /// Number of tried tiles.
    pub tried: usize,
    /// Number of tiles in the search space.
    pub space: usize,
    /// Time of compiling tiles, of their first runs and checks.
    pub preparation: Duration,
    /// Tiles with wrong answers or failures, with the reasons.
    pub refused: Vec<(Tile, Refusal)>,
    /// Share of the processors that other programs used meanwhile, if the device computes on them.
    #[serde(default)]
    pub others: Option<f64>,
}

/// Other variants that `auto` may select, as a search found them before it tried tiles. Those that crashed the driver or
/// were wrong matter even if no tile works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rivals {
    pub timed: Vec<(String, Nanos)>,
    pub refused: Vec<(String, Refusal)>,
}

impl Rivals {
    /// Leaves a variant out, with the reason.
    pub fn refuse(&mut self, name: String, refusal: Refusal) {
        self.timed.retain(|(timed, _)| *timed != name);
        self.refused.push((name, refusal));
    }

    /// Names those that may be as fast as the fastest on this kind of device, as far as times without intervals tell.
    pub fn tied(&self, kind: DeviceKind) -> Vec<String> {
        tied(&self.timed.iter().map(|(name, time)| (name.clone(), *time, None)).collect::<Vec<_>>(), kind)
    }

    /// Whether a variant was left out.
    pub fn is_refused(&self, name: &str) -> bool {
        self.refused.iter().any(|(refused, _)| refused == name)
    }
}

/// Ratio by which a busy moment may have changed times of too few samples for an interval, either way, as in the tables of
/// `bench`.
const MOMENT: f64 = 2.0;

/// Names the variants whose intervals begin before that of the one with the shortest median ends, or by less after it than
/// another process on this kind of device is assumed to differ. One without an interval has too few samples: its time may be off
/// by a factor of two.
pub fn tied(times: &[(String, Nanos, Option<[Nanos; 2]>)], kind: DeviceKind) -> Vec<String> {
    let apart = 1.0 + noise::assumed(kind.runs_on_host_cores());
    let Some(fastest) = times.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0)) else { return vec![] };
    let others = times.iter().filter(|(name, ..)| *name != fastest.0);
    let ends = |(_, time, interval): &(String, Nanos, Option<[Nanos; 2]>)| {
        interval.map_or([time.0 / MOMENT, time.0 * MOMENT], |ends| ends.map(|end| end.0))
    };
    let [_, end] = ends(fastest);
    others.filter(|other| ends(other)[0] <= end * apart).map(|(name, ..)| name.clone()).collect()
}

/// Result of a search that only compiles tiles.
#[derive(Clone, Debug, PartialEq)]
pub struct InspectedTiles {
    /// Tile with the fewest spills, nearest to the built-in one, and its spills.
    pub best: (Tile, f64),
    /// Built-in tile, and its spills if it could be compiled.
    pub built_in: (Tile, Option<f64>),
    /// Number of compiled tiles.
    pub tried: usize,
    /// Number of tiles in the search space.
    pub space: usize,
}

impl InspectedTiles {
    /// Compiles the tiles of `space` in order of distance from `built_in`, until one does not spill. `spilled` returns
    /// a tile's spills, or ends the search when the time is up. Returns `None` if no tile's spills are known.
    pub fn search(
        built_in: Tile,
        space: Vec<Tile>,
        seed: u64,
        mut spilled: impl FnMut(Tile) -> ControlFlow<(), Option<f64>>,
    ) -> Option<Self> {
        let space_size = space.len();
        let mut search = Search::new(&[built_in], space, seed);
        let mut best: Option<(Tile, f64)> = None;
        let mut built_in_spills = None;
        let mut tried = 0;
        while let Some(tile) = search.next(Some(built_in), |_| true) {
            let ControlFlow::Continue(spills) = spilled(tile) else { break };
            tried += 1;
            let Some(spills) = spills else { continue };
            if tile == built_in {
                built_in_spills = Some(spills);
            }
            // Of equals, keep the first, which is the nearest.
            if best.is_none_or(|(_, least)| spills < least) {
                best = Some((tile, spills));
            }
            if spills == 0.0 {
                break;
            }
        }
        Some(Self { best: best?, built_in: (built_in, built_in_spills), tried, space: space_size })
    }
}

/// Reason for the failure of a tile, or of the whole search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Capability that the device lacks.
    Unsupported(String),
    /// Location of a wrong answer.
    Rejected(String),
    /// Failure of the device or its driver.
    Failed(String),
    /// Driver call that took too long, beside a tile that was timed; or another variant's, or a kill from outside. It says
    /// nothing of the kernel's correctness.
    TimedOut(String),
}

impl Refusal {
    /// Returns the reason.
    pub fn reason(&self) -> &str {
        let (Self::Unsupported(reason) | Self::Rejected(reason) | Self::Failed(reason) | Self::TimedOut(reason)) = self;
        reason
    }

    /// Returns why a variant must not be used on a device with this driver: it failed or gave a wrong answer.
    pub fn disqualifies(&self) -> Option<&str> {
        matches!(self, Self::Rejected(_) | Self::Failed(_)).then(|| self.reason())
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::Unsupported(reason)
    }
}

/// Returns the number of doublings and halvings from one tile to another.
fn distance(a: Tile, b: Tile) -> u32 {
    let power = |extent: u32| extent.max(1).ilog2();
    a.extents().into_iter().zip(b.extents()).map(|(a, b)| power(a).abs_diff(power(b))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matmul;

    fn flat(block: [u32; 3]) -> Tile {
        matmul::ProductTile::flat(block, [4, 4]).into()
    }

    /// Returns the rows, columns and depth of a block.
    fn block(tile: &Tile) -> [u32; 3] {
        let Tile::Product(matmul::ProductTile { bm, bn, bk, .. }) = *tile else { panic!("{tile} is no product") };
        [bm, bn, bk]
    }

    fn space() -> Vec<Tile> {
        let extents = [16, 32, 64, 128];
        let pairs = extents.into_iter().flat_map(|bm| extents.map(|bn| (bm, bn)));
        pairs.flat_map(|(bm, bn)| [8, 16].map(|bk| flat([bm, bn, bk]))).collect()
    }

    fn order(seed: u64, better: impl Fn(&Tile) -> u32) -> Vec<Tile> {
        let first = [flat([64, 64, 8]), flat([16, 16, 16])];
        let mut search = Search::new(&first, space(), seed);
        let mut tried: Vec<Tile> = vec![];
        while let Some(tile) = search.next(tried.iter().copied().min_by_key(&better), |_| true) {
            tried.push(tile);
        }
        tried
    }

    #[test]
    fn every_tile_is_tried_once_the_promising_ones_first() {
        let tried = order(1, |tile| block(tile)[0]);
        assert_eq!((block(&tried[0])[0], block(&tried[1])[0]), (64, 16));
        assert_eq!(tried.len(), space().len());
        assert!(space().iter().all(|tile| tried.contains(tile)));
    }

    #[test]
    fn the_same_seed_gives_the_same_order_and_another_seed_another() {
        let order = |seed| order(seed, |tile| block(tile)[0]);
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
    }

    #[test]
    fn neighbors_of_the_best_come_before_the_rest() {
        let better = |tile: &Tile| {
            let [bm, bn, bk] = block(tile);
            bm.abs_diff(128) + bn.abs_diff(128) + bk
        };
        let tried = order(3, better);
        let best = tried.iter().position(|tile| better(tile) == 8).expect("it is in the space");
        assert!(best < 12, "the best of {} was tried as number {best}", tried.len());
    }

    #[test]
    fn inspection_finds_the_nearest_tile_with_the_fewest_spills() {
        let built_in = flat([64, 64, 16]);
        let search_with = |spills: &dyn Fn([u32; 3]) -> Option<f64>, most: usize| {
            let mut remaining = most;
            InspectedTiles::search(built_in, space(), 1, |tile| {
                if remaining == 0 {
                    return ControlFlow::Break(());
                }
                remaining -= 1;
                ControlFlow::Continue(spills(block(&tile)))
            })
        };
        let area = |[bm, bn, _]: [u32; 3]| f64::from(bm * bn);
        let unspilled = search_with(&|_| Some(0.0), 99).expect("found");
        assert_eq!((unspilled.best, unspilled.built_in, unspilled.tried), ((built_in, 0.0), (built_in, Some(0.0)), 1));
        let smaller = search_with(&|block| Some((area(block) - 2048.0).max(0.0)), 99).expect("found");
        assert!(area(block(&smaller.best.0)) == 2048.0 && smaller.best.1 == 0.0, "{smaller:?}");
        assert_eq!(smaller.built_in, (built_in, Some(2048.0)));
        assert!(distance(built_in, smaller.best.0) <= 2 && smaller.tried < 12, "{smaller:?}");
        // The fewest spills so far win when the time is up; a tile that fails to compile does not count.
        let least = search_with(&|block| (block != [64, 64, 16]).then(|| area(block)), 5).expect("found");
        assert_eq!((least.built_in.1, least.tried, least.space), (None, 5, 32));
        assert_eq!(search_with(&|_| None, 99), None);
        assert_eq!(search_with(&|_| Some(1.0), 0), None);
    }

    #[test]
    fn unaffordable_tiles_are_left_out() {
        let mut search = Search::new(&[flat([128, 128, 16])], space(), 1);
        let mut tried = 0;
        while let Some(tile) = search.next(None, |tile| block(tile)[0] < 128) {
            assert!(block(&tile)[0] < 128);
            tried += 1;
        }
        assert_eq!(tried, 24);
    }
}
