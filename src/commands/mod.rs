//! The commands: each takes its parsed options and returns what to print and how the process ends.

mod ab;
mod bench;
mod campaign;
mod capture;
pub(crate) mod cli;
mod compare;
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
pub(crate) mod progress;
mod records;
mod rounds;
mod run;
mod shell;
mod suggest;
mod tune;
mod verify;

use crate::basis::destination::explained;
use crate::basis::error::{Error, Exit};
use crate::basis::messages::Verbosity;
use crate::basis::printable::{Shown, printable_lines};
use crate::basis::units::counted;
use crate::commands::cli::{Cli, Command};
use crate::device::cache::CacheFolder;
use crate::measure::executor::Observer;
use crate::measure::measurement::{MeasureOptions, MeasuredPlan, Measurement};
use crate::measure::session::{Isolation, Session, Setup};
use crate::measure::worker::serve;
use crate::plan::options::duration;
use crate::plan::request::VulkanOptions;
use crate::plan::{HOST, Plan, PlannedRun};
use crate::process::guarded::{self, FrontEnds, ProgramLimits};
use crate::record::{Case, NamedRecord, Record, reader};
use crate::run::front_end;
use crate::vulkan::Validation;
use clap::error::ErrorKind;
use config::Defaults;
use document::{Files, Target};
use host::Host;
use journal::{Journal, RunObserver};
use progress::Progress;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// The answer of a command: what to print, and the exit code.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// Text for standard output.
    pub output: String,
    /// Text for standard error before it.
    pub notes: String,
    /// Text for standard error behind it: what could not be delivered.
    pub trouble: String,
    /// The exit code of the process.
    pub exit: Exit,
    /// The exit code of a program that it ran, other than 0: it is handed on in place of `exit`.
    program: Option<u8>,
    /// Whether the output is for a program, which takes no colors.
    is_document: bool,
}

impl CommandOutput {
    /// Text for a person: what a terminal would act on is visible.
    fn new(mut output: String, notes: String, exit: Exit) -> Self {
        if let Cow::Owned(shown) = printable_lines(&output) {
            output = shown;
        }
        Self { output, notes, trouble: String::new(), exit, program: None, is_document: false }
    }

    /// A document for a program, as it is.
    fn document(output: String, notes: String, exit: Exit) -> Self {
        Self { output, notes, trouble: String::new(), exit, program: None, is_document: true }
    }

    fn success(output: String) -> Self {
        Self::new(output, String::new(), Exit::Success)
    }

    /// Delivers `text` where an option asks for it: in place of the output, or to a file. What cannot be written takes
    /// nothing from the output.
    fn deliver(&mut self, target: Target, text: &str) {
        self.delivered(target.deliver(text));
    }

    /// Delivers `document` as JSON, if an option asks for it. False where it could not be written: the answer says why.
    fn deliver_json(&mut self, target: Option<Target>, document: &impl Serialize) -> bool {
        target.is_none_or(|target| self.delivered(target.deliver_json(document)))
    }

    fn delivered(&mut self, delivered: Result<Option<String>, Error>) -> bool {
        match delivered {
            Ok(None) => {}
            Ok(Some(text)) => (self.output, self.is_document) = (text, true),
            Err(error) => {
                self.fail(error);
                return false;
            }
        }
        true
    }

    /// Adds what was kept beside the output, or why it was not.
    fn kept(&mut self, kept: Result<String, Error>) {
        match kept {
            Ok(note) => self.trouble.push_str(&note),
            Err(error) => self.fail(error),
        }
    }

    /// Adds an error that takes nothing from the output.
    fn fail(&mut self, error: Error) {
        self.exit = beside(self.exit, Err(error), &mut self.trouble);
    }
}

