//! The similarity transform: M₀ = A; s = the row sums of M; λ = max s; v\[i\] ← v\[i\]·s\[i\]/λ; unless the row sums agree,
//! M ← D⁻¹·M·D with D = diag(s). All M are similar to A, and min s ≤ λ(A) ≤ max s.
//!
//! A program may leave part of the transform undone: it returns a matrix M and a vector d, and the row sums are those
//! of diag(d)⁻¹·M·diag(d). `pipeline` writes the matrix, so its d is ones; `fused` never does, so its M is A.
//!
//! The check, with k rounds, u the unit roundoff of f32, `γ_m` = m·u/(1 − m·u), and s\[i\] = (M·d)\[i\]/d\[i\] in f64,
//! ranging from `low` to `high`. Sums, products and quotients of positive numbers keep relative errors, so every bound
//! is relative (Higham, lemma 3.1); m is n, or n + 6 if d is not ones, for one more product and quotient:
//!
//! 1. The eigenvalue. diag(d)⁻¹·M·diag(d) is D⁻¹·(A + E)·D with |E| ≤ `γ_7k`·A, one reciprocal and two products a round, so
//!    λ(A) is in \[low, high\] up to `γ_7k`, and the λ returned is `high` up to `γ_m`: it differs from the λ(A) of an f64
//!    power iteration by at most (high − low) + high·(`γ_m` + `γ_7k`). This holds for both stop rules. For `bracket`,
//!    high − low is at most about eps·λ; for `neighbor` the rule itself promises no more than ⌊n/2⌋·eps, so what was
//!    reached is used.
//! 2. The λ returned is `high` up to `γ_m`.
//! 3. The stop rule holds for s, up to `γ_m` a sum.
//! 4. The vector. v is D·s up to one division and one product a round, so (A·v)ᵢ/vᵢ lies in \[low, high\] as well
//!    (Collatz–Wielandt bounds nest under power iteration), up to `γ_(2m + 33k + 12)`.
//!
//! The residual is the largest of these errors as a share of its bound; the tolerance is 1.

use super::common::{
    AWKWARD_MATRICES, D, DIVISION, LAMBDA, M, MATRIX_SIZES, ONE, ROUNDS, S, STOP, U, V, float_atomics_note, gamma,
    has_float_atomics,
};
use super::components::{NEXT_MATRIX_ROUNDINGS, eigenvector_step, row_sum_steps, vector_max_steps};
use super::{fused, power, stop_check};
use crate::basis::error::Error;
use crate::case::input::random;
use crate::case::{StopRule, StopTest};
use crate::elements::{
    GROUP, buffers, doubles, in_place, matrix_order, output, over_matrix, over_vector, reals, scratch,
};
use crate::error_bound::Worst;
use crate::host;
use crate::kernel::program::Rounds;
use crate::matrix;
use crate::prelude::*;

/// Dominant eigenvalue and eigenvector.
pub static EIGEN: Algorithm = Algorithm {
    name: Borrowed("eigen"),
    summary: "dominant eigenvalue and eigenvector of a positive matrix by similarity transform",
    work: "3·n² operations, per round; the number of rounds depends on the data; A read once, v and λ written \
           once",
    default_size: MATRIX_SIZES,
    verify_size: AWKWARD_MATRICES,
    iterative: true,
    inputs: &[Input::Hilbert, Input::Uniform, Input::Slow, Input::Example, Input::Signed],
    variants: Borrowed(&[
        variant! { "pipeline", "the post's final kernels in a loop: the host checks the stop flag after each round",
        from "the similarity post, the whole pipeline",
        &["row-sum/local", "row-sum/local-cas", "vector-max/local", "eigenvector/broadcast", "stop-check/local",
            "eigen/bracket-check", "eigen/next-matrix"] => &program },
        variant! { "fused", "power iteration: one dispatch per round reads A once, and the device decides when to stop",
        from "ours; Collatz and Wielandt bound the eigenvalue",
        &["eigen/fused", "eigen/fused-texel", "eigen/fused-small"] => &fused::program },
    ]),
    baseline: Some(&host::TRANSFORM),
    problem: Static(&|case| Ok(Box::new(Eigen::new(case)?))),
    ..Algorithm::PLAIN
};

