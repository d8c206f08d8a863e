//! Oracles of users' kernels: compare outputs with a reference, element by element.

use super::algorithm::Save;
use super::array::{integer, subscripts};
use super::member_map::ByteKind;
use super::resolved::{ResolvedBuffer, Tolerance};
use crate::algorithms::{Oracle, OutputComparison};
use crate::basis::destination::Destination;
use crate::basis::dtype::{DType, HostArray};
use crate::basis::printable::Shown;
use crate::basis::units;
use crate::case::check::{ANSWER_DIFFERS, CheckMethod, CheckResult, WrongElement, WrongElements};
use crate::kernel::buffer::FILLER;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::ops::Range;

/// Correct contents of an output, or contents of an input that an output holds indices of.
pub(super) struct ReferenceData {
    /// Index of an output among the outputs, of an input among all buffers.
    pub(super) index: usize,
    pub(super) buffer: ResolvedBuffer,
    pub(super) bytes: Vec<u8>,
}

/// Oracle of a problem. If there are no outputs to compare, the built-in algorithm's oracle judges; without that, every
/// result passes as unverified.
#[derive(Default)]
pub(super) struct UserOracle {
    /// All outputs of the problem.
    pub(super) all: Vec<ResolvedBuffer>,
    /// Outputs that are compared.
    pub(super) outputs: Vec<ReferenceData>,
    /// Whether nothing verified the reference.
    pub(super) unverified: bool,
    /// Names of outputs without a reference.
    pub(super) unknown: Vec<String>,
    /// Inputs that outputs hold indices of.
    pub(super) keys: Vec<ReferenceData>,
    /// Notes about parts of the reference that are not compared.
    pub(super) notes: Vec<String>,
    pub(super) builtin: Option<Box<dyn Oracle>>,
    pub(super) saves: Vec<Save>,
}

/// Returns a note if the reference has numbers where the kernels' structures have padding, which is not compared. The
/// padding of a filled buffer may hold the fill.
fn padding_note(ReferenceData { buffer, bytes, .. }: &ReferenceData) -> Option<String> {
    let size = buffer.element.bytes() as usize;
    if buffer.fill.is_some() || buffer.members.is_plain() {
        return None;
    }
    let is_padding_number = |(index, element): &(usize, &[u8])| {
        let is_number = element.iter().any(|byte| *byte != 0) && !is_filler(element);
        is_number && buffer.members.kind(*index, size) == ByteKind::Padding
    };
    let mut numbers = bytes.chunks_exact(size).enumerate().filter(is_padding_number);
    let (first, element) = numbers.next()?;
    let value = shown(buffer.element, element);
    let place = element_name(buffer, first);
    let others = match numbers.count() {
        0 => String::new(),
        others => format!("and numbers in {}, ", units::counted(others, "other element")),
    };
    Some(format!(
        "{}: not compared: the reference has {value} in {place}, {others}which no member of the kernel's structure covers; \
         is one missing?",
        buffer.name
    ))
}

impl UserOracle {
    /// Splits answers into members, sets other padding to zero, and fits the default tolerances. Refuses an answer that
    /// is all NaN.
    pub(super) fn new(outputs: Vec<ReferenceData>) -> Result<Self, String> {
        let mut notes: Vec<String> = vec![];
        let mut outputs: Vec<ReferenceData> = outputs.into_iter().flat_map(ReferenceData::views).collect();
        for output in &mut outputs {
            notes.extend(padding_note(output));
            let ReferenceData { buffer, bytes, .. } = output;
            *bytes = buffer.members.without_padding(bytes).into_owned();
            if let Some(description) = non_finite(buffer, bytes)
                && values(buffer.element, bytes).all(f64::is_nan)
            {
                return Err(format!("the reference is not an answer: {description}; fix it, or its inputs"));
            }
            fit_tolerance(buffer, bytes);
        }
        let buffers = outputs.iter().map(|output| &output.buffer);
        let mut sets = buffers.filter(|buffer| buffer.tolerance == Tolerance::Set);
        if let Some(first) = sets.next()
            && let Some(other) = sets.find(|other| other.shape.first() == first.shape.first())
        {
            notes.push(format!(
                "{} and {} are sets: which of their rows belong together is not compared; write both into one buffer of \
                 rows if it matters",
                first.name, other.name
            ));
        }
        Ok(Self { outputs, notes, ..Self::default() })
    }

    /// Returns an output that is compared as a whole, not member by member.
    fn output(&self, index: usize) -> Option<&ReferenceData> {
        self.views(index).next().filter(|output| output.buffer.places.is_none())
    }

    /// Iterates over an output's members, or the output itself if it has none.
    fn views(&self, index: usize) -> impl Iterator<Item = &ReferenceData> {
        self.outputs.iter().filter(move |output| output.index == index)
    }

    /// Names an element of an output that nothing is compared with.
    fn element_without_reference(&self, output: usize, index: usize) -> Option<String> {
        let buffer = self.all.get(output).filter(|_| self.views(output).next().is_none())?;
        if buffer.parts.is_empty() {
            return Some(element_name(buffer, index));
        }
        buffer.parts.iter().find_map(|part| Some(element_name(part, part.index_of_byte(index)?)))
    }

    /// Compares the bytes of an output as its tolerance says.
    fn check_output(&self, output: &ReferenceData, found: &[u8]) -> CheckResult {
        let found = output.buffer.gather(found);
        let found = &*output.buffer.members.without_padding(&found);
        match &output.buffer.tolerance {
            Tolerance::Set => output.compare_rows(found),
            Tolerance::Picks(input) => output.compare_picks(found, self.keys.iter().find(|keys| keys.index == *input)),
            Tolerance::Moments { mean, deviation } => check_moments(&output.buffer, found, *mean, *deviation),
            _ => output.compare(found),
        }
    }
}

/// Iterates over the elements of a buffer, converted to f64.
pub fn values(element: DType, contents: &[u8]) -> impl ExactSizeIterator<Item = f64> {
    contents.chunks_exact(element.bytes() as usize).map(move |bytes| element.value(bytes))
}

/// Most values that are sampled to find a magnitude.
const MAX_SAMPLED: usize = 1 << 20;

/// Ratio to the default `rtol` up to which an error, as a share of the largest element, may be that of rounding.
const CANCELLATION_RATIO: f64 = 0.1;

/// Ratio to the first quartile of the distinct magnitudes above which a value is an outlier: normally distributed
/// values have none, most other distributions few.
const OUTLIER_RATIO: f64 = 16.0;

/// Returns the largest magnitude of finite values other than 0, except outliers such as sentinels and masks. Equal
/// values count once, so that a frequent sentinel is an outlier too.
pub fn magnitude(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let step = values.len().div_ceil(MAX_SAMPLED).max(1);
    let sampled = values.step_by(step).map(f64::abs);
    let mut distinct: Vec<f64> = sampled.filter(|value| *value > 0.0 && value.is_finite()).collect();
    distinct.sort_unstable_by(f64::total_cmp);
    distinct.dedup();
    let Some(quartile) = distinct.get(distinct.len().saturating_sub(1) / 4) else { return 0.0 };
    let usual = distinct.partition_point(|value| *value <= OUTLIER_RATIO * quartile);
    distinct[..usual].last().copied().unwrap_or(0.0)
}

/// Most columns of the last extent that get separate magnitudes.
const MAX_COLUMNS: usize = 16;

/// Returns the magnitude of each column; `None` if there are too many columns, or all have similar magnitudes.
pub fn magnitudes(element: DType, contents: &[u8], columns: usize) -> Option<Vec<f64>> {
    let size = element.bytes() as usize;
    if !(2..=MAX_COLUMNS).contains(&columns) {
        return None;
    }
    let mut magnitudes = vec![];
    for column in 0..columns {
        let rows = contents.chunks_exact(columns * size);
        magnitudes.push(magnitude(rows.map(|row| element.value(&row[column * size..]))));
    }
    let nonzero = magnitudes.iter().copied().filter(|magnitude| *magnitude > 0.0);
    let smallest = nonzero.clone().fold(f64::INFINITY, f64::min);
    let largest = nonzero.fold(0.0, f64::max);
    (largest > OUTLIER_RATIO * smallest).then_some(magnitudes)
}

