//! The commands: each takes its parsed options and returns what to print and how the process ends.

/// Returns the error for a mistake of the user, with a message as `format!` takes it.
macro_rules! usage {
    ($($message:tt)*) => { crate::Error::Usage(format!($($message)*)) };
}

mod ab;
mod bench;
mod capture;
pub(crate) mod cli;
mod compare;
mod compare_commits;
mod config;
mod document;
mod failures;
mod help;
mod history;
pub(crate) mod host;
mod inspect;
mod interrupt;
mod journal;
mod judging;
mod listing;
mod measuring;
mod old_options;
mod options;
mod origin;
mod peak;
mod program_file;
mod program_sizes;
pub(crate) mod progress;
mod records;
mod reproducer;
mod rounds;
mod run;
mod sanitize;
mod session;
mod shell;
mod sides;
mod sources;
mod suggest;
mod topics;
mod tune;
mod verify;

use crate::basis::destination::explained;
use crate::basis::messages::Verbosity;
use crate::basis::printable::printable_lines;
use crate::commands::cli::Command;
use crate::engine::manifest;
use crate::engine::session::Isolation;
use crate::engine::worker::{WITHOUT_CACHES, serve};
use crate::process::guarded::{self, ProgramLimits};
use crate::record::{CHOOSING, changes_drivers, reader};
use crate::user::front_end;
use crate::{CATALOGUE, CacheFolder, Cli, Error, Exit, NamedRecord, Result, Setup, Shown, Validation, VulkanOptions};
use clap::error::ErrorKind;
use config::Defaults;
use document::{Document, Files, JSON, JUNIT, Target, create_folder, write_files};
use host::Host;
use progress::Progress;
use serde::Serialize;
use session::{DeviceSession, MeasurementCall};
use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Result of a command: text to print, and the exit code.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// Text for standard output.
    pub output: String,
    /// Text for standard error, printed before the output.
    pub notes: String,
    /// Text for standard error, printed after the output: files that were saved, or could not be written.
    pub late_notes: String,
    /// Exit code of the process.
    pub exit: Exit,
    /// Nonzero exit code of the program that `capture` ran; replaces `exit`.
    program_exit: Option<u8>,
    /// Whether the output is for a program, and so never colored.
    is_document: bool,
}

impl CommandOutput {
    /// Returns text for a person: control characters are shown escaped.
    fn new(mut output: String, notes: String, exit: Exit) -> Self {
        if let Cow::Owned(shown) = printable_lines(&output) {
            output = shown;
        }
        Self { output, notes, late_notes: String::new(), exit, program_exit: None, is_document: false }
    }

    /// Returns a document for a program, unchanged.
    fn document(output: String, notes: String) -> Self {
        Self { output, is_document: true, ..Self::new(String::new(), notes, Exit::Success) }
    }

    fn success(output: String) -> Self {
        Self::new(output, String::new(), Exit::Success)
    }

    /// Writes `text` to its target, if there is one: in place of the output, or to a file. If that fails, adds an error and
    /// keeps the output.
    fn deliver(&mut self, target: Option<Target>, text: impl FnOnce() -> Result<String>) -> Result<()> {
        if let Some(target) = target {
            self.add_delivered(target.deliver(&text()?));
        }
        Ok(())
    }

    /// Writes `document` as JSON if there is a target. Returns false, and adds an error, if it could not be written.
    fn deliver_json(&mut self, target: Option<Target>, document: &impl Serialize) -> bool {
        target.is_none_or(|target| self.add_delivered(target.deliver_json(document)))
    }

    /// Takes the text of a document that goes to standard output, or adds the error that kept it from its file.
    fn add_delivered(&mut self, delivered: Result<Option<String>>) -> bool {
        match delivered {
            Ok(None) => true,
            Ok(Some(text)) => {
                self.output = text;
                self.is_document = true;
                true
            }
            Err(error) => {
                self.add_late_note(Err(error));
                false
            }
        }
    }

    /// Adds a note about files written beside the output, or the error that prevented them.
    fn add_late_note(&mut self, note: Result<String>) {
        match note {
            Ok(note) => self.late_notes.push_str(&note),
            Err(error) => {
                let _ = writeln!(self.late_notes, "error: {error}");
                self.add_exit_of(&error);
            }
        }
    }

    /// Adds the error in `result` to the notes that are printed before the output.
    fn note_error(&mut self, result: Result<()>) {
        if let Err(error) = result {
            let _ = writeln!(self.notes, "error: {error}");
            self.add_exit_of(&error);
        }
    }

    /// Takes the exit code of an error, unless an answer was wrong: that outweighs the error.
    fn add_exit_of(&mut self, error: &Error) {
        if self.exit != Exit::Rejected {
            self.exit = error.exit();
        }
    }
}

