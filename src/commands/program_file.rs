//! `inspect --save`: `program.json`, with all that a program of the user's own needs to run a case, and its SPIR-V.

use super::failures::{create_unique, extents_as_axes, find_configuration, folder_name, numbered, reproducing_request};
use super::program_sizes::{self, Saved};
use super::reproducer::Reproducer;
use crate::basis::destination;
use crate::basis::file_name::file_name;
use crate::basis::printable;
use crate::basis::units::rounded;
use crate::case::method::CacheState;
use crate::case::tile::CaseTile;
use crate::commands::cli::InspectArgs;
use crate::device::cache::sha256;
use crate::device::capability::{Requirement, requirement, vulkan_for};
use crate::kernel::buffer::{Binding, BufferId, Descriptor, Role};
use crate::kernel::interface::{Argument, ArgumentKind, Interface, SlotKind};
use crate::kernel::program::{ArgumentValue, Dispatch, Step, TEXEL};
use crate::kernel::shaders::Shader;
use crate::plan::axes;
use crate::tuning::tuned::{Configuration, TuningResult};
use crate::user::options::{CASE, PROGRAM};
use crate::{
    BufferSpec, CATALOGUE, Case, CaseGroup, CaseSpec, DType, DeviceInfo, Error, Feature, Outcome, Plan, Problem,
    Program, Record, Request, Result, Shown, Tuned, UserKernels, counted,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the schema of `program.json`.
const SCHEMA: &str = "gpukern-program/1";

/// All that a program needs to run a case without gpukern. Make the buffers, then run the steps in order, with a barrier
/// between each two.
#[derive(Serialize, JsonSchema)]
pub(super) struct ProgramFile {
    /// Schema name, `gpukern-program/1`.
    schema: &'static str,
    /// Id of the case.
    case: String,
    /// Its size: of a product, M×N×K as `64x512x512`.
    size: String,
    /// `nt` or `tn` where a product's second or first operand is stored transposed; otherwise `null`.
    layout: Option<String>,
    /// Device for which the constants, the size of sub-groups and the work-groups were chosen, with its driver. Those of
    /// another device may differ: save the program there, too.
    pub(super) device: String,
    /// PCI or Khronos id of the device's vendor.
    vendor_id: u32,
    /// The vendor's id of the device.
    device_id: u32,
    /// Where the program comes from.
    provenance: Provenance,
    /// Command that measures a built-in kernel with its tile, in this folder: `tuned.toml` there has the tile, if a search found it.
    command: Option<String>,
    /// Properties that a device must have and be asked for.
    requires: Requires,
    /// Steps in order.
    pub(super) steps: Vec<StepEntry>,
    /// Tile or block width, if it has one.
    tile: Option<CaseTile>,
    /// Dispatches, by number.
    pub(super) dispatches: Vec<DispatchEntry>,
    /// All buffers.
    pub(super) buffers: Vec<BufferEntry>,
}

/// Where a program comes from.
#[derive(Serialize, JsonSchema)]
struct Provenance {
    /// Version of gpukern that exported it.
    gpukern: &'static str,
    /// Why it has this variant and tile: `auto chose texel, the fastest of the results of 2026-11-30`. Also whether sizes, buffers
    /// and grid are guesses, as those of a kernel without a description are.
    notes: Vec<String>,
    /// Time of the variant with this tile in a search by `gpukern tune`; `null` if none had it.
    measured: Option<SearchTime>,
}

/// Time that a search measured.
#[derive(Serialize, JsonSchema)]
struct SearchTime {
    /// Nanoseconds of a run at `size`, known to four digits.
    time_ns: f64,
    /// Measured size: that of the program, or a similar one.
    size: String,
    /// State of the caches before each run.
    cache: CacheState,
    /// Time of the search (RFC 3339, UTC).
    date: String,
    /// Version of gpukern that searched.
    gpukern: String,
}

impl SearchTime {
    /// Returns the time of a result for a case of `group`; `None` if its size is none.
    fn of(result: &TuningResult, group: &CaseGroup) -> Option<Self> {
        let TuningResult { cache, measured_at, date, gpukern, .. } = result;
        let spec = CaseSpec { size: measured_at.parse().ok()?, ..group.spec };
        let operations = (group.algorithm.problem)(&spec).ok()?.work().operations;
        let time_ns = rounded(operations as f64 / result.gflops?);
        let [size, date, gpukern] = [measured_at, date, gpukern].map(Clone::clone);
        Some(Self { time_ns, size, cache: *cache, date, gpukern })
    }
}

/// Properties that a device must have, and be asked for when it is opened: the most of any dispatch.
#[derive(Default, Serialize, JsonSchema)]
struct Requires {
    /// Oldest version of Vulkan that takes the SPIR-V: `1.2`. A feature may be newer, or an extension there.
    vulkan: String,
    /// Version of the SPIR-V.
    spirv: String,
    /// Features to enable, by the names of their members in Vulkan; `VK_...` is an extension without features.
    features: BTreeSet<&'static str>,
    /// Features of which one of each list suffices.
    one_feature_of: BTreeSet<Vec<&'static str>>,
    /// Classes of sub-group operations in compute shaders.
    subgroup_operations: BTreeSet<&'static str>,
    /// Sizes of sub-groups to be required of pipelines, where the device has others too (`subgroupSizeControl`).
    subgroup_sizes: BTreeSet<u32>,
    /// Cooperative matrices, as M×N×K with types.
    cooperative_matrices: BTreeSet<String>,
    /// Extents of work-groups: the largest along each axis.
    work_group_size: [u32; 3],
    /// Invocations of a work-group.
    work_group_invocations: u64,
    /// Work-groups of a dispatch: the most along each axis.
    work_groups: [u64; 3],
    /// Bytes of shared memory of a work-group.
    shared_memory: u64,
    /// Bytes of push constants.
    push_constants: u64,
    /// Elements of the longest texel view (`maxTexelBufferElements`).
    texel_buffer_elements: u64,
    /// Bytes of the largest storage-buffer descriptor (`maxStorageBufferRange`).
    storage_buffer_range: u64,
    /// Bytes of the largest uniform-buffer descriptor (`maxUniformBufferRange`).
    uniform_buffer_range: u64,
    /// Bytes of all buffers together.
    memory: u64,
}

/// Step of a program.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum StepEntry {
    /// A dispatch by number.
    Dispatch { dispatch: usize },
    /// A buffer whose words all get a value.
    Fill { fill: String, word: u32 },
    /// A buffer that is copied to another.
    Copy { copy: String, to: String },
    /// Steps that repeat until the values converge.
    Rounds { rounds: Vec<StepEntry> },
}

