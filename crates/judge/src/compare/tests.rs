use super::pair::is_change;
use super::recipe::{ComparisonCommand, SideFiles, recipe};
use super::*;
use crate::basis::dtype::DType;
use crate::basis::units::{Bytes, Metric};
use crate::case::accepted::{AcceptedMutation, Mutation};
use crate::case::compiled::CompiledKernel;
use crate::device::capability::DeviceKind;
use crate::kernels::CATALOGUE;
use crate::plan::options::Selection;
use crate::plan::request::{KernelFiles, Request};
use crate::record::fixture::measured_mut;
use crate::record::reader;
use crate::record::{Case, Conditions, Correctness, KernelFile, Outcome, Process, Sample};
use crate::stats::Summary;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

const FIXTURE: &str = include_str!("../../../../tests/fixtures/run-1.json");

/// Returns a record of two cases with samples `times`, from a process that started at `started`.
fn record(started: &str, times: &[f64]) -> Record {
    let mut record = reader::parse(FIXTURE.as_bytes(), "fixture", &CATALOGUE).expect("a record").record;
    record.started = started.into();
    record.cases.iter_mut().for_each(|case| set(case, times));
    record
}

/// Returns a record with times of 0.5 % around `center`; its name is the start time of its process, `a` or `b`.
fn steady(name: &str, center: f64) -> Record {
    record(name, &times(center, 0.005, 50, u64::from(name.as_bytes()[0] - b'a' + 1)))
}

fn set(case: &mut Case, times: &[f64]) {
    let measured = measured_mut(case);
    measured.samples =
        times.iter().map(|time| Sample { time: Nanos(*time), host: Nanos(*time), outlier: false }).collect();
    measured.warnings.clear();
    measured.summary = Summary::of(&times.iter().map(|time| Nanos(*time)).collect::<Vec<_>>()).expect("samples");
}

fn kernel(name: &str, hash: &str, statistics: Vec<Metric>) -> CompiledKernel {
    CompiledKernel { name: name.into(), hash: hash.into(), statistics, inspection: None }
}

/// Returns `count` times around `center`, at most `spread` away relative to it.
fn times(center: f64, spread: f64, count: usize, seed: u64) -> Vec<f64> {
    use rand::Rng;
    let mut generator = generator(seed, 3);
    let mut next = || center * (1.0 + spread * (2.0 * f64::from(generator.next_u32()) / 2f64.powi(32) - 1.0));
    std::iter::repeat_with(&mut next).take(count).collect()
}

/// Compares two records by the usual settings.
fn compared(a: &Record, b: &Record) -> Comparison {
    compare(from_ref(a), from_ref(b), &Settings::default())
}

fn verdicts(baseline: &[Record], candidate: &[Record], settings: &Settings) -> Vec<Verdict> {
    compare(baseline, candidate, settings).cases.iter().map(|case| case.verdict).collect()
}

#[test]
fn a_record_is_the_same_as_itself_however_noisy() {
    let record = record("a", &times(1e6, 0.5, 4, 1));
    let comparison = compared(&record, &record);
    assert!(comparison.cases.iter().all(|case| case.verdict == Verdict::Same && case.interval == Some([1.0; 2])));
    assert_eq!((comparison.cases.len(), comparison.unmatched.len(), comparison.differences.len()), (2, 0, 0));
}

#[test]
fn times_of_answers_that_nobody_checked_are_compared_and_called_unverified() {
    let [a, mut b] = ["a", "b"].map(|started| record(started, &times(1e6, 0.01, 50, 1)));
    let measured = measured_mut(&mut b.cases[0]);
    measured.verification = Correctness::Unverified { unverified: "no expected output was given".into() };
    let comparison = compared(&a, &b);
    let has_reason = |case: &Compared| case.why.iter().any(|reason| reason == "unverified in the candidate");
    assert_eq!(comparison.cases.iter().map(has_reason).collect::<Vec<_>>(), [true, false]);
    // A wrong kernel may be fast; nothing is lost the other way round.
    let verdicts =
        |before, after| -> Vec<_> { compared(before, after).cases.iter().map(|case| case.verdict).collect() };
    assert_eq!(verdicts(&a, &b), [Verdict::Undecided, Verdict::Same]);
    assert_eq!(verdicts(&b, &a), [Verdict::Same; 2]);
    assert_eq!(comparison.cases[0].test, "no longer verified");
    // Where each must be verified, it does not matter that the baseline was not, nor whether there is one.
    let required = Settings { require_reference: true, ..Settings::default() };
    let both = compare(from_ref(&b), from_ref(&b), &required);
    assert_eq!((both.cases[0].verdict, &*both.cases[0].test), (Verdict::Same, "unverified on both sides"));
    assert_eq!(both.cases[0].word(), "unverified");
    // A slowdown is told beside it, if it is certain, so that accepting that accepts nothing else.
    let mut slower = record("c", &times(2e6, 0.01, 50, 1));
    measured_mut(&mut slower.cases[0]).verification = Correctness::Unverified { unverified: "no reference".into() };
    let case = compare(from_ref(&b), from_ref(&slower), &required).cases.remove(0);
    let unverified = Some(Obstacle::Unverified { before: true });
    assert_eq!((case.verdict, case.word(), case.obstacle), (Verdict::Slower, "unverified", unverified));
    // A slower device is no slower kernel, whether its answer is verified or not.
    let mut before = b.clone();
    for (record, canary) in [(&mut before, 1e5), (&mut slower, 2e5)] {
        measured_mut(&mut record.cases[0]).conditions.canary = Some([Nanos(canary); 2]);
    }
    let case = compare(from_ref(&before), from_ref(&slower), &required).cases.remove(0);
    assert_eq!((case.verdict, case.obstacle), (Verdict::Undecided, unverified));
    let mut less = a.clone();
    less.cases.remove(0);
    let new = compare(from_ref(&less), from_ref(&b), &required);
    assert_eq!((new.unmatched[0].label(), new.unmatched[0].newly_wrong), ("unverified", true));
    assert!(!compared(&less, &b).unmatched[0].newly_wrong);
    // Nor may a check become one that accepts wrong answers.
    let mut c = record("c", &times(1e6, 0.01, 50, 1));
    let [buffer, check] = ["D", "zero"].map(String::from);
    measured_mut(&mut c.cases[0]).accepts =
        vec![AcceptedMutation { buffer, mutation: Mutation::Zeros, member: None, share: 1.0, check }];
    assert_eq!(verdicts(&a, &c), [Verdict::Undecided, Verdict::Same]);
    assert_eq!(verdicts(&c, &a), [Verdict::Same; 2]);
    assert_eq!(compared(&a, &c).cases[0].test, "a weaker check");
}

#[test]
fn five_percent_is_slower_its_reverse_faster_and_within_a_larger_effect_the_same() {
    let [a, b] = [steady("a", 1e6), steady("b", 1.05e6)];
    let settings = Settings::default();
    assert_eq!(verdicts(from_ref(&a), from_ref(&b), &settings), [Verdict::Slower; 2]);
    assert_eq!(verdicts(from_ref(&b), from_ref(&a), &settings), [Verdict::Faster; 2]);
    assert_eq!(verdicts(&[a], &[b], &Settings { min_effect: 0.1, ..settings }), [Verdict::Same; 2]);
}

#[test]
fn what_does_not_matter_is_the_same_and_what_might_is_undecided() {
    let a = steady("a", 1e6);
    let settings = Settings::default();
    let against = |center: f64, spread: f64, count: usize| {
        let b = record("b", &times(center, spread, count, 2));
        verdicts(from_ref(&a), &[b], &settings)[0]
    };
    assert_eq!(against(1.002e6, 0.005, 50), Verdict::Same);
    assert_eq!(against(1.017e6, 0.005, 50), Verdict::Undecided);
    assert_eq!(against(1.05e6, 0.8, 12), Verdict::Undecided);
    assert_eq!(against(2e6, 0.005, 5), Verdict::Undecided, "five samples are too few");
}

