//! LU factorisations on the device against independent ones in f64.

use super::{expect_exit, gpukern, stderr, stdout};
use gpukern::{Input, for_factorisation};

const N: usize = 100;

/// max|u| / max|a| of a factorisation in f64. On matrices whose columns their diagonals dominate partial pivoting swaps
/// no rows, so faer's factors are those without pivoting.
fn growth(seed: u64) -> f64 {
    let a = for_factorisation(Input::DiagonallyDominant, N, seed);
    let lu = faer::Mat::from_fn(N, N, |r, c| f64::from(a[r * N + c])).partial_piv_lu();
    assert!(lu.P().arrays().0.iter().enumerate().all(|(row, from)| row == *from), "seed {seed}: rows were swapped");
    let largest_u = (0..N * N).map(|at| lu.U()[(at / N, at % N)].abs()).fold(0.0, f64::max);
    largest_u / a.iter().map(|x| f64::from(x.abs())).fold(0.0, f64::max)
}

#[test]
fn growth_and_residual_on_ten_seeds_agree_with_an_independent_factorisation() {
    for seed in 1..=10 {
        let (size, seed_text) = (N.to_string(), seed.to_string());
        let arguments =
            ["bench", "lu", "-s", &size, "--seed", &seed_text, "--input", "diagonally-dominant", "--json", "-"];
        let output = expect_exit(gpukern(&arguments).args(["--max-time", "1ms"]), 0);
        let record: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        for case in record["cases"].as_array().expect("cases") {
            let metrics = case["outcome"]["verification"]["metrics"].as_array().expect("metrics");
            let metric = |name: &str| metrics.iter().find(|m| m["name"] == name).and_then(|m| m["value"].as_f64());
            let (ours, theirs) = (metric("growth").expect("a growth factor"), growth(seed));
            assert!((ours / theirs - 1.0).abs() < 1e-5, "seed {seed}, {}: {ours}, {theirs}", case["id"]);
            // Factors in f32 leave a residual below one unit roundoff, scaled; factors in f64 would leave 1e-9 of it.
            let residual = metric("scaled residual").expect("a residual");
            assert!((1e-4..1.0).contains(&residual), "seed {seed}, {}: {residual}", case["id"]);
        }
    }
}

#[test]
fn a_zero_pivot_is_the_fault_of_the_data_and_names_its_column() {
    let output =
        expect_exit(&mut gpukern(&["bench", "lu", "-s", "1,9", "--input", "singular", "--max-time", "1ms"]), 1);
    for variant in ["naive", "offset-copy", "in-place", "blocked"] {
        let expected = format!("rejected  lu/{variant}/f32/9x9/singular: zero pivot at column 0");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    }
    // Pivots leave the row of zeros to the end.
    let expected = "rejected  lu/blocked-pivot/f32/9x9/singular: zero pivot at column 8";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    assert!(stdout(&output).contains("★"), "the other size is measured all the same:\n{}", stdout(&output));
}

#[test]
fn with_pivots_growth_is_that_of_the_matrix_whatever_its_condition_and_scale() {
    for (input, size, growth) in [
        ("uniform", "300", 1.0..50.0),
        ("hilbert", "1000", 0.9..10.0),
        ("ill-scaled", "300", 0.1..50.0),
        // 2¹⁰⁰, more or less what the rounding of h makes of it.
        ("wilkinson", "1000", 1.2e30..1.3e30),
    ] {
        let arguments = ["bench", "lu", "-V", "blocked-pivot", "-s", size, "--input", input, "--json", "-"];
        let output = expect_exit(gpukern(&arguments).args(["--max-time", "1ms"]), 0);
        let record: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        let verification = &record["cases"][0]["outcome"]["verification"];
        let metrics = verification["metrics"].as_array().expect("metrics");
        let found = metrics.iter().find(|m| m["name"] == "growth").and_then(|m| m["value"].as_f64());
        assert!(growth.contains(&found.expect("a growth factor")), "{input} {size}: {found:?}");
    }
}

