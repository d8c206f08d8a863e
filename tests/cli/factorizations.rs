//! LU factorizations on the device against independent ones in f64.

use super::{BRIEF, check_text, expect_exit, gpukern, stderr, stdout, verifier};
use gpukern::{AxisValues, CATALOGUE, Input, PlanSection, Purpose, Runner, Selection, Silent, for_factorization};
use serde_json::Value;

const N: usize = 100;

/// Returns the growth max|u| / max|a| of a factorization in f64. Partial pivoting swaps no rows of a diagonally dominant matrix,
/// so faer's factors are those without pivoting.
fn growth(seed: u64) -> f64 {
    let a = for_factorization(Input::DiagonallyDominant, N, seed);
    let lu = faer::Mat::from_fn(N, N, |r, c| f64::from(a[r * N + c])).partial_piv_lu();
    assert!(lu.P().arrays().0.iter().enumerate().all(|(row, from)| row == *from), "seed {seed}: rows were swapped");
    let largest_u = (0..N * N).map(|at| lu.U()[(at / N, at % N)].abs()).fold(0.0, f64::max);
    largest_u / a.iter().map(|x| f64::from(x.abs())).fold(0.0, f64::max)
}

/// Returns a selection of factorizations, with the default variants and input for empty texts.
fn lu(variant: &str, size: &str, input: &str, seed: u64) -> Selection {
    let names = |text: &str| text.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect();
    let axes = AxisValues::default().with("seed", seed);
    let axes = if input.is_empty() { axes } else { axes.with("input", input) };
    Selection { algorithm: vec!["lu".into()], variant: names(variant), size: names(size), axes, ..Selection::default() }
}

/// Verifies the cases of `selection` that the device can run. Returns them as in a record.
fn verified(verifier: &mut Runner, selection: &Selection) -> Vec<Value> {
    let run = PlanSection::new(&CATALOGUE, selection, Purpose::Bench).expect("a plan");
    let cases = verifier.run(&run, &mut Silent).into_iter().map(|case| serde_json::to_value(case).expect("JSON"));
    cases.filter(|case| case["outcome"]["status"] != "skipped").collect()
}

/// Returns the outcome of one solution.
fn solved(verifier: &mut Runner, variant: &str, size: &str, input: &str, seed: u64) -> Value {
    let mut selection = lu(variant, size, input, seed);
    selection.axes = selection.axes.with("solve", true);
    let cases = verified(verifier, &selection);
    let [case] = &cases[..] else { panic!("one case") };
    assert_eq!(case["goal"], "solution");
    case["outcome"].clone()
}

/// Returns a metric of a verification.
fn metric(outcome: &Value, name: &str) -> f64 {
    let metrics = outcome["verification"]["metrics"].as_array().expect("metrics");
    metrics.iter().find(|m| m["name"] == name).and_then(|m| m["value"].as_f64()).expect(name)
}

#[test]
fn growth_and_residual_on_ten_seeds_agree_with_an_independent_factorization() {
    let mut verifier = verifier();
    for seed in 1..=10 {
        let selection = lu("", &N.to_string(), "diagonally-dominant", seed);
        let cases = verified(&mut verifier, &selection);
        assert!(cases.len() > 4, "{cases:?}");
        for case in cases {
            let (ours, theirs) = (metric(&case["outcome"], "growth"), growth(seed));
            assert!((ours / theirs - 1.0).abs() < 1e-5, "seed {seed}, {}: {ours}, {theirs}", case["id"]);
            // Factors in f32 leave a residual below one unit roundoff, scaled; factors in f64 would leave 1e-9 of it.
            let residual = metric(&case["outcome"], "scaled residual");
            assert!((1e-4..1.0).contains(&residual), "seed {seed}, {}: {residual}", case["id"]);
        }
    }
}

