//! Reads and writes arrays: `NumPy`'s `.npy`, which has a type and a shape, and raw bytes.

use crate::basis::destination::explained;
use crate::basis::dtype::DType;
use crate::basis::printable::{Shown, brief};
use crate::basis::units::Bytes;
use py_literal::Value;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// Most bytes of a header. `NumPy` writes about 128 for an array of numbers.
const MAX_HEADER_BYTES: usize = 1 << 14;
/// Most levels of nested brackets; the header of a structured array with shaped fields has four.
const MAX_NESTING: usize = 6;

/// Field of the records in an array.
pub struct RecordField<'a> {
    pub name: &'a str,
    pub element: DType,
    /// Numbers in each record.
    pub count: u64,
}

/// Returns a value of the dictionary in a header.
fn value_of<'a>(header: &'a Value, name: &str) -> Result<&'a Value, String> {
    let Value::Dict(values) = header else { return Err("its header is not a dictionary".into()) };
    let value = values.iter().find(|(key, _)| key.as_string().is_some_and(|key| key == name));
    value.map(|(_, value)| value).ok_or_else(|| format!("its header has no '{name}'"))
}

/// Reads the header of a `.npy` file, up to its data. Returns the type of the stored elements, and whether the first
/// subscript varies fastest, as in Fortran. Refuses another shape, and types that cannot be converted to `element`.
fn read_header(file: &mut impl Read, element: DType, shape: &[u64]) -> Result<(DType, bool), String> {
    let header = read_literal(file)?;
    let descr = value_of(&header, "descr")?;
    let dtype = descr.as_string().cloned().unwrap_or_else(|| descr.to_string());
    let dtype = brief(&dtype);
    let Some(stored) = stored_type(element, &dtype) else {
        let name = numpy_names(element)[0];
        return Err(format!(
            "it has elements of type '{dtype}', the buffer {element} ('{name}'); save it with .astype('{name}')"
        ));
    };
    Ok((stored, read_order(&header, shape)?))
}

/// Reads whether the first subscript varies fastest. Refuses another shape.
fn read_order(header: &Value, shape: &[u64]) -> Result<bool, String> {
    let Value::Boolean(first_fastest) = *value_of(header, "fortran_order")? else {
        return Err("its header has another 'fortran_order' than True and False".into());
    };
    let stored_shape = value_of(header, "shape")?;
    let Some(extents) = extents(stored_shape) else {
        return Err(format!("its shape {} is not a tuple of extents", brief(&stored_shape.to_string())));
    };
    if extents != shape {
        let extents = format!("{extents:?}");
        return Err(format!("it has the shape {}, the buffer {shape:?}; make them the same", brief(&extents)));
    }
    Ok(first_fastest)
}

fn extents(shape: &Value) -> Option<Vec<u64>> {
    let extent = |value: &Value| value.as_integer().and_then(|extent| u64::try_from(extent).ok());
    shape.as_tuple()?.iter().map(extent).collect()
}

/// Field as a file stores it.
struct StoredField {
    name: String,
    /// Type of its numbers; `None` for padding and other types.
    element: Option<DType>,
    offset: u64,
    count: u64,
}

/// Parses the fields of records, and the bytes of a record; `None` if the type is no list of fields that have a size.
fn parse_fields(descr: &Value) -> Option<(Vec<StoredField>, u64)> {
    let mut fields = vec![];
    let mut offset = 0u64;
    for field in descr.as_list()? {
        let field = field.as_tuple()?;
        let dtype = field.get(1)?.as_string()?;
        let count = field.get(2).map_or(Some(1), |shape| {
            extents(shape)?.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent))
        })?;
        let element = DType::OF_BUFFERS.into_iter().find(|element| numpy_names(*element).contains(&&**dtype));
        // The last digits of a type are its bytes.
        let size = dtype.get(2..)?.parse::<u64>().ok()?;
        fields.push(StoredField { name: field.first()?.as_string()?.clone(), element, offset, count });
        offset = offset.checked_add(size.checked_mul(count)?)?;
    }
    Some((fields, offset)).filter(|(_, bytes)| *bytes <= u32::MAX.into())
}

