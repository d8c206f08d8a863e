//! Tables across devices.

use super::and_more;
use super::choices::{self, Choices};
use super::compare::plain_names;
use super::document::Document;
use super::fastest;
use super::table::{self, Cell, Table};
use crate::basis::alike::{distinct, grouped};
use crate::basis::printable::printable;
use crate::basis::units::{counted, significant, trimmed};
use crate::compare::Comparison;
use crate::compare::overview::{Extreme, Fleet, FleetRow, fleet_devices};
use crate::device::capability::vendor;
use crate::record::marks::RunConditions;
use crate::record::{Outcome, Record};
use std::collections::HashMap;

/// Maximum number of devices whose own tables are printed in full.
pub const MAX_DEVICES: usize = 4;

/// Fewest devices of which shares and means tell more than the times.
const MIN_DEVICES: usize = 3;

/// Maximum lengths of a device's name to try, in characters.
const NAME_LENGTHS: [usize; 4] = [usize::MAX, 24, 16, 12];

/// Explains the columns, below the tables of records.
const LEGEND: &str = "slower: how often it takes at least 2 % longer than the fastest; worst, best: the largest and the \
                      smallest ratio, and where";

/// Columns to hide on a narrow terminal, least important first.
const HIDDEN_FIRST: [&str; 5] = ["best", "undecided", "devices", "geomean", "mean"];

/// Returns the tables of a comparison of several devices, with names of devices of at most `max_name` characters.
pub fn comparison_tables(comparison: &Comparison, max_name: usize) -> Vec<Table> {
    let fleet = Fleet::of_comparison(comparison);
    fleet.map_or_else(Vec::new, |fleet| ratio_tables(&fleet, "candidate ÷ baseline", "vendor", max_name))
}

/// Returns the tables of records of several devices: variants relative to the fastest, and times of devices.
pub fn record_tables(records: &[&Record], max_name: usize) -> Vec<Table> {
    let mut tables = vec![];
    if let Some(fleet) = Fleet::by_variant(records).filter(|fleet| fleet.devices >= MIN_DEVICES) {
        tables = ratio_tables(&fleet, "time ÷ fastest variant on the device", "vendor and variant", max_name);
    }
    tables.splice(0..0, winners(records, max_name).into_iter().chain(fewest(records, max_name)));
    if let Some(fleet) = Fleet::by_device(records) {
        let what = "time ÷ fastest device";
        let devices = DeviceNames::of(&fleet, max_name);
        let mut times = Table::captioned(caption(&fleet, what)).text(["case"]);
        times = times.numbers(["devices", "fastest device", "slowest ÷ fastest"]);
        for (FleetRow { devices: count, overview, .. }, name) in fleet.cases.iter().zip(case_names(&fleet)) {
            let fastest = Cell { detail: devices.name(&overview.best), ..Cell::time(overview.best.time) };
            times.row([Cell::code(name), count.to_string().into(), fastest, devices.ratio(&overview.worst)]);
        }
        times.leave_out_empty(&["devices"], &fleet.devices.to_string());
        times.unify_units(&["fastest device"]);
        tables.push(times);
        if fleet.devices >= MIN_DEVICES {
            tables.extend(ratio_tables(&fleet, what, "vendor", max_name).into_iter().skip(1));
        }
    }
    tables
}

