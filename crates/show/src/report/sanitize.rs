//! Tables of `sanitize`, and the faults below them.

use super::and_more;
use super::table::{Cell, Table, prose};
use crate::basis::alike::{distinct, grouped};
use crate::basis::units::counted;
use crate::simulator::fault::KernelFault;
use crate::simulator::sanitize::{CaseReport, SizeResult, spans};
use std::fmt::Write;

/// Longest list of a kernel's sizes in a row; longer ones are counted.
const MAX_LISTED_SIZES: usize = 20;

/// Width of the kind of a fault, the longest and a gap.
const KIND_WIDTH: usize = 23;

/// Most places of a kind that a fault is shown at, in one kernel; the rest are counted.
const MAX_SHOWN: usize = 20;

/// Prints a row for the cases of a kernel with the same result, and then each fault once.
pub fn text(reports: &[CaseReport], width: usize) -> String {
    let mut table = Table::default().text(["kernel", "size", "sub-groups"]).prose(["answer"]).numbers(["faults"]);
    let row_key =
        |report: &&CaseReport| (report.kernel.clone(), sub_groups(report), report.answer(), report.faults.len());
    for reports in grouped(reports.iter(), row_key) {
        let [first, ..] = reports[..] else { continue };
        let listed = reports.iter().map(|report| report.extents.as_str()).collect::<Vec<_>>().join(" ");
        let sizes =
            if listed.len() > MAX_LISTED_SIZES && reports.len() > 1 { counted(reports.len(), "size") } else { listed };
        // Nothing was looked for.
        let is_unseen = first.faults.is_empty() && first.judged_sizes().is_empty();
        let faults = if is_unseen { "–".into() } else { first.faults.len().to_string() };
        let cells = [sizes, sub_groups(first), first.answer(), faults];
        table.row([Cell::code(&*first.kernel)].into_iter().chain(cells.map(Cell::from)));
    }
    table.fit(width, &["sub-groups"]);
    table.shorten_names(width);
    let mut out = table.terminal(width);
    let mut shown: Vec<(KernelFault, Vec<&CaseReport>)> = vec![];
    for report in reports {
        for fault in &report.faults {
            match shown.iter_mut().find(|(known, _)| known.is_same(fault)) {
                Some((known, cases)) => {
                    known.count = known.count.saturating_add(fault.count);
                    known.subgroup_sizes.extend(&fault.subgroup_sizes);
                    cases.push(report);
                }
                None => shown.push((fault.clone(), vec![report])),
            }
        }
    }
    for (index, (fault, cases)) in shown.iter().take(MAX_SHOWN).enumerate() {
        out.push('\n');
        let has_remedy =
            |(other, _): &(KernelFault, _)| (&other.kernel, &other.remedy) == (&fault.kernel, &fault.remedy);
        let remedy = if shown[..index].iter().any(has_remedy) { "as above" } else { &fault.remedy };
        out += &fault_text(&KernelFault { remedy: remedy.into(), ..fault.clone() }, cases, width);
    }
    if shown.len() > MAX_SHOWN {
        let _ = writeln!(out, "\nand {}; --json has all", counted(shown.len() - MAX_SHOWN, "more fault"));
    }
    out + &wrong_answers(reports, width) + "\n" + &prose(summary(reports, shown.len()).trim_end(), width, 2)
}

/// Returns the sub-group sizes at which a case was judged.
fn sub_groups(report: &CaseReport) -> String {
    if report.any_size { "any".into() } else { spans(&report.judged_sizes()) }
}

/// Prints the kind of a fault, beside it both places, the remedy, and where else it is.
fn fault_text(fault: &KernelFault, cases: &[&CaseReport], width: usize) -> String {
    let mut lines = fault.events();
    if !fault.remedy.is_empty() {
        lines.push(format!("remedy: {}", fault.remedy));
    }
    let mut sizes = fault.subgroup_sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes = if cases[0].any_size { String::new() } else { format!(", sub-groups of {}", spans(&sizes)) };
    lines.push(format!("in {}{}{sizes}", cases[0].id, more_cases(cases)));
    beside(fault.kind.words(), &lines, width)
}

/// Prints lines, wrapped, beside a title.
fn beside(title: &str, lines: &[String], width: usize) -> String {
    let room = width.saturating_sub(KIND_WIDTH).max(20);
    let mut out = String::new();
    for line in lines.iter().flat_map(|line| prose(line, room, 2).lines().map(String::from).collect::<Vec<_>>()) {
        let title = if out.is_empty() { title } else { "" };
        let _ = writeln!(out, "{title:<KIND_WIDTH$}{line}");
    }
    out
}