/// Lowers the default absolute tolerance where the reference is small, in a column or everywhere, so that zeros fail.
fn fit_tolerance(buffer: &mut ResolvedBuffer, answer: &[u8]) {
    let Tolerance::Close { rtol, atol } = buffer.tolerance else { return };
    if buffer.checked {
        return;
    }
    // Devices may flush smaller numbers to 0. Those of f16 are large enough to be an answer.
    let smallest = match buffer.element {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F32 | DType::Bf16 => f32::MIN_POSITIVE.into(),
        _ => 0.0,
    };
    let lowered = |magnitude: f64| if magnitude > 0.0 { atol.min((rtol * magnitude).max(smallest)) } else { atol };
    buffer.tolerance = match magnitudes(buffer.element, answer, columns(buffer)) {
        Some(magnitudes) => Tolerance::Columns { rtol, atol: magnitudes.into_iter().map(lowered).collect() },
        None => Tolerance::Close { rtol, atol: lowered(magnitude(values(buffer.element, answer))) },
    };
}

/// Returns the elements per row: the last of several extents, or the size of the structure that the kernels declare.
fn columns(buffer: &ResolvedBuffer) -> usize {
    let columns = match buffer.shape[..] {
        [_, .., last] => Some(last as usize),
        _ => buffer.members.period(buffer.element.bytes() as usize),
    };
    // The buffer may be longer than a whole number of structures.
    columns.filter(|columns| (1..=buffer.len() as usize).contains(columns)).unwrap_or(1)
}

impl Oracle for UserOracle {
    fn save(&self, outputs: &[HostArray]) -> Result<(), String> {
        for Save { buffer: name, path } in &self.saves {
            let mut saved = self
                .all
                .iter()
                .zip(outputs)
                .flat_map(|(buffer, found)| buffer.with_members().map(move |view| (view, found.as_bytes())));
            let Some((buffer, found)) = saved.find(|(buffer, _)| buffer.name == *name) else { continue };
            // Written to a temporary file first: an earlier result stays until the new one is complete.
            let contents = |file: &mut File| match path.extension() {
                Some(ending) if ending == "bin" => file.write_all(&buffer.gather(found)),
                _ => buffer.write_array(file, found),
            };
            let written = Destination::open(path).and_then(|destination| destination.write_by(contents));
            written.map_err(|e| format!("cannot write {name} to '{}': {e}", path.shown()))?;
        }
        Ok(())
    }

    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String> {
        if let Some(builtin) = &self.builtin {
            return builtin.check(outputs);
        }
        let checks: Vec<_> =
            self.outputs.iter().map(|output| self.check_output(output, outputs[output.index].as_bytes())).collect();
        // All outputs count, not only the worst.
        let mut wrong = WrongElements::default();
        checks.iter().filter(|check| !check.passes()).for_each(|check| wrong.append(check.wrong.clone()));
        // The worst check counts. NaN, from 0/0, is the largest residual.
        let relative_residual = |check: &CheckResult| match check.tolerance {
            tolerance if tolerance > 0.0 => check.residual / tolerance,
            _ => check.residual,
        };
        let worst = checks
            .into_iter()
            .max_by(|a, b| b.passes().cmp(&a.passes()).then(relative_residual(a).total_cmp(&relative_residual(b))));
        let worst = worst.unwrap_or_else(|| elementwise(0.0, 0.0, String::new(), WrongElements::default()));
        let mut check = CheckResult { wrong, ..worst };
        if self.unverified && !check.passes() {
            check.worst = format!("{ANSWER_DIFFERS} the reference's, which nothing verified: {}", check.worst);
        }
        Ok(check)
    }

    fn doubts(&self, outputs: &[HostArray]) -> Vec<String> {
        if self.outputs.is_empty() && self.builtin.is_none() {
            let mut doubts = vec!["there is no reference".to_string()];
            for (buffer, found) in self.all.iter().zip(outputs) {
                for view in buffer.views() {
                    let found = view.gather(found.as_bytes());
                    doubts.extend(non_finite(view, &view.members.without_padding(&found)));
                }
            }
            return doubts;
        }
        if self.unverified {
            return vec!["nothing verified the reference".into()];
        }
        let unknown =
            (!self.unknown.is_empty()).then(|| format!("there is no reference for {}", self.unknown.join(", ")));
        unknown.into_iter().collect()
    }

    fn in_order<'a>(&self, outputs: &'a [HostArray]) -> Cow<'a, [HostArray]> {
        let mut ordered = Cow::Borrowed(outputs);
        for (output, buffer) in self.all.iter().enumerate() {
            for view in buffer.views().filter(|view| view.tolerance == Tolerance::Set) {
                let found = view.gather(outputs[output].as_bytes());
                let found = view.members.without_padding(&found);
                let rows: Vec<_> = sorted_rows(view, &found).into_iter().map(|(_, row)| row).collect();
                view.scatter(&rows.concat(), ordered.to_mut()[output].as_bytes_mut());
            }
        }
        ordered
    }

    fn element(&self, output: usize, index: usize) -> Option<String> {
        let Some(ReferenceData { buffer, .. }) = self.output(output) else {
            let mut indices = self.views(output).map(|view| (&view.buffer, view.buffer.index_of_byte(index)));
            let viewed = indices.find_map(|(view, index)| Some(element_name(view, index?)));
            return viewed.or_else(|| self.element_without_reference(output, index));
        };
        let is_padding = buffer.members.kind(index, buffer.element.bytes() as usize) == ByteKind::Padding;
        (!is_padding).then(|| element_name(buffer, index))
    }

    fn notes(&self) -> Vec<String> {
        let notes = self.outputs.iter().flat_map(|output| [integers_note(output), nan_note(output)]).flatten();
        notes.chain(self.notes.iter().cloned()).collect()
    }

    fn comparison(&self, output: usize) -> Option<OutputComparison> {
        if self.outputs.is_empty() {
            return Some(OutputComparison::default());
        }
        // Mutations of the bytes of a structure would be no mistakes that kernels make.
        let buffer = &self.output(output)?.buffer;
        let ordered = !matches!(buffer.tolerance, Tolerance::Set | Tolerance::Moments { .. });
        let tolerance = buffer.tolerance.to_string().trim_matches(['{', '}', ' ', '"']).to_string();
        Some(OutputComparison { row: columns(buffer), tolerance, ordered })
    }

    fn answer(&self, output: usize, stretches: &[Range<usize>]) -> Option<Vec<u8>> {
        let ReferenceData { buffer, bytes, .. } = self.output(output)?;
        let size = buffer.element.bytes() as usize;
        let mut answer = vec![];
        for elements in stretches {
            answer.extend(bytes.get(elements.start * size..elements.end * size)?);
        }
        Some(answer)
    }

    fn accepted_share(&self, output: usize, stretches: &[Range<usize>], found: &[u8], changed: u64) -> Option<f64> {
        let mut buffer = self.output(output)?.buffer.clone();
        if matches!(buffer.tolerance, Tolerance::Set | Tolerance::Picks(_) | Tolerance::Moments { .. }) {
            return None;
        }
        if let Tolerance::Columns { atol, .. } = &mut buffer.tolerance {
            *atol = stretches.iter().flat_map(Clone::clone).map(|index| atol[index % atol.len()]).collect();
        }
        let count = found.len() / buffer.element.bytes() as usize;
        let part = ReferenceData { index: output, buffer, bytes: self.answer(output, stretches)? };
        let OutputErrors { residual, tolerance, max_error, sum, .. } = part.errors(found, count);
        if residual <= tolerance {
            return Some(1.0);
        }
        let mut errors: Vec<f64> = (0..count).map(|index| part.error(found, index)).collect();
        let wrong = match (max_error, &part.buffer.tolerance) {
            (Some(max_error), _) => errors.iter().filter(|error| error.is_nan() || **error > max_error).count(),
            // Count the elements that exceed the tolerance when the smallest errors are added up first.
            (None, Tolerance::Nmse(_)) => {
                errors.sort_by(f64::total_cmp);
                let mut allowance = sum * tolerance / residual;
                let mut wrong = 0;
                for error in errors {
                    allowance -= error;
                    wrong += usize::from(allowance.is_nan() || allowance < 0.0);
                }
                wrong
            }
            _ => return Some(0.0),
        };
        Some((1.0 - wrong as f64 / changed.max(1) as f64).max(0.0))
    }
}

/// Reciprocal of the share of nonzero elements that must look like integers for a note.
const MAX_ELEMENTS_PER_INTEGER: usize = 64;

