//! Kernels of the user's as algorithms: what `run` resolved, in which nothing is left to be asked or evaluated, becomes an
//! [`Algorithm`](crate::algorithms::Algorithm) of this process, and of the worker that is told of it.

mod command;
pub(crate) mod contents;
mod element;
pub(crate) mod npy;
mod oracle;
mod problem;
mod registry;

use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::basis::size::Size;
use crate::basis::units::Work;
use crate::kernel::binding::DescriptorKind;
pub(crate) use contents::Fill;
pub(crate) use element::Element;
pub(crate) use registry::{all, learn};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Kernels that solve the same problem, with everything that running them takes: what a worker is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Guest {
    /// The name, as tables, records and case ids have it.
    pub(crate) name: String,
    /// The element type that a case is named by, and that its share of a limit refers to.
    pub(crate) dtype: DType,
    /// Formulas of the nominal work, for documentation.
    pub(crate) work: String,
    /// The compiled kernels.
    pub(crate) modules: Vec<Module>,
    /// The kernels side by side, or choices of specialization constants, or built-in variants.
    pub(crate) variants: Vec<Contender>,
    /// The cases: combinations of axes.
    pub(crate) cases: Vec<Instance>,
    /// The folder in which commands run, and that relative paths are below.
    pub(crate) folder: PathBuf,
    /// Buffers that are written to files once a case was verified.
    pub(crate) saves: Vec<Save>,
}

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Module {
    /// Its name, unlike that of all others.
    pub(crate) name: String,
    /// The SPIR-V binary.
    pub(crate) spirv: Vec<u8>,
}

/// One of those that take turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Contender {
    /// The name in tables and ids.
    pub(crate) name: String,
    /// What it is, in one sentence.
    pub(crate) summary: String,
    pub(crate) kind: ContenderKind,
}

/// What a contender runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ContenderKind {
    /// The programs of the instances: this one of each.
    Kernels(usize),
    /// A variant of the built-in algorithm that each instance names, or `auto`.
    BuiltIn(String),
}

/// A case: a choice of all axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Instance {
    /// The axes that vary, by which the case is found.
    pub(crate) size: Size,
    /// All axes by name, for the id.
    pub(crate) extents: String,
    pub(crate) buffers: Vec<Data>,
    /// Nominal work of one run; zeros where it is not known.
    pub(crate) work: Work,
    pub(crate) reference: Truth,
    /// The built-in algorithm with the same problem, where there is one.
    pub(crate) builtin: Option<BuiltIn>,
    /// The programs of the kernels, or why there is none.
    pub(crate) programs: Vec<Result<Steps, String>>,
    /// What is doubtful about it.
    pub(crate) warnings: Vec<String>,
}

/// A buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Data {
    pub(crate) name: String,
    pub(crate) element: Element,
    /// Extents, row major.
    pub(crate) shape: Vec<u64>,
    /// First contents; `None` for what kernels write before they read it.
    pub(crate) fill: Option<Fill>,
    /// Whether kernels write it: then it is restored before each run, if it has first contents.
    pub(crate) written: bool,
    /// How it is compared with the reference.
    pub(crate) check: Option<Tolerance>,
}

impl Data {
    /// Number of elements.
    #[must_use]
    pub(crate) fn len(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Bytes of its elements.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.len() * self.element.bytes() as u64
    }
}

/// How far a buffer may be from its reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Tolerance {
    /// |found − expected| ≤ `absolute` + `relative`·|expected|, for each element.
    Near { relative: f64, absolute: f64 },
    /// Σ(found − expected)² / Σexpected².
    MeanSquare(f64),
    /// Units in the last place of the element type.
    Units(f64),
    /// The same bits.
    Exact,
}

/// Where the right answer comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Truth {
    /// Nowhere: results are unverified.
    Nowhere,
    /// The oracle of the built-in algorithm.
    BuiltIn,
    /// Kernels that are right, on the same device with the same inputs.
    Kernels(Steps),
    /// Files, by the names of buffers.
    Files(BTreeMap<String, PathBuf>),
    /// A command that reads inputs from `{in}` and writes answers to `{out}`.
    Command(String),
}

/// A built-in algorithm that solves the same problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BuiltIn {
    pub(crate) algorithm: String,
    pub(crate) size: Size,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
    /// The buffer that takes the place of each of its, by index.
    pub(crate) roles: Vec<usize>,
}

/// Dispatches, one after the other.
pub(crate) type Steps = Vec<Launch>;

/// A dispatch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// Index of the module.
    pub(crate) module: usize,
    /// Work-groups along x, y, z.
    pub(crate) groups: [u64; 3],
    /// Specialization constants.
    pub(crate) constants: Vec<Constant>,
    /// Descriptors.
    pub(crate) bindings: Vec<Bound>,
    /// The push-constant block, with zeros where addresses go.
    pub(crate) block: Vec<u8>,
    /// Bytes of it at which addresses of buffers go, by the index of the buffer.
    pub(crate) addresses: Vec<(u32, usize)>,
    /// The sub-group size to require.
    pub(crate) subgroup_size: Option<u32>,
}

/// The value of a specialization constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Constant {
    pub(crate) id: u32,
    /// The value in the low bytes.
    pub(crate) bits: u64,
    /// Bytes: 1, 2, 4 or 8.
    pub(crate) bytes: u32,
}

/// A buffer at a set and binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    pub(crate) set: u32,
    pub(crate) binding: u32,
    pub(crate) kind: DescriptorKind,
    /// Index of the buffer.
    pub(crate) buffer: usize,
    /// Bytes from the start of its data.
    pub(crate) offset: u64,
    /// Bytes that the kernel sees; the rest of the buffer where it is not said.
    pub(crate) bytes: Option<u64>,
}

/// A buffer that is written to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Save {
    pub(crate) buffer: String,
    pub(crate) path: PathBuf,
}
