//! `gpukern peak`.

use super::json_file::JsonTarget;
use super::{Answer, Session, Vulkan, interrupt};
use crate::cli::PeakArgs;
use crate::error::{Error, Exit};
use crate::peak::{Extent, plan};
use crate::progress::Progress;
use crate::report;
use crate::runner::{Runner, Timing};
use crate::vulkan::Device;
use std::sync::atomic::Ordering;

pub(super) fn run(args: &PeakArgs, vulkan: &Vulkan) -> Result<Answer, Error> {
    let target = args.json.as_deref().map(JsonTarget::open).transpose()?;
    let extent = if args.quick { Extent::Quick } else { Extent::Full };
    let session = Session::open(vulkan)?;
    let interrupted = interrupt::listen()?;
    let mut peaks = vec![];
    for physical in session.select_usable(&args.device)? {
        let device = Device::open(&session.instance, physical)?;
        let groups = plan::run(&physical.info, extent).groups;
        let mut progress = Progress::new(groups.iter().map(|group| group.variants.len()).sum());
        progress.line(&format!("device {}: {}", physical.info.index, physical.info.name));
        let mut runner = Runner::new(&device, Timing::Sample, &vulkan.cache, interrupted)?;
        peaks.push(runner.measure_peak(extent, &mut progress));
        progress.finish();
    }
    session.check_validation()?;
    let exit = if interrupted.load(Ordering::Relaxed) { Exit::Interrupted } else { Exit::Success };
    let tables: Vec<_> = peaks.iter().map(report::peak::text).collect();
    let table = tables.join("\n");
    let Some(target) = target else { return Ok(Answer { output: table, notes: String::new(), exit }) };
    let json = serde_json::to_string(&peaks).map_err(|e| Error::Failure(e.to_string()))? + "\n";
    let output = target.deliver(&json)?.unwrap_or(table);
    Ok(Answer { output, notes: String::new(), exit })
}
