//! Typed options of `bench`, which are also the fields of a configuration.

use super::Sampling;
use super::axes::{self, AxisValues, Value};
use crate::basis::error;
use crate::basis::printable::brief;
use crate::basis::units;
use crate::case::method::{CacheState, Clock};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Options that `bench` and the `[[bench]]` tables of a configuration share, as optional text that the plan interprets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Selection {
    /// Names of algorithms.
    pub algorithm: Vec<String>,
    /// Names, aliases and patterns of variants.
    pub variant: Vec<String>,
    /// Sizes and sweeps.
    pub size: Vec<String>,
    /// Values of axes: element type, layout, input and others.
    #[serde(flatten)]
    pub axes: AxisValues,
    /// Selectors of devices.
    pub device: Vec<String>,
    /// Options of sampling.
    #[serde(flatten)]
    pub sampling: SamplingArgs,
    /// Time to idle before each sample, for tests.
    pub pause: Option<String>,
}

/// Typed options of sampling, of `bench` and `run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SamplingArgs {
    /// Relative distance of the median's interval from it at which sampling ends.
    pub precision: Option<String>,
    /// Longest time for the samples of a case.
    pub max_time: Option<String>,
    /// Clock of the samples: device or host.
    pub clock: Option<String>,
    /// Caches before each run: hot or cold.
    pub cache: Option<String>,
    /// Whether energy is measured too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub energy: bool,
}

impl Selection {
    /// Completes these options by those of `config`.
    pub fn or(self, config: Self) -> Self {
        fn list(typed: Vec<String>, other: Vec<String>) -> Vec<String> {
            if typed.is_empty() { other } else { typed }
        }
        Self {
            algorithm: list(self.algorithm, config.algorithm),
            variant: list(self.variant, config.variant),
            size: list(self.size, config.size),
            axes: self.axes.or(config.axes),
            device: list(self.device, config.device),
            sampling: SamplingArgs {
                precision: self.sampling.precision.or(config.sampling.precision),
                max_time: self.sampling.max_time.or(config.sampling.max_time),
                clock: self.sampling.clock.or(config.sampling.clock),
                cache: self.sampling.cache.or(config.sampling.cache),
                energy: self.sampling.energy || config.sampling.energy,
            },
            pause: self.pause.or(config.pause),
        }
    }

    /// Interprets the options of sampling.
    ///
    /// # Errors
    /// When an option is wrong.
    pub fn sampling(&self) -> Result<Sampling, String> {
        let default = Sampling::default();
        let typed = &self.sampling;
        let clock = typed.clock.as_deref().map(clock).transpose()?.unwrap_or(default.clock);
        let cache = typed.cache.as_deref().map(cache).transpose()?.unwrap_or(default.cache);
        if (clock, cache) == (Clock::Host, CacheState::Cold) {
            return Err(
                "--clock host times whole submissions, and with --cache cold these empty the caches; leave out one"
                    .into(),
            );
        }
        if typed.energy && cache == CacheState::Cold {
            return Err(
                "--energy lets a case run back to back, and --cache cold empties the caches in between; leave out \
                        one"
                .into(),
            );
        }
        let precision = typed.precision.as_deref().map(precision).transpose()?;
        let parse_time = |text: &str, option: &str| duration(text).map_err(|e| format!("{option}: {e}"));
        let max_time = typed.max_time.as_deref().map(|text| parse_time(text, "--max-time")).transpose()?;
        Ok(Sampling {
            precision: precision.unwrap_or(default.precision),
            max_time: max_time.unwrap_or(default.max_time),
            clock,
            cache,
            patience: None,
            pause: self.pause.as_deref().map(|text| parse_time(text, "--pause")).transpose()?,
            energy: typed.energy,
        })
    }
}

/// Fields of a `[[bench]]` table, apart from axes.
const FIELDS: [&str; 10] =
    ["algorithm", "variant", "size", "device", "precision", "max-time", "clock", "cache", "energy", "pause"];

/// Name of a field that a `[[bench]]` table can have.
struct Field(String);

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if FIELDS.contains(&&*name) || axes::find(&name).is_some() {
            return Ok(Self(name));
        }
        let fields = FIELDS.into_iter().chain(axes::AXES.iter().map(|axis| axis.name));
        let fields: Vec<_> = fields.map(|name| format!("`{name}`")).collect();
        Err(D::Error::custom(format!("unknown field `{name}`, expected one of {}", fields.join(", "))))
    }
}

