//! Storage order of the operands of a matrix product.

use crate::basis::error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which operand of a product C = A·B is stored transposed: one letter each for A and B, as in BLAS. C is always
/// row-major.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Neither: A is stored M×K, B K×N. Also the layout of algorithms without such operands.
    #[default]
    Nn,
    /// B is stored N×K, as the weights of neural networks are.
    Nt,
    /// A is stored K×M.
    Tn,
}

impl Layout {
    /// All layouts, in the order that messages list them.
    pub const ALL: [Self; 3] = [Self::Nn, Self::Nt, Self::Tn];

    /// Returns the name on the command line, in records and case ids, and as the suffix of compiled shaders.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nn => "nn",
            Self::Nt => "nt",
            Self::Tn => "tn",
        }
    }

    /// Whether this is the default layout.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the layout unless it is the default, which ids and labels omit.
    #[must_use]
    pub fn unusual(self) -> Option<Self> {
        (!self.is_default()).then_some(self)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|layout| layout.name() == text);
        found.ok_or_else(|| error::unknown("layout", text, "", &Self::ALL.map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_parsed_back_from_its_name() {
        for layout in Layout::ALL {
            assert_eq!(layout.name().parse(), Ok(layout));
        }
        let error = "tt".parse::<Layout>().expect_err("no such layout");
        assert!(error.contains("unknown layout 'tt'"), "{error}");
    }
}
