//! The commands: each takes its parsed options and returns what to print and how the process ends.

mod ab;
mod bench;
mod child;
pub(crate) mod cli;
mod compare;
mod devices;
mod document;
mod explain;
mod export;
mod interrupt;
mod judging;
mod list;
mod noise;
mod peak;
pub(crate) mod progress;
mod report;
mod rounds;
mod tune;
mod verify;

use crate::basis::error::{Error, Exit};
use crate::commands::cli::{Cli, Command};
use crate::device::cache::CacheFolder;
use crate::measure::session::{Agenda, Job, MeasuredPlan, Setup};
use crate::plan::Plan;
use crate::record::reader::{self, LoadedRecord};
use crate::vulkan::Validation;
use progress::Progress;
use std::fmt::Write;
use std::path::Path;

/// The answer of a command: what to print, and the exit code.
#[derive(Debug)]
pub struct Answer {
    /// Text for standard output.
    pub output: String,
    /// Text for standard error.
    pub notes: String,
    /// The exit code of the process.
    pub exit: Exit,
}

impl Answer {
    fn success(output: String) -> Self {
        Self { output, notes: String::new(), exit: Exit::Success }
    }
}

/// Runs the command line.
///
/// # Errors
/// The error that ended the command before it had an answer.
pub fn run(cli: Cli) -> Result<Answer, Error> {
    let validation = if cli.validation { Validation::On } else { Validation::Off };
    let cache = CacheFolder::new(cli.cache_dir.as_deref());
    let setup = Setup { validation, loader: cli.loader, cache, cache_dir: cli.cache_dir };
    match cli.command {
        Command::Devices(args) => devices::run(&args, &setup),
        Command::List(args) => list::run(&args),
        Command::Bench(args) => bench::run(&args, &setup),
        Command::Peak(args) => peak::run(&args, &setup),
        Command::Tune(args) => tune::run(args, &setup),
        Command::Verify(args) => verify::run(args, &setup),
        Command::Compare(args) => compare::run(&args),
        Command::Ab(args) => ab::run(&args, &setup),
        Command::Export(args) => export::run(&args),
        Command::Report(args) => report::run(&args),
    }
}

/// Reads the record in a file; what is odd about it goes to `notes`.
fn read(path: &Path, notes: &mut String) -> Result<LoadedRecord, Error> {
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

/// The command line, as documents show it.
fn command_line() -> Vec<String> {
    std::iter::once("gpukern".to_string()).chain(std::env::args().skip(1)).collect()
}

/// Measures `plan` on its devices, with progress on standard error.
fn measure(plan: &Plan, setup: &Setup, job: Job<'_>) -> Result<MeasuredPlan, Error> {
    let session = Agenda::session(plan, setup)?;
    let agenda = Agenda::new(plan, setup, session.as_ref())?;
    let interrupted = interrupt::listen()?;
    let mut progress = Progress::new(agenda.cases());
    let measured = agenda.measure(job, interrupted, &mut progress);
    progress.finish();
    measured
}
