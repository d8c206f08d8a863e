//! Describes kernels as a user writes them: fields of a TOML file, which the command line can also set.

use super::expression::{Expression, Values};
use super::resolved::Tolerance;
use crate::basis::error::{self, Error, line_number, toml_mistake};
use crate::basis::printable::{Shown, brief};
use crate::basis::threads::CANNOT_START;
use crate::kernel::image::ImageSampler;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::num::IntErrorKind;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Description of a kernel, or of several that solve the same problem, with its expressions unparsed: the resolver
/// evaluates them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Description {
    /// Name of the problem in tables.
    pub name: Option<String>,
    /// Kernel, for a problem that one dispatch solves.
    pub kernel: Option<KernelFields>,
    /// Dispatches in execution order, for a problem that needs several.
    pub pass: Vec<KernelFields>,
    /// Axes of the sweep with their values.
    pub axes: OrderedMap<OneOrMany>,
    /// Specialization constants by name or id; `tune` searches the values of a list.
    pub spec: OrderedMap<OneOrMany>,
    /// Conditions on axes and specialization constants: cases that fail one are not run.
    #[serde(rename = "where")]
    pub conditions: OrderedMap<Formula>,
    /// Push constants by member name.
    #[serde(deserialize_with = "members")]
    pub push: OrderedMap<Formula>,
    /// Values of blocks that are given member by member, by any name of the block.
    #[serde(deserialize_with = "blocks")]
    pub uniform: OrderedMap<OrderedMap<Formula>>,
    /// Buffers by the name of a block that binds them, or by `"set.binding"`.
    pub buffer: OrderedMap<DescribedBuffer>,
    /// Grid of the only kernel.
    pub dispatch: Option<GridFields>,
    /// Source of the correct answer.
    pub reference: Option<ReferenceTable>,
    /// Nominal work.
    pub work: Option<WorkFields>,
    /// Program that writes inputs.
    pub inputs: Option<Inputs>,
    /// Origin of a kernel that `gpukern capture` wrote.
    pub captured: Option<Captured>,
}

/// Origin of a captured dispatch: the program, and the device on which it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Captured {
    /// Command line of the program.
    pub program: String,
    pub device: String,
    pub driver: String,
    /// Number of the captured call among those with this grid, from 1.
    pub call: u64,
    /// Median time of the calls with this grid.
    pub microseconds: Option<f64>,
    /// Whether a replay on that device gave the same bits.
    pub exact: bool,
    /// Version of gpukern that captured the dispatch.
    pub gpukern: String,
}

impl Captured {
    /// Joins a driver's name and version, as the field `driver` holds them.
    pub fn driver(name: &str, info: &str) -> String {
        format!("{name} {info}").trim().to_string()
    }
}

/// Key whose value all members of a block get that are not set by name.
pub const OTHERS: &str = "*";

/// Table of a kernel: its source and compilation; for a pass also its dispatch, or instead of them the passes of a loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Kernel", deny_unknown_fields, default)]
pub struct KernelFields {
    /// Source file, or several that compete.
    pub source: OneOrMany<String>,
    /// Entry point; `main` by default.
    pub entry: Option<String>,
    /// Folders that `#include` searches.
    pub include: Vec<String>,
    /// Macros with their values; `false` leaves one undefined.
    pub define: OrderedMap<Formula>,
    /// Vulkan version to compile for: 1.2 or 1.3.
    pub vulkan: Option<String>,
    /// Work-group size, for GLSL that leaves it to the host.
    pub local_size: Vec<u32>,
    /// Required sub-group size, or several that compete.
    pub subgroup: Option<OneOrMany>,
    /// Buffers by the block that they are bound to, if the names differ or only a part is bound; each round of a loop
    /// takes the next buffer of a list.
    pub bind: OrderedMap<OneOrMany<BoundBuffer>>,
    /// Specialization constants of a pass, which override the description's.
    pub spec: OrderedMap<Formula>,
    /// Push constants of a pass, which override the description's.
    #[serde(deserialize_with = "members")]
    pub push: OrderedMap<Formula>,
    /// Block members of a pass, which override the description's.
    #[serde(deserialize_with = "blocks")]
    pub uniform: OrderedMap<OrderedMap<Formula>>,
    /// Grid of a pass.
    pub groups: Option<OneOrMany>,
    /// Buffer that holds the grid, instead of `groups`: `"COUNTS"`, `"COUNTS + 12"`.
    pub indirect: Option<String>,
    /// Number of consecutive runs of a pass.
    pub times: Option<Formula>,
    /// Name of the round's number, from 0, in expressions [default: i].
    pub index: Option<String>,
    /// Passes of each round, instead of a source.
    pub pass: Vec<KernelFields>,
}