/// Returns the fastest variants of each problem, with the devices where they are; `None` unless several variants compete there, on
/// several devices.
fn winners(records: &[&Record], max_name: usize) -> Option<Table> {
    let mut rows = vec![];
    for problem in grouped(choices::races(records), |race| format!("{} {}", race.problem, race.size)) {
        let name = format!("{} {}", problem[0].problem, problem[0].size);
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            match &names[..] {
                [] => "none has a right answer".into(),
                [first, second, _, others @ ..] => format!("{first}, {second} or {} more", 1 + others.len()),
                few => few.join(" or "),
            }
        };
        let races: Vec<_> = problem.into_iter().map(|race| (sorted(race.tied), race.device)).collect();
        if races.len() > 1 {
            let mut wins = grouped(races, |(fastest, _)| fastest.clone());
            wins.sort_by_key(|wins| std::cmp::Reverse(wins.len()));
            rows.extend(wins.into_iter().map(|wins| (name.clone(), wins)));
        }
    }
    let devices = distinct(rows.iter().flat_map(|(_, wins)| wins.iter().map(|(_, device)| device.as_str())));
    let count = devices.len();
    let names = DeviceNames::new(devices, max_name);
    let mut table = Table::captioned(format!("over {}, the fastest variant", counted(count, "device")));
    table = table.text(["problem"]).prose(["fastest", "devices"]);
    let mut last = String::new();
    for (name, wins) in &rows {
        let text = match &wins[..] {
            wins if wins.len() == count => "all".into(),
            [(_, first), others @ ..] if others.len() >= MAX_DEVICES => {
                format!("{}{}", names.0[first], and_more(others.len()))
            }
            wins => wins.iter().map(|(_, device)| names.0[device].as_str()).collect::<Vec<_>>().join(", "),
        };
        let problem = if *name == last { String::new() } else { printable(name).into_owned() };
        table.row([problem, printable(&wins[0].0).into_owned(), text]);
        last.clone_from(name);
    }
    (!rows.is_empty()).then_some(table)
}

/// Returns the fewest variants that lose little over the devices, from one on; `None` if one wins everything.
fn fewest(records: &[&Record], max_name: usize) -> Option<Table> {
    let sets = Choices::new(records).sets;
    let devices = DeviceNames::new(distinct(sets.iter().map(|set| set.worst_device.as_str())), max_name);
    let is_doubtful = records.iter().any(|record| {
        let conditions = RunConditions::of(record);
        record.cases.iter().any(|case| fastest::is_doubtful(case, &conditions))
    });
    let about = if is_doubtful { " (roughly: some times are disturbed or uncertain)" } else { "" };
    let mut table = Table::captioned(format!("if you ship only these variants: their time ÷ the fastest's{about}"));
    table = table.text(["problem"]).prose(["variants"]).numbers(["mean", "worst"]).text(["worst at"]);
    let mut last = "";
    for set in &sets {
        let problem = if set.problem == last { String::new() } else { printable(&set.problem).into_owned() };
        let [mean, worst] = [set.geometric_mean, set.worst].map(significant);
        let place = match set.worst {
            ..1.005 => String::new(),
            _ if fleet_devices(records).len() == 1 => set.worst_size.clone(),
            _ => format!("{} on {}", set.worst_size, devices.0[&set.worst_device]),
        };
        table.row([problem, printable(&set.variants.join(", ")).into_owned(), mean, worst, place]);
        last = &set.problem;
    }
    let is_choice = sets.iter().any(|set| set.variants.len() > 1);
    is_choice.then_some(table)
}

/// Lists the cases with a time on one device and none on another: `crashed on llvmpipe: matmul/tiled/f32/64x64x64 and 2
/// more`.
fn failures(records: &[&Record]) -> Vec<String> {
    let cases = records
        .iter()
        .flat_map(|record| record.cases.iter().map(|case| (record.device_name(case.device), &*case.id, &case.outcome)));
    let mut failures = vec![];
    for of_case in grouped(cases, |(_, id, _)| *id) {
        let is_measured = |(_, _, outcome): &(String, &str, &Outcome)| matches!(outcome, Outcome::Measured(_));
        if !of_case.iter().any(is_measured) {
            continue;
        }
        // Several records of a device are processes of it.
        for of_device in grouped(of_case, |(device, ..)| device.clone()) {
            let (device, id, outcome) = &of_device[0];
            if of_device.iter().all(|(_, _, outcome)| outcome.reason().is_some()) {
                failures.push((device.clone(), outcome.status(), *id));
            }
        }
    }
    let line = |group: Vec<(String, &str, &str)>| {
        let (device, status, first) = &group[0];
        format!("{status} on {}: {}{}", printable(device), printable(first), and_more(group.len() - 1))
    };
    grouped(failures, |(device, status, _)| (device.clone(), *status)).into_iter().map(line).collect()
}

