//! First contents of buffers: generated from a seed, or read from files.

use super::npy;
use crate::algorithms::input::generator;
use crate::basis::input_file;
use crate::run::element::Element;
use crate::run::job::{Buffer, Fill};
use rand::Rng;
use std::path::Path;

/// The contents of `buffer`, number `stream` of the problem; `folder` is where the command for inputs wrote.
///
/// # Errors
/// When a file cannot be read, or is of another type or shape.
pub(super) fn of(
    fill: &Fill,
    buffer: &Buffer,
    (seed, stream): (u64, u64),
    folder: Option<&Path>,
) -> Result<Vec<u8>, String> {
    let mut draws = generator(seed, stream);
    let mut unit = || (draws.next_u64() >> 11) as f64 * 2f64.powi(-53);
    match fill {
        Fill::Npy(path) => npy::read(path, buffer),
        Fill::Raw(path) => raw(path, buffer),
        Fill::Made => made(buffer, folder.ok_or_else(|| format!("no command makes buffer {}", buffer.name))?),
        Fill::Zero => Ok(repeated(buffer, |_| 0.0)),
        Fill::Iota => Ok(iota(buffer)),
        Fill::Uniform { low, high } => Ok(repeated(buffer, |_| uniform(buffer.element, (*low, *high), unit()))),
        Fill::Normal { mean, deviation } => {
            // The logarithm of 1 less a draw from [0, 1) is finite.
            let mut normal = || (-2.0 * (1.0 - unit()).ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
            Ok(repeated(buffer, |_| mean + deviation * normal()))
        }
    }
}

/// What a command wrote for `buffer` into a folder.
///
/// # Errors
/// As of [`of`].
pub(super) fn made(buffer: &Buffer, folder: &Path) -> Result<Vec<u8>, String> {
    let [array, bytes] = ["npy", "bin"].map(|kind| folder.join(format!("{}.{kind}", buffer.name)));
    if !array.exists() && bytes.exists() {
        return raw(&bytes, buffer);
    }
    npy::read(&array, buffer)
}

/// 0, 1, 2, …, which wraps in the integers that end.
fn iota(buffer: &Buffer) -> Vec<u8> {
    let bytes = buffer.element.bytes() as usize;
    if buffer.element.is_float() {
        return repeated(buffer, |index| index as f64);
    }
    (0..buffer.len()).flat_map(|index| index.to_le_bytes().into_iter().take(bytes)).collect()
}

/// A value from a draw in [0, 1).
fn uniform(element: Element, (low, high): (f64, f64), draw: f64) -> f64 {
    if element.is_float() { low + (high - low) * draw } else { (low + ((high - low + 1.0) * draw).floor()).min(high) }
}

fn repeated(buffer: &Buffer, mut value: impl FnMut(u64) -> f64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(buffer.bytes() as usize);
    for index in 0..buffer.len() {
        buffer.element.push(value(index), &mut bytes);
    }
    bytes
}

/// The bytes of a file, as many as the buffer has.
fn raw(path: &Path, buffer: &Buffer) -> Result<Vec<u8>, String> {
    let (shown, most) = (path.display(), buffer.bytes());
    let bytes =
        input_file::read(path, most).map_err(|e| format!("cannot read '{shown}' into buffer {}: {e}", buffer.name))?;
    match bytes.len() as u64 {
        length if length == most => Ok(bytes),
        length => Err(format!("'{shown}' has {length} bytes, buffer {} has {most}; make them agree", buffer.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(element: Element, len: u64) -> Buffer {
        let (role, tolerance) = (crate::run::job::Role::Input, crate::run::job::Tolerance::Exact);
        Buffer { name: "A".into(), element, shape: vec![len], role, fill: None, tolerance }
    }

    fn values(fill: &Fill, element: Element, len: u64) -> Vec<f64> {
        let data = data(element, len);
        let bytes = of(fill, &data, (1, 0), None).expect("generated");
        assert_eq!(bytes.len() as u64, data.bytes());
        bytes.chunks(element.bytes() as usize).map(|bytes| element.value(bytes)).collect()
    }

    #[test]
    fn generated_contents_are_what_they_are_called_and_the_same_for_the_same_seed() {
        let uniform = Fill::Uniform { low: -1.0, high: 1.0 };
        let found = values(&uniform, Element::F32, 10_000);
        assert!(found.iter().all(|value| (-1.0..=1.0).contains(value)));
        assert!((found.iter().sum::<f64>() / 1e4).abs() < 0.05);
        assert_eq!(found, values(&uniform, Element::F32, 10_000));
        let dice = values(&Fill::Uniform { low: 1.0, high: 6.0 }, Element::I16, 1000);
        assert!((1..=6).all(|face| dice.contains(&f64::from(face))), "all faces, and no other");
        assert!(dice.iter().all(|face| face.fract() == 0.0 && (1.0..=6.0).contains(face)));
        let normal = values(&Fill::Normal { mean: 3.0, deviation: 2.0 }, Element::F64, 10_000);
        let mean = normal.iter().sum::<f64>() / 1e4;
        let variance = normal.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1e4;
        assert!((mean - 3.0).abs() < 0.1 && (variance - 4.0).abs() < 0.3, "{mean} {variance}");
        assert_eq!(values(&Fill::Iota, Element::U64, 4), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(values(&Fill::Zero, Element::F16, 2), [0.0, 0.0]);
        assert_eq!(values(&Fill::Iota, Element::U8, 258)[255..], [255.0, 0.0, 1.0]);
    }

    #[test]
    fn a_file_of_another_length_is_refused_with_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.bin");
        std::fs::write(&path, [7; 12]).expect("written");
        let read = |len| of(&Fill::Raw(path.clone()), &data(Element::F32, len), (1, 0), None);
        assert_eq!(read(3), Ok(vec![7; 12]));
        assert!(read(4).expect_err("too short").contains("has 12 bytes, buffer A has 16"));
        assert!(read(2).expect_err("too long").contains("into buffer A: it is larger than 8 B"));
    }
}
