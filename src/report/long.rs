//! The long table of `bench`: a line for each case, with the columns that fit or those that were asked for.

use super::bench::{Section, heading, median, sections, signs, variant};
use super::reference::ReferenceTime;
use super::table::{self, Cell, Table};
use crate::basis::alike::distinct;
use crate::basis::error::unknown;
use crate::basis::units::{percent, significant, trimmed};
use crate::record::class::Class;
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Case, Energy, Measured, Outcome, Record, Share};

/// What of a record is shown, and on how many columns.
pub struct View {
    /// Columns of the terminal: no line is wider.
    pub width: usize,
    /// Figures of others.
    pub(crate) reference: Option<Vec<ReferenceTime>>,
    /// The columns that the long table has; those that fit where it is `None`.
    pub(crate) columns: Option<Vec<&'static Column>>,
}

impl View {
    /// A view of so many columns, without anything beside the record.
    #[must_use]
    pub fn of_width(width: usize) -> Self {
        Self { width, reference: None, columns: None }
    }
}

/// A column beside size and variant.
#[derive(Debug)]
pub(crate) struct Column {
    /// The name on the command line.
    pub(crate) name: &'static str,
    pub(crate) heading: &'static str,
    /// Where there is no space the least important columns go first; those of [`STAYS`] do not.
    importance: u8,
    cell: fn(&Case, &View, &RunConditions) -> String,
}

const STAYS: u8 = u8::MAX;

/// The column in whose place each metric has its own.
const METRICS: &str = "metrics";

/// Every column, in the order in which they stand.
static COLUMNS: [Column; 17] = [
    column("median", "median", STAYS, |case, _, _| match case.measured() {
        Some(measured) => measured.summary.median.to_string(),
        None => case.outcome.status().into(),
    }),
    column("per-operation", "per operation", 9, |case, _, _| {
        median(case).filter(|_| case.chain.is_some()).map_or_else(String::new, |time| time.to_string())
    }),
    column("interval", "±", 8, |case, _, _| {
        of(case, |m| m.summary.relative_error().map_or_else(|| "–".into(), percent))
    }),
    column("min", "min", 2, |case, _, _| of(case, |m| m.summary.min.to_string())),
    column("rate", "GFLOP/s", 10, |case, _, _| of(case, |m| case.work.rate(m.summary.median).to_string())),
    column("bandwidth", "GB/s", 6, |case, _, _| of(case, |m| case.work.bandwidth(m.summary.median).to_string())),
    column("energy", "J/run", 10, |case, _, _| energy(case, |energy| significant(energy.joules))),
    column("efficiency", "GFLOP/J", 10, |case, _, _| energy(case, |e| case.work.per_joule(e.joules).to_string())),
    column("limit", "of hardware", STAYS, |case, _, _| of(case, |_| known(case.share).map_or_else(String::new, share))),
    column("structure", "of its structure", 7, |case, _, _| {
        of(case, |_| known(case.structure).map_or_else(String::new, share))
    }),
    column("host", "× host", 12, |case, _, _| of(case, |_| case.speedup.map_or_else(String::new, significant))),
    column("reference", "× reference", 11, |case, view, _| {
        let figure = view.reference.as_ref().and_then(|figures| ReferenceTime::of(figures, case));
        figure.zip(median(case)).map_or_else(String::new, |(figure, time)| significant(figure.time.0 / time.0))
    }),
    column("samples", "samples", 3, |case, _, _| of(case, |m| m.summary.count.to_string())),
    column("residual", "residual", 5, |case, _, _| match (&case.outcome, case.verification()) {
        (_, Some(found)) => residual(found.residual),
        (Outcome::Measured(_), None) => "unverified".into(),
        _ => String::new(),
    }),
    column("allowed", "allowed", 1, |case, _, _| {
        case.verification().map_or_else(String::new, |found| residual(Some(found.tolerance)))
    }),
    column(METRICS, METRICS, 4, |_, _, _| String::new()),
    column("marks", "mark", STAYS, |case, _, conditions| conditions.signs(case)),
];

const fn column(
    name: &'static str,
    heading: &'static str,
    importance: u8,
    cell: fn(&Case, &View, &RunConditions) -> String,
) -> Column {
    Column { name, heading, importance, cell }
}

