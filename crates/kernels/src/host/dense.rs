//! Baselines by faer on all cores: matrix products of matrices as stored, LU factorization, and solutions of systems
//! from it, in f64 without any f32.
//!
//! Most variants of LU factorize without pivoting. On the CPU nobody would: libraries offer partial pivoting, P·A =
//! L·U, so users get that. The comparison is between common practice on each side; pivoting adds n²/2 comparisons and
//! up to n² exchanges to the 2/3·n³ operations.

use super::{Baseline, HostProgram, extent};
use crate::lu::{CONVERGED, NO_BAD_PIVOT};
use crate::prelude::*;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::linalg::lu::partial_pivoting::solve::{solve_in_place, solve_in_place_scratch};
use faer::linalg::matmul::matmul;
use faer::perm::PermRef;
use faer::traits::ComplexField;
use faer::traits::math_utils::{one, zero};
use faer::{Accum, Mat, MatMut, MatRef, Par, Spec};

pub(crate) static PRODUCT: Baseline = Baseline {
    dtypes: &[DType::F32, DType::F64],
    name: "faer",
    summary: "blocked product on all cores with CPU vector instructions, matrices as stored",
    make: |case, inputs| match inputs {
        [HostArray::F32(a), HostArray::F32(b)] => Some(Box::new(Product::new(case, a, b, HostArray::F32))),
        [HostArray::F64(a), HostArray::F64(b)] => Some(Box::new(Product::new(case, a, b, HostArray::F64))),
        _ => None,
    },
};

/// Product C = A·B.
struct Product<'a, T> {
    a: MatRef<'a, T>,
    b: MatRef<'a, T>,
    c: Vec<T>,
    /// Constructor of [`HostArray`] for the element type.
    array: fn(Vec<T>) -> HostArray,
}

impl<'a, T: ComplexField> Product<'a, T> {
    fn new(case: &CaseSpec, a: &'a [T], b: &'a [T], array: fn(Vec<T>) -> HostArray) -> Self {
        let dims = Dims::from(case.size);
        let [m, n, k] = [dims.m, dims.n, dims.k].map(|extent| extent as usize);
        let view = |is_transposed| {
            if is_transposed { MatRef::from_column_major_slice } else { MatRef::from_row_major_slice }
        };
        let a = view(case.layout == Layout::Tn)(a, m, k);
        let b = view(case.layout == Layout::Nt)(b, k, n);
        Self { a, b, c: vec![zero(); m * n], array }
    }
}

impl<T: ComplexField> HostProgram for Product<'_, T> {
    /// Does nothing, because a run changes nothing in place.
    fn restore(&mut self) {}

    fn run(&mut self) {
        let c = MatMut::from_row_major_slice_mut(&mut self.c, self.a.nrows(), self.b.ncols());
        matmul(c, Accum::Replace, self.a, self.b, one::<T>(), Par::rayon(0));
    }

    fn outputs(&self) -> Vec<HostArray> {
        vec![(self.array)(self.c.clone())]
    }
}

pub(crate) static FACTORISATION: Baseline = Baseline {
    // f64 only for systems: the problem of the factors is f32.
    dtypes: &[DType::F32, DType::F64],
    name: "faer",
    summary: "recursive factorization P·A = L·U on all cores, in place and column major, with partial pivoting (which most \
              variants lack)",
    make: |case, inputs| match inputs {
        [HostArray::F32(a), _] => Some(Box::new(Factorization::new(extent(case), a))),
        [HostArray::F32(a), _, HostArray::F32(b)] => {
            Some(Box::new(DenseSystem::new(extent(case), a, b, outputs_in_f32)))
        }
        [HostArray::F64(a), HostArray::F64(b)] => Some(Box::new(DenseSystem::new(extent(case), a, b, outputs_in_f64))),
        _ => None,
    },
};

/// Solver of A·x = b in a single type, from the factors of A.
struct DenseSystem<'a, T> {
    factors: Factorization<'a, T>,
    b: &'a [T],
    /// b before a run, the solution after it.
    x: Mat<T>,
    scratch: MemBuffer,
    outputs: fn(&Self) -> Vec<HostArray>,
}

impl<'a, T: ComplexField + Copy> DenseSystem<'a, T> {
    fn new(n: usize, a: &'a [T], b: &'a [T], outputs: fn(&Self) -> Vec<HostArray>) -> Self {
        let scratch = MemBuffer::new(solve_in_place_scratch::<usize, T>(n, 1, Par::rayon(0)));
        let x = MatRef::from_row_major_slice(b, n, 1).to_owned();
        Self { factors: Factorization::new(n, a), b, x, scratch, outputs }
    }
}

