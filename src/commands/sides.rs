//! Measurement of two configurations in one process, the kernels of a baseline in turns with those of a candidate:
//! `compare-commits` calls it. Whatever slows the machine down hits both sides, so that their ratio stays.
//!
//! A kernel that did not change is measured once for both, in the first process only.

use super::run;
use crate::user::resolved::{Module, ResolvedProblem};
use crate::{CATALOGUE, CaseGroup, Error, Plan, PlanSection, Record, Request, Result, UserKernels};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the baseline's kernels are called beside those of the candidate, whose names they share.
const BASELINE: &str = "@baseline";

/// Which cases of a record are whose.
pub(super) struct Sides {
    /// Ids of the candidate's cases.
    candidate: BTreeSet<String>,
    /// Ids of the baseline's cases, with those that they have in its own record.
    baseline: BTreeMap<String, String>,
    /// Ids of the cases that take turns, of both sides.
    pub(super) in_turns: Vec<String>,
}

impl Sides {
    /// Adds the cases of the configuration `baseline` to `plan`, and its kernels to `kernels`. Cases that both sides have
    /// take turns.
    pub(super) fn add(
        plan: &mut Plan,
        kernels: &mut Vec<UserKernels>,
        baseline: &Path,
        request: &Request,
    ) -> Result<Self> {
        let request = Request { config: Some(baseline.into()), ..request.clone() };
        let mut other = Plan::new(&CATALOGUE, &request.selection, Some((baseline, &request.defaults)))?;
        let other_kernels = run::add_tables(&mut other, &request)?;
        // The candidate has those that the pattern is for.
        let other = other.only(&request.only).unwrap_or_else(|_| Plan { sections: vec![], run_tables: vec![] });
        let mut sides =
            Self { candidate: plan.ids().into_iter().collect(), baseline: BTreeMap::new(), in_turns: vec![] };
        let candidates = kernels.clone();
        let mut pairs = 0;
        for section in other.sections {
            for group in &section.groups {
                let of_group = |of: &&UserKernels| of.name == group.algorithm.name;
                let own = other_kernels.iter().find(of_group);
                let own = own.filter(|own| !candidates.iter().find(of_group).is_some_and(|other| is_same(own, other)));
                let added = match own {
                    Some(own) => renamed(group, own, kernels)?,
                    // A built-in algorithm, or a kernel that did not change.
                    None => group.clone(),
                };
                for (variant, own) in added.variants.iter().zip(&group.variants) {
                    sides.baseline.insert(added.id(variant).to_string(), group.id(own).to_string());
                }
                sides.baseline.extend(group.host_id().map(|id| (id.clone(), id)));
                let partner = plan.sections.iter_mut().find_map(|section| {
                    let index = section.groups.iter().position(|other| is_partner(group, other))?;
                    Some((section, index))
                });
                let Some((together, index)) = partner.filter(|_| own.is_some()) else {
                    plan.sections.push(PlanSection { groups: vec![added], ..section.clone() });
                    continue;
                };
                pairs += 1;
                together.groups[index].turns = Some(pairs);
                together.groups.insert(index + 1, CaseGroup { turns: Some(pairs), ..added });
                for group in &together.groups[index..=index + 1] {
                    sides.in_turns.extend(group.variants.iter().map(|variant| group.id(variant).to_string()));
                }
            }
        }
        Ok(sides)
    }

    /// Splits a record of both sides: returns those of the baseline and of the candidate.
    pub(super) fn split(&self, record: &Record) -> [Record; 2] {
        let mut sides = [&record, &record].map(|record| Record { cases: vec![], plan: None, ..(*record).clone() });
        for case in &record.cases {
            if self.candidate.contains(&case.id) {
                sides[1].cases.push(case.clone());
            }
            let Some(id) = self.baseline.get(&case.id) else { continue };
            let mut case = case.clone();
            for kernel in &mut case.kernels {
                kernel.name = kernel.name.replacen(BASELINE, "", 1);
            }
            case.algorithm = case.algorithm.replacen(BASELINE, "", 1);
            case.id.clone_from(id);
            sides[0].cases.push(case);
        }
        sides
    }

    /// Returns the paths of the two records, beside that of both.
    pub(super) fn paths(record: &Path) -> [PathBuf; 2] {
        ["baseline.json", "candidate.json"].map(|name| record.with_file_name(name))
    }
}

/// Whether two groups, of two sides, are of the same problem.
fn is_partner(group: &CaseGroup, other: &CaseGroup) -> bool {
    (&group.algorithm.name, &group.spec.size) == (&other.algorithm.name, &other.spec.size)
}

/// Returns a group of the baseline under a name of its own, and adds its kernels to `kernels` under that name.
fn renamed(group: &CaseGroup, own: &UserKernels, kernels: &mut Vec<UserKernels>) -> Result<CaseGroup> {
    let own = UserKernels { name: format!("{}{BASELINE}", own.name), ..own.clone() };
    let algorithm = own.clone().algorithm(&CATALOGUE).map_err(Error::Usage)?;
    let variants = group.variants.iter().map(|variant| algorithm.variant(&variant.name).cloned());
    let variants = variants.collect::<Result<_, _>>().map_err(Error::Usage)?;
    if kernels.iter().all(|listed| listed.name != own.name) {
        kernels.push(own);
    }
    Ok(CaseGroup { algorithm, variants, ..group.clone() })
}

/// Whether two kernels are the same code on the same data. What commands and files hold is not known before they are run
/// and read, so that kernels with these count as changed.
fn is_same(a: &UserKernels, b: &UserKernels) -> bool {
    let known = |of: &UserKernels| -> Option<UserKernels> {
        // Where the sources are does not matter.
        let modules = of.problem.modules.iter().map(|module| Module { files: vec![], ..module.clone() }).collect();
        let problem = ResolvedProblem { modules, sources: vec![], ..of.problem.clone() };
        let has_data = !problem.commands.is_empty() || !problem.files().is_empty();
        (!has_data).then(|| UserKernels { problem, ..of.clone() })
    };
    known(a).is_some_and(|a| known(b).is_some_and(|b| a == b))
}
