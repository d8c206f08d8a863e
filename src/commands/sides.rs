//! Measurement of two configurations in one process, the kernels of a baseline in turns with those of a candidate:
//! `compare-commits` calls it. Whatever slows the machine down hits both sides, so that their ratio stays.
//!
//! A kernel that did not change is measured once for both, in the first process only.

use super::run;
use crate::device::cache::fingerprint;
use crate::plan::Sampling;
use crate::user::resolved::{Fill, PassList, Reference, ResolvedPoint, ResolvedProblem};
use crate::{CATALOGUE, CaseGroup, Error, Plan, PlanSection, Record, Request, Result, UserKernels, Variant, printable};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the baseline's kernels are called beside those of the candidate, whose names they share.
const BASELINE: &str = "@baseline";

/// Which cases of a record are whose.
pub(super) struct Sides {
    /// Ids of the candidate's cases.
    candidate: BTreeSet<String>,
    /// Ids of the baseline's cases, with what they are called in its own record, if that is different.
    baseline: BTreeMap<String, Option<CaseName>>,
    /// Ids of the cases that take turns, of both sides.
    pub(super) in_turns: Vec<String>,
    /// Kernels whose check changed, each with what changed: a wrong answer may be right by the new one.
    changed_checks: Vec<String>,
    /// Kernels of another name in the baseline: `gelu → gelu_fast`.
    renamed: Vec<String>,
}

/// What a case is called.
struct CaseName {
    id: String,
    algorithm: String,
    variant: String,
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
        let candidates = kernels.clone();
        let counterparts = counterparts(&other_kernels, &candidates);
        let mut changed_checks = vec![];
        for own in &candidates {
            let before = other_kernels.iter().find(|other| counterparts.get(&other.name) == Some(&own.name));
            // Of kernels that do not compile, nothing else is known.
            let before = before.filter(|before| before.problem.unusable.is_none() && own.problem.unusable.is_none());
            let changes = before.map_or_else(BTreeSet::new, |before| changed_check(&before.problem, &own.problem));
            if !changes.is_empty() {
                changed_checks.push(format!("{} ({})", own.name, changes.into_iter().collect::<Vec<_>>().join(", ")));
            }
        }
        let candidate = plan.ids().into_iter().collect();
        let renamed = counterparts.iter().filter(|(before, after)| before != after);
        let renamed = renamed.map(|(before, after)| format!("{} → {}", printable(before), printable(after))).collect();
        let mut sides = Self { candidate, baseline: BTreeMap::new(), in_turns: vec![], changed_checks, renamed };
        let mut pairs = 0;
        for section in other.sections {
            for group in &section.groups {
                let own = other_kernels.iter().find(|own| own.name == group.algorithm.name);
                let own = own.filter(|own| !candidates.iter().any(|other| is_same(own, other)));
                let Some(own) = own else {
                    // A built-in algorithm, or a kernel that did not change.
                    sides.baseline.extend(ids_of(group).into_iter().map(|id| (id, None)));
                    plan.sections.push(PlanSection { groups: vec![group.clone()], ..section.clone() });
                    continue;
                };
                let added = added(group, own, kernels)?;
                let name = counterparts.get(&own.name);
                let partner = plan.sections.iter_mut().find_map(|section| {
                    let is_partner = |other: &CaseGroup| {
                        name.is_some_and(|name| *name == other.algorithm.name) && group.spec.size == other.spec.size
                    };
                    let index = section.groups.iter().position(is_partner)?;
                    Some((section, index))
                });
                let named = partner.as_ref().map_or(group, |(section, index)| &section.groups[*index]);
                sides.baseline.extend(ids_of(&added).into_iter().zip(names_of(named)));
                let Some((together, index)) = partner else {
                    plan.sections.push(PlanSection { groups: vec![added], ..section.clone() });
                    continue;
                };
                pairs += 1;
                together.groups[index].turns = Some(pairs);
                together.groups.insert(index + 1, CaseGroup { turns: Some(pairs), ..added });
                for group in &together.groups[index..=index + 1] {
                    sides.in_turns.extend(ids_of(group));
                }
            }
        }
        Ok(sides)
    }

    /// Lists what a reviewer has to know, for the script of `compare-commits`.
    pub(super) fn remarks(&self) -> String {
        let checks = self.changed_checks.iter().map(|change| format!("changed check: {change}\n"));
        checks.chain(self.renamed.iter().map(|change| format!("renamed: {change}\n"))).collect()
    }

    /// Splits a record of both sides: returns those of the baseline and of the candidate.
    pub(super) fn split(&self, record: &Record) -> [Record; 2] {
        let mut sides = [&record, &record].map(|record| Record { cases: vec![], plan: None, ..(*record).clone() });
        for case in &record.cases {
            if self.candidate.contains(&case.id) {
                sides[1].cases.push(case.clone());
            }
            let Some(name) = self.baseline.get(&case.id) else { continue };
            let mut case = case.clone();
            if let Some(CaseName { id, algorithm, variant }) = name {
                for kernel in &mut case.kernels {
                    let file = kernel.name.split_once('/').map_or(&*kernel.name, |(_, file)| file);
                    kernel.name = format!("{algorithm}/{file}");
                }
                (case.id, case.algorithm, case.variant) = (id.clone(), algorithm.clone(), variant.clone());
            }
            sides[0].cases.push(case);
        }
        sides
    }

    /// Returns the paths of the two records, beside that of both.
    pub(super) fn paths(record: &Path) -> [PathBuf; 2] {
        ["baseline.json", "candidate.json"].map(|name| record.with_file_name(name))
    }
}

