//! How an answer was checked, and how far it is from the right one.

use crate::basis::units::Metric;
use serde::{Deserialize, Serialize};

/// How far an answer is from the right one.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The largest error in the terms of the algorithm's error bound; infinite when an output is not finite
    /// or a promise is broken.
    pub residual: f64,
    /// The largest residual that a right implementation can have.
    pub tolerance: f64,
    /// How the answer was checked: every element, or random combinations of them and a sample.
    pub method: CheckMethod,
    /// Where the answer is worst, for the report of a rejected case.
    pub worst: String,
    /// Other figures of the answer that a reader wants beside its time: rounds, growth factor, ….
    pub metrics: Vec<Metric>,
    /// The elements that are wrong, where single ones can be told.
    pub wrong: WrongElements,
}

/// The elements of an answer that are wrong, the first ones of many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WrongElements {
    /// How many there are.
    pub count: u64,
    /// The first of them, 1,024 at most.
    pub first: Vec<WrongElement>,
}

/// A wrong element. Values are texts, for JSON has no NaN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WrongElement {
    /// Where it is: `C[3][1]`.
    pub element: String,
    pub got: String,
    pub expected: String,
}

impl std::fmt::Display for WrongElement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {}, expected {}", self.element, self.got, self.expected)
    }
}

impl WrongElement {
    /// The element at `element`.
    #[expect(clippy::needless_pass_by_value, reason = "numbers of several types, and texts")]
    pub(crate) fn new(element: String, got: impl ToString, expected: impl ToString) -> Self {
        Self { element, got: got.to_string(), expected: expected.to_string() }
    }
}

impl WrongElements {
    /// Elements that are kept.
    const MOST: usize = 1024;

    /// Adds one.
    pub(crate) fn add(&mut self, element: impl FnOnce() -> WrongElement) {
        self.count += 1;
        if self.first.len() < Self::MOST {
            self.first.push(element());
        }
    }

    /// Adds those behind them.
    pub(crate) fn then(&mut self, later: Self) {
        self.count += later.count;
        let room = Self::MOST - self.first.len();
        self.first.extend(later.first.into_iter().take(room));
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Check {
    /// Whether the answer is right. Written so that a NaN residual is not.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.residual <= self.tolerance
    }

    /// Rejects an answer whose `metric` is more than was promised, or is no number.
    pub fn hold(&mut self, (metric, most): (&str, f64)) {
        let found = self.metrics.iter().find(|found| found.name == metric).and_then(|found| found.value);
        if self.passes() && found.is_none_or(|found| found > most) {
            let found = found.map_or_else(|| "not there or not finite".into(), |found| found.to_string());
            self.residual = f64::INFINITY;
            self.worst = format!("the {metric} is {found}, more than the {most} that the variant promises");
        }
    }
}

/// How an answer was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CheckMethod {
    /// Every element against the oracle.
    Elementwise,
    /// Random combinations of elements against the oracle (Freivalds), and every element of some columns.
    Probabilistic,
}
