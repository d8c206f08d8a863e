//! Resolves the passes of a configuration: constants, grid, push constants and bindings at a point.

use super::buffers::{Roles, bound, buffers, fits_blocks, indirect};
use super::description::{Described, Fault, Formula, OrderedMap};
use super::expression::Values;
use super::loaded::{self, LoadedKernel, LoadedPass, PassOrder, bytes};
use super::members::{BufferPart, Members, pack};
use super::resolved::{Fill, Module, PassList, ResolvedBuffer};
use crate::basis::dtype::DType;
use crate::basis::printable::brief;
use crate::kernel::buffer::{Binding, Descriptor, Role, SpecValue};
use crate::kernel::interface::SpecConstant;
use crate::kernel::program::{BufferId, Dispatch};

/// Most dispatches of one program.
const MAX_DISPATCHES: usize = 1 << 14;

/// Choice among the values that a description lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// Specialization constants.
    pub constants: OrderedMap<Formula>,
    /// Required sub-group size.
    pub subgroup: Option<Formula>,
}

/// Resolves a program with a choice of its specialization constants at a point; the inner error says which condition
/// excludes it.
pub(crate) fn resolve_passes(
    described: &Described,
    roles: &Roles,
    program: &LoadedKernel,
    choice: &Choice,
    axes: &Values,
    modules: &mut Vec<Module>,
) -> Result<Result<PassList, String>, Fault> {
    let mut everything = axes.clone();
    // Expressions outside of a loop see its first round.
    set_indices(&program.order, &mut everything)?;
    let first = everything.clone();
    for pass in &program.passes {
        PassConstants::new(pass, choice, &first)?.enter(&mut everything);
    }
    if let [pass] = program.passes.as_slice() {
        explain_missing_constants(described, pass, &mut everything);
    }
    // Conditions do not apply to a reference.
    let judged = program.passes.iter().all(|pass| pass.prefix != "reference.");
    for (name, formula) in described.description.conditions.iter().filter(|_| judged) {
        let fault = |message: String| Fault::new(format!("where.{name}"), message);
        let condition = formula.expression().map_err(fault)?;
        if condition.value(&everything).map_err(fault)? == 0 {
            return Ok(Err(format!("where.{name} does not hold: {}", condition.text())));
        }
    }
    let mut all = buffers(described, roles, axes, |role| role != Role::Scratch)?;
    let shared = all.len();
    all.extend(buffers(described, roles, &everything, |role| role == Role::Scratch)?);
    let mut run = Unrolled { described, roles, program, choice, modules, all, passes: vec![] };
    run.unroll(&program.order, axes, 0)?;
    let Unrolled { mut all, passes, .. } = run;
    Ok(Ok(PassList { passes, scratch: all.split_off(shared) }))
}

/// Sets the loop indices to the first round.
fn set_indices(order: &[PassOrder], scope: &mut Values) -> Result<(), Fault> {
    for element in order {
        if let PassOrder::Loop { index, body, .. } = element {
            let is_name = index.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if index.is_empty() || !is_name || index.as_bytes()[0].is_ascii_digit() {
                let message = format!("'{}' cannot stand in expressions; use letters, digits and _", brief(index));
                return Err(Fault::new("pass.index", message));
            }
            if scope.get(index).is_ok() {
                let message = format!("'{index}' is an axis or the index of another loop; write index = \"round\"");
                return Err(Fault::new("pass.index", message));
            }
            let mut inner = scope.clone();
            inner.set(index, 0);
            set_indices(body, &mut inner)?;
            *scope = inner;
        }
    }
    Ok(())
}

/// Dispatches of a program, with its loops unrolled.
struct Unrolled<'a> {
    described: &'a Described,
    roles: &'a Roles,
    program: &'a LoadedKernel,
    choice: &'a Choice,
    modules: &'a mut Vec<Module>,
    /// Buffers of the point, scratch of the description, and blocks that are given by member.
    all: Vec<ResolvedBuffer>,
    passes: Vec<Dispatch<usize>>,
}

