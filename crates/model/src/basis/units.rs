//! Quantities with units: time, work, memory and rates.

use crate::basis::named::named;
use crate::basis::printable::brief;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Duration in nanoseconds; a float, because device timestamps resolve fractions of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Nanos(pub f64);

impl Nanos {
    pub fn from_seconds(seconds: f64) -> Self {
        Self(seconds * 1e9)
    }

    pub fn seconds(self) -> f64 {
        self.0 * 1e-9
    }

    /// Formats the time in its own unit, with the digits that a relative error justifies.
    pub fn text_within(self, error: Option<f64>) -> String {
        let unit = TimeUnit::for_value(self);
        format!("{} {unit}", unit.number_within(self, error))
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(duration: std::time::Duration) -> Self {
        Self::from_seconds(duration.as_secs_f64())
    }
}

impl std::ops::Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::default(), |total, time| total + time)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text_within(None))
    }
}

/// Unit for a group of times, so that the times of a table row compare at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    Nano,
    Micro,
    Milli,
    Second,
}

named!(TimeUnit, "unit", [Nano "ns", Micro "µs", Milli "ms", Second "s"]);

impl TimeUnit {
    /// Returns the largest unit in which `time` is at least one.
    pub fn for_value(time: Nanos) -> Self {
        match time.0 {
            t if t < 1e3 => Self::Nano,
            t if t < 1e6 => Self::Micro,
            t if t < 1e9 => Self::Milli,
            _ => Self::Second,
        }
    }

    /// Returns the number of these units in a nanosecond.
    fn scale(self) -> f64 {
        match self {
            Self::Nano => 1.0,
            Self::Micro => 1e-3,
            Self::Milli => 1e-6,
            Self::Second => 1e-9,
        }
    }

    /// Formats `time` in this unit with four significant digits, without the unit's name.
    pub fn number(self, time: Nanos) -> String {
        self.number_within(time, None)
    }

    /// Formats like [`Self::number`], with no more digits than a relative error justifies.
    pub fn number_within(self, time: Nanos, error: Option<f64>) -> String {
        significant_within(time.0 * self.scale(), error)
    }
}

/// Formats a range by its ends: `3 to 9`, or `5` if they are equal.
pub fn range_text(least: &impl ToString, most: &impl ToString) -> String {
    let [least, most] = [least.to_string(), most.to_string()];
    if least == most { most } else { format!("{least} to {most}") }
}

/// Formats a count with its noun: `1 case`, `2 processes`. The plural must end in s or es.
pub fn counted(count: usize, thing: &str) -> String {
    let plural = if thing.ends_with('s') { "es" } else { "s" };
    format!("{count} {thing}{}", if count == 1 { "" } else { plural })
}

