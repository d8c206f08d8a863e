//! Sentence about the fastest variant.

use super::and_more;
use super::bench::{median, row, sections};
use super::grid::percent;
use crate::basis::alike::{distinct, grouped};
use crate::basis::error::unknown;
use crate::basis::random::generator;
use crate::basis::units::{Nanos, in_words, range_text};
use crate::record::class::Class;
use crate::record::marks::{RunConditions, UNCERTAIN};
use crate::record::{Case, Record};
use crate::stats::{bootstrap, noise};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

/// Smallest lead that is worth a winner.
const MIN_LEAD: f64 = 0.02;

/// Fewest turns whose ratios say anything.
const MIN_TURNS: usize = 5;

/// Maximum number of names in a list.
const MAX_NAMED: usize = 3;

/// Winners of a size: several if their times are too close to tell apart.
struct SizeWinners<'a> {
    size: String,
    winners: Vec<&'a Case>,
    /// Runner-up, and its time relative to the winner's.
    runner_up: Option<(&'a Case, TimeRatio)>,
    /// Why several are winners though their intervals are apart, as [`within_spread`] says; empty otherwise.
    within: String,
}

impl<'a> SizeWinners<'a> {
    fn names(&self) -> Vec<&'a str> {
        self.winners.iter().map(|case| case.variant.as_str()).collect()
    }
}

/// Names the fastest of `cases`, which are of one kind and device of `record`, with its lead; then the faster cases
/// with caveats. `None` without competition, and for chains, whose sizes are numbers of operations.
pub fn sentence(record: &Record, cases: &[&Case]) -> Option<String> {
    let timed: Vec<&Case> = cases.iter().copied().filter(|case| median(case).is_some()).collect();
    let (exact, others): (Vec<&Case>, Vec<&Case>) = timed.iter().partition(|case| Class::of(case).is_exact());
    let has_one_class = distinct(timed.iter().map(|case| Class::of(case))).len() == 1;
    let competing = if exact.is_empty() && has_one_class { &timed } else { &exact };
    if competing.iter().any(|case| case.chain.is_some()) {
        return None;
    }
    let sizes = grouped(competing.iter().copied(), |case| row(case));
    // A size of which no variant has a time is one that the fastest does not win.
    let all_sizes = distinct(cases.iter().map(|case| row(case))).len();
    let races: Vec<_> = sizes.into_iter().filter_map(|cases| find_winners(record, cases)).collect();
    let Some(mut sentence) = describe_races(&races, all_sizes, &RunConditions::of(record)) else {
        return only_exact_variant(record, &exact, &others);
    };
    if !exact.is_empty()
        && let Some(faster) = faster_with_caveats(record, &races, &others)
    {
        sentence = format!("{sentence}; {faster}");
    }
    Some(sentence)
}

/// Names the variant of all `exact` cases if some of `others`, which have caveats, are faster.
fn only_exact_variant<'c>(record: &Record, exact: &[&'c Case], others: &[&Case]) -> Option<String> {
    let [variant] = distinct(exact.iter().map(|case| case.variant.as_str()))[..] else { return None };
    let race =
        |case: &&'c Case| SizeWinners { size: row(case), winners: vec![*case], runner_up: None, within: String::new() };
    let races: Vec<_> = exact.iter().map(race).collect();
    Some(format!("{variant} is the only variant without a caveat; {}", faster_with_caveats(record, &races, others)?))
}

