//! Which variants to ship for a fleet: the fastest of each problem on each device, and the fewest variants that lose
//! little.

use super::bench::{median, row};
use super::fastest::{self, TimeRatio};
use crate::basis::alike::{distinct, grouped};
use crate::basis::layout::Layout;
use crate::basis::size::Size;
use crate::case::method::CacheState;
use crate::case::tile::CaseTile;
use crate::device::capability::DeviceKind;
use crate::record::class::Class;
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Case, Measured, Outcome, Record};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Ratio of two medians beyond which uncertain times are no tie: they have to be measured again.
const MAX_TIED_RATIO: f64 = 1.5;

/// Name of the document's schema.
const SCHEMA: &str = "gpukern-choices/1";

/// Largest set of variants that is searched.
const MAX_SET: usize = 4;

/// Most variants among which sets are searched: those that win most.
const MAX_CANDIDATES: usize = 16;

/// Geometric mean of the losses up to which a larger set is not worth it.
const SMALL_LOSS: f64 = 1.01;

/// Kernels to ship, as a document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Choices {
    /// Schema name, `gpukern-choices/1`.
    schema: &'static str,
    /// Version of gpukern.
    version: &'static str,
    /// Each problem on each device, with its variants.
    problems: Vec<Race>,
    /// The best sets of one variant, of two and so on, for each kind of problem.
    pub sets: Vec<VariantSet>,
    /// Variants that were measured somewhere and, though nobody refused them, not everywhere.
    #[serde(skip)]
    pub(super) gaps: Vec<Gap>,
}

/// Variant of a kind of problem that some record did not measure: no set counts on it there.
#[derive(Debug, PartialEq)]
pub(super) struct Gap {
    pub(super) problem: String,
    pub(super) variant: String,
    /// Why, for each size and device: `not measured on phone at 512`.
    pub(super) reasons: Vec<String>,
}

/// Variants of a problem on a device.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Race {
    /// The kind of problem: `matmul f32 nt, cold caches`.
    pub(super) problem: String,
    /// Its algorithm, or the name of your kernels.
    algorithm: String,
    /// Its element type.
    dtype: String,
    /// Layout of the operands of a product, unless it is `nn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<String>,
    /// Whether the caches were cold.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cold: bool,
    /// Its size.
    pub(super) size: String,
    /// The extents of its size: one, or M, N and K; those of your own kernels' axes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extents: Vec<u64>,
    /// The device's name.
    pub(super) device: String,
    /// PCI or Khronos id of the vendor.
    vendor_id: u32,
    /// The vendor's id of the device.
    device_id: u32,
    /// The driver's version.
    driver: String,
    /// The fastest variants without a caveat, the fastest first: several if their times are too close to tell. Take the first, which
    /// has the shortest median, as `auto` does: no other is known to be faster. Any of the others serves as well, such as one that you
    /// ship for another size. Beside the first, none with too few samples (no `error`) or beyond 1.5 times its median is among them,
    /// though tables name those too. Empty if no variant has a right answer there.
    pub(super) fastest: Vec<String>,
    /// All that are too close to the fastest to tell, as the table of one device has them, beside the fastest.
    #[serde(skip)]
    pub(super) tied: Vec<String>,
    /// Why the times do not tell for certain which variant is the fastest; absent if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    undecided: Option<Undecided>,
    /// All variants with a verified answer and a time, the fastest first.
    variants: Vec<TimedVariant>,
    /// Variants that are wrong there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<String>,
    /// Variants that the driver or the device failed to run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<String>,
    /// Variants without a time, also those that the device cannot run, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    untimed: Vec<UntimedVariant>,
}

/// Variant without a time there, though it was asked for or has one elsewhere.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct UntimedVariant {
    /// Its name.
    variant: String,
    /// Id of the case; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// How the case ended: `skipped`, `rejected`, `failed`, `crashed`, `timed out` or `interrupted`; or `not measured`.
    status: &'static str,
    /// Why; absent if it was interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl UntimedVariant {
    fn of(case: &Case) -> Self {
        let Case { variant, id, outcome, .. } = case;
        Self { variant: variant.clone(), id: Some(id.clone()), status: outcome.status(), reason: outcome.reason() }
    }
}

