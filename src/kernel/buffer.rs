//! Descriptions of buffers: their elements, how many, and who fills and who checks them; and what a dispatch gives a kernel beside its
//! grid: specialization constants, and buffers at addresses and bindings.

use super::interface::SlotKind;
use crate::basis::dtype::DType;
use crate::basis::units::Bytes;
use crate::device::capability::DeviceLimits;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A buffer of a problem, by its position in [`crate::algorithms::Problem::buffers`], or behind these one of the
/// program's own, by its position in [`scratch`](super::program::Program::scratch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferId(pub usize);

/// Bytes of the red zones before and after the data of each buffer on a device. They hold poison, and a kernel that
/// writes to them is rejected: kernels address memory directly, so nothing else would notice. Descriptors begin behind one: no device may
/// ask for offsets of multiples of more than 256.
pub(crate) const RED_ZONE: u64 = 4096;

/// The words that fill memory before a first run, one for each buffer: NaN in every floating-point type, and as halves.
pub(crate) const FILLER: RangeInclusive<u32> = 0xffff_ff81..=0xffff_ffff;

/// A buffer that a problem needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// The name that the documentation of the algorithm uses.
    pub name: Cow<'static, str>,
    /// Who fills it and who checks it.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub len: u64,
}

impl BufferSpec {
    /// A buffer of `len` elements.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, role: Role, dtype: DType, len: u64) -> Self {
        Self { name: name.into(), role, dtype, len }
    }

    /// Size of the data, without the red zones.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes(self.len * self.dtype.bytes())
    }

    /// Size on a device: the data between its red zones, a multiple of four bytes so that it can be filled.
    #[must_use]
    pub fn allocation(&self) -> Bytes {
        Bytes(self.bytes().0.next_multiple_of(4) + 2 * RED_ZONE)
    }

    /// Device memory for `buffers`, with the first contents of those that programs change in place.
    #[must_use]
    pub fn footprint(buffers: &[Self]) -> Bytes {
        let copies = |spec: &Self| if spec.role == Role::InPlace { 2 } else { 1 };
        Bytes(buffers.iter().map(|spec| copies(spec) * spec.allocation().0).sum())
    }
}

/// The role of a buffer: who fills, writes and checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Filled by the host, read by the program.
    Input,
    /// Written by the program, checked by the host.
    Output,
    /// Filled by the host, changed in place by the program, checked by the host. Restored before every run.
    InPlace,
    /// Written and read by the program alone.
    Scratch,
}

impl Role {
    /// Whether the host fills it.
    #[must_use]
    pub fn is_input(self) -> bool {
        matches!(self, Self::Input | Self::InPlace)
    }

    /// Whether the host checks it.
    #[must_use]
    pub fn is_output(self) -> bool {
        matches!(self, Self::Output | Self::InPlace)
    }
}

/// The value of a specialization constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpecValue {
    /// Its `constant_id`.
    pub id: u32,
    /// Its value, in the low bytes.
    pub bits: u64,
    /// Its bytes: 1, 2, 4 or 8; a bool has 4, as `VkBool32` has.
    pub bytes: u32,
}

impl SpecValue {
    /// A value of 32 bits.
    #[must_use]
    pub fn word(id: u32, value: u32) -> Self {
        Self { id, bits: value.into(), bytes: 4 }
    }

    /// The value as the driver takes it.
    #[must_use]
    pub fn data(&self) -> Vec<u8> {
        self.bits.to_le_bytes()[..self.bytes as usize].to_vec()
    }
}

/// Bytes of a block at which the address of a buffer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Bytes from the start of the block.
    pub offset: u32,
    pub buffer: BufferId,
    /// Bytes of the buffer before what the address leads to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
}

/// Whether a field need not be sent: the text of what is sent is part of the hash of a plan.
fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes the addresses of buffers into a block.
pub(crate) fn write_addresses(block: &mut [u8], places: &[Address], addresses: &[u64]) {
    for Address { offset, buffer, skipped } in places {
        let address = addresses[buffer.0] + skipped;
        block[*offset as usize..][..8].copy_from_slice(&address.to_le_bytes());
    }
}

/// What one of a program's own buffers holds before each run.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub buffer: BufferId,
    /// All of its bytes, or a word that is repeated over it.
    pub bytes: Arc<[u8]>,
    /// Where addresses go in them.
    pub addresses: Vec<Address>,
}

/// A buffer at a set and binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "they are Vulkan's words")]
pub struct Binding {
    pub set: u32,
    pub binding: u32,
    /// Its place in an array of buffers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub element: u32,
    /// What the kernel takes it for.
    pub kind: SlotKind,
    pub buffer: BufferId,
    /// Bytes of the buffer before what the kernel sees.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Bytes that it sees, where it is not the rest of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<u64>,
}

