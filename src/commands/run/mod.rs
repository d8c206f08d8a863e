//! `gpukern run`.

mod captured;
mod elements;
pub(super) mod replay;
mod watch;

use super::document::Files;
use super::measuring::{self, PlanToMeasure};
use super::verify::RACES_NOTE;
use super::{CommandOutput, ab, bench, failures};
use crate::basis::alike::{distinct, grouped_where};
use crate::basis::pattern;
use crate::basis::printable::shown_word;
use crate::commands::cli::RunArgs;
use crate::compare::recipe::ENOUGH;
use crate::plan::axes::{AXES, Axis, AxisValues, SEED};
use crate::plan::options::cache;
use crate::record::marks::RunConditions;
use crate::report::and_more;
use crate::report::bench::median;
use crate::report::choices::{Choices, VariantSet};
use crate::report::fastest::{TimeRatio, about, are_too_close_in_the_mean, best_of, is_too_close, ratio_text};
use crate::report::table;
use crate::user::description::{Described, Fault};
use crate::user::options;
use crate::user::resolved::{Reference, ResolvedPoint, ResolvedProblem};
use crate::user::{init, resolve};
use crate::{
    CATALOGUE, Case, CaseGroup, CaseSpec, Error, Exit, FieldOptions, Host, Plan, PlanSection, Record, Request, Result,
    Selection, Setup, Shown, Tuned, UserKernels, Variant, VulkanOptions, brief, printable,
};
use elements::WantedBuffers;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Returns the folder of the file that the shell sends standard output to, as in `run k.comp --init > cases/k.toml`: paths
/// in a description are relative to it. `None` if that is no file, or not known.
fn output_folder() -> Option<PathBuf> {
    let file = std::fs::read_link("/proc/self/fd/1").ok()?;
    // Other names may be those of logs, from which the text is copied.
    let is_description = file.is_file() && file.extension().is_some_and(|ending| ending == "toml");
    file.parent().filter(|_| is_description).map(PathBuf::from)
}

pub(super) fn run(args: &RunArgs, vulkan: VulkanOptions, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    // Report every mistake in the command before a device is opened.
    failures::check_runnable(&args.kernel)?;
    if args.watch {
        return watch::run(args, vulkan, setup, host);
    }
    if args.init {
        return draft(args, host);
    }
    let problems = resolve_problems(args)?;
    let wanted = WantedBuffers::new(args, &problems)?;
    let request = args.request(vulkan);
    let tuned = tuned_for(&request, &request.selection)?;
    let mut requested = Plan { sections: vec![], run_tables: vec![] };
    let mut all_kernels: Vec<UserKernels> = vec![];
    for problem in problems {
        let mut kernels = named_kernels(&args.against, problem, &all_kernels)?;
        kernels.saves.clone_from(&wanted.saves);
        kernels.tuned = tuned.clone();
        // With --ab, several kernels compete by their first choices, as one does with a built-in variant; otherwise a
        // single kernel by its two choices.
        let is_of_choices = args.against.is_empty() && !kernels.has_several_kernels();
        let all_choices = args.tune || args.ab && is_of_choices;
        requested.sections.push(plan_section(&kernels, all_choices, &request.selection)?);
        all_kernels.push(kernels);
    }
    Files::of_measuring(&request, &args.output, &all_kernels, setup.loader.as_ref())
        .read("a saved failure", args.kernel.iter().map(|folder| folder.join(failures::FAILURE)))
        .check(host)?;
    if args.tune && all_kernels.iter().all(|kernels| kernels.first_choices().is_none()) {
        return Err(usage!(
            "nothing to tune: no value in [spec] is a list, such as LANES = [32, 64]; to tune a macro, make it a \
             constant: layout(constant_id = 0) const uint LANES = 32;"
        ));
    }
    let setup = setup.with_kernels(all_kernels).with_sources(request.sources);
    let setup = &Setup { reruns: args.repeat.unwrap_or(0), ..setup };
    if args.ab {
        let mut answer = ab::judge_run(args, &request, requested.sections, setup, host)?;
        answer.notes += &notes_on_kernels(&setup.kernels.iter().collect::<Vec<_>>(), &request);
        // A kernel without its barriers may well be the faster one.
        if answer.exit != Exit::Rejected && are_simulated(setup) {
            answer.notes.push_str(RACES_NOTE);
        }
        return Ok(answer);
    }
    let selected = requested.clone().only(&request.only)?;
    if args.dry_run {
        return bench::list(&selected, &request, &args.output, setup, host);
    }
    let options_hash = selected.options();
    let planned = PlanToMeasure { options_hash, requested, selected, shard: None, at_once: false, sides: None };
    let mut answer = measuring::measure_and_report(&planned, &request, &args.output, setup, host)?;
    if answer.exit == Exit::Success && are_simulated(setup) {
        answer.notes.push_str(RACES_NOTE);
    }
    if !args.tune && !names_choices(&request.selection) {
        answer.notes.extend(setup.kernels.iter().filter_map(choices_note));
    }
    wanted.print(&mut answer, host.width());
    Ok(answer)
}