impl<'de> Deserialize<'de> for Selection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SelectionVisitor;

        impl<'de> Visitor<'de> for SelectionVisitor {
            type Value = Selection;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of options of `bench`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Selection, A::Error> {
                let mut selection = Selection::default();
                while let Some(Field(name)) = map.next_key()? {
                    let list = match &*name {
                        "algorithm" => &mut selection.algorithm,
                        "variant" => &mut selection.variant,
                        "size" => &mut selection.size,
                        "device" => &mut selection.device,
                        _ => {
                            selection.read_value(&name, &mut map)?;
                            continue;
                        }
                    };
                    *list = map.next_value::<ValueOrList>()?.texts();
                }
                Ok(selection)
            }
        }

        deserializer.deserialize_map(SelectionVisitor)
    }
}

impl Selection {
    /// Reads the value of a field that is no list of algorithms, variants, sizes or devices.
    fn read_value<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        let field = match name {
            "precision" => &mut self.sampling.precision,
            "max-time" => &mut self.sampling.max_time,
            "clock" => &mut self.sampling.clock,
            "cache" => &mut self.sampling.cache,
            "pause" => &mut self.pause,
            "energy" => {
                self.sampling.energy = map.next_value()?;
                return Ok(());
            }
            _ => {
                let Some(axis) = axes::find(name) else { return Ok(()) };
                let texts = match axis.value {
                    Value::List(..) => map.next_value::<ValueOrList>()?.texts(),
                    Value::Word(_) => vec![map.next_value()?],
                    Value::Whole(..) => vec![map.next_value::<Whole>()?.0.to_string()],
                    Value::Real(_) => vec![map.next_value::<f64>()?.to_string()],
                    Value::Flag if map.next_value()? => vec!["true".into()],
                    Value::Flag => vec![],
                };
                self.axes.set(axis, texts);
                return Ok(());
            }
        };
        *field = Some(map.next_value()?);
        Ok(())
    }
}

/// Whole number, or its text if it is too large for TOML.
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        if let Some(Ok(number)) = value.as_str().map(str::parse) {
            return Ok(Self(number));
        }
        u64::deserialize(value).map(Self).map_err(D::Error::custom)
    }
}

/// Configuration file: measurements that belong together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Sweeps, with the fields of [`Selection`].
    #[serde(default)]
    pub bench: Vec<Selection>,
    /// Runs of the user's kernels, with their places in the file.
    #[serde(default)]
    pub run: Vec<toml::Spanned<RunTable>>,
}

/// User's kernels in a configuration, with the arguments of `run`. Paths are relative to the configuration's folder.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunTable {
    /// Description of the kernels.
    pub description: Option<PathBuf>,
    /// Kernels in place of those of the description.
    #[serde(deserialize_with = "arguments")]
    pub kernel: Vec<String>,
    /// Values of axes: `M=512..4096`; a list of values is for the only axis.
    #[serde(deserialize_with = "sizes")]
    pub size: Vec<String>,
    /// Variants of the built-in algorithm that is the reference.
    #[serde(deserialize_with = "one_or_many")]
    pub against: Vec<String>,
    /// Line of the table, from 1.
    #[serde(skip)]
    pub line: usize,
}

/// `"naive"`, `1024` or a list of them: the command line takes a comma-separated list.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, a positive integer or a list of them")]
enum ValueOrList {
    One(TextOrInteger),
    Many(Vec<TextOrInteger>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrInteger {
    Integer(u64),
    Text(String),
}

impl ValueOrList {
    /// Returns a text for each argument of the command line.
    fn arguments(self) -> Vec<String> {
        let scalars = match self {
            Self::One(scalar) => vec![scalar],
            Self::Many(scalars) => scalars,
        };
        let text = |scalar| match scalar {
            TextOrInteger::Integer(value) => value.to_string(),
            TextOrInteger::Text(text) => text,
        };
        scalars.into_iter().map(text).collect()
    }

    /// Returns the items of arguments that the command line separates at commas.
    fn texts(self) -> Vec<String> {
        let arguments = self.arguments();
        arguments.iter().flat_map(|text| text.split(',')).map(|item| item.trim().to_string()).collect()
    }
}

fn arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    ValueOrList::deserialize(deserializer).map(ValueOrList::arguments)
}

/// Reads `N=64,128`, or a list whose values without a name belong to the only axis.
fn sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let sizes = arguments(deserializer)?;
    let is_of_axis = !sizes.is_empty() && sizes.iter().all(|size| !size.contains(['=', '@']));
    Ok(if is_of_axis { vec![sizes.join(",")] } else { sizes })
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    ValueOrList::deserialize(deserializer).map(ValueOrList::texts)
}

