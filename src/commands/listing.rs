//! `gpukern list` and `gpukern devices`.

use super::CommandOutput;
use super::host::Host;

use crate::basis::error::{Error, Exit};
use crate::basis::printable;
use crate::device::capability::DeviceInfo;
use crate::engine::runner::Timing;
use crate::engine::session::{Session, Setup};
use crate::kernels::CATALOGUE;
use crate::report::devices::DeviceCard;
use crate::report::list::{self, ListedAlgorithm};
use crate::report::table;
use crate::tuning::tuned::Tuned;
use crate::vulkan::VulkanError;
use std::fmt::Write;

/// Lists all algorithms, or one of them with details of its variants.
pub(super) fn algorithms(name: Option<&str>, json: bool, host: &Host) -> Result<CommandOutput, Error> {
    let named = name.map(|name| CATALOGUE.find(name)).transpose().map_err(Error::Usage)?;
    let chosen = named.map_or_else(|| CATALOGUE.algorithms.to_vec(), |algorithm| vec![algorithm]);
    let width = host.width();
    Ok(CommandOutput::success(match named {
        _ if json => {
            let listed: Vec<_> = chosen.iter().map(|algorithm| ListedAlgorithm::new(algorithm)).collect();
            let text = serde_json::to_string_pretty(&listed);
            printable::json(text.map_err(|e| Error::Failure(format!("cannot write the list as JSON: {e}")))? + "\n")
        }
        Some(algorithm) => list::long(algorithm, width),
        None => list::short(&chosen, width),
    }))
}

/// Returns whether a device executes nothing. Assumes that software devices, and devices with kept limits, execute kernels.
fn executes_nothing(session: &Session<'_>, device: &DeviceInfo, host: &Host) -> bool {
    let known = !device.kind.is_gpu() || device.unusable().is_some() || session.cached_limits(device).is_some();
    let open =
        || session.executor(device, Timing::VerifyOnly, &Tuned::none(), host.interrupted()).ok()?.executes().ok();
    !known && open() == Some(false)
}

/// Lists the devices matching `selectors`, or all. Marks the default devices of other commands: those matching `preferred`.
pub(super) fn devices(
    selectors: &[String],
    preferred: &[String],
    json: bool,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput, Error> {
    let session = Session::open(setup)?;
    let all = ["all".to_string()];
    let chosen = session.select(if selectors.is_empty() { &all[..] } else { selectors })?;
    let mut reports: Vec<_> = chosen.iter().map(|device| DeviceCard::new(device, &CATALOGUE)).collect();
    for report in &mut reports {
        report.idle = executes_nothing(&session, report.info, host);
    }
    let output = if json {
        printable::json(serde_json::to_string_pretty(&reports).map_err(|e| Error::Failure(e.to_string()))? + "\n")
    } else {
        // A default that matches no device is reported by the commands that use it.
        let defaults = session.select(preferred).unwrap_or_default();
        let (width, everything) = (host.width(), host.is_verbose());
        let card = |report: &DeviceCard<'_>| {
            let is_default = defaults.iter().any(|device| device.index == report.info.index);
            let form = if everything { DeviceCard::card } else { DeviceCard::summary };
            form(report, is_default, session.cached_limits(report.info).as_ref(), width)
        };
        let more = "`gpukern devices -v` lists features, all limits and what each variant needs";
        let more = if everything || reports.is_empty() { String::new() } else { table::prose(more, width, 2) };
        reports.iter().map(card).chain((!more.is_empty()).then_some(more)).collect::<Vec<_>>().join("\n")
    };
    session.check_validation()?;
    let mut notes: String = session.dead_drivers().iter().map(|driver| format!("{driver}\n")).collect();
    if reports.is_empty() {
        let _ = writeln!(notes, "{}", VulkanError::NoDriver);
    }
    let exit = if reports.is_empty() { Exit::Failure } else { Exit::Success };
    Ok(CommandOutput::new(output, notes, exit))
}
