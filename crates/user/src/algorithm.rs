//! Makes an [`Algorithm`] from users' kernels, with a problem for each point of their axes.

use super::access::{Root, accesses};
use super::builtin::Counterpart;
use super::loaded;
use super::member_map::MemberMap;
use super::oracle::{ReferenceData, UserOracle};
use super::resolved::{
    Fill, KernelConfiguration, LeftOut, Module, PassList, Reference, ResolvedBuffer, ResolvedPoint, ResolvedProblem,
    ShellCommand, Tolerance,
};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{AUTO, Algorithm, CaseSpec, MakeOracle, Measures, Oracle, Problem, Sweeps, Variant};
use crate::basis::alike::distinct;
use crate::basis::destination::Scratch;
use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::Error;
use crate::basis::file_name::{file_name, is_plain};
use crate::basis::handle::Handle;
use crate::basis::layout::Layout;
use crate::basis::messages::Messages;
use crate::basis::printable::{Shown, brief, excerpt, printable};
use crate::basis::size::Size;
use crate::basis::units::{Work, in_words};
use crate::case::Shortcut;
use crate::case::input::Input;
use crate::device::cache::fingerprint;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{Address, Binding, BufferSpec, Descriptor, RED_ZONE, Role, Start};
use crate::kernel::interface::{Interface, Slot, SlotKind};
use crate::kernel::lengths::with_constant_lengths;
use crate::kernel::program::{BufferId, Dispatch, Program, Step};
use crate::kernel::shaders::{Kernels, Shader};
use crate::process::guarded;
use crate::tuning::tuned::Tuned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// User's kernels that solve the same problem, and the built-in variants that run beside them. Workers receive it and
/// make the same algorithm from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserKernels {
    /// Name of the algorithm, different from all built-in ones.
    pub name: String,
    // The hash of a plan includes this text, which keeps the name of its first version.
    #[serde(rename = "undertaking")]
    pub problem: ResolvedProblem,
    /// Variants of the built-in reference algorithm, or `auto`; numbered after the configurations.
    pub against: Vec<String>,
    /// Buffers to save to files when an answer is checked.
    pub saves: Vec<Save>,
    /// Results of `tune` for the built-in variants. They change no problem, so no fingerprint has them.
    #[serde(default, skip_serializing_if = "Tuned::is_none")]
    pub tuned: Tuned,
}

/// Buffer to save to a .npy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Save {
    /// Name of the buffer.
    pub buffer: String,
    pub path: PathBuf,
}

/// Kernels with all that their algorithm and its variants share.
struct KernelSet {
    catalogue: &'static Catalogue,
    user: UserKernels,
    /// Shaders of the problem's modules.
    shaders: Vec<Handle<Shader>>,
    /// Sizes of the problem's points, which identify them in cases.
    sizes: Vec<Size>,
}

impl KernelSet {
    /// Returns the index of a case's point.
    fn find_point(&self, case: &CaseSpec) -> Result<usize, String> {
        let index = self.sizes.iter().position(|size| *size == case.size);
        index.ok_or_else(|| format!("{} is no point of its axes", case.size))
    }

    /// Builds the program of a variant: of a configuration, or else of a built-in variant.
    fn build_variant(&self, variant: usize, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let point = &self.user.problem.points[self.find_point(case)?];
        let configuration_count = point.pass_lists.len();
        if variant < configuration_count {
            return self.build(point, point.pass_lists[variant].as_ref().map_err(String::clone)?, case.seed, device);
        }
        let Reference::Builtin(builtin) = &point.reference else {
            return Err("has no built-in reference to run beside".into());
        };
        let name = &self.user.against[variant - configuration_count];
        Ok(Counterpart::new(self.catalogue, builtin, point)?.program(name, device, &self.user.tuned))
    }

    /// Builds the program of a list of passes at a point.
    fn build(&self, point: &ResolvedPoint, list: &PassList, seed: u64, device: &DeviceInfo) -> Result<Program, String> {
        let buffers: Vec<&ResolvedBuffer> = point.buffers.iter().chain(&list.scratch).collect();
        let mut program = Program::default();
        let mut unguarded = vec![];
        for pass in &list.dispatches {
            let dispatch =
                make_dispatch(&self.shaders[pass.shader], pass, &buffers, device.limits.storage_buffer_range.0);
            let descriptors = dispatch.guarded.as_ref().map_or(&dispatch.descriptors, |(_, descriptors)| descriptors);
            for Descriptor { at, bytes } in descriptors {
                // An explicit `range` excludes the red zone on purpose.
                let has_red_zone = at.range.is_some() || *bytes != Some(visible_bytes(at, &buffers));
                if at.kind == SlotKind::Storage && !has_red_zone {
                    unguarded.push(buffers[at.buffer.0].name.clone());
                }
            }
            program.steps.push(Step::Dispatch(dispatch));
        }
        program.unguarded = distinct(unguarded);
        program.scratch = list.scratch.iter().map(buffer_spec).collect();
        for (index, buffer) in list.scratch.iter().enumerate() {
            let number = point.buffers.len() + index;
            if buffer.fill.is_some() {
                program.starts.push(initial_contents(number, buffer, seed)?);
                // Buffers that kernels change are refilled before each run.
                let is_changed = program.may_write(BufferId(number));
                program.scratch[index].role = if is_changed { Role::InPlace } else { Role::Input };
            }
        }
        Ok(program)
    }
}

