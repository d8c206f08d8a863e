//! Result of checking an answer: residual, tolerance, method and wrong elements.

use crate::basis::units::Metric;
use serde::{Deserialize, Serialize};

/// Deviation of an answer from the correct one, and how it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckResult {
    /// Largest error, in units of the error bound; infinite if an output is not finite or a promise is broken.
    pub residual: f64,
    /// Largest residual that a correct implementation can have.
    pub tolerance: f64,
    /// Method: every element, or random combinations of elements and a sample.
    pub method: CheckMethod,
    /// Location and values of the largest error, for the report of a rejected case.
    pub worst: String,
    /// Further figures of the answer that belong beside its time: rounds, growth factor, ….
    pub metrics: Vec<Metric>,
    /// Wrong elements, if the method can tell single ones.
    pub wrong: WrongElements,
}

/// Start of the text about an answer that differs from another, which may be the wrong one.
pub const ANSWER_DIFFERS: &str = "its answer differs from";

/// Says that a kernel is wrong because it changed an input.
pub fn changed_input(name: &str) -> String {
    format!("the kernel changed its input {name}; give {name} a check if it is meant to change")
}

/// Wrong elements of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WrongElements {
    /// Number of all wrong elements.
    pub count: u64,
    /// First wrong elements, 1,024 at most.
    pub first: Vec<WrongElement>,
}

/// Wrong element. Values are texts, because JSON has no NaN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WrongElement {
    /// Name with indices: `C[3][1]`.
    pub element: String,
    pub got: String,
    pub expected: String,
}

impl std::fmt::Display for WrongElement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {}, the reference has {}", self.element, self.got, self.expected)
    }
}

impl WrongElement {
    /// Describes the element called `element`.
    #[expect(clippy::needless_pass_by_value, reason = "numbers of several types, and texts")]
    pub fn new(element: String, got: impl ToString, expected: impl ToString) -> Self {
        Self { element, got: got.to_string(), expected: expected.to_string() }
    }
}

impl WrongElements {
    /// Most elements that are listed.
    const MAX_LISTED: usize = 1024;

    /// Counts a wrong element, and describes it if there is room in the list.
    pub fn add(&mut self, element: impl FnOnce() -> WrongElement) {
        self.count += 1;
        if self.first.len() < Self::MAX_LISTED {
            self.first.push(element());
        }
    }

    /// Appends the elements of a later part of the answer.
    pub fn append(&mut self, later: Self) {
        self.count += later.count;
        let room = Self::MAX_LISTED - self.first.len();
        self.first.extend(later.first.into_iter().take(room));
    }

    /// Whether no element is wrong.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl CheckResult {
    /// Whether the answer is correct. Written so that a NaN residual fails.
    pub fn passes(&self) -> bool {
        self.residual <= self.tolerance
    }

    /// Returns the value of a metric, if it is there and finite.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|metric| metric.name == name)?.value
    }

    /// Rejects an answer whose `metric` is missing, not a number or greater than the promised maximum.
    pub fn enforce(&mut self, (metric, most): (&str, f64)) {
        let value = self.metric(metric);
        if !self.passes() || value.is_some_and(|value| value <= most) {
            return;
        }
        let value = value.map_or_else(|| "not there or not finite".into(), |value| value.to_string());
        self.residual = f64::INFINITY;
        self.worst = format!("the {metric} is {value}, more than the {most} that the variant promises");
    }
}

/// Method by which an answer was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckMethod {
    /// Comparison of every element with the oracle.
    Elementwise,
    /// Comparison of random combinations of elements with the oracle (Freivalds), and of every element in some columns.
    Probabilistic,
}
