//! Makes an [`Algorithm`] from users' kernels, with a problem for each point of their axes.

use super::access::{Root, accesses};
use super::array;
use super::builtin::{AUTO, Counterpart, dtype};
use super::loaded;
use super::member_map::MemberMap;
use super::oracle::{Expected, ExpectedOutput, NoReference, SavingOracle};
use super::resolved::{
    Fill, KernelConfiguration, Module, PassList, Reference, ResolvedBuffer, ResolvedPoint, ResolvedRun, ShellCommand,
    Tolerance,
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
use crate::case::Shortcut;
use crate::case::input::Input;
use crate::device::cache::fingerprint;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{Binding, BufferSpec, Descriptor, RED_ZONE, Role, SpecValue, Start};
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
    pub run: ResolvedRun,
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

    fn point(&self, case: &CaseSpec) -> Result<&ResolvedPoint, String> {
        self.place(case).map(|at| &self.user.run.points[at])
    }

    /// Builds the program of a configuration.
    fn kernel(&self, configuration: usize, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let point = self.point(case)?;
        let list = point.pass_lists[configuration].as_ref().map_err(String::clone)?;
        program(&self.shaders, point, list, case.seed, device)
    }

    /// Builds the program of a built-in variant.
    fn builtin(&self, name: &str, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let point = self.point(case)?;
        let Reference::Builtin(builtin) = &point.reference else {
            return Err("has no built-in reference to run beside".into());
        };
        Ok(Counterpart::new(self.catalogue, builtin, point)?.program(name, device))
    }
}

/// Makes a variant of a user's algorithm.
fn variant(
    name: String,
    shortcuts: &'static [Shortcut],
    program: impl Fn(&CaseSpec, &DeviceInfo) -> Result<Program, String> + Send + Sync + 'static,
) -> Variant {
    Variant {
        name: name.into(),
        aliases: &[],
        summary: "a user's kernel",
        source: "the user",
        measures: Measures::Shortcuts(shortcuts),
        kernels: Kernels::NONE,
        program: Handle::Shared(Arc::new(move |_: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo| {
            program(case, device).unwrap_or_else(Program::refused)
        })),
    }
}

/// Formats the name of a configuration: `mul_mm`, `mul_mm[BM=64]`.
fn label(KernelConfiguration { kernel, choice }: &KernelConfiguration) -> String {
    let chosen: Vec<_> = choice.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if chosen.is_empty() { kernel.clone() } else { format!("{kernel}[{}]", chosen.join(",")) }
}

/// Returns the name of the built-in algorithm that is the reference, if there is one.
fn reference_algorithm(kernels: &UserKernels) -> Option<&str> {
    kernels.run.points.iter().find_map(|point| match &point.reference {
        Reference::Builtin(builtin) => Some(builtin.algorithm.as_str()),
        _ => None,
    })
}

/// Formats the name of a built-in variant: `matmul:tiled`.
fn label_of_builtin(kernels: &UserKernels, variant: &str) -> String {
    format!("{}:{variant}", reference_algorithm(kernels).unwrap_or("builtin"))
}

