//! Reads records from a file or standard input, in this schema or an older one.
//!
//! A record is untrusted: everything in it is checked before any other module sees it, and every error names the file,
//! the position and a remedy.

mod check;
mod foreign;
mod outcome;

use crate::algorithms::catalogue::Catalogue;
use crate::basis::error::{Error, similar_file};
use crate::basis::input_file;
use crate::basis::printable::{Shown, printable};
use crate::basis::threads;
use crate::basis::units::Bytes;
use crate::record::{Case, Limit, NamedRecord, Record, SCHEMA};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Largest size of a record: some ten times the largest that `bench` can write.
pub const MAX_BYTES: u64 = 256 << 20;

/// Size of a record from which its cases are parsed on all cores.
const MIN_PARALLEL_BYTES: usize = 1 << 20;

/// Name of the schema, before its version.
const PREFIX: &str = "gpukern-run/";
/// Newest version that this gpukern reads, and the one that it writes.
const NEWEST: u32 = 2;

/// Reads the record at `path`, or from standard input for `-`.
///
/// # Errors
/// When the input cannot be read, is too large, or is not a plausible record.
pub fn read(path: &Path, catalogue: &Catalogue) -> Result<NamedRecord, Error> {
    if path == Path::new("-") {
        return parse(&read_all(std::io::stdin().lock())?, "standard input", catalogue);
    }
    let name = path.shown();
    let refuse = |reason: String| Error::Usage(format!("cannot read '{name}': {reason}"));
    let bytes = input_file::read(path, MAX_BYTES).map_err(|e| match e.kind() {
        ErrorKind::Other => {
            refuse(format!("{e}; name a record that --json PATH of `gpukern bench` or `gpukern run` wrote"))
        }
        _ => refuse(match similar_file(path, &["json"]) {
            Some(question) if !path.exists() => format!("{e}; {question}"),
            _ => e.to_string(),
        }),
    })?;
    parse(&bytes, &name, catalogue)
}

/// Reads all of `input`, which is standard input except in tests.
fn read_all(input: impl Read) -> Result<Vec<u8>, Error> {
    let refuse = |reason: String| Error::Usage(format!("cannot read standard input: {reason}"));
    let mut bytes = vec![];
    input.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| refuse(e.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse(format!("it is larger than {}, too large for a record", Bytes(MAX_BYTES))));
    }
    Ok(bytes)
}

/// Parses a record. `name` is its source, for messages.
///
/// # Errors
/// When it is not a plausible record.
pub fn parse(bytes: &[u8], name: &str, catalogue: &Catalogue) -> Result<NamedRecord, Error> {
    let text = decode(bytes, name)?;
    let document = RawRecord { text, name };
    let mut named = if let Some(journal) = document.journal()? {
        journal
    } else {
        let frame = document.frame()?;
        let version = document.version(&frame)?;
        document.finish(document.record(&frame)?, &frame, version, vec![])?
    };
    named.record.attach_entries(catalogue);
    Ok(named)
}

/// Returns the text of a record, or an error that tells what else the bytes may be.
fn decode<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str, Error> {
    let refuse = |what: &str| Err(Error::Usage(format!("'{name}' {what}")));
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.is_empty() {
        return refuse("is empty; was the run that should have written it interrupted?");
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return refuse(
            "is UTF-16, but records are UTF-8: convert it, and write the next with `--json PATH` instead of `>`",
        );
    }
    if bytes.starts_with(b"\x1f\x8b") {
        return refuse("is compressed with gzip; unpack it: gunzip -c FILE | gpukern … -");
    }
    std::str::from_utf8(bytes).or_else(|e| {
        let (line, column) = position(bytes, e.valid_up_to());
        refuse(&format!("is not UTF-8 text (line {line}, column {column}); is it another kind of file, or damaged?"))
    })
}

/// Returns the line and column of a byte, both from 1, with columns in bytes as in `serde_json`.
fn position(bytes: &[u8], offset: usize) -> (usize, usize) {
    let before = &bytes[..offset.min(bytes.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    (before.split(|byte| *byte == b'\n').count(), before.len() - line_start + 1)
}

/// Returns the offset of a position in terms of `serde_json`.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (start + column.saturating_sub(1)).min(text.len())
}

struct RawRecord<'a> {
    text: &'a str,
    name: &'a str,
}

/// Outline of a record, parsed first. Cases stay text and are parsed one by one: so errors can name the case, old cases
/// can be upgraded without the whole document as a tree in memory, and all cores can take part.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
    #[serde(borrow)]
    version: Option<&'a RawValue>,
    #[serde(borrow)]
    cases: Option<Vec<&'a RawValue>>,
}

