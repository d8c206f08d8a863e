//! `gpukern peak`.

use super::campaign::Campaign;
use super::document::{Files, JSON, Target};
use super::{CommandOutput, beside};
use crate::basis::error::{Error, Exit};
use crate::commands::host::Host;
use crate::commands::progress::Progress;
use crate::measure::executor::Observer;
use crate::measure::runner::Timing;
use crate::measure::session::Setup;
use crate::peak;
use crate::plan::{CaseGroup, estimate};
use crate::record::peak::Extent;
use crate::record::{Case, Outcome};
use crate::report;
use std::path::Path;

pub(super) fn run(
    devices: &[String],
    quick: bool,
    json: Option<&Path>,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput, Error> {
    Files::default().read("the loader", &setup.loader).written("--json", json).check(host)?;
    let target = json.map(|path| Target::open(JSON, path)).transpose()?;
    let extent = if quick { Extent::Quick } else { Extent::Full };
    let campaign = Campaign::begin(setup, [devices], host)?;
    let (mut peaks, mut worst, mut notes) = (vec![], Exit::Success, String::new());
    for device in campaign.session.select_usable(devices)? {
        let mut executor = match campaign.open(device, Timing::Sample) {
            Ok(executor) => executor,
            Err(error) => {
                worst = beside(worst, Err(error), &mut notes);
                continue;
            }
        };
        let run = peak::run(device, extent);
        let time = |group: &CaseGroup| {
            let time = estimate::of_case(group, device.kind, Some(&run.sampling));
            group.variants.iter().map(|variant| (group.id(variant).to_string(), time)).collect::<Vec<_>>()
        };
        let expected: Vec<_> = run.groups.iter().flat_map(time).collect();
        let mut progress = Progress::through(expected.len(), &expected, &[], &host.messages);
        progress.device(device);
        progress.foretell("kernel", device.kind.runs_on_host_cores());
        let mut watch = PeakObserver { progress, worst };
        peaks.push(executor.measure_peak(extent, &mut watch));
        watch.progress.finish();
        worst = watch.worst;
    }
    let exit = match beside(worst, campaign.session.check_validation(), &mut notes) {
        Exit::Success if campaign.is_interrupted() => Exit::Interrupted,
        worst => worst,
    };
    let tables: Vec<_> = peaks.iter().map(|peak| report::peak::text(peak, host.width())).collect();
    let table = tables.join("\n");
    let mut answer = CommandOutput::new(table, notes, exit);
    answer.deliver_json(target, &peaks);
    Ok(answer)
}

/// An observer that shows progress and keeps the exit code of the worst probe: a limit that is missing because its
/// answer was wrong, or the device failed, is no limit that the device lacks.
struct PeakObserver {
    progress: Progress,
    worst: Exit,
}

impl Observer for PeakObserver {
    fn begin(&mut self, id: &str) {
        self.progress.begin(id);
    }

    fn end(&mut self, case: &Case) {
        match case.outcome {
            Outcome::Rejected(_) => self.worst = Exit::Rejected,
            ref other if other.failure().is_some() && self.worst == Exit::Success => self.worst = Exit::Failure,
            _ => {}
        }
        self.progress.end(case);
    }
}
