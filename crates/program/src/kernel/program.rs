//! A variant's work on a device as data: a list of steps over numbered buffers. Built by pure functions, checked
//! against a device's limits without a device, and replayed by the `vulkan` module.

use crate::basis::handle::Handle;
use crate::basis::units::Bytes;
use crate::case::Computes;
use crate::device::cache::fingerprint;
use crate::device::capability::{DeviceInfo, MatrixShape};
pub use crate::kernel::buffer::BufferId;
use crate::kernel::buffer::{self, Address, Binding, BufferSpec, Descriptor, SpecValue, Start, StatedLayout};
use crate::kernel::instructions::{Instruction, instructions, is_atomic_update};
use crate::kernel::interface::{Argument, ArgumentKind, Interface, Scalar, SlotKind, Word};
use crate::kernel::shaders::{Shader, is_same_code};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Steps that compute a result, in order, and everything that the device needs for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Steps. A step that uses a buffer of an earlier one waits for it.
    pub steps: Vec<Step>,
    /// Rounds to run after the steps, if the algorithm iterates.
    pub rounds: Option<Rounds>,
    /// Device-specific choice that matters to a reader of the figures: `float atomics: compare-exchange`.
    pub note: Option<Cow<'static, str>>,
    /// Variant that the rule of `auto` chose, as if it had been named, if it did: `matmul:gemv`.
    pub chosen_by_auto: Option<String>,
    /// Error allowed beyond the problem's tolerance, in units of the residual: above zero if the variant computes with
    /// less precision than the element type has.
    pub allowance: f64,
    /// Bound that the variant guarantees besides a small residual: the name of a check metric and its largest value.
    pub promise: Option<(&'static str, f64)>,
    /// Buffers of the program's own, numbered behind the problem's. All their bits are set before the first run (the
    /// initial value of counters), and each run finds the contents left by the run before. Scratch of [users'
    /// kernels](Self::is_users) holds poison first.
    pub scratch: Vec<BufferSpec>,
    /// Scratch buffers with initial contents that are restored before each run.
    pub starts: Vec<Start>,
    /// Arithmetic of the computation, if it differs from the element type's.
    pub computes: Option<Computes>,
    /// Reason why the variant cannot solve the case on any device.
    pub refusal: Option<String>,
    /// Names of buffers whose out-of-bounds accesses cannot be detected.
    pub unguarded: Vec<String>,
}

/// Iteration until the device sets a flag. The host reads the flag after each round; a round may contain several
/// iterations of the algorithm, if the device itself skips those after convergence.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// Steps of one round.
    pub body: Vec<Step>,
    /// Buffer whose first 32-bit word becomes nonzero when no further round is needed.
    pub stop: BufferId,
    /// Largest number of rounds.
    pub bound: u32,
}

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "programs have some dozens of steps, nearly all of them dispatches")]
pub enum Step {
    /// Runs a kernel.
    Dispatch(Dispatch),
    /// Fills a buffer's data with copies of a 32-bit word.
    Fill { buffer: BufferId, word: u32 },
    /// Copies a whole buffer to another of the same size.
    Copy { from: BufferId, to: BufferId },
}

impl Step {
    /// Returns the buffers that the step reads or writes.
    pub fn buffers(&self) -> Vec<BufferId> {
        match self {
            Self::Dispatch(dispatch) => dispatch.buffers().collect(),
            Self::Fill { buffer, .. } => vec![*buffer],
            Self::Copy { from, to } => vec![*from, *to],
        }
    }
}

