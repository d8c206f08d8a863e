//! `gpukern export`, `gpukern report` and `gpukern merge`: records in other forms.

use super::document::{Files, JSON, Target};
use super::{CommandOutput, command_line, read};
use crate::basis::error::{Error, Exit};
use crate::basis::units::counted;
use crate::export::Format;
use crate::record::NamedRecord;
use crate::record::merge::merge as merged;
use crate::report::html;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Writes a record in the format of this name.
pub(super) fn export(run: &Path, format: &str, output: Option<&Path>) -> Result<CommandOutput, Error> {
    let format: Format = format.parse().map_err(Error::Usage)?;
    Files::default().read("the record", [run]).written("--output", output).check()?;
    let mut notes = String::new();
    let text = format.export(&read(run, &mut notes)?.record)?;
    let target = Target::open([format.name(), "--output"], output.unwrap_or(Path::new("-")))?;
    Ok(CommandOutput::document(target.deliver(&text)?.unwrap_or_default(), notes, Exit::Success))
}

/// Draws records as a page, and its charts as files of the folder `svg`.
pub(super) fn report(paths: &[PathBuf], output: &Path, svg: Option<&Path>) -> Result<CommandOutput, Error> {
    let (mut runs, mut notes) = (vec![], String::new());
    for path in paths {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
        runs.push(NamedRecord { name, ..read(path, &mut notes)? });
    }
    if runs.iter().all(|run| run.record.cases.is_empty()) {
        return Err(Error::Usage(
            "nothing to report: the records have no cases; measure some with `gpukern bench` or `gpukern run`".into(),
        ));
    }
    let report = html::report(&runs);
    let charts = svg.into_iter().flat_map(|folder| report.charts.iter().map(|(name, _)| folder.join(name)));
    Files::default().read("a record", paths).written("--output", [output]).written("--svg", charts).check()?;
    let target = Target::open(["a report", "--output"], output)?;
    if let Some(folder) = svg {
        let shown = folder.display();
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::Usage(format!("cannot write charts to '{shown}': {e}; choose another --svg folder")))?;
        for (name, chart) in &report.charts {
            Target::open(["a chart", "--svg"], &folder.join(name))?.deliver(chart)?;
        }
    }
    let output = target.deliver(&report.html)?.unwrap_or_default();
    let _ = writeln!(notes, "{}, {}", counted(runs.len(), "record"), counted(report.charts.len(), "chart"));
    Ok(CommandOutput::document(output, notes, Exit::Success))
}

/// Joins records in one.
pub(super) fn merge(paths: &[PathBuf], output: Option<&Path>) -> Result<CommandOutput, Error> {
    Files::default().read("a record", paths).written("--output", output).check()?;
    let mut notes = String::new();
    let mut parts = vec![];
    for path in paths {
        parts.push(NamedRecord { name: path.display().to_string(), ..read(path, &mut notes)? });
    }
    let (record, missing) = merged(parts, command_line()).map_err(Error::Usage)?;
    for note in missing {
        let _ = writeln!(notes, "note: {note}");
    }
    let _ = writeln!(
        notes,
        "{}: {} on {}",
        counted(paths.len(), "record"),
        counted(record.sightings().len(), "case"),
        counted(record.devices.len(), "device")
    );
    let target = Target::open(JSON, output.unwrap_or(Path::new("-")))?;
    let output = target.deliver_json(&record)?.unwrap_or_default();
    Ok(CommandOutput::document(output, notes, Exit::Success))
}
