//! Measurement of two configurations in one process, the kernels of a baseline in turns with those of a candidate:
//! `compare-commits` calls it. Whatever slows the machine down hits both sides, so that their ratio stays.
//!
//! Code that did not change is measured once for both sides, in the first process only. Its answer is checked by either
//! side's check, where these may differ.

use super::{origin, run};
use crate::basis::alike::distinct;
use crate::compare::gate::{self, Threshold};
use crate::device::cache::fingerprint;
use crate::kernel::lines::code;
use crate::plan::Sampling;
use crate::record::{Case, Measured, Origin, Outcome, Verification};
use crate::user::resolved::{Fill, PassList, Reference, ResolvedBuffer, ResolvedPoint, ResolvedProblem, Tolerance};
use crate::user::{options, resolve};
use crate::{
    CATALOGUE, CaseGroup, Error, FieldOptions, Plan, PlanSection, Record, Request, Result, Shown, Size, UserKernels,
    Variant, printable,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Suffix that tells the baseline's kernels from those of the candidate, whose names they share.
const BASELINE: &str = "@baseline";

/// Suffix of kernels of the candidate that are checked as those of the baseline are, on its data.
const OLD_CHECK: &str = "@old-check";

/// Longest time to sample a case of which only the answer is of interest.
const SHORT: Duration = Duration::from_millis(1);

/// Which cases of a record are whose.
#[derive(Default)]
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
    /// Kernels that only the candidate has, while others are gone: perhaps renamed along with their code and their check.
    own_checks: Option<String>,
    /// Ids of the candidate's cases whose check changed, or may have, each with the ids of the same kernel under the check of the
    /// baseline, and of the baseline's case.
    old_checks: BTreeMap<String, [String; 2]>,
    /// Ids of the candidate's cases whose check became looser, each with what changed.
    loosened: BTreeMap<String, String>,
    /// Ids of cases with unchanged code whose check changed, or may have, each with the id of the same case under the check of
    /// the baseline.
    rechecked: BTreeMap<String, String>,
    /// Whether an answer may be right by the new check alone.
    allows_check: bool,
    /// Commit of the baseline, as git knows it.
    commit: Origin,
}

/// Names of a case.
struct CaseName {
    id: String,
    algorithm: String,
    variant: String,
}

impl Sides {
    /// Adds the cases of the configuration `baseline` to `plan`, and its kernels to `kernels`. Cases that both sides have
    /// take turns. Kernels whose check changed, or may have, also have to pass that of the baseline, unless `allows_check`.
    pub(super) fn add(
        plan: &mut Plan,
        kernels: &mut Vec<UserKernels>,
        baseline: &Path,
        request: &Request,
        allows_check: bool,
    ) -> Result<Self> {
        let (other, mut other_kernels) = read(baseline, request)?;
        let counterparts = counterparts(&other_kernels, kernels, [Some(baseline), request.config.as_deref()]);
        add_counterparts_points(&mut other_kernels, kernels, &counterparts);
        let own_names: BTreeSet<_> = kernels.iter().map(|own| own.name.clone()).collect();
        let renamed = renamed(&counterparts, &other_kernels, kernels);
        let commit = origin::from_git(baseline.parent().unwrap_or(Path::new("")));
        let mut sides = Self { renamed, allows_check, commit, ..Self::default() };
        sides.own_checks = under_own_checks(&counterparts, &other_kernels, kernels);
        sides.candidate.extend(plan.ids());
        let (unchanged, under_old_checks) = sides.compare_kernels(&other_kernels, kernels, &counterparts);
        for section in other.sections {
            for group in &section.groups {
                let own = other_kernels.iter().find(|own| own.name == group.algorithm.name);
                let name = own.and_then(|own| counterparts.get(&own.name));
                // A kernel that did not change has its old name if the candidate lacks the size.
                let same = own.filter(|own| unchanged.contains(&*own.name)).and_then(|own| {
                    let after = name.and_then(|name| find_group(plan, name, group.spec.size));
                    after
                        .map(|(section, at)| section.groups[at].clone())
                        .or((name == Some(&own.name)).then(|| group.clone()))
                });
                let Some(own) = own.filter(|_| same.is_none()) else {
                    let same = same.unwrap_or_else(|| group.clone());
                    let ids = ids_of(&same);
                    if let Some(own) = under_old_checks.get(&*same.algorithm.name) {
                        let judged = added(&same, own, kernels)?;
                        sides.rechecked.extend(ids.iter().cloned().zip(ids_of(&judged)));
                        plan.sections.push(answers_only(&section, judged));
                    }
                    sides.baseline.extend(ids.into_iter().map(|id| (id, None)));
                    plan.sections.push(PlanSection { groups: vec![same], ..section.clone() });
                    continue;
                };
                let before = added(group, &named(own, BASELINE), kernels)?;
                let Some((together, index)) = name.and_then(|name| find_group(plan, name, group.spec.size)) else {
                    // Another kernel of the candidate may have the name of one that is gone: that keeps its suffix.
                    let own_name = if own_names.contains(&own.name) { &*before.algorithm.name } else { &own.name };
                    let called = under_name(group, own, name.map_or(own_name, String::as_str))?;
                    sides.baseline.extend(ids_of(&before).into_iter().zip(names_of(&called)));
                    plan.sections.push(PlanSection { groups: vec![before], ..section.clone() });
                    continue;
                };
                sides.alternate(together, index, before);
                let after = together.groups[index].clone();
                if let Some(own) = under_old_checks.get(&*after.algorithm.name) {
                    let judged = added(&CaseGroup { turns: None, ..after.clone() }, own, kernels)?;
                    let before = &together.groups[index + 1];
                    let ids = ids_of(&judged).into_iter().zip(ids_of(before)).map(<[String; 2]>::from);
                    sides.old_checks.extend(ids_of(&after).into_iter().zip(ids));
                    plan.sections.push(answers_only(&section, judged));
                }
            }
        }
        for before in other_kernels.iter().filter(|before| !unchanged.contains(&*before.name)) {
            let Some(name) = counterparts.get(&before.name) else { continue };
            if let Some(own) = under_old_checks.get(name) {
                sides.add_new_sizes(plan, kernels, name, [own, before])?;
            }
        }
        Ok(sides)
    }

