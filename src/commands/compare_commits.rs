//! `gpukern compare-commits`: a shell script that measures two commits with `gpukern bench --beside`, and compares them.

use super::capture::{pass_on_exit_code, put_first};
use super::{CommandOutput, compare, interrupt, judging};
use crate::basis::messages::Verbosity;
use crate::basis::printable::shown_word;
use crate::commands::cli::CompareCommitsArgs;
use crate::{Cli, Error, Exit, Host, Result, Shown, brief};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

pub(super) const BENCH: &str = "--no-peak --max-time 1s";
pub(super) const MIN_EFFECT: &str = "5%";

/// Folder that the script writes.
const RESULTS: &str = "gpukern-results";

/// It is POSIX shell, which every system with git has.
const SCRIPT: &str = include_str!("compare_commits.sh");

pub(super) fn run(args: &CompareCommitsArgs, host: &Host) -> Result<CommandOutput> {
    let CompareCommitsArgs { base, config, prepare, bench, processes, min_effect, gate, allow, require_reference } =
        args;
    let allowed = allow.join(",");
    // Mistakes are refused before anything is measured.
    judging::percentage("min-effect", Some(min_effect))?;
    check_bench(bench)?;
    if base.starts_with('-') {
        return Err(usage!("'{}' is no commit; `gpukern compare-commits -h` lists the options", brief(base)));
    }
    let gate_file = match gate {
        None => PathBuf::new(),
        Some(path) => {
            if path.components().any(|part| part.as_os_str() == RESULTS) {
                let path = path.shown();
                return Err(usage!("--gate '{path}' is in {RESULTS}, which is replaced; move it to another folder"));
            }
            compare::read_thresholds(path)?;
            std::path::absolute(path).map_err(|e| usage!("--gate '{}': {e}", path.shown()))?
        }
    };
    let count = processes.to_string();
    let stated = [
        ("config", config.as_str(), "gpukern.toml"),
        ("prepare", prepare.as_str(), ""),
        ("bench", bench.as_str(), BENCH),
        ("processes", &count, "5"),
        ("min-effect", min_effect.as_str(), MIN_EFFECT),
        ("allow", allowed.as_str(), ""),
        ("gate", &gate.as_deref().map_or_else(String::new, Shown::shown), ""),
    ];
    let mut repeated = String::new();
    for (option, value, default) in stated {
        if value != default {
            let _ = write!(repeated, " --{option} {}", shown_word(value));
        }
    }
    let required = if *require_reference { " --require-reference" } else { "" };
    repeated.push_str(required);
    let shell = OsStr::new("sh");
    let mut command = Command::new(shell);
    // The script's $0 is this program, whatever it is called.
    let program = std::env::current_exe().unwrap_or_else(|_| "gpukern".into());
    command.args(["-c", SCRIPT]).arg(&program).args([base, config, prepare, bench, &count, min_effect]);
    let quiet = if host.messages.verbosity == Verbosity::Quiet { "quiet" } else { "" };
    command.arg(gate_file).arg(allowed).arg(required).arg(repeated).arg(quiet);
    // PREPARE and references may call it.
    if let Some(folder) = program.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        put_first(&mut command, "PATH", folder, host);
    }
    let status = interrupt::supervise(|| {
        command.spawn().map_err(|e| match e.kind() {
            ErrorKind::NotFound => usage!("there is no `sh` on the PATH, which runs git; on Windows, Git has one"),
            _ => Error::Failure(format!("cannot start `sh`: {e}")),
        })
    })?;
    let mut answer = CommandOutput::new(String::new(), String::new(), Exit::Success);
    pass_on_exit_code(&mut answer, shell, status);
    Ok(answer)
}

/// Refuses options that `bench` does not have, and those that the script sets.
fn check_bench(options: &str) -> Result<()> {
    let words: Vec<_> = options.split_whitespace().collect();
    for word in &words {
        let name = word.split('=').next().unwrap_or_default();
        if ["--config", "--json", "--resume", "--compare", "--processes", "--quiet", "--dry-run"].contains(&name) {
            return Err(usage!("--bench '{}': {name} is set by `compare-commits` itself", brief(options)));
        }
    }
    let line: Vec<_> =
        ["gpukern", "bench", "--config", "gpukern.toml"].into_iter().chain(words).map(OsString::from).collect();
    match Cli::parsed(&line, &std::collections::BTreeMap::new()) {
        Err(super::Stop::Error(error)) => Err(usage!("--bench '{}': {error}", brief(options))),
        _ => Ok(()),
    }
}
