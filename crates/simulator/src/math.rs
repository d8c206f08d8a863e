//! GLSL.std.450 instructions that work component by component. Functions without a narrower exact way are computed in
//! f64 and rounded once.

// Casts between type aliases lose bits for some widths only.
#![allow(clippy::cast_lossless)]

use crate::alu::{FloatLane, lanes, wide, with_float, with_int};
use crate::code::LaneFunction;
use crate::kernel::interface::Scalar;
use half::f16;
use rspirv::spirv::GlslStd450Op as Glsl;

/// Returns the function of a GLSL.std.450 instruction by its number; `None` if it does not work by components.
/// `scalar` is the type of its first operand. The exponent of `Ldexp` is an i32.
pub(crate) fn extended(number: u32, scalar: Scalar) -> Option<LaneFunction> {
    let op = Glsl::from_u32(number)?;
    match scalar {
        Scalar::Int { bits, .. } => integer(op, bits),
        _ => rounding(op, scalar).or_else(|| selection(op, scalar)).or_else(|| function(op, scalar)),
    }
}

fn integer(op: Glsl, bits: u32) -> Option<LaneFunction> {
    with_int!(bits, S, U => Some(match op {
        Glsl::SAbs => lanes!(One, |a: S| a.wrapping_abs()),
        Glsl::SSign => lanes!(One, |a: S| a.signum()),
        Glsl::UMin => lanes!(Two, |a: U, b: U| a.min(b)),
        Glsl::SMin => lanes!(Two, |a: S, b: S| a.min(b)),
        Glsl::UMax => lanes!(Two, |a: U, b: U| a.max(b)),
        Glsl::SMax => lanes!(Two, |a: S, b: S| a.max(b)),
        Glsl::UClamp => lanes!(Three, |a: U, low: U, high: U| a.max(low).min(high)),
        Glsl::SClamp => lanes!(Three, |a: S, low: S, high: S| a.max(low).min(high)),
        // All ones if no bit is found.
        Glsl::FindILsb => lanes!(One, |a: U| if a == 0 { U::MAX } else { a.trailing_zeros() as U }),
        Glsl::FindUMsb => lanes!(One, |a: U| a.checked_ilog2().map_or(U::MAX, |bit| bit as U)),
        Glsl::FindSMsb => lanes!(One, |a: S| {
            let differing = if a < 0 { !(a as U) } else { a as U };
            differing.checked_ilog2().map_or(U::MAX, |bit| bit as U)
        }),
        _ => return None,
    }))
}

/// Rounding and signs.
fn rounding(op: Glsl, scalar: Scalar) -> Option<LaneFunction> {
    with_float!(scalar, F => Some(match op {
        // Which way `Round` takes a half is the device's choice.
        Glsl::Round | Glsl::RoundEven => wide!(One F, |a| a.round_ties_even()),
        Glsl::Trunc => wide!(One F, |a| a.trunc()),
        Glsl::Floor => wide!(One F, |a| a.floor()),
        Glsl::Ceil => wide!(One F, |a| a.ceil()),
        Glsl::Fract => wide!(One F, |a| a - a.floor()),
        Glsl::FAbs => wide!(One F, |a| a.abs()),
        Glsl::FSign => wide!(One F, |a| if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { a }),
        _ => return None,
    }))
}

/// Minima, interpolation and steps.
fn selection(op: Glsl, scalar: Scalar) -> Option<LaneFunction> {
    with_float!(scalar, F => Some(match op {
        Glsl::FMin | Glsl::NMin => wide!(Two F, |a, b| a.min(b)),
        Glsl::FMax | Glsl::NMax => wide!(Two F, |a, b| a.max(b)),
        Glsl::FClamp | Glsl::NClamp => wide!(Three F, |a, low, high| a.max(low).min(high)),
        Glsl::FMix => wide!(Three F, |x, y, a| x * (1.0 - a) + y * a),
        Glsl::Step => wide!(Two F, |edge, a| if a < edge { 0.0 } else { 1.0 }),
        Glsl::SmoothStep => wide!(Three F, |low, high, a| {
            let t = ((a - low) / (high - low)).clamp(0.0, 1.0);
            t * t * (3.0 - 2.0 * t)
        }),
        // Products and sums of 16-bit floats fit f64 but for bits that cannot change the rounding.
        Glsl::Fma if scalar.bytes() == 2 => {
            lanes!(Three, |a: F, b: F, c: F| F::of_f64(a.to_f64() * b.to_f64() + c.to_f64()))
        }
        Glsl::Fma => wide!(Three F, |a, b, c| a.mul_add(b, c)),
        _ => return None,
    }))
}

