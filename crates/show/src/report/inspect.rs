//! Tables of `inspect`: statistics of compiled kernels.

use super::bench::{named, sections};
use super::document::Document;
use super::join_filled;
use super::table::{self, Table};
use crate::basis::alike::{distinct, grouped};
use crate::basis::printable::{printable, printable_lines};
use crate::basis::units::{Bytes, counted, percent, significant, trimmed};
use crate::case::compiled::{CompiledKernel, Inspection, Representation};
use crate::case::statistics::CompilerStatistic::{
    self, Code, Instructions, Occupancy, Registers, Scratch, Shared, Spills,
};
use crate::case::statistics::{self, spills};
use crate::record::{Case, Outcome, Record};
use crate::stats::Summary;
use similar::TextDiff;
use std::fmt::Write;

/// Placeholder for a figure that the driver does not report.
const UNKNOWN: &str = "–";

/// Heading of the time to create a pipeline with an empty cache.
const CREATED: &str = "create";
/// Heading of the time to create a pipeline from the cache.
const CACHED: &str = "cached";
/// Column of the uncertainty of the time before it.
const SPREAD: &str = "±";

/// Kernel of a case, or of several sizes that compile to the same code.
pub struct KernelRow<'a> {
    /// Subject of the case: `matmul f32`.
    pub subject: String,
    device: usize,
    variant: &'a str,
    /// Whether `auto` chose the variant.
    is_automatic: bool,
    /// Name of the kernel, if the case has several.
    kernel: Option<String>,
    sizes: Vec<String>,
    compiled: &'a CompiledKernel,
    inspection: &'a Inspection,
}

/// Returns the kernels of inspected cases.
pub fn rows<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Vec<KernelRow<'a>> {
    let kernels = cases.into_iter().flat_map(|case| {
        let name = move |compiled| (case.kernels.len() > 1).then(|| numbered_name(case, compiled));
        let inspected = case.kernels.iter().filter_map(move |kernel| Some((kernel, kernel.inspection.as_ref()?)));
        inspected.map(move |(compiled, inspection)| KernelRow {
            subject: case.subject(),
            device: case.device,
            variant: &case.variant,
            is_automatic: case.chosen_by_auto.is_some(),
            kernel: name(compiled),
            sizes: vec![case.size.to_string()],
            compiled,
            inspection,
        })
    });
    // Sizes that compile to the same code share a row.
    let code = |row: &KernelRow<'a>| {
        let KernelRow { subject, device, variant, kernel, compiled, inspection, .. } = row;
        (subject.clone(), *device, *variant, kernel.clone(), &compiled.hash, inspection.subgroup_size)
    };
    let join = |mut row: KernelRow<'a>, same: KernelRow<'a>| {
        row.is_automatic |= same.is_automatic;
        row.sizes.extend(same.sizes);
        row
    };
    grouped(kernels, code).into_iter().filter_map(|rows| rows.into_iter().reduce(join)).collect()
}

/// Returns the short name of a kernel of a case, with a number if others of the case have the same: `scan.comp 2`.
fn numbered_name(case: &Case, compiled: &CompiledKernel) -> String {
    let name = short_name(case, compiled);
    let same: Vec<_> = case.kernels.iter().filter(|other| short_name(case, other) == name).collect();
    match same.iter().position(|other| std::ptr::eq(*other, compiled)) {
        Some(at) if same.len() > 1 => format!("{name} {}", at + 1),
        _ => name.into(),
    }
}

/// Returns the name of a kernel without the words of its heading: `blocked-update`.
fn short_name<'a>(case: &Case, compiled: &'a CompiledKernel) -> &'a str {
    if compiled.is_users() {
        return compiled.source();
    }
    let name = compiled.name.strip_prefix(&*case.algorithm).and_then(|rest| rest.strip_prefix('/'));
    let name = name.unwrap_or(&compiled.name);
    name.strip_suffix(case.dtype.name()).and_then(|rest| rest.strip_suffix('.')).unwrap_or(name)
}