/// Runs the command line of `host` and prints the result. Returns the exit code.
pub fn run(host: &mut Host) -> u8 {
    let parsed = parse(host);
    if let Err(Stop::Error(_)) = parsed {
        host.choose_colors(help::color(&host.arguments));
        host.messages.wraps = true;
    }
    match parsed.and_then(|cli| execute(cli, host)) {
        Ok(answer) => print_answer(host, &answer),
        Err(Stop::Error(error)) => {
            host.messages.say(&format!("error: {error}\n"));
            error.exit() as u8
        }
        Err(Stop::Help(error)) => {
            // clap counts options set by variables as arguments, and then prints no help for an empty command line.
            let printed = if error.kind() == ErrorKind::MissingSubcommand {
                let mut command = help::command_line().term_width(host.width().min(topics::MAX_WIDTH));
                host.messages.say(&command.render_help().to_string());
                Ok(())
            } else {
                host.print_help(&error, help::color(&host.arguments))
            };
            match printed {
                Ok(()) => u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8),
                Err(_) => Exit::Failure as u8,
            }
        }
    }
}

/// Reason why a command line has no result.
#[derive(Debug)]
enum Stop {
    /// Request for help or the version, or an empty command line.
    Help(Box<clap::Error>),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn parse(host: &Host) -> Result<Cli, Stop> {
    document::check_words(host)?;
    let parsed = |words: &[OsString]| Cli::parsed(words, &host.variables);
    let cli = parsed(&host.arguments)?;
    match &cli.command {
        // `help bench` is `bench --help`; other words are topics.
        Command::Help { subject } if help::is_command(subject) => {
            let command = subject.iter().map(String::as_str);
            let words: Vec<_> = ["gpukern"].into_iter().chain(command).chain(["--help"]).map(OsString::from).collect();
            parsed(&words)
        }
        _ => Ok(cli),
    }
}

/// Prints the result of a command. Returns the exit code.
fn print_answer(host: &Host, answer: &CommandOutput) -> u8 {
    host.messages.say(&answer.notes);
    let written = if answer.is_document { host.print_raw(&answer.output) } else { host.print(&answer.output) };
    host.messages.say(&answer.late_notes);
    match written {
        // A reader such as `head` may close the pipe early.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            host.messages.say(&format!("error: cannot write to standard output: {}\n", explained(error)));
            Exit::Failure as u8
        }
        _ => answer.program_exit.unwrap_or(answer.exit as u8),
    }
}

fn execute(mut cli: Cli, host: &mut Host) -> Result<CommandOutput, Stop> {
    host.messages.verbosity = match (cli.quiet, cli.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Usual,
    };
    match cli.command {
        Command::Worker { compiler } => return Ok(serve_parent(compiler)?),
        Command::Guard { words, scratch, joined } => {
            guarded::guard(&words, &scratch, joined).map_err(|e| Error::Failure(e.to_string()))?;
            return Ok(CommandOutput::success(String::new()));
        }
        _ => {}
    }
    host.messages.wraps = true;
    // Errors in the user's file of defaults are colored too, as the command line and the environment ask.
    host.choose_colors(Defaults::default().color(cli.color, host));
    let defaults = match cli.command {
        Command::Completions { .. } | Command::Man { .. } | Command::Help { .. } => Defaults::default(),
        _ => Defaults::read(host)?,
    };
    host.choose_colors(defaults.color(cli.color, host));
    defaults.apply(&mut cli.command)?;
    let setup = setup(&cli.vulkan, host)?;
    host.cache = setup.cache.clone();
    Ok(dispatch(cli, &setup, &defaults, host)?)
}

fn dispatch(cli: Cli, setup: &Setup, defaults: &Defaults, host: &Host) -> Result<CommandOutput> {
    // Standard output may be redirected to a file that every command reads.
    Files::default().check(host)?;
    match cli.command {
        Command::Devices { device, json } => listing::devices(&device, &defaults.devices(host), json, setup, host),
        Command::List { algorithm, json } => listing::algorithms(algorithm.as_deref(), json, host),
        Command::Bench(mut args) => {
            args.request.vulkan = cli.vulkan.0;
            bench::run(&args, setup, host)
        }
        Command::Peak { on, quick, json } => peak::run(&on.device, quick, json.as_ref(), setup, host),
        Command::Tune(args) => tune::run(&args, setup, host),
        Command::Verify(args) => verify::run(&args, cli.vulkan.0, setup, host),
        Command::Sanitize(args) => sanitize::run(&args, setup, host),
        Command::Compare(args) => compare::run(&args, host),
        Command::CompareCommits(args) => compare_commits::run(&args, host),
        Command::Ab(args) => ab::run(&args, &cli.vulkan, setup, host),
        Command::Inspect(args) => inspect::run(&args, setup, host),
        Command::Run(args) => run::run(&args, cli.vulkan.0, setup, host),
        Command::Capture(args) => capture::run(&args, setup, host),
        Command::Export { run, to, speedup_over, output } => {
            records::export(&run, to.as_deref(), speedup_over.as_deref(), output.as_deref(), host)
        }
        Command::Report(args) => records::draw(&args, host),
        Command::Merge { run, output } => records::merge(&run, output.as_deref(), host),
        Command::History(args) => history::run(&args, host),
        Command::Config(args) => config::show(&args, &cli.vulkan, defaults, host),
        Command::Completions { shell } => Ok(shell::completions(shell)),
        Command::Man { output } => shell::man(output.as_deref()),
        Command::Help { subject } => topics::print(&subject.join(" "), host),
        Command::Worker { .. } | Command::Guard { .. } => unreachable!("they need no setup"),
    }
}

