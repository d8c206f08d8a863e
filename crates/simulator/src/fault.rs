//! Faults: what a kernel does that some device answers wrongly.

use crate::basis::named::named;
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
    Uninitialized,
    /// An index beyond its array, or an access beyond the bound range of a buffer.
    OutOfBounds,
    /// A barrier that not all invocations of its scope reach.
    DivergentBarrier,
    /// A value from a lane that is inactive or outside the sub-group.
    InactiveLane,
    /// The answer is right at some sub-group sizes and wrong at others.
    SubgroupSize,
    /// Answers that nobody can judge differ between sub-group sizes or schedules.
    DifferingAnswers,
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

named!(FaultKind, "fault", [
    RaceShared "race-shared",
    RaceStorage "race-storage",
    Lockstep "lockstep",
    Uninitialized "uninitialized",
    OutOfBounds "out-of-bounds",
    DivergentBarrier "divergent-barrier",
    InactiveLane "inactive-lane",
    SubgroupSize "subgroup-size",
    DifferingAnswers "differing-answers",
    Progress "progress",
    Reconvergence "reconvergence",
    UndefinedArithmetic "undefined-arithmetic",
    MatrixLayout "matrix-layout",
    Precision "precision",
]);

impl FaultKind {
    /// Returns the kind in words, for headings.
    pub fn words(self) -> &'static str {
        match self {
            Self::RaceShared => "race in shared memory",
            Self::RaceStorage => "race in a buffer",
            Self::Lockstep => "relies on lockstep",
            Self::Uninitialized => "uninitialized value",
            Self::OutOfBounds => "out of bounds",
            Self::DivergentBarrier => "divergent barrier",
            Self::InactiveLane => "inactive lane",
            Self::SubgroupSize => "sub-group size",
            Self::DifferingAnswers => "differing answers",
            Self::Progress => "may wait forever",
            Self::Reconvergence => "reconvergence",
            Self::UndefinedArithmetic => "undefined arithmetic",
            Self::MatrixLayout => "matrix layout",
            Self::Precision => "precision",
        }
    }

    /// Returns what to do about the fault, wherever it is; a report of a race names the lines instead.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self::RaceShared => "order the accesses by a barrier",
            Self::RaceStorage => "order the accesses by a barrier of buffers, by atomics, or by two dispatches",
            Self::Lockstep => "order the accesses by a barrier of the sub-group",
            Self::Uninitialized => "write the value before it is read, or do not use it",
            Self::OutOfBounds => "check the index against the length, or enlarge the array",
            Self::DivergentBarrier => {
                "let every invocation reach the barrier: put conditions around the work, not the barrier, and loop equally often"
            }
            Self::InactiveLane => "move it out of the condition, or check the lane",
            Self::SubgroupSize => {
                "derive every count from gl_SubgroupSize and gl_NumSubgroups, loop where there may be more sub-groups than lanes, or require a size"
            }
            Self::DifferingAnswers => {
                "make the answer independent of sub-group size and order; if only the order of rows differs, declare `check = \"set\"`"
            }
            Self::Progress => "wait only for work-groups that have begun: number them with an atomic counter",
            Self::Reconvergence => "ask for maximal reconvergence, or place subgroupBarrier() where all lanes arrive",
            Self::UndefinedArithmetic => "test for these operands first",
            Self::MatrixLayout => "access elements of a matrix by loads and stores only, whatever the layout",
            Self::Precision => "use operations that Vulkan requires to be more precise, or widen the tolerance",
        }
    }

    /// Whether the fault is nothing but a wrong answer under some conditions.
    pub fn is_of_answer(self) -> bool {
        matches!(self, Self::SubgroupSize | Self::Reconvergence | Self::MatrixLayout | Self::Precision)
    }
}

impl SourcePlace {
    /// Returns the place for a person: `transpose.comp:24`, or the instruction.
    pub fn text(&self) -> String {
        self.line.as_ref().map_or_else(|| self.instruction.clone(), |(file, line)| format!("{file}:{line}"))
    }
}

/// Place in a kernel: `transpose.comp:24`, or an instruction if the module has no lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SourcePlace {
    /// File and line; `None` for a module without lines.
    pub line: Option<(String, u32)>,
    /// Instruction, of a module without lines: `OpLoad at word 45`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instruction: String,
    /// Text of the line, if the module holds its source.
    pub text: Option<String>,
}

/// One fault, found at least once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelFault {
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

/// Returns what is said of an access before its index: `reads X`.
fn array(what: &str) -> &str {
    let index = what.find('[').or_else(|| what.find(|c: char| c.is_ascii_digit()));
    index.map_or(what, |index| &what[..index])
}

impl KernelFault {
    /// Whether two faults are of one kind at one place. Without places, the sentences tell faults apart.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_same_place = (&self.at, &self.other) == (&other.at, &other.other);
        // A line may read outside of one array, and write outside of another.
        let is_same_array = self.kind != FaultKind::OutOfBounds || array(&self.what) == array(&other.what);
        self.kind == other.kind && is_same_place && is_same_array && (self.at.is_some() || self.what == other.what)
    }

    /// Returns the places, each with what happens there.
    pub fn events(&self) -> Vec<String> {
        let sentence = |place: &Option<SourcePlace>, what: &str| {
            let place = place.as_ref().map(SourcePlace::text).unwrap_or_default();
            format!("{place} {what}").trim().to_string()
        };
        let mut events = vec![sentence(&self.at, &self.what), sentence(&self.other, &self.other_what)];
        events.retain(|event| !event.is_empty());
        events
    }

    /// Returns the fault in a line.
    pub fn sentence(&self) -> String {
        format!("{}: {}; remedy: {}", self.kind.words(), self.events().join("; "), self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_fault_for_each_array_that_it_leaves() {
        let place = SourcePlace { line: Some(("k.comp".into(), 7)), instruction: String::new(), text: None };
        let fault = |what: &str| KernelFault {
            kind: FaultKind::OutOfBounds,
            kernel: "k".into(),
            at: Some(place.clone()),
            other: None,
            what: what.into(),
            other_what: String::new(),
            remedy: String::new(),
            subgroup_sizes: vec![8],
            count: 1,
        };
        let read = fault("reads X1[256], of 256 elements");
        assert!(read.is_same(&fault("reads X1[257], of 256 elements")));
        assert!(!read.is_same(&fault("reads X2[256], of 256 elements")));
        assert!(!read.is_same(&fault("writes X1[256], of 256 elements")));
        assert!(fault("uses index 16 of an array").is_same(&fault("uses index 17 of an array")));
    }
}
