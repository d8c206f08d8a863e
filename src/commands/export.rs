//! `gpukern export`.

use super::document::{self, Document};
use super::{CommandOutput, read};
use crate::basis::error::{Error, Exit};
use crate::commands::cli::ExportArgs;
use crate::export::Format;
use std::path::Path;

pub(super) fn run(args: &ExportArgs) -> Result<CommandOutput, Error> {
    let format: Format = args.to.parse().map_err(Error::Usage)?;
    document::check_apart(&[("--output", args.output.as_deref())], &[("the record", &args.run)])?;
    let mut notes = String::new();
    let text = format.export(&read(&args.run, &mut notes)?.record)?;
    let document = Document { name: format.name(), option: "--output" };
    let target = document.open(args.output.as_deref().unwrap_or(Path::new("-")))?;
    Ok(CommandOutput::new(target.deliver(&text)?.unwrap_or_default(), notes, Exit::Success))
}
