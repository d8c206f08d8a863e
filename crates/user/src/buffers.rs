//! Resolves the buffers of a description: their blocks, roles, fills, checks and extents.

use super::description::{BoundBuffer, BoundRange, Check, DescribedBuffer, Description, Fault, Formula};
use super::expression::Values;
use super::fill;
use super::init;
use super::loaded::{LoadedPass, OtherKernels, slot_key};
use super::members::{Members, resolve_part};
use super::resolve::Resolver;
use super::resolved::{Fill, ResolvedBuffer, Tolerance};
use super::structure::StructureLayout;
use super::written;
use crate::basis::alike::distinct;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::printable::brief;
use crate::basis::units::Bytes;
use crate::kernel::buffer::Role;
use crate::kernel::interface::{Block, Scalar, Slot};
use std::collections::BTreeSet;

/// Names of the buffers that kernels bind, and of those that they may write.
#[derive(Default)]
pub(super) struct BufferUses {
    bound: BTreeSet<String>,
    written: BTreeSet<String>,
}

impl BufferUses {
    pub(super) fn has(&self, name: &str) -> bool {
        self.bound.contains(name) || self.written.contains(name)
    }
}

/// Determines the role of each buffer. Every buffer must be bound by a kernel, and every block to a buffer.
pub(super) fn find_roles(others: &OtherKernels<'_>, passes: &[&LoadedPass]) -> Result<Vec<Role>, Fault> {
    let description = &others.described.description;
    for pass in passes {
        check_binds(others, pass, passes)?;
    }
    let mut bound = bound_buffers(description, passes)?;
    for name in description.buffer.names() {
        if !bound.has(name) {
            // A kernel that lacks a buffer of the problem leaves it as it is.
            let others = bound_buffers(description, &others.passes(&format!("buffer.{name}"))).unwrap_or_default();
            if !others.has(name) {
                return Err(explain_unbound(description, name, passes));
            }
            bound.written.extend(others.written.get(name).cloned());
        }
    }
    let is_written = |name: &str| bound.written.contains(name);
    let buffers = description.buffer.iter();
    buffers.map(|(name, buffer)| find_role(description, name, buffer, is_written(name))).collect()
}

/// Lists the buffers of a description that `passes` bind.
pub(super) fn bound_buffers(description: &Description, passes: &[&LoadedPass]) -> Result<BufferUses, Fault> {
    let BufferUses { mut bound, mut written } = BufferUses::default();
    for pass in passes {
        let mut pointers = vec![];
        for slot in pass.interface.slots.iter() {
            if let Some(members) = Members::of_slot(description, pass, slot)? {
                pointers.extend(members.pointers()?);
                continue;
            }
            for part in bound_parts(description, pass, slot)? {
                check_float_type(description, &part.buffer, pass, slot)?;
                if slot.is_writable() {
                    written.insert(part.buffer.clone());
                }
                bound.insert(part.buffer);
            }
        }
        pointers.extend(Members::of_push_constants(description, pass).pointers()?);
        // A kernel may write to any buffer whose address it has.
        written.extend(pointers.into_iter().map(|pointer| pointer.buffer));
        bound.extend(find_grid_buffer(description, pass)?.map(|grid| grid.buffer));
        // Nothing is known of blocks that the kernel declares and never uses.
        written.extend(pass.compiled.unused.iter().cloned());
    }
    Ok(BufferUses { bound, written })
}

/// Explains that no kernel binds a buffer.
fn explain_unbound(description: &Description, name: &str, passes: &[&LoadedPass]) -> Fault {
    let slots = || passes.iter().flat_map(|pass| pass.interface.slots.iter());
    let field = format!("buffer.{name}");
    let blocks = description.uniform.names();
    if slots().any(|slot| slot.is_called(name) && blocks.iter().any(|block| slot.is_called(block))) {
        return Fault::new(field, "is given member by member in [uniform]; keep one of them");
    }
    let known: Vec<_> = slots().flat_map(Slot::names).collect();
    let question = error::meant(name, &known).map_or_else(String::new, |question| format!("{question} "));
    let listings = distinct(passes.iter().map(|pass| pass.listing()).filter(|text| !text.is_empty()));
    let listings = listings.join("; ");
    Fault::new(field, format!("unknown block '{}'; {question}kernels bind: {listings}", brief(name)))
}