/// Whether `sanitize` can tell of the kernels what the device may hide.
fn are_simulated(setup: &Setup) -> bool {
    setup.kernels.iter().all(UserKernels::are_simulated)
}

/// Says what kernels run without, and which edges of their work-groups the sizes leave unchecked.
pub(super) fn notes_on_kernels(kernels: &[&UserKernels], request: &Request) -> String {
    // As in `resolve_problems`, for the sizes of `bench` and `verify`.
    let has_default_sizes = request.selection.size.is_empty();
    let edges = kernels.iter().filter(|own| has_default_sizes && own.has_reference()).map(|own| own.edge_note());
    kernels.iter().map(|own| own.left_out_notes()).chain(edges).collect()
}

/// Says which of its choices a kernel was run with.
fn choices_note(kernels: &UserKernels) -> Option<String> {
    Some(format!("note      {}: {}; --tune times all\n", kernels.name, kernels.first_choices()?))
}

/// Drafts descriptions of the kernels.
fn draft(args: &RunArgs, host: &Host) -> Result<CommandOutput> {
    Files::default().read("a source", args.kernel.iter().chain(&args.config)).check(host)?;
    let mut text = String::new();
    for described in read_descriptions(args)?.iter().flatten() {
        text += &init::init(described, output_folder().as_deref())?;
    }
    Ok(CommandOutput::document(text, String::new()))
}

/// Returns the text that `run` adds below the tables: the best choices of `--tune`, and the times of captured kernels in
/// their programs.
pub(super) fn text_below_tables(
    record: &Record,
    request: &Request,
    all_kernels: &[UserKernels],
    plan: &Plan,
    width: usize,
) -> String {
    // `bench` has kernels too, those of [[run]] tables, and adds nothing.
    let Some(files) = &request.kernels else { return String::new() };
    let mut text = String::new();
    if files.tune {
        for kernels in all_kernels {
            text += &best_choices(record, kernels, plan, width);
        }
    }
    text + &captured::comparison_with_program(record, all_kernels)
}

/// Returns the results of `tune` for the built-in variants beside kernels that `selection` samples.
fn tuned_for(request: &Request, selection: &Selection) -> Result<Tuned> {
    let cache = selection.sampling.cache.as_deref().map(cache).transpose().map_err(Error::Usage)?;
    Ok(measuring::tuned(request)?.for_cache(cache.unwrap_or_default()))
}

/// Whether these are several captured kernels, for one table: each is a problem of its own, with one time.
pub(super) fn are_captured(all_kernels: &[UserKernels]) -> bool {
    all_kernels.len() > 1 && all_kernels.iter().all(|kernels| kernels.problem.captured.is_some())
}

