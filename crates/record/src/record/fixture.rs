//! Records for tests.

use super::{
    Case, CatalogueEntry, Caveat, Conditions, Correctness, Death, Limit, Measured, Method, Origin, Outcome, Phases,
    Record, SCHEMA, Sample, Share, Verification, Warning,
};
use crate::basis::dtype::DType;
use crate::basis::units::{Bytes, Nanos, Work};
use crate::case::CaseOptions;
use crate::case::check::{CheckMethod, WrongElements};
use crate::case::method::{CacheState, Clock};
use crate::device::capability::DeviceKind;
use crate::device::fixture::software_device;
use crate::stats::Summary;

/// Returns a case of a product by a variant.
pub fn case(variant: &str, outcome: Outcome) -> Case {
    Case {
        id: format!("matmul/{variant}/f32/64x64x64"),
        algorithm: "matmul".into(),
        variant: variant.into(),
        chosen_by_auto: None,
        choice: std::collections::BTreeMap::new(),
        size: "64".into(),
        entry: CatalogueEntry {
            algorithm: Some(0),
            defaults: Some(CaseOptions::plain(DType::F32)),
            variant: ["naive", "local", "subgroup", "split"].iter().position(|known| *known == variant),
            ..CatalogueEntry::default()
        },
        options: CaseOptions::plain(DType::F32),
        element: None,
        device: 0,
        process: 0,
        place: None,
        work: Work { operations: 524_288, bytes: Bytes(49_152) },
        written: Bytes(16_384),
        buffers: vec![],
        chain: None,
        launches: 1,
        computes: None,
        shortcuts: vec![],
        notes: vec![],
        tile: None,
        kernels: vec![],
        share: None,
        structure: None,
        speedup: None,
        speedup_interval: None,
        outcome,
    }
}

/// Returns the verification of an answer with this residual.
pub fn verification(residual: f64) -> Verification {
    Verification {
        residual: Some(residual),
        tolerance: 3.8e-6,
        method: CheckMethod::Elementwise,
        worst: "C[3][1] is 2, the reference has 1".into(),
        metrics: vec![],
        wrong: WrongElements::default(),
    }
}

/// Returns a measurement of about this many microseconds.
pub fn timed(micros: f64, warnings: Vec<Warning>) -> Outcome {
    let times = [0.98, 0.99, 1.0, 1.0, 1.01, 1.02].map(|scale| Nanos(scale * micros * 1e3));
    Outcome::Measured(Box::new(Measured {
        verification: verification(1.2e-7).into(),
        accepts: vec![],
        process_conditions: vec![],
        inputs: None,
        answer: None,
        sketch: vec![],
        summary: Summary::of(&times).expect("six samples"),
        repeats: 1,
        samples: times.map(|time| Sample { time, host: time, outlier: false }).to_vec(),
        warnings,
        conditions: Conditions::default(),
        energy: None,
        repeated: None,
        phases: Phases::default(),
        process_medians: vec![],
    }))
}

/// Returns the measurement of a measured case.
pub fn measured_mut(case: &mut Case) -> &mut Measured {
    match &mut case.outcome {
        Outcome::Measured(measured) => measured,
        outcome => panic!("{} is {}, not measured", case.id, outcome.status()),
    }
}

/// Returns a record of one timed case with a warning, one without, one rejected and one skipped.
pub fn four_cases() -> Record {
    Record {
        kind: None,
        schema: SCHEMA.into(),
        version: "0.0.0".into(),
        started: "2026-01-01T00:00:00Z".into(),
        command: vec![],
        request: None,
        method: Method {
            validation: false,
            clock: Clock::DeviceTimestamps,
            cache: CacheState::Hot,
            robust_access: None,
        },
        devices: vec![software_device()],
        peaks: vec![],
        cases: vec![
            case("naive", timed(250.0, vec![Warning::TimeLimit])),
            case("local", timed(125.0, vec![])),
            case("subgroup", Outcome::Rejected(verification(0.5))),
            case("other", Outcome::unsupported("needs feature shaderFloat64".into())),
        ],
        origin: Origin::default(),
        plan: None,
        options: None,
        shards: vec![],
        processes: vec![],
        kernel_files: vec![],
        caveats: Caveat::of(&[software_device()]),
        wall_time: Nanos(1e9),
        device_time: Nanos(8e8),
        overhead: Nanos(2e8),
    }
}

