//! Arithmetic: functions that compute a register from others in all active lanes.

use crate::code::{AtomicOp, Combine, Hazard, Operation};
use crate::kernel::interface::Scalar;
use crate::lanes::Active;
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
    ($($signed:ident $unsigned:ident),*) => { $(
        impl Number for $unsigned {
            fn of(bits: u64) -> Self {
                bits as Self
            }
            fn bits(self) -> u64 {
                self as u64
            }
        }
        impl Number for $signed {
            fn of(bits: u64) -> Self {
                bits as Self
            }
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )* };
}
number!(i8 u8, i16 u16, i32 u32, i64 u64);

impl Number for bool {
    fn of(bits: u64) -> Self {
        bits & 1 == 1
    }
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

/// Floating-point type. Its arithmetic is done in `Wide` and rounded once: f32 is precise enough to round sums,
/// products, quotients and roots of 16-bit floats correctly in spite of the second rounding.
pub(crate) trait Real: Number {
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
            fn of(bits: u64) -> Self {
                Self::from_bits(bits as $word)
            }
            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }
        }
        impl Real for $type {
            type Wide = $wide;
            fn wide(self) -> $wide {
                self.into()
            }
            fn narrow(wide: $wide) -> Self {
                $from_wide(wide)
            }
            fn to_f64(self) -> f64 {
                self.into()
            }
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

/// Rounds to the neighbour with an odd significand, so that rounding to a still narrower type afterwards errs no more
/// than a single rounding would.
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
        match $scalar {
            Scalar::Float { bits: 16 } => {
                type $float = half::f16;
                $body
            }
            Scalar::Float { bits: 32 } => {
                type $float = f32;
                $body
            }
            Scalar::Float { bits: 64 } => {
                type $float = f64;
                $body
            }
            Scalar::Bfloat16 => {
                type $float = half::bf16;
                $body
            }
            _ => None,
        }
    };
}

/// Applies a function in all active lanes. The compiler vectorises the loop over whole registers.
pub(crate) fn map1<A: Number, R: Number>(active: &Active, to: &mut [u64], a: &[u64], f: impl Fn(A) -> R) {
    let f = |a| f(A::of(a)).bits();
    if active.is_all {
        for (to, &a) in to.iter_mut().zip(a) {
            *to = f(a);
        }
    } else {
        for lane in active.list.iter().map(|&lane| usize::from(lane)) {
            to[lane] = f(a[lane]);
        }
    }
}

/// Applies a function of two operands in all active lanes.
pub(crate) fn map2<A: Number, B: Number, R: Number>(
    active: &Active,
    to: &mut [u64],
    a: &[u64],
    b: &[u64],
    f: impl Fn(A, B) -> R,
) {
    let f = |a, b| f(A::of(a), B::of(b)).bits();
    if active.is_all {
        for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
            *to = f(a, b);
        }
    } else {
        for lane in active.list.iter().map(|&lane| usize::from(lane)) {
            to[lane] = f(a[lane], b[lane]);
        }
    }
}

/// Applies a function of three operands in all active lanes.
pub(crate) fn map3<A: Number, B: Number, C: Number, R: Number>(
    active: &Active,
    to: &mut [u64],
    [a, b, c]: [&[u64]; 3],
    f: impl Fn(A, B, C) -> R,
) {
    let f = |a, b, c| f(A::of(a), B::of(b), C::of(c)).bits();
    if active.is_all {
        for (((to, &a), &b), &c) in to.iter_mut().zip(a).zip(b).zip(c) {
            *to = f(a, b, c);
        }
    } else {
        for lane in active.list.iter().map(|&lane| usize::from(lane)) {
            to[lane] = f(a[lane], b[lane], c[lane]);
        }
    }
}

/// Makes an [`Operation`] of a closure on numbers that captures nothing.
macro_rules! one {
    ($f:expr) => {
        crate::code::Operation::One(|active, to, a| crate::alu::map1(active, to, a, $f))
    };
}
macro_rules! two {
    ($f:expr) => {
        crate::code::Operation::Two(|active, to, a, b| crate::alu::map2(active, to, a, b, $f))
    };
}
macro_rules! three {
    ($f:expr) => {
        crate::code::Operation::Three(|active, to, a, b, c| crate::alu::map3(active, to, [a, b, c], $f))
    };
}