/// Launch of a kernel: specialization, grid and arguments. Users' kernels are sent to workers by the numbers of their
/// modules; the hash of a plan includes that text, which keeps the names of its first version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dispatch<S = Handle<Shader>> {
    #[serde(rename = "module")]
    pub shader: S,
    /// Specialization constants: built-in kernels' by id; for users' kernels first those of 32 bits, then the others.
    pub constants: Vec<SpecValue>,
    /// Work-groups along x, y, z. Wider than Vulkan's 32 bits, so that too large a grid is reported instead of wrapped.
    pub groups: [u64; 3],
    /// Buffer and byte offset of the three work-group counts that replace `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indirect: Option<(BufferId, u64)>,
    /// Sub-group size to require, with full sub-groups, if the device supports that.
    #[serde(rename = "subgroup", default, skip_serializing_if = "Option::is_none")]
    pub subgroup_size: Option<u32>,
    /// Push-constant block, with zeros in place of addresses.
    pub push: Vec<u8>,
    /// Addresses to write into the push-constant block.
    pub addresses: Vec<Address>,
    /// Bound buffers, each with its set and binding.
    #[serde(rename = "bindings")]
    pub descriptors: Vec<Descriptor>,
    /// Layout of the pipeline, where a program stated it: then there are no descriptors, and the kernel cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<StatedLayout>,
    /// Loop iterations of the busiest invocation, summed over its loops (see
    /// [`crate::device::capability::DeviceLimits`]).
    #[serde(skip)]
    pub loop_iterations: u64,
    /// Buffers that the kernel reaches only through addresses stored in other buffers.
    #[serde(skip)]
    pub reached: Vec<BufferId>,
    /// Shape of the cooperative matrices that the kernel multiplies.
    #[serde(skip)]
    pub matrix: Option<MatrixShape>,
    /// Whether no barrier separates this dispatch from the previous step: see [`Self::without_barrier`].
    #[serde(skip)]
    pub without_barrier: bool,
    /// Kernel and descriptors for untimed runs, if out-of-bounds accesses go undetected with the normal ones.
    #[serde(skip)]
    pub guarded: Option<(Handle<Shader>, Vec<Descriptor>)>,
}

/// Argument value of a built-in kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArgumentValue {
    /// Address of a buffer, or a texel view of it.
    Buffer(BufferId),
    U32(u32),
    F32(f32),
}

impl ArgumentValue {
    /// Returns the kind of argument that accepts this value.
    fn kind(self) -> ArgumentKind {
        match self {
            Self::Buffer(_) => ArgumentKind::Address,
            Self::U32(_) => ArgumentKind::Scalar(Scalar::Int { bits: 32, signed: false }),
            Self::F32(_) => ArgumentKind::Scalar(Scalar::Float { bits: 32 }),
        }
    }
}

impl<S> Dispatch<S> {
    /// Creates a dispatch of one work-group without arguments.
    pub fn bare(shader: impl Into<S>) -> Self {
        Self {
            shader: shader.into(),
            constants: vec![],
            groups: [1; 3],
            indirect: None,
            subgroup_size: None,
            push: vec![],
            addresses: vec![],
            descriptors: vec![],
            layout: None,
            loop_iterations: 0,
            reached: vec![],
            matrix: None,
            without_barrier: false,
            guarded: None,
        }
    }

    /// Replaces each buffer by the one that `renumber` returns.
    pub fn renumber_buffers(&mut self, renumber: impl Fn(BufferId) -> BufferId) {
        let addressed = self.addresses.iter_mut().map(|address| &mut address.buffer);
        let bound = self.descriptors.iter_mut().map(|descriptor| &mut descriptor.at.buffer);
        let counts = self.indirect.iter_mut().map(|(counts, _)| counts);
        for id in addressed.chain(bound).chain(counts).chain(&mut self.reached) {
            *id = renumber(*id);
        }
    }
}

impl Dispatch {
    /// Creates a dispatch of a built-in kernel, with `arguments` by name: its push constants and texel views. Panics if
    /// names or kinds do not match the kernel; a test builds every program to find that.
    pub fn new(shader: &'static Shader, arguments: &[(&str, ArgumentValue)]) -> Self {
        Self::with_arguments(shader, arguments).unwrap_or_else(|mismatch| panic!("{mismatch}"))
    }

