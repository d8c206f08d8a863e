//! Implements `--print` and `--save`: shows elements of buffers, or writes them to files.

use crate::basis::alike::distinct;
use crate::basis::destination::Scratch;
use crate::basis::dtype::DType;
use crate::basis::error::{self, Error};
use crate::basis::printable::{Shown, printable};
use crate::commands::CommandOutput;
use crate::commands::cli::RunArgs;
use crate::kernel::buffer::Role;
use crate::user::algorithm::Save;
use crate::user::array;
use crate::user::resolved::{ResolvedBuffer, ResolvedProblem};
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Most elements that are shown without an explicit range.
const MAX_ELEMENTS: u64 = 64;

/// Buffers that the options name.
pub(super) struct Wanted {
    /// Files that a worker writes: those to save, and those to print.
    pub(super) saves: Vec<Save>,
    prints: Vec<Print>,
    /// Folder for buffers to print, which a worker process writes.
    folder: Option<Scratch>,
}

/// Elements to print.
struct Print {
    buffer: ResolvedBuffer,
    ranges: Vec<Range<u64>>,
    path: PathBuf,
}

impl Wanted {
    /// Resolves the buffers of `args`. Refuses unknown buffers and elements, and a selection of several cases.
    pub(super) fn new(args: &RunArgs, runs: &[ResolvedProblem]) -> Result<Self, Error> {
        let mut wanted = Self { saves: vec![], prints: vec![], folder: None };
        if args.print.is_empty() && args.save.is_empty() {
            return Ok(wanted);
        }
        // By default, one choice of each kernel runs.
        let every = args.tune || args.ab;
        let cases = |run: &ResolvedProblem| {
            let kernels = distinct(run.configurations.iter().map(|configuration| configuration.kernel.as_str())).len();
            run.points.len() * if every { run.configurations.len() } else { kernels }
        };
        let (1, Some(point)) = (runs.iter().map(cases).sum(), runs.iter().find_map(|run| run.points.first())) else {
            let all = if every { ", without --tune and --ab" } else { "" };
            return Err(Error::Usage(format!(
                "--print and --save take one case, and this selects {}; give each axis one value and name one \
                 kernel{all}",
                runs.iter().map(cases).sum::<usize>()
            )));
        };
        for text in &args.save {
            let (name, path) = text
                .split_once('=')
                .filter(|(name, path)| !name.is_empty() && !path.is_empty())
                .ok_or_else(|| Error::Usage(format!("--save '{text}' is not BUFFER=FILE; write --save D=out.npy")))?;
            let buffer = written(&point.buffers, name)?;
            let path = std::path::absolute(path).map_err(|e| Error::Usage(format!("--save '{path}': {e}")))?;
            // A worker with different standard streams writes the file.
            if ["/dev/std", "/dev/fd/", "/proc/"].iter().any(|stream| path.to_string_lossy().starts_with(stream)) {
                return Err(Error::Usage(format!("--save '{}' is a stream; name a file", path.shown())));
            }
            if !path.parent().is_some_and(Path::is_dir) {
                return Err(Error::Usage(format!("--save '{}': there is no such folder; make it", path.shown())));
            }
            wanted.saves.push(Save { buffer: buffer.name.clone(), path });
        }
        if !args.print.is_empty() {
            let folder = Scratch::new().map_err(|e| Error::Failure(format!("cannot make a folder: {e}")))?;
            for (index, text) in args.print.iter().enumerate() {
                let (name, ranges) =
                    text.split_once('[').map_or((text.as_str(), None), |(name, rest)| (name, Some(rest)));
                let buffer = written(&point.buffers, name)?.clone();
                let ranges =
                    ranges_of(ranges, &buffer).map_err(|reason| Error::Usage(format!("--print '{text}' {reason}")))?;
                let path = folder.path().join(format!("{index}.npy"));
                wanted.saves.push(Save { buffer: buffer.name.clone(), path: path.clone() });
                wanted.prints.push(Print { buffer, ranges, path });
            }
            wanted.folder = Some(folder);
        }
        Ok(wanted)
    }

