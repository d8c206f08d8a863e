//! The element types that kernels are compiled for, and arrays of them on the host.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The type of a matrix or vector element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary16 in memory; arithmetic in f32.
    F16,
    /// The upper half of an f32 in memory, rounded to nearest even; arithmetic in f32.
    Bf16,
    /// 32-bit integers; products and sums wrap modulo 2³².
    I32,
    /// Signed 8-bit integers; products and sums in 32 bits.
    I8,
    /// Unsigned 8-bit integers; products and sums in 32 bits.
    U8,
}

impl DType {
    /// All element types, in the order that lists show them.
    pub const ALL: [Self; 7] = [Self::F32, Self::F64, Self::F16, Self::Bf16, Self::I32, Self::I8, Self::U8];

    /// The name used on the command line, in case ids and as the suffix of compiled shaders.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
            Self::I8 => "i8",
            Self::U8 => "u8",
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 | Self::U8 => 1,
        }
    }

    /// The type that a product of matrices is stored as: 32 bits for the sums of 8-bit integers, else its own.
    #[must_use]
    pub fn of_product(self) -> Self {
        match self {
            Self::I8 | Self::U8 => Self::I32,
            other => other,
        }
    }

    /// Whether its arithmetic is exact modulo 2³².
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::I8 | Self::U8)
    }

    /// Unit roundoff of the type that sums are accumulated in (Higham, *Accuracy and Stability*, section 2.1);
    /// 0 for integers, whose arithmetic is exact modulo 2³².
    #[must_use]
    pub fn accumulator_roundoff(self) -> f64 {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 2f64.powi(-24),
            Self::F64 => 2f64.powi(-53),
            Self::I32 | Self::I8 | Self::U8 => 0.0,
        }
    }

    /// Unit roundoff of one store to memory beyond that of the accumulator.
    #[must_use]
    pub fn storage_roundoff(self) -> f64 {
        match self {
            Self::F16 => 2f64.powi(-11),
            Self::Bf16 => 2f64.powi(-8),
            Self::F32 | Self::F64 | Self::I32 | Self::I8 | Self::U8 => 0.0,
        }
    }

    /// Smallest positive normal value: below it a device may flush to zero (Vulkan leaves that to the
    /// implementation unless `shaderDenormPreserve` is asked for), so errors up to it are legitimate.
    #[must_use]
    pub fn smallest_normal(self) -> f64 {
        match self {
            Self::F32 | Self::Bf16 => f64::from(f32::MIN_POSITIVE),
            Self::F64 => f64::MIN_POSITIVE,
            Self::F16 => 2f64.powi(-14),
            Self::I32 | Self::I8 | Self::U8 => 0.0,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::name);
            crate::basis::error::unknown("dtype", text, "", &all)
        })
    }
}

/// A host array of one element type: the contents of a device buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum HostArray {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// IEEE half precision.
    F16(Vec<f16>),
    /// Bfloat16: the upper half of an f32.
    Bf16(Vec<bf16>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 8-bit integers, signed.
    I8(Vec<i8>),
    /// 8-bit integers, unsigned.
    U8(Vec<u8>),
}

/// Evaluates `$body` with `$v` bound to the typed vector, whatever its type.
macro_rules! each_type {
    ($array:expr, $v:ident => $body:expr) => {
        match $array {
            HostArray::F32($v) => $body,
            HostArray::F64($v) => $body,
            HostArray::F16($v) => $body,
            HostArray::Bf16($v) => $body,
            HostArray::I32($v) => $body,
            HostArray::I8($v) => $body,
            HostArray::U8($v) => $body,
        }
    };
}