/// Returns the outputs of the f32 problem: A, U, status, rows and x.
fn outputs_in_f32(solution: &DenseSystem<'_, f32>) -> Vec<HostArray> {
    let DenseSystem { factors, b, .. } = solution;
    let [a, _, u, status, rows] = <[_; 5]>::try_from(factors.outputs()).expect("A, L, U, status and rows");
    vec![a, u, status, rows, HostArray::F32((0..b.len()).map(|row| solution.x[(row, 0)]).collect())]
}

/// Returns the outputs of the f64 problem: x, status, and outcome and steps of the refinement.
fn outputs_in_f64(solution: &DenseSystem<'_, f64>) -> Vec<HostArray> {
    let x = HostArray::F64((0..solution.b.len()).map(|row| solution.x[(row, 0)]).collect());
    // There is nothing to refine.
    let [status, ended, steps] = [NO_BAD_PIVOT, CONVERGED, 0].map(|word| HostArray::I32(vec![word]));
    vec![x, status, ended, steps]
}

impl<T: ComplexField + Copy> HostProgram for DenseSystem<'_, T> {
    fn restore(&mut self) {
        self.factors.restore();
        self.x.copy_from(MatRef::from_row_major_slice(self.b, self.b.len(), 1));
    }

    fn run(&mut self) {
        self.factors.run();
        let Factorization { n, packed, permutation, inverse, .. } = &self.factors;
        let order = PermRef::new_checked(permutation, inverse, *n);
        let stack = MemStack::new(&mut self.scratch);
        solve_in_place(packed.as_ref(), packed.as_ref(), order, self.x.as_mut(), Par::rayon(0), stack);
    }

    fn outputs(&self) -> Vec<HostArray> {
        (self.outputs)(self)
    }
}

/// Factorization P·A = L·U.
struct Factorization<'a, T> {
    n: usize,
    /// Matrix A as given, row-major.
    a: &'a [T],
    /// A before a run; after it L below the diagonal, whose ones are not stored, and U from the diagonal on.
    /// Column-major like all of faer's matrices; row-major would take twice the time, and users of faer have
    /// column-major data already.
    packed: Mat<T>,
    /// Row permutation: row i of P·A is row `permutation[i]` of A.
    permutation: Vec<usize>,
    /// Inverse of the permutation.
    inverse: Vec<usize>,
    scratch: MemBuffer,
}

impl<'a, T: ComplexField + Copy> Factorization<'a, T> {
    fn new(n: usize, a: &'a [T]) -> Self {
        let scratch = lu_in_place_scratch::<usize, T>(n, n, Par::rayon(0), Spec::default());
        Self {
            n,
            a,
            packed: MatRef::from_row_major_slice(a, n, n).to_owned(),
            permutation: (0..n).collect(),
            inverse: (0..n).collect(),
            scratch: MemBuffer::new(scratch),
        }
    }

    fn restore(&mut self) {
        self.packed.copy_from(MatRef::from_row_major_slice(self.a, self.n, self.n));
    }

    fn run(&mut self) {
        let Self { packed, permutation, inverse, scratch, .. } = self;
        let stack = MemStack::new(scratch);
        lu_in_place(packed.as_mut(), permutation, inverse, Par::rayon(0), stack, Spec::default());
    }
}

impl HostProgram for Factorization<'_, f32> {
    fn restore(&mut self) {
        self.restore();
    }

    fn run(&mut self) {
        self.run();
    }

    /// Returns A unchanged, L and U in full, a status without bad pivots, and the permutation. With pivoting a zero
    /// pivot occurs only in a column of zeros, and then the quotients are not finite.
    fn outputs(&self) -> Vec<HostArray> {
        let n = self.n;
        let mut l = vec![0.0; n * n];
        let mut u = vec![0.0; n * n];
        for row in 0..n {
            l[row * n + row] = 1.0;
            for column in 0..n {
                let factor = if column < row { &mut l } else { &mut u };
                factor[row * n + column] = self.packed[(row, column)];
            }
        }
        let [a, l, u] = [self.a.to_vec(), l, u].map(HostArray::F32);
        let status = HostArray::I32(vec![NO_BAD_PIVOT]);
        let rows = HostArray::I32(self.permutation.iter().map(|row| *row as i32).collect());
        vec![a, l, u, status, rows]
    }
}
