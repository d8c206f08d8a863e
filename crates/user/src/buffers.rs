//! Resolves the buffers of a description: their blocks, roles, fills, checks and extents.

use super::description::{BoundBuffer, Described, DescribedBuffer, Description, Fault, Formula};
use super::expression::{Expression, Values};
use super::fill;
use super::init;
use super::loaded::{LoadedKernel, LoadedPass, slot_key};
use super::members::{BufferPart, Members};
use super::resolved::{Fill, ResolvedBuffer, Tolerance};
use super::written;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::units::Bytes;
use crate::kernel::buffer::Role;
use crate::kernel::interface::{Block, Scalar, Slot};

/// Roles of a description's buffers, and names that their shapes must not use.
#[derive(Debug)]
pub struct Roles {
    /// Role of each buffer, in the description's order.
    all: Vec<Role>,
    /// Names of specialization constants; only shapes of scratch buffers may use them.
    constants: Vec<String>,
}

impl Roles {
    /// Determines the roles. Every buffer must be bound by a kernel, and every block to a buffer.
    pub fn of(description: &Description, programs: &[&LoadedKernel]) -> Result<Self, Fault> {
        // Whether a kernel may write to each buffer; `None` without a kernel that binds it.
        let mut writable: Vec<Option<bool>> = vec![None; description.buffer.0.len()];
        let passes = || programs.iter().flat_map(|program| &program.passes);
        let mut see = |buffer: usize, writes: bool| writable[buffer] = Some(writable[buffer] == Some(true) || writes);
        for pass in passes() {
            check_binds(description, pass, programs)?;
            for slot in pass.interface.slots.iter() {
                if let Some(members) = Members::of_slot(description, pass, slot)? {
                    members.pointers()?.into_iter().for_each(|buffer| see(buffer, true));
                    continue;
                }
                for part in bound(description, pass, slot)? {
                    fits_type(description, part.buffer, pass, slot)?;
                    see(part.buffer, slot.is_writable());
                }
            }
            Members::push(description, pass).pointers()?.into_iter().for_each(|buffer| see(buffer, true));
            if let Some(counts) = indirect(description, pass)? {
                see(counts.buffer, false);
            }
            let unused = |name: &String| description.buffer.0.iter().position(|(buffer, _)| buffer == name);
            pass.compiled.unused.iter().filter_map(unused).for_each(|buffer| see(buffer, true));
        }
        if let Some(unused) = writable.iter().position(Option::is_none) {
            let name = &description.buffer.0[unused].0;
            let by_member = |slot: &Slot| {
                slot.is_called(name) && description.uniform.names().into_iter().any(|block| slot.is_called(block))
            };
            if passes().any(|pass| pass.interface.slots.iter().any(by_member)) {
                let message = "is given member by member in [uniform]; keep one of them";
                return Err(Fault::new(format!("buffer.{name}"), message));
            }
            let all: Vec<String> = passes().map(LoadedPass::listing).filter(|listing| !listing.is_empty()).collect();
            let known: Vec<&str> =
                passes().flat_map(|pass| pass.interface.slots.iter().flat_map(Slot::names)).collect();
            let message = error::unknown("block", name, "", &known);
            let message = message.split("; available").next().unwrap_or_default();
            return Err(Fault::new(format!("buffer.{name}"), format!("{message}; kernels bind: {}", all.join("; "))));
        }
        let constants = passes().flat_map(|pass| pass.interface.constants.iter());
        let constants = constants.map(|constant| constant.name.to_string()).collect();
        let names = description.buffer.iter().zip(writable);
        let all = names.map(|((name, stated), writable)| role(description, name, stated, writable == Some(true)));
        Ok(Self { all: all.collect::<Result<_, _>>()?, constants })
    }

    /// Returns the index of a buffer of the description among the point's buffers, or after them for scratch.
    pub fn place(&self, number: usize) -> usize {
        let scratch = |roles: &[Role]| roles.iter().filter(|role| **role == Role::Scratch).count();
        let before = &self.all[..number];
        match self.all[number] {
            Role::Scratch => self.all.len() - scratch(&self.all) + scratch(before),
            _ => before.len() - scratch(before),
        }
    }
}

/// Determines the role of a buffer.
fn role(description: &Description, name: &str, stated: &DescribedBuffer, writable: bool) -> Result<Role, Fault> {
    let fault = |field: &str, message: String| Err(Fault::new(format!("buffer.{name}.{field}"), message));
    let supplied = description.inputs.as_ref().is_some_and(|inputs| inputs.command.is_some());
    match (stated.scratch, &stated.fill, &stated.check) {
        (true, _, None) => Ok(Role::Scratch),
        (true, _, Some(_)) => fault("scratch", "cannot be checked; leave out check, or scratch".into()),
        (false, _, Some(_)) if !writable => {
            fault("check", "is for buffers that kernels write, and every block of this one is readonly".into())
        }
        (false, Some(_), Some(_)) => Ok(Role::InPlace),
        (false, Some(_), None) => Ok(Role::Input),
        (false, None, Some(_)) => Ok(Role::Output),
        (false, None, None) if writable => Ok(Role::Output),
        (false, None, None) if supplied => Ok(Role::Input),
        (false, None, None) => {
            fault("fill", format!("is missing, and no kernel writes to it; write {}", fill::FILL_FORMS))
        }
    }
}

