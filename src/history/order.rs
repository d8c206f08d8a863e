//! The order of runs.

use super::Run;
use crate::basis::printable::printable;
use std::collections::HashMap;

/// What the order of runs is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// That of their beginnings.
    Started,
    /// That of their commits' dates, then of their beginnings.
    Committed,
    /// That of a list of commits, the oldest first, then of their beginnings.
    Listed(Vec<String>),
}

/// `runs` in order, each once. Those that have no place in it are named in `left_out`.
pub(super) fn ordered(runs: Vec<Run>, order: &Order, left_out: &mut Vec<String>) -> Vec<Run> {
    let mut placed = vec![];
    for run in runs {
        match place(&run, order) {
            Ok(place) => placed.push((place, run)),
            Err(reason) => left_out.push(format!("'{}' {reason}", printable(&run.name))),
        }
    }
    placed.sort_by(|(a, first), (b, second)| a.cmp(b).then_with(|| first.name.cmp(&second.name)));
    let mut known: HashMap<_, String> = HashMap::new();
    let mut kept = vec![];
    for (_, run) in placed {
        let record = &run.record;
        let key = (record.started.clone(), record.command.clone(), record.origin.host.clone(), record.cases.len());
        if let Some(first) = known.get(&key) {
            left_out.push(format!("'{}' is the run of '{}'", printable(&run.name), printable(first)));
        } else {
            known.insert(key, run.name.clone());
            kept.push(run);
        }
    }
    kept
}

/// The place of a run: of its commit, then of its beginning.
fn place(run: &Run, order: &Order) -> Result<(i128, i128), String> {
    let time = |text: &str| text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_nanosecond).ok();
    if run.record.method.validation {
        return Err("ran under the validation layers, whose times are no kernel's".into());
    }
    let started = time(&run.record.started).ok_or("does not say when it began")?;
    let origin = &run.record.origin;
    let commit = match order {
        Order::Started => 0,
        Order::Committed => {
            let committed = origin.committed.as_deref().and_then(time);
            committed.ok_or("does not say when its commit was made")?
        }
        Order::Listed(commits) => {
            let own = origin.commit.as_deref().ok_or("does not say of which commit it is")?;
            let same = |listed: &String| own.starts_with(listed.as_str()) || listed.starts_with(own);
            let at = commits.iter().position(same);
            at.ok_or_else(|| format!("is of commit {own}, which the list of commits lacks"))? as i128
        }
    };
    Ok((commit, started))
}
