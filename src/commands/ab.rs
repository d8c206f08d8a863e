//! `gpukern ab`.

use super::document::{Files, JSON, Target};
use super::{CommandOutput, announce, beside, command_line, failures, interrupt, judging, measure_afresh};
use crate::algorithms::{self, Algorithm, Variant};
use crate::basis::error::{Error, Exit};
use crate::basis::input_file;
use crate::basis::printable::printable;
use crate::basis::units::Nanos;
use crate::commands::cli::{AbArgs, Judging, RunArgs};
use crate::commands::progress;
use crate::compare::Verdict;
use crate::compare::paired::{AB_SCHEMA, Finding, Round, Schedule, SideResult, Trial, Turns};
use crate::kernel::shaders::Shader;
use crate::kernel::spirv;
use crate::measure::executor::Side;
use crate::measure::measurement::{LimitPolicy, MeasureOptions};
use crate::measure::runner::Timing;
use crate::measure::session::{Session, Setup};
use crate::plan::options;
use crate::plan::options::Selection;
use crate::plan::{CaseGroup, Plan, PlannedRun, Purpose, Sampling};
use crate::record::{Outcome, Record};
use crate::report;
use crate::stats;
use crate::tuning::tuned::Tuned;
use crate::vulkan::Validation;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for rounds of batches, unless `--max-time` says otherwise.
const MOST_TIME: Duration = Duration::from_secs(10);
/// The same for rounds of processes, each of which starts, verifies and warms up.
const MOST_TIME_OF_PROCESSES: Duration = Duration::from_secs(60);
/// Rounds of batches before the first look.
const FIRST_LOOK: usize = 12;
/// Rounds of processes before the first look: as few as an interval can come from.
const FIRST_LOOK_AT_PROCESSES: usize = 6;
/// Sampling time of each of those processes, unless it is precise before.
const TIME_OF_A_PROCESS: Duration = Duration::from_millis(500);

/// The two sides that take turns.
enum Sides<'a> {
    /// Two kernels on one driver, in turns within a process.
    Kernels(Box<[Side; 2]>),
    /// Two drivers, each with processes of its own, by the paths of their manifests.
    Drivers([&'a Path; 2]),
}

/// The outcome of a match.
struct Played {
    sides: [SideResult; 2],
    rounds: Vec<Round>,
    finding: Option<Finding>,
    /// The error that ended the match early, or what the validation layer said.
    trouble: Option<Error>,
}

/// A case, the two sides that take turns on it, and for how long.
struct Match<'a> {
    labels: [String; 2],
    sides: Sides<'a>,
    run: PlannedRun,
    min_effect: f64,
    max_time: Duration,
}

pub(super) fn run(args: &AbArgs, setup: &Setup) -> Result<CommandOutput, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let files = Files::default()
        .read("the loader", &setup.loader)
        .read("--a-spirv", &args.a_spirv)
        .read("--b-spirv", &args.b_spirv)
        .read("--a-driver", &args.a_driver)
        .read("--b-driver", &args.b_driver);
    files.written("--json", &args.json).written("--keep-failures", &args.keep_failures).check()?;
    let game = Match::new(args)?;
    game.play(args.json.as_deref(), args.keep_failures.as_deref(), setup)
}

/// Says which of the two kernels, or choices of constants, of a run of one case is faster.
pub(super) fn judge_run(args: &RunArgs, run: PlannedRun, setup: &Setup) -> Result<CommandOutput, Error> {
    let [group] = &run.groups[..] else {
        let many = run.groups.len();
        return Err(Error::Usage(format!(
            "--ab judges one case, the axes span {many}; give each axis one value with -s"
        )));
    };
    let [a, b] = &group.variants[..] else {
        return Err(Error::Usage(format!(
            "--ab judges two contenders, these are {}; name two kernels, or one with a list of two in [spec]",
            group.variants.len()
        )));
    };
    let max_time = args.sampling.max_time.as_deref().map_or(Ok(MOST_TIME), options::duration);
    let game = Match {
        labels: [a, b].map(|variant| variant.name.to_string()),
        sides: Sides::Kernels(Box::new([a, b].map(|variant| Side::new(variant, None)))),
        min_effect: judging::settings(&args.comparing.judging)?.min_effect,
        max_time: max_time.map_err(|reason| Error::Usage(format!("--max-time: {reason}")))?,
        run,
    };
    game.play(args.json.as_deref(), args.keep_failures.as_deref(), setup)
}

