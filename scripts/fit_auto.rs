//! Fits the constants of the [model](super::model) to measured times, with the model itself: what `scripts/fit-auto` runs.
//! A module of the library's tests (`src/algorithms/matmul/mod.rs`), so that the tool itself has no copy of it.
//!
//! A file of constants is a table of numbers, and those that are positive fractions are varied, all at once, as logarithms. What is
//! made small is the [cost](Cost) of the problems: what is lost where predictions err a little, and how far they are off. Its
//! curvature is taken for that of a sum of squares (Levenberg and Marquardt), so a step is a linear system of as many unknowns as
//! there are constants.

use super::MATMUL;
use super::auto::predict;
use super::constants::Constants;
use super::grid::row_lengths;
use super::tile::ProductTile;
use super::tuning::rank;
use crate::algorithms::CaseSpec;
use crate::basis::units::Nanos;
use crate::device::capability::DeviceInfo;
use crate::device::capability::tests::{gpu, software_device};
use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::{env, fs};
use toml::{Table, Value};

/// A problem of `bench --explain --json`.
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

/// A problem with the ways that were timed.
#[derive(Clone)]
struct Problem {
    case: CaseSpec,
    ways: Vec<Way>,
}

#[derive(Clone)]
struct Way {
    variant: String,
    tile: Option<ProductTile>,
    measured: f64,
}

/// The problems of a file.
fn read(path: &str) -> Vec<Problem> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
    let explained: Vec<Explained> =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path} is not what bench --explain --json writes: {e}"));
    explained.into_iter().filter_map(Problem::of).collect()
}

impl Problem {
    /// `None` where nothing was timed that the model knows.
    fn of(explained: Explained) -> Option<Self> {
        let size = explained.size.parse().expect("a size");
        let dtype = explained.dtype.parse().expect("a type");
        let layout = explained.layout.parse().expect("a layout");
        let case = CaseSpec::new(&MATMUL, size, dtype).with(|options| options.layout = layout);
        let way = |timed: Timed| {
            let tile = timed.tile.map(|text| text.parse().expect("a tile"));
            Some(Way { variant: timed.variant, tile, measured: timed.measured_ns? })
        };
        let ways: Vec<_> = explained.candidates.into_iter().filter_map(way).collect();
        (!ways.is_empty()).then_some(Self { case, ways })
    }

    /// The predicted times of its ways.
    fn predicted(&self, constants: &Constants, device: &DeviceInfo) -> Vec<f64> {
        let of = |way: &Way| predict(constants, (way.variant.as_str(), way.tile), &self.case, device);
        self.ways.iter().map(|way| of(way).expect("the model knows what was chosen from").0).collect()
    }

    fn fastest(&self) -> f64 {
        self.ways.iter().map(|way| way.measured).fold(f64::INFINITY, f64::min)
    }

    /// What is lost to the fastest way by taking the one that should be, and that one.
    fn loss(&self, constants: &Constants, device: &DeviceInfo) -> (f64, &Way) {
        let predicted = self.predicted(constants, device);
        let rank = |(way, predicted): &(&Way, f64)| rank(Nanos(*predicted), way.tile.map(Into::into));
        let (taken, _) = self.ways.iter().zip(predicted).min_by_key(rank).expect("it has ways");
        (taken.measured / self.fastest(), taken)
    }
}

/// The relative error of a prediction, the logarithm of the loss that counts at most, how near to the fastest a time is that should be
/// foretold well, from which error on that counts less, and the weight of it.
const ERROR: f64 = 0.04;
const MOST_LOSS: f64 = 1.0;
const NEAR: f64 = 0.3;
const FAR_OFF: f64 = 0.15;
const OFF: f64 = 0.5;

/// The cost of problems for these predictions: what is lost on average where predictions err by some percent, and how far off they are.
/// With its derivatives by the logarithm of each prediction, and those of the squares that it is taken for.
#[derive(Default)]
struct Cost {
    total: f64,
    slopes: Vec<f64>,
    curvatures: Vec<f64>,
}

