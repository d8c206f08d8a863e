//! Memory.

/// Scalar that was loaded: zero-extended bits, and whether any of its bytes is undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) bits: u64,
    pub(crate) undefined: bool,
}
