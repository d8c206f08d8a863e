//! Fits the constants of the [model](super::model) to measured times, using the model itself; `scripts/fit-auto` runs it.
//! A module of the library's tests (`crates/kernels/src/matmul/mod.rs`), so that the tool contains no copy of it.
//!
//! A file of constants is a table of numbers. The fit varies the logarithms of all positive fractions at once, to minimize
//! the [cost](Cost) of the problems: the time lost if predictions err a little, and the error of the predictions. It treats
//! the cost's curvature as that of a sum of squares (Levenberg and Marquardt), so that each step solves a linear system with
//! as many unknowns as there are constants.

use super::MATMUL;
use super::auto::predict;
use super::constants::Constants;
use super::grid::row_lengths;
use super::tuning::rank;
use crate::algorithms::CaseSpec;
use crate::algorithms::product_tile::ProductTile;
use crate::basis::units::Nanos;
use crate::device::capability::DeviceInfo;
use crate::device::fixture::{gpu, software_device};
use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::{env, fs};
use toml::{Table, Value};

/// Problem in the output of `bench --explain --json`.
#[derive(Deserialize)]
struct Explained {
    size: String,
    dtype: String,
    layout: String,
    candidates: Vec<Timed>,
}

#[derive(Deserialize)]
struct Timed {
    variant: String,
    tile: Option<String>,
    measured_ns: Option<f64>,
}

/// Problem with its timed candidates.
#[derive(Clone)]
struct FitProblem {
    case: CaseSpec,
    candidates: Vec<TimedCandidate>,
}

#[derive(Clone)]
struct TimedCandidate {
    variant: String,
    tile: Option<ProductTile>,
    measured: f64,
}

/// Reads the problems of a file.
fn read(path: &str) -> Vec<FitProblem> {
    let text = fs::read_to_string(crate::basis::fixture::in_repository(path))
        .unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
    let explained: Vec<Explained> =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path} is not what bench --explain --json writes: {e}"));
    explained.into_iter().filter_map(FitProblem::of).collect()
}

impl FitProblem {
    /// Converts an explained problem; `None` without a timed candidate.
    fn of(explained: Explained) -> Option<Self> {
        let size = explained.size.parse().expect("a size");
        let dtype = explained.dtype.parse().expect("a type");
        let layout = explained.layout.parse().expect("a layout");
        let case = CaseSpec::new(&MATMUL, size, dtype).with(|options| options.layout = layout);
        let candidate = |timed: Timed| {
            let tile = timed.tile.map(|text| text.parse().expect("a tile"));
            Some(TimedCandidate { variant: timed.variant, tile, measured: timed.measured_ns? })
        };
        let candidates: Vec<_> = explained.candidates.into_iter().filter_map(candidate).collect();
        (!candidates.is_empty()).then_some(Self { case, candidates })
    }

    /// Predicts the times of the candidates.
    fn predicted(&self, constants: &Constants, device: &DeviceInfo) -> Vec<f64> {
        let of = |candidate: &TimedCandidate| {
            predict(constants, (candidate.variant.as_str(), candidate.tile), &self.case, device)
        };
        self.candidates.iter().map(|candidate| of(candidate).expect("the model knows what was chosen from").0).collect()
    }

    fn fastest(&self) -> f64 {
        self.candidates.iter().map(|candidate| candidate.measured).fold(f64::INFINITY, f64::min)
    }

    /// Returns the candidate that is predicted fastest, and its time relative to the fastest candidate's.
    fn loss(&self, constants: &Constants, device: &DeviceInfo) -> (f64, &TimedCandidate) {
        let predicted = self.predicted(constants, device);
        let rank =
            |(candidate, predicted): &(&TimedCandidate, f64)| rank(Nanos(*predicted), candidate.tile.map(Into::into));
        let (taken, _) = self.candidates.iter().zip(predicted).min_by_key(rank).expect("it has candidates");
        (taken.measured / self.fastest(), taken)
    }
}

