//! The interface of a kernel: everything that the host must know to run it.
//!
//! `build.rs` includes this file, so it imports nothing else from the crate.

use std::borrow::Cow;

/// Interface between a kernel and the host. Built-in kernels bind no buffers but texel views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// SPIR-V version: major, minor.
    pub version: [u8; 2],
    /// Invocations in a work-group along x, y, z.
    pub local_size: [Word; 3],
    /// Specialization constants, by id.
    pub constants: Cow<'static, [SpecConstant]>,
    /// Members of the push-constant block, in memory order.
    pub arguments: Cow<'static, [Argument]>,
    /// Descriptor slots, by set and binding.
    pub slots: Cow<'static, [Slot]>,
    /// Whether the kernel reads the length of a run-time array (`OpArrayLength`).
    pub asks_lengths: bool,
    /// Bytes of shared memory, as an expression over the specialization constants in reverse Polish notation.
    pub shared: Cow<'static, [SizeOp]>,
    /// SPIR-V capabilities that the kernel declares, by name, or by number if rspirv has no name.
    pub capabilities: Cow<'static, [Cow<'static, str>]>,
    /// Vulkan features, by name, that single instructions need beyond the capabilities.
    pub features: Cow<'static, [Cow<'static, str>]>,
}

impl Interface {
    /// Whether the kernel accesses memory by address (buffer references in GLSL).
    pub fn uses_addresses(&self) -> bool {
        self.capabilities.iter().any(|name| name.contains("PhysicalStorageBufferAddresses"))
    }

    /// Iterates over the names of the texel views (`samplerBuffer`): buffers read as texels of four f32.
    pub fn views(&self) -> impl Iterator<Item = &str> {
        let views = self.slots.iter().filter(|slot| slot.kind == SlotKind::Texel);
        views.map(|slot| slot.names().first().copied().unwrap_or_default())
    }

    /// Whether the kernel reads through texel views.
    pub fn has_views(&self) -> bool {
        self.views().next().is_some()
    }

    /// Returns the size in bytes of the push-constant block.
    pub fn argument_bytes(&self) -> u32 {
        self.arguments.iter().map(|argument| argument.offset.saturating_add(argument.kind.bytes())).max().unwrap_or(0)
    }
}

/// 32-bit value that is fixed in the SPIR-V or set when the pipeline is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Constant of the shader.
    Literal(u32),
    /// Specialization constant, by its `constant_id`.
    Constant {
        id: u32,
        /// Value if not set.
        default: u32,
    },
}

/// Specialization constant: `layout(constant_id = ID) const uint NAME = …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecConstant {
    /// Name in the source, or `local_size_x` and so on for a nameless constant that sets the work-group size.
    pub name: Cow<'static, str>,
    /// Constant's `constant_id`.
    pub id: u32,
    pub scalar: Scalar,
    /// Bits of the default value.
    pub default: u64,
    /// Whether the module has several constants of this id with other defaults, as of `local_size_x_id`, whose default is 1: then
    /// they agree only if they are specialized.
    pub is_ambiguous: bool,
}

/// Scalar or address in a block, such as the push constants: also a component of a vector, matrix or array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Name in the source: `p.ne00`, `size.x`, `strides[2]`; empty if the file was stripped of names.
    pub name: Cow<'static, str>,
    /// Byte offset from the start of the block.
    pub offset: u32,
    pub kind: ArgumentKind,
}

impl Argument {
    /// Whether `key` denotes this argument: its name, or its offset as `byte 16`, which works without names.
    pub fn is_called(&self, key: &str) -> bool {
        self.name == key || key.strip_prefix("byte ").is_some_and(|offset| offset.parse() == Ok(self.offset))
    }
}

/// Kind of value that an argument holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    Scalar(Scalar),
    /// Device address of a buffer (a buffer reference in GLSL).
    Address,
}

impl ArgumentKind {
    /// Returns the size in bytes within a block.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Scalar(scalar) => scalar.bytes(),
            Self::Address => 8,
        }
    }

    /// Returns the kind in words, which also decide whether an argument accepts a value: a 64-bit integer may hold an
    /// address, and the sign of an integer does not matter. Kinds that no value of a program has, such as f16 and bool,
    /// share their words although they differ.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Address | Self::Scalar(Scalar::Int { bits: 64, .. }) => "a buffer",
            Self::Scalar(Scalar::Int { bits: 32, .. }) => "an integer",
            Self::Scalar(Scalar::Float { bits: 32 }) => "a float",
            Self::Scalar(_) => "a number of another width",
        }
    }
}