    /// Creates the dispatch as [`Self::new`] does, or says which argument does not match the kernel.
    pub fn with_arguments(shader: &'static Shader, arguments: &[(&str, ArgumentValue)]) -> Result<Self, String> {
        let interface = &shader.interface;
        for (name, _) in arguments {
            let is_push_constant = interface.arguments.iter().any(|argument| argument.name == *name);
            if !is_push_constant && !interface.views().any(|view| view == *name) {
                return Err(unknown_argument(shader, name));
            }
        }
        let mut dispatch = Self { push: vec![0; interface.argument_bytes() as usize], ..Self::bare(shader) };
        for argument in interface.arguments.iter() {
            dispatch.write(argument, find_argument(shader, arguments, &argument.name, argument.kind)?);
        }
        for slot in interface.slots.iter() {
            let name = slot.names().first().copied().unwrap_or_default();
            if let ArgumentValue::Buffer(buffer) = find_argument(shader, arguments, name, ArgumentKind::Address)? {
                let at = Binding::whole(slot.set, slot.binding, slot.kind, buffer);
                dispatch.descriptors.push(Descriptor { at, bytes: None });
            }
        }
        Ok(dispatch)
    }

    /// Writes the value of `argument`, which must have its kind, into the push constants.
    fn write(&mut self, argument: &Argument, value: ArgumentValue) {
        let offset = argument.offset;
        let start = offset as usize;
        let word = match value {
            ArgumentValue::Buffer(buffer) => {
                self.addresses.retain(|address| address.offset != offset);
                self.addresses.push(Address { offset, buffer, skipped: 0 });
                return;
            }
            ArgumentValue::U32(number) => number.to_le_bytes(),
            ArgumentValue::F32(number) => number.to_le_bytes(),
        };
        self.push[start..start + 4].copy_from_slice(&word);
    }

    /// Sets the invocations of a work-group along x, y, z. Panics if the kernel fixes an extent to a different value.
    pub fn group_size(mut self, size: [u32; 3]) -> Self {
        for (axis, extent) in size.into_iter().enumerate() {
            match self.shader.interface.local_size[axis] {
                Word::Literal(fixed) => assert!(
                    fixed == extent,
                    "{} fixes its work-groups to {fixed} invocations along {}, not {extent}; leave them so",
                    self.shader.label(),
                    AXES[axis]
                ),
                Word::Constant { id, .. } => self.set(id, extent),
            }
        }
        self
    }

    /// Sets the specialization constant `name`. Panics if the kernel has no such constant.
    pub fn constant(mut self, name: &str, value: u32) -> Self {
        let constants = &self.shader.interface.constants;
        let Some(constant) = constants.iter().find(|constant| constant.name == name) else {
            let available = name_list(constants.iter().map(|constant| &*constant.name));
            panic!("{} has no specialization constant '{name}'; available: {available}", self.shader.label())
        };
        self.set(constant.id, value);
        self
    }

    /// Replaces the value of an argument. Panics if the kernel has no such argument, or it has a different kind.
    pub fn argument(mut self, name: &str, value: ArgumentValue) -> Self {
        let shader = self.shader.clone();
        let argument = shader.interface.arguments.iter().find(|argument| argument.name == name);
        let argument = argument.unwrap_or_else(|| panic!("{}", unknown_argument(&shader, name)));
        assert_eq!(argument.kind.in_words(), value.kind().in_words(), "{name} of {}", shader.label());
        self.write(argument, value);
        self
    }

    /// Sets the number of work-groups along x, y, z.
    pub fn groups(mut self, groups: [u64; 3]) -> Self {
        self.groups = groups;
        self
    }

    /// Requires full sub-groups of this size, if the device supports that.
    pub fn subgroups_of(mut self, size: u32) -> Self {
        self.subgroup_size = Some(size);
        self
    }

    /// Reads the work-group counts from the first three words of a buffer.
    pub fn indirect(mut self, counts: BufferId) -> Self {
        self.indirect = Some((counts, 0));
        self
    }

    /// Sets the shape of the cooperative matrices that the kernel multiplies.
    pub fn matrix(mut self, shape: MatrixShape) -> Self {
        self.matrix = Some(shape);
        self
    }