/// Makes the variants: the configurations, and then those of the built-in algorithm `solver` that run beside them.
fn make_variants(kernels: &Arc<KernelSet>, solver: Option<&Algorithm>) -> Vec<Variant> {
    let mut variants = vec![];
    for configuration in &kernels.user.problem.configurations {
        let choice = configuration.choice.iter().cloned().collect();
        variants.push(Variant { choice, ..make_variant(kernels, variants.len(), label(configuration), &[]) });
    }
    let algorithm = solver.map_or("builtin", |solver| &solver.name);
    for name in &kernels.user.against {
        // `auto` is a choice among variants, so it has no entry of its own.
        let builtin = solver.and_then(|solver| solver.variant(name).ok());
        let shortcuts = builtin.map_or(&[][..], Variant::shortcuts);
        variants.push(make_variant(kernels, variants.len(), format!("{algorithm}:{name}"), shortcuts));
    }
    variants
}

fn make_variant(kernels: &Arc<KernelSet>, index: usize, name: String, shortcuts: &'static [Shortcut]) -> Variant {
    let kernels = Arc::clone(kernels);
    Variant {
        name: name.into(),
        choice: BTreeMap::new(),
        aliases: &[],
        summary: "a user's kernel",
        source: "the user",
        measures: Measures::Shortcuts(shortcuts),
        kernels: Kernels::NONE,
        program: Handle::Shared(Arc::new(move |_: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo| {
            kernels.build_variant(index, case, device).unwrap_or_else(Program::refused)
        })),
    }
}

