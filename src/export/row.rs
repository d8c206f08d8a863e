//! A case as one flat row, for formats that are tables.

use super::{NO_RATE, Named, bandwidth, identifier, rate, reason};
use crate::basis::units::Nanos;
use crate::record::marks::RunConditions;
use crate::record::{Limit, Record};
use serde::Serialize;

/// The columns, in their order. Times are in nanoseconds and, for a chain, those of one operation; rates are those of
/// the whole case.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) algorithm: String,
    pub(super) variant: String,
    pub(super) dtype: String,
    pub(super) layout: String,
    pub(super) size: String,
    /// What was asked of the algorithm: its result or a solution.
    pub(super) goal: &'static str,
    pub(super) input: String,
    pub(super) seed: u64,
    pub(super) subgroup_size: Option<u32>,
    pub(super) device: String,
    pub(super) driver: String,
    pub(super) started: String,
    pub(super) version: String,
    pub(super) commit: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) label: Option<String>,
    pub(super) host: Option<String>,
    pub(super) status: String,
    /// Why there is no time, or no rate.
    pub(super) reason: Option<String>,
    pub(super) median_ns: Option<f64>,
    pub(super) median_low_ns: Option<f64>,
    pub(super) median_high_ns: Option<f64>,
    pub(super) min_ns: Option<f64>,
    pub(super) lower_quartile_ns: Option<f64>,
    pub(super) upper_quartile_ns: Option<f64>,
    pub(super) max_ns: Option<f64>,
    pub(super) samples: usize,
    pub(super) outliers: usize,
    pub(super) repeats: Option<u32>,
    pub(super) chain: Option<u64>,
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) operations_per_second: Option<f64>,
    pub(super) bytes_per_second: Option<f64>,
    pub(super) residual: Option<f64>,
    pub(super) tolerance: Option<f64>,
    pub(super) share: Option<f64>,
    pub(super) limit: Option<Limit>,
    pub(super) speedup: Option<f64>,
    pub(super) warnings: String,
    /// The signs that set it apart from the rest of its run, as in tables.
    pub(super) marks: String,
}

impl Row {
    pub(super) fn new(named: Named<'_>, record: &Record, conditions: &RunConditions) -> Self {
        let case = named.case;
        let m = case.measured();
        let time = |of: fn(&crate::stats::Summary) -> Option<Nanos>| {
            m.and_then(|m| of(&m.summary)).map(|time| case.shown(time).0).filter(|time| time.is_finite())
        };
        let operations_per_second = m.and_then(|m| rate(case, m.summary.median));
        let bytes_per_second = m.and_then(|m| bandwidth(case, m.summary.median));
        let rateless = m.is_some()
            && ((case.work.operations > 0 && operations_per_second.is_none())
                || (case.work.bytes.0 > 0 && bytes_per_second.is_none()));
        let verification = match &case.outcome {
            crate::record::Outcome::Rejected(verification) => Some(verification),
            _ => m.and_then(|m| m.verification.verified()),
        };
        Self {
            algorithm: case.algorithm.clone(),
            variant: case.variant.clone(),
            dtype: case.dtype.to_string(),
            layout: case.layout.to_string(),
            size: case.size.to_string(),
            goal: case.goal.name(),
            input: case.input.to_string(),
            seed: case.seed,
            subgroup_size: case.subgroup_size,
            device: named.device_name().into(),
            driver: named.driver().into(),
            started: record.started.clone(),
            version: record.version.clone(),
            commit: record.origin.commit.clone(),
            branch: record.origin.branch.clone(),
            label: record.origin.label.clone(),
            host: record.origin.host.clone(),
            status: identifier(&case.outcome),
            reason: reason(&case.outcome).or_else(|| rateless.then(|| NO_RATE.into())),
            median_ns: time(|s| Some(s.median)),
            median_low_ns: time(|s| s.interval.map(|[low, _]| low)),
            median_high_ns: time(|s| s.interval.map(|[_, high]| high)),
            min_ns: time(|s| Some(s.min)),
            lower_quartile_ns: time(|s| Some(s.lower_quartile)),
            upper_quartile_ns: time(|s| Some(s.upper_quartile)),
            max_ns: time(|s| Some(s.max)),
            samples: m.map_or(0, |m| m.summary.count),
            outliers: m.map_or(0, |m| m.summary.outliers),
            repeats: m.map(|m| m.repeats),
            chain: case.chain,
            operations: case.work.operations,
            bytes: case.work.bytes.0,
            operations_per_second,
            bytes_per_second,
            residual: verification.and_then(|v| v.residual),
            tolerance: verification.map(|v| v.tolerance),
            share: case.share.map(|share| share.fraction).filter(|share| share.is_finite()),
            limit: case.share.map(|share| share.limit),
            speedup: case.speedup.filter(|speedup| speedup.is_finite()),
            warnings: m.map_or_else(String::new, |m| m.cautions().collect::<Vec<_>>().join("; ")),
            marks: conditions.signs(case),
            name: named.name,
        }
    }

    /// The fields that hold text from elsewhere.
    pub(super) fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let Self { name, algorithm, variant, size, device, driver, started, version, .. } = self;
        let Self { reason, commit, branch, label, host, .. } = self;
        let optional = [reason, commit, branch, label, host].into_iter().flatten();
        [name, algorithm, variant, size, device, driver, started, version].into_iter().chain(optional)
    }
}
