//! Resolves the passes of a configuration: constants, grid, push constants and bindings at a point.

use super::buffers::{bound, fits_blocks, indirect};
use super::description::{BoundRange, Described, Fault, Formula, Kernel};
use super::expression::Values;
use super::loaded::{self, LoadedKernel, LoadedPass, bytes};
use super::members::{Members, pack};
use super::resolve::Resolver;
use super::resolved::{Fill, Module, PassList, ResolvedBuffer};
use crate::basis::dtype::DType;
use crate::basis::printable::brief;
use crate::kernel::buffer::{Binding, Descriptor, Role, SpecValue};
use crate::kernel::interface::SpecConstant;
use crate::kernel::program::{BufferId, Dispatch};

/// Most dispatches of one program.
const MAX_DISPATCHES: usize = 1 << 14;

impl Resolver<'_> {
    /// Resolves a program with a choice of its `spec` and `subgroup` at a point, whose `shared` buffers come first;
    /// the inner error says which condition excludes it.
    pub(super) fn passes(
        &mut self,
        program: &LoadedKernel,
        choice: &Kernel,
        axes: &Values,
        shared: &[ResolvedBuffer],
    ) -> Result<Result<PassList, String>, Fault> {
        let mut everything = axes.clone();
        // Expressions outside of a loop see its first round.
        set_indices(&program.stated, &mut everything)?;
        let first = everything.clone();
        for pass in &program.passes {
            PassConstants::new(pass, choice, &first)?.enter(&mut everything);
        }
        if let [pass] = program.passes.as_slice() {
            explain_missing_constants(self.described, pass, &mut everything);
        }
        // Conditions do not apply to a reference.
        let judged = program.passes.iter().all(|pass| pass.prefix != "reference.");
        for (name, formula) in self.described.description.conditions.iter().filter(|_| judged) {
            let fault = |message: String| Fault::new(format!("where.{name}"), message);
            let condition = formula.expression().map_err(fault)?;
            if condition.value(&everything).map_err(fault)? == 0 {
                return Ok(Err(format!("where.{name} does not hold: {}", condition.text())));
            }
        }
        let mut buffers = shared.to_vec();
        buffers.extend(self.buffers(&everything, |role| role == Role::Scratch)?);
        let mut run = Unrolled { resolver: self, program, choice, buffers, passes: vec![] };
        run.unroll(&program.stated, 0, axes, 0)?;
        let Unrolled { mut buffers, passes, .. } = run;
        Ok(Ok(PassList { passes, scratch: buffers.split_off(shared.len()) }))
    }
}

/// Returns the name of the round's number in a pass that runs several times.
fn index(pass: &Kernel) -> &str {
    pass.index.as_deref().unwrap_or("i")
}

/// Sets the loop indices to the first round.
fn set_indices(passes: &[Kernel], scope: &mut Values) -> Result<(), Fault> {
    for pass in passes.iter().filter(|pass| pass.times.is_some()) {
        let index = index(pass);
        let is_name = index.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if index.is_empty() || !is_name || index.as_bytes()[0].is_ascii_digit() {
            let message = format!("'{}' cannot stand in expressions; use letters, digits and _", brief(index));
            return Err(Fault::new("pass.index", message));
        }
        if scope.get(index).is_ok() {
            let message = format!("'{index}' is an axis or the index of another loop; write index = \"round\"");
            return Err(Fault::new("pass.index", message));
        }
        scope.set(index, 0);
        set_indices(&pass.pass, scope)?;
    }
    Ok(())
}

/// Counts the passes with a source in `pass`.
fn sources(pass: &Kernel) -> usize {
    if pass.pass.is_empty() { 1 } else { pass.pass.iter().map(sources).sum() }
}

/// Dispatches of a program, with its loops unrolled.
struct Unrolled<'a, 'r> {
    resolver: &'a mut Resolver<'r>,
    program: &'a LoadedKernel,
    /// Chosen `spec` and `subgroup`.
    choice: &'a Kernel,
    /// Buffers of the point, scratch of the description, and blocks that are given by member.
    buffers: Vec<ResolvedBuffer>,
    passes: Vec<Dispatch<usize>>,
}

