//! Fills: contents of buffers before a run.

use super::array;
use super::expression::{Expression, Values};
use super::resolved::{Fill, ResolvedBuffer};
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::file_name::file_name;
use crate::basis::printable::brief;
use crate::basis::random::generator;
use rand::Rng;
use std::f64::consts::TAU;
use std::path::{Path, PathBuf};

/// Forms of a fill, for messages.
pub(crate) const FILL_FORMS: &str = "zero, a number, varied, mask, iota, normal, normal(mean, deviation), uniform(low, high), @x.npy, @x.bin or @x.bin.zst";

/// Parses a fill. File names are relative to `folder`, and their placeholders already replaced.
pub(crate) fn parse(text: &str, folder: &Path, scope: &Values) -> Result<Fill, String> {
    let text = text.trim();
    if let Some(name) = text.strip_prefix('@') {
        let fill = Fill::file(folder.join(name));
        return fill.ok_or_else(|| format!("fill '{text}' is no .npy, .bin or .bin.zst; name it after what it is"));
    }
    let known = ["zero", "iota", "varied", "mask", "normal", "uniform"];
    let (name, rest) = text.split_once('(').map_or((text, None), |(name, rest)| (name.trim(), Some(rest)));
    if !known.contains(&name) {
        // A single number fills the whole buffer.
        let is_unknown =
            |reason: &String| text.starts_with(|c: char| c.is_ascii_alphabetic()) && reason.contains("unknown");
        return constant(text, scope).map_err(|reason| match reason {
            reason if is_unknown(&reason) => {
                let question = error::meant(name, &known).map_or_else(String::new, |question| format!("{question} "));
                format!("unknown fill '{}'; {question}write {FILL_FORMS}", brief(name))
            }
            reason => reason,
        });
    }
    let mut numbers = vec![];
    if let Some(rest) = rest {
        let Some(arguments) = rest.strip_suffix(')') else {
            return Err(format!("fill '{text}' lacks a ')'; write {FILL_FORMS}"));
        };
        for argument in split(arguments) {
            numbers.push(evaluate_argument(argument, scope)?);
        }
    }
    match (name, numbers.as_slice()) {
        ("zero", []) => Ok(Fill::Zero),
        ("iota", []) => Ok(Fill::Iota),
        ("varied", []) => Ok(Fill::Varied),
        ("mask", []) => Ok(Fill::Mask),
        ("normal", []) => Ok(Fill::Normal { mean: 0.0, deviation: 1.0 }),
        ("normal", &[mean, deviation]) if deviation >= 0.0 => Ok(Fill::Normal { mean, deviation }),
        ("uniform", []) => Ok(Fill::Uniform { low: 0.0, high: 1.0 }),
        ("uniform", &[low, high]) if low <= high && (high - low).is_finite() => Ok(Fill::Uniform { low, high }),
        _ => Err(format!("fill '{text}' has the wrong arguments; write {FILL_FORMS}")),
    }
}

/// Parses the fill of a single number.
fn constant(text: &str, scope: &Values) -> Result<Fill, String> {
    let expression = Expression::parse(text)?;
    if let Some(integer) = integer_beyond_f64(&expression, scope) {
        return Ok(Fill::Whole { bits: integer as u64, negative: integer < 0 });
    }
    let value = expression.number(scope)?;
    Ok(Fill::Uniform { low: value, high: value })
}

/// Evaluates an expression to an integer that f64 cannot represent; `None` for other values.
fn integer_beyond_f64(expression: &Expression, scope: &Values) -> Option<i128> {
    expression.wide_value(scope).ok().filter(|integer| *integer as f64 as i128 != *integer)
}

/// Evaluates an argument of a random fill: a number that f64 represents, or a limit of an integer type, which its
/// nearest f64 stands for.
fn evaluate_argument(text: &str, scope: &Values) -> Result<f64, String> {
    let expression = Expression::parse(text)?;
    if let Some(integer) = integer_beyond_f64(&expression, scope)
        && integer != i64::MAX.into()
        && integer != u64::MAX.into()
    {
        // Rounded toward zero, the bound stays within 64 bits.
        let nearest = integer as f64;
        let is_beyond = nearest.abs() as u128 > integer.unsigned_abs();
        let inner = f64::from_bits(nearest.to_bits() - u64::from(is_beyond)) as i128;
        return Err(format!("expression '{text}' is {integer}, a bound that f64 does not have; use {inner}"));
    }
    expression.number(scope)
}

