//! Parses the command line, runs the command, prints its answer.

use clap::Parser;
use gpukern::cli::Cli;
use gpukern::commands;
use gpukern::error::Exit;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::run(Cli::parse()) {
        Ok(answer) => {
            eprint!("{}", answer.notes);
            // A reader that closed the pipe has seen what it wanted.
            let _ = std::io::stdout().lock().write_all(answer.output.as_bytes());
            answer.exit.into()
        }
        Err(error) => {
            eprintln!("error: {error}");
            let exit: Exit = error.exit();
            exit.into()
        }
    }
}
