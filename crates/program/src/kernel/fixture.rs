//! Values of dispatches, for tests.

use super::interface::{ArgumentKind, Scalar};
use super::program::{ArgumentValue, Dispatch};

impl Dispatch {
    /// Returns the value of an argument of a built-in kernel; `None` if it has no such argument.
    pub fn value(&self, name: &str) -> Option<ArgumentValue> {
        let argument = self.shader.interface.arguments.iter().find(|argument| argument.name == name)?;
        if let Some(address) = self.addresses.iter().find(|address| address.offset == argument.offset) {
            return Some(ArgumentValue::Buffer(address.buffer));
        }
        let word = self.push.get(argument.offset as usize..)?.first_chunk()?;
        Some(match argument.kind {
            ArgumentKind::Scalar(Scalar::Float { .. }) => ArgumentValue::F32(f32::from_le_bytes(*word)),
            _ => ArgumentValue::U32(u32::from_le_bytes(*word)),
        })
    }

    /// Returns the value of the integer argument `name`.
    pub fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(ArgumentValue::U32(number)) => number.into(),
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Iterates over the argument values of a built-in kernel, in the order of its push-constant block.
    pub fn values(&self) -> impl Iterator<Item = ArgumentValue> {
        self.shader.interface.arguments.iter().filter_map(|argument| self.value(&argument.name))
    }

    /// Returns the value of the 32-bit specialization constant `id`, if it is set.
    pub fn word(&self, id: u32) -> Option<u32> {
        self.constants.iter().find(|constant| constant.id == id).map(|constant| constant.bits as u32)
    }

    /// Returns the value of the specialization constant `name`, if the kernel has it and it is set.
    pub fn constant_value(&self, name: &str) -> Option<u64> {
        let constant = self.shader.interface.constants.iter().find(|constant| constant.name == name)?;
        self.word(constant.id).map(u64::from)
    }
}
