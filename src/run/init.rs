//! A description with everything filled in that can be known from a kernel.

use super::element::Element;
use super::job::Tolerance;

/// The tolerance of outputs that state none.
#[must_use]
pub(crate) fn usual(element: Element) -> Tolerance {
    match element {
        Element::F64 => Tolerance::Close { rtol: 1e-10, atol: 1e-12 },
        Element::F32 => Tolerance::Close { rtol: 1e-4, atol: 1e-5 },
        Element::F16 => Tolerance::Close { rtol: 1e-2, atol: 1e-3 },
        Element::Bf16 => Tolerance::Close { rtol: 2e-2, atol: 1e-2 },
        _ => Tolerance::Exact,
    }
}