/// Whether an element of a float type is more likely an integer. Small positive integers are subnormal as floats, small
/// negative ones NaN.
pub fn looks_like_integer(element: DType, bytes: &[u8]) -> bool {
    let value = element.value(bytes);
    if !value.is_nan() {
        return value != 0.0 && value.abs() < element.smallest_normal();
    }
    let is_usual_nan = [f64::NAN, -f64::NAN].iter().any(|nan| {
        let mut nan_bytes = vec![];
        element.push(*nan, &mut nan_bytes);
        nan_bytes == bytes
    });
    !is_usual_nan && !is_filler(bytes)
}

/// Returns a note if the f32 or f64 elements of a buffer look like integers, which every tolerance would accept.
fn integers_note(ReferenceData { buffer, bytes: answer, .. }: &ReferenceData) -> Option<String> {
    let element = buffer.element;
    let size = element.bytes() as usize;
    if ![DType::F32, DType::F64].contains(&element) || matches!(buffer.tolerance, Tolerance::Exact) {
        return None;
    }
    let mut nonzero = 0;
    let mut integers = 0;
    for (index, bytes) in answer.chunks_exact(size).enumerate() {
        if bytes.iter().any(|byte| *byte != 0) && buffer.members.kind(index, size) == ByteKind::Number {
            nonzero += 1;
            integers += usize::from(looks_like_integer(element, bytes));
        }
    }
    if integers * MAX_ELEMENTS_PER_INTEGER <= nonzero {
        return None;
    }
    let integer_type = element.as_integer(false).map_or("bytes", DType::name);
    Some(format!(
        "{}: {integers} of {nonzero} elements of the reference look like integers, or are denormal: if they are integers, \
         which no tolerance checks as {element}, give it type = \"{integer_type}\", or declare them as integers in the \
         kernel's structure",
        buffer.name
    ))
}

/// Returns a note if more than a tenth of a reference is NaN, as which any NaN passes: a square root of negative numbers, say.
fn nan_note(ReferenceData { buffer, bytes: answer, .. }: &ReferenceData) -> Option<String> {
    let nan = values(buffer.element, answer).filter(|value| value.is_nan()).count();
    let all = buffer.len();
    (buffer.element.is_float() && 10 * nan as u64 > all)
        .then(|| format!("{}: {nan} of {all} elements of the reference are NaN", buffer.name))
}

/// Describes elements that are not finite, if there are any.
fn non_finite(buffer: &ResolvedBuffer, contents: &[u8]) -> Option<String> {
    if !buffer.element.is_float() {
        return None;
    }
    let size = buffer.element.bytes() as usize;
    let is_odd =
        |(index, value): &(usize, f64)| !value.is_finite() && buffer.members.kind(*index, size) == ByteKind::Number;
    let mut odd = values(buffer.element, contents).enumerate().filter(is_odd);
    let (first, value) = odd.next()?;
    let is_unwritten = |index: usize| is_filler(element_of(contents, index, size));
    if is_unwritten(first) {
        let name = element_name(buffer, first);
        let were = match odd.filter(|(index, _)| is_unwritten(*index)).count() {
            0 => format!("{name} was"),
            others => format!("{name} and {others} others of {} were", buffer.len()),
        };
        return Some(format!(
            "{were} never written, or computed from memory that nothing wrote; does the grid cover all elements, or is `shape` too large?"
        ));
    }
    let problem = if value.is_nan() { "not a number" } else { "infinite" };
    let others = match odd.count() {
        0 => String::new(),
        others => format!(", and {others} others of {} are not finite", buffer.len()),
    };
    Some(format!("{} is {problem}{others}", element_name(buffer, first)))
}

/// Formats the name of an element: `D[3][5]`.
fn element_name(buffer: &ResolvedBuffer, index: usize) -> String {
    if let Some(places) = &buffer.places {
        return places.name(index);
    }
    format!("{}[{}]", buffer.name, subscripts(&buffer.shape, index))
}

fn element_of(bytes: &[u8], index: usize, size: usize) -> &[u8] {
    &bytes[index * size..(index + 1) * size]
}

/// Returns the position of a number among all values of its type, so that the difference of two positions is their
/// distance in units in the last place. Both zeros of a float have position 0.
fn rank(element: DType, bytes: &[u8]) -> i128 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = i128::from(u64::from_le_bytes(wide));
    let sign_bit = 1i128 << (8 * bytes.len() - 1);
    match element {
        // Sign and magnitude: below zero, larger bits are smaller numbers.
        _ if element.is_float() && bits >= sign_bit => sign_bit - bits,
        // Two's complement.
        DType::I8 | DType::I16 | DType::I32 | DType::I64 if bits >= sign_bit => bits - 2 * sign_bit,
        _ => bits,
    }
}

/// Says of an element that it is a NaN of the filler, when nothing tells why.
pub const FROM_FILLER: &str =
    " was never written, or was computed from memory that nothing wrote (it is gpukern's NaN filler)";

/// Whether an element is a NaN of the filler, so that it was never written. An element of 16 bits holds either half of
/// a filler word.
fn is_filler(bytes: &[u8]) -> bool {
    let is_filler_word = |word: [u8; 4]| FILLER.contains(&u32::from_le_bytes(word));
    bytes.chunks(4).all(|part| match *part {
        [a, b] => is_filler_word([a, b, 0xff, 0xff]),
        [a, b, c, d] => is_filler_word([a, b, c, d]),
        _ => false,
    })
}

/// Formats an element with all its digits.
fn shown(element: DType, bytes: &[u8]) -> String {
    let value = element.value(bytes);
    match integer(element, bytes) {
        Some(whole) if !element.is_float() => whole.to_string(),
        _ if element.bytes() <= 4 => (value as f32).to_string(),
        _ => value.to_string(),
    }
}

/// Most units in the last place by which another order of the same sums may round differently.
const MAX_ROUNDING: u128 = 16;

/// Most elements of a row that a message shows.
const MAX_SHOWN: usize = 8;

impl ReferenceData {
    pub(super) fn new(index: usize, buffer: &ResolvedBuffer, bytes: impl Into<Vec<u8>>) -> Self {
        Self { index, buffer: buffer.clone(), bytes: bytes.into() }
    }

    /// Returns the answers for the members, or the whole answer if there are none.
    fn views(self) -> Vec<Self> {
        if self.buffer.parts.is_empty() {
            return vec![self];
        }
        let Self { index, buffer, bytes } = &self;
        buffer.parts.iter().map(|part| Self::new(*index, part, part.gather(bytes))).collect()
    }

