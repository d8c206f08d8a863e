//! Progress on standard error: a bar on a terminal, elsewhere a line now and then.

use crate::basis::printable::printable;
use crate::basis::printable::say;
use crate::basis::units::Nanos;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::measure::executor::Observer;
use crate::plan::{CaseId, axes};
use crate::record::{Case, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at the bar, and between two lines where there is no terminal.
const TICKS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// How much is said beside results and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Nothing.
    Quiet,
    /// What is going on, and what to know of the results.
    Usual,
    /// What came of each case, too.
    Verbose,
}

static VERBOSITY: AtomicU8 = AtomicU8::new(Verbosity::Usual as u8);

impl Verbosity {
    /// Makes it that of this process.
    pub(crate) fn set(self) {
        VERBOSITY.store(self as u8, Ordering::Relaxed);
    }

    /// Whether this process says so much.
    #[must_use]
    pub(crate) fn asked(self) -> bool {
        self as u8 <= VERBOSITY.load(Ordering::Relaxed)
    }
}

/// Progress through cases.
pub(crate) struct Progress {
    bar: ProgressBar,
    ahead: Arc<Mutex<Ahead>>,
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
    /// What is going on, and since when.
    now: String,
    moved: Instant,
    since: Instant,
}

/// Expected time after which what was seen so far counts for more than what was expected.
const BELIEF: Nanos = Nanos(3e9);

impl Ahead {
    fn new(cases: usize, expected: &[(String, Nanos)]) -> Self {
        let once: Nanos = expected.iter().map(|(_, time)| *time).sum();
        // Several processes measure each case.
        let total = Nanos(once.0 * cases as f64 / expected.len().max(1) as f64);
        let expected = expected.iter().cloned().collect();
        let (done, begun, now, since) = (Nanos::default(), vec![], String::new(), Instant::now());
        Self { expected, total, done, cases, ended: 0, begun, now, moved: since, since }
    }

    /// Expected time of a case; of one that nobody foresaw, such as what `auto` chose, that of the average.
    fn of(&self, id: &str) -> Nanos {
        let average = Nanos(self.total.0 / self.cases.max(1) as f64);
        self.expected.get(id).copied().unwrap_or(average)
    }

    fn begin(&mut self, id: &str) {
        self.done = self.done + Nanos(0.5 * self.of(id).0);
        self.begun.push(id.into());
        self.now = id.into();
        self.moved = Instant::now();
    }

    fn end(&mut self, id: &str) {
        let left = match self.begun.iter().position(|begun| begun == id) {
            Some(index) => {
                self.begun.swap_remove(index);
                0.5
            }
            None => 1.0,
        };
        self.done = self.done + Nanos(left * self.of(id).0);
        self.ended += 1;
        self.moved = Instant::now();
    }

    /// The time that is left, were the rest as slow as what is done.
    fn left(&self, elapsed: Nanos) -> Option<Nanos> {
        let slowness = (elapsed + BELIEF).0 / (self.done + BELIEF).0;
        (self.total.0 > 0.0).then(|| Nanos((self.total.0 - self.done.0).max(0.0) * slowness))
    }

    /// `about 2 min left: matmul/naive/f32/64x64x64`. While something takes much longer than was expected of it, such as a
    /// user's reference command, nobody knows what is left.
    fn text(&self) -> String {
        let waited = Nanos::from(self.moved.elapsed());
        if waited.0 > 5e9 + 3.0 * self.of(&self.now).0 {
            let now = if self.now.is_empty() { "waiting".into() } else { printable(&self.now) };
            return format!("{now} for {} so far", about(waited));
        }
        let left = self.left(self.since.elapsed().into()).map(|left| format!("about {} left", about(left)));
        let now = (!self.now.is_empty()).then(|| printable(&self.now).into_owned());
        left.into_iter().chain(now).collect::<Vec<_>>().join(": ")
    }

    /// The line where there is no terminal.
    fn line(&self) -> String {
        let elapsed = about(self.since.elapsed().into());
        format!("{} of {} done after {elapsed}, {}", self.ended, self.cases, self.text())
    }
}