#[test]
fn one_process_on_the_host_decides_less_than_one_on_a_gpu_and_says_why() {
    let on_host = |started, seed, center| {
        let mut record = record(started, &times(center, 0.005, 50, seed));
        record.devices[0].kind = DeviceKind::Cpu;
        record
    };
    let [a, b] = [on_host("a", 1, 1e6), on_host("b", 2, 1.05e6)];
    let comparison = compared(&a, &b);
    assert_eq!(comparison.cases[0].verdict, Verdict::Undecided);
    let assumed = "with fewer than 3 processes per side, ±20 % between processes is assumed";
    assert_eq!(comparison.cases[0].why[0], assumed);
    assert_eq!(comparison.cases[0].test, "a side has only 1 process");
    // Another program might double the time.
    let comparison = compare(from_ref(&a), &[on_host("b", 2, 2e6)], &Settings::default());
    assert_eq!((comparison.cases[0].verdict, comparison.cases[0].wants_more()), (Verdict::Undecided, false));
    let busy = "with fewer than 3 processes on a software device, a change may just be a busy moment";
    assert_eq!(comparison.cases[0].why[0], busy);
    let sure = Settings { noise: Some(0.01), ..Settings::default() };
    assert_eq!(verdicts(from_ref(&a), &[b], &sure), [Verdict::Slower; 2]);
    // Three processes per side show their noise.
    // A moment does not excuse an answer that nobody checks any more.
    let mut unverified = on_host("b", 2, 1.3e6);
    measured_mut(&mut unverified.cases[0]).verification = Correctness::Unverified { unverified: "no reference".into() };
    let case = compare(from_ref(&a), &[unverified], &Settings::default()).cases.remove(0);
    assert_eq!(
        (case.verdict, case.obstacle),
        (Verdict::Undecided, Some(Obstacle::Unverified { before: false })),
        "{case:?}"
    );
    let before = [("a", 0), ("b", 1), ("c", 2)].map(|(name, seed)| on_host(name, seed, 1e6));
    let after = [("c", 10), ("d", 11), ("e", 12)].map(|(name, seed)| on_host(name, seed, 1.05e6));
    assert_eq!(verdicts(&before, &after, &Settings::default()), [Verdict::Slower; 2]);
}

#[test]
fn a_process_whose_halves_disagree_decides_nothing() {
    let drifting = [times(1e6, 0.005, 30, 1), times(1.15e6, 0.005, 30, 2)].concat();
    let [a, b] = [record("a", &drifting), record("b", &times(1.16e6, 0.005, 60, 3))];
    assert_eq!(verdicts(&[a], &[b], &Settings::default()), [Verdict::Undecided; 2]);
}

#[test]
fn a_verdict_needs_more_of_a_case_among_many() {
    let ratio = bootstrap::Ratio { value: 1.03, least: 1.03, interval: [1.005, 1.055], p: 0.005 };
    assert_eq!(judge(&ratio, 0.02), Verdict::Slower);
    assert_eq!(judge(&bootstrap::Ratio { p: 0.1, ..ratio }, 0.02), Verdict::Undecided);
    let small = bootstrap::Ratio { value: 1.01, least: 1.01, interval: [1.005, 1.015], p: 0.0 };
    assert_eq!(judge(&small, 0.02), Verdict::Same);
}

#[test]
fn cases_without_a_time_are_listed_and_new_wrong_answers_are_regressions() {
    let a = steady("a", 1e6);
    let mut b = steady("b", 1e6);
    let failed = Outcome::failed("device lost".into());
    b.cases[0].outcome = failed.clone();
    b.cases[1].id = "lu/other".into();
    let comparison = compared(&a, &b);
    let listed: Vec<_> = comparison.unmatched.iter().map(|u| (u.baseline, u.candidate, u.newly_wrong)).collect();
    assert_eq!(
        listed,
        [
            (State::Measured, State::Failed, true),
            (State::Measured, State::Absent, false),
            (State::Absent, State::Measured, false)
        ]
    );
    assert_eq!(comparison.unmatched[0].reason, "device lost");
    let mut broken = a.clone();
    broken.cases[0].outcome = failed;
    let comparison = compared(&broken, &b);
    assert!(!comparison.unmatched[0].newly_wrong, "it failed before");
}

#[test]
fn what_else_differs_is_named() {
    let a = steady("a", 1e6);
    let mut b = a.clone();
    b.devices[0].driver.info = "590.1".into();
    b.version = "9.9.9".into();
    b.method.validation = true;
    b.cases[1].seed = 5;
    b.method.robust_access = Some(false);
    // Properties missing in an older record are no differences: the build, robust access, buffers.
    b.devices[0].driver.build = Some("2".into());
    b.cases[0].buffers = vec!["A f32[64] zero".into()];
    let changes = differences(from_ref(&a), from_ref(&b));
    let names: Vec<_> = changes.iter().map(|d| (d.what, d.refused)).collect();
    assert_eq!(names, [("driver", true), ("validation layers", true), ("gpukern", false), ("seed", true)]);
    assert!(differences(from_ref(&a), from_ref(&a)).is_empty());
    let mut c = b.clone();
    c.devices[0].driver.build = Some("3".into());
    c.cases[0].buffers = vec!["A f32[64] iota".into()];
    c.method.robust_access = Some(true);
    let changes = differences(&[b], &[c]);
    let names: Vec<_> = changes.iter().map(|d| (d.what, d.refused)).collect();
    assert_eq!(names, [("build of the driver", false), ("robust access", false), ("buffers", false)]);
    assert_eq!((changes[1].baseline.as_str(), changes[1].candidate.as_str()), ("off", "on"));
    assert!(changes[2].candidate.starts_with("A f32[64] iota in "), "{}", changes[2].candidate);
}

#[test]
fn a_case_whose_description_changed_is_listed_and_the_others_are_judged() {
    let [mut a, mut b] = [steady("a", 1e6), steady("b", 1e6)];
    for (record, fill) in [(&mut a, "zero"), (&mut b, "iota")] {
        record.cases[0].buffers = vec![format!("A f32[64] {fill}"), "D f32[64]".into()];
    }
    let comparison = compared(&a, &b);
    assert_eq!((comparison.cases.len(), comparison.unmatched.len()), (1, 1));
    let left_out = &comparison.unmatched[0];
    assert_eq!(left_out.reason, "its buffers changed: A f32[64] zero → A f32[64] iota; 999.0 µs → 999.7 µs");
    assert!(!left_out.newly_wrong && !left_out.interrupted && left_out.candidate == State::Measured);
    b.cases[1].work.operations += 1;
    let settings = Settings::default();
    assert!(compare(from_ref(&a), from_ref(&b), &settings).cases.is_empty());
    let all = Settings { other_problems: true, ..settings };
    assert_eq!(compare(from_ref(&a), from_ref(&b), &all).cases.len(), 2, "who says so has them compared");
    // The description begins to state its work.
    a.cases[1].work.operations = 0;
    assert_eq!(compare(&[a], &[b], &settings).cases.len(), 1);
}

#[test]
fn the_case_of_a_users_kernel_is_the_same_by_another_element_type() {
    let typed = |mut record: Record, dtype| {
        for case in &mut record.cases {
            case.buffers = vec!["Y u32[64]".into(), "Z f32[64]".into()];
            case.id = case.id.replacen("f32", DType::name(dtype), 1);
            case.dtype = dtype;
        }
        record
    };
    let [a, b] = [("a", DType::F32), ("b", DType::Mixed)].map(|(name, dtype)| typed(steady(name, 1e6), dtype));
    let comparison = compared(&a, &b);
    let ids: Vec<_> = comparison.cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, b.cases.iter().map(|case| case.id.as_str()).collect::<Vec<_>>());
    assert!(comparison.unmatched.is_empty());
    // Built-in kernels have a case for each element type.
    let built_in = |mut record: Record| {
        record.cases.iter_mut().for_each(|case| case.buffers.clear());
        record
    };
    assert_eq!(compared(&built_in(a), &built_in(b)).cases.len(), 0);
}

#[test]
fn passes_of_one_module_are_held_against_the_same_pass() {
    let [mut a, mut b] = [steady("a", 1e6), steady("b", 1.2e6)];
    let dress = |record: &mut Record, hashes: [&str; 2]| {
        record.cases[0].kernels = hashes.map(|hash| kernel("reduction/reduction.comp#0", hash, vec![])).into();
    };
    dress(&mut a, ["1", "2"]);
    dress(&mut b, ["1", "2"]);
    let why = |a: &Record, b: &Record| compare(from_ref(a), from_ref(b), &Settings::default()).cases[0].why.clone();
    assert_eq!(why(&a, &b), [""; 0], "nothing changed");
    dress(&mut b, ["1", "3"]);
    assert_eq!(why(&a, &b), ["the code, grid or constants of reduction.comp changed"]);
    let file = |sha256: &str| KernelFile { path: "kernels/reduction.comp".into(), sha256: sha256.into(), text: None };
    for (hash, reason) in [
        ("2", "reduction.comp changed"),
        ("1", "reduction.comp is the same; its grid, constants, macros or included files changed"),
    ] {
        (a.kernel_files, b.kernel_files) = (vec![file("1")], vec![file(hash)]);
        assert_eq!(why(&a, &b), [reason]);
    }
    // Where the sides took turns, each record has the files of both.
    (a.kernel_files, b.kernel_files) = (vec![file("1"), file("2")], vec![file("1"), file("2")]);
    assert_eq!(why(&a, &b), ["the code, grid or constants of reduction.comp changed"]);
}