#[test]
fn every_run_gives_the_same_figures_to_the_last_bit() {
    let run = || {
        let arguments = ["bench", "lu", "-V", "blocked,blocked-pivot", "-s", "257", "--json", "-"];
        let output = expect_exit(gpukern(&arguments).args(["--max-time", "1ms"]), 0);
        let record: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        let cases = record["cases"].as_array().expect("cases").iter();
        cases.map(|case| case["outcome"]["verification"].to_string()).collect::<Vec<_>>()
    };
    let first = run();
    // Two cases a process: the figures are sums and maxima over all elements of L and U.
    assert!((1..4).all(|_| run() == first), "{first:?}");
}

/// The outcome of the only case of a run.
fn outcome(arguments: &[&str], exit: i32) -> serde_json::Value {
    let output = expect_exit(
        gpukern(&["bench", "lu", "--solve", "--json", "-"]).args(arguments).args(["--max-time", "1ms"]),
        exit,
    );
    let record: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(record["cases"].as_array().expect("cases").len(), 1, "{arguments:?}");
    assert_eq!(record["cases"][0]["goal"], "solution", "{arguments:?}");
    record["cases"][0]["outcome"].clone()
}

fn metric(outcome: &serde_json::Value, name: &str) -> f64 {
    let metrics = outcome["verification"]["metrics"].as_array().expect("metrics");
    metrics.iter().find(|m| m["name"] == name).and_then(|m| m["value"].as_f64()).expect(name)
}

#[test]
fn pivots_solve_random_systems_to_the_last_bits_and_refinement_to_those_of_f64() {
    for seed in ["1", "2", "3", "4", "5"] {
        for size in ["1", "2", "31", "129", "300"] {
            let of = |variant| outcome(&["-V", variant, "-s", size, "--seed", seed], 0);
            let pivoted = of("blocked-pivot");
            // A few units of roundoff, where 16·n of them would pass.
            assert!(metric(&pivoted, "backward error") < 5e-7, "{size}, seed {seed}: {pivoted}");
            let refined = of("refined");
            let steps = metric(&refined, "refinements");
            assert!((0.0..=5.0).contains(&steps) && steps.fract() == 0.0, "{size}, seed {seed}: {refined}");
            assert!(metric(&refined, "backward error") <= 1e-12, "{size}, seed {seed}: {refined}");
        }
    }
}

#[test]
fn every_variant_solves_what_elimination_without_pivots_is_stable_for() {
    let arguments = ["verify", "lu", "--solve", "--input", "diagonally-dominant", "-s", "1,33,130,257,300"];
    let output = expect_exit(&mut gpukern(&arguments), 0);
    assert!(stdout(&output).contains(" 0 wrong"), "{}", stdout(&output));
}

#[test]
fn what_cannot_be_solved_is_reported_with_its_reason() {
    for (variant, input, exit, expected) in [
        ("naive", "singular", 1, "zero pivot at column 0"),
        // Nothing is divided by the last pivot until the solution is.
        ("blocked-pivot", "singular", 1, "zero pivot at column 139"),
        ("refined", "singular", 1, "zero pivot at column 139"),
        ("refined", "hilbert", 1, "refinement stagnated at step"),
        ("refined", "wilkinson", 1, "refinement stagnated at step"),
        ("blocked-pivot", "wilkinson", 1, "elimination let elements grow by 1.3e30"),
    ] {
        let outcome = outcome(&["-V", variant, "-s", "140", "--input", input], exit);
        let status = if exit == 1 { "rejected" } else { "failed" };
        let reason = outcome[if exit == 1 { "worst" } else { "error" }].as_str().expect("a reason");
        assert!(outcome["status"] == status && reason.contains(expected), "{variant} {input}: {outcome}");
    }
    for (variant, input) in [("blocked-pivot", "hilbert"), ("blocked-pivot", "ill-scaled"), ("refined", "ill-scaled")] {
        outcome(&["-V", variant, "-s", "140", "--input", input], 0);
    }
}

#[test]
fn solutions_are_the_same_to_the_last_bit_every_time() {
    let run = |variant| outcome(&["-V", variant, "-s", "400"], 0)["verification"].to_string();
    for variant in ["blocked-pivot", "refined"] {
        let first = run(variant);
        assert!((1..4).all(|_| run(variant) == first), "{first}");
    }
}
