//! `gpukern ab`.

mod answers;
mod pairs;

use super::measuring::UNLIKE;
use super::{
    CommandOutput, DeviceSession, Files, JSON, MeasurementCall, Target, failures, judging, measuring, origin,
    parse_duration, run as user_run,
};
use crate::basis::alike::distinct;
use crate::basis::command_line::{arguments, stated};
use crate::basis::printable::shown_word;
use crate::basis::random::{generator, orders_seed};
use crate::basis::units::in_words;
use crate::case::check;
use crate::case::method::{Round, has_time_for_round};
use crate::commands::cli::{AbArgs, Judging, RunArgs};
use crate::compare::paired::{AB_SCHEMA, Schedule, SideResult, Trial, Trials, Turns};
use crate::compare::{Verdict, has_other_answer, recipe};
use crate::engine::executor::Executor;
use crate::engine::job::duel::Side;
use crate::engine::manifest;
use crate::engine::session::Session;
use crate::engine::timekeeper::MAX_ROUNDS;
use crate::kernel::spirv;
use crate::plan::options::SamplingArgs;
use crate::plan::{DeviceClass, Sampling};
use crate::record::Verification;
use crate::user::{options, resolve};
use crate::{
    CATALOGUE, Case, CaseGroup, DeviceInfo, Error, Exit, FieldOptions, Host, LimitPolicy, MeasureOptions, Nanos,
    Outcome, Plan, PlanSection, Purpose, Record, Request, Result, Selection, Setup, Shader, Shown, Timing, Tuned,
    UserKernels, Validation, Variant, VulkanOptions, about, brief, input_file, printable, report, stats,
};
use answers::AnswerOfA;
use pairs::Pair;
use rand::seq::SliceRandom;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Default of `--max-time` for kernels.
const KERNELS_MAX_TIME: Duration = Duration::from_secs(10);
/// Default of `--max-time` for drivers, where each round starts, verifies and warms up three processes.
const DRIVERS_MAX_TIME: Duration = Duration::from_secs(60);
/// Expected duration from which a command is announced as long.
const MIN_ANNOUNCED_TIME: Duration = Duration::from_secs(10);
/// Sampling time limit of each process of a driver.
const PROCESS_MAX_TIME: Duration = Duration::from_millis(500);

/// Two sides that take turns.
enum AlternatingSides<'a> {
    /// Two kernels on one driver, alternating within one process.
    Kernels(Box<[Side; 2]>),
    /// Two drivers, or one in two environments; each has its own processes.
    Drivers([DriverSide<'a>; 2]),
}

/// Driver in an environment.
struct DriverSide<'a> {
    /// Its manifest; `None` for the installed drivers.
    manifest: Option<&'a Path>,
    variables: Vec<(String, OsString)>,
    /// Folder of its caches, if it has variables: those of a driver may not notice them.
    caches: Option<TempDir>,
}

/// Case, and the two sides that take turns on it.
struct Match<'a> {
    labels: [String; 2],
    sides: AlternatingSides<'a>,
    /// Problem, with the variants of both sides.
    group: CaseGroup,
    /// The same match without a reference, if that of `group` is the answer of A.
    unjudged: Option<Box<Self>>,
}

/// Adds the trial of a match to the result, with the answer of A that judged B, if one did.
type AddTrial<'a> = dyn FnMut(Trial, Option<AnswerOfA>) -> Result<()> + 'a;

/// Matches of a command, and the options that they share.
struct Contest<'a> {
    matches: Vec<Match<'a>>,
    devices: Vec<String>,
    sampling: Sampling,
    min_effect: f64,
    max_time: Duration,
    tuned: Tuned,
    /// File of --tuned.
    tuned_file: Option<PathBuf>,
    /// Command that repeats this one with more time for each case.
    longer_command: String,
    notes: String,
}

pub(super) fn run(args: &AbArgs, vulkan: &VulkanOptions, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    // Mistakes in the command are reported before a device is opened.
    let files = Files::default()
        .read("the loader", &setup.loader)
        .read("--tuned", &args.tuned)
        .read_sizes(&args.size)
        .read("--a-spirv", &args.a_spirv)
        .read("--b-spirv", &args.b_spirv)
        .read("--a-driver", &args.a_driver)
        .read("--b-driver", &args.b_driver);
    let kernels = described_kernels(args)?;
    let files = files.of_kernels(&kernels);
    files.written("--json", &args.json).written("--keep-failures", &args.keep_failures).check(host)?;
    let mut contest = Contest::new(args, &kernels, vulkan, host)?;
    if !kernels.is_empty() {
        contest.note_changed_variables(&[PathBuf::from(&args.algorithm)], host);
    }
    contest.judge(args.json.as_ref(), args.keep_failures.as_deref(), &setup.with_kernels(kernels), host)
}

impl AbArgs {
    /// Whether the sides are drivers, or environments of them.
    fn is_of_drivers(&self) -> bool {
        self.a_driver.is_some() || self.b_driver.is_some() || !self.a_env.is_empty() || !self.b_env.is_empty()
    }
}

