//! The limits of a device as they were measured: the document that `gpukern peak` prints and keeps, and records have
//! a part of; and the share of a limit that a case reaches.

pub use crate::case::quantity::{Direction, Operation, Quantity};

use super::{Case, Conditions, Limit, Outcome, Share};
use crate::basis::dtype::DType;
use crate::basis::units::{Bytes, Nanos};
use crate::case::Computes;
use crate::case::quantity::{Bounds, Pattern, Unit};
use crate::device::capability::DeviceInfo;
use crate::stats::{self, Summary};
use serde::{Deserialize, Serialize};

/// Name and version of the schema: the number changes when a reader of the old one would misread the new one.
pub const SCHEMA: &str = "gpukern-peak/1";

/// The measured limits of one device with one driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Peak {
    /// `gpukern-peak/1`.
    pub schema: String,
    /// Version of gpukern.
    pub version: String,
    /// When it was measured (RFC 3339, UTC).
    pub measured: String,
    /// How much was measured.
    pub extent: Extent,
    /// The device's name.
    pub device: String,
    /// Its UUID.
    pub uuid: String,
    /// The driver's description of its version.
    pub driver: String,
    /// Limits that were found.
    pub figures: Vec<Figure>,
    /// Limits that the device lacks, or that failed, with the reason.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// The levels of memory that the read bandwidths show, from the fastest.
    #[serde(default)]
    pub levels: Vec<Level>,
}

/// How much of a device was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// Limits that shares need, in about two seconds.
    Quick,
    /// Everything.
    Full,
}

/// One measured limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Figure {
    /// Measured quantity.
    pub quantity: Quantity,
    /// The best that was seen, in the unit of the quantity: the fastest sample of the fastest variant.
    pub best: f64,
    /// The median of that variant's samples.
    pub median: f64,
    /// Between which the limit lies: a best that is off from its median by a ratio may be beaten by as much, and by as
    /// much as the canary was slower than at its best. A time beside busy programs has no lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The canary's time meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Nanos>,
    /// Whether the device was much slower than at its best, or others took a part of it: such a figure is not kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
    /// The id of that case.
    pub case: String,
}

/// A level of the memory hierarchy as a staircase of bandwidths shows it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Level {
    /// The largest working set that has it; `null` for the last one, memory itself.
    pub up_to: Option<Bytes>,
    /// Median of the read bandwidths of its working sets, in bytes a second.
    pub bandwidth: f64,
}

/// A limit that has no figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Missing {
    /// The case that would have measured it.
    pub case: String,
    /// Why it has none.
    pub reason: String,
}

impl Peak {
    /// Returns the limits of `device` from the cases of its probes. Each figure is the best of several variants.
    pub fn new(device: &DeviceInfo, extent: Extent, measured: String, cases: &[Case]) -> Self {
        let mut peak = Self {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            measured,
            extent,
            device: device.name.clone(),
            uuid: device.uuid.clone(),
            driver: device.driver.info.clone(),
            figures: vec![],
            missing: vec![],
            levels: vec![],
        };
        for case in cases {
            peak.add_case(case);
        }
        peak.levels = levels(&peak.bandwidths(Pattern::Read));
        peak
    }

    /// Adds the result of a probe.
    pub fn add_case(&mut self, case: &Case) {
        let missing = |reason: String| Missing { case: case.id.clone(), reason };
        match (&case.outcome, case.entry.limit) {
            (Outcome::Measured(measured), Some(quantity)) => {
                let figure = |time: Nanos| match quantity.unit() {
                    Unit::Nanoseconds => case.shown(time).0,
                    Unit::BytesPerSecond => case.work.bandwidth(time).0,
                    Unit::OperationsPerSecond | Unit::IntegerOperationsPerSecond | Unit::AdditionsPerSecond => {
                        case.work.rate(time).0
                    }
                };
                let Summary { min, median, .. } = measured.summary;
                self.add(Figure::new(quantity, [min, median].map(figure), &measured.conditions, case.id.clone()));
            }
            (Outcome::Rejected(verification), _) => {
                self.missing.push(missing(format!("its answer is wrong: {}", verification.worst)));
            }
            (outcome, _) => self.missing.extend(outcome.reason().map(missing)),
        }
    }