#[test]
fn a_device_that_only_some_records_of_a_side_have_is_no_difference() {
    let mut a = steady("a", 1e6);
    let mut host = a.devices[0].clone();
    (host.index, host.name, host.driver.info) = (1, "processor".into(), "2 threads".into());
    a.devices.push(host);
    let mut round = a.clone();
    round.devices.remove(0);
    let sides = |first: &Record| differences(from_ref(first), &[first.clone(), round.clone()]);
    assert_eq!(sides(&a), []);
    round.devices[0].driver.info = "4 threads".into();
    let names: Vec<_> = differences(from_ref(&a), &[a.clone(), round]).iter().map(|d| d.what).collect();
    assert_eq!(names, ["driver"]);
}

#[test]
fn devices_are_matched_by_name_and_by_order_where_no_name_is_shared() {
    let a = steady("a", 1e6);
    let mut b = steady("b", 1e6);
    b.devices[0].index = 4;
    b.cases.iter_mut().for_each(|case| case.device = 4);
    let mut another_device = b.devices[0].clone();
    (another_device.index, another_device.name) = (0, "another".into());
    b.devices.insert(0, another_device);
    assert_eq!(verdicts(from_ref(&a), from_ref(&b), &Settings::default()).len(), 2);
    b.devices.remove(0);
    b.devices[0].name = "another".into();
    assert_eq!(verdicts(&[a], &[b], &Settings::default()).len(), 2);
}

#[test]
fn changed_kernels_statistics_and_clocks_explain_a_verdict() {
    let [mut a, mut b] = [steady("a", 1e6), steady("b", 1.2e6)];
    let dress = |record: &mut Record, hash: &str, registers: f64, clock: f64, canary: Option<[Nanos; 2]>| {
        record.cases[0].kernels = vec![kernel("lu/naive.f32", hash, vec![Metric::new("registers", registers)])];
        let measured = measured_mut(&mut record.cases[0]);
        measured.conditions = Conditions { canary, clock_mhz: Some([clock; 2]), ..Conditions::default() };
    };
    let code = ["the code of lu/naive.f32 changed", "lu/naive.f32: registers 32 → 48"];
    for (canary, clock) in [(None, &["clock 1980 → 1755 MHz"][..]), (Some([Nanos(1e5); 2]), &[])] {
        dress(&mut a, "11", 32.0, 1980.0, canary);
        dress(&mut b, "22", 48.0, 1755.0, canary);
        let why = &compared(&a, &b).cases[0].why;
        assert_eq!(*why, [&code[..], clock].concat(), "a canary as fast as before contradicts the clock");
    }
}

#[test]
fn a_slower_canary_explains_a_verdict_unless_it_is_a_longer_one() {
    let why = |steps: [Option<u32>; 2]| {
        let side = |name, time, canary, canary_steps| {
            let mut record = record(name, &times(time, 0.005, 50, 1));
            let measured = measured_mut(&mut record.cases[0]);
            measured.conditions =
                Conditions { canary: Some([Nanos(canary); 2]), canary_steps, ..Conditions::default() };
            record
        };
        let [a, b] = [side("a", 1e6, 1e5, steps[0]), side("b", 1.2e6, 4e5, steps[1])];
        compared(&a, &b).cases[0].why.clone()
    };
    let slower = ["a fixed test kernel took 4 times as long in the candidate"];
    assert_eq!(why([None, None]), slower);
    assert_eq!(why([None, Some(2048)]), slower, "what has no length is of the first");
    assert_eq!(why([None, Some(8192)]), [""; 0]);
}

/// Returns the share of comparisons whose verdict satisfies `is_hit`, for `runs` processes per side with a relative
/// standard deviation `between`, a part `disturbed` of which takes 30 % longer.
fn rate(runs: usize, between: f64, disturbed: f64, effect: f64, is_hit: fn(Verdict) -> bool) -> f64 {
    const TRIALS: u64 = 300;
    let side = |name: &str, seed: u64, scale: f64| -> Vec<Record> {
        let centers = times(1.0, 3f64.sqrt() * between, runs, seed);
        let luck = times(1.0, 1.0, runs, seed + 1_000_000);
        let mut records = vec![];
        for (number, (center, luck)) in (0..).zip(centers.into_iter().zip(luck)) {
            let factor = if luck / 2.0 < disturbed { 1.3 } else { 1.0 };
            let times = times(1e6 * factor * center * scale, 0.01, 20, 100 * seed + number);
            let mut record = record(&format!("{name}{number}"), &times);
            record.cases.truncate(1);
            records.push(record);
        }
        records
    };
    let hits = (0..TRIALS).filter(|trial| {
        let [a, b] = [side("a", 2 * trial, 1.0), side("b", 2 * trial + 1, 1.0 + effect)];
        is_hit(verdicts(&a, &b, &Settings::default())[0])
    });
    hits.count() as f64 / TRIALS as f64
}

#[test]
fn nothing_changed_gives_a_false_verdict_at_most_once_in_a_hundred() {
    for (runs, between) in [(1, 0.005), (3, 0.03), (5, 0.03), (10, 0.05)] {
        let rate = rate(runs, between, 0.0, 0.0, is_change);
        assert!(rate <= 0.01, "{runs} processes a side that differ by {between}: {rate}");
    }
    for runs in [3, 5, 10] {
        let rate = rate(runs, 0.01, 0.1, 0.0, is_change);
        assert!(rate <= 0.01, "{runs} processes a side, a tenth of them disturbed: {rate}");
    }
}

#[test]
fn five_percent_is_found_in_ninety_five_of_a_hundred() {
    for (runs, between) in [(1, 0.004), (5, 0.01), (10, 0.02)] {
        let rate = rate(runs, between, 0.0, 0.05, |verdict| verdict == Verdict::Slower);
        assert!(rate >= 0.95, "{runs} processes a side that differ by {between}: {rate}");
    }
}

#[test]
fn a_case_that_is_looked_at_again_needs_more_each_time() {
    let total: f64 = (1..10_000).map(|look| 1.0 / look_penalty(look)).sum();
    assert!((0.999..1.0).contains(&total), "{total}");
    let [a, b] = [record("a", &times(1e6, 0.01, 50, 1)), record("b", &times(1.03e6, 0.01, 50, 2))];
    assert_penalty_of_a_look(&a, &b);
}

/// Asserts that growing data double the p-value of a case at the first look.
fn assert_penalty_of_a_look(a: &Record, b: &Record) {
    let [once, growing] = [false, true].map(|growing| {
        let settings = Settings { growing, ..Settings::default() };
        compare(from_ref(a), from_ref(b), &settings).cases[0].p.expect("a ratio")
    });
    assert!((growing / once - 2.0).abs() < 1e-9, "{once} {growing}");
}

#[test]
fn the_processes_of_one_record_are_processes_of_a_side_and_one_look() {
    let side = |started: &str, center: f64| {
        let mut whole = record(started, &times(center, 0.01, 30, 1));
        let cases = whole.cases.clone();
        for process in 1..3 {
            whole.cases.extend(cases.iter().cloned().map(|mut case| {
                set(&mut case, &times(center * (1.0 + 1e-3 * process as f64), 0.01, 30, process as u64 + 1));
                Case { process, ..case }
            }));
        }
        whole
    };
    let [a, b] = [side("a", 1e6), side("b", 1.2e6)];
    let comparison = compared(&a, &b);
    assert!(comparison.cases.iter().all(|case| (case.baseline.processes, case.candidate.processes) == (3, 3)));
    assert!(comparison.cases.iter().all(|case| case.verdict == Verdict::Slower && case.obstacle.is_none()));
    assert_penalty_of_a_look(&a, &b);
    // A record is the same as itself.
    let with_itself = compared(&a, &a);
    let same_samples = "same code, measured once for both sides";
    assert!(with_itself.cases.iter().all(|case| case.ratio == Some(1.0) && case.why[0] == same_samples));
}