/// Assumed relative error of a prediction.
const ERROR: f64 = 0.04;
/// Largest logarithm of a loss that counts in full.
const MAX_LOG_LOSS: f64 = 1.0;
/// Scale, as a logarithm, on which the weight of a prediction falls with the distance from the fastest time.
const NEARNESS_SCALE: f64 = 0.3;
/// Error of a prediction, as a logarithm, from which the cost grows linearly instead of as a square.
const LINEAR_ERROR: f64 = 0.15;
/// Weight of the predictions' errors, relative to the loss.
const ERROR_WEIGHT: f64 = 0.5;

/// Cost of problems for given predictions: the average loss if predictions err by [`ERROR`], and the predictions' errors.
#[derive(Default)]
struct Cost {
    total: f64,
    /// Derivatives by the logarithm of each prediction.
    slopes: Vec<f64>,
    /// Second derivatives of the approximation by squares.
    curvatures: Vec<f64>,
}

impl Cost {
    fn add(&mut self, problem: &FitProblem, logarithms: &[f64]) {
        let fastest = problem.fastest();
        let lost: Vec<_> = problem.candidates.iter().map(|candidate| (candidate.measured / fastest).ln()).collect();
        let least = logarithms.iter().copied().fold(f64::INFINITY, f64::min);
        let chances: Vec<_> = logarithms.iter().map(|log| (-(log - least) / ERROR).exp()).collect();
        let nearness: Vec<_> = lost.iter().map(|lost| (-lost / NEARNESS_SCALE).exp()).collect();
        let [all_chances, all_near] = [&chances, &nearness].map(|weights| weights.iter().sum::<f64>());
        let expected =
            lost.iter().zip(&chances).map(|(lost, chance)| chance * lost.min(MAX_LOG_LOSS)).sum::<f64>() / all_chances;
        self.total += expected;
        for (index, candidate) in problem.candidates.iter().enumerate() {
            let off = logarithms[index] - candidate.measured.ln();
            let [chance, near] = [chances[index] / all_chances, ERROR_WEIGHT * nearness[index] / all_near];
            // A square up to some error, then a line.
            let weight = (LINEAR_ERROR / off.abs()).min(1.0);
            self.total += near * off * off * weight * (2.0 - weight);
            let gained = chance * (lost[index].min(MAX_LOG_LOSS) - expected);
            self.slopes.push(2.0 * near * weight * off - gained / ERROR);
            self.curvatures.push(2.0 * near * weight + gained.abs() / (ERROR * ERROR));
        }
    }
}

/// Collects the numbers of a document to fit: positive finite fractions, except bandwidths, which `gpukern peak` measures.
fn fractions<'a>(value: &'a mut Value, found: &mut Vec<&'a mut f64>) {
    match value {
        Value::Float(fraction) if *fraction > 0.0 && fraction.is_finite() => found.push(fraction),
        Value::Array(values) => values.iter_mut().for_each(|value| fractions(value, found)),
        Value::Table(table) => {
            let fitted = table.iter_mut().filter(|(name, _)| !["memory", "cache"].contains(&name.as_str()));
            fitted.for_each(|(_, value)| fractions(value, found));
        }
        _ => {}
    }
}

/// Returns the logarithms of the numbers to fit.
fn logarithms(document: &Value) -> Vec<f64> {
    let (mut document, mut found) = (document.clone(), vec![]);
    fractions(&mut document, &mut found);
    found.into_iter().map(|fraction| fraction.ln()).collect()
}

/// Returns the document with these numbers.
fn with_numbers(document: &Value, logarithms: &[f64]) -> Value {
    let (mut document, mut found) = (document.clone(), vec![]);
    fractions(&mut document, &mut found);
    found.into_iter().zip(logarithms).for_each(|(fraction, log)| *fraction = log.exp());
    document
}