fn exit(trial: &Trial) -> Exit {
    let any = |test: fn(&Outcome) -> bool| trial.sides().iter().any(|(_, side)| test(&side.case.outcome));
    let verdict = trial.finding.map(|finding| finding.verdict);
    if any(|outcome| matches!(outcome, Outcome::Rejected(_))) || verdict == Some(Verdict::Slower) {
        Exit::Rejected
    } else if any(|outcome| outcome.exit() == Some(Exit::Failure)) {
        Exit::Failure
    } else if any(|outcome| outcome.exit() == Some(Exit::Usage)) {
        Exit::Usage
    } else if matches!(verdict, Some(Verdict::Same | Verdict::Faster)) {
        Exit::Success
    } else if interrupt::flagged() {
        Exit::Interrupted
    } else {
        Exit::Undecided
    }
}

impl<'a> Match<'a> {
    fn new(args: &'a AbArgs) -> Result<Self, Error> {
        let algorithm = algorithms::find(&args.algorithm).map_err(Error::Usage)?;
        let of_drivers = args.a_driver.is_some() || args.b_driver.is_some();
        let of_files = args.a_spirv.is_some() || args.b_spirv.is_some();
        let kinds = [args.a.is_some() || args.b.is_some(), of_files, of_drivers];
        if kinds.into_iter().filter(|given| *given).count() != 1 {
            let what = if kinds == [false; 3] { "nothing" } else { "more than one kind of thing" };
            return Err(Error::Usage(format!(
                "{what} to compare; give --a and --b (variants), --a-spirv or --b-spirv, or --a-driver and --b-driver"
            )));
        }
        let time = if of_drivers { MOST_TIME_OF_PROCESSES } else { MOST_TIME };
        let max_time = args.max_time.as_deref().map_or(Ok(time), options::duration);
        let max_time = max_time.map_err(|reason| Error::Usage(format!("--max-time: {reason}")))?;
        let judging = Judging { min_effect: args.min_effect.clone(), ..Judging::default() };
        let min_effect = judging::settings(&judging)?.min_effect;
        let pair = variants(algorithm, args)?;
        let selection = Selection {
            algorithm: vec![args.algorithm.clone()],
            variant: pair.iter().map(|variant| variant.name.to_string()).collect(),
            size: vec![args.size.clone()],
            axes: args.axes.clone(),
            device: args.device.iter().cloned().collect(),
            ..Selection::default()
        };
        let run = PlannedRun::new(&selection, Purpose::Bench).map_err(Error::Usage)?;
        let [group] = &run.groups[..] else {
            return Err(Error::Usage(format!(
                "ab judges one case, these are {}; give one --size, --dtype and --subgroup-size",
                run.groups.len()
            )));
        };
        let (labels, sides) = if of_drivers {
            drivers(args)?
        } else if of_files {
            substitutes(args, pair[0], group)?
        } else {
            let kernels = pair.map(|variant| Side::new(variant, None));
            (pair.map(|variant| variant.name.to_string()), Sides::Kernels(Box::new(kernels)))
        };
        Ok(Self { labels, sides, run, min_effect, max_time })
    }

    /// Keeps the sides that failed in `folder`.
    fn keep(&self, folder: &Path, trial: &Trial) -> Result<String, Error> {
        let group = &self.run.groups[0];
        let of_driver = || Side::new(&group.variants[0], None);
        let drivers = [of_driver(), of_driver()];
        let kernels = match &self.sides {
            Sides::Kernels(kernels) => kernels,
            Sides::Drivers(_) => &drivers,
        };
        let [a, b] = trial.sides().map(|(_, side)| side);
        let sides = [("A", &a.case, &a.device, &kernels[0]), ("B", &b.case, &b.device, &kernels[1])];
        failures::keep_sides(folder, sides, group, &trial.command.join(" "), trial.validation)
    }

