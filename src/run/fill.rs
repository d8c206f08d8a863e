//! What buffers hold before a run: how it is written, and the bytes.

use super::array;
use super::expression::{Expression, Values};
use super::resolved::{Buffer, Fill};
use crate::algorithms::input::generator;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::file_name::file_name;
use rand::Rng;
use std::f64::consts::TAU;
use std::path::{Path, PathBuf};

/// How a fill is written, for messages.
pub(crate) const FORMS: &str =
    "zero, a number, iota, normal, normal(mean, deviation), uniform(low, high), @x.npy, @x.bin or @x.bin.zst";

/// Understands a fill; file names are relative to `folder` and have their placeholders replaced already.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &str, folder: &Path, scope: &Values) -> Result<Fill, String> {
    let text = text.trim();
    if let Some(name) = text.strip_prefix('@') {
        let neither = || format!("fill '{text}' is no .npy, .bin or .bin.zst; name it after what it is");
        return Fill::file(folder.join(name)).ok_or_else(neither);
    }
    let (name, arguments) = match text.split_once('(') {
        None => (text, vec![]),
        Some((name, rest)) => {
            let inner = rest.strip_suffix(')').ok_or_else(|| format!("fill '{text}' lacks a ')'; write {FORMS}"))?;
            (name.trim(), split(inner))
        }
    };
    let numbers = arguments.iter().map(|text| Expression::parse(text)?.number(scope)).collect::<Result<Vec<_>, _>>()?;
    match (name, numbers.as_slice()) {
        ("zero", []) => Ok(Fill::Zero),
        ("iota", []) => Ok(Fill::Iota),
        ("normal", []) => Ok(Fill::Normal { mean: 0.0, deviation: 1.0 }),
        ("normal", &[mean, deviation]) if deviation >= 0.0 => Ok(Fill::Normal { mean, deviation }),
        ("uniform", []) => Ok(Fill::Uniform { low: 0.0, high: 1.0 }),
        ("uniform", &[low, high]) if low <= high && (high - low).is_finite() => Ok(Fill::Uniform { low, high }),
        ("normal" | "uniform" | "zero" | "iota", _) => {
            Err(format!("fill '{text}' has the wrong arguments; write {FORMS}"))
        }
        // A number is all of them.
        _ if !text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            let value = Expression::parse(text)?.number(scope)?;
            Ok(Fill::Uniform { low: value, high: value })
        }
        _ => {
            Err(format!("{}; write {FORMS}", error::unknown("fill", name, "", &["zero", "iota", "normal", "uniform"])))
        }
    }
}

/// The parts between commas that are in no parentheses.
pub(crate) fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (vec![], 0, 0i32);
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    parts
}

impl Fill {
    /// The contents of a file, by its ending.
    pub(crate) fn file(path: PathBuf) -> Option<Self> {
        match path.extension()?.to_str()? {
            "npy" => Some(Self::Npy(path)),
            "bin" => Some(Self::Raw(path)),
            array::COMPRESSED => {
                let inner = Path::new(path.file_stem()?).extension()?;
                (inner == "bin").then_some(Self::Raw(path))
            }
            _ => None,
        }
    }

    /// The file that it is read from.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Npy(path) | Self::Raw(path) => Some(path),
            Self::Zero | Self::Iota | Self::Normal { .. } | Self::Uniform { .. } | Self::Made | Self::Block { .. } => {
                None
            }
        }
    }

    /// Checks that a file, where it is one, fits a buffer.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn check(&self, element: DType, shape: &[u64]) -> Result<(), String> {
        match self {
            Self::Npy(path) => array::check(path, element, shape),
            Self::Raw(path) => array::check_raw(path, shape.iter().product::<u64>() * element.bytes()),
            _ => Ok(()),
        }
    }
}

impl Buffer {
    /// The bytes that it holds before a run: random ones by `seed` and `stream`, the place of the buffer, and those that
    /// a program made from `folder`.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn contents(&self, seed: u64, stream: u64, folder: &Path) -> Result<Vec<u8>, String> {
        let (element, len) = (self.element, self.len() as usize);
        let mut bytes = Vec::with_capacity(self.bytes() as usize);
        let mut random = generator(seed, stream);
        match &self.fill {
            None | Some(Fill::Zero) => bytes.resize(self.bytes() as usize, 0),
            Some(Fill::Iota) => (0..len).for_each(|at| {
                element.push(counted(element, at as u64), &mut bytes);
            }),
            Some(Fill::Uniform { low, high }) => (0..len).for_each(|_| {
                let unit = (random.next_u64() >> 11) as f64 * 2f64.powi(-53);
                let value = if element.is_float() {
                    low + unit * (high - low)
                } else {
                    (low.ceil() + (unit * (high.floor() - low.ceil() + 1.0)).floor()).min(high.floor())
                };
                element.push(value, &mut bytes);
            }),
            Some(Fill::Normal { mean, deviation }) => (0..len).for_each(|_| {
                // Box and Muller, 1958: of two uniform numbers, the first above zero.
                let [first, second] = [0, 1].map(|_| ((random.next_u64() >> 11) as f64 + 0.5) * 2f64.powi(-53));
                let value = mean + deviation * (-2.0 * first.ln()).sqrt() * (TAU * second).cos();
                element.push(if element.is_float() { value } else { value.round() }, &mut bytes);
            }),
            Some(Fill::Block { bytes: block, .. }) => bytes.extend(block),
            Some(Fill::Npy(path)) => return array::read(path, element, &self.shape),
            Some(Fill::Raw(path)) => return array::read_raw(path, self.bytes()),
            Some(Fill::Made) => {
                let file = file_name(&self.name);
                let [npy, raw] = ["npy", "bin"].map(|ending| folder.join(format!("{file}.{ending}")));
                return match (npy.is_file(), raw.is_file()) {
                    (true, _) => array::read(&npy, element, &self.shape),
                    (false, true) => array::read_raw(&raw, self.bytes()),
                    (false, false) => Err(format!(
                        "neither {file}.npy nor {file}.bin is in {{out}}; write one, or state buffer.{}.fill",
                        self.name
                    )),
                };
            }
        }
        Ok(bytes)
    }
}

