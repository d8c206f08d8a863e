//! GitHub-flavoured Markdown for a pull-request comment: sizes by variants, every case folded away below, and why the
//! others have no time.

mod comparison;

use super::{Named, bandwidth, named, rate, reason, status};
use crate::basis::units::{TimeUnit, significant};
use crate::record::grid::{Section, main_sections, median};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Case, Measured, Record};
pub(crate) use comparison::comparison;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The tables of each device, and below them the cases without a time.
#[must_use]
pub(crate) fn text(record: &Record) -> String {
    let all = named(record);
    let conditions = RunConditions::of(record);
    let mut out = String::new();
    for device in &record.devices {
        let cases: Vec<_> = all.iter().filter(|named| named.case.device == device.index).collect();
        let timed: Vec<_> = cases.iter().filter_map(|named| named.case.measured().map(|m| (*named, m))).collect();
        let kind = format!("{}, {}", device.kind, device.driver.info);
        let _ = writeln!(out, "**{}** ({})\n", plain(&record.device_name(device.index)), plain(&kind));
        if let Some(sentence) = conditions.sentence(device.index) {
            let _ = writeln!(out, "{}\n", plain(&sentence));
        }
        for section in main_sections(record).iter().filter(|section| section.device.index == device.index) {
            out.push_str(&grid(record, section));
        }
        if !timed.is_empty() {
            out.push_str("<details><summary>every case</summary>\n\n");
        }
        table(&mut out, &timed, &conditions);
        if !timed.is_empty() {
            out.push_str("</details>\n\n");
        }
        for named in &cases {
            if let Some(reason) = reason(&named.case.outcome) {
                let _ = writeln!(out, "- {} {}: {}", status(&named.case.outcome), code(&named.name), plain(&reason));
            }
        }
        if timed.len() < cases.len() {
            out.push('\n');
        }
        let marks: BTreeSet<_> = timed.iter().flat_map(|(named, _)| conditions.marks(named.case)).collect();
        for Mark { sign, meaning } in &marks {
            let _ = writeln!(out, "- {} {}", plain(sign), plain(meaning));
        }
        if !marks.is_empty() {
            out.push('\n');
        }
    }
    let validation = if record.method.validation { ", under the validation layers" } else { "" };
    let origin = &record.origin;
    let known =
        [origin.label.clone(), origin.commit_text().map(|commit| format!("commit {commit}")), origin.host_text()];
    let known: String = known.into_iter().flatten().map(|text| format!(", {}", plain(&text))).collect();
    let _ = writeln!(out, "gpukern {}, {}{validation}{known}", plain(&record.version), plain(&record.started));
    out
}

/// Sizes by variants, the fastest of each size in bold; nothing where no case has a time.
fn grid(record: &Record, section: &Section<'_>) -> String {
    let grid = section.grid(record);
    if !section.cases.iter().any(|case| case.measured().is_some()) {
        return String::new();
    }
    let host = grid.baseline().map(|name| format!("{} (host)", code(name)));
    let names: Vec<_> = grid.variants.iter().map(|name| code(name)).chain(host).collect();
    let mut out = format!("{}\n\n| size | | {} |\n", plain(&section.cases[0].kind()), names.join(" | "));
    let _ = writeln!(out, "| :--- | :--- |{}", " ---: |".repeat(names.len()));
    for size in &grid.sizes {
        let cases: Vec<_> = grid.variants.iter().map(|variant| grid.case(size, variant)).collect();
        let host = grid.baseline().is_some().then(|| grid.host(size));
        let cases: Vec<Option<&Case>> = cases.into_iter().chain(host).collect();
        let times = || cases.iter().flatten().filter_map(|case| median(case));
        let best = times().min_by(|a, b| a.0.total_cmp(&b.0));
        let unit = best.map(TimeUnit::for_value);
        let cell = |case: Option<&Case>| match (case, case.and_then(median), unit) {
            (_, Some(time), Some(unit)) if best == Some(time) => format!(" **{}** |", unit.number(time)),
            (_, Some(time), Some(unit)) => format!(" {} |", unit.number(time)),
            (Some(case), ..) => format!(" {} |", case.outcome.status()),
            (None, ..) => "  |".into(),
        };
        let unit = unit.map_or_else(String::new, |unit| unit.to_string());
        let _ = writeln!(out, "| {} | {unit} |{}", plain(size), cases.iter().copied().map(cell).collect::<String>());
    }
    out + "\n"
}

fn table(out: &mut String, timed: &[(&Named<'_>, &Measured)], conditions: &RunConditions) {
    if timed.is_empty() {
        out.push_str("No case was measured.\n\n");
        return;
    }
    let shares = timed.iter().any(|(named, _)| named.case.share.is_some());
    let signs = timed.iter().any(|(named, _)| !conditions.marks(named.case).is_empty());
    let mut heading = String::from("| case | median | ± | GFLOP/s | GB/s |");
    let mut line = String::from("| :--- | ---: | ---: | ---: | ---: |");
    for (wanted, title, alignment) in [(shares, " of hardware |", " ---: |"), (signs, " |", " :--- |")] {
        if wanted {
            heading.push_str(title);
            line.push_str(alignment);
        }
    }
    let _ = writeln!(out, "{heading}\n{line}");
    for (named, m) in timed {
        let case = named.case;
        let error = m.summary.relative_error().filter(|error| error.is_finite());
        let number = |rate: Option<f64>| rate.map_or_else(|| "–".into(), |rate| significant(rate * 1e-9));
        let _ = write!(
            out,
            "| {} | {} | {} | {} | {} |",
            code(&named.name),
            case.shown(m.summary.median),
            error.map_or_else(|| "–".into(), |error| format!("{:.1} %", 100.0 * error)),
            number(rate(case, m.summary.median)),
            number(bandwidth(case, m.summary.median)),
        );
        if shares {
            let share = case.share.filter(|share| share.fraction.is_finite());
            let share = share.map_or_else(|| "–".into(), |share| format!("{:.1} %", 100.0 * share.fraction));
            let _ = write!(out, " {share} |");
        }
        if signs {
            let signs: Vec<_> = conditions.marks(case).iter().map(|mark| plain(mark.sign)).collect();
            let _ = write!(out, " {} |", signs.join(" "));
        }
        out.push('\n');
    }
    out.push('\n');
}

/// Text that is no markup, no HTML, and mentions nobody.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A backslash does not keep GitHub from mentioning somebody or linking to an issue.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '|' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(character);
            }
            character if character.is_control() => out.push(' '),
            character => out.push(character),
        }
    }
    out
}

/// Text as code, within a cell of a table: a bar is escaped there even in code, and a fence is longer than any run of
/// backticks inside.
fn code(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let longest = flat.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let padding = if flat.starts_with('`') || flat.ends_with('`') { " " } else { "" };
    format!("{fence}{padding}{}{padding}{fence}", flat.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, hostile, record};
    use super::*;

    #[test]
    fn measured_cases_are_rows_and_others_are_listed_with_the_reason() {
        insta::assert_snapshot!(text(&record()));
    }

    #[test]
    fn hostile_names_stay_in_their_cell_and_are_text() {
        insta::assert_snapshot!(text(&hostile()));
        assert!(!plain(HOSTILE).contains(['<', '@', '\n']));
        assert_eq!(code("a``b|"), "```a``b\\|```");
    }
}
