//! Long table of `bench`: a line for each case, with the columns that fit or were requested.

use super::bench::{
    Section, bound_mark, device_sections, figure_cell, heading, marks_of, sections, size_heading, variant,
};
use super::document::Document;
use super::grid::speedup_text;
use super::or_dash;
use super::reference::ReferenceTime;
use super::table::{self, Cell, Table};
use crate::basis::alike::distinct;
use crate::basis::error::unknown;
use crate::basis::units::{percent, significant, uncertainty};
use crate::record::class::Class;
use crate::record::figure::{self, Content, ERROR_HEADING, LONG, LongColumn, STAYS};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{AT_LEAST, AT_MOST, Case, RANGE, Record, Share, Verification};

/// Options for showing a record.
pub struct View {
    /// Width of the terminal in columns.
    pub width: usize,
    /// Reference times to compare with.
    pub reference: Option<Vec<ReferenceTime>>,
    /// Columns of the long table; `None` for those that fit.
    pub columns: Option<Vec<&'static LongColumn>>,
    /// Variant over which the cases have a speed-up, in place of the host.
    pub over: Option<String>,
}

impl View {
    pub fn of_width(width: usize) -> Self {
        Self { width, reference: None, columns: None, over: None }
    }

    /// Says which of the reference times are for no case of `record`; empty if there are none.
    pub fn unused_reference(&self, record: &Record) -> String {
        self.reference.as_ref().map_or_else(String::new, |times| ReferenceTime::unused(times, record))
    }
}

/// Returns the columns with these names or headings, in the order of the table; `all` alone means every column. No
/// names give `None`: the columns that fit. Fails if a name is unknown.
pub fn chosen(names: &[String]) -> Result<Option<Vec<&'static LongColumn>>, String> {
    if names.is_empty() {
        return Ok(None);
    }
    if names == ["all"] {
        return Ok(Some(LONG.iter().collect()));
    }
    let is_called = |column: &LongColumn, name: &String| {
        // Exports call a figure by its key.
        let key = if let Content::Figure(figure) = column.content { figure.key } else { "" };
        [column.name, column.heading, key].iter().any(|known| known.eq_ignore_ascii_case(name.trim()))
    };
    if let Some(name) = names.iter().find(|name| !LONG.iter().any(|column| is_called(column, name))) {
        return Err(unknown("column", name, "", &LONG.each_ref().map(|column| column.name)));
    }
    Ok(Some(LONG.iter().filter(|column| names.iter().any(|name| is_called(column, name))).collect()))
}

/// Returns the cells of a case in a column: one, or one for each of the `metrics`.
fn cells(column: &LongColumn, case: &Case, metrics: &[&str], view: &View, conditions: &RunConditions) -> Vec<Cell> {
    let limited = |share: Option<Share>| case.measured().and(share).map(share_text);
    let text = match column.content {
        Content::Figure(figure) if figure.key == figure::SPEEDUP.key && view.over.is_some() => {
            case.speedup.map(|speedup| speedup_text(speedup, case.speedup_interval))
        }
        Content::Figure(figure) => return vec![figure_cell(figure, case).unwrap_or_default()],
        Content::MedianOrOutcome => {
            return vec![figure_cell(&figure::RUN_TIME, case).unwrap_or_else(|| case.outcome.status().into())];
        }
        Content::Interval => {
            case.measured().map(|m| or_dash(m.summary.relative_error().map(|error| uncertainty(error, percent))))
        }
        Content::Limit => limited(case.share),
        Content::Structure => limited(case.structure),
        Content::Reference => {
            let figure = view.reference.as_ref().and_then(|figures| ReferenceTime::find_shortest(figures, case));
            figure.and_then(|figure| figure.speed_of(case)).map(|(speed, interval)| speedup_text(speed, interval))
        }
        Content::OfBound if case.verification().is_none() => case.measured().map(|_| "unverified".into()),
        Content::OfBound => case.verification().and_then(bound_text),
        Content::Metrics => return metrics.iter().map(|name| metric(case, name).into()).collect(),
        Content::Marks => Some(conditions.signs(case)),
    };
    vec![text.unwrap_or_default().into()]
}

/// Prints a line for each case: median, its interval, minimum, rate, samples and error.
pub fn long(record: &Record, view: &View) -> String {
    long_sections(record, &sections(record), view)
}

/// Prints all problems of a device in one such table, with a column of their names.
pub fn joined(record: &Record, view: &View) -> String {
    long_sections(record, &device_sections(record), view)
}

