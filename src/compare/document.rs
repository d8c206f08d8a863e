//! The JSON of a comparison. Its schema is `docs/compare.schema.json`, generated from these types; a test compares the
//! two.

use super::Comparison;
use super::gate::Violation;
use crate::basis::error::Exit;
use serde::Serialize;

/// What `compare --json` writes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Document"))]
pub(crate) struct ComparisonDocument<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    /// Limits of `--gate` that the candidate does not keep.
    violations: &'a [Violation],
    /// The exit code: 0 all same or faster, 1 slower, newly wrong or beyond a limit, 4 undecided.
    exit: u8,
}

impl<'a> ComparisonDocument<'a> {
    /// Of a finished comparison.
    #[must_use]
    pub(crate) fn new(comparison: &'a Comparison, violations: &'a [Violation], exit: Exit) -> Self {
        Self { comparison, violations, exit: exit as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<ComparisonDocument<'_>>();
        crate::record::schema::assert_committed("docs/compare.schema.json", &schema);
    }
}
