//! The types of the elements of users' buffers.

use crate::basis::error;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Element {
    /// Unsigned integers.
    U8,
    U16,
    U32,
    U64,
    /// Signed integers.
    I8,
    I16,
    I32,
    I64,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// Raw memory, such as blocks of quantised values: one byte each, compared exactly.
    Bytes,
}

impl Element {
    /// Every type, in the order that messages list them.
    pub(crate) const ALL: [Self; 13] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::Bf16,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bytes,
    ];

    /// The name in descriptions.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bytes => "bytes",
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bytes => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is an integer that may be below zero.
    #[must_use]
    pub(crate) fn is_signed_integer(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// Whether it has a fraction.
    #[must_use]
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The value of the first element in `bytes`, in little-endian order; of 64-bit integers the nearest f64.
    ///
    /// # Panics
    /// Where there are fewer bytes than an element has.
    #[must_use]
    pub(crate) fn value(self, bytes: &[u8]) -> f64 {
        macro_rules! read {
            ($type:ty) => {
                <$type>::from_le_bytes(bytes[..size_of::<$type>()].try_into().expect("as many bytes"))
            };
        }
        match self {
            Self::U8 | Self::Bytes => f64::from(bytes[0]),
            Self::U16 => f64::from(read!(u16)),
            Self::U32 => f64::from(read!(u32)),
            Self::U64 => read!(u64) as f64,
            Self::I8 => f64::from(read!(i8)),
            Self::I16 => f64::from(read!(i16)),
            Self::I32 => f64::from(read!(i32)),
            Self::I64 => read!(i64) as f64,
            Self::F16 => read!(f16).to_f64(),
            Self::Bf16 => read!(bf16).to_f64(),
            Self::F32 => f64::from(read!(f32)),
            Self::F64 => read!(f64),
        }
    }

    /// Appends `value` to `bytes`: rounded to nearest even for types with a fraction, cut off and held within the type for
    /// integers.
    pub(crate) fn push(self, value: f64, bytes: &mut Vec<u8>) {
        match self {
            Self::U8 | Self::Bytes => bytes.push(value as u8),
            Self::U16 => bytes.extend((value as u16).to_le_bytes()),
            Self::U32 => bytes.extend((value as u32).to_le_bytes()),
            Self::U64 => bytes.extend((value as u64).to_le_bytes()),
            Self::I8 => bytes.extend((value as i8).to_le_bytes()),
            Self::I16 => bytes.extend((value as i16).to_le_bytes()),
            Self::I32 => bytes.extend((value as i32).to_le_bytes()),
            Self::I64 => bytes.extend((value as i64).to_le_bytes()),
            Self::F16 => bytes.extend(f16::from_f64(value).to_le_bytes()),
            Self::Bf16 => bytes.extend(bf16::from_f64(value).to_le_bytes()),
            Self::F32 => bytes.extend((value as f32).to_le_bytes()),
            Self::F64 => bytes.extend(value.to_le_bytes()),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Element {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|element| element.name() == text);
        found.ok_or_else(|| error::unknown("type", text, "", &Self::ALL.map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_parsed_from_its_name_and_keeps_small_integers() {
        for element in Element::ALL {
            assert_eq!(element.name().parse(), Ok(element));
            let mut bytes = vec![];
            for value in [0.0, 1.0, 100.0] {
                element.push(value, &mut bytes);
            }
            assert_eq!(bytes.len() as u64, 3 * element.bytes());
            let values: Vec<f64> = bytes.chunks_exact(element.bytes() as usize).map(|e| element.value(e)).collect();
            assert_eq!(values, [0.0, 1.0, 100.0], "{element}");
        }
        assert!("f23".parse::<Element>().expect_err("no type").contains("did you mean 'f32'?"));
    }
}
