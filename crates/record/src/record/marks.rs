//! Conditions that hold for all cases of a device, and marks on cases that differ from the rest.

use super::{Case, Conditions, Measured, Record, SLOW, Warning};
use crate::basis::units::{MIN_MULTIPLE, range_text, significant, uncertainty};
use crate::case::method::CacheState;
use crate::device::capability::DeviceInfo;
use crate::stats;
use serde::Serialize;
use std::borrow::Cow;

/// Relative error of a median from which it may be marked.
const MIN_MARKED_ERROR: f64 = 0.05;
/// Smallest ratio of a marked error to the typical one.
const MIN_MARKED_ERROR_RATIO: f64 = 3.0;
/// Typical relative error from which the run's summary mentions it.
const MIN_NOTED_ERROR: f64 = 0.02;
/// Largest unmarked ratio of a canary's time to the typical one: a GPU's clock varies by 3 % about its mean.
const MAX_CANARY_RATIO: f64 = 1.05;
/// Largest unmarked ratio of canary times on the CPU, where the canary itself is sometimes disturbed.
const MAX_CANARY_RATIO_ON_HOST: f64 = 1.10;
/// Largest unmarked ratio of the canary's times before and after a case on the CPU, where a single one may be off by chance.
const MAX_CANARY_DRIFT_ON_HOST: f64 = 1.5;
/// Largest difference of other programs' CPU share between one case, or side, and the others.
pub const MAX_OTHERS_DIFFERENCE: f64 = 0.1;
/// Largest distance from the median, in robust standard deviations, of a case that does not differ.
const MAX_DEVIATIONS: f64 = 4.0;
/// Ratio of the standard deviation of a normal distribution to its median absolute deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Sign of a median that is uncertain.
pub const UNCERTAIN: &str = "?";

/// Reason to be careful with one case but not with the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
pub struct Mark {
    /// Sign beside a number.
    pub sign: Cow<'static, str>,
    /// Explanation of the sign.
    pub meaning: String,
}

impl Mark {
    pub fn new(sign: impl Into<Cow<'static, str>>, meaning: impl Into<String>) -> Self {
        Self { sign: sign.into(), meaning: meaning.into() }
    }
}

/// Returns the meaning of a sign of [`RunConditions::signs`] in a word or two, for a chart.
pub fn brief_meaning(sign: &str) -> &'static str {
    match sign {
        "u" => "unverified",
        "w" => "weak check",
        "i" => "interrupted",
        "p" => "paused",
        "!" => "above the limit",
        UNCERTAIN => "uncertain",
        _ => "disturbed",
    }
}

/// Distribution of a figure over the cases of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TypicalFigure {
    median: f64,
    least: f64,
    most: f64,
    /// Largest deviation from the median of a case that is not marked.
    max_deviation: f64,
}

impl TypicalFigure {
    /// Returns the distribution of `figures`, if any; deviations up to `tolerated` are never marked.
    fn of(figures: &[f64], tolerated: f64) -> Option<Self> {
        let median = stats::median(figures)?;
        let deviations: Vec<_> = figures.iter().map(|figure| (figure - median).abs()).collect();
        let sigma = MAD_TO_SIGMA * stats::median(&deviations)?;
        let least = figures.iter().copied().fold(median, f64::min);
        let most = figures.iter().copied().fold(median, f64::max);
        Some(Self { median, least, most, max_deviation: tolerated.max(MAX_DEVIATIONS * sigma) })
    }

    fn is_outlier(self, figure: f64) -> bool {
        (figure - self.median).abs() > self.max_deviation
    }

    /// Tells how much of the CPU other programs used, if these are shares of it; `None` if that was little.
    fn load(self) -> Option<String> {
        let Self { median, least, most, .. } = self;
        let share = if most - least > MAX_OTHERS_DIFFERENCE {
            format!("{:.0} to {:.0} %", 100.0 * least, 100.0 * most)
        } else {
            format!("{:.0} %", 100.0 * median)
        };
        (most > MAX_OTHERS_DIFFERENCE).then(|| format!("other programs used {share} of the CPU"))
    }
}

/// Tells how much of the CPU other programs used during these cases; `None` if that was little, or is not known.
pub fn load_during<'c>(cases: impl IntoIterator<Item = &'c Case>) -> Option<String> {
    let conditions = cases.into_iter().filter_map(Case::measured).flat_map(conditions_of_processes);
    let shares: Vec<f64> = conditions.filter_map(|own| own.others).collect();
    TypicalFigure::of(&shares, MAX_OTHERS_DIFFERENCE)?.load()
}

