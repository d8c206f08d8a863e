//! `gpukern run`.

mod captured;
mod elements;
pub(super) mod replay;
mod watch;

use super::document::Files;
use super::measuring::{self, Planned};
use super::{CommandOutput, ab, bench};
use crate::algorithms::{Algorithm, CaseSpec};
use crate::basis::error::{Error, Exit};
use crate::basis::handle::Handle;
use crate::basis::printable::{Shown, printable, say};
use crate::commands::cli::RunArgs;
use crate::measure::session::Setup;
use crate::plan::options::Selection;
use crate::plan::request::{Request, VulkanOptions};
use crate::plan::{CaseGroup, DeviceClass, Plan, PlannedRun};
use crate::record::{Case, Record};
use crate::report::table;
use crate::run::algorithm::{Save, UserKernels};
use crate::run::description::{Described, Fault};
use crate::run::options::{self, Fields};
use crate::run::resolved::ResolvedRun;
use crate::run::{init, resolve};
use elements::Wanted;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub(super) fn run(args: &RunArgs, vulkan: VulkanOptions, setup: &Setup) -> Result<CommandOutput, Error> {
    if args.watch {
        return watch::run(args, vulkan, setup);
    }
    if args.init {
        Files::default().read("a source", args.kernel.iter().chain(&args.config)).check()?;
        let described = described(args)?.concat();
        let texts = described.iter().map(init::init).collect::<Result<Vec<_>, _>>()?;
        return Ok(CommandOutput::document(texts.concat(), String::new(), Exit::Success));
    }
    // Everything that can be wrong with the command is found before a device is opened.
    let resolved = resolved(args)?;
    let wanted = Wanted::new(args, &resolved)?;
    let request = args.request(vulkan);
    let (mut all, mut runs): (Vec<UserKernels>, Vec<PlannedRun>) = (vec![], vec![]);
    for run in resolved {
        let kernels = unlike(user_kernels(&args.against, run, wanted.saves.clone())?, &all);
        let own = kernels.clone().algorithm().map_err(Error::Usage)?;
        // Of several kernels --ab judges the first choices, of one the two that it has.
        let every = args.tune || args.ab && !kernels.has_several_kernels();
        runs.push(planned(&kernels, &own, every, &request.selection)?);
        all.push(kernels);
    }
    Files::of_measuring(&request, &args.output(), &all, setup.loader.as_ref()).check()?;
    let setup = &Setup { repeat: args.repeat.unwrap_or(0), ..setup.with_kernels(all.clone()) };
    if args.ab {
        return ab::judge_run(args, runs, setup);
    }
    let whole = Plan { runs, run_tables: vec![] };
    let plan = whole.clone().only(&request.only)?;
    if args.dry_run {
        return bench::list(&plan, &request, setup);
    }
    let planned = Planned { options_hash: plan.options(), whole, plan, shard: None, at_once: false };
    let more = |record: &Record| {
        let best = all.iter().filter(|_| args.tune).map(|kernels| best_choices(record, kernels));
        best.chain([captured::beside(record, &all)]).collect()
    };
    let mut answer = measuring::carry_out(&planned, &request, &args.output(), setup, &more)?;
    for kernels in all.iter().filter(|_| !args.tune) {
        if let Some(first) = kernels.first_choices() {
            let _ = writeln!(answer.notes, "note      {}: {first}; --tune times all", kernels.name);
        }
    }
    wanted.show(&mut answer);
    Ok(answer)
}

/// The kernels under a name that no `others` have: what has the same name is another problem.
fn unlike(mut kernels: UserKernels, others: &[UserKernels]) -> UserKernels {
    let taken = |name: &str| others.iter().any(|other| other.name == name);
    let name = kernels.name.clone();
    let names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
    kernels.name = names.into_iter().find(|name| !taken(name)).unwrap_or(name);
    kernels
}

/// Adds the runs of the `[[run]]` tables of a configuration of `bench` to its plan; returns their kernels.
pub(super) fn add_tables(plan: &mut Plan, request: &Request) -> Result<Vec<UserKernels>, Error> {
    let mut all: Vec<UserKernels> = vec![];
    let folder = request.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    for table in std::mem::take(&mut plan.run_tables) {
        let kernels: Vec<_> = table.kernel.iter().map(|kernel| folder.join(kernel)).collect();
        let description = table.description.as_ref().map(|path| folder.join(path));
        let fields = Fields { size: table.size.clone(), ..Fields::default() };
        let described = options::describe(&kernels, description.as_deref(), &fields)?;
        check_commands(&described, request.no_commands)?;
        let kernels = beside(&table.against, resolve::resolve(&described)?, &all)?;
        let own = kernels.clone().algorithm().map_err(Error::Usage)?;
        let selection = request.selection.clone().or(request.defaults.clone());
        plan.runs.push(planned(&kernels, &own, false, &selection)?);
        all.push(kernels);
    }
    Ok(all)
}

