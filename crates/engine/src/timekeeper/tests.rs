//! Tests of the timekeeper without a device: time, canary and samples follow a script.

use super::*;
use crate::record::{Phases, Verification};
use crate::sampling::{MAX_FIRST_WARM_UP, MAX_WARM_UP};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const MS: f64 = 1e6;

/// Clock that advances only when something runs or sleeps.
#[derive(Clone)]
struct ScriptedTime {
    now: Rc<Cell<Duration>>,
    interrupted_at: Duration,
    was_suspended: Rc<Cell<bool>>,
}

impl Time for ScriptedTime {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn sleep(&self, pause: Duration) {
        self.now.set(self.now.get() + pause);
    }

    fn is_interrupted(&self) -> bool {
        self.now.get() >= self.interrupted_at
    }

    fn take_suspension(&self) -> bool {
        self.was_suspended.take()
    }
}

/// Source of samples whose n-th run takes `run(n)` ns.
struct Scripted<'a> {
    time: ScriptedTime,
    runs: usize,
    runs_per_sample: u32,
    uses_matrix_units: bool,
    /// Time that emptying the caches takes before each run.
    eviction: Duration,
    run: Box<dyn FnMut(usize) -> Result<f64, String> + 'a>,
}

impl SampleSource for Scripted<'_> {
    fn sample(&mut self) -> Result<TakenSample, String> {
        let run = (self.run)(self.runs)?;
        self.runs += 1;
        let total = Nanos(run * f64::from(self.runs_per_sample));
        self.time.sleep(self.eviction + Duration::from_nanos(total.0 as u64));
        Ok(TakenSample { sample: Sample { time: Nanos(run), host: total, outlier: false }, device_total: total })
    }

    fn runs_per_sample(&self) -> u32 {
        self.runs_per_sample
    }

    fn uses_matrix_units(&self) -> bool {
        self.uses_matrix_units
    }

    fn empties_caches(&self) -> bool {
        !self.eviction.is_zero()
    }
}

/// Returns a timekeeper with a scripted clock, and the clock.
fn scripted(interrupted_at: Duration) -> (Timekeeper<'static>, ScriptedTime) {
    let time = ScriptedTime { now: Rc::default(), interrupted_at, was_suspended: Rc::default() };
    (Timekeeper::by(time.clone()), time)
}

fn run<'a>(time: &ScriptedTime, mut run: impl FnMut(usize) -> f64 + 'a) -> Scripted<'a> {
    Scripted {
        time: time.clone(),
        runs: 0,
        runs_per_sample: 1,
        uses_matrix_units: false,
        eviction: Duration::ZERO,
        run: Box::new(move |index| Ok(run(index))),
    }
}

/// Returns a source whose fourth run fails.
fn failing(time: &ScriptedTime) -> Scripted<'static> {
    let fails = |index| if index < 3 { Ok(MS) } else { Err("the device is lost".to_string()) };
    Scripted { run: Box::new(fails), ..run(time, |_| MS) }
}

/// Returns a canary whose n-th run takes `times(n)` ns, on a separate device.
fn canary(time: &ScriptedTime, best: f64, times: impl FnMut(usize) -> f64 + 'static) -> Option<Canary> {
    let mut canary = Canary { chains: Box::new(run(time, times)), steps: 2048, best: Nanos(best), rises: true };
    canary.read(true).ok()?;
    Some(canary)
}

fn verified(time: f64) -> Measured {
    measured_once(Verification::without_answer(String::new()).into(), Nanos(time), Phases::default())
}

/// Warms `timed` up for at most `patience`.
fn warm<'a>(keeper: &Timekeeper<'_>, timed: Scripted<'a>, patience: Duration) -> CaseState<Scripted<'a>> {
    keeper.warm_up(timed, verified(MS), patience, |_, _| Ok(()))
}

