//! Formats reflected interfaces as Rust source for the table of shaders: constants without allocations.

use super::interface::{Argument, ArgumentKind, Block, Elements, Interface, SizeOp, Slot, SpecConstant, Word};
use std::fmt::Write;

/// Formats an `Interface` literal; the file that includes it has the types in scope.
pub(crate) fn interface(interface: &Interface) -> String {
    let Interface { version, local_size, constants, arguments, slots, asks_lengths, shared, capabilities, features } =
        interface;
    let mut text = String::from("Interface { ");
    let _ = write!(text, "version: {version:?}, local_size: [{}]", joined(local_size, |size| word(*size)));
    let _ = write!(text, ", constants: {}", borrowed(constants, constant));
    let _ = write!(text, ", arguments: {}", borrowed(arguments, argument));
    let _ = write!(text, ", slots: {}, asks_lengths: {asks_lengths}", borrowed(slots, slot));
    let _ = write!(text, ", shared: {}", borrowed(shared, size_op));
    let _ = write!(text, ", capabilities: {}", borrowed(capabilities, |name| string(name)));
    let _ = write!(text, ", features: {} }}", borrowed(features, |name| string(name)));
    text
}

/// Formats a variant of an enum by its lower-case name, as an `Option`.
pub(crate) fn choice(enum_name: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("Some({enum_name}::{}{})", &name[..1].to_uppercase(), &name[1..]),
        None => "None".into(),
    }
}

/// Formats a string as `Cow::Borrowed`.
pub(crate) fn string(text: &str) -> String {
    format!("Cow::Borrowed({text:?})")
}

/// Formats a list as `Cow::Borrowed`, whose items `literal` formats.
fn borrowed<T>(list: &[T], literal: impl Fn(&T) -> String) -> String {
    format!("Cow::Borrowed(&[{}])", joined(list, literal))
}

fn joined<T>(list: &[T], literal: impl Fn(&T) -> String) -> String {
    list.iter().map(literal).collect::<Vec<_>>().join(", ")
}

fn constant(SpecConstant { name, id, scalar, default, is_ambiguous }: &SpecConstant) -> String {
    let name = string(name);
    format!(
        "SpecConstant {{ name: {name}, id: {id}, scalar: Scalar::{scalar:?}, default: {default}, is_ambiguous: {is_ambiguous} }}"
    )
}

fn argument(Argument { name, offset, kind }: &Argument) -> String {
    let kind = match kind {
        ArgumentKind::Address => "Address".into(),
        ArgumentKind::Scalar(scalar) => format!("Scalar(Scalar::{scalar:?})"),
    };
    format!("Argument {{ name: {}, offset: {offset}, kind: ArgumentKind::{kind} }}", string(name))
}

/// Formats a slot. Members are left out, because built-in kernels bind no buffers but texel views.
fn slot(Slot { set, binding, element, kind, blocks }: &Slot) -> String {
    let block = |Block { names, writable, readable, fixed, array, .. }: &Block| {
        let array = array.map_or_else(
            || "None".into(),
            |Elements { stride, scalar }| {
                let scalar = scalar.map_or_else(|| "None".into(), |scalar| format!("Some(Scalar::{scalar:?})"));
                format!("Some(Elements {{ stride: {stride}, scalar: {scalar} }})")
            },
        );
        let names = borrowed(names, |name| string(name));
        format!(
            "Block {{ names: {names}, writable: {writable}, readable: {readable}, fixed: {fixed}, array: {array}, members: Cow::Borrowed(&[]), scalar: None, long: None, image: None }}"
        )
    };
    let blocks = borrowed(blocks, block);
    format!("Slot {{ set: {set}, binding: {binding}, element: {element}, kind: SlotKind::{kind:?}, blocks: {blocks} }}")
}

fn word(word: Word) -> String {
    // `Word`'s `Debug` output is Rust source.
    format!("Word::{word:?}")
}

fn size_op(op: &SizeOp) -> String {
    match op {
        SizeOp::Push(value) => format!("SizeOp::Push({})", word(*value)),
        other => format!("SizeOp::{other:?}"),
    }
}
