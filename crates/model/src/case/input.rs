//! Kinds of input data, generated from a seed: the same seed gives the same bytes on every platform.

use crate::basis::dtype::{DType, HostArray, Real, with_type};
use crate::basis::named::named;
use half::{bf16, f16};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Kind of input data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// Uniform in [0, 1), as in the posts; for 32-bit integers in [0, 2¹⁶), for 8-bit ones in [0, 2⁷).
    Uniform,
    /// Uniform in [−1, 1); for 32-bit integers in [−2¹⁶, 2¹⁶), for signed 8-bit ones in [−2⁷, 2⁷).
    Signed,
    /// The Hilbert matrix 1 / (r + c + 1), r and c from 0.
    Hilbert,
    /// Uniform + n·I: elimination without pivoting is stable.
    DiagonallyDominant,
    /// Uniform with a first row of zeros: has no answer, and shows how a failure is reported.
    Singular,
    /// Wilkinson's matrix: elimination with partial pivoting lets its last column grow by 2^min(n − 1, 100)
    /// (`matrix::wilkinson`).
    Wilkinson,
    /// Uniform, each row times a power of two from 2⁻³⁰ to 2³⁰.
    IllScaled,
    /// A positive matrix whose two largest eigenvalues are near each other (`matrix::slow`).
    Slow,
    /// The 3×3 example whose dominant eigenvalue is (7 + √65)/2 (`matrix::EXAMPLE`).
    Example,
    /// A vector whose neighbors are all nearer than eps.
    Converged,
    /// A vector with one pair of neighbors too far apart, across a boundary between sub-groups.
    Boundary,
    /// A vector whose last and first element are too far apart.
    Wrap,
    /// Fills that the description of a user's kernel states; `buffers` of a case lists them.
    Described,
}

impl Input {
    /// Whether problems of this kind have an answer, so that a conformance run can check it.
    pub fn has_answer(self) -> bool {
        self != Self::Singular
    }

    /// Returns the fill of a description whose values are in the range of [`random`]; `None` if no fill has them.
    pub fn fill(self, dtype: DType) -> Option<String> {
        // The bounds of integers are among the values.
        let high = if dtype.is_integer() { (1 << random_bits(dtype)) - 1 } else { 1 };
        match self {
            Self::Uniform => Some(format!("uniform(0, {high})")),
            Self::Signed if dtype.is_signed_integer() => Some(format!("uniform({}, {high})", -1 - high)),
            Self::Signed if dtype.is_float() => Some("uniform(-1, 1)".into()),
            _ => None,
        }
    }
}

named!(Input, "input", [
    Uniform "uniform", Signed "signed", Hilbert "hilbert", DiagonallyDominant "diagonally-dominant",
    Singular "singular", Wilkinson "wilkinson", IllScaled "ill-scaled", Slow "slow", Example "example",
    Converged "converged", Boundary "boundary", Wrap "wrap", Described "described",
]);

/// Returns the number of random bits of each value; a float is a fraction of that power of two.
fn random_bits(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 24,
        DType::F64 => 52,
        DType::F16 => 11,
        DType::Bf16 => 8,
        DType::I8 | DType::U8 | DType::Bytes | DType::Mixed => 7,
        DType::I16 | DType::U16 => 15,
        DType::I32 | DType::U32 | DType::I64 | DType::U64 => 16,
    }
}

/// Returns `len` random elements. Every value is exact in `dtype`: a multiple of 2⁻²⁴ (f32), 2⁻⁵² (f64), 2⁻¹¹ (f16) or
/// 2⁻⁸ (bf16). All kinds except `Signed` use the draws of `Uniform`.
pub fn random(dtype: DType, input: Input, len: usize, rng: &mut ChaCha8Rng) -> HostArray {
    let bits = random_bits(dtype);
    let scale = if dtype.is_integer() { 1.0 } else { 2f64.powi(-bits) };
    let is_unsigned = dtype.is_integer() && !dtype.is_signed_integer();
    // The integers drawn are exact in f64: they have 53 bits at most.
    let mut draw = || {
        let integer = match input {
            Input::Signed => (rng.next_u64() >> (63 - bits)) as f64 - 2f64.powi(bits),
            _ => (rng.next_u64() >> (64 - bits)) as f64,
        };
        scale * if is_unsigned { integer.abs() } else { integer }
    };
    with_type!(dtype, T => T::array((0..len).map(|_| T::nearest(draw())).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::random::generator;

    #[test]
    fn the_same_seed_gives_the_same_bytes_on_every_platform() {
        let HostArray::F32(values) = random(DType::F32, Input::Uniform, 3, &mut generator(1, 0)) else {
            panic!("f32 was asked for")
        };
        // Recorded once; a change here changes the meaning of every seed in every record.
        assert_eq!(values, [0.381_489_4, 0.294_927_3, 0.798_254_2]);
    }

    #[test]
    fn streams_and_seeds_differ() {
        let first = |seed, stream| random(DType::F64, Input::Uniform, 1, &mut generator(seed, stream)).get(0);
        assert!(first(1, 0) != first(1, 1) && first(1, 0) != first(2, 0));
    }

    #[test]
    fn values_stay_in_their_interval_and_fill_it() {
        for dtype in DType::ALL {
            let scale = match dtype {
                DType::I32 => 65_536.0,
                DType::I8 => 128.0,
                // Unsigned types have no negative values.
                DType::U8 => continue,
                _ => 1.0,
            };
            for (input, low) in [(Input::Uniform, 0.0), (Input::Signed, -scale)] {
                let values = random(dtype, input, 4096, &mut generator(3, 0));
                let values: Vec<f64> = (0..values.len()).map(|i| values.get(i)).collect();
                let min = values.iter().copied().fold(f64::INFINITY, f64::min);
                let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                assert!(min >= low && max < scale, "{dtype} {input}: [{min}, {max}]");
                assert!(min < low + 0.1 * scale && max > 0.9 * scale, "{dtype} {input}: [{min}, {max}]");
            }
        }
    }
}
