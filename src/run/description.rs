//! What a person writes about a kernel: the fields of a TOML file, which are also options of the command line.

use super::expression::Expression;
use crate::basis::error::{self, Error};
use crate::basis::printable::{Shown, brief};
use crate::basis::threads::CANNOT_START;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The description of a kernel, or of several that solve the same problem. Everything is text and numbers here; the
/// resolver gives it a meaning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Description {
    /// What tables call the problem.
    pub name: Option<String>,
    /// The kernel, where one dispatch is all.
    pub kernel: Option<Kernel>,
    /// The dispatches, in order, where there are several.
    pub pass: Vec<Kernel>,
    /// What is swept.
    pub axes: Named<Listed>,
    /// Specialization constants by name or id; a list is what `tune` searches.
    pub spec: Named<Listed>,
    /// Conditions on axes and specialization constants: what fails one is not run.
    #[serde(rename = "where")]
    pub conditions: Named<Formula>,
    /// Push constants by the names of their members.
    #[serde(deserialize_with = "members")]
    pub push: Named<Formula>,
    /// Blocks whose members have these values, each by the names that a buffer may have.
    #[serde(deserialize_with = "blocks")]
    pub uniform: Named<Named<Formula>>,
    /// Buffers by the name of a block that sees them, or `"set.binding"`.
    pub buffer: Named<Buffer>,
    /// The grid.
    pub dispatch: Option<Dispatch>,
    /// Where the right answer comes from.
    pub reference: Option<ReferenceTable>,
    /// The nominal work.
    pub work: Option<Work>,
    /// A program that writes inputs.
    pub inputs: Option<Inputs>,
    /// Where a program ran it, of one that `gpukern capture` wrote.
    pub captured: Option<Captured>,
}

/// A dispatch of a program, as it was when it was captured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Captured {
    /// The program's command line.
    pub program: String,
    pub device: String,
    pub driver: String,
    /// Which call of the kernel with this grid it was, from 1.
    pub call: u64,
    /// The median time of its calls with this grid.
    pub microseconds: Option<f64>,
    /// Whether the kernel gave the same bits when it was run again on that device.
    pub exact: bool,
    /// The version of gpukern that wrote it.
    pub gpukern: String,
}

impl Captured {
    /// How it names a driver.
    pub(crate) fn driver(name: &str, info: &str) -> String {
        format!("{name} {info}").trim().to_string()
    }
}

/// The name that stands for all members of a block that are not stated.
pub(crate) const OTHERS: &str = "*";

/// A kernel and how it is compiled; as a pass, how it is dispatched too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Kernel {
    /// Its file, or several that compete.
    pub source: Listed<String>,
    /// Its entry point, where that is not `main`.
    pub entry: Option<String>,
    /// Folders in which `#include` looks.
    pub include: Vec<String>,
    /// Macros.
    pub define: Named<Formula>,
    /// Compile for this version of Vulkan: 1.2 or 1.3.
    pub vulkan: Option<String>,
    /// The work-group size of GLSL that leaves it to the host.
    pub local_size: Vec<u32>,
    /// The sub-group size to require, or several that compete.
    pub subgroup: Option<Listed>,
    /// Blocks that see a buffer of another name, or a part of one; of a list each round of a loop takes the next.
    pub bind: Named<Listed<Bound>>,
    /// Of a pass: specialization constants, in place of those of the description.
    pub spec: Named<Formula>,
    /// Of a pass: push constants, in place of those of the description.
    #[serde(deserialize_with = "members")]
    pub push: Named<Formula>,
    /// Of a pass: members of blocks, in place of those of the description.
    #[serde(deserialize_with = "blocks")]
    pub uniform: Named<Named<Formula>>,
    /// Of a pass: its grid.
    pub groups: Option<Listed>,
    /// The buffer that has the grid, in place of `groups`: `"COUNTS"`, `"COUNTS + 12"`.
    pub indirect: Option<String>,
    /// Of a pass: how often it runs in a row.
    pub times: Option<Formula>,
    /// The name of the round, from 0, for expressions [default: i].
    pub index: Option<String>,
    /// In place of a source: the passes of a round.
    pub pass: Vec<Kernel>,
}

/// What a block sees: a buffer, `"A"`, from a byte on, `"A + 4*N"`, or a part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"BUFFER\", \"BUFFER + BYTES\" or { buffer, offset, range }")]
pub(crate) enum Bound {
    Name(String),
    Range(BoundRange),
}

