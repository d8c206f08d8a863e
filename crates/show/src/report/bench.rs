//! Parts shared by the tables of `bench`: sections of cases, and the notes below them.

use super::document::Document;
use super::table::Cell;
use super::{and_more, join_filled};
use crate::basis::alike::{distinct, grouped, grouped_by_key_where};
use crate::basis::error::Exit;
use crate::basis::printable::printable;
use crate::basis::units::{Nanos, counted, in_words};
use crate::case::method::{CacheState, Clock};
use crate::case::tile::CaseTile;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::plan::axes::{self, Axis};
use crate::record::class::Class;
use crate::record::figure::{self, CaseFigure, FigureUnit};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{AT_LEAST, AT_MOST, Case, Caveat, Outcome, RANGE, Record};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;

/// Cases of one table: the same device, algorithm, goal, element type and kind of input. For operations with several
/// forms, a row is a size of an operation, and a column is a form.
pub struct Section<'a> {
    pub device: &'a DeviceInfo,
    pub cases: Vec<&'a Case>,
    /// Host's cases of the same problems, if the device is another.
    pub(super) host: Vec<&'a Case>,
}

/// Groups the cases of a record into sections, in the order of measurement.
pub fn sections<'a>(record: &'a Record) -> Vec<Section<'a>> {
    let mut baselines: HashMap<&str, Vec<&'a Case>> = HashMap::new();
    for case in record.cases.iter().filter(|case| case.measured().is_some()) {
        if is_on_host(record, case.device) {
            baselines.entry(&case.algorithm).or_default().push(case);
        }
    }
    let key = |case: &&'a Case| (case.device, case.algorithm.as_str());
    let mut sections = vec![];
    for cases in grouped_by_key_where(&record.cases, key, |a, b| a.same_kind(b)) {
        let first = cases[0];
        let Some(device) = record.device(first.device) else { continue };
        let mut host = vec![];
        if device.kind != DeviceKind::Host
            && let Some(baselines) = baselines.get(first.algorithm.as_str())
        {
            host.extend(baselines.iter().copied().filter(|case| case.same_kind(first)));
        }
        sections.push(Section { device, cases, host });
    }
    sections
}

/// Groups the cases of a record by device, whatever their problems.
pub(super) fn device_sections<'a>(record: &'a Record) -> Vec<Section<'a>> {
    let section = |device: &'a DeviceInfo| {
        let cases: Vec<_> = record.cases.iter().filter(|case| case.device == device.index).collect();
        (!cases.is_empty()).then(|| Section { device, cases, host: vec![] })
    };
    record.devices.iter().filter_map(section).collect()
}

/// Whether a device of the record is the host.
fn is_on_host(record: &Record, device: usize) -> bool {
    record.device(device).is_some_and(|device| device.kind == DeviceKind::Host)
}

/// Returns the sections with tables of their own: beside other devices, the host is a column of their tables.
pub fn main_sections(record: &Record) -> Vec<Section<'_>> {
    let only_host = record.devices.iter().all(|device| device.kind == DeviceKind::Host);
    let mut sections = sections(record);
    sections.retain(|section| only_host || section.device.kind != DeviceKind::Host);
    sections
}

/// Returns the row of a case: its size, and for a chain its operation.
pub fn row(case: &Case) -> String {
    case.form().map_or_else(|| case.row(), |form| format!("{} {}", case.row(), form.operation))
}

/// Returns the axes of a user's kernel with their values, which the ids of its cases name: `N=64,S=3`. Built-in algorithms
/// have none.
pub fn axes(case: &Case) -> Option<Vec<(&str, &str)>> {
    case.id.rsplit('/').next().unwrap_or_default().split(',').map(|value| value.split_once('=')).collect()
}

/// Returns the names of the axes of a user's kernel.
pub fn axis_names(case: &Case) -> Option<Vec<&str>> {
    Some(axes(case)?.into_iter().map(|(name, _)| name).collect())
}

