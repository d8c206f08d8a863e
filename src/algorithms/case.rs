//! A case of a plan: its size, and what else is asked of it.

use super::Algorithm;
use super::tile::Tile;
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::case::{CaseOptions, Goal, StopRule};
use crate::device::capability::DeviceInfo;
use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};

impl Algorithm {
    /// Its defaults in an element type.
    #[must_use]
    pub fn options(&self, dtype: DType) -> CaseOptions {
        CaseOptions {
            dtype,
            layout: self.layouts[0],
            goal: Goal::Result,
            input: self.inputs[0],
            seed: 1,
            subgroup_size: None,
            stop: self.iterative.then(StopRule::default),
        }
    }
}

/// One case of a plan, apart from its variant. It reads as its options do: `case.dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseSpec {
    /// The size as it was asked for.
    pub size: Size,
    /// What else was asked for.
    pub options: CaseOptions,
    /// The tile that a tunable variant takes in place of its built-in one. Not part of the case's name: it says
    /// how, not what.
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
    /// A case of this size and element type with the algorithm's defaults for everything else.
    #[must_use]
    pub fn new(algorithm: &Algorithm, size: Size, dtype: DType) -> Self {
        Self { size, options: algorithm.options(dtype), tile: None }
    }

    /// This case with other options: `case.with(|options| options.seed = 2)`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut CaseOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// The sub-group size that a program for this case uses.
    #[must_use]
    pub fn subgroup_size(&self, device: &DeviceInfo) -> u32 {
        self.subgroup_size.unwrap_or_else(|| device.usual_subgroup())
    }
}
