//! The tables of `bench`.

use super::table;
use crate::basis::units::{Nanos, TimeUnit, significant};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Case, Limit, Outcome, Record, Share};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Cases that share a table: one device, algorithm, goal, element type and kind of input.
struct Section<'a> {
    device: &'a DeviceInfo,
    cases: Vec<&'a Case>,
}

/// Sizes by variants, as in the posts: the median kernel time, the fastest of each row marked. Chains show the
/// time of one operation, with the forms of an operation beside one another.
#[must_use]
pub fn compact(record: &Record) -> String {
    // Where there are other devices, the host is a column in their tables.
    let alone = record.devices.iter().all(|device| device.kind == DeviceKind::Host);
    let sections = sections(record).into_iter().filter(|section| alone || section.device.kind != DeviceKind::Host);
    let conditions = RunConditions::of(record);
    render(sections, &conditions, |section, out| {
        let columns = distinct(section.cases.iter().map(|case| place(case).1));
        let host = hosts(record, section);
        let marked = columns.iter().map(|column| of_column(section, column)).chain([host.clone()]);
        let marked: Vec<_> = marked.map(|cases| widest_marks(&conditions, &cases)).collect();
        let beside = host.first().map(|case| format!("{} (host)", case.variant));
        let headings = ["size", ""].into_iter().chain(columns.iter().copied()).chain(beside.as_deref());
        let mut table = table::new(headings);
        let labels: Vec<_> = section.cases.iter().map(|case| place(case).0).collect();
        for size in distinct(labels.iter().map(String::as_str)) {
            let find = |column| section.cases.iter().find(|case| place(case) == (size.to_string(), column)).copied();
            let row: Vec<_> = columns.iter().map(|column| find(*column)).collect();
            let medians = row.iter().flatten().filter_map(|case| median(case));
            let best = medians.min_by(|a, b| a.0.total_cmp(&b.0));
            let unit = best.map(TimeUnit::for_value);
            let cell = |case: Option<&Case>, best, room| {
                let marked = |case| compact_cell(case, best, unit) + &room_for(&signs(&conditions, case), room);
                case.map_or_else(String::new, marked)
            };
            let cells = row.iter().zip(&marked).map(|(case, room)| cell(*case, best, *room));
            let same = host.iter().find(|case| place(case).0 == size).copied();
            let beside = beside.is_some().then(|| cell(same, None, marked[columns.len()]));
            let unit = unit.map_or_else(String::new, |unit| unit.to_string());
            table.add_row(table::row([size.to_string(), unit].into_iter().chain(cells).chain(beside), 2));
        }
        out.push_str(match section.cases[0].chain {
            None => "median kernel time, ★ fastest of its row\n\n",
            Some(_) => "time of one operation: median kernel time / operations of the chain, ★ fastest of its row\n\n",
        });
        out.push_str(&table::text(&table));
    })
}

/// The host's cases of the problems that a section shows on another device.
fn hosts<'a>(record: &'a Record, section: &Section<'_>) -> Vec<&'a Case> {
    let is_host = |case: &Case| record.devices.iter().any(|d| d.index == case.device && d.kind == DeviceKind::Host);
    let first = section.cases[0];
    let same = |case: &&Case| {
        case.same_kind(first) && section.device.kind != DeviceKind::Host && is_host(case) && case.measured().is_some()
    };
    record.cases.iter().filter(same).collect()
}

