//! Buffers of a case: ranges of the program's buffers with their contents before and after, and the addresses that
//! refer to them.

use super::store::Store;
use super::{Slot, Starts, place};
use crate::basis::dtype::DType;
use crate::basis::file_name::is_plain;
use crate::basis::printable::{Shown, brief};
use crate::kernel::interface::{Argument, ArgumentKind, Block, Scalar, SlotKind};
use crate::user::access::Access;
use crate::user::init::{default_tolerance, element};
use crate::user::loaded::{LoadedPass, slot_key};
use crate::user::oracle::{looks_like_integer, magnitude, magnitudes};
use crate::user::resolved::Tolerance;
use gpukern_layer::format::{CapturedDispatch, CapturedRegion, DescriptorBinding};
use std::io::ErrorKind;
use std::path::Path;

/// Buffer of a case.
pub(super) struct CaseBuffer {
    pub(super) name: String,
    pub(super) element: DType,
    pub(super) bytes: u64,
    /// Numbers in each element, if these have separate tolerances; otherwise 1.
    pub(super) columns: u64,
    /// Index of the captured region; `None` for an inline uniform block.
    pub(super) region: Option<u32>,
    /// Set and binding of an inline uniform block.
    inline: Option<(u32, u32)>,
    pub(super) access: Access,
    /// Contents before and after the dispatch; after it, only of buffers that the kernel writes.
    before: Vec<u8>,
    after: Vec<u8>,
    /// Whether the dispatch changed nothing.
    same: bool,
    /// Files of the fill and of the answer, as the description names them.
    pub(super) fill: Option<String>,
    pub(super) answer: Option<String>,
    /// Slot whose members the description lists, instead of a file.
    pub(super) members: Option<usize>,
    /// Comment on the fill.
    pub(super) remark: &'static str,
    pub(super) tolerance: Tolerance,
}

/// Member that holds an address.
pub(super) struct AddressMember {
    /// Slot of its block; `None` for push constants.
    pub(super) slot: Option<usize>,
    pub(super) offset: u32,
    /// Buffer and offset that the address refers to.
    pub(super) to: String,
}

/// Slot that the kernel uses, with its access and the descriptor bound to it.
pub(super) struct BoundSlot<'a> {
    pub(super) slot: Slot,
    pub(super) access: Access,
    pub(super) bound: &'a DescriptorBinding,
}

/// Most members of a block that are listed.
const MAX_LISTED: usize = 48;

