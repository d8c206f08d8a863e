//! Implements `run --watch`: measures again whenever a file changes, and prints a line per case.

use super::{CommandOutput, RunArgs, check_commands, named_kernels, plan_section, read_descriptions, resolve_problems};
use crate::basis::units::ratio;
use crate::commands::MeasurementCall;
use crate::compare::{self, Comparison, State, Verdict};
use crate::report::long::share_text;
use crate::user::options::CASE;
use crate::user::resolved::ResolvedProblem;
use crate::{
    Case, Error, Host, LimitPolicy, MeasureOptions, Outcome, Plan, Record, Request, Result, Settings, Setup, Timing,
    Tuned, VulkanOptions, report,
};
use std::collections::BTreeMap;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Interval between checks of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// State of a file, to detect changes.
#[derive(Debug, PartialEq)]
struct FileState {
    modified: SystemTime,
    bytes: u64,
    /// On Unix: device, inode and ctime. Editors may keep size and modification time, but cannot reset the ctime.
    identity: Vec<i64>,
}

/// Files with the states in which they were last seen; `None` for a file that is missing.
type FileStates = BTreeMap<PathBuf, Option<FileState>>;

pub(super) fn run(args: &RunArgs, vulkan: VulkanOptions, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    // A forbidden command in the first version is an error; in a later version it is only reported.
    check_commands(&read_descriptions(args)?.concat(), args.no_commands)?;
    host.listen()?;
    let request = args.request(vulkan);
    let mut files = files_to_watch(args);
    let mut last: Option<Record> = None;
    let mut is_told = false;
    loop {
        let problems = resolve_and_watch(args, &mut files);
        match problems.and_then(|problems| measure(problems, &request, setup, host)) {
            Ok(record) => {
                // Same rules as `compare`, with its default settings.
                let baseline = last.as_ref().map(std::slice::from_ref);
                let comparison = baseline
                    .map(|baseline| compare::compare(baseline, std::slice::from_ref(&record), &Settings::default()));
                for case in &record.cases {
                    print_line(&case_line(case, comparison.as_ref(), &record), host);
                }
                if comparison.is_none() && !std::mem::replace(&mut is_told, true) {
                    host.messages.line("          save a file to measure again, against the line above; Ctrl-C ends");
                }
                if record.cases.iter().any(|case| case.measured().is_some()) {
                    last = Some(record);
                }
            }
            Err(Error::Interrupted(_)) => {}
            Err(_) if host.is_interrupted() => {}
            // Compile errors are printed; the user will fix them and save again.
            Err(error) => print_line(&error.to_string(), host),
        }
        while !update_states(&mut files) {
            if host.is_interrupted() {
                return Ok(CommandOutput::success(String::new()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // Editors may write in several steps: wait until nothing has changed for an interval.
        std::thread::sleep(POLL_INTERVAL);
        while update_states(&mut files) {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Prints a line with the time of day.
fn print_line(text: &str, host: &Host) {
    let now = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
    host.messages.line(&format!("{now}  {text}"));
}

/// Returns the files on the command line, and the descriptions in folders: a folder's own state changes only with its
/// entries.
fn files_to_watch(args: &RunArgs) -> FileStates {
    let descriptions = args.kernel.iter().map(|path| path.join(CASE));
    let files = args.kernel.iter().chain(&args.config).cloned().chain(descriptions);
    files.map(|path| (path, None)).collect()
}

fn file_state(path: &Path) -> Option<FileState> {
    let metadata = path.metadata().ok()?;
    #[cfg(unix)]
    let identity =
        vec![metadata.dev().cast_signed(), metadata.ino().cast_signed(), metadata.ctime(), metadata.ctime_nsec()];
    #[cfg(not(unix))]
    let identity = vec![];
    Some(FileState { modified: metadata.modified().ok()?, bytes: metadata.len(), identity })
}

/// Looks at all files again. Returns whether any has changed.
fn update_states(files: &mut FileStates) -> bool {
    let mut has_changed = false;
    for (path, state) in files {
        let new_state = file_state(path);
        has_changed |= *state != new_state;
        *state = new_state;
    }
    has_changed
}

/// Looks at the files and then resolves them, so that changes during or after that are detected. If resolving reveals
/// further files, adds them and starts again.
fn resolve_and_watch(args: &RunArgs, files: &mut FileStates) -> Result<Vec<ResolvedProblem>> {
    loop {
        update_states(files);
        let count = files.len();
        let problems = resolve_problems(args);
        if let Ok(problems) = &problems {
            for (_, path) in problems.iter().flat_map(ResolvedProblem::files) {
                files.entry(path).or_default();
            }
        }
        if files.len() == count {
            return problems;
        }
    }
}

/// Measures the first choice of each kernel.
fn measure(problems: Vec<ResolvedProblem>, request: &Request, setup: &Setup, host: &Host) -> Result<Record> {
    let mut plan = Plan { sections: vec![], run_tables: vec![] };
    let mut all_kernels = vec![];
    for problem in problems {
        let kernels = named_kernels(&[], problem, &all_kernels)?;
        plan.sections.push(plan_section(&kernels, false, &request.selection)?);
        all_kernels.push(kernels);
    }
    let limits = if request.no_peak { LimitPolicy::Ignore } else { LimitPolicy::Apply };
    let tuned = Tuned::none();
    let options = MeasureOptions::new(Timing::Sample, limits, &tuned, host.command_line());
    MeasurementCall::new(&plan, &setup.with_kernels(all_kernels), &options, host).measure_quietly()
}

/// Formats a case: its time, the verdict against the previous record, its verification, and the driver's statistics.
fn case_line(case: &Case, comparison: Option<&Comparison>, record: &Record) -> String {
    let mut facts = vec![case.variant.clone()];
    if record.cases.iter().any(|other| other.variant == case.variant && other.size != case.size) {
        facts[0] = format!("{} {}", case.variant, case.size);
    }
    match &case.outcome {
        Outcome::Measured(measured) => {
            facts.push(measured.summary.median.to_string());
            facts.extend(comparison.and_then(|comparison| verdict_text(case, comparison)));
            facts.extend(case.share.map(|share| format!("{} limit", share_text(share))));
            facts.push(measured.verification.unverified().unwrap_or_else(|| "verified".into()));
            facts.extend(measured.weak_check());
        }
        Outcome::Rejected(verification) => facts.push(format!("wrong: {}", verification.worst)),
        Outcome::Skipped { reason, .. } => facts.push(format!("skipped: {reason}")),
        outcome => facts.push(outcome.failure().unwrap_or_else(|| outcome.status().into())),
    }
    for metric in case.kernels.iter().flat_map(|kernel| &kernel.statistics) {
        let name = metric.name.to_lowercase();
        if let Some(value) = metric.value
            && ["register", "spill", "local memory", "scratch"].iter().any(|word| name.contains(word))
        {
            facts.push(format!("{name} {value}"));
        }
    }
    facts.join("  ")
}

/// Formats the verdict on a case against the previous record as `compare` does: `SLOWER: 1.9412 (1.8 … 2.1)`, `same`,
/// `undecided: only 1 process`; `None` if the previous record lacks the case.
fn verdict_text(case: &Case, comparison: &Comparison) -> Option<String> {
    if let Some(unmatched) = comparison.unmatched.iter().find(|unmatched| unmatched.id == case.id) {
        let both_measured = [unmatched.baseline, unmatched.candidate] == [State::Measured; 2];
        return both_measured.then(|| format!("not compared: {}", unmatched.reason));
    }
    let compared = comparison.cases.iter().find(|compared| compared.id == case.id)?;
    let word = report::compare::verdict(compared.verdict);
    Some(match (compared.verdict, compared.ratio, compared.interval) {
        (Verdict::Same, ..) => word.into(),
        (Verdict::Undecided, ..) => format!("{word}: {}", compared.test),
        (_, Some(value), Some(ends)) => format!("{word}: {} ({})", ratio(value), ends.map(ratio).join(" … ")),
        _ => format!("{word}: no ratio"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use crate::commands::cli::{Command, Variables};
    use crate::record::fixture::four_cases;
    use std::ffi::OsString;

    #[test]
    fn only_verdicts_have_ratios() {
        let record = four_cases();
        let side = std::slice::from_ref(&record);
        let mut comparison = compare::compare(side, side, &Settings::default());
        let case = &record.cases[0];
        for (verdict, expected) in [
            (Verdict::Slower, "SLOWER: 1.940 (1.490 … 2.460)"),
            (Verdict::Undecided, "undecided: only 1 process"),
            (Verdict::Same, "same"),
        ] {
            let compared = &mut comparison.cases[0];
            (compared.ratio, compared.interval) = (Some(1.94), Some([1.49, 2.46]));
            (compared.verdict, compared.test) = (verdict, "only 1 process".into());
            assert_eq!(verdict_text(case, &comparison).as_deref(), Some(expected));
        }
        comparison.cases.clear();
        assert_eq!(verdict_text(case, &comparison), None, "nothing to compare it with");
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
        let Command::Run(args) = Cli::parsed(&words, &Variables::new()).expect("it parses").command else {
            panic!("another command")
        };
        let mut files = files_to_watch(&args);
        resolve_and_watch(&args, &mut files).expect("it is understood");
        assert!(["k.comp", "case.toml", "a.bin"].iter().all(|name| files.contains_key(&path(name))), "{files:?}");
        // Same length, as when an editor truncates and rewrites.
        std::fs::write(path("case.toml"), text.replace("[2]", "[1]")).expect("written");
        assert!(update_states(&mut files));
    }
}
