//! LU factorisation by faer, on all cores.
//!
//! Most variants factorise without pivoting. On the CPU nobody would: libraries offer partial pivoting, P·A = L·U, and
//! that is what users get. The comparison is between what each side is used for; pivoting adds n²/2 comparisons and up to
//! n² exchanges to the 2/3·n³ operations.

use super::{Baseline, HostProgram, extent};
use crate::algorithms::lu::{LU, NO_BAD_PIVOT};
use crate::basis::dtype::{DType, HostArray};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::{Mat, MatRef, Par, Spec};

pub(super) static BASELINE: Baseline = Baseline {
    algorithm: &LU,
    dtypes: &[DType::F32],
    name: "faer",
    summary: "recursive factorisation P·A = L·U on all cores, in place and column major, with partial pivoting, which most \
              variants do without",
    make: |case, inputs| match inputs {
        [HostArray::F32(a), _] => Some(Box::new(Factorisation::new(extent(case), a))),
        _ => None,
    },
};

struct Factorisation<'a> {
    n: usize,
    /// A as it was given, row major.
    a: &'a [f32],
    /// A before a run; after it L below the diagonal, whose ones are not stored, and U from the diagonal on. Column
    /// major as all matrices of faer, so that its users have theirs in this form already; row major takes twice the time.
    packed: Mat<f32>,
    /// Row i of P·A is row `permutation[i]` of A.
    permutation: Vec<usize>,
    inverse: Vec<usize>,
    scratch: MemBuffer,
}

impl<'a> Factorisation<'a> {
    fn new(n: usize, a: &'a [f32]) -> Self {
        let scratch = lu_in_place_scratch::<usize, f32>(n, n, Par::rayon(0), Spec::default());
        Self {
            n,
            a,
            packed: MatRef::from_row_major_slice(a, n, n).to_owned(),
            permutation: (0..n).collect(),
            inverse: (0..n).collect(),
            scratch: MemBuffer::new(scratch),
        }
    }

    /// The elements of a row major n×n matrix.
    fn matrix(&self, element: impl Fn(usize, usize) -> f32) -> HostArray {
        let mut values = Vec::with_capacity(self.n * self.n);
        for row in 0..self.n {
            values.extend((0..self.n).map(|column| element(row, column)));
        }
        HostArray::F32(values)
    }
}

impl HostProgram for Factorisation<'_> {
    fn restore(&mut self) {
        self.packed.copy_from(MatRef::from_row_major_slice(self.a, self.n, self.n));
    }

    fn run(&mut self) {
        let stack = MemStack::new(&mut self.scratch);
        let (matrix, permutation, inverse) = (self.packed.as_mut(), &mut self.permutation, &mut self.inverse);
        lu_in_place(matrix, permutation, inverse, Par::rayon(0), stack, Spec::default());
    }

    /// A as it was, L and U in full, a sound status and the permutation: with pivoting a zero pivot only arises in a
    /// column of zeros, and the quotients by it are not finite.
    fn outputs(&self) -> Vec<HostArray> {
        let lower = |row: usize, column: usize| match column.cmp(&row) {
            std::cmp::Ordering::Less => self.packed[(row, column)],
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => 0.0,
        };
        let upper = |row: usize, column: usize| if column < row { 0.0 } else { self.packed[(row, column)] };
        let status = HostArray::I32(vec![NO_BAD_PIVOT]);
        let rows = HostArray::I32(self.permutation.iter().map(|row| *row as i32).collect());
        vec![HostArray::F32(self.a.to_vec()), self.matrix(lower), self.matrix(upper), status, rows]
    }
}
