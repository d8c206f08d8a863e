//! Makes an [`Algorithm`] from users' kernels, with a problem for each point of their axes.

use super::access::{Root, accesses};
use super::array;
use super::builtin::{AUTO, Counterpart};
use super::loaded;
use super::member_map::MemberMap;
use super::oracle::{Contents, Expected};
use super::resolved::{
    Fill, KernelConfiguration, Module, PassList, Reference, ResolvedBuffer, ResolvedPoint, ResolvedProblem,
    ShellCommand, Tolerance,
};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{Algorithm, CaseSpec, MakeOracle, Measures, Oracle, Problem, Sweeps, Variant};
use crate::basis::alike::distinct;
use crate::basis::destination::Scratch;
use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::Error;
use crate::basis::file_name::{file_name, is_plain};
use crate::basis::handle::Handle;
use crate::basis::layout::Layout;
use crate::basis::messages::Messages;
use crate::basis::printable::{Shown, excerpt, printable};
use crate::basis::size::Size;
use crate::basis::units::Work;
use crate::case::input::Input;
use crate::device::cache::fingerprint;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{Address, Binding, BufferSpec, Descriptor, RED_ZONE, Role, SpecValue, Start};
use crate::kernel::interface::{Slot, SlotKind};
use crate::kernel::lengths::with_constant_lengths;
use crate::kernel::program::{BufferId, Dispatch, Program, Step};
use crate::kernel::shaders::{Kernels, Shader};
use crate::process::guarded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// User's kernels that solve the same problem, and the built-in variants that run beside them. Workers receive it and
/// make the same algorithm from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserKernels {
    /// Name of the algorithm, different from all built-in ones.
    pub name: String,
    #[serde(rename = "undertaking")]
    pub problem: ResolvedProblem,
    /// Variants of the built-in reference algorithm, or `auto`; numbered after the configurations.
    pub against: Vec<String>,
    /// Buffers to save to files when an answer is checked.
    pub saves: Vec<Save>,
}

/// Buffer to save to a .npy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Save {
    /// Name of the buffer.
    pub buffer: String,
    pub path: PathBuf,
}

/// Kernels with their interfaces, shared by the algorithm and its variants.
struct LoadedKernels {
    catalogue: &'static Catalogue,
    user: UserKernels,
    /// Shaders of the run's modules.
    shaders: Vec<Handle<Shader>>,
    /// Sizes of the run's points.
    sizes: Vec<Size>,
}

impl LoadedKernels {
    /// Returns the index of a case's point.
    fn place(&self, case: &CaseSpec) -> Result<usize, String> {
        let found = self.sizes.iter().position(|size| *size == case.size);
        found.ok_or_else(|| format!("{} is no point of its axes", case.size))
    }

    /// Builds the program of a variant: of a configuration, or else of a built-in variant.
    fn program(&self, variant: usize, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let point = &self.user.problem.points[self.place(case)?];
        match (point.pass_lists.get(variant), &point.reference) {
            (Some(list), _) => program(&self.shaders, point, list.as_ref().map_err(String::clone)?, case.seed, device),
            (None, Reference::Builtin(builtin)) => {
                let name = &self.user.against[variant - point.pass_lists.len()];
                Ok(Counterpart::new(self.catalogue, builtin, point)?.program(name, device))
            }
            (None, _) => Err("has no built-in reference to run beside".into()),
        }
    }
}

/// Makes the variants: the configurations, and then those of the built-in algorithm `solver` that run beside them.
fn variants(loaded: &Arc<LoadedKernels>, solver: Option<&Algorithm>) -> Vec<Variant> {
    let user = &loaded.user;
    let kernels = user.problem.configurations.iter().map(|configuration| (label(configuration), &[][..]));
    let against = user.against.iter().map(|name| {
        let known = solver.and_then(|solver| solver.variant(name).ok());
        let label = format!("{}:{name}", solver.map_or("builtin", |solver| &solver.name));
        (label, known.map_or(&[][..], Variant::shortcuts))
    });
    let variant = |(index, (name, shortcuts)): (usize, (String, _))| {
        let loaded = Arc::clone(loaded);
        Variant {
            name: name.into(),
            aliases: &[],
            summary: "a user's kernel",
            source: "the user",
            measures: Measures::Shortcuts(shortcuts),
            kernels: Kernels::NONE,
            program: Handle::Shared(Arc::new(move |_: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo| {
                loaded.program(index, case, device).unwrap_or_else(Program::refused)
            })),
        }
    };
    kernels.chain(against).enumerate().map(variant).collect()
}

