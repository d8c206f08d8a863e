//! Reads descriptions, and applies options of the command line to them.

use super::axes::find_independent;
use super::compile::ENDINGS;
use super::description::{Described, Description, Formula, KernelFields, OneOrMany, OrderedMap};
use super::fill::split;
use super::loaded::stem;
use super::resolve::check_name;
use crate::basis::alike::distinct;
use crate::basis::error::{Error, in_our_words, similar_file, unknown};
use crate::basis::input_file;
use crate::basis::printable::{Shown, brief, printable, shell_word};
use crate::basis::units::counted;
use crate::plan::{self, request::FieldOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// File name of a captured case's description.
pub const CASE: &str = "case.toml";

/// Name of the file of a kernel that `inspect --save` exports for a program of the user's own.
pub const PROGRAM: &str = "program.json";

/// Name of the schema of a document with such programs at several sizes.
pub const PROGRAM_SIZES: &str = "gpukern-program-sizes/1";

/// Reads the descriptions of each problem on a command line. Several folders are separate problems, and then no other
/// file may be given: it would not be clear which of them it belongs to.
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
    if let Some((path, folders)) = kernels.iter().find_map(|path| Some((path, exported_folders(path)?))) {
        return Err(Error::Usage(format!("{} is no kernel; {}", path.shown(), exported(&folders))));
    }
    let is_description = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "toml") || path.is_dir();
    let (files, sources): (Vec<&PathBuf>, Vec<&PathBuf>) = kernels.iter().partition(is_description);
    let files = config.into_iter().chain(files.into_iter().map(PathBuf::as_path));
    let mut described = files.map(read).collect::<Result<Vec<_>, _>>()?;
    if let ([_, _, ..], Some(source)) = (described.as_slice(), sources.first()) {
        let source = source.shown();
        return Err(Error::Usage(format!(
            "kernel '{source}' stands beside several descriptions; name it in one of them"
        )));
    }
    for (index, source) in sources.iter().enumerate() {
        if sources[..index].contains(source) {
            let source = source.shown();
            return Err(Error::Usage(format!("kernel '{source}' is named twice; copy it to compare it with itself")));
        }
    }
    if described.is_empty() {
        if sources.is_empty() {
            return Err(Error::Usage("no kernel given; name a file, such as `gpukern run k.comp`".into()));
        }
        described.push(Described::default());
    }
    if !sources.is_empty() {
        described[0].set_sources(&sources).map_err(Error::Usage)?;
    }
    let without_sizes = FieldOptions { size: vec![], ..fields.clone() };
    let changed = described.into_iter().enumerate().map(|(index, described)| {
        // A description without axes has those of the first.
        let inherits_axes = index > 0 && described.description.axes.is_empty();
        described.with(if inherits_axes { &without_sizes } else { fields })
    });
    let changed = changed.collect::<Result<Vec<_>, _>>();
    let mut described = changed.map_err(Error::Usage)?;
    if !sources.is_empty() {
        // Messages about an argument need no option before the text.
        described[0].options.push(("kernel.source".into(), String::new()));
    }
    Ok(described)
}

/// Returns the axes, by index, with the extents of a size as tables show it: `64x100` has one for each of the `independent`
/// axes, or else for each axis. Empty for another notation.
fn whole_extents<'t>(text: &'t str, axes: &[&str], independent: &[usize]) -> Result<Vec<(usize, &'t str)>, String> {
    let extents: Vec<&str> = text.split('x').map(str::trim).collect();
    let is_whole = |extent: &&str| !extent.is_empty() && extent.bytes().all(|byte| byte.is_ascii_digit());
    if extents.len() < 2 || !extents.iter().all(is_whole) {
        return Ok(vec![]);
    }
    let every: Vec<usize> = (0..axes.len()).collect();
    let Some(named) = [independent, &every].into_iter().find(|named| named.len() == extents.len()) else {
        if axes.is_empty() {
            return Err(format!(
                "--size '{}' sets axes, and the description has none; add them under [axes]",
                brief(text)
            ));
        }
        return Err(format!(
            "--size '{}' has {} extents; the axes are {}, in this order: write a value for each, or --size NAME=VALUES",
            brief(text),
            extents.len(),
            axes.join(", ")
        ));
    };
    Ok(named.iter().copied().zip(extents).collect())
}