    /// Adds, to `plan`, what judges the candidate's kernel `name` at sizes that only it has: the kernel under the check of the
    /// baseline, `own`, and that of the baseline, `before`.
    fn add_new_sizes(
        &mut self,
        plan: &mut Plan,
        kernels: &mut Vec<UserKernels>,
        name: &str,
        [own, before]: [&UserKernels; 2],
    ) -> Result<()> {
        for section in plan.sections.clone() {
            for group in section.groups.iter().filter(|group| group.algorithm.name == name) {
                let ids = ids_of(group);
                let values = |kernels: &UserKernels| {
                    let index = kernels.problem.sizes().iter().position(|size| *size == group.spec.size)?;
                    Some(kernels.problem.points[index].values.clone())
                };
                // The baseline may not have the size, or call another one so.
                if values(before) != values(own) || ids.iter().any(|id| self.old_checks.contains_key(id)) {
                    continue;
                }
                let of = |own: &UserKernels, kernels: &mut Vec<UserKernels>| {
                    added(&CaseGroup { turns: None, ..group.clone() }, own, kernels)
                };
                let [judged, before] = [of(own, kernels)?, of(&called_as(own, before, BASELINE), kernels)?];
                let judges = ids_of(&judged).into_iter().zip(ids_of(&before)).map(<[String; 2]>::from);
                self.old_checks.extend(ids.into_iter().zip(judges));
                plan.sections.extend([judged, before].map(|group| answers_only(&section, group)));
            }
        }
        Ok(())
    }

