//! Axes on which cases differ besides algorithm, variant and size: element type, layout, input and others. Each axis is
//! one entry of a table that the command line, configurations, ids, headings, commands and stored results read.

use super::choose::{self, Choosing};
use crate::basis::layout::Layout;
use crate::case::{CaseOptions, Goal, StopRule};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Axis on which cases differ besides algorithm, variant and size.
pub struct Axis {
    /// Name of the option on the command line, and of the field of `[[bench]]`.
    pub name: &'static str,
    /// Short form of the option.
    pub short: Option<char>,
    /// Syntax of the value.
    pub value: Value,
    /// Help texts of the commands that have the option.
    pub help: Help,
    /// Function that derives a case for each typed value, or for each default if none was typed.
    pub choose: Choose,
    /// Returns the text that selects the value of a case; `None` if the value needs no option.
    pub text: fn(&CaseOptions) -> Option<String>,
    /// Returns the suffix of the id for a value that is not the default; `None` if ids omit the axis.
    id: fn(&CaseOptions) -> Option<String>,
    /// Returns the word in headings, after the algorithm; `None` without one.
    heading: fn(&CaseOptions) -> Option<String>,
    /// Whether two cases have the same value.
    pub same: fn(&CaseOptions, &CaseOptions) -> bool,
    /// Whether the axis is part of the stop rule, which only iterative algorithms accept.
    pub iterative: bool,
    /// Whether cases that differ only on this axis follow one another at each size.
    pub within_size: bool,
    /// Comparisons in which different values count as different cases.
    pub separates: Separates,
    /// Column in exports; `None` if only the id of a case has the value.
    pub column: Option<Column>,
}

/// Column of an axis in CSV, JSON lines and `--reference`; also a field of tuning results and an axis of nvbench.
pub struct Column {
    /// Name of the column and of the record's field.
    pub name: &'static str,
    /// Position among the columns of axes.
    place: usize,
    /// Name among the axes of nvbench; `None` if the benchmark's name has the value, or times do not depend on it.
    pub nvbench: Option<&'static str>,
    pub value: fn(&CaseOptions) -> Json,
    pub read: Read,
}

impl Column {
    /// Formats the value.
    pub fn text(&self, options: &CaseOptions) -> String {
        match (self.value)(options) {
            Json::Null => "default".into(),
            Json::String(text) => text,
            other => other.to_string(),
        }
    }
}

/// Number of columns of axes before the size.
const COLUMNS_BEFORE_SIZE: usize = 2;

/// Parser of a value, which returns the options with it.
type Read = fn(&str, CaseOptions) -> Result<CaseOptions, String>;