/// Makes an [`Operation`] of an expression in the wide type of a float.
macro_rules! wide1 {
    ($float:ident, |$a:ident| $body:expr) => {
        one!(|$a: $float| {
            let $a = $a.wide();
            $float::narrow($body)
        })
    };
}
macro_rules! wide2 {
    ($float:ident, |$a:ident, $b:ident| $body:expr) => {
        two!(|$a: $float, $b: $float| {
            let ($a, $b) = ($a.wide(), $b.wide());
            $float::narrow($body)
        })
    };
}
macro_rules! wide3 {
    ($float:ident, |$a:ident, $b:ident, $c:ident| $body:expr) => {
        three!(|$a: $float, $b: $float, $c: $float| {
            let ($a, $b, $c) = ($a.wide(), $b.wide(), $c.wide());
            $float::narrow($body)
        })
    };
}
pub(crate) use {one, three, two, wide1, wide2, wide3, with_float, with_int};

/// Returns the function of a SPIR-V instruction on scalars; `None` for one that is not arithmetic or has no such types.
/// `from` is the type of the first operand, `to` that of the result.
pub(crate) fn operation(op: Op, from: Scalar, to: Scalar) -> Option<Operation> {
    bitwise(op).or_else(|| convert(op, from, to)).or_else(|| match from {
        Scalar::Int { bits, .. } => integer(op, bits).or_else(|| bit_field(op, bits)),
        _ => float(op, from).or_else(|| compare(op, from)),
    })
}

/// Operations that are the same for all widths, because registers are zero-extended.
fn bitwise(op: Op) -> Option<Operation> {
    Some(match op {
        Op::CopyObject | Op::CopyLogical => one!(|a: u64| a),
        Op::BitwiseAnd | Op::LogicalAnd => two!(|a: u64, b: u64| a & b),
        Op::BitwiseOr | Op::LogicalOr => two!(|a: u64, b: u64| a | b),
        Op::BitwiseXor => two!(|a: u64, b: u64| a ^ b),
        Op::LogicalNot => one!(|a: bool| !a),
        Op::IEqual | Op::LogicalEqual => two!(|a: u64, b: u64| a == b),
        Op::INotEqual | Op::LogicalNotEqual => two!(|a: u64, b: u64| a != b),
        Op::UGreaterThan => two!(|a: u64, b: u64| a > b),
        Op::UGreaterThanEqual => two!(|a: u64, b: u64| a >= b),
        Op::ULessThan => two!(|a: u64, b: u64| a < b),
        Op::ULessThanEqual => two!(|a: u64, b: u64| a <= b),
        Op::BitCount => one!(|a: u64| a.count_ones()),
        _ => return None,
    })
}

/// Integer arithmetic. The instruction says whether operands are signed, not their type. Undefined results are 0.
fn integer(op: Op, bits: u32) -> Option<Operation> {
    with_int!(bits, S, U => Some(match op {
        Op::SNegate => one!(|a: U| a.wrapping_neg()),
        Op::IAdd => two!(|a: U, b: U| a.wrapping_add(b)),
        Op::ISub => two!(|a: U, b: U| a.wrapping_sub(b)),
        Op::IMul => two!(|a: U, b: U| a.wrapping_mul(b)),
        Op::UDiv => two!(|a: U, b: U| a.checked_div(b).unwrap_or(0)),
        Op::SDiv => two!(|a: S, b: S| a.checked_div(b).unwrap_or(0)),
        Op::UMod => two!(|a: U, b: U| a.checked_rem(b).unwrap_or(0)),
        Op::SRem => two!(|a: S, b: S| a.checked_rem(b).unwrap_or(0)),
        Op::SMod => two!(|a: S, b: S| {
            let rest = a.checked_rem(b).unwrap_or(0);
            if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
        }),
        // The width of a shift may differ from that of its base.
        Op::ShiftRightLogical => two!(|a: U, b: u64| if b < u64::from(U::BITS) { a >> b } else { 0 }),
        Op::ShiftRightArithmetic => two!(|a: S, b: u64| if b < u64::from(U::BITS) { a >> b } else { 0 }),
        Op::ShiftLeftLogical => two!(|a: U, b: u64| if b < u64::from(U::BITS) { a << b } else { 0 }),
        Op::Not => one!(|a: U| !a),
        Op::BitReverse => one!(|a: U| a.reverse_bits()),
        Op::SGreaterThan => two!(|a: S, b: S| a > b),
        Op::SGreaterThanEqual => two!(|a: S, b: S| a >= b),
        Op::SLessThan => two!(|a: S, b: S| a < b),
        Op::SLessThanEqual => two!(|a: S, b: S| a <= b),
        _ => return None,
    }))
}

