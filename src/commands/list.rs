//! `gpukern list`.

use super::Answer;
use crate::algorithms::{self, ALGORITHMS};
use crate::basis::error::Error;
use crate::commands::cli::ListArgs;
use crate::report;

pub(super) fn run(args: &ListArgs) -> Result<Answer, Error> {
    let chosen = match &args.algorithm {
        Some(name) => vec![algorithms::find(name).map_err(Error::Usage)?],
        None => ALGORITHMS.to_vec(),
    };
    Ok(Answer::success(report::list::text(&chosen)))
}