/// Numeric type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Boolean; 4 bytes as a specialization constant, as in `VkBool32`.
    Bool,
    /// Integer of 8 to 64 bits.
    Int { bits: u32, signed: bool },
    /// IEEE float of 16, 32 or 64 bits.
    Float { bits: u32 },
    /// bfloat16: the upper half of an f32.
    Bfloat16,
}

impl Scalar {
    /// Returns the size in bytes as a specialization constant, and for all but booleans also in memory.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Bool => 4,
            Self::Int { bits, .. } | Self::Float { bits } => bits / 8,
            Self::Bfloat16 => 2,
        }
    }

    /// Returns the name: `f32`, `u8`, `bool`.
    pub fn name(self) -> String {
        match self {
            Self::Bool => "bool".into(),
            Self::Int { bits, signed } => format!("{}{bits}", if signed { 'i' } else { 'u' }),
            Self::Float { bits } => format!("f{bits}"),
            Self::Bfloat16 => "bf16".into(),
        }
    }

    /// Returns the integer in the low bits of `bits`; `None` for floats.
    pub fn integer(self, bits: u64) -> Option<i128> {
        match self {
            Self::Int { bits: 64, signed: true } => Some(bits.cast_signed().into()),
            Self::Int { bits: 64, signed: false } | Self::Bool => Some(bits.into()),
            Self::Int { bits: width, signed: true } => {
                let shift = 64 - width;
                Some(((bits << shift).cast_signed() >> shift).into())
            }
            Self::Int { bits: width, signed: false } => Some((bits & ((1 << width) - 1)).into()),
            Self::Float { .. } | Self::Bfloat16 => None,
        }
    }
}

/// Descriptor slot, with all blocks that the kernel declares for it: they alias the same buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub set: u32,
    pub binding: u32,
    /// Index within an array of buffers; 0 if the slot is not an array.
    pub element: u32,
    pub kind: SlotKind,
    pub blocks: Cow<'static, [Block]>,
}

/// Descriptor type of a bound buffer. An image is a buffer that the device sees as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SlotKind {
    /// Storage buffer, read and written: `buffer` in GLSL, `var<storage>` in WGSL.
    Storage,
    /// Uniform buffer, read-only: `uniform`, `var<uniform>`.
    Uniform,
    /// Texel buffer of four f32 per texel, read-only: `samplerBuffer`.
    Texel,
    /// Image that kernels load from and store to: `image2D`, `texture_storage_2d`.
    StorageImage,
    /// Image without a sampler, read-only: `texture2D`, `texture_2d`.
    SampledImage,
    /// Image with a sampler, read-only: `sampler2D`.
    CombinedImage,
}

impl SlotKind {
    pub const ALL: [Self; 6] =
        [Self::Storage, Self::Uniform, Self::Texel, Self::StorageImage, Self::SampledImage, Self::CombinedImage];

    /// Whether the kernel sees the buffer as an image.
    pub fn is_image(self) -> bool {
        matches!(self, Self::StorageImage | Self::SampledImage | Self::CombinedImage)
    }

    /// Returns the name, as it is serialized.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Uniform => "uniform",
            Self::Texel => "texel",
            Self::StorageImage => "storage image",
            Self::SampledImage => "sampled image",
            Self::CombinedImage => "combined image",
        }
    }
}

/// Block declaration: the structure that a kernel gives a bound buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Names that a user may use: those of the block, of the variable and of its only member, as far as they exist.
    pub names: Cow<'static, [Cow<'static, str>]>,
    /// Whether the kernel may write to it.
    pub writable: bool,
    /// Whether the kernel may read it.
    pub readable: bool,
    /// Bytes before the run-time array at the end, or size of the whole block without one.
    pub fixed: u64,
    /// Run-time array (of unknown length) at the end of the block.
    pub array: Option<Elements>,
    /// Numbers and addresses in the block, in memory order, including the first element of a run-time array; empty if
    /// there are other types or too many members.
    pub members: Cow<'static, [Argument]>,
    /// Common type of all numbers in the block, with or without gaps; `None` if they differ.
    pub scalar: Option<Scalar>,
    /// Array of fixed length at the end of the block, if it has too many elements for `members`.
    pub long: Option<LongArray>,
    /// Type of the variable if it is an image, which has no members.
    pub image: Option<ImageType>,
}

/// Type of an image variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageType {
    pub shape: ImageShape,
    /// SPIR-V's name of the format that the kernel states, `Rgba8`; `None` if it states none.
    pub format: Option<String>,
    /// Type of the components that the kernel reads or writes.
    pub scalar: Scalar,
}

