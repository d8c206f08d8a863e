//! `gpukern list` and `gpukern devices`.

use super::CommandOutput;
use crate::{CATALOGUE, DeviceInfo, Error, Exit, Host, Result, Setup, Timing, Tuned};

use crate::basis::printable;
use crate::engine::session::Session;
use crate::report::devices::DeviceCard;
use crate::report::list::{self, ListedAlgorithm};
use crate::report::table;
use std::fmt::Write;

/// Lists all algorithms, or one of them with details of its variants.
pub(super) fn algorithms(name: Option<&str>, json: bool, host: &Host) -> Result<CommandOutput> {
    let algorithms = match name {
        Some(name) => vec![CATALOGUE.find(name).map_err(Error::Usage)?],
        None => CATALOGUE.algorithms.to_vec(),
    };
    let text = if json {
        let listed: Vec<_> = algorithms.iter().map(|algorithm| ListedAlgorithm::new(algorithm)).collect();
        let text = serde_json::to_string_pretty(&listed);
        printable::json(text.map_err(|e| Error::Failure(format!("cannot write the list as JSON: {e}")))? + "\n")
    } else if name.is_some() {
        list::long(algorithms[0], host.width())
    } else {
        list::short(&algorithms, host.width())
    };
    Ok(CommandOutput::success(text))
}

/// Returns whether a device accepts commands without executing them, which takes opening it. Software devices, and
/// devices whose limits are cached from an earlier run, are assumed to execute kernels and are not opened.
fn executes_nothing(session: &Session<'_>, device: &DeviceInfo, host: &Host) -> bool {
    if !device.kind.is_gpu() || device.unusable().is_some() || session.cached_limits(device).is_some() {
        return false;
    }
    match session.executor(device, Timing::VerifyOnly, &Tuned::none(), host.interrupted()) {
        Ok(mut executor) => executor.executes() == Ok(false),
        Err(_) => false,
    }
}

/// Lists the devices matching `selectors`, or all. Marks the default devices of other commands: those matching `preferred`.
pub(super) fn devices(
    selectors: &[String],
    preferred: &[String],
    json: bool,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput> {
    // Here, where no kernel of the user's runs, the time that the user allows is for loading drivers.
    let setup = &Setup { loading: setup.timeout, ..setup.clone() };
    let session = Session::open(setup)?;
    let every_device = ["all".to_string()];
    let devices = session.select(if selectors.is_empty() { &every_device[..] } else { selectors })?;
    let mut cards: Vec<_> = devices.iter().map(|device| DeviceCard::new(device, &CATALOGUE)).collect();
    for card in &mut cards {
        card.idle = executes_nothing(&session, card.info, host);
    }
    let output = if json {
        printable::json(serde_json::to_string_pretty(&cards).map_err(|e| Error::Failure(e.to_string()))? + "\n")
    } else {
        // A default that matches no device is reported by the commands that use it.
        let defaults = session.select(preferred).unwrap_or_default();
        let width = host.width();
        let form = if host.is_verbose() { DeviceCard::card } else { DeviceCard::summary };
        let mut texts = vec![];
        for card in &cards {
            let is_default = defaults.iter().any(|device| device.index == card.info.index);
            texts.push(form(card, is_default, session.cached_limits(card.info).as_ref(), width));
        }
        if !host.is_verbose() && !cards.is_empty() {
            let hint = "`gpukern devices -v` lists features, all limits and what each variant needs";
            texts.push(table::prose(hint, width, 2));
        }
        texts.join("\n")
    };
    session.check_validation()?;
    let mut notes: String = session.dead_drivers().iter().map(|driver| format!("{driver}\n")).collect();
    let mut exit = Exit::Success;
    if cards.is_empty() {
        let _ = writeln!(notes, "{}", session.no_device());
        exit = Exit::Failure;
    }
    Ok(CommandOutput::new(output, notes, exit))
}
