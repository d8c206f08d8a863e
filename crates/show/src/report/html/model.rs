//! Contents of a report: sources (devices in runs), groups of cases that share charts, and the charts.

use super::super::bench::{median, row};
use super::axis::{self, LogAxis};
use super::chart::{Bar, Bars, Ceiling, ChartPoint, Plot, Series, Width, shortened};
use super::{MAX_NAME, limits_differ};
use crate::basis::alike::{distinct, grouped, grouped_by_key_where, grouped_where};
use crate::basis::dtype::DType;
use crate::basis::units::{Bytes, Nanos, significant};
use crate::case::quantity::Pattern;
use crate::device::capability::DeviceInfo;
use crate::record::class::Class;
use crate::record::figure;
use crate::record::marks::RunConditions;
use crate::record::peak::{Figure, Peak, Quantity};
use crate::record::{Case, CaseSize, Measured, NamedRecord, Share};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

/// Device in a run.
pub(super) struct ReportSource<'a> {
    pub(super) run: &'a NamedRecord,
    pub(super) device: &'a DeviceInfo,
    /// Label that distinguishes the source from the others: the device, the run, or both.
    pub(super) name: String,
    pub(super) conditions: RunConditions,
}

/// Maximum number of variants that a chart names; the others are grey.
const MAX_NAMED: usize = 5;

/// Maximum number of bars for the shares of a source; the table has all.
const MAX_BARS: usize = 8;

/// Returns the label of a device in a run: the device, unless several runs have one of its name. Then it is the run if
/// that is the only device of each run, and otherwise both.
fn source_name(runs: &[NamedRecord], run: &NamedRecord, device: &DeviceInfo) -> String {
    let shown = run.record.device_name(device.index);
    let all = runs.iter().flat_map(|run| &run.record.devices);
    let namesakes = all.filter(|other| other.name == device.name).count();
    if runs.len() == 1 || namesakes == 1 {
        shown
    } else if namesakes == runs.len() && runs.iter().all(|run| run.record.devices.len() == 1) {
        run.name.clone()
    } else {
        format!("{shown} ({})", run.name)
    }
}

impl<'a> ReportSource<'a> {
    /// Returns every device of every run.
    pub(super) fn all(runs: &'a [NamedRecord]) -> Vec<Self> {
        let mut sources = vec![];
        for run in runs {
            for device in &run.record.devices {
                let name = source_name(runs, run, device);
                sources.push(Self { run, device, name, conditions: RunConditions::of(&run.record) });
            }
        }
        sources
    }

    /// Returns the measured limits of the device.
    pub(super) fn peaks(&self) -> impl Iterator<Item = &'a Peak> {
        let uuid = &self.device.uuid;
        self.run.record.peaks.iter().filter(move |peak| peak.uuid == *uuid)
    }

    pub(super) fn cases(&self) -> impl Iterator<Item = &'a Case> + Clone {
        let index = self.device.index;
        self.run.record.cases.iter().filter(move |case| case.device == index)
    }
}

/// Cases that share charts: one algorithm, element type and kind of input.
#[derive(Debug)]
pub(super) struct ChartGroup<'a> {
    first: &'a Case,
    /// Cases of each source, in the order of the sources.
    pub(super) cases: Vec<Vec<&'a Case>>,
}