impl Unrolled<'_, '_> {
    /// Appends the dispatches of `passes`, the first of which is loaded as number `at`, in this round of the enclosing
    /// loop.
    fn unroll(&mut self, passes: &[Kernel], mut at: usize, scope: &Values, round: usize) -> Result<(), Fault> {
        for pass in passes {
            let fault = |message: String| Fault::new("pass.times", message);
            let times = pass.times.as_ref().map(|times| times.expression().and_then(|times| times.value(scope)));
            let times = times.transpose().map_err(fault)?;
            if let (Some(count), Some(stated)) = (times, &pass.times)
                && !(0..=MAX_DISPATCHES as i64).contains(&count)
            {
                let message = format!("is {count} ('{stated}'); a program has 0 to {MAX_DISPATCHES} rounds");
                return Err(fault(message));
            }
            for number in 0..times.unwrap_or(1) {
                let (mut scope, mut round) = (scope.clone(), round);
                if times.is_some() {
                    scope.set(index(pass), number);
                    round = number as usize;
                }
                if pass.pass.is_empty() {
                    let dispatch = self.pass(&self.program.passes[at], scope, round)?;
                    self.passes.push(dispatch);
                } else {
                    self.unroll(&pass.pass, at, &scope, round)?;
                }
            }
            if self.passes.len() > MAX_DISPATCHES {
                return Err(fault(format!("makes more than {MAX_DISPATCHES} dispatches; use fewer")));
            }
            at += sources(pass);
        }
        Ok(())
    }

    /// Resolves a dispatch of a pass.
    fn pass(&mut self, pass: &LoadedPass, mut scope: Values, round: usize) -> Result<Dispatch<usize>, Fault> {
        let setting = PassConstants::new(pass, self.choice, &scope)?;
        let fault = |message: String| Fault::new(pass.field("spec"), message);
        // Overrides of WGSL are compiled in.
        let baked = !pass.compiled.overrides().is_empty();
        let overrides: &[(String, f64)] = if baked { &setting.overrides } else { &[] };
        let spirv = pass.compiled.spirv(overrides).map_err(fault)?;
        let module = Module { name: pass.source.clone(), spirv, files: pass.compiled.files.clone() };
        if baked {
            // Overrides may have changed the work-group size.
            let interface =
                loaded::interface(&bytes(&module.spirv)).map_err(|e| fault(format!("{}: {e}", pass.source)))?;
            set_local_size(&mut scope, interface.local_size.map(|word| i64::from(word.value(&[]))));
        }
        setting.enter(&mut scope);
        let description = &self.resolver.described.description;
        explain_missing_constants(self.resolver.described, pass, &mut scope);
        let modules = &mut self.resolver.modules;
        let place = modules.iter().position(|known| *known == module).unwrap_or_else(|| {
            modules.push(module);
            modules.len() - 1
        });
        let place = self.resolver.first_module + place;
        let (push, addresses) = Members::push(description, pass).pack(&self.buffers, &scope)?;
        let indirect = indirect(description, pass)?.map(|counts| self.counts(pass, &counts, &scope)).transpose()?;
        Ok(Dispatch {
            constants: if baked { vec![] } else { setting.stated },
            groups: if indirect.is_some() { [1; 3] } else { groups(pass, &scope)? },
            indirect,
            subgroup_size: setting.subgroup,
            push,
            addresses,
            descriptors: self.descriptors(pass, &scope, round)?,
            ..Dispatch::bare(place)
        })
    }

    /// Resolves the buffer and the offset of a pass's indirect grid.
    fn counts(&self, pass: &LoadedPass, counts: &BoundRange, scope: &Values) -> Result<(BufferId, u64), Fault> {
        let fault = |message: String| Fault::new(pass.field("indirect"), message);
        let (offset, _) = counts.bytes(scope).map_err(fault)?;
        let place = place(&self.buffers, &counts.buffer);
        let buffer = &self.buffers[place];
        if !offset.is_multiple_of(4) || offset.checked_add(12).is_none_or(|end| end > buffer.bytes()) {
            let (name, bytes) = (&buffer.name, buffer.bytes());
            return Err(fault(format!(
                "begins at byte {offset} of {name}, which has {bytes} bytes; a grid is three words, at a multiple of four"
            )));
        }
        Ok((BufferId(place), offset))
    }

