//! Records of several processes with the cases of all processes combined, as tables, exports and reports show them.

use super::{Case, CatalogueEntry, Measured, Outcome, Record, Sample, Verification, Warning};
use crate::basis::units::Nanos;
use crate::device::capability::DeviceInfo;
use crate::stats::{self, Summary, noise};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::mem::discriminant;

impl Record {
    /// Groups the cases by device and id, one case per process, in the order of first appearance.
    pub fn sightings(&self) -> Vec<Vec<&Case>> {
        let mut places: HashMap<(usize, &str), usize> = HashMap::new();
        let mut sightings: Vec<Vec<&Case>> = vec![];
        for case in &self.cases {
            let place = *places.entry((case.device, &case.id)).or_insert(sightings.len());
            match sightings.get_mut(place) {
                Some(known) => known.push(case),
                None => sightings.push(vec![case]),
            }
        }
        sightings
    }

    /// Joins the records of one side of a comparison: the processes of all, on the devices of the first and further
    /// ones.
    pub fn pooled(records: Vec<Self>) -> Option<Self> {
        records.into_iter().reduce(|mut whole, record| {
            whole.add(record);
            whole
        })
    }

    /// Adds the processes of `other` and their cases.
    fn add(&mut self, other: Self) {
        let mut processes = self.processes();
        let before = processes.len();
        processes.extend(other.processes());
        // An order marks each of several processes whose cases are combined.
        for (process, seed) in processes.iter_mut().zip(0..) {
            process.order.get_or_insert(seed);
        }
        self.processes = processes;
        let mut places: HashMap<usize, usize> = HashMap::new();
        for device in other.devices {
            let is_same = |known: &&DeviceInfo| {
                (&known.name, &known.uuid) == (&device.name, &device.uuid)
                    && !places.values().any(|place| *place == known.index)
            };
            let known = self.devices.iter().find(is_same).map(|known| known.index);
            let next = self.devices.iter().map(|known| known.index + 1).max().unwrap_or(0);
            let place = known.unwrap_or(next);
            places.insert(device.index, place);
            if known.is_none() {
                self.devices.push(DeviceInfo { index: place, ..device });
            }
        }
        for mut case in other.cases {
            case.device = places.get(&case.device).copied().unwrap_or(case.device);
            case.process += before;
            self.cases.push(case);
        }
    }

    /// Returns the record with the cases of several processes combined: a wrong answer or a failure in any of them, or
    /// else the median of their medians, with the interval between processes. Sorts cases as in the registry, because
    /// each process took them in a random order.
    pub fn across_processes(&self) -> Cow<'_, Self> {
        if self.processes.iter().all(|process| process.order.is_none()) {
            return Cow::Borrowed(self);
        }
        let mut cases: Vec<Case> = self.sightings().iter().map(|sightings| across(sightings)).collect();
        cases.sort_by_cached_key(rank);
        Cow::Owned(Self { cases, ..self.clone() })
    }
}

/// Returns the place of a case in a table.
pub fn rank(case: &Case) -> impl Ord + use<> {
    let CatalogueEntry { algorithm, variant, .. } = case.entry;
    let extents = case.size.known().map(|size| size.shortest().extents()).unwrap_or_default();
    let largest = extents.iter().copied().max();
    let widths = (case.subgroup_size, variant.unwrap_or(usize::MAX));
    (case.device, algorithm.unwrap_or(usize::MAX), case.dtype, case.kind(), largest, extents, widths, case.id.clone())
}

