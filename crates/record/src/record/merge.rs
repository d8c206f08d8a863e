//! Merges records of one plan, from several machines or devices, into one.

use super::{Case, NamedRecord, Origin, Peak, Record};
use crate::basis::alike::distinct;
use crate::basis::printable::printable;
use crate::basis::units::{Nanos, in_words};
use crate::device::capability::DeviceInfo;
use crate::plan::Shard;
use std::collections::{BTreeSet, HashMap};

/// Device of the merged record, at the same index.
struct MergedDevice {
    /// Description in its original record, where the index may differ.
    info: DeviceInfo,
    /// Hosts with this device; several for shards.
    hosts: BTreeSet<Option<String>>,
    /// Processor of the first of them.
    processor: Option<String>,
}

/// Merges `records` into one of `command`; returns it with a note about missing shards.
///
/// # Errors
/// When two records do not belong together.
pub fn merge(records: Vec<NamedRecord>, command: Vec<String>) -> Result<(Record, Vec<String>), String> {
    let origins: Vec<_> = records.iter().map(|named| named.record.origin.clone()).collect();
    let mut records = records.into_iter();
    let Some(first) = records.next() else { return Err("nothing to merge; name two records".into()) };
    let mut merged = MergedRecord::new(first, command);
    for record in records {
        merged.check(&record)?;
        merged.add(record)?;
    }
    merged.record.origin = Origin::common(&origins);
    Ok(merged.finish())
}

/// Merged record in progress.
struct MergedRecord {
    /// File name and command of the first record.
    name: String,
    first_command: Vec<String>,
    record: Record,
    devices: Vec<MergedDevice>,
    /// File name of the record that has the case of this device and id.
    cases: HashMap<(usize, String), String>,
}

impl MergedRecord {
    fn new(first: NamedRecord, command: Vec<String>) -> Self {
        let NamedRecord { name, mut record, .. } = first;
        let processes = record.processes();
        let hosts = BTreeSet::from([record.origin.host.clone()]);
        let processor = record.origin.processor.clone();
        let device =
            |info: &DeviceInfo| MergedDevice { info: info.clone(), hosts: hosts.clone(), processor: processor.clone() };
        let devices = record.devices.iter().map(device).collect();
        let cases = record.cases.iter().map(|case| ((case.device, case.id.clone()), name.clone())).collect();
        record.processes = processes;
        record.plan = None;
        record.request = None;
        let first_command = std::mem::replace(&mut record.command, command);
        Self { name, first_command, record, devices, cases }
    }

    /// Returns an error if a record does not belong to the first, `a` in messages.
    fn check(&self, named: &NamedRecord) -> Result<(), String> {
        let own = &self.record;
        let other = &named.record;
        let [a, b] = [&self.name, &named.name].map(|name| format!("'{}'", printable(name)));
        if own.version != other.version {
            let [a_version, b_version] = [own, other].map(|record| printable(&record.version));
            return Err(format!(
                "{b} was measured by gpukern {b_version}, and {a} by {a_version}; measure both with one version"
            ));
        }
        if own.method != other.method {
            return Err(format!(
                "{b} was measured by a different method from {a}; they differ in {}",
                own.method.differences(&other.method)
            ));
        }
        if own.options.is_none() || other.options.is_none() {
            let name = if own.options.is_none() { a } else { b };
            return Err(format!("{name} does not record its options; measure it again with this gpukern"));
        }
        if own.options != other.options {
            return Err(format!(
                "{b} was measured with different options from {a}: `{}` and `{}`; give each the same cases and the same \
                 sampling",
                printable(&other.command.join(" ")),
                printable(&self.first_command.join(" "))
            ));
        }
        if (&own.origin.commit, own.origin.modified) != (&other.origin.commit, other.origin.modified) {
            let [a_commit, b_commit] = [own, other].map(|record| {
                let commit = record.origin.commit_text().unwrap_or_else(|| "no known commit".into());
                printable(&commit).into_owned()
            });
            return Err(format!(
                "{b} is from {b_commit}, and {a} from {a_commit}; measure one commit (set GPUKERN_COMMIT if there is no git)"
            ));
        }
        if let (Some(Shard { count: a_count, .. }), Some(Shard { count: b_count, .. })) =
            (own.shards.first(), other.shards.first())
            && a_count != b_count
        {
            return Err(format!("{b} is one of {b_count} shards, and {a} one of {a_count}"));
        }
        Ok(())
    }