/// Runs the command line of `host`, and prints its answer. Returns the exit code.
pub fn run(host: &mut Host) -> u8 {
    match words_of(host).and_then(|cli| obey(cli, host)) {
        Ok(answer) => print(host, &answer),
        Err(Stop::Error(error)) => {
            host.messages.say(&format!("error: {error}\n"));
            error.exit() as u8
        }
        Err(Stop::Mistake(error)) => {
            let error = cli::printable_mistake(*error);
            // clap takes a variable of an option for an argument, and then prints no help where nothing was typed.
            let printed = if error.kind() == ErrorKind::MissingSubcommand {
                host.messages.say(&help::documented().render_help().to_string());
                Ok(())
            } else {
                host.print_mistake(&error, help::color(host.arguments()))
            };
            printed.map_or(Exit::Failure as u8, |()| u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8))
        }
    }
}

/// Reason why a command line has no answer.
enum Stop {
    /// It cannot be parsed, or asks for help.
    Mistake(Box<clap::Error>),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The command line, parsed.
fn words_of(host: &Host) -> Result<Cli, Stop> {
    document::check_words(host)?;
    Cli::parsed(host.arguments(), host.variables()).map_err(|error| Stop::Mistake(Box::new(error)))
}

/// Prints an answer. Returns the exit code.
fn print(host: &Host, answer: &CommandOutput) -> u8 {
    host.messages.say(&answer.notes);
    let written = if answer.is_document { host.print_raw(&answer.output) } else { host.print(&answer.output) };
    host.messages.say(&answer.trouble);
    match written {
        // A reader that closed the pipe has seen what it wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            host.messages.say(&format!("error: cannot write to standard output: {}\n", explained(error)));
            Exit::Failure as u8
        }
        _ => answer.program.unwrap_or(answer.exit as u8),
    }
}

/// Answers a command line.
fn obey(mut cli: Cli, host: &mut Host) -> Result<CommandOutput, Stop> {
    let verbosity = match (cli.quiet, cli.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Usual,
    };
    host.messages.verbosity = verbosity;
    match cli.command {
        Command::Worker { compiler } => return Ok(worker(compiler)?),
        Command::Guard { words, scratch, joined } => {
            guarded::guard(&words, &scratch, joined).map_err(|e| Error::Failure(e.to_string()))?;
            return Ok(CommandOutput::success(String::new()));
        }
        _ => {}
    }
    host.messages.wraps = true;
    // A mistake in the user's file has the color that the rest says.
    host.choose_colors(Defaults::default().color(cli.color, host));
    let defaults = match cli.command {
        Command::Completions { .. } | Command::Man { .. } => Defaults::default(),
        _ => Defaults::read(host)?,
    };
    host.choose_colors(defaults.color(cli.color, host));
    defaults.apply(&mut cli.command)?;
    let setup = setup(&cli.vulkan, host)?;
    host.cache = setup.cache.clone();
    Ok(answer(cli, &setup, &defaults, host)?)
}

/// Answers a command of the user's.
fn answer(cli: Cli, setup: &Setup, defaults: &Defaults, host: &Host) -> Result<CommandOutput, Error> {
    // Standard output may be a file that every command reads.
    Files::default().check(host)?;
    match cli.command {
        Command::Devices { device, json } => listing::devices(&device, &defaults.devices(host), json, setup, host),
        Command::List { algorithm, json } => listing::algorithms(algorithm.as_deref(), json, host),
        Command::Bench(mut args) => {
            args.request.vulkan = cli.vulkan.0;
            bench::run(&args, setup, host)
        }
        Command::Peak { on, quick, json } => peak::run(&on.device, quick, json.as_deref(), setup, host),
        Command::Tune(args) => tune::run(args, setup, host),
        Command::Verify(args) => verify::run(&args, setup, host),
        Command::Compare(args) => compare::run(&args, host),
        Command::Ab(args) => ab::run(&args, &cli.vulkan, setup, host),
        Command::Inspect(args) => inspect::run(&args, setup, host),
        Command::Run(args) => run::run(&args, cli.vulkan.0, setup, host),
        Command::Capture(args) => capture::run(&args, setup, host),
        Command::Export { run, to, output } => records::export(&run, &to, output.as_deref(), host),
        Command::Report(args) => records::report(&args, host),
        Command::Merge { run, output } => records::merge(&run, output.as_deref(), host),
        Command::History(args) => history::run(&args, host),
        Command::Config(args) => config::show(&args, cli.color, &cli.vulkan, defaults, host),
        Command::Completions { shell } => Ok(shell::completions(shell)),
        Command::Man { output } => shell::man(output.as_deref()),
        Command::Worker { .. } | Command::Guard { .. } => unreachable!("they need no setup"),
    }
}

