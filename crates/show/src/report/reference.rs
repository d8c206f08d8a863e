//! Reference times beside the measured ones, from another record or a CSV file.

use super::bench::median;
use crate::algorithms::catalogue::Catalogue;
use crate::basis::alike::distinct;
use crate::basis::printable::printable;
use crate::basis::units::{Nanos, counted};
use crate::case::CaseOptions;
use crate::plan::axes;
use crate::record::{Case, CaseSize, Record};
use crate::stats;

/// Time that another program took for a problem.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceTime {
    algorithm: String,
    options: CaseOptions,
    /// Whether the time holds for any kind of input.
    any_input: bool,
    size: CaseSize,
    pub time: Nanos,
    /// 95 % interval of the time, if a record has one.
    interval: Option<[Nanos; 2]>,
    /// Source of the time: a library and its version, or a record and its variant.
    pub source: String,
}

/// Columns that every row of the file has.
#[derive(serde::Deserialize)]
struct ReferenceRow {
    algorithm: String,
    dtype: String,
    size: String,
    time: String,
    source: String,
}

impl ReferenceTime {
    /// Returns the times of the measured cases of a record called `name`.
    pub fn of_record(record: &Record, name: &str) -> Vec<Self> {
        let record = record.across_processes();
        let figure = |case: &Case| {
            Some(Self {
                algorithm: case.algorithm.clone(),
                options: case.options,
                any_input: false,
                size: case.size.clone(),
                time: median(case)?,
                interval: case.measured()?.summary.interval,
                source: format!("{} of {name}", case.variant),
            })
        };
        record.cases.iter().filter_map(figure).collect()
    }

    /// Parses a CSV file with a heading row: algorithm, dtype, size, time with its unit, source, and as needed the
    /// columns of other axes that separate tables, such as layout, goal and input. An error names the line and its
    /// mistake.
    pub fn of_csv(text: &str, catalogue: &Catalogue) -> Result<Vec<Self>, String> {
        let mut reader =
            csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
        let mut figures = vec![];
        let mut row = csv::StringRecord::new();
        let headings = reader.headers().map_err(|error| error.to_string())?.clone();
        for (column, _) in axes::columns().into_iter().filter(|(_, separates)| separates.tables) {
            if headings.iter().filter(|heading| *heading == column.name).count() > 1 {
                return Err(format!("two columns are called '{}'; leave one out", column.name));
            }
        }
        while reader.read_record(&mut row).map_err(|error| error.to_string())? {
            let line = row.position().map_or(0, csv::Position::line);
            let in_line = |reason: String| format!("line {line}: {reason}");
            let fixed: ReferenceRow = row.deserialize(Some(&headings)).map_err(|error| in_line(error.to_string()))?;
            let cell = |name: &str| {
                let column = headings.iter().position(|heading| heading == name);
                column.and_then(|column| row.get(column)).unwrap_or_default()
            };
            figures.push(Self::new(fixed, catalogue, cell).map_err(in_line)?);
        }
        if figures.is_empty() {
            return Err(
                "no figures in it; write lines such as 'matmul,f32,1024,68.6 µs,cuBLAS' below the heading".into()
            );
        }
        Ok(figures)
    }

    /// Whether the time is for the problem of `case`.
    fn is_for(&self, case: &Case) -> bool {
        let input = if self.any_input { case.input } else { self.options.input };
        let options = CaseOptions { input, ..self.options };
        self.algorithm == case.algorithm
            && axes::same(&options, &case.options, |separates| separates.tables)
            && self.size.same(&case.size)
    }