    /// Allows this dispatch to overlap with all steps since the last barrier although they share a buffer: they touch
    /// different parts of it, or only read it.
    pub fn without_barrier(mut self) -> Self {
        self.without_barrier = true;
        self
    }

    /// Sets the loop iterations of the busiest invocation.
    pub fn loops(mut self, iterations: u64) -> Self {
        self.loop_iterations = iterations;
        self
    }

    /// Iterates over the buffers that the dispatch reads or writes.
    pub fn buffers(&self) -> impl Iterator<Item = BufferId> {
        let addressed = self.addresses.iter().map(|address| address.buffer);
        let bound = self.descriptors.iter().map(|descriptor| descriptor.at.buffer);
        let counts = self.indirect.map(|(counts, _)| counts);
        addressed.chain(bound).chain(counts).chain(self.reached.iter().copied())
    }

    /// Iterates over the buffers that the kernel may write to, including every buffer whose address it gets.
    fn writable(&self) -> impl Iterator<Item = BufferId> {
        let is_writable = |at: &Binding| {
            let mut slots = self.shader.interface.slots.iter();
            slots.any(|slot| slot.set == at.set && slot.binding == at.binding && slot.is_writable())
        };
        let bound = self.descriptors.iter().map(|descriptor| descriptor.at).filter(is_writable).map(|at| at.buffer);
        bound.chain(self.addresses.iter().map(|address| address.buffer)).chain(self.reached.iter().copied())
    }

    fn set(&mut self, id: u32, value: u32) {
        self.constants.retain(|constant| constant.id != id);
        self.constants.push(SpecValue::word(id, value));
        self.constants.sort_unstable_by_key(|constant| constant.id);
    }

    /// Returns the bytes of the push-constant block for buffers at `addresses`.
    pub fn argument_block(&self, addresses: &[u64]) -> Vec<u8> {
        let mut block = self.push.clone();
        buffer::write_addresses(&mut block, &self.addresses, addresses);
        block
    }

    /// Returns why the work-groups are too large for `device`, if they are.
    fn too_large_groups(&self, device: &DeviceInfo) -> Option<String> {
        let limits = &device.limits;
        let size = self.shader.interface.local_size.map(|word| word.value(&self.constants));
        let invocations = size.iter().map(|extent| u64::from(*extent)).product::<u64>();
        let [x, y, z] = size;
        if invocations == 0 {
            return Some(format!("has work-groups of {x}×{y}×{z} invocations, by its constants; none may be 0"));
        }
        if invocations > u64::from(limits.group_invocations) {
            return Some(format!(
                "needs work-groups of {x}×{y}×{z} invocations; the device has at most {} in a group",
                limits.group_invocations
            ));
        }
        if let Some(axis) = (0..3).find(|&axis| size[axis] > limits.group_size[axis]) {
            return Some(format!(
                "needs work-groups of {x}×{y}×{z} invocations; the device has at most {} along {}",
                limits.group_size[axis], AXES[axis]
            ));
        }
        let subgroup_size = self.subgroup_size?;
        let most = device.subgroup.most_in_group?;
        if invocations <= u64::from(subgroup_size) * u64::from(most) {
            return None;
        }
        Some(format!(
            "needs work-groups of {invocations} invocations; the device has at most {most} of the required sub-groups of \
             {subgroup_size} in a group"
        ))
    }