impl<'a> KernelRow<'a> {
    /// Returns a name that distinguishes the row: `tiled 4096`.
    pub fn label(&self) -> String {
        join_filled(&[&self.variant(), self.kernel.as_deref().unwrap_or_default(), &self.size()], " ")
    }

    /// Returns the variant, with the sub-group size that it requires: `subgroup @32`.
    fn variant(&self) -> String {
        with_subgroup(self.variant, self.inspection.subgroup_size)
    }

    /// Returns the sizes: only the first and the last of many.
    fn size(&self) -> String {
        first_and_last(&self.sizes)
    }

    /// Returns the driver's texts that are `wanted`.
    pub fn texts(&self, wanted: impl Fn(&Representation) -> bool) -> Vec<&'a Representation> {
        self.inspection.texts.iter().filter(|text| wanted(text)).collect()
    }
}

/// Case whose kernels the driver did not compile, or several that ended alike.
struct FailedRow<'a> {
    subject: String,
    variant: String,
    sizes: Vec<String>,
    status: &'static str,
    case: &'a Case,
}

/// Returns the cases that failed, crashed the compiler or took it too long.
fn failed_rows<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Vec<FailedRow<'a>> {
    let failed = cases.into_iter().filter(|case| case.outcome.failure().is_some());
    let alike = grouped(failed, |case| (case.subject(), case.failure_kind(), case.subgroup_size));
    let row = |cases: Vec<&'a Case>| FailedRow {
        subject: cases[0].subject(),
        variant: with_subgroup(&cases[0].variant, cases[0].subgroup_size),
        sizes: cases.iter().map(|case| case.size.to_string()).collect(),
        status: cases[0].outcome.status(),
        case: cases[0],
    };
    alike.into_iter().map(row).collect()
}

fn with_subgroup(variant: &str, size: Option<u32>) -> String {
    format!("{variant}{}", size.map_or_else(String::new, |size| format!(" @{size}")))
}

/// Lists sizes: only the first and the last of many.
fn first_and_last(sizes: &[String]) -> String {
    let sizes = distinct(sizes);
    match sizes[..] {
        [first, .., last] if sizes.len() > 2 => format!("{first} … {last}"),
        _ => sizes.into_iter().cloned().collect::<Vec<_>>().join(", "),
    }
}

/// Formats a figure for tables; a dash if the driver does not report it.
fn figure_text(figure: CompilerStatistic, value: Option<f64>) -> String {
    let Some(value) = value else { return UNKNOWN.into() };
    match figure {
        Scratch | Shared | Code => Bytes(value as u64).to_string(),
        Registers | Spills | Occupancy | Instructions => number(value),
    }
}

/// Formats a whole number as it is, others with their significant digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { trimmed(&significant(value)).into() }
}

/// Kernels of a table, and the cases that have none.
struct KernelRows<'a> {
    rows: Vec<KernelRow<'a>>,
    failed: Vec<FailedRow<'a>>,
}

impl KernelRows<'_> {
    /// Returns the subjects with their variants, of all rows.
    fn names(&self) -> impl Iterator<Item = (&str, String)> {
        let failed = self.failed.iter().map(|row| (&*row.subject, row.variant.clone()));
        self.rows.iter().map(|row| (&*row.subject, row.variant())).chain(failed)
    }

    /// Returns the name of a row: its variant, or the problem if several have a variant of this name.
    fn name(&self, subject: &str, variant: String) -> String {
        let is_alike = self.names().any(|(other, own)| own == variant && other != subject);
        if is_alike { subject.split(' ').next().unwrap_or_default().into() } else { variant }
    }

    /// Whether all is one kernel without a description.
    fn is_of_single_user(&self) -> bool {
        match (&self.rows[..], &self.failed[..]) {
            ([row], []) => row.compiled.is_users(),
            ([], [row]) => row.case.entry.algorithm.is_none(),
            _ => false,
        }
    }
}