    /// Adds the cases of another record.
    fn add(&mut self, named: NamedRecord) -> Result<(), String> {
        let NamedRecord { name, record, .. } = named;
        let devices = self.device_indices(&record);
        let first_process = self.record.processes.len();
        self.record.processes.extend(record.processes());
        let mut keys = vec![];
        for mut case in record.cases {
            let Some(device) = devices.get(&case.device) else { continue };
            case.device = *device;
            case.process += first_process;
            let key = (case.device, case.id.clone());
            if let Some(other) = self.cases.get(&key) {
                return Err(format!(
                    "'{}' has case '{}' of '{}', and so does '{}'; merge records that share no case. To \
                     add processes to a record, measure again with --resume and more --processes",
                    printable(&name),
                    printable(&case.id),
                    printable(self.record.device(*device).map_or("", |device| &device.name)),
                    printable(other)
                ));
            }
            keys.push(key);
            self.record.cases.push(case);
        }
        self.cases.extend(keys.into_iter().map(|key| (key, name.clone())));
        for peak in record.peaks {
            let is_same_driver = |known: &Peak| known.uuid == peak.uuid && known.driver == peak.driver;
            if !self.record.peaks.iter().any(is_same_driver) {
                self.record.peaks.push(peak);
            }
        }
        for caveat in record.caveats {
            let caveat = caveat.map_device(|device| devices.get(&device).copied().unwrap_or(device));
            if !self.record.caveats.contains(&caveat) {
                self.record.caveats.push(caveat);
            }
        }
        let merged = &mut self.record;
        merged.shards.extend(record.shards);
        merged.started = merged.started.clone().min(record.started);
        merged.wall_time = Nanos(merged.wall_time.0 + record.wall_time.0);
        merged.device_time = Nanos(merged.device_time.0 + record.device_time.0);
        merged.overhead = Nanos(merged.overhead.0 + record.overhead.0);
        Ok(())
    }

    /// Returns the indices in the merged record for the devices of `record`, by their own; adds new devices.
    ///
    /// Devices of the same host are the same. Shards run on identical machines, so their devices on different hosts
    /// count as the same if only the identity differs; in other records they are different devices.
    fn device_indices(&mut self, record: &Record) -> HashMap<usize, usize> {
        let Origin { host, processor, .. } = &record.origin;
        let are_shards = !record.shards.is_empty() && !self.record.shards.is_empty();
        // Positions in `self.devices` of the devices so far; two of one record stay two.
        let mut taken: Vec<usize> = vec![];
        let mut indices = HashMap::new();
        for info in &record.devices {
            let is_same_device = |merged: &MergedDevice| {
                let is_on_host = host.is_some() && merged.hosts.contains(host);
                // A software device is as fast as its processor.
                let has_processor = !info.kind.runs_on_host_cores() || merged.processor == *processor;
                is_on_host && merged.info == *info
                    || are_shards && has_processor && identical_model(&merged.info) == identical_model(info)
            };
            let mut positions = 0..self.devices.len();
            let position =
                positions.find(|position| !taken.contains(position) && is_same_device(&self.devices[*position]));
            let position = position.unwrap_or_else(|| self.add_device(info, processor.clone()));
            self.devices[position].hosts.insert(host.clone());
            taken.push(position);
            indices.insert(info.index, self.record.devices[position].index);
        }
        indices
    }

    /// Adds a device, with its own index if that is free; returns its position.
    fn add_device(&mut self, info: &DeviceInfo, processor: Option<String>) -> usize {
        let is_free = |index: &usize| self.record.device(*index).is_none();
        let mut candidates = std::iter::once(info.index).chain(0..=self.devices.len());
        let index = candidates.find(is_free).unwrap_or_default();
        self.record.devices.push(DeviceInfo { index, ..info.clone() });
        self.devices.push(MergedDevice { info: info.clone(), hosts: BTreeSet::new(), processor });
        self.devices.len() - 1
    }

    /// Returns the record, and a note about missing shards.
    fn finish(mut self) -> (Record, Vec<String>) {
        self.record.shards.sort();
        self.record.shards.dedup();
        if !self.record.shards.is_empty() {
            // Each shard has some of the sizes.
            let algorithms = distinct(self.record.cases.iter().map(|case| case.algorithm.clone()));
            let place = |case: &Case| algorithms.iter().position(|algorithm| *algorithm == case.algorithm);
            self.record.cases.sort_by_key(|case| (place(case), case.size.known()));
        }
        let shards = &self.record.shards;
        let count = shards.first().map_or(0, |shard| shard.count);
        let is_missing = |index: &u32| !shards.iter().any(|shard| shard.index == *index);
        let missing: Vec<_> = (1..=count).filter(is_missing).map(|index| index.to_string()).collect();
        let mut notes = vec![];
        if !missing.is_empty() {
            let (shards, are) = if missing.len() == 1 { ("shard", "is") } else { ("shards", "are") };
            notes.push(format!("{shards} {} of {count} {are} missing", in_words(&missing, "and")));
        }
        (self.record, notes)
    }
}

