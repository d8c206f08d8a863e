//! `inspect --save` of several sizes: a document for each kernel, with the pipelines that its sizes share and what changes
//! between them.

use super::failures::{device_suffix, named_extents, named_folder, numbered};
use super::program_file::{DispatchEntry, ProgramFile, is_same_program, of_earlier_run};
use crate::basis::alike::{distinct, grouped};
use crate::basis::destination::{self, Destination};
use crate::basis::input_file;
use crate::basis::printable;
use crate::kernel::interface::ArgumentKind;
use crate::plan::axes;
use crate::user::options::PROGRAM_SIZES;
use crate::{Case, CaseGroup, Error, Record, Result, Shown, UserKernels, counted};
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// Saved program of a case.
pub(super) struct Saved<'a> {
    pub(super) case: &'a Case,
    pub(super) group: &'a CaseGroup,
    /// Whether `auto` chose the variant.
    pub(super) is_auto: bool,
    /// Its folder.
    pub(super) folder: PathBuf,
    pub(super) document: ProgramFile,
}

/// Programs of a kernel at several sizes. Make each pipeline once, and at each size run its program with those.
#[derive(Serialize, JsonSchema)]
struct SizesFile<'a> {
    /// Schema name, `gpukern-program-sizes/1`.
    schema: &'static str,
    algorithm: &'a str,
    /// Variant; `auto` if it may be another at each size.
    variant: &'a str,
    /// Device for which all was chosen, with its driver.
    device: &'a str,
    /// Pipelines of all sizes, by number.
    pipelines: Vec<PipelineEntry<'a>>,
    /// Differences between the sizes in kernels, grids, sizes of sub-groups, constants and push constants: what this does not list
    /// of these is the same at all of them, or at all that run the kernel. Buffers, and the bytes of descriptors, are in the
    /// program of each size.
    changes: Vec<ChangeEntry<'a>>,
    /// Sizes in the order in which they were asked for.
    sizes: Vec<SizeEntry<'a>>,
}

/// Pipeline: a kernel with its constants.
#[derive(Serialize, JsonSchema)]
struct PipelineEntry<'a> {
    /// File with its SPIR-V, from the folder of this document.
    spirv: String,
    entry_point: &'a str,
    /// Specialization constants of four bytes: id and value.
    constants: &'a [(u32, u32)],
    /// Specialization constants of other sizes: id and bytes.
    sized_constants: &'a [(u32, Vec<u8>)],
    /// Size of sub-groups to require.
    subgroup_size: Option<u32>,
    /// Whether to set `REQUIRE_FULL_SUBGROUPS`, too, on a device with `computeFullSubgroups`.
    full_subgroups: bool,
}

/// Program at a size.
#[derive(Serialize, JsonSchema)]
struct SizeEntry<'a> {
    /// Axes and their values; a built-in kernel's are numbered.
    size: Vec<(String, i64)>,
    /// Number of each dispatch's pipeline.
    pipelines: Vec<usize>,
    /// Folder of this size alone, which `gpukern run` takes, from the folder of this document; `program` names files in it.
    folder: String,
    /// As in `program.json` of that folder.
    program: &'a ProgramFile,
}

/// Property that differs between sizes.
#[derive(Serialize, JsonSchema)]
struct ChangeEntry<'a> {
    #[serde(flatten)]
    property: Property<'a>,
    /// Its value at each size; `null` where there is none, the dispatch runs another kernel, or a constant has its default.
    values: Vec<Option<PropertyValue>>,
}

/// Property of a program that may follow from the size.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
struct Property<'a> {
    what: What,
    /// Number of the dispatch.
    dispatch: Option<usize>,
    /// Kernel to which it belongs, which the dispatch may run at some sizes only; `null` for what belongs to the program.
    kernel: Option<&'a str>,
    /// Name of the constant, push constant or buffer; a constant without one has its id, a push constant its byte.
    name: Option<String>,
}

/// Kind of property.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// Number of steps, rounds included.
    Steps,
    /// Name of the kernel.
    Kernel,
    /// Number of work-groups along each axis.
    Groups,
    SubgroupSize,
    /// Specialization constant.
    Constant,
    /// Member of the push constants.
    PushConstant,
    /// Bytes of a buffer.
    Buffer,
}

