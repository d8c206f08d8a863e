//! The extents of everything that has the shape of a product: products, their baselines, factorisations.

use crate::basis::size::Size;

/// The extents of a product of an M×K and a K×N matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dims {
    /// Rows of A and C.
    pub(crate) m: u64,
    /// Columns of B and C.
    pub(crate) n: u64,
    /// Columns of A and rows of B.
    pub(crate) k: u64,
}

impl From<Size> for Dims {
    fn from(size: Size) -> Self {
        match size {
            Size::Uniform(n) => Self { m: n, n, k: n },
            // Refused when the problem is made.
            Size::Two(m, n) => Self { m, n, k: n },
            Size::Three(m, n, k) => Self { m, n, k },
        }
    }
}