/// Why the fastest variant of a problem is uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Undecided {
    /// Of a variant that may be the fastest, the samples are too few for an interval; a longer --max-time takes more.
    TooFewSamples,
    /// The intervals of several variants overlap, or nearly.
    TooClose,
    /// No other variant was timed, so none was faster or slower.
    OnlyOneTimed,
}

impl Undecided {
    /// Returns why nobody can tell which of `count` variants is the fastest, if all times are certain or not, and others ran or not.
    fn of(count: usize, are_certain: bool, has_rivals: bool) -> Option<Self> {
        match count {
            _ if !are_certain => Some(Self::TooFewSamples),
            1 if !has_rivals => Some(Self::OnlyOneTimed),
            0 | 1 => None,
            _ => Some(Self::TooClose),
        }
    }
}

/// Time of a variant.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
struct TimedVariant {
    /// Its name.
    variant: String,
    /// The variant that `auto` chose, by its name in sets: `matmul:gemv`; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<String>,
    /// Its chosen constants and sub-group size: `{"A": "2"}` of `k[A=2]`; absent without a choice, and in older records.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    choice: BTreeMap<String, String>,
    /// Id of the case.
    id: String,
    /// Median time in nanoseconds.
    time: f64,
    /// The longer half of the median's 95 % interval, relative to the median; absent if there are too few samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    /// The time divided by that of the fastest without a caveat; absent if all have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    /// Shortcuts by which its answer differs from the plain one's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    caveats: Vec<String>,
    /// Which wrong answers its check would accept; absent if it found none.
    #[serde(skip_serializing_if = "Option::is_none")]
    weak_check: Option<String>,
    /// The tile or block width with its origin, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tile: Option<CaseTile>,
    /// The numbers of the tile: those of the block per work-group, per sub-group, per operation of a matrix unit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tile_extents: Vec<Vec<u32>>,
    /// Marks beside the time in tables: reasons to be careful with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<Mark>,
    /// Remarks on the case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl TimedVariant {
    /// Returns the name of what would be shipped.
    fn name(&self) -> &str {
        self.chosen.as_ref().unwrap_or(&self.variant)
    }
}

/// Set of variants that together solve every problem of a kind that any variant solves, with what it loses to the fastest.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct VariantSet {
    /// The kind of problem: `matmul f32`.
    pub(super) problem: String,
    /// The variants; of `auto`, those that it chose.
    pub variants: Vec<String>,
    /// Geometric mean of the time of the set's best variant divided by that of the fastest: over the sizes of each device, and of
    /// these over the devices, however many sizes each has.
    pub geometric_mean: f64,
    /// The largest of these ratios.
    pub worst: f64,
    /// The size of the largest.
    pub worst_size: String,
    /// The device of the largest.
    pub(super) worst_device: String,
    /// The sizes and devices where no variant has a right answer without a caveat: `64x512x512 on SwiftShader`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unsolved: Vec<String>,
}

impl Choices {
    /// Collects the choices that `records` allow. Of several records of a device and driver, that with the most variants
    /// of a problem counts, and of these the newest.
    pub fn new(records: &[&Record]) -> Self {
        let mut problems = races(records);
        let gaps = add_gaps(&mut problems);
        let sets = grouped(&problems, |race| race.problem.as_str()).iter().flat_map(|races| sets(races)).collect();
        Self { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), problems, sets, gaps }
    }

    /// Whether there is nothing to choose from.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Adds to each race the variants that have a time elsewhere and no case there, and returns them by kind of problem.
fn add_gaps(races: &mut [Race]) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = vec![];
    let timed = |race: &Race| race.variants.iter().map(|own| own.name().to_string()).collect::<Vec<_>>();
    let all = distinct(races.iter().flat_map(|race| timed(race).into_iter().map(|name| (race.problem.clone(), name))));
    for (problem, variant) in all {
        let has_case =
            |race: &Race| timed(race).contains(&variant) || race.untimed.iter().any(|own| own.variant == variant);
        let mut reasons = vec![];
        for race in races.iter_mut().filter(|race| race.problem == problem && !has_case(race)) {
            let reason = format!("not measured on {} at {}", race.device, race.size);
            reasons.push(reason.clone());
            let (variant, reason) = (variant.clone(), Some(reason));
            race.untimed.push(UntimedVariant { variant, id: None, status: "not measured", reason });
        }
        if !reasons.is_empty() {
            gaps.push(Gap { problem, variant, reasons });
        }
    }
    gaps
}