/// Reads the header of a file of records, up to its data. Returns the stored field of each of `fields`, and the bytes of
/// a record; `None` if the file has plain numbers.
fn read_record_header(
    file: &mut impl Read,
    shape: &[u64],
    fields: &[RecordField<'_>],
) -> Result<Option<(Vec<StoredField>, u64)>, String> {
    let header = read_literal(file)?;
    let descr = value_of(&header, "descr")?;
    if descr.as_list().is_none() {
        return Ok(None);
    }
    let unknown = || format!("its records are {}; write fields of numbers", brief(&descr.to_string()));
    let (mut stored, bytes) = parse_fields(descr).ok_or_else(unknown)?;
    // A single record may have no extents.
    let is_single = shape == [1] && value_of(&header, "shape")?.as_tuple().is_some_and(Vec::is_empty);
    if !is_single && read_order(&header, shape)? && shape.len() > 1 {
        return Err("its records are in Fortran order; save them in C order".into());
    }
    let mut found = vec![];
    for RecordField { name, element, count } in fields {
        let Some(index) = stored.iter().position(|field| field.name == *name) else {
            return Err(format!("its records have no field '{name}'; they are {}", brief(&descr.to_string())));
        };
        let field = stored.swap_remove(index);
        if field.element.is_none() || field.count != *count {
            let dtype = numpy_names(*element)[0];
            let message = format!("its field '{name}' has {} numbers or another type", field.count);
            return Err(format!("{message}; the structure has {count} of type '{dtype}'"));
        }
        found.push(field);
    }
    Ok(Some((found, bytes)))
}

/// Reads the start of a `.npy` file (magic, version and length) and the literal that follows it.
fn read_literal(file: &mut impl Read) -> Result<Value, String> {
    let mut start = [0; 12];
    file.read_exact(&mut start[..10]).map_err(|_| "it is shorter than the header of a .npy")?;
    if start[..6] != *b"\x93NUMPY" {
        return Err("it is not in NumPy's format; write it with numpy.save, or name it .bin".into());
    }
    let broken = |e: io::Error| format!("its header cannot be read: {e}");
    // Version 1 has a length of two bytes, later ones of four.
    let length = if start[6] == 1 {
        u32::from(u16::from_le_bytes([start[8], start[9]]))
    } else {
        file.read_exact(&mut start[10..]).map_err(broken)?;
        u32::from_le_bytes([start[8], start[9], start[10], start[11]])
    };
    if length as usize > MAX_HEADER_BYTES {
        return Err(format!("its header has {length} bytes; at most {MAX_HEADER_BYTES} are read"));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(broken)?;
    parse_literal(&text)
}

/// Returns the stored type that `NumPy` calls `name`, if its elements can be converted to `element`: the same type, or
/// any number unless the buffer is raw memory.
fn stored_type(element: DType, name: &str) -> Option<DType> {
    let others = DType::OF_BUFFERS
        .into_iter()
        .filter(|other| element != DType::Bytes && ![DType::Bytes, DType::Bf16].contains(other));
    std::iter::once(element).chain(others).find(|dtype| numpy_names(*dtype).contains(&name))
}

/// Converts an element to an integer, if it is one.
pub(super) fn integer(element: DType, bytes: &[u8]) -> Option<i128> {
    match element {
        DType::U64 => Some(i128::from(u64::from_le_bytes(bytes.try_into().ok()?))),
        DType::I64 => Some(i128::from(i64::from_le_bytes(bytes.try_into().ok()?))),
        _ => Some(element.value(bytes)).filter(|value| value.fract() == 0.0).map(|value| value as i128),
    }
}

/// Appends an element of type `from` as one of type `to`: floats are rounded, other values must be exact. Returns
/// whether `to` has such a value.
fn push_converted(from: DType, to: DType, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let value = from.value(bytes);
    if from.is_float() && to.is_float() {
        to.push(value, out);
        return to.value(&out[start..]).is_finite() || !value.is_finite();
    }
    let Some(exact) = integer(from, bytes) else { return false };
    if to.is_float() {
        to.push(value, out);
    } else {
        out.extend_from_slice(&exact.to_le_bytes()[..to.bytes() as usize]);
    }
    integer(to, &out[start..]) == Some(exact)
}

/// Converts the elements of an array. Names the first element that the buffer's type cannot hold.
fn convert(from: DType, to: DType, data: Vec<u8>, shape: &[u64]) -> Result<Vec<u8>, String> {
    if from == to {
        return Ok(data);
    }
    let mut out = Vec::with_capacity(data.len() / from.bytes() as usize * to.bytes() as usize);
    for (index, bytes) in data.chunks_exact(from.bytes() as usize).enumerate() {
        if !push_converted(from, to, bytes, &mut out) {
            let value = match integer(from, bytes) {
                Some(whole) if !from.is_float() => whole.to_string(),
                _ => format!("{:?}", from.value(bytes)),
            };
            return Err(format!(
                "its element [{}] is {value}, which the buffer's type {to} does not have; give the buffer another type, or \
                 correct the array",
                subscripts(shape, index)
            ));
        }
    }
    Ok(out)
}

/// Formats the subscripts of an element, the slowest first, as they stand within brackets: `3][5`.
pub(super) fn subscripts(shape: &[u64], index: usize) -> String {
    let mut rest = index as u64;
    let mut subscripts: Vec<String> = vec![];
    for extent in shape.iter().rev() {
        subscripts.push((rest % extent).to_string());
        rest /= extent;
    }
    subscripts.reverse();
    subscripts.join("][")
}

/// Reorders the elements, of `size` bytes each, from first-subscript-fastest to last-subscript-fastest.
fn to_last_fastest(data: Vec<u8>, size: usize, shape: &[u64]) -> Vec<u8> {
    // With one axis, both orders are the same.
    if shape.iter().filter(|extent| **extent != 1).count() <= 1 {
        return data;
    }
    // Bytes between neighbors along each axis.
    let mut strides = vec![];
    let mut stride = size;
    for extent in shape {
        strides.push(stride);
        stride *= *extent as usize;
    }
    let mut subscripts = vec![0; shape.len()];
    let mut from = 0;
    let mut out = Vec::with_capacity(data.len());
    while out.len() < data.len() {
        out.extend_from_slice(&data[from..from + size]);
        // Count up the subscripts, the last first, with carries.
        for axis in (0..shape.len()).rev() {
            subscripts[axis] += 1;
            from += strides[axis];
            if subscripts[axis] < shape[axis] {
                break;
            }
            from -= shape[axis] as usize * strides[axis];
            subscripts[axis] = 0;
        }
    }
    out
}

/// Parses a header, a Python literal. Limits its nesting, because the parser is recursive and parses some parts twice.
fn parse_literal(header: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(header).map_err(|_| "its header cannot be read: it is not text")?;
    let mut depth = 0usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(format!(
                "its header is nested more than {MAX_NESTING} times, which that of an array of numbers is not"
            ));
        }
    }
    text.trim_end_matches('\n').parse().map_err(|_| format!("its header cannot be read: '{}'", brief(text)))
}

