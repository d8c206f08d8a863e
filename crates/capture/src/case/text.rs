//! Writes the description of a case, for `run` and for people.

use super::buffers::{BoundSlot, ParameterBlock};
use super::{Draft, MODULE};
use crate::basis::printable::printable;
use crate::kernel::interface::ArgumentKind;
use crate::user::buffers::check_block_size;
use crate::user::description::{
    BoundBuffer, BoundRange, Captured, DescribedBuffer, DescribedMember, Formula, GridFields, KernelFields, OneOrMany,
    OrderedMap, OutputFiles, ReferenceTable,
};
use crate::user::init::{member_key, place};
use crate::user::loaded::LoadedPass;
use crate::user::members::{BITS_PREFIX, formula};
use crate::user::written::{Commented, check};
use gpukern_layer::format::PipelineInfo;
use std::fmt::Write;

/// Most characters of the program's command line.
const MAX_PROGRAM_LEN: usize = 200;

impl Draft<'_> {
    /// Returns the text of the description. `exact` says that a replay gave the same bits.
    pub(super) fn text(&self, exact: bool) -> String {
        let mut commented = Commented::default();
        self.add_origin(exact, &mut commented);
        self.add_kernel(&mut commented);
        for block in &self.blocks {
            let members = list_values(block);
            let Some(table) = &block.table else {
                commented.description.push = members;
                continue;
            };
            commented.description.uniform.set(table, members);
            commented.remark(format!("uniform.{table}"), &*block.remark);
        }
        self.add_buffers(&mut commented);
        let groups = self.chosen.case.groups.map(|extent| Formula::Integer(extent.into()));
        commented.description.dispatch =
            Some(GridFields { groups: Some(OneOrMany::Many(groups.to_vec())), indirect: None });
        if self.chosen.case.indirect {
            commented.remark("dispatch.groups", "as a buffer of the program had them");
        }
        commented.text()
    }

    /// Adds the origin of the dispatch, as fields and as a comment for people.
    fn add_origin(&self, exact: bool, commented: &mut Commented) {
        let chosen = self.chosen;
        let device = chosen.device;
        let program: String = chosen.process.arguments.join(" ").chars().take(MAX_PROGRAM_LEN).collect();
        let name = printable(&chosen.name);
        let call = chosen.case.call;
        commented.head = format!(
            "# {name}: call {call} in `{}`, as `gpukern capture` took it.\n\
             # Edit what you like: `gpukern help description` explains the fields.\n",
            printable(&program)
        );
        if let Some(source) = &self.source {
            let _ = writeln!(commented.head, "# {source} is the source that the module carries; {MODULE} is what ran.");
        }
        commented.description.name = self.folder.file_name().map(|name| name.to_string_lossy().into_owned());
        commented.description.captured = Some(Captured {
            program,
            device: device.name.clone(),
            driver: Captured::driver(&device.driver, &device.driver_info),
            call,
            microseconds: chosen.median.map(|median| median.round() / 1e3),
            exact,
            gpukern: env!("CARGO_PKG_VERSION").into(),
        });
        commented.remark("captured.microseconds", "the median of its calls with this grid");
        let remark = if exact { "run again there, it gave the same bits" } else { "not run again, or with other bits" };
        commented.remark("captured.exact", remark);
    }

    /// Adds the module, its bindings and its specialization constants.
    fn add_kernel(&self, commented: &mut Commented) {
        let pipeline = self.chosen.pipeline;
        let mut bind = OrderedMap::default();
        for BoundSlot { slot, bound, .. } in &self.slots {
            let buffer = self.buffers.iter().find(|buffer| buffer.members.is_none() && buffer.is_bound(bound));
            let Some(buffer) = buffer else { continue };
            let is_whole = bound.offset == 0 && bound.range >= buffer.bytes;
            let fits = check_block_size(&buffer.name, buffer.bytes, MODULE, slot).is_ok();
            // With robustness, the kernel may rely on the exact range.
            let is_exact = is_whole && fits && pipeline.robustness.is_none();
            let bound_buffer = if bound.region.is_none() || buffer.image.is_some() || is_exact {
                BoundBuffer::Name(buffer.name.clone())
            } else {
                let range = bound.range.min(buffer.bytes.saturating_sub(bound.offset));
                BoundBuffer::Range(BoundRange {
                    buffer: buffer.name.clone(),
                    offset: Some(Formula::Integer(bound.offset.cast_signed())),
                    range: Some(Formula::Integer(range.cast_signed())),
                })
            };
            bind.set(&place(slot), OneOrMany::One(bound_buffer));
            commented.remark(format!("kernel.bind.{}", place(slot)), slot.names().join(", "));
        }
        commented.description.kernel = Some(KernelFields { bind, ..kernel_fields(pipeline) });
        add_constants(pipeline, &self.pass, commented);
    }

    /// Adds the buffers, each with its file before the dispatch or its answer.
    fn add_buffers(&self, commented: &mut Commented) {
        let mut answers = OrderedMap::default();
        for buffer in self.buffers.iter().filter(|buffer| buffer.members.is_none()) {
            let elements = buffer.bytes / buffer.element.bytes();
            let columns = buffer.columns;
            let layout = buffer.structures.as_ref().map(|(layout, _)| layout);
            let shape = match (&buffer.image, layout) {
                (Some(image), _) => image.shape.clone(),
                (None, Some(layout)) if layout.array.is_some() => vec![(buffer.bytes - layout.fixed) / layout.stride],
                (None, Some(_)) => vec![],
                (None, None) if columns == 1 => vec![elements],
                (None, None) => vec![elements / columns, columns],
            };
            let shape: Vec<_> = shape.into_iter().map(|extent| Formula::Integer(extent.cast_signed())).collect();
            let fill = match &buffer.fill {
                Some(file) => Some(format!("@{file}")),
                None => buffer.answer.is_none().then(|| "zero".into()),
            };
            let mut described = DescribedBuffer {
                element: layout.is_none().then(|| buffer.element.name().into()),
                shape: (!shape.is_empty()).then_some(OneOrMany::Many(shape)),
                fill,
                image: buffer.image.as_ref().map(|image| image.format.name()),
                sampler: buffer.image.as_ref().and_then(|image| image.sampler),
                ..DescribedBuffer::default()
            };
            commented.remark(format!("buffer.{}.fill", buffer.name), buffer.remark);
            if let Some(answer) = &buffer.answer {
                if let Some((layout, tolerances)) = &buffer.structures {
                    for (member, tolerance) in layout.members.iter().zip(tolerances) {
                        let described_member = DescribedMember { check: Some(check(tolerance, &[])), fill: None };
                        described.members.set(&member.name, described_member);
                        commented.remark(format!("buffer.{}.{}", buffer.name, member.name), member.scalar.name());
                    }
                } else {
                    described.check = Some(check(&buffer.tolerance, &[]));
                }
                answers.set(&buffer.name, answer.clone());
            }
            commented.description.buffer.set(&buffer.name, described);
        }
        let file = Some(OutputFiles::Each(answers));
        commented.description.reference = Some(ReferenceTable { file, ..ReferenceTable::default() });
    }
}