    /// Adds a figure, or replaces a worse one of the same quantity: a rate that was reached once is possible, even on a
    /// disturbed device.
    pub fn add(&mut self, figure: Figure) {
        let Some(known) = self.figures.iter_mut().find(|known| known.quantity == figure.quantity) else {
            self.figures.push(figure);
            return;
        };
        if figure.is_better_than(known) {
            *known = figure;
        }
    }

    /// Returns the figures that are better than those of `other`.
    pub fn better_than(&self, other: &Self) -> Vec<&Figure> {
        let is_better = |own: &&Figure| {
            let figure = other.figures.iter().find(|figure| own.quantity == figure.quantity);
            figure.is_some_and(|figure| own.is_better_than(figure))
        };
        self.figures.iter().filter(is_better).collect()
    }

    /// Adds the figures of `doubtful` that are of quantities without a figure, as disturbed. Of several such figures of a
    /// quantity the better one stays.
    pub fn complete(&mut self, doubtful: impl IntoIterator<Item = Figure>) {
        let known: Vec<_> = self.figures.iter().map(|figure| figure.quantity).collect();
        for figure in doubtful.into_iter().filter(|figure| !known.contains(&figure.quantity)) {
            self.add(Figure { disturbed: true, ..figure });
        }
        self.levels = levels(&self.bandwidths(Pattern::Read));
    }

    /// Adds the figures of `other`, measured on the same device.
    pub fn join(&mut self, other: Self) {
        for figure in other.figures {
            self.add(figure);
        }
        for missing in other.missing {
            if !self.missing.iter().any(|known| known.case == missing.case) {
                self.missing.push(missing);
            }
        }
        self.levels = levels(&self.bandwidths(Pattern::Read));
    }

    /// Returns the reliable part: figures from times when the device was undisturbed and its canary close to `best`.
    pub fn sound(&self, best: Option<Nanos>) -> Self {
        let is_slow = |canary: Nanos| best.is_some_and(|best| canary.0 > MAX_SLOWNESS * best.0);
        let mut sound = self.clone();
        sound.figures.retain(|figure| !figure.disturbed && !figure.canary.is_some_and(is_slow));
        sound.levels = levels(&sound.bandwidths(Pattern::Read));
        sound
    }

    /// Whether the quantity has a figure, or its case is known to have none.
    pub fn knows(&self, quantity: Quantity, case: &str) -> bool {
        self.figures.iter().any(|figure| figure.quantity == quantity) || self.missing.iter().any(|m| m.case == case)
    }

    /// Returns the highest of the rates of quantities that `is_wanted` selects.
    fn best(&self, is_wanted: impl Fn(Quantity) -> bool) -> Option<&Figure> {
        let rates = self.figures.iter().filter(|figure| is_wanted(figure.quantity));
        rates.max_by(|a, b| a.best.total_cmp(&b.best))
    }

    /// Returns the best bandwidth of each working set for an access pattern, from the smallest set.
    pub fn bandwidths(&self, wanted: Pattern) -> Vec<(Bytes, f64)> {
        let mut bandwidths = vec![];
        for figure in &self.figures {
            if let Quantity::Bandwidth { pattern, working_set } = figure.quantity
                && pattern == wanted
            {
                bandwidths.push((working_set, figure.best));
            }
        }
        bandwidths.sort_by_key(|(working_set, _)| *working_set);
        bandwidths
    }

    /// Returns the highest rate of operations on this type: in itself, in a wider type, or on matrix units.
    pub fn arithmetic(&self, dtype: DType) -> Option<&Figure> {
        self.best(|quantity| match quantity {
            Quantity::Matrix { dtype: operands, .. } => operands == dtype,
            _ => is_plain_arithmetic(quantity, dtype),
        })
    }

    /// Returns the ratio of plain arithmetic's rate to a figure of matrix units, if the latter is slower.
    pub fn slower_than_plain(&self, figure: &Figure) -> Option<f64> {
        let Quantity::Matrix { dtype, .. } = figure.quantity else { return None };
        let plain = self.best(|quantity| is_plain_arithmetic(quantity, dtype))?;
        let ratio = plain.best / figure.best;
        (ratio > 1.0).then_some(ratio)
    }