/// Combines the cases of several processes.
fn across(sightings: &[&Case]) -> Case {
    let gravity = |case: &&&Case| match case.outcome {
        Outcome::Rejected(_) => 0,
        Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => 1,
        Outcome::Measured(_) | Outcome::Inspected => 2,
        Outcome::Skipped { .. } => 3,
        Outcome::Interrupted => 4,
    };
    let worst = sightings.iter().min_by_key(gravity).expect("a sighting is of a case");
    let measured: Vec<&Measured> = sightings.iter().filter_map(|case| case.measured()).collect();
    if worst.measured().is_none() || measured.len() < 2 {
        return (*worst).clone();
    }
    let speedups: Vec<f64> = sightings.iter().filter_map(|case| case.speedup).collect();
    let notes: BTreeSet<_> = sightings.iter().flat_map(|case| case.notes.clone()).collect();
    let mut case = (*worst).clone();
    (case.process, case.speedup, case.notes) = (0, stats::median(&speedups), notes.into_iter().collect());
    let mut whole = joined(&measured);
    let of_all = |share: super::Share| share.of_time(whole.summary.median);
    (case.share, case.structure) = (case.share.map(of_all), case.structure.map(of_all));
    if let Some(share) = case.share.filter(|share| share.fraction > 1.0) {
        whole.warnings.push(Warning::AboveLimit { fraction: share.fraction });
    }
    case.outcome = Outcome::Measured(Box::new(whole));
    case
}

/// Combines the measurements of several processes: all samples, and a summary between processes.
fn joined(measured: &[&Measured]) -> Measured {
    let mut whole = measured[0].clone();
    let residual = |of: &&Measured| of.verification.verified().and_then(|Verification { residual, .. }| *residual);
    let by_residual = |a: &&&Measured, b: &&&Measured| residual(a).partial_cmp(&residual(b)).unwrap_or(Ordering::Equal);
    if let Some(worst) = measured.iter().max_by(by_residual) {
        whole.verification = worst.verification.clone();
    }
    whole.samples = measured.iter().flat_map(|of| of.samples.iter().copied()).collect();
    whole.summary = summary(measured, &whole.samples);
    let mut warnings: Vec<Warning> = vec![];
    for warning in measured.iter().flat_map(|of| of.warnings.iter().copied()) {
        let known = warnings.iter().any(|known| discriminant(known) == discriminant(&warning));
        if !known && !matches!(warning, Warning::AboveLimit { .. }) {
            warnings.push(warning);
        }
    }
    whole.warnings = warnings;
    whole
}

/// Returns the summary between processes; extremes and quartiles are those of all samples.
fn summary(measured: &[&Measured], samples: &[Sample]) -> Summary {
    let times: Vec<Nanos> = samples.iter().map(|sample| sample.time).collect();
    let medians: Vec<f64> = measured.iter().map(|of| of.summary.median.0).collect();
    let all = Summary::of(&times).unwrap_or(measured[0].summary);
    let median = stats::median(&medians).unwrap_or(all.median.0);
    let interval = noise::interval(&medians).map(|interval| interval.map(Nanos));
    Summary { median: Nanos(median), interval, outliers: samples.iter().filter(|sample| sample.outlier).count(), ..all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::six_cases;
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
            let Outcome::Measured(measured) = &mut case.outcome else { panic!("it is measured") };
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
        let mut found = combined.cases.iter().filter(|case| case.id == six_cases().cases[0].id);
        let case = found.next().expect("the case");
        assert!(found.next().is_none(), "a second case {}", case.id);
        case.measured().expect("measured").clone()
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
        let [low, high] = measured.summary.interval.expect("three tell").map(|end| end.0);
        assert!(low < 98.0 && high > 104.0, "{low} {high}");
        let count = six_cases().cases[0].measured().expect("measured").samples.len();
        assert_eq!((measured.samples.len(), measured.summary.count), (3 * count, 3 * count));
        // Two medians give no interval.
        assert_eq!(combined(&several(&[100.0, 104.0])).summary.interval, None);
    }

    #[test]
    fn records_of_a_side_are_joined_as_processes() {
        let third = |factor: f64| {
            let mut one = several(&[100.0 * factor]);
            one.processes.clear();
            one.cases.last_mut().expect("cases").process = 0;
            one
        };
        let mut other = third(1.04);
        other.devices[0].index = 4;
        other.cases.iter_mut().for_each(|case| case.device = 4);
        let pooled = Record::pooled(vec![third(1.0), other, third(0.98)]).expect("three");
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