/// Buffer to allocate.
#[derive(Serialize, JsonSchema)]
pub(super) struct BufferEntry {
    pub(super) name: String,
    /// `input`, `output`, `in place` or `scratch`.
    role: &'static str,
    dtype: DType,
    /// Number of elements.
    elements: u64,
    /// Bytes to allocate: a multiple of 4, or of 16 if a texel view reads them.
    pub(super) bytes: u64,
    /// Value of all words of a scratch buffer before the first run.
    first_words: Option<u32>,
}

/// Dispatch of a kernel.
#[derive(Serialize, JsonSchema)]
pub(super) struct DispatchEntry {
    /// Name of the kernel.
    pub(super) kernel: String,
    /// File with its SPIR-V.
    pub(super) spirv: String,
    /// SHA-256 of the file, in hexadecimal.
    sha256: String,
    /// Specialization constants of four bytes: id and value.
    pub(super) constants: Vec<(u32, u32)>,
    /// Their names by id.
    pub(super) constant_names: Vec<(u32, String)>,
    pub(super) entry_point: &'static str,
    pub(super) push_constant_names: Vec<PushConstant>,
    /// Capabilities that the SPIR-V declares.
    capabilities: Vec<String>,
    /// Size of sub-groups to require of the pipeline.
    pub(super) subgroup_size: Option<u32>,
    /// Whether the pipeline is to have `REQUIRE_FULL_SUBGROUPS`, too, on a device with `computeFullSubgroups`.
    pub(super) full_subgroups: bool,
    /// Number of work-groups along each axis.
    pub(super) groups: [u64; 3],
    /// Push constants of a built-in kernel, in order.
    arguments: Vec<ArgumentEntry>,
    pub(super) bindings: Bindings,
}

/// Member of the push constants.
#[derive(Serialize, JsonSchema)]
pub(super) struct PushConstant {
    pub(super) byte: u32,
    pub(super) bytes: u32,
    /// Empty if the SPIR-V has none.
    pub(super) name: String,
    #[serde(skip)]
    pub(super) kind: ArgumentKind,
}

