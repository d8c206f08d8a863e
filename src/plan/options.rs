//! The choices for a run as they are typed: the options of `bench`, which are also the fields of a configuration.

use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::printable::brief;
use crate::basis::units;
use crate::plan::method::CacheState;
use crate::plan::method::Clock;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The options that `bench` and the `[[bench]]` tables of a configuration share. Everything is optional text here;
/// the plan gives it a meaning.
#[derive(Clone, Debug, Default, PartialEq, clap::Args, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Selection {
    /// Algorithms to measure; `gpukern list` names them.
    #[arg(value_name = "ALGORITHM")]
    #[serde(deserialize_with = "one_or_many")]
    pub algorithm: Vec<String>,

    /// Variants by name or alias; `all`; `auto`, which is the best for device, type and size: the fastest that `tune`
    /// measured, else by a model [default: all].
    #[arg(long, short = 'V', value_name = "NAME,..", value_delimiter = ',')]
    #[serde(deserialize_with = "one_or_many")]
    pub variant: Vec<String>,

    /// Sizes: 1024 · 128,1000 · 128..8192 (doubling) · 128..1024:128 (step) · 2^16..2^25 · 1000x70x130 (M×N×K).
    #[arg(long, short, value_name = "SWEEP", value_delimiter = ',', allow_negative_numbers = true)]
    #[serde(deserialize_with = "one_or_many")]
    pub size: Vec<String>,

    /// Element types: f32, f64, f16, bf16, i32, i8 [default: the first of these that a chosen variant has].
    #[arg(long, short = 't', value_name = "TYPE,..", value_delimiter = ',')]
    #[serde(deserialize_with = "one_or_many")]
    pub dtype: Vec<String>,

    /// matmul: layouts of the operands: nn (A stored M×K, B K×N), nt (B stored N×K), tn (A stored K×M) [default: nn].
    #[arg(long, value_name = "LAYOUT,..", value_delimiter = ',')]
    #[serde(deserialize_with = "one_or_many")]
    pub layout: Vec<String>,

    /// Kind of input data, such as uniform ([0,1)), signed ([-1,1)) or hilbert; `gpukern list` names
    /// those of each algorithm, its default first.
    #[arg(long, value_name = "KIND")]
    pub input: Option<String>,

    /// lu: go on to the solution of A·x = b, which is right where HPL's scaled residual is below 16; with f64, by f32
    /// factors and iterative refinement.
    #[arg(long)]
    pub solve: bool,

    /// Devices: an index, a part of the name, a UUID, `gpu`, `cpu`, `all` or `host` (its cores, without Vulkan)
    /// [default: the best GPU, else the software device].
    #[arg(
        long,
        short,
        value_name = "DEVICE,..",
        value_delimiter = ',',
        env = "GPUKERN_DEVICE",
        hide_env_values = true
    )]
    #[serde(deserialize_with = "one_or_many")]
    pub device: Vec<String>,

    /// Seed of the input data [default: 1].
    #[arg(long)]
    pub seed: Option<u64>,

    /// Sub-group sizes to require of the device [default: the device's own].
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    #[serde(deserialize_with = "one_or_many")]
    pub subgroup_size: Vec<String>,

    /// eigen: stop when neighbouring row sums differ by less than eps (`neighbour`), or when (max - min) / max of them does
    /// (`bracket`) [default: bracket].
    #[arg(long, value_name = "TEST")]
    pub stop: Option<String>,

    /// eigen: the eps of --stop [default: 1e-4].
    #[arg(long, allow_negative_numbers = true)]
    pub eps: Option<f64>,

    /// eigen: rounds after which a case has failed to converge [default: 1000].
    #[arg(long, value_name = "N")]
    pub max_rounds: Option<u32>,

    /// Sample until the 95 % confidence interval of the median is within ± this [default: 1%].
    #[arg(long, value_name = "PERCENT")]
    pub precision: Option<String>,

    /// Stop sampling a case after this time, even if less precise [default: 2s].
    #[arg(long, value_name = "TIME")]
    pub max_time: Option<String>,

    /// What times a sample: `device` (timestamps around the work) or `host` (its clock around a submission of at
    /// least 100 ms of repetitions) [default: device].
    #[arg(long, value_name = "CLOCK")]
    pub clock: Option<String>,

    /// Caches before each run: `hot` (as the kernel left them) or `cold` (emptied by reading a GiB, a quarter of the
    /// device's memory at most) [default: hot].
    #[arg(long, value_name = "STATE")]
    pub cache: Option<String>,

    /// Wait so long before each sample, so that the device idles and lowers its clock. For tests.
    #[arg(long, value_name = "TIME", hide = true)]
    pub pause: Option<String>,

    /// Published figures of the same work, printed beside ours. Only in configurations.
    #[arg(skip)]
    #[serde(skip_serializing)]
    pub published: Vec<Published>,
}

/// The scope of a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contains {
    /// The kernels alone.
    Kernel,
    /// The upload of the operands too.
    UploadAndKernel,
    /// The source does not say.
    NotStated,
}

/// Figures that a source document published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub source: String,
    /// The device that was measured there.
    pub device: String,
    pub contains: Contains,
    /// The algorithm, where the table has several.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// The element type, where the table has several.
    #[serde(default)]
    pub dtype: Option<DType>,
    /// Milliseconds by variant and size.
    pub milliseconds: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Published {
    /// What is wrong with the figures.
    pub(super) fn error(&self, message: &str) -> String {
        format!("published figures of '{}': {message}", brief(&self.source))
    }
}