/// Resolves the description or captured case that two drivers run, if one stands in place of the algorithm.
fn described_kernels(args: &AbArgs) -> Result<Vec<UserKernels>> {
    let path = PathBuf::from(&args.algorithm);
    let is_described = path.is_dir() || path.extension().is_some_and(|ending| ending == "toml");
    if !is_described || CATALOGUE.known(&args.algorithm).is_some() {
        return Ok(vec![]);
    }
    let shown = path.shown();
    if !args.is_of_drivers() {
        return Err(usage!(
            "`ab` runs '{shown}' on two drivers; add --b-driver or --b-env, or compare two kernels with `run --ab`"
        ));
    }
    if let Some(variant) = args.variant.first() {
        return Err(usage!("--variant {} chooses built-in kernels, and '{shown}' has its own", brief(variant)));
    }
    // The command line split it at commas, as sizes of an algorithm are.
    let size = args.size.join(",");
    let fields =
        FieldOptions { size: (!size.is_empty()).then_some(size).into_iter().collect(), ..FieldOptions::default() };
    failures::check_runnable(std::slice::from_ref(&path))?;
    let described = options::describe(&[path], None, &fields)?;
    user_run::check_commands(&described, false)?;
    let problem = resolve::resolve(&CATALOGUE, &described)?;
    Ok(vec![user_run::named_kernels(&[], problem, &[])?])
}