/// Formats the name of a configuration: `mul_mm`, `mul_mm[BM=64]`.
fn label(KernelConfiguration { kernel, choice }: &KernelConfiguration) -> String {
    let chosen: Vec<_> = choice.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if chosen.is_empty() { kernel.clone() } else { format!("{kernel}[{}]", chosen.join(",")) }
}

impl UserKernels {
    /// Makes the algorithm. Refuses unreadable kernels, and a built-in algorithm that does not fit the buffers.
    pub fn algorithm(mut self, catalogue: &'static Catalogue) -> Result<Handle<Algorithm>, String> {
        let mut solver = None;
        for point in &self.problem.points {
            if let Reference::Builtin(builtin) = &point.reference {
                let algorithm = Counterpart::new(catalogue, builtin, point)?.algorithm;
                for name in self.against.iter().filter(|name| *name != AUTO) {
                    catalogue.variant(algorithm, name)?;
                }
                solver = solver.or(Some(algorithm));
            }
        }
        let kernel = |(index, module): (_, &Module)| shader(module, format!("{}/{}#{index}", self.name, module.name));
        let shaders = self.problem.modules.iter().enumerate().map(kernel).collect::<Result<Vec<_>, _>>()?;
        // Records of other kernels with the same names must not be mistaken for records of these.
        let fingerprint = fingerprint(&[&serde_json::to_vec(&self).unwrap_or_default()]);
        self.problem.points.iter_mut().for_each(|point| set_layouts(point, &shaders));
        let loaded = Arc::new(LoadedKernels { catalogue, shaders, sizes: self.problem.sizes(), user: self });
        Ok(Handle::Shared(Arc::new(Algorithm {
            name: loaded.user.name.clone().into(),
            fingerprint: Some(fingerprint),
            summary: "users' kernels",
            work: "as the description states it",
            default_size: Sweeps::same("1"),
            verify_size: Sweeps::same("1"),
            iterative: false,
            inputs: &[Input::Uniform],
            layouts: &[Layout::Nn],
            variants: variants(&loaded, solver).into(),
            tunable: &[],
            candidates: None,
            solution: None,
            baseline: None,
            exact: None,
            problem: Handle::Shared(Arc::new(move |case: &CaseSpec| {
                let (at, loaded) = (loaded.place(case)?, Arc::clone(&loaded));
                Ok(Box::new(PointProblem { loaded, at, seed: case.seed }) as Box<dyn Problem>)
            })),
        })))
    }

    /// Lists the variants that compete at a point, by index: the first possible configuration of each kernel, or `all`;
    /// then the built-in variants.
    pub fn choices(&self, point: usize, all: bool) -> impl Iterator<Item = usize> {
        let ResolvedProblem { configurations, points, .. } = &self.problem;
        let possible = move |at: &usize| points[point].pass_lists[*at].is_ok();
        let first = move |at: &usize| {
            let same = |other: &usize| configurations[*other].kernel == configurations[*at].kernel;
            all || !(0..*at).filter(same).any(|other| possible(&other))
        };
        let chosen = (0..configurations.len()).filter(possible).filter(first);
        chosen.chain(configurations.len()..configurations.len() + self.against.len())
    }

    /// Returns the first variant's name; in a case, that of the captured kernel.
    pub fn first(&self) -> Option<String> {
        self.problem.configurations.first().map(label)
    }

