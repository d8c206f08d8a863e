//! Cases: a size of an algorithm's problem, with options.

use super::Algorithm;
use super::tile::Tile;
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::case::{CaseOptions, StopRule};
use crate::device::capability::DeviceInfo;
use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};

impl Algorithm {
    /// Returns the options of a case that states only its element type: the algorithm's first layout and input.
    pub fn options(&self, dtype: DType) -> CaseOptions {
        CaseOptions {
            layout: self.layouts[0],
            input: self.inputs[0],
            stop: self.iterative.then(StopRule::default),
            ..CaseOptions::plain(dtype)
        }
    }
}

/// Case of an algorithm, whichever variant solves it. Dereferences to its options: `case.dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseSpec {
    /// Size as requested.
    pub size: Size,
    /// Options other than the size.
    pub options: CaseOptions,
    /// Tile in place of a tunable variant's built-in one. The case's name omits it: the problem stays the same.
    pub tile: Option<Tile>,
}

impl Deref for CaseSpec {
    type Target = CaseOptions;

    fn deref(&self) -> &CaseOptions {
        &self.options
    }
}

impl DerefMut for CaseSpec {
    fn deref_mut(&mut self) -> &mut CaseOptions {
        &mut self.options
    }
}

impl CaseSpec {
    /// Creates a case with the algorithm's default options for this element type.
    pub fn new(algorithm: &Algorithm, size: Size, dtype: DType) -> Self {
        Self { size, options: algorithm.options(dtype), tile: None }
    }

    /// Returns the case with changed options: `case.with(|options| options.seed = 2)`.
    pub fn with(mut self, change: impl FnOnce(&mut CaseOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Returns the requested sub-group size, or else the device's usual one.
    pub fn subgroup_size(&self, device: &DeviceInfo) -> u32 {
        self.subgroup_size.unwrap_or_else(|| device.usual_subgroup())
    }
}