/// Conditions under which the cases of a device were sampled.
struct DeviceConditions {
    device: usize,
    /// Number of measured cases.
    cases: usize,
    /// Logarithm of the canary's time.
    canary: Option<TypicalFigure>,
    /// Logarithm of the canary's best time ever.
    best: Option<f64>,
    clock_mhz: Option<f64>,
    /// Share of the CPU that other programs used.
    others: Option<TypicalFigure>,
    /// Relative errors of the medians, in ascending order.
    errors: Vec<f64>,
    /// Number of cases during which the canary's time changed.
    unsteady: usize,
    /// Number of medians of so few samples that they have no interval.
    without_interval: usize,
    /// Fewest and most processes that measured a case, and the number that the command asked for.
    processes: [usize; 3],
    on_host: bool,
    /// Whether the caches were emptied before each run.
    cold: bool,
}

/// Returns the conditions of each process that measured a case.
fn conditions_of_processes(measured: &Measured) -> &[Conditions] {
    match &measured.process_conditions[..] {
        [] => std::slice::from_ref(&measured.conditions),
        several => several,
    }
}

/// Conditions of a record, by device.
pub struct RunConditions(Vec<DeviceConditions>);

impl RunConditions {
    /// Derives the conditions of `record`.
    pub fn of(record: &Record) -> Self {
        let conditions_of = |device: &DeviceInfo| {
            let on_host = device.kind.runs_on_host_cores();
            let measured: Vec<&Measured> =
                record.cases.iter().filter(|case| case.device == device.index).filter_map(Case::measured).collect();
            let conditions = || measured.iter().flat_map(|m| conditions_of_processes(m));
            let figures =
                |figure: fn(&Conditions) -> Option<f64>| -> Vec<f64> { conditions().filter_map(figure).collect() };
            // A case of one process has no list of their medians.
            let processes = || measured.iter().map(|m| m.process_medians.len().max(1));
            let [least, most] = [processes().min(), processes().max()].map(|count| count.unwrap_or(1));
            let planned =
                record.request.as_ref().and_then(|request| request.processes).map_or(1, |planned| planned as usize);
            let clock = |own: &Conditions| own.clock_mhz.map(|[before, after]| f64::midpoint(before, after));
            let max_canary_ratio = if on_host { MAX_CANARY_RATIO_ON_HOST } else { MAX_CANARY_RATIO };
            DeviceConditions {
                device: device.index,
                cases: measured.len(),
                canary: TypicalFigure::of(&figures(canary), max_canary_ratio.ln()),
                best: figures(|own| own.canary_best.map(|best| best.0.ln())).into_iter().reduce(f64::min),
                clock_mhz: stats::median(&figures(clock)),
                others: TypicalFigure::of(&figures(|own| own.others), MAX_OTHERS_DIFFERENCE),
                errors: sorted(measured.iter().filter_map(|m| m.summary.relative_error()).collect()),
                unsteady: measured.iter().filter(|m| is_unsteady(m, on_host)).count(),
                without_interval: measured.iter().filter(|m| has_no_interval(m)).count(),
                processes: [least, most, planned],
                on_host,
                cold: record.method.cache == CacheState::Cold,
            }
        };
        Self(record.devices.iter().map(conditions_of).collect())
    }

    fn of_device(&self, device: usize) -> Option<&DeviceConditions> {
        self.0.iter().find(|conditions| conditions.device == device)
    }

    /// Whether a single process measured a device that shares the host's cores.
    pub fn may_be_of_a_moment(&self, device: usize) -> bool {
        self.of_device(device).is_some_and(|own| own.on_host && own.processes[1] <= 1)
    }

    /// Returns a sentence about conditions that make all times of a device doubtful; `None` if there are none.
    pub fn sentence(&self, device: usize) -> Option<String> {
        let conditions = self.of_device(device)?;
        let cold = conditions.cold.then(|| "caches emptied before each run (--cache cold)".to_string());
        let mut parts: Vec<String> =
            conditions.process_counts().into_iter().chain(cold).chain(conditions.speed()).collect();
        if conditions.are_all_unsteady() {
            parts.push(format!("its speed changed during {} of {} cases", conditions.unsteady, conditions.cases));
        }
        parts.extend(conditions.others.and_then(TypicalFigure::load));
        parts.extend(conditions.uncertainty());
        let [few_samples, remedy] = match conditions.processes[1] {
            0 | 1 => ["too few samples", " (a longer --max-time takes more)"],
            _ => ["too few samples or processes", ""],
        };
        match (conditions.without_interval, conditions.cases) {
            (0, _) => {}
            (_, 1) => parts.push(format!("{few_samples} for an interval of the median{remedy}")),
            (few, all) => {
                let have = if few == 1 { "has" } else { "have" };
                parts.push(format!("{few} of {all} medians {have} {few_samples} for an interval{remedy}"));
            }
        }
        if parts.is_empty() { None } else { Some(parts.join("; ")) }
    }

