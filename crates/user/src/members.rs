//! Packs blocks that a description gives by member: push constants, uniform blocks, and storage blocks of parameters.

use super::description::{BoundBuffer, BoundRange, Description, Fault, Formula, OTHERS, OrderedMap};
use super::expression::Values;
use super::loaded::{LoadedPass, slot_key};
use super::pass::place;
use super::resolved::ResolvedBuffer;
use super::written;
use crate::basis::error;
use crate::basis::printable::brief;
use crate::kernel::buffer::Address;
use crate::kernel::interface::{Argument, ArgumentKind, Block, Scalar, Slot, SlotKind};
use crate::kernel::program::BufferId;
use half::{bf16, f16};

/// Most stated elements of an array at the end of a block, and most bytes of a block.
const MAX_ELEMENTS: u64 = 1 << 16;
const MAX_BYTES: u64 = 1 << 24;

/// Block with the values that a description states for it.
pub struct Members<'a> {
    pass: &'a LoadedPass,
    description: &'a Description,
    /// Table with the values: `push`, `uniform.Params`.
    table: String,
    parts: Vec<Argument>,
    bytes: u64,
    /// Values by name; the pass's take precedence.
    stated: Vec<&'a OrderedMap<Formula>>,
}

impl<'a> Members<'a> {
    /// Returns the push constants of a pass.
    pub fn push(description: &'a Description, pass: &'a LoadedPass) -> Self {
        let bytes = u64::from(pass.interface.argument_bytes()).next_multiple_of(4);
        let (parts, stated) = (pass.interface.arguments.to_vec(), vec![&pass.stated.push, &description.push]);
        Self { pass, description, table: "push".into(), parts, bytes, stated }
    }

    /// Returns the block of a slot, if its members are stated, or implied by axes of the same names as in uniform
    /// blocks. Refuses values for blocks that have no members.
    pub fn of_slot(description: &'a Description, pass: &'a LoadedPass, slot: &Slot) -> Result<Option<Self>, Fault> {
        let tables = [&pass.stated.uniform, &description.uniform];
        let called =
            |table: &&'a OrderedMap<OrderedMap<Formula>>| table.0.iter().find(|(name, _)| slot.is_called(name));
        let found: Vec<_> = tables.iter().filter_map(called).collect();
        let is_buffer = || {
            let described = description.buffer.names();
            pass.stated.bind.names().into_iter().chain(described).any(|name| slot.is_called(name))
        };
        let Some(block) = slot.blocks.iter().find(|block| !block.members.is_empty()) else {
            return match found.first() {
                None => Ok(None),
                Some((name, _)) => Err(Fault::new(
                    format!("uniform.{name}"),
                    format!(
                        "is no block of numbers in {}; write [buffer.{name}] with type, shape and fill",
                        pass.source
                    ),
                )),
            };
        };
        // Addresses always have to be written.
        let goes_without_saying = slot.kind == SlotKind::Uniform || block.is_addresses();
        if found.is_empty() && (!goes_without_saying || is_buffer()) {
            return Ok(None);
        }
        let name = found.first().map_or_else(|| slot_key(slot), |(name, _)| name.clone());
        let stated: Vec<_> = found.into_iter().map(|(_, members)| members).collect();
        let table = format!("uniform.{name}");
        let (parts, bytes) = all_members(block, &stated).map_err(|message| Fault::new(&table, message))?;
        Ok(Some(Self { pass, description, table, parts, bytes, stated }))
    }

    /// Returns the name of its buffer.
    pub fn name(&self) -> &str {
        self.table.strip_prefix("uniform.").unwrap_or(&self.table)
    }

    fn field(&self, member: &str) -> String {
        self.pass.field(&format!("{}.{member}", self.table))
    }

    /// Returns the value of a member: stated by name or offset, the axis of this name, or the value for all others.
    fn value(&self, member: &Argument) -> Option<Formula> {
        let axis = || self.description.axes.get(&member.name).map(|_| Formula::Text(member.name.to_string()));
        let others = || self.stated.iter().find_map(|table| table.get(OTHERS)).cloned();
        self.stated(member).cloned().or_else(axis).or_else(others)
    }

