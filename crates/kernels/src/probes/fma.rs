//! Probe of arithmetic rate: sequences x ← x·a + b, 16 per invocation, 2048 steps each.
//!
//! Nominal work: n·16·2048·2 operations for n invocations, because a multiply-add counts as two; almost no bytes. In i8
//! a step is a dot product of four bytes and an addition: x is a word of four bytes, and a step counts as 8 operations.
//!
//! Values converge slowly to a fixed point, so they never become denormal, never overflow, and a compiler, which does
//! not know a and b, cannot shorten the computation. Rounding: a step adds at most 2u·|x| ≤ 2u (u without fused
//! multiply-adds), and a = 1 − 2⁻¹⁰ shrinks earlier errors, so a sequence ends within 2u·2¹⁰ of the exact value, and
//! the sum of 16 within 16·(2¹¹ + 16)·u. In f16, a is −1 and every value a multiple of 2⁻¹⁰, so results are exact, as
//! are integers modulo 2³².

use super::{GROUP, SIZE_IS_CHECKED, power_of_two};
use crate::case::quantity::Quantity;
use crate::elements::arguments;
use crate::elements::{Plain, doubles, input, output};
use crate::error_bound::{Expected, elementwise};
use crate::prelude::*;
use crate::shaders::find;
use half::f16;
use rand::Rng;

/// Chains of multiply-adds.
pub static FMA: Algorithm = Algorithm {
    name: Borrowed("fma"),
    summary: "arithmetic rate: n invocations run 16 sequences of 2048 multiply-adds each",
    work: "n·16·2048·2 operations, four times as many in i8; almost no bytes",
    default_size: Sweeps { gpu: "2^23", cpu: "2^12" },
    verify_size: Sweeps::same("64,256,4096"),
    variants: Borrowed(VARIANTS),
    problem: Static(&problem),
    ..Algorithm::PLAIN
};

/// Declares a variant that interleaves `$chains` sequences in one form of the kernel.
macro_rules! chains {
    ($name:literal, $chains:literal of $kernel:literal, quick: $quick:literal, $summary:literal) => {
        variant! { $name, $summary,
            from "the method of every peak-rate benchmark",
            measures Measures::Limit { of: |_, dtype| Some(Quantity::Arithmetic { dtype }), quick: $quick },
            &[$kernel] => &|shaders, case, device| {
                Program::single(dispatch(shaders[0], case, device, $chains, STEPS))
            }
        }
    };
}

static VARIANTS: &[Variant] = &[
    chains!("chains-16", 16 of "fma/chains", quick: true,
        "16 sequences at a time, in vectors of two: enough independent work to hide the latency of the unit"),
    chains!("chains-8", 8 of "fma/chains", quick: true,
        "8 sequences at a time: fewer registers, more invocations side by side"),
    chains!("chains-4", 4 of "fma/chains", quick: false,
        "4 sequences at a time: shows how much the unit depends on independent work"),
    chains!("chains-16-scalar", 16 of "fma/chains-scalar", quick: false, "16 sequences at a time, each a scalar"),
    chains!("chains-16-vec4", 16 of "fma/chains-vec4", quick: false,
        "16 sequences at a time, in vectors of four"),
    chains!("chains-8-vec4", 8 of "fma/chains-vec4", quick: false,
        "8 sequences at a time, in vectors of four"),
    chains!("dots-16", 16 of "fma/dots", quick: true, "dot products of four bytes, 16 sequences at a time"),
    chains!("dots-8", 8 of "fma/dots", quick: false, "dot products of four bytes, 8 sequences at a time"),
];

/// Sequences per invocation.
const SEQUENCES: usize = 16;
/// Steps per sequence.
pub const STEPS: u32 = 2048;
/// Number of start values; invocations take theirs from this set.
const STARTS: usize = 64;

/// Returns the steps per iteration of the kernel's loop. On a GPU an iteration of f16 has an overhead of 7 steps
/// (H100), so it gets many; a CPU's compiler would take too long.
fn unroll(dtype: DType, device: &DeviceInfo) -> u32 {
    match dtype {
        DType::F16 if device.kind != DeviceKind::Cpu => 256,
        DType::I8 if device.kind != DeviceKind::Cpu => 64,
        _ => 16,
    }
}

/// Builds a program of `steps` steps with 4 sequences at a time, for timing only: the oracle supports only [`STEPS`].
/// `None` if the device cannot run it.
pub fn with_steps(case: &CaseSpec, device: &DeviceInfo, steps: u32) -> Option<Program> {
    let shader = find("fma/chains", case.dtype)?;
    let program = Program::single(dispatch(shader, case, device, 4, steps));
    program.unsupported(device).is_none().then_some(program)
}

