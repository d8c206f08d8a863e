//! Problem and oracle of A·x = b, with the factorization's A and b uniform in [−1, 1), in f32, or in f64 for refined
//! solutions.
//!
//! The residual is HPL's, ‖A·x − b‖∞ / (u·(‖A‖∞·‖x‖∞ + ‖b‖∞)·n) with the unit roundoff u of the element type, 2⁻²⁴ or
//! 2⁻⁵³; x is accepted below 16 (<https://www.netlib.org/benchmark/hpl/algorithm.html>). It judges the solution, not
//! the kernel: a correct elimination without pivoting may give a bad one, which is then rejected. Metrics: the normwise
//! backward error ‖A·x − b‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞) (Rigal and Gaches), the smallest relative change of A and b for which
//! x is exact; the growth factor of the factors; and the number of refinements.

use super::factors::{self, BUFFERS, L, check_pivots, order};
use crate::case::input::random;
use crate::elements::{Plain, doubles, input, output};
use crate::error_bound::Worst;
use crate::kernel::buffer::Role;
use crate::matrix;
use crate::prelude::*;

/// Largest residual of an accepted solution.
const MAX_RESIDUAL: f64 = 16.0;

/// Right-hand side, behind the factorization's buffers.
pub(super) const B: BufferId = BufferId(BUFFERS);
/// Solution.
pub(super) const X: BufferId = BufferId(BUFFERS + 1);
/// Number of buffers including these two.
pub(super) const SYSTEM: usize = BUFFERS + 2;

/// Matrix of the f64 problem, which no program changes.
pub(super) const A64: BufferId = BufferId(0);
/// Right-hand side of the f64 problem.
pub(super) const B64: BufferId = BufferId(1);
/// Solution of the f64 problem.
pub(super) const X64: BufferId = BufferId(2);
/// Status word of the f32 factorization.
pub(super) const STATUS64: BufferId = BufferId(3);
/// Outcome of the refinement: [`CONVERGED`], for example.
pub(super) const ENDED: BufferId = BufferId(4);
/// Number of refinement steps.
pub(super) const STEPS: BufferId = BufferId(5);
/// Number of buffers of the f64 problem.
pub(super) const SYSTEM_64: usize = 6;

/// Returns the normwise backward error to reach: 10⁻¹², or that of HPL's residual 4 if it is smaller.
pub(super) fn target(n: u64) -> f64 {
    f64::min(1e-12, 4.0 * n as f64 * DType::F64.accumulator_roundoff())
}

/// Outcome of a refinement, as `lu-refine.glsl` numbers it: the error is not yet small enough.
const UNFINISHED: i32 = 0;
/// Outcome: the error is at most [`target`].
pub const CONVERGED: i32 = 1;
/// Outcome: a step did not halve the error.
const STAGNATED: i32 = 2;
/// Outcome: the solution is not finite.
const OVERFLOWED: i32 = 3;

/// Creates the problem of solving a system of equations.
pub(super) fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let n = order(case.size)?;
    let case = *case;
    let dtype = case.dtype;
    Ok(Box::new(Plain {
        extents: format!("{n}x{n}"),
        buffers: buffers(n, dtype),
        work: Work {
            operations: (2 * n * n).saturating_mul(n) / 3 + 2 * n * n,
            bytes: Bytes((n * n + 2 * n) * dtype.bytes()),
        },
        chain: None,
        inputs: Box::new(move || {
            let mut inputs = match dtype {
                DType::F64 => vec![HostArray::F64(matrix::for_refinement(case.input, n as usize, case.seed))],
                _ => factors::inputs(n, case.input, case.seed),
            };
            inputs.push(random(dtype, Input::Signed, n as usize, &mut generator(case.seed, 1)));
            inputs
        }),
        oracle: Box::new(move |inputs| {
            let [a, .., b] = inputs else { unreachable!("A comes first and b last") };
            Box::new(Residual { n: n as usize, a: a.clone(), b: b.clone() })
        }),
    }))
}

/// Describes the buffers of a system of equations in f32 or f64.
fn buffers(n: u64, dtype: DType) -> Vec<BufferSpec> {
    let b = input("b", dtype, n);
    let x = output("x", dtype, n);
    if dtype == DType::F64 {
        let word = |name| output(name, DType::I32, 1);
        return vec![input("A", dtype, n * n), b, x, word("status"), word("ended"), word("steps")];
    }
    let mut buffers = factors::buffers(n);
    debug_assert_eq!(buffers.len(), BUFFERS);
    // Nothing reads L.
    buffers[L.0].role = Role::Scratch;
    buffers.extend([b, x]);
    buffers
}

/// Oracle: HPL's residual of a solution.
struct Residual {
    n: usize,
    a: HostArray,
    b: HostArray,
}

/// Norms from which the residual of a solution is computed.
#[derive(Default)]
struct Norms {
    /// ‖A·x − b‖∞
    r: f64,
    /// ‖A‖∞
    a: f64,
    /// ‖x‖∞
    x: f64,
    /// ‖b‖∞
    b: f64,
    /// Largest magnitude of an element of A.
    largest_a: f64,
    /// Row in which A·x differs most from b.
    row: usize,
    /// A·x in that row.
    product: f64,
}