/// Names the state of the caches, for a heading, if it is not the usual one.
fn caches(record: &Record) -> &'static str {
    if record.method.cache == CacheState::Cold { ", cold caches" } else { "" }
}

/// Returns the races of the kinds of problems that two variants or more solve, or try to, at any size on any device, in the order
/// of the records. A size or a device where only one is right has a race, too: sets must solve it.
pub(super) fn races(records: &[&Record]) -> Vec<Race> {
    let is_wrong = |case: &Case| matches!(case.outcome, Outcome::Rejected(_));
    // A mistake, such as a reference that is not installed, says nothing about a variant.
    let is_mistake = |case: &Case| matches!(case.outcome, Outcome::Failed { mistake: true, .. });
    let is_rejected = |case: &Case| is_wrong(case) || case.outcome.failure().is_some() && !is_mistake(case);
    let all = records.iter().flat_map(|record| record.cases.iter().map(|case| (*record, case)));
    let all = all.filter(|(record, case)| !is_of_host(record, case) && !is_verified_only(case));
    let mut untimed = untimed(all.clone());
    let has_result = |case: &Case| case.is_verified() || is_rejected(case);
    // A problem that a run did not come to, or that a device cannot solve, is one that sets must solve, too.
    let all: Vec<_> =
        all.filter(|(_, case)| has_result(case) || is_skipped(case) || case.outcome == Outcome::Interrupted).collect();
    let contested = contested(&all);
    let mut races = vec![];
    for problem in grouped(all, |own| (kind(own), row(own.1))) {
        if !contested.contains(&kind(&problem[0])) || problem.iter().all(|(_, case)| is_skipped(case)) {
            continue;
        }
        for of_device in grouped(problem, |(record, case)| (record.device_name(case.device), driver(record, case))) {
            let by_record = grouped(of_device, |(record, _)| std::ptr::from_ref(*record));
            let results =
                |of_record: &[(&Record, &Case)]| of_record.iter().filter(|(_, case)| has_result(case)).count();
            let newest = by_record.into_iter().max_by_key(|own| (results(own), own[0].0.started.clone()));
            let Some(of_record) = newest else { continue };
            let (record, first) = of_record[0];
            let names_of = |cases: &[&Case], wrong: bool| {
                cases.iter().filter(|case| is_wrong(case) == wrong).map(|case| case.variant.clone()).collect()
            };
            let cases = of_record.iter().map(|(_, case)| *case).filter(|case| has_result(case));
            let (cases, rejected): (Vec<&Case>, Vec<&Case>) = cases.partition(|case| case.is_verified());
            let alone = || cases.iter().filter(|case| Class::of(case).is_exact()).map(|case| &*case.variant).collect();
            let mut names: Vec<&str> = fastest::winners(record, &cases, &Class::default()).unwrap_or_else(alone);
            // Times that are hardly known exclude next to nothing, not even a variant that takes twice as long.
            let is_certain = |name: &str| cases.iter().any(|case| case.variant == name && error(case).is_some());
            let has_rivals = cases.len() + rejected.len() > 1;
            let undecided = Undecided::of(names.len(), names.iter().all(|name| is_certain(name)), has_rivals);
            let tied = names.iter().map(ToString::to_string).collect();
            let shortest = names.first().copied();
            let most = MAX_TIED_RATIO * time(&cases, shortest.unwrap_or_default());
            names.retain(|name| Some(*name) == shortest || is_certain(name) && time(&cases, name) <= most);
            let info = record.device(first.device);
            races.push(Race {
                problem: first.subject() + caches(record),
                algorithm: first.algorithm.clone(),
                dtype: first.dtype.to_string(),
                layout: (first.layout != Layout::default()).then(|| first.layout.to_string()),
                cold: record.method.cache == CacheState::Cold,
                size: row(first),
                extents: first.size.known().map_or_else(Vec::new, Size::extents),
                device: record.device_name(first.device),
                vendor_id: info.map_or(0, |info| info.vendor_id),
                device_id: info.map_or(0, |info| info.device_id),
                driver: driver(record, first),
                fastest: names.into_iter().map(String::from).collect(),
                tied,
                undecided,
                variants: timed(record, &cases),
                rejected: names_of(&rejected, true),
                failed: names_of(&rejected, false),
                untimed: untimed.remove(&key(record, first)).unwrap_or_default(),
            });
        }
    }
    races
}