/// A part of a buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoundRange {
    pub buffer: String,
    /// Bytes before it.
    #[serde(default)]
    pub offset: Option<Formula>,
    /// Its bytes; to the end where none are stated.
    #[serde(default)]
    pub range: Option<Formula>,
}

/// A buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Buffer {
    /// The element type: `f32`, …, `bytes`.
    #[serde(rename = "type")]
    pub element: Option<String>,
    /// Extents, the slowest first.
    pub shape: Option<Listed>,
    /// What it holds before a run.
    #[serde(deserialize_with = "text_or_number")]
    pub fill: Option<String>,
    /// How far it may be from the right answer.
    pub check: Option<Check>,
    /// Whether nobody but kernels looks at it.
    pub scratch: bool,
}

/// A tolerance: `"exact"`, or the figures of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"exact\", \"set\" or figures such as { rtol = 1e-4, atol = 1e-5 }")]
pub(crate) enum Check {
    /// `"exact"`.
    Name(String),
    /// `{ rtol = …, atol = … }`, `{ nmse = … }`, `{ ulp = … }`.
    Figures(CheckFigures),
}

/// The figures of a tolerance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CheckFigures {
    /// Relative part.
    pub rtol: Option<f64>,
    /// Absolute part, or one for each column.
    pub atol: Option<Listed<f64>>,
    /// Normalised mean squared error.
    pub nmse: Option<f64>,
    /// Representable values apart.
    pub ulp: Option<u64>,
    /// The same bits.
    pub exact: Option<bool>,
    /// The buffer that this one has indices of: others of elements that are equal are right, too.
    pub picks: Option<String>,
    /// Of random numbers, which have no reference.
    pub mean: Option<f64>,
    pub deviation: Option<f64>,
}

/// The grid of a dispatch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Dispatch {
    /// Work-groups along x, y, z.
    pub groups: Option<Listed>,
    /// The buffer that has them.
    pub indirect: Option<String>,
}

/// Where the right answer comes from: one of `builtin`, `kernel`, `file` and `command`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReferenceTable {
    /// An algorithm of this program's.
    pub builtin: Option<String>,
    /// Its extents.
    pub size: Option<Listed>,
    /// The layout of its operands.
    pub layout: Option<String>,
    /// Its buffers and what they are called here.
    pub roles: Named<String>,
    /// A file, or one for each output.
    pub file: Option<OutputFiles>,
    /// A program.
    pub command: Option<String>,
    /// A kernel that is right.
    pub kernel: Listed<String>,
    /// How that kernel is compiled and dispatched: the fields of a pass but for its source, and for what repeats it.
    #[serde(flatten)]
    pub own: Kernel,
}

/// The nominal work of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Work {
    /// Arithmetic operations.
    pub flops: Option<Formula>,
    /// Bytes that must cross the memory interface.
    pub bytes: Option<Formula>,
}

/// A program that writes inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Inputs {
    /// The line for a shell.
    pub command: Option<String>,
}

/// A member's value, or those of a structure's members: `position.x = 1` is a table in TOML.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, or an expression in quotes")]
enum Member {
    Value(Formula),
    Inner(Named<Member>),
}

impl Member {
    /// The values by the names that members of blocks have: `position.x`.
    fn flatten(self, name: String, into: &mut Vec<(String, Formula)>) {
        match self {
            Self::Value(value) => into.push((name, value)),
            Self::Inner(inner) => inner.0.into_iter().for_each(|(own, member)| {
                let separator = if own.starts_with('[') { "" } else { "." };
                member.flatten(format!("{name}{separator}{own}"), into);
            }),
        }
    }

    fn flat(members: Named<Self>) -> Named<Formula> {
        let mut flat = vec![];
        members.0.into_iter().for_each(|(name, member)| member.flatten(name, &mut flat));
        Named(flat)
    }
}

/// Reads the members of a block.
fn members<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Named<Formula>, D::Error> {
    Named::<Member>::deserialize(deserializer).map(Member::flat)
}

/// Reads the members of several blocks.
fn blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Named<Named<Formula>>, D::Error> {
    let blocks = Named::<Named<Member>>::deserialize(deserializer)?;
    Ok(Named(blocks.0.into_iter().map(|(name, members)| (name, Member::flat(members))).collect()))
}

/// Reads a fill, which may be a number.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::<Formula>::deserialize(deserializer).map(|fill| fill.map(|fill| fill.to_string()))
}