/// Least time after which a driver that is loading counts as hung.
const MIN_LOADING: Duration = Duration::from_secs(5);

fn setup(options: &VulkanOptions, host: &Host) -> Result<Setup> {
    let VulkanOptions { validation, loader, cache_dir, timeout, max_run, in_process, no_robust_access } = options;
    let cache = CacheFolder::new(cache_dir.as_deref());
    // An unusable default folder is not worth a note.
    if let Some(folder) = cache_dir
        && let Some(trouble) = cache.trouble()
    {
        let folder = folder.shown();
        let note = format!("note      nothing is kept in --cache-dir '{folder}' for later runs: {trouble}\n");
        host.messages.say(&note);
    }
    // The system's loader would block on a pipe without a writer.
    if let Some(path) = loader
        && path.metadata().is_ok_and(|metadata| !metadata.is_file())
    {
        return Err(usage!("--loader '{}' is not a file; name a library such as libvulkan.so.1", path.shown()));
    }
    note_bad_manifests(host);
    let (variables, cache) = own_caches(cache, host);
    let timeout = parse_duration("timeout", timeout)?;
    let max_run = parse_duration("max-run", max_run)?;
    // A test binary cannot start itself as guard or compiler.
    if host.program.is_none() {
        let interrupted = Some(host.interrupted());
        guarded::limit(ProgramLimits { timeout, interrupted, separate_front_ends: !*in_process });
    }
    Ok(Setup {
        catalogue: &CATALOGUE,
        validation: if *validation { Validation::On } else { Validation::Off },
        loader: loader.clone().map(PathBuf::into_os_string),
        drivers: None,
        variables,
        cache,
        isolation: if *in_process { Isolation::InProcess } else { Isolation::Workers },
        timeout,
        // However short a kernel may take, a slow disk or a busy machine takes its time to load a driver.
        loading: timeout.max(MIN_LOADING),
        max_run,
        max_wait: host.max_wait,
        kernels: vec![],
        kernel_files: vec![],
        inspects: false,
        guards_accesses: !*no_robust_access,
        reruns: 0,
        messages: host.messages.clone(),
        program: host.program.clone(),
    })
}

/// Returns variables and a cache for workers with which no code is run that was compiled without the variables of this process
/// that change what a driver compiles: its own caches do not know them.
fn own_caches(cache: CacheFolder, host: &Host) -> (Vec<(String, OsString)>, CacheFolder) {
    // Layers do not compile.
    let named = CHOOSING.into_iter().filter(|name| changes_drivers(name) && !name.starts_with("VK_"));
    let set: Vec<_> = named.filter_map(|name| Some(format!("{name}={}", host.variable(name)?))).collect();
    if set.is_empty() {
        return (vec![], cache);
    }
    let without = WITHOUT_CACHES.map(|(name, value)| (name.to_string(), value.into()));
    (without.into(), cache.of_variables(&set.join("\n")))
}

/// Serves the process that started this one: compiles kernels, or works on a device. The parent handles Ctrl-C.
fn serve_parent(compiler: bool) -> Result<CommandOutput> {
    if compiler {
        front_end::serve()?;
    } else {
        interrupt::ignore()?;
        serve(&CATALOGUE)?;
    }
    Ok(CommandOutput::success(String::new()))
}

/// Parses the time that `--option` states.
fn parse_duration(option: &str, text: &str) -> Result<Duration> {
    crate::plan::options::duration(text).map_err(|reason| usage!("--{option}: {reason}"))
}

/// Notes manifests in the loader's variables that it would silently ignore.
fn note_bad_manifests(host: &Host) {
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"] {
        let Some(paths) = host.variable_os(name) else { continue };
        for path in std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty() && !path.is_dir()) {
            if let Some(problem) = manifest::problem(&path) {
                host.messages.say(&format!("note      {name} names '{}': {problem}\n", path.shown()));
            }
        }
    }
}

/// Reads the record in a file; the reader's remarks go to `notes`.
fn read_record(path: &Path, notes: &mut String) -> Result<NamedRecord> {
    let part = journal::path_of(path);
    if !path.exists() && part.exists() {
        let [path, part] = [path, &part].map(Shown::shown);
        return Err(usage!(
            "cannot read '{path}': its run goes on or was killed, and left '{part}'; --resume '{path}' in place of --json \
             completes it"
        ));
    }
    let loaded = reader::read(path, &CATALOGUE)?;
    for note in &loaded.notes {
        let _ = writeln!(notes, "note: {note}");
    }
    Ok(loaded)
}