    /// Returns the shortest of the reference times for the problem of `case`, if there is one.
    pub fn find_shortest<'a>(times: &'a [Self], case: &Case) -> Option<&'a Self> {
        times.iter().filter(|time| time.is_for(case)).min_by(|a, b| a.time.0.total_cmp(&b.time.0))
    }

    /// Says which of the reference times are for no case of `record`, of the algorithms that it has; empty if there are none.
    pub fn unused(times: &[Self], record: &Record) -> String {
        let is_of = |time: &Self| record.cases.iter().any(|case| case.algorithm == time.algorithm);
        let is_used = |time: &Self| record.cases.iter().any(|case| time.is_for(case));
        if !times.iter().any(is_used) {
            let wanted = record.cases.iter().find(|case| case.measured().is_some());
            let wanted = wanted.map_or_else(String::new, |case| {
                format!(", such as {},{},{}", case.algorithm, case.options.dtype, case.size)
            });
            return format!(
                "note      --reference has no time for a case of this record{wanted} (algorithm,dtype,size)\n"
            );
        }
        let unused: Vec<_> = times.iter().filter(|time| is_of(time) && !is_used(time)).collect();
        let Some(Self { algorithm, options, size, .. }) = unused.first() else { return String::new() };
        let (count, all) = (unused.len(), counted(times.len(), "time"));
        format!(
            "note      --reference: {count} of {all} for no case here, such as {algorithm},{},{size}\n",
            options.dtype
        )
    }

    /// Returns the ± of the time; `None` without an interval.
    pub fn relative_error(&self) -> Option<f64> {
        self.interval.map(|interval| stats::relative_error(self.time.0, interval.map(|end| end.0)))
    }

    /// Returns the speed of `case` relative to this time, with its interval if the case has one; `None` without a time.
    pub fn speed_of(&self, case: &Case) -> Option<(f64, Option<[f64; 2]>)> {
        let Self { time: reference, interval: own, .. } = self;
        let own = own.unwrap_or([*reference; 2]);
        let interval = case.measured()?.summary.interval.map(|[low, high]| [own[0].0 / high.0, own[1].0 / low.0]);
        Some((reference.0 / median(case)?.0, interval))
    }

    /// Names the cases with several times, of which the shortest counts.
    pub fn repeated(times: &[Self]) -> Vec<String> {
        let is_same = |a: &Self, b: &Self| a.algorithm == b.algorithm && a.options == b.options && a.size.same(&b.size);
        let again = times.iter().enumerate().filter(|(at, time)| times[..*at].iter().any(|other| is_same(other, time)));
        distinct(again.map(|(_, time)| format!("{} {} {}", time.algorithm, time.options.dtype, time.size)))
    }

    /// Parses a row; `cell` returns its text under a heading, empty if there is none.
    fn new<'a>(row: ReferenceRow, catalogue: &Catalogue, cell: impl Fn(&str) -> &'a str) -> Result<Self, String> {
        let ReferenceRow { algorithm, dtype, size, time, source } = row;
        if algorithm.is_empty() || size.is_empty() || source.is_empty() {
            return Err("algorithm, size and source must not be empty".into());
        }
        let dtype = dtype.parse()?;
        let mut options = match catalogue.known(&algorithm) {
            Some(algorithm) => algorithm.options(dtype),
            None => CaseOptions::plain(dtype),
        };
        for (column, _) in axes::columns().into_iter().filter(|(_, separates)| separates.tables) {
            let text = cell(column.name);
            if !text.is_empty() {
                options = (column.read)(text, options)?;
            }
        }
        // Records have the extents of a user's kernel without the names of its axes: `N=64,M=32` is 64x32.
        let extents = |size: &str| {
            let parts = size.split(',').map(|part| part.split_once('=').map(|(_, extent)| extent.trim()));
            parts.collect::<Option<Vec<_>>>().map(|extents| extents.join("x"))
        };
        let size = extents(&size).unwrap_or(size);
        let size = size.parse().map_or_else(|_| CaseSize::Foreign(size.clone()), CaseSize::Known);
        let time = parsed_time(&time)?;
        let source = printable(&source).into_owned();
        let any_input = cell("input").is_empty();
        Ok(Self { algorithm, options, any_input, size, time, interval: None, source })
    }
}

