//! Reads an outcome directly into its fields. The code that serde derives for a tagged enum buffers the contents,
//! samples included, which would take longer than the rest of reading a record.

use crate::basis::units::Metric;
use crate::case::accepted::AcceptedMutation;
use crate::case::check::{CheckMethod, WrongElements};
use crate::record::{
    Conditions, Correctness, Death, Energy, Measured, Outcome, Phases, Repeated, Sample, Verification, Warning,
};
use crate::stats::Summary;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Tag of an outcome.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Measured,
    Rejected,
    Skipped,
    Failed,
    Crashed,
    TimedOut,
    Interrupted,
    Inspected,
}

/// Fields of every kind of outcome.
#[derive(Deserialize)]
struct OutcomeFields {
    status: Status,
    // Measured.
    verification: Option<Correctness>,
    #[serde(default)]
    accepts: Vec<AcceptedMutation>,
    inputs: Option<String>,
    answer: Option<String>,
    #[serde(default)]
    sketch: Vec<f64>,
    summary: Option<Summary>,
    repeats: Option<u32>,
    samples: Option<Vec<Sample>>,
    warnings: Option<Vec<Warning>>,
    #[serde(default)]
    conditions: Conditions,
    energy: Option<Energy>,
    repeated: Option<Repeated>,
    phases: Option<Phases>,
    // Rejected.
    residual: Option<f64>,
    tolerance: Option<f64>,
    method: Option<CheckMethod>,
    worst: Option<String>,
    metrics: Option<Vec<Metric>>,
    #[serde(default)]
    wrong: WrongElements,
    // Skipped.
    reason: Option<String>,
    #[serde(default)]
    unsupported: bool,
    // Failed.
    error: Option<String>,
    #[serde(default)]
    mistake: bool,
    // Crashed and timed out.
    cause: Option<String>,
    kernels: Option<Vec<String>>,
    driver: Option<String>,
    said: Option<Vec<String>>,
}

impl OutcomeFields {
    /// Returns the fields of a process that died.
    fn death<E: Error>(self) -> Result<Death, E> {
        Ok(Death {
            cause: required(self.cause, "cause")?,
            kernels: required(self.kernels, "kernels")?,
            driver: required(self.driver, "driver")?,
            said: self.said.unwrap_or_default(),
        })
    }
}

/// Fields of both kinds of correctness.
#[derive(Deserialize)]
struct CorrectnessFields {
    // Verified.
    residual: Option<f64>,
    tolerance: Option<f64>,
    method: Option<CheckMethod>,
    worst: Option<String>,
    metrics: Option<Vec<Metric>>,
    #[serde(default)]
    wrong: WrongElements,
    // Unverified.
    unverified: Option<String>,
}

/// Returns the value of a field that this kind of outcome must have.
fn required<T, E: Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
    field.ok_or_else(|| E::missing_field(name))
}

impl<'de> Deserialize<'de> for Correctness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = CorrectnessFields::deserialize(deserializer)?;
        match (fields.unverified, fields.tolerance) {
            (Some(unverified), None) => Ok(Self::Unverified { unverified }),
            (Some(_), Some(_)) => {
                Err(D::Error::custom("both `unverified` and a `tolerance`, which exclude each other"))
            }
            (None, tolerance) => Ok(Self::Verified(Verification {
                residual: fields.residual,
                tolerance: required(tolerance, "tolerance")?,
                method: required(fields.method, "method")?,
                worst: required(fields.worst, "worst")?,
                metrics: required(fields.metrics, "metrics")?,
                wrong: fields.wrong,
            })),
        }
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = OutcomeFields::deserialize(deserializer)?;
        Ok(match fields.status {
            Status::Measured => Self::Measured(Box::new(Measured {
                verification: required(fields.verification, "verification")?,
                accepts: fields.accepts,
                process_conditions: vec![],
                inputs: fields.inputs,
                answer: fields.answer,
                sketch: fields.sketch,
                summary: required(fields.summary, "summary")?,
                repeats: required(fields.repeats, "repeats")?,
                samples: required(fields.samples, "samples")?,
                warnings: required(fields.warnings, "warnings")?,
                conditions: fields.conditions,
                energy: fields.energy,
                repeated: fields.repeated,
                phases: required(fields.phases, "phases")?,
                process_medians: vec![],
            })),
            Status::Rejected => Self::Rejected(Verification {
                residual: fields.residual,
                tolerance: required(fields.tolerance, "tolerance")?,
                method: required(fields.method, "method")?,
                worst: required(fields.worst, "worst")?,
                metrics: required(fields.metrics, "metrics")?,
                wrong: fields.wrong,
            }),
            Status::Skipped => {
                Self::Skipped { reason: required(fields.reason, "reason")?, unsupported: fields.unsupported }
            }
            Status::Failed => Self::Failed { error: required(fields.error, "error")?, mistake: fields.mistake },
            Status::Crashed => Self::Crashed(fields.death()?),
            Status::TimedOut => Self::TimedOut(fields.death()?),
            Status::Interrupted => Self::Interrupted,
            Status::Inspected => Self::Inspected,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::{six_cases, unverified};

    #[test]
    fn every_outcome_survives_serialization() {
        for case in six_cases().cases {
            let text = serde_json::to_string(&case.outcome).expect("JSON");
            let read: Outcome = serde_json::from_str(&text).expect(&text);
            assert_eq!(read, case.outcome);
        }
    }

    #[test]
    fn an_unverified_answer_survives_serialization() {
        let case = unverified().cases.remove(0);
        let text = serde_json::to_string(&case.outcome).expect("JSON");
        let written = r#""verification":{"unverified":"no expected output was given"},"#;
        assert!(text.contains(written), "{text}");
        let read: Outcome = serde_json::from_str(&text).expect(&text);
        assert_eq!(read, case.outcome);
        let both = text.replace(r#"given"}"#, r#"given","tolerance":1.0}"#);
        let error = serde_json::from_str::<Outcome>(&both).expect_err("both").to_string();
        assert!(error.starts_with("both `unverified` and a `tolerance`"), "{error}");
    }

    #[test]
    fn errors_name_the_missing_field_of_an_outcome() {
        for (text, expected) in [
            ("{}", "missing field `status`"),
            (r#"{"status": "lost"}"#, "unknown variant `lost`"),
            (r#"{"status": "failed"}"#, "missing field `error`"),
            (r#"{"status": "skipped", "reason": null}"#, "missing field `reason`"),
            (r#"{"status": "measured", "samples": []}"#, "missing field `verification`"),
            (r#"{"status": "measured", "verification": {}}"#, "missing field `tolerance`"),
            (r#"{"status": "rejected", "tolerance": 1}"#, "missing field `method`"),
            (r#"{"status": "measured", "samples": [{"device": "x"}]}"#, "expected f64 at line 1 column 49"),
        ] {
            let error = serde_json::from_str::<Outcome>(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