    /// Formats the signs of a case's marks: `? d`.
    pub fn signs(&self, case: &Case) -> String {
        self.marks(case).into_iter().map(|mark| mark.sign).collect::<Vec<_>>().join(" ")
    }

    /// Returns the marks of `case`.
    pub fn marks(&self, case: &Case) -> Vec<Mark> {
        let Some(measured) = case.measured() else { return vec![] };
        let conditions = self.of_device(case.device);
        let mut marks = vec![];
        marks.extend(measured.verification.unverified().map(|reason| Mark::new("u", reason)));
        marks.extend(measured.weak_check().map(|sentence| Mark::new("w", sentence)));
        let signs: [(&str, fn(&Warning) -> bool); 3] = [
            ("i", |warning| matches!(warning, Warning::Interrupted)),
            ("p", |warning| matches!(warning, Warning::Stopped { .. })),
            ("!", |warning| matches!(warning, Warning::AboveLimit { .. })),
        ];
        for (sign, is_meant) in signs {
            let warning = measured.warnings.iter().copied().find(is_meant);
            marks.extend(warning.map(|warning| Mark::new(sign, warning.explanation())));
        }
        let error = measured.summary.relative_error();
        let typical_error = error.and_then(|error| conditions?.error_of_others(error));
        let max_error = MIN_MARKED_ERROR.max(MIN_MARKED_ERROR_RATIO * typical_error.unwrap_or(0.0));
        if has_no_interval(measured) || error.is_some_and(|error| error > max_error) {
            marks.push(Mark::new(UNCERTAIN, "uncertain: too few samples, or a wide interval"));
        }
        if let Some(conditions) = conditions.filter(|conditions| conditions.is_disturbed(measured)) {
            let meaning = if conditions.on_host {
                "disturbed: the device's speed or the load of other programs changed"
            } else {
                "disturbed: the device's speed changed"
            };
            marks.push(Mark::new("d", meaning));
        }
        marks
    }
}

impl DeviceConditions {
    /// Says how many processes measured each case; `None` if one was to.
    fn process_counts(&self) -> Option<String> {
        let [least, most, planned] = self.processes;
        let found = range_text(&least, &most);
        match planned {
            _ if least < planned => Some(format!("{found} of {planned} processes: --resume runs the others")),
            _ if most > 1 => Some(format!("{found} processes")),
            _ => None,
        }
    }

    /// Says how uncertain the medians are: a typical one, or the range of those that differ by more than marks tell.
    fn uncertainty(&self) -> Option<String> {
        let (least, most) = (self.errors.first()?, self.errors.last()?);
        let typical = stats::median(&self.errors).filter(|error| *error > MIN_NOTED_ERROR)?;
        let told = |error| {
            "±".to_string()
                + &uncertainty(error, |error| format!("{:.*} %", usize::from(error < 0.0095), 100.0 * error))
        };
        Some(match self.errors.len() {
            1 => format!("the median is known to {}", told(typical)),
            2 if *most > MIN_MARKED_ERROR_RATIO * least => {
                format!("the intervals of the medians are {} to {}", told(*least), told(*most))
            }
            _ => format!("a typical median is known to {}", told(typical)),
        })
    }

    /// Returns the typical uncertainty of the other cases; `None` if there are none.
    fn error_of_others(&self, own: f64) -> Option<f64> {
        let mut others = self.errors.clone();
        others.remove(others.iter().position(|error| *error == own)?);
        stats::median(&others)
    }