/// Argument of a built-in kernel.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum ArgumentEntry {
    /// The address of a buffer, or a texel view of it.
    Buffer { buffer: String },
    /// An integer.
    U32 { u32: u32 },
    /// A float.
    F32 { f32: f32 },
}

/// Resources of a dispatch.
#[derive(Serialize, JsonSchema)]
pub(super) struct Bindings {
    descriptors: Vec<DescriptorEntry>,
    /// Bytes of the push constants, with zeros where addresses belong.
    pub(super) push_constants: Vec<u8>,
    addresses: Vec<AddressEntry>,
    /// Specialization constants of other sizes than four bytes: id and bytes.
    pub(super) sized_constants: Vec<(u32, Vec<u8>)>,
}

/// Descriptor of a buffer.
#[derive(Serialize, JsonSchema)]
struct DescriptorEntry {
    set: u32,
    binding: u32,
    /// Element of an array of descriptors.
    element: u32,
    /// `storage`, `uniform`, `texel` or the kind of an image.
    kind: &'static str,
    buffer: String,
    /// First byte.
    offset: u64,
    bytes: Option<u64>,
    /// Format of a texel view.
    format: Option<&'static str>,
}

/// 64-bit address of a buffer in the push constants.
#[derive(Serialize, JsonSchema)]
struct AddressEntry {
    byte: u32,
    buffer: String,
    /// Bytes of the buffer before the address.
    skipped: u64,
}

/// Writes what another program needs to run each inspected case, to a folder of its own in `folder`. Returns a note that
/// says how many, and which folders had their name already.
pub(super) fn save_programs(
    folder: &Path,
    record: &Record,
    plan: &Plan,
    tuned: &Tuned,
    args: &InspectArgs,
    kernels: &[UserKernels],
) -> Result<String> {
    let mut saved = vec![];
    let mut renamed = String::new();
    let mut predicted = 0;
    for case in record.cases.iter().filter(|case| matches!(case.outcome, Outcome::Inspected)) {
        let Some(device) = record.device(case.device) else { continue };
        let Some((group, chosen)) = find_configuration(case, device, plan, tuned) else { continue };
        let mut write = || -> io::Result<Saved<'_>> {
            let name = folder_name(case, record);
            let usual = folder.join(&name);
            let new = create_unique(folder, &name)?;
            let command = command(&new, case, device, (group, tuned), args).map_err(io::Error::other)?;
            let result = tuned.measured(device, group, &chosen);
            let provenance = Provenance {
                gpukern: env!("CARGO_PKG_VERSION"),
                notes: case.notes.clone(),
                measured: result.and_then(|result| SearchTime::of(result, group)),
            };
            let document = ProgramFile::write(&new, case, device, (group, &chosen), provenance, command)?;
            write_case(&new, &name, case, device, (group, &chosen), &document);
            let text = serde_json::to_string_pretty(&document)? + "\n";
            std::fs::write(new.join(PROGRAM), printable::json(text))?;
            let folder = merged(new, numbered(folder, &name, ""))?;
            renamed += &of_earlier_run(&usual, &folder);
            Ok(Saved { case, group, is_auto: chosen.automatic.is_some(), folder, document })
        };
        saved.push(write().map_err(|e| {
            let reason = destination::explained(e);
            Error::Failure(format!("cannot save the program of {} in '{}': {reason}", case.id, folder.shown()))
        })?);
        let results = tuned.results(device, &group.algorithm, &group.spec);
        let is_timed = results.iter().any(|own| own.variant == chosen.variant.name && own.gflops.is_some());
        predicted += usize::from(chosen.automatic.is_some() && !is_timed);
    }
    let sizes = program_sizes::write(folder, &saved, record, kernels)?;
    let mut text = format!(
        "saved     {} with SPIR-V in '{}', not verified here\n",
        counted(saved.len(), "program"),
        folder.shown()
    );
    text += &(sizes + &renamed);
    // Nobody has run them on this device.
    if predicted > 0 {
        let programs = counted(predicted, "program");
        let _ = writeln!(text, "note      auto chose {programs} by a model, without timing; `gpukern tune` times them");
    }
    Ok(text)
}

