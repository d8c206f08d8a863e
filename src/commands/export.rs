//! `gpukern export`.

use super::json_file::{Document, JsonTarget};
use super::{Answer, read};
use crate::cli::ExportArgs;
use crate::error::Error;
use crate::export::Format;
use std::path::Path;

pub(super) fn run(args: &ExportArgs) -> Result<Answer, Error> {
    let format: Format = args.to.parse().map_err(Error::Usage)?;
    let text = format.export(&read::read(&args.run)?)?;
    let document = Document { name: format.name(), option: "--output" };
    let target = JsonTarget::open_for(args.output.as_deref().unwrap_or(Path::new("-")), document)?;
    Ok(Answer::success(target.deliver(&text)?.unwrap_or_default()))
}