/// Roots and transcendental functions.
fn function(op: Glsl, scalar: Scalar) -> Option<LaneFunction> {
    macro_rules! through {
        ($float:ident, $f:expr) => {
            lanes!(One, |a: $float| $float::of_f64($f(a.to_f64())))
        };
    }
    with_float!(scalar, F => Some(match op {
        Glsl::Radians => through!(F, f64::to_radians),
        Glsl::Degrees => through!(F, f64::to_degrees),
        Glsl::Sin => through!(F, f64::sin),
        Glsl::Cos => through!(F, f64::cos),
        Glsl::Tan => through!(F, f64::tan),
        Glsl::Asin => through!(F, f64::asin),
        Glsl::Acos => through!(F, f64::acos),
        Glsl::Atan => through!(F, f64::atan),
        Glsl::Sinh => through!(F, f64::sinh),
        Glsl::Cosh => through!(F, f64::cosh),
        Glsl::Tanh => through!(F, f64::tanh),
        Glsl::Asinh => through!(F, f64::asinh),
        Glsl::Acosh => through!(F, f64::acosh),
        Glsl::Atanh => through!(F, f64::atanh),
        Glsl::Exp => through!(F, f64::exp),
        Glsl::Log => through!(F, f64::ln),
        Glsl::Exp2 => through!(F, f64::exp2),
        Glsl::Log2 => through!(F, f64::log2),
        Glsl::Sqrt => wide!(One F, |a| a.sqrt()),
        Glsl::InverseSqrt => through!(F, |a: f64| a.sqrt().recip()),
        Glsl::Atan2 => lanes!(Two, |a: F, b: F| F::of_f64(a.to_f64().atan2(b.to_f64()))),
        Glsl::Pow => lanes!(Two, |a: F, b: F| F::of_f64(a.to_f64().powf(b.to_f64()))),
        Glsl::Ldexp => lanes!(Two, |a: F, exponent: i32| F::of_f64(scale(a.to_f64(), exponent))),
        _ => return None,
    }))
}

/// Returns `value * 2^exponent`, rounded once.
fn scale(mut value: f64, exponent: i32) -> f64 {
    let power = |exponent: i32| f64::from_bits(((exponent + 1023) as u64) << 52);
    let mut rest = exponent.clamp(-2200, 2200);
    while rest > 1023 {
        value *= power(1023);
        rest -= 1023;
    }
    // Steps on the way down stay clear of denormals, which would round twice.
    while rest < -1022 {
        value *= power(-1022 + 53);
        rest += 1022 - 53;
    }
    value * power(rest)
}

/// Splits a number into a significand in [0.5, 1) and an exponent; zero, infinity and NaN have exponent 0.
fn split(value: f64) -> (f64, i32) {
    if value == 0.0 || !value.is_finite() {
        return (value, 0);
    }
    let (normal, bias) = if value.is_normal() { (value, 0) } else { (scale(value, 54), 54) };
    let exponent = ((normal.to_bits() >> 52) & 0x7ff) as i32 - 1022;
    (scale(normal, -exponent), exponent - bias)
}

