//! `bench --compare`: compares a record, and remeasures undecided cases in further rounds.
//!
//! Each round runs in its own process, because the medians of two processes differ by more than their samples show. `--json`
//! writes only the record of the first measurement; `--rounds` keeps those of the rounds.

use super::campaign::measure_in_fresh_processes;
use super::document::{JSON, Target};
use super::host::Host;
use super::{duration, judging};
use crate::basis::command_line::stated;
use crate::basis::error::{Error, Exit};
use crate::basis::printable::Shown;
use crate::basis::units::{Nanos, about, counted};
use crate::commands::cli::{Comparing, OutputArgs};
use crate::compare::gate::Ruling;
use crate::compare::recipe::{self, ComparisonCommand, SideFiles};
use crate::compare::{Compared, Comparison, Obstacle, Settings, Verdict, compare};
use crate::engine::measurement::MeasureOptions;
use crate::engine::session::Setup;
use crate::plan::Plan;
use crate::plan::request::Request;
use crate::record::Record;
use crate::report;
use crate::stats::bootstrap::MIN_RUNS_FOR_SPREAD;
use crate::user::algorithm::UserKernels;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default of `--budget`.
const DEFAULT_BUDGET: Duration = Duration::from_secs(30);

/// Comparison with a baseline, and the options of its further rounds.
pub(super) struct Rounds {
    baseline: Vec<Record>,
    comparing: Comparing,
    settings: Settings,
    /// Request of the measurement.
    request: Request,
    /// File of the measured record.
    record: Option<PathBuf>,
    /// Time limit of all further rounds.
    budget: Duration,
    /// Folder for the records of further rounds.
    folder: Option<PathBuf>,
}

impl Rounds {
    /// Returns the comparison that the options ask for, if any. Mistakes in them are reported here, before a device is opened.
    pub(super) fn new(
        comparing: &Comparing,
        request: &Request,
        record: Option<&Path>,
        notes: &mut String,
    ) -> Result<Option<Self>, Error> {
        if comparing.compare.is_empty() {
            return match comparing.judging.given() {
                Some(name) => Err(Error::Usage(format!(
                    "--{name} applies only to comparisons; name a record to compare with: --compare RUN.json"
                ))),
                None => Ok(None),
            };
        }
        let budget = match comparing.budget.as_deref() {
            None => DEFAULT_BUDGET,
            Some("0" | "0s") => Duration::ZERO,
            Some(text) => duration("budget", text)?,
        };
        let paths: Vec<&Path> = comparing.compare.iter().map(PathBuf::as_path).collect();
        if paths.iter().filter(|path| **path == Path::new("-")).count() > 1 {
            return Err(Error::Usage("standard input ('-') is given twice; it holds one record".into()));
        }
        Ok(Some(Self {
            // Without a budget there is only one comparison, so repeated looks need no correction.
            settings: Settings { growing: !budget.is_zero(), ..judging::settings(&comparing.judging)? },
            folder: comparing.rounds.as_deref().map(empty_folder).transpose()?,
            baseline: judging::read_all(&paths, notes)?,
            comparing: comparing.clone(),
            request: request.clone(),
            record: record.filter(|path| *path != Path::new("-")).map(Path::to_path_buf),
            budget,
        }))
    }

    /// Returns a warning, before anything is measured, if the baseline or `processes` are too few to decide anything on a
    /// software device.
    pub(super) fn warning(&self, plan: &Plan, processes: usize, host: &Host) -> Option<String> {
        let planned = plan.ids();
        let mut known: HashMap<(String, &str), usize> = HashMap::new();
        for record in &self.baseline {
            let on_host = |index| record.device(index).is_some_and(|device| device.kind.runs_on_host_cores());
            for case in record.cases.iter().filter(|case| on_host(case.device) && planned.contains(&case.id)) {
                *known.entry((record.device_name(case.device), &case.id)).or_default() += 1;
            }
        }
        // With --process-noise the spread between processes is known.
        let fewest = known.into_values().min().filter(|_| self.settings.noise.is_none());
        let (fewest, width) = (fewest?, host.width());
        let mut lines = vec![];
        if fewest < MIN_RUNS_FOR_SPREAD {
            let has = format!(
                "note      the baseline has {}; a verdict on a software device needs {MIN_RUNS_FOR_SPREAD}, so this run can decide \
                 nothing.",
                counted(fewest, "process")
            );
            let command = match (self.baseline.first(), self.comparing.compare.first()) {
                (Some(record), Some(path)) => recipe::completed(&host.program_name(), record, path, recipe::ENOUGH),
                _ => None,
            };
            let edited = self.baseline.iter().any(|record| kernels_changed(record, plan));
            let remedy = match &command {
                Some(_) if edited => "Add more first, with the kernels and the description that it measured:",
                Some(_) => "Add more first:",
                None => "Measure it again with --processes 5.",
            };
            lines.push(report::table::prose(&format!("{has} {remedy}"), width, 10));
            for line in command.iter().flat_map(|line| report::compare::shell_lines(line, width.saturating_sub(10))) {
                lines.push(format!("          {line}\n"));
            }
        }
        // Each round adds a process; without a budget there are none.
        if processes < MIN_RUNS_FOR_SPREAD && self.budget.is_zero() {
            let has =
                format!("note      this run measures {processes} of the {MIN_RUNS_FOR_SPREAD} processes that it needs");
            lines.push(report::table::prose(&format!("{has}: add --processes {}", recipe::ENOUGH), width, 10));
        }
        (!lines.is_empty()).then(|| lines.concat().trim_end().to_string())
    }

