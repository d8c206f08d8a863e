//! What a kernel says of itself: a description with everything filled in that can be known, and what is missing of one.

use super::description::{Described, Fault};
use super::loaded::{LoadedPass, constant_key, programs, slot_key};
use super::resolved::Tolerance;
use crate::basis::dtype::DType;
use crate::basis::error::Error;
use crate::kernel::interface::{ArgumentKind, Scalar, Slot, SpecConstant};
use half::{bf16, f16};
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
    let kernel = described.description.kernel.clone().unwrap_or_default();
    let mut text = String::new();
    let sources: Vec<String> = programs.iter().map(|program| quoted(&program.passes[0].source)).collect();
    let _ = writeln!(text, "# What gpukern found in {}, and (…) what it cannot know. See docs/run.md.", pass.source);
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
    let _ = writeln!(text, "\n[axes]                        # what is swept; expressions below may use the names");
    let _ = writeln!(
        text,
        "N = \"1024..65536\"             # (…) doubling; also [4096, 14336], \"128..1024:128\", \"2*M\""
    );
    specs(pass, &mut text);
    pushes(pass, &mut text);
    for slot in pass.interface.slots.iter() {
        buffer(slot, &mut text);
    }
    for member in pass.interface.arguments.iter().filter(|member| member.kind == ArgumentKind::Address) {
        let name = member.name.rsplit('.').next().unwrap_or_default();
        let _ =
            writeln!(text, "\n[buffer.{}]                 # its address is push constant {}", key(name), member.name);
        let _ = writeln!(text, "type = \"f32\"                  # (…)\nshape = [\"N\"]                 # (…)");
        let _ = writeln!(text, "fill = \"uniform(-1, 1)\"       # (…) leave it out where the kernel writes");
    }
    dispatch(pass, &mut text);
    text.push_str(ENDING);
    Ok(text)
}

/// What no kernel says of itself.
const ENDING: &str = "
# [reference]                 # (…) where the right answer comes from; without one the result is unverified
# kernel = \"naive.comp\"       # another kernel, and its grid
# groups = [\"cdiv(N, local_x)\", \"1\", \"1\"]    # or
# command = \"python3 ref.py {in} {out}\"    # reads <input>.npy from {in}, writes <output>.npy to {out}; or
# file = \"d.npy\"              # or
# builtin = \"matmul\"          # with size = [\"M\", \"N\", \"K\"] and roles = { C = \"D\" }

# [work]                      # (…) for rates and the share of the limit
# flops = \"2*N\"
# bytes = \"8*N\"               # each input and each output once, where nothing is said
";

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// A key of TOML.
fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { name.to_string() } else { quoted(name) }
}

