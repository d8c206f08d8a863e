//! Parses the command line, runs the command, prints its answer.

use gpukern::{Cli, Exit, explained, say};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match gpukern::run(Cli::from_command_line()) {
        Ok(answer) => {
            say(&answer.notes);
            let mut output = std::io::stdout().lock();
            let written = output.write_all(answer.output.as_bytes()).and_then(|()| output.flush());
            say(&answer.trouble);
            match written {
                // A reader that closed the pipe has seen what it wanted.
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    say(&format!("error: cannot write to standard output: {}\n", explained(error)));
                    Exit::Failure.into()
                }
                _ => answer.exit_code(),
            }
        }
        Err(error) => {
            say(&format!("error: {error}\n"));
            let exit: Exit = error.exit();
            exit.into()
        }
    }
}
