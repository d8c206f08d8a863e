//! `--print` and `--save`: elements of buffers as text, or in files.

use crate::basis::alike::distinct;
use crate::basis::destination::Scratch;
use crate::basis::error;
use crate::commands::CommandOutput;
use crate::commands::cli::RunArgs;
use crate::kernel::buffer::Role;
use crate::user::algorithm::Save;
use crate::user::array;
use crate::user::resolved::{ResolvedBuffer, ResolvedProblem};
use crate::{DType, Error, Result, Shown, counted, printable};
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Most elements that are printed without an explicit range.
const MAX_ELEMENTS: u64 = 64;

/// Buffers that `--print` and `--save` name.
pub(super) struct WantedBuffers {
    /// Files that a worker writes: those of `--save`, and scratch files of the buffers to print.
    pub(super) saves: Vec<Save>,
    prints: Vec<Print>,
    /// Folder of the scratch files, which lasts until they are printed.
    folder: Option<Scratch>,
}

struct Print {
    buffer: ResolvedBuffer,
    /// Elements in each dimension of the buffer.
    ranges: Vec<Range<u64>>,
    /// File to which a worker writes the buffer.
    path: PathBuf,
}

impl WantedBuffers {
    /// Resolves the buffers of `args`. Refuses unknown buffers and elements, and a selection of several cases.
    pub(super) fn new(args: &RunArgs, problems: &[ResolvedProblem]) -> Result<Self> {
        let mut wanted = Self { saves: vec![], prints: vec![], folder: None };
        if args.print.is_empty() && args.save.is_empty() {
            return Ok(wanted);
        }
        // By default, only the first choice of each kernel runs.
        let all_choices = args.tune || args.ab;
        let mut cases = 0;
        for ResolvedProblem { configurations, points, .. } in problems {
            let kernels = distinct(configurations.iter().map(|configuration| configuration.kernel.as_str()));
            cases += points.len() * if all_choices { configurations.len() } else { kernels.len() };
        }
        let first_point = problems.iter().find_map(|problem| problem.points.first());
        let Some(point) = first_point.filter(|_| cases == 1) else {
            let remedy = if all_choices { ", without --tune and --ab" } else { "" };
            return Err(usage!(
                "--print and --save take one case, and this selects {cases}; give each axis one value and name one \
                 kernel{remedy}"
            ));
        };
        for text in &args.save {
            wanted.saves.push(parse_save(text, &point.buffers)?);
        }
        if !args.print.is_empty() {
            let folder = Scratch::new().map_err(|e| Error::Failure(format!("cannot make a folder: {e}")))?;
            for (index, text) in args.print.iter().enumerate() {
                let print = parse_print(text, &point.buffers, folder.path().join(format!("{index}.npy")))?;
                wanted.saves.push(Save { buffer: print.buffer.name.clone(), path: print.path.clone() });
                wanted.prints.push(print);
            }
            wanted.folder = Some(folder);
        }
        Ok(wanted)
    }

    pub(super) fn print(&self, answer: &mut CommandOutput, width: usize) {
        for Print { buffer, ranges, path } in &self.prints {
            match array::read(path, buffer.element, &buffer.shape) {
                Ok(contents) => {
                    let rows = rows(buffer, ranges, &contents, width);
                    let _ = write!(answer.output, "\n{}\n{rows}", heading(buffer, ranges));
                }
                // The table explains why the case has no answer.
                Err(_) => {
                    let _ = writeln!(answer.notes, "note: {} was not computed", buffer.name);
                }
            }
        }
    }
}

/// Parses a value of `--save`: `D=out.npy`.
fn parse_save(text: &str, buffers: &[ResolvedBuffer]) -> Result<Save> {
    let (name, path) = text
        .split_once('=')
        .filter(|(name, path)| !name.is_empty() && !path.is_empty())
        .ok_or_else(|| usage!("--save '{text}' is not BUFFER=FILE; write --save D=out.npy"))?;
    let buffer = find_written(buffers, name)?;
    let path = std::path::absolute(path).map_err(|e| usage!("--save '{path}': {e}"))?;
    // A worker with different standard streams writes the file.
    if ["/dev/std", "/dev/fd/", "/proc/"].iter().any(|stream| path.to_string_lossy().starts_with(stream)) {
        return Err(usage!("--save '{}' is a stream; name a file", path.shown()));
    }
    if !path.parent().is_some_and(Path::is_dir) {
        return Err(usage!("--save '{}': there is no such folder; make it", path.shown()));
    }
    Ok(Save { buffer: buffer.name.clone(), path })
}

