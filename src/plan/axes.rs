//! The axes along which cases differ beside algorithm, variant and size: element type, layout, input and the like. Each is
//! one entry of a table. The command line, configurations, ids, headings, commands to paste and everything that is kept of
//! cases read it.

use super::choose::{self, Choosing};
use crate::basis::layout::Layout;
use crate::case::{CaseOptions, Goal, StopRule};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// An axis.
pub(crate) struct Axis {
    /// Its name: an option of the command line, a field of `[[bench]]`.
    pub name: &'static str,
    /// The letter of the option.
    pub short: Option<char>,
    /// What is typed.
    pub value: Value,
    /// The help of the commands that have the option.
    pub help: Help,
    /// Makes cases of one: a case for each value that was typed, or for each default where none was.
    pub choose: Choose,
    /// The text that asks for the value of a case; `None` where leaving out the option does.
    pub text: fn(&CaseOptions) -> Option<String>,
    /// What an id appends where the value is not the default.
    id: fn(&CaseOptions) -> Option<String>,
    /// What a heading appends to the algorithm.
    heading: fn(&CaseOptions) -> Option<String>,
    /// Whether two cases have the same value.
    pub same: fn(&CaseOptions, &CaseOptions) -> bool,
    /// Whether it says how iterative algorithms stop: others refuse it.
    pub iterative: bool,
    /// Whether cases that differ in it alone follow one another at each size.
    pub within_size: bool,
    /// What it keeps apart.
    pub separates: Separates,
    /// Its column in files that others read; `None` where the name of a case alone has the value.
    pub column: Option<Column>,
}

/// The value of an axis as a column of CSV, of JSON lines and of `--reference`, a field of kept tiles, an axis of
/// nvbench.
pub(crate) struct Column {
    /// Its name: that of the record's field.
    pub name: &'static str,
    /// Its place among the columns of axes. The size stands behind the first two.
    place: usize,
    /// Its name among the axes of nvbench; `None` where the benchmark's name has the value, or times do not depend on
    /// it.
    pub nvbench: Option<&'static str>,
    pub value: fn(&CaseOptions) -> Json,
    pub read: Read,
}

impl Column {
    /// The value as a text.
    pub(crate) fn text(&self, options: &CaseOptions) -> String {
        match (self.value)(options) {
            Json::Null => "default".into(),
            Json::String(text) => text,
            other => other.to_string(),
        }
    }
}

/// The options with the value that a text says.
type Read = fn(&str, CaseOptions) -> Result<CaseOptions, String>;