/// Returns a mask of `count` bits; `None` if the field is not within `width` bits.
fn field_mask(width: u32, offset: u64, count: u64) -> Option<u64> {
    (offset.checked_add(count)? <= u64::from(width) && offset < 64).then(|| !u64::MAX.unbounded_shl(count as u32))
}

fn bit_field(op: Op, bits: u32) -> Option<Operation> {
    with_int!(bits, S, U => Some(match op {
        Op::BitFieldInsert => Operation::Four(|active, to, base, insert, offset, count| {
            // Few kernels insert fields: lane by lane is fast enough.
            for lane in active.list.iter().map(|&lane| usize::from(lane)) {
                let (base, offset) = (base[lane], offset[lane]);
                to[lane] = field_mask(U::BITS, offset, count[lane])
                    .map_or(0, |mask| base & !(mask << offset) | (insert[lane] & mask) << offset);
            }
        }),
        Op::BitFieldUExtract => three!(|base: U, offset: u64, count: u64| {
            field_mask(U::BITS, offset, count).map_or(0, |mask| base.bits() >> offset & mask)
        }),
        Op::BitFieldSExtract => three!(|base: U, offset: u64, count: u64| {
            let Some(mask) = field_mask(U::BITS, offset, count) else { return 0 };
            let field = base.bits() >> offset & mask;
            let sign = field & (mask ^ mask >> 1);
            U::of(field | sign.wrapping_neg())
        }),
        _ => return None,
    }))
}

/// Arithmetic and classification of floats.
fn float(op: Op, scalar: Scalar) -> Option<Operation> {
    with_float!(scalar, F => Some(match op {
        Op::FNegate => one!(|a: F| -a),
        Op::FAdd => wide2!(F, |a, b| a + b),
        Op::FSub => wide2!(F, |a, b| a - b),
        Op::FMul => wide2!(F, |a, b| a * b),
        Op::FDiv => wide2!(F, |a, b| a / b),
        Op::FRem => wide2!(F, |a, b| a % b),
        Op::FMod => wide2!(F, |a, b| {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }),
        Op::IsNan => one!(|a: F| a.wide().is_nan()),
        Op::IsInf => one!(|a: F| a.wide().is_infinite()),
        Op::IsFinite => one!(|a: F| a.wide().is_finite()),
        Op::IsNormal => one!(|a: F| a.is_normal()),
        Op::SignBitSet => one!(|a: F| a.is_sign_negative()),
        _ => return None,
    }))
}

/// Comparisons of floats: ordered ones are false, unordered ones true for NaN.
fn compare(op: Op, scalar: Scalar) -> Option<Operation> {
    with_float!(scalar, F => Some(match op {
        Op::Ordered => two!(|a: F, b: F| a.partial_cmp(&b).is_some()),
        Op::Unordered => two!(|a: F, b: F| a.partial_cmp(&b).is_none()),
        Op::FOrdEqual => two!(|a: F, b: F| a.wide() == b.wide()),
        Op::FUnordEqual => two!(|a: F, b: F| !(a.wide() < b.wide() || a.wide() > b.wide())),
        Op::FOrdNotEqual | Op::LessOrGreater => two!(|a: F, b: F| a.wide() < b.wide() || a.wide() > b.wide()),
        Op::FUnordNotEqual => two!(|a: F, b: F| a.wide() != b.wide()),
        Op::FOrdLessThan => two!(|a: F, b: F| a.wide() < b.wide()),
        Op::FUnordLessThan => two!(|a: F, b: F| !(a.wide() >= b.wide())),
        Op::FOrdGreaterThan => two!(|a: F, b: F| a.wide() > b.wide()),
        Op::FUnordGreaterThan => two!(|a: F, b: F| !(a.wide() <= b.wide())),
        Op::FOrdLessThanEqual => two!(|a: F, b: F| a.wide() <= b.wide()),
        Op::FUnordLessThanEqual => two!(|a: F, b: F| !(a.wide() > b.wide())),
        Op::FOrdGreaterThanEqual => two!(|a: F, b: F| a.wide() >= b.wide()),
        Op::FUnordGreaterThanEqual => two!(|a: F, b: F| !(a.wide() < b.wide())),
        _ => return None,
    }))
}