/// Splits a size at the commas before an axis's name, as a case's id has them: `ROWS=64,COLUMNS=100,1024` states two axes.
fn by_axis(text: &str) -> Vec<String> {
    let mut axes: Vec<String> = vec![];
    for part in text.split(',') {
        match axes.last_mut() {
            Some(axis) if !part.contains('=') => *axis = format!("{axis},{part}"),
            _ => axes.push(part.into()),
        }
    }
    axes
}

/// Returns the texts of `--size`, with the lines of a file in place of `@FILE`; and the extents by axis of each size, if all are
/// sizes as tables show them.
fn sizes_and_points(
    sizes: &[String],
    axes: &[&str],
    independent: &[usize],
) -> Result<(Vec<String>, Vec<Vec<(usize, String)>>), String> {
    let text = |size: &String| match size.strip_prefix('@') {
        Some(file) => Ok(plan::sizes_in(Path::new(file))?.join(",")),
        None => Ok(size.clone()),
    };
    let texts = sizes.iter().map(text).collect::<Result<Vec<_>, String>>()?;
    let mut points = vec![];
    for size in texts.iter().flat_map(|text| text.split(',')) {
        match whole_extents(size, axes, independent) {
            Ok(extents) if !extents.is_empty() => {
                points.push(extents.into_iter().map(|(axis, extent)| (axis, extent.to_string())).collect());
            }
            _ => return Ok((texts, vec![])),
        }
    }
    // Some may state dependent axes, too.
    if points.iter().any(|point: &Vec<_>| point.len() != points[0].len()) {
        points.clear();
    }
    Ok((texts, points))
}

/// Asks for the description or the kernel in the folder of `path` whose name is nearest to the file's.
pub(crate) fn similar(path: &Path) -> Option<String> {
    similar_file(path, &[&ENDINGS[..], &["toml"]].concat())
}

/// Reads the description in a file, or of the case in a folder.
fn read(path: &Path) -> Result<Described, Error> {
    let of_case = path.is_dir();
    let path = if of_case { path.join(CASE) } else { path.to_path_buf() };
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    if of_case && !path.exists() {
        let inner = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let inner: Vec<_> = inner.map(|entry| entry.path()).collect();
        let cases = inner.iter().filter(|inner| inner.join(CASE).exists()).count();
        let program = inner.iter().find(|inner| inner.join(PROGRAM).exists());
        let remedy = match cases {
            0 if folder.join(PROGRAM).exists() => exported(std::slice::from_ref(&folder)),
            0 if let Some(program) = program => {
                format!("{}: {}", program.shown(), exported(std::slice::from_ref(program)))
            }
            0 => "name a kernel, or a case that `gpukern capture -o` wrote".into(),
            _ => format!(
                "it holds {}; name one of them, or run each: for c in {}/*/{CASE}; do gpukern run \"$c\"; done",
                counted(cases, "case"),
                shell_word(&folder.shown())
            ),
        };
        return Err(Error::Usage(format!("{} has no {CASE}; {remedy}", folder.shown())));
    }
    let shown = path.shown();
    let text = input_file::read_text(&path).map_err(|e| {
        let remedy = match (path.exists(), similar(&path)) {
            (true, _) => String::new(),
            (false, Some(question)) => format!("; {question}"),
            (false, None) => "; `gpukern run KERNEL --init > FILE.toml` drafts one".into(),
        };
        Error::Usage(format!("cannot read '{shown}': {e}{remedy}"))
    })?;
    let description = Description::parse(&text).map_err(|reason| Error::Usage(format!("{shown}{reason}")))?;
    Ok(Described { description, folder, file: Some((path, text)), options: vec![], of_case, ..Described::default() })
}

/// Returns the folders of the programs in a file that `inspect --save` wrote; `None` for other files.
fn exported_folders(path: &Path) -> Option<Vec<PathBuf>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if path.file_name()? == PROGRAM {
        return Some(vec![folder.into()]);
    }
    let text = path.extension().filter(|ending| *ending == "json").and_then(|_| input_file::read_text(path).ok())?;
    let document: serde_json::Value = serde_json::from_str(&text).ok()?;
    let sizes = document["sizes"].as_array().filter(|_| document["schema"] == PROGRAM_SIZES)?;
    Some(sizes.iter().filter_map(|size| Some(folder.join(size["folder"].as_str()?))).collect())
}

