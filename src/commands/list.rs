//! `gpukern list`.

use super::CommandOutput;
use crate::algorithms::{self, ALGORITHMS};
use crate::basis::error::Error;
use crate::commands::cli::ListArgs;
use crate::report::list::{self, Listed};
use crate::report::table;

pub(super) fn run(args: &ListArgs) -> Result<CommandOutput, Error> {
    let named = args.algorithm.as_deref().map(algorithms::find).transpose().map_err(Error::Usage)?;
    let chosen = named.map_or_else(|| ALGORITHMS.to_vec(), |algorithm| vec![algorithm]);
    let width = table::width();
    Ok(CommandOutput::success(match named {
        _ if args.json => {
            let listed: Vec<_> = chosen.iter().map(|algorithm| Listed::new(algorithm)).collect();
            let text = serde_json::to_string_pretty(&listed);
            text.map_err(|e| Error::Failure(format!("cannot write the list as JSON: {e}")))? + "\n"
        }
        Some(_) => list::long(&chosen, width),
        None => list::short(&chosen, width),
    }))
}
