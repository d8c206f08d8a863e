//! Packs blocks that a description gives by member: push constants, uniform blocks, and storage blocks of parameters.

use super::description::{BoundBuffer, BoundRange, Description, Fault, Formula, OTHERS, OrderedMap};
use super::expression::Values;
use super::loaded::{LoadedPass, slot_key};
use super::pass::find_buffer;
use super::resolved::{Fill, PackedBlock, ResolvedBuffer};
use super::written;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::printable::brief;
use crate::kernel::buffer::{Address, Role};
use crate::kernel::interface::{Argument, ArgumentKind, Block, Scalar, Slot, SlotKind};
use crate::kernel::program::BufferId;
use half::{bf16, f16};
use std::ops::RangeInclusive;

/// Most stated elements of an array at the end of a block.
const MAX_ELEMENTS: u64 = 1 << 16;

/// Most bytes of a block.
const MAX_BYTES: u64 = 1 << 24;

/// Most addresses from a parameter of the kernel to a block that is given by member.
const MAX_DEPTH: usize = 16;

/// Target of an address.
enum AddressTarget<'a> {
    Part(BoundRange),
    /// Block that is given by member.
    Block(Members<'a>),
}

/// Block with the values that a description states for its members.
pub struct Members<'a> {
    pass: &'a LoadedPass,
    description: &'a Description,
    /// Table with the values: `push`, `uniform.Params`.
    table: String,
    #[expect(clippy::struct_field_names, reason = "they are the members")]
    members: Vec<Argument>,
    /// Size of the block.
    bytes: u64,
    /// Type of the block in the module.
    root: Option<u32>,
    /// Number of addresses that lead to the block.
    depth: usize,
    /// Values by name, of the pass and of the description; the first table that has a name decides.
    tables: Vec<&'a OrderedMap<Formula>>,
}

impl<'a> Members<'a> {
    /// Returns the push constants of a pass.
    pub fn of_push_constants(description: &'a Description, pass: &'a LoadedPass) -> Self {
        let bytes = u64::from(pass.interface.argument_bytes()).next_multiple_of(4);
        let members = pass.interface.arguments.to_vec();
        let tables = vec![&pass.fields.push, &description.push];
        let root = pass.pointees.root(None);
        Self { members, bytes, root, tables, ..Self::empty(description, pass, "push".into(), 0) }
    }

    /// Returns a block without members, with the table of their values.
    fn empty(description: &'a Description, pass: &'a LoadedPass, table: String, depth: usize) -> Self {
        Self { pass, description, table, members: vec![], bytes: 0, root: None, depth, tables: vec![] }
    }

    /// Returns the block of a slot, if it is given by member; `None` if a buffer is bound to it. Members are given by a
    /// table in `uniform`. Uniform blocks and blocks of addresses need no table: axes and buffers of the members' names
    /// are enough. Refuses a table for a block without members.
    pub fn of_slot(description: &'a Description, pass: &'a LoadedPass, slot: &Slot) -> Result<Option<Self>, Fault> {
        let mut name = None;
        let mut tables = vec![];
        for blocks in [&pass.fields.uniform, &description.uniform] {
            if let Some((block, members)) = blocks.iter().find(|(block, _)| slot.is_called(block)) {
                name = name.or(Some(block));
                tables.push(members);
            }
        }
        let Some(block) = slot.blocks.iter().find(|block| !block.members.is_empty()) else {
            let Some(name) = name else { return Ok(None) };
            let source = &pass.source;
            let message =
                format!("is no block of numbers in {source}; write [buffer.{name}] with type, shape and fill");
            return Err(Fault::new(format!("uniform.{name}"), message));
        };
        if tables.is_empty() {
            let needs_table = slot.kind != SlotKind::Uniform && !block.is_addresses();
            let mut buffers = pass.fields.bind.names();
            buffers.extend(description.buffer.names());
            if needs_table || buffers.into_iter().any(|buffer| slot.is_called(buffer)) {
                return Ok(None);
            }
        }
        let name = name.map_or_else(|| slot_key(slot), ToString::to_string);
        let empty = Self::empty(description, pass, format!("uniform.{name}"), 0);
        empty.with_block(block, pass.pointees.root(Some(slot)), tables).map(Some)
    }