fn long_sections(record: &Record, sections: &[Section<'_>], view: &View) -> String {
    let conditions = RunConditions::of(record);
    let befores = std::iter::once(None).chain(sections.iter().map(Some));
    let texts = sections.iter().zip(befores);
    let texts =
        texts.map(|(section, before)| section_document(section, view, &conditions, before).terminal(view.width));
    texts.collect::<Vec<_>>().join("\n")
}

/// Names the rate by what it counts: operations, if all cases are of integers.
pub fn rename_integer_rate(table: &mut Table, cases: &[&Case]) {
    if cases.iter().all(|case| case.dtype.is_integer()) {
        table.rename(figure::RATE.heading, INTEGER_RATE);
    }
}

/// Names the rate of integers, and the variant over which there are speed-ups.
fn rename_columns(table: &mut Table, cases: &[&Case], view: &View) {
    rename_integer_rate(table, cases);
    if let Some(over) = &view.over {
        table.rename(figure::SPEEDUP.heading, &format!("× {over}"));
    }
}

/// Names the chosen columns for which the record has nothing; `None` if there are none, or if all were chosen.
fn empty_columns<'c>(
    table: &Table,
    view: &View,
    headings: &impl Fn(&&'static LongColumn) -> Vec<&'c str>,
) -> Option<String> {
    let chosen = view.columns.as_ref().filter(|chosen| chosen.len() < LONG.len())?;
    let is_empty = |column: &&&'static LongColumn| headings(column).iter().all(|name| table.position(name).is_none());
    let empty: Vec<_> = chosen.iter().filter(is_empty).map(|column| column.name).collect();
    (!empty.is_empty()).then(|| format!("left out, as this record has nothing for them: {}", empty.join(", ")))
}

/// Returns the marks of a section for the legend. Columns that were chosen may lack the signs of the times.
fn shown_marks(section: &Section<'_>, columns: &[&'static LongColumn], conditions: &RunConditions) -> Vec<Mark> {
    let has_signs = columns.iter().any(|column| matches!(column.content, Content::Marks));
    let signs: Vec<_> = section.cases.iter().flat_map(|case| conditions.marks(case)).map(|mark| mark.sign).collect();
    let marks = marks_of(&section.cases, conditions).into_iter();
    marks.filter(|mark| has_signs || !signs.contains(&mark.sign)).collect()
}

/// Formats an answer's largest error as a share of what is allowed; of an exact check, which allows none, the number of wrong
/// elements.
fn bound_text(verification: &Verification) -> Option<String> {
    match verification.share_of_bound() {
        Some(share) => Some(share_of_bound(share)),
        None if verification.wrong.count > 0 => Some(format!("{} wrong", verification.wrong.count)),
        None => verification.residual.map(significant),
    }
}

/// Formats a share of an error bound: `0`, `2.2 %`, `334×`.
pub(super) fn share_of_bound(share: f64) -> String {
    match share {
        0.0 => "0".into(),
        10.0.. => format!("{share:.0}×"),
        _ => percent(share),
    }
}

/// Returns all columns but those of the numbers behind the share of the bound.
fn usual_columns() -> Vec<&'static LongColumn> {
    LONG.iter().filter(|column| !["residual", "allowed"].contains(&column.name)).collect()
}

/// Returns the columns that a narrow terminal may lack, the least important first: never the speed-up that was asked for.
fn columns_to_hide(view: &View) -> Vec<&'static LongColumn> {
    let is_asked_for = |column: &LongColumn| view.over.is_some() && column.heading == figure::SPEEDUP.heading;
    let may_go = |column: &&LongColumn| column.importance != STAYS && !is_asked_for(column);
    let mut by_importance: Vec<_> = LONG.iter().filter(may_go).collect();
    by_importance.sort_by_key(|column| column.importance);
    by_importance
}