impl Unrolled<'_> {
    /// Appends the dispatches of `order` in this round of the enclosing loop.
    fn unroll(&mut self, order: &[PassOrder], scope: &Values, round: usize) -> Result<(), Fault> {
        for element in order {
            match element {
                PassOrder::Pass(at) => {
                    let setting = PassConstants::new(&self.program.passes[*at], self.choice, scope)?;
                    let pass = self.pass(&setting, scope, round)?;
                    self.passes.push(pass);
                }
                PassOrder::Loop { times, index, body } => {
                    let fault = |message: String| Fault::new("pass.times", message);
                    let count = times.expression().and_then(|e| e.value(scope)).map_err(fault)?;
                    if !(0..=MAX_DISPATCHES as i64).contains(&count) {
                        let message = format!("is {count} ('{times}'); a program has 0 to {MAX_DISPATCHES} rounds");
                        return Err(fault(message));
                    }
                    for round in 0..count {
                        let mut inner = scope.clone();
                        inner.set(index, round);
                        self.unroll(body, &inner, round as usize)?;
                    }
                }
            }
            if self.passes.len() > MAX_DISPATCHES {
                return Err(Fault::new(
                    "pass.times",
                    format!("makes more than {MAX_DISPATCHES} dispatches; use fewer"),
                ));
            }
        }
        Ok(())
    }
}

/// Pass with the values of its constants.
struct PassConstants<'a> {
    pass: &'a LoadedPass,
    /// Required sub-group size.
    subgroup: Option<u32>,
    /// Constants with stated values.
    stated: Vec<SpecValue>,
    /// Integer constants with their values.
    integers: Vec<IntegerConstant>,
    /// Values of WGSL overrides.
    overrides: Vec<(String, f64)>,
}

/// Integer specialization constant with its value.
struct IntegerConstant {
    id: u32,
    value: i64,
    name: String,
}

impl IntegerConstant {
    fn new(constant: &SpecConstant, value: i64) -> Self {
        Self { id: constant.id, value, name: constant.name.to_string() }
    }
}

impl<'a> PassConstants<'a> {
    fn new(pass: &'a LoadedPass, choice: &Choice, axes: &Values) -> Result<Self, Fault> {
        let subgroup = choice.subgroup.as_ref().or_else(|| pass.subgroups().first());
        let subgroup = subgroup.map(|size| subgroup_size(pass, size, axes)).transpose()?;
        let mut setting = PassConstants { pass, subgroup, stated: vec![], integers: vec![], overrides: vec![] };
        let mut scope = axes.clone();
        let chosen = choice.constants.iter().map(|(name, value)| (name, value, false));
        for (name, value, of_pass) in pass.stated.spec.iter().map(|(name, value)| (name, value, true)).chain(chosen) {
            let Some(constant) = pass.constant(name) else { continue };
            if setting.stated.iter().any(|known| known.id == constant.id) {
                continue;
            }
            let field = if of_pass { pass.field(&format!("spec.{name}")) } else { format!("spec.{name}") };
            let (bits, number) = pack(value, constant.scalar, &scope).map_err(|e| Fault::new(field, e))?;
            if let Some(integer) = constant.scalar.integer(bits) {
                scope.set(&constant.name, integer);
                setting.integers.push(IntegerConstant::new(constant, integer));
            }
            // Booleans are `VkBool32`.
            setting.stated.push(SpecValue { id: constant.id, bits, bytes: constant.scalar.bytes() });
            setting.overrides.push((loaded::constant_key(constant), number));
        }
        for constant in pass.interface.constants.iter() {
            let known = setting.stated.iter().any(|stated| stated.id == constant.id);
            if let (false, Some(integer)) = (known, constant.scalar.integer(constant.default)) {
                setting.integers.push(IntegerConstant::new(constant, integer));
            }
        }
        Ok(setting)
    }

    /// Makes the constants and the work-group size available to expressions.
    fn enter(&self, scope: &mut Values) {
        for constant in self.integers.iter().filter(|constant| !constant.name.is_empty()) {
            scope.set(&constant.name, constant.value);
        }
        if let Some(size) = self.subgroup {
            scope.set("subgroup", size.into());
        }
        let values: Vec<(u32, i64)> = self.integers.iter().map(|constant| (constant.id, constant.value)).collect();
        set_local_size(scope, self.pass.local_size(&values));
    }
}