impl Cost {
    fn add(&mut self, problem: &Problem, logarithms: &[f64]) {
        let fastest = problem.fastest();
        let lost: Vec<_> = problem.ways.iter().map(|way| (way.measured / fastest).ln()).collect();
        let least = logarithms.iter().copied().fold(f64::INFINITY, f64::min);
        let chances: Vec<_> = logarithms.iter().map(|log| (-(log - least) / ERROR).exp()).collect();
        let nearness: Vec<_> = lost.iter().map(|lost| (-lost / NEAR).exp()).collect();
        let [all_chances, all_near] = [&chances, &nearness].map(|weights| weights.iter().sum::<f64>());
        let expected =
            lost.iter().zip(&chances).map(|(lost, chance)| chance * lost.min(MOST_LOSS)).sum::<f64>() / all_chances;
        self.total += expected;
        for (index, way) in problem.ways.iter().enumerate() {
            let off = logarithms[index] - way.measured.ln();
            let [chance, near] = [chances[index] / all_chances, OFF * nearness[index] / all_near];
            // A square up to some error, then a line.
            let weight = (FAR_OFF / off.abs()).min(1.0);
            self.total += near * off * off * weight * (2.0 - weight);
            let gained = chance * (lost[index].min(MOST_LOSS) - expected);
            self.slopes.push(2.0 * near * weight * off - gained / ERROR);
            self.curvatures.push(2.0 * near * weight + gained.abs() / (ERROR * ERROR));
        }
    }
}

/// The numbers of a document that are to be fitted: finite fractions above zero, but for bandwidths, which `gpukern peak` measures.
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

/// The logarithms of these numbers.
fn logarithms(document: &Value) -> Vec<f64> {
    let (mut document, mut found) = (document.clone(), vec![]);
    fractions(&mut document, &mut found);
    found.into_iter().map(|fraction| fraction.ln()).collect()
}

/// The same document with other numbers.
fn with(document: &Value, logarithms: &[f64]) -> Value {
    let (mut document, mut found) = (document.clone(), vec![]);
    fractions(&mut document, &mut found);
    found.into_iter().zip(logarithms).for_each(|(fraction, log)| *fraction = log.exp());
    document
}

/// The same with numbers of three digits.
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

/// The steps of a fit at most, what each has to gain of the cost, the most by which it changes a logarithm, and the difference by which
/// slopes are found.
const MOST_STEPS: usize = 60;
const LEAST_GAIN: f64 = 2e-4;
const LONGEST: f64 = 0.4;
const DIFFERENCE: f64 = 1e-3;

/// What a logarithm's distance from where it began costs, squared: constants that no problem tells of stay, and of those of which few tell
/// an outlier moves none far.
const DISTANCE: f64 = 2.0;

/// A fit: the document that it began with, and what it is fitted to.
struct Fit<'a> {
    document: &'a Value,
    begin: Vec<f64>,
    problems: &'a [&'a Problem],
    device: &'a DeviceInfo,
}

impl Fit<'_> {
    /// The logarithms of all predictions.
    fn predictions(&self, at: &[f64]) -> Vec<f64> {
        let constants = constants(&with(self.document, at));
        self.problems.iter().flat_map(|problem| problem.predicted(&constants, self.device)).map(f64::ln).collect()
    }

    fn cost(&self, at: &[f64], predictions: &[f64]) -> Cost {
        let (mut cost, mut next) = (Cost::default(), 0);
        for problem in self.problems {
            cost.add(problem, &predictions[next..next + problem.ways.len()]);
            next += problem.ways.len();
        }
        let away: f64 = at.iter().zip(&self.begin).map(|(at, begin)| (at - begin).powi(2)).sum();
        cost.total += DISTANCE * away;
        cost
    }

    /// The slope of the cost by each constant, and the curvature.
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
            let of_ways: f64 = columns[index].iter().map(|(way, slope)| slope * cost.slopes[*way]).sum();
            of_ways + distance * (at[index] - self.begin[index])
        };
        let slopes = (0..at.len()).map(slope).collect();
        let mut curvature = Mat::zeros(at.len(), at.len());
        let mut dense = vec![0.0; predictions.len()];
        for (row, column) in columns.iter().enumerate() {
            for (way, slope) in column {
                dense[*way] = slope * cost.curvatures[*way];
            }
            for (other, column) in columns.iter().enumerate().take(row + 1) {
                curvature[(row, other)] = column.iter().map(|(way, slope)| slope * dense[*way]).sum();
            }
            curvature[(row, row)] += distance;
            for (way, _) in column {
                dense[*way] = 0.0;
            }
        }
        (slopes, curvature)
    }

    /// Goes downhill as long as that helps.
    #[expect(clippy::print_stderr, reason = "it takes minutes, and says how far it is")]
    fn run(&self) -> Value {
        let mut at = self.begin.clone();
        let mut predictions = self.predictions(&at);
        let mut cost = self.cost(&at, &predictions);
        let mut damping = 0.1;
        for _ in 0..MOST_STEPS {
            let (slopes, curvature) = self.derivatives(&at, &predictions, &cost);
            let before = cost.total;
            while damping < MOST_DAMPING {
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
            if before - cost.total < LEAST_GAIN * before {
                break;
            }
        }
        rounded(&with(self.document, &at))
    }
}