/// Formats the name of a configuration: `mul_mm`, `mul_mm[BM=64]`.
fn label(KernelConfiguration { kernel, choice }: &KernelConfiguration) -> String {
    if choice.is_empty() {
        return kernel.clone();
    }
    let values: Vec<_> = choice.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{kernel}[{}]", values.join(","))
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
        let lists = self.problem.points.iter().flat_map(|point| &point.pass_lists).flatten();
        let is_compiled_only = lists.flat_map(|list| &list.dispatches).all(|dispatch| dispatch.layout.is_some());
        let mut shaders = vec![];
        for (index, module) in self.problem.modules.iter().enumerate() {
            let name = format!("{}/{}#{index}", self.name, module.name);
            shaders.push(if is_compiled_only {
                shader(module, name, Interface::read_unbound)?
            } else {
                load_shader(module, name)?
            });
        }
        let tuned = std::mem::take(&mut self.tuned);
        // Records of other kernels with the same names must not be mistaken for records of these.
        let fingerprint = fingerprint(&[&serde_json::to_vec(&self).unwrap_or_default()]);
        for point in &mut self.problem.points {
            set_layouts(point, &shaders);
        }
        let sizes = self.problem.sizes();
        let user = Self { tuned, ..self };
        let kernels = Arc::new(KernelSet { catalogue, user, shaders, sizes });
        Ok(Handle::Shared(Arc::new(Algorithm {
            name: kernels.user.name.clone().into(),
            fingerprint: Some(fingerprint),
            summary: "users' kernels",
            work: "as the description states it",
            default_size: Sweeps::same("1"),
            verify_size: Sweeps::same("1"),
            iterative: false,
            inputs: &[Input::Described],
            layouts: &[Layout::Nn],
            variants: make_variants(&kernels, solver).into(),
            tunable: &[],
            candidates: None,
            solution: None,
            baseline: None,
            exact: None,
            problem: Handle::Shared(Arc::new(move |case: &CaseSpec| {
                let point = kernels.find_point(case)?;
                let problem = PointProblem { kernels: Arc::clone(&kernels), point, seed: case.seed };
                Ok(Box::new(problem) as Box<dyn Problem>)
            })),
        })))
    }

    /// Lists the variants that compete at a point, by index: the first possible configuration of each kernel, or `all`;
    /// then the built-in variants.
    pub fn choices(&self, point: usize, all: bool) -> impl Iterator<Item = usize> {
        let ResolvedProblem { configurations, points, .. } = &self.problem;
        let mut kernels = BTreeSet::new();
        let mut variants = vec![];
        for (index, configuration) in configurations.iter().enumerate() {
            let is_possible = points[point].pass_lists[index].is_ok();
            if is_possible && (kernels.insert(&configuration.kernel) || all) {
                variants.push(index);
            }
        }
        variants.extend((0..self.against.len()).map(|index| configurations.len() + index));
        variants.into_iter()
    }

    /// Returns the first variant's name; in a case, that of the captured kernel.
    pub fn first(&self) -> Option<String> {
        self.problem.configurations.first().map(label)
    }

    /// Describes the configurations that run without `--tune`, or `None` if each kernel has only one: `PER = 1, the
    /// first of 4 choices`.
    pub fn first_choices(&self) -> Option<String> {
        let ResolvedProblem { configurations, points, .. } = &self.problem;
        let mut notes = vec![];
        for kernel in distinct(configurations.iter().map(|configuration| &configuration.kernel)) {
            // Conditions may exclude a choice at some points.
            let allowed = |all: bool| {
                let variants = (0..points.len()).flat_map(|point| self.choices(point, all));
                let allowed = variants.filter_map(|variant| configurations.get(variant));
                let own = allowed.filter(|configuration| configuration.kernel == *kernel);
                distinct(own.map(|configuration| choice_text(&configuration.choice)))
            };
            let count = allowed(true).len();
            if count > 1 {
                notes.push(format!("{}, the first of {count} choices", allowed(false).join(" or ")));
            }
        }
        if notes.is_empty() { None } else { Some(distinct(notes).join("; ")) }
    }

    /// Says for each kernel what it runs without, and whether it may need another grid, in lines of their own; empty if each has
    /// all that its description sets.
    pub fn left_out_notes(&self) -> String {
        let mut notes = String::new();
        for LeftOut { kernel, names, grids } in &self.problem.left_out {
            if !names.is_empty() {
                let names = in_words(names, "and");
                let _ = writeln!(notes, "note      {kernel} runs without {}, which it does not declare", brief(&names));
            }
            if let Some([own, first]) = grids {
                let _ = writeln!(
                    notes,
                    "note      {kernel} and the first kernel have the description's grid, but may need different ones: --init \
                     drafts groups = {own} for {kernel}, and {first} for the first; each may have its own in a description \
                     of its own: `gpukern run a.toml b.toml`"
                );
            }
        }
        notes
    }

    /// Whether a reference checks the kernels at some size.
    pub fn has_reference(&self) -> bool {
        self.problem.points.iter().any(|point| point.reference != Reference::None)
    }

    /// Says that the sizes leave no work-group partial, so that nothing checks an edge; empty if one does.
    pub fn edge_note(&self) -> String {
        if self.problem.partial_groups != Some(false) {
            return String::new();
        }
        format!(
            "note      {}: each size fills all work-groups (cdiv in groups never rounds up), so nothing checks the edge of a \
             partial one; add such a size, or write / in place of cdiv if there is none\n",
            self.name
        )
    }

    /// Whether the simulator can run the kernels: it has no images.
    pub fn are_simulated(&self) -> bool {
        self.problem.points.iter().flat_map(|point| &point.buffers).all(|buffer| buffer.image.is_none())
    }

    /// Whether more than one kernel competes.
    pub fn has_several_kernels(&self) -> bool {
        let configurations = &self.problem.configurations;
        configurations.iter().any(|configuration| configuration.kernel != configurations[0].kernel)
    }

    /// Describes the choice of specialization constants in a variant's name, `BM = 64, BN = 32`, or else repeats it, as where
    /// several kernels compete.
    pub fn choice(&self, variant: &str) -> String {
        match self.problem.configurations.iter().find(|configuration| label(configuration) == variant) {
            Some(configuration) if !configuration.choice.is_empty() && !self.has_several_kernels() => {
                choice_text(&configuration.choice)
            }
            _ => variant.into(),
        }
    }

    /// Whether a variant is one of these kernels, and not one that runs against them.
    pub fn is_own(&self, variant: &str) -> bool {
        self.problem.configurations.iter().any(|configuration| label(configuration) == variant)
    }

    /// Returns the reason why there is nothing to run.
    pub fn why_nothing_runs(&self) -> String {
        let mut lists = self.problem.points.iter().flat_map(|point| &point.pass_lists);
        let reason = lists.find_map(|list| list.as_ref().err());
        format!("nothing to run: {}", reason.map_or("there is no kernel", String::as_str))
    }

    /// Returns the element type of the outputs, which cases are labeled with; `mixed` if they differ.
    pub fn dtype(&self) -> DType {
        let buffers = self.problem.points.first().map_or(&[][..], |point| &point.buffers);
        let outputs = buffers.iter().filter(|buffer| buffer.role.is_output());
        match distinct(outputs.flat_map(ResolvedBuffer::views).map(|buffer| buffer.element))[..] {
            [element] => element,
            _ => DType::Mixed,
        }
    }
}

/// Formats chosen values of specialization constants: `BM = 64, BN = 32`.
fn choice_text(choice: &[(String, String)]) -> String {
    choice.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}

/// Makes a shader of a module to run, with the blocks that it writes to marked.
fn load_shader(module: &Module, name: String) -> Result<Handle<Shader>, String> {
    shader(module, name, |spirv| {
        let mut interface = Interface::read(spirv)?;
        let roots: Vec<_> = interface.slots.iter().map(|slot| Root::Slot(slot.set, slot.binding)).collect();
        // Declarations may be wrong, so writes are also found by analysis.
        for (slot, access) in interface.slots.to_mut().iter_mut().zip(accesses(&module.spirv, &roots)) {
            for block in slot.blocks.to_mut() {
                block.writable |= access.writes;
            }
        }
        Ok(interface)
    })
}