/// Conversions. Floats beyond an integer type become its nearest value, NaN 0.
fn convert(op: Op, from: Scalar, to: Scalar) -> Option<Operation> {
    let (from_bits, to_bits) = (from.bytes() * 8, to.bytes() * 8);
    match op {
        Op::UConvert | Op::ConvertPtrToU | Op::ConvertUToPtr => with_int!(to_bits, S, U => Some(one!(|a: U| a))),
        Op::SConvert => with_int!(from_bits, S, U => with_int!(to_bits, R, V => Some(one!(|a: S| a as R)))),
        Op::Bitcast => (from_bits == to_bits).then(|| one!(|a: u64| a)),
        Op::ConvertFToU => with_float!(from, F => with_int!(to_bits, S, U => Some(one!(|a: F| a.wide() as U)))),
        Op::ConvertFToS => with_float!(from, F => with_int!(to_bits, S, U => Some(one!(|a: F| a.wide() as S)))),
        // f32 holds all integers up to the largest f16, but not those that bf16 rounds.
        Op::ConvertSToF if to == Scalar::Bfloat16 => {
            with_int!(from_bits, S, U => Some(one!(|a: S| bf16::of_f64(a as f64))))
        }
        Op::ConvertUToF if to == Scalar::Bfloat16 => {
            with_int!(from_bits, S, U => Some(one!(|a: U| bf16::of_f64(a as f64))))
        }
        Op::ConvertSToF => with_int!(from_bits, S, U => with_float!(to, F => {
            Some(one!(|a: S| F::narrow(a as <F as Real>::Wide)))
        })),
        Op::ConvertUToF => with_int!(from_bits, S, U => with_float!(to, F => {
            Some(one!(|a: U| F::narrow(a as <F as Real>::Wide)))
        })),
        Op::FConvert => match (from, to) {
            (Scalar::Float { bits: 32 }, Scalar::Float { bits: 16 }) => Some(one!(f16::from_f32)),
            (Scalar::Float { bits: 16 }, Scalar::Float { bits: 32 }) => Some(one!(f16::to_f32)),
            _ => with_float!(from, F => with_float!(to, T => Some(one!(|a: F| T::of_f64(a.to_f64()))))),
        },
        // Values below the least normal f16 become zero.
        Op::QuantizeToF16 => Some(one!(|a: f32| {
            if a.abs() < f16::MIN_POSITIVE.to_f32() { 0.0_f32.copysign(a) } else { f16::from_f32(a).to_f32() }
        })),
        _ => None,
    }
}

/// Returns the function for member `part` of a result with two members: sum and carry, difference and borrow, low and
/// high half of a product.
pub(crate) fn operation_part(op: Op, scalar: Scalar, part: u32) -> Option<Operation> {
    with_int!(scalar.bytes() * 8, S, U => Some(match (op, part) {
        (Op::IAddCarry, 0) => two!(|a: U, b: U| a.wrapping_add(b)),
        (Op::IAddCarry, 1) => two!(|a: U, b: U| a.overflowing_add(b).1),
        (Op::ISubBorrow, 0) => two!(|a: U, b: U| a.wrapping_sub(b)),
        (Op::ISubBorrow, 1) => two!(|a: U, b: U| a < b),
        (Op::UMulExtended | Op::SMulExtended, 0) => two!(|a: U, b: U| a.wrapping_mul(b)),
        (Op::UMulExtended, 1) => two!(|a: U, b: U| (u128::from(a) * u128::from(b) >> U::BITS) as U),
        (Op::SMulExtended, 1) => two!(|a: S, b: S| (i128::from(a) * i128::from(b) >> U::BITS) as S),
        _ => return None,
    }))
}