#[test]
fn a_short_kernel_has_no_verdict_by_where_its_buffers_lie_unless_the_sides_alternate() {
    let side = |started: &[&str], center: f64| -> Vec<Record> {
        let times = |seed| times(center, 0.002, 50, seed);
        started.iter().zip(1..).map(|(started, seed)| record(started, &times(seed))).collect()
    };
    // Times of one kernel on an H200 before and after a larger one had run, in as many processes as one likes.
    for (before, after) in [(&["1"][..], &["2"][..]), (&["1", "2", "3", "4", "5"], &["6", "7", "8", "9"])] {
        let comparison = compare(&side(before, 2144.0), &side(after, 2350.0), &Settings::default());
        for case in &comparison.cases {
            assert_eq!(case.verdict, Verdict::Undecided);
            let reason = "between separate runs, ±0.2 µs is assumed";
            assert!(case.why.iter().any(|why| why.starts_with(reason)), "{:?}", case.why);
        }
    }
    let verdict =
        |baseline: &[Record], candidate: &[Record]| compare(baseline, candidate, &Settings::default()).cases[0].verdict;
    let [odd, even] = [["1", "3", "5"], ["2", "4", "6"]];
    assert_eq!(verdict(&side(&odd, 2144.0), &side(&even, 2350.0)), Verdict::Slower);
    assert_eq!(verdict(&side(&["1", "2", "3"], 2144.0), &side(&["4", "5", "6"], 2146.0)), Verdict::Same);
    let noisy = record("2", &times(2150.0, 0.05, 12, 3));
    let undecided = compared(&side(&["1"], 2144.0)[0], &noisy);
    assert_eq!(undecided.cases[0].verdict, Verdict::Undecided);
    assert!(undecided.cases[0].why.iter().all(|why| !why.contains("separate runs")), "{:?}", undecided.cases[0].why);
    // A change that no such latency explains, and a kernel that takes too long for it.
    assert_eq!(verdict(&side(&["1"], 2144.0), &side(&["2"], 3000.0)), Verdict::Slower);
    assert_eq!(verdict(&side(&["1"], 21440.0), &side(&["2"], 23500.0)), Verdict::Slower);
}

#[test]
fn sides_that_took_turns_are_compared_by_their_turns() {
    // Between processes the machine's speed varies by a factor of 4, and within each by 2.
    let side = |started: &str, scale: f64, seed: u64| {
        let mut whole = record(started, &times(1e6, 0.01, 100, 1));
        whole.cases.truncate(1);
        let first = whole.cases.remove(0);
        for process in 0..5 {
            let speed = 4f64.powf(process as f64 / 4.0);
            let mut noisy = times(scale * 1e6, 0.01, 100, seed + process as u64);
            for (index, time) in noisy.iter_mut().enumerate() {
                *time *= speed * if (index / 25) % 2 == 0 { 1.0 } else { 2.0 };
            }
            let mut case = Case { process, ..first.clone() };
            set(&mut case, &noisy);
            whole.cases.push(case);
        }
        whole
    };
    let settings = Settings { min_effect: 0.05, ..Settings::default() };
    let verdict = |started: &str, scale: f64| {
        let [a, b] = [side("a", 1.0, 10), side(started, scale, 20)];
        verdicts(&[a], &[b], &settings)[0]
    };
    assert_eq!(verdict("a", 1.0), Verdict::Same);
    assert_eq!(verdict("a", 1.1), Verdict::Slower);
    assert_eq!(verdict("a", 0.9), Verdict::Faster);
    assert_eq!(verdict("another run", 1.1), Verdict::Undecided);
}

#[test]
fn only_cases_that_the_candidate_can_decide_want_more() {
    let wants = |baseline: usize, candidate: usize| {
        let [a, b] = [record("a", &times(1e6, 0.3, baseline, 1)), record("b", &times(1e6, 0.3, candidate, 2))];
        compared(&a, &b).cases[0].wants_more()
    };
    assert!(wants(12, 12) && wants(12, 3) && !wants(5, 12));
}

#[test]
fn no_more_of_the_candidate_is_measured_where_the_baseline_saw_a_slower_device_or_too_little() {
    use DeviceKind::{Cpu, DiscreteGpu};
    let wants = |kind, count, canary, others| {
        let conditions = [seen(600.0, Some(0.2)), seen(600.0 * canary, Some(others))];
        let case = disturbed(kind, count, canary, conditions, &Settings::default());
        assert_eq!(case.verdict, Verdict::Undecided, "{kind:?} {count} {canary} {others}");
        case.wants_more()
    };
    assert!(wants(Cpu, 3, 1.5, 0.2) && wants(Cpu, 3, 1.0, 0.5) && wants(DiscreteGpu, 1, 1.05, 0.2));
    assert!(!wants(Cpu, 3, 0.7, 0.2) && !wants(Cpu, 3, 1.0, 0.0) && !wants(DiscreteGpu, 1, 0.95, 0.2));
    assert!(!wants(Cpu, 5, 1.5, 0.2) && !wants(DiscreteGpu, 5, 1.05, 0.2), "it is no moment");
    assert!(!wants(Cpu, 1, 1.5, 0.2) && !wants(Cpu, 1, 1.0, 0.5), "too few processes");
}