impl<'a> ChartGroup<'a> {
    pub(super) fn all(sources: &[ReportSource<'a>]) -> Vec<Self> {
        let cases = sources.iter().enumerate().flat_map(|(at, source)| source.cases().map(move |case| (at, case)));
        let key = |(_, case): &(usize, &'a Case)| (case.algorithm.as_str(), case.chain.is_some());
        let mut groups = vec![];
        for all in grouped_by_key_where(cases, key, |(_, a), (_, b)| a.same_kind(b)) {
            let mut group = Self { first: all[0].1, cases: vec![vec![]; sources.len()] };
            for (at, case) in all {
                group.cases[at].push(case);
            }
            groups.push(group);
        }
        groups
    }

    pub(super) fn title(&self) -> String {
        shortened(&self.first.kind(), MAX_NAME)
    }

    pub(super) fn algorithm(&self) -> &'a str {
        &self.first.algorithm
    }

    /// Whether a source timed two rivals of one size, so that one of them is the fastest.
    pub(super) fn is_contest(&self, at: usize) -> bool {
        let classes = self.cases[at].iter().map(|case| (row(case), Class::of(case), median(case).is_some()));
        grouped(classes, |(row, ..)| row.clone()).into_iter().any(|cases| {
            let timed = cases.iter().filter(|(.., timed)| *timed).count();
            // All other cases are rivals of an exact one; others have rivals only within their class.
            grouped(&cases, |class_cases| class_cases.1.clone()).into_iter().any(|class_cases| {
                let (_, class, _) = class_cases[0];
                let own_timed = class_cases.iter().filter(|(.., timed)| *timed).count();
                let rivals = if class.is_exact() { timed } else { own_timed };
                // An untimed case has a rival in any timed one.
                if own_timed < class_cases.len() { rivals > 0 } else { rivals > 1 }
            })
        })
    }

    /// Returns the group with at most `most` cases, for charts: at sizes spread evenly over all, the important variants
    /// first, then the fastest.
    pub(super) fn thinned(&self, most: usize) -> Self {
        if self.everything().count() <= most {
            return Self { first: self.first, cases: self.cases.clone() };
        }
        let named = Self::important_variants(self.everything());
        let rows = distinct(self.everything().map(Case::row));
        let having = self.cases.iter().filter(|cases| !cases.is_empty()).count().max(1);
        let beside = (having * named.len()).clamp(1, most.max(1));
        let stride = rows.len().div_ceil((most / beside).max(1));
        let kept: HashSet<String> = rows.into_iter().step_by(stride).collect();
        let each = (most / (kept.len() * having)).max(1);
        let rank = |case: &Case| {
            let place = named.iter().position(|name| *name == series(case)).unwrap_or(MAX_NAMED);
            (place, median(case).map_or(f64::INFINITY, |time| time.0))
        };
        let of_source = |cases: &Vec<&'a Case>| {
            let shown = cases.iter().copied().enumerate().filter(|(_, case)| kept.contains(&case.row()));
            let rows = grouped(shown, |(_, case)| case.row()).into_iter();
            let fastest = rows.flat_map(|row| {
                let mut row: Vec<_> = row.into_iter().map(|(at, case)| (rank(case), at, case)).collect();
                row.sort_by(|((a, time), ..), ((b, other), ..)| a.cmp(b).then(time.total_cmp(other)));
                row.truncate(each);
                row
            });
            let mut cases: Vec<_> = fastest.map(|(_, at, case)| (at, case)).collect();
            cases.sort_by_key(|(at, _)| *at);
            cases.into_iter().map(|(_, case)| case).collect()
        };
        Self { first: self.first, cases: self.cases.iter().map(of_source).collect() }
    }

