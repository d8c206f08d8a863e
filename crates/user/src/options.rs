//! Reads descriptions, and applies options of the command line to them.

use super::description::{Described, Description, Formula, Kernel, OneOrMany};
use super::fill::split;
use crate::basis::error::{Error, unknown};
use crate::basis::input_file;
use crate::basis::printable::{Shown, brief};
use crate::plan::request::FieldOptions;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// File name of a captured case's description.
pub const CASE: &str = "case.toml";

/// Reads the descriptions of each problem that a command line names. Several folders are separate problems, beside
/// which no other file may stand.
pub fn problems(
    kernels: &[PathBuf],
    config: Option<&Path>,
    fields: &FieldOptions,
) -> Result<Vec<Vec<Described>>, Error> {
    let (cases, others): (Vec<_>, Vec<_>) = kernels.iter().partition(|path| path.is_dir());
    if cases.len() < 2 {
        return Ok(vec![describe(kernels, config, fields)?]);
    }
    if let Some(other) = config.or(others.first().map(|path| path.as_path())) {
        let other = other.shown();
        return Err(Error::Usage(format!("'{other}' stands beside several cases; name it beside one of them")));
    }
    cases.into_iter().map(|case| describe(std::slice::from_ref(case), None, fields)).collect()
}

/// Reads the descriptions of one problem: those of `config`, of `.toml` files, and of a folder among `kernels`. Other
/// kernels replace the description's, or are added to a folder's; `fields` override the descriptions.
pub fn describe(kernels: &[PathBuf], config: Option<&Path>, fields: &FieldOptions) -> Result<Vec<Described>, Error> {
    let is_description = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "toml") || path.is_dir();
    let files: Vec<&Path> =
        config.into_iter().chain(kernels.iter().filter(is_description).map(PathBuf::as_path)).collect();
    let sources: Vec<&PathBuf> = kernels.iter().filter(|path| !is_description(path)).collect();
    let mut described = files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    if described.is_empty() {
        described.push(Described::default());
    }
    if let ([_, _, ..], Some(source)) = (described.as_slice(), sources.first()) {
        return Err(Error::Usage(format!(
            "kernel '{}' stands beside several descriptions; name it in one of them",
            source.shown()
        )));
    }
    if let Some((_, twice)) = sources.iter().enumerate().find(|(at, source)| sources[..*at].contains(source)) {
        let twice = twice.shown();
        return Err(Error::Usage(format!("kernel '{twice}' is named twice; copy it to compare it with itself")));
    }
    if files.is_empty() && sources.is_empty() {
        let message = "no kernel given; name a file, such as `gpukern run k.comp`";
        return Err(Error::Usage(message.into()));
    }
    if !sources.is_empty() {
        let relative = described[0].file.is_none();
        let names = sources.iter().map(|source| absolute_path(source, relative)).collect::<Result<Vec<_>, _>>();
        let names = names.map_err(Error::Usage)?;
        let of_case = described[0].of_case;
        let description = &mut described[0].description;
        if !description.pass.is_empty() {
            return Err(Error::Usage("a kernel stands beside a description with [[pass]]; name it in a pass".into()));
        }
        let kernel = description.kernel.get_or_insert_default();
        // Other kernels are compared with the captured one.
        let captured = if of_case { kernel.source.values().to_vec() } else { vec![] };
        kernel.source = OneOrMany::Many([captured, names].concat());
    }
    let applied = described.into_iter().map(|description| description.with(fields)).collect::<Result<Vec<_>, _>>();
    let mut described = applied.map_err(Error::Usage)?;
    if !sources.is_empty() {
        // Messages about an argument need no option before the text.
        described[0].options.push(("kernel.source".into(), String::new()));
    }
    Ok(described)
}