/// A line for each case: median, its interval, minimum, rate, samples and residual.
#[must_use]
pub fn long(record: &Record) -> String {
    let conditions = RunConditions::of(record);
    render(sections(record), &conditions, |section, out| {
        let headings = [
            "size",
            "variant",
            "median",
            "±",
            "min",
            "GFLOP/s",
            "GB/s",
            "of hardware",
            "samples",
            "residual",
            "allowed",
        ];
        let answers = section.cases.iter().filter_map(|case| case.measured()?.verification.verified());
        let metrics = distinct(answers.flat_map(|answer| answer.metrics.iter().map(|metric| metric.name.as_str())));
        let chains = section.cases.iter().any(|case| case.chain.is_some());
        let per_operation = chains.then_some("per operation");
        let structured = section.cases.iter().any(|case| case.structure.is_some());
        let over_host = section.cases.iter().any(|case| case.speedup.is_some());
        let more = structured.then_some("of its structure").into_iter().chain(per_operation);
        let more = more.chain(over_host.then_some("× host"));
        let marked = section.cases.iter().any(|case| !signs(&conditions, case).is_empty());
        let headings = headings.into_iter().chain(more).chain(metrics.iter().copied());
        let mut table = table::new(headings.chain(marked.then_some("mark")));
        for case in &section.cases {
            let name = [case.row(), case.variant.clone()];
            let figures = metrics.iter().map(|name| metric(case, name));
            let per_operation = chains.then(|| median(case).map_or_else(String::new, |time| time.to_string()));
            let over_host = over_host.then(|| case.speedup.map_or_else(String::new, significant));
            let structure = structured.then(|| case.structure.map_or_else(String::new, share));
            let more = structure.into_iter().chain(per_operation).chain(over_host);
            let marks = marked.then(|| signs(&conditions, case));
            table.add_row(table::row(
                name.into_iter().chain(long_cells(case)).chain(more).chain(figures).chain(marks),
                2,
            ));
        }
        out.push_str(&table::text(&table));
    })
}

/// The cells of the long table that every case has, behind its size and its variant.
fn long_cells(case: &Case) -> [String; 9] {
    match &case.outcome {
        Outcome::Measured(m) => {
            let found = m.verification.verified();
            let error = m.summary.relative_error().map_or_else(|| "–".into(), percent);
            [
                m.summary.median.to_string(),
                error,
                m.summary.min.to_string(),
                case.work.rate(m.summary.median).to_string(),
                case.work.bandwidth(m.summary.median).to_string(),
                case.share.map_or_else(|| "–".into(), share),
                m.summary.count.to_string(),
                found.map_or_else(|| "unverified".into(), |v| residual(v.residual)),
                found.map_or_else(String::new, |v| residual(Some(v.tolerance))),
            ]
        }
        Outcome::Rejected(v) => {
            let blank = String::new;
            let [residual, allowed] = [residual(v.residual), residual(Some(v.tolerance))];
            ["rejected".into(), blank(), blank(), blank(), blank(), blank(), blank(), residual, allowed]
        }
        other => {
            let blank = String::new;
            [other.status().into(), blank(), blank(), blank(), blank(), blank(), blank(), blank(), blank()]
        }
    }
}

/// What the numbers do not say: why cases have none, and what the signs beside them mean.
#[must_use]
pub fn notes(record: &Record) -> String {
    let mut out = String::new();
    for case in &record.cases {
        let _ = match &case.outcome {
            Outcome::Measured(_) | Outcome::Interrupted => Ok(()),
            Outcome::Rejected(v) => writeln!(out, "rejected  {}: {}", case.id, v.worst),
            Outcome::Skipped { reason } => writeln!(out, "skipped   {}: {reason}", case.id),
            other => writeln!(out, "{:9} {}: {}", other.status(), case.id, other.failure().unwrap_or_default()),
        };
    }
    let remarks = record.cases.iter().flat_map(|case| case.notes.iter().map(|note| (case.algorithm.as_str(), note)));
    for (algorithm, remark) in remarks.collect::<BTreeSet<_>>() {
        let _ = writeln!(out, "note      {algorithm}: {remark}{}", whose(record, algorithm, remark));
    }
    let conditions = RunConditions::of(record);
    for Mark { sign, meaning } in record.cases.iter().flat_map(|case| conditions.marks(case)).collect::<BTreeSet<_>>() {
        let _ = writeln!(out, "{sign}  {meaning}");
    }
    for peak in record.peaks.iter().filter(|peak| peak.is_disturbed()) {
        let _ = writeln!(
            out,
            "note      limits of {} were measured while it was slower than at its best, or shared: shares may be too high, \
             and those limits were not kept; `gpukern peak` measures them when it is quiet",
            peak.device
        );
    }
    for caveat in &record.caveats {
        let _ = writeln!(out, "note      {caveat}");
    }
    out
}