impl<'a> RawRecord<'a> {
    /// Parses the journal of an unfinished run; `None` if the text is not a journal. A journal has a record without
    /// cases in the first line and a case in each further one. The last line may be incomplete.
    fn journal(&self) -> Result<Option<NamedRecord>, Error> {
        let Some((head, lines)) = self.text.split_once('\n') else { return Ok(None) };
        let Ok(mut frame) = serde_json::from_str::<Frame<'a>>(head) else { return Ok(None) };
        let Some(cases) = frame.cases.as_mut().filter(|cases| cases.is_empty()) else { return Ok(None) };
        if lines.is_empty() || frame.schema.is_none() {
            return Ok(None);
        }
        for line in lines.split_inclusive('\n').filter(|line| line.ends_with('\n') && !line.trim().is_empty()) {
            match serde_json::from_str::<&RawValue>(line) {
                Ok(case) => cases.push(case),
                Err(error) => {
                    let start = line.as_ptr() as usize - self.text.as_ptr() as usize;
                    return Err(self.syntax(&error, line, start, "a case of the journal is damaged: "));
                }
            }
        }
        let cut = if lines.ends_with('\n') { "" } else { ", and part of the next" };
        let name = self.name;
        let count = cases.len();
        let note = format!("'{name}' is the journal of an unfinished run: it has {count} cases{cut}");
        let version = self.version(&frame)?;
        let record = serde_json::from_str(head).map_err(|error| self.syntax(&error, head, 0, ""))?;
        self.finish(record, &frame, version, vec![note]).map(Some)
    }

    /// Returns an error at a byte of the text.
    fn error(&self, offset: Option<usize>, message: &str) -> Error {
        let position_text = offset.map_or_else(String::new, |offset| {
            let (line, column) = position(self.text.as_bytes(), offset);
            format!(" (line {line}, column {column})")
        });
        Error::Usage(format!("cannot use '{}'{position_text}: {message}", self.name))
    }

