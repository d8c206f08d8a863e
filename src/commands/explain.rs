//! `bench --explain`: the ways that `auto` chooses from, with predicted and measured times.

use super::{Answer, interrupt};
use crate::basis::error::{Error, Exit};
use crate::measure::runner::Timing;
use crate::measure::session::{Session, Setup};
use crate::plan::Plan;
use std::fmt::Write;

pub(super) fn run(plan: &Plan, setup: &Setup) -> Result<Answer, Error> {
    let session = Session::open(setup)?;
    let interrupted = interrupt::listen()?;
    let mut output = String::new();
    for run in &plan.runs {
        for physical in session.select_usable(&run.devices)? {
            let mut runner = session.runner(physical, Timing::Sample, interrupted)?;
            for group in run.groups_on(physical.info.kind) {
                let mut candidates = crate::algorithms::matmul::candidates(&group.spec, &physical.info);
                if let Ok(n) = std::env::var("MM_QUICK") {
                    let f: f64 = n.parse().unwrap_or(4.0);
                    let best = candidates.first().map_or(0.0, |c| c.predicted.0);
                    candidates.retain(|c| c.predicted.0 < f * best + 5000.0);
                    candidates.truncate(40);
                }
                let times = runner.explain(group, &candidates);
                for (candidate, time) in candidates.iter().zip(times) {
                    let tile = candidate.tile.map_or_else(|| "-".into(), String::from);
                    let line = match time {
                        Ok(time) => format!(
                            "{} {} {} {} {:.0} {:.0}",
                            group.spec.size, group.spec.dtype, candidate.variant, tile, candidate.predicted.0, time.0
                        ),
                        Err(why) => format!(
                            "{} {} {} {} {:.0} error {why}",
                            group.spec.size, group.spec.dtype, candidate.variant, tile, candidate.predicted.0
                        ),
                    };
                    println!("{line}");
                    let _ = writeln!(output, "{line}");
                }
            }
        }
    }
    Ok(Answer { output: String::new(), notes: String::new(), exit: Exit::Success })
}
