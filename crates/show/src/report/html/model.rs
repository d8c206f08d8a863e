//! Contents of a report: sources (devices in runs), groups of cases that share charts, and the charts.

use super::super::bench::{axis_names, median, row};
use super::super::fastest::{self, by_time};
use super::super::grid::speedup_text;
use super::super::join_filled;
use super::super::table::shortened;
use super::MAX_NAME;
use super::axis::{self, LogAxis};
use super::chart::{Bar, Bars, Ceiling, ChartPoint, Plot, SERIES, Series, Width, about_signs};
use crate::basis::alike::{distinct, grouped, grouped_by_key_where, grouped_where};
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Nanos, Work, significant, uncertainty};
use crate::case::Computes;
use crate::case::quantity::Pattern;
use crate::device::capability::DeviceInfo;
use crate::record::class::Class;
use crate::record::figure::{self, CaseFigure};
use crate::record::marks::RunConditions;
use crate::record::peak::{Figure, Peak, Quantity};
use crate::record::{AT_LEAST, Case, CaseSize, Measured, NamedRecord, Share};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;

/// Device in a run.
pub(super) struct ReportSource<'a> {
    pub(super) run: &'a NamedRecord,
    pub(super) device: &'a DeviceInfo,
    /// Label that distinguishes the source from the others: the device, the run, or both.
    pub(super) name: String,
    pub(super) conditions: RunConditions,
    /// Variant over which charts and tables state speed-ups.
    pub(super) over: Option<&'a str>,
}

/// Maximum number of variants that a chart names; the others are gray.
const MAX_NAMED: usize = 5;

const MAX_SIZE_LABELS: usize = 7;

/// Maximum number of panels that are not collapsed.
const MAX_EXPANDED_PANELS: usize = 6;

/// Returns the label of a device in a run: the device, unless several runs have one of its name. Then it is the run if
/// that is the only device of each run, and otherwise both.
fn source_name(runs: &[NamedRecord], run: &NamedRecord, device: &DeviceInfo) -> String {
    let device_name = run.record.device_name(device.index);
    let devices = runs.iter().flat_map(|run| &run.record.devices);
    let namesakes = devices.filter(|namesake| namesake.name == device.name).count();
    if runs.len() == 1 || namesakes == 1 {
        device_name
    } else if namesakes == runs.len() && runs.iter().all(|run| run.record.devices.len() == 1) {
        run.name.clone()
    } else {
        format!("{device_name} ({})", run.name)
    }
}

impl<'a> ReportSource<'a> {
    /// Returns every device of every run, with the speed-ups over a variant that the runs state.
    pub(super) fn all(runs: &'a [NamedRecord], over: Option<&'a str>) -> Vec<Self> {
        let mut sources = vec![];
        for run in runs {
            for device in &run.record.devices {
                let name = source_name(runs, run, device);
                sources.push(Self { run, device, name, conditions: RunConditions::of(&run.record), over });
            }
        }
        sources
    }

    pub(super) fn cases(&self) -> impl Iterator<Item = &'a Case> + Clone {
        let index = self.device.index;
        self.run.record.cases.iter().filter(move |case| case.device == index)
    }
}

/// Cases that share charts: one algorithm, element type and kind of input.
#[derive(Clone, Debug)]
pub(super) struct ChartGroup<'a> {
    first: &'a Case,
    /// Cases of each source, in the order of the sources.
    pub(super) cases: Vec<Vec<&'a Case>>,
    /// Names of the series of all groups. The index of a name is its style in every chart, so that readers find a kernel
    /// again in the next one.
    styles: Rc<[String]>,
}

impl<'a> ChartGroup<'a> {
    pub(super) fn all(sources: &[ReportSource<'a>]) -> Vec<Self> {
        let cases = sources.iter().enumerate().flat_map(|(at, source)| source.cases().map(move |case| (at, case)));
        let key = |(_, case): &(usize, &'a Case)| (case.algorithm.as_str(), case.chain.is_some());
        let mut groups = vec![];
        for cases in grouped_by_key_where(cases, key, |(_, a), (_, b)| a.same_kind(b)) {
            let mut group = Self { first: cases[0].1, cases: vec![vec![]; sources.len()], styles: Rc::default() };
            for (source, case) in cases {
                group.cases[source].push(case);
            }
            groups.push(group);
        }
        let mut names = distinct(sources.iter().flat_map(ReportSource::cases).map(series));
        if names.len() > SERIES.len() {
            // Gray series need no style of their own.
            let named: HashSet<String> = groups.iter().flat_map(Self::named).collect();
            names.sort_by_key(|name| !named.contains(name));
        }
        let styles: Rc<[String]> = names.into();
        for group in &mut groups {
            group.styles = Rc::clone(&styles);
        }
        groups
    }

    /// Returns the names of the series that are not gray in every chart.
    fn named(&self) -> Vec<String> {
        let single = (0..self.cases.len()).map(|source| vec![source]);
        let mut named = vec![];
        for indices in self.sources_by_chart().into_iter().chain(single) {
            let cases = indices.iter().flat_map(|source| self.cases[*source].iter().copied());
            for cases in grouped(cases, |case| operation(case)) {
                named.extend(Self::important_variants(cases.into_iter()));
            }
        }
        named
    }

    /// Returns the style of a series in a chart of these important ones; `None` for a gray one.
    fn style(&self, important: &[String], name: &str) -> Option<usize> {
        important.iter().any(|variant| variant == name).then(|| self.styles.iter().position(|own| own == name))?
    }

    pub(super) fn title(&self) -> String {
        shortened(&self.first.kind(), MAX_NAME)
    }

    pub(super) fn algorithm(&self) -> &'a str {
        &self.first.algorithm
    }

    /// Whether a source timed two rivals of one size, so that one of them is the fastest.
    pub(super) fn is_contest(&self, source: usize) -> bool {
        grouped(self.cases[source].iter().copied(), |case| row(case)).iter().any(|cases| has_rivals(cases))
    }

    /// Returns at most `most` of the cases: at sizes spread evenly, the important variants first, then the fastest.
    pub(super) fn thinned(&self, most: usize) -> Self {
        if self.everything().count() <= most {
            return self.clone();
        }
        let important = Self::important_variants(self.everything());
        let rows = distinct(self.everything().map(Case::row));
        let sources = self.cases.iter().filter(|cases| !cases.is_empty()).count().max(1);
        let important_per_row = (sources * important.len()).clamp(1, most.max(1));
        let stride = rows.len().div_ceil((most / important_per_row).max(1));
        let chosen_rows: HashSet<String> = rows.into_iter().step_by(stride).collect();
        let cases_per_row = (most / (chosen_rows.len() * sources)).max(1);
        let rank = |case: &Case| important.iter().position(|name| *name == series(case)).unwrap_or(MAX_NAMED);
        let mut thinned = Self { cases: vec![], ..self.clone() };
        for cases in &self.cases {
            let in_rows = cases.iter().copied().enumerate().filter(|(_, case)| chosen_rows.contains(&case.row()));
            let mut chosen = vec![];
            for mut row in grouped(in_rows, |(_, case)| case.row()) {
                row.sort_by(|(_, a), (_, b)| by_time(a, b));
                row.sort_by_cached_key(|(_, case)| rank(case));
                row.truncate(cases_per_row);
                chosen.extend(row);
            }
            chosen.sort_by_key(|(index, _)| *index);
            thinned.cases.push(chosen.into_iter().map(|(_, case)| case).collect());
        }
        thinned
    }

    pub(super) fn everything(&self) -> impl Iterator<Item = &'a Case> + Clone {
        self.cases.iter().flatten().copied()
    }

