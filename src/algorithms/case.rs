//! A case of a plan: its size, and what else is asked of it.

use super::Algorithm;
use super::input::Input;
use super::tile::Tile;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::layout::Layout;
use crate::basis::size::Size;
use crate::device::capability::DeviceInfo;
use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};

/// What is asked of a case beside its size. Cases of plans and of records have it, and what is kept of them compares it:
/// `plan::axes` has an entry for each field.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaseOptions {
    /// Element type.
    pub dtype: DType,
    /// Layout of the operands; absent where neither is stored transposed.
    #[serde(default, skip_serializing_if = "Layout::is_default")]
    pub layout: Layout,
    /// What was asked for; absent for the algorithm's own result.
    #[serde(default, skip_serializing_if = "Goal::is_result")]
    pub goal: Goal,
    /// Kind of input data.
    pub input: Input,
    /// Seed of the input data.
    pub seed: u64,
    /// The sub-group size that was required; `null` for the device's default.
    pub subgroup_size: Option<u32>,
    /// How an iterative algorithm stops; `null` for others.
    pub stop: Option<StopRule>,
}

impl CaseOptions {
    /// The defaults of `algorithm` in an element type.
    #[must_use]
    pub fn new(algorithm: &Algorithm, dtype: DType) -> Self {
        Self {
            dtype,
            layout: algorithm.layouts[0],
            goal: Goal::Result,
            input: algorithm.inputs[0],
            seed: 1,
            subgroup_size: None,
            stop: algorithm.iterative.then(StopRule::default),
        }
    }

    /// How an iterative algorithm stops.
    #[must_use]
    pub fn stop_rule(&self) -> StopRule {
        self.stop.unwrap_or_default()
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
        Self { size, options: CaseOptions::new(algorithm, dtype), tile: None }
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

/// What is asked of an algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Its own result: of a factorisation the factors.
    #[default]
    Result,
    /// The solution of a system of equations by that result.
    Solution,
}

impl Goal {
    /// Whether it is the algorithm's own result.
    #[must_use]
    pub fn is_result(&self) -> bool {
        *self == Self::Result
    }

    /// The name in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Solution => "solution",
        }
    }
}

/// How an iterative algorithm decides that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub struct StopRule {
    /// What is compared.
    pub test: StopTest,
    /// With what.
    pub eps: f64,
    /// Rounds after which the case has failed to converge.
    pub max_rounds: u32,
}

impl Default for StopRule {
    fn default() -> Self {
        Self { test: StopTest::Bracket, eps: 1e-4, max_rounds: 1000 }
    }
}

/// What an iterative eigenvalue algorithm compares with eps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StopTest {
    /// The post's: every |s\[i\] − s\[(i+1) mod n\]| < eps, absolute.
    Neighbour,
    /// (max − min) / max of the row sums < eps: they bracket the eigenvalue.
    Bracket,
}

impl StopTest {
    /// Every stop test, in the order that messages list them.
    pub const ALL: [Self; 2] = [Self::Neighbour, Self::Bracket];

    /// The name on the command line and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Neighbour => "neighbour",
            Self::Bracket => "bracket",
        }
    }
}

impl std::str::FromStr for StopTest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|test| test.name() == text);
        found.ok_or_else(|| error::unknown("stop test", text, "", &Self::ALL.map(Self::name)))
    }
}
