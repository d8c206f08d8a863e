//! Built-in kernels: the table that `build.rs` generates from `glsl/`.

use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::kernel::interface::{
    Argument, ArgumentKind, Block, Elements, Interface, Scalar, SizeOp, Slot, SlotKind, SpecConstant, Word,
};
use crate::kernel::shaders::{Kernels, Shader};
use std::borrow::Cow;

/// Built-in kernels, one entry per element type and layout, sorted by name.
pub static SHADERS: &[Shader] = include!(concat!(env!("OUT_DIR"), "/shaders.rs"));

/// Refers to built-in kernels by their names.
pub const fn built_in(names: &'static [&'static str]) -> Kernels {
    Kernels { names, table: &SHADERS }
}

/// Finds the built-in kernel `name` for `dtype` and row-major operands; kernels compiled for all types match any.
pub fn find(name: &str, dtype: DType) -> Option<&'static Shader> {
    SHADERS.iter().find(|shader| shader.is(name, dtype, Layout::Nn))
}

// Part of `build.rs`, included here for its tests.
#[cfg(test)]
#[path = "../../../build/pragmas.rs"]
mod pragmas;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::{Feature, requirement};
    use crate::kernel::buffer::SpecValue;
    use crate::kernel::instructions::instructions;

    #[test]
    fn every_shader_is_spirv_with_a_work_group_and_a_size_of_shared_memory() {
        for shader in SHADERS {
            assert_eq!(shader.spirv[..4], 0x0723_0203_u32.to_le_bytes(), "{}", shader.label());
            assert!(shader.interface.local_size.iter().all(|size| size.value(&[]) > 0), "{}", shader.label());
            assert!(shader.shared_bytes(&[]) <= 32 << 10, "{}", shader.label());
        }
    }

    #[test]
    fn what_is_read_at_run_time_is_what_the_build_read() {
        for shader in SHADERS {
            assert_eq!(Interface::read_built_in(&shader.spirv).as_ref(), Ok(&shader.interface), "{}", shader.label());
        }
    }

    #[test]
    fn every_instruction_of_a_function_has_a_source_line() {
        const OP_FUNCTION: u32 = 54;
        for shader in SHADERS {
            let lines = shader.lines();
            let words: Vec<u32> = shader.spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
            let functions = instructions(&words).flatten().skip_while(|known| known.words[0] & 0xffff != OP_FUNCTION);
            for instruction in functions {
                let (file, line) = lines.at(instruction.at).unwrap_or_default();
                assert!(file.starts_with("glsl") && line > 0, "{} at word {}", shader.label(), instruction.at);
            }
        }
    }

    #[test]
    fn shared_memory_follows_the_work_group_that_a_specialization_constant_sets() {
        let shader = find("matmul/local-2d", DType::F32).expect("it is in glsl/matmul");
        let Word::Constant { id: x, .. } = shader.interface.local_size[0] else { panic!("local_size_x_id") };
        let Word::Constant { id: y, .. } = shader.interface.local_size[1] else { panic!("local_size_y_id") };
        assert_eq!(shader.shared_bytes(&[SpecValue::word(x, 16), SpecValue::word(y, 16)]), 2 * 16 * 16 * 4);
    }

    #[test]
    fn every_capability_and_feature_of_every_shader_is_in_the_table() {
        for shader in SHADERS {
            for name in shader.interface.capabilities.iter() {
                assert!(requirement(name).is_some(), "{}: capability {name} is unknown", shader.label());
            }
            for name in shader.interface.features.iter() {
                let is_listed = Feature::ALL.iter().any(|feature| feature.name() == name);
                assert!(is_listed, "{}: feature {name} is unknown", shader.label());
            }
        }
    }
}
