//! Element types of kernels, and host arrays of them.

use crate::basis::error;
use crate::basis::printable::brief;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Evaluates `$body` with `$T` as Rust's type of an element of `$dtype`.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_type!($dtype, $T => $body; F32 f32, F64 f64, F16 f16, Bf16 bf16, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8,
            U16 u16, U32 u32, U64 u64, Bytes u8, Mixed u8)
    };
    ($dtype:expr, $T:ident => $body:expr; $($variant:ident $type:ty),+) => {
        match $dtype {
            $($crate::basis::dtype::DType::$variant => {
                type $T = $type;
                $body
            })+
        }
    };
}
pub(crate) use with_type;

/// Type of a matrix or vector element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// Signed 16-bit integers.
    I16,
    /// Signed 64-bit integers.
    I64,
    /// Unsigned 16-bit integers.
    U16,
    /// Unsigned 32-bit integers.
    U32,
    /// Unsigned 64-bit integers.
    U64,
    /// Raw memory, such as blocks of quantized values: one byte each, compared exactly.
    Bytes,
    /// Several types: of a case whose outputs differ, never of a buffer.
    Mixed,
}

impl DType {
    /// Element types of built-in kernels, in the order of lists.
    pub const ALL: [Self; 7] = [Self::F32, Self::F64, Self::F16, Self::Bf16, Self::I32, Self::I8, Self::U8];

    /// Element types of users' buffers, in the order of messages.
    pub const OF_BUFFERS: [Self; 13] = [
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

    /// Returns the name: on the command line, in descriptions and case ids, and as the suffix of compiled shaders.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bytes => "bytes",
            Self::Mixed => "mixed",
        }
    }

    /// Parses the type of a user's buffer. The error message has the nearest name.
    pub fn of_buffer(name: &str) -> Result<Self, String> {
        let dtype = Self::OF_BUFFERS.into_iter().find(|dtype| dtype.name() == name);
        dtype.ok_or_else(|| Self::unknown("type", name, "", &Self::OF_BUFFERS.map(Self::name)))
    }

    /// Says which of the `known` types, of a `scope` such as ` for matmul`, was probably meant by `name`, which may be that of
    /// a language.
    pub fn unknown(what: &str, name: &str, scope: &str, known: &[&str]) -> String {
        let meant = match &*name.to_lowercase() {
            "float" | "float32" | "fp32" | "single" => "f32",
            "half" | "float16" | "fp16" => "f16",
            "double" | "float64" | "fp64" => "f64",
            "bfloat16" | "bf" => "bf16",
            "int" | "int32" => "i32",
            "uint" | "uint32" => "u32",
            "char" | "int8" => "i8",
            _ => name,
        };
        if known.contains(&meant) {
            return format!("unknown {what} '{}'{scope}; did you mean '{meant}'?", brief(name));
        }
        error::unknown(what, name, scope, known)
    }

    /// Returns the size of an element in bytes.
    pub fn bytes(self) -> u64 {
        with_type!(self, T => size_of::<T>() as u64)
    }

    /// Returns the type of matrix products: i32 for sums of 8-bit integers, otherwise the type itself.
    pub fn of_product(self) -> Self {
        match self {
            Self::I8 | Self::U8 => Self::I32,
            other => other,
        }
    }

    /// Returns the type in which kernels keep the sums of products: 32 bits, or 64 for f64.
    pub fn of_sums(self) -> Self {
        match self {
            Self::F64 => Self::F64,
            other if other.is_integer() => Self::I32,
            _ => Self::F32,
        }
    }

    /// Whether the arithmetic is exact modulo a power of two.
    pub fn is_integer(self) -> bool {
        !self.is_float()
    }

    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    pub fn is_signed_integer(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// Returns the integer type of the same size, if there is one.
    pub fn as_integer(self, signed: bool) -> Option<Self> {
        let mut integers = Self::OF_BUFFERS.into_iter().filter(|dtype| dtype.is_integer() && *dtype != Self::Bytes);
        integers.find(|dtype| dtype.bytes() == self.bytes() && dtype.is_signed_integer() == signed)
    }

    /// Returns the unit roundoff of the accumulator type (Higham, *Accuracy and Stability*, section 2.1); 0 for
    /// integers, whose arithmetic is exact.
    pub fn accumulator_roundoff(self) -> f64 {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 2f64.powi(-24),
            Self::F64 => 2f64.powi(-53),
            _ => 0.0,
        }
    }

    /// Returns the unit roundoff of storing an accumulator to memory.
    pub fn storage_roundoff(self) -> f64 {
        match self {
            Self::F16 => 2f64.powi(-11),
            Self::Bf16 => 2f64.powi(-8),
            _ => 0.0,
        }
    }

    /// Returns the smallest positive normal value. A device may flush anything below to zero (Vulkan leaves it to the
    /// implementation without `shaderDenormPreserve`), so errors up to it are legitimate.
    pub fn smallest_normal(self) -> f64 {
        match self {
            Self::F32 | Self::Bf16 => f64::from(f32::MIN_POSITIVE),
            Self::F64 => f64::MIN_POSITIVE,
            Self::F16 => 2f64.powi(-14),
            _ => 0.0,
        }
    }

    /// Returns the first element in little-endian `bytes`, and panics without one. 64-bit integers are rounded to f64.
    pub fn value(self, bytes: &[u8]) -> f64 {
        with_type!(self, T => {
            T::from_le_bytes(bytes[..size_of::<T>()].try_into().expect("as many bytes")).real()
        })
    }

    /// Appends `value` to `bytes`: floats round to nearest even, integers truncate and saturate.
    pub fn push(self, value: f64, bytes: &mut Vec<u8>) {
        with_type!(self, T => bytes.extend(T::nearest(value).to_le_bytes()));
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
        let mut known = Self::OF_BUFFERS.into_iter().chain([Self::Mixed]);
        known
            .find(|dtype| dtype.name() == text)
            .ok_or_else(|| Self::unknown("dtype", text, "", &Self::ALL.map(Self::name)))
    }
}

