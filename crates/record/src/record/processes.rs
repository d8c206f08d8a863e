//! Records of several processes with the cases of all processes combined, as tables, exports and reports show them.

use super::{Case, CatalogueEntry, Conditions, Measured, Origin, Outcome, Record, Sample, Share, Warning};
use crate::basis::alike::grouped;
use crate::basis::units::Nanos;
use crate::device::capability::DeviceInfo;
use crate::stats::{self, Summary, noise};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::mem::discriminant;

impl Record {
    /// Groups the cases by device and id, one case per process, in the order of first appearance.
    pub fn group_by_id(&self) -> Vec<Vec<&Case>> {
        grouped(&self.cases, |&case| (case.device, &case.id))
    }

    /// Joins the records of one side: the processes of all, on the devices of the first and on further ones.
    pub fn pooled(records: Vec<Self>) -> Option<Self> {
        records.into_iter().reduce(|mut whole, record| {
            whole.add(record);
            whole
        })
    }

    /// Adds the processes of `other` and their cases.
    fn add(&mut self, other: Self) {
        let mut processes = self.processes();
        let first_new = processes.len();
        processes.extend(other.processes());
        // An order marks each of several processes whose cases are combined.
        for (process, seed) in processes.iter_mut().zip(0..) {
            process.order.get_or_insert(seed);
        }
        self.processes = processes;
        // Index in this record for each device of the other; two of one record stay two.
        let mut indices: HashMap<usize, usize> = HashMap::new();
        for device in other.devices {
            let same_device = self.devices.iter().find(|known| {
                let is_taken = indices.values().any(|index| *index == known.index);
                known.name == device.name && known.uuid == device.uuid && !is_taken
            });
            if let Some(same_device) = same_device {
                indices.insert(device.index, same_device.index);
                continue;
            }
            let index = self.devices.iter().map(|known| known.index + 1).max().unwrap_or(0);
            indices.insert(device.index, index);
            self.devices.push(DeviceInfo { index, ..device });
        }
        let times = [&mut self.wall_time, &mut self.device_time, &mut self.overhead];
        for (time, more) in times.into_iter().zip([other.wall_time, other.device_time, other.overhead]) {
            *time = *time + more;
        }
        self.origin = Origin::common([&self.origin, &other.origin]);
        for mut case in other.cases {
            case.device = indices.get(&case.device).copied().unwrap_or(case.device);
            case.process += first_new;
            self.cases.push(case);
        }
    }

    /// Returns the record with the cases of several processes combined: a wrong answer or a failure in any of them, or
    /// else the median of their medians, with the interval between processes. Sorts cases as the request has them, because
    /// each process took them in a random order. Older records do not tell: their cases are sorted as in the registry, but
    /// for variants that the request names.
    pub fn across_processes(&self) -> Cow<'_, Self> {
        if self.processes.iter().all(|process| process.order.is_none()) {
            return Cow::Borrowed(self);
        }
        let mut cases: Vec<Case> = self.group_by_id().iter().map(|cases| combine(cases)).collect();
        let named = self.request.as_ref().map_or(&[][..], |request| &request.selection.variant);
        let place = |case: &Case| named.iter().position(|name| *name == case.variant).unwrap_or(named.len());
        cases.sort_by_cached_key(|case| rank_by(case, place(case)));
        Cow::Owned(Self { cases, ..self.clone() })
    }
}

/// Returns the key by which tables sort cases: as in the request, or else as in the catalogue, then by size.
pub fn rank(case: &Case) -> impl Ord + use<> {
    rank_by(case, 0)
}

/// Returns such a key that sorts the variants of a size by `place` first.
fn rank_by(case: &Case, place: usize) -> impl Ord + use<> {
    let CatalogueEntry { algorithm, variant, .. } = case.entry;
    let extents = case.size.known().map(|size| size.shortest().extents()).unwrap_or_default();
    let largest = extents.iter().copied().max();
    let widths = (place, case.subgroup_size, variant.unwrap_or(usize::MAX));
    let of_catalogue = (algorithm.unwrap_or(usize::MAX), case.dtype, case.kind(), largest, extents, widths);
    (case.device, case.place.unwrap_or(usize::MAX), of_catalogue, case.id.clone())
}

