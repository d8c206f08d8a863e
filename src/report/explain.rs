//! The table of `bench --explain`.

use super::table::Table;
use crate::algorithms::Candidate;
use crate::basis::units::Nanos;
use crate::device::capability::DeviceInfo;
use crate::plan::CaseGroup;
use serde::Serialize;
use std::fmt::Write;

/// What `auto` chooses from for a problem, as a document.
#[derive(Serialize)]
pub(crate) struct Explanation {
    device: String,
    algorithm: String,
    size: String,
    dtype: String,
    layout: String,
    candidates: Vec<Timed>,
}

/// A candidate, what should be fastest first: the first is what `auto` takes.
#[derive(Serialize)]
struct Timed {
    variant: &'static str,
    tile: Option<String>,
    predicted_ns: f64,
    /// The median, or why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Explanation {
    pub(crate) fn new(
        device: &DeviceInfo,
        group: &CaseGroup,
        candidates: &[Candidate],
        times: Vec<Result<Nanos, String>>,
    ) -> Self {
        let spec = &group.spec;
        let timed = candidates.iter().zip(times).map(|(own, time)| Timed {
            variant: own.variant,
            tile: own.tile.map(String::from),
            predicted_ns: own.predicted.0,
            measured_ns: time.as_ref().ok().map(|time| time.0),
            reason: time.err(),
        });
        Self {
            device: device.name.clone(),
            algorithm: group.algorithm.name.to_string(),
            size: spec.size.to_string(),
            dtype: spec.dtype.to_string(),
            layout: spec.layout.to_string(),
            candidates: timed.collect(),
        }
    }
}

/// A line for each candidate: its predicted and its measured time, or why it has none; and what `auto` loses by its choice.
#[must_use]
pub(crate) fn text(
    device: &DeviceInfo,
    group: &CaseGroup,
    candidates: &[Candidate],
    times: &[Result<Nanos, String>],
) -> String {
    let spec = &group.spec;
    let (algorithm, layout) = (&group.algorithm.name, spec.layout.unusual());
    let layout = layout.map_or_else(String::new, |layout| format!(" {layout}"));
    let mut out =
        format!("{algorithm} {} {}{layout}, {}: what auto chooses from\n\n", spec.size, spec.dtype, device.name);
    let best = times.iter().flatten().map(|time| time.0).fold(f64::INFINITY, f64::min);
    let mut table = Table::default().text(["variant", "tile"]).numbers(["predicted", "measured", "of the fastest"]);
    for (candidate, time) in candidates.iter().zip(times) {
        let micros = |time: Nanos| format!("{:.2} µs", time.0 * 1e-3);
        let [measured, ratio] = match time {
            Ok(time) => [micros(*time), format!("{:.2} ×", time.0 / best)],
            Err(why) => [why.clone(), "–".into()],
        };
        let tile = candidate.tile.map_or_else(|| "–".into(), |tile| tile.to_string());
        table.row([candidate.variant.into(), tile, micros(candidate.predicted), measured, ratio]);
    }
    out.push_str(&table.terminal(usize::MAX));
    match (candidates.first(), times.first()) {
        (Some(first), Some(Ok(time))) => {
            let _ = writeln!(
                out,
                "\nauto takes the first, {}: {:.2} × the fastest of these\n",
                first.variant,
                time.0 / best
            );
        }
        _ => out.push('\n'),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::CaseSpec;
    use crate::algorithms::matmul::MATMUL;
    use crate::basis::dtype::DType;
    use crate::basis::layout::Layout;
    use crate::basis::size::Size;
    use crate::device::capability::tests::software_device;
    use crate::plan::{DeviceClass, VariantChoice};

    #[test]
    fn the_choice_is_held_against_the_fastest_and_failures_say_why() {
        let spec = CaseSpec::new(&MATMUL, Size::Three(8, 9, 10), DType::F32);
        let (variants, pick, on) = (vec![], VariantChoice::Auto, DeviceClass::Any);
        let group = CaseGroup { algorithm: (&MATMUL).into(), spec, variants, on, pick, on_host: false };
        let candidate = |variant, predicted| Candidate { variant, tile: None, predicted: Nanos(predicted) };
        let candidates = [candidate("texel", 1000.0), candidate("naive", 2000.0), candidate("local", 3000.0)];
        let times = [Ok(Nanos(3000.0)), Ok(Nanos(1500.0)), Err("its answer is wrong: C[0] is 1".into())];
        let text = text(&software_device(), &group, &candidates, &times);
        let transposed = CaseGroup { spec: spec.with(|options| options.layout = Layout::Nt), ..group.clone() };
        let heading = super::text(&software_device(), &transposed, &[], &[]);
        assert!(heading.starts_with("matmul 8x9x10 f32 nt, "), "{heading}");
        for part in
            ["matmul 8x9x10 f32", "1.00 µs", "3.00 µs", "2.00 ×", "C[0] is 1", "auto takes the first, texel: 2.00 ×"]
        {
            assert!(text.contains(part), "lacks '{part}': {text}");
        }
    }
}