/// What a case with a time has in a column.
fn of(case: &Case, cell: impl Fn(&Measured) -> String) -> String {
    case.measured().map_or_else(String::new, cell)
}

/// What a case whose energy was measured has in a column.
fn energy(case: &Case, cell: impl Fn(Energy) -> String) -> String {
    case.measured().and_then(|measured| measured.energy).map_or_else(String::new, cell)
}

impl Column {
    /// The columns that were asked for; `None` for those that fit.
    ///
    /// # Errors
    /// When there is none of a name.
    pub(crate) fn chosen(names: &[String]) -> Result<Option<Vec<&'static Self>>, String> {
        if names.is_empty() {
            return Ok(None);
        }
        if names == ["all"] {
            return Ok(Some(COLUMNS.iter().collect()));
        }
        let is = |column: &Self, name: &String| [column.name, column.heading].contains(&name.trim());
        if let Some(name) = names.iter().find(|name| !COLUMNS.iter().any(|column| is(column, name))) {
            return Err(unknown("column", name, "", &COLUMNS.each_ref().map(|column| column.name)));
        }
        let asked = |column: &&Self| names.iter().any(|name| is(column, name));
        Ok(Some(COLUMNS.iter().filter(asked).collect()))
    }
}

/// A line for each case: median, its interval, minimum, rate, samples and residual.
#[must_use]
pub fn long(record: &Record, view: &View) -> String {
    let conditions = RunConditions::of(record);
    let texts: Vec<_> = sections(record).iter().map(|section| of_section(section, view, &conditions)).collect();
    texts.join("\n")
}

fn of_section(section: &Section<'_>, view: &View, conditions: &RunConditions) -> String {
    let mut out = heading(section, conditions, view.width);
    let columns = view.columns.clone().unwrap_or_else(|| COLUMNS.iter().collect());
    let answers = section.cases.iter().filter_map(|case| case.measured()?.verification.verified());
    let metrics = distinct(answers.flat_map(|answer| answer.metrics.iter().map(|metric| metric.name.as_str())));
    // Those that are part of the answer go last where there is no space.
    let shown = shown_metrics(&section.cases);
    let own = |column: &&'static Column| if column.name == METRICS { metrics.clone() } else { vec![column.heading] };
    let mut table = Table::default().text(["size", "variant"]).numbers(columns.iter().flat_map(own));
    for case in &section.cases {
        let cells = columns.iter().flat_map(|column| match column.name {
            METRICS => metrics.iter().map(|name| metric(case, name)).collect(),
            _ => vec![(column.cell)(case, view, conditions)],
        });
        table.row([case.row().into(), variant(case)].into_iter().chain(cells.map(Cell::from)));
    }
    let may_go = columns.iter().filter(|column| column.name != "residual").map(|column| column.heading);
    table.leave_out_empty(&may_go.collect::<Vec<_>>(), "0");
    let mut hidden = vec![];
    if view.columns.is_none() {
        let whole = table.width();
        let mut least: Vec<_> = COLUMNS.iter().filter(|column| column.importance != STAYS).collect();
        least.sort_by_key(|column| column.importance);
        let (last, least): (Vec<_>, Vec<_>) = least.iter().flat_map(own).partition(|name| shown.contains(name));
        let gone = table.fit(view.width, &[least, last].concat());
        hidden = gone.iter().map(ToString::to_string).collect();
        // One that all rows have may stand above them.
        let first = &section.cases[0].variant;
        if table.width() > view.width && section.cases.iter().all(|case| case.variant == *first) {
            table.fit(0, &["variant"]);
            let caveats = Class::of(section.cases[0]);
            out.push_str(&table::prose(format!("variant {first} {caveats}").trim_end(), view.width, 2));
        }
        out.push_str(&table::hidden(&gone, whole, view.width));
    }
    out.push('\n');
    out.push_str(&table.terminal(view.width));
    let shown = |name: &str| columns.iter().any(|own| own.heading == name) && !hidden.iter().any(|gone| gone == name);
    let signs: Vec<_> = units(&section.cases, shown).chain(signs(&section.cases, conditions)).collect();
    if !signs.is_empty() {
        out.push('\n');
    }
    out + &table::legend(&signs, view.width)
}

