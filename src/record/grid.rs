//! Cases arranged as people compare them: sizes by variants, for each device and kind of case.

use super::{Case, Record};
use crate::basis::units::Nanos;
use crate::device::capability::{DeviceInfo, DeviceKind};

/// Cases that share a table: one device, algorithm, goal, element type and kind of input.
pub(crate) struct Section<'a> {
    pub(crate) device: &'a DeviceInfo,
    pub(crate) cases: Vec<&'a Case>,
}

/// The cases of a section by size and variant. For operations that have several forms a size is one of an operation, and
/// a variant is a form.
pub(crate) struct Grid<'a> {
    pub(crate) sizes: Vec<String>,
    pub(crate) variants: Vec<&'a str>,
    cases: Vec<&'a Case>,
    /// The host's cases of the same problems.
    host: Vec<&'a Case>,
}

/// The sections of a record, in the order in which they were measured.
#[must_use]
pub(crate) fn sections(record: &Record) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = vec![];
    for case in &record.cases {
        let same = |other: &Case| other.device == case.device && other.same_kind(case);
        match sections.iter_mut().find(|section| same(section.cases[0])) {
            Some(section) => section.cases.push(case),
            None => {
                if let Some(device) = record.devices.iter().find(|device| device.index == case.device) {
                    sections.push(Section { device, cases: vec![case] });
                }
            }
        }
    }
    sections
}

/// The sections that stand for themselves: where there are other devices, the host is a column in their tables.
#[must_use]
pub(crate) fn main_sections(record: &Record) -> Vec<Section<'_>> {
    let alone = record.devices.iter().all(|device| device.kind == DeviceKind::Host);
    let mut sections = sections(record);
    sections.retain(|section| alone || section.device.kind != DeviceKind::Host);
    sections
}

impl<'a> Section<'a> {
    /// Its cases by size and variant.
    #[must_use]
    pub(crate) fn grid(&self, record: &'a Record) -> Grid<'a> {
        let (mut sizes, mut variants): (Vec<String>, Vec<&str>) = (vec![], vec![]);
        for case in &self.cases {
            let (size, variant) = place(case);
            if !sizes.contains(&size) {
                sizes.push(size);
            }
            if !variants.contains(&variant) {
                variants.push(variant);
            }
        }
        Grid { sizes, variants, cases: self.cases.clone(), host: self.hosts(record) }
    }

    /// The host's cases of the problems that it shows on another device.
    fn hosts(&self, record: &'a Record) -> Vec<&'a Case> {
        let is_host = |case: &Case| record.devices.iter().any(|d| d.index == case.device && d.kind == DeviceKind::Host);
        let first = self.cases[0];
        let same = |case: &&Case| {
            case.same_kind(first) && self.device.kind != DeviceKind::Host && is_host(case) && case.measured().is_some()
        };
        record.cases.iter().filter(same).collect()
    }
}

impl<'a> Grid<'a> {
    /// The case of a variant at a size.
    #[must_use]
    pub(crate) fn case(&self, size: &str, variant: &str) -> Option<&'a Case> {
        self.cases.iter().find(|case| place(case) == (size.to_string(), variant)).copied()
    }

    /// What the host has of a size.
    #[must_use]
    pub(crate) fn host(&self, size: &str) -> Option<&'a Case> {
        self.host.iter().find(|case| place(case).0 == size).copied()
    }

    /// The name of the host's baseline, where there is one.
    #[must_use]
    pub(crate) fn baseline(&self) -> Option<&'a str> {
        self.host.first().map(|case| case.variant.as_str())
    }

    /// A case of a size, to know the problem by.
    #[must_use]
    pub(crate) fn problem(&self, size: &str) -> Option<&'a Case> {
        self.cases.iter().find(|case| place(case).0 == size).copied()
    }

    /// The fastest measured case of a size.
    #[must_use]
    pub(crate) fn winner(&self, size: &str) -> Option<(&'a Case, Nanos)> {
        let timed =
            self.cases.iter().filter(|case| place(case).0 == size).filter_map(|case| Some((*case, median(case)?)));
        timed.min_by(|a, b| a.1.0.total_cmp(&b.1.0))
    }
}

/// The row and the column that a case belongs in: its size and its variant. For an operation that has several forms the row
/// has the operation too, and the column is the form.
fn place(case: &Case) -> (String, &str) {
    match case.form() {
        Some(form) => (format!("{} {}", case.row(), form.operation), form.name),
        None => (case.row(), &case.variant),
    }
}

/// The median of a case as tables show it: that of one operation of a chain.
#[must_use]
pub(crate) fn median(case: &Case) -> Option<Nanos> {
    case.measured().map(|measured| case.shown(measured.summary.median))
}