/// Splits a list at commas outside of parentheses.
pub fn split(list: &str) -> Vec<&str> {
    let mut parts = vec![];
    let mut start = 0;
    let mut depth = 0i32;
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
    /// Makes the fill of a file, according to its extension.
    pub fn file(path: PathBuf) -> Option<Self> {
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

    /// Returns the file of the fill.
    pub fn path(&self) -> Option<&Path> {
        // A new kind of fill has to be considered here: outputs must not overwrite its file.
        match self {
            Self::Npy(path) | Self::Raw(path) => Some(path),
            Self::Zero
            | Self::Iota
            | Self::Varied
            | Self::Mask
            | Self::Normal { .. }
            | Self::Uniform { .. }
            | Self::Whole { .. }
            | Self::Made
            | Self::Block(_) => None,
        }
    }

    /// Checks that a file or a constant fits a buffer, and that a uniform fill of integers has one to choose.
    pub fn check(&self, buffer: &ResolvedBuffer) -> Result<(), String> {
        let element = buffer.element;
        match self {
            Self::Npy(path) => buffer.check_array(path),
            Self::Raw(path) => array::check_raw(path, buffer.bytes()),
            Self::Whole { negative, bits } => match element {
                DType::U64 if !negative => Ok(()),
                DType::I64 if *negative || i64::try_from(*bits).is_ok() => Ok(()),
                _ => Err(format!("is {self}, which the buffer's type {element} does not have; use another")),
            },
            Self::Uniform { low, high } if element.is_integer() => {
                let [min, max] = integer_range(element);
                if (low.ceil() as i128).max(min) <= (high.floor() as i128).min(max) {
                    return Ok(());
                }
                let fill = if low == high { low.to_string() } else { self.to_string() };
                Err(format!("is {fill}, but {element} has integers from {min} to {max}"))
            }
            _ => Ok(()),
        }
    }
}

impl ResolvedBuffer {
    /// Generates the contents before a run: random ones from `seed` and `stream`, the index of the buffer, and those
    /// that a program wrote from `folder`.
    pub fn contents(&self, seed: u64, stream: u64, folder: &Path) -> Result<Vec<u8>, String> {
        let mut contents = self.own_contents(seed, stream, folder)?;
        for (number, part) in (1..).zip(&self.parts) {
            if part.fill.is_some() {
                part.scatter(&part.contents(seed, stream + (number << 32), folder)?, &mut contents);
            }
        }
        Ok(contents)
    }

    /// Generates the contents without those of members.
    fn own_contents(&self, seed: u64, stream: u64, folder: &Path) -> Result<Vec<u8>, String> {
        let element = self.element;
        let mut bytes = Vec::with_capacity(self.bytes() as usize);
        let mut random = generator(seed, stream);
        match &self.fill {
            None | Some(Fill::Zero) => bytes.resize(self.bytes() as usize, 0),
            Some(Fill::Iota) => (0..self.len()).for_each(|index| element.push(wrap_to(element, index), &mut bytes)),
            Some(Fill::Uniform { low, high }) => {
                // The 53 random bits of an f64 would leave some bits of wider integers constant.
                let is_wide = element.is_integer() && high - low >= 2f64.powi(53);
                for _ in 0..self.len() {
                    if is_wide {
                        push_wide_integer(element, *low, *high, &mut random, &mut bytes);
                    } else if element.is_float() {
                        element.push(low + random_unit(&mut random) * (high - low), &mut bytes);
                    } else {
                        let least = low.ceil();
                        let most = high.floor();
                        let steps = (random_unit(&mut random) * (most - least + 1.0)).floor();
                        // Rounding may give one step too many.
                        element.push((least + steps).min(most), &mut bytes);
                    }
                }
            }
            Some(Fill::Normal { mean, deviation }) => {
                for _ in 0..self.len() {
                    let value = mean + random_normal(*deviation, &mut random);
                    element.push(if element.is_float() { value } else { value.round() }, &mut bytes);
                }
            }
            Some(Fill::Whole { bits, .. }) => (0..self.len()).for_each(|_| bytes.extend(bits.to_le_bytes())),
            Some(Fill::Varied) => (0..self.len()).for_each(|_| push_varied(element, &mut random, &mut bytes)),
            Some(Fill::Mask) => push_mask(element, self.len(), &mut random, &mut bytes),
            Some(Fill::Block(block)) => bytes.extend(&block.bytes),
            Some(Fill::Npy(path)) => return self.read_array(path),
            Some(Fill::Raw(path)) => return array::read_raw(path, self.bytes()),
            Some(Fill::Made) => {
                let file = file_name(&self.name);
                let npy = folder.join(format!("{file}.npy"));
                let raw = folder.join(format!("{file}.bin"));
                if npy.is_file() {
                    return self.read_array(&npy);
                }
                if raw.is_file() {
                    return array::read_raw(&raw, self.bytes());
                }
                let field = format!("buffer.{}.fill", self.name);
                return Err(format!("neither {file}.npy nor {file}.bin is in {{out}}; write one, or state {field}"));
            }
        }
        Ok(bytes)
    }
}

/// Distance between neighbors among the numbers that [`random_unit`] returns: 53 bits, as in the mantissa of f64.
const UNIT_STEP: f64 = 1.0 / (1u64 << 53) as f64;

/// Returns a uniform random number from 0 up to, but without, 1.
fn random_unit(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 * UNIT_STEP
}

/// Returns a normal random number of mean 0 (Box and Muller, 1958).
fn random_normal(deviation: f64, random: &mut impl Rng) -> f64 {
    // Half a step keeps the first number from being 0, which has no logarithm.
    let first = random_unit(random) + UNIT_STEP / 2.0;
    let second = random_unit(random) + UNIT_STEP / 2.0;
    deviation * (-2.0 * first.ln()).sqrt() * (TAU * second).cos()
}

/// Returns the least and the greatest value of an integer type.
fn integer_range(element: DType) -> [i128; 2] {
    let bits = 8 * element.bytes();
    if element.is_signed_integer() { [-1 << (bits - 1), (1 << (bits - 1)) - 1] } else { [0, (1 << bits) - 1] }
}

/// Appends a uniform random integer of a range of 2^53 or more, by scaling 64 random bits to its width.
fn push_wide_integer(element: DType, low: f64, high: f64, random: &mut impl Rng, bytes: &mut Vec<u8>) {
    let [min, max] = integer_range(element);
    let low = (low.ceil() as i128).clamp(min, max);
    let high = (high.floor() as i128).clamp(min, max);
    let width = (high - low) as u128 + 1;
    let value = low + ((u128::from(random.next_u64()) * width) >> 64) as i128;
    if element.bytes() == 8 {
        bytes.extend((value as u64).to_le_bytes());
    } else {
        element.push(value as f64, bytes);
    }
}

/// Least binary exponent of varied floats.
const LEAST_EXPONENT: i32 = -6;

/// Number of exponents of varied floats, for magnitudes from 2^-6 to 8: these reach the saturation of common functions,
/// and their products, sums and exponentials stay within f16.
const EXPONENT_COUNT: u64 = 9;

/// Reciprocal of the share of zeros among varied integers: masks need both values, and keys need duplicates.
const ELEMENTS_PER_ZERO: u64 = 8;

/// Values that a stretch of [`Fill::Mask`] has, and how many of 64 are the other one.
const MASK_STRETCHES: [(u64, u64); 6] = [(0, 32), (0, 0), (1, 32), (1, 0), (0, 1), (1, 1)];

/// Appends the `count` values of [`Fill::Mask`], in stretches of 16 to 2048 values. With coin flips alone, no segment between
/// two flags would span work-groups.
fn push_mask(element: DType, count: u64, random: &mut impl Rng, bytes: &mut Vec<u8>) {
    let mut left = count;
    for (value, others) in MASK_STRETCHES.into_iter().cycle() {
        let length = (16 << (random.next_u64() % 8)).min(left);
        for _ in 0..length {
            let is_other = random.next_u64() >> 58 < others;
            element.push((value ^ u64::from(is_other)) as f64, bytes);
        }
        left -= length;
        if left == 0 {
            return;
        }
    }
}

/// Appends a value of [`Fill::Varied`].
fn push_varied(element: DType, random: &mut impl Rng, bytes: &mut Vec<u8>) {
    let size = element.bytes() as usize;
    if element.is_integer() {
        return bytes.extend(&varied_integer(8 * element.bytes(), random).to_le_bytes()[..size]);
    }
    let start = bytes.len();
    // Neighbors must differ, or a kernel that reads the wrong one would be right by chance.
    loop {
        element.push(varied_float(random), bytes);
        if start < size || bytes[start..] != bytes[start - size..start] {
            return;
        }
        bytes.truncate(start);
    }
}

/// Returns an integer in the low `width` bits of the result: one in eight is zero, one in eight has a random number of
/// high bits cleared, to cover small magnitudes, and the others have all bits random.
fn varied_integer(width: u64, random: &mut impl Rng) -> u64 {
    match random.next_u64() % ELEMENTS_PER_ZERO {
        0 => 0,
        1 => random.next_u64() >> (random.next_u64() % width + 64 - width),
        _ => random.next_u64(),
    }
}

/// Returns a float made of 64 random bits. Bit 0 is the sign, and bits 11 to 63 are the fraction of a mantissa between 1
/// and 2. The exponent is a remainder of bits 1 to 63. Ten of these are not in the mantissa, so the two are independent.
fn varied_float(random: &mut impl Rng) -> f64 {
    let bits = random.next_u64();
    let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
    let exponent = ((bits >> 1) % EXPONENT_COUNT) as i32 + LEAST_EXPONENT;
    let mantissa = 1.0 + (bits >> 11) as f64 * UNIT_STEP;
    sign * mantissa * 2f64.powi(exponent)
}

/// Wraps a number to the range of an integer type of up to 32 bits.
fn wrap_to(element: DType, number: u64) -> f64 {
    let bits = 8 * element.bytes();
    if element.is_float() || bits == 64 {
        return number as f64;
    }
    let value = number & ((1 << bits) - 1);
    let is_negative = element.is_signed_integer() && value >> (bits - 1) == 1;
    if is_negative { value as f64 - 2f64.powi(bits as i32) } else { value as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::buffer::Role;

    #[test]
    fn iota_wraps_with_its_type() {
        assert_eq!([DType::I8, DType::U8, DType::F32].map(|element| wrap_to(element, 200)), [-56.0, 200.0, 200.0]);
        assert_eq!(
            [DType::I32, DType::U32].map(|element| wrap_to(element, 1 << 31)),
            [-2_147_483_648.0, 2_147_483_648.0]
        );
        assert_eq!([DType::I64, DType::U64].map(|element| wrap_to(element, 1 << 31)), [2_147_483_648.0; 2]);
        assert_eq!([DType::I64, DType::U64].map(|element| wrap_to(element, 1 << 40)), [2f64.powi(40); 2]);
    }

    fn bytes(element: DType, fill: &str, len: u64) -> Vec<u8> {
        let fill = Some(parse(fill, Path::new(""), &Values::default()).expect("a fill"));
        let buffer = ResolvedBuffer { fill, ..ResolvedBuffer::new("A", element, vec![len], Role::Input) };
        let bytes = buffer.contents(1, 0, Path::new("")).expect("bytes");
        assert_eq!(bytes.len() as u64, buffer.bytes());
        bytes
    }

    fn values(element: DType, fill: &str, len: u64) -> Vec<f64> {
        let bytes = bytes(element, fill, len);
        bytes.chunks_exact(element.bytes() as usize).map(|bytes| element.value(bytes)).collect()
    }

    #[test]
    fn fills_have_the_stated_distribution() {
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
    fn varied_fills_cover_their_type() {
        const LEN: u64 = 1 << 14;
        for element in DType::OF_BUFFERS {
            let size = element.bytes() as usize;
            let contents = bytes(element, "varied", LEN);
            let elements: Vec<&[u8]> = contents.chunks_exact(size).collect();
            let mask = values(element, "mask", LEN);
            for kind in [0.0, 1.0] {
                let runs = || mask.chunk_by(|a, b| a == b).filter(|run| run[0] == kind).map(<[f64]>::len);
                let total: usize = runs().sum();
                let [short, long] = [runs().filter(|length| *length < 4).count(), runs().max().unwrap_or(0)];
                let is_mixed = total > LEN as usize / 5 && short > 100 && long >= 512;
                assert!(is_mixed, "{element}: {total} of {kind}, {short} short runs, one of {long}");
            }
            if element.is_float() {
                let values = values(element, "varied", LEN);
                assert!(values.windows(2).all(|pair| pair[0] != pair[1]), "{element}");
                for (sign, exponent) in (-6..=0).flat_map(|exponent| [(-1.0, exponent), (1.0, exponent)]) {
                    let range = 2f64.powi(exponent)..2f64.powi(exponent + 1);
                    let count = values.iter().filter(|value| range.contains(&(sign * **value))).count();
                    assert!(count > 500, "{element}: {count} of {sign} 2^{exponent}");
                }
            } else {
                let zeros = elements.iter().filter(|bytes| bytes.iter().all(|byte| *byte == 0)).count();
                assert!((1000..4000).contains(&zeros), "{element}: {zeros}");
                for bit in 0..8 * size {
                    let set = elements.iter().filter(|bytes| bytes[bit / 8] >> (bit % 8) & 1 == 1).count();
                    assert!((LEN as usize / 3..LEN as usize / 2).contains(&set), "{element}: bit {bit}: {set}");
                }
            }
        }
    }

    #[test]
    fn integers_of_64_bits_are_exact() {
        let first = |element: DType, fill: &str| u64::from_le_bytes(bytes(element, fill, 1).try_into().expect("eight"));
        assert_eq!(first(DType::U64, "0xFFFFFFFFFFFFFFFF"), u64::MAX);
        assert_eq!(first(DType::U64, "9007199254740993"), 9_007_199_254_740_993);
        assert_eq!(first(DType::I64, "-2^53 - 1").cast_signed(), -9_007_199_254_740_993);
        for (element, range) in [
            (DType::U64, "uniform(0, 18446744073709551615)"),
            (DType::I64, "uniform(-9223372036854775808, 9223372036854775807)"),
        ] {
            let contents = bytes(element, range, 4096);
            for bit in 0..64 {
                let set = contents.chunks_exact(8).filter(|bytes| bytes[bit / 8] >> (bit % 8) & 1 == 1).count();
                assert!((1800..2300).contains(&set), "{element}: bit {bit}: {set}");
            }
        }
        let checked = |fill: &str, element| {
            parse(fill, Path::new(""), &Values::default()).and_then(|fill: Fill| {
                let buffer = ResolvedBuffer::new("A", element, vec![1], Role::Input);
                fill.check(&buffer)
            })
        };
        assert_eq!(checked("0xFFFFFFFFFFFFFFFF", DType::U64), Ok(()));
        for element in [DType::I64, DType::F64, DType::U32] {
            let refused = checked("0xFFFFFFFFFFFFFFFF", element).expect_err("too large");
            let buffers = format!("which the buffer's type {element} does not have; use another");
            assert_eq!(refused, format!("is 18446744073709551615, {buffers}"));
        }
        let refused = checked("uniform(0, 9007199254740993)", DType::U64).expect_err("no bound of f64");
        let expected = "is 9007199254740993, a bound that f64 does not have; use 9007199254740992";
        assert_eq!(refused, format!("expression '9007199254740993' {expected}"));
        let refused = checked("uniform(0, 18446744073709551614)", DType::U64).expect_err("no bound of f64");
        assert!(refused.ends_with("use 18446744073709549568"), "{refused}");
        for (fill, element, range) in [
            ("256", DType::U8, "0 to 255"),
            ("-1", DType::U64, "0 to 18446744073709551615"),
            ("2^64", DType::U64, "0 to 18446744073709551615"),
            ("2^63", DType::I64, "-9223372036854775808 to 9223372036854775807"),
            ("0.5", DType::I32, "-2147483648 to 2147483647"),
            ("uniform(0.2, 0.8)", DType::U8, "0 to 255"),
        ] {
            let refused = checked(fill, element).expect_err(fill);
            assert!(refused.ends_with(&format!("but {element} has integers from {range}")), "{refused}");
        }
        assert_eq!(first(DType::U64, "(2^63 + 1) * 1"), (1 << 63) + 1);
        assert_eq!(first(DType::U64, "max(2^64 - 1, 3)"), u64::MAX);
        let fill = parse("-9007199254740993", Path::new(""), &Values::default()).expect("a fill");
        let sent = serde_json::to_string(&fill).expect("JSON");
        assert_eq!(serde_json::from_str::<Fill>(&sent).expect("a fill"), fill);
    }

    #[test]
    fn fills_take_expressions_and_malformed_ones_are_refused() {
        let scope = Values::of(&["K".into()], &[16]);
        let parsed = |text: &str| parse(text, Path::new("f"), &scope);
        assert_eq!(parsed("uniform(-1/sqrt(K), min(K, 1))"), Ok(Fill::Uniform { low: -0.25, high: 1.0 }));
        assert_eq!(parsed("K + 1"), Ok(Fill::Uniform { low: 17.0, high: 17.0 }));
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