    /// Describes the device's speed, if it was slower than its best.
    fn speed(&self) -> Option<String> {
        let TypicalFigure { median, least, most, .. } = self.canary?;
        let max_ratio = if self.on_host { MAX_CANARY_RATIO_ON_HOST } else { SLOW };
        let best = self.best.filter(|best| most - best > max_ratio.ln())?;
        let is_steady = most - least <= SLOW.ln();
        let [least, most] = if is_steady { [median; 2] } else { [least, most] };
        let [least, most] = [least, most].map(|log_time| (log_time - best).exp().max(1.0));
        let percent = |ratio: f64| format!("{:.0}", 100.0 * (ratio - 1.0));
        let longer = match (percent(least), percent(most)) {
            _ if most >= MIN_MULTIPLE && is_steady => format!("{most:.1} times its best time"),
            _ if most >= MIN_MULTIPLE => format!("{least:.1} to {most:.1} times its best time"),
            (_, high) if is_steady => format!("{high} % longer than its best"),
            (low, high) if low == "0" => format!("up to {high} % longer than its best"),
            (low, high) => format!("{low} to {high} % longer than its best"),
        };
        let clock =
            self.clock_mhz.map_or_else(String::new, |mhz| format!(" (clock: {} GHz)", significant(mhz / 1000.0)));
        Some(format!("a fixed test kernel took {longer}{clock}"))
    }

    /// Whether a case differs from the rest of its run by other programs' load or by its canary.
    fn is_disturbed(&self, measured: &Measured) -> bool {
        if let (Some(own), Some(typical)) = (measured.conditions.others, self.others)
            && typical.is_outlier(own)
        {
            return true;
        }
        if let (Some(own), Some(typical)) = (canary(&measured.conditions), self.canary)
            && typical.is_outlier(own)
        {
            return true;
        }
        !self.are_all_unsteady() && is_unsteady(measured, self.on_host)
    }

    /// Whether the canary changed while most of several cases were sampled, which then do not differ from the rest.
    fn are_all_unsteady(&self) -> bool {
        self.cases > 1 && 2 * self.unsteady > self.cases
    }
}

