//! Fossilize archives (`.foz`): pipelines as games and engines record them, and as driver teams replay them daily.
//!
//! Each compute pipeline becomes a kernel for a driver to compile. An archive has no buffers and no grids, so none can run.

use super::entry::isolate;
use super::loaded::{bytes, stem};
use super::resolve::check_name;
use super::resolved::{KernelConfiguration, Module, PassList, ResolvedPoint, ResolvedProblem};
use crate::basis::error::{Error, nearest};
use crate::basis::pattern::matches;
use crate::basis::printable::{Shown, brief};
use crate::basis::units::{Bytes, counted};
use crate::kernel::buffer::{SpecValue, StatedBinding, StatedLayout, StatedRange, StatedSet};
use crate::kernel::interface::Interface;
use crate::kernel::program::Dispatch;
use crate::kernel::spirv::MAX_FILE_BYTES;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Crc;
use flate2::read::ZlibDecoder;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::path::Path;

/// First bytes of an archive; the format's version follows.
const MAGIC: [u8; 15] = *b"\x81FOSSILIZEDB\0\0\0";

/// Versions of the format.
const VERSIONS: RangeInclusive<u32> = 5..=6;

/// Bytes of an entry's name in hexadecimal digits: its kind, then its hash in the last 16.
const NAME_BYTES: usize = 40;

/// Bytes before an entry's payload: the name and four words.
const HEADER_BYTES: usize = NAME_BYTES + 16;

/// Most bytes of an entry, expanded: a module as large as a file may be, coded in bytes of 7 bits, and its JSON.
const MAX_ENTRY_BYTES: u32 = 2 * MAX_FILE_BYTES as u32;

/// Most bytes of the modules of all pipelines.
const MAX_MODULES_BYTES: usize = 256 << 20;

/// `VkPipelineCreateFlags` that change what a compute pipeline compiles to; the others ask for statistics, or are about
/// caches and derivatives.
const IGNORED_FLAGS: u64 = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200;
const LIBRARY_FLAG: u64 = 0x800;

/// `VkPipelineShaderStageCreateFlags`.
const VARYING_SUBGROUPS: u64 = 1;
const FULL_SUBGROUPS: u64 = 2;

/// `VkStructureType` of `VkPipelineShaderStageRequiredSubgroupSizeCreateInfo`.
const REQUIRED_SUBGROUP_SIZE: i64 = 1_000_225_001;

/// Last `VkDescriptorType` of Vulkan 1.0: those of extensions need structures of their own.
const LAST_DESCRIPTOR_TYPE: u32 = 10;

/// Kind of an entry. The discriminants are Fossilize's tags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EntryKind {
    SetLayout = 2,
    PipelineLayout = 3,
    Module = 4,
    Graphics = 6,
    Compute = 7,
    RayTracing = 9,
}

impl EntryKind {
    const ALL: [Self; 6] =
        [Self::SetLayout, Self::PipelineLayout, Self::Module, Self::Graphics, Self::Compute, Self::RayTracing];
}

/// Place of an entry's payload, and what its header says of it.
struct ArchiveEntry {
    offset: u64,
    stored: u32,
    format: u32,
    /// Checksum of the stored bytes; 0 if there is none.
    crc: u32,
    expanded: u32,
}

/// JSON of an entry: a table of objects of its kind, by hash.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryDocument {
    version: u32,
    #[serde(default)]
    set_layouts: BTreeMap<String, ArchivedSetLayout>,
    #[serde(default)]
    pipeline_layouts: BTreeMap<String, ArchivedPipelineLayout>,
    #[serde(default)]
    shader_modules: BTreeMap<String, ShaderModule>,
    #[serde(default)]
    compute_pipelines: BTreeMap<String, ComputePipeline>,
}

