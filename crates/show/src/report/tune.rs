//! Table of `tune`.

use super::bench::named;
use super::document::Document;
use super::or_dash;
use super::table::{self, Table};
use crate::algorithms::{Algorithm, CaseSpec};
use crate::basis::alike::{grouped, grouped_where};
use crate::basis::units::{Nanos, Work, in_words};
use crate::case::method::CacheState;
use crate::device::capability::DeviceInfo;
use crate::plan::axes::{self, AXES, Axis};
use crate::tuning::{InspectedTiles, SearchResult};

/// Result of one search that ran kernels.
pub struct TunedRow {
    pub variant: &'static str,
    pub spec: CaseSpec,
    pub found: SearchResult,
    /// Whether another variant failed or was wrong: then `auto` takes what worked.
    pub has_refused: bool,
    /// Nominal work.
    pub work: Work,
}

/// Result of one search by inspection, which ran nothing.
pub struct InspectedRow {
    pub variant: &'static str,
    pub spec: CaseSpec,
    pub found: InspectedTiles,
}

/// Writes a heading, which has all that the searches share, then `title`; returns the table of the searches, each with its
/// variant, its problem and its cells.
fn write_searches(
    document: &mut Document,
    device: &DeviceInfo,
    algorithm: &Algorithm,
    title: &str,
    headings: &[&str],
    rows: Vec<(&str, CaseSpec, Vec<String>)>,
) -> Table {
    let differs = |axis: &Axis| rows.iter().any(|(_, spec, _)| !(axis.same)(spec, &rows[0].1));
    let subject = rows.first().map(|(_, spec, _)| axes::heading(&algorithm.name, spec, |axis| !differs(axis)));
    document.line(format!("{}, {title}", subject.as_deref().unwrap_or(&algorithm.name)));
    document.line(named(device));
    let columns: Vec<_> = AXES.iter().filter(|axis| differs(axis)).filter_map(|axis| axis.column.as_ref()).collect();
    let table = Table::default().text(["variant"]).text(columns.iter().map(|column| column.name));
    let mut table = table.text(["size"]).prose(["tile"]).numbers(headings.iter().copied());
    for (variant, spec, cells) in rows {
        let values = columns.iter().map(|column| column.text(&spec));
        let names = [variant.to_string()].into_iter().chain(values).chain([spec.size.to_string()]);
        table.row(names.chain(cells));
    }
    table
}

/// Prints a line for each search by inspection: the tile, its spills, and those of the built-in one.
pub fn inspected(device: &DeviceInfo, algorithm: &Algorithm, rows: &[InspectedRow], width: usize) -> String {
    let rows = rows.iter().map(|InspectedRow { variant, spec, found }| {
        let (tile, spills) = &found.best;
        let built_in = or_dash(found.built_in.1.map(|spills| spills.to_string()));
        let compiled = format!("{} of {}", found.tried, found.space);
        (*variant, *spec, vec![tile.to_string(), spills.to_string(), built_in, compiled])
    });
    let title = "tiles by what they spill; none was run";
    let headings = ["spills", "built in", "compiled"];
    let mut document = Document::default();
    let mut table = write_searches(&mut document, device, algorithm, title, &headings, rows.collect());
    let whole = table.width();
    document.lines(table::hidden(&table.fit(width, &["compiled", "built in"]), whole));
    document.gap();
    document.table(table);
    document.terminal(width)
}

/// Choice of `auto` for a problem after a search, which may rest on earlier results.
pub struct AutoChoice {
    pub variant: String,
    pub reason: String,
    /// When it is made: `from now on`, or with the file of the results.
    pub when: String,
}

/// Returns the choice of `auto` for a problem.
pub type Chooses<'a> = &'a dyn Fn(&CaseSpec) -> Option<AutoChoice>;

/// Returns the command that gives searches more time.
pub type Again<'a> = &'a dyn Fn(&[&TunedRow]) -> String;

