//! `gpukern ab`.

mod pairs;

use super::campaign::Campaign;
use super::document::{Files, JSON, Target};
use super::{CommandOutput, combined_exit, failures, judging, measure_in_fresh_processes};
use crate::algorithms::{self, Algorithm, Variant};
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
use crate::device::capability::DeviceInfo;
use crate::kernel::shaders::Shader;
use crate::kernel::spirv;
use crate::measure::executor::Executor;
use crate::measure::job::duel::Side;
use crate::measure::measurement::{LimitPolicy, MeasureOptions};
use crate::measure::runner::Timing;
use crate::measure::session::Setup;
use crate::measure::timekeeper::MAX_ROUNDS;
use crate::plan::options;
use crate::plan::options::{SamplingArgs, Selection};
use crate::plan::request::{Request, VulkanOptions};
use crate::plan::{CaseGroup, Plan, PlannedRun, Purpose, Sampling};
use crate::record::{Outcome, Record};
use crate::report;
use crate::stats;
use crate::tuning::tuned::Tuned;
use crate::vulkan::Validation;
use rand::seq::SliceRandom;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Time for rounds of batches, unless `--max-time` says otherwise.
const MOST_TIME: Duration = Duration::from_secs(10);
/// The same for rounds of processes, each of which starts, verifies and warms up.
const MOST_TIME_OF_PROCESSES: Duration = Duration::from_secs(60);
/// Rounds before the first look: as few as an interval can come from.
const FIRST_LOOK: usize = 6;
/// What may take so long is announced.
const LONG: Duration = Duration::from_secs(10);
/// Sampling time of each of those processes, unless it is precise before.
const TIME_OF_A_PROCESS: Duration = Duration::from_millis(500);

/// The two sides that take turns.
enum Sides<'a> {
    /// Two kernels on one driver, in turns within a process.
    Kernels(Box<[Side; 2]>),
    /// Two drivers, each with processes of its own, by the paths of their manifests.
    Drivers([&'a Path; 2]),
}

/// A case, and the two sides that take turns on it.
struct Match<'a> {
    labels: [String; 2],
    sides: Sides<'a>,
    /// The problem, with the variants of both sides.
    group: CaseGroup,
}

/// The matches of a command, and for how long each is played.
struct Contest<'a> {
    matches: Vec<Match<'a>>,
    devices: Vec<String>,
    sampling: Sampling,
    min_effect: f64,
    max_time: Duration,
    /// The command that gives each case more time.
    longer: String,
    notes: String,
}

pub(super) fn run(args: &AbArgs, vulkan: &VulkanOptions, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let files = Files::default()
        .read("the loader", &setup.loader)
        .read("--a-spirv", &args.a_spirv)
        .read("--b-spirv", &args.b_spirv)
        .read("--a-driver", &args.a_driver)
        .read("--b-driver", &args.b_driver);
    files.written("--json", &args.json).written("--keep-failures", &args.keep_failures).check(host)?;
    Contest::new(args, vulkan, host)?.play(args.json.as_deref(), args.keep_failures.as_deref(), setup, host)
}

/// Says which of the two kernels, or choices of constants, of a run is faster in each of its cases.
pub(super) fn judge_run(
    args: &RunArgs,
    request: &Request,
    runs: Vec<PlannedRun>,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput, Error> {
    let Some(PlannedRun { devices, sampling, .. }) = runs.first().cloned() else {
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
        let labels = [a, b].map(|variant| variant.name.to_string());
        let sides = Sides::Kernels(Box::new([a, b].map(|variant| Side::new(variant, None))));
        Ok(Match { labels, sides, group })
    });
    let max_time = max_time(args.sampling.max_time.as_deref(), MOST_TIME)?;
    let sampled = SamplingArgs { max_time: Some(longer(max_time)), ..request.selection.sampling.clone() };
    let selection = Selection { sampling: sampled, ..request.selection.clone() };
    let mut more = stated(&args.comparing.judging, &Judging::default());
    more.insert("ab".into(), true.into());
    let contest = Contest {
        matches: matches.collect::<Result<_, _>>()?,
        devices,
        sampling,
        min_effect: judging::settings(&args.comparing.judging)?.min_effect,
        max_time,
        longer: Request { selection, ..request.clone() }.command_with(&host.program_name(), more),
        notes: String::new(),
    };
    contest.play(args.json.as_deref(), args.keep_failures.as_deref(), setup, host)
}

