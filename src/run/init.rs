//! What a kernel says of itself: a description with everything filled in that can be known, and what is missing of one.

use super::access::Access;
use super::description::{Described, Fault};
use super::loaded::{LoadedKernel, LoadedPass, constant_key, programs, slot_key};
use super::members::number;
use super::resolved::Tolerance;
use crate::basis::dtype::DType;
use crate::basis::error::Error;
use crate::basis::printable::{printable, shown_word};
use crate::kernel::interface::{Argument, ArgumentKind, Block, Elements, Scalar, Slot, SlotKind, SpecConstant};
use std::fmt::Write;

/// The tolerance of outputs that state none.
#[must_use]
pub(crate) fn usual(element: DType) -> Tolerance {
    match element {
        DType::F64 => Tolerance::Close { rtol: 1e-10, atol: 1e-12 },
        DType::F32 => Tolerance::Close { rtol: 1e-4, atol: 1e-5 },
        DType::F16 => Tolerance::Close { rtol: 1e-2, atol: 1e-3 },
        DType::Bf16 => Tolerance::Close { rtol: 2e-2, atol: 1e-2 },
        _ => Tolerance::Exact,
    }
}

/// A description of the kernels of `described` in TOML, with a comment on what is still to be said.
///
/// # Errors
/// What the compiler says.
pub(crate) fn init(described: &Described) -> Result<String, Error> {
    template(described).map_err(|fault| described.error(&fault))
}

fn template(described: &Described) -> Result<String, Fault> {
    let programs = programs(described)?;
    let pass = &programs[0].passes[0];
    let mut text = kernel_table(described, &programs);
    let grid = Grid::of(pass);
    let _ = writeln!(text, "\n[axes]                        # swept; expressions below may use these names");
    for ((axis, values), remark) in grid.axes().zip(["doubling; or [4096, 14336], \"128..1024:128\"", "", ""]) {
        let _ = writeln!(text, "{}", marked(&format!("{axis} = {}", quoted(values)), &format!("(…) {remark}")));
    }
    specs(pass, &mut text);
    pushes(pass, &grid, &mut text);
    let accesses = pass.accesses().map_err(|message| Fault::new("kernel.source", message))?;
    let (slots, addresses) = accesses.split_at(pass.interface.slots.len());
    for (slot, access) in pass.interface.slots.iter().zip(slots) {
        match by_member(slot, *access) {
            Some(block) => uniform(slot, block, &grid, &mut text),
            None => buffer(slot, *access, &grid, &mut text),
        }
    }
    let both = Access::UNKNOWN;
    let blocks = pass.interface.slots.iter().zip(slots).filter_map(|(slot, access)| by_member(slot, *access));
    let held = blocks.flat_map(|block| block.members.iter());
    let held = held.filter(|member| member.kind == ArgumentKind::Address).map(|member| (member, &both));
    for (member, access) in pass.addresses().zip(addresses).chain(held) {
        let name = key(member.name.rsplit('.').next().unwrap_or_default());
        let head =
            marked(&format!("\n[buffer.{name}]"), &format!("at the address in {}: {}", member.name, done(*access)));
        let _ = writeln!(text, "{head}\n{}", marked("type = \"f32\"", "(…)"));
        let _ = writeln!(text, "{}", marked(&format!("shape = {}", grid.shape(1)), "(…)"));
        contents(&member.name, "f32", *access, &mut text);
    }
    let [x, y, z] = pass.local_size(&[]);
    let groups = grid.groups();
    let _ = writeln!(text, "\n[dispatch]                    # work-groups of {x}×{y}×{z}: local_x, …");
    let _ = writeln!(text, "{}", marked(&format!("groups = {groups}"), "(…)"));
    text.push_str(&ENDING.replace("GROUPS", &groups));
    Ok(text)
}

