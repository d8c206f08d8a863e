//! The eigenvalue kernels on a device: forms that the device at hand would not choose, and broken programs.

mod same_bits;

use gpukern::{
    CATALOGUE, CacheFolder, CaseSpec, CheckResult, DType, Device, DeviceInfo, DeviceKind, Feature, Input, Problem,
    Program, Size, Step, StopRule, StopTest, Variant, Workbench,
};
use std::rc::Rc;

fn case(algorithm: &str, input: Input, n: u64, stop: StopRule) -> CaseSpec {
    let algorithm = CATALOGUE.find(algorithm).expect("an algorithm");
    CaseSpec::new(algorithm, Size::Uniform(n), DType::F32)
        .with(|options| (options.input, options.stop) = (input, Some(stop)))
}

/// Opens a device (with `GPUKERN_DEVICE=gpu` a GPU) and a workbench on which programs share pipelines.
fn workbench() -> (Rc<Device>, Workbench) {
    let device = same_bits::device(std::env::var("GPUKERN_DEVICE").as_deref() != Ok("gpu"));
    let workbench = Workbench::new(&CATALOGUE.probes, &device, &CacheFolder::none()).expect("a workbench");
    (device, workbench)
}

fn problem(algorithm: &str, case: &CaseSpec) -> Box<dyn Problem> {
    (CATALOGUE.find(algorithm).expect("an algorithm").problem)(case).expect("a problem")
}

/// Runs `program` on the problem of `case`, and checks its answer.
fn verify(
    workbench: &mut Workbench,
    algorithm: &str,
    case: &CaseSpec,
    program: &Program,
) -> Result<CheckResult, String> {
    let loaded = workbench.load(problem(algorithm, case).as_ref()).expect("room for it");
    workbench.verify(&loaded, program).expect("it runs").check
}

fn program(algorithm: &str, variant: &str, case: &CaseSpec, info: &DeviceInfo) -> Program {
    let variant = CATALOGUE.find(algorithm).and_then(|algorithm| algorithm.variant(variant)).expect("a variant");
    variant.program(case, info).expect("a program")
}

/// Removes the dispatches of kernels whose name contains `name`.
fn without(steps: &mut Vec<Step>, name: &str) {
    steps.retain(|step| !matches!(step, Step::Dispatch(dispatch) if dispatch.shader.name.contains(name)));
}

const POST: StopRule = StopRule { test: StopTest::Neighbour, eps: 1e-3, max_rounds: 50 };

#[test]
fn row_sums_by_compare_exchange_are_right() {
    let (device, mut workbench) = workbench();
    let mut info = device.info.clone();
    info.features.remove(&Feature::ShaderBufferFloat32AtomicAdd);
    let adding = |variant: &&Variant| variant.kernels.names.iter().any(|kernel| kernel.ends_with("-cas"));
    for variant in CATALOGUE.find("row-sum").expect("an algorithm").variants.iter().filter(adding) {
        for n in [1, 3, 33, 300] {
            let case = case("row-sum", Input::Signed, n, POST);
            let program = variant.program(&case, &info).expect("a program");
            assert!(program.dispatches().all(|dispatch| dispatch.shader.name.ends_with("-cas")));
            let check = verify(&mut workbench, "row-sum", &case, &program).expect("an answer");
            assert!(check.passes(), "{} {n}: {check:?}", variant.name);
        }
    }
}

#[test]
fn a_stop_check_that_always_gives_the_same_answer_is_rejected() {
    let (device, mut workbench) = workbench();
    for (answer, input) in [(1, Input::Boundary), (1, Input::Wrap), (1, Input::Uniform), (0, Input::Converged)] {
        for n in [2, 33, 1000] {
            let case = case("stop-check", input, n, POST);
            let mut program = program("stop-check", "shuffle", &case, &device.info);
            without(&mut program.steps, "stop-check");
            for step in &mut program.steps {
                if let Step::Fill { word, .. } = step {
                    *word = answer;
                }
            }
            let check = verify(&mut workbench, "stop-check", &case, &program).expect("an answer");
            assert!(!check.passes(), "always {answer}, {input}, {n}");
        }
    }
}

