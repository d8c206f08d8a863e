//! Algorithms and their variants as types: what a catalogue lists, what a plan measures and what judges an answer.

pub mod baseline;
mod case;
pub mod catalogue;
pub mod product_tile;
pub mod tile;

use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::{self, Error};
use crate::basis::handle::Handle;
use crate::basis::layout::Layout;
use crate::basis::named::is_named;
use crate::basis::size::Size;
use crate::basis::units::{Nanos, Work};
use crate::case::check::CheckResult;
use crate::case::input::Input;
use crate::case::quantity::Quantity;
use crate::case::{CaseOptions, Form, Goal, Shortcut};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::kernel::buffer::BufferSpec;
use crate::kernel::program::Program;
use crate::kernel::shaders::{Kernels, Shader};
use baseline::Baseline;
pub use case::CaseSpec;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use tile::{Tile, Tunable};

/// Name that selects the best variant for a device, type and size: the one that tuning found to be the fastest, or else the
/// one that the algorithm's performance model prefers.
pub const AUTO: &str = "auto";

/// Constructor of the problem that a case poses; returns an error if the size makes no sense.
pub type Pose = Handle<dyn Fn(&CaseSpec) -> Result<Box<dyn Problem>, String> + Send + Sync>;

/// Builder of the program that solves a case on a device with the compiled kernels. Pure; the program is checked
/// against the device's limits afterwards.
pub type Build = Handle<dyn Fn(&[&'static Shader], &CaseSpec, &DeviceInfo) -> Program + Send + Sync>;

/// Ranking of an algorithm's variants for a case on a device, predicted fastest first.
pub type Candidates = fn(&Algorithm, &CaseSpec, &DeviceInfo) -> Vec<Candidate>;

/// Computation of the only output of a case in f64 from its inputs; `None` for unsupported element types.
pub type Exact = fn(&CaseSpec, &[HostArray]) -> Option<Vec<f64>>;

/// Computation with several implementations.
pub struct Algorithm {
    /// Canonical name in tables, records and case ids.
    pub name: Cow<'static, str>,
    /// Content hash that distinguishes versions of a user's kernel; `None` for built-in algorithms.
    pub fingerprint: Option<String>,
    /// Description in one sentence.
    pub summary: &'static str,
    /// Formula of the nominal work, for documentation.
    pub work: &'static str,
    /// Default sweeps of `bench`.
    pub default_size: Sweeps,
    /// Awkward sizes for `verify`.
    pub verify_size: Sweeps,
    /// Whether the algorithm runs in rounds until a [`crate::case::StopRule`] is met.
    pub iterative: bool,
    /// Kinds of input data, default first.
    pub inputs: &'static [Input],
    /// Layouts of the operands, default first.
    pub layouts: &'static [Layout],
    /// Implementations, in the order of lists.
    pub variants: Cow<'static, [Variant]>,
    /// Variants with tunable tiles, the one tuned by default first.
    pub tunable: &'static [Tunable],
    /// Candidates for `--variant auto`: at least one, predicted fastest first; `None` without a performance model.
    pub candidates: Option<Candidates>,
    /// Extension of the programs that solves a system of equations (`--solve`), if there is one.
    pub solution: Option<&'static Solution>,
    /// Program that a user would choose on the CPU, if there is one.
    pub baseline: Option<&'static Baseline>,
    /// Computation of the only correct output of a case in f64, if there is one, for checks that a user states.
    pub exact: Option<Exact>,
    /// Constructor of the problem of a case.
    pub problem: Pose,
}

impl Algorithm {
    /// Defaults of fields that few built-in algorithms set. Each states its names, texts, sizes, variants and problem.
    pub const PLAIN: Self = Self {
        name: Cow::Borrowed(""),
        fingerprint: None,
        summary: "",
        work: "",
        default_size: Sweeps::same(""),
        verify_size: Sweeps::same(""),
        iterative: false,
        inputs: &[Input::Uniform],
        layouts: &[Layout::Nn],
        variants: Cow::Borrowed(&[]),
        tunable: &[],
        candidates: None,
        solution: None,
        baseline: None,
        exact: None,
        problem: Handle::Static(&|_| Err(String::new())),
    };
}

/// Extension of programs whose result, such as the factors of a matrix, solves a system of equations.
pub struct Solution {
    /// Description in one sentence.
    pub summary: &'static str,
    /// Formula of the nominal work, for documentation.
    pub work: &'static str,
    /// Kinds of input, default first, for which a variant guarantees an accurate solution: a conformance run uses them.
    pub inputs: fn(variant: &str, DType) -> &'static [Input],
    /// Kernels in addition to the variant's.
    pub kernels: Kernels,
    /// Appends the steps from the result to the solution to a variant's program. Pure.
    pub program: fn(Program, &CaseSpec, &DeviceInfo) -> Program,
}

/// Most elements of a buffer that kernels can index: access chains take signed 32-bit indices.
pub const MAX_ELEMENTS: u64 = 1 << 31;

/// Default sweeps of an algorithm, as a user types them: `256..2048`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweeps {
    pub gpu: &'static str,
    /// Sweep for a device that computes on the host's cores.
    pub cpu: &'static str,
}

impl Sweeps {
    /// Uses one sweep for every device.
    pub const fn same(sweep: &'static str) -> Self {
        Self { gpu: sweep, cpu: sweep }
    }

    /// Returns the sweep for devices of this kind.
    pub fn on(&self, kind: DeviceKind) -> &'static str {
        if kind.runs_on_host_cores() { self.cpu } else { self.gpu }
    }
}