/// Says which variants the sets cannot count on everywhere because a record did not measure them.
fn gaps(records: &[&Record]) -> Vec<String> {
    let Choices { gaps, sets, .. } = Choices::new(records);
    let has_sets = |gap: &&choices::Gap| sets.iter().any(|set| set.problem == gap.problem);
    let line = |gap: &choices::Gap| {
        let (variant, reason) = (printable(&gap.variant), printable(&gap.reasons[0]));
        let more = and_more(gap.reasons.len() - 1);
        format!("{}: no set relies on {variant} where it has no time: {reason}{more}", printable(&gap.problem))
    };
    let gaps: Vec<_> = gaps.iter().filter(has_sets).collect();
    match &gaps[..] {
        [first, _, _, ..] => vec![format!(
            "not every variant was timed everywhere, so better sets may be missing (--json lists what is): {} is {}, and {} more \
             such",
            printable(&first.variant),
            printable(&first.reasons[0]),
            gaps.iter().map(|gap| gap.reasons.len()).sum::<usize>() - 1
        )],
        few => few.iter().map(|gap| line(gap)).collect(),
    }
}

/// Prints the tables of records; of one device, only the variants to ship for its sizes.
pub fn text(records: &[&Record], width: usize) -> String {
    let mut document = Document::default();
    if fleet_devices(records).len() > 1 {
        if Fleet::by_device(records).is_none() {
            document.line("no case was measured on several devices");
        }
        write(&mut document, width, |max_name| record_tables(records, max_name));
        let sets = Choices::new(records).sets;
        for of_problem in grouped(sets.iter().filter(|set| !set.unsolved.is_empty()), |set| &set.problem) {
            let unsolved = of_problem[0].unsolved.iter().map(|place| printable(place)).collect::<Vec<_>>().join(", ");
            document
                .line(format!("{}: no variant has a right answer at {unsolved}", printable(&of_problem[0].problem)));
        }
        document.lines(gaps(records));
        document.lines(failures(records));
        if Fleet::by_device(records).is_some_and(|fleet| fleet.devices >= MIN_DEVICES) {
            document.line(LEGEND);
        }
        let method = |record: &Record| (record.method.clock, record.method.cache, record.method.validation);
        if records.iter().any(|record| method(record) != method(records[0])) {
            document.line("note: the records differ in clock, caches or validation layers, and so may their times");
        }
    } else {
        write(&mut document, width, |max_name| fewest(records, max_name).into_iter().collect());
        if fewest(records, usize::MAX).is_some() {
            document.lines(gaps(records));
        }
    }
    document.terminal(width)
}

/// Writes tables for a terminal.
pub fn write(document: &mut Document, width: usize, tables: impl Fn(usize) -> Vec<Table>) {
    let fits = |max_name: &usize| tables(*max_name).iter().all(|table| table.fits(width));
    let shortest = NAME_LENGTHS[NAME_LENGTHS.len() - 1];
    for mut table in tables(NAME_LENGTHS.into_iter().find(fits).unwrap_or(shortest)) {
        let whole = table.width();
        let hidden = if table.fits(width) { vec![] } else { table.fit(width, &HIDDEN_FIRST) };
        table.shorten_names(width);
        document.line(table.caption());
        document.table(table);
        document.lines(table::hidden(&hidden, whole));
        document.gap();
    }
}