    /// Appends the elements to `answer`.
    pub(super) fn show(&self, answer: &mut CommandOutput, width: usize) {
        for print in &self.prints {
            match array::read(&print.path, print.buffer.element, &print.buffer.shape) {
                Ok(contents) => {
                    let (buffer, ranges) = (&print.buffer, &print.ranges);
                    let rows = table(buffer, ranges, &contents, width);
                    let _ = write!(answer.output, "\n{}\n{rows}", heading(buffer, ranges));
                }
                // The table explains why the case has no answer.
                Err(_) => {
                    let _ = writeln!(answer.notes, "note: {} was not computed", print.buffer.name);
                }
            }
        }
    }
}

/// Returns the buffer with this name, if kernels write to it.
fn written<'a>(buffers: &'a [ResolvedBuffer], name: &str) -> Result<&'a ResolvedBuffer, Error> {
    let is_written = |buffer: &&ResolvedBuffer| matches!(buffer.role, Role::Output | Role::InPlace);
    buffers.iter().filter(is_written).find(|buffer| buffer.name == name).ok_or_else(|| {
        let names: Vec<_> = buffers.iter().filter(is_written).map(|buffer| buffer.name.as_str()).collect();
        Error::Usage(error::unknown("output", name, "", &names))
    })
}

/// Parses ranges such as `0:4,2,:]`, one for each dimension of `buffer`; by default, selects the first elements.
fn ranges_of(text: Option<&str>, buffer: &ResolvedBuffer) -> Result<Vec<Range<u64>>, String> {
    let Some(text) = text else {
        // As many whole rows as fit, from the slowest dimension on.
        let mut left = MAX_ELEMENTS;
        let mut ranges: Vec<_> = buffer
            .shape
            .iter()
            .rev()
            .map(|extent| {
                let shown = (*extent).min(left.max(1));
                left /= shown.max(1);
                0..shown
            })
            .collect();
        ranges.reverse();
        return Ok(ranges);
    };
    let items: Vec<_> = text.strip_suffix(']').ok_or("has no ] at its end; write D[0:4,0:4]")?.split(',').collect();
    if items.len() != buffer.shape.len() {
        return Err(format!(
            "has {} ranges, {} has {} dimensions; write one for each",
            items.len(),
            buffer.name,
            buffer.shape.len()
        ));
    }
    let bound = |text: &str, default: u64| match text.trim() {
        "" => Ok(default),
        text => text.parse::<u64>().map_err(|_| format!("has '{text}' where an index belongs; write D[0:4,0:4]")),
    };
    let range = |(item, extent): (&&str, &u64)| {
        let range = match item.split_once(':') {
            Some((first, end)) => bound(first, 0)?..bound(end, *extent)?.min(*extent),
            None => bound(item, 0).map(|index| index..index + 1)?,
        };
        if range.is_empty() || range.end > *extent {
            return Err(format!("has no element in '{item}': that dimension has {extent}; choose others"));
        }
        Ok(range)
    };
    items.iter().zip(&buffer.shape).map(range).collect()
}

/// Formats the heading: `Z, elements 0 to 63 of 1001`, or `D[0:4,0:16] of [100,100]`.
fn heading(buffer: &ResolvedBuffer, ranges: &[Range<u64>]) -> String {
    let name = printable(&buffer.name);
    if ranges.iter().zip(&buffer.shape).all(|(range, extent)| *range == (0..*extent)) {
        return name.into();
    }
    let whole = vec![":"; ranges.len()].join(",");
    let all = format!("--print '{name}[{whole}]' shows all");
    match (ranges, &buffer.shape[..]) {
        ([range], [extent]) if range.end - range.start == 1 => format!("{name}, element {} of {extent}", range.start),
        ([range], [extent]) => {
            format!("{name}, elements {} to {} of {extent} ({all})", range.start, range.end - 1)
        }
        _ => {
            let ranges: Vec<_> = ranges.iter().map(|range| format!("{}:{}", range.start, range.end)).collect();
            let shape: Vec<_> = buffer.shape.iter().map(ToString::to_string).collect();
            format!("{name}[{}] of [{}] ({all})", ranges.join(","), shape.join(","))
        }
    }
}