/// Removes a `new` folder if an earlier one has the same program, wherever it comes from: a search that finds the same tile again
/// takes another time, which that one then has. Returns its folder. `names` are those that the new one could have, in order.
fn merged(new: PathBuf, names: impl Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
    let has_same = |earlier: &PathBuf| {
        let is_same = |file: io::Result<std::fs::DirEntry>| {
            let file = file.ok()?;
            let [new, old] = [file.path(), earlier.join(file.file_name())].map(std::fs::read);
            Some(file.file_name() == TUNED && old.is_ok() || is_same_program(&new.ok()?, &old.ok()?))
        };
        let count = |folder: &Path| std::fs::read_dir(folder).map_or(0, Iterator::count);
        std::fs::read_dir(&new).is_ok_and(|mut files| files.all(|file| is_same(file) == Some(true)))
            && count(&new) == count(earlier)
    };
    match names.take_while(|name| *name != new).find(has_same) {
        Some(earlier) => {
            for file in [PROGRAM, TUNED].into_iter().filter(|file| new.join(file).exists()) {
                std::fs::rename(new.join(file), earlier.join(file))?;
            }
            std::fs::remove_dir_all(new).map(|()| earlier)
        }
        None => Ok(new),
    }
}

/// Whether two files are the same but for where the programs in them come from.
pub(super) fn is_same_program(a: &[u8], b: &[u8]) -> bool {
    fn without_provenance(mut value: serde_json::Value) -> serde_json::Value {
        match &mut value {
            serde_json::Value::Object(fields) => {
                fields.remove("provenance");
                fields.iter_mut().for_each(|(_, field)| *field = without_provenance(field.take()));
            }
            serde_json::Value::Array(values) => values.iter_mut().for_each(|own| *own = without_provenance(own.take())),
            _ => {}
        }
        value
    }
    let [first, second] = [a, b].map(|file| serde_json::from_slice(file).ok().map(without_provenance));
    a == b || first.is_some() && first == second
}

/// Says which name a file or folder of this run has if an earlier one has its `usual` name; empty if none has.
pub(super) fn of_earlier_run(usual: &Path, own: &Path) -> String {
    let [shown, instead] = [usual, own].map(Shown::shown);
    let note = format!("note      '{shown}' exists from an earlier run; this run is in '{instead}'\n");
    if own == usual { String::new() } else { note }
}

/// File of a program's folder with the tile that a search found.
const TUNED: &str = "tuned.toml";

/// Returns the command that measures an exported case in its folder, wherever that lies then; `None` for a user's kernel. Writes
/// the tile that a search found to the folder: the file of the search may be elsewhere, or have another tile by then.
fn command(
    folder: &Path,
    case: &Case,
    device: &DeviceInfo,
    (group, tuned): (&CaseGroup, &Tuned),
    args: &InspectArgs,
) -> Result<Option<String>> {
    if CATALOGUE.find(&case.algorithm).is_err() {
        return Ok(None);
    }
    let mut request = reproducing_request(&Request::default(), case, device);
    request.selection.sampling.cache.clone_from(&args.cache);
    match &case.tile {
        Some(CaseTile::Tuned { .. } | CaseTile::Inspected { .. }) => {
            let found = tuned.result(device, &group.algorithm, &case.variant, &group.spec);
            Tuned::keep(&folder.join(TUNED), found.map(|(_, result)| result.clone()).as_slice())?;
            request.tuned = Some(TUNED.into());
        }
        Some(CaseTile::BuiltIn { .. } | CaseTile::Refused { .. }) => request.no_tuned = true,
        None => {}
    }
    Ok(Some(request.command()))
}

/// Writes the description with which `run` repeats an exported case; none for a user's kernel, and for what no description
/// has: fills between kernels, special inputs.
fn write_case(
    folder: &Path,
    name: &str,
    case: &Case,
    device: &DeviceInfo,
    (group, chosen): (&CaseGroup, &Configuration<'_>),
    document: &ProgramFile,
) {
    if CATALOGUE.find(&case.algorithm).is_err() {
        return;
    }
    let Ok(problem) = (group.algorithm.problem)(&group.spec) else { return };
    let program = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device);
    let Ok(program) = program else { return };
    let sources: Vec<_> = document.dispatches.iter().map(|dispatch| dispatch.spirv.clone()).collect();
    let reproducer = Reproducer {
        folder,
        name: name.to_string(),
        head: format!("# {}, as `gpukern inspect --save` exported it\n", printable::printable(&case.id)),
        group,
        device,
        problem: problem.as_ref(),
        program: &program,
        sources: &sources,
        inputs: None,
        point: None,
        needs_reference: false,
        axes: extents_as_axes(&group.spec.size.extents()),
    };
    if reproducer.write().is_err() {
        // A description that does not repeat the case must not be taken for one that does; there may be none.
        let _ = std::fs::remove_file(folder.join(CASE));
    }
}