/// Returns `NumPy`'s names of an element type; the first is written, all are read. `NumPy` lacks bfloat16: it is
/// written as 16-bit integers, and other libraries save it as two opaque bytes.
fn numpy_names(element: DType) -> &'static [&'static str] {
    match element {
        DType::U8 => &["|u1", "<u1", "|b1"],
        DType::Bytes | DType::Mixed => &["|u1", "<u1", "|i1", "<i1", "|b1"],
        DType::I8 => &["|i1", "<i1"],
        DType::U16 => &["<u2"],
        DType::I16 => &["<i2"],
        DType::U32 => &["<u4"],
        DType::I32 => &["<i4"],
        DType::U64 => &["<u8"],
        DType::I64 => &["<i8"],
        DType::F16 => &["<f2"],
        DType::Bf16 => &["<u2", "|V2", "<V2"],
        DType::F32 => &["<f4"],
        DType::F64 => &["<f8"],
    }
}

/// Checks that a `.npy` file fits a buffer, without reading its data.
pub fn check(path: &Path, element: DType, shape: &[u64]) -> Result<(), String> {
    read_header(&mut open(path)?, element, shape).map(drop).map_err(|reason| with_path(path, reason))
}

/// Reads a `.npy` file for a buffer, in last-subscript-fastest order, and converts its elements: `NumPy` computes in
/// f64 by default.
pub fn read(path: &Path, element: DType, shape: &[u64]) -> Result<Vec<u8>, String> {
    let with_path = |reason: String| with_path(path, reason);
    let mut file = open(path)?;
    let (stored, first_fastest) = read_header(&mut file, element, shape).map_err(with_path)?;
    let mut data = read_exactly(file, shape.iter().product::<u64>() * stored.bytes()).map_err(with_path)?;
    if first_fastest {
        data = to_last_fastest(data, stored.bytes() as usize, shape);
    }
    convert(stored, element, data, shape).map_err(with_path)
}