/// Host array of one element type: the contents of a device buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum HostArray {
    F32(Vec<f32>),
    F64(Vec<f64>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    I32(Vec<i32>),
    I8(Vec<i8>),
    /// Unsigned bytes, and raw memory.
    U8(Vec<u8>),
    I16(Vec<i16>),
    I64(Vec<i64>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// Evaluates `$body` with `$v` bound to the typed vector, and `$make` to the constructor of its `HostArray` variant.
macro_rules! each_type {
    ($array:expr, $v:ident => $body:expr) => {
        each_type!($array, _make, $v => $body)
    };
    ($array:expr, $make:ident, $v:ident => $body:expr) => {
        each_type!($array, $make, $v => $body; F32 F64 F16 Bf16 I32 I8 U8 I16 I64 U16 U32 U64)
    };
    ($array:expr, $make:ident, $v:ident => $body:expr; $($type:ident)+) => {
        match $array {
            $(HostArray::$type($v) => {
                let $make = HostArray::$type;
                $body
            })+
        }
    };
}

/// Rust's type of an element, which converts from and to f64.
pub(crate) trait Real: Copy + Default {
    /// Returns the value exactly; 64-bit integers are rounded.
    fn real(self) -> f64;
    /// Converts a value: floats round to nearest even, integers truncate and saturate.
    fn nearest(value: f64) -> Self;
    fn array(elements: Vec<Self>) -> HostArray;
}

macro_rules! real {
    ($($type:ident: $variant:ident, $value:ident => $real:expr, $nearest:expr;)+) => {
        $(impl Real for $type {
            fn real(self) -> f64 {
                let $value = self;
                $real
            }

            fn nearest($value: f64) -> Self {
                $nearest
            }

            fn array(elements: Vec<Self>) -> HostArray {
                HostArray::$variant(elements)
            }
        })+
    };
}

real!(
    f64: F64, x => x, x;
    f32: F32, x => f64::from(x), x as f32;
    f16: F16, x => f64::from(widened(x)), f16::from_f64(x);
    bf16: Bf16, x => f64::from(widened_bf16(x)), bf16::from_f64(x);
    i8: I8, x => f64::from(x), x as i8;
    i16: I16, x => f64::from(x), x as i16;
    i32: I32, x => f64::from(x), x as i32;
    i64: I64, x => x as f64, x as i64;
    u8: U8, x => f64::from(x), x as u8;
    u16: U16, x => f64::from(x), x as u16;
    u32: U32, x => f64::from(x), x as u32;
    u64: U64, x => x as f64, x as u64;
);

impl HostArray {
    /// Creates an array of `len` zeros.
    pub fn zeros(dtype: DType, len: usize) -> Self {
        with_type!(dtype, T => T::array(vec![T::default(); len]))
    }

    /// Creates an array from `bytes`; a remainder shorter than an element is ignored.
    pub fn of_bytes(dtype: DType, bytes: &[u8]) -> Self {
        let mut array = Self::zeros(dtype, bytes.len() / dtype.bytes() as usize);
        let own = array.as_bytes_mut();
        own.copy_from_slice(&bytes[..own.len()]);
        array
    }

    /// Returns the text of an element, with all digits.
    pub fn shown(&self, index: usize) -> String {
        each_type!(self, v => v[index].to_string())
    }

    pub fn len(&self) -> usize {
        each_type!(self, v => v.len())
    }

    /// Returns the transpose of a row-major matrix with `columns` columns, row-major as well.
    pub fn transposed(&self, columns: usize) -> Self {
        fn transpose<T: Copy>(elements: &[T], columns: usize) -> Vec<T> {
            (0..columns).flat_map(|column| elements[column..].iter().step_by(columns).copied()).collect()
        }
        each_type!(self, make, v => make(transpose(v, columns)))
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory as the device sees it.
    pub fn as_bytes(&self) -> &[u8] {
        each_type!(self, v => bytemuck::cast_slice(v))
    }

    /// Returns the memory as the device sees it, writable.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        each_type!(self, v => bytemuck::cast_slice_mut(v))
    }

    /// Returns element `index` exactly; 64-bit integers are rounded to f64.
    pub fn get(&self, index: usize) -> f64 {
        each_type!(self, v => v[index].real())
    }

    /// Copies elements `start..start + out.len()` to `out`, converted as by [`Self::get`].
    pub fn read(&self, start: usize, out: &mut [f64]) {
        let end = start + out.len();
        each_type!(self, v => {
            for (target, element) in out.iter_mut().zip(&v[start..end]) {
                *target = element.real();
            }
        });
    }
}

/// Converts an f16 to f32 with operations that the compiler can vectorize. Several times as fast as the `half` crate,
/// which checks the processor's features at each element.
fn widened(half: f16) -> f32 {
    /// Bits of the infinite f16; those of NaNs are larger.
    const INFINITE_HALF: u32 = 0x7c00;
    /// Bits of 2^112, which makes up for the different exponent biases and normalizes subnormal halves as well.
    const SCALE: u32 = 0x7780_0000;
    let bits = u32::from(half.to_bits());
    let sign = bits >> 15 << 31;
    let magnitude = bits & 0x7fff;
    let scaled = (f32::from_bits(magnitude << 13) * f32::from_bits(SCALE)).to_bits();
    let exponent = if magnitude >= INFINITE_HALF { f32::INFINITY.to_bits() } else { 0 };
    f32::from_bits(scaled | exponent | sign)
}

/// Converts a bf16, the upper half of an f32, to f32.
fn widened_bf16(half: bf16) -> f32 {
    f32::from_bits(u32::from(half.to_bits()) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_widened_as_the_crate_does() {
        let are_same = |a: f32, b: f32| a == b || a.is_nan() && b.is_nan();
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            let upper = bf16::from_bits(bits);
            assert!(
                are_same(widened(half), half.to_f32()) && are_same(widened_bf16(upper), upper.to_f32()),
                "{bits:#x}"
            );
            assert_eq!(widened(half).is_sign_negative(), half.is_sign_negative(), "{bits:#x}");
        }
    }

    #[test]
    fn every_dtype_is_parsed_back_from_its_name_and_an_unknown_one_answered_with_the_nearest() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        let error = "unknown dtype 'f23'; did you mean 'f32'? available: f32, f64, f16, bf16, i32, i8, u8";
        assert_eq!("f23".parse::<DType>(), Err(error.into()));
    }

    #[test]
    fn a_transpose_has_the_rows_of_its_matrix_as_columns() {
        let matrix = HostArray::I32(vec![1, 2, 3, 4, 5, 6]);
        assert_eq!(matrix.transposed(3), HostArray::I32(vec![1, 4, 2, 5, 3, 6]));
        assert_eq!(matrix.transposed(3).transposed(2), matrix);
    }

    #[test]
    fn every_type_of_a_buffer_is_parsed_from_its_name_and_keeps_small_integers() {
        for dtype in DType::OF_BUFFERS {
            assert_eq!(DType::of_buffer(dtype.name()), Ok(dtype));
            let mut bytes = vec![];
            for value in [0.0, 1.0, 100.0] {
                dtype.push(value, &mut bytes);
            }
            assert_eq!(bytes.len() as u64, 3 * dtype.bytes());
            let values: Vec<f64> = bytes.chunks_exact(dtype.bytes() as usize).map(|e| dtype.value(e)).collect();
            assert_eq!(values, [0.0, 1.0, 100.0], "{dtype}");
            let array = HostArray::of_bytes(dtype, &bytes);
            assert_eq!((array.len(), array.as_bytes()), (3, &bytes[..]), "{dtype}");
            assert_eq!([0, 1, 2].map(|at| array.get(at)), [0.0, 1.0, 100.0], "{dtype}");
        }
        let widths = [DType::F64, DType::F32, DType::Bf16, DType::I8, DType::Bytes].map(DType::bytes);
        assert_eq!(widths, [8, 4, 2, 1, 1]);
        let error = DType::of_buffer("f23").expect_err("no type");
        insta::assert_snapshot!(error, @"
        unknown type 'f23'; did you mean 'f32'? available: f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bytes
        ");
        for dtype in DType::OF_BUFFERS.into_iter().chain([DType::Mixed]) {
            assert_eq!(serde_json::from_str(&format!("\"{dtype}\"")).ok(), Some(dtype), "records name every type");
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
    }
}
