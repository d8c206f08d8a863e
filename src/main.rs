//! Parses the command line, runs the command, prints its answer.

use clap::Parser;
use gpukern::basis::error::Exit;
use gpukern::commands;
use gpukern::commands::cli::Cli;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::run(Cli::parse()) {
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