/// Reads the fields of the records in a `.npy` file, with their numbers converted; `None` if it has plain numbers.
pub fn read_records(path: &Path, shape: &[u64], fields: &[RecordField<'_>]) -> Result<Option<Vec<Vec<u8>>>, String> {
    let with_path = |reason: String| with_path(path, reason);
    let mut file = open(path)?;
    let Some((stored, record)) = read_record_header(&mut file, shape, fields).map_err(with_path)? else {
        return Ok(None);
    };
    let data = read_exactly(file, shape.iter().product::<u64>() * record).map_err(with_path)?;
    let mut columns = vec![];
    for (field, StoredField { element, offset, count, .. }) in fields.iter().zip(stored) {
        let from = element.unwrap_or(field.element);
        let bytes = (count * from.bytes()) as usize;
        let numbers: Vec<u8> = data
            .chunks_exact(record as usize)
            .flat_map(|record| &record[offset as usize..][..bytes])
            .copied()
            .collect();
        let shape = [shape, &[count]].concat();
        let converted = convert(from, field.element, numbers, &shape);
        columns.push(converted.map_err(|reason| with_path(format!("field '{}': {reason}", field.name)))?);
    }
    Ok(Some(columns))
}

/// Checks the header of a `.npy` file of records; returns whether it has records.
pub fn check_records(path: &Path, shape: &[u64], fields: &[RecordField<'_>]) -> Result<bool, String> {
    let header = read_record_header(&mut open(path)?, shape, fields);
    header.map(|header| header.is_some()).map_err(|reason| with_path(path, reason))
}

/// Reads exactly `bytes` raw bytes, decompressed if the file is compressed.
pub fn read_raw(path: &Path, bytes: u64) -> Result<Vec<u8>, String> {
    let file = open(path)?;
    let contents = if is_compressed(path) {
        zstd::Decoder::new(file).map_err(|e| e.to_string()).and_then(|contents| read_exactly(contents, bytes))
    } else {
        read_exactly(file, bytes)
    };
    contents.map_err(|reason| with_path(path, reason))
}

/// Extension of compressed raw bytes: `x.bin.zst`.
pub const COMPRESSED: &str = "zst";

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == COMPRESSED)
}

/// Checks the size of a file of raw bytes; for a compressed one only that it exists.
pub fn check_raw(path: &Path, bytes: u64) -> Result<(), String> {
    if is_compressed(path) {
        return open(path).map(drop);
    }
    let length = open(path)?.metadata().map_err(|e| with_path(path, e))?.len();
    if length == bytes { Ok(()) } else { Err(with_path(path, length_mismatch(length, bytes))) }
}

fn length_mismatch(length: u64, bytes: u64) -> String {
    format!("it has {length} bytes, the buffer {bytes}; make them the same")
}