/// Builds a dispatch of sequences of `steps` steps, of which an invocation interleaves `chains`.
fn dispatch(shader: &'static Shader, case: &CaseSpec, device: &DeviceInfo, chains: u32, steps: u32) -> Dispatch {
    let n = invocations(case).expect(SIZE_IS_CHECKED);
    let group = n.min(GROUP);
    let passes = SEQUENCES as u64 / u64::from(chains);
    let unroll = unroll(case.dtype, device);
    let [a, b] = coefficients(case.dtype).map(|value| bits(case.dtype, value));
    let low_word = |bits: u64| bits & u64::from(u32::MAX);
    let words = [("A", low_word(a)), ("A_HIGH", a >> 32), ("B", low_word(b)), ("B_HIGH", b >> 32)];
    Dispatch::new(shader, &arguments(&[("X", BufferId(0)), ("Y", BufferId(1))], &words))
        .group_size([group as u32, 1, 1])
        .groups([n / group, 1, 1])
        .constant("CHAINS", chains)
        .constant("STEPS", steps)
        .constant("UNROLL", unroll)
        .loops(passes * (1 + u64::from(steps / unroll)))
}

/// Reads the number of invocations from the size.
fn invocations(case: &CaseSpec) -> Result<u64, String> {
    match case.size {
        Size::Uniform(n) => power_of_two("invocations", n, STARTS as u64),
        size => Err(format!("'{size}' is not one number, the invocations; write 2^20")),
    }
}

/// Creates the problem of the sums of the final values of each invocation's sequences.
fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let invocations = invocations(case)?;
    let dtype = case.dtype;
    let seed = case.seed;
    // In i8, a sequence consists of words of four bytes.
    let dtype_of_starts = if dtype == DType::I8 { DType::I32 } else { dtype };
    let dtype_of_sums = if dtype == DType::F16 { DType::F32 } else { dtype_of_starts };
    let operations_per_step = if dtype == DType::I8 { 8 } else { 2 };
    Ok(Box::new(Plain {
        extents: invocations.to_string(),
        buffers: vec![input("X", dtype_of_starts, STARTS as u64), output("Y", dtype_of_sums, invocations)],
        work: Work {
            operations: invocations * SEQUENCES as u64 * u64::from(STEPS) * operations_per_step,
            bytes: Bytes(0),
        },
        chain: None,
        inputs: Box::new(move || vec![starts(dtype, seed)]),
        oracle: Box::new(move |inputs| oracle(dtype, &inputs[0])),
    }))
}

/// Returns factor a and summand b of a step.
fn coefficients(dtype: DType) -> [f64; 2] {
    match dtype {
        DType::F16 => [-1.0, 1.0],
        // Numerical Recipes' quick generator: modulo 2³² a sequence returns to its start only after 2³² steps.
        DType::I32 => [1_664_525.0, 1_013_904_223.0],
        // Odd bytes, and a summand that makes all four bytes of x matter.
        DType::I8 => [f64::from(0x5DB3_6F4B), f64::from(0x1E35_A7BD)],
        _ => [1.0 - 2f64.powi(-10), 2f64.powi(-11)],
    }
}

/// Returns the bits of `value`, which each type represents exactly; an f16 appears twice, side by side.
fn bits(dtype: DType, value: f64) -> u64 {
    match dtype {
        DType::F64 => value.to_bits(),
        DType::F16 => u64::from(f16::from_f64(value).to_bits()) * 0x1_0001,
        DType::I32 | DType::I8 => value as u64,
        _ => u64::from((value as f32).to_bits()),
    }
}

/// Generates the start values.
fn starts(dtype: DType, seed: u64) -> HostArray {
    let mut rng = generator(seed, 0);
    let draws = std::iter::repeat_with(|| rng.next_u32()).take(STARTS);
    // A multiple of 2⁻¹⁰ below 1.
    let fraction = |word: u32| f64::from(word % 1024) / 1024.0;
    match dtype {
        DType::F64 => HostArray::F64(draws.map(fraction).collect()),
        DType::F16 => HostArray::F16(draws.map(|word| f16::from_f64(fraction(word))).collect()),
        DType::I32 | DType::I8 => HostArray::I32(draws.map(|word| word as i32).collect()),
        _ => HostArray::F32(draws.map(|word| fraction(word) as f32).collect()),
    }
}

/// Returns the expected sums of invocations, by invocation number modulo [`STARTS`].
fn sums(dtype: DType, x: &HostArray) -> Vec<f64> {
    let [a, b] = coefficients(dtype);
    if let HostArray::I32(x) = x {
        let end = |start: i32| (0..STEPS).fold(start, |v, _| step(dtype, v, a as i32, b as i32));
        let ends: Vec<i32> = x.iter().map(|start| end(*start)).collect();
        return (0..STARTS).map(|first| f64::from(window(&ends, first).fold(0i32, i32::wrapping_add))).collect();
    }
    let end = |start: f64| (0..STEPS).fold(start, |v, _| v.mul_add(a, b));
    let ends: Vec<f64> = doubles(x).into_iter().map(end).collect();
    (0..STARTS).map(|first| window(&ends, first).sum()).collect()
}