    /// Returns why `device` cannot run this dispatch, if it cannot.
    fn unsupported(&self, device: &DeviceInfo) -> Option<String> {
        let limits = &device.limits;
        let Interface { version, capabilities, features, .. } = &self.shader.interface;
        let missing = device.too_old_for(*version).or_else(|| device.lacks(capabilities));
        if let Some(reason) = missing.or_else(|| device.lacks_features(features)) {
            return Some(reason);
        }
        if let Some(shape) = self.matrix
            && !device.multiplies(&shape)
        {
            return Some(format!("needs cooperative matrices of {shape}; `gpukern devices` lists the device's"));
        }
        if let Some(reason) = self.too_large_groups(device) {
            return Some(reason);
        }
        if let Some(axis) = (0..3).find(|&i| self.groups[i] > u64::from(limits.group_count[i])) {
            return Some(format!(
                "needs {} work-groups along {}; the device dispatches at most {}",
                self.groups[axis], AXES[axis], limits.group_count[axis]
            ));
        }
        let shared = self.shader.shared_bytes(&self.constants);
        if shared > limits.shared_memory.0 {
            return Some(format!(
                "needs {} of shared memory a work-group; the device has {}",
                Bytes(shared),
                limits.shared_memory
            ));
        }
        if let Some(reason) = buffer::unsupported(&self.descriptors, limits) {
            return Some(reason);
        }
        let stated = self.layout.iter().flat_map(|layout| &layout.push);
        let stated = stated.map(|range| u64::from(range.offset) + u64::from(range.size)).max();
        let block = stated.unwrap_or(self.push.len() as u64);
        if block > limits.push_constants.0 {
            return Some(format!("needs {block} bytes of push constants; the device has {}", limits.push_constants.0));
        }
        if let Some(size) = self.subgroup_size {
            let group = &device.subgroup;
            if size != group.size && !(group.size_control && (group.min_size..=group.max_size).contains(&size)) {
                return Some(format!("needs sub-groups of {size}; the device has {}", group.size));
            }
            // Built-in kernels that require a size rely on full sub-groups; users' kernels may not.
            if self.shader.built_in && group.size_control && group.full_subgroups && !self.may_fill(size) {
                let x = self.shader.interface.local_size[0].value(&self.constants);
                return Some(format!("has work-groups of {x}, not a multiple of the sub-group size {size}"));
            }
        }
        let most = limits.loop_iterations?;
        let Self { loop_iterations, .. } = self;
        if *loop_iterations <= most {
            return None;
        }
        Some(format!("needs {loop_iterations} loop iterations an invocation; this driver silently stops after {most}"))
    }

    /// Whether the work-group consists of full sub-groups of `size` (VUID-VkPipelineShaderStageCreateInfo-pNext-02758).
    pub fn may_fill(&self, size: u32) -> bool {
        self.shader.interface.local_size[0].value(&self.constants).is_multiple_of(size)
    }

    /// Returns a hash of the kernel as the device runs it: `spirv` (the shader's own or a substitute), the
    /// specialization and, for a user's kernel, grid and push constants.
    pub fn hash(&self, spirv: &[u8]) -> String {
        let mut specialization = vec![];
        for constant in &self.constants {
            specialization.extend(constant.id.to_le_bytes());
            specialization.extend(constant.data());
        }
        // Grid and arguments of a built-in kernel follow from the variant and the size of the case.
        if self.shader.built_in {
            return fingerprint(&[spirv, &specialization]);
        }
        let grid = self.groups.map(u64::to_le_bytes).concat();
        let layout = self.layout.as_ref().map(|layout| format!("{layout:?}")).unwrap_or_default();
        fingerprint(&[spirv, &specialization, &grid, &self.push, layout.as_bytes()])
    }
}

/// Returns the only value of the argument `name` in `arguments`, which must be of this kind.
fn find_argument(
    shader: &Shader,
    arguments: &[(&str, ArgumentValue)],
    name: &str,
    kind: ArgumentKind,
) -> Result<ArgumentValue, String> {
    let kernel = shader.label();
    let mut values = arguments.iter().filter(|(own, _)| *own == name).map(|(_, value)| *value);
    let Some(value) = values.next() else {
        return Err(format!("{kernel} takes the argument '{name}', which has no value; give it one"));
    };
    if values.next().is_some() {
        return Err(format!("the argument '{name}' of {kernel} has two values; leave one out"));
    }
    let expected = kind.in_words();
    let actual = value.kind().in_words();
    if actual != expected {
        return Err(format!("the argument '{name}' of {kernel} is {expected}, not {actual}"));
    }
    Ok(value)
}

/// Returns the error message for an argument that a kernel does not have.
fn unknown_argument(shader: &Shader, name: &str) -> String {
    let arguments = shader.interface.arguments.iter().map(|argument| &*argument.name);
    let available = name_list(arguments.chain(shader.interface.views()));
    format!("{} has no argument '{name}'; available: {available}", shader.label())
}