/// Function that derives cases from one by the typed texts.
type Choose = fn(&Choosing<'_>, &[String], CaseOptions) -> Result<Vec<CaseOptions>, String>;

/// Syntax of an axis's value, with its placeholder in help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Option without a value.
    Flag,
    /// Single word.
    Word(&'static str),
    /// Comma-separated words.
    List(&'static str),
    /// Whole number up to a maximum.
    Whole(&'static str, u64),
    /// Real number.
    Real(&'static str),
}

/// Help texts of an axis, for the commands that have it.
pub struct Help {
    bench: &'static str,
    verify: Option<&'static str>,
    tune: Option<&'static str>,
    ab: Option<&'static str>,
}

/// Comparisons in which cases with different values on an axis are different.
#[expect(clippy::struct_excessive_bools, reason = "each is a column of the table")]
pub struct Separates {
    /// Whether the answers differ.
    pub problems: bool,
    /// Whether the cases are in different tables and charts, and have different reference values.
    pub tables: bool,
    /// Whether best tiles are searched and stored separately.
    pub tiles: bool,
    /// Whether the time of one case does not predict that of the other.
    pub times: bool,
}

pub static GOAL: Axis = Axis {
    name: "solve",
    short: None,
    value: Value::Flag,
    help: Help {
        bench: "lu: also solve A·x = b, judged by HPL's scaled residual (f64: f32 factors and iterative refinement)",
        verify: Some("lu: verify only solutions of A·x = b [default: these and the factors]"),
        tune: None,
        ab: Some("lu: also solve A·x = b"),
    },
    choose: |choosing, _, base| each(Ok(choosing.goals.clone()), |goal| CaseOptions { goal, ..base }),
    text: |options| (options.goal == Goal::Solution).then(|| "true".into()),
    id: |_| Some("solve".into()),
    heading: |options| (options.goal == Goal::Solution).then(|| "--solve".into()),
    same: |a, b| a.goal == b.goal,
    iterative: false,
    within_size: false,
    // Both goals share the product or factorization that the tile is for.
    separates: Separates { problems: true, tables: true, tiles: false, times: true },
    column: Some(Column {
        name: "goal",
        place: 2,
        nvbench: None,
        value: |options| options.goal.name().into(),
        read: |text, base| Ok(CaseOptions { goal: choose::goal(text)?, ..base }),
    }),
};

pub static DTYPE: Axis = Axis {
    name: "dtype",
    short: Some('t'),
    value: Value::List("TYPE,.."),
    help: Help {
        bench: "Element types: f32, f64, f16, bf16, i32, i8 [default: the first that a chosen variant has]",
        verify: Some("Element types [default: all]"),
        tune: Some("Element types [default: f32]"),
        ab: Some("Element types: f32, f64, f16, bf16, i32, i8 [default: the first that a chosen variant has]"),
    },
    choose: |choosing, texts, base| each(choose::dtypes(choosing, texts), |dtype| CaseOptions { dtype, ..base }),
    text: |options| Some(options.dtype.to_string()),
    // Every id has the element type before the size.
    id: |_| None,
    heading: |options| Some(options.dtype.to_string()),
    same: |a, b| a.dtype == b.dtype,
    iterative: false,
    within_size: false,
    separates: Separates { problems: true, tables: true, tiles: true, times: true },
    column: Some(Column {
        name: "dtype",
        place: 0,
        nvbench: Some("T"),
        value: |options| options.dtype.name().into(),
        read: |text, base| Ok(CaseOptions { dtype: text.parse()?, ..base }),
    }),
};

pub static LAYOUT: Axis = Axis {
    name: "layout",
    short: None,
    value: Value::List("LAYOUT,.."),
    help: Help {
        bench: "matmul: layouts: nn (A stored M×K, B K×N), nt (B stored N×K), tn (A stored K×M) [default: nn]",
        verify: Some("matmul: layouts of the operands, nn, nt, tn [default: all]"),
        tune: Some("Layouts of the operands: nn, nt, tn [default: nn]"),
        ab: Some("matmul: layouts of the operands: nn, nt, tn [default: nn]"),
    },
    choose: |choosing, texts, base| each(choose::layouts(choosing, texts), |layout| CaseOptions { layout, ..base }),
    text: |options| options.layout.unusual().as_ref().map(Layout::to_string),
    id: |options| Some(options.layout.to_string()),
    heading: |options| options.layout.unusual().as_ref().map(Layout::to_string),
    same: |a, b| a.layout == b.layout,
    iterative: false,
    within_size: false,
    separates: Separates { problems: true, tables: true, tiles: true, times: true },
    column: Some(Column {
        name: "layout",
        place: 1,
        nvbench: Some("Layout"),
        value: |options| options.layout.name().into(),
        read: |text, base| Ok(CaseOptions { layout: text.parse()?, ..base }),
    }),
};

pub static INPUT: Axis = Axis {
    name: "input",
    short: None,
    value: Value::Word("KIND"),
    help: Help {
        bench: "Input data: uniform ([0,1)), signed ([-1,1)), hilbert, …; `gpukern list ALGORITHM` lists all, the default first",
        verify: Some("Kind of input data [default: every kind]"),
        tune: None,
        ab: Some("Kind of input data; `gpukern list ALGORITHM` lists them, the default first"),
    },
    choose: |choosing, texts, base| each(choose::inputs(choosing, texts), |input| CaseOptions { input, ..base }),
    text: |options| Some(options.input.to_string()),
    id: |options| Some(options.input.to_string()),
    // Headings append the input separately, for built-in algorithms only.
    heading: |_| None,
    same: |a, b| a.input == b.input,
    iterative: false,
    within_size: false,
    separates: Separates { problems: true, tables: true, tiles: false, times: false },
    column: Some(Column {
        name: "input",
        place: 3,
        nvbench: Some("Input"),
        value: |options| options.input.name().into(),
        read: |text, base| Ok(CaseOptions { input: text.parse()?, ..base }),
    }),
};

pub static SUBGROUP_SIZE: Axis = Axis {
    name: "subgroup-size",
    short: None,
    value: Value::List("N,.."),
    help: Help {
        bench: "Require sub-groups of these sizes [default: the device's own]",
        verify: Some("Require sub-groups of these sizes [default: the device's own]"),
        tune: None,
        ab: Some("Require sub-groups of these sizes [default: the device's own]"),
    },
    choose: |_, texts, base| typed(texts, base, subgroup_size),
    text: |options| options.subgroup_size.as_ref().map(u32::to_string),
    id: |options| options.subgroup_size.map(|size| format!("subgroup-{size}")),
    // Rows of tables show it beside the size.
    heading: |_| None,
    same: |a, b| a.subgroup_size == b.subgroup_size,
    iterative: false,
    within_size: true,
    separates: Separates { problems: false, tables: false, tiles: false, times: false },
    column: Some(Column {
        name: "subgroup_size",
        place: 5,
        nvbench: Some("Subgroup"),
        value: |options| options.subgroup_size.into(),
        read: subgroup_size,
    }),
};

pub static SEED: Axis = Axis {
    name: "seed",
    short: None,
    value: Value::Whole("SEED", u64::MAX),
    help: Help {
        bench: "Seed of the input data [default: 1]",
        verify: Some("Seed of the input data [default: 1]"),
        tune: Some("Seed of the input data and of the order in which tiles are tried [default: 1]"),
        ab: Some("Seed of the input data [default: 1]"),
    },
    choose: |_, texts, base| typed(texts, base, seed),
    text: |options| Some(options.seed.to_string()),
    // Comparisons refuse another seed by name.
    id: |_| None,
    heading: |_| None,
    same: |a, b| a.seed == b.seed,
    iterative: false,
    within_size: false,
    separates: Separates { problems: true, tables: false, tiles: false, times: false },
    column: Some(Column { name: "seed", place: 4, nvbench: None, value: |options| options.seed.into(), read: seed }),
};

pub static STOP: Axis = Axis {
    name: "stop",
    value: Value::Word("TEST"),
    help: Help::of_bench(
        "eigen: stop when neighboring row sums differ by less than --eps (`neighbour`), or when (max - min) / max is less \
         (`bracket`) [default: bracket]",
    ),
    choose: |_, texts, base| {
        let test = texts.first().map(|text| text.parse()).transpose()?;
        Ok(stopping(base, |rule| StopRule { test: test.unwrap_or(rule.test), ..rule }))
    },
    text: |options| options.stop.map(|rule| rule.test.name().into()),
    id: |options| {
        options.stop.map(|StopRule { test, eps, max_rounds }| format!("{}-{eps:e}-{max_rounds}", test.name()))
    },
    ..PART_OF_STOP_RULE
};

pub static EPS: Axis = Axis {
    name: "eps",
    value: Value::Real("EPS"),
    help: Help::of_bench("eigen: the tolerance of --stop [default: 1e-4]"),
    choose: |_, texts, base| {
        let eps = choose::eps(texts, base.stop_rule().eps)?;
        Ok(stopping(base, |rule| StopRule { eps, ..rule }))
    },
    text: |options| options.stop.map(|rule| rule.eps.to_string()),
    ..PART_OF_STOP_RULE
};

pub static MAX_ROUNDS: Axis = Axis {
    name: "max-rounds",
    value: Value::Whole("N", u32::MAX as u64),
    help: Help::of_bench("eigen: give up on a case that has not converged after N rounds [default: 1000]"),
    choose: |_, texts, base| {
        let max_rounds = choose::max_rounds(texts, base.stop_rule().max_rounds)?;
        Ok(stopping(base, |rule| StopRule { max_rounds, ..rule }))
    },
    text: |options| options.stop.map(|rule| rule.max_rounds.to_string()),
    ..PART_OF_STOP_RULE
};

/// Common fields of the stop rule's options. They count as one value; the first option adds it to the id.
const PART_OF_STOP_RULE: Axis = Axis {
    name: "",
    short: None,
    value: Value::Flag,
    help: Help::of_bench(""),
    choose: |_, _, base| Ok(vec![base]),
    text: |_| None,
    id: |_| None,
    heading: |_| None,
    same: |a, b| a.stop == b.stop,
    iterative: true,
    within_size: false,
    separates: Separates { problems: true, tables: false, tiles: false, times: false },
    column: None,
};

/// Every axis, in the order of ids, and of cases from the slowest to the fastest varying.
pub static AXES: [&Axis; 9] = [&GOAL, &DTYPE, &LAYOUT, &INPUT, &SUBGROUP_SIZE, &SEED, &STOP, &EPS, &MAX_ROUNDS];

impl Help {
    const fn of_bench(bench: &'static str) -> Self {
        Self { bench, verify: None, tune: None, ab: None }
    }

    /// Returns the help text of a command, if it has the option.
    pub fn of(&self, command: &str) -> Option<&'static str> {
        match command {
            "verify" | "sanitize" => self.verify,
            "tune" => self.tune,
            "ab" => self.ab,
            _ => Some(self.bench),
        }
    }
}

/// Returns a case for each of `values`.
fn each<T>(values: Result<Vec<T>, String>, case: impl Fn(T) -> CaseOptions) -> Result<Vec<CaseOptions>, String> {
    Ok(values?.into_iter().map(case).collect())
}

/// Returns the case with each typed value, or unchanged if none was typed.
fn typed(texts: &[String], base: CaseOptions, read: Read) -> Result<Vec<CaseOptions>, String> {
    if texts.is_empty() {
        return Ok(vec![base]);
    }
    choose::unique(texts.iter().map(|text| read(text, base)), |a, b| a == b)
}

fn subgroup_size(text: &str, base: CaseOptions) -> Result<CaseOptions, String> {
    Ok(CaseOptions { subgroup_size: Some(choose::subgroup_size(text)?), ..base })
}

fn seed(text: &str, base: CaseOptions) -> Result<CaseOptions, String> {
    Ok(CaseOptions { seed: choose::number(text)?, ..base })
}

/// Returns the case with its stop rule, if any, changed by `rule`.
fn stopping(base: CaseOptions, rule: impl Fn(StopRule) -> StopRule) -> Vec<CaseOptions> {
    vec![CaseOptions { stop: base.stop.map(rule), ..base }]
}

/// Whether two cases are the same in one of the comparisons.
pub fn same(a: &CaseOptions, b: &CaseOptions, separates: fn(&Separates) -> bool) -> bool {
    AXES.iter().filter(|axis| separates(&axis.separates)).all(|axis| (axis.same)(a, b))
}

/// Returns the axis with this name.
pub fn find(name: &str) -> Option<&'static Axis> {
    AXES.into_iter().find(|axis| axis.name == name)
}

/// Returns the suffix of a case's id: the values that differ from `usual`.
pub fn id(options: &CaseOptions, usual: &CaseOptions) -> String {
    let unusual = AXES.iter().filter(|axis| !(axis.same)(options, usual));
    unusual.filter_map(|axis| (axis.id)(options)).map(|part| format!("/{part}")).collect()
}

/// Returns the columns of axes in order, each with the comparisons that its axis affects.
pub fn columns() -> Vec<(&'static Column, &'static Separates)> {
    let mut columns: Vec<_> = AXES.iter().filter_map(|axis| Some((axis.column.as_ref()?, &axis.separates))).collect();
    columns.sort_by_key(|(column, _)| column.place);
    columns
}

/// Returns the columns of the axes that separate tiles.
pub fn tile_columns() -> impl Iterator<Item = &'static Column> {
    columns().into_iter().filter_map(|(column, separates)| separates.tiles.then_some(column))
}

/// Maps the columns of axes by `value_of`, which may leave some out, and inserts `size` in its position.
pub fn around_size<T>(size: T, value_of: impl Fn(&Column) -> Option<T>) -> Vec<T> {
    let columns = columns();
    let (before, after) = columns.split_at(COLUMNS_BEFORE_SIZE);
    let mut values: Vec<T> = before.iter().filter_map(|(column, _)| value_of(column)).collect();
    values.push(size);
    values.extend(after.iter().filter_map(|(column, _)| value_of(column)));
    values
}

/// Returns the heading of an algorithm's cases, with the axes that `only` selects.
pub fn heading(algorithm: &str, options: &CaseOptions, only: impl Fn(&Axis) -> bool) -> String {
    let mut heading = algorithm.to_string();
    for word in words(options, only) {
        heading.push(' ');
        heading.push_str(&word);
    }
    heading
}

/// Returns the words of a heading after the algorithm, for the axes that `only` selects.
pub fn words(options: &CaseOptions, only: impl Fn(&Axis) -> bool) -> Vec<String> {
    AXES.iter().filter(|axis| only(axis)).filter_map(|axis| (axis.heading)(options)).collect()
}

/// Returns the words of a heading without the layout, for short lines.
pub fn brief(options: &CaseOptions) -> String {
    words(options, |axis| axis.name != LAYOUT.name).join(" ")
}

/// Typed values of axes, by the axes' names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AxisValues(BTreeMap<&'static str, Vec<String>>);

impl AxisValues {
    /// Returns the values that select a case.
    pub fn of_case(options: &CaseOptions) -> Self {
        let mut values = Self::default();
        for axis in AXES {
            values.set(axis, (axis.text)(options).into_iter().collect());
        }
        values
    }

    /// Returns the values that differ from `usual`, and the element type, whose default depends on variants.
    pub fn unusual(options: &CaseOptions, usual: &CaseOptions) -> Self {
        let is_needed = |axis: &Axis| axis.name == DTYPE.name || !(axis.same)(options, usual);
        let mut values = Self::of_case(options);
        values.0.retain(|name, _| find(name).is_some_and(is_needed));
        values
    }

    /// Returns the typed texts of an axis.
    pub fn of(&self, axis: &Axis) -> &[String] {
        self.0.get(axis.name).map_or(&[], Vec::as_slice)
    }

    /// Whether anything was typed for an axis.
    pub fn has(&self, axis: &Axis) -> bool {
        !self.of(axis).is_empty()
    }

    /// Returns the typed seed.
    pub fn seed(&self) -> Option<u64> {
        self.of(&SEED).first()?.parse().ok()
    }

    /// Sets the typed texts of an axis, if there are any.
    pub fn set(&mut self, axis: &Axis, texts: Vec<String>) {
        if !texts.is_empty() {
            self.0.insert(axis.name, texts);
        }
    }

    /// Adds a value of the axis with this name.
    ///
    /// # Panics
    /// When there is no such axis.
    #[expect(clippy::needless_pass_by_value, reason = "numbers of several types, and texts")]
    pub fn with(mut self, name: &str, text: impl ToString) -> Self {
        let axis = find(name).expect("the name of an axis");
        self.0.entry(axis.name).or_default().push(text.to_string());
        self
    }

    /// Adds the values of `other` for axes without a value.
    pub(super) fn or(mut self, other: Self) -> Self {
        for (name, texts) in other.0 {
            self.0.entry(name).or_insert(texts);
        }
        self
    }

    /// Removes the values of the axes that `left_out` selects.
    pub fn without(mut self, left_out: fn(&Axis) -> bool) -> Self {
        self.0.retain(|name, _| !find(name).is_some_and(left_out));
        self
    }
}

/// Serializes one field per axis, with the types of configurations.
impl Serialize for AxisValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, texts)| {
            let text = texts.first().map_or("", String::as_str);
            let value: Json = match find(name).map(|axis| axis.value) {
                Some(Value::Flag) => true.into(),
                Some(Value::Word(_)) => text.into(),
                // TOML's whole numbers are signed 64-bit; write larger ones as text.
                Some(Value::Whole(..)) => text.parse::<i64>().map_or(text.into(), Json::from),
                Some(Value::Real(_)) => text.parse::<f64>().map_or(text.into(), Json::from),
                Some(Value::List(..)) | None => texts.as_slice().into(),
            };
            (name, value)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::{field, unusual, unusual_on, usual};