/// Makes a shader of a module, with the interface that `read` finds in its bytes.
fn shader(
    module: &Module,
    name: String,
    read: impl FnOnce(&[u8]) -> Result<Interface, String>,
) -> Result<Handle<Shader>, String> {
    let spirv = loaded::bytes(&module.spirv);
    let interface = read(&spirv).map_err(|reason| format!("{}: {reason}", module.name))?;
    Ok(Handle::Shared(Arc::new(Shader {
        name: name.into(),
        dtype: None,
        layout: None,
        spirv: spirv.into(),
        line_table: (&[]).into(),
        interface,
        built_in: false,
    })))
}

/// Sets the layout of each buffer at a point from the blocks that the kernels bind it to. The reference's blocks do not
/// count: the comparison covers what the kernels can write.
fn set_layouts(point: &mut ResolvedPoint, shaders: &[Handle<Shader>]) {
    for buffer in &mut point.buffers {
        buffer.members = MemberMap::default();
    }
    for list in point.pass_lists.iter().flatten() {
        for dispatch in &list.dispatches {
            for Descriptor { at, .. } in &dispatch.descriptors {
                // Scratch buffers are numbered after the point's, and nobody compares them.
                let Some(buffer) = point.buffers.get_mut(at.buffer.0) else { continue };
                let is_bound =
                    |slot: &&Slot| slot.set == at.set && slot.binding == at.binding && slot.element == at.element;
                match shaders[dispatch.shader].interface.slots.iter().find(is_bound) {
                    Some(slot) => slot.blocks.iter().for_each(|block| buffer.members.add(block, at.offset)),
                    None => buffer.members.open(),
                }
            }
        }
        let pushed = list.dispatches.iter().flat_map(|dispatch| &dispatch.addresses);
        let stored = list.scratch.iter().flat_map(ResolvedBuffer::addresses);
        for address in pushed.chain(stored) {
            if let Some(buffer) = point.buffers.get_mut(address.buffer.0) {
                buffer.members.open();
            }
        }
    }
}

fn buffer_spec(buffer: &ResolvedBuffer) -> BufferSpec {
    BufferSpec {
        image: buffer.image,
        ..BufferSpec::new(buffer.name.clone(), buffer.role, buffer.element, buffer.len())
    }
}

/// Returns the contents of scratch buffer `number` before each run.
fn initial_contents(number: usize, buffer: &ResolvedBuffer, seed: u64) -> Result<Start, String> {
    let is_cleared = buffer.fill == Some(Fill::Zero) && buffer.parts.is_empty();
    let bytes = if is_cleared && buffer.bytes().is_multiple_of(4) {
        // One word tiles the buffer.
        vec![0; 4]
    } else {
        let contents = buffer.contents(seed, number as u64, Path::new("."));
        contents.map_err(|reason| format!("cannot fill {}: {reason}", buffer.name))?
    };
    Ok(Start { buffer: BufferId(number), bytes: bytes.into(), addresses: buffer.addresses().to_vec() })
}

/// Makes a dispatch for a device whose descriptors have up to `limit` bytes. Descriptors include the red zones, so that
/// writes past the data land there and are noticed. A kernel that asks for the lengths of its arrays would see the red
/// zones in them, so it has a guarded version for untimed runs, with the true lengths compiled in.
fn make_dispatch(shader: &Handle<Shader>, pass: &Dispatch<usize>, buffers: &[&ResolvedBuffer], limit: u64) -> Dispatch {
    let mut descriptors = size_descriptors(pass, buffers, limit);
    let mut guarded = None;
    if shader.interface.asks_lengths {
        guarded = with_lengths(shader, pass, buffers).map(|shader| (shader, descriptors));
        descriptors = size_descriptors(pass, buffers, 0);
    }
    // Constants of 32 bits come first, by id.
    let mut constants = pass.constants.clone();
    constants.sort_by_key(|constant| if constant.bytes == 4 { (0, constant.id) } else { (1, 0) });
    let bound = pass.descriptors.iter().map(|descriptor| descriptor.at.buffer);
    let mut known: Vec<BufferId> = bound.chain(pass.addresses.iter().map(|address| address.buffer)).collect();
    let direct = known.len();
    let mut next = 0;
    // Addresses in the blocks lead to further blocks.
    while let Some(buffer) = known.get(next).copied() {
        for Address { buffer, .. } in buffers[buffer.0].addresses() {
            if !known[direct..].contains(buffer) {
                known.push(*buffer);
            }
        }
        next += 1;
    }
    Dispatch {
        constants,
        groups: pass.groups,
        indirect: pass.indirect,
        subgroup_size: pass.subgroup_size,
        push: pass.push.clone(),
        addresses: pass.addresses.clone(),
        descriptors,
        layout: pass.layout.clone(),
        reached: known.split_off(direct),
        guarded,
        ..Dispatch::bare(shader.clone())
    }
}

/// Sizes the descriptors of a pass. They include the red zones of storage buffers without an explicit range, unless that
/// makes them longer than `limit`.
fn size_descriptors(pass: &Dispatch<usize>, buffers: &[&ResolvedBuffer], limit: u64) -> Vec<Descriptor> {
    let mut descriptors = pass.descriptors.clone();
    for Descriptor { at, bytes } in &mut descriptors {
        let visible = visible_bytes(at, buffers);
        let is_guarded = at.kind == SlotKind::Storage && at.range.is_none() && visible + RED_ZONE <= limit;
        *bytes = Some(if is_guarded { visible + RED_ZONE } else { visible });
    }
    descriptors
}