/// Heads the column of sizes: by the axes of a user's kernel that has several, such as `N×S`.
pub fn size_heading(cases: &[&Case]) -> String {
    let axes = |case: &&Case| {
        let names = axis_names(case)?;
        // Axes that follow from others are in the id, but not in the size.
        let extents = case.size.known()?.extents().len();
        (extents > 1 && extents == names.len()).then(|| names.join("×"))
    };
    match &distinct(cases.iter().map(axes))[..] {
        [Some(axes)] if axes.chars().count() <= MAX_SIZE_HEADING => printable(axes).into_owned(),
        _ => "size".into(),
    }
}

/// Longest names of axes in a heading, so that they do not widen a table.
const MAX_SIZE_HEADING: usize = 16;

/// Describes the state of the caches at the beginning of a kernel.
pub(crate) fn caches(state: CacheState) -> &'static str {
    match state {
        CacheState::Hot => "caches hot",
        CacheState::Cold => "caches cold",
    }
}

/// Names the clock that times kernels.
pub(crate) fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::DeviceTimestamps => "device timestamps",
        Clock::Host => "the host's clock",
    }
}

/// Returns the median as tables show it: for a chain, the time of one operation.
pub fn median(case: &Case) -> Option<Nanos> {
    figure::MEDIAN.value(case).map(Nanos)
}

/// Returns the cell of a figure of `case`; `None` if there is none.
pub fn figure_cell(figure: &CaseFigure, case: &Case) -> Option<Cell> {
    let time = figure.value(case).filter(|_| figure.unit == FigureUnit::Nanoseconds).map(Nanos);
    Some(Cell { time, error: figure.error(case), ..figure.text(case)?.into() })
}

/// Returns the marks beside the names and the times of `cases`, for a legend. Marks of names come first.
pub fn marks_of(cases: &[&Case], conditions: &RunConditions) -> Vec<Mark> {
    let names = distinct(cases.iter().flat_map(|case| Class::of(case).caveats()));
    let mut times = distinct(cases.iter().flat_map(|case| conditions.marks(case)));
    times.sort_by(|a, b| a.sign.cmp(&b.sign));
    // Unverified answers differ in their doubts, which follow the reason: the first tells enough.
    let reason = |mark: &Mark| mark.meaning.split("; ").next().unwrap_or_default().to_string();
    let key = |mark: &Mark| (mark.sign.clone(), if mark.sign == "u" { reason(mark) } else { mark.meaning.clone() });
    let told = grouped(times, key).into_iter().filter_map(|marks| {
        let others = marks.len() - 1;
        let mut first = marks.into_iter().next()?;
        if others > 0 {
            let _ = write!(first.meaning, " (similarly in {})", counted(others, "other case"));
        }
        Some(first)
    });
    names.into_iter().chain(told).collect()
}

/// Meaning of the signs of a share whose limit was measured on a busy device.
pub(crate) const ROUGH_LIMIT: &str = "the limit is known only roughly";

/// Returns the mark that explains the signs beside shares that are uncertain, of those that are shown.
pub fn bound_mark(is_shown: impl Fn(&str) -> bool) -> Option<Mark> {
    let shown: Vec<_> = [RANGE, AT_MOST, AT_LEAST].into_iter().filter(|sign| is_shown(sign)).collect();
    let meaning = format!("{ROUGH_LIMIT}; measure again when the device is idle");
    (!shown.is_empty()).then(|| Mark::new(shown.join(" "), meaning))
}

/// Returns a cell with the variant and the caveats of its answer.
pub fn variant(case: &Case) -> Cell {
    Cell { detail: Class::of(case).to_string(), ..Cell::code(&*case.variant) }
}