    /// Returns the bytes of an element of `contents`, which are the found ones or [`Self::bytes`].
    fn element<'a>(&self, contents: &'a [u8], index: usize) -> &'a [u8] {
        element_of(contents, index, self.buffer.element.bytes() as usize)
    }

    /// Returns the value of an element of `contents`.
    fn value(&self, contents: &[u8], index: usize) -> f64 {
        self.buffer.element.value(self.element(contents, index))
    }

    /// Returns the absolute difference of an element, exact for 64-bit integers.
    fn difference(&self, found: &[u8], index: usize) -> f64 {
        let element = self.buffer.element;
        if !element.is_float()
            && let Some(got) = integer(element, self.element(found, index))
            && let Some(expected) = integer(element, self.element(&self.bytes, index))
        {
            return (got - expected).abs() as f64;
        }
        (self.value(found, index) - self.value(&self.bytes, index)).abs()
    }

    /// Returns whether an element is signed, if it is an integer member of a structure with floats.
    fn integer_member_sign(&self, index: usize) -> Option<bool> {
        let element = self.buffer.element;
        match self.buffer.members.kind(index, element.bytes() as usize) {
            ByteKind::Integer { signed } if element.is_float() => Some(signed),
            _ => None,
        }
    }

    /// Returns the error of an element as the tolerance measures it. Infinite values and NaN are infinitely wrong,
    /// unless the reference has the same.
    fn error(&self, found: &[u8], index: usize) -> f64 {
        let element = self.buffer.element;
        let found_bytes = self.element(found, index);
        let answer_bytes = self.element(&self.bytes, index);
        let got = element.value(found_bytes);
        let expected = element.value(answer_bytes);
        match &self.buffer.tolerance {
            _ if found_bytes == answer_bytes => 0.0,
            // Zeros of both signs are equal.
            _ if element.is_float() && got == 0.0 && expected == 0.0 => 0.0,
            _ if self.integer_member_sign(index).is_some() => f64::INFINITY,
            _ if got.is_nan() && expected.is_nan() => 0.0,
            Tolerance::Exact | Tolerance::Set | Tolerance::Picks(_) | Tolerance::Moments { .. } => 1.0,
            _ if !got.is_finite() || !expected.is_finite() => f64::INFINITY,
            Tolerance::Close { rtol, atol } => self.difference(found, index) / (atol + rtol * expected.abs()),
            Tolerance::Columns { rtol, atol } => {
                self.difference(found, index) / (atol[index % atol.len()] + rtol * expected.abs())
            }
            Tolerance::Nmse(_) => self.difference(found, index).powi(2),
            Tolerance::Ulp(_) => (rank(element, found_bytes) - rank(element, answer_bytes)).unsigned_abs() as f64,
        }
    }

    /// Whether an element still holds the filler, or a NaN computed from it. Integers may have these bits legitimately.
    fn has_filler_bits(&self, contents: &[u8], index: usize) -> bool {
        let is_float = self.buffer.element.is_float() && self.integer_member_sign(index).is_none();
        is_float && is_filler(self.element(contents, index))
    }

    /// Describes a wrong element and its likely cause.
    fn describe_error(&self, found: &[u8], index: usize) -> String {
        let WrongElement { element, got, expected } = self.wrong_element(found, index);
        if self.has_filler_bits(&self.bytes, index) {
            return format!(
                "{element} is {got}, the reference has NaN, from memory that was never written (it is gpukern's NaN filler): \
                 the reference reads outside of its buffers, or leaves out {element}"
            );
        }
        if self.has_filler_bits(found, index) {
            return format!("{element}{FROM_FILLER}; the reference has {expected}");
        }
        let doubt = if self.buffer.checked { self.rounding(found, index) } else { self.cancellation(found, index) };
        format!("{element} is {got}, the reference has {expected}{doubt}")
    }

    /// Says that an error is one of rounding, which a stated tolerance should allow; empty otherwise.
    fn rounding(&self, found: &[u8], index: usize) -> String {
        let element = self.buffer.element;
        if !element.is_float() || self.integer_member_sign(index).is_some() {
            return String::new();
        }
        let [found, answer] = [found, &self.bytes].map(|contents| rank(element, self.element(contents, index)));
        let ulps = (found - answer).unsigned_abs();
        if !(1..=MAX_ROUNDING).contains(&ulps) {
            return String::new();
        }
        let distance = units::counted(ulps as usize, "unit");
        format!("; that is {distance} in the last place of {element}: is the `check` too tight?")
    }

    /// Says that an error beyond the default tolerance is small beside the other elements, as after cancellation; empty
    /// otherwise.
    fn cancellation(&self, found: &[u8], index: usize) -> String {
        let (Tolerance::Close { rtol, .. } | Tolerance::Columns { rtol, .. }) = self.buffer.tolerance else {
            return String::new();
        };
        let share = self.difference(found, index) / magnitude(values(self.buffer.element, &self.bytes));
        if share.is_nan() || share > rtol * CANCELLATION_RATIO {
            return String::new();
        }
        format!(
            "; the error is {share:.1e} of the largest element: if large terms cancel in a right answer, state a wider `check`"
        )
    }

    /// Formats a wrong element with the digits that distinguish it from neighboring values.
    fn wrong_element(&self, found: &[u8], index: usize) -> WrongElement {
        let element = self.buffer.element;
        let member_type = self.integer_member_sign(index).and_then(|signed| element.as_integer(signed));
        let shown_type = member_type.unwrap_or(element);
        let got = shown(shown_type, self.element(found, index));
        let expected = shown(shown_type, self.element(&self.bytes, index));
        WrongElement::new(element_name(&self.buffer, index), got, expected)
    }

    /// Computes the errors of the first `count` elements.
    fn errors(&self, found: &[u8], count: usize) -> OutputErrors {
        let mut worst = None;
        let mut largest = 0.0;
        let mut sum = 0.0;
        let mut different = 0u64;
        for index in 0..count {
            let error = self.error(found, index);
            sum += error;
            different += u64::from(error > 0.0);
            // NaN from 0/0, with a tolerance of zero, counts as wrong.
            if error > largest || error.is_nan() && !f64::is_nan(largest) {
                worst = Some(index);
                largest = error;
            }
        }
        let errors = OutputErrors { residual: largest, tolerance: 1.0, sum, worst, max_error: Some(1.0) };
        match self.buffer.tolerance {
            // The error of an element is relative to its tolerance.
            Tolerance::Close { .. } | Tolerance::Columns { .. } => errors,
            Tolerance::Nmse(most) => {
                OutputErrors { residual: self.nmse(found, count), tolerance: most, max_error: None, ..errors }
            }
            Tolerance::Ulp(most) => OutputErrors { tolerance: most as f64, max_error: Some(most as f64), ..errors },
            _ => OutputErrors { residual: different as f64, tolerance: 0.0, max_error: Some(0.0), ..errors },
        }
    }

    /// Compares `found` with the answer.
    fn compare(&self, found: &[u8]) -> CheckResult {
        let count = self.buffer.len() as usize;
        let OutputErrors { residual, tolerance, worst, max_error, .. } = self.errors(found, count);
        let passes = residual <= tolerance;
        let mut wrong = WrongElements::default();
        if let Some(max_error) = max_error
            && !passes
        {
            for index in 0..count {
                let error = self.error(found, index);
                if error > max_error || error.is_nan() {
                    wrong.add(|| self.wrong_element(found, index));
                }
            }
        }
        let worst = worst.map_or_else(String::new, |index| self.describe_error(found, index));
        elementwise(residual, tolerance, worst, wrong)
    }

    /// Computes the normalized mean squared error of the first `count` elements, or what is larger: the relative squared
    /// error of a sentinel, or a hundredth of that of an element. A few wrong elements among many would hardly change the
    /// mean; ten standard deviations of an error that the bound allows are none.
    fn nmse(&self, found: &[u8], count: usize) -> f64 {
        let min_sentinel = MIN_SENTINEL_RATIO * magnitude(values(self.buffer.element, &self.bytes));
        let mut error_sum = 0.0;
        let mut square_sum = 0.0;
        let mut squares = 0u64;
        let mut sentinel_error = 0.0;
        for index in 0..count {
            let error = self.error(found, index);
            let expected = self.value(&self.bytes, index);
            if expected.is_finite() && expected.abs() > min_sentinel {
                sentinel_error = f64::max(sentinel_error, error / expected.powi(2));
                continue;
            }
            error_sum += error;
            if expected.is_finite() && self.integer_member_sign(index).is_none() {
                square_sum += expected.powi(2);
                squares += 1;
            }
        }
        if error_sum == 0.0 {
            return sentinel_error;
        }
        let mean = square_sum / squares as f64;
        let of_element = |index: usize| {
            let expected = self.value(&self.bytes, index);
            let is_usual = expected.is_finite() && expected.abs() <= min_sentinel;
            if is_usual { self.error(found, index) / f64::max(mean, expected.powi(2)) / MAX_ELEMENT_RATIO } else { 0.0 }
        };
        let element_error = (0..count).map(of_element).fold(0.0, f64::max);
        f64::max(error_sum / square_sum, sentinel_error).max(element_error)
    }

    /// Compares the rows as multisets: sorts the rows of both sides and merges them.
    fn compare_rows(&self, found: &[u8]) -> CheckResult {
        let mut found_rows = sorted_rows(&self.buffer, found).into_iter().peekable();
        let mut answer_rows = sorted_rows(&self.buffer, &self.bytes).into_iter().peekable();
        // Rows on one side only, with their numbers.
        let mut extra = vec![];
        let mut missing = vec![];
        loop {
            let order = match (found_rows.peek(), answer_rows.peek()) {
                (Some((_, found)), Some((_, answer))) => found.cmp(answer),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            match order {
                Ordering::Less => extra.extend(found_rows.next()),
                Ordering::Greater => missing.extend(answer_rows.next()),
                Ordering::Equal => {
                    found_rows.next();
                    answer_rows.next();
                }
            }
        }
        let mut wrong = WrongElements::default();
        for ((number, extra), (_, missing)) in extra.iter().zip(&missing) {
            let index = number * extra.len() / self.buffer.element.bytes() as usize;
            wrong.add(|| {
                let expected = format!("no such row, but {}", self.shown_row(missing));
                WrongElement::new(element_name(&self.buffer, index), self.shown_row(extra), expected)
            });
        }
        wrong_count(extra.len() as u64, wrong)
    }

    /// Formats the first elements of a row; one of a single element without brackets.
    fn shown_row(&self, row: &[u8]) -> String {
        let element = self.buffer.element;
        let all = row.chunks_exact(element.bytes() as usize);
        let more = all.len().saturating_sub(MAX_SHOWN);
        let mut numbers: Vec<String> = all.take(MAX_SHOWN).map(|bytes| shown(element, bytes)).collect();
        numbers.extend((more > 0).then(|| format!("{more} more")));
        if numbers.len() == 1 { numbers.concat() } else { format!("[{}]", numbers.join(", ")) }
    }

    /// Compares indices by the elements of `keys` that they select. An index may not occur in a row more often than in
    /// the answer.
    fn compare_picks(&self, found: &[u8], keys: Option<&Self>) -> CheckResult {
        let Some(Self { buffer: key_buffer, bytes: keys, .. }) = keys else { return self.compare(found) };
        let buffer = &self.buffer;
        let row_len = |buffer: &ResolvedBuffer| buffer.shape.last().copied().unwrap_or(1).max(1) as usize;
        let columns = row_len(buffer);
        let key_columns = row_len(key_buffer);
        let index_size = buffer.element.bytes() as usize;
        let key_size = key_buffer.element.bytes() as usize;
        let key_rows = (keys.len() / key_size / key_columns).max(1);
        let mut wrong = WrongElements::default();
        let mut count = 0;
        let rows = found.chunks(columns * index_size).zip(self.bytes.chunks(columns * index_size));
        for (row, (picks, answer)) in rows.enumerate() {
            // If there are fewer rows of keys, further rows of indices begin with the first of them again.
            let key_row = row % key_rows;
            let key = |index: &[u8]| {
                let column = usize::try_from(integer(buffer.element, index)?).ok()?;
                let is_key = column < key_columns;
                is_key.then(|| element_of(keys, key_row * key_columns + column, key_size))
            };
            // How often each index may still occur in this row.
            let mut remaining: HashMap<&[u8], i64> = HashMap::new();
            for expected in answer.chunks_exact(index_size) {
                *remaining.entry(expected).or_default() += 1;
            }
            let pairs = picks.chunks_exact(index_size).zip(answer.chunks_exact(index_size));
            for (column, (picked, expected)) in pairs.enumerate() {
                // Equal elements may be picked in any order, but each as often as in the answer. An index that is not
                // in the answer may occur once, in place of one with an equal element.
                let remaining_picks = remaining.entry(picked).or_insert(1);
                *remaining_picks -= 1;
                let is_correct = match (key(picked), key(expected)) {
                    (Some(picked_key), Some(expected_key)) => picked_key == expected_key && *remaining_picks >= 0,
                    _ => picked == expected,
                };
                if !is_correct {
                    count += 1;
                    wrong.add(|| {
                        let [picked, expected] = [picked, expected].map(|bytes| shown(buffer.element, bytes));
                        WrongElement::new(element_name(buffer, row * columns + column), picked, expected)
                    });
                }
            }
        }
        wrong_count(count, wrong)
    }
}

