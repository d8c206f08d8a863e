//! The interface of a kernel: all that a host needs to run it.
//!
//! `build.rs` includes this file, as it does `reflection.rs`; it names nothing else of the crate.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// The interface that a kernel shows to the host. Built-in kernels take addresses and texel views; users' kernels bind
/// buffers too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The version of SPIR-V, major and minor.
    pub version: [u8; 2],
    /// Invocations in a work-group along x, y, z.
    pub local_size: [Word; 3],
    /// The specialization constants, by id.
    pub constants: Cow<'static, [SpecConstant]>,
    /// The members of the push-constant block, in memory order.
    pub arguments: Cow<'static, [Argument]>,
    /// The places to which buffers are bound, by set and binding.
    pub slots: Cow<'static, [Slot]>,
    /// Whether it asks how long the arrays are that are bound.
    pub asks_lengths: bool,
    /// Bytes of shared memory, in reverse Polish notation over the specialization constants.
    pub shared: Cow<'static, [SizeOp]>,
    /// The SPIR-V capabilities that the kernel declares, by name; by number where this program has no name for one.
    pub capabilities: Cow<'static, [Cow<'static, str>]>,
    /// The features of Vulkan, by name, that its instructions need beyond them.
    pub features: Cow<'static, [Cow<'static, str>]>,
}

impl Interface {
    /// The names of the texel views (`samplerBuffer`), each a buffer seen as texels of four f32.
    pub fn views(&self) -> impl Iterator<Item = &str> {
        let views = self.slots.iter().filter(|slot| slot.kind == SlotKind::Texel);
        views.map(|slot| slot.names().first().copied().unwrap_or_default())
    }

    /// Whether it reads through texel views.
    #[must_use]
    pub fn has_views(&self) -> bool {
        self.views().next().is_some()
    }

    /// Bytes of the push-constant block.
    #[must_use]
    pub fn argument_bytes(&self) -> u32 {
        self.arguments.iter().map(|argument| argument.offset.saturating_add(argument.kind.bytes())).max().unwrap_or(0)
    }
}

/// A 32-bit value known when the kernel was compiled, or set when the pipeline is made.
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

/// A specialization constant: `layout(constant_id = ID) const uint NAME = …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecConstant {
    /// The name in the source; `local_size_x` and so on for nameless ones that set the work-group size; else empty.
    pub name: Cow<'static, str>,
    /// Its `constant_id`.
    pub id: u32,
    pub scalar: Scalar,
    /// The bits of its default.
    pub default: u64,
}

/// A member of the push-constant block or another: a number, or one of a vector, a matrix or an array, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The name in the source: `p.ne00`, `size.x`, `strides[2]`; empty where the file has been stripped of names.
    pub name: Cow<'static, str>,
    /// Bytes from the start of the block.
    pub offset: u32,
    pub kind: ArgumentKind,
}

impl Argument {
    /// Whether a person means it by `key`: its name, or its place, which files without names have too: `byte 16`.
    #[must_use]
    pub fn is_called(&self, key: &str) -> bool {
        self.name == key || key.strip_prefix("byte ").is_some_and(|at| at.parse() == Ok(self.offset))
    }
}

/// The kind of value that a member holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A number.
    Scalar(Scalar),
    /// A buffer reference.
    Address,
}

impl ArgumentKind {
    /// Bytes in the push-constant block.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Scalar(scalar) => scalar.bytes(),
            Self::Address => 8,
        }
    }

    /// What a value of a dispatch must be: an address may be declared as an integer, and signs of integers are alike.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Address | Self::Scalar(Scalar::Int { bits: 64, .. }) => "a buffer",
            Self::Scalar(Scalar::Int { bits: 32, .. }) => "an integer",
            Self::Scalar(Scalar::Float { bits: 32 }) => "a float",
            Self::Scalar(_) => "a number of another width",
        }
    }
}

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A boolean, which has 4 bytes as a specialization constant.
    Bool,
    /// An integer of so many bits.
    Int { bits: u32, signed: bool },
    /// A float of so many bits.
    Float { bits: u32 },
    /// The upper half of an f32.
    Bfloat16,
}

impl Scalar {
    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Bool => 4,
            Self::Int { bits, .. } | Self::Float { bits } => bits / 8,
            Self::Bfloat16 => 2,
        }
    }

    /// Its name: `f32`, `u8`, `bool`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Bool => "bool".into(),
            Self::Int { bits, signed } => format!("{}{bits}", if signed { 'i' } else { 'u' }),
            Self::Float { bits } => format!("f{bits}"),
            Self::Bfloat16 => "bf16".into(),
        }
    }

    /// The integer that the low bits of `bits` are, where it is one.
    #[must_use]
    pub fn integer(self, bits: u64) -> Option<i64> {
        match self {
            Self::Int { bits: 64, signed: true } => Some(bits.cast_signed()),
            Self::Int { bits: 64, signed: false } | Self::Bool => i64::try_from(bits).ok(),
            Self::Int { bits: width, signed: true } => {
                let shift = 64 - width;
                Some((bits << shift).cast_signed() >> shift)
            }
            Self::Int { bits: width, signed: false } => i64::try_from(bits & ((1 << width) - 1)).ok(),
            Self::Float { .. } | Self::Bfloat16 => None,
        }
    }
}