/// The variants that a remark is about, with their sizes where it is not about all of them: ` (tiled 512, 1024)`.
/// Empty where it is about every case of the algorithm.
fn whose(record: &Record, algorithm: &str, remark: &String) -> String {
    let cases = || record.cases.iter().filter(|case| case.algorithm == algorithm);
    let noted = |case: &&Case| case.notes.contains(remark);
    if cases().all(|case| noted(&case)) {
        return String::new();
    }
    let variants = distinct(cases().filter(noted).map(|case| case.variant.as_str())).into_iter().map(|variant| {
        let own = || cases().filter(|case| case.variant == variant);
        if own().all(|case| noted(&case)) {
            return variant.to_string();
        }
        let rows: Vec<_> = own().filter(noted).map(Case::row).collect();
        format!("{variant} {}", distinct(rows.iter().map(String::as_str)).join(", "))
    });
    format!(" ({})", variants.collect::<Vec<_>>().join("; "))
}

fn render<'a>(
    sections: impl IntoIterator<Item = Section<'a>>,
    conditions: &RunConditions,
    body: impl Fn(&Section<'_>, &mut String),
) -> String {
    let mut out = String::new();
    for section in sections {
        let case = section.cases[0];
        if !out.is_empty() {
            out.push('\n');
        }
        let device = section.device;
        let _ = writeln!(out, "{}", case.kind());
        let _ = writeln!(out, "device {}: {} ({}, {})", device.index, device.name, device.kind, device.driver.info);
        if let Some(sentence) = conditions.sentence(device.index) {
            let _ = writeln!(out, "{sentence}");
        }
        body(&section, &mut out);
    }
    out
}

fn sections(record: &Record) -> Vec<Section<'_>> {
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

fn compact_cell(case: &Case, best: Option<Nanos>, unit: Option<TimeUnit>) -> String {
    match (&case.outcome, median(case), unit) {
        (Outcome::Measured(_), Some(median), Some(unit)) => {
            let star = if best == Some(median) { "★ " } else { "" };
            format!("{star}{}", unit.number(median))
        }
        (other, ..) => other.status().into(),
    }
}

/// The row and the column of the compact table that a case belongs in: its size and its variant. For an operation
/// that has several forms the row has the operation too, and the column is the form.
fn place(case: &Case) -> (String, &str) {
    match case.form() {
        Some(form) => (format!("{} {}", case.row(), form.operation), form.name),
        None => (case.row(), &case.variant),
    }
}

/// The median of a case as the compact table shows it.
fn median(case: &Case) -> Option<Nanos> {
    case.measured().map(|m| case.shown(m.summary.median))
}

fn metric(case: &Case, name: &str) -> String {
    let found = case.measured().and_then(|m| m.verification.verified());
    let found = found.and_then(|v| v.metrics.iter().find(|metric| metric.name == name));
    found.map_or_else(String::new, |metric| metric.value.map_or_else(|| "not finite".into(), figure))
}

/// Whole numbers as such, others with six significant digits.
fn figure(value: f64) -> String {
    match value {
        v if v == v.trunc() && v.abs() < 1e15 => format!("{v}"),
        v if (1e-3..1e6).contains(&v.abs()) => {
            let digits = (5 - v.abs().log10().floor() as i32).max(0) as usize;
            format!("{v:.digits$}")
        }
        v => format!("{v:.3e}"),
    }
}

