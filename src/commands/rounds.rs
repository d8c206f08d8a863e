//! `bench --compare`: compares a record, and remeasures undecided cases in further rounds.
//!
//! Each round runs in its own process, because the medians of two processes differ by more than their samples show. The
//! record of `--json` is written after the first measurement, and again with the rounds as further processes; `--rounds`
//! keeps the record of each.

use super::{CommandOutput, JSON, MeasurementCall, Target, judging, origin, parse_duration};
use crate::basis::command_line::stated;
use crate::commands::cli::{Comparing, OutputArgs};
use crate::compare::gate::Ruling;
use crate::compare::recipe::{self, ComparisonCommand, SideFiles};
use crate::compare::{Comparison, Obstacle, Verdict, compare};
use crate::stats::bootstrap::MIN_RUNS_FOR_SPREAD;
use crate::{
    CaseGroup, Error, Exit, Host, Nanos, Plan, PlanSection, Record, Request, Result, Settings, Setup, Shown, about,
    counted, report,
};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULT_BUDGET: Duration = Duration::from_secs(30);

/// Comparison with a baseline, and the options of its further rounds.
pub(super) struct ComparisonRounds {
    baseline: Vec<Record>,
    comparing: Comparing,
    settings: Settings,
    request: Request,
    record: Option<PathBuf>,
    /// Time limit of all further rounds.
    budget: Duration,
    /// Folder for the records of further rounds.
    folder: Option<PathBuf>,
}

impl ComparisonRounds {
    /// Returns the comparison that the options ask for, if any. Mistakes in them are reported here, before a device is opened.
    pub(super) fn new(
        comparing: &Comparing,
        request: &Request,
        record: Option<&Path>,
        notes: &mut String,
    ) -> Result<Option<Self>> {
        if comparing.compare.is_empty() {
            return match comparing.judging.first_given() {
                Some(name) => Err(usage!(
                    "--{name} applies only to comparisons; name a record to compare with: --compare RUN.json"
                )),
                None => Ok(None),
            };
        }
        let budget = match comparing.budget.as_deref() {
            None => DEFAULT_BUDGET,
            Some("0" | "0s") => Duration::ZERO,
            Some(text) => parse_duration("budget", text)?,
        };
        let paths: Vec<&Path> = comparing.compare.iter().map(PathBuf::as_path).collect();
        if paths.iter().filter(|path| **path == Path::new("-")).count() > 1 {
            return Err(Error::Usage("standard input ('-') is given twice; it holds one record".into()));
        }
        Ok(Some(Self {
            // Without a budget there is only one comparison, so repeated looks need no correction.
            settings: Settings { growing: !budget.is_zero(), ..judging::settings(&comparing.judging)? },
            folder: comparing.rounds.as_deref().map(make_empty_folder).transpose()?,
            baseline: judging::read_all(&paths, notes)?,
            comparing: comparing.clone(),
            request: request.clone(),
            record: record.filter(|path| *path != Path::new("-")).map(Path::to_path_buf),
            budget,
        }))
    }

    /// Refuses a plan of which the baseline has nothing, before anything is measured.
    pub(super) fn check(&self, plan: &Plan) -> Result<()> {
        let names = |section: &PlanSection| -> Vec<(String, String)> {
            let of_group = |group: &CaseGroup| {
                let algorithm = group.algorithm.name.to_string();
                group.variants.iter().map(|variant| (algorithm.clone(), variant.name.to_string())).collect::<Vec<_>>()
            };
            section.groups.iter().flat_map(of_group).collect()
        };
        let planned: Vec<_> = plan.sections.iter().flat_map(names).collect();
        let measured = self.baseline.iter().flat_map(|record| &record.cases);
        let known: Vec<_> = measured.map(|case| (case.algorithm.clone(), case.variant.clone())).collect();
        // `auto` and tuned choices get their names later.
        let is_open =
            planned.is_empty() || plan.sections.iter().flat_map(|section| &section.groups).any(|group| group.auto);
        if is_open || known.is_empty() || planned.iter().any(|name| known.contains(name)) {
            return Ok(());
        }
        let text = |(algorithm, variant): &(String, String)| format!("{algorithm}/{variant}");
        Err(judging::no_common_case(Some(&text(&known[0])), Some(&text(&planned[0]))))
    }

