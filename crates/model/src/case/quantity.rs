//! Quantities that the limits of a device measure.

use crate::basis::dtype::DType;
use crate::basis::named::named;
use crate::basis::units::Bytes;
use serde::{Deserialize, Serialize};

/// Direction of memory traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// As many loads as stores; both count.
    Copy,
}

/// Quantity of a figure; it determines the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Quantity {
    /// Rate of multiply-adds outside matrix units, two operations each: operations per second.
    Arithmetic {
        /// Element type.
        dtype: DType,
    },
    /// Rate of cooperative-matrix products of one shape: operations per second.
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
    /// Rate of traffic to a working set: bytes per second.
    Bandwidth {
        /// Direction of the traffic.
        pattern: Pattern,
        /// Size of the memory that is traversed again and again.
        working_set: Bytes,
    },
    /// Rate of reads from shared memory, all work-groups together: bytes per second.
    SharedMemory,
    /// Rate of atomic additions to global memory: additions per second.
    Atomics {
        /// Target words of the additions.
        pattern: AtomicPattern,
    },
    /// Time of one operation: nanoseconds.
    Latency {
        /// Operation.
        of: Operation,
    },
    /// Rate of copies between host memory and device memory through a staging buffer that one thread fills or empties,
    /// by the host's clock: bytes per second.
    Transfer {
        /// Direction of the copies.
        direction: Direction,
    },
}

/// Target words of atomic additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AtomicPattern {
    /// One word for all invocations.
    Same,
    /// One word per invocation.
    Spread,
}

named!(AtomicPattern, "pattern", [Same "same", Spread "spread"]);

/// Operation whose time is a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Empty dispatch among others, without barriers between them.
    EmptyDispatch,
    /// Dispatch and the barrier that makes the next one wait for it.
    DependentDispatch,
    /// Indirect dispatch of zero work-groups, with its barrier.
    EmptyIndirectDispatch,
    /// Submission of an empty command buffer, until the host's wait for it returns.
    SubmitToWait,
}

named!(Operation, "operation", [
    EmptyDispatch "empty dispatch", DependentDispatch "dependent dispatch",
    EmptyIndirectDispatch "empty indirect dispatch", SubmitToWait "submit to wait",
]);

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Host to device.
    Upload,
    /// Device to host.
    Download,
}

named!(Direction, "direction", [Upload "upload", Download "download"]);

/// Name, unit and role of a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Name in tables.
    pub name: String,
    pub unit: Unit,
    /// Part of a case's time that the quantity bounds.
    pub bounds: Bounds,
}

/// Part of a case's time that a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Arithmetic, in the limit's type or a narrower one.
    Arithmetic,
    /// Arithmetic in this type only.
    ArithmeticOf(DType),
    Memory,
    Launches,
    /// No part: no share refers to the limit.
    Nothing,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    OperationsPerSecond,
    IntegerOperationsPerSecond,
    AdditionsPerSecond,
    BytesPerSecond,
    /// Nanoseconds per operation; a smaller figure is better only for this unit.
    Nanoseconds,
}

impl Unit {
    fn of_operations(dtype: DType) -> Self {
        if dtype.is_integer() { Self::IntegerOperationsPerSecond } else { Self::OperationsPerSecond }
    }

    /// Returns the unit in tables, and the divisor that converts figures to it.
    pub fn shown(self) -> (&'static str, f64) {
        match self {
            Self::OperationsPerSecond => ("GFLOP/s", 1e9),
            Self::IntegerOperationsPerSecond => ("Gop/s", 1e9),
            Self::AdditionsPerSecond => ("G/s", 1e9),
            Self::BytesPerSecond => ("GB/s", 1e9),
            Self::Nanoseconds => ("µs", 1e3),
        }
    }
}

impl Facts {
    fn new(name: impl Into<String>, unit: Unit, bounds: Bounds) -> Self {
        Self { name: name.into(), unit, bounds }
    }
}

impl Quantity {
    /// Returns the bandwidth over a working set of `words` 32-bit words.
    pub fn bandwidth(pattern: Pattern, words: u64) -> Self {
        Self::Bandwidth { pattern, working_set: Bytes(4 * words) }
    }

    /// Returns the name, the unit and the bounded part.
    pub fn facts(self) -> Facts {
        match self {
            Self::Arithmetic { dtype } => {
                Facts::new(format!("multiply-adds, {dtype}"), Unit::of_operations(dtype), Bounds::Arithmetic)
            }
            Self::Matrix { dtype, narrow, m, n, k } => {
                let sums = if narrow { ", narrow sums" } else { "" };
                let name = format!("matrix unit, {dtype} {m}×{n}×{k}{sums}");
                Facts::new(name, Unit::of_operations(dtype), Bounds::ArithmeticOf(dtype))
            }
            Self::Bandwidth { .. } => Facts::new("bandwidth", Unit::BytesPerSecond, Bounds::Memory),
            Self::SharedMemory => Facts::new("shared memory, loads", Unit::BytesPerSecond, Bounds::Nothing),
            Self::Atomics { pattern } => {
                Facts::new(format!("atomic additions, {pattern}"), Unit::AdditionsPerSecond, Bounds::Nothing)
            }
            Self::Latency { of } => Facts::new(of.name(), Unit::Nanoseconds, Bounds::Launches),
            Self::Transfer { direction } => Facts::new(direction.name(), Unit::BytesPerSecond, Bounds::Nothing),
        }
    }

    /// Returns the unit of the figures.
    pub fn unit(self) -> Unit {
        self.facts().unit
    }
}