    /// Describes the configurations that run without `--tune`, or `None` if each kernel has only one: `PER = 1, the
    /// first of 4 choices`.
    pub fn first_choices(&self) -> Option<String> {
        let ResolvedProblem { configurations, points, .. } = &self.problem;
        let mut all = vec![];
        for kernel in distinct(configurations.iter().map(|configuration| configuration.kernel.as_str())) {
            let several = configurations.iter().filter(|configuration| configuration.kernel == kernel).count();
            let places = (0..points.len()).flat_map(|point| self.choices(point, false));
            let chosen = places.filter_map(|at| configurations.get(at).filter(|chosen| chosen.kernel == kernel));
            let chosen = distinct(chosen.map(|chosen| choice_text(&chosen.choice)));
            if several > 1 {
                all.push(format!("{}, the first of {several} choices", chosen.join(" or ")));
            }
        }
        (!all.is_empty()).then(|| distinct(all).join("; "))
    }

    /// Whether more than one kernel competes.
    pub fn has_several_kernels(&self) -> bool {
        let all = &self.problem.configurations;
        all.iter().any(|configuration| configuration.kernel != all[0].kernel)
    }

    /// Describes the choice of specialization constants in a variant's name, `BM = 64, BN = 32`, or else repeats it.
    pub fn choice(&self, variant: &str) -> String {
        let found = self.problem.configurations.iter().find(|configuration| label(configuration) == variant);
        let choice = found.map(|configuration| choice_text(&configuration.choice)).filter(|text| !text.is_empty());
        choice.unwrap_or_else(|| variant.into())
    }

    /// Returns the reason why there is nothing to run.
    pub fn why_nothing_runs(&self) -> String {
        let mut lists = self.problem.points.iter().flat_map(|point| &point.pass_lists);
        let reason = lists.find_map(|list| list.as_ref().err());
        format!("nothing to run: {}", reason.map_or("there is no kernel", String::as_str))
    }

    /// Returns the element type of the first output, which cases are labeled with.
    pub fn dtype(&self) -> DType {
        let buffers = self.problem.points.first().map_or(&[][..], |point| &point.buffers);
        let first = |role| {
            let mut elements = buffers.iter().filter(|buffer| buffer.role == role).map(|buffer| buffer.element);
            // Built-in algorithms, and so the labels of cases, lack some types.
            elements.find(|element| DType::ALL.contains(element))
        };
        first(Role::Output).or_else(|| first(Role::InPlace)).unwrap_or(DType::F32)
    }
}

/// Formats chosen values of specialization constants: `BM = 64, BN = 32`.
fn choice_text(choice: &[(String, String)]) -> String {
    choice.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}

/// Reads the interface of a module.
fn shader(module: &Module, name: String) -> Result<Handle<Shader>, String> {
    let spirv = loaded::bytes(&module.spirv);
    let mut interface = loaded::interface(&spirv).map_err(|reason| format!("{}: {reason}", module.name))?;
    let roots: Vec<_> = interface.slots.iter().map(|slot| Root::Slot(slot.set, slot.binding)).collect();
    // Declarations may be wrong, so writes are also found by analysis.
    for (slot, access) in interface.slots.to_mut().iter_mut().zip(accesses(&module.spirv, &roots)) {
        slot.blocks.to_mut().iter_mut().for_each(|block| block.writable |= access.writes);
    }
    let (name, spirv) = (name.into(), spirv.into());
    let shader = Shader { name, dtype: None, layout: None, spirv, interface, built_in: false };
    Ok(Handle::Shared(Arc::new(shader)))
}

/// Sets the layout of each buffer at a point from the blocks that the kernels bind it to. The reference's blocks do not
/// count: the comparison covers what the kernels can write.
fn set_layouts(point: &mut ResolvedPoint, shaders: &[Handle<Shader>]) {
    let mut all = vec![MemberMap::default(); point.buffers.len()];
    for list in point.pass_lists.iter().flatten() {
        let mut addresses: Vec<Address> = vec![];
        for pass in &list.passes {
            for Descriptor { at, .. } in &pass.descriptors {
                let Some(members) = all.get_mut(at.buffer.0) else { continue };
                let same = |slot: &&Slot| (slot.set, slot.binding, slot.element) == (at.set, at.binding, at.element);
                match shaders[pass.shader].interface.slots.iter().find(same) {
                    Some(slot) => slot.blocks.iter().for_each(|block| members.add(block, at.offset)),
                    None => members.open(),
                }
            }
            addresses.extend(&pass.addresses);
        }
        list.scratch.iter().for_each(|scratch| addresses.extend(scratch.addresses()));
        for address in addresses {
            all.get_mut(address.buffer.0).into_iter().for_each(MemberMap::open);
        }
    }
    for (buffer, members) in point.buffers.iter_mut().zip(all) {
        buffer.members = members;
    }
}