    fn descriptors(&mut self, pass: &LoadedPass, scope: &Values, round: usize) -> Result<Vec<Descriptor>, Fault> {
        let description = &self.resolver.described.description;
        let mut descriptors = vec![];
        for slot in pass.interface.slots.iter() {
            let mut at = Binding::whole(slot.set, slot.binding, slot.kind, BufferId(0));
            at.element = slot.element;
            if let Some(members) = Members::of_slot(description, pass, slot)? {
                at.buffer = BufferId(self.block(&members, scope)?);
                descriptors.push(Descriptor { at, bytes: None });
                continue;
            }
            let parts = bound(description, pass, slot)?;
            let part = &parts[round % parts.len()];
            at.buffer = BufferId(place(&self.buffers, &part.buffer));
            let ResolvedBuffer { name, .. } = &self.buffers[at.buffer.0];
            let bytes = self.buffers[at.buffer.0].bytes();
            let fault = |message: String| Fault::new(pass.field(&format!("bind.{}", loaded::slot_key(slot))), message);
            (at.offset, at.range) = part.bytes(scope).map_err(fault)?;
            let left = bytes.saturating_sub(at.offset);
            if left == 0 || at.range.is_some_and(|range| range == 0 || range > left) {
                let range = at.range.map_or_else(String::new, |range| format!(" {range} bytes"));
                let offset = at.offset;
                let message = format!("sees{range} from byte {offset} of {name}, which has {bytes}; keep within it");
                return Err(fault(message));
            }
            // An explicit range counts, whatever the block's size is.
            if at.range.is_none() {
                fits_blocks(name, left, &pass.source, slot)?;
            }
            descriptors.push(Descriptor { at, bytes: None });
        }
        Ok(descriptors)
    }

    /// Returns the index of the buffer for a block that is given by member.
    fn block(&mut self, members: &Members<'_>, scope: &Values) -> Result<usize, Fault> {
        let (bytes, addresses) = members.pack(&self.buffers, scope)?;
        let mut block = ResolvedBuffer::new(members.name(), DType::Bytes, vec![bytes.len() as u64], Role::Scratch);
        block.fill = Some(Fill::Block { bytes, addresses });
        let known = self.buffers.iter().position(|known| known.name == block.name && known.fill == block.fill);
        Ok(known.unwrap_or_else(|| {
            self.buffers.push(block);
            self.buffers.len() - 1
        }))
    }
}

/// Returns the index of a described buffer. Scratch may have the name of a buffer of another description, and a block
/// that of a buffer.
pub(super) fn place(buffers: &[ResolvedBuffer], name: &str) -> usize {
    let is_described =
        |buffer: &ResolvedBuffer| buffer.name == name && !matches!(buffer.fill, Some(Fill::Block { .. }));
    buffers.iter().rposition(is_described).expect("each buffer of the description is resolved")
}

/// Pass with the values of its constants.
struct PassConstants<'a> {
    pass: &'a LoadedPass,
    /// Required sub-group size.
    subgroup: Option<u32>,
    /// Constants with stated values.
    stated: Vec<SpecValue>,
    /// Integer constants with their values.
    integers: Vec<(&'a SpecConstant, i64)>,
    /// Values of WGSL overrides.
    overrides: Vec<(String, f64)>,
}

