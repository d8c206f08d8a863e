//! Figures of a case, one entry each, which tables, pages, exports and gates read.

use super::Case;
use crate::basis::units::{Nanos, percent, significant, significant_within, trimmed};
use crate::case::statistics::CompilerStatistic;
use crate::stats::{Summary, relative_error};

/// Unit of a figure's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    Nanoseconds,
    /// Operations or bytes per second, or operations per joule.
    Rate,
    Share,
    Count,
    /// A ratio, joules or watts.
    Plain,
    /// A residual or its tolerance.
    Residual,
}

impl FigureUnit {
    /// Formats `value`, which is known to a relative error, for people.
    pub fn text_within(self, value: f64, error: Option<f64>) -> String {
        match self {
            Self::Nanoseconds => Nanos(value).text_within(error),
            Self::Rate => significant_within(value * 1e-9, error),
            Self::Share => percent(value),
            Self::Count => value.to_string(),
            Self::Plain => significant(value),
            Self::Residual if value == 0.0 => "0".into(),
            // Tolerances of users' kernels are small whole numbers.
            Self::Residual if (1.0..1e4).contains(&value) => trimmed(&format!("{value:.1}")).to_string(),
            Self::Residual => format!("{value:.1e}"),
        }
    }
}

/// Function that derives a figure from a case.
enum Derivation {
    /// Computed from a run time: from the median for the value, from the interval's ends for its interval.
    Timed(fn(&Case, Nanos) -> Option<f64>),
    /// Computed from the case alone, so it has no interval.
    Fixed(fn(&Case) -> Option<f64>),
}

/// Figure that can be derived from a case of a record.
pub struct CaseFigure {
    /// Column in CSV and JSON lines; empty for a figure that is in neither.
    pub key: &'static str,
    /// Heading of the column in tables; empty for a figure that is in none.
    pub heading: &'static str,
    pub unit: FigureUnit,
    /// Whether a larger value is better: a gate bounds it from below.
    pub is_better_large: bool,
    derivation: Derivation,
}

impl CaseFigure {
    /// Returns the figure of `case` if its run took `time`.
    pub fn at(&self, case: &Case, time: Nanos) -> Option<f64> {
        match self.derivation {
            Derivation::Timed(derive) => derive(case, time),
            Derivation::Fixed(derive) => derive(case),
        }
    }

    /// Returns the figure of `case`, if there is one and it is a number.
    pub fn value(&self, case: &Case) -> Option<f64> {
        let value = match self.derivation {
            Derivation::Timed(derive) => derive(case, case.timed()?.summary.median),
            Derivation::Fixed(derive) => derive(case),
        };
        value.filter(|value| value.is_finite())
    }

    /// Returns the confidence interval of the figure, ascending.
    pub fn interval(&self, case: &Case) -> Option<[f64; 2]> {
        let [low, high] = case.timed()?.summary.interval?;
        let a = self.at(case, low).filter(|value| value.is_finite())?;
        let b = self.at(case, high).filter(|value| value.is_finite())?;
        // A rate falls with the time.
        Some([a.min(b), a.max(b)])
    }

    /// Returns the relative error of the figure: the longer half of its interval.
    pub fn error(&self, case: &Case) -> Option<f64> {
        Some(relative_error(self.value(case)?, self.interval(case)?))
    }

    /// Formats the figure of `case`, with the digits that its interval justifies.
    pub fn text(&self, case: &Case) -> Option<String> {
        self.value(case).map(|value| self.unit.text_within(value, self.error(case)))
    }
}

const fn timed(
    key: &'static str,
    heading: &'static str,
    unit: FigureUnit,
    derive: fn(&Case, Nanos) -> Option<f64>,
) -> CaseFigure {
    let derivation = Derivation::Timed(derive);
    CaseFigure { key, heading, unit, is_better_large: matches!(unit, Rate | Share), derivation }
}

const fn fixed(
    key: &'static str,
    heading: &'static str,
    unit: FigureUnit,
    derive: fn(&Case) -> Option<f64>,
) -> CaseFigure {
    let derivation = Derivation::Fixed(derive);
    CaseFigure { key, heading, unit, is_better_large: matches!(unit, Rate | Share), derivation }
}

