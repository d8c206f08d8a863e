//! The whole similarity transform in plain parallel loops: the steps of the similarity post, as
//! [`crate::algorithms::eigen`] writes them down.

use super::kernels::{largest, neighbours_agree, reals, row_sums, scale, transform};
use super::{Baseline, HostProgram, extent};
use crate::algorithms::eigen::EIGEN;
use crate::algorithms::{StopRule, StopTest};
use crate::basis::dtype::HostArray;

pub(super) static BASELINE: Baseline =
    Baseline::loops(&EIGEN, "the same steps, each a parallel loop, until the same stop rule holds", |case, inputs| {
        let [a] = reals(inputs)?;
        Some(Box::new(Transform::new(extent(case), case.stop_rule(), a)))
    });

struct Transform<'a> {
    stop: StopRule,
    a: &'a [f32],
    m: Vec<f32>,
    v: Vec<f32>,
    s: Vec<f32>,
    lambda: f32,
    stopped: bool,
    rounds: i32,
}

impl<'a> Transform<'a> {
    fn new(n: usize, stop: StopRule, a: &'a [f32]) -> Self {
        let (m, v, s) = (a.to_vec(), vec![1.0; n], vec![0.0; n]);
        Self { stop, a, m, v, s, lambda: 0.0, stopped: false, rounds: 0 }
    }

    /// Whether the row sums agree, in f32 as the kernels compute it.
    fn agrees(&self) -> bool {
        let eps = self.stop.eps as f32;
        match self.stop.test {
            StopTest::Neighbour => neighbours_agree(&self.s, eps),
            // n comparisons beside the n² additions of the sums: not worth another thread.
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
        (self.stopped, self.rounds) = (false, 0);
        // As on the device: rounds are updates of the matrix, and the pass that finds the sums in agreement makes none.
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
        vec![
            HostArray::F32(self.m.clone()),
            HostArray::F32(self.v.clone()),
            HostArray::F32(vec![self.lambda]),
            HostArray::I32(vec![i32::from(self.stopped)]),
            HostArray::I32(vec![self.rounds]),
            // The transform is in the matrix.
            HostArray::F32(vec![1.0; self.s.len()]),
        ]
    }
}
