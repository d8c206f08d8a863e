//! The user's defaults: `gpukern/config.toml` in the configuration folder. `gpukern config` prints the values in effect.

use super::CommandOutput;
use super::cli::{BenchArgs, ColorWhen, Command, ConfigArgs, OutputArgs, TableForm};
use super::host::Host;
use crate::basis::error::{self, Error};
use crate::basis::input_file;
use crate::basis::printable::{Shown, brief, excerpt, printable};
use crate::device::cache::CacheFolder;
use crate::device::selector;
use crate::plan::options;
use crate::plan::request::VulkanOptions;
use crate::tuning::tuned;
use anstream::ColorChoice;
use clap::ValueEnum;
use clap::parser::ValueSource;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// Variable that names the file; empty for none.
const VARIABLE: &str = "GPUKERN_CONFIG";
/// Fields that the file may have.
const FIELDS: [&str; 4] = ["device", "precision", "color", "table"];

/// Value in the file, with its line.
#[derive(Debug, Clone, PartialEq)]
struct Stated<T> {
    value: T,
    line: usize,
}

/// Values in the user's file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Defaults {
    file: Option<PathBuf>,
    device: Option<Stated<Vec<String>>>,
    precision: Option<Stated<String>>,
    color: Option<Stated<ColorWhen>>,
    table: Option<Stated<TableForm>>,
}

/// Returns the path of the user's defaults, whether the file exists or not; `None` if the variable is empty.
pub(super) fn path(host: &Host) -> Option<PathBuf> {
    match host.variable_os(VARIABLE) {
        Some(named) => (!named.is_empty()).then(|| named.into()),
        None => dirs::config_dir().map(|folder| folder.join("gpukern").join("config.toml")),
    }
}

impl Defaults {
    /// Reads the user's file.
    ///
    /// # Errors
    /// Names a mistake in the file with its line and the remedy.
    pub(super) fn read(host: &Host) -> Result<Self, Error> {
        let Some(path) = path(host) else { return Ok(Self::default()) };
        let text = match input_file::read_text(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && host.variable_os(VARIABLE).is_none() => {
                return Ok(Self::default());
            }
            Err(e) => {
                let remedy = format!("set {VARIABLE} to another file, or to nothing for none");
                return Err(Error::Usage(format!("cannot read your defaults '{}': {e}; {remedy}", path.shown())));
            }
        };
        let defaults = Self::parse(&text).map_err(|reason| Error::Usage(format!("{}{reason}", path.shown())))?;
        Ok(Self { file: Some(path), ..defaults })
    }

    /// Parses the text of a file. Errors continue a line that starts with the name of the file.
    fn parse(text: &str) -> Result<Self, String> {
        let fields: BTreeMap<Spanned<String>, Spanned<Value>> =
            toml::from_str(text).map_err(|e| format!(" is not valid TOML:\n{}", excerpt(&e.to_string())))?;
        let mut stated = Self::default();
        for (name, value) in fields {
            let line = text[..name.span().start].matches('\n').count() + 1;
            let at = |reason: String| format!(", line {line}: {reason}");
            stated.set(name.get_ref(), value.get_ref(), line).map_err(at)?;
        }
        Ok(stated)
    }

    /// Sets the field `name`.
    fn set(&mut self, name: &str, value: &Value, line: usize) -> Result<(), String> {
        match name {
            "device" => {
                let value = devices(value)?;
                selector::check(&value)?;
                self.device = Some(Stated { value, line });
            }
            "precision" => {
                let value = text(name, value, "\"1%\"")?;
                options::precision(&value)?;
                self.precision = Some(Stated { value, line });
            }
            "color" => self.color = Some(Stated { value: choice(name, value)?, line }),
            "table" => self.table = Some(Stated { value: choice(name, value)?, line }),
            _ => return Err(error::unknown("field", name, "", &FIELDS)),
        }
        Ok(())
    }

    /// Returns when output has colors: by the command line, otherwise the environment, otherwise the file.
    pub(super) fn color(&self, typed: Option<ColorWhen>, host: &Host) -> ColorChoice {
        let environment = color_of_environment(host).map(|(_, when)| when);
        match typed.or(environment).or(value(self.color.as_ref())).unwrap_or(ColorWhen::Auto) {
            ColorWhen::Auto => ColorChoice::Auto,
            ColorWhen::Always => ColorChoice::Always,
            ColorWhen::Never => ColorChoice::Never,
        }
    }

