//! Compiled kernels: the table that `build.rs` writes from `glsl/` and its reflection, and what a driver makes of one.

use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::basis::units::{Bytes, Metric, Nanos};
use crate::kernel::buffer::SpecValue;
use crate::kernel::interface::{
    Argument, ArgumentKind, Block, Interface, Scalar, SizeOp, Slot, SlotKind, SpecConstant, Word,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A kernel with everything the host must know to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// The name; in the table `<algorithm>/<kernel>`, the path below `glsl/` without the extension.
    pub name: Cow<'static, str>,
    /// The element type it was compiled for; `None` for a kernel without a `#pragma dtypes` line.
    pub dtype: Option<DType>,
    /// The layout of operands it was compiled for; `None` for a kernel without a `#pragma layouts` line.
    pub layout: Option<Layout>,
    /// The SPIR-V binary; in the table, its pages stay on disk until a pipeline is made from it.
    pub spirv: Cow<'static, [u8]>,
    /// The interface that the binary declares.
    pub interface: Interface,
    /// Whether it is one of `glsl/`, not a user's.
    pub built_in: bool,
}

/// A kernel as the device runs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Kernel"))]
pub struct CompiledKernel {
    /// Its name with its element type: `matmul/naive.f32`.
    pub name: String,
    /// A hash of its SPIR-V and specialization constants: another hash is another program.
    pub hash: String,
    /// What the driver tells of its compilation (`VK_KHR_pipeline_executable_properties`): registers, spills, ….
    #[serde(default)]
    pub statistics: Vec<Metric>,
    /// What `inspect` found beside them; absent where the kernel ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspection>,
}

/// What it takes to create the pipeline of a kernel, and what the driver shows of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Inspection {
    /// Host time to create the pipeline with an empty pipeline cache.
    pub created: Nanos,
    /// The same once that cache has it.
    pub cached: Nanos,
    /// Bytes of shared memory that the kernel declares for a work-group.
    pub shared: Bytes,
    /// The sub-group size that was required of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroup_size: Option<u32>,
    /// The driver's internal representations, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<Representation>,
}

/// A stage of a driver's compiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Representation {
    /// The driver's name for it: `Assembly`, `NIR Shader(s)`.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Representation {
    /// Whether it is what the device executes, not a stage before it.
    #[must_use]
    pub fn is_isa(&self) -> bool {
        let name = self.name.to_lowercase();
        ["assembly", "disassembly", "isa", "sass", "machine code"].iter().any(|word| name.contains(word))
    }
}

impl CompiledKernel {
    /// Its name, or the file of a user's, whose versions have numbers: `sum.comp` of `sum/sum.comp#0`.
    #[must_use]
    pub fn source(&self) -> &str {
        let path = self.name.rsplit_once('#').map(|(path, _)| path);
        path.map_or(&self.name, |path| path.rsplit_once('/').map_or(path, |(_, file)| file))
    }

    /// Whether it is a user's.
    #[must_use]
    pub fn is_users(&self) -> bool {
        self.name.contains('#')
    }
}

impl Word {
    /// The value of the word once `values` are set.
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
    /// The kernel `name` compiled for `dtype` and row-major operands, or compiled once for all types.
    #[must_use]
    pub fn find(name: &str, dtype: DType) -> Option<&'static Self> {
        Self::find_for(name, dtype, Layout::Nn)
    }

    /// The kernel `name` compiled for `dtype` and `layout`, or compiled once for all of either.
    #[must_use]
    pub fn find_for(name: &str, dtype: DType, layout: Layout) -> Option<&'static Self> {
        let fits = |shader: &&Self| {
            shader.name == name
                && shader.dtype.is_none_or(|own| own == dtype)
                && shader.layout.is_none_or(|own| own == layout)
        };
        SHADERS.iter().find(fits)
    }

    /// Bytes of shared memory that a work-group takes once the constants have `values`.
    ///
    /// # Panics
    /// When the expression is malformed, which reflection never makes; a test evaluates every entry of the table.
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

    /// Whether it declares a SPIR-V capability.
    #[must_use]
    pub fn declares(&self, capability: &str) -> bool {
        self.interface.capabilities.iter().any(|declared| declared == capability)
    }

    /// Name with the element type and the layout, where that is unusual: `matmul/naive.f32`, `matmul/tiled.f32.nt`.
    #[must_use]
    pub fn label(&self) -> String {
        let dtype = self.dtype.map_or_else(String::new, |dtype| format!(".{dtype}"));
        let layout = self.layout.and_then(Layout::unusual).map_or_else(String::new, |layout| format!(".{layout}"));
        format!("{}{dtype}{layout}", self.name)
    }
}

/// Every kernel for every element type, sorted by name.
pub(crate) static SHADERS: &[Shader] = include!(concat!(env!("OUT_DIR"), "/shaders.rs"));

// Part of `build.rs`, here for its tests.
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
