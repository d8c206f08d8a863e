//! What a report is made of: sources (a device in a run), groups of cases that belong in one chart, and the charts.

use super::axis::{self, Axis};
use super::chart::{Bar, Bars, Ceiling, Histogram, Joined, Plot, Point, Series};
use crate::algorithms::probes::Pattern;
use crate::basis::dtype::DType;
use crate::basis::units::{Bytes, Nanos, significant};
use crate::device::capability::DeviceInfo;
use crate::peak::{Figure, Quantity};
use crate::record::{Case, CaseSize, Limit, Measured, Record};
use std::fmt::Write;

/// A device in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) run: &'a NamedRecord,
    pub(super) device: &'a DeviceInfo,
    /// Whether its name alone tells it from the others.
    alone: bool,
}

/// A record with the name of its file.
#[derive(Clone, Debug)]
pub struct NamedRecord {
    /// Name of the file, without its folder.
    pub name: String,
    /// The record that the file holds.
    pub record: Record,
}

impl<'a> Source<'a> {
    /// Every device of every run.
    pub(super) fn all(runs: &'a [NamedRecord]) -> Vec<Self> {
        let devices = || runs.iter().flat_map(|run| run.record.devices.iter().map(move |device| (run, device)));
        let alone = |name: &str| devices().filter(|(_, device)| device.name == name).count() == 1;
        devices().map(|(run, device)| Self { run, device, alone: alone(&device.name) }).collect()
    }

    pub(super) fn name(&self) -> String {
        if self.alone { self.device.name.clone() } else { format!("{} ({})", self.device.name, self.run.name) }
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
    /// The cases of each source, in the order of the sources.
    pub(super) cases: Vec<Vec<&'a Case>>,
}

impl<'a> ChartGroup<'a> {
    pub(super) fn all(sources: &[Source<'a>]) -> Vec<Self> {
        let mut groups: Vec<Self> = vec![];
        for (at, source) in sources.iter().enumerate() {
            for case in source.cases() {
                let same =
                    |group: &Self| group.first.same_kind(case) && group.first.chain.is_some() == case.chain.is_some();
                let group = groups.iter().position(same).unwrap_or_else(|| {
                    groups.push(Self { first: case, cases: vec![vec![]; sources.len()] });
                    groups.len() - 1
                });
                groups[group].cases[at].push(case);
            }
        }
        groups
    }

    pub(super) fn title(&self) -> String {
        self.first.kind()
    }

    fn everything(&self) -> impl Iterator<Item = &'a Case> + Clone {
        self.cases.iter().flatten().copied()
    }

