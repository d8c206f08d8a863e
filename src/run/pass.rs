//! The passes of a configuration: constants, grid, push constants and bindings of each kernel at a point.

use super::buffers::{DescribedBuffer, addressed, bound, buffers, fits_blocks};
use super::description::{Described, Fault, Formula, Named, OTHERS};
use super::expression::Values;
use super::loaded::{self, LoadedKernel, LoadedPass, bytes};
use super::resolved::{Buffer, Module, Pass, PassList};
use crate::kernel::buffer::{Address, Binding, Role, SpecValue};
use crate::kernel::interface::{ArgumentKind, Scalar};
use crate::kernel::program::BufferId;
use half::{bf16, f16};

/// What a program with a choice of its specialization constants does at a point, or why it is not asked to: the name of a
/// condition that does not hold.
///
/// # Errors
/// What is wrong with a field.
pub(crate) fn settle(
    described: &Described,
    table: &[DescribedBuffer],
    program: &LoadedKernel,
    choice: &Named<Formula>,
    axes: &Values,
    modules: &mut Vec<Module>,
) -> Result<Result<PassList, String>, Fault> {
    let settings = program.passes.iter().map(|pass| Setting::new(pass, choice, axes)).collect::<Result<Vec<_>, _>>()?;
    let mut everything = axes.clone();
    for setting in &settings {
        setting.enter(&mut everything);
    }
    // A reference does not compete.
    let judged = program.passes.iter().all(|pass| pass.prefix != "reference.");
    for (name, formula) in described.description.conditions.iter().filter(|_| judged) {
        let fault = |message: String| Fault::new(format!("where.{name}"), message);
        let condition = formula.expression().map_err(fault)?;
        if condition.value(&everything).map_err(fault)? == 0 {
            return Ok(Err(format!("where.{name} does not hold: {}", condition.text())));
        }
    }
    let shared = buffers(described, table, axes, |role| role != Role::Scratch)?;
    let scratch = buffers(described, table, &everything, |role| role == Role::Scratch)?;
    let all: Vec<&Buffer> = shared.iter().chain(&scratch).collect();
    let mut passes = vec![];
    for setting in &settings {
        passes.push(setting.pass(described, table, axes, &all, modules)?);
    }
    Ok(Ok(PassList { passes, scratch }))
}

/// A pass with the values of its constants.
struct Setting<'a> {
    pass: &'a LoadedPass,
    /// The constants that are stated.
    stated: Vec<SpecValue>,
    /// Integer values of all constants, by id, and their names.
    integers: Vec<(u32, i64, String)>,
    /// Values for naga.
    overrides: Vec<(String, f64)>,
}

impl<'a> Setting<'a> {
    fn new(pass: &'a LoadedPass, choice: &Named<Formula>, axes: &Values) -> Result<Self, Fault> {
        let mut setting = Setting { pass, stated: vec![], integers: vec![], overrides: vec![] };
        let mut scope = axes.clone();
        let chosen = choice.iter().map(|(name, value)| (name, value, false));
        for (name, value, own) in pass.spec.iter().map(|(name, value)| (name, value, true)).chain(chosen) {
            let Some(constant) = pass.constant(name) else { continue };
            if setting.stated.iter().any(|known| known.id == constant.id) {
                continue;
            }
            let field = if own { pass.field(&format!("spec.{name}")) } else { format!("spec.{name}") };
            let (bits, number) = pack(value, constant.scalar, &scope).map_err(|e| Fault::new(field, e))?;
            if let Some(integer) = constant.scalar.integer(bits) {
                scope.set(&constant.name, integer);
                setting.integers.push((constant.id, integer, constant.name.to_string()));
            }
            // Booleans are `VkBool32`.
            setting.stated.push(SpecValue { id: constant.id, bits, bytes: constant.scalar.bytes() });
            setting.overrides.push((loaded::constant_key(constant), number));
        }
        for constant in pass.interface.constants.iter() {
            let known = setting.stated.iter().any(|stated| stated.id == constant.id);
            if let (false, Some(integer)) = (known, constant.scalar.integer(constant.default)) {
                setting.integers.push((constant.id, integer, constant.name.to_string()));
            }
        }
        Ok(setting)
    }

    /// Adds the constants and the work-group size to what expressions may name.
    fn enter(&self, scope: &mut Values) {
        for (_, value, name) in self.integers.iter().filter(|(_, _, name)| !name.is_empty()) {
            scope.set(name, *value);
        }
        let values: Vec<(u32, i64)> = self.integers.iter().map(|(id, value, _)| (*id, *value)).collect();
        name_group(scope, self.pass.local_size(&values));
    }

    fn pass(
        &self,
        described: &Described,
        table: &[DescribedBuffer],
        axes: &Values,
        all: &[&Buffer],
        modules: &mut Vec<Module>,
    ) -> Result<Pass, Fault> {
        let pass = self.pass;
        let mut scope = axes.clone();
        let fault = |message: String| Fault::new(pass.field("spec"), message);
        let baked = pass.has_overrides();
        let overrides: &[(String, f64)] = if baked { &self.overrides } else { &[] };
        let module = pass.module(overrides).map_err(fault)?;
        if baked {
            // The size of the work-group is known only now.
            let interface =
                loaded::interface(&bytes(&module.spirv)).map_err(|e| fault(format!("{}: {e}", pass.source)))?;
            name_group(&mut scope, interface.local_size.map(|word| i64::from(word.value(&[]))));
        }
        self.enter(&mut scope);
        let place = modules.iter().position(|known| *known == module).unwrap_or_else(|| {
            modules.push(module);
            modules.len() - 1
        });
        let (push, addresses) = self.push(described, table, &scope)?;
        let constants = if baked { vec![] } else { self.stated.clone() };
        Ok(Pass {
            module: place,
            constants,
            groups: groups(pass, &scope)?,
            push,
            addresses,
            bindings: self.bindings(described, table, all)?,
        })
    }

