//! `gpukern run`.

mod captured;
mod elements;
pub(super) mod replay;
mod watch;

use super::document::Files;
use super::measuring::{self, Planned};
use super::{CommandOutput, ab, bench};
use crate::algorithms::CaseSpec;
use crate::basis::error::{Error, Exit};
use crate::basis::printable::{Shown, printable};
use crate::commands::cli::RunArgs;
use crate::commands::host::Host;
use crate::engine::session::Setup;
use crate::kernels::CATALOGUE;
use crate::plan::options::Selection;
use crate::plan::request::FieldOptions;
use crate::plan::request::{Request, VulkanOptions};
use crate::plan::{CaseGroup, DeviceClass, Plan, PlanSection};
use crate::record::{Case, Record};
use crate::report::table;
use crate::user::algorithm::UserKernels;
use crate::user::description::{Described, Fault};
use crate::user::options;
use crate::user::resolved::{Reference, ResolvedPoint, ResolvedProblem};
use crate::user::{init, resolve};
use elements::Wanted;
use std::fmt::Write;
use std::path::Path;

pub(super) fn run(args: &RunArgs, vulkan: VulkanOptions, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    if args.watch {
        return watch::run(args, vulkan, setup, host);
    }
    if args.init {
        Files::default().read("a source", args.kernel.iter().chain(&args.config)).check(host)?;
        let described = described(args)?.concat();
        let texts = described.iter().map(init::init).collect::<Result<Vec<_>, _>>()?;
        return Ok(CommandOutput::document(texts.concat(), String::new(), Exit::Success));
    }
    // Report every mistake in the command before a device is opened.
    let resolved = resolved(args)?;
    let wanted = Wanted::new(args, &resolved)?;
    let request = args.request(vulkan);
    let (mut all, mut sections): (Vec<UserKernels>, Vec<PlanSection>) = (vec![], vec![]);
    for run in resolved {
        let mut kernels = named_kernels(&args.against, run, &all)?;
        kernels.saves.clone_from(&wanted.saves);
        // With --ab, several kernels compete by their first choices, a single kernel by its two choices.
        let every = args.tune || args.ab && !kernels.has_several_kernels();
        sections.push(planned(&kernels, every, &request.selection)?);
        all.push(kernels);
    }
    Files::of_measuring(&request, &args.output(), &all, setup.loader.as_ref()).check(host)?;
    let setup = &Setup { repeat: args.repeat.unwrap_or(0), ..setup.with_kernels(all.clone()) };
    if args.ab {
        return ab::judge_run(args, &request, sections, setup, host);
    }
    let whole = Plan { sections, run_tables: vec![] };
    let plan = whole.clone().only(&request.only)?;
    if args.dry_run {
        return bench::list(&plan, &request, setup, host);
    }
    let planned = Planned { options_hash: plan.options(), whole, plan, shard: None, at_once: false };
    let more = |record: &Record| {
        let best = all.iter().filter(|_| args.tune);
        let best = best.map(|kernels| best_choices(record, kernels, &planned.whole, host.width()));
        best.chain([captured::beside(record, &all)]).collect()
    };
    let mut answer = measuring::measure_and_report(&planned, &request, &args.output(), setup, host, &more)?;
    for kernels in all.iter().filter(|_| !args.tune) {
        if let Some(first) = kernels.first_choices() {
            let _ = writeln!(answer.notes, "note      {}: {first}; --tune times all", kernels.name);
        }
    }
    wanted.show(&mut answer, host.width());
    Ok(answer)
}

/// Adds the runs of the `[[run]]` tables of a `bench` configuration to its plan; returns their kernels.
pub(super) fn add_tables(plan: &mut Plan, request: &Request) -> Result<Vec<UserKernels>, Error> {
    let mut all: Vec<UserKernels> = vec![];
    let folder = request.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    for table in std::mem::take(&mut plan.run_tables) {
        let kernels: Vec<_> = table.kernel.iter().map(|kernel| folder.join(kernel)).collect();
        let description = table.description.as_ref().map(|path| folder.join(path));
        let fields = FieldOptions { size: table.size.clone(), ..FieldOptions::default() };
        let described = options::describe(&kernels, description.as_deref(), &fields)?;
        check_commands(&described, request.no_commands)?;
        let kernels = named_kernels(&table.against, resolve::resolve(&CATALOGUE, &described)?, &all)?;
        let selection = request.selection.clone().or(request.defaults.clone());
        plan.sections.push(planned(&kernels, false, &selection)?);
        all.push(kernels);
    }
    Ok(all)
}

/// Makes kernels from a resolved run, with variants to run beside them, under a name that no `others` have: equal names
/// would denote the same problem.
pub(super) fn named_kernels(
    against: &[String],
    problem: ResolvedProblem,
    others: &[UserKernels],
) -> Result<UserKernels, Error> {
    let is_builtin = |point: &ResolvedPoint| matches!(point.reference, Reference::Builtin(_));
    // `matmul:tiled` and `tiled` are equivalent: the reference determines the algorithm.
    let against: Vec<_> = against.iter().map(|name| name.rsplit(':').next().unwrap_or(name).to_string()).collect();
    if !against.is_empty() && !problem.points.iter().all(is_builtin) {
        return Err(Error::Usage(format!(
            "--against {} needs a built-in algorithm that solves the same problem; add [reference] with builtin = \"matmul\", \
             size and roles",
            against.join(",")
        )));
    }
    let taken = CATALOGUE.known(&problem.name).is_some();
    let first = if taken { format!("{}-run", problem.name) } else { problem.name.clone() };
    let (mut name, mut number) = (first.clone(), 1);
    while others.iter().any(|other| other.name == name) {
        number += 1;
        name = format!("{first}-{number}");
    }
    Ok(UserKernels { name, problem, against, saves: vec![] })
}