/// Lists the variants with caveats that are faster than the winners, and where; if none is clearly, those that may be.
fn faster_with_caveats(record: &Record, races: &[SizeWinners<'_>], others: &[&Case]) -> Option<String> {
    let clearly = list_faster(record, races, others, true).map(|list| format!("faster with a caveat: {list}"));
    clearly.or_else(|| Some(format!("perhaps faster, with a caveat: {}", list_faster(record, races, others, false)?)))
}

/// Lists the `others` that are faster than the winners, or only have a shorter median, and where.
fn list_faster(record: &Record, races: &[SizeWinners<'_>], others: &[&Case], clearly: bool) -> Option<String> {
    let sizes: Vec<&str> = races.iter().map(|race| race.size.as_str()).collect();
    let races_by_size: HashMap<&str, usize> = sizes.iter().copied().zip(0..).collect();
    let race_beaten_by = |case: &&Case| {
        let index = *races_by_size.get(row(case).as_str())?;
        let winner = *races[index].winners.first()?;
        (median(case)?.0 < median(winner)?.0 && !(clearly && is_too_close(record, case, winner))).then_some(index)
    };
    let mut faster: Vec<(&str, Vec<&str>)> = vec![];
    for cases in grouped(others.iter().copied(), |case| case.variant.as_str()) {
        let beaten: BTreeSet<usize> = cases.iter().filter_map(race_beaten_by).collect();
        if !beaten.is_empty() {
            faster.push((&cases[0].variant, beaten.into_iter().map(|index| sizes[index]).collect()));
        }
    }
    faster.sort_by_key(|(_, sizes)| std::cmp::Reverse(sizes.len()));
    let mut parts = vec![];
    for group in grouped(faster.iter().take(MAX_NAMED), |(_, beaten)| beaten.clone()) {
        let names = in_words(&group.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "and");
        let beaten = &group[0].1;
        parts.push(match beaten.len() {
            count if count == sizes.len() && count > 1 => format!("{names} at every size"),
            _ if sizes.len() == 1 => names,
            _ => format!("{names} at {}", size_span(beaten, &sizes)),
        });
    }
    let more = and_more(faster.len().saturating_sub(MAX_NAMED));
    (!parts.is_empty()).then(|| format!("{}{more}", parts.join("; ")))
}

/// Names the fastest of `cases`, which are of one problem on one device of `record`: several if they are too close to tell.
/// Only variants of this class compete. `None` without competition.
pub fn winners<'a>(record: &Record, cases: &[&'a Case], class: &Class) -> Option<Vec<&'a str>> {
    let competes = |case: &&&Case| median(case).is_some() && Class::of(case) == *class;
    find_winners(record, cases.iter().filter(competes).copied().collect()).map(|race| race.names())
}

/// Returns the time of each case of `record` relative to that of the fastest of its size without a caveat, by the address of
/// the case. Cases without competition have none, nor have chains, whose sizes are numbers of operations.
pub fn ratios_to_fastest(record: &Record) -> HashMap<*const Case, TimeRatio> {
    let mut ratios = HashMap::new();
    for section in sections(record) {
        let timed = section.cases.into_iter().filter(|case| case.chain.is_none() && median(case).is_some());
        for cases in grouped(timed, |case| row(case)) {
            let exact: Vec<_> = cases.iter().copied().filter(|case| Class::of(case).is_exact()).collect();
            let Some(best) = best_of(&exact).filter(|_| cases.len() > 1) else { continue };
            let others = cases.iter().filter_map(|case| Some((std::ptr::from_ref(*case), TimeRatio::of(best, case)?)));
            ratios.extend(others);
        }
    }
    ratios
}

/// Most steps from the shortest median to the case that takes the least time in most processes.
const MAX_STEPS: usize = 8;

/// Compares cases by their medians; those without one come last.
pub(super) fn by_time(a: &Case, b: &Case) -> Ordering {
    let [a, b] = [a, b].map(|case| median(case).map_or(f64::INFINITY, |time| time.0));
    a.total_cmp(&b)
}

/// Returns the case with the shortest median, unless another took less time in most of the processes in which both took turns.
pub fn best_of<'a>(cases: &[&'a Case]) -> Option<&'a Case> {
    let mut best = *cases.iter().min_by(|a, b| by_time(a, b))?;
    // A step may lead to a case that loses to a third.
    for _ in 0..MAX_STEPS {
        let ratio = |other: &Case| {
            let ratios = paired_ratios(best, other).filter(|ratios| ratios.len() >= bootstrap::MIN_RUNS_FOR_SPREAD)?;
            crate::stats::median(&ratios)
        };
        let Some(faster) = cases.iter().find(|other| ratio(other).is_some_and(|ratio| ratio < 1.0)) else { break };
        best = faster;
    }
    Some(best)
}

/// Sets the speed-up of each case over the variant `over`: its time at the same size on the same device ÷ that of the case.
/// Fails if the record has no time of this variant.
pub fn set_speedups(record: &mut Record, over: &str) -> Result<(), String> {
    let mut ratios = HashMap::new();
    for section in sections(record) {
        for cases in grouped(section.cases, |case| row(case)) {
            let Some(baseline) = cases.iter().find(|case| case.variant == over) else { continue };
            ratios.extend(
                cases.iter().filter_map(|case| Some((std::ptr::from_ref(*case), TimeRatio::of(case, baseline)?))),
            );
        }
    }
    if ratios.is_empty() {
        let timed = record.cases.iter().filter(|case| median(case).is_some());
        let names = distinct(timed.map(|case| case.variant.as_str()));
        if names.is_empty() {
            return Err(format!("there is no speed-up over '{over}', as no case has a time"));
        }
        return Err(unknown("variant", over, "", &names));
    }
    let speedups: Vec<_> = record.cases.iter().map(|case| ratios.remove(&std::ptr::from_ref(case))).collect();
    for (case, speedup) in record.cases.iter_mut().zip(speedups) {
        case.speedup_interval = speedup.as_ref().and_then(|ratio| ratio.interval);
        case.speedup = speedup.map(|ratio| ratio.ratio);
    }
    Ok(())
}

