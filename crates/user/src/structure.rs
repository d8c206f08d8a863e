//! Structures in buffers. A member is a view of its buffer: a buffer of its own, with a type, a fill and a tolerance,
//! whose numbers lie apart from each other.

use super::array::{self, RecordField, subscripts};
use super::buffers::bound_parts;
use super::description::{DescribedBuffer, Description, Fault, Formula};
use super::loaded::LoadedPass;
use super::members::Members;
use super::resolved::ResolvedBuffer;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::kernel::interface::{Argument, ArgumentKind, Block, Scalar};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io;
use std::path::Path;

/// Places of a member's numbers in the buffer of its structures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Places {
    /// Array of structures, as messages name it: `P`, or `P.hits` behind a header.
    pub(super) array: String,
    /// Extents of the array; empty for a header and for a single structure.
    pub(super) extents: Vec<u64>,
    /// First byte of the first structure.
    pub(super) start: u64,
    /// Bytes from one structure to the next.
    pub(super) stride: u64,
    pub(super) numbers: Vec<NumberPlace>,
}

/// Number in a structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberPlace {
    /// Bytes from the start of the structure.
    pub(super) offset: u64,
    /// Name in the structure: `position.z`, `weights[2]`.
    pub(super) path: String,
}

impl Places {
    /// Returns the first byte of the member's number `index`.
    fn byte(&self, index: usize) -> usize {
        let structure = (index / self.numbers.len()) as u64;
        (self.start + structure * self.stride + self.numbers[index % self.numbers.len()].offset) as usize
    }

    /// Formats the name of the member's number `index`: `P[17].position.z`.
    pub(super) fn name(&self, index: usize) -> String {
        let mut name = self.array.clone();
        if !self.extents.is_empty() {
            name = format!("{name}[{}]", subscripts(&self.extents, index / self.numbers.len()));
        }
        let path = &self.numbers[index % self.numbers.len()].path;
        let separator = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        name + separator + path
    }
}

impl ResolvedBuffer {
    /// Iterates over the buffers that are filled and compared: the members, or the buffer itself if it has none.
    pub fn views(&self) -> impl Iterator<Item = &Self> {
        let own = self.parts.is_empty().then_some(self);
        own.into_iter().chain(&self.parts)
    }