/// Returns the document with its fitted numbers rounded to three digits.
fn rounded(document: &Value) -> Value {
    let (mut document, mut found) = (document.clone(), vec![]);
    fractions(&mut document, &mut found);
    for fraction in found {
        *fraction = format!("{fraction:.2e}").parse().expect("a number");
    }
    document
}

fn constants(document: &Value) -> Constants {
    Constants::deserialize(document.clone()).unwrap_or_else(|e| panic!("unusable constants: {e}"))
}

/// Most steps of a fit.
const MAX_STEPS: usize = 60;
/// Smallest relative gain of a step for which the fit goes on.
const MIN_GAIN: f64 = 2e-4;
/// Largest change of a logarithm in a step.
const MAX_CHANGE: f64 = 0.4;
/// Difference of a logarithm from which slopes are computed.
const DIFFERENCE: f64 = 1e-3;
/// Damping at which the search for a better point ends.
const MAX_DAMPING: f64 = 1e4;
/// Cost of the squared distance of a logarithm from its start. Constants that affect no problem keep their values, and an
/// outlier cannot move constants far that affect few problems.
const DISTANCE: f64 = 2.0;

/// Fit of a document to problems.
struct Fit<'a> {
    document: &'a Value,
    /// Logarithms of the document's numbers.
    start: Vec<f64>,
    problems: &'a [&'a FitProblem],
    device: &'a DeviceInfo,
}

impl Fit<'_> {
    /// Returns the logarithms of all predictions.
    fn predictions(&self, at: &[f64]) -> Vec<f64> {
        let constants = constants(&with_numbers(self.document, at));
        self.problems.iter().flat_map(|problem| problem.predicted(&constants, self.device)).map(f64::ln).collect()
    }

    fn cost(&self, at: &[f64], predictions: &[f64]) -> Cost {
        let (mut cost, mut next) = (Cost::default(), 0);
        for problem in self.problems {
            cost.add(problem, &predictions[next..next + problem.candidates.len()]);
            next += problem.candidates.len();
        }
        let away: f64 = at.iter().zip(&self.start).map(|(at, start)| (at - start).powi(2)).sum();
        cost.total += DISTANCE * away;
        cost
    }

    /// Returns the slope of the cost by each constant, and its curvature.
    fn derivatives(&self, at: &[f64], predictions: &[f64], cost: &Cost) -> (Vec<f64>, Mat<f64>) {
        let moved = |index: usize| {
            let mut moved = at.to_vec();
            moved[index] += DIFFERENCE;
            let slopes =
                self.predictions(&moved).into_iter().zip(predictions).map(|(new, old)| (new - old) / DIFFERENCE);
            slopes.enumerate().filter(|(_, slope)| *slope != 0.0).collect::<Vec<_>>()
        };
        let columns: Vec<Vec<(usize, f64)>> = (0..at.len()).into_par_iter().map(moved).collect();
        let distance = 2.0 * DISTANCE;
        let slope = |index: usize| {
            let of_ways: f64 = columns[index].iter().map(|(candidate, slope)| slope * cost.slopes[*candidate]).sum();
            of_ways + distance * (at[index] - self.start[index])
        };
        let slopes = (0..at.len()).map(slope).collect();
        let mut curvature = Mat::zeros(at.len(), at.len());
        let mut dense = vec![0.0; predictions.len()];
        for (row, column) in columns.iter().enumerate() {
            for (candidate, slope) in column {
                dense[*candidate] = slope * cost.curvatures[*candidate];
            }
            for (other, column) in columns.iter().enumerate().take(row + 1) {
                curvature[(row, other)] = column.iter().map(|(candidate, slope)| slope * dense[*candidate]).sum();
            }
            curvature[(row, row)] += distance;
            for (candidate, _) in column {
                dense[*candidate] = 0.0;
            }
        }
        (slopes, curvature)
    }

    /// Reduces the cost until a step gains too little.
    #[expect(clippy::print_stderr, reason = "progress of minutes of work")]
    fn run(&self) -> Value {
        let mut at = self.start.clone();
        let mut predictions = self.predictions(&at);
        let mut cost = self.cost(&at, &predictions);
        let mut damping = 0.1;
        for _ in 0..MAX_STEPS {
            let (slopes, curvature) = self.derivatives(&at, &predictions, &cost);
            let before = cost.total;
            while damping < MAX_DAMPING {
                let tried = step(&at, &slopes, &curvature, damping);
                let new = self.predictions(&tried);
                let new_cost = self.cost(&tried, &new);
                if new_cost.total < cost.total {
                    (at, predictions, cost) = (tried, new, new_cost);
                    damping /= 5.0;
                    break;
                }
                damping *= 3.0;
            }
            eprintln!("cost {:.5} of a problem", cost.total / self.problems.len() as f64);
            if before - cost.total < MIN_GAIN * before {
                break;
            }
        }
        rounded(&with_numbers(self.document, &at))
    }
}

