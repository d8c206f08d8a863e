//! `gpukern ab`.

mod pairs;

use super::campaign::{self, Campaign, measure_in_fresh_processes};
use super::document::{Files, JSON, Target};
use super::{CommandOutput, combined_exit, duration, failures, judging, measuring};
use crate::algorithms::{Algorithm, Variant};
use crate::basis::command_line::{arguments, stated};
use crate::basis::error::{Error, Exit};
use crate::basis::input_file;
use crate::basis::printable::{Shown, printable, shown_word};
use crate::basis::random::generator;
use crate::basis::random::orders_seed;
use crate::basis::units::{Nanos, about};
use crate::case::method::Round;
use crate::commands::cli::{AbArgs, Judging, RunArgs};
use crate::commands::host::Host;
use crate::compare::paired::{AB_SCHEMA, Schedule, SideResult, Trial, Trials, Turns};
use crate::compare::{Verdict, recipe};
use crate::engine::executor::Executor;
use crate::engine::job::duel::Side;
use crate::engine::measurement::{LimitPolicy, MeasureOptions};
use crate::engine::runner::Timing;
use crate::engine::session::Setup;
use crate::engine::timekeeper::MAX_ROUNDS;
use crate::kernel::shaders::Shader;
use crate::kernel::spirv;
use crate::kernels::CATALOGUE;
use crate::plan::options::{SamplingArgs, Selection};
use crate::plan::request::{Request, VulkanOptions};
use crate::plan::{CaseGroup, Plan, PlanSection, Purpose, Sampling};
use crate::record::{Outcome, Record};
use crate::report;
use crate::stats;
use crate::tuning::tuned::Tuned;
use crate::vulkan::Validation;
use rand::seq::SliceRandom;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default of `--max-time` for kernels.
const KERNELS_MAX_TIME: Duration = Duration::from_secs(10);
/// Default of `--max-time` for drivers, where each round starts, verifies and warms up three processes.
const DRIVERS_MAX_TIME: Duration = Duration::from_secs(60);
/// Rounds before the first test for a decision: the fewest that give an interval.
const MIN_ROUNDS: usize = 6;
/// Expected duration from which a command is announced as long.
const MIN_ANNOUNCED_TIME: Duration = Duration::from_secs(10);
/// Sampling time limit of each process of a driver.
const PROCESS_MAX_TIME: Duration = Duration::from_millis(500);

/// Two sides that take turns.
enum Sides<'a> {
    /// Two kernels on one driver, alternating within one process.
    Kernels(Box<[Side; 2]>),
    /// Paths of two drivers' manifests; each driver has its own processes.
    Drivers([&'a Path; 2]),
}

/// Case, and the two sides that take turns on it.
struct Match<'a> {
    labels: [String; 2],
    sides: Sides<'a>,
    /// Problem, with the variants of both sides.
    group: CaseGroup,
}

/// Matches of a command, and the options that they share.
struct Contest<'a> {
    matches: Vec<Match<'a>>,
    devices: Vec<String>,
    sampling: Sampling,
    min_effect: f64,
    max_time: Duration,
    /// Command that repeats this one with more time for each case.
    longer_command: String,
    notes: String,
}

pub(super) fn run(args: &AbArgs, vulkan: &VulkanOptions, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    // Mistakes in the command are reported before a device is opened.
    let files = Files::default()
        .read("the loader", &setup.loader)
        .read("--a-spirv", &args.a_spirv)
        .read("--b-spirv", &args.b_spirv)
        .read("--a-driver", &args.a_driver)
        .read("--b-driver", &args.b_driver);
    files.written("--json", &args.json).written("--keep-failures", &args.keep_failures).check(host)?;
    Contest::new(args, vulkan, host)?.play(args.json.as_ref(), args.keep_failures.as_deref(), setup, host)
}