/// Returns `device` without the properties that differ between identical machines.
fn identical_model(info: &DeviceInfo) -> DeviceInfo {
    DeviceInfo { index: 0, uuid: String::new(), pci_address: None, ..info.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::CATALOGUE;
    use crate::record::fixture::four_cases;
    use crate::record::reader;

    /// Returns a record with only the case at index `at`, measured on `host`.
    fn part(at: usize, host: &str, shard: Option<Shard>) -> NamedRecord {
        let mut record = four_cases();
        record.cases = vec![record.cases[at].clone()];
        record.options = Some("same".into());
        record.shards = shard.into_iter().collect();
        record.command = vec!["gpukern".into(), format!("bench-{at}")];
        record.started = format!("2026-01-0{}T00:00:00Z", 9 - at);
        record.origin = Origin { commit: Some("0123456".into()), host: Some(host.into()), ..Origin::default() };
        NamedRecord::new(format!("{at}.json"), record)
    }

    fn shard(index: u32, count: u32) -> Shard {
        Shard { index, count }
    }

    fn merged(parts: Vec<NamedRecord>) -> Result<(Record, Vec<String>), String> {
        let merged = merge(parts, vec!["gpukern".into(), "merge".into()])?;
        let text = serde_json::to_vec(&merged.0).expect("JSON");
        assert_eq!(reader::parse(&text, "merged", &CATALOGUE).expect("a record").record.cases, merged.0.cases);
        Ok(merged)
    }

    #[test]
    fn shards_of_alike_machines_are_one_device_and_remember_their_hosts() {
        let mut second = part(1, "b", Some(shard(2, 2)));
        second.record.devices[0].uuid = "another board".into();
        let (record, notes) = merged(vec![part(0, "a", Some(shard(1, 2))), second]).expect("they belong together");
        assert_eq!((record.devices.len(), record.cases.len(), notes.len()), (1, 2, 0));
        assert_eq!((record.started.as_str(), record.wall_time), ("2026-01-08T00:00:00Z", Nanos(2e9)));
        let hosts: Vec<_> =
            record.cases.iter().map(|case| record.processes[case.process].origin.host.clone()).collect();
        assert_eq!(hosts, [Some("a".into()), Some("b".into())]);
        assert_eq!((record.origin.host, record.origin.commit.as_deref()), (None, Some("0123456")));
    }

    #[test]
    fn records_of_two_machines_keep_their_devices_and_those_of_one_share_it() {
        let two = merged(vec![part(0, "a", None), part(0, "b", None)]).expect("two devices").0;
        assert_eq!(two.devices.iter().map(|device| device.index).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(two.cases[1].device, 1);
        let joined = merged(vec![part(0, "a", None), part(1, "a", None)]).expect("one device").0;
        assert_eq!((joined.devices.len(), joined.cases.len()), (1, 2));
    }

    #[test]
    fn incompatible_parts_are_refused_with_the_reason() {
        type Change = fn(&mut Record);
        let cases: [(Change, &str); 8] = [
            (|record| record.version = "9".into(), "'1.json' was measured by gpukern 9, and '0.json' by 0.0.0"),
            (|record| record.method.validation = true, "they differ in validation layers"),
            (|record| record.options = Some("other".into()), "different options from '0.json': `gpukern bench-1`"),
            (|record| record.options = None, "'1.json' does not record its options"),
            (
                |record| record.origin.commit = Some("fedcba9".into()),
                "'1.json' is from fedcba9, and '0.json' from 0123456",
            ),
            (|record| record.origin.modified = true, "0123456 (modified)"),
            (|record| record.shards = vec![Shard { index: 1, count: 3 }], "one of 3 shards, and '0.json' one of 2"),
            (|record| record.cases[0].id = "matmul/naive/f32/64x64x64".into(), "of 'software', and so does '0.json'"),
        ];
        for (change, expected) in cases {
            let mut second = part(1, "a", Some(shard(2, 2)));
            change(&mut second.record);
            let error = merged(vec![part(0, "a", Some(shard(1, 2))), second]).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn missing_shards_are_named_and_a_part_of_a_merge_can_be_merged() {
        let (first, notes) =
            merged(vec![part(0, "a", Some(shard(1, 4))), part(1, "b", Some(shard(3, 4)))]).expect("two");
        assert_eq!(notes, ["shards 2 and 4 of 4 are missing"]);
        let first = NamedRecord::new("first.json", first);
        let (whole, notes) = merged(vec![first, part(2, "c", Some(shard(2, 4)))]).expect("three");
        assert_eq!((whole.cases.len(), whole.devices.len(), whole.processes.len()), (3, 1, 3));
        assert_eq!(notes, ["shard 4 of 4 is missing"]);
    }
}