    pub(super) fn everything(&self) -> impl Iterator<Item = &'a Case> + Clone {
        self.cases.iter().flatten().copied()
    }

    /// Returns the series of a chart: variants, with the sub-group size if one was required. A variant has the same
    /// style in every source.
    fn variants(&self) -> Vec<String> {
        distinct(self.everything().map(series))
    }

    /// Returns `cases` and those of all sources that share a size with them, or with a source that does. On common
    /// axes, a GPU's large sizes and a processor's small ones would leave either chart mostly empty.
    fn comparable(&self, cases: &[&'a Case]) -> Vec<&'a Case> {
        let mut found = cases.to_vec();
        let mut sizes: HashSet<&CaseSize> = cases.iter().map(|case| &case.size).collect();
        let mut others: Vec<_> = self.cases.iter().filter(|other| !std::ptr::eq(other.as_slice(), cases)).collect();
        while let Some(at) = others.iter().position(|other| other.iter().any(|case| sizes.contains(&case.size))) {
            let other = others.swap_remove(at);
            sizes.extend(other.iter().map(|case| &case.size));
            found.extend(other);
        }
        found
    }

    /// Whether all cases have one size: bars then say more than marks in one column.
    fn one_size(&self) -> bool {
        self.everything().all(|case| case.size == self.first.size)
    }

    /// Groups the sources whose cases share a chart: two with common sizes. Others have their own charts.
    fn together(&self) -> Vec<Vec<usize>> {
        let side_by_side = self.side_by_side().into_iter();
        let split = |indices: Vec<usize>| {
            if indices.len() > 2 { indices.into_iter().map(|at| vec![at]).collect() } else { vec![indices] }
        };
        side_by_side.flat_map(split).collect()
    }

    /// Groups the sources whose winners share a table.
    pub(super) fn side_by_side(&self) -> Vec<Vec<usize>> {
        let having: Vec<usize> = (0..self.cases.len()).filter(|at| !self.cases[*at].is_empty()).collect();
        let Some(first) = having.first() else { return vec![] };
        let all: usize = having.iter().map(|at| self.cases[*at].len()).sum();
        if self.comparable(&self.cases[*first]).len() == all {
            vec![having]
        } else {
            having.into_iter().map(|at| vec![at]).collect()
        }
    }

    /// Draws the charts: the most informative ones, and those that are collapsed.
    pub(super) fn charts(&self, sources: &[ReportSource<'_>]) -> [Vec<Chart>; 2] {
        let mut first = vec![];
        let mut folded = vec![];
        let chains = self.first.chain.is_some();
        let together = self.together();
        let at_one_size = self.one_size() || chains;
        for indices in &together {
            if at_one_size {
                first.extend(self.times(sources, indices));
            } else {
                let rate = if self.first.work.operations > 0 { PlotQuantity::Rate } else { PlotQuantity::Bandwidth };
                first.extend(self.plot(sources, indices, rate, None));
                folded.extend(self.plot(sources, indices, PlotQuantity::Time, None));
            }
            // Bars of one chart are shares of the same limits.
            let parts = if self.same_limits(indices) { 1 } else { indices.len() };
            first.extend(indices.chunks(indices.len() / parts).filter_map(|part| self.shares(sources, part)));
            if !self.one_size() && chains {
                // Each operation of chains has its own chart.
                let panels = distinct(self.everything().map(operation));
                folded.extend(
                    panels.into_iter().filter_map(|panel| self.plot(sources, indices, PlotQuantity::Time, panel)),
                );
            }
        }
        for at in together.into_iter().flatten() {
            first.extend(self.roofline(&sources[at], at));
        }
        // Beside a single chart there is room for another.
        if first.len() == 1 && !folded.is_empty() {
            first.push(folded.remove(0));
        }
        [first, folded]
    }

    /// Returns the important variants of `cases`: those that win the most sizes, then those that are closest to
    /// winning.
    pub(super) fn important_variants<'c>(cases: impl Iterator<Item = &'c Case>) -> Vec<String> {
        let mut best: BTreeMap<(usize, String, String), f64> = BTreeMap::new();
        let timed: Vec<_> = cases
            .filter_map(|case| {
                Some((series(case), (case.device, case.row(), Class::of(case).to_string()), median(case)?.0))
            })
            .filter(|(.., time)| *time > 0.0)
            .collect();
        for (_, size, time) in &timed {
            let best = best.entry(size.clone()).or_insert(f64::INFINITY);
            *best = best.min(*time);
        }
        let sizes = best.len();
        // For each case its variant, whether it wins its size, and the logarithm of its time over the best.
        let results =
            timed.into_iter().map(|(name, size, time)| (name, time <= best[&size], (time / best[&size]).ln()));
        let mut names = grouped(results, |(name, ..)| name.clone());
        let won = |of: &Vec<(String, bool, f64)>| of.iter().filter(|(_, wins, _)| *wins).count();
        // Each size that a variant lacks counts as if it took twice the best time.
        let loss = |of: &Vec<(String, bool, f64)>| {
            let logs: f64 = of.iter().map(|(.., log)| log).sum();
            (logs + sizes.saturating_sub(of.len()) as f64 * std::f64::consts::LN_2) / sizes.max(1) as f64
        };
        names.sort_by(|a, b| won(b).cmp(&won(a)).then(loss(a).total_cmp(&loss(b))));
        names.into_iter().take(MAX_NAMED).map(|mut of| of.swap_remove(0).0).collect()
    }

    fn plot(
        &self,
        sources: &[ReportSource<'_>],
        indices: &[usize],
        shown: PlotQuantity,
        panel: Option<&str>,
    ) -> Option<Chart> {
        let inside = |case: &&Case| panel.is_none() || operation(case) == panel;
        // Sources that compare have the same axes.
        let all = self.comparable(&self.cases[indices[0]]).into_iter().filter(inside);
        let measured = all.filter_map(|case| case.measured().map(|m| (case, m)));
        let x = LogAxis::at(measured.clone().filter_map(|(case, _)| extent(&case.size)), 7)?;
        let y = LogAxis::round(measured.filter_map(|(case, m)| shown.of(case, m.summary.median)))?;
        let cases_of_sources = || indices.iter().flat_map(|at| self.cases[*at].iter().copied()).filter(inside);
        let matter = Self::important_variants(cases_of_sources());
        let mut series_list: Vec<Series> = vec![];
        let variants = self.variants();
        let mut known = HashSet::new();
        for (rank, at) in indices.iter().enumerate() {
            let mut of: HashMap<String, Vec<ChartPoint>> = HashMap::new();
            for case in self.cases[*at].iter().filter(|case| inside(case)) {
                of.entry(series(case)).or_default().extend(shown.point(case));
            }
            for name in &variants {
                let mut points = of.remove(name).unwrap_or_default();
                // Oblong problems are not on the line of square ones; if all are oblong, they are a line.
                if points.iter().all(|point| !point.on_line) {
                    for point in &mut points {
                        point.on_line = true;
                    }
                }
                let style = matter.iter().position(|known| known == name);
                if !points.is_empty() {
                    let named = known.insert(name);
                    series_list.push(Series { name: name.clone(), style, dashed: rank > 0, named, points });
                }
            }
        }
        if series_list.is_empty() {
            return None;
        }
        let subject = panel.unwrap_or(&self.first.algorithm);
        let shown_in = [self.title(), panel.unwrap_or_default().into(), shown.file().into()].join(" ");
        let plot = Plot {
            title: format!("{subject} {}, {}", self.first.element(), shown.title(&y)),
            source: sources[indices[0]].name.clone(),
            pair: match indices {
                [a, b] => Some([sources[*a].name.clone(), sources[*b].name.clone()]),
                _ => None,
            },
            description: format!(
                "{} over size for {} variants, logarithmic axes; values in the table below",
                shown.title(&y),
                series_list.len()
            ),
            x_title: "size".into(),
            x,
            x_label: axis::size,
            y_label: shown.label(&y),
            y,
            series: series_list,
            ceilings: vec![],
        };
        Some(chart(&shown_in, &sources[indices[0]], |width| plot.svg(width)))
    }

    /// Returns the size that bars show for the group: the largest that more than half as many cases have as the most
    /// common one.
    fn representative_size(&self, indices: &[usize]) -> Option<String> {
        let cases = || indices.iter().flat_map(|at| self.cases[*at].iter()).filter(|case| case.measured().is_some());
        let mut counts: HashMap<String, usize> = HashMap::new();
        cases().for_each(|case| *counts.entry(case.row()).or_default() += 1);
        let most = counts.values().copied().max()?;
        let telling = cases().filter(|case| 2 * counts[&case.row()] > most);
        Some(telling.max_by_key(|case| case.work.operations.max(case.work.bytes.0))?.row())
    }

    /// Returns the bars of one size for each of its own sources, the fastest first, with the forms of an operation
    /// together. With two sources, each variant has adjacent bars.
    fn bars_of(&self, indices: &[usize], size: &str, bar: &dyn Fn(&'a Case) -> Option<Bar>) -> Vec<Bar> {
        let mut bars = vec![];
        for (rank, at) in indices.iter().enumerate() {
            for case in self.cases[*at].iter().filter(|case| case.row() == size) {
                let Some(bar) = bar(case) else { continue };
                let style = if indices.len() > 1 { rank } else { bar.style };
                bars.push((case, Bar { style, ..bar }));
            }
        }
        let mut rows = grouped(bars, |(_, bar)| bar.name.clone());
        rows.sort_by(|a, b| {
            let [a, b] = [a, b].map(|row| median(row[0].0).map_or(f64::INFINITY, |time| time.0));
            a.total_cmp(&b)
        });
        let rows = grouped_where(rows, |a, b| operation(a[0].0) == operation(b[0].0));
        let mut rows: Vec<_> = rows.into_iter().flatten().collect();
        // Only the first bar of a row has a name.
        rows.iter_mut().flat_map(|row| &mut row[1..]).for_each(|(_, bar)| bar.name.clear());
        rows.into_iter().flatten().map(|(_, bar)| bar).collect()
    }

    /// Returns the names of two sources, with the styles of their bars.
    fn pair(sources: &[ReportSource<'_>], indices: &[usize]) -> Option<Vec<(usize, String)>> {
        (indices.len() == 2).then(|| indices.iter().map(|at| sources[*at].name.clone()).enumerate().collect())
    }

    /// Draws the times of one size, the fastest first, with the forms of an operation together.
    fn times(&self, sources: &[ReportSource<'_>], indices: &[usize]) -> Option<Chart> {
        let size = self.representative_size(indices)?;
        let names = distinct(self.everything().filter_map(|case| case.form().map(|form| form.name)));
        let bar = |case: &Case| {
            let m = case.measured()?;
            let time = case.shown(m.summary.median);
            // The colour of a chain is that of its form, so that the forms of an operation compare.
            let form = case.form().and_then(|form| names.iter().position(|name| *name == form.name));
            let text = time.to_string();
            let style = form.unwrap_or(0);
            Some(Bar { name: series(case), value: time.0, text, style, tip: tip(case, m) })
        };
        let bars = self.bars_of(indices, &size, &bar);
        let one = if self.first.chain.is_some() { "time per operation" } else { "time" };
        let forms = || match self.first.chain {
            Some(_) => names.iter().map(ToString::to_string).enumerate().collect(),
            None => vec![],
        };
        (!bars.is_empty()).then(|| {
            let drawn = Bars {
                title: format!("{} {}, {one}", self.first.algorithm, size),
                source: indices.iter().map(|at| &*sources[*at].name).collect::<Vec<_>>().join(", "),
                description: format!("{one} of {} variants; values in the table below", bars.len()),
                items: bars,
                legend: Self::pair(sources, indices).unwrap_or_else(forms),
                rule: None,
            };
            chart(&format!("{} time", self.title()), &sources[indices[0]], |width| drawn.svg(width))
        })
    }

    /// Whether the same cases of some sources have the same limits.
    fn same_limits(&self, indices: &[usize]) -> bool {
        let cases = indices.iter().flat_map(|at| self.cases[*at].iter().copied());
        let rows = grouped(cases, |case| (series(case), case.row()));
        !rows.into_iter().any(|row| limits_differ(row.into_iter()))
    }

    /// Draws the shares of one size, ranked by time: limits are those of a case's own arithmetic, so the largest share
    /// need not be the fastest.
    fn shares(&self, sources: &[ReportSource<'_>], indices: &[usize]) -> Option<Chart> {
        let shared =
            |at: &&usize| self.cases[**at].iter().any(|case| case.measured().is_some() && case.share.is_some());
        let indices: Vec<usize> = indices.iter().filter(shared).copied().collect();
        let indices = indices.as_slice();
        let size = self.representative_size(indices)?;
        let bar = |case: &Case| {
            let m = case.measured()?;
            let share = finite_share(case)?;
            let text = share.told(percent);
            let tip = format!("{}\n{text} of the {} limit", tip(case, m), share.limit.name());
            let text = format!("{text}, {}", case.shown(m.summary.median));
            Some(Bar { name: series(case), value: share.shown(), text, style: share.limit as usize, tip })
        };
        let mut bars = self.bars_of(indices, &size, &bar);
        let all = bars.len();
        bars.truncate(MAX_BARS * indices.len());
        let order = match bars.len() {
            1 => String::new(),
            some if some < all => format!("the fastest {some} of {all}, sorted by time"),
            _ => "sorted by time, fastest first".into(),
        };
        let limits = || {
            let shown = indices.iter().flat_map(|at| self.cases[*at].iter()).filter(|case| case.row() == size);
            let shares = shown.filter(|case| case.measured().is_some()).filter_map(|case| case.share);
            distinct(shares.map(|share| (share.limit as usize, format!("{} limit", share.limit.name()))))
        };
        // With two sources, the legend names them.
        let of = if let [only] = indices { &sources[*only].name } else { "" };
        (!bars.is_empty()).then(|| {
            let parts = [of, &order].into_iter().filter(|part| !part.is_empty());
            let drawn = Bars {
                title: format!("{} {} {size}, share of limit", self.first.algorithm, self.first.element()),
                source: parts.collect::<Vec<_>>().join(", "),
                description: "how close each case comes to the limit that binds it; values in the table below".into(),
                items: bars,
                legend: Self::pair(sources, indices).unwrap_or_else(limits),
                rule: Some((1.0, "its limit")),
            };
            chart(&format!("{} share", self.title()), &sources[indices[0]], |width| drawn.svg(width))
        })
    }

    /// Returns the winner of each size and class on a source.
    fn winners(&self, at: usize) -> Vec<&'a Case> {
        let timed =
            self.cases[at].iter().filter_map(|case| Some(((row(case), Class::of(case)), median(case)?.0, *case)));
        let rows = grouped(timed.filter(|(_, time, _)| *time > 0.0), |(place, ..)| place.clone());
        let fastest = |row: Vec<(_, f64, &'a Case)>| row.into_iter().min_by(|(_, a, _), (_, b, _)| a.total_cmp(b));
        rows.into_iter().filter_map(fastest).map(|(.., case)| case).collect()
    }

    /// Returns the most important winners: the exact one of each size, and the faster ones with caveats.
    pub(super) fn leaders(&self, at: usize) -> Vec<&'a Case> {
        let winners = self.winners(at);
        let exact = |case: &Case| Class::of(case).is_exact();
        let times = winners.iter().filter(|case| exact(case)).filter_map(|case| Some((row(case), median(case)?.0)));
        let times: HashMap<String, f64> = times.collect();
        let beaten =
            |case: &Case| times.get(&row(case)).zip(median(case)).is_some_and(|(exact, time)| *exact <= time.0);
        winners.iter().filter(|case| exact(case) || !beaten(case)).copied().collect()
    }
}

/// Words for the name of a chart's file, and its drawing for each width.
pub(super) type Chart = (String, [String; 2]);

fn chart(name: &str, source: &ReportSource<'_>, svg: impl Fn(Width) -> String) -> Chart {
    (format!("{name} {}", source.name), [Width::Wide, Width::Narrow].map(svg))
}

/// Quantity that is shown over size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlotQuantity {
    Time,
    Rate,
    Bandwidth,
}

impl PlotQuantity {
    /// Returns the title of an axis, in a unit that keeps numbers short.
    fn title(self, axis: &LogAxis) -> &'static str {
        match (self, is_large(axis)) {
            (Self::Time, _) => "time",
            (Self::Rate, false) => "GFLOP/s",
            (Self::Rate, true) => "TFLOP/s",
            (Self::Bandwidth, false) => "GB/s",
            (Self::Bandwidth, true) => "TB/s",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "rate",
            Self::Bandwidth => "bandwidth",
        }
    }

    fn label(self, axis: &LogAxis) -> fn(f64) -> String {
        match self {
            Self::Time => axis::time,
            Self::Rate | Self::Bandwidth if is_large(axis) => axis::thousands,
            Self::Rate | Self::Bandwidth => axis::number,
        }
    }

    fn of(self, case: &Case, time: Nanos) -> Option<f64> {
        let (figure, scale) = match self {
            Self::Time => (&figure::MEDIAN, 1.0),
            Self::Rate => (&figure::RATE, 1e-9),
            Self::Bandwidth => (&figure::BANDWIDTH, 1e-9),
        };
        figure.at(case, time).map(|value| value * scale).filter(|value| *value > 0.0 && value.is_finite())
    }

    fn point(self, case: &Case) -> Option<ChartPoint> {
        let m = case.measured()?;
        let ends = m.summary.interval.and_then(|[low, high]| Some([self.of(case, low)?, self.of(case, high)?]));
        let x = extent(&case.size)?;
        let y = self.of(case, m.summary.median)?;
        Some(ChartPoint { x, y, ends, on_line: equal_extents(&case.size), tip: tip(case, m) })
    }
}

/// Whether an axis of rates in 10⁹ per second reads better in 10¹².
fn is_large(axis: &LogAxis) -> bool {
    axis.high >= 2e4 && axis.low >= 10.0
}

/// Minimum operations per byte for a roofline: with fewer, a case is bound by memory everywhere, as its share says.
const MIN_ROOFLINE_INTENSITY: f64 = 4.0;

impl ChartGroup<'_> {
    /// Draws the roofline of the source at `at`: every case by its operations per byte, under the measured limits, with
    /// a roof for every arithmetic that is used. `None` without limits, or if no case has enough arithmetic.
    fn roofline(&self, source: &ReportSource<'_>, at: usize) -> Option<Chart> {
        let cases = || self.cases[at].iter().copied().filter(|case| case.work.operations > 0 && case.work.bytes.0 > 0);
        let intensity = |case: &Case| case.work.operations as f64 / case.work.bytes.0 as f64;
        if !cases().any(|case| intensity(case) >= MIN_ROOFLINE_INTENSITY) {
            return None;
        }
        let peaks: Vec<&Peak> = source.peaks().collect();
        let measured = cases().filter(|case| case.measured().is_some());
        let used = distinct(measured.map(Case::computed_in).map(|computes| (computes.dtype, computes.operations)));
        let all = by_intensity(cases());
        let compute = compute_ceilings(&peaks, &used);
        let bandwidth = bandwidth_ceilings(&peaks);
        let top = compute.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let steepest = bandwidth.iter().map(|(.., rate)| *rate).fold(0.0, f64::max);
        if all.is_empty() || top == 0.0 || steepest == 0.0 {
            return None;
        }
        let slowest = bandwidth.iter().map(|(.., rate)| *rate).fold(f64::INFINITY, f64::min);
        let points = || all.iter().flat_map(|series| &series.points);
        // Cover every case, and the points at which slopes meet roofs.
        let ridge = top / slowest;
        let x = LogAxis::round(points().map(|point| point.x).chain([ridge * 1.5, top / steepest / 10.0]))?;
        let lowest = points().map(|point| point.y).fold(top, f64::min);
        let y = LogAxis::round([lowest, top * 1.5].into_iter())?;
        let ceilings = ceilings(&compute, &bandwidth, (&x, &y));
        let mut description = format!("{} cases under measured limits:", points().count());
        for ceiling in &ceilings {
            let _ = write!(description, " {};", ceiling.full_name());
        }
        let plot = Plot {
            title: format!(
                "{} {} roofline, {}",
                self.first.algorithm,
                self.first.element(),
                PlotQuantity::Rate.title(&y)
            ),
            source: source.name.clone(),
            pair: None,
            description,
            x_title: "operations per byte".into(),
            x,
            x_label: axis::number,
            y_label: PlotQuantity::Rate.label(&y),
            y,
            series: all,
            ceilings,
        };
        Some(chart(&format!("{} roofline", self.title()), source, |width| plot.svg(width)))
    }
}

/// Returns the rates of cases over their operations per byte, a series for each variant.
fn by_intensity<'c>(cases: impl Iterator<Item = &'c Case> + Clone) -> Vec<Series> {
    let named = ChartGroup::important_variants(cases.clone());
    let points = cases.filter_map(|case| {
        let m = case.measured()?;
        let y = PlotQuantity::Rate.of(case, m.summary.median)?;
        let x = case.work.operations as f64 / case.work.bytes.0 as f64;
        Some((series(case), ChartPoint { x, y, ends: None, on_line: false, tip: tip(case, m) }))
    });
    let one = |all: Vec<(String, ChartPoint)>| {
        let name = all[0].0.clone();
        let style = named.iter().position(|known| *known == name);
        Series { name, style, dashed: false, named: true, points: all.into_iter().map(|(_, point)| point).collect() }
    };
    grouped(points, |(name, _)| name.clone()).into_iter().map(one).collect()
}

/// Returns the slopes of bandwidth up to the highest roof, and the roofs of arithmetic from the steepest slope on.
fn ceilings(
    compute: &[(String, f64)],
    bandwidth: &[(String, Bytes, f64)],
    (x, y): (&LogAxis, &LogAxis),
) -> Vec<Ceiling> {
    let top = compute.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let steepest = bandwidth.iter().map(|(.., rate)| *rate).fold(0.0, f64::max);
    let slopes = bandwidth.iter().map(|(name, working_set, rate)| {
        let from = x.low.max(y.low / rate);
        let detail = Some(working_set.to_string());
        Ceiling { name: name.clone(), detail, from: (from, from * rate), to: (top / rate, top) }
    });
    let roofs = compute.iter().map(|(name, rate)| Ceiling {
        name: name.clone(),
        detail: None,
        from: ((rate / steepest).max(x.low), *rate),
        to: (x.high, *rate),
    });
    slopes.chain(roofs).collect()
}

/// Returns the arithmetic limits in GFLOP/s of nominal work, one for each arithmetic that is used: with three
/// operations for each nominal one, a third of the rate.
fn compute_ceilings(peaks: &[&Peak], used: &[(DType, u64)]) -> Vec<(String, f64)> {
    let ceiling = |(wanted, operations): &(DType, u64), figure: &Figure| {
        let name = match figure.quantity {
            Quantity::Arithmetic { dtype } if dtype == *wanted && *operations == 1 => dtype.to_string(),
            Quantity::Matrix { dtype, .. } if dtype == *wanted => format!("{dtype} units"),
            Quantity::Arithmetic { .. }
            | Quantity::Matrix { .. }
            | Quantity::Bandwidth { .. }
            | Quantity::SharedMemory
            | Quantity::Atomics { .. }
            | Quantity::Latency { .. }
            | Quantity::Transfer { .. } => return None,
        };
        let name = if *operations > 1 { format!("{name} ÷ {operations}") } else { name };
        Some((name, figure.best * 1e-9 / *operations as f64))
    };
    let mut all = vec![];
    for used in used {
        all.extend(peaks.iter().flat_map(|peak| &peak.figures).filter_map(|figure| ceiling(used, figure)));
    }
    let mut ceilings = vec![];
    for group in grouped_where(all, |(a, _), (b, _)| a == b) {
        let best = group.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        ceilings.push((format!("{}: {}", group[0].0, rate(best, "FLOP/s")), best));
    }
    ceilings
}

/// Formats a rate given in 10⁹ per second.
fn rate(giga: f64, unit: &str) -> String {
    if giga < 1e3 { format!("{} G{unit}", significant(giga)) } else { format!("{} T{unit}", significant(giga * 1e-3)) }
}

/// Returns the bandwidth limits in GB/s: of the largest working set, and the highest if it is clearly higher.
fn bandwidth_ceilings(peaks: &[&Peak]) -> Vec<(String, Bytes, f64)> {
    let mut bandwidths = vec![];
    for pattern in [Pattern::Read, Pattern::Copy, Pattern::Write] {
        if bandwidths.is_empty() {
            let measured = peaks.iter().flat_map(|peak| peak.bandwidths(pattern));
            bandwidths.extend(measured.map(|(working_set, rate)| (working_set, rate * 1e-9)));
        }
    }
    let largest = bandwidths.iter().max_by_key(|(working_set, _)| *working_set).copied();
    let fastest = bandwidths.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied();
    let mut ceilings = vec![];
    if let Some((working_set, most)) = largest {
        ceilings.push((format!("memory {}", rate(most, "B/s")), working_set, most));
    }
    if let (Some((_, memory)), Some((working_set, most))) = (largest, fastest)
        && most > 1.2 * memory
    {
        ceilings.push((format!("cache {}", rate(most, "B/s")), working_set, most));
    }
    ceilings
}

/// Returns the share of its limit that a case reaches, if it is a number.
pub(super) fn finite_share(case: &Case) -> Option<Share> {
    case.share.filter(|share| share.fraction.is_finite() && share.is_known())
}

/// Returns the name of a case's series: its variant, with the required sub-group size and the caveats.
pub(super) fn series(case: &Case) -> String {
    let width = case.subgroup_size.map(|width| format!(" @{width}")).unwrap_or_default();
    format!("{}{width} {}", case.variant, Class::of(case)).trim_end().to_string()
}

/// Returns the operation of a chain.
fn operation(case: &Case) -> Option<&'static str> {
    case.form().map(|form| form.operation)
}