/// Names the command that runs the kernels of folders which `inspect --save` wrote.
fn exported(folders: &[PathBuf]) -> String {
    let Some(folder) = folders.iter().find(|folder| !folder.join(CASE).exists()) else {
        let words: Vec<_> = folders.iter().map(|folder| shell_word(&folder.shown()).into_owned()).collect();
        return format!("`gpukern run {}` runs what it describes", words.join(" "));
    };
    if !folder.exists() {
        return format!("it names the folder '{}', which is missing: copy it, too", folder.shown());
    }
    let text = input_file::read_text(&folder.join(PROGRAM)).unwrap_or_default();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    match document["command"].as_str() {
        Some(command) => format!(
            "it is an export without case.toml, as its kernels need fills, copies or inputs that no description has; `{}` \
             measures the same kernel",
            printable(command)
        ),
        None => "it is an export of your own kernel: run that with the description that `inspect` was given".into(),
    }
}

/// Converts a path of the command line, which is relative to the working folder, to one for a description: absolute,
/// unless the description's own paths are relative to the working folder as well.
fn description_path(path: impl AsRef<Path>, in_working_folder: bool) -> Result<String, String> {
    let path = path.as_ref();
    let with_path = |reason: String| format!("{}: {reason}", path.shown());
    let mut moved = path.to_path_buf();
    if !in_working_folder {
        moved = std::path::absolute(path).map_err(|e| with_path(e.to_string()))?;
    }
    moved.into_os_string().into_string().map_err(|_| with_path("its name is not UTF-8; rename it".into()))
}

impl Described {
    /// Whether paths in the description are those of the command line.
    fn is_in_working_folder(&self) -> bool {
        self.file.is_none() || self.folder.as_os_str().is_empty()
    }

    /// Sets the sources of the kernel. A captured case keeps its own, to which the others are compared.
    fn set_sources(&mut self, sources: &[&PathBuf]) -> Result<(), String> {
        let mut names = vec![];
        for source in sources {
            names.push(description_path(source, self.is_in_working_folder())?);
        }
        if !self.description.pass.is_empty() {
            return Err(
                "a kernel cannot replace those of a description with [[pass]]; name it in a pass of the description"
                    .into(),
            );
        }
        let kernel = self.description.kernel.get_or_insert_default();
        // The problem keeps the name that it has without the option, so that records of either kernel have one problem.
        if let (None, Some(own)) = (&self.description.name, kernel.source.values().first()) {
            self.description.name = Some(stem(own)).filter(|name| check_name(name).is_ok());
        }
        let captured = if self.of_case { kernel.source.values() } else { &[] };
        if !self.of_case {
            self.replaced = kernel.source.values().to_vec();
        }
        kernel.source = OneOrMany::Many([captured, &names].concat());
        Ok(())
    }

    /// Applies `fields`, and stores which option changed which field.
    pub(super) fn with(mut self, fields: &FieldOptions) -> Result<Self, String> {
        let axes = self.description.axes.clone();
        self.set_axes(&fields.size)?;
        for text in &fields.set {
            self.set_field(text)?;
        }
        self.check_used(&axes)?;
        let mut kernel = self.description.kernel.take().unwrap_or_default();
        for define in &fields.define {
            let (name, value) = define.split_once('=').unwrap_or((define, "1"));
            kernel.define.set(name, Formula::Text(value.into()));
            self.note(format!("kernel.define.{name}"), &format!("--define {define}"));
        }
        for folder in &fields.include {
            kernel.include.push(description_path(folder, self.is_in_working_folder())?);
        }
        if let Some(entry) = &fields.entry {
            kernel.entry = Some(entry.clone());
            self.note("kernel.entry".into(), &format!("--entry {entry}"));
        }
        if self.description.pass.is_empty() {
            self.description.kernel = Some(kernel);
        } else if kernel != KernelFields::default() {
            return Err("--define, --include and --entry are for one kernel; write them in [[pass]]".into());
        }
        Ok(self)
    }

    /// Refuses options that changed an axis of the description, of these values before, which nothing uses: results of one size would
    /// be called those of another.
    fn check_used(&self, before: &OrderedMap<OneOrMany>) -> Result<(), String> {
        for name in before.names() {
            let texts = |axes: &OrderedMap<OneOrMany>| -> Vec<String> {
                axes.get(name).into_iter().flat_map(OneOrMany::values).map(ToString::to_string).collect()
            };
            if texts(&self.description.axes) != texts(before) && !self.description.mentions(name) {
                return Err(format!(
                    "--size sets {name}, which nothing in the description uses, so every value would run the same; a case that \
                     was exported or captured has one size"
                ));
            }
        }
        Ok(())
    }

