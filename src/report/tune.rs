//! The table of `tune`.

use super::table;
use crate::algorithms::{Algorithm, CaseSpec};
use crate::basis::units::Work;
use crate::device::capability::DeviceInfo;
use crate::tuning::search::Found;
use std::fmt::Write;

/// What one search found.
pub(crate) struct Row {
    pub variant: &'static str,
    pub spec: CaseSpec,
    pub found: Found,
    /// Nominal work.
    pub work: Work,
}

/// A line for each search: the best tile, its rate, and what the built-in one reaches.
#[must_use]
pub(crate) fn text(device: &DeviceInfo, algorithm: &Algorithm, rows: &[Row]) -> String {
    let mut out = format!("{}, the best tiles\n", algorithm.name);
    let _ = writeln!(out, "device {}: {} ({}, {})\n", device.index, device.name, device.kind, device.driver.info);
    let headings = ["variant", "dtype", "layout", "size", "tile", "GFLOP/s", "built in", "gain", "tried", "of"];
    let mut table = table::new(headings);
    for Row { variant, spec, found, work } in rows {
        let (tile, time) = found.best;
        let gain = found.built_in.1.map(|own| own.0 / time.0);
        table.add_row(table::row(
            [
                (*variant).to_string(),
                spec.dtype.to_string(),
                spec.layout.to_string(),
                spec.size.to_string(),
                tile.to_string(),
                work.rate(time).to_string(),
                found.built_in.1.map_or_else(|| "–".into(), |own| work.rate(own).to_string()),
                match gain {
                    Some(_) if tile == found.built_in.0 => "built in".into(),
                    Some(gain) => format!("{gain:.2} ×"),
                    None => "–".into(),
                },
                found.tried.to_string(),
                found.space.to_string(),
            ],
            5,
        ));
    }
    out.push_str(&table::text(&table));
    for (name, time, row) in
        rows.iter().filter_map(|row| row.found.rule.as_ref().map(|(name, time)| (name, *time, row)))
    {
        let rate = row.work.rate(time);
        let _ = writeln!(out, "for comparison: {name} {} {}, {rate} GFLOP/s", row.spec.dtype, row.spec.size);
    }
    out
}