/// What the sources are and how they are compiled.
fn kernel_table(described: &Described, programs: &[LoadedKernel]) -> String {
    let pass = &programs[0].passes[0];
    let kernel = described.description.kernel.clone().unwrap_or_default();
    let mut text = String::new();
    let sources: Vec<String> = programs.iter().map(|program| quoted(&program.passes[0].source)).collect();
    let name = std::path::Path::new(&pass.source)
        .file_name()
        .map_or(pass.source.clone().into(), |name| name.to_string_lossy());
    let _ = writeln!(
        text,
        "# What gpukern found in {}. Check the lines marked (…); docs/run.md\n# explains the fields.",
        printable(&name)
    );
    let _ = writeln!(text, "[kernel]");
    match sources.as_slice() {
        [one] => writeln!(text, "source = {one}"),
        several => writeln!(text, "source = [{}]", several.join(", ")),
    }
    .ok();
    if !kernel.include.is_empty() {
        let folders: Vec<String> = kernel.include.iter().map(|folder| quoted(folder)).collect();
        let _ = writeln!(text, "include = [{}]", folders.join(", "));
    }
    if !kernel.define.is_empty() {
        let macros = kernel.define.iter().map(|(name, value)| format!("{name} = {}", quoted(&value.to_string())));
        let _ = writeln!(text, "define = {{ {} }}", macros.collect::<Vec<_>>().join(", "));
    }
    if let Some(entry) = &kernel.entry {
        let _ = writeln!(text, "entry = {}", quoted(entry));
    }
    text
}

/// What no kernel says of itself.
const ENDING: &str = "
# [reference]                 # (…) the right answer; without it: unverified
# kernel = \"naive.comp\"       # another kernel, and its grid:
# groups = GROUPS
#                             # or a program that reads NAME.npy of each input
#                             # from {in} and writes NAME.npy of each output
# command = \"python3 ref.py {in} {out}\"
# file = \"d.npy\"              # or a file; or a built-in algorithm, with
# builtin = \"matmul\"          # size = [\"M\", \"N\", \"K\"], roles = { C = \"D\" }

# [work]                      # (…) for rates and the share of the limit
# flops = \"2*N\"               # for example
# bytes = \"12*N\"              # where it is not each input and output once
";

/// A line with a remark behind it, which stays one whatever names a stranger's module has.
pub(crate) fn marked(line: &str, remark: &str) -> String {
    let remark = printable(remark);
    // A blank line may stand before it.
    let width = 29 + usize::from(line.starts_with('\n'));
    format!("{line:<width$} # {remark}").trim_end().to_string()
}

/// The axes along which a kernel's work-groups extend: one for each dimension that they have.
struct Grid {
    dimensions: usize,
    /// The push constants are sizes along these axes.
    known: Vec<&'static str>,
}

impl Grid {
    fn of(pass: &LoadedPass) -> Self {
        let wide = pass.local_size(&[]).iter().rposition(|extent| *extent > 1);
        let mut grid = Self { dimensions: wide.unwrap_or(0) + 1, known: vec![] };
        for member in pass.interface.arguments.iter() {
            if let ArgumentKind::Scalar(scalar) = member.kind {
                grid.known.push(grid.guess(&member.name, scalar));
            }
        }
        grid
    }

    /// The axes, from x on, with what to sweep.
    fn axes(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        // One that is no multiple of a work-group, where a forgotten bound shows.
        let first = ["1001,1024..65536", "255,256..4096", "33,64..256"][self.dimensions - 1];
        // Nothing is square where the kernel is told so: exchanged extents show.
        let other = |axis, longer| if self.known.contains(&axis) { longer } else { "N" };
        ["N", "M", "K"].into_iter().zip([first, other("M", "N+3"), other("K", "N+6")]).take(self.dimensions)
    }

    /// The shape of a buffer with an element for each invocation, each of so many of its type.
    fn shape(&self, stride: u64) -> String {
        let mut extents: Vec<_> = self.axes().map(|(axis, _)| quoted(axis)).collect();
        if stride > 1 {
            extents[0] = quoted(&format!("{stride}*N"));
        }
        extents.reverse();
        format!("[{}]", extents.join(", "))
    }