/// Returns a side of `count` processes on a device of this kind, each under these conditions.
fn side(kind: DeviceKind, name: &str, center: f64, count: usize, conditions: Conditions) -> Vec<Record> {
    let process = |i: usize| {
        let seed = name.bytes().fold(i as u64, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
        let mut record = record(&format!("{name}{i}"), &times(center, 0.005, 50, seed));
        record.devices[0].kind = kind;
        for case in &mut record.cases {
            let measured = measured_mut(case);
            measured.conditions = conditions;
        }
        record
    };
    (0..count).map(process).collect()
}

/// Compares a case on sides of `count` processes under these conditions; the candidate takes `change` times as long.
fn disturbed(
    kind: DeviceKind,
    count: usize,
    change: f64,
    [before, after]: [Conditions; 2],
    settings: &Settings,
) -> Compared {
    let [a, b] = [side(kind, "a", 1e6, count, before), side(kind, "b", change * 1e6, count, after)];
    compare(&a, &b, settings).cases.remove(0)
}

/// Returns conditions with these times of the canary in microseconds, and these shares of the CPU for other programs.
fn seen(canary: f64, others: Option<f64>) -> Conditions {
    Conditions { canary: Some([Nanos(canary * 1e3); 2]), others, ..Default::default() }
}

#[test]
fn what_another_program_did_to_a_side_on_the_host_is_no_verdict_however_many_processes_saw_it() {
    let result_of = |change: f64, count: usize, conditions| {
        let sides = [seen(600.0, Some(0.02)), conditions];
        disturbed(DeviceKind::Cpu, count, change, sides, &Settings::default())
    };
    for (count, obstacle) in [
        (1, Obstacle::FewProcesses { baseline: true }),
        (3, Obstacle::AnotherSpeed { baseline: false }),
        (5, Obstacle::AnotherSpeed { baseline: false }),
    ] {
        let slower =
            ["a fixed test kernel took 1.667 times as long in the candidate", "candidate's device 1.7× slower"];
        let busier = "the candidate ran while other programs used 48 percentage points more CPU";
        for (loaded, [sentence, short]) in [
            (seen(1000.0, Some(0.02)), slower),
            (seen(1000.0, None), slower),
            (seen(600.0, Some(0.5)), [busier, "CPU load +48 points"]),
        ] {
            let case = result_of(1.9, count, loaded);
            assert_eq!((case.verdict, case.obstacle), (Verdict::Undecided, Some(obstacle)), "{count} {loaded:?}");
            // The reason appears once.
            let is_in_why = case.why.first().is_some_and(|reason| reason.starts_with(sentence));
            assert_eq!((is_in_why, case.test == short), (count == 1, count > 1), "{case:?}");
        }
    }
    assert_eq!(result_of(1.05, 3, seen(603.0, Some(0.04))).verdict, Verdict::Slower, "as quiet as the other side");
    // A stated noise between processes is trusted, but not against the canary.
    let sure = Settings { noise: Some(0.01), ..Settings::default() };
    let verdict_of = |conditions| disturbed(DeviceKind::Cpu, 1, 1.9, [seen(600.0, None), conditions], &sure).verdict;
    assert_eq!([seen(600.0, None), seen(1000.0, None)].map(verdict_of), [Verdict::Slower, Verdict::Undecided]);
}

#[test]
fn a_change_that_no_disturbance_explains_is_one() {
    let settings = Settings { min_effect: 0.1, ..Settings::default() };
    let moved = std::cell::Cell::new(1 << 16);
    let verdict_of = |change: f64, count: usize, [before, after]: [Conditions; 2]| {
        let [mut a, mut b] = [("a", 1e6, before), ("b", change * 1e6, after)]
            .map(|(name, center, conditions)| side(DeviceKind::Cpu, name, center, count, conditions));
        for case in a.iter_mut().chain(&mut b).flat_map(|record| &mut record.cases) {
            case.work.bytes = Bytes(moved.get());
        }
        compare(&a, &b, &settings).cases.remove(0).verdict
    };
    let quiet = seen(600.0, Some(0.1));
    let disturbed = [seen(640.0, Some(0.1)), seen(600.0, Some(0.25)), seen(600.0, Some(0.6)), seen(640.0, None)];
    for other in disturbed {
        for sides in [[quiet, other], [other, quiet]] {
            assert_eq!(verdict_of(10.0, 5, sides), Verdict::Slower, "{sides:?}");
            assert_eq!(verdict_of(0.1, 5, sides), Verdict::Faster, "{sides:?}");
            assert_eq!(verdict_of(1.0, 5, sides), Verdict::Undecided, "{sides:?}");
        }
    }
    assert_eq!(verdict_of(4.0, 5, [quiet, seen(600.0, Some(0.6))]), Verdict::Undecided, "the load may explain it");
    // The CPU time shows how much of the time is the kernel's own.
    let verdict_by_cpu_time = |change: f64, kernel: f64, count: usize, [before, after]: [Conditions; 2]| {
        let [before, after] = [(before, 1e6), (after, kernel * 1e6)]
            .map(|(conditions, time)| Conditions { cpu_time: Some(Nanos(time)), ..conditions });
        verdict_of(change, count, [before, after])
    };
    let loaded = seen(600.0, Some(0.8));
    for (change, sides) in [(6.0, [quiet, loaded]), (0.8, [loaded, quiet])] {
        let is_loaded_last = change > 1.0;
        // Threads that really run at once contend for cache lines: where it is quiet, they take more CPU time.
        let [slower, faster] = if is_loaded_last { [2.0, 1.0 / 6.0] } else { [6.0, 0.5] };
        assert_eq!(verdict_by_cpu_time(change, slower, 5, sides), Verdict::Slower);
        assert_eq!(verdict_by_cpu_time(change, 1.25, 5, sides), Verdict::Undecided);
        assert_eq!(verdict_by_cpu_time(change, faster, 5, sides), Verdict::Faster);
        let contended = if is_loaded_last { 1.0 / 2.1 } else { 2.1 };
        assert_eq!(verdict_by_cpu_time(change, contended, 5, sides), Verdict::Undecided);
    }
    // Other programs may leave a memory-bound kernel a fraction of the bandwidth.
    moved.set(1 << 26);
    assert_eq!(verdict_by_cpu_time(6.0, 2.3, 5, [quiet, loaded]), Verdict::Undecided);
    assert_eq!(verdict_by_cpu_time(12.0, 10.0, 5, [quiet, loaded]), Verdict::Slower);
    moved.set(1 << 16);
    // The CPU time also distinguishes a change from a busy moment of one process.
    assert_eq!(verdict_by_cpu_time(10.0, 10.0, 1, [quiet; 2]), Verdict::Slower);
    assert_eq!(verdict_by_cpu_time(10.0, 1.0, 1, [quiet; 2]), Verdict::Undecided);
    // One process may have memory at worse addresses, at whatever speed of the processors.
    for sides in [[quiet; 2], [quiet, seen(660.0, Some(0.0))]] {
        assert_eq!(verdict_by_cpu_time(1.9, 1.9, 1, sides), Verdict::Undecided);
        assert_eq!(verdict_by_cpu_time(1.9, 1.9, 5, sides), Verdict::Slower);
    }
}

#[test]
fn times_of_other_numbers_of_threads_are_not_compared_by_what_the_threads_take() {
    let verdict_with_threads = |threads: &str| {
        let timed = |time: f64, others| Conditions { cpu_time: Some(Nanos(time)), ..seen(600.0, Some(others)) };
        let mut a = side(DeviceKind::Cpu, "a", 1e6, 5, timed(1e6, 0.1));
        let mut b = side(DeviceKind::Cpu, "b", 1e6, 5, timed(2.3e6, 0.6));
        for (records, threads) in [(&mut a, "1"), (&mut b, threads)] {
            for record in records {
                record.cases.iter_mut().for_each(|case| case.work.bytes = Bytes(1 << 16));
                record.origin.environment = [("LP_NUM_THREADS".into(), threads.into())].into();
            }
        }
        compare(&a, &b, &Settings::default()).cases.remove(0).verdict
    };
    assert_eq!([verdict_with_threads("1"), verdict_with_threads("2")], [Verdict::Slower, Verdict::Undecided]);
}

#[test]
fn another_board_of_one_model_is_no_change_of_the_code() {
    let boards = |name: &str, center: f64, uuids: &[&str]| -> Vec<Record> {
        let mut records = side(DeviceKind::DiscreteGpu, name, center, uuids.len(), seen(75.0, None));
        for (record, uuid) in records.iter_mut().zip(uuids) {
            record.devices[0].uuid = (*uuid).into();
        }
        records
    };
    let result_between = |before: &[&str], after: &[&str], settings: &Settings| {
        let case = compare(&boards("a", 1e6, before), &boards("b", 1.08e6, after), settings).cases.remove(0);
        (case.verdict, case.obstacle, case.test)
    };
    let usual = Settings::default();
    assert_eq!(result_between(&["1"; 3], &["1"; 3], &usual).0, Verdict::Slower);
    let different_boards = (Verdict::Undecided, Some(Obstacle::AnotherBoard), "different boards".to_string());
    assert_eq!(result_between(&["1"; 3], &["2"; 3], &usual), different_boards);
    assert_eq!(result_between(&["1"], &["2"], &usual), different_boards);
    // A larger change than boards differ by is a change.
    let far = compare(&boards("a", 1e6, &["1"]), &boards("b", 1.4e6, &["2"]), &usual);
    assert_eq!(far.cases[0].verdict, Verdict::Slower);
    // Two drivers of the board in one slot, and models that are not on one machine.
    let placed = |name: &str, center: f64, uuid: &str, place: &str| {
        let mut records = boards(name, center, &[uuid]);
        records[0].devices[0].pci_address = Some(place.into());
        records[0].devices[0].name = format!("GPU of {name}");
        records[0].origin.host = Some("a machine".into());
        records
    };
    for (place, verdict) in [("0000:03:00.0", Verdict::Slower), ("0000:04:00.0", Verdict::Undecided)] {
        let [a, b] = [placed("a", 1e6, "1", "0000:03:00.0"), placed("b", 1.08e6, "2", place)];
        let case = compare(&a, &b, &usual).cases.remove(0);
        assert_eq!(
            (case.verdict, case.obstacle),
            (verdict, (verdict == Verdict::Undecided).then_some(Obstacle::AnotherBoard))
        );
    }
    // An unknown board, several boards per side, and a stated noise.
    assert_eq!(result_between(&["1"; 3], &[""; 3], &usual).0, Verdict::Slower);
    assert_eq!(result_between(&["1", "2", "3"], &["4", "5", "6"], &usual).0, Verdict::Slower);
    assert_eq!(result_between(&["1"], &["2"], &Settings { noise: Some(0.01), ..usual }).0, Verdict::Slower);
    let [a, b] = [boards("a", 1e6, &["1"]), boards("b", 1.08e6, &["2"])];
    let (remarks, commands) = advice([&a, &b], ["a.json", "b.json"]);
    let remedy = "2 cases: the sides ran on different boards, and boards of one model may differ by 10 %. Measure both on one of them";
    assert!(remarks[0].starts_with(remedy) && commands.is_none(), "{remarks:?}");
}

#[test]
fn on_a_gpu_a_change_has_to_exceed_what_the_canary_changed_by() {
    for count in [1, 3] {
        let verdict_of = |change: f64, canary: f64| {
            let sides = [seen(75.0, None), seen(75.0 * canary, None)];
            disturbed(DeviceKind::DiscreteGpu, count, change, sides, &Settings::default()).verdict
        };
        assert_eq!(verdict_of(1.05, 1.0), Verdict::Slower);
        assert_eq!(verdict_of(1.05, 1.05), Verdict::Undecided, "the clock explains it");
        assert_eq!(verdict_of(1.05, 1.04), Verdict::Undecided, "what is left does not matter");
        assert_eq!(verdict_of(1.12, 1.05), Verdict::Slower, "it does not explain as much");
        assert_eq!(verdict_of(1.05, 0.95), Verdict::Slower, "a faster clock makes it worse");
        assert_eq!(verdict_of(0.95, 0.95), Verdict::Undecided);
        assert_eq!(verdict_of(1.0, 1.05), Verdict::Undecided, "the clock may hide a change");
    }
}

/// Share of false verdicts with loaded sides: the load lengthens times and canary.
#[test]
fn no_pair_of_quiet_and_loaded_sides_on_the_host_gives_a_false_verdict() {
    let load = |name: &'static str, trial: u64, loaded: bool, count: usize| -> Vec<Record> {
        let luck = times(1.0, 1.0, 2 * count, 77 * trial + u64::from(name.as_bytes()[0]));
        let process = |i: usize| {
            let taken = if loaded { 0.2 + 0.2 * luck[i] } else { 0.02 };
            // A program of two threads on two processors loses about the share that others take.
            let [slow, canary] = [1.0 / (1.0 - taken), 1.0 + taken * luck[count + i]];
            let name = format!("{name}{trial}-{i}-");
            side(DeviceKind::Cpu, &name, 1e6 * slow, 1, seen(600.0 * canary, Some(taken))).remove(0)
        };
        (0..count).map(process).collect()
    };
    for (before, after) in [(false, false), (false, true), (true, false), (true, true)] {
        for count in [1, 3] {
            let trial = |trial| {
                let [a, b] = [load("a", trial, before, count), load("b", trial, after, count)];
                verdicts(&a, &b, &Settings::default())[0]
            };
            let false_verdicts = (0..200).map(trial).filter(|verdict| is_change(*verdict)).count();
            assert!(false_verdicts <= 2, "{before} {after}, {count} a side: {false_verdicts} of 200");
        }
    }
}

