//! What other programs take of the host's processors, as Linux tells it: a device that computes on them is as fast as
//! they leave it.

use std::fs::read_to_string;

/// Ticks of all processors together, 10 ms each, below which a share means nothing.
const LEAST_TICKS: u64 = 20;

/// Ticks since the machine started, of the processors that this process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostLoad {
    /// All of them.
    total: u64,
    /// Those in which they worked, for whomever: a hypervisor that took them counts.
    busy: u64,
    /// Those in which this process worked.
    own: u64,
}

impl HostLoad {
    /// The ticks until now; `None` where the system does not tell.
    #[must_use]
    pub(crate) fn now() -> Option<Self> {
        let [stat, status, own] =
            ["/proc/stat", "/proc/self/status", "/proc/self/stat"].map(|path| read_to_string(path).ok());
        Self::parse(&stat?, &status?, &own?)
    }

    fn parse(stat: &str, status: &str, own: &str) -> Option<Self> {
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        let allowed = processors(allowed.trim())?;
        let mut load = Self::default();
        for line in stat.lines().filter(|line| line.starts_with("cpu")) {
            let (name, ticks) = line[3..].split_once(' ')?;
            if !name.parse().is_ok_and(|number| allowed.contains(&number)) {
                continue;
            }
            // user nice system idle iowait irq softirq steal; what guests took is in user already.
            let ticks = ticks.split_whitespace().take(8).map(|tick| tick.parse().ok()).collect::<Option<Vec<u64>>>()?;
            let idle = ticks.get(3)? + ticks.get(4)?;
            let total: u64 = ticks.iter().sum();
            load.total += total;
            load.busy += total - idle;
        }
        // The name before may hold spaces and brackets; user and system time are fields 14 and 15.
        let mut own = own.rsplit_once(')')?.1.split_whitespace().skip(11).map(|tick| tick.parse::<u64>().ok());
        load.own = own.next()?? + own.next()??;
        (load.total > 0).then_some(load)
    }

    /// The share of the processors that other programs took since `earlier`; `None` where that is too short to tell.
    #[must_use]
    pub(crate) fn others_since(self, earlier: Self) -> Option<f64> {
        let since = |of: fn(&Self) -> u64| of(&self).saturating_sub(of(&earlier));
        let [total, busy, own] = [since(|load| load.total), since(|load| load.busy), since(|load| load.own)];
        // Ticks are counted for the system and for a process at different moments.
        (total >= LEAST_TICKS).then(|| (busy.saturating_sub(own) as f64 / total as f64).min(1.0))
    }
}

/// The processors of a list such as `0-3,8`.
fn processors(list: &str) -> Option<Vec<usize>> {
    let mut found = vec![];
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        found.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "7 (a) b) R 1 1 1 0 -1 4194304 85 0 0 0 30 12 0 0 20 0 1 0 2344 0 0";

    #[test]
    fn the_rest_of_what_the_own_processors_did_is_that_of_others() {
        let stat = |busy: u64| {
            format!(
                "cpu  9 9 9 9 9 9 9 9\ncpu0 {busy} 10 5 100 3 0 1 2 0 0\ncpu1 0 0 0 50 0 0 0 0 0 0\ncpu2 7 7 7 7 7 7 7 7\nintr 5\n"
            )
        };
        let load = |busy, own: &str| HostLoad::parse(&stat(busy), "Cpus_allowed_list:\t0-1\n", own).expect("a load");
        let [before, after] = [load(20, OWN), load(120, &OWN.replace("30 12", "60 22"))];
        assert_eq!((before, after.total - before.total), (HostLoad { total: 191, busy: 38, own: 42 }, 100));
        assert_eq!(after.others_since(before), Some(0.6));
        assert_eq!(after.others_since(HostLoad { total: after.total - 19, ..after }), None, "too short");
    }

    #[test]
    fn lists_of_processors_are_read_and_what_is_none_tells_nothing() {
        assert_eq!(processors("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(processors(""), None);
        assert_eq!(HostLoad::parse("cpu0 1 2", "Cpus_allowed_list: 0", OWN), None);
        assert_eq!(HostLoad::parse("cpu0 1 2 3 4 5 6 7 8", "Cpus_allowed_list: 0", "7 (a) R 1"), None);
    }
}
