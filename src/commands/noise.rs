//! `bench --noise`: the same run in several processes, to see how far they lie apart.

use super::child::Child;
use super::json_file::JsonTarget;
use super::{Answer, Vulkan, interrupt};
use crate::cli::BenchArgs;
use crate::error::{Error, Exit};
use crate::progress;
use crate::record::Record;
use crate::report;
use crate::report::noise::Noise;

/// Runs `processes` of them.
pub(super) fn run(args: &BenchArgs, processes: u32, vulkan: &Vulkan) -> Result<Answer, Error> {
    if processes < 2 {
        return Err(Error::Usage(format!("--noise={processes}: it takes two processes to differ; write --noise=8")));
    }
    let target = args.json.as_deref().map(JsonTarget::open).transpose()?;
    interrupt::listen()?;
    let mut arguments = args.selection.arguments();
    arguments.extend(args.config.iter().map(|path| format!("--config={}", path.display())));
    let mut records: Vec<Record> = vec![];
    for number in 1..=processes {
        progress::line(&format!("process {number} of {processes}"));
        match Child::bench(format!("process {number}"), &arguments, vulkan)?.record()? {
            Some(record) => records.push(record),
            None => break,
        }
    }
    let exit = if interrupt::flagged() { Exit::Interrupted } else { Exit::Success };
    if records.len() < 2 {
        return Err(Error::Failure("interrupted before two processes had ended; nothing to compare".into()));
    }
    let noise = Noise::new(&records);
    let table = report::noise::text(&noise);
    let Some(target) = target else { return Ok(Answer { output: table, notes: String::new(), exit }) };
    let json = serde_json::to_string(&noise).map_err(|e| Error::Failure(e.to_string()))? + "\n";
    let output = target.deliver(&json)?.unwrap_or(table);
    Ok(Answer { output, notes: String::new(), exit })
}