/// A set and binding, with all blocks that are declared for it: they see the same buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub set: u32,
    pub binding: u32,
    /// Its place in an array of buffers; 0 where it is none.
    pub element: u32,
    pub kind: SlotKind,
    pub blocks: Cow<'static, [Block]>,
}

/// What a kernel takes a bound buffer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SlotKind {
    /// It reads and writes it: `buffer` in GLSL, `var<storage>` in WGSL.
    Storage,
    /// It reads it, uniformly as a rule: `uniform`, `var<uniform>`.
    Uniform,
    /// It reads it as texels of four f32: `samplerBuffer`.
    Texel,
}

impl SlotKind {
    /// The name in what is sent and kept.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Uniform => "uniform",
            Self::Texel => "texel",
        }
    }
}

/// A block: how a kernel sees a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What a person may call it: the name of the block, of the variable and of its only member, those that it has.
    pub names: Cow<'static, [Cow<'static, str>]>,
    /// Whether the kernel may write to it.
    pub writable: bool,
    /// Whether the kernel may read it.
    pub readable: bool,
    /// Bytes before the array at its end, or of the whole where it has none.
    pub fixed: u64,
    /// The array without a length at its end.
    pub array: Option<Elements>,
    /// The numbers and addresses that it is made of, in memory order, with the first element of such an array; none where
    /// it has something else or too many.
    pub members: Cow<'static, [Argument]>,
    /// The one type of number that all of it is made of, with or without gaps.
    pub scalar: Option<Scalar>,
    /// The array of a fixed length at its end, where that makes too many members.
    pub long: Option<LongArray>,
}

/// An array of a fixed length with more numbers than are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongArray {
    /// Bytes of the block before it.
    pub start: u64,
    /// Bytes from one element to the next.
    pub stride: u64,
    /// The members of the block up to the end of its first element.
    pub first: Vec<Argument>,
}

impl Block {
    /// The member of this name, which may be in any element of the array at its end: `ptr[3]`, `lights[7].color.x`.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Argument> {
        let of = |name: &str| self.members.iter().find(|member| member.is_called(name));
        if let Some(member) = of(name) {
            return Some(member.clone());
        }
        let (stride, (head, rest)) = (self.array?.stride, name.split_once('[')?);
        let (index, rest) = rest.split_once(']')?;
        let first = of(&format!("{head}[0]{rest}")).filter(|first| u64::from(first.offset) >= self.fixed)?;
        let beyond = index.parse::<u32>().ok()?.checked_mul(u32::try_from(stride).ok()?)?;
        Some(Argument { name: name.to_string().into(), offset: first.offset.checked_add(beyond)?, kind: first.kind })
    }

    /// Whether it holds nothing but addresses, and a known number of them.
    #[must_use]
    pub fn is_addresses(&self) -> bool {
        let all = self.members.iter().all(|member| member.kind == ArgumentKind::Address);
        all && self.array.is_none() && !self.members.is_empty()
    }

    /// The one type of number that all of it is made of without gaps, and how many there are, where it has no array at its
    /// end.
    #[must_use]
    pub fn numbers(&self) -> Option<(Scalar, u64)> {
        let ArgumentKind::Scalar(scalar) = self.members.first()?.kind else { return None };
        let count = self.members.len() as u64;
        let same = self.members.iter().all(|member| member.kind == ArgumentKind::Scalar(scalar));
        (same && self.array.is_none() && self.fixed == count * u64::from(scalar.bytes())).then_some((scalar, count))
    }

    /// The one type of number that all of it is made of, and how many fill it, gaps included, where it has no array at its
    /// end.
    #[must_use]
    pub fn fills(&self) -> Option<(Scalar, u64)> {
        let scalar = self.scalar.filter(|_| self.array.is_none())?;
        Some((scalar, self.fixed / u64::from(scalar.bytes().max(1))))
    }
}

/// The elements of an array without a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// Bytes from one to the next.
    pub stride: u64,
    /// The type of which each element is made, where it is one number or several of one type, with or without gaps.
    pub scalar: Option<Scalar>,
}

impl Slot {
    /// The names of all blocks, without repetition, the best first.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let names = self.blocks.iter().flat_map(|block| block.names.iter()).map(|name| &**name);
        names.filter(|name| seen.insert(*name)).collect()
    }

    /// Whether a person means it by `key`: a name of one of its blocks, or its set and binding.
    #[must_use]
    pub fn is_called(&self, key: &str) -> bool {
        let place = format!("{}.{}", self.set, self.binding);
        self.names().contains(&key)
            || self.element == 0 && key == place
            || key.strip_prefix(&place).is_some_and(|rest| rest == format!("[{}]", self.element))
    }

    /// Whether a kernel may write to it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.kind == SlotKind::Storage && self.blocks.iter().any(|block| block.writable)
    }

    /// Whether a kernel may read it.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.blocks.iter().any(|block| block.readable)
    }
}

/// One operation of a size in reverse Polish notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