/// Returns the rows of a buffer's `contents` in ascending order, each with its number.
fn sorted_rows<'a>(buffer: &ResolvedBuffer, contents: &'a [u8]) -> Vec<(usize, &'a [u8])> {
    let rows = buffer.shape.first().copied().unwrap_or(1).max(1) as usize;
    let row_bytes = (contents.len() / rows).max(1);
    let mut sorted: Vec<(usize, &[u8])> = contents.chunks(row_bytes).take(rows).enumerate().collect();
    sorted.sort_by_key(|(_, row)| *row);
    sorted
}

/// Errors of an output, as its tolerance measures them.
struct OutputErrors {
    residual: f64,
    tolerance: f64,
    /// Sum of the elements' errors.
    sum: f64,
    /// Element with the largest error; `None` if there are no errors.
    worst: Option<usize>,
    /// Largest error that a correct element may have; `None` if the tolerance does not judge single elements.
    max_error: Option<f64>,
}

/// Squared error of an element, relative to the mean square, as a multiple of a bound on the mean: (10 σ)².
const MAX_ELEMENT_RATIO: f64 = 100.0;

/// Builds the result of a comparison element by element.
fn elementwise(residual: f64, tolerance: f64, worst: String, wrong: WrongElements) -> CheckResult {
    CheckResult { residual, tolerance, method: CheckMethod::Elementwise, worst, metrics: vec![], wrong }
}

/// Ratio to the reference's magnitude above which a value is compared separately: the square of a sentinel would hide
/// all other errors.
const MIN_SENTINEL_RATIO: f64 = 1e3;

/// Builds the result for an output with `count` wrong elements.
fn wrong_count(count: u64, wrong: WrongElements) -> CheckResult {
    let worst = wrong.first.first().map_or_else(String::new, |WrongElement { element, got, expected }| {
        format!("{element} is {got}, the reference has {expected}")
    });
    elementwise(count as f64, 0.0, worst, wrong)
}

/// Fewest random numbers that are checked for repetition.
const MIN_REPEATED: usize = 64;

/// Returns the period of `contents` in elements, computed from the longest border (Knuth, Morris and Pratt, *SIAM
/// Journal on Computing* 6, 1977); `None` for fewer than two elements.
fn period(contents: &[u8], size: usize) -> Option<usize> {
    let elements: Vec<&[u8]> = contents.chunks_exact(size).collect();
    if elements.len() < 2 {
        return None;
    }
    // Length of the longest border of each prefix: the longest text that both begins and ends it.
    let mut borders = vec![0; elements.len()];
    for last in 1..elements.len() {
        let mut border: usize = borders[last - 1];
        while border > 0 && elements[border] != elements[last] {
            border = borders[border - 1];
        }
        borders[last] = border + usize::from(elements[border] == elements[last]);
    }
    Some(elements.len() - borders[elements.len() - 1])
}

/// Most standard errors by which the moments of random numbers may be off: chance exceeds them once in 1.7 million
/// checks.
const MAX_STANDARD_ERRORS: f64 = 5.0;

/// Checks that random numbers have this mean and standard deviation within five standard errors, and do not repeat.
fn check_moments(buffer: &ResolvedBuffer, found: &[u8], mean: f64, deviation: f64) -> CheckResult {
    let count = buffer.len() as f64;
    let moment =
        |power: i32, center: f64| values(buffer.element, found).map(|x| (x - center).powi(power)).sum::<f64>() / count;
    let found_mean = moment(1, 0.0);
    let variance = moment(2, found_mean);
    let found_deviation = variance.sqrt();
    let mean_error = deviation / count.sqrt();
    // The standard error of a standard deviation: Kenney and Keeping, 1951, section 7.8.
    let deviation_error = ((moment(4, found_mean) - variance * variance) / count).sqrt() / (2.0 * found_deviation);
    let standard_errors = |off: f64, error: f64| if off == 0.0 { 0.0 } else { off.abs() / error };
    let mean_off = standard_errors(found_mean - mean, mean_error);
    let deviation_off = standard_errors(found_deviation - deviation, deviation_error);
    let mut residual = mean_off.max(deviation_off);
    if mean_off.is_nan() || deviation_off.is_nan() {
        residual = f64::INFINITY;
    }
    let mut worst = format!(
        "{} has mean {found_mean:.6} ± {mean_error:.1e} and standard deviation {found_deviation:.6} ± {deviation_error:.1e}, \
         not {mean} and {deviation}",
        buffer.name
    );
    let size = buffer.element.bytes() as usize;
    let numbers = found.len() / size;
    // A few numbers may repeat by chance, and constant ones always do.
    if deviation > 0.0
        && numbers >= MIN_REPEATED
        && let Some(period) = period(found, size)
        && 2 * period <= numbers
    {
        residual = f64::INFINITY;
        worst = format!("{} repeats itself after {period} of {} numbers", buffer.name, buffer.len());
    }
    for lag in 1..=MAX_LAG {
        let neighbors = values(buffer.element, found).zip(values(buffer.element, found).skip(lag));
        let product = neighbors.map(|(x, next)| (x - found_mean) * (next - found_mean)).sum::<f64>();
        let correlation = product / (count * variance);
        // For independent numbers, the standard error of the correlation is 1 ÷ √n (Bartlett, 1946).
        if numbers >= MIN_REPEATED && correlation.abs() * count.sqrt() > residual.max(MAX_STANDARD_ERRORS) {
            residual = correlation.abs() * count.sqrt();
            worst = format!("{}: numbers {lag} apart have a correlation of {correlation:.3}", buffer.name);
        }
    }
    elementwise(residual, MAX_STANDARD_ERRORS, worst, WrongElements::default())
}

