//! Comparisons for tests of every room above.

use super::gate::Reached;
use super::paired::{AB_SCHEMA, Trial, Trials, Turns};
use super::{Compared, Comparison, SCHEMA, SideSummary, Verdict};
use crate::basis::units::Nanos;
use crate::record::Origin;

/// Returns a case of matmul that takes 5 % longer in the candidate.
pub fn compared(variant: &str, verdict: Verdict) -> Compared {
    let side = |median| SideSummary { median: Nanos(median), processes: 3, samples: 60 };
    Compared {
        id: format!("matmul/{variant}/f32/64x64x64"),
        algorithm: "matmul".into(),
        variant: variant.into(),
        kind: "matmul f32, uniform input".into(),
        subject: "matmul f32".into(),
        row: "64".into(),
        device: "llvmpipe".into(),
        vendor: Some("Mesa".into()),
        is_software: true,
        baseline: side(1e6),
        candidate: side(1.05e6),
        ratio: Some(1.05),
        of_cpu_time: false,
        interval: Some([1.04, 1.061]),
        is_below_effect: false,
        p: Some(1e-4),
        verdict,
        test: "p = 0.0001".into(),
        why: vec!["clock 1980 → 1755 MHz".into()],
        about_check: vec![],
        obstacle: None,
        canary: None,
        canary_explains: false,
        chain: None,
        reached: Reached::default(),
    }
}

/// Returns a comparison of only these cases.
pub fn comparison(cases: Vec<Compared>) -> Comparison {
    Comparison {
        schema: SCHEMA,
        version: "0.0.0",
        min_effect: 0.02,
        differences: vec![],
        cases,
        remarks: vec![],
        decide: None,
        inspected: vec![],
        totals: vec![],
        unmatched: vec![],
    }
}

/// Returns a document of these cases.
pub fn trials(cases: Vec<Trial>, turns: Turns) -> Trials {
    Trials {
        schema: AB_SCHEMA,
        version: "0".into(),
        started: String::new(),
        command: vec![],
        origin: Origin::default(),
        validation: false,
        turns,
        min_effect: 0.02,
        cases,
        not_measured: 0,
        exit: 0,
    }
}