/// Parses a time with its unit: `68.6 µs`.
fn parsed_time(text: &str) -> Result<Nanos, String> {
    let malformed = || format!("malformed time '{}'; write 68.6 µs, 2.51 ms or 1.2 s", printable(text));
    let digits_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(malformed)?;
    let (number, unit) = text.split_at(digits_end);
    let scale = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(malformed()),
    };
    let time = number.parse::<f64>().map_err(|_| malformed())? * scale;
    if time.is_finite() && time > 0.0 { Ok(Nanos(time)) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Goal;
    use crate::kernels::CATALOGUE;
    use crate::plan::options::Config;
    use crate::plan::{CaseGroup, PlanSection, Purpose};
    use crate::record::fixture::four_cases;

    /// Parses rows of the columns that every file has, and of more columns.
    fn parse(columns: &str, rows: &str) -> Result<Vec<ReferenceTime>, String> {
        ReferenceTime::of_csv(&format!("algorithm,dtype,size,time,source{columns}\n{rows}\n"), &CATALOGUE)
    }

    #[test]
    fn the_fastest_figure_of_the_same_problem_stands_beside_a_case() {
        let rows = "# a remark\nmatmul,f32,64,2 ms,\"A, 1.0\",\nmatmul,f32,64x64x64,10.5 µs,B,\n\
                    matmul,f32,64,1 us,C,nt\nmatmul,f16,64,1 ns,D,";
        let reference = parse(",layout", rows).expect("a reference");
        let case = four_cases().cases.remove(0);
        let figure = ReferenceTime::find_shortest(&reference, &case).expect("a figure");
        assert_eq!((figure.time, figure.source.as_str()), (Nanos(10.5e3), "B"));
        let options = CaseOptions { goal: Goal::Solution, ..case.options };
        for other in [Case { size: "65".into(), ..case.clone() }, Case { options, ..case }] {
            assert!(ReferenceTime::find_shortest(&reference, &other).is_none());
        }
    }

    #[test]
    fn a_figure_has_the_value_of_every_axis_that_tables_keep_apart() {
        let case = |options| Case { options, ..four_cases().cases.remove(0) };
        for axis in axes::AXES.iter().filter(|axis| axis.separates.tables) {
            let column = axis.column.as_ref().expect("it has a column");
            let usual = case(crate::plan::fixture::usual());
            let other = case(crate::plan::fixture::unusual_on(axis));
            let text = column.text(&other.options);
            let reference = match axis.name {
                "dtype" => parse("", &format!("matmul,{text},64,1 ms,A")),
                _ => parse(&format!(",{}", column.name), &format!("matmul,f32,64,1 ms,A,{text}")),
            };
            let has_figure = |case| ReferenceTime::find_shortest(reference.as_ref().expect(axis.name), case).is_some();
            assert!(has_figure(&other) && !has_figure(&usual), "{}", axis.name);
        }
    }

    fn figures(path: &str) -> Vec<ReferenceTime> {
        let text = std::fs::read_to_string(crate::basis::fixture::in_repository(path)).expect("the file");
        ReferenceTime::of_csv(&text, &CATALOGUE).expect("a reference")
    }

    #[test]
    fn the_published_figures_are_of_problems_of_ours() {
        let figures = figures("results/reference-h100.csv");
        assert!(figures.len() > 50);
        for figure in &figures {
            let algorithm = CATALOGUE.find(&figure.algorithm).expect("an algorithm");
            let is_supported = algorithm.variants.iter().any(|variant| variant.supports(figure.options.dtype));
            assert!(figure.size.known().is_some() && is_supported, "{figure:?}");
        }
    }

    #[test]
    fn the_figures_of_the_posts_are_of_what_their_configurations_measure() {
        let mut measured = vec![];
        for name in ["matmul", "lu", "similarity"] {
            let path = crate::basis::fixture::in_repository(&format!("benches-config/blog-{name}.toml"));
            let text = std::fs::read_to_string(path).expect("the file");
            let config: Config = toml::from_str(&text).expect("a configuration");
            for table in &config.bench {
                measured.extend(PlanSection::new(&CATALOGUE, table, Purpose::Bench).expect("a plan").groups);
            }
        }
        let figures = ["cpu", "gpu"].map(|device| figures(&format!("benches-config/blog-{device}.csv"))).concat();
        assert_eq!(figures.len(), 198);
        for figure in figures {
            let is_measured_in = |group: &CaseGroup| {
                let spec = &group.spec;
                let input = if figure.any_input { spec.input } else { figure.options.input };
                let options = CaseOptions { input, ..figure.options };
                group.algorithm.name == figure.algorithm
                    && axes::same(&options, &spec.options, |separates| separates.tables)
                    && figure.size.same(&CaseSize::Known(spec.size))
                    && group.variants.iter().any(|variant| figure.source.starts_with(&format!("{} of ", variant.name)))
            };
            assert!(measured.iter().any(is_measured_in), "{figure:?}");
        }
    }

    #[test]
    fn a_record_is_a_reference_too() {
        let record = four_cases();
        let reference = ReferenceTime::of_record(&record, "old.json");
        let figure = ReferenceTime::find_shortest(&reference, &record.cases[2]).expect("a figure");
        assert_eq!((figure.time, figure.source.as_str()), (Nanos(125e3), "local of old.json"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let rows = [
            "matmul,f32,64,2,A,",
            "matmul,f31,64,2 ms,A,",
            "matmul,f32,64,2 ms,A,answer",
            "matmul,f32,,2 ms,A,",
            "# nothing",
        ];
        let errors = rows.map(|row| parse(",goal", row).expect_err("a mistake"));
        insta::assert_snapshot!(errors.join("\n"), @"
        line 2: malformed time '2'; write 68.6 µs, 2.51 ms or 1.2 s
        line 2: unknown dtype 'f31'; did you mean 'f32'? available: f32, f64, f16, bf16, i32, i8, u8
        line 2: unknown goal 'answer'; available: result, solution
        line 2: algorithm, size and source must not be empty
        no figures in it; write lines such as 'matmul,f32,1024,68.6 µs,cuBLAS' below the heading
        ");
        let twice = |name: &str| {
            let file = format!("# A remark\nalgorithm,dtype,size,time,source,{name},{name}\nlu,f32,64,2 ms,A,,\n");
            ReferenceTime::of_csv(&file, &CATALOGUE).map(|_| ())
        };
        assert_eq!(twice("goal"), Err("two columns are called 'goal'; leave one out".into()));
        assert_eq!(twice("remark"), Ok(()));
        let hostile = parse("", "lu,f32,64,2 ms,\x1b[31m\u{202e}");
        assert_eq!(hostile.expect("a reference")[0].source, "\\u{1b}[31m\\u{202e}", "it stays text");
        let without_times = ReferenceTime::of_csv("algorithm,dtype,size,source\nmatmul,f32,64,A\n", &CATALOGUE);
        assert!(without_times.is_err_and(|error| error.contains("time")));
        for text in ["-1 ms", "0 ms", "1e3 ms", "ms", "1..2 ms", "5 min"] {
            assert!(parsed_time(text).is_err(), "{text}");
        }
    }
}