fn lu(sizes: &[&str]) -> Request {
    let size = sizes.iter().map(ToString::to_string).collect();
    let selection = Selection { algorithm: vec!["lu".into()], size, ..Selection::default() };
    Request { selection, ..Request::default() }
}

fn kernels(files: &[&str]) -> Request {
    let kernel = files.iter().map(PathBuf::from).collect();
    Request { kernels: Some(KernelFiles { kernel, ..KernelFiles::default() }), ..Request::default() }
}

/// Returns a record of this request that can be completed.
fn completable(started: &str, center: f64, request: Request) -> Record {
    let mut record = record(started, &times(center, 0.01, 50, started.len() as u64));
    record.request = Some(request);
    record.plan = Some("1".into());
    record.devices[0].kind = DeviceKind::Cpu;
    record.wall_time = Nanos(40e9);
    record
}

/// Returns sides of one process each, of which the candidate takes 5 % longer, with a request for LU at these sizes.
fn lu_sides(sizes: &[&str]) -> [Record; 2] {
    [("a", 1e6), ("bb", 1.05e6)].map(|(started, center)| completable(started, center, lu(sizes)))
}

/// Returns the commands that would decide the comparison of two records at these paths.
fn decided(a: &Record, b: &Record, paths: [&str; 2]) -> String {
    advice([from_ref(a), from_ref(b)], paths).1.expect("a recipe")
}

/// Returns the remarks on the comparison of two records at these paths, and the commands that would decide it.
fn advice(sides: [&[Record]; 2], paths: [&str; 2]) -> (Vec<String>, Option<String>) {
    let settings = Settings::default();
    let comparison = compare(sides[0], sides[1], &settings);
    let paths = paths.map(|path| [Path::new(path)]);
    let sides_with_files = [0, 1].map(|side| SideFiles { records: sides[side], paths: &paths[side] });
    recipe(&comparison, sides_with_files, &settings, &again())
}

/// Returns a command that compares again, with the replaced files.
fn again() -> ComparisonCommand<'static> {
    let command = &|_, replaced: [Option<String>; 2]| {
        let [before, after] = replaced.map(|path| path.unwrap_or_else(|| "as-it-was".into()));
        format!("gpukern compare {before} {after}")
    };
    ComparisonCommand { program: "gpukern", completes: false, anew: None, command }
}