/// Implementation of an algorithm.
#[derive(Clone)]
pub struct Variant {
    /// Name in tables, records and case ids.
    pub name: Cow<'static, str>,
    /// Chosen values of a user's kernel, which its name has in brackets.
    pub choice: BTreeMap<String, String>,
    /// Other names accepted on the command line, such as a post's version numbers.
    pub aliases: &'static [&'static str],
    /// Description in one sentence.
    pub summary: &'static str,
    /// Document, paper or program that the variant comes from.
    pub source: &'static str,
    /// Meaning of the variant's time.
    pub measures: Measures,
    /// Kernels; `program` gets them compiled for the case's element type, in this order.
    pub kernels: Kernels,
    /// Builder of the steps that solve a case on a device.
    pub program: Build,
}

/// Meaning of a variant's time.
#[derive(Clone, Copy)]
pub enum Measures {
    /// Time to solve the problem.
    Problem,
    /// Time to solve the problem with shortcuts that change the answer; ranked only among variants that take the same.
    Shortcuts(&'static [Shortcut]),
    /// Time to solve a system of equations; the solution is the only result.
    Solution,
    /// Cost of an operation in one of its forms.
    Form(Form),
    /// Limit of the device.
    Limit {
        /// Measured quantity; `None` for a size without a problem.
        of: fn(Size, DType) -> Option<Quantity>,
        /// Whether shares of limits need it, so that ordinary runs measure it too.
        quick: bool,
    },
}

/// Way to solve a case, with its predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub variant: &'static str,
    /// Tile, if the variant has a choice.
    pub tile: Option<Tile>,
    pub predicted: Nanos,
}

/// Problem of a given size: buffers, inputs and oracle.
pub trait Problem {
    /// Returns the size in full, for case ids: `1024x1024x1024`.
    fn extents(&self) -> String;
    /// Returns the buffers, which programs refer to by position.
    fn buffers(&self) -> Vec<BufferSpec>;
    /// Returns the nominal work of one run.
    fn work(&self) -> Work;
    /// Returns the length of a chain of dependent operations, if the problem is one: tables show the time of each.
    fn chain(&self) -> Option<u64> {
        None
    }
    /// Describes the buffers and their fills, `A f32[64,64] uniform(-1,1)`, if the case's input and seed do not.
    fn data(&self) -> Vec<String> {
        vec![]
    }
    /// Lists the distinct fills of the inputs, such as `iota`, if the case's input and seed do not.
    fn fills(&self) -> Vec<String> {
        vec![]
    }
    /// Returns why no kernel of it runs, such as an error of its compiler: its cases fail.
    fn unusable(&self) -> Option<String> {
        None
    }
    /// Whether inputs come from files or from another program, which may write different data each time.
    fn inputs_are_given(&self) -> bool {
        false
    }
    /// Returns the contents of the buffers that the host fills, in buffer order. Fails if a file or program lacks them.
    fn inputs(&self) -> Result<Vec<HostArray>, Error>;
    /// Returns other contents of these buffers, which show mistakes that the usual ones hide, each with a condition for
    /// messages: `if X has only negative numbers`.
    fn revealing_inputs(&self) -> Vec<(String, Vec<HostArray>)> {
        vec![]
    }
    /// Solves the problem on the host. The inputs may be dropped afterwards. The error says why a file or another
    /// program does not supply the answer.
    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, Error>;
    /// Returns the reference program, whose outputs on the same device define the correct answer, with the function
    /// that makes an oracle of them; `None` if the oracle runs on the host.
    fn reference(&self, _: &DeviceInfo) -> Option<(Program, MakeOracle)> {
        None
    }
    /// Returns an oracle that compares with an answer of which nobody knows whether it is right; `None` if there is a correct
    /// one to compare with.
    fn oracle_of(&self, _answer: &[HostArray], _inputs: &[HostArray]) -> Option<Box<dyn Oracle>> {
        None
    }
    /// Returns warnings about a case that can run nevertheless.
    fn warnings(&self) -> Vec<String> {
        vec![]
    }
}