#[test]
fn the_transform_makes_as_many_rounds_on_the_hilbert_matrix_as_the_post_reports() {
    let (device, mut workbench) = workbench();
    for (n, rounds, lambda) in [(128, 9.0, 2.217_19), (512, 12.0, 2.379_54)] {
        let case = case("eigen", Input::Hilbert, n, POST);
        let program = program("eigen", "pipeline", &case, &device.info);
        let check = verify(&mut workbench, "eigen", &case, &program).expect("converged");
        assert!(check.passes(), "{check:?}");
        assert_eq!(check.metric("rounds"), Some(rounds), "{n}");
        assert!((check.metric("lambda").expect("a figure") - lambda).abs() < 5e-5, "{check:?}");
    }
}

#[test]
fn a_transform_that_lacks_a_step_is_no_answer() {
    let (device, mut workbench) = workbench();
    for kernel in ["row-sum", "vector-max", "eigenvector", "stop-check", "next-matrix"] {
        let case = case("eigen", Input::Hilbert, 128, POST);
        let mut program = program("eigen", "pipeline", &case, &device.info);
        without(&mut program.rounds.as_mut().expect("rounds").body, kernel);
        let right = verify(&mut workbench, "eigen", &case, &program).is_ok_and(|check| check.passes());
        assert!(!right, "without {kernel}");
    }
}

/// Returns the device as it is and as a GPU, because programs choose kernels and work distribution by the kind of device.
fn device_kinds(device: &Device) -> [DeviceInfo; 2] {
    let mut gpu = DeviceInfo { kind: DeviceKind::DiscreteGpu, ..device.info.clone() };
    // A GPU's work-groups have more sub-groups of 8 than llvmpipe reports as its limit, yet llvmpipe runs them.
    gpu.subgroup.most_in_group = None;
    [device.info.clone(), gpu]
}

/// Variants that run at the speed of memory.
const STREAMING: [(&str, &str); 6] = [
    ("row-sum", "streaming"),
    ("vector-max", "streaming"),
    ("eigenvector", "streaming"),
    ("next-matrix", "streaming"),
    ("stop-check", "streaming"),
    ("eigen", "fused"),
];

#[test]
fn kernels_at_the_speed_of_memory_are_right_at_odd_sizes_in_both_forms() {
    let (device, mut workbench) = workbench();
    for info in device_kinds(&device) {
        for (algorithm, variant) in STREAMING {
            let inputs = CATALOGUE.find(algorithm).expect("an algorithm").inputs;
            for n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 17, 31, 33, 62, 127, 255, 258, 301, 1021, 1023, 1025, 1030] {
                for input in inputs {
                    if [Input::Example, Input::Slow].contains(input) || (algorithm, *input) == ("eigen", Input::Signed)
                    {
                        continue;
                    }
                    let case = case(algorithm, *input, n, StopRule::default());
                    let program = program(algorithm, variant, &case, &info);
                    let check = verify(&mut workbench, algorithm, &case, &program).expect("an answer");
                    assert!(check.passes(), "{algorithm} {input} {n} {:?}: {check:?}", program.note);
                }
            }
        }
    }
}

/// Runs `program` a hundred times and compares the bits of its answers.
fn hundredfold(workbench: &mut Workbench, algorithm: &str, case: &CaseSpec, program: &Program) {
    let what = format!("{algorithm} {} {:?}", case.size, program.note);
    same_bits::run(workbench, problem(algorithm, case), program, 100, &what);
}

#[test]
fn a_hundred_runs_give_the_same_bits() {
    let (device, mut workbench) = workbench();
    for info in device_kinds(&device) {
        for (algorithm, variant) in STREAMING {
            // Many groups at the larger size, and a rest in their last rows. `fused` has those at half of it, and all the rounds.
            for n in [130, if algorithm == "eigen" { 515 } else { 1027 }] {
                let input = CATALOGUE.find(algorithm).expect("an algorithm").inputs[0];
                let case = case(algorithm, input, n, StopRule::default());
                hundredfold(&mut workbench, algorithm, &case, &program(algorithm, variant, &case, &info));
            }
        }
    }
}