#[test]
fn a_zero_pivot_is_the_fault_of_the_data_and_names_its_column() {
    let output = expect_exit(gpukern(&["bench", "lu", "-s", "1,9", "--input", "singular"]).args(BRIEF), 1);
    let said = stderr(&output);
    let rejected: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("rejected  lu/")).collect();
    check_text(
        &rejected.join("\n"),
        "blocked-pivot/f32/1x1/singular and 6 more (blocked-pivot, blocked-pivot-texel, naive, offset-copy, in-place, \
         blocked, blocked-split): zero pivot at column 0\nblocked-pivot/f32/9x9/singular and 1 more (blocked-pivot, \
         blocked-pivot-texel): zero pivot at column 8",
    );
    assert!(stdout(&output).contains("median time"), "the other size is measured all the same:\n{}", stdout(&output));
}

#[test]
fn with_pivots_growth_is_that_of_the_matrix_whatever_its_condition_and_scale() {
    let mut verifier = verifier();
    for (input, size, growth) in [
        ("uniform", "300", 1.0..50.0),
        ("hilbert", "1000", 0.9..10.0),
        ("ill-scaled", "300", 0.1..50.0),
        // The exact growth is 2¹⁰⁰; rounding of the matrix changes it.
        ("wilkinson", "1000", 1.2e30..1.3e30),
    ] {
        let found = metric(&verified(&mut verifier, &lu("blocked-pivot", size, input, 1))[0]["outcome"], "growth");
        assert!(growth.contains(&found), "{input} {size}: {found:?}");
    }
}

#[test]
fn every_run_gives_the_same_figures_to_the_last_bit() {
    let run = || {
        let cases = verified(&mut verifier(), &lu("blocked,blocked-pivot", "257", "", 1));
        cases.iter().map(|case| case["outcome"]["verification"].to_string()).collect::<Vec<_>>()
    };
    let first = run();
    // Each run opens its own device; the figures are sums and maxima over all elements of L and U.
    assert!(first.len() == 2 && (1..4).all(|_| run() == first), "{first:?}");
}

#[test]
fn pivots_solve_random_systems_to_the_last_bits_and_refinement_to_those_of_f64() {
    let mut verifier = verifier();
    for seed in 1..=5 {
        for size in ["1", "2", "31", "129", "300"] {
            let mut of = |variant| solved(&mut verifier, variant, size, "", seed);
            let pivoted = of("blocked-pivot");
            // A few units of roundoff; the check itself allows 16·n.
            assert!(metric(&pivoted, "backward error") < 5e-7, "{size}, seed {seed}: {pivoted}");
            let refined = of("refined");
            let steps = metric(&refined, "refinements");
            assert!((0.0..=5.0).contains(&steps) && steps.fract() == 0.0, "{size}, seed {seed}: {refined}");
            assert!(metric(&refined, "backward error") <= 1e-12, "{size}, seed {seed}: {refined}");
        }
    }
}

#[test]
fn an_unsolvable_system_is_reported_with_its_reason() {
    let mut verifier = verifier();
    for (variant, input, expected) in [
        ("naive", "singular", "zero pivot at column 0"),
        // Only the solution divides by the last pivot.
        ("blocked-pivot", "singular", "zero pivot at column 139"),
        ("refined", "singular", "zero pivot at column 139"),
        ("refined", "hilbert", "refinement stagnated at step"),
        ("refined", "wilkinson", "refinement stagnated at step"),
        ("blocked-pivot", "wilkinson", "elimination let elements grow by 1.3e30"),
    ] {
        let outcome = solved(&mut verifier, variant, "140", input, 1);
        let reason = outcome["worst"].as_str().expect("a reason");
        assert!(outcome["status"] == "rejected" && reason.contains(expected), "{variant} {input}: {outcome}");
    }
    for (variant, input) in [("blocked-pivot", "hilbert"), ("blocked-pivot", "ill-scaled"), ("refined", "ill-scaled")] {
        assert_eq!(solved(&mut verifier, variant, "140", input, 1)["status"], "measured", "{variant} {input}");
    }
}

#[test]
fn solutions_are_the_same_to_the_last_bit_every_time() {
    for variant in ["blocked-pivot", "refined"] {
        let run = || solved(&mut verifier(), variant, "400", "", 1)["verification"].to_string();
        let first = run();
        assert!((1..4).all(|_| run() == first), "{first}");
    }
}