/// Converts a buffer for programs.
fn spec(buffer: &ResolvedBuffer) -> BufferSpec {
    BufferSpec::new(buffer.name.clone(), buffer.role, buffer.element, buffer.len())
}

/// Builds the program of a configuration at a point.
fn program(
    shaders: &[Handle<Shader>],
    point: &ResolvedPoint,
    list: &PassList,
    seed: u64,
    device: &DeviceInfo,
) -> Result<Program, String> {
    let buffers: Vec<&ResolvedBuffer> = point.buffers.iter().chain(&list.scratch).collect();
    let mut program = Program::default();
    let mut unguarded = vec![];
    for pass in &list.passes {
        let dispatch = dispatch(&shaders[pass.shader], pass, &buffers, device);
        let bound = dispatch.guarded.as_ref().map_or(&dispatch.descriptors, |(_, descriptors)| descriptors);
        for Descriptor { at, bytes } in bound {
            // An explicit `range` excludes the red zone on purpose.
            let reaches = at.range.is_some() || *bytes != Some(visible(at, &buffers));
            if at.kind == SlotKind::Storage && !reaches {
                unguarded.push(buffers[at.buffer.0].name.clone());
            }
        }
        program.steps.push(Step::Dispatch(dispatch));
    }
    program.unguarded = distinct(unguarded);
    let placed = || (point.buffers.len()..).zip(&list.scratch);
    for (place, buffer) in placed() {
        program.starts.extend(start(place, buffer, seed)?);
        program.scratch.push(spec(buffer));
    }
    // Buffers that kernels change are refilled before each run.
    for (place, _) in placed().filter(|(_, buffer)| buffer.fill.is_some()) {
        let role = if program.may_write(BufferId(place)) { Role::InPlace } else { Role::Input };
        program.scratch[place - point.buffers.len()].role = role;
    }
    Ok(program)
}

/// Returns the contents of a scratch buffer before each run, if it has a fill.
fn start(place: usize, buffer: &ResolvedBuffer, seed: u64) -> Result<Option<Start>, String> {
    let Some(fill) = &buffer.fill else { return Ok(None) };
    let bytes = if *fill == Fill::Zero && buffer.bytes().is_multiple_of(4) {
        vec![0; 4]
    } else {
        let contents = buffer.contents(seed, place as u64, Path::new("."));
        contents.map_err(|reason| format!("cannot fill {}: {reason}", buffer.name))?
    };
    Ok(Some(Start { buffer: BufferId(place), bytes: bytes.into(), addresses: buffer.addresses().to_vec() }))
}

