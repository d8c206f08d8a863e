//! Exports of records for dashboards and other tools, each a pure function of a record.
//!
//! The time of a case is the one in tables (for a chain, that of one operation), in the unit of the format. Only
//! measured cases have times. A figure that is not finite is left out or `null`, with the reason if the format has a
//! place for it: never `NaN`, never 0.

mod bencher;
mod github_action;
mod google_benchmark;
mod hyperfine;
pub mod junit;
pub mod markdown;
mod nvbench;
pub mod otava;
mod rows;

use crate::basis::error::{Error, unknown};
use crate::basis::printable;
use crate::basis::units::in_words;
use crate::compare::paired::Trials;
use crate::device::capability::DeviceInfo;
use crate::record::{Case, Measured, Outcome, Record};
use crate::report::document::Document;
use crate::report::fastest::set_speedups;
use crate::report::join_filled;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::str::FromStr;

/// Export format of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Times for github-action-benchmark's tool `customSmallerIsBetter`.
    GithubSmaller,
    /// Rates for github-action-benchmark's tool `customBiggerIsBetter`.
    GithubBigger,
    /// Bencher Metric Format.
    Bencher,
    GoogleBenchmark,
    Hyperfine,
    Nvbench,
    Junit,
    Csv,
    /// Table for a pull-request comment.
    Markdown,
    /// Table for a paper.
    Latex,
    /// One JSON object per line.
    JsonLines,
}

impl Format {
    /// All formats, in the order of lists.
    pub const ALL: [Self; 11] = [
        Self::Csv,
        Self::JsonLines,
        Self::Markdown,
        Self::Latex,
        Self::Junit,
        Self::Hyperfine,
        Self::Nvbench,
        Self::Bencher,
        Self::GoogleBenchmark,
        Self::GithubSmaller,
        Self::GithubBigger,
    ];

    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
            Self::Markdown => "markdown",
            Self::Latex => "latex",
            Self::Junit => "junit",
            Self::Hyperfine => "hyperfine",
            Self::Nvbench => "nvbench",
            Self::Bencher => "bencher",
            Self::GoogleBenchmark => "google-benchmark",
            Self::GithubSmaller => "custom-smaller-is-better",
            Self::GithubBigger => "custom-bigger-is-better",
        }
    }

    /// Converts `record` to this format; a table states speed-ups over the variant `over` if it is given. Fails if the format has
    /// a place only for measured cases and there are none.
    pub fn export(self, record: &Record, over: Option<&str>) -> Result<String, Error> {
        let mut record = record.across_processes();
        if let Some(over) = over {
            set_speedups(record.to_mut(), over).map_err(|reason| Error::Usage(format!("--speedup-over: {reason}")))?;
            if !matches!(self, Self::Csv | Self::JsonLines | Self::Markdown | Self::Latex) {
                return Err(Error::Usage(format!(
                    "--speedup-over is about tables, and {} is none; use csv, jsonl, markdown or latex",
                    self.name()
                )));
            }
        }
        match self {
            Self::Csv => rows::csv(&record),
            Self::JsonLines => rows::json_lines(&record),
            Self::Markdown => Ok(markdown_text(&markdown::document(&record, over, false))),
            Self::Latex => Ok(markdown::document(&record, over, true).latex()),
            Self::Junit => Ok(junit::text(&record)),
            Self::Hyperfine => hyperfine::text(&record),
            Self::Nvbench => nvbench::text(&record),
            Self::Bencher => bencher::text(&record),
            Self::GoogleBenchmark => google_benchmark::text(&record),
            Self::GithubSmaller => github_action::times(&record),
            Self::GithubBigger => github_action::rates(&record),
        }
    }

    /// Converts the result of `ab`. Fails if the format is not that of a table.
    pub fn export_trials(self, trials: &Trials) -> Result<String, Error> {
        let Trials { version, started, validation, origin, .. } = trials;
        let mut document = crate::report::ab::document(trials);
        // LaTeX has the lines around a table as comments alone.
        if self == Self::Latex {
            document.signs([crate::report::ab::columns_meaning(trials)]);
            document.lines(markdown::method_of_turns(trials));
        }
        document.line(markdown::origin_line(version, started, *validation, origin));
        match self {
            Self::Csv => rows::trials(trials),
            Self::Markdown => Ok(markdown_text(&document)),
            Self::Latex => Ok(document.latex()),
            _ => Err(Error::Usage(format!(
                "{} takes only a record; csv, markdown and latex also take the result of `ab`",
                self.name()
            ))),
        }
    }

    /// Lists all formats: `a, b or c`.
    pub fn list() -> String {
        in_words(&Self::ALL.map(Self::name), "or")
    }
}