#[test]
fn a_hundred_factorizations_give_the_same_bits() {
    let (device, mut workbench) = workbench();
    let algorithm = CATALOGUE.find("lu").expect("an algorithm");
    let blocked = algorithm.variants.iter().filter(|variant| variant.name.starts_with("blocked"));
    let mut ran = 0;
    for variant in blocked {
        for n in [100, 257] {
            let case = case("lu", Input::Uniform, n, StopRule::default());
            // A GPU may lack what a software device has, and the other way round.
            let Ok(program) = variant.program(&case, &device.info) else { continue };
            hundredfold(&mut workbench, "lu", &case, &program);
            ran += 1;
        }
    }
    assert!(ran >= 4, "{ran} of the blocked factorizations ran");
}

#[test]
fn the_fused_transform_makes_as_many_rounds_as_the_pipeline_and_says_when_they_are_too_few() {
    let (device, mut workbench) = workbench();
    let rounds = |check: &CheckResult| check.metric("rounds").expect("rounds");
    for info in device_kinds(&device) {
        for stop in [POST, StopRule::default()] {
            for n in [3, 65, 128, 301] {
                let case = case("eigen", Input::Hilbert, n, stop);
                let [fused, pipeline] = ["fused", "pipeline"].map(|variant| {
                    let program = program("eigen", variant, &case, &info);
                    rounds(&verify(&mut workbench, "eigen", &case, &program).expect("converged"))
                });
                assert!((fused - pipeline).abs() <= 1.0, "{n}: {fused} and {pipeline} rounds");

                let most = pipeline as u32 - 2;
                let short = case.with(|options| options.stop = Some(StopRule { max_rounds: most, ..stop }));
                let error = verify(&mut workbench, "eigen", &short, &program("eigen", "fused", &short, &info));
                let error = error.expect_err("too few rounds");
                assert!(error.starts_with(&format!("not converged after {most} rounds")), "{error}");
            }
        }
        // More rounds than a batch, or a dispatch of the small kernel, has.
        for n in [64, 300] {
            let stop = StopRule { eps: 1e-3, max_rounds: 500, ..StopRule::default() };
            let case = case("eigen", Input::Slow, n, stop);
            let check =
                verify(&mut workbench, "eigen", &case, &program("eigen", "fused", &case, &info)).expect("converged");
            assert!(check.passes() && rounds(&check) > 64.0, "{check:?}");
        }
    }
}

/// Computes the dominant eigenvalue of a positive matrix by power iteration in f64.
fn eigenvalue(a: &[f64], n: usize) -> f64 {
    let mut x = vec![1.0; n];
    let mut largest = 0.0;
    for _ in 0..200 {
        let y: Vec<f64> = a.chunks(n).map(|row| row.iter().zip(&x).map(|(a, x)| a * x).sum()).collect();
        largest = y.iter().copied().fold(0.0, f64::max);
        x = y.iter().map(|y| y / largest).collect();
    }
    largest
}

#[test]
fn the_bracket_contains_the_eigenvalue_of_twenty_random_matrices() {
    let (device, mut workbench) = workbench();
    for info in device_kinds(&device) {
        for seed in 0..20 {
            let n = 37 + 29 * seed;
            let case = case("eigen", Input::Uniform, n, StopRule::default()).with(|options| options.seed = seed);
            let problem = problem("eigen", &case);
            let inputs = problem.inputs().expect("inputs");
            let a: Vec<f64> = (0..inputs[0].len()).map(|i| inputs[0].get(i)).collect();
            let check =
                verify(&mut workbench, "eigen", &case, &program("eigen", "fused", &case, &info)).expect("converged");
            assert!(check.passes(), "{check:?}");
            let metric = |name: &str| check.metric(name).expect(name);
            let (low, high, exact) = (metric("bracket min"), metric("bracket max"), eigenvalue(&a, n as usize));
            assert!(low <= exact && exact <= high && high - low < 2e-4 * high, "{n}: {exact} in [{low}, {high}]");
        }
    }
}