/// A number, or an expression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, or an expression in quotes")]
pub(crate) enum Formula {
    Truth(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

impl Formula {
    /// The expression that it is.
    ///
    /// # Errors
    /// When its text is none.
    pub(crate) fn expression(&self) -> Result<Expression, String> {
        match self {
            Self::Truth(truth) => Ok(Expression::integer(i64::from(*truth))),
            Self::Integer(value) => Ok(Expression::integer(*value)),
            Self::Number(value) => Expression::parse(&format!("{value:e}")),
            Self::Text(text) if text == "true" || text == "false" => Ok(Expression::integer(i64::from(text == "true"))),
            Self::Text(text) => Expression::parse(text),
        }
    }

    /// The value of a macro; `None` where it is not to be defined.
    #[must_use]
    pub(crate) fn macro_text(&self) -> Option<String> {
        match self {
            Self::Truth(truth) => truth.then(|| "1".to_string()),
            other => Some(other.to_string()),
        }
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// One value, or a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a value, or a list of values")]
pub(crate) enum Listed<T = Formula> {
    // First, for serde takes a list for the fields of a structure, too.
    Many(Vec<T>),
    One(T),
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self::Many(vec![])
    }
}

impl<T> Listed<T> {
    /// The values.
    #[must_use]
    pub(crate) fn values(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// The files of outputs: that of the only one, or one for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum OutputFiles {
    One(String),
    Each(Named<String>),
}

/// A table whose keys are names of the user's, in the order in which they are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named<V>(pub Vec<(String, V)>);

impl<V> Default for Named<V> {
    fn default() -> Self {
        Self(vec![])
    }
}

impl<V> Named<V> {
    /// The value of `name`.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets the value of `name`.
    pub(crate) fn set(&mut self, name: &str, value: V) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_string(), value)),
        }
    }

    /// The names.
    #[must_use]
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there is none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: Serialize> Serialize for Named<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Named<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Named<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = vec![];
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Named(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl Description {
    /// Reads a description in TOML.
    ///
    /// # Errors
    /// What is wrong, with the line: an unknown field, a value of another type.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if let Ok(root) = DeTable::parse(text) {
            check_lines(text, &DeValue::Table(root.into_inner()), 0)?;
        }
        toml::from_str(text).map_err(|e| e.to_string().trim_end().to_string())
    }

