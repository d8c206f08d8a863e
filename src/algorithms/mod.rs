//! The algorithms that can be measured and their variants: data, pure functions and host oracles. Nothing here
//! talks to Vulkan.

mod case;
pub(crate) mod collectives;
pub(crate) mod eigen;
pub(crate) mod elements;
mod error_bound;
pub(crate) mod lu;
pub(crate) mod matmul;
pub(crate) mod matrix;
pub(crate) mod probes;
pub(crate) mod product;
pub(crate) mod tile;

use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::{self, Error};
use crate::basis::handle::Handle;
use crate::basis::layout::Layout;
use crate::basis::size::Size;
use crate::basis::units::{Nanos, Work};
use crate::case::check::CheckResult;
use crate::case::input::Input;
use crate::case::quantity::Quantity;
use crate::case::{CaseOptions, Form, Goal, Shortcut};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::kernel::buffer::BufferSpec;
use crate::kernel::program::Program;
use crate::kernel::shaders::{SHADERS, Shader};
pub use case::CaseSpec;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use tile::{Tile, Tunable};

/// Every algorithm, in the order that lists show them.
pub static ALGORITHMS: &[&Algorithm] = &[
    &matmul::MATMUL,
    &lu::LU,
    &eigen::ROW_SUM,
    &eigen::VECTOR_MAX,
    &eigen::EIGENVECTOR,
    &eigen::NEXT_MATRIX,
    &eigen::STOP_CHECK,
    &eigen::EIGEN,
    &collectives::COLLECTIVES,
    &probes::FMA,
    &probes::MATRIX_UNIT,
    &probes::MEMORY_READ,
    &probes::MEMORY_WRITE,
    &probes::MEMORY_COPY,
    &probes::SHARED_MEMORY,
    &probes::ATOMIC_ADD,
    &probes::LAUNCH,
];

/// What makes the problem that a case poses, or says why its size makes no sense.
pub(crate) type Pose = Handle<dyn Fn(&CaseSpec) -> Result<Box<dyn Problem>, String> + Send + Sync>;

/// What makes the program that solves a case on a device from the compiled kernels. Pure; the result is checked against the
/// device's limits afterwards.
pub(crate) type Build = Handle<dyn Fn(&[&'static Shader], &CaseSpec, &DeviceInfo) -> Program + Send + Sync>;

/// What the variants of an algorithm should take for a case on a device, what should be fastest first.
pub(crate) type Candidates = fn(&Algorithm, &CaseSpec, &DeviceInfo) -> Vec<Candidate>;

/// A computation with several implementations.
pub struct Algorithm {
    /// Canonical name, as tables, records and case ids have it.
    pub name: Cow<'static, str>,
    /// What tells it from another of its name: a user's kernels may change under it. `None` for those of the table.
    pub fingerprint: Option<String>,
    /// What it computes, in one sentence.
    pub summary: &'static str,
    /// Formula of the nominal work, for documentation.
    pub work: &'static str,
    /// The sweeps of `bench` when none is given.
    pub default_size: Sweeps,
    /// The sizes that `verify` takes: awkward ones.
    pub verify_size: Sweeps,
    /// Whether it runs in rounds until a [`StopRule`] is met.
    pub iterative: bool,
    /// Kinds of input data, the default first.
    pub inputs: &'static [Input],
    /// Layouts of its operands, the default first; that alone where there is nothing to transpose.
    pub layouts: &'static [Layout],
    /// The implementations, in the order that lists show them.
    pub variants: Cow<'static, [Variant]>,
    /// The variants whose tile can be searched for, the one that is searched by default first.
    pub tunable: &'static [Tunable],
    /// What `--variant auto` chooses from for a case on a device, one at least, what should be fastest first; `None` where
    /// there is no model of it.
    pub candidates: Option<Candidates>,
    /// How its programs go on to the solution of a system of equations, where they can: `--solve`.
    pub solution: Option<&'static Solution>,
    /// The problem that a case poses.
    pub problem: Pose,
}

/// How programs that leave a result, such as the factors of a matrix, go on to solve a system of equations by it.
pub struct Solution {
    /// What is solved, in one sentence.
    pub summary: &'static str,
    /// Formula of the nominal work, for documentation.
    pub work: &'static str,
    /// The kinds of input with which a variant promises a right solution in an element type, the usual first: what a
    /// conformance run asks for.
    pub inputs: fn(variant: &str, DType) -> &'static [Input],
    /// The kernels that it takes beside those of the variant.
    pub kernels: &'static [&'static str],
    /// What is made of a variant's program, which goes on from the result to the solution. Pure.
    pub program: fn(Program, &CaseSpec, &DeviceInfo) -> Program,
}

/// Elements of one buffer that kernels can index: access chains take their indices as signed 32-bit integers.
const MOST_ELEMENTS: u64 = 1 << 31;

/// The sweeps of an algorithm where no size is given, as they are typed: `256..2048`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweeps {
    /// On a GPU.
    pub gpu: &'static str,
    /// On a device that computes on the host's cores.
    pub cpu: &'static str,
}