/// The signs of a case's marks: `± d`.
fn signs(conditions: &RunConditions, case: &Case) -> String {
    conditions.marks(case).iter().map(|mark| mark.sign).collect::<Vec<_>>().join(" ")
}

/// The cases in a column of the compact table.
fn of_column<'a>(section: &Section<'a>, column: &str) -> Vec<&'a Case> {
    section.cases.iter().copied().filter(|case| place(case).1 == column).collect()
}

/// Characters that the signs of these cases need at most.
fn widest_marks(conditions: &RunConditions, cases: &[&Case]) -> usize {
    cases.iter().map(|case| signs(conditions, case).chars().count()).max().unwrap_or(0)
}

/// Signs behind a number, in the room that its column has for them, so that numbers stay below each other.
fn room_for(signs: &str, room: usize) -> String {
    if room == 0 { String::new() } else { format!(" {signs:room$}") }
}

/// How much of its limit a case reaches, and which limit it is.
fn share(share: Share) -> String {
    let limit = match share.limit {
        Limit::Compute => "compute",
        Limit::Memory => "memory",
        Limit::Launch => "launch",
    };
    let Some([low, high]) = share.interval else { return format!("{} {limit}", percent(share.fraction)) };
    let doubt = (high - low) / 2.0 / share.fraction;
    if doubt < DOUBTED {
        format!("{} {limit}", percent(share.fraction))
    } else {
        format!("{:.0} ±{:.0} % {limit}", 100.0 * share.fraction, 100.0 * doubt * share.fraction)
    }
}

/// Doubt of a limit, relative to it, from which a share is shown with it.
const DOUBTED: f64 = 0.05;

fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

fn residual(value: Option<f64>) -> String {
    match value {
        None => "not finite".into(),
        Some(0.0) => "0".into(),
        Some(value) => format!("{value:.1e}"),
    }
}

