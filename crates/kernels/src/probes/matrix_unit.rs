//! Probe of matrix units: products of cooperative matrices of one advertised shape, `MxNxK`, kept in registers.
//!
//! Nominal work: 16,384 sub-groups × 4 accumulators × 1,025 products × 2·M·N·K operations; almost no bytes.
//!
//! For floats, every second product is with −A, so that sums stay exact in the narrowest type and A·B remains; for
//! integers, the result counts the products. Elements are small integers, so the answer is exact in every type.

use super::SIZE_IS_CHECKED;
use crate::case::quantity::Quantity;
use crate::device::capability::MatrixShape;
use crate::elements::{Plain, buffers, input, output};
use crate::error_bound::check_exact;
use crate::prelude::*;
use half::{bf16, f16};
use rand::Rng;

/// Products of cooperative matrices.
pub static MATRIX_UNIT: Algorithm = Algorithm {
    name: Borrowed("matrix-unit"),
    summary: "matrix-unit rate: products of cooperative matrices of one shape MxNxK, kept in registers",
    work: "16384 sub-groups · 4 accumulators · 1025 products · 2·M·N·K operations; almost no bytes",
    default_size: Sweeps::same("16x16x16"),
    verify_size: Sweeps::same("16x16x16,16x8x16,16x8x8,16x8x32,16x16x32"),
    variants: Borrowed(VARIANTS),
    problem: Static(&problem),
    ..Algorithm::PLAIN
};

static VARIANTS: &[Variant] = &[
    variant! { "wide", "32-bit sums: f16 and bf16 into f32, 8-bit integers into 32-bit ones",
        from "GL_KHR_cooperative_matrix; the method is that of fma",
        measures Measures::Limit { of: |size, dtype| limit(size, dtype, Accumulator::Wide), quick: true },
        &["matrix-unit/wide"] => &|shaders, case, device| {
            Program::single(dispatch(shaders[0], case, device, Accumulator::Wide))
        }
    },
    variant! { "narrow", "sums in the operands' type: f16 into f16",
        from "GL_KHR_cooperative_matrix; the method is that of fma",
        measures Measures::Limit { of: |size, dtype| limit(size, dtype, Accumulator::Narrow), quick: true },
        &["matrix-unit/narrow"] => &|shaders, case, device| {
            Program::single(dispatch(shaders[0], case, device, Accumulator::Narrow))
        }
    },
];

/// Returns the limit that a case measures: the rate of matrices of this shape.
fn limit(size: Size, dtype: DType, accumulator: Accumulator) -> Option<Quantity> {
    let Size::Three(m, n, k) = size else { return None };
    Some(Quantity::Matrix { dtype, narrow: accumulator == Accumulator::Narrow, m, n, k })
}

/// Sub-groups in all work-groups together.
const SUBGROUPS: u64 = 1 << 14;
/// Sub-groups per work-group.
const SUBGROUPS_OF_A_GROUP: u64 = 4;
/// Accumulators per sub-group.
const CHAINS: u64 = 4;
/// Pairs of products after the first product.
const STEPS: u32 = 512;
/// Products per accumulator.
const PRODUCTS: u64 = 1 + 2 * STEPS as u64;

/// Builds the dispatch of all sub-groups; each multiplies its matrices over and over.
fn dispatch(shader: &'static Shader, case: &CaseSpec, device: &DeviceInfo, accumulator: Accumulator) -> Dispatch {
    let [m, n, k] = shape(case).expect(SIZE_IS_CHECKED);
    let lanes = case.subgroup_size(device);
    Dispatch::new(shader, &buffers([("A", 0), ("B", 1), ("C", 2)]))
        .group_size([SUBGROUPS_OF_A_GROUP as u32 * lanes, 1, 1])
        .groups([SUBGROUPS / SUBGROUPS_OF_A_GROUP, 1, 1])
        .subgroups_of(lanes)
        .constant("M", m as u32)
        .constant("N", n as u32)
        .constant("K", k as u32)
        .constant("STEPS", STEPS)
        .loops(u64::from(STEPS) + CHAINS * m * n)
        .matrix(MatrixShape {
            m: m as u32,
            n: n as u32,
            k: k as u32,
            input: case.dtype.name(),
            accumulator: accumulator.name(case.dtype),
            workgroup: None,
        })
}