impl Sweeps {
    /// One sweep for every device.
    #[must_use]
    pub const fn same(sweep: &'static str) -> Self {
        Self { gpu: sweep, cpu: sweep }
    }

    /// The sweep for devices of this kind.
    #[must_use]
    pub fn on(&self, kind: DeviceKind) -> &'static str {
        if kind.runs_on_host_cores() { self.cpu } else { self.gpu }
    }
}

/// One implementation of an algorithm.
#[derive(Clone)]
pub struct Variant {
    /// Canonical name.
    pub name: Cow<'static, str>,
    /// Other names accepted on the command line, such as the numbers that a post uses.
    pub aliases: &'static [&'static str],
    /// What it shows, in one sentence.
    pub summary: &'static str,
    /// The document, paper or program that it comes from.
    pub source: &'static str,
    /// What its time measures.
    pub measures: Measures,
    /// The kernels it runs; `program` gets them compiled for the case's element type, in this order.
    pub kernels: &'static [&'static str],
    /// The steps that solve a case on a device.
    pub program: Build,
}

/// What the time of a variant measures.
#[derive(Clone, Copy)]
pub enum Measures {
    /// How fast it solves the problem.
    Problem,
    /// How fast it solves the problem by shortcuts, which make its answer another one: it is ranked among its like.
    Shortcuts(&'static [Shortcut]),
    /// How fast it solves a system of equations. It has no result but the solution.
    Solution,
    /// The cost of an operation in one of its forms.
    Form(Form),
    /// A limit of the device.
    Limit {
        /// Which; `None` for a size that the algorithm has no problem of.
        of: fn(Size, DType) -> Option<Quantity>,
        /// Whether shares need it: runs that measure nothing else have it too.
        quick: bool,
    },
}

/// A way to solve a case, and the time that it should take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The variant.
    pub variant: &'static str,
    /// Its tile, where it has a choice.
    pub tile: Option<Tile>,
    /// What it should take.
    pub predicted: Nanos,
}

/// A problem of a given size: its buffers, its inputs and how its answer is checked.
pub trait Problem {
    /// The size written out in full, for case ids: `1024x1024x1024`.
    fn extents(&self) -> String;
    /// The buffers that programs refer to by position.
    fn buffers(&self) -> Vec<BufferSpec>;
    /// Nominal work of one run.
    fn work(&self) -> Work;
    /// The number of operations, where the problem is a chain in which each waits for the one before: tables then
    /// show the time of one operation.
    fn chain(&self) -> Option<u64> {
        None
    }
    /// Its buffers and what fills them, `A f32[64,64] uniform(-1,1)`, where input and seed of a case do not say it.
    fn data(&self) -> Vec<String> {
        vec![]
    }
    /// The fills of its inputs, each once, where input and seed of a case do not say it: `iota`.
    fn fills(&self) -> Vec<String> {
        vec![]
    }
    /// Whether files, or a program that may write another answer each time, have contents of its inputs.
    fn inputs_are_given(&self) -> bool {
        false
    }
    /// The contents of the buffers that the host fills, in their order.
    ///
    /// # Errors
    /// Why a file or another program does not supply them.
    fn inputs(&self) -> Result<Vec<HostArray>, Error>;
    /// Solves the problem on the host. The inputs may be dropped afterwards.
    ///
    /// # Errors
    /// Why a file or another program does not know the answer.
    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, Error>;
    /// The program whose outputs on the same device are the right answer, in place of an oracle on the host, and what makes
    /// an oracle of them.
    fn reference(&self, _: &DeviceInfo) -> Option<(Program, MakeOracle)> {
        None
    }
    /// What is doubtful about a case that can run all the same.
    fn warnings(&self) -> Vec<String> {
        vec![]
    }
}