fn max_time(typed: Option<&str>, usual: Duration) -> Result<Duration, Error> {
    let time = typed.map_or(Ok(usual), options::duration);
    time.map_err(|reason| Error::Usage(format!("--max-time: {reason}")))
}

fn exit(trials: &Trials, host: &Host) -> Exit {
    let any = |test: fn(&Outcome) -> bool| {
        trials.cases.iter().flat_map(Trial::sides).any(|(_, side)| test(&side.case.outcome))
    };
    let decided =
        |trial: &Trial| skipped(trial).is_some() || trial.verdict().is_some_and(|own| own != Verdict::Undecided);
    if any(|outcome| matches!(outcome, Outcome::Rejected(_))) || trials.count(Verdict::Slower) > 0 {
        Exit::Rejected
    } else if any(|outcome| outcome.exit() == Some(Exit::Failure)) {
        Exit::Failure
    } else if any(|outcome| outcome.exit() == Some(Exit::Usage)) {
        Exit::Usage
    } else if trials.not_measured == 0 && trials.cases.iter().all(decided) {
        Exit::Success
    } else if host.is_interrupted() {
        Exit::Interrupted
    } else {
        Exit::Undecided
    }
}

/// The side of a trial that its device cannot run, and why.
fn skipped(trial: &Trial) -> Option<(&SideResult, &str)> {
    trial.sides().into_iter().find_map(|(_, side)| match &side.case.outcome {
        Outcome::Skipped { reason } => Some((side, reason.as_str())),
        _ => None,
    })
}

/// Whether only time ended a trial before it was decided.
fn wants_time(trial: &Trial) -> bool {
    let measured = trial.sides().iter().all(|(_, side)| side.case.measured().is_some());
    let open = measured && trial.verdict().is_none_or(|verdict| verdict == Verdict::Undecided);
    open && (1..MAX_ROUNDS).contains(&trial.rounds.len())
}

/// Ten times as long, as it is typed: for a case that is undecided for want of rounds.
fn longer(max_time: Duration) -> String {
    match max_time.saturating_mul(10).as_millis().max(1) {
        whole if whole % 1000 == 0 => format!("{}s", whole / 1000),
        millis => format!("{millis}ms"),
    }
}