impl KernelFields {
    /// Returns the sub-group sizes that compete.
    pub(super) fn subgroups(&self) -> &[Formula] {
        self.subgroup.as_ref().map_or(&[], OneOrMany::values)
    }
}

/// Buffer bound to a block: all of it, `"A"`, the part from a byte on, `"A + 4*N"`, or a range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"BUFFER\", \"BUFFER + BYTES\" or { buffer, offset, range }")]
pub enum BoundBuffer {
    Name(String),
    Range(BoundRange),
}

/// Range of a buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundRange {
    pub buffer: String,
    /// Offset in bytes.
    #[serde(default)]
    pub offset: Option<Formula>,
    /// Length in bytes; the rest of the buffer by default.
    #[serde(default)]
    pub range: Option<Formula>,
}

impl BoundRange {
    /// Binds all of a buffer.
    pub(super) fn whole(buffer: &str) -> Self {
        Self { buffer: buffer.into(), offset: None, range: None }
    }

    /// Evaluates the offset, and the length if it is stated.
    pub(super) fn bytes(&self, scope: &Values) -> Result<(u64, Option<u64>), String> {
        let offset = self.offset.as_ref().map(|offset| offset.bytes(scope)).transpose()?;
        let range = self.range.as_ref().map(|range| range.bytes(scope)).transpose()?;
        Ok((offset.unwrap_or(0), range))
    }
}

/// Buffer of a description.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Buffer", default)]
pub struct DescribedBuffer {
    /// Element type: `f32`, …, `bytes`; none for structures, whose members have those of the kernel.
    #[serde(rename = "type")]
    pub element: Option<String>,
    /// Extents, the slowest first.
    pub shape: Option<OneOrMany>,
    /// Format of the image that kernels see, unless they state it: `r8g8b8a8_unorm`.
    pub image: Option<String>,
    /// Sampler of an image that kernels bind with one.
    pub sampler: Option<ImageSampler>,
    /// Contents before a run.
    #[serde(deserialize_with = "text_or_number")]
    pub fill: Option<String>,
    /// Tolerance of the check.
    pub check: Option<Check>,
    /// Whether only kernels access the buffer, so that it is neither filled nor checked.
    pub scratch: bool,
    /// Members of its structures by name, or by `@` and their first byte.
    #[serde(flatten, deserialize_with = "structure_members")]
    pub members: OrderedMap<DescribedMember>,
}

/// Member of the structures in a buffer; fields that are left out are those of the buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Member", deny_unknown_fields, default)]
pub struct DescribedMember {
    /// Contents before a run.
    #[serde(deserialize_with = "text_or_number")]
    pub fill: Option<String>,
    /// Tolerance of the check.
    pub check: Option<Check>,
}

impl DescribedBuffer {
    /// Whether the description states the contents before a run, at least of a member.
    pub(super) fn is_filled(&self) -> bool {
        self.fill.is_some() || self.members.iter().any(|(_, member)| member.fill.is_some())
    }

    /// Whether the description states a tolerance.
    pub(super) fn is_checked(&self) -> bool {
        self.check.is_some() || self.members.iter().any(|(_, member)| member.check.is_some())
    }