/// Makes an oracle of outputs, in their order.
pub(crate) type MakeOracle = Box<dyn FnOnce(Vec<HostArray>) -> Result<Box<dyn Oracle>, Error>>;

/// The comparison of an output with the right answer, as far as mutations depend on it.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Elements of a row; 1 for a vector.
    pub row: usize,
    /// The tolerance, for messages; empty where it is the algorithm's own.
    pub tolerance: String,
    /// Whether the place of an element matters.
    pub ordered: bool,
}

impl Default for Comparison {
    fn default() -> Self {
        Self { row: 1, tolerance: String::new(), ordered: true }
    }
}

/// The right answer of a problem.
pub trait Oracle {
    /// Compares the output buffers (those updated in place too), in their order, with the right answer.
    ///
    /// # Errors
    /// Why the outputs are no answer at all: `zero pivot at column 3`, `not converged after 1000 rounds`.
    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String>;
    /// Why nobody knows whether the outputs are right, where nobody does; then [`Self::check`] passes.
    fn doubt(&self, _outputs: &[HostArray]) -> Option<String> {
        None
    }
    /// The name of an element of an output, by its place, where it is compared by itself.
    fn element(&self, _output: usize, _index: usize) -> Option<String> {
        None
    }
    /// Notes for a reader about the right answer.
    fn notes(&self) -> Vec<String> {
        vec![]
    }
    /// Keeps the outputs, right or wrong, where somebody wants them.
    ///
    /// # Errors
    /// Why they cannot be written.
    fn save(&self, _outputs: &[HostArray]) -> Result<(), String> {
        Ok(())
    }
    /// Returns how the output at this place is compared; `None` where it is not.
    fn comparison(&self, _output: usize) -> Option<Comparison> {
        Some(Comparison::default())
    }
    /// The right contents of these stretches of an output, where they are known element by element.
    fn answer(&self, _output: usize, _stretches: &[Range<usize>]) -> Option<Vec<u8>> {
        None
    }
    /// Checks `found`, the contents of these stretches of an output. Returns the share of `changed` elements that would
    /// pass, the others being right: 1 where the answer as a whole passes. `None` where only whole answers can be checked.
    fn accepted_share(&self, _output: usize, _stretches: &[Range<usize>], _found: &[u8], _changed: u64) -> Option<f64> {
        None
    }
}

/// Finds an algorithm of the table by name.
///
/// # Errors
/// A message with the nearest name when none has this one.
pub fn find(name: &str) -> Result<&'static Algorithm, String> {
    ALGORITHMS.iter().copied().find(|algorithm| algorithm.name == name).ok_or_else(|| {
        let names: Vec<_> = ALGORITHMS.iter().map(|algorithm| &*algorithm.name).collect();
        error::unknown("algorithm", name, "", &names)
    })
}

/// The variant that a record names, if this program has it: records of other versions, and of the host's cores, name
/// others.
#[must_use]
pub(crate) fn registered(algorithm: &str, variant: &str) -> Option<&'static Variant> {
    let algorithm = ALGORITHMS.iter().find(|known| known.name == algorithm)?;
    algorithm.variants.iter().find(|known| known.name == variant)
}

impl Algorithm {
    /// Finds a variant by name or alias.
    ///
    /// # Errors
    /// A message with the nearest name when no variant has this one.
    pub fn variant(&self, name: &str) -> Result<&Variant, String> {
        let found = self.variants.iter().find(|variant| variant.name == name || variant.aliases.contains(&name));
        found.ok_or_else(|| {
            let names: Vec<_> = self.variants.iter().map(|variant| &*variant.name).collect();
            let has = |other: &&&Self| other.variants.iter().any(|own| own.name == name || own.aliases.contains(&name));
            let others: Vec<_> = ALGORITHMS.iter().filter(has).map(|other| &*other.name).collect();
            if others.is_empty() {
                return error::unknown("variant", name, &format!(" for {}", self.name), &names);
            }
            format!(
                "'{name}' is a variant of {}, not of {}, which has: {}",
                others.join(", "),
                self.name,
                names.join(", ")
            )
        })
    }

    /// Whether its variants find limits of a device.
    #[must_use]
    pub fn finds_limits(&self) -> bool {
        self.variants.iter().any(|variant| matches!(variant.measures, Measures::Limit { .. }))
    }