/// The element `at` of those that count from 0. Integers wrap, as counting in them does.
fn counted(element: DType, at: u64) -> f64 {
    let bits = 8 * element.bytes();
    if element.is_float() || bits == 64 {
        return at as f64;
    }
    let value = at & ((1 << bits) - 1);
    let negative = element.is_signed_integer() && value >> (bits - 1) == 1;
    value as f64 - if negative { 2f64.powi(bits as i32) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::buffer::Role;
    use crate::run::resolved::Tolerance;

    #[test]
    fn counting_wraps_where_the_type_does() {
        assert_eq!([DType::I8, DType::U8, DType::F32].map(|of| counted(of, 200)), [-56.0, 200.0, 200.0]);
        assert_eq!([DType::I32, DType::U32].map(|of| counted(of, 1 << 31)), [-2_147_483_648.0, 2_147_483_648.0]);
        assert_eq!([DType::I64, DType::U64].map(|of| counted(of, 1 << 31)), [2_147_483_648.0; 2]);
        assert_eq!([DType::I64, DType::U64].map(|of| counted(of, 1 << 40)), [2f64.powi(40); 2]);
    }

    fn values(element: DType, fill: &str, len: u64) -> Vec<f64> {
        let fill = Some(parse(fill, Path::new(""), &Values::default()).expect("a fill"));
        let tolerance = Tolerance::Exact;
        let buffer =
            Buffer { name: "A".into(), element, shape: vec![len], role: Role::Input, fill, tolerance, checked: true };
        let bytes = buffer.contents(1, 0, Path::new("")).expect("bytes");
        assert_eq!(bytes.len() as u64, buffer.bytes());
        bytes.chunks_exact(element.bytes() as usize).map(|bytes| element.value(bytes)).collect()
    }

    #[test]
    fn fills_have_the_figures_that_they_state() {
        assert_eq!(values(DType::F16, "iota", 4), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(values(DType::U8, "iota", 258)[255..], [255.0, 0.0, 1.0]);
        assert_eq!(values(DType::I8, "iota", 130)[127..], [127.0, -128.0, -127.0]);
        assert_eq!(values(DType::I64, "zero", 2), [0.0, 0.0]);
        for element in DType::OF_BUFFERS.into_iter().filter(|element| element.is_float()) {
            let even = values(element, "uniform(-1, 3)", 10_000);
            assert!(even.iter().all(|value| (-1.0..=3.0).contains(value)), "{element}");
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            assert!((mean(&even) - 1.0).abs() < 0.05, "{element}: {}", mean(&even));
            let normal = values(element, "normal(2, 0.5)", 10_000);
            assert!((mean(&normal) - 2.0).abs() < 0.02, "{element}: {}", mean(&normal));
            let squares: Vec<f64> = normal.iter().map(|value| (value - 2.0).powi(2)).collect();
            assert!((mean(&squares) - 0.25).abs() < 0.02, "{element}: {}", mean(&squares));
        }
        let dice = values(DType::I32, "uniform(1, 6)", 6000);
        for side in 1..=6 {
            let count = dice.iter().filter(|value| **value == f64::from(side)).count();
            assert!((800..1200).contains(&count), "{side}: {count}");
        }
    }

    #[test]
    fn figures_may_be_expressions_of_axes_and_what_is_no_fill_is_refused() {
        let scope = Values::of(&["K".into()], &[16]);
        let parsed = |text: &str| parse(text, Path::new("f"), &scope);
        assert_eq!(parsed("uniform(-1/sqrt(K), min(K, 1))"), Ok(Fill::Uniform { low: -0.25, high: 1.0 }));
        assert_eq!(parsed("@x.npy"), Ok(Fill::Npy("f/x.npy".into())));
        for (text, expected) in [
            ("unifrom(0,1)", "did you mean 'uniform'?"),
            ("uniform(1,0)", "the wrong arguments"),
            ("normal(0,-1)", "the wrong arguments"),
            ("zero(1)", "the wrong arguments"),
            ("uniform(0,1", "lacks a ')'"),
            ("uniform(0,N)", "unknown name 'N'"),
            ("@x.txt", "is no .npy, .bin or .bin.zst"),
            ("@x.zst", "is no .npy, .bin or .bin.zst"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