    /// Returns `cases` with those of every source that shares a size with one already taken. Sources that no chain of
    /// common sizes connects, such as a GPU's large problems and a processor's small ones, would leave a common chart
    /// mostly empty.
    fn comparable(&self, cases: &[&'a Case]) -> Vec<&'a Case> {
        let mut comparable = cases.to_vec();
        let mut sizes: HashSet<&CaseSize> = cases.iter().map(|case| &case.size).collect();
        let mut others: Vec<_> = self.cases.iter().filter(|other| !std::ptr::eq(other.as_slice(), cases)).collect();
        while let Some(next) = others.iter().position(|other| other.iter().any(|case| sizes.contains(&case.size))) {
            let other = others.swap_remove(next);
            sizes.extend(other.iter().map(|case| &case.size));
            comparable.extend(other);
        }
        comparable
    }

    /// Whether all cases have one size: bars then say more than marks in one column.
    fn has_one_size(&self) -> bool {
        self.everything().all(|case| case.size == self.first.size)
    }

    /// Groups the sources whose cases share a chart: two if they have sizes in common. More than two would crowd a
    /// chart, so each then has its own.
    fn sources_by_chart(&self) -> Vec<Vec<usize>> {
        let by_table = self.sources_by_table();
        if by_table.iter().all(|indices| indices.len() <= 2) {
            return by_table;
        }
        by_table.into_iter().flatten().map(|source| vec![source]).collect()
    }

    /// Groups the sources whose winners share a table: all if they have sizes in common, or each for itself.
    pub(super) fn sources_by_table(&self) -> Vec<Vec<usize>> {
        let indices: Vec<usize> = (0..self.cases.len()).filter(|source| !self.cases[*source].is_empty()).collect();
        let Some(first) = indices.first() else { return vec![] };
        if self.comparable(&self.cases[*first]).len() == self.everything().count() {
            return vec![indices];
        }
        indices.into_iter().map(|source| vec![source]).collect()
    }

    /// Draws the charts, each case in one of them beside the roofline: a quantity over size, or bars of one size. Those
    /// of the operations of chains over size are collapsed.
    pub(super) fn charts(&self, sources: &[ReportSource<'_>]) -> [Vec<Chart>; 2] {
        let mut first = vec![];
        let mut folded = vec![];
        let over = sources.first().and_then(|source| source.over);
        let quantity = over.map_or_else(|| PlotQuantity::of(self.first), |_| PlotQuantity::Speedup);
        let has_chains = self.first.chain.is_some() && over.is_none();
        let sources_by_chart = self.sources_by_chart();
        for indices in &sources_by_chart {
            if !self.has_one_size() && !has_chains {
                for (at, panel) in self.panels().into_iter().enumerate() {
                    let charts = if at < MAX_EXPANDED_PANELS { &mut first } else { &mut folded };
                    charts.extend(self.plot(sources, indices, quantity, &panel));
                }
                continue;
            }
            first.extend(self.times(sources, indices));
            if !self.has_one_size() {
                for operation in distinct(self.everything().map(operation)) {
                    let panel = PlotPanel { operation, ..PlotPanel::default() };
                    folded.extend(self.plot(sources, indices, PlotQuantity::Time, &panel));
                }
            }
        }
        for source in sources_by_chart.into_iter().flatten() {
            first.extend(self.roofline(&sources[source], source));
        }
        [first, folded]
    }

    /// Returns the variants of `cases` that win the most sizes, then those that are closest to winning.
    pub(super) fn important_variants<'c>(cases: impl Iterator<Item = &'c Case>) -> Vec<String> {
        let contest = |case: &Case| (case.device, case.row(), Class::of(case).to_string());
        let mut best_times = HashMap::new();
        let mut timed = vec![];
        for case in cases {
            if let Some(time) = median(case).map(|time| time.0).filter(|time| *time > 0.0) {
                let best = best_times.entry(contest(case)).or_insert(time);
                *best = best.min(time);
                timed.push((case, time));
            }
        }
        let first = timed.first().map(|(case, _)| series(case));
        let contests = best_times.len();
        let mut losses = vec![];
        for variant in grouped(timed, |(case, _)| series(case)) {
            let mut wins = 0;
            // Sum of logarithms of times over the best. Each contest without the variant counts as twice the best time.
            let mut loss = 0.0;
            for (case, time) in &variant {
                let best = best_times[&contest(case)];
                wins += usize::from(*time <= best);
                loss += (time / best).ln();
            }
            loss += contests.saturating_sub(variant.len()) as f64 * std::f64::consts::LN_2;
            losses.push((series(variant[0].0), (wins, loss)));
        }
        losses.sort_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b));
        losses.sort_by_key(|(_, (wins, _))| Reverse(*wins));
        let mut names: Vec<String> = losses.into_iter().take(MAX_NAMED).map(|(name, _)| name).collect();
        // The first one is what the others are measured against, however slow.
        if let Some(first) = first.filter(|first| names.len() == MAX_NAMED && !names.contains(first)) {
            names[MAX_NAMED - 1] = first;
        }
        names
    }