/// Returns the predicate of operands for which SPIR-V or Vulkan leaves an instruction's result undefined.
pub(crate) fn hazard(op: Op, from: Scalar, to: Scalar) -> Option<Hazard> {
    let bits = from.bytes() * 8;
    let is_hazard: Hazard = match op {
        Op::UDiv | Op::UMod => |_, b| b == 0,
        Op::ShiftRightLogical | Op::ShiftRightArithmetic | Op::ShiftLeftLogical => {
            return with_int!(bits, S, U => Some((|_, b| b >= u64::from(U::BITS)) as Hazard));
        }
        Op::SDiv => return with_int!(bits, S, U => Some((|a, b| S::of(a).checked_div(S::of(b)).is_none()) as Hazard)),
        // "For the OpSRem and OpSMod instructions, if either operand is negative the result is undefined" (Vulkan,
        // "Precision of Individual Operations").
        Op::SRem | Op::SMod => {
            return with_int!(bits, S, U => Some((|a, b| b == 0 || S::of(a) < 0 || S::of(b) < 0) as Hazard));
        }
        Op::ConvertFToU => {
            return with_float!(from, F => with_int!(to.bytes() * 8, S, U => Some((|a, _| {
                let limit = (U::MAX / 2 + 1) as f64 * 2.0;
                !(F::of(a).to_f64() > -1.0 && F::of(a).to_f64() < limit)
            }) as Hazard)));
        }
        Op::ConvertFToS => {
            return with_float!(from, F => with_int!(to.bytes() * 8, S, U => Some((|a, _| {
                let limit = (U::MAX / 2 + 1) as f64;
                !(F::of(a).to_f64().trunc() >= -limit && F::of(a).to_f64() < limit)
            }) as Hazard)));
        }
        _ => return None,
    };
    Some(is_hazard)
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
    let ones = u64::MAX >> (64 - value_bits(scalar));
    match (op, scalar) {
        (Combine::Add | Combine::Or | Combine::Xor, _) => 0,
        (Combine::Mul, _) => from_f64(scalar, 1.0),
        (Combine::And, _) => ones,
        (Combine::Min, Scalar::Int { signed: true, .. }) => ones >> 1,
        (Combine::Max, Scalar::Int { signed: true, .. }) => ones ^ ones >> 1,
        (Combine::Min, Scalar::Int { .. } | Scalar::Bool) => ones,
        (Combine::Max, Scalar::Int { .. } | Scalar::Bool) => 0,
        (Combine::Min, _) => from_f64(scalar, f64::INFINITY),
        (Combine::Max, _) => from_f64(scalar, f64::NEG_INFINITY),
    }
}

/// Returns the value that an atomic writes; `None` if it writes nothing.
pub(crate) fn update(op: AtomicOp, scalar: Scalar, old: u64, value: u64, comparator: u64) -> Option<u64> {
    let operator = match op {
        AtomicOp::Load => return None,
        AtomicOp::Store | AtomicOp::Exchange => return Some(value),
        AtomicOp::CompareExchange => return (old == comparator).then_some(value),
        AtomicOp::Sub => {
            return Some(old.wrapping_sub(value) & (u64::MAX >> (64 - value_bits(scalar))));
        }
        AtomicOp::Add => Combine::Add,
        AtomicOp::Min => Combine::Min,
        AtomicOp::Max => Combine::Max,
        AtomicOp::And => Combine::And,
        AtomicOp::Or => Combine::Or,
        AtomicOp::Xor => Combine::Xor,
    };
    Some(combine(operator, scalar)(old, value))
}

/// Returns the bits of a register that a type uses.
fn value_bits(scalar: Scalar) -> u32 {
    if scalar == Scalar::Bool { 1 } else { (scalar.bytes() * 8).clamp(1, 64) }
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
fn dot(a: u64, b: u64, is_signed: [bool; 2]) -> i64 {
    let byte = |word: u64, index: u32, is_signed: bool| {
        let byte = (word >> (8 * index)) as u8;
        if is_signed { i64::from(byte.cast_signed()) } else { i64::from(byte) }
    };
    (0..4).map(|index| byte(a, index, is_signed[0]) * byte(b, index, is_signed[1])).sum()
}

/// Returns the function of an integer dot product of words with four bytes each, with a result of type `to`. Forms that
/// accumulate add the third operand and saturate.
pub(crate) fn packed_dot(op: Op, to: Scalar) -> Option<Operation> {
    with_int!(to.bytes() * 8, S, U => Some(match op {
        Op::SDot => two!(|a: u64, b: u64| dot(a, b, [true, true]) as S),
        Op::UDot => two!(|a: u64, b: u64| dot(a, b, [false, false]) as U),
        Op::SUDot => two!(|a: u64, b: u64| dot(a, b, [true, false]) as S),
        Op::SDotAccSat => three!(|a: u64, b: u64, c: S| accumulate!(S, dot(a, b, [true, true]), c)),
        Op::UDotAccSat => three!(|a: u64, b: u64, c: U| accumulate!(U, dot(a, b, [false, false]), c)),
        Op::SUDotAccSat => three!(|a: u64, b: u64, c: S| accumulate!(S, dot(a, b, [true, false]), c)),
        _ => return None,
    }))
}
