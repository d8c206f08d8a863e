//! Options of cases for tests.

use super::axes::Axis;
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::case::input::Input;
use crate::case::{CaseOptions, Goal, StopRule, StopTest};

/// Returns the default options of an iterative algorithm.
pub fn usual() -> CaseOptions {
    CaseOptions { stop: Some(StopRule::default()), ..CaseOptions::plain(DType::F32) }
}

/// Returns options without any default.
pub fn unusual() -> CaseOptions {
    CaseOptions {
        dtype: DType::F64,
        layout: Layout::Nt,
        goal: Goal::Solution,
        input: Input::Hilbert,
        seed: 7,
        subgroup_size: Some(16),
        stop: Some(StopRule { test: StopTest::Neighbour, eps: 1e-3, max_rounds: 9 }),
    }
}

/// Returns the usual options with the unusual value of one axis.
pub fn unusual_on(axis: &Axis) -> CaseOptions {
    let [mut case, mut other] = [usual(), unusual()].map(|options| serde_json::to_value(options).expect("JSON"));
    let field = field(axis);
    case[field] = other[field].take();
    serde_json::from_value(case).expect("options")
}

/// Returns the field of an axis in the options: its column, or the stop rule.
pub fn field(axis: &Axis) -> &'static str {
    axis.column.as_ref().map_or("stop", |column| column.name)
}