#[test]
fn a_recipe_has_the_paths_the_driver_and_the_comparison() {
    let [mut a, mut b] = lu_sides(&["64"]);
    let variable = |name: &str, value: &str| (name.to_string(), value.to_string());
    a.origin.environment = [
        variable("VK_DRIVER_FILES", "my old.json"),
        variable("LD_PRELOAD", "evil.so"),
        variable("GPUKERN_DEVICE", "0"),
    ]
    .into();
    b.origin.environment = [variable("VK_DRIVER_FILES", "new.json")].into();
    b.devices[0].driver.info = "590.1".into();
    let text = decided(&a, &b, ["runs/old.json", "new.json"]);
    insta::assert_snapshot!(text, @"
    # about 5 min
    for n in $(seq 2 5); do
      VK_DRIVER_FILES='my old.json' gpukern bench lu --size=64 -q --processes $n --resume runs/old.json > /dev/null
      VK_DRIVER_FILES=new.json gpukern bench lu --size=64 -q --processes $n --resume new.json > /dev/null
    done
    gpukern compare as-it-was as-it-was
    ");
    // The same command for both sides: the driver was installed in between. A label chooses nothing.
    a.origin.environment.clone_from(&b.origin.environment);
    a.request = Some(Request { label: Some("old".into()), processes: Some(3), ..lu(&["64"]) });
    let text = decided(&a, &b, ["old.json", "new.json"]);
    insta::assert_snapshot!(text, @"
    # about 5 min
    # on the baseline's machine, with its driver, build and kernels:
    VK_DRIVER_FILES=new.json gpukern bench lu --size=64 --label=old --processes 5 --resume old.json
    # on the candidate's machine, with its driver, build and kernels:
    VK_DRIVER_FILES=new.json gpukern bench lu --size=64 --processes 5 --resume new.json
    gpukern compare as-it-was as-it-was
    ");
    // Equal commands alternate, and a record that cannot be completed is measured again.
    a.request.clone_from(&b.request);
    b.devices[0].driver = a.devices[0].driver.clone();
    let text = decided(&a, &b, ["old.json", "new.json"]);
    insta::assert_snapshot!(text, @"
    # about 5 min
    for n in $(seq 2 5); do
      VK_DRIVER_FILES=new.json gpukern bench lu --size=64 -q --processes $n --resume old.json > /dev/null
      VK_DRIVER_FILES=new.json gpukern bench lu --size=64 -q --processes $n --resume new.json > /dev/null
    done
    gpukern compare as-it-was as-it-was
    ");
    b.plan = None;
    b.wall_time = Nanos(300e9);
    let text = decided(&a, &b, ["-", "new.json"]);
    insta::assert_snapshot!(text, @"
    # about 28 min
    VK_DRIVER_FILES=new.json gpukern bench lu --size=64 --processes 5 --json baseline.json
    VK_DRIVER_FILES=new.json gpukern bench lu --size=64 --processes 5 --json new-again.json
    gpukern compare baseline.json new-again.json
    ");
}

#[test]
fn a_recipe_measures_few_open_cases_alone_and_counts_their_own_processes() {
    let sides = [("a", 1e6), ("bb", 1.05e6)].map(|(started, center)| {
        let mut record = completable(started, center, lu(&["64", "96", "128"]));
        let case_of = |id: &str, center: f64| {
            let case = self::record(started, &times(center, 0.01, 50, 7)).cases.remove(0);
            Case { id: if id.is_empty() { case.id.clone() } else { id.into() }, ..case }
        };
        // The first case differs between processes, the others are always the same.
        let others = ["lu/blocked/f32/64", "lu/blocked/f32/96", "lu/blocked/f32/128"];
        let process = |at: usize| {
            let first = case_of("", center * [1.0, 1.03, 0.98][at]);
            let cases = std::iter::once(first).chain(others.iter().map(|id| case_of(id, 1e6)));
            cases.map(|case| Case { process: at, ..case }).collect::<Vec<_>>()
        };
        record.cases = (0..3).flat_map(process).collect();
        let process = record.processes().remove(0);
        record.processes = (0..3).map(|at| Process { order: Some(at), ..process.clone() }).collect();
        record
    });
    let open = sides[0].cases[0].id.clone();
    let comparison = compare(from_ref(&sides[0]), from_ref(&sides[1]), &Settings::default());
    let undecided: Vec<_> = comparison.cases.iter().filter(|case| case.verdict == Verdict::Undecided).collect();
    assert!(undecided.len() == 1 && undecided[0].id == open, "the records show what the test needs: {undecided:?}");
    let text = |sides: &[Record; 2]| decided(&sides[0], &sides[1], ["a.json", "b.json"]);
    let restricted = text(&sides);
    insta::assert_snapshot!(restricted, @"
    # about 5 min
    for n in $(seq 4 15); do
      gpukern bench lu --size=64 --size=96 --size=128 --only=lu/naive/f32/1024x1024 -q --processes $n --resume a.json > /dev/null
      gpukern bench lu --size=64 --size=96 --size=128 --only=lu/naive/f32/1024x1024 -q --processes $n --resume b.json > /dev/null
    done
    gpukern compare as-it-was as-it-was
    ");
    // A further process that measured only another case changes nothing.
    let mut uneven = sides.clone();
    for record in &mut uneven {
        let extra = Case { process: 3, ..record.cases[1].clone() };
        record.cases.push(extra);
        record.processes.push(Process { order: Some(3), ..record.processes[0].clone() });
    }
    assert_eq!(text(&uneven).lines().nth(1), restricted.lines().nth(1));
}

#[test]
fn a_recipe_that_would_measure_nothing_is_none() {
    let [a, b] = lu_sides(&[]).map(|record| Record { request: None, ..record });
    let (remarks, commands) = advice([&[a], &[b]], ["a.json", "b.json"]);
    assert_eq!((remarks.len(), commands), (2, None), "{remarks:?}");
    let asks_for_processes =
        |remark: &String| remark.ends_with("does not say which command made it: measure it again with --processes 5.");
    assert!(remarks.iter().all(asks_for_processes), "{remarks:?}");
    // With several processes, only those of the last command count.
    let mut whole = completable("a", 1e6, lu(&[]));
    let process = |line: &str| Process { command: vec![line.into()], ..whole.processes().remove(0) };
    whole.processes = ["first", "again", "again"].map(process).into();
    whole.command = vec!["again".into()];
    whole.processes[0].command = vec!["gpukern".into()];
    assert_eq!(recipe::time_of_process(&whole, &[]), Nanos(20e9));
    // If a command measured nothing, the cases' times count.
    let measured = measured_mut(&mut whole.cases[0]);
    measured.phases.sampling = Nanos(33e9);
    let others: Nanos = whole.cases.iter().filter_map(recipe::time_of).sum();
    for command in ["again", "a resume that found nothing to do"] {
        (whole.wall_time, whole.command) = (Nanos(41e6), vec![command.into()]);
        let time = recipe::time_of_process(&whole, &[]);
        assert!(others.0 > 33e9 && (time.0 - others.0 / 3.0).abs() < 1.0, "{command}: {time}");
    }
}

#[test]
fn a_recipe_says_that_the_kernels_of_each_side_have_to_be_in_place() {
    let [mut a, mut b] = [("a", "0", false), ("bb", "1", true)].map(|(started, hash, no_peak)| {
        let request = Request { no_peak, ..kernels(&["k.toml", "k.comp"]) };
        let mut record = completable(started, 1e6 + started.len() as f64 * 5e4, request);
        record.cases.iter_mut().for_each(|case| case.kernels = vec![kernel("k/k.comp#0", hash, vec![])]);
        record
    });
    let recipe_of = |a: &Record, b: &Record| decided(a, b, ["base.json", "new.json"]);
    insta::assert_snapshot!(recipe_of(&a, &b), @"
    # about 5 min
    # on the baseline's machine, with its driver, build and kernels:
    gpukern run k.toml k.comp --processes 5 --resume base.json
    # on the candidate's machine, with its driver, build and kernels:
    gpukern run k.toml k.comp --no-peak --processes 5 --resume new.json
    gpukern compare as-it-was as-it-was
    ");
    // Another file is part of the command.
    let request = b.request.replace(kernels(&["k.toml", "other/k.comp"]));
    let other_file = recipe_of(&a, &b);
    b.request = request;
    for (case, other) in a.cases.iter_mut().zip(&b.cases) {
        case.kernels.clone_from(&other.kernels);
    }
    insta::assert_snapshot!(other_file + "\n\n" + &recipe_of(&a, &b), @"
    # about 5 min
    for n in $(seq 2 5); do
      gpukern run k.toml k.comp -q --processes $n --resume base.json > /dev/null
      gpukern run k.toml other/k.comp -q --processes $n --resume new.json > /dev/null
    done
    gpukern compare as-it-was as-it-was

    # about 5 min
    for n in $(seq 2 5); do
      gpukern run k.toml k.comp -q --processes $n --resume base.json > /dev/null
      gpukern run k.toml k.comp --no-peak -q --processes $n --resume new.json > /dev/null
    done
    gpukern compare as-it-was as-it-was
    ");
}

#[test]
fn a_recipe_says_on_which_machine_each_side_is_measured() {
    let [mut a, mut b] = lu_sides(&[]);
    b.devices[0].name = "NVIDIA H100".into();
    let elsewhere = decided(&a, &b, ["old.json", "new.json"]);
    // Two devices of one machine are part of the commands.
    a.origin.host = Some("here".into());
    b.origin.host = Some("here".into());
    let here = decided(&a, &b, ["old.json", "new.json"]);
    insta::assert_snapshot!(elsewhere + "\n\n" + &here, @"
    # about 5 min
    # on the baseline's machine, with its driver, build and kernels:
    gpukern bench lu --processes 5 --resume old.json
    # on the candidate's machine, with its driver, build and kernels:
    gpukern bench lu --processes 5 --resume new.json
    gpukern compare as-it-was as-it-was

    # about 5 min
    for n in $(seq 2 5); do
      gpukern bench lu -q --processes $n --resume old.json > /dev/null
      gpukern bench lu -q --processes $n --resume new.json > /dev/null
    done
    gpukern compare as-it-was as-it-was
    ");
}

/// Returns five processes of this request on a CPU device, under these conditions and with this driver.
fn five(name: &str, request: &Request, driver: &str, conditions: Conditions) -> Vec<Record> {
    let mut records = side(DeviceKind::Cpu, name, 1e6, 5, conditions);
    for record in &mut records {
        record.request = Some(request.clone());
        record.plan = Some("1".into());
        record.origin.environment = [("VK_DRIVER_FILES".to_string(), driver.to_string())].into();
    }
    records
}

#[test]
fn where_a_driver_may_slow_down_the_canary_too_no_more_processes_are_asked_for_but_turns() {
    let request = lu(&["64"]);
    let advice_for = |new: &str, canary: f64| {
        let a = five("a", &request, "old.json", seen(600.0, None));
        let b = five("b", &request, new, seen(600.0 * canary, None));
        advice([&a, &b], ["a.json", "b.json"])
    };
    for (factor, took, effect) in [
        (1.8, "1.8 times as long beside the candidate", "slows down"),
        (1.25, "25 % longer beside the candidate", "slows down"),
        (0.5, "2 times as long beside the baseline", "speeds up"),
    ] {
        let (remarks, commands) = advice_for("new.json", factor);
        let canary = format!(
            "2 cases: the canary, a fixed test kernel, took {took}. Either the device was busy or clocked lower then, or \
             the candidate {effect} every kernel; more processes cannot tell which."
        );
        assert!(remarks[0] == canary && remarks[1].starts_with("Two drivers can be told apart by"), "{remarks:?}");
        assert_eq!((remarks.len(), commands), (2, None));
    }
    // A driver cannot slow its own canary down: the device was busy.
    let (remarks, commands) = advice_for("old.json", 1.8);
    assert!(remarks[0].starts_with("Measure the candidate again: the device was slower"), "{remarks:?}");
    insta::assert_snapshot!(commands.expect("commands"), @"
    # about 7 s
    VK_DRIVER_FILES=old.json gpukern bench lu --size=64 --processes 5 --json b-again.json
    gpukern compare as-it-was b-again.json
    ");
}

#[test]
fn a_side_that_other_programs_slowed_down_is_measured_anew() {
    let request = lu(&[]);
    let advice_for = |before: f64, after: f64, paths: [&[&Path]; 2]| {
        let a = five("a", &request, "a.json", seen(600.0, Some(before)));
        let b = five("b", &request, "a.json", seen(600.0, Some(after)));
        let settings = Settings::default();
        // All five records are in one file.
        let sides_with_files = [(&a, paths[0]), (&b, paths[1])].map(|(records, paths)| SideFiles { records, paths });
        recipe(&compare(&a, &b, &settings), sides_with_files, &settings, &again())
    };
    let [a, b] = ["a.json", "b.json"].map(Path::new);
    for (before, after, [name, other], fresh) in [
        (0.0, 0.5, ["candidate", "baseline"], ["as-it-was", "b-again.json"]),
        (0.5, 0.0, ["baseline", "candidate"], ["a-again.json", "as-it-was"]),
    ] {
        let (remarks, commands) = advice_for(before, after, [&[a], &[b]]);
        let expected =
            format!("Measure the {name} again: the device was slower or busier than for the {other} (2 of 2 cases).");
        assert_eq!(remarks, [expected]);
        let commands = commands.expect("commands");
        let file = fresh.iter().find(|file| file.contains("again")).expect("a new file");
        assert!(commands.contains(&format!("=a.json gpukern bench lu --processes 5 --json {file}\n")), "{commands}");
        assert!(commands.ends_with(&format!("\ngpukern compare {}", fresh.join(" "))), "{commands}");
        assert_eq!(commands.matches("gpukern bench").count(), 1, "{commands}");
    }
    // With several files, it is unclear which one to replace.
    let (remarks, commands) = advice_for(0.5, 0.0, [&[a, Path::new("c.json")], &[b]]);
    assert_eq!((remarks.len(), commands), (1, None), "{remarks:?}");
    // Beside both sides alike, other programs are no reason to measure one again, but one to doubt.
    let [a, b] = [("a", "a.json", 600.0), ("b", "b.json", 1080.0)]
        .map(|(name, driver, canary)| five(name, &request, driver, seen(canary, Some(0.5))));
    let (remarks, _) = advice([&a, &b], ["a.json", "b.json"]);
    assert_eq!(remarks[0], "While undecided cases were measured, other programs used 50 % of the CPU.");
    assert!(remarks[1].starts_with("2 cases: the canary"), "{remarks:?}");
}

#[test]
fn further_rounds_need_a_new_baseline_where_the_device_was_slower_beside_it() {
    let a = five("a", &lu(&[]), "a.json", seen(900.0, None));
    let b = five("b", &lu(&[]), "a.json", seen(600.0, None));
    let [a, b] = [&a[..3], &b[..3]];
    let settings = Settings { growing: true, ..Settings::default() };
    let old = [Path::new("old.json")];
    let sides_with_files = [SideFiles { records: a, paths: &old }, SideFiles { records: b, paths: &[] }];
    let (remarks, commands) = recipe(&compare(a, b, &settings), sides_with_files, &settings, &again());
    assert!(
        remarks.len() == 1 && remarks[0].starts_with("Measure the baseline again: the device was slower"),
        "{remarks:?}"
    );
    let commands = commands.expect("commands");
    assert!(
        commands.contains("--processes 5 --json old-again.json\ngpukern compare old-again.json as-it-was"),
        "{commands}"
    );
}

#[test]
fn a_recipe_that_was_followed_asks_for_more_or_says_that_more_will_not_do() {
    let side = |name: &str, spread: f64, center: f64| -> Vec<Record> {
        let process = |i: usize| {
            let factor = [1.0, 1.0 + spread, 1.0 - spread, 1.0 + spread / 2.0, 1.0 - spread / 2.0][i];
            completable(&format!("{name}{}", "-".repeat(i)), center * factor, lu(&[]))
        };
        (0..5).map(process).collect()
    };
    let compared_at = |spread: f64, center: f64| {
        let [a, b] = [side("a", spread, 1e6), side("b", spread, center)];
        (compare(&a, &b, &Settings::default()), advice([&a, &b], ["a.json", "b.json"]).1)
    };
    let (comparison, text) = compared_at(0.03, 1.0);
    assert_eq!(comparison.cases[0].verdict, Verdict::Faster);
    assert_eq!(text, None, "all is decided");
    let (comparison, text) = compared_at(0.03, 1.05e6);
    let text = text.unwrap_or_else(|| panic!("{:?}", comparison.cases));
    let asked: usize = text.split("seq 2 ").nth(1).and_then(|rest| rest.split(')').next()?.parse().ok()).expect("some");
    assert!(asked > 1, "more than the five that there are: {text}");
    let (comparison, text) = compared_at(0.3, 1e6);
    assert!(comparison.cases[0].test.starts_with("interval wider than ±2 %"), "{:?}", comparison.cases[0].test);
    assert_eq!(text, None, "more will not do");
    let [a, b] = [side("a", 0.3, 1e6), side("b", 0.3, 1e6)];
    let (remarks, _) = advice([&a, &b], ["a.json", "b.json"]);
    let expected = " and 1 more) would take more than 50 processes per side; `gpukern ab`";
    assert!(
        remarks.len() == 1 && remarks[0].starts_with("Deciding 2 cases (lu/") && remarks[0].contains(expected),
        "{remarks:?}"
    );
}

#[test]
fn a_baseline_is_completed_by_this_program_with_options_that_stay_options() {
    let command_of = |request: Request| {
        recipe::completed("bin/gpukern", &completable("a", 1e6, request), Path::new("a b.json"), 5).expect("a command")
    };
    let noisy = Request { noise: Some(8), ..lu(&["64"]) };
    assert_eq!(command_of(noisy), "bin/gpukern bench lu --size=64 --processes 5 --resume 'a b.json'");
    assert_eq!(command_of(kernels(&["-k.comp"])), "bin/gpukern run ./-k.comp --processes 5 --resume 'a b.json'");
}

#[test]
fn a_command_names_its_files_as_they_are_found_from_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    std::fs::create_dir(&runs).expect("a folder");
    for file in ["all.toml", "runs/own.toml"] {
        std::fs::write(folder.path().join(file), "").expect("written");
    }
    let request = Request {
        config: Some("all.toml".into()),
        tuned: Some("gone.toml".into()),
        ..kernels(&["own.toml", "gone.comp"])
    };
    let record = completable("a", 1e6, request);
    let command = recipe::completed("gpukern", &record, &runs.join("a.json"), 5).expect("a command");
    let path_of = |name: &str| folder.path().join(name).display().to_string();
    let [own, all] = [path_of("runs/own.toml"), path_of("all.toml")];
    let expected = format!("gpukern run {own} gone.comp --config={all} --tuned=gone.toml --processes 5");
    assert!(command.starts_with(&expected), "what is nowhere stays as it was typed: {command}");
    let elsewhere = recipe::completed("gpukern", &record, Path::new("a.json"), 5).expect("a command");
    assert!(elsewhere.starts_with("gpukern run own.toml gone.comp --config=all.toml"), "{elsewhere}");
}

#[test]
fn a_verdict_names_the_test_that_decided_or_failed() {
    let verdict_and_test = |count: usize, center: f64, spread: f64, canary: f64| {
        let a = side(DeviceKind::DiscreteGpu, "a", 1e6, count, seen(75.0, None));
        let mut b = side(DeviceKind::DiscreteGpu, "b", center, count, seen(75.0 * canary, None));
        for (record, seed) in b.iter_mut().zip(0..) {
            record.cases.iter_mut().for_each(|case| set(case, &times(center, spread, 50, seed)));
        }
        let case = compare(&a, &b, &Settings::default()).cases.remove(0);
        (case.verdict, case.test)
    };
    assert_eq!(verdict_and_test(3, 1.2e6, 0.005, 1.0), (Verdict::Slower, "p < 0.0001".into()));
    assert_eq!(verdict_and_test(3, 1e6, 0.005, 1.0), (Verdict::Same, "within ±2 %".into()));
    assert_eq!(verdict_and_test(3, 1.05e6, 0.005, 1.05), (Verdict::Undecided, "candidate's device 5 % slower".into()));
    assert_eq!(verdict_and_test(1, 1.03e6, 0.8, 1.0), (Verdict::Undecided, "a side has only 1 process".into()));
    let (verdict, test) = verdict_and_test(3, 1.05e6, 0.9, 1.0);
    assert_eq!(verdict, Verdict::Undecided);
    assert!(test.starts_with("not significant (p = ") || test == "interval wider than ±2 %", "{test}");
    let few = record("b", &times(1e6, 0.01, 3, 1));
    let comparison = compare(&[record("a", &times(1e6, 0.01, 50, 1))], &[few], &Settings::default());
    assert_eq!(comparison.cases[0].test, "3 samples, needs 6");
}