    /// Returns the offset of `raw`, a part of the text.
    fn offset(&self, raw: &RawValue) -> usize {
        (raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    /// Converts an error of `serde_json` in the part of the text that begins at `start`.
    fn syntax(&self, error: &serde_json::Error, part: &str, start: usize, what: &str) -> Error {
        let offset = start + offset_of(part, error.line(), error.column());
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        self.error(Some(offset), &format!("{what}{}", printable(message)))
    }

    fn frame(&self) -> Result<Frame<'a>, Error> {
        let first = self.text.trim_start().chars().next();
        let refusal = match serde_json::from_str::<Frame<'a>>(self.text) {
            // Derived structs accept arrays too.
            Ok(frame) if first == Some('{') => return Ok(frame),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = refusal.as_ref().filter(|error| error.is_eof() && matches!(first, Some('{' | '['))) {
            return Err(self.syntax(error, self.text, 0, "it is cut short; copy or measure it again: "));
        }
        if !matches!(first, Some('{' | '[')) {
            return Err(self.error(None, &format!("it is not JSON; {}", foreign::RECORD)));
        }
        // Other tools' documents are JSON too, but differ in shape; a record is an object, and tables of TOML begin as an array.
        match refusal {
            Some(error) if error.is_syntax() && first == Some('[') => {
                Err(self.error(None, &format!("it is not JSON; {}", foreign::RECORD)))
            }
            Some(error) if error.is_syntax() && has_lines_of_json(self.text) => {
                Err(self.error(None, &format!("it has a JSON document in each line; {}", foreign::RECORD)))
            }
            Some(error) if error.is_syntax() => Err(self.syntax(&error, self.text, 0, "it is damaged, or not JSON: ")),
            Some(error) if first == Some('{') => Err(self.syntax(&error, self.text, 0, "")),
            _ => Err(self.error(None, &foreign::explain(self.text))),
        }
    }

    /// Returns the number of the schema.
    fn version(&self, frame: &Frame<'_>) -> Result<u32, Error> {
        let schema = frame.schema.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let Some(schema) = schema else { return Err(self.error(None, &foreign::explain(self.text))) };
        let number = schema.strip_prefix(PREFIX).and_then(|number| number.parse::<u32>().ok());
        match number {
            Some(number @ 1..=NEWEST) => Ok(number),
            Some(number) if number > NEWEST => {
                let writer = frame.version.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
                let writer = writer.map_or("a later gpukern".into(), |version| format!("gpukern {version}"));
                Err(self.error(
                    None,
                    &format!(
                        "it is a {PREFIX}{number} record, written by {}; this gpukern {} reads up to {SCHEMA}: update it",
                        printable(&writer),
                        env!("CARGO_PKG_VERSION"),
                    ),
                ))
            }
            _ => Err(self.error(None, &foreign::schema(&schema))),
        }
    }

    /// Parses the record without its cases.
    fn record(&self, frame: &Frame<'_>) -> Result<Record, Error> {
        let Some(cases) = frame.cases.as_ref() else {
            return Err(self.error(None, "it lacks `cases`; is it only part of a record?"));
        };
        // Cut the cases out of the text, so that positions before them are right and those after can be corrected.
        let cut = match (cases.first(), cases.last()) {
            (Some(first), Some(last)) => self.offset(first)..self.offset(last) + last.get().len(),
            _ => 0..0,
        };
        let text = [&self.text[..cut.start], &self.text[cut.end..]].concat();
        serde_json::from_str(&text).map_err(|error| {
            let offset = offset_of(&text, error.line(), error.column());
            let start = if offset > cut.start { cut.len() } else { 0 };
            self.syntax(&error, &text, start, "")
        })
    }

    /// Adds the cases to `record`, and checks it.
    fn finish(
        &self,
        mut record: Record,
        frame: &Frame<'_>,
        version: u32,
        mut notes: Vec<String>,
    ) -> Result<NamedRecord, Error> {
        let name = self.name;
        record.schema = SCHEMA.into();
        record.cases = self.cases(frame, version)?;
        if version < NEWEST {
            notes.push(format!("'{name}' is a {PREFIX}{version} record, read as {SCHEMA}"));
        }
        let remarks = check::check(&mut record).map_err(|check::CheckError { case, message }| {
            let raw = case.and_then(|case| frame.cases.as_ref()?.get(case));
            self.error(raw.map(|raw| self.offset(raw)), &message)
        })?;
        notes.extend(remarks.into_iter().map(|remark| format!("'{name}': {remark}")));
        separate_shares(&mut record);
        Ok(NamedRecord { name: name.into(), record, notes })
    }

    fn cases(&self, frame: &Frame<'_>, version: u32) -> Result<Vec<Case>, Error> {
        let raws = frame.cases.as_deref().unwrap_or_default();
        let parse = |(index, raw): (usize, &&RawValue)| self.case(index, raw, version);
        if self.text.len() < MIN_PARALLEL_BYTES {
            return raws.iter().enumerate().map(parse).collect();
        }
        threads::prepare();
        raws.par_iter().enumerate().map(parse).collect()
    }

    fn case(&self, index: usize, raw: &RawValue, version: u32) -> Result<Case, Error> {
        let parsed = if version == 1 { upgrade(raw.get()) } else { serde_json::from_str(raw.get()) };
        parsed
            .map(|mut case| {
                case.update();
                case
            })
            .map_err(|error| {
                let keys = serde_json::from_str::<foreign::Keys<'_>>(raw.get()).unwrap_or_default();
                let id = keys.get("id").and_then(|id| serde_json::from_str::<String>(id.get()).ok());
                let id = id.map_or_else(String::new, |id| format!(" '{}'", printable(&id)));
                self.syntax(&error, raw.get(), self.offset(raw), &format!("case {}{id}: ", index + 1))
            })
    }
}

/// Splits the shares of versions that counted a variant's own launches as a hardware limit; they are a limit by its
/// structure. Drops the shares of chains, whose operations wait for one another.
fn separate_shares(record: &mut Record) {
    let Record { devices, peaks, cases, .. } = record;
    for case in cases {
        if case.chain.is_some() {
            case.share = None;
            case.structure = None;
        }
        let is_by_launches = case.share.is_some_and(|share| share.limit == Limit::Launch) && case.launches > 1;
        if !is_by_launches || case.structure.is_some() {
            continue;
        }
        let device = devices.iter().find(|device| device.index == case.device);
        let peak = device.and_then(|device| peaks.iter().find(|peak| peak.uuid == device.uuid));
        let median = case.measured().map(|measured| measured.summary.median);
        if let (Some(peak), Some(median)) = (peak, median) {
            case.structure = peak.structure(case, median);
            case.share = peak.share(case, median);
        }
    }
}

/// Whether the first of several lines is JSON by itself.
fn has_lines_of_json(text: &str) -> bool {
    text.trim().split_once('\n').is_some_and(|(first, _)| serde_json::from_str::<serde::de::IgnoredAny>(first).is_ok())
}

/// Parses a case of gpukern-run/1, in which warnings are just names.
fn upgrade(text: &str) -> Result<Case, serde_json::Error> {
    let mut case: Value = serde_json::from_str(text)?;
    if let Some(warnings) = case.pointer_mut("/outcome/warnings").and_then(Value::as_array_mut) {
        for warning in warnings.iter_mut().filter(|warning| warning.is_string()) {
            *warning = serde_json::json!({ "kind": warning.take() });
        }
    }
    serde_json::from_value(case)
}

#[cfg(test)]
mod tests;