/// Returns the table of cases, and that of groups if there are several.
fn ratio_tables(fleet: &Fleet, what: &str, group: &str, max_name: usize) -> Vec<Table> {
    let devices = DeviceNames::of(fleet, max_name);
    let groups = fleet.vendors.iter().map(|row| row.name.clone()).collect();
    let mut tables = vec![];
    for (heading, rows, names) in [("case", &fleet.cases, case_names(fleet)), (group, &fleet.vendors, groups)] {
        let by_group = if heading == "case" { "" } else { ", by vendor" };
        let table = Table::captioned(caption(fleet, what) + by_group).text([heading]);
        let mut table = table.numbers(["devices", "slower", "undecided", "geomean", "worst", "best"]);
        for (FleetRow { devices: count, overview, .. }, name) in rows.iter().zip(names) {
            let [slower, undecided] = [overview.slower_percent, overview.undecided_percent]
                .map(|share| format!("{} %", trimmed(&format!("{share:.1}"))));
            let (name, mean) = match heading {
                "case" => (Cell::code(name), String::new()),
                _ => (name.into(), significant(overview.geometric_mean)),
            };
            let counts = [count.to_string(), slower, undecided, mean].map(Cell::from);
            let [worst, best] = [&overview.worst, &overview.best].map(|extreme| devices.ratio(extreme));
            // Where all devices tie, none is the worst.
            let every = if *count == fleet.devices { "all".into() } else { format!("all {count}") };
            let all = || Cell { detail: every.clone(), ..worst.text.as_str().into() };
            let is_tie = *count > 1 && worst.text == best.text;
            let ends = if is_tie { [all(), all()] } else { [worst, best] };
            table.row([name].into_iter().chain(counts).chain(ends));
        }
        table.leave_out_empty(&["undecided"], "0 %");
        table.leave_out_empty(&["geomean"], "");
        table.leave_out_empty(&["devices"], &fleet.devices.to_string());
        if heading == "case" || table.len() > 1 {
            tables.push(table);
        }
    }
    tables
}

fn caption(fleet: &Fleet, what: &str) -> String {
    format!("over {}, {what}", counted(fleet.devices, "device"))
}

fn case_names(fleet: &Fleet) -> Vec<String> {
    plain_names(fleet.cases.iter().map(|row| row.name.as_str()))
}

/// Names of devices as tables show them.
struct DeviceNames(HashMap<String, String>);

impl DeviceNames {
    fn of(fleet: &Fleet, max_name: usize) -> Self {
        let ends = fleet.cases.iter().chain(&fleet.vendors).flat_map(|row| [&row.overview.worst, &row.overview.best]);
        Self::new(distinct(ends.map(|extreme| extreme.device.as_str())), max_name)
    }

    /// Shortens distinct names to `max_name` characters, or to as many more as keep them different.
    fn new(names: Vec<&str>, max_name: usize) -> Self {
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let shorten = |most| names.iter().map(|name| short_name(name, most)).collect::<Vec<_>>();
        let is_distinct = |most: &usize| distinct(shorten(*most)).len() == names.len();
        let most = (max_name.min(longest)..longest).find(is_distinct).unwrap_or(longest);
        let short = shorten(most).iter().map(|name| printable(name).into_owned()).collect::<Vec<_>>();
        Self(names.into_iter().map(String::from).zip(short).collect())
    }

    fn name(&self, extreme: &Extreme) -> String {
        self.0[&extreme.device].clone()
    }

    fn ratio(&self, extreme: &Extreme) -> Cell {
        Cell { detail: self.name(extreme), ..significant(extreme.ratio).into() }
    }
}

/// Words that a device is known without.
const GENERIC_WORDS: [&str; 4] = ["GeForce", "Graphics", "Radeon", "Device"];

/// Shortens a name that is longer than `most` characters: leaves out the vendor, remarks in brackets and generic words,
/// then cuts the end. `RX 7900 XTX` of `AMD Radeon RX 7900 XTX (RADV NAVI31)`.
fn short_name(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.into();
    }
    let plain = ["(R)", "(TM)", "(tm)"].iter().fold(name.to_string(), |name, sign| name.replace(sign, ""));
    let plain = plain.split(" (").next().unwrap_or_default();
    let is_telling = |word: &&str| {
        let is_vendor = vendor::NAMES.iter().any(|(_, vendor)| vendor == word);
        !is_vendor && !GENERIC_WORDS.contains(word)
    };
    let words: Vec<_> = plain.split_whitespace().filter(is_telling).collect();
    let short = if words.is_empty() { plain.to_string() } else { words.join(" ") };
    table::shortened(&short, most)
}

