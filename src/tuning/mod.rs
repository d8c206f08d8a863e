//! The search for tiles: the order in which it tries them (promising ones, then neighbours of the best so far, then the rest
//! by chance) and what it finds. `tuned` keeps its results. Knows no device but its description.

pub(crate) mod tuned;

use crate::algorithms::tile::Tile;
use crate::basis::random::generator;
use crate::basis::units::Nanos;
use crate::plan::shuffle;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Steps, each a doubling or halving of one extent, between tiles that count as neighbours. Two, since a lane's tile
/// changes with its warp's.
const NEAR: u32 = 2;

/// The untried tiles of a search space. The search descends by coordinates: while the best has untried neighbours they
/// are next. The same seed tries the same tiles in the same order, as long as the times agree.
#[derive(Debug)]
pub(crate) struct Search {
    /// Reversed: the next at the end.
    first: Vec<Tile>,
    /// In random order, which breaks ties.
    rest: Vec<Tile>,
}

impl Search {
    /// A search of `space` that begins with `first`, in this order.
    #[must_use]
    pub(crate) fn new(first: &[Tile], space: Vec<Tile>, seed: u64) -> Self {
        let mut unique: Vec<Tile> = vec![];
        for tile in first {
            if !unique.contains(tile) {
                unique.push(*tile);
            }
        }
        let mut rest: Vec<_> = space.into_iter().filter(|tile| !unique.contains(tile)).collect();
        let mut generator = generator(seed, 0);
        shuffle(&mut rest, &mut generator);
        unique.reverse();
        Self { first: unique, rest }
    }

    /// The next tile to try that is `affordable`, when `best` is the fastest so far; `None` when all are tried.
    pub(crate) fn next(&mut self, best: Option<Tile>, affordable: impl Fn(&Tile) -> bool) -> Option<Tile> {
        let next = loop {
            match self.first.pop() {
                Some(tile) if affordable(&tile) => break Some(tile),
                Some(_) => {}
                None => break None,
            }
        };
        next.or_else(|| {
            let candidates = || self.rest.iter().enumerate().filter(|(_, tile)| affordable(tile));
            let near = best.and_then(|best| {
                let steps = candidates().map(|(index, tile)| (distance(best, *tile), index));
                steps.filter(|(steps, _)| *steps <= NEAR).min()
            });
            let index = near.map(|(_, index)| index).or_else(|| candidates().next().map(|(index, _)| index))?;
            Some(self.rest.remove(index))
        })
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SearchResult {
    /// The best tile and its median.
    pub best: (Tile, Nanos),
    /// The built-in tile, and its median where it is known.
    pub built_in: (Tile, Option<Nanos>),
    /// The variant that the rule of `auto` takes, and its median, where that is another variant.
    pub rule: Option<(String, Nanos)>,
    /// Tiles that were tried.
    pub tried: usize,
    /// Number of tiles in the search space.
    pub space: usize,
    /// Tiles whose answer was wrong, or on which the device failed, and why.
    pub refused: Vec<(Tile, Refusal)>,
}

/// The result of a search that has tiles compiled and runs none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InspectedTiles {
    /// The tile nearest to the built-in one that spills least, and what it spills.
    pub best: (Tile, f64),
    /// The built-in tile, and what that spills, if it could be compiled.
    pub built_in: (Tile, Option<f64>),
    /// Tiles that were compiled.
    pub tried: usize,
    /// Number of tiles in the search space.
    pub space: usize,
}

impl InspectedTiles {
    /// Compiles the tiles of `space` from `built_in` outwards, until one does not spill or `spilled` says that there is no time
    /// left: what a tile spills, `None` where that is not known. `None` where it is not known of any.
    pub(crate) fn search(
        built_in: Tile,
        space: Vec<Tile>,
        seed: u64,
        mut spilled: impl FnMut(Tile) -> ControlFlow<(), Option<f64>>,
    ) -> Option<Self> {
        let size = space.len();
        let mut search = Search::new(&[built_in], space, seed);
        let (mut best, mut own, mut tried): (Option<(Tile, f64)>, _, _) = (None, None, 0);
        while let Some(tile) = search.next(Some(built_in), |_| true) {
            let ControlFlow::Continue(spills) = spilled(tile) else { break };
            tried += 1;
            own = own.or(spills.filter(|_| tile == built_in));
            // Of equals the first is the nearest.
            let better = |spills: &f64| best.is_none_or(|(_, least)| *spills < least);
            best = spills.filter(better).map(|spills| (tile, spills)).or(best);
            if best.is_some_and(|(_, spills)| spills == 0.0) {
                break;
            }
        }
        Some(Self { best: best?, built_in: (built_in, own), tried, space: size })
    }
}

/// Why a tile is out of the question, or the whole search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The device lacks what the case needs.
    Unsupported(String),
    /// The answer was wrong, and where.
    Rejected(String),
    /// The device or its driver failed.
    Failed(String),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::Unsupported(reason)
    }
}

