//! Arithmetic.

/// Error that Vulkan allows an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ErrorBound {
    /// Units in the last place.
    Ulp(f64),
}
