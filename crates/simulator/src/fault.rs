//! Faults: what a kernel does that some device answers wrongly.

use serde::Serialize;

/// Kind of fault. Its name is a stable id, for `--allow` and lists of known failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Unordered accesses of two invocations to shared memory, one of them a write.
    RaceShared,
    /// The same in a buffer.
    RaceStorage,
    /// Accesses within a sub-group that only its running in step orders.
    Lockstep,
    /// A value that nothing wrote decides a branch or an address, or reaches an output.
    Uninitialised,
    /// An index beyond its array, or an access beyond the bound range of a buffer.
    OutOfBounds,
    /// A barrier that not all invocations of its scope reach.
    DivergentBarrier,
    /// A value from a lane that is inactive or outside the sub-group.
    InactiveLane,
    /// The answer is right at some sub-group sizes and wrong at others.
    SubgroupSize,
    /// An invocation waits for another one that need not run.
    Progress,
    /// The answer depends on where lanes reconverge.
    Reconvergence,
    /// A shift by too many bits, a division by zero, a conversion out of range.
    UndefinedArithmetic,
    /// Elements of a cooperative matrix used as if the device's layout were known.
    MatrixLayout,
    /// The answer leaves its tolerance if operations err as far as Vulkan allows.
    Precision,
}

impl FaultKind {
    pub const ALL: [Self; 13] = [
        Self::RaceShared,
        Self::RaceStorage,
        Self::Lockstep,
        Self::Uninitialised,
        Self::OutOfBounds,
        Self::DivergentBarrier,
        Self::InactiveLane,
        Self::SubgroupSize,
        Self::Progress,
        Self::Reconvergence,
        Self::UndefinedArithmetic,
        Self::MatrixLayout,
        Self::Precision,
    ];

    /// Returns the stable id.
    pub fn id(self) -> &'static str {
        match self {
            Self::RaceShared => "race-shared",
            Self::RaceStorage => "race-storage",
            Self::Lockstep => "lockstep",
            Self::Uninitialised => "uninitialised",
            Self::OutOfBounds => "out-of-bounds",
            Self::DivergentBarrier => "divergent-barrier",
            Self::InactiveLane => "inactive-lane",
            Self::SubgroupSize => "subgroup-size",
            Self::Progress => "progress",
            Self::Reconvergence => "reconvergence",
            Self::UndefinedArithmetic => "undefined-arithmetic",
            Self::MatrixLayout => "matrix-layout",
            Self::Precision => "precision",
        }
    }
}

/// Place in a kernel: `transpose.comp:24`, or an instruction if the module has no lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SourcePlace {
    /// File and line; `None` for a module without lines.
    pub line: Option<(String, u32)>,
    /// Instruction: `OpLoad %45`.
    pub instruction: String,
    /// Text of the line, if the module holds its source.
    pub text: Option<String>,
}

/// One fault, found at least once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    pub kind: FaultKind,
    /// Name of the kernel.
    pub kernel: String,
    /// Where it shows: the later of two accesses.
    pub at: Option<SourcePlace>,
    /// The other access, or where an undefined value comes from.
    pub other: Option<SourcePlace>,
    /// Sentence that says what happens at the first place: `reads tile[9][4] (invocation 3,12 of group 0,0)`.
    pub what: String,
    /// The same of the other place: `writes it (invocation 12,3), with no barrier between`.
    pub other_what: String,
    /// Remedy, as an imperative: `barrier() after line 21`.
    pub remedy: String,
    /// Sub-group sizes at which it was found.
    pub subgroup_sizes: Vec<u32>,
    /// Occurrences that were counted.
    pub count: u64,
}
