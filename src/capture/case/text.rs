//! The description of a case: what `run` reads, and a person.

use super::{Draft, MODULE, place};
use crate::basis::printable::printable;
use crate::kernel::interface::{Argument, ArgumentKind, Scalar};
use crate::run::buffers::fits_blocks;
use crate::run::description::{Captured, Formula};
use crate::run::expression::Values;
use crate::run::init::{self, key, line};
use crate::run::members::{BITS, pack};
use half::{bf16, f16};
use std::fmt::Write;

/// Characters of a program's command line that are kept.
const MOST_OF_A_PROGRAM: usize = 200;

impl Draft<'_> {
    /// The description.
    pub(super) fn text(&self, exact: bool) -> String {
        let mut text = self.head(exact);
        self.kernel(&mut text);
        self.constants(&mut text);
        let arguments = &self.pass.interface.arguments;
        if !arguments.is_empty() {
            text.push_str("\n[push]\n");
            self.members(None, arguments, &self.chosen.case.push, &mut text);
        }
        for data in &self.data {
            if let Some(at) = data.members {
                let (slot, _, bound) = &self.slots[at];
                let head = format!("\n[uniform.{}]", key(&place(slot)));
                let _ = writeln!(text, "{}", marked(&head, &slot.names().join(", ")));
                let members = slot.blocks.iter().find(|block| !block.members.is_empty());
                let bytes = data.block().get(bound.offset as usize..).unwrap_or_default();
                self.members(Some(at), members.map_or(&[][..], |block| &block.members), bytes, &mut text);
            }
        }
        self.buffers(&mut text);
        let [x, y, z] = self.chosen.case.groups;
        let remark = if self.chosen.case.indirect { "as a buffer of the program had them" } else { "" };
        let _ = writeln!(text, "\n[dispatch]\n{}", marked(&format!("groups = [{x}, {y}, {z}]"), remark));
        text
    }

    /// Where it is from.
    fn head(&self, exact: bool) -> String {
        let chosen = self.chosen;
        let program: String = chosen.process.arguments.join(" ").chars().take(MOST_OF_A_PROGRAM).collect();
        let name = self.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let device = chosen.device;
        let mut text = format!(
            "# {}: call {} in `{}`, as `gpukern capture` took it.\n# Edit what you like: docs/run.md explains the fields.\n",
            printable(&chosen.name),
            chosen.case.call,
            printable(&program)
        );
        if let Some(source) = &self.source {
            let _ = writeln!(text, "# {source} is the source that the module carries; {MODULE} is what ran.");
        }
        let _ = writeln!(text, "name = {}\n\n[captured]", line(&name));
        let _ = writeln!(text, "program = {}\ndevice = {}", line(&program), line(&device.name));
        let _ = writeln!(text, "driver = {}", line(&Captured::driver(&device.driver, &device.driver_info)));
        let _ = writeln!(text, "call = {}", chosen.case.call);
        if chosen.median > 0.0 {
            let median = format!("microseconds = {:.3}", chosen.median / 1e3);
            let _ = writeln!(text, "{}", marked(&median, "the median of its calls with this grid"));
        }
        let remark = if exact { "run again there, it gave the same bits" } else { "not run again, or with other bits" };
        let _ = writeln!(text, "{}", marked(&format!("exact = {exact}"), remark));
        let _ = writeln!(text, "gpukern = {}", line(env!("CARGO_PKG_VERSION")));
        text
    }

    fn kernel(&self, text: &mut String) {
        let pipeline = self.chosen.pipeline;
        let _ = writeln!(text, "\n[kernel]\nsource = {}", line(MODULE));
        if pipeline.entry != "main" {
            let _ = writeln!(text, "entry = {}", line(&pipeline.entry));
        }
        if let Some(size) = pipeline.subgroup {
            let _ = writeln!(text, "subgroup = {size}");
        }
        let bound = self.slots.iter().filter_map(|(slot, _, bound)| {
            let data = self.data.iter().find(|data| data.members.is_none() && data.is_bound(bound))?;
            let whole = bound.offset == 0 && bound.range >= data.bytes;
            let fits = fits_blocks(&data.name, data.bytes, MODULE, slot).is_ok();
            let to = if bound.region.is_none() || whole && fits && pipeline.robustness.is_none() {
                line(&data.name)
            } else {
                let range = bound.range.min(data.bytes.saturating_sub(bound.offset));
                format!("{{ buffer = {}, offset = {}, range = {range} }}", line(&data.name), bound.offset)
            };
            Some(marked(&format!("{} = {to}", line(&place(slot))), &slot.names().join(", ")))
        });
        let bound: Vec<String> = bound.collect();
        if !bound.is_empty() {
            let _ = writeln!(text, "\n[kernel.bind]\n{}", bound.join("\n"));
        }
    }

    fn constants(&self, text: &mut String) {
        let mut heading = Some("\n[spec]\n");
        for (id, bytes) in &self.chosen.pipeline.specialization {
            let Some(constant) = self.pass.interface.constants.iter().find(|own| own.id == *id) else { continue };
            text.push_str(heading.take().unwrap_or_default());
            let value = value(constant.scalar, number(bytes));
            let _ = writeln!(text, "{}", marked(&format!("{id} = {value}"), &constant.name));
        }
    }

    /// The members of a block, with the values in `bytes`.
    fn members(&self, slot: Option<usize>, members: &[Argument], bytes: &[u8], text: &mut String) {
        for member in members {
            let unlike = |other: &&Argument| other.name == member.name;
            let named = !member.name.is_empty() && members.iter().filter(unlike).count() == 1;
            let name = if named { key(&member.name) } else { line(&format!("byte {}", member.offset)) };
            let pointer = self.pointers.iter().find(|own| own.slot == slot && own.offset == member.offset);
            let at = member.offset as usize;
            let own = bytes.get(at..).unwrap_or_default();
            let own = &own[..own.len().min(member.kind.bytes() as usize)];
            let value = match (pointer, member.kind) {
                (Some(pointer), _) => line(&pointer.to),
                (None, ArgumentKind::Scalar(scalar)) => value(scalar, number(own)),
                (None, ArgumentKind::Address) => line(&format!("{BITS}{:x}", number(own))),
            };
            let _ = writeln!(text, "{name} = {value}");
        }
    }

    fn buffers(&self, text: &mut String) {
        let mut answers = vec![];
        for data in self.data.iter().filter(|data| data.members.is_none()) {
            let _ = writeln!(text, "\n[buffer.{}]\ntype = \"{}\"", key(&data.name), data.element.name());
            let elements = data.bytes / data.element.bytes();
            let _ = match data.columns {
                1 => writeln!(text, "shape = [{elements}]"),
                columns => writeln!(text, "shape = [{}, {columns}]", elements / columns),
            };
            let fill = match &data.fill {
                Some(file) => Some(format!("@{file}")),
                None if data.answer.is_none() => Some("zero".into()),
                None => None,
            };
            if let Some(fill) = fill {
                let fill = format!("fill = {}", line(&fill));
                let _ = writeln!(text, "{}", marked(&fill, data.remark));
            }
            if let Some(answer) = &data.answer {
                let _ = writeln!(text, "check = {}", data.tolerance);
                answers.push(format!("{} = {}", key(&data.name), line(answer)));
            }
        }
        let _ = writeln!(text, "\n[reference.file]\n{}", answers.join("\n"));
    }
}