/// Returns a time of the summary as tables show it: per operation if the case is a chain.
fn shown(case: &Case, time: fn(&Summary) -> Option<Nanos>) -> Option<f64> {
    Some(case.shown(time(&case.timed()?.summary)?).0)
}

use FigureUnit::{Count, Nanoseconds, Plain, Rate, Residual, Share};

/// Median of a run, or of one operation if the case is a chain. Most tables and exports show this one.
pub static MEDIAN: CaseFigure = timed("median_ns", "median", Nanoseconds, |case, time| Some(case.shown(time).0));
static MEDIAN_LOW: CaseFigure = fixed("median_low_ns", "", Nanoseconds, |case| shown(case, |s| Some(s.interval?[0])));
static MEDIAN_HIGH: CaseFigure = fixed("median_high_ns", "", Nanoseconds, |case| shown(case, |s| Some(s.interval?[1])));
pub static MIN: CaseFigure = fixed("min_ns", "minimum", Nanoseconds, |case| shown(case, |s| Some(s.min)));
pub static LOWER_QUARTILE: CaseFigure =
    fixed("lower_quartile_ns", "", Nanoseconds, |case| shown(case, |s| Some(s.lower_quartile)));
pub static UPPER_QUARTILE: CaseFigure =
    fixed("upper_quartile_ns", "", Nanoseconds, |case| shown(case, |s| Some(s.upper_quartile)));
pub static MAX: CaseFigure = fixed("max_ns", "", Nanoseconds, |case| shown(case, |s| Some(s.max)));
/// Median of a whole run even if the case is a chain. Long tables show it beside the time "per operation".
pub static RUN_TIME: CaseFigure = timed("", "median", Nanoseconds, |_, time| Some(time.0));
pub static RUN_MIN: CaseFigure = fixed("", "min", Nanoseconds, |case| Some(case.timed()?.summary.min.0));
pub static PER_OPERATION: CaseFigure =
    timed("", "per operation", Nanoseconds, |case, time| case.chain.map(|_| case.shown(time).0));
static ERROR: CaseFigure = fixed("", "±", Share, |case| case.timed()?.summary.relative_error());
static SAMPLES: CaseFigure = fixed("samples", "samples", Count, |case| Some(case.timed()?.summary.count as f64));
/// Arithmetic rate in operations per second.
pub static RATE: CaseFigure = timed("operations_per_second", "GFLOP/s", Rate, |case, time| {
    (case.work.operations > 0).then(|| case.work.rate(time).0)
});
/// Data rate in bytes per second.
pub static BANDWIDTH: CaseFigure =
    timed("bytes_per_second", "GB/s", Rate, |case, time| (case.work.bytes.0 > 0).then(|| case.work.bandwidth(time).0));
static JOULES: CaseFigure = fixed("joules", "J/run", Plain, |case| Some(case.measured()?.energy?.joules));
static WATTS: CaseFigure = fixed("watts", "", Plain, |case| Some(case.measured()?.energy?.watts));
static EFFICIENCY: CaseFigure =
    fixed("", "GFLOP/J", Rate, |case| Some(case.work.per_joule(case.measured()?.energy?.joules).0));
pub static RESIDUAL: CaseFigure = fixed("residual", "residual", Residual, |case| case.verification()?.residual);
static TOLERANCE: CaseFigure = fixed("tolerance", "allowed", Residual, |case| Some(case.verification()?.tolerance));
/// Share of the limit that binds the case.
pub static SHARE: CaseFigure = fixed("share", "of hardware", Share, |case| Some(case.share?.fraction));
static SHARE_LOW: CaseFigure = fixed("share_low", "", Share, |case| Some(case.share?.interval?[0]));
/// Upper end of the share, as its limit is known.
pub static SHARE_HIGH: CaseFigure = fixed("share_high", "", Share, |case| Some(case.share?.interval?[1]));
/// Median of the host baseline divided by the case's.
pub static SPEEDUP: CaseFigure = fixed("speedup", "× host", Plain, |case| case.speedup);
/// Registers that the case's worst kernel spills; `None` if the driver does not count them.
pub static SPILLS: CaseFigure = fixed("", "", Count, |case| CompilerStatistic::Spills.worst(&case.kernels));