    /// Iterates over the fills of the buffer and its members.
    pub(super) fn fills_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let members = self.members.0.iter_mut().filter_map(|(_, member)| member.fill.as_mut());
        self.fill.iter_mut().chain(members)
    }
}

/// Tolerance: `"exact"`, `"set"`, or the figures of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"exact\", \"set\" or figures such as { rtol = 1e-4, atol = 1e-5 }")]
pub enum Check {
    /// `"exact"` or `"set"`.
    Name(String),
    /// `{ rtol = …, atol = … }`, `{ nmse = … }`, `{ ulp = … }`.
    Figures(CheckFigures),
}

/// Figures of a tolerance. Each field except `rtol` with `atol`, and `mean` with `deviation`, is a kind of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckFigures {
    /// Relative error.
    pub rtol: Option<f64>,
    /// Absolute error, or one for each column.
    pub atol: Option<OneOrMany<f64>>,
    /// Normalized mean squared error.
    pub nmse: Option<f64>,
    /// Distance in representable values.
    pub ulp: Option<u64>,
    /// Whether the bits have to be the same.
    pub exact: Option<bool>,
    /// Buffer that this output holds indices of: indices of equal elements are equally correct.
    pub picks: Option<String>,
    /// Mean and standard deviation of random numbers, which have no reference.
    pub mean: Option<f64>,
    pub deviation: Option<f64>,
}

/// Grid of a dispatch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Dispatch", deny_unknown_fields, default)]
pub struct GridFields {
    /// Work-groups along x, y, z.
    pub groups: Option<OneOrMany>,
    /// Buffer that holds the grid.
    pub indirect: Option<String>,
}

/// Source of the correct answer: one of `builtin`, `kernel`, `file` and `command`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReferenceTable {
    /// Built-in algorithm.
    pub builtin: Option<String>,
    /// Extents of the built-in algorithm.
    pub size: Option<OneOrMany>,
    /// Operand layout of the built-in algorithm.
    pub layout: Option<String>,
    /// Buffers by the built-in algorithm's name for them.
    pub roles: OrderedMap<String>,
    /// File with the answer, or one for each output.
    pub file: Option<OutputFiles>,
    /// Shell command that computes the answer.
    pub command: Option<String>,
    /// Whether nothing verified the answer: another one is rejected, the same one unverified.
    pub unverified: bool,
    /// Kernel that computes the answer.
    pub kernel: OneOrMany<String>,
    /// Compilation and dispatch of that kernel. Its fields that name a source are refused, as `kernel` names it.
    #[serde(flatten)]
    pub kernel_fields: KernelFields,
}

/// Nominal work of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Work", deny_unknown_fields, default)]
pub struct WorkFields {
    /// Arithmetic operations.
    pub flops: Option<Formula>,
    /// Bytes that must cross the memory interface.
    pub bytes: Option<Formula>,
}

/// Program that writes inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Inputs {
    /// Shell command.
    pub command: Option<String>,
}

/// Value of a member, or the members of a structure: `position.x = 1` is a table in TOML.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, or an expression in quotes")]
enum Member {
    Value(Formula),
    Inner(OrderedMap<Member>),
}

impl Member {
    /// Returns the values with the names that interfaces give members: `position.x`, `weights[2]`.
    fn flat(members: OrderedMap<Self>) -> OrderedMap<Formula> {
        let mut flat = OrderedMap::default();
        for (name, member) in members.0 {
            member.flatten(name, &mut flat);
        }
        flat
    }

    fn flatten(self, name: String, flat: &mut OrderedMap<Formula>) {
        match self {
            Self::Value(value) => flat.0.push((name, value)),
            Self::Inner(inner) => {
                for (inner_name, member) in inner.0 {
                    let separator = if inner_name.starts_with('[') { "" } else { "." };
                    member.flatten(format!("{name}{separator}{inner_name}"), flat);
                }
            }
        }
    }
}

/// Reads the members of a block.
fn members<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OrderedMap<Formula>, D::Error> {
    OrderedMap::<Member>::deserialize(deserializer).map(Member::flat)
}