fn section_document(
    section: &Section<'_>,
    view: &View,
    conditions: &RunConditions,
    before: Option<&Section<'_>>,
) -> Document {
    let mut document = Document::default();
    heading(&mut document, section, conditions, before);
    let columns = view.columns.clone().unwrap_or_else(usual_columns);
    let answers = section.cases.iter().filter_map(|case| case.measured()?.verification.verified());
    let metrics = distinct(answers.flat_map(|answer| answer.metrics.iter().map(|metric| metric.name.as_str())));
    let headings = |column: &&'static LongColumn| match column.content {
        Content::Metrics => metrics.clone(),
        _ => vec![column.heading],
    };
    let has_several = |text: fn(&Case) -> String| distinct(section.cases.iter().map(|case| text(case))).len() > 1;
    let is_joined = has_several(|case| case.algorithm.clone());
    // Problems without axes have a size of 1, and captured kernels one variant each.
    let has_sizes = !is_joined || has_several(Case::row);
    // The heading names the problem, and a user's kernel is called like it.
    let is_named_above = |case: &&Case| case.variant == case.algorithm && Class::of(case).is_exact();
    let has_variants = !is_joined && !section.cases.iter().all(is_named_above)
        || has_several(|case| format!("{} {}", case.variant, Class::of(case)));
    let all = [("case".into(), is_joined), (size_heading(&section.cases), has_sizes), ("variant".into(), has_variants)];
    let texts = all.into_iter().filter(|(_, is_shown)| *is_shown).map(|(heading, _)| heading);
    let mut table = Table::default().text(texts).numbers(columns.iter().flat_map(headings));
    for case in &section.cases {
        let cells = columns.iter().flat_map(|column| cells(column, case, &metrics, view, conditions));
        let name = is_joined.then(|| Cell::code(&*case.algorithm));
        let size = has_sizes.then(|| case.row().into());
        let variant = has_variants.then(|| variant(case));
        table.row(name.into_iter().chain(size).chain(variant).chain(cells));
    }
    table.unify_units(&[figure::RUN_TIME.heading, figure::RUN_MIN.heading]);
    table.unify_units(&[figure::PER_OPERATION.heading]);
    let may_go = columns.iter().filter(|column| column.name != "bound").map(|column| column.heading);
    table.leave_out_empty(&may_go.collect::<Vec<_>>(), "0");
    document.lines(empty_columns(&table, view, &headings));
    let mut hidden = vec![];
    if view.columns.is_none() {
        let whole = table.width();
        let by_importance = columns_to_hide(view);
        // Metrics that are part of the answer are hidden last.
        let answer_metrics = shown_metrics(&section.cases);
        let mut hidden_first: Vec<_> = by_importance.iter().flat_map(headings).collect();
        hidden_first.sort_by_key(|heading| answer_metrics.contains(heading));
        hidden = table.fit(view.width, &hidden_first);
        // A variant that all rows share may stand above the table.
        let first = &section.cases[0].variant;
        if table.width() > view.width && section.cases.iter().all(|case| case.variant == *first) {
            table.fit(0, &["variant"]);
            document.line(format!("variant {first} {}", Class::of(section.cases[0])).trim_end());
        }
        if table.width() > view.width {
            table.mark(figure::RUN_TIME.heading, "mark");
        }
        document.lines(table::hidden(&hidden, whole));
    }
    document.gap();
    rename_columns(&mut table, &section.cases, view);
    document.table(table);
    let is_shown = |heading: &str| columns.iter().any(|column| column.heading == heading) && !hidden.contains(&heading);
    let mut legend = units(&section.cases, is_shown);
    legend.extend(shown_marks(section, &columns, conditions));
    legend.extend(reference_mark(section, view).filter(|_| is_shown("× reference")));
    if !legend.is_empty() {
        document.gap();
    }
    document.legend(&legend);
    document
}

/// Says where the reference times of the cases of a section are from; `None` without any.
fn reference_mark(section: &Section<'_>, view: &View) -> Option<Mark> {
    let times = view.reference.as_ref()?;
    let found = section.cases.iter().filter_map(|case| ReferenceTime::find_shortest(times, case));
    let sources = distinct(found.map(|figure| figure.source.as_str()));
    (!sources.is_empty()).then(|| Mark::new("× reference", format!("speed relative to that of {}", sources.join("; "))))
}

/// Explains the numbers in shown columns whose headings do not.
fn units(cases: &[&Case], is_shown: impl Fn(&str) -> bool) -> Vec<Mark> {
    let mut marks = vec![];
    let has_error = |case: &&Case| case.verification().and_then(Verification::share_of_bound) > Some(0.0);
    if is_shown(ERROR_HEADING) && cases.iter().any(has_error) {
        marks.push(Mark::new(ERROR_HEADING, "largest error ÷ tolerance"));
    }
    let has_sign = |sign: &str| {
        let shows = |share: Option<Share>| share.is_some_and(|share| share_text(share).contains(sign));
        (is_shown("of hardware") && cases.iter().any(|case| shows(case.share)))
            || (is_shown("of its structure") && cases.iter().any(|case| shows(case.structure)))
    };
    marks.extend(bound_mark(has_sign));
    marks
}