/// Computes one step of an integer sequence.
fn step(dtype: DType, x: i32, a: i32, b: i32) -> i32 {
    if dtype != DType::I8 {
        return x.wrapping_mul(a).wrapping_add(b);
    }
    let bytes = |word: i32| word.to_le_bytes().map(|byte| i32::from(byte.cast_signed()));
    bytes(x).into_iter().zip(bytes(a)).map(|(x, a)| x * a).sum::<i32>().wrapping_add(b)
}

/// Iterates over the values of an invocation's sequences: consecutive start values from `first` on, cyclically.
fn window<T: Copy>(values: &[T], first: usize) -> impl Iterator<Item = T> {
    (0..SEQUENCES).map(move |offset| values[(first + offset) % STARTS])
}

/// Creates the oracle for the sums of sequences that start at `x`.
fn oracle(dtype: DType, x: &HostArray) -> Box<dyn Oracle> {
    let sums = sums(dtype, x);
    let u = match dtype {
        DType::F32 => 2f64.powi(-24),
        // Twice the roundoff, because the host's error is as large.
        DType::F64 => 2f64.powi(-52),
        _ => 0.0,
    };
    let tolerance = SEQUENCES as f64 * (2048.0 + SEQUENCES as f64) * u;
    elementwise("Y", tolerance, move |i| Expected::absolute(sums[i % STARTS]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(dtype: DType) -> Box<dyn Problem> {
        super::problem(&CaseSpec::new(&FMA, Size::Uniform(64), dtype)).expect("a sensible size")
    }

    /// Returns the outputs of a correct f32 kernel that rounds after every operation.
    fn right(x: &[f32]) -> Vec<f32> {
        let [a, b] = coefficients(DType::F32).map(|value| value as f32);
        let ends: Vec<f32> = x.iter().map(|start| (0..STEPS).fold(*start, |v, _| v * a + b)).collect();
        (0..64).map(|i| window(&ends, i).sum()).collect()
    }

    #[test]
    fn sequences_without_fused_operations_pass_and_a_missing_tenth_of_the_steps_does_not() {
        let problem = problem(DType::F32);
        let inputs = problem.inputs().expect("inputs");
        let HostArray::F32(x) = &inputs[0] else { panic!("f32 was asked for") };
        let oracle = problem.oracle(&inputs).expect("an oracle");
        let check = |y: Vec<f32>| oracle.check(&[HostArray::F32(y)]).expect("an answer");
        let right_check = check(right(x));
        assert!(right_check.passes() && right_check.residual > 0.0, "{right_check:?}");
        let mut short = right(x);
        let [a, b] = coefficients(DType::F32).map(|value| value as f32);
        short[5] = window(x, 5).map(|start| (0..1843).fold(start, |v, _| v * a + b)).sum();
        assert!(!check(short).passes());
        let mut nan = right(x);
        nan[63] = f32::NAN;
        assert!(!check(nan).passes());
    }

    #[test]
    fn half_precision_and_integers_must_be_exact() {
        for dtype in [DType::F16, DType::I32, DType::I8] {
            let problem = problem(dtype);
            let inputs = problem.inputs().expect("inputs");
            let oracle = problem.oracle(&inputs).expect("an oracle");
            // Sums of the sequences' ends, each too large by `error`.
            let output = |error: f64| {
                if let HostArray::I32(x) = &inputs[0] {
                    let [a, b] = coefficients(dtype).map(|value| value as i32);
                    let ends: Vec<i32> = x.iter().map(|s| (0..STEPS).fold(*s, |v, _| step(dtype, v, a, b))).collect();
                    let sum = |i| window(&ends, i).fold(error as i32, i32::wrapping_add);
                    return HostArray::I32((0..64).map(sum).collect());
                }
                // f16 sequences have an even number of steps, which cancel in pairs: they end where they start.
                let starts = doubles(&inputs[0]);
                HostArray::F32((0..64).map(|i| (window(&starts, i).sum::<f64>() + error) as f32).collect())
            };
            assert!(oracle.check(&[output(0.0)]).expect("an answer").passes(), "{dtype}");
            assert!(!oracle.check(&[output(1.0)]).expect("an answer").passes(), "{dtype}");
        }
    }

    #[test]
    fn dot_products_of_bytes_go_on_changing_to_the_last_step() {
        // (−1)·1 + 2·2 + 127·(−1) + (−128)·1 + 7
        let [x, a] = [[255, 2, 127, 128], [1, 2, 255, 1]].map(i32::from_le_bytes);
        assert_eq!(step(DType::I8, x, a, 7), -245);
        let [a, b] = coefficients(DType::I8).map(|value| value as i32);
        let HostArray::I32(starts) = starts(DType::I8, 1) else { panic!("words") };
        let end = |steps: u32| starts.iter().map(move |x| (0..steps).fold(*x, |v, _| step(DType::I8, v, a, b)));
        // The sums reveal a left-out step, as long as sequences neither coincide nor stop changing.
        assert!(end(STEPS).zip(end(STEPS - 1)).all(|(x, y)| x != y), "a sequence has stopped changing");
        let distinct: std::collections::BTreeSet<i32> = end(STEPS).collect();
        assert!(distinct.len() > 8, "{} distinct", distinct.len());
    }
}