/// Prints the first wrong value of each kernel that is wrong without a fault to explain it.
fn wrong_answers(reports: &[CaseReport], width: usize) -> String {
    let mut out = String::new();
    let unexplained = reports.iter().filter(|report| report.is_wrong() && report.faults.is_empty());
    for cases in grouped(unexplained, |report| report.kernel.as_str()).into_iter().take(MAX_SHOWN) {
        for size in &cases[0].sizes {
            if let SizeResult::Wrong { reason, .. } = &size.result {
                let sizes = spans(&cases[0].wrong_sizes());
                let place = format!("in {}{}, sub-groups of {sizes}", cases[0].id, more_cases(&cases));
                let why = if cases[0].accepted.is_empty() {
                    "no race, access out of bounds or undefined value explains it: look at the arithmetic, the indices, and \
                     elements to which several invocations store equal values"
                } else {
                    "a fault that is allowed may explain it"
                };
                let _ = write!(out, "\n{}", beside("wrong answer", &[reason.clone(), why.into(), place], width));
                break;
            }
        }
    }
    out
}

/// Counts the cases after the first one, which is named: ` and 2 more cases`.
fn more_cases(cases: &[&CaseReport]) -> String {
    if cases.len() > 1 { format!(" and {}", counted(cases.len() - 1, "more case")) } else { String::new() }
}