/// Adds the cases of the `[[run]]` tables of a `bench` configuration to its plan; returns their kernels, with those that
/// cannot run. A description that only the side of the configuration `beside` has is left out.
pub(super) fn add_tables(plan: &mut Plan, request: &Request, beside: Option<&Path>) -> Result<Vec<UserKernels>> {
    let mut all_kernels: Vec<UserKernels> = vec![];
    let folder_of = |config: &'_ Path| config.parent().map(Path::to_path_buf).unwrap_or_default();
    let folder = request.config.as_deref().map(folder_of).unwrap_or_default();
    let other_folder = beside.map(folder_of);
    if plan.sections.is_empty() && !plan.run_tables.is_empty() {
        check_selection(&request.selection)?;
    }
    for table in std::mem::take(&mut plan.run_tables) {
        let kernels: Vec<_> = table.kernel.iter().map(|kernel| folder.join(kernel)).collect();
        let description = table.description.as_ref().map(|path| folder.join(path));
        if let (Some(other_folder), Some(path)) = (&other_folder, &table.description)
            && !folder.join(path).exists()
            && other_folder.join(path).exists()
        {
            continue;
        }
        let fields = FieldOptions { size: table.size.clone(), ..FieldOptions::default() };
        // A size was not typed here.
        let of_table = |error: Error| match error {
            Error::Usage(text) => {
                let file = request.config.as_deref().unwrap_or(Path::new("")).shown();
                usage!("{file}:{}: {}", table.line, text.replace("--size", "size"))
            }
            error => error,
        };
        if kernels.is_empty() && description.is_none() {
            return Err(of_table(usage!(
                "[[run]] names no kernel; add description = \"k.toml\" or kernel = \"k.comp\""
            )));
        }
        let files: Vec<_> = kernels.iter().chain(&description).cloned().collect();
        failures::check_runnable(&files).map_err(of_table)?;
        let described = options::describe(&kernels, description.as_deref(), &fields).map_err(of_table)?;
        check_commands(&described, request.no_commands)?;
        // A kernel that does not compile fails its own cases, and not those of the other tables.
        let (problem, against) = match resolve::resolve(&CATALOGUE, &described) {
            Ok(problem) => (problem, &table.against[..]),
            Err(error) => match resolve::unusable(&described[0], &error) {
                Some(problem) => (problem, &[][..]),
                None => return Err(of_table(error)),
            },
        };
        let mut kernels = named_kernels(against, problem, &all_kernels).map_err(of_table)?;
        // Variants are those of built-in algorithms here.
        let selection = Selection { variant: vec![], ..request.selection.clone().or(request.defaults.clone()) };
        if !kernels.against.is_empty() {
            kernels.tuned = tuned_for(request, &selection)?;
        }
        plan.sections.push(plan_section(&kernels, false, &selection)?);
        all_kernels.push(kernels);
    }
    Ok(all_kernels)
}

/// Returns the first axis of built-in cases that is typed: the descriptions of a user's kernels state what these are.
fn builtin_axis(axes: &AxisValues) -> Option<&'static Axis> {
    AXES.iter().copied().find(|axis| axis.name != SEED.name && axes.has(axis))
}

/// Refuses a typed axis of built-in cases beside a user's kernels, for which it would do nothing.
pub(super) fn check_axes(axes: &AxisValues) -> Result<()> {
    let Some(axis) = builtin_axis(axes) else { return Ok(()) };
    let value = axes.of(axis).join(",");
    Err(usage!("--{} {} is for built-in kernels; a description states it for yours", axis.name, brief(&value)))
}

/// Refuses typed options that select built-in cases, where a configuration has none.
fn check_selection(selection: &Selection) -> Result<()> {
    let Selection { algorithm, variant, size, axes, .. } = selection;
    let axis = builtin_axis(axes);
    let unused = match (&algorithm[..], &variant[..], &size[..], axis) {
        ([name, ..], ..) => format!("'{}'", brief(name)),
        (_, [_, ..], ..) => "--variant".into(),
        (_, _, [_, ..], _) => "--size".into(),
        (.., Some(axis)) => format!("--{}", axis.name),
        _ => return Ok(()),
    };
    Err(usage!(
        "{unused} is about built-in algorithms, and the configuration has only [[run]] tables: set `size` there, or the \
         rest in their descriptions; --only selects cases"
    ))
}