/// Value of a property.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
enum PropertyValue {
    Number(i128),
    Groups([u64; 3]),
    /// Bytes of what is no integer.
    Bytes(Vec<u8>),
    Name(String),
}

/// Writes a document to `folder` for each kernel that was saved there at several sizes. Returns notes.
pub(super) fn write(folder: &Path, saved: &[Saved<'_>], record: &Record, kernels: &[UserKernels]) -> Result<String> {
    let mut named = vec![];
    for own in saved {
        let Saved { case, group, is_auto, .. } = own;
        let is_named = group.variants.iter().any(|variant| *variant.name == *case.variant);
        let variants = is_auto.then_some("auto").into_iter().chain(is_named.then_some(&*case.variant));
        let options = axes::id(&group.spec, &group.algorithm.options(group.spec.dtype));
        named.extend(variants.map(|variant| {
            let id = format!("{}/{variant}/{}{options}", case.algorithm, group.spec.dtype);
            (named_folder(&id, case, &device_suffix(record, case.device)), variant, own)
        }));
    }
    let mut notes = String::new();
    for alike in grouped(named, |(name, ..)| name.clone()).into_iter().filter(|alike| alike.len() > 1) {
        let (name, variant, _) = &alike[0];
        let sizes: Vec<&Saved<'_>> = alike.iter().map(|(.., own)| *own).collect();
        let written = SizesFile::new(variant, &sizes, kernels).and_then(|file| file.write(folder, name));
        notes += &written.map_err(|e| {
            let reason = destination::explained(e);
            Error::Failure(format!("cannot save the sizes of {name} in '{}': {reason}", folder.shown()))
        })?;
    }
    Ok(notes)
}

impl<'a> SizesFile<'a> {
    fn new(variant: &'a str, saved: &[&'a Saved<'a>], kernels: &[UserKernels]) -> io::Result<Self> {
        let mut pipelines: Vec<(Vec<u8>, PipelineEntry<'a>)> = vec![];
        let mut sizes = vec![];
        for Saved { group, folder, document, .. } in saved {
            let own_folder = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut numbers = vec![];
            for dispatch in &document.dispatches {
                let spirv = std::fs::read(folder.join(&dispatch.spirv))?;
                let pipeline = PipelineEntry::of(dispatch, &own_folder);
                let is_known = |(known, other): &(Vec<u8>, PipelineEntry<'_>)| {
                    *known == spirv && other.specialization() == pipeline.specialization()
                };
                numbers.push(pipelines.iter().position(is_known).unwrap_or(pipelines.len()));
                if numbers.last() == Some(&pipelines.len()) {
                    pipelines.push((spirv, pipeline));
                }
            }
            let size = named_extents(group, kernels);
            sizes.push(SizeEntry { size, pipelines: numbers, folder: own_folder, program: document });
        }
        let pipelines = pipelines.into_iter().map(|(_, pipeline)| pipeline).collect();
        let (algorithm, device) = (&*saved[0].case.algorithm, &*saved[0].document.device);
        let changes = changes(&sizes);
        Ok(Self { schema: PROGRAM_SIZES, algorithm, variant, device, pipelines, changes, sizes })
    }

    /// Writes the document to a file in `folder`, which is new unless it has the same. Returns a note that says what it has.
    fn write(&self, folder: &Path, name: &str) -> io::Result<String> {
        let text = printable::json(serde_json::to_string_pretty(self)? + "\n");
        let usual = folder.join(format!("{name}.json"));
        let has_same = |path: &PathBuf| {
            input_file::read_text(path).is_ok_and(|own| is_same_program(own.as_bytes(), text.as_bytes()))
        };
        let path = numbered(folder, name, ".json").find(|path| !path.exists() || has_same(path)).unwrap_or_default();
        Destination::open(&path)?.write(text.as_bytes())?;
        let (sizes, pipelines) = (self.sizes.len(), counted(self.pipelines.len(), "pipeline"));
        let note = format!("saved     '{}' has {sizes} sizes, with {pipelines}\n", path.shown());
        Ok(note + &of_earlier_run(&usual, &path))
    }
}

impl<'a> PipelineEntry<'a> {
    fn of(dispatch: &'a DispatchEntry, folder: &str) -> Self {
        Self {
            spirv: format!("{folder}/{}", dispatch.spirv),
            entry_point: dispatch.entry_point,
            constants: &dispatch.constants,
            sized_constants: &dispatch.bindings.sized_constants,
            subgroup_size: dispatch.subgroup_size,
            full_subgroups: dispatch.full_subgroups,
        }
    }

    /// Returns what makes two pipelines of one SPIR-V.
    fn specialization(&self) -> (&'a [(u32, u32)], &'a [(u32, Vec<u8>)], Option<u32>, bool) {
        (self.constants, self.sized_constants, self.subgroup_size, self.full_subgroups)
    }
}

/// Returns the properties that differ between sizes, with the value at each.
fn changes<'a>(sizes: &[SizeEntry<'a>]) -> Vec<ChangeEntry<'a>> {
    let programs: Vec<_> = sizes.iter().map(|size| properties(size.program)).collect();
    let mut changes = vec![];
    for property in distinct(programs.iter().flatten().map(|(property, _)| property.clone())) {
        let value = |own: &Vec<(Property<'a>, PropertyValue)>| {
            own.iter().find(|(other, _)| *other == property).map(|(_, value)| value.clone())
        };
        let values: Vec<_> = programs.iter().map(value).collect();
        // Where the kernel itself changes, its properties are no further changes.
        let has_kernel = |size: &SizeEntry<'_>| {
            let dispatch = property.dispatch.and_then(|number| size.program.dispatches.get(number));
            property.kernel.is_none() || dispatch.is_some_and(|own| Some(&*own.kernel) == property.kernel)
        };
        let own: Vec<_> = sizes.iter().zip(&values).filter(|(size, _)| has_kernel(size)).collect();
        if own.iter().any(|(_, value)| *value != own[0].1) {
            changes.push(ChangeEntry { property, values });
        }
    }
    changes
}