/// Combines the cases of several processes.
fn combine(cases: &[&Case]) -> Case {
    let severity = |case: &&&Case| match case.outcome {
        Outcome::Rejected(_) => 0,
        Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => 1,
        Outcome::Measured(_) | Outcome::Inspected => 2,
        Outcome::Skipped { .. } => 3,
        Outcome::Interrupted => 4,
    };
    let worst = cases.iter().min_by_key(severity).expect("a group has a case");
    let measured: Vec<&Measured> = cases.iter().filter_map(|case| case.measured()).collect();
    if worst.measured().is_none() || measured.len() < 2 {
        return (*worst).clone();
    }
    let speedups: Vec<f64> = cases.iter().filter_map(|case| case.speedup).collect();
    let notes: BTreeSet<_> = cases.iter().flat_map(|case| case.notes.clone()).collect();
    let mut whole = combine_measured(&measured);
    let median = whole.summary.median;
    let mut case = (*worst).clone();
    case.process = 0;
    case.speedup = stats::median(&speedups);
    case.notes = notes.into_iter().collect();
    let own = worst.measured().map(|measured| (measured.summary.median, measured.summary.interval));
    let (own_median, own_interval) = own.unwrap_or((median, None));
    let of_all = |share: Share| {
        share.without_time(own_median, own_interval).of_time(median).with_time(median, whole.summary.interval)
    };
    case.share = case.share.map(of_all);
    case.structure = case.structure.map(of_all);
    if let Some(share) = case.share.filter(|share| share.fraction > 1.0) {
        whole.warnings.push(Warning::AboveLimit { fraction: share.fraction });
    }
    case.outcome = Outcome::Measured(Box::new(whole));
    case
}

/// Combines the measurements of several processes: all samples, and a summary between processes.
fn combine_measured(measured: &[&Measured]) -> Measured {
    let mut whole = measured[0].clone();
    let residual = |measured: &Measured| measured.verification.verified().and_then(|checked| checked.residual);
    for process in &measured[1..] {
        if residual(process) >= residual(&whole) {
            whole.verification = process.verification.clone();
        }
    }
    whole.samples = measured.iter().flat_map(|process| process.samples.iter().copied()).collect();
    whole.summary = summary_between(measured, &whole.samples);
    whole.process_medians = measured.iter().map(|process| process.summary.median).collect();
    // One process may have been alone on the machine, so the whole has the conditions of a typical one.
    whole.process_conditions = measured.iter().map(|process| process.conditions).collect();
    let load = |conditions: &Conditions| (conditions.others.unwrap_or(0.0), conditions.canary().unwrap_or_default().0);
    let mut by_load = whole.process_conditions.clone();
    by_load.sort_by(|a, b| load(a).partial_cmp(&load(b)).unwrap_or(Ordering::Equal));
    whole.conditions = by_load[by_load.len() / 2];
    whole.warnings.clear();
    for warning in measured.iter().flat_map(|process| process.warnings.iter().copied()) {
        let is_repeated = whole.warnings.iter().any(|known| discriminant(known) == discriminant(&warning));
        // The share of the combined case decides whether it is above its limit.
        if !is_repeated && !matches!(warning, Warning::AboveLimit { .. }) {
            whole.warnings.push(warning);
        }
    }
    whole
}