    /// Sets options of a command that neither the command line nor the environment states.
    ///
    /// # Errors
    /// If the command takes one device and the file names several.
    pub(super) fn apply(&self, command: &mut Command) -> Result<(), Error> {
        match command {
            Command::Bench(args) => self.apply_to_bench(args),
            Command::Run(args) => {
                self.set_device(&mut args.on.device);
                self.set_precision(&mut args.sampling.precision);
                if args.columns.is_empty() {
                    args.table = args.table.or(value(self.table.as_ref()));
                }
            }
            Command::Peak { on, .. } => self.set_device(&mut on.device),
            Command::Tune(args) => self.set_device(&mut args.on.device),
            Command::Verify(args) => self.set_device(&mut args.on.device),
            Command::Inspect(args) => self.set_device(&mut args.on.device),
            Command::Ab(args) if args.device.is_none() => match self.device.as_ref() {
                None => {}
                Some(Stated { value, .. }) if value.len() == 1 => args.device = value.first().cloned(),
                Some(Stated { value, line }) => {
                    let file = self.file.as_deref().unwrap_or(Path::new("config.toml")).shown();
                    return Err(Error::Usage(format!(
                        "ab runs on one device, and {file}, line {line}, names {}; choose one with --device",
                        value.len()
                    )));
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// Returns the device selectors for a command that names none.
    pub(super) fn devices(&self, host: &Host) -> Vec<String> {
        let variable = host
            .variable_os("GPUKERN_DEVICE")
            .and_then(OsStr::to_str)
            .map(|names| names.split(',').map(String::from).collect());
        variable.or(value(self.device.as_ref())).unwrap_or_default()
    }

    /// Sets the devices of a command that names none.
    fn set_device(&self, selectors: &mut Vec<String>) {
        if selectors.is_empty() {
            *selectors = value(self.device.as_ref()).unwrap_or_default();
        }
    }

    /// Sets the precision of a command that states none.
    fn set_precision(&self, precision: &mut Option<String>) {
        *precision = precision.take().or(value(self.precision.as_ref()));
    }

    /// Sets options of `bench`.
    fn apply_to_bench(&self, args: &mut BenchArgs) {
        let OutputArgs { table, columns, .. } = &mut args.output;
        if columns.is_empty() {
            *table = table.or(value(self.table.as_ref()));
        }
        let request = &mut args.request.0;
        // The fields of a configuration take precedence.
        let chosen = if request.config.is_some() { &mut request.defaults } else { &mut request.selection };
        self.set_device(&mut chosen.device);
        self.set_precision(&mut chosen.sampling.precision);
    }
}

/// Returns a copy of the value in the file.
fn value<T: Clone>(stated: Option<&Stated<T>>) -> Option<T> {
    stated.map(|stated| stated.value.clone())
}

/// Returns a value that must be text.
fn text(name: &str, value: &Value, example: &str) -> Result<String, String> {
    let given = || brief(value.to_string().trim()).into_owned();
    value.as_str().map(String::from).ok_or_else(|| format!("{name} {} is no text; write {name} = {example}", given()))
}

/// Returns the selectors in `device`: one or a list.
fn devices(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(text.split(',').map(|device| device.trim().to_string()).collect()),
        Value::Integer(index) => Ok(vec![index.to_string()]),
        Value::Array(all) if all.is_empty() => {
            Err("device [] names no device; write device = \"gpu\", or remove it".into())
        }
        Value::Array(all) => Ok(all.iter().map(devices).collect::<Result<Vec<_>, _>>()?.concat()),
        other => {
            let other = other.to_string();
            Err(format!("device {} is neither a text nor a number; write device = \"gpu\"", brief(other.trim())))
        }
    }
}

/// Returns the choice that a value names.
fn choice<T: ValueEnum>(name: &str, value: &Value) -> Result<T, String> {
    let names: Vec<String> = T::value_variants().iter().filter_map(T::to_possible_value).map(name_of).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = text(name, value, &format!("\"{}\"", names.first().unwrap_or(&"")))?;
    T::from_str(&text, false).map_err(|_| error::unknown(name, &text, "", &names))
}

/// Returns the name of a choice.
#[expect(clippy::needless_pass_by_value, reason = "passed to Option::map")]
fn name_of(value: clap::builder::PossibleValue) -> String {
    value.get_name().to_string()
}

/// Returns the color setting of the environment with its variable: <https://no-color.org>.
fn color_of_environment(host: &Host) -> Option<(&'static str, ColorWhen)> {
    let set = |name: &str| host.variable_os(name).filter(|value| !value.is_empty());
    if set("NO_COLOR").is_some() {
        return Some(("NO_COLOR", ColorWhen::Never));
    }
    set("CLICOLOR_FORCE").filter(|value| *value != "0").map(|_| ("CLICOLOR_FORCE", ColorWhen::Always))
}

/// Runs `gpukern config`.
pub(super) fn show(
    args: &ConfigArgs,
    color: Option<ColorWhen>,
    vulkan: &VulkanOptions,
    defaults: &Defaults,
    host: &Host,
) -> Result<CommandOutput, Error> {
    if let Some(precision) = &args.precision {
        options::precision(precision).map_err(Error::Usage)?;
    }
    let mut rows = args.rows(defaults);
    rows.insert(3, color_row(color, defaults, host));
    rows.extend(args.rows_of_vulkan(vulkan));
    let mut out = match (&defaults.file, path(host)) {
        (Some(file), _) => format!("your defaults: {}\n", file.shown()),
        (None, Some(file)) => {
            format!("your defaults: none in {}\n`gpukern help config` shows what the file may say\n", file.shown())
        }
        (None, None) => format!("your defaults: none ({VARIABLE} is empty)\n"),
    };
    let width = |column: fn(&OptionRow) -> &str| rows.iter().map(|row| column(row).chars().count()).max().unwrap_or(0);
    let (names, origins) = (width(|row| row.name).max(6), width(|row| &row.from).max(4));
    let _ = writeln!(out, "\n {:<names$}   {:<origins$}   value", "option", "from");
    for OptionRow { name, from, value } in &rows {
        let _ = writeln!(out, " {name:<names$}   {from:<origins$}   {}", printable(value));
    }
    Ok(CommandOutput::success(out))
}

/// Option with its value and the source of the value.
struct OptionRow {
    name: &'static str,
    from: String,
    value: String,
}

/// Returns the row of `--color`.
fn color_row(typed: Option<ColorWhen>, defaults: &Defaults, host: &Host) -> OptionRow {
    let (from, when) = match (typed, color_of_environment(host), &defaults.color) {
        (Some(when), ..) => ("command line".into(), when),
        (_, Some((variable, when)), _) => (variable.into(), when),
        (.., Some(Stated { value, line })) => (format!("file, line {line}"), *value),
        _ => ("default".into(), ColorWhen::Auto),
    };
    OptionRow { name: "color", from, value: when.to_possible_value().map(name_of).unwrap_or_default() }
}

impl ConfigArgs {
    /// Returns the row of an option. `typed` is its value on the command line or in the environment, `stated` that in the file.
    fn row(
        &self,
        name: &'static str,
        variable: &str,
        typed: Option<String>,
        stated: Option<(usize, String)>,
        default: String,
    ) -> OptionRow {
        let (from, value) = match (self.sources.get(name), typed, stated) {
            (Some(ValueSource::CommandLine), Some(value), _) => ("command line".into(), value),
            (Some(ValueSource::EnvVariable), Some(value), _) => (variable.into(), value),
            (_, _, Some((line, value))) => (format!("file, line {line}"), value),
            _ => ("default".into(), default),
        };
        OptionRow { name, from, value }
    }

    /// Returns the rows of options with a value in the file or a variable.
    fn rows(&self, defaults: &Defaults) -> Vec<OptionRow> {
        let list = |devices: &[String]| (!devices.is_empty()).then(|| devices.join(","));
        let form = |form: TableForm| form.to_possible_value().map(name_of).unwrap_or_default();
        let shown = |path: &PathBuf| path.shown();
        let device = defaults.device.as_ref().and_then(|stated| Some((stated.line, list(&stated.value)?)));
        let precision = defaults.precision.as_ref().map(|stated| (stated.line, stated.value.clone()));
        let table = defaults.table.as_ref().map(|stated| (stated.line, form(stated.value)));
        let tuned = tuned::default_path().as_ref().map_or_else(|| "none".into(), shown);
        let best = "the best GPU, otherwise the software device";
        let run = "compact (`run`: long)";
        vec![
            self.row("device", "GPUKERN_DEVICE", list(&self.on.device), device, best.into()),
            self.row("precision", "", self.precision.clone(), precision, "1%".into()),
            self.row("table", "", self.table.map(form), table, run.into()),
            self.row("label", "GPUKERN_LABEL", self.label.clone(), None, "none".into()),
            self.row("tuned", "GPUKERN_TUNED", self.tuned.as_ref().map(shown), None, tuned),
        ]
    }

    /// Returns the rows of the options of Vulkan.
    fn rows_of_vulkan(&self, options: &VulkanOptions) -> Vec<OptionRow> {
        let VulkanOptions { validation, loader, cache_dir, timeout, max_run, in_process } = options;
        let shown = |path: &PathBuf| path.shown();
        let flag = |on: bool| String::from(if on { "on" } else { "off" });
        let cache = CacheFolder::usual().as_ref().map_or_else(|| "none".into(), shown);
        vec![
            self.row("cache-dir", "GPUKERN_CACHE", cache_dir.as_ref().map(shown), None, cache),
            self.row("loader", "GPUKERN_LOADER", loader.as_ref().map(shown), None, "the system's".into()),
            self.row("validation", "GPUKERN_VALIDATION", Some(flag(*validation)), None, flag(false)),
            self.row("timeout", "", Some(timeout.clone()), None, timeout.clone()),
            self.row("max-run", "", Some(max_run.clone()), None, max_run.clone()),
            self.row("in-process", "", Some(flag(*in_process)), None, flag(false)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::cli::Cli;
    use super::*;
    use crate::plan::request::Request;

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
            ("\nprecision = '0.5'", ", line 2: "),
            ("precision = 0.5", ", line 1: precision 0.5 is no text; write precision = \"1%\""),
            ("# a\n\ncolour = 'never'", ", line 3: unknown field 'colour'; did you mean 'color'?"),
            ("color = 'allways'", ", line 1: unknown color 'allways'; did you mean 'always'?"),
            ("table = 'wide'", ", line 1: unknown table 'wide'; available: compact, long, both"),
            ("device = ''", ", line 1: '' names no device"),
            ("device = []", ", line 1: device [] names no device; write device = \"gpu\", or remove it"),
            ("device = ['gpu', []]", ", line 1: device [] names no device"),
            ("device = ['gpu', true]", ", line 1: device true is neither a text nor a number"),
            ("device = ", " is not valid TOML:\nTOML parse error at line 1"),
            ("[device]\nname = 'gpu'", ", line 1: device "),
            ("color = 'auto'\ncolor = 'auto'", "line 2"),
        ] {
            let error = Defaults::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert_eq!(defaults(""), Defaults::default());
        assert_eq!(defaults("device = 1").device, Some(Stated { value: vec!["1".into()], line: 1 }));
        let two = defaults("device = [0, 'cpu']").device.expect("devices");
        assert_eq!(two.value, ["0", "cpu"]);
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
        let pasted = |args: &BenchArgs| {
            let selection = args.request.selection.clone();
            Request { selection, ..Request::default() }.command()
        };
        let args = bench("bench matmul");
        assert_eq!(
            (&*args.request.selection.device, args.output.table),
            (&["nvidia".into()][..], Some(TableForm::Long))
        );
        // A command to paste states the values of the file.
        assert_eq!(pasted(&args), "gpukern bench matmul --device=nvidia --precision=0.5%");
        let args = bench("bench matmul -d 1 --precision 2% --table both");
        assert_eq!(pasted(&args), "gpukern bench matmul --device=1 --precision=2%");
        assert_eq!(args.output.table, Some(TableForm::Both));
        assert_eq!(bench("bench matmul --columns all").output.table_form(false), TableForm::Long);
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
        let (always, none) = (Some(ColorWhen::Always), Defaults::default());
        let host = |variable: &str| Host::in_memory([], [(variable.into(), "1".into())], "gpukern");
        let (plain, forced) = (host("UNRELATED"), host("CLICOLOR_FORCE"));
        let chosen = [file.color(None, &plain), file.color(None, &forced), file.color(always, &plain)];
        assert_eq!(chosen, [ColorChoice::Never, ColorChoice::Always, ColorChoice::Always]);
        assert_eq!(none.color(always, &host("NO_COLOR")), ColorChoice::Always);
        assert_eq!(none.color(None, &plain), ColorChoice::Auto);
    }
}
