//! Sentence about the fastest variant.

use super::bench::{median, row};
use crate::basis::alike::{distinct, grouped};
use crate::basis::units::in_words;
use crate::record::class::Class;
use crate::record::{AT_MOST, Case, Record};
use crate::stats::noise;
use std::collections::{BTreeSet, HashMap};

/// Minimum share of a limit that is worth mentioning.
const MIN_MENTIONED_SHARE: f64 = 0.3;

/// Maximum number of names in a list.
const MAX_NAMED: usize = 3;

/// Winners of a size: several if their times are too close to tell apart.
struct Race<'a> {
    size: String,
    winners: Vec<&'a Case>,
    /// Runner-up, and its time relative to the winner's.
    runner_up: Option<(&'a str, f64)>,
}

impl<'a> Race<'a> {
    fn names(&self) -> Vec<&'a str> {
        self.winners.iter().map(|case| case.variant.as_str()).collect()
    }
}

/// Names the fastest of `cases`, which are of one kind and device of `record`, with its lead; then the faster cases
/// with caveats. `None` without competition, and for chains, whose sizes are numbers of operations.
pub fn sentence(record: &Record, cases: &[&Case]) -> Option<String> {
    let timed: Vec<&Case> = cases.iter().copied().filter(|case| median(case).is_some()).collect();
    let exact: Vec<&Case> = timed.iter().copied().filter(|case| Class::of(case).is_exact()).collect();
    let classes = distinct(timed.iter().map(|case| Class::of(case)));
    let competing = if exact.is_empty() && classes.len() == 1 { &timed } else { &exact };
    if competing.iter().any(|case| case.chain.is_some()) {
        return None;
    }
    let sizes = grouped(competing.iter().copied(), |case| row(case));
    let races: Vec<_> = sizes.into_iter().filter_map(|cases| race(record, cases)).collect();
    let others: Vec<&Case> = timed.iter().copied().filter(|case| !Class::of(case).is_exact()).collect();
    let faster = if exact.is_empty() { None } else { faster_with_caveats(&races, &others) };
    Some([Some(describe_races(&races)?), faster].into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// Lists the variants with caveats that are faster than the winners, and where.
fn faster_with_caveats(races: &[Race<'_>], others: &[&Case]) -> Option<String> {
    let sizes: Vec<&str> = races.iter().map(|race| race.size.as_str()).collect();
    let places: HashMap<&str, usize> = sizes.iter().copied().zip(0..).collect();
    let beaten = |other: &&Case| {
        let place = *places.get(row(other).as_str())?;
        let times = median(other).zip(races[place].winners.first().and_then(|winner| median(winner)));
        times.is_some_and(|(other, winner)| other.0 < winner.0).then_some(place)
    };
    let mut faster: Vec<(String, Vec<&str>)> = vec![];
    for cases in grouped(others.iter().copied(), |case| case.variant.as_str()) {
        let places: BTreeSet<usize> = cases.iter().filter_map(beaten).collect();
        if !places.is_empty() {
            let sizes = places.into_iter().map(|place| sizes[place]).collect();
            faster.push((cases[0].variant.clone(), sizes));
        }
    }
    faster.sort_by_key(|(_, sizes)| std::cmp::Reverse(sizes.len()));
    let part = |(name, of): &(String, Vec<&str>)| match of.len() {
        all if all == sizes.len() && all > 1 => format!("{name} at every size"),
        _ if sizes.len() == 1 => name.clone(),
        _ => format!("{name} at {}", size_span(of, &sizes)),
    };
    let named: Vec<_> = faster.iter().take(MAX_NAMED).map(part).collect();
    let more = faster.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("faster with a caveat: {}{more}", named.join(", ")))
}

/// Finds the winners of a size; `None` without competition.
fn race<'a>(record: &Record, mut cases: Vec<&'a Case>) -> Option<Race<'a>> {
    let size = row(cases.first()?);
    let time = |case: &Case| median(case).map_or(f64::INFINITY, |time| time.0);
    cases.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let (best, _) = cases.split_first().filter(|(_, others)| !others.is_empty())?;
    let (winners, others) = cases.split_at(cases.iter().take_while(|case| too_close(record, best, case)).count());
    let runner_up = others.first().map(|next| (next.variant.as_str(), time(next) / time(best)));
    Some(Race { size, winners: winners.to_vec(), runner_up })
}

