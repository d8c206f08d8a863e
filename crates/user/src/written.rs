//! Writes descriptions as TOML with comments.

use super::description::{Check, CheckFigures, DescribedBuffer, DescribedMember, Description, Formula, OneOrMany};
use super::resolved::{ResolvedBuffer, Tolerance};
use crate::basis::printable::printable;
use crate::kernel::buffer::Role;
use std::collections::HashMap;
use std::fmt::Write;
use toml::{Table, Value};

/// Description with comments for its file. Fields and tables are named by their keys: `buffer.A.shape`, `buffer.A`.
#[derive(Debug, Default)]
pub struct Commented {
    pub description: Description,
    /// Lines before the first field.
    pub head: String,
    /// Lines after the last field.
    pub tail: String,
    pub(super) remarks: HashMap<String, String>,
    /// Lines at the end of a table.
    pub(super) endings: HashMap<String, String>,
}

impl Commented {
    /// Adds a comment to the line of a field or of a table's heading.
    pub fn remark(&mut self, field: impl Into<String>, remark: impl Into<String>) {
        self.remarks.insert(field.into(), remark.into());
    }

    /// Returns the comment on a field or a table.
    pub fn remark_on(&self, field: &str) -> &str {
        self.remarks.get(field).map_or("", String::as_str)
    }

    /// Adds lines to the end of a table.
    pub fn end(&mut self, table: impl Into<String>, lines: impl Into<String>) {
        self.endings.insert(table.into(), lines.into());
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let mut text = self.head.clone();
        self.add(&mut text, "", "", &table(&self.description));
        text + &self.tail
    }

    /// Appends the table `name`, whose heading has the quoted keys: its fields, then its nested tables with headings.
    fn add(&self, text: &mut String, name: &str, heading: &str, fields: &Table) {
        let path = |field: &str| if name.is_empty() { field.to_string() } else { format!("{name}.{field}") };
        let has_heading = |field: &str, value: &Value| {
            let has_headings = ["", "buffer", "uniform"].contains(&name) || HEADED.contains(&&*path(field));
            // The tables of a buffer are its members, and its check.
            value.is_table() && (has_headings || name.starts_with("buffer.") && field != "check")
        };
        let is_pass = |field: &str| name.is_empty() && field == "pass";
        let (tables, lines): (Vec<_>, Vec<_>) =
            fields.iter().partition(|(field, value)| is_pass(field) || has_heading(field, value));
        if !name.is_empty() && !lines.is_empty() {
            let gap = if *text == self.head { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{}", marked(&format!("[{heading}]"), self.remark_on(name)));
        }
        for (field, value) in lines {
            let line = format!("{} = {}", key(field), inline(value));
            let _ = writeln!(text, "{}", marked(&line, self.remark_on(&path(field))));
        }
        text.push_str(self.endings.get(name).map_or("", String::as_str));
        for (field, value) in tables {
            for pass in value.as_array().into_iter().flatten() {
                self.add(text, "[pass]", "[pass]", pass.as_table().unwrap_or(&Table::new()));
            }
            let heading = if heading.is_empty() { key(field) } else { format!("{heading}.{}", key(field)) };
            self.add(text, &path(field), &heading, value.as_table().unwrap_or(&Table::new()));
        }
    }
}

/// Nested tables that get headings, besides those of buffers and blocks.
const HEADED: [&str; 2] = ["kernel.bind", "reference.file"];

/// Returns the fields that a description states, without empty tables and lists, and without `scratch = false` and
/// `unverified = false`. A constant of a kernel may be false, whatever its name.
pub fn table(description: &Description) -> Table {
    fn is_stated(value: &mut Value) -> bool {
        match value {
            Value::Table(fields) => {
                let is_default = |key: &str| ["scratch", "unverified"].contains(&key);
                fields.retain(|key, value| is_stated(value) && (!is_default(key) || *value != Value::Boolean(false)));
                !fields.is_empty()
            }
            Value::Array(values) => {
                for value in values.iter_mut() {
                    is_stated(value);
                }
                !values.is_empty()
            }
            _ => true,
        }
    }
    let mut fields = Table::try_from(description).expect("every field is a value of TOML");
    fields.retain(|_, value| is_stated(value));
    fields
}

/// Appends a comment to a line, in a column of its own if the line is short. Escapes line breaks, which names from
/// foreign modules may contain.
pub fn marked(line: &str, remark: &str) -> String {
    if remark.is_empty() { line.to_string() } else { format!("{line:<29} # {}", printable(remark)).trim_end().into() }
}

/// Returns a TOML key, quoted if necessary.
pub fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if is_bare { name.to_string() } else { line(name) }
}

/// Returns a TOML string on one line. JSON escapes everything that TOML requires, except DEL.
pub fn line(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Returns a TOML value on one line, with small and large numbers as powers of ten.
pub fn inline(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains(char::is_control) => line(text),
        Value::Float(number) => {
            let plain = value.to_string();
            let power = format!("{number:e}");
            if number.is_finite() && power.len() < plain.len() { power } else { plain }
        }
        Value::Array(values) => format!("[{}]", values.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{} = {}", key(name), inline(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Converts a tolerance to a check. `names` are those of the buffers that an index may pick from.
pub fn check(tolerance: &Tolerance, names: &[String]) -> Check {
    let none = CheckFigures::default();
    Check::Figures(match tolerance {
        Tolerance::Close { rtol, atol } => {
            CheckFigures { rtol: Some(*rtol), atol: Some(OneOrMany::One(*atol)), ..none }
        }
        Tolerance::Columns { rtol, atol } => {
            CheckFigures { rtol: Some(*rtol), atol: Some(OneOrMany::Many(atol.clone())), ..none }
        }
        Tolerance::Nmse(limit) => CheckFigures { nmse: Some(*limit), ..none },
        Tolerance::Ulp(limit) => CheckFigures { ulp: Some(*limit), ..none },
        Tolerance::Picks(index) => CheckFigures { picks: names.get(*index).cloned(), ..none },
        Tolerance::Moments { mean, deviation } => {
            CheckFigures { mean: Some(*mean), deviation: Some(*deviation), ..none }
        }
        Tolerance::Exact => return Check::Name("exact".into()),
        Tolerance::Set => return Check::Name("set".into()),
    })
}

/// Describes a buffer whose contents before a run are `fill`, with its checks if they were stated.
pub fn buffer(resolved: &ResolvedBuffer, fill: Option<String>, names: &[String]) -> DescribedBuffer {
    let stated = |part: &ResolvedBuffer| part.checked.then(|| check(&part.tolerance, names));
    let mut described = DescribedBuffer {
        fill,
        image: resolved.image.map(|image| image.format.name()),
        sampler: resolved.image.and_then(|image| image.sampler),
        scratch: resolved.role == Role::Scratch,
        ..DescribedBuffer::default()
    };
    let mut shape = &resolved.shape;
    if let Some(places) = resolved.parts.last().and_then(|part| part.places.as_ref()) {
        shape = &places.extents;
        for part in &resolved.parts {
            let name = part.name.strip_prefix(&resolved.name).unwrap_or(&part.name).trim_start_matches('.');
            described.members.set(name, DescribedMember { fill: None, check: stated(part) });
        }
    } else {
        described.element = Some(resolved.element.name().into());
        described.check = stated(resolved);
    }
    let extents: Vec<_> = shape.iter().map(|extent| Formula::whole((*extent).into())).collect();
    described.shape = (!extents.is_empty()).then_some(OneOrMany::Many(extents));
    described
}
