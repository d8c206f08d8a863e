//! Descriptions of buffers (element type, length, role), and the inputs of a dispatch besides its grid: specialization
//! constants, buffers bound by address or by descriptor.

use super::image::Image;
use super::interface::SlotKind;
use crate::basis::dtype::DType;
use crate::basis::units::Bytes;
use crate::device::capability::DeviceLimits;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Buffer by number: first the problem's, by position in [`crate::algorithms::Problem::buffers`], then the program's
/// own, by position in [`scratch`](super::program::Program::scratch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferId(pub usize);

/// Bytes of the red zones before and after the data of each buffer on a device. They hold poison, and a kernel that
/// writes to them is rejected: kernels address memory directly, so nothing else would notice. Descriptors point behind
/// the first red zone; its size satisfies every device, because none may require an offset alignment above 256.
pub const RED_ZONE: u64 = 4096;

/// Poison words, one per buffer, that fill memory before the first run: NaN in every float type, also as f16 halves.
pub const FILLER: RangeInclusive<u32> = 0xffff_ff81..=0xffff_ffff;

/// Buffer that a problem needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// Name that the algorithm's documentation uses.
    pub name: Cow<'static, str>,
    /// Role: filled by the host, checked by the host, or private to the program.
    pub role: Role,
    pub dtype: DType,
    /// Number of elements.
    pub len: u64,
    /// Image that holds the data while a kernel runs that binds it as one.
    pub image: Option<Image>,
}

impl BufferSpec {
    /// Describes a buffer of `len` elements.
    pub fn new(name: impl Into<Cow<'static, str>>, role: Role, dtype: DType, len: u64) -> Self {
        Self { name: name.into(), role, dtype, len, image: None }
    }

    /// Returns the size of the data, without the red zones.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.len * self.dtype.bytes())
    }

    /// Returns the size on a device: the data, rounded up to whole words so that it can be filled, and two red zones.
    pub fn allocation(&self) -> Bytes {
        Bytes(self.bytes().0.next_multiple_of(4) + 2 * RED_ZONE)
    }

    /// Returns the device memory for `buffers`. In-place buffers count twice, for a copy of their initial contents, and
    /// images once more.
    pub fn footprint(buffers: &[Self]) -> Bytes {
        let copies = |spec: &Self| 1 + u64::from(spec.role == Role::InPlace) + u64::from(spec.image.is_some());
        Bytes(buffers.iter().map(|spec| copies(spec) * spec.allocation().0).sum())
    }
}

/// Role of a buffer: who fills, writes and checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Filled by the host, read by the program.
    Input,
    /// Written by the program, checked by the host.
    Output,
    /// Filled by the host, changed in place by the program, checked by the host. Restored before every run.
    InPlace,
    /// Written and read only by the program.
    Scratch,
}

impl Role {
    /// Whether the host fills the buffer.
    pub fn is_input(self) -> bool {
        matches!(self, Self::Input | Self::InPlace)
    }

    /// Whether the host checks the buffer.
    pub fn is_output(self) -> bool {
        matches!(self, Self::Output | Self::InPlace)
    }
}

/// Value of a specialization constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SpecValue {
    /// Constant's `constant_id`.
    pub id: u32,
    /// Value, in the low bytes.
    pub bits: u64,
    /// Size in bytes: 1, 2, 4 or 8; a bool has 4, as `VkBool32` does.
    pub bytes: u32,
}

impl SpecValue {
    /// Creates a 32-bit value.
    pub fn word(id: u32, value: u32) -> Self {
        Self { id, bits: value.into(), bytes: 4 }
    }

    /// Returns the value's bytes, as the driver expects them.
    pub fn data(&self) -> Vec<u8> {
        self.bits.to_le_bytes()[..self.bytes as usize].to_vec()
    }
}

/// Place in a block of bytes that receives the device address of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Bytes from the start of the block.
    pub offset: u32,
    pub buffer: BufferId,
    /// Byte offset within the buffer that the address points to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
}

/// Whether a field can be left out of the serialized form, which is hashed into the plan's id.
fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes the addresses of buffers into a block.
pub fn write_addresses(block: &mut [u8], places: &[Address], addresses: &[u64]) {
    for Address { offset, buffer, skipped } in places {
        let address = addresses[buffer.0] + skipped;
        block[*offset as usize..][..8].copy_from_slice(&address.to_le_bytes());
    }
}

/// Initial contents of one of a program's own buffers, restored before each run.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub buffer: BufferId,
    /// Contents of the whole buffer, or one word that tiles it.
    pub bytes: Arc<[u8]>,
    /// Device addresses to write into the bytes.
    pub addresses: Vec<Address>,
}

/// Buffer bound to a descriptor set and binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub set: u32,
    pub binding: u32,
    /// Index within an array of buffers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub element: u32,
    /// Descriptor type that the kernel declares.
    pub kind: SlotKind,
    pub buffer: BufferId,
    /// Byte offset of the bound range within the buffer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Bytes of the bound range; `None` for the rest of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<u64>,
}

impl Binding {
    /// Binds a buffer from its first byte to its last.
    pub fn whole(set: u32, binding: u32, kind: SlotKind, buffer: BufferId) -> Self {
        Self { set, binding, element: 0, kind, buffer, offset: 0, range: None }
    }
}

/// Descriptor of a dispatch: a binding and the size of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    #[serde(flatten)]
    pub at: Binding,
    /// Bytes of the range, which may reach into the red zone behind the data; `None` for all of the data.
    #[serde(skip)]
    pub bytes: Option<u64>,
}

