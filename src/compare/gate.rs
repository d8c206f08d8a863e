//! Limits for a candidate, from a TOML file of `[[limit]]` tables; and the JSON document of a comparison, whose schema
//! `docs/compare.schema.json` is generated from the types, and compared with them by a test.

use super::overview::Overview;
use super::{Change, Compared, Comparison, Reached, State, Verdict};
use crate::basis::error::Exit;
use crate::basis::pattern::matches;
use crate::basis::printable::brief;
use crate::basis::units::{self, Nanos, counted, significant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Contents of a file of limits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsFile {
    limit: Vec<LimitTable>,
}

/// Limit as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LimitTable {
    case: String,
    max_slowdown: Option<String>,
    max_time: Option<String>,
    min_share: Option<String>,
    min_rate: Option<String>,
    min_bandwidth: Option<String>,
    max_spills: Option<u32>,
}

/// Limits for the cases whose id matches a pattern.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GateLimit {
    /// Pattern; `*` matches any text.
    case: String,
    /// Largest ratio minus 1.
    max_slowdown: Option<f64>,
    max_time: Option<Nanos>,
    /// Smallest share of the limit that bounds the case.
    min_share: Option<f64>,
    /// Operations per second.
    min_rate: Option<f64>,
    /// Bytes per second.
    min_bandwidth: Option<f64>,
    /// Most registers that a kernel may spill.
    max_spills: Option<u32>,
}

/// Limit that a case exceeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Violation {
    /// Index of the case in [`Comparison::cases`].
    #[serde(skip)]
    pub case: usize,
    /// Case id.
    pub id: String,
    /// Measured value and limit, in words.
    pub message: String,
}

/// Parses a file of limits.
///
/// # Errors
/// A TOML error, or the invalid entry.
pub(crate) fn parse(text: &str) -> Result<Vec<GateLimit>, String> {
    let file: LimitsFile = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_string())?;
    if file.limit.is_empty() {
        return Err("it limits nothing; add a [[limit]] table".into());
    }
    file.limit.into_iter().map(GateLimit::try_from).collect()
}

impl TryFrom<LimitTable> for GateLimit {
    type Error = String;

    fn try_from(table: LimitTable) -> Result<Self, String> {
        let LimitTable { case, max_slowdown, max_time, min_share, min_rate, min_bandwidth, max_spills } = table;
        let given = [&max_slowdown, &max_time, &min_share, &min_rate, &min_bandwidth];
        if given.iter().all(|field| field.is_none()) && max_spills.is_none() {
            return Err(format!(
                "the limit for '{case}' limits nothing; add max-slowdown, max-time, min-share, min-rate, \
                 min-bandwidth or max-spills"
            ));
        }
        let of = |name: &str, reason: String| format!("{name} of '{case}': {reason}");
        Ok(Self {
            max_slowdown: max_slowdown.map(|t| percentage(&t)).transpose().map_err(|e| of("max-slowdown", e))?,
            max_time: max_time.map(|t| time(&t)).transpose().map_err(|e| of("max-time", e))?,
            min_share: min_share.map(|t| percentage(&t)).transpose().map_err(|e| of("min-share", e))?,
            min_rate: min_rate.map(|t| rate(&t, &["FLOP/s", "OP/s"])).transpose().map_err(|e| of("min-rate", e))?,
            min_bandwidth: min_bandwidth.map(|t| rate(&t, &["B/s"])).transpose().map_err(|e| of("min-bandwidth", e))?,
            max_spills,
            case,
        })
    }
}

/// Parses a percentage such as `3%`, from 0 to 1000 %.
///
/// # Errors
/// A message if the text is malformed or out of range.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    let remedy = "a percentage from 0% to 1000%, such as 2%";
    let value = units::fraction("share", text, remedy)?;
    let refuse = || format!("share '{}' is out of range; write {remedy}", brief(text));
    (0.0..=10.0).contains(&value).then_some(value).ok_or_else(refuse)
}

fn time(text: &str) -> Result<Nanos, String> {
    // The suffix s comes last, because every unit ends in it.
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let parsed = units.iter().find_map(|(unit, scale)| {
        let number = text.strip_suffix(unit)?.trim().parse::<f64>().ok()?;
        (number.is_finite() && number > 0.0).then_some(Nanos(number * scale))
    });
    parsed.ok_or(format!("malformed time '{text}'; write a number with ns, us, ms or s, such as 1.5ms"))
}