/// Returns all properties of a program that may follow from its size.
fn properties(program: &ProgramFile) -> Vec<(Property<'_>, PropertyValue)> {
    let whole = |what, name| Property { what, dispatch: None, name, kernel: None };
    let count = |count: usize| PropertyValue::Number(count as i128);
    let mut all = vec![(whole(What::Steps, None), count(program.steps.len()))];
    for (number, dispatch) in program.dispatches.iter().enumerate() {
        all.extend(properties_of(number, dispatch));
    }
    for buffer in &program.buffers {
        all.push((whole(What::Buffer, Some(buffer.name.clone())), PropertyValue::Number(buffer.bytes.into())));
    }
    all
}

/// Returns the properties of a dispatch. Constants of different kernels are different ones, whatever their names.
fn properties_of(number: usize, own: &DispatchEntry) -> Vec<(Property<'_>, PropertyValue)> {
    let kernel = Some(&*own.kernel);
    let property = |what, name| Property { what, dispatch: Some(number), name, kernel };
    let id_name = |id: u32| {
        let name = own.constant_names.iter().find(|(other, name)| *other == id && !name.is_empty());
        property(What::Constant, Some(name.map_or_else(|| id.to_string(), |(_, name)| name.clone())))
    };
    let mut all = vec![
        (Property { kernel: None, ..property(What::Kernel, None) }, PropertyValue::Name(own.kernel.clone())),
        (property(What::Groups, None), PropertyValue::Groups(own.groups)),
    ];
    all.extend(own.subgroup_size.map(|size| (property(What::SubgroupSize, None), PropertyValue::Number(size.into()))));
    all.extend(own.constants.iter().map(|(id, value)| (id_name(*id), PropertyValue::Number((*value).into()))));
    let sized = own.bindings.sized_constants.iter();
    all.extend(sized.map(|(id, bytes)| (id_name(*id), PropertyValue::Bytes(bytes.clone()))));
    for member in &own.push_constant_names {
        let (start, end) = (member.byte as usize, (member.byte + member.bytes) as usize);
        let Some(bytes) = own.bindings.push_constants.get(start..end) else { continue };
        let name = if member.name.is_empty() { member.byte.to_string() } else { member.name.clone() };
        let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        let number = match member.kind {
            ArgumentKind::Scalar(scalar) => scalar.integer(bits),
            ArgumentKind::Address => None,
        };
        let value = number.map_or_else(|| PropertyValue::Bytes(bytes.to_vec()), PropertyValue::Number);
        all.push((property(What::PushConstant, Some(name)), value));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_of_several_sizes_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<SizesFile<'_>>();
        crate::basis::fixture::assert_committed("docs/program-sizes.schema.json", &schema);
    }
}