/// Names in a sentence: `a`, `a and b`, `a, b and c`; nothing without any.
pub fn in_words(names: &[impl AsRef<str>], conjunction: &str) -> String {
    let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    match &names[..] {
        [first @ .., last] if !first.is_empty() => format!("{} {conjunction} {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// Formats a rough waiting time: `40 s`, `3 min`, `2.5 h`.
pub fn about(time: Nanos) -> String {
    match time.seconds() {
        seconds if seconds < 1.0 => "1 s".into(),
        seconds if seconds < 89.5 => format!("{seconds:.0} s"),
        seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Rounds to four significant digits, as [`significant`] prints.
pub fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi((3 - value.abs().log10().floor() as i32).max(0));
    (value * scale).round() / scale
}

/// Least ratio of times that is told as a multiple, not in percent.
pub const MIN_MULTIPLE: f64 = 1.5;

/// Describes a ratio above 1: `30 % longer`, `2.5 times as long`.
pub fn longer(ratio: f64) -> String {
    if ratio < MIN_MULTIPLE {
        return format!("{:.0} % longer", 100.0 * (ratio - 1.0));
    }
    format!("{} times as long", trimmed(&significant(ratio)))
}

/// Formats with four significant digits and no exponent: `0.1234`, `1.234`, `123.4`, `12345`.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = value.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from(4 - digits).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// Formats like [`significant`], but down to the second digit of the error at most, if a relative error is known: `167000`
/// of 167490 ± 36 %.
pub fn significant_within(value: f64, error: Option<f64>) -> String {
    LastDigit::of(value, error).map_or_else(|| significant(value), |place| place.round(value))
}

/// Place of the last digit that an error justifies.
#[derive(Clone, Copy)]
struct LastDigit {
    /// Power of ten of that digit.
    last: i32,
    decimals: usize,
}

impl LastDigit {
    /// Returns the place for a value with a relative error; `None` without one.
    fn of(value: f64, error: Option<f64>) -> Option<Self> {
        let digit = |value: f64| value.abs().log10().floor() as i32;
        let error = error.filter(|error| *error > 0.0 && error.is_finite())?;
        if value == 0.0 || !value.is_finite() {
            return None;
        }
        // An error above the value leaves its first digit.
        let last = (digit(value * error) - 1).min(digit(value));
        let rounded = Self { last, decimals: 0 }.rounded(value);
        Some(Self { last, decimals: usize::try_from(-last.max(digit(rounded) - 3)).unwrap_or(0) })
    }

    fn rounded(self, value: f64) -> f64 {
        let step = 10f64.powi(self.last);
        if self.last > 0 { (value / step).round() * step } else { value }
    }

    fn round(self, value: f64) -> String {
        format!("{:.*}", self.decimals, self.rounded(value))
    }
}

/// Formats a fraction as a percentage: `61.4 %`.
pub fn percent(fraction: f64) -> String {
    match 100.0 * fraction {
        percent if (f64::MIN_POSITIVE..0.05).contains(&percent) => "<0.05 %".into(),
        percent => format!("{percent:.1} %"),
    }
}

/// Formats the relative error of a median by `told`: `2.0 %`. One above 100 % says only that the median is hardly known, so
/// its size is left out.
pub fn uncertainty(error: f64, told: impl Fn(f64) -> String) -> String {
    if error > 1.0 { ">100 %".into() } else { told(error) }
}

/// Ends a list that leaves out `count` items: ` and 3 more`; empty if it leaves out none.
pub fn and_more(count: usize) -> String {
    if count > 0 { format!(" and {count} more") } else { String::new() }
}

/// Removes trailing zeros of a decimal fraction: `2`, `0.5`, `1000`.
pub fn trimmed(decimal: &str) -> &str {
    if decimal.contains('.') { decimal.trim_end_matches('0').trim_end_matches('.') } else { decimal }
}

/// Formats a ratio, or an end of its interval, with `decimals`: with more if the interval excludes 1 and it would read as 1.
pub fn apart_from_one(value: f64, decimals: usize, interval: Option<[f64; 2]>) -> String {
    const MOST_MORE: usize = 6;
    let is_apart = value != 1.0 && interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0);
    let text = |decimals: usize| format!("{value:.decimals$}");
    let most = if is_apart { decimals + MOST_MORE } else { decimals };
    (decimals..=most).map(text).find(|shown| trimmed(shown) != "1").unwrap_or_else(|| text(decimals))
}

/// Formats a ratio of times with as many digits as its 95 % interval can justify: `1.050`.
pub fn ratio(value: f64) -> String {
    ratio_within(value, None)
}

/// Formats like [`ratio`]; if the interval excludes 1, with more digits where it would read as 1.
pub fn ratio_within(value: f64, interval: Option<[f64; 2]>) -> String {
    if (0.001..1000.0).contains(&value) { apart_from_one(value, 3, interval) } else { format!("{value:.2e}") }
}

/// Size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    /// Formats with binary prefixes, because Vulkan's limits are powers of two: `48 KiB`, `1.5 GiB`, `4096 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (divisor, unit) = match self.0 {
            b if b >= 1 << 40 => (1u64 << 40, "TiB"),
            b if b >= 1 << 30 => (1 << 30, "GiB"),
            b if b >= 1 << 20 => (1 << 20, "MiB"),
            b if b >= 1 << 10 => (1 << 10, "KiB"),
            _ => (1, "B"),
        };
        let text = if self.0.is_multiple_of(divisor) {
            format!("{} {unit}", self.0 / divisor)
        } else {
            format!("{:.1} {unit}", self.0 as f64 / divisor as f64)
        };
        f.pad(&text)
    }
}