/// Returns a contender without a warm-up.
fn cold(timed: Scripted<'_>, first_run: f64) -> CaseState<Scripted<'_>> {
    CaseState::Sampling(Box::new(Contender::new(timed, verified(first_run), None)))
}

/// Samples `timed` without a warm-up, and adds the warnings that depend on the canary's best time.
fn sample_cold(keeper: &mut Timekeeper<'_>, timed: Scripted<'_>, sampling: &Sampling) -> Measured {
    let mut state = cold(timed, MS);
    keeper.sample(vec![&mut state], sampling);
    let mut outcome = Outcome::Measured(Box::new(measured(state)));
    warn_of_clock(keeper.canary.as_ref().map(|canary| canary.best), &mut outcome);
    let Outcome::Measured(measured) = outcome else { panic!("{outcome:?}") };
    *measured
}

fn measured(state: CaseState<Scripted<'_>>) -> Measured {
    match state {
        CaseState::Sampling(contender) => contender.finish().expect("samples").0,
        CaseState::Ended(outcome) => panic!("{outcome:?}"),
    }
}

/// Returns the rules for sampling that ends after `max_ms` milliseconds.
fn limited_to(max_ms: u64) -> Sampling {
    Sampling { max_time: Duration::from_millis(max_ms), ..Sampling::default() }
}

fn times(measured: &Measured) -> Vec<f64> {
    measured.samples.iter().map(|sample| sample.time.0).collect()
}

/// Returns times that never agree within one per cent.
fn restless(index: usize) -> f64 {
    [10.0 * MS, 13.0 * MS, 17.0 * MS][index % 3]
}

#[test]
fn a_settled_case_is_sampled_until_its_median_is_precise() {
    let (mut keeper, time) = scripted(Duration::MAX);
    // A clock that comes up during the warm-up.
    let ramp = [40.0, 34.0, 30.0, 30.1, 30.05];
    let mut state = warm(&keeper, run(&time, |index| ramp.get(index).unwrap_or(&30.0) * MS), MAX_WARM_UP);
    assert!((time.now().as_secs_f64() - 0.164_15).abs() < 1e-6, "{:?}", time.now());
    keeper.sample(vec![&mut state], &Sampling::default());
    let measured = measured(state);
    assert_eq!(times(&measured), [30.0 * MS; 10]);
    assert_eq!((measured.summary.median, &measured.warnings[..]), (Nanos(30.0 * MS), &[][..]));
    assert!((measured.phases.warm_up.0 / MS - 164.15).abs() < 1e-6 && measured.phases.sampling.0 == 300.0 * MS);
    assert_eq!(measured.conditions.canary, None);
}

#[test]
fn an_unsettled_case_is_sampled_after_its_warm_up_limit_and_marked() {
    for patience in [MAX_WARM_UP, MAX_FIRST_WARM_UP] {
        let (mut keeper, time) = scripted(Duration::MAX);
        let timed = run(&time, |index| if index % 2 == 0 { 40.0 * MS } else { 30.0 * MS });
        let mut state = warm(&keeper, timed, patience);
        assert!(time.now() >= patience && time.now() < patience + Duration::from_millis(40), "{:?}", time.now());
        keeper.sample(vec![&mut state], &Sampling::default());
        assert_eq!(measured(state).warnings, [Warning::UnstableClock, Warning::TimeLimit]);
    }
}

#[test]
fn runs_per_sample_follow_from_the_first_sample_of_the_warm_up() {
    let (keeper, time) = scripted(Duration::MAX);
    // The verified run included compilation.
    let timed = run(&time, |_| MS);
    let mut runs = vec![];
    let set_runs = |timed: &mut Scripted<'_>, run: Nanos| {
        runs.push(run);
        timed.runs_per_sample = 7;
        Ok(())
    };
    let state = keeper.warm_up(timed, verified(90.0 * MS), MAX_WARM_UP, set_runs);
    let CaseState::Sampling(contender) = state else { panic!("no run fails") };
    assert!(contender.finish().is_none(), "a sample of the warm-up is none of the case");
    assert_eq!(runs, [Nanos(MS)]);
}

#[test]
fn a_canary_that_changes_while_a_case_is_sampled_marks_it() {
    for (after, drifted) in [(1.03, true), (0.97, true), (1.01, false)] {
        let (mut keeper, time) = scripted(Duration::MAX);
        // Read once when it wakes, once before the clock is brought up, once before the samples.
        keeper.canary = canary(&time, 75e3 * 0.97, move |run| if run < 15 { 75e3 } else { 75e3 * after });
        let measured = sample_cold(&mut keeper, run(&time, |_| MS), &Sampling::default());
        assert_eq!(measured.conditions.canary, Some([Nanos(75e3), Nanos(75e3 * after)]));
        assert_eq!(measured.conditions.canary_steps, Some(2048));
        let expected: &[_] = if drifted { &[Warning::Drift { ratio: 75e3 * after / 75e3 }] } else { &[] };
        assert_eq!(measured.warnings, expected);
    }
}

