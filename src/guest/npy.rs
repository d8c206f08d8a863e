//! Arrays in .npy files.

use crate::basis::input_file;
use crate::run::element::Element;
use crate::run::job::Buffer;
use std::io::{self, Read, Write};
use std::path::Path;

/// Bytes of a header, at most: more than a person's arrays have dimensions for.
const MOST_HEADER: u64 = 64 << 10;

/// The contents of `data` from a file of the same type and shape.
///
/// # Errors
/// When it cannot be read or is another array.
pub(crate) fn read(path: &Path, data: &Buffer) -> Result<Vec<u8>, String> {
    let (shown, name) = (path.display(), &data.name);
    let bytes = input_file::read(path, data.bytes() + MOST_HEADER)
        .map_err(|e| format!("cannot read '{shown}' into buffer {name}: {e}"))?;
    let mut rest = &bytes[..];
    let header = npyz::NpyHeader::from_reader(&mut rest)
        .map_err(|e| format!("'{shown}' is no .npy file: {e}; write one with numpy.save"))?;
    let own = header.dtype().descr();
    let own = own.trim_matches('\'');
    if !types(data.element).contains(&own) {
        return Err(format!(
            "'{shown}' has elements of type '{own}', buffer {name} has {} ('{}'); convert it with astype, or change the \
             type",
            data.element.name(),
            types(data.element)[0]
        ));
    }
    if header.order() != npyz::Order::C && header.shape().len() > 1 {
        return Err(format!("'{shown}' is stored by columns; save numpy.ascontiguousarray of it"));
    }
    // A vector may be written as a matrix of one row, and bytes as what they are in.
    if header.shape().iter().product::<u64>() != data.len() || !same(header.shape(), &data.shape) {
        return Err(format!(
            "'{shown}' has shape {:?}, buffer {name} has {:?}; make them agree",
            header.shape(),
            data.shape
        ));
    }
    let mut contents = vec![];
    rest.read_to_end(&mut contents).map_err(|e| format!("cannot read '{shown}': {e}"))?;
    if contents.len() as u64 == data.bytes() {
        Ok(contents)
    } else {
        Err(format!("'{shown}' has {} bytes of data in place of {}; write it again", contents.len(), data.bytes()))
    }
}

/// Whether both shapes are the same but for extents of one.
fn same(a: &[u64], b: &[u64]) -> bool {
    let longer = |shape: &[u64]| shape.iter().copied().filter(|extent| *extent != 1).collect::<Vec<_>>();
    longer(a) == longer(b)
}

/// The names that NumPy has for a type, the usual one first. It has none for bf16: what writes them uses its bits.
fn types(element: Element) -> &'static [&'static str] {
    match element {
        Element::U8 => &["|u1", "|b1"],
        Element::Bytes => &["|u1", "|i1"],
        Element::I8 => &["|i1"],
        Element::U16 => &["<u2"],
        Element::I16 => &["<i2"],
        Element::U32 => &["<u4"],
        Element::I32 => &["<i4"],
        Element::U64 => &["<u8"],
        Element::I64 => &["<i8"],
        Element::F16 => &["<f2"],
        Element::Bf16 => &["<u2", "|V2", "<V2"],
        Element::F32 => &["<f4"],
        Element::F64 => &["<f8"],
    }
}

/// Writes `contents` as the array that `data` describes (format version 1.0 of NumPy's `numpy.lib.format`).
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(path: &Path, data: &Buffer, contents: &[u8]) -> io::Result<()> {
    let shape: String = data.shape.iter().map(|extent| format!("{extent},")).collect();
    let kind = types(data.element)[0];
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The data begin at a multiple of 64 bytes, behind ten bytes, the header and a new line.
    let fill = (11 + header.len()).next_multiple_of(64) - 11 - header.len();
    header.extend(std::iter::repeat_n(' ', fill));
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(io::Error::other)?;
    let mut file = std::fs::File::create(path)?;
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    file.write_all(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(element: Element, shape: &[u64]) -> Buffer {
        let (role, tolerance) = (crate::run::job::Role::Input, crate::run::job::Tolerance::Exact);
        Buffer { name: "A".into(), element, shape: shape.to_vec(), role, fill: None, tolerance }
    }

    #[test]
    fn an_array_is_read_as_it_was_written_and_refused_as_anything_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npy");
        let matrix = data(Element::F32, &[2, 3]);
        let contents: Vec<u8> = (0..24).collect();
        write(&path, &matrix, &contents).expect("written");
        assert_eq!(read(&path, &matrix), Ok(contents.clone()));
        assert_eq!(read(&path, &data(Element::F32, &[2, 1, 3])), Ok(contents));
        let refused = |other: &Buffer| read(&path, other).expect_err("refused");
        assert!(
            refused(&data(Element::F32, &[3, 2])).contains("has shape [2, 3], buffer A has [3, 2]; make them agree")
        );
        assert!(refused(&data(Element::I32, &[2, 3])).contains("has elements of type '<f4', buffer A has i32 ('<i4')"));
        std::fs::write(&path, "no array").expect("written");
        assert!(refused(&matrix).contains("is no .npy file"));
    }
}
