//! How an outcome is read: straight into its fields. What serde derives for a tagged enum keeps everything in between,
//! which costs more than all else of reading a record: its samples are in there.

use crate::algorithms::CheckMethod;

use crate::basis::metric::Metric;
use crate::record::{Conditions, Measured, Outcome, Phases, Sample, Verification, Warning};
use crate::stats::Summary;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Measured,
    Rejected,
    Skipped,
    Failed,
    Interrupted,
}

/// The fields of every kind of outcome.
#[derive(Deserialize)]
struct Fields {
    status: Status,
    // Measured.
    verification: Option<Verification>,
    summary: Option<Summary>,
    repeats: Option<u32>,
    samples: Option<Vec<Sample>>,
    warnings: Option<Vec<Warning>>,
    #[serde(default)]
    conditions: Conditions,
    phases: Option<Phases>,
    // Rejected.
    residual: Option<f64>,
    tolerance: Option<f64>,
    method: Option<CheckMethod>,
    worst: Option<String>,
    metrics: Option<Vec<Metric>>,
    // Skipped.
    reason: Option<String>,
    // Failed.
    error: Option<String>,
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn there<T, E: Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
            field.ok_or_else(|| E::missing_field(name))
        }
        let fields = Fields::deserialize(deserializer)?;
        Ok(match fields.status {
            Status::Measured => Self::Measured(Box::new(Measured {
                verification: there(fields.verification, "verification")?,
                summary: there(fields.summary, "summary")?,
                repeats: there(fields.repeats, "repeats")?,
                samples: there(fields.samples, "samples")?,
                warnings: there(fields.warnings, "warnings")?,
                conditions: fields.conditions,
                phases: there(fields.phases, "phases")?,
            })),
            Status::Rejected => Self::Rejected(Verification {
                residual: fields.residual,
                tolerance: there(fields.tolerance, "tolerance")?,
                method: there(fields.method, "method")?,
                worst: there(fields.worst, "worst")?,
                metrics: there(fields.metrics, "metrics")?,
            }),
            Status::Skipped => Self::Skipped { reason: there(fields.reason, "reason")? },
            Status::Failed => Self::Failed { error: there(fields.error, "error")? },
            Status::Interrupted => Self::Interrupted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::record;

    #[test]
    fn every_outcome_is_read_as_it_was_written() {
        for case in record().cases {
            let text = serde_json::to_string(&case.outcome).expect("JSON");
            let read: Outcome = serde_json::from_str(&text).expect(&text);
            assert_eq!(read, case.outcome);
        }
    }

    #[test]
    fn what_an_outcome_lacks_is_named() {
        for (text, expected) in [
            ("{}", "missing field `status`"),
            (r#"{"status": "lost"}"#, "unknown variant `lost`"),
            (r#"{"status": "failed"}"#, "missing field `error`"),
            (r#"{"status": "skipped", "reason": null}"#, "missing field `reason`"),
            (r#"{"status": "measured", "samples": []}"#, "missing field `verification`"),
            (r#"{"status": "rejected", "tolerance": 1}"#, "missing field `method`"),
            (r#"{"status": "measured", "samples": [{"device": "x"}]}"#, "expected f64 at line 1 column 49"),
        ] {
            let error = serde_json::from_str::<Outcome>(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