/// Prints a document as Markdown that ends with one line break.
fn markdown_text(document: &Document) -> String {
    document.markdown().trim_end().to_string() + "\n"
}

impl FromStr for Format {
    type Err = String;

    /// Parses a name without regard to case and hyphens, so that the action's own `customSmallerIsBetter` works too.
    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        let typed = match plain(text).as_str() {
            "bmf" => plain(Self::Bencher.name()),
            "md" => plain(Self::Markdown.name()),
            "tex" => plain(Self::Latex.name()),
            "jsonlines" | "ndjson" => plain(Self::JsonLines.name()),
            other => other.to_string(),
        };
        let format = Self::ALL.into_iter().find(|format| plain(format.name()) == typed);
        format.ok_or_else(|| unknown("format", text, "", &Self::ALL.map(Self::name)))
    }
}

/// Case with its name on dashboards.
#[derive(Debug)]
struct NamedCase<'a> {
    /// Id of the case, with the device's name if the record has several; unique in the record.
    name: String,
    case: &'a Case,
    device: Option<&'a DeviceInfo>,
}

impl NamedCase<'_> {
    fn device_name(&self) -> &str {
        self.device.map_or("unknown device", |device| &device.name)
    }

    fn driver(&self) -> &str {
        self.device.map_or("", |device| &device.driver.info)
    }
}

/// Names the cases of `record`. Names stay the same from run to run, so that a dashboard joins their points to a line.
fn named_cases(record: &Record) -> Vec<NamedCase<'_>> {
    let has_twin = |device: &DeviceInfo| record.devices.iter().filter(|other| other.name == device.name).count() > 1;
    let mut named = vec![];
    for case in &record.cases {
        let device = record.device(case.device);
        let name = match device {
            Some(device) if has_twin(device) => format!("{} on {} [{}]", case.id, device.name, device.index),
            Some(device) if record.devices.len() > 1 => format!("{} on {}", case.id, device.name),
            _ => case.id.clone(),
        };
        named.push(NamedCase { name, case, device });
    }
    make_unique(named.iter_mut().map(|named| &mut named.name));
    named
}

/// Adds a number in brackets to each name that an earlier one equals.
fn make_unique<'n>(names: impl Iterator<Item = &'n mut String>) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in names {
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            let _ = write!(name, " ({count})");
        }
    }
}

/// Returns the measured cases of `record`, for a format that has no place for others. Fails if there are none: readers
/// of these formats refuse an empty document, or worse, accept it as a good one.
fn measured_cases(record: &Record, format: Format) -> Result<Vec<(NamedCase<'_>, &Measured)>, Error> {
    let mut timed = vec![];
    for named in named_cases(record) {
        // A chain of no operations has no finite time; no run of gpukern writes one.
        if let Some(m) = named.case.timed()
            && named.case.shown(m.summary.median).0.is_finite()
        {
            timed.push((named, m));
        }
    }
    if timed.is_empty() {
        return Err(Error::Usage(format!(
            "nothing to export to {}: no case was measured; junit, csv, markdown, jsonl and nvbench show \
             the others too",
            format.name()
        )));
    }
    Ok(timed)
}

/// Explains a missing or unverified time in the words of the record.
fn reason(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Measured(m) => m.verification.unverified_reason().map(String::from),
        Outcome::Inspected => None,
        Outcome::Rejected(v) => {
            let figures = v.residual.map(|_| v.figures()).unwrap_or_default();
            Some(join_filled(&[&figures, &v.worst], ": "))
        }
        Outcome::Skipped { reason, .. } => Some(reason.clone()),
        Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => outcome.failure(),
        Outcome::Interrupted => Some("the run was interrupted before it had a sample".into()),
    }
}