/// The setup that the options ask for.
fn setup(options: &VulkanOptions, host: &Host) -> Result<Setup, Error> {
    let VulkanOptions { validation, loader, cache_dir, timeout, max_run, in_process } = options;
    let validation = if *validation { Validation::On } else { Validation::Off };
    let cache = CacheFolder::new(cache_dir.as_deref());
    // Nobody misses a folder that nobody named.
    if let Some(named) = cache_dir
        && let Some(trouble) = cache.trouble()
    {
        let shown = named.shown();
        let note = format!("note      nothing is kept in --cache-dir '{shown}' for later runs: {trouble}\n");
        host.messages.say(&note);
    }
    // The system's loader waits for ever for the writer of a pipe.
    if let Some(path) = loader.as_ref().filter(|path| path.metadata().is_ok_and(|there| !there.is_file())) {
        return Err(Error::Usage(format!(
            "--loader '{}' is not a file; name a library such as libvulkan.so.1",
            path.shown()
        )));
    }
    let isolation = if *in_process { Isolation::InProcess } else { Isolation::Workers };
    let time = |name: &str, text: &str| duration(text).map_err(|e| Error::Usage(format!("{name}: {e}")));
    let (timeout, max_run) = (time("--timeout", timeout)?, time("--max-run", max_run)?);
    let front_ends = if *in_process { FrontEnds::Here } else { FrontEnds::Apart };
    // Only this program can be its own guard and its own compiler.
    if host.program.is_none() {
        guarded::limit(ProgramLimits { timeout, interrupted: Some(host.interrupted()), front_ends });
    }
    let loader = loader.clone().map(PathBuf::into_os_string);
    Ok(Setup {
        validation,
        loader,
        drivers: None,
        cache,
        isolation,
        timeout,
        max_run,
        kernels: vec![],
        inspects: false,
        repeat: 0,
        messages: host.messages.clone(),
        program: host.program.clone(),
    })
}

/// Does what another process of this program orders: it compiles, or works on a device. Then the other one hears of Ctrl-C
/// and tells this one.
fn worker(compiler: bool) -> Result<CommandOutput, Error> {
    if compiler {
        front_end::serve()?;
    } else {
        interrupt::ignore()?;
        serve()?;
    }
    Ok(CommandOutput::success(String::new()))
}

/// Reads the record in a file; what is odd about it goes to `notes`.
fn read(path: &Path, notes: &mut String) -> Result<NamedRecord, Error> {
    let loaded = reader::read(path)?;
    for note in &loaded.notes {
        let _ = writeln!(notes, "note: {note}");
    }
    Ok(loaded)
}

/// The exit code after `exit` and `trouble` beside the cases, which goes to `notes`: it takes nothing from what was
/// measured, and a wrong answer weighs more.
fn beside(exit: Exit, trouble: Result<(), Error>, notes: &mut String) -> Exit {
    let Err(error) = trouble else { return exit };
    let _ = writeln!(notes, "error: {error}");
    if exit == Exit::Rejected { exit } else { error.exit() }
}

/// Says which drivers crash, and which of the devices that `selectors` name are of no use, before anything is measured
/// with the others.
fn announce<'a>(session: &Session<'_>, selectors: impl IntoIterator<Item = &'a [String]>, host: &Host) {
    let devices = selectors.into_iter().flat_map(|selectors| session.left_out(selectors));
    let mut said = BTreeSet::new();
    for left_out in session.dead_drivers().into_iter().chain(devices) {
        if said.insert(left_out.clone()) {
            host.messages.line(&format!("left out: {left_out}"));
        }
    }
}