/// Returns the metrics that are part of the answers of some cases.
pub(super) fn shown_metrics<'c>(cases: &[&'c Case]) -> Vec<&'c str> {
    let answers = cases.iter().filter_map(|case| case.measured()?.verification.verified());
    let metrics = answers.flat_map(|answer| &answer.metrics).filter(|metric| metric.shown);
    distinct(metrics.map(|metric| metric.name.as_str()))
}

/// Formats a metric of a case; empty if there is none.
pub(super) fn metric(case: &Case, name: &str) -> String {
    let verification = case.measured().and_then(|m| m.verification.verified());
    let metric = verification.and_then(|v| v.metrics.iter().find(|metric| metric.name == name));
    metric.map_or_else(String::new, |metric| metric.value.map_or_else(|| "not finite".into(), number_text))
}

/// Formats whole numbers as such, others with six significant digits.
pub(super) fn number_text(value: f64) -> String {
    match value {
        v if v == v.trunc() && v.abs() < 1e15 => format!("{v}"),
        v if (1e-3..1e6).contains(&v.abs()) => {
            let digits = (5 - v.abs().log10().floor() as i32).max(0) as usize;
            format!("{v:.digits$}")
        }
        v => format!("{v:.3e}"),
    }
}

/// Returns the lower end of a share whose upper end is beyond the limit and says nothing: the limit was measured on a busy
/// device, by a factor of two or more.
fn beyond_limit(share: Share) -> Option<f64> {
    let [_, high] = share.bounds()?;
    share.sole_bound().filter(|(sign, _)| *sign == AT_LEAST && high > 1.0).map(|(_, low)| low)
}

/// Formats the share of its limit that a case reaches, with the limit.
pub fn share_text(share: Share) -> String {
    let limit = share.limit.name();
    let Some([low, high]) = share.bounds() else { return format!("{} {limit}", percent(share.fraction)) };
    let decimals = [MAX_TWO_DECIMALS, MAX_DECIMAL_SHARE].iter().filter(|most| share.fraction < **most).count();
    if let Some(low) = beyond_limit(share) {
        return format!("{AT_LEAST} {:.decimals$} % {limit}", 100.0 * low);
    }
    let [low, high] = [low, high].map(|end| format!("{:.decimals$}", 100.0 * end));
    let is_nothing = low.chars().all(|digit| matches!(digit, '0' | '.'));
    match () {
        () if low == high => format!("{high} % {limit}"),
        () if is_nothing => format!("{AT_MOST} {high} % {limit}"),
        () => format!("{low} {RANGE} {high} % {limit}"),
    }
}

/// Heading of the rate of integers, in 10⁹ operations per second.
const INTEGER_RATE: &str = "Gop/s";

/// Share below which percentages have a decimal.
const MAX_DECIMAL_SHARE: f64 = 0.1;