impl ProgramFile {
    /// Writes the SPIR-V of a case to `folder`. Returns the document that names it.
    fn write(
        folder: &Path,
        case: &Case,
        device: &DeviceInfo,
        (group, chosen): (&CaseGroup, &Configuration<'_>),
        provenance: Provenance,
        command: Option<String>,
    ) -> io::Result<Self> {
        let problem = (group.algorithm.problem)(&group.spec).map_err(io::Error::other)?;
        let program = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device);
        let program = program.map_err(io::Error::other)?;
        let specs = [problem.buffers(), program.scratch.clone()].concat();
        let of_problem = specs.len() - program.scratch.len();
        // The counters of built-in kernels start with all bits set, and each run leaves them so.
        let first = |at: usize| (at >= of_problem && !program.is_users()).then_some(u32::MAX);
        let buffers = specs.iter().enumerate().map(|(at, spec)| BufferEntry::of(spec, at, first(at), &program));
        let buffers: Vec<_> = buffers.collect();
        let dispatches = write_dispatches(folder, problem.as_ref(), &program, None)?;
        Ok(Self {
            schema: SCHEMA,
            case: case.id.clone(),
            size: case.size.to_string(),
            layout: (axes::LAYOUT.text)(&group.spec.options),
            device: [device.name.clone(), device.driver_beside_name()].join(" ").trim_end().into(),
            vendor_id: device.vendor_id,
            device_id: device.device_id,
            provenance,
            command,
            requires: Requires::of(&program, &dispatches, &buffers),
            steps: steps(&program, &specs),
            tile: case.tile.clone(),
            dispatches,
            buffers,
        })
    }
}

impl BufferEntry {
    fn of(spec: &BufferSpec, at: usize, first_words: Option<u32>, program: &Program) -> Self {
        let role = match spec.role {
            Role::Input => "input",
            Role::Output => "output",
            Role::InPlace => "in place",
            Role::Scratch => "scratch",
        };
        let mut descriptors = program.dispatches().flat_map(|dispatch| &dispatch.descriptors);
        let is_viewed = descriptors.any(|own| own.at.kind == SlotKind::Texel && own.at.buffer.0 == at);
        let bytes = spec.bytes().0.next_multiple_of(if is_viewed { TEXEL } else { 4 });
        Self { name: spec.name.clone().into(), role, dtype: spec.dtype, elements: spec.len, bytes, first_words }
    }
}

impl Requires {
    /// Collects what the dispatches of a program require, by reflection and by its sizes.
    fn of(program: &Program, entries: &[DispatchEntry], buffers: &[BufferEntry]) -> Self {
        let mut all = Self { memory: buffers.iter().map(|buffer| buffer.bytes).sum(), ..Self::default() };
        let mut newest = [1, 0];
        for (dispatch, entry) in program.dispatches().zip(entries) {
            newest = newest.max(dispatch.shader.interface.version);
            all.add_features(&dispatch.shader);
            let size = dispatch.shader.interface.local_size.map(|word| word.value(&dispatch.constants));
            let most = |a: [u64; 3], b: [u64; 3]| [0, 1, 2].map(|axis| a[axis].max(b[axis]));
            all.work_group_size = [0, 1, 2].map(|axis| all.work_group_size[axis].max(size[axis]));
            let invocations = size.into_iter().map(u64::from).product();
            all.work_group_invocations = all.work_group_invocations.max(invocations);
            all.work_groups = most(all.work_groups, dispatch.groups);
            all.shared_memory = all.shared_memory.max(dispatch.shader.shared_bytes(&dispatch.constants));
            all.push_constants = all.push_constants.max(dispatch.push.len() as u64);
            all.subgroup_sizes.extend(dispatch.subgroup_size);
            // Only with it may a pipeline state the size.
            all.features.extend(dispatch.subgroup_size.map(|_| "subgroupSizeControl"));
            all.cooperative_matrices.extend(dispatch.matrix.map(|shape| shape.to_string()));
            for (bound, entry) in dispatch.descriptors.iter().zip(&entry.bindings.descriptors) {
                all.add_descriptor(bound.at, entry.bytes, buffers);
            }
        }
        let Self { features, one_feature_of, .. } = &mut all;
        one_feature_of.retain(|any| !any.iter().any(|name| features.contains(name)));
        let [major, minor] = newest;
        all.spirv = format!("{major}.{minor}");
        // A device that runs the case knows the version.
        let [major, minor] = vulkan_for(newest).unwrap_or([1, 0]);
        all.vulkan = format!("{major}.{minor}");
        all
    }

