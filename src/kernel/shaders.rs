//! The compiled kernels: a table that `build.rs` writes from `glsl/` and its reflection.

use crate::basis::dtype::DType;

/// A kernel compiled for one element type, with everything the host must know to run it.
#[derive(Debug)]
pub struct Shader {
    /// `<algorithm>/<kernel>`: the path below `glsl/` without the extension.
    pub name: &'static str,
    /// The element type it was compiled for; `None` for a kernel without a `#pragma dtypes` line.
    pub dtype: Option<DType>,
    /// The SPIR-V binary; its pages stay on disk until a pipeline is made from it.
    pub spirv: &'static [u8],
    /// Invocations in a work-group along x, y, z.
    pub local_size: [Word; 3],
    /// The named specialization constants.
    pub constants: &'static [SpecConstant],
    /// The members of the push-constant block.
    pub arguments: &'static [Argument],
    /// The names of its texel views (`samplerBuffer`): bindings 0, 1, … of descriptor set 0, each a buffer seen as
    /// texels of four f32.
    pub views: &'static [&'static str],
    /// Bytes of shared memory, in reverse Polish notation over the specialization constants.
    pub shared: &'static [SizeOp],
    /// The SPIR-V capabilities that the kernel declares.
    pub capabilities: &'static [&'static str],
}

/// A 32-bit value known at build time, or set when the pipeline is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A constant of the shader.
    Literal(u32),
    /// A specialization constant.
    Constant {
        /// Its `constant_id`.
        id: u32,
        /// Its value when not set.
        default: u32,
    },
}

/// A named specialization constant: `layout(constant_id = ID) const uint NAME = …`.
#[derive(Debug)]
pub struct SpecConstant {
    /// The name in GLSL.
    pub name: &'static str,
    /// Its `constant_id`.
    pub id: u32,
}

/// One member of the push-constant block.
#[derive(Debug)]
pub struct Argument {
    /// The name in GLSL.
    pub name: &'static str,
    /// Bytes from the start of the block.
    pub offset: u32,
    /// What it holds.
    pub kind: ArgumentKind,
}

/// What a push-constant member holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A buffer reference: 8 bytes.
    Address,
    /// An unsigned integer: 4 bytes.
    U32,
    /// A float: 4 bytes.
    F32,
}

impl ArgumentKind {
    /// Bytes in the push-constant block.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Address => 8,
            Self::U32 | Self::F32 => 4,
        }
    }
}

/// One operation of a size in reverse Polish notation.
#[derive(Clone, Copy, Debug)]
pub enum SizeOp {
    /// Push a value.
    Push(Word),
    /// Replace the two topmost values by their sum.
    Add,
    /// Replace the two topmost values by their product.
    Mul,
    /// Replace the two topmost values by their difference.
    Sub,
    /// Replace the two topmost values by their quotient.
    Div,
    /// Replace the two topmost values by the larger.
    Max,
}

/// Values of specialization constants by `constant_id`, sorted by it.
pub type SpecValues = Vec<(u32, u32)>;

impl Word {
    /// Its value once `values` are set.
    #[must_use]
    pub fn value(self, values: &[(u32, u32)]) -> u32 {
        match self {
            Self::Literal(value) => value,
            Self::Constant { id, default } => {
                values.iter().find(|(constant, _)| *constant == id).map_or(default, |(_, value)| *value)
            }
        }
    }
}

impl Shader {
    /// The kernel `name` compiled for `dtype`, or compiled once for all types.
    #[must_use]
    pub fn find(name: &str, dtype: DType) -> Option<&'static Self> {
        SHADERS.iter().find(|shader| shader.name == name && shader.dtype.is_none_or(|d| d == dtype))
    }

    /// Bytes of the push-constant block.
    #[must_use]
    pub fn argument_bytes(&self) -> u32 {
        self.arguments.iter().map(|argument| argument.offset + argument.kind.bytes()).max().unwrap_or(0)
    }

    /// Bytes of shared memory that a work-group takes once the constants have `values`.
    ///
    /// # Panics
    /// When the table from `build.rs` is malformed; a test evaluates every entry.
    #[must_use]
    pub fn shared_bytes(&self, values: &[(u32, u32)]) -> u64 {
        let mut stack: Vec<u64> = vec![];
        for op in self.shared {
            if let SizeOp::Push(word) = op {
                stack.push(u64::from(word.value(values)));
                continue;
            }
            let (right, left) = stack.pop().zip(stack.pop()).expect("a binary operation has two operands");
            stack.push(match op {
                SizeOp::Add | SizeOp::Push(_) => left + right,
                SizeOp::Mul => left * right,
                SizeOp::Sub => left.saturating_sub(right),
                SizeOp::Div => left / right.max(1),
                SizeOp::Max => left.max(right),
            });
        }
        stack.pop().expect("a size has a value")
    }

    /// Name with the element type: `matmul/naive.f32`.
    #[must_use]
    pub fn label(&self) -> String {
        self.dtype.map_or_else(|| self.name.to_string(), |dtype| format!("{}.{dtype}", self.name))
    }
}

/// Every kernel for every element type, sorted by name.
pub static SHADERS: &[Shader] = include!(concat!(env!("OUT_DIR"), "/shaders.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shader_is_spirv_with_a_work_group_and_a_size_of_shared_memory() {
        for shader in SHADERS {
            assert_eq!(shader.spirv[..4], 0x0723_0203_u32.to_le_bytes(), "{}", shader.label());
            assert!(shader.local_size.iter().all(|size| size.value(&[]) > 0), "{}", shader.label());
            assert!(shader.shared_bytes(&[]) <= 32 << 10, "{}", shader.label());
        }
    }

    #[test]
    fn shared_memory_follows_the_work_group_that_a_specialization_constant_sets() {
        let shader = Shader::find("matmul/local-2d", DType::F32).expect("it is in glsl/matmul");
        let Word::Constant { id: x, .. } = shader.local_size[0] else { panic!("local_size_x_id") };
        let Word::Constant { id: y, .. } = shader.local_size[1] else { panic!("local_size_y_id") };
        assert_eq!(shader.shared_bytes(&[(x, 16), (y, 16)]), 2 * 16 * 16 * 4);
    }
}