/// Dimensions of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageShape {
    /// 1 to 3.
    pub dimensions: u32,
    /// Whether it is an array of layers.
    pub arrayed: bool,
}

/// Fixed-length array with too many elements to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongArray {
    /// Byte offset of the array within the block.
    pub start: u64,
    /// Bytes from one element to the next.
    pub stride: u64,
    /// Members of the block up to the end of the array's first element.
    pub first: Vec<Argument>,
}

impl Block {
    /// Returns the member of this name, which may lie in any element of the run-time array: `ptr[3]`,
    /// `lights[7].color.x`.
    pub fn member(&self, name: &str) -> Option<Argument> {
        let find = |name: &str| self.members.iter().find(|member| member.is_called(name));
        if let Some(member) = find(name) {
            return Some(member.clone());
        }
        // The members include only element 0 of the run-time array; another one repeats it at a multiple of the stride.
        let stride = u32::try_from(self.array?.stride).ok()?;
        let (head, rest) = name.split_once('[')?;
        let (index, rest) = rest.split_once(']')?;
        let first = find(&format!("{head}[0]{rest}"))?;
        // A member before the array, in the fixed part of the block, does not repeat.
        if u64::from(first.offset) < self.fixed {
            return None;
        }
        let array_offset = index.parse::<u32>().ok()?.checked_mul(stride)?;
        let offset = first.offset.checked_add(array_offset)?;
        Some(Argument { name: name.to_string().into(), offset, kind: first.kind })
    }

    /// Whether the block holds an address, among other members.
    pub fn has_addresses(&self) -> bool {
        self.members.iter().any(|member| member.kind == ArgumentKind::Address)
    }

    /// Whether the block holds only addresses, and a known number of them.
    pub fn is_addresses(&self) -> bool {
        let mut members = self.members.iter();
        !self.members.is_empty() && self.array.is_none() && members.all(|member| member.kind == ArgumentKind::Address)
    }

    /// Returns type and count of the block's numbers if they have one type and no gaps, and there is no run-time array.
    pub fn numbers(&self) -> Option<(Scalar, u64)> {
        let ArgumentKind::Scalar(scalar) = self.members.first()?.kind else { return None };
        let count = self.members.len() as u64;
        let has_one_type = self.members.iter().all(|member| member.kind == ArgumentKind::Scalar(scalar));
        let has_gaps = self.fixed != count * u64::from(scalar.bytes());
        if has_one_type && !has_gaps && self.array.is_none() { Some((scalar, count)) } else { None }
    }

    /// Returns the numbers' common type and how many would fill the block, gaps included; `None` with a run-time array.
    pub fn fills(&self) -> Option<(Scalar, u64)> {
        if self.array.is_some() {
            return None;
        }
        let scalar = self.scalar?;
        Some((scalar, self.fixed / u64::from(scalar.bytes().max(1))))
    }
}

/// Element layout of a run-time array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// Bytes from one element to the next.
    pub stride: u64,
    /// Common type of an element's numbers, with or without gaps; `None` if they differ.
    pub scalar: Option<Scalar>,
}

impl Slot {
    /// Returns the distinct names of all blocks, in order of preference.
    pub fn names(&self) -> Vec<&str> {
        let mut distinct = vec![];
        for name in self.blocks.iter().flat_map(|block| block.names.iter()) {
            if !distinct.contains(&&**name) {
                distinct.push(&**name);
            }
        }
        distinct
    }

    /// Whether `key` denotes this slot: a name of one of its blocks, or `set.binding` with an index for arrays.
    pub fn is_called(&self, key: &str) -> bool {
        let Self { set, binding, element, .. } = self;
        self.names().contains(&key)
            || *element == 0 && key == format!("{set}.{binding}")
            || key == format!("{set}.{binding}[{element}]")
    }

    /// Whether the kernel may write to the buffer.
    pub fn is_writable(&self) -> bool {
        matches!(self.kind, SlotKind::Storage | SlotKind::StorageImage)
            && self.blocks.iter().any(|block| block.writable)
    }

    /// Whether the kernel may read the buffer.
    pub fn is_readable(&self) -> bool {
        self.blocks.iter().any(|block| block.readable)
    }
}

/// Operation of a size expression. All but `Push` replace the two topmost values of the stack by their result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeOp {
    Push(Word),
    Add,
    Mul,
    Sub,
    Div,
    Max,
}