/// Opens a regular file.
fn open(path: &Path) -> Result<File, String> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => Err(with_path(path, "it is not a regular file")),
        _ => File::open(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => with_path(path, "no such file"),
            _ => with_path(path, e),
        }),
    }
}

fn with_path(path: &Path, reason: impl Display) -> String {
    format!("{}: {reason}", path.shown())
}

/// Reads the rest of a file, which must have `bytes` bytes; of a longer one it reads no more than one byte beyond.
fn read_exactly(file: impl Read, bytes: u64) -> Result<Vec<u8>, String> {
    let mut data = vec![];
    file.take(bytes + 1).read_to_end(&mut data).map_err(|e| e.to_string())?;
    let length = data.len() as u64;
    if length > bytes {
        return Err(format!("it has more data than the {} of the buffer", Bytes(bytes)));
    }
    if length < bytes {
        return Err(format!("its data ends: {}", length_mismatch(length, bytes)));
    }
    Ok(data)
}

/// Writes elements to a `.npy` file.
pub fn write(path: &Path, element: DType, shape: &[u64], bytes: &[u8]) -> io::Result<()> {
    write_to(File::create(path)?, element, shape, bytes)
}

/// Writes elements in the `.npy` format.
pub fn write_to(file: impl Write, element: DType, shape: &[u64], bytes: &[u8]) -> io::Result<()> {
    write_with_header(file, numpy_type(element)?, shape, bytes).map_err(explained)
}

fn numpy_type(element: DType) -> io::Result<npyz::DType> {
    Ok(npyz::DType::Plain(numpy_names(element)[0].parse().map_err(io::Error::other)?))
}