/// What each run of `plan` selects its devices by, where it names more than the host.
fn selectors(plan: &Plan) -> Vec<Vec<String>> {
    let others = |run: &PlannedRun| run.devices.iter().filter(|device| *device != HOST).cloned().collect::<Vec<_>>();
    let chosen = plan.runs.iter().map(|run| (run, others(run)));
    chosen.filter(|(run, others)| run.devices.is_empty() || !others.is_empty()).map(|(_, others)| others).collect()
}

/// Measures `plan` on its devices, with progress on standard error.
fn measure(plan: &Plan, setup: &Setup, options: &MeasureOptions<'_>, host: &Host) -> Result<MeasuredPlan, Error> {
    measure_keeping(plan, setup, options, None, None, host).map(|(measured, _)| measured)
}

/// Measures `plan` without a word on its devices.
fn measure_quietly(plan: &Plan, setup: &Setup, options: &MeasureOptions<'_>, host: &Host) -> Result<Record, Error> {
    let interrupted = host.listen()?;
    let session = Measurement::session(plan, setup)?;
    let measurement = Measurement::new(plan, setup, session.as_ref())?;
    run::name_commands(&setup.kernels, host);
    let expected = measurement.expected(options);
    // A run that is short says nothing.
    let limits = measurement.expected_limits(options);
    let mut progress = Unannounced(Progress::through(measurement.cases(options), &expected, &limits, &host.messages));
    let measured = measurement.measure(session.as_ref(), options, interrupted, &mut progress);
    progress.0.finish();
    let measured = measured?;
    measured.validated?;
    Ok(measured.record)
}

/// Progress without devices and skips, which an earlier process has told.
struct Unannounced(Progress);

impl Observer for Unannounced {
    fn begin(&mut self, id: &str) {
        self.0.begin(id);
    }

    fn end(&mut self, case: &Case) {
        self.0.end(case);
    }

    fn limits(&mut self) {
        self.0.limits();
    }
}

/// Measures `plan` in processes that have measured nothing yet; `None` if this one was interrupted meanwhile. Errors begin
/// with `name`.
fn measure_afresh(
    name: &str,
    plan: &Plan,
    setup: &Setup,
    options: &MeasureOptions<'_>,
    host: &Host,
) -> Result<Option<Record>, Error> {
    match measure_quietly(plan, &setup.in_workers(), &options.afresh(), host) {
        _ if host.is_interrupted() => Ok(None),
        Ok(record) => Ok(Some(record)),
        Err(error) => Err(Error::Failure(format!("{name}: {error}"))),
    }
}

/// Measures what `earlier` lacks of `plan`, with a journal of the record that is to be at `path`.
fn measure_keeping(
    plan: &Plan,
    setup: &Setup,
    options: &MeasureOptions<'_>,
    path: Option<&Path>,
    earlier: Option<Record>,
    host: &Host,
) -> Result<(MeasuredPlan, Option<Journal>), Error> {
    let session = campaign::session_of(plan, setup, host)?;
    let mut measurement = Measurement::new(plan, setup, session.as_ref())?;
    if let Some(earlier) = earlier {
        measurement.resume(earlier, options)?;
        host.messages.line(&format!(
            "resuming: {} measured, {} to go",
            counted(measurement.taken().len(), "case"),
            measurement.cases(options)
        ));
    }
    // Nothing is run of what is only compiled.
    if !setup.inspects {
        run::name_commands(&setup.kernels, host);
    }
    let interrupted = host.listen()?;
    let (cases, expected) = (measurement.cases(options), measurement.expected(options));
    let progress = Progress::through(cases, &expected, &measurement.expected_limits(options), &host.messages);
    progress.foretell("case", measurement.uses_host_cores());
    let mut watch = RunObserver::new(progress, path);
    let measured = measurement.measure(session.as_ref(), options, interrupted, &mut watch);
    watch.progress.finish();
    match measured {
        Ok(measured) => Ok((measured, watch.journal)),
        Err(error) => {
            // Nothing was measured that is not elsewhere.
            if let Some(journal) = watch.journal.filter(|_| measurement.taken().is_empty()) {
                journal.remove();
            }
            Err(error)
        }
    }
}