/// Determines the role of a buffer from its fields and from whether a kernel may write to it.
fn find_role(description: &Description, name: &str, buffer: &DescribedBuffer, is_written: bool) -> Result<Role, Fault> {
    let fault = |field: &str, message: String| Err(Fault::new(format!("buffer.{name}.{field}"), message));
    let has_inputs_command = description.inputs.as_ref().is_some_and(|inputs| inputs.command.is_some());
    match (buffer.is_filled(), buffer.is_checked()) {
        (_, false) if buffer.scratch => Ok(Role::Scratch),
        (_, true) if buffer.scratch => fault("scratch", "cannot be checked; leave out check, or scratch".into()),
        (_, true) if !is_written => {
            fault("check", "is for buffers that kernels write, and every block of this one is readonly".into())
        }
        (true, true) => Ok(Role::InPlace),
        (true, false) => Ok(Role::Input),
        (false, true) => Ok(Role::Output),
        (false, false) if is_written => Ok(Role::Output),
        (false, false) if has_inputs_command => Ok(Role::Input),
        (false, false) => fault("fill", format!("is missing, and no kernel writes to it; write {}", fill::FILL_FORMS)),
    }
}

fn parse_element(name: &str, buffer: &DescribedBuffer) -> Result<DType, Fault> {
    let field = format!("buffer.{name}.type");
    let Some(text) = &buffer.element else {
        let known = DType::OF_BUFFERS.map(DType::name).join(", ");
        return Err(Fault::new(field, format!("is missing; write one of {known}")));
    };
    DType::of_buffer(text).map_err(|e| Fault::new(field, e))
}

/// Checks that `bind` of a pass names described buffers, and blocks that the kernel has. Kernels of one `[kernel]` share
/// its `bind`, so it is enough if one of them has the block.
fn check_binds(others: &OtherKernels<'_>, pass: &LoadedPass, passes: &[&LoadedPass]) -> Result<(), Fault> {
    let description = &others.described.description;
    for (block, bounds) in pass.fields.bind.iter() {
        let field = pass.field(&format!("bind.{block}"));
        let has_block =
            |pass: &LoadedPass| pass.interface.slots.iter().any(|slot| slot.is_called(block)) || pass.has_unused(block);
        let shares_bind = |other: &LoadedPass| pass.prefix.is_empty() && other.prefix.is_empty();
        let is_shared = || passes.iter().any(|other| shares_bind(other) && has_block(other));
        if !has_block(pass) && !is_shared() && !others.passes(&field).into_iter().any(has_block) {
            let known: Vec<&str> = pass.interface.slots.iter().flat_map(Slot::names).collect();
            return Err(Fault::new(field, error::unknown("block", block, "", &known)));
        }
        if bounds.values().is_empty() {
            return Err(Fault::new(field, "is an empty list; name a buffer"));
        }
        for bound in bounds.values() {
            resolve_part(description, &field, bound)?;
        }
    }
    Ok(())
}

/// Returns the buffer that holds the grid of a pass. Refuses a grid stated in addition.
pub(super) fn find_grid_buffer(description: &Description, pass: &LoadedPass) -> Result<Option<BoundRange>, Fault> {
    let Some(text) = &pass.fields.indirect else { return Ok(None) };
    let field = pass.field("indirect");
    if pass.fields.groups.is_some() {
        return Err(Fault::new(field, "stands beside groups; keep one of them"));
    }
    resolve_part(description, &field, &BoundBuffer::Name(text.clone())).map(Some)
}