/// Returns the element type of a buffer.
fn element(description: &Description, name: &str) -> Result<DType, Fault> {
    let stated = description.buffer.get(name).and_then(|buffer| buffer.element.as_deref());
    let field = format!("buffer.{name}.type");
    let Some(text) = stated else {
        let known = DType::OF_BUFFERS.map(DType::name).join(", ");
        return Err(Fault::new(field, format!("is missing; write one of {known}")));
    };
    DType::of_buffer(text).map_err(|e| Fault::new(field, e))
}

/// Checks that `bind` of a pass names described buffers, and blocks of this kernel or of another with the same `bind`.
fn check_binds(description: &Description, pass: &LoadedPass, programs: &[&LoadedKernel]) -> Result<(), Fault> {
    for (block, bounds) in pass.stated.bind.iter() {
        let field = pass.field(&format!("bind.{block}"));
        let has = |pass: &LoadedPass| {
            pass.interface.slots.iter().any(|slot| slot.is_called(block))
                || pass.compiled.unused.iter().any(|variable| variable == block)
        };
        let same = |other: &&LoadedPass| other.prefix == pass.prefix && pass.prefix.is_empty();
        if !has(pass) && !programs.iter().flat_map(|program| &program.passes).filter(same).any(has) {
            let known: Vec<&str> = pass.interface.slots.iter().flat_map(Slot::names).collect();
            return Err(Fault::new(field, error::unknown("block", block, "", &known)));
        }
        if bounds.values().is_empty() {
            return Err(Fault::new(field, "is an empty list; name a buffer"));
        }
        bounds.values().iter().try_for_each(|bound| BufferPart::of(description, &field, bound).map(drop))?;
    }
    Ok(())
}

/// Returns the buffer that holds the grid of a pass. Refuses a grid stated in addition.
pub fn indirect(description: &Description, pass: &LoadedPass) -> Result<Option<BufferPart>, Fault> {
    let (Some(text), field) = (&pass.stated.indirect, pass.field("indirect")) else { return Ok(None) };
    if pass.stated.groups.is_some() {
        return Err(Fault::new(field, "stands beside groups; keep one of them"));
    }
    BufferPart::of(description, &field, &BoundBuffer::Name(text.clone())).map(Some)
}

/// Returns the buffers that are bound to a slot of a pass: one, or one per round.
pub fn bound(description: &Description, pass: &LoadedPass, slot: &Slot) -> Result<Vec<BufferPart>, Fault> {
    if let Some((block, bounds)) = pass.stated.bind.iter().find(|(block, _)| slot.is_called(block)) {
        let field = pass.field(&format!("bind.{block}"));
        return bounds.values().iter().map(|bound| BufferPart::of(description, &field, bound)).collect();
    }
    let by_name = description.buffer.0.iter().enumerate().filter(|(_, (name, _))| slot.is_called(name));
    let Slot { set, binding, .. } = slot;
    match by_name.map(|(index, _)| index).collect::<Vec<_>>().as_slice() {
        &[buffer] => Ok(vec![BufferPart { buffer, offset: None, range: None }]),
        [] => {
            let name = slot_key(slot);
            let what = if slot.names().is_empty() { "a block without a name".into() } else { slot.names().join(" = ") };
            Err(Fault::new(
                format!("buffer.{name}"),
                format!(
                    "is missing: {} binds {what} at set {set}, binding {binding}; write [buffer.{}] with type and shape",
                    pass.source,
                    written::key(&name)
                ),
            ))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|index| description.buffer.0[*index].0.as_str()).collect();
            Err(Fault::new(
                format!("buffer.{}", names[1]),
                format!("is the same buffer as {}: set {set}, binding {binding}; describe it once", names[0]),
            ))
        }
    }
}

/// Checks the element type of a buffer against a block. Kernels may access numbers by their bits, so only floats of a
/// different width are certainly a mistake.
fn fits_type(description: &Description, buffer: usize, pass: &LoadedPass, slot: &Slot) -> Result<(), Fault> {
    let name = &description.buffer.0[buffer].0;
    let element = element(description, name)?;
    if !element.is_float() {
        return Ok(());
    }
    let scalars: Vec<Option<Scalar>> =
        slot.blocks.iter().map(|block| block.array.and_then(|array| array.scalar)).collect();
    let float = |scalar: &Option<Scalar>| match scalar {
        Some(scalar @ (Scalar::Float { .. } | Scalar::Bfloat16)) => Some(scalar.name()),
        _ => None,
    };
    let floats: Vec<String> = scalars.iter().filter_map(float).collect();
    if floats.len() == scalars.len() && !floats.is_empty() && !floats.iter().any(|float| float == element.name()) {
        let message =
            format!("is {element}, but {} declares elements of {}; make them the same", pass.source, floats[0]);
        return Err(Fault::new(format!("buffer.{name}.type"), message));
    }
    Ok(())
}