#[derive(Deserialize)]
struct ArchivedSetLayout {
    #[serde(default)]
    flags: u32,
    bindings: Vec<LayoutBinding>,
    #[serde(rename = "pNext", default)]
    next: Vec<Extension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LayoutBinding {
    binding: u32,
    descriptor_type: u32,
    descriptor_count: u32,
    stage_flags: u32,
    immutable_samplers: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchivedPipelineLayout {
    set_layouts: Vec<String>,
    #[serde(default)]
    push_constant_ranges: Vec<StatedRange>,
}

/// Module, whose code follows the JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShaderModule {
    code_size: usize,
    varint_offset: usize,
    varint_size: usize,
}

#[derive(Deserialize)]
struct ComputePipeline {
    flags: u64,
    layout: String,
    stage: Stage,
    #[serde(rename = "pNext", default)]
    next: Vec<Extension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stage {
    flags: u64,
    module: String,
    name: String,
    specialization_info: Option<Specialization>,
    #[serde(rename = "pNext", default)]
    next: Vec<Extension>,
}

impl Stage {
    fn required_subgroup_size(&self) -> Option<u32> {
        self.next.iter().find_map(|extension| extension.required_subgroup_size)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Extension {
    #[serde(rename = "sType")]
    structure: i64,
    required_subgroup_size: Option<u32>,
    binding_flags: Option<Vec<u32>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Specialization {
    data: String,
    #[serde(default)]
    map_entries: Vec<MapEntryFields>,
}

#[derive(Deserialize)]
struct MapEntryFields {
    #[serde(rename = "constantID")]
    id: u32,
    offset: usize,
    size: usize,
}

/// Reads the number that Fossilize writes in hexadecimal digits.
fn hash_of(digits: &str) -> Option<u64> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// Takes the object of this hash from a document's table.
fn take<T>(table: BTreeMap<String, T>, hash: u64) -> Result<T, String> {
    let found = table.into_iter().find(|(name, _)| hash_of(name) == Some(hash));
    found.map(|(_, object)| object).ok_or_else(|| "it is damaged: it holds another object than its name says".into())
}

/// Decodes words of which each is stored in bytes of 7 bits, the lowest first.
fn decode_words(coded: &[u8], count: usize) -> Option<Vec<u32>> {
    let mut words = vec![];
    let mut rest = coded.iter();
    for _ in 0..count {
        let mut word = 0;
        for shift in (0..).step_by(7) {
            let byte = *rest.next()?;
            // A fifth byte has the upper four bits.
            word |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                break;
            }
        }
        words.push(word);
    }
    rest.next().is_none().then_some(words)
}

/// Opened archive with the places of its entries.
struct Archive {
    file: File,
    entries: BTreeMap<(EntryKind, u64), ArchiveEntry>,
    /// Pipeline layouts that were read, by hash, and whether samplers are part of them.
    layouts: BTreeMap<u64, Result<(StatedLayout, bool), String>>,
    /// The fault of the file as a whole, or of the first damaged entry.
    damage: Option<String>,
    /// Whether its last entry is incomplete, which the format allows: the program that recorded it ended at once.
    ends_early: bool,
}

impl Archive {
    fn open(path: &Path) -> Result<Self, String> {
        let metadata = path.metadata().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => "no such file".into(),
            _ => e.to_string(),
        })?;
        if !metadata.is_file() {
            return Err("it is not a regular file".into());
        }
        let file = File::open(path).map_err(|e| e.to_string())?;
        let mut head = vec![];
        (&file).take(MAGIC.len() as u64 + 1).read_to_end(&mut head).map_err(|e| e.to_string())?;
        match head.strip_prefix(&MAGIC) {
            Some([version]) if VERSIONS.contains(&u32::from(*version)) => {}
            Some([version]) => return Err(unsupported_version((*version).into())),
            _ => return Err("it is no Fossilize archive: it does not begin as one; record it again".into()),
        }
        let mut archive =
            Self { file, entries: BTreeMap::new(), layouts: BTreeMap::new(), damage: None, ends_early: false };
        archive.read_index(metadata.len()).map_err(|e| e.to_string())?;
        Ok(archive)
    }