    /// The variants, with the sub-group size where one was required: the series of a chart. The same variant has the
    /// same style in every source.
    fn variants(&self) -> Vec<String> {
        let mut names = vec![];
        for case in self.everything() {
            let name = series(case);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The cases of all sources that share a size with `cases`, or with a source that does: on common axes a GPU's
    /// large sizes and a processor's small ones would leave either chart mostly empty.
    fn comparable(&self, cases: &[&'a Case]) -> Vec<&'a Case> {
        let mut found = cases.to_vec();
        let mut others: Vec<_> = self.cases.iter().filter(|other| other.as_slice() != cases).collect();
        let shared = |found: &[&Case], other: &[&Case]| other.iter().any(|o| found.iter().any(|f| f.size == o.size));
        while let Some(at) = others.iter().position(|other| shared(&found, other)) {
            found.extend(others.swap_remove(at));
        }
        found
    }

    /// Whether all its cases have one size: then bars say more than marks in one column.
    fn one_size(&self) -> bool {
        self.everything().all(|case| case.size == self.first.size)
    }

    /// Its charts by what they show, those of the sources side by side.
    pub(super) fn charts(&self, sources: &[Source<'_>]) -> Vec<Vec<Chart>> {
        let mut charts = vec![];
        let each = |make: &dyn Fn(&Source<'_>, &[&'a Case]) -> Option<Chart>| -> Vec<Chart> {
            sources.iter().zip(&self.cases).filter_map(|(source, cases)| make(source, cases)).collect()
        };
        if self.one_size() {
            charts.push(each(&|source, cases| self.bars(source, cases)));
        } else {
            for quantity in [Shown::Time, Shown::Rate, Shown::Bandwidth] {
                // Data rates are drawn where there is no arithmetic to speak of.
                let other = quantity == Shown::Bandwidth && self.first.work.operations > 0;
                if other || (quantity != Shown::Time && self.first.chain.is_some()) {
                    continue;
                }
                for panel in self.panels() {
                    charts.push(each(&|source, cases| self.plot(source, cases, quantity, panel)));
                }
            }
        }
        charts.push(each(&|source, cases| self.shares(source, cases)));
        charts
    }

    /// The operations of chains, each a chart of its own; one chart for all else.
    fn panels(&self) -> Vec<Option<&'static str>> {
        let mut panels = vec![];
        for case in self.everything() {
            let operation = operation(case);
            if !panels.contains(&operation) {
                panels.push(operation);
            }
        }
        panels
    }

    fn plot(&self, source: &Source<'_>, cases: &[&'a Case], shown: Shown, panel: Option<&str>) -> Option<Chart> {
        let inside = |case: &&Case| panel.is_none() || operation(case) == panel;
        // The same axes for sources that compare.
        let all = self.comparable(cases).into_iter().filter(inside);
        let measured = all.filter_map(|case| case.measured().map(|m| (case, m)));
        let x = Axis::at(measured.clone().filter_map(|(case, _)| extent(&case.size)), 7)?;
        let y = Axis::round(measured.filter_map(|(case, m)| shown.of(case, m.summary.median)))?;
        let mut series_list = vec![];
        for (style, name) in self.variants().into_iter().enumerate() {
            let of = cases.iter().filter(|case| series(case) == name).filter(|case| inside(case));
            let mut points: Vec<_> = of.filter_map(|case| shown.point(case)).collect();
            // An oblong problem is not on the line of the square ones; where all are oblong, they are a line.
            if points.iter().all(|point| !point.on_line) {
                for point in &mut points {
                    point.on_line = true;
                }
            }
            if !points.is_empty() {
                series_list.push(Series { name, style, points });
            }
        }
        if series_list.is_empty() {
            return None;
        }
        let subject = panel.unwrap_or(&self.first.algorithm);
        Some(Chart::new(
            &format!("{} {} {}", self.title(), panel.unwrap_or_default(), shown.file()),
            source,
            Plot {
                title: format!("{subject}, {}", shown.title()),
                source: source.name(),
                description: format!(
                    "{} over size for {} variants, logarithmic axes; the table below has the values",
                    shown.title(),
                    series_list.len()
                ),
                x_title: "size".into(),
                x,
                y,
                x_label: axis::size,
                y_label: shown.label(),
                joined: Joined::Line,
                series: series_list,
                ceilings: vec![],
            },
        ))
    }

    fn bars(&self, source: &Source<'_>, cases: &[&Case]) -> Option<Chart> {
        let variants = self.variants();
        let forms = self.first.chain.is_some();
        let mut legend: Vec<(usize, String)> = vec![];
        let mut bars = vec![];
        for case in cases {
            let Some(m) = case.measured() else { continue };
            let name = series(case);
            let style = if forms {
                // The colour of a chain is that of its form, so that the forms of an operation compare.
                let form = case.form().map_or(case.variant.as_str(), |form| form.name);
                let known = legend.iter().position(|(_, name)| name == form);
                known.unwrap_or_else(|| {
                    legend.push((legend.len(), form.to_string()));
                    legend.len() - 1
                })
            } else {
                variants.iter().position(|variant| *variant == name).unwrap_or_default()
            };
            let time = case.shown(m.summary.median);
            let (heading, text) = (String::new(), time.to_string());
            bars.push(Bar { heading, name, value: time.0, text, style, tip: tip(case, m) });
        }
        let one = if forms { "time an operation" } else { "time" };
        (!bars.is_empty()).then(|| {
            Chart::new(
                &format!("{} time", self.title()),
                source,
                Bars {
                    title: format!("{} {}, {one}", self.first.algorithm, self.first.size),
                    source: source.name(),
                    description: format!("{one} of {} variants; the table below has the values", bars.len()),
                    items: bars,
                    legend,
                    rule: None,
                },
            )
        })
    }

    fn shares(&self, source: &Source<'_>, cases: &[&Case]) -> Option<Chart> {
        let mut bars = vec![];
        let mut kinds = vec![];
        for case in cases {
            let (Some(m), Some(share)) = (case.measured(), case.share) else { continue };
            if !share.fraction.is_finite() {
                continue;
            }
            let style = share.limit as usize;
            if !kinds.contains(&(style, limit(share.limit).to_string())) {
                kinds.push((style, limit(share.limit).to_string()));
            }
            let text = percent(share.fraction);
            let tip = format!("{}\n{text} of the {} limit", tip(case, m), limit(share.limit));
            let heading = if self.one_size() { String::new() } else { case.size.to_string() };
            bars.push(Bar { heading, name: series(case), value: share.fraction, text, style, tip });
        }
        (!bars.is_empty()).then(|| {
            Chart::new(
                &format!("{} share", self.title()),
                source,
                Bars {
                    title: format!("{}, share of limit", self.first.algorithm),
                    source: source.name(),
                    description: "how near each case comes to the limit that binds it; the table below has the values"
                        .into(),
                    items: bars,
                    legend: kinds,
                    rule: Some((1.0, "the limit".into())),
                },
            )
        })
    }
}

/// A chart and where it comes from.
pub(super) struct Chart {
    /// Words for the name of a file.
    pub(super) name: String,
    pub(super) draw: Box<dyn super::chart::Draw>,
}

impl Chart {
    fn new(name: &str, source: &Source<'_>, draw: impl super::chart::Draw + 'static) -> Self {
        Self { name: format!("{name} {}", source.name()), draw: Box::new(draw) }
    }
}

/// The quantity over size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Time,
    Rate,
    Bandwidth,
}

impl Shown {
    fn title(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "GFLOP/s",
            Self::Bandwidth => "GB/s",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "rate",
            Self::Bandwidth => "bandwidth",
        }
    }

