//! Merges records of shards and devices into one.

use super::{NamedRecord, Origin, Process, Record};
use crate::basis::printable::printable;
use crate::basis::units::Nanos;
use crate::device::capability::DeviceInfo;
use crate::plan::Shard;
use std::collections::{BTreeSet, HashMap};

/// Device of the merged record, at the same index.
struct MergedDevice {
    /// Description in its original record, where the index may differ.
    info: DeviceInfo,
    /// Hosts with this device; several for shards.
    hosts: BTreeSet<Option<String>>,
}

/// Merges `parts` into the record of `command`; returns it with notes about missing parts.
///
/// # Errors
/// When two parts do not belong together.
pub fn merge(parts: Vec<NamedRecord>, command: Vec<String>) -> Result<(Record, Vec<String>), String> {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Err("nothing to merge; name two records".into()) };
    let origin = first.record.origin.clone();
    let mut merged = MergedRecord::new(first, command);
    let mut origins = vec![origin];
    for part in parts {
        merged.check(&part)?;
        origins.push(part.record.origin.clone());
        merged.add(part)?;
    }
    merged.record.origin = Origin::common(&origins);
    Ok(merged.finish())
}

/// Merged record in progress.
struct MergedRecord {
    /// File name of the first part.
    name: String,
    record: Record,
    devices: Vec<MergedDevice>,
    /// File name of the part that has each case of a device.
    cases: HashMap<(usize, String), String>,
}

impl MergedRecord {
    fn new(first: NamedRecord, command: Vec<String>) -> Self {
        let NamedRecord { name, mut record, .. } = first;
        let processes = record.processes();
        let host = record.origin.host.clone();
        let device = |info: &DeviceInfo| MergedDevice { info: info.clone(), hosts: [host.clone()].into() };
        let devices = record.devices.iter().map(device).collect();
        let cases = record.cases.iter().map(|case| ((case.device, case.id.clone()), name.clone())).collect();
        (record.processes, record.plan, record.request, record.command) = (processes, None, None, command);
        Self { name, record, devices, cases }
    }

    /// Returns an error if a part does not belong to the first.
    fn check(&self, part: &NamedRecord) -> Result<(), String> {
        let own = &self.record;
        let other = &part.record;
        let [a, b] = [&self.name, &part.name].map(|name| format!("'{}'", printable(name)));
        if own.version != other.version {
            let [one, two] = [own, other].map(|record| printable(&record.version).into_owned());
            return Err(format!("{b} was measured by gpukern {two}, and {a} by {one}; measure both with one version"));
        }
        if own.method != other.method {
            return Err(format!(
                "{b} was measured with another method than {a}: validation layers, clock, cache or robust access differ"
            ));
        }
        if own.options.is_none() || other.options.is_none() {
            let name = if own.options.is_none() { a } else { b };
            return Err(format!("{name} does not record its options; measure it again with this gpukern"));
        }
        if own.options != other.options {
            return Err(format!(
                "{b} was measured with other options than {a}: `{}`; give each the same cases and the same sampling",
                printable(&other.command.join(" "))
            ));
        }
        let commit = |origin: &Origin| origin.commit_text().unwrap_or_else(|| "no known commit".into());
        let state = |origin: &Origin| (origin.commit.clone(), origin.modified);
        if state(&own.origin) != state(&other.origin) {
            let [one, two] = [own, other].map(|record| printable(&commit(&record.origin)).into_owned());
            return Err(format!(
                "{b} is from {two}, and {a} from {one}; measure one commit (set GPUKERN_COMMIT if there is no git)"
            ));
        }
        let count = |shards: &[Shard]| shards.first().map(|shard| shard.count);
        match (count(&own.shards), count(&other.shards)) {
            (Some(one), Some(two)) if one != two => Err(format!("{b} is one of {two} shards, and {a} one of {one}")),
            _ => Ok(()),
        }
    }

