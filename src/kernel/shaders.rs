//! Compiled kernels: the table that `build.rs` generates from `glsl/`, with each kernel's reflected interface.

use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::kernel::buffer::SpecValue;
use crate::kernel::interface::{
    Argument, ArgumentKind, Block, Interface, Scalar, SizeOp, Slot, SlotKind, SpecConstant, Word,
};
use std::borrow::Cow;

/// Compiled kernel with everything that the host must know to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// Name; in the table `<algorithm>/<kernel>`, the path below `glsl/` without the extension.
    pub name: Cow<'static, str>,
    /// Element type it was compiled for; `None` for a kernel without a `#pragma dtypes` line.
    pub dtype: Option<DType>,
    /// Operand layout it was compiled for; `None` for a kernel without a `#pragma layouts` line.
    pub layout: Option<Layout>,
    /// SPIR-V binary. The table's binaries stay in the executable file and are read into memory when first used.
    pub spirv: Cow<'static, [u8]>,
    /// Interface that the binary declares.
    pub interface: Interface,
    /// Whether the kernel comes from `glsl/`, as opposed to the user.
    pub built_in: bool,
}

impl Word {
    /// Returns the value if the specialization constants have `values`.
    #[must_use]
    pub fn value(self, values: &[SpecValue]) -> u32 {
        match self {
            Self::Literal(value) => value,
            Self::Constant { id, default } => {
                values.iter().find(|value| value.id == id).map_or(default, |value| value.bits as u32)
            }
        }
    }
}

impl Shader {
    /// Finds the kernel `name` for `dtype` and row-major operands; kernels compiled for all types match any.
    #[must_use]
    pub fn find(name: &str, dtype: DType) -> Option<&'static Self> {
        Self::find_for(name, dtype, Layout::Nn)
    }

    /// Finds the kernel `name` for `dtype` and `layout`; kernels compiled for all types or layouts match any.
    #[must_use]
    pub fn find_for(name: &str, dtype: DType, layout: Layout) -> Option<&'static Self> {
        let fits = |shader: &&Self| {
            shader.name == name
                && shader.dtype.is_none_or(|required| required == dtype)
                && shader.layout.is_none_or(|required| required == layout)
        };
        SHADERS.iter().find(fits)
    }

    /// Returns the bytes of shared memory per work-group if the specialization constants have `values`.
    ///
    /// # Panics
    /// When the expression is malformed, which reflection rules out; a test evaluates every entry of the table.
    #[must_use]
    pub fn shared_bytes(&self, values: &[SpecValue]) -> u64 {
        let mut stack: Vec<u64> = vec![];
        for op in self.interface.shared.iter() {
            if let SizeOp::Push(word) = op {
                stack.push(u64::from(word.value(values)));
                continue;
            }
            let (right, left) = stack.pop().zip(stack.pop()).expect("a binary operation has two operands");
            stack.push(match op {
                SizeOp::Add | SizeOp::Push(_) => left.saturating_add(right),
                SizeOp::Mul => left.saturating_mul(right),
                SizeOp::Sub => left.saturating_sub(right),
                SizeOp::Div => left / right.max(1),
                SizeOp::Max => left.max(right),
            });
        }
        stack.pop().expect("a size has a value")
    }

    /// Whether the kernel declares a SPIR-V capability.
    #[must_use]
    pub fn declares(&self, capability: &str) -> bool {
        self.interface.capabilities.iter().any(|declared| declared == capability)
    }

    /// Returns the name with the element type and any layout other than row-major: `matmul/naive.f32`,
    /// `matmul/tiled.f32.nt`.
    #[must_use]
    pub fn label(&self) -> String {
        let dtype = self.dtype.map_or_else(String::new, |dtype| format!(".{dtype}"));
        let layout = self.layout.and_then(Layout::unusual).map_or_else(String::new, |layout| format!(".{layout}"));
        format!("{}{dtype}{layout}", self.name)
    }
}

/// Built-in kernels, one entry per element type and layout, sorted by name.
pub(crate) static SHADERS: &[Shader] = include!(concat!(env!("OUT_DIR"), "/shaders.rs"));

// Part of `build.rs`, included here for its tests.
#[cfg(test)]
#[path = "../../build/pragmas.rs"]
mod pragmas;

#[cfg(test)]
mod tests {
    use super::*;

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
    fn shared_memory_follows_the_work_group_that_a_specialization_constant_sets() {
        let shader = Shader::find("matmul/local-2d", DType::F32).expect("it is in glsl/matmul");
        let Word::Constant { id: x, .. } = shader.interface.local_size[0] else { panic!("local_size_x_id") };
        let Word::Constant { id: y, .. } = shader.interface.local_size[1] else { panic!("local_size_y_id") };
        assert_eq!(shader.shared_bytes(&[SpecValue::word(x, 16), SpecValue::word(y, 16)]), 2 * 16 * 16 * 4);
    }
}