    /// Compares `first` with the baseline, and remeasures undecided cases while there is time. Returns the text for the user
    /// and the exit code.
    pub(super) fn judge(
        &self,
        first: Record,
        plan: &Plan,
        setup: &Setup,
        options: &MeasureOptions<'_>,
        host: &Host,
    ) -> Result<(String, Exit), Error> {
        let planned = plan.ids();
        let mut candidate = vec![first];
        judging::check_conditions(&self.baseline, &candidate, &self.comparing.judging)?;
        let mut comparison = compare(&self.baseline, &candidate, &self.settings);
        judging::check_common_case(&comparison)?;
        let started = host.elapsed();
        let mut last_duration = None;
        let (mut failure, mut too_long) = (None, None);
        while let Some(ids) = undecided(&comparison, &planned) {
            let left = self.budget.saturating_sub(host.since(started));
            let expected = last_duration.unwrap_or_else(|| round_duration(&candidate[0], &ids));
            if host.is_interrupted() || left.is_zero() || left < expected {
                too_long = Some(expected).filter(|_| !host.is_interrupted() && !left.is_zero());
                break;
            }
            let (round, count) = (candidate.len() + 1, ids.len());
            host.messages.line(&format!(
                "round {round}: {count} undecided, {} of {} left",
                Nanos::from(left),
                Nanos::from(self.budget)
            ));
            let start = host.elapsed();
            // An error in a round must not lose the earlier measurements.
            match self.round(round, plan, &ids, setup, options, host) {
                Ok(Some(record)) => candidate.push(record),
                Ok(None) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
            last_duration = Some(host.since(start));
            comparison = compare(&self.baseline, &candidate, &self.settings);
        }
        let paths: Vec<&Path> = self.comparing.compare.iter().map(PathBuf::as_path).collect();
        let sides = [
            SideFiles { records: &self.baseline, paths: &paths },
            // The suggested command is this one, so the candidate needs no paths.
            SideFiles { records: &candidate, paths: &[] },
        ];
        let again = ComparisonCommand {
            program: &host.program_name(),
            completes: self.record.is_some(),
            command: &|processes, [baseline, _]| self.repeating_command(processes, baseline, too_long, host),
        };
        (comparison.remarks, comparison.decide) = recipe::recipe(&comparison, sides, &self.settings, &again);
        // Reasons come before the commands that the recipe suggests.
        comparison.remarks.splice(0..0, prospects(&comparison));
        let ruling = Ruling::default();
        let exit = match judging::exit(&comparison, &ruling) {
            Exit::Rejected => Exit::Rejected,
            _ if host.is_interrupted() => Exit::Interrupted,
            exit => failure.as_ref().map_or(exit, Error::exit),
        };
        let mut text = report::compare::text(&comparison, &ruling, host.width());
        text.push_str(&self.summary(candidate.len() - 1, host.since(started), too_long));
        if let Some(error) = failure {
            host.messages.line(&format!("error: {error}"));
        }
        Ok((text, exit))
    }

    /// Returns the command that measures `processes` processes and compares again, with `baseline` in place of the first
    /// baseline record. It resumes the measured record if there is one; its budget allows three rounds if one was `too_long`.
    fn repeating_command(
        &self,
        processes: usize,
        baseline: Option<String>,
        too_long: Option<Duration>,
        host: &Host,
    ) -> String {
        let request = Request { processes: u32::try_from(processes).ok(), ..self.request.clone() };
        let mut comparing = Comparing { rounds: None, ..self.comparing.clone() };
        if let Some(round) = too_long {
            comparing.budget = Some(format!("{}s", 3 * round.as_secs().max(1)));
        }
        if let (Some(first), Some(baseline)) = (comparing.compare.first_mut(), baseline) {
            *first = baseline.into();
        }
        let output = OutputArgs { comparing, resume: self.record.clone(), ..OutputArgs::default() };
        let command = request.command_with(&host.program_name(), stated(&output, &OutputArgs::default()));
        recipe::assignments(&super::origin::environment(host)) + &command
    }

    /// Measures the cases `ids` of a plan in fresh processes; `None` if interrupted.
    fn round(
        &self,
        round: usize,
        plan: &Plan,
        ids: &[&str],
        setup: &Setup,
        options: &MeasureOptions<'_>,
        host: &Host,
    ) -> Result<Option<Record>, Error> {
        let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
        let plan = plan.clone().only(&ids)?;
        // `run --save` and `--print` use the buffers of the first measurement.
        let kernels = setup.kernels.iter().cloned().map(|kernels| UserKernels { saves: vec![], ..kernels }).collect();
        let setup = setup.with_kernels(kernels);
        let Some(record) = measure_in_fresh_processes(&format!("round {round}"), &plan, &setup, options, host)? else {
            return Ok(None);
        };
        if let Some(folder) = &self.folder {
            Target::open(JSON, &folder.join(format!("round-{round}.json")))?.deliver_json(&record)?;
        }
        Ok(Some(record))
    }

    /// Returns how many further rounds there were, and why there are no more if the next would be `too_long`.
    fn summary(&self, rounds: usize, taken: Duration, too_long: Option<Duration>) -> String {
        let records = match self.folder {
            Some(_) => "their records are in the folder of --rounds",
            None => "--rounds DIR keeps their records",
        };
        let done = match rounds {
            0 => String::new(),
            _ => format!("{} in {}; {records}\n", counted(rounds, "further round"), Nanos::from(taken)),
        };
        let another = if rounds == 0 { "A further round" } else { "Another round" };
        let [next, budget] = [too_long.unwrap_or_default(), self.budget].map(|time| about(time.into()));
        let ended = too_long.map(|_| format!("{another}, of about {next}, would exceed --budget {budget}.\n"));
        done + &ended.unwrap_or_default()
    }
}

/// Returns whether users' kernels or their descriptions changed since `record` measured the cases of `plan`.
fn kernels_changed(record: &Record, plan: &Plan) -> bool {
    let known: BTreeSet<&str> = record.cases.iter().map(|case| case.id.as_str()).collect();
    let planned = plan.ids();
    let users = plan.sections.iter().flat_map(|run| &run.groups).any(|group| group.algorithm.fingerprint.is_some());
    users
        && record.plan.as_ref().is_some_and(|own| *own != plan.hash())
        && known == planned.iter().map(String::as_str).collect()
}

/// Returns whether further rounds could decide the undecided cases, or why not. The recipe explains the remaining reasons.
fn prospects(comparison: &Comparison) -> Vec<String> {
    let wants_more = |case: &Compared| case.verdict != Verdict::Undecided || case.wants_more();
    let open = comparison.count(Verdict::Undecided);
    if open > 0 && comparison.cases.iter().all(wants_more) {
        let remaining = match comparison.cases.len() {
            1 => "it",
            all if all == open => "them",
            _ => "the rest",
        };
        return vec![format!("A longer --budget may decide {remaining}, and so may more processes of the baseline.")];
    }
    let hopeless = comparison.cases.iter().filter(|case| case.verdict == Verdict::Undecided && !case.wants_more());
    let (boards, others): (Vec<&Compared>, Vec<&Compared>) =
        hopeless.partition(|case| case.obstacle == Some(Obstacle::AnotherBoard));
    let (slower, few): (Vec<&Compared>, Vec<&Compared>) = others.into_iter().partition(|case| case.saw_another_speed());
    let now = |case: &&&Compared| case.obstacle == Some(Obstacle::AnotherSpeed { baseline: false }) && !case.is_stuck();
    let reasons = [
        (boards.len(), "the baseline was measured on another board"),
        (few.len(), "the baseline has too few processes or samples"),
        (slower.iter().filter(now).count(), "the device is slower or busier than beside the baseline"),
    ];
    let line = |(count, reason)| format!("More rounds cannot decide {}: {reason}.", counted(count, "case"));
    reasons.into_iter().filter(|(count, _)| *count > 0).map(line).collect()
}

/// Returns the ids of the cases that further rounds may decide; `None` if there are none.
fn undecided<'a>(comparison: &'a Comparison, planned: &[String]) -> Option<Vec<&'a str>> {
    let mut ids: Vec<&str> = vec![];
    for case in comparison.cases.iter().filter(|case| case.wants_more()) {
        // Rounds select cases by id, on all devices that have them.
        if planned.contains(&case.id) && !ids.contains(&case.id.as_str()) {
            ids.push(&case.id);
        }
    }
    (!ids.is_empty()).then_some(ids)
}