    /// Reads the headers of all entries of a file of `len` bytes.
    fn read_index(&mut self, len: u64) -> io::Result<()> {
        let mut reader = BufReader::new(self.file.try_clone()?);
        let mut offset = reader.stream_position()?;
        while offset < len {
            let mut header = [0; HEADER_BYTES];
            let payload = offset + HEADER_BYTES as u64;
            if payload > len {
                self.ends_early = true;
                break;
            }
            reader.read_exact(&mut header)?;
            let (name, words) = header.split_at(NAME_BYTES);
            let word = |index: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| words[4 * index + byte]));
            let [stored, format, crc, expanded] = [0, 1, 2, 3].map(word);
            let digits = std::str::from_utf8(name).ok().filter(|name| name.is_ascii());
            let Some((tag, hash)) = digits.and_then(|name| Some((hash_of(&name[8..24])?, hash_of(&name[24..])?)))
            else {
                self.damage = Some(format!("byte {offset} begins no entry; what follows is unread"));
                break;
            };
            if u64::from(stored) > len - payload {
                self.ends_early = true;
                break;
            }
            if let Some(kind) = EntryKind::ALL.into_iter().find(|kind| *kind as u64 == tag)
                && let MapEntry::Vacant(place) = self.entries.entry((kind, hash))
            {
                place.insert(ArchiveEntry { offset: payload, stored, format, crc, expanded });
            }
            reader.seek_relative(stored.into())?;
            offset = payload + u64::from(stored);
        }
        Ok(())
    }

    fn hashes(&self, kind: EntryKind) -> Vec<u64> {
        self.entries.keys().filter(|(own, _)| *own == kind).map(|(_, hash)| *hash).collect()
    }

    /// Returns the JSON of an entry, and the bytes behind it.
    fn document(&mut self, kind: EntryKind, hash: u64) -> Result<(EntryDocument, Vec<u8>), String> {
        let noun = match kind {
            EntryKind::Module => "shader module",
            EntryKind::PipelineLayout => "pipeline layout",
            EntryKind::SetLayout => "descriptor set layout",
            _ => "pipeline",
        };
        let Some(entry) = self.entries.get(&(kind, hash)) else {
            return Err(format!("its {noun} {hash:016x} is not in the archive"));
        };
        let document = self.expand(entry).and_then(|mut text| {
            let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
            let rest = text.split_off((end + 1).min(text.len()));
            let document: EntryDocument =
                serde_json::from_slice(&text[..end]).map_err(|e| format!("it is damaged: {e}"))?;
            if !VERSIONS.contains(&document.version) {
                return Err(unsupported_version(document.version));
            }
            Ok((document, rest))
        });
        document.map_err(|reason| self.note_damage(format!("{noun} {hash:016x}: {reason}")))
    }

    fn note_damage(&mut self, reason: String) -> String {
        self.damage.get_or_insert_with(|| reason.clone());
        reason
    }

