//! `bench --noise`: the same run in several processes, to see how far they lie apart.

use super::child::Child;
use super::document::JSON;
use super::{Answer, bench, beside, document, interrupt};
use crate::basis::error::{Error, Exit};
use crate::commands::cli::BenchArgs;
use crate::commands::progress;
use crate::measure::session::Setup;
use crate::record::Record;
use crate::report;
use crate::report::noise::Noise;

/// Runs the same `bench` in so many processes, one after the other.
pub(super) fn run(args: &BenchArgs, processes: u32, setup: &Setup) -> Result<Answer, Error> {
    if processes < 2 {
        return Err(Error::Usage(format!("--noise={processes}: it takes two processes to differ; write --noise=8")));
    }
    document::check_apart(&[("--json", args.json.as_deref())], &args.inputs())?;
    let target = args.json.as_deref().map(|path| JSON.open(path)).transpose()?;
    interrupt::listen()?;
    let arguments = args.arguments();
    let mut records: Vec<Record> = vec![];
    let (mut notes, mut exit) = (String::new(), Exit::Success);
    for number in 1..=processes {
        progress::line(&format!("process {number} of {processes}"));
        match Child::bench(format!("process {number}"), &arguments, setup)?.record() {
            Ok(Some(record)) => {
                // Once is enough to read what went wrong.
                if exit == Exit::Success && bench::exit(&record) != Exit::Success {
                    exit = bench::exit(&record);
                    notes = report::bench::notes(&record);
                }
                records.push(record);
            }
            Ok(None) => break,
            // The records of the others count without it.
            Err(error) if records.len() >= 2 => {
                exit = beside(exit, Err(error), &mut notes);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    if exit == Exit::Success && interrupt::flagged() {
        exit = Exit::Interrupted;
    }
    if records.len() < 2 {
        return Err(Error::Interrupted("two processes had ended; nothing to compare"));
    }
    let noise = Noise::new(&records);
    let table = report::noise::text(&noise);
    let mut answer = Answer::new(table, notes, exit);
    answer.deliver_json(target, &noise);
    Ok(answer)
}