    /// Splits the sizes of a user's kernel with several varying axes into panels, in which only the axis with the most
    /// values varies. A single panel has all sizes if a split would leave one of them alone.
    fn panels(&self) -> Vec<PlotPanel<'static>> {
        let whole = vec![PlotPanel::default()];
        let Some(names) = axis_names(self.first) else { return whole };
        let mut sizes = vec![];
        for size in distinct(self.everything().map(|case| &case.size)) {
            match size.known().map(Size::extents) {
                Some(extents) if extents.len() == names.len() => sizes.push((size, extents)),
                _ => return whole,
            }
        }
        let count = |at: &usize| distinct(sizes.iter().map(|(_, extents)| extents[*at])).len();
        let mut varying: Vec<usize> = (0..names.len()).filter(|at| count(at) > 1).collect();
        varying.sort_by_key(|at| Reverse(count(at)));
        let split = varying.get(1..).unwrap_or_default();
        let values = |extents: &[u64]| split.iter().map(|at| extents[*at]).collect::<Vec<_>>();
        let mut panels = grouped(sizes, |(_, extents)| values(extents));
        if split.is_empty() || panels.iter().any(|sizes| sizes.len() < 2) {
            return whole;
        }
        panels.sort_by_key(|sizes| values(&sizes[0].1));
        let panel = |sizes: Vec<(&CaseSize, Vec<u64>)>| {
            let label = split.iter().map(|at| format!("{}={}", axis_name(self.first, *at), sizes[0].1[*at]));
            let label = label.collect::<Vec<_>>().join(", ");
            PlotPanel { label, sizes: sizes.into_iter().map(|(size, _)| size.clone()).collect(), operation: None }
        };
        panels.into_iter().map(panel).collect()
    }

    /// Draws a quantity over size for these sources and the cases of a panel.
    fn plot(
        &self,
        sources: &[ReportSource<'_>],
        indices: &[usize],
        quantity: PlotQuantity,
        panel: &PlotPanel<'_>,
    ) -> Option<Chart> {
        let is_drawn = |case: &&Case| panel.includes(case);
        // Sources that compare have the same axes.
        let comparable = self.comparable(&self.cases[indices[0]]).into_iter().filter(is_drawn);
        let measured = comparable.filter_map(|case| case.measured().map(|m| (case, m)));
        let only = only_varying(measured.clone().map(|(case, _)| &case.size));
        let x = LogAxis::at(measured.clone().filter_map(|(case, _)| position(&case.size, only)), MAX_SIZE_LABELS)?;
        let has_oblong = measured.clone().any(|(case, _)| !equal_extents(&case.size));
        // The bars of errors, and the line of a speed-up of 1, belong to the chart.
        let values =
            measured.flat_map(|(case, _)| quantity.ends(case).into_iter().flatten().chain(quantity.middle(case)));
        let over = sources[indices[0]].over;
        let y = match over {
            Some(_) => LogAxis::ratios(values.chain([1.0]))?,
            None => LogAxis::round(values)?,
        };
        let series = self.plot_series(sources, indices, quantity, only, &is_drawn);
        if series.is_empty() {
            return None;
        }
        let subject = panel.operation.unwrap_or(&self.first.algorithm);
        let subject = join_filled(&[&format!("{subject} {}", self.first.dtype), &panel.label], " ");
        let drawn = indices.iter().flat_map(|source| &self.cases[*source]).copied().filter(is_drawn);
        let (from, to) = ((x.low, 1.0), (x.high, 1.0));
        let equal_speed = Ceiling { name: "1×".into(), detail: None, dashed: true, from, to };
        let quantity_title = format!("{}{}", quantity.title(&y), over.unwrap_or_default());
        let plot = Plot {
            title: format!("{subject}, {quantity_title}"),
            sources: indices.iter().map(|source| sources[*source].name.clone()).collect(),
            error_bars: quantity.error_bars("error bars beyond marks", drawn),
            description: format!("{quantity_title} by size for {} variants, logarithmic axes", series.len()),
            x_title: match only {
                Some(at) => axis_name(self.first, at),
                None if has_oblong => "size: geometric mean of its extents".into(),
                None => "size".into(),
            },
            x_label: axis::size_label(&x),
            y_label: quantity.label(&y),
            ceilings: over.map(|_| equal_speed).into_iter().collect(),
            x,
            y,
            series,
        };
        let operation = panel.operation.unwrap_or_default();
        let name = format!("{} {operation} {} {}", self.title(), panel.label, quantity.file());
        Some(Chart::new(&name, &sources[indices[0]], |width| plot.svg(width)))
    }

    /// Returns the series of a plot, source by source. A variant has the same style in every source.
    fn plot_series(
        &self,
        sources: &[ReportSource<'_>],
        indices: &[usize],
        quantity: PlotQuantity,
        only: Option<usize>,
        is_drawn: &dyn Fn(&&Case) -> bool,
    ) -> Vec<Series> {
        let drawn = indices.iter().flat_map(|source| self.cases[*source].iter().copied()).filter(is_drawn);
        let important = Self::important_variants(drawn);
        let variants = distinct(self.everything().map(series));
        let mut all_series: Vec<Series> = vec![];
        for (rank, source) in indices.iter().enumerate() {
            let mut points_by_variant: HashMap<String, Vec<ChartPoint>> = HashMap::new();
            let conditions = &sources[*source].conditions;
            let cases = self.cases[*source].iter().filter(|case| is_drawn(case));
            for case in cases.clone() {
                points_by_variant.entry(series(case)).or_default().extend(quantity.point(case, only, conditions));
            }
            let grows = do_grow(cases.map(|case| &case.size));
            for name in &variants {
                let mut points = points_by_variant.remove(name).unwrap_or_default();
                if points.is_empty() {
                    continue;
                }
                // Oblong problems are not on the line of square ones; if all are oblong and each is at least as large in
                // every extent as the one before, they are a line.
                if points.iter().all(|point| !point.on_line) && grows {
                    for point in &mut points {
                        point.on_line = true;
                    }
                }
                let style = self.style(&important, name);
                let named = all_series.iter().all(|series| series.name != *name);
                all_series.push(Series { name: name.clone(), style, dashed: rank > 0, named, points });
            }
        }
        all_series
    }

    /// Returns the size that bars show: the largest of those with more than half as many cases as the most common one.
    fn representative_size(&self, indices: &[usize]) -> Option<String> {
        let cases = indices.iter().flat_map(|source| &self.cases[*source]).filter(|case| case.measured().is_some());
        let mut counts: HashMap<String, usize> = HashMap::new();
        for case in cases.clone() {
            *counts.entry(case.row()).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let common = cases.filter(|case| 2 * counts[&case.row()] > most);
        Some(common.max_by_key(|case| case.work.operations.max(case.work.bytes.0))?.row())
    }

    /// Returns the bars of one size, the fastest variant first, with the forms of an operation together. With two
    /// sources, each variant has adjacent bars, whose style is that of the source.
    fn bars_of_size(&self, indices: &[usize], size: &str, to_bar: &dyn Fn(usize, &'a Case) -> Option<Bar>) -> Vec<Bar> {
        let mut bars = vec![];
        for (rank, source) in indices.iter().enumerate() {
            for case in self.cases[*source].iter().filter(|case| case.row() == size) {
                let Some(mut bar) = to_bar(*source, case) else { continue };
                if indices.len() > 1 {
                    bar.style = rank;
                }
                bars.push((*case, bar));
            }
        }
        let mut variants = grouped(bars, |(_, bar)| bar.name.clone());
        variants.sort_by(|a, b| by_time(a[0].0, b[0].0));
        // Only the first bar of a variant has a name.
        variants.iter_mut().flat_map(|bars| &mut bars[1..]).for_each(|(_, bar)| bar.name.clear());
        let operations = grouped_where(variants, |a, b| operation(a[0].0) == operation(b[0].0));
        operations.into_iter().flatten().flatten().map(|(_, bar)| bar).collect()
    }

    /// Draws the times of one size, the fastest first, with the forms of an operation together. If all cases have the
    /// same limit, each time has its share of it.
    fn times(&self, sources: &[ReportSource<'_>], indices: &[usize]) -> Option<Chart> {
        let size = self.representative_size(indices)?;
        let forms = distinct(self.everything().filter_map(|case| case.form().map(|form| form.name)));
        let cases = indices.iter().flat_map(|source| &self.cases[*source]).copied();
        let drawn = cases.filter(|case| case.row() == size && case.measured().is_some());
        let over = sources[indices[0]].over;
        let limit = drawn.clone().find_map(finite_share).filter(|_| over.is_none() && !limits_differ(drawn.clone()));
        let limit = limit.map(|share| share.limit);
        let to_bar = |source: usize, case: &Case| {
            let conditions = &sources[source].conditions;
            let m = case.measured()?;
            let time = case.shown(m.summary.median);
            let speedup = over.and(PlotQuantity::Speedup.middle(case));
            if over.is_some() && speedup.is_none() {
                return None;
            }
            // The color of a chain is that of its form, so that the forms of an operation compare.
            let form = case.form().and_then(|form| forms.iter().position(|name| *name == form.name));
            let share = limit.and(finite_share(case)).map(share);
            let figure = speedup.map_or_else(|| time.to_string(), |value| speedup_text(value, case.speedup_interval));
            let text = join_filled(&[&figure, &share.unwrap_or_default()], ", ");
            let text = join_filled(&[&text, &conditions.signs(case)], " ");
            let tip = tip(case, m, conditions);
            let ends = match speedup {
                Some(_) => PlotQuantity::Speedup.ends(case),
                None => m.summary.interval.map(|ends| ends.map(|end| case.shown(end).0)),
            };
            let value = speedup.unwrap_or(time.0);
            Some(Bar { name: series(case), value, ends, text, style: form.unwrap_or(0), tip })
        };
        let items = self.bars_of_size(indices, &size, &to_bar);
        // A single bar compares with nothing.
        if items.len() < 2 {
            return None;
        }
        let has_chains = self.first.chain.is_some();
        let time = match over {
            Some(over) => &*format!("speed-up over {over}"),
            None if has_chains => "time per operation",
            None => "time",
        };
        let quantity = if over.is_some() { PlotQuantity::Speedup } else { PlotQuantity::Time };
        let errors = quantity.error_bars("error bars", drawn);
        let forms = forms.iter().filter(|_| has_chains).map(ToString::to_string).enumerate();
        let names: Vec<_> = indices.iter().map(|source| &*sources[*source].name).collect();
        let share = limit.map_or_else(String::new, |limit| format!("% of the {} limit", limit.name()));
        let of_size = |source: &usize| self.cases[*source].iter().filter(|case| case.row() == size);
        let signs =
            |source: &usize| of_size(source).map(|case| sources[*source].conditions.signs(case)).collect::<Vec<_>>();
        let signs: Vec<_> = indices.iter().flat_map(signs).collect();
        let about_signs = about_signs(signs.iter().map(|signs| &**signs));
        let bars = Bars {
            title: format!("{} {} {size}, {time}", self.first.algorithm, self.first.dtype),
            source: join_filled(&[&names.join(", "), &share, &errors, &about_signs], "; "),
            description: format!("{time} of {} variants", items.len()),
            legend: match names[..] {
                [_, _] => names.iter().map(ToString::to_string).enumerate().collect(),
                _ => forms.collect(),
            },
            items,
        };
        let name = format!("{} {}", self.title(), quantity.file());
        Some(Chart::new(&name, &sources[indices[0]], |width| bars.svg(width)))
    }

    /// Returns the winner of each size and class on a source.
    fn winners(&self, source: usize) -> Vec<&'a Case> {
        let timed = self.cases[source].iter().copied().filter(|case| median(case).is_some_and(|time| time.0 > 0.0));
        let contests = grouped(timed, |case| (row(case), Class::of(case)));
        contests.into_iter().filter_map(|cases| fastest::best_of(&cases)).collect()
    }

    /// Returns the most important winners: the exact one of each size, and the faster ones with caveats.
    pub(super) fn leaders(&self, source: usize) -> Vec<&'a Case> {
        let mut winners = self.winners(source);
        let mut exact = HashMap::new();
        for case in winners.iter().copied().filter(|case| Class::of(case).is_exact()) {
            exact.insert(row(case), case);
        }
        winners.retain(|case| {
            let exact = exact.get(&row(case));
            Class::of(case).is_exact() || exact.is_none_or(|exact| by_time(case, exact).is_lt())
        });
        winners
    }
}

/// Whether any case of one size has been timed and has a rival: all other cases are rivals of an exact one, and the
/// others have rivals only within their class.
fn has_rivals(cases: &[&Case]) -> bool {
    let count_timed = |cases: &[&Case]| cases.iter().filter(|case| median(case).is_some()).count();
    grouped(cases.iter().copied(), |case| Class::of(case)).iter().any(|of_class| {
        let timed_of_class = count_timed(of_class);
        let timed_rivals = if Class::of(of_class[0]).is_exact() { count_timed(cases) } else { timed_of_class };
        // An untimed case has a rival in any timed one.
        let has_untimed = timed_of_class < of_class.len();
        if has_untimed { timed_rivals > 0 } else { timed_rivals > 1 }
    })
}

/// Cases of a group that share a plot; by default all.
#[derive(Default)]
struct PlotPanel<'a> {
    /// Operation of the chains, if there are chains.
    operation: Option<&'a str>,
    /// Values of the axes that do not vary within the panel: `S=3`.
    label: String,
    /// Sizes of the panel; empty if it has all.
    sizes: HashSet<CaseSize>,
}

impl PlotPanel<'_> {
    fn includes(&self, case: &Case) -> bool {
        (self.operation.is_none() || operation(case) == self.operation)
            && (self.sizes.is_empty() || self.sizes.contains(&case.size))
    }
}

