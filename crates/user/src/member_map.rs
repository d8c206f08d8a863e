//! Layout of a buffer as kernels declare it: padding, and integers in structures with floats.

use super::structure::structures;
use crate::kernel::interface::{ArgumentKind, Block, Scalar};
use std::borrow::Cow;

/// Kind of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ByteKind {
    /// Padding between members, which kernels do not write.
    Padding,
    /// Integer member of a structure that also has floats.
    Integer { signed: bool },
    /// Any other member.
    Number,
}

/// Most bytes of a block, or of an array element, that are classified.
const MAX_BYTES: u64 = 1 << 16;

/// Bytes of a block at an offset in a buffer: those before the array at its end, and those of each element.
#[derive(Clone, Debug, PartialEq)]
struct BlockLayout {
    offset: u64,
    fixed: Vec<ByteKind>,
    element: Vec<ByteKind>,
}

impl BlockLayout {
    /// Returns the kind of a byte of the buffer; `None` outside of the block.
    fn byte(&self, index: u64) -> Option<ByteKind> {
        let index = index.checked_sub(self.offset)? as usize;
        match index.checked_sub(self.fixed.len()) {
            None => Some(self.fixed[index]),
            Some(_) if self.element.is_empty() => None,
            Some(index) => Some(self.element[index % self.element.len()]),
        }
    }
}

/// Layout of a buffer from the blocks that bind it. Without known blocks, every byte is a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberMap {
    blocks: Vec<BlockLayout>,
    /// Whether an unknown block or an address may access any byte.
    open: bool,
}

impl MemberMap {
    /// Adds a block at byte `offset` of the buffer.
    pub(super) fn add(&mut self, block: &Block, offset: u64) {
        let (start, stride, members) = structures(block);
        if members.is_empty() || start > MAX_BYTES || stride > MAX_BYTES {
            return self.open();
        }
        let has = |is_kind: fn(&ArgumentKind) -> bool| members.iter().any(|member| is_kind(&member.kind));
        let is_mixed = has(|kind| matches!(kind, ArgumentKind::Scalar(Scalar::Int { .. })))
            && has(|kind| matches!(kind, ArgumentKind::Scalar(Scalar::Float { .. } | Scalar::Bfloat16)));
        let mut fixed = vec![ByteKind::Padding; start as usize];
        let mut element = vec![ByteKind::Padding; stride as usize];
        for member in members {
            let kind = match member.kind {
                ArgumentKind::Scalar(Scalar::Int { signed, .. }) if is_mixed => ByteKind::Integer { signed },
                _ => ByteKind::Number,
            };
            let offset = member.offset as usize;
            let (part, offset) =
                if offset < fixed.len() { (&mut fixed, offset) } else { (&mut element, offset - start as usize) };
            // In a damaged file, members may exceed their part.
            part.iter_mut().skip(offset).take(member.kind.bytes() as usize).for_each(|byte| *byte = kind);
        }
        self.blocks.push(BlockLayout { offset, fixed, element });
    }

    /// Marks the buffer as accessed through an address or an unknown block.
    pub(super) fn open(&mut self) {
        self.open = true;
    }

    /// Returns the number of elements, of `bytes` each, in a structure or vector, if the buffer is an array of these.
    pub(super) fn period(&self, bytes: usize) -> Option<usize> {
        let stride = self.blocks.first()?.element.len();
        let is_array =
            |block: &BlockLayout| block.offset == 0 && block.fixed.is_empty() && block.element.len() == stride;
        if self.open || !self.blocks.iter().all(is_array) || !stride.is_multiple_of(bytes) || stride <= bytes {
            return None;
        }
        Some(stride / bytes)
    }

    /// Whether every byte is a number.
    pub(super) fn is_plain(&self) -> bool {
        let mut bytes = self.blocks.iter().flat_map(|block| block.fixed.iter().chain(&block.element));
        self.open || bytes.all(|byte| *byte == ByteKind::Number)
    }

    /// Returns the kind of a byte; of several blocks, the one with the most specific kind decides.
    fn byte(&self, index: u64) -> ByteKind {
        self.blocks.iter().filter_map(|block| block.byte(index)).max().unwrap_or(ByteKind::Number)
    }

    /// Returns the kind of an element of `bytes` bytes. A member may cover it only in part.
    pub(super) fn kind(&self, index: usize, bytes: usize) -> ByteKind {
        let start = (index * bytes) as u64;
        (start..start + bytes as u64).map(|index| self.byte(index)).max().unwrap_or(ByteKind::Number)
    }

    /// Returns the contents with zeros in place of padding.
    pub(super) fn without_padding<'a>(&self, contents: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_plain() {
            return contents.into();
        }
        let mut contents = contents.to_vec();
        for (index, byte) in (0..).zip(&mut contents) {
            if self.byte(index) == ByteKind::Padding {
                *byte = 0;
            }
        }
        contents.into()
    }
}