/// Explains missing times, except of variants that a compact table below lists as skipped, and lists the caveats of devices.
pub fn notes(record: &Record, shows_grid: bool) -> String {
    let mut run_algorithms = HashSet::new();
    let mut run_variants = HashSet::new();
    for case in remarked(record) {
        run_algorithms.insert((case.device, &case.algorithm));
        run_variants.insert((case.device, &case.algorithm, &case.variant));
    }
    let is_listed = |case: &Case| {
        shows_grid
            && run_algorithms.contains(&(case.device, &case.algorithm))
            && !run_variants.contains(&(case.device, &case.algorithm, &case.variant))
    };
    let mut out = outcomes_except(record, is_listed);
    if record.cases.iter().all(|case| case.timed().is_none()) {
        return out;
    }
    for variants in variants_of_same_code(record) {
        let _ = writeln!(out, "note      {} run the same SPIR-V", in_words(&variants, "and"));
    }
    let (on_host, others): (Vec<&Caveat>, Vec<&Caveat>) = record.caveats.iter().partition(|caveat| match caveat {
        Caveat::OneProcess { device, .. } => is_on_host(record, *device),
        Caveat::Disturbed { .. } => false,
    });
    // A caveat about a software device covers the host beside it too.
    for caveat in if others.is_empty() { on_host } else { others } {
        let _ = writeln!(out, "note      {caveat}");
    }
    out
}

/// Returns the variants of users' kernels, by problem, whose modules, constants, grids and push constants are the same:
/// their times differ by noise alone.
fn variants_of_same_code(record: &Record) -> Vec<Vec<&str>> {
    let users = record.cases.iter().filter(|case| case.entry.algorithm.is_none() && !case.kernels.is_empty());
    let code = |case: &Case| case.kernels.iter().map(|kernel| kernel.hash.clone()).collect::<Vec<_>>();
    let groups = grouped(users, |case| (case.device, case.row(), code(case)));
    let variants = groups.iter().map(|cases| distinct(cases.iter().map(|case| &*case.variant)));
    distinct(variants.filter(|variants| variants.len() > 1))
}

/// Most reasons for which cases of an algorithm did not run that have a line each.
const MAX_REASONS: usize = 6;

/// Explains missing and wrong answers; then lists the remarks of problems and variants.
pub fn outcomes(record: &Record) -> String {
    outcomes_except(record, |_| false)
}

/// Does the same, but leaves out skipped cases that `is_listed` elsewhere. Cases with the same reason share a line, as do those
/// of a kernel that failed alike, whose reasons differ in figures, and those of an algorithm that did not run for many reasons:
/// the smallest, which is the first to repeat, tells its own.
fn outcomes_except<'r>(record: &'r Record, is_listed: impl Fn(&Case) -> bool) -> String {
    let cases = record.cases.iter().filter(|case| !is_listed(case) && case.outcome.reason().is_some());
    // Kernels of several problems fail for one reason, but lack it each for itself.
    let by_reason = grouped(cases, |case| {
        let algorithm = has_not_run(case).then_some(case.algorithm.as_str());
        (case.outcome.status(), case.outcome.reason(), algorithm)
    });
    let not_run = |algorithm: &str| {
        by_reason.iter().filter(|cases| has_not_run(cases[0]) && cases[0].algorithm == algorithm).count()
    };
    let key = |cases: &Vec<&'r Case>| {
        let kind = cases[0].failure_kind();
        let alone = (None, None, Some(std::ptr::from_ref(cases[0])));
        match has_not_run(cases[0]) {
            true if not_run(&cases[0].algorithm) > MAX_REASONS => (None, Some((kind.0, kind.1, kind.5)), None),
            false if cases.iter().all(|case| case.failure_kind() == kind) => (Some(kind), None, None),
            _ => alone,
        }
    };
    let keys: Vec<_> = by_reason.iter().map(key).collect();
    let mut lines = String::new();
    for groups in grouped(keys.into_iter().zip(by_reason), |(key, _)| key.clone()) {
        let mut cases: Vec<_> = groups.iter().flat_map(|(_, cases)| cases).copied().collect();
        cases.sort_by_key(|case| case.effort());
        let mut reason = cases[0].outcome.reason().unwrap_or_default();
        if groups.len() > 1 && has_not_run(cases[0]) {
            let _ = write!(reason, " for the smallest; in all, {} reasons (in --json)", groups.len());
        } else if groups.len() > 1 {
            let _ = write!(reason, " (the smallest of {}; --json has the others)", counted(cases.len(), "case"));
        }
        let more = and_more(cases.len() - 1);
        let kernels = distinct(cases.iter().map(|case| (case.algorithm.as_str(), case.variant.as_str())));
        let are_of_one = kernels.iter().all(|(algorithm, _)| *algorithm == kernels[0].0);
        let variants = match &kernels[..] {
            [_] => String::new(),
            several if are_of_one => {
                format!(" ({})", several.iter().map(|(_, variant)| *variant).collect::<Vec<_>>().join(", "))
            }
            several => format!(" ({} in all)", counted(several.len(), "kernel")),
        };
        let _ = writeln!(lines, "{:9} {}{more}{variants}: {reason}", cases[0].outcome.status(), cases[0].id);
    }
    lines + &failed_choices(record) + &remarks(record) + &repeated(record)
}

