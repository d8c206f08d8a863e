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
    let error = |bytes: &[u8]| check(bytes, naive).expect_err("refused");
    assert!(error(b"").contains("0 bytes"));
    assert!(error(b"#version 460 void main() {}!").contains("it is not SPIR-V"));
    assert!(error(&bytes(&[MAGIC.swap_bytes(), 0, 0, 0, 0])).contains("byte order is another machine's"));
    assert!(error(&bytes(&[MAGIC, 0x1_0000, 0, 1, 0])).contains("no entry point"));
    assert!(error(&naive.spirv[..naive.spirv.len() - 4]).contains("does not end after a function"));
    let functions = naive.spirv.chunks_exact(4).position(|word| *word == 0x5_0036u32.to_le_bytes());
    let declarations = &naive.spirv[..4 * functions.expect("it has a function")];
    assert!(error(declarations).contains("does not end after a function"));
    let at = entry_point(&naive.spirv);
    assert!(error(&naive.spirv[..4 * (at + 2)]).contains(&format!("is damaged at word {at}")));
    assert!(error(&bytes(&[MAGIC, 0x1_0000, 0, 1, 0, 0])).contains("is damaged at word 5"));
    assert!(error(&kernel("matmul/texel").spirv).contains("; "), "it has views");
    let mut newer = naive.spirv.to_vec();
    newer[6] = 1;
    newer[5] = 9;
    assert!(error(&newer).contains("it is SPIR-V 1.9"), "{}", error(&newer));
    let mut vertex = naive.spirv.to_vec();
    vertex[4 * (at + 1)] = 0;
    assert!(error(&vertex).contains("execution model 0"), "{}", error(&vertex));
    assert!(error(&kernel("matmul/naive-column").spirv).contains("lacks the kernel's specialization constants"));
}

#[test]
fn an_argument_elsewhere_is_refused() {
    let naive = kernel("matmul/naive");
    let words: Vec<u32> = naive.spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    // The last of the block's `OpMemberDecorate … Offset 32`: five words, opcode 72.
    let at = words.windows(5).position(|w| w[0] == 0x5_0048 && w[3..] == [35, 32]).expect("K is at byte 32");
    let mut moved = words.clone();
    moved[at + 4] = 36;
    let error = check(&bytes(&moved), naive).expect_err("refused");
    assert!(error.contains("('K' at byte 36 of the push constants)"), "{error}");
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