    fn label(self) -> fn(f64) -> String {
        match self {
            Self::Time => axis::time,
            Self::Rate | Self::Bandwidth => axis::number,
        }
    }

    fn of(self, case: &Case, time: Nanos) -> Option<f64> {
        let value = match self {
            Self::Time => case.shown(time).0,
            Self::Rate => case.work.rate(time).0 * 1e-9,
            Self::Bandwidth => case.work.bandwidth(time).0 * 1e-9,
        };
        (value > 0.0 && value.is_finite()).then_some(value)
    }

    fn point(self, case: &Case) -> Option<Point> {
        let m = case.measured()?;
        let ends = m.summary.interval.and_then(|[low, high]| Some([self.of(case, low)?, self.of(case, high)?]));
        let (x, y) = (extent(&case.size)?, self.of(case, m.summary.median)?);
        Some(Point { x, y, ends, on_line: equal_extents(&case.size), tip: tip(case, m) })
    }
}

/// The roofline of the source at `at`: every case by its operations a byte, under the measured limits. The cases of one
/// group look as they do in its other charts; of several, each group has a mark of its own. `None` without measured
/// limits, or without a case that has both operations and bytes.
pub(super) fn roofline(source: &Source<'_>, at: usize, groups: &[ChartGroup<'_>]) -> Option<Chart> {
    let peaks = source.run.record.peaks.iter().filter(|peak| peak.uuid == source.device.uuid);
    let figures: Vec<&Figure> = peaks.flat_map(|peak| &peak.figures).filter(|figure| figure.best > 0.0).collect();
    let both = |case: &&Case| has_intensity(case);
    let mut drawn = groups.iter().filter(|group| group.cases[at].iter().any(both));
    let variants = match (drawn.next(), drawn.next()) {
        (Some(only), None) => only.variants(),
        _ => vec![],
    };
    let all = by_intensity(source, &variants);
    let dtypes: Vec<_> = source.cases().filter(both).map(|case| case.dtype).collect();
    let compute = compute_ceilings(&figures, &dtypes);
    let bandwidth = bandwidth_ceilings(&figures);
    let top = compute.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let steepest = bandwidth.iter().map(|(.., rate)| *rate).fold(0.0, f64::max);
    if all.is_empty() || top == 0.0 || steepest == 0.0 {
        return None;
    }
    let slowest = bandwidth.iter().map(|(.., rate)| *rate).fold(f64::INFINITY, f64::min);
    let points = || all.iter().flat_map(|series| &series.points);
    // Wide enough for every case and for where the slopes meet the roofs.
    let ridge = top / slowest;
    let x = Axis::round(points().map(|point| point.x).chain([ridge * 4.0, top / steepest / 16.0]))?;
    let y = Axis::round(points().map(|point| point.y).chain([top * 1.5, (slowest * x.low).max(top * 1e-6)]))?;
    let ceilings = ceilings(&compute, &bandwidth, (&x, &y));
    let mut description = format!("{} cases under measured limits:", points().count());
    for ceiling in &ceilings {
        let _ = write!(description, " {};", ceiling.full_name());
    }
    Some(Chart::new(
        "roofline",
        source,
        Plot {
            title: "roofline, GFLOP/s".into(),
            source: source.name(),
            description,
            x_title: "operations a byte".into(),
            x,
            y,
            x_label: axis::number,
            y_label: axis::number,
            joined: Joined::No,
            series: all,
            ceilings,
        },
    ))
}