/// Reads the description in a file, or of the case in a folder.
fn read(path: &Path) -> Result<Described, Error> {
    let of_case = path.is_dir();
    let path = &if of_case { path.join(CASE) } else { path.to_path_buf() };
    if of_case && !path.exists() {
        let folder = path.parent().unwrap_or(path).shown();
        return Err(Error::Usage(format!(
            "{folder} has no {CASE}; name a kernel, or a folder of `gpukern capture -o`"
        )));
    }
    let usage = |reason: String| Error::Usage(format!("{}: {reason}", path.shown()));
    let unread = |e| Error::Usage(format!("cannot read '{}': {e}", path.shown()));
    let text = input_file::read_text(path).map_err(unread)?;
    let description = Description::parse(&text).map_err(usage)?;
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(Described { description, folder, file: Some((path.clone(), text)), options: vec![], of_case })
}

/// Makes a path from the command line absolute, unless the description's paths are relative to the working folder too.
fn absolute_path(path: impl AsRef<Path>, relative: bool) -> Result<String, String> {
    let path = path.as_ref();
    let named = |reason: String| format!("{}: {reason}", path.shown());
    let path =
        if relative { path.to_path_buf() } else { std::path::absolute(path).map_err(|e| named(e.to_string()))? };
    path.into_os_string().into_string().map_err(|_| named("its name is not UTF-8; rename it".into()))
}

impl Described {
    /// Applies `fields`, and stores which option changed which field.
    pub(super) fn with(mut self, fields: &FieldOptions) -> Result<Self, String> {
        // Paths on the command line are relative to the working folder.
        let relative = self.file.is_none();
        let (description, options) = (&mut self.description, &mut self.options);
        let mut note = |field: String, option: String| options.push((field, brief(&option).into_owned()));
        let known: Vec<String> = description.axes.names().into_iter().map(String::from).collect();
        let mut sized = vec![];
        for axis in &fields.size {
            let (name, values) =
                axis.split_once('=').map_or((&**axis, ""), |(name, values)| (name.trim(), values.trim()));
            if name.is_empty() || values.is_empty() {
                let example = known.first().map_or("M", String::as_str);
                return Err(format!("--size '{}' is not NAME=VALUE; write --size {example}=512..4096", brief(axis)));
            }
            // An axis that the description lacks would have no effect, so it is probably a typo.
            if !known.is_empty() && !known.iter().any(|known| known == name) {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(unknown("axis", name, " for --size", &known));
            }
            if sized.contains(&name) {
                return Err(format!("--size states {name} twice; write its values in one: -s {name}=64,128"));
            }
            sized.push(name);
            description.axes.set(name, OneOrMany::One(Formula::Text(values.into())));
            note(format!("axes.{name}"), format!("--size {axis}"));
        }
        for text in &fields.set {
            let (path, typed_as) = key_value(text)?;
            let field = path.join(".");
            let quoted = |reason: String| format!("--set {}: {reason}", brief(text));
            let mut value = typed(typed_as).map_err(quoted)?;
            if !relative {
                value = with_absolute_paths(&field, value)?;
            }
            // The text may look like a number, as the version of Vulkan does.
            let as_text = |reason| description.with(&path, Value::String(typed_as.into())).map_err(|_| reason);
            *description = description.with(&path, value).or_else(as_text).map_err(quoted)?;
            note(field, format!("--set {text}"));
        }
        let mut kernel = description.kernel.take().unwrap_or_default();
        for define in &fields.define {
            let (name, value) = define.split_once('=').unwrap_or((define, "1"));
            kernel.define.set(name, Formula::Text(value.into()));
            note(format!("kernel.define.{name}"), format!("--define {define}"));
        }
        for folder in &fields.include {
            kernel.include.push(absolute_path(folder, relative)?);
        }
        if let Some(entry) = &fields.entry {
            kernel.entry = Some(entry.clone());
            note("kernel.entry".into(), format!("--entry {entry}"));
        }
        if description.pass.is_empty() {
            description.kernel = Some(kernel);
        } else if kernel != Kernel::default() {
            return Err("--define, --include and --entry are for one kernel; write them in [[pass]]".into());
        }
        Ok(self)
    }
}

