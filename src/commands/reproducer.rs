//! Description with which `gpukern run` repeats a failed case. It needs neither the case's own description nor this version's
//! kernels: the kernels are SPIR-V, the inputs files.

use crate::basis::file_name::file_name;
use crate::kernel::buffer::{Descriptor, Role};
use crate::kernel::interface::{ArgumentKind, Scalar, Slot};
use crate::kernel::program::{BufferId, Dispatch, Step};
use crate::kernel::shaders::Shader;
use crate::user::description::{
    BoundBuffer, BoundRange, Formula, GridFields, KernelFields, OneOrMany, OrderedMap, OutputFiles, ReferenceTable,
};
use crate::user::init::{member_key, place};
use crate::user::members::formula;
use crate::user::options::{CASE, describe};
use crate::user::resolve::resolve;
use crate::user::resolved::{Builtin, Reference, ResolvedBuffer, ResolvedPoint};
use crate::user::written::{self, Commented};
use crate::{
    BufferSpec, CATALOGUE, CaseGroup, DType, DeviceInfo, FieldOptions, Goal, Handle, HostArray, Problem, Program,
    Shown, Tuned, UserKernels,
};
use std::collections::BTreeSet;
use std::path::Path;

/// Failed or exported case, whose SPIR-V is in a folder.
pub(super) struct Reproducer<'a> {
    pub(super) folder: &'a Path,
    /// Name of the kernel in ids; that of a built-in algorithm is taken.
    pub(super) name: String,
    /// Lines before the first field.
    pub(super) head: String,
    pub(super) group: &'a CaseGroup,
    pub(super) device: &'a DeviceInfo,
    pub(super) problem: &'a dyn Problem,
    pub(super) program: &'a Program,
    /// SPIR-V file of each dispatch.
    pub(super) sources: &'a [String],
    /// Inputs whose files are in the folder; `None` for numbers like those that the case is measured with.
    pub(super) inputs: Option<&'a [HostArray]>,
    /// Resolved description of a user's kernel; `None` for a built-in one.
    pub(super) point: Option<&'a ResolvedPoint>,
    /// Whether the case may end well without its reference, which judged its answer or may be what failed.
    pub(super) needs_reference: bool,
    /// Axes of the case with their values, which no formula of the description needs: tables show them.
    pub(super) axes: Vec<(String, i64)>,
}