/// Chart of a group.
pub(super) struct Chart {
    /// Words for the name of its file.
    pub(super) name: String,
    /// Its markup on a wide and on a narrow page.
    pub(super) drawings: [String; 2],
}

impl Chart {
    fn new(name: &str, source: &ReportSource<'_>, draw: impl Fn(Width) -> String) -> Self {
        Self { name: format!("{name} {}", source.name), drawings: [Width::Wide, Width::Narrow].map(draw) }
    }
}

/// Quantity that is shown over size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlotQuantity {
    Time,
    Rate,
    IntegerRate,
    Bandwidth,
    /// Speed-up over a variant.
    Speedup,
}

impl PlotQuantity {
    /// Returns the quantity that sizes of a kind of case compare in.
    fn of(case: &Case) -> Self {
        match case.work {
            Work { operations: 1.., .. } if case.dtype.is_integer() => Self::IntegerRate,
            Work { operations: 1.., .. } => Self::Rate,
            Work { bytes: Bytes(1..), .. } => Self::Bandwidth,
            Work { .. } => Self::Time,
        }
    }

    /// Returns the figure with the scale of its axis, the word for it in the name of a file, and the titles of an axis of
    /// small and of large numbers.
    fn facts(self) -> (&'static CaseFigure, f64, &'static str, [&'static str; 2]) {
        match self {
            Self::Time => (&figure::MEDIAN, 1.0, "time", ["time"; 2]),
            Self::Rate => (&figure::RATE, 1e-9, "rate", ["GFLOP/s", "TFLOP/s"]),
            Self::IntegerRate => (&figure::RATE, 1e-9, "rate", ["Gop/s", "Top/s"]),
            Self::Bandwidth => (&figure::BANDWIDTH, 1e-9, "bandwidth", ["GB/s", "TB/s"]),
            // The variant's name follows.
            Self::Speedup => (&figure::SPEEDUP, 1.0, "speed-up", ["speed-up over "; 2]),
        }
    }

    /// Returns the title of an axis, in a unit that keeps numbers short.
    fn title(self, axis: &LogAxis) -> &'static str {
        let (_, _, _, [small, large]) = self.facts();
        if is_large(axis) { large } else { small }
    }