/// Reads the members of several blocks.
fn blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OrderedMap<OrderedMap<Formula>>, D::Error> {
    let blocks = OrderedMap::<OrderedMap<Member>>::deserialize(deserializer)?;
    Ok(OrderedMap(blocks.0.into_iter().map(|(name, members)| (name, Member::flat(members))).collect()))
}

/// Reads the members of structures: tables among the fields of a buffer.
fn structure_members<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OrderedMap<DescribedMember>, D::Error> {
    let mut members = OrderedMap::default();
    for (name, value) in OrderedMap::<toml::Value>::deserialize(deserializer)?.0 {
        let error = |reason: &dyn fmt::Display| serde::de::Error::custom(format!("{name}: {reason}"));
        if !value.is_table() {
            return Err(serde::de::Error::custom(unknown_field(&name)));
        }
        let member = value.try_into().map_err(|e: toml::de::Error| error(&e.to_string().trim_end()))?;
        members.0.push((name, member));
    }
    Ok(members)
}

/// Reads a fill, which may be a number.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = |fill| match fill {
        Formula::Number(value) => format!("{value:?}"),
        fill => fill.to_string(),
    };
    Option::<Formula>::deserialize(deserializer).map(|fill| fill.map(text))
}

/// Reads a text, or an integer from 2^63 to 2^64 - 1 as its digits.
fn text_or_large_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrLargeInteger {
        Text(String),
        Integer(u64),
    }
    Ok(match TextOrLargeInteger::deserialize(deserializer)? {
        TextOrLargeInteger::Text(text) => text,
        TextOrLargeInteger::Integer(integer) => integer.to_string(),
    })
}

/// Number, or expression in quotes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, or an expression in quotes")]
pub enum Formula {
    Truth(bool),
    Integer(i64),
    // Before `Number`, which would round integers above 2^63 - 1.
    #[serde(deserialize_with = "text_or_large_integer")]
    Text(String),
    Number(f64),
}

impl Formula {
    /// Makes the formula of an integer, which TOML can hold as a number up to 2^63 - 1.
    pub fn whole(value: i128) -> Self {
        i64::try_from(value).map_or_else(|_| Self::Text(value.to_string()), Self::Integer)
    }

    /// Converts to an expression; truth values become 1 and 0.
    pub fn expression(&self) -> Result<Expression, String> {
        match self {
            Self::Truth(truth) => Ok(Expression::integer(i64::from(*truth))),
            Self::Integer(value) => Ok(Expression::integer(*value)),
            Self::Number(value) => Expression::parse(&format!("{value:e}")),
            Self::Text(text) => match &**text {
                "true" => Ok(Expression::integer(1)),
                "false" => Ok(Expression::integer(0)),
                text => Expression::parse(text),
            },
        }
    }

    /// Evaluates a number of bytes.
    fn bytes(&self, scope: &Values) -> Result<u64, String> {
        let value = self.expression()?.value(scope)?;
        u64::try_from(value).map_err(|_| format!("is {value} bytes ('{self}'); bytes are counted from 0"))
    }

    /// Returns the value of a macro; `None` if `false` leaves it undefined.
    pub fn macro_text(&self) -> Option<String> {
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
pub enum OneOrMany<T = Formula> {
    // Before `One`, because serde would also read a list as the fields of a structure.
    Many(Vec<T>),
    One(T),
}

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self::Many(vec![])
    }
}

