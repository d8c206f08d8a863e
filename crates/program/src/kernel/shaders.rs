//! Compiled kernels, with the interface that reflection finds in them.

use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::layout::Layout;
use crate::kernel::buffer::SpecValue;
use crate::kernel::interface::{Interface, SizeOp, Word};
use crate::kernel::lines::{Lines, code};
use std::borrow::Cow;
use std::collections::BTreeSet;

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
    /// Encoded source lines of a binary without debug information; empty if there are none.
    pub line_table: Cow<'static, [u8]>,
    /// Interface that the binary declares.
    pub interface: Interface,
    /// Whether the kernel comes from `glsl/`, as opposed to the user.
    pub built_in: bool,
}

/// Kernels of a variant: their names, and the table that has them compiled for each element type and layout.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// Names, in the order in which the variant's program takes them.
    pub names: &'static [&'static str],
    /// Compiled kernels of the program that offers the variant.
    pub table: &'static &'static [Shader],
}

impl Kernels {
    /// No kernels: a user's variant brings its own.
    pub const NONE: Self = Self { names: &[], table: &(&[] as &[Shader]) };

    /// Returns the kernels compiled for `dtype` and `layout`, if all of them are. Panics if no kernel has such a name:
    /// a typing error in `owner`, which must not look like an unsupported type.
    pub fn compiled(self, dtype: DType, layout: Layout, owner: impl Fn() -> String) -> Option<Vec<&'static Shader>> {
        let mut shaders = vec![];
        for name in self.names {
            if !self.table.iter().any(|shader| shader.name == *name) {
                let folder = name.split_once('/').map_or("", |(folder, _)| folder);
                let names: BTreeSet<_> = self.table.iter().map(|shader| &*shader.name).collect();
                let in_folder: Vec<_> =
                    names.into_iter().filter(|own| own.starts_with(&format!("{folder}/"))).collect();
                panic!("{}", error::unknown("kernel", name, &format!(" of {} in glsl/", owner()), &in_folder));
            }
            shaders.push(self.table.iter().find(|shader| shader.is(name, dtype, layout)));
        }
        shaders.into_iter().collect()
    }
}

impl Word {
    /// Returns the value under these specialization constants: the default where `values` has none with this id.
    pub fn value(self, values: &[SpecValue]) -> u32 {
        match self {
            Self::Literal(value) => value,
            Self::Constant { id, default } => match values.iter().find(|value| value.id == id) {
                Some(value) => value.bits as u32,
                None => default,
            },
        }
    }
}

impl Shader {
    /// Whether this is the kernel `name`, compiled for `dtype` and `layout`, or for all types or layouts.
    pub fn is(&self, name: &str, dtype: DType, layout: Layout) -> bool {
        self.name == name
            && self.dtype.is_none_or(|required| required == dtype)
            && self.layout.is_none_or(|required| required == layout)
    }

    /// Returns the bytes of shared memory per work-group if the specialization constants have `values`. Reflection
    /// rules out a malformed expression; a test evaluates every entry of the table.
    pub fn shared_bytes(&self, values: &[SpecValue]) -> u64 {
        let mut stack: Vec<u64> = vec![];
        for op in self.interface.shared.iter() {
            if let SizeOp::Push(word) = op {
                stack.push(u64::from(word.value(values)));
                continue;
            }
            let right = stack.pop().expect("a binary operation has two operands");
            let left = stack.pop().expect("a binary operation has two operands");
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

    /// Returns the source lines of the binary: a built-in kernel's from the table, a user's from its debug information.
    pub fn lines(&self) -> Lines {
        if !self.line_table.is_empty() {
            return Lines::decode(&self.line_table);
        }
        Lines::read(&self.words())
    }

    pub fn words(&self) -> Vec<u32> {
        let words = self.spirv.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        words.collect()
    }

    /// Whether the kernel declares a SPIR-V capability.
    pub fn declares(&self, capability: &str) -> bool {
        self.interface.capabilities.iter().any(|declared| declared == capability)
    }

    /// Returns the name with the element type and any layout other than row-major: `matmul/naive.f32`,
    /// `matmul/tiled.f32.nt`.
    pub fn label(&self) -> String {
        let dtype = self.dtype.map_or_else(String::new, |dtype| format!(".{dtype}"));
        let layout = self.layout.and_then(Layout::unusual).map_or_else(String::new, |layout| format!(".{layout}"));
        format!("{}{dtype}{layout}", self.name)
    }
}
/// Whether two modules differ in nothing but names, lines and sources.
pub fn is_same_code(a: &[u32], b: &[u32]) -> bool {
    let words = |module| code(module).map(|instruction| instruction.map(|code| code.words));
    words(a).eq(words(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::instructions::MAGIC;

    #[test]
    fn names_and_lines_are_no_code() {
        let module = |rest: &[u32]| [&[MAGIC, 0x1_0500, 0, 9, 0], rest].concat();
        let [name, capability, other] = [[0x3_0005, 7, 0x61].as_slice(), &[0x2_0011, 1], &[0x2_0011, 5]];
        let [bare, named] = [module(capability), module(&[name, capability].concat())];
        assert!(is_same_code(&bare, &named) && !is_same_code(&module(other), &named));
    }
}