impl Unrolled<'_> {
    /// Resolves a dispatch of a pass.
    fn pass(&mut self, setting: &PassConstants<'_>, axes: &Values, round: usize) -> Result<Dispatch<usize>, Fault> {
        let pass = setting.pass;
        let mut scope = axes.clone();
        let fault = |message: String| Fault::new(pass.field("spec"), message);
        let baked = pass.has_overrides();
        let overrides: &[(String, f64)] = if baked { &setting.overrides } else { &[] };
        let module = pass.module(overrides).map_err(fault)?;
        if baked {
            // Overrides may have changed the work-group size.
            let interface =
                loaded::interface(&bytes(&module.spirv)).map_err(|e| fault(format!("{}: {e}", pass.source)))?;
            set_local_size(&mut scope, interface.local_size.map(|word| i64::from(word.value(&[]))));
        }
        setting.enter(&mut scope);
        explain_missing_constants(self.described, pass, &mut scope);
        let place = self.modules.iter().position(|known| *known == module).unwrap_or_else(|| {
            self.modules.push(module);
            self.modules.len() - 1
        });
        let description = &self.described.description;
        let (push, addresses) = Members::push(description, pass).pack(self.roles, &scope)?;
        let indirect = indirect(description, pass)?.map(|counts| self.counts(pass, &counts, &scope)).transpose()?;
        Ok(Dispatch {
            constants: if baked { vec![] } else { setting.stated.clone() },
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
    fn counts(&self, pass: &LoadedPass, counts: &BufferPart, scope: &Values) -> Result<(BufferId, u64), Fault> {
        let fault = |message: String| Fault::new(pass.field("indirect"), message);
        let (offset, _) = counts.bytes(scope).map_err(fault)?;
        let place = self.roles.place(counts.buffer);
        let buffer = &self.all[place];
        if !offset.is_multiple_of(4) || offset.checked_add(12).is_none_or(|end| end > buffer.bytes()) {
            let message = format!(
                "begins at byte {offset} of {}, which has {} bytes; a grid is three words, at a multiple of four",
                buffer.name,
                buffer.bytes()
            );
            return Err(fault(message));
        }
        Ok((BufferId(place), offset))
    }

    fn descriptors(&mut self, pass: &LoadedPass, scope: &Values, round: usize) -> Result<Vec<Descriptor>, Fault> {
        let description = &self.described.description;
        let mut descriptors = vec![];
        for slot in pass.interface.slots.iter() {
            let (set, binding, kind) = (slot.set, slot.binding, slot.kind);
            let bind = |place| Binding { element: slot.element, ..Binding::whole(set, binding, kind, BufferId(place)) };
            if let Some(members) = Members::of_slot(description, pass, slot)? {
                descriptors.push(Descriptor { at: bind(self.block(&members, scope)?), bytes: None });
                continue;
            }
            let parts = bound(description, pass, slot)?;
            let part = &parts[round % parts.len()];
            let place = self.roles.place(part.buffer);
            let buffer = &self.all[place];
            let field = pass.field(&format!("bind.{}", loaded::slot_key(slot)));
            let fault = |message: String| Fault::new(field.clone(), message);
            let (offset, range) = part.bytes(scope).map_err(fault)?;
            let left =
                buffer.bytes().checked_sub(offset).filter(|left| *left > 0 && range.is_none_or(|range| range <= *left));
            let Some(left) = left.filter(|_| range != Some(0)) else {
                let range = range.map_or_else(String::new, |range| format!(" {range} bytes"));
                let (name, bytes) = (&buffer.name, buffer.bytes());
                return Err(fault(format!(
                    "sees{range} from byte {offset} of {name}, which has {bytes}; keep within it"
                )));
            };
            // An explicit range counts, whatever the block's size is.
            if range.is_none() {
                fits_blocks(&buffer.name, left, &pass.source, slot)?;
            }
            descriptors.push(Descriptor { at: Binding { offset, range, ..bind(place) }, bytes: None });
        }
        Ok(descriptors)
    }

    /// Returns the index of the buffer for a block that is given by member.
    fn block(&mut self, members: &Members<'_>, scope: &Values) -> Result<usize, Fault> {
        let (bytes, addresses) = members.pack(self.roles, scope)?;
        let shape = vec![bytes.len() as u64];
        let fill = Some(Fill::Block { bytes, addresses });
        let known = self.all.iter().position(|buffer| buffer.name == members.name() && buffer.fill == fill);
        Ok(known.unwrap_or_else(|| {
            self.all.push(ResolvedBuffer {
                fill,
                ..ResolvedBuffer::new(members.name(), DType::Bytes, shape, Role::Scratch)
            });
            self.all.len() - 1
        }))
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