/// What makes cases of one by the texts that were typed.
type Choose = fn(&Choosing<'_>, &[String], CaseOptions) -> Result<Vec<CaseOptions>, String>;

/// What an axis is typed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The bare option.
    Flag,
    /// One word.
    Word(&'static str),
    /// A list of words.
    List(&'static str),
    /// A whole number up to this.
    Whole(&'static str, u64),
    /// A number.
    Real(&'static str),
}

/// The help of an axis, for the commands that have it.
pub(crate) struct Help {
    bench: &'static str,
    verify: Option<&'static str>,
    tune: Option<&'static str>,
    ab: Option<&'static str>,
}

/// The comparisons in which cases with different values on an axis are different.
#[expect(clippy::struct_excessive_bools, reason = "each is a column of the table")]
pub(crate) struct Separates {
    /// They have different answers.
    pub problems: bool,
    /// They stand in different tables and charts, and a reference of the one is none of the other.
    pub tables: bool,
    /// Their best tiles are searched for and kept separately.
    pub tiles: bool,
    /// The time of one says nothing about the time of the other.
    pub times: bool,
}

pub(crate) static GOAL: Axis = Axis {
    name: "solve",
    short: None,
    value: Value::Flag,
    help: Help {
        bench: "lu: also solve A·x = b; an answer is right if HPL's scaled residual is below 16 (f64 uses f32 factors and \
            iterative refinement)",
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
    // A tile is one of the product or the factorisation, which both goals have.
    separates: Separates { problems: true, tables: true, tiles: false, times: true },
    column: Some(Column {
        name: "goal",
        place: 2,
        nvbench: None,
        value: |options| options.goal.name().into(),
        read: |text, base| Ok(CaseOptions { goal: choose::goal(text)?, ..base }),
    }),
};

pub(crate) static DTYPE: Axis = Axis {
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
    // It stands before the size.
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

pub(crate) static LAYOUT: Axis = Axis {
    name: "layout",
    short: None,
    value: Value::List("LAYOUT,.."),
    help: Help {
        bench: "matmul: layouts of the operands: nn (A stored M×K, B K×N), nt (B stored N×K), tn (A stored K×M) [default: nn]",
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

pub(crate) static INPUT: Axis = Axis {
    name: "input",
    short: None,
    value: Value::Word("KIND"),
    help: Help {
        bench: "Kind of input data: uniform ([0,1)), signed ([-1,1)), hilbert, …; `gpukern list ALGORITHM` lists them, the default first",
        verify: Some("Kind of input data [default: every kind]"),
        tune: None,
        ab: Some("Kind of input data; `gpukern list ALGORITHM` lists them, the default first"),
    },
    choose: |choosing, texts, base| each(choose::inputs(choosing, texts), |input| CaseOptions { input, ..base }),
    text: |options| Some(options.input.to_string()),
    id: |options| Some(options.input.to_string()),
    // Headings of the built-in algorithms end in it; those of a user's kernels leave it out.
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

pub(crate) static SUBGROUP_SIZE: Axis = Axis {
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
    // Rows of tables have it beside the size.
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

pub(crate) static SEED: Axis = Axis {
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

pub(crate) static STOP: Axis = Axis {
    name: "stop",
    value: Value::Word("TEST"),
    help: Help::of_bench(
        "eigen: stop when neighboring row sums differ by less than --eps (`neighbour`), or when their (max - min) / max is \
         below it (`bracket`) [default: bracket]",
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

pub(crate) static EPS: Axis = Axis {
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

pub(crate) static MAX_ROUNDS: Axis = Axis {
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

/// What the options of a stop rule have in common: they count as one, whose id the first appends.
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

/// Every axis, in the order in which cases vary, the slowest first, and ids have them.
pub(crate) static AXES: [&Axis; 9] = [&GOAL, &DTYPE, &LAYOUT, &INPUT, &SUBGROUP_SIZE, &SEED, &STOP, &EPS, &MAX_ROUNDS];

impl Help {
    const fn of_bench(bench: &'static str) -> Self {
        Self { bench, verify: None, tune: None, ab: None }
    }

    /// The help of a command, if it has the option.
    pub(crate) fn of(&self, command: &str) -> Option<&'static str> {
        match command {
            "verify" => self.verify,
            "tune" => self.tune,
            "ab" => self.ab,
            _ => Some(self.bench),
        }
    }
}

fn each<T>(values: Result<Vec<T>, String>, case: impl Fn(T) -> CaseOptions) -> Result<Vec<CaseOptions>, String> {
    Ok(values?.into_iter().map(case).collect())
}

/// The case with each value that was typed, or as it is where none was.
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

/// The case with another stop rule, where it has one.
fn stopping(base: CaseOptions, rule: impl Fn(StopRule) -> StopRule) -> Vec<CaseOptions> {
    vec![CaseOptions { stop: base.stop.map(rule), ..base }]
}

/// Whether two cases are the same on all axes that make them different in one of the comparisons.
pub(crate) fn same(a: &CaseOptions, b: &CaseOptions, separates: fn(&Separates) -> bool) -> bool {
    AXES.iter().filter(|axis| separates(&axis.separates)).all(|axis| (axis.same)(a, b))
}

/// The axis of this name.
pub(crate) fn find(name: &str) -> Option<&'static Axis> {
    AXES.into_iter().find(|axis| axis.name == name)
}

/// What the id of a case appends to its size: the values that are not those of `usual`.
pub(crate) fn id(options: &CaseOptions, usual: &CaseOptions) -> String {
    let unusual = AXES.iter().filter(|axis| !(axis.same)(options, usual));
    unusual.filter_map(|axis| (axis.id)(options)).map(|part| format!("/{part}")).collect()
}

/// The columns of axes, in their order, with what each axis keeps apart.
pub(crate) fn columns() -> Vec<(&'static Column, &'static Separates)> {
    let mut columns: Vec<_> = AXES.iter().filter_map(|axis| Some((axis.column.as_ref()?, &axis.separates))).collect();
    columns.sort_by_key(|(column, _)| column.place);
    columns
}

/// The columns of the axes that separate tiles.
pub(crate) fn tile_columns() -> impl Iterator<Item = &'static Column> {
    columns().into_iter().filter_map(|(column, separates)| separates.tiles.then_some(column))
}

/// Maps the columns of axes with `of`, and puts `size` in its place among them.
pub(crate) fn around_size<T>(size: T, of: impl Fn(&Column) -> Option<T>) -> Vec<T> {
    let columns = columns();
    let (before, behind) = columns.split_at(2);
    let of = |columns: &[(&Column, _)]| columns.iter().filter_map(|(column, _)| of(column)).collect::<Vec<_>>();
    of(before).into_iter().chain([size]).chain(of(behind)).collect()
}

/// The heading of cases of an algorithm, by the axes that `only` lets pass.
pub(crate) fn heading(algorithm: &str, options: &CaseOptions, only: impl Fn(&Axis) -> bool) -> String {
    [&[algorithm.to_string()], &words(options, only)[..]].concat().join(" ")
}

/// What a heading appends to the algorithm, by the axes that `only` lets pass.
pub(crate) fn words(options: &CaseOptions, only: impl Fn(&Axis) -> bool) -> Vec<String> {
    AXES.iter().filter(|axis| only(axis)).filter_map(|axis| (axis.heading)(options)).collect()
}

/// The same where a line is short: the layout goes without saying there.
pub(crate) fn brief(options: &CaseOptions) -> String {
    words(options, |axis| axis.name != LAYOUT.name).join(" ")
}

/// The values of axes as they were typed, by the names of the axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AxisValues(BTreeMap<&'static str, Vec<String>>);

impl AxisValues {
    /// The values that ask for a case.
    #[must_use]
    pub(crate) fn of_case(options: &CaseOptions) -> Self {
        let text = |axis: &&'static Axis| Some((axis.name, vec![(axis.text)(options)?]));
        Self(AXES.iter().filter_map(text).collect())
    }

    /// The same without those that go without saying for `usual`. The element type stays: its default depends on
    /// variants.
    #[must_use]
    pub(crate) fn unusual(options: &CaseOptions, usual: &CaseOptions) -> Self {
        let said = |axis: &Axis| axis.name == DTYPE.name || !(axis.same)(options, usual);
        let mut values = Self::of_case(options);
        values.0.retain(|name, _| find(name).is_some_and(said));
        values
    }

    /// What was typed for an axis.
    #[must_use]
    pub(crate) fn of(&self, axis: &Axis) -> &[String] {
        self.0.get(axis.name).map_or(&[], Vec::as_slice)
    }

    /// Whether anything was typed for an axis.
    #[must_use]
    pub(crate) fn has(&self, axis: &Axis) -> bool {
        !self.of(axis).is_empty()
    }

    /// The seed that was typed.
    #[must_use]
    pub(crate) fn seed(&self) -> Option<u64> {
        self.of(&SEED).first()?.parse().ok()
    }

    /// Sets what was typed for an axis, if that is anything.
    pub(crate) fn set(&mut self, axis: &Axis, texts: Vec<String>) {
        if let (Some(axis), false) = (find(axis.name), texts.is_empty()) {
            self.0.insert(axis.name, texts);
        }
    }

    /// These values and another of the axis of this name.
    ///
    /// # Panics
    /// When there is no such axis.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "numbers of several types, and texts")]
    pub fn with(mut self, name: &str, text: impl ToString) -> Self {
        let axis = find(name).expect("the name of an axis");
        self.0.entry(axis.name).or_default().push(text.to_string());
        self
    }

    /// These values, and those of `other` for axes that these leave out.
    #[must_use]
    pub(super) fn or(mut self, other: Self) -> Self {
        for (name, texts) in other.0 {
            self.0.entry(name).or_insert(texts);
        }
        self
    }

    /// These values without those of some axes.
    #[must_use]
    pub(crate) fn without(mut self, left_out: fn(&Axis) -> bool) -> Self {
        self.0.retain(|name, _| !find(name).is_some_and(left_out));
        self
    }
}

/// A field for each axis, of the type that configurations have.
impl Serialize for AxisValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, texts)| {
            let text = texts.first().map_or("", String::as_str);
            let value: Json = match find(name).map(|axis| axis.value) {
                Some(Value::Flag) => true.into(),
                Some(Value::Word(_)) => text.into(),
                // TOML has no larger numbers.
                Some(Value::Whole(..)) => text.parse::<i64>().map_or(text.into(), Json::from),
                Some(Value::Real(_)) => text.parse::<f64>().map_or(text.into(), Json::from),
                Some(Value::List(..)) | None => texts.as_slice().into(),
            };
            (name, value)
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::algorithms::ALGORITHMS;
    use crate::algorithms::matmul::MATMUL;
    use crate::basis::dtype::DType;
    use crate::case::StopTest;
    use crate::case::input::Input;
    use std::collections::BTreeSet;

    pub(crate) fn usual() -> CaseOptions {
        CaseOptions { stop: Some(StopRule::default()), ..MATMUL.options(DType::F32) }
    }

    /// No field has its default.
    fn unusual() -> CaseOptions {
        CaseOptions {
            dtype: DType::F64,
            layout: Layout::Nt,
            goal: Goal::Solution,
            input: Input::Hilbert,
            seed: 7,
            subgroup_size: Some(16),
            stop: Some(StopRule { test: StopTest::Neighbour, eps: 1e-3, max_rounds: 9 }),
        }
    }

    /// The usual case with the unusual value of one axis.
    pub(crate) fn unusual_on(axis: &Axis) -> CaseOptions {
        let (mut case, own) = (serde_json::to_value(usual()).expect("JSON"), serde_json::to_value(unusual()));
        let field = field(axis);
        case[field] = own.expect("JSON")[field].clone();
        serde_json::from_value(case).expect("options")
    }

    /// The field of an axis: its column, or the stop rule.
    fn field(axis: &Axis) -> &'static str {
        axis.column.as_ref().map_or("stop", |column| column.name)
    }

    #[test]
    fn a_column_reads_the_text_of_its_value() {
        for axis in AXES {
            let Some(column) = &axis.column else { continue };
            let (wanted, text) = (unusual_on(axis), column.text(&unusual_on(axis)));
            assert_eq!((column.read)(&text, usual()), Ok(wanted), "{}", column.name);
        }
    }

    #[test]
    fn every_field_of_the_options_has_an_axis_and_every_axis_a_field() {
        let options = serde_json::to_value(unusual()).expect("JSON");
        let fields: BTreeSet<&str> = options.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(fields, AXES.iter().map(|axis| field(axis)).collect());
        for axis in AXES {
            assert!(!(axis.same)(&usual(), &unusual_on(axis)), "{} compares another field", axis.name);
            let others = AXES.iter().filter(|other| field(other) != field(axis));
            for other in others {
                assert!(
                    (other.same)(&usual(), &unusual_on(axis)),
                    "{} compares the field of {}",
                    other.name,
                    axis.name
                );
            }
        }
    }

    #[test]
    fn the_text_of_every_axis_asks_for_its_value() {
        let algorithm = ALGORITHMS.iter().find(|own| own.iterative).expect("one iterates");
        for axis in AXES {
            let wanted = unusual_on(axis);
            let text = (axis.text)(&wanted).expect("an unusual value is typed");
            let (purpose, variants) = (super::super::Purpose::Bench, algorithm.variants.iter().collect::<Vec<_>>());
            // Goals, types, layouts and inputs are those that an algorithm has: these are of all.
            let known = ["solve", "dtype", "layout", "input"].contains(&axis.name);
            let choosing = Choosing { algorithm, purpose, variants: &variants, goals: vec![Goal::Result] };
            if !known {
                let base = CaseOptions { stop: usual().stop, ..usual() };
                let chosen = (axis.choose)(&choosing, &[text], base).expect("a value");
                assert!(
                    chosen.len() == 1 && (axis.text)(&chosen[0]) == (axis.text)(&wanted),
                    "{}: {chosen:?}",
                    axis.name
                );
            }
        }
    }

    #[test]
    fn an_id_tells_cases_apart_that_have_other_answers_but_for_their_seeds() {
        for axis in AXES.iter().filter(|axis| ![SEED.name, DTYPE.name].contains(&axis.name)) {
            assert_ne!(id(&unusual_on(axis), &usual()), "", "{} is in no id", axis.name);
        }
        let expected = "/solve/nt/hilbert/subgroup-16/neighbour-1e-3-9";
        assert_eq!(id(&unusual(), &usual()), expected);
    }

    #[test]
    fn a_heading_tells_apart_what_stands_in_different_tables() {
        for axis in AXES.iter().filter(|axis| axis.separates.tables && axis.name != INPUT.name) {
            let of = |options: &CaseOptions| heading("lu", options, |_| true);
            assert_ne!(of(&unusual_on(axis)), of(&usual()), "{}", axis.name);
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
