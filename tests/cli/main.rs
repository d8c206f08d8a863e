//! The binary from outside: its output, files and exit codes.
//!
//! These tests need a Vulkan device; `scripts/test` installs the software device where there is none, and turns the
//! validation layers on for all of them.

mod ab;
mod bench;
mod broken_kernels;
mod capture;
mod cheats;
mod commands;
mod compare;
mod exports;
mod factorizations;
mod failures;
mod fleet;
mod images;
mod inspect;
mod journal;
mod limits;
mod listings;
mod mistakes;
mod options;
mod overwriting;
mod processes;
mod run;
mod sanitize;
mod survival;
mod tune;
mod workers;

use gpukern::{CATALOGUE, CacheFolder, Device, Host, Instance, Printed, Runner, Timing, Validation};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
#[cfg(unix)]
use std::os::unix::process::ExitStatusExt;
#[cfg(windows)]
use std::os::windows::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;

/// File without tuning results, in place of those of the user who runs the tests.
const NOTHING_TUNED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/nothing-tuned.toml");

/// Returns the command of the binary with arguments, on the software device so that results do not depend on the machine.
fn gpukern(arguments: &[&str]) -> Command {
    // Processes inherit ignored signals: a shell ignores SIGINT and SIGQUIT for background commands, and nohup SIGHUP. A
    // handler that acts by default undoes that for the tests and their children.
    #[cfg(unix)]
    static HEARS: std::sync::Once = std::sync::Once::new();
    #[cfg(unix)]
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
    #[cfg(unix)]
    HEARS.call_once(|| {
        for signal in [SIGINT, SIGQUIT, SIGHUP] {
            let always = std::sync::Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_default(signal, always).expect("registered");
        }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpukern"));
    command.args(arguments).env("GPUKERN_DEVICE", "cpu").env("GPUKERN_TUNED", NOTHING_TUNED);
    // Tests neither use nor change the user's cache.
    command.env("GPUKERN_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    // Nor do they use the user's defaults and colors, and CI keeps no earlier results.
    command
        .env_remove("CI")
        .env("GPUKERN_CONFIG", "")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("COLUMNS");
    command
}

/// Options of a bench whose times do not matter: few samples, and no limits of the device.
const BRIEF: [&str; 3] = ["--no-peak", "--max-time=100ms", "--precision=50%"];

/// Returns the command of a bench with [`BRIEF`] options.
fn brief_bench(arguments: &[&str]) -> Command {
    let mut command = gpukern(&["bench"]);
    command.args(BRIEF).args(arguments);
    command
}

/// Returns `command` in a shell that first runs `limits`, such as `ulimit -t 5`.
#[cfg(unix)]
fn limited(limits: &str, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// Waits until `done`, with a time limit that only a hang exceeds.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks all `cases` at the same time, because they wait most of it.
fn at_once<T: Sync>(cases: &[T], check: impl Fn(&T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| check(case));
        }
    });
}

/// Returns the path of the journal for the record at `path`.
fn journal(path: &Path) -> PathBuf {
    path.with_extension("json.part")
}

/// Waits until the journal for the record at `path` is as `wanted`; `child` must not end before.
fn wait_for_journal(child: &mut Child, path: &Path, wanted: impl Fn(&str) -> bool) {
    wait_until("what the journal is to hold", || {
        assert!(child.try_wait().expect("a process").is_none(), "the run ended first");
        wanted(&std::fs::read_to_string(journal(path)).unwrap_or_default())
    });
}

/// Sends a signal to a process.
#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Returns a runner in this process, on the software device, that verifies cases without timing them.
fn verifier() -> Runner {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    let instance = Instance::new(Validation::Off, None).expect("a loader");
    let physical = instance.devices().expect("devices").into_iter().find(|device| !device.info.kind.is_gpu());
    let device = Device::open(&instance, &physical.expect("the software device"), false).expect("it opens");
    Runner::new(&CATALOGUE, &device, Timing::VerifyOnly, &CacheFolder::none(), &INTERRUPTED).expect("it starts")
}

/// Removes the findings of the canary from the record at `path`: other tests disturb its measurements.
fn forget_conditions(path: &Path) {
    let mut record = read_json(path);
    for case in record["cases"].as_array_mut().expect("cases") {
        case["outcome"].as_object_mut().expect("an outcome").remove("conditions");
    }
    std::fs::write(path, record.to_string()).expect("written");
}

/// Reads a JSON document.
fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("written")).expect("JSON")
}

