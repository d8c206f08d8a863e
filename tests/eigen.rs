//! The eigenvalue kernels on a device: forms that the device at hand would not choose, and broken programs.

use gpukern::{
    CacheFolder, CaseSpec, Check, DType, Device, DeviceKind, Feature, Input, Instance, Program, Size, Step, StopRule,
    StopTest, Validation, Workbench, find_algorithm,
};
use std::rc::Rc;

/// The software device, or whichever there is.
fn device() -> Rc<Device> {
    let instance = Instance::new(Validation::Off, None).expect("Vulkan");
    let devices = instance.devices().expect("devices");
    let physical = devices.iter().find(|device| device.info.kind == DeviceKind::Cpu).or(devices.first());
    Device::open(&instance, physical.expect("a device")).expect("it opens")
}

fn case(algorithm: &str, input: Input, n: u64, stop: StopRule) -> CaseSpec {
    let algorithm = find_algorithm(algorithm).expect("an algorithm");
    CaseSpec { input, stop, ..CaseSpec::new(algorithm, Size::Uniform(n), DType::F32) }
}

/// Runs `program` on the problem of `case`.
fn verify(device: &Rc<Device>, algorithm: &str, case: &CaseSpec, program: &Program) -> Result<Check, String> {
    let mut workbench = Workbench::new(device, &CacheFolder::none()).expect("a workbench");
    let problem = (find_algorithm(algorithm).expect("an algorithm").problem)(case).expect("a problem");
    let loaded = workbench.load(problem.as_ref()).expect("room for it");
    workbench.verify(&loaded, program).expect("it runs").check
}

fn program(device: &Device, algorithm: &str, variant: &str, case: &CaseSpec) -> Program {
    let variant = find_algorithm(algorithm).and_then(|algorithm| algorithm.variant(variant)).expect("a variant");
    variant.program(case, &device.info).expect("a program")
}

/// Removes the dispatches of kernels whose name contains `name`.
fn without(steps: &mut Vec<Step>, name: &str) {
    steps.retain(|step| !matches!(step, Step::Dispatch(dispatch) if dispatch.shader.name.contains(name)));
}

const POST: StopRule = StopRule { test: StopTest::Neighbour, eps: 1e-3, max_rounds: 50 };

#[test]
fn row_sums_by_compare_exchange_are_right() {
    let device = device();
    let mut info = device.info.clone();
    info.features.remove(&Feature::ShaderBufferFloat32AtomicAdd);
    for variant in find_algorithm("row-sum").expect("an algorithm").variants {
        for n in [1, 3, 33, 300] {
            let case = case("row-sum", Input::Signed, n, POST);
            let program = variant.program(&case, &info).expect("a program");
            assert!(program.dispatches().all(|dispatch| dispatch.shader.name.ends_with("-cas")));
            let check = verify(&device, "row-sum", &case, &program).expect("an answer");
            assert!(check.passes(), "{} {n}: {check:?}", variant.name);
        }
    }
}

#[test]
fn a_stop_check_that_always_gives_the_same_answer_is_rejected() {
    let device = device();
    for (answer, input) in [(1, Input::Boundary), (1, Input::Wrap), (1, Input::Uniform), (0, Input::Converged)] {
        for n in [2, 33, 1000] {
            let case = case("stop-check", input, n, POST);
            let mut program = program(&device, "stop-check", "shuffle", &case);
            without(&mut program.steps, "stop-check");
            for step in &mut program.steps {
                if let Step::Fill { word, .. } = step {
                    *word = answer;
                }
            }
            let check = verify(&device, "stop-check", &case, &program).expect("an answer");
            assert!(!check.passes(), "always {answer}, {input}, {n}");
        }
    }
}

#[test]
fn the_transform_makes_as_many_rounds_on_the_hilbert_matrix_as_the_post_reports() {
    let device = device();
    for (n, rounds, lambda) in [(128, 9.0, 2.217_19), (512, 12.0, 2.379_54)] {
        let case = case("eigen", Input::Hilbert, n, POST);
        let program = program(&device, "eigen", "pipeline", &case);
        let check = verify(&device, "eigen", &case, &program).expect("converged");
        assert!(check.passes(), "{check:?}");
        let metric = |name: &str| check.metrics.iter().find(|m| m.name == name).and_then(|m| m.value);
        assert_eq!(metric("rounds"), Some(rounds), "{n}");
        assert!((metric("lambda").expect("a figure") - lambda).abs() < 5e-5, "{check:?}");
    }
}

#[test]
fn a_transform_that_lacks_a_step_is_no_answer() {
    let device = device();
    for kernel in ["row-sum", "vector-max", "eigenvector", "stop-check", "next-matrix"] {
        let case = case("eigen", Input::Hilbert, 128, POST);
        let mut program = program(&device, "eigen", "pipeline", &case);
        without(&mut program.repeat.as_mut().expect("rounds").body, kernel);
        let right = verify(&device, "eigen", &case, &program).is_ok_and(|check| check.passes());
        assert!(!right, "without {kernel}");
    }
}