    /// Returns a warning, before anything is measured, if the baseline or `processes` are too few to decide anything on a
    /// software device.
    pub(super) fn warning(&self, plan: &Plan, processes: usize, host: &Host) -> Option<String> {
        // With --process-noise the spread between processes is known.
        if self.settings.noise.is_some() {
            return None;
        }
        let fewest = self.fewest_baseline_processes(plan)?;
        let width = host.width();
        let mut text = String::new();
        if fewest < MIN_RUNS_FOR_SPREAD {
            let has = format!(
                "note      the baseline has {}; with fewer than {MIN_RUNS_FOR_SPREAD}, a verdict on a software device also \
                 needs CPU times that confirm it.",
                counted(fewest, "process")
            );
            let command = match (self.baseline.first(), self.comparing.compare.first()) {
                (Some(record), Some(path)) => recipe::completed(&host.program_name(), record, path, recipe::ENOUGH),
                _ => None,
            };
            let remedy = if command.is_some() { "Add more first:" } else { "Measure it again with --processes 5." };
            text += &report::table::prose(&format!("{has} {remedy}"), width, 10);
            if let Some(command) = &command {
                for line in report::compare::shell_lines(command, width.saturating_sub(10)) {
                    let _ = writeln!(text, "          {line}");
                }
            }
        }
        // Each round adds a process; without a budget there are none.
        if processes < MIN_RUNS_FOR_SPREAD && self.budget.is_zero() {
            let note = format!(
                "note      this run has {} and needs {MIN_RUNS_FOR_SPREAD} or more: add --processes {}",
                counted(processes, "process"),
                recipe::ENOUGH
            );
            text += &report::table::prose(&note, width, 10);
        }
        if text.is_empty() { None } else { Some(text.trim_end().to_string()) }
    }

    /// Returns how many processes of the baseline measured the case that the fewest measured: of the cases in `plan`, on the
    /// host's cores. `None` if there is no such case.
    fn fewest_baseline_processes(&self, plan: &Plan) -> Option<usize> {
        let planned = plan.ids();
        let mut processes: HashMap<(String, &str), usize> = HashMap::new();
        for record in &self.baseline {
            for case in record.cases.iter().filter(|case| planned.contains(&case.id)) {
                if record.device(case.device).is_some_and(|device| device.kind.runs_on_host_cores()) {
                    *processes.entry((record.device_name(case.device), &case.id)).or_default() += 1;
                }
            }
        }
        processes.into_values().min()
    }

    /// Compares `first` with the baseline, and remeasures undecided cases while there is time. Returns a text for
    /// standard output and the exit code.
    pub(super) fn judge(&self, first: Record, call: MeasurementCall<'_>) -> Result<CommandOutput> {
        let host = call.host;
        let mut candidate = vec![first];
        judging::check_conditions(&self.baseline, &candidate, &self.comparing.judging)?;
        let mut comparison = compare(&self.baseline, &candidate, &self.settings);
        judging::check_common_case(&comparison)?;
        let started = host.elapsed();
        // An error in a round must not lose the earlier measurements.
        let remeasured = self.remeasure(&mut candidate, &mut comparison, call);
        let kept = self.keep(&candidate);
        let remeasured = remeasured.and_then(|too_long| kept.map(|()| too_long));
        let too_long = *remeasured.as_ref().unwrap_or(&None);
        let paths: Vec<&Path> = self.comparing.compare.iter().map(PathBuf::as_path).collect();
        let sides = [
            SideFiles { records: &self.baseline, paths: &paths },
            // The suggested command is this one, so the candidate needs no paths.
            SideFiles { records: &candidate, paths: &[] },
        ];
        let again = ComparisonCommand {
            program: &host.program_name(),
            completes: self.record.is_some(),
            anew: None,
            command: &|processes, [baseline, _]| self.repeating_command(processes, baseline, too_long, host),
        };
        (comparison.remarks, comparison.decide) = recipe::recipe(&comparison, sides, &self.settings, &again);
        // Reasons come before the commands that the recipe suggests.
        comparison.remarks.splice(0..0, prospects(&comparison));
        let ruling = Ruling::default();
        let verdict = judging::exit_of_comparison(&comparison, &ruling);
        if verdict == Exit::Success {
            judging::drop_recipe(&mut comparison);
        }
        let exit = match (verdict, &remeasured) {
            (Exit::Rejected, _) => Exit::Rejected,
            _ if host.is_interrupted() => Exit::Interrupted,
            (_, Err(error)) => error.exit(),
            (exit, Ok(_)) => exit,
        };
        let mut text = report::compare::text(&comparison, &ruling, host.width());
        text += &self.summary(candidate.len() - 1, host.since(started), too_long);
        if let Err(error) = remeasured {
            host.messages.line(&format!("error: {error}"));
        }
        Ok(CommandOutput { output: text, ..CommandOutput::new(String::new(), String::new(), exit) })
    }