fn rate(text: &str, units: &[&str]) -> Result<f64, String> {
    let number = units.iter().find_map(|unit| text.strip_suffix(unit));
    let parsed = number.and_then(|number| {
        let number = number.trim_end();
        let prefixes = [("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15), ("", 1.0)];
        let (number, scale) = prefixes.iter().find_map(|(p, scale)| Some((number.strip_suffix(p)?, scale)))?;
        let value = number.trim().parse::<f64>().ok()?;
        (value.is_finite() && value > 0.0).then_some(value * scale)
    });
    parsed.ok_or(format!("malformed rate '{text}'; write a number with a unit, such as 1.5 T{}", units[0]))
}

/// Result of applying limits to a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ruling {
    /// Exceeded limits.
    pub violations: Vec<Violation>,
    /// Ascending indices of cases whose `max-slowdown` limits are all certainly met, whatever the verdict.
    pub settled: Vec<usize>,
    /// Patterns of undecided limits, each with the reason.
    pub unheld: Vec<(String, String)>,
}

/// Label of a case that lacks a time on one side without being newly wrong.
pub(crate) const NOT_COMPARED: &str = "not compared";

impl Ruling {
    /// Counts the cases by verdict, those without one, and the exceeded limits; omits zeros.
    pub(crate) fn counts(&self, comparison: &Comparison) -> impl Iterator<Item = (usize, &'static str)> {
        let verdicts = Verdict::ALL.map(|verdict| (comparison.count(verdict), verdict.name()));
        let changes =
            [Change::Worse, Change::Better, Change::Same].map(|change| (comparison.changed(change), change.name()));
        let wrong = comparison.unmatched.iter().filter(|case| case.newly_wrong).count();
        let others = comparison.unmatched.len() - wrong;
        let broken = self.violations.len();
        let more = [
            (wrong, "newly wrong"),
            (others, NOT_COMPARED),
            (broken, if broken == 1 { "limit broken" } else { "limits broken" }),
            (self.unheld.len(), if self.unheld.len() == 1 { "limit undecided" } else { "limits undecided" }),
        ];
        verdicts.into_iter().chain(changes).chain(more).filter(|(count, _)| *count > 0)
    }
}

/// Applies `limits` to `comparison`.
///
/// # Errors
/// When a pattern matches no case of either side: such a limit would protect nothing.
pub(crate) fn rule(limits: &[GateLimit], comparison: &Comparison) -> Result<Ruling, String> {
    let mut ruling = Ruling::default();
    let mut kept: BTreeMap<usize, bool> = BTreeMap::new();
    for limit in limits {
        let mut used = false;
        let [mut shareless, mut uncounted, mut doubtful, mut incomparable] = [0; 4];
        for (index, case) in comparison.cases.iter().enumerate().filter(|(_, case)| matches(&limit.case, &case.id)) {
            used = true;
            let messages = limit.broken(case);
            if let Some(most) = limit.max_slowdown {
                let certain = case.interval.is_some_and(|[_, high]| high <= 1.0 + most);
                kept.entry(index).and_modify(|all| *all &= certain).or_insert(certain);
                // Undecided cases have their own exit code.
                doubtful += usize::from(!certain && messages.is_empty() && case.verdict != Verdict::Undecided);
            }
            shareless += usize::from(limit.min_share.is_some() && case.share.is_none());
            uncounted += usize::from(limit.max_spills.is_some() && case.spills.is_none());
            let violation = |message| Violation { case: index, id: case.id.clone(), message };
            ruling.violations.extend(messages.into_iter().map(violation));
        }
        // Inspected cases have no times, only spills.
        for case in comparison.inspected.iter().filter(|case| matches(&limit.case, &case.id)) {
            used = true;
            uncounted += usize::from(limit.max_spills.is_some() && case.spills.is_none());
            let violation = |message| Violation { case: usize::MAX, id: case.id.clone(), message };
            ruling.violations.extend(limit.spilled(case.spills).map(violation));
        }
        // New cases, and those whose problem changed, have figures as well.
        let not_compared = comparison.unmatched.iter().filter(|case| matches(&limit.case, &case.id));
        for (case, reached) in not_compared.filter_map(|case| Some((case, case.reached.as_ref()?))) {
            shareless += usize::from(limit.min_share.is_some() && reached.share.is_none());
            uncounted += usize::from(limit.max_spills.is_some() && reached.spills.is_none());
            incomparable += usize::from(limit.max_slowdown.is_some() && case.baseline == State::Measured);
            let violation = |message| Violation { case: usize::MAX, id: case.id.clone(), message };
            ruling.violations.extend(limit.beyond(reached).into_iter().map(violation));
        }
        let mut unmatched = comparison.unmatched.iter().filter(|case| matches(&limit.case, &case.id)).peekable();
        if !used && unmatched.peek().is_none() {
            return Err(format!("the limit for '{}' matches no case; `*` stands for any text", limit.case));
        }
        if !used && unmatched.any(|case| case.candidate != State::Measured) {
            ruling.unheld.push((limit.case.clone(), "the candidate measured none of its cases".into()));
        }
        let reasons = [
            (shareless, "without a share of a hardware limit, which min-share needs (measured with --no-peak?)"),
            (uncounted, "whose driver does not count spills, which max-spills needs"),
            (incomparable, "that solves another problem than in the baseline, so that max-slowdown compares nothing"),
            (doubtful, "whose interval includes its max-slowdown; more processes narrow it"),
        ];
        let reasons = reasons.into_iter().filter(|(count, _)| *count > 0);
        let reasons = reasons.map(|(count, of)| (limit.case.clone(), format!("{} {of}", counted(count, "case"))));
        ruling.unheld.extend(reasons);
    }
    ruling.settled = kept.into_iter().filter(|(_, all)| *all).map(|(index, _)| index).collect();
    Ok(ruling)
}

/// Document written by `compare --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Document"))]
pub(crate) struct ComparisonDocument<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    /// Limits of `--gate` that the candidate exceeds.
    violations: &'a [Violation],
    /// Figures over all cases, followed by those of each algorithm on each device if there are several; absent for
    /// fewer than two cases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    summary: Vec<Overview>,
    /// Exit code: 0 all same or faster, 1 slower, newly wrong or beyond a limit, 4 undecided.
    exit: u8,
}

