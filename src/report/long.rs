//! The long table of `bench`: a line for each case, with the columns that fit or those that were asked for.

use super::bench::{View, distinct, heading};
use super::table::{self, Sheet};
use crate::basis::error::unknown;
use crate::basis::units::significant;
use crate::record::grid::{Section, median, sections};
use crate::record::marks::RunConditions;
use crate::record::{Case, Limit, Record, Share};

/// A column beside size and variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Median,
    PerOperation,
    Interval,
    Min,
    Rate,
    Bandwidth,
    Limit,
    Structure,
    Host,
    Reference,
    Samples,
    Residual,
    Allowed,
    Metrics,
    Marks,
}

impl Column {
    /// Every column, in the order in which they stand.
    const ALL: [Self; 15] = [
        Self::Median,
        Self::PerOperation,
        Self::Interval,
        Self::Min,
        Self::Rate,
        Self::Bandwidth,
        Self::Limit,
        Self::Structure,
        Self::Host,
        Self::Reference,
        Self::Samples,
        Self::Residual,
        Self::Allowed,
        Self::Metrics,
        Self::Marks,
    ];
    /// Those that go where there is no space for them, the first first. The others stay.
    const LEAST_IMPORTANT: [Self; 12] = [
        Self::Allowed,
        Self::Min,
        Self::Samples,
        Self::Metrics,
        Self::Residual,
        Self::Bandwidth,
        Self::Structure,
        Self::Interval,
        Self::PerOperation,
        Self::Rate,
        Self::Reference,
        Self::Host,
    ];

    /// The name on the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::PerOperation => "per-operation",
            Self::Interval => "interval",
            Self::Min => "min",
            Self::Rate => "rate",
            Self::Bandwidth => "bandwidth",
            Self::Limit => "limit",
            Self::Structure => "structure",
            Self::Host => "host",
            Self::Reference => "reference",
            Self::Samples => "samples",
            Self::Residual => "residual",
            Self::Allowed => "allowed",
            Self::Metrics => "metrics",
            Self::Marks => "marks",
        }
    }

    /// The columns that were asked for; `None` for those that fit.
    ///
    /// # Errors
    /// When there is none of a name.
    pub(crate) fn chosen(names: &[String]) -> Result<Option<Vec<Self>>, String> {
        if names.is_empty() {
            return Ok(None);
        }
        if names == ["all"] {
            return Ok(Some(Self::ALL.to_vec()));
        }
        let find = |name: &String| {
            let found = Self::ALL.into_iter().find(|column| column.name() == name.trim());
            found.ok_or_else(|| unknown("column", name, "", &Self::ALL.map(Self::name)))
        };
        let asked = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Self::ALL.into_iter().filter(|column| asked.contains(column)).collect()))
    }

    /// The heading; of metrics there are several.
    fn heading(self) -> &'static str {
        match self {
            Self::PerOperation => "per operation",
            Self::Interval => "±",
            Self::Rate => "GFLOP/s",
            Self::Bandwidth => "GB/s",
            Self::Limit => "of hardware",
            Self::Structure => "of its structure",
            Self::Host => "× host",
            Self::Reference => "× reference",
            Self::Marks => "mark",
            other => other.name(),
        }
    }

    /// What a case has in it.
    fn cell(self, case: &Case, view: &View, conditions: &RunConditions) -> String {
        let Some(measured) = case.measured() else { return self.without_time(case) };
        let summary = &measured.summary;
        let found = measured.verification.verified();
        match self {
            Self::Median => summary.median.to_string(),
            Self::PerOperation if case.chain.is_none() => String::new(),
            Self::PerOperation => median(case).map_or_else(String::new, |time| time.to_string()),
            Self::Interval => summary.relative_error().map_or_else(|| "–".into(), percent),
            Self::Min => summary.min.to_string(),
            Self::Rate => case.work.rate(summary.median).to_string(),
            Self::Bandwidth => case.work.bandwidth(summary.median).to_string(),
            Self::Limit => case.share.map_or_else(String::new, share),
            Self::Structure => case.structure.map_or_else(String::new, share),
            Self::Host => case.speedup.map_or_else(String::new, significant),
            Self::Reference => {
                let figure = view.reference.as_ref().and_then(|reference| reference.of(case));
                let ratio = figure.and_then(|figure| Some(figure.time.0 / median(case)?.0));
                ratio.map_or_else(String::new, significant)
            }
            Self::Samples => summary.count.to_string(),
            Self::Residual => found.map_or_else(|| "unverified".into(), |v| residual(v.residual)),
            Self::Allowed => found.map_or_else(String::new, |v| residual(Some(v.tolerance))),
            Self::Metrics => String::new(),
            Self::Marks => conditions.signs(case),
        }
    }

    /// What a case without a time has in it.
    fn without_time(self, case: &Case) -> String {
        use crate::record::Outcome::Rejected;
        match (self, &case.outcome) {
            (Self::Median, outcome) => outcome.status().into(),
            (Self::Residual, Rejected(found)) => residual(found.residual),
            (Self::Allowed, Rejected(found)) => residual(Some(found.tolerance)),
            _ => String::new(),
        }
    }
}