/// Counts the different faults, and the cases and runs that were simulated: `no faults in 12 cases, 216 runs`.
fn summary(reports: &[CaseReport], faults_found: usize) -> String {
    let has_accepted = reports.iter().any(|report| !report.accepted.is_empty() || report.accepts_wrong_answer);
    let faults = match (faults_found, has_accepted) {
        (0, true) => "no other faults".into(),
        (0, false) => "no faults".into(),
        (count, _) => counted(count, "fault"),
    };
    let runs: usize = reports.iter().map(|report| report.runs as usize).sum();
    let count = |is: &dyn Fn(&&CaseReport) -> bool| reports.iter().filter(is).count();
    let in_part = count(&|report| report.has_failed() && report.runs > 0);
    let simulated = count(&|report| report.runs > 0) - in_part;
    let mut text = match simulated {
        0 if in_part == 0 => "no case was simulated".into(),
        0 => format!("{faults} in {}", counted(runs, "run")),
        _ => format!("{faults} in {}, {}", counted(simulated, "case"), counted(runs, "run")),
    };
    let wrong: Vec<_> = reports.iter().filter(|report| report.is_wrong()).collect();
    if let [first, ..] = wrong[..] {
        let answers = match (simulated, wrong.len()) {
            (1, _) => format!("the answer is {}", first.answer()),
            (_, 1) => "1 answer is wrong".into(),
            (_, count) => format!("{count} answers are wrong"),
        };
        let but = if faults_found == 0 { ", but " } else { "; " };
        let _ = write!(text, "{but}{answers}");
    }
    for (count, what) in [
        (in_part, "simulated in part"),
        (count(&|report| report.has_failed() && report.runs == 0), "not simulated"),
        (count(&|report| report.unverified.is_some()), "unverified"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    text + "\n"
}

/// Returns notes about what was not simulated or judged, and about what was assumed: each once for a kernel.
pub fn notes(reports: &[CaseReport]) -> String {
    let mut lines = vec![];
    for report in reports {
        let kernel = &report.kernel;
        let mut add_sizes =
            |name: &str, verbs: [&'static str; 2], words: &str, reason_of: fn(&SizeResult) -> Option<&String>| {
                let reasons =
                    report.sizes.iter().filter_map(|size| Some((size.subgroup_size, reason_of(&size.result)?)));
                // The sizes that the device has instead may follow from this one.
                let need = |reason: &'_ str| reason.split("; the device has").next().unwrap_or_default().to_string();
                for sizes in grouped(reasons, |(_, reason)| need(reason)) {
                    let numbers: Vec<_> = sizes.iter().map(|(size, _)| *size).collect();
                    let is_same = sizes.iter().all(|(_, reason)| *reason == sizes[0].1);
                    let reason = if is_same { sizes[0].1.clone() } else { need(sizes[0].1) };
                    let reason = reason.replace("the device", "the simulated device");
                    lines.push((name.to_string(), verbs, format!("{words} {}: {reason}", spans(&numbers))));
                }
            };
        add_sizes(kernel, ["is", "are"], "not for sub-groups of", |result| match result {
            SizeResult::Unsuitable { reason } => Some(reason),
            _ => None,
        });
        add_sizes(&report.id, ["was", "were"], "not simulated with sub-groups of", |result| match result {
            SizeResult::Failed { reason } => Some(reason),
            _ => None,
        });
        let unverified = report.unverified.as_ref().map(|reason| format!("unverified: {reason}"));
        lines.extend(unverified.map(|said| (kernel.clone(), ["is", "are"], said)));
        if report.assumed_progress {
            let assumed = "work-groups that wait for others; these were assumed to make progress";
            lines.push((kernel.clone(), ["has", "have"], assumed.into()));
        }
    }
    let mut lines: Vec<_> = grouped(distinct(lines), |(_, verbs, said)| (*verbs, said.clone()))
        .iter()
        .map(|alike| {
            let ((name, [one, several], said), others) = (&alike[0], alike.len() - 1);
            format!("{name}{} {} {said}", and_more(others), if others == 0 { one } else { several })
        })
        .collect();
    let failed = reports.iter().filter_map(|report| Some((report, report.error.as_ref()?)));
    for cases in grouped(failed, |(_, reason)| *reason) {
        let [(first, reason), others @ ..] = &cases[..] else { continue };
        let was = if others.is_empty() { "was" } else { "were" };
        lines.push(format!("{}{} {was} not simulated: {reason}", first.id, and_more(others.len())));
    }
    lines.iter().map(|line| format!("note      {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::fault::{FaultKind, SourcePlace};
    use crate::simulator::sanitize::SizeReport;

    fn report(extents: &str, faults: Vec<KernelFault>) -> CaseReport {
        let wrong = SizeResult::Wrong { reason: "B[1] is 0, the reference has 2".into(), schedules: vec![0, 1] };
        let first = if faults.is_empty() { SizeResult::Right } else { wrong };
        CaseReport {
            id: format!("transpose/transpose/f32/{extents}"),
            kernel: "transpose".into(),
            extents: extents.into(),
            sizes: vec![
                SizeReport { subgroup_size: 4, result: first },
                SizeReport { subgroup_size: 8, result: SizeResult::Right },
            ],
            faults,
            runs: 6,
            ..CaseReport::default()
        }
    }

    fn race() -> KernelFault {
        let place = |line| {
            Some(SourcePlace { line: Some(("transpose.comp".into(), line)), instruction: String::new(), text: None })
        };
        KernelFault {
            kind: FaultKind::RaceShared,
            kernel: "transpose".into(),
            at: place(24),
            other: place(21),
            what: "reads tile[9][4] (invocation 3,12 of group 0,0)".into(),
            other_what: "writes it (invocation 12,3), with no barrier between".into(),
            remedy: "barrier() after line 21".into(),
            subgroup_sizes: vec![4],
            count: 96,
        }
    }

    #[test]
    fn a_fault_has_both_places_and_the_remedy_within_80_columns() {
        let text = text(&[report("64", vec![race()]), report("128", vec![race()])], 80);
        for part in [
            "wrong with sub-groups of 4",
            "\nrace in shared memory  transpose.comp:24 reads tile[9][4] (invocation 3,12 of\n",
            "\n                       transpose.comp:21 writes it (invocation 12,3), with no\n",
            "\n                       remedy: barrier() after line 21\n",
            " and 1 more case, sub-groups\n",
            "\n1 fault in 2 cases, 12 runs; 2 answers are wrong\n",
        ] {
            assert!(text.contains(part), "lacks {part:?}:\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_remedy_of_two_faults_of_a_kernel_is_told_once() {
        let later = KernelFault { what: "reads tile[0][0]".into(), other: None, ..race() };
        let text = text(&[report("64", vec![race(), later])], 80);
        let counts = ["barrier() after", "remedy: as above"].map(|remedy| text.matches(remedy).count());
        assert_eq!(counts, [1, 1], "{text}");
    }

    #[test]
    fn clean_cases_share_a_row_and_reasons_a_note() {
        let mut report = report("64", vec![]);
        let text = text(&vec![report.clone(); 3], 80);
        assert!(text.contains(" 64 64 64 ") && text.ends_with("\nno faults in 3 cases, 18 runs\n"), "{text}");
        let long = super::text(&vec![self::report("M=255,N=30", vec![]); 2], 80);
        assert!(long.contains(" 2 sizes "), "{long}");
        let result = |has| SizeResult::Unsuitable { reason: format!("needs sub-groups of 32; the device has {has}") };
        report.sizes = [4, 8].map(|subgroup_size| SizeReport { subgroup_size, result: result(subgroup_size) }).into();
        let note = "note      transpose is not for sub-groups of 4, 8: needs sub-groups of 32\n";
        assert_eq!(notes(&[report.clone(), report.clone()]), note);
        let other = CaseReport { kernel: "scan".into(), ..report.clone() };
        let note = "note      transpose and 1 more are not for sub-groups of 4, 8: needs sub-groups of 32\n";
        assert_eq!(notes(&[report, other]), note);
    }
}