/// Times in exports, in the order of their columns.
pub static TIMES: [&CaseFigure; 7] = [&MEDIAN, &MEDIAN_LOW, &MEDIAN_HIGH, &MIN, &LOWER_QUARTILE, &UPPER_QUARTILE, &MAX];
/// Other figures in exports.
pub static RESULTS: [&CaseFigure; 10] =
    [&RATE, &BANDWIDTH, &JOULES, &WATTS, &RESIDUAL, &TOLERANCE, &SHARE, &SHARE_LOW, &SHARE_HIGH, &SPEEDUP];
/// Columns of a page's table of all cases.
pub static PAGE: [&CaseFigure; 6] = [&MEDIAN, &ERROR, &MIN, &RATE, &BANDWIDTH, &SAMPLES];
/// Columns of the Markdown table of all cases, before the share.
pub static MARKDOWN: [&CaseFigure; 4] = [&MEDIAN, &ERROR, &RATE, &BANDWIDTH];

/// Content of a column of the long table.
pub enum Content {
    Figure(&'static CaseFigure),
    /// The median, or the outcome of a case without one.
    MedianOrOutcome,
    /// Relative distance from the median to the farther end of its interval.
    Interval,
    /// Share of what the hardware allows, with the limit.
    Limit,
    /// Share of what the case's own launches allow.
    Structure,
    /// Speed relative to a published figure, as `--reference` states it.
    Reference,
    /// Largest error as a share of what is allowed, or a word if the answer was not checked.
    OfBound,
    /// A column for each metric of the answers.
    Metrics,
    Marks,
}

/// A column of the long table, beside size and variant.
pub struct LongColumn {
    /// Name on the command line.
    pub name: &'static str,
    pub heading: &'static str,
    /// Rank among the columns: a narrow table drops the lowest first, and never [`STAYS`].
    pub importance: u8,
    pub content: Content,
}

/// Importance of a column that every table has.
pub const STAYS: u8 = u8::MAX;

const fn column(name: &'static str, heading: &'static str, importance: u8, content: Content) -> LongColumn {
    LongColumn { name, heading, importance, content }
}

const fn figure(name: &'static str, importance: u8, figure: &'static CaseFigure) -> LongColumn {
    column(name, figure.heading, importance, Content::Figure(figure))
}

/// Heading of an answer's largest error ÷ its tolerance. A bare "error" would read as the relative error.
pub const ERROR_HEADING: &str = "error/tol";

/// Columns of the long table, in their order.
pub static LONG: [LongColumn; 18] = [
    column("median", "median", STAYS, Content::MedianOrOutcome),
    figure("per-operation", 9, &PER_OPERATION),
    column("interval", "±", 13, Content::Interval),
    figure("min", 2, &RUN_MIN),
    figure("rate", 10, &RATE),
    figure("bandwidth", 8, &BANDWIDTH),
    figure("energy", 10, &JOULES),
    figure("efficiency", 10, &EFFICIENCY),
    column("limit", "of hardware", STAYS, Content::Limit),
    column("structure", "of its structure", 6, Content::Structure),
    figure("host", 12, &SPEEDUP),
    column("reference", "× reference", 11, Content::Reference),
    figure("samples", 3, &SAMPLES),
    column("bound", ERROR_HEADING, 9, Content::OfBound),
    figure("residual", 1, &RESIDUAL),
    figure("allowed", 1, &TOLERANCE),
    column("metrics", "metrics", 4, Content::Metrics),
    column("marks", "mark", STAYS, Content::Marks),
];

impl LongColumn {
    /// Lists every column by name, with its heading unless that is almost the name.
    pub fn list() -> String {
        let listed = LONG.iter().map(|Self { name, heading, .. }| {
            let is_redundant = heading.starts_with(name.trim_end_matches('s')) || heading.replace(' ', "-") == *name;
            if is_redundant { (*name).to_string() } else { format!("{name} ({heading})") }
        });
        listed.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_residual_has_an_exponent_where_it_needs_one() {
        let texts = [1.0, 16.0, 2.5, 0.0012, 0.25, 1e-7, 0.0].map(|value| Residual.text_within(value, None));
        assert_eq!(texts, ["1", "16", "2.5", "1.2e-3", "2.5e-1", "1.0e-7", "0"]);
    }
}