    fn file(self) -> &'static str {
        self.facts().2
    }

    fn label(self, axis: &LogAxis) -> fn(f64) -> String {
        match self {
            Self::Time => axis::time,
            Self::Rate | Self::IntegerRate | Self::Bandwidth if is_large(axis) => axis::thousands,
            Self::Speedup | Self::Rate | Self::IntegerRate | Self::Bandwidth => axis::number,
        }
    }

    /// Returns the quantity of a case in the unit of its axis, had it taken `time`.
    fn value(self, case: &Case, time: Nanos) -> Option<f64> {
        let (figure, scale, ..) = self.facts();
        figure.at(case, time).map(|value| value * scale).filter(|value| *value > 0.0 && value.is_finite())
    }

    /// Returns the quantity of a case at its median.
    fn middle(self, case: &Case) -> Option<f64> {
        self.value(case, case.measured()?.summary.median)
    }

    /// Returns the ends of the interval of a case's quantity.
    fn ends(self, case: &Case) -> Option<[f64; 2]> {
        if self == Self::Speedup {
            return case.speedup_interval.filter(|[low, high]| 0.0 < *low && low < high && high.is_finite());
        }
        let [low, high] = case.measured()?.summary.interval?;
        Some([self.value(case, low)?, self.value(case, high)?])
    }

    /// Describes the error bars of a chart, which `bars` names; empty if there are none.
    fn error_bars<'c>(self, bars: &str, mut cases: impl Iterator<Item = &'c Case>) -> String {
        if self == Self::Speedup {
            let has_bars = cases.any(|case| self.ends(case).is_some());
            return if has_bars {
                format!("{bars}: 95 % intervals of ratios between processes")
            } else {
                String::new()
            };
        }
        let mut measured = cases.filter_map(Case::measured).filter(|m| m.summary.interval.is_some()).peekable();
        if measured.peek().is_none() {
            return String::new();
        }
        let (several, single): (Vec<_>, Vec<_>) = measured.partition(|m| m.processes() > 1);
        let processes = match (several.is_empty(), single.is_empty()) {
            (true, _) => "within a process",
            (false, true) => "between processes",
            (false, false) => "between processes, or within the only one",
        };
        format!("{bars}: 95 % intervals of medians {processes}")
    }

    fn point(self, case: &Case, only: Option<usize>, conditions: &RunConditions) -> Option<ChartPoint> {
        let m = case.measured()?;
        let ends = self.ends(case);
        let x = position(&case.size, only)?;
        let y = self.middle(case)?;
        let (tip, signs) = (tip(case, m, conditions), conditions.signs(case));
        let on_line = only.is_some() || equal_extents(&case.size);
        Some(ChartPoint { x, y, ends, on_line, signs, tip })
    }
}