    /// Plays it, and says who won.
    fn play(&self, json: Option<&Path>, keep_failures: Option<&Path>, setup: &Setup) -> Result<CommandOutput, Error> {
        let target = json.map(|path| Target::open(JSON, path)).transpose()?;
        let failed = keep_failures.map(failures::open).transpose()?;
        let started = jiff::Timestamp::now().to_string();
        let (turns, Played { sides, rounds, finding, trouble }) = match &self.sides {
            Sides::Kernels(kernels) => (Turns::Batches, self.batches(kernels, setup)?),
            Sides::Drivers(manifests) => (Turns::Processes, self.processes(manifests, setup)?),
        };
        if let Some((side, reason)) = sides.iter().find_map(|side| match &side.case.outcome {
            Outcome::Skipped { reason } => Some((side, reason)),
            _ => None,
        }) {
            return Err(Error::Usage(format!("'{}' {reason}; choose what both can run", printable(&side.label))));
        }
        let [a, b] = sides;
        let mut trial = Trial {
            schema: AB_SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            started,
            command: command_line(),
            validation: setup.validation == Validation::On,
            turns,
            min_effect: self.min_effect,
            a,
            b,
            rounds,
            finding,
            exit: 0,
        };
        let mut notes = String::new();
        let exit = beside(exit(&trial), trouble.map_or(Ok(()), Err), &mut notes);
        trial.exit = exit as u8;
        let text = report::compare::trial(&trial);
        let mut answer = CommandOutput::new(text, notes, exit);
        answer.deliver_json(target, &trial);
        if let Some(folder) = failed {
            answer.kept(self.keep(folder, &trial));
        }
        Ok(answer)
    }

    /// Plays rounds of batches of samples in this process.
    fn batches(&self, kernels: &[Side; 2], setup: &Setup) -> Result<Played, Error> {
        let session = Session::open(setup)?;
        announce(&session, [&self.run.devices[..]]);
        let chosen = session.select_usable(&self.run.devices)?;
        let [device] = chosen[..] else {
            return Err(Error::Usage(format!(
                "ab runs on one device, --device names {}; name one by its index",
                chosen.len()
            )));
        };
        progress::line(&format!("device {}: {}", device.index, device.name));
        super::run::name_commands(&setup.kernels);
        let mut executor = session.executor(device, Timing::Sample, &Tuned::none(), interrupt::listen()?)?;
        let sampling = Sampling { max_time: self.max_time, ..self.run.sampling };
        let mut schedule = Schedule::new(FIRST_LOOK, self.min_effect);
        let (cases, rounds) =
            executor.duel(&self.run.groups[0], kernels, &sampling, &mut |rounds| schedule.decided(rounds));
        let trouble = session.check_validation().err();
        let finding = schedule.last(&rounds);
        let mut side = 0;
        let sides = cases.map(|case| {
            let label = self.labels[side].clone();
            // One that was measured without the other has a median all the same.
            let alone = case.measured().filter(|_| rounds.is_empty()).map(|measured| measured.summary.median);
            let median = median(&rounds, side).or(alone);
            side += 1;
            SideResult { label, device: device.clone(), case, median }
        });
        Ok(Played { sides, rounds, finding, trouble })
    }

    /// Plays rounds of processes, one with each driver.
    fn processes(&self, manifests: &[&Path; 2], setup: &Setup) -> Result<Played, Error> {
        let sampling = Sampling { max_time: TIME_OF_A_PROCESS, ..self.run.sampling };
        let plan = Plan { runs: vec![PlannedRun { sampling, ..self.run.clone() }], run_tables: vec![] };
        let mut first: [Option<SideResult>; 2] = [None, None];
        let (mut rounds, mut trouble): (Vec<Round>, _) = (vec![], None);
        let mut schedule = Schedule::new(FIRST_LOOK_AT_PROCESSES, self.min_effect);
        let begun = Instant::now();
        while begun.elapsed() < self.max_time {
            // As within a process: whatever drifts favours the one and then the other.
            let order = if rounds.len().is_multiple_of(2) { [0, 1] } else { [1, 0] };
            match self.round(order, manifests, &plan, setup, &mut first)? {
                Ok(round) => rounds.push(round),
                Err(error) => {
                    trouble = error;
                    break;
                }
            }
            let [a, b] = rounds[rounds.len() - 1];
            progress::line(&format!("round {}: A {a}, B {b}", rounds.len()));
            if schedule.decided(&rounds) {
                break;
            }
        }
        let mut finding = schedule.last(&rounds);
        let [Some(a), Some(b)] = first else {
            return Err(trouble.unwrap_or(Error::Interrupted("both drivers had measured anything")));
        };
        let mut sides = [a, b];
        if sides.iter().any(|side| side.case.measured().is_none()) {
            finding = None;
        }
        for (side, result) in sides.iter_mut().enumerate() {
            result.median = median(&rounds, side);
        }
        Ok(Played { sides, rounds, finding, trouble })
    }