    /// Iterates over the buffer and its members.
    pub fn with_members(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.parts)
    }

    /// Returns the numbers of a member in the contents of its buffer; of any other buffer, all contents.
    pub fn gather<'a>(&self, contents: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(places) = &self.places else { return contents.into() };
        let size = self.element.bytes() as usize;
        let bytes = (0..self.len() as usize).flat_map(|index| &contents[places.byte(index)..][..size]);
        bytes.copied().collect::<Vec<u8>>().into()
    }

    /// Stores the numbers of a member in the contents of its buffer.
    pub(super) fn scatter(&self, numbers: &[u8], contents: &mut [u8]) {
        let size = self.element.bytes() as usize;
        for (index, number) in numbers.chunks_exact(size).enumerate() {
            let start = self.places.as_ref().map_or(index * size, |places| places.byte(index));
            contents[start..start + size].copy_from_slice(number);
        }
    }

    /// Returns the index of the member's number that has this byte of its buffer.
    pub(super) fn index_of_byte(&self, byte: usize) -> Option<usize> {
        let places = self.places.as_ref()?;
        let rest = (byte as u64).checked_sub(places.start)?;
        let (structure, offset) =
            if places.extents.is_empty() { (0, rest) } else { (rest / places.stride, rest % places.stride) };
        let has_byte = |place: &NumberPlace| (place.offset..place.offset + self.element.bytes()).contains(&offset);
        let index = structure as usize * places.numbers.len() + places.numbers.iter().position(has_byte)?;
        (index < self.len() as usize).then_some(index)
    }

    /// Returns the shape of its array in `NumPy`, and the fields of a structure there: one record for each structure, or
    /// a single one if there is a header, which has the numbers of all structures.
    fn records(&self) -> (Vec<u64>, Vec<RecordField<'_>>) {
        let extents = |part: &Self| part.places.as_ref().map_or(vec![], |places| places.extents.clone());
        let mut shape = extents(&self.parts[0]);
        if self.parts.iter().any(|part| extents(part) != shape) {
            shape = vec![1];
        }
        let count = shape.iter().product::<u64>().max(1);
        let field = |part| {
            let Self { name, element, .. }: &'_ Self = part;
            let name = name.strip_prefix(&*self.name).unwrap_or(name).trim_start_matches('.');
            RecordField { name, element: *element, count: part.len() / count }
        };
        let shape = if shape.is_empty() { vec![1] } else { shape };
        (shape, self.parts.iter().map(field).collect())
    }

    /// Writes the contents in the `.npy` format, structures as records without padding.
    pub fn write_array(&self, file: impl io::Write, contents: &[u8]) -> io::Result<()> {
        if self.parts.is_empty() {
            return array::write_to(file, self.element, &self.shape, &self.gather(contents));
        }
        let (shape, fields) = self.records();
        let columns: Vec<Cow<'_, [u8]>> = self.parts.iter().map(|part| part.gather(contents)).collect();
        array::write_records(file, &shape, &fields, &columns)
    }

    /// Checks that a `.npy` file fits the buffer, without reading its data.
    pub(super) fn check_array(&self, path: &Path) -> Result<(), String> {
        if !self.parts.is_empty() {
            let (shape, fields) = self.records();
            if array::check_records(path, &shape, &fields)? {
                return Ok(());
            }
        }
        array::check(path, self.element, &self.shape)
    }

    /// Reads the contents from a `.npy` file: an array of the buffer's shape, or of records, whose padding is zero.
    pub fn read_array(&self, path: &Path) -> Result<Vec<u8>, String> {
        if self.parts.is_empty() {
            return array::read(path, self.element, &self.shape);
        }
        let (shape, fields) = self.records();
        let Some(columns) = array::read_records(path, &shape, &fields)? else {
            return array::read(path, self.element, &self.shape);
        };
        let mut contents = vec![0; self.bytes() as usize];
        for (part, numbers) in self.parts.iter().zip(columns) {
            part.scatter(&numbers, &mut contents);
        }
        Ok(contents)
    }
}

/// Layout of a block: an array of structures, or a single one, behind a header.
#[derive(Clone, Debug, PartialEq)]
pub struct StructureLayout {
    /// Name of the array, and its length if that is fixed.
    pub array: Option<(String, Option<u64>)>,
    /// Bytes before the array, or of the whole block if it has none.
    pub fixed: u64,
    /// Bytes from one structure of the array to the next.
    pub stride: u64,
    pub members: Vec<MemberLayout>,
}

/// Numbers of one type that are described together.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberLayout {
    pub name: String,
    pub scalar: Scalar,
    /// Whether each structure of the array has it; otherwise it lies in the header.
    pub is_repeated: bool,
    /// Places from the start of the structure, or of the block.
    numbers: Vec<NumberPlace>,
}

/// Removes the indices of a path: `m[1].x` becomes `m.x`.
fn without_indices(path: &str) -> String {
    let parts = path.split('[').enumerate();
    let parts =
        parts.map(|(index, part)| if index == 0 { part } else { part.split_once(']').map_or("", |(_, rest)| rest) });
    parts.collect::<String>().trim_start_matches('.').to_string()
}

/// Splits off the letter of a vector's component.
fn split_component(path: &str) -> (&str, &str) {
    let (vector, letter) = path.rsplit_once('.').unwrap_or(("", path));
    if ["x", "y", "z", "w"].contains(&letter) { (vector, letter) } else { (path, "") }
}

/// Returns the first byte of the array of structures in a block, the bytes from one to the next, and the numbers of the block up
/// to the end of the first structure.
pub(super) fn structures(block: &Block) -> (u64, u64, &[Argument]) {
    match &block.long {
        Some(long) => (long.start, long.stride, &long.first[..]),
        None => (block.fixed, block.array.map_or(0, |array| array.stride), &*block.members),
    }
}