/// Whether the canary's time changed while a case was sampled.
fn is_unsteady(measured: &Measured, on_host: bool) -> bool {
    let drift = measured.conditions.canary.map_or(0.0, |[before, after]| (after.0 / before.0).ln().abs());
    drift > if on_host { MAX_CANARY_DRIFT_ON_HOST } else { MAX_CANARY_RATIO }.ln()
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Whether the median is of so few samples that it has no interval. A case without samples was only verified, and has no time.
fn has_no_interval(m: &Measured) -> bool {
    !m.samples.is_empty() && m.summary.relative_error().is_none()
}

/// Returns the logarithm of the canary's time while a case was sampled.
fn canary(conditions: &Conditions) -> Option<f64> {
    conditions.canary().map(|time| time.0.ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Nanos;
    use crate::device::capability::DeviceKind;
    use crate::plan::request::Request;
    use crate::record::Conditions;
    use crate::record::fixture::{measured_mut, under_conditions, with_canary};
    use crate::stats::Summary;

    fn sentence_and_signs(record: &Record) -> (String, Vec<String>) {
        let conditions = RunConditions::of(record);
        let signs = |case| conditions.marks(case).into_iter().map(|mark| mark.sign).collect::<String>();
        (conditions.sentence(0).unwrap_or_default(), record.cases.iter().map(signs).collect())
    }

    #[test]
    fn conditions_of_the_whole_run_are_a_sentence_not_marks() {
        let throttled = Conditions { clock_mhz: Some([1900.0; 2]), ..with_canary(80e3) };
        let (sentence, signs) = sentence_and_signs(&under_conditions(DeviceKind::DiscreteGpu, &[throttled; 5]));
        assert_eq!(sentence, "a fixed test kernel took 7 % longer than its best (clock: 1.900 GHz)");
        assert_eq!(signs, [""; 5]);
        let (sentence, _) = sentence_and_signs(&under_conditions(DeviceKind::DiscreteGpu, &[with_canary(75.2e3); 5]));
        assert_eq!(sentence, "", "nothing to know");
        let idle = Conditions { clock_mhz: Some([1980.0; 2]), others: Some(0.02), ..with_canary(76e3) };
        assert_eq!(sentence_and_signs(&under_conditions(DeviceKind::Cpu, &[idle; 5])).0, "");
        let loaded = Conditions { others: Some(0.5), ..with_canary(75e3) };
        let (sentence, signs) = sentence_and_signs(&under_conditions(DeviceKind::Cpu, &[loaded; 5]));
        assert_eq!(sentence, "other programs used 50 % of the CPU");
        assert_eq!(signs, [""; 5]);
        assert_eq!(sentence_and_signs(&under_conditions(DeviceKind::Cpu, &[Conditions::default(); 2])).0, "");
    }

    #[test]
    fn a_row_that_differs_from_the_rest_of_its_run_is_marked() {
        let mut conditions = [with_canary(75e3); 9];
        conditions[3] = with_canary(82e3);
        conditions[5].canary = Some([Nanos(75e3), Nanos(80e3)]);
        let (sentence, signs) = sentence_and_signs(&under_conditions(DeviceKind::DiscreteGpu, &conditions));
        assert_eq!(sentence, "a fixed test kernel took up to 9 % longer than its best");
        assert_eq!(signs, ["", "", "", "d", "", "d", "", "", ""]);
        // On the CPU, a single canary reading may be off; other programs' share, or most readings, count.
        conditions[7].others = Some(0.4);
        for of in &mut conditions {
            of.others = of.others.or(Some(0.03));
        }
        let (_, signs) = sentence_and_signs(&under_conditions(DeviceKind::Cpu, &conditions));
        assert_eq!(signs, ["", "", "", "", "", "", "", "d", ""]);
        conditions[3] = Conditions { others: Some(0.03), ..with_canary(100e3) };
        assert_eq!(sentence_and_signs(&under_conditions(DeviceKind::Cpu, &conditions)).1[3], "d");
    }

    #[test]
    fn an_unsteady_run_raises_the_threshold_of_marks() {
        let restless = [0.1, 0.35, 0.2, 0.5, 0.3, 0.15, 0.45, 0.25, 0.4];
        let conditions = restless.map(|others| Conditions { others: Some(others), ..with_canary(75e3) });
        let (sentence, signs) = sentence_and_signs(&under_conditions(DeviceKind::Cpu, &conditions));
        assert_eq!(sentence, "other programs used 10 to 50 % of the CPU");
        assert_eq!(signs, [""; 9]);
    }

    #[test]
    fn an_uncertain_median_is_marked_but_not_a_time_limit() {
        let mut record = under_conditions(DeviceKind::Cpu, &[with_canary(75e3); 3]);
        let [known, hardly] = [[1.0, 1.0, 1.01, 1.01, 1.02, 1.02], [1.0, 1.0, 1.1, 1.2, 1.3, 1.4]];
        for (case, times) in record.cases.iter_mut().zip([known, known, hardly]) {
            let measured = measured_mut(case);
            measured.summary = Summary::of(&times.map(Nanos)).expect("samples");
            measured.warnings = vec![Warning::TimeLimit, Warning::UnstableClock];
        }
        let (sentence, signs) = sentence_and_signs(&record);
        assert_eq!(signs, ["", "", UNCERTAIN]);
        assert_eq!(sentence, "");
        // If most medians are uncertain, that is a property of the run.
        record.cases.swap_remove(0);
        record.cases.push(record.cases[0].clone());
        let (sentence, signs) = sentence_and_signs(&record);
        assert_eq!(signs, [""; 3]);
        assert_eq!(sentence, "a typical median is known to ±22 %");
        // Each of two is compared with the other.
        record.cases.truncate(2);
        let (sentence, signs) = sentence_and_signs(&record);
        assert_eq!(signs, [UNCERTAIN, ""]);
        assert_eq!(sentence, "the intervals of the medians are ±1 % to ±22 %");
        record.cases.truncate(1);
        assert_eq!(sentence_and_signs(&record).0, "the median is known to ±22 %");
        let apart = [1.0, 1.0, 1.0, 1.0, 9.0, 9.0].map(Nanos);
        measured_mut(&mut record.cases[0]).summary = Summary::of(&apart).expect("samples");
        assert_eq!(sentence_and_signs(&record).0, "the median is known to ±>100 %");
        measured_mut(&mut record.cases[0]).summary = Summary::of(&[Nanos(1.0); 2]).expect("samples");
        let (sentence, _) = sentence_and_signs(&record);
        assert!(sentence.ends_with(" median (a longer --max-time takes more)"), "{sentence}");
        measured_mut(&mut record.cases[0]).process_medians = vec![Nanos(1.0); 3];
        let said = |record: &Record| sentence_and_signs(record).0;
        assert!(said(&record).starts_with("3 processes; "), "{}", said(&record));
        record.request = Some(Request { processes: Some(5), ..Request::default() });
        assert!(said(&record).starts_with("3 of 5 processes: --resume runs the others; "), "{}", said(&record));
    }
}
