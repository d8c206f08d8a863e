//! Arithmetic: functions that compute a register from others in all active lanes.

// Casts between type aliases lose bits for some widths only.
#![allow(clippy::cast_lossless)]

use crate::code::{AtomicOp, Combine, Hazard, LaneFunction};
use crate::kernel::interface::Scalar;
use half::{bf16, f16};
use rspirv::spirv::Op;

pub(crate) use crate::math::{extended, extended_part};
pub(crate) use crate::precision::{ErrorBound, error_bound, extended_error_bound};

/// Native type of the values in a register.
pub(crate) trait Number: Copy {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! number {
    ($($type:ident $unsigned:ident),*) => { $(
        impl Number for $type {
            #[inline]
            fn of(bits: u64) -> Self {
                bits as Self
            }
            #[inline]
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )* };
}
number!(i8 u8, u8 u8, i16 u16, u16 u16, i32 u32, u32 u32, i64 u64, u64 u64);

impl Number for bool {
    #[inline]
    fn of(bits: u64) -> Self {
        bits & 1 == 1
    }
    #[inline]
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

/// Floating-point type. Its arithmetic is done in `Wide` and rounded once: f32 is precise enough to round sums,
/// products, quotients and roots of 16-bit floats correctly in spite of the second rounding.
pub(crate) trait FloatLane: Number {
    type Wide;
    fn wide(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    fn to_f64(self) -> f64;
    /// Rounds to nearest even.
    fn of_f64(value: f64) -> Self;
}

macro_rules! real {
    ($type:ident, $word:ident, $wide:ident, $from_wide:expr, $from_f64:expr) => {
        impl Number for $type {
            #[inline]
            fn of(bits: u64) -> Self {
                Self::from_bits(bits as $word)
            }
            #[inline]
            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }
        }
        impl FloatLane for $type {
            type Wide = $wide;
            #[inline]
            fn wide(self) -> $wide {
                self.into()
            }
            #[inline]
            fn narrow(wide: $wide) -> Self {
                $from_wide(wide)
            }
            #[inline]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline]
            fn of_f64(value: f64) -> Self {
                $from_f64(value)
            }
        }
    };
}
real!(f32, u32, f32, std::convert::identity, |value| value as f32);
real!(f64, u64, f64, std::convert::identity, std::convert::identity);
real!(f16, u16, f32, f16::from_f32, |value| f16::from_f32(round_to_odd(value)));
real!(bf16, u16, f32, bf16::from_f32, |value| bf16::from_f32(round_to_odd(value)));

/// Rounds to the neighbor with an odd significand, so that rounding to a still narrower type afterwards errs no more
/// than a single rounding would.
#[inline]
fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || value.is_nan() {
        return near;
    }
    let toward_zero = near.to_bits() - u32::from(f64::from(near).abs() > value.abs());
    f32::from_bits(toward_zero | 1)
}

/// Evaluates an expression with type aliases for the signed and unsigned integers of a width; `None` for other widths.
macro_rules! with_int {
    ($bits:expr, $signed:ident, $unsigned:ident => $body:expr) => {
        with_int!(@ $bits, $signed, $unsigned, $body, 8 i8 u8, 16 i16 u16, 32 i32 u32, 64 i64 u64)
    };
    (@ $bits:expr, $s:ident, $u:ident, $body:expr, $($width:literal $signed:ident $unsigned:ident),*) => {
        match $bits {
            $($width => {
                #[allow(dead_code)]
                type $s = $signed;
                #[allow(dead_code)]
                type $u = $unsigned;
                $body
            })*
            _ => None,
        }
    };
}

/// Evaluates an expression with a type alias for a floating-point type; `None` for other types.
macro_rules! with_float {
    ($scalar:expr, $float:ident => $body:expr) => {
        with_float!(@ $scalar, $float, $body, Scalar::Float { bits: 16 } => half::f16, Scalar::Float { bits: 32 } => f32,
            Scalar::Float { bits: 64 } => f64, Scalar::Bfloat16 => half::bf16)
    };
    (@ $scalar:expr, $float:ident, $body:expr, $($pattern:pat => $type:ty),*) => {
        match $scalar {
            $($pattern => {
                type $float = $type;
                $body
            })*
            _ => None,
        }
    };
}

/// Makes a [`LaneFunction`] of an expression of numbers. The compiler vectorises the loop over whole registers, but not
/// through functions on arrays or iterators: an incremental build does not inline all of those.
macro_rules! lanes {
    ($variant:ident, |$($operand:ident: $type:ty),*| $body:expr) => {
        crate::code::LaneFunction::$variant(|active, to, $($operand),*| {
            let lanes = to.len();
            $(let $operand = &$operand[..lanes];)*
            if active.is_all {
                for lane in 0..lanes {
                    $(let $operand = <$type as crate::alu::Number>::of($operand[lane]);)*
                    to[lane] = crate::alu::Number::bits($body);
                }
            } else {
                for &lane in &active.list {
                    let lane = lane as usize;
                    $(let $operand = <$type as crate::alu::Number>::of($operand[lane]);)*
                    to[lane] = crate::alu::Number::bits($body);
                }
            }
        })
    };
}

/// Makes a [`LaneFunction`] of an expression in the wide type of a float.
macro_rules! wide {
    ($variant:ident $float:ident, |$($operand:ident),*| $body:expr) => {
        lanes!($variant, |$($operand: $float),*| {
            $(let $operand = $operand.wide();)*
            $float::narrow($body)
        })
    };
}
pub(crate) use {lanes, wide, with_float, with_int};

/// Returns the function of a SPIR-V instruction on scalars; `None` for one that is not arithmetic or has no such types.
/// `from` is the type of the first operand, `to` that of the result.
pub(crate) fn operation(op: Op, from: Scalar, to: Scalar) -> Option<LaneFunction> {
    bitwise(op).or_else(|| convert(op, from, to)).or_else(|| match from {
        Scalar::Int { bits, .. } => integer(op, bits).or_else(|| bit_field(op, bits)),
        _ => float(op, from).or_else(|| compare(op, from)),
    })
}

/// Operations that are the same for all widths, because registers are zero-extended.
fn bitwise(op: Op) -> Option<LaneFunction> {
    Some(match op {
        Op::CopyObject | Op::CopyLogical => lanes!(One, |a: u64| a),
        Op::BitwiseAnd | Op::LogicalAnd => lanes!(Two, |a: u64, b: u64| a & b),
        Op::BitwiseOr | Op::LogicalOr => lanes!(Two, |a: u64, b: u64| a | b),
        Op::BitwiseXor => lanes!(Two, |a: u64, b: u64| a ^ b),
        Op::LogicalNot => lanes!(One, |a: bool| !a),
        Op::IEqual | Op::LogicalEqual => lanes!(Two, |a: u64, b: u64| a == b),
        Op::INotEqual | Op::LogicalNotEqual => lanes!(Two, |a: u64, b: u64| a != b),
        Op::UGreaterThan => lanes!(Two, |a: u64, b: u64| a > b),
        Op::UGreaterThanEqual => lanes!(Two, |a: u64, b: u64| a >= b),
        Op::ULessThan => lanes!(Two, |a: u64, b: u64| a < b),
        Op::ULessThanEqual => lanes!(Two, |a: u64, b: u64| a <= b),
        Op::BitCount => lanes!(One, |a: u64| a.count_ones()),
        _ => return None,
    })
}

/// Integer arithmetic. The instruction says whether operands are signed, not their type. Undefined results are 0.
fn integer(op: Op, bits: u32) -> Option<LaneFunction> {
    with_int!(bits, S, U => Some(match op {
        Op::SNegate => lanes!(One, |a: U| a.wrapping_neg()),
        Op::IAdd => lanes!(Two, |a: U, b: U| a.wrapping_add(b)),
        Op::ISub => lanes!(Two, |a: U, b: U| a.wrapping_sub(b)),
        Op::IMul => lanes!(Two, |a: U, b: U| a.wrapping_mul(b)),
        Op::UDiv => lanes!(Two, |a: U, b: U| a.checked_div(b).unwrap_or(0)),
        Op::SDiv => lanes!(Two, |a: S, b: S| a.checked_div(b).unwrap_or(0)),
        Op::UMod => lanes!(Two, |a: U, b: U| a.checked_rem(b).unwrap_or(0)),
        Op::SRem => lanes!(Two, |a: S, b: S| a.checked_rem(b).unwrap_or(0)),
        Op::SMod => lanes!(Two, |a: S, b: S| {
            let rest = a.checked_rem(b).unwrap_or(0);
            if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
        }),
        // The width of a shift may differ from that of its base.
        Op::ShiftRightLogical => lanes!(Two, |a: U, b: u64| if b < u64::from(U::BITS) { a >> b } else { 0 }),
        Op::ShiftRightArithmetic => lanes!(Two, |a: S, b: u64| if b < u64::from(U::BITS) { a >> b } else { 0 }),
        Op::ShiftLeftLogical => lanes!(Two, |a: U, b: u64| if b < u64::from(U::BITS) { a << b } else { 0 }),
        Op::Not => lanes!(One, |a: U| !a),
        Op::BitReverse => lanes!(One, |a: U| a.reverse_bits()),
        Op::SGreaterThan => lanes!(Two, |a: S, b: S| a > b),
        Op::SGreaterThanEqual => lanes!(Two, |a: S, b: S| a >= b),
        Op::SLessThan => lanes!(Two, |a: S, b: S| a < b),
        Op::SLessThanEqual => lanes!(Two, |a: S, b: S| a <= b),
        _ => return None,
    }))
}

/// Returns a mask of `count` bits; `None` if the field is not within `width` bits.
#[inline]
fn field_mask(width: u32, offset: u64, count: u64) -> Option<u64> {
    (offset.checked_add(count)? <= u64::from(width) && offset < 64).then(|| !u64::MAX.unbounded_shl(count as u32))
}

fn bit_field(op: Op, bits: u32) -> Option<LaneFunction> {
    with_int!(bits, S, U => Some(match op {
        Op::BitFieldInsert => lanes!(Four, |base: u64, insert: u64, offset: u64, count: u64| {
            field_mask(U::BITS, offset, count).map_or(0, |mask| base & !(mask << offset) | (insert & mask) << offset)
        }),
        Op::BitFieldUExtract => lanes!(Three, |base: U, offset: u64, count: u64| {
            field_mask(U::BITS, offset, count).map_or(0, |mask| base.bits() >> offset & mask)
        }),
        Op::BitFieldSExtract => lanes!(Three, |base: U, offset: u64, count: u64| {
            field_mask(U::BITS, offset, count).map_or(0, |mask| {
                let field = base.bits() >> offset & mask;
                let sign = field & (mask ^ mask >> 1);
                U::of(field | sign.wrapping_neg())
            })
        }),
        _ => return None,
    }))
}

/// Arithmetic and classification of floats.
fn float(op: Op, scalar: Scalar) -> Option<LaneFunction> {
    with_float!(scalar, F => Some(match op {
        Op::FNegate => lanes!(One, |a: F| -a),
        Op::FAdd => wide!(Two F, |a, b| a + b),
        Op::FSub => wide!(Two F, |a, b| a - b),
        Op::FMul => wide!(Two F, |a, b| a * b),
        Op::FDiv => wide!(Two F, |a, b| a / b),
        Op::FRem => wide!(Two F, |a, b| a % b),
        Op::FMod => wide!(Two F, |a, b| {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }),
        Op::IsNan => lanes!(One, |a: F| a.wide().is_nan()),
        Op::IsInf => lanes!(One, |a: F| a.wide().is_infinite()),
        Op::IsFinite => lanes!(One, |a: F| a.wide().is_finite()),
        Op::IsNormal => lanes!(One, |a: F| a.is_normal()),
        Op::SignBitSet => lanes!(One, |a: F| a.is_sign_negative()),
        _ => return None,
    }))
}

/// Comparisons of floats: ordered ones are false, unordered ones true for NaN, which negation gives.
#[allow(clippy::neg_cmp_op_on_partial_ord)]
fn compare(op: Op, scalar: Scalar) -> Option<LaneFunction> {
    with_float!(scalar, F => Some(match op {
        Op::Ordered => lanes!(Two, |a: F, b: F| a.partial_cmp(&b).is_some()),
        Op::Unordered => lanes!(Two, |a: F, b: F| a.partial_cmp(&b).is_none()),
        Op::FOrdEqual => lanes!(Two, |a: F, b: F| a.wide() == b.wide()),
        Op::FUnordEqual => lanes!(Two, |a: F, b: F| !(a.wide() < b.wide() || a.wide() > b.wide())),
        Op::FOrdNotEqual | Op::LessOrGreater => lanes!(Two, |a: F, b: F| a.wide() < b.wide() || a.wide() > b.wide()),
        Op::FUnordNotEqual => lanes!(Two, |a: F, b: F| a.wide() != b.wide()),
        Op::FOrdLessThan => lanes!(Two, |a: F, b: F| a.wide() < b.wide()),
        Op::FUnordLessThan => lanes!(Two, |a: F, b: F| !(a.wide() >= b.wide())),
        Op::FOrdGreaterThan => lanes!(Two, |a: F, b: F| a.wide() > b.wide()),
        Op::FUnordGreaterThan => lanes!(Two, |a: F, b: F| !(a.wide() <= b.wide())),
        Op::FOrdLessThanEqual => lanes!(Two, |a: F, b: F| a.wide() <= b.wide()),
        Op::FUnordLessThanEqual => lanes!(Two, |a: F, b: F| !(a.wide() > b.wide())),
        Op::FOrdGreaterThanEqual => lanes!(Two, |a: F, b: F| a.wide() >= b.wide()),
        Op::FUnordGreaterThanEqual => lanes!(Two, |a: F, b: F| !(a.wide() < b.wide())),
        _ => return None,
    }))
}

/// Conversions. Floats beyond an integer type become its nearest value, NaN 0.
fn convert(op: Op, from: Scalar, to: Scalar) -> Option<LaneFunction> {
    let (from_bits, to_bits) = (from.bytes() * 8, to.bytes() * 8);
    match op {
        Op::UConvert | Op::ConvertPtrToU | Op::ConvertUToPtr => with_int!(to_bits, S, U => Some(lanes!(One, |a: U| a))),
        Op::SConvert => with_int!(from_bits, S, U => with_int!(to_bits, R, V => Some(lanes!(One, |a: S| a as R)))),
        Op::Bitcast => (from_bits == to_bits).then_some(lanes!(One, |a: u64| a)),
        Op::ConvertFToU => with_float!(from, F => with_int!(to_bits, S, U => Some(lanes!(One, |a: F| a.wide() as U)))),
        Op::ConvertFToS => with_float!(from, F => with_int!(to_bits, S, U => Some(lanes!(One, |a: F| a.wide() as S)))),
        // f32 holds all integers up to the largest f16, but not those that bf16 rounds.
        Op::ConvertSToF if to == Scalar::Bfloat16 => {
            with_int!(from_bits, S, U => Some(lanes!(One, |a: S| bf16::of_f64(a as f64))))
        }
        Op::ConvertUToF if to == Scalar::Bfloat16 => {
            with_int!(from_bits, S, U => Some(lanes!(One, |a: U| bf16::of_f64(a as f64))))
        }
        Op::ConvertSToF => with_int!(from_bits, S, U => with_float!(to, F => {
            Some(lanes!(One, |a: S| F::narrow(a as <F as FloatLane>::Wide)))
        })),
        Op::ConvertUToF => with_int!(from_bits, S, U => with_float!(to, F => {
            Some(lanes!(One, |a: U| F::narrow(a as <F as FloatLane>::Wide)))
        })),
        Op::FConvert => match (from, to) {
            (Scalar::Float { bits: 32 }, Scalar::Float { bits: 16 }) => Some(lanes!(One, |a: f32| f16::from_f32(a))),
            (Scalar::Float { bits: 16 }, Scalar::Float { bits: 32 }) => Some(lanes!(One, |a: f16| a.to_f32())),
            _ => with_float!(from, F => with_float!(to, T => Some(lanes!(One, |a: F| T::of_f64(a.to_f64()))))),
        },
        // Values below the least normal f16 become zero.
        Op::QuantizeToF16 => (from == to && to_bits == 32).then_some(lanes!(One, |a: f32| {
            if a.abs() < f16::MIN_POSITIVE.to_f32() { 0.0_f32.copysign(a) } else { f16::from_f32(a).to_f32() }
        })),
        _ => None,
    }
}

/// Returns the function for member `part` of a result with two members: sum and carry, difference and borrow, low and
/// high half of a product.
pub(crate) fn operation_part(op: Op, scalar: Scalar, part: u32) -> Option<LaneFunction> {
    with_int!(scalar.bytes() * 8, S, U => Some(match (op, part) {
        (Op::IAddCarry, 0) => lanes!(Two, |a: U, b: U| a.wrapping_add(b)),
        (Op::IAddCarry, 1) => lanes!(Two, |a: U, b: U| a.overflowing_add(b).1),
        (Op::ISubBorrow, 0) => lanes!(Two, |a: U, b: U| a.wrapping_sub(b)),
        (Op::ISubBorrow, 1) => lanes!(Two, |a: U, b: U| a < b),
        (Op::UMulExtended | Op::SMulExtended, 0) => lanes!(Two, |a: U, b: U| a.wrapping_mul(b)),
        (Op::UMulExtended, 1) => lanes!(Two, |a: U, b: U| ((u128::from(a) * u128::from(b)) >> U::BITS) as U),
        (Op::SMulExtended, 1) => lanes!(Two, |a: S, b: S| ((i128::from(a) * i128::from(b)) >> U::BITS) as S),
        _ => return None,
    }))
}

/// Returns the predicate of operands for which SPIR-V or Vulkan leaves an instruction's result undefined.
pub(crate) fn hazard(op: Op, from: Scalar, to: Scalar) -> Option<Hazard> {
    let (bits, to_bits) = (from.bytes() * 8, to.bytes() * 8);
    match op {
        Op::UDiv | Op::UMod => Some(|_, b| b == 0),
        Op::ShiftRightLogical | Op::ShiftRightArithmetic | Op::ShiftLeftLogical => {
            with_int!(bits, S, U => Some(|_, b| b >= u64::from(U::BITS)))
        }
        Op::SDiv => with_int!(bits, S, U => Some(|a, b| S::of(a).checked_div(S::of(b)).is_none())),
        // "For the OpSRem and OpSMod instructions, if either operand is negative the result is undefined" (Vulkan,
        // "Precision of Individual Operations").
        Op::SRem | Op::SMod => with_int!(bits, S, U => Some(|a, b| b == 0 || S::of(a) < 0 || S::of(b) < 0)),
        Op::ConvertFToU => with_float!(from, F => with_int!(to_bits, S, U => Some(|a, _| {
            let (value, limit) = (F::of(a).to_f64(), (U::MAX / 2 + 1) as f64 * 2.0);
            !(value > -1.0 && value < limit)
        }))),
        Op::ConvertFToS => with_float!(from, F => with_int!(to_bits, S, U => Some(|a, _| {
            let (value, limit) = (F::of(a).to_f64().trunc(), (U::MAX / 2 + 1) as f64);
            !(value >= -limit && value < limit)
        }))),
        _ => None,
    }
}

/// Returns the operand that decides an operation's result alone, so that the other may be undefined.
pub(crate) fn absorbing(op: Op, from: Scalar) -> Option<u64> {
    match op {
        Op::BitwiseAnd | Op::LogicalAnd | Op::IMul => Some(0),
        Op::BitwiseOr => Some(u64::MAX >> (64 - 8 * from.bytes())),
        Op::LogicalOr => Some(1),
        _ => None,
    }
}

/// Makes a function of register values of a closure on numbers.
macro_rules! binary {
    ($type:ident, |$a:ident, $b:ident| $body:expr) => {
        |$a, $b| {
            let ($a, $b) = ($type::of($a), $type::of($b));
            $body.bits()
        }
    };
}

/// Returns the operator of a reduction. Minima and maxima of floats ignore NaN.
pub(crate) fn combine(op: Combine, scalar: Scalar) -> fn(u64, u64) -> u64 {
    let operator: Option<fn(u64, u64) -> u64> = match (op, scalar) {
        (Combine::And, _) => Some(|a, b| a & b),
        (Combine::Or, _) => Some(|a, b| a | b),
        (Combine::Xor, _) => Some(|a, b| a ^ b),
        (_, Scalar::Int { bits, signed }) => with_int!(bits, S, U => Some(match op {
            Combine::Add => binary!(U, |a, b| a.wrapping_add(b)),
            Combine::Mul => binary!(U, |a, b| a.wrapping_mul(b)),
            Combine::Min if signed => binary!(S, |a, b| a.min(b)),
            Combine::Max if signed => binary!(S, |a, b| a.max(b)),
            Combine::Min => |a, b| a.min(b),
            _ => |a, b| a.max(b),
        })),
        _ => with_float!(scalar, F => Some(match op {
            Combine::Add => binary!(F, |a, b| F::narrow(a.wide() + b.wide())),
            Combine::Mul => binary!(F, |a, b| F::narrow(a.wide() * b.wide())),
            Combine::Min => binary!(F, |a, b| F::narrow(a.wide().min(b.wide()))),
            _ => binary!(F, |a, b| F::narrow(a.wide().max(b.wide()))),
        })),
    };
    operator.unwrap_or(|a, _| a)
}

/// Returns the value that a reduction's operator leaves other values unchanged with.
pub(crate) fn identity(op: Combine, scalar: Scalar) -> u64 {
    let ones = mask(scalar);
    match (op, scalar) {
        (Combine::Mul, _) => from_f64(scalar, 1.0),
        (Combine::Min, Scalar::Int { signed: true, .. }) => ones >> 1,
        (Combine::Max, Scalar::Int { signed: true, .. }) => ones ^ ones >> 1,
        (Combine::Min, Scalar::Float { .. } | Scalar::Bfloat16) => from_f64(scalar, f64::INFINITY),
        (Combine::Max, Scalar::Float { .. } | Scalar::Bfloat16) => from_f64(scalar, f64::NEG_INFINITY),
        (Combine::Min | Combine::And, _) => ones,
        (Combine::Add | Combine::Or | Combine::Xor | Combine::Max, _) => 0,
    }
}

/// Returns the value that an atomic writes; `None` if it writes nothing.
pub(crate) fn update(op: AtomicOp, scalar: Scalar, old: u64, value: u64, comparator: u64) -> Option<u64> {
    let operator = match op {
        AtomicOp::Load => return None,
        AtomicOp::Store | AtomicOp::Exchange => return Some(value),
        AtomicOp::CompareExchange => return (old == comparator).then_some(value),
        AtomicOp::Sub => return Some(old.wrapping_sub(value) & mask(scalar)),
        AtomicOp::Add => Combine::Add,
        AtomicOp::Min => Combine::Min,
        AtomicOp::Max => Combine::Max,
        AtomicOp::And => Combine::And,
        AtomicOp::Or => Combine::Or,
        AtomicOp::Xor => Combine::Xor,
    };
    Some(combine(operator, scalar)(old, value))
}

/// Returns a mask of the bits of a register that a type uses.
fn mask(scalar: Scalar) -> u64 {
    if scalar == Scalar::Bool { 1 } else { u64::MAX >> (64 - (scalar.bytes() * 8).clamp(1, 64)) }
}

/// Extends the low bits of a register by their sign if the type is signed.
pub(crate) fn sign_extend(scalar: Scalar, bits: u64) -> i64 {
    match scalar {
        Scalar::Int { bits: width, signed: true } => {
            let shift = 64_u32.saturating_sub(width).min(63);
            (bits << shift).cast_signed() >> shift
        }
        _ => bits.cast_signed(),
    }
}

/// Returns a register's value as f64, rounded for 64-bit integers.
pub(crate) fn to_f64(scalar: Scalar, bits: u64) -> f64 {
    match scalar {
        Scalar::Int { signed: true, .. } => sign_extend(scalar, bits) as f64,
        Scalar::Int { .. } | Scalar::Bool => bits as f64,
        _ => with_float!(scalar, F => Some(F::of(bits).to_f64())).unwrap_or(0.0),
    }
}

/// Returns the bits of the nearest value of a type, of two the even one. Integers saturate.
pub(crate) fn from_f64(scalar: Scalar, value: f64) -> u64 {
    let whole = value.round_ties_even();
    match scalar {
        Scalar::Bool => Some(u64::from(value != 0.0)),
        Scalar::Int { bits, signed } => with_int!(bits, S, U => {
            Some(if signed { (whole as S).bits() } else { (whole as U).bits() })
        }),
        _ => with_float!(scalar, F => Some(F::of_f64(value).bits())),
    }
    .unwrap_or(0)
}

/// Adds with saturation to the range of a type.
macro_rules! accumulate {
    ($type:ident, $dot:expr, $sum:expr) => {
        (i128::from($dot) + i128::from($sum)).clamp(i128::from($type::MIN), i128::from($type::MAX)) as $type
    };
}

/// Adds the products of the four bytes of two words.
#[inline]
fn dot(a: u64, b: u64, is_signed: [bool; 2]) -> i64 {
    let byte = |word: u64, index: u32, is_signed: bool| {
        let byte = (word >> (8 * index)) as u8;
        if is_signed { i64::from(byte.cast_signed()) } else { i64::from(byte) }
    };
    (0..4).map(|index| byte(a, index, is_signed[0]) * byte(b, index, is_signed[1])).sum()
}

/// Returns the function of an integer dot product of words with four bytes each, with a result of type `to`. Forms that
/// accumulate add the third operand and saturate.
pub(crate) fn packed_dot(op: Op, to: Scalar) -> Option<LaneFunction> {
    with_int!(to.bytes() * 8, S, U => Some(match op {
        Op::SDot => lanes!(Two, |a: u64, b: u64| dot(a, b, [true, true]) as S),
        Op::UDot => lanes!(Two, |a: u64, b: u64| dot(a, b, [false, false]) as U),
        Op::SUDot => lanes!(Two, |a: u64, b: u64| dot(a, b, [true, false]) as S),
        Op::SDotAccSat => lanes!(Three, |a: u64, b: u64, c: S| accumulate!(S, dot(a, b, [true, true]), c)),
        Op::UDotAccSat => lanes!(Three, |a: u64, b: u64, c: U| accumulate!(U, dot(a, b, [false, false]), c)),
        Op::SUDotAccSat => lanes!(Three, |a: u64, b: u64, c: S| accumulate!(S, dot(a, b, [true, false]), c)),
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{Active, LaneSet};
    use rspirv::spirv::GlslStd450Op as Glsl;

    const I8: Scalar = Scalar::Int { bits: 8, signed: true };
    const U8: Scalar = Scalar::Int { bits: 8, signed: false };
    const I32: Scalar = Scalar::Int { bits: 32, signed: true };
    const U32: Scalar = Scalar::Int { bits: 32, signed: false };
    const U64: Scalar = Scalar::Int { bits: 64, signed: false };
    const F16: Scalar = Scalar::Float { bits: 16 };
    const F32: Scalar = Scalar::Float { bits: 32 };
    const F64: Scalar = Scalar::Float { bits: 64 };
    const BF16: Scalar = Scalar::Bfloat16;
    const BOOL: Scalar = Scalar::Bool;
    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;

    fn compute(operation: LaneFunction, active: &Active, from: &[Vec<u64>; 4]) -> Vec<u64> {
        let [a, b, c, d] = from;
        let mut to = vec![u64::MAX; a.len()];
        match operation {
            LaneFunction::One(f) => f(active, &mut to, a),
            LaneFunction::Two(f) => f(active, &mut to, a, b),
            LaneFunction::Three(f) => f(active, &mut to, a, b, c),
            LaneFunction::Four(f) => f(active, &mut to, a, b, c, d),
        }
        to
    }

    /// Computes one lane of three, with the others active and inactive.
    fn evaluate(operation: LaneFunction, operands: &[u64]) -> u64 {
        let from = std::array::from_fn(|index| vec![operands.get(index).copied().unwrap_or(0); 3]);
        let mut one = LaneSet::EMPTY;
        one.insert(1);
        let all = compute(operation, &Active { set: LaneSet::first(3), list: vec![0, 1, 2], is_all: true }, &from);
        let some = compute(operation, &Active { set: one, list: vec![1], is_all: false }, &from);
        assert_eq!(some, [u64::MAX, all[0], u64::MAX]);
        all[1]
    }

    fn check(name: &str, operation: Option<LaneFunction>, from: Scalar, to: Scalar, operands: &[f64], expected: f64) {
        let bits: Vec<u64> = operands.iter().map(|&operand| from_f64(from, operand)).collect();
        let result = evaluate(operation.unwrap_or_else(|| panic!("no {name} of {from:?}")), &bits);
        let value = to_f64(to, result);
        assert!(value == expected || value.is_nan() && expected.is_nan(), "{name} of {from:?} {operands:?}: {value}");
    }

    #[test]
    fn core_instructions_give_known_values() {
        let tiny = f64::from(-40).exp2();
        macro_rules! cases {
            ($($op:ident $from:ident $to:ident [$($operand:expr),*] = $expected:expr;)*) => {
                $(check(stringify!($op), operation(Op::$op, $from, $to), $from, $to, &[$($operand),*], $expected);)*
            };
        }
        cases! {
            SNegate I8 I8 [-128.0] = -128.0;  IAdd U8 U8 [255.0, 2.0] = 1.0;  IMul I32 I32 [-3.0, 5.0] = -15.0;
            SDiv I8 I8 [-7.0, 2.0] = -3.0;  SDiv I32 I32 [-2_147_483_648.0, -1.0] = 0.0;
            UMod U32 U32 [7.0, 0.0] = 0.0;  SRem I32 I32 [-7.0, 3.0] = -1.0;  SMod I32 I32 [-7.0, 3.0] = 2.0;
            SMod I32 I32 [7.0, -3.0] = -2.0;  ShiftRightArithmetic I8 I8 [-16.0, 2.0] = -4.0;
            ShiftLeftLogical U8 U8 [255.0, 4.0] = 240.0;  ShiftLeftLogical U64 U64 [1.0, 64.0] = 0.0;
            Not U8 U8 [1.0] = 254.0;  BitReverse U8 U8 [3.0] = 192.0;
            BitFieldInsert U32 U32 [255.0, 2.0, 4.0, 3.0] = 175.0;
            BitFieldUExtract U32 U32 [240.0, 4.0, 3.0] = 7.0;
            BitFieldSExtract I32 I32 [240.0, 4.0, 3.0] = -1.0;
            BitFieldSExtract I32 I32 [-5.0, 0.0, 32.0] = -5.0;  SLessThan I8 BOOL [-1.0, 1.0] = 1.0;
            LogicalNot BOOL BOOL [1.0] = 0.0;  FAdd F32 F32 [16_777_216.0, 1.0] = 16_777_216.0;
            FAdd F16 F16 [2048.0, 3.0] = 2052.0;  FRem F32 F32 [-5.5, 2.0] = -1.5;
            FMod F32 F32 [-5.5, 2.0] = 0.5;  FOrdNotEqual F32 BOOL [NAN, 1.0] = 0.0;
            FUnordLessThan F16 BOOL [NAN, 1.0] = 1.0;  FUnordLessThan F64 BOOL [1.0, 1.0] = 0.0;
            ConvertFToU F32 U8 [-0.5] = 0.0;  ConvertFToS F32 I8 [-1.9] = -1.0;
            ConvertSToF I8 F32 [-3.0] = -3.0;  ConvertUToF U32 F32 [16_777_217.0] = 16_777_216.0;
            ConvertUToF U32 F16 [65_519.0] = 65_504.0;  SConvert I8 I32 [-2.0] = -2.0;
            UConvert U32 U8 [257.0] = 1.0;  FConvert F64 F16 [1.0 + 1.0 / 2048.0 + tiny] = 1.0 + 1.0 / 1024.0;
            FConvert F32 BF16 [1.0 + 1.0 / 256.0] = 1.0;  FConvert F64 F32 [1e300] = INF;
            QuantizeToF16 F32 F32 [1e-6] = 0.0;
        }
    }

    #[test]
    fn extended_instructions_give_known_values() {
        macro_rules! cases {
            ($($op:ident $($part:literal)?: $from:ident $to:ident [$($operand:expr),*] = $expected:expr;)*) => { $(
                let operation = [$(extended_part(Glsl::$op as u32, $from, $part),)? extended(Glsl::$op as u32, $from)];
                check(stringify!($op), operation[0], $from, $to, &[$($operand),*], $expected);
            )* };
        }
        cases! {
            RoundEven: F32 F32 [2.5] = 2.0;  Fract: F32 F32 [-0.25] = 0.75;  FSign: F16 F16 [-3.0] = -1.0;
            SAbs: I8 I8 [-5.0] = 5.0;  SClamp: I8 I8 [-5.0, -2.0, 3.0] = -2.0;  NMin: F32 F32 [NAN, 1.0] = 1.0;
            FMix: F32 F32 [1.0, 3.0, 0.25] = 1.5;  Step: F32 F32 [1.0, 1.0] = 1.0;
            SmoothStep: F32 F32 [0.0, 2.0, 1.0] = 0.5;  Fma: F16 F16 [3.0, 5.0, 1.0] = 16.0;
            Exp2: F16 F16 [-3.0] = 0.125;  Pow: F32 F32 [2.0, 10.0] = 1024.0;
            InverseSqrt: F64 F64 [16.0] = 0.25;  Sin: F32 F32 [1.0] = f64::from(0.841_470_96_f32);
            FindILsb: U32 I32 [40.0] = 3.0;  FindUMsb: U32 I32 [0.0] = -1.0;  FindSMsb: I8 I8 [-3.0] = 1.0;
            Modf 0: F32 F32 [-2.75] = -0.75;  ModfStruct 1: F32 F32 [-2.75] = -2.0;
            FrexpStruct 0: F64 F64 [-5e-324] = -0.5;  FrexpStruct 1: F32 I32 [6.0] = 3.0;
            PackUnorm4x8 0: F32 U32 [1.0, 0.0, 2.0, -1.0] = 16_711_935.0;
            PackSnorm2x16 0: F32 U32 [-1.0, 0.0] = 32_769.0;  PackHalf2x16 0: F32 U32 [1.0, 0.0] = 15_360.0;
            UnpackSnorm4x8 3: U32 F32 [2_147_483_648.0] = -1.0;
            UnpackDouble2x32 1: U64 U32 [4_294_967_296.0] = 1.0;
        }
        let ldexp = extended(Glsl::Ldexp as u32, F32).expect("scales");
        assert_eq!(evaluate(ldexp, &[from_f64(F32, 1.5), u64::from(-149_i32 as u32)]), 2);
    }

    #[test]
    fn integers_and_reductions_give_known_values() {
        let word = u64::from(u32::from_le_bytes([255, 1, 2, 128]));
        for (op, to, expected) in [(Op::SDot, I32, 16_390), (Op::UDot, U32, 81_414), (Op::SUDot, I8, 6)] {
            assert_eq!(evaluate(packed_dot(op, to).expect("multiplies"), &[word, word]), expected, "{op:?}");
        }
        let saturating = packed_dot(Op::SDotAccSat, I32).expect("multiplies");
        assert_eq!(evaluate(saturating, &[word, word, 0x7fff_ffff]), 0x7fff_ffff);
        let high = |op| operation_part(op, U32, 1).expect("has two parts");
        assert_eq!(evaluate(high(Op::IAddCarry), &[0xffff_ffff, 1]), 1);
        assert_eq!(evaluate(high(Op::SMulExtended), &[0xffff_ffff, 1]), 0xffff_ffff);
        assert_eq!(update(AtomicOp::CompareExchange, U32, 1, 2, 3), None);
        assert_eq!(update(AtomicOp::Max, I8, 0xff, 1, 0), Some(1));
        assert_eq!(update(AtomicOp::Sub, U32, 0, 1, 0), Some(0xffff_ffff));
        for op in [Combine::Add, Combine::Mul, Combine::Min, Combine::Max, Combine::And, Combine::Or, Combine::Xor] {
            for scalar in [I8, U8, I32, U32, U64, F16, F32, F64, BF16] {
                let one = from_f64(scalar, 1.0);
                assert_eq!(combine(op, scalar)(identity(op, scalar) & mask(scalar), one), one, "{op:?} of {scalar:?}");
            }
        }
    }

    #[test]
    fn hazards_are_operands_without_a_result() {
        macro_rules! cases {
            ($($op:ident $from:ident $to:ident [$a:expr, $b:expr] = $expected:expr;)*) => { $(
                let is_hazard = hazard(Op::$op, $from, $to).expect("has hazards");
                assert_eq!(is_hazard(from_f64($from, $a), from_f64($from, $b)), $expected, stringify!($op $from $a, $b));
            )* };
        }
        cases! {
            ShiftLeftLogical U8 U8 [1.0, 8.0] = true;  ShiftLeftLogical U32 U32 [1.0, 31.0] = false;
            UDiv U32 U32 [1.0, 0.0] = true;  SDiv I8 I8 [-128.0, -1.0] = true;
            SDiv I8 I8 [-127.0, -1.0] = false;  SRem I32 I32 [-1.0, 3.0] = true;
            ConvertFToU F32 U8 [-0.5, 0.0] = false;  ConvertFToU F32 U8 [256.0, 0.0] = true;
            ConvertFToS F64 I32 [-2_147_483_648.9, 0.0] = false;
            ConvertFToS F32 I32 [2_147_483_648.0, 0.0] = true;  ConvertFToS F16 I8 [NAN, 0.0] = true;
        }
    }

    /// Bits that are special in some type, in all pairs.
    fn awkward(scalar: Scalar) -> [Vec<u64>; 4] {
        let top = mask(scalar) ^ mask(scalar) >> 1;
        let special = [0.0, 1.0, -1.0, INF, -INF, NAN, 1e-40, 3e-6, 0.3, 1e30].map(|value| from_f64(scalar, value));
        let values: Vec<u64> = special.into_iter().chain([1, top - 1, top, top + 1, mask(scalar)]).collect();
        let pairs = values.len() * values.len();
        [1, values.len(), values.len() + 1, 7]
            .map(|step| (0..pairs).map(|pair| values[pair / step % values.len()] & mask(scalar)).collect())
    }

    #[test]
    fn no_operation_panics_or_leaves_its_width() {
        let integers = [8, 16, 32, 64].map(|bits| [true, false].map(|signed| Scalar::Int { bits, signed })).concat();
        let scalars = [&integers[..], &[BOOL, F16, F32, F64, BF16]].concat();
        for &from in &scalars {
            let operands = awkward(from);
            let lanes = operands[0].len();
            let active = Active { set: LaneSet::first(lanes), list: (0..lanes as u16).collect(), is_all: true };
            let check = |name: String, operation: Option<LaneFunction>, to: Scalar, bound: Option<ErrorBound>| {
                let Some(operation) = operation else { return };
                for (lane, bits) in compute(operation, &active, &operands).into_iter().enumerate() {
                    assert!(bits <= mask(to), "{name} of {from:?} to {to:?}: {bits:#x}");
                    let operands = std::array::from_fn(|index| operands[index][lane]);
                    bound.map(|bound| bound.perturb(to, bits, operands, lane as u64));
                }
            };
            for op in (0..6000).filter_map(Op::from_u32) {
                for &to in scalars.iter().filter(|&&to| to == from || to != BOOL && convert(op, from, to).is_some()) {
                    check(format!("{op:?}"), operation(op, from, to), to, error_bound(op, from));
                    if let Some(hazard) = hazard(op, from, to) {
                        operands[0].iter().zip(&operands[1]).for_each(|(&a, &b)| _ = hazard(a, b));
                    }
                }
                check(format!("{op:?}"), packed_dot(op, from).filter(|_| from != BOOL), from, None);
            }
            for op in 0..100 {
                check(format!("extended {op}"), extended(op, from), from, extended_error_bound(op, from));
                (0..4).for_each(|part| check(format!("extended {op}"), extended_part(op, from, part), U64, None));
            }
        }
    }
}
