//! The user's defaults: `gpukern/config.toml` in the configuration folder. `gpukern config` prints the values in effect.

use super::CommandOutput;
use super::cli::{ColorWhen, Command, ConfigArgs, StatedOption, TableArgs, TableForm};
use crate::basis::error::{self, line_number, toml_mistake};
use crate::device::selector;
use crate::plan::options;
use crate::tuning::tuned;
use crate::{CacheFolder, Error, Host, Result, Shown, VulkanOptions, brief, input_file, printable};
use anstream::ColorChoice;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// Variable that names the file; empty for none.
const VARIABLE: &str = "GPUKERN_CONFIG";
/// Fields that the file may have.
const FIELDS: [&str; 4] = ["device", "precision", "color", "table"];

/// Value of a field in the file, and its line.
#[derive(Debug, PartialEq)]
struct FileField {
    /// Values as its option takes them; only `device` may have several.
    texts: Vec<String>,
    line: usize,
}

/// Fields in the user's file, by name.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Defaults {
    file: Option<PathBuf>,
    fields: BTreeMap<String, FileField>,
}

/// Returns the path of the user's defaults, whether the file exists or not; `None` if the variable is empty.
pub(super) fn path(host: &Host) -> Option<PathBuf> {
    match host.variable_os(VARIABLE) {
        Some(named) => (!named.is_empty()).then(|| named.into()),
        None => dirs::config_dir().map(|folder| folder.join("gpukern").join("config.toml")),
    }
}

impl Defaults {
    /// Reads the user's file. Errors name the line of a mistake and the remedy.
    pub(super) fn read(host: &Host) -> Result<Self> {
        let Some(path) = path(host) else { return Ok(Self::default()) };
        let text = match input_file::read_text(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && host.variable_os(VARIABLE).is_none() => {
                return Ok(Self::default());
            }
            Err(e) => {
                let remedy = format!("set {VARIABLE} to another file, or to nothing for none");
                return Err(usage!("cannot read your defaults '{}': {e}; {remedy}", path.shown()));
            }
        };
        let defaults = Self::parse(&text).map_err(|reason| usage!("{}{reason}", path.shown()))?;
        Ok(Self { file: Some(path), ..defaults })
    }

    /// Parses the text of a file. Errors continue a line that starts with the name of the file.
    fn parse(text: &str) -> Result<Self, String> {
        let fields: BTreeMap<Spanned<String>, Spanned<Value>> =
            toml::from_str(text).map_err(|e| toml_mistake(text, &e))?;
        let mut defaults = Self::default();
        for (name, value) in fields {
            let line = line_number(text, name.span().start);
            let texts = parse_field(name.get_ref(), value.get_ref());
            let texts = texts.map_err(|reason| format!(":{line}: {reason}"))?;
            defaults.fields.insert(name.into_inner(), FileField { texts, line });
        }
        Ok(defaults)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.texts.first().map(String::as_str)
    }

    fn choice<T: ValueEnum>(&self, name: &str) -> Option<T> {
        T::from_str(self.text(name)?, false).ok()
    }

    /// Returns when output has colors: by the command line, otherwise the environment, otherwise the file.
    pub(super) fn color(&self, typed: Option<ColorWhen>, host: &Host) -> ColorChoice {
        let environment = color_of_environment(host).map(|(_, when)| when);
        match typed.or(environment).or(self.choice("color")).unwrap_or(ColorWhen::Auto) {
            ColorWhen::Auto => ColorChoice::Auto,
            ColorWhen::Always => ColorChoice::Always,
            ColorWhen::Never => ColorChoice::Never,
        }
    }