/// Builds a dispatch for a device.
fn dispatch(
    shader: &Handle<Shader>,
    pass: &Dispatch<usize>,
    buffers: &[&ResolvedBuffer],
    device: &DeviceInfo,
) -> Dispatch {
    // The descriptor includes the red zone, so that writes past the data land there instead of being dropped by robust
    // access. For kernels that query array lengths, the true lengths are compiled in.
    let descriptor = |is_guarded: bool, at: Binding| {
        let bytes = visible(&at, buffers);
        let guarded = bytes + RED_ZONE;
        let fits = guarded <= device.limits.storage_buffer_range.0 && at.range.is_none();
        let bytes = if is_guarded && fits && at.kind == SlotKind::Storage { guarded } else { bytes };
        Descriptor { at, bytes: Some(bytes) }
    };
    let asks = shader.interface.asks_lengths;
    let bound =
        |is_guarded| pass.descriptors.iter().map(|declared| descriptor(is_guarded, declared.at)).collect::<Vec<_>>();
    let guarded = if asks { with_lengths(shader, pass, buffers).map(|shader| (shader, bound(true))) } else { None };
    let (mut constants, others): (Vec<SpecValue>, Vec<_>) =
        pass.constants.iter().copied().partition(|constant| constant.bytes == 4);
    constants.sort_unstable_by_key(|constant| constant.id);
    constants.extend(others);
    let blocks = pass.descriptors.iter().flat_map(|declared| buffers[declared.at.buffer.0].addresses());
    Dispatch {
        constants,
        groups: pass.groups,
        indirect: pass.indirect,
        subgroup_size: pass.subgroup_size,
        push: pass.push.clone(),
        addresses: pass.addresses.clone(),
        descriptors: bound(!asks),
        reached: blocks.map(|address| address.buffer).collect(),
        guarded,
        ..Dispatch::bare(shader.clone())
    }
}

/// Returns the bytes of a buffer that a binding exposes to the kernel.
fn visible(at: &Binding, buffers: &[&ResolvedBuffer]) -> u64 {
    at.range.unwrap_or_else(|| buffers[at.buffer.0].bytes() - at.offset)
}

/// Compiles the lengths of bound arrays into the kernel of a pass; `None` if a length is not constant.
fn with_lengths(
    shader: &Handle<Shader>,
    pass: &Dispatch<usize>,
    buffers: &[&ResolvedBuffer],
) -> Option<Handle<Shader>> {
    let bytes = |set, binding| {
        let mut bound =
            pass.descriptors.iter().map(|declared| &declared.at).filter(|at| (at.set, at.binding) == (set, binding));
        let first = visible(bound.next()?, buffers);
        bound.all(|at| visible(at, buffers) == first).then_some(first)
    };
    let module: Vec<u32> = shader.spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    let module = with_constant_lengths(&module, &bytes)?;
    let spirv: Vec<u8> = module.into_iter().flat_map(u32::to_le_bytes).collect();
    // Pipelines are cached by kernel name.
    let name = format!("{} with lengths {}", shader.name, fingerprint(&[&spirv])).into();
    Some(Handle::Shared(Arc::new(Shader { name, spirv: spirv.into(), ..Shader::clone(shader) })))
}

/// Problem at one point.
#[derive(Clone)]
struct PointProblem {
    loaded: Arc<LoadedKernels>,
    /// Index of the point.
    at: usize,
    seed: u64,
}

impl PointProblem {
    fn point(&self) -> &ResolvedPoint {
        &self.loaded.user.problem.points[self.at]
    }

    /// Iterates over the buffers that the host fills, with their indices among all.
    fn filled(&self) -> impl Iterator<Item = (usize, &ResolvedBuffer)> {
        self.point().buffers.iter().enumerate().filter(|(_, buffer)| buffer.role.is_input())
    }

    /// Iterates over the buffers that the host checks.
    fn outputs(&self) -> impl Iterator<Item = &ResolvedBuffer> {
        self.point().buffers.iter().filter(|buffer| buffer.role.is_output())
    }

    /// Makes the oracle that compares with `answers`.
    fn expected(&self, answers: Vec<Contents>, inputs: &[HostArray]) -> Result<Expected, Error> {
        let mut expected = Expected::new(answers).map_err(Error::Usage)?;
        expected.all = self.outputs().cloned().collect();
        for output in &expected.all {
            if let Tolerance::Picks(place) = output.tolerance
                && let Some(((index, buffer), input)) = self.filled().zip(inputs).find(|((at, _), _)| *at == place)
            {
                expected.keys.push(Contents { index, buffer: buffer.clone(), bytes: input.as_bytes().to_vec() });
            }
        }
        expected.saves.clone_from(&self.loaded.user.saves);
        Ok(expected)
    }