#[test]
fn a_clock_that_rises_is_waited_for_and_one_that_stays_low_marks_the_case() {
    // It rises after a second of work.
    let (mut keeper, time) = scripted(Duration::MAX);
    let clock = time.clone();
    keeper.canary = canary(&time, 75e3, move |_| if clock.now() < Duration::from_secs(1) { 100e3 } else { 75e3 });
    let measured = sample_cold(&mut keeper, run(&time, |_| MS), &Sampling::default());
    assert_eq!((measured.samples.len(), &measured.warnings[..]), (10, &[][..]));
    assert!(time.now() >= Duration::from_secs(1) && time.now() < Duration::from_millis(1100), "{:?}", time.now());
    assert!(measured.phases.device.0 > 900.0 * MS, "the work that brought it up is device time");

    // It never does: three seconds for the first case, a third of one for later ones.
    let (mut keeper, time) = scripted(Duration::MAX);
    keeper.canary = canary(&time, 75e3, |_| 100e3);
    for patience in [3000, 300] {
        let start = time.now();
        let measured = sample_cold(&mut keeper, run(&time, |_| MS), &Sampling::default());
        let spent = time.since(start);
        assert!(spent >= Duration::from_millis(patience) && spent < Duration::from_millis(patience + 100), "{spent:?}");
        assert_eq!(measured.warnings, [Warning::SlowClock { ratio: 100e3 / 75e3 }]);
    }
}

#[test]
fn the_canary_s_speed_beside_matrix_units_is_expected_of_no_other_kernel() {
    let (mut keeper, time) = scripted(Duration::MAX);
    // As on an H100: faster while matrix units work, and shortly after.
    let last_matrix_run = Rc::new(Cell::new(None));
    let (seen, clock) = (last_matrix_run.clone(), time.clone());
    let is_beside = move || seen.get().is_some_and(|last| clock.now() < last + Duration::from_millis(500));
    keeper.canary = canary(&time, f64::INFINITY, move |_| if is_beside() { 72.8e3 } else { 76.4e3 });
    let mut sample = |uses_matrix_units: bool| {
        let (ran, clock) = (last_matrix_run.clone(), time.clone());
        let source = run(&time, move |_| {
            if uses_matrix_units {
                ran.set(Some(clock.now()));
            }
            MS
        });
        let source = Scripted { uses_matrix_units, ..source };
        let measured = sample_cold(&mut keeper, source, &Sampling::default());
        (measured.warnings, keeper.canary.as_ref().map(|canary| canary.best.0))
    };
    for uses_matrix_units in [true, false, true, false] {
        assert_eq!(sample(uses_matrix_units), (vec![], Some(76.4e3)));
    }
}

#[test]
fn a_device_on_the_host_s_cores_has_no_clock_to_wait_for() {
    let (mut keeper, time) = scripted(Duration::MAX);
    keeper.canary = canary(&time, 75e3, |_| 100e3).map(|canary| Canary { rises: false, ..canary });
    keeper.sample(vec![&mut cold(run(&time, |_| MS), MS)], &Sampling::default());
    assert!(time.now() < Duration::from_millis(20), "{:?}", time.now());
}

#[test]
fn an_imprecise_case_ends_at_the_time_limit_and_is_marked() {
    let (mut keeper, time) = scripted(Duration::MAX);
    let measured = sample_cold(&mut keeper, run(&time, restless), &limited_to(200));
    assert_eq!(measured.warnings, [Warning::TimeLimit]);
    // Five times 10 + 13 + 17 ms.
    assert_eq!((measured.samples.len(), measured.phases.sampling), (15, Nanos(200.0 * MS)));
}

#[test]
fn other_cases_turns_do_not_count_in_the_time_limit() {
    let (mut keeper, time) = scripted(Duration::MAX);
    let mut states = [cold(run(&time, restless), MS), cold(run(&time, restless), MS)];
    keeper.sample(states.iter_mut().collect(), &limited_to(200));
    for measured in states.map(measured) {
        assert!(measured.phases.sampling.0 >= 200.0 * MS && measured.phases.sampling.0 < 240.0 * MS);
        assert_eq!(measured.warnings, [Warning::TimeLimit]);
    }
}

