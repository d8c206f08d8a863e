//! Descriptions of buffers: their elements, how many, and who fills and who checks them.

use crate::basis::dtype::DType;
use crate::basis::units::Bytes;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A buffer of a problem, by its position in [`crate::algorithms::Problem::buffers`], or behind these one of the
/// program's own, by its position in [`scratch`](super::program::Program::scratch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferId(pub usize);

/// Bytes of the red zones before and after the data of each buffer on a device. They hold poison, and a kernel that
/// writes to them is rejected: kernels address memory directly, so nothing else would notice.
pub(crate) const RED_ZONE: u64 = 4096;

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