/// Names the variants that `auto` chose and that failed, with what to do about it.
fn failed_choices(record: &Record) -> String {
    let is_failure = |outcome: &Outcome| matches!(outcome, Outcome::Rejected(_)) || outcome.failure().is_some();
    let failed = record.cases.iter().filter(|case| is_failure(&case.outcome));
    let chosen = distinct(failed.filter_map(|case| case.chosen_by_auto.as_deref()));
    if chosen.is_empty() {
        return String::new();
    }
    format!(
        "note      auto chose {}, which failed: name another variant in place of auto, or run `gpukern tune`, after which auto \
         leaves out what fails\n",
        chosen.join(" and ")
    )
}

/// Whether a case was skipped or refused.
fn has_not_run(case: &Case) -> bool {
    matches!(case.outcome, Outcome::Skipped { .. }) || case.outcome.exit() == Some(Exit::Usage)
}

/// Lists the answers that changed when their cases were repeated, and counts the stable ones.
fn repeated(record: &Record) -> String {
    let mut lines = String::new();
    let mut steady = 0;
    let mut runs = 0;
    for case in &record.cases {
        let Some(measured) = case.measured() else { continue };
        let Some(repeated) = &measured.repeated else { continue };
        runs = runs.max(repeated.runs);
        if repeated.differing == 0 {
            steady += 1;
            continue;
        }
        let (kind, comment) = match measured.verification.verified() {
            Some(_) => ("note", "all within the tolerance"),
            None => ("warning", "no reference says which is right"),
        };
        let _ = writeln!(lines, "{kind:9} {}: {repeated}; {comment}", case.id);
    }
    if steady > 0 {
        let _ = writeln!(lines, "note      {} gave the same answer in {runs} more runs", counted(steady, "case"));
    }
    lines
}

/// Returns the cases that remarks are about: all except skipped ones.
fn remarked(record: &Record) -> impl Iterator<Item = &Case> {
    record.cases.iter().filter(|case| !matches!(case.outcome, Outcome::Skipped { .. }))
}

/// Lists the remarks of problems and variants.
fn remarks(record: &Record) -> String {
    // A built-in tile is worth a remark only beside a tuned one.
    let all_built_in =
        remarked(record).filter_map(|case| case.tile.as_ref()).all(|tile| matches!(tile, CaseTile::BuiltIn { .. }));
    let mut remarks = BTreeSet::new();
    for case in remarked(record) {
        let tile = case.tile.as_ref().filter(|_| all_built_in).map(ToString::to_string);
        let notes = case.notes.iter().filter(|note| tile.as_ref() != Some(note));
        remarks.extend(notes.map(|note| (case.algorithm.as_str(), note)));
    }
    let line = |(algorithm, remark)| {
        format!("note      {algorithm}: {remark}{}\n", variants_with_remark(record, algorithm, remark))
    };
    remarks.into_iter().map(line).collect()
}