impl std::str::FromStr for Bytes {
    type Err = String;

    /// Parses `4GiB`, `512 MiB`, `1.5G`, `100MB`, `4096`; decimal only with two letters such as MB.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        let unit = text[number.len()..].trim().to_ascii_lowercase();
        let prefix = unit.strip_suffix('b').unwrap_or(&unit);
        let (base, letter) = match prefix.strip_suffix('i') {
            Some(letter) if !letter.is_empty() => (1024f64, letter),
            _ if unit.len() == 2 => (1000.0, prefix),
            _ => (1024.0, prefix),
        };
        let power = ["", "k", "m", "g", "t"].iter().position(|known| *known == letter);
        match (number.parse::<f64>(), power) {
            (Ok(number), Some(power)) if number.is_finite() && number >= 0.0 => {
                Ok(Self((number * base.powi(power as i32)) as u64))
            }
            _ => Err("write a size such as 512MiB or 4GiB".into()),
        }
    }
}

/// Rate: bytes per second, or floating-point (or integer) operations per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct PerSecond(pub f64);

impl fmt::Display for PerSecond {
    /// Formats in GB/s (10⁹ bytes) or GFLOP/s with four significant digits; the column's heading has the unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&significant(self.0 * 1e-9))
    }
}

/// Nominal work of a case: the minimum for the problem, independent of the variant.
///
/// Each algorithm documents its formula (for matmul 2·M·N·K operations; each input is read once and each output written
/// once).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Work {
    /// Arithmetic operations.
    pub operations: u64,
    /// Bytes that must cross the memory interface at least.
    pub bytes: Bytes,
}

impl Work {
    /// Returns the arithmetic rate if the work took `time`.
    pub fn rate(self, time: Nanos) -> PerSecond {
        PerSecond(self.operations as f64 / time.seconds())
    }

    /// Returns the operations per joule if the work took `joules`.
    pub fn per_joule(self, joules: f64) -> PerSecond {
        PerSecond(self.operations as f64 / joules)
    }

    /// Returns the data rate if the work took `time`.
    pub fn bandwidth(self, time: Nanos) -> PerSecond {
        PerSecond(self.bytes.0 as f64 / time.seconds())
    }
}

/// Named figure of an answer, such as a growth factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Metric {
    /// Name, used as a column heading.
    pub name: String,
    /// Value; `null` if it is not finite.
    pub value: Option<f64>,
    /// Digits of an integer that `value` rounds, such as a hash of 64 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
    /// Whether every table shows it, as a part of the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown: bool,
}

impl Metric {
    /// Creates a metric that tables show on request.
    pub fn new(name: &str, value: f64) -> Self {
        Self { name: name.into(), value: value.is_finite().then_some(value), exact: None, shown: false }
    }

    /// Creates the metric of an integer.
    pub fn whole(name: &str, value: i128) -> Self {
        let rounded = value as f64;
        Self { exact: (rounded as i128 != value).then(|| value.to_string()), ..Self::new(name, rounded) }
    }

    /// Marks the metric as part of the answer, so that every table shows it.
    pub fn shown(self) -> Self {
        Self { shown: true, ..self }
    }
}

