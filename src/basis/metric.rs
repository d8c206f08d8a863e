//! A named figure.

use serde::{Deserialize, Serialize};

/// A figure of an answer, such as a growth factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Metric {
    /// Its name: a column heading.
    pub name: String,
    /// Its value; `null` when it is not finite.
    pub value: Option<f64>,
}

impl Metric {
    /// A metric of this name.
    #[must_use]
    pub fn new(name: &str, value: f64) -> Self {
        Self { name: name.into(), value: value.is_finite().then_some(value) }
    }
}