/// Doublings and halvings from one tile to another.
fn distance(a: Tile, b: Tile) -> u32 {
    let power = |extent: u32| extent.max(1).ilog2();
    a.extents().into_iter().zip(b.extents()).map(|(a, b)| power(a).abs_diff(power(b))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::matmul;

    fn flat(block: [u32; 3]) -> Tile {
        matmul::ProductTile::flat(block, [4, 4]).into()
    }

    /// Rows, columns and depth of a block.
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
    fn neighbours_of_the_best_come_before_the_rest() {
        let better = |tile: &Tile| {
            let [bm, bn, bk] = block(tile);
            bm.abs_diff(128) + bn.abs_diff(128) + bk
        };
        let tried = order(3, better);
        let best = tried.iter().position(|tile| better(tile) == 8).expect("it is in the space");
        assert!(best < 12, "the best of {} was tried as number {best}", tried.len());
    }

    #[test]
    fn the_nearest_tile_that_does_not_spill_is_found_and_without_one_that_which_spills_least() {
        let built_in = flat([64, 64, 16]);
        let found = |spills: &dyn Fn([u32; 3]) -> Option<f64>, most: usize| {
            let mut left = most;
            InspectedTiles::search(built_in, space(), 1, |tile| {
                if left == 0 {
                    return ControlFlow::Break(());
                }
                left -= 1;
                ControlFlow::Continue(spills(block(&tile)))
            })
        };
        let area = |[bm, bn, _]: [u32; 3]| f64::from(bm * bn);
        let own = found(&|_| Some(0.0), 99).expect("found");
        assert_eq!((own.best, own.built_in, own.tried), ((built_in, 0.0), (built_in, Some(0.0)), 1));
        let smaller = found(&|block| Some((area(block) - 2048.0).max(0.0)), 99).expect("found");
        assert!(area(block(&smaller.best.0)) == 2048.0 && smaller.best.1 == 0.0, "{smaller:?}");
        assert_eq!(smaller.built_in, (built_in, Some(2048.0)));
        assert!(distance(built_in, smaller.best.0) <= 2 && smaller.tried < 12, "{smaller:?}");
        // The least of those for which there was time; one that its compiler fails on is none.
        let least = found(&|block| (block != [64, 64, 16]).then(|| area(block)), 5).expect("found");
        assert_eq!((least.built_in.1, least.tried, least.space), (None, 5, 32));
        assert_eq!(found(&|_| None, 99), None);
        assert_eq!(found(&|_| Some(1.0), 0), None);
    }

    #[test]
    fn what_cannot_be_afforded_is_left_out() {
        let mut search = Search::new(&[flat([128, 128, 16])], space(), 1);
        let mut tried = 0;
        while let Some(tile) = search.next(None, |tile| block(tile)[0] < 128) {
            assert!(block(&tile)[0] < 128);
            tried += 1;
        }
        assert_eq!(tried, 24);
    }
}
