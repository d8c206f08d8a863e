//! Starts the command that this process was asked for.

use gpukern::Host;
use std::process::ExitCode;

fn main() -> ExitCode {
    gpukern::run(&mut Host::of_process()).into()
}
