//! The commands: each takes its parsed options and returns what to print and how the process ends.

mod ab;
mod bench;
mod child;
pub mod cli;
mod compare;
mod devices;
mod document;
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
use crate::device::cache::Cache;
use crate::device::selector;
use crate::measure::runner::{Runner, Timing};
use crate::record::reader::{self, Loaded};
use crate::vulkan::{Device, Instance, PhysicalDevice, Validation, VulkanError};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

/// What a command leaves to be printed, and its exit code.
#[derive(Debug)]
pub struct Answer {
    /// For standard output.
    pub output: String,
    /// For standard error.
    pub notes: String,
    /// How the process ends.
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
/// What ended the command before it had an answer.
pub fn run(cli: Cli) -> Result<Answer, Error> {
    let validation = if cli.validation { Validation::On } else { Validation::Off };
    let cache = Cache::new(cli.cache_dir.as_deref());
    let vulkan = Vulkan { validation, loader: cli.loader, cache, cache_dir: cli.cache_dir };
    match cli.command {
        Command::Devices(args) => devices::run(&args, &vulkan),
        Command::List(args) => list::run(&args),
        Command::Bench(args) => bench::run(&args, &vulkan),
        Command::Peak(args) => peak::run(&args, &vulkan),
        Command::Tune(args) => tune::run(args, &vulkan),
        Command::Verify(args) => verify::run(args, &vulkan),
        Command::Compare(args) => compare::run(&args),
        Command::Ab(args) => ab::run(&args, &vulkan),
        Command::Export(args) => export::run(&args),
        Command::Report(args) => report::run(&args),
    }
}

/// The record in a file; what is odd about it goes to `notes`.
fn read(path: &Path, notes: &mut String) -> Result<Loaded, Error> {
    let loaded = reader::read(path)?;
    for note in &loaded.notes {
        let _ = writeln!(notes, "note: {note}");
    }
    Ok(loaded)
}

/// The exit code after `exit` of what went wrong beside the cases, which goes to `notes`: it takes nothing from what was
/// measured, and a wrong answer weighs more.
fn beside(exit: Exit, trouble: Result<(), Error>, notes: &mut String) -> Exit {
    let Err(error) = trouble else { return exit };
    let _ = writeln!(notes, "error: {error}");
    if exit == Exit::Rejected { exit } else { error.exit() }
}

/// How Vulkan is to be loaded.
struct Vulkan {
    validation: Validation,
    loader: Option<PathBuf>,
    /// What is kept between runs.
    cache: Cache,
    /// Where, if that was said.
    cache_dir: Option<PathBuf>,
}

/// Vulkan and the devices it shows.
struct Session {
    instance: Rc<Instance>,
    devices: Vec<PhysicalDevice>,
}

impl Session {
    fn open(vulkan: &Vulkan) -> Result<Self, Error> {
        let instance = Instance::new(vulkan.validation, vulkan.loader.as_deref())?;
        let devices = instance.devices()?;
        Ok(Self { instance, devices })
    }

    /// The devices that `selectors` name, or the default one.
    fn select(&self, selectors: &[String]) -> Result<Vec<&PhysicalDevice>, Error> {
        let infos: Vec<_> = self.devices.iter().map(|device| device.info.clone()).collect();
        let chosen = selector::select(&infos, selectors).map_err(Error::Usage)?;
        Ok(chosen.into_iter().map(|index| &self.devices[index]).collect())
    }

    /// As [`Self::select`]; without any device that is an error, and so is one on which nothing can be measured.
    fn select_usable(&self, selectors: &[String]) -> Result<Vec<&PhysicalDevice>, Error> {
        if self.devices.is_empty() {
            return Err(VulkanError::NoDriver.into());
        }
        let chosen = self.select(selectors)?;
        match chosen.iter().find_map(|device| device.info.unusable().map(|reason| (&device.info.name, reason))) {
            Some((name, reason)) => {
                Err(Error::Usage(format!("nothing can be measured on '{name}': it {reason}; choose another --device")))
            }
            None => Ok(chosen),
        }
    }

    /// A runner on `physical`, with what is kept of it between runs.
    fn runner<'a>(
        &self,
        physical: &PhysicalDevice,
        timing: Timing,
        vulkan: &Vulkan,
        interrupted: &'a AtomicBool,
    ) -> Result<Runner<'a>, VulkanError> {
        let device = Device::open(&self.instance, physical)?;
        Runner::new(&device, timing, &vulkan.cache, interrupted)
    }

    /// Turns what the validation layer said into an error.
    fn check_validation(&self) -> Result<(), Error> {
        let messages = self.instance.validation_messages();
        match messages.first() {
            None => Ok(()),
            Some(first) => Err(Error::Failure(format!("{} validation messages, the first: {first}", messages.len()))),
        }
    }
}
