//! Kernels with one instruction changed: `verify` must reject every one of them.

use gpukern::algorithms::ALGORITHMS;
use gpukern::dtype::DType;
use gpukern::options::Selection;
use gpukern::plan::{Purpose, Run};
use gpukern::record::{Case, Outcome};
use gpukern::runner::{Observer, Runner, Timing};
use gpukern::shaders::Shader;
use gpukern::vulkan::{Device, Instance, Validation};
use std::sync::atomic::AtomicBool;

struct Silent;

impl Observer for Silent {
    fn begin(&mut self, _: &str) {}
    fn end(&mut self, _: &Case) {}
}

/// SPIR-V opcodes and what they are changed to. Each pair takes the same operands. None can make an address larger,
/// so a broken kernel stays within its buffers.
const CHANGES: [(u16, u16, &str); 4] = [
    (133, 129, "OpFMul → OpFAdd"),
    (129, 131, "OpFAdd → OpFSub"),
    (132, 128, "OpIMul → OpIAdd"),
    (176, 174, "OpULessThan → OpUGreaterThanEqual"),
];

/// Every variation of `spirv` with one instruction changed.
fn variations(spirv: &[u8]) -> Vec<(String, Vec<u8>)> {
    let words: Vec<u32> = spirv.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    let mut found = vec![];
    // The header has five words; every instruction begins with its length and opcode.
    let mut at = 5;
    while at < words.len() {
        let (length, opcode) = (words[at] >> 16, words[at] as u16);
        for (from, to, name) in CHANGES {
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

#[test]
fn every_variation_of_a_matmul_kernel_by_one_instruction_is_rejected() {
    let instance = Instance::new(Validation::Off, None).expect("a loader");
    let physical = instance.devices().expect("devices").into_iter().find(|device| !device.info.kind.is_gpu());
    let device = Device::open(&instance, &physical.expect("the software device")).expect("it opens");
    let go_on = AtomicBool::new(false);
    let mut runner = Runner::new(&device, Timing::VerifyOnly, &go_on).expect("it starts");

    let matmul = ALGORITHMS.iter().find(|algorithm| algorithm.name == "matmul").expect("it is registered");
    for variant in matmul.variants {
        let selection = Selection {
            algorithm: vec!["matmul".into()],
            variant: vec![variant.name.into()],
            size: vec!["35x21x19".into()],
            dtype: vec!["f32".into()],
            input: Some("signed".into()),
            ..Selection::default()
        };
        let run = Run::new(&selection, Purpose::Verify).expect("a plan");
        let mut verdict = || runner.run(&run, &mut Silent).remove(0).outcome;
        assert!(matches!(verdict(), Outcome::Measured(_)), "{} is right as it is", variant.name);

        let shader = Shader::find(variant.kernels[0], DType::F32).expect("it is compiled");
        let variations = variations(shader.spirv);
        assert!(variations.len() >= 4, "{}: {} variations", variant.name, variations.len());
        for (change, spirv) in variations {
            runner.workbench().pipelines.substitute(shader, spirv);
            let outcome = runner.run(&run, &mut Silent).remove(0).outcome;
            assert!(matches!(outcome, Outcome::Rejected(_)), "{} with {change}: {outcome:?}", variant.name);
        }
        runner.workbench().pipelines.restore();
        let restored = runner.run(&run, &mut Silent).remove(0).outcome;
        assert!(matches!(restored, Outcome::Measured(_)), "{} is right again", variant.name);
    }
}
