//! Progress on standard error: a bar on a terminal, elsewhere a line now and then.

use crate::basis::messages::{Messages, Verbosity};
use crate::basis::printable::printable;
use crate::basis::threads;
use crate::basis::units::{Nanos, about, counted};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::measure::executor::Observer;
use crate::plan::{CaseId, axes};
use crate::record::{Case, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at the bar, and between two lines where there is no terminal.
const TICKS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Progress through cases.
pub(crate) struct Progress {
    bar: ProgressBar,
    messages: Messages,
    ahead: Arc<Mutex<Ahead>>,
    /// Ids of cases that the devices cannot run, which are not counted.
    skipped: BTreeSet<String>,
    /// Wakes the clock's thread for good when it goes.
    clock: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What is done and what is left, in cases and in expected time.
struct Ahead {
    expected: BTreeMap<String, Nanos>,
    /// Expected time of all cases, and of what is done.
    total: Nanos,
    done: Nanos,
    cases: usize,
    ended: usize,
    /// Cases that have begun, which are half done.
    begun: Vec<String>,
    /// What is going on.
    now: String,
    since: Instant,
    /// When a case last began or ended.
    moved: Instant,
    /// Expected times of the limits of those devices that have not begun with them.
    limits: Vec<Nanos>,
    /// The part that was shown as done, and when: a bar never goes back, and never stands.
    shown: (f64, Nanos),
}

/// Expected time after which what was seen so far counts for more than what was expected.
const BELIEF: Nanos = Nanos(3e9);
/// Expected time from which a run says so before it begins.
const LONG: Nanos = Nanos(10e9);
/// How many times as long a run on the host's processors took while other programs kept them busy.
const BUSY: f64 = 3.0;
/// Columns of the bar.
const BAR: usize = 24;
/// Steps of the bar.
const STEPS: u64 = 1000;
/// What goes on while limits are measured, which is no case.
const LIMITS: &str = "limits of the device";

impl Ahead {
    fn new(cases: usize, expected: &[(String, Nanos)], limits: &[Nanos]) -> Self {
        let once: Nanos = expected.iter().map(|(_, time)| *time).sum();
        // Several processes measure each case.
        let total = Nanos(once.0 * cases as f64 / expected.len().max(1) as f64) + limits.iter().copied().sum();
        let expected = expected.iter().cloned().collect();
        let (done, begun, now) = (Nanos::default(), vec![], String::new());
        let (since, shown) = (Instant::now(), (0.0, Nanos::default()));
        let limits = limits.to_vec();
        Self { expected, total, done, cases, ended: 0, begun, now, since, moved: since, limits, shown }
    }

    /// Expected time of a case; of one that nobody foresaw, such as what `auto` chose, that of the average.
    fn of(&self, id: &str) -> Nanos {
        let average = Nanos(self.total.0 / self.cases.max(1) as f64);
        self.expected.get(id).copied().unwrap_or(average)
    }

    fn begin(&mut self, id: &str) {
        self.settle_limits();
        // A worker that replaces a dead one begins its cases again.
        if !self.begun.iter().any(|begun| begun == id) {
            self.done = self.done + Nanos(0.5 * self.of(id).0);
            self.begun.push(id.into());
        }
        self.now = id.into();
        self.moved = Instant::now();
    }

    fn begin_limits(&mut self) {
        // The next device's begin where the last one's end.
        self.settle_limits();
        let limits = self.limits.pop().unwrap_or_default();
        self.expected.insert(LIMITS.into(), limits);
        self.begin(LIMITS);
    }

    /// Counts limits as done, whose end nobody tells, once something else begins.
    fn settle_limits(&mut self) {
        if self.begun.iter().any(|begun| begun == LIMITS) {
            self.end(LIMITS);
            self.ended -= 1;
        }
    }

    fn end(&mut self, id: &str) {
        let left = match self.begun.iter().position(|begun| begun == id) {
            Some(index) => {
                self.begun.remove(index);
                0.5
            }
            None => 1.0,
        };
        self.done = self.done + Nanos(left * self.of(id).0);
        if self.now == id {
            self.now = self.begun.last().cloned().unwrap_or_default();
        }
        self.ended += 1;
        self.moved = Instant::now();
    }

    /// The time that is left `waited` after a case began or ended, were the rest as slow as what is done. It shrinks while
    /// nothing ends, and never to nothing.
    fn left(&self, elapsed: Nanos, waited: Nanos) -> Option<Nanos> {
        let then = Nanos((elapsed.0 - waited.0).max(0.0));
        let slowness = (then + BELIEF).0 / (self.done + BELIEF).0;
        let left = (self.total.0 - self.done.0).max(0.0) * slowness;
        (self.total.0 > 0.0).then(|| Nanos(if left > 0.0 { left * left / (left + waited.0) } else { 0.0 }))
    }

    /// The part that is done: of the time where that was foreseen, else of the cases.
    fn part(&self, elapsed: Nanos, left: Option<Nanos>) -> f64 {
        let of_cases = self.ended as f64 / self.cases.max(1) as f64;
        left.map_or(of_cases, |left| elapsed.0 / (elapsed + left).0.max(1.0))
    }

    /// Where the bar is after so long, in steps, `waited` after a case began or ended. While cases take longer than
    /// expected it goes on at half its pace, and it is full at the end alone.
    fn position(&mut self, elapsed: Nanos, waited: Nanos) -> u64 {
        let (shown, then) = self.shown;
        let (left, passed) = (self.left(elapsed, waited), elapsed.0 - then.0);
        let pace = left.map_or(0.0, |left| 0.5 * (1.0 - shown) * passed / (left.0 + passed).max(1.0));
        let part = self.part(elapsed, left).max(shown + pace);
        self.shown = (part, elapsed);
        ((part * STEPS as f64) as u64).min(STEPS - 1)
    }

    fn position_now(&mut self) -> u64 {
        self.position(self.since.elapsed().into(), self.moved.elapsed().into())
    }

    /// `10 s, about 33 s left: 1–11 of 22 in turns, matmul/naive/f32/64x64x64`. While something takes much longer than was expected
    /// of it, such as a user's reference command, nobody knows what is left.
    fn text(&self, elapsed: Nanos, waited: Nanos) -> String {
        let expected: f64 = self.begun.iter().map(|id| self.of(id).0).sum();
        let left = self.left(elapsed, waited);
        let (place, now, elapsed) = (self.place(), printable(&self.now), about(elapsed));
        if waited.0 > 5e9 + 3.0 * expected {
            let now = if now.is_empty() { "waiting".into() } else { now };
            return format!("{elapsed}: {place}, {now} for {} so far", about(waited));
        }
        let left = left.map_or_else(String::new, |left| format!(", about {} left", about(left)));
        let now = if now.is_empty() { String::new() } else { format!(", {now}") };
        format!("{elapsed}{left}: {place}{now}")
    }

    /// Which cases are measured: `12–22 of 22` take turns.
    fn place(&self) -> String {
        let begun = self.begun.iter().filter(|begun| *begun != LIMITS).count();
        let (first, last, all) = (self.ended + 1, (self.ended + begun).min(self.cases), self.cases);
        match begun {
            0 => format!("{} of {all} done", self.ended),
            _ if last <= first => format!("{last} of {all}"),
            _ => format!("{first}–{last} of {all} in turns"),
        }
    }

    /// What stands beside the bar in so many columns: without the name of a case where that would be cut.
    fn text_now(&self, columns: usize) -> String {
        let text = self.text(self.since.elapsed().into(), self.moved.elapsed().into());
        match text.strip_suffix(&format!(", {}", printable(&self.now))) {
            Some(without) if text.chars().count() > columns => without.into(),
            _ => text,
        }
    }

    /// The line where there is no terminal.
    fn line(&mut self) -> String {
        format!("{} % after {}", 100 * self.position_now() / STEPS, self.text_now(usize::MAX))
    }

    /// What is ahead, if that takes long: `22 cases, about 40 s`; and where `others` may use the processors too, what it takes
    /// beside them.
    fn foretold(&self, what: &str, others: bool) -> Option<String> {
        let busy = about(Nanos(BUSY * self.total.0));
        let busy = if others { format!(" (up to {busy} if other programs use the CPU)") } else { String::new() };
        (self.total.0 >= LONG.0).then(|| format!("{}, about {}{busy}", counted(self.cases, what), about(self.total)))
    }
}

impl Progress {
    /// Progress through `cases` steps of unknown length.
    #[must_use]
    pub(crate) fn new(cases: usize, messages: &Messages) -> Self {
        Self::through(cases, &[], &[], messages)
    }

    /// Progress through `cases` cases and the limits of their devices, which are expected to take these times.
    #[must_use]
    pub(crate) fn through(cases: usize, expected: &[(String, Nanos)], limits: &[Nanos], messages: &Messages) -> Self {
        let (terminal, shows) = (messages.on_terminal(), messages.verbosity >= Verbosity::Usual);
        // indicatif draws on standard error and hides itself where that is no terminal.
        let bar = if terminal && shows { ProgressBar::new(STEPS) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template(&format!("{{bar:{BAR}}} {{wide_msg}}")) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        let ahead = Arc::new(Mutex::new(Ahead::new(cases, expected, limits)));
        let clock = shows.then_some(()).and_then(|()| {
            let (alive, ended) = mpsc::channel();
            let (bar, ahead, messages) = (bar.clone(), Arc::clone(&ahead), messages.clone());
            let tick = TICKS[usize::from(!terminal)];
            let clock = threads::start(move || {
                while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                    let Ok(mut ahead) = ahead.lock() else { return };
                    if terminal { draw(&bar, &mut ahead, &messages) } else { messages.line(&ahead.line()) }
                }
            });
            // Without a thread nothing is said between cases.
            Some((alive, clock.ok()?))
        });
        Self { bar, messages: messages.clone(), ahead, skipped: BTreeSet::new(), clock }
    }

    /// Says how many cases, or `what` they are, are ahead and how long they take, if that is long; `others` may use the
    /// processors meanwhile.
    pub(crate) fn foretell(&self, what: &str, others: bool) {
        let foretold = self.ahead.lock().ok().and_then(|ahead| ahead.foretold(what, others));
        if let Some(text) = foretold {
            self.line(&text);
        }
    }

    fn update(&self, change: impl FnOnce(&mut Ahead)) {
        if let Ok(mut ahead) = self.ahead.lock() {
            change(&mut ahead);
            draw(&self.bar, &mut ahead, &self.messages);
        }
    }

    /// Sets the text beside the bar.
    pub(crate) fn message(&self, text: &str) {
        self.update(|ahead| ahead.now = text.into());
    }

    /// Counts one more case as done.
    pub(crate) fn advance(&self) {
        self.update(|ahead| ahead.ended += 1);
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

/// Moves the bar to where `ahead` is.
fn draw(bar: &ProgressBar, ahead: &mut Ahead, messages: &Messages) {
    bar.set_position(ahead.position_now());
    let columns = messages.width().map_or(usize::MAX, |width| width.saturating_sub(BAR + 1));
    bar.set_message(ahead.text_now(columns));
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
            // The notes have each with its reason.
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
        self.update(Ahead::begin_limits);
    }

    fn begin(&mut self, id: &str) {
        if !self.skipped.contains(id) {
            self.update(|ahead| ahead.begin(id));
        }
    }

    fn end(&mut self, case: &Case) {
        if self.messages.verbosity == Verbosity::Verbose {
            self.line(&told(case));
        }
        if matches!(case.outcome, Outcome::Skipped { .. }) && self.skipped.contains(&case.id) {
            return;
        }
        self.update(|ahead| ahead.end(&case.id));
    }
}

/// What came of a case, in a line.
fn told(case: &Case) -> String {
    match &case.outcome {
        Outcome::Measured(measured) => {
            let summary = &measured.summary;
            let error = summary.relative_error().map_or_else(String::new, |error| format!(" ± {:.1} %", error * 100.0));
            format!("{}: {}{error}, {} samples", case.id, case.shown(summary.median), summary.count)
        }
        other => format!("{}: {}", case.id, other.status()),
    }
}

/// One line for all cases of a variant and type that share a reason: a sweep of hundreds says it once. What has tiles of
/// its own is another program, which may lack something else.
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
    use crate::algorithms::matmul::MATMUL;
    use crate::basis::dtype::DType;
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
            b.0.options = axes::tests::unusual_on(axis);
            let apart = axis.separates.tiles;
            assert_eq!(skips(&[a, b]).len(), 1 + usize::from(apart), "{}", axis.name);
        }
    }

    /// So many cases `a`, `b` … that should take so long each, with limits that should take 10 s.
    fn ahead(ids: &[&str], seconds: f64) -> Ahead {
        let expected: Vec<_> = ids.iter().map(|id| (id.to_string(), Nanos::from_seconds(seconds))).collect();
        Ahead::new(ids.len(), &expected, &[Nanos(10e9)])
    }

    #[test]
    fn what_is_left_follows_what_was_seen() {
        let mut ahead = ahead(&["a", "b", "c", "d"], 30.0);
        let now = Nanos::default();
        assert_eq!(ahead.left(now, now).map(about).as_deref(), Some("2 min"));
        ahead.begin("a");
        ahead.begin("b");
        ahead.end("a");
        // Twice as slow as expected.
        let left = ahead.left(Nanos(90e9), now).expect("an estimate").seconds();
        assert!((155.0..170.0).contains(&left), "{left}");
        for id in ["b", "c", "d"] {
            ahead.end(id);
        }
        let left = ahead.left(Nanos(120e9), now).expect("an estimate").seconds();
        assert!((9.0..11.0).contains(&left), "the limits are left: {left}");
        ahead.begin_limits();
        ahead.settle_limits();
        assert_eq!((ahead.left(Nanos(240e9), now), ahead.ended), (Some(Nanos(0.0)), 4));
        assert_eq!(Ahead::new(3, &[], &[]).left(Nanos(1e9), now), None);
    }

    #[test]
    fn progress_names_the_cases_that_take_turns_and_counts_limits_apart() {
        let mut ahead = ahead(&["a", "b", "c"], 5.0);
        let text = |ahead: &Ahead| ahead.text(Nanos(10e9), Nanos::default());
        assert!(text(&ahead).ends_with(" left: 0 of 3 done"), "{}", text(&ahead));
        ahead.begin("a");
        assert!(text(&ahead).ends_with(" left: 1 of 3, a"), "{}", text(&ahead));
        ahead.begin("b");
        ahead.begin("b");
        assert!(text(&ahead).ends_with(" left: 1–2 of 3 in turns, b"), "{}", text(&ahead));
        ahead.end("b");
        assert!(text(&ahead).ends_with(" of 3, a"), "{}", text(&ahead));
        ahead.end("a");
        ahead.begin_limits();
        assert!(text(&ahead).ends_with(" left: 2 of 3 done, limits of the device"), "{}", text(&ahead));
        // The next device.
        ahead.begin("c");
        assert!(text(&ahead).ends_with(" left: 3 of 3, c"), "{}", text(&ahead));
    }

    #[test]
    fn a_case_that_takes_much_longer_than_expected_says_nothing_of_the_others() {
        let mut ahead = ahead(&["a", "b"], 5.0);
        let text = |ahead: &Ahead, waited| ahead.text(Nanos(240e9), Nanos(waited));
        ahead.begin("a");
        assert!(text(&ahead, 15e9).starts_with("4 min, about "), "{}", text(&ahead, 15e9));
        assert_eq!(text(&ahead, 240e9), "4 min: 1 of 2, a for 4 min so far");
        // Variants that take turns are waited for together.
        ahead.begin("b");
        assert!(text(&ahead, 30e9).starts_with("4 min, about "), "{}", text(&ahead, 30e9));
    }

    #[test]
    fn while_nothing_ends_less_is_left_every_second_and_more_is_done() {
        let mut ahead = ahead(&["a", "b"], 5.0);
        ahead.begin("a");
        ahead.begin("b");
        let at = |second: f64| {
            let elapsed = Nanos::from_seconds(second);
            let left = ahead.left(elapsed, elapsed);
            (left.expect("an estimate").0, ahead.part(elapsed, left))
        };
        let all: Vec<_> = (0..60).map(|second| at(f64::from(second))).collect();
        assert!(all.windows(2).all(|pair| pair[1].0 < pair[0].0 && pair[1].0 > 0.0), "{all:?}");
        assert!(all.windows(2).all(|pair| pair[1].1 > pair[0].1 && pair[1].1 < 1.0), "{all:?}");
    }

    #[test]
    fn the_bar_neither_stands_nor_goes_back_and_is_full_at_the_end_alone() {
        let mut ahead = ahead(&["a", "b", "c", "d"], 5.0);
        let mut last = 0;
        let mut look = |ahead: &mut Ahead, second: f64, waited: f64| {
            let position = ahead.position(Nanos::from_seconds(second), Nanos::from_seconds(waited));
            assert!((last + 1..STEPS).contains(&position), "{last} {position} at {second} s");
            last = position;
        };
        ahead.begin("a");
        ahead.begin("b");
        for tens in 1..=4 {
            look(&mut ahead, 10.0 * f64::from(tens), 10.0 * f64::from(tens));
        }
        // Both took four times as long as expected: more is left than it seemed.
        ahead.end("a");
        ahead.end("b");
        ahead.begin("c");
        ahead.begin("d");
        for tens in 1..=4 {
            look(&mut ahead, 40.0 + 10.0 * f64::from(tens), 10.0 * f64::from(tens));
        }
        ahead.end("c");
        ahead.end("d");
        ahead.begin_limits();
        look(&mut ahead, 90.0, 0.5);
    }

    #[test]
    fn a_long_run_is_foretold() {
        let told = |seconds: f64, limits: &[Nanos], others| {
            let ahead = Ahead::new(27, &[("a".to_string(), Nanos::from_seconds(seconds))], limits);
            ahead.foretold("case", others)
        };
        assert_eq!(told(1.5, &[], false).as_deref(), Some("27 cases, about 40 s"));
        let busy = "27 cases, about 48 s (up to 2 min if other programs use the CPU)";
        assert_eq!(told(1.5, &[Nanos(4e9); 2], true).as_deref(), Some(busy));
        assert_eq!((told(0.3, &[], true), Ahead::new(3, &[], &[]).foretold("case", true)), (None, None));
    }

    #[test]
    fn limits_of_each_device_count_once_they_are_done() {
        let expected = [("a".to_string(), Nanos(10e9)), ("b".to_string(), Nanos(10e9))];
        let mut ahead = Ahead::new(2, &expected, &[Nanos(10e9); 2]);
        let mut done = vec![];
        for id in ["a", "b"] {
            ahead.begin(id);
            ahead.end(id);
            ahead.begin_limits();
            done.push(ahead.done.seconds().round());
        }
        ahead.settle_limits();
        done.push(ahead.done.seconds().round());
        assert_eq!((done, ahead.ended), (vec![15.0, 35.0, 40.0], 2));
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
        assert_eq!(progress.ahead.lock().expect("no panic").ended, 1);
        progress.finish();
    }

    #[test]
    fn times_to_wait_are_round() {
        let shown = [0.2, 40.4, 150.0, 9000.0].map(|seconds| about(Nanos::from_seconds(seconds)));
        assert_eq!(shown, ["1 s", "40 s", "2 min", "2.5 h"]);
    }
}