/// The value that the bits of a default are.
fn shown(constant: &SpecConstant) -> String {
    let bits = constant.default;
    match constant.scalar {
        Scalar::Bool => (bits != 0).to_string(),
        Scalar::Int { .. } => constant.scalar.integer(bits).map_or_else(|| bits.to_string(), |value| value.to_string()),
        Scalar::Float { bits: 16 } => float(f16::from_bits(bits as u16).to_f64()),
        Scalar::Float { bits: 32 } => float(f64::from(f32::from_bits(bits as u32))),
        Scalar::Bfloat16 => float(bf16::from_bits(bits as u16).to_f64()),
        Scalar::Float { .. } => float(f64::from_bits(bits)),
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

fn pushes(pass: &LoadedPass, text: &mut String) {
    let mut numbers = pass.interface.arguments.iter().filter_map(|member| match member.kind {
        ArgumentKind::Scalar(scalar) => Some((&member.name, scalar)),
        ArgumentKind::Address => None,
    });
    let Some(first) = numbers.next() else { return };
    let _ = writeln!(text, "\n[push]                        # numbers, or expressions of axes");
    for (name, scalar) in std::iter::once(first).chain(numbers) {
        let line = format!("{} = \"N\"", key(name));
        let _ = writeln!(text, "{line:<29} # (…) {}", scalar.name());
    }
}

fn buffer(slot: &Slot, text: &mut String) {
    let Slot { set, binding, .. } = slot;
    let name = slot_key(slot);
    let access = match (slot.is_readable(), slot.is_writable()) {
        (true, true) => "read and written",
        (false, _) => "written",
        (true, false) => "read",
    };
    let aliases = slot.names()[1.min(slot.names().len())..].join(", ");
    let also = if aliases.is_empty() { String::new() } else { format!(", also {aliases}") };
    let _ = writeln!(
        text,
        "\n[buffer.{}]{:width$}# set {set}, binding {binding}, {access}{also}",
        key(&name),
        "",
        width = 22usize.saturating_sub(key(&name).len()).max(1)
    );
    let elements: Vec<_> = slot.blocks.iter().filter_map(|block| block.array).collect();
    let scalar = elements.iter().find_map(|array| array.scalar);
    let fixed = slot.blocks.iter().map(|block| block.fixed).max().unwrap_or(0);
    let (element, shape, remark) = match (scalar, elements.first()) {
        (Some(scalar), _) => (scalar.name(), "\"N\"".to_string(), "(…)".to_string()),
        (None, Some(array)) => {
            let stride = array.stride;
            ("bytes".to_string(), format!("\"{stride}*N\""), format!("(…) structures of {stride} bytes"))
        }
        (None, None) => ("bytes".to_string(), fixed.to_string(), "the block's size".to_string()),
    };
    let _ = writeln!(
        text,
        "type = \"{element}\"\nshape = [{shape}]{:width$}# {remark}",
        "",
        width = 20usize.saturating_sub(shape.len()).max(1)
    );
    if slot.is_writable() {
        let _ = writeln!(
            text,
            "# check = {}  # (…) what is usual for {element}; or {{ nmse = 1e-6 }}, {{ ulp = 4 }}, \"exact\"; \
                                with a fill it is changed in place; scratch = true: not looked at",
            DType::of_buffer(&element).map_or_else(|_| "\"exact\"".into(), |element| usual(element).to_string())
        );
    } else {
        let fill = format!("fill = \"{}\"", fill(&element));
        let _ = writeln!(text, "{fill:<29} # (…) zero, iota, normal, @x.npy, @x.bin");
    }
}

/// A fill with several values of the type.
fn fill(element: &str) -> &'static str {
    match element.as_bytes() {
        [b'f' | b'i', ..] | b"bf16" => "uniform(-1, 1)",
        _ => "uniform(0, 255)",
    }
}

fn dispatch(pass: &LoadedPass, text: &mut String) {
    let [x, y, z] = pass.local_size(&[]);
    let _ = writeln!(
        text,
        "\n[dispatch]                    # work-groups of {x}×{y}×{z}, as expressions: local_x, local_y, local_z"
    );
    let _ = writeln!(text, "groups = [\"cdiv(N, local_x)\", \"1\", \"1\"]   # (…)");
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
    let mut lacks = vec![];
    for slot in pass.interface.slots.iter() {
        let Slot { set, binding, .. } = slot;
        let name = slot_key(slot);
        let scalar = slot.blocks.iter().filter_map(|block| block.array).find_map(|array| array.scalar);
        let element = scalar.map_or_else(|| "bytes".to_string(), Scalar::name);
        let fill = if slot.is_writable() { String::new() } else { format!(":{}", fill(&element).replace(' ', "")) };
        lacks.push(format!("buffer {name} (set {set}, binding {binding}): --buffer '{name}={element}[N]{fill}'"));
    }
    for member in pass.interface.arguments.iter() {
        match member.kind {
            ArgumentKind::Scalar(scalar) => {
                lacks.push(format!("push constant {0} ({1}): --push {0}=N", member.name, scalar.name()));
            }
            ArgumentKind::Address => {
                lacks.push(format!("buffer {0} (its address): --buffer '{0}=f32[N]'", member.name));
            }
        }
    }
    lacks.push("the grid: --groups 'cdiv(N,local_x)'".into());
    lacks.push("the axes that these name: -s N=1024..65536".into());
    Ok(Some(format!(
        "{} cannot be run yet; it needs\n  {}\nor a description: gpukern run {0} --init > k.toml, complete it, gpukern run k.toml",
        pass.source,
        lacks.join("\n  ")
    )))
}
