//! A case as every crate knows it: its options, timing, check, and compiled kernels.

pub mod accepted;
pub mod check;
pub mod compiled;
pub mod input;
pub mod method;
pub mod quantity;
pub mod statistics;
pub mod tile;

use self::input::Input;
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::basis::named::named;
use serde::{Deserialize, Serialize};

/// Options of a case, all but its size. Plans and records hold them, and records of the same case are found by
/// comparing them: `plan::axes` has an entry for each field.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CaseOptions {
    /// Element type.
    pub dtype: DType,
    /// Layout of the operands; absent if neither is stored transposed.
    #[serde(default, skip_serializing_if = "Layout::is_default")]
    pub layout: Layout,
    /// Requested result; absent for the algorithm's own.
    #[serde(default, skip_serializing_if = "Goal::is_result")]
    pub goal: Goal,
    /// Kind of input data. Older records have `uniform` for every user's kernel, whatever fills its buffers.
    pub input: Input,
    /// Seed of the input data.
    pub seed: u64,
    /// Required sub-group size; `null` for the device's default.
    pub subgroup_size: Option<u32>,
    /// Stop rule of an iterative algorithm; `null` for others.
    pub stop: Option<StopRule>,
}

impl CaseOptions {
    /// Returns the options of a case that states only its element type.
    pub fn plain(dtype: DType) -> Self {
        Self {
            dtype,
            layout: Layout::default(),
            goal: Goal::Result,
            input: Input::Uniform,
            seed: 1,
            subgroup_size: None,
            stop: None,
        }
    }

    /// Returns the stop rule, or the default one.
    pub fn stop_rule(&self) -> StopRule {
        self.stop.unwrap_or_default()
    }
}

/// Result requested from an algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Algorithm's own result; the factors of a factorization.
    #[default]
    Result,
    /// Solution of a system of equations, computed from the algorithm's own result.
    Solution,
}

named!(Goal, "goal", [Result "result", Solution "solution"]);

impl Goal {
    /// Whether the goal is the algorithm's own result.
    pub fn is_result(&self) -> bool {
        *self == Self::Result
    }
}

/// Stop rule of an iterative algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct StopRule {
    /// Quantity compared with `eps`.
    pub test: StopTest,
    /// Threshold.
    pub eps: f64,
    /// Number of rounds after which the case has failed to converge.
    pub max_rounds: u32,
}

impl Default for StopRule {
    fn default() -> Self {
        Self { test: StopTest::Bracket, eps: 1e-4, max_rounds: 1000 }
    }
}

/// Quantity that an iterative eigenvalue algorithm compares with eps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StopTest {
    /// Every |s\[i\] − s\[(i+1) mod n\]| < eps, absolute: the original blog post's test.
    Neighbour,
    /// (max − min) / max of the row sums < eps: the extreme sums bracket the eigenvalue.
    Bracket,
}

named!(StopTest, "stop test", [Neighbour "neighbour", Bracket "bracket"]);

/// Property that a variant gives up and others of its algorithm have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shortcut {
    /// Divides by whatever element is on the diagonal.
    NoPivoting,
    /// May be less accurate than the element type allows.
    LessAccurate,
}

named!(Shortcut, "shortcut", [NoPivoting "no pivoting", LessAccurate "less accurate"]);

impl Shortcut {
    /// Returns the consequence for users of the variant.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::NoPivoting => "divides by whatever is on the diagonal, so rounding errors can grow without bound",
            Self::LessAccurate => "allowed larger errors than other variants of its element type",
        }
    }
}

/// One of several implementations of an operation, which tables list next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Operation: `broadcast`.
    pub operation: &'static str,
    /// Implementation: `subgroup`, `shared`.
    pub name: &'static str,
}

/// Arithmetic in a type other than the element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Computes {
    /// Type of the arithmetic.
    pub dtype: DType,
    /// Operations in that type per nominal operation.
    pub operations: u64,
}