/// Returns [`four_cases`] with a share, and with a failed and an interrupted case.
pub fn six_cases() -> Record {
    let mut record = four_cases();
    record.command = ["gpukern", "bench", "matmul"].map(String::from).to_vec();
    record.cases[1].share = Some(Share { limit: Limit::Compute, least: Nanos(50e3), fraction: 0.4, interval: None });
    record.cases.push(case("broken", Outcome::failed("device lost".into())));
    record.cases.push(case("late", Outcome::Interrupted));
    record
}

/// Returns the record of [`six_cases`] with an unverified first case.
pub fn unverified() -> Record {
    let mut record = six_cases();
    let unverified = "no expected output was given".into();
    measured_mut(&mut record.cases[0]).verification = Correctness::Unverified { unverified };
    record
}

/// Name that breaks careless formats.
pub const HOSTILE: &str = "=1+1|<script>alert(1)</script>\"'`]]>&\n@all\u{1},*_\\";

/// Returns a record with [`HOSTILE`] in place of every untrusted text.
pub fn hostile() -> Record {
    saying(HOSTILE)
}

/// Returns a record with `text` in place of every untrusted text.
pub fn saying(text: &str) -> Record {
    let mut record = six_cases();
    for device in &mut record.devices {
        device.name = text.into();
        device.driver.info = text.into();
    }
    record.command = vec![text.into()];
    record.started = text.into();
    record.origin.texts_mut().into_iter().for_each(|field| *field = Some(text.into()));
    record.version = text.into();
    for (at, case) in record.cases.iter_mut().enumerate() {
        // The first as it is, like a formula; the others apart from it.
        case.id = if at == 0 { text.into() } else { format!("{at}{text}") };
        case.algorithm = text.into();
        case.entry = CatalogueEntry::default();
        case.variant = format!("{at}{text}");
        case.size = text.into();
        case.notes = vec![text.into()];
        match &mut case.outcome {
            Outcome::Measured(measured) => match &mut measured.verification {
                Correctness::Verified(verification) => verification.worst = text.into(),
                Correctness::Unverified { unverified } => *unverified = text.into(),
            },
            Outcome::Rejected(verification) => verification.worst = text.into(),
            Outcome::Skipped { reason, .. } => *reason = text.into(),
            Outcome::Failed { error, .. } => *error = text.into(),
            Outcome::Crashed(death) | Outcome::TimedOut(death) => {
                let Death { cause, kernels, driver, said } = death;
                (*cause, *driver, *kernels, *said) = (text.into(), text.into(), vec![text.into()], vec![text.into()]);
            }
            Outcome::Interrupted | Outcome::Inspected => {}
        }
    }
    record
}

/// Returns a record of a device of this kind, with a case for each of these conditions.
pub fn under_conditions(kind: DeviceKind, conditions: &[Conditions]) -> Record {
    let mut record = four_cases();
    record.devices[0].kind = kind;
    let case = record.cases[1].clone();
    let with = |conditions: &Conditions| {
        let mut case = case.clone();
        measured_mut(&mut case).conditions = *conditions;
        case
    };
    record.cases = conditions.iter().map(with).collect();
    record
}

/// Returns conditions under which the canary took this time, in nanoseconds.
pub fn with_canary(canary: f64) -> Conditions {
    let canary = Nanos(canary);
    Conditions {
        canary: Some([canary; 2]),
        canary_median: Some(canary),
        canary_best: Some(Nanos(75e3)),
        ..Conditions::default()
    }
}

/// Returns five cases on a GPU, the fourth disturbed.
pub fn disturbed() -> Record {
    let mut conditions = [with_canary(75e3); 5];
    conditions[3] = with_canary(82e3);
    under_conditions(DeviceKind::DiscreteGpu, &conditions)
}
