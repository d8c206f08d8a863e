//! Mismatches between a kernel and the values that it is given.

use super::reflection::ArgumentKind;
use super::shaders::Shader;
use thiserror::Error;

/// The reason why a dispatch cannot be made of a kernel and values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Mismatch {
    /// An argument of the kernel has no value.
    #[error("{kernel} takes the argument '{argument}', which has no value; give it one")]
    Missing {
        /// The kernel with its element type.
        kernel: String,
        argument: String,
    },
    /// A value is for an argument that the kernel does not have.
    #[error("{kernel} has no argument '{argument}'; available: {available}")]
    Unknown {
        /// The kernel with its element type.
        kernel: String,
        argument: String,
        /// The arguments that it has.
        available: String,
    },
    /// An argument has two values.
    #[error("the argument '{argument}' of {kernel} has two values; leave one out")]
    Twice {
        /// The kernel with its element type.
        kernel: String,
        argument: String,
    },
    /// A value is of another kind than its argument.
    #[error("the argument '{argument}' of {kernel} is {expected}, not {given}")]
    Kind {
        /// The kernel with its element type.
        kernel: String,
        argument: String,
        /// The kind that the kernel declares, in words.
        expected: &'static str,
        /// The kind of the value, in words.
        given: &'static str,
    },
    /// The kernel fixes an extent of its work-groups to another value.
    #[error("{kernel} fixes its work-groups to {fixed} invocations along {axis}, not {wanted}; leave them so")]
    GroupSize {
        /// The kernel with its element type.
        kernel: String,
        /// The extent that was asked for.
        wanted: u32,
        /// The extent that the kernel fixes.
        fixed: u32,
        /// The axis: x, y or z.
        axis: char,
    },
    /// The kernel has no such specialization constant.
    #[error("{kernel} has no specialization constant '{constant}'; available: {available}")]
    Constant {
        /// The kernel with its element type.
        kernel: String,
        constant: String,
        /// The constants that it has.
        available: String,
    },
}

impl Mismatch {
    /// A value for `argument`, which `shader` does not have.
    pub(super) fn unknown(shader: &Shader, argument: &str) -> Self {
        let arguments = shader.interface.arguments.iter().map(|argument| &*argument.name);
        let available = listed(arguments.chain(shader.interface.views.iter().map(|view| &**view)));
        Self::Unknown { kernel: shader.label(), argument: argument.into(), available }
    }

    /// A value for `constant`, which `shader` does not have.
    pub(super) fn constant(shader: &Shader, constant: &str) -> Self {
        let available = listed(shader.interface.constants.iter().map(|constant| &*constant.name));
        Self::Constant { kernel: shader.label(), constant: constant.into(), available }
    }
}

/// The kind of a value, in words.
pub(super) fn in_words(kind: ArgumentKind) -> &'static str {
    match kind {
        ArgumentKind::Address => "a buffer",
        ArgumentKind::U32 => "an integer",
        ArgumentKind::F32 => "a float",
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