impl<'a> Contest<'a> {
    fn new(args: &'a AbArgs, vulkan: &VulkanOptions, host: &Host) -> Result<Self, Error> {
        let algorithm = algorithms::find(&args.algorithm).map_err(Error::Usage)?;
        let of_drivers = args.a_driver.is_some() || args.b_driver.is_some();
        let of_files = args.a_spirv.is_some() || args.b_spirv.is_some();
        let kinds = [!args.against.is_empty(), of_files, of_drivers];
        if kinds.into_iter().filter(|given| *given).count() != 1 {
            let what = if kinds == [false; 3] { "nothing" } else { "more than one kind of thing" };
            return Err(Error::Usage(format!(
                "{what} to compare; add --against VARIANT, --a-spirv or --b-spirv, or --a-driver and --b-driver"
            )));
        }
        let judging = Judging { min_effect: args.min_effect.clone(), ..Judging::default() };
        let everything = |names: &[String]| -> Vec<String> {
            names.iter().map(|name| if name == "all" { "*".into() } else { name.clone() }).collect()
        };
        let [against, judged] = [&args.against, &args.variant].map(|names| everything(names));
        if judged.is_empty() {
            let what = if against.is_empty() { "that both run" } else { "to judge" };
            return Err(Error::Usage(format!("no variant given {what}; add -V NAME")));
        }
        let selection = Selection {
            algorithm: vec![args.algorithm.clone()],
            variant: [&against[..], &judged[..]].concat(),
            size: args.size.clone(),
            axes: args.axes.0.clone(),
            device: args.device.iter().cloned().collect(),
            ..Selection::default()
        };
        let PlannedRun { devices, groups, sampling } =
            PlannedRun::new(&selection, Purpose::Bench).map_err(Error::Usage)?;
        let (matches, notes) = if of_drivers {
            (drivers(args, groups)?, vec![])
        } else if of_files {
            (substitutes(args, groups)?, vec![])
        } else {
            variants(algorithm, &against, &judged, &groups)?
        };
        let usual = if of_drivers { MOST_TIME_OF_PROCESSES } else { MOST_TIME };
        let max_time = max_time(args.max_time.as_deref(), usual)?;
        let longer = AbArgs { max_time: Some(longer(max_time)), ..args.clone() };
        let mut options = stated(&longer, &AbArgs::default());
        options.extend(stated(vulkan, &VulkanOptions::default()));
        Ok(Self {
            matches,
            devices,
            sampling,
            min_effect: judging::settings(&judging)?.min_effect,
            max_time,
            longer: format!("{} ab {}", shown_word(&host.program_name()), arguments(options)),
            notes: notes.into_iter().map(|note| format!("note      {note}\n")).collect(),
        })
    }

    /// Keeps the sides that failed in `folder`.
    fn keep(&self, folder: &Path, trials: &Trials) -> Result<String, Error> {
        let command = trials.command.join(" ");
        let mut kept = 0;
        for (own, trial) in self.matches.iter().zip(&trials.cases) {
            let of_driver = || Side::new(&own.group.variants[0], None);
            let drivers = [of_driver(), of_driver()];
            let kernels = match &own.sides {
                Sides::Kernels(kernels) => kernels,
                Sides::Drivers(_) => &drivers,
            };
            let [a, b] = trial.sides().map(|(_, side)| side);
            let sides = [("A", &a.case, &a.device, &kernels[0]), ("B", &b.case, &b.device, &kernels[1])];
            kept += failures::keep_sides(folder, sides, &own.group, &command, trials.validation)?;
        }
        Ok(failures::told(kept, folder))
    }

    /// Plays all matches, and says who won.
    fn play(
        &self,
        json: Option<&Path>,
        keep_failures: Option<&Path>,
        setup: &Setup,
        host: &Host,
    ) -> Result<CommandOutput, Error> {
        let target = json.map(|path| Target::open(JSON, path)).transpose()?;
        let failed = keep_failures.map(failures::open).transpose()?;
        let of_drivers = self.matches.iter().any(|own| matches!(own.sides, Sides::Drivers(_)));
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
        let mut done = |trial| self.enter(trial, &mut trials, target.as_ref(), host);
        let trouble =
            if of_drivers { self.processes(setup, host, &mut done) } else { self.batches(setup, host, &mut done) };
        if trials.cases.is_empty() {
            return Err(trouble.err().unwrap_or(Error::Interrupted("a case was measured")));
        }
        let reasons: Vec<_> = trials.cases.iter().map_while(skipped).collect();
        if let Some((side, reason)) = reasons.first().filter(|_| reasons.len() == self.matches.len()) {
            return Err(Error::Usage(format!(
                "'{}' {reason}; choose a size and type that both can run",
                printable(&side.label)
            )));
        }
        let mut notes = self.notes.clone();
        let exit = combined_exit(exit(&trials, host), trouble, &mut notes);
        trials.exit = exit as u8;
        let mut text = report::ab::text(&trials, host.width());
        if trials.cases.iter().any(wants_time) && !host.is_interrupted() {
            let command = recipe::assignments(&super::origin::environment(host)) + &self.longer;
            let command = report::compare::to_paste(&command, host.width());
            let _ = write!(text, "to decide, give each case more time:\n{command}");
        }
        let mut answer = CommandOutput::new(text, notes, exit);
        answer.deliver_json(target, &trials);
        if let Some(folder) = failed {
            answer.add_note(self.keep(folder, &trials));
        }
        Ok(answer)
    }