impl Norms {
    /// Returns the normwise backward error.
    fn backward_error(&self) -> f64 {
        // Zero also for the exact solution of 0·x = 0.
        if self.r == 0.0 { 0.0 } else { self.r / (self.a * self.x + self.b) }
    }
}

impl Residual {
    /// Computes the norms for a solution x; all are zero if it is not finite.
    fn norms(&self, x: &[f64]) -> Norms {
        if x.iter().any(|x| !x.is_finite()) {
            return Norms::default();
        }
        let mut norms = Norms { x: x.iter().fold(0.0, |most, x| most.max(x.abs())), ..Norms::default() };
        let mut row = vec![0.0; self.n];
        for i in 0..self.n {
            self.a.read(i * self.n, &mut row);
            let mut product = 0.0;
            let mut sum = 0.0;
            for (a, x) in row.iter().zip(x) {
                product += a * x;
                sum += a.abs();
                norms.largest_a = norms.largest_a.max(a.abs());
            }
            let b = self.b.get(i);
            let r = (product - b).abs();
            // Overflow counts as an infinite residual.
            let r = if r.is_nan() { f64::INFINITY } else { r };
            if r > norms.r {
                (norms.r, norms.row, norms.product) = (r, i, product);
            }
            norms.a = norms.a.max(sum);
            norms.b = norms.b.max(b.abs());
        }
        norms
    }

    /// Judges the solution x by its residual, given its norms.
    fn judge(&self, x: &[f64], norms: &Norms, dtype: DType) -> CheckResult {
        let mut worst = Worst::default();
        if let Some(index) = x.iter().position(|x| !x.is_finite()) {
            worst.record(f64::INFINITY, || format!("x[{index}] is {}", x[index]));
            return worst.check(MAX_RESIDUAL);
        }
        let residual = norms.backward_error() / (dtype.accumulator_roundoff() * self.n as f64);
        let residual = if residual.is_finite() { residual } else { f64::INFINITY };
        worst.record(residual, || {
            let Norms { row, product, .. } = norms;
            let b = self.b.get(*row);
            format!(
                "(A·x)[{row}] is {product:.5e}, b[{row}] is {b:.5e}: HPL's scaled residual is {residual:.3e}, 16 passes"
            )
        });
        let mut check = worst.check(MAX_RESIDUAL);
        check.metrics.push(Metric::new("backward error", norms.backward_error()));
        check
    }
}

impl Oracle for Residual {
    /// Compares only status and solution; the factors may be anything.
    fn comparison(&self, output: usize) -> Option<OutputComparison> {
        let is_compared = match self.b {
            HostArray::F64(_) => output < 3,
            _ => matches!(output, 2 | 4),
        };
        is_compared.then(OutputComparison::default)
    }

    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String> {
        match outputs {
            // A, U, status, rows and x.
            [HostArray::F32(_), u, HostArray::I32(status), _, x] => {
                check_pivots(status[0])?;
                let x = doubles(x);
                let norms = self.norms(&x);
                let mut check = self.judge(&x, &norms, DType::F32);
                let largest_u = (0..u.len()).map(|index| u.get(index).abs()).fold(0.0, f64::max);
                let growth = largest_u / norms.largest_a;
                check.metrics.push(Metric::new("growth", growth));
                if !check.passes() && growth.is_finite() {
                    check.worst = format!("{}; elimination let elements grow by {growth:.1e}", check.worst);
                }
                Ok(check)
            }
            [x, HostArray::I32(status), HostArray::I32(ended), HostArray::I32(steps)] => {
                check_pivots(status[0])?;
                let x = doubles(x);
                let mut check = self.judge(&x, &self.norms(&x), DType::F64);
                check_convergence(ended[0], steps[0], &check, target(self.n as u64))?;
                check.metrics.push(Metric::new("refinements", f64::from(steps[0])));
                Ok(check)
            }
            _ => Err("the outputs are not those of a system of equations".into()),
        }
    }
}