/// Finds the winners of a size; `None` without competition.
fn find_winners<'a>(record: &Record, mut cases: Vec<&'a Case>) -> Option<SizeWinners<'a>> {
    let size = row(cases.first()?);
    cases.sort_by(|a, b| by_time(a, b));
    let best = best_of(&cases).filter(|_| cases.len() > 1)?;
    // A scattered time may be too close to tell although a shorter, steadier one is not.
    let is_tied = |case: &&Case| std::ptr::eq(*case, best) || is_too_close(record, best, case);
    let (winners, others): (Vec<&Case>, Vec<&Case>) = cases.into_iter().partition(is_tied);
    let runner_up = others.first().and_then(|next| Some((*next, TimeRatio::of(best, next)?)));
    let within = winners.iter().filter(|case| !std::ptr::eq(**case, best));
    let within: Option<Vec<_>> = within.map(|case| within_spread(record, best, case)).collect();
    let within = within.and_then(|reasons| reasons.into_iter().next()).unwrap_or_default();
    Some(SizeWinners { size, winners, runner_up, within })
}

/// Time of a case relative to that of the fastest.
pub struct TimeRatio {
    /// Median of the ratios in each of several processes, where both took turns; of fewer than three processes, the ratio
    /// of the medians.
    pub ratio: f64,
    /// 95 % interval of the ratio, from three processes on.
    pub interval: Option<[f64; 2]>,
}

impl TimeRatio {
    /// Divides the time of `other` by that of `best`; `None` if one has no time.
    pub fn of(best: &Case, other: &Case) -> Option<Self> {
        let ratios = paired_ratios(best, other).unwrap_or_default();
        let interval = noise::interval(&ratios);
        let paired = interval.and_then(|_| crate::stats::median(&ratios));
        Some(Self { ratio: paired.unwrap_or(median(other)?.0 / median(best)?.0), interval })
    }
}

/// Whether two cases are too close to order: their intervals overlap, or other processes might order them differently. In
/// each of several processes they took turns, so their ratios are compared, not medians that a busy process moved alike.
pub fn is_too_close(record: &Record, best: &Case, other: &Case) -> bool {
    if let Some(is_close) = paired_ratios(best, other).and_then(|ratios| processes_are_close(&ratios)) {
        return is_close;
    }
    let on_host = is_on_host(record, best);
    let spread = assumed_spread(record, best, other);
    let interval = |case: &Case| {
        let summary = &case.measured()?.summary;
        // Too few samples have no interval; on the host's processors, one busy moment may have doubled all of them.
        let factor = if on_host { 2.0 } else { 1.0 };
        Some(summary.interval.unwrap_or([Nanos(summary.min.0 / factor), Nanos(summary.max.0 * factor)]))
    };
    // On the host's processors, the device may have been slower during one of them, as the canary says.
    let slower = canary(other).zip(canary(best)).map_or(1.0, |(other, best)| (other / best).max(1.0));
    let spread = if on_host { (1.0 + spread) * slower - 1.0 } else { spread };
    let overlap = interval(best).zip(interval(other)).is_some_and(|([_, high], [low, _])| low.0 <= high.0);
    let times = median(best).zip(median(other));
    overlap || changed_places(best, other) || times.is_none_or(|(best, other)| other.0 <= best.0 * (1.0 + spread))
}

/// Says that two cases which are too close to order differ by less than other processes may, or ran at other speeds of the device,
/// and how to tell; `None` if one process leaves it open, too.
pub fn within_spread(record: &Record, best: &Case, other: &Case) -> Option<String> {
    let intervals = [best, other].map(|case| case.measured().and_then(|measured| measured.summary.interval));
    let [Some([_, high]), Some([low, _])] = intervals else { return None };
    let spread = assumed_spread(record, best, other);
    if spread == 0.0 || low.0 <= high.0 || changed_places(best, other) {
        return None;
    }
    if median(other)?.0 > median(best)?.0 * (1.0 + spread) {
        return Some(format!(": the device was slower while {} ran; try --processes 5", other.variant));
    }
    let spread = percent(spread);
    Some(format!(": they differ by less than {spread}, as two processes of one kernel may; try --processes 5"))
}