    /// The tile search of `variant`, where it has a tile to search for.
    #[must_use]
    pub fn tunable(&self, variant: &Variant) -> Option<&'static Tunable> {
        self.tunable.iter().find(|tunable| tunable.variant == variant.name)
    }

    /// The element types in which at least one variant reaches `goal`.
    pub fn dtypes(&self, goal: Goal) -> impl Iterator<Item = DType> {
        let some = move |dtype: &DType| self.variants.iter().any(|variant| variant.reaches(goal, *dtype));
        DType::ALL.into_iter().filter(some)
    }

    /// What can be asked of it.
    #[must_use]
    pub fn goals(&self) -> &'static [Goal] {
        match self.solution {
            Some(_) => &[Goal::Result, Goal::Solution],
            None => &[Goal::Result],
        }
    }

    /// The program of `variant` for a case.
    ///
    /// # Errors
    /// Why the device cannot run it.
    pub fn program(&self, variant: &Variant, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let program = variant.program(case, device)?;
        match (case.goal, variant.measures, self.solution) {
            (Goal::Solution, Measures::Problem | Measures::Shortcuts(_), Some(solution)) => {
                let program = (solution.program)(program, case, device);
                program.unsupported(device).map_or(Ok(program), Err)
            }
            _ => Ok(program),
        }
    }

    /// The program of `variant` for a case that poses `problem`, if `device` can run it: the variant has the element
    /// type, its kernel can be cut up by the case's tile, and the device has the features, the limits, the memory and
    /// the views that the program asks for. Choosing a variant and skipping one agree, as both ask here.
    ///
    /// # Errors
    /// What is in the way.
    pub fn feasible(
        &self,
        variant: &Variant,
        case: &CaseSpec,
        problem: &dyn Problem,
        device: &DeviceInfo,
    ) -> Result<Program, String> {
        // Programs are not made for devices whose answers make no sense.
        if let Some(reason) = device.uninspectable() {
            return Err(reason);
        }
        if let (Some(tile), Some(tunable)) = (&case.tile, self.tunable(variant))
            // What the device lacks for the built-in tile, the program says itself.
            && *tile != tunable.built_in(case, device)
        {
            tunable.legal(tile, case, device).map_err(|reason| format!("tile {tile} {reason}"))?;
        }
        let program = self.program(variant, case, device)?;
        if let Some(size) = case.subgroup_size
            && !program.dispatches().any(|dispatch| dispatch.subgroup_size == Some(size))
        {
            // It would be measured as what it is without, under a name that says otherwise.
            return Err(format!("has no use for sub-groups of {size}"));
        }
        program.feasible(&problem.buffers(), device)
    }
}

impl Variant {
    /// Whether its kernels are compiled for `dtype`, in the layout that goes without saying.
    #[must_use]
    pub fn supports(&self, dtype: DType) -> bool {
        self.shaders(dtype, Layout::default()).is_some()
    }

    /// Whether it has what is asked for in an element type.
    #[must_use]
    pub fn reaches(&self, goal: Goal, dtype: DType) -> bool {
        self.supports(dtype) && (goal == Goal::Solution || !matches!(self.measures, Measures::Solution))
    }

    /// Its kernels compiled for `dtype` and `layout`.
    ///
    /// # Panics
    /// When there is no kernel of such a name.
    #[must_use]
    pub fn shaders(&self, dtype: DType, layout: Layout) -> Option<Vec<&'static Shader>> {
        compiled(self.kernels, dtype, layout, || format!("variant {}", self.name))
    }

    /// The operation that it is a form of, and the name of the form.
    #[must_use]
    pub fn form(&self) -> Option<Form> {
        match self.measures {
            Measures::Form(form) => Some(form),
            Measures::Problem | Measures::Shortcuts(_) | Measures::Solution | Measures::Limit { .. } => None,
        }
    }

    /// The shortcuts that it takes.
    #[must_use]
    pub fn shortcuts(&self) -> &'static [Shortcut] {
        match self.measures {
            Measures::Shortcuts(shortcuts) => shortcuts,
            Measures::Problem | Measures::Solution | Measures::Form(_) | Measures::Limit { .. } => &[],
        }
    }

    /// The limit of a device that a case of this size and type finds.
    #[must_use]
    pub fn limit(&self, size: Size, dtype: DType) -> Option<Quantity> {
        match self.measures {
            Measures::Limit { of, .. } => of(size, dtype),
            Measures::Problem | Measures::Shortcuts(_) | Measures::Solution | Measures::Form(_) => None,
        }
    }

    /// Builds its program for a case, where the device has the features and limits for it. [`Algorithm::feasible`] asks
    /// whether there is room for the buffers as well.
    ///
    /// # Errors
    /// Why it cannot run there.
    pub fn program(&self, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let CaseOptions { dtype, layout, .. } = case.options;
        let missing = || {
            let of_layout =
                if self.supports(dtype) { format!(" for layout {layout}, only for nn") } else { String::new() };
            format!("has no {dtype} kernel{of_layout}")
        };
        let shaders = self.shaders(dtype, layout).ok_or_else(missing)?;
        let program = (self.program)(&shaders, case, device);
        program.unsupported(device).map_or(Ok(program), Err)
    }
}

