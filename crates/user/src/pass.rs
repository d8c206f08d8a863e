//! Resolves the passes of a configuration at a point: constants, grid, push constants and bindings.

use super::axes::check_expression_name;
use super::buffers::{bound_parts, check_block_size, find_grid_buffer};
use super::compile::{Compiled, Fallback};
use super::description::{BoundRange, Described, Description, Fault, Formula, KernelFields, OneOrMany};
use super::expression::Values;
use super::loaded::{self, LoadedKernel, LoadedPass, pass_prefix};
use super::members::{Members, pack};
use super::resolve::{Choice, LoadedConfiguration, Resolver};
use super::resolved::{Fill, Module, PassList, ResolvedBuffer};
use crate::kernel::buffer::{Binding, Descriptor, SpecValue};
use crate::kernel::interface::{Slot, SlotKind, SpecConstant};
use crate::kernel::program::{BufferId, Dispatch};
use std::sync::Arc;

/// Most rounds of a loop, and most dispatches of one kernel: a larger number is a mistake in a formula.
const MAX_DISPATCHES: usize = 1 << 14;

/// Largest sub-group that Vulkan allows.
const MAX_SUBGROUP_SIZE: u32 = 128;

/// Bytes of a grid in a buffer: three words, as in `VkDispatchIndirectCommand`.
const INDIRECT_GRID_BYTES: u64 = 12;

impl Resolver<'_> {
    /// Returns the values that expressions outside of loops see: axes, constants, the work-group size, and the loop
    /// indices of the first round.
    pub(super) fn first_round_scope(
        &self,
        configuration: &LoadedConfiguration<'_>,
        axes: &Values,
    ) -> Result<Values, Fault> {
        let mut with_indices = axes.clone();
        set_indices(&configuration.kernel.pass_tree, configuration.kernel.outer_prefix(), &mut with_indices)?;
        let mut with_constants = with_indices.clone();
        for pass in &configuration.kernel.passes {
            // A pass's constants see the axes and indices, but not the constants of other passes.
            PassConstants::evaluate(pass, &configuration.choice, &with_indices)?.add_to(&mut with_constants);
        }
        // This only improves error messages. With several passes, another one may have the constant.
        if let [pass] = configuration.kernel.passes.as_slice() {
            explain_missing_constants(self.described, pass, &mut with_constants);
        }
        Ok(with_constants)
    }

    /// Returns the first condition that does not hold, as the reason why a `kernel` does not run. Conditions on
    /// specialization constants that it lacks are about other kernels; those on any are left out without a kernel.
    pub(super) fn find_failed_condition(
        &self,
        scope: &Values,
        kernel: Option<&LoadedKernel>,
    ) -> Result<Option<String>, Fault> {
        let Description { conditions, axes, spec, .. } = &self.described.description;
        let is_constant = |name: &str| spec.get(name).is_some() || self.constants.iter().any(|known| known == name);
        let is_of_others = |name: &str, kernel: &LoadedKernel| {
            is_constant(name) && kernel.passes.iter().all(|pass| pass.constant(name).is_none())
        };
        for (name, formula) in conditions.iter() {
            let fault = |message: String| Fault::new(format!("where.{name}"), message);
            let condition = formula.expression().map_err(fault)?;
            let is_left_out = condition
                .names()
                .into_iter()
                .any(|name| axes.get(name).is_none() && kernel.is_none_or(|kernel| is_of_others(name, kernel)));
            if !is_left_out && condition.value(scope).map_err(fault)? == 0 {
                return Ok(Some(format!("where.{name} does not hold: {}", condition.text())));
            }
        }
        Ok(None)
    }

    /// Resolves the dispatches of a configuration, whose buffers are the `shared` ones of the point, followed by
    /// scratch. `first_round` are the values for the shapes of scratch.
    pub(super) fn resolve_passes(
        &mut self,
        configuration: &LoadedConfiguration<'_>,
        axes: &Values,
        first_round: &Values,
        shared: &[ResolvedBuffer],
    ) -> Result<PassList, Fault> {
        let mut buffers = shared.to_vec();
        buffers.extend(self.resolve_scratch(first_round, &configuration.kernel.passes)?);
        let mut unroller = Unroller { resolver: self, configuration, buffers, dispatches: vec![] };
        unroller.unroll(&configuration.kernel.pass_tree, configuration.kernel.outer_prefix(), 0, axes, 0)?;
        let Unroller { mut buffers, dispatches, .. } = unroller;
        Ok(PassList { dispatches, scratch: buffers.split_off(shared.len()) })
    }
}