/// What the numbers in the columns that are `shown` are of, where their headings do not say it.
fn units(cases: &[&Case], shown: impl Fn(&str) -> bool) -> impl Iterator<Item = Mark> {
    let multiple = |case: &&Case| {
        let found = case.verification();
        found.is_some_and(|found| matches!(found.tolerance, 1.0) && found.residual.is_some_and(|error| error > 0.0))
    };
    let multiples = (shown("residual") && cases.iter().any(multiple))
        .then(|| Mark::new("residual", "largest error, as a multiple of its tolerance"));
    let open = |share: Option<Share>| known(share).is_some_and(|share| range(share).is_some());
    let open = (shown("of hardware") && cases.iter().any(|case| open(case.share)))
        || (shown("of its structure") && cases.iter().any(|case| open(case.structure)));
    let open = open.then(|| {
        let known =
            "the true share is in this range: the limits are uncertain; rerun `gpukern peak` when the device is idle";
        Mark::new("…", known)
    });
    multiples.into_iter().chain(open)
}

/// The metrics of some cases that are part of their answers.
pub(super) fn shown_metrics<'c>(cases: &[&'c Case]) -> Vec<&'c str> {
    let answers = cases.iter().filter_map(|case| case.measured()?.verification.verified());
    let shown = answers.flat_map(|answer| answer.metrics.iter().filter(|metric| metric.shown));
    distinct(shown.map(|metric| metric.name.as_str()))
}

/// The value of a metric of a case; empty where it has none.
pub(super) fn metric(case: &Case, name: &str) -> String {
    let found = case.measured().and_then(|m| m.verification.verified());
    let found = found.and_then(|v| v.metrics.iter().find(|metric| metric.name == name));
    found.map_or_else(String::new, |metric| metric.value.map_or_else(|| "not finite".into(), figure))
}

/// Whole numbers as such, others with six significant digits.
fn figure(value: f64) -> String {
    match value {
        v if v == v.trunc() && v.abs() < 1e15 => format!("{v}"),
        v if (1e-3..1e6).contains(&v.abs()) => {
            let digits = (5 - v.abs().log10().floor() as i32).max(0) as usize;
            format!("{v:.digits$}")
        }
        v => format!("{v:.3e}"),
    }
}

/// A share, where it says anything.
fn known(share: Option<Share>) -> Option<Share> {
    share.filter(|share| share.is_known())
}

/// How much of its limit a case reaches, and which limit it is.
fn share(share: Share) -> String {
    let limit = share.limit.name();
    let Some([low, high]) = range(share) else { return format!("{} {limit}", percent(share.fraction)) };
    let decimals = usize::from(share.fraction < SMALL);
    format!("{:.decimals$} … {:.decimals$} % {limit}", 100.0 * low, 100.0 * high)
}

/// Between what a share lies that is not known well.
fn range(share: Share) -> Option<[f64; 2]> {
    let doubt = |[low, high]: &[f64; 2]| (share.fraction - low).max(high - share.fraction) / share.fraction;
    share.interval.filter(|ends| doubt(ends) >= DOUBTED)
}

/// A share below which whole percents tell too little.
const SMALL: f64 = 0.1;

/// Doubt of a limit, relative to it, from which a share is shown with it.
const DOUBTED: f64 = 0.05;