    /// The push-constant block, and where addresses go in it.
    fn push(
        &self,
        described: &Described,
        table: &[DescribedBuffer],
        scope: &Values,
    ) -> Result<(Vec<u8>, Vec<Address>), Fault> {
        let (pass, description) = (self.pass, &described.description);
        let mut block = vec![0; (pass.interface.argument_bytes() as usize).next_multiple_of(4)];
        let (mut addresses, mut missing) = (vec![], vec![]);
        for member in pass.interface.arguments.iter() {
            let start = member.offset as usize;
            let scalar = match member.kind {
                ArgumentKind::Address => {
                    let buffer = DescribedBuffer::place(table, addressed(description, pass, &member.name)?);
                    addresses.push(Address { offset: member.offset, buffer: BufferId(buffer) });
                    continue;
                }
                ArgumentKind::Scalar(scalar) => scalar,
            };
            let by_name = |table: &'_ Named<Formula>| table.get(&member.name).cloned();
            // An axis of the same name goes without saying.
            let axis = || description.axes.get(&member.name).map(|_| Formula::Text(member.name.to_string()));
            let others = || pass.push.get(OTHERS).or_else(|| description.push.get(OTHERS)).cloned();
            let stated = by_name(&pass.push).or_else(|| by_name(&description.push));
            let Some(value) = stated.or_else(axis).or_else(others) else {
                missing.push(if member.name.is_empty() { format!("byte {start}") } else { member.name.to_string() });
                continue;
            };
            let field = || pass.field(&format!("push.{}", member.name));
            let (bits, _) = pack(&value, scalar, scope).map_err(|e| Fault::new(field(), e))?;
            let bytes = scalar.bytes() as usize;
            block[start..start + bytes].copy_from_slice(&bits.to_le_bytes()[..bytes]);
        }
        match missing.first() {
            None => Ok((block, addresses)),
            Some(first) => Err(Fault::new(
                pass.field("push"),
                format!("lacks {} of {}; write {first} = … in [push]", missing.join(", "), pass.source),
            )),
        }
    }

    fn bindings(
        &self,
        described: &Described,
        table: &[DescribedBuffer],
        all: &[&Buffer],
    ) -> Result<Vec<Binding>, Fault> {
        let mut bindings = vec![];
        for slot in self.pass.interface.slots.iter() {
            let buffer = DescribedBuffer::place(table, bound(&described.description, self.pass, slot)?);
            if let Some(described) = all.get(buffer) {
                fits_blocks(&described.name, described.bytes(), &self.pass.source, slot)?;
            }
            let (set, binding, kind) = (slot.set, slot.binding, slot.kind);
            bindings.push(Binding { set, binding, kind, buffer: BufferId(buffer) });
        }
        Ok(bindings)
    }
}

/// Lets expressions name the extents of the work-group.
fn name_group(scope: &mut Values, extents: [i64; 3]) {
    for (name, extent) in ["local_x", "local_y", "local_z"].into_iter().zip(extents) {
        scope.set(name, extent);
    }
}

/// Work-groups along x, y, z.
fn groups(pass: &LoadedPass, scope: &Values) -> Result<[u64; 3], Fault> {
    let field = pass.field("groups");
    let Some(stated) = &pass.groups else {
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

/// The value of `formula` as a number of type `scalar`: the bits that a kernel takes, and the number.
fn pack(formula: &Formula, scalar: Scalar, scope: &Values) -> Result<(u64, f64), String> {
    let expression = formula.expression()?;
    if matches!(scalar, Scalar::Float { .. } | Scalar::Bfloat16) {
        let value = expression.number(scope)?;
        let bits = match scalar {
            Scalar::Float { bits: 16 } => f16::from_f64(value).to_bits().into(),
            Scalar::Float { bits: 32 } => (value as f32).to_bits().into(),
            Scalar::Bfloat16 => bf16::from_f64(value).to_bits().into(),
            _ => value.to_bits(),
        };
        return Ok((bits, value));
    }
    let value = expression.value(scope)?;
    let (low, high) = match scalar {
        Scalar::Int { bits: 64, signed: true } => (i64::MIN, i64::MAX),
        Scalar::Int { bits: 64, signed: false } => (0, i64::MAX),
        Scalar::Int { bits, signed: true } => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        Scalar::Int { bits, signed: false } => (0, (1 << bits) - 1),
        _ => (0, 1),
    };
    if !(low..=high).contains(&value) {
        return Err(format!(
            "is {value} ('{}'), but the kernel takes {} from {low} to {high}",
            expression.text(),
            scalar.name()
        ));
    }
    let unused = 64 - 8 * scalar.bytes();
    Ok((value.cast_unsigned() << unused >> unused, value as f64))
}