    /// Makes the oracle without a reference: it still checks random numbers.
    fn without_reference(&self, inputs: &[HostArray]) -> Result<Expected, Error> {
        let (mut answers, mut unknown) = (vec![], vec![]);
        for (index, buffer) in self.outputs().enumerate() {
            match buffer.tolerance {
                Tolerance::Moments { .. } => answers.push(Contents { index, buffer: buffer.clone(), bytes: vec![] }),
                _ => unknown.push(buffer.name.clone()),
            }
        }
        Ok(Expected { unknown, ..self.expected(answers, inputs)? })
    }

    /// Runs the reference command on `inputs`, and reads the answers.
    fn run_reference(&self, command: &ShellCommand, inputs: &[HostArray]) -> Result<Expected, Error> {
        let (scratch, [given, answered]) = command_folders(REFERENCE, ["in", "out"])?;
        for ((_, buffer), input) in self.filled().zip(inputs) {
            let path = given.join(file_name(&buffer.name) + ".npy");
            let written = array::write(&path, buffer.element, &buffer.shape, input.as_bytes());
            written.map_err(|e| {
                Error::Failure(format!("cannot write '{}' for the reference command: {e}", path.shown()))
            })?;
        }
        name_files(REFERENCE, &given, self.filled().map(|(_, buffer)| buffer).chain(self.outputs()))?;
        run_shell(REFERENCE, command, &scratch, &[("in", &given), ("out", &answered)])?;
        let names: Vec<String> = self.outputs().map(|buffer| file_name(&buffer.name)).collect();
        let (mut answers, mut without) = (vec![], vec![]);
        for ((index, buffer), name) in self.outputs().enumerate().zip(&names) {
            if ["npy", "bin"].iter().any(|kind| answered.join(format!("{name}.{kind}")).is_file()) {
                answers.push(answer(index, buffer, Fill::Made, &answered)?);
            } else if !matches!(buffer.tolerance, Tolerance::Moments { .. }) {
                // Random numbers have no reference.
                without.push(buffer);
            }
        }
        let wrote = names_in(&answered);
        let refused = |wrote: &str, wanted: String| {
            let shown = excerpt(&command.line);
            Err(Error::Usage(format!(
                "the reference command `{shown}` wrote {wrote} to {{out}}; make it write {wanted}"
            )))
        };
        if answers.is_empty() {
            let wrote = if wrote.is_empty() { "nothing".into() } else { wrote.join(", ") };
            return refused(&wrote, names.iter().map(|name| format!("{name}.npy")).collect::<Vec<_>>().join(" or "));
        }
        if let Some(missing) = without.iter().find(|buffer| buffer.checked) {
            return refused(&wrote.join(", "), format!("{}.npy too, which has a check", file_name(&missing.name)));
        }
        let is_other = |name: &&String| {
            let stem = name.strip_suffix(".npy").or(name.strip_suffix(".bin"));
            stem.is_some_and(|stem| !names.iter().any(|name| name == stem))
        };
        let others: Vec<_> = wrote.iter().filter(is_other).cloned().collect();
        let mut expected = self.expected(answers, inputs)?;
        if !others.is_empty() {
            let others = others.join(", ");
            expected.notes.push(format!(
                "the reference command also wrote {others}, which is no output of the kernel; not compared"
            ));
        }
        expected.unknown = without.into_iter().map(|buffer| buffer.name.clone()).collect();
        Ok(expected)
    }
}

/// File in a command's folder that maps unusual buffer names to file names.
const NAMES: &str = "names.json";

/// Writes [`NAMES`] to `folder` if there are unusual buffer names.
fn name_files<'a>(what: &str, folder: &Path, buffers: impl Iterator<Item = &'a ResolvedBuffer>) -> Result<(), Error> {
    let unusual = buffers.filter(|buffer| !is_plain(&buffer.name));
    let files: BTreeMap<_, _> = unusual.map(|buffer| (&buffer.name, file_name(&buffer.name))).collect();
    if files.is_empty() {
        return Ok(());
    }
    let refused = |e| Error::Failure(format!("cannot write {NAMES} for the {what} command: {e}"));
    let text = serde_json::to_string(&files).map_err(|e| refused(e.into()))?;
    std::fs::write(folder.join(NAMES), text).map_err(refused)
}