/// Layout of a pipeline as a program stated it, for a kernel that is compiled only. Numbers are Vulkan's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StatedLayout {
    pub sets: Vec<StatedSet>,
    pub push: Vec<StatedRange>,
}

/// Descriptor set of a [`StatedLayout`] (`VkDescriptorSetLayoutCreateInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StatedSet {
    pub flags: u32,
    pub bindings: Vec<StatedBinding>,
}

/// Binding of a [`StatedSet`] (`VkDescriptorSetLayoutBinding`), with its `VkDescriptorBindingFlags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StatedBinding {
    pub binding: u32,
    pub kind: u32,
    pub count: u32,
    pub stages: u32,
    pub flags: u32,
}

/// Range of push constants (`VkPushConstantRange`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatedRange {
    pub stage_flags: u32,
    pub offset: u32,
    pub size: u32,
}

impl Serialize for SlotKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for SlotKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| de::Error::custom(format!("unknown kind of descriptor '{name}'")))
    }
}

/// Returns why a device with these limits cannot bind `descriptors`, if it cannot. The limit on texels depends on the
/// buffers and is checked with them.
pub(super) fn unsupported(descriptors: &[Descriptor], limits: &DeviceLimits) -> Option<String> {
    let device = limits.descriptors.unwrap_or_default();
    let highest_set = descriptors.iter().map(|descriptor| descriptor.at.set).max();
    // Every device has set 0, even those of records that do not know their sets.
    if let Some(set) = highest_set.filter(|set| *set > 0 && *set >= device.sets) {
        return Some(format!("uses descriptor set {set}; the device has sets 0 to {}", device.sets.saturating_sub(1)));
    }
    let storage = &descriptors_of(SlotKind::Storage, descriptors);
    let uniform = &descriptors_of(SlotKind::Uniform, descriptors);
    exceeded(storage, device.storage_buffers, limits.storage_buffer_range, device.storage_alignment)
        .or_else(|| exceeded(uniform, device.uniform_buffers, device.uniform_range, device.uniform_alignment))
}

fn descriptors_of(kind: SlotKind, descriptors: &[Descriptor]) -> Vec<Descriptor> {
    descriptors.iter().copied().filter(|descriptor| descriptor.at.kind == kind).collect()
}

/// Returns which of a device's limits `descriptors`, all of one kind, exceed, if any.
fn exceeded(descriptors: &[Descriptor], max_count: u32, max_range: Bytes, alignment: Bytes) -> Option<String> {
    let name = descriptors.first()?.at.kind.name();
    if descriptors.len() > max_count as usize {
        return Some(format!("binds {} {name} buffers; the device allows {max_count}", descriptors.len()));
    }
    for Descriptor { at: Binding { set, binding, offset, .. }, .. } in descriptors {
        if !offset.is_multiple_of(alignment.0.max(1)) {
            return Some(format!(
                "binds byte {offset} of a buffer to set {set}, binding {binding}; the device needs multiples of {}",
                alignment.0
            ));
        }
    }
    for Descriptor { at: Binding { set, binding, .. }, bytes } in descriptors {
        let range = Bytes(bytes.unwrap_or_default());
        if range > max_range {
            return Some(format!(
                "binds {range} to set {set}, binding {binding}; the device allows {max_range} in one {name} buffer"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;

    fn descriptor(set: u32, binding: u32, kind: SlotKind, bytes: u64) -> Descriptor {
        let at = Binding::whole(set, binding, kind, BufferId(binding as usize));
        Descriptor { at, bytes: Some(bytes) }
    }

    #[test]
    fn limits_of_descriptors_are_asked_in_words_without_a_device() {
        let limits = software_device().limits;
        let unknown = DeviceLimits { descriptors: None, ..limits.clone() };
        let reason = |descriptors: Vec<Descriptor>| unsupported(&descriptors, &limits);
        let storage = |set, binding, bytes| descriptor(set, binding, SlotKind::Storage, bytes);
        let uniform = |bytes| vec![descriptor(0, 0, SlotKind::Uniform, bytes)];
        assert_eq!(reason(vec![storage(0, 0, 1 << 20)]), None);
        assert_eq!(reason(uniform(64 << 10)), None);
        assert_eq!(unsupported(&[descriptor(0, 0, SlotKind::Texel, 4)], &unknown), None);
        let many = (0..40).map(|binding| storage(0, binding, 4)).collect();
        for (descriptors, expected) in [
            (vec![descriptor(9, 0, SlotKind::Texel, 4)], "uses descriptor set 9; the device has sets 0 to 7"),
            (vec![storage(9, 0, 4)], "uses descriptor set 9; the device has sets 0 to 7"),
            (many, "binds 40 storage buffers; the device allows 32"),
            (
                vec![storage(1, 2, 1 << 30)],
                "binds 1 GiB to set 1, binding 2; the device allows 128 MiB in one storage buffer",
            ),
            (uniform(1 << 20), "binds 1 MiB to set 0, binding 0; the device allows 64 KiB in one uniform buffer"),
        ] {
            assert_eq!(reason(descriptors).as_deref(), Some(expected));
        }
    }

    #[test]
    fn kinds_of_slots_are_sent_by_name() {
        for kind in SlotKind::ALL {
            let sent = serde_json::to_string(&kind).expect("JSON");
            assert_eq!(sent, format!("\"{}\"", kind.name()));
            assert_eq!(serde_json::from_str::<SlotKind>(&sent).expect("a kind"), kind);
        }
        assert!(serde_json::from_str::<SlotKind>("\"image\"").is_err());
    }
}