    /// Returns the same for a block of this type in the module, whose values are in `tables`.
    fn with_block(self, block: &Block, root: Option<u32>, tables: Vec<&'a OrderedMap<Formula>>) -> Result<Self, Fault> {
        let fault = |message: String| Fault::new(&self.table, message);
        let count = count_elements(block, &tables).map_err(fault)?;
        let bytes = block_bytes(block, count).map_err(fault)?;
        Ok(Self { members: list_members(block, count), bytes, root, tables, ..self })
    }

    /// Returns the block that the address in a member points to, if it is given by member itself: by the table `name`
    /// in `uniform`, or without one if it has nothing but addresses.
    fn pointed_block(&self, member: &Argument, name: &str) -> Result<Option<Self>, Fault> {
        let target = self.root.and_then(|root| self.pass.pointees.target(root, member.offset));
        let Some((root, block)) = target else { return Ok(None) };
        let all_tables = [&self.pass.fields.uniform, &self.description.uniform];
        let tables: Vec<_> = all_tables.into_iter().filter_map(|tables| tables.get(name)).collect();
        if tables.is_empty() && !block.is_addresses() {
            return Ok(None);
        }
        if self.depth >= MAX_DEPTH {
            let message = format!("leads through more than {MAX_DEPTH} addresses; no table may lead to itself");
            return Err(Fault::new(self.field(&member.name), message));
        }
        let empty = Self::empty(self.description, self.pass, format!("uniform.{name}"), self.depth + 1);
        empty.with_block(block, Some(root), tables).map(Some)
    }

    /// Returns the blocks that are given by member and that addresses in this block lead to.
    pub(super) fn pointed_blocks(&self) -> Result<Vec<Self>, Fault> {
        let mut blocks = vec![];
        for member in &self.members {
            if let Some(AddressTarget::Block(block)) = self.find_pointer(member)? {
                blocks.extend(block.pointed_blocks()?);
                blocks.push(block);
            }
        }
        Ok(blocks)
    }

    /// Iterates over the names of the members.
    pub(super) fn member_names(&self) -> impl Iterator<Item = String> {
        self.members.iter().map(|member| member.name.to_string())
    }