/// Returns the host time that the cases `ids` took in one process of `record`.
fn round_duration(record: &Record, ids: &[&str]) -> Duration {
    let mut sightings = record.sightings();
    sightings.retain(|sightings| ids.contains(&sightings[0].id.as_str()));
    let total: Nanos =
        sightings.iter().filter_map(|sightings| sightings.iter().copied().find_map(recipe::time_of)).sum();
    Duration::try_from_secs_f64(total.seconds()).unwrap_or_default()
}

/// Creates the folder of --rounds. Refuses one that is not empty: records of another run would be mistaken for rounds of
/// this one.
fn empty_folder(path: &Path) -> Result<PathBuf, Error> {
    let shown = path.shown();
    let refuse = |reason: &str| Error::Usage(format!("cannot keep rounds in '{shown}': {reason}; name a new folder"));
    std::fs::create_dir_all(path).map_err(|e| refuse(&e.to_string()))?;
    let mut entries = std::fs::read_dir(path).map_err(|e| refuse(&e.to_string()))?;
    if entries.next().is_some() {
        return Err(refuse("it is not empty"));
    }
    Ok(path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::CATALOGUE;

    #[test]
    fn rounds_are_kept_in_a_new_or_empty_folder_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let new = folder.path().join("below/rounds");
        assert_eq!(empty_folder(&new).expect("it is made"), new);
        std::fs::write(new.join("round-2.json"), "{}").expect("written");
        let error = empty_folder(&new).expect_err("it has a file").to_string();
        assert_eq!(error, format!("cannot keep rounds in '{}': it is not empty; name a new folder", new.display()));
    }

    /// Returns rounds with an empty baseline.
    fn rounds() -> Rounds {
        Rounds {
            baseline: vec![],
            comparing: Comparing {
                compare: vec!["a.json".into(), "b.json".into()],
                budget: Some("5s".into()),
                rounds: Some("rounds".into()),
                ..Comparing::default()
            },
            settings: Settings::default(),
            request: Request::default(),
            record: None,
            budget: DEFAULT_BUDGET,
            folder: None,
        }
    }

    #[test]
    fn the_command_that_repeats_it_has_time_for_a_round() {
        let own = rounds();
        let of = |baseline: Option<&str>, too_long| {
            let command =
                own.repeating_command(5, baseline.map(String::from), too_long, &Host::in_memory([], [], "gpukern"));
            command.split_once(" bench ").expect("a command").1.to_string()
        };
        assert_eq!(of(None, None), "--processes=5 --compare=a.json --compare=b.json --budget=5s");
        let longer = of(Some("a-again.json"), Some(Duration::from_millis(8200)));
        assert_eq!(longer, "--processes=5 --compare=a-again.json --compare=b.json --budget=24s");
    }

    #[test]
    fn a_round_is_expected_to_take_as_long_as_its_cases_did() {
        let mut record = fixture();
        for case in &mut record.cases {
            if let crate::record::Outcome::Measured(measured) = &mut case.outcome {
                measured.phases.verification = Nanos(1e9);
                measured.phases.warm_up = Nanos(2e9);
                measured.phases.sampling = Nanos(3e9);
            }
        }
        let ids: Vec<&str> = record.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(round_duration(&record, &ids[..1]), Duration::from_secs(6));
        assert_eq!(round_duration(&record, &["none"]), Duration::ZERO);
    }

    #[test]
    fn cases_that_no_further_round_can_decide_are_explained() {
        let record = fixture();
        let rounds = rounds();
        let processes = std::cell::Cell::new(1);
        let said = |obstacle| {
            let mut comparison =
                compare(std::slice::from_ref(&record), std::slice::from_ref(&record), &rounds.settings);
            comparison.cases.truncate(1);
            comparison.cases.iter_mut().for_each(|case| (case.verdict, case.obstacle) = (Verdict::Undecided, obstacle));
            comparison.cases.iter_mut().for_each(|case| case.candidate.processes = processes.get());
            prospects(&comparison).join("\n")
        };
        let of = |baseline| Some(Obstacle::AnotherSpeed { baseline });
        assert_eq!(said(of(true)), "", "the recipe says that it needs a new baseline");
        let few = said(Some(Obstacle::FewProcesses { baseline: true }));
        assert_eq!(few, "More rounds cannot decide 1 case: the baseline has too few processes or samples.");
        assert!(said(of(false)).starts_with("A longer --budget may decide it, "), "{}", said(of(false)));
        processes.set(5);
        assert!(
            said(of(false)).contains("cannot decide 1 case: the device is slower or busier than"),
            "{}",
            said(of(false))
        );
    }

    fn fixture() -> Record {
        let text = include_bytes!("../../tests/fixtures/run-1.json");
        crate::record::reader::parse(text, "fixture", &CATALOGUE).expect("a record").record
    }
}