impl<T> OneOrMany<T> {
    /// Returns the values.
    pub fn values(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// File of the only output, or a file for each output by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OutputFiles {
    One(String),
    Each(OrderedMap<String>),
}

/// Table with user-defined keys, in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderedMap<V>(pub Vec<(String, V)>);

impl<V> Default for OrderedMap<V> {
    fn default() -> Self {
        Self(vec![])
    }
}

impl<V> OrderedMap<V> {
    /// Returns the value of `name`.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets the value of `name`.
    pub fn set(&mut self, name: &str, value: V) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_string(), value)),
        }
    }

    /// Adds the entries of `others` whose names it lacks.
    pub(super) fn add_missing(&mut self, others: Self) {
        for (name, value) in others.0 {
            if self.get(&name).is_none() {
                self.0.push((name, value));
            }
        }
    }

    /// Returns the names.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether the table has no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: Serialize> Serialize for OrderedMap<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for OrderedMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = OrderedMap<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = vec![];
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(OrderedMap(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl Description {
    /// Whether an expression, a command or a reference names this axis.
    pub(crate) fn mentions(&self, axis: &str) -> bool {
        fn has(value: &toml::Value, axis: &str) -> bool {
            match value {
                toml::Value::String(text) => {
                    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == axis)
                }
                toml::Value::Array(values) => values.iter().any(|value| has(value, axis)),
                toml::Value::Table(table) => table.values().any(|value| has(value, axis)),
                _ => false,
            }
        }
        let unnamed = Self { name: None, ..self.clone() };
        toml::Value::try_from(unnamed).map_or(true, |value| has(&value, axis))
    }

    /// Parses TOML. Errors continue the name of the file, with the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if let Ok(root) = DeTable::parse(text) {
            if root.get_ref().contains_key("run") || root.get_ref().contains_key("bench") {
                return Err(
                    " lists cases, as `gpukern bench --config` and `gpukern verify --config` take them; name one of \
                            its descriptions"
                        .into(),
                );
            }
            check_buffers(text, root.get_ref())?;
            check_values(text, &DeValue::Table(root.into_inner()), 0)?;
        }
        toml::from_str(text).map_err(|e| toml_mistake(text, &e))
    }

    /// Finds the line, from 1, of `field` in `text`, such as `buffer.A.shape`. If the field is missing, the innermost
    /// table on its path counts. The tables of an array are counted from 0: `pass.1.groups`.
    pub fn line(text: &str, field: &str) -> Option<usize> {
        Self::locate(text, field).map(|(line, _)| line)
    }

    /// As [`Self::line`], with whether the field itself is there.
    fn locate(text: &str, field: &str) -> Option<(usize, bool)> {
        let root = DeTable::parse(text).ok()?;
        let mut table = root.get_ref();
        let mut offset = None;
        let mut rest = field;
        // A name may contain dots, as in `buffer."0.1"`, so follow the longest key that matches.
        while !rest.is_empty() {
            let matches = table.iter().filter(|(key, _)| is_on_path(key.get_ref(), rest));
            let Some((key, value)) = matches.max_by_key(|(key, _)| key.get_ref().len()) else { break };
            offset = Some(key.span().start);
            rest = rest[key.get_ref().len()..].trim_start_matches('.');
            let (index, of_item) = rest.split_once('.').unwrap_or((rest, ""));
            let item = match value.get_ref() {
                DeValue::Array(items) => index.parse().ok().and_then(|index: usize| items.get(index)),
                _ => None,
            };
            if let Some(item) = item {
                (offset, rest) = (Some(item.span().start), of_item);
            }
            match item.unwrap_or(value).get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        offset.map(|offset| (line_number(text, offset), rest.is_empty()))
    }
}

