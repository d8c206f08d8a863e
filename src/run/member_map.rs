//! The bytes of a buffer as the blocks of kernels declare them: which are padding, and which hold integers beside floats.

use crate::kernel::interface::{Argument, ArgumentKind, Block, Scalar};
use std::borrow::Cow;

/// Kind of byte of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ByteKind {
    /// Between members, where no kernel writes.
    Padding,
    /// Of an integer of a structure that has floats too.
    Integer { signed: bool },
    /// Of anything else.
    Number,
}

/// Longest block, or array element, whose bytes are told apart.
const MOST_BYTES: u64 = 1 << 16;

/// The bytes of a block from its place in a buffer on: those before an array at its end, and those of each element.
#[derive(Clone, Debug, PartialEq)]
struct BlockView {
    offset: u64,
    fixed: Vec<ByteKind>,
    element: Vec<ByteKind>,
}

/// The members of a buffer: how blocks see it. Of a buffer that no block sees, or one in a way that is not known, every byte
/// is a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MemberMap {
    views: Vec<BlockView>,
    /// Whether something else may reach any byte.
    open: bool,
}

impl MemberMap {
    /// Adds a block that sees the buffer from byte `offset` on.
    pub(super) fn add(&mut self, block: &Block, offset: u64) {
        let (start, stride, members) = match &block.long {
            Some(long) => (long.start, long.stride, &long.first[..]),
            None => (block.fixed, block.array.map_or(0, |array| array.stride), &*block.members),
        };
        if members.is_empty() || start > MOST_BYTES || stride > MOST_BYTES {
            return self.open();
        }
        let is = |wanted: fn(Scalar) -> bool| {
            members.iter().any(|member| matches!(member.kind, ArgumentKind::Scalar(own) if wanted(own)))
        };
        let is_float = |scalar| matches!(scalar, Scalar::Float { .. } | Scalar::Bfloat16);
        let mixed = is(is_float) && is(|scalar| matches!(scalar, Scalar::Int { .. }));
        let kind = |member: &Argument| match member.kind {
            ArgumentKind::Scalar(Scalar::Int { signed, .. }) if mixed => ByteKind::Integer { signed },
            _ => ByteKind::Number,
        };
        let [fixed, element] = [start, stride].map(|bytes| vec![ByteKind::Padding; bytes as usize]);
        let mut view = BlockView { offset, fixed, element };
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

    /// Has something else reach any byte: an address, a block of a type that is not known.
    pub(super) fn open(&mut self) {
        self.open = true;
    }

    /// Elements of so many bytes in each element of the array that fills the buffer, where that is a structure or a vector.
    pub(super) fn period(&self, bytes: usize) -> Option<usize> {
        let (first, others) = self.views.split_first().filter(|_| !self.open)?;
        let is_alike =
            |view: &BlockView| view.offset == 0 && view.fixed.is_empty() && view.element.len() == first.element.len();
        let whole = is_alike(first) && others.iter().all(is_alike) && first.element.len().is_multiple_of(bytes);
        (whole && first.element.len() > bytes).then(|| first.element.len() / bytes)
    }

    /// Whether every byte is a number.
    pub(super) fn is_plain(&self) -> bool {
        let plain = |view: &BlockView| view.fixed.iter().chain(&view.element).all(|byte| *byte == ByteKind::Number);
        self.open || self.views.iter().all(plain)
    }

    /// The kind of a byte: what most is known of by one block is what it is.
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

    /// The kind of the element of so many bytes at this place.
    pub(super) fn kind(&self, index: usize, bytes: usize) -> ByteKind {
        let start = (index * bytes) as u64;
        let kinds = (start..start + bytes as u64).map(|at| self.byte(at));
        // A member covers it in part at least.
        kinds.max().unwrap_or(ByteKind::Number)
    }

    /// The contents of the buffer with zeros for padding.
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