/// Largest distance of random numbers whose correlation is checked.
const MAX_LAG: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::buffer::Role;
    use crate::kernel::interface::{Argument, ArgumentKind, Block, Elements, Scalar};
    use crate::structure::StructureLayout;

    fn data(element: DType, tolerance: Tolerance) -> ResolvedBuffer {
        ResolvedBuffer { tolerance, checked: true, ..ResolvedBuffer::new("D", element, vec![2, 2], Role::Output) }
    }

    /// Returns the uniform random number of an index (`SplitMix64`; Steele, Lea and Flood, 2014).
    fn random(at: u32) -> f32 {
        let mut bits = (u64::from(at) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    }

    fn bytes(values: [f32; 4]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// Returns the oracle of one output with this answer.
    fn expected(buffer: ResolvedBuffer, answer: [f32; 4]) -> UserOracle {
        UserOracle::new(vec![output(0, buffer, bytes(answer))]).expect("numbers")
    }

    fn output(index: usize, buffer: ResolvedBuffer, bytes: Vec<u8>) -> ReferenceData {
        ReferenceData { index, buffer, bytes }
    }

    fn check_output(expected: &UserOracle, found: [f32; 4]) -> CheckResult {
        expected.check(&[HostArray::U8(bytes(found))]).expect("compared")
    }

    fn check(tolerance: Tolerance, found: [f32; 4], answer: [f32; 4]) -> CheckResult {
        check_output(&expected(data(DType::F32, tolerance), answer), found)
    }

    #[test]
    fn members_are_compared_by_their_own_tolerances() {
        let number = |name: &str, offset| Argument {
            name: format!("p[0].{name}").into(),
            offset,
            kind: ArgumentKind::Scalar(if name == "id" {
                Scalar::Int { bits: 32, signed: false }
            } else {
                Scalar::Float { bits: 32 }
            }),
        };
        let array = Some(Elements { stride: 16, scalar: None });
        let block =
            Block { array, members: vec![number("t", 0), number("id", 4), number("w", 8)].into(), ..Block::default() };
        let layout = StructureLayout::new(&block, &[]).expect("members").expect("numbers");
        let mut whole = ResolvedBuffer::new("P", DType::Bytes, vec![2, 16], Role::Output);
        whole.parts = layout.parts(&whole, &[2]);
        whole.parts[0].tolerance = NEAR;
        whole.parts[2].tolerance = Tolerance::Close { rtol: 0.1, atol: 0.0 };
        let structure = |t: f32, id: u32, w: f32| [t.to_bits(), id, w.to_bits(), 0].map(u32::to_le_bytes).concat();
        let answer = [structure(1.0, 7, 2.0), structure(-3.0, 8, 1e-30)].concat();
        let expected = UserOracle::new(vec![output(0, whole, answer.clone())]).expect("numbers");
        let check = |at: usize, found: u32| {
            let mut outputs = answer.clone();
            outputs[at..at + 4].copy_from_slice(&found.to_le_bytes());
            let check = expected.check(&[HostArray::U8(outputs)]).expect("compared");
            if check.passes() { String::new() } else { check.worst }
        };
        assert_eq!(check(0, 1.0005f32.to_bits()), "", "within its tolerance");
        assert_eq!(check(8, 2.1f32.to_bits()), "", "within its tolerance");
        assert_eq!(check(16, (-3.01f32).to_bits()), "P[1].t is -3.01, the reference has -3");
        assert_eq!(check(20, 9), "P[1].id is 9, the reference has 8");
        assert_eq!(
            check(24, 2e-30f32.to_bits()),
            "P[1].w is 0.000000000000000000000000000002, the reference has 0.000000000000000000000000000001"
        );
        assert_eq!(check(28, 5), "", "padding");
        assert_eq!(check(4, 0xffff_ff90), "P[0].id is 4294967184, the reference has 7");
        let name = |byte| expected.element(0, byte);
        assert_eq!([name(1), name(21), name(29)], [Some("P[0].t".into()), Some("P[1].id".into()), None]);
    }

    const RIGHT: [f32; 4] = [1.0, -2.0, 0.0, 100.0];
    const NEAR: Tolerance = Tolerance::Close { rtol: 1e-3, atol: 1e-6 };
    /// Default tolerance of f32.
    const DEFAULT: Tolerance = Tolerance::Close { rtol: 1e-4, atol: 1e-5 };

    #[test]
    fn an_error_that_cancellation_explains_is_called_so() {
        let advice = "large terms cancel";
        let sums = [1.0, -2.0, 4.0, 15.0];
        let worst = |found, buffer| check_output(&expected(buffer, sums), [found, -2.0, 4.0, 15.0]).worst;
        // Beside 15, the rounding of its terms may be as large as this error.
        let unchecked = || ResolvedBuffer { checked: false, ..data(DType::F32, DEFAULT) };
        assert!(worst(1.000_13, unchecked()).contains(advice));
        assert!(!worst(1.01, unchecked()).contains(advice));
        // The user's own check is meant.
        assert!(!worst(1.000_13, data(DType::F32, DEFAULT)).contains(advice));
    }

    #[test]
    fn a_check_that_refuses_rounding_is_doubted() {
        let tight = Tolerance::Close { rtol: 0.0, atol: 1e-9 };
        let worst = |found| check(tight.clone(), [found, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]).worst;
        let rounded = worst(1.0 + 3.0 * f32::EPSILON);
        assert!(rounded.contains("that is 3 units in the last place of f32: is the `check` too tight?"), "{rounded}");
        assert!(!worst(1.001).contains("tight"));
    }

    #[test]
    fn repeated_random_numbers_are_wrong() {
        let of = |count: u32| ResolvedBuffer { shape: vec![u64::from(count)], ..data(DType::F32, Tolerance::Exact) };
        let numbers = |period: u32| (0..256).flat_map(|at| random(at % period).to_le_bytes()).collect::<Vec<u8>>();
        let deviation = 1.0 / 12f64.sqrt();
        let check = |period| check_moments(&of(256), &numbers(period), 0.5, deviation);
        assert!(check(256).passes(), "{}", check(256).worst);
        assert!(!check(128).passes() && check(128).worst == "D repeats itself after 128 of 256 numbers");
        assert!(check(200).passes(), "a repetition that is cut off is none: {}", check(200).worst);
        let equal = 1f32.to_le_bytes().repeat(256);
        assert!(check_moments(&of(256), &equal, 1.0, 0.0).passes());
    }

    #[test]
    fn rows_of_several_sets_are_noted() {
        let set = || output(0, data(DType::F32, Tolerance::Set), bytes(RIGHT));
        let expected = UserOracle::new(vec![set(), set()]).expect("numbers");
        assert!(expected.notes()[0].starts_with("D and D are sets: which of their rows belong together"));
    }

    #[test]
    fn unwritten_elements_are_distinguished_from_nan() {
        let filler = |word: u32| check(NEAR, [1.0, -2.0, f32::from_bits(word), 100.0], RIGHT).worst;
        for word in [*FILLER.start(), *FILLER.end()] {
            let said = filler(word);
            assert!(
                said.starts_with("D[1][0] was never written, or was computed from memory that nothing wrote"),
                "{said}"
            );
        }
        let unwritten = check(NEAR, RIGHT, [1.0, -2.0, f32::from_bits(*FILLER.start()), 100.0]).worst;
        insta::assert_snapshot!(unwritten, @"
        D[1][0] is 0, the reference has NaN, from memory that was never written (it is gpukern's NaN filler): the reference reads outside of its buffers, or leaves out D[1][0]
        ");
        assert!(filler(0x7fc0_0000).starts_with("D[1][0] is NaN, the reference has 0"));
        assert!(filler(0xffc0_0000).starts_with("D[1][0] is NaN, the reference has 0"));
        let halves = output(0, data(DType::F16, NEAR), FILLER.start().to_le_bytes().repeat(2));
        assert!((0..4).all(|index| halves.has_filler_bits(&halves.bytes, index)));
    }

    #[test]
    fn each_tolerance_reports_the_worst_element() {
        assert!(check(NEAR, [1.0005, -2.001, 5e-7, 100.05], RIGHT).passes());
        let off = check(NEAR, [1.0, -2.0, 1e-5, 100.0], RIGHT);
        assert_eq!((off.passes(), &*off.worst), (false, "D[1][0] is 0.00001, the reference has 0"));
        let square = Tolerance::Nmse(1e-6);
        assert!(check(square.clone(), [1.05, -2.0, 0.05, 100.0], RIGHT).passes());
        assert!(!check(square, [1.5, -2.0, 0.0, 100.0], RIGHT).passes());
        let next = |value: f32, by: u32| f32::from_bits(value.to_bits() + by);
        assert!(check(Tolerance::Ulp(2), [next(1.0, 2), next(-2.0, 1), 0.0, 100.0], RIGHT).passes());
        assert_eq!(check(Tolerance::Ulp(2), [next(1.0, 3), -2.0, 0.0, 100.0], RIGHT).residual, 3.0);
        assert!(check(Tolerance::Exact, RIGHT, RIGHT).passes());
        let off = check(Tolerance::Exact, [1.0, -2.1, -0.0, 101.0], RIGHT);
        assert_eq!((off.residual, off.passes()), (2.0, false));
        let ranks = [1.0f32, 1.0f32.next_up(), -0.0, -1.0].map(|value| rank(DType::F32, &value.to_le_bytes()));
        assert_eq!((ranks[1] - ranks[0], ranks[2], ranks[3]), (1, 0, -ranks[0]));
        assert_eq!(rank(DType::I8, &[0xff]), -1);
    }

    #[test]
    fn sets_picks_and_moments_are_compared() {
        assert!(check(Tolerance::Set, [0.0, 100.0, 1.0, -2.0], RIGHT).passes(), "two rows");
        let mut unknown = UserOracle { all: vec![data(DType::F32, Tolerance::Set)], ..UserOracle::default() };
        let [a, b] = [RIGHT, [0.0, 100.0, 1.0, -2.0]].map(|rows| [HostArray::F32(rows.to_vec())]);
        assert_eq!(unknown.in_order(&a), unknown.in_order(&b));
        unknown.all[0].tolerance = Tolerance::Exact;
        assert_ne!(unknown.in_order(&a), unknown.in_order(&b));
        let off = check(Tolerance::Set, [100.0, 0.0, 1.0, -2.0], RIGHT);
        let worst = "D[0][0] is [100, 0], the reference has no such row, but [0, 100]";
        assert_eq!((off.passes(), &*off.worst), (false, worst));
        let twice = check(Tolerance::Set, [1.0, -2.0, 1.0, -2.0], RIGHT);
        assert_eq!((twice.residual, twice.passes()), (1.0, false));
        let columns = |atol: [f64; 2]| Tolerance::Columns { rtol: 0.0, atol: atol.to_vec() };
        assert!(check(columns([0.0, 0.5]), [1.0, -2.5, 0.0, 99.5], RIGHT).passes());
        assert!(!check(columns([0.5, 0.0]), [1.0, -2.5, 0.0, 100.0], RIGHT).passes());
        // The two smallest of the keys 5 5 7 in each of two rows.
        let keys = ResolvedBuffer { shape: vec![2, 3], ..data(DType::F32, Tolerance::Exact) };
        let picks = |found: [f32; 4]| {
            let five: Vec<u8> = [5f32, 5.0, 7.0, 5.0, 5.0, 7.0].iter().flat_map(|key| key.to_le_bytes()).collect();
            let mut expected = expected(data(DType::F32, Tolerance::Picks(3)), [0.0, 1.0, 0.0, 1.0]);
            expected.keys.push(output(3, keys.clone(), five));
            check_output(&expected, found).passes()
        };
        assert!(picks([0.0, 1.0, 1.0, 0.0]) && picks([1.0, 0.0, 0.0, 1.0]));
        for wrong in [[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 3.0, 0.0, 1.0], [0.0, f32::NAN, 0.0, 1.0]] {
            assert!(!picks(wrong), "{wrong:?}");
        }
        let even: Vec<u8> = (0..4096).flat_map(|at| random(at).to_le_bytes()).collect();
        let many = ResolvedBuffer { shape: vec![4096], ..data(DType::F32, Tolerance::Exact) };
        assert!(check_moments(&many, &even, 0.5, 12f64.sqrt().recip()).passes());
        for (mean, deviation) in [(0.5, 0.3), (0.53, 0.288_675), (0.0, 1.0)] {
            assert!(!check_moments(&many, &even, mean, deviation).passes(), "{mean} {deviation}");
        }
        // A ramp has both moments of uniform numbers.
        let ramp: Vec<u8> = (0..4096).flat_map(|index| (index as f32 / 4095.0).to_le_bytes()).collect();
        let ramp = check_moments(&many, &ramp, 0.5, 12f64.sqrt().recip());
        assert_eq!((ramp.passes(), &*ramp.worst), (false, "D: numbers 1 apart have a correlation of 0.999"));
        assert!(!check_moments(&many, &[0; 4 * 4096], 0.0, 1.0).passes(), "all the same");
        assert!(!check_moments(&many, &[0xff; 4 * 4096], 0.0, 1.0).passes(), "no numbers");
    }

    #[test]
    fn partially_accepted_outputs_have_a_share() {
        let share = |tolerance: Tolerance, found: [f32; 2], changed| {
            let answer = bytes([1.0, 2.0, 3.0, -1e30]);
            let expected = UserOracle::new(vec![output(3, data(DType::F32, tolerance), answer)]).expect("numbers");
            let found: Vec<u8> = found.iter().flat_map(|value| value.to_le_bytes()).collect();
            expected.accepted_share(3, &[1..2, 3..4], &found, changed).expect("a tolerance of elements")
        };
        let near = Tolerance::Close { rtol: 1e-3, atol: 0.0 };
        assert_eq!(share(near.clone(), [2.001, -1e30], 1), 1.0);
        assert_eq!(share(near, [2.001, 0.0], 2), 0.5);
        assert_eq!(share(Tolerance::Exact, [2.0, 0.0], 1), 0.0);
        // One element is so large that the other has no influence.
        assert_eq!(share(Tolerance::Nmse(1e-6), [-50.0, 0.0], 2), 0.5);
        let set = expected(data(DType::F32, Tolerance::Set), RIGHT);
        assert_eq!(set.accepted_share(0, &[], &[], 0), None);
        assert!(set.comparison(0).is_some_and(|comparison| !comparison.ordered && comparison.row == 2));
        assert!(set.comparison(1).is_none());
    }

    #[test]
    fn one_wrong_buffer_fails_the_check() {
        let answers = |index| output(index, data(DType::F32, NEAR), bytes(RIGHT));
        let expected = UserOracle::new(vec![answers(0), answers(1)]).expect("numbers");
        let right = || HostArray::U8(bytes(RIGHT));
        let wrong = || HostArray::U8(bytes([1.0, -2.0, 0.0, f32::NAN]));
        for outputs in [[right(), wrong()], [wrong(), right()]] {
            assert!(!expected.check(&outputs).expect("compared").passes());
        }
        assert!(expected.check(&[right(), right()]).expect("compared").passes());
    }

    #[test]
    fn nan_and_infinity_match_only_themselves_at_any_tolerance() {
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0];
        let close = |both| Tolerance::Close { rtol: both, atol: both };
        let limits = [1e-3, f64::MAX].map(Tolerance::Nmse).into_iter().chain([2, u64::MAX].map(Tolerance::Ulp));
        for tolerance in limits.chain([close(1e-3), close(1e30), Tolerance::Exact]) {
            assert!(check(tolerance.clone(), odd, odd).passes(), "{tolerance:?}");
            assert!(check(tolerance.clone(), [-f32::NAN, odd[1], odd[2], 1.0], odd).passes(), "{tolerance:?}");
            for (at, wrong) in
                [(0, 1.0), (0, f32::INFINITY), (1, f32::MAX), (1, odd[2]), (2, f32::NAN), (3, odd[1]), (3, f32::NAN)]
            {
                let mut found = odd;
                found[at] = wrong;
                assert!(!check(tolerance.clone(), found, odd).passes(), "{tolerance:?}: {wrong} at {at}");
            }
        }
        assert!(!check(close(0.0), [1.0, -2.0, 1e-30, 100.0], RIGHT).passes());
    }

    #[test]
    fn only_the_default_tolerance_adapts_to_a_small_reference() {
        let small = [1e-6, -3e-6, 0.0, 2e-6];
        let passes = |checked, found: [f32; 4], answer| {
            let data = ResolvedBuffer { checked, ..data(DType::F32, DEFAULT) };
            check_output(&expected(data, answer), found).passes()
        };
        assert!(passes(true, [0.0; 4], small) && !passes(false, [0.0; 4], small));
        assert!(passes(false, small.map(|value| value * 1.00009), small));
        // A reference of zeros has no magnitude.
        assert!(passes(false, [1e-6; 4], [0.0; 4]) && !passes(false, [1e-4; 4], [0.0; 4]));
    }

    #[test]
    fn magnitudes_ignore_sentinels_and_are_per_column() {
        let of = |values: &[f64]| magnitude(values.iter().copied());
        let ramp: Vec<f64> = (1..=1000).map(|at| f64::from(at) / 1000.0 - 0.5).collect();
        assert_eq!((of(&ramp), of(&[]), of(&[0.0, f64::INFINITY])), (0.5, 0.0, 0.0));
        for sentinel in [-3.4e38, -1e9, 1e4, -65504.0, f64::INFINITY, f64::NAN, 100.0] {
            let masked: Vec<f64> = ramp.iter().flat_map(|value| [*value, sentinel, sentinel]).collect();
            assert_eq!(of(&masked), 0.5, "{sentinel}");
        }
        // Columns of different magnitudes: zeros fail in the small one.
        let small = [1.0, 2e-6, -3.0, 1e-6];
        let passes = |found: [f32; 4]| {
            let data = ResolvedBuffer { checked: false, ..data(DType::F32, DEFAULT) };
            check_output(&expected(data, small), found).passes()
        };
        assert!(passes(small) && !passes([1.0, 0.0, -3.0, 0.0]) && !passes([1.0, 2e-6, -3.0, 0.0]));
        // Squared errors count although a sentinel is larger.
        let square = |found: [f32; 4]| check(Tolerance::Nmse(1e-6), found, [1.0, -2.0, -3.4e38, 100.0]).passes();
        assert!(square([1.0, -2.0, -3.4e38, 100.0]) && square([1.0, -2.0, -3.400_001e38, 100.01]));
        assert!(!square([5.0, 7.0, -3.4e38, 90.0]) && !square([1.0, -2.0, -3.3e38, 100.0]) && !square([0.0; 4]));
    }

    #[test]
    fn integers_of_64_bits_are_compared_and_shown_in_full() {
        let whole = |values: [u64; 4]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let answer = [1 << 60, u64::MAX, 5, 0];
        let of = |tolerance: Tolerance, found: [u64; 4]| {
            let expected =
                UserOracle::new(vec![output(0, data(DType::U64, tolerance), whole(answer))]).expect("numbers");
            expected.check(&[HostArray::U64(found.to_vec())]).expect("compared")
        };
        let near = |atol| Tolerance::Close { rtol: 0.0, atol };
        for tolerance in [near(0.5), Tolerance::Exact, Tolerance::Ulp(0), Tolerance::Nmse(0.0), Tolerance::Set] {
            assert!(of(tolerance.clone(), answer).passes(), "{tolerance:?}");
            let off = of(tolerance.clone(), [(1 << 60) + 1, u64::MAX, 5, 0]);
            let shown = off.worst.contains("1152921504606846977") && off.worst.contains("1152921504606846976");
            assert!(!off.passes() && shown, "{tolerance:?}: {}", off.worst);
        }
        assert!(of(near(1.0), [1 << 60, u64::MAX - 1, 6, 1]).passes());
        let keys = ResolvedBuffer { shape: vec![1, 1], ..data(DType::F32, Tolerance::Exact) };
        let picks = output(0, data(DType::U64, Tolerance::Picks(3)), whole(answer));
        let mut picks = UserOracle::new(vec![picks]).expect("numbers");
        picks.keys.push(output(3, keys, vec![0; 4]));
        let found = HostArray::U64(vec![(1 << 60) + 1, u64::MAX, 5, 0]);
        assert!(!picks.check(&[found]).expect("compared").passes());
    }

    #[test]
    fn integers_in_structures_are_compared_by_bits() {
        let block = |members: &[(u32, Scalar)], stride: u64| Block {
            array: Some(Elements { stride, scalar: None }),
            members: members
                .iter()
                .map(|(offset, scalar)| Argument {
                    name: "m".into(),
                    offset: *offset,
                    kind: ArgumentKind::Scalar(*scalar),
                })
                .collect(),
            ..Block::default()
        };
        // A buffer that these blocks bind.
        let bound = |blocks: &[&Block]| {
            let mut data = data(DType::F32, DEFAULT);
            for block in blocks {
                data.members.add(block, 0);
            }
            data
        };
        let (float, integer) = (Scalar::Float { bits: 32 }, Scalar::Int { bits: 32, signed: true });
        let hits = |found: [f32; 4], answer: [f32; 4], block: &Block| {
            let expected = expected(bound(&[block]), answer);
            assert!(!expected.notes().iter().any(|note| note.contains("look like integers")));
            check_output(&expected, found)
        };
        let id = |id: i32| f32::from_bits(id.cast_unsigned());
        let mixed = block(&[(0, float), (4, integer)], 8);
        assert!(hits([1.000_01, id(7), 2.0, id(-9)], [1.0, id(7), 2.0, id(-9)], &mixed).passes());
        for ([first, second], worst) in
            [([7, -8], "D[1][1] is -8, the reference has -9"), ([6, -9], "D[0][1] is 6, the reference has 7")]
        {
            let off = hits([1.0, id(first), 2.0, id(second)], [1.0, id(7), 2.0, id(-9)], &mixed);
            assert_eq!((off.passes(), &*off.worst), (false, worst));
        }
        let padded = block(&[(0, float)], 8);
        let filler = f32::from_bits(*FILLER.start());
        assert!(hits([1.0, filler, 2.0, filler], [1.0, 0.0, 2.0, 5.0], &padded).passes());
        assert!(!hits([1.0, filler, 2.1, filler], [1.0, 0.0, 2.0, 5.0], &padded).passes());
        let notes = |answer| expected(bound(&[&padded]), answer).notes();
        assert!(notes([1.0, 0.0, 2.0, 0.0]).is_empty() && notes([1.0, filler, 2.0, filler]).is_empty());
        let note = notes([1.0, 3.5, 2.0, 4.0]).remove(0);
        let start = "D: not compared: the reference has 3.5 in D[0][1], and numbers in 1 other";
        assert!(note.starts_with(start), "{note}");
        // A second block declares the padding as a member.
        let members = bound(&[&padded, &block(&[(0, float)], 4)]).members;
        assert_eq!([0, 1].map(|index| members.kind(index, 4)), [ByteKind::Number; 2]);
        // Without a structure that declares them, they look like integers.
        let notes = expected(data(DType::F32, DEFAULT), [1.0, id(7), 2.0, id(-200)]).notes();
        assert!(notes[0].starts_with("D: 2 of 4 elements of the reference look like integers"), "{notes:?}");
    }

    #[test]
    fn a_reference_of_nan_is_refused() {
        let nan = output(0, data(DType::F32, Tolerance::Exact), bytes([f32::NAN; 4]));
        let refused = UserOracle::new(vec![nan]).err().expect("no number");
        let why = "D[0][0] is not a number, and 3 others of 4 are not finite";
        assert_eq!(refused, format!("the reference is not an answer: {why}; fix it, or its inputs"));
        let most = output(0, data(DType::F32, Tolerance::Exact), bytes([1.0, f32::NAN, f32::NAN, f32::NAN]));
        let notes = UserOracle::new(vec![most]).expect("a number").notes();
        assert_eq!(notes, ["D: 3 of 4 elements of the reference are NaN"]);
        let odd = bytes([1.0, f32::NAN, f32::INFINITY, 0.0]);
        let unknown = UserOracle { all: vec![data(DType::F32, Tolerance::Exact)], ..UserOracle::default() };
        let doubt = |bytes| unknown.doubt(&[HostArray::U8(bytes)]).expect("nobody knows");
        assert_eq!(doubt(bytes(RIGHT)), "there is no reference");
        assert!(doubt(odd).starts_with("there is no reference; D[0][1] is not a number"));
    }
}
