//! `gpukern merge`.

use super::document::{self, JSON};
use super::{CommandOutput, command_line, read};
use crate::basis::error::{Error, Exit};
use crate::basis::units::counted;
use crate::commands::cli::MergeArgs;
use crate::record::NamedRecord;
use crate::record::merge::merge;
use std::fmt::Write;
use std::path::Path;

pub(super) fn run(args: &MergeArgs) -> Result<CommandOutput, Error> {
    let inputs: Vec<_> = args.run.iter().map(|path| ("a record", path.as_path())).collect();
    document::check_apart(&[("--output", args.output.as_deref())], &inputs)?;
    let mut notes = String::new();
    let mut parts = vec![];
    for path in &args.run {
        parts.push(NamedRecord { name: path.display().to_string(), ..read(path, &mut notes)? });
    }
    let (record, missing) = merge(parts, command_line()).map_err(Error::Usage)?;
    for note in missing {
        let _ = writeln!(notes, "note: {note}");
    }
    let _ = writeln!(
        notes,
        "{}: {} on {}",
        counted(args.run.len(), "record"),
        counted(record.sightings().len(), "case"),
        counted(record.devices.len(), "device")
    );
    let target = JSON.open(args.output.as_deref().unwrap_or(Path::new("-")))?;
    let output = target.deliver_json(&record)?.unwrap_or_default();
    Ok(CommandOutput::new(output, notes, Exit::Success))
}