    /// Reads a payload, and checks it against its header.
    fn expand(&self, entry: &ArchiveEntry) -> Result<Vec<u8>, String> {
        let ArchiveEntry { offset, stored, format, crc, expanded } = *entry;
        let limit = Bytes(MAX_ENTRY_BYTES.into());
        if stored.max(expanded) > MAX_ENTRY_BYTES {
            return Err(format!("it has {}, and {limit} are the most", Bytes(stored.max(expanded).into())));
        }
        let mut payload = vec![];
        let mut file = &self.file;
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.take(stored.into()).read_to_end(&mut payload));
        read.map_err(|e| e.to_string())?;
        let mut check = Crc::new();
        check.update(&payload);
        if crc != 0 && check.sum() != crc {
            return Err(format!("it is damaged: its checksum is {:08x}, and should be {crc:08x}", check.sum()));
        }
        let contents = match format {
            1 => payload,
            2 => {
                let mut contents = vec![];
                let decoder = ZlibDecoder::new(payload.as_slice());
                let read = decoder.take(u64::from(expanded) + 1).read_to_end(&mut contents);
                read.map_err(|e| format!("it is damaged: {e}"))?;
                contents
            }
            _ => return Err(format!("it is compressed by method {format}, which gpukern does not know")),
        };
        if contents.len() != expanded as usize {
            return Err(format!("it is damaged: it does not have the {expanded} bytes that its header states"));
        }
        Ok(contents)
    }

    /// Returns the words of a module.
    fn module(&mut self, hash: u64) -> Result<Vec<u32>, String> {
        let (document, behind) = self.document(EntryKind::Module, hash)?;
        let words = take(document.shader_modules, hash).and_then(|fields| {
            let ShaderModule { code_size, varint_offset, varint_size } = fields;
            let coded = varint_offset.checked_add(varint_size).and_then(|end| behind.get(varint_offset..end));
            let words = coded.and_then(|coded| decode_words(coded, code_size / 4));
            let words = words.filter(|_| code_size.is_multiple_of(4));
            words.ok_or_else(|| format!("it is damaged: it does not hold the {code_size} bytes of code that it states"))
        });
        words.map_err(|reason| self.note_damage(format!("shader module {hash:016x}: {reason}")))
    }

    /// Names what a pipeline has that its kernel here lacks, and by which a driver may compile it differently.
    fn differences(pipeline: &ComputePipeline, has_samplers: bool) -> Vec<&'static str> {
        let ComputePipeline { flags, stage, next, .. } = pipeline;
        let is_other = |extension: &Extension| extension.structure != REQUIRED_SUBGROUP_SIZE;
        let mut found = vec![];
        if flags & !IGNORED_FLAGS != 0 {
            found.push("pipeline flags");
        }
        if stage.flags & VARYING_SUBGROUPS != 0
            || (stage.flags & FULL_SUBGROUPS != 0) != stage.required_subgroup_size().is_some()
        {
            found.push("sub-group flags");
        }
        if next.iter().chain(&stage.next).any(is_other) {
            found.push("extension structures");
        }
        if has_samplers {
            found.push("immutable samplers");
        }
        found
    }

    /// Returns the layout of a pipeline, and whether samplers are part of it. Many pipelines share one, which is read once.
    fn layout(&mut self, hash: u64) -> Result<(StatedLayout, bool), String> {
        if let Some(known) = self.layouts.get(&hash) {
            return known.clone();
        }
        let read = self.read_layout(hash);
        self.layouts.insert(hash, read.clone());
        read
    }

    fn read_layout(&mut self, hash: u64) -> Result<(StatedLayout, bool), String> {
        let (document, _) = self.document(EntryKind::PipelineLayout, hash)?;
        let ArchivedPipelineLayout { set_layouts, push_constant_ranges } = take(document.pipeline_layouts, hash)?;
        let mut layout = StatedLayout { sets: vec![], push: push_constant_ranges };
        let mut has_samplers = false;
        for set in set_layouts {
            let hash = hash_of(&set).ok_or("its pipeline layout is damaged")?;
            // A set may be left out of a layout.
            let mut stated = StatedSet::default();
            if hash != 0 {
                let (document, _) = self.document(EntryKind::SetLayout, hash)?;
                let set = take(document.set_layouts, hash)?;
                has_samplers |= set.bindings.iter().any(|binding| binding.immutable_samplers.is_some());
                stated = set.stated()?;
            }
            layout.sets.push(stated);
        }
        Ok((layout, has_samplers))
    }
}

impl ArchivedSetLayout {
    fn stated(self) -> Result<StatedSet, String> {
        let flags = self.next.into_iter().find_map(|extension| extension.binding_flags).unwrap_or_default();
        let mut bindings = vec![];
        for (index, bound) in self.bindings.into_iter().enumerate() {
            let LayoutBinding { binding, descriptor_type: kind, descriptor_count: count, stage_flags: stages, .. } =
                bound;
            if kind > LAST_DESCRIPTOR_TYPE {
                return Err(format!("its layout has descriptors of type {kind}, which gpukern does not know"));
            }
            let flags = flags.get(index).copied().unwrap_or(0);
            bindings.push(StatedBinding { binding, kind, count, stages, flags });
        }
        Ok(StatedSet { flags: self.flags, bindings })
    }
}