/// Builds the program of `pipeline`.
fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let [sum_native, sum_cas, max, vector, neighbor, bracket, next] = shaders else {
        unreachable!("the registry names seven kernels")
    };
    let sum = if has_float_atomics(device) { sum_native } else { sum_cas };
    let eps = case.stop_rule().eps as f32;
    let mut body = vec![];
    body.extend(row_sum_steps(sum, M, S, case, device));
    body.extend(vector_max_steps(max, S, LAMBDA, case, device));
    body.push(Step::Dispatch(eigenvector_step(vector, S, LAMBDA, V, case, device)));
    match case.stop_rule().test {
        StopTest::Neighbour => {
            body.extend(stop_check::steps(neighbor, BufferId(S), BufferId(STOP), eps, case, device));
        }
        StopTest::Bracket => {
            let buffers = buffers([("s", S), ("maximum", LAMBDA), ("stop", STOP)]);
            let arguments = [&buffers[..], &[("eps", ArgumentValue::F32(eps))]].concat();
            body.push(Step::Fill { buffer: BufferId(STOP), word: 1 });
            body.push(Step::Dispatch(over_vector(bracket, &arguments, case, device)));
        }
    }
    let arguments = buffers([("M", M), ("s", S), ("stop", STOP), ("rounds", ROUNDS)]);
    body.push(Step::Dispatch(over_matrix(next, &arguments, case, device)));
    Program {
        steps: vec![
            Step::Fill { buffer: BufferId(V), word: ONE },
            Step::Fill { buffer: BufferId(ROUNDS), word: 0 },
            // The whole transform is in the matrix.
            Step::Fill { buffer: BufferId(D), word: ONE },
        ],
        // Rounds are updates of the matrix; the last pass, which finds equal row sums, makes no update.
        rounds: Some(Rounds { body, stop: BufferId(STOP), bound: case.stop_rule().max_rounds.saturating_add(1) }),
        note: float_atomics_note(device),
        ..Program::default()
    }
}

/// Problem of finding the eigenvalue and eigenvector of a case's matrix of order n.
struct Eigen {
    n: u64,
    case: CaseSpec,
}

impl Eigen {
    /// Checks that the case has a positive matrix and a stop rule that f32 can follow.
    fn new(case: &CaseSpec) -> Result<Self, String> {
        let n = matrix_order(case)?;
        let StopRule { test, eps, .. } = case.stop_rule();
        if test == StopTest::Bracket && eps >= 1.0 {
            return Err(format!(
                "eps {eps} would let every matrix stop at once; choose one below 1 for --stop bracket"
            ));
        }
        if !(eps as f32 > 0.0 && (eps as f32).is_finite()) {
            return Err(format!("eps {eps} is out of the range of f32"));
        }
        if case.input == Input::Example && n != 3 {
            return Err("the example is a 3×3 matrix; write --size 3".into());
        }
        // Only this kind can have elements that are not positive.
        if case.input == Input::Signed {
            check_positive(n, case.seed)?;
        }
        Ok(Self { n, case: *case })
    }

    /// Returns the approximate size of the largest row sum, for a warning.
    fn scale(&self) -> f64 {
        match self.case.input {
            // The dominant eigenvalue of every Hilbert matrix is below π.
            Input::Hilbert => std::f64::consts::PI,
            // Its eigenvalue, (7 + √65)/2.
            Input::Example => 7.53,
            _ => self.n as f64 / 2.0,
        }
    }
}

