//! Whether a SPIR-V file of the user's can take the place of a kernel: what can be seen without a driver, which would
//! trust it. The answer is then verified like any other.

use crate::kernel::shaders::Shader;
use std::collections::BTreeSet;

const MAGIC: u32 = 0x0723_0203;
/// Words of the header.
const HEADER: usize = 5;
/// Largest file that is read: some hundred times the largest kernel here.
pub const MOST_BYTES: usize = 16 << 20;

// Opcodes and enumerants of the SPIR-V specification, sections 3.3, 3.20 and 3.42.
const OP_ENTRY_POINT: u16 = 15;
const OP_CAPABILITY: u16 = 17;
const OP_FUNCTION_END: u16 = 56;
const OP_DECORATE: u16 = 71;
const GL_COMPUTE: u32 = 5;
const SPEC_ID: u32 = 1;
const BINDING: u32 = 33;

/// What a module shows to the outside.
#[derive(Debug, Default)]
struct Interface {
    version: u32,
    entry_points: Vec<(u32, String)>,
    capabilities: BTreeSet<u32>,
    constants: BTreeSet<u32>,
    bindings: BTreeSet<u32>,
}

/// Checks that `bytes` may run in place of `kernel`.
///
/// # Errors
/// What is wrong, and what to do.
pub fn check(bytes: &[u8], kernel: &Shader) -> Result<(), String> {
    let found = read(bytes)?;
    let expected = read(kernel.spirv)?;
    match &found.entry_points[..] {
        [(GL_COMPUTE, name)] if name == "main" => {}
        [] => return Err("it has no entry point; compile a compute shader with `void main()`".into()),
        [(model, name), ..] => {
            return Err(format!(
                "its entry point is '{name}' of execution model {model}{}; compile one compute shader with `void main()`",
                if found.entry_points.len() > 1 { ", and it has others" } else { "" }
            ));
        }
    }
    if found.version > expected.version {
        let text = |version: u32| format!("{}.{}", version >> 16 & 0xff, version >> 8 & 0xff);
        return Err(format!(
            "it is SPIR-V {}, the kernel is {}; compile for that, as with --target-env",
            text(found.version),
            text(expected.version)
        ));
    }
    let list = |numbers: Vec<&u32>| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let more: Vec<_> = found.capabilities.difference(&expected.capabilities).collect();
    if !more.is_empty() {
        return Err(format!(
            "it needs SPIR-V capabilities that the kernel does not, and that the device may lack: {}; leave them out",
            list(more)
        ));
    }
    let missing: Vec<_> = expected.constants.difference(&found.constants).collect();
    if !missing.is_empty() {
        return Err(format!(
            "it lacks specialization constants of the kernel (constant_id {}); start from the source in glsl/",
            list(missing)
        ));
    }
    let more: Vec<_> = found.bindings.difference(&expected.bindings).collect();
    if !more.is_empty() {
        return Err(format!(
            "it has bindings that the kernel has not ({}); start from the source in glsl/",
            list(more)
        ));
    }
    Ok(())
}

fn read(bytes: &[u8]) -> Result<Interface, String> {
    if bytes.len() < 4 * HEADER || !bytes.len().is_multiple_of(4) {
        return Err(format!(
            "it has {} bytes, which SPIR-V has not; compile it, as with `glslc -o FILE.spv`",
            bytes.len()
        ));
    }
    let words: Vec<u32> = bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    if words[0] == MAGIC.swap_bytes() {
        return Err("its bytes are in the order of another machine; compile it for this one".into());
    }
    if words[0] != MAGIC {
        return Err("it is not SPIR-V: its first word is not the magic number; compile it, as with `glslc`".into());
    }
    let mut interface = Interface { version: words[1], ..Interface::default() };
    let (mut at, mut last) = (HEADER, 0);
    while at < words.len() {
        let (length, opcode) = ((words[at] >> 16) as usize, words[at] as u16);
        let operands = if length == 0 { None } else { words.get(at + 1..at + length) };
        let Some(operands) = operands else {
            return Err(format!("it is damaged at word {at}: an instruction reaches beyond its end"));
        };
        match (opcode, operands) {
            (OP_ENTRY_POINT, [model, _, name @ ..]) => interface.entry_points.push((*model, literal(name))),
            (OP_CAPABILITY, [capability]) => drop(interface.capabilities.insert(*capability)),
            (OP_DECORATE, [_, SPEC_ID, id]) => drop(interface.constants.insert(*id)),
            (OP_DECORATE, [_, BINDING, binding]) => drop(interface.bindings.insert(*binding)),
            _ => {}
        }
        last = opcode;
        at += length;
    }
    if last != OP_FUNCTION_END && !interface.entry_points.is_empty() {
        return Err("it is damaged: it does not end with the end of a function".into());
    }
    Ok(interface)
}

/// A literal string: bytes up to a zero.
fn literal(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::dtype::DType;

    fn kernel(name: &str) -> &'static Shader {
        Shader::find(name, DType::F32).expect("it is compiled")
    }

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn every_kernel_may_take_its_own_place() {
        for shader in crate::kernel::shaders::SHADERS {
            assert_eq!(check(shader.spirv, shader), Ok(()), "{}", shader.label());
        }
    }

    #[test]
    fn what_is_no_module_or_another_interface_is_refused_with_the_reason() {
        let naive = kernel("matmul/naive");
        let error = |bytes: &[u8]| check(bytes, naive).expect_err("refused");
        assert!(error(b"").contains("0 bytes"));
        assert!(error(b"#version 460 void main() {}!").contains("it is not SPIR-V"));
        assert!(error(&bytes(&[MAGIC.swap_bytes(), 0, 0, 0, 0])).contains("order of another machine"));
        assert!(error(&bytes(&[MAGIC, 0x1_0000, 0, 1, 0])).contains("no entry point"));
        assert!(error(&naive.spirv[..naive.spirv.len() - 4]).contains("does not end with the end of a function"));
        let at = entry_point(naive.spirv);
        assert!(error(&naive.spirv[..4 * (at + 2)]).contains(&format!("is damaged at word {at}")));
        assert!(error(&bytes(&[MAGIC, 0x1_0000, 0, 1, 0, 0])).contains("is damaged at word 5"));
        assert!(error(kernel("matmul/texel").spirv).contains("; "), "it has views");
        let mut newer = naive.spirv.to_vec();
        newer[6] = 1;
        newer[5] = 9;
        assert!(error(&newer).contains("it is SPIR-V 1.9"), "{}", error(&newer));
        let mut vertex = naive.spirv.to_vec();
        vertex[4 * (at + 1)] = 0;
        assert!(error(&vertex).contains("execution model 0"), "{}", error(&vertex));
        assert!(error(kernel("matmul/naive-column").spirv).contains("lacks specialization constants of the kernel"));
    }

    /// The word at which the entry point is declared.
    fn entry_point(spirv: &[u8]) -> usize {
        let words: Vec<u32> = spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        let mut at = HEADER;
        while words[at] as u16 != OP_ENTRY_POINT {
            at += (words[at] >> 16) as usize;
        }
        at
    }
}