fn unsupported_version(version: u32) -> String {
    let (oldest, newest) = (VERSIONS.start(), VERSIONS.end());
    format!("its format has version {version}; gpukern reads {oldest} to {newest}: convert it with fossilize-rehash")
}

/// Compute pipelines of an archive, as a problem without buffers of its own.
#[derive(Debug)]
pub struct ArchivedPipelines {
    pub problem: ResolvedProblem,
    /// Further facts about the archive, in sentences.
    pub notes: Vec<String>,
    /// The fault of the file, or of the first damaged entry.
    pub damage: Option<String>,
}

/// Reads the compute pipelines of the archive at `path` that one of the `patterns` matches, or all without patterns. A
/// pipeline that cannot be built has the reason in place of its kernel.
pub fn read(path: &Path, patterns: &[String]) -> Result<ArchivedPipelines, Error> {
    let shown = path.shown();
    let refused = |reason: String| Error::Usage(format!("cannot read '{shown}': {reason}"));
    let archive = Archive::open(path).map_err(refused)?;
    let hashes = archive.hashes(EntryKind::Compute);
    let left_out = [EntryKind::Graphics, EntryKind::RayTracing].map(|kind| archive.hashes(kind).len());
    let names: Vec<String> = hashes.iter().map(|hash| format!("{hash:016x}")).collect();
    if names.is_empty() {
        let [graphics, ray_tracing] = left_out;
        let cut = if archive.ends_early { "; it ends within an entry" } else { "" };
        let others = format!("{graphics} for graphics, {ray_tracing} for ray tracing{cut}");
        let empty = || format!("it has no compute pipeline, which is what inspect compiles ({others})");
        return Err(refused(archive.damage.unwrap_or_else(empty)));
    }
    if let Some(pattern) = patterns.iter().find(|pattern| !names.iter().any(|name| matches(pattern, name))) {
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut known = nearest(pattern, &texts);
        if known.is_empty() {
            known.extend(texts.iter().take(3));
        }
        let reason = format!("it has no compute pipeline '{}', but {}", brief(pattern), known.join(", "));
        return Err(refused(reason + "; without -V the table has all"));
    }
    let (modules, numbers, differences) = (vec![], BTreeMap::new(), BTreeMap::new());
    let mut reader = PipelineReader { archive, path, modules, module_bytes: 0, numbers, differences };
    let (mut configurations, mut pass_lists) = (vec![], vec![]);
    for (hash, name) in hashes.into_iter().zip(names) {
        if !patterns.is_empty() && !patterns.iter().any(|pattern| matches(pattern, &name)) {
            continue;
        }
        pass_lists.push(reader.pipeline(hash));
        configurations.push(KernelConfiguration { kernel: name, choice: vec![] });
        if reader.module_bytes > MAX_MODULES_BYTES {
            let most = Bytes(MAX_MODULES_BYTES as u64);
            return Err(refused(format!(
                "its shaders have more than {most}; choose pipelines: -V '0*', then -V '1*', …"
            )));
        }
    }
    let name = Some(stem(&path.to_string_lossy())).filter(|name| check_name(name).is_ok());
    let notes = reader.notes(left_out);
    let point = ResolvedPoint { pass_lists, ..ResolvedPoint::default() };
    let problem = ResolvedProblem {
        name: name.unwrap_or_else(|| "archive".into()),
        modules: reader.modules,
        configurations,
        points: vec![point],
        sources: vec![path.to_path_buf()],
        ..ResolvedProblem::default()
    };
    Ok(ArchivedPipelines { problem, notes, damage: reader.archive.damage })
}