/// Share below which they have two, so that no end is `0.0 %`.
const MAX_TWO_DECIMALS: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Nanos;
    use crate::case::check::WrongElements;
    use crate::record::Limit;
    use crate::record::fixture::four_cases;

    #[test]
    fn columns_are_chosen_by_name() {
        let choose = |names: &[&str]| chosen(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let names = |names: &[&str]| {
            let columns = choose(names).expect("columns").expect("a choice");
            columns.iter().map(|column| column.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["residual", "median", ERROR_HEADING]), ["median", "bound", "residual"]);
        assert_eq!((choose(&[]).map(|columns| columns.is_none()), names(&["all"]).len()), (Ok(true), 18));
        assert_eq!(names(&["GFLOP/s", "±", "of hardware", "speedup"]), ["interval", "rate", "limit", "host"]);
        let columns = choose(&["min", "marks"]).expect("columns");
        insta::assert_snapshot!(long(&crate::record::fixture::unverified(), &View { columns, ..View::of_width(80) }));
        insta::assert_snapshot!(choose(&["medain"]).map(|_| ()).expect_err("misspelt"), @"
        unknown column 'medain'; did you mean 'median'? available: median, per-operation, interval, min, rate, bandwidth, energy, efficiency, limit, structure, host, reference, samples, bound, residual, allowed, metrics, marks
        ");
    }

    #[test]
    fn an_error_is_a_share_of_what_is_allowed_or_a_count_where_nothing_is() {
        let text = |residual, tolerance, count| {
            let wrong = WrongElements { count, ..WrongElements::default() };
            bound_text(&Verification { residual, tolerance, wrong, ..Verification::without_answer(String::new()) })
        };
        assert_eq!(text(Some(0.0), 1e-5, 0).as_deref(), Some("0"));
        assert_eq!(text(Some(2.2e-7), 1e-5, 0).as_deref(), Some("2.2 %"));
        assert_eq!(text(Some(3.34e-3), 1e-5, 7).as_deref(), Some("334×"));
        assert_eq!(text(Some(7.0), 0.0, 7).as_deref(), Some("7 wrong"));
        assert_eq!(text(Some(0.0), 0.0, 0).as_deref(), Some("0"));
        assert_eq!(text(None, 1e-5, 0), None);
    }

    #[test]
    fn columns_that_do_not_fit_are_named_and_a_long_name_that_all_rows_have_stands_above_them() {
        let mut record = four_cases();
        let narrow = long(&record, &View::of_width(60));
        record.cases.truncate(2);
        let name = "mul_mat_vec[BLOCK_SIZE=32,NUM_ROWS=1,PADDING_OF_ROWS=16]";
        record.cases.iter_mut().for_each(|case| case.variant = name.into());
        insta::assert_snapshot!(narrow + "========\n" + &long(&record, &View::of_width(72)));
    }

    #[test]
    fn a_small_share_with_a_doubt_has_a_decimal() {
        let least = Nanos(1.0);
        let known = Share { limit: Limit::Memory, least, fraction: 1.0, interval: None };
        let of =
            |fraction: f64| share_text(Share { fraction, interval: Some([0.5 * fraction, 1.5 * fraction]), ..known });
        let of_busy = Share { fraction: 0.31, interval: Some([0.03, 2.17]), ..known };
        assert_eq!(share_text(of_busy), "3 … 100 % memory");
        assert_eq!(share_text(Share { interval: Some([0.004, 0.15]), ..of_busy }), "≤ 15 % memory");
        assert_eq!(share_text(Share { interval: Some([0.0, 0.15]), ..of_busy }), "≤ 15 % memory");
        assert_eq!(share_text(Share { interval: Some([0.102, 0.104]), fraction: 0.11, ..known }), "10 % memory");
        let whole = |share: Share| share.told(|fraction, _| format!("{:.0}%", 100.0 * fraction));
        assert_eq!([whole(of_busy), whole(known)], ["≥3%", "100%"]);
        assert_eq!(whole(Share { interval: Some([0.1, 0.5]), fraction: 0.4, ..known }), "≤50%");
        assert_eq!(whole(Share { interval: Some([0.3, 0.5]), fraction: 0.4, ..known }), "30…50%");
        assert_eq!(whole(Share { interval: Some([0.39, 0.41]), fraction: 0.4, ..known }), "40%");
        assert_eq!(
            [of(0.0042), of(0.093), of(0.47)],
            ["0.21 … 0.63 % memory", "4.7 … 14.0 % memory", "24 … 70 % memory"]
        );
        let lopsided = Share { interval: Some([0.48, 4.75]), fraction: 4.24, ..of_busy };
        assert_eq!(share_text(lopsided), "≥ 48 % memory");
        let faster = Share { interval: Some([1.05, 1.2]), fraction: 1.1, ..of_busy };
        assert_eq!(share_text(faster), "105 … 120 % memory");
        assert_eq!(share_text(Share { interval: Some([0.45, 0.47]), fraction: 0.46, ..of_busy }), "46.0 % memory");
    }

    #[test]
    fn a_range_of_shares_has_its_legend_and_no_sign_has_one_that_no_row_shows() {
        let mut record = four_cases();
        let ranges = [None, Some([0.1, 0.5]), Some([0.14, 1.17]), Some([0.03, 2.17]), Some([0.92, 1.02])];
        let tables = ranges.map(|interval| {
            let least = Nanos(1.0);
            let fraction = interval.map_or(0.0, |[low, high]: [f64; 2]| (low * high).sqrt());
            record.cases[0].share = interval.map(|_| Share { limit: Limit::Memory, least, fraction, interval });
            long(&record, &View::of_width(120))
        });
        insta::assert_snapshot!(tables.join("========\n"));
    }
}
