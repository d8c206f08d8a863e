//! Kernels with one instruction changed: `verify` must reject every one of them.

use super::verifier;
use gpukern::{
    AxisValues, CATALOGUE, DType, Goal, Layout, Outcome, PlanSection, Purpose, Runner, Selection, Shader, Silent,
    find_shader,
};

/// Replacement of one opcode by another.
#[derive(Clone, Copy)]
struct Change {
    from: u16,
    to: u16,
    name: &'static str,
}

const fn change(from: u16, to: u16, name: &'static str) -> Change {
    Change { from, to, name }
}

/// Changes of SPIR-V opcodes to others that take the same operands. None can make an address larger, so a broken kernel
/// stays within its buffers.
const ARITHMETIC: &[Change] = &[
    change(133, 129, "OpFMul → OpFAdd"),
    change(129, 131, "OpFAdd → OpFSub"),
    change(131, 129, "OpFSub → OpFAdd"),
    change(136, 133, "OpFDiv → OpFMul"),
];
/// Goal and type of most variations.
const RESULT: (Goal, DType) = (Goal::Result, DType::F32);
/// Changes of integer arithmetic and comparisons, in which indices are computed.
const INDEXING: &[Change] =
    &[change(132, 128, "OpIMul → OpIAdd"), change(176, 174, "OpULessThan → OpUGreaterThanEqual")];

/// Returns every variation of `spirv` with one instruction changed.
fn variations(spirv: &[u8], changes: &[Change]) -> Vec<(String, Vec<u8>)> {
    let words: Vec<u32> = spirv.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    let mut found = vec![];
    // The header has five words; every instruction begins with its length and opcode.
    let mut at = 5;
    while at < words.len() {
        let (length, opcode) = (words[at] >> 16, words[at] as u16);
        for &Change { from, to, name } in changes {
            if opcode == from {
                let mut changed = words.clone();
                changed[at] = length << 16 | u32::from(to);
                found.push((format!("{name} at word {at}"), changed.iter().flat_map(|w| w.to_le_bytes()).collect()));
            }
        }
        at += length.max(1) as usize;
    }
    found
}

/// Runs the wanted variants of `algorithm` with every kernel changed by one instruction at a time. Of several sizes one must
/// show the change: a kernel may have a path for extents that divide and one for those that do not. The others are then
/// not tried, because compiling is what takes time.
fn every_variation_is_caught(
    algorithm: &str,
    (goal, dtype): (Goal, DType),
    wanted: impl Fn(&str, &str) -> bool,
    (sizes, tile): (&[&str], Option<&str>),
    input: &str,
    changes: &[Change],
) {
    let mut runner = verifier();

    // The software device has no matrix units to break kernels on.
    let registered = CATALOGUE.find(algorithm).expect("it is registered");
    let solution =
        registered.solution.filter(|_| goal == Goal::Solution).map_or(&[][..], |solution| solution.kernels.names);
    let variants = registered.variants.iter().filter(|variant| {
        let shaders = variant.shaders(dtype, Layout::Nn).unwrap_or_default();
        let matrices = |shader: &&Shader| shader.declares("CooperativeMatrixKHR");
        variant.kernels.names.iter().chain(solution).any(|kernel| wanted(&variant.name, kernel))
            && !shaders.is_empty()
            && !shaders.iter().any(matrices)
    });
    let axes = AxisValues::default().with("dtype", dtype).with("input", input);
    let axes = if goal == Goal::Solution { axes.with("solve", true) } else { axes };
    for variant in variants {
        let selection = |size: &str| Selection {
            algorithm: vec![algorithm.into()],
            variant: vec![variant.name.to_string()],
            size: vec![size.into()],
            axes: axes.clone(),
            ..Selection::default()
        };
        let planned = |size: &&str| {
            let mut run = PlanSection::new(&CATALOGUE, &selection(size), Purpose::Bench).expect("a plan");
            run.groups[0].spec.tile = tile.map(|tile| tile.parse().expect("a tile"));
            run
        };
        let runs: Vec<_> = sizes.iter().map(planned).collect();
        let outcome = |runner: &mut Runner, run: &PlanSection| {
            let case = runner.run(run, &mut Silent).remove(0);
            assert!(!case.kernels.is_empty(), "wrong or right, a case keeps what its compiler said of it");
            case.outcome
        };
        for run in &runs {
            let outcome = outcome(&mut runner, run);
            assert!(matches!(outcome, Outcome::Measured(_)), "{} is right as it is: {outcome:?}", variant.name);
        }

        let mut count = 0;
        for kernel in variant.kernels.names.iter().chain(solution).filter(|kernel| wanted(&variant.name, kernel)) {
            let shader = find_shader(kernel, dtype).expect("it is compiled");
            for (change, spirv) in variations(&shader.spirv, changes) {
                count += 1;
                runner.workbench().pipelines.substitute(shader, spirv);
                // A bad pivot and a wrong answer both count: neither case has a time.
                let caught = runs
                    .iter()
                    .any(|run| matches!(outcome(&mut runner, run), Outcome::Rejected(_) | Outcome::Failed { .. }));
                assert!(caught, "{kernel} with {change} passes at {sizes:?}");
            }
            runner.workbench().pipelines.restore();
        }
        assert!(count >= 2, "{}: {count} variations", variant.name);
        let restored = outcome(&mut runner, &runs[0]);
        assert!(matches!(restored, Outcome::Measured(_)), "{} is right again", variant.name);
    }
}

