//! The schedule of `blocked`.
//!
//! A block of 64 columns takes two stages: what lies beside and below its diagonal block, then the next diagonal block.
//! Within an outer block only the strips of the next block, its rows and columns, are brought up to date, beside its
//! diagonal block. What is left of W waits until the outer block is done, so that it passes through the memory once for many
//! columns; beside the stages of the next outer block it is updated slice by slice.

use super::split::{self, Halves};
use super::widths::Widths;
use super::{Area, Panel, Schedule, Side, Solve, Target, arguments, slice, update_tile};
use crate::algorithms::CaseSpec;
use crate::algorithms::lu::{L, STATUS, U, order};
use crate::device::capability::DeviceInfo;
use crate::kernel::program::{Dispatch, Program};
use crate::kernel::shaders::Shader;
use std::ops::Range;

/// Invocations that factorise a diagonal block: by shuffles so many that no other work-group shares their core.
const CORNER: u32 = 256;
const CORNER_SHUFFLE: u32 = 256;
/// What `blocked-corner-shuffle` has: columns of a block, and invocations of a sub-group.
const SHUFFLED: u64 = 64;
const SUBGROUP: u32 = 32;

/// How areas are updated by a whole outer block.
#[derive(Clone, Copy)]
enum Product {
    /// In f32, by this kernel.
    Plain(&'static Shader),
    /// On matrix units.
    Split(Halves),
}

/// The program of `blocked`, and with the kernels of a split product behind those, of `blocked-split`.
pub(in super::super) fn without_pivoting(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let [pad, corner, shuffle, solve, update, rest @ ..] = shaders else { unreachable!("the table has five kernels") };
    let Widths { block, outer: width } = Widths::built_in(order(case.size).unwrap_or_default(), device);
    let mut schedule = Schedule::new(case, device, width, block);
    let corner = if block == SHUFFLED && schedule.subgroup == SUBGROUP { shuffle } else { corner };
    let panels = schedule.panels();
    let plain = Product::Plain(update);
    let product = match rest {
        [scales, halves, update] => Product::Split(schedule.halves(split::Kernels { scales, halves, update })),
        _ => plain,
    };
    schedule.pad(pad);
    let stride = schedule.stride;
    schedule.corner(corner, panels[1], panels[0], 0, [0, 0]);
    for (outer, start) in (0..stride).step_by(width as usize).enumerate() {
        let (own, last) = (panels[outer % 2], panels[(outer + 1) % 2]);
        let end = (start + width).min(stride);
        let blocks = (end - start) / block;
        for j in 0..blocks {
            let first = start + j * block;
            let next = first + block;
            if next == stride {
                break;
            }
            schedule.solves(solve, own, first, j * block);
            let late = std::env::var("LU_LATE").unwrap_or("corner".into());
            // Slots beside solves and beside corners.
            let (solves, corners) = match late.as_str() {
                "corner" => (0, blocks - 1),
                "solve" => (blocks, 0),
                _ => (blocks, blocks - 1),
            };
            let slot = |schedule: &mut Schedule<'_>, index: u64| {
                if outer > 0 && blocks > 1 {
                    let tile = u64::from(update_tile(stride - end, device).bn);
                    let columns = slice(end..stride, index, solves + corners, tile);
                    schedule.area(product, last, [end..stride, columns], width, 0);
                }
            };
            if solves > 0 {
                slot(&mut schedule, if corners > 0 { 2 * j } else { j });
            }
            if j + 1 < blocks {
                let plane = (j + 1) * block;
                schedule.corner(corner, own, own, next, [plane, plane]);
                schedule.strips(plain, own, next..next + block, plane);
                if corners > 0 {
                    slot(&mut schedule, if solves > 0 { 2 * j + 1 } else { j });
                }
            } else {
                schedule.corner(corner, own, last, next, [0, if std::env::var("LU_DEPTH0").is_ok() { 0 } else { width }]);
                if let Product::Split(halves) = product {
                    schedule.scale(halves, own, next);
                    schedule.split(halves, own, next);
                }
                if blocks == 1 {
                    schedule.area(product, own, [next..stride, next..stride], width, block);
                } else {
                    schedule.strips(product, own, next..(next + width).min(stride), width);
                }
            }
        }
    }
    schedule.program()
}

impl Schedule<'_> {
    /// Factorises the diagonal block at `first`, whose columns are in P from `plane` on, less what `depth` columns of
    /// `last` leave of it.
    fn corner(
        &mut self,
        shader: &'static Shader,
        last: Panel,
        own: Panel,
        first: u64,
        [plane, depth]: [u64; 2],
    ) {
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
        let dispatch = Dispatch::new(shader, &arguments(&buffers, &numbers)).loops(20 * self.block + depth);
        let dispatch = if shader.name == "lu/blocked-corner-shuffle" {
            let c = std::env::var("LU_CORNER").map_or(CORNER_SHUFFLE, |v| v.parse().unwrap());
            let e = |n: &str, d| std::env::var(n).map_or(d, |v| v.parse().unwrap());
            dispatch
                .group_size([c, 1, 1])
                .subgroups_of(SUBGROUP)
                .constant("STEP", e("LU_STEP", 16))
                .constant("UNROLL", e("LU_UNROLL", 4))
        } else {
            dispatch.group_size([CORNER, 1, 1]).constant("NB", self.block as u32)
        };
        self.push(dispatch);
    }

    /// Solves for the rows of U beside, and the columns of L below, the diagonal block at `first`.
    fn solves(&mut self, shader: &'static Shader, own: Panel, first: u64, plane: u64) {
        let (start, end) = (first + self.block, self.stride);
        let upper = Solve { side: Side::Upper, first, width: self.block, plane, start, end };
        let dispatch = self.solve(shader, own, upper);
        self.push(dispatch);
        let dispatch = self.solve(shader, own, Solve { side: Side::Lower, ..upper });
        self.push(dispatch.beside());
    }

    /// Updates the columns and the rows `lines`, beyond their first diagonal block.
    fn strips(&mut self, product: Product, by: Panel, lines: Range<u64>, depth: u64) {
        let stride = self.stride;
        self.area(product, by, [lines.start..stride, lines.clone()], depth, self.block);
        self.area(product, by, [lines.clone(), lines.end..stride], depth, 0);
    }

    /// Updates `rows` and `columns` but the first `corner` of both, by `depth` columns of a panel.
    fn area(&mut self, product: Product, by: Panel, [rows, columns]: [Range<u64>; 2], depth: u64, corner: u64) {
        if columns.is_empty() || rows.start + corner >= rows.end && columns.start + corner >= columns.end {
            return;
        }
        let (height, width) = (rows.end - rows.start, columns.end - columns.start);
        let area =
            Area { top: rows.start, bottom: rows.end, left: columns.start, right: columns.end, plane: 0, depth };
        let dispatch = match product {
            Product::Plain(shader) => {
                let tile = update_tile(height.min(width), self.device);
                self.update(shader, by, tile, area, Target::Matrix { corner })
            }
            Product::Split(halves) => self.split_update(halves, area, corner),
        };
        self.push(dispatch.beside());
    }
}