/// Writes records in the `.npy` format, whose fields have these numbers.
pub fn write_records(
    file: impl Write,
    shape: &[u64],
    fields: &[RecordField<'_>],
    columns: &[impl AsRef<[u8]>],
) -> io::Result<()> {
    let mut types = vec![];
    for RecordField { name, element, count } in fields {
        let dtype = numpy_type(*element)?;
        let dtype = if *count == 1 { dtype } else { npyz::DType::Array(*count, Box::new(dtype)) };
        types.push(npyz::Field { name: (*name).to_string(), dtype });
    }
    let mut bytes = vec![];
    for record in 0..shape.iter().product::<u64>() {
        for (RecordField { element, count, .. }, column) in fields.iter().zip(columns) {
            let size = (count * element.bytes()) as usize;
            bytes.extend_from_slice(&column.as_ref()[record as usize * size..][..size]);
        }
    }
    write_with_header(file, npyz::DType::Record(types), shape, &bytes).map_err(explained)
}

fn write_with_header(file: impl Write, dtype: npyz::DType, shape: &[u64], bytes: &[u8]) -> io::Result<()> {
    use npyz::WriterBuilder;
    let options = npyz::WriteOptions::new_header_only().dtype(dtype).shape(shape);
    let mut file = options.writer(BufWriter::new(file)).write_header_only()?;
    file.write_all(bytes)?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reason of a refusal, without the file's path.
    fn reason<T: std::fmt::Debug>(refused: Result<T, String>) -> String {
        refused.expect_err("refused").split_once(": ").expect("a path").1.into()
    }

    fn encoded(element: DType, values: impl IntoIterator<Item = f64>) -> Vec<u8> {
        let mut bytes = vec![];
        values.into_iter().for_each(|value| element.push(value, &mut bytes));
        bytes
    }

    fn decoded(element: DType, bytes: &[u8]) -> Vec<f64> {
        bytes.chunks_exact(element.bytes() as usize).map(|bytes| element.value(bytes)).collect()
    }

    #[test]
    fn written_arrays_are_read_and_other_shapes_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.npy");
        for element in DType::OF_BUFFERS {
            let bytes = encoded(element, (0..6).map(f64::from));
            write(&path, element, &[2, 3], &bytes).expect("written");
            assert_eq!(check(&path, element, &[2, 3]), Ok(()), "{element}");
            assert_eq!(read(&path, element, &[2, 3]).as_ref(), Ok(&bytes), "{element}");
            let other = reason(check(&path, element, &[3, 2]));
            assert_eq!(other, "it has the shape [2, 3], the buffer [3, 2]; make them the same");
        }
    }

    #[test]
    fn other_number_types_are_converted_if_exact() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.npy");
        let read_as = |from: DType, values: [f64; 4], to: DType| {
            write(&path, from, &[2, 2], &encoded(from, values)).expect("written");
            assert_eq!(check(&path, to, &[2, 2]), Ok(()), "{from} {to}");
            read(&path, to, &[2, 2]).map(|data| decoded(to, &data))
        };
        let (f32, f64) = (DType::F32, DType::F64);
        let rounded = read_as(f64, [0.1, -2.0, f64::INFINITY, 1e-320], f32).expect("rounded");
        assert_eq!(rounded, [f64::from(0.1f32), -2.0, f64::INFINITY, 0.0]);
        let whole = [0.0, -7.0, 100.0, 127.0];
        for (from, to) in [(DType::I64, DType::I8), (DType::I8, DType::I64), (DType::I64, f32), (f64, DType::I32)] {
            assert_eq!(read_as(from, whole, to).as_deref(), Ok(&whole[..]), "{from} {to}");
        }
        assert_eq!(read_as(f32, [1.5, 2.0, 3.0, 4.0], DType::Bf16).as_deref(), Ok(&[1.5, 2.0, 3.0, 4.0][..]));
        for (from, values, to, value) in [
            (DType::I64, [0.0, 256.0, 0.0, 0.0], DType::U8, "[0][1] is 256"),
            (DType::I64, [0.0, 0.0, -1.0, 0.0], DType::U64, "[1][0] is -1"),
            (f64, [0.1, -2.0, f64::NAN, 1e300], f32, "[1][1] is 1e300"),
            (f64, [0.5, 0.0, 0.0, 0.0], DType::U32, "[0][0] is 0.5"),
            (f64, [0.0, 0.0, 0.0, f64::NAN], DType::U32, "[1][1] is NaN"),
            (DType::I32, [16_777_217.0, 0.0, 0.0, 0.0], f32, "[0][0] is 16777217"),
            (DType::U64, [2f64.powi(64), 0.0, 0.0, 0.0], DType::I64, "[0][0] is 18446744073709551615"),
        ] {
            let remedy = "give the buffer another type, or correct the array";
            let expected = format!("its element {value}, which the buffer's type {to} does not have; {remedy}");
            assert_eq!(reason(read_as(from, values, to)), expected);
        }
        // Raw memory takes no numbers.
        let error = reason(check(&path, DType::Bytes, &[2, 2]));
        assert_eq!(error, "it has elements of type '<u8', the buffer bytes ('|u1'); save it with .astype('|u1')");
    }

    /// Layout of a transpose saved by `numpy.save`, and of Fortran arrays in scipy.
    #[test]
    fn fortran_order_is_read_correctly() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.npy");
        for shape in [&[][..], &[5], &[2, 3], &[3, 1], &[4, 2, 3], &[2, 3, 2, 5]] {
            let count: u64 = shape.iter().product();
            // Index in C order of each element, listed in Fortran order: the first subscript varies fastest.
            let c_indices = (0..count).map(|index| {
                let (mut rest, mut c_index) = (index, 0);
                let mut stride = count;
                for extent in shape {
                    stride /= extent;
                    c_index += rest % extent * stride;
                    rest /= extent;
                }
                c_index as f64
            });
            write(&path, DType::I16, shape, &encoded(DType::I16, c_indices)).expect("written");
            let file = std::fs::read(&path).expect("there");
            let at = file.windows(5).position(|word| word == b"False").expect("the order of C");
            std::fs::write(&path, [&file[..at], b"True ", &file[at + 5..]].concat()).expect("written");
            for to in [DType::I16, DType::F64] {
                assert_eq!(check(&path, to, shape), Ok(()));
                let values = decoded(to, &read(&path, to, shape).expect("the same array"));
                assert_eq!(values, (0..count).map(|index| index as f64).collect::<Vec<_>>(), "{shape:?}");
            }
        }
    }

    #[test]
    fn truncated_and_foreign_files_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.npy");
        write(&path, DType::F32, &[4], &[0; 20]).expect("written");
        let bytes = std::fs::read(&path).expect("there");
        for (contents, expected) in [
            (&b""[..], "it is shorter than the header of a .npy"),
            (b"0123456789", "it is not in NumPy's format; write it with numpy.save, or name it .bin"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "its header has 4294967295 bytes; at most 16384 are read"),
            (b"\x93NUMPY\x01\x00\x03\x00{}}", "its header cannot be read: '{}}'"),
            (&bytes[..40], "its header cannot be read: failed to fill whole buffer"),
            (&bytes[..bytes.len() - 8], "its data ends: it has 12 bytes, the buffer 16; make them the same"),
            (&bytes, "it has more data than the 16 B of the buffer"),
        ] {
            std::fs::write(&path, contents).expect("written");
            assert_eq!(reason(read(&path, DType::F32, &[4])), expected);
        }
        assert_eq!(reason(check(folder.path(), DType::F32, &[4])), "it is not a regular file");
        std::fs::write(&path, [1, 2, 3]).expect("written");
        assert_eq!(read_raw(&path, 3), Ok(vec![1, 2, 3]));
        assert_eq!(reason(check_raw(&path, 4)), "it has 3 bytes, the buffer 4; make them the same");
    }

    #[test]
    fn compressed_bytes_must_fit_the_buffer() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.bin.zst");
        std::fs::write(&path, zstd::encode_all(&[7; 1000][..], 3).expect("compressed")).expect("written");
        assert_eq!((check_raw(&path, 1000), read_raw(&path, 1000)), (Ok(()), Ok(vec![7; 1000])));
        assert_eq!(reason(read_raw(&path, 999)), "it has more data than the 999 B of the buffer");
        let shorter = "its data ends: it has 1000 bytes, the buffer 1001; make them the same";
        assert_eq!(reason(read_raw(&path, 1001)), shorter);
        std::fs::write(&path, [1, 2, 3]).expect("written");
        read_raw(&path, 3).expect_err("not compressed");
    }

    #[test]
    fn malicious_headers_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.npy");
        let refused = |header: &str, expected: &str| {
            let length = (header.len() as u16).to_le_bytes();
            let file = [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), &[0; 16]].concat();
            std::fs::write(&path, file).expect("written");
            for read in [check(&path, DType::F32, &[4]).err(), read(&path, DType::F32, &[4]).err()] {
                let error = read.expect(header);
                assert!(error.contains(expected), "{header}: {error}");
            }
        };
        let most = u64::MAX;
        let header = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        refused(&header(&format!("({most}, {most})")), "it has the shape [18446744073709551615, 18446744073709551615]");
        refused(&header(&format!("({most}0, 4)")), "is not a tuple of extents");
        refused(&header("(-4,)"), "is not a tuple of extents");
        refused(&header("(4.0,)"), "is not a tuple of extents");
        refused(&header("(0,)"), "it has the shape [0]");
        refused(&header("4"), "is not a tuple of extents");
        refused(&header("()"), "it has the shape []");
        refused(&header("(4,)").replace("False", "None"), "another 'fortran_order'");
        refused(&header("(4,)").replace("'<f4'", "'|O'"), "elements of type '|O'");
        refused(
            &header("(4,)").replace("'<f4'", "[('a', '<f4', (2, 3))]"),
            "elements of type '[('a', '<f4', (2, 3))]'",
        );
        refused("{'descr': '<f4'}", "has no 'fortran_order'");
        refused("['descr']", "not a dictionary");
        // The parser visits each level twice.
        refused(&format!("{}1{}", "[".repeat(60), "]".repeat(60)), "nested more than");
        refused(&"{".repeat(8000), "nested more than");
        refused(&"-".repeat(16_000), "cannot be read");
    }
}