/// Returns the summary between processes: median and quartiles are the medians of the processes', so that they lie in
/// order even if one process has most samples; extremes are those of all samples.
fn summary_between(measured: &[&Measured], samples: &[Sample]) -> Summary {
    let times: Vec<Nanos> = samples.iter().map(|sample| sample.time).collect();
    let of_processes = |figure: fn(&Summary) -> Nanos| -> Vec<f64> {
        measured.iter().map(|process| figure(&process.summary).0).collect()
    };
    let medians = of_processes(|summary| summary.median);
    let of_samples = Summary::of(&times).unwrap_or(measured[0].summary);
    let median = stats::median(&medians).unwrap_or(of_samples.median.0);
    let interval = noise::interval(&medians).map(|interval| interval.map(Nanos));
    let quartile = |figure, pooled| stats::median(&of_processes(figure)).map_or(pooled, Nanos);
    Summary {
        lower_quartile: quartile(|summary| summary.lower_quartile, of_samples.lower_quartile),
        median: Nanos(median),
        upper_quartile: quartile(|summary| summary.upper_quartile, of_samples.upper_quartile),
        interval,
        outliers: samples.iter().filter(|sample| sample.outlier).count(),
        ..of_samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::options::Selection;
    use crate::plan::request::Request;
    use crate::record::fixture::{case, measured_mut, six_cases};
    use crate::record::marks::RunConditions;
    use crate::record::{Origin, Process};

    /// Returns a record whose first case was measured by processes with these medians, the second case by one.
    fn several(medians: &[f64]) -> Record {
        let mut whole = six_cases();
        let process =
            |order| Process { started: String::new(), command: vec![], order: Some(order), origin: Origin::default() };
        whole.processes = (0..medians.len() as u64).map(process).collect();
        let first = whole.cases.remove(0);
        for (process, median) in medians.iter().enumerate() {
            let mut case = Case { process, ..first.clone() };
            let measured = measured_mut(&mut case);
            let factor = median / measured.summary.median.0;
            for sample in &mut measured.samples {
                sample.time = Nanos(sample.time.0 * factor);
            }
            measured.summary.median = Nanos(*median);
            whole.cases.push(case);
        }
        whole
    }

    /// Returns the combined measurement of the first case of [`six_cases`].
    fn combined(record: &Record) -> Measured {
        let combined = record.across_processes();
        let mut matching = combined.cases.iter().filter(|case| case.id == six_cases().cases[0].id);
        let case = matching.next().expect("the case");
        assert!(matching.next().is_none(), "a second case {}", case.id);
        case.measured().expect("measured").clone()
    }

    #[test]
    fn the_load_during_any_process_is_told_whichever_came_first() {
        for loads in [[0.1, 0.2, 0.8], [0.8, 0.1, 0.2]] {
            let mut record = several(&[100.0, 100.0, 200.0]);
            record.cases.retain(|case| case.id == six_cases().cases[0].id);
            for (case, load) in record.cases.iter_mut().zip(loads) {
                measured_mut(case).conditions.others = Some(load);
            }
            let pooled = record.across_processes();
            let sentence = RunConditions::of(&pooled).sentence(0).expect("a sentence");
            assert!(sentence.contains("other programs used 10 to 80 % of the CPU"), "{sentence}");
            assert_eq!(combined(&record).conditions.others, Some(0.2), "that of a typical process");
        }
    }

    #[test]
    fn a_record_of_one_process_stays_unchanged() {
        let whole = six_cases();
        assert!(matches!(whole.across_processes(), Cow::Borrowed(same) if *same == whole));
    }

    #[test]
    fn several_processes_give_the_median_of_medians_and_the_interval_between_them() {
        let measured = combined(&several(&[100.0, 104.0, 98.0]));
        assert_eq!(measured.summary.median, Nanos(100.0));
        // Quartiles are medians, too: here of equal ones, although the samples of the processes differ.
        let own = six_cases().cases[0].measured().expect("measured").summary;
        assert_eq!(measured.summary.upper_quartile, own.upper_quartile);
        let [low, high] = measured.summary.interval.expect("three tell").map(|end| end.0);
        assert!(low < 98.0 && high > 104.0, "{low} {high}");
        let count = six_cases().cases[0].measured().expect("measured").samples.len();
        assert_eq!((measured.samples.len(), measured.summary.count), (3 * count, 3 * count));
        // Two medians give no interval.
        assert_eq!(combined(&several(&[100.0, 104.0])).summary.interval, None);
    }

    #[test]
    fn variants_that_the_request_names_are_in_its_order() {
        let mut record = several(&[1.0, 2.0, 3.0]);
        record.cases = ["local", "naive", "split"].map(|name| case(name, Outcome::Interrupted)).into();
        let names = |record: &Record| -> Vec<_> {
            record.across_processes().cases.iter().map(|case| case.variant.clone()).collect()
        };
        assert_eq!(names(&record), ["naive", "local", "split"]);
        let selection = Selection { variant: ["split", "local"].map(String::from).into(), ..Selection::default() };
        record.request = Some(Request { selection, ..Request::default() });
        assert_eq!(names(&record), ["split", "local", "naive"]);
        // Where the record tells the order of its request, nothing else counts.
        for (case, place) in record.cases.iter_mut().zip([1, 2, 0]) {
            case.place = Some(place);
        }
        assert_eq!(names(&record), ["split", "local", "naive"]);
        record.cases.swap(0, 1);
        record.cases[0].place = Some(0);
        record.cases[2].place = Some(9);
        assert_eq!(names(&record), ["naive", "local", "split"]);
    }

    #[test]
    fn records_of_a_side_are_joined_as_processes() {
        let third = |factor: f64| {
            let mut record = several(&[100.0 * factor]);
            record.processes.clear();
            record.cases.last_mut().expect("cases").process = 0;
            record
        };
        let mut second = third(1.04);
        second.devices[0].index = 4;
        second.cases.iter_mut().for_each(|case| case.device = 4);
        let pooled = Record::pooled(vec![third(1.0), second, third(0.98)]).expect("three");
        assert_eq!((pooled.processes.len(), pooled.devices.len()), (3, 1));
        let summary = combined(&pooled).summary;
        assert!(summary.median == Nanos(100.0) && summary.interval.is_some(), "{summary:?}");
        assert_eq!(pooled.across_processes().cases.len(), six_cases().cases.len());
        assert_eq!(Record::pooled(vec![third(1.0)]), Some(third(1.0)));
    }

    #[test]
    fn a_failure_in_one_process_is_the_outcome() {
        let mut whole = several(&[100.0, 104.0, 98.0]);
        let last = whole.cases.last_mut().expect("cases");
        last.outcome = Outcome::failed("lost".into());
        let id = last.id.clone();
        let failed = |whole: &Record| {
            whole.across_processes().cases.iter().any(|case| case.id == id && case.outcome.failure().is_some())
        };
        assert!(failed(&whole));
        // An interrupted process does not affect the others.
        whole.cases.last_mut().expect("cases").outcome = Outcome::Interrupted;
        assert!(!failed(&whole));
        assert_eq!(combined(&whole).summary.median, Nanos(102.0));
    }
}
