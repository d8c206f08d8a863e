//! Commands to paste: every field of a value that differs from the usual one becomes an option of the field's name.

use crate::basis::printable::shown_word;
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use toml::{Table, Value};

/// Fields whose values are positional arguments.
const POSITIONAL: [&str; 5] = ["algorithm", "kernel", "before", "after", "run"];

/// Returns the fields of `own` that differ from those of `usual`.
pub fn stated<T: Serialize>(own: &T, usual: &T) -> Table {
    let table = |fields: &T| Table::try_from(fields).expect("every field is a value of TOML");
    differing(table(own), &table(usual))
}

fn differing(mut fields: Table, usual: &Table) -> Table {
    fields.retain(|name, value| match (value, usual.get(name)) {
        (Value::Table(group), Some(Value::Table(usual))) => {
            *group = differing(std::mem::take(group), usual);
            !group.is_empty()
        }
        (value, usual) => usual != Some(value),
    });
    fields
}

/// Formats fields as arguments for a shell; tables group options.
pub fn arguments(fields: Table) -> String {
    let mut positional = vec![];
    let mut options = vec![];
    collect(fields, &mut positional, &mut options);
    // Behind `--`, a positional argument that begins with a dash is no option.
    let words = if positional.iter().any(|word| word.starts_with('-') && word != "-") {
        options.push("--".into());
        [options, positional].concat()
    } else {
        [positional, options].concat()
    };
    words.iter().map(|word| shown_word(word)).collect::<Vec<_>>().join(" ")
}

/// Appends the words of `fields` to the positional arguments or the options.
fn collect(fields: Table, positional: &mut Vec<String>, options: &mut Vec<String>) {
    for (name, value) in fields {
        let values = match value {
            Value::Table(group) => {
                collect(group, positional, options);
                continue;
            }
            Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            match value {
                Value::String(text) if POSITIONAL.contains(&&*name) => positional.push(text),
                Value::Boolean(_) => options.push(format!("--{name}")),
                // In one word, so that a value that begins with a dash stays a value.
                Value::String(text) => options.push(format!("--{name}={text}")),
                // In JSON a small number is short.
                Value::Float(number) => options.push(format!("--{name}={}", serde_json::Value::from(number))),
                number => options.push(format!("--{name}={number}")),
            }
        }
    }
}

/// Serializes a path as readable text; bytes that are not UTF-8 are replaced.
pub fn path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}

/// Serializes paths as [`path`] does.
pub fn paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