impl HostArray {
    /// `len` zero elements.
    #[must_use]
    pub fn zeros(dtype: DType, len: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(vec![0.0; len]),
            DType::F64 => Self::F64(vec![0.0; len]),
            DType::F16 => Self::F16(vec![f16::ZERO; len]),
            DType::Bf16 => Self::Bf16(vec![bf16::ZERO; len]),
            DType::I32 => Self::I32(vec![0; len]),
            DType::I8 => Self::I8(vec![0; len]),
            DType::U8 => Self::U8(vec![0; len]),
        }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        each_type!(self, v => v.len())
    }

    /// The transpose of a row-major matrix of so many columns, row major.
    #[must_use]
    pub fn transposed(&self, columns: usize) -> Self {
        fn of<T: Copy>(elements: &[T], columns: usize) -> Vec<T> {
            (0..columns).flat_map(|column| elements[column..].iter().step_by(columns).copied()).collect()
        }
        match self {
            Self::F32(v) => Self::F32(of(v, columns)),
            Self::F64(v) => Self::F64(of(v, columns)),
            Self::F16(v) => Self::F16(of(v, columns)),
            Self::Bf16(v) => Self::Bf16(of(v, columns)),
            Self::I32(v) => Self::I32(of(v, columns)),
            Self::I8(v) => Self::I8(of(v, columns)),
            Self::U8(v) => Self::U8(of(v, columns)),
        }
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory as the device sees it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        each_type!(self, v => bytemuck::cast_slice(v))
    }

    /// The memory as the device sees it, to be overwritten.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        each_type!(self, v => bytemuck::cast_slice_mut(v))
    }

    /// Element `index`, exactly.
    #[must_use]
    pub fn get(&self, index: usize) -> f64 {
        match self {
            Self::F32(v) => f64::from(v[index]),
            Self::F64(v) => v[index],
            Self::F16(v) => v[index].to_f64(),
            Self::Bf16(v) => v[index].to_f64(),
            Self::I32(v) => f64::from(v[index]),
            Self::I8(v) => f64::from(v[index]),
            Self::U8(v) => f64::from(v[index]),
        }
    }

    /// Elements `start..start + out.len()`, exactly, as f64.
    pub fn read(&self, start: usize, out: &mut [f64]) {
        let end = start + out.len();
        match self {
            Self::F32(v) => out.iter_mut().zip(&v[start..end]).for_each(|(o, x)| *o = f64::from(*x)),
            Self::F64(v) => out.copy_from_slice(&v[start..end]),
            Self::F16(v) => out.iter_mut().zip(&v[start..end]).for_each(|(o, x)| *o = f64::from(widened(*x))),
            Self::Bf16(v) => out.iter_mut().zip(&v[start..end]).for_each(|(o, x)| *o = f64::from(widened_bf16(*x))),
            Self::I32(v) => out.iter_mut().zip(&v[start..end]).for_each(|(o, x)| *o = f64::from(*x)),
            Self::I8(v) => out.iter_mut().zip(&v[start..end]).for_each(|(o, x)| *o = f64::from(*x)),
            Self::U8(v) => out.iter_mut().zip(&v[start..end]).for_each(|(o, x)| *o = f64::from(*x)),
        }
    }
}

/// A half as f32, in operations that a compiler makes vectors of: some times as fast as the crate's, which looks for what the
/// processor has at each element.
fn widened(half: f16) -> f32 {
    const INFINITE: u32 = 0x7c00;
    let bits = u32::from(half.to_bits());
    let (sign, magnitude) = (bits >> 15 << 31, bits & 0x7fff);
    // 2^112 is what the exponents of both types differ by; it makes subnormal ones normal, too.
    let scaled = (f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let exponent = if magnitude >= INFINITE { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled | exponent | sign)
}

/// The same of the upper half of an f32.
fn widened_bf16(half: bf16) -> f32 {
    f32::from_bits(u32::from(half.to_bits()) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_widened_as_the_crate_does() {
        let same = |own: f32, other: f32| own == other || own.is_nan() && other.is_nan();
        for bits in 0..=u16::MAX {
            let (half, upper) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(same(widened(half), half.to_f32()) && same(widened_bf16(upper), upper.to_f32()), "{bits:#x}");
            assert_eq!(widened(half).is_sign_negative(), half.is_sign_negative(), "{bits:#x}");
        }
    }

    #[test]
    fn every_dtype_is_parsed_back_from_its_name() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
    }

    #[test]
    fn an_unknown_dtype_is_answered_with_the_nearest_one() {
        let error = "f23".parse::<DType>().expect_err("not a dtype");
        assert!(error.contains("unknown dtype 'f23'") && error.contains("did you mean 'f32'"), "{error}");
    }

    #[test]
    fn a_transpose_has_the_rows_of_its_matrix_as_columns() {
        let matrix = HostArray::I32(vec![1, 2, 3, 4, 5, 6]);
        assert_eq!(matrix.transposed(3), HostArray::I32(vec![1, 4, 2, 5, 3, 6]));
        assert_eq!(matrix.transposed(3).transposed(2), matrix);
    }

    #[test]
    fn elements_are_as_wide_in_memory_as_the_dtype_says() {
        for dtype in DType::ALL {
            assert_eq!(HostArray::zeros(dtype, 3).as_bytes().len() as u64, 3 * dtype.bytes());
        }
    }
}