/// Runs `run --ab`: finds the faster of two kernels, or of two choices of constants, in each case.
pub(super) fn judge_run(
    args: &RunArgs,
    request: &Request,
    sections: Vec<PlanSection>,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput> {
    let Some(PlanSection { devices, sampling, .. }) = sections.first().cloned() else {
        return Err(Error::Usage("there is no kernel to run".into()));
    };
    let max_time = max_time(args.sampling.max_time.as_deref(), KERNELS_MAX_TIME)?;
    let mut matches = vec![];
    let groups: Vec<_> = sections.into_iter().flat_map(|section| section.groups).collect();
    let problems = distinct(groups.iter().map(|group| group.algorithm.name.to_string()));
    for group in groups {
        let [a, b] = &group.variants[..] else {
            let names: Vec<_> = group.variants.iter().map(|variant| &*variant.name).collect();
            let has = match names[..] {
                [_] if problems.len() > 1 => format!(
                    "but {} are different problems: their buffers, sizes or fills differ; make them the same",
                    in_words(&problems.iter().map(|name| brief(name)).collect::<Vec<_>>(), "and")
                ),
                [only] => format!("but size {} has only {only}; name another", group.spec.size),
                _ => format!(
                    "but size {} has {}: {}; choose two with -V",
                    group.spec.size,
                    names.len(),
                    names.join(", ")
                ),
            };
            return Err(usage!(
                "--ab takes two kernels, two values of a list in [spec], or one kernel and one built-in variant \
                 (--against), {has}"
            ));
        };
        // As in `gpukern ab`, what `--against` names is the baseline. It comes last, unless -V gives the order.
        let [a, b] = if args.against.is_empty() || !args.variant.is_empty() { [a, b] } else { [b, a] };
        matches.push(Match::of_variants(a, b, group.clone()));
    }
    let setup = &setup.with_kernels(answers::judge_by_a(&mut matches, &setup.kernels)?);
    let judging = &args.output.comparing.judging;
    let mut longer = request.clone();
    longer.selection.sampling.max_time = Some(ten_times(max_time));
    let mut options = stated(judging, &Judging::default());
    options.insert("ab".into(), true.into());
    let contest = Contest {
        matches,
        devices,
        sampling,
        min_effect: judging::settings(judging)?.min_effect,
        max_time,
        tuned: Tuned::none(),
        tuned_file: None,
        longer_command: longer.command_with(&host.program_name(), options),
        notes: failures::changed_variables(&args.kernel, &[], host),
    };
    contest.judge(args.output.json.as_ref(), args.output.keep_failures.as_deref(), setup, host)
}

fn max_time(text: Option<&str>, default: Duration) -> Result<Duration> {
    match text {
        Some(text) => parse_duration("max-time", text),
        None => Ok(default),
    }
}

/// Returns the exit code of the worst trial.
fn exit_of_trials(trials: &Trials, host: &Host) -> Exit {
    if trials.count(Verdict::Slower) > 0 || trials.have_lost_support() {
        return Exit::Rejected;
    }
    let sides = trials.cases.iter().flat_map(Trial::sides);
    let worst = measuring::exit_of_outcomes(sides.map(|(_, side)| &side.case.outcome));
    // A case that only A can run is no success of B, which may be what ships.
    let can_run = |side: &SideResult| !matches!(side.case.outcome, Outcome::Skipped { .. });
    let is_b_missing = trials.cases.iter().any(|trial| can_run(&trial.a) && !can_run(&trial.b));
    let all_decided = trials.not_measured == 0 && !is_b_missing && trials.cases.iter().all(is_decided);
    if worst != Exit::Success || all_decided {
        return worst;
    }
    if host.is_interrupted() { Exit::Interrupted } else { Exit::Undecided }
}

/// Returns whether more rounds cannot change the result of a trial.
fn is_decided(trial: &Trial) -> bool {
    skipped(trial).is_some() || trial.verdict().is_some_and(|verdict| verdict != Verdict::Undecided)
}

/// Returns the side of a trial that its device cannot run, and the reason.
fn skipped(trial: &Trial) -> Option<(&SideResult, &str)> {
    trial.sides().into_iter().find_map(|(_, side)| match &side.case.outcome {
        Outcome::Skipped { reason, .. } => Some((side, reason.as_str())),
        _ => None,
    })
}

/// Returns whether a trial ended undecided for lack of time; no time tells the same code apart.
fn needs_more_time(trial: &Trial, turns: Turns) -> bool {
    trial.is_measured()
        && !is_decided(trial)
        && !report::ab::runs_same_code(trial, turns)
        && (1..MAX_ROUNDS).contains(&trial.rounds.len())
}

/// Returns ten times `max_time` as a value of the option, for a case that needs more rounds.
fn ten_times(max_time: Duration) -> String {
    let millis = max_time.saturating_mul(10).as_millis().max(1);
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}

/// Plans the cases of the variants of an algorithm, or else of the user's `kernels`.
fn plan_section(
    args: &AbArgs,
    kernels: &[UserKernels],
    baselines: &[String],
    candidates: &[String],
) -> Result<PlanSection> {
    let selection = Selection {
        axes: args.axes.0.clone(),
        device: args.device.iter().cloned().collect(),
        sampling: SamplingArgs { cache: args.cache.clone(), ..SamplingArgs::default() },
        ..Selection::default()
    };
    if let [kernels] = kernels {
        return user_run::plan_section(kernels, false, &selection);
    }
    if candidates.is_empty() {
        let purpose = if baselines.is_empty() { "that both run" } else { "to judge" };
        return Err(usage!("no variant given {purpose}; add -V NAME"));
    }
    let selection = Selection {
        algorithm: vec![args.algorithm.clone()],
        variant: [baselines, candidates].concat(),
        size: args.size.clone(),
        ..selection
    };
    PlanSection::new(&CATALOGUE, &selection, Purpose::Bench).map_err(Error::Usage)
}

/// Returns names of variants with `all` as the pattern that matches all.
fn expand_all(names: &[String]) -> Vec<String> {
    names.iter().map(|name| if name == "all" { "*".into() } else { name.clone() }).collect()
}

impl<'a> Contest<'a> {
    fn new(args: &'a AbArgs, kernels: &[UserKernels], vulkan: &VulkanOptions, host: &Host) -> Result<Self> {
        if kernels.is_empty() {
            CATALOGUE.find(&args.algorithm).map_err(Error::Usage)?;
        }
        let baselines = expand_all(&args.against);
        let candidates = expand_all(&args.variant);
        pairs::refuse_auto(&[&baselines[..], &candidates].concat()).map_err(Error::Usage)?;
        let of_drivers = args.is_of_drivers();
        let of_files = args.a_spirv.is_some() || args.b_spirv.is_some();
        let kinds = [!args.against.is_empty(), of_files, of_drivers].into_iter().filter(|is_given| *is_given).count();
        let options = "--against VARIANT, --a-spirv or --b-spirv, --a-driver or --b-driver, or --a-env or --b-env";
        match kinds {
            0 => {
                let [a, b] = &args.variant[..] else { return Err(usage!("nothing to compare; add {options}")) };
                let [a, b] = [brief(a), brief(b)];
                return Err(usage!("-V {a},{b} names two candidates and no baseline; write -V {b} --against {a}"));
            }
            1 => {}
            _ => return Err(usage!("compare one difference at a time: keep only {options}")),
        }
        let PlanSection { devices, groups, sampling } = plan_section(args, kernels, &baselines, &candidates)?;
        let mut notes = vec![];
        let matches = if of_drivers {
            driver_matches(args, &groups)?
        } else if of_files {
            spirv_matches(args, groups)?
        } else {
            let algorithm = CATALOGUE.find(&args.algorithm).map_err(Error::Usage)?;
            let pairs = pairs::pairs(algorithm, &baselines, &candidates, &mut notes).map_err(Error::Usage)?;
            variant_matches(&pairs, args, &groups)?
        };
        let default = if of_drivers { DRIVERS_MAX_TIME } else { KERNELS_MAX_TIME };
        let max_time = max_time(args.max_time.as_deref(), default)?;
        let longer = AbArgs { max_time: Some(ten_times(max_time)), ..args.clone() };
        let mut options = stated(&longer, &AbArgs::default());
        options.extend(stated(vulkan, &VulkanOptions::default()));
        let judging = Judging { min_effect: args.min_effect.clone(), ..Judging::default() };
        Ok(Self {
            matches,
            devices,
            sampling,
            min_effect: judging::settings(&judging)?.min_effect,
            max_time,
            tuned: args
                .tuned
                .as_deref()
                .map_or_else(|| Ok(Tuned::none()), |path| measuring::read_tuned(path, "leave --tuned out"))?
                .for_cache(sampling.cache),
            tuned_file: args.tuned.clone(),
            longer_command: format!("{} ab {}", shown_word(&host.program_name()), arguments(options)),
            notes: notes.into_iter().map(|note| format!("note      {note}\n")).collect(),
        })
    }

    /// Says which variables of the saved failures in `folders` neither driver has; those of one side are what is compared.
    fn note_changed_variables(&mut self, folders: &[PathBuf], host: &Host) {
        if let Some(Match { sides: AlternatingSides::Drivers(drivers), .. }) = self.matches.first() {
            let [a, b] = drivers.each_ref().map(|driver| failures::changed_variables(folders, &driver.variables, host));
            self.notes += if b.is_empty() { &b } else { &a };
        }
    }

    /// Saves reproducers of the sides that failed in `folder`; `answers` are those of A by which B was judged. Returns a note.
    fn save_failures(
        &self,
        folder: &Path,
        trials: &Trials,
        answers: &[Option<AnswerOfA>],
        setup: &Setup,
        host: &Host,
    ) -> Result<String> {
        let mut saved = 0;
        for ((current, trial), answer) in self.matches.iter().zip(&trials.cases).zip(answers) {
            let environment = &origin::environment(host);
            let mut variables = [environment.clone(), environment.clone()];
            let kernels = match &current.sides {
                AlternatingSides::Kernels(kernels) => (**kernels).clone(),
                AlternatingSides::Drivers(drivers) => {
                    for (variables, driver) in variables.iter_mut().zip(drivers) {
                        let manifest = driver.manifest.map(|path| {
                            // The folder may be moved.
                            let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
                            ("VK_DRIVER_FILES".into(), path.shown())
                        });
                        let own =
                            driver.variables.iter().map(|(name, value)| (name.clone(), value.to_string_lossy().into()));
                        variables.extend(manifest.into_iter().chain(own));
                    }
                    let own_kernel = Side::new(&current.group.variants[0], None);
                    [own_kernel.clone(), own_kernel]
                }
            };
            let is_compared = current.unjudged.is_some() || answer.as_ref().is_some_and(|own| !own.has_reference);
            let mut references =
                [&setup.kernels, answer.as_ref().map_or(&setup.kernels, |own| &own.kernels)].map(Clone::clone);
            for point in references.iter_mut().flatten().flat_map(|own| &mut own.problem.points) {
                point.unverified |= is_compared;
            }
            let groups = [&current.group, answer.as_ref().map_or(&current.group, |own| &own.group)];
            let problems = groups.into_iter().zip(references.iter().map(Vec::as_slice));
            let sides = trial.sides().into_iter().zip(&kernels);
            for (((side, kernel), variables), problem) in sides.zip(&variables).zip(problems) {
                if failures::is_failure(&side.1.case.outcome) {
                    let of_side = (kernel, &self.tuned);
                    failures::save_side(folder, side, of_side, problem, trials, [environment, variables])?;
                    saved += 1;
                }
            }
        }
        Ok(failures::note(saved, folder))
    }

    /// Lets the sides of each match take turns. Returns the verdicts as the result of the command.
    fn judge(
        mut self,
        json: Option<&PathBuf>,
        keep_failures: Option<&Path>,
        setup: &Setup,
        host: &Host,
    ) -> Result<CommandOutput> {
        if !self.sampling.cache.is_hot() {
            self.notes += "note      the caches were emptied before each run (--cache cold)\n";
        }
        let target = Target::open_if_named(JSON, json)?;
        let failures_folder = keep_failures.map(failures::open).transpose()?;
        let of_drivers = self.matches.iter().any(|current| matches!(current.sides, AlternatingSides::Drivers(_)));
        let session = if of_drivers {
            self.drop_sizes_of_other_devices(setup);
            None
        } else {
            Some(self.open_device(setup, host)?)
        };
        let mut trials = Trials {
            schema: AB_SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            started: jiff::Timestamp::now().to_string(),
            command: host.command_line(),
            origin: origin::of_this_process(None, host)?,
            validation: setup.validation == Validation::On,
            turns: if of_drivers { Turns::Processes } else { Turns::Batches },
            min_effect: self.min_effect,
            cases: vec![],
            not_measured: self.matches.len(),
            exit: 0,
        };
        let mut answers = vec![];
        let mut add_trial = |trial, answer| {
            answers.push(answer);
            self.add_trial(trial, &mut trials, target.as_ref(), host)
        };
        let result = match session {
            Some(session) => self.judge_kernels(session, setup, host, &mut add_trial),
            None => self.judge_drivers(setup, host, &mut add_trial),
        };
        if trials.cases.is_empty() {
            return Err(result.err().unwrap_or(Error::Interrupted("a case was measured")));
        }
        let skipped_sides: Vec<_> = trials.cases.iter().map_while(skipped).collect();
        if skipped_sides.len() == self.matches.len() && !trials.have_lost_support() {
            let (side, reason) = skipped_sides[0];
            return Err(usage!("'{}' {reason}; choose a size and type that both can run", printable(&side.label)));
        }
        let mut text = report::ab::text(&trials, host.width());
        if trials.cases.iter().any(|trial| needs_more_time(trial, trials.turns)) && !host.is_interrupted() {
            let command = recipe::assignments(&origin::environment(host)) + &self.longer_command;
            let command = report::compare::to_paste(&command, host.width());
            let _ = write!(text, "for more rounds, give each case more time:\n{command}");
        }
        let mut answer = CommandOutput::new(text, self.notes.clone(), exit_of_trials(&trials, host));
        answer.note_error(result);
        trials.exit = answer.exit as u8;
        answer.deliver_json(target, &trials);
        if let Some(folder) = failures_folder {
            answer.add_late_note(self.save_failures(folder, &trials, &answers, setup, host));
        }
        Ok(answer)
    }

    /// Adds the trial of the next match. If there are several matches, prints a line about it and writes all trials so
    /// far, so that a killed process loses none of them; the trial of a single match is only written at the end.
    fn add_trial(&self, trial: Trial, trials: &mut Trials, target: Option<&Target>, host: &Host) -> Result<()> {
        let count = self.matches.len();
        trials.cases.push(trial);
        trials.correct();
        trials.not_measured = count - trials.cases.len();
        if count == 1 {
            return Ok(());
        }
        if let Some(trial) = trials.cases.last() {
            let options = self.matches.iter().map(|current| &current.group.spec.options);
            host.messages.line(&format!("{} of {count}: {}", trials.cases.len(), report::ab::brief(trial, options)));
        }
        trials.exit = exit_of_trials(trials, host) as u8;
        match target {
            Some(target) => target.write_unfinished(trials),
            None => Ok(()),
        }
    }

    /// Prints how long the matches may take, if that is long.
    fn announce_duration(&self, host: &Host) {
        let count = self.matches.len();
        let max_total = self.max_time.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        if count > 1 && max_total >= MIN_ANNOUNCED_TIME {
            let [each, total] = [self.max_time, max_total].map(|time| about(time.into()));
            host.messages.line(&format!("{count} cases, {each} each at most: up to {total}"));
        }
    }

    /// Drops the matches of default sizes for other kinds of devices than those of driver A. One that does not load is reported
    /// when it measures.
    fn drop_sizes_of_other_devices(&mut self, setup: &Setup) {
        // Stated sizes are for all devices, and nobody need ask for them which there are.
        let by_default = self.matches.iter().find(|current| current.group.on != DeviceClass::Any);
        let Some(AlternatingSides::Drivers([driver, _])) = by_default.map(|current| &current.sides) else { return };
        let setup = driver.setup(setup);
        let devices = Session::open(&setup).and_then(|session| {
            Ok(session.select_usable(&self.devices)?.into_iter().map(|device| device.kind).collect::<Vec<_>>())
        });
        if let Ok(kinds) = devices {
            self.matches.retain(|current| kinds.iter().any(|kind| current.group.on.suits(*kind)));
        }
    }

    /// Opens the device of kernels, and drops the matches of default sizes for other kinds of devices.
    fn open_device<'s>(&mut self, setup: &'s Setup, host: &'s Host) -> Result<DeviceSession<'s>> {
        let mut session = DeviceSession::open(setup, [&self.devices[..]], host)?;
        session.tuned = self.tuned.clone();
        let devices = session.session.select_usable(&self.devices)?;
        let [device] = devices[..] else {
            return Err(usage!("ab runs on one device, --device matches {}; name one by its index", devices.len()));
        };
        host.messages.line(&format!("device {}: {}", device.index, device.name));
        let file = self.tuned_file.as_deref();
        self.notes += &measuring::unused_results(file, std::slice::from_ref(device), &self.tuned);
        self.matches.retain(|current| current.group.on.suits(device.kind));
        Ok(session)
    }

    /// Judges matches of kernels, in rounds of batches of samples on one device.
    fn judge_kernels(
        &self,
        mut session: DeviceSession<'_>,
        setup: &Setup,
        host: &Host,
        add_trial: &mut AddTrial<'_>,
    ) -> Result<()> {
        user_run::print_commands(&setup.kernels, host);
        self.announce_duration(host);
        session.on_each_device(&self.devices, Timing::Sample, |executor| {
            for current in self.matches.iter().take_while(|_| !host.is_interrupted()) {
                add_trial(self.duel_on_answer_of_a(current, executor, host), None)?;
            }
            Ok(())
        })?;
        session.finish()
    }

    /// Judges one match of kernels: B by the answer of A, if nothing else tells what is right and A gives the same answer twice.
    fn duel_on_answer_of_a(&self, current: &Match<'_>, executor: &mut Executor<'_>, host: &Host) -> Trial {
        let mut trial = self.duel(current, executor);
        let Some(unjudged) = &current.unjudged else { return trial };
        // What leaves elements unwritten is no reference either.
        let is_mistaken = |side: &SideResult| matches!(side.case.outcome, Outcome::Failed { mistake: true, .. });
        let is_no_reference = is_mistaken(&trial.a) || is_mistaken(&trial.b);
        if is_no_reference || matches!(trial.a.case.outcome, Outcome::Rejected(_)) {
            if is_no_reference || answers::differs_from_reference(&trial.a.case) {
                host.messages.line(answers::NOT_THE_SAME);
            }
            let mut trial = self.duel(unjudged, executor);
            answers::rename([&mut trial.a.case, &mut trial.b.case]);
            return trial;
        }
        answers::say_unverified(&mut trial.a.case, "there is no reference");
        answers::say_compared(&mut trial.b.case, false);
        trial
    }

    /// Judges one match of kernels.
    fn duel(&self, current: &Match<'_>, executor: &mut Executor<'_>) -> Trial {
        let AlternatingSides::Kernels(kernels) = &current.sides else { unreachable!("drivers run in processes") };
        let sampling = Sampling { max_time: self.max_time, ..self.sampling };
        let mut schedule = Schedule::new(self.min_effect, self.matches.len());
        let (mut cases, rounds) =
            executor.duel(&current.group, kernels, &sampling, &mut |rounds| schedule.decided(rounds));
        for case in &mut cases {
            case.attach_entry(&CATALOGUE);
        }
        let device = executor.info();
        let [a, b] = &current.labels;
        let [case_a, mut case_b] = cases;
        // Otherwise a kernel that does half the work would be the faster one.
        if has_other_answer(&case_a, &case_b) {
            let reason = format!("{} A's {UNLIKE}", check::ANSWER_DIFFERS);
            case_b.outcome = Outcome::Rejected(Verification::without_answer(reason));
        }
        // A kernel may turn out to be wrong only after its timed runs; then there is no verdict.
        let is_measured = case_a.measured().is_some() && case_b.measured().is_some();
        Trial {
            a: result_of_side(a, device, case_a, &rounds, 0),
            b: result_of_side(b, device, case_b, &rounds, 1),
            finding: schedule.last(&rounds).filter(|_| is_measured),
            rounds,
        }
    }

    /// Judges matches of drivers, in rounds of processes.
    fn judge_drivers(&self, setup: &Setup, host: &Host, add_trial: &mut AddTrial<'_>) -> Result<()> {
        user_run::print_commands(&setup.kernels, host);
        self.announce_duration(host);
        host.listen()?;
        for current in self.matches.iter().take_while(|_| !host.is_interrupted()) {
            if let AlternatingSides::Drivers(drivers) = &current.sides {
                self.duel_drivers(current, drivers, setup, host, add_trial)?;
            }
        }
        Ok(())
    }

    /// Judges one match of drivers. An error that ends it after its first round is returned once the trial is added.
    fn duel_drivers(
        &self,
        current: &Match<'_>,
        drivers: &[DriverSide<'_>; 2],
        setup: &Setup,
        host: &Host,
        add_trial: &mut AddTrial<'_>,
    ) -> Result<()> {
        let sampling = Sampling { max_time: PROCESS_MAX_TIME, ..self.sampling };
        let section = PlanSection { devices: self.devices.clone(), groups: vec![current.group.clone()], sampling };
        let mut setups = drivers.each_ref().map(|driver| driver.setup(setup));
        let answer = AnswerOfA::find(&section, &setups[0], host)?;
        let mut sections = [section.clone(), section];
        if let Some(AnswerOfA { kernels, group, .. }) = &answer {
            sections[1].groups = vec![group.clone()];
            setups[1] = setups[1].with_kernels(kernels.clone());
        }
        let plans = sections.map(|section| Plan { sections: vec![section], run_tables: vec![] });
        let mut first: [Option<SideResult>; 2] = [None, None];
        let mut rounds: Vec<Round> = vec![];
        let mut failure = None;
        let mut schedule = Schedule::new(self.min_effect, self.matches.len());
        let started = host.elapsed();
        let mut random = generator(orders_seed(), 0);
        while has_time_for_round(rounds.len(), host.since(started), self.max_time) {
            // A random order, as within a process, spreads drift over both sides.
            let mut order = [0, 1, 2];
            order.shuffle(&mut random);
            match current.round(order, drivers, &plans, &setups, host, &mut first) {
                Ok(Some(round)) => rounds.push(round),
                Ok(None) => break,
                // A process that fails late must not lose the earlier rounds.
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
            let [a, b, control] = rounds[rounds.len() - 1];
            host.messages.line(&format!("round {}: A {a}, B {b}, A again {control}", rounds.len()));
            if schedule.decided(&rounds) {
                break;
            }
        }
        let [Some(mut a), Some(mut b)] = first else {
            return Err(failure.unwrap_or(Error::Interrupted("both drivers had measured anything")));
        };
        if let Some(answer) = &answer {
            let is_unlike = answers::say_compared(&mut b.case, answer.has_reference);
            let [size_a, size_b] = [&a, &b].map(|side| side.device.subgroup.size);
            let mut sources = setup.kernels.iter().flat_map(|own| &own.problem.sources);
            if let Some(described) = sources.next().filter(|_| is_unlike && size_a != size_b) {
                host.messages.line(&format!(
                    "note      sub-groups have {size_a} invocations on A, {size_b} on B: `gpukern sanitize {}` tells \
                     whether the kernel depends on that",
                    shown_word(&described.shown())
                ));
            }
        }
        let is_measured = a.case.measured().is_some() && b.case.measured().is_some();
        let finding = schedule.last(&rounds).filter(|_| is_measured);
        a.median = median_of_side(&a.case, &rounds, 0);
        b.median = median_of_side(&b.case, &rounds, 1);
        add_trial(Trial { a, b, rounds, finding }, answer)?;
        match failure {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Match<'_> {
    fn of_variants(a: &Variant, b: &Variant, group: CaseGroup) -> Self {
        let sides = AlternatingSides::Kernels(Box::new([Side::new(a, None), Side::new(b, None)]));
        Self { labels: [a.name.to_string(), b.name.to_string()], sides, group, unjudged: None }
    }

    /// Runs three processes in this order: A (0), B (1) and A again (2). `first` receives each side's first case, or the one
    /// without a time. Returns `None` if a time is missing or the user interrupted.
    fn round(
        &self,
        order: [usize; 3],
        drivers: &[DriverSide<'_>; 2],
        plans: &[Plan; 2],
        setups: &[Setup; 2],
        host: &Host,
        first: &mut [Option<SideResult>; 2],
    ) -> Result<Option<Round>> {
        let mut round = Round::default();
        let mut is_complete = true;
        for role in order {
            let side = usize::from(role == 1);
            let what = if drivers[side].manifest.is_some() { "driver" } else { "environment" };
            let name = format!("{} with {what} '{}'", ["A", "B"][side], self.labels[side]);
            // Tiles tuned for one driver would favor it.
            let tuned = Tuned::none();
            let options = MeasureOptions::new(Timing::Sample, LimitPolicy::Ignore, &tuned, host.command_line());
            let call = MeasurementCall::new(&plans[side], &setups[side], &options, host);
            let Some(record) = call.measure_in_fresh_processes(&name)? else { return Ok(None) };
            let result = result_of_process(record, &self.labels[side], &name)?;
            let time = report::bench::median(&result.case);
            // A case without a time explains the end of the match.
            if first[side].is_none() || time.is_none() {
                first[side] = Some(result);
            }
            is_complete &= time.is_some();
            round[role] = time.unwrap_or_default();
        }
        Ok(is_complete.then_some(round))
    }
}

/// Returns a match for each pair of variants on each problem that both solve.
fn variant_matches<'a>(pairs: &[Pair], args: &AbArgs, groups: &[CaseGroup]) -> Result<Vec<Match<'a>>> {
    let mut matches = vec![];
    for [a, b] in pairs {
        for group in groups {
            let find = |name: &str| group.variants.iter().find(|variant| variant.name == name).cloned();
            let (Some(a), Some(b)) = (find(&a.name), find(&b.name)) else { continue };
            let mut variants = vec![a.clone()];
            if a.name != b.name {
                variants.push(b.clone());
            }
            matches.push(Match::of_variants(&a, &b, CaseGroup { variants, ..group.clone() }));
        }
    }
    if matches.is_empty() {
        return Err(usage!(
            "'{}' and '{}' have no case in common; choose an element type and a layout that both have",
            expand_all(&args.variant).join(","),
            expand_all(&args.against).join(",")
        ));
    }
    Ok(matches)
}

/// Returns a match of the two drivers for each variant on each problem.
fn driver_matches<'a>(args: &'a AbArgs, groups: &[CaseGroup]) -> Result<Vec<Match<'a>>> {
    let mut matches = vec![];
    for group in groups {
        for variant in &group.variants {
            let a = DriverSide::new(args.a_driver.as_deref(), &args.a_env)?;
            let b = DriverSide::new(args.b_driver.as_deref(), &args.b_env)?;
            matches.push(Match {
                labels: [&a, &b].map(DriverSide::label),
                sides: AlternatingSides::Drivers([a, b]),
                group: CaseGroup { variants: vec![variant.clone()], ..group.clone() },
                unjudged: None,
            });
        }
    }
    Ok(matches)
}

impl<'a> DriverSide<'a> {
    fn new(manifest: Option<&'a Path>, variables: &[String]) -> Result<Self> {
        manifest.map_or(Ok(()), check_manifest)?;
        let variable = |text: &String| match text.split_once('=') {
            Some((_, value)) if value.split(',').skip(1).any(sets_variable) => {
                Err(usage!("'{}' has several variables; give each its own option", brief(text)))
            }
            Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
            _ => Err(usage!("'{}' sets no variable; write NAME=VALUE, as --b-env RADV_DEBUG=nocache", brief(text))),
        };
        let variables: Vec<_> = variables.iter().map(variable).collect::<Result<_>>()?;
        let folder =
            || tempfile::tempdir().map_err(|e| Error::Failure(format!("cannot make a folder for caches: {e}")));
        let caches = if variables.is_empty() { None } else { Some(folder()?) };
        Ok(Self { manifest, variables, caches })
    }

    /// Returns the setup of its processes.
    fn setup(&self, setup: &Setup) -> Setup {
        let mut setup = setup.in_workers();
        if let Some(manifest) = self.manifest {
            setup = setup.with_drivers(manifest.as_os_str().to_owned());
        }
        match &self.caches {
            Some(folder) => setup.with_variables(&self.variables, folder.path()),
            None => setup,
        }
    }

    /// Names the side: its manifest, then its variables.
    fn label(&self) -> String {
        let variable = |(name, value): &(String, OsString)| {
            let text = format!("{name}={}", value.to_string_lossy());
            printable(&text).into_owned()
        };
        let manifest = self.manifest.map(Shown::shown);
        let parts: Vec<_> = manifest.into_iter().chain(self.variables.iter().map(variable)).collect();
        if parts.is_empty() { "as installed".into() } else { parts.join(" ") }
    }
}

/// Returns a match for each problem. On one side or both, a SPIR-V file replaces one kernel of the variant.
fn spirv_matches<'a>(args: &AbArgs, groups: Vec<CaseGroup>) -> Result<Vec<Match<'a>>> {
    let paths = [args.a_spirv.as_deref(), args.b_spirv.as_deref()];
    let mut matches = vec![];
    for group in groups {
        let [variant] = &group.variants[..] else {
            return Err(usage!(
                "a file takes the place of a kernel of one variant, -V names {}; name one",
                group.variants.len()
            ));
        };
        let shaders = variant.shaders(group.spec.dtype, group.spec.layout).unwrap_or_default();
        let read = |path: Option<&Path>| path.map(|path| read_spirv(path, variant, &shaders)).transpose();
        let substitutes = [read(paths[0])?, read(paths[1])?];
        let replaced: Vec<String> = substitutes.iter().flatten().map(|(kernel, _)| kernel.clone()).collect();
        if let [a, b] = &replaced[..]
            && a != b
        {
            return Err(usage!("the files replace two different kernels, {a} and {b}; give two for one of them"));
        }
        // A side without a file runs the kernel itself.
        let labels = paths.map(|path| path.map_or_else(|| replaced[0].clone(), Shown::shown));
        let sides = substitutes.map(|substitute| Side::new(variant, substitute));
        matches.push(Match { labels, sides: AlternatingSides::Kernels(Box::new(sides)), group, unjudged: None });
    }
    Ok(matches)
}

/// Returns the median of a side's rounds. Without rounds, because the other side failed, its case may still have a time.
fn median_of_side(case: &Case, rounds: &[Round], side: usize) -> Option<Nanos> {
    let median = stats::median(&rounds.iter().map(|round| round[side].0).collect::<Vec<_>>());
    median.map(Nanos).or_else(|| report::bench::median(case))
}

/// Returns the result of a side of a match of kernels.
fn result_of_side(label: &str, device: &DeviceInfo, case: Case, rounds: &[Round], side: usize) -> SideResult {
    let median = median_of_side(&case, rounds, side);
    SideResult { label: label.into(), device: device.clone(), case, median }
}

/// Returns the result of a process that measured one case.
fn result_of_process(record: Record, label: &str, name: &str) -> Result<SideResult> {
    let Record { devices, cases, .. } = record;
    let ([device], [case]) = (&devices[..], &cases[..]) else {
        return Err(usage!("{name}: --device matches {} of its devices; name one by its index", devices.len()));
    };
    Ok(SideResult { label: label.into(), device: device.clone(), case: case.clone(), median: None })
}

/// Reads a SPIR-V file. Returns the label of the kernel of `variant` that it replaces, and its bytes.
fn read_spirv(path: &Path, variant: &Variant, shaders: &[&Shader]) -> Result<(String, Vec<u8>)> {
    let labels = || shaders.iter().map(|shader| shader.label()).collect::<Vec<_>>().join(", ");
    let refuse = |reason: String| usage!("cannot run '{}' in place of {}: {reason}", path.shown(), labels());
    let bytes = input_file::read(path, spirv::MAX_FILE_BYTES as u64)
        .map_err(|e| refuse(format!("{e}; name a SPIR-V file of a kernel")))?;
    if let [kernel] = shaders {
        spirv::check(&bytes, kernel).map_err(refuse)?;
    }
    // Of the kernels whose interface fits, the file replaces the one with the fewest arguments.
    let arguments = |shader: &Shader| shader.interface.arguments.len();
    let mut fitting = shaders.to_vec();
    fitting.retain(|shader| spirv::check(&bytes, shader).is_ok());
    let fewest = fitting.iter().map(|shader| arguments(shader)).min();
    fitting.retain(|shader| Some(arguments(shader)) == fewest);
    match fitting[..] {
        [kernel] => Ok((kernel.label(), bytes)),
        _ => Err(refuse(format!(
            "it fits {} of the {} kernels of variant '{}'; start from the source of one in glsl/, or choose a variant \
             with one kernel",
            fitting.len(),
            shaders.len(),
            variant.name
        ))),
    }
}

/// Whether a part of a variable's value looks like another variable: `RADV_DEBUG=llvm`.
fn sets_variable(part: &str) -> bool {
    let is_of_name = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    part.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_of_name))
}

/// Refuses a manifest that the Vulkan loader would silently ignore.
fn check_manifest(path: &Path) -> Result<()> {
    let name = path.shown();
    match manifest::problem(path) {
        Some(problem) => {
            Err(usage!("'{name}' is not a usable driver manifest: {problem}; drivers install theirs in vulkan/icd.d/"))
        }
        None => Ok(()),
    }
}