    /// Adds the trial of the next match, and keeps what there is: what ends the process later takes nothing of it.
    fn enter(&self, trial: Trial, trials: &mut Trials, target: Option<&Target>, host: &Host) -> Result<(), Error> {
        let all = self.matches.len();
        trials.cases.push(trial);
        trials.correct();
        trials.not_measured = all - trials.cases.len();
        if all == 1 {
            return Ok(());
        }
        if let Some(trial) = trials.cases.last() {
            let options = self.matches.iter().map(|own| &own.group.spec.options);
            host.messages.line(&format!("{} of {all}: {}", trials.cases.len(), report::ab::brief(trial, options)));
        }
        trials.exit = exit(trials, host) as u8;
        target.map_or(Ok(()), |target| target.write_unfinished(trials))
    }

    /// Says how long the matches may take.
    fn announce(&self, host: &Host) {
        let count = self.matches.len();
        let all = self.max_time.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        if count > 1 && all >= LONG {
            let [each, all] = [self.max_time, all].map(|time| about(time.into()));
            host.messages.line(&format!("{count} cases, {each} each at most: up to {all}"));
        }
    }

    /// Plays rounds of batches of samples on one device.
    fn batches(
        &self,
        setup: &Setup,
        host: &Host,
        done: &mut dyn FnMut(Trial) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let campaign = Campaign::begin(setup, [&self.devices[..]], host)?;
        let chosen = campaign.session.select_usable(&self.devices)?;
        let [device] = chosen[..] else {
            return Err(Error::Usage(format!(
                "ab runs on one device, --device matches {}; name one by its index",
                chosen.len()
            )));
        };
        host.messages.line(&format!("device {}: {}", device.index, device.name));
        super::run::name_commands(&setup.kernels, host);
        self.announce(host);
        let mut executor = campaign.open(device, Timing::Sample)?;
        campaign.each(&self.matches, |own| match &own.sides {
            Sides::Kernels(kernels) => done(self.duel(own, kernels, &mut executor, device)),
            Sides::Drivers(_) => Ok(()),
        })?;
        campaign.session.check_validation()
    }

    /// Plays rounds of batches of samples of one match.
    fn duel(&self, own: &Match<'_>, kernels: &[Side; 2], executor: &mut Executor<'_>, device: &DeviceInfo) -> Trial {
        let sampling = Sampling { max_time: self.max_time, ..self.sampling };
        let mut schedule = Schedule::new(FIRST_LOOK, self.min_effect, self.matches.len());
        let (cases, rounds) = executor.duel(&own.group, kernels, &sampling, &mut |rounds| schedule.decided(rounds));
        let measured = cases.iter().all(|case| case.measured().is_some());
        // A kernel that turns out to be wrong only behind its timed runs is no faster.
        let finding = schedule.last(&rounds).filter(|_| measured);
        let mut side = 0;
        let [a, b] = cases.map(|case| {
            let label = own.labels[side].clone();
            // One that was measured without the other has a median all the same.
            let alone = case.measured().filter(|_| rounds.is_empty()).map(|measured| measured.summary.median);
            let median = median(&rounds, side).or(alone);
            side += 1;
            SideResult { label, device: device.clone(), case, median }
        });
        Trial { a, b, rounds, finding }
    }