/// Takes a step to the minimum of the parabola, which damping makes steeper.
fn step(at: &[f64], slopes: &[f64], curvature: &Mat<f64>, damping: f64) -> Vec<f64> {
    let mut damped = curvature.clone();
    (0..at.len()).for_each(|index| damped[(index, index)] *= 1.0 + damping);
    let downhill = Mat::from_fn(at.len(), 1, |row, _| -slopes[row]);
    let step = damped.llt(Side::Lower).expect("it is positive: a distance is on its diagonal").solve(downhill);
    at.iter().enumerate().map(|(row, at)| at + step[(row, 0)].clamp(-MAX_CHANGE, MAX_CHANGE)).collect()
}

fn fitted(document: &Value, problems: &[&FitProblem], device: &DeviceInfo) -> Value {
    Fit { document, start: logarithms(document), problems, device }.run()
}

/// Most problems of large loss that a report lists.
const MAX_LISTED: usize = 12;

/// Problem with its loss and the chosen candidate.
type ProblemLoss<'a> = ((f64, &'a TimedCandidate), &'a FitProblem);

/// Reports the losses per element type, and the problems with the largest.
fn report(name: &str, problems: &[&FitProblem], constants: &Constants, device: &DeviceInfo) -> String {
    let mut by_type = BTreeMap::<_, Vec<_>>::new();
    for problem in problems {
        by_type.entry(problem.case.dtype.name()).or_default().push((problem.loss(constants, device), *problem));
    }
    let of_type = |(dtype, mut losses): (&str, Vec<ProblemLoss<'_>>)| {
        losses.sort_by(|((a, _), _), ((b, _), _)| b.total_cmp(a));
        let within = |bound: f64| {
            100.0 * losses.iter().filter(|((loss, _), _)| *loss <= bound).count() as f64 / losses.len() as f64
        };
        let ((most, _), _) = losses[0];
        let worst =
            losses.iter().take(MAX_LISTED).filter(|((loss, _), _)| *loss > 1.2).map(|((loss, candidate), problem)| {
                let tile = candidate.tile.map_or(String::new(), |tile| format!(" {}", String::from(tile)));
                format!("\n  {loss:.2} × {} {}, {}{tile}", problem.case.size, problem.case.layout, candidate.variant)
            });
        let worst: String = worst.collect();
        let [some, more, most_of] = [1.05, 1.1, 1.2].map(within);
        format!(
            "{name}, {dtype}: {} problems, {some:.1} % within 1.05, {more:.1} % 1.10, {most_of:.1} % 1.20, most {most:.2}{worst}\n",
            losses.len()
        )
    };
    by_type.into_iter().map(of_type).collect()
}

/// Returns the share of problems whose loss is at most 1.10, and the largest loss.
fn share_and_largest(problems: &[FitProblem], device: &DeviceInfo) -> (f64, f64) {
    let losses: Vec<_> = problems.iter().map(|problem| problem.loss(Constants::of(device), device).0).collect();
    let within = losses.iter().filter(|loss| **loss <= 1.1).count() as f64 / losses.len() as f64;
    (within, losses.iter().copied().fold(1.0, f64::max))
}