/// Whether a case has operations and bytes to divide them by.
fn has_intensity(case: &Case) -> bool {
    case.work.operations > 0 && case.work.bytes.0 > 0
}

/// The cases' rates by their operations a byte: a series for each of `variants`, or of each algorithm and type.
fn by_intensity(source: &Source<'_>, variants: &[String]) -> Vec<Series> {
    let mut all: Vec<Series> = vec![];
    for case in source.cases().filter(|case| has_intensity(case)) {
        let Some(m) = case.measured() else { continue };
        let Some(y) = Shown::Rate.of(case, m.summary.median) else { continue };
        let style = variants.iter().position(|variant| *variant == series(case));
        let name = style.map_or_else(|| format!("{} {}", case.algorithm, case.dtype), |_| series(case));
        let at = all.iter().position(|series| series.name == name).unwrap_or_else(|| {
            all.push(Series { name, style: style.unwrap_or(all.len()), points: vec![] });
            all.len() - 1
        });
        let x = case.work.operations as f64 / case.work.bytes.0 as f64;
        all[at].points.push(Point { x, y, ends: None, on_line: false, tip: tip(case, m) });
    }
    all
}

/// The slopes of bandwidth up to the highest roof, and the roofs of arithmetic from the steepest slope on.
fn ceilings(compute: &[(String, f64)], bandwidth: &[(String, Bytes, f64)], (x, y): (&Axis, &Axis)) -> Vec<Ceiling> {
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

/// Arithmetic limits in GFLOP/s, of the element types that are shown.
fn compute_ceilings(figures: &[&Figure], dtypes: &[DType]) -> Vec<(String, f64)> {
    let mut found: Vec<(String, f64)> = vec![];
    for figure in figures {
        let name = match figure.quantity {
            Quantity::Arithmetic { dtype } if dtypes.contains(&dtype) => format!("{dtype} arithmetic"),
            Quantity::Matrix { dtype, .. } if dtypes.contains(&dtype) => format!("{dtype} matrix units"),
            _ => continue,
        };
        let rate = figure.best * 1e-9;
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, best)) => *best = best.max(rate),
            None => found.push((name, rate)),
        }
    }
    found.into_iter().map(|(name, rate)| (format!("{name} {} GFLOP/s", significant(rate)), rate)).collect()
}