/// Collects the buffers of a case, stores their contents, and finds the addresses in the kernel's parameters.
pub(super) fn data(
    pass: &LoadedPass,
    slots: &[BoundSlot<'_>],
    case: &CapturedDispatch,
    spool: &Path,
    folder: &Path,
    store: &mut Store,
) -> Result<(Vec<CaseBuffer>, Vec<AddressMember>), String> {
    let addressed =
        pass.interface.capabilities.iter().any(|capability| capability.contains("PhysicalStorageBufferAddresses"));
    // Results computed in 16-bit floats are no more precise when stored as f32.
    let has = |name: &str| pass.interface.capabilities.iter().any(|capability| capability == name);
    let computed = [("BFloat16TypeKHR", DType::Bf16), ("Float16", DType::F16)];
    let computed = computed.into_iter().find(|(name, _)| has(name)).map(|(_, of)| of);
    let read = |name: &str| {
        let there =
            if is_plain(name) { std::fs::read(spool.join(name)) } else { Err(ErrorKind::InvalidFilename.into()) };
        there.map_err(|e| format!("'{}': {e}", brief(name)))
    };
    let mut all: Vec<CaseBuffer> = vec![];
    for (at, BoundSlot { slot, access: declared, bound }) in slots.iter().enumerate() {
        if all.iter().any(|buffer| bound.region.is_some() && buffer.region == bound.region) {
            continue;
        }
        let same = |other: &&BoundSlot<'_>| bound.region.is_some() && other.bound.region == bound.region;
        let sharing: Vec<_> = slots.iter().filter(same).collect();
        let access = sharing.iter().fold(*declared, |all, other| Access {
            reads: all.reads || other.access.reads,
            writes: all.writes || other.access.writes,
            ..all
        });
        let (before, after) = match bound.region.map(|at| region(case, at)).transpose()? {
            None => (bound.inline.clone(), None),
            Some(region) => contents(region, &read)?,
        };
        let kind = kind(&sharing, after.as_ref().unwrap_or(&before));
        let mut data = CaseBuffer::new(
            unique_name(&slot_key(slot), &all),
            (&kind, of_element(slot), computed),
            access,
            (before, after),
        );
        data.region = bound.region;
        data.inline = bound.region.is_none().then_some((bound.set, bound.binding));
        let few = slot.blocks.iter().find(|block| (1..=MAX_LISTED).contains(&block.members.len()));
        let by_member = |block: &Block| {
            let holds = block.members.iter().any(|member| member.kind == ArgumentKind::Address);
            block.array.is_none() && (slot.kind == SlotKind::Uniform || holds || addressed && !access.writes)
        };
        if sharing.len() < 2 && !access.writes && few.is_some_and(by_member) {
            data.members = Some(at);
        }
        all.push(data);
    }
    let pointers = if addressed { pointers(pass, slots, case, &mut all, &read)? } else { vec![] };
    if !all.iter().any(|data| data.access.writes) {
        return Err("writes to no buffer".into());
    }
    all.iter_mut().try_for_each(|data| data.store(folder, store))?;
    Ok((all, pointers))
}

/// Returns the numbers in each element of the array that a block consists of; otherwise 1.
fn of_element(slot: &Slot) -> usize {
    let of = |block: &Block| match (block.array, &block.long) {
        (Some(array), _) if block.fixed == 0 => Some(array.stride / u64::from(array.scalar?.bytes())),
        (None, Some(long)) if long.start == 0 => Some(long.stride / u64::from(block.scalar?.bytes())),
        _ => None,
    };
    slot.blocks.iter().find_map(of).unwrap_or(1) as usize
}

/// Determines the element type of a buffer from the slots that share it; empty if it may hold both floats and integers.
fn kind(sharing: &[&BoundSlot<'_>], contents: &[u8]) -> String {
    let slots: Vec<&Slot> = sharing.iter().map(|bound| &bound.slot).collect();
    let mut kinds: Vec<String> = slots.iter().map(|slot| element(&[slot])).collect();
    kinds.dedup();
    let kind = element(&slots);
    let holds_integers = |element: DType| {
        let mut elements = contents.chunks_exact(element.bytes() as usize);
        element.is_float() && elements.any(|bytes| looks_like_integer(element, bytes))
    };
    let is_open = kinds.iter().any(|kind| kind == "bytes") || DType::of_buffer(&kind).is_ok_and(holds_integers);
    if kinds.len() > 1 && is_open { String::new() } else { kind }
}

fn region(case: &CapturedDispatch, at: u32) -> Result<&CapturedRegion, String> {
    case.regions.get(at as usize).ok_or_else(|| "is damaged: a binding has no buffer".to_string())
}

/// Reads the contents of a region before the dispatch, and after it if they changed.
fn contents(
    region: &CapturedRegion,
    read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<(Vec<u8>, Option<Vec<u8>>), String> {
    let before = read(&region.before)?;
    let after = region.after.as_deref().map(read).transpose()?;
    let wrong = |bytes: &Vec<u8>| bytes.len() as u64 != region.bytes;
    if wrong(&before) || after.as_ref().is_some_and(wrong) {
        return Err(format!("is damaged: {} has not the {} bytes that it should", region.before, region.bytes));
    }
    Ok((before, after))
}

/// Makes a unique buffer name that is valid in expressions and file names.
fn unique_name(name: &str, others: &[CaseBuffer]) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let name: String = name.chars().take(40).map(plain).collect();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && is_plain(&name);
    let name = if is_name { name } else { format!("b{name}") };
    let names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}_{number}")));
    let is_new = |name: &String| !others.iter().any(|other| other.name.eq_ignore_ascii_case(name));
    names.into_iter().find(is_new).unwrap_or(name)
}

/// Finds the addresses in the kernel's parameters and the buffers that they refer to; adds buffers that no descriptor
/// refers to.
fn pointers(
    pass: &LoadedPass,
    slots: &[BoundSlot<'_>],
    case: &CapturedDispatch,
    all: &mut Vec<CaseBuffer>,
    read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<AddressMember>, String> {
    let accesses = pass.accesses()?;
    let pushed: Vec<(u32, Access)> =
        pass.addresses().zip(&accesses[slots.len()..]).map(|(member, access)| (member.offset, *access)).collect();
    let unknown = Access::UNKNOWN;
    let mut found = vec![];
    let mut blocks: Vec<(Option<usize>, Vec<Argument>, Vec<u8>)> =
        vec![(None, pass.interface.arguments.to_vec(), case.push.clone())];
    for data in all.iter() {
        if let Some(at) = data.members {
            let BoundSlot { slot, bound, .. } = &slots[at];
            let members = slot.blocks.iter().find(|block| !block.members.is_empty());
            let (offset, bytes) = (bound.offset as usize, data.before.clone());
            let members = members.map(|block| block.members.to_vec()).unwrap_or_default();
            blocks.push((Some(at), members, bytes.get(offset..).map(<[u8]>::to_vec).unwrap_or_default()));
        }
    }
    for (slot, members, bytes) in blocks {
        let whose = slot
            .map_or_else(|| "the push constants".to_string(), |at| format!("the block at {}", place(&slots[at].slot)));
        for at in (0..bytes.len().saturating_sub(7)).step_by(4) {
            let address = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
            let holds = |region: &CapturedRegion| {
                region.address.is_some_and(|start| (start..start + region.bytes).contains(&address))
            };
            let Some(number) = case.regions.iter().position(holds) else { continue };
            let pointer = |member: &&Argument| {
                let wide = matches!(member.kind, ArgumentKind::Scalar(Scalar::Int { bits: 64, .. }));
                member.offset as usize == at && (wide || member.kind == ArgumentKind::Address)
            };
            if !members.iter().any(|member| pointer(&member)) {
                return Err(format!("has an address at byte {at} of {whose}, which is not declared as one"));
            }
            let access = pushed.iter().find(|(offset, _)| slot.is_none() && *offset as usize == at);
            let access = access.map_or(unknown, |(_, access)| *access);
            let region = &case.regions[number];
            let known = all.iter_mut().find(|buffer| buffer.region == Some(number as u32));
            let name = if let Some(data) = known {
                let Access { reads, writes, .. } = data.access;
                data.access = Access { reads: reads || access.reads, writes: writes || access.writes, ..data.access };
                data.name.clone()
            } else {
                let member =
                    members.iter().find(pointer).map_or("", |member| member.name.rsplit('.').next().unwrap_or(""));
                let name = unique_name(if member.is_empty() { "buffer" } else { member }, all);
                let mut data = CaseBuffer::new(name.clone(), ("bytes", 1, None), access, contents(region, read)?);
                data.region = Some(number as u32);
                all.push(data);
                name
            };
            let skipped = address - region.address.unwrap_or_default();
            let to = if skipped == 0 { name } else { format!("{name} + {skipped}") };
            found.push(AddressMember { slot, offset: at as u32, to });
        }
    }
    refuse_stored_addresses(case, all)?;
    Ok(found)
}

/// Refuses addresses within buffers: a replay cannot adjust them.
fn refuse_stored_addresses(case: &CapturedDispatch, all: &[CaseBuffer]) -> Result<(), String> {
    let holds = |address: u64| {
        case.regions.iter().any(|region| region.address.is_some_and(|at| (at..at + region.bytes).contains(&address)))
    };
    for data in all.iter().filter(|data| data.members.is_none()) {
        let words = data.before.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        if let Some(at) = words.into_iter().position(holds) {
            return Err(format!("has an address at byte {} of {}, which `run` cannot rewrite", 8 * at, data.name));
        }
    }
    Ok(())
}

impl CaseBuffer {
    fn new(
        name: String,
        (kind, of_element, computed): (&str, usize, Option<DType>),
        access: Access,
        (before, after): (Vec<u8>, Option<Vec<u8>>),
    ) -> Self {
        let bytes = before.len() as u64;
        let same = after.as_ref().is_none_or(|after| *after == before);
        let after = after.unwrap_or_else(|| if access.writes { before.clone() } else { vec![] });
        let element = DType::of_buffer(kind).ok().filter(|of| bytes.is_multiple_of(of.bytes())).unwrap_or(DType::Bytes);
        // An output that consists of NaN is compared by its bits.
        let values = || after.chunks_exact(element.bytes() as usize).map(move |bytes| element.value(bytes));
        let nothing = element.is_float() && access.writes && values().all(f64::is_nan);
        let element = if nothing { DType::Bytes } else { element };
        let mut tolerance =
            default_tolerance(computed.filter(|_| matches!(element, DType::F32 | DType::F16)).unwrap_or(element));
        // Rounding errors are relative to the largest terms of a sum, not to the sum; sentinels are no terms.
        let mut columns = 1;
        if let (Tolerance::Close { rtol, atol }, true) = (&mut tolerance, access.writes) {
            let rtol = *rtol;
            let largest = magnitude(values());
            if largest > 0.0 {
                *atol = rtol * largest;
            }
            let is_whole = bytes.is_multiple_of(of_element as u64 * element.bytes());
            if let Some(found) = magnitudes(element, &after, of_element).filter(|_| is_whole) {
                columns = found.len() as u64;
                let atol =
                    found.iter().map(|magnitude| rtol * if *magnitude > 0.0 { *magnitude } else { largest }).collect();
                tolerance = Tolerance::Columns { rtol, atol };
            }
        }
        let (fill, answer, members, remark) = (None, None, None, "");
        Self {
            name,
            element,
            bytes,
            columns,
            region: None,
            inline: None,
            access,
            before,
            after,
            same,
            fill,
            answer,
            members,
            remark,
            tolerance,
        }
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

    /// Returns the contents of a block whose members are listed.
    pub(super) fn block(&self) -> &[u8] {
        &self.before
    }

    /// Whether only a replay shows which elements the kernel writes.
    pub(super) fn is_doubtful(&self, all: bool) -> bool {
        self.access.writes && (!self.access.reads || all && self.same)
    }

    /// Sets the contents before a run.
    pub(super) fn start(&mut self, starts: &Starts, folder: &Path, store: &mut Store) -> Result<(), String> {
        if !self.access.writes {
            return Ok(());
        }
        let size = self.element.bytes() as usize;
        let elements = || self.after.chunks_exact(size).zip(self.before.chunks_exact(size));
        let other = |answer: &[u8]| answer.iter().map(|byte| !byte).collect::<Vec<u8>>();
        // Whether the kernel writes each element, if that is known.
        let written: Option<Vec<bool>> = match starts {
            Starts::Known if !self.access.reads => {
                Some(elements().map(|(after, before)| self.same || after != before).collect())
            }
            Starts::Inverted(all) if self.is_doubtful(*all) => {
                self.remark = "something else than the answer";
                let bytes: Vec<u8> = self.after.chunks_exact(size).flat_map(other).collect();
                return self.filled(&bytes, folder, store);
            }
            Starts::Found(found) => found.get(&self.name).map(|found| {
                let left = found.chunks_exact(size).zip(self.after.chunks_exact(size));
                left.map(|(found, after)| found != other(after)).collect()
            }),
            _ => None,
        };
        match written {
            Some(written) if written.iter().all(|written| *written) => {
                (self.fill, self.remark) = (None, "");
                Ok(())
            }
            Some(written) if written.iter().any(|written| *written) => {
                self.remark = "written in part: what the kernel writes holds something else before";
                let mixed = elements().zip(&written);
                let mixed =
                    mixed.map(|((after, before), written)| if *written { other(after) } else { before.to_vec() });
                let bytes: Vec<u8> = mixed.flatten().collect();
                self.filled(&bytes, folder, store)
            }
            _ => {
                self.remark =
                    if self.same { "the call left it as it was: a kernel that does nothing passes" } else { "" };
                let before = std::mem::take(&mut self.before);
                let done = self.filled(&before, folder, store);
                self.before = before;
                done
            }
        }
    }

    fn filled(&mut self, bytes: &[u8], folder: &Path, store: &mut Store) -> Result<(), String> {
        let put = store.put(folder, &format!("in/{}", self.name), bytes);
        self.fill = Some(put.map_err(|e| format!("'{}': {e}", folder.shown()))?);
        Ok(())
    }
}