    /// The work-groups that cover the axes.
    fn groups(&self) -> String {
        let mut groups: Vec<_> = self
            .axes()
            .zip(["x", "y", "z"])
            .map(|((axis, _), of)| quoted(&format!("cdiv({axis}, local_{of})")))
            .collect();
        groups.resize(3, quoted("1"));
        format!("[{}]", groups.join(", "))
    }

    /// A guess at the value of a push constant: nothing says that a float is a number of elements.
    fn guess(&self, name: &str, scalar: Scalar) -> &'static str {
        if let Scalar::Float { .. } | Scalar::Bfloat16 = scalar {
            // 1 would be neutral in a product.
            return FLOAT;
        }
        let name = name.rsplit('.').next().unwrap_or_default().to_lowercase();
        match &*name {
            "m" | "rows" | "row" | "height" | "h" | "y" | "ny" if self.dimensions > 1 => "M",
            "k" | "depth" | "d" | "z" | "nz" if self.dimensions > 2 => "K",
            _ => "N",
        }
    }
}

/// The value of a float that nothing is known of.
const FLOAT: &str = "0.75";

/// What a kernel does with a buffer, in words.
fn done(access: Access) -> &'static str {
    match (access.reads, access.writes) {
        (true, true) => "read and written",
        (true, false) => "read",
        (false, true) => "written",
        (false, false) => "not used",
    }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// A key of TOML.
pub(crate) fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { name.to_string() } else { line(name) }
}