/// Returns the name that expressions in a loop use for the number of the round.
fn index_name(pass: &KernelFields) -> &str {
    pass.index.as_deref().unwrap_or("i")
}

/// Sets the indices of all loops to 0, their value in the first round. Refuses names that are not unique or cannot
/// stand in expressions. `outer` is the prefix of the fields of the loop around the passes.
fn set_indices(passes: &[KernelFields], outer: &str, scope: &mut Values) -> Result<(), Fault> {
    for (position, pass) in passes.iter().enumerate().filter(|(_, pass)| pass.times.is_some()) {
        let prefix = pass_prefix(outer, position);
        let fault = |message: String| Fault::new(format!("{prefix}index"), message);
        let index = index_name(pass);
        check_expression_name(index).map_err(fault)?;
        if scope.get(index).is_ok() {
            return Err(fault(format!("'{index}' is an axis or the index of another loop; write index = \"round\"")));
        }
        scope.set(index, 0);
        set_indices(&pass.pass, &prefix, scope)?;
    }
    Ok(())
}

/// Counts the sources in a pass and the passes nested in it.
fn count_sources(pass: &KernelFields) -> usize {
    if pass.pass.is_empty() { 1 } else { pass.pass.iter().map(count_sources).sum() }
}

/// Turns the nested loops of a configuration's passes into a list of dispatches.
struct Unroller<'a, 'r> {
    resolver: &'a mut Resolver<'r>,
    configuration: &'a LoadedConfiguration<'a>,
    /// Buffers of the point, then the description's scratch, then blocks that are given by member.
    buffers: Vec<ResolvedBuffer>,
    /// Dispatches so far, whose shaders are numbers of modules.
    dispatches: Vec<Dispatch<usize>>,
}

impl Unroller<'_, '_> {
    /// Appends the dispatches of a `level` of the nested loops, a list of passes. The first source among them is number
    /// `source` of the kernel; `outer` is the prefix of the fields of the enclosing loop, and `round` is its round.
    fn unroll(
        &mut self,
        level: &[KernelFields],
        outer: &str,
        mut source: usize,
        scope: &Values,
        round: usize,
    ) -> Result<(), Fault> {
        let kernel = self.configuration.kernel;
        for (position, pass) in level.iter().enumerate() {
            let prefix = pass_prefix(outer, position);
            let fault = |message: String| Fault::new(format!("{prefix}times"), message);
            let times = match &pass.times {
                Some(times) => evaluate_times(times, scope).map_err(fault)?,
                None => 1,
            };
            for index in 0..times {
                let mut scope = scope.clone();
                let mut round = round;
                if pass.times.is_some() {
                    scope.set(index_name(pass), index);
                    round = index as usize;
                }
                if pass.pass.is_empty() {
                    let dispatch = self.resolve_pass(&kernel.passes[source], scope, round)?;
                    self.dispatches.push(dispatch);
                } else {
                    self.unroll(&pass.pass, &prefix, source, &scope, round)?;
                }
            }
            if self.dispatches.len() > MAX_DISPATCHES {
                return Err(fault(format!("makes more than {MAX_DISPATCHES} dispatches; use fewer")));
            }
            source += count_sources(pass);
        }
        Ok(())
    }

