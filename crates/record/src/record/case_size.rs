//! Size of a case in a record.

use crate::basis::size::Size;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The size of a case as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum CaseSize {
    /// One that this program has a meaning for.
    Known(Size),
    /// The text of another version.
    Foreign(String),
}

impl CaseSize {
    /// Returns the size, if this version knows it.
    pub fn known(&self) -> Option<Size> {
        match self {
            Self::Known(size) => Some(*size),
            Self::Foreign(_) => None,
        }
    }

    /// Whether both are the same problem in any notation, like `64` and `64x64x64`.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Known(a), Self::Known(b)) => a.shortest() == b.shortest(),
            (a, b) => a == b,
        }
    }
}

impl From<Size> for CaseSize {
    fn from(size: Size) -> Self {
        Self::Known(size)
    }
}

impl From<&str> for CaseSize {
    /// Keeps text that is not the canonical form of a size, so that it is written as it was read.
    fn from(text: &str) -> Self {
        let size = text.parse::<Size>().ok().filter(|size| size.to_string() == text);
        size.map_or_else(|| Self::Foreign(text.into()), Self::Known)
    }
}

impl From<String> for CaseSize {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<CaseSize> for String {
    fn from(size: CaseSize) -> Self {
        size.to_string()
    }
}

impl fmt::Display for CaseSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(size) => size.fmt(f),
            Self::Foreign(text) => f.pad(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_text_in_json_and_one_of_another_version_stays_as_it_is() {
        let sizes = [Size::Uniform(64), Size::Two(64, 8), Size::Three(1000, 70, 130)].map(CaseSize::Known);
        for (text, size) in ["64", "64x8", "1000x70x130"].into_iter().zip(sizes) {
            let json = serde_json::to_string(&size).expect("JSON");
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<CaseSize>(&json).expect("a size"), size);
            assert_eq!(CaseSize::from(text), size);
        }
        for text in ["", "2x3x4x5", "64 tokens", "0", "NaN", "2^6"] {
            let json = serde_json::to_string(text).expect("JSON");
            let size = serde_json::from_str::<CaseSize>(&json).expect("any text");
            assert_eq!((&size, size.known()), (&CaseSize::Foreign(text.into()), None));
            assert_eq!(serde_json::to_string(&size).expect("JSON"), json);
            assert!(size.same(&size) && !size.same(&Size::Uniform(64).into()), "{text}");
        }
        assert!(serde_json::from_str::<CaseSize>("64").is_err(), "sizes of records are text");
    }

    #[test]
    fn one_extent_stands_for_a_cube() {
        let are_same = |a: &str, b: &str| CaseSize::from(a).same(&b.into());
        assert!(are_same("64", "64x64x64") && are_same("64x64x64", "64"));
        assert!(!are_same("64", "64x64") && !are_same("64", "64x64x65") && !are_same("64", "65"));
    }
}