/// Lists the names of a folder's entries, sorted.
fn names_in(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |file: std::fs::DirEntry| {
        let folder = if file.path().is_dir() { "/" } else { "" };
        format!("{}{folder}", printable(&file.file_name().to_string_lossy()))
    };
    let mut names: Vec<_> = files.map(name).filter(|name| name != NAMES).collect();
    names.sort();
    names
}

/// Removes the path of a temporary folder from an error: the folder no longer exists when the message is read.
fn named_in(folder: &Path, reason: &str) -> String {
    let prefix = format!("{}/", folder.display());
    reason.strip_prefix(&prefix).filter(|_| folder.is_absolute()).unwrap_or(reason).to_string()
}

/// Reads the answer for output `index` from `fill`.
fn answer(index: usize, buffer: &ResolvedBuffer, fill: Fill, folder: &Path) -> Result<Contents, Error> {
    let filled = ResolvedBuffer { fill: Some(fill), ..buffer.clone() };
    let bytes = filled
        .contents(0, 0, folder)
        .map_err(|reason| Error::Usage(format!("the reference for {}: {}", buffer.name, named_in(folder, &reason))))?;
    Ok(Contents { index, buffer: buffer.clone(), bytes })
}

impl Problem for PointProblem {
    fn extents(&self) -> String {
        self.loaded.user.problem.extents(self.at)
    }

    fn buffers(&self) -> Vec<BufferSpec> {
        self.point().buffers.iter().map(spec).collect()
    }

    fn work(&self) -> Work {
        self.point().work
    }

    fn data(&self) -> Vec<String> {
        self.point().buffers.iter().map(ToString::to_string).collect()
    }

    fn fills(&self) -> Vec<String> {
        distinct(self.filled().filter_map(|(_, buffer)| buffer.fill.as_ref().map(ToString::to_string)))
    }

    fn inputs_are_given(&self) -> bool {
        self.filled().any(|(_, buffer)| matches!(buffer.fill, Some(Fill::Npy(_) | Fill::Raw(_) | Fill::Made)))
    }

    fn inputs(&self) -> Result<Vec<HostArray>, Error> {
        let made = match &self.point().inputs {
            None => None,
            Some(command) => {
                let (scratch, [out]) = command_folders(INPUTS, ["out"])?;
                name_files(INPUTS, &out, self.filled().map(|(_, buffer)| buffer))?;
                run_shell(INPUTS, command, &scratch, &[("out", &out)])?;
                Some((scratch, out))
            }
        };
        let folder = made.as_ref().map_or(Path::new("."), |(_, out)| out);
        let contents = self.filled().map(|(stream, buffer)| {
            let contents = buffer.contents(self.seed, stream as u64, folder);
            let contents = contents.map(|bytes| HostArray::of_bytes(buffer.element, &bytes));
            let from = if buffer.fill == Some(Fill::Made) { ", from the inputs command" } else { "" };
            contents
                .map_err(|reason| Error::Usage(format!("buffer {}{from}: {}", buffer.name, named_in(folder, &reason))))
        });
        contents.collect()
    }

    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, Error> {
        let point = self.point();
        let expected = match &point.reference {
            Reference::None => self.without_reference(inputs)?,
            Reference::Files(files) => {
                let mut answers = vec![];
                for (place, fill) in files {
                    let index = point.buffers[..*place].iter().filter(|buffer| buffer.role.is_output()).count();
                    answers.push(answer(index, &point.buffers[*place], fill.clone(), Path::new("."))?);
                }
                self.expected(answers, inputs)?
            }
            Reference::Command(command) => self.run_reference(command, inputs)?,
            Reference::Builtin(builtin) => {
                let counterpart = Counterpart::new(self.loaded.catalogue, builtin, point).map_err(Error::Usage)?;
                match counterpart.exact(inputs, point) {
                    Some(answer) => self.expected(vec![answer], inputs)?,
                    None => {
                        Expected { builtin: Some(counterpart.oracle(inputs, point)?), ..self.expected(vec![], inputs)? }
                    }
                }
            }
            Reference::Kernel(_) => return Err(Error::Failure("the reference has not run".into())),
        };
        Ok(Box::new(expected))
    }