/// Parses a percentage such as `1%` into a fraction.
///
/// # Errors
/// When the text is not a percentage above 0 and up to 100 %.
pub fn precision(text: &str) -> Result<f64, String> {
    let refusal = format!("precision '{text}' is out of range; write a percentage above 0% and up to 100%");
    // A bare number in this range is neither a fraction nor a percentage.
    if text.trim().parse::<f64>().is_ok_and(|bare| bare <= 0.0 || bare > 100.0) {
        return Err(refusal);
    }
    let value = units::fraction("precision", text, "a percentage such as 1% or 0.5%")?;
    if value > 0.0 && value <= 1.0 { Ok(value) } else { Err(refusal) }
}

/// Parses a time such as `500ms`, `5s` or `1m`.
///
/// # Errors
/// When the text is malformed or not positive.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time: jiff::SignedDuration =
        text.parse().map_err(|_| format!("malformed time '{}'; write 500ms, 5s or 1m", brief(text)))?;
    match Duration::try_from(time) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("time '{}' is not positive; write 500ms, 5s or 1m", brief(text))),
    }
}

/// Parses the value of `--clock`.
///
/// # Errors
/// When there is no clock with this name.
pub fn clock(text: &str) -> Result<Clock, String> {
    match text {
        "device" => Ok(Clock::DeviceTimestamps),
        "host" => Ok(Clock::Host),
        _ => Err(error::unknown("clock", text, "", &["device", "host"])),
    }
}

/// Parses the value of `--cache`.
///
/// # Errors
/// When there is no state with this name.
pub fn cache(text: &str) -> Result<CacheState, String> {
    match text {
        "hot" => Ok(CacheState::Hot),
        "cold" => Ok(CacheState::Cold),
        _ => Err(error::unknown("cache state", text, "", &["hot", "cold"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_the_fields_of_the_command_line() {
        let config: Config = toml::from_str(
            "[[bench]]\nalgorithm = 'matmul'\nvariant = ['naive', 'v2']\nsize = ['128..256', 1000]\nmax-time = '1s'\nsolve = true",
        )
        .expect("a valid configuration");
        assert!(config.bench[0].axes.has(&axes::GOAL));
        assert_eq!(config.bench[0].variant, ["naive", "v2"]);
        assert_eq!(config.bench[0].size, ["128..256", "1000"]);
    }

    #[test]
    fn a_run_takes_the_values_of_an_axis_in_a_text_or_a_list() {
        let sizes = |size: &str| {
            let config: Config = toml::from_str(&format!("[[run]]\nsize = {size}")).expect("valid");
            config.run[0].get_ref().size.clone()
        };
        for size in ["'64,128'", "[64, 128]", "['64', 128]", "['64,128']"] {
            assert_eq!(sizes(size), ["64,128"], "{size}");
        }
        assert_eq!(sizes("'N=64,128'"), ["N=64,128"]);
        assert_eq!(sizes("['N=64,128', 'M=2..8']"), ["N=64,128", "M=2..8"]);
        assert_eq!(sizes("[]"), [""; 0]);
    }

    #[test]
    fn an_unknown_field_is_refused_by_name() {
        let error = toml::from_str::<Config>("[[bench]]\nvariants = 'all'").expect_err("no such field").to_string();
        assert!(error.contains("unknown field `variants`") && error.contains("`variant`"), "{error}");
    }

    #[test]
    fn the_command_line_wins_over_the_configuration() {
        let seed = AxisValues::default().with("seed", 3);
        let file = Selection { size: vec!["64".into()], axes: seed.clone(), ..Selection::default() };
        let typed = Selection { size: vec!["128".into()], ..Selection::default() };
        let merged = typed.or(file);
        assert_eq!((merged.size, merged.axes), (vec!["128".to_string()], seed));
    }

    #[test]
    fn precision_is_a_percentage() {
        assert_eq!((precision("1%"), precision("0.5 %")), (Ok(0.01), Ok(0.005)));
        for text in ["0%", "-1%", "200%", "1", "0.02", "x", "nan%", "inf"] {
            assert!(precision(text).is_err(), "{text}");
        }
        let error = precision("0").expect_err("0% would be refused as well");
        assert_eq!(error, "precision '0' is out of range; write a percentage above 0% and up to 100%");
    }

    #[test]
    fn times_need_a_unit_and_a_positive_value() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        for text in ["5", "0s", "-1s", "soon", ""] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
