//! `gpukern peak`.

use super::session::{self, DeviceSession};
use super::{CommandOutput, Files, JSON, Progress, Target};
use crate::plan::CaseGroup;
use crate::plan::estimate::{self, Paces};
use crate::record::peak::Extent;
use crate::{CATALOGUE, Exit, Host, Observer, Result, Setup, Timing, peak, report};
use std::fmt::Write;
use std::path::PathBuf;

pub(super) fn run(
    devices: &[String],
    quick: bool,
    json: Option<&PathBuf>,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput> {
    Files::default().read("the loader", &setup.loader).written("--json", json).check(host)?;
    let target = Target::open_if_named(JSON, json)?;
    let extent = if quick { Extent::Quick } else { Extent::Full };
    let mut session = DeviceSession::open(setup, [devices], host)?;
    let mut peaks = vec![];
    let mut notes = String::new();
    let mut worst = Exit::Success;
    session.on_each_device(devices, Timing::Sample, |executor| {
        let device = executor.info();
        let section = peak::limit_section(&CATALOGUE, device, extent);
        let paces = Paces::read(&setup.cache, device);
        let time_of = |group: &CaseGroup| estimate::of_case(group, device.kind, Some(&section.sampling));
        let expected = estimate::of_groups(&section.groups, device, &paces, "peak", &time_of);
        let slowdown = session::slowdown(Timing::Sample, device.kind.runs_on_host_cores());
        let mut progress = Progress::on_device(expected.len(), &expected, &[], slowdown, &host.messages);
        progress.device(device);
        progress.announce_duration("kernel");
        let peak = executor.measure_limits(extent, &mut progress);
        if let Some(limits) = executor.cached_limits()
            && let better @ [_, ..] = &limits.better_than(&peak)[..]
        {
            let figures = report::peak::in_effect(better);
            let _ = writeln!(notes, "note      better figures from earlier runs are kept: {figures}");
        }
        peaks.push(peak);
        progress.finish();
        if !host.is_interrupted() {
            paces.keep(&progress.times(), &setup.cache, executor.info());
        }
        // A limit may be missing because a kernel was wrong or the device failed, not because the device lacks it.
        if worst != Exit::Rejected && progress.exit != Exit::Success {
            worst = progress.exit;
        }
        Ok(())
    })?;
    let tables: Vec<_> = peaks.iter().map(|peak| report::peak::text(peak, host.width())).collect();
    let mut answer = CommandOutput::new(tables.join("\n"), notes, worst);
    session.end(&mut answer);
    answer.deliver_json(target, &peaks);
    Ok(answer)
}
