//! `run --tune`: the choice of specialization constants that was fastest at each point.

use crate::record::{Case, Record};
use crate::run::algorithm::UserKernels;
use std::fmt::Write;

/// The best choice for each device and size, as lines of a description.
pub(super) fn text(record: &Record, kernels: &UserKernels) -> String {
    let mut text = String::new();
    let median = |case: &Case| case.measured().map(|measured| measured.summary.median);
    let mut seen: Vec<&Case> = vec![];
    for case in &record.cases {
        if seen.iter().any(|other| (other.device, &other.size) == (case.device, &case.size)) {
            continue;
        }
        seen.push(case);
        let same = || record.cases.iter().filter(|other| (other.device, &other.size) == (case.device, &case.size));
        let timed = || same().filter(|case| median(case).is_some());
        let Some(best) =
            timed().min_by(|a, b| median(a).unwrap_or_default().0.total_cmp(&median(b).unwrap_or_default().0))
        else {
            continue;
        };
        let choice = kernels.choice(&best.variant).map_or_else(
            || best.variant.clone(),
            |choice| choice.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", "),
        );
        let first = timed().next().and_then(median).zip(median(best)).map(|(first, best)| first.0 / best.0);
        let first = first.map_or_else(String::new, |times| format!(", {times:.2} × as fast as the first choice"));
        let extents = best.id.rsplit('/').next().unwrap_or_default();
        let _ = writeln!(
            text,
            "\nbest: {choice} ({extents}: {}{first}, of {})",
            median(best).unwrap_or_default(),
            same().count()
        );
    }
    text
}