fn residual(value: Option<f64>) -> String {
    match value {
        // Nothing was computed, or it was written outside of the buffers.
        None => String::new(),
        Some(0.0) => "0".into(),
        // Tolerances of users' kernels are small whole numbers.
        Some(value) if (1.0..1e4).contains(&value) => trimmed(&format!("{value:.1}")).to_string(),
        Some(value) => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Limit;
    use crate::record::fixture::four_cases;

    #[test]
    fn columns_are_chosen_by_name() {
        let names = |names: &[&str]| Column::chosen(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let chosen = |asked: &[&str]| {
            names(asked).map(|columns| columns.map(|own| own.iter().map(|column| column.name).collect::<Vec<_>>()))
        };
        assert_eq!(chosen(&["residual", "median"]), Ok(Some(vec!["median", "residual"])));
        assert_eq!((chosen(&[]), chosen(&["all"]).map(|all| all.map(|all| all.len()))), (Ok(None), Ok(Some(17))));
        assert!(names(&["medain"]).is_err_and(|error| error.contains("did you mean 'median'?")));
        assert_eq!(chosen(&["GFLOP/s", "±", "of hardware"]), Ok(Some(vec!["interval", "rate", "limit"])));
        let columns = names(&["min", "marks"]).expect("columns");
        let table = long(&crate::record::fixture::unverified(), &View { columns, ..View::of_width(80) });
        assert!(table.contains("245.0 µs") && table.contains(" u\n") && !table.contains("250.0 µs"), "{table}");
    }

    #[test]
    fn a_residual_has_an_exponent_where_it_needs_one() {
        let shown = [1.0, 16.0, 2.5, 0.0012, 0.25, 1e-7].map(|value| residual(Some(value)));
        assert_eq!(shown, ["1", "16", "2.5", "1.2e-3", "2.5e-1", "1.0e-7"]);
    }

    #[test]
    fn columns_that_do_not_fit_are_named() {
        let table = long(&four_cases(), &View::of_width(60));
        assert!(table.contains("hidden for width: allowed, min, samples") && table.contains("GFLOP/s"), "{table}");
    }

    #[test]
    fn a_long_name_that_all_rows_have_stands_above_them() {
        let mut record = four_cases();
        record.cases.truncate(2);
        let name = "mul_mat_vec[BLOCK_SIZE=32,NUM_ROWS=1,PADDING_OF_ROWS=16]";
        record.cases.iter_mut().for_each(|case| case.variant = name.into());
        let narrow = long(&record, &View::of_width(72));
        assert_eq!(narrow.matches(name).count(), 1, "{narrow}");
        assert!(narrow.contains(&format!("\nvariant {name}\n")) && !narrow.contains("\n size   variant"), "{narrow}");
        assert_eq!(long(&record, &View::of_width(200)).matches(name).count(), 2);
    }

    #[test]
    fn a_small_share_with_a_doubt_has_a_decimal() {
        let least = crate::basis::units::Nanos(1.0);
        let known = Share { limit: Limit::Memory, least, fraction: 1.0, interval: None };
        let of = |fraction: f64| share(Share { fraction, interval: Some([0.5 * fraction, 1.5 * fraction]), ..known });
        let of_busy = Share { fraction: 0.31, interval: Some([0.03, 2.17]), ..known };
        assert_eq!(share(of_busy), "3 … 217 % memory");
        let whole = |share: Share| share.told(|fraction| format!("{:.0}%", 100.0 * fraction));
        assert_eq!([whole(of_busy), whole(known)], ["≤100%", "100%"]);
        assert_eq!(whole(Share { interval: Some([0.1, 0.5]), fraction: 0.4, ..known }), "≤50%");
        assert_eq!(whole(Share { interval: Some([0.3, 0.5]), fraction: 0.4, ..known }), "40%");
        assert_eq!(
            [of(0.0042), of(0.093), of(0.47)],
            ["0.2 … 0.6 % memory", "4.7 … 14.0 % memory", "24 … 70 % memory"]
        );
        let lopsided = Share { interval: Some([0.48, 4.75]), fraction: 4.24, ..of_busy };
        assert_eq!(share(lopsided), "48 … 475 % memory");
        assert_eq!(share(Share { interval: Some([0.45, 0.47]), fraction: 0.46, ..of_busy }), "46.0 % memory");
    }

    #[test]
    fn a_range_of_shares_has_its_legend_and_no_sign_has_one_that_no_row_shows() {
        let mut record = four_cases();
        let table = |record: &Record| long(record, &View::of_width(120));
        assert!(!table(&record).contains('…') && !table(&record).contains('≤'), "{}", table(&record));
        let least = crate::basis::units::Nanos(1.0);
        let share = Share { limit: Limit::Memory, least, fraction: 0.2, interval: Some([0.1, 0.5]) };
        record.cases[0].share = Some(share);
        let text = table(&record);
        assert!(text.contains(" 10 … 50 % memory") && text.contains("\n…  the true share is in this range"), "{text}");
        assert!(!text.contains('≤') && !text.contains("at most this share"), "{text}");
        for interval in [[0.14, 1.17], [0.03, 2.17], [0.05, 0.5]] {
            record.cases[0].share = Some(Share { interval: Some(interval), ..share });
            assert!(!table(&record).contains('…'), "nothing is known: {}", table(&record));
        }
        record.cases[0].share = Some(Share { interval: Some([0.92, 1.02]), fraction: 0.97, ..share });
        assert!(table(&record).contains(" 92 … 102 % memory"), "{}", table(&record));
    }
}