#[test]
fn sides_that_are_compared_are_sampled_equally_long() {
    let samples = |evenly| {
        let (mut keeper, time) = scripted(Duration::MAX);
        let mut states = [cold(run(&time, |_| 10.0 * MS), MS), cold(run(&time, restless), MS)];
        let both = states.iter_mut().collect();
        if evenly {
            keeper.sample_evenly(both, &limited_to(200));
        } else {
            keeper.sample(both, &limited_to(200));
        }
        states.map(measured).map(|measured| (measured.samples.len(), measured.warnings))
    };
    let restless_side = (15, vec![Warning::TimeLimit]);
    assert_eq!(samples(false), [(10, vec![]), restless_side.clone()]);
    // Two in each of eight turns.
    assert_eq!(samples(true), [(16, vec![]), restless_side]);
}

#[test]
fn an_interruption_does_not_mark_a_case_that_had_enough() {
    let (mut keeper, time) = scripted(Duration::from_millis(300));
    let mut states = [cold(run(&time, |_| 10.0 * MS), MS), cold(run(&time, restless), MS)];
    keeper.sample_evenly(states.iter_mut().collect(), &Sampling::default());
    let [steady, restless] = states.map(measured);
    assert!(steady.samples.len() > 10, "sampled on beside the other");
    assert_eq!((steady.warnings, restless.warnings), (vec![], vec![Warning::Interrupted]));
}

#[test]
fn an_interruption_keeps_the_samples_before_it_and_marks_the_case() {
    let (mut keeper, time) = scripted(Duration::from_millis(60));
    let [mut first, mut second] = [cold(run(&time, restless), MS), cold(run(&time, restless), MS)];
    keeper.sample(vec![&mut first, &mut second], &Sampling::default());
    // Dropped, 13, 17 of the first; dropped, 13 of the second.
    for (state, samples) in [(first, 2), (second, 1)] {
        let measured = measured(state);
        assert_eq!((measured.samples.len(), &measured.warnings[..]), (samples, &[Warning::Interrupted][..]));
    }
}

#[test]
fn samples_while_the_process_was_stopped_are_dropped_and_counted() {
    let (mut keeper, time) = scripted(Duration::MAX);
    let stopped = Rc::clone(&time.was_suspended);
    let timed = run(&time, |index| {
        // Two seconds go by in the fourth and in the sixth run.
        stopped.set(index == 3 || index == 5);
        if stopped.get() { 2000.0 * MS } else { 4.0 * MS }
    });
    let mut state = cold(timed, 4.0 * MS);
    // A stop before the first sample drops none.
    time.was_suspended.set(true);
    keeper.sample(vec![&mut state], &Sampling::default());
    let measured = measured(state);
    assert_eq!(times(&measured), [4.0 * MS; 10]);
    assert_eq!(measured.warnings, [Warning::Stopped { dropped: 2 }]);
    assert_eq!(measured.phases.device, Nanos(4040.0 * MS), "the device worked for them all the same");
}

#[test]
fn an_interruption_before_the_first_sample_leaves_no_time() {
    let (mut keeper, time) = scripted(Duration::ZERO);
    let mut state = warm(&keeper, run(&time, |_| MS), MAX_WARM_UP);
    keeper.sample(vec![&mut state], &Sampling::default());
    let CaseState::Sampling(contender) = state else { panic!("it is warm") };
    assert!(contender.finish().is_none() && time.now() == Duration::ZERO);
}