#[test]
fn the_choice_costs_little_on_recorded_problems_of_an_h100() {
    // Problems outside of the fit.
    for (dtype, at_least) in [("f32", 0.91), ("f16", 0.87)] {
        let problems = read(&format!("results/h100-auto-shapes-{dtype}.json"));
        let (within, most) = share_and_largest(&problems, &gpu());
        assert!(
            problems.len() > 100 && within >= at_least && most < 1.63,
            "{dtype}: {within:.3} within 1.10, {most:.2} at most"
        );
    }
}

#[test]
fn predictions_of_direct_are_near_what_an_h100_took() {
    let mut seen = 0;
    for problem in read("results/h100-auto-fit-direct.json") {
        // Rows that start at multiples of 16 bytes.
        if row_lengths(&problem.case).iter().all(|length| length.is_multiple_of(8)) {
            let predicted = problem.predicted(Constants::of(&gpu()), &gpu())[0];
            let (size, layout) = (problem.case.size, problem.case.layout);
            let off = (predicted / problem.candidates[0].measured).ln();
            assert!(
                off.abs() < 0.2,
                "{size} {layout}: {predicted} for {} ns, {off:.3}",
                problem.candidates[0].measured
            );
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Splits problems into two halves, each shape entirely in one.
fn halves(problems: &[FitProblem]) -> [Vec<&FitProblem>; 2] {
    let mut shapes = BTreeMap::new();
    let mut halves = [vec![], vec![]];
    for problem in problems {
        let next = shapes.len();
        let half = shapes.entry(problem.case.size.to_string()).or_insert(next);
        halves[*half % 2].push(problem);
    }
    halves
}

#[test]
#[ignore = "a tool: scripts/fit-auto"]
fn fit() {
    let variable = |name| env::var(name).unwrap_or_default();
    if variable("FIT_TO").is_empty() {
        // All tests run, ignored ones included.
        return;
    }
    let (mut device, name) =
        if variable("FIT_SOFTWARE").is_empty() { (gpu(), "gpu") } else { (software_device(), "software") };
    if let Ok(lanes) = variable("FIT_SUBGROUP").parse() {
        device.subgroup.size = lanes;
    }
    let of = |name| variable(name).split_whitespace().flat_map(read).collect::<Vec<_>>();
    let [fitted_to, judged_by] = ["FIT_TO", "FIT_JUDGE"].map(of);
    let path = crate::basis::fixture::in_repository(&format!("crates/kernels/src/matmul/constants/{name}.toml"));
    let text = fs::read_to_string(&path).expect("the file is in the repository");
    let document = Value::Table(text.parse::<Table>().expect("a file of TOML"));
    let tell = |name: &str, problems: &[&FitProblem], document: &Value| {
        print!("{}", report(name, problems, &constants(document), &device));
    };
    let [all, unseen] = [&fitted_to, &judged_by].map(|problems| problems.iter().collect::<Vec<_>>());
    tell("before, fitted to", &all, &document);
    tell("before, judged by", &unseen, &document);
    if !variable("FIT_HALVES").is_empty() {
        let [a, b] = halves(&fitted_to);
        for (seen, other) in [(&a, &b), (&b, &a)] {
            let after = fitted(&document, seen, &device);
            tell("one half", seen, &after);
            tell("the other", other, &after);
            tell("judged by", &unseen, &after);
        }
        return;
    }
    let after = fitted(&document, &all, &device);
    tell("after, fitted to", &all, &after);
    tell("after, judged by", &unseen, &after);
    let head: String = text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let text = format!("{head}\n{}", toml::to_string(&after).expect("numbers and tables"));
    let to = variable("FIT_WRITE");
    if to.is_empty() { println!("\n{text}") } else { fs::write(&to, text).expect("the file can be written") }
}
