//! Progress on standard error, on a terminal only.

use crate::measure::runner::Observer;
use crate::record::Case;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar that counts cases.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for `cases` cases; invisible when standard error is no terminal.
    #[must_use]
    pub(crate) fn new(cases: usize) -> Self {
        // indicatif draws on standard error and hides itself where that is no terminal.
        let bar = ProgressBar::new(cases as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self(bar)
    }

    /// Says what is being done.
    pub(crate) fn message(&self, text: &str) {
        self.0.set_message(text.to_string());
    }

    /// One more is done.
    pub(crate) fn advance(&self) {
        self.0.inc(1);
    }

    /// Writes a line above the bar.
    pub(crate) fn line(&self, text: &str) {
        self.0.suspend(|| eprintln!("{text}"));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Writes a line where there is no bar.
pub(crate) fn line(text: &str) {
    eprintln!("{text}");
}

/// Shows nothing.
pub(crate) struct Silent;

impl Observer for Silent {
    fn begin(&mut self, _: &str) {}
    fn end(&mut self, _: &Case) {}
}

impl Observer for Progress {
    fn begin(&mut self, id: &str) {
        self.0.set_message(id.to_string());
    }

    fn end(&mut self, _: &Case) {
        self.0.inc(1);
    }
}