/// A string of TOML in one line. What JSON leaves as it is, TOML does too, but for DEL.
pub(crate) fn line(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// The value that the bits of a default are.
fn shown(constant: &SpecConstant) -> String {
    let bits = constant.default;
    match constant.scalar {
        Scalar::Bool => (bits != 0).to_string(),
        Scalar::Int { .. } => constant.scalar.integer(bits).map_or_else(|| bits.to_string(), |value| value.to_string()),
        Scalar::Float { .. } | Scalar::Bfloat16 => float(number(constant.scalar, bits)),
    }
}

fn float(value: f64) -> String {
    toml::Value::Float(value).to_string()
}

fn specs(pass: &LoadedPass, text: &mut String) {
    if pass.interface.constants.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n[spec]                        # defaults; a list is what --tune searches");
    for constant in pass.interface.constants.iter() {
        let line = format!("{} = {}", key(&constant_key(constant)), shown(constant));
        let _ = writeln!(text, "{line:<29} # {}, constant_id {}", constant.scalar.name(), constant.id);
    }
}

fn pushes(pass: &LoadedPass, grid: &Grid, text: &mut String) {
    let mut heading = Some("\n[push]                        # numbers, or expressions of axes\n");
    for member in pass.interface.arguments.iter() {
        let ArgumentKind::Scalar(scalar) = member.kind else { continue };
        text.push_str(heading.take().unwrap_or_default());
        let guess = grid.guess(&member.name, scalar);
        let value = if guess == FLOAT { guess.to_string() } else { quoted(guess) };
        let line = format!("{} = {value}", key(&member.name));
        let _ = writeln!(text, "{}", marked(&line, &format!("(…) {}", scalar.name())));
    }
}

/// Members of a block that are listed; the others have one value.
const MOST_LISTED: usize = 24;

/// The block of a slot that is given by member: a uniform block, or one of several types that is only read.
fn by_member(slot: &Slot, access: Access) -> Option<&Block> {
    let block = slot.blocks.iter().find(|block| !block.members.is_empty())?;
    let is_parameters = !access.writes && block.array.is_none() && block.numbers().is_none();
    (slot.kind == SlotKind::Uniform || is_parameters || block.is_addresses()).then_some(block)
}

fn uniform(slot: &Slot, block: &Block, grid: &Grid, text: &mut String) {
    let place = format!("set {}, binding {}: its members", slot.set, slot.binding);
    let _ = writeln!(text, "{}", marked(&format!("\n[uniform.{}]", key(&slot_key(slot))), &place));
    let (listed, others) = block.members.split_at(block.members.len().min(MOST_LISTED));
    for member in listed {
        let ArgumentKind::Scalar(scalar) = member.kind else { continue };
        let guess = grid.guess(&member.name, scalar);
        let value = if guess == FLOAT { guess.to_string() } else { quoted(guess) };
        let line = format!("{} = {value}", key(&member.name));
        let _ = writeln!(text, "{}", marked(&line, &format!("(…) {}", scalar.name())));
    }
    if let Some(first) = others.first() {
        let more = match others.len() {
            1 => String::new(),
            2 => " and 1 other".into(),
            many => format!(" and {} others", many - 1),
        };
        let remark = format!("(…) {}{more}", first.name);
        let _ = writeln!(text, "{}", marked("\"*\" = 0", &remark));
    }
}

fn buffer(slot: &Slot, access: Access, grid: &Grid, text: &mut String) {
    let Slot { set, binding, .. } = slot;
    let name = slot_key(slot);
    let aliases = slot.names()[1.min(slot.names().len())..].join(", ");
    let also = if aliases.is_empty() { String::new() } else { format!("; also {aliases}") };
    let remark = format!("set {set}, binding {binding}: {}{also}", done(access));
    let _ = writeln!(text, "{}", marked(&format!("\n[buffer.{}]", key(&name)), &remark));
    let array = slot.blocks.iter().find_map(|block| block.array);
    let element = element(&[slot]);
    let (shape, remark) = match array {
        _ if numbers(slot).is_some() => {
            (format!("[{}]", numbers(slot).map_or(0, |(_, count)| count)), "the block's size".to_string())
        }
        Some(array) if element != "bytes" => (grid.shape(per_element(slot)), structures(slot, array)),
        Some(array) => (grid.shape(array.stride), format!("(…) structures of {} bytes", array.stride)),
        None => (format!("[{}]", fixed(slot).unwrap_or_default()), "the block's size".to_string()),
    };
    let _ = writeln!(text, "type = \"{element}\"\n{}", marked(&format!("shape = {shape}"), &remark));
    contents(&name, &element, access, text);
}

/// Numbers in each element of the array at a block's end, where these are structures or have padding; 1 for vectors, as many
/// of which as are wanted may be elements of the problem.
fn per_element(slot: &Slot) -> u64 {
    let of = |block: &Block| {
        let array = block.array?;
        let bytes = u64::from(array.scalar?.bytes());
        let own = block.members.iter().filter(|member| u64::from(member.offset) >= block.fixed).count() as u64;
        (own * bytes != array.stride || ![1, 2, 4].contains(&own)).then_some(array.stride / bytes)
    };
    slot.blocks.iter().find_map(of).unwrap_or(1)
}

/// The remark on the elements of an array of structures, or of vectors with padding.
fn structures(slot: &Slot, array: Elements) -> String {
    let own =
        slot.blocks.iter().map(|block| block.members.iter().filter(|at| u64::from(at.offset) >= block.fixed).count());
    match (per_element(slot), own.max().unwrap_or_default() as u64) {
        (1, _) => "(…)".into(),
        (count, own) if own < count && own > 0 => {
            format!("(…) {own} numbers and {} of padding each", count - own)
        }
        (count, _) => format!("(…) structures of {count} numbers, {} bytes", array.stride),
    }
}

/// The bytes of a buffer without an array at its end.
fn fixed(slot: &Slot) -> Option<u64> {
    let largest = slot.blocks.iter().map(|block| block.fixed).max().unwrap_or_default();
    slot.blocks.iter().all(|block| block.array.is_none()).then_some(largest)
}

/// The type and the number of a buffer's elements, where a block without an array at its end is made of one type.
fn numbers(slot: &Slot) -> Option<(Scalar, u64)> {
    fixed(slot).and_then(|_| slot.blocks.iter().find_map(Block::fills))
}

/// The type of a buffer's elements, by the types of the blocks that see it: floats that another block sees as integers, to
/// take them apart or to add to them, are floats.
pub(crate) fn element(slots: &[&Slot]) -> String {
    let of = |block: &Block| block.array.map_or(block.scalar, |array| array.scalar);
    let all: Vec<Scalar> = slots.iter().flat_map(|slot| slot.blocks.iter()).filter_map(of).collect();
    let is_float = |scalar: &&Scalar| matches!(scalar, Scalar::Float { .. } | Scalar::Bfloat16);
    all.iter().find(is_float).or(all.first()).map_or_else(|| "bytes".to_string(), |scalar| scalar.name())
}

/// Who fills a buffer, and how it is checked.
fn contents(name: &str, element: &str, access: Access, text: &mut String) {
    if access.reads || !access.writes {
        let chosen = fill(name, element, access);
        let remark = match chosen {
            INDICES => "(…) used as indices: keep them in range",
            _ => "(…) also iota, normal, @x.npy, @x.bin",
        };
        let _ = writeln!(text, "{}", marked(&format!("fill = \"{chosen}\""), remark));
    }
    let check = DType::of_buffer(element).map_or_else(|_| "\"exact\"".into(), |element| usual(element).to_string());
    if access.writes && access.reads {
        let _ =
            writeln!(text, "check = {check}\n# (…) filled and checked: updated in place. An output has no fill. Or:");
        let _ = writeln!(text, "# scratch = true              # if the host never reads it");
    } else if access.writes {
        let _ = writeln!(text, "# check = {check}\n#   the default; or {{ nmse = 1e-6 }}, {{ ulp = 4 }}, \"exact\"");
    }
}

/// The fill of a buffer whose elements are indices.
const INDICES: &str = "uniform(0, N - 1)";

/// Parts of the names of buffers that hold nothing but yes and no.
const MASKS: [&str; 7] = ["mask", "flag", "valid", "active", "enabled", "visible", "predicate"];

/// A fill that covers the type; of integers that atomic operations change, which count as a rule, zeros.
fn fill(name: &str, element: &str, access: Access) -> &'static str {
    let is_float = element.starts_with('f') || element == "bf16";
    let name = name.to_lowercase();
    match element {
        _ if !access.writes && MASKS.iter().any(|part| name.contains(part)) => "mask",
        _ if is_float => "varied",
        _ if access.counts => "zero",
        _ if access.indexes && element != "bytes" => INDICES,
        _ => "varied",
    }
}