/// Returns the ids of a group's cases, including those that `auto` may choose.
fn ids_of(group: &CaseGroup) -> Vec<String> {
    let section = PlanSection { groups: vec![group.clone()], devices: vec![], sampling: Sampling::default() };
    Plan { sections: vec![section], run_tables: vec![] }.ids()
}

/// Returns what the cases of a group of kernels are called.
fn names_of(group: &CaseGroup) -> Vec<Option<CaseName>> {
    let name = |variant: &Variant| CaseName {
        id: group.id(variant).to_string(),
        algorithm: group.algorithm.name.to_string(),
        variant: variant.name.to_string(),
    };
    group.variants.iter().map(|variant| Some(name(variant))).collect()
}

/// Returns the candidate's name of each kernel of the baseline that it has: the same name, or that of the only new kernel
/// with the same buffers and sizes, or of the one in the same place of the configuration.
fn counterparts(before: &[UserKernels], after: &[UserKernels]) -> BTreeMap<String, String> {
    let is_of = |side: &[UserKernels], name: &str| side.iter().any(|kernels| kernels.name == name);
    let signature = |kernels: &UserKernels| {
        let buffers = |point: &ResolvedPoint| point.buffers.iter().map(ToString::to_string).collect::<Vec<_>>();
        let ResolvedProblem { points, configurations, axes, .. } = &kernels.problem;
        let points = points.iter().map(|point| (point.values.clone(), buffers(point))).collect::<Vec<_>>();
        (axes.clone(), points, configurations.len())
    };
    let gone: Vec<_> = before.iter().filter(|kernels| !is_of(after, &kernels.name)).collect();
    let new: Vec<_> = after.iter().filter(|kernels| !is_of(before, &kernels.name)).collect();
    let mut counterparts = BTreeMap::new();
    for kernels in before.iter().filter(|kernels| is_of(after, &kernels.name)) {
        counterparts.insert(kernels.name.clone(), kernels.name.clone());
    }
    let place = |side: &[UserKernels], name: &str| side.iter().position(|kernels| kernels.name == name);
    for kernels in &gone {
        let is_alike = |other: &&&UserKernels| signature(other) == signature(kernels);
        let alike: Vec<_> = new.iter().filter(is_alike).collect();
        let only = alike.first().filter(|_| alike.len() == 1 && gone.iter().filter(is_alike).count() == 1);
        let in_place = alike.iter().find(|other| place(after, &other.name) == place(before, &kernels.name));
        if let Some(other) = in_place.or(only) {
            counterparts.insert(kernels.name.clone(), other.name.clone());
        }
    }
    counterparts
}