/// Returns two contenders whose runs take ten times as long after the other ran, and the log of their runs.
fn disturbed(time: &ScriptedTime, run_time: f64) -> ([CaseState<Scripted<'static>>; 2], Rc<RefCell<Vec<usize>>>) {
    let order: Rc<RefCell<Vec<usize>>> = Rc::default();
    let states = [0, 1].map(|side| {
        let order = Rc::clone(&order);
        let timed = run(time, move |_| {
            let switched = order.borrow().last().is_some_and(|last| *last != side);
            order.borrow_mut().push(side);
            if switched { 10.0 * run_time } else { run_time }
        });
        cold(timed, run_time)
    });
    (states, order)
}

#[test]
fn the_first_short_sample_after_another_case_is_dropped() {
    let (mut keeper, time) = scripted(Duration::MAX);
    let (mut states, order) = disturbed(&time, 4.0 * MS);
    keeper.sample(states.iter_mut().collect(), &Sampling::default());
    for measured in states.map(measured) {
        assert!(times(&measured).iter().all(|time| *time == 4.0 * MS), "{:?}", times(&measured));
        assert_eq!(measured.samples.len(), 10);
    }
    // Turns of five samples of 4 ms behind the dropped one.
    assert_eq!(order.borrow()[..12], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);

    // A long one is not disturbed, so none is dropped.
    let (mut keeper, time) = scripted(Duration::MAX);
    let (mut states, _) = disturbed(&time, 5.0 * MS);
    keeper.sample(states.iter_mut().collect(), &Sampling::default());
    assert!(states.map(measured).iter().any(|measured| times(measured).contains(&(50.0 * MS))));
}

#[test]
fn a_single_case_keeps_all_samples() {
    let (mut keeper, time) = scripted(Duration::MAX);
    let mut runs = 0;
    let timed = run(&time, |index| {
        runs = index + 1;
        MS
    });
    assert_eq!(sample_cold(&mut keeper, timed, &Sampling::default()).samples.len(), runs);
}

#[test]
fn a_pause_precedes_each_sample_and_nothing_is_dropped_or_brought_up() {
    let (mut keeper, time) = scripted(Duration::MAX);
    keeper.canary = canary(&time, 75e3, |_| 100e3);
    let start = time.now();
    let sampling = Sampling { pause: Some(Duration::from_millis(9)), ..Sampling::default() };
    let measured = sample_cold(&mut keeper, run(&time, |_| MS), &sampling);
    assert_eq!((measured.samples.len(), measured.phases.sampling), (10, Nanos(100.0 * MS)));
    // Five turns of two samples, and the canary around each.
    assert_eq!(time.since(start), Duration::from_millis(100 + 5));
}

#[test]
fn a_failing_case_does_not_stop_the_others() {
    let (mut keeper, time) = scripted(Duration::MAX);
    let [mut first, mut second] = [cold(failing(&time), MS), cold(run(&time, |_| MS), MS)];
    keeper.sample(vec![&mut first, &mut second], &Sampling::default());
    let CaseState::Ended(Outcome::Failed { error, .. }) = first else { panic!("failed") };
    assert_eq!((error.as_str(), measured(second).samples.len()), ("the device is lost", 10));
}

/// Runs a duel with a control until `decided`; returns the rounds and the roles, as recorded.
fn duel<'a>(
    keeper: &mut Timekeeper<'_>,
    time: &ScriptedTime,
    [a, b]: [&mut CaseState<Scripted<'a>>; 2],
    (sampling, seed): (&Sampling, u64),
    mut decided: impl FnMut(&[Round]) -> bool,
) -> (Vec<Round>, Vec<DuelRole>) {
    let mut recorded = vec![];
    let mut rounds = vec![];
    let mut remake = |_: &mut Scripted<'a>, role, _| {
        recorded.push(role);
        Ok(())
    };
    let control = run(time, |_| 4.0 * MS);
    keeper.duel([a, b], control, sampling, &mut remake, seed, &mut |round| {
        rounds.push(round);
        !decided(&rounds)
    });
    (rounds, recorded)
}

#[test]
fn a_duel_rebuilds_all_contenders_each_round_and_shuffles_turns() {
    let (mut keeper, time) = scripted(Duration::MAX);
    let (mut states, order) = disturbed(&time, 4.0 * MS);
    let [a, b] = &mut states;
    let sampling = Sampling { max_time: Duration::from_secs(2), ..Sampling::default() };
    let (rounds, recorded) = duel(&mut keeper, &time, [a, b], (&sampling, 1), |rounds| rounds.len() == 3);
    assert_eq!(rounds, [[Nanos(4.0 * MS); 3]; 3]);
    for round in recorded.chunks(3) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, [DuelRole::A, DuelRole::B, DuelRole::Control], "{recorded:?}");
    }
    // Each is made once and takes six turns a round, of which two in a row may be one run of its own.
    let turns = order.borrow().chunk_by(|a, b| a == b).count();
    assert!(turns > 3 * 6, "{turns}");
    for measured in states.map(measured) {
        assert_eq!((measured.samples.len(), &measured.warnings[..]), (3 * 6 * 5, &[][..]));
    }
}

