//! Progress on standard error: a bar on a terminal, otherwise a line every ten seconds.

use crate::basis::messages::{Messages, Verbosity};
use crate::basis::printable::printable;
use crate::basis::threads;
use crate::basis::units::{Nanos, about, counted};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::engine::executor::Observer;
use crate::plan::{CaseId, axes};
use crate::record::{Case, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Intervals between updates of the bar, and between lines without a terminal.
const UPDATE_INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Progress through cases.
pub(crate) struct Progress {
    bar: ProgressBar,
    messages: Messages,
    forecast: Arc<Mutex<Forecast>>,
    /// Ids of cases that no device can run; not counted.
    skipped: BTreeSet<String>,
    /// Thread that updates the display, and the channel whose end stops it.
    clock: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Forecast of the remaining time, from the expected times of cases and the progress so far.
struct Forecast {
    /// Expected times by case id.
    expected: BTreeMap<String, Nanos>,
    /// Expected time of all cases.
    total: Nanos,
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
    /// Fraction shown last, and the elapsed time then: the bar never goes back and never stops.
    shown: (f64, Nanos),
}

/// Expected time after which observed times outweigh expected ones.
const PRIOR_WEIGHT: Nanos = Nanos(3e9);
/// Expected time from which a run is announced as long.
const MIN_ANNOUNCED_TIME: Nanos = Nanos(10e9);
/// Slow-down of a run on the CPU while other programs keep it busy, as measured.
const BUSY_SLOWDOWN: f64 = 3.0;
/// Width of the bar, in columns.
const BAR_COLUMNS: usize = 24;
/// Steps of the bar.
const STEPS: u64 = 1000;
/// Name shown while device limits are measured, which is not a case.
const LIMITS: &str = "limits of the device";

impl Forecast {
    fn new(cases: usize, expected: &[(String, Nanos)], limits: &[Nanos]) -> Self {
        let once: Nanos = expected.iter().map(|(_, time)| *time).sum();
        // Each process measures every case once more.
        let total = Nanos(once.0 * cases as f64 / expected.len().max(1) as f64) + limits.iter().copied().sum();
        let expected = expected.iter().cloned().collect();
        let started = Instant::now();
        Self {
            expected,
            total,
            done: Nanos::default(),
            cases,
            ended: 0,
            running: vec![],
            current: String::new(),
            started,
            last_change: started,
            limits: limits.to_vec(),
            shown: (0.0, Nanos::default()),
        }
    }

    /// Returns the expected time of a case; the average for a case without a forecast, such as one that `auto` chose.
    fn expected_time(&self, id: &str) -> Nanos {
        let average = Nanos(self.total.0 / self.cases.max(1) as f64);
        self.expected.get(id).copied().unwrap_or(average)
    }

    fn begin(&mut self, id: &str) {
        self.end_limits();
        // A worker that replaces a crashed one restarts its cases.
        if !self.running.iter().any(|running| running == id) {
            self.done = self.done + Nanos(0.5 * self.expected_time(id).0);
            self.running.push(id.into());
        }
        self.current = id.into();
        self.last_change = Instant::now();
    }

    fn begin_limits(&mut self) {
        self.end_limits();
        let limits = self.limits.pop().unwrap_or_default();
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

    fn end(&mut self, id: &str) {
        let left = match self.running.iter().position(|running| running == id) {
            Some(index) => {
                self.running.remove(index);
                0.5
            }
            None => 1.0,
        };
        self.done = self.done + Nanos(left * self.expected_time(id).0);
        if self.current == id {
            self.current = self.running.last().cloned().unwrap_or_default();
        }
        self.ended += 1;
        self.last_change = Instant::now();
    }

    /// Estimates the remaining time, `waited` after a case last started or ended, assuming that the rest is as slow as the
    /// finished work. The estimate shrinks while no case ends, but stays positive.
    fn remaining(&self, elapsed: Nanos, waited: Nanos) -> Option<Nanos> {
        let then = Nanos((elapsed.0 - waited.0).max(0.0));
        let slowness = (then + PRIOR_WEIGHT).0 / (self.done + PRIOR_WEIGHT).0;
        let left = (self.total.0 - self.done.0).max(0.0) * slowness;
        (self.total.0 > 0.0).then(|| Nanos(if left > 0.0 { left * left / (left + waited.0) } else { 0.0 }))
    }

    /// Returns the finished fraction: of the time if that is predicted, otherwise of the cases.
    fn fraction(&self, elapsed: Nanos, left: Option<Nanos>) -> f64 {
        let of_cases = self.ended as f64 / self.cases.max(1) as f64;
        left.map_or(of_cases, |left| elapsed.0 / (elapsed + left).0.max(1.0))
    }

    /// Returns the position of the bar in steps, `waited` after a case last started or ended. While cases take longer than
    /// expected it advances at half speed; it is never full before the end.
    fn position(&mut self, elapsed: Nanos, waited: Nanos) -> u64 {
        let (shown, then) = self.shown;
        let (left, passed) = (self.remaining(elapsed, waited), elapsed.0 - then.0);
        let pace = left.map_or(0.0, |left| 0.5 * (1.0 - shown) * passed / (left.0 + passed).max(1.0));
        let part = self.fraction(elapsed, left).max(shown + pace);
        self.shown = (part, elapsed);
        ((part * STEPS as f64) as u64).min(STEPS - 1)
    }

    fn current_position(&mut self) -> u64 {
        self.position(self.started.elapsed().into(), self.last_change.elapsed().into())
    }

    /// Returns a line such as `10 s, about 33 s left: 1–11 of 22 in turns, matmul/naive/f32/64x64x64`. Leaves out the
    /// remaining time while a step, such as a user's reference command, takes much longer than expected.
    fn text(&self, elapsed: Nanos, waited: Nanos) -> String {
        let expected: f64 = self.running.iter().map(|id| self.expected_time(id).0).sum();
        let left = self.remaining(elapsed, waited);
        let (place, now, elapsed) = (self.place(), printable(&self.current), about(elapsed));
        if waited.0 > 5e9 + 3.0 * expected {
            let now = if now.is_empty() { "waiting".into() } else { now };
            return format!("{elapsed}: {place}, {now} for {} so far", about(waited));
        }
        let left = left.map_or_else(String::new, |left| format!(", about {} left", about(left)));
        let now = if now.is_empty() { String::new() } else { format!(", {now}") };
        format!("{elapsed}{left}: {place}{now}")
    }

    /// Returns which cases are being measured: `12–22 of 22 in turns`.
    fn place(&self) -> String {
        let running = self.running.iter().filter(|running| *running != LIMITS).count();
        let (first, last, all) = (self.ended + 1, (self.ended + running).min(self.cases), self.cases);
        match running {
            0 => format!("{} of {all} done", self.ended),
            _ if last <= first => format!("{last} of {all}"),
            _ => format!("{first}–{last} of {all} in turns"),
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
        format!("{} % after {}", 100 * self.current_position() / STEPS, self.current_text(usize::MAX))
    }

    /// Returns the expected duration if it is long: `22 cases, about 40 s`. With `uses_cpu`, adds the duration while other
    /// programs use the CPU.
    fn announcement(&self, what: &str, uses_cpu: bool) -> Option<String> {
        let busy = about(Nanos(BUSY_SLOWDOWN * self.total.0));
        let busy = if uses_cpu { format!(" (up to {busy} if other programs use the CPU)") } else { String::new() };
        (self.total.0 >= MIN_ANNOUNCED_TIME.0)
            .then(|| format!("{}, about {}{busy}", counted(self.cases, what), about(self.total)))
    }
}

impl Progress {
    /// Returns progress through `cases` steps of unknown duration.
    pub(crate) fn new(cases: usize, messages: &Messages) -> Self {
        Self::through(cases, &[], &[], messages)
    }

    /// Returns the progress of measuring `cases` cases and then the limits of their devices, with the expected time of
    /// each.
    pub(crate) fn through(cases: usize, expected: &[(String, Nanos)], limits: &[Nanos], messages: &Messages) -> Self {
        let (terminal, shows) = (messages.on_terminal(), messages.verbosity >= Verbosity::Usual);
        let bar = if terminal && shows { ProgressBar::new(STEPS) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template(&format!("{{bar:{BAR_COLUMNS}}} {{wide_msg}}")) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        let forecast = Arc::new(Mutex::new(Forecast::new(cases, expected, limits)));
        let clock = shows.then_some(()).and_then(|()| {
            let (alive, ended) = mpsc::channel();
            let (bar, forecast, messages) = (bar.clone(), Arc::clone(&forecast), messages.clone());
            let interval = UPDATE_INTERVALS[usize::from(!terminal)];
            let clock = threads::start(move || {
                while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    let Ok(mut forecast) = forecast.lock() else { return };
                    if terminal { draw(&bar, &mut forecast, &messages) } else { messages.line(&forecast.line()) }
                }
            });
            // Without the thread, progress is shown only when cases start and end.
            Some((alive, clock.ok()?))
        });
        Self { bar, messages: messages.clone(), forecast, skipped: BTreeSet::new(), clock }
    }

    /// Prints the number of cases (or of `what`) and their expected duration, if that is long. `uses_cpu` if other programs can
    /// slow them down.
    pub(crate) fn announce_duration(&self, what: &str, uses_cpu: bool) {
        let announcement = self.forecast.lock().ok().and_then(|forecast| forecast.announcement(what, uses_cpu));
        if let Some(text) = announcement {
            self.line(&text);
        }
    }

    fn update(&self, change: impl FnOnce(&mut Forecast)) {
        if let Ok(mut forecast) = self.forecast.lock() {
            change(&mut forecast);
            draw(&self.bar, &mut forecast, &self.messages);
        }
    }

    /// Sets the text beside the bar.
    pub(crate) fn message(&self, text: &str) {
        self.update(|forecast| forecast.current = text.into());
    }

    /// Counts one more case as done.
    pub(crate) fn advance(&self) {
        self.update(|forecast| forecast.ended += 1);
    }

    /// Writes a line above the bar.
    pub(crate) fn line(&self, text: &str) {
        self.bar.suspend(|| self.messages.line(text));
    }

    /// Removes the bar.
    pub(crate) fn finish(&mut self) {
        if let Some((alive, clock)) = self.clock.take() {
            drop(alive);
            let _ = clock.join();
        }
        self.bar.finish_and_clear();
    }
}

/// Updates the bar and its text.
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
        match &skips(skipped)[..] {
            [] => {}
            [line] => self.line(line),
            // The notes at the end list each with its reason.
            _ => {
                self.line(&format!(
                    "{} will be skipped; the reasons follow at the end",
                    counted(skipped.len(), "case")
                ));
            }
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

    fn end(&mut self, case: &Case) {
        if self.messages.verbosity == Verbosity::Verbose {
            self.line(&outcome_line(case));
        }
        if matches!(case.outcome, Outcome::Skipped { .. }) && self.skipped.contains(&case.id) {
            return;
        }
        self.update(|forecast| forecast.end(&case.id));
    }
}

/// Returns the outcome of a case in one line.
fn outcome_line(case: &Case) -> String {
    match &case.outcome {
        Outcome::Measured(measured) => {
            let summary = &measured.summary;
            let error = summary.relative_error().map_or_else(String::new, |error| format!(" ± {:.1} %", error * 100.0));
            format!("{}: {}{error}, {} samples", case.id, case.shown(summary.median), summary.count)
        }
        other => format!("{}: {}", case.id, other.status()),
    }
}

/// Returns one line for all skipped cases that share variant, options and reason, whatever their sizes. Cases with other tiles
/// are other programs, and keep their own line.
pub(super) fn skips(skipped: &[(CaseId, String)]) -> Vec<String> {
    let same = |a: &CaseId, b: &CaseId| {
        (&a.algorithm.name, &a.variant) == (&b.algorithm.name, &b.variant)
            && axes::same(&a.options, &b.options, |separates| separates.tiles)
    };
    let mut lines: Vec<(&CaseId, &str, usize)> = vec![];
    for (id, reason) in skipped {
        match lines.iter_mut().find(|(first, why, _)| why == reason && same(first, id)) {
            Some((.., more)) => *more += 1,
            None => lines.push((id, reason, 0)),
        }
    }
    let line = |(first, reason, more): (&CaseId, &str, usize)| {
        let more = if more > 0 { format!(" and {more} more like it") } else { String::new() };
        format!("{first}{more} will be skipped: {reason}")
    };
    lines.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::dtype::DType;
    use crate::kernels::matmul::MATMUL;
    use crate::plan::axes::AXES;

    #[test]
    fn sizes_of_a_variant_that_share_a_reason_share_a_line() {
        let case = |variant: &str, dtype, extents: &str, reason: &str| {
            let (variant, extents) = (variant.into(), extents.into());
            let id = CaseId { algorithm: (&MATMUL).into(), variant, extents, options: MATMUL.options(dtype) };
            (id, reason.to_string())
        };
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
        assert_eq!(skips(&skipped), lines);
        for axis in AXES {
            let [a, mut b] = ["8x8x8", "16x16x16"].map(|extents| case("split", DType::F32, extents, "no units"));
            b.0.options = crate::plan::fixture::unusual_on(axis);
            let separate_lines = axis.separates.tiles;
            assert_eq!(skips(&[a, b]).len(), 1 + usize::from(separate_lines), "{}", axis.name);
        }
    }

    /// Returns a forecast of these cases with their expected time each, and of limits with 10 s.
    fn forecast(ids: &[&str], seconds: f64) -> Forecast {
        let expected: Vec<_> = ids.iter().map(|id| (id.to_string(), Nanos::from_seconds(seconds))).collect();
        Forecast::new(ids.len(), &expected, &[Nanos(10e9)])
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
        assert!(text(&forecast).ends_with(" left: 0 of 3 done"), "{}", text(&forecast));
        forecast.begin("a");
        assert!(text(&forecast).ends_with(" left: 1 of 3, a"), "{}", text(&forecast));
        forecast.begin("b");
        forecast.begin("b");
        assert!(text(&forecast).ends_with(" left: 1–2 of 3 in turns, b"), "{}", text(&forecast));
        forecast.end("b");
        assert!(text(&forecast).ends_with(" of 3, a"), "{}", text(&forecast));
        forecast.end("a");
        forecast.begin_limits();
        assert!(text(&forecast).ends_with(" left: 2 of 3 done, limits of the device"), "{}", text(&forecast));
        // The next device.
        forecast.begin("c");
        assert!(text(&forecast).ends_with(" left: 3 of 3, c"), "{}", text(&forecast));
    }

    #[test]
    fn a_case_that_takes_much_longer_than_expected_says_nothing_of_the_others() {
        let mut forecast = forecast(&["a", "b"], 5.0);
        let text = |forecast: &Forecast, waited| forecast.text(Nanos(240e9), Nanos(waited));
        forecast.begin("a");
        assert!(text(&forecast, 15e9).starts_with("4 min, about "), "{}", text(&forecast, 15e9));
        assert_eq!(text(&forecast, 240e9), "4 min: 1 of 2, a for 4 min so far");
        // Variants that take turns are waited for together.
        forecast.begin("b");
        assert!(text(&forecast, 30e9).starts_with("4 min, about "), "{}", text(&forecast, 30e9));
    }

    #[test]
    fn while_nothing_ends_less_is_left_every_second_and_more_is_done() {
        let mut forecast = forecast(&["a", "b"], 5.0);
        forecast.begin("a");
        forecast.begin("b");
        let at = |second: f64| {
            let elapsed = Nanos::from_seconds(second);
            let left = forecast.remaining(elapsed, elapsed);
            (left.expect("an estimate").0, forecast.fraction(elapsed, left))
        };
        let all: Vec<_> = (0..60).map(|second| at(f64::from(second))).collect();
        assert!(all.windows(2).all(|pair| pair[1].0 < pair[0].0 && pair[1].0 > 0.0), "{all:?}");
        assert!(all.windows(2).all(|pair| pair[1].1 > pair[0].1 && pair[1].1 < 1.0), "{all:?}");
    }

    #[test]
    fn the_bar_never_stops_or_goes_back_and_is_full_only_at_the_end() {
        let mut forecast = forecast(&["a", "b", "c", "d"], 5.0);
        let mut last = 0;
        let mut look = |forecast: &mut Forecast, second: f64, waited: f64| {
            let position = forecast.position(Nanos::from_seconds(second), Nanos::from_seconds(waited));
            assert!((last + 1..STEPS).contains(&position), "{last} {position} at {second} s");
            last = position;
        };
        forecast.begin("a");
        forecast.begin("b");
        for tens in 1..=4 {
            look(&mut forecast, 10.0 * f64::from(tens), 10.0 * f64::from(tens));
        }
        // Both took four times as long as expected: more is left than it seemed.
        forecast.end("a");
        forecast.end("b");
        forecast.begin("c");
        forecast.begin("d");
        for tens in 1..=4 {
            look(&mut forecast, 40.0 + 10.0 * f64::from(tens), 10.0 * f64::from(tens));
        }
        forecast.end("c");
        forecast.end("d");
        forecast.begin_limits();
        look(&mut forecast, 90.0, 0.5);
    }

    #[test]
    fn a_long_run_is_foretold() {
        let announced = |seconds: f64, limits: &[Nanos], others| {
            let forecast = Forecast::new(27, &[("a".to_string(), Nanos::from_seconds(seconds))], limits);
            forecast.announcement("case", others)
        };
        assert_eq!(announced(1.5, &[], false).as_deref(), Some("27 cases, about 40 s"));
        let busy = "27 cases, about 48 s (up to 2 min if other programs use the CPU)";
        assert_eq!(announced(1.5, &[Nanos(4e9); 2], true).as_deref(), Some(busy));
        assert_eq!((announced(0.3, &[], true), Forecast::new(3, &[], &[]).announcement("case", true)), (None, None));
    }

    #[test]
    fn limits_of_each_device_count_once_they_are_done() {
        let expected = [("a".to_string(), Nanos(10e9)), ("b".to_string(), Nanos(10e9))];
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
        case.outcome = Outcome::Skipped { reason: "no units".into() };
        let mut progress = Progress::new(2, &Messages::in_memory());
        let (variant, extents) = ("split".into(), "8x8x8".into());
        let options = MATMUL.options(DType::F32);
        let id = CaseId { algorithm: (&MATMUL).into(), variant, extents, options };
        case.id = id.to_string();
        progress.skipped(&[(id, "no units".into())]);
        progress.end(&case);
        // One that turns out to take too long was counted before.
        progress.end(&record.cases[0]);
        assert_eq!(progress.forecast.lock().expect("no panic").ended, 1);
        progress.finish();
    }
}