/// Whether two variants are too close to order by the geometric means of their times: `best` and `other` have a case each
/// for the same sizes.
pub fn are_too_close_in_the_mean(record: &Record, best: &[&Case], other: &[&Case]) -> bool {
    let pairs = || best.iter().copied().zip(other.iter().copied());
    let count = best.len() as f64;
    let paired: Option<Vec<Vec<f64>>> = pairs().map(|(best, other)| paired_ratios(best, other)).collect();
    if let Some(ratios) = paired
        && let Some(processes) = ratios.iter().map(Vec::len).min()
    {
        let mean = |process: usize| (ratios.iter().map(|ratios| ratios[process].ln()).sum::<f64>() / count).exp();
        if let Some(is_close) = processes_are_close(&(0..processes).map(mean).collect::<Vec<_>>()) {
            return is_close;
        }
    }
    // A device that was slower during one of them orders neither a single size nor the mean.
    if pairs().all(|(best, other)| is_too_close(record, best, other)) {
        return true;
    }
    // The errors of the medians are independent; another process may change all sizes alike.
    let (mut lead, mut squares) = (0.0, 0.0);
    for (best, other) in pairs() {
        let [a, b] = [best, other].map(|case| Some((median(case)?.0, case.measured()?.summary.relative_error()?)));
        let Some(((best, best_error), (other, other_error))) = a.zip(b) else { return true };
        lead += (other / best).ln() / count;
        squares += (best_error.powi(2) + other_error.powi(2)) / count.powi(2);
    }
    let spread = pairs().map(|(best, other)| assumed_spread(record, best, other)).fold(0.0, f64::max);
    lead <= squares.sqrt() + spread.ln_1p()
}

/// Whether the ratios of two times, one for each process, do not tell which is shorter; `None` for too few processes.
fn processes_are_close(ratios: &[f64]) -> Option<bool> {
    let [low, _] = noise::interval(ratios)?;
    // As `compare`: a difference below this does not matter, and of many sizes some differ by chance.
    Some(low <= 1.0 || crate::stats::median(ratios).is_none_or(|ratio| ratio < 1.0 + MIN_LEAD))
}

fn is_on_host(record: &Record, case: &Case) -> bool {
    record.device(case.device).is_some_and(|device| device.kind.runs_on_host_cores())
}

/// Returns the relative difference that other processes may make to the times of two cases, if one of them has only one.
fn assumed_spread(record: &Record, best: &Case, other: &Case) -> f64 {
    let has_several = |case: &Case| case.measured().is_some_and(|m| m.processes() > 1);
    if has_several(best) && has_several(other) { 0.0 } else { noise::assumed(is_on_host(record, best)) }
}

/// Returns the time of the canary, a kernel that never changes, beside a case.
fn canary(case: &Case) -> Option<f64> {
    case.measured()?.conditions.canary().map(|time| time.0)
}

/// Whether the ratios of two cases that took turns in a process do not tell which is faster.
fn changed_places(best: &Case, other: &Case) -> bool {
    let times = |case: &Case| -> Vec<f64> {
        case.measured().map_or_else(Vec::new, |m| m.samples.iter().map(|sample| sample.time.0).collect())
    };
    let ratios = bootstrap::ratios_of_turns(&times(best), &times(other));
    let ratio = if ratios.len() < MIN_TURNS { None } else { bootstrap::paired(&ratios, &mut generator(1, 0)) };
    ratio.is_some_and(|ratio| ratio.interval[0] <= 1.0)
}

/// Returns the ratio of two cases in each of the processes that measured both.
fn paired_ratios(best: &Case, other: &Case) -> Option<Vec<f64>> {
    let [best, other] = [&best.measured()?.process_medians, &other.measured()?.process_medians];
    if best.len() != other.len() || best.iter().any(|median| median.0 <= 0.0) {
        return None;
    }
    Some(best.iter().zip(other).map(|(best, other)| other.0 / best.0).collect())
}

