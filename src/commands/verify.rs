//! `gpukern verify`.

use super::{Answer, Vulkan, bench};
use crate::cli::VerifyArgs;
use crate::error::Error;
use crate::options::Selection;
use crate::plan::{Plan, Purpose, Run};
use crate::report;
use crate::runner::Timing;
use crate::tuned::Tuned;

pub(super) fn run(args: VerifyArgs, vulkan: &Vulkan) -> Result<Answer, Error> {
    let run = Run::new(&Selection::from(args), Purpose::Verify).map_err(Error::Usage)?;
    let plan = Plan { runs: vec![run] };
    // What everyone gets is what has to conform; a search verifies what it finds.
    let tuned = Tuned::none();
    let record = bench::measure(&plan, vulkan, Timing::VerifyOnly, bench::Limits::Ignore, &tuned)?;
    let output = format!("{}\n{}", report::verify::table(&record), report::verify::summary(&record));
    Ok(Answer { output, notes: report::bench::notes(&record), exit: bench::exit(&record) })
}