/// Parses a value of `--print`, `D` or `D[0:4,0:4]`, for a buffer that a worker writes to `path`.
fn parse_print(text: &str, buffers: &[ResolvedBuffer], path: PathBuf) -> Result<Print> {
    let name = text.split('[').next().unwrap_or_default();
    let buffer = find_written(buffers, name)?.clone();
    if let Some(first) = buffer.parts.first() {
        let remedy = format!("name one of its members, such as {}", first.name);
        return Err(usage!("--print '{text}' has structures; {remedy}"));
    }
    let ranges = match text.split_once('[') {
        Some((_, ranges)) => parse_ranges(ranges, &buffer),
        None => Ok(first_elements(&buffer)),
    };
    let ranges = ranges.map_err(|reason| usage!("--print '{text}' {reason}"))?;
    Ok(Print { buffer, ranges, path })
}

/// Returns the buffer with this name, if kernels write to it.
fn find_written<'a>(buffers: &'a [ResolvedBuffer], name: &str) -> Result<&'a ResolvedBuffer> {
    let is_written = |buffer: &&ResolvedBuffer| matches!(buffer.role, Role::Output | Role::InPlace);
    let written = || buffers.iter().filter(is_written).flat_map(ResolvedBuffer::with_members);
    written().find(|buffer| buffer.name == name).ok_or_else(|| {
        let names: Vec<_> = written().map(|buffer| buffer.name.as_str()).collect();
        Error::Usage(error::unknown("output", name, "", &names))
    })
}

/// Returns the first elements of a buffer, at most [`MAX_ELEMENTS`]: of the fastest dimension as many as fit, then of the
/// next one.
fn first_elements(buffer: &ResolvedBuffer) -> Vec<Range<u64>> {
    let mut remaining = MAX_ELEMENTS;
    let mut ranges = vec![];
    for extent in buffer.shape.iter().rev() {
        let count = (*extent).min(remaining.max(1));
        remaining /= count.max(1);
        ranges.insert(0, 0..count);
    }
    ranges
}

/// Parses ranges such as `0:4,2,:]`, one for each dimension of `buffer`.
fn parse_ranges(text: &str, buffer: &ResolvedBuffer) -> Result<Vec<Range<u64>>, String> {
    let items: Vec<_> = text.strip_suffix(']').ok_or("has no ] at its end; write D[0:4,0:4]")?.split(',').collect();
    if items.len() != buffer.shape.len() {
        return Err(format!(
            "has {}, {} has {}; write a range for each dimension",
            counted(items.len(), "range"),
            buffer.name,
            counted(buffer.shape.len(), "dimension")
        ));
    }
    let mut ranges = vec![];
    for (item, extent) in items.iter().zip(&buffer.shape) {
        let range = match item.split_once(':') {
            Some((first, end)) => parse_index(first, 0)?..parse_index(end, *extent)?.min(*extent),
            None => parse_index(item, 0).map(|index| index..index + 1)?,
        };
        if range.is_empty() || range.end > *extent {
            return Err(format!("has no element in '{item}': that dimension has {extent}; choose others"));
        }
        ranges.push(range);
    }
    Ok(ranges)
}

/// Parses an index; an empty text is `default`.
fn parse_index(text: &str, default: u64) -> Result<u64, String> {
    match text.trim() {
        "" => Ok(default),
        text => text.parse().map_err(|_| format!("has '{text}' where an index belongs; write D[0:4,0:4]")),
    }
}

/// Formats the heading: `Z, elements 0 to 63 of 1001`, or `D[0:4,0:16] of [100,100]`.
fn heading(buffer: &ResolvedBuffer, ranges: &[Range<u64>]) -> String {
    let name = printable(&buffer.name);
    if ranges.iter().zip(&buffer.shape).all(|(range, extent)| *range == (0..*extent)) {
        return name.into();
    }
    let whole = vec![":"; ranges.len()].join(",");
    let remedy = format!("--print '{name}[{whole}]' shows all");
    match (ranges, &buffer.shape[..]) {
        ([range], [extent]) if range.end - range.start == 1 => format!("{name}, element {} of {extent}", range.start),
        ([range], [extent]) => {
            format!("{name}, elements {} to {} of {extent} ({remedy})", range.start, range.end - 1)
        }
        _ => {
            let ranges: Vec<_> = ranges.iter().map(|range| format!("{}:{}", range.start, range.end)).collect();
            let shape: Vec<_> = buffer.shape.iter().map(ToString::to_string).collect();
            format!("{name}[{}] of [{}] ({remedy})", ranges.join(","), shape.join(","))
        }
    }
}

