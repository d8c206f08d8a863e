//! Progress on standard error: a bar on a terminal, otherwise a line every ten seconds.

use crate::basis::alike::grouped_where;
use crate::basis::messages::{Messages, Verbosity};
use crate::basis::threads;
use crate::plan::estimate::CaseEstimate;
use crate::plan::{CaseId, axes};
use crate::{Case, DeviceInfo, DeviceKind, Exit, Nanos, Observer, Outcome, about, counted, printable};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const BAR_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress through cases, shown on standard error.
pub(crate) struct Progress {
    bar: ProgressBar,
    messages: Messages,
    forecast: Arc<Mutex<Forecast>>,
    /// Ids of cases that no device can run; not counted.
    skipped: BTreeSet<String>,
    /// Exit code of the worst case that has ended: `Rejected`, `Failure` or `Success`.
    pub(crate) exit: Exit,
    /// Thread that updates the display, and the channel whose end stops it.
    updater: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Forecast of the remaining time, from the expected times of cases and the progress so far.
struct Forecast {
    /// Estimates by case id.
    expected: BTreeMap<String, CaseEstimate>,
    /// Expected time of all cases.
    total: Nanos,
    /// Expected and actual time of the finished cases, by kind of work.
    times: BTreeMap<String, [Nanos; 2]>,
    /// Expected time of the finished work.
    done: Nanos,
    cases: usize,
    ended: usize,
    /// Running cases, each counted as half done.
    running: Vec<String>,
    /// Name of the current case or step.
    current: String,
    started: Instant,
    /// Time at which a case last started or ended.
    last_change: Instant,
    /// Expected times of device limits whose measurement has not started.
    limits: Vec<Nanos>,
    /// Fraction shown last; the bar never goes back and never stops.
    shown_fraction: f64,
    /// Elapsed time when it was shown.
    shown_at: Nanos,
}

/// Expected time after which observed times outweigh expected ones.
const PRIOR_WEIGHT: Nanos = Nanos(3e9);
/// Expected time from which a run is announced as long.
const MIN_ANNOUNCED_TIME: Nanos = Nanos(10e9);
/// Width of the bar, in columns.
const BAR_COLUMNS: usize = 24;
const BAR_STEPS: u64 = 1000;
/// Waiting time without a change from which a case is late, besides [`LATE_RATIO`] times its expected time.
const LATE: Nanos = Nanos(5e9);
/// Multiple of the expected time of the running cases from which they are late.
const LATE_RATIO: f64 = 3.0;
/// Multiple of the expected time of all from which a run is overdue, once it should end [`SOON`].
const OVERDUE: f64 = 2.0;
/// Share of the time so far that is soon.
const SOON: f64 = 0.2;
/// Share of the bar from which it seems to stand still, so that whatever takes longer than [`LATE`] is late.
const NEARLY_FULL: f64 = 0.99;
/// Name shown while device limits are measured, which is not a case.
const LIMITS: &str = "measuring the device's limits";

impl Forecast {
    fn new(cases: usize, expected: &[CaseEstimate], limits: &[Nanos]) -> Self {
        let one_process: Nanos = expected.iter().map(|case| case.time).sum();
        // Each process measures every case once more.
        let total = Nanos(one_process.0 * cases as f64 / expected.len().max(1) as f64) + limits.iter().copied().sum();
        let started = Instant::now();
        Self {
            expected: expected.iter().map(|case| (case.id.clone(), case.clone())).collect(),
            total,
            times: BTreeMap::new(),
            done: Nanos::default(),
            cases,
            ended: 0,
            running: vec![],
            current: String::new(),
            started,
            last_change: started,
            limits: limits.to_vec(),
            shown_fraction: 0.0,
            shown_at: Nanos::default(),
        }
    }

    /// Returns the expected time of a case; the average for a case without a forecast, such as one that `auto` chose.
    fn expected_time(&self, id: &str) -> Nanos {
        let average = Nanos(self.total.0 / self.cases.max(1) as f64);
        self.expected.get(id).map_or(average, |case| case.time)
    }

    /// Adds the time since the last change, and `expected`, to the kind of work of a case.
    fn spend(&mut self, id: &str, expected: Nanos) {
        let Some(case) = self.expected.get(id) else { return };
        let [planned, spent] = self.times.entry(case.kind.clone()).or_default();
        *planned = *planned + expected;
        *spent = *spent + self.last_change.elapsed().into();
    }