    /// Sets options of a command that neither the command line nor the environment states. Refuses several devices for a
    /// command that takes one.
    pub(super) fn apply(&self, command: &mut Command) -> Result<()> {
        match command {
            Command::Bench(args) => {
                self.set_table(&mut args.output.tables);
                let request = &mut args.request.0;
                // The fields of a configuration take precedence.
                let selection = if request.config.is_some() { &mut request.defaults } else { &mut request.selection };
                self.set_device(&mut selection.device);
                self.set_precision(&mut selection.sampling.precision);
            }
            Command::Run(args) => {
                self.set_table(&mut args.output.tables);
                self.set_device(&mut args.on.device);
                self.set_precision(&mut args.sampling.precision);
            }
            Command::Report(args) => self.set_table(&mut args.tables),
            Command::Peak { on, .. } => self.set_device(&mut on.device),
            Command::Tune(args) => self.set_device(&mut args.on.device),
            Command::Verify(args) => self.set_device(&mut args.on.device),
            Command::Inspect(args) => self.set_device(&mut args.on.device),
            Command::Ab(args) if args.device.is_none() => args.device = self.one_device()?,
            _ => {}
        }
        Ok(())
    }

    /// Returns the device selectors for a command that names none.
    pub(super) fn devices(&self, host: &Host) -> Vec<String> {
        match host.variable_os("GPUKERN_DEVICE").and_then(OsStr::to_str) {
            Some(names) => names.split(',').map(String::from).collect(),
            None => self.fields.get("device").map(|field| field.texts.clone()).unwrap_or_default(),
        }
    }

    /// Returns the device selector for `ab`, which takes one.
    fn one_device(&self) -> Result<Option<String>> {
        let Some(FileField { texts, line }) = self.fields.get("device") else { return Ok(None) };
        if let [device] = &texts[..] {
            return Ok(Some(device.clone()));
        }
        let file = self.file.as_deref().unwrap_or(Path::new("config.toml")).shown();
        Err(usage!("ab runs on one device, and {file}, line {line}, names {}; choose one with --device", texts.len()))
    }

    fn set_device(&self, selectors: &mut Vec<String>) {
        if let Some(field) = self.fields.get("device")
            && selectors.is_empty()
        {
            selectors.clone_from(&field.texts);
        }
    }

    fn set_precision(&self, precision: &mut Option<String>) {
        *precision = precision.take().or(self.text("precision").map(String::from));
    }

    /// Sets the form of the table, unless chosen `columns` already decide it.
    fn set_table(&self, tables: &mut TableArgs) {
        if tables.columns.is_empty() {
            tables.table = tables.table.or(self.choice("table"));
        }
    }
}

/// Parses the value of a field, with the checks of the option of that name. Returns the texts that the command line
/// would give that option: one, or for `device` one per selector.
fn parse_field(name: &str, value: &Value) -> Result<Vec<String>, String> {
    match name {
        "device" => {
            let devices = parse_devices(value)?;
            selector::check(&devices)?;
            Ok(devices)
        }
        "precision" => {
            let precision = parse_text(name, value, "\"1%\"")?;
            options::precision(&precision)?;
            Ok(vec![precision])
        }
        "color" => parse_choice::<ColorWhen>(name, value),
        "table" => parse_choice::<TableForm>(name, value),
        _ => Err(error::unknown("field", name, "", &FIELDS)),
    }
}

fn parse_text(name: &str, value: &Value, example: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        value => Err(format!("{name} {} is no text; write {name} = {example}", brief(value.to_string().trim()))),
    }
}

/// Returns the selectors in `device`: one or a list.
fn parse_devices(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(text.split(',').map(|device| device.trim().to_string()).collect()),
        Value::Integer(index) => Ok(vec![index.to_string()]),
        Value::Array(values) if values.is_empty() => {
            Err("device [] names no device; write device = \"gpu\", or remove it".into())
        }
        Value::Array(values) => Ok(values.iter().map(parse_devices).collect::<Result<Vec<_>, _>>()?.concat()),
        value => {
            let text = value.to_string();
            Err(format!("device {} is neither a text nor a number; write device = \"gpu\"", brief(text.trim())))
        }
    }
}

/// Parses a field whose value must be the name of one of T's choices. Returns it as the only text of the field.
fn parse_choice<T: ValueEnum>(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let names: Vec<String> = T::value_variants().iter().map(name_of).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = parse_text(name, value, &format!("\"{}\"", names[0]))?;
    if names.contains(&&*text) { Ok(vec![text]) } else { Err(error::unknown(name, &text, "", &names)) }
}