/// The table of a record.
#[must_use]
pub(super) fn text(record: &Record, view: &View) -> String {
    let conditions = RunConditions::of(record);
    let texts: Vec<_> = sections(record).iter().map(|section| of_section(section, view, &conditions)).collect();
    texts.join("\n")
}

fn of_section(section: &Section<'_>, view: &View, conditions: &RunConditions) -> String {
    let mut out = heading(section, conditions, view.width);
    let columns = view.columns.as_deref().unwrap_or(&Column::ALL);
    let answers = section.cases.iter().filter_map(|case| case.measured()?.verification.verified());
    let metrics = distinct(answers.flat_map(|answer| answer.metrics.iter().map(|metric| metric.name.as_str())));
    let own = |column: &Column| match column {
        Column::Metrics => metrics.clone(),
        other => vec![other.heading()],
    };
    let headings = ["size", "variant"].into_iter().chain(columns.iter().flat_map(own));
    let mut sheet = Sheet::new(headings, 2);
    for case in &section.cases {
        let cells = columns.iter().flat_map(|column| match column {
            Column::Metrics => metrics.iter().map(|name| metric(case, name)).collect(),
            other => vec![other.cell(case, view, conditions)],
        });
        sheet.add([case.row(), case.variant.clone()].into_iter().chain(cells));
    }
    sheet.without_nothing(&columns.iter().filter(|c| **c != Column::Residual).map(|c| c.heading()).collect::<Vec<_>>());
    if view.columns.is_none() {
        let least = Column::LEAST_IMPORTANT.iter().flat_map(own).collect::<Vec<_>>();
        let gone = sheet.fit(view.width, &least);
        // One that all rows have may stand above them.
        let first = &section.cases[0].variant;
        if sheet.width() > view.width && section.cases.iter().all(|case| case.variant == *first) {
            sheet.fit(0, &["variant"]);
            sheet.names(1);
            out.push_str(&table::prose(&format!("variant {first}"), view.width, 2));
        }
        if !gone.is_empty() {
            let text = format!("no space for: {}; --columns shows them", gone.join(", "));
            out.push_str(&table::prose(&text, view.width, 2));
        }
    }
    out.push('\n');
    out + &sheet.text(view.width)
}

