//! Findings: faults as the machine meets them, by instruction; [`crate::fault`] has them in words.

use crate::code::Pc;
use crate::fault::FaultKind;
use crate::module::Id;
use std::collections::{BTreeMap, HashMap};

/// Invocation of a dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Invocation {
    /// Linear number of the work-group.
    pub(crate) group: u32,
    /// Local invocation index.
    pub(crate) local: u32,
    /// Number of the sub-group within its work-group.
    pub(crate) subgroup: u32,
}

/// Memory object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Object {
    /// Shared memory of the invocation's work-group.
    Shared,
    /// Buffer by its number in the program.
    Buffer(u32),
}

/// Effect of an access on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    Read,
    Write,
    Atomic,
}

/// Facts of a finding, for its sentence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Subject {
    /// Access to memory; `other` is the access of the other invocation, and `passed_barrier` whether a barrier between
    /// them orders another kind of memory.
    Memory {
        object: Object,
        offset: u64,
        bytes: u32,
        access: AccessKind,
        other: Option<AccessKind>,
        passed_barrier: bool,
    },
    /// Index beyond its array, in a variable if that is known.
    Index { index: i64, bound: u64, variable: Option<Id> },
    /// Anything else, in words that follow the place: `shifts by 35`.
    Text(String),
    /// The same, with a remedy of its own instead of the kind's.
    Advised { text: &'static str, remedy: &'static str },
}

/// A fault at an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundFault {
    pub(crate) kind: FaultKind,
    pub(crate) pc: Pc,
    /// Instruction of the other access, or the origin of an undefined value.
    pub(crate) other: Option<Pc>,
    pub(crate) who: Invocation,
    pub(crate) other_who: Option<Invocation>,
    pub(crate) subject: Subject,
}

/// Store of an undefined value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndefinedStore {
    pub(crate) pc: Pc,
    /// Instruction that made the value undefined.
    pub(crate) origin: Pc,
    pub(crate) who: Invocation,
}

/// Last store of an undefined value to each place.
pub(crate) type UndefinedStores = HashMap<(Object, u64), UndefinedStore>;

/// Operands for which an operation first had no defined result in an invocation.
pub(crate) type Hazards = BTreeMap<(Pc, Invocation), [f64; 2]>;

/// Most findings of a dispatch and kind of list; nobody reads more, and each is compared with all others.
pub(crate) const MAX_FINDINGS: usize = 1 << 12;
/// Most places of which stores of undefined values are remembered, and most operands of undefined results.
pub(crate) const MAX_STORES: usize = 1 << 21;

/// Findings of a dispatch: the first of each kind and place, with its count.
#[derive(Default)]
pub(crate) struct Findings(BTreeMap<(FaultKind, Pc, Option<Pc>), (FoundFault, u64)>);

impl Findings {
    /// Adds a finding, or counts it if it is known. `make` is called only for new ones.
    pub(crate) fn add(&mut self, kind: FaultKind, pc: Pc, other: Option<Pc>, make: impl FnOnce() -> FoundFault) {
        let key = (kind, pc, other);
        if let Some((_, count)) = self.0.get_mut(&key) {
            *count += 1;
        } else if self.0.len() < MAX_FINDINGS {
            self.0.insert(key, (make(), 1));
        }
    }

    /// Adds a finding of one invocation.
    pub(crate) fn report(
        &mut self,
        kind: FaultKind,
        pc: Pc,
        other: Option<Pc>,
        who: Invocation,
        subject: impl FnOnce() -> Subject,
    ) {
        self.add(kind, pc, other, || FoundFault { kind, pc, other, who, other_who: None, subject: subject() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&FoundFault, u64)> {
        self.0.values().map(|(finding, count)| (finding, *count))
    }
}