fn name_of<T: ValueEnum>(choice: &T) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}

/// Returns the color setting of the environment with its variable: <https://no-color.org>.
fn color_of_environment(host: &Host) -> Option<(&'static str, ColorWhen)> {
    let value = |name: &str| host.variable_os(name).filter(|value| !value.is_empty());
    if value("NO_COLOR").is_some() {
        return Some(("NO_COLOR", ColorWhen::Never));
    }
    value("CLICOLOR_FORCE").filter(|value| *value != "0").map(|_| ("CLICOLOR_FORCE", ColorWhen::Always))
}

/// Runs `gpukern config`.
pub(super) fn show(
    args: &ConfigArgs,
    vulkan: &VulkanOptions,
    defaults: &Defaults,
    host: &Host,
) -> Result<CommandOutput> {
    if let Some(precision) = &args.precision {
        options::precision(precision).map_err(Error::Usage)?;
    }
    let rows = rows(&args.stated, vulkan, defaults, host);
    let mut output = match (&defaults.file, path(host)) {
        (Some(file), _) => format!("your defaults: {}\n", file.shown()),
        (None, Some(file)) => {
            format!("your defaults: none in {}\n`gpukern help config` shows what the file may say\n", file.shown())
        }
        (None, None) => format!("your defaults: none ({VARIABLE} is empty)\n"),
    };
    let width = |column: fn(&OptionRow) -> &str| rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0);
    let name_width = width(|row| row.name).max("option".len());
    let from_width = width(|row| &row.from).max("from".len());
    let _ = writeln!(output, "\n {:<name_width$}   {:<from_width$}   value", "option", "from");
    for OptionRow { name, from, value } in &rows {
        let _ = writeln!(output, " {name:<name_width$}   {from:<from_width$}   {}", printable(value));
    }
    Ok(CommandOutput::success(output))
}

struct OptionRow {
    name: &'static str,
    /// Source of the value: `command line`, a variable, a line of the file, or `default`.
    from: String,
    value: String,
}