/// Whether an axis of rates in 10⁹ per second reads better in 10¹².
fn is_large(axis: &LogAxis) -> bool {
    axis.high >= 2e4 && axis.low >= 10.0
}

/// Minimum operations per byte for a roofline; a sum has a quarter.
const MIN_ROOFLINE_INTENSITY: f64 = 1.0 / 16.0;

impl ChartGroup<'_> {
    /// Draws the roofline of the source at an index: every case by its operations per byte, under the measured limits,
    /// with a roof for every arithmetic that is used. `None` without limits, or if no case has enough arithmetic.
    fn roofline(&self, source: &ReportSource<'_>, index: usize) -> Option<Chart> {
        let has_intensity = |case: &&Case| case.work.operations > 0 && case.work.bytes.0 > 0;
        let cases = self.cases[index].iter().copied().filter(has_intensity);
        if !cases.clone().any(|case| intensity(case) >= MIN_ROOFLINE_INTENSITY) {
            return None;
        }
        let is_of_device = |peak: &&Peak| peak.uuid == source.device.uuid;
        let peaks: Vec<&Peak> = source.run.record.peaks.iter().filter(is_of_device).collect();
        let measured = cases.clone().filter(|case| case.measured().is_some());
        let arithmetic = compute_limits(&peaks, &distinct(measured.map(Case::computed_in)));
        let bandwidths = bandwidth_limits(&peaks);
        let series = self.series_by_intensity(cases, &source.conditions);
        let top = highest_rate(&arithmetic);
        let steepest = highest_rate(&bandwidths);
        if series.is_empty() || top == 0.0 || steepest == 0.0 {
            return None;
        }
        let slowest = bandwidths.iter().map(|limit| limit.rate).fold(f64::INFINITY, f64::min);
        let points = series.iter().flat_map(|series| &series.points);
        // Cover every case, and the points at which slopes meet roofs.
        let ends = [top / slowest * 1.5, top / steepest / 10.0];
        let x = LogAxis::round(points.clone().map(|point| point.x).chain(ends))?;
        let lowest = points.clone().map(|point| point.y).fold(top, f64::min);
        let highest = points.clone().map(|point| point.y * 1.2).fold(top * 1.5, f64::max);
        let y = LogAxis::round([lowest, highest].into_iter())?;
        let ceilings = ceilings(&arithmetic, &bandwidths, (&x, &y));
        let mut description = format!("{} cases under measured limits:", points.count());
        for ceiling in &ceilings {
            let _ = write!(description, " {};", ceiling.full_name());
        }
        let unit = PlotQuantity::of(self.first).title(&y);
        let plot = Plot {
            title: format!("{} {} roofline, {unit}", self.first.algorithm, self.first.dtype),
            sources: vec![source.name.clone()],
            error_bars: String::new(),
            description,
            x_title: "operations per byte".into(),
            x,
            x_label: axis::number,
            y_label: PlotQuantity::Rate.label(&y),
            y,
            series,
            ceilings,
        };
        Some(Chart::new(&format!("{} roofline", self.title()), source, |width| plot.svg(width)))
    }

    /// Returns the rates of cases over their operations per byte, a series for each variant.
    fn series_by_intensity<'c>(
        &self,
        cases: impl Iterator<Item = &'c Case> + Clone,
        conditions: &RunConditions,
    ) -> Vec<Series> {
        let important = Self::important_variants(cases.clone());
        let points = cases.filter_map(|case| {
            let m = case.measured()?;
            let y = PlotQuantity::Rate.value(case, m.summary.median)?;
            let (x, signs, tip) = (intensity(case), conditions.signs(case), tip(case, m, conditions));
            Some((series(case), ChartPoint { x, y, ends: None, on_line: false, signs, tip }))
        });
        let mut all_series = vec![];
        for variant in grouped(points, |(name, _)| name.clone()) {
            let name = variant[0].0.clone();
            let style = self.style(&important, &name);
            let points = variant.into_iter().map(|(_, point)| point).collect();
            all_series.push(Series { name, style, dashed: false, named: true, points });
        }
        all_series
    }
}

