//! The table of `bench --explain`.

use super::table;
use crate::algorithms::Candidate;
use crate::basis::units::Nanos;
use crate::device::capability::DeviceInfo;
use crate::plan::CaseGroup;
use std::fmt::Write;

/// A line for each candidate: its predicted and its measured time, or why it has none; and what `auto` loses by its choice.
#[must_use]
pub(crate) fn text(
    device: &DeviceInfo,
    group: &CaseGroup,
    candidates: &[Candidate],
    times: &[Result<Nanos, String>],
) -> String {
    let spec = &group.spec;
    let mut out =
        format!("{} {} {}, {}: what auto chooses from\n\n", group.algorithm.name, spec.size, spec.dtype, device.name);
    let best = times.iter().flatten().map(|time| time.0).fold(f64::INFINITY, f64::min);
    let mut table = table::new(["variant", "tile", "predicted", "measured", "of the fastest"]);
    for (candidate, time) in candidates.iter().zip(times) {
        let micros = |time: Nanos| format!("{:.2} µs", time.0 * 1e-3);
        let [measured, ratio] = match time {
            Ok(time) => [micros(*time), format!("{:.2} ×", time.0 / best)],
            Err(why) => [why.clone(), "–".into()],
        };
        let tile = candidate.tile.map_or_else(|| "–".into(), |tile| tile.to_string());
        table.add_row(table::row([candidate.variant.into(), tile, micros(candidate.predicted), measured, ratio], 2));
    }
    out.push_str(&table::text(&table));
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
    use crate::basis::size::Size;
    use crate::device::capability::tests::software_device;
    use crate::plan::{DeviceClass, VariantChoice};

    #[test]
    fn the_choice_is_held_against_the_fastest_and_failures_say_why() {
        let spec = CaseSpec::new(&MATMUL, Size::Three(8, 9, 10), DType::F32);
        let (variants, pick, on) = (vec![], VariantChoice::Auto, DeviceClass::Any);
        let group = CaseGroup { algorithm: &MATMUL, spec, variants, on, pick, on_host: false };
        let candidate = |variant, predicted| Candidate { variant, tile: None, predicted: Nanos(predicted) };
        let candidates = [candidate("texel", 1000.0), candidate("naive", 2000.0), candidate("local", 3000.0)];
        let times = [Ok(Nanos(3000.0)), Ok(Nanos(1500.0)), Err("its answer is wrong: C[0] is 1".into())];
        let text = text(&software_device(), &group, &candidates, &times);
        for part in
            ["matmul 8x9x10 f32", "1.00 µs", "3.00 µs", "2.00 ×", "C[0] is 1", "auto takes the first, texel: 2.00 ×"]
        {
            assert!(text.contains(part), "lacks '{part}': {text}");
        }
    }
}
