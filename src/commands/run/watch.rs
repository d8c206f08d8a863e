//! Implements `run --watch`: measures again whenever a file changes, and prints a line per case.

use super::{CommandOutput, RunArgs, check_commands, described, named_kernels, planned, resolved};
use crate::basis::error::{Error, Exit};
use crate::basis::units::ratio;
use crate::case::accepted::AcceptedMutation;
use crate::commands::host::Host;
use crate::commands::measure_quietly;
use crate::compare::{self, Comparison, Settings, State, Verdict};
use crate::engine::measurement::{LimitPolicy, MeasureOptions};
use crate::engine::runner::Timing;
use crate::engine::session::Setup;
use crate::plan::Plan;
use crate::plan::request::{Request, VulkanOptions};
use crate::record::{Case, Outcome, Record};
use crate::report;
use crate::tuning::tuned::Tuned;
use crate::user::options::CASE;
use crate::user::resolved::ResolvedProblem;
use std::collections::BTreeSet;
use std::fs::Metadata;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Interval between checks of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// State of a file, to detect changes.
#[derive(PartialEq)]
struct FileState {
    modified: SystemTime,
    bytes: u64,
    /// On Unix: device, inode and ctime; editors cannot reset the ctime.
    identity: Vec<i64>,
}

pub(super) fn run(args: &RunArgs, vulkan: VulkanOptions, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    // A forbidden command in the first version is an error; in a later version it is only reported.
    check_commands(&described(args)?.concat(), args.no_commands)?;
    host.listen()?;
    let request = args.request(vulkan);
    let mut files = named(args);
    let mut last: Option<Record> = None;
    loop {
        let (mut known, read) = read(args, &mut files);
        match read.and_then(|run| measure(&request, setup, host, run)) {
            Ok(record) => {
                // Same rules as `compare`, with its default settings.
                let both = last.as_ref().map(|last| [last, &record].map(std::slice::from_ref));
                let comparison = both.map(|[last, now]| compare::compare(last, now, &Settings::default()));
                record.cases.iter().for_each(|case| say(&line(case, comparison.as_ref(), &record), host));
                if record.cases.iter().any(|case| case.measured().is_some()) {
                    last = Some(record);
                }
            }
            Err(Error::Interrupted(_)) => {}
            Err(_) if host.is_interrupted() => {}
            // Compile errors are printed; the user will fix them and save again.
            Err(error) => say(&error.to_string(), host),
        }
        while seen(&files) == known {
            if host.is_interrupted() {
                return Ok(CommandOutput::new(String::new(), String::new(), Exit::Success));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // Editors may write in several steps.
        while seen(&files) != known {
            known = seen(&files);
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn say(text: &str, host: &Host) {
    let now = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
    host.messages.line(&format!("{now}  {text}"));
}

/// Lists the files on the command line, and the descriptions in folders: a folder's own state changes only with its
/// entries.
fn named(args: &RunArgs) -> BTreeSet<PathBuf> {
    let descriptions = args.kernel.iter().map(|path| path.join(CASE));
    args.kernel.iter().chain(&args.config).cloned().chain(descriptions).collect()
}

fn seen(files: &BTreeSet<PathBuf>) -> Vec<Option<FileState>> {
    #[cfg(unix)]
    let identity = |there: &Metadata| {
        vec![there.dev().cast_signed(), there.ino().cast_signed(), there.ctime(), there.ctime_nsec()]
    };
    #[cfg(not(unix))]
    let identity = |_: &Metadata| vec![];
    let state = |there: Metadata| {
        Some(FileState { modified: there.modified().ok()?, bytes: there.len(), identity: identity(&there) })
    };
    files.iter().map(|path| path.metadata().ok().and_then(state)).collect()
}

/// Resolves the current files, and returns their state from before, so that later changes are detected. If resolving
/// reveals further files, adds them and starts again.
fn read(
    args: &RunArgs,
    files: &mut BTreeSet<PathBuf>,
) -> (Vec<Option<FileState>>, Result<Vec<ResolvedProblem>, Error>) {
    loop {
        let known = seen(files);
        let read = resolved(args);
        files.extend(read.iter().flatten().flat_map(ResolvedProblem::files).map(|(_, path)| path));
        if files.len() == known.len() {
            return (known, read);
        }
    }
}

/// Measures the resolved runs.
fn measure(request: &Request, setup: &Setup, host: &Host, resolved: Vec<ResolvedProblem>) -> Result<Record, Error> {
    let (mut all, mut runs) = (vec![], vec![]);
    for run in resolved {
        let kernels = named_kernels(&[], run, &all)?;
        runs.push(planned(&kernels, false, &request.selection)?);
        all.push(kernels);
    }
    let plan = Plan { sections: runs, run_tables: vec![] };
    let limits = if request.no_peak { LimitPolicy::Ignore } else { LimitPolicy::Apply };
    let tuned = Tuned::none();
    measure_quietly(
        &plan,
        &setup.with_kernels(all),
        &MeasureOptions::new(Timing::Sample, limits, &tuned, host.command_line()),
        host,
    )
}

/// Formats a case: its time, the verdict against the previous record, its verification, and the driver's statistics.
fn line(case: &Case, comparison: Option<&Comparison>, now: &Record) -> String {
    let mut facts = vec![case.variant.clone()];
    if now.cases.iter().any(|other| other.variant == case.variant && other.size != case.size) {
        facts[0] = format!("{} {}", case.variant, case.size);
    }
    match &case.outcome {
        Outcome::Measured(measured) => {
            facts.push(measured.summary.median.to_string());
            facts.extend(comparison.and_then(|comparison| verdict(case, comparison)));
            facts.extend(case.share.map(|share| format!("{:.0} % of the limit", 100.0 * share.fraction)));
            facts.push(measured.verification.unverified().unwrap_or_else(|| "verified".into()));
            facts.extend(AcceptedMutation::sentence(&measured.accepts));
        }
        Outcome::Rejected(verification) => facts.push(format!("wrong: {}", verification.worst)),
        Outcome::Skipped { reason } => facts.push(format!("skipped: {reason}")),
        outcome => facts.push(outcome.failure().unwrap_or_else(|| outcome.status().into())),
    }
    let is_shown = |name: &str| ["register", "spill", "local memory", "scratch"].iter().any(|word| name.contains(word));
    let statistics = case.kernels.iter().flat_map(|kernel| &kernel.statistics);
    let statistics = statistics.filter(|metric| is_shown(&metric.name.to_lowercase()));
    facts.extend(statistics.filter_map(|metric| Some(format!("{} {}", metric.name.to_lowercase(), metric.value?))));
    facts.join("  ")
}

/// Formats the verdict on a case against the previous record as `compare` does: `SLOWER: 1.9412 (1.8 … 2.1)`, `same`,
/// `undecided: only 1 process`; `None` if the previous record lacks the case.
fn verdict(case: &Case, comparison: &Comparison) -> Option<String> {
    let here = |id: &str| id == case.id;
    if let Some(other) = comparison.unmatched.iter().find(|other| here(&other.id)) {
        let measured = [other.baseline, other.candidate] == [State::Measured; 2];
        return measured.then(|| format!("not compared: {}", other.reason));
    }
    let compared = comparison.cases.iter().find(|compared| here(&compared.id))?;
    let word = report::compare::verdict(compared.verdict);
    let figures = || match (compared.ratio, compared.interval) {
        (Some(value), Some(ends)) => format!("{} ({})", ratio(value), ends.map(ratio).join(" … ")),
        _ => "no ratio".into(),
    };
    Some(match compared.verdict {
        Verdict::Slower | Verdict::Faster => format!("{word}: {}", figures()),
        Verdict::Same => word.into(),
        Verdict::Undecided => format!("{word}: {}", compared.test),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::cli::{Cli, Command};
    use crate::record::fixture::four_cases;
    use std::ffi::OsString;

    #[test]
    fn only_verdicts_have_ratios() {
        let records = [four_cases(), four_cases()];
        let [last, now] = records.each_ref().map(std::slice::from_ref);
        let mut comparison = compare::compare(last, now, &Settings::default());
        let case = &records[1].cases[0];
        let mut of = |found: Verdict| {
            let compared = &mut comparison.cases[0];
            (compared.ratio, compared.interval) = (Some(1.94), Some([1.49, 2.46]));
            (compared.verdict, compared.test) = (found, "only 1 process".into());
            verdict(case, &comparison)
        };
        assert_eq!(of(Verdict::Slower).as_deref(), Some("SLOWER: 1.9400 (1.4900 … 2.4600)"));
        assert_eq!(of(Verdict::Undecided).as_deref(), Some("undecided: only 1 process"));
        assert_eq!(of(Verdict::Same).as_deref(), Some("same"));
        comparison.cases.clear();
        assert_eq!(verdict(case, &comparison), None, "nothing to compare it with");
    }

    #[test]
    fn watching_a_folder_includes_the_files_of_its_description() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let kernel = "#version 460
            layout(binding = 0) buffer A { float a[]; };
            void main() { a[0] += 1.0; }";
        let text = "kernel.source = 'k.comp'\nbuffer.A = { type = 'f32', shape = [2], fill = '@a.bin', check = 'exact' }\ndispatch.groups = [1]\n";
        for (name, contents) in [("k.comp", kernel), ("case.toml", text), ("a.bin", "12345678")] {
            std::fs::write(path(name), contents).expect("written");
        }
        let words = ["gpukern".into(), "run".into(), OsString::from(folder.path())];
        let Command::Run(args) =
            Cli::parsed(&words, &crate::commands::cli::Variables::new()).expect("it parses").command
        else {
            panic!("another command")
        };
        let mut files = named(&args);
        let (known, resolved) = read(&args, &mut files);
        resolved.expect("it is understood");
        assert!(["k.comp", "case.toml", "a.bin"].iter().all(|name| files.contains(&path(name))), "{files:?}");
        // Same length, as when an editor truncates and rewrites.
        std::fs::write(path("case.toml"), text.replace("[2]", "[1]")).expect("written");
        assert!(seen(&files) != known);
    }
}