    fn begin(&mut self, id: &str) {
        self.end_limits();
        // A worker that replaces a crashed one restarts its cases.
        if !self.running.iter().any(|running| running == id) {
            self.done = self.done + Nanos(0.5 * self.expected_time(id).0);
            self.running.push(id.into());
        }
        self.current = id.into();
        self.spend(id, Nanos::default());
        self.last_change = Instant::now();
    }

    fn begin_limits(&mut self) {
        self.end_limits();
        let time = self.limits.pop().unwrap_or_default();
        let limits = CaseEstimate { id: LIMITS.into(), time, kind: String::new(), is_learned: false };
        self.expected.insert(LIMITS.into(), limits);
        self.begin(LIMITS);
    }

    /// Counts limits as done once something else starts; no event marks their end.
    fn end_limits(&mut self) {
        if self.running.iter().any(|running| running == LIMITS) {
            self.end(LIMITS);
            self.ended -= 1;
        }
    }

    /// Counts the rest of a case as done; all of it if it never began.
    fn end(&mut self, id: &str) {
        let mut rest = 1.0;
        if let Some(index) = self.running.iter().position(|running| running == id) {
            self.running.remove(index);
            rest = 0.5;
        }
        self.done = self.done + Nanos(rest * self.expected_time(id).0);
        if self.current == id {
            self.current = self.running.last().cloned().unwrap_or_default();
        }
        self.ended += 1;
        self.spend(id, self.expected_time(id));
        self.last_change = Instant::now();
    }

    /// Leaves out the times of a case's kind of work so far: what a crash or a time-out took says nothing of later runs.
    fn forget_pace(&mut self, id: &str) {
        if let Some(case) = self.expected.get(id) {
            self.times.remove(&case.kind);
        }
    }

    /// Estimates the remaining time, `waited` after a case last started or ended, assuming that the rest is as slow as the
    /// finished work. The estimate shrinks while no case ends, but stays positive. `None` if nothing is predicted.
    fn remaining(&self, elapsed: Nanos, waited: Nanos) -> Option<Nanos> {
        if self.total.0 <= 0.0 {
            return None;
        }
        let at_last_change = Nanos((elapsed.0 - waited.0).max(0.0));
        let slowness = (at_last_change + PRIOR_WEIGHT).0 / (self.done + PRIOR_WEIGHT).0;
        let remaining = (self.total.0 - self.done.0).max(0.0) * slowness;
        if remaining <= 0.0 {
            return Some(Nanos(0.0));
        }
        Some(Nanos(remaining * remaining / (remaining + waited.0)))
    }

    /// Returns the finished fraction: of the time if that is predicted, otherwise of the cases.
    fn fraction(&self, elapsed: Nanos, remaining: Option<Nanos>) -> f64 {
        match remaining {
            Some(remaining) => elapsed.0 / (elapsed + remaining).0.max(1.0),
            None => self.ended as f64 / self.cases.max(1) as f64,
        }
    }

    /// Returns the position of the bar in steps, `waited` after a case last started or ended. While cases take longer than
    /// expected it advances at half speed; it is never full before the end.
    fn position(&mut self, elapsed: Nanos, waited: Nanos) -> u64 {
        let remaining = self.remaining(elapsed, waited);
        let mut least = self.shown_fraction;
        if let Some(remaining) = remaining {
            let passed = elapsed.0 - self.shown_at.0;
            least += 0.5 * (1.0 - self.shown_fraction) * passed / (remaining.0 + passed).max(1.0);
        }
        self.shown_fraction = self.fraction(elapsed, remaining).max(least);
        self.shown_at = elapsed;
        ((self.shown_fraction * BAR_STEPS as f64) as u64).min(BAR_STEPS - 1)
    }

    fn current_position(&mut self) -> u64 {
        self.position(self.started.elapsed().into(), self.last_change.elapsed().into())
    }