/// Returns the parts of buffers that are bound to a slot of a pass: one, or one per round of the loop around the pass.
pub(super) fn bound_parts(description: &Description, pass: &LoadedPass, slot: &Slot) -> Result<Vec<BoundRange>, Fault> {
    if let Some((block, bounds)) = pass.fields.bind.iter().find(|(block, _)| slot.is_called(block)) {
        let field = pass.field(&format!("bind.{block}"));
        return bounds.values().iter().map(|bound| resolve_part(description, &field, bound)).collect();
    }
    let Slot { set, binding, .. } = slot;
    let buffers: Vec<&str> = description.buffer.names().into_iter().filter(|name| slot.is_called(name)).collect();
    match buffers[..] {
        [buffer] => Ok(vec![BoundRange::whole(buffer)]),
        [] => {
            let name = slot_key(slot);
            let block =
                if slot.names().is_empty() { "a block without a name".into() } else { slot.names().join(" = ") };
            let strays = description.buffer.names().into_iter().filter(|name| {
                description.pass.is_empty() && !pass.interface.slots.iter().any(|slot| slot.is_called(name))
            });
            let stray = strays.map(|stray| format!(" (no block is called {})", written::key(stray))).next();
            // A reference reads what is described for the kernel.
            let key = written::key(&name);
            let remedy = match &*pass.prefix {
                "" => format!("write [buffer.{key}] with type and shape"),
                "reference." => format!("say which buffer that is, such as reference.bind = {{ {key} = \"X\" }}"),
                _ => format!("say which buffer that is in its [[pass]], such as bind = {{ {key} = \"X\" }}"),
            };
            let message = format!(
                "is missing: {} binds {block} at set {set}, binding {binding}; {remedy}{}",
                pass.source,
                stray.unwrap_or_default()
            );
            Err(Fault::new(format!("buffer.{name}"), message))
        }
        [first, second, ..] => {
            let message = format!("is the same buffer as {first}: set {set}, binding {binding}; describe it once");
            Err(Fault::new(format!("buffer.{second}"), message))
        }
    }
}

/// Checks the element type of a float buffer against the blocks of a slot. Kernels may access numbers by their bits, so
/// only a block of floats of a different width is certainly a mistake.
fn check_float_type(description: &Description, name: &str, pass: &LoadedPass, slot: &Slot) -> Result<(), Fault> {
    let Some(buffer) = description.buffer.get(name).filter(|buffer| buffer.element.is_some()) else { return Ok(()) };
    let element = parse_element(name, buffer)?;
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
    if floats.is_empty() || floats.iter().any(|float| float == element.name()) {
        return Ok(());
    }
    let message = format!("is {element}, but {} declares elements of {}; make them the same", pass.source, floats[0]);
    Err(Fault::new(format!("buffer.{name}.type"), message))
}

/// Most bytes of one buffer, more than any device has.
const MAX_BYTES: u64 = 1 << 42;

/// Most extents of one buffer.
const MAX_EXTENTS: usize = 8;