    /// Runs a process of each side, in this order. `first` keeps a side's first case, or the one that has no time. A round
    /// that lacks a time ends the match, with an error unless the cause is an outcome of the case or an interruption.
    fn round(
        &self,
        order: [usize; 2],
        manifests: &[&Path; 2],
        plan: &Plan,
        setup: &Setup,
        first: &mut [Option<SideResult>; 2],
    ) -> Result<Result<Round, Option<Error>>, Error> {
        let (mut round, mut missing) = (Round::default(), false);
        for side in order {
            let name = format!("{} with driver '{}'", ["A", "B"][side], self.labels[side]);
            let setup = setup.with_drivers(manifests[side].as_os_str().to_owned());
            // Tiles that were tuned for the one driver are not for the other.
            let tuned = Tuned::none();
            let options = MeasureOptions::new(Timing::Sample, LimitPolicy::Ignore, &tuned, command_line());
            // A process that fails late must not lose the rounds before it.
            let seen = match measure_afresh(&name, plan, &setup, &options) {
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
            round[side] = time.unwrap_or_default();
        }
        Ok(if missing { Err(None) } else { Ok(round) })
    }
}

/// The error for one of two options without the other.
fn one_side_missing(name: &str) -> Error {
    Error::Usage(format!("one side is missing; give both --a{name} and --b{name}"))
}

/// The variants of the two sides: those named, or the one that both run.
fn variants(algorithm: &'static Algorithm, args: &AbArgs) -> Result<[&'static Variant; 2], Error> {
    let chosen = |name: &str| algorithm.variant(name).map_err(Error::Usage);
    match ([&args.a, &args.b], &args.variant) {
        ([Some(_), Some(_)], Some(variant)) => {
            Err(Error::Usage(format!("--variant {variant} is for SPIR-V files and drivers; --a and --b name variants")))
        }
        ([Some(a), Some(b)], None) => Ok([chosen(a)?, chosen(b)?]),
        ([None, None], Some(shared)) => Ok([chosen(shared)?; 2]),
        ([None, None], None) => Err(Error::Usage("no variant given that both run; add --variant NAME".into())),
        _ => Err(one_side_missing("")),
    }
}

/// A path as it is printed.
fn shown(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

/// The drivers of the two sides.
fn drivers(args: &AbArgs) -> Result<([String; 2], Sides<'_>), Error> {
    let (Some(a), Some(b)) = (&args.a_driver, &args.b_driver) else { return Err(one_side_missing("-driver")) };
    let manifests = [a.as_path(), b.as_path()];
    manifests.iter().try_for_each(|path| check_manifest(path))?;
    Ok((manifests.map(shown), Sides::Drivers(manifests)))
}

/// A kernel of `variant`, with a file of the user's in its place on one side or both.
fn substitutes<'a>(args: &AbArgs, variant: &Variant, group: &CaseGroup) -> Result<([String; 2], Sides<'a>), Error> {
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
            "the files take the place of two kernels, {a} and {b}; give two for one of them"
        )));
    }
    let label = |path: Option<&Path>| path.map_or_else(|| kernels[0].clone(), shown);
    Ok((paths.map(label), Sides::Kernels(Box::new(sides))))
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
            "{name}: it shows {} devices that --device names; name one by its index",
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
    let bytes = input_file::read(path, spirv::MOST_BYTES as u64)
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
    let shown = printable(&path.display().to_string()).into_owned();
    let refuse = |reason: String| {
        Error::Usage(format!("'{shown}' is no driver manifest: {reason}; the loader's own are in vulkan/icd.d/"))
    };
    let text = input_file::read_text(path).map_err(|e| refuse(e.to_string()))?;
    let manifest: serde_json::Value = serde_json::from_str(&text).map_err(|e| refuse(e.to_string()))?;
    match manifest.pointer("/ICD/library_path") {
        Some(serde_json::Value::String(_)) => Ok(()),
        _ => Err(refuse("it names no ICD.library_path".into())),
    }
}