fn intensity(case: &Case) -> f64 {
    case.work.operations as f64 / case.work.bytes.0 as f64
}

/// Measured limit of a roofline.
struct RooflineLimit {
    name: String,
    /// Working set of a bandwidth.
    working_set: Option<Bytes>,
    /// GFLOP/s, or GB/s.
    rate: f64,
    /// Unit of the rate, without its prefix.
    unit: &'static str,
    /// Whether the device was busy, so that it may be capable of more.
    disturbed: bool,
}

fn highest_rate(limits: &[RooflineLimit]) -> f64 {
    limits.iter().map(|limit| limit.rate).fold(0.0, f64::max)
}

/// Returns the slopes of bandwidth up to the highest roof, and the roofs of arithmetic from the steepest slope on.
fn ceilings(arithmetic: &[RooflineLimit], bandwidths: &[RooflineLimit], (x, y): (&LogAxis, &LogAxis)) -> Vec<Ceiling> {
    let top = highest_rate(arithmetic);
    let steepest = highest_rate(bandwidths);
    let mut ceilings = vec![];
    for RooflineLimit { name, working_set, rate, .. } in bandwidths {
        let start = x.low.max(y.low / rate);
        let (from, to) = ((start, start * rate), (top / rate, top));
        let detail = working_set.map(|working_set| working_set.to_string());
        ceilings.push(Ceiling { name: name.clone(), detail, dashed: !ceilings.is_empty(), from, to });
    }
    for RooflineLimit { name, rate, .. } in arithmetic {
        let (from, to) = (((rate / steepest).max(x.low), *rate), (x.high, *rate));
        ceilings.push(Ceiling { name: name.clone(), detail: None, dashed: false, from, to });
    }
    ceilings
}

/// Returns the limits of each arithmetic in use: with three operations for each nominal one, a third of the rate.
fn compute_limits(peaks: &[&Peak], used: &[Computes]) -> Vec<RooflineLimit> {
    let figures = || peaks.iter().flat_map(|peak| &peak.figures);
    let limits = used.iter().flat_map(|computes| figures().filter_map(|figure| compute_limit(figure, *computes)));
    let best = |limits: Vec<RooflineLimit>| {
        let best = limits.into_iter().max_by(|a, b| a.rate.total_cmp(&b.rate))?;
        let name = format!("{}: {}", best.name, limit_text(best.rate, best.unit, best.disturbed));
        Some(RooflineLimit { name, ..best })
    };
    grouped(limits, |limit| limit.name.clone()).into_iter().filter_map(best).collect()
}

/// Returns the limit that a figure sets for an arithmetic, if it measures this arithmetic.
fn compute_limit(figure: &Figure, Computes { dtype: wanted, operations }: Computes) -> Option<RooflineLimit> {
    let mut name = match figure.quantity {
        Quantity::Arithmetic { dtype } if dtype == wanted && operations == 1 => dtype.to_string(),
        Quantity::Matrix { dtype, .. } if dtype == wanted => format!("{dtype} units"),
        Quantity::Arithmetic { .. }
        | Quantity::Matrix { .. }
        | Quantity::Bandwidth { .. }
        | Quantity::SharedMemory
        | Quantity::Atomics { .. }
        | Quantity::Latency { .. }
        | Quantity::Transfer { .. } => return None,
    };
    if operations > 1 {
        let _ = write!(name, " ÷ {operations}");
    }
    let rate = figure.best * 1e-9 / operations as f64;
    let unit = if wanted.is_integer() { "op/s" } else { "FLOP/s" };
    Some(RooflineLimit { name, working_set: None, rate, unit, disturbed: figure.disturbed })
}

/// Formats a limit given in 10⁹ per second, with a sign if it may be higher.
fn limit_text(giga: f64, unit: &str, disturbed: bool) -> String {
    let sign = if disturbed { AT_LEAST } else { "" };
    let (number, prefix) = if giga < 1e3 { (giga, 'G') } else { (giga * 1e-3, 'T') };
    format!("{sign}{} {prefix}{unit}", significant(number))
}

/// Ratio of the highest bandwidth to that of the largest working set from which it is a limit of its own.
const MIN_CACHE_RATIO: f64 = 1.2;

/// Returns the bandwidth limits: of the largest working set, and the highest if it is clearly higher.
fn bandwidth_limits(peaks: &[&Peak]) -> Vec<RooflineLimit> {
    let mut bandwidths = vec![];
    for pattern in [Pattern::Read, Pattern::Copy, Pattern::Write] {
        if bandwidths.is_empty() {
            let measured = peaks.iter().flat_map(|peak| peak.bandwidths(pattern));
            bandwidths.extend(measured.map(|(working_set, rate)| (working_set, rate * 1e-9)));
        }
    }
    let limit = |name: &str, (working_set, rate): (Bytes, f64)| {
        let mut figures = peaks.iter().flat_map(|peak| &peak.figures);
        let disturbed = figures.any(|figure| figure.disturbed && figure.best * 1e-9 == rate);
        let name = format!("{name} {}", limit_text(rate, "B/s", disturbed));
        RooflineLimit { name, working_set: Some(working_set), rate, unit: "B/s", disturbed }
    };
    let Some(largest) = bandwidths.iter().copied().max_by_key(|(working_set, _)| *working_set) else { return vec![] };
    let mut limits = vec![limit("memory", largest)];
    let fastest = bandwidths.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    limits
        .extend(fastest.filter(|(_, rate)| *rate > MIN_CACHE_RATIO * largest.1).map(|fastest| limit("cache", fastest)));
    limits
}

