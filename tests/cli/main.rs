//! The binary from outside: what it prints, writes and exits with.
//!
//! These tests need a Vulkan device; `scripts/test` installs the software device where there is none, and turns the
//! validation layers on for all of them.

mod ab;
mod bench;
mod broken_kernels;
mod compare;
mod exports;
mod factorisations;
mod failures;
mod fleet;
mod journal;
mod limits;
mod listings;
mod mistakes;
mod processes;
mod survival;
mod tune;
mod workers;

use std::process::{Command, Output};

/// A file without tuning results: those of whoever runs the tests must not change what the tests see.
const NOTHING_TUNED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/nothing-tuned.toml");

/// The binary with arguments, on the software device so that results do not depend on the machine.
fn gpukern(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpukern"));
    command.args(arguments).env("GPUKERN_DEVICE", "cpu").env("GPUKERN_TUNED", NOTHING_TUNED);
    // Not the user's cache, which is none of the tests' business.
    command.env("GPUKERN_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("standard output is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("standard error is UTF-8")
}

/// Runs `command` and checks the exit code; shows everything when it differs.
fn expect_exit(command: &mut Command, code: i32) -> Output {
    let output = run(command);
    assert_eq!(output.status.code(), Some(code), "{command:?}\n{}\n{}", stdout(&output), stderr(&output));
    output
}