/// Returns the bytes of a buffer that a binding exposes to the kernel, without the red zone.
fn visible_bytes(at: &Binding, buffers: &[&ResolvedBuffer]) -> u64 {
    at.range.unwrap_or_else(|| buffers[at.buffer.0].bytes() - at.offset)
}

/// Compiles the lengths of bound arrays into the kernel of a pass; `None` if a length is not constant.
fn with_lengths(shader: &Shader, pass: &Dispatch<usize>, buffers: &[&ResolvedBuffer]) -> Option<Handle<Shader>> {
    // An array of buffers has one length only if all its buffers are equally long.
    let bytes_at = |set, binding| {
        let bound = pass.descriptors.iter().filter(|descriptor| descriptor.at.set == set);
        let bound = bound.filter(|descriptor| descriptor.at.binding == binding);
        let bytes = distinct(bound.map(|descriptor| visible_bytes(&descriptor.at, buffers)));
        if let [bytes] = bytes[..] { Some(bytes) } else { None }
    };
    let module: Vec<u32> = shader.spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    let module = with_constant_lengths(&module, &bytes_at)?;
    let spirv = loaded::bytes(&module);
    // Pipelines are cached by kernel name.
    let name = format!("{} with lengths {}", shader.name, fingerprint(&[&spirv])).into();
    Some(Handle::Shared(Arc::new(Shader { name, spirv: spirv.into(), ..shader.clone() })))
}

/// Problem at one point.
#[derive(Clone)]
struct PointProblem {
    kernels: Arc<KernelSet>,
    /// Index of the point.
    point: usize,
    seed: u64,
}

impl PointProblem {
    fn point(&self) -> &ResolvedPoint {
        &self.kernels.user.problem.points[self.point]
    }

    /// Iterates over the buffers that the host fills, with their indices among all.
    fn filled(&self) -> impl Iterator<Item = (usize, &ResolvedBuffer)> {
        self.point().buffers.iter().enumerate().filter(|(_, buffer)| buffer.role.is_input())
    }

    /// Iterates over the buffers that the host checks.
    fn outputs(&self) -> impl Iterator<Item = &ResolvedBuffer> {
        self.point().buffers.iter().filter(|buffer| buffer.role.is_output())
    }

    /// Returns the outputs of a run as answers to compare with.
    fn answers(&self, outputs: &[HostArray]) -> Vec<ReferenceData> {
        let outputs = self.outputs().zip(outputs).enumerate();
        outputs.map(|(index, (buffer, output))| ReferenceData::new(index, buffer, output.as_bytes())).collect()
    }

    /// Makes the oracle that compares with `answers`.
    fn expect(&self, answers: Vec<ReferenceData>, inputs: &[HostArray]) -> Result<UserOracle, Error> {
        let mut expected = UserOracle::new(answers).map_err(Error::Usage)?;
        expected.all = self.outputs().cloned().collect();
        expected.unverified = self.point().unverified;
        for output in &expected.all {
            let Tolerance::Picks(keys) = output.tolerance else { continue };
            for ((index, buffer), input) in self.filled().zip(inputs) {
                if index == keys {
                    expected.keys.push(ReferenceData::new(index, buffer, input.as_bytes()));
                }
            }
        }
        expected.saves.clone_from(&self.kernels.user.saves);
        Ok(expected)
    }

    /// Makes the oracle without a reference: it still checks random numbers.
    fn expect_anything(&self, inputs: &[HostArray]) -> Result<UserOracle, Error> {
        let mut answers = vec![];
        let mut unknown = vec![];
        for (index, buffer) in self.outputs().enumerate() {
            match buffer.tolerance {
                Tolerance::Moments { .. } => answers.push(ReferenceData::new(index, buffer, [])),
                _ => unknown.push(buffer.name.clone()),
            }
        }
        Ok(UserOracle { unknown, ..self.expect(answers, inputs)? })
    }

    /// Runs the command that makes inputs, and returns the folder in whose `out` they are.
    fn run_inputs(&self, command: &ShellCommand) -> Result<Scratch, Error> {
        let scratch = make_folders(INPUTS, &["out"])?;
        write_names(INPUTS, &scratch.path().join("out"), self.filled().map(|(_, buffer)| buffer))?;
        run_shell(INPUTS, command, &scratch, &["out"])?;
        Ok(scratch)
    }