    /// The line, from 1, at which `text` has `field`, such as `buffer.A.shape`, or the table that should have it.
    #[must_use]
    pub(crate) fn line(text: &str, field: &str) -> Option<usize> {
        let root = DeTable::parse(text).ok()?;
        let mut table = root.get_ref();
        let (mut at, mut rest) = (None, field);
        // Names may hold dots, as `buffer."0.1"` does, so that the longest key that fits is followed.
        while !rest.is_empty() {
            let fits =
                |key: &str| rest.strip_prefix(key).is_some_and(|behind| behind.is_empty() || behind.starts_with('.'));
            let found = table.iter().filter(|(key, _)| fits(key.get_ref())).max_by_key(|(key, _)| key.get_ref().len());
            let Some((key, value)) = found else { break };
            at = Some(key.span().start);
            rest = rest[key.get_ref().len()..].trim_start_matches('.');
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        at.map(|at| text[..at.min(text.len())].matches('\n').count() + 1)
    }
}

impl Check {
    /// The tolerance; `buffers` are the names of those of the problem, in their order.
    ///
    /// # Errors
    /// When the figures are of several kinds, of none, or make no sense.
    pub(crate) fn tolerance(&self, field: &str, buffers: &[&str]) -> Result<super::resolved::Tolerance, Fault> {
        use super::resolved::Tolerance;
        const HOW: &str = "write { rtol = 1e-4, atol = 1e-5 }, { nmse = 1e-6 }, { ulp = 4 }, \"exact\", \"set\", \
                           { picks = \"KEYS\" } or { mean = 0, deviation = 1 }";
        let figures = match self {
            Self::Name(name) if name == "exact" => return Ok(Tolerance::Exact),
            Self::Name(name) if name == "set" => return Ok(Tolerance::Set),
            Self::Name(name) => {
                let message = error::unknown("check", name, "", &["exact", "set"]);
                return Err(Fault::new(field, format!("{message}; {HOW}")));
            }
            Self::Figures(figures) => figures,
        };
        let sensible = |figure: Option<f64>, name: &str| match figure {
            Some(value) if !value.is_finite() || value < 0.0 => {
                Err(Fault::new(field, format!("{name} is {value}; use a number from 0 up")))
            }
            other => Ok(other),
        };
        let CheckFigures { rtol, atol, nmse, ulp, exact, picks, mean, deviation } = figures;
        let (rtol, nmse, deviation) =
            (sensible(*rtol, "rtol")?, sensible(*nmse, "nmse")?, sensible(*deviation, "deviation")?);
        for value in atol.iter().flat_map(Listed::values) {
            sensible(Some(*value), "atol")?;
        }
        let close = (rtol.is_some() || atol.is_some()).then(|| match atol {
            Some(Listed::Many(atol)) => Tolerance::Columns { rtol: rtol.unwrap_or(0.0), atol: atol.clone() },
            Some(Listed::One(atol)) => Tolerance::Close { rtol: rtol.unwrap_or(0.0), atol: *atol },
            None => Tolerance::Close { rtol: rtol.unwrap_or(0.0), atol: 0.0 },
        });
        let moments = match (*mean, deviation) {
            (Some(mean), Some(deviation)) if mean.is_finite() => Some(Tolerance::Moments { mean, deviation }),
            (None, None) => None,
            _ => return Err(Fault::new(field, "needs both mean and deviation, as numbers")),
        };
        let picks = picks.as_ref().map(|name| {
            let found = buffers.iter().position(|own| own == name).map(Tolerance::Picks);
            found.ok_or_else(|| Fault::new(field, error::unknown("buffer", name, "", buffers)))
        });
        let kinds = [
            close,
            nmse.map(Tolerance::Nmse),
            ulp.map(Tolerance::Ulp),
            exact.filter(|exact| *exact).map(|_| Tolerance::Exact),
            picks.transpose()?,
            moments,
        ];
        let mut stated = kinds.into_iter().flatten();
        match (stated.next(), stated.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(Fault::new(field, format!("states no tolerance; {HOW}"))),
            _ => Err(Fault::new(field, format!("states tolerances of several kinds; {HOW}"))),
        }
    }
}

/// Values that may have several lines: commands, and what a captured program and its device are called.
const MULTILINE: [&str; 5] = ["command", "entry", "program", "device", "driver"];

/// Refuses names and values of several lines: they would end the line of a message that quotes them.
fn check_lines(text: &str, value: &DeValue<'_>, at: usize) -> Result<(), String> {
    let refuse = |at: usize, what: &str, quoted: &str| {
        let line = text[..at.min(text.len())].matches('\n').count() + 1;
        Err(format!("line {line}: the {what} '{}' has a line break; write it in one line", brief(quoted)))
    };
    match value {
        DeValue::String(own) if own.contains('\n') => refuse(at, "value", own),
        DeValue::Array(all) => all.iter().try_for_each(|own| check_lines(text, own.get_ref(), own.span().start)),
        DeValue::Table(fields) => fields.iter().try_for_each(|(key, value)| match value.get_ref() {
            _ if key.get_ref().contains('\n') => refuse(key.span().start, "name", key.get_ref()),
            DeValue::String(_) if MULTILINE.contains(&&**key.get_ref()) => Ok(()),
            own => check_lines(text, own, value.span().start),
        }),
        _ => Ok(()),
    }
}

/// Something wrong with a field of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The field: `buffer.A.shape`; empty for the description as a whole.
    pub field: String,
    /// What is wrong with it, quoting the value, and what to do.
    pub message: String,
}

impl Fault {
    /// A fault of `field`.
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.field, self.message) }
    }
}

/// A description and where it is from: paths in it are relative to its folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described {
    pub description: Description,
    /// The folder of its paths.
    pub folder: PathBuf,
    /// The file and its text, where it is from one.
    pub file: Option<(PathBuf, String)>,
    /// The fields that options of the command line stated, with these: `spec.BM`, `--set spec.BM=64`.
    pub options: Vec<(String, String)>,
    /// Whether it is that of a case, which was named by its folder: it may be from anywhere, and runs no commands.
    pub of_case: bool,
}

impl Described {
    /// The error that ends the command, with the option that stated the field, or file and line.
    #[must_use]
    pub(crate) fn error(&self, fault: &Fault) -> Error {
        if fault.message.starts_with(CANNOT_START) {
            return Error::Failure(fault.message.clone());
        }
        let is_of =
            |field: &str| fault.field.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        if let Some((_, option)) = self.options.iter().rfind(|(field, _)| is_of(field)) {
            let whole = if option.is_empty() { fault.message.clone() } else { format!("{option}: {fault}") };
            return Error::Usage(whole);
        }
        let Some((path, text)) = &self.file else { return Error::Usage(fault.to_string()) };
        let line = Description::line(text, &fault.field).map_or_else(String::new, |line| format!(":{line}"));
        Error::Usage(format!("{}{line}: {fault}", path.shown()))
    }

    /// A path of the description, from the folder of this process.
    #[must_use]
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(Path::new(name))
    }
}
