//! Buffers of a case: ranges of the program's buffers with their contents before and after, and the addresses that
//! refer to them.

use super::images::CaseImage;
use super::store::Store;
use super::{Slot, Starts, place};
use crate::basis::dtype::DType;
use crate::basis::file_name::is_plain;
use crate::basis::printable::{Shown, brief};
use crate::kernel::buffer::Role;
use crate::kernel::interface::{Argument, ArgumentKind, Block, Scalar, SlotKind};
use crate::user::access::Access;
use crate::user::init::{default_tolerance, element, mixed_layout, scalar_of};
use crate::user::loaded::{LoadedPass, slot_key};
use crate::user::members::{block_bytes, list_members};
use crate::user::oracle::{looks_like_integer, magnitude, magnitudes, values};
use crate::user::resolved::{ResolvedBuffer, Tolerance};
use crate::user::structure::StructureLayout;
use gpukern_layer::format::{CapturedDispatch, CapturedRegion, DescriptorBinding};
use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;

/// Buffer of a case.
pub(super) struct CaseBuffer {
    pub(super) name: String,
    pub(super) element: DType,
    pub(super) bytes: u64,
    /// Numbers in each element, if these have separate tolerances; otherwise 1.
    pub(super) columns: u64,
    /// Description of the image, if the kernel sees the buffer as one.
    pub(super) image: Option<CaseImage>,
    /// Index of the captured region; `None` for an inline uniform block.
    pub(super) region: Option<u32>,
    /// Set and binding of an inline uniform block.
    inline: Option<(u32, u32)>,
    pub(super) access: Access,
    /// Contents before the dispatch.
    before: Vec<u8>,
    /// Contents after it, which are the answer; empty for buffers that the kernel does not write.
    after: Vec<u8>,
    is_unchanged: bool,
    /// Files of the fill and of the answer, as the description names them.
    pub(super) fill: Option<String>,
    pub(super) answer: Option<String>,
    /// Slot whose members the description lists, instead of a file.
    pub(super) members: Option<usize>,
    /// Comment on the fill.
    pub(super) remark: &'static str,
    pub(super) tolerance: Tolerance,
    /// Layout of its structures and the tolerance of each member, if their numbers have several types.
    pub(super) structures: Option<(StructureLayout, Vec<Tolerance>)>,
}

/// Block whose members the description lists.
pub(super) struct ParameterBlock {
    /// Key in `uniform`; `None` for the push constants.
    pub(super) table: Option<String>,
    pub(super) remark: String,
    /// Type of the block in the module.
    root: Option<u32>,
    pub(super) members: Vec<Argument>,
    pub(super) bytes: Vec<u8>,
    /// Members that hold addresses, by offset, with the buffer or block to which they refer.
    pub(super) pointers: Vec<(u32, String)>,
}

/// Slot that the kernel uses, with its access and the descriptor bound to it.
pub(super) struct BoundSlot<'a> {
    pub(super) slot: Slot,
    pub(super) access: Access,
    pub(super) bound: &'a DescriptorBinding,
}

/// Most members of a block that are listed.
const MAX_LISTED: usize = 48;
/// Most characters of a buffer's name before it is made unique.
const MAX_NAME_LEN: usize = 40;

