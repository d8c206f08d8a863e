//! `gpukern verify`.

use super::{Answer, bench, beside, command_line, measure};
use crate::basis::error::Error;
use crate::commands::cli::VerifyArgs;
use crate::measure::runner::Timing;
use crate::measure::session::{Job, LimitPolicy, MeasuredPlan, Setup};
use crate::plan::options::Selection;
use crate::plan::{Plan, PlannedRun, Purpose};
use crate::report;
use crate::tuning::tuned::Tuned;

pub(super) fn run(args: VerifyArgs, setup: &Setup) -> Result<Answer, Error> {
    let run = PlannedRun::new(&Selection::from(args), Purpose::Verify).map_err(Error::Usage)?;
    let plan = Plan { runs: vec![run] };
    // The built-in tiles, which everyone gets, have to conform; a search verifies what it finds.
    let tuned = Tuned::none();
    let job = Job::new(Timing::VerifyOnly, LimitPolicy::Ignore, &tuned, command_line());
    let MeasuredPlan { record, validated, .. } = measure(&plan, setup, &job)?;
    let output = format!("{}\n{}", report::verify::table(&record), report::verify::summary(&record));
    let mut notes = report::bench::notes(&record);
    let exit = beside(bench::exit(&record), validated, &mut notes);
    Ok(Answer::new(output, notes, exit))
}