/// Reads M, N and K from the size.
fn shape(case: &CaseSpec) -> Result<[u64; 3], String> {
    match case.size {
        Size::Three(m, n, k) if m.max(n).max(k) <= 256 => Ok([m, n, k]),
        size => Err(format!("'{size}' is no shape MxNxK up to 256; `gpukern devices` names those of a device")),
    }
}

/// Generates `len` small integers, whose products and sums over K ≤ 256 are exact in f16.
fn elements(seed: u64, stream: u64, len: u64) -> Vec<i8> {
    let mut rng = generator(seed, stream);
    (0..len).map(|_| (rng.next_u32() % 3) as i8).collect()
}

/// Converts small integers to an element type.
fn array(dtype: DType, values: impl Iterator<Item = i8>) -> HostArray {
    match dtype {
        DType::I8 => HostArray::I8(values.collect()),
        DType::U8 => HostArray::U8(values.map(i8::cast_unsigned).collect()),
        DType::Bf16 => HostArray::Bf16(values.map(|v| bf16::from_f32(f32::from(v))).collect()),
        _ => HostArray::F16(values.map(|v| f16::from_f32(f32::from(v))).collect()),
    }
}

/// Creates the problem of the end values of the accumulators, which are the same in every sub-group.
fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let [m, n, k] = shape(case)?;
    let dtype = case.dtype;
    let seed = case.seed;
    let integers = matches!(dtype, DType::I8 | DType::U8);
    let wide = if integers { DType::I32 } else { DType::F32 };
    Ok(Box::new(Plain {
        extents: format!("{m}x{n}x{k}"),
        buffers: vec![
            input("A", dtype, 2 * m * k),
            input("B", dtype, CHAINS * k * n),
            output("C", wide, CHAINS * m * n),
        ],
        work: Work { operations: SUBGROUPS * CHAINS * PRODUCTS * 2 * m * n * k, bytes: Bytes(0) },
        chain: None,
        inputs: Box::new(move || {
            let a = elements(seed, 0, m * k);
            let sign = if integers { 1 } else { -1 };
            let with_negated = a.iter().copied().chain(a.iter().map(|value| sign * value));
            vec![array(dtype, with_negated), array(dtype, elements(seed, 1, CHAINS * k * n).into_iter())]
        }),
        oracle: Box::new(move |inputs| oracle(inputs, [m, n, k], if integers { PRODUCTS as f64 } else { 1.0 })),
    }))
}

/// Compares C with the exact values: `times` the product.
fn oracle(inputs: &[HostArray], shape: [u64; 3], times: f64) -> Box<dyn Oracle> {
    let [m, n, k] = shape.map(|extent| extent as usize);
    let expected_element = |index: usize| {
        let chain = index / (m * n);
        let row = index / n % m;
        let column = index % n;
        let terms = (0..k).map(|l| inputs[0].get(row * k + l) * inputs[1].get((chain * k + l) * n + column));
        times * terms.sum::<f64>()
    };
    let expected: Vec<f64> = (0..CHAINS as usize * m * n).map(expected_element).collect();
    Box::new(move |outputs: &[HostArray]| {
        let values = (0..expected.len()).map(|i| outputs[0].get(i));
        Ok(check_exact("C", values, &expected))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_value_of_integers_counts_every_product() {
        let case = CaseSpec::new(&MATRIX_UNIT, Size::Three(16, 8, 32), DType::I8);
        let problem = problem(&case).expect("a sensible shape");
        let inputs = problem.inputs().expect("inputs");
        let element = |index: usize| {
            let chain = index / 128;
            let row = index / 8 % 16;
            let column = index % 8;
            let term = |l| inputs[0].get(row * 32 + l) * inputs[1].get((chain * 32 + l) * 8 + column);
            1025 * (0..32).map(|l| term(l) as i32).sum::<i32>()
        };
        let oracle = problem.oracle(&inputs).expect("an oracle");
        let passes = |c: Vec<i32>| oracle.check(&[HostArray::I32(c)]).expect("an answer").passes();
        assert!(!passes(vec![0; 4 * 16 * 8]));
        assert!(passes((0..4 * 16 * 8).map(element).collect()));
    }

    #[test]
    fn only_shapes_make_sense() {
        for size in [Size::Uniform(16), Size::Two(16, 16), Size::Three(16, 16, 512)] {
            assert!(problem(&CaseSpec::new(&MATRIX_UNIT, size, DType::F16)).is_err(), "{size}");
        }
    }
}