    fn resolve_pass(&mut self, pass: &LoadedPass, mut scope: Values, round: usize) -> Result<Dispatch<usize>, Fault> {
        let constants = PassConstants::evaluate(pass, &self.configuration.choice, &scope)?;
        constants.add_to(&mut scope);
        explain_missing_constants(self.resolver.described, pass, &mut scope);
        let specialized = constants.specialized.map_err(|message| Fault::new(pass.field("spec"), message))?;
        let spirv = specialized.as_ref().map_or(&pass.compiled.spirv, |compiled| &compiled.spirv).clone();
        let module = Module { name: pass.source.clone(), spirv, files: pass.compiled.files.clone() };
        let shader = self.resolver.number_module(module);
        let description = &self.resolver.described.description;
        let push = Members::of_push_constants(description, pass).pack(&mut self.buffers, &scope)?;
        let mut dispatch = Dispatch {
            constants: if specialized.is_some() { vec![] } else { constants.spec_values },
            subgroup_size: constants.subgroup,
            push: push.bytes,
            addresses: push.addresses,
            ..Dispatch::bare(shader)
        };
        if let Some(grid) = find_grid_buffer(description, pass)? {
            dispatch.indirect = Some(self.resolve_indirect(pass, &grid, &scope)?);
        } else {
            dispatch.groups = evaluate_groups(pass, &scope)?;
            // A reference that omits its edge gives a wrong answer, which is seen without a note.
            if pass.prefix != "reference." {
                let formulas = pass.fields.groups.iter().flat_map(OneOrMany::values);
                let quotients = formulas.filter_map(|formula| formula.expression().ok()?.rounds_up(&scope));
                self.resolver.partial_groups =
                    self.resolver.partial_groups.into_iter().chain(quotients).reduce(|a, b| a | b);
            }
        }
        dispatch.descriptors = self.bind_slots(pass, &scope, round)?;
        Ok(dispatch)
    }

    /// Resolves the buffer that holds the grid of a pass, and the grid's offset in it.
    fn resolve_indirect(&self, pass: &LoadedPass, grid: &BoundRange, scope: &Values) -> Result<(BufferId, u64), Fault> {
        let fault = |message: String| Fault::new(pass.field("indirect"), message);
        let (offset, _) = grid.bytes(scope).map_err(fault)?;
        let index = find_buffer(&self.buffers, &grid.buffer);
        let name = &self.buffers[index].name;
        let bytes = self.buffers[index].bytes();
        if !offset.is_multiple_of(4) || offset.checked_add(INDIRECT_GRID_BYTES).is_none_or(|end| end > bytes) {
            return Err(fault(format!(
                "begins at byte {offset} of {name}, which has {bytes} bytes; a grid is three words, at a multiple of four"
            )));
        }
        Ok((BufferId(index), offset))
    }

    /// Binds a buffer to each slot of a pass in a round of the loop around it. A slot with several parts takes the next
    /// one in each round, so two parts swap roles from round to round (ping-pong). The descriptors do not say yet how
    /// far they reach: `make_dispatch` extends them into the red zones, as far as the device allows.
    fn bind_slots(&mut self, pass: &LoadedPass, scope: &Values, round: usize) -> Result<Vec<Descriptor>, Fault> {
        let description = &self.resolver.described.description;
        let mut descriptors = vec![];
        for slot in pass.interface.slots.iter() {
            // A block given by member has no buffer of the description: its values are packed into one of their own.
            let mut binding = if let Some(members) = Members::of_slot(description, pass, slot)? {
                let buffer = members.add_to(&mut self.buffers, scope)?;
                Binding::whole(slot.set, slot.binding, slot.kind, BufferId(buffer))
            } else {
                let parts = bound_parts(description, pass, slot)?;
                self.bind_part(pass, slot, &parts[round % parts.len()], scope)?
            };
            binding.element = slot.element;
            descriptors.push(Descriptor { at: binding, bytes: None });
        }
        Ok(descriptors)
    }

    /// Binds a part of a buffer to a slot. Refuses parts beyond its end, and parts that do not fit the slot's blocks.
    fn bind_part(&self, pass: &LoadedPass, slot: &Slot, part: &BoundRange, scope: &Values) -> Result<Binding, Fault> {
        let index = find_buffer(&self.buffers, &part.buffer);
        let name = &self.buffers[index].name;
        let bytes = self.buffers[index].bytes();
        let fault = |message: String| Fault::new(pass.field(&format!("bind.{}", loaded::slot_key(slot))), message);
        if slot.kind == SlotKind::Texel && (part.offset.is_some() || part.range.is_some()) {
            return Err(fault(format!("binds a part of {name} as texels; bind all of it")));
        }
        let (offset, range) = part.bytes(scope).map_err(fault)?;
        let left = bytes.saturating_sub(offset);
        if left == 0 || range.is_some_and(|range| range == 0 || range > left) {
            let range = range.map_or_else(String::new, |range| format!(" {range} bytes"));
            let message = format!("sees{range} from byte {offset} of {name}, which has {bytes}; keep within it");
            return Err(fault(message));
        }
        // An explicit range counts, whatever the block's size is.
        if range.is_none() {
            check_block_size(name, left, &pass.source, slot)?;
        }
        Ok(Binding { offset, range, ..Binding::whole(slot.set, slot.binding, slot.kind, BufferId(index)) })
    }
}