fn name_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Returns for each step whether a barrier precedes it: whether it uses a buffer that was used since the last barrier,
/// unless it is marked as [free of a barrier](Dispatch::without_barrier).
pub fn waits(steps: &[Step]) -> Vec<bool> {
    let mut used_since_barrier: Vec<BufferId> = vec![];
    let mut waits = vec![];
    for step in steps {
        let buffers = step.buffers();
        let without_barrier = matches!(step, Step::Dispatch(dispatch) if dispatch.without_barrier);
        let must_wait = !without_barrier && buffers.iter().any(|id| used_since_barrier.contains(id));
        if must_wait {
            used_since_barrier.clear();
        }
        used_since_barrier.extend(buffers);
        waits.push(must_wait);
    }
    waits
}

/// Counts the launches that run one after the other: one between two barriers. Indirect dispatches do not count.
fn count_launches(steps: &[Step]) -> u64 {
    let mut launches = 0;
    let mut has_launched = false;
    for (step, waits) in steps.iter().zip(waits(steps)) {
        if waits {
            has_launched = false;
        }
        if matches!(step, Step::Dispatch(dispatch) if dispatch.indirect.is_none()) && !has_launched {
            has_launched = true;
            launches += 1;
        }
    }
    launches
}

impl Program {
    /// Creates a program of one dispatch.
    pub fn single(dispatch: Dispatch) -> Self {
        Self { steps: vec![Step::Dispatch(dispatch)], ..Self::default() }
    }

    /// Creates a program that only holds the reason why the variant cannot solve the case.
    pub fn refused(reason: String) -> Self {
        Self { refusal: Some(reason), ..Self::default() }
    }

    /// Whether both run the same code with the same constants and grids, whatever its name and those in it. A constant may be
    /// stated on one side, and have the same value by default on the other.
    pub fn runs_the_code_of(&self, other: &Self) -> bool {
        let constants = |dispatch: &Dispatch| -> Vec<u64> {
            let stated = |id| dispatch.constants.iter().find(|stated| stated.id == id).map(|stated| stated.bits);
            let constants = dispatch.shader.interface.constants.iter();
            constants.map(|constant| stated(constant.id).unwrap_or(constant.default)).collect()
        };
        let is_same = |(a, b): (&Dispatch, &Dispatch)| {
            let code = |dispatch: &'_ Dispatch| (dispatch.groups, dispatch.push.clone(), constants(dispatch));
            code(a) == code(b)
                && (a.shader.spirv == b.shader.spirv || is_same_code(&a.shader.words(), &b.shader.words()))
        };
        self.dispatches().count() == other.dispatches().count()
            && self.dispatches().zip(other.dispatches()).all(is_same)
    }

    pub fn uses_matrix_units(&self) -> bool {
        let mut capabilities = self.dispatches().flat_map(|dispatch| dispatch.shader.interface.capabilities.iter());
        capabilities.any(|name| name.contains("CooperativeMatrix"))
    }

    /// Sets the error allowed beyond the problem's tolerance.
    pub fn allowing(mut self, allowance: f64) -> Self {
        self.allowance = allowance;
        self
    }

    /// Replaces each buffer by the one that `renumber` returns.
    pub fn with_buffers(mut self, renumber: impl Fn(BufferId) -> BufferId) -> Self {
        let mut steps: Vec<_> = self.steps.iter_mut().collect();
        if let Some(rounds) = &mut self.rounds {
            rounds.stop = renumber(rounds.stop);
            steps.extend(&mut rounds.body);
        }
        for step in steps {
            match step {
                Step::Dispatch(dispatch) => dispatch.renumber_buffers(&renumber),
                Step::Fill { buffer, .. } => *buffer = renumber(*buffer),
                Step::Copy { from, to } => {
                    *from = renumber(*from);
                    *to = renumber(*to);
                }
            }
        }
        for start in &mut self.starts {
            start.buffer = renumber(start.buffer);
            for address in &mut start.addresses {
                address.buffer = renumber(address.buffer);
            }
        }
        self
    }