impl<'a> PassConstants<'a> {
    fn new(pass: &'a LoadedPass, choice: &Kernel, axes: &Values) -> Result<Self, Fault> {
        let subgroup = choice.subgroups().first().or(pass.stated.subgroups().first());
        let subgroup = subgroup.map(|size| subgroup_size(pass, size, axes)).transpose()?;
        let mut setting = PassConstants { pass, subgroup, stated: vec![], integers: vec![], overrides: vec![] };
        let mut scope = axes.clone();
        let own = pass.stated.spec.iter().map(|(name, value)| (pass.field(&format!("spec.{name}")), name, value));
        let chosen = choice.spec.iter().map(|(name, value)| (format!("spec.{name}"), name, value));
        for (field, name, value) in own.chain(chosen) {
            let Some(constant) = pass.constant(name) else { continue };
            if setting.stated.iter().any(|known| known.id == constant.id) {
                continue;
            }
            let (bits, number) = pack(value, constant.scalar, &scope).map_err(|e| Fault::new(field, e))?;
            if let Some(integer) = constant.scalar.integer(bits) {
                scope.set(&constant.name, integer);
                setting.integers.push((constant, integer));
            }
            // Booleans are `VkBool32`.
            setting.stated.push(SpecValue { id: constant.id, bits, bytes: constant.scalar.bytes() });
            setting.overrides.push((loaded::constant_key(constant), number));
        }
        for constant in pass.interface.constants.iter() {
            let known = setting.stated.iter().any(|stated| stated.id == constant.id);
            if let (false, Some(integer)) = (known, constant.scalar.integer(constant.default)) {
                setting.integers.push((constant, integer));
            }
        }
        Ok(setting)
    }

    /// Makes the constants and the work-group size available to expressions.
    fn enter(&self, scope: &mut Values) {
        for (constant, value) in self.integers.iter().filter(|(constant, _)| !constant.name.is_empty()) {
            scope.set(&constant.name, *value);
        }
        if let Some(size) = self.subgroup {
            scope.set("subgroup", size.into());
        }
        let value = |id| self.integers.iter().find(|(constant, _)| constant.id == id).map(|(_, value)| *value);
        set_local_size(scope, self.pass.local_size(value));
    }
}
/// Evaluates a required sub-group size.
fn subgroup_size(pass: &LoadedPass, stated: &Formula, scope: &Values) -> Result<u32, Fault> {
    let fault = |message: String| Fault::new(pass.field("subgroup"), message);
    let value = stated.expression().and_then(|e| e.value(scope)).map_err(fault)?;
    let size = u32::try_from(value).ok().filter(|size| size.is_power_of_two() && *size <= 128);
    size.ok_or_else(|| fault(format!("is {value} ('{stated}'); sub-groups have 1, 2, 4, … 128 invocations")))
}

/// Explains in expressions why the description's specialization constants that the kernel lacks have no value.
fn explain_missing_constants(described: &Described, pass: &LoadedPass, scope: &mut Values) {
    let spec = &described.description.spec;
    let remedy = match pass.prefix {
        "" => "describe it in a file of its own, with its own groups, and name both files",
        "reference." => "state the groups of [reference]",
        _ => "leave it out of this expression",
    };
    for name in spec.names().into_iter().filter(|name| pass.constant(name).is_none()) {
        scope.set_reason(name, &format!("a specialization constant that {} does not have; {remedy}", pass.file()));
    }
}

/// Makes the extents of the work-group available to expressions.
fn set_local_size(scope: &mut Values, extents: [i64; 3]) {
    for (name, extent) in ["local_x", "local_y", "local_z"].into_iter().zip(extents) {
        scope.set(name, extent);
    }
}

/// Evaluates the work-groups along x, y, z.
fn groups(pass: &LoadedPass, scope: &Values) -> Result<[u64; 3], Fault> {
    let field = pass.field("groups");
    let Some(stated) = &pass.stated.groups else {
        let message = "is missing; say how many work-groups along x, y, z: [\"cdiv(N, local_x)\", 1, 1]";
        return Err(Fault::new(field, message));
    };
    if !(1..=3).contains(&stated.values().len()) {
        return Err(Fault::new(field, format!("has {} extents; write 1 to 3, for x, y, z", stated.values().len())));
    }
    let mut groups = [1; 3];
    for ((extent, formula), axis) in groups.iter_mut().zip(stated.values()).zip(["x", "y", "z"]) {
        let expression = formula.expression().map_err(|e| Fault::new(&field, e))?;
        let value = expression.value(scope).map_err(|e| Fault::new(&field, e))?;
        *extent = u64::from(u32::try_from(value).ok().filter(|value| *value > 0).ok_or_else(|| {
            let message = format!("is {value} along {axis} ('{}'); use 1 to 2^32 - 1 work-groups", expression.text());
            Fault::new(&field, message)
        })?);
    }
    Ok(groups)
}