/// Parses the record in `json`, and checks it against the published schema.
fn valid_record(json: &str) -> Value {
    let record: Value = serde_json::from_str(json).expect("JSON");
    check_schema(&record, include_str!("../../docs/record.schema.json"));
    record
}

/// Checks a document against a published schema.
fn check_schema(document: &Value, schema: &str) {
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<_> = validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Creates a temporary folder. Returns it with the path of a file in it.
fn temporary(file: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(file);
    (folder, path)
}

/// Starts `command` without output.
fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts")
}

/// Writes a manifest of the driver in `library` to `folder`. Returns its path.
fn driver_manifest(folder: &Path, library: &Path) -> PathBuf {
    let path = folder.join("driver.json");
    let icd = serde_json::json!({ "library_path": library, "api_version": "1.3.0" });
    let manifest = serde_json::json!({ "file_format_version": "1.0.0", "ICD": icd });
    std::fs::write(&path, manifest.to_string()).expect("written");
    path
}

/// Makes `drivers` the only ones that the Vulkan loader finds. Older loaders read `VK_ICD_FILENAMES`.
fn use_drivers<'a>(command: &'a mut Command, drivers: &OsStr) -> &'a mut Command {
    command.env("VK_DRIVER_FILES", drivers).env("VK_ICD_FILENAMES", drivers)
}

/// Returns SPIR-V with the first `count` operations `from` replaced by `to`.
fn patched(spirv: &[u8], from: u32, to: u32, count: usize) -> Vec<u8> {
    let mut words: Vec<u32> = spirv.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    // The header has five words; every instruction begins with its length and opcode.
    let (mut at, mut patches) = (5, 0);
    while at < words.len() && patches < count {
        let (length, opcode) = (words[at] >> 16, words[at] & 0xffff);
        if opcode == from {
            words[at] = length << 16 | to;
            patches += 1;
        }
        at += length as usize;
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the status of each case of a record.
fn statuses(record: &Value) -> Vec<&str> {
    let cases = record["cases"].as_array().expect("cases").iter();
    cases.map(|case| case["outcome"]["status"].as_str().expect("a status")).collect()
}

/// Variables that a command in this process reads from its host.
const VARIABLES: [&str; 15] = [
    "CLICOLOR_FORCE",
    "COLUMNS",
    "GPUKERN_BRANCH",
    "GPUKERN_CACHE",
    "GPUKERN_COMMIT",
    "GPUKERN_CONFIG",
    "GPUKERN_DEVICE",
    "GPUKERN_LABEL",
    "GPUKERN_LOADER",
    "GPUKERN_TUNED",
    "GPUKERN_VALIDATION",
    "NO_COLOR",
    "RADV_DEBUG",
    "GITHUB_SHA",
    "CI",
];

/// Returns whether `command` can run in this process: it is the binary, in this folder, without variables that the loader
/// or a layer reads.
fn runs_here(command: &Command) -> bool {
    let is_known = |name: &OsStr| VARIABLES.iter().any(|known| name == *known);
    command.get_program() == env!("CARGO_BIN_EXE_gpukern")
        && command.get_args().next() != Some(OsStr::new("capture"))
        && command.get_current_dir().is_none()
        && command.get_envs().all(|(name, _)| is_known(name))
}

/// Runs `command` in this process if it can.
fn run(command: &mut Command) -> Output {
    if !runs_here(command) {
        return command.output().expect("the binary starts");
    }
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => drop(variables.insert(name.into(), value.into())),
            None => drop(variables.remove(name)),
        }
    }
    let arguments = std::iter::once(command.get_program()).chain(command.get_args()).map(OsString::from);
    let mut host = Host::in_memory(arguments, variables, command.get_program());
    let code = gpukern::run(&mut host);
    let Printed { output, errors } = host.printed();
    let status = ExitStatus::from_raw(if cfg!(windows) { code.into() } else { u32::from(code) << 8 } as _);
    Output { status, stdout: output.into_bytes(), stderr: errors.into_bytes() }
}