    /// Iterates over all steps, including one round.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().chain(self.rounds.iter().flat_map(|rounds| &rounds.body))
    }

    /// Whether the program runs a user's kernels, for which nothing is known about padding, initial contents or bounds.
    pub fn is_users(&self) -> bool {
        self.dispatches().any(|dispatch| !dispatch.shader.built_in)
    }

    /// Whether a kernel has atomics, which may leave as it is what they should change.
    pub fn has_atomics(&self) -> bool {
        self.dispatches().any(|dispatch| {
            let words = dispatch.shader.words();
            instructions(&words).map_while(Result::ok).filter_map(Instruction::op).any(is_atomic_update)
        })
    }

    /// Returns the program for untimed runs, in which accesses outside the buffers' data are detected.
    pub fn guarded(&self) -> Self {
        let mut program = self.clone();
        for step in &mut program.steps {
            if let Step::Dispatch(dispatch) = step
                && let Some((shader, descriptors)) = dispatch.guarded.take()
            {
                dispatch.shader = shader;
                dispatch.descriptors = descriptors;
            }
        }
        program
    }

    /// Returns a note on the buffers whose out-of-bounds accesses go undetected, if there are any.
    pub fn blind_spot(&self) -> Option<String> {
        if self.unguarded.is_empty() {
            return None;
        }
        Some(format!(
            "accesses outside {} cannot be seen on this device: the kernel asks for a length that depends on what is \
             bound, or the buffer is as large as a descriptor may be",
            self.unguarded.join(", ")
        ))
    }

    /// Returns the buffers that kernels see as images.
    pub fn images(&self) -> BTreeSet<BufferId> {
        let descriptors = self.dispatches().flat_map(|dispatch| &dispatch.descriptors);
        descriptors.filter(|descriptor| descriptor.at.kind.is_image()).map(|descriptor| descriptor.at.buffer).collect()
    }

    /// Whether a user's kernel may write to this buffer.
    pub fn may_write(&self, buffer: BufferId) -> bool {
        let mut users = self.dispatches().filter(|dispatch| !dispatch.shader.built_in);
        users.any(|dispatch| dispatch.writable().any(|written| written == buffer))
    }

    /// Returns the number of launches that must run one after the other, each waiting for the one before.
    pub fn launches(&self) -> u64 {
        count_launches(&self.steps) + self.rounds.as_ref().map_or(0, |rounds| count_launches(&rounds.body))
    }

    /// Iterates over the dispatches among the steps.
    pub fn dispatches(&self) -> impl Iterator<Item = &Dispatch> {
        self.all_steps().filter_map(|step| match step {
            Step::Dispatch(dispatch) => Some(dispatch),
            Step::Fill { .. } | Step::Copy { .. } => None,
        })
    }

    /// Returns this program if `device` can run it on `buffers`, the problem's: it supports every dispatch, and has
    /// room for all buffers, the program's own included, and for texel views of them. The error is the missing feature,
    /// operation or limit.
    pub fn feasible(self, buffers: &[BufferSpec], device: &DeviceInfo) -> Result<Self, String> {
        let buffers = [buffers, &self.scratch].concat();
        let reason = self.unsupported(device).or_else(|| too_large(&buffers, device));
        match reason.or_else(|| self.unviewable(&buffers, device)) {
            Some(reason) => Err(reason),
            None => Ok(self),
        }
    }

    /// Returns why `device` cannot create the program's texel views, if it cannot; `buffers` are all buffers by number.
    pub fn unviewable(&self, buffers: &[BufferSpec], device: &DeviceInfo) -> Option<String> {
        let most = u64::from(device.limits.texel_buffer_elements);
        for descriptor in self.dispatches().flat_map(|dispatch| &dispatch.descriptors) {
            if descriptor.at.kind != SlotKind::Texel {
                continue;
            }
            let buffer = &buffers[descriptor.at.buffer.0];
            let texels = buffer.bytes().0.div_ceil(TEXEL);
            if texels > most {
                let name = &buffer.name;
                return Some(format!("needs a texel view of {texels} elements of {name}; the device allows {most}"));
            }
        }
        None
    }

    /// Returns why `device` cannot run this program on buffers of any size, if it cannot.
    pub fn unsupported(&self, device: &DeviceInfo) -> Option<String> {
        let reason = device.uninspectable().or_else(|| self.refusal.clone()).or_else(|| self.too_long());
        reason.or_else(|| self.dispatches().find_map(|dispatch| dispatch.unsupported(device)))
    }

    /// Returns an error if a scratch buffer has more elements than 32 bits can count. Padding can make it longer than
    /// the problem's matrices, whose size is checked elsewhere.
    fn too_long(&self) -> Option<String> {
        let long = self.scratch.iter().find(|buffer| u32::try_from(buffer.len).is_err())?;
        Some(format!(
            "needs {} elements for the {}, more than the 2^32 - 1 that its kernels can count; choose a smaller size",
            long.len, long.name
        ))
    }
}