/// What is missing to run kernels of which nothing is described yet; `None` where something is.
///
/// # Errors
/// What the compiler says.
pub(crate) fn missing(described: &Described) -> Result<Option<String>, Fault> {
    let description = &described.description;
    if !description.buffer.is_empty() || description.dispatch.is_some() || !description.pass.is_empty() {
        return Ok(None);
    }
    let programs = programs(described)?;
    let pass = &programs[0].passes[0];
    let grid = Grid::of(pass);
    let accesses = pass.accesses().map_err(|message| Fault::new("kernel.source", message))?;
    let axes: Vec<_> = grid.axes().collect();
    let shape: Vec<_> = axes.iter().rev().map(|(axis, _)| *axis).collect();
    let shape = shape.join(",");
    let mut lacks = vec![];
    for (slot, access) in pass.interface.slots.iter().zip(&accesses) {
        lacks.push(slot_options(slot, *access, &grid, &shape));
    }
    let mut addresses = accesses[pass.interface.slots.len()..].iter();
    for member in pass.interface.arguments.iter() {
        match member.kind {
            ArgumentKind::Scalar(scalar) => {
                let (name, guess) = (&member.name, grid.guess(&member.name, scalar));
                let option = shown_word(&format!("{name}={guess}"));
                lacks.push(format!("push constant {} ({}): --push {option}", printable(name), scalar.name()));
            }
            ArgumentKind::Address => {
                let access = addresses.next().copied().unwrap_or(Access::UNKNOWN);
                lacks.push(format!(
                    "buffer {} (its address): {}",
                    printable(&member.name),
                    buffer_options(&member.name, "f32", &shape, access)
                ));
            }
        }
    }
    let groups: Vec<_> =
        axes.iter().zip(["x", "y", "z"]).map(|((axis, _), of)| format!("cdiv({axis},local_{of})")).collect();
    lacks.push(format!("the grid: --groups '{}'", groups.join(",")));
    let sizes: Vec<_> = axes.iter().map(|(axis, values)| format!("-s {axis}={values}")).collect();
    lacks.push(format!("the axes that these name: {}", sizes.join(" ")));
    Ok(Some(format!(
        "{} cannot run yet; it needs\n  {}\nor a description:\n  gpukern run {} --init > k.toml    # edit it, then\n  gpukern run k.toml",
        printable(&pass.source),
        lacks.join("\n  "),
        shown_word(&pass.source)
    )))
}