    /// Plays rounds of processes, one with each driver.
    fn processes(
        &self,
        setup: &Setup,
        host: &Host,
        done: &mut dyn FnMut(Trial) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.announce(host);
        host.listen()?;
        for own in &self.matches {
            if host.is_interrupted() {
                break;
            }
            if let Sides::Drivers(manifests) = &own.sides {
                let (trial, trouble) = self.drivers(own, manifests, setup, host)?;
                done(trial)?;
                trouble.map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    /// Plays rounds of processes of one match; with the error that ended it early.
    fn drivers(
        &self,
        own: &Match<'_>,
        manifests: &[&Path; 2],
        setup: &Setup,
        host: &Host,
    ) -> Result<(Trial, Option<Error>), Error> {
        let sampling = Sampling { max_time: TIME_OF_A_PROCESS, ..self.sampling };
        let run = PlannedRun { devices: self.devices.clone(), groups: vec![own.group.clone()], sampling };
        let plan = Plan { runs: vec![run], run_tables: vec![] };
        let mut first: [Option<SideResult>; 2] = [None, None];
        let (mut rounds, mut trouble): (Vec<Round>, _) = (vec![], None);
        let mut schedule = Schedule::new(FIRST_LOOK, self.min_effect, self.matches.len());
        let (begun, mut orders) = (host.elapsed(), generator(orders_seed(), 0));
        while host.elapsed() - begun < self.max_time {
            // As within a process: by lot, so that each is as likely to get any place.
            let mut order = [0, 1, 2];
            order.shuffle(&mut orders);
            match own.round(order, manifests, &plan, setup, host, &mut first)? {
                Ok(round) => rounds.push(round),
                Err(error) => {
                    trouble = error;
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
            return Err(trouble.unwrap_or(Error::Interrupted("both drivers had measured anything")));
        };
        let measured = [&a, &b].iter().all(|side| side.case.measured().is_some());
        let finding = schedule.last(&rounds).filter(|_| measured);
        (a.median, b.median) = (median(&rounds, 0), median(&rounds, 1));
        Ok((Trial { a, b, rounds, finding }, trouble))
    }
}

impl Match<'_> {
    /// Runs a process of A (0), of B (1) and a second one of A (2), in this order. `first` keeps a side's first case, or the one that has no time. A
    /// round that lacks a time ends the match, with an error unless the cause is an outcome of the case or an
    /// interruption.
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
            // Tiles that were tuned for the one driver are not for the other.
            let tuned = Tuned::none();
            let options = MeasureOptions::new(Timing::Sample, LimitPolicy::Ignore, &tuned, host.command_line());
            // A process that fails late must not lose the rounds before it.
            let seen = match measure_in_fresh_processes(&name, plan, &setup, &options, host) {
                Ok(Some(record)) => side_result(record, &self.labels[side], &name)?,
                Ok(None) => return Ok(Err(None)),
                Err(error) => return Ok(Err(Some(error))),
            };
            let time = seen.case.measured().map(|measured| measured.summary.median);
            // A case without a time is the one to keep, also where the side had a time before.
            if first[side].is_none() || time.is_none() {
                first[side] = Some(seen);
            }
            missing |= time.is_none();
            round[role] = time.unwrap_or_default();
        }
        Ok(if missing { Err(None) } else { Ok(round) })
    }
}

/// A match for each pair of variants on each problem that both were chosen for, and notes of those without a partner.
fn variants<'a>(
    algorithm: &'static Algorithm,
    against: &[String],
    judged: &[String],
    groups: &[CaseGroup],
) -> Result<(Vec<Match<'a>>, Vec<String>), Error> {
    let (pairs, notes) = pairs::pairs(algorithm, against, judged).map_err(Error::Usage)?;
    let on = |pair: &pairs::Pair, group: &CaseGroup| {
        let find = |variant: &&Variant| group.variants.iter().find(|own| own.name == variant.name).cloned();
        let [a, b] = pair.each_ref().map(find);
        let (a, b) = (a?, b?);
        let labels = [&a, &b].map(|variant| variant.name.to_string());
        let sides = Sides::Kernels(Box::new([&a, &b].map(|variant| Side::new(variant, None))));
        let variants = if a.name == b.name { vec![a] } else { vec![a, b] };
        Some(Match { labels, sides, group: CaseGroup { variants, ..group.clone() } })
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

/// A path as it is printed.
fn shown(path: &Path) -> String {
    path.shown()
}

/// A match of the two drivers for each variant on each problem.
fn drivers(args: &AbArgs, groups: Vec<CaseGroup>) -> Result<Vec<Match<'_>>, Error> {
    let (Some(a), Some(b)) = (&args.a_driver, &args.b_driver) else {
        return Err(Error::Usage("one side is missing; give both --a-driver and --b-driver".into()));
    };
    let manifests = [a.as_path(), b.as_path()];
    manifests.iter().try_for_each(|path| check_manifest(path))?;
    let alone = |group: CaseGroup| {
        let variants = group.variants.clone();
        variants.into_iter().map(move |variant| Match {
            labels: manifests.map(shown),
            sides: Sides::Drivers(manifests),
            group: CaseGroup { variants: vec![variant], ..group.clone() },
        })
    };
    Ok(groups.into_iter().flat_map(alone).collect())
}

/// A match on each problem, of the kernels of the one variant with a file of the user's in place of one, on one side
/// or both.
fn substitutes<'a>(args: &AbArgs, groups: Vec<CaseGroup>) -> Result<Vec<Match<'a>>, Error> {
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
        let mut enter = |path: Option<&Path>| {
            let substitute = path.map(|path| read_spirv(path, variant, &shaders)).transpose()?;
            kernels.extend(substitute.as_ref().map(|(kernel, _)| kernel.clone()));
            Ok::<_, Error>(Side::new(variant, substitute))
        };
        let sides = [enter(paths[0])?, enter(paths[1])?];
        if let [a, b] = &kernels[..]
            && a != b
        {
            return Err(Error::Usage(format!(
                "the files replace two different kernels, {a} and {b}; give two for one of them"
            )));
        }
        let label = |path: Option<&Path>| path.map_or_else(|| kernels[0].clone(), shown);
        Ok(Match { labels: paths.map(label), sides: Sides::Kernels(Box::new(sides)), group })
    });
    matches.collect()
}

