//! Writes the description of a case, for `run` and for people.

use super::buffers::BoundSlot;
use super::{Draft, MODULE};
use crate::basis::printable::printable;
use crate::kernel::interface::{Argument, ArgumentKind, Scalar};
use crate::user::buffers::check_block_size;
use crate::user::description::{
    BoundBuffer, BoundRange, Captured, DescribedBuffer, Formula, GridFields, Kernel, OneOrMany, OrderedMap,
    OutputFiles, ReferenceTable,
};
use crate::user::expression::Values;
use crate::user::init::{member_key, place};
use crate::user::members::{BITS_PREFIX, number, pack};
use crate::user::written::{Commented, check};
use std::fmt::Write;

/// Most characters of the program's command line.
const MAX_PROGRAM_LEN: usize = 200;

impl Draft<'_> {
    /// Writes the description.
    pub(super) fn text(&self, exact: bool) -> String {
        let mut commented = Commented::default();
        self.head(exact, &mut commented);
        self.kernel(&mut commented);
        commented.description.push = self.members(None, &self.pass.interface.arguments, &self.chosen.case.push);
        for data in &self.data {
            if let Some(at) = data.members {
                let BoundSlot { slot, bound, .. } = &self.slots[at];
                let members = slot.blocks.iter().find(|block| !block.members.is_empty());
                let bytes = data.block().get(bound.offset as usize..).unwrap_or_default();
                let members = self.members(Some(at), members.map_or(&[][..], |block| &block.members), bytes);
                commented.description.uniform.set(&place(slot), members);
                commented.remark(format!("uniform.{}", place(slot)), slot.names().join(", "));
            }
        }
        self.buffers(&mut commented);
        let groups = self.chosen.case.groups.map(|extent| Formula::Integer(extent.into()));
        commented.description.dispatch =
            Some(GridFields { groups: Some(OneOrMany::Many(groups.to_vec())), indirect: None });
        if self.chosen.case.indirect {
            commented.remark("dispatch.groups", "as a buffer of the program had them");
        }
        commented.text()
    }

    /// Adds the origin of the dispatch.
    fn head(&self, exact: bool, commented: &mut Commented) {
        let chosen = self.chosen;
        let program: String = chosen.process.arguments.join(" ").chars().take(MAX_PROGRAM_LEN).collect();
        let device = chosen.device;
        let (name, call) = (printable(&chosen.name), chosen.case.call);
        commented.head = format!(
            "# {name}: call {call} in `{}`, as `gpukern capture` took it.\n\
             # Edit what you like: docs/run.md explains the fields.\n",
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
            microseconds: (chosen.median > 0.0).then(|| chosen.median.round() / 1e3),
            exact,
            gpukern: env!("CARGO_PKG_VERSION").into(),
        });
        commented.remark("captured.microseconds", "the median of its calls with this grid");
        let remark = if exact { "run again there, it gave the same bits" } else { "not run again, or with other bits" };
        commented.remark("captured.exact", remark);
    }

    /// Adds the module, its bindings and its specialization constants.
    fn kernel(&self, commented: &mut Commented) {
        let pipeline = self.chosen.pipeline;
        let mut bind = OrderedMap::default();
        for BoundSlot { slot, bound, .. } in &self.slots {
            let data = self.data.iter().find(|data| data.members.is_none() && data.is_bound(bound));
            let Some(data) = data else { continue };
            let whole = bound.offset == 0 && bound.range >= data.bytes;
            let fits = check_block_size(&data.name, data.bytes, MODULE, slot).is_ok();
            let to = if bound.region.is_none() || whole && fits && pipeline.robustness.is_none() {
                BoundBuffer::Name(data.name.clone())
            } else {
                let range = bound.range.min(data.bytes.saturating_sub(bound.offset));
                let [offset, range] = [bound.offset, range].map(|bytes| Some(Formula::Integer(bytes.cast_signed())));
                BoundBuffer::Range(BoundRange { buffer: data.name.clone(), offset, range })
            };
            bind.set(&place(slot), OneOrMany::One(to));
            commented.remark(format!("kernel.bind.{}", place(slot)), slot.names().join(", "));
        }
        commented.description.kernel = Some(Kernel {
            source: OneOrMany::One(MODULE.into()),
            entry: (pipeline.entry != "main").then(|| pipeline.entry.clone()),
            subgroup: pipeline.subgroup.map(|size| OneOrMany::One(Formula::Integer(size.into()))),
            bind,
            ..Kernel::default()
        });
        for (id, bytes) in &pipeline.specialization {
            let Some(constant) = self.pass.interface.constants.iter().find(|constant| constant.id == *id) else {
                continue;
            };
            commented.description.spec.set(&id.to_string(), OneOrMany::One(value(constant.scalar, low(bytes))));
            commented.remark(format!("spec.{id}"), &*constant.name);
        }
    }

    /// Returns the members of a block with the values in `bytes`.
    fn members(&self, slot: Option<usize>, members: &[Argument], bytes: &[u8]) -> OrderedMap<Formula> {
        let mut stated = OrderedMap::default();
        for member in members {
            let pointer = self.pointers.iter().find(|pointer| pointer.slot == slot && pointer.offset == member.offset);
            let rest = bytes.get(member.offset as usize..).unwrap_or_default();
            let bits = low(&rest[..rest.len().min(member.kind.bytes() as usize)]);
            let value = match (pointer, member.kind) {
                (Some(pointer), _) => Formula::Text(pointer.to.clone()),
                (None, ArgumentKind::Scalar(scalar)) => value(scalar, bits),
                (None, ArgumentKind::Address) => Formula::Text(format!("{BITS_PREFIX}{bits:x}")),
            };
            stated.set(&member_key(members, member), value);
        }
        stated
    }

    fn buffers(&self, commented: &mut Commented) {
        let mut answers = OrderedMap::default();
        for data in self.data.iter().filter(|data| data.members.is_none()) {
            let elements = data.bytes / data.element.bytes();
            let shape = if data.columns == 1 { vec![elements] } else { vec![elements / data.columns, data.columns] };
            let shape = shape.into_iter().map(|extent| Formula::Integer(extent.cast_signed())).collect();
            let fill = match &data.fill {
                Some(file) => Some(format!("@{file}")),
                None => data.answer.is_none().then(|| "zero".into()),
            };
            let mut buffer = DescribedBuffer {
                element: Some(data.element.name().into()),
                shape: Some(OneOrMany::Many(shape)),
                fill,
                ..DescribedBuffer::default()
            };
            commented.remark(format!("buffer.{}.fill", data.name), data.remark);
            if let Some(answer) = &data.answer {
                buffer.check = Some(check(&data.tolerance));
                answers.set(&data.name, answer.clone());
            }
            commented.description.buffer.set(&data.name, buffer);
        }
        let file = Some(OutputFiles::Each(answers));
        commented.description.reference = Some(ReferenceTable { file, ..ReferenceTable::default() });
    }
}

/// Reads up to 8 bytes as a little-endian integer.
fn low(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide.iter_mut().zip(bytes).for_each(|(wide, byte)| *wide = *byte);
    u64::from_le_bytes(wide)
}

/// Formats the value with these bits: as a number if that gives the same bits, or else as bits.
fn value(scalar: Scalar, bits: u64) -> Formula {
    let plain = match scalar {
        Scalar::Bool => Some(Formula::Truth(bits == 1)),
        Scalar::Int { .. } => scalar.integer(bits).map(Formula::Integer),
        // The shortest decimal of an f32 parses to a different f64, which rounds to the same f32.
        Scalar::Float { bits: 32 } => format!("{:?}", f32::from_bits(bits as u32)).parse().ok().map(Formula::Number),
        Scalar::Float { .. } | Scalar::Bfloat16 => Some(Formula::Number(number(scalar, bits))),
    };
    let is_same = |formula: &Formula| match formula {
        Formula::Number(value) if !value.is_finite() => false,
        _ => pack(formula, scalar, &Values::default()).is_ok_and(|(found, _)| found == bits),
    };
    plain.filter(is_same).unwrap_or_else(|| Formula::Text(format!("{BITS_PREFIX}{bits:x}")))
}