    /// Returns a line such as `10 s, about 33 s left: cases 1–11 of 22 alternate, matmul/naive/f32/64x64x64`. Leaves out the
    /// remaining time while a step, such as a user's reference command, takes much longer than expected.
    fn text(&self, elapsed: Nanos, waited: Nanos) -> String {
        let expected: f64 = self.running.iter().map(|id| self.expected_time(id).0).sum();
        let current = printable(&self.current);
        // A terminal has no space for both numbers and limits, during which the numbers stand still.
        let numbers = if self.current == LIMITS { String::new() } else { self.case_numbers() + ", " };
        let mut text = time_so_far(elapsed);
        let patience = if self.shown_fraction < NEARLY_FULL { LATE_RATIO * expected } else { 0.0 };
        if waited.0 > LATE.0 + patience {
            let idle = if self.ended < self.cases { "waiting" } else { "finishing" };
            let current = if current.is_empty() { idle.into() } else { current };
            return format!("{text}: {numbers}{current} for {} so far", time_so_far(waited));
        }
        match self.remaining(elapsed, waited) {
            // An estimate that has said "soon" for so long tells nothing.
            Some(remaining) if elapsed.0 > OVERDUE * self.total.0 && remaining.0 < SOON * elapsed.0 => {
                text.push_str(", longer than expected");
            }
            Some(remaining) => {
                let _ = write!(text, ", about {} left", about(remaining));
            }
            None => {}
        }
        let state = format!("{numbers}{current}");
        let _ = write!(text, ": {}", state.trim_end_matches(", "));
        text
    }

    /// Returns which cases are being measured: `cases 12–22 of 22 alternate`.
    fn case_numbers(&self) -> String {
        let Self { cases, ended, .. } = *self;
        let running = self.running.iter().filter(|running| *running != LIMITS).count();
        if running == 0 {
            return format!("{ended} of {cases} cases done");
        }
        let first = ended + 1;
        let last = (ended + running).min(cases);
        if last <= first {
            format!("case {last} of {cases}")
        } else {
            format!("cases {first}–{last} of {cases} alternate")
        }
    }

    /// Returns the text beside the bar, without the name of the case if that does not fit in `columns`.
    fn current_text(&self, columns: usize) -> String {
        let text = self.text(self.started.elapsed().into(), self.last_change.elapsed().into());
        match text.strip_suffix(&format!(", {}", printable(&self.current))) {
            Some(without) if text.chars().count() > columns => without.into(),
            _ => text,
        }
    }

    /// Returns the line to print where there is no terminal.
    fn line(&mut self) -> String {
        format!("{} % after {}", 100 * self.current_position() / BAR_STEPS, self.current_text(usize::MAX))
    }

    /// Returns the expected duration if it is at least `shortest`: `22 cases, about 40 s`.
    fn announcement(&self, what: &str, shortest: Nanos) -> Option<String> {
        if self.total.0 <= 0.0 || self.total.0 < shortest.0 {
            return None;
        }
        Some(format!("{}, about {}", counted(self.cases, what), about(self.total)))
    }
}

impl Progress {
    /// Returns progress through `cases` steps of unknown duration.
    pub(crate) fn new(cases: usize, messages: &Messages) -> Self {
        Self::through(cases, &[], &[], messages)
    }

    /// Returns the progress of measuring `cases` cases, with the expected time of each at the usual speed and the factor by
    /// which other programs slow them down, and then the limits of their devices, with their times at the present speed.
    pub(crate) fn on_device(
        cases: usize,
        expected: &[CaseEstimate],
        limits: &[Nanos],
        slowdown: f64,
        messages: &Messages,
    ) -> Self {
        let slowed = |case: &CaseEstimate| CaseEstimate { time: Nanos(case.time.0 * slowdown), ..case.clone() };
        Self::through(cases, &expected.iter().map(slowed).collect::<Vec<_>>(), limits, messages)
    }

    fn through(cases: usize, expected: &[CaseEstimate], limits: &[Nanos], messages: &Messages) -> Self {
        let is_shown = messages.verbosity >= Verbosity::Usual;
        let bar = if is_shown && messages.on_terminal() { ProgressBar::new(BAR_STEPS) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template(&format!("{{bar:{BAR_COLUMNS}}} {{wide_msg}}")) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        let forecast = Arc::new(Mutex::new(Forecast::new(cases, expected, limits)));
        let messages = messages.clone();
        let mut progress =
            Self { bar, messages, forecast, skipped: BTreeSet::new(), exit: Exit::Success, updater: None };
        if is_shown {
            // Without the thread, progress is shown only when cases start and end.
            progress.updater = progress.start_updater().ok();
        }
        progress
    }

    /// Starts the thread that updates the bar, or prints lines where there is no terminal.
    fn start_updater(&self) -> io::Result<(Sender<()>, JoinHandle<()>)> {
        let (alive, ended) = mpsc::channel();
        let bar = self.bar.clone();
        let forecast = Arc::clone(&self.forecast);
        let messages = self.messages.clone();
        let on_terminal = messages.on_terminal();
        let interval = if on_terminal { BAR_INTERVAL } else { LINE_INTERVAL };
        let thread = threads::start(move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let Ok(mut forecast) = forecast.lock() else { return };
                if on_terminal { draw(&bar, &mut forecast, &messages) } else { messages.line(&forecast.line()) }
            }
        });
        Ok((alive, thread?))
    }

