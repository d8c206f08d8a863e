//! Storage order of the operands of a matrix product.

use crate::basis::named::named;
use serde::{Deserialize, Serialize};

/// Which operand of a product C = A·B is stored transposed: one letter each for A and B, as in BLAS. C is always
/// row-major.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
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
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the layout unless it is the default, which ids and labels omit.
    pub fn unusual(self) -> Option<Self> {
        (!self.is_default()).then_some(self)
    }
}

named!(Layout, "layout", [Nn "nn", Nt "nt", Tn "tn"]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_parsed_back_from_its_name() {
        for layout in Layout::ALL {
            assert_eq!(layout.name().parse(), Ok(layout));
        }
        let error = "unknown layout 'tt'; did you mean 'tn'? available: nn, nt, tn";
        assert_eq!("tt".parse::<Layout>(), Err(error.into()));
    }
}