    /// Adds what a kernel's capabilities and instructions require.
    fn add_features(&mut self, shader: &Shader) {
        let Interface { capabilities, features, .. } = &shader.interface;
        let is_needed = |feature: &&Feature| features.iter().any(|name| *name == feature.name());
        self.features.extend(Feature::ALL.iter().filter(is_needed).map(|feature| feature.name()));
        // No capability tells of tight layouts; the built-in kernels have them.
        self.features.extend(shader.built_in.then_some(Feature::ScalarBlockLayout.name()));
        for capability in capabilities.iter() {
            match requirement(capability) {
                Some(Requirement::Features(any)) => match &any[..] {
                    [only] => drop(self.features.insert(only.name())),
                    _ => drop(self.one_feature_of.insert(any.iter().map(|feature| feature.name()).collect())),
                },
                Some(Requirement::Subgroup(operation)) => drop(self.subgroup_operations.insert(operation)),
                _ => {}
            }
        }
    }

    /// Adds what a descriptor of these bytes requires; without a number it has the whole buffer.
    fn add_descriptor(&mut self, at: Binding, bytes: Option<u64>, buffers: &[BufferEntry]) {
        let bytes = bytes.unwrap_or(buffers[at.buffer.0].bytes.saturating_sub(at.offset));
        let (most, amount) = match at.kind {
            SlotKind::Texel => (&mut self.texel_buffer_elements, bytes.div_ceil(TEXEL)),
            SlotKind::Storage => (&mut self.storage_buffer_range, bytes),
            SlotKind::Uniform => (&mut self.uniform_buffer_range, bytes),
            _ => return,
        };
        *most = (*most).max(amount);
    }
}

/// Lists the steps of a program in order, those of a round behind the others: dispatches by number, fills and copies.
fn steps(program: &Program, specs: &[BufferSpec]) -> Vec<StepEntry> {
    let name = |buffer: &BufferId| specs.get(buffer.0).map_or_else(String::new, |spec| spec.name.clone().into());
    let mut dispatches = 0..;
    let mut step = |step: &Step| match step {
        Step::Dispatch(_) => StepEntry::Dispatch { dispatch: dispatches.next().unwrap_or_default() },
        Step::Fill { buffer, word } => StepEntry::Fill { fill: name(buffer), word: *word },
        Step::Copy { from, to } => StepEntry::Copy { copy: name(from), to: name(to) },
    };
    let mut steps: Vec<_> = program.steps.iter().map(&mut step).collect();
    if let Some(rounds) = &program.rounds {
        steps.push(StepEntry::Rounds { rounds: rounds.body.iter().map(step).collect() });
    }
    steps
}

/// Writes SPIR-V to a file that is called as its shader, unless it is there already. Returns the file's name.
fn write_spirv(folder: &Path, shader: &Shader, spirv: &[u8]) -> io::Result<String> {
    let label = shader.label();
    // `matmul/tiled.f32`, or `softmax/softmax.comp#0+…`, which ends with a hash.
    let users = label.rsplit('/').next().and_then(|file| file.split('.').next()).unwrap_or_default();
    let name = if shader.built_in { label.replace('/', "-") } else { users.into() };
    for number in 1.. {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let file = format!("{}{number}.spv", file_name(&name));
        let path = folder.join(&file);
        match std::fs::read(&path) {
            Ok(known) if known == spirv => return Ok(file),
            Ok(_) => {}
            Err(_) => return std::fs::write(path, spirv).map(|()| file),
        }
    }
    unreachable!("there is a number that no file has")
}