#[test]
fn each_contender_of_a_duel_is_equally_likely_to_come_first() {
    let mut firsts = [0; 3];
    for seed in 0..60 {
        let (mut keeper, time) = scripted(Duration::MAX);
        let [mut a, mut b] = disturbed(&time, 25.0 * MS).0;
        let sampling = limited_to(600_000);
        let (_, recorded) = duel(&mut keeper, &time, [&mut a, &mut b], (&sampling, seed), |rounds| rounds.len() == 10);
        recorded.chunks(3).for_each(|round| firsts[round[0] as usize] += 1);
    }
    assert!(firsts.iter().all(|count| (150..=250).contains(count)), "{firsts:?}");
}

#[test]
fn a_round_of_runs_after_long_evictions_takes_one_of_each() {
    let (mut keeper, time) = scripted(Duration::MAX);
    let [mut a, mut b] = [0.1 * MS, 0.2 * MS].map(|run_time| {
        cold(Scripted { eviction: Duration::from_millis(500), ..run(&time, move |_| run_time) }, run_time)
    });
    let sampling = limited_to(10_000);
    let (rounds, _) = duel(&mut keeper, &time, [&mut a, &mut b], (&sampling, 1), |_: &[Round]| false);
    // A round takes 2 s: a run of each of the two after recording, and one that counts. The sixth, which a verdict needs, may
    // overrun.
    assert_eq!(rounds.len(), 6);
}

#[test]
fn a_duel_ends_with_its_time_an_interruption_or_a_failure() {
    let sampling = limited_to(80);
    let (mut keeper, time) = scripted(Duration::MAX);
    let [mut a, mut b] = disturbed(&time, 4.0 * MS).0;
    assert_eq!(duel(&mut keeper, &time, [&mut a, &mut b], (&sampling, 1), |_: &[Round]| false).0.len(), 1);

    // A round takes 18 turns of 24 or, after a switch, 60 ms.
    let (mut keeper, time) = scripted(Duration::from_millis(1300));
    let [mut a, mut b] = disturbed(&time, 4.0 * MS).0;
    let (rounds, _) = duel(&mut keeper, &time, [&mut a, &mut b], (&Sampling::default(), 1), |_: &[Round]| false);
    assert_eq!(rounds.len(), 1);

    let (mut keeper, time) = scripted(Duration::MAX);
    let [mut a, mut b] = [cold(run(&time, |_| MS), MS), cold(failing(&time), MS)];
    assert!(duel(&mut keeper, &time, [&mut a, &mut b], (&sampling, 1), |_: &[Round]| false).0.is_empty());
    assert!(matches!(b, CaseState::Ended(Outcome::Failed { .. })) && a.contender().is_some());
}

#[test]
fn a_race_ends_as_soon_as_it_is_lost() {
    let (mut keeper, time) = scripted(Duration::MAX);
    let best = Some(Nanos(MS));
    let end = Duration::from_secs(60);
    let mut warm = |run_time: f64| keeper.warm_candidate(&mut run(&time, |_| run_time), best).expect("it runs");
    assert_eq!((warm(2.1 * MS), warm(1.9 * MS)), (None, Some(Nanos(1.9 * MS))));
    let race = |run_time: f64, until: Duration| {
        let mut timed = run(&time, |_| run_time);
        let summary = keeper.race(&mut timed, Nanos(7.0), best, until).expect("it runs");
        (summary.map(|summary| summary.median.0), timed.runs)
    };
    assert_eq!(race(1.2 * MS, end), (None, 3));
    assert_eq!(race(1.1 * MS, end), (Some(1.1 * MS), 10));
    assert_eq!(race(0.9 * MS, end), (Some(0.9 * MS), 10));
    // Long ones stop after a few, and none is taken when the time is up.
    assert_eq!(race(0.5 * MS, time.now() + Duration::from_micros(1200)), (Some(0.5 * MS), 3));
    assert_eq!(race(MS, Duration::ZERO), (Some(7.0), 0));
    let mut long = run(&time, |_| 150.0 * MS);
    let summary = keeper.race(&mut long, Nanos(7.0), None, end).expect("it runs");
    assert_eq!(summary.map(|summary| (summary.median, summary.count)), Some((Nanos(150.0 * MS), 3)));
    assert_eq!(long.runs, 3);
}
