//! `gpukern report`.

use super::document::{self, Document};
use super::{CommandOutput, read};
use crate::basis::error::{Error, Exit};
use crate::basis::units::counted;
use crate::commands::cli::ReportArgs;
use crate::record::NamedRecord;
use crate::report::html::report;
use std::fmt::Write;

const REPORT: Document = Document { name: "a report", option: "--output" };
const CHART: Document = Document { name: "a chart", option: "--svg" };

pub(super) fn run(args: &ReportArgs) -> Result<CommandOutput, Error> {
    let inputs: Vec<_> = args.run.iter().map(|path| ("a record", path.as_path())).collect();
    document::check_apart(&[("--output", Some(&args.output))], &inputs)?;
    let (mut runs, mut notes) = (vec![], String::new());
    for path in &args.run {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
        runs.push(NamedRecord { name, ..read(path, &mut notes)? });
    }
    if runs.iter().all(|run| run.record.cases.is_empty()) {
        return Err(Error::Usage(
            "nothing to report: the records have no cases; measure some with `gpukern bench`".into(),
        ));
    }
    let target = REPORT.open(&args.output)?;
    let report = report(&runs);
    if let Some(folder) = &args.svg {
        let shown = folder.display();
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::Usage(format!("cannot write charts to '{shown}': {e}; choose another --svg folder")))?;
        for (name, chart) in &report.charts {
            CHART.open(&folder.join(name))?.deliver(chart)?;
        }
    }
    let output = target.deliver(&report.html)?.unwrap_or_default();
    let _ = writeln!(notes, "{}, {}", counted(runs.len(), "record"), counted(report.charts.len(), "chart"));
    Ok(CommandOutput::new(output, notes, Exit::Success))
}