fn metric(case: &Case, name: &str) -> String {
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

/// How much of its limit a case reaches, and which limit it is.
fn share(share: Share) -> String {
    let limit = match share.limit {
        Limit::Compute => "compute",
        Limit::Memory => "memory",
        Limit::Launch => "launch",
    };
    let Some([low, high]) = share.interval else { return format!("{} {limit}", percent(share.fraction)) };
    // An interval need not lie evenly about the estimate, and what is said has to hold all of it.
    let [below, above] = [share.fraction - low, high - share.fraction].map(|doubt| doubt / share.fraction);
    let (least, doubt) = (below.min(above), below.max(above));
    if doubt < DOUBTED {
        format!("{} {limit}", percent(share.fraction))
    } else {
        let decimals = usize::from(share.fraction < SMALL);
        if doubt > UNKNOWN || doubt > LOPSIDED * least {
            return format!("{:.decimals$} … {:.decimals$} % {limit}", 100.0 * low, 100.0 * high);
        }
        let [own, doubt] = [share.fraction, doubt * share.fraction].map(|of| format!("{:.decimals$}", 100.0 * of));
        format!("{own} ±{doubt} % {limit}")
    }
}

/// Doubt of a limit, relative to it, from which a share is but a range.
const UNKNOWN: f64 = 0.75;

/// The doubt to one side, relative to that to the other, from which both ends are told.
const LOPSIDED: f64 = 2.0;

/// A share below which whole percents tell too little.
const SMALL: f64 = 0.1;

/// Doubt of a limit, relative to it, from which a share is shown with it.
const DOUBTED: f64 = 0.05;

fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

fn residual(value: Option<f64>) -> String {
    match value {
        None => "none".into(),
        Some(0.0) => "0".into(),
        Some(value) => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::tests::record;
    use super::*;

    #[test]
    fn columns_are_chosen_by_name() {
        let names = |names: &[&str]| Column::chosen(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(names(&["residual", "median"]), Ok(Some(vec![Column::Median, Column::Residual])));
        assert_eq!((names(&[]), names(&["all"])), (Ok(None), Ok(Some(Column::ALL.to_vec()))));
        assert!(names(&["medain"]).is_err_and(|error| error.contains("did you mean 'median'?")));
        let columns = names(&["min", "marks"]).expect("columns");
        let table = text(&crate::export::tests::unverified(), &View { columns, ..View::of_width(80) });
        assert!(table.contains("245.0 µs") && table.contains(" u\n") && !table.contains("250.0 µs"), "{table}");
    }

    #[test]
    fn columns_that_do_not_fit_are_named() {
        let table = text(&record(), &View::of_width(60));
        assert!(table.contains("no space for: allowed, min, samples") && table.contains("GFLOP/s"), "{table}");
    }

    #[test]
    fn a_long_name_that_all_rows_have_stands_above_them() {
        let mut record = record();
        record.cases.truncate(2);
        let name = "mul_mat_vec[BLOCK_SIZE=32,NUM_ROWS=1,PADDING_OF_ROWS=16]";
        record.cases.iter_mut().for_each(|case| case.variant = name.into());
        let narrow = text(&record, &View::of_width(72));
        assert_eq!(narrow.matches(name).count(), 1, "{narrow}");
        assert!(narrow.contains(&format!("\nvariant {name}\n")) && !narrow.contains("\n size   variant"), "{narrow}");
        assert_eq!(text(&record, &View::of_width(200)).matches(name).count(), 2);
    }

    #[test]
    fn a_small_share_with_a_doubt_has_a_decimal() {
        let of = |fraction: f64| {
            share(Share {
                limit: Limit::Memory,
                least: crate::basis::units::Nanos(1.0),
                fraction,
                interval: Some([0.5 * fraction, 1.5 * fraction]),
            })
        };
        let limit = (Limit::Memory, crate::basis::units::Nanos(1.0));
        let of_busy = Share { limit: limit.0, least: limit.1, fraction: 0.31, interval: Some([0.03, 2.17]) };
        assert_eq!(share(of_busy), "3 … 217 % memory");
        assert_eq!([of(0.0042), of(0.093), of(0.47)], ["0.4 ±0.2 % memory", "9.3 ±4.7 % memory", "47 ±24 % memory"]);
        let lopsided = Share { interval: Some([0.48, 4.75]), fraction: 4.24, ..of_busy };
        assert_eq!(share(lopsided), "48 … 475 % memory");
        assert_eq!(share(Share { interval: Some([0.40, 0.50]), fraction: 0.46, ..of_busy }), "46 ±6 % memory");
    }
}