    use crate::kernels::CATALOGUE;

    use std::collections::BTreeSet;

    #[test]
    fn a_column_reads_the_text_of_its_value() {
        for axis in AXES {
            let Some(column) = &axis.column else { continue };
            let text = column.text(&unusual_on(axis));
            assert_eq!((column.read)(&text, usual()), Ok(unusual_on(axis)), "{}", column.name);
        }
    }

    #[test]
    fn every_field_of_the_options_has_an_axis_and_every_axis_a_field() {
        let options = serde_json::to_value(unusual()).expect("JSON");
        let fields: BTreeSet<&str> = options.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(fields, AXES.iter().map(|axis| field(axis)).collect());
        for axis in AXES {
            assert!(!(axis.same)(&usual(), &unusual_on(axis)), "{} compares another field", axis.name);
            for other in AXES.iter().filter(|other| field(other) != field(axis)) {
                let is_same = (other.same)(&usual(), &unusual_on(axis));
                assert!(is_same, "{} compares the field of {}", other.name, axis.name);
            }
        }
    }

    #[test]
    fn the_text_of_every_axis_asks_for_its_value() {
        let algorithm = CATALOGUE.algorithms.iter().find(|algorithm| algorithm.iterative).expect("one iterates");
        let variants: Vec<_> = algorithm.variants.iter().collect();
        let purpose = super::super::Purpose::Bench;
        let choosing = Choosing { algorithm, purpose, variants: &variants, goals: vec![Goal::Result] };
        for axis in AXES {
            let text = (axis.text)(&unusual_on(axis)).expect("an unusual value is typed");
            // The algorithm may lack the unusual goal, type, layout and input.
            if !["solve", "dtype", "layout", "input"].contains(&axis.name) {
                let chosen = (axis.choose)(&choosing, std::slice::from_ref(&text), usual()).expect("a value");
                let texts: Vec<_> = chosen.iter().map(|options| (axis.text)(options)).collect();
                assert_eq!(texts, [Some(text)], "{}", axis.name);
            }
        }
    }

    #[test]
    fn every_axis_but_seed_and_type_is_in_the_id() {
        for axis in AXES.iter().filter(|axis| ![SEED.name, DTYPE.name].contains(&axis.name)) {
            assert_ne!(id(&unusual_on(axis), &usual()), "", "{} is in no id", axis.name);
        }
        let expected = "/solve/nt/hilbert/subgroup-16/neighbour-1e-3-9";
        assert_eq!(id(&unusual(), &usual()), expected);
    }

    #[test]
    fn headings_of_different_tables_differ() {
        for axis in AXES.iter().filter(|axis| axis.separates.tables && axis.name != INPUT.name) {
            let heading_of = |options: &CaseOptions| heading("lu", options, |_| true);
            assert_ne!(heading_of(&unusual_on(axis)), heading_of(&usual()), "{}", axis.name);
        }
    }

    #[test]
    fn values_survive_a_configuration() {
        let values = AxisValues::of_case(&unusual());
        let table = toml::to_string(&values).expect("TOML");
        let read: super::super::options::Selection = toml::from_str(&table).expect(&table);
        assert_eq!(read.axes, values, "{table}");
    }
}
