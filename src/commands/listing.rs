//! `gpukern list` and `gpukern devices`.

use super::CommandOutput;
use crate::algorithms::{self, ALGORITHMS};
use crate::basis::error::{Error, Exit};
use crate::basis::printable;
use crate::measure::session::{Session, Setup};
use crate::report::devices::DeviceCard;
use crate::report::list::{self, Listed};
use crate::report::table;
use crate::vulkan::VulkanError;
use std::fmt::Write;

/// Lists all algorithms, or one with everything about its variants.
pub(super) fn algorithms(name: Option<&str>, json: bool) -> Result<CommandOutput, Error> {
    let named = name.map(algorithms::find).transpose().map_err(Error::Usage)?;
    let chosen = named.map_or_else(|| ALGORITHMS.to_vec(), |algorithm| vec![algorithm]);
    let width = table::width();
    Ok(CommandOutput::success(match named {
        _ if json => {
            let listed: Vec<_> = chosen.iter().map(|algorithm| Listed::new(algorithm)).collect();
            let text = serde_json::to_string_pretty(&listed);
            printable::json(text.map_err(|e| Error::Failure(format!("cannot write the list as JSON: {e}")))? + "\n")
        }
        Some(algorithm) => list::long(algorithm, width),
        None => list::short(&chosen, width),
    }))
}

/// Lists the devices that `selectors` name, or all.
pub(super) fn devices(selectors: &[String], json: bool, setup: &Setup) -> Result<CommandOutput, Error> {
    let session = Session::open(setup)?;
    let all = ["all".to_string()];
    let chosen = session.select(if selectors.is_empty() { &all[..] } else { selectors })?;
    let reports: Vec<_> = chosen.iter().map(|device| DeviceCard::new(device)).collect();
    let output = if json {
        printable::json(serde_json::to_string_pretty(&reports).map_err(|e| Error::Failure(e.to_string()))? + "\n")
    } else {
        reports.iter().map(|report| report.card(table::width())).collect::<Vec<_>>().join("\n")
    };
    session.check_validation()?;
    let mut notes: String = session.dead_drivers().iter().map(|driver| format!("{driver}\n")).collect();
    if reports.is_empty() {
        let _ = writeln!(notes, "{}", VulkanError::NoDriver);
    }
    let exit = if reports.is_empty() { Exit::Failure } else { Exit::Success };
    Ok(CommandOutput::new(output, notes, exit))
}