    /// Runs the reference command on `inputs`, and reads the answers.
    fn run_reference(&self, command: &ShellCommand, inputs: &[HostArray]) -> Result<UserOracle, Error> {
        let scratch = make_folders(REFERENCE, &["in", "out"])?;
        let input_folder = scratch.path().join("in");
        let output_folder = scratch.path().join("out");
        for ((_, buffer), input) in self.filled().zip(inputs) {
            let path = input_folder.join(file_name(&buffer.name) + ".npy");
            let written = File::create(&path).and_then(|file| buffer.write_array(file, input.as_bytes()));
            written.map_err(|e| {
                Error::Failure(format!("cannot write '{}' for the reference command: {e}", path.shown()))
            })?;
        }
        write_names(REFERENCE, &input_folder, self.filled().map(|(_, buffer)| buffer).chain(self.outputs()))?;
        run_shell(REFERENCE, command, &scratch, &["in", "out"])?;
        let mut answers = vec![];
        let mut unanswered = vec![];
        for (index, buffer) in self.outputs().enumerate() {
            let name = file_name(&buffer.name);
            if ["npy", "bin"].iter().any(|ending| output_folder.join(format!("{name}.{ending}")).is_file()) {
                answers.push(read_answer(index, buffer, Fill::Made, &output_folder)?);
            } else if !matches!(buffer.tolerance, Tolerance::Moments { .. }) {
                // Random numbers have no reference.
                unanswered.push(buffer);
            }
        }
        let written = list_names(&output_folder);
        let refused = |written: &str, wanted: &str| {
            let line = excerpt(&command.line);
            let message = format!("the reference command `{line}` wrote {written} to {{out}}; make it write {wanted}");
            Err(Error::Usage(message))
        };
        if answers.is_empty() {
            let written = if written.is_empty() { "nothing".into() } else { written.join(", ") };
            let wanted: Vec<String> = self.outputs().map(|buffer| file_name(&buffer.name) + ".npy").collect();
            return refused(&written, &wanted.join(" or "));
        }
        if let Some(missing) = unanswered.iter().find(|buffer| buffer.checked) {
            let name = file_name(&missing.name);
            return refused(&written.join(", "), &format!("{name}.npy too, which has a check"));
        }
        let mut expected = self.expect(answers, inputs)?;
        expected.notes.extend(self.note_other_files(&written));
        expected.unknown = unanswered.into_iter().map(|buffer| buffer.name.clone()).collect();
        Ok(expected)
    }

    /// Notes the arrays that a reference command wrote and that belong to no output.
    fn note_other_files(&self, written: &[String]) -> Option<String> {
        let names: Vec<String> = self.outputs().map(|buffer| file_name(&buffer.name)).collect();
        let is_other = |file: &&String| {
            let stem = file.strip_suffix(".npy").or(file.strip_suffix(".bin"));
            stem.is_some_and(|stem| !names.iter().any(|name| name == stem))
        };
        let others = written.iter().filter(is_other).cloned().collect::<Vec<_>>().join(", ");
        let note =
            || format!("the reference command also wrote {others}, which is no output of the kernel; not compared");
        (!others.is_empty()).then(note)
    }
}

/// File in a command's folder that maps unusual buffer names to file names.
const NAMES: &str = "names.json";

/// Writes [`NAMES`] to `folder` if there are unusual buffer names.
fn write_names<'a>(
    purpose: &str,
    folder: &Path,
    buffers: impl Iterator<Item = &'a ResolvedBuffer>,
) -> Result<(), Error> {
    let unusual = buffers.filter(|buffer| !is_plain(&buffer.name));
    let files: BTreeMap<_, _> = unusual.map(|buffer| (&buffer.name, file_name(&buffer.name))).collect();
    if files.is_empty() {
        return Ok(());
    }
    let refused = |e| Error::Failure(format!("cannot write {NAMES} for the {purpose} command: {e}"));
    let text = serde_json::to_string(&files).map_err(|e| refused(e.into()))?;
    std::fs::write(folder.join(NAMES), text).map_err(refused)
}

/// Lists the names of a folder's entries, sorted; folders end in a slash.
fn list_names(folder: &Path) -> Vec<String> {
    let mut names = vec![];
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let slash = if entry.path().is_dir() { "/" } else { "" };
        let name = format!("{}{slash}", printable(&entry.file_name().to_string_lossy()));
        if name != NAMES {
            names.push(name);
        }
    }
    names.sort();
    names
}

/// Removes the path of a temporary folder from an error: the folder no longer exists when the message is read.
fn without_folder(folder: &Path, reason: &str) -> String {
    if !folder.is_absolute() {
        return reason.to_string();
    }
    reason.strip_prefix(&format!("{}/", folder.display())).unwrap_or(reason).to_string()
}

/// Reads the answer for output `index` from `fill`.
fn read_answer(index: usize, buffer: &ResolvedBuffer, fill: Fill, folder: &Path) -> Result<ReferenceData, Error> {
    let filled = ResolvedBuffer { fill: Some(fill), ..buffer.clone() };
    let bytes = filled.contents(0, 0, folder).map_err(|reason| {
        Error::Usage(format!("the reference for {}: {}", buffer.name, without_folder(folder, &reason)))
    })?;
    Ok(ReferenceData::new(index, buffer, bytes))
}

impl Problem for PointProblem {
    fn extents(&self) -> String {
        self.kernels.user.problem.extents(self.point)
    }

    fn buffers(&self) -> Vec<BufferSpec> {
        self.point().buffers.iter().map(buffer_spec).collect()
    }

    fn work(&self) -> Work {
        self.point().work
    }