/// Writes the SPIR-V of each dispatch to a file. Returns the dispatches with their constants and grids.
pub(super) fn write_dispatches(
    folder: &Path,
    problem: &dyn Problem,
    program: &Program,
    substitute: Option<&(String, Vec<u8>)>,
) -> io::Result<Vec<DispatchEntry>> {
    let specs = problem.buffers();
    let all: Vec<&BufferSpec> = specs.iter().chain(&program.scratch).collect();
    let name = |buffer: BufferId| all[buffer.0].name.to_string();
    let mut dispatches = vec![];
    for dispatch in program.dispatches() {
        let label = dispatch.shader.label();
        let spirv = match substitute {
            Some((replaced, spirv)) if *replaced == label => &spirv[..],
            _ => &dispatch.shader.spirv[..],
        };
        let file = write_spirv(folder, &dispatch.shader, spirv)?;
        let words = dispatch.constants.iter().filter(|constant| constant.bytes == 4);
        let mut arguments = vec![];
        if dispatch.shader.built_in {
            // Push constants in order; a buffer is its address, or a texel view.
            arguments.extend(dispatch.values().map(|value| match value {
                ArgumentValue::Buffer(buffer) => ArgumentEntry::Buffer { buffer: name(buffer) },
                ArgumentValue::U32(value) => ArgumentEntry::U32 { u32: value },
                ArgumentValue::F32(value) => ArgumentEntry::F32 { f32: value },
            }));
        }
        let interface = &dispatch.shader.interface;
        let members = interface.arguments.iter();
        let member = |member: &Argument| PushConstant {
            byte: member.offset,
            bytes: member.kind.bytes(),
            name: member.name.to_string(),
            kind: member.kind,
        };
        let names = interface.constants.iter().map(|constant| (constant.id, constant.name.to_string()));
        dispatches.push(DispatchEntry {
            kernel: label,
            spirv: file,
            sha256: sha256(spirv),
            constants: words.map(|constant| (constant.id, constant.bits as u32)).collect(),
            constant_names: names.collect(),
            entry_point: "main",
            push_constant_names: members.map(member).collect(),
            capabilities: interface.capabilities.iter().map(ToString::to_string).collect(),
            subgroup_size: dispatch.subgroup_size,
            full_subgroups: dispatch.subgroup_size.is_some_and(|size| dispatch.may_fill(size)),
            groups: dispatch.groups,
            arguments,
            bindings: Bindings::of(dispatch, &all),
        });
    }
    Ok(dispatches)
}

impl Bindings {
    /// Returns the descriptors, push constants, addresses and wide constants of a dispatch.
    fn of(dispatch: &Dispatch, buffers: &[&BufferSpec]) -> Self {
        let name = |buffer: BufferId| buffers[buffer.0].name.to_string();
        let descriptor = |Descriptor { at, bytes, .. }: &Descriptor| {
            let Binding { set, binding, element, kind, buffer, offset, range } = *at;
            // Without what gpukern binds behind the data, to find writes out of bounds.
            let bytes = bytes.map(|bytes| bytes.min(range.unwrap_or(buffers[buffer.0].bytes().0 - offset)));
            // A view ends at a whole texel.
            let view = buffers[buffer.0].bytes().0.saturating_sub(offset).next_multiple_of(TEXEL);
            let bytes = if kind == SlotKind::Texel { Some(view) } else { bytes };
            let format = (kind == SlotKind::Texel).then_some("R32G32B32A32_SFLOAT");
            DescriptorEntry { set, binding, element, kind: kind.name(), buffer: name(buffer), offset, bytes, format }
        };
        let addresses = dispatch.addresses.iter();
        let sized = dispatch.constants.iter().filter(|constant| constant.bytes != 4);
        Self {
            descriptors: dispatch.descriptors.iter().map(descriptor).collect(),
            push_constants: dispatch.push.clone(),
            addresses: addresses
                .map(|own| AddressEntry { byte: own.offset, buffer: name(own.buffer), skipped: own.skipped })
                .collect(),
            sized_constants: sized.map(|constant| (constant.id, constant.data())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_program_schema_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<ProgramFile>();
        crate::basis::fixture::assert_committed("docs/program.schema.json", &schema);
    }
}