/// Names the variants that a remark is about, with what else tells its cases from others, such as the type, and with their
/// sizes, if it is about only some: ` (tiled f16 512, 1024)`. Empty if it is about every case of the algorithm.
fn variants_with_remark(record: &Record, algorithm: &str, remark: &String) -> String {
    let all: Vec<&Case> = remarked(record).filter(|case| case.algorithm == algorithm).collect();
    let (noted, others): (Vec<&Case>, Vec<&Case>) = all.iter().partition(|case| case.notes.contains(remark));
    if others.is_empty() {
        return String::new();
    }
    let differs = |axis: &Axis| all.iter().any(|case| !(axis.same)(&case.options, &all[0].options));
    let kind = |case: &Case| [vec![case.variant.clone()], axes::words(&case.options, differs)].concat().join(" ");
    let mut parts = vec![];
    for of_variant in grouped(noted, |case| case.variant.as_str()) {
        let variant = of_variant[0].variant.as_str();
        if others.iter().all(|case| case.variant != variant) {
            parts.push(variant.to_string());
            continue;
        }
        for cases in grouped(of_variant, |case| kind(case)) {
            let kind_of_cases = kind(cases[0]);
            let sizes = distinct(cases.iter().map(|case| case.row()));
            let has_others = others.iter().any(|case| kind(case) == kind_of_cases);
            parts.push(if has_others { format!("{kind_of_cases} {}", sizes.join(", ")) } else { kind_of_cases });
        }
    }
    format!(" ({})", parts.join("; "))
}

/// Writes the heading of a section. Its device and conditions are left out if `before` is a section of the same device, whose
/// heading has them.
pub(super) fn heading(
    document: &mut Document,
    section: &Section<'_>,
    conditions: &RunConditions,
    before: Option<&Section<'_>>,
) {
    let mut run = section.cases.iter().filter(|case| !matches!(case.outcome, Outcome::Skipped { .. })).peekable();
    let all_verified = run.peek().is_some() && run.all(|case| case.is_verified());
    let mut measured = section.cases.iter().filter_map(|case| case.measured());
    let suffix = match (all_verified, measured.any(|m| m.weak_check().is_some())) {
        (true, true) => ", all answers verified, some weakly (w)",
        (true, false) => ", all answers verified",
        (false, _) => "",
    };
    let problems = distinct(section.cases.iter().map(|case| &case.algorithm)).len();
    let subject = if problems == 1 { section.cases[0].kind() } else { counted(problems, "problem") };
    document.line(format!("{subject}{suffix}"));
    if before.is_none_or(|before| before.device.index != section.device.index) {
        document.line(named(section.device));
        document.lines(conditions.sentence(section.device.index));
    }
}

/// Names a device for the line above its results.
pub(super) fn named(device: &DeviceInfo) -> String {
    let DeviceInfo { index, name, kind, .. } = device;
    join_filled(&[&format!("device {index}: {name}, {kind}"), &device.driver_beside_name()], ", ")
}

#[cfg(test)]
pub mod tests {
    use super::super::grid::compact;
    use super::super::long::{View, joined, long};
    use super::*;
    use crate::basis::dtype::DType;
    use crate::basis::size::Size;
    use crate::case::compiled::CompiledKernel;
    use crate::kernels::CATALOGUE;
    use crate::record::fixture::{case, four_cases, measured_mut, timed, verification};
    use crate::record::{CaseSize, Repeated};

    #[test]
    fn joined_problems_share_a_table_with_their_names() {
        let mut record = four_cases();
        record.cases.truncate(2);
        for (case, name) in record.cases.iter_mut().zip(["01-sum", "02-soft_max"]) {
            (case.algorithm, case.variant) = (name.into(), "kernel".into());
        }
        insta::assert_snapshot!("joined", joined(&record, &View::of_width(80)));
    }