impl StructureLayout {
    /// Finds the members of a block: those that `keys` name, and the others by their names in the module. `None` if the
    /// block has addresses, or too many members. Refuses a key for numbers of several types.
    pub fn new(block: &Block, keys: &[&str]) -> Result<Option<Self>, String> {
        let (fixed, stride, numbers) = structures(block);
        let has_array = block.long.is_some() || block.array.is_some();
        let mut layout = Self { array: None, fixed, stride, members: vec![] };
        let is_vector = |name: &str| {
            let (_, path) = name.split_once("[0]").unwrap_or(("", name));
            let path = without_indices(path);
            path.is_empty() || split_component(&path).0.is_empty()
        };
        let is_repeated = |offset: u32| has_array && u64::from(offset) >= fixed;
        let is_of_vectors =
            numbers.iter().filter(|number| is_repeated(number.offset)).all(|number| is_vector(&number.name));
        if has_array {
            let count = block.long.as_ref().map(|_| (block.fixed - fixed).div_ceil(stride.max(1)));
            let first = numbers.iter().find(|number| is_repeated(number.offset));
            let name = first.and_then(|number| number.name.split_once("[0]")).map_or("", |(name, _)| name);
            layout.array = Some((name.to_string(), count));
        }
        for number in numbers {
            let ArgumentKind::Scalar(scalar) = number.kind else { return Ok(None) };
            let is_repeated = is_repeated(number.offset);
            let path = match number.name.split_once("[0]") {
                Some((_, path)) if is_repeated => path.trim_start_matches('.'),
                _ => &number.name,
            };
            let called = if is_repeated && is_of_vectors { &*number.name } else { path };
            let offset = u64::from(number.offset) - if is_repeated { fixed } else { 0 };
            let place = NumberPlace { offset, path: path.into() };
            layout.add(keys, called, is_repeated, scalar, place)?;
        }
        if layout.members.is_empty() || has_array && stride == 0 {
            return Ok(None);
        }
        for index in 0..layout.members.len() {
            let name = &layout.members[index].name;
            if name.is_empty() || layout.members[..index].iter().any(|earlier| earlier.name == *name) {
                layout.members[index].name = layout.place(&layout.members[index]);
            }
        }
        Ok(Some(layout))
    }

