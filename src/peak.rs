//! The limits of a device as they were measured: the document that `gpukern peak` prints and keeps, and the share of
//! a limit that a case reaches.

use crate::dtype::DType;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Name and version of the schema: the number changes when a reader of the old one would misread the new one.
pub const SCHEMA: &str = "gpukern-peak/1";

/// The measured limits of one device with one driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Peak {
    /// `gpukern-peak/1`.
    pub schema: String,
    /// Version of gpukern.
    pub version: String,
    /// When it was measured (RFC 3339, UTC).
    pub measured: String,
    /// How much was measured.
    pub extent: Extent,
    /// The device's name.
    pub device: String,
    /// Its UUID.
    pub uuid: String,
    /// The driver's description of its version.
    pub driver: String,
    /// What was found.
    pub figures: Vec<Figure>,
    /// What the device cannot do, or what failed, and why.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// The levels of memory that the read bandwidths show, from the fastest.
    #[serde(default)]
    pub levels: Vec<Level>,
}

/// How much of a device was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// What shares need, in about two seconds.
    Quick,
    /// Everything.
    Full,
}

/// One measured limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figure {
    /// What was measured.
    pub quantity: Quantity,
    /// The best that was seen, in the unit of the quantity: the fastest sample of the fastest variant.
    pub best: f64,
    /// The median of that variant's samples.
    pub median: f64,
    /// The id of that case.
    pub case: String,
}

/// What a figure measures; its unit follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Quantity {
    /// Multiply-adds outside matrix units, two operations each: operations a second.
    Arithmetic {
        /// Element type.
        dtype: DType,
    },
    /// Products of a cooperative matrix shape: operations a second.
    Matrix {
        /// Element type of the operands.
        dtype: DType,
        /// Whether the accumulator is as narrow as the operands.
        narrow: bool,
        /// Rows of A.
        m: u64,
        /// Columns of B.
        n: u64,
        /// Columns of A.
        k: u64,
    },
    /// Traffic to a working set: bytes a second.
    Bandwidth {
        /// The direction.
        pattern: Pattern,
        /// Bytes that are gone over again and again.
        working_set: Bytes,
    },
    /// Reads of shared memory, of all work-groups together: bytes a second.
    SharedMemory,
    /// Atomic additions to global memory: additions a second.
    Atomics {
        /// Where they go.
        pattern: AtomicPattern,
    },
    /// Time of one operation: nanoseconds.
    Latency {
        /// The operation.
        of: Operation,
    },
    /// Copies between host and device, with the host's part in a staging buffer: bytes a second.
    Transfer {
        /// The direction.
        direction: Direction,
    },
}

/// The direction of traffic to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// As many of each; both count.
    Copy,
}

/// Where atomic additions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AtomicPattern {
    /// All to one word.
    Same,
    /// Each invocation to a word of its own.
    Spread,
}

/// An operation whose time is a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A dispatch that does nothing, behind others that nothing orders.
    EmptyDispatch,
    /// A dispatch and the barrier that makes the next one wait for it.
    DependentDispatch,
    /// An indirect dispatch of zero work-groups, and its barrier.
    EmptyIndirectDispatch,
    /// From submission of an empty command buffer until the host knows that it is done.
    SubmitToWait,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Host to device.
    Upload,
    /// Device to host.
    Download,
}

/// A level of the memory hierarchy as a staircase of bandwidths shows it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Level {
    /// The largest working set that has it; `null` for the last one, memory itself.
    pub up_to: Option<Bytes>,
    /// Median of the read bandwidths of its working sets, in bytes a second.
    pub bandwidth: f64,
}

/// A limit that has no figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Missing {
    /// The case that would have measured it.
    pub case: String,
    /// Why it has none.
    pub reason: String,
}
