//! Descriptions as files: the value in TOML, with comments for whoever edits it.

use super::description::{Check, CheckFigures, Description, Listed};
use super::resolved::Tolerance;
use crate::basis::printable::printable;
use std::collections::HashMap;
use std::fmt::Write;
use toml::{Table, Value};

/// A description with the comments that its file has. Fields are named by their keys, tables by theirs: `buffer.A.shape`,
/// `buffer.A`.
#[derive(Debug, Default)]
pub(crate) struct Commented {
    pub(crate) description: Description,
    /// Lines before the first field.
    pub(crate) head: String,
    /// Lines behind the last.
    pub(crate) tail: String,
    pub(super) remarks: HashMap<String, String>,
    /// Lines at the end of a table.
    pub(super) endings: HashMap<String, String>,
}

impl Commented {
    /// Puts a remark behind a field or the heading of a table.
    pub(crate) fn remark(&mut self, field: impl Into<String>, remark: impl Into<String>) {
        self.remarks.insert(field.into(), remark.into());
    }

    /// Returns the remark on a field or a table.
    pub(crate) fn remark_on(&self, field: &str) -> &str {
        self.remarks.get(field).map_or("", String::as_str)
    }

    /// Puts lines at the end of a table.
    pub(crate) fn end(&mut self, table: impl Into<String>, lines: impl Into<String>) {
        self.endings.insert(table.into(), lines.into());
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> String {
        let mut text = self.head.clone();
        self.add(&mut text, "", &table(&self.description));
        text + &self.tail
    }

    /// Adds the fields of a table, then the tables in it that have headings of their own.
    fn add(&self, text: &mut String, name: &str, fields: &Table) {
        let inner = |key: &str| if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
        let is_table = |key: &str, value: &Value| {
            value.is_table() && (["", "buffer", "uniform"].contains(&name) || HEADED.contains(&&*inner(key)))
        };
        let (tables, lines): (Vec<_>, Vec<_>) = fields.iter().partition(|(key, value)| is_table(key, value));
        if !name.is_empty() && !lines.is_empty() {
            let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
            let heading = rest.map_or_else(|| first.to_string(), |rest| format!("{first}.{}", key(rest)));
            let gap = if *text == self.head { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{}", marked(&format!("[{heading}]"), self.remark_on(name)));
        }
        for (field, value) in lines {
            let line = format!("{} = {}", key(field), inline(value));
            let _ = writeln!(text, "{}", marked(&line, self.remark_on(&inner(field))));
        }
        text.push_str(self.endings.get(name).map_or("", String::as_str));
        for (field, value) in tables {
            self.add(text, &inner(field), value.as_table().unwrap_or(&Table::new()));
        }
    }
}

/// Tables within others that have headings of their own.
const HEADED: [&str; 2] = ["kernel.bind", "reference.file"];

/// Returns the fields that a description states.
pub(crate) fn table(description: &Description) -> Table {
    fn is_stated(value: &mut Value) -> bool {
        match value {
            Value::Table(fields) => {
                fields.retain(|key, value| is_stated(value) && (key != "scratch" || *value != Value::Boolean(false)));
                !fields.is_empty()
            }
            Value::Array(values) => !values.is_empty(),
            _ => true,
        }
    }
    let mut fields = Table::try_from(description).expect("every field is a value of TOML");
    fields.retain(|_, value| is_stated(value));
    fields
}

/// Returns a line with a remark behind it, which stays one line whatever names a stranger's module has.
pub(crate) fn marked(line: &str, remark: &str) -> String {
    if remark.is_empty() { line.to_string() } else { format!("{line:<29} # {}", printable(remark)).trim_end().into() }
}

/// Returns a key of TOML.
pub(crate) fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { name.to_string() } else { line(name) }
}

/// Returns a string of TOML in one line. What JSON leaves as it is, TOML does too, but for DEL.
pub(crate) fn line(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Returns a value of TOML in one line, with small and large numbers as powers of ten.
pub(crate) fn inline(value: &Value) -> String {
    let list = |all: Vec<String>| all.join(", ");
    match value {
        Value::String(text) if text.contains(char::is_control) => line(text),
        Value::Float(number) => {
            let [plain, power] = [value.to_string(), format!("{number:e}")];
            if number.is_finite() && power.len() < plain.len() { power } else { plain }
        }
        Value::Array(all) => format!("[{}]", list(all.iter().map(inline).collect())),
        Value::Table(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{} = {}", key(name), inline(value)));
            format!("{{ {} }}", list(fields.collect()))
        }
        other => other.to_string(),
    }
}

/// Returns a usual tolerance, or one of columns, as descriptions state it.
pub(crate) fn check(tolerance: &Tolerance) -> Check {
    let (rtol, atol) = match tolerance {
        Tolerance::Close { rtol, atol } => (*rtol, Listed::One(*atol)),
        Tolerance::Columns { rtol, atol } => (*rtol, Listed::Many(atol.clone())),
        _ => return Check::Name("exact".into()),
    };
    Check::Figures(CheckFigures { rtol: Some(rtol), atol: Some(atol), ..CheckFigures::default() })
}
