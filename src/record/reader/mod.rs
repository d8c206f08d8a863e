//! Reads records: from a file or standard input, of this schema or an older one, whole and believable or not at all.
//!
//! A record is somebody else's file: everything in it is checked before any other module sees it, and every refusal
//! names the file, the place in it and what to do.

mod check;
mod foreign;
mod outcome;

use crate::basis::error::Error;
use crate::basis::input_file;
use crate::basis::printable::{Shown, printable};
use crate::basis::threads;
use crate::basis::units::Bytes;
use crate::record::{Case, Limit, NamedRecord, Record, SCHEMA};
use rayon::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Largest record that is read: some ten times the largest that `bench` can write.
pub(crate) const MOST_BYTES: u64 = 256 << 20;

/// Bytes of cases from which on they are parsed on all cores.
const PARALLEL: usize = 1 << 20;

const PREFIX: &str = "gpukern-run/";
const NEWEST: u32 = 2;

/// Reads the record at `path`, or from standard input for `-`.
///
/// # Errors
/// When it cannot be read, is too large, or is not a record that can be believed.
pub(crate) fn read(path: &Path) -> Result<NamedRecord, Error> {
    if path == Path::new("-") {
        return parse(&take(std::io::stdin().lock())?, "standard input");
    }
    let name = path.shown();
    let refuse = |reason: String| Error::Usage(format!("cannot read '{name}': {reason}"));
    let bytes = input_file::read(path, MOST_BYTES).map_err(|e| match e.kind() {
        ErrorKind::Other => {
            refuse(format!("{e}; name a record that --json PATH of `gpukern bench` or `gpukern run` wrote"))
        }
        _ => refuse(e.to_string()),
    })?;
    parse(&bytes, &name)
}

/// What standard input holds.
fn take(input: impl Read) -> Result<Vec<u8>, Error> {
    let refuse = |reason: String| Error::Usage(format!("cannot read standard input: {reason}"));
    let mut bytes = vec![];
    input.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|e| refuse(e.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(refuse(format!("it is larger than {}, too large for a record", Bytes(MOST_BYTES))));
    }
    Ok(bytes)
}

/// Parses a record. `name` says where it came from.
///
/// # Errors
/// When it is not a record that can be believed.
pub fn parse(bytes: &[u8], name: &str) -> Result<NamedRecord, Error> {
    let text = decode(bytes, name)?;
    let document = RawRecord { text, name };
    if let Some(journal) = document.journal() {
        return journal;
    }
    let frame = document.frame()?;
    let version = document.version(&frame)?;
    let record = document.record(&frame)?;
    document.loaded(record, &frame, version, vec![])
}

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

/// The line and column of a byte, both from 1, columns in bytes as `serde_json` counts them.
fn position(bytes: &[u8], offset: usize) -> (usize, usize) {
    let before = &bytes[..offset.min(bytes.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    (before.split(|byte| *byte == b'\n').count(), before.len() - line_start + 1)
}

/// The offset of what `serde_json` calls `line` and `column`.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (start + column.saturating_sub(1)).min(text.len())
}

struct RawRecord<'a> {
    text: &'a str,
    name: &'a str,
}