/// Returns the kernels of a problem and the variants to run `against` them, under a name that no `others` have: equal names
/// would denote the same problem.
pub(super) fn named_kernels(
    against: &[String],
    problem: ResolvedProblem,
    others: &[UserKernels],
) -> Result<UserKernels> {
    let is_builtin = |point: &ResolvedPoint| matches!(point.reference, Reference::Builtin(_));
    // `matmul:tiled` and `tiled` are equivalent: the reference determines the algorithm.
    let against: Vec<_> = against.iter().map(|name| name.rsplit(':').next().unwrap_or(name).to_string()).collect();
    if !against.is_empty() && !problem.points.iter().all(is_builtin) {
        let named = against.join(",");
        if Path::new(&named).is_file() {
            return Err(usage!(
                "--against takes built-in variants, and '{named}' is a file; to compare two kernels of yours, name both: \
                 `gpukern run k.toml old.comp new.comp --ab`"
            ));
        }
        return Err(usage!(
            "--against {named} needs a built-in algorithm that solves the same problem; add [reference] with builtin = \
             \"matmul\", size and roles"
        ));
    }
    let is_builtin_name = CATALOGUE.known(&problem.name).is_some();
    let base = if is_builtin_name { format!("{}-run", problem.name) } else { problem.name.clone() };
    let mut name = base.clone();
    let mut number = 1;
    while others.iter().any(|other| other.name == name) {
        number += 1;
        name = format!("{base}-{number}");
    }
    Ok(UserKernels { name, problem, against, saves: vec![], tuned: Tuned::none() })
}

fn read_descriptions(args: &RunArgs) -> Result<Vec<Vec<Described>>> {
    let (config, fields) = (args.config.as_deref(), args.fields());
    if args.ab {
        // Two folders, too, are of one problem then.
        return Ok(vec![options::describe(&args.kernel, config, &fields)?]);
    }
    options::problems(&args.kernel, config, &fields)
}

/// Reads and resolves each problem by itself, after a check that no description runs a forbidden command.
fn resolve_problems(args: &RunArgs) -> Result<Vec<ResolvedProblem>> {
    let mut problems = read_descriptions(args)?;
    for described in problems.iter_mut().flatten() {
        described.all_choices = args.tune || args.ab;
    }
    problems.iter().try_for_each(|described| check_commands(described, args.no_commands))?;
    let resolved = problems.iter().map(|described| {
        let mut problem = resolve::resolve(&CATALOGUE, described)?;
        // A user who chose the sizes needs no note about those left out.
        problem.partial_groups = problem.partial_groups.filter(|_| args.size.is_empty());
        Ok(problem)
    });
    resolved.collect()
}

/// Refuses descriptions with shell commands, if these are `forbidden` or the description is a captured case's.
pub(super) fn check_commands(described: &[Described], forbidden: bool) -> Result<()> {
    for described in described.iter().filter(|described| forbidden || described.of_case) {
        let Some((field, command)) = described.description.commands().into_iter().next() else { continue };
        let command = printable(&command);
        let message = match &described.file {
            Some((path, _)) if !forbidden => {
                format!("a case runs no commands, and this has `{command}`; name {} if you trust it", path.shown())
            }
            _ => format!("--no-commands forbids `{command}`; leave --no-commands out if you trust it"),
        };
        return Err(described.error(&Fault::new(field, message)));
    }
    Ok(())
}

/// Prints each shell command of the descriptions once, before the first one runs.
pub(super) fn print_commands<'a>(kernels: impl IntoIterator<Item = &'a UserKernels>, host: &Host) {
    let mut printed = host.printed_commands.borrow_mut();
    for (field, command) in kernels.into_iter().flat_map(|kernels| &kernels.problem.commands) {
        if printed.insert(command.clone()) {
            let what = if *field == "inputs.command" { "the command that makes the inputs" } else { "the reference" };
            // Even a quiet process prints other people's commands.
            host.messages.say(&format!("running {what}: `{}`\n", printable(command)));
        }
    }
}