/// Returns the kernels of each section of a record, with its heading.
fn on_devices(record: &Record) -> Vec<(Document, KernelRows<'_>)> {
    let sections = sections(record).into_iter().map(|section| {
        let cases = || section.cases.iter().copied();
        (section.device, KernelRows { rows: rows(cases()), failed: failed_rows(cases()) })
    });
    let filled = sections.filter(|(_, kernels)| kernels.names().next().is_some());
    let subject = |kernels: &KernelRows<'_>| kernels.names().next().map_or("", |(subject, _)| subject).to_string();
    // Kernels without a description are problems of one kernel; a table of many is read at a glance.
    let grouped = grouped(filled, |(device, kernels)| {
        (device.index, if kernels.is_of_single_user() { String::new() } else { subject(kernels) })
    });
    let joined = grouped.into_iter().map(|sections| {
        let mut heading = Document::default();
        let count = sections.len();
        let device = sections[0].0;
        let mut all = KernelRows { rows: vec![], failed: vec![] };
        for (_, kernels) in sections {
            all.rows.extend(kernels.rows);
            all.failed.extend(kernels.failed);
        }
        heading.line(if count > 1 { counted(count, "kernel") } else { subject(&all) });
        heading.line(named(device));
        (heading, all)
    });
    joined.collect()
}

/// Prints a row for each kernel on each device, the driver's names for the columns, and a summary.
pub fn text(record: &Record, width: usize) -> String {
    let mut document = Document::default();
    let mut below: Option<[String; 2]> = None;
    for (heading, kernels) in on_devices(record) {
        let (table, legend) = kernel_table(&kernels, width);
        // A legend stands once, below all tables that share it.
        if let Some(last_legend) = below.filter(|last_legend| *last_legend != legend) {
            document.lines(last_legend);
            document.gap();
        }
        below = Some(legend);
        document.append(heading);
        document.gap();
        document.append(table);
        document.gap();
    }
    if let Some(last_legend) = below {
        document.lines(last_legend);
        document.gap();
    }
    document.terminal(width) + &summary(record)
}

/// Returns the table of `kernels`, and its legend.
fn kernel_table(kernels: &KernelRows<'_>, width: usize) -> (Document, [String; 2]) {
    let KernelRows { rows, failed } = kernels;
    let table = Table::default().text(["variant", "kernel", "size"]);
    let mut table =
        table.numbers(CompilerStatistic::ALL.map(CompilerStatistic::name)).numbers([CREATED, SPREAD, CACHED]);
    let mut last_variant = String::new();
    for row in rows {
        let figures = CompilerStatistic::ALL.map(|figure| figure_text(figure, figure.of(row.compiled)));
        // Several kernels of a variant share its name.
        let variant = kernels.name(&row.subject, row.variant());
        let name = if variant == last_variant && row.kernel.is_some() { String::new() } else { variant.clone() };
        last_variant = variant;
        let name = if row.is_automatic && !name.is_empty() { format!("{name} (auto)") } else { name };
        let names = [name, row.kernel.clone().unwrap_or_default(), row.size()];
        let Inspection { created, samples, cached, .. } = row.inspection;
        let spread = Summary::of(samples).and_then(|summary| summary.relative_error());
        let spread = spread.map_or_else(|| UNKNOWN.into(), percent);
        table.row(names.into_iter().chain(figures).chain([created.to_string(), spread, cached.to_string()]));
    }
    for FailedRow { subject, variant, sizes, status, .. } in failed {
        let names = [kernels.name(subject, variant.clone()), String::new(), first_and_last(sizes)];
        let figures = CompilerStatistic::ALL.map(|_| UNKNOWN.to_string());
        let times = [*status, UNKNOWN, UNKNOWN].map(String::from);
        table.row(names.into_iter().chain(figures).chain(times));
    }
    table.leave_out_empty(&[SPREAD, CACHED], UNKNOWN);
    let sizes = rows.iter().map(KernelRow::size).chain(failed.iter().map(|row| first_and_last(&row.sizes)));
    if let [size] = &distinct(sizes)[..] {
        table.leave_out_empty(&["size"], size);
    }
    table.leave_out_empty(&["kernel"], "");
    table.leave_out_empty(&CompilerStatistic::ALL.map(CompilerStatistic::name), UNKNOWN);
    // Without any scratch memory, its column says nothing.
    table.leave_out_empty(&[Scratch.name()], "0 B");
    let whole = table.width();
    let [scratch, instructions, shared, code] = [Scratch, Instructions, Shared, Code].map(CompilerStatistic::name);
    let mut hidden = table.fit(width, &[CACHED, SPREAD, scratch, instructions, shared, code]);
    hidden.reverse();
    let mut document = Document::default();
    let legend = legend(rows, &table);
    document.table(table);
    document.lines(table::hidden(&hidden, whole));
    (document, legend)
}