/// Prints a line for each search: the best tile, its rate, and that of the built-in one; within `width` columns.
pub fn text(
    (device, algorithm, cache): (&DeviceInfo, &Algorithm, CacheState),
    rows: &[TunedRow],
    (again, chooses): (Again<'_>, Chooses<'_>),
    width: usize,
) -> String {
    let searches = rows.iter().map(|row| (row.variant, row.spec, cells(row))).collect();
    let headings = ["GFLOP/s", "built in", "gain", "tried"];
    let mut document = Document::default();
    let caches = CacheState::suffix((!cache.is_hot()).then_some(cache));
    let title = format!("the best tiles tried{caches}");
    let mut table = write_searches(&mut document, device, algorithm, &title, &headings, searches);
    let whole = table.width();
    let hidden = if table.fits(width) { vec![] } else { table.fit(width, &["built in", "tried"]) };
    document.lines(table::hidden(&hidden, whole));
    document.gap();
    document.table(table);
    document.gap();
    document.lines(rows.iter().filter_map(unsettled));
    let is_open = |row: &&TunedRow| {
        let SearchResult { best, unclear, rivals, tied, untimed, .. } = &row.found;
        // Which of two tiles is faster does not matter where another variant is faster than both by far.
        let is_contender = rivals.iter().all(|(_, time)| best.1.0 <= HOPELESS * time.0);
        unclear.is_some() && is_contender || !tied.is_empty() || !untimed.is_empty()
    };
    let open: Vec<_> = rows.iter().filter(is_open).collect();
    let again = (!open.is_empty()).then(|| format!("to search four times as long: `{}`", again(&open)));
    for rows in grouped_where(rows.iter(), |a, b| a.spec == b.spec) {
        if rows.iter().all(|row| row.found.rivals.is_empty() && !row.has_refused) {
            document.line(format!(
                "{} {}: no other variant was timed: none is predicted to be nearly as fast, or no time was left",
                axes::brief(&rows[0].spec),
                rows[0].spec.size
            ));
        } else if let Some((times, row)) = all_times(algorithm, &rows) {
            let untimed: Vec<_> = row.found.untimed.iter().filter(|name| !is_timed(&times, name)).cloned().collect();
            let auto = chooses(&row.spec);
            document.lines(choice(&row.spec, &times, row.work, [&row.found.tied, &untimed], (cache, auto)));
        }
    }
    document.lines(again);
    document.terminal(width)
}

/// Ratio to the time of the fastest variant from which no tile of another is worth a further search.
const HOPELESS: f64 = 4.0;

/// Says which tile may be faster than the one that stays, and why nobody can tell.
fn unsettled(row: &TunedRow) -> Option<String> {
    let TunedRow { variant, spec, work, found, .. } = row;
    let (tile, time, range) = found.unclear?;
    let why = match range {
        Some([low, high]) => format!("gain {low:.2} … {high:.2}"),
        None => "too little time to compare it with the built-in tile".into(),
    };
    let kept = if is_built_in(found) { "the built-in tile" } else { "that of an earlier search" };
    let (rate, axes, size) = (work.rate(time), axes::brief(spec), spec.size);
    Some(format!("{variant} {axes} {size}: {kept} stays; {tile}, at {rate} GFLOP/s, may be faster ({why})"))
}

/// Returns the last time of each variant that the searches on a problem timed, and the last search that timed the fastest,
/// which `auto` chooses: another search's ties are with another time.
fn all_times<'a>(algorithm: &Algorithm, rows: &[&'a TunedRow]) -> Option<(Vec<(String, Nanos)>, &'a TunedRow)> {
    let mut times: Vec<(String, Nanos)> = vec![];
    for TunedRow { variant, found, .. } in rows {
        // `auto` never picks a variant that is less accurate.
        let is_exact = algorithm.variant(variant).is_ok_and(|variant| variant.shortcuts().is_empty());
        let own = is_exact.then(|| (variant.to_string(), found.best.1));
        for timed in found.rivals.iter().cloned().chain(own) {
            times.retain(|(name, _)| *name != timed.0);
            times.push(timed);
        }
    }
    let (variant, _) = times.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let has_timed = |row: &&&TunedRow| row.variant == variant || is_timed(&row.found.rivals, variant);
    let row = *rows.iter().rev().find(has_timed)?;
    Some((times, row))
}

fn is_timed(times: &[(String, Nanos)], name: &str) -> bool {
    times.iter().any(|(timed, _)| timed == name)
}

/// Prints what `auto` picks where the device can run no variant that was searched: a line of [`choice`] for each size.
pub fn without_tiles(
    device: &DeviceInfo,
    algorithm: &Algorithm,
    choices: &[(CaseSpec, String)],
    width: usize,
) -> String {
    let mut document = Document::default();
    let heading = |spec: &CaseSpec| axes::heading(&algorithm.name, spec, |_| true);
    for (number, alike) in grouped(choices, |(spec, _)| heading(spec)).into_iter().enumerate() {
        if number > 0 {
            document.gap();
        }
        document.line(format!("{}, no tile to search; the variants that `auto` chooses from", heading(&alike[0].0)));
        document.line(named(device));
        document.gap();
        document.lines(alike.iter().map(|(_, choice)| choice.as_str()));
    }
    document.terminal(width)
}