impl Selection {
    /// These options, and those of `config` where these say nothing.
    #[must_use]
    pub fn or(self, config: Self) -> Self {
        fn list<T>(own: Vec<T>, other: Vec<T>) -> Vec<T> {
            if own.is_empty() { other } else { own }
        }
        Self {
            algorithm: list(self.algorithm, config.algorithm),
            variant: list(self.variant, config.variant),
            size: list(self.size, config.size),
            dtype: list(self.dtype, config.dtype),
            layout: list(self.layout, config.layout),
            input: self.input.or(config.input),
            solve: self.solve || config.solve,
            device: list(self.device, config.device),
            seed: self.seed.or(config.seed),
            subgroup_size: list(self.subgroup_size, config.subgroup_size),
            stop: self.stop.or(config.stop),
            eps: self.eps.or(config.eps),
            max_rounds: self.max_rounds.or(config.max_rounds),
            precision: self.precision.or(config.precision),
            max_time: self.max_time.or(config.max_time),
            clock: self.clock.or(config.clock),
            cache: self.cache.or(config.cache),
            pause: self.pause.or(config.pause),
            published: list(self.published, config.published),
        }
    }
}

/// A configuration file: runs that belong together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// One sweep each, with the fields of [`Selection`].
    #[serde(default)]
    pub bench: Vec<Selection>,
    /// Kernels of the user's.
    #[serde(default)]
    pub run: Vec<RunTable>,
}

/// Kernels of the user's in a configuration, as `run` takes them. Paths are relative to the folder of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RunTable {
    /// The description of the kernels.
    pub description: Option<PathBuf>,
    /// Kernels in place of those of the description.
    #[serde(deserialize_with = "one_or_many")]
    pub kernel: Vec<String>,
    /// Values of axes: `M=512..4096`.
    #[serde(deserialize_with = "one_or_many")]
    pub size: Vec<String>,
    /// Variants of the built-in algorithm that is the reference.
    #[serde(deserialize_with = "one_or_many")]
    pub against: Vec<String>,
}

/// `"naive"`, `1024` or a list of such, where the command line takes a comma-separated list.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Scalar {
        Integer(u64),
        Text(String),
    }
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a string, a positive integer or a list of them")]
    enum OneOrMany {
        One(Scalar),
        Many(Vec<Scalar>),
    }
    let scalars = match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(scalar) => vec![scalar],
        OneOrMany::Many(scalars) => scalars,
    };
    let text = scalars.into_iter().map(|scalar| match scalar {
        Scalar::Integer(value) => value.to_string(),
        Scalar::Text(text) => text,
    });
    Ok(text.flat_map(|text| text.split(',').map(|item| item.trim().to_string()).collect::<Vec<_>>()).collect())
}

/// A fraction from `1%` or `0.01`.
///
/// # Errors
/// A message when it is no number, or not above 0 and at most 100 %.
pub(crate) fn precision(text: &str) -> Result<f64, String> {
    let malformed = || format!("malformed precision '{}'; write a percentage such as 1% or 0.5%", brief(text));
    let value = units::fraction(text).ok_or_else(malformed)?;
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err(format!("precision '{text}' is out of range; write a percentage above 0% and up to 100%"))
    }
}

/// A time such as `500ms`, `5s` or `1m`.
///
/// # Errors
/// A message when it is malformed or not positive.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let time: jiff::SignedDuration =
        text.parse().map_err(|_| format!("malformed time '{}'; write 500ms, 5s or 1m", brief(text)))?;
    match Duration::try_from(time) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("time '{}' is not positive; write 500ms, 5s or 1m", brief(text))),
    }
}

/// The clock that `--clock` names.
///
/// # Errors
/// A message when there is none of this name.
pub(crate) fn clock(text: &str) -> Result<Clock, String> {
    match text {
        "device" => Ok(Clock::DeviceTimestamps),
        "host" => Ok(Clock::Host),
        _ => Err(error::unknown("clock", text, "", &["device", "host"])),
    }
}

/// The state of the caches that `--cache` names.
///
/// # Errors
/// A message when there is none of this name.
pub(crate) fn cache(text: &str) -> Result<CacheState, String> {
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
        assert!(config.bench[0].solve);
        assert_eq!(config.bench[0].variant, ["naive", "v2"]);
        assert_eq!(config.bench[0].size, ["128..256", "1000"]);
    }

    #[test]
    fn an_unknown_field_is_refused_by_name() {
        let error = toml::from_str::<Config>("[[bench]]\nvariants = 'all'").expect_err("no such field").to_string();
        assert!(error.contains("unknown field `variants`") && error.contains("`variant`"), "{error}");
    }

    #[test]
    fn the_command_line_wins_over_the_configuration() {
        let file = Selection { size: vec!["64".into()], seed: Some(3), ..Selection::default() };
        let typed = Selection { size: vec!["128".into()], ..Selection::default() };
        let merged = typed.or(file);
        assert_eq!((merged.size, merged.seed), (vec!["128".to_string()], Some(3)));
    }

    #[test]
    fn precision_is_a_percentage_or_a_fraction() {
        assert_eq!((precision("1%"), precision("0.5 %"), precision("0.02")), (Ok(0.01), Ok(0.005), Ok(0.02)));
        for text in ["0%", "-1%", "200%", "1", "x", "nan", "inf"] {
            assert!(precision(text).is_err(), "{text}");
        }
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