/// Returns the outcome of a case in words.
fn status(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Measured(m) if m.verification.verified().is_none() => "unverified",
        Outcome::Measured(m) if m.samples.is_empty() => "verified",
        other => other.status(),
    }
}

/// Returns the outcome as the record spells it, for programs to compare.
fn identifier(outcome: &Outcome) -> String {
    status(outcome).replace(' ', "-")
}

/// Reason for a missing rate beside a time.
const NO_RATE: &str = "no rate: its time is below the resolution of the device's clock";

/// Returns the mean and the sample standard deviation; the latter needs two values.
fn moments(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()))
}

/// Returns the samples of a case in nanoseconds, as tables show times.
fn samples(case: &Case, measured: &Measured) -> Vec<f64> {
    measured.samples.iter().map(|sample| case.shown(sample.time).0).collect()
}

/// Fields of a JSON object, in the order of output.
#[derive(Default)]
struct JsonFields {
    values: Vec<(Cow<'static, str>, Value)>,
    /// Lists of objects, behind all values.
    lists: Vec<(&'static str, Vec<JsonFields>)>,
}

impl JsonFields {
    fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.values.push((name.into(), value.into()));
        self
    }

    /// Adds a field if it has a value.
    fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds the ends of an interval, as `NAME_low` and `NAME_high`.
    fn with_ends(self, name: &str, ends: Option<[f64; 2]>) -> Self {
        let [low, high] = [0, 1].map(|at| ends.map(|ends| ends[at]));
        self.with(format!("{name}_low"), low).with(format!("{name}_high"), high)
    }

    /// Adds a list of objects, behind all other fields.
    fn nested(mut self, name: &'static str, objects: Vec<Self>) -> Self {
        self.lists.push((name, objects));
        self
    }
}

impl Serialize for JsonFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.values.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        self.lists.iter().try_for_each(|(name, objects)| map.serialize_entry(name, objects))?;
        map.end()
    }
}