pub(super) fn distinct<'a>(items: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut kept = vec![];
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::algorithms::input::Input;
    use crate::algorithms::{CheckMethod, Goal};
    use crate::basis::dtype::DType;
    use crate::basis::layout::Layout;
    use crate::basis::units::{Bytes, Work};
    use crate::device::capability::tests::software_device;
    use crate::plan::method::CacheState;
    use crate::plan::method::Clock;
    use crate::record::{Conditions, Measured, Method, Phases, SCHEMA, Sample, Verification, Warning};
    use crate::stats::Summary;

    fn case(variant: &str, outcome: Outcome) -> Case {
        Case {
            id: format!("matmul/{variant}/f32/64x64x64"),
            algorithm: "matmul".into(),
            variant: variant.into(),
            dtype: DType::F32,
            layout: Layout::Nn,
            size: "64".into(),
            goal: Goal::Result,
            input: Input::Uniform,
            seed: 1,
            subgroup_size: None,
            stop: None,
            device: 0,
            process: 0,
            work: Work { operations: 524_288, bytes: Bytes(49_152) },
            chain: None,
            launches: 1,
            computes: None,
            notes: vec![],
            kernels: vec![],
            share: None,
            structure: None,
            speedup: None,
            outcome,
        }
    }

    fn verification(residual: f64) -> Verification {
        Verification {
            residual: Some(residual),
            tolerance: 3.8e-6,
            method: CheckMethod::Elementwise,
            worst: "C[3][1] is 2, expected 1".into(),
            metrics: vec![],
            wrong: crate::algorithms::WrongElements::default(),
        }
    }

    fn timed(micros: f64, warnings: Vec<Warning>) -> Outcome {
        let times = [0.98, 0.99, 1.0, 1.0, 1.01, 1.02].map(|scale| Nanos(scale * micros * 1e3));
        Outcome::Measured(Box::new(Measured {
            verification: verification(1.2e-7).into(),
            summary: Summary::of(&times).expect("six samples"),
            repeats: 1,
            samples: times.map(|device| Sample { device, host: device, outlier: false }).to_vec(),
            warnings,
            conditions: Conditions::default(),
            phases: Phases::default(),
        }))
    }

    /// One timed case with a warning, one without, one rejected, one skipped.
    pub(crate) fn record() -> Record {
        Record {
            schema: SCHEMA.into(),
            version: "0.0.0".into(),
            started: "2026-01-01T00:00:00Z".into(),
            command: vec![],
            method: Method { validation: false, clock: Clock::DeviceTimestamps, cache: CacheState::Hot },
            devices: vec![software_device()],
            peaks: vec![],
            cases: vec![
                case("naive", timed(250.0, vec![Warning::TimeLimit])),
                case("local", timed(125.0, vec![])),
                case("subgroup", Outcome::Rejected(verification(0.5))),
                case("other", Outcome::Skipped { reason: "needs feature shaderFloat64".into() }),
            ],
            origin: crate::record::Origin::default(),
            plan: None,
            options: None,
            shards: vec![],
            processes: vec![],
            caveats: crate::record::Caveat::of(&[software_device()]),
            wall_time: Nanos(1e9),
            device_time: Nanos(8e8),
            overhead: Nanos(2e8),
        }
    }

    #[test]
    fn the_compact_table_marks_the_fastest_and_gives_a_rejected_case_no_time() {
        insta::assert_snapshot!(compact(&record()));
    }

    #[test]
    fn the_long_table_shows_rate_interval_and_residual() {
        insta::assert_snapshot!(long(&record()));
    }

    #[test]
    fn chains_show_the_time_of_one_operation_with_its_forms_side_by_side() {
        let mut record = record();
        let timed = |micros| timed(micros, vec![]);
        record.cases = ["broadcast-subgroup", "broadcast-shared", "vote-any-subgroup", "vote-any-shared"]
            .into_iter()
            .zip([timed(40.0), timed(80.0), timed(30.0), Outcome::Rejected(verification(1.0))])
            .map(|(variant, outcome)| {
                let algorithm = "collectives".into();
                Case { algorithm, chain: Some(1000), ..case(variant, outcome) }
            })
            .collect();
        insta::assert_snapshot!(compact(&record) + "\n" + &long(&record));
    }

    #[test]
    fn notes_say_whose_they_are_where_not_every_case_has_them() {
        let mut record = record();
        let larger = |case: &Case| Case { size: "128".into(), ..case.clone() };
        record.cases = vec![record.cases[0].clone(), larger(&record.cases[0]), record.cases[1].clone()];
        for (index, note) in [(0, "one"), (1, "other"), (2, "local's"), (0, "all"), (1, "all"), (2, "all")] {
            record.cases[index].notes.push(note.into());
        }
        let notes = notes(&record);
        for line in ["matmul: all\n", "matmul: one (naive 64)\n", "other (naive 128)\n", "local's (local)\n"] {
            assert!(notes.contains(line), "{notes}");
        }
    }

    #[test]
    fn an_answer_that_nobody_checked_is_called_unverified() {
        let record = crate::export::tests::unverified();
        let row = |text: &str| text.lines().find(|line| line.contains(" unverified")).map(str::to_string);
        assert!(
            row(&long(&record)).is_some_and(|row| row.contains(" 250.0 µs ") && row.ends_with(" u")),
            "{}",
            long(&record)
        );
        assert_eq!(row(&long(&crate::export::tests::record())), None);
        assert!(compact(&record).contains(" 250.0 u "), "{}", compact(&record));
        assert!(notes(&record).contains("u  unverified: no expected output was given\n"), "{}", notes(&record));
        assert!(super::super::verify::summary(&record).ends_with("skipped, 1 unverified\n"));
    }

    #[test]
    fn notes_explain_what_has_no_time_and_what_the_signs_mean() {
        insta::assert_snapshot!(notes(&record()));
    }
}