    /// Adds a number that the module calls `called` to the member that has it.
    fn add(
        &mut self,
        keys: &[&str],
        called: &str,
        is_repeated: bool,
        scalar: Scalar,
        place: NumberPlace,
    ) -> Result<(), String> {
        let plain = without_indices(called);
        let is_within = |name: &str, key: &str| {
            name.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let covers =
            |key: &&&str| !key.is_empty() && [called, &plain, &place.path].iter().any(|name| is_within(name, key));
        let key = keys.iter().filter(covers).max_by_key(|key| key.len());
        let (vector, letter) = split_component(&plain);
        let name = key.map_or(if vector.is_empty() { "" } else { vector }, |key| key);
        let is_continued = |member: &MemberLayout| {
            member.is_repeated == is_repeated
                && member.scalar == scalar
                && member.numbers.last().is_some_and(|last| last.offset + u64::from(scalar.bytes()) == place.offset)
        };
        let is_same = |member: &&mut MemberLayout| match key {
            Some(key) => member.name == **key,
            None if name.is_empty() => false,
            None => {
                let is_known = member.numbers.iter().any(|number| number.path == place.path);
                member.name == name && member.is_repeated == is_repeated && member.scalar == scalar && !is_known
            }
        };
        let is_next_component = !letter.is_empty() && letter != "x" && name.is_empty();
        let known = match self.members.last_mut() {
            Some(last) if is_next_component && is_continued(last) => Some(last),
            _ => self.members.iter_mut().rfind(is_same),
        };
        match known {
            Some(member) if member.scalar != scalar || member.is_repeated != is_repeated => {
                let (first, second) = (member.scalar.name(), scalar.name());
                Err(format!("'{name}' has {first} and {second}; describe its members"))
            }
            Some(member) => {
                member.numbers.push(place);
                Ok(())
            }
            None => {
                // A single component of a structure without vectors, such as `x`, is no vector.
                let name = if name.is_empty() { plain.as_str() } else { name };
                self.members.push(MemberLayout { name: name.into(), scalar, is_repeated, numbers: vec![place] });
                Ok(())
            }
        }
    }

    /// Returns the key of a member by its place, `@8`: its first byte in the buffer.
    fn place(&self, member: &MemberLayout) -> String {
        let start = if member.is_repeated { self.fixed } else { 0 };
        format!("@{}", start + member.numbers[0].offset)
    }

    /// Returns the index of the member that `key` denotes.
    pub fn find(&self, key: &str) -> Option<usize> {
        let by_place = || self.members.iter().position(|member| self.place(member) == key);
        self.members.iter().position(|member| member.name == key).or_else(by_place)
    }

    /// Whether its numbers have several types.
    pub fn is_mixed(&self) -> bool {
        self.members.iter().any(|member| member.scalar != self.members[0].scalar)
    }

    /// Returns the size of a buffer with this many structures.
    pub fn bytes(&self, structures: u64) -> Option<u64> {
        if self.array.is_none() {
            Some(self.fixed)
        } else {
            structures.checked_mul(self.stride)?.checked_add(self.fixed)
        }
    }

    /// Returns the views of a buffer with an array of these extents.
    pub fn parts(&self, whole: &ResolvedBuffer, extents: &[u64]) -> Vec<ResolvedBuffer> {
        let has_header = self.members.iter().any(|member| !member.is_repeated);
        let views = self.members.iter().map(|member| {
            let array = self.array.as_ref().filter(|_| member.is_repeated);
            let extents = if array.is_some() { extents } else { &[] };
            let mut shape = extents.to_vec();
            if member.numbers.len() > 1 || shape.is_empty() {
                shape.push(member.numbers.len() as u64);
            }
            let element = DType::of_buffer(&member.scalar.name()).unwrap_or(DType::Bytes);
            let places = Places {
                array: match array {
                    Some((name, _)) if has_header && !name.is_empty() => format!("{}.{name}", whole.name),
                    _ => whole.name.clone(),
                },
                extents: extents.to_vec(),
                start: if array.is_some() { self.fixed } else { 0 },
                stride: self.stride,
                numbers: member.numbers.clone(),
            };
            let name = format!("{}.{}", whole.name, member.name);
            ResolvedBuffer { places: Some(places), ..ResolvedBuffer::new(&name, element, shape, whole.role) }
        });
        views.collect()
    }
}

/// Finds the layout of each buffer that is described by its members, or without a type: that of the first block which
/// has all members.
pub(super) fn find_layouts(
    description: &Description,
    passes: &[&LoadedPass],
) -> Result<Vec<Option<StructureLayout>>, Fault> {
    let buffers = description.buffer.iter();
    buffers.map(|(name, buffer)| find_layout(description, passes, name, buffer)).collect()
}

fn find_layout(
    description: &Description,
    passes: &[&LoadedPass],
    name: &str,
    buffer: &DescribedBuffer,
) -> Result<Option<StructureLayout>, Fault> {
    let keys = buffer.members.names();
    let field = format!("buffer.{name}");
    if buffer.element.is_some() {
        let message = "stands beside members, whose types are the kernel's; leave it out";
        return if keys.is_empty() { Ok(None) } else { Err(Fault::new(format!("{field}.type"), message)) };
    }
    let mut refused = None;
    for pass in passes {
        for slot in pass.interface.slots.iter() {
            if Members::of_slot(description, pass, slot)?.is_some() {
                continue;
            }
            let parts = bound_parts(description, pass, slot)?;
            if !parts.iter().any(|part| {
                part.buffer == name && part.offset.as_ref().is_none_or(|offset| *offset == Formula::Integer(0))
            }) {
                continue;
            }
            for block in slot.blocks.iter() {
                let layout = StructureLayout::new(block, &keys).map_err(|message| Fault::new(&field, message))?;
                let Some(layout) = layout.filter(|layout| !keys.is_empty() || layout.members.len() > 1) else {
                    continue;
                };
                let Some(unknown) = keys.iter().find(|key| layout.find(key).is_none()) else { return Ok(Some(layout)) };
                let known: Vec<&str> = layout.members.iter().map(|member| &*member.name).collect();
                let message = error::unknown("member", unknown, &format!(" of {}", pass.source), &known);
                refused.get_or_insert(Fault::new(format!("{field}.{unknown}"), message));
            }
        }
    }
    match refused {
        Some(fault) => Err(fault),
        None if keys.is_empty() => Ok(None),
        None => {
            let message = "has members, and no kernel binds it from its first byte to a block of numbers; \
                           write type and shape instead";
            Err(Fault::new(field, message))
        }
    }
}
