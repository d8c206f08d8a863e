//! The file of `--reference`.

use crate::basis::error::Error;
use crate::basis::input_file;
use crate::basis::printable::{excerpt, printable};
use crate::report::reference::ReferenceTimes;
use std::path::Path;

/// Reads a record, or a CSV file of figures: the first sign tells which it is.
pub(super) fn read(path: &Path, notes: &mut String) -> Result<ReferenceTimes, Error> {
    let shown = printable(&path.display().to_string()).into_owned();
    let text =
        input_file::read_text(path).map_err(|e| Error::Usage(format!("cannot read reference '{shown}': {e}")))?;
    if text.trim_start().starts_with('{') {
        let name = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
        return Ok(ReferenceTimes::of_record(&super::read(path, notes)?.record, &name));
    }
    ReferenceTimes::of_csv(&text).map_err(|reason| {
        Error::Usage(format!(
            "reference '{shown}' is neither a record nor a table of figures: {}; it begins with algorithm,dtype,size,time,source",
            excerpt(&reason)
        ))
    })
}