/// Checks that a refinement has converged; the error says why not.
fn check_convergence(ended: i32, steps: i32, check: &CheckResult, target: f64) -> Result<(), String> {
    let error = check.metrics.iter().find_map(|metric| metric.value).unwrap_or(f64::INFINITY);
    let reached = format!("backward error {error:.1e}, wanted {target:.1e}");
    match ended {
        CONVERGED => Ok(()),
        UNFINISHED => Err(format!("refinement not converged after {steps} steps: {reached}")),
        STAGNATED => Err(format!(
            "refinement stagnated at step {steps}, which did not halve the error: {reached}; \
             the factors in f32 are too far from A"
        )),
        OVERFLOWED => Err(format!("refinement overflowed at step {steps}: the factors in f32 give no finite solution")),
        _ => Err(format!("refinement ended for no known reason ({ended})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Goal;
    use crate::lu::LU;
    use crate::lu::factors::NO_BAD_PIVOT;

    fn system(n: u64, dtype: DType) -> Box<dyn Problem> {
        let case = CaseSpec::new(&LU, Size::Uniform(n), dtype).with(|options| options.goal = Goal::Solution);
        problem(&case).expect("a sensible size")
    }

    /// Solves a system by an independent factorization in f64.
    fn solution(n: usize, a: &HostArray, b: &HostArray) -> Vec<f64> {
        use faer::linalg::solvers::Solve;
        let lu = faer::Mat::from_fn(n, n, |row, column| a.get(row * n + column)).partial_piv_lu();
        let x = lu.solve(faer::Mat::from_fn(n, 1, |row, _| b.get(row)));
        (0..n).map(|row| x[(row, 0)]).collect()
    }

    fn word(word: i32) -> HostArray {
        HostArray::I32(vec![word])
    }

    fn outputs_64(x: Vec<f64>, ended: i32, steps: i32) -> Vec<HostArray> {
        vec![HostArray::F64(x), word(NO_BAD_PIVOT), word(ended), word(steps)]
    }

    fn outputs_32(a: &HostArray, u: HostArray, x: &[f64]) -> Vec<HostArray> {
        let x = HostArray::F32(x.iter().map(|x| *x as f32).collect());
        vec![a.clone(), u, word(NO_BAD_PIVOT), word(0), x]
    }

    #[test]
    fn the_work_is_hpls() {
        assert_eq!(system(1024, DType::F32).work().operations, 2 * (1 << 30) / 3 + 2 * (1 << 20));
        assert_eq!(system(1024, DType::F64).work().bytes, Bytes(8 * ((1 << 20) + (2 << 10))));
    }

    #[test]
    fn a_right_solution_passes_and_one_wrong_element_does_not() {
        let n = 100;
        for dtype in [DType::F32, DType::F64] {
            let system = system(n, dtype);
            let inputs = system.inputs().expect("inputs");
            let a = &inputs[0];
            let oracle = system.oracle(&inputs).expect("an oracle");
            let check = |x: Vec<f64>| {
                let outputs =
                    if dtype == DType::F32 { outputs_32(a, a.clone(), &x) } else { outputs_64(x, CONVERGED, 3) };
                oracle.check(&outputs).expect("an answer")
            };
            let x = solution(n as usize, a, inputs.last().expect("b"));
            let right = check(x.clone());
            assert!(right.passes() && right.residual > 0.0 && right.residual < 1.0, "{right:?}");
            let mut wrong = x;
            // In f32, a residual of 16 accepts errors of a hundredth.
            wrong[7] *= 1.5;
            let wrong = check(wrong);
            assert!(!wrong.passes() && wrong.worst.contains("HPL's scaled residual is"), "{wrong:?}");
        }
    }

    #[test]
    fn the_residual_is_hpls_and_the_backward_error_rigals() {
        let n = 2;
        let a = HostArray::F64(vec![1.0, 2.0, 3.0, -4.0]);
        let oracle = Residual { n, a, b: HostArray::F64(vec![5.0, 0.5]) };
        // A·x = (3, −1): off by 2 and 1.5; ‖A‖ = 7, ‖x‖ = 1, ‖b‖ = 5.
        let outputs = outputs_64(vec![1.0, 1.0], CONVERGED, 0);
        let check = oracle.check(&outputs).expect("an answer");
        assert_eq!(check.metric("backward error"), Some(2.0 / 12.0));
        assert_eq!(check.residual, 2.0 / 12.0 / 2.0 * 2f64.powi(53));
        assert!(check.worst.starts_with("(A·x)[0] is 3.00000e0, b[0] is 5.00000e0"), "{}", check.worst);
        assert_eq!(check.metric("refinements"), Some(0.0));
    }

    #[test]
    fn what_is_no_number_is_rejected_and_growth_is_named() {
        let a = HostArray::F32(vec![2.0]);
        let oracle = Residual { n: 1, a: a.clone(), b: HostArray::F32(vec![1.0]) };
        let check = |u, x| oracle.check(&outputs_32(&a, HostArray::F32(vec![u]), &[x])).expect("an answer");
        let nan = check(2.0, f64::NAN);
        assert!(!nan.passes() && nan.worst.starts_with("x[0] is NaN"), "{nan:?}");
        let grown = check(2e6, 1.0);
        assert!(!grown.passes() && grown.worst.ends_with("grow by 1.0e6"), "{grown:?}");
        assert!(check(2.0, 0.5).passes());
    }

    #[test]
    fn a_refinement_that_does_not_converge_says_why() {
        let oracle = Residual { n: 1, a: HostArray::F64(vec![2.0]), b: HostArray::F64(vec![1.0]) };
        for (ended, expected) in [
            (UNFINISHED, "refinement not converged after 7 steps: backward error"),
            (STAGNATED, "refinement stagnated at step 7, which did not halve the error: backward error"),
            (OVERFLOWED, "refinement overflowed at step 7"),
        ] {
            let error = oracle.check(&outputs_64(vec![0.25], ended, 7)).expect_err("no answer");
            assert!(error.starts_with(expected), "{error}");
        }
        let mut outputs = outputs_64(vec![0.5], CONVERGED, 1);
        outputs[1] = word(6);
        assert_eq!(oracle.check(&outputs), Err("zero pivot at column 3".into()));
    }
}
