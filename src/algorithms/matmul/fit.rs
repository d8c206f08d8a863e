//! Fits the constants of the [model](super::model) to measured times: what `scripts/fit-auto` runs.

use super::MATMUL;
use super::auto::{predict, rank};
use super::constants::Constants;
use super::tile::Tile;
use crate::algorithms::CaseSpec;
use crate::basis::units::Nanos;
use crate::device::capability::DeviceInfo;
use crate::device::capability::tests::{gpu, software_device};
use serde::Deserialize;
use serde_json::Value;

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
struct Problem {
    case: CaseSpec,
    ways: Vec<(String, Option<Tile>, f64)>,
}

impl Problem {
    /// `None` where nothing was timed.
    fn of(explained: Explained) -> Option<Self> {
        let size = explained.size.parse().expect("a size");
        let dtype = explained.dtype.parse().expect("a type");
        let layout = explained.layout.parse().expect("a layout");
        let case = CaseSpec { layout, ..CaseSpec::new(&MATMUL, size, dtype) };
        let way = |timed: Timed| {
            let tile = timed.tile.map(|text| text.parse().expect("a tile"));
            Some((timed.variant, tile, timed.measured_ns?))
        };
        let ways: Vec<_> = explained.candidates.into_iter().filter_map(way).collect();
        (!ways.is_empty()).then_some(Self { case, ways })
    }

    /// The predicted and the measured time of each way.
    fn times<'a>(
        &'a self,
        constants: &'a Constants,
        device: &'a DeviceInfo,
    ) -> impl Iterator<Item = (&'a Option<Tile>, Nanos, f64)> {
        self.ways.iter().filter_map(move |(variant, tile, measured)| {
            Some((tile, predict(constants, (variant.as_str(), *tile), &self.case, device)?, *measured))
        })
    }

    /// What is lost to the fastest way by taking the one that should be, and the tile of that.
    fn loss(&self, constants: &Constants, device: &DeviceInfo) -> (f64, Option<Tile>) {
        let times = || self.times(constants, device);
        let taken = times().min_by_key(|(tile, predicted, _)| rank(*predicted, tile.map(Into::into)));
        let fastest = times().map(|(.., measured)| measured).fold(f64::INFINITY, f64::min);
        taken.map_or((1.0, None), |(tile, _, taken)| (taken / fastest, *tile))
    }

    /// What is lost on average where predictions err by some percent, and a little of how far they are off.
    fn regret(&self, constants: &Constants, device: &DeviceInfo) -> f64 {
        let times: Vec<_> =
            self.times(constants, device).map(|(_, predicted, measured)| (predicted.0, measured)).collect();
        let [least, fastest] =
            [|t: &(f64, f64)| t.0, |t: &(f64, f64)| t.1].map(|of| times.iter().map(of).fold(f64::INFINITY, f64::min));
        let (mut total, mut lost, mut off) = (0.0, 0.0, 0.0);
        for (predicted, measured) in times {
            let weight = (-(predicted / least).ln() / ERROR).exp();
            let loss = (measured / fastest).ln();
            total += weight;
            lost += weight * loss.min(MOST_LOSS);
            off += (-loss / NEAR).exp() * (predicted / measured).ln().powi(2);
        }
        lost / total + OFF * off.min(1.0)
    }
}

/// The relative error of a prediction, the loss that counts at most, how near to the fastest a time is that should be foretold
/// well, and the weight of that.
const ERROR: f64 = 0.04;
const MOST_LOSS: f64 = 1.0;
const NEAR: f64 = 0.3;
const OFF: f64 = 0.3;

/// The constants as a document, whose fractions are to be fitted, each by its path.
fn paths(document: &Value) -> Vec<String> {
    let under = |(name, value): (&String, &Value)| match value {
        Value::Array(values) => (0..values.len()).map(|index| format!("/{name}/{index}")).collect(),
        Value::Object(_) => paths(value).into_iter().map(|path| format!("/{name}{path}")).collect(),
        Value::Number(number) if number.is_f64() => vec![format!("/{name}")],
        _ => vec![],
    };
    document.as_object().expect("an object").iter().flat_map(under).collect()
}

fn constants(document: &Value) -> Constants {
    Constants::deserialize(document).expect("the same fields")
}