/// Whether `field`, such as `buffer.A.shape`, is `key` or lies within it.
pub(super) fn is_on_path(key: &str, field: &str) -> bool {
    field.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Check {
    /// Converts to a tolerance; `buffers` are the names of the problem's buffers, in order. Refuses figures of several
    /// kinds, of none, or out of range, with `field` as the place of the mistake.
    pub fn tolerance(&self, field: &str, buffers: &[&str]) -> Result<Tolerance, Fault> {
        match self {
            Self::Name(name) if name == "exact" => Ok(Tolerance::Exact),
            Self::Name(name) if name == "set" => Ok(Tolerance::Set),
            Self::Name(name) => {
                let message = error::unknown("check", name, "", &["exact", "set"]);
                Err(Fault::new(field, format!("{message}; {CHECK_FORMS}")))
            }
            Self::Figures(figures) => figures.tolerance(field, buffers),
        }
    }
}

/// Forms of a check, for messages.
const CHECK_FORMS: &str = "write { rtol = 1e-4, atol = 1e-5 }, { nmse = 1e-6 }, { ulp = 4 }, \"exact\", \"set\", \
                           { picks = \"KEYS\" } or { mean = 0, deviation = 1 }";

impl CheckFigures {
    fn tolerance(&self, field: &str, buffers: &[&str]) -> Result<Tolerance, Fault> {
        let fault = |message: String| Fault::new(field, message);
        let Self { rtol, atol, nmse, ulp, exact, picks, mean, deviation } = self;
        let figures = [("rtol", rtol), ("nmse", nmse), ("deviation", deviation)];
        let figures = figures.into_iter().filter_map(|(name, figure)| figure.map(|value| (name, value)));
        let atol_figures = atol.iter().flat_map(OneOrMany::values).map(|value| ("atol", *value));
        for (name, value) in figures.chain(atol_figures) {
            if !value.is_finite() || value < 0.0 {
                return Err(fault(format!("{name} is {value}; use a number from 0 up")));
            }
        }
        let mut stated = vec![];
        if rtol.is_some() || atol.is_some() {
            let rtol = rtol.unwrap_or(0.0);
            stated.push(match atol {
                Some(OneOrMany::Many(atol)) => Tolerance::Columns { rtol, atol: atol.clone() },
                Some(OneOrMany::One(atol)) => Tolerance::Close { rtol, atol: *atol },
                None => Tolerance::Close { rtol, atol: 0.0 },
            });
        }
        stated.extend(nmse.map(Tolerance::Nmse));
        stated.extend(ulp.map(Tolerance::Ulp));
        if *exact == Some(true) {
            stated.push(Tolerance::Exact);
        }
        match (*mean, *deviation) {
            (Some(mean), Some(deviation)) if mean.is_finite() => stated.push(Tolerance::Moments { mean, deviation }),
            (None, None) => {}
            _ => return Err(fault("needs both mean and deviation, as numbers".into())),
        }
        if let Some(name) = picks {
            let Some(index) = buffers.iter().position(|buffer| buffer == name) else {
                return Err(fault(error::unknown("buffer", name, "", buffers)));
            };
            stated.push(Tolerance::Picks(index));
        }
        match stated.len() {
            1 => Ok(stated.remove(0)),
            0 => Err(fault(format!("states no tolerance; {CHECK_FORMS}"))),
            _ => Err(fault(format!("states tolerances of several kinds; {CHECK_FORMS}"))),
        }
    }
}

/// Keys whose values may have line breaks: commands, and names from a captured program and its device.
const MULTILINE: [&str; 5] = ["command", "entry", "program", "device", "driver"];

/// Fields of a buffer besides its members.
const BUFFER_FIELDS: [&str; 7] = ["type", "shape", "fill", "check", "scratch", "image", "sampler"];

fn unknown_field(name: &str) -> String {
    error::unknown("field", name, "", &BUFFER_FIELDS) + ", or a member's table"
}

/// Refuses other fields of buffers than members, which are tables. Reading a buffer would tell only the line of its head.
fn check_buffers(text: &str, root: &DeTable<'_>) -> Result<(), String> {
    let Some(DeValue::Table(buffers)) = root.get("buffer").map(toml::Spanned::get_ref) else { return Ok(()) };
    for buffer in buffers.values() {
        let DeValue::Table(fields) = buffer.get_ref() else { continue };
        for (key, value) in fields {
            let name: &str = key.get_ref();
            if !BUFFER_FIELDS.contains(&name) && !matches!(value.get_ref(), DeValue::Table(_)) {
                return Err(format!(":{}: {}", line_number(text, key.span().start), unknown_field(name)));
            }
        }
    }
    Ok(())
}

/// Refuses line breaks in other names and values, because a message that quotes them would be broken, and integers
/// beyond 64 bits. `value` begins at this offset of `text`.
fn check_values(text: &str, value: &DeValue<'_>, offset: usize) -> Result<(), String> {
    let refuse = |offset: usize, kind: &str, quoted: &str| {
        let line = line_number(text, offset);
        Err(format!(":{line}: the {kind} '{}' has a line break; write it in one line", brief(quoted)))
    };
    match value {
        DeValue::String(string) if string.contains('\n') => refuse(offset, "value", string),
        DeValue::Integer(integer) => {
            let line = line_number(text, offset);
            match i128::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(value) if i64::try_from(value).is_ok() || u64::try_from(value).is_ok() => return Ok(()),
                Err(error) if matches!(error.kind(), IntErrorKind::Empty | IntErrorKind::InvalidDigit) => {
                    return Err(format!(":{line}: '{}' is not a number", brief(integer.as_str())));
                }
                _ => {}
            }
            Err(format!(":{line}: {} is beyond 64 bits: integers go from -2^63 to 2^64 - 1", brief(integer.as_str())))
        }
        DeValue::Array(values) => {
            for value in values {
                check_values(text, value.get_ref(), value.span().start)?;
            }
            Ok(())
        }
        DeValue::Table(fields) => {
            for (key, value) in fields {
                let name = key.get_ref();
                if name.contains('\n') {
                    return refuse(key.span().start, "name", name);
                }
                let is_multiline = MULTILINE.contains(&&**name) && matches!(value.get_ref(), DeValue::String(_));
                if !is_multiline {
                    check_values(text, value.get_ref(), value.span().start)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Mistake in a field of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Field, such as `buffer.A.shape`; empty for the description as a whole.
    pub field: String,
    /// Problem, with the value quoted, and its remedy.
    pub message: String,
}

impl Fault {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.field, self.message) }
    }
}

/// Description and its origin: a file, options of the command line, or both.
#[derive(Clone, Debug, Default)]
pub struct Described {
    pub description: Description,
    /// Folder that the description's paths are relative to.
    pub folder: PathBuf,
    /// File and its text; `None` without a file.
    pub file: Option<(PathBuf, String)>,
    /// Fields that options of the command line set, with these options: `spec.BM`, `--set spec.BM=64`.
    pub options: Vec<(String, String)>,
    /// Sources that the command line replaced by others, which may lack what the description sets for these.
    pub replaced: Vec<String>,
    /// Tables that the first description of the problem states, such as `push`.
    pub inherited: Vec<&'static str>,
    /// Whether a captured case's folder was named: the case may come from anywhere, so it must not run commands.
    pub of_case: bool,
    /// Whether its sources are compiled with debug information, so that faults have source lines.
    pub lines: bool,
    /// Whether every choice of the lists in `[spec]` runs, so that a mistake in any of them counts. Otherwise each
    /// kernel runs with its first possible choice, and those after it are not judged.
    pub all_choices: bool,
}

impl Described {
    /// Converts a fault to the error that ends the command, with the option that set the field, or with file and line.
    pub fn error(&self, fault: &Fault) -> Error {
        if fault.message.starts_with(CANNOT_START) {
            return Error::Failure(fault.message.clone());
        }
        let place = self.file.as_ref().and_then(|(_, text)| Description::locate(text, &fault.field));
        // The last option that sets a field counts. A table that the file lacks comes from an option for a part of it.
        let sets = |(field, _): &&(String, String)| {
            is_on_path(field, &fault.field)
                || is_on_path(&fault.field, field) && !place.is_some_and(|(_, is_whole)| is_whole)
        };
        if let Some((_, option)) = self.options.iter().rfind(sets) {
            let message = if option.is_empty() { fault.message.clone() } else { format!("{option}: {fault}") };
            return Error::Usage(message);
        }
        let Some((path, _)) = &self.file else { return Error::Usage(fault.to_string()) };
        let line = place.map_or_else(String::new, |(line, _)| format!(":{line}"));
        Error::Usage(format!("{}{line}: {fault}", path.shown()))
    }

    /// Resolves a path of the description against its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(Path::new(name))
    }
}
