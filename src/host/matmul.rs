//! Matrix product by faer, on all cores, on the matrices as they are stored.

use super::{Baseline, HostProgram};
use crate::algorithms::CaseSpec;
use crate::algorithms::matmul::MATMUL;
use crate::algorithms::product::Dims;
use crate::basis::dtype::{DType, HostArray};
use crate::basis::layout::Layout;
use faer::linalg::matmul::matmul;
use faer::traits::ComplexField;
use faer::traits::math_utils::{one, zero};
use faer::{Accum, MatMut, MatRef, Par};

pub(super) static BASELINE: Baseline = Baseline {
    algorithm: &MATMUL,
    dtypes: &[DType::F32, DType::F64],
    name: "faer",
    summary: "blocked product on all cores with the vector instructions of the CPU, matrices as they are stored",
    make: |case, inputs| {
        Some(match inputs {
            [HostArray::F32(a), HostArray::F32(b)] => Box::new(Product::new(case, a, b, HostArray::F32)),
            [HostArray::F64(a), HostArray::F64(b)] => Box::new(Product::new(case, a, b, HostArray::F64)),
            _ => return None,
        })
    },
};

struct Product<'a, T> {
    a: MatRef<'a, T>,
    b: MatRef<'a, T>,
    c: Vec<T>,
    /// [`HostArray`] of the element type.
    array: fn(Vec<T>) -> HostArray,
}

impl<'a, T: ComplexField> Product<'a, T> {
    fn new(case: &CaseSpec, a: &'a [T], b: &'a [T], array: fn(Vec<T>) -> HostArray) -> Self {
        let dims = Dims::from(case.size);
        let [m, n, k] = [dims.m, dims.n, dims.k].map(|extent| extent as usize);
        let matrix = |elements, rows, columns, transposed: bool| {
            let of = if transposed { MatRef::from_column_major_slice } else { MatRef::from_row_major_slice };
            of(elements, rows, columns)
        };
        Self {
            a: matrix(a, m, k, case.layout == Layout::Tn),
            b: matrix(b, k, n, case.layout == Layout::Nt),
            c: vec![zero(); m * n],
            array,
        }
    }
}

impl<T: ComplexField> HostProgram for Product<'_, T> {
    /// Does nothing: a run changes nothing in place.
    fn restore(&mut self) {}

    fn run(&mut self) {
        let c = MatMut::from_row_major_slice_mut(&mut self.c, self.a.nrows(), self.b.ncols());
        matmul(c, Accum::Replace, self.a, self.b, one::<T>(), Par::rayon(0));
    }

    fn outputs(&self) -> Vec<HostArray> {
        vec![(self.array)(self.c.clone())]
    }
}