    /// Measures undecided cases in further rounds, each of which adds a record to `candidate`, until all are decided or the
    /// time is up. Returns the expected duration of the next round if the rest of the budget is too short for it.
    fn remeasure(
        &self,
        candidate: &mut Vec<Record>,
        comparison: &mut Comparison,
        call: MeasurementCall<'_>,
    ) -> Result<Option<Duration>> {
        let host = call.host;
        let planned = call.plan.ids();
        let started = host.elapsed();
        let mut last_duration = None;
        while let Some(ids) = undecided(comparison, &planned) {
            let remaining = self.budget.saturating_sub(host.since(started));
            if host.is_interrupted() || remaining.is_zero() {
                break;
            }
            let expected = last_duration.unwrap_or_else(|| round_duration(&candidate[0], &ids));
            if remaining < expected {
                return Ok(Some(expected));
            }
            let round = candidate.len() + 1;
            host.messages.line(&format!(
                "round {round}: {} undecided, {} of {} left",
                ids.len(),
                about(remaining.into()),
                about(self.budget.into())
            ));
            let start = host.elapsed();
            match self.round(round, &ids, call)? {
                Some(record) => candidate.push(record),
                None => break,
            }
            last_duration = Some(host.since(start));
            *comparison = compare(&self.baseline, candidate, &self.settings);
        }
        Ok(None)
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
        recipe::assignments(&origin::environment(host)) + &command
    }

    /// Measures the cases with these `ids` in fresh processes; `None` if interrupted.
    fn round(&self, round: usize, ids: &[&str], call: MeasurementCall<'_>) -> Result<Option<Record>> {
        let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
        let plan = &call.plan.clone().only(&ids)?;
        // `run --save` and `--print` use the buffers of the first measurement.
        let mut kernels = call.setup.kernels.clone();
        for kernels in &mut kernels {
            kernels.saves.clear();
        }
        let setup = &Setup { kernels, ..call.setup.clone() };
        let call = MeasurementCall::new(plan, setup, call.options, call.host);
        let Some(record) = call.measure_in_fresh_processes(&format!("round {round}"))? else { return Ok(None) };
        if let Some(folder) = &self.folder {
            Target::open(JSON, &folder.join(format!("round-{round}.json")))?.deliver_json(&record)?;
        }
        Ok(Some(record))
    }

    /// Adds the further rounds to the record, which then has all that the verdicts rest on. One that was sent to a stream
    /// cannot be written again.
    fn keep(&self, candidate: &[Record]) -> Result<()> {
        match self.record.as_deref() {
            Some(path) if candidate.len() > 1 && path.is_file() => {
                Target::open(JSON, path)?.write_unfinished(&Record::pooled(candidate.to_vec()))
            }
            _ => Ok(()),
        }
    }

    /// Returns how many further rounds there were, and why there are no more if the next would be `too_long`.
    fn summary(&self, rounds: usize, taken: Duration, too_long: Option<Duration>) -> String {
        let mut text = String::new();
        if rounds > 0 {
            let _ = writeln!(text, "{} in {}", counted(rounds, "further round"), Nanos::from(taken));
        }
        if let Some(duration) = too_long {
            let [duration, budget] = [duration, self.budget].map(|time| about(time.into()));
            let _ = writeln!(text, "A further round, of about {duration}, would exceed --budget {budget}.");
        }
        text
    }
}