/// Formats the elements of ranges, a row of the fastest dimension to a line; wraps lines at `width`.
fn rows(buffer: &ResolvedBuffer, ranges: &[Range<u64>], contents: &[u8], width: usize) -> String {
    let bytes = buffer.element.bytes() as usize;
    let columns = buffer.shape.last().copied().unwrap_or(1);
    let row_dimensions = ranges.len().saturating_sub(1);
    // Index of the current row in all dimensions but the last.
    let mut row: Vec<u64> = ranges[..row_dimensions].iter().map(|range| range.start).collect();
    let mut text = String::new();
    loop {
        let row_number = row.iter().zip(&buffer.shape).fold(0, |number, (index, extent)| number * extent + index);
        let mut line = String::from(" ");
        for column in ranges.last().map_or(0..1, Clone::clone) {
            let start = (row_number * columns + column) as usize * bytes;
            let element = element_text(buffer.element, &contents[start..start + bytes]);
            // Continuation lines are indented further than new rows.
            if line.trim() != "" && line.len() + 1 + element.len() > width {
                let _ = writeln!(text, "{}", std::mem::replace(&mut line, "   ".into()));
            }
            line = line + " " + &element;
        }
        let _ = writeln!(text, "{line}");
        // Advance to the next row as an odometer does.
        let digit = (0..row_dimensions).rev().find(|digit| row[*digit] + 1 < ranges[*digit].end);
        let Some(digit) = digit else { return text };
        row[digit] += 1;
        for lower in digit + 1..row_dimensions {
            row[lower] = ranges[lower].start;
        }
    }
}

fn element_text(element: DType, bytes: &[u8]) -> String {
    match element {
        DType::U64 => u64::from_le_bytes(bytes.try_into().unwrap_or_default()).to_string(),
        DType::I64 => i64::from_le_bytes(bytes.try_into().unwrap_or_default()).to_string(),
        // The shortest decimal that distinguishes the value from its neighbors.
        DType::F32 => f32::from_le_bytes(bytes.try_into().unwrap_or_default()).to_string(),
        _ => element.value(bytes).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the elements that `text` selects of a buffer `D`.
    fn print(shape: &[u64], text: &str) -> Result<Print> {
        let buffer = ResolvedBuffer::new("D", DType::F32, shape.to_vec(), Role::Output);
        parse_print(text, &[buffer], PathBuf::new())
    }

    fn heading_of(shape: &[u64], text: &str) -> String {
        let Print { buffer, ranges, .. } = print(shape, text).expect("it selects elements");
        heading(&buffer, &ranges)
    }

    /// Returns the rows of elements 0, 0.5, 1, …
    fn rows_of(shape: &[u64], text: &str, width: usize) -> String {
        let Print { buffer, ranges, .. } = print(shape, text).expect("it selects elements");
        let contents: Vec<u8> = (0..buffer.len()).flat_map(|i| (i as f32 / 2.0).to_le_bytes()).collect();
        rows(&buffer, &ranges, &contents, width)
    }

    #[test]
    fn rows_fit_the_width() {
        let rows = rows_of(&[1001], "D", 80);
        assert!(rows.lines().count() > 1 && rows.lines().all(|line| line.len() <= 80), "{rows}");
        assert_eq!(rows.split_whitespace().count(), 64);
    }

    #[test]
    fn the_heading_says_which_elements_follow() {
        assert_eq!(heading_of(&[1001], "D"), "D, elements 0 to 63 of 1001 (--print 'D[:]' shows all)");
        assert!(heading_of(&[1001], "D[990:2000]").starts_with("D, elements 990 to 1000 of 1001 ("));
        assert_eq!(heading_of(&[1001], "D[7]"), "D, element 7 of 1001");
        assert_eq!(heading_of(&[100, 100], "D"), "D[0:1,0:64] of [100,100] (--print 'D[:,:]' shows all)");
        assert_eq!(heading_of(&[2, 3], "D"), "D");
    }

    #[test]
    fn ranges_of_elements_are_shown_row_by_row() {
        for (shape, text, expected) in [
            (&[2, 3][..], "D", "  0 0.5 1\n  1.5 2 2.5\n"),
            (&[2, 3], "D[1,:2]", "  1.5 2\n"),
            (&[2, 2, 2], "D[:,1,0:9]", "  1 1.5\n  3 3.5\n"),
            (&[4], "D[2:]", "  1 1.5\n"),
        ] {
            assert_eq!(rows_of(shape, text, usize::MAX), expected);
        }
        assert_eq!(rows_of(&[100, 100], "D", usize::MAX).lines().count(), 1);
    }

    #[test]
    fn malformed_ranges_are_refused() {
        for (ranges, expected) in [
            ("0:1,0", "has no ] at its end; write D[0:4,0:4]"),
            ("0:1]", "has 1 range, D has 2 dimensions; write a range for each dimension"),
            ("a,0]", "has 'a' where an index belongs; write D[0:4,0:4]"),
            ("2,0]", "has no element in '2': that dimension has 2; choose others"),
            ("1:1,0]", "has no element in '1:1': that dimension has 2; choose others"),
            ("0,3:]", "has no element in '3:': that dimension has 3; choose others"),
        ] {
            let text = format!("D[{ranges}");
            let error = print(&[2, 3], &text).err().expect("refused").to_string();
            assert_eq!(error, format!("--print '{text}' {expected}"));
        }
    }
}
