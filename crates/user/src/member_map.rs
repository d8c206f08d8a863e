//! Layout of a buffer as kernels declare it: padding, and integers in structures with floats.

use crate::kernel::interface::{Argument, ArgumentKind, Block, Scalar};
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

/// Layout of a buffer from the blocks that bind it. Without known blocks, every byte is a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberMap {
    views: Vec<BlockLayout>,
    /// Whether an unknown block or an address may access any byte.
    open: bool,
}

impl MemberMap {
    /// Adds a block at byte `offset` of the buffer.
    pub(super) fn add(&mut self, block: &Block, offset: u64) {
        let (start, stride, members) = match &block.long {
            Some(long) => (long.start, long.stride, &long.first[..]),
            None => (block.fixed, block.array.map_or(0, |array| array.stride), &*block.members),
        };
        if members.is_empty() || start > MAX_BYTES || stride > MAX_BYTES {
            return self.open();
        }
        let is = |wanted: fn(Scalar) -> bool| {
            members.iter().any(|member| matches!(member.kind, ArgumentKind::Scalar(scalar) if wanted(scalar)))
        };
        let is_float = |scalar| matches!(scalar, Scalar::Float { .. } | Scalar::Bfloat16);
        let mixed = is(is_float) && is(|scalar| matches!(scalar, Scalar::Int { .. }));
        let kind = |member: &Argument| match member.kind {
            ArgumentKind::Scalar(Scalar::Int { signed, .. }) if mixed => ByteKind::Integer { signed },
            _ => ByteKind::Number,
        };
        let [fixed, element] = [start, stride].map(|bytes| vec![ByteKind::Padding; bytes as usize]);
        let mut view = BlockLayout { offset, fixed, element };
        for member in members {
            let (at, bytes) = (member.offset as usize, member.kind.bytes() as usize);
            let (part, at) = match at.checked_sub(view.fixed.len()) {
                Some(at) => (&mut view.element, at),
                None => (&mut view.fixed, at),
            };
            part.iter_mut().skip(at).take(bytes).for_each(|byte| *byte = kind(member));
        }
        self.views.push(view);
    }

    /// Marks the buffer as accessed through an address or an unknown block.
    pub(super) fn open(&mut self) {
        self.open = true;
    }

    /// Returns the number of elements, of `bytes` each, in a structure or vector, if the buffer is an array of these.
    pub(super) fn period(&self, bytes: usize) -> Option<usize> {
        let (first, others) = self.views.split_first().filter(|_| !self.open)?;
        let is_alike =
            |view: &BlockLayout| view.offset == 0 && view.fixed.is_empty() && view.element.len() == first.element.len();
        let whole = is_alike(first) && others.iter().all(is_alike) && first.element.len().is_multiple_of(bytes);
        (whole && first.element.len() > bytes).then(|| first.element.len() / bytes)
    }

    /// Whether every byte is a number.
    pub(super) fn is_plain(&self) -> bool {
        let plain = |view: &BlockLayout| view.fixed.iter().chain(&view.element).all(|byte| *byte == ByteKind::Number);
        self.open || self.views.iter().all(plain)
    }

    /// Returns the kind of a byte; of several blocks, the one with the most specific kind decides.
    fn byte(&self, at: u64) -> ByteKind {
        let seen = self.views.iter().filter_map(|view| {
            let at = at.checked_sub(view.offset)? as usize;
            match at.checked_sub(view.fixed.len()) {
                None => view.fixed.get(at).copied(),
                Some(at) => view.element.get(at.checked_rem(view.element.len())?).copied(),
            }
        });
        seen.max().unwrap_or(ByteKind::Number)
    }

    /// Returns the kind of an element of `bytes` bytes.
    pub(super) fn kind(&self, index: usize, bytes: usize) -> ByteKind {
        let start = (index * bytes) as u64;
        let kinds = (start..start + bytes as u64).map(|at| self.byte(at));
        // A member may cover the element only in part.
        kinds.max().unwrap_or(ByteKind::Number)
    }

    /// Returns the contents with zeros in place of padding.
    pub(super) fn without_padding<'a>(&self, contents: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_plain() {
            return contents.into();
        }
        let mut contents = contents.to_vec();
        for (at, byte) in (0..).zip(&mut contents) {
            if self.byte(at) == ByteKind::Padding {
                *byte = 0;
            }
        }
        contents.into()
    }
}