impl UserKernels {
    /// Makes the algorithm. Refuses unreadable kernels, and a built-in algorithm that does not fit the buffers.
    pub fn algorithm(mut self, catalogue: &'static Catalogue) -> Result<Handle<Algorithm>, String> {
        for point in &self.run.points {
            if let Reference::Builtin(builtin) = &point.reference {
                let counterpart = Counterpart::new(catalogue, builtin, point)?;
                for name in self.against.iter().filter(|name| *name != AUTO) {
                    catalogue.variant(counterpart.algorithm, name)?;
                }
            }
        }
        let kernel = |(index, module): (_, &Module)| shader(module, format!("{}/{}#{index}", self.name, module.name));
        let shaders = self.run.modules.iter().enumerate().map(kernel).collect::<Result<Vec<_>, _>>()?;
        // Records of other kernels with the same names must not be mistaken for records of these.
        let fingerprint = fingerprint(&[&serde_json::to_vec(&self).unwrap_or_default()]);
        self.run.points.iter_mut().for_each(|point| set_layouts(point, &shaders));
        let loaded = Arc::new(LoadedKernels { catalogue, shaders, sizes: self.run.sizes(), user: self });
        let user = &loaded.user;
        let kernels = user.run.configurations.iter().map(label).enumerate().map(|(index, label)| {
            let loaded = Arc::clone(&loaded);
            variant(label, &[], move |case, device| loaded.kernel(index, case, device))
        });
        let against = user.against.iter().cloned().map(|name| {
            let loaded = Arc::clone(&loaded);
            let known = reference_algorithm(user).and_then(|of| catalogue.known(of)?.variant(&name).ok());
            variant(label_of_builtin(user, &name), known.map_or(&[], Variant::shortcuts), move |case, device| {
                loaded.builtin(&name, case, device)
            })
        });
        Ok(Handle::Shared(Arc::new(Algorithm {
            name: user.name.clone().into(),
            fingerprint: Some(fingerprint),
            summary: "users' kernels",
            work: "as the description states it",
            default_size: Sweeps::same("1"),
            verify_size: Sweeps::same("1"),
            iterative: false,
            inputs: &[Input::Uniform],
            layouts: &[Layout::Nn],
            variants: kernels.chain(against).collect(),
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

    /// Refuses variants to run beside the kernels without a built-in reference.
    pub fn check(&self) -> Result<(), String> {
        let builtin = |point: &ResolvedPoint| matches!(point.reference, Reference::Builtin(_));
        if self.against.is_empty() || self.run.points.iter().all(builtin) {
            return Ok(());
        }
        Err(format!(
            "--against {} needs a built-in algorithm that solves the same problem; add [reference] with builtin = \"matmul\", \
             size and roles",
            self.against.join(",")
        ))
    }

    /// Lists the variants that compete at a point, by index: the first possible configuration of each kernel, or `all`;
    /// then the built-in variants.
    pub fn choices(&self, point: usize, all: bool) -> impl Iterator<Item = usize> {
        let ResolvedRun { configurations, points, .. } = &self.run;
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
        self.run.configurations.first().map(label)
    }

    /// Describes the configurations that run without `--tune`, or `None` if each kernel has only one: `PER = 1, the
    /// first of 4 choices`.
    pub fn first_choices(&self) -> Option<String> {
        let ResolvedRun { configurations, points, .. } = &self.run;
        let all = distinct(configurations.iter().map(|configuration| configuration.kernel.as_str()))
            .into_iter()
            .filter_map(|kernel| {
                let several = configurations.iter().filter(|configuration| configuration.kernel == kernel).count();
                let places = (0..points.len()).flat_map(|point| self.choices(point, false));
                let places = places
                    .filter(|at| configurations.get(*at).is_some_and(|configuration| configuration.kernel == kernel));
                let chosen = distinct(places.map(|at| {
                    let named = configurations[at].choice.iter().map(|(name, value)| format!("{name} = {value}"));
                    named.collect::<Vec<_>>().join(", ")
                }));
                (several > 1).then(|| format!("{}, the first of {several} choices", chosen.join(" or ")))
            });
        let all: Vec<_> = distinct(all);
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Whether more than one kernel competes.
    pub fn has_several_kernels(&self) -> bool {
        let all = &self.run.configurations;
        all.iter().any(|configuration| configuration.kernel != all[0].kernel)
    }

    /// Returns the choice of specialization constants in a variant's name.
    pub fn choice(&self, variant: &str) -> Option<&[(String, String)]> {
        let found = self.run.configurations.iter().find(|configuration| label(configuration) == variant);
        found.map(|configuration| &configuration.choice[..]).filter(|choice| !choice.is_empty())
    }

    /// Returns the reason why there is nothing to run.
    pub fn why_nothing_runs(&self) -> String {
        let mut lists = self.run.points.iter().flat_map(|point| &point.pass_lists);
        let reason = lists.find_map(|list| list.as_ref().err());
        format!("nothing to run: {}", reason.map_or("there is no kernel", String::as_str))
    }

    /// Returns the element type of the first output, which cases are labeled with.
    pub fn dtype(&self) -> DType {
        let point = self.run.points.first();
        let outputs = point.into_iter().flat_map(|point| &point.buffers);
        let of = |role| move |buffer: &&ResolvedBuffer| buffer.role == role;
        let first = |role| outputs.clone().filter(of(role)).find_map(dtype);
        first(Role::Output).or_else(|| first(Role::InPlace)).unwrap_or(DType::F32)
    }
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
    for (place, buffer) in point.buffers.iter_mut().enumerate() {
        let mut members = MemberMap::default();
        let lists = point.pass_lists.iter().flatten();
        let reached = |fill: &Option<Fill>| match fill {
            Some(Fill::Block { addresses, .. }) => addresses.iter().any(|address| address.buffer.0 == place),
            _ => false,
        };
        for pass in lists.clone().flat_map(|list| &list.passes) {
            for Descriptor { at, .. } in pass.descriptors.iter().filter(|descriptor| descriptor.at.buffer.0 == place) {
                let same = |slot: &&Slot| (slot.set, slot.binding, slot.element) == (at.set, at.binding, at.element);
                match shaders[pass.shader].interface.slots.iter().find(same) {
                    Some(slot) => slot.blocks.iter().for_each(|block| members.add(block, at.offset)),
                    None => members.open(),
                }
            }
            if pass.addresses.iter().any(|address| address.buffer.0 == place) {
                members.open();
            }
        }
        if lists.flat_map(|list| &list.scratch).any(|scratch| reached(&scratch.fill)) {
            members.open();
        }
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
    let dispatches: Vec<_> =
        list.passes.iter().map(|pass| dispatch(&shaders[pass.shader], pass, &buffers, device)).collect();
    let unguarded = distinct(dispatches.iter().flat_map(|dispatch| unguarded(dispatch, &buffers)));
    let steps = dispatches.into_iter().map(Step::Dispatch).collect();
    let placed = || (point.buffers.len()..).zip(&list.scratch);
    let starts =
        placed().filter_map(|(place, buffer)| start(place, buffer, seed).transpose()).collect::<Result<_, _>>()?;
    let scratch = list.scratch.iter().map(spec).collect();
    let mut program = Program { steps, scratch, starts, unguarded, ..Program::default() };
    // Buffers that kernels change are refilled before each run.
    let filled: Vec<_> = placed().filter(|(_, buffer)| buffer.fill.is_some()).map(|(place, _)| place).collect();
    for place in filled {
        let role = if program.may_write(BufferId(place)) { Role::InPlace } else { Role::Input };
        program.scratch[place - point.buffers.len()].role = role;
    }
    Ok(program)
}

/// Returns the contents of a scratch buffer before each run, if it has a fill.
fn start(place: usize, buffer: &ResolvedBuffer, seed: u64) -> Result<Option<Start>, String> {
    let addresses = match &buffer.fill {
        None => return Ok(None),
        Some(Fill::Block { addresses, .. }) => addresses.clone(),
        Some(_) => vec![],
    };
    let bytes = if buffer.fill == Some(Fill::Zero) && buffer.bytes().is_multiple_of(4) {
        vec![0; 4]
    } else {
        let contents = buffer.contents(seed, place as u64, Path::new("."));
        contents.map_err(|reason| format!("cannot fill {}: {reason}", buffer.name))?
    };
    Ok(Some(Start { buffer: BufferId(place), bytes: bytes.into(), addresses }))
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
    let blocks = pass.descriptors.iter().filter_map(|declared| match &buffers[declared.at.buffer.0].fill {
        Some(Fill::Block { addresses, .. }) => Some(addresses.iter().map(|address| address.buffer)),
        _ => None,
    });
    Dispatch {
        constants,
        groups: pass.groups,
        indirect: pass.indirect,
        subgroup_size: pass.subgroup_size,
        push: pass.push.clone(),
        addresses: pass.addresses.clone(),
        descriptors: bound(!asks),
        reached: blocks.flatten().collect(),
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

/// Lists the buffers of a dispatch whose red zone the kernel cannot reach. An explicit `range` excludes it on purpose.
fn unguarded(dispatch: &Dispatch, buffers: &[&ResolvedBuffer]) -> Vec<String> {
    let bound = dispatch.guarded.as_ref().map_or(&dispatch.descriptors, |(_, descriptors)| descriptors);
    let exact = |descriptor: &&Descriptor| {
        descriptor.at.kind == SlotKind::Storage
            && descriptor.at.range.is_none()
            && descriptor.bytes == Some(visible(&descriptor.at, buffers))
    };
    bound.iter().filter(exact).map(|descriptor| buffers[descriptor.at.buffer.0].name.clone()).collect()
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
        &self.loaded.user.run.points[self.at]
    }

    /// Iterates over the buffers that the host fills, with their indices among all.
    fn filled(&self) -> impl Iterator<Item = (usize, &ResolvedBuffer)> {
        self.point().buffers.iter().enumerate().filter(|(_, buffer)| buffer.role.is_input())
    }

    /// Iterates over the buffers that the host checks, with their indices among all.
    fn outputs(&self) -> impl Iterator<Item = (usize, &ResolvedBuffer)> {
        self.point().buffers.iter().enumerate().filter(|(_, buffer)| buffer.role.is_output())
    }

    /// Returns the inputs that outputs hold indices of, by index among the buffers.
    fn keys(&self, inputs: &[HostArray]) -> BTreeMap<usize, (ResolvedBuffer, Vec<u8>)> {
        let picked = self.outputs().filter_map(|(_, output)| match output.tolerance {
            Tolerance::Picks(place) => Some(place),
            _ => None,
        });
        let input = |place: usize| {
            let mut all = self.filled().zip(inputs);
            all.find(|((index, _), _)| *index == place)
                .map(|((_, buffer), input)| (place, (buffer.clone(), input.as_bytes().to_vec())))
        };
        picked.filter_map(input).collect()
    }

    /// Makes the oracle without a reference: it still checks random numbers.
    fn without_reference(&self) -> Result<Box<dyn Oracle>, Error> {
        let is_random = |buffer: &ResolvedBuffer| matches!(buffer.tolerance, Tolerance::Moments { .. });
        let (random, others): (Vec<_>, Vec<_>) =
            self.outputs().map(|(_, buffer)| buffer.clone()).enumerate().partition(|(_, buffer)| is_random(buffer));
        if random.is_empty() {
            return Ok(Box::new(NoReference { outputs: others.into_iter().map(|(_, buffer)| buffer).collect() }));
        }
        let answers =
            random.into_iter().map(|(index, buffer)| ExpectedOutput { index, buffer, answer: vec![] }).collect();
        let unknown = others.into_iter().map(|(_, buffer)| buffer.name).collect();
        Ok(Box::new(Expected::new(answers).map_err(Error::Usage)?.with_unknown(unknown)))
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
        name_files(REFERENCE, &given, self.filled().chain(self.outputs()))?;
        run_shell(REFERENCE, command, &scratch, &[("in", &given), ("out", &answered)])?;
        let there = |buffer: &ResolvedBuffer| {
            ["npy", "bin"].iter().any(|kind| answered.join(format!("{}.{kind}", file_name(&buffer.name))).is_file())
        };
        // Random numbers have no reference.
        let is_open =
            |buffer: &&ResolvedBuffer| !there(buffer) && !matches!(buffer.tolerance, Tolerance::Moments { .. });
        let without: Vec<&ResolvedBuffer> = self.outputs().map(|(_, buffer)| buffer).filter(is_open).collect();
        let answers = self.outputs().enumerate().filter(|(_, (_, buffer))| there(buffer));
        let answers = answers.map(|(index, (_, buffer))| {
            found(buffer, Fill::Made, &answered).map(|answer| ExpectedOutput { index, buffer: buffer.clone(), answer })
        });
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        if answers.is_empty() {
            let names: Vec<_> = self.outputs().map(|(_, buffer)| file_name(&buffer.name) + ".npy").collect();
            let wrote = match names_in(&answered).as_slice() {
                [] => "nothing".to_string(),
                others => others.join(", "),
            };
            return Err(Error::Usage(format!(
                "the reference command `{}` wrote {wrote} to {{out}}; make it write {}",
                excerpt(&command.line),
                names.join(" or ")
            )));
        }
        if let Some(missing) = without.iter().find(|buffer| buffer.checked) {
            return Err(Error::Usage(format!(
                "the reference command `{}` wrote {2} to {{out}}; make it write {1}.npy too, which has a check",
                excerpt(&command.line),
                file_name(&missing.name),
                names_in(&answered).join(", ")
            )));
        }
        let given: Vec<String> = self.outputs().map(|(_, buffer)| file_name(&buffer.name)).collect();
        let is_other = |name: &String| {
            let stem = name.strip_suffix(".npy").or(name.strip_suffix(".bin"));
            stem.is_some_and(|stem| !given.iter().any(|name| name == stem))
        };
        let others: Vec<_> = names_in(&answered).into_iter().filter(is_other).collect();
        let note = (!others.is_empty()).then(|| {
            format!(
                "the reference command also wrote {}, which is no output of the kernel; not compared",
                others.join(", ")
            )
        });
        Ok(Expected::new(answers)
            .map_err(Error::Usage)?
            .with_note(note)
            .with_unknown(without.into_iter().map(|buffer| buffer.name.clone()).collect()))
    }

    /// Reads the answers from files.
    fn read_reference(&self, files: &[(usize, Fill)]) -> Result<Expected, Error> {
        let answers = files.iter().filter_map(|(place, fill)| {
            let (index, (_, buffer)) = self.outputs().enumerate().find(|(_, (other, _))| other == place)?;
            let answer = found(buffer, fill.clone(), Path::new("."));
            Some(answer.map(|answer| ExpectedOutput { index, buffer: buffer.clone(), answer }))
        });
        Expected::new(answers.collect::<Result<_, _>>()?).map_err(Error::Usage)
    }

    /// Wraps the oracle if buffers are to be saved.
    fn saving(&self, oracle: Box<dyn Oracle>) -> Box<dyn Oracle> {
        if self.loaded.user.saves.is_empty() {
            return oracle;
        }
        let of = |name: &str| self.outputs().enumerate().find(|(_, (_, buffer))| buffer.name == name);
        let saves = self.loaded.user.saves.iter().filter_map(|save| {
            let (index, (_, buffer)) = of(&save.buffer)?;
            Some((index, buffer.clone(), save.path.clone()))
        });
        Box::new(SavingOracle { oracle, saves: saves.collect() })
    }
}

/// File in a command's folder that maps unusual buffer names to file names.
const NAMES: &str = "names.json";

/// Writes [`NAMES`] to `folder` if there are unusual buffer names.
fn name_files<'a>(
    what: &str,
    folder: &Path,
    buffers: impl Iterator<Item = (usize, &'a ResolvedBuffer)>,
) -> Result<(), Error> {
    let unusual = buffers.filter(|(_, buffer)| !is_plain(&buffer.name));
    let files: BTreeMap<_, _> = unusual.map(|(_, buffer)| (&buffer.name, file_name(&buffer.name))).collect();
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

/// Reads the answer for a buffer from `fill`.
fn found(buffer: &ResolvedBuffer, fill: Fill, folder: &Path) -> Result<Vec<u8>, Error> {
    let answer = ResolvedBuffer { fill: Some(fill), ..buffer.clone() };
    let contents = answer.contents(0, 0, folder);
    contents.map_err(|reason| Error::Usage(format!("the reference for {}: {}", buffer.name, named_in(folder, &reason))))
}

impl Problem for PointProblem {
    fn extents(&self) -> String {
        self.loaded.user.run.extents(self.at)
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
                name_files(INPUTS, &out, self.filled())?;
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
        let oracle: Box<dyn Oracle> = match &point.reference {
            Reference::None => self.without_reference()?,
            Reference::Files(files) => Box::new(self.read_reference(files)?.with_keys(self.keys(inputs))),
            Reference::Command(command) => Box::new(self.run_reference(command, inputs)?.with_keys(self.keys(inputs))),
            Reference::Builtin(builtin) => {
                Counterpart::new(self.loaded.catalogue, builtin, point).map_err(Error::Usage)?.oracle(inputs, point)?
            }
            Reference::Kernel(_) => return Err(Error::Failure("the reference has not run".into())),
        };
        Ok(self.saving(oracle))
    }

    fn reference(&self, device: &DeviceInfo) -> Option<(Program, MakeOracle)> {
        let Reference::Kernel(list) = &self.point().reference else { return None };
        let problem = self.clone();
        let oracle: MakeOracle = Box::new(move |outputs| {
            let answers = problem.outputs().zip(outputs).enumerate().map(|(index, ((_, buffer), output))| {
                ExpectedOutput { index, buffer: buffer.clone(), answer: output.as_bytes().to_vec() }
            });
            let answers = answers.collect();
            let picks = problem.outputs().any(|(_, buffer)| matches!(buffer.tolerance, Tolerance::Picks(_)));
            let keys = if picks { problem.keys(&problem.inputs()?) } else { BTreeMap::new() };
            Ok(problem.saving(Box::new(Expected::new(answers).map_err(Error::Usage)?.with_keys(keys))))
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