/// Constructor of an oracle from a reference program's outputs, in buffer order.
pub type MakeOracle = Box<dyn FnOnce(Vec<HostArray>) -> Result<Box<dyn Oracle>, Error>>;

/// Properties of an output's comparison that mutations depend on.
#[derive(Clone, Debug)]
pub struct OutputComparison {
    /// Elements per row; 1 for a vector.
    pub row: usize,
    /// Tolerance, for messages; empty for the algorithm's own.
    pub tolerance: String,
    /// Whether the order of elements matters.
    pub ordered: bool,
}

impl Default for OutputComparison {
    fn default() -> Self {
        Self { row: 1, tolerance: String::new(), ordered: true }
    }
}

/// Judge of a problem's answers.
pub trait Oracle {
    /// Compares the output buffers (including in-place ones), in buffer order, with the correct answer. The error says
    /// why there is no answer at all: `zero pivot at column 3`, `not converged after 1000 rounds`.
    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String>;
    /// Returns why the outputs cannot be judged, if so, and then what is odd about them; [`Self::check`] passes then.
    fn doubts(&self, _outputs: &[HostArray]) -> Vec<String> {
        vec![]
    }
    /// Returns the doubts in one sentence.
    fn doubt(&self, outputs: &[HostArray]) -> Option<String> {
        let doubts = self.doubts(outputs);
        (!doubts.is_empty()).then(|| doubts.join("; "))
    }
    /// Returns the outputs with the rows of sets sorted, as their order makes no difference.
    fn in_order<'a>(&self, outputs: &'a [HostArray]) -> Cow<'a, [HostArray]> {
        outputs.into()
    }
    /// Returns the name of an output's element if elements are compared one by one.
    fn element(&self, _output: usize, _index: usize) -> Option<String> {
        None
    }
    /// Returns notes for the reader about the correct answer.
    fn notes(&self) -> Vec<String> {
        vec![]
    }
    /// Saves the outputs, right or wrong, if the user asked for that.
    fn save(&self, _outputs: &[HostArray]) -> Result<(), String> {
        Ok(())
    }
    /// Returns how output `output` is compared; `None` if it is not.
    fn comparison(&self, _output: usize) -> Option<OutputComparison> {
        Some(OutputComparison::default())
    }
    /// Returns the correct contents of these ranges of an output, if they are known element by element.
    fn answer(&self, _output: usize, _stretches: &[Range<usize>]) -> Option<Vec<u8>> {
        None
    }
    /// Checks `found`, mutated contents of these ranges of an output. Returns the share of the `changed` elements that
    /// pass although the others are correct; 1 if the whole answer passes. `None` if only complete answers can be
    /// checked.
    fn accepted_share(&self, _output: usize, _stretches: &[Range<usize>], _found: &[u8], _changed: u64) -> Option<f64> {
        None
    }
}

/// Oracle consisting of a function of the outputs.
impl<F: Fn(&[HostArray]) -> Result<CheckResult, String>> Oracle for F {
    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String> {
        self(outputs)
    }
}

impl Algorithm {
    /// Finds a variant by name or alias. The error message has the nearest name.
    pub fn variant(&self, name: &str) -> Result<&Variant, String> {
        let is_meant = |variant: &&Variant| is_named(&variant.name, name) || variant.aliases.contains(&name);
        let variant = self.variants.iter().find(is_meant);
        variant.ok_or_else(|| error::unknown("variant", name, &format!(" for {}", self.name), &self.names()))
    }

    /// Returns the names that select a variant, for messages: `auto` too if the algorithm has a rule for it.
    pub(super) fn names(&self) -> Vec<&str> {
        let auto = self.candidates.map(|_| AUTO);
        self.variants.iter().map(|variant| &*variant.name).chain(auto).collect()
    }

    /// Whether the variants measure limits of the device.
    pub fn finds_limits(&self) -> bool {
        self.variants.iter().any(|variant| matches!(variant.measures, Measures::Limit { .. }))
    }