impl Resolver<'_> {
    /// Resolves all buffers but scratch at a point. Only scratch may depend on specialization constants.
    pub(super) fn resolve_buffers(&self, scope: &Values) -> Result<Vec<ResolvedBuffer>, Fault> {
        let mut scope = scope.clone();
        for constant in &self.constants {
            let reason = "a specialization constant: only scratch may depend on one, not what is checked";
            scope.set_reason(constant, reason);
        }
        self.resolve_role(&scope, false, |_| true)
    }

    /// Resolves the scratch buffers of passes. Those of other kernels may depend on constants that these passes lack.
    pub(super) fn resolve_scratch(&self, scope: &Values, passes: &[LoadedPass]) -> Result<Vec<ResolvedBuffer>, Fault> {
        let description = &self.described.description;
        let binds = |pass: &LoadedPass, name: &str| {
            let parts = pass.interface.slots.iter().filter_map(|slot| bound_parts(description, pass, slot).ok());
            parts.flatten().any(|part| part.buffer == name)
        };
        let is_needed = |name: &str| passes.iter().any(|pass| pass.interface.uses_addresses() || binds(pass, name));
        self.resolve_role(scope, true, is_needed)
    }

    fn resolve_role(
        &self,
        scope: &Values,
        is_scratch: bool,
        is_needed: impl Fn(&str) -> bool,
    ) -> Result<Vec<ResolvedBuffer>, Fault> {
        let mut buffers = vec![];
        let kinds = self.roles.iter().zip(&self.layouts);
        for ((name, buffer), (role, layout)) in self.described.description.buffer.iter().zip(kinds) {
            if is_scratch == (*role == Role::Scratch) {
                let resolved = match layout {
                    Some(layout) => self.resolve_structures(name, buffer, *role, layout, scope),
                    None => self.resolve_buffer(name, buffer, *role, scope),
                };
                match resolved {
                    Err(_) if !is_needed(name) => {}
                    resolved => buffers.push(resolved?),
                }
            }
        }
        Ok(buffers)
    }

    /// Resolves a buffer that is described by the members of its structures. Its own fill and check hold for members
    /// that state none; a file fills all of it.
    fn resolve_structures(
        &self,
        name: &str,
        buffer: &DescribedBuffer,
        role: Role,
        layout: &StructureLayout,
        scope: &Values,
    ) -> Result<ResolvedBuffer, Fault> {
        let fault = |message| Fault::new(format!("buffer.{name}.shape"), message);
        let extents = match (&layout.array, &buffer.shape) {
            (Some((_, Some(count))), None) => vec![*count],
            (Some(_), _) => evaluate_shape(buffer, layout.stride, scope).map_err(fault)?,
            (None, None) => vec![],
            (None, Some(_)) if evaluate_shape(buffer, 1, scope).map_err(fault)?.iter().all(|extent| *extent == 1) => {
                vec![]
            }
            (None, Some(_)) => {
                return Err(fault(
                    "states several structures, and the block of the kernel is a single one; write 1".into(),
                ));
            }
        };
        let bytes = layout.bytes(extents.iter().product()).filter(|bytes| *bytes <= MAX_BYTES);
        let bytes = bytes.ok_or_else(|| fault(too_large(&extents)))?;
        let is_array = layout.array.is_some() && layout.fixed == 0;
        let shape = if is_array { [&extents[..], &[layout.stride]].concat() } else { vec![bytes] };
        let mut whole = ResolvedBuffer::new(name, DType::Bytes, shape, role);
        whole.fill = (role.is_input() && !buffer.is_filled()).then_some(Fill::Made);
        whole.checked = buffer.is_checked();
        whole.parts = layout.parts(&whole, &extents);
        let file = buffer.fill.as_deref().filter(|fill| fill.starts_with('@'));
        if buffer.is_filled() {
            whole = self.fill_and_check(&format!("buffer.{name}"), Some(file.unwrap_or("zero")), None, whole, scope)?;
        }
        for (index, part) in whole.parts.iter_mut().enumerate() {
            let stated = buffer.members.iter().find(|(key, _)| layout.find(key) == Some(index));
            let (field, fill, check) = stated.map_or_else(
                || (format!("buffer.{name}"), None, None),
                |(key, member)| (format!("buffer.{name}.{key}"), member.fill.as_deref(), member.check.as_ref()),
            );
            let fill = fill.or(buffer.fill.as_deref().filter(|_| file.is_none()));
            let check = check.or(buffer.check.as_ref());
            *part = self.fill_and_check(&field, fill, check, part.clone(), scope)?;
        }
        Ok(whole)
    }

    fn resolve_buffer(
        &self,
        name: &str,
        buffer: &DescribedBuffer,
        role: Role,
        scope: &Values,
    ) -> Result<ResolvedBuffer, Fault> {
        let element = parse_element(name, buffer)?;
        let field = format!("buffer.{name}");
        let shape = evaluate_shape(buffer, element.bytes(), scope);
        let shape = shape.map_err(|message| Fault::new(format!("{field}.shape"), message))?;
        // Inputs without a fill come from a program.
        let fill = role.is_input().then_some(Fill::Made);
        let image = match self.images.get(name) {
            Some(declared) => Some(declared.image(name, buffer, element, &shape)?),
            None => None,
        };
        let resolved = ResolvedBuffer { fill, image, ..ResolvedBuffer::new(name, element, shape, role) };
        self.fill_and_check(&field, buffer.fill.as_deref(), buffer.check.as_ref(), resolved, scope)
    }

    /// Sets the stated fill and check of a buffer, or of a member of structures, which `field` describes.
    fn fill_and_check(
        &self,
        field: &str,
        fill: Option<&str>,
        check: Option<&Check>,
        mut buffer: ResolvedBuffer,
        scope: &Values,
    ) -> Result<ResolvedBuffer, Fault> {
        let fault = |name: &str, message: String| Fault::new(format!("{field}.{name}"), message);
        if let Some(text) = fill {
            let parsed = fill::parse(&scope.replace(text), &self.described.folder, scope);
            let parsed = parsed.map_err(|message| fault("fill", message))?;
            parsed.check(&buffer).map_err(|message| fault("fill", message))?;
            buffer.fill = Some(parsed);
        }
        buffer.tolerance = init::default_tolerance(buffer.element);
        buffer.checked |= check.is_some();
        if let Some(check) = check {
            // Scratch buffers are numbered last, and a check cannot name them.
            let shared = self.described.description.buffer.iter().filter(|(_, buffer)| !buffer.scratch);
            let names: Vec<&str> = shared.map(|(name, _)| name).collect();
            buffer.tolerance = check.tolerance(&format!("{field}.check"), &names)?;
        }
        match (&buffer.tolerance, buffer.shape.last()) {
            (Tolerance::Ulp(_), _) if buffer.element == DType::Bytes => {
                let message = "counts representable values, which bytes are not; use \"exact\"";
                return Err(fault("check", message.into()));
            }
            (Tolerance::Columns { atol, .. }, Some(columns)) if atol.len() as u64 != *columns => {
                let message = format!("has {} values of atol for {columns} columns; write one for each", atol.len());
                return Err(fault("check", message));
            }
            _ => {}
        }
        Ok(buffer)
    }
}