/// Returns the function for one part of an instruction with several results or packed components; `None` for others.
/// `scalar` is the type of the operands. Parts are the fraction and the whole number of `Modf`, the significand and the
/// exponent (an i32) of `Frexp`, the only result of `Pack*`, and the components of `Unpack*`.
pub(crate) fn extended_part(number: u32, scalar: Scalar, part: u32) -> Option<LaneFunction> {
    let op = Glsl::from_u32(number)?;
    match op {
        Glsl::Modf | Glsl::ModfStruct => with_float!(scalar, F => match part {
            0 => Some(wide!(One F, |a| if a.is_infinite() { (0.0 as <F as FloatLane>::Wide).copysign(a) } else { a.fract() })),
            1 => Some(wide!(One F, |a| a.trunc())),
            _ => None,
        }),
        Glsl::Frexp | Glsl::FrexpStruct => with_float!(scalar, F => match part {
            0 => Some(lanes!(One, |a: F| F::of_f64(split(a.to_f64()).0))),
            1 => Some(lanes!(One, |a: F| split(a.to_f64()).1)),
            _ => None,
        }),
        _ if part == 0 => pack(op).or_else(|| unpack::<0>(op)),
        _ => match part {
            1 => unpack::<1>(op),
            2 => unpack::<2>(op),
            3 => unpack::<3>(op),
            _ => None,
        },
    }
}

/// Rounds a number in [least, 1] times `scale` to an integer, in the low bits of a word.
fn fixed(value: f32, least: f32, scale: f32) -> i32 {
    (value.max(least).min(1.0) * scale).round_ties_even() as i32
}

fn pack(op: Glsl) -> Option<LaneFunction> {
    Some(match op {
        Glsl::PackSnorm4x8 => lanes!(Four, |a: f32, b: f32, c: f32, d: f32| {
            u32::from_le_bytes([a, b, c, d].map(|component| fixed(component, -1.0, 127.0) as u8))
        }),
        Glsl::PackUnorm4x8 => lanes!(Four, |a: f32, b: f32, c: f32, d: f32| {
            u32::from_le_bytes([a, b, c, d].map(|component| fixed(component, 0.0, 255.0) as u8))
        }),
        Glsl::PackSnorm2x16 => {
            lanes!(Two, |a: f32, b: f32| join(fixed(a, -1.0, 32767.0) as u16, fixed(b, -1.0, 32767.0) as u16))
        }
        Glsl::PackUnorm2x16 => {
            lanes!(Two, |a: f32, b: f32| join(fixed(a, 0.0, 65535.0) as u16, fixed(b, 0.0, 65535.0) as u16))
        }
        Glsl::PackHalf2x16 => {
            lanes!(Two, |a: f32, b: f32| join(f16::from_f32(a).to_bits(), f16::from_f32(b).to_bits()))
        }
        Glsl::PackDouble2x32 => lanes!(Two, |low: u32, high: u32| u64::from(high) << 32 | u64::from(low)),
        _ => return None,
    })
}

/// Joins the halves of a word.
fn join(low: u16, high: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

fn unpack<const PART: u32>(op: Glsl) -> Option<LaneFunction> {
    match op {
        Glsl::UnpackSnorm4x8 => Some(lanes!(One, |a: u32| (f32::from((a >> (8 * PART)) as i8) / 127.0).max(-1.0))),
        Glsl::UnpackUnorm4x8 => Some(lanes!(One, |a: u32| f32::from((a >> (8 * PART)) as u8) / 255.0)),
        _ if PART > 1 => None,
        Glsl::UnpackSnorm2x16 => {
            Some(lanes!(One, |a: u32| (f32::from((a >> (16 * (PART & 1))) as i16) / 32767.0).max(-1.0)))
        }
        Glsl::UnpackUnorm2x16 => Some(lanes!(One, |a: u32| f32::from((a >> (16 * (PART & 1))) as u16) / 65535.0)),
        Glsl::UnpackHalf2x16 => Some(lanes!(One, |a: u32| f16::from_bits((a >> (16 * (PART & 1))) as u16).to_f32())),
        Glsl::UnpackDouble2x32 => Some(lanes!(One, |a: u64| (a >> (32 * (PART & 1))) as u32)),
        _ => None,
    }
}