/// Returns the driver's names for the columns.
fn legend(rows: &[KernelRow<'_>], table: &Table) -> [String; 2] {
    let driver_name = |figure: CompilerStatistic| {
        let (name, _) = rows.iter().find_map(|row| figure.reported(row.compiled))?;
        table.position(figure.name()).map(|_| format!("{} {name}", figure.name()))
    };
    let names: Vec<_> = CompilerStatistic::ALL.into_iter().filter_map(driver_name).collect();
    let statistics = if rows.is_empty() {
        "the driver compiled none of these kernels".to_string()
    } else if names.is_empty() {
        "the driver reports no pipeline statistics; shared is what the kernel declares".to_string()
    } else {
        format!("the driver's names: {}", names.join(" · "))
    };
    let cached = table.position(CACHED).map_or("", |_| "; cached: the same, with that cache filled");
    // As llvmpipe does, whose times therefore do not compare with those of others.
    let lazy = if names.is_empty() && !rows.is_empty() {
        ". A driver without statistics may compile when a kernel first runs, which neither time includes"
    } else {
        ""
    };
    let median = table.position(SPREAD).map_or("", |_| " (median of up to 11)");
    [statistics, format!("{CREATED}: time to create the pipeline with an empty cache{median}{cached}{lazy}")]
}

/// Prints every statistic under the driver's own name, with a column for each kernel.
pub fn raw(record: &Record, width: usize) -> String {
    let mut document = Document::default();
    for (heading, KernelRows { rows, .. }) in on_devices(record) {
        if rows.is_empty() {
            continue;
        }
        document.append(heading);
        let names =
            distinct(rows.iter().flat_map(|row| &row.compiled.statistics).map(|statistic| statistic.name.as_str()));
        let mut table = Table::default().text(["statistic"]).numbers(rows.iter().map(KernelRow::label));
        for name in &names {
            let value = |row: &KernelRow<'_>| {
                let statistic = row.compiled.statistics.iter().find(|statistic| statistic.name == *name);
                let exact = statistic.and_then(|statistic| statistic.exact.clone());
                exact.or_else(|| statistic.and_then(statistics::value).map(number)).unwrap_or_else(|| UNKNOWN.into())
            };
            table.row(std::iter::once((*name).to_string()).chain(rows.iter().map(value)));
        }
        if names.is_empty() {
            document.line("the driver reports no pipeline statistics");
        } else {
            document.table(table);
        }
        document.gap();
    }
    document.terminal(width) + &summary(record)
}

/// Counts the kernels, those that spill, and the cases without a kernel.
fn summary(record: &Record) -> String {
    let rows = rows(&record.cases);
    let spilling = rows.iter().filter(|row| spills(row.compiled).is_some()).count();
    let failed = record.cases.iter().filter(|case| case.outcome.failure().is_some()).count();
    let skipped = record.cases.iter().filter(|case| matches!(case.outcome, Outcome::Skipped { .. })).count();
    let spills = if spilling == 1 { "of them spills" } else { "of them spill" };
    let mut out = counted(rows.len(), "kernel");
    for (count, ending) in [(spilling, spills), (failed, "failed"), (skipped, "skipped")] {
        if count > 0 {
            let _ = write!(out, ", {count} {ending}");
        }
    }
    out + "\n"
}