#[cfg(test)]
pub mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::compare::gate::Ruling;
    use crate::compare::{Compared, Verdict, fixture};
    use crate::export::markdown;
    use crate::record::Case;
    use crate::record::fixture::{case, four_cases, timed};
    use crate::report::{compare, html};

    /// Vendors, each with the name of its devices.
    const VENDORS: [(&str, &str, u32); 3] = [
        ("NVIDIA", "NVIDIA GeForce RTX 40", vendor::NVIDIA),
        ("AMD", "AMD Radeon RX 79", vendor::AMD),
        ("Intel", "Intel(R) Arc(tm) A7", vendor::INTEL),
    ];

    /// Returns a comparison of two cases on twelve devices of three vendors; three devices changed.
    fn twelve_devices() -> Comparison {
        let mut cases = vec![];
        for index in 0..12 {
            let (vendor, device, _) = VENDORS[index % 3];
            let verdict = Verdict::ALL[[3, 0, 2, 1][if index < 4 { index } else { 0 }]];
            for (variant, verdict) in [("naive", Verdict::Same), ("local-2d-double", verdict)] {
                let ratio = if verdict == Verdict::Same { 1.0 } else { 1.0 + 0.1 * index as f64 };
                let (device, vendor) = (format!("{device}{index}0 (driver of 2026)"), Some(vendor.into()));
                cases.push(Compared { device, vendor, ratio: Some(ratio), ..fixture::compared(variant, verdict) });
            }
        }
        fixture::comparison(cases)
    }

    #[test]
    fn a_fleet_is_compared_in_one_table_and_devices_without_a_change_have_none() {
        let comparison = twelve_devices();
        let text = compare::text(&comparison, &Ruling::default(), 80);
        assert!(widest(&text) <= 80, "{text}");
        insta::assert_snapshot!("comparison", text);
        let whole = "AMD Radeon RX 7910 (driver of 2026)";
        let markdown = markdown::comparison(&comparison, &Ruling::default());
        assert!(markdown.contains("| 8.3 % | 8.3 % | 1.300 NVIDIA"), "{markdown}");
        assert!(markdown.contains(" on 12 devices") && markdown.contains(whole), "{markdown}");
        let runs = ["a", "b"].map(|name| crate::record::NamedRecord::new(name, four_cases()));
        let page = html::report(&runs, Some(&comparison)).html;
        assert!(page.contains("<caption>over 12 devices, candidate ÷ baseline</caption>") && page.contains(whole));
    }

    #[test]
    fn records_of_a_fleet_show_the_variant_to_ship_and_the_fastest_device() {
        let mut records = vec![];
        for index in 0..12 {
            let (_, name, vendor_id) = VENDORS[index % 3];
            let mut record = four_cases();
            record.devices[0].name = format!("{name}{index}0 (driver of 2026)");
            record.devices[0].vendor_id = vendor_id;
            let times = [("naive", 100.0), ("local", 100.0 - 5.0 * index as f64)];
            record.cases = times.map(|(variant, time)| case(variant, timed(time, vec![]))).to_vec();
            records.push(record);
        }
        let lost = Case { outcome: Outcome::Interrupted, ..case("naive", timed(1.0, vec![])) };
        assert_eq!(failures(&records.iter().collect::<Vec<_>>()), Vec::<String>::new());
        let mut failed = records.clone();
        failed[2].cases[0].outcome = Outcome::failed("no memory".into());
        failed[3].cases[0] = lost;
        let failed = failures(&failed.iter().collect::<Vec<_>>());
        assert_eq!(failed, ["failed on Intel(R) Arc(tm) A720 (driver of 2026): matmul/naive/f32/64x64x64"]);
        let records: Vec<&Record> = records.iter().collect();
        let text = [80, 50].map(|width| text(&records, width));
        assert!(widest(&text[0]) <= 80 && widest(&text[1]) <= 50, "{}", text[1]);
        insta::assert_snapshot!("records", text.join("========\n"));
        assert_eq!(super::text(&records[..1], 80), "");
    }
}