/// Returns why `device` has no room for these buffers, if it has none.
fn too_large(buffers: &[BufferSpec], device: &DeviceInfo) -> Option<String> {
    let most = device.limits.buffer;
    for buffer in buffers {
        let allocation = buffer.allocation();
        if allocation > most {
            return Some(format!("needs a buffer of {allocation} for {}; the device allows {most}", buffer.name));
        }
    }
    let footprint = BufferSpec::footprint(buffers);
    let memory = device.memory();
    // A null driver reports zero memory.
    if footprint <= memory || memory == Bytes(0) {
        return None;
    }
    Some(format!("needs {footprint} of device memory; the device has {memory}"))
}

/// Names of the axes of grids and work-groups.
const AXES: [char; 3] = ['x', 'y', 'z'];

/// Bytes of one texel: four f32.
pub const TEXEL: u64 = 16;

/// Returns the extents of a two-dimensional grid of at least `count` work-groups, neither above `limit`. Kernels
/// compute the linear number of a group with `folded_group_y` of `fold.glsl` and skip those beyond `count`.
pub fn folded_groups(count: u64, limit: u32) -> [u64; 2] {
    let folds = count.div_ceil(u64::from(limit)).max(1);
    [count.div_ceil(folds), folds]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::dtype::DType;
    use crate::device::fixture::software_device;
    use crate::kernel::buffer::Role;

    #[test]
    fn folding_covers_every_group_and_keeps_within_the_limit() {
        for count in [1, 65_535, 65_536, 200_000, 1 << 24] {
            let [y, z] = folded_groups(count, 65_535);
            assert!(y <= 65_535 && y * z >= count && (y * z - count) < y, "{count}: {y}×{z}");
        }
    }

    #[test]
    fn a_program_needs_room_for_the_buffers_with_their_red_zones_and_for_its_own() {
        let buffer = |role, len| BufferSpec::new("A", role, DType::F32, len);
        let mut device = software_device();
        device.limits.buffer = Bytes(4096 + 8192);
        device.heaps.truncate(1);
        device.heaps[0].size = Bytes(40_000);
        let reason = |role, count: usize, len, scratch: Vec<BufferSpec>| {
            let program = Program { scratch, ..Program::default() };
            program.feasible(&vec![buffer(role, len); count], &device).err()
        };
        assert_eq!(reason(Role::Input, 3, 1024, vec![]), None);
        let long = reason(Role::Input, 1, 2048, vec![]).expect("no room for the red zones");
        assert_eq!(long, "needs a buffer of 16 KiB for A; the device allows 12 KiB");
        for (role, count, scratch) in
            [(Role::Input, 4, vec![]), (Role::InPlace, 2, vec![]), (Role::Input, 3, vec![buffer(Role::Scratch, 1024)])]
        {
            let reason = reason(role, count, 1024, scratch).expect("too much");
            assert!(reason.starts_with("needs 48 KiB of device memory; the device has"), "{reason}");
        }
    }
}