fn evaluate_times(times: &Formula, scope: &Values) -> Result<i64, String> {
    let count = times.expression().and_then(|expression| expression.value(scope))?;
    if !(0..=MAX_DISPATCHES as i64).contains(&count) {
        return Err(format!("is {count} ('{times}'); a program has 0 to {MAX_DISPATCHES} rounds"));
    }
    Ok(count)
}

/// Returns the index of a described buffer. The search starts at the end: scratch may have the name of a buffer that
/// another description shares, and is then meant. Blocks given by member may have the same name, too, and are skipped.
pub(super) fn find_buffer(buffers: &[ResolvedBuffer], name: &str) -> usize {
    let is_described = |buffer: &ResolvedBuffer| buffer.name == name && !matches!(buffer.fill, Some(Fill::Block(_)));
    buffers.iter().rposition(is_described).expect("each buffer of the description is resolved")
}

/// Values of a pass's specialization constants.
struct PassConstants<'a> {
    pass: &'a LoadedPass,
    /// Sub-group size to require of the device.
    subgroup: Option<u32>,
    /// Stated values, as a pipeline takes them.
    spec_values: Vec<SpecValue>,
    /// Integer constants with their stated or default values, as expressions see them.
    integers: Vec<(&'a SpecConstant, i128)>,
    /// Result of compiling WGSL with the values of its overrides, which take the place of specialization constants.
    specialized: Result<Option<Arc<Compiled>>, String>,
}

impl<'a> PassConstants<'a> {
    /// Evaluates the values that the pass states, then those of the choice for constants that it leaves open. Each
    /// expression sees the constants before it.
    fn evaluate(pass: &'a LoadedPass, choice: &Choice, axes: &Values) -> Result<Self, Fault> {
        let subgroup = choice.subgroup.as_ref().or(pass.fields.subgroups().first());
        let subgroup = subgroup.map(|size| evaluate_subgroup_size(pass, size, axes)).transpose()?;
        let mut constants =
            PassConstants { pass, subgroup, spec_values: vec![], integers: vec![], specialized: Ok(None) };
        let mut overrides = vec![];
        let mut scope = axes.clone();
        for (name, value) in pass.fields.spec.iter().chain(choice.spec.iter()) {
            let Some(constant) = pass.constant(name) else { continue };
            if constants.has_value(constant) {
                continue;
            }
            let (bits, number) = pack(value, constant.scalar, &scope).map_err(|message| {
                let is_of_pass = pass.fields.spec.get(name).is_some();
                let field = format!("spec.{name}");
                Fault::new(if is_of_pass { pass.field(&field) } else { field }, message)
            })?;
            if let Some(integer) = constant.scalar.integer(bits) {
                scope.set(&constant.name, integer);
                constants.integers.push((constant, integer));
            }
            // Booleans are `VkBool32`.
            constants.spec_values.push(SpecValue { id: constant.id, bits, bytes: constant.scalar.bytes() });
            overrides.push((loaded::constant_key(constant), number));
        }
        if !pass.compiled.overrides.is_empty() {
            constants.check_complete()?;
            constants.specialized = pass.compiled.specialized(&overrides).map(Some);
        }
        for constant in pass.interface.constants.iter() {
            let mut declared = constants.compiled().overrides.iter();
            let declared = declared.find(|declared| declared.id == constant.id);
            let default = constant.scalar.integer(declared.map_or(constant.default, |declared| declared.value));
            if !constants.has_value(constant) {
                constants.integers.extend(default.map(|default| (constant, default)));
                if constant.is_ambiguous {
                    let bytes = constant.scalar.bytes();
                    constants.spec_values.push(SpecValue { id: constant.id, bits: constant.default, bytes });
                }
            }
        }
        Ok(constants)
    }