/// Describes the winners at those of `all_sizes` sizes where several variants have a time.
fn describe_races(races: &[SizeWinners<'_>], all_sizes: usize, conditions: &RunConditions) -> Option<String> {
    match races {
        [] => None,
        [_] if all_sizes > 1 => Some(describe_several_races(races, true, conditions)),
        [race] => Some(match &race.names()[..] {
            [winner] => {
                format!("{winner} is fastest{}", lead_text(race, conditions))
            }
            tied => format!("{} {} apart{}", list(tied), why_tied(&race.winners), race.within),
        }),
        _ => Some(describe_several_races(races, races.len() < all_sizes, conditions)),
    }
}

/// Describes which variant is the fastest at which sizes; `some_alone` says that there are sizes without rivals.
fn describe_several_races(races: &[SizeWinners<'_>], some_alone: bool, conditions: &RunConditions) -> String {
    let sizes: Vec<&str> = races.iter().map(|race| race.size.as_str()).collect();
    let (clear, tied): (Vec<_>, Vec<_>) = races.iter().partition(|race| race.winners.len() == 1);
    let mut wins = grouped(clear, |race| race.winners[0].variant.as_str());
    if let [races_won] = &wins[..]
        && races_won.len() == races.len()
    {
        let winner = &races[0].winners[0].variant;
        let lead = leads_text(races, conditions);
        let sizes = match &sizes[..] {
            [only] => only,
            _ if some_alone => "every size that several solve",
            _ => "every size",
        };
        return format!("{winner} is fastest at {sizes}{lead}");
    }
    wins.sort_by_key(|races_won| std::cmp::Reverse(races_won.len()));
    let span = |races: &[&SizeWinners<'_>]| {
        size_span(&races.iter().map(|race| race.size.as_str()).collect::<Vec<_>>(), &sizes)
    };
    let (named, others) = wins.split_at(wins.len().min(MAX_NAMED));
    let mut winners = vec![];
    for races_won in named {
        winners.push(format!("{} at {}", races_won[0].winners[0].variant, span(races_won)));
    }
    if !others.is_empty() {
        winners.push(format!("others at {} more", others.iter().map(Vec::len).sum::<usize>()));
    }
    let mut parts = vec![];
    if !winners.is_empty() {
        parts.push(format!("the fastest is {}", winners.join(", ")));
    }
    let sorted_names = |race: &&SizeWinners<'_>| {
        let mut names = race.names();
        names.sort_unstable();
        (names.join(" "), why_tied(&race.winners), race.within.clone())
    };
    for tied in grouped(tied, sorted_names) {
        let why = why_tied(&tied[0].winners);
        parts.push(format!("{} {why} apart at {}{}", list(&tied[0].names()), span(&tied), tied[0].within));
    }
    parts.join("; ")
}

/// Ratio of the medians of variants that are close together.
const MAX_CLOSE: f64 = 1.5;

/// Says why nobody can tell which of `tied` is fastest.
fn why_tied(tied: &[&Case]) -> &'static str {
    let has_interval = |case: &&Case| case.measured().is_some_and(|measured| measured.summary.interval.is_some());
    let medians = tied.iter().filter_map(|case| Some(case.measured()?.summary.median.0));
    let [shortest, longest] = [f64::min, f64::max].map(|end| medians.clone().reduce(end).unwrap_or(0.0));
    if !tied.iter().all(has_interval) {
        "have too few samples or processes to tell"
    } else if longest > MAX_CLOSE * shortest {
        "have too uncertain times to tell"
    } else {
        "are too close to tell"
    }
}

/// Describes the lead of the winner over the runner-up.
fn lead_text(race: &SizeWinners<'_>, conditions: &RunConditions) -> String {
    let Some((Case { variant, .. }, lead)) = &race.runner_up else { return String::new() };
    if is_unknown(race) {
        return String::new();
    }
    // The intervals of the two times may overlap: what slowed a process down hit both.
    let ends = lead.interval.map(|ends| ends.map(ratio_text)).filter(|[low, high]| low != high);
    let interval = ends.map_or_else(String::new, |[low, high]| format!(" (95 % interval {low} … {high})"));
    let about = qualifier(std::slice::from_ref(race), conditions);
    format!(", {about}{} times as fast as {variant}{interval}", ratio_text(lead.ratio))
}

/// Whether a time of a race is known so little that its lead would be invented.
fn is_unknown(race: &SizeWinners<'_>) -> bool {
    let runner_up = race.runner_up.as_ref().map(|(next, _)| *next);
    let error = |case: &Case| case.measured().and_then(|measured| measured.summary.relative_error()).unwrap_or(0.0);
    let has_pairs = race.runner_up.as_ref().is_some_and(|(_, lead)| lead.interval.is_some());
    !has_pairs && race.winners.iter().copied().chain(runner_up).any(|case| error(case) > MAX_LEAD_ERROR)
}

/// Largest ± of a time from which a lead is stated.
const MAX_LEAD_ERROR: f64 = 0.5;