/// Returns a group of the baseline under a name of its own, and adds its kernels to `kernels` under that name.
fn added(group: &CaseGroup, own: &UserKernels, kernels: &mut Vec<UserKernels>) -> Result<CaseGroup> {
    let own = UserKernels { name: format!("{}{BASELINE}", own.name), ..own.clone() };
    let algorithm = own.clone().algorithm(&CATALOGUE).map_err(Error::Usage)?;
    let variants = group.variants.iter().map(|variant| algorithm.variant(&variant.name).cloned());
    let variants = variants.collect::<Result<_, _>>().map_err(Error::Usage)?;
    if kernels.iter().all(|listed| listed.name != own.name) {
        kernels.push(own);
    }
    Ok(CaseGroup { algorithm, variants, ..group.clone() })
}

/// Lists what of a kernel's check differs between the sides: files by their contents, tolerances, the kind of reference.
fn changed_check(before: &ResolvedProblem, after: &ResolvedProblem) -> BTreeSet<String> {
    let [old, new] = [before, after].map(data_files);
    let names = old.keys().chain(new.keys()).filter(|name| old.get(*name) != new.get(*name));
    let mut changes: BTreeSet<String> = names.cloned().collect();
    for point in &after.points {
        let Some(earlier) = before.points.iter().find(|earlier| earlier.values == point.values) else { continue };
        let is_same = match (&earlier.reference, &point.reference) {
            (Reference::Command(a), Reference::Command(b)) => a.line == b.line,
            (Reference::Files(a), Reference::Files(b)) => a.len() == b.len(),
            (Reference::Kernel(a), Reference::Kernel(b)) => a == b && code_of(before, a) == code_of(after, b),
            (a, b) => a == b,
        };
        if !is_same {
            changes.insert("the reference".into());
        }
        for buffer in &point.buffers {
            let earlier = earlier.buffers.iter().find(|earlier| earlier.name == buffer.name);
            if earlier.is_some_and(|earlier| earlier.tolerance != buffer.tolerance) {
                changes.insert(format!("the tolerance of {}", printable(&buffer.name)));
            }
            if earlier.is_some_and(|earlier| earlier.to_string() != buffer.to_string()) {
                changes.insert(format!("the contents of {}", printable(&buffer.name)));
            }
        }
    }
    changes
}

/// Returns the files that a problem reads besides its sources, by name, with hashes of their contents.
fn data_files(problem: &ResolvedProblem) -> BTreeMap<String, Option<String>> {
    let files = problem.files().into_iter().filter(|(what, _)| *what != "a source");
    let name = |path: &Path| printable(&path.file_name().unwrap_or_default().to_string_lossy()).into_owned();
    files.map(|(_, path)| (name(&path), std::fs::read(path).ok().map(|bytes| fingerprint(&[&bytes])))).collect()
}

/// Returns the SPIR-V that passes run.
fn code_of<'a>(problem: &'a ResolvedProblem, list: &PassList) -> Vec<&'a [u32]> {
    list.dispatches.iter().map(|dispatch| &problem.modules[dispatch.shader].spirv[..]).collect()
}

/// Whether two kernels are the same code with the same data and check, wherever their files are.
fn is_same(a: &UserKernels, b: &UserKernels) -> bool {
    let anywhere = |of: &UserKernels| UserKernels { problem: without_folders(of.problem.clone()), ..of.clone() };
    anywhere(a) == anywhere(b) && data_files(&a.problem) == data_files(&b.problem)
}

/// Removes the folders of all files.
fn without_folders(mut problem: ResolvedProblem) -> ResolvedProblem {
    problem.sources.clear();
    problem.modules.iter_mut().for_each(|module| module.files.clear());
    for point in &mut problem.points {
        let scratch = point.pass_lists.iter_mut().flatten().flat_map(|list| &mut list.scratch);
        let mut fills: Vec<_> = vec![];
        for buffer in point.buffers.iter_mut().chain(scratch) {
            fills.extend(buffer.parts.iter_mut().filter_map(|part| part.fill.as_mut()));
            fills.extend(&mut buffer.fill);
        }
        match &mut point.reference {
            Reference::Command(command) => command.folder.clear(),
            Reference::Files(answers) => fills.extend(answers.iter_mut().map(|(_, fill)| fill)),
            _ => {}
        }
        point.inputs.iter_mut().for_each(|command| command.folder.clear());
        for fill in fills {
            if let Fill::Npy(path) | Fill::Raw(path) = fill {
                *path = path.file_name().unwrap_or_default().into();
            }
        }
    }
    problem
}