    /// Returns the highest bandwidth for work that moves `bytes`, of which it writes `written`: the best of the largest
    /// working set that is no larger, and of all larger sets, because a smaller set can only be faster. Work that
    /// writes little is compared with reads only: a copy reads half of its set, so a cache may hold the half but not
    /// the whole.
    pub fn bandwidth(&self, bytes: Bytes, written: Bytes) -> Option<&Figure> {
        let only_reads = MIN_READ_RATIO * written.0 < bytes.0;
        let comparable_set = |quantity: Quantity| match quantity {
            Quantity::Bandwidth { pattern: Pattern::Read, working_set } => Some(working_set),
            Quantity::Bandwidth { working_set, .. } if !only_reads => Some(working_set),
            _ => None,
        };
        let sets: Vec<Bytes> = self.figures.iter().filter_map(|figure| comparable_set(figure.quantity)).collect();
        let no_larger = sets.iter().filter(|set| **set <= bytes).max();
        let smallest = *no_larger.or(sets.iter().min())?;
        self.best(|quantity| comparable_set(quantity).is_some_and(|set| set >= smallest))
    }

    /// Returns the shortest time of a launch that waits for the previous one.
    pub fn launch(&self) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.quantity == Quantity::Latency { of: Operation::DependentDispatch })
    }

    /// Returns the share of its hardware limit that a case with this median reaches. The limit is the one of
    /// arithmetic, memory and a single launch that takes longest; variants of a problem that compute in the same type
    /// have the same limit. `None` for a case without work or measured limits, and for a chain, whose operations wait
    /// for one another.
    pub fn share(&self, case: &Case, median: Nanos) -> Option<Share> {
        if case.chain.is_some() {
            return None;
        }
        let Computes { dtype, operations } = case.computed_in();
        let operations = (case.work.operations * operations) as f64;
        let bytes = case.work.bytes.0 as f64;
        let shares = [
            self.arithmetic(dtype).and_then(|rate| rate.share(Limit::Compute, operations, median)),
            self.bandwidth(case.work.bytes, case.written).and_then(|rate| rate.share(Limit::Memory, bytes, median)),
            self.launch().and_then(|time| time.share(Limit::Launch, 1.0, median)),
        ];
        shares.into_iter().flatten().max_by(|a, b| a.least.0.total_cmp(&b.least.0))
    }

    /// Returns the share of the case's own launches as a limit; `None` if the hardware limit takes longer.
    pub fn structure(&self, case: &Case, median: Nanos) -> Option<Share> {
        if case.chain.is_some() || case.launches <= 1 {
            return None;
        }
        let launches = self.launch()?.share(Limit::Launch, case.launches as f64, median)?;
        let hardware = self.share(case, median);
        if hardware.is_none_or(|share| launches.least.0 > share.least.0) { Some(launches) } else { None }
    }
}

/// Ratio of bytes read to bytes written from which the writes are negligible.
const MIN_READ_RATIO: u64 = 8;

/// Largest ratio of the canary's time to its best during a reliable figure. Not closer to 1, because kernels for matrix
/// units raise an H100's clock by 6 %, so its other limits are measured that much below its best.
const MAX_SLOWNESS: f64 = 1.1;

/// Largest share of the CPU that other programs may use during a reliable figure.
const MAX_OTHERS: f64 = 0.1;

/// Largest share of other programs that counts in an interval.
const MAX_TAKEN_SHARE: f64 = 0.95;

const NANOS_PER_SECOND: f64 = 1e9;

impl Figure {
    /// Returns a figure from the best and the median, with an interval from the conditions of the measurement.
    pub fn new(quantity: Quantity, [best, median]: [f64; 2], conditions: &Conditions, case: String) -> Self {
        let slowness = conditions.slowness().map_or(1.0, |slowness| slowness.max(1.0));
        // The canary's single work-group finds a free CPU core even when a kernel for all of them does not.
        let available = 1.0 - conditions.others.unwrap_or(0.0).clamp(0.0, MAX_TAKEN_SHARE);
        let scatter = best / median;
        let slowdown = slowness / available;
        let has_competitors = conditions.others.is_some_and(|others| others > MAX_OTHERS);
        let interval = match quantity.unit() {
            // A launch waits for threads to wake up, and beside busy ones for many times as long as they take of the CPU.
            Unit::Nanoseconds if has_competitors => [0.0, median],
            Unit::Nanoseconds => [best * scatter / slowdown, median],
            Unit::BytesPerSecond
            | Unit::OperationsPerSecond
            | Unit::IntegerOperationsPerSecond
            | Unit::AdditionsPerSecond => [median, best * scatter * slowdown],
        };
        let interval = interval.iter().all(|end| end.is_finite()).then_some(interval);
        let disturbed = slowness > MAX_SLOWNESS || has_competitors;
        Self { quantity, best, median, interval, canary: conditions.canary(), disturbed, case }
    }

