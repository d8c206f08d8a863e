//! Parses the command line, runs the command, prints its answer.

use clap::Parser;
use gpukern::{Cli, Exit};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match gpukern::run(Cli::parse()) {
        Ok(answer) => {
            eprint!("{}", answer.notes);
            let mut output = std::io::stdout().lock();
            match output.write_all(answer.output.as_bytes()).and_then(|()| output.flush()) {
                // A reader that closed the pipe has seen what it wanted.
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    eprintln!("error: cannot write to standard output: {error}");
                    Exit::Failure.into()
                }
                _ => answer.exit.into(),
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            let exit: Exit = error.exit();
            exit.into()
        }
    }
}