    #[test]
    fn a_rejected_case_has_no_time_and_a_note_and_of_the_others_the_fastest_has_a_star() {
        insta::assert_snapshot!("compact", compact(&four_cases(), &View::of_width(80)));
        insta::assert_snapshot!("long", long(&four_cases(), &View::of_width(120)));
        insta::assert_snapshot!("notes", notes(&four_cases(), false));
    }

    #[test]
    fn failures_of_a_kernel_share_a_line_which_tells_of_the_smallest() {
        let mut record = four_cases();
        let failed = |size: u64| Case {
            id: format!("matmul/naive/f32/{size}"),
            size: CaseSize::Known(Size::Uniform(size)),
            outcome: Outcome::failed(format!("reason {size}")),
            ..record.cases[0].clone()
        };
        let other = Case { variant: "tiled".into(), id: "matmul/tiled/f32/9".into(), ..failed(9) };
        record.cases = vec![failed(64), failed(8), failed(32), other];
        insta::assert_snapshot!(outcomes(&record), @"
        failed    matmul/naive/f32/8 and 2 more: reason 8 (the smallest of 3 cases; --json has the others)
        failed    matmul/tiled/f32/9: reason 9
        ");
    }

    #[test]
    fn wrong_answers_or_failures_for_one_reason_share_a_line() {
        let mut record = four_cases();
        let ended = |algorithm: &str, variant: &str, size: u64, outcome: &Outcome| Case {
            id: format!("{algorithm}/{variant}/f32/{size}"),
            algorithm: algorithm.into(),
            outcome: outcome.clone(),
            ..case(variant, outcome.clone())
        };
        let wrong = Outcome::Rejected(verification(1.0));
        record.cases = (1..4).map(|size| ended("matmul", "naive", size, &wrong)).collect();
        record.cases.push(ended("matmul", "tiled", 1, &wrong));
        let failed = Outcome::failed("no memory".into());
        record.cases.extend(["a", "b", "c", "d"].map(|name| ended(name, name, 1, &failed)));
        insta::assert_snapshot!(outcomes(&record));
    }

    #[test]
    fn chains_show_the_time_of_one_operation_with_its_forms_side_by_side() {
        let mut record = four_cases();
        let chain = |variant, outcome| {
            let algorithm = "collectives".into();
            Case { algorithm, chain: Some(1000), ..case(variant, outcome) }
        };
        record.cases = vec![
            chain("broadcast-subgroup", timed(40.0, vec![])),
            chain("broadcast-shared", timed(80.0, vec![])),
            chain("vote-any-subgroup", timed(30.0, vec![])),
            chain("vote-any-shared", Outcome::Rejected(verification(1.0))),
        ];
        record.attach_entries(&CATALOGUE);
        let view = View::of_width(120);
        insta::assert_snapshot!(compact(&record, &view) + "\n" + &long(&record, &view));
    }

    #[test]
    fn notes_say_whose_they_are_where_not_every_case_has_them() {
        let mut record = four_cases();
        let larger = |case: &Case| Case { size: "128".into(), ..case.clone() };
        record.cases = vec![record.cases[0].clone(), larger(&record.cases[0]), record.cases[1].clone()];
        for (index, note) in [(0, "one"), (1, "other"), (2, "local's"), (0, "all"), (1, "all"), (2, "all")] {
            record.cases[index].notes.push(note.into());
        }
        insta::assert_snapshot!(notes(&record, false));
        // Of several types, each is named.
        record.cases[1].options.dtype = DType::F16;
        let said = notes(&record, false);
        assert!(said.contains(": one (naive f32)\n") && said.contains(": other (naive f16)\n"), "{said}");
        let of_both = Case { size: "256".into(), ..record.cases[0].clone() };
        record.cases.push(Case { notes: vec![], ..of_both });
        let said = notes(&record, false);
        assert!(said.contains(": one (naive f32 64)\n") && said.contains(": other (naive f16)\n"), "{said}");
    }

    #[test]
    fn users_kernels_of_the_same_code_are_named_once() {
        let mut record = four_cases();
        record.cases.truncate(2);
        let kernel =
            |hash: &str| CompiledKernel { name: "k".into(), hash: hash.into(), statistics: vec![], inspection: None };
        for case in &mut record.cases {
            case.kernels = vec![kernel("1")];
            case.entry.algorithm = None;
        }
        let note = "note      naive and local run the same SPIR-V\n";
        assert_eq!(notes(&record, false).matches(note).count(), 1, "{}", notes(&record, false));
        record.cases[1].kernels = vec![kernel("2")];
        assert!(!notes(&record, false).contains("SPIR-V"));
    }

    #[test]
    fn skips_that_share_a_reason_share_a_line_and_remarks_of_skips_are_left_out() {
        let mut record = four_cases();
        let skipped = |size: &str, variant: &str, reason: &str| Case {
            size: size.into(),
            id: format!("matmul/{variant}/f32/{size}"),
            notes: vec!["tile 8×8".into()],
            ..case(variant, Outcome::unsupported(reason.into()))
        };
        let wrong = record.cases[2].clone();
        let of_size = |size| [skipped(size, "split", "no units"), skipped(size, "gemv", "too large"), wrong.clone()];
        record.cases = [of_size("8"), of_size("16")].concat();
        record.cases.push(skipped("8", "coopmat", "no units"));
        insta::assert_snapshot!(notes(&record, false));
        // A compact table lists variants that no size runs.
        record.cases.push(skipped("32", &wrong.variant, "too large"));
        let told = notes(&record, true);
        assert!(!told.contains("split") && told.contains("skipped   matmul/subgroup/f32/32: too large"), "{told}");
        // Without a variant that runs, there is no such table.
        record.cases.retain(|case| matches!(case.outcome, Outcome::Skipped { .. }));
        assert_eq!(notes(&record, true), notes(&record, false));
    }

    #[test]
    fn a_tile_that_is_built_in_has_a_note_beside_a_tuned_one_alone() {
        let mut record = four_cases();
        let set_tile = |case: &mut Case, tile: CaseTile| {
            case.notes = vec![tile.to_string()];
            case.tile = Some(tile);
        };
        set_tile(&mut record.cases[0], CaseTile::BuiltIn { tile: "8×8×8 in 4×4".into() });
        assert!(!notes(&record, false).contains("tile"), "{}", notes(&record, false));
        set_tile(
            &mut record.cases[1],
            CaseTile::Tuned { tile: "16×8×8 in 4×4".into(), day: "2026-01-01".into(), at: None, cache: None },
        );
        assert_eq!(notes(&record, false).matches("tile").count(), 2, "{}", notes(&record, false));
    }

    #[test]
    fn an_answer_that_changes_is_told_with_its_case_and_those_that_do_not_are_counted() {
        let changed = Repeated { runs: 1000, differing: 23, first: Some(41), element: "Y[17] is 2, it was 1".into() };
        let steady = Repeated { runs: 1000, ..Repeated::default() };
        let repeat = |record: &Record, repeated: &Repeated| {
            let mut case = record.cases.iter().find(|case| case.measured().is_some()).expect("one").clone();
            measured_mut(&mut case).repeated = Some(repeated.clone());
            case
        };
        let record = four_cases();
        let unverified = crate::record::fixture::unverified();
        let cases = vec![repeat(&record, &changed), repeat(&unverified, &changed), repeat(&record, &steady)];
        let notes = [cases.clone(), cases[2..].to_vec()].map(|cases| outcomes(&Record { cases, ..record.clone() }));
        insta::assert_snapshot!(notes.join("========\n"));
    }

    #[test]
    fn an_answer_that_nobody_checked_is_called_unverified() {
        let record = crate::record::fixture::unverified();
        let view = View::of_width(120);
        let summary = super::super::verify::summary(&record);
        insta::assert_snapshot!([compact(&record, &view), long(&record, &view), summary].join("========\n"));
    }
}