/// Prints the driver's texts of each kernel below its name.
pub fn texts(record: &Record, wanted: impl Fn(&Representation) -> bool + Copy) -> String {
    let mut out = String::new();
    for row in rows(&record.cases) {
        for text in row.texts(wanted) {
            let name = printable(&format!("{} {}: {}", row.subject, row.label(), text.name)).into_owned();
            let _ = write!(out, "\n── {name}\n{}", plain(&text.text));
        }
    }
    out
}

/// Prepares a driver's text for the terminal.
fn plain(text: &str) -> String {
    printable_lines(&(text.trim_end().replace('\t', "    ") + "\n")).into_owned()
}

/// Prints two kernels side by side, and the differences between the driver's texts.
pub fn diff(
    record: &Record,
    [a, b]: [&KernelRow<'_>; 2],
    wanted: impl Fn(&Representation) -> bool + Copy,
    width: usize,
) -> String {
    let mut table = Table::default().text([""]).numbers(["A", "B", "change"]);
    for figure in CompilerStatistic::ALL {
        let [before, after] = [a, b].map(|row| figure.of(row.compiled));
        if before.is_none() && after.is_none() {
            continue;
        }
        let change = before.zip(after).map_or(String::new(), |(before, after)| change(before, after));
        let name = figure.name_in_sentence().to_string();
        table.row([name, figure_text(figure, before), figure_text(figure, after), change]);
    }
    for (name, [before, after]) in
        [(CREATED, [a, b].map(|row| row.inspection.created)), (CACHED, [a, b].map(|row| row.inspection.cached))]
    {
        table.row([name.to_string(), before.to_string(), after.to_string(), change(before.0, after.0)]);
    }
    let mut out = String::new();
    for (side, row) in [("A", a), ("B", b)] {
        let mut name = format!("{} {}", row.subject, row.label());
        if a.device != b.device {
            let _ = write!(name, " on {}", record.device_name(row.device));
        }
        let _ = writeln!(out, "{side}  {}", printable(&name));
    }
    let _ = write!(out, "\n{}", table.terminal(width));
    if a.texts(wanted).is_empty() || b.texts(wanted).is_empty() {
        let _ = writeln!(
            out,
            "\nno code to compare: the driver does not show it for {}",
            match [a, b].map(|row| row.texts(wanted).is_empty()) {
                [true, true] => "either",
                [true, false] => "A",
                _ => "B",
            }
        );
    }
    for before in a.texts(wanted) {
        let Some(after) = b.texts(wanted).into_iter().find(|after| after.name == before.name) else { continue };
        let texts = [before, after].map(|representation| plain(&representation.text));
        let changes = TextDiff::from_lines(&texts[0], &texts[1]);
        let mut diff = changes.unified_diff().context_radius(3).header("A", "B").to_string();
        if diff.is_empty() {
            diff = "the same\n".into();
        }
        let _ = write!(out, "\n── {}\n{diff}", printable(&before.name));
    }
    out
}

/// Formats the change of a figure: `+12 %`, `×4.5`; empty if it did not change, or was 0.
fn change(before: f64, after: f64) -> String {
    match (before, after) {
        _ if before == after => "=".into(),
        (0.0, _) => String::new(),
        _ if after >= 3.0 * before => format!("×{}", significant(after / before)),
        _ => format!("{:+.0} %", 100.0 * (after / before - 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::{Metric, Nanos};
    use crate::record::fixture::four_cases;

    /// Returns a kernel with these statistics.
    fn kernel(name: &str, hash: &str, statistics: &[(&str, f64)], isa: &str) -> CompiledKernel {
        let inspection = Inspection {
            created: Nanos(12.3e6),
            cached: Nanos(45e3),
            samples: vec![],
            shared: Bytes(1024),
            subgroup_size: None,
            texts: vec![Representation { name: "Assembly".into(), text: isa.into() }],
        };
        let statistics = statistics.iter().map(|(name, value)| Metric::new(name, *value)).collect();
        CompiledKernel { name: name.into(), hash: hash.into(), statistics, inspection: Some(inspection) }
    }

    fn radv(vgprs: f64, spilled: f64) -> Vec<(&'static str, f64)> {
        vec![
            ("VGPRs", vgprs),
            ("Spilled VGPRs", spilled),
            ("Code size", 2048.0),
            ("LDS size", 4096.0),
            ("Subgroups per SIMD", 8.0),
            ("Instructions", 300.0),
        ]
    }

    fn case(variant: &str, size: &str, kernels: Vec<CompiledKernel>) -> Case {
        let case = four_cases().cases.remove(0);
        Case { variant: variant.into(), size: size.into(), kernels, outcome: Outcome::Inspected, ..case }
    }

    /// Returns a case with a kernel of its own.
    fn compiled(variant: &str, size: &str, hash: &str) -> Case {
        case(variant, size, vec![kernel(&format!("matmul/{variant}.f32"), hash, &radv(24.0, 0.0), "")])
    }

    fn record(cases: Vec<Case>) -> Record {
        Record { cases, ..four_cases() }
    }

    #[test]
    fn a_kernel_has_a_row_with_common_names_and_below_it_the_drivers() {
        let spilling = kernel("matmul/tiled.f32", "b", &radv(256.0, 442.0), "");
        let record = record(vec![compiled("naive", "64", "a"), case("tiled", "64", vec![spilling])]);
        insta::assert_snapshot!(text(&record, 80) + "========\n" + &raw(&record, 80));
    }

    #[test]
    fn sizes_that_are_compiled_to_the_same_share_a_row_and_others_do_not() {
        let cases = [("64", "a"), ("128", "a"), ("256", "b")].map(|(size, hash)| compiled("naive", size, hash));
        let record = record(cases.into());
        let labels: Vec<_> = rows(&record.cases).iter().map(KernelRow::label).collect();
        assert_eq!(labels, ["naive 64, 128", "naive 256"]);
    }

    #[test]
    fn a_driver_without_statistics_says_so_and_times_are_shown() {
        let record = record(vec![case("naive", "64", vec![kernel("matmul/naive.f32", "a", &[], "")])]);
        insta::assert_snapshot!(text(&record, 80));
    }

    #[test]
    fn kernels_that_crash_the_compiler_have_a_row_too() {
        let outcome = Outcome::failed("vkCreateComputePipelines failed".into());
        let crashed = |variant, size| Case { outcome: outcome.clone(), ..case(variant, size, vec![]) };
        let some = record(vec![crashed("tiled", "64"), compiled("naive", "64", "a"), crashed("tiled", "128")]);
        let none = record(vec![crashed("tiled", "64")]);
        insta::assert_snapshot!(text(&some, 80) + "========\n" + &text(&none, 80) + "========\n" + &raw(&none, 80));
    }

    #[test]
    fn a_narrow_table_keeps_the_size_of_the_code() {
        let text = text(&record(vec![compiled("a-kernel-with-a-name-of-many-words", "64", "a")]), 80);
        let heading = text.lines().nth(3).expect("a heading");
        assert!(heading.contains("code") && !heading.contains("instr"), "{text}");
    }

    #[test]
    fn two_kernels_are_shown_side_by_side_with_the_difference_of_their_texts() {
        let record = record(vec![
            case("naive", "64", vec![kernel("matmul/naive.f32", "a", &radv(24.0, 0.0), "v_add\nv_mul\n")]),
            case("tiled", "64", vec![kernel("matmul/tiled.f32", "b", &radv(48.0, 0.0), "v_add\nv_fma\n")]),
        ]);
        let rows = rows(&record.cases);
        insta::assert_snapshot!(diff(&record, [&rows[0], &rows[1]], Representation::is_isa, 80));
    }
}
