//! Table of `bench --explain`.

use super::document::Document;
use super::grid::percent;
use super::or_dash;
use super::table::{Cell, Table};
use crate::algorithms::Candidate;
use crate::algorithms::tile::Tile;
use crate::basis::units::{Nanos, uncertainty};
use crate::case::CaseOptions;
use crate::case::method::CacheState;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::plan::{CaseGroup, axes};
use crate::stats::Summary;
use crate::tuning;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Candidates of `auto` for a problem, as a JSON document.
#[derive(Serialize)]
pub struct Explanation {
    device: String,
    algorithm: String,
    size: String,
    cache: CacheState,
    /// Axis values that the choice depends on.
    #[serde(flatten, serialize_with = "write_axes")]
    options: CaseOptions,
    candidates: Vec<TimedCandidate>,
    /// Variants that can run, but that the model does not cover, or predicts to be far slower.
    not_considered: Vec<String>,
    /// Why `auto` takes the first candidate: `auto chose tiled, by its model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<String>,
    #[serde(skip)]
    kind: DeviceKind,
}

/// Ratio of times from which a choice of `auto` calls for measured ones.
const MAX_LOSS: f64 = 1.1;

/// Candidate of `auto` with its times. `auto` takes the first.
#[derive(Serialize)]
struct TimedCandidate {
    variant: &'static str,
    tile: Option<Tile>,
    predicted_ns: Nanos,
    /// Its times, if it has some: `measured_ns`, the median, and `interval_ns`, its 95 % interval, absent below six samples.
    #[serde(flatten, serialize_with = "write_times")]
    measured: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

fn write_axes<S: Serializer>(options: &CaseOptions, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(axes::tile_columns().map(|column| (column.name, (column.value)(options))))
}

#[allow(clippy::ref_option, reason = "serde passes the field")]
fn write_times<S: Serializer>(times: &Option<Summary>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    if let Some(times) = times {
        map.serialize_entry("measured_ns", &times.median)?;
        if let Some(interval) = times.interval {
            map.serialize_entry("interval_ns", &interval)?;
        }
    }
    map.end()
}

impl Explanation {
    pub fn new(
        device: &DeviceInfo,
        group: &CaseGroup,
        candidates: &[Candidate],
        times: Vec<Result<Summary, String>>,
        not_considered: Vec<String>,
        choice: Option<String>,
        cache: CacheState,
    ) -> Self {
        let spec = &group.spec;
        let timed = candidates.iter().zip(times).map(|(candidate, time)| TimedCandidate {
            variant: candidate.variant,
            tile: candidate.tile,
            predicted_ns: candidate.predicted,
            measured: time.as_ref().ok().copied(),
            reason: time.err(),
        });
        Self {
            device: device.name.clone(),
            algorithm: group.algorithm.name.to_string(),
            size: spec.size.to_string(),
            cache,
            options: spec.options,
            candidates: timed.collect(),
            not_considered,
            choice,
            kind: device.kind,
        }
    }