/// The median of one side's rounds.
fn median(rounds: &[Round], side: usize) -> Option<Nanos> {
    stats::median(&rounds.iter().map(|round| round[side].0).collect::<Vec<_>>()).map(Nanos)
}

/// The result made of the one case of a process.
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

/// The label of the kernel of `variant` that a file of the user's takes the place of, and its bytes.
fn read_spirv(path: &Path, variant: &Variant, shaders: &[&Shader]) -> Result<(String, Vec<u8>), Error> {
    let labels = || shaders.iter().map(|shader| shader.label()).collect::<Vec<_>>().join(", ");
    let refuse =
        |reason: String| Error::Usage(format!("cannot run '{}' in place of {}: {reason}", shown(path), labels()));
    let bytes = input_file::read(path, spirv::MAX_FILE_BYTES as u64)
        .map_err(|e| refuse(format!("{e}; name a SPIR-V file of a kernel")))?;
    if let [kernel] = shaders {
        spirv::check(&bytes, kernel).map_err(refuse)?;
    }
    // It is of the kernel that takes no more arguments than it needs.
    let fits = |shader: &&&Shader| spirv::check(&bytes, shader).is_ok();
    let arguments = |shader: &Shader| shader.interface.arguments.len();
    let least = shaders.iter().filter(fits).map(|shader| arguments(shader)).min();
    let fitting: Vec<_> = shaders.iter().filter(fits).filter(|shader| Some(arguments(shader)) == least).collect();
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

/// Refuses a manifest that the Vulkan loader would silently pass over.
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
