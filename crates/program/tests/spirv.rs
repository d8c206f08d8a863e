//! A user's SPIR-V in place of a built-in kernel's: taken, or refused with the reason.

use gpukern_model::basis::dtype::DType;
use gpukern_program::kernel::instructions::{MAGIC, instructions};
use gpukern_program::kernel::interface::Interface;
use gpukern_program::kernel::shaders::Shader;
use gpukern_program::kernel::spirv::check;
use rspirv::spirv::Op;

fn kernel(name: &str) -> &'static Shader {
    gpukern_kernels::shaders::find(name, DType::F32).expect("it is compiled")
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn every_kernel_may_take_its_own_place() {
    for shader in gpukern_kernels::shaders::SHADERS {
        assert_eq!(check(&shader.spirv, shader), Ok(()), "{}", shader.label());
    }
}

#[test]
fn what_is_no_module_or_another_interface_is_refused_with_the_reason() {
    let naive = kernel("matmul/naive");
    let words: Vec<u32> = naive.spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    let functions = words.iter().position(|word| *word == 0x5_0036).expect("it has a function");
    let entry = entry_point(&naive.spirv);
    // The last of the block's `OpMemberDecorate … Offset 32`: five words, opcode 72.
    let k = words.windows(5).position(|w| w[0] == 0x5_0048 && w[3..] == [35, 32]).expect("K is at byte 32");
    let cut = |words: usize| naive.spirv[..4 * words].to_vec();
    let changed = |byte: usize, value| {
        let mut other = naive.spirv.to_vec();
        other[byte] = value;
        other
    };
    let said = [
        ("nothing", vec![]),
        ("GLSL", b"#version 460 void main() {}!".to_vec()),
        ("other byte order", bytes(&[MAGIC.swap_bytes(), 0, 0, 0, 0])),
        ("header", bytes(&[MAGIC, 0x1_0000, 0, 1, 0])),
        ("header and zero", bytes(&[MAGIC, 0x1_0000, 0, 1, 0, 0])),
        ("without its last word", cut(words.len() - 1)),
        ("declarations", cut(functions)),
        ("cut in its entry point", cut(entry + 2)),
        ("texel views", kernel("matmul/texel").spirv.to_vec()),
        ("newer version", changed(5, 9)),
        ("vertex shader", changed(4 * (entry + 1), 0)),
        ("other constants", kernel("matmul/naive-column").spirv.to_vec()),
        ("argument elsewhere", changed(4 * (k + 4), 36)),
    ]
    .map(|(name, file)| format!("{name}: {}", check(&file, naive).expect_err(name)));
    insta::assert_snapshot!(said.join("\n").replace(&format!("word {entry}"), "word ENTRY"), @"
    nothing: its size, 0 bytes, is impossible for SPIR-V; compile it, for example with `glslc -o FILE.spv`
    GLSL: it is not SPIR-V: its first word is not the magic number; compile it, for example with `glslc`
    other byte order: its byte order is another machine's; compile it for this one
    header: it has no entry point; compile a compute shader with `void main()`
    header and zero: it is damaged at word 5: an instruction reaches beyond its end
    without its last word: it is damaged: it does not end after a function
    declarations: it is damaged: it does not end after a function
    cut in its entry point: it is damaged at word ENTRY: an instruction reaches beyond its end
    texel views: it needs SPIR-V capabilities that the kernel does not need and the device may lack: SampledBuffer, GroupNonUniform, GroupNonUniformShuffle; remove them
    newer version: it is SPIR-V 1.9, but the kernel is 1.5; compile for that version, for example with --target-env
    vertex shader: its entry point is 'main' of execution model 0; compile one compute shader with `void main()`
    other constants: it lacks the kernel's specialization constants (constant_id 1); start from the source in glsl/
    argument elsewhere: it has an argument that the kernel lacks ('K' at byte 36 of the push constants); start from the source in glsl/
    ");
}

#[test]
fn no_word_of_a_file_makes_the_reader_panic() {
    for name in ["matmul/texel", "matmul/split"] {
        let words: Vec<u32> = kernel(name).spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        // Words after the first OpFunction, an instruction of five words, are not read.
        let functions = words.iter().position(|word| *word == 0x5_0036);
        for at in 1..functions.expect("it has a function") {
            let word = words[at];
            for other in [0, word ^ 1, word ^ 1 << 16, words[at - 1], u32::MAX] {
                let mut hostile = words.clone();
                hostile[at] = other;
                if let Ok(interface) = Interface::read_built_in(&bytes(&hostile)) {
                    let shader = Shader { interface, ..kernel(name).clone() };
                    let _ =
                        (shader.shared_bytes(&[]), shader.interface.argument_bytes(), check(&bytes(&hostile), &shader));
                }
            }
        }
    }
}

/// Returns the word index of the entry point's declaration.
fn entry_point(spirv: &[u8]) -> usize {
    let words: Vec<u32> = spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    let found = instructions(&words).flatten().find(|instruction| instruction.op() == Some(Op::EntryPoint));
    found.expect("it has one").at
}