impl<'a> ComparisonDocument<'a> {
    /// Creates the document of a finished comparison.
    #[must_use]
    pub(crate) fn new(comparison: &'a Comparison, violations: &'a [Violation], exit: Exit) -> Self {
        Self { comparison, violations, summary: Overview::all(comparison), exit: exit as u8 }
    }
}

impl GateLimit {
    /// Describes too many spilled registers, if so.
    fn spilled(&self, spills: Option<f64>) -> Option<String> {
        let (most, spills) = (self.max_spills?, spills?);
        (spills > f64::from(most)).then(|| format!("spills {spills}, max-spills is {most}"))
    }

    fn broken(&self, case: &Compared) -> Vec<String> {
        let mut broken = vec![];
        let percent = |share: f64| format!("{} %", significant(100.0 * share));
        // Only certain slow-downs count; uncertain ones have the verdict `undecided`, with its own exit code.
        if let (Some(most), Some(ratio), Some([low, _])) = (self.max_slowdown, case.ratio, case.interval)
            && ratio > 1.0 + most
            && (low > 1.0 + most || case.verdict == Verdict::Slower)
        {
            broken.push(format!("{} slower, max-slowdown is {}", percent(ratio - 1.0), percent(most)));
        }
        let Compared { work, share, spills, .. } = *case;
        broken.extend(self.beyond(&Reached { time: case.candidate.median, work, share, spills }));
        broken
    }

    /// Describes the figures that exceed a limit that needs no baseline.
    fn beyond(&self, reached: &Reached) -> Vec<String> {
        let mut broken = vec![];
        let percent = |share: f64| format!("{} %", significant(100.0 * share));
        let time = reached.time;
        if let Some(most) = self.max_time.filter(|most| time.0 > most.0) {
            broken.push(format!("takes {time}, max-time is {most}"));
        }
        if let (Some(least), Some(share)) = (self.min_share, reached.share)
            && share.fraction < least
        {
            let [reached, least] = [share.fraction, least].map(percent);
            broken.push(format!("reaches {reached} of its limit, min-share is {least}"));
        }
        broken.extend(self.spilled(reached.spills));
        let rate = reached.work.rate(time);
        if let Some(least) = self.min_rate.filter(|least| rate.0 < *least) {
            broken.push(format!("does {rate} GOP/s, min-rate is {} GOP/s", significant(least * 1e-9)));
        }
        let bandwidth = reached.work.bandwidth(time);
        if let Some(least) = self.min_bandwidth.filter(|least| bandwidth.0 < *least) {
            broken.push(format!("moves {bandwidth} GB/s, min-bandwidth is {} GB/s", significant(least * 1e-9)));
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<ComparisonDocument<'_>>();
        crate::record::tests::assert_committed("docs/compare.schema.json", &schema);
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!(time("1.5ms"), Ok(Nanos(1.5e6)));
        assert_eq!(time("20 µs").map(|t| t.0.round()), Ok(20e3));
        assert_eq!(rate("1.5 TFLOP/s", &["FLOP/s", "OP/s"]), Ok(1.5e12));
        assert_eq!(rate("900GB/s", &["B/s"]), Ok(900e9));
        assert_eq!(percentage("3%"), Ok(0.03));
        for text in ["", "3", "-1ms", "1e999s", "nans", "ms"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(rate("5", &["B/s"]).is_err() && rate("inf GB/s", &["B/s"]).is_err() && percentage("-1%").is_err());
        assert_eq!(
            percentage("1001%").expect_err("too much"),
            "share '1001%' is out of range; write a percentage from 0% to 1000%, such as 2%"
        );
    }

    #[test]
    fn mistakes_are_refused_by_name() {
        for (text, expected) in [
            ("", "missing field `limit`"),
            ("limit = []", "limits nothing"),
            ("[[limit]]\ncase = '*'", "'*' limits nothing; add max-slowdown"),
            ("[[limit]]\ncase = '*'\nmax-slowdwon = '3%'", "unknown field `max-slowdwon`"),
            ("[[limit]]\nmax-time = '3ms'", "missing field `case`"),
            ("[[limit]]\ncase = 'a'\nmax-time = '3'", "max-time of 'a': malformed time '3'"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
