//! Register code, to which SPIR-V is lowered: every value is a scalar in a register that has an entry for each lane of a
//! gang. Vectors, structures and private arrays are consecutive registers, functions are inlined, and blocks are numbered
//! such that lanes which execute the lowest block first meet again where their paths merge.

use crate::fault::FaultKind;
use crate::kernel::interface::Scalar;
use crate::module::Id;
use std::ops::Range;

/// Register: 64 bits for each lane. Narrower values are zero-extended (signed integers too), a boolean is 0 or 1, floats
/// are their bits.
pub(crate) type Reg = u32;

/// Index of an instruction in [`Code::instructions`]; faults are traced to source lines by it.
pub(crate) type Pc = u32;

/// Lowered kernel.
#[derive(Default)]
pub(crate) struct Code {
    pub(crate) instructions: Vec<RegisterOp>,
    /// First instruction of each block.
    pub(crate) blocks: Vec<Pc>,
    /// Merge block of the selection or loop that each block begins, if it begins one.
    pub(crate) merges: Vec<Option<u32>>,
    /// Number of registers.
    pub(crate) registers: u32,
    /// Whether each register is used.
    pub(crate) used: Vec<bool>,
    /// Registers that hold a constant.
    pub(crate) constants: Vec<(Reg, u64)>,
    /// Terms of all [`RegisterOp::Offset`]s.
    pub(crate) terms: Vec<Term>,
    /// Moves of all edges: values of phis.
    pub(crate) moves: Vec<(Reg, Reg)>,
    /// Bytes of shared memory.
    pub(crate) shared_bytes: u64,
}

/// Function that computes a register from up to four others, for all active lanes.
#[derive(Clone, Copy)]
pub(crate) enum LaneFunction {
    One(fn(&crate::lanes::Active, &mut [u64], &[u64])),
    Two(fn(&crate::lanes::Active, &mut [u64], &[u64], &[u64])),
    Three(fn(&crate::lanes::Active, &mut [u64], &[u64], &[u64], &[u64])),
    Four(fn(&crate::lanes::Active, &mut [u64], &[u64], &[u64], &[u64], &[u64])),
}

/// Predicate of operands for which an operation's result is undefined: a shift by too much, a division by zero.
pub(crate) type Hazard = fn(u64, u64) -> bool;

/// One summand of an offset: `index * stride`, with an index that must be below `bound`.
#[derive(Clone, Copy)]
pub(crate) struct Term {
    pub(crate) index: Reg,
    /// Type of the index: signed ones are sign-extended.
    pub(crate) scalar: Scalar,
    /// Bytes in memory, registers in private arrays.
    pub(crate) stride: u64,
    /// Number of elements; `None` for a run-time array, whose bound is that of its buffer.
    pub(crate) bound: Option<u64>,
    /// Variable that holds the array, if it is known.
    pub(crate) variable: Option<Id>,
}

/// Offset that an index out of its array's bounds gives; every access through it is a fault.
pub(crate) const BAD_OFFSET: u64 = u64::MAX / 2;

/// Way to the next block.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) block: u32,
    /// Moves (in [`Code::moves`]) that the lanes make on the way, all at once.
    pub(crate) moves: Range<u32>,
}

/// Memory that a load or store names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MemoryPlace {
    /// Shared memory of the work-group.
    Shared,
    /// Descriptor by its index in the kernel's list of slots. `element` selects one of `count` descriptors of an array.
    Slot { slot: u32, count: u32, element: Option<Reg> },
    /// Push constants.
    Push,
    /// Any memory, by an address that the offset register holds: of buffers, and of memory behind variable pointers.
    Address,
}

/// Location of a scalar: `offset` (a register, if any) plus `constant` bytes from the start of the place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Location {
    pub(crate) place: MemoryPlace,
    pub(crate) offset: Option<Reg>,
    pub(crate) constant: u64,
    /// Alignment that the access must have, in bytes.
    pub(crate) alignment: u32,
}

/// Scope and semantics of a barrier or atomic (SPIR-V's `Scope` and `MemorySemantics` words).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Semantics {
    pub(crate) scope: u32,
    pub(crate) bits: u32,
}

/// Read-modify-write operation of an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Load,
    Store,
    Exchange,
    /// Replaces the value if it equals the comparator.
    CompareExchange,
    Add,
    Sub,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// Group operation of a sub-group arithmetic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Reduce,
    InclusiveScan,
    ExclusiveScan,
    /// Over clusters of lanes.
    Clustered,
    /// Over the lanes of equal ballots (`SPV_NV_shader_subgroup_partitioned`); the ballot is in the argument registers.
    PartitionedReduce,
    PartitionedInclusiveScan,
    PartitionedExclusiveScan,
}