    /// Stores that an option set a field, so that messages about the field quote the option.
    fn note(&mut self, field: String, option: &str) {
        self.options.push((field, brief(option).into_owned()));
    }

    /// Sets the axes to these points, each with its extents by axis, and excludes other combinations of the extents.
    fn set_points(&mut self, points: &[Vec<(usize, String)>], axes: &[&str], option: &str) -> Result<(), String> {
        let mut combinations = 1;
        for (position, (axis, _)) in points[0].iter().enumerate() {
            let extents = distinct(points.iter().map(|point| &*point[position].1));
            combinations *= extents.len();
            self.set_axis(axes[*axis], &extents.join(","), option, &mut BTreeMap::new())?;
        }
        if combinations > distinct(points.iter()).len() {
            let is_at = |point: &Vec<(usize, String)>| {
                let terms = point.iter().map(|(axis, extent)| format!("{} == {extent}", axes[*axis]));
                format!("({})", terms.collect::<Vec<_>>().join(" && "))
            };
            let condition = points.iter().map(is_at).collect::<Vec<_>>().join(" || ");
            self.description.conditions.set("--size", Formula::Text(condition));
        }
        Ok(())
    }

    /// Applies options `--size NAME=VALUES`, or one with the sizes as tables show them.
    fn set_axes(&mut self, sizes: &[String]) -> Result<(), String> {
        let axes: Vec<String> = self.description.axes.names().into_iter().map(String::from).collect();
        let axes: Vec<&str> = axes.iter().map(String::as_str).collect();
        let mut independent = find_independent(&self.description.axes);
        if independent.is_empty() {
            independent = (0..axes.len()).collect();
        }
        let (texts, points) = sizes_and_points(sizes, &axes, &independent)?;
        if points.len() > 1 {
            return self.set_points(&points, &axes, &texts.join(","));
        }
        let mut sized = BTreeMap::new();
        for text in &texts.iter().flat_map(|text| by_axis(text)).collect::<Vec<_>>() {
            let extents = whole_extents(text, &axes, &independent)?;
            if !extents.is_empty() {
                for (axis, extent) in extents {
                    self.set_axis(axes[axis], extent, text, &mut sized)?;
                }
                continue;
            }
            // The values of the only axis need no name.
            let only = match (&axes[..], &independent[..]) {
                ([only], _) => only,
                (_, [only]) => axes[*only],
                _ => "",
            };
            let is_number = text.trim().starts_with(|c: char| c.is_ascii_digit());
            let (name, values) = text.split_once('=').unwrap_or(if is_number { (only, text) } else { ("", "") });
            let name = name.trim();
            let values = values.trim();
            if name.is_empty() || values.is_empty() {
                let example = axes.first().unwrap_or(&"M");
                let all: Vec<&str> = independent.iter().map(|axis| axes[*axis]).collect();
                let or = match all[..] {
                    [] | [_] => String::new(),
                    _ => format!(
                        ", or a value for each of {}: --size {}",
                        all.join(", "),
                        vec!["64"; all.len()].join("x")
                    ),
                };
                let draft = match (is_number, axes.is_empty()) {
                    (true, true) => "; no description says what is sized: `gpukern run KERNEL --init` drafts one",
                    _ => "",
                };
                return Err(format!(
                    "--size '{}' is not NAME=VALUE; write --size {example}=512..4096{or}{draft}",
                    brief(text)
                ));
            }
            // An axis that the description lacks would have no effect, so it is probably a typo.
            if !axes.is_empty() && !axes.contains(&name) {
                return Err(unknown("axis", name, " for --size", &axes));
            }
            self.set_axis(name, values, text, &mut sized)?;
        }
        Ok(())
    }

    /// Sets an axis to the values that `option` states, and adds it to the axes that options set, each once.
    fn set_axis(
        &mut self,
        name: &str,
        values: &str,
        option: &str,
        sized: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        if let Some(before) = sized.insert(name.into(), values.into()) {
            return Err(format!("--size states {name} twice; write its values in one: {name}={before},{values}"));
        }
        self.description.axes.set(name, OneOrMany::One(Formula::Text(values.into())));
        self.note(format!("axes.{name}"), &format!("--size {option}"));
        Ok(())
    }