    /// Prints the number of cases (or of `what`) and their expected duration, if that is long or the user wants details.
    pub(crate) fn announce_duration(&self, what: &str) {
        let is_verbose = self.messages.verbosity == Verbosity::Verbose;
        let shortest = if is_verbose { Nanos::default() } else { MIN_ANNOUNCED_TIME };
        let announcement = self.forecast.lock().ok().and_then(|forecast| forecast.announcement(what, shortest));
        if let Some(text) = announcement {
            self.line(&text);
        }
    }

    /// Returns the expected and actual time of the finished cases, by kind of work.
    pub(crate) fn times(&self) -> BTreeMap<String, [Nanos; 2]> {
        self.forecast.lock().map(|forecast| forecast.times.clone()).unwrap_or_default()
    }

    /// Changes the forecast, and shows it.
    fn update(&self, change: impl FnOnce(&mut Forecast)) {
        if let Ok(mut forecast) = self.forecast.lock() {
            change(&mut forecast);
            draw(&self.bar, &mut forecast, &self.messages);
        }
    }

    pub(crate) fn message(&self, text: &str) {
        self.update(|forecast| (forecast.current, forecast.last_change) = (text.into(), Instant::now()));
    }

    pub(crate) fn advance(&self) {
        self.update(|forecast| forecast.ended += 1);
    }

    /// Writes a line above the bar.
    pub(crate) fn line(&self, text: &str) {
        self.bar.suspend(|| self.messages.line(text));
    }

