//! Loose arithmetic: results moved within the errors that the Vulkan specification allows, by its appendix "Vulkan
//! Environment for SPIR-V", sections "Precision of Individual Operations" and "Denormalized Values". Reordered and
//! contracted expressions are allowed too, but concern several instructions.

use crate::alu::{from_f64, sign_extend, to_f64};
use crate::kernel::interface::Scalar;
use rspirv::spirv::{GlslStd450Op as Glsl, Op};
use std::cell::Cell;

/// Error that Vulkan allows an operation on operands of a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ErrorBound {
    Core(Op, Scalar),
    /// Instruction of GLSL.std.450.
    Extended(Glsl, Scalar),
}

/// Returns the error bound of an instruction whose first operand has type `scalar`; `None` if its results are exact.
pub(crate) fn error_bound(op: Op, scalar: Scalar) -> Option<ErrorBound> {
    let bound = ErrorBound::Core(op, scalar);
    let is_conversion = matches!(op, Op::FConvert | Op::ConvertSToF | Op::ConvertUToF);
    (bound.rule().is_some() && (is_conversion || matches!(scalar, Scalar::Float { .. }))).then_some(bound)
}

/// Returns the error bound of a GLSL.std.450 instruction.
pub(crate) fn extended_error_bound(number: u32, scalar: Scalar) -> Option<ErrorBound> {
    let bound = ErrorBound::Extended(Glsl::from_u32(number)?, scalar);
    // f64 has no precise reference for functions that are computed in f64, nor does Vulkan have them for f64.
    let is_basic = matches!(bound, ErrorBound::Extended(Glsl::Fma | Glsl::FMix | Glsl::Sqrt | Glsl::InverseSqrt, _));
    let is_bounded = matches!(scalar, Scalar::Float { bits } if bits < 64 || is_basic);
    (is_bounded && bound.rule().is_some()).then_some(bound)
}

impl ErrorBound {
    /// Returns the specification's rule, for reports.
    pub(crate) fn rule(self) -> Option<&'static str> {
        Some(match self {
            Self::Core(Op::FAdd | Op::FSub | Op::FMul | Op::FConvert | Op::ConvertSToF | Op::ConvertUToF, _)
            | Self::Extended(Glsl::Fract | Glsl::Ldexp, _) => "correctly rounded, up or down",
            Self::Core(Op::FDiv, _) => "2.5 ULP",
            Self::Core(Op::FRem, _) => "as x - y * trunc(x / y)",
            Self::Core(Op::FMod, _) => "as x - y * floor(x / y)",
            Self::Core(..) => return None,
            Self::Extended(op, _) => match op {
                Glsl::Fma => "as a multiplication and an addition",
                Glsl::Exp | Glsl::Exp2 => "3 + 2 * |x| ULP (f16: 1 + 2 * |x|)",
                Glsl::Log | Glsl::Log2 => "3 ULP, or 2^-21 (f16: 2^-7) in [0.5, 2]",
                Glsl::Pow => "as exp2(y * log2(x))",
                Glsl::Sqrt => "as 1 / inversesqrt(x)",
                Glsl::InverseSqrt => "2 ULP",
                Glsl::Radians | Glsl::Degrees => "as a multiplication by a rounded constant",
                Glsl::Sin | Glsl::Cos => "2^-11 (f16: 2^-7) in [-pi, pi]",
                Glsl::Tan => "as sin(x) / cos(x)",
                Glsl::Asin => "as atan2(x, sqrt(1 - x * x))",
                Glsl::Acos => "as atan2(sqrt(1 - x * x), x)",
                Glsl::Atan | Glsl::Atan2 => "4096 ULP (f16: 5)",
                Glsl::Sinh | Glsl::Cosh => "as (exp(x) -/+ exp(-x)) * 0.5",
                Glsl::Tanh => "as sinh(x) / cosh(x)",
                Glsl::Asinh | Glsl::Acosh => "as log(x + sqrt(x * x +/- 1))",
                Glsl::Atanh => "as log((1 + x) / (1 - x)) * 0.5",
                Glsl::FMix => "as x * (1 - a) + y * a",
                Glsl::SmoothStep => "as t * t * (3 - 2 * t)",
                _ => return None,
            },
        })
    }

    /// Returns a result of type `scalar` that is wrong by a random amount within the bound. Results that are infinite
    /// or not a number stay.
    pub(crate) fn perturb(self, scalar: Scalar, result: u64, operands: [u64; 4], random: u64) -> u64 {
        if !to_f64(scalar, result).is_finite() {
            return result;
        }
        let device = LooseDevice { scalar, random: Cell::new(random) };
        let value = match self {
            Self::Core(op, from) => device.core(op, from, operands),
            Self::Extended(Glsl::Ldexp, _) => Some(device.settle(to_f64(scalar, result), 0.0, 0.0)),
            Self::Extended(op, from) => device.extended(op, operands.map(|operand| to_f64(from, operand))),
        };
        value.filter(|value| !value.is_nan()).map_or(result, |value| from_f64(scalar, value))
    }
}