/// Returns the share of its limit that a case reaches, if it is a number.
pub(super) fn finite_share(case: &Case) -> Option<Share> {
    case.share.filter(|share| share.fraction.is_finite())
}

/// Maximum ratio of two limits that count as the same.
const MAX_EQUAL_LIMIT_RATIO: f64 = 1.02;

/// Whether cases have different limits.
fn limits_differ<'a>(cases: impl Iterator<Item = &'a Case>) -> bool {
    let shares: Vec<_> = cases.filter_map(finite_share).collect();
    shares.windows(2).any(|pair| {
        pair[0].limit != pair[1].limit || (pair[0].least.0 / pair[1].least.0).ln().abs() > MAX_EQUAL_LIMIT_RATIO.ln()
    })
}

/// Returns the name of a case's series: its variant, with the required sub-group size and the caveats.
pub(super) fn series(case: &Case) -> String {
    let width = case.subgroup_size.map(|width| format!(" @{width}")).unwrap_or_default();
    format!("{}{width} {}", case.variant, Class::of(case)).trim_end().to_string()
}

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

/// Returns the only one of several extents in which sizes differ, if there is one.
fn only_varying<'s>(sizes: impl Iterator<Item = &'s CaseSize>) -> Option<usize> {
    let extents: Vec<Vec<u64>> = sizes.filter_map(|size| Some(size.known()?.extents())).collect();
    let first =
        extents.first().filter(|first| first.len() > 1 && extents.iter().all(|own| own.len() == first.len()))?;
    let varying: Vec<_> = (0..first.len()).filter(|at| extents.iter().any(|own| own[*at] != first[*at])).collect();
    if let [only] = varying[..] { Some(only) } else { None }
}

/// Returns the position of a size on an axis: the extent that varies alone, or the mean of all.
fn position(size: &CaseSize, only: Option<usize>) -> Option<f64> {
    match only {
        Some(at) => size.known()?.extents().get(at).map(|extent| *extent as f64),
        None => extent(size),
    }
}

/// Names an extent of a case: `COLUMNS` of a user's kernel, N of a product.
fn axis_name(case: &Case, at: usize) -> String {
    let named = axis_names(case).and_then(|names| names.get(at).copied());
    shortened(named.unwrap_or(["M", "N", "K"].get(at).copied().unwrap_or("size")), MAX_NAME)
}

/// Whether each size is at least as large in every extent as the smaller ones, as in `1x256x256`, `1x512x512`.
fn do_grow<'s>(sizes: impl Iterator<Item = &'s CaseSize>) -> bool {
    let mut extents: Vec<Vec<u64>> = sizes.filter_map(|size| Some(size.known()?.extents())).collect();
    extents.sort_unstable();
    extents.windows(2).all(|pair| pair[0].len() == pair[1].len() && pair[0].iter().zip(&pair[1]).all(|(a, b)| a <= b))
}

fn equal_extents(size: &CaseSize) -> bool {
    size.known().is_some_and(|size| size.extents().windows(2).all(|pair| pair[0] == pair[1]))
}

pub(super) fn percent(fraction: f64) -> String {
    percent_like(fraction, fraction)
}

/// Formats a fraction with the decimals of `other`, the other end of its range.
fn percent_like(fraction: f64, other: f64) -> String {
    let decimals = if other < 0.01 { 2 } else { 1 };
    format!("{:.decimals$} %", 100.0 * fraction)
}

/// Formats a share, with a sign and whole percents if it is uncertain.
pub(super) fn share(share: Share) -> String {
    let is_certain = share.signed().0.is_empty();
    share.told(|fraction, other| {
        if is_certain || other < 0.1 { percent_like(fraction, other) } else { format!("{:.0} %", 100.0 * fraction) }
    })
}

fn tip(case: &Case, m: &Measured, conditions: &RunConditions) -> String {
    let error = m.summary.relative_error().filter(|error| error.is_finite());
    let error = error.map_or_else(String::new, |error| format!(" ± {}", uncertainty(error, percent)));
    let mut text = format!("{}\n{}{error}", shortened(&case.id, MAX_NAME), case.shown(m.summary.median));
    let operations = if case.dtype.is_integer() { "Gop/s" } else { "GFLOP/s" };
    for (rate, unit) in [(PlotQuantity::Rate, operations), (PlotQuantity::Bandwidth, "GB/s")] {
        if let Some(rate) = rate.value(case, m.summary.median) {
            let _ = write!(text, "\n{} {unit}", significant(rate));
        }
    }
    for mark in conditions.marks(case) {
        let _ = write!(text, "\n{} {}", mark.sign, mark.meaning);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_that_varies_alone_is_the_axis() {
        let only =
            |sizes: &[&str]| only_varying(sizes.iter().map(|text| CaseSize::from(*text)).collect::<Vec<_>>().iter());
        assert_eq!(only(&["64x100", "64x1024"]), Some(1));
        assert_eq!([only(&["64x100", "65x1024"]), only(&["64", "128"]), only(&["64x100"])], [None; 3]);
        assert_eq!([position(&"64x100".into(), Some(1)), position(&"64x64".into(), None)], [Some(100.0), Some(64.0)]);
    }

    #[test]
    fn a_size_lies_at_the_geometric_mean_of_its_extents() {
        let position = |text: &str| extent(&text.into());
        assert_eq!(position("1024"), Some(1024.0));
        assert_eq!(position("1000x10x10").map(f64::round), Some(46.0));
        assert_eq!([position(""), position("x"), position("NaN"), position("0")], [None; 4]);
        assert_eq!(["64", "8x8x8", "8x9x8", "x"].map(|text| equal_extents(&text.into())), [true, true, false, false]);
    }
}