    /// Returns the stated value of a member, by name or by offset.
    fn stated(&self, member: &Argument) -> Option<&'a Formula> {
        let by_place = |table: &&'a OrderedMap<Formula>| table.iter().find(|(key, _)| member.is_called(key));
        let by_name = self.stated.iter().find_map(|table| table.get(&member.name));
        by_name.or_else(|| self.stated.iter().find_map(by_place).map(|(_, value)| value))
    }

    /// Returns the part of a buffer that a member is the address of; `None` for a number. Refuses an address without a
    /// buffer.
    fn pointer(&self, member: &Argument) -> Result<Option<BoundRange>, Fault> {
        let stated = self.stated(member);
        match (member.kind, stated) {
            (ArgumentKind::Address, Some(Formula::Text(text))) if text.starts_with(BITS_PREFIX) => Ok(None),
            (ArgumentKind::Address, stated) => {
                let name = stated.map(ToString::to_string);
                let name = name.unwrap_or_else(|| member.name.rsplit('.').next().unwrap_or_default().to_string());
                located(self.description, &name).map(Some).ok_or_else(|| {
                    let known = self.description.buffer.names().join(", ");
                    let known =
                        if known.is_empty() { "describe it in [buffer]".into() } else { format!("buffers: {known}") };
                    let message = format!("is the address of a buffer, and there is no buffer '{name}'; {known}");
                    Fault::new(self.field(&member.name), message)
                })
            }
            (ArgumentKind::Scalar(Scalar::Int { bits: 64, .. }), Some(Formula::Text(text))) => {
                let of_axis = self.description.axes.get(text.split('+').next().unwrap_or_default().trim()).is_some();
                Ok(if of_axis { None } else { located(self.description, text) })
            }
            _ => Ok(None),
        }
    }

    /// Returns the parts of buffers whose addresses the block holds.
    pub fn pointers(&self) -> Result<Vec<BoundRange>, Fault> {
        self.parts.iter().filter_map(|member| self.pointer(member).transpose()).collect()
    }

    /// Packs the bytes of the block, and lists the addresses in it. Refuses members without a value.
    pub fn pack(&self, buffers: &[ResolvedBuffer], scope: &Values) -> Result<(Vec<u8>, Vec<Address>), Fault> {
        let mut block = vec![0; self.bytes as usize];
        let (mut addresses, mut missing) = (vec![], vec![]);
        for member in &self.parts {
            let start = member.offset as usize;
            let fault = |message| Fault::new(self.field(&member.name), message);
            if let Some(pointer) = self.pointer(member)? {
                let (skipped, _) = pointer.bytes(scope).map_err(fault)?;
                let buffer = BufferId(place(buffers, &pointer.buffer));
                addresses.push(Address { offset: member.offset, buffer, skipped });
                continue;
            }
            let scalar = match member.kind {
                ArgumentKind::Scalar(scalar) => scalar,
                ArgumentKind::Address => Scalar::Int { bits: 64, signed: false },
            };
            let Some(value) = self.value(member) else {
                missing.push(if member.name.is_empty() { format!("byte {start}") } else { member.name.to_string() });
                continue;
            };
            let (bits, _) = pack(&value, scalar, scope).map_err(fault)?;
            let bytes = scalar.bytes() as usize;
            block[start..start + bytes].copy_from_slice(&bits.to_le_bytes()[..bytes]);
        }
        let Some(first) = missing.first() else { return Ok((block, addresses)) };
        let (table, source) = (&self.table, &self.pass.source);
        let names = missing.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let first = written::key(first);
        let message = format!("sets no value for {names}, which {source} declares; add {first} = … to [{table}]");
        Err(Fault::new(self.pass.field(table), message))
    }
}