/// Writes rows of fields, quoted as RFC 4180 requires.
fn write_csv(rows: impl Iterator<Item = Vec<String>>) -> Result<String, Error> {
    let mut writer = csv::Writer::from_writer(vec![]);
    for row in rows {
        writer.write_record(row).map_err(|e| Error::Failure(e.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|e| Error::Failure(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| Error::Failure(e.to_string()))
}

/// Formats `value` as JSON with a line end.
fn json(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::Failure(e.to_string()))?;
    Ok(printable::json(text + "\n"))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::basis::units::Nanos;
    use crate::case::CaseOptions;
    use crate::plan::axes::{self, AXES};
    use crate::record::Death;
    use crate::record::fixture::{saying, six_cases, unverified};

    #[test]
    fn tables_state_speedups_over_a_variant_and_other_formats_refuse_to() {
        let record = six_cases();
        let text = |format: Format, over: &str| format.export(&record, Some(over)).map_err(|error| error.to_string());
        insta::assert_snapshot!(text(Format::Latex, "naive").expect("a table"));
        let csv = text(Format::Csv, "naive").expect("rows");
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let rows = reader.deserialize::<HashMap<String, String>>().map(|row| row.expect("a row"));
        let rows: Vec<_> = rows.filter(|row| !row["speedup"].is_empty()).collect();
        let number = |name: &str, row: &HashMap<String, String>| row[name].parse::<f64>().expect("a number");
        let naive = rows.iter().find(|row| row["variant"] == "naive").expect("a row of the baseline");
        let mut others = rows.iter().filter(|row| row["variant"] != "naive" && row["size"] == naive["size"]).peekable();
        assert!(others.peek().is_some(), "{csv}");
        for row in others {
            let ratio = number("median_ns", naive) / number("median_ns", row);
            assert!((number("speedup", row) - ratio).abs() < 1e-9, "{row:?}");
        }
        insta::assert_snapshot!(text(Format::Csv, "naiv").expect_err("no such variant"));
        insta::assert_snapshot!(text(Format::Junit, "naive").expect_err("no table"));
    }

    #[test]
    fn each_format_writes_times_and_what_it_can_of_cases_without() {
        for format in Format::ALL {
            insta::assert_snapshot!(format.name(), format.export(&six_cases(), None).expect("a document"));
        }
    }

    #[test]
    fn formats_with_room_for_it_say_that_an_answer_is_unverified() {
        for format in Format::ALL {
            let text = format.export(&unverified(), None).expect("a document");
            let has_room = !matches!(format, Format::Bencher | Format::Hyperfine);
            assert_eq!(text.contains("no expected output was given"), has_room, "{format:?}: {text}");
            assert!(!text.contains("unverified: unverified"), "{format:?}: {text}");
            assert!(!format.export(&six_cases(), None).expect("a document").contains("unverified"), "{format:?}");
        }
    }

    #[test]
    fn a_status_is_spelled_as_in_the_record_where_programs_read_it_and_in_words_elsewhere() {
        let mut record = six_cases();
        let death = Death { cause: "no answer".into(), kernels: vec![], driver: String::new(), said: vec![] };
        record.cases[1].outcome = Outcome::TimedOut(death);
        for format in [Format::Csv, Format::JsonLines, Format::Junit, Format::Markdown, Format::Latex] {
            let text = format.export(&record, None).expect("a document");
            let is_prose = matches!(format, Format::Markdown | Format::Latex);
            assert_eq!([text.contains("timed-out"), text.contains("timed out")], [!is_prose, is_prose], "{text}");
        }
    }

    #[test]
    fn formats_with_columns_lose_no_value_of_an_axis() {
        let export = |format: Format, options: CaseOptions| {
            let mut record = six_cases();
            record.cases[0].options = options;
            format.export(&record, None).expect("a document")
        };
        for axis in AXES {
            for format in [Format::Csv, Format::JsonLines, Format::Nvbench] {
                let usual = export(format, crate::plan::fixture::usual());
                let other = export(format, crate::plan::fixture::unusual_on(axis));
                // The names of cases, which are equal here, have the stop rule; no time depends on a seed.
                let left_out = axis.iterative || format == Format::Nvbench && axis.name == axes::SEED.name;
                assert_eq!(usual == other, left_out, "{} loses {}", format.name(), axis.name);
            }
        }
    }

    /// Text that a terminal, a browser or the log of a CI service would act on.
    #[test]
    fn nothing_acts_in_any_output() {
        const LIVE: &str = concat!(
            "::error::\u{1b}[31m\u{9b}32m\u{0}\u{7f}\u{85}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{2029}",
            "\u{feff}\n\r\n  ::stop-commands::x ##[group]y ##vso[z]"
        );
        let record = saying(LIVE);
        let named = || crate::record::NamedRecord::new(LIVE, record.clone());
        let view = crate::report::long::View::of_width(200);
        let both = std::slice::from_ref(&record);
        let page = crate::report::html::report(&[named(), named()], None);
        let comparison = crate::compare::compare(both, both, &crate::compare::Settings::default());
        let ruling = crate::compare::gate::Ruling::default();
        let mut texts: Vec<(String, String)> = vec![
            ("grid".into(), crate::report::grid::compact(&record, &view)),
            ("long".into(), crate::report::long::long(&record, &view)),
            ("verify".into(), crate::report::verify::table(&record, 200)),
            ("page".into(), page.html),
            ("comparison".into(), markdown::comparison(&comparison, &ruling)),
            ("junit".into(), junit::comparison(&comparison, &ruling)),
            ("text".into(), crate::report::compare::text(&comparison, &ruling, 200)),
        ];
        // Callers make the lines around tables printable as a whole.
        for (_, text) in &mut texts[..3] {
            *text = printable::printable_lines(text).into_owned();
        }
        texts.extend(page.charts);
        let exports =
            Format::ALL.map(|format| (format.name().to_string(), format.export(&record, None).expect("measured")));
        for (name, text) in texts.into_iter().chain(exports) {
            let line = |c: char| c == '\n' || c == '\t';
            let live = text.chars().find(|c| !line(*c) && printable::printable(&c.to_string()) != c.to_string());
            assert_eq!(live, None, "{name}: {text}");
            let command = text.lines().find(|line| line.trim_start().starts_with("::") || line.contains("##["));
            assert_eq!(command, None, "{name}: {text}");
        }
    }

    #[test]
    fn every_format_is_parsed_back_from_its_name() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert_eq!("customBiggerIsBetter".parse(), Ok(Format::GithubBigger));
        let error = "markdwon".parse::<Format>().expect_err("misspelt");
        assert!(error.starts_with("unknown format 'markdwon'; did you mean 'markdown'?"), "{error}");
    }

    #[test]
    fn formats_for_times_alone_refuse_a_record_without_any() {
        let mut record = six_cases();
        record.cases.retain(|case| case.measured().is_none());
        for format in Format::ALL {
            let error = format.export(&record, None).err().map(|error| error.to_string());
            let shows_others = !matches!(
                format,
                Format::GithubSmaller
                    | Format::GithubBigger
                    | Format::Bencher
                    | Format::GoogleBenchmark
                    | Format::Hyperfine
            );
            let nothing = format!("nothing to export to {}: no case was measured", format.name());
            let expected = format!("{nothing}; junit, csv, markdown, jsonl and nvbench show the others too");
            assert_eq!(error, (!shows_others).then_some(expected));
        }
    }

    #[test]
    fn a_time_of_zero_has_no_rate_in_any_format() {
        let mut record = six_cases();
        for case in &mut record.cases {
            if let Outcome::Measured(measured) = &mut case.outcome {
                measured.summary.median = Nanos(0.0);
                measured.summary.interval = Some([Nanos(0.0), Nanos(0.0)]);
            }
        }
        for format in Format::ALL {
            // Without rates, this format has nothing to export.
            let Ok(text) = format.export(&record, None) else {
                assert_eq!(format, Format::GithubBigger);
                continue;
            };
            let lower = text.to_lowercase();
            assert!(["inf,", "\"inf", "nan"].iter().all(|number| !lower.contains(number)), "{format:?}\n{text}");
        }
    }

    #[test]
    fn names_are_unique_with_several_devices_and_repeated_cases() {
        let mut record = six_cases();
        record.devices.push(DeviceInfo { index: 1, ..record.devices[0].clone() });
        let others: Vec<_> = record.cases.iter().map(|case| Case { device: 1, ..case.clone() }).collect();
        record.cases.extend([others.clone(), others].concat());
        let names: Vec<_> = named_cases(&record).into_iter().map(|named| named.name).collect();
        assert_eq!(names[0], "matmul/naive/f32/64x64x64 on software [0]");
        assert_eq!(crate::basis::alike::distinct(&names).len(), names.len());
    }

    #[test]
    fn the_standard_deviation_of_one_value_is_unknown() {
        assert_eq!(moments(&[3.0]), (3.0, None));
        assert_eq!(moments(&[1.0, 3.0]), (2.0, Some(2f64.sqrt())));
    }

    /// Cases that another version may have measured.
    #[test]
    fn every_format_takes_algorithms_variants_and_sizes_that_this_version_does_not_know() {
        let mut record = six_cases();
        for case in &mut record.cases {
            case.id = format!("convolve/{}-shared/f32/3x3x64x64", case.variant);
            (case.algorithm, case.size) = ("convolve".into(), "3x3x64x64".into());
            case.variant = format!("{}-shared", case.variant);
            // Chains have no share of a limit.
            (case.chain, case.share) = (Some(10), None);
        }
        let json = serde_json::to_vec(&record).expect("JSON");
        let read =
            crate::record::reader::parse(&json, "run.json", &crate::kernels::CATALOGUE).expect("a record").record;
        assert_eq!(read, record);
        for format in Format::ALL {
            let text = format.export(&read, None).unwrap_or_else(|error| panic!("{format:?}: {error}"));
            assert!(text.contains("convolve"), "{format:?}\n{text}");
        }
        let table = crate::report::grid::compact(&read, &crate::report::long::View::of_width(80));
        assert!(["convolve f32", "3x3x64x64", "naive-shared"].iter().all(|name| table.contains(name)), "{table}");
        let run = crate::record::NamedRecord::new("run.json", read);
        let page = crate::report::html::report(&[run], None).html;
        assert!(page.contains("naive-shared") && page.contains("3x3x64x64"));
    }
}