/// Qualifies the leads of `races`.
fn qualifier(races: &[SizeWinners<'_>], conditions: &RunConditions) -> &'static str {
    let runners_up = races.iter().filter_map(|race| race.runner_up.as_ref()).map(|(next, _)| *next);
    about(races.iter().flat_map(|race| race.winners.iter().copied()).chain(runners_up), conditions)
}

/// Qualifies a ratio of times that are marked as disturbed or far less certain than others, or that are of one process on a
/// software device, where those of another may differ by much more than their intervals say.
pub fn about<'c>(mut cases: impl Iterator<Item = &'c Case>, conditions: &RunConditions) -> &'static str {
    let has_doubts = |case: &Case| is_doubtful(case, conditions) || conditions.may_be_of_a_moment(case.device);
    if cases.any(has_doubts) { "about " } else { "" }
}

/// Whether a time is marked as disturbed or far less certain than others.
pub fn is_doubtful(case: &Case, conditions: &RunConditions) -> bool {
    conditions.marks(case).iter().any(|mark| [UNCERTAIN, "d"].contains(&&*mark.sign))
}

/// Describes the leads of the winner of every size over the runner-up: `, 1.30 to 2.5 times as fast as the next`.
fn leads_text(races: &[SizeWinners<'_>], conditions: &RunConditions) -> String {
    if races.iter().any(is_unknown) {
        return String::new();
    }
    let mut leads: Vec<f64> = races.iter().filter_map(|race| Some(race.runner_up.as_ref()?.1.ratio)).collect();
    leads.sort_by(f64::total_cmp);
    let [Some(least), Some(most)] = [leads.first(), leads.last()].map(|lead| lead.copied().map(ratio_text)) else {
        return String::new();
    };
    let by_size = if least == most { "" } else { " (by size)" };
    format!(", {}{} times as fast as the next{by_size}", qualifier(races, conditions), range_text(&least, &most))
}

/// Formats the ratio of two times for readers who compare it with 1.
pub fn ratio_text(ratio: f64) -> String {
    match ratio {
        ..1.995 => format!("{ratio:.2}"),
        ..9.95 => format!("{ratio:.1}"),
        _ => format!("{ratio:.0}"),
    }
}

/// Describes sizes: `512`, `256 and 512`, or `256 to 4096` if they are consecutive.
fn size_span(sizes: &[&str], all: &[&str]) -> String {
    let start = all.iter().position(|size| sizes.first() == Some(size)).unwrap_or(0);
    // Sizes of several extents have no order.
    let is_ordered = all.iter().all(|size| size.parse::<u64>().is_ok());
    match sizes {
        [first, _, .., last] if is_ordered && all[start..].starts_with(sizes) => format!("{first} to {last}"),
        few if few.len() <= MAX_NAMED => list(few),
        many => format!("{} of {} sizes", many.len(), all.len()),
    }
}

/// Joins names: `a`, `a and b`, `a, b and c`, `a, b and 3 more`.
pub(super) fn list(names: &[&str]) -> String {
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
    use crate::case::Shortcut;
    use crate::device::capability::DeviceKind;
    use crate::record::Process;
    use crate::record::fixture::{four_cases, measured_mut};

    /// Sets the median of a measured case, of which it is certain.
    fn set_median(case: &mut Case, median: Nanos) {
        let summary = &mut measured_mut(case).summary;
        (summary.median, summary.interval) = (median, Some([median; 2]));
    }

    fn sentence_of(record: &Record) -> Option<String> {
        sentence(record, &record.cases.iter().collect::<Vec<_>>())
    }

    /// Returns the sentence about a record with a case for each of these sizes, variants and times.
    fn sentence_on(times: &[(u64, &str, f64)]) -> Option<String> {
        let mut record = four_cases();
        let measured = record.cases.iter().find(|case| case.measured().is_some()).expect("a time").clone();
        let case = |&(size, variant, time): &(u64, &str, f64)| {
            let mut case = measured.clone();
            case.variant = variant.into();
            case.size = crate::basis::size::Size::Uniform(size).into();
            set_median(&mut case, Nanos(time));
            measured_mut(&mut case).samples.iter_mut().for_each(|sample| sample.time = Nanos(time));
            case
        };
        record.cases = times.iter().map(case).collect();
        sentence_of(&record)
    }

    #[test]
    fn the_winner_is_named_with_its_lead_and_what_is_too_close_is_said() {
        assert_eq!(sentence_on(&[(64, "naive", 250e3)]), None, "nothing competes");
        let of = |times: &[(u64, &str, f64)]| sentence_on(times).expect("a sentence");
        assert_eq!(
            of(&[(64, "naive", 250e3), (64, "local", 100e3)]),
            "local is fastest, about 2.5 times as fast as naive"
        );
        let close = [(64, "naive", 100.5e3), (64, "local", 100e3), (64, "tiled", 200e3)];
        let within = ": they differ by less than 20 %, as two processes of one kernel may; try --processes 5";
        assert_eq!(of(&close), format!("local and naive are too close to tell apart{within}"));
    }

    #[test]
    fn a_device_of_two_speeds_names_no_winner() {
        let mut record = four_cases();
        record.cases.retain(|case| case.measured().is_some());
        record.cases.truncate(1);
        record.cases.push(Case { variant: "other".into(), ..record.cases[0].clone() });
        let slow = |record: &mut Record, case: usize, is_slow: &dyn Fn(usize) -> bool, median: f64| {
            set_median(&mut record.cases[case], Nanos(median));
            let measured = measured_mut(&mut record.cases[case]);
            let sample = measured.samples[0];
            let time = |at| Nanos(if is_slow(at) { 180e3 } else { 100e3 });
            measured.samples = (0..40).map(|at| crate::record::Sample { time: time(at), ..sample }).collect();
        };
        // Equal kernels, of which one spent a little more than half of its samples at the lower speed.
        slow(&mut record, 0, &|at| at < 19, 100e3);
        slow(&mut record, 1, &|at| at > 18, 180e3);
        let cases: Vec<_> = record.cases.iter().collect();
        assert!(is_too_close(&record, cases[0], cases[1]));
        slow(&mut record, 0, &|_| false, 100e3);
        slow(&mut record, 1, &|_| true, 180e3);
        let cases: Vec<_> = record.cases.iter().collect();
        assert!(!is_too_close(&record, cases[0], cases[1]));
    }

    #[test]
    fn a_case_that_an_interrupted_run_measured_once_leads_by_what_another_process_may_change() {
        let mut record = four_cases();
        let ahead = record.cases[0].clone();
        let close = |record: &Record, counts: [usize; 2]| {
            let times = [1.0, 1.0 + 0.5 * noise::assumed(is_on_host(record, &ahead))];
            let [best, other] = [0, 1].map(|at| {
                let mut case = ahead.clone();
                let time = Nanos(times[at] * 1e6);
                set_median(&mut case, time);
                let measured = measured_mut(&mut case);
                measured.process_medians = if counts[at] > 1 { vec![time; counts[at]] } else { vec![] };
                measured.samples.truncate(1);
                case
            });
            is_too_close(record, &best, &other)
        };
        // The record's other cases were measured by several processes.
        let (started, command, origin) = (String::new(), vec![], record.origin.clone());
        record.processes = vec![Process { started, command, origin, order: Some(1) }; 2];
        assert!(close(&record, [1, 1]) && close(&record, [2, 1]) && close(&record, [1, 2]));
        assert!(!close(&record, [2, 2]));
    }

    #[test]
    fn processes_that_were_all_slow_by_another_factor_agree_on_the_winner() {
        let mut record = four_cases();
        record.cases.truncate(2);
        let medians = [[4.16, 1.06], [4.53, 1.17], [2.45, 0.69]];
        for (at, case) in record.cases.iter_mut().enumerate() {
            let measured = measured_mut(case);
            measured.process_medians = medians.iter().map(|medians| Nanos(medians[at] * 1e6)).collect();
            (measured.summary.median, measured.summary.interval) =
                (measured.process_medians[0], Some([Nanos(0.5e6), Nanos(9e6)]));
        }
        let [slow, fast] = &record.cases[..] else { panic!("two cases") };
        assert!(!is_too_close(&record, fast, slow));
        let mut even = fast.clone();
        measured_mut(&mut even).process_medians.reverse();
        assert!(is_too_close(&record, fast, &even));
        // A third case whose median is longer, but not in each process, ties although the second does not.
        let mut scattered = slow.clone();
        scattered.variant = "scattered".into();
        let measured = measured_mut(&mut scattered);
        measured.process_medians = [1.0, 20.0, 9.0].map(|time| Nanos(time * 1e6)).to_vec();
        measured.summary.median = Nanos(9e6);
        let race = find_winners(&record, vec![&scattered, slow, fast]).expect("a race");
        assert_eq!(race.names(), [&*fast.variant, "scattered"]);
        measured_mut(&mut scattered).summary.interval = None;
        assert_eq!(why_tied(&[fast, &scattered]), "have too few samples or processes to tell");
    }

    #[test]
    fn a_mean_over_sizes_is_told_from_another_by_the_ratios_of_each_process() {
        let mut record = four_cases();
        record.cases.truncate(2);
        record.cases = [record.cases.clone(), record.cases].concat();
        let [slow, fast, slow_too, fast_too] = &record.cases[..] else { panic!("four cases") };
        let is_close = are_too_close_in_the_mean(&record, &[fast, fast_too], &[slow, slow_too]);
        assert!(!is_close, "twice as fast in one process");
        assert!(are_too_close_in_the_mean(&record, &[fast, slow], &[slow, fast]), "equal in the mean");
        // The device was at half its speed beside the slow ones.
        let mut disturbed = record.clone();
        disturbed.devices[0].kind = DeviceKind::Cpu;
        for (index, case) in disturbed.cases.iter_mut().enumerate() {
            measured_mut(case).conditions.canary_median = Some(Nanos(if index % 2 == 0 { 2e3 } else { 1e3 }));
        }
        let [slow, fast, slow_too, fast_too] = &disturbed.cases[..] else { panic!("four cases") };
        assert!(are_too_close_in_the_mean(&disturbed, &[fast, fast_too], &[slow, slow_too]), "too close at each size");
        // At each of two sizes, the times of the first variant and the second in three processes.
        let mut set = |times: [[f64; 3]; 4]| {
            for (case, times) in record.cases.iter_mut().zip(times) {
                measured_mut(case).process_medians = times.map(|time| Nanos(time * 1e6)).to_vec();
            }
            let cases = &record.cases;
            are_too_close_in_the_mean(&record, &[&cases[0], &cases[2]], &[&cases[1], &cases[3]])
        };
        // The first loses a little at one size, always, and gains more at the other.
        assert!(!set([[1.1, 1.1, 1.1], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.5, 1.5, 1.6]]));
        assert!(set([[1.1, 1.1, 1.1], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.1, 1.2, 1.1]]));
        assert!(set([[1.0, 2.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 2.0], [1.5, 1.5, 1.6]]));
    }

    #[test]
    fn the_leads_of_several_sizes_are_a_range() {
        let times = [(64, "naive", 250e3), (64, "local", 100e3), (128, "naive", 130e3), (128, "local", 100e3)];
        let expected = "local is fastest at every size, about 1.30 to 2.5 times as fast as the next (by size)";
        assert_eq!(sentence_on(&times).as_deref(), Some(expected));
    }

    #[test]
    fn the_lead_of_a_marked_time_is_approximate() {
        let mut record = four_cases();
        record.cases.truncate(2);
        let sentence_of = |record: &Record| sentence_of(record).expect("rivals");
        // Another process of a software device may give times that differ by more.
        assert_eq!(sentence_of(&record), "local is fastest, about 2.0 times as fast as naive");
        record.devices[0].kind = DeviceKind::DiscreteGpu;
        assert_eq!(sentence_of(&record), "local is fastest, 2.0 times as fast as naive");
        measured_mut(&mut record.cases[0]).summary.interval = Some([240e3, 300e3].map(Nanos));
        assert_eq!(sentence_of(&record), "local is fastest, about 2.0 times as fast as naive");
        measured_mut(&mut record.cases[0]).summary.interval = Some([240e3, 400e3].map(Nanos));
        assert_eq!(sentence_of(&record), "local is fastest", "nobody knows by how much");
        // At another size the other variant wins, so that no factor is told.
        for index in 0..2 {
            let mut case = record.cases[index].clone();
            case.size = crate::basis::size::Size::Uniform(512).into();
            case.variant = record.cases[1 - index].variant.clone();
            record.cases.push(case);
        }
        let said = sentence_of(&record);
        assert!(said.starts_with("the fastest is local at 64, naive at 512"), "{said}");
    }

    #[test]
    fn a_variant_that_alone_has_no_caveat_is_named_if_others_are_faster() {
        let mut record = four_cases();
        record.cases.truncate(2);
        record.cases[1].shortcuts = vec![Shortcut::LessAccurate];
        let expected = "naive is the only variant without a caveat; faster with a caveat: local";
        assert_eq!(sentence_of(&record).as_deref(), Some(expected));
        record.cases[0].shortcuts = std::mem::take(&mut record.cases[1].shortcuts);
        assert_eq!(sentence_of(&record), None, "the exact one is faster");
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
        assert_eq!(of(&["tiled"; 3]), "tiled is fastest at every size, about 2.0 times as fast as the next");
        assert_eq!(of(&["local", "tiled", "tiled", "tiled"]), "the fastest is tiled at 128 to 512, local at 64");
        assert_eq!(of(&["tiled", "local", "tiled"]), "the fastest is tiled at 64 and 256, local at 128");
        let none = "naive, local and 2 more are too close to tell apart at 128";
        assert_eq!(of(&["tiled", "none", "tiled"]), format!("the fastest is tiled at 64 and 256; {none}"));
    }
}