impl Reproducer<'_> {
    /// Writes the description, and the files that it names besides inputs and SPIR-V. The error says why `run` cannot repeat
    /// the case.
    pub(super) fn write(&self) -> Result<(), String> {
        let mut commented = self.describe()?;
        let mut reason = String::new();
        let unverified = self.point.is_some_and(|point| point.unverified);
        let reference = self.reference().map(|reference| ReferenceTable { unverified, ..reference });
        for reference in [reference, Err("the saved kernel does not fit it".into())] {
            match reference {
                Ok(reference) => {
                    commented.head.clone_from(&self.head);
                    commented.description.reference = Some(reference);
                }
                Err(lost) if self.needs_reference => {
                    let lost = if reason.is_empty() { lost } else { reason };
                    return Err(format!(
                        "it may pass without its reference, which made it fail or itself failed, and which cannot be kept: {lost}"
                    ));
                }
                Err(lost) => {
                    commented.description.reference = None;
                    commented.head = format!("{}# No [reference], so the answer is unverified: {lost}.\n", self.head);
                }
            }
            std::fs::write(self.folder.join(CASE), commented.text()).map_err(|e| e.to_string())?;
            match self.check() {
                Ok(()) => return Ok(()),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    /// Returns the description without a reference.
    fn describe(&self) -> Result<Commented, String> {
        let mut buffers = self.buffers();
        let (fills, steps) = self.fills(&mut buffers)?;
        let names: Vec<String> = buffers.iter().map(|buffer| buffer.name.clone()).collect();
        let mut commented = Commented::default();
        let description = &mut commented.description;
        description.name = Some(self.name.clone());
        for (name, value) in self.axes.iter().filter(|(name, _)| !names.contains(name)) {
            description.axes.set(name, OneOrMany::One(Formula::Integer(*value)));
        }
        let used = steps.iter().flat_map(Step::buffers).collect::<BTreeSet<_>>();
        for (index, (buffer, fill)) in buffers.iter().zip(fills).enumerate() {
            // A description has no buffer that its kernels do not use.
            if !used.contains(&BufferId(index)) {
                continue;
            }
            if description.buffer.get(&buffer.name).is_some() {
                return Err(format!("two of its buffers are called {}", buffer.name));
            }
            description.buffer.set(&buffer.name, written::buffer(buffer, fill, &names));
        }
        let mut sources = self.sources.iter();
        for step in steps {
            let (Step::Dispatch(dispatch), Some(source)) = (step, sources.next()) else {
                return Err("it fills or copies buffers between its kernels".into());
            };
            description.pass.push(pass(dispatch, source, &names));
        }
        if let [only] = &mut description.pass[..] {
            let constants = std::mem::take(&mut only.spec).0;
            description.spec =
                OrderedMap(constants.into_iter().map(|(id, value)| (id, OneOrMany::One(value))).collect());
            description.push = std::mem::take(&mut only.push);
            description.dispatch = Some(GridFields { groups: only.groups.take(), indirect: only.indirect.take() });
            description.kernel = description.pass.pop();
        }
        Ok(commented)
    }

    /// Returns the buffers of the problem and of the program, by number.
    fn buffers(&self) -> Vec<ResolvedBuffer> {
        let plain = |spec: &BufferSpec, role| ResolvedBuffer {
            image: spec.image,
            checked: role == Role::InPlace,
            ..ResolvedBuffer::new(&spec.name, spec.dtype, vec![spec.len], role)
        };
        let mut buffers = match self.point {
            Some(point) => point.buffers.clone(),
            None => self.problem.buffers().iter().map(|spec| plain(spec, spec.role)).collect(),
        };
        buffers.extend(self.program.scratch.iter().map(|spec| plain(spec, Role::Scratch)));
        buffers
    }

    /// Returns the contents of each buffer before the first dispatch, and the steps from there on.
    fn fills(&self, buffers: &mut [ResolvedBuffer]) -> Result<(Vec<Option<String>>, &[Step]), String> {
        let Program { steps, starts, rounds, .. } = self.program;
        if rounds.is_some() {
            return Err("it runs in rounds until the device ends them".into());
        }
        let mut inputs = self.inputs.map(|inputs| inputs.iter());
        let mut fills = vec![];
        for (index, buffer) in buffers.iter_mut().enumerate() {
            let mut fill = None;
            if buffer.role.is_input() {
                fill = Some(match &mut inputs {
                    None => {
                        let input = self.group.spec.input;
                        let missing = || format!("no fill has its {} {input} input", buffer.element);
                        // Integers beside other types are pivots or the like, and no random numbers.
                        let is_data = buffer.element.is_float() || buffer.element == self.group.spec.options.dtype;
                        input.fill(buffer.element).filter(|_| is_data).ok_or_else(missing)?
                    }
                    Some(inputs) => {
                        inputs.next().ok_or("its inputs are missing")?;
                        format!("@{}.bin", file_name(&buffer.name))
                    }
                });
            } else if index >= self.problem.buffers().len() && !self.program.is_users() {
                // The counters of built-in kernels start with all bits set.
                *buffer = ResolvedBuffer::new(&buffer.name, DType::U8, vec![buffer.bytes()], Role::Scratch);
                fill = Some("255".into());
            }
            fills.push(fill);
        }
        for start in starts {
            if !start.addresses.is_empty() {
                return Err("a block in memory has addresses of buffers".into());
            }
            fills[start.buffer.0] = Some(self.write_fill(&buffers[start.buffer.0], &start.bytes)?);
        }
        let first = steps.iter().position(|step| matches!(step, Step::Dispatch(_))).unwrap_or(steps.len());
        let (before, steps) = steps.split_at(first);
        for step in before {
            let (BufferId(filled), fill) = match step {
                Step::Fill { buffer, word } => {
                    (*buffer, Some(self.write_fill(&buffers[buffer.0], &word.to_le_bytes())?))
                }
                Step::Copy { from, to } => (*to, fills[from.0].clone()),
                Step::Dispatch(_) => continue,
            };
            fills[filled] = fill;
            if buffers[filled].role == Role::Output {
                buffers[filled] = ResolvedBuffer { role: Role::InPlace, checked: true, ..buffers[filled].clone() };
            }
        }
        Ok((fills, steps))
    }

    /// Writes the contents of a buffer that `tile` repeats. Returns the fill.
    fn write_fill(&self, buffer: &ResolvedBuffer, tile: &[u8]) -> Result<String, String> {
        if tile.iter().all(|byte| *byte == 0) {
            return Ok("zero".into());
        }
        let contents: Vec<u8> = tile.iter().copied().cycle().take(buffer.bytes() as usize).collect();
        self.write_file(&format!("{}.start.bin", file_name(&buffer.name)), &contents)
    }

    fn write_file(&self, name: &str, contents: &[u8]) -> Result<String, String> {
        std::fs::write(self.folder.join(name), contents).map_err(|e| e.to_string())?;
        Ok(format!("@{name}"))
    }

    /// Returns the source of the correct answer, or the reason why there is none.
    fn reference(&self) -> Result<ReferenceTable, String> {
        let spec = &self.group.spec;
        match self.point.map(|point| &point.reference) {
            None if spec.goal != Goal::Result => Err("a solution has none here".into()),
            None if self.program.allowance > 0.0 => Err("its kernels may err more than a user's".into()),
            None => Ok(builtin(&self.group.algorithm.name, &spec.size.extents(), Some(spec.layout.name()))),
            Some(Reference::Builtin(Builtin { algorithm, size, layout, roles })) => {
                let buffers = self.problem.buffers();
                let roles = roles.iter().map(|(role, buffer)| (role.clone(), buffers[*buffer].name.to_string()));
                let table = builtin(algorithm, size, layout.as_deref());
                Ok(ReferenceTable { roles: OrderedMap(roles.collect()), ..table })
            }
            Some(Reference::Kernel(_)) => self.reference_kernel(),
            Some(Reference::Files(_) | Reference::Command(_)) => self.answers(),
            Some(Reference::None) => Err("it had none".into()),
        }
    }

    /// Saves the reference kernel, if there is only one.
    fn reference_kernel(&self) -> Result<ReferenceTable, String> {
        let reference = self.problem.reference(self.device).map(|(program, _)| program).unwrap_or_default();
        let ([Step::Dispatch(dispatch)], []) = (&reference.steps[..], &reference.scratch[..]) else {
            return Err("that is several kernels, or has buffers of its own".into());
        };
        let file = "reference.spv";
        self.write_file(file, &dispatch.shader.spirv)?;
        let names: Vec<_> = self.problem.buffers().iter().map(|spec| spec.name.to_string()).collect();
        let kernel_fields = KernelFields { source: OneOrMany::default(), ..pass(dispatch, file, &names) };
        Ok(ReferenceTable { kernel: OneOrMany::One(file.into()), kernel_fields, ..ReferenceTable::default() })
    }

    /// Saves the correct answers that a file or a command gave.
    fn answers(&self) -> Result<ReferenceTable, String> {
        let oracle = self.problem.oracle(self.inputs.unwrap_or_default()).map_err(|e| e.to_string())?;
        let mut files = OrderedMap::default();
        let buffers = self.problem.buffers();
        for (output, spec) in buffers.iter().filter(|spec| spec.role.is_output()).enumerate() {
            if let Some(answer) = oracle.answer(output, std::slice::from_ref(&(0..spec.len as usize))) {
                let file = format!("{}.expected.bin", file_name(&spec.name));
                self.write_file(&file, &answer)?;
                files.set(&spec.name, file);
            }
        }
        Ok(ReferenceTable { file: Some(OutputFiles::Each(files)), ..ReferenceTable::default() })
    }

    /// Returns why `run` would not repeat the case, if so: the description is wrong, or its dispatches differ.
    fn check(&self) -> Result<(), String> {
        let described = describe(&[self.folder.to_path_buf()], None, &FieldOptions::default());
        let problem = described.and_then(|described| resolve(&CATALOGUE, &described)).map_err(|e| {
            // A description that is refused is not kept, so that its lines mean nothing.
            let reason = e.to_string().replace(&format!("{}/", self.folder.shown()), "");
            let place = reason.strip_prefix(CASE).and_then(|rest| rest.split_once(": "));
            place.map_or(reason.clone(), |(_, reason)| reason.into())
        })?;
        let repeated = problem.points.first().and_then(|point| point.pass_lists.first()).cloned();
        let repeated = repeated.ok_or("it has no case")??.dispatches;
        UserKernels { name: String::new(), problem, against: vec![], saves: vec![], tuned: Tuned::none() }
            .algorithm(&CATALOGUE)?;
        let saved = self.program.dispatches().map(launch);
        if saved.eq(repeated.iter().map(launch)) { Ok(()) } else { Err("its launches would differ".into()) }
    }
}

/// Returns a launch as text, without shader and buffers, to compare a saved one.
fn launch<S>(dispatch: &Dispatch<S>) -> String {
    let Dispatch { constants, groups, indirect, subgroup_size, push, addresses, descriptors, .. } = dispatch;
    let mut constants: Vec<_> = constants.iter().map(|constant| (constant.id, constant.bits)).collect();
    let mut bound: Vec<_> =
        descriptors.iter().map(|Descriptor { at, .. }| (at.set, at.binding, at.element, at.offset, at.range)).collect();
    let mut addresses: Vec<_> = addresses.iter().map(|address| (address.offset, address.skipped)).collect();
    constants.sort_unstable();
    bound.sort_unstable();
    addresses.sort_unstable();
    let grid = indirect.map_or(*groups, |(_, offset)| [offset; 3]);
    format!("{constants:?} {grid:?} {subgroup_size:?} {push:?} {addresses:?} {bound:?}")
}

fn builtin(algorithm: &str, size: &[u64], layout: Option<&str>) -> ReferenceTable {
    let size = size.iter().map(|extent| Formula::whole((*extent).into())).collect();
    ReferenceTable {
        builtin: Some(algorithm.into()),
        size: Some(OneOrMany::Many(size)),
        layout: layout.map(Into::into),
        ..ReferenceTable::default()
    }
}

/// Describes a dispatch of the kernel in the file `source`. `names` are those of the buffers, by number.
fn pass(dispatch: &Dispatch<Handle<Shader>>, source: &str, names: &[String]) -> KernelFields {
    let interface = &dispatch.shader.interface;
    let place_in = |buffer: BufferId, offset| match offset {
        0 => names[buffer.0].clone(),
        offset => format!("{} + {offset}", names[buffer.0]),
    };
    let groups = dispatch.groups.map(|extent| Formula::whole(extent.into()));
    let mut pass = KernelFields {
        source: OneOrMany::One(source.into()),
        subgroup: dispatch.subgroup_size.map(|size| OneOrMany::One(Formula::Integer(size.into()))),
        groups: dispatch.indirect.is_none().then(|| OneOrMany::Many(groups.into())),
        indirect: dispatch.indirect.map(|(buffer, offset)| place_in(buffer, offset)),
        ..KernelFields::default()
    };
    for constant in &dispatch.constants {
        if let Some(declared) = interface.constants.iter().find(|declared| declared.id == constant.id) {
            pass.spec.set(&constant.id.to_string(), formula(declared.scalar, constant.bits));
        }
    }
    for argument in interface.arguments.iter() {
        let address = dispatch.addresses.iter().find(|address| address.offset == argument.offset);
        let scalar = match argument.kind {
            ArgumentKind::Scalar(scalar) => scalar,
            ArgumentKind::Address => Scalar::Int { bits: 64, signed: false },
        };
        let mut bits = [0; 8];
        let pushed = dispatch.push.get(argument.offset as usize..).unwrap_or_default();
        bits.iter_mut().zip(pushed.iter().take(scalar.bytes() as usize)).for_each(|(to, from)| *to = *from);
        let value = match address {
            Some(address) => Formula::Text(place_in(address.buffer, address.skipped)),
            None => formula(scalar, u64::from_le_bytes(bits)),
        };
        pass.push.set(&member_key(&interface.arguments, argument), value);
    }
    for Descriptor { at, .. } in &dispatch.descriptors {
        let is_bound = |slot: &&Slot| (slot.set, slot.binding, slot.element) == (at.set, at.binding, at.element);
        let Some(slot) = interface.slots.iter().find(is_bound) else { continue };
        let buffer = names[at.buffer.0].clone();
        let bytes = |bytes: u64| Formula::whole(bytes.into());
        let bound = match (at.offset, at.range) {
            (0, None) => BoundBuffer::Name(buffer),
            (offset, range) => {
                BoundBuffer::Range(BoundRange { buffer, offset: Some(bytes(offset)), range: range.map(bytes) })
            }
        };
        pass.bind.set(&place(slot), OneOrMany::One(bound));
    }
    pass
}
