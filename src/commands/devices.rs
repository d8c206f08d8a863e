//! `gpukern devices`.

use super::Answer;
use crate::basis::error::{Error, Exit};
use crate::commands::cli::DevicesArgs;
use crate::measure::session::{Session, Setup};
use crate::report::devices::DeviceCard;
use crate::report::table;
use crate::vulkan::VulkanError;
use std::fmt::Write;

pub(super) fn run(args: &DevicesArgs, setup: &Setup) -> Result<Answer, Error> {
    let session = Session::open(setup)?;
    let all = ["all".to_string()];
    let selectors = if args.device.is_empty() { &all[..] } else { &args.device };
    let chosen = session.select(selectors)?;
    let reports: Vec<_> = chosen.iter().map(|device| DeviceCard::new(device)).collect();
    let output = if args.json {
        serde_json::to_string_pretty(&reports).map_err(|e| Error::Failure(e.to_string()))? + "\n"
    } else {
        reports.iter().map(|report| report.card(table::width())).collect::<Vec<_>>().join("\n")
    };
    session.check_validation()?;
    let mut notes: String = session.dead_drivers().iter().map(|driver| format!("{driver}\n")).collect();
    if reports.is_empty() {
        let _ = writeln!(notes, "{}", VulkanError::NoDriver);
    }
    let exit = if reports.is_empty() { Exit::Failure } else { Exit::Success };
    Ok(Answer::new(output, notes, exit))
}