    /// Refuses overrides without a value.
    fn check_complete(&self) -> Result<(), Fault> {
        for declared in &self.pass.compiled.overrides {
            let constant = self.pass.constant(&declared.name).filter(|constant| !self.has_value(constant));
            if declared.fallback == Fallback::Missing && constant.is_some() {
                let message = format!("has no value, and no default in {}; give it one", self.pass.source);
                return Err(Fault::new(self.pass.field(&format!("spec.{}", declared.name)), message));
            }
        }
        Ok(())
    }

    /// Returns the compiled source; with the defaults of its overrides if it does not compile with these values.
    fn compiled(&self) -> &Compiled {
        self.specialized.as_ref().ok().and_then(Option::as_deref).unwrap_or(&self.pass.compiled)
    }

    fn has_value(&self, constant: &SpecConstant) -> bool {
        self.spec_values.iter().any(|value| value.id == constant.id)
    }

    /// Makes the constants and the work-group size available to expressions.
    fn add_to(&self, scope: &mut Values) {
        for (constant, value) in &self.integers {
            if !constant.name.is_empty() {
                scope.set(&constant.name, *value);
            }
        }
        if let Some(size) = self.subgroup {
            scope.set("subgroup", size);
        }
        let value_of =
            |id| self.integers.iter().find(|(constant, _)| constant.id == id).map(|(_, value)| *value as i64);
        let local_size = self.compiled().local_size.map(|size| size.map(i64::from));
        set_local_size(scope, local_size.unwrap_or_else(|| self.pass.local_size(value_of)));
    }
}

fn evaluate_subgroup_size(pass: &LoadedPass, formula: &Formula, scope: &Values) -> Result<u32, Fault> {
    let fault = |message: String| Fault::new(pass.field("subgroup"), message);
    let value = formula.expression().and_then(|expression| expression.value(scope)).map_err(fault)?;
    match u32::try_from(value) {
        Ok(size) if size.is_power_of_two() && size <= MAX_SUBGROUP_SIZE => Ok(size),
        _ => {
            Err(fault(format!("is {value} ('{formula}'); sub-groups have 1, 2, 4, … {MAX_SUBGROUP_SIZE} invocations")))
        }
    }
}

/// Makes expressions explain why a specialization constant of the description has no value: the pass lacks it.
fn explain_missing_constants(described: &Described, pass: &LoadedPass, scope: &mut Values) {
    let remedy = match &*pass.prefix {
        "" => "describe it in a file of its own, with its own groups, and name both files",
        "reference." => "state the groups of [reference]",
        _ => "leave it out of this expression",
    };
    for name in described.description.spec.names() {
        if pass.constant(name).is_none() {
            let file = pass.file();
            scope.set_reason(name, &format!("a specialization constant that {file} does not have; {remedy}"));
        }
    }
}

/// Makes the extents of the work-group available to expressions.
fn set_local_size(scope: &mut Values, extents: [i64; 3]) {
    for (name, extent) in ["local_x", "local_y", "local_z"].into_iter().zip(extents) {
        scope.set(name, extent);
    }
}

/// Evaluates the work-groups along x, y, z; 1 where fewer than three extents are stated.
fn evaluate_groups(pass: &LoadedPass, scope: &Values) -> Result<[u64; 3], Fault> {
    let fault = |message: String| Fault::new(pass.field("groups"), message);
    let Some(stated) = &pass.fields.groups else {
        let message = "is missing; say how many work-groups along x, y, z: [\"cdiv(N, local_x)\", 1, 1]";
        return Err(fault(message.into()));
    };
    let formulas = stated.values();
    if !(1..=3).contains(&formulas.len()) {
        return Err(fault(format!("has {} extents; write 1 to 3, for x, y, z", formulas.len())));
    }
    let mut groups = [1; 3];
    for (axis, formula) in formulas.iter().enumerate() {
        let expression = formula.expression().map_err(fault)?;
        let value = expression.value(scope).map_err(fault)?;
        groups[axis] = match u32::try_from(value) {
            Ok(count) if count > 0 => count.into(),
            _ => {
                let name = ["x", "y", "z"][axis];
                let text = expression.text();
                return Err(fault(format!("is {value} along {name} ('{text}'); use 1 to 2^32 - 1 work-groups")));
            }
        };
    }
    Ok(groups)
}