/// Makes kernels of an archive's pipelines.
struct PipelineReader<'a> {
    archive: Archive,
    path: &'a Path,
    modules: Vec<Module>,
    module_bytes: usize,
    /// Modules by hash and entry point: their numbers with their interfaces, or why they cannot be used.
    numbers: BTreeMap<(u64, String), Result<(usize, Interface), String>>,
    /// Pipelines that have what their kernels lack.
    differences: BTreeMap<&'static str, usize>,
}

impl PipelineReader<'_> {
    fn pipeline(&mut self, hash: u64) -> Result<PassList, String> {
        let (document, _) = self.archive.document(EntryKind::Compute, hash)?;
        let pipeline = take(document.compute_pipelines, hash).map_err(|reason| self.archive.note_damage(reason))?;
        if pipeline.flags & LIBRARY_FLAG != 0 {
            return Err("it is a pipeline library, which is no pipeline by itself".into());
        }
        let stage = &pipeline.stage;
        let module = hash_of(&stage.module).filter(|module| *module != 0);
        let module = module.ok_or("it names no shader module")?;
        let key = (module, stage.name.clone());
        if !self.numbers.contains_key(&key) {
            let loaded = self.load(module, &stage.name);
            self.numbers.insert(key.clone(), loaded);
        }
        let (number, interface) = self.numbers[&key].as_ref().map_err(String::clone)?;
        let layout = hash_of(&pipeline.layout).filter(|hash| *hash != 0).ok_or("it names no pipeline layout")?;
        let (layout, has_samplers) = self.archive.layout(layout)?;
        let dispatch = Dispatch {
            constants: constants(stage.specialization_info.as_ref(), interface)?,
            subgroup_size: stage.required_subgroup_size(),
            layout: Some(layout),
            ..Dispatch::bare(*number)
        };
        if let Some(size) = dispatch.subgroup_size.filter(|size| !size.is_power_of_two()) {
            return Err(format!("it requires sub-groups of {size}, which is no power of two"));
        }
        for difference in Archive::differences(&pipeline, has_samplers) {
            *self.differences.entry(difference).or_default() += 1;
        }
        Ok(PassList { dispatches: vec![dispatch], scratch: vec![] })
    }

    /// Adds the entry point of a module to the modules.
    fn load(&mut self, hash: u64, entry: &str) -> Result<(usize, Interface), String> {
        let words = self.archive.module(hash)?;
        let shader = |reason: String| format!("its shader {hash:016x}: {reason}");
        let (spirv, _) = isolate(&words, Some(entry), false).map_err(shader)?;
        let interface = Interface::read_unbound(&bytes(&spirv)).map_err(shader)?;
        self.module_bytes += 4 * spirv.len();
        self.modules.push(Module { name: format!("{hash:016x}"), spirv, files: vec![self.path.to_path_buf()] });
        Ok((self.modules.len() - 1, interface))
    }

    /// Says what was left out: `left_out` pipelines for graphics and ray tracing, and settings of the others.
    fn notes(&self, left_out: [usize; 2]) -> Vec<String> {
        let mut notes = vec![];
        let [graphics, ray_tracing] = left_out;
        if graphics + ray_tracing > 0 {
            notes.push(format!(
                "its pipelines for graphics ({graphics}) and ray tracing ({ray_tracing}) are left out: inspect compiles compute pipelines"
            ));
        }
        if !self.differences.is_empty() {
            let each: Vec<_> = self.differences.iter().map(|(what, count)| format!("{what} ({count})")).collect();
            notes.push(format!(
                "some of its pipelines have {}, which inspect leaves out: a driver may compile those differently for the program",
                each.join(", ")
            ));
        }
        if self.archive.ends_early {
            notes.push(
                "it ends within an entry, as where the recording program ended at once; that entry is left out".into(),
            );
        }
        notes
    }
}