/// Tries each constant larger and smaller, as long as that helps, in ever smaller steps.
fn fitted(mut document: Value, regret: impl Fn(&Constants) -> f64) -> Value {
    let paths = paths(&document);
    let mut best = regret(&constants(&document));
    for step in [1.5, 1.2, 1.5, 1.2, 1.1, 1.05, 1.2, 1.1, 1.05, 1.02] {
        for path in &paths {
            for factor in [step, 1.0 / step] {
                loop {
                    let mut tried = document.clone();
                    let value = tried.pointer_mut(path).expect("its path");
                    *value = (value.as_f64().expect("a fraction") * factor).min(MOST).into();
                    let regret = regret(&constants(&tried));
                    if regret >= best - 1e-7 {
                        break;
                    }
                    (best, document) = (regret, tried);
                }
            }
        }
    }
    document
}

/// Problems that are told of those whose loss is the largest.
const MOST_TOLD: usize = 12;

/// What is instantaneous.
const MOST: f64 = 1e9;

fn told(name: &str, problems: &[Problem], constants: &Constants, device: &DeviceInfo) -> String {
    let mut losses: Vec<_> = problems.iter().map(|problem| (problem.loss(constants, device), problem)).collect();
    losses.sort_by(|((a, _), _), ((b, _), _)| b.total_cmp(a));
    let worst = losses.iter().take(MOST_TOLD).filter(|((loss, _), _)| *loss > 1.1).map(|((loss, tile), problem)| {
        let (size, dtype) = (problem.case.size, problem.case.dtype);
        format!("\n  {loss:.2} × {size} {dtype}, {}", tile.map_or("no tile".into(), |tile| tile.to_string()))
    });
    let worst: String = worst.collect();
    let losses: Vec<_> = losses.iter().map(|((loss, _), _)| *loss).collect();
    let within = |bound: f64| 100 * losses.iter().filter(|loss| **loss <= bound).count() / losses.len().max(1);
    let most = losses.iter().copied().fold(1.0, f64::max);
    format!(
        "{name}: {} problems, {} % within 1.05, {} % 1.10, {} % 1.20, most {most:.2}{worst}",
        losses.len(),
        within(1.05),
        within(1.1),
        within(1.2)
    )
}

/// What `auto` chooses, on the problems of the committed records, among the ways that were timed there.
#[test]
fn the_choice_costs_little_on_recorded_problems_of_an_h100() {
    for (dtype, at_least) in [("f32", 0.89), ("f16", 0.85)] {
        let path = format!("results/h100-auto-shapes-{dtype}.json");
        let text = std::fs::read_to_string(&path).expect("it is committed");
        let read: Vec<Explained> = serde_json::from_str(&text).expect("what --explain wrote");
        let problems: Vec<_> = read.into_iter().filter_map(Problem::of).collect();
        let device = gpu();
        let losses: Vec<_> = problems.iter().map(|problem| problem.loss(Constants::of(&device), &device).0).collect();
        let within = losses.iter().filter(|loss| **loss <= 1.1).count() as f64 / losses.len() as f64;
        let most = losses.iter().copied().fold(1.0, f64::max);
        assert!(
            losses.len() > 100 && within >= at_least && most < 1.7,
            "{dtype}: {within:.3} within 1.10, {most:.2} at most"
        );
    }
}

#[test]
#[ignore = "a tool: scripts/fit-auto"]
fn fit() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let device = if variable("FIT_SOFTWARE").is_empty() { gpu() } else { software_device() };
    let read = |path: &str| {
        let text = std::fs::read_to_string(path).expect("a file of bench --explain --json");
        serde_json::from_str::<Vec<Explained>>(&text).expect("what --explain wrote").into_iter().filter_map(Problem::of)
    };
    let of = |name| variable(name).split_whitespace().flat_map(read).collect::<Vec<_>>();
    let [fitted_to, judged_by] = ["FIT_TO", "FIT_JUDGE"].map(of);
    let before = Constants::of(&device);
    let regret =
        |constants: &Constants| fitted_to.iter().map(|problem| problem.regret(constants, &device)).sum::<f64>();
    let document = match variable("FIT_FROM") {
        none if none.is_empty() => serde_json::to_value(before).expect("numbers"),
        path => serde_json::from_str(&std::fs::read_to_string(path).expect("constants")).expect("numbers"),
    };
    let after = fitted(document, regret);
    let mut out = String::new();
    for (name, constants) in [("before", before), ("after", &constants(&after))] {
        for (what, problems) in [("fitted to", &fitted_to), ("judged by", &judged_by)] {
            out += &told(&format!("{name}, {what}"), problems, constants, &device);
            out.push('\n');
        }
    }
    println!("{out}\n{}", serde_json::to_string_pretty(&after).expect("numbers"));
}