/// The outline of a record, parsed first. The cases stay text, so that each is parsed by itself: errors can then name
/// it, older ones can be upgraded without the whole document as a tree in memory, and all cores can help.
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
    /// What it holds where it is the journal of a run that is not over, or was killed: a record without cases in the first
    /// line, and a case in each further one. The last line may break off: that of the case whose writing was cut short.
    fn journal(&self) -> Option<Result<NamedRecord, Error>> {
        let (head, lines) = self.text.split_once('\n')?;
        let mut frame = serde_json::from_str::<Frame<'a>>(head).ok()?;
        let cases = frame.cases.as_mut().filter(|cases| cases.is_empty())?;
        if lines.is_empty() || frame.schema.is_none() {
            return None;
        }
        for line in lines.split_inclusive('\n').filter(|line| line.ends_with('\n') && !line.trim().is_empty()) {
            match serde_json::from_str::<&RawValue>(line) {
                Ok(case) => cases.push(case),
                Err(error) => {
                    let start = line.as_ptr() as usize - self.text.as_ptr() as usize;
                    return Some(Err(self.syntax(&error, line, start, "a case of the journal is damaged: ")));
                }
            }
        }
        let cut = if lines.ends_with('\n') { "" } else { ", and part of the next" };
        let (name, count) = (self.name, cases.len());
        let note = format!("'{name}' is the journal of an unfinished run: it has {count} cases{cut}");
        Some(self.version(&frame).and_then(|version| {
            let record = serde_json::from_str(head).map_err(|error| self.syntax(&error, head, 0, ""))?;
            self.loaded(record, &frame, version, vec![note])
        }))
    }

    /// An error at a byte of the text.
    fn error(&self, offset: Option<usize>, message: &str) -> Error {
        let place = offset.map_or_else(String::new, |offset| {
            let (line, column) = position(self.text.as_bytes(), offset);
            format!(" (line {line}, column {column})")
        });
        Error::Usage(format!("cannot use '{}'{place}: {message}", self.name))
    }

    /// Where `raw`, a part of the text, begins in it.
    fn offset(&self, raw: &RawValue) -> usize {
        (raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    /// What `serde_json` says of the part of the text that begins at `start`.
    fn syntax(&self, error: &serde_json::Error, part: &str, start: usize, what: &str) -> Error {
        let at = start + offset_of(part, error.line(), error.column());
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        self.error(Some(at), &format!("{what}{}", printable(message)))
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
        match first {
            Some('{' | '[') => {}
            _ => {
                return Err(self.error(None, &format!("it is not JSON; {RECORD}", RECORD = foreign::RECORD)));
            }
        }
        // Other tools' documents are JSON too, but differ in shape.
        match refusal {
            Some(error) if error.is_syntax() => Err(self.syntax(&error, self.text, 0, "it is damaged, or not JSON: ")),
            Some(error) if first == Some('{') => Err(self.syntax(&error, self.text, 0, "")),
            _ => Err(self.error(None, &foreign::explain(self.text))),
        }
    }

    /// The number of the schema.
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

    /// The record without its cases.
    fn record(&self, frame: &Frame<'_>) -> Result<Record, Error> {
        let Some(cases) = frame.cases.as_ref() else {
            return Err(self.error(None, "it lacks `cases`; is it only part of a record?"));
        };
        // Cut the cases out of the text, so that positions before them are right and those after can be mended.
        let cut = match (cases.first(), cases.last()) {
            (Some(first), Some(last)) => self.offset(first)..self.offset(last) + last.get().len(),
            _ => 0..0,
        };
        let text = [&self.text[..cut.start], &self.text[cut.end..]].concat();
        serde_json::from_str(&text).map_err(|error| {
            let at = offset_of(&text, error.line(), error.column());
            let start = if at > cut.start { cut.len() } else { 0 };
            self.syntax(&error, &text, start, "")
        })
    }

    /// The record with its cases, once they are checked.
    fn loaded(
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
        let refuse = |(case, message): (Option<usize>, String)| {
            let place = case.and_then(|case| frame.cases.as_ref()?.get(case)).map(|raw| self.offset(raw));
            self.error(place, &message)
        };
        notes.extend(check::check(&mut record).map_err(refuse)?.into_iter().map(|note| format!("'{name}': {note}")));
        part_shares(&mut record);
        Ok(NamedRecord { name: name.into(), record, notes })
    }

    fn cases(&self, frame: &Frame<'_>, version: u32) -> Result<Vec<Case>, Error> {
        let raws = frame.cases.as_deref().unwrap_or_default();
        let parse = |(index, raw): (usize, &&RawValue)| self.case(index, raw, version);
        if self.text.len() < PARALLEL {
            return raws.iter().enumerate().map(parse).collect();
        }
        threads::prepare();
        raws.par_iter().enumerate().map(parse).collect()
    }

    fn case(&self, index: usize, raw: &RawValue, version: u32) -> Result<Case, Error> {
        let parsed = if version == 1 { upgrade(raw.get()) } else { strict(raw.get()) };
        parsed.map_err(|error| {
            let keys = serde_json::from_str::<foreign::Keys<'_>>(raw.get()).unwrap_or_default();
            let id = keys.get("id").and_then(|id| serde_json::from_str::<String>(id.get()).ok());
            let id = id.map_or_else(String::new, |id| format!(" '{}'", printable(&id)));
            self.syntax(&error, raw.get(), self.offset(raw), &format!("case {}{id}: ", index + 1))
        })
    }
}

/// Parts the shares of a version that took a variant's own launches for a limit of the hardware: those are of its
/// structure. Drops those of chains, whose operations wait for one another.
fn part_shares(record: &mut Record) {
    let Record { devices, peaks, cases, .. } = record;
    for case in cases {
        if case.chain.is_some() {
            (case.share, case.structure) = (None, None);
        }
        let own = case.share.is_some_and(|share| share.limit == Limit::Launch) && case.launches > 1;
        let device = devices.iter().find(|device| device.index == case.device);
        let peak = device.and_then(|device| peaks.iter().find(|peak| peak.uuid == device.uuid));
        let median = case.measured().map(|measured| measured.summary.median);
        if let (true, None, Some(peak), Some(median)) = (own, case.structure, peak, median) {
            case.structure = peak.structure(case, median);
            case.share = peak.share(case, median);
        }
    }
}

fn strict<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

/// A case of gpukern-run/1: its warnings are names alone.
fn upgrade(text: &str) -> Result<Case, serde_json::Error> {
    let mut case: Value = strict(text)?;
    if let Some(warnings) = case.pointer_mut("/outcome/warnings").and_then(Value::as_array_mut) {
        for warning in warnings.iter_mut().filter(|warning| warning.is_string()) {
            *warning = serde_json::json!({ "kind": warning.take() });
        }
    }
    serde_json::from_value(case)
}

#[cfg(test)]
mod tests;