fn is_skipped(case: &Case) -> bool {
    matches!(case.outcome, Outcome::Skipped { .. })
}

/// Kind of problem of a case, with the state of its caches.
fn kind((record, case): &(&Record, &Case)) -> (String, &'static str) {
    (case.kind(), caches(record))
}

/// Returns the kinds of problems that two variants or more may solve.
fn contested(all: &[(&Record, &Case)]) -> HashSet<(String, &'static str)> {
    let by_kind = grouped(all.iter().filter(|(_, case)| !is_skipped(case)), |own| kind(own)).into_iter();
    let has_rivals = |cases: &Vec<_>| distinct(cases.iter().map(|own: &&(&Record, &Case)| &*own.1.variant)).len() > 1;
    by_kind.filter(has_rivals).map(|cases| kind(cases[0])).collect()
}

/// Whether a case has only the time of its verified run, as those of `verify` do, by which nobody chooses.
fn is_verified_only(case: &Case) -> bool {
    case.measured().is_some() && case.timed().is_none()
}

/// Whether a case is one of the host's own baselines, which nobody ships.
fn is_of_host(record: &Record, case: &Case) -> bool {
    record.device(case.device).is_none_or(|device| device.kind == DeviceKind::Host)
}

/// Names the version of the driver of a case.
fn driver(record: &Record, case: &Case) -> String {
    record.device(case.device).map_or_else(String::new, |device| device.driver.info.clone())
}

/// Problem of a record on a device.
type Key = (*const Record, usize, String, String);

fn key(record: &Record, case: &Case) -> Key {
    (std::ptr::from_ref(record), case.device, case.kind(), row(case))
}

/// Returns the variants without a time, by problem.
fn untimed<'r>(all: impl Iterator<Item = (&'r Record, &'r Case)>) -> HashMap<Key, Vec<UntimedVariant>> {
    let mut untimed: HashMap<_, Vec<_>> = HashMap::new();
    for (record, case) in all.filter(|(_, case)| median(case).is_none()) {
        untimed.entry(key(record, case)).or_default().push(UntimedVariant::of(case));
    }
    untimed
}

/// Returns the median of a variant.
fn time(cases: &[&Case], variant: &str) -> f64 {
    let of_variant = cases.iter().find(|case| case.variant == variant);
    of_variant.and_then(|case| median(case)).map_or(f64::INFINITY, |time| time.0)
}

/// Returns the longer half of a median's interval, relative to the median.
fn error(case: &Case) -> Option<f64> {
    case.measured().and_then(|measured| measured.summary.relative_error())
}

/// Lists the variants with a time, the fastest first.
fn timed(record: &Record, cases: &[&Case]) -> Vec<TimedVariant> {
    let conditions = RunConditions::of(record);
    let mut timed: Vec<(&Case, f64)> = cases.iter().filter_map(|case| Some((*case, median(case)?.0))).collect();
    timed.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let exact: Vec<&Case> = timed.iter().map(|(case, _)| *case).filter(|case| Class::of(case).is_exact()).collect();
    let best = fastest::best_of(&exact);
    let variant = |(case, time): &(&Case, f64)| TimedVariant {
        variant: case.variant.clone(),
        chosen: case.chosen_by_auto.clone(),
        choice: case.choice.clone(),
        id: case.id.clone(),
        time: *time,
        error: error(case),
        ratio: best.and_then(|best| TimeRatio::of(best, case)).map(|ratio| ratio.ratio),
        caveats: Class::of(case).caveats().into_iter().map(|mark| mark.sign.into_owned()).collect(),
        weak_check: case.measured().and_then(Measured::weak_check),
        tile: case.tile.clone(),
        tile_extents: case.tile.as_ref().map_or_else(Vec::new, CaseTile::extents),
        marks: conditions.marks(case),
        notes: case.notes.clone(),
    };
    timed.iter().map(variant).collect()
}