    fn data(&self) -> Vec<String> {
        let has_file = |buffer: &ResolvedBuffer| buffer.fill.as_ref().is_some_and(|fill| fill.path().is_some());
        let views = self.point().buffers.iter().flat_map(ResolvedBuffer::with_members);
        views.filter(|view| view.parts.is_empty() || has_file(view)).map(ToString::to_string).collect()
    }

    fn fills(&self) -> Vec<String> {
        let views = self.filled().flat_map(|(_, buffer)| buffer.views());
        distinct(views.filter_map(|buffer| buffer.fill.as_ref().map(ToString::to_string)))
    }

    fn unusable(&self) -> Option<String> {
        self.kernels.user.problem.unusable.clone()
    }

    fn inputs_are_given(&self) -> bool {
        self.filled().any(|(_, buffer)| matches!(buffer.fill, Some(Fill::Npy(_) | Fill::Raw(_) | Fill::Made)))
    }

    fn inputs(&self) -> Result<Vec<HostArray>, Error> {
        if let Some(reason) = self.unusable() {
            return Err(Error::Usage(reason));
        }
        // Dropping the scratch folder removes the files.
        let scratch = self.point().inputs.as_ref().map(|command| self.run_inputs(command)).transpose()?;
        let folder = scratch.as_ref().map_or(PathBuf::from("."), |scratch| scratch.path().join("out"));
        let mut inputs = vec![];
        for (index, buffer) in self.filled() {
            let contents = buffer.contents(self.seed, index as u64, &folder).map_err(|reason| {
                let origin = if buffer.fill == Some(Fill::Made) { ", from the inputs command" } else { "" };
                Error::Usage(format!("buffer {}{origin}: {}", buffer.name, without_folder(&folder, &reason)))
            })?;
            inputs.push(HostArray::of_bytes(buffer.element, &contents));
        }
        Ok(inputs)
    }

    fn revealing_inputs(&self) -> Vec<(String, Vec<HostArray>)> {
        let point = self.point();
        let bytes: u64 = point.buffers.iter().map(ResolvedBuffer::bytes).sum();
        // Fixed answers are of fixed inputs, and an oracle of indices reads the usual ones again.
        let is_fixed = matches!(point.reference, Reference::None | Reference::Files(_)) || point.inputs.is_some();
        let has_picks = self.outputs().any(|buffer| matches!(buffer.tolerance, Tolerance::Picks(_)));
        // A loop until values converge may never end for others.
        let may_hang = self.kernels.user.problem.has_long_loops(MAX_REVEALING_ROUNDS);
        if is_fixed || has_picks || may_hang || bytes > MAX_REVEALING_BYTES {
            return vec![];
        }
        let of_both_signs: Vec<_> =
            self.filled().enumerate().filter(|(_, (_, buffer))| buffer.has_both_signs()).collect();
        if of_both_signs.is_empty() {
            return vec![];
        }
        let Ok(inputs) = self.inputs() else { return vec![] };
        let names: Vec<_> = of_both_signs.iter().map(|(_, (_, buffer))| &*buffer.name).collect();
        let have = if names.len() == 1 { "has" } else { "have" };
        let names = in_words(&names, "and");
        let mut all = vec![];
        for (kind, is_negative) in [("negative numbers", true), ("positive numbers, small but for the last", false)] {
            let mut changed = inputs.clone();
            for (position, (_, buffer)) in &of_both_signs {
                set_signs(changed[*position].as_bytes_mut(), buffer.element.bytes() as usize, is_negative);
                if !is_negative {
                    changed[*position] = emphasize_last(&changed[*position], buffer);
                }
            }
            all.push((format!("if {names} {have} only {kind}"), changed));
        }
        all
    }

    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, Error> {
        let point = self.point();
        let expected = match &point.reference {
            Reference::None => self.expect_anything(inputs)?,
            Reference::Files(files) => {
                let mut answers = vec![];
                for (buffer, fill) in files {
                    let output = point.buffers[..*buffer].iter().filter(|buffer| buffer.role.is_output()).count();
                    answers.push(read_answer(output, &point.buffers[*buffer], fill.clone(), Path::new("."))?);
                }
                self.expect(answers, inputs)?
            }
            Reference::Command(command) => self.run_reference(command, inputs)?,
            Reference::Builtin(builtin) => {
                let counterpart = Counterpart::new(self.kernels.catalogue, builtin, point).map_err(Error::Usage)?;
                match counterpart.exact(inputs, point) {
                    Some(answer) => self.expect(vec![answer], inputs)?,
                    None => {
                        UserOracle { builtin: Some(counterpart.oracle(inputs, point)?), ..self.expect(vec![], inputs)? }
                    }
                }
            }
            Reference::Kernel(_) => return Err(Error::Failure("the reference has not run".into())),
        };
        Ok(Box::new(expected))
    }

    fn oracle_of(&self, answer: &[HostArray], inputs: &[HostArray]) -> Option<Box<dyn Oracle>> {
        if self.point().reference != Reference::None {
            return None;
        }
        let oracle = self.expect(self.answers(answer), inputs).ok()?;
        Some(Box::new(oracle))
    }