    /// Compares the kernels of both sides. Returns the names of the baseline's kernels whose code did not change; and by the names
    /// of the candidate, kernels that are to be checked as the baseline's are.
    fn compare_kernels<'k>(
        &mut self,
        other_kernels: &'k [UserKernels],
        kernels: &[UserKernels],
        counterparts: &BTreeMap<String, String>,
    ) -> (BTreeSet<&'k str>, BTreeMap<String, UserKernels>) {
        let mut unchanged = BTreeSet::new();
        let mut under_old_checks = BTreeMap::new();
        for before in other_kernels {
            let name = counterparts.get(&before.name);
            let Some(after) = kernels.iter().find(|after| name == Some(&after.name)) else { continue };
            let is_unchanged = is_same_code(before, after);
            if is_unchanged {
                unchanged.insert(&*before.name);
            }
            // Of kernels that do not compile, nothing else is known.
            if before.problem.unusable.is_some() || after.problem.unusable.is_some() {
                continue;
            }
            if let Some(change) = loosened(&before.problem, &after.problem) {
                self.loosened.insert(after.name.clone(), change);
            }
            let changes = changed_check(&before.problem, &after.problem);
            let is_judged_anew = !changes.is_empty() || has_commands(&before.problem);
            if is_judged_anew || !is_unchanged && has_no_reference(&before.problem) {
                let own =
                    if is_unchanged { called_as(after, before, OLD_CHECK) } else { under_old_check(before, after) };
                under_old_checks.insert(after.name.clone(), own);
            }
            if !changes.is_empty() {
                self.changed_checks.push(format!("{} ({})", after.name, changes.join(", ")));
            }
        }
        (unchanged, under_old_checks)
    }

    /// Adds a group of the baseline, which takes turns with the one at `index`.
    fn alternate(&mut self, together: &mut PlanSection, index: usize, before: CaseGroup) {
        self.baseline.extend(ids_of(&before).into_iter().zip(names_of(&together.groups[index])));
        let turns = Some(self.in_turns.len());
        together.groups[index].turns = turns;
        together.groups.insert(index + 1, CaseGroup { turns, ..before });
        self.in_turns.extend(together.groups[index..=index + 1].iter().flat_map(ids_of));
    }

    /// Lists what a reviewer has to know, for the script of `compare-commits`.
    pub(super) fn remarks(&self) -> String {
        let checks = self.changed_checks.iter().map(|change| format!("changed check: {change}\n"));
        let renamed = self.renamed.iter().map(|change| format!("renamed: {change}\n"));
        checks.chain(renamed).chain(self.own_checks.iter().map(|names| format!("own check: {names}\n"))).collect()
    }

    /// Refuses a threshold that is for no case of either side, before these are measured. `plan` is that of the candidate.
    pub(super) fn check_thresholds(&self, thresholds: &[Threshold], plan: &Plan) -> Result<()> {
        let names = self.baseline.iter().map(|(id, name)| name.as_ref().map_or(id, |name| &name.id));
        let ids: Vec<&str> = self.candidate.iter().chain(names).map(String::as_str).collect();
        let groups = plan.sections.iter().flat_map(|section| &section.groups);
        let algorithms = distinct(groups.map(|group| &*group.algorithm.name));
        gate::check_used(thresholds, &ids, &algorithms).map_err(Error::Usage)
    }

    /// Splits a record of both sides: returns those of the baseline and of the candidate.
    pub(super) fn split(&self, record: &Record) -> [Record; 2] {
        // Code that did not change is measured in one process only: no later one adds to it.
        let request = record.request.clone().map(|request| Request { processes: None, ..request });
        let side = || Record { cases: vec![], plan: None, request: request.clone(), ..record.clone() };
        let mut sides = [side(), side()];
        sides[0].processes = record.processes();
        let processes = sides[0].processes.iter_mut().map(|process| &mut process.origin);
        for origin in [&mut sides[0].origin].into_iter().chain(processes) {
            let Origin { commit, committed, modified, branch, .. } = self.commit.clone();
            *origin = Origin { commit, committed, modified, branch, ..origin.clone() };
        }
        for case in &record.cases {
            if self.candidate.contains(&case.id) {
                let mut case = case.clone();
                match self.forbidden(&case, record) {
                    Some(wrong) if self.allows_check => {
                        case.notes.push(format!("accepted by --allow check: {}", wrong.worst));
                    }
                    Some(wrong) => case.outcome = Outcome::Rejected(wrong),
                    None => {}
                }
                sides[1].cases.push(case);
            }
            let Some(name) = self.baseline.get(&case.id) else { continue };
            let mut case = Case { outcome: self.outcome_of_baseline(case, record), ..case.clone() };
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

    /// Returns the judgment of the baseline's check on a candidate's case that is right only by its new one, unlike the
    /// baseline's kernel by the old one.
    fn wrong_by_old_check(&self, case: &Case, record: &Record) -> Option<Verification> {
        let ids = self.old_checks.get(&case.id).filter(|_| case.measured().is_some())?;
        let [judged, before] = ids.each_ref().map(|id| record.cases.iter().find(|case| case.id == *id));
        let before = before?.measured()?;
        let advice = if self.allows_check { "" } else { " (if intended, add --allow check)" };
        let Outcome::Rejected(verification) = &judged?.outcome else { return None };
        let is_verified = before.verification.verified().is_some();
        let by = if is_verified { "fails the baseline's check" } else { "differs from the baseline's answer" };
        // Its answer was the reference of this check.
        let said = if is_verified {
            verification.worst.clone()
        } else {
            verification.worst.replace("the reference", "the baseline")
        };
        let worst = format!("{by}{advice}: {said}");
        Some(Verification { worst, ..verification.clone() })
    }

    /// Returns what is wrong with a candidate's case whose check became looser: the next change could use that.
    fn loosened(&self, case: &Case) -> Option<Verification> {
        case.measured()?;
        let change = self.loosened.get(&case.algorithm)?;
        let advice = if self.allows_check { "" } else { "; if intended, add --allow check" };
        let reason = format!("the answer is right, but its check became looser: {change}{advice}");
        Some(Verification::without_answer(reason))
    }

    /// Returns what is wrong with a candidate's case whose answer is right, unless a reviewer accepts it.
    fn forbidden(&self, case: &Case, record: &Record) -> Option<Verification> {
        self.wrong_by_old_check(case, record).or_else(|| self.loosened(case))
    }

    /// Lists what a reviewer accepts with `--allow check`: a line for each case of the candidate that would fail without it.
    pub(super) fn accepted(&self, record: &Record) -> String {
        let cases = record.cases.iter().filter(|case| self.allows_check && self.candidate.contains(&case.id));
        let line =
            |case: &Case| Some(format!("accepted check: {}: {}\n", case.id, self.forbidden(case, record)?.worst));
        // A case that several processes measured is there more than once.
        distinct(cases.filter_map(line)).concat()
    }

    /// Returns the outcome of a case in the baseline: where the same code was checked twice, the times are those of the
    /// candidate.
    fn outcome_of_baseline(&self, case: &Case, record: &Record) -> Outcome {
        let other = self.rechecked.get(&case.id).and_then(|id| record.cases.iter().find(|case| case.id == *id));
        match (&case.outcome, other.map(|other| &other.outcome)) {
            (Outcome::Measured(timed), Some(Outcome::Measured(judged))) => {
                let Measured { verification, accepts, .. } = &**judged;
                let (verification, accepts) = (verification.clone(), accepts.clone());
                Outcome::Measured(Box::new(Measured { verification, accepts, ..(**timed).clone() }))
            }
            (Outcome::Measured(_) | Outcome::Rejected(_) | Outcome::Failed { .. }, Some(judged)) => judged.clone(),
            (outcome, _) => outcome.clone(),
        }
    }

    /// Returns the paths of the two records, beside that of both.
    pub(super) fn paths(record: &Path) -> [PathBuf; 2] {
        ["baseline.json", "candidate.json"].map(|name| record.with_file_name(name))
    }
}

/// Reads the configuration of a baseline, and its kernels.
fn read(baseline: &Path, request: &Request) -> Result<(Plan, Vec<UserKernels>)> {
    let candidate = request.config.as_deref();
    let request = Request { config: Some(baseline.into()), ..request.clone() };
    let mut other = Plan::new(&CATALOGUE, &request.selection, Some((baseline, &request.defaults)))?;
    let mut other_kernels = run::add_tables(&mut other, &request, candidate)?;
    // Messages name files as those of the candidate do, not in a folder that is gone by the time they are read.
    if let Some(folder) = baseline.parent().filter(|folder| *folder != Path::new("")) {
        let folder = format!("{}/", folder.shown());
        let reasons = other_kernels.iter_mut().filter_map(|kernels| kernels.problem.unusable.as_mut());
        reasons.for_each(|reason| *reason = reason.replace(&folder, ""));
    }
    // The candidate has those that the pattern is for.
    let other = other.only(&request.only).unwrap_or_else(|_| Plan { sections: vec![], run_tables: vec![] });
    Ok((other, other_kernels))
}

/// Returns a section with a group of which only the answers are of interest.
fn answers_only(section: &PlanSection, group: CaseGroup) -> PlanSection {
    let sampling = Sampling { max_time: SHORT, ..section.sampling };
    PlanSection { groups: vec![group], sampling, ..section.clone() }
}

/// Returns the section of a plan that has this algorithm at this size, and the index of its group.
fn find_group<'a>(plan: &'a mut Plan, algorithm: &str, size: Size) -> Option<(&'a mut PlanSection, usize)> {
    plan.sections.iter_mut().find_map(|section| {
        let is_it = |group: &CaseGroup| group.algorithm.name == algorithm && group.spec.size == size;
        let index = section.groups.iter().position(is_it)?;
        Some((section, index))
    })
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

/// Returns the candidate's name of each kernel of the baseline that it has: that of the same description, or the same name, or
/// that of the only new kernel with the same buffers and sizes, or of the one in the same place of the configuration.
/// `configs` are the configurations of both.
fn counterparts(
    before: &[UserKernels],
    after: &[UserKernels],
    configs: [Option<&Path>; 2],
) -> BTreeMap<String, String> {
    let mut counterparts = same_descriptions(before, after, configs);
    let of_description = counterparts.clone();
    let is_free = |name: &String| of_description.values().all(|known| known != name);
    let before: Vec<_> = before.iter().filter(|kernels| !of_description.contains_key(&kernels.name)).collect();
    let after: Vec<_> = after.iter().filter(|kernels| is_free(&kernels.name)).collect();
    let is_of = |side: &[&UserKernels], name: &str| side.iter().any(|kernels| kernels.name == name);
    let signature = |kernels: &UserKernels| {
        let unnamed = |buffer: &ResolvedBuffer| ResolvedBuffer { name: String::new(), ..buffer.clone() }.to_string();
        let buffers = |point: &ResolvedPoint| point.buffers.iter().map(unnamed).collect::<Vec<_>>();
        let ResolvedProblem { points, configurations, axes, .. } = &kernels.problem;
        let points = points.iter().map(|point| (point.values.clone(), buffers(point))).collect::<Vec<_>>();
        (axes.clone(), points, configurations.len())
    };
    let gone: Vec<_> = before.iter().copied().filter(|kernels| !is_of(&after, &kernels.name)).collect();
    let new: Vec<_> = after.iter().copied().filter(|kernels| !is_of(&before, &kernels.name)).collect();
    for kernels in before.iter().filter(|kernels| is_of(&after, &kernels.name)) {
        counterparts.insert(kernels.name.clone(), kernels.name.clone());
    }
    let place = |side: &[&UserKernels], name: &str| side.iter().position(|kernels| kernels.name == name);
    for kernels in &gone {
        let is_alike = |other: &&&UserKernels| signature(other) == signature(kernels) && may_be_same(other, kernels);
        let alike: Vec<_> = new.iter().filter(is_alike).collect();
        let only = alike.first().filter(|_| alike.len() == 1 && gone.iter().filter(is_alike).count() == 1);
        let in_place = alike.iter().find(|other| place(&after, &other.name) == place(&before, &kernels.name));
        if let Some(other) = in_place.or(only) {
            counterparts.insert(kernels.name.clone(), other.name.clone());
        }
    }
    counterparts
}

/// Pairs the kernels whose description is the same file of the repository: two files of one name in different folders differ in
/// their kernels' numbers alone, which count those before them. A description that a configuration names twice is left out.
fn same_descriptions(
    before: &[UserKernels],
    after: &[UserKernels],
    configs: [Option<&Path>; 2],
) -> BTreeMap<String, String> {
    let file = |kernels: &UserKernels, config: Option<&Path>| {
        let path = kernels.problem.sources.first().filter(|path| path.extension().is_some_and(|end| end == "toml"))?;
        Some(path.strip_prefix(config?.parent()?).unwrap_or(path).to_path_buf())
    };
    let only = |side: &[UserKernels], config: Option<&Path>, wanted: &Path| {
        let mut names = side.iter().filter(|kernels| file(kernels, config).as_deref() == Some(wanted));
        let first = names.next()?;
        names.next().is_none().then(|| first.name.clone())
    };
    let pair = |kernels: &UserKernels| {
        let file = file(kernels, configs[0])?;
        Some((only(before, configs[0], &file)?, only(after, configs[1], &file)?))
    };
    before.iter().filter_map(pair).collect()
}

/// Whether kernels of two names may be the same: the code is, or what it should compute, by files of any names.
fn may_be_same(a: &UserKernels, b: &UserKernels) -> bool {
    let files = [a, b].map(|of| hash_data_files(&of.problem));
    let [a_hashes, b_hashes] = files.each_ref().map(|files| files.values().collect::<BTreeSet<_>>());
    // The names of files may differ.
    let words = |line: &str, files: &BTreeMap<String, String>| {
        let is_other = |word: &&str| !files.keys().any(|name| word.ends_with(name));
        line.split_whitespace().filter(is_other).map(String::from).collect::<Vec<_>>()
    };
    let is_same = |(of_a, of_b): (&ResolvedPoint, &ResolvedPoint)| match (&of_a.reference, &of_b.reference) {
        (Reference::Command(old), Reference::Command(new)) => {
            words(&old.line, &files[0]) == words(&new.line, &files[1])
        }
        (Reference::Files(old), Reference::Files(new)) => old.len() == new.len(),
        (Reference::Kernel(old), Reference::Kernel(new)) => code_of(&a.problem, old) == code_of(&b.problem, new),
        (old, new) => *old != Reference::None && old == new,
    };
    is_same_code(a, b) || a_hashes == b_hashes && a.problem.points.iter().zip(&b.problem.points).all(is_same)
}

/// Adds the sizes of the candidate to each kernel of the baseline that it has.
fn add_counterparts_points(before: &mut [UserKernels], after: &[UserKernels], counterparts: &BTreeMap<String, String>) {
    for before in before {
        if let Some(after) = after.iter().find(|after| counterparts.get(&before.name) == Some(&after.name)) {
            add_points(before, after);
        }
    }
}

/// Adds the sizes of the candidate to a kernel of the baseline, as far as its description has them, so that its check judges
/// those, too.
fn add_points(before: &mut UserKernels, after: &UserKernels) {
    let ResolvedProblem { axes, free, .. } = &after.problem;
    let description = before.problem.sources.first().filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let Some(description) = description.filter(|_| before.problem.axes == *axes).cloned() else { return };
    let mut more = before.problem.clone();
    for point in &after.problem.points {
        if before.problem.points.iter().any(|earlier| earlier.values == point.values) {
            continue;
        }
        let is_free = |axis: &usize| free.is_empty() || free.contains(axis);
        let size = |axis: usize| format!("{}={}", axes[axis], point.values[axis]);
        let fields =
            FieldOptions { size: (0..axes.len()).filter(is_free).map(size).collect(), ..FieldOptions::default() };
        let described = options::describe(&[], Some(&description), &fields);
        let resolved = described.map(|described| resolve::resolve(&CATALOGUE, &described));
        if let Ok(Ok(resolved)) = resolved
            && resolved.modules == before.problem.modules
        {
            more.points.extend(resolved.points);
        }
    }
    // Sizes of more than three axes depend on the points: plans have those of each side.
    let sizes = |problem: &ResolvedProblem| -> BTreeMap<Vec<i64>, Size> {
        problem.points.iter().map(|point| point.values.clone()).zip(problem.sizes()).collect()
    };
    let known = sizes(&more);
    let has_others = |(values, size): (&Vec<i64>, &Size)| known.get(values).is_some_and(|known| known != size);
    if ![&before.problem, &after.problem].into_iter().any(|problem| sizes(problem).iter().any(has_others)) {
        before.problem = more;
    }
}

/// Returns the candidate's kernels with the data and the check of the baseline, at the points where both have the same
/// buffers.
fn under_old_check(before: &UserKernels, after: &UserKernels) -> UserKernels {
    let mut problem = after.problem.clone();
    let first = problem.modules.len();
    problem.modules.extend(before.problem.modules.iter().cloned());
    for point in &mut problem.points {
        let layout = |point: &ResolvedPoint| {
            point.buffers.iter().map(|buffer| (buffer.element, buffer.shape.clone(), buffer.role)).collect::<Vec<_>>()
        };
        let mut earlier = before.problem.points.iter();
        let Some(earlier) = earlier.find(|earlier| earlier.values == point.values && layout(earlier) == layout(point))
        else {
            continue;
        };
        let pass_lists = std::mem::take(&mut point.pass_lists);
        *point = ResolvedPoint { pass_lists, ..earlier.clone() };
        // Without a reference, the kernel before the change is one.
        if point.reference == Reference::None
            && let Some(Ok(list)) = earlier.pass_lists.first()
        {
            point.reference = Reference::Kernel(list.clone());
        }
        if let Reference::Kernel(list) = &mut point.reference {
            list.dispatches.iter_mut().for_each(|dispatch| dispatch.shader += first);
        }
    }
    UserKernels { problem, ..named(after, OLD_CHECK) }
}

/// Returns a group as its kernels would be called under another name.
fn under_name(group: &CaseGroup, own: &UserKernels, name: &str) -> Result<CaseGroup> {
    let own = UserKernels { name: name.into(), ..own.clone() };
    Ok(CaseGroup { algorithm: own.algorithm(&CATALOGUE).map_err(Error::Usage)?, ..group.clone() })
}

/// Returns kernels under a name with this suffix, with the sources' names in `other`: a renamed source is still the same kernel.
fn called_as(other: &UserKernels, kernels: &UserKernels, suffix: &str) -> UserKernels {
    let mut own = named(kernels, suffix);
    for (own, other) in own.problem.configurations.iter_mut().zip(&other.problem.configurations) {
        own.kernel.clone_from(&other.kernel);
    }
    own
}

/// Returns kernels under a name with this suffix.
fn named(kernels: &UserKernels, suffix: &str) -> UserKernels {
    UserKernels { name: format!("{}{suffix}", kernels.name), ..kernels.clone() }
}

/// Returns a group with other kernels, which have a name of their own, and adds these to `kernels`.
pub(super) fn added(group: &CaseGroup, own: &UserKernels, kernels: &mut Vec<UserKernels>) -> Result<CaseGroup> {
    let algorithm = own.clone().algorithm(&CATALOGUE).map_err(Error::Usage)?;
    let variants = group.variants.iter().map(|variant| algorithm.variant(&variant.name).cloned());
    let variants = variants.collect::<Result<_, _>>().map_err(Error::Usage)?;
    if kernels.iter().all(|listed| listed.name != own.name) {
        kernels.push(own.clone());
    }
    Ok(CaseGroup { algorithm, variants, ..group.clone() })
}

/// Whether a check runs commands: they may read more files than they name, such as modules that a script imports, of which
/// nobody knows whether they changed.
fn has_commands(problem: &ResolvedProblem) -> bool {
    let runs = |point: &ResolvedPoint| matches!(point.reference, Reference::Command(_)) || point.inputs.is_some();
    problem.points.iter().any(runs)
}

/// Whether nothing says what a kernel should compute.
pub(super) fn has_no_reference(problem: &ResolvedProblem) -> bool {
    let is_random = |buffer: &ResolvedBuffer| matches!(buffer.tolerance, Tolerance::Moments { .. });
    let is_free = |point: &ResolvedPoint| point.reference == Reference::None && !point.buffers.iter().any(is_random);
    problem.points.iter().any(is_free)
}

/// Describes the first tolerance that became looser, or another kind, of which nobody can tell.
fn loosened(before: &ResolvedProblem, after: &ResolvedProblem) -> Option<String> {
    let is_looser = |old: &Tolerance, new: &Tolerance| match (old, new) {
        (Tolerance::Close { rtol, atol }, Tolerance::Close { rtol: new_rtol, atol: new_atol }) => {
            new_rtol > rtol || new_atol > atol
        }
        (Tolerance::Nmse(old), Tolerance::Nmse(new)) => new > old,
        (Tolerance::Ulp(old), Tolerance::Ulp(new)) => new > old,
        (_, Tolerance::Exact) => false,
        (old, new) => old != new,
    };
    after.points.iter().find_map(|point| {
        let earlier = before.points.iter().find(|earlier| earlier.values == point.values)?;
        // Nothing is compared without a reference.
        if earlier.reference == Reference::None {
            return None;
        }
        point.buffers.iter().zip(&earlier.buffers).find_map(|(new, old)| {
            let change = format!("the tolerance of {}: {} → {}", printable(&new.name), old.tolerance, new.tolerance);
            is_looser(&old.tolerance, &new.tolerance).then_some(change)
        })
    })
}

/// Lists the kernels of another name, and those of another source.
fn renamed(counterparts: &BTreeMap<String, String>, before: &[UserKernels], after: &[UserKernels]) -> Vec<String> {
    let source = |side: &[UserKernels], name: &str| {
        let own = side.iter().find(|own| own.name == name)?;
        Some(printable(&own.problem.modules.first()?.name).into_owned())
    };
    let stated =
        |side: &[UserKernels], name: &str| side.iter().find(|own| own.name == name).map(|own| own.problem.name.clone());
    let mut renamed = vec![];
    for (old, new) in counterparts {
        let sources = [source(before, old), source(after, new)];
        // Kernels of one name have numbers, which change when one comes or goes.
        if stated(before, old) != stated(after, new) {
            renamed.push(format!("{} → {}", printable(old), printable(new)));
        } else if let [Some(first), Some(second)] = &sources
            && first != second
        {
            renamed.push(format!("the source of {} ({first} → {second})", printable(old)));
        }
    }
    renamed
}

/// Names the kernels that only the candidate has, with those of the baseline that are gone; `None` unless there are both.
fn under_own_checks(
    counterparts: &BTreeMap<String, String>,
    before: &[UserKernels],
    after: &[UserKernels],
) -> Option<String> {
    let names = |side: &[UserKernels], is_matched: &dyn Fn(&String) -> bool, unjudged: &str| {
        let names = side.iter().filter(|own| !is_matched(&own.name)).map(|own| {
            let note = if has_no_reference(&own.problem) { unjudged } else { "" };
            format!("{}{note}", printable(&own.name))
        });
        names.collect::<Vec<_>>().join(", ")
    };
    let gone = names(before, &|name| counterparts.contains_key(name), "");
    let new = names(after, &|name| counterparts.values().any(|known| known == name), ", which nothing checks");
    (!gone.is_empty() && !new.is_empty()).then(|| format!("{new} (gone: {gone})"))
}

/// Lists what of a kernel's check differs between the sides: files by their contents, tolerances, the kind of reference.
fn changed_check(before: &ResolvedProblem, after: &ResolvedProblem) -> Vec<String> {
    let [old, new] = [before, after].map(hash_data_files);
    let names = old.keys().chain(new.keys()).filter(|name| old.get(*name) != new.get(*name));
    // Nobody misses the files of a reference that is gone.
    let names = names.filter(|_| !has_commands(before) || has_commands(after));
    let mut changes: BTreeSet<String> = names.cloned().collect();
    let has_same_code = |a: &PassList, b: &PassList| code_of(before, a) == code_of(after, b);
    for point in &after.points {
        let Some(earlier) = before.points.iter().find(|earlier| earlier.values == point.values) else { continue };
        let (is_same, what) = match (&earlier.reference, &point.reference) {
            (Reference::Command(a), Reference::Command(b)) => (a.line == b.line, "the reference"),
            (Reference::Files(a), Reference::Files(b)) => (a.len() == b.len(), "the reference"),
            // A reference kernel has the grid of the kernel, unless it states its own.
            (Reference::Kernel(a), Reference::Kernel(b)) if has_same_code(a, b) => {
                (a == b, "the grid or constants of the reference")
            }
            (Reference::Kernel(_), Reference::Kernel(_)) => (false, "the reference"),
            (a, b) => (a == b, "the reference"),
        };
        if !is_same {
            changes.insert(what.into());
        }
        for (index, buffer) in point.buffers.iter().enumerate() {
            // A buffer of another name is the one in its place.
            let same_name = earlier.buffers.iter().find(|earlier| earlier.name == buffer.name);
            let is_gone = |old: &&ResolvedBuffer| point.buffers.iter().all(|other| other.name != old.name);
            let earlier = same_name.or_else(|| earlier.buffers.get(index).filter(is_gone));
            let unnamed = |own: &ResolvedBuffer| ResolvedBuffer { name: String::new(), ..own.clone() }.to_string();
            if let Some(ResolvedBuffer { tolerance, .. }) = earlier.filter(|old| old.tolerance != buffer.tolerance) {
                let name = printable(&buffer.name);
                changes.insert(format!("the tolerance of {name}: {tolerance} → {}", buffer.tolerance));
            }
            if earlier.is_some_and(|earlier| unnamed(earlier) != unnamed(buffer)) {
                changes.insert(format!("the contents of {}", printable(&buffer.name)));
            }
        }
    }
    changes.into_iter().collect()
}

/// Returns the files that a problem reads besides its sources, by name, with hashes of their contents.
fn hash_data_files(problem: &ResolvedProblem) -> BTreeMap<String, String> {
    let name = |path: &Path| printable(&path.file_name().unwrap_or_default().to_string_lossy()).into_owned();
    let hash = |path: &Path| Some(fingerprint(&[&std::fs::read(path).ok()?]));
    problem.data_files().iter().filter_map(|path| Some((name(path), hash(path)?))).collect()
}

/// Returns the SPIR-V that passes run, without the names in it.
fn code_of(problem: &ResolvedProblem, list: &PassList) -> Vec<Vec<u32>> {
    list.dispatches.iter().map(|dispatch| without_debug_names(&problem.modules[dispatch.shader].spirv)).collect()
}

/// Returns the instructions of a module that are no names, lines or sources.
fn without_debug_names(spirv: &[u32]) -> Vec<u32> {
    code(spirv).map_while(Result::ok).flat_map(|instruction| instruction.words).copied().collect()
}

/// Whether two kernels are the same code with the same data, wherever their files are and however they are checked.
fn is_same_code(a: &UserKernels, b: &UserKernels) -> bool {
    let [a, b] = [a, b].map(|of| UserKernels {
        name: String::new(),
        problem: without_names(without_checks(of.problem.clone())),
        ..of.clone()
    });
    let anywhere = |of: &UserKernels| UserKernels { problem: without_folders(of.problem.clone()), ..of.clone() };
    anywhere(&a) == anywhere(&b) && hash_data_files(&a.problem) == hash_data_files(&b.problem)
}

/// Removes the names of a kernel, of its files, of what its code declares and of its buffers, which a rename changes.
fn without_names(mut problem: ResolvedProblem) -> ResolvedProblem {
    problem.name.clear();
    for module in &mut problem.modules {
        module.name.clear();
        module.spirv = without_debug_names(&module.spirv);
    }
    // A command makes inputs by their names.
    for point in problem.points.iter_mut().filter(|point| point.inputs.is_none()) {
        let scratch = point.pass_lists.iter_mut().flatten().flat_map(|list| &mut list.scratch);
        point.buffers.iter_mut().chain(scratch).for_each(|buffer| buffer.name.clear());
    }
    // Several kernels of one description compete by their names.
    if let [only] = &mut problem.configurations[..] {
        only.kernel.clear();
    }
    problem
}

/// Removes references with their modules, tolerances, and what is only said to the user.
fn without_checks(mut problem: ResolvedProblem) -> ResolvedProblem {
    (problem.commands, problem.left_out, problem.partial_groups) = (vec![], vec![], None);
    let mut used = vec![];
    for point in &mut problem.points {
        point.reference = Reference::None;
        for buffer in &mut point.buffers {
            for view in &mut buffer.parts {
                (view.tolerance, view.checked) = (Tolerance::Exact, false);
            }
            (buffer.tolerance, buffer.checked) = (Tolerance::Exact, false);
        }
        for dispatch in point.pass_lists.iter_mut().flatten().flat_map(|list| &mut list.dispatches) {
            let place = used.iter().position(|index| *index == dispatch.shader);
            dispatch.shader = place.unwrap_or_else(|| {
                used.push(dispatch.shader);
                used.len() - 1
            });
        }
    }
    problem.modules = used.into_iter().map(|index| problem.modules[index].clone()).collect();
    problem
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
