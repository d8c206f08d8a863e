//! Baselines of the similarity transform in plain parallel loops: the loops, a baseline for each kernel, and the whole
//! transform, with the similarity post's steps as [`crate::eigen`] describes them.

use super::{Baseline, HostProgram, extent, loops};
use crate::case::{StopRule, StopTest};
use crate::eigen::STOP_CHECK_EPS;
use crate::prelude::*;
use rayon::prelude::*;

/// Smallest number of elements per task: handing over a task costs as much as some thousand elements.
const MIN_TASK_ELEMENTS: usize = 4096;

/// Returns the fewest rows of n elements per task.
fn min_task_rows(n: usize) -> usize {
    MIN_TASK_ELEMENTS.div_ceil(n)
}

/// Computes s\[r\] = Σ M\[r,c\], each sum from left to right.
pub(super) fn row_sums(m: &[f32], s: &mut [f32]) {
    let n = s.len();
    s.par_iter_mut().zip(m.par_chunks(n)).with_min_len(min_task_rows(n)).for_each(|(s, row)| *s = row.iter().sum());
}

/// Returns the largest of `x`, all non-negative. Such floats are ordered like their bits, and an integer maximum
/// compiles to vector instructions, whereas a float maximum, because of NaN, does not. The variants do the same.
pub(super) fn largest(x: &[f32]) -> f32 {
    let largest_bits = |piece: &[f32]| piece.iter().map(|x| x.to_bits()).fold(0, u32::max);
    f32::from_bits(x.par_chunks(MIN_TASK_ELEMENTS).map(largest_bits).reduce(|| 0, u32::max))
}

/// Updates e\[i\] ← e\[i\]·s\[i\]/max.
pub(super) fn scale(e: &mut [f32], s: &[f32], max: f32) {
    e.par_iter_mut().zip(s).with_min_len(MIN_TASK_ELEMENTS).for_each(|(e, s)| *e *= s / max);
}

/// Updates M\[r,c\] ← M\[r,c\]·s\[c\]/s\[r\], with one division per row.
pub(super) fn transform(m: &mut [f32], s: &[f32]) {
    let n = s.len();
    m.par_chunks_mut(n).zip(s).with_min_len(min_task_rows(n)).for_each(|(row, sum)| {
        let reciprocal = 1.0 / sum;
        row.iter_mut().zip(s).for_each(|(m, s)| *m *= s * reciprocal);
    });
}

/// Whether every |s\[i\] − s\[(i+1) mod n\]| < eps. A task checks all of its pairs, because a loop with an early exit
/// is not vectorized; no task starts after another has found a pair too far apart.
pub(super) fn neighbors_agree(s: &[f32], eps: f32) -> bool {
    let n = s.len();
    let agree = |a: f32, b: f32| (a - b).abs() < eps;
    if !agree(s[n - 1], s[0]) {
        return false;
    }
    (0..n.div_ceil(MIN_TASK_ELEMENTS)).into_par_iter().all(|piece| {
        // Includes the first element of the next piece.
        let piece = &s[piece * MIN_TASK_ELEMENTS..n.min((piece + 1) * MIN_TASK_ELEMENTS + 1)];
        piece.iter().zip(&piece[1..]).fold(true, |agrees, (a, b)| agrees & agree(*a, *b))
    })
}

pub(crate) static ROW_SUM: Baseline = loops(
    "rows in parallel, each summed left to right without vector instructions, which would change the order",
    |case, inputs| {
        let run = |[a]: [&[f32]; 1], s: &mut [f32]| row_sums(a, s);
        Some(Box::new(HostLoop::new(operands(inputs)?, vec![0.0; extent(case)], HostArray::F32, run)))
    },
);

pub(crate) static VECTOR_MAX: Baseline =
    loops("chunks of the vector in parallel, then the largest of their maxima", |_, inputs| {
        let run = |[x]: [&[f32]; 1], max: &mut [f32]| max[0] = largest(x);
        Some(Box::new(HostLoop::new(operands(inputs)?, vec![0.0], HostArray::F32, run)))
    });

pub(crate) static EIGENVECTOR: Baseline = loops("chunks of the vector in parallel, in place", |_, inputs| {
    let [s, max, e] = operands(inputs)?;
    let run = |[s, max]: [&[f32]; 2], e: &mut [f32]| scale(e, s, max[0]);
    Some(Box::new(HostLoop::in_place([s, max], e, run)))
});

pub(crate) static NEXT_MATRIX: Baseline = loops("rows in parallel, in place, one division a row", |_, inputs| {
    let [m, s] = operands(inputs)?;
    Some(Box::new(HostLoop::in_place([s], m, |[s], m| transform(m, s))))
});

pub(crate) static STOP_CHECK: Baseline =
    loops("chunks of the vector in parallel; none starts after one has found a pair too far apart", |_, inputs| {
        let run = |[s]: [&[f32]; 1], stop: &mut [i32]| stop[0] = i32::from(neighbors_agree(s, STOP_CHECK_EPS));
        Some(Box::new(HostLoop::new(operands(inputs)?, vec![0], HostArray::I32, run)))
    });