    /// Applies an option `--set KEY=VALUE`.
    fn set_field(&mut self, text: &str) -> Result<(), String> {
        let (path, value_text) = key_value(text)?;
        let field = path.join(".");
        let quoted = |reason: String| format!("--set {}: {reason}", brief(text));
        let mut value = typed(value_text).map_err(quoted)?;
        if self.file.is_some() {
            value = with_absolute_paths(&field, value)?;
        }
        self.description = match self.description.with(&path, value) {
            Ok(changed) => changed,
            // The text may look like a number, as the version of Vulkan does.
            Err(reason) => {
                let changed = self.description.with(&path, Value::String(value_text.into()));
                changed.map_err(|_| quoted(reason))?
            }
        };
        self.note(field, &format!("--set {text}"));
        Ok(())
    }
}

/// Splits `KEY=VALUE` of `--set` into the path of the field and the text of its value. Quoted keys may contain `=`, so
/// the first part that TOML reads as a key is the key.
fn key_value(text: &str) -> Result<(Vec<String>, &str), String> {
    let refused = || {
        format!(
            "--set '{}' is not KEY=VALUE in one line; write --set dispatch.groups=64, or with quotes \
             --set 'uniform.\"P[0]\".\"size.x\"=N'",
            brief(text)
        )
    };
    if text.contains('\n') {
        return Err(refused());
    }
    for (at, _) in text.match_indices('=') {
        let key = &text[..at];
        let value = text[at + 1..].trim();
        let Ok(mut table) = toml::from_str::<Table>(&format!("{key} = 0")) else { continue };
        if table.len() != 1 {
            continue;
        }
        if value.is_empty() {
            break;
        }
        // A dotted key makes nested tables of one entry each.
        let mut path = vec![];
        while let Some((key, inner)) = table.into_iter().next() {
            path.push(key);
            table = if let Value::Table(inner) = inner { inner } else { Table::new() };
        }
        return Ok((path, value));
    }
    Err(refused())
}

/// Parses a typed value: TOML, a list of such values, or else an unquoted string.
pub fn typed(text: &str) -> Result<Value, String> {
    if let Ok(mut table) = toml::from_str::<Table>(&format!("value = {text}"))
        && table.len() == 1
        && let Some(value) = table.remove("value")
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

/// Makes the paths in the value of a field absolute, for a description in another folder.
fn with_absolute_paths(field: &str, value: Value) -> Result<Value, String> {
    let is_in = |table: &str, key: &str| field.starts_with(table) && field.ends_with(key);
    let names_file = ["kernel.source", "kernel.include", "reference.kernel", "reference.include", "reference.file"]
        .contains(&field)
        || field.starts_with("reference.file.")
        || is_in("pass.", ".source")
        || is_in("pass.", ".include");
    Ok(match value {
        Value::Table(fields) => {
            let mut moved = Table::new();
            for (key, value) in fields {
                let value = with_absolute_paths(&format!("{field}.{key}"), value)?;
                moved.insert(key, value);
            }
            Value::Table(moved)
        }
        Value::Array(values) => {
            let moved = values.into_iter().map(|value| with_absolute_paths(field, value));
            Value::Array(moved.collect::<Result<_, _>>()?)
        }
        Value::String(path) if names_file => Value::String(description_path(path, false)?),
        Value::String(fill) if is_in("buffer.", ".fill") && fill.starts_with('@') => {
            Value::String(format!("@{}", description_path(&fill[1..], false)?))
        }
        other => other,
    })
}

impl Description {
    /// Returns the description with another value of a field.
    fn with(&self, path: &[String], value: Value) -> Result<Self, String> {
        let mut fields = Table::try_from(self).map_err(|e| e.to_string())?;
        put(&mut fields, path, value)?;
        fields.try_into().map_err(|e: toml::de::Error| in_our_words(e.message()))
    }
}

/// Sets the value at a path, and creates missing tables. A number in the path is the index of a pass.
fn put(fields: &mut Table, path: &[String], value: Value) -> Result<(), String> {
    let whole = path.join(".");
    // Members of structures are stored under their full names, with dots.
    if path.len() <= 1 || fields.contains_key(&whole) {
        fields.insert(whole, value);
        return Ok(());
    }
    let first = &path[0];
    let rest = &path[1..];
    match fields.entry(first).or_insert_with(|| Table::new().into()) {
        Value::Table(inner) => put(inner, rest, value),
        Value::Array(passes) => {
            let index: Option<usize> = rest[0].parse().ok();
            match index.and_then(|index| passes.get_mut(index)?.as_table_mut()) {
                Some(pass) => put(pass, &rest[1..], value),
                None => Err(format!("there is no {first}.{}", rest[0])),
            }
        }
        other => Err(format!("{first} is {other}, which has no fields; set {first} itself")),
    }
}