/// Returns the values of the specialization constants that a module has; Vulkan ignores others.
fn constants(stated: Option<&Specialization>, interface: &Interface) -> Result<Vec<SpecValue>, String> {
    let data = stated.map(|stated| STANDARD.decode(&stated.data)).transpose();
    let data = data.map_err(|_| "its specialization constants are damaged")?.unwrap_or_default();
    let mut values: Vec<SpecValue> = vec![];
    for constant in interface.constants.iter() {
        if values.iter().any(|value| value.id == constant.id) {
            continue;
        }
        let bytes = constant.scalar.bytes();
        let entry = stated.and_then(|stated| stated.map_entries.iter().find(|entry| entry.id == constant.id));
        let Some(entry) = entry else {
            if constant.is_ambiguous {
                values.push(SpecValue { id: constant.id, bits: constant.default, bytes });
            }
            continue;
        };
        let (id, size) = (entry.id, entry.size);
        if size != bytes as usize {
            return Err(format!(
                "it states {} for specialization constant {id}, which has {bytes}",
                counted(size, "byte")
            ));
        }
        let value = entry.offset.checked_add(size).and_then(|end| data.get(entry.offset..end));
        let value = value.ok_or_else(|| format!("its data end before specialization constant {id}"))?;
        let bits = value.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        values.push(SpecValue { id: constant.id, bits, bytes });
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{ArchiveWriter, SHIFT, SHIFT_SETS, spirv};

    /// A pipeline of [`SHIFT`] with a double, a bool, an id that it lacks, and a required sub-group size.
    const STATED: &str = r#""specializationInfo":{"dataSize":16,"data":"AAAAAAAABEABAAAABwAAAA==","mapEntries":[
        {"offset":0,"size":8,"constantID":2},{"offset":8,"size":4,"constantID":1},{"offset":12,"size":4,"constantID":9}]},
        "pNext":[{"sType":1000225001,"requiredSubgroupSize":8}],"#;

    fn read_bytes(bytes: &[u8], patterns: &[&str]) -> Result<ArchivedPipelines, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("game.foz");
        std::fs::write(&path, bytes).expect("written");
        let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
        read(&path, &patterns).map_err(|e| e.to_string().replace(&*path.shown(), "@"))
    }

    /// Returns the reason why the only pipeline of an archive is no kernel, and the damage.
    fn obstacle(bytes: &[u8]) -> (String, Option<String>) {
        let read = read_bytes(bytes, &[]).expect("an archive");
        (read.problem.points[0].pass_lists[0].clone().expect_err("an obstacle"), read.damage)
    }

    fn archive(module: u64, stated: &str) -> ArchiveWriter {
        ArchiveWriter::default().module(1, &spirv(SHIFT)).layout(&SHIFT_SETS).pipeline(7, module, stated)
    }

    #[test]
    fn a_pipeline_has_the_values_that_were_recorded() {
        for compressed in [false, true] {
            let writer = ArchiveWriter { compressed, ..archive(1, STATED) };
            let read = read_bytes(&writer.bytes(), &["*7"]).expect("an archive");
            assert_eq!((&*read.problem.name, read.damage), ("game", None));
            assert_eq!(read.problem.configurations[0].kernel, "0000000000000007");
            let list = read.problem.points[0].pass_lists[0].as_ref().expect("a kernel");
            let Dispatch { constants, subgroup_size, layout, .. } = &list.dispatches[0];
            let mut stated: Vec<_> = constants.iter().map(|value| (value.id, value.bits, value.bytes)).collect();
            stated.sort_unstable();
            assert_eq!(stated, [(1, 1, 4), (2, 2.5f64.to_bits(), 8)]);
            let layout = layout.as_ref().expect("a layout");
            let dynamic = StatedBinding { binding: 0, kind: 8, count: 1, stages: 32, flags: 0 };
            assert_eq!((*subgroup_size, layout.sets.len(), layout.push[0].size), (Some(8), 3, 20));
            assert_eq!((layout.sets[1].bindings.len(), layout.sets[2].bindings[0]), (0, dynamic));
            // Full sub-groups are required here, and were not there.
            assert!(read.notes[0].starts_with("some of its pipelines have sub-group flags (1), "), "{:?}", read.notes);
        }
        let error = read_bytes(&archive(1, "").bytes(), &["8*"]).expect_err("no match");
        assert!(
            error.starts_with("cannot read '@': it has no compute pipeline '8*', but 0000000000000007;"),
            "{error}"
        );
    }

    #[test]
    fn what_cannot_be_built_has_the_reason() {
        for (bytes, reason, is_damaged) in [
            (archive(2, "").bytes(), "its shader module 0000000000000002 is not in the archive", false),
            (ArchiveWriter { flags: 0x800, ..archive(1, "") }.bytes(), "it is a pipeline library", false),
            (archive(0, "").bytes(), "it names no shader module", false),
            (
                ArchiveWriter::default().module(1, &spirv(SHIFT)).pipeline(7, 1, "").bytes(),
                "its pipeline layout 0000000000000003 is not in the archive",
                false,
            ),
            (
                ArchiveWriter::default()
                    .module(1, &spirv(SHIFT))
                    .layout(&[&[[0, 1_000_138_000, 16]]])
                    .pipeline(7, 1, "")
                    .bytes(),
                "its layout has descriptors of type 1000138000",
                false,
            ),
            (
                archive(1, &STATED.replace("\"size\":8", "\"size\":4")).bytes(),
                "it states 4 bytes for specialization",
                false,
            ),
            (
                archive(1, &STATED.replace("\"offset\":8", "\"offset\":14")).bytes(),
                "its data end before specialization constant 1",
                false,
            ),
            (archive(1, &STATED.replace("==", "=")).bytes(), "its specialization constants are damaged", false),
            (archive(1, &STATED.replace("Size\":8", "Size\":9")).bytes(), "it requires sub-groups of 9", false),
            (archive(1, "\"flags\":[],").bytes(), "pipeline 0000000000000007: it is damaged: ", true),
            (
                ArchiveWriter { crc: 5, ..archive(1, "") }.bytes(),
                "pipeline 0000000000000007: it is damaged: its checksum",
                true,
            ),
            (
                ArchiveWriter { expanded: -1, compressed: true, ..archive(1, "") }.bytes(),
                "pipeline 0000000000000007: it is",
                true,
            ),
            (ArchiveWriter { expanded: 1, ..archive(1, "") }.bytes(), "pipeline 0000000000000007: it is damaged", true),
            (
                ArchiveWriter { expanded: 1 << 30, compressed: true, ..archive(1, "") }.bytes(),
                "pipeline 0000000000000007: it has 1",
                true,
            ),
        ] {
            let (obstacle, damage) = obstacle(&bytes);
            assert!(obstacle.starts_with(reason), "{obstacle}");
            assert_eq!(damage.is_some(), is_damaged, "{obstacle}");
        }
    }

    #[test]
    fn no_file_makes_the_reader_panic() {
        let whole = ArchiveWriter { compressed: true, ..archive(1, STATED) }.bytes();
        for (bytes, reason) in [
            (&b""[..], "it is no Fossilize archive"),
            (b"\x81FOSSILIZEDB\0\0\0\x04", "its format has version 4; gpukern reads 5 to 6"),
            (&whole[..16], "it has no compute pipeline"),
            (&[&whole[..16], &[b'g'; 60][..]].concat(), "byte 16 begins no entry"),
        ] {
            let error = read_bytes(bytes, &[]).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
        let cut = read_bytes(&[&whole, &whole[16..90]].concat(), &[]).expect("the entries before");
        assert!(cut.notes.iter().any(|note| note.starts_with("it ends within an entry")), "{:?}", cut.notes);
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] = changed[at].wrapping_mul(3) ^ 0x31;
            let _ = (read_bytes(&changed, &[]), read_bytes(&whole[..at], &[]));
        }
    }
}