    /// Adds the cases of a part.
    fn add(&mut self, part: NamedRecord) -> Result<(), String> {
        let NamedRecord { name, record, .. } = part;
        let places = self.device_indices(&record);
        let offset = self.record.processes.len();
        let processes: Vec<Process> = record.processes();
        self.record.processes.extend(processes);
        let mut keys = vec![];
        for mut case in record.cases {
            let Some(place) = places.get(&case.device) else { continue };
            (case.device, case.process) = (*place, case.process + offset);
            let key = (case.device, case.id.clone());
            if let Some(other) = self.cases.get(&key) {
                return Err(format!(
                    "'{}' has case '{}' of '{}', and so does '{}'; merge records that share no case",
                    printable(&name),
                    printable(&case.id),
                    printable(self.record.device(*place).map_or("", |device| &device.name)),
                    printable(other)
                ));
            }
            keys.push(key);
            self.record.cases.push(case);
        }
        self.cases.extend(keys.into_iter().map(|key| (key, name.clone())));
        for peak in record.peaks {
            if !self.record.peaks.iter().any(|known| (&known.uuid, &known.driver) == (&peak.uuid, &peak.driver)) {
                self.record.peaks.push(peak);
            }
        }
        for caveat in record.caveats {
            let caveat = caveat.moved(|device| places.get(&device).copied().unwrap_or(device));
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

    /// Returns the indices in the merged record for the devices of a part; adds new devices.
    ///
    /// Devices of the same host are the same. Shards run on identical machines, so their devices on different hosts
    /// count as the same if only the identity differs; in other records they are different devices.
    fn device_indices(&mut self, record: &Record) -> HashMap<usize, usize> {
        let host = &record.origin.host;
        let sharded = !record.shards.is_empty() && !self.record.shards.is_empty();
        let mut places: HashMap<usize, usize> = HashMap::new();
        for info in &record.devices {
            let is_same_device = |joined: &MergedDevice| {
                let here = host.is_some() && joined.hosts.contains(host) && joined.info == *info;
                here || (sharded && identical_model(&joined.info) == identical_model(info))
            };
            let taken = |at: usize| places.values().any(|place| *place == at);
            let place = (0..self.devices.len()).find(|at| !taken(*at) && is_same_device(&self.devices[*at]));
            let place = place.unwrap_or_else(|| self.add_device(info));
            self.devices[place].hosts.insert(host.clone());
            places.insert(info.index, place);
        }
        places.into_iter().map(|(index, place)| (index, self.record.devices[place].index)).collect()
    }

    /// Adds a device; returns its index.
    fn add_device(&mut self, info: &DeviceInfo) -> usize {
        let used = |index: usize| self.record.device(index).is_some();
        let index = if used(info.index) {
            (0..=self.devices.len()).find(|index| !used(*index)).unwrap_or_default()
        } else {
            info.index
        };
        self.record.devices.push(DeviceInfo { index, ..info.clone() });
        self.devices.push(MergedDevice { info: info.clone(), hosts: BTreeSet::new() });
        self.devices.len() - 1
    }

    /// Returns the record, and a note about missing shards.
    fn finish(mut self) -> (Record, Vec<String>) {
        self.record.shards.sort();
        self.record.shards.dedup();
        let shards = &self.record.shards;
        let count = shards.first().map_or(0, |shard| shard.count);
        let missing: Vec<_> = (1..=count).filter(|index| !shards.iter().any(|shard| shard.index == *index)).collect();
        let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
        let note = format!("missing shards, of {count}: {}", names.join(", "));
        (self.record, if missing.is_empty() { vec![] } else { vec![note] })
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

    /// Returns a part with only the case at index `at`, measured on `host`.
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
        let mut other = part(1, "b", Some(shard(2, 2)));
        other.record.devices[0].uuid = "another board".into();
        let (record, notes) = merged(vec![part(0, "a", Some(shard(1, 2))), other]).expect("they belong together");
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
        let one = merged(vec![part(0, "a", None), part(1, "a", None)]).expect("one device").0;
        assert_eq!((one.devices.len(), one.cases.len()), (1, 2));
    }

    #[test]
    fn incompatible_parts_are_refused_with_the_reason() {
        type Change = fn(&mut Record);
        let cases: [(Change, &str); 8] = [
            (|record| record.version = "9".into(), "'1.json' was measured by gpukern 9, and '0.json' by 0.0.0"),
            (|record| record.method.validation = true, "with another method"),
            (|record| record.options = Some("other".into()), "other options than '0.json': `gpukern bench-1`"),
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
            let mut other = part(1, "a", Some(shard(2, 2)));
            change(&mut other.record);
            let error = merged(vec![part(0, "a", Some(shard(1, 2))), other]).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn missing_shards_are_named_and_a_part_of_a_merge_can_be_merged() {
        let (first, notes) =
            merged(vec![part(0, "a", Some(shard(1, 4))), part(1, "b", Some(shard(3, 4)))]).expect("two");
        assert_eq!(notes, ["missing shards, of 4: 2, 4"]);
        let first = NamedRecord::new("first.json", first);
        let (all, notes) = merged(vec![first, part(2, "c", Some(shard(2, 4)))]).expect("three");
        assert_eq!((all.cases.len(), all.devices.len(), all.processes.len()), (3, 1, 3));
        assert_eq!(notes, ["missing shards, of 4: 4"]);
    }
}