/// Explains that extents are too large.
fn too_large(extents: &[u64]) -> String {
    format!("{extents:?} is larger than {}, which no device holds; use smaller extents", Bytes(MAX_BYTES))
}

/// Evaluates the extents of a buffer whose elements have `size` bytes.
fn evaluate_shape(buffer: &DescribedBuffer, size: u64, scope: &Values) -> Result<Vec<u64>, String> {
    let Some(stated) = &buffer.shape else {
        return Err("is missing; write its extents, the slowest first: [\"M\", \"K\"]".into());
    };
    let expressions = stated.values().iter().map(Formula::expression).collect::<Result<Vec<_>, _>>()?;
    if expressions.is_empty() || expressions.len() > MAX_EXTENTS {
        return Err(format!("has {} extents; write 1 to {MAX_EXTENTS}", expressions.len()));
    }
    let mut shape = vec![];
    for expression in &expressions {
        let value = expression.value(scope)?;
        if value < 1 {
            return Err(format!("has the extent {value} ('{}'); an extent is 1 or more", expression.text()));
        }
        shape.push(value.cast_unsigned());
    }
    let bytes = shape.iter().try_fold(size, |bytes, extent| bytes.checked_mul(*extent));
    if bytes.is_none_or(|bytes| bytes > MAX_BYTES) {
        return Err(too_large(&shape));
    }
    Ok(shape)
}

/// Checks that `bytes` fits at least one of a slot's blocks.
pub fn check_block_size(name: &str, bytes: u64, source: &str, slot: &Slot) -> Result<(), Fault> {
    let is_fit = |block: &Block| match block.array {
        Some(array) => bytes > block.fixed && (bytes - block.fixed).is_multiple_of(array.stride.max(1)),
        None => bytes >= block.fixed,
    };
    if slot.blocks.is_empty() || slot.blocks.iter().any(is_fit) {
        return Ok(());
    }
    let declared = slot.blocks.iter().map(|block| match block.array {
        Some(array) if block.fixed > 0 => format!("{} bytes and elements of {}", block.fixed, array.stride),
        Some(array) => format!("elements of {} bytes", array.stride),
        None => format!("{} bytes at least", block.fixed),
    });
    let declared = declared.collect::<Vec<_>>().join(" or ");
    let message = format!("makes {bytes} bytes, but {source} declares {declared}; make them fit");
    Err(Fault::new(format!("buffer.{name}.shape"), message))
}