/// Most bytes of one buffer, more than any device has.
const MAX_BYTES: u64 = 1 << 42;

/// Resolves the buffers with certain roles at a point. Only scratch may depend on specialization constants.
pub fn buffers(
    described: &Described,
    roles: &Roles,
    scope: &Values,
    wanted: impl Fn(Role) -> bool,
) -> Result<Vec<ResolvedBuffer>, Fault> {
    let mut of_problem = scope.clone();
    for constant in &roles.constants {
        of_problem
            .set_reason(constant, "a specialization constant: only scratch may depend on one, not what is checked");
    }
    let all = described.description.buffer.iter().zip(&roles.all).filter(|(_, role)| wanted(**role));
    all.map(|((name, stated), role)| {
        let scope = if *role == Role::Scratch { scope } else { &of_problem };
        at_point(described, name, stated, *role, scope)
    })
    .collect()
}

/// Resolves a buffer at a point.
fn at_point(
    described: &Described,
    name: &str,
    stated: &DescribedBuffer,
    role: Role,
    scope: &Values,
) -> Result<ResolvedBuffer, Fault> {
    let description = &described.description;
    let element = element(description, name)?;
    let fault = |field: &str, message: String| Fault::new(format!("buffer.{name}.{field}"), message);
    let shape = shape(stated, element, scope).map_err(|message| fault("shape", message))?;
    // Inputs without a fill come from a program.
    let fill = match &stated.fill {
        None => role.is_input().then_some(Fill::Made),
        Some(text) => {
            let fill = fill::parse(&scope.replace(text), &described.folder, scope);
            let fill = fill.and_then(|fill| fill.check(element, &shape).map(|()| fill));
            Some(fill.map_err(|message| fault("fill", message))?)
        }
    };
    let tolerance = match &stated.check {
        Some(check) => {
            // Programs number scratch buffers last.
            let of_problem = description.buffer.iter().filter(|(_, buffer)| !buffer.scratch);
            let names: Vec<&str> = of_problem.map(|(name, _)| name).collect();
            check.tolerance(&format!("buffer.{name}.check"), &names)?
        }
        None => init::default_tolerance(element),
    };
    match (&tolerance, shape.last()) {
        (Tolerance::Ulp(_), _) if element == DType::Bytes => {
            let message = "counts representable values, which bytes are not; use \"exact\"";
            return Err(fault("check", message.into()));
        }
        (Tolerance::Columns { atol, .. }, Some(columns)) if atol.len() as u64 != *columns => {
            let message = format!("has {} values of atol for {columns} columns; write one for each", atol.len());
            return Err(fault("check", message));
        }
        _ => {}
    }
    Ok(ResolvedBuffer {
        fill,
        tolerance,
        checked: stated.check.is_some(),
        ..ResolvedBuffer::new(name, element, shape, role)
    })
}

/// Evaluates the extents of a buffer.
fn shape(stated: &DescribedBuffer, element: DType, scope: &Values) -> Result<Vec<u64>, String> {
    let Some(shape) = &stated.shape else {
        return Err("is missing; write its extents, the slowest first: [\"M\", \"K\"]".into());
    };
    let shape = shape.values().iter().map(Formula::expression).collect::<Result<Vec<_>, _>>()?;
    if shape.is_empty() || shape.len() > 8 {
        return Err(format!("has {} extents; write 1 to 8", shape.len()));
    }
    let extent = |expression: &Expression| {
        let value = expression.value(scope)?;
        let message = || format!("has the extent {value} ('{}'); an extent is 1 or more", expression.text());
        u64::try_from(value).ok().filter(|value| *value > 0).ok_or_else(message)
    };
    let shape = shape.iter().map(extent).collect::<Result<Vec<_>, _>>()?;
    let bytes = shape.iter().try_fold(element.bytes(), |bytes, extent| bytes.checked_mul(*extent));
    match bytes.filter(|bytes| *bytes <= MAX_BYTES) {
        Some(_) => Ok(shape),
        None => {
            Err(format!("{shape:?} is larger than {}, which no device holds; use smaller extents", Bytes(MAX_BYTES)))
        }
    }
}

/// Checks that `bytes` fits at least one of a slot's blocks.
pub fn fits_blocks(name: &str, bytes: u64, source: &str, slot: &Slot) -> Result<(), Fault> {
    let fits = |block: &Block| match block.array {
        Some(array) => bytes > block.fixed && (bytes - block.fixed).is_multiple_of(array.stride.max(1)),
        None => bytes >= block.fixed,
    };
    if slot.blocks.is_empty() || slot.blocks.iter().any(fits) {
        return Ok(());
    }
    let wanted = slot.blocks.iter().map(|block| match block.array {
        Some(array) if block.fixed > 0 => format!("{} bytes and elements of {}", block.fixed, array.stride),
        Some(array) => format!("elements of {} bytes", array.stride),
        None => format!("{} bytes at least", block.fixed),
    });
    let wanted = wanted.collect::<Vec<_>>().join(" or ");
    Err(Fault::new(
        format!("buffer.{name}.shape"),
        format!("makes {bytes} bytes, but {source} declares {wanted}; make them fit"),
    ))
}