/// Formats the elements of ranges, wrapping rows at `width`.
fn table(buffer: &ResolvedBuffer, ranges: &[Range<u64>], contents: &[u8], width: usize) -> String {
    let size = buffer.element.bytes() as usize;
    let mut text = String::new();
    let mut index: Vec<u64> = ranges.iter().map(|range| range.start).collect();
    loop {
        let row = ranges.last().map_or(0..1, Clone::clone);
        let start = index
            .iter()
            .zip(&buffer.shape)
            .take(ranges.len().saturating_sub(1))
            .fold(0, |at, (i, extent)| at * extent + i);
        let columns = buffer.shape.last().copied().unwrap_or(1);
        let elements = row.map(|column| {
            let at = (start * columns + column) as usize * size;
            shown(buffer.element, &contents[at..at + size])
        });
        let mut line = String::from(" ");
        for element in elements {
            // Continuation lines are indented further than new rows.
            if line.trim() != "" && line.len() + 1 + element.len() > width {
                let _ = writeln!(text, "{}", std::mem::replace(&mut line, "   ".into()));
            }
            line = line + " " + &element;
        }
        let _ = writeln!(text, "{line}");
        // Advance to the next row as an odometer does.
        let next = (0..ranges.len().saturating_sub(1)).rev().find(|at| index[*at] + 1 < ranges[*at].end);
        let Some(next) = next else { return text };
        index[next] += 1;
        for at in next + 1..ranges.len() {
            index[at] = ranges[at].start;
        }
    }
}

fn shown(element: DType, bytes: &[u8]) -> String {
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

    fn matrix(shape: &[u64]) -> ResolvedBuffer {
        ResolvedBuffer::new("D", DType::F32, shape.to_vec(), Role::Output)
    }

    fn text(shape: &[u64], ranges: Option<&str>) -> String {
        wrapped(shape, ranges, usize::MAX)
    }

    fn wrapped(shape: &[u64], ranges: Option<&str>, width: usize) -> String {
        let buffer = matrix(shape);
        let contents: Vec<u8> = (0..buffer.len()).flat_map(|i| (i as f32 / 2.0).to_le_bytes()).collect();
        table(&buffer, &ranges_of(ranges, &buffer).expect("there are such"), &contents, width)
    }

    #[test]
    fn rows_fit_the_width() {
        let rows = wrapped(&[1001], None, 80);
        assert!(rows.lines().count() > 1 && rows.lines().all(|line| line.len() <= 80), "{rows}");
        assert_eq!(rows.split_whitespace().count(), 64);
        let said = |shape: &[u64], ranges| {
            let buffer = matrix(shape);
            heading(&buffer, &ranges_of(ranges, &buffer).expect("there are such"))
        };
        assert_eq!(said(&[1001], None), "D, elements 0 to 63 of 1001 (--print 'D[:]' shows all)");
        assert!(said(&[1001], Some("990:2000]")).starts_with("D, elements 990 to 1000 of 1001 ("));
        assert_eq!(said(&[1001], Some("7]")), "D, element 7 of 1001");
        assert_eq!(said(&[100, 100], None), "D[0:1,0:64] of [100,100] (--print 'D[:,:]' shows all)");
        assert_eq!(said(&[2, 3], None), "D");
    }

    #[test]
    fn ranges_of_elements_are_shown_row_by_row() {
        assert_eq!(text(&[2, 3], None), "  0 0.5 1\n  1.5 2 2.5\n");
        assert_eq!(text(&[2, 3], Some("1,:2]")), "  1.5 2\n");
        assert_eq!(text(&[2, 2, 2], Some(":,1,0:9]")), "  1 1.5\n  3 3.5\n");
        assert_eq!(text(&[4], Some("2:]")), "  1 1.5\n");
        assert_eq!(text(&[100, 100], None).lines().count(), 1);
    }

    #[test]
    fn malformed_ranges_are_refused() {
        for (ranges, expected) in [
            ("0:1,0", "has no ] at its end; write D[0:4,0:4]"),
            ("0:1]", "has 1 ranges, D has 2 dimensions; write one for each"),
            ("a,0]", "has 'a' where an index belongs; write D[0:4,0:4]"),
            ("2,0]", "has no element in '2': that dimension has 2; choose others"),
            ("1:1,0]", "has no element in '1:1': that dimension has 2; choose others"),
            ("0,3:]", "has no element in '3:': that dimension has 3; choose others"),
        ] {
            assert_eq!(ranges_of(Some(ranges), &matrix(&[2, 3])).expect_err("refused"), expected);
        }
    }
}
