//! Shards: the parts of a plan that several machines measure.

use super::{CaseGroup, DeviceClass, Plan, Sampling, estimate};
use crate::basis::error::Error;
use crate::basis::printable::brief;
use crate::device::capability::DeviceKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Part of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Shard {
    /// Number of the shard, from 1.
    pub index: u32,
    /// Number of shards.
    pub count: u32,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parts {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err(format!("'{}' is not a shard; write 2/8 for the second of eight", brief(text))),
        }
    }
}

impl Plan {
    /// Keeps only the groups of `shard`. Groups stay whole, because their variants take turns. The largest groups are
    /// assigned first, each to the shard with the least work; groups for GPUs, for CPUs and for both are distributed
    /// separately, so that every kind is spread evenly.
    ///
    /// # Errors
    /// When no group is left for the shard.
    pub fn part(mut self, shard: Shard) -> Result<Self, Error> {
        let mut groups = vec![];
        for section in &self.sections {
            groups.extend(section.groups.iter().map(|group| (group.on, group_seconds(group, &section.sampling))));
        }
        let count = groups.len();
        let mut is_selected = vec![false; count];
        for class in [DeviceClass::Any, DeviceClass::Gpu, DeviceClass::Cpu] {
            let members: Vec<usize> = (0..count).filter(|index| groups[*index].0 == class).collect();
            let seconds: Vec<f64> = members.iter().map(|index| groups[*index].1).collect();
            for (index, assigned) in members.into_iter().zip(assign_shards(&seconds, shard.count as usize)) {
                is_selected[index] = assigned + 1 == shard.index as usize;
            }
        }
        let mut is_selected = is_selected.into_iter();
        for section in &mut self.sections {
            section.groups.retain(|_| is_selected.next().unwrap_or_default());
        }
        self.sections.retain(|section| !section.groups.is_empty());
        if self.sections.is_empty() {
            return Err(Error::Usage(format!(
                "--shard {shard} has nothing to measure: the plan has {count} groups of cases (variants of one size stay \
                 together); choose fewer shards"
            )));
        }
        Ok(self)
    }
}

/// Assigns groups, given their durations, to `count` shards: the longest first, each to the shard with least work.
fn assign_shards(seconds: &[f64], count: usize) -> Vec<usize> {
    // At most one shard per group.
    let count = count.min(seconds.len());
    let mut order: Vec<usize> = (0..seconds.len()).collect();
    order.sort_by(|a, b| seconds[*b].total_cmp(&seconds[*a]).then(a.cmp(b)));
    let mut loads = vec![0.0f64; count];
    let mut assigned = vec![0; seconds.len()];
    for group in order {
        let least = (0..count).min_by(|a, b| loads[*a].total_cmp(&loads[*b])).unwrap_or_default();
        loads[least] += seconds[group];
        assigned[group] = least;
    }
    assigned
}

/// Estimates the seconds that a group takes, without the machine's devices, so that all machines agree.
fn group_seconds(group: &CaseGroup, sampling: &Sampling) -> f64 {
    let kind = match group.on {
        DeviceClass::Gpu => DeviceKind::DiscreteGpu,
        DeviceClass::Any | DeviceClass::Cpu => DeviceKind::Cpu,
    };
    let cases = group.cases() + usize::from(group.on_host);
    cases as f64 * estimate::of_case(group, kind, Some(sampling)).seconds()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::CATALOGUE;
    use crate::plan::PlanSection;
    use crate::plan::options::Selection;

    fn plan() -> Plan {
        let selection =
            Selection { algorithm: vec!["matmul".into(), "eigen".into(), "lu".into()], ..Selection::default() };
        Plan::new(&CATALOGUE, &selection, None).expect("a plan")
    }

    fn ids(plan: &Plan) -> Vec<String> {
        plan.sections
            .iter()
            .flat_map(|section| &section.groups)
            .map(|group| format!("{:?} {group:?}", group.on))
            .collect()
    }

    #[test]
    fn shards_are_written_as_a_fraction() {
        assert_eq!("2/8".parse(), Ok(Shard { index: 2, count: 8 }));
        assert_eq!(Shard { index: 2, count: 8 }.to_string(), "2/8");
        for text in ["0/8", "9/8", "2", "a/b", "1/0", "-1/2", "2/8/1"] {
            let error = format!("'{text}' is not a shard; write 2/8 for the second of eight");
            assert_eq!(text.parse::<Shard>(), Err(error));
        }
    }

    #[test]
    fn every_group_is_in_one_shard_whole_and_in_the_order_of_the_plan() {
        let whole = ids(&plan());
        for count in [1, 2, 3] {
            let parts: Vec<_> =
                (1..=count).map(|index| ids(&plan().part(Shard { index, count }).expect("a part"))).collect();
            assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), whole.len());
            for part in &parts {
                let places: Vec<_> = part.iter().map(|id| whole.iter().position(|known| known == id)).collect();
                assert!(places.is_sorted() && places.iter().all(Option::is_some), "{places:?}");
                for class in ["Cpu", "Gpu"] {
                    assert!(part.iter().any(|id| id.starts_with(class)), "{class} is in every shard");
                }
            }
        }
    }

    #[test]
    fn shards_have_even_and_reproducible_loads() {
        let seconds = [9.0, 1.0, 5.0, 4.0, 3.0, 2.0];
        assert_eq!(assign_shards(&seconds, 2), [0, 1, 1, 1, 0, 1]);
        assert_eq!(assign_shards(&[1.0; 4], 3), [0, 1, 2, 0]);
        let estimates = |plan: Plan| -> f64 {
            let seconds_of = |section: &PlanSection| {
                section.groups.iter().map(|group| group_seconds(group, &section.sampling)).sum::<f64>()
            };
            plan.sections.iter().map(seconds_of).sum()
        };
        let parts = [1, 2].map(|index| estimates(plan().part(Shard { index, count: 2 }).expect("a part")));
        assert!(parts[0] / parts[1] < 1.3 && parts[1] / parts[0] < 1.3, "{parts:?}");
    }

    #[test]
    fn more_shards_than_groups_are_refused_where_nothing_is_left() {
        let error = plan().part(Shard { index: 900, count: 900 }).expect_err("nothing").to_string();
        assert!(error.contains("--shard 900/900 has nothing to measure: the plan has"), "{error}");
    }
}