fn every_variation_of_matmul_is_caught(sizes: &[&str], tile: Option<&str>, wanted: impl Fn(&str, &str) -> bool) {
    let changes = [ARITHMETIC, INDEXING].concat();
    every_variation_is_caught("matmul", RESULT, wanted, (sizes, tile), "signed", &changes);
}

#[test]
fn every_variation_of_a_tiled_matmul_kernel_by_one_instruction_is_caught() {
    // The built-in tile unrolls four times as many elements, which takes the driver minutes to compile.
    let plain = "16x16x8/8x16/4x4";
    let wanted = |variant: &str, kernel: &str| variant == "tiled" && kernel == "matmul/tiled";
    every_variation_of_matmul_is_caught(&["19x13x19", "20x12x20"], Some(plain), wanted);
    // The sizes cover blocks shared by many groups, and groups with whole and partial blocks.
    let sizes = ["5x13x259", "4x12x260", "36x12x132", "28x28x133", "38x38x133", "36x36x132"];
    let wanted = |variant: &str, kernel: &str| variant == "tiled" && kernel != "matmul/tiled";
    every_variation_of_matmul_is_caught(&sizes, Some(&format!("{plain}/g8")), wanted);
}

#[test]
fn every_variation_of_a_matmul_kernel_by_one_instruction_is_caught() {
    // gemv refuses these sizes, and has paths that only the cuts for GPUs take: tests/gemv.rs runs them.
    let wanted = |variant: &str, _: &str| !variant.starts_with("gemv") && variant != "tiled";
    every_variation_of_matmul_is_caught(&["35x21x19", "36x20x20"], None, wanted);
}

#[test]
fn every_variation_of_the_arithmetic_of_a_factorization_is_caught() {
    // Indices stay unchanged: those of the pivot check matter only if a pivot is bad.
    let posts = |variant: &str, _: &str| !variant.starts_with("blocked");
    every_variation_is_caught("lu", RESULT, posts, (&["35"], None), "diagonally-dominant", ARITHMETIC);
}

#[test]
fn every_variation_of_the_arithmetic_of_a_blocked_factorization_is_caught() {
    // This size has three blocks.
    let without = |variant: &str, _: &str| variant == "blocked";
    every_variation_is_caught("lu", RESULT, without, (&["150"], None), "diagonally-dominant", ARITHMETIC);
    // 1100 rows exceed the registers of a group for all 32 columns of an inner block. The blocked-solve kernel is tested above:
    // with pivots it solves only for rows of U, and its code for columns of L never runs.
    let pivots = |variant: &str, kernel: &str| variant.starts_with("blocked-pivot") && kernel != "lu/blocked-solve";
    every_variation_is_caught("lu", RESULT, pivots, (&["150", "1100"], None), "diagonally-dominant", ARITHMETIC);
}

#[test]
fn every_variation_of_the_arithmetic_of_a_solution_is_caught() {
    // This size has three blocks of positions, so rows remain after the second.
    let f32 = (Goal::Solution, DType::F32);
    let behind = |variant: &str, kernel: &str| variant == "blocked-pivot" && kernel == "lu/solve-rest";
    every_variation_is_caught("lu", f32, behind, (&["300"], None), "uniform", ARITHMETIC);
    // The inverse of a diagonal block and its solutions are corrected by their remainders, which also corrects a wrong product;
    // a correction of the wrong sign is as small as the error. Only a wrong remainder shows.
    let block = |variant: &str, kernel: &str| variant == "blocked-pivot" && kernel == "lu/solve-block";
    every_variation_is_caught("lu", f32, block, (&["300"], None), "uniform", &ARITHMETIC[2..]);
    // The residual's kernel is left out: an error in its stopping rule may only stop late.
    let refining = |_: &str, kernel: &str| kernel.starts_with("lu/refine") && kernel != "lu/refine-residual";
    every_variation_is_caught("lu", (Goal::Solution, DType::F64), refining, (&["140"], None), "uniform", ARITHMETIC);
}