/// Collects the buffers of a case, stores their contents, and finds the addresses in the kernel's parameters and in the
/// blocks to which these lead.
pub(super) fn collect_buffers(
    pass: &LoadedPass,
    slots: &[BoundSlot<'_>],
    case: &CapturedDispatch,
    spool: &Path,
    folder: &Path,
    store: &mut Store,
) -> Result<(Vec<CaseBuffer>, Vec<ParameterBlock>), String> {
    let capabilities = &pass.interface.capabilities;
    let uses_addresses = pass.interface.uses_addresses();
    let arithmetic = short_float(capabilities);
    let mut buffers: Vec<CaseBuffer> = vec![];
    for (index, BoundSlot { slot, access: declared, bound }) in slots.iter().enumerate() {
        if buffers.iter().any(|buffer| bound.region.is_some() && buffer.region == bound.region) {
            continue;
        }
        // Slots bound to the same region share a buffer.
        let is_shared = |other: &&BoundSlot<'_>| bound.region.is_some() && other.bound.region == bound.region;
        let sharing: Vec<_> = slots.iter().filter(is_shared).collect();
        let mut access = *declared;
        for other in &sharing {
            access.join(other.access);
        }
        let region =
            bound.region.map(|region| case.regions.get(region as usize).ok_or("is damaged: a binding has no buffer"));
        let region = region.transpose()?;
        let contents = match region {
            None => BufferContents { before: bound.inline.clone(), after: None },
            Some(region) => BufferContents::read(region, spool)?,
        };
        let name = unique_name(&slot_key(slot), &buffers, &[]);
        let mut buffer = if let Some(image) = region.and_then(|region| region.image.as_ref()) {
            CaseBuffer::of_image(name, CaseImage::new(image, &sharing)?, access, contents, arithmetic)
        } else {
            let kind = buffer_type(&sharing, contents.last());
            let mut buffer = CaseBuffer::new(name, &kind, access, contents);
            buffer.fit_tolerance(arithmetic, Some(numbers_per_element(slot)));
            if sharing.len() < 2 && access.writes && bound.offset == 0 {
                buffer.fit_members(arithmetic, slot);
            }
            buffer
        };
        buffer.region = bound.region;
        buffer.inline = bound.region.is_none().then_some((bound.set, bound.binding));
        if sharing.len() < 2 && !access.writes && is_parameters(slot, uses_addresses) {
            buffer.members = Some(index);
        }
        buffers.push(buffer);
    }
    let mut blocks = parameter_blocks(pass, slots, case, &buffers);
    if uses_addresses {
        find_pointers(pass, slots, case, &mut buffers, &mut blocks, spool)?;
        refuse_stored_addresses(case, &buffers)?;
    }
    if !buffers.iter().any(|buffer| buffer.access.writes) {
        return Err("writes to no buffer".into());
    }
    for buffer in &mut buffers {
        buffer.store(folder, store)?;
    }
    Ok((buffers, blocks))
}

/// Whether the description lists the members of a slot's block that the kernel only reads: a short block without an
/// array that is uniform or may hold addresses.
fn is_parameters(slot: &Slot, uses_addresses: bool) -> bool {
    let mut blocks = slot.blocks.iter();
    let Some(block) = blocks.find(|block| (1..=MAX_LISTED).contains(&block.members.len())) else { return false };
    block.array.is_none()
        && (slot.kind == SlotKind::Uniform
            || uses_addresses
            || block.members.iter().any(|member| member.kind == ArgumentKind::Address))
}

/// Returns the 16-bit float in which a module may compute: its results are no more precise when stored as f32.
fn short_float(capabilities: &[Cow<'_, str>]) -> Option<DType> {
    let types = [("BFloat16TypeKHR", DType::Bf16), ("Float16", DType::F16)];
    let declared = types.into_iter().find(|(name, _)| capabilities.iter().any(|capability| capability == name));
    declared.map(|(_, dtype)| dtype)
}

/// Returns the numbers in each element of the array that a block consists of; otherwise 1.
fn numbers_per_element(slot: &Slot) -> usize {
    let numbers = slot.blocks.iter().find_map(|block| {
        let stride = match (block.array, &block.long) {
            (Some(array), _) if block.fixed == 0 => array.stride,
            (None, Some(long)) if long.start == 0 => long.stride,
            _ => return None,
        };
        Some(stride / u64::from(scalar_of(block)?.bytes()))
    });
    numbers.unwrap_or(1) as usize
}

/// Determines the element type of a buffer from the slots that share it; empty if it may hold both floats and integers.
fn buffer_type(sharing: &[&BoundSlot<'_>], contents: &[u8]) -> String {
    let slots: Vec<&Slot> = sharing.iter().map(|bound| &bound.slot).collect();
    let mut kinds: Vec<String> = slots.iter().map(|slot| element(&[slot])).collect();
    kinds.dedup();
    let kind = element(&slots);
    let is_open = kinds.iter().any(|kind| kind == "bytes") || holds_integers(&kind, contents);
    if kinds.len() > 1 && is_open { String::new() } else { kind }
}

/// Whether some elements of a buffer of this type of floats look like integers.
fn holds_integers(kind: &str, contents: &[u8]) -> bool {
    let Some(element) = DType::of_buffer(kind).ok().filter(|element| element.is_float()) else { return false };
    contents.chunks_exact(element.bytes() as usize).any(|bytes| looks_like_integer(element, bytes))
}

/// Contents of a buffer before the dispatch, and after it if they changed.
struct BufferContents {
    before: Vec<u8>,
    after: Option<Vec<u8>>,
}

impl BufferContents {
    /// Returns the contents after the dispatch. Before it, memory that was never written may hold anything.
    fn last(&self) -> &[u8] {
        self.after.as_ref().unwrap_or(&self.before)
    }

    /// Reads the contents of a region, which the layer wrote to files in `spool`.
    fn read(region: &CapturedRegion, spool: &Path) -> Result<Self, String> {
        let read = |name: &str| {
            let bytes =
                if is_plain(name) { std::fs::read(spool.join(name)) } else { Err(ErrorKind::InvalidFilename.into()) };
            bytes.map_err(|e| format!("'{}': {e}", brief(name)))
        };
        let before = read(&region.before)?;
        let after = region.after.as_deref().map(read).transpose()?;
        let has_wrong_size = |bytes: &Vec<u8>| bytes.len() as u64 != region.bytes;
        if has_wrong_size(&before) || after.as_ref().is_some_and(has_wrong_size) {
            return Err(format!("is damaged: {} has not the {} bytes that it should", region.before, region.bytes));
        }
        Ok(Self { before, after })
    }
}

/// Makes a unique buffer name that is valid in expressions and file names.
fn unique_name(name: &str, others: &[CaseBuffer], blocks: &[ParameterBlock]) -> String {
    let to_plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let mut name: String = name.chars().take(MAX_NAME_LEN).map(to_plain).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !is_plain(&name) {
        name.insert(0, 'b');
    }
    let names = others.iter().map(|other| &other.name).chain(blocks.iter().filter_map(|block| block.table.as_ref()));
    let names: Vec<&String> = names.collect();
    let is_taken = |name: &str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    let mut unique = name.clone();
    let mut number = 2;
    while is_taken(&unique) {
        unique = format!("{name}_{number}");
        number += 1;
    }
    unique
}

/// Most elements of an array of addresses.
const MAX_ADDRESSES: u64 = 4096;

/// Finds the addresses in blocks and the buffers that they refer to; adds buffers that no descriptor refers to, and
/// blocks that hold further addresses.
fn find_pointers(
    pass: &LoadedPass,
    slots: &[BoundSlot<'_>],
    case: &CapturedDispatch,
    buffers: &mut Vec<CaseBuffer>,
    blocks: &mut Vec<ParameterBlock>,
    spool: &Path,
) -> Result<(), String> {
    let (accesses, arithmetic) = (pass.accesses(), short_float(&pass.interface.capabilities));
    let pushed: Vec<(u32, Access)> =
        pass.addresses().zip(&accesses[slots.len()..]).map(|(member, access)| (member.offset, *access)).collect();
    // Region, offset in it and type of the blocks that addresses refer to, with their keys.
    let mut tables: Vec<((usize, u64, u32), String)> = vec![];
    let (mut next, bound) = (0, buffers.len());
    while let Some(block) = blocks.get(next) {
        let mut pointers = vec![];
        for (offset, number, address) in list_addresses(&block.bytes, case) {
            let block = &blocks[next];
            let declared = block.members.iter().find(|member| {
                let is_wide = matches!(member.kind, ArgumentKind::Scalar(Scalar::Int { bits: 64, .. }));
                member.offset == offset && (is_wide || member.kind == ArgumentKind::Address)
            });
            let Some(member) = declared else {
                let name =
                    block.table.as_ref().map_or_else(|| "push constants".into(), |table| format!("block at {table}"));
                return Err(format!("has an address at byte {offset} of the {name}, which is not declared as one"));
            };
            let member_name = member.name.rsplit('.').next().unwrap_or_default();
            let region = &case.regions[number];
            let skipped = address - region.address.unwrap_or_default();
            let target = block.root.and_then(|root| pass.pointees.target(root, offset));
            if let Some((root, pointed)) = target.filter(|(_, pointed)| pointed.has_addresses()) {
                let place = (number, skipped, root);
                if let Some((_, name)) = tables.iter().find(|(known, _)| *known == place) {
                    pointers.push((offset, name.clone()));
                    continue;
                }
                let name = unique_name(member_name, buffers, blocks);
                let contents = BufferContents::read(region, spool)?;
                blocks.push(ParameterBlock::pointed(name.clone(), root, pointed, contents, skipped)?);
                tables.push((place, name.clone()));
                pointers.push((offset, name));
                continue;
            }
            let access = pushed.iter().find(|(pushed, _)| next == 0 && *pushed == offset);
            let access = access.map_or(Access::UNKNOWN, |(_, access)| *access);
            let kind = type_behind(target.map(|(_, pointed)| pointed), skipped);
            let known = buffers.iter_mut().enumerate().find(|(_, buffer)| buffer.region == Some(number as u32));
            let name = if let Some((index, buffer)) = known {
                buffer.access.join(access);
                // A region may hold data of several types, each behind an address of its own.
                if index >= bound && kind != buffer.element.name() {
                    (buffer.element, buffer.columns, buffer.tolerance) = (DType::Bytes, 1, Tolerance::Exact);
                }
                buffer.name.clone()
            } else {
                let name = unique_name(if member_name.is_empty() { "buffer" } else { member_name }, buffers, blocks);
                let contents = BufferContents::read(region, spool)?;
                let kind = if holds_integers(&kind, contents.last()) { "bytes" } else { &kind };
                let mut buffer = CaseBuffer::new(name.clone(), kind, access, contents);
                buffer.fit_tolerance(arithmetic, None);
                buffers.push(CaseBuffer { region: Some(number as u32), ..buffer });
                name
            };
            pointers.push((offset, if skipped == 0 { name } else { format!("{name} + {skipped}") }));
        }
        blocks[next].pointers = pointers;
        next += 1;
    }
    Ok(())
}

/// Names the type of the numbers in a block, to which an address `skipped` bytes behind the start of a region leads.
fn type_behind(block: Option<&Block>, skipped: u64) -> String {
    let scalar = block.and_then(scalar_of).filter(|scalar| skipped.is_multiple_of(scalar.bytes().into()));
    scalar.map_or_else(|| "bytes".into(), Scalar::name)
}

/// Lists the addresses of captured regions in a block: their offsets, the indices of the regions, and the addresses.
fn list_addresses(bytes: &[u8], case: &CapturedDispatch) -> Vec<(u32, usize, u64)> {
    let mut addresses = vec![];
    for offset in (0..bytes.len().saturating_sub(7)).step_by(4) {
        let address = u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap_or_default());
        let region = case.regions.iter().position(|region| has_address(region, address));
        addresses.extend(region.map(|region| (offset as u32, region, address)));
    }
    addresses
}

impl ParameterBlock {
    /// Makes the block to which an address refers, `skipped` bytes behind the start of a region.
    fn pointed(name: String, root: u32, block: &Block, contents: BufferContents, skipped: u64) -> Result<Self, String> {
        let BufferContents { before, after } = contents;
        let left = (before.len() as u64).saturating_sub(skipped);
        let count = block.array.map_or(0, |array| left.saturating_sub(block.fixed) / array.stride.max(1));
        let bytes = block_bytes(block, count.max(1)).unwrap_or(u64::MAX);
        if bytes > left || count > MAX_ADDRESSES {
            return Err(format!(
                "has {count} addresses in the block {name}, which has {left} bytes; {MAX_ADDRESSES} are the most"
            ));
        }
        let range = skipped as usize..(skipped + bytes) as usize;
        if after.is_some_and(|after| after[range.clone()] != before[range.clone()]) {
            return Err(format!("writes to the block {name}, which holds addresses"));
        }
        let (members, remark) = (list_members(block, count), "at an address".to_string());
        Ok(Self {
            table: Some(name),
            remark,
            root: Some(root),
            members,
            bytes: before[range].to_vec(),
            pointers: vec![],
        })
    }
}

/// Returns the push constants and the bound blocks whose members the description lists.
fn parameter_blocks(
    pass: &LoadedPass,
    slots: &[BoundSlot<'_>],
    case: &CapturedDispatch,
    buffers: &[CaseBuffer],
) -> Vec<ParameterBlock> {
    let members = pass.interface.arguments.to_vec();
    let (bytes, root, remark, pointers) = (case.push.clone(), pass.pointees.root(None), String::new(), vec![]);
    let mut blocks = vec![ParameterBlock { table: None, remark, root, members, bytes, pointers }];
    for buffer in buffers {
        let Some(index) = buffer.members else { continue };
        let BoundSlot { slot, bound, .. } = &slots[index];
        let block = slot.blocks.iter().find(|block| !block.members.is_empty());
        blocks.push(ParameterBlock {
            table: Some(place(slot)),
            remark: slot.names().join(", "),
            root: pass.pointees.root(Some(slot)),
            members: block.map(|block| block.members.to_vec()).unwrap_or_default(),
            bytes: buffer.before.get(bound.offset as usize..).map(<[u8]>::to_vec).unwrap_or_default(),
            pointers: vec![],
        });
    }
    blocks
}

fn has_address(region: &CapturedRegion, address: u64) -> bool {
    region.address.is_some_and(|start| (start..start + region.bytes).contains(&address))
}

/// Refuses addresses within buffers that the kernel reads: a replay cannot adjust them.
fn refuse_stored_addresses(case: &CapturedDispatch, buffers: &[CaseBuffer]) -> Result<(), String> {
    // Memory that was never written may hold anything, and looks like addresses, if a heap had it before.
    for buffer in buffers.iter().filter(|buffer| buffer.members.is_none() && buffer.access.reads) {
        for (number, bytes) in buffer.before.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            if case.regions.iter().any(|region| has_address(region, word)) {
                let position = 8 * number;
                let name = &buffer.name;
                return Err(format!("has an address at byte {position} of {name}, which `run` cannot rewrite"));
            }
        }
    }
    Ok(())
}

impl CaseBuffer {
    /// Makes a buffer of elements of type `kind` with its default tolerance; of bytes if the type is unknown or does
    /// not fit.
    fn new(name: String, kind: &str, access: Access, contents: BufferContents) -> Self {
        let BufferContents { before, after } = contents;
        let bytes = before.len() as u64;
        let is_unchanged = after.as_ref().is_none_or(|after| *after == before);
        let after = after.unwrap_or_else(|| if access.writes { before.clone() } else { vec![] });
        let mut element =
            DType::of_buffer(kind).ok().filter(|of| bytes.is_multiple_of(of.bytes())).unwrap_or(DType::Bytes);
        // An output that consists of NaN is compared by its bits.
        if element.is_float() && access.writes && values(element, &after).all(f64::is_nan) {
            element = DType::Bytes;
        }
        Self {
            name,
            element,
            bytes,
            columns: 1,
            image: None,
            region: None,
            inline: None,
            access,
            before,
            after,
            is_unchanged,
            fill: None,
            answer: None,
            members: None,
            remark: "",
            tolerance: default_tolerance(element),
            structures: None,
        }
    }

    /// Makes the buffer of an image, whose format tells its type. `arithmetic` as in [`Self::fit_tolerance`].
    fn of_image(
        name: String,
        image: CaseImage,
        access: Access,
        contents: BufferContents,
        arithmetic: Option<DType>,
    ) -> Self {
        let element = image.format.element();
        let mut buffer = Self::new(name, element.name(), access, contents);
        if buffer.element == element {
            buffer.fit_tolerance(arithmetic, Some(image.format.components() as usize));
        } else {
            // Nothing but NaN.
            buffer.element = element;
            buffer.tolerance = Tolerance::Exact;
        }
        if let Some(tolerance) = image.tolerance() {
            buffer.tolerance = tolerance;
        }
        buffer.image = Some(image);
        buffer
    }

    /// Fits the tolerance of floats to the answer: rounding errors are relative to the largest terms of a sum, not to
    /// the sum, and sentinels are no terms. `arithmetic` is the 16-bit float in which the kernel may compute, `columns`
    /// the number of elements that may differ in magnitude; `None` for a buffer that may hold other data, too.
    fn fit_tolerance(&mut self, arithmetic: Option<DType>, columns: Option<usize>) {
        if let Some(arithmetic) = arithmetic
            && matches!(self.element, DType::F32 | DType::F16)
        {
            self.tolerance = default_tolerance(arithmetic);
        }
        let Tolerance::Close { rtol, .. } = self.tolerance else { return };
        if !self.access.writes {
            return;
        }
        let Some(columns) = columns else {
            let size = self.element.bytes() as usize;
            let elements = self.after.chunks_exact(size).zip(self.before.chunks_exact(size));
            let changed = elements.filter(|(after, before)| after != before).flat_map(|(after, _)| after);
            let largest = magnitude(values(self.element, &changed.copied().collect::<Vec<_>>()));
            self.tolerance = fitted(self.tolerance.clone(), largest);
            return;
        };
        let largest = magnitude(values(self.element, &self.after));
        self.tolerance = fitted(self.tolerance.clone(), largest);
        if !self.bytes.is_multiple_of(columns as u64 * self.element.bytes()) {
            return;
        }
        if let Some(magnitudes) = magnitudes(self.element, &self.after, columns) {
            self.columns = magnitudes.len() as u64;
            let magnitudes = magnitudes.into_iter().map(|magnitude| if magnitude > 0.0 { magnitude } else { largest });
            self.tolerance = Tolerance::Columns { rtol, atol: magnitudes.map(|magnitude| rtol * magnitude).collect() };
        }
    }

    /// Finds the structures of a buffer that the kernel writes, with a fitted tolerance for each member, if their numbers
    /// have several types and the buffer has a whole number of them.
    fn fit_members(&mut self, arithmetic: Option<DType>, slot: &Slot) {
        let Some(layout) = mixed_layout(slot) else { return };
        let count = self.bytes.saturating_sub(layout.fixed) / layout.stride.max(1);
        let is_whole = layout.bytes(count) == Some(self.bytes) && (count > 0 || layout.array.is_none());
        if !is_whole || layout.array.as_ref().is_some_and(|(_, length)| length.is_some_and(|length| length != count)) {
            return;
        }
        let whole = ResolvedBuffer::new(&self.name, DType::Bytes, vec![self.bytes], Role::Output);
        let tolerance = |part: &ResolvedBuffer| {
            let kind = arithmetic.filter(|_| matches!(part.element, DType::F32 | DType::F16)).unwrap_or(part.element);
            fitted(default_tolerance(kind), magnitude(values(part.element, &part.gather(&self.after))))
        };
        let tolerances = layout.parts(&whole, &[count]).iter().map(tolerance).collect();
        self.element = DType::Bytes;
        self.structures = Some((layout, tolerances));
    }

    /// Stores the inputs of the kernel and the answer.
    fn store(&mut self, folder: &Path, store: &mut Store) -> Result<(), String> {
        if self.members.is_some() {
            return Ok(());
        }
        let failed = |e: std::io::Error| format!("'{}': {e}", folder.shown());
        if self.access.writes {
            self.answer = Some(store.put(folder, &format!("out/{}", self.name), &self.after).map_err(failed)?);
        } else if self.access.reads {
            self.fill = Some(store.put(folder, &format!("in/{}", self.name), &self.before).map_err(failed)?);
            self.before = vec![];
        } else {
            // Only the length matters, if anything.
            self.before = vec![];
            self.remark = "the kernel does not read it";
        }
        Ok(())
    }

    /// Whether the descriptor refers to this buffer.
    pub(super) fn is_bound(&self, bound: &DescriptorBinding) -> bool {
        match self.region {
            Some(region) => bound.region == Some(region),
            None => bound.region.is_none() && self.inline == Some((bound.set, bound.binding)),
        }
    }

    /// Whether only a replay shows which elements the kernel writes; with `all`, also of a buffer that it may read and
    /// that the call did not change.
    pub(super) fn is_doubtful(&self, all: bool) -> bool {
        self.access.writes && (!self.access.reads || all && self.is_unchanged)
    }

    /// Stores the contents before a run as the fill of a buffer that the kernel writes. An output that the kernel
    /// writes completely needs none.
    pub(super) fn set_fill(&mut self, starts: &Starts, folder: &Path, store: &mut Store) -> Result<(), String> {
        if !self.access.writes {
            return Ok(());
        }
        let mut store_fill = |bytes: &[u8]| {
            let name = store.put(folder, &format!("in/{}", self.name), bytes);
            name.map(Some).map_err(|e| format!("'{}': {e}", folder.shown()))
        };
        if let Starts::Inverted(all) = starts
            && self.is_doubtful(*all)
        {
            self.remark = "something else than the answer";
            self.fill = store_fill(&inverted(&self.after))?;
            return Ok(());
        }
        let written = self.written_elements(starts);
        match written {
            Some(written) if !written.contains(&false) => {
                self.fill = None;
                self.remark = "";
            }
            Some(written) if written.contains(&true) => {
                self.remark = "written in part; at the start, what the kernel will write holds other values";
                let size = self.element.bytes() as usize;
                let elements = self.after.chunks_exact(size).zip(self.before.chunks_exact(size));
                let mut fill = vec![];
                for ((after, before), is_written) in elements.zip(written) {
                    fill.extend(if is_written { inverted(after) } else { before.to_vec() });
                }
                self.fill = store_fill(&fill)?;
            }
            _ => {
                self.remark = if self.is_unchanged {
                    "the call left it as it was: a kernel that does nothing passes"
                } else {
                    ""
                };
                self.fill = store_fill(&self.before)?;
            }
        }
        Ok(())
    }

    /// Returns whether the kernel writes each element, if that is known.
    fn written_elements(&self, starts: &Starts) -> Option<Vec<bool>> {
        let size = self.element.bytes() as usize;
        let answers = self.after.chunks_exact(size);
        match starts {
            Starts::Known if !self.access.reads => {
                let elements = answers.zip(self.before.chunks_exact(size));
                Some(elements.map(|(after, before)| self.is_unchanged || after != before).collect())
            }
            Starts::Found(found) => {
                let elements = answers.zip(found.get(&self.name)?.chunks_exact(size));
                Some(elements.map(|(after, found)| found != inverted(after)).collect())
            }
            _ => None,
        }
    }
}

/// Makes the absolute part of a tolerance relative to the largest magnitude of the answer.
fn fitted(tolerance: Tolerance, largest: f64) -> Tolerance {
    match tolerance {
        Tolerance::Close { rtol, .. } if largest > 0.0 => Tolerance::Close { rtol, atol: rtol * largest },
        other => other,
    }
}

fn inverted(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}