    fn reference(&self, device: &DeviceInfo) -> Option<(Program, MakeOracle)> {
        let Reference::Kernel(list) = &self.point().reference else { return None };
        let problem = self.clone();
        let oracle: MakeOracle = Box::new(move |outputs| {
            let answers = problem.answers(&outputs);
            // Only outputs that hold indices are compared by means of an input.
            let needs_inputs = problem.outputs().any(|buffer| matches!(buffer.tolerance, Tolerance::Picks(_)));
            let inputs = if needs_inputs { problem.inputs()? } else { vec![] };
            Ok(Box::new(problem.expect(answers, &inputs)?))
        });
        let program = self.kernels.build(self.point(), list, self.seed, device);
        Some((program.unwrap_or_else(Program::refused), oracle))
    }
}

/// Most rounds of a loop that ends whatever the inputs are.
const MAX_REVEALING_ROUNDS: u64 = 1 << 16;

/// Most bytes of a problem that is solved for other inputs, too.
const MAX_REVEALING_BYTES: u64 = 16 << 20;

/// Sets the signs of floats of `size` bytes.
fn set_signs(floats: &mut [u8], size: usize, are_negative: bool) {
    for float in floats.chunks_exact_mut(size) {
        let top = &mut float[size - 1];
        *top = if are_negative { *top | 0x80 } else { *top & 0x7f };
    }
}

/// Returns positive floats in which the last of each row stands for most of a sum: the others are made small.
fn emphasize_last(floats: &HostArray, buffer: &ResolvedBuffer) -> HostArray {
    let row = buffer.shape.last().map_or(1, |extent| *extent as usize).max(1);
    let values: Vec<f64> = (0..buffer.len() as usize).map(|index| floats.get(index)).collect();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let mut bytes = vec![];
    for (index, value) in values.iter().enumerate() {
        let is_last = (index + 1) % row == 0;
        buffer.element.push(if is_last { largest } else { value / SMALLER }, &mut bytes);
    }
    HostArray::of_bytes(buffer.element, &bytes)
}

/// By how much numbers before the last of a row are smaller than usual: those of [`Fill::Varied`] stay normal numbers in f16.
const SMALLER: f64 = 256.0;

/// Purposes of commands, for messages.
const REFERENCE: &str = "reference";
const INPUTS: &str = "inputs";

/// Makes a private folder for a command, with subfolders of these names.
fn make_folders(purpose: &str, names: &[&str]) -> Result<Scratch, Error> {
    let refused = |e: std::io::Error| Error::Failure(format!("cannot make a folder for the {purpose} command: {e}"));
    let scratch = Scratch::new().map_err(refused)?;
    for name in names {
        std::fs::create_dir(scratch.path().join(name)).map_err(refused)?;
    }
    Ok(scratch)
}

/// Runs a command in the shell. In its line, the `names` of subfolders of `scratch` stand in braces, as `{in}` does, and
/// are replaced by their paths, which need no quotes. The error has the last line that the command wrote.
fn run_shell(purpose: &str, command: &ShellCommand, scratch: &Scratch, names: &[&str]) -> Result<(), Error> {
    let path_of = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
    let mut text = command.line.clone();
    for name in names {
        text = text.replace(&format!("{{{name}}}"), &path_of(name));
    }
    let mut program = std::process::Command::new(guarded::SHELL);
    if cfg!(windows) {
        // With /S, cmd.exe removes the outer quotes and keeps the others.
        program.args(["/S", "/C"]).arg(format!("\"{text}\""));
    } else {
        program.arg("-c").arg(text);
    }
    program.current_dir(if command.folder.as_os_str().is_empty() { Path::new(".") } else { &command.folder });
    let line = excerpt(&command.line);
    let ended = guarded::run(&program, scratch, false)
        .map_err(|e| Error::Failure(format!("the {purpose} command `{line}` {e}")))?;
    if ended.left {
        let note = format!("note      the {purpose} command `{line}` left processes running; gpukern ended them\n");
        Messages::default().say(&note);
    }
    let Some(status) = ended.failed else { return Ok(()) };
    let mut output = ended.said;
    let mut hint = String::new();
    for name in names {
        // These paths no longer exist when the message is read.
        output = output.replace(&path_of(name), &format!("{{{name}}}"));
        if *name == "in" {
            let names = list_names(&scratch.path().join(name));
            let names = if names.is_empty() { "no files".into() } else { names.join(", ") };
            hint = format!(" ({{in}} has {names})");
        }
    }
    let reason = excerpt(&last_line(&output));
    let lacks_numpy = reason.contains("No module named 'numpy'");
    let numpy = if lacks_numpy { "; examples/kernels/npy.py reads and writes these files without NumPy" } else { "" };
    Err(Error::Usage(format!("the {purpose} command `{line}` failed ({status}): {reason}{hint}{numpy}")))
}

/// Returns the last line that a command wrote. In a Python traceback, the line of the user's script is added.
fn last_line(output: &str) -> String {
    let mut lines = output.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.next().unwrap_or("it said nothing");
    let is_library = |line: &str| line.contains("-packages") || line.contains("/lib/python");
    match lines.find(|line| line.starts_with("File \"") && !is_library(line)) {
        Some(script) => format!("{last} ({script})"),
        None => last.to_string(),
    }
}

#[cfg(test)]
mod tests;