/// Parses a percentage such as `2%` into a fraction. Messages call it `what`, and suggest `remedy`. A number without a
/// percent sign is refused, because it is ambiguous: 0.5 may be 0.5 % or one half.
pub fn fraction(what: &str, text: &str, remedy: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    if let Some(percent) = text.trim_end().strip_suffix('%').and_then(number) {
        return Ok(percent / 100.0);
    }
    let quoted = brief(text);
    let Some(number) = number(text) else { return Err(format!("malformed {what} '{quoted}'; write {remedy}")) };
    let as_factor = rounded(number * 100.0);
    let may_be_factor = number < 1.0 && number != as_factor;
    let question = if may_be_factor { format!(", or {as_factor}% if it is a factor") } else { String::new() };
    Err(format!("{what} '{quoted}' has no percent sign; write {number}%{question}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_whose_interval_excludes_one_does_not_read_as_one() {
        let texts = |ratio: f64, interval: [f64; 2]| {
            [ratio, interval[0], interval[1]].map(|value| apart_from_one(value, 2, Some(interval)))
        };
        assert_eq!(texts(1.02, [1.003, 1.04]), ["1.02", "1.003", "1.04"]);
        assert_eq!(texts(0.999, [0.998, 0.999_96]), ["0.999", "0.998", "0.99996"]);
        assert_eq!(texts(1.001, [0.999, 1.004]), ["1.00"; 3]);
        assert_eq!(
            (apart_from_one(1.0, 2, Some([1.0; 2])), apart_from_one(1.001, 2, None)),
            ("1.00".into(), "1.00".into())
        );
        assert_eq!(ratio_within(1.000_02, Some([1.000_01, 1.04])), "1.00002");
    }

    #[test]
    fn a_rounded_integer_keeps_its_digits() {
        let exact = |value| Metric::whole("hash", value).exact;
        assert_eq!([exact(1 << 60), exact((1 << 60) + 1)], [None, Some(((1_u64 << 60) + 1).to_string())]);
    }

    #[test]
    fn a_rounded_number_is_what_is_written() {
        for value in [0.0, 1.0, 0.012_345_6, 1.234_56, 999.96, 12_345.67, -3.254_59, 2.5e-7] {
            assert_eq!(significant(value).parse(), Ok(rounded(value)), "{value}");
        }
    }

    #[test]
    fn a_number_has_the_digits_that_its_error_allows() {
        let texts = [0.36, 0.02, 0.000_01].map(|error| significant_within(167_490.0, Some(error)));
        assert_eq!(texts, ["167000", "167500", "167490"]);
        let texts = [1.2345, 4.0, 99.96].map(|value| significant_within(value, Some(0.36)));
        assert_eq!(texts, ["1.23", "4.0", "100"]);
        assert_eq!(significant_within(4.0, Some(90.0)), "4");
        let nothing =
            [None, Some(0.0), Some(f64::INFINITY), Some(f64::NAN)].map(|error| significant_within(1.5, error));
        assert_eq!(nothing, ["1.500"; 4]);
    }

    #[test]
    fn a_number_without_its_sign_is_refused_with_both_readings() {
        assert_eq!(fraction("share", " 0.5 % ", "2%"), Ok(0.005));
        for (text, expected) in [
            ("0.5", "share '0.5' has no percent sign; write 0.5%, or 50% if it is a factor"),
            ("2", "share '2' has no percent sign; write 2%"),
            ("1e-3", "share '1e-3' has no percent sign; write 0.001%, or 0.1% if it is a factor"),
            ("0", "share '0' has no percent sign; write 0%"),
            ("two", "malformed share 'two'; write 2%"),
            ("nan%", "malformed share 'nan%'; write 2%"),
            ("", "malformed share ''; write 2%"),
        ] {
            assert_eq!(fraction("share", text, "2%").expect_err("refused"), expected);
        }
    }

    #[test]
    fn times_are_shown_in_the_largest_unit_that_keeps_them_above_one() {
        let texts = [0.5, 999.0, 1234.5, 2.5e6, 3.25e9].map(|time| Nanos(time).to_string());
        assert_eq!(texts, ["0.5000 ns", "999.0 ns", "1.234 µs", "2.500 ms", "3.250 s"]);
    }

    #[test]
    fn bytes_use_binary_prefixes_and_stay_exact_where_they_can() {
        let texts = [512, 49_152, 1_610_612_736, 1000 << 20].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(texts, ["512 B", "48 KiB", "1.5 GiB", "1000 MiB"]);
    }

    #[test]
    fn the_rate_of_a_thousand_cubed_matmul_in_a_millisecond_is_two_teraflops() {
        let work = Work { operations: 2_000_000_000, bytes: Bytes(12_000_000) };
        assert_eq!(work.rate(Nanos(1e6)).to_string(), "2000");
    }

    #[test]
    fn a_size_is_written_as_people_write_it() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4GiB", 4 << 30),
            ("4 GiB", 4 << 30),
            ("1.5G", 3 << 29),
            ("512m", 512 << 20),
            ("100MB", 100_000_000),
            ("0", 0),
            ("7B", 7),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "GiB", "-1", "4x", "4 Gi B", "1e400", "nan", "4iB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