/// Returns the text of a description that only compiles a kernel: it has neither buffers nor a grid.
pub(super) fn only_kernel(pipeline: &PipelineInfo, pass: &LoadedPass, head: String) -> String {
    let mut commented = Commented::default();
    commented.head = head;
    commented.description.kernel = Some(kernel_fields(pipeline));
    add_constants(pipeline, pass, &mut commented);
    commented.text()
}

/// Returns what compiles the module of a pipeline as the program did, without the specialization constants.
fn kernel_fields(pipeline: &PipelineInfo) -> KernelFields {
    KernelFields {
        source: OneOrMany::One(MODULE.into()),
        entry: (pipeline.entry != "main").then(|| pipeline.entry.clone()),
        subgroup: pipeline.subgroup.map(|size| OneOrMany::One(Formula::Integer(size.into()))),
        ..KernelFields::default()
    }
}

/// Adds the specialization constants of a pipeline that its module has.
fn add_constants(pipeline: &PipelineInfo, pass: &LoadedPass, commented: &mut Commented) {
    for (id, bytes) in &pipeline.specialization {
        let Some(constant) = pass.interface.constants.iter().find(|constant| constant.id == *id) else {
            continue;
        };
        let value = formula(constant.scalar, little_endian(bytes));
        commented.description.spec.set(&id.to_string(), OneOrMany::One(value));
        commented.remark(format!("spec.{id}"), &*constant.name);
    }
}

/// Returns the members of a block with their values.
fn list_values(block: &ParameterBlock) -> OrderedMap<Formula> {
    let mut values = OrderedMap::default();
    for member in &block.members {
        let pointer = block.pointers.iter().find(|(offset, _)| *offset == member.offset);
        let rest = block.bytes.get(member.offset as usize..).unwrap_or_default();
        let bits = little_endian(&rest[..rest.len().min(member.kind.bytes() as usize)]);
        let value = match (pointer, member.kind) {
            (Some((_, to)), _) => Formula::Text(to.clone()),
            (None, ArgumentKind::Scalar(scalar)) => formula(scalar, bits),
            (None, ArgumentKind::Address) => Formula::Text(format!("{BITS_PREFIX}{bits:x}")),
        };
        values.set(&member_key(&block.members, member), value);
    }
    values
}

/// Reads up to 8 bytes as a little-endian integer.
fn little_endian(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    let length = bytes.len().min(wide.len());
    wide[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(wide)
}
