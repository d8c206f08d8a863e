//! What all rooms call a case: its options, how it is timed and checked, and what became of its kernels.

pub(crate) mod accepted;
pub(crate) mod check;
pub(crate) mod compiled;
pub(crate) mod input;
pub(crate) mod method;
pub(crate) mod quantity;
pub(crate) mod statistics;
pub(crate) mod tile;

use self::input::Input;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::layout::Layout;
use serde::{Deserialize, Serialize};

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
    /// How an iterative algorithm stops.
    #[must_use]
    pub fn stop_rule(&self) -> StopRule {
        self.stop.unwrap_or_default()
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

/// What a variant does without that others of its algorithm give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Shortcut {
    /// It divides by whatever is on the diagonal.
    NoPivoting,
    /// Its answer may be less accurate than the element type promises.
    LessAccurate,
}

impl Shortcut {
    /// As it stands beside the name of a variant.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoPivoting => "no pivoting",
            Self::LessAccurate => "less accurate",
        }
    }

    /// What it means for whoever takes the variant.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::NoPivoting => "divides by whatever is on the diagonal, so rounding errors can grow without bound",
            Self::LessAccurate => "allowed larger errors than other variants of its element type",
        }
    }
}

/// One of several ways to do the same operation: tables put them beside one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The operation: `broadcast`.
    pub operation: &'static str,
    /// How it is done: `subgroup`, `shared`.
    pub name: &'static str,
}

/// Arithmetic in another type than that of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Computes {
    /// The type.
    pub dtype: DType,
    /// Operations in it for each nominal one.
    pub operations: u64,
}