/// Whether two cases are too close to order: their intervals overlap, or other processes might order them differently.
fn too_close(record: &Record, best: &Case, other: &Case) -> bool {
    let several = record.processes.iter().any(|process| process.order.is_some());
    let on_host = record.device(best.device).is_some_and(|device| device.kind.runs_on_host_cores());
    let spread = if several { 0.0 } else { noise::assumed(on_host) };
    let ends = |case: &Case| case.measured().and_then(|measured| measured.summary.interval);
    let overlap = ends(best).zip(ends(other)).is_some_and(|([_, high], [low, _])| low.0 <= high.0);
    let times = median(best).zip(median(other));
    overlap || times.is_none_or(|(best, other)| other.0 <= best.0 * (1.0 + spread))
}

fn describe_races(races: &[Race<'_>]) -> Option<String> {
    match races {
        [] => None,
        [only] => Some(match (&only.names()[..], only.runner_up) {
            ([winner], next) => format!("{winner} is fastest{}{}", lead_text(next), share_reached(&only.winners, &[])),
            (several, _) => format!("{} are too close to tell which is fastest", list(several)),
        }),
        _ => {
            let clear = races.iter().filter_map(|race| match race.names()[..] {
                [winner] => Some((winner, race.size.as_str())),
                _ => None,
            });
            let won = grouped(clear, |(winner, _)| *winner).into_iter();
            let mut won: Vec<(&str, Vec<&str>)> =
                won.map(|won| (won[0].0, won.into_iter().map(|(_, size)| size).collect())).collect();
            let sizes: Vec<&str> = races.iter().map(|race| race.size.as_str()).collect();
            if let [(winner, of)] = &won[..]
                && of.len() == sizes.len()
            {
                let winners: Vec<_> = races.iter().flat_map(|race| race.winners.iter().copied()).collect();
                return Some(format!("{winner} is fastest at every size{}", share_reached(&winners, &sizes)));
            }
            won.sort_by_key(|(_, of)| std::cmp::Reverse(of.len()));
            let part = |(winner, of): &(&str, Vec<&str>)| format!("{winner} at {}", size_span(of, &sizes));
            let (named, rest) = won.split_at(won.len().min(MAX_NAMED));
            let mut parts: Vec<_> = named.iter().map(part).collect();
            let rest: usize = rest.iter().map(|(_, of)| of.len()).sum();
            if rest > 0 {
                parts.push(format!("others at {rest} more"));
            }
            let fastest = (!parts.is_empty()).then(|| format!("the fastest is {}", parts.join(", ")));
            let close: Vec<_> = races.iter().filter(|race| race.winners.len() > 1).collect();
            let of: Vec<&str> = close.iter().map(|race| race.size.as_str()).collect();
            let tied = (!close.is_empty()).then(|| {
                let names = distinct(close.iter().flat_map(|race| race.names()));
                format!("{} are too close to tell at {}", list(&names), size_span(&of, &sizes))
            });
            Some(fastest.into_iter().chain(tied).collect::<Vec<_>>().join("; "))
        }
    }
}

/// Describes the lead of the winner over the runner-up.
fn lead_text(runner_up: Option<(&str, f64)>) -> String {
    let Some((next, lead)) = runner_up else { return String::new() };
    let text = match lead {
        ..1.995 => format!("{lead:.2}"),
        ..9.95 => format!("{lead:.1}"),
        _ => format!("{lead:.0}"),
    };
    format!(", {text} times as fast as {next}")
}

/// Describes the largest share of the hardware limit that these cases reach; empty if it is small, or only an upper
/// bound is known.
fn share_reached(cases: &[&Case], sizes: &[&str]) -> String {
    let known = cases.iter().filter_map(|case| Some((case, case.share?)));
    let known = known.filter(|(_, share)| {
        (MIN_MENTIONED_SHARE..=1.0).contains(&share.fraction) && !share.told(|_| String::new()).starts_with(AT_MOST)
    });
    let best = known.max_by(|(_, a), (_, b)| a.fraction.total_cmp(&b.fraction));
    best.map_or_else(String::new, |(case, share)| {
        let at = if sizes.is_empty() { String::new() } else { format!(" at {}", row(case)) };
        format!(", and reaches {:.0} % of the hardware limit{at}", 100.0 * share.fraction)
    })
}

/// Describes sizes: `512`, `256 and 512`, or `256 to 4096` if they are consecutive.
fn size_span(of: &[&str], all: &[&str]) -> String {
    let from = all.iter().position(|size| of.first() == Some(size)).unwrap_or(0);
    let follow = all[from..].starts_with(of);
    match of {
        [first, _, .., last] if follow => format!("{first} to {last}"),
        few if few.len() <= MAX_NAMED => list(few),
        many => format!("{} of {} sizes", many.len(), all.len()),
    }
}

/// Joins names: `a`, `a and b`, `a, b and c`, `a, b and 3 more`.
fn list(names: &[&str]) -> String {
    if names.len() <= MAX_NAMED {
        return in_words(names, "and");
    }
    let (named, rest) = names.split_at(MAX_NAMED - 1);
    format!("{} and {} more", named.join(", "), rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Nanos;
    use crate::record::Outcome;
    use crate::record::fixture::four_cases;

    /// Returns the sentence about a record with a case for each of these sizes, variants and times.
    fn sentence_on(times: &[(u64, &str, f64)]) -> Option<String> {
        let mut record = four_cases();
        let measured = record.cases.iter().find(|case| case.measured().is_some()).expect("a time").clone();
        let case = |&(size, variant, time): &(u64, &str, f64)| {
            let mut case = measured.clone();
            case.variant = variant.into();
            case.size = crate::basis::size::Size::Uniform(size).into();
            let Outcome::Measured(measured) = &mut case.outcome else { panic!("it is measured") };
            (measured.summary.median, measured.summary.interval) = (Nanos(time), Some([Nanos(time); 2]));
            case
        };
        record.cases = times.iter().map(case).collect();
        sentence(&record, &record.cases.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_winner_is_named_with_its_lead_and_what_is_too_close_is_said() {
        assert_eq!(sentence_on(&[(64, "naive", 250e3)]), None, "nothing competes");
        let of = |times: &[(u64, &str, f64)]| sentence_on(times).expect("a sentence");
        assert_eq!(of(&[(64, "naive", 250e3), (64, "local", 100e3)]), "local is fastest, 2.5 times as fast as naive");
        let close = [(64, "naive", 100.5e3), (64, "local", 100e3), (64, "tiled", 200e3)];
        assert_eq!(of(&close), "local and naive are too close to tell which is fastest");
    }

    #[test]
    fn several_sizes_share_a_sentence() {
        let of = |winners: &[&str]| {
            let times = |(at, winner): (usize, &&str)| {
                let time = |name: &'static str| (64 << at, name, if name == *winner { 100e3 } else { 200e3 });
                ["naive", "local", "tiled", "texel"].map(time)
            };
            sentence_on(&winners.iter().enumerate().flat_map(times).collect::<Vec<_>>()).expect("a sentence")
        };
        assert_eq!(of(&["tiled"; 3]), "tiled is fastest at every size");
        assert_eq!(of(&["local", "tiled", "tiled", "tiled"]), "the fastest is tiled at 128 to 512, local at 64");
        assert_eq!(of(&["tiled", "local", "tiled"]), "the fastest is tiled at 64 and 256, local at 128");
        let none = "naive, local and 2 more are too close to tell at 128";
        assert_eq!(of(&["tiled", "none", "tiled"]), format!("the fastest is tiled at 64 and 256; {none}"));
    }
}