/// Reads the descriptions of each problem.
fn described(args: &RunArgs) -> Result<Vec<Vec<Described>>, Error> {
    options::problems(&args.kernel, args.config.as_deref(), &args.fields())
}

/// Resolves each problem by itself.
fn resolved(args: &RunArgs) -> Result<Vec<ResolvedProblem>, Error> {
    let problems = described(args)?;
    problems.iter().try_for_each(|described| check_commands(described, args.no_commands))?;
    problems.iter().map(|described| resolve::resolve(&CATALOGUE, described)).collect()
}

/// Refuses descriptions with shell commands, if these are `forbidden` or the description is a captured case's.
fn check_commands(described: &[Described], forbidden: bool) -> Result<(), Error> {
    let is_asked = |described: &&Described| forbidden || described.of_case;
    let found = described.iter().filter(is_asked);
    let mut found =
        found.filter_map(|described| Some((described, described.description.commands().into_iter().next()?)));
    let Some((described, (field, command))) = found.next() else { return Ok(()) };
    let command = printable(&command);
    let message = match (&described.file, forbidden) {
        (Some((path, _)), false) => {
            format!("a case runs no commands, and this has `{command}`; name {} if you trust it", path.shown())
        }
        _ => format!("--no-commands forbids `{command}`; leave --no-commands out if you trust it"),
    };
    Err(described.error(&Fault::new(field, message)))
}

/// Prints each shell command of the descriptions once, before the first one runs.
pub(super) fn name_commands(kernels: &[UserKernels], host: &Host) {
    let mut named = host.named_commands.borrow_mut();
    for (field, command) in kernels.iter().flat_map(|kernels| &kernels.problem.commands) {
        if named.insert(command.clone()) {
            let what = if *field == "inputs.command" { "the command that makes the inputs" } else { "the reference" };
            // Even a quiet process prints other people's commands.
            host.messages.say(&format!("running {what}: `{}`\n", printable(command)));
        }
    }
}

/// Plans the cases: at each point of the axes, `all` possible choices of constants, or the first of each kernel.
pub(super) fn planned(kernels: &UserKernels, all: bool, selection: &Selection) -> Result<PlanSection, Error> {
    let algorithm = kernels.clone().algorithm(&CATALOGUE).map_err(Error::Usage)?;
    let dtype = kernels.dtype();
    let groups = kernels.problem.sizes().into_iter().enumerate().map(|(point, size)| {
        let spec = CaseSpec::new(&algorithm, size, dtype)
            .with(|options| options.seed = selection.axes.seed().unwrap_or(options.seed));
        let variants = kernels.choices(point, all).map(|at| algorithm.variants[at].clone()).collect();
        let algorithm = algorithm.clone();
        CaseGroup { algorithm, spec, variants, on: DeviceClass::Any, auto: false, on_host: false }
    });
    let groups: Vec<_> = groups.filter(|group| !group.variants.is_empty()).collect();
    if groups.is_empty() {
        return Err(Error::Usage(kernels.why_nothing_runs()));
    }
    PlanSection::of(groups, selection).map_err(Error::Usage)
}

/// Prints the fastest choice of specialization constants for each device and size, as `--tune` does.
fn best_choices(record: &Record, kernels: &UserKernels, plan: &Plan, width: usize) -> String {
    let mut text = String::new();
    let median = |case: &Case| case.measured().map(|measured| measured.summary.median);
    let mut seen: Vec<&Case> = vec![];
    for case in &record.cases {
        if seen.iter().any(|other| (other.device, &other.size) == (case.device, &case.size)) {
            continue;
        }
        seen.push(case);
        let same = || record.cases.iter().filter(|other| (other.device, &other.size) == (case.device, &case.size));
        let timed = || same().filter(|case| median(case).is_some());
        let Some(best) =
            timed().min_by(|a, b| median(a).unwrap_or_default().0.total_cmp(&median(b).unwrap_or_default().0))
        else {
            continue;
        };
        let first = timed().next().filter(|first| first.id != best.id).and_then(|first| {
            let times = median(first)?.0 / median(best)?.0;
            Some(format!(", {times:.2}× the speed of {}", kernels.choice(&first.variant)))
        });
        let groups = plan.sections.iter().flat_map(|section| &section.groups);
        let mut ids = groups.flat_map(|group| group.variants.iter().map(|variant| group.id(variant)));
        let extents = ids.find(|id| id.to_string() == best.id).map(|id| id.extents).unwrap_or_default();
        let line = format!(
            "best of {}: {}, {} at {extents}{}",
            same().count(),
            kernels.choice(&best.variant),
            median(best).unwrap_or_default(),
            first.unwrap_or_default()
        );
        let _ = write!(text, "\n{}", table::prose(&line, width, 2));
        // The interval covers this process only: choices within it may rank differently in the next one.
        let interval = |case: &Case| case.measured().and_then(|measured| measured.summary.interval);
        let reaches = |case: &&Case| {
            let [interval_here, other] = [interval(case), interval(best)];
            interval_here.zip(other).is_none_or(|([low, _], [_, high])| low.0 <= high.0)
        };
        let equal: Vec<_> = timed().filter(|case| case.id != best.id).filter(reaches).collect();
        if let [first, others @ ..] = equal.as_slice() {
            let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
            let line = format!("  within its error: {}{more}; --ab decides between two", first.variant);
            text.push_str(&table::prose(&line, width, 4));
        }
    }
    text
}