/// Refuses `--input signed` unless all elements of its n×n matrix are positive; the error names the first that is not.
/// About half of the elements are negative, so this generates a row at a time, and of a large matrix only the first.
fn check_positive(n: u64, seed: u64) -> Result<(), String> {
    let mut rng = generator(seed, 0);
    for row in 0..n {
        let values = random(DType::F32, Input::Signed, n as usize, &mut rng);
        for column in 0..values.len() {
            let value = values.get(column);
            if value <= 0.0 {
                return Err(format!(
                    "a positive matrix is needed, but element ({row},{column}) of input 'signed' is {value}; \
                     choose another --input"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the relative difference between equal row sums due to rounding alone: u·√(8 + n/256), one standard deviation
/// of a sum taken pairwise within work-groups of 256 and sequentially beyond (Higham & Mary 2019), and at least the
/// spacing of f32.
fn resolution(n: u64) -> f64 {
    (U * (8.0 + n as f64 / f64::from(GROUP)).sqrt()).max(2.0 * U)
}

/// Returns the warning that eps is below the resolution of f32, if it is; `scale` is the size of the row sums.
fn below_resolution(n: u64, stop: &StopRule, scale: f64) -> Option<String> {
    let floor = match stop.test {
        StopTest::Neighbour => resolution(n) * scale,
        StopTest::Bracket => resolution(n),
    };
    if stop.eps >= floor {
        return None;
    }
    Some(format!("eps {:e} is below the {floor:.1e} to which f32 resolves the row sums at n = {n}", stop.eps))
}

impl Problem for Eigen {
    fn extents(&self) -> String {
        self.n.to_string()
    }

    fn buffers(&self) -> Vec<BufferSpec> {
        vec![
            in_place("M", DType::F32, self.n * self.n),
            output("v", DType::F32, self.n),
            output("lambda", DType::F32, 1),
            output("stop", DType::I32, 1),
            output("rounds", DType::I32, 1),
            output("d", DType::F32, self.n),
            scratch("s", DType::F32, self.n),
        ]
    }

    fn work(&self) -> Work {
        Work { operations: 3 * self.n * self.n, bytes: Bytes(4 * (self.n * self.n + self.n + 1)) }
    }

    fn inputs(&self) -> Result<Vec<HostArray>, Error> {
        let n = self.n as usize;
        Ok(vec![HostArray::F32(match self.case.input {
            Input::Hilbert => matrix::hilbert(n),
            Input::Slow => matrix::slow(n, self.case.seed),
            Input::Example => matrix::EXAMPLE.to_vec(),
            _ => matrix::positive(n * n, self.case.seed, 0),
        })])
    }

    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, Error> {
        Ok(Box::new(TransformOracle::new(reals(&inputs[0]), self.n as usize, self.case.stop_rule())))
    }

    fn warnings(&self) -> Vec<String> {
        below_resolution(self.n, &self.case.stop_rule(), self.scale()).into_iter().collect()
    }
}

/// Oracle of the transform; the head of this file explains its checks.
struct TransformOracle {
    a: Vec<f32>,
    n: usize,
    stop: StopRule,
    /// Bounds of λ(A), far closer to each other than f32 can resolve.
    lambda: [f64; 2],
}

impl TransformOracle {
    fn new(a: Vec<f32>, n: usize, stop: StopRule) -> Self {
        let lambda = power::enclosure(&a, n);
        Self { a, n, stop, lambda }
    }

    /// Returns the quantity that the stop rule compares with eps, for row sums `s`: the largest difference of
    /// neighbors, or the relative width of the bracket.
    fn disagreement(&self, s: &[f64]) -> f64 {
        match self.stop.test {
            StopTest::Neighbour => (0..self.n).map(|i| (s[i] - s[(i + 1) % self.n]).abs()).fold(0.0, f64::max),
            StopTest::Bracket => {
                let [low, high] = power::range(s.iter().copied());
                (high - low) / high
            }
        }
    }

    /// Returns the message that the program stopped before its row sums `s` agreed.
    fn not_converged(&self, s: &[f64]) -> String {
        let disagreement = self.disagreement(s);
        let statement = match self.stop.test {
            StopTest::Neighbour => "neighboring row sums still differ by up to",
            StopTest::Bracket => "(max - min) / max of the row sums is still",
        };
        let rounds = self.stop.max_rounds;
        let remedy = below_resolution(self.n as u64, &self.stop, self.lambda[1])
            .unwrap_or_else(|| "raise --max-rounds or --eps".into());
        format!("not converged after {rounds} rounds: {statement} {disagreement:.2e}; {remedy}")
    }

    /// Returns ‖A·v − λ·v‖ / ‖λ·v‖ in the Euclidean norm, given A·v.
    fn vector_residual(lambda: f64, v: &[f64], av: &[f64]) -> f64 {
        let difference: f64 = v.iter().zip(av).map(|(v, av)| (av - lambda * v).powi(2)).sum();
        let size: f64 = v.iter().map(|v| (lambda * v).powi(2)).sum();
        (difference / size).sqrt()
    }
}

impl Oracle for TransformOracle {
    fn comparison(&self, output: usize) -> Option<OutputComparison> {
        if output == ROUNDS {
            // A figure, not part of the answer.
            return None;
        }
        // Of the last matrix only the row sums are determined, and they converge to one number, so exchanging elements
        // of the matrix may go unnoticed.
        Some(OutputComparison { ordered: output != M, ..OutputComparison::default() })
    }

    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String> {
        let lambda = outputs[LAMBDA].get(0);
        let stop = outputs[STOP].get(0);
        let k = outputs[ROUNDS].get(0);
        let [v, d] = [V, D].map(|index| doubles(&outputs[index]));
        let mut s = power::product(&reals(&outputs[M]), &d);
        s.iter_mut().zip(&d).for_each(|(s, d)| *s /= d);
        // −v is an eigenvector as well, but not a product of row sums.
        let is_valid = lambda.is_finite()
            && s.iter().all(|value| value.is_finite())
            && v.iter().chain(&d).all(|value| value.is_finite() && *value > 0.0);
        let mut worst = Worst::default();
        if !is_valid || !(0.0..=1.0).contains(&stop) || k < 0.0 {
            worst.record(f64::INFINITY, || {
                format!(
                    "λ is {lambda}, the stop flag {stop}, rounds {k}; matrix and vectors finite and positive: {is_valid}"
                )
            });
            return Ok(worst.check(1.0));
        }
        if stop == 0.0 {
            return Err(self.not_converged(&s));
        }
        let n = self.n as f64;
        let m = if d.iter().all(|d| *d == 1.0) { n } else { n + 1.0 + DIVISION };
        let [low, high] = power::range(s.iter().copied());
        let sum = gamma(m);
        let matrix = gamma(NEXT_MATRIX_ROUNDINGS * k);

        let exact = f64::midpoint(self.lambda[0], self.lambda[1]);
        let bound = (high - low) + high * (sum + matrix) + (self.lambda[1] - self.lambda[0]);
        worst.record((lambda - exact).abs() / bound, || {
            format!("λ is {lambda}, the reference has {exact} ± {bound:.1e}")
        });

        worst.record((lambda - high).abs() / (high * sum), || {
            format!("λ is {lambda}, the largest row sum of the last matrix {high}")
        });

        let allowed = match self.stop.test {
            StopTest::Neighbour => self.stop.eps * (1.0 + gamma(4.0)) + 2.0 * high * sum,
            StopTest::Bracket => self.stop.eps * (1.0 + gamma(4.0)) + 2.0 * gamma(m + 4.0),
        };
        let reached = self.disagreement(&s);
        worst.record(reached / allowed, || format!("stopped while the row sums differ by {reached:.2e}"));

        let av = power::product(&self.a, &v);
        record_ratios(&mut worst, &av, &v, [low, high], gamma(2.0 * m + 33.0 * k + 12.0));

        let mut check = worst.check(1.0);
        check.metrics = vec![
            Metric::new("rounds", k).shown(),
            Metric::new("lambda", lambda).shown(),
            Metric::new("bracket min", low),
            Metric::new("bracket max", high),
            Metric::new("v residual", Self::vector_residual(lambda, &v, &av)),
        ];
        Ok(check)
    }
}

/// Records how far each (A·v)ᵢ/vᵢ lies outside of a bracket, as a share of `slack`.
fn record_ratios(worst: &mut Worst, av: &[f64], v: &[f64], [low, high]: [f64; 2], slack: f64) {
    for (i, (av, v)) in av.iter().zip(v).enumerate() {
        let ratio = av / v;
        let outside = ((ratio - high) / (high * slack)).max((low - ratio) / (low * slack));
        // `f64::max` ignores NaN, so a ratio with a zero or NaN element is handled separately.
        let outside = if ratio.is_finite() { outside } else { f64::INFINITY };
        worst.record(outside, || format!("(A·v)[{i}]/v[{i}] is {ratio}, outside [{low}, {high}]"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: StopRule = StopRule { test: StopTest::Neighbour, eps: 1e-3, max_rounds: 100 };

    /// Runs the pipeline on the host in f32.
    fn transform(a: &[f32], n: usize, stop: &StopRule) -> Vec<HostArray> {
        let mut m = a.to_vec();
        let mut v = vec![1f32; n];
        let mut rounds = 0;
        loop {
            let s: Vec<f32> = m.chunks(n).map(|row| row.iter().sum()).collect();
            let max = s.iter().copied().fold(0.0, f32::max);
            v.iter_mut().zip(&s).for_each(|(v, s)| *v *= s / max);
            let agrees = match stop.test {
                StopTest::Neighbour => (0..n).all(|i| f64::from((s[i] - s[(i + 1) % n]).abs()) < stop.eps),
                StopTest::Bracket => s.iter().all(|s| f64::from((max - s) / max) < stop.eps),
            };
            if agrees || rounds > stop.max_rounds as i32 {
                let [m, v, lambda, d] = [m, v, vec![max], vec![1.0; n]].map(HostArray::F32);
                let [flag, rounds] = [i32::from(agrees), rounds].map(|word| HostArray::I32(vec![word]));
                return vec![m, v, lambda, flag, rounds, d];
            }
            (0..n * n).for_each(|i| m[i] *= s[i % n] / s[i / n]);
            rounds += 1;
        }
    }

    /// Returns an eigenvalue problem, if it is accepted.
    fn problem(input: Input, n: u64, stop: StopRule) -> Result<Eigen, String> {
        let case = CaseSpec::new(&EIGEN, Size::Uniform(n), DType::F32);
        Eigen::new(&case.with(|options| (options.input, options.stop) = (input, Some(stop))))
    }

    #[test]
    fn a_right_transform_passes_with_the_rounds_and_the_eigenvalue_of_the_post() {
        for (n, rounds, lambda) in [(128, 9.0, 2.217_19), (256, 10.0, 2.304_20)] {
            let a = matrix::hilbert(n);
            let check = TransformOracle::new(a.clone(), n, POST).check(&transform(&a, n, &POST)).expect("converged");
            assert!(check.passes(), "{check:?}");
            assert_eq!(check.metric("rounds"), Some(rounds));
            assert!((check.metric("lambda").expect("a metric") - lambda).abs() < 5e-5, "{check:?}");
        }
    }

    #[test]
    fn the_small_example_gives_its_eigenvalue_and_eigenvector() {
        // λ² − 7·λ − 4 = 0, because the matrix is singular.
        let exact = f64::midpoint(7.0, 65f64.sqrt());
        let stop = StopRule { eps: 1e-6, ..StopRule::default() };
        let outputs = transform(&matrix::EXAMPLE, 3, &stop);
        let check = TransformOracle::new(matrix::EXAMPLE.to_vec(), 3, stop).check(&outputs).expect("converged");
        assert!(check.passes() && (check.metric("lambda").expect("a metric") - exact).abs() < 1e-5, "{check:?}");
        let v = doubles(&outputs[V]);
        assert!((v[0] / v[2] - 0.394_074 / 0.997_451).abs() < 1e-5, "{v:?}");
        assert!((v[1] / v[2] - 0.578_844 / 0.997_451).abs() < 1e-5, "{v:?}");
    }

    #[test]
    fn wrong_answers_are_rejected() {
        let n = 64;
        let a = matrix::hilbert(n);
        let expected = TransformOracle::new(a.clone(), n, POST);
        let rejected = |outputs: &[HostArray]| !expected.check(outputs).expect("it stopped").passes();
        let right = transform(&a, n, &POST);
        let with = |index: usize, array: HostArray| {
            let mut outputs = right.clone();
            outputs[index] = array;
            outputs
        };
        let mut v = reals(&right[V]);
        v[17] *= 1.01;
        assert!(rejected(&with(V, HostArray::F32(v.clone()))), "a wrong element of v");
        v[17] = f32::NAN;
        assert!(rejected(&with(V, HostArray::F32(v))), "a NaN in v");
        let lambda = right[LAMBDA].get(0) as f32 * 1.0001;
        assert!(rejected(&with(LAMBDA, HostArray::F32(vec![lambda]))), "a wrong λ");
        let mut m = reals(&right[M]);
        m[5] += 0.01;
        assert!(rejected(&with(M, HostArray::F32(m))), "a wrong matrix");
        let early = StopRule { eps: 1e-1, ..POST };
        assert!(rejected(&transform(&a, n, &early)), "stopped too early");
        // The output belongs to a similar matrix: its figures agree with each other, but not with an eigenvalue of A.
        let other: Vec<f32> = a.iter().map(|value| value * 1.01).collect();
        assert!(rejected(&transform(&other, n, &POST)), "another matrix");
    }

    #[test]
    fn a_run_that_hits_its_cap_has_no_answer() {
        let stop = StopRule { max_rounds: 3, ..POST };
        let a = matrix::hilbert(64);
        let error =
            TransformOracle::new(a.clone(), 64, stop).check(&transform(&a, 64, &stop)).expect_err("too few rounds");
        assert!(error.starts_with("not converged after 3 rounds: neighboring row sums still differ by"), "{error}");
        assert!(error.ends_with("raise --max-rounds or --eps"), "{error}");
    }

    #[test]
    fn input_that_cannot_be_solved_is_refused_by_name() {
        let refusal = |input, n, stop| problem(input, n, stop).err().unwrap_or_default();
        let error = refusal(Input::Signed, 64, POST);
        assert!(error.starts_with("a positive matrix is needed, but element (0,"), "{error}");
        assert_eq!(refusal(Input::Example, 4, POST), "the example is a 3×3 matrix; write --size 3");
        let expected = "eps 1.5 would let every matrix stop at once; choose one below 1 for --stop bracket";
        assert_eq!(refusal(Input::Hilbert, 4, StopRule { eps: 1.5, ..StopRule::default() }), expected);
        assert_eq!(refusal(Input::Hilbert, 4, POST), "");
    }

    #[test]
    fn an_eps_below_what_f32_resolves_is_warned_of_with_the_floor() {
        let warnings = |input| problem(input, 8192, POST).expect("a problem").warnings();
        assert!(warnings(Input::Hilbert).is_empty());
        let warning = warnings(Input::Uniform).pop().expect("a warning");
        assert!(warning.starts_with("eps 1e-3 is below the 1.5e-3"), "{warning}");
    }
}
