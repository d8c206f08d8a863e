//! `gpukern verify`.

use super::{Answer, Vulkan, bench};
use crate::cli::VerifyArgs;
use crate::error::Error;
use crate::options::Selection;
use crate::plan::{Plan, Purpose, Run};
use crate::report;
use crate::runner::Timing;

pub(super) fn run(args: VerifyArgs, vulkan: &Vulkan) -> Result<Answer, Error> {
    let run = Run::new(&Selection::from(args), Purpose::Verify).map_err(Error::Usage)?;
    let record = bench::measure(&Plan { runs: vec![run] }, vulkan, Timing::VerifyOnly, bench::Limits::Ignore, false)?;
    let output = format!("{}\n{}", report::verify::table(&record), report::verify::summary(&record));
    Ok(Answer { output, notes: report::bench::notes(&record), exit: bench::exit(&record) })
}
