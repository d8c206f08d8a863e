//! `gpukern tune`.

use super::{Answer, beside, interrupt};
use crate::algorithms::matmul::Tunable;
use crate::algorithms::{self, Algorithm};
use crate::basis::dtype::DType;
use crate::basis::error::{Error, Exit};
use crate::basis::units::Nanos;
use crate::commands::cli::TuneArgs;
use crate::commands::progress::Progress;
use crate::device::capability::DeviceInfo;
use crate::measure::runner::Timing;
use crate::measure::runner::tune::Question;
use crate::measure::session::{Session, Setup};
use crate::plan::options::{self, Selection};
use crate::plan::{Group, Purpose, Run};
use crate::report::tune::{self as report, Row};
use crate::tuning::search::{Found, Fruitless, Refusal};
use crate::tuning::tuned::{self, Kept, Model, Tuned};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What earlier searches kept, for `bench`: in the file that was named, which must exist, or in the user's.
pub(super) fn kept(named: Option<&Path>) -> Result<Tuned, Error> {
    let read = |path: &Path| Tuned::read(path);
    match (named, tuned::default_path()) {
        (Some(path), _) => read(path)?.ok_or_else(|| {
            Error::Usage(format!(
                "there are no tuning results in '{}'; make them with `gpukern tune`, or add --no-tuned",
                path.display()
            ))
        }),
        (None, Some(path)) => Ok(read(&path)?.unwrap_or_default()),
        (None, None) => Ok(Tuned::none()),
    }
}

pub(super) fn run(args: TuneArgs, setup: &Setup) -> Result<Answer, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let begun = Instant::now();
    let budget = options::duration(&args.budget).map_err(|reason| Error::Usage(format!("--budget: {reason}")))?;
    let path = args.tuned.clone().or_else(tuned::default_path).ok_or_else(|| {
        Error::Usage("there is no configuration folder to keep results in; name a file with --tuned".into())
    })?;
    let (algorithm, run) = plan(args)?;
    let known = Tuned::read(&path)?.unwrap_or_default();
    // Tried before any time is spent.
    Tuned::keep(&path, &[])?;

    let session = Session::open(setup)?;
    let interrupted = interrupt::listen()?;
    let physicals = session.select_usable(&run.devices)?;
    let mut left: u32 = physicals.iter().map(|device| searches(algorithm, &run, &device.info).count() as u32).sum();
    let progress = Progress::new(left as usize);
    let mut notes = without_type(&run);
    let mut exit = Exit::Success;
    let mut tables = vec![];
    for physical in physicals {
        progress.line(&format!("device {}: {}", physical.info.index, physical.info.name));
        let mut runner = match session.runner(physical, Timing::Sample, interrupted) {
            Ok(runner) => runner,
            Err(error) => {
                exit = beside(exit, Err(error.into()), &mut notes);
                continue;
            }
        };
        let mut rows = vec![];
        for (group, tunable) in searches(algorithm, &run, &physical.info) {
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("{} {} {}", tunable.variant, group.spec.dtype, group.spec.size);
            // What a search leaves over is for the others.
            let share = budget.saturating_sub(begun.elapsed()) / left.max(1);
            left -= 1;
            let work = (algorithm.problem)(&group.spec).map(|problem| problem.work()).unwrap_or_default();
            let rate = |time: Nanos| work.rate(time);
            let mut leader = None;
            let mut tell = |tile, best: Option<(_, Nanos)>| {
                if let Some((tile, time)) = best.filter(|best| leader != Some(best.0)) {
                    leader = Some(tile);
                    progress.line(&format!("{name}: {tile}: {} GFLOP/s", rate(time)));
                }
                progress.message(&format!("{name}: {tile}"));
            };
            let kept = known.result(&physical.info, algorithm, tunable.variant, &group.spec).map(|(tile, _)| tile);
            let kept = kept.filter(|tile| tunable.legal(tile, &group.spec, &physical.info).is_ok());
            let seed = group.spec.seed;
            let progress_of = &mut tell;
            let question =
                Question { algorithm, tunable, spec: group.spec, kept, budget: share, seed, progress: progress_of };
            match runner.tune(question) {
                Ok(Some(found)) => {
                    // At once: whatever ends the process later, this stays.
                    let found_here = results(&physical.info, algorithm, tunable, group, &found, rate);
                    exit = beside(exit, Tuned::keep(&path, &found_here), &mut notes);
                    for (tile, refusal) in &found.refused {
                        exit = note(&mut notes, &format!("{name}, tile {tile}"), refusal, exit);
                    }
                    rows.push(Row { variant: tunable.variant, spec: group.spec, found, work });
                }
                Ok(None) => {}
                Err(Fruitless::Refused(refusal)) => exit = note(&mut notes, &name, &refusal, exit),
                Err(Fruitless::Unsupported(reason)) => {
                    let _ = writeln!(notes, "skipped   {name}: {reason}");
                }
            }
            progress.advance();
        }
        if !rows.is_empty() {
            tables.push(report::text(&physical.info, algorithm, &rows));
        }
    }
    progress.finish();
    exit = beside(exit, session.check_validation(), &mut notes);
    let stopped = interrupted.load(Ordering::Relaxed);
    if tables.is_empty() && !stopped && exit == Exit::Success {
        return Err(Error::Usage(format!("nothing was found:\n{}", notes.trim_end())));
    }
    if stopped && exit == Exit::Success {
        exit = Exit::Interrupted;
    }
    if !tables.is_empty() {
        let _ = writeln!(notes, "kept in {}", path.display());
    }
    Ok(Answer { output: tables.join("\n"), notes, exit })
}