/// Returns the best sets of each size for the races of a kind of problem, up to the one that loses next to nothing. Only
/// variants without a caveat take part, and a set has one for every race that has any.
fn sets(races: &[&Race]) -> Vec<VariantSet> {
    let exact = |race: &'_ Race| race.variants.iter().filter(|own| own.caveats.is_empty()).count();
    let (races, unsolved): (Vec<&Race>, Vec<&Race>) = races.iter().copied().partition(|race| exact(race) > 0);
    let unsolved: Vec<_> = unsolved.iter().map(|race| format!("{} on {}", race.size, race.device)).collect();
    let wins = |name: &str| {
        let is_won = |race: &&&Race| {
            let mut own = race.variants.iter().filter(|own| own.name() == name);
            own.any(|own| race.fastest.contains(&own.variant))
        };
        races.iter().filter(is_won).count()
    };
    let own = races.iter().flat_map(|race| race.variants.iter().filter(|own| own.caveats.is_empty()));
    let mut names = distinct(own.map(TimedVariant::name));
    names.sort_by_key(|name| std::cmp::Reverse(wins(name)));
    names.truncate(MAX_CANDIDATES);
    // Logarithms of the ratios of each variant, one for each race.
    let ratios: Vec<Vec<f64>> = names.iter().map(|name| races.iter().map(|race| loss(race, name)).collect()).collect();
    let devices = distinct(races.iter().map(|race| race.device.as_str()));
    let on_device = |device: &str| races.iter().filter(|race| race.device == device).count() * devices.len();
    let weights: Vec<f64> = races.iter().map(|race| 1.0 / on_device(&race.device) as f64).collect();
    let mut best_sets: Vec<VariantSet> = vec![];
    for count in 1..=names.len().min(MAX_SET) {
        let mut best: Option<(f64, Vec<usize>)> = None;
        for set in combinations(names.len(), count) {
            let total: f64 = (0..races.len()).map(|race| weights[race] * of_set(&set, &ratios, race)).sum();
            if total.is_finite() && best.as_ref().is_none_or(|(least, _)| total < *least) {
                best = Some((total, set));
            }
        }
        let Some((total, set)) = best else { continue };
        let losses = (0..races.len()).map(|race| (race, of_set(&set, &ratios, race)));
        // Of equal losses, the first one counts.
        let Some((worst, loss)) = losses.rev().max_by(|(_, a), (_, b)| a.total_cmp(b)) else { break };
        let geometric_mean = total.exp();
        best_sets.push(VariantSet {
            problem: races[0].problem.clone(),
            variants: set.iter().map(|index| names[*index].to_string()).collect(),
            geometric_mean,
            worst: loss.exp(),
            worst_size: races[worst].size.clone(),
            worst_device: races[worst].device.clone(),
            unsolved: unsolved.clone(),
        });
        if geometric_mean < SMALL_LOSS {
            break;
        }
    }
    best_sets
}

/// Returns the logarithm of what a variant loses in a race; infinity if it is not in it.
fn loss(race: &Race, variant: &str) -> f64 {
    let own = race.variants.iter().find(|own| own.name() == variant && own.caveats.is_empty());
    own.and_then(|own| own.ratio).map_or(f64::INFINITY, f64::ln)
}

fn of_set(set: &[usize], ratios: &[Vec<f64>], race: usize) -> f64 {
    set.iter().map(|variant| ratios[*variant][race]).fold(f64::INFINITY, f64::min)
}