/// The `kernels` that `owner` names, compiled for `dtype` and `layout`, where all of them are.
///
/// # Panics
/// When there is no kernel of such a name for any type: an error of the registry, which would else look like a type that
/// its owner does without.
fn compiled(
    kernels: &[&str],
    dtype: DType,
    layout: Layout,
    owner: impl Fn() -> String,
) -> Option<Vec<&'static Shader>> {
    if let Some(name) = kernels.iter().find(|name| !SHADERS.iter().any(|shader| shader.name == **name)) {
        let known: BTreeSet<_> = SHADERS.iter().map(|shader| &*shader.name).collect();
        let folder = name.split_once('/').map_or("", |(folder, _)| folder);
        let beside: Vec<_> = known.into_iter().filter(|known| known.starts_with(&format!("{folder}/"))).collect();
        panic!("{}", error::unknown("kernel", name, &format!(" of {} in glsl/", owner()), &beside));
    }
    kernels.iter().map(|name| Shader::find_for(name, dtype, layout)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::size::sweep;
    use crate::device::capability::tests::{gpu, software_device};
    use crate::device::capability::{CooperativeMatrix, Feature};

    fn all_variants() -> impl Iterator<Item = (&'static Algorithm, &'static Variant)> {
        ALGORITHMS.iter().flat_map(|algorithm| algorithm.variants.iter().map(move |variant| (*algorithm, variant)))
    }

    #[test]
    fn names_and_aliases_are_unique_and_fit_case_ids() {
        for algorithm in ALGORITHMS {
            let names = algorithm.variants.iter().flat_map(|v| v.aliases.iter().copied().chain([&*v.name]));
            let names: Vec<_> = names.collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}: {names:?}", algorithm.name);
            for name in names.iter().copied().chain([&*algorithm.name]) {
                let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
                assert!(plain && !["all", "auto"].contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn every_kernel_belongs_to_a_variant_and_every_variant_has_its_kernels() {
        let solutions = ALGORITHMS.iter().filter_map(|algorithm| algorithm.solution).flat_map(|own| own.kernels);
        let variants = all_variants().flat_map(|(_, variant)| variant.kernels);
        let named: BTreeSet<&str> = variants.chain(solutions).copied().collect();
        let compiled: BTreeSet<&str> = SHADERS.iter().map(|shader| &*shader.name).collect();
        // A kernel that does not exist is named, with the one that was meant.
        for (algorithm, variant) in all_variants() {
            assert!(DType::ALL.into_iter().any(|d| variant.supports(d)), "{}/{}", algorithm.name, variant.name);
        }
        let unused: Vec<_> = compiled.difference(&named).collect();
        assert!(
            unused.is_empty(),
            "no variant names the kernels {unused:?}: add them to a variant's `kernels`, and its algorithm to ALGORITHMS"
        );
        let missing: Vec<_> = named.difference(&compiled).collect();
        assert!(missing.is_empty(), "there is no glsl/ source for the kernels {missing:?}");
    }

    #[test]
    #[should_panic = "unknown kernel 'matmul/naiv' of variant slip in glsl/; did you mean 'matmul/naive'?"]
    fn a_variant_that_names_a_kernel_that_does_not_exist_is_named_with_it() {
        let naive = matmul::MATMUL.variant("naive").expect("a variant");
        let slip = Variant {
            name: "slip".into(),
            aliases: &[],
            summary: "",
            source: "",
            measures: Measures::Problem,
            kernels: &["matmul/split", "matmul/naiv"],
            program: naive.program.clone(),
        };
        let _ = slip.supports(DType::F32);
    }

    #[test]
    fn every_program_builds_at_every_default_size_and_fits_the_software_device() {
        let device = software_device();
        for (algorithm, variant) in all_variants() {
            let sizes = [algorithm.default_size.cpu, algorithm.verify_size.cpu];
            let sizes = sizes.iter().flat_map(|text| sweep(text).expect("a sweep"));
            for size in sizes {
                let goals = algorithm.goals().iter().flat_map(|goal| DType::ALL.map(|dtype| (*goal, dtype)));
                for (goal, dtype) in goals.filter(|(goal, dtype)| variant.reaches(*goal, *dtype)) {
                    let case = CaseSpec::new(algorithm, size, dtype).with(|options| options.goal = goal);
                    let problem = (algorithm.problem)(&case).expect("a sensible size");
                    let program = algorithm.program(variant, &case, &device);
                    let matrices = variant
                        .shaders(dtype, Layout::Nn)
                        .is_some_and(|shaders| shaders.iter().any(|shader| shader.declares("CooperativeMatrixKHR")));
                    if let (Err(reason), true) = (&program, matrices) {
                        let known = ["needs feature", "assumes NVIDIA's register layout"];
                        assert!(known.iter().any(|known| reason.starts_with(known)), "{reason}");
                        continue;
                    }
                    // A variant may be for products with few rows or columns.
                    if program.as_ref().is_err_and(|reason| reason.starts_with("only for products with")) {
                        continue;
                    }
                    let program = program.unwrap_or_else(|e| panic!("{}/{} {size}: {e}", algorithm.name, variant.name));
                    let buffers = problem.buffers().len() + program.scratch.len();
                    assert!(
                        program.all_steps().flat_map(crate::kernel::program::Step::buffers).all(|id| id.0 < buffers)
                    );
                }
            }
        }
    }

    /// A variant that is allowed larger errors says so, and one of lu that promises no bound of its multipliers does not
    /// pivot.
    #[test]
    fn shortcuts_are_those_of_the_programs() {
        let mut device = gpu();
        device.features = Feature::ALL.iter().copied().collect();
        device.cooperative_matrices = ["f16", "f32"]
            .map(|accumulator| CooperativeMatrix {
                m: 16,
                n: 16,
                k: 16,
                input: "f16".into(),
                accumulator: accumulator.into(),
                scope: "subgroup".into(),
            })
            .into();
        let mut seen = BTreeSet::new();
        for (algorithm, variant) in all_variants() {
            let place = format!("{}/{}", algorithm.name, variant.name);
            let size = sweep(algorithm.default_size.cpu).expect("a sweep")[0];
            let case = |dtype| CaseSpec::new(algorithm, size, dtype);
            let dtypes = DType::ALL.into_iter().filter(|dtype| variant.reaches(Goal::Result, *dtype));
            let is = |shortcut| variant.shortcuts().contains(&shortcut);
            for program in dtypes.filter_map(|dtype| variant.program(&case(dtype), &device).ok()) {
                assert_eq!(program.allowance > 0.0, is(Shortcut::LessAccurate), "{place}");
                let unbounded = algorithm.name == "lu" && program.promise.is_none();
                assert_eq!(unbounded, is(Shortcut::NoPivoting), "{place}");
                seen.extend((!variant.shortcuts().is_empty()).then(|| place.clone()));
            }
        }
        for place in ["matmul/split", "matmul/coopmat-narrow", "lu/naive", "lu/blocked-split"] {
            assert!(seen.contains(place), "{place} does not run: {seen:?}");
        }
    }

    #[test]
    fn the_documentation_has_the_nominal_work_of_every_algorithm() {
        let text = include_str!("../../docs/method.md");
        let table = text.split("\n## ").find(|section| section.starts_with("Nominal work")).expect("a section");
        let names: BTreeSet<_> = table.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next()).collect();
        for algorithm in ALGORITHMS {
            let own = |name: &&str| name.split([' ', ',']).any(|word| word == algorithm.name);
            assert!(names.iter().any(own), "docs/method.md has no nominal work of {}", algorithm.name);
        }
    }

    #[test]
    fn every_text_of_the_registry_says_something_to_a_person_and_ends_without_a_stop() {
        for (algorithm, variant) in all_variants() {
            let texts = [
                ("summary of the algorithm", algorithm.summary),
                ("`summary`", variant.summary),
                ("`source`", variant.source),
            ];
            for (what, text) in texts {
                let place = format!("{}/{}: its {what}, '{text}',", algorithm.name, variant.name);
                assert!(
                    text.chars().count() > 8,
                    "{place} is shorter than 9 letters: say what it is, or who it is from"
                );
                assert!(!text.ends_with('.'), "{place} ends with a full stop: leave it out");
            }
        }
    }
}