/// Writes down why a tile, or every tile, is out of the question; returns the exit code that this asks for after `exit`.
fn note(notes: &mut String, what: &str, refusal: &Refusal, exit: Exit) -> Exit {
    let (word, why, asked) = match refusal {
        Refusal::Rejected(why) => ("rejected", why, Exit::Rejected),
        Refusal::Failed(why) => ("failed", why, Exit::Failure),
    };
    let _ = writeln!(notes, "{word:9} {what}: {why}");
    if exit == Exit::Rejected { exit } else { asked }
}

/// The algorithm and the problems to search.
fn plan(args: TuneArgs) -> Result<(&'static Algorithm, Run), Error> {
    let TuneArgs { algorithm: name, mut variant, size, dtype, device, seed, .. } = args;
    let algorithm = algorithms::find(&name).map_err(Error::Usage)?;
    let known: Vec<_> = algorithm.tunable().iter().map(|tunable| tunable.variant).collect();
    let Some(first) = known.first() else {
        return Err(Error::Usage(format!("{name} has no tiles to search; write `gpukern tune matmul`")));
    };
    if variant.is_empty() {
        variant = vec![(*first).to_string()];
    } else if variant == ["all"] {
        variant = known.iter().map(ToString::to_string).collect();
    }
    let selection = Selection { algorithm: vec![name], variant, size, dtype, device, seed, ..Selection::default() };
    let run = Run::new(&selection, Purpose::Bench).map_err(Error::Usage)?;
    let named = run.groups.first().map_or(&[][..], |group| &group.variants);
    let other = named.iter().map(|variant| variant.name).find(|name| !known.contains(name));
    let auto = run.groups.iter().any(|group| group.cases() > group.variants.len());
    if let Some(other) = other.or(auto.then_some("auto")) {
        return Err(Error::Usage(format!("variant '{other}' has no tile to search; available: {}", known.join(", "))));
    }
    Ok((algorithm, run))
}

/// A line for each variant that has none of the element types: there is nothing to search for it.
fn without_type(run: &Run) -> String {
    let mut notes = String::new();
    let dtypes: BTreeSet<_> = run.groups.iter().map(|group| group.spec.dtype).collect();
    for variant in run.groups.first().map_or(&[][..], |group| &group.variants) {
        if !dtypes.iter().any(|dtype| variant.supports(*dtype)) {
            let names = |dtypes: Vec<&str>| dtypes.join(", ");
            let own = DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)).map(DType::name);
            let _ = writeln!(
                notes,
                "skipped   {}: has no {}; search it with --dtype {}",
                variant.name,
                names(dtypes.iter().map(|dtype| dtype.name()).collect()),
                names(own.collect())
            );
        }
    }
    notes
}

/// Each problem with each variant that has its element type.
fn searches<'a>(
    algorithm: &'static Algorithm,
    run: &'a Run,
    device: &DeviceInfo,
) -> impl Iterator<Item = (&'a Group, &'static Tunable)> {
    run.groups_on(device.kind).flat_map(|group| {
        let variants = group.variants.iter().filter(|variant| variant.supports(group.spec.dtype));
        let tunable = |name| algorithm.tunable().iter().find(|tunable| tunable.variant == name);
        variants.filter_map(move |variant| Some((group, tunable(variant.name)?)))
    })
}

/// What is kept of a search.
fn results(
    device: &DeviceInfo,
    algorithm: &Algorithm,
    tunable: &Tunable,
    group: &Group,
    found: &Found,
    rate: impl Fn(Nanos) -> crate::basis::units::OpsPerSecond,
) -> Vec<Kept> {
    // Four digits are more than repeats agree on.
    let gflops = |time| rate(time).to_string().parse::<f64>().unwrap_or_default().max(f64::MIN_POSITIVE);
    let plain = Kept {
        model: Model::of(device),
        algorithm: algorithm.name.into(),
        variant: tunable.variant.into(),
        dtype: group.spec.dtype,
        sizes: tuned::class(group.spec.size),
        tile: None,
        gflops: 0.0,
        built_in_tile: None,
        built_in_gflops: None,
        measured_at: group.spec.size.to_string(),
        tried: None,
        date: jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
        gpukern: env!("CARGO_PKG_VERSION").into(),
    };
    let rule = found.rule.map(|(name, time)| Kept { variant: name.into(), gflops: gflops(time), ..plain.clone() });
    let best = Kept {
        tile: Some(found.best.0),
        gflops: gflops(found.best.1),
        built_in_tile: Some(found.built_in.0),
        built_in_gflops: found.built_in.1.map(gflops),
        tried: Some(found.tried),
        ..plain
    };
    [best].into_iter().chain(rule).collect()
}