    /// Whether the block has a member of this name.
    pub(super) fn has_member(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.is_called(name))
    }

    /// Returns the name of its buffer.
    pub fn name(&self) -> &str {
        self.table.strip_prefix("uniform.").unwrap_or(&self.table)
    }

    fn field(&self, member: &str) -> String {
        self.pass.field(&format!("{}.{member}", self.table))
    }

    /// Returns the value of a member: stated by name or offset, the axis of this name, or the value for all others.
    fn find_value(&self, member: &Argument) -> Option<Formula> {
        if let Some(stated) = self.find_stated(member) {
            return Some(stated.clone());
        }
        if self.description.axes.get(&member.name).is_some() {
            return Some(Formula::Text(member.name.to_string()));
        }
        self.tables.iter().find_map(|table| table.get(OTHERS)).cloned()
    }

    /// Returns the stated value of a member, by name or else by offset.
    fn find_stated(&self, member: &Argument) -> Option<&'a Formula> {
        let by_offset = |table: &'a OrderedMap<Formula>| table.iter().find(|(key, _)| member.is_called(key));
        let stated = |table: &&'a OrderedMap<Formula>| {
            table.get(&member.name).or_else(|| by_offset(table).map(|(_, value)| value))
        };
        self.tables.iter().find_map(stated)
    }

    /// Returns what a member is the address of; `None` for a number. Refuses an address without a buffer.
    fn find_pointer(&self, member: &Argument) -> Result<Option<AddressTarget<'a>>, Fault> {
        let stated = self.find_stated(member);
        match (member.kind, stated) {
            (ArgumentKind::Address, Some(Formula::Text(text))) if text.starts_with(BITS_PREFIX) => Ok(None),
            (ArgumentKind::Address, stated) => {
                // Without a value, the member has the name of the buffer.
                let last_name = member.name.rsplit('.').next().unwrap_or_default();
                let name = stated.map_or_else(|| last_name.to_string(), ToString::to_string);
                if let Some(part) = parse_part(self.description, &name) {
                    return Ok(Some(AddressTarget::Part(part)));
                }
                let block = self.pointed_block(member, &name)?;
                block
                    .map(|block| Some(AddressTarget::Block(block)))
                    .ok_or_else(|| self.explain_missing_buffer(member, &name))
            }
            // Kernels may take an address as a 64-bit integer. A text that begins with an axis is a number, though.
            (ArgumentKind::Scalar(Scalar::Int { bits: 64, .. }), Some(Formula::Text(text))) => {
                let first_term = text.split('+').next().unwrap_or_default().trim();
                let is_number = self.description.axes.get(first_term).is_some();
                Ok(if is_number { None } else { parse_part(self.description, text).map(AddressTarget::Part) })
            }
            _ => Ok(None),
        }
    }

    fn explain_missing_buffer(&self, member: &Argument, name: &str) -> Fault {
        let buffers = self.description.buffer.names().join(", ");
        let mut hint =
            if buffers.is_empty() { "describe it in [buffer]".into() } else { format!("buffers: {buffers}") };
        let target = self.root.and_then(|root| self.pass.pointees.target(root, member.offset));
        if target.is_some_and(|(_, block)| block.has_addresses()) {
            hint = format!("{hint}; or give its members in [uniform.{}]", written::key(name));
        }
        let message = format!("is the address of a buffer, and there is no buffer '{name}'; {hint}");
        Fault::new(self.field(&member.name), message)
    }

    /// Returns the parts of buffers whose addresses the block holds, also by way of other blocks.
    pub fn pointers(&self) -> Result<Vec<BoundRange>, Fault> {
        let mut parts = vec![];
        for member in &self.members {
            match self.find_pointer(member)? {
                Some(AddressTarget::Part(part)) => parts.push(part),
                Some(AddressTarget::Block(block)) => parts.extend(block.pointers()?),
                None => {}
            }
        }
        Ok(parts)
    }

    /// Packs the block into a buffer of its own, and returns its index. Equal blocks share a buffer.
    pub fn add_to(&self, buffers: &mut Vec<ResolvedBuffer>, scope: &Values) -> Result<usize, Fault> {
        let block = self.pack(buffers, scope)?;
        let bytes = block.bytes.len() as u64;
        let fill = Some(Fill::Block(block));
        if let Some(index) = buffers.iter().position(|buffer| buffer.name == self.name() && buffer.fill == fill) {
            return Ok(index);
        }
        let buffer = ResolvedBuffer::new(self.name(), DType::Bytes, vec![bytes], Role::Scratch);
        buffers.push(ResolvedBuffer { fill, ..buffer });
        Ok(buffers.len() - 1)
    }

    /// Packs the bytes of the block, and lists the addresses in it; blocks to which these lead are added to `buffers`.
    /// Refuses members without a value.
    pub fn pack(&self, buffers: &mut Vec<ResolvedBuffer>, scope: &Values) -> Result<PackedBlock, Fault> {
        let mut block = PackedBlock { bytes: vec![0; self.bytes as usize], addresses: vec![] };
        let mut missing = vec![];
        for member in &self.members {
            let start = member.offset as usize;
            let fault = |message| Fault::new(self.field(&member.name), message);
            if let Some(pointer) = self.find_pointer(member)? {
                let (buffer, skipped) = match pointer {
                    AddressTarget::Part(part) => {
                        (find_buffer(buffers, &part.buffer), part.bytes(scope).map_err(fault)?.0)
                    }
                    AddressTarget::Block(block) => (block.add_to(buffers, scope)?, 0),
                };
                block.addresses.push(Address { offset: member.offset, buffer: BufferId(buffer), skipped });
                continue;
            }
            let Some(value) = self.find_value(member) else {
                missing.push(if member.name.is_empty() { format!("byte {start}") } else { member.name.to_string() });
                continue;
            };
            let scalar = match member.kind {
                ArgumentKind::Scalar(scalar) => scalar,
                ArgumentKind::Address => Scalar::Int { bits: 64, signed: false },
            };
            let (bits, _) = pack(&value, scalar, scope).map_err(fault)?;
            let size = scalar.bytes() as usize;
            block.bytes[start..start + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        let Some(first) = missing.first() else { return Ok(block) };
        let key = written::key(first);
        let names = missing.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let Self { table, pass, .. } = self;
        let source = &pass.source;
        let message = format!("sets no value for {names}, which {source} declares; add {key} = … to [{table}]");
        Err(Fault::new(pass.field(table), message))
    }
}

/// Counts the elements of the array at the end of a block up to the last one with a stated value; 0 without an array.
fn count_elements(block: &Block, tables: &[&OrderedMap<Formula>]) -> Result<u64, String> {
    let Some(array) = block.array else { return Ok(0) };
    let mut count = 0;
    for name in tables.iter().flat_map(|table| table.names()) {
        if let Some(member) = block.member(name)
            && let Some(offset) = u64::from(member.offset).checked_sub(block.fixed)
        {
            count = count.max(offset / array.stride.max(1) + 1);
        }
    }
    if count == 0 {
        let first = block.members.iter().find(|member| u64::from(member.offset) >= block.fixed);
        let name = first.map_or("", |member| &member.name);
        return Err(format!("has an array at its end of which nothing is stated; write \"{name}\" = …, and so on"));
    }
    if count > MAX_ELEMENTS {
        return Err(format!("has {count} elements; {MAX_ELEMENTS} are the most: use a buffer with a fill"));
    }
    Ok(count)
}

/// Returns the size of a block with `count` elements of the array at its end.
pub fn block_bytes(block: &Block, count: u64) -> Result<u64, String> {
    let mut bytes = block.fixed;
    if let Some(array) = block.array {
        // In a damaged file, elements may overlap or exceed their stride.
        let ends = block.members.iter().map(|member| u64::from(member.offset) + u64::from(member.kind.bytes()));
        let with_one_element = ends.max().unwrap_or_default().max(block.fixed + array.stride);
        bytes = with_one_element.saturating_add((count - 1).saturating_mul(array.stride));
    }
    if bytes > MAX_BYTES {
        return Err(format!("has {bytes} bytes; {MAX_BYTES} are the most: use a buffer with a fill"));
    }
    Ok(bytes)
}

/// Lists the members of a block with `count` elements of the array at its end.
pub fn list_members(block: &Block, count: u64) -> Vec<Argument> {
    if block.array.is_none() {
        return block.members.to_vec();
    }
    let is_fixed = |member: &Argument| u64::from(member.offset) < block.fixed;
    let (mut members, first_element): (Vec<_>, Vec<_>) = block.members.iter().cloned().partition(is_fixed);
    for index in 0..count {
        for member in &first_element {
            if let Some((head, rest)) = member.name.split_once("[0]") {
                members.extend(block.member(&format!("{head}[{index}]{rest}")));
            }
        }
    }
    members
}

/// Parses `NAME` or `NAME + EXPRESSION` to a part of a described buffer.
fn parse_part(description: &Description, text: &str) -> Option<BoundRange> {
    // A buffer's name may contain a plus sign.
    let whole = text.trim();
    if description.buffer.get(whole).is_some() {
        return Some(BoundRange::whole(whole));
    }
    let (name, offset) = text.split_once('+')?;
    description.buffer.get(name.trim())?;
    Some(BoundRange { offset: Some(Formula::Text(offset.trim().into())), ..BoundRange::whole(name.trim()) })
}

/// Resolves the part of a described buffer that `field` states.
pub(super) fn resolve_part(description: &Description, field: &str, bound: &BoundBuffer) -> Result<BoundRange, Fault> {
    let (name, part) = match bound {
        BoundBuffer::Name(text) => (text, parse_part(description, text)),
        BoundBuffer::Range(range) => {
            let whole = parse_part(description, &range.buffer).filter(|part| part.offset.is_none());
            (&range.buffer, whole.map(|whole| BoundRange { buffer: whole.buffer, ..range.clone() }))
        }
    };
    part.ok_or_else(|| Fault::new(field, error::unknown("buffer", name, "", &description.buffer.names())))
}

/// Prefix of a value stated by its bits: `bits 0x7fc00001`.
pub const BITS_PREFIX: &str = "bits 0x";

/// Evaluates `formula` for a member of type `scalar`; returns the bits for the kernel, and the number.
pub fn pack(formula: &Formula, scalar: Scalar, scope: &Values) -> Result<(u64, f64), String> {
    if let Formula::Text(text) = formula
        && let Some(digits) = text.strip_prefix(BITS_PREFIX)
    {
        let bits = parse_bits(text, digits, scalar)?;
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
    let range: RangeInclusive<i128> = match scalar {
        Scalar::Int { bits, signed: true } => -(1 << (bits - 1))..=(1 << (bits - 1)) - 1,
        Scalar::Int { bits, signed: false } => 0..=(1 << bits) - 1,
        _ => 0..=1,
    };
    if !range.contains(&value) {
        return Err(format!(
            "is {value} ('{}'), but the kernel takes {} from {} to {}",
            expression.text(),
            scalar.name(),
            range.start(),
            range.end()
        ));
    }
    // Clears the sign bits of a negative number that lie above its type's.
    let unused_bits = 64 - 8 * scalar.bytes();
    Ok(((value as u64) << unused_bits >> unused_bits, value as f64))
}

/// Parses the hexadecimal digits of `text`, which must fit the type.
fn parse_bits(text: &str, digits: &str, scalar: Scalar) -> Result<u64, String> {
    let highest_bit = 8 * scalar.bytes() - 1;
    match u64::from_str_radix(digits, 16) {
        Ok(bits) if bits >> highest_bit < 2 => Ok(bits),
        _ => Err(format!(
            "'{}' are no bits of {}; write 1 to {} hexadecimal digits behind 0x",
            brief(text),
            scalar.name(),
            2 * scalar.bytes()
        )),
    }
}

/// Formats the value with these bits: as a number if that gives the same bits, or else as bits.
pub fn formula(scalar: Scalar, bits: u64) -> Formula {
    let plain = match scalar {
        Scalar::Bool => Some(Formula::Truth(bits == 1)),
        Scalar::Int { .. } => scalar.integer(bits).map(Formula::whole),
        // The shortest decimal of an f32 parses to a different f64, which rounds to the same f32.
        Scalar::Float { bits: 32 } => format!("{:?}", f32::from_bits(bits as u32)).parse().ok().map(Formula::Number),
        Scalar::Float { .. } | Scalar::Bfloat16 => Some(Formula::Number(number(scalar, bits))),
    };
    let is_same = |formula: &Formula| match formula {
        Formula::Number(value) if !value.is_finite() => false,
        _ => pack(formula, scalar, &Values::default()).is_ok_and(|(packed, _)| packed == bits),
    };
    plain.filter(is_same).unwrap_or_else(|| Formula::Text(format!("{BITS_PREFIX}{bits:x}")))
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