impl Binding {
    /// A whole buffer at a set and binding.
    #[must_use]
    pub fn whole(set: u32, binding: u32, kind: SlotKind, buffer: BufferId) -> Self {
        Self { set, binding, element: 0, kind, buffer, offset: 0, range: None }
    }
}

/// What a kernel sees of a buffer at a set and binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    #[serde(flatten)]
    pub at: Binding,
    /// Bytes that the kernel sees, which may reach into the red zone behind the data; `None` for all of the data.
    #[serde(skip)]
    pub bytes: Option<u64>,
}

impl Serialize for SlotKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for SlotKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = [Self::Storage, Self::Uniform, Self::Texel].into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| de::Error::unknown_variant(&name, &["storage", "uniform", "texel"]))
    }
}

/// Why a device with these limits cannot bind `descriptors`, if so. Its limit of texels is asked with the buffers.
#[must_use]
pub(super) fn unsupported(descriptors: &[Descriptor], limits: &DeviceLimits) -> Option<String> {
    let own = limits.descriptors.unwrap_or_default();
    let bound = || descriptors.iter().filter(|descriptor| descriptor.at.kind != SlotKind::Texel);
    if let Some(most) = bound().map(|descriptor| descriptor.at.set).max().filter(|set| *set >= own.sets) {
        return Some(format!("uses descriptor set {most}; the device has sets 0 to {}", own.sets.saturating_sub(1)));
    }
    let storage = (SlotKind::Storage, own.storage_buffers, limits.storage_buffer_range, own.storage_alignment);
    let uniform = (SlotKind::Uniform, own.uniform_buffers, own.uniform_range, own.uniform_alignment);
    for (kind, most, range, alignment) in [storage, uniform] {
        let name = kind.name();
        let of_kind = || bound().filter(move |descriptor| descriptor.at.kind == kind);
        if of_kind().count() > most as usize {
            return Some(format!("binds {} {name} buffers; the device allows {most}", of_kind().count()));
        }
        let odd = |descriptor: &&Descriptor| !descriptor.at.offset.is_multiple_of(alignment.0.max(1));
        if let Some(Binding { set, binding, offset, .. }) = of_kind().find(odd).map(|descriptor| descriptor.at) {
            return Some(format!(
                "binds byte {offset} of a buffer to set {set}, binding {binding}; the device needs multiples of {}",
                alignment.0
            ));
        }
        let bytes = |descriptor: &Descriptor| descriptor.bytes.unwrap_or_default();
        if let Some(long) = of_kind().find(|descriptor| bytes(descriptor) > range.0) {
            let Binding { set, binding, .. } = long.at;
            return Some(format!(
                "binds {} to set {set}, binding {binding}; the device allows {range} in one {name} buffer",
                Bytes(bytes(long))
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::tests::software_device;

    fn descriptor(set: u32, binding: u32, kind: SlotKind, bytes: u64) -> Descriptor {
        let at = Binding::whole(set, binding, kind, BufferId(binding as usize));
        Descriptor { at, bytes: Some(bytes) }
    }

    #[test]
    fn limits_of_descriptors_are_asked_in_words_without_a_device() {
        let limits = software_device().limits;
        let reason = |descriptors: Vec<Descriptor>| unsupported(&descriptors, &limits);
        let storage = |set, binding, bytes| descriptor(set, binding, SlotKind::Storage, bytes);
        let uniform = |bytes| vec![descriptor(0, 0, SlotKind::Uniform, bytes)];
        assert_eq!(reason(vec![storage(0, 0, 1 << 20)]), None);
        assert_eq!(
            reason(vec![storage(9, 0, 4)]).as_deref(),
            Some("uses descriptor set 9; the device has sets 0 to 7")
        );
        let many = (0..40).map(|binding| storage(0, binding, 4)).collect();
        assert_eq!(reason(many).as_deref(), Some("binds 40 storage buffers; the device allows 32"));
        let long = reason(vec![storage(1, 2, 1 << 30)]).expect("too long");
        assert_eq!(long, "binds 1 GiB to set 1, binding 2; the device allows 128 MiB in one storage buffer");
        assert_eq!(reason(uniform(64 << 10)), None);
        assert!(reason(uniform(1 << 20)).is_some_and(|reason| reason.contains("allows 64 KiB in one uniform buffer")));
    }

    #[test]
    fn kinds_of_slots_are_sent_by_name() {
        for kind in [SlotKind::Storage, SlotKind::Uniform, SlotKind::Texel] {
            let sent = serde_json::to_string(&kind).expect("JSON");
            assert_eq!(sent, format!("\"{}\"", kind.name()));
            assert_eq!(serde_json::from_str::<SlotKind>(&sent).expect("a kind"), kind);
        }
        assert!(serde_json::from_str::<SlotKind>("\"image\"").is_err());
    }
}