/// Runs `run --ab`: finds the faster of two kernels, or of two choices of constants, in each case.
pub(super) fn judge_run(
    args: &RunArgs,
    request: &Request,
    runs: Vec<PlanSection>,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput, Error> {
    let Some(PlanSection { devices, sampling, .. }) = runs.first().cloned() else {
        return Err(Error::Usage("there is no kernel to run".into()));
    };
    let matches = runs.into_iter().flat_map(|run| run.groups).map(|group| {
        let [a, b] = &group.variants[..] else {
            let names: Vec<_> = group.variants.iter().map(|variant| &*variant.name).collect();
            let given = match names[..] {
                [one] => format!("only {one} was given"),
                _ => format!("size {} has {}: {}", group.spec.size, names.len(), names.join(", ")),
            };
            return Err(Error::Usage(format!(
                "--ab needs two kernels, or one with a list of two in [spec]; {given}; for example `gpukern run k.toml \
                 old.comp new.comp --ab`"
            )));
        };
        Ok(Match::of_variants([a, b], group.clone()))
    });
    let max_time = max_time(args.sampling.max_time.as_deref(), KERNELS_MAX_TIME)?;
    let sampled = SamplingArgs { max_time: Some(ten_times(max_time)), ..request.selection.sampling.clone() };
    let selection = Selection { sampling: sampled, ..request.selection.clone() };
    let mut more = stated(&args.output.comparing.judging, &Judging::default());
    more.insert("ab".into(), true.into());
    let contest = Contest {
        matches: matches.collect::<Result<_, _>>()?,
        devices,
        sampling,
        min_effect: judging::settings(&args.output.comparing.judging)?.min_effect,
        max_time,
        longer_command: Request { selection, ..request.clone() }.command_with(&host.program_name(), more),
        notes: String::new(),
    };
    contest.play(args.output.json.as_ref(), args.output.keep_failures.as_deref(), setup, host)
}

/// Parses `--max-time`, if it is given.
fn max_time(typed: Option<&str>, default: Duration) -> Result<Duration, Error> {
    typed.map_or(Ok(default), |text| duration("max-time", text))
}

/// Returns the exit code of the worst trial.
fn exit(trials: &Trials, host: &Host) -> Exit {
    let decided = |trial: &Trial| {
        skipped(trial).is_some() || trial.verdict().is_some_and(|verdict| verdict != Verdict::Undecided)
    };
    let sides = trials.cases.iter().flat_map(Trial::sides);
    match measuring::worst(sides.map(|(_, side)| &side.case.outcome)) {
        _ if trials.count(Verdict::Slower) > 0 => Exit::Rejected,
        Exit::Success if trials.not_measured == 0 && trials.cases.iter().all(decided) => Exit::Success,
        Exit::Success if host.is_interrupted() => Exit::Interrupted,
        Exit::Success => Exit::Undecided,
        worst => worst,
    }
}

/// Returns the side of a trial that its device cannot run, and the reason.
fn skipped(trial: &Trial) -> Option<(&SideResult, &str)> {
    trial.sides().into_iter().find_map(|(_, side)| match &side.case.outcome {
        Outcome::Skipped { reason } => Some((side, reason.as_str())),
        _ => None,
    })
}

/// Returns whether a trial ended undecided for lack of time.
fn needs_more_time(trial: &Trial) -> bool {
    let measured = trial.sides().iter().all(|(_, side)| side.case.measured().is_some());
    let open = measured && trial.verdict().is_none_or(|verdict| verdict == Verdict::Undecided);
    open && (1..MAX_ROUNDS).contains(&trial.rounds.len())
}

/// Returns ten times `max_time` as an option: for a case that needs more rounds.
fn ten_times(max_time: Duration) -> String {
    match max_time.saturating_mul(10).as_millis().max(1) {
        whole if whole % 1000 == 0 => format!("{}s", whole / 1000),
        millis => format!("{millis}ms"),
    }
}

impl<'a> Contest<'a> {
    /// Returns the contest that the command line asks for.
    fn new(args: &'a AbArgs, vulkan: &VulkanOptions, host: &Host) -> Result<Self, Error> {
        let algorithm = CATALOGUE.find(&args.algorithm).map_err(Error::Usage)?;
        let of_drivers = args.a_driver.is_some() || args.b_driver.is_some();
        let of_files = args.a_spirv.is_some() || args.b_spirv.is_some();
        let kinds = [!args.against.is_empty(), of_files, of_drivers];
        if kinds.into_iter().filter(|given| *given).count() != 1 {
            let problem = if kinds == [false; 3] { "nothing" } else { "more than one kind of thing" };
            return Err(Error::Usage(format!(
                "{problem} to compare; add --against VARIANT, --a-spirv or --b-spirv, or --a-driver and --b-driver"
            )));
        }
        let judging = Judging { min_effect: args.min_effect.clone(), ..Judging::default() };
        let expand_all = |names: &[String]| -> Vec<String> {
            names.iter().map(|name| if name == "all" { "*".into() } else { name.clone() }).collect()
        };
        let [against, judged] = [&args.against, &args.variant].map(|names| expand_all(names));
        if judged.is_empty() {
            let use_of_it = if against.is_empty() { "that both run" } else { "to judge" };
            return Err(Error::Usage(format!("no variant given {use_of_it}; add -V NAME")));
        }
        let selection = Selection {
            algorithm: vec![args.algorithm.clone()],
            variant: [&against[..], &judged[..]].concat(),
            size: args.size.clone(),
            axes: args.axes.0.clone(),
            device: args.device.iter().cloned().collect(),
            ..Selection::default()
        };
        let PlanSection { devices, groups, sampling } =
            PlanSection::new(&CATALOGUE, &selection, Purpose::Bench).map_err(Error::Usage)?;
        let (matches, notes) = if of_drivers {
            (driver_matches(args, groups)?, vec![])
        } else if of_files {
            (spirv_matches(args, groups)?, vec![])
        } else {
            variant_matches(algorithm, &against, &judged, &groups)?
        };
        let default = if of_drivers { DRIVERS_MAX_TIME } else { KERNELS_MAX_TIME };
        let max_time = max_time(args.max_time.as_deref(), default)?;
        let longer = AbArgs { max_time: Some(ten_times(max_time)), ..args.clone() };
        let mut options = stated(&longer, &AbArgs::default());
        options.extend(stated(vulkan, &VulkanOptions::default()));
        Ok(Self {
            matches,
            devices,
            sampling,
            min_effect: judging::settings(&judging)?.min_effect,
            max_time,
            longer_command: format!("{} ab {}", shown_word(&host.program_name()), arguments(options)),
            notes: notes.into_iter().map(|note| format!("note      {note}\n")).collect(),
        })
    }

    /// Saves reproducers of the sides that failed in `folder`. Returns a note.
    fn save_failures(&self, folder: &Path, trials: &Trials) -> Result<String, Error> {
        let command = trials.command.join(" ");
        let mut saved = 0;
        for (current, trial) in self.matches.iter().zip(&trials.cases) {
            let of_driver = || Side::new(&current.group.variants[0], None);
            let drivers = [of_driver(), of_driver()];
            let kernels = match &current.sides {
                Sides::Kernels(kernels) => kernels,
                Sides::Drivers(_) => &drivers,
            };
            let [a, b] = trial.sides().map(|(_, side)| side);
            let sides = [("A", &a.case, &a.device, &kernels[0]), ("B", &b.case, &b.device, &kernels[1])];
            saved += failures::save_sides(folder, sides, &current.group, &command, trials.validation)?;
        }
        Ok(failures::note(saved, folder))
    }

    /// Plays all matches. Returns their verdicts as the result of the command.
    fn play(
        &self,
        json: Option<&PathBuf>,
        keep_failures: Option<&Path>,
        setup: &Setup,
        host: &Host,
    ) -> Result<CommandOutput, Error> {
        let target = Target::open_if_named(JSON, json)?;
        let failed = keep_failures.map(failures::open).transpose()?;
        let of_drivers = self.matches.iter().any(|current| matches!(current.sides, Sides::Drivers(_)));
        let mut trials = Trials {
            schema: AB_SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            started: jiff::Timestamp::now().to_string(),
            command: host.command_line(),
            validation: setup.validation == Validation::On,
            turns: if of_drivers { Turns::Processes } else { Turns::Batches },
            min_effect: self.min_effect,
            cases: vec![],
            not_measured: self.matches.len(),
            exit: 0,
        };
        let mut done = |trial| self.add_trial(trial, &mut trials, target.as_ref(), host);
        let result = if of_drivers {
            self.play_drivers(setup, host, &mut done)
        } else {
            self.play_kernels(setup, host, &mut done)
        };
        if trials.cases.is_empty() {
            return Err(result.err().unwrap_or(Error::Interrupted("a case was measured")));
        }
        let reasons: Vec<_> = trials.cases.iter().map_while(skipped).collect();
        if let Some((side, reason)) = reasons.first().filter(|_| reasons.len() == self.matches.len()) {
            return Err(Error::Usage(format!(
                "'{}' {reason}; choose a size and type that both can run",
                printable(&side.label)
            )));
        }
        let mut notes = self.notes.clone();
        let exit = combined_exit(exit(&trials, host), result, &mut notes);
        trials.exit = exit as u8;
        let mut text = report::ab::text(&trials, host.width());
        if trials.cases.iter().any(needs_more_time) && !host.is_interrupted() {
            let command = recipe::assignments(&super::origin::environment(host)) + &self.longer_command;
            let command = report::compare::to_paste(&command, host.width());
            let _ = write!(text, "to decide, give each case more time:\n{command}");
        }
        let mut answer = CommandOutput::new(text, notes, exit);
        answer.deliver_json(target, &trials);
        if let Some(folder) = failed {
            answer.add_note(self.save_failures(folder, &trials));
        }
        Ok(answer)
    }

    /// Adds the trial of the next match, and writes all trials so far, so that a killed process loses none.
    fn add_trial(&self, trial: Trial, trials: &mut Trials, target: Option<&Target>, host: &Host) -> Result<(), Error> {
        let all = self.matches.len();
        trials.cases.push(trial);
        trials.correct();
        trials.not_measured = all - trials.cases.len();
        if all == 1 {
            return Ok(());
        }
        if let Some(trial) = trials.cases.last() {
            let options = self.matches.iter().map(|current| &current.group.spec.options);
            host.messages.line(&format!("{} of {all}: {}", trials.cases.len(), report::ab::brief(trial, options)));
        }
        trials.exit = exit(trials, host) as u8;
        target.map_or(Ok(()), |target| target.write_unfinished(trials))
    }

    /// Prints how long the matches may take, if that is long.
    fn announce_duration(&self, host: &Host) {
        let count = self.matches.len();
        let all = self.max_time.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        if count > 1 && all >= MIN_ANNOUNCED_TIME {
            let [each, all] = [self.max_time, all].map(|time| about(time.into()));
            host.messages.line(&format!("{count} cases, {each} each at most: up to {all}"));
        }
    }

    /// Plays matches of kernels, in rounds of batches of samples on one device.
    fn play_kernels(
        &self,
        setup: &Setup,
        host: &Host,
        done: &mut dyn FnMut(Trial) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut campaign = Campaign::begin(setup, [&self.devices[..]], host)?;
        let chosen = campaign.session.select_usable(&self.devices)?;
        let [device] = chosen[..] else {
            return Err(Error::Usage(format!(
                "ab runs on one device, --device matches {}; name one by its index",
                chosen.len()
            )));
        };
        host.messages.line(&format!("device {}: {}", device.index, device.name));
        super::run::name_commands(&setup.kernels, host);
        self.announce_duration(host);
        campaign.on_each_device(&self.devices, Timing::Sample, |executor| {
            campaign::each(host, &self.matches, |current| match &current.sides {
                Sides::Kernels(kernels) => done(self.duel(current, kernels, executor)),
                Sides::Drivers(_) => Ok(()),
            })
        })?;
        campaign.finish()
    }

    /// Plays one match of kernels.
    fn duel(&self, current: &Match<'_>, kernels: &[Side; 2], executor: &mut Executor<'_>) -> Trial {
        let sampling = Sampling { max_time: self.max_time, ..self.sampling };
        let mut schedule = Schedule::new(MIN_ROUNDS, self.min_effect, self.matches.len());
        let (mut cases, rounds) =
            executor.duel(&current.group, kernels, &sampling, &mut |rounds| schedule.decided(rounds));
        for case in &mut cases {
            case.attach_entry(&CATALOGUE);
        }
        let measured = cases.iter().all(|case| case.measured().is_some());
        // A kernel may turn out to be wrong only after its timed runs; then there is no verdict.
        let finding = schedule.last(&rounds).filter(|_| measured);
        let mut side = 0;
        let [a, b] = cases.map(|case| {
            let label = current.labels[side].clone();
            // Without rounds, a side may still have been measured.
            let unpaired = case.measured().filter(|_| rounds.is_empty()).map(|measured| measured.summary.median);
            let median = median(&rounds, side).or(unpaired);
            side += 1;
            SideResult { label, device: executor.info().clone(), case, median }
        });
        Trial { a, b, rounds, finding }
    }

    /// Plays matches of drivers, in rounds of processes.
    fn play_drivers(
        &self,
        setup: &Setup,
        host: &Host,
        done: &mut dyn FnMut(Trial) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.announce_duration(host);
        host.listen()?;
        campaign::each(host, &self.matches, |current| {
            let Sides::Drivers(manifests) = &current.sides else { return Ok(()) };
            let (trial, error) = self.duel_drivers(current, manifests, setup, host)?;
            done(trial)?;
            error.map_or(Ok(()), Err)
        })
    }

    /// Plays one match of drivers. Also returns the error that ended it early, if any.
    fn duel_drivers(
        &self,
        current: &Match<'_>,
        manifests: &[&Path; 2],
        setup: &Setup,
        host: &Host,
    ) -> Result<(Trial, Option<Error>), Error> {
        let sampling = Sampling { max_time: PROCESS_MAX_TIME, ..self.sampling };
        let run = PlanSection { devices: self.devices.clone(), groups: vec![current.group.clone()], sampling };
        let plan = Plan { sections: vec![run], run_tables: vec![] };
        let mut first: [Option<SideResult>; 2] = [None, None];
        let (mut rounds, mut failure): (Vec<Round>, _) = (vec![], None);
        let mut schedule = Schedule::new(MIN_ROUNDS, self.min_effect, self.matches.len());
        let (started, mut orders) = (host.elapsed(), generator(orders_seed(), 0));
        while host.since(started) < self.max_time {
            // A random order, as within a process, spreads drift over both sides.
            let mut order = [0, 1, 2];
            order.shuffle(&mut orders);
            match current.round(order, manifests, &plan, setup, host, &mut first)? {
                Ok(round) => rounds.push(round),
                Err(error) => {
                    failure = error;
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
        let measured = [&a, &b].iter().all(|side| side.case.measured().is_some());
        let finding = schedule.last(&rounds).filter(|_| measured);
        (a.median, b.median) = (median(&rounds, 0), median(&rounds, 1));
        Ok((Trial { a, b, rounds, finding }, failure))
    }
}

impl Match<'_> {
    /// Returns a match of two variants on the problem of `group`.
    fn of_variants(variants: [&Variant; 2], group: CaseGroup) -> Self {
        let sides = Sides::Kernels(Box::new(variants.map(|variant| Side::new(variant, None))));
        Self { labels: variants.map(|variant| variant.name.to_string()), sides, group }
    }

    /// Runs three processes in this order: A (0), B (1) and A again (2). `first` receives each side's first case, or the one
    /// without a time.
    ///
    /// Returns the inner error if a time is missing, which ends the match; it is `None` for an interruption and if the case
    /// itself failed.
    fn round(
        &self,
        order: [usize; 3],
        manifests: &[&Path; 2],
        plan: &Plan,
        setup: &Setup,
        host: &Host,
        first: &mut [Option<SideResult>; 2],
    ) -> Result<Result<Round, Option<Error>>, Error> {
        let (mut round, mut missing) = (Round::default(), false);
        for role in order {
            let side = usize::from(role == 1);
            let name = format!("{} with driver '{}'", ["A", "B"][side], self.labels[side]);
            let setup = setup.with_drivers(manifests[side].as_os_str().to_owned());
            // Tiles tuned for one driver would favor it.
            let tuned = Tuned::none();
            let options = MeasureOptions::new(Timing::Sample, LimitPolicy::Ignore, &tuned, host.command_line());
            // A process that fails late must not lose the earlier rounds.
            let result = match measure_in_fresh_processes(&name, plan, &setup, &options, host) {
                Ok(Some(record)) => side_result(record, &self.labels[side], &name)?,
                Ok(None) => return Ok(Err(None)),
                Err(error) => return Ok(Err(Some(error))),
            };
            let time = result.case.measured().map(|measured| measured.summary.median);
            // A case without a time explains the end of the match.
            if first[side].is_none() || time.is_none() {
                first[side] = Some(result);
            }
            missing |= time.is_none();
            round[role] = time.unwrap_or_default();
        }
        Ok(if missing { Err(None) } else { Ok(round) })
    }
}

/// Returns a match for each pair of variants on each problem of both, and notes about variants without a partner.
fn variant_matches<'a>(
    algorithm: &'static Algorithm,
    against: &[String],
    judged: &[String],
    groups: &[CaseGroup],
) -> Result<(Vec<Match<'a>>, Vec<String>), Error> {
    let (pairs, notes) = pairs::pairs(algorithm, against, judged).map_err(Error::Usage)?;
    let on = |pair: &pairs::Pair, group: &CaseGroup| {
        let find = |variant: &&Variant| group.variants.iter().find(|candidate| candidate.name == variant.name).cloned();
        let [a, b] = pair.each_ref().map(find);
        let (a, b) = (a?, b?);
        let variants = if a.name == b.name { vec![a.clone()] } else { vec![a.clone(), b.clone()] };
        Some(Match::of_variants([&a, &b], CaseGroup { variants, ..group.clone() }))
    };
    let matches: Vec<_> = pairs.iter().flat_map(|pair| groups.iter().filter_map(|group| on(pair, group))).collect();
    if matches.is_empty() {
        let [judged, against] = [judged, against].map(|names| names.join(","));
        return Err(Error::Usage(format!(
            "'{judged}' and '{against}' have no case in common; choose an element type and a layout that both have"
        )));
    }
    Ok((matches, notes))
}

/// Returns a match of the two drivers for each variant on each problem.
fn driver_matches(args: &AbArgs, groups: Vec<CaseGroup>) -> Result<Vec<Match<'_>>, Error> {
    let (Some(a), Some(b)) = (&args.a_driver, &args.b_driver) else {
        return Err(Error::Usage("one side is missing; give both --a-driver and --b-driver".into()));
    };
    let manifests = [a.as_path(), b.as_path()];
    manifests.iter().try_for_each(|path| check_manifest(path))?;
    let matches = |group: CaseGroup| {
        let variants = group.variants.clone();
        variants.into_iter().map(move |variant| Match {
            labels: manifests.map(Shown::shown),
            sides: Sides::Drivers(manifests),
            group: CaseGroup { variants: vec![variant], ..group.clone() },
        })
    };
    Ok(groups.into_iter().flat_map(matches).collect())
}

/// Returns a match for each problem. On one side or both, a SPIR-V file replaces one kernel of the variant.
fn spirv_matches<'a>(args: &AbArgs, groups: Vec<CaseGroup>) -> Result<Vec<Match<'a>>, Error> {
    let matches = groups.into_iter().map(|group| {
        let [variant] = &group.variants[..] else {
            return Err(Error::Usage(format!(
                "a file takes the place of a kernel of one variant, -V names {}; name one",
                group.variants.len()
            )));
        };
        let shaders = variant.shaders(group.spec.dtype, group.spec.layout).unwrap_or_default();
        let paths = [args.a_spirv.as_deref(), args.b_spirv.as_deref()];
        let mut kernels: Vec<String> = vec![];
        let mut side = |path: Option<&Path>| {
            let substitute = path.map(|path| read_spirv(path, variant, &shaders)).transpose()?;
            kernels.extend(substitute.as_ref().map(|(kernel, _)| kernel.clone()));
            Ok::<_, Error>(Side::new(variant, substitute))
        };
        let sides = [side(paths[0])?, side(paths[1])?];
        if let [a, b] = &kernels[..]
            && a != b
        {
            return Err(Error::Usage(format!(
                "the files replace two different kernels, {a} and {b}; give two for one of them"
            )));
        }
        let label = |path: Option<&Path>| path.map_or_else(|| kernels[0].clone(), Shown::shown);
        Ok(Match { labels: paths.map(label), sides: Sides::Kernels(Box::new(sides)), group })
    });
    matches.collect()
}

/// Returns the median of one side's rounds.
fn median(rounds: &[Round], side: usize) -> Option<Nanos> {
    stats::median(&rounds.iter().map(|round| round[side].0).collect::<Vec<_>>()).map(Nanos)
}

/// Returns the result of a process that measured one case.
fn side_result(record: Record, label: &str, name: &str) -> Result<SideResult, Error> {
    let Record { devices, cases, .. } = record;
    let ([device], [case]) = (&devices[..], &cases[..]) else {
        return Err(Error::Usage(format!(
            "{name}: --device matches {} of its devices; name one by its index",
            devices.len()
        )));
    };
    Ok(SideResult { label: label.into(), device: device.clone(), case: case.clone(), median: None })
}

/// Reads a SPIR-V file. Returns the label of the kernel of `variant` that it replaces, and its bytes.
fn read_spirv(path: &Path, variant: &Variant, shaders: &[&Shader]) -> Result<(String, Vec<u8>), Error> {
    let labels = || shaders.iter().map(|shader| shader.label()).collect::<Vec<_>>().join(", ");
    let refuse =
        |reason: String| Error::Usage(format!("cannot run '{}' in place of {}: {reason}", path.shown(), labels()));
    let bytes = input_file::read(path, spirv::MAX_FILE_BYTES as u64)
        .map_err(|e| refuse(format!("{e}; name a SPIR-V file of a kernel")))?;
    if let [kernel] = shaders {
        spirv::check(&bytes, kernel).map_err(refuse)?;
    }
    // Of the kernels whose interface fits, the file replaces the one with the fewest arguments.
    let fits = |shader: &&&Shader| spirv::check(&bytes, shader).is_ok();
    let arguments = |shader: &Shader| shader.interface.arguments.len();
    let fewest = shaders.iter().filter(fits).map(|shader| arguments(shader)).min();
    let fitting: Vec<_> = shaders.iter().filter(fits).filter(|shader| Some(arguments(shader)) == fewest).collect();
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

/// Refuses a manifest that the Vulkan loader would silently ignore.
fn check_manifest(path: &Path) -> Result<(), Error> {
    let shown = path.shown();
    let refuse = |reason: String| {
        Error::Usage(format!("'{shown}' is not a driver manifest: {reason}; drivers install theirs in vulkan/icd.d/"))
    };
    let text = input_file::read_text(path).map_err(|e| refuse(e.to_string()))?;
    let manifest: serde_json::Value = serde_json::from_str(&text).map_err(|e| refuse(e.to_string()))?;
    match manifest.pointer("/ICD/library_path") {
        Some(serde_json::Value::String(_)) => Ok(()),
        _ => Err(refuse("it names no ICD.library_path".into())),
    }
}