/// Splits `KEY=VALUE` of `--set` into the path of the field and the text of its value.
fn key_value(text: &str) -> Result<(Vec<String>, &str), String> {
    for (at, _) in text.match_indices('=').filter(|_| !text.contains('\n')) {
        let (key, value) = (&text[..at], text[at + 1..].trim());
        let Ok(mut table) = toml::from_str::<Table>(&format!("{key} = 0")) else { continue };
        if table.len() != 1 {
            continue;
        }
        if value.is_empty() {
            break;
        }
        let mut path = vec![];
        while let Some((key, inner)) = table.into_iter().next() {
            path.push(key);
            table = if let Value::Table(inner) = inner { inner } else { Table::new() };
        }
        return Ok((path, value));
    }
    Err(format!(
        "--set '{}' is not KEY=VALUE in one line; write --set dispatch.groups=64, or with quotes \
         --set 'uniform.\"P[0]\".\"size.x\"=N'",
        brief(text)
    ))
}

/// Parses a typed value: TOML, a list of such values, or else an unquoted string.
pub fn typed(text: &str) -> Result<Value, String> {
    if let Ok(mut table) = toml::from_str::<Table>(&format!("value = {text}"))
        && let (1, Some(value)) = (table.len(), table.remove("value"))
    {
        return Ok(value);
    }
    if let Some(list) = text.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        return split(list).into_iter().map(typed).collect::<Result<_, _>>().map(Value::Array);
    }
    if text.starts_with(['{', '[', '"', '\'']) {
        return Err(format!("'{}' is no value of TOML; write 1, text, \"text\", [1, 2] or {{ key = 1 }}", brief(text)));
    }
    Ok(Value::String(text.into()))
}

/// Makes the paths in a value absolute, for a description in another folder.
fn with_absolute_paths(field: &str, value: Value) -> Result<Value, String> {
    let is_of = |table: &str, key: &str| field.starts_with(table) && field.ends_with(key);
    let names_file = ["kernel.source", "kernel.include", "reference.kernel", "reference.include", "reference.file"]
        .contains(&field)
        || field.starts_with("reference.file.")
        || is_of("pass.", ".source")
        || is_of("pass.", ".include");
    Ok(match value {
        Value::Table(fields) => {
            let moved =
                |(key, value)| Ok((String::clone(&key), with_absolute_paths(&format!("{field}.{key}"), value)?));
            Value::Table(fields.into_iter().map(moved).collect::<Result<_, String>>()?)
        }
        Value::Array(all) => {
            Value::Array(all.into_iter().map(|item| with_absolute_paths(field, item)).collect::<Result<_, _>>()?)
        }
        Value::String(path) if names_file => Value::String(absolute_path(path, false)?),
        Value::String(fill) => match fill.strip_prefix('@').filter(|_| is_of("buffer.", ".fill")) {
            Some(file) => Value::String(format!("@{}", absolute_path(file, false)?)),
            None => Value::String(fill),
        },
        other => other,
    })
}

impl Description {
    /// Returns the description with another value of a field.
    fn with(&self, path: &[String], value: Value) -> Result<Self, String> {
        let mut fields = Table::try_from(self).map_err(|e| e.to_string())?;
        put(&mut fields, path, value)?;
        fields.try_into().map_err(|e: toml::de::Error| e.to_string().trim_end().replace('\n', " "))
    }
}

/// Sets the value at a path, and creates missing tables.
fn put(fields: &mut Table, path: &[String], value: Value) -> Result<(), String> {
    let whole = path.join(".");
    match path {
        // Members of structures are stored under their full names.
        [first, rest @ ..] if !rest.is_empty() && !fields.contains_key(&whole) => {
            let inner = fields.entry(first.clone()).or_insert_with(|| Table::new().into());
            match inner {
                Value::Table(inner) => put(inner, rest, value),
                Value::Array(all) => {
                    let pass = rest[0].parse::<usize>().ok().and_then(|at| all.get_mut(at)?.as_table_mut());
                    put(pass.ok_or_else(|| format!("there is no {first}.{}", rest[0]))?, &rest[1..], value)
                }
                other => Err(format!("{first} is {other}, which has no fields; set {first} itself")),
            }
        }
        _ => {
            fields.insert(whole, value);
            Ok(())
        }
    }
}
