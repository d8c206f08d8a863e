//! Products of `blocked-split` on matrix units. Each f32 of an outer block's columns of L and rows of U is split into the
//! sum of two f16, its halves, scaled so that they neither overflow nor lose digits; as in `matmul/split`, three
//! products of halves replace one of f32.

use super::schedule::{Area, LuSchedule, Panel, in_blocks};
use crate::case::Computes;
use crate::elements::arguments;
use crate::matmul::{ProductTile, matrix_shape};
use crate::prelude::*;

/// Work-group size of the kernels that find scales and that split.
const PREPARING_INVOCATIONS: u32 = 256;
/// Rows or columns split per work-group.
const SPLIT_LINES: u64 = 128;
/// Values of the constant `SIDE` of `split-halves.comp`.
const ROWS_OF_U: u32 = 0;
const COLUMNS_OF_L: u32 = 1;
/// Columns of L, or rows of U, per loop iteration of a splitting invocation, which goes through every 16th twice.
const SPLIT_PER_ITERATION: u64 = 8;

/// Elements of W from which the large tile is used: those of the 2·132 tiles of 128×128 that an H100 runs at a time.
const LARGE_AREA: u64 = 2 * 132 * 128 * 128;

/// Arithmetic of the products.
pub(super) const COMPUTES: Computes = Computes { dtype: DType::F16, operations: 3 };

/// Halves of an outer block, and the kernels that compute and multiply them.
#[derive(Clone, Copy)]
pub(super) struct Halves {
    find_scales: &'static Shader,
    split: &'static Shader,
    multiply: &'static Shader,
    /// Scale of each column of L, and inversely of the row of U that it is multiplied by.
    scales: BufferId,
    p: HalvedOperand,
    q: HalvedOperand,
}

/// Halves of L or U.
#[derive(Clone, Copy)]
struct HalvedOperand {
    high: BufferId,
    low: BufferId,
    /// Factor of each row of L, or column of U, that undoes its scaling in a product.
    down: BufferId,
}

impl LuSchedule<'_> {
    /// Allocates the halves of an outer block, to be computed by these kernels.
    pub(super) fn allocate_halves(&mut self, [find_scales, split, multiply]: [&'static Shader; 3]) -> Halves {
        let p = self.allocate_operand("high halves of L", "low halves of L", "scales of rows");
        let q = self.allocate_operand("high halves of U", "low halves of U", "scales of columns");
        let scales = self.allocate("scales of pivots", DType::F32, self.width);
        Halves { find_scales, split, multiply, scales, p, q }
    }

    fn allocate_operand(&mut self, high: &'static str, low: &'static str, down: &'static str) -> HalvedOperand {
        let elements = self.width * self.stride;
        HalvedOperand {
            high: self.allocate(high, DType::F16, elements),
            low: self.allocate(low, DType::F16, elements),
            down: self.allocate(down, DType::F32, self.stride),
        }
    }

    /// Records the search for the scales of the outer block in `panel`, whose rows and columns end before `top`; it
    /// overlaps with the steps before.
    pub(super) fn find_scales(&mut self, halves: Halves, panel: Panel, top: u64) {
        let arguments =
            arguments(&[("P", panel.p), ("SCALES", halves.scales)], &[("stride", self.stride), ("top", top)]);
        let dispatch = Dispatch::new(halves.find_scales, &arguments)
            .group_size([PREPARING_INVOCATIONS, 1, 1])
            .groups([self.width, 1, 1])
            .loops(self.stride / u64::from(4 * PREPARING_INVOCATIONS) + 1);
        self.push(dispatch.without_barrier());
    }

    /// Records the dispatches that split rows of L and columns of U from `start` on into f16 halves. If
    /// `without_barrier`, they overlap with the steps before; otherwise they wait, and the next dispatch waits for them.
    /// Only the first has a barrier, because the second writes other halves and may overlap with it.
    pub(super) fn split(&mut self, halves: Halves, panel: Panel, start: u64, without_barrier: bool) {
        for (side, operand, x) in [(ROWS_OF_U, halves.q, panel.q), (COLUMNS_OF_L, halves.p, panel.p)] {
            let buffers = [
                ("X", x),
                ("SCALES", halves.scales),
                ("HIGH", operand.high),
                ("LOW", operand.low),
                ("DOWN", operand.down),
            ];
            let numbers = [("stride", self.stride), ("start", start), ("depth", self.width)];
            let dispatch = Dispatch::new(halves.split, &arguments(&buffers, &numbers))
                .group_size([PREPARING_INVOCATIONS, 1, 1])
                .groups([(self.stride - start).div_ceil(SPLIT_LINES), 1, 1])
                .constant("SIDE", side)
                .loops(self.width / SPLIT_PER_ITERATION);
            self.push(if side == ROWS_OF_U && !without_barrier { dispatch } else { dispatch.without_barrier() });
        }
        self.wait = !without_barrier;
    }

    /// Builds the update of an area by the first `depth` columns and rows of the halves.
    pub(super) fn split_update(&self, halves: Halves, depth: u64, area: &Area) -> Dispatch {
        let shape = matrix_shape(DType::F16, Accumulator::Wide, self.device);
        let tile = self.split_tile(area.height() * area.width());
        let buffers = [
            ("W", self.w),
            ("P_HIGH", halves.p.high),
            ("P_LOW", halves.p.low),
            ("Q_HIGH", halves.q.high),
            ("Q_LOW", halves.q.low),
            ("DOWN_ROWS", halves.p.down),
            ("DOWN_COLUMNS", halves.q.down),
        ];
        let numbers = [
            ("stride", self.stride),
            ("top", area.rows.start),
            ("left", area.columns.start),
            ("bottom", area.rows.end),
            ("right", area.columns.end),
            ("depth", depth),
            ("corner", area.corner),
        ];
        let dispatch = Dispatch::new(halves.multiply, &arguments(&buffers, &numbers));
        in_blocks(dispatch, tile, area)
            .group_size([self.subgroup * (tile.bm / tile.wm) * (tile.bn / tile.wn), 1, 1])
            .subgroups_of(self.subgroup)
            .constant("TM", shape.m)
            .constant("TN", shape.n)
            .constant("TK", shape.k)
            .loops(depth)
            .matrix(shape)
    }

    /// Returns the tile of a split update of an area of `elements` elements.
    fn split_tile(&self, elements: u64) -> ProductTile {
        if self.device.kind == DeviceKind::Cpu {
            // A sub-group of 8 cannot move rows of more than 32 elements.
            ProductTile::new([64, 64, 16], [32, 32], [16, 16])
        } else if elements >= LARGE_AREA {
            ProductTile::new([128, 128, 16], [64, 64], [16, 16])
        } else {
            ProductTile::new([64, 64, 32], [32, 32], [16, 16])
        }
    }
}
