//! Resolves the buffers of a description: their blocks, roles, fills, checks and extents.

use super::description::{BoundBuffer, BoundRange, DescribedBuffer, Description, Fault, Formula};
use super::expression::Values;
use super::fill;
use super::init;
use super::loaded::{LoadedKernel, LoadedPass, slot_key};
use super::members::{Members, part};
use super::resolve::Resolver;
use super::resolved::{Fill, ResolvedBuffer, Tolerance};
use super::written;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::printable::brief;
use crate::basis::units::Bytes;
use crate::kernel::buffer::Role;
use crate::kernel::interface::{Block, Scalar, Slot};

/// Determines the role of each buffer. Every buffer must be bound by a kernel, and every block to a buffer.
pub(super) fn roles(description: &Description, programs: &[&LoadedKernel]) -> Result<Vec<Role>, Fault> {
    // Whether a kernel may write to each buffer; `None` without a kernel that binds it.
    let mut writable: Vec<Option<bool>> = vec![None; description.buffer.0.len()];
    let passes = || programs.iter().flat_map(|program| &program.passes);
    let mut see = |buffer: &str, writes: bool| {
        if let Some(at) = description.buffer.0.iter().position(|(name, _)| name == buffer) {
            writable[at] = Some(writable[at] == Some(true) || writes);
        }
    };
    for pass in passes() {
        check_binds(description, pass, programs)?;
        for slot in pass.interface.slots.iter() {
            if let Some(members) = Members::of_slot(description, pass, slot)? {
                members.pointers()?.iter().for_each(|pointer| see(&pointer.buffer, true));
                continue;
            }
            for part in bound(description, pass, slot)? {
                fits_type(description, &part.buffer, pass, slot)?;
                see(&part.buffer, slot.is_writable());
            }
        }
        Members::push(description, pass).pointers()?.iter().for_each(|pointer| see(&pointer.buffer, true));
        if let Some(counts) = indirect(description, pass)? {
            see(&counts.buffer, false);
        }
        pass.compiled.unused.iter().for_each(|name| see(name, true));
    }
    let mut roles = vec![];
    for ((name, stated), writable) in description.buffer.iter().zip(writable) {
        roles.push((name, stated, writable.ok_or_else(|| unbound(description, name, programs))?));
    }
    roles.into_iter().map(|(name, stated, writable)| role(description, name, stated, writable)).collect()
}

/// Explains that no kernel binds a buffer.
fn unbound(description: &Description, name: &str, programs: &[&LoadedKernel]) -> Fault {
    let passes = || programs.iter().flat_map(|program| &program.passes);
    let slots = || passes().flat_map(|pass| pass.interface.slots.iter());
    let by_member = |slot: &Slot| {
        slot.is_called(name) && description.uniform.names().into_iter().any(|block| slot.is_called(block))
    };
    let message = if slots().any(by_member) {
        "is given member by member in [uniform]; keep one of them".into()
    } else {
        let all: Vec<String> = passes().map(LoadedPass::listing).filter(|listing| !listing.is_empty()).collect();
        let known: Vec<_> = slots().flat_map(Slot::names).collect();
        let question = error::meant(name, &known).map_or_else(String::new, |question| format!("{question} "));
        format!("unknown block '{}'; {question}kernels bind: {}", brief(name), all.join("; "))
    };
    Fault::new(format!("buffer.{name}"), message)
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
        bounds.values().iter().try_for_each(|bound| part(description, &field, bound).map(drop))?;
    }
    Ok(())
}

/// Returns the buffer that holds the grid of a pass. Refuses a grid stated in addition.
pub(super) fn indirect(description: &Description, pass: &LoadedPass) -> Result<Option<BoundRange>, Fault> {
    let (Some(text), field) = (&pass.stated.indirect, pass.field("indirect")) else { return Ok(None) };
    if pass.stated.groups.is_some() {
        return Err(Fault::new(field, "stands beside groups; keep one of them"));
    }
    part(description, &field, &BoundBuffer::Name(text.clone())).map(Some)
}