    fn reference(&self, device: &DeviceInfo) -> Option<(Program, MakeOracle)> {
        let Reference::Kernel(list) = &self.point().reference else { return None };
        let problem = self.clone();
        let oracle: MakeOracle = Box::new(move |outputs| {
            let answers = problem.outputs().zip(outputs).enumerate().map(|(index, (buffer, output))| Contents {
                index,
                buffer: buffer.clone(),
                bytes: output.as_bytes().to_vec(),
            });
            let picks = problem.outputs().any(|buffer| matches!(buffer.tolerance, Tolerance::Picks(_)));
            let inputs = if picks { problem.inputs()? } else { vec![] };
            Ok(Box::new(problem.expected(answers.collect(), &inputs)?))
        });
        let program = program(&self.loaded.shaders, self.point(), list, self.seed, device);
        Some((program.unwrap_or_else(Program::refused), oracle))
    }
}

/// Purposes of commands, for messages.
const REFERENCE: &str = "reference";
const INPUTS: &str = "inputs";

/// Makes a private folder for a command, with subfolders of these names.
fn command_folders<const N: usize>(what: &str, names: [&str; N]) -> Result<(Scratch, [PathBuf; N]), Error> {
    let refused = |e: std::io::Error| Error::Failure(format!("cannot make a folder for the {what} command: {e}"));
    let scratch = Scratch::new().map_err(refused)?;
    let folders = names.map(|name| scratch.path().join(name));
    folders.iter().try_for_each(std::fs::create_dir).map_err(refused)?;
    Ok((scratch, folders))
}

/// Runs a command in the shell, with the names in braces replaced by the paths of `places` in `scratch`; these paths
/// need no quotes. The error has the last line that the command wrote.
fn run_shell(what: &str, command: &ShellCommand, scratch: &Scratch, places: &[(&str, &Path)]) -> Result<(), Error> {
    let ShellCommand { line, folder } = command;
    let mut text = line.clone();
    for (name, path) in places {
        text = text.replace(&format!("{{{name}}}"), &path.to_string_lossy());
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut program = std::process::Command::new(guarded::SHELL);
    // With /S, cmd.exe removes the outer quotes and keeps the others.
    let (options, text): (&[_], _) =
        if cfg!(windows) { (&["/S", "/C"], format!("\"{text}\"")) } else { (&["-c"], text) };
    program.args(options).arg(text).current_dir(folder);
    let shown = excerpt(line);
    let ended = guarded::run(&program, scratch, false)
        .map_err(|e| Error::Failure(format!("the {what} command `{shown}` {e}")))?;
    if ended.left {
        let note = format!("note      the {what} command `{shown}` left processes running; gpukern ended them\n");
        Messages::default().say(&note);
    }
    let Some(status) = ended.failed else { return Ok(()) };
    // These paths no longer exist when the message is read.
    let said = places
        .iter()
        .fold(ended.said, |said, (name, path)| said.replace(&*path.to_string_lossy(), &format!("{{{name}}}")));
    let given = places.iter().find(|(name, _)| *name == "in").map(|(_, path)| names_in(path).join(", "));
    let given = given.map_or_else(String::new, |names| format!(" ({{in}} has {names})"));
    let reason = excerpt(&last_words(&said));
    Err(Error::Usage(format!("the {what} command `{shown}` failed ({status}): {reason}; fix it{given}")))
}

/// Returns the last line that a command wrote, with the line of the user's script from a Python traceback.
fn last_words(said: &str) -> String {
    let mut lines = said.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.next().unwrap_or("it said nothing");
    let of_library = |line: &&str| line.contains("-packages") || line.contains("/lib/python");
    let place = lines.find(|line| line.starts_with("File \"") && !of_library(line));
    place.map_or_else(|| last.to_string(), |place| format!("{last} ({place})"))
}

#[cfg(test)]
mod tests;