/// Runs `command` in its own process, to test its streams.
fn run_process(command: &mut Command) -> Output {
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

/// Runs `command` and checks its exit code, and that standard error has all of `parts`.
fn expect_error(command: &mut Command, code: i32, parts: &[&str]) {
    let text = stderr(&expect_exit(command, code));
    check_parts(command, &text, parts);
}

/// Runs `command`, which must exit with code 2 and print nothing but an error. Checks that the error is all of `message`.
#[track_caller]
fn expect_refusal(command: &mut Command, message: &str) {
    let output = expect_exit(command, 2);
    assert_eq!(stdout(&output), "", "{command:?}");
    let said = stderr(&output);
    let error = said.lines().filter(|line| !line.starts_with("device 0: ")).collect::<Vec<_>>().join("\n");
    check_text(error.strip_prefix("error: ").unwrap_or(&error), message);
}

/// Checks a transcript: command lines that must be refused, each with its error, `@` for `folder`. A missing loader shows that
/// no device is opened.
#[track_caller]
fn expect_refusals(folder: &Path, transcript: &str) {
    let indent = transcript.trim_start_matches('\n').find('$').expect("a command");
    let lines: Vec<_> = transcript.lines().map(|line| line.get(indent..).unwrap_or_default()).collect();
    for refusal in lines.join("\n").split("$ gpukern ").skip(1) {
        let (line, message) = refusal.split_once('\n').expect("a message");
        let mut command = gpukern(&[]);
        command.args(line.split(' ').map(|word| within(folder, word))).env("GPUKERN_LOADER", "/nonexistent");
        expect_refusal(&mut command, message.trim_end());
    }
}

/// Runs `command` and checks its exit code, and that standard output has all of `parts`.
fn expect_output(command: &mut Command, code: i32, parts: &[&str]) {
    let text = stdout(&expect_exit(command, code));
    check_parts(command, &text, parts);
}

fn check_parts(command: &Command, text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{command:?} lacks '{part}':\n{text}");
    }
}

/// Checks all of a text, as [`steady`] makes it.
#[track_caller]
fn check_text(actual: &str, expected: &str) {
    assert_eq!(steady(actual), expected);
}

/// Returns an argument with the path of `folder` for each `@/`.
fn within(folder: &Path, argument: &str) -> String {
    argument.replace("@/", &format!("{}/", folder.display()))
}

/// Returns text without the differences between machines: `@` for a temporary folder, `gpukern` for the program, the
/// software device without versions, commands without what the environment adds, and `…` for long lists of names, so that
/// a new variant needs no change here.
fn steady(text: &str) -> String {
    let temporary = std::env::temp_dir().display().to_string();
    let folder = format!(r"{}[/\\]\.tmp\w{{6}}", regex_lite::escape(temporary.trim_end_matches(['/', '\\'])));
    let mut text = text.replace(env!("CARGO_BIN_EXE_gpukern"), "gpukern").replace(env!("CARGO_MANIFEST_DIR"), ".");
    for (pattern, by) in [
        (folder.as_str(), "@"),
        (r"llvmpipe \(LLVM [^)]*\)", "llvmpipe"),
        (r"Mesa [\d.]+(-\S+)?( \(LLVM [\d.]+\))?", "Mesa"),
        (r" \(os error \d+\)", ""),
        // Cargo sets it for tests, and commands to paste repeat it.
        (r"\bLD_LIBRARY_PATH=('[^']*'|\S*) ", ""),
        (r" --(tuned=\S*nothing-tuned\.toml|validation|cache-dir=[^ `]*)", ""),
        (r"([\w-]+, ){9,}[\w-]+|(`[\w-]+`, ){9,}`[\w-]+[`…]", "…"),
    ] {
        text = replaced(&text, pattern, by);
    }
    text
}

/// Returns text as [`steady`] does, with `#` for each decimal and each number that has a unit.
fn unmeasured(text: &str) -> String {
    let text = replaced(&steady(text), r"\d+(\.\d+)? (ns|µs|ms|s|min)\b", "# s");
    replaced(&text, r"\d+\.\d+(e-?\d+)?|\d+( %| rounds?\b)", "#$2")
}

fn replaced(text: &str, pattern: &str, by: &str) -> String {
    regex_lite::Regex::new(pattern).expect("a pattern").replace_all(text, by).into_owned()
}

/// Returns the line of `text` that begins with `start`.
#[track_caller]
fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no line begins '{start}':\n{text}"))
}

/// Joins the words of a text by single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