    /// Whether smaller values are better.
    fn is_time(&self) -> bool {
        self.quantity.unit() == Unit::Nanoseconds
    }

    /// Whether its best is better than that of a figure of the same quantity.
    fn is_better_than(&self, other: &Self) -> bool {
        if self.is_time() { self.best < other.best } else { self.best > other.best }
    }

    /// Returns the share of this limit that a case with this median reaches; `None` if the limit takes no time. `amount`
    /// is the case's number of operations, bytes or launches.
    fn share(&self, limit: Limit, amount: f64, median: Nanos) -> Option<Share> {
        let least = |figure: f64| if self.is_time() { amount * figure } else { amount * NANOS_PER_SECOND / figure };
        let share = |figure: f64| least(figure) / median.0;
        let interval = self.interval.map(|[low, high]| {
            let [a, b] = [share(low), share(high)];
            [a.min(b), a.max(b)]
        });
        let interval = interval.filter(|ends| ends.iter().all(|end| end.is_finite()));
        let best = Share { limit, least: Nanos(least(self.best)), fraction: share(self.best), interval };
        if best.least.0 > 0.0 { Some(best) } else { None }
    }
}

/// Whether a figure of this quantity can be the limit of a case that computes in `dtype`.
pub fn may_limit(quantity: Quantity, limit: Limit, dtype: DType) -> bool {
    match quantity.facts().bounds {
        Bounds::Arithmetic => limit == Limit::Compute,
        Bounds::ArithmeticOf(of) => limit == Limit::Compute && of == dtype,
        Bounds::Memory => limit == Limit::Memory,
        Bounds::Launches => limit == Limit::Launch,
        Bounds::Nothing => false,
    }
}

/// Smallest share of a memory level's median bandwidth that still belongs to the level.
const MIN_LEVEL_SHARE: f64 = 0.7;

/// Derives the memory levels from the bandwidths of working sets. A single set between two levels belongs to neither.
fn levels(staircase: &[(Bytes, f64)]) -> Vec<Level> {
    let median_of = |step: &[(Bytes, f64)]| {
        stats::median(&step.iter().map(|(_, rate)| *rate).collect::<Vec<_>>()).unwrap_or_default()
    };
    let mut steps: Vec<Vec<(Bytes, f64)>> = vec![];
    for (set, rate) in staircase {
        match steps.last_mut() {
            Some(step) if *rate >= MIN_LEVEL_SHARE * median_of(step) => step.push((*set, *rate)),
            _ => steps.push(vec![(*set, *rate)]),
        }
    }
    let mut levels = vec![];
    for (index, step) in steps.iter().enumerate() {
        let is_last = index + 1 == steps.len();
        let is_edge = step.len() == 1 && index > 0 && !is_last;
        if !is_edge {
            let (largest, _) = step[step.len() - 1];
            levels.push(Level { up_to: (!is_last).then_some(largest), bandwidth: median_of(step) });
        }
    }
    levels
}