/// Returns the position of a size on an axis: the geometric mean of its extents.
fn extent(size: &CaseSize) -> Option<f64> {
    let extents = size.known()?.extents();
    let mean = (extents.iter().map(|extent| (*extent as f64).ln()).sum::<f64>() / extents.len() as f64).exp();
    // Logarithm and exponential do not return a power of two exactly.
    let mean = if (mean - mean.round()).abs() < 1e-9 * mean { mean.round() } else { mean };
    (mean > 0.0 && mean.is_finite()).then_some(mean)
}

/// Whether all extents of a size are equal.
fn equal_extents(size: &CaseSize) -> bool {
    size.known().is_some_and(|size| size.extents().windows(2).all(|pair| pair[0] == pair[1]))
}

pub(super) fn percent(fraction: f64) -> String {
    let decimals = if fraction < 0.01 { 2 } else { 1 };
    format!("{:.decimals$} %", 100.0 * fraction)
}

/// Returns the tooltip of a case.
fn tip(case: &Case, m: &Measured) -> String {
    let error = m.summary.relative_error().filter(|error| error.is_finite());
    let error = error.map_or_else(String::new, |error| format!(" ± {}", percent(error)));
    let mut text = format!("{}\n{}{error}", shortened(&case.id, MAX_NAME), case.shown(m.summary.median));
    for (rate, unit) in [(PlotQuantity::Rate, "GFLOP/s"), (PlotQuantity::Bandwidth, "GB/s")] {
        if let Some(rate) = rate.of(case, m.summary.median) {
            let _ = write!(text, "\n{} {unit}", significant(rate));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_lies_at_the_geometric_mean_of_its_extents() {
        let of = |text: &str| extent(&text.into());
        assert_eq!(of("1024"), Some(1024.0));
        assert_eq!(of("1000x10x10").map(f64::round), Some(46.0));
        assert_eq!([of(""), of("x"), of("NaN"), of("0")], [None; 4]);
        assert_eq!(["64", "8x8x8", "8x9x8", "x"].map(|text| equal_extents(&text.into())), [true, true, false, false]);
    }
}