/// Says which of these variants was fastest, which are `tied` with it, and what `auto` picks; `None` if there are none.
pub fn choice(
    spec: &CaseSpec,
    times: &[(String, Nanos)],
    work: Work,
    [tied, untimed]: [&[String]; 2],
    (cache, auto): (CacheState, Option<AutoChoice>),
) -> Option<String> {
    let mut times: Vec<_> = times.iter().collect();
    times.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let (fastest, _) = times.first()?;
    let rates: Vec<_> = times.iter().map(|(name, time)| format!("{name} {}", work.rate(*time))).collect();
    let is_listed = |name: &&str| *name != fastest && times.iter().any(|(listed, _)| listed == name);
    let tied: Vec<&str> = tied.iter().map(String::as_str).filter(is_listed).collect();
    let untimed = match untimed {
        [] => String::new(),
        names => format!("; there was no time for {}", in_words(names, "and")),
    };
    let tie = if times.len() == 1 {
        ", the only one with a time".into()
    } else if tied.is_empty() {
        String::new()
    } else {
        format!(", but {} may be as fast", in_words(&tied, "or"))
    };
    let caches = CacheState::suffix((!cache.is_hot()).then_some(cache));
    let [picked, other] = match auto {
        Some(AutoChoice { variant, reason, when }) if variant != *fastest => {
            [format!("{fastest} was fastest{caches}"), format!("; {when}, `auto` picks {variant}, {reason}")]
        }
        auto => {
            let when = auto.map_or_else(|| "from now on".into(), |auto| auto.when);
            [format!("{when}, `auto` picks {fastest}{caches}"), String::new()]
        }
    };
    let (axes, rates) = (axes::words(spec, |_| true).join(" "), rates.join(", "));
    Some(format!("{axes} {}: {picked}{tie}{untimed}; GFLOP/s: {rates}{other}", spec.size))
}

fn is_built_in(found: &SearchResult) -> bool {
    found.built_in.0 == found.best.0
}

/// Formats the speed-up over the built-in tile; `None` if that has no time.
fn gain(found: &SearchResult) -> Option<String> {
    let built_in = found.built_in.1?;
    if is_built_in(found) {
        return Some("built in".into());
    }
    // The tile of an earlier search need not have taken turns with the built-in one now.
    let Some([low, high]) = found.gain else { return Some("as before".into()) };
    Some(format!("{:.2} × ({low:.2} … {high:.2})", built_in.0 / found.best.1.0))
}