const MOST_DAMPING: f64 = 1e4;

/// Where a step goes from here: to the least of the parabola, which damping makes steeper.
fn step(at: &[f64], slopes: &[f64], curvature: &Mat<f64>, damping: f64) -> Vec<f64> {
    let mut damped = curvature.clone();
    (0..at.len()).for_each(|index| damped[(index, index)] *= 1.0 + damping);
    let downhill = Mat::from_fn(at.len(), 1, |row, _| -slopes[row]);
    let step = damped.llt(Side::Lower).expect("it is positive: a distance is on its diagonal").solve(downhill);
    at.iter().enumerate().map(|(row, at)| at + step[(row, 0)].clamp(-LONGEST, LONGEST)).collect()
}

fn fitted(document: &Value, problems: &[&Problem], device: &DeviceInfo) -> Value {
    Fit { document, begin: logarithms(document), problems, device }.run()
}

/// Problems that are told of those whose loss is the largest.
const MOST_TOLD: usize = 12;

/// A problem with its loss and the way that was chosen.
type Told<'a> = ((f64, &'a Way), &'a Problem);

/// What is lost, and where most.
fn told(name: &str, problems: &[&Problem], constants: &Constants, device: &DeviceInfo) -> String {
    let mut by_type = BTreeMap::<_, Vec<_>>::new();
    for problem in problems {
        by_type.entry(problem.case.dtype.name()).or_default().push((problem.loss(constants, device), *problem));
    }
    let of_type = |(dtype, mut losses): (&str, Vec<Told<'_>>)| {
        losses.sort_by(|((a, _), _), ((b, _), _)| b.total_cmp(a));
        let within = |bound: f64| {
            100.0 * losses.iter().filter(|((loss, _), _)| *loss <= bound).count() as f64 / losses.len() as f64
        };
        let ((most, _), _) = losses[0];
        let worst = losses.iter().take(MOST_TOLD).filter(|((loss, _), _)| *loss > 1.2).map(|((loss, way), problem)| {
            let tile = way.tile.map_or(String::new(), |tile| format!(" {}", String::from(tile)));
            format!("\n  {loss:.2} × {} {}, {}{tile}", problem.case.size, problem.case.layout, way.variant)
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

/// The share of problems whose loss is within 1.10, and the largest loss.
fn share_and_most(problems: &[Problem], device: &DeviceInfo) -> (f64, f64) {
    let losses: Vec<_> = problems.iter().map(|problem| problem.loss(Constants::of(device), device).0).collect();
    let within = losses.iter().filter(|loss| **loss <= 1.1).count() as f64 / losses.len() as f64;
    (within, losses.iter().copied().fold(1.0, f64::max))
}

#[test]
fn the_choice_costs_little_on_recorded_problems_of_an_h100() {
    // Problems that the constants were not fitted to.
    for (dtype, at_least) in [("f32", 0.91), ("f16", 0.87)] {
        let problems = read(&format!("results/h100-auto-shapes-{dtype}.json"));
        let (within, most) = share_and_most(&problems, &gpu());
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
            let off = (predicted / problem.ways[0].measured).ln();
            assert!(off.abs() < 0.2, "{size} {layout}: {predicted} for {} ns, {off:.3}", problem.ways[0].measured);
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Two halves of problems, every shape in one of them.
fn halves(problems: &[Problem]) -> [Vec<&Problem>; 2] {
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
        // A run of all tests, ignored ones too.
        return;
    }
    let (mut device, name) =
        if variable("FIT_SOFTWARE").is_empty() { (gpu(), "gpu") } else { (software_device(), "software") };
    if let Ok(lanes) = variable("FIT_SUBGROUP").parse() {
        device.subgroup.size = lanes;
    }
    let of = |name| variable(name).split_whitespace().flat_map(read).collect::<Vec<_>>();
    let [fitted_to, judged_by] = ["FIT_TO", "FIT_JUDGE"].map(of);
    let path = format!("src/algorithms/matmul/constants/{name}.toml");
    let text = fs::read_to_string(&path).expect("the file is in the repository");
    let document = Value::Table(text.parse::<Table>().expect("a file of TOML"));
    let tell = |name: &str, problems: &[&Problem], document: &Value| {
        print!("{}", told(name, problems, &constants(document), &device));
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