/// Bandwidth limits in GB/s: of the largest working set, and of the fastest where that is another and faster.
fn bandwidth_ceilings(figures: &[&Figure]) -> Vec<(String, Bytes, f64)> {
    let of = |wanted: Pattern| {
        let found = figures.iter().filter_map(move |figure| match figure.quantity {
            Quantity::Bandwidth { pattern, working_set } if pattern == wanted => {
                Some((working_set, figure.best * 1e-9))
            }
            _ => None,
        });
        found.collect::<Vec<_>>()
    };
    let found = [Pattern::Read, Pattern::Copy, Pattern::Write].into_iter().map(of).find(|found| !found.is_empty());
    let found = found.unwrap_or_default();
    let largest = found.iter().max_by_key(|(working_set, _)| *working_set).copied();
    let fastest = found.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied();
    let mut ceilings = vec![];
    if let Some((working_set, rate)) = largest {
        ceilings.push((format!("memory {} GB/s", significant(rate)), working_set, rate));
    }
    if let (Some((_, memory)), Some((working_set, rate))) = (largest, fastest)
        && rate > 1.2 * memory
    {
        ceilings.push((format!("cache {} GB/s", significant(rate)), working_set, rate));
    }
    ceilings
}

/// The distribution of the samples of a case.
pub(super) fn histogram(case: &Case, m: &Measured) -> Histogram {
    let shown = |time: Nanos| case.shown(time).0;
    Histogram {
        title: "samples".into(),
        source: case.id.clone(),
        samples: m.samples.iter().map(|sample| shown(sample.device)).collect(),
        median: shown(m.summary.median),
        interval: m.summary.interval.map(|ends| ends.map(shown)),
        label: |nanos| Nanos(nanos).to_string(),
    }
}

/// The name of a case's series: its variant, with the sub-group size where one was required.
pub(super) fn series(case: &Case) -> String {
    case.subgroup_size.map_or_else(|| case.variant.clone(), |width| format!("{} @{width}", case.variant))
}

/// The operation that a case is a chain of.
fn operation(case: &Case) -> Option<&'static str> {
    case.form().map(|form| form.operation)
}

/// Where a size lies on an axis: the geometric mean of its extents.
fn extent(size: &CaseSize) -> Option<f64> {
    let extents = size.known()?.extents();
    let mean = (extents.iter().map(|extent| (*extent as f64).ln()).sum::<f64>() / extents.len() as f64).exp();
    // The logarithm of a power of two and back is not quite the same.
    let mean = if (mean - mean.round()).abs() < 1e-9 * mean { mean.round() } else { mean };
    (mean > 0.0 && mean.is_finite()).then_some(mean)
}

/// Whether all extents of a size are one.
fn equal_extents(size: &CaseSize) -> bool {
    size.known().is_some_and(|size| size.extents().windows(2).all(|pair| pair[0] == pair[1]))
}

pub(super) fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Compute => "compute",
        Limit::Memory => "memory",
        Limit::Launch => "launch",
    }
}

pub(super) fn percent(fraction: f64) -> String {
    let decimals = if fraction < 0.01 { 2 } else { 1 };
    format!("{:.decimals$} %", 100.0 * fraction)
}

/// The text that hovering over a case shows.
fn tip(case: &Case, m: &Measured) -> String {
    let error = m.summary.relative_error().filter(|error| error.is_finite());
    let error = error.map_or_else(String::new, |error| format!(" ± {}", percent(error)));
    let mut text = format!("{}\n{}{error}", case.id, case.shown(m.summary.median));
    for (rate, unit) in [(Shown::Rate, "GFLOP/s"), (Shown::Bandwidth, "GB/s")] {
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
