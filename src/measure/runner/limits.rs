//! Measures the limits of a device: the probes as cases like any others, transfers and submissions directly.

use super::{Observer, Runner};
use crate::algorithms::CaseSpec;
use crate::basis::units::{Bytes, Nanos};
use crate::measure::executor::{Executor, HostSide};
use crate::peak::{Direction, Extent, Figure, Missing, Operation, Peak, Quantity, may_limit, plan};
use crate::plan::CaseGroup;
use crate::record::{Case, Outcome};
use crate::stats::Summary;
use crate::vulkan::VulkanError;

/// Submissions whose median is the time from submission to completion.
const SUBMISSIONS: usize = 200;
/// Copies in each direction.
const TRANSFERS: usize = 10;
/// Bytes of each copy.
const TRANSFERRED: Bytes = Bytes(64 << 20);

/// The kind of cache file that keeps the limits.
const KEPT: &str = "peak.json";
/// The same under validation layers, which slow the host side down: such figures are nobody's limits.
const KEPT_VALIDATED: &str = "peak-validated.json";

impl dyn Executor + '_ {
    /// Measures the limits of the device and keeps them for later runs.
    pub(crate) fn measure_peak(&mut self, extent: Extent, observer: &mut dyn Observer) -> Peak {
        let run = plan::run(self.info(), extent);
        let cases = self.run(&run, observer);
        let mut peak = Peak::new(self.info(), extent, jiff::Timestamp::now().to_string(), &cases);
        if extent == Extent::Full {
            self.measure_host_side(&mut peak);
        }
        // A probe that failed or was cut short may have a limit the next time.
        let fleeting = |case: &Case| case.outcome == Outcome::Interrupted || case.outcome.failure().is_some();
        if !cases.iter().any(fleeting) {
            self.keep_peak(&peak);
        }
        peak
    }

    /// The limits kept of earlier runs, or a quick measurement of them.
    pub(crate) fn peak(&mut self, observer: &mut dyn Observer) -> Peak {
        let kept = self.cache().get(self.kept_as(), self.info());
        let kept = kept.and_then(|json| serde_json::from_slice::<Peak>(&json).ok());
        match kept.filter(|peak| peak.schema == crate::peak::SCHEMA && !peak.figures.is_empty()) {
            Some(peak) => peak,
            None => self.measure_peak(Extent::Quick, observer),
        }
    }

    /// Measures again, longer, the limits of cases that were faster than `peak` says is possible.
    pub(crate) fn doubt_peak(&mut self, peak: &mut Peak, doubted: &[&Case], observer: &mut dyn Observer) {
        let bounds = |group: &CaseGroup| {
            let CaseSpec { size, dtype, .. } = group.spec;
            let found = || group.variants.iter().filter_map(move |variant| variant.limit(size, dtype));
            let limits = doubted.iter().filter_map(|case| Some((case.share?.limit, case.computed_in().dtype)));
            limits.into_iter().any(|(limit, dtype)| found().any(|quantity| may_limit(quantity, limit, dtype)))
        };
        let run = plan::again(self.info(), bounds);
        for case in self.run(&run, observer) {
            peak.add_case(&case);
        }
        self.keep_peak(peak);
    }

    fn kept_as(&self) -> &'static str {
        if self.validated() { KEPT_VALIDATED } else { KEPT }
    }

    fn keep_peak(&self, peak: &Peak) {
        if let Ok(json) = serde_json::to_vec(peak) {
            self.cache().put(self.kept_as(), self.info(), &json);
        }
    }

    fn measure_host_side(&mut self, peak: &mut Peak) {
        let HostSide { submissions, uploads, downloads } = self.host_side();
        let quantity = Quantity::Latency { of: Operation::SubmitToWait };
        add(peak, quantity, submissions, |time| time.0);
        for (direction, times) in [(Direction::Upload, uploads), (Direction::Download, downloads)] {
            let rate = |time: Nanos| TRANSFERRED.0 as f64 / time.seconds();
            add(peak, Quantity::Transfer { direction }, times, rate);
        }
    }
}

impl Runner<'_> {
    /// Times what the host does with the device beside running kernels.
    pub(crate) fn host_side(&mut self) -> HostSide {
        let text = |error: VulkanError| error.to_string();
        HostSide {
            submissions: self.workbench.submissions(SUBMISSIONS).map_err(text),
            uploads: self.workbench.uploads(TRANSFERRED, TRANSFERS).map_err(text),
            downloads: self.workbench.downloads(TRANSFERRED, TRANSFERS).map_err(text),
        }
    }
}

fn add(peak: &mut Peak, quantity: Quantity, times: Result<Vec<Nanos>, String>, figure: impl Fn(Nanos) -> f64) {
    let case = "measured directly".to_string();
    match times.map(|times| Summary::of(&times)) {
        Ok(Some(Summary { min, median, .. })) => {
            peak.add(Figure { quantity, best: figure(min), median: figure(median), case });
        }
        Ok(None) => {}
        Err(error) => peak.missing.push(Missing { case: format!("{quantity:?}"), reason: error }),
    }
}
