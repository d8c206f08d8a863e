//! The schedule of `blocked`.
//!
//! A block of 64 columns takes two stages: what lies beside and below its diagonal block, then the next diagonal block.
//! Within an outer block only the strips of the next block, its rows and columns, are brought up to date, beside its
//! diagonal block. What is left of W waits until the outer block is done, so that it passes through the memory once for many
//! columns; beside the stages of the next outer block it is updated slice by slice.

use super::{Area, Panel, Schedule, Side, Solve, Target, arguments, slice, update_tile};
use crate::algorithms::CaseSpec;
use crate::algorithms::lu::{L, STATUS, U, order};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::kernel::program::{Dispatch, Program};
use crate::kernel::shaders::Shader;
use std::ops::Range;

/// Columns of a block, as `blocked-corner` has it.
const BLOCK: u64 = 64;
/// Invocations that factorise a diagonal block.
const CORNER: u32 = 256;
/// Neighbouring invocations that share a diagonal block.
const SET: u32 = 32;

/// The kernels of `blocked`.
#[derive(Clone, Copy)]
struct Kernels {
    corner: &'static Shader,
    solve: &'static Shader,
    update: &'static Shader,
}

/// Columns of an outer block.
fn outer_width(n: u64, device: &DeviceInfo) -> u64 {
    if let Ok(v) = std::env::var("LU_OUTER") {
        return v.parse().unwrap();
    }
    match (device.kind, n) {
        (DeviceKind::Cpu, _) | (_, ..=4096) => 64,
        _ => 256,
    }
}

/// The program of `blocked`.
pub(in super::super) fn without_pivoting(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let [pad, corner, solve, update] = *shaders else { unreachable!("the table has four kernels") };
    let kernels = Kernels { corner, solve, update };
    let width = outer_width(order(case.size).unwrap_or_default(), device);
    let mut schedule = Schedule::new(case, device, width, BLOCK);
    let panels = schedule.panels();
    schedule.pad(pad);
    let stride = schedule.stride;
    let dispatch = schedule.corner(corner, panels[1], panels[0], 0, [0, 0]);
    schedule.push(dispatch);
    for (outer, start) in (0..stride).step_by(width as usize).enumerate() {
        let (own, last) = (panels[outer % 2], panels[(outer + 1) % 2]);
        let end = (start + width).min(stride);
        let blocks = (end - start) / BLOCK;
        for j in 0..blocks {
            let first = start + j * BLOCK;
            let next = first + BLOCK;
            if next == stride {
                break;
            }
            schedule.solves(kernels, own, first, j * BLOCK);
            if j + 1 < blocks {
                let plane = (j + 1) * BLOCK;
                let dispatch = schedule.corner(corner, own, own, next, [plane, plane]);
                schedule.push(dispatch);
                schedule.strips(kernels, own, next..next + BLOCK, plane);
                if outer > 0 {
                    // What the last outer block has still to update, before its panel is written to again.
                    let tile = u64::from(update_tile(stride - end, device).bn);
                    let columns = slice(end..stride, j, blocks - 1, tile);
                    schedule.area(kernels, last, [end..stride, columns], width, 0);
                }
            } else {
                let dispatch = schedule.corner(corner, own, last, next, [0, width]);
                schedule.push(dispatch);
                if blocks == 1 {
                    schedule.area(kernels, own, [next..stride, next..stride], width, BLOCK);
                } else {
                    schedule.strips(kernels, own, next..(next + width).min(stride), width);
                }
            }
        }
    }
    schedule.program()
}

impl Schedule<'_> {
    /// Factorises the diagonal block at `first`, whose columns are in P from `plane` on, less what `depth` columns of
    /// `last` leave of it.
    fn corner(&self, shader: &'static Shader, last: Panel, own: Panel, first: u64, [plane, depth]: [u64; 2]) -> Dispatch {
        let buffers = [
            ("W", self.w),
            ("P_LAST", last.p),
            ("Q_LAST", last.q),
            ("P", own.p),
            ("Q", own.q),
            ("L", L),
            ("U", U),
            ("status", STATUS),
        ];
        let numbers = [("n", self.n), ("stride", self.stride), ("first", first), ("plane", plane), ("depth", depth)];
        let dispatch =
            Dispatch::new(shader, &arguments(&buffers, &numbers)).group_size([CORNER, 1, 1]).loops(16 * BLOCK);
        if self.subgroup == SET && self.device.subgroup.full_subgroups {
            return dispatch.subgroups_of(SET).constant("SHUFFLE", 1);
        }
        dispatch
    }

    /// Solves for the rows of U beside, and the columns of L below, the diagonal block at `first`.
    fn solves(&mut self, kernels: Kernels, own: Panel, first: u64, plane: u64) {
        let (start, end) = (first + BLOCK, self.stride);
        let upper = Solve { side: Side::Upper, first, width: BLOCK, plane, start, end };
        let dispatch = self.solve(kernels.solve, own, upper);
        self.push(dispatch);
        let dispatch = self.solve(kernels.solve, own, Solve { side: Side::Lower, ..upper });
        self.push(dispatch.beside());
    }

    /// Updates the columns and the rows `lines`, beyond their first diagonal block.
    fn strips(&mut self, kernels: Kernels, by: Panel, lines: Range<u64>, depth: u64) {
        let stride = self.stride;
        self.area(kernels, by, [lines.start..stride, lines.clone()], depth, BLOCK);
        self.area(kernels, by, [lines.clone(), lines.end..stride], depth, 0);
    }

    /// Updates `rows` and `columns` but the first `corner` of both, by `depth` columns of a panel.
    fn area(&mut self, kernels: Kernels, by: Panel, [rows, columns]: [Range<u64>; 2], depth: u64, corner: u64) {
        if rows.start + corner >= rows.end && columns.start + corner >= columns.end || columns.is_empty() {
            return;
        }
        let tile = update_tile((rows.end - rows.start).min(columns.end - columns.start), self.device);
        let area =
            Area { top: rows.start, bottom: rows.end, left: columns.start, right: columns.end, plane: 0, depth };
        let dispatch = self.update(kernels.update, by, tile, area, Target::Matrix { corner });
        self.push(dispatch.beside());
    }
}
