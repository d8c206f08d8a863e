//! What a dispatch gives a kernel beside its grid: specialization constants, and buffers at addresses and bindings.

use super::buffer::BufferId;
use super::interface::SlotKind;
use crate::basis::units::Bytes;
use crate::device::capability::DeviceLimits;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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

/// Bytes of the push constants at which the address of a buffer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Bytes from the start of the block.
    pub offset: u32,
    pub buffer: BufferId,
}

/// A buffer at a set and binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "they are Vulkan's words")]
pub struct Binding {
    pub set: u32,
    pub binding: u32,
    /// What the kernel takes it for.
    pub kind: SlotKind,
    pub buffer: BufferId,
}

/// The part of a buffer that a kernel sees at a set and binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub at: Binding,
    /// Bytes from the start of its data.
    pub offset: u64,
    /// Bytes that the kernel sees, which may reach into the red zone behind the data; `None` for all of the data.
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
            return Some(format!("binds {} {name} buffers; the device has room for {most}", of_kind().count()));
        }
        let bytes = |descriptor: &Descriptor| descriptor.bytes.unwrap_or_default();
        if let Some(long) = of_kind().find(|descriptor| bytes(descriptor) > range.0) {
            let Binding { set, binding, .. } = long.at;
            return Some(format!(
                "binds {} to set {set}, binding {binding}; the device allows {range} in one {name} buffer",
                Bytes(bytes(long))
            ));
        }
        let unaligned = |descriptor: &&Descriptor| !descriptor.offset.is_multiple_of(alignment.0.max(1));
        if let Some(Descriptor { at: Binding { set, binding, .. }, offset, .. }) = of_kind().find(unaligned) {
            return Some(format!(
                "binds byte {offset} of a buffer to set {set}, binding {binding}; the device wants multiples of {} for \
                 {name} buffers",
                alignment.0
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::tests::software_device;

    fn descriptor(set: u32, binding: u32, kind: SlotKind, offset: u64, bytes: u64) -> Descriptor {
        let at = Binding { set, binding, kind, buffer: BufferId(binding as usize) };
        Descriptor { at, offset, bytes: Some(bytes) }
    }

    #[test]
    fn limits_of_descriptors_are_asked_in_words_without_a_device() {
        let limits = software_device().limits;
        let reason = |descriptors: Vec<Descriptor>| unsupported(&descriptors, &limits);
        let storage = |set, binding, offset, bytes| descriptor(set, binding, SlotKind::Storage, offset, bytes);
        let uniform = |bytes| vec![descriptor(0, 0, SlotKind::Uniform, 0, bytes)];
        assert_eq!(reason(vec![storage(0, 0, 256, 1 << 20)]), None);
        assert_eq!(
            reason(vec![storage(9, 0, 0, 4)]).as_deref(),
            Some("uses descriptor set 9; the device has sets 0 to 7")
        );
        let many = (0..40).map(|binding| storage(0, binding, 0, 4)).collect();
        assert_eq!(reason(many).as_deref(), Some("binds 40 storage buffers; the device has room for 32"));
        let long = reason(vec![storage(1, 2, 0, 1 << 30)]).expect("too long");
        assert_eq!(long, "binds 1 GiB to set 1, binding 2; the device allows 128 MiB in one storage buffer");
        assert_eq!(reason(uniform(64 << 10)), None);
        assert!(reason(uniform(1 << 20)).is_some_and(|reason| reason.contains("allows 64 KiB in one uniform buffer")));
        let odd = reason(vec![storage(0, 1, 6, 4)]).expect("unaligned");
        assert!(
            odd.starts_with("binds byte 6 of a buffer to set 0, binding 1; the device wants multiples of 16"),
            "{odd}"
        );
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