/// Returns a row for each option with a value in the file or a variable, and for each option of Vulkan.
fn rows(stated: &[StatedOption], vulkan: &VulkanOptions, defaults: &Defaults, host: &Host) -> Vec<OptionRow> {
    let path = |path: Option<PathBuf>| path.map_or_else(|| "none".into(), |path| path.shown());
    let flag = |is_on: bool| String::from(if is_on { "on" } else { "off" });
    let usual = VulkanOptions::default();
    let mut rows = vec![];
    for (name, default) in [
        ("device", "the best GPU, otherwise the software device".into()),
        ("precision", "1%".into()),
        ("table", "compact (one variant: long)".into()),
        ("color", name_of(&ColorWhen::Auto)),
        ("label", "none".into()),
        ("tuned", path(tuned::default_path())),
        ("cache-dir", path(CacheFolder::usual())),
        ("loader", "the system's".into()),
        ("validation", flag(usual.validation)),
        ("timeout", usual.timeout),
        ("max-run", usual.max_run),
        ("in-process", flag(usual.in_process)),
        ("no-robust-access", flag(usual.no_robust_access)),
    ] {
        let mut row = OptionRow { name, from: "default".into(), value: default };
        if let Some(StatedOption { from, value, .. }) = stated.iter().find(|option| option.name == name) {
            row.from.clone_from(from);
            row.value = match name {
                "validation" => flag(vulkan.validation),
                "in-process" => flag(vulkan.in_process),
                "no-robust-access" => flag(vulkan.no_robust_access),
                _ => value.clone(),
            };
        } else if name == "color"
            && let Some((variable, when)) = color_of_environment(host)
        {
            row.from = variable.into();
            row.value = name_of(&when);
        } else if let Some(FileField { texts, line }) = defaults.fields.get(name) {
            row.from = format!("file, line {line}");
            row.value = texts.join(",");
        }
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cli, Request};

    fn command(line: &str) -> Command {
        Cli::parsed_line(line).expect(line).command
    }

    fn defaults(text: &str) -> Defaults {
        Defaults::parse(text).expect(text)
    }

    const ALL: &str = "# mine\ndevice = 'nvidia'\nprecision = '0.5%'\n\ncolor = 'never'\ntable = 'long'\n";

    #[test]
    fn mistakes_are_named_with_their_line_and_the_remedy() {
        for (text, expected) in [
            ("\nprecision = '0.5'", ":2: "),
            ("precision = 0.5", ":1: precision 0.5 is no text; write precision = \"1%\""),
            ("# a\n\ncolour = 'never'", ":3: unknown field 'colour'; did you mean 'color'?"),
            ("color = 'allways'", ":1: unknown color 'allways'; did you mean 'always'?"),
            ("table = 'wide'", ":1: unknown table 'wide'; available: compact, long, both"),
            ("device = ''", ":1: '' names no device"),
            ("device = []", ":1: device [] names no device; write device = \"gpu\", or remove it"),
            ("device = ['gpu', []]", ":1: device [] names no device"),
            ("device = ['gpu', true]", ":1: device true is neither a text nor a number"),
            ("device = ", ":1: "),
            ("[device]\nname = 'gpu'", ":1: device "),
            ("color = 'auto'\ncolor = 'auto'", ":2: "),
        ] {
            let error = Defaults::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert_eq!(defaults(""), Defaults::default());
        assert_eq!(defaults("device = 1").fields["device"], FileField { texts: vec!["1".into()], line: 1 });
        assert_eq!(defaults("device = [0, 'cpu']").fields["device"].texts, ["0", "cpu"]);
    }

    #[test]
    fn the_file_sets_options_that_the_command_line_does_not() {
        let file = defaults(ALL);
        let bench = |line: &str| {
            let mut command = command(line);
            file.apply(&mut command).expect("no mistake");
            let Command::Bench(args) = command else { panic!("{line}") };
            args
        };
        for (line, pasted, table) in [
            // A command to paste states the values of the file.
            ("bench matmul", "gpukern bench matmul --device=nvidia --precision=0.5%", TableForm::Long),
            (
                "bench matmul -d 1 --precision 2% --table both",
                "gpukern bench matmul --device=1 --precision=2%",
                TableForm::Both,
            ),
        ] {
            let args = bench(line);
            let selection = args.request.selection.clone();
            assert_eq!(Request { selection, ..Request::default() }.command(), pasted);
            assert_eq!(args.output.tables.table, Some(table));
        }
        let several = crate::record::fixture::four_cases();
        assert_eq!(bench("bench matmul --columns all").output.tables.table_form(&several, false), TableForm::Long);
        // A configuration comes before the file.
        let args = bench("bench --config=c.toml");
        assert_eq!((args.request.selection.device.len(), args.request.defaults.device.len()), (0, 1));
        let mut run = command("run k.comp -d 3");
        file.apply(&mut run).expect("no mistake");
        let Command::Run(args) = run else { panic!("run") };
        assert_eq!((&*args.on.device, args.sampling.precision.as_deref()), (&["3".into()][..], Some("0.5%")));
        let mut ab = command("ab lu --a naive --b blocked -s 8");
        let error = defaults("device = [0, 1]").apply(&mut ab).expect_err("one device").to_string();
        assert_eq!(error, "ab runs on one device, and config.toml, line 1, names 2; choose one with --device");
    }

    #[test]
    fn color_is_what_the_command_line_says_before_the_environment_and_the_file() {
        let file = defaults(ALL);
        let always = Some(ColorWhen::Always);
        for (file, option, variable, expected) in [
            (&file, None, "UNRELATED", ColorChoice::Never),
            (&file, None, "CLICOLOR_FORCE", ColorChoice::Always),
            (&file, always, "UNRELATED", ColorChoice::Always),
            (&Defaults::default(), always, "NO_COLOR", ColorChoice::Always),
            (&Defaults::default(), None, "UNRELATED", ColorChoice::Auto),
        ] {
            let host = Host::in_memory([], [(variable.into(), "1".into())], "gpukern");
            assert_eq!(file.color(option, &host), expected, "{option:?} {variable}");
        }
    }
}
