//! What a limit of a device is a limit of.

use crate::basis::dtype::DType;
use crate::basis::units::Bytes;
use serde::{Deserialize, Serialize};

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
    /// From host memory to device memory or back through a staging buffer that one thread fills or empties, by the
    /// host's clock: bytes a second.
    Transfer {
        /// The direction.
        direction: Direction,
    },
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

/// The name, the unit and the role of a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name in tables.
    pub name: String,
    /// The unit of its figures.
    pub unit: Unit,
    /// What it bounds.
    pub bounds: Bounds,
}

/// The part of a case's time that a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Arithmetic, in its own type or a narrower one.
    Arithmetic,
    /// Arithmetic in this type alone.
    ArithmeticOf(DType),
    /// Traffic to memory.
    Memory,
    /// Launches.
    Launches,
    /// None: no share refers to it.
    Nothing,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Arithmetic operations a second.
    OperationsPerSecond,
    /// Additions to memory a second.
    AdditionsPerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// Nanoseconds of one operation.
    Nanoseconds,
}

impl Unit {
    /// How tables write it, and the power of ten that figures are divided by for that.
    #[must_use]
    pub fn shown(self) -> (&'static str, f64) {
        match self {
            Self::OperationsPerSecond => ("GFLOP/s", 1e9),
            Self::AdditionsPerSecond => ("G/s", 1e9),
            Self::BytesPerSecond => ("GB/s", 1e9),
            Self::Nanoseconds => ("µs", 1e3),
        }
    }
}

impl Quantity {
    /// The bandwidth over a working set of this many 32-bit words.
    #[must_use]
    pub fn bandwidth(pattern: Pattern, words: u64) -> Self {
        Self::Bandwidth { pattern, working_set: Bytes(4 * words) }
    }

    /// Its name, its unit and what it bounds.
    #[must_use]
    pub fn facts(self) -> Facts {
        let facts = |name: &str, unit, bounds| Facts { name: name.into(), unit, bounds };
        match self {
            Self::Arithmetic { dtype } => {
                facts(&format!("multiply-adds, {dtype}"), Unit::OperationsPerSecond, Bounds::Arithmetic)
            }
            Self::Matrix { dtype, narrow, m, n, k } => {
                let sums = if narrow { ", narrow sums" } else { "" };
                let name = format!("matrix unit, {dtype} {m}×{n}×{k}{sums}");
                facts(&name, Unit::OperationsPerSecond, Bounds::ArithmeticOf(dtype))
            }
            Self::Bandwidth { .. } => facts("bandwidth", Unit::BytesPerSecond, Bounds::Memory),
            Self::SharedMemory => facts("shared memory, loads", Unit::BytesPerSecond, Bounds::Nothing),
            Self::Atomics { pattern } => {
                let place = match pattern {
                    AtomicPattern::Same => "same",
                    AtomicPattern::Spread => "spread",
                };
                facts(&format!("atomic additions, {place}"), Unit::AdditionsPerSecond, Bounds::Nothing)
            }
            Self::Latency { of } => {
                let operation = match of {
                    Operation::EmptyDispatch => "empty dispatch",
                    Operation::DependentDispatch => "dependent dispatch",
                    Operation::EmptyIndirectDispatch => "empty indirect dispatch",
                    Operation::SubmitToWait => "submit to wait",
                };
                facts(operation, Unit::Nanoseconds, Bounds::Launches)
            }
            Self::Transfer { direction } => {
                let direction = match direction {
                    Direction::Upload => "upload",
                    Direction::Download => "download",
                };
                facts(direction, Unit::BytesPerSecond, Bounds::Nothing)
            }
        }
    }

    /// The unit of its figures.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.facts().unit
    }
}
