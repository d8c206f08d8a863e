//! First contents of buffers: generated from a seed, or read from files.

use super::{Data, Element, npy};
use crate::algorithms::input::generator;
use crate::basis::input_file;
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What a buffer is filled with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Fill {
    /// The same value everywhere.
    Value(f64),
    /// 0, 1, 2, ….
    Iota,
    /// Uniform in [low, high); for integers in low..=high.
    Uniform { low: f64, high: f64 },
    /// Normal.
    Normal { mean: f64, deviation: f64 },
    /// A .npy file.
    Npy(PathBuf),
    /// The bytes of a file.
    Raw(PathBuf),
    /// The file that the command for inputs writes.
    Made,
}

impl Fill {
    /// The contents of `data`, buffer `stream` of the problem; `made` is the folder of the command for inputs.
    ///
    /// # Errors
    /// When a file cannot be read, or is of another type or shape.
    pub(super) fn contents(
        &self,
        data: &Data,
        (seed, stream): (u64, u64),
        folder: &Path,
        made: Option<&Path>,
    ) -> Result<Vec<u8>, String> {
        match self {
            Self::Npy(path) => npy::read(&folder.join(path), data),
            Self::Raw(path) => raw(&folder.join(path), data),
            Self::Made => {
                let made = made.ok_or_else(|| format!("buffer {}: no command makes it", data.name))?;
                npy::read(&made.join(format!("{}.npy", data.name)), data)
            }
            Self::Value(value) => Ok(repeated(data, |_| *value)),
            Self::Iota => Ok(repeated(data, |index| index as f64)),
            Self::Uniform { low, high } => {
                let mut draws = generator(seed, stream);
                let mut unit = || (draws.next_u64() >> 11) as f64 * 2f64.powi(-53);
                Ok(repeated(data, |_| uniform(data.element, (*low, *high), unit())))
            }
            Self::Normal { mean, deviation } => {
                let mut draws = generator(seed, stream);
                // The logarithm of 1 less a draw from [0, 1) is finite.
                let mut unit = || (draws.next_u64() >> 11) as f64 * 2f64.powi(-53);
                let mut normal = || (-2.0 * (1.0 - unit()).ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
                Ok(repeated(data, |_| mean + deviation * normal()))
            }
        }
    }
}

/// A value from a draw in [0, 1).
fn uniform(element: Element, (low, high): (f64, f64), draw: f64) -> f64 {
    if element.is_float() { low + (high - low) * draw } else { (low + ((high - low + 1.0) * draw).floor()).min(high) }
}

fn repeated(data: &Data, mut value: impl FnMut(u64) -> f64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(data.bytes() as usize);
    for index in 0..data.len() {
        data.element.write(value(index), &mut bytes);
    }
    bytes
}

/// The bytes of a file, as many as the buffer has.
fn raw(path: &Path, data: &Data) -> Result<Vec<u8>, String> {
    let (shown, most) = (path.display(), data.bytes());
    let bytes = input_file::read(path, most).map_err(|e| format!("cannot read '{shown}' into buffer {}: {e}", data.name))?;
    match bytes.len() as u64 {
        length if length == most => Ok(bytes),
        length => Err(format!("'{shown}' has {length} bytes, buffer {} has {most}; make them agree", data.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(element: Element, len: u64) -> Data {
        Data { name: "A".into(), element, shape: vec![len], fill: None, written: false, check: None }
    }

    fn values(fill: &Fill, element: Element, len: u64) -> Vec<f64> {
        let data = data(element, len);
        let bytes = fill.contents(&data, (1, 0), Path::new("."), None).expect("generated");
        assert_eq!(bytes.len() as u64, data.bytes());
        (0..len as usize).map(|i| element.read(&bytes, i)).collect()
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
        assert_eq!(values(&Fill::Value(1.5), Element::F16, 2), [1.5, 1.5]);
    }

    #[test]
    fn a_file_of_another_length_is_refused_with_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.bin");
        std::fs::write(&path, [7; 12]).expect("written");
        let read = |len| Fill::Raw("a.bin".into()).contents(&data(Element::F32, len), (1, 0), folder.path(), None);
        assert_eq!(read(3), Ok(vec![7; 12]));
        assert!(read(4).expect_err("too short").contains("has 12 bytes, buffer A has 16"));
        assert!(read(2).expect_err("too long").contains("into buffer A: it is larger than 8 B"));
    }
}