/// Step of the states of `SplitMix64` (Steele, Lea and Flood 2014).
pub(crate) const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the random bits of a state of `SplitMix64`.
pub(crate) fn mix(state: u64) -> u64 {
    let bits = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Device that errs at random. Its functions take and return values of type `scalar`.
struct LooseDevice {
    scalar: Scalar,
    random: Cell<u64>,
}

impl LooseDevice {
    /// Draws random bits.
    fn draw(&self) -> u64 {
        let state = self.random.get().wrapping_add(GOLDEN_GAMMA);
        self.random.set(state);
        mix(state)
    }

    /// Returns the bits of a significand, the exponent of the least normal number.
    fn format(&self) -> (i32, i32) {
        match self.scalar {
            Scalar::Float { bits: 16 } => (11, -14),
            Scalar::Float { bits: 64 } => (53, -1022),
            Scalar::Bfloat16 => (8, -126),
            _ => (24, -126),
        }
    }

    /// Returns the specification's `ulp(x)`: of a power of two, the distance to the next number towards zero.
    fn ulp(&self, value: f64) -> f64 {
        let (digits, least) = self.format();
        let exponent = (value.abs().next_down().max(0.0).to_bits() >> 52) as i32 - 1023;
        f64::from(exponent.max(least) - digits + 1).exp2()
    }

    /// Returns the next value of the type, up or down.
    fn neighbor(&self, value: f64, is_up: bool) -> f64 {
        let bits = from_f64(self.scalar, value);
        let bits = match bits {
            _ if value == 0.0 => return to_f64(self.scalar, 1).copysign(if is_up { 1.0 } else { -1.0 }),
            _ if (value > 0.0) == is_up => bits + 1,
            _ => bits - 1,
        };
        to_f64(self.scalar, bits)
    }

    /// Chooses a value of the type that differs from `exact + residual` by `error` at most, or one of the two values
    /// around it if `error` is 0.
    fn settle(&self, exact: f64, residual: f64, error: f64) -> f64 {
        if !exact.is_finite() {
            return exact;
        }
        let random = self.draw();
        // Extreme errors show most.
        let share = match random & 3 {
            0 => -1.0,
            1 => 1.0,
            _ => (random >> 11) as f64 * 2.0_f64.powi(-52) - 1.0,
        };
        let target = if error > 0.0 { exact + share * error } else { exact };
        let nearest = to_f64(self.scalar, from_f64(self.scalar, target));
        let beyond = if target == nearest { residual } else { target - nearest };
        let other = if beyond == 0.0 || beyond.is_nan() { nearest } else { self.neighbor(nearest, beyond > 0.0) };
        let candidates = if random & 4 == 0 { [nearest, other] } else { [other, nearest] };
        let is_allowed = |value: &f64| error == 0.0 || (value - exact).abs() <= error;
        let value = candidates.into_iter().find(is_allowed).unwrap_or(exact);
        let is_denormal = value.abs() < f64::from(self.format().1).exp2();
        if is_denormal && random & 8 == 0 { 0.0_f64.copysign(value) } else { value }
    }

    /// Chooses a value within some ULPs of an exact one. Zeros stay.
    fn ulps(&self, exact: f64, ulps: f64) -> f64 {
        // The exact value of an f64 is only known to about one ULP.
        let ulps = if self.format().0 == 53 { ulps - 1.0 } else { ulps };
        if exact == 0.0 { exact } else { self.settle(exact, 0.0, ulps * self.ulp(exact)) }
    }

    /// Returns the figure of the table's column for the type.
    fn column(&self, single: f64, half: f64) -> f64 {
        if self.format().0 == 11 { half } else { single }
    }

    fn add(&self, a: f64, b: f64) -> f64 {
        let sum = a + b;
        let rounded_b = sum - a;
        self.settle(sum, (a - (sum - rounded_b)) + (b - rounded_b), 0.0)
    }

    fn mul(&self, a: f64, b: f64) -> f64 {
        self.settle(a * b, a.mul_add(b, -(a * b)), 0.0)
    }

    fn div(&self, a: f64, b: f64) -> f64 {
        self.ulps(a / b, 2.5)
    }

    fn inverse_sqrt(&self, a: f64) -> f64 {
        self.ulps(a.sqrt().recip(), 2.0)
    }

    fn sqrt(&self, a: f64) -> f64 {
        self.div(1.0, self.inverse_sqrt(a))
    }

    /// Returns `exact`, a power with exponent `x`.
    fn exponential(&self, exact: f64, x: f64) -> f64 {
        self.ulps(exact, self.column(3.0, 1.0) + 2.0 * x.abs())
    }

    /// Returns `exact`, a logarithm of `x`.
    fn logarithm(&self, exact: f64, x: f64) -> f64 {
        if (0.5..=2.0).contains(&x) {
            // The error must be less than the bound.
            self.settle(exact, 0.0, 0.999 * self.column(f64::from(-21).exp2(), f64::from(-7).exp2()))
        } else {
            self.ulps(exact, 3.0)
        }
    }

    /// Returns `exact`, a sine or cosine. Beyond [-pi, pi], where there is no bound, it errs by no more.
    fn wave(&self, exact: f64) -> f64 {
        self.settle(exact, 0.0, self.column(f64::from(-11).exp2(), f64::from(-7).exp2()))
    }

    fn atan2(&self, y: f64, x: f64) -> f64 {
        self.ulps(y.atan2(x), self.column(4096.0, 5.0))
    }

    fn core(&self, op: Op, from: Scalar, operands: [u64; 4]) -> Option<f64> {
        let [a, b, ..] = operands.map(|operand| to_f64(from, operand));
        let exact = match op {
            Op::FAdd => return Some(self.add(a, b)),
            Op::FSub => return Some(self.add(a, -b)),
            Op::FMul => return Some(self.mul(a, b)),
            Op::FDiv => return Some(self.div(a, b)),
            Op::FRem => return Some(self.add(a, -self.mul(b, self.div(a, b).trunc()))),
            Op::FMod => return Some(self.add(a, -self.mul(b, self.div(a, b).floor()))),
            Op::FConvert => return Some(self.settle(a, 0.0, 0.0)),
            Op::ConvertSToF => {
                let signed = Scalar::Int { bits: from.bytes() * 8, signed: true };
                i128::from(sign_extend(signed, operands[0]))
            }
            Op::ConvertUToF => i128::from(operands[0]),
            _ => return None,
        };
        Some(self.settle(exact as f64, (exact - exact as f64 as i128) as f64, 0.0))
    }

    /// Evaluates the formula from which an instruction inherits its precision.
    fn extended(&self, op: Glsl, [x, y, z, _]: [f64; 4]) -> Option<f64> {
        let constant = |value: f64| to_f64(self.scalar, from_f64(self.scalar, value));
        Some(match op {
            Glsl::Fract => self.add(x, -x.floor()),
            Glsl::Fma if self.draw() & 1 == 0 => self.settle(x.mul_add(y, z), 0.0, 0.0),
            Glsl::Fma => self.add(self.mul(x, y), z),
            Glsl::Exp => self.exponential(x.exp(), x),
            Glsl::Exp2 => self.exponential(x.exp2(), x),
            Glsl::Log => self.logarithm(x.ln(), x),
            Glsl::Log2 => self.logarithm(x.log2(), x),
            Glsl::Pow => {
                let exponent = self.mul(y, self.logarithm(x.log2(), x));
                self.exponential(exponent.exp2(), exponent)
            }
            Glsl::Sqrt => self.sqrt(x),
            Glsl::InverseSqrt => self.inverse_sqrt(x),
            Glsl::Radians => self.mul(x, constant(1.0_f64.to_radians())),
            Glsl::Degrees => self.mul(x, constant(1.0_f64.to_degrees())),
            Glsl::FMix => self.add(self.mul(x, self.add(1.0, -z)), self.mul(y, z)),
            Glsl::SmoothStep => {
                let t = self.div(self.add(z, -x), self.add(y, -x)).clamp(0.0, 1.0);
                self.mul(self.mul(t, t), self.add(3.0, -2.0 * t))
            }
            Glsl::Sin => self.wave(x.sin()),
            Glsl::Cos => self.wave(x.cos()),
            Glsl::Tan => self.div(self.wave(x.sin()), self.wave(x.cos())),
            Glsl::Atan => self.atan2(x, 1.0),
            Glsl::Atan2 => self.atan2(x, y),
            Glsl::Asin => self.atan2(x, self.sqrt(self.add(1.0, -self.mul(x, x)))),
            Glsl::Acos => self.atan2(self.sqrt(self.add(1.0, -self.mul(x, x))), x),
            Glsl::Sinh => 0.5 * self.add(self.exponential(x.exp(), x), -self.exponential((-x).exp(), x)),
            Glsl::Cosh => 0.5 * self.add(self.exponential(x.exp(), x), self.exponential((-x).exp(), x)),
            Glsl::Tanh => {
                let part = |op| self.extended(op, [x, 0.0, 0.0, 0.0]).unwrap_or(f64::NAN);
                self.div(part(Glsl::Sinh), part(Glsl::Cosh))
            }
            Glsl::Asinh | Glsl::Acosh => {
                let one = if op == Glsl::Asinh { 1.0 } else { -1.0 };
                let sum = self.add(x, self.sqrt(self.add(self.mul(x, x), one)));
                self.logarithm(sum.ln(), sum)
            }
            Glsl::Atanh => {
                let quotient = self.div(self.add(1.0, x), self.add(1.0, -x));
                0.5 * self.logarithm(quotient.ln(), quotient)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F16: Scalar = Scalar::Float { bits: 16 };
    const F32: Scalar = Scalar::Float { bits: 32 };
    const F64: Scalar = Scalar::Float { bits: 64 };

    /// Draws many results; all must be within `error` of `exact`, and come close to it on both sides.
    fn check(bound: Option<ErrorBound>, scalar: Scalar, operands: &[f64], exact: f64, error: f64) {
        let bound = bound.expect("has a bound");
        let operands = std::array::from_fn(|index| operands.get(index).map_or(0, |&operand| from_f64(scalar, operand)));
        let draws = (0..2000).map(|seed| bound.perturb(scalar, from_f64(scalar, exact), operands, seed << 20));
        let errors: Vec<f64> = draws.map(|bits| to_f64(scalar, bits) - exact).collect();
        let (least, most) = errors.iter().fold((0.0_f64, 0.0_f64), |(least, most), &e| (least.min(e), most.max(e)));
        assert!(least >= -error && most <= error, "{bound:?}: {least} to {most} exceed {error}");
        assert!(most - least >= error * 0.9, "{bound:?}: {least} to {most} are far from {error}");
    }

    #[test]
    fn results_stay_within_their_bounds_and_use_them() {
        let power = |exponent: i32| f64::from(exponent).exp2();
        let core = |op, scalar, operands: &[f64], exact, error| {
            check(error_bound(op, scalar), scalar, operands, exact, error);
        };
        core(Op::FAdd, F32, &[1.0, 1.0], 2.0, 0.0);
        core(Op::FAdd, F32, &[1.0, power(-30)], 1.0, power(-23));
        core(Op::FAdd, F64, &[1.0, -power(-80)], 1.0, power(-53));
        core(Op::FMul, F64, &[1.0 + power(-30), 1.0 + power(-30)], 1.0 + power(-29), power(-52));
        core(Op::FMul, F32, &[power(-70), power(-70)], power(-140), power(-140));
        core(Op::FDiv, F32, &[1.0, 3.0], 1.0 / 3.0, 2.5 * power(-25));
        core(Op::FDiv, F16, &[1.0, 4.0], 0.25, 2.5 * power(-13));
        core(Op::FMod, F32, &[3.0, 3.0], 0.0, 3.0);
        let extended = |op: Glsl, scalar, operands: &[f64], exact, error| {
            check(extended_error_bound(op as u32, scalar), scalar, operands, exact, error);
        };
        extended(Glsl::Exp, F32, &[2.0], 2.0_f64.exp(), 7.0 * power(-21));
        extended(Glsl::Exp, F16, &[2.0], 2.0_f64.exp(), 5.0 * power(-8));
        extended(Glsl::Log2, F32, &[8.0], 3.0, 3.0 * power(-22));
        extended(Glsl::Log, F32, &[1.0], 0.0, power(-21));
        extended(Glsl::InverseSqrt, F32, &[3.0], 3.0_f64.sqrt().recip(), 2.0 * power(-24));
        extended(Glsl::Sin, F16, &[1.0], 1.0_f64.sin(), power(-7));
        extended(Glsl::Atan, F32, &[1.0], 1.0_f64.atan(), 4096.0 * power(-24));
    }
}
