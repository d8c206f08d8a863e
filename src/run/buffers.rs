//! The buffers of a description: which blocks see them, who fills and who checks them, their extents at a point.

use super::description::{Bound, Buffer as Stated, Described, Description, Fault, Formula};
use super::expression::{Expression, Values};
use super::fill;
use super::init;
use super::loaded::{LoadedKernel, LoadedPass, slot_key};
use super::member_map::MemberMap;
use super::members::{Members, Part};
use super::resolved::{Fill, ResolvedBuffer, Tolerance};
use super::written;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::units::Bytes;
use crate::kernel::buffer::Role;
use crate::kernel::interface::{Block, Scalar, Slot};

/// The parts that the buffers of a description play, and what their shapes may not name.
#[derive(Debug)]
pub(crate) struct Roles {
    /// Of each buffer, in the description's order.
    all: Vec<Role>,
    /// The specialization constants, which the shape of scratch alone may name.
    constants: Vec<String>,
}

impl Roles {
    /// The roles of a description's buffers, each of which a kernel must see; every block must see one.
    ///
    /// # Errors
    /// What is missing, unknown or of another type.
    pub(crate) fn of(description: &Description, programs: &[&LoadedKernel]) -> Result<Self, Fault> {
        // Whether a kernel may write to each, where one sees it.
        let mut writable: Vec<Option<bool>> = vec![None; description.buffer.0.len()];
        let passes = || programs.iter().flat_map(|program| &program.passes);
        let mut see = |buffer: usize, writes: bool| writable[buffer] = Some(writable[buffer] == Some(true) || writes);
        for pass in passes() {
            known_binds(description, pass, programs)?;
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
            let unused = |name: &String| description.buffer.0.iter().position(|(own, _)| own == name);
            pass.unused().iter().filter_map(unused).for_each(|buffer| see(buffer, true));
        }
        if let Some(unused) = writable.iter().position(Option::is_none) {
            let name = &description.buffer.0[unused].0;
            let by_member = |slot: &Slot| {
                slot.is_called(name) && description.uniform.names().into_iter().any(|own| slot.is_called(own))
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

    /// The place of buffer `number` of the description among those of a point, or behind them where it is scratch.
    pub(crate) fn place(&self, number: usize) -> usize {
        let scratch = |roles: &[Role]| roles.iter().filter(|role| **role == Role::Scratch).count();
        let before = &self.all[..number];
        match self.all[number] {
            Role::Scratch => self.all.len() - scratch(&self.all) + scratch(before),
            _ => before.len() - scratch(before),
        }
    }
}

/// The role of a buffer that kernels may write to or not.
fn role(description: &Description, name: &str, stated: &Stated, writable: bool) -> Result<Role, Fault> {
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
        (false, None, None) => fault("fill", format!("is missing, and no kernel writes to it; write {}", fill::FORMS)),
    }
}

/// The type of a buffer.
fn element(description: &Description, name: &str) -> Result<DType, Fault> {
    let stated = description.buffer.get(name).and_then(|buffer| buffer.element.as_deref());
    let field = format!("buffer.{name}.type");
    let Some(text) = stated else {
        let known = DType::OF_BUFFERS.map(DType::name).join(", ");
        return Err(Fault::new(field, format!("is missing; write one of {known}")));
    };
    DType::of_buffer(text).map_err(|e| Fault::new(field, e))
}

/// Checks that `bind` of a pass names blocks that it has, or another kernel with the same `bind`, and buffers that are
/// described.
fn known_binds(description: &Description, pass: &LoadedPass, programs: &[&LoadedKernel]) -> Result<(), Fault> {
    for (block, bounds) in pass.stated.bind.iter() {
        let field = pass.field(&format!("bind.{block}"));
        let has = |pass: &LoadedPass| {
            pass.interface.slots.iter().any(|slot| slot.is_called(block))
                || pass.unused().iter().any(|own| own == block)
        };
        let same = |other: &&LoadedPass| other.prefix == pass.prefix && pass.prefix.is_empty();
        if !has(pass) && !programs.iter().flat_map(|program| &program.passes).filter(same).any(has) {
            let known: Vec<&str> = pass.interface.slots.iter().flat_map(Slot::names).collect();
            return Err(Fault::new(field, error::unknown("block", block, "", &known)));
        }
        if bounds.values().is_empty() {
            return Err(Fault::new(field, "is an empty list; name a buffer"));
        }
        bounds.values().iter().try_for_each(|bound| Part::of(description, &field, bound).map(drop))?;
    }
    Ok(())
}

/// The buffer of the description that has the grid of a pass.
///
/// # Errors
/// When there is no such buffer, or a grid is stated too.
pub(crate) fn indirect(description: &Description, pass: &LoadedPass) -> Result<Option<Part>, Fault> {
    let (Some(text), field) = (&pass.stated.indirect, pass.field("indirect")) else { return Ok(None) };
    if pass.stated.groups.is_some() {
        return Err(Fault::new(field, "stands beside groups; keep one of them"));
    }
    Part::of(description, &field, &Bound::Name(text.clone())).map(Some)
}

/// The buffers of the description that a slot of a pass sees: one, or one after the other.
///
/// # Errors
/// When there is none, or several at once.
pub(crate) fn bound(description: &Description, pass: &LoadedPass, slot: &Slot) -> Result<Vec<Part>, Fault> {
    if let Some((block, bounds)) = pass.stated.bind.iter().find(|(block, _)| slot.is_called(block)) {
        let field = pass.field(&format!("bind.{block}"));
        return bounds.values().iter().map(|bound| Part::of(description, &field, bound)).collect();
    }
    let by_name = description.buffer.0.iter().enumerate().filter(|(_, (name, _))| slot.is_called(name));
    let Slot { set, binding, .. } = slot;
    match by_name.map(|(index, _)| index).collect::<Vec<_>>().as_slice() {
        &[buffer] => Ok(vec![Part { buffer, offset: None, range: None }]),
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

/// Checks that the elements of a buffer can be those of a block. Kernels may take numbers apart by their bits, so that
/// only floats of another width are a mistake for certain.
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
    if floats.len() == scalars.len() && !floats.is_empty() && !floats.iter().any(|own| own == element.name()) {
        let message =
            format!("is {element}, but {} declares elements of {}; make them the same", pass.source, floats[0]);
        return Err(Fault::new(format!("buffer.{name}.type"), message));
    }
    Ok(())
}

/// Most bytes of one buffer: what no device has.
const MOST_BYTES: u64 = 1 << 42;

/// The buffers with a wanted role at a point; scratch may depend on specialization constants.
///
/// # Errors
/// An extent that makes no sense, a file that does not fit.
pub(crate) fn buffers(
    described: &Described,
    roles: &Roles,
    scope: &Values,
    wanted: impl Fn(Role) -> bool,
) -> Result<Vec<ResolvedBuffer>, Fault> {
    let mut of_problem = scope.clone();
    for constant in &roles.constants {
        of_problem.bar(constant, "a specialization constant: only scratch may depend on one, not what is checked");
    }
    let all = described.description.buffer.iter().zip(&roles.all).filter(|(_, role)| wanted(**role));
    all.map(|((name, stated), role)| {
        let scope = if *role == Role::Scratch { scope } else { &of_problem };
        at_point(described, name, stated, *role, scope)
    })
    .collect()
}

/// A buffer at a point.
fn at_point(
    described: &Described,
    name: &str,
    stated: &Stated,
    role: Role,
    scope: &Values,
) -> Result<ResolvedBuffer, Fault> {
    let description = &described.description;
    let element = element(description, name)?;
    let fault = |field: &str, message: String| Fault::new(format!("buffer.{name}.{field}"), message);
    let shape = shape(stated, element, scope).map_err(|message| fault("shape", message))?;
    // Those that no program supplies have one in the description.
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
            // As programs number them: scratch comes last.
            let of_problem = description.buffer.iter().filter(|(_, buffer)| !buffer.scratch);
            let names: Vec<&str> = of_problem.map(|(name, _)| name).collect();
            check.tolerance(&format!("buffer.{name}.check"), &names)?
        }
        None => init::usual(element),
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
    let (name, checked, members) = (name.to_string(), stated.check.is_some(), MemberMap::default());
    Ok(ResolvedBuffer { name, element, shape, role, fill, tolerance, checked, members })
}

/// The extents of a buffer.
fn shape(stated: &Stated, element: DType, scope: &Values) -> Result<Vec<u64>, String> {
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
    match bytes.filter(|bytes| *bytes <= MOST_BYTES) {
        Some(_) => Ok(shape),
        None => {
            Err(format!("{shape:?} is larger than {}, which no device holds; use smaller extents", Bytes(MOST_BYTES)))
        }
    }
}

/// Checks that a buffer of so many bytes is one that a slot can see: at least one of its blocks.
///
/// # Errors
/// What it should have.
pub(crate) fn fits_blocks(name: &str, bytes: u64, source: &str, slot: &Slot) -> Result<(), Fault> {
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