/// A line, and a remark if there is one.
fn marked(line: &str, remark: &str) -> String {
    if remark.is_empty() { line.to_string() } else { init::marked(line, remark) }
}

/// The low bytes of a number.
fn number(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide.iter_mut().zip(bytes).for_each(|(wide, byte)| *wide = *byte);
    u64::from_le_bytes(wide)
}

/// A value of TOML that a kernel gets as these bits: the number where it has the same, else the bits.
fn value(scalar: Scalar, bits: u64) -> String {
    let float = |value: f64| (value.is_finite()).then(|| (Formula::Number(value), format!("{value:?}")));
    let plain = match scalar {
        Scalar::Bool if bits < 2 => Some((Formula::Truth(bits == 1), (bits == 1).to_string())),
        Scalar::Bool => None,
        Scalar::Int { .. } => scalar.integer(bits).map(|value| (Formula::Integer(value), value.to_string())),
        Scalar::Float { bits: 16 } => float(f16::from_bits(bits as u16).to_f64()),
        // The shortest decimals of an f32 are those of no f64, but the nearest f32 is the same.
        Scalar::Float { bits: 32 } => format!("{:?}", f32::from_bits(bits as u32)).parse().ok().and_then(float),
        Scalar::Float { .. } => float(f64::from_bits(bits)),
        Scalar::Bfloat16 => float(bf16::from_bits(bits as u16).to_f64()),
    };
    let same = |formula: &Formula| pack(formula, scalar, &Values::default()).is_ok_and(|(found, _)| found == bits);
    let plain = plain.filter(|(formula, _)| same(formula));
    plain.map_or_else(|| line(&format!("{BITS}{bits:x}")), |(_, text)| text)
}