/// Returns the cells behind the names of a search.
fn cells(row: &TunedRow) -> Vec<String> {
    let TunedRow { found, work, .. } = row;
    let (tile, time) = found.best;
    vec![
        tile.to_string(),
        work.rate(time).to_string(),
        or_dash(found.built_in.1.map(|time| work.rate(time).to_string())),
        or_dash(gain(found)),
        format!("{} of {}", found.tried, found.space),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::algorithms::tile::Tile;
    use crate::basis::dtype::DType;
    use crate::basis::layout::Layout;
    use crate::basis::size::Size;
    use crate::basis::units::Bytes;
    use crate::device::fixture::software_device;
    use crate::kernels::CATALOGUE;

    fn row(variant: &'static str, size: &str, tile: &str) -> TunedRow {
        let algorithm = CATALOGUE.find("matmul").expect("it is an algorithm");
        let size: Size = size.parse().expect("a size");
        let parsed = |text: &str| text.parse::<Tile>().expect("a tile");
        let found = SearchResult {
            best: (parsed(tile), Nanos(1e6)),
            built_in: (parsed(TILE), Some(Nanos(1.25e6))),
            gain: Some([1.21, 1.29]),
            unclear: Some((parsed(tile), Nanos(1.1e6), Some([0.97, 1.3]))),
            rivals: vec![("texel".into(), Nanos(2e6))],
            tied: if size == Size::Uniform(512) { vec!["texel".into()] } else { vec![] },
            untimed: vec![],
            tried: 12,
            preparation: std::time::Duration::ZERO,
            space: 2412,
            refused: vec![],
            others: None,
        };
        let work = Work { operations: 1 << 30, bytes: Bytes(1 << 20) };
        TunedRow { variant, spec: CaseSpec::new(algorithm, size, DType::F32), found, has_refused: false, work }
    }

    /// Tile that is built in.
    const TILE: &str = "64x64x16/64x32/16x16";

    fn print(rows: &[TunedRow], width: usize) -> String {
        let algorithm = CATALOGUE.find("matmul").expect("it is an algorithm");
        text((&software_device(), algorithm, CacheState::Hot), rows, (&again, &|_: &_| None), width)
    }

    fn again(rows: &[&TunedRow]) -> String {
        let sizes: Vec<_> = rows.iter().map(|row| row.spec.size.to_string()).collect();
        format!("gpukern tune matmul -s {} --budget 240s", sizes.join(","))
    }

    #[test]
    fn a_gain_is_only_claimed_of_tiles_that_took_turns() {
        let mut row = row("tiled", "256", TILE);
        let print = |row: &TunedRow| print(std::slice::from_ref(row), 200);
        row.found.built_in.0 = "32x32x8/16x32/8x8".parse().expect("a tile");
        row.found.unclear = None;
        assert!(print(&row).contains("1.25 × (1.21 … 1.29)"), "{}", print(&row));
        row.found.gain = None;
        row.found.unclear = Some((row.found.built_in.0, Nanos(9e5), None));
        let text = print(&row);
        assert!(text.contains("as before") && !text.contains("1.25"), "{text}");
        let why = "may be faster (too little time to compare it with the built-in tile)";
        assert!(text.contains("that of an earlier search stays") && text.contains(why), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut rows = vec![row("tiled", "256", TILE), row("split", "64x8192x16384", "128x128x32/64x64/8x8/16")];
        let texts = [80, 120, 200].map(|width| {
            let text = print(&rows, width);
            assert!(widest(&text) <= width, "{width}:\n{text}");
            text
        });
        let one = print(&rows[..1], 80);
        rows[1].spec.layout = Layout::Nt;
        rows[1].spec.dtype = DType::F16;
        insta::assert_snapshot!(texts.join("========\n") + &one + &print(&rows, 200));
    }

    #[test]
    fn searches_on_one_problem_end_in_one_choice_from_all_that_they_timed() {
        let [mut a, mut b, other] = ["256", "256", "512"].map(|size| row("tiled", size, TILE));
        (b.variant, b.found.rivals) = ("coopmat", vec![("naive".into(), Nanos(4e6))]);
        (a.spec.layout, b.spec.layout) = (Layout::Nt, Layout::Nt);
        let mut one = vec![a, b, other];
        let text = print(&one, 200);
        one.truncate(2);
        let choices: Vec<_> = text.lines().filter(|line| line.contains("`auto` picks")).collect();
        assert!(choices.len() == 2 && choices[1].contains("but texel may be as fast"), "{text}");
        // Of one problem, a line has the times of all.
        let line = print(&one, 400);
        let (_, choice) = line.split_once("f32 nt 256: from now on, `auto` picks ").expect("a choice");
        assert!(["tiled ", "coopmat ", "texel ", "naive "].iter().all(|name| choice.contains(name)), "{line}");
    }

    #[test]
    fn a_tie_names_with_whom_among_those_that_auto_chooses_from() {
        let TunedRow { spec, work, .. } = row("tiled", "256", TILE);
        let times = [("naive", 2e6), ("tiled", 1.01e6), ("texel", 1e6)].map(|(name, time)| (name.into(), Nanos(time)));
        let text = |tied: &[&str]| {
            let tied: Vec<_> = tied.iter().map(ToString::to_string).collect();
            choice(&spec, &times, work, [&tied, &[]], (CacheState::Hot, None)).expect("a choice")
        };
        let untimed = ["gemv".to_string(), "gemv-texel".into()];
        let short = choice(&spec, &times, work, [&[], &untimed], (CacheState::Hot, None)).expect("a choice");
        let said = "from now on, `auto` picks texel; there was no time for gemv and gemv-texel; GFLOP/s";
        assert!(short.contains(said), "{short}");
        let tied = text(&["split", "tiled"]);
        assert!(tied.contains("from now on, `auto` picks texel, but tiled may be as fast; GFLOP/s"), "{tied}");
        let auto =
            AutoChoice { variant: "gemv".into(), reason: "by its model".into(), when: "with --tuned FILE".into() };
        let other = choice(&spec, &times, work, [&[], &[]], (CacheState::Hot, Some(auto))).expect("a choice");
        assert!(other.contains(": texel was fastest; GFLOP/s: "), "{other}");
        assert!(other.ends_with("; with --tuned FILE, `auto` picks gemv, by its model"), "{other}");
        assert!(!text(&["split", "texel"]).contains("may be as fast"), "{}", text(&["split"]));
    }

    #[test]
    fn no_value_of_an_axis_is_lost() {
        let usual = || row("tiled", "256", TILE);
        for axis in AXES.iter().filter(|axis| axis.separates.tiles) {
            let options = crate::plan::fixture::unusual_on(axis);
            let other = || TunedRow { spec: CaseSpec { options, ..usual().spec }, ..usual() };
            let column = axis.column.as_ref().expect("kept tiles have a field of it");
            let text = print(&[usual(), other()], 200);
            let is_heading = |line: &str| line.contains("variant") && line.contains(column.name);
            assert!(text.lines().any(is_heading) && text.contains(&column.text(&options)), "{}:\n{text}", axis.name);
            let text = print(&[other(), other()], 200);
            let title = axes::heading("matmul", &options, |_| true);
            assert!(text.starts_with(&format!("{title}, the best tiles tried")), "{}:\n{text}", axis.name);
            let auto = format!("{} 256: from now on, `auto` picks tiled", axes::words(&options, |_| true).join(" "));
            assert!(text.contains(&auto), "{}:\n{text}", axis.name);
        }
    }
}