/// Returns the values of all inputs, if there are N and all are f32.
fn operands<const N: usize>(inputs: &[HostArray]) -> Option<[&[f32]; N]> {
    let mut operands = vec![];
    for input in inputs {
        let HostArray::F32(values) = input else { return None };
        operands.push(values.as_slice());
    }
    operands.try_into().ok()
}

/// Loop that reads its operands and writes, or updates in place, one array.
struct HostLoop<'a, const N: usize, T> {
    operands: [&'a [f32]; N],
    /// Contents of `result` before a run, if it is updated in place.
    before: Option<&'a [T]>,
    result: Vec<T>,
    /// Constructor of [`HostArray`] for the result's type.
    array: fn(Vec<T>) -> HostArray,
    run: fn([&[f32]; N], &mut [T]),
}

impl<'a, const N: usize, T> HostLoop<'a, N, T> {
    /// Creates a loop that overwrites `result`.
    fn new(
        operands: [&'a [f32]; N],
        result: Vec<T>,
        array: fn(Vec<T>) -> HostArray,
        run: fn([&[f32]; N], &mut [T]),
    ) -> Self {
        Self { operands, before: None, result, array, run }
    }
}

impl<'a, const N: usize> HostLoop<'a, N, f32> {
    /// Creates a loop that updates a copy of `before`.
    fn in_place(operands: [&'a [f32]; N], before: &'a [f32], run: fn([&[f32]; N], &mut [f32])) -> Self {
        Self { operands, before: Some(before), result: before.to_vec(), array: HostArray::F32, run }
    }
}

impl<const N: usize, T: Copy> HostProgram for HostLoop<'_, N, T> {
    fn restore(&mut self) {
        if let Some(before) = self.before {
            self.result.copy_from_slice(before);
        }
    }

    fn run(&mut self) {
        (self.run)(self.operands, &mut self.result);
    }

    fn outputs(&self) -> Vec<HostArray> {
        vec![(self.array)(self.result.clone())]
    }
}

pub(crate) static TRANSFORM: Baseline =
    loops("the same steps as parallel loops, until the same stop rule holds", |case, inputs| {
        let [a] = operands(inputs)?;
        Some(Box::new(Transform::new(extent(case), case.stop_rule(), a)))
    });

/// Similarity transform until the stop rule holds.
struct Transform<'a> {
    stop: StopRule,
    a: &'a [f32],
    /// Transformed matrix, A before the first round.
    m: Vec<f32>,
    /// Eigenvector so far: the product of the rounds' row sums, each divided by the largest.
    v: Vec<f32>,
    /// Row sums of the matrix in the latest round.
    s: Vec<f32>,
    /// Largest row sum, which converges to the eigenvalue.
    lambda: f32,
    stopped: bool,
    rounds: i32,
}

impl<'a> Transform<'a> {
    fn new(n: usize, stop: StopRule, a: &'a [f32]) -> Self {
        let m = a.to_vec();
        let v = vec![1.0; n];
        let s = vec![0.0; n];
        Self { stop, a, m, v, s, lambda: 0.0, stopped: false, rounds: 0 }
    }

    /// Whether the row sums agree within eps, in f32 as the kernels compute it: each with the next one, or for the
    /// bracket test all with the largest, (max − min) / max < eps.
    fn agrees(&self) -> bool {
        let eps = self.stop.eps as f32;
        match self.stop.test {
            StopTest::Neighbour => neighbors_agree(&self.s, eps),
            // n comparisons, compared with n² additions of the sums: not worth parallelizing.
            StopTest::Bracket => self.s.iter().all(|s| self.lambda - s < eps * self.lambda),
        }
    }
}

impl HostProgram for Transform<'_> {
    fn restore(&mut self) {
        self.m.copy_from_slice(self.a);
    }

    fn run(&mut self) {
        self.v.fill(1.0);
        self.stopped = false;
        self.rounds = 0;
        // As on the device, rounds are updates of the matrix; the last pass, which finds equal sums, makes no update.
        for _ in 0..self.stop.max_rounds.saturating_add(1) {
            row_sums(&self.m, &mut self.s);
            self.lambda = largest(&self.s);
            scale(&mut self.v, &self.s, self.lambda);
            self.stopped = self.agrees();
            if self.stopped {
                break;
            }
            transform(&mut self.m, &self.s);
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    fn outputs(&self) -> Vec<HostArray> {
        // The whole transform is in the matrix.
        let d = vec![1.0; self.s.len()];
        let [m, v, lambda, d] = [self.m.clone(), self.v.clone(), vec![self.lambda], d].map(HostArray::F32);
        let [stopped, rounds] = [i32::from(self.stopped), self.rounds].map(|word| HostArray::I32(vec![word]));
        vec![m, v, lambda, stopped, rounds, d]
    }
}