/// Plans the cases: at each point of the axes, all possible choices of constants, or only the first of each kernel.
pub(super) fn plan_section(kernels: &UserKernels, all_choices: bool, selection: &Selection) -> Result<PlanSection> {
    let algorithm = kernels.clone().algorithm(&CATALOGUE).map_err(Error::Usage)?;
    let names: Vec<&str> = algorithm.variants.iter().map(|variant| &*variant.name).collect();
    let mut chosen = vec![];
    for pattern in &selection.variant {
        chosen.extend(pattern::select(pattern, &format!("kernel of {}", kernels.name), &names).map_err(Error::Usage)?);
    }
    let mut groups = vec![];
    for (point, size) in kernels.problem.sizes().into_iter().enumerate() {
        let spec = CaseSpec::new(&algorithm, size, kernels.dtype())
            .with(|options| options.seed = selection.axes.seed().unwrap_or(options.seed));
        let choices = kernels.choices(point, all_choices || names_choices(selection));
        let variants = choices.map(|choice| algorithm.variants[choice].clone());
        // In the order of the names that were typed: with --ab, the first is the baseline.
        let place = |variant: &Variant| chosen.iter().position(|name| *name == variant.name);
        let mut variants: Vec<_> = variants.filter(|variant| chosen.is_empty() || place(variant).is_some()).collect();
        variants.sort_by_key(place);
        if !variants.is_empty() {
            groups.push(CaseGroup::new(algorithm.clone(), spec, variants));
        }
    }
    if groups.is_empty() {
        return Err(Error::Usage(kernels.why_nothing_runs()));
    }
    PlanSection::of(groups, selection).map_err(Error::Usage)
}

/// Whether names of choices are stated: whoever does means these, and not only the first of each kernel.
fn names_choices(selection: &Selection) -> bool {
    selection.variant.iter().any(|name| name.contains('['))
}

/// Joins names that the command line split at the commas of their brackets: `k[BM=64,BN=32]`.
pub(super) fn whole_names(parts: &[String]) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for part in parts {
        match names.last_mut() {
            Some(name) if name.contains('[') && !name.contains(']') => *name = format!("{name},{part}"),
            _ => names.push(part.clone()),
        }
    }
    names
}

/// Returns the fastest choice of specialization constants for each device and size, and the choices that may be as fast.
fn best_choices(record: &Record, kernels: &UserKernels, plan: &Plan, width: usize) -> String {
    let mut text = String::new();
    let conditions = RunConditions::of(record);
    let planned = plan.ids();
    let processes = record.processes.iter().filter(|process| process.order.is_some()).count().max(1);
    for cases in grouped_where(&record.cases, |a, b| (a.device, &a.size) == (b.device, &b.size)) {
        let cases: Vec<_> = cases.into_iter().filter(|case| kernels.is_own(&case.variant)).collect();
        // The order of a record is that of its ids if it has several processes; the first choice is the default.
        let mut timed: Vec<_> = cases.iter().filter_map(|case| Some((*case, median(case)?))).collect();
        timed.sort_by_key(|(case, _)| planned.iter().position(|id| *id == case.id));
        let Some(best) = best_of(&timed.iter().map(|(case, _)| *case).collect::<Vec<_>>()) else { continue };
        let Some(best_time) = median(best) else { continue };
        let extents = extents(best, plan);
        let choice = kernels.choice(&best.variant);
        let left_out = match cases.len() - timed.len() {
            0 => String::new(),
            count => format!(" with a time ({count} without)"),
        };
        let (first, _) = &timed[0];
        let is_tied = |case: &&&Case| case.id != best.id && is_too_close(record, best, case);
        let mut tied: Vec<&Case> = timed.iter().map(|(case, _)| case).filter(is_tied).copied().collect();
        // The nearest rival is the one to decide between.
        tied.sort_by(|a, b| median(a).partial_cmp(&median(b)).unwrap_or(std::cmp::Ordering::Equal));
        let [elsewhere, told_by] = if processes == 1 { [" in another process", " by one process"] } else { ["", ""] };
        // If the default may be as fast, nobody knows whether another choice gains anything.
        if first.id == best.id && !tied.is_empty() || tied.iter().any(|case| case.id == first.id) {
            let others = tied.iter().map(|case| kernels.choice(&case.variant)).collect::<Vec<_>>().join(" or ");
            let line = format!(
                "no clear winner of {}{left_out} at {extents}: {choice} has the shortest median, but {others} may be as \
                 fast{elsewhere} (--processes {} may tell)",
                timed.len(),
                if processes == 1 { ENOUGH } else { 2 * processes }
            );
            let _ = write!(text, "\n{}", table::prose(&line, width, 2));
            continue;
        }
        let kind = match (timed.len(), cases.len()) {
            (1, all) if all > 1 => format!("the only one with a time, of {all}"),
            (timed, _) => format!("best of {timed}{left_out}"),
        };
        let mut line = format!("{kind}: {choice}, {best_time} at {extents}");
        if first.id != best.id
            && let Some(TimeRatio { ratio, .. }) = TimeRatio::of(best, first)
        {
            let about = about([best, first].into_iter(), &conditions);
            let _ = write!(line, ", {about}{}× the speed of {}", ratio_text(ratio), kernels.choice(&first.variant));
        }
        let _ = write!(text, "\n{}", table::prose(&line, width, 2));
        if let [rival, others @ ..] = &tied[..] {
            let more = and_more(others.len());
            let pair = format!("{},{}", best.variant, rival.variant);
            let line = format!(
                "  too close to tell{told_by}: {}{more}; `--ab -V {}` in place of --tune decides",
                rival.variant,
                shown_word(&pair)
            );
            text.push_str(&table::prose(&line, width, 4));
        }
    }
    let is_own = |case: &&Case| kernels.is_own(&case.variant);
    let own = Record { cases: record.cases.iter().filter(is_own).cloned().collect(), ..record.clone() };
    text + &best_for_all_sizes(&own, kernels, width)
}

