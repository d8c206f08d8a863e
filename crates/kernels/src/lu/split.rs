//! Products of `blocked-split`: an outer block's columns of L and rows of U as f16 halves, multiplied on matrix units,
//! three products of halves for one of f32 as in `matmul/split`.

use super::schedule::{LuSchedule, Panel, arguments, in_blocks};
use crate::basis::dtype::DType;
use crate::case::Computes;
use crate::device::capability::{Accumulator, DeviceKind};
use crate::kernel::program::{BufferId, Dispatch};
use crate::kernel::shaders::Shader;
use crate::matmul::{ProductTile, matrix_shape};
use std::ops::Range;

/// Work-group size of the kernels that find the scale of a k, and that split 128 rows or columns.
const PREPARING: u32 = 256;
/// Rows or columns split per work-group.
const SPLIT_LINES: u64 = 128;

/// Elements of W from which the large tile is used: as many tiles as run concurrently on 132 cores.
const LARGE: u64 = 2 * 132 * 128 * 128;

/// Arithmetic of the products.
pub(super) const COMPUTES: Computes = Computes { dtype: DType::F16, operations: 3 };

/// Halves of an outer block.
#[derive(Clone, Copy)]
pub(super) struct Halves {
    /// Kernels that find scales, split, and multiply.
    kernels: [&'static Shader; 3],
    /// Scale of each k.
    scales: BufferId,
    p: HalvedOperand,
    q: HalvedOperand,
}

/// Halves of an operand, and the factors of each row or column that undo the scaling of products.
#[derive(Clone, Copy)]
struct HalvedOperand {
    high: BufferId,
    low: BufferId,
    down: BufferId,
}

impl LuSchedule<'_> {
    /// Allocates the halves of an outer block.
    pub(super) fn halves(&mut self, kernels: [&'static Shader; 3]) -> Halves {
        let elements = self.width * self.stride;
        let [p, q] = [
            ["high halves of L", "low halves of L", "scales of rows"],
            ["high halves of U", "low halves of U", "scales of columns"],
        ]
        .map(|[high, low, down]| HalvedOperand {
            high: self.allocate(high, DType::F16, elements),
            low: self.allocate(low, DType::F16, elements),
            down: self.allocate(down, DType::F32, self.stride),
        });
        Halves { kernels, scales: self.allocate("scales of pivots", DType::F32, self.width), p, q }
    }

    /// Records the search for the scales of an outer block whose rows and columns end before `top`; it overlaps with
    /// the steps before.
    pub(super) fn scale(&mut self, halves: Halves, panel: Panel, top: u64) {
        let buffers = [("P", panel.p), ("SCALES", halves.scales)];
        let dispatch = Dispatch::new(halves.kernels[0], &arguments(&buffers, &[("stride", self.stride), ("top", top)]))
            .group_size([PREPARING, 1, 1])
            .groups([self.width, 1, 1])
            .loops(self.stride / u64::from(4 * PREPARING) + 1);
        self.push(dispatch.without_barrier());
    }

    /// Records the split of the parts of L and U from `start` on. If `without_barrier`, it overlaps with the steps
    /// before; otherwise the next dispatch waits for it.
    pub(super) fn split(&mut self, halves: Halves, panel: Panel, start: u64, without_barrier: bool) {
        for (side, operand, x) in [(0, halves.q, panel.q), (1, halves.p, panel.p)] {
            let buffers = [
                ("X", x),
                ("SCALES", halves.scales),
                ("HIGH", operand.high),
                ("LOW", operand.low),
                ("DOWN", operand.down),
            ];
            let numbers = [("stride", self.stride), ("start", start), ("depth", self.width)];
            let dispatch = Dispatch::new(halves.kernels[1], &arguments(&buffers, &numbers))
                .group_size([PREPARING, 1, 1])
                .groups([(self.stride - start).div_ceil(SPLIT_LINES), 1, 1])
                .constant("SIDE", side)
                .loops(self.width / 8);
            self.push(if side == 0 && !without_barrier { dispatch } else { dispatch.without_barrier() });
        }
        self.wait = !without_barrier;
    }

    /// Builds the update of an area by `depth` columns and rows, except its first `corner` rows and columns.
    pub(super) fn split_update(
        &self,
        halves: Halves,
        depth: u64,
        [rows, columns]: [Range<u64>; 2],
        corner: u64,
    ) -> Dispatch {
        let (Range { start: top, end: bottom }, Range { start: left, end: right }) = (rows, columns);
        let shape = matrix_shape(DType::F16, Accumulator::Wide, self.device);
        let tile = self.split_tile((bottom - top) * (right - left));
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
            ("top", top),
            ("left", left),
            ("bottom", bottom),
            ("right", right),
            ("depth", depth),
            ("corner", corner),
        ];
        let dispatch = Dispatch::new(halves.kernels[2], &arguments(&buffers, &numbers));
        in_blocks(dispatch, tile, [bottom - top, right - left])
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
        let tile = |block: [u32; 3], w: u32| ProductTile::new(block, [w, w], [16, 16]);
        if self.device.kind == DeviceKind::Cpu {
            // A sub-group of 8 cannot move rows of more than 32 elements.
            tile([64, 64, 16], 32)
        } else if elements >= LARGE {
            tile([128, 128, 16], 64)
        } else {
            tile([64, 64, 32], 32)
        }
    }
}
