//! What a kernel that is none of ours takes beside arguments: descriptors, a push-constant block of any layout, and
//! specialization constants of any size.

use super::program::BufferId;
use crate::basis::units::Bytes;
use crate::device::capability::DeviceLimits;
use serde::{Deserialize, Serialize};

/// The bindings of a dispatch; empty for our kernels, which take addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    /// The descriptors, each at a set and binding of its own.
    pub descriptors: Vec<Descriptor>,
    /// The push-constant block, with zeros where addresses go.
    pub block: Vec<u8>,
    /// Bytes of the block at which the addresses of buffers go, 8 bytes each.
    pub addresses: Vec<(u32, BufferId)>,
    /// Specialization constants that are not of 32 bits.
    pub constants: Vec<SizedConstant>,
}

/// A part of a buffer at a set and binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Descriptor set.
    pub set: u32,
    /// Binding in it.
    pub binding: u32,
    /// What the kernel takes it for.
    pub kind: DescriptorKind,
    /// The buffer.
    pub buffer: BufferId,
    /// Bytes from the start of its data.
    pub offset: u64,
    /// Bytes that the kernel sees; may reach into the red zone behind the data.
    pub bytes: u64,
    /// Whether the kernel may write to it.
    pub writable: bool,
}

/// What a kernel takes a buffer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DescriptorKind {
    /// It reads and writes it: `buffer` in GLSL, `var<storage>` in WGSL.
    Storage,
    /// It reads it, uniformly as a rule: `uniform`, `var<uniform>`.
    Uniform,
}

/// The value of a specialization constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SizedConstant {
    /// Its `constant_id`.
    pub id: u32,
    /// Its value, in the low bytes.
    pub bits: u64,
    /// Its bytes: 1, 2, 4 or 8; a bool has 4, as `VkBool32` has.
    pub bytes: u32,
}

impl SizedConstant {
    /// The value as the driver takes it.
    #[must_use]
    pub fn data(&self) -> Vec<u8> {
        self.bits.to_le_bytes()[..self.bytes as usize].to_vec()
    }
}

impl Bindings {
    /// The buffers that it names.
    pub fn buffers(&self) -> impl Iterator<Item = BufferId> {
        let bound = self.descriptors.iter().map(|descriptor| descriptor.buffer);
        bound.chain(self.addresses.iter().map(|(_, buffer)| *buffer))
    }

    /// The buffers that the kernel may write to. What it does with an address is not known.
    pub fn writable(&self) -> impl Iterator<Item = BufferId> {
        let bound = self.descriptors.iter().filter(|descriptor| descriptor.writable).map(|own| own.buffer);
        bound.chain(self.addresses.iter().map(|(_, buffer)| *buffer))
    }

    /// The same over other buffers.
    pub fn move_to(&mut self, place: impl Fn(BufferId) -> BufferId) {
        for descriptor in &mut self.descriptors {
            descriptor.buffer = place(descriptor.buffer);
        }
        for (_, buffer) in &mut self.addresses {
            *buffer = place(*buffer);
        }
    }

    /// The push-constant block once the buffers have `addresses`.
    #[must_use]
    pub fn block(&self, addresses: &[u64]) -> Vec<u8> {
        let mut block = self.block.clone();
        for (offset, buffer) in &self.addresses {
            let start = *offset as usize;
            block[start..start + 8].copy_from_slice(&addresses[buffer.0].to_le_bytes());
        }
        block
    }

    /// Why a device with these limits cannot bind it, if so.
    #[must_use]
    pub fn unsupported(&self, limits: &DeviceLimits) -> Option<String> {
        let own = limits.descriptors.unwrap_or_default();
        if let Some(most) =
            self.descriptors.iter().map(|descriptor| descriptor.set).max().filter(|set| *set >= own.sets)
        {
            return Some(format!(
                "uses descriptor set {most}; the device has sets 0 to {}",
                own.sets.saturating_sub(1)
            ));
        }
        for (kind, name, most, range, alignment) in [
            (
                DescriptorKind::Storage,
                "storage",
                own.storage_buffers,
                limits.storage_buffer_range,
                own.storage_alignment,
            ),
            (DescriptorKind::Uniform, "uniform", own.uniform_buffers, own.uniform_range, own.uniform_alignment),
        ] {
            let of_kind = || self.descriptors.iter().filter(move |descriptor| descriptor.kind == kind);
            if of_kind().count() > most as usize {
                return Some(format!("binds {} {name} buffers; the device has room for {most}", of_kind().count()));
            }
            if let Some(long) = of_kind().find(|descriptor| descriptor.bytes > range.0) {
                let (set, binding) = (long.set, long.binding);
                return Some(format!(
                    "binds {} to set {set}, binding {binding}; the device allows {range} in one {name} buffer",
                    Bytes(long.bytes)
                ));
            }
            let unaligned = |descriptor: &&Descriptor| !descriptor.offset.is_multiple_of(alignment.0.max(1));
            if let Some(Descriptor { set, binding, offset, .. }) = of_kind().find(unaligned) {
                return Some(format!(
                    "binds byte {offset} of a buffer to set {set}, binding {binding}; the device wants multiples of {} for \
                     {name} buffers",
                    alignment.0
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::tests::software_device;

    fn descriptor(set: u32, binding: u32, kind: DescriptorKind, offset: u64, bytes: u64) -> Descriptor {
        Descriptor { set, binding, kind, buffer: BufferId(binding as usize), offset, bytes, writable: false }
    }

    #[test]
    fn limits_of_descriptors_are_asked_in_words_without_a_device() {
        let limits = software_device().limits;
        let reason =
            |descriptors: Vec<Descriptor>| Bindings { descriptors, ..Bindings::default() }.unsupported(&limits);
        let storage = |set, binding, offset, bytes| descriptor(set, binding, DescriptorKind::Storage, offset, bytes);
        let uniform = |bytes| vec![descriptor(0, 0, DescriptorKind::Uniform, 0, bytes)];
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
    fn addresses_are_written_into_the_block() {
        let bindings = Bindings {
            block: vec![7; 20],
            addresses: vec![(4, BufferId(1)), (12, BufferId(0))],
            ..Bindings::default()
        };
        let block = bindings.block(&[0x11, 0x2233]);
        assert_eq!(block[..4], [7; 4]);
        assert_eq!((&block[4..12], &block[12..]), (&0x2233u64.to_le_bytes()[..], &0x11u64.to_le_bytes()[..]));
    }
}