    /// Prints the times of each candidate, the reasons for missing ones, and the loss due to the choice of `auto`.
    pub fn text(&self, width: usize) -> String {
        let Self { device, algorithm, size, cache, options, candidates, not_considered, choice, kind } = self;
        let mut document = Document::default();
        let heading = axes::heading(&format!("{algorithm} {size}"), options, |_| true);
        let caches = if *cache == CacheState::Cold { ", caches cold" } else { "" };
        document.line(format!("{heading}, {device}{caches}: what auto chooses from"));
        document.gap();
        let measured = candidates.iter().filter_map(|candidate| candidate.measured);
        let fastest = measured.min_by(|a, b| a.median.0.total_cmp(&b.median.0));
        let over_fastest = |own: &Summary| fastest.map(|best| format!("{:.2}", own.median.0 / best.median.0));
        let table = Table::default().text(["variant"]).numbers(["predicted", "measured", "÷ best"]);
        let mut table = table.prose(["tile"]);
        let mut failures = vec![];
        for TimedCandidate { variant, tile, predicted_ns, measured, reason, .. } in candidates {
            let tile = tile.map(|tile| tile.to_string()).unwrap_or_default();
            if let Some(reason) = reason {
                failures.push(format!("{}: {reason}", format!("{variant} {tile}").trim_end()));
            }
            let time = measured.map_or_else(
                || "–".into(),
                |own| {
                    let error = own.relative_error().filter(|error| error.is_finite());
                    let detail = error.map_or_else(String::new, |error| format!("±{}", uncertainty(error, percent)));
                    Cell { detail, ..Cell::time(own.median) }
                },
            );
            let ratio = or_dash(measured.as_ref().and_then(over_fastest));
            table.row([Cell::code(*variant), Cell::time(*predicted_ns), time, ratio.into(), tile.into()]);
        }
        table.unify_units(&["predicted", "measured"]);
        table.leave_out_empty(&["tile"], "");
        document.table(table);
        document.gap();
        document.lines(failures);
        if let Some((TimedCandidate { variant, measured: Some(own), .. }, best)) = candidates.first().zip(fastest) {
            document.lines(verdict(variant, algorithm, (*cache, *kind), [own, &best]));
            document.lines(choice.as_deref());
        }
        if !not_considered.is_empty() {
            let names = not_considered.join(", ");
            document.line(format!("not timed here: {names}; `gpukern bench {algorithm} -V NAME` times one"));
        }
        document.gap();
        document.terminal(width)
    }
}

/// Says how the first candidate, which `auto` takes, compares with the fastest, and what to do about a loss.
fn verdict(
    variant: &str,
    algorithm: &str,
    (cache, kind): (CacheState, DeviceKind),
    [own, best]: [&Summary; 2],
) -> Vec<String> {
    let lost = own.median.0 / best.median.0;
    let cold = if cache.is_hot() { "" } else { " --cache cold" };
    let has_intervals = own.interval.is_some() && best.interval.is_some();
    // As in searches, a time without an interval is off by a factor of two at most.
    let sides = [("own".into(), own.median, own.interval), ("best".into(), best.median, best.interval)];
    // A moment's load may slow a single run on the host's cores down by any factor.
    let is_clear = lost > 1.0 && tuning::tied(&sides, kind).is_empty() && (has_intervals || !kind.runs_on_host_cores());
    let mut sentences = vec![match lost {
        _ if is_clear => {
            let about = if has_intervals { "" } else { "about " };
            format!("auto takes the first, {variant}, which takes {about}{lost:.2} × the time of the fastest")
        }
        _ if !has_intervals => format!(
            "auto takes the first, {variant}; there are too few samples to tell which is the fastest: `gpukern bench {algorithm} \
             --variant NAME,..{cold} --max-time 10s` takes more"
        ),
        1.0 => format!("auto takes the first, {variant}, which has the shortest time"),
        _ => format!("auto takes the first, {variant}: it took {lost:.2} × the shortest time, which noise may explain"),
    }];
    if lost > MAX_LOSS && is_clear {
        sentences.push(format!(
            "to have it take the fastest here: `gpukern tune {algorithm}{cold}` with this size, type and layout"
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::algorithms::CaseSpec;
    use crate::basis::dtype::DType;
    use crate::basis::size::Size;
    use crate::device::fixture::software_device;
    use crate::kernels::matmul::MATMUL;
    use crate::plan::axes::AXES;

    fn group(spec: CaseSpec) -> CaseGroup {
        let algorithm = (&MATMUL).into();
        CaseGroup { auto: true, ..CaseGroup::new(algorithm, spec, vec![]) }
    }

    fn times(samples: &[f64]) -> Summary {
        Summary::of(&samples.iter().copied().map(Nanos).collect::<Vec<_>>()).expect("samples")
    }

    #[test]
    fn the_choice_is_held_against_the_fastest_and_failures_say_why() {
        let group = group(CaseSpec::new(&MATMUL, Size::Three(8, 9, 10), DType::F32));
        let candidate = |variant, predicted| Candidate { variant, tile: None, predicted: Nanos(predicted) };
        let candidates = [candidate("texel", 1000.0), candidate("naive", 2000.0), candidate("local", 3000.0)];
        let text_on = |kind, texel: &[f64]| {
            let device = DeviceInfo { kind, ..software_device() };
            let wrong = Err("its answer is wrong: C[0] is 1".into());
            let times = vec![Ok(times(texel)), Ok(times(&[1500.0; 8])), wrong];
            let others = vec!["tile-1d".into()];
            Explanation::new(&device, &group, &candidates, times, others, None, CacheState::Cold).text(80)
        };
        let text = |texel: &[f64]| text_on(DeviceKind::Cpu, texel);
        let scattered = [1400.0, 1450.0, 1500.0, 2990.0, 3010.0, 4000.0, 5000.0, 6000.0];
        insta::assert_snapshot!(
            text(&[3000.0; 8]) + "========\n" + &text(&scattered) + "========\n" + &text(&[3000.0; 4])
        );
        // So far apart, few samples tell on a GPU, but not beside other programs.
        assert!(text(&[9000.0; 4]).contains("too few samples to tell"));
        let lines = text_on(DeviceKind::DiscreteGpu, &[9000.0; 4]);
        assert!(lines.contains("auto takes the first, texel, which takes about 6.00 × the time"), "{lines}");
        assert!(lines.contains("to have it take the fastest here: ") && !lines.contains("too few"), "{lines}");
    }

    #[test]
    fn the_longest_tiles_wrap_in_eighty_columns() {
        let spec = CaseSpec::new(&MATMUL, Size::Uniform(4096), DType::F32);
        let device = DeviceInfo { name: "a device ".repeat(9), ..software_device() };
        let tiles = MATMUL.tunable.iter().flat_map(|tunable| MATMUL.tiles(tunable, &spec, &device));
        let longest = tiles.max_by_key(|tile| tile.to_string().chars().count());
        assert!(longest.is_some());
        let candidate = Candidate { variant: "subgroup-shuffle", tile: longest, predicted: Nanos(1e9) };
        let reason = "its answer is wrong ".repeat(9);
        for time in [Ok(times(&[1e9])), Err(reason)] {
            let text = Explanation::new(&device, &group(spec), &[candidate], vec![time], vec![], None, CacheState::Hot)
                .text(80);
            assert!(widest(&text) <= 80, "{text}");
        }
    }

    #[test]
    fn no_value_of_an_axis_is_lost() {
        for axis in AXES {
            let options = crate::plan::fixture::unusual_on(axis);
            let spec = CaseSpec { options, ..CaseSpec::new(&MATMUL, Size::Three(8, 9, 10), DType::F32) };
            let explanation =
                Explanation::new(&software_device(), &group(spec), &[], vec![], vec![], None, CacheState::Hot);
            let heading = axes::heading("matmul 8x9x10", &options, |_| true);
            assert!(explanation.text(200).starts_with(&format!("{heading}, ")), "{}", explanation.text(200));
            let document = serde_json::to_value(explanation).expect("JSON");
            let column = axis.column.as_ref().filter(|_| axis.separates.tiles);
            assert!(column.is_none_or(|column| document[column.name] == (column.value)(&options)), "{document}");
        }
    }
}