/// Returns the buffers that are bound to a slot of a pass: one, or one per round.
pub(super) fn bound(description: &Description, pass: &LoadedPass, slot: &Slot) -> Result<Vec<BoundRange>, Fault> {
    if let Some((block, bounds)) = pass.stated.bind.iter().find(|(block, _)| slot.is_called(block)) {
        let field = pass.field(&format!("bind.{block}"));
        return bounds.values().iter().map(|bound| part(description, &field, bound)).collect();
    }
    let Slot { set, binding, .. } = slot;
    match &description.buffer.names().into_iter().filter(|name| slot.is_called(name)).collect::<Vec<_>>()[..] {
        [buffer] => Ok(vec![BoundRange::whole(buffer)]),
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
        [first, second, ..] => Err(Fault::new(
            format!("buffer.{second}"),
            format!("is the same buffer as {first}: set {set}, binding {binding}; describe it once"),
        )),
    }
}

/// Checks the element type of a buffer against a block. Kernels may access numbers by their bits, so only floats of a
/// different width are certainly a mistake.
fn fits_type(description: &Description, name: &str, pass: &LoadedPass, slot: &Slot) -> Result<(), Fault> {
    let element = element(description, name)?;
    if !element.is_float() {
        return Ok(());
    }
    let mut floats = vec![];
    for block in slot.blocks.iter() {
        match block.array.and_then(|array| array.scalar) {
            Some(scalar @ (Scalar::Float { .. } | Scalar::Bfloat16)) => floats.push(scalar.name()),
            _ => return Ok(()),
        }
    }
    if !floats.is_empty() && !floats.iter().any(|float| float == element.name()) {
        let message =
            format!("is {element}, but {} declares elements of {}; make them the same", pass.source, floats[0]);
        return Err(Fault::new(format!("buffer.{name}.type"), message));
    }
    Ok(())
}

/// Most bytes of one buffer, more than any device has.
const MAX_BYTES: u64 = 1 << 42;

impl Resolver<'_> {
    /// Resolves the buffers with certain roles at a point. Only scratch may depend on specialization constants.
    pub(super) fn buffers(&self, scope: &Values, wanted: impl Fn(Role) -> bool) -> Result<Vec<ResolvedBuffer>, Fault> {
        let mut of_problem = scope.clone();
        for constant in &self.constants {
            of_problem
                .set_reason(constant, "a specialization constant: only scratch may depend on one, not what is checked");
        }
        let mut all = vec![];
        for ((name, stated), role) in self.described.description.buffer.iter().zip(&self.roles) {
            if wanted(*role) {
                let scope = if *role == Role::Scratch { scope } else { &of_problem };
                all.push(self.buffer(name, stated, *role, scope)?);
            }
        }
        Ok(all)
    }

    /// Resolves a buffer at a point.
    fn buffer(
        &self,
        name: &str,
        stated: &DescribedBuffer,
        role: Role,
        scope: &Values,
    ) -> Result<ResolvedBuffer, Fault> {
        let description = &self.described.description;
        let element = element(description, name)?;
        let fault = |field: &str, message: String| Fault::new(format!("buffer.{name}.{field}"), message);
        let shape = shape(stated, element, scope).map_err(|message| fault("shape", message))?;
        // Inputs without a fill come from a program.
        let fill = match &stated.fill {
            None => role.is_input().then_some(Fill::Made),
            Some(text) => {
                let fill = fill::parse(&scope.replace(text), &self.described.folder, scope);
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
        let checked = stated.check.is_some();
        Ok(ResolvedBuffer { fill, tolerance, checked, ..ResolvedBuffer::new(name, element, shape, role) })
    }
}

/// Evaluates the extents of a buffer.
fn shape(stated: &DescribedBuffer, element: DType, scope: &Values) -> Result<Vec<u64>, String> {
    let Some(shape) = &stated.shape else {
        return Err("is missing; write its extents, the slowest first: [\"M\", \"K\"]".into());
    };
    let expressions = shape.values().iter().map(Formula::expression).collect::<Result<Vec<_>, _>>()?;
    if expressions.is_empty() || expressions.len() > 8 {
        return Err(format!("has {} extents; write 1 to 8", expressions.len()));
    }
    let mut shape = vec![];
    for expression in &expressions {
        let value = expression.value(scope)?;
        if value < 1 {
            return Err(format!("has the extent {value} ('{}'); an extent is 1 or more", expression.text()));
        }
        shape.push(value.cast_unsigned());
    }
    let bytes = shape.iter().try_fold(element.bytes(), |bytes, extent| bytes.checked_mul(*extent));
    if bytes.is_some_and(|bytes| bytes <= MAX_BYTES) {
        return Ok(shape);
    }
    Err(format!("{shape:?} is larger than {}, which no device holds; use smaller extents", Bytes(MAX_BYTES)))
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