/// Whether the quantity is plain arithmetic that can compute elements of this type.
fn is_plain_arithmetic(quantity: Quantity, dtype: DType) -> bool {
    let wider = match dtype {
        // Which of several types the kernel computes in is unknown; it usually is f32.
        DType::F16 | DType::Bf16 | DType::Mixed => DType::F32,
        DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::U32 => DType::I32,
        other => other,
    };
    matches!(quantity, Quantity::Arithmetic { dtype: measured } if measured == dtype || measured == wider)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;

    fn figure(quantity: Quantity, best: f64) -> Figure {
        Figure::new(quantity, [best; 2], &Conditions::default(), String::new())
    }

    fn best(figure: Option<&Figure>) -> Option<f64> {
        figure.map(|figure| figure.best)
    }

    /// Returns limits of 100 GFLOP/s, 40 GB/s up to 16 KiB, 10 GB/s up to 1 MiB, and 1 µs per launch.
    fn peak() -> Peak {
        let mut peak = Peak::new(&software_device(), Extent::Full, String::new(), &[]);
        peak.add(figure(Quantity::Arithmetic { dtype: DType::F32 }, 100e9));
        peak.add(figure(Quantity::bandwidth(Pattern::Read, 1 << 12), 40e9));
        peak.add(figure(Quantity::bandwidth(Pattern::Read, 1 << 18), 10e9));
        peak.add(figure(Quantity::Latency { of: Operation::DependentDispatch }, 1e3));
        peak
    }

    fn case(operations: u64, bytes: u64, launches: u64) -> Case {
        let case = crate::record::fixture::four_cases().cases.remove(0);
        Case { work: crate::basis::units::Work { operations, bytes: Bytes(bytes) }, launches, ..case }
    }

    fn share(operations: u64, bytes: u64, launches: u64, micros: f64) -> (Limit, f64) {
        let share = peak().share(&case(operations, bytes, launches), Nanos(micros * 1e3));
        let share = share.expect("limits were measured");
        (share.limit, share.fraction)
    }

    #[test]
    fn the_limit_follows_the_type_of_the_arithmetic() {
        let mut peak = peak();
        peak.add(figure(Quantity::Matrix { dtype: DType::F16, narrow: false, m: 16, n: 16, k: 16 }, 800e9));
        let computes = Some(Computes { dtype: DType::F16, operations: 4 });
        let share = peak.share(&Case { computes, ..case(1_000_000, 0, 0) }, Nanos(20e3)).expect("limits were measured");
        assert_eq!((share.limit, share.fraction), (Limit::Compute, 0.25));
    }

    #[test]
    fn a_chain_whose_operations_wait_for_one_another_has_no_share() {
        let chain = Case { chain: Some(1000), ..case(1000, 1000, 4) };
        assert_eq!((peak().share(&chain, Nanos(5e3)), peak().structure(&chain, Nanos(5e3))), (None, None));
    }

    #[test]
    fn the_limit_with_the_longest_time_binds() {
        assert_eq!(share(1_000_000, 1000, 1, 20.0), (Limit::Compute, 0.5));
        assert_eq!(share(1000, 2 << 20, 1, 2.0 * 209.7152), (Limit::Memory, 0.5));
        assert_eq!(share(1000, 1000, 1, 5.0), (Limit::Launch, 0.2));
    }

    #[test]
    fn the_hardware_limit_ignores_the_number_of_launches() {
        assert_eq!([1, 4].map(|launches| share(1000, 1000, launches, 5.0)), [(Limit::Launch, 0.2); 2]);
        let [one, many] = [1, 4].map(|launches| case(1000, 1000, launches));
        let structure_of = |case: &Case| peak().structure(case, Nanos(5e3)).map(|share| (share.limit, share.fraction));
        assert_eq!((structure_of(&one), structure_of(&many)), (None, Some((Limit::Launch, 0.8))));
        // The arithmetic takes 10 µs, longer than the launches.
        assert_eq!(peak().structure(&case(1_000_000, 1000, 4), Nanos(20e3)), None);
    }

    #[test]
    fn the_interval_of_a_limit_covers_scatter_and_a_slow_canary() {
        let conditions = |canary: f64, others| Conditions {
            canary: Some([Nanos(canary); 2]),
            canary_best: Some(Nanos(1e3)),
            others,
            ..Conditions::default()
        };
        let rate = |conditions| {
            let quantity = Quantity::Arithmetic { dtype: DType::F32 };
            Figure::new(quantity, [102.0, 100.0], &conditions, String::new())
        };
        let interval = |figure: &Figure| figure.interval.expect("an interval").map(|end| (end * 100.0).round() / 100.0);
        let quiet = rate(conditions(1e3, Some(0.02)));
        assert_eq!((interval(&quiet), quiet.disturbed), ([100.0, 106.16], false));
        let slow = rate(conditions(1.5e3, None));
        assert_eq!((interval(&slow), slow.disturbed), ([100.0, 156.06], true));
        let shared = rate(conditions(1e3, Some(0.5)));
        assert_eq!((interval(&shared), shared.disturbed), ([100.0, 208.08], true), "others took a half");
        let quantity = Quantity::Latency { of: Operation::DependentDispatch };
        let launch = Figure::new(quantity, [100.0, 110.0], &conditions(1.5e3, None), String::new());
        assert_eq!(interval(&launch), [60.61, 110.0]);
        let mut peak = peak();
        peak.figures.clear();
        peak.add(slow);
        let share = peak.share(&case(1_000_000, 0, 1), Nanos(2e7)).expect("a limit");
        assert!(share.interval.is_some_and(|[low, high]| low < share.fraction && share.fraction < high), "{share:?}");
    }

    #[test]
    fn cached_limits_of_a_slow_device_expire_once_it_is_faster() {
        let mut peak = peak();
        peak.figures.iter_mut().for_each(|figure| figure.canary = Some(Nanos(1e3)));
        peak.figures[0].disturbed = true;
        let sound_figures = |best: f64| peak.sound(Some(Nanos(best))).figures.len();
        assert_eq!([peak.figures.len(), sound_figures(1e3), sound_figures(920.0), sound_figures(900.0)], [4, 3, 3, 0]);
    }

    #[test]
    fn traffic_that_fits_a_cache_is_compared_with_the_cache() {
        let peak = peak();
        let rate = |bytes| best(peak.bandwidth(Bytes(bytes), Bytes(0)));
        assert_eq!([rate(1), rate(16 << 10), rate(1 << 20), rate(1 << 30)], [40e9, 40e9, 10e9, 10e9].map(Some));
    }

    #[test]
    fn work_with_few_writes_is_compared_with_reads() {
        let mut peak = peak();
        peak.add(figure(Quantity::bandwidth(Pattern::Copy, 1 << 18), 15e9));
        let rate = |written| best(peak.bandwidth(Bytes(1 << 20), Bytes(written)));
        assert_eq!([rate(4), rate(1 << 16), rate(1 << 17), rate(1 << 19)], [10e9, 10e9, 15e9, 15e9].map(Some));
    }

    #[test]
    fn narrow_types_may_use_the_matrix_units_or_wider_arithmetic() {
        let mut peak = peak();
        assert_eq!(best(peak.arithmetic(DType::F16)), Some(100e9));
        peak.add(figure(Quantity::Matrix { dtype: DType::F16, narrow: false, m: 16, n: 16, k: 16 }, 800e9));
        assert_eq!([DType::F16, DType::F32].map(|dtype| best(peak.arithmetic(dtype))), [800e9, 100e9].map(Some));
        assert_eq!(peak.arithmetic(DType::F64), None);
    }

    #[test]
    fn the_better_of_two_figures_is_kept() {
        let mut peak = peak();
        peak.add(figure(Quantity::Arithmetic { dtype: DType::F32 }, 90e9));
        peak.add(figure(Quantity::Latency { of: Operation::DependentDispatch }, 2e3));
        assert_eq!([peak.arithmetic(DType::F32), peak.launch()].map(best), [100e9, 1e3].map(Some));
        peak.add(figure(Quantity::Latency { of: Operation::DependentDispatch }, 500.0));
        assert_eq!(best(peak.launch()), Some(500.0));
    }

    #[test]
    fn a_staircase_has_a_level_for_each_flat_part_and_none_for_the_edge_between() {
        let staircase = [(1, 100.0), (2, 98.0), (4, 101.0), (8, 60.0), (16, 30.0), (32, 31.0), (64, 29.0), (128, 10.0)];
        let levels = levels(&staircase.map(|(size, rate)| (Bytes(size), rate)));
        let ends_and_rates: Vec<_> = levels.iter().map(|level| (level.up_to, level.bandwidth)).collect();
        assert_eq!(ends_and_rates, [(Some(Bytes(4)), 100.0), (Some(Bytes(64)), 30.0), (None, 10.0)]);
        assert!(super::levels(&[]).is_empty());
    }
}