/// Returns the sets of `count` of the numbers below `all`, in lexical order.
fn combinations(all: usize, count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let mut sets = vec![];
    for last in count - 1..all {
        for mut set in combinations(last, count - 1) {
            set.push(last);
            sets.push(set);
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::{case, four_cases, measured_mut, timed};
    use crate::stats::Summary;
    use serde_json::Value;

    fn race(device: &str, size: &str, times: &[(&str, f64)]) -> Race {
        let best = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let variant = |&(name, time): &(&str, f64)| {
            let (variant, ratio) = (name.into(), Some(time / best));
            TimedVariant { variant, time, ratio, ..TimedVariant::default() }
        };
        let fastest = times.iter().filter(|(_, time)| *time == best).map(|(name, _)| (*name).into()).collect();
        let (problem, size, device) = ("matmul f32".into(), size.into(), device.into());
        let variants = times.iter().map(variant).collect();
        Race { problem, size, device, fastest, variants, ..Race::default() }
    }

    /// Returns a record of two variants: `naive`, which takes 100 µs, and `local`, which takes this many.
    fn rivals(local: f64) -> Record {
        let cases = [("naive", 100.0), ("local", local)].map(|(name, time)| case(name, timed(time, vec![])));
        Record { cases: cases.into(), ..four_cases() }
    }

    fn at_512(case: &Case) -> Case {
        Case { size: "512".into(), ..case.clone() }
    }

    #[test]
    fn the_best_set_of_each_size_loses_least_and_solves_every_problem() {
        let races = [
            race("A", "1x64x64", &[("gemv", 1.0), ("texel", 4.0), ("tiled", 8.0)]),
            race("A", "64", &[("texel", 1.0), ("tiled", 2.0)]),
            race("B", "64", &[("texel", 3.0), ("tiled", 1.0)]),
            // No variant is right there, which no set can change.
            race("C", "64", &[]),
        ];
        let alone = race("D", "64", &[("texel", 9.0)]);
        let sets = sets(&races.iter().collect::<Vec<_>>());
        let told: Vec<_> =
            sets.iter().map(|set| (set.variants.join("+"), (set.geometric_mean * 100.0).round())).collect();
        // `gemv` alone cannot solve the others; all three lose nothing. A, with two sizes, weighs no more than B: over the three
        // sizes, `texel` would lose less than `tiled`.
        assert_eq!(told, [("tiled".into(), 200.0), ("gemv+tiled".into(), 119.0), ("gemv+texel+tiled".into(), 100.0)]);
        assert_eq!((sets[0].worst.round(), &*sets[0].worst_size, &*sets[0].worst_device), (8.0, "1x64x64", "A"));
        assert_eq!((sets[1].worst.round(), &*sets[1].worst_size, &*sets[1].worst_device), (2.0, "64", "A"));
        // A device with one variant needs it, however fast the others are elsewhere.
        let races = [races[1..].iter().take(2).collect::<Vec<_>>(), vec![&alone]].concat();
        assert_eq!(super::sets(&races)[0].variants, ["texel"]);
    }

    #[test]
    fn a_size_that_only_one_variant_solves_is_a_problem_too() {
        let mut record = rivals(50.0);
        let skipped = Outcome::Skipped { reason: "needs a square".into(), unsupported: true };
        record.cases.extend([at_512(&record.cases[0]), at_512(&case("local", skipped))]);
        let choices = Choices::new(&[&record]);
        assert_eq!(choices.problems.iter().map(|race| &*race.size).collect::<Vec<_>>(), ["64", "512"]);
        let sets: Vec<_> = choices.sets.iter().map(|set| set.variants.join("+")).collect();
        assert_eq!(sets, ["naive", "local+naive"]);
    }

    #[test]
    fn a_set_names_what_auto_chose() {
        let mut races = [
            race("A", "1x64x64", &[("matmul:auto", 1.0), ("own", 2.0)]),
            race("A", "64", &[("matmul:auto", 1.0), ("own", 2.0)]),
        ];
        for (race, chosen) in races.iter_mut().zip(["matmul:gemv", "matmul:tiled"]) {
            race.variants[0].chosen = Some(chosen.into());
        }
        let sets = sets(&races.iter().collect::<Vec<_>>());
        let names: Vec<_> = sets.iter().map(|set| set.variants.join("+")).collect();
        assert_eq!(names, ["own", "matmul:gemv+matmul:tiled"]);
    }

    #[test]
    fn variants_without_a_time_are_there_with_their_reasons() {
        let mut record = rivals(50.0);
        record.cases.push(case("subgroup", Outcome::Skipped { reason: "needs int8".into(), unsupported: true }));
        record.cases.push(case("split", Outcome::failed("SIGILL".into())));
        let document = serde_json::to_value(Choices::new(&[&record])).expect("JSON");
        let untimed = document["problems"][0]["untimed"].as_array().expect("a list");
        let told: Vec<_> = untimed.iter().map(|own| [&own["variant"], &own["status"], &own["reason"]]).collect();
        assert_eq!(told, [["subgroup", "skipped", "needs int8"], ["split", "failed", "SIGILL"]]);
    }

    #[test]
    fn a_variant_that_a_record_did_not_measure_is_said_to_be_missing_there() {
        let mut record = rivals(50.0);
        record.cases.extend([at_512(&record.cases[0]), at_512(&record.cases[1])]);
        let mut phone = record.clone();
        phone.devices[0].name = "phone".into();
        phone.cases.truncate(3);
        // A variant that failed is not one that nobody asked for.
        phone.cases[1].outcome = Outcome::failed("SIGILL".into());
        let choices = Choices::new(&[&record, &phone]);
        let (problem, reasons) = (choices.problems[0].problem.clone(), vec!["not measured on phone at 512".into()]);
        assert_eq!(choices.gaps, [Gap { problem, variant: "local".into(), reasons }]);
        let document = serde_json::to_value(&choices).expect("JSON");
        let of_phone = document["problems"].as_array().expect("a list").iter().filter(|race| race["device"] == "phone");
        let untimed: Vec<_> = of_phone.map(|race| race["untimed"][0].clone()).collect();
        let told: Vec<_> = untimed.iter().map(|own| [&own["status"], &own["reason"]]).collect();
        assert_eq!(told, [["failed", "SIGILL"], ["not measured", "not measured on phone at 512"]], "{document}");
        let text = crate::report::fleet::text(&[&record, &phone], 200);
        assert!(text.contains("no set relies on local where it has no time: not measured on phone at 512"), "{text}");
    }

    #[test]
    fn the_only_run_of_a_verified_case_is_no_time_to_choose_by() {
        let mut record = rivals(50.0);
        assert!(!Choices::new(&[&record]).is_empty());
        record.cases.iter_mut().for_each(|case| measured_mut(case).samples.clear());
        assert!(Choices::new(&[&record]).is_empty());
    }

    #[test]
    fn sizes_that_a_run_did_not_come_to_and_devices_that_run_nothing_are_unsolved() {
        let [mut record, mut phone] = [rivals(50.0), four_cases()];
        let interrupted = ["naive", "local"].map(|variant| case(variant, Outcome::Interrupted));
        record.cases.extend(interrupted.iter().map(at_512));
        phone.devices[0].name = "phone".into();
        let skipped = |variant| case(variant, Outcome::Skipped { reason: "needs f16".into(), unsupported: true });
        phone.cases = ["naive", "local"].map(skipped).into();
        let choices = Choices::new(&[&record, &phone]);
        assert_eq!(choices.sets[0].unsolved, ["64 on phone", "512 on software"]);
        let reasons: Vec<_> = choices.problems.iter().map(|race| race.untimed.len()).collect();
        assert_eq!(reasons, [0, 2, 2]);
        // An interrupted run does not take the place of a complete one.
        record.started = "2027-01-01T00:00:00Z".into();
        record.cases = interrupted.into();
        assert_eq!(Choices::new(&[&rivals(50.0), &record]).sets[0].unsolved, [""; 0]);
    }

    #[test]
    fn a_choice_that_the_times_do_not_settle_says_why() {
        let document = |local: f64, samples: usize| {
            let mut record = rivals(local);
            let measured = measured_mut(&mut record.cases[1]);
            let times: Vec<_> = measured.samples.iter().take(samples).map(|sample| sample.time).collect();
            measured.summary = Summary::of(&times).expect("samples");
            measured.samples.truncate(samples);
            Choices::new(&[&record])
        };
        // The table over devices names what that of one device names.
        let Race { tied, fastest, .. } = document(104.0, 2).problems.remove(0);
        assert_eq!((tied, fastest), (vec!["naive".into(), "local".into()], vec!["naive".to_string()]));
        let signs =
            |samples| document(50.0, samples).problems[0].variants[0].marks.iter().map(|m| m.sign.clone()).collect();
        let [few, enough]: [Vec<_>; 2] = [2, 6].map(signs);
        assert!(few.contains(&"?".into()) && !enough.contains(&"?".into()), "{few:?} {enough:?}");
        let undecided = |local: f64, samples: usize| {
            let mut json = serde_json::to_value(document(local, samples)).expect("JSON");
            json["problems"][0]["undecided"].take()
        };
        assert_eq!(undecided(50.0, 6), Value::Null);
        assert_eq!(undecided(100.0, 6), "too-close");
        assert_eq!(undecided(50.0, 2), "too-few-samples");
        let mut alone = rivals(50.0);
        alone.cases.push(at_512(&alone.cases[0]));
        let problems = serde_json::to_value(Choices::new(&[&alone])).expect("JSON")["problems"].take();
        assert_eq!((&problems[0]["undecided"], &problems[1]["undecided"]), (&Value::Null, &"only-one-timed".into()));
    }

    #[test]
    fn combinations_are_all_and_distinct() {
        assert_eq!(combinations(4, 2).len(), 6);
        assert_eq!(distinct(combinations(6, 3)).len(), 20);
        assert_eq!(combinations(3, 1), [[0], [1], [2]]);
    }

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<Choices>();
        crate::basis::fixture::assert_committed("docs/choices.schema.json", &schema);
    }
}