    pub(crate) fn finish(&mut self) {
        if let Some((alive, thread)) = self.updater.take() {
            drop(alive);
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

fn draw(bar: &ProgressBar, forecast: &mut Forecast, messages: &Messages) {
    bar.set_position(forecast.current_position());
    let columns = messages.width().map_or(usize::MAX, |width| width.saturating_sub(BAR_COLUMNS + 1));
    bar.set_message(forecast.current_text(columns));
}

impl Observer for Progress {
    fn device(&mut self, info: &DeviceInfo) {
        match info.kind {
            DeviceKind::Host => self.line(&format!("host: {}, {}", info.name, info.driver.info)),
            _ => self.line(&format!("device {}: {}", info.index, info.name)),
        }
    }

    fn skipped(&mut self, skipped: &[(CaseId, String)]) {
        // The notes at the end list each with its reason. If nothing is left to measure, an error says why.
        let is_all = self.forecast.lock().is_ok_and(|forecast| forecast.cases == 0);
        if !skipped.is_empty() && !is_all {
            self.line(&format!("{} will be skipped; see below", counted(skipped.len(), "case")));
        }
        self.skipped.extend(skipped.iter().map(|(id, _)| id.to_string()));
    }

    fn limits(&mut self) {
        self.update(Forecast::begin_limits);
    }

    fn begin(&mut self, id: &str) {
        if !self.skipped.contains(id) {
            self.update(|forecast| forecast.begin(id));
        }
    }

    fn died(&mut self, id: &str, cause: &str) {
        self.line(&format!("note      {id} crashed ({cause}); it runs again alone at the end"));
    }

    fn end(&mut self, case: &Case) {
        if self.messages.verbosity == Verbosity::Verbose {
            self.line(&outcome_line(case));
        }
        if matches!(case.outcome, Outcome::Rejected(_)) {
            self.exit = Exit::Rejected;
        } else if case.outcome.failure().is_some() && self.exit == Exit::Success {
            self.exit = Exit::Failure;
        }
        // A case that is known to be skipped is not part of the forecast.
        if matches!(case.outcome, Outcome::Skipped { .. }) && self.skipped.contains(&case.id) {
            return;
        }
        let is_stopped = matches!(case.outcome, Outcome::Crashed(_) | Outcome::TimedOut(_) | Outcome::Interrupted);
        self.update(|forecast| {
            forecast.end(&case.id);
            if is_stopped {
                forecast.forget_pace(&case.id);
            }
        });
    }
}

/// Formats the time since a start, with seconds up to an hour, so that lines every ten seconds differ.
fn time_so_far(time: Nanos) -> String {
    match time.seconds() {
        seconds if (89.5..3600.0).contains(&seconds) => {
            let seconds = seconds.round() as u64;
            format!("{} min {} s", seconds / 60, seconds % 60)
        }
        _ => about(time),
    }
}

/// Returns the outcome of a case in one line.
fn outcome_line(case: &Case) -> String {
    match &case.outcome {
        Outcome::Measured(measured) => {
            let summary = &measured.summary;
            let mut text = format!("{}: {}", case.id, case.shown(summary.median));
            if let Some(error) = summary.relative_error() {
                let _ = write!(text, " ± {:.1} %", error * 100.0);
            }
            format!("{text}, {}", counted(summary.count, "sample"))
        }
        outcome => format!("{}: {}", case.id, outcome.status()),
    }
}

/// Returns one line for all skipped cases that share variant, options and reason, whatever their sizes. Cases with other tiles
/// are other programs, and keep their own line.
pub(super) fn skipped_lines(skipped: &[(CaseId, String)]) -> Vec<String> {
    let mut lines = vec![];
    for group in grouped_where(skipped, |(a, reason_a), (b, reason_b)| reason_a == reason_b && is_same_program(a, b)) {
        let (first, reason) = group[0];
        let more = if group.len() > 1 { format!(" and {} more like it", group.len() - 1) } else { String::new() };
        lines.push(format!("{first}{more} will be skipped: {reason}"));
    }
    lines
}

/// Returns whether two cases differ at most in their sizes and in options that tiles do not depend on.
fn is_same_program(a: &CaseId, b: &CaseId) -> bool {
    a.algorithm.name == b.algorithm.name
        && a.variant == b.variant
        && axes::same(&a.options, &b.options, |separates| separates.tiles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::kernels::matmul::MATMUL;
    use crate::plan::axes::AXES;

    fn case_id(variant: &str, dtype: DType, extents: &str) -> CaseId {
        let options = MATMUL.options(dtype);
        CaseId { algorithm: (&MATMUL).into(), variant: variant.into(), extents: extents.into(), options }
    }

    #[test]
    fn sizes_of_a_variant_that_share_a_reason_share_a_line() {
        let case = |variant, dtype, extents, reason: &str| (case_id(variant, dtype, extents), reason.to_string());
        let skipped = [
            case("split", DType::F32, "8x8x8", "no units"),
            case("coopmat", DType::F16, "8x8x8", "no units"),
            case("split", DType::F32, "16x16x16", "no units"),
            case("split", DType::F32, "64x64x64", "too large"),
            case("split", DType::F32, "32x32x32", "no units"),
        ];
        let lines = [
            "matmul/split/f32/8x8x8 and 2 more like it will be skipped: no units",
            "matmul/coopmat/f16/8x8x8 will be skipped: no units",
            "matmul/split/f32/64x64x64 will be skipped: too large",
        ];
        assert_eq!(skipped_lines(&skipped), lines);
        for axis in AXES {
            let [a, mut b] = ["8x8x8", "16x16x16"].map(|extents| case("split", DType::F32, extents, "no units"));
            b.0.options = crate::plan::fixture::unusual_on(axis);
            let expected = if axis.separates.tiles { 2 } else { 1 };
            assert_eq!(skipped_lines(&[a, b]).len(), expected, "{}", axis.name);
        }
    }

    /// Returns a forecast of these cases with their expected time each, and of limits with 10 s.
    fn forecast(ids: &[&str], seconds: f64) -> Forecast {
        let expected: Vec<_> = ids.iter().map(|id| estimate(id, seconds)).collect();
        Forecast::new(ids.len(), &expected, &[Nanos(10e9)])
    }

    fn estimate(id: &str, seconds: f64) -> CaseEstimate {
        let time = Nanos::from_seconds(seconds);
        CaseEstimate { id: id.into(), time, kind: "bench k".into(), is_learned: false }
    }

    #[test]
    fn the_remaining_time_follows_the_observed_speed() {
        let mut forecast = forecast(&["a", "b", "c", "d"], 30.0);
        let now = Nanos::default();
        assert_eq!(forecast.remaining(now, now).map(about).as_deref(), Some("2 min"));
        forecast.begin("a");
        forecast.begin("b");
        forecast.end("a");
        // The finished case took twice as long as expected.
        let left = forecast.remaining(Nanos(90e9), now).expect("an estimate").seconds();
        assert!((155.0..170.0).contains(&left), "{left}");
        for id in ["b", "c", "d"] {
            forecast.end(id);
        }
        let left = forecast.remaining(Nanos(120e9), now).expect("an estimate").seconds();
        assert!((9.0..11.0).contains(&left), "the limits are left: {left}");
        forecast.begin_limits();
        forecast.end_limits();
        assert_eq!((forecast.remaining(Nanos(240e9), now), forecast.ended), (Some(Nanos(0.0)), 4));
        assert_eq!(Forecast::new(3, &[], &[]).remaining(Nanos(1e9), now), None);
    }

    #[test]
    fn progress_names_alternating_cases_and_does_not_count_limits() {
        let mut forecast = forecast(&["a", "b", "c"], 5.0);
        let text = |forecast: &Forecast| forecast.text(Nanos(10e9), Nanos::default());
        assert!(text(&forecast).ends_with(" left: 0 of 3 cases done"), "{}", text(&forecast));
        forecast.begin("a");
        assert!(text(&forecast).ends_with(" left: case 1 of 3, a"), "{}", text(&forecast));
        forecast.begin("b");
        forecast.begin("b");
        assert!(text(&forecast).ends_with(" left: cases 1–2 of 3 alternate, b"), "{}", text(&forecast));
        forecast.end("b");
        assert!(text(&forecast).ends_with(" of 3, a"), "{}", text(&forecast));
        forecast.end("a");
        forecast.begin_limits();
        assert!(text(&forecast).ends_with(" left: measuring the device's limits"), "{}", text(&forecast));
        // A terminal of 80 columns.
        assert!(forecast.current_text(55).ends_with(LIMITS), "{}", forecast.current_text(55));
        // The next device.
        forecast.begin("c");
        assert!(text(&forecast).ends_with(" left: case 3 of 3, c"), "{}", text(&forecast));
    }

    #[test]
    fn a_late_case_hides_the_remaining_time() {
        let mut forecast = forecast(&["a", "b"], 5.0);
        let text = |forecast: &Forecast, waited| forecast.text(Nanos(240e9), Nanos(waited));
        forecast.begin("a");
        assert!(text(&forecast, 15e9).starts_with("4 min 0 s, about "), "{}", text(&forecast, 15e9));
        assert_eq!(text(&forecast, 240e9), "4 min 0 s: case 1 of 2, a for 4 min 0 s so far");
        // Variants that take turns are waited for together.
        forecast.begin("b");
        assert!(text(&forecast, 30e9).starts_with("4 min 0 s, about "), "{}", text(&forecast, 30e9));
        // A bar that is full but for the last step says at once what it waits for.
        forecast.shown_fraction = 0.995;
        assert!(text(&forecast, 4e9).starts_with("4 min 0 s, about "), "{}", text(&forecast, 4e9));
        assert_eq!(text(&forecast, 6e9), "4 min 0 s: cases 1–2 of 2 alternate, b for 6 s so far");
        forecast.end("a");
        forecast.end("b");
        forecast.begin_limits();
        assert_eq!(text(&forecast, 6e9), "4 min 0 s: measuring the device's limits for 6 s so far");
        let mut overdue = Forecast::new(1, &[estimate("a", 2.0)], &[]);
        overdue.begin("a");
        assert_eq!(overdue.text(Nanos(10e9), Nanos(10e9)), "10 s, longer than expected: case 1 of 1, a");
    }

    #[test]
    fn the_remaining_time_shrinks_while_no_case_ends() {
        let mut forecast = forecast(&["a", "b"], 5.0);
        forecast.begin("a");
        forecast.begin("b");
        let mut last_remaining = f64::INFINITY;
        let mut last_fraction = -1.0;
        for second in 0..60 {
            let elapsed = Nanos::from_seconds(f64::from(second));
            let remaining = forecast.remaining(elapsed, elapsed);
            let fraction = forecast.fraction(elapsed, remaining);
            let remaining = remaining.expect("an estimate").0;
            assert!(0.0 < remaining && remaining < last_remaining, "{second}: {remaining}");
            assert!(last_fraction < fraction && fraction < 1.0, "{second}: {fraction}");
            (last_remaining, last_fraction) = (remaining, fraction);
        }
    }

    #[test]
    fn the_bar_never_stops_or_goes_back_and_is_full_only_at_the_end() {
        let mut forecast = forecast(&["a", "b", "c", "d"], 5.0);
        let mut last = 0;
        let mut check_position = |forecast: &mut Forecast, second: f64, waited: f64| {
            let position = forecast.position(Nanos::from_seconds(second), Nanos::from_seconds(waited));
            assert!((last + 1..BAR_STEPS).contains(&position), "{last} {position} at {second} s");
            last = position;
        };
        forecast.begin("a");
        forecast.begin("b");
        for tens in 1..=4 {
            check_position(&mut forecast, 10.0 * f64::from(tens), 10.0 * f64::from(tens));
        }
        // Both took four times as long as expected: more is left than it seemed.
        forecast.end("a");
        forecast.end("b");
        forecast.begin("c");
        forecast.begin("d");
        for tens in 1..=4 {
            check_position(&mut forecast, 40.0 + 10.0 * f64::from(tens), 10.0 * f64::from(tens));
        }
        forecast.end("c");
        forecast.end("d");
        forecast.begin_limits();
        check_position(&mut forecast, 90.0, 0.5);
    }

    #[test]
    fn a_long_measurement_is_announced() {
        let announced = |seconds: f64, limits: &[Nanos]| {
            Forecast::new(27, &[estimate("a", seconds)], limits).announcement("case", MIN_ANNOUNCED_TIME)
        };
        assert_eq!(announced(1.5, &[]).as_deref(), Some("27 cases, about 40 s"));
        assert_eq!(announced(1.5, &[Nanos(4e9); 2]).as_deref(), Some("27 cases, about 48 s"));
        assert_eq!(announced(0.3, &[]), None);
        assert_eq!(Forecast::new(3, &[], &[]).announcement("case", Nanos::default()), None);
    }

    #[test]
    fn finished_cases_show_the_pace_of_their_kind() {
        let mut forecast = forecast(&["a", "b", "c"], 5.0);
        for id in ["a", "b", "unknown"] {
            forecast.begin(id);
            forecast.end(id);
        }
        forecast.begin("c");
        forecast.begin_limits();
        forecast.end_limits();
        let planned = |kind: &str| forecast.times.get(kind).map(|[planned, _]| *planned);
        assert_eq!((planned("bench k"), forecast.times.len()), (Some(Nanos(10e9)), 2));
        // One that hung is no measure of the others.
        forecast.end("c");
        forecast.forget_pace("c");
        assert!(!forecast.times.contains_key("bench k"));
    }

    #[test]
    fn limits_of_each_device_count_once_they_are_done() {
        let expected = ["a", "b"].map(|id| estimate(id, 10.0));
        let mut forecast = Forecast::new(2, &expected, &[Nanos(10e9); 2]);
        let mut done = vec![];
        for id in ["a", "b"] {
            forecast.begin(id);
            forecast.end(id);
            forecast.begin_limits();
            done.push(forecast.done.seconds().round());
        }
        forecast.end_limits();
        done.push(forecast.done.seconds().round());
        assert_eq!((done, forecast.ended), (vec![15.0, 35.0, 40.0], 2));
    }

    #[test]
    fn skips_are_not_counted() {
        let record = crate::record::fixture::six_cases();
        let mut case = record.cases[0].clone();
        case.outcome = Outcome::unsupported("no units".into());
        let mut progress = Progress::new(2, &Messages::in_memory());
        let id = case_id("split", DType::F32, "8x8x8");
        case.id = id.to_string();
        progress.skipped(&[(id, "no units".into())]);
        progress.end(&case);
        // One that turns out to take too long was counted before.
        progress.end(&record.cases[0]);
        assert_eq!(progress.forecast.lock().expect("no panic").ended, 1);
        progress.finish();
    }
}