/// Operator of a sub-group reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Add,
    Mul,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// Sub-group operation. `argument` is a lane, mask, delta or cluster size, where the operation has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubgroupOp {
    Elect,
    All,
    Any,
    AllEqual,
    Broadcast,
    BroadcastFirst,
    /// Results are four registers.
    Ballot,
    /// Operand is four registers, as of all other operations on ballots.
    InverseBallot,
    BallotBitExtract,
    BallotBitCount(Reduction),
    BallotFindLsb,
    BallotFindMsb,
    Shuffle,
    ShuffleXor,
    ShuffleUp,
    ShuffleDown,
    /// Rotation within clusters; `second` has the cluster size, if any.
    Rotate,
    Reduce(Reduction, Combine),
    QuadBroadcast,
    /// 0 horizontal, 1 vertical, 2 diagonal.
    QuadSwap,
    QuadAll,
    QuadAny,
    /// Four registers: the ballot of lanes with an equal value.
    Partition,
}

#[derive(Clone)]
pub(crate) enum RegisterOp {
    Compute {
        operation: LaneFunction,
        to: Reg,
        from: [Reg; 4],
        /// Operands without a defined result, and their type.
        hazard: Option<(Hazard, Scalar)>,
        /// Value of one operand with which the other does not matter.
        absorbing: Option<u64>,
        /// Error that Vulkan allows, for loose arithmetic, and type of the result.
        error: Option<(crate::alu::ErrorBound, Scalar)>,
    },
    Copy {
        to: Reg,
        from: Reg,
    },
    /// Chooses by a boolean; unlike in a computation only the chosen value must be defined.
    Select {
        to: Reg,
        condition: Reg,
        yes: Reg,
        no: Reg,
    },
    /// Makes `count` registers undefined.
    Undefine {
        first: Reg,
        count: u32,
    },
    /// Reads register `first + index`, with an index below `count` or [`BAD_OFFSET`].
    LoadIndexed {
        to: Reg,
        first: Reg,
        count: u32,
        index: Reg,
    },
    StoreIndexed {
        from: Reg,
        first: Reg,
        count: u32,
        index: Reg,
    },
    /// Adds `base`, `constant` and the terms; [`BAD_OFFSET`] if an index is out of bounds.
    Offset {
        to: Reg,
        base: Option<Reg>,
        constant: u64,
        terms: Range<u32>,
    },
    /// Address of a location, for pointers that are values.
    AddressOf {
        to: Reg,
        location: Location,
    },
    Load {
        to: Reg,
        at: Location,
        scalar: Scalar,
    },
    Store {
        from: Reg,
        at: Location,
        scalar: Scalar,
    },
    /// Reads component `component` of a texel of four f32, at index `index` of a texel buffer.
    Fetch {
        to: Reg,
        slot: u32,
        index: Reg,
        component: u32,
    },
    Atomic {
        op: AtomicOp,
        /// Result; meaningless for a store.
        to: Reg,
        at: Location,
        scalar: Scalar,
        value: Reg,
        comparator: Reg,
        semantics: Semantics,
    },
    /// Elements of the run-time array `stride` bytes each, from byte `start` of a slot.
    ArrayLength {
        to: Reg,
        place: MemoryPlace,
        start: u64,
        stride: u64,
    },
    /// Texels of a texel buffer.
    TexelCount {
        to: Reg,
        slot: u32,
    },
    Subgroup {
        op: SubgroupOp,
        scalar: Scalar,
        to: Reg,
        value: Reg,
        argument: Reg,
        second: Option<Reg>,
    },
    Matrix(Box<crate::matrix::MatrixInstruction>),
    ControlBarrier {
        execution: u32,
        memory: Semantics,
    },
    MemoryBarrier(Semantics),
    /// Reads a clock.
    Clock {
        to: Reg,
    },
    Jump(Edge),
    Branch {
        condition: Reg,
        yes: Edge,
        no: Edge,
    },
    Switch {
        selector: Reg,
        cases: Vec<(u64, Edge)>,
        default: Edge,
    },
    /// The invocation ends.
    Finish,
    /// A block that the module says is never reached.
    Unreachable,
}

impl Code {
    /// Returns the block that holds an instruction.
    pub(crate) fn block_at(&self, pc: Pc) -> usize {
        self.blocks.partition_point(|begin| *begin <= pc).saturating_sub(1)
    }
}

impl RegisterOp {
    /// Returns the fault of using an undefined value that this instruction made.
    pub(crate) fn fault_of_result(&self) -> FaultKind {
        match self {
            Self::Compute { .. } => FaultKind::UndefinedArithmetic,
            Self::Subgroup { .. } => FaultKind::InactiveLane,
            _ => FaultKind::Uninitialized,
        }
    }

    /// Whether the instruction reads a buffer.
    pub(crate) fn reads_buffer(&self) -> bool {
        match self {
            Self::Load { at, .. } | Self::Atomic { at, .. } => at.place != MemoryPlace::Shared,
            Self::Fetch { .. } => true,
            _ => false,
        }
    }
}

impl LaneFunction {
    pub(crate) fn operand_count(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(_) => 2,
            Self::Three(_) => 3,
            Self::Four(_) => 4,
        }
    }
}
