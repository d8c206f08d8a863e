//! Progress on standard error, on a terminal only.

use crate::basis::printable::printable;
use crate::basis::stderr::say;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::measure::runner::Observer;
use crate::plan::CaseId;
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

    /// Sets the text beside the bar.
    pub(crate) fn message(&self, text: &str) {
        self.0.set_message(printable(text).into_owned());
    }

    /// Counts one more case as done.
    pub(crate) fn advance(&self) {
        self.0.inc(1);
    }

    /// Writes a line above the bar.
    pub(crate) fn line(&self, text: &str) {
        self.0.suspend(|| line(text));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Writes a line to standard error, where there is no bar.
pub(crate) fn line(text: &str) {
    say(&format!("{text}\n"));
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
        self.0.set_message(id.to_string());
    }

    fn end(&mut self, _: &Case) {
        self.0.inc(1);
    }
}

/// One line for all cases of a variant and type that share a reason: a sweep of hundreds says it once.
fn skips(skipped: &[(CaseId, String)]) -> Vec<String> {
    let variant = |id: &CaseId| (id.algorithm, id.variant.clone(), id.dtype, id.layout);
    let mut lines: Vec<(&CaseId, &str, usize)> = vec![];
    for (id, reason) in skipped {
        match lines.iter_mut().find(|(first, why, _)| why == reason && variant(first) == variant(id)) {
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
    use crate::algorithms::Goal;
    use crate::basis::dtype::DType;

    #[test]
    fn sizes_of_a_variant_that_share_a_reason_share_a_line() {
        let case = |variant: &str, dtype, extents: &str, reason: &str| {
            let (variant, extents) = (variant.into(), extents.into());
            let (algorithm, goal, layout, input) = ("matmul", Goal::Result, None, None);
            let (subgroup_size, stop) = (None, None);
            let id = CaseId { algorithm, variant, dtype, extents, layout, goal, input, subgroup_size, stop };
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
    }
}
