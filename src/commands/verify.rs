//! `gpukern verify`.

use super::bench::{self, Measured};
use super::{Answer, Vulkan, beside};
use crate::basis::error::Error;
use crate::commands::cli::VerifyArgs;
use crate::measure::runner::Timing;
use crate::plan::options::Selection;
use crate::plan::{Plan, Purpose, Run};
use crate::report;
use crate::tuning::tuned::Tuned;

pub(super) fn run(args: VerifyArgs, vulkan: &Vulkan) -> Result<Answer, Error> {
    let run = Run::new(&Selection::from(args), Purpose::Verify).map_err(Error::Usage)?;
    let plan = Plan { runs: vec![run] };
    // What everyone gets is what has to conform; a search verifies what it finds.
    let tuned = Tuned::none();
    let Measured { record, validated } =
        bench::measure(&plan, vulkan, Timing::VerifyOnly, bench::Limits::Ignore, &tuned)?;
    let output = format!("{}\n{}", report::verify::table(&record), report::verify::summary(&record));
    let mut notes = report::bench::notes(&record);
    let exit = beside(bench::exit(&record), validated, &mut notes);
    Ok(Answer { output, notes, exit })
}