/// Returns the members of a block, with as many elements of the array at its end as are stated, and its size in bytes.
fn all_members(block: &Block, stated: &[&OrderedMap<Formula>]) -> Result<(Vec<Argument>, u64), String> {
    let too_large = |bytes: u64| format!("has {bytes} bytes; {MAX_BYTES} are the most: use a buffer with a fill");
    let Some(array) = block.array else {
        return if block.fixed <= MAX_BYTES {
            Ok((block.members.to_vec(), block.fixed))
        } else {
            Err(too_large(block.fixed))
        };
    };
    let (mut members, of_element): (Vec<_>, Vec<_>) =
        block.members.iter().cloned().partition(|member| u64::from(member.offset) < block.fixed);
    let names = stated.iter().flat_map(|table| table.names());
    let last = names.filter_map(|name| block.member(name)).map(|member| u64::from(member.offset));
    let last = last.filter(|offset| *offset >= block.fixed).max();
    let Some(count) = last.map(|last| (last - block.fixed) / array.stride.max(1) + 1) else {
        let name = of_element.first().map_or("", |member| &member.name);
        return Err(format!("has an array at its end of which nothing is stated; write \"{name}\" = …, and so on"));
    };
    if count > MAX_ELEMENTS {
        return Err(format!("has {count} elements; {MAX_ELEMENTS} are the most: use a buffer with a fill"));
    }
    // In a damaged file, elements may overlap or exceed their stride.
    let end = |member: &Argument| u64::from(member.offset) + u64::from(member.kind.bytes());
    let longest = of_element.iter().chain(&members).map(end).max().unwrap_or_default().max(block.fixed);
    let bytes = longest.max(block.fixed + array.stride).saturating_add((count - 1).saturating_mul(array.stride));
    if bytes > MAX_BYTES {
        return Err(too_large(bytes));
    }
    for index in 0..count {
        members.extend(of_element.iter().filter_map(|first| {
            let (head, rest) = first.name.split_once("[0]")?;
            block.member(&format!("{head}[{index}]{rest}"))
        }));
    }
    Ok((members, bytes))
}

/// Parses `NAME` or `NAME + EXPRESSION` to a part of a described buffer.
fn located(description: &Description, text: &str) -> Option<BoundRange> {
    let known = |name: &str| description.buffer.get(name.trim()).map(|_| BoundRange::whole(name.trim()));
    known(text).or_else(|| {
        let (name, rest) = text.split_once('+')?;
        Some(BoundRange { offset: Some(Formula::Text(rest.trim().into())), ..known(name)? })
    })
}

/// Resolves the part of a described buffer that `field` states.
pub(super) fn part(description: &Description, field: &str, bound: &BoundBuffer) -> Result<BoundRange, Fault> {
    let (name, found) = match bound {
        BoundBuffer::Name(text) => (text, located(description, text)),
        BoundBuffer::Range(range) => {
            let whole = located(description, &range.buffer).filter(|whole| whole.offset.is_none());
            (&range.buffer, whole.map(|whole| BoundRange { buffer: whole.buffer, ..range.clone() }))
        }
    };
    found.ok_or_else(|| Fault::new(field, error::unknown("buffer", name, "", &description.buffer.names())))
}

/// Prefix of a value stated by its bits: `bits 0x7fc00001`.
pub const BITS_PREFIX: &str = "bits 0x";

/// Evaluates `formula` for a member of type `scalar`; returns the bits for the kernel, and the number.
pub fn pack(formula: &Formula, scalar: Scalar, scope: &Values) -> Result<(u64, f64), String> {
    if let Formula::Text(text) = formula
        && let Some(digits) = text.strip_prefix(BITS_PREFIX)
    {
        let bits = u64::from_str_radix(digits, 16).ok().filter(|bits| bits >> (8 * scalar.bytes() - 1) < 2);
        let bits = bits.ok_or_else(|| {
            let (name, most) = (scalar.name(), 2 * scalar.bytes());
            format!("'{}' are no bits of {name}; write 1 to {most} hexadecimal digits behind 0x", brief(text))
        })?;
        return Ok((bits, number(scalar, bits)));
    }
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
    let value = expression.wide_value(scope)?;
    let (low, high): (i128, i128) = match scalar {
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
    Ok(((value as u64) << unused >> unused, value as f64))
}

/// Interprets the low bits of `bits` as a number.
pub fn number(scalar: Scalar, bits: u64) -> f64 {
    match scalar {
        Scalar::Float { bits: 16 } => f16::from_bits(bits as u16).to_f64(),
        Scalar::Float { bits: 32 } => f32::from_bits(bits as u32).into(),
        Scalar::Float { .. } => f64::from_bits(bits),
        Scalar::Bfloat16 => bf16::from_bits(bits as u16).to_f64(),
        Scalar::Bool | Scalar::Int { .. } => scalar.integer(bits).map_or(bits as f64, |value| value as f64),
    }
}
