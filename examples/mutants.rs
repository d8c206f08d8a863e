//! Removes each barrier, and each memory semantics, of the built-in kernels in turn, moves each bound by one, and asks
//! the simulator whether it notices: a barrier that it does not miss is redundant, or the simulator misses a fault.
//!
//!   mutants ALGORITHM [VARIANT] [SIZE]
//!
//! Prints a line for each mutant: what was removed, and the first fault, "wrong answer" or SURVIVES.

use gpukern::simulator::device::simulated_device;
use gpukern::simulator::program::{Arithmetic, Reconvergence, SimulationSettings, simulate};
use gpukern::{Algorithm, CATALOGUE, CaseSpec, DType, HostArray, Oracle, Program, Shader, Size, Step, Variant};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a mutant, which may wait forever.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sub-group sizes that show a race across sub-groups, and one within a sub-group.
const SUBGROUP_SIZES: [u32; 2] = [8, 32];

/// Opcodes.
const OP_CONSTANT: u32 = 43;
const OP_CONTROL_BARRIER: u32 = 224;
const OP_MEMORY_BARRIER: u32 = 225;
/// Comparisons of integers without and with equality: a bound is moved by replacing one by the other.
const COMPARISONS: [[u32; 2]; 4] = [[172, 174], [173, 175], [176, 178], [177, 179]];
/// `OpNop` with its length.
const NOP: u32 = 1 << 16;
/// Semantics that order nothing.
const RELAXED: u32 = 0;
/// Words before the first instruction.
const HEADER: usize = 5;

/// Change to a module.
struct Mutant {
    shader: String,
    what: String,
    spirv: Vec<u32>,
}

/// Returns the module without each barrier in turn, and with each barrier that orders memory without its semantics.
fn mutants(shader: &Shader) -> Vec<Mutant> {
    let module = shader.words();
    let lines = shader.lines();
    // A constant 0 to take the place of semantics.
    let mut zero = None;
    let mut mutants = vec![];
    let mut at = HEADER;
    while at < module.len() {
        let (length, op) = ((module[at] >> 16) as usize, module[at] & 0xffff);
        if length == 0 {
            break;
        }
        if op == OP_CONSTANT && length == 4 && module[at + 3] == RELAXED {
            zero = Some(module[at + 2]);
        }
        let place = lines.at(at).map_or_else(|| format!("word {at}"), |(file, line)| format!("{file}:{line}"));
        if matches!(op, OP_CONTROL_BARRIER | OP_MEMORY_BARRIER) {
            let mut spirv = module.clone();
            spirv[at..at + length].fill(NOP);
            let what = if op == OP_CONTROL_BARRIER { "the barrier" } else { "the memory barrier" };
            let what = format!("{place} without {what}");
            mutants.push(Mutant { shader: shader.label(), what, spirv });
        }
        for [strict, equal] in COMPARISONS.into_iter().filter(|pair| pair.contains(&op)) {
            let mut spirv = module.clone();
            spirv[at] = module[at] & 0xffff_0000 | if op == strict { equal } else { strict };
            mutants.push(Mutant { shader: shader.label(), what: format!("{place} with a bound moved"), spirv });
        }
        if op == OP_CONTROL_BARRIER
            && let Some(zero) = zero
        {
            let mut spirv = module.clone();
            spirv[at + 3] = zero;
            let what = format!("{place} without the barrier's semantics");
            mutants.push(Mutant { shader: shader.label(), what, spirv });
        }
        at += length;
    }
    mutants
}

/// Returns the program with a kernel replaced.
fn replaced(program: &Program, mutant: &Mutant) -> Program {
    let mut program = program.clone();
    let rounds = program.rounds.iter_mut().flat_map(|rounds| &mut rounds.body);
    for step in program.steps.iter_mut().chain(rounds) {
        if let Step::Dispatch(dispatch) = step
            && dispatch.shader.label() == mutant.shader
        {
            let bytes: Vec<u8> = mutant.spirv.iter().flat_map(|word| word.to_le_bytes()).collect();
            let shader = Shader { spirv: bytes.into(), ..(*dispatch.shader).clone() };
            dispatch.shader = gpukern::Handle::Shared(Arc::new(shader));
        }
    }
    program
}

/// Case with everything that its mutants share.
struct Posed {
    specs: Vec<gpukern::BufferSpec>,
    inputs: Vec<HostArray>,
    oracle: Box<dyn Oracle>,
}

/// Returns what the simulator has against a program: the first fault, or a wrong answer.
fn objection(posed: &Posed, program: &Program, subgroup_size: u32) -> Option<String> {
    for (seed, reconvergence) in [(0, Reconvergence::AtMerges), (1, Reconvergence::Late)] {
        let deadline = Some(Instant::now() + TIMEOUT);
        let settings =
            SimulationSettings { subgroup_size, seed, reconvergence, arithmetic: Arithmetic::Exact, deadline };
        match simulate(program, &posed.specs, &posed.inputs, &settings) {
            Err(error) => return Some(format!("{error:?}")),
            Ok(simulated) => {
                if let Some(fault) = simulated.faults.first() {
                    return Some(fault.kind.id().into());
                }
                let passes = posed.oracle.check(&simulated.outputs).is_ok_and(|check| {
                    let allowed = check.tolerance + program.allowance;
                    check.residual <= allowed
                });
                if !passes {
                    return Some("wrong answer".into());
                }
            }
        }
    }
    None
}

/// Judges the mutants of a variant's kernels.
fn judge(algorithm: &Algorithm, variant: &Variant, size: &str, dtype: DType) -> Option<()> {
    let case = CaseSpec::new(algorithm, size.parse::<Size>().ok()?, dtype);
    let problem = (algorithm.problem)(&case).ok()?;
    let inputs = problem.inputs().ok()?;
    let oracle = problem.oracle(&inputs).ok()?;
    let posed = Posed { specs: problem.buffers(), inputs, oracle };
    let mut results: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for subgroup_size in SUBGROUP_SIZES {
        let device = simulated_device(subgroup_size);
        let Ok(program) = algorithm.feasible(variant, &case, &*problem, &device) else { continue };
        let mut shaders: BTreeMap<String, Shader> = BTreeMap::new();
        for dispatch in program.dispatches() {
            shaders.insert(dispatch.shader.label(), (*dispatch.shader).clone());
        }
        for mutant in shaders.values().flat_map(mutants) {
            let found = objection(&posed, &replaced(&program, &mutant), subgroup_size);
            let entry = results.entry((mutant.shader, mutant.what)).or_default();
            entry.extend(found.map(|found| format!("{found} at {subgroup_size}")));
        }
    }
    for ((shader, what), found) in results {
        let verdict = if found.is_empty() { "SURVIVES".into() } else { found.join(", ") };
        println!("{}\t{}\t{dtype}\t{shader}\t{what}\t{verdict}", algorithm.name, variant.name);
    }
    Some(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, rest @ ..] = &arguments[..] else {
        println!("mutants ALGORITHM [VARIANT] [SIZE]");
        std::process::exit(2);
    };
    let algorithm = CATALOGUE.known(name).expect("an algorithm");
    let size = rest.get(1).map_or("40", String::as_str);
    for variant in algorithm.variants.iter().filter(|variant| rest.first().is_none_or(|name| *name == variant.name)) {
        for dtype in [DType::F32, DType::F16] {
            judge(algorithm, variant, size, dtype);
        }
    }
}