/// A time for people who wait: `40 s`, `3 min`, `2.5 h`.
#[must_use]
pub(crate) fn about(time: Nanos) -> String {
    match time.seconds() {
        seconds if seconds < 1.0 => "1 s".into(),
        seconds if seconds < 100.0 => format!("{seconds:.0} s"),
        seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

impl Progress {
    /// Progress through `cases` steps of unknown length.
    #[must_use]
    pub(crate) fn new(cases: usize) -> Self {
        Self::through(cases, &[])
    }

    /// Progress through `cases` cases, which are expected to take these times.
    #[must_use]
    pub(crate) fn through(cases: usize, expected: &[(String, Nanos)]) -> Self {
        let terminal = std::io::stderr().is_terminal();
        // indicatif draws on standard error and hides itself where that is no terminal.
        let bar = if Verbosity::Usual.asked() { ProgressBar::new(cases as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        let ahead = Arc::new(Mutex::new(Ahead::new(cases, expected)));
        let clock = Verbosity::Usual.asked().then(|| {
            let (alive, ended) = mpsc::channel();
            let (bar, ahead) = (bar.clone(), Arc::clone(&ahead));
            let tick = TICKS[usize::from(!terminal)];
            let clock = std::thread::spawn(move || {
                while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                    let Ok(ahead) = ahead.lock() else { return };
                    if terminal { bar.set_message(ahead.text()) } else { line(&ahead.line()) }
                }
            });
            (alive, clock)
        });
        Self { bar, ahead, clock }
    }

    fn update(&self, change: impl FnOnce(&mut Ahead)) {
        if let Ok(mut ahead) = self.ahead.lock() {
            change(&mut ahead);
            self.bar.set_message(ahead.text());
        }
    }

    /// Sets the text beside the bar.
    pub(crate) fn message(&self, text: &str) {
        self.update(|ahead| ahead.now = text.into());
    }

    /// Counts one more case as done.
    pub(crate) fn advance(&self) {
        self.update(|ahead| ahead.ended += 1);
        self.bar.inc(1);
    }

    /// Writes a line above the bar.
    pub(crate) fn line(&self, text: &str) {
        self.bar.suspend(|| line(text));
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

/// Writes a line to standard error, where there is no bar.
pub(crate) fn line(text: &str) {
    if Verbosity::Usual.asked() {
        say(&format!("{text}\n"));
    }
}

impl Observer for Progress {
    fn device(&mut self, info: &DeviceInfo) {
        match info.kind {
            DeviceKind::Host => self.line(&format!("host: {}, {}", info.name, info.driver.info)),
            _ => self.line(&format!("device {}: {}", info.index, info.name)),
        }
    }

    fn skipped(&mut self, skipped: &[(CaseId, String)]) {
        for line in skips(skipped) {
            self.line(&line);
        }
    }

    fn begin(&mut self, id: &str) {
        self.update(|ahead| ahead.begin(id));
    }

    fn end(&mut self, case: &Case) {
        if Verbosity::Verbose.asked() {
            self.line(&told(case));
        }
        self.update(|ahead| ahead.end(&case.id));
        self.bar.inc(1);
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
    use crate::algorithms::CaseOptions;
    use crate::algorithms::matmul::MATMUL;
    use crate::basis::dtype::DType;
    use crate::plan::axes::AXES;

    #[test]
    fn sizes_of_a_variant_that_share_a_reason_share_a_line() {
        let case = |variant: &str, dtype, extents: &str, reason: &str| {
            let (variant, extents) = (variant.into(), extents.into());
            let id =
                CaseId { algorithm: (&MATMUL).into(), variant, extents, options: CaseOptions::new(&MATMUL, dtype) };
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

    #[test]
    fn what_is_left_follows_what_was_seen() {
        let expected = ["a", "b", "c", "d"].map(|id| (id.to_string(), Nanos(30e9)));
        let mut ahead = Ahead::new(4, &expected);
        assert_eq!(ahead.left(Nanos::default()), Some(Nanos(120e9)));
        ahead.begin("a");
        ahead.begin("b");
        ahead.end("a");
        // Twice as slow as expected.
        let left = ahead.left(Nanos(90e9)).expect("an estimate").seconds();
        assert!((140.0..150.0).contains(&left), "{left}");
        for id in ["b", "c", "d"] {
            ahead.end(id);
        }
        assert_eq!((ahead.left(Nanos(240e9)), ahead.ended), (Some(Nanos(0.0)), 4));
        assert_eq!(Ahead::new(3, &[]).left(Nanos(1e9)), None);
        // A case that takes much longer than expected says nothing of the others.
        let mut ahead = Ahead::new(4, &expected);
        ahead.begin("a");
        assert!(ahead.text().starts_with("about "), "{}", ahead.text());
        ahead.moved = Instant::now().checked_sub(Duration::from_secs(240)).expect("a machine up for minutes");
        assert_eq!(ahead.text(), "a for 4 min so far");
    }

    #[test]
    fn times_to_wait_are_round() {
        let shown = [0.2, 40.4, 150.0, 9000.0].map(|seconds| about(Nanos::from_seconds(seconds)));
        assert_eq!(shown, ["1 s", "40 s", "2 min", "2.5 h"]);
    }
}