/// What was resolved, with the variants to run beside it, under a name that none of `others` has.
pub(super) fn beside(against: &[String], run: ResolvedRun, others: &[UserKernels]) -> Result<UserKernels, Error> {
    Ok(unlike(user_kernels(against, run, vec![])?, others))
}

/// What is written about the kernels of each problem.
fn described(args: &RunArgs) -> Result<Vec<Vec<Described>>, Error> {
    options::problems(&args.kernel, args.config.as_deref(), &args.fields())
}

/// What is to be run: each problem by itself.
fn resolved(args: &RunArgs) -> Result<Vec<ResolvedRun>, Error> {
    let problems = described(args)?;
    problems.iter().try_for_each(|described| check_commands(described, args.no_commands))?;
    problems.iter().map(|described| resolve::resolve(described)).collect()
}

/// Refuses descriptions that have commands run, where they are `forbidden` or the description is a case's.
fn check_commands(described: &[Described], forbidden: bool) -> Result<(), Error> {
    let is_asked = |own: &&Described| forbidden || own.of_case;
    let found = described.iter().filter(is_asked);
    let mut found = found.filter_map(|own| Some((own, own.description.commands().into_iter().next()?)));
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

/// Names the commands that descriptions of kernels have run, each once in the life of this process: once nothing else is in
/// the way, and before the first of them is run.
pub(super) fn name_commands(kernels: &[UserKernels]) {
    static NAMED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    for (field, command) in kernels.iter().flat_map(|kernels| &kernels.run.commands) {
        if named.insert(command.clone()) {
            let what = if *field == "inputs.command" { "the command that makes the inputs" } else { "the reference" };
            // Even a quiet process says whose commands it runs.
            say(&format!("running {what}: `{}`\n", printable(command)));
        }
    }
}

/// What was resolved, with the variants to run beside it.
fn user_kernels(against: &[String], run: ResolvedRun, saves: Vec<Save>) -> Result<UserKernels, Error> {
    // `matmul:tiled` and `tiled` are the same: the reference says of which algorithm.
    let against = against.iter().map(|name| name.rsplit(':').next().unwrap_or(name).to_string()).collect();
    let taken = crate::algorithms::ALGORITHMS.iter().any(|own| own.name == run.name);
    let name = if taken { format!("{}-run", run.name) } else { run.name.clone() };
    let kernels = UserKernels { name, run, against, saves };
    kernels.check().map_err(Error::Usage)?;
    Ok(kernels)
}

/// The cases: every point of the axes, with every choice of constants that it lets pass, or the first of each kernel.
pub(super) fn planned(
    kernels: &UserKernels,
    algorithm: &Handle<Algorithm>,
    all: bool,
    selection: &Selection,
) -> Result<PlannedRun, Error> {
    let dtype = kernels.dtype();
    let groups = kernels.run.sizes().into_iter().enumerate().map(|(point, size)| {
        let spec = CaseSpec::new(algorithm, size, dtype)
            .with(|options| options.seed = selection.axes.seed().unwrap_or(options.seed));
        let variants = kernels.choices(point, all).map(|at| algorithm.variants[at].clone()).collect();
        let algorithm = algorithm.clone();
        CaseGroup { algorithm, spec, variants, on: DeviceClass::Any, auto: false, on_host: false }
    });
    let groups: Vec<_> = groups.filter(|group| !group.variants.is_empty()).collect();
    if groups.is_empty() {
        return Err(Error::Usage(kernels.nothing()));
    }
    PlannedRun::of(groups, selection).map_err(Error::Usage)
}

/// The choice of specialization constants that was fastest for each device and size, as lines of a description: for `--tune`.
fn best_choices(record: &Record, kernels: &UserKernels) -> String {
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
        let named = |case: &Case| {
            kernels.choice(&case.variant).map_or_else(
                || case.variant.clone(),
                |choice| choice.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", "),
            )
        };
        let first = timed().next().filter(|first| first.id != best.id).and_then(|first| {
            let times = median(first)?.0 / median(best)?.0;
            Some(format!(", {times:.2}× the speed of {}", named(first)))
        });
        let extents = best.id.rsplit('/').next().unwrap_or_default();
        let line = format!(
            "best of {}: {}, {} at {extents}{}",
            same().count(),
            named(best),
            median(best).unwrap_or_default(),
            first.unwrap_or_default()
        );
        let _ = write!(text, "\n{}", table::prose(&line, table::width(), 2));
        // An interval tells what one process knows: choices within it may change places in the next.
        let interval = |case: &Case| case.measured().and_then(|measured| measured.summary.interval);
        let reaches = |case: &&Case| {
            let [own, other] = [interval(case), interval(best)];
            own.zip(other).is_none_or(|([low, _], [_, high])| low.0 <= high.0)
        };
        let equal: Vec<_> = timed().filter(|case| case.id != best.id).filter(reaches).collect();
        if let [first, others @ ..] = equal.as_slice() {
            let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
            let line = format!("  within its error: {}{more}; --ab decides between two", first.variant);
            text.push_str(&table::prose(&line, table::width(), 4));
        }
    }
    text
}