/// Returns the one choice for several sizes, and those too close to it to tell; empty for one size.
fn best_for_all_sizes(record: &Record, kernels: &UserKernels, width: usize) -> String {
    let mut text = String::new();
    let sizes = distinct(record.cases.iter().map(|case| &case.size)).len();
    let sets = Choices::new(&[record]).sets;
    for VariantSet { variants, geometric_mean, worst, worst_size, .. } in
        sets.iter().filter(|set| sizes > 1 && set.variants.len() == 1)
    {
        let loss = match worst {
            ..1.005 => "the shortest median at each".into(),
            _ => format!("{geometric_mean:.2} times the shortest on average, {worst:.2} at {worst_size}"),
        };
        let mut line = format!("one choice for the {sizes} sizes: {}, {loss}", kernels.choice(&variants[0]));
        let tied: Vec<_> =
            tied_in_the_mean(record, &variants[0]).into_iter().map(|tied| kernels.choice(tied)).collect();
        if !tied.is_empty() {
            let _ = write!(line, "; on average, {} may be as fast", tied.join(" or "));
        }
        let _ = write!(text, "\n{}", table::prose(&line, width, 2));
    }
    text
}

/// Returns the other variants that may be as fast as `variant` in the mean over all its sizes.
fn tied_in_the_mean<'r>(record: &'r Record, variant: &str) -> Vec<&'r str> {
    let is_right = |case: &&Case| case.measured().is_some_and(|m| m.verification.unverified_reason().is_none());
    let right: Vec<&Case> = record.cases.iter().filter(is_right).collect();
    let cases = || right.iter().copied().filter(|case| case.variant == variant);
    let chosen: Vec<&Case> = cases().collect();
    let is_tied = |name: &&str| {
        let at = |own: &Case| {
            let is_at = |case: &&&Case| case.variant == *name && (case.device, &case.size) == (own.device, &own.size);
            right.iter().find(is_at).copied()
        };
        let others: Option<Vec<&Case>> = cases().map(at).collect();
        *name != variant && others.is_some_and(|others| are_too_close_in_the_mean(record, &chosen, &others))
    };
    distinct(right.iter().map(|case| &*case.variant)).into_iter().filter(is_tied).collect()
}

/// Returns the axes of a case with their values; empty if the case is not in `plan`.
fn extents(case: &Case, plan: &Plan) -> String {
    let groups = plan.sections.iter().flat_map(|section| &section.groups);
    let mut ids = groups.flat_map(|group| group.variants.iter().map(|variant| group.id(variant)));
    ids.find(|id| id.to_string() == case.id).map(|id| id.extents).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_commas_in_brackets_is_whole_again() {
        let names = |text: &str| whole_names(&text.split(',').map(String::from).collect::<Vec<_>>());
        assert_eq!(names("k[BM=64,BN=32],k[BM=8,BN=8]"), ["k[BM=64,BN=32]", "k[BM=8,BN=8]"]);
        assert_eq!(names("a,k[BM=64],b"), ["a", "k[BM=64]", "b"]);
    }
}