    /// Returns the tile search of `variant`, if it is tunable.
    pub fn tunable(&self, variant: &Variant) -> Option<&'static Tunable> {
        self.tunable.iter().find(|tunable| tunable.variant == variant.name)
    }

    /// Iterates over the element types in which at least one variant reaches `goal`.
    pub fn dtypes(&self, goal: Goal) -> impl Iterator<Item = DType> {
        let is_reached = move |dtype: &DType| self.variants.iter().any(|variant| variant.reaches(goal, *dtype));
        DType::ALL.into_iter().filter(is_reached)
    }

    /// Returns the goals that can be requested.
    pub fn goals(&self) -> &'static [Goal] {
        match self.solution {
            Some(_) => &[Goal::Result, Goal::Solution],
            None => &[Goal::Result],
        }
    }

    /// Builds the program of `variant` for a case. The error says why the device cannot run it.
    pub fn program(&self, variant: &Variant, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let program = variant.program(case, device)?;
        let gives_result = matches!(variant.measures, Measures::Problem | Measures::Shortcuts(_));
        match self.solution {
            Some(solution) if gives_result && case.goal == Goal::Solution => {
                check_support((solution.program)(program, case, device), device)
            }
            _ => Ok(program),
        }
    }

    /// Builds the program of `variant` for a case that poses `problem`, if `device` can run it: the variant supports
    /// the element type and the case's tile, and the device has the features, limits, memory and views. Both `--variant
    /// auto` and the skipping of variants use this check. The error is the first obstacle.
    pub fn feasible(
        &self,
        variant: &Variant,
        case: &CaseSpec,
        problem: &dyn Problem,
        device: &DeviceInfo,
    ) -> Result<Program, String> {
        // Builders may rely on plausible limits.
        if let Some(reason) = device.uninspectable() {
            return Err(reason);
        }
        let tunable = self.tunable(variant);
        let built_in = || tunable.map(|tunable| tunable.tiles.built_in(case, device));
        let check = |tile: Tile| match tunable {
            Some(tunable) => {
                tunable.tiles.check_tile(&tile, case, device).map_err(|reason| format!("tile {tile} {reason}"))
            }
            None => Ok(()),
        };
        let chosen = case.tile.filter(|tile| Some(*tile) != built_in());
        if let Some(tile) = chosen {
            check(tile)?;
        }
        let program = self.program(variant, case, device)?;
        if let Some(size) = case.subgroup_size
            && !program.dispatches().any(|dispatch| dispatch.subgroup_size == Some(size))
        {
            // It would be measured without the requested size, under a name that claims it.
            return Err(format!("its code is the same for all sub-group sizes, so {size} cannot be required"));
        }
        let program = program.feasible(&problem.buffers(), device)?;
        // A built-in tile is illegal where no other is legal either. The program's own check comes first, because it says
        // what the device lacks.
        if chosen.is_none()
            && let Some(tile) = built_in()
        {
            check(tile)?;
        }
        Ok(program)
    }
}

impl Variant {
    /// Whether the kernels are compiled for `dtype` in the default layout.
    pub fn supports(&self, dtype: DType) -> bool {
        self.shaders(dtype, Layout::default()).is_some()
    }

    /// Whether the variant can deliver `goal` in an element type.
    pub fn reaches(&self, goal: Goal, dtype: DType) -> bool {
        self.supports(dtype) && (goal == Goal::Solution || !matches!(self.measures, Measures::Solution))
    }

    /// Returns the kernels compiled for `dtype` and `layout`. Panics if no kernel has such a name.
    pub fn shaders(&self, dtype: DType, layout: Layout) -> Option<Vec<&'static Shader>> {
        self.kernels.compiled(dtype, layout, || format!("variant {}", self.name))
    }

    /// Returns operation and form, if the variant is one form of an operation.
    pub fn form(&self) -> Option<Form> {
        match self.measures {
            Measures::Form(form) => Some(form),
            _ => None,
        }
    }

    /// Returns the variant's shortcuts.
    pub fn shortcuts(&self) -> &'static [Shortcut] {
        match self.measures {
            Measures::Shortcuts(shortcuts) => shortcuts,
            _ => &[],
        }
    }

    /// Returns the limit that a case of this size and type measures.
    pub fn limit(&self, size: Size, dtype: DType) -> Option<Quantity> {
        match self.measures {
            Measures::Limit { of, .. } => of(size, dtype),
            _ => None,
        }
    }

    /// Builds the program for a case, if the device has the features and limits. [`Algorithm::feasible`] also checks
    /// the memory. The error says why the device cannot run it.
    pub fn program(&self, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let CaseOptions { dtype, layout, .. } = case.options;
        let Some(shaders) = self.shaders(dtype, layout) else {
            return Err(if self.supports(dtype) {
                format!("has no {dtype} kernel for layout {layout}, only for nn")
            } else {
                format!("has no {dtype} kernel")
            });
        };
        check_support((self.program)(&shaders, case, device), device)
    }
}

/// Returns `program` if `device` has the features and limits for it; otherwise the first one that is missing.
fn check_support(program: Program, device: &DeviceInfo) -> Result<Program, String> {
    match program.unsupported(device) {
        Some(reason) => Err(reason),
        None => Ok(program),
    }
}