/// The options that describe what a slot binds.
fn slot_options(slot: &Slot, access: Access, grid: &Grid, shape: &str) -> String {
    let Slot { set, binding, .. } = slot;
    let name = slot_key(slot);
    let shown = printable(&name);
    let Some(block) = by_member(slot, access) else {
        let extents = match (numbers(slot), fixed(slot)) {
            (Some((_, count)), _) => count.to_string(),
            (None, Some(bytes)) => bytes.to_string(),
            (None, None) => {
                let stride = slot.blocks.iter().find_map(|block| block.array).map_or(1, |array| array.stride);
                let per_element = if element(&[slot]) == "bytes" { stride } else { per_element(slot) };
                if per_element == 1 { shape.to_string() } else { format!("{shape},{per_element}") }
            }
        };
        let options = buffer_options(&name, &element(&[slot]), &extents, access);
        return format!("buffer {shown} (set {set}, binding {binding}): {options}");
    };
    let option = |member: &Argument| {
        let value = match member.kind {
            ArgumentKind::Scalar(scalar) => grid.guess(&member.name, scalar),
            ArgumentKind::Address => member.name.rsplit('.').next().unwrap_or_default(),
        };
        format!("--uniform {}", shown_word(&format!("{name}.{}={value}", member.name)))
    };
    let mut options: Vec<_> = block.members.iter().take(MOST_LISTED).map(option).collect();
    if block.members.len() > MOST_LISTED {
        options.push(format!("--uniform {}", shown_word(&format!("{name}.*=0"))));
    }
    format!("uniform {shown} (set {set}, binding {binding}):\n    {}", options.join("\n    "))
}

/// The options that describe a buffer.
fn buffer_options(name: &str, element: &str, shape: &str, access: Access) -> String {
    let mut buffer = format!("{name}={element}[{shape}]");
    if access.reads || !access.writes {
        let _ = write!(buffer, ":{}", fill(name, element, access).replace(' ', ""));
    }
    let mut options = format!("--buffer {}", shown_word(&buffer));
    if access.reads && access.writes {
        let check = match DType::of_buffer(element).map(usual) {
            Ok(Tolerance::Close { rtol, atol }) => format!("rtol:{rtol:e},atol:{atol:e}"),
            _ => "exact".into(),
        };
        let _ = write!(options, "\n    changed in place: --check {}", shown_word(&format!("{name}={check}")));
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_strangers_module_stay_what_they_are() {
        let hostile = "x\n[reference]\ncommand = \"touch owned\" # \"\"\"\u{7f}';touch owned;'";
        let line = marked("type = \"f32\"", &format!("also {hostile}"));
        assert_eq!(line.lines().count(), 1, "{line}");
        let text = format!("{} = 1\n{line}\n", key(hostile));
        let table: toml::Table = toml::from_str(&text).expect("TOML");
        assert_eq!(table.keys().collect::<Vec<_>>(), [hostile, "type"]);
        let options = buffer_options("A';touch owned;'", "f32", "N", Access::UNKNOWN);
        assert_eq!(options.lines().next(), Some(r"--buffer 'A'\'';touch owned;'\''=f32[N]:varied'"), "{options}");
        assert!(options.contains(r"--check 'A'\'';touch owned;'\''="), "{options}");
    }
}