/// Returns what further rounds may decide, and why they cannot decide the rest.
fn prospects(comparison: &Comparison) -> Vec<String> {
    let undecided = comparison.cases.iter().filter(|case| case.verdict == Verdict::Undecided);
    let (open, closed): (Vec<_>, Vec<_>) = undecided.partition(|case| case.wants_more());
    let mut lines = vec![];
    if !open.is_empty() {
        lines.push(format!("A longer --budget may decide {}.", counted(open.len(), "case")));
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for case in closed {
        let reason = match case.obstacle {
            Some(Obstacle::AnotherBoard) => "the baseline was measured on another board",
            Some(Obstacle::Unverified { .. } | Obstacle::WeakerCheck) => {
                "the answers are no longer verified, or less strictly"
            }
            Some(Obstacle::AnotherSpeed { baseline: true }) => "the device was slower or busier beside the baseline",
            Some(Obstacle::AnotherSpeed { baseline: false }) => {
                "the device is slower or busier than beside the baseline"
            }
            _ => "the baseline has too few processes or samples",
        };
        *reasons.entry(reason).or_default() += 1;
    }
    for (reason, count) in reasons {
        lines.push(format!("More rounds cannot decide {}: {reason}.", counted(count, "case")));
    }
    lines
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
    let mut total = Nanos::default();
    for cases in record.group_by_id() {
        if ids.contains(&cases[0].id.as_str()) {
            total = total + cases.into_iter().find_map(recipe::time_of).unwrap_or_default();
        }
    }
    Duration::try_from_secs_f64(total.seconds()).unwrap_or_default()
}

/// Creates the folder of --rounds. Refuses one that is not empty: records of another run would be mistaken for rounds of
/// this one.
fn make_empty_folder(path: &Path) -> Result<PathBuf> {
    let make = || {
        std::fs::create_dir_all(path)?;
        if std::fs::read_dir(path)?.next().is_some() {
            return Err(io::Error::other("it is not empty"));
        }
        Ok(path.to_path_buf())
    };
    make().map_err(|reason| usage!("cannot keep rounds in '{}': {reason}; name a new folder", path.shown()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CATALOGUE;

    #[test]
    fn rounds_are_kept_in_a_new_or_empty_folder_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let new = folder.path().join("below/rounds");
        assert_eq!(make_empty_folder(&new).expect("it is made"), new);
        std::fs::write(new.join("round-2.json"), "{}").expect("written");
        let error = make_empty_folder(&new).expect_err("it has a file").to_string();
        assert_eq!(error, format!("cannot keep rounds in '{}': it is not empty; name a new folder", new.display()));
    }

    fn rounds() -> ComparisonRounds {
        ComparisonRounds {
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
        let host = Host::in_memory([], [], "gpukern");
        let same = rounds().repeating_command(5, None, None, &host);
        assert_eq!(same, "gpukern bench --processes=5 --compare=a.json --compare=b.json --budget=5s");
        let round = Duration::from_millis(8200);
        let longer = rounds().repeating_command(5, Some("a-again.json".into()), Some(round), &host);
        assert_eq!(longer, "gpukern bench --processes=5 --compare=a-again.json --compare=b.json --budget=24s");
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
        let side = std::slice::from_ref(&record);
        let slower = Obstacle::AnotherSpeed { baseline: false };
        let few = Obstacle::FewProcesses { baseline: true };
        for (obstacle, processes, expected) in [
            (few, 1, "More rounds cannot decide 1 case: the baseline has too few processes or samples."),
            (slower, 1, "A longer --budget may decide 1 case."),
            (slower, 5, "More rounds cannot decide 1 case: the device is slower or busier than beside the baseline."),
        ] {
            let mut comparison = compare(side, side, &Settings::default());
            comparison.cases.truncate(1);
            let case = &mut comparison.cases[0];
            (case.verdict, case.obstacle) = (Verdict::Undecided, Some(obstacle));
            case.candidate.processes = processes;
            assert_eq!(prospects(&comparison).join("\n"), expected);
        }
    }

    fn fixture() -> Record {
        let text = include_bytes!("../../tests/fixtures/run-1.json");
        crate::record::reader::parse(text, "fixture", &CATALOGUE).expect("a record").record
    }
}
