//! `gpukern capture`: runs a program with the layer loaded into it, and prints the profile.

use super::{CommandOutput, Document, Files, JSON, Target, interrupt};
use crate::basis::destination::{Scratch, make_private_folder};
use crate::basis::printable::{ending, shown_word};
use crate::basis::threads::{CANNOT_START, explained};
use crate::capture::case::{folder_name, select_dispatches, write_only_kernel};
use crate::capture::profile::{Profile, ProfiledProcess, SCHEMA, SharedEntries, name_of};
use crate::capture::{self, trace};
use crate::commands::cli::CaptureArgs;
use crate::commands::run::replay::{ConvertedCase, write_cases};
use crate::device::cache::{LAYER_FOLDER, fingerprint};
use crate::user::command_files;
use crate::{CacheFolder, Error, Exit, Host, Nanos, Result, Setup, Shown, brief, printable, report};
use gpukern_capture::LAYER;
use gpukern_layer::NAME as LAYER_NAME;
use gpukern_layer::format::{self, CaptureSettings, LayerEvent, Take};
use serde_json::json;
use std::ffi::OsStr;
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Function of the layer that the loader calls first.
const NEGOTIATE: &str = "vkNegotiateLoaderLayerInterfaceVersion";
/// Vulkan version that the layer supports.
const API_VERSION: &str = "1.3.290";

const TRACE: Document = ["a trace", "--trace"];
const PAGE: Document = ["a page", "--page"];

pub(super) fn run(args: &CaptureArgs, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    let new_folder = args.output.as_deref().filter(|folder| !folder.exists());
    let answer = capture_program(args, setup, host);
    // Only an empty folder can be removed: one without cases.
    let _ = new_folder.map(std::fs::remove_dir);
    answer
}

fn capture_program(args: &CaptureArgs, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    let settings = settings(args)?;
    let program = &*args.program[0];
    files(args).check(host)?;
    let json = Target::open_if_named(JSON, args.json.as_ref())?;
    let trace = Target::open_if_named(TRACE, args.trace.as_ref())?;
    let page = Target::open_if_named(PAGE, args.page.as_ref())?;
    let scratch = make_scratch(args.output.as_deref())?;
    let folder = std::path::absolute(scratch.path()).map_err(|e| no_folder(&e))?;
    std::fs::write(folder.join(format::SETTINGS), format::encode_settings(&settings)).map_err(|e| no_folder(&e))?;
    let layer = unpack_layer(&setup.cache, &folder)?;
    let mut command = Command::new(program);
    command.args(&args.program[1..]).env(format::FOLDER, &folder);
    load_layer(&mut command, &layer, host);
    let start = host.elapsed();
    let status = interrupt::supervise(|| command.spawn().map_err(|e| cannot_start(program, &e)))?;
    let wall = Nanos::from(host.since(start));
    let processes = capture::read(&folder).map_err(|e| Error::Failure(format!("what the layer told: {e}")))?;
    let profile = profile(args, status, wall, &processes);
    if profile.devices().next().is_none() {
        return Ok(without_device(program, status, &processes));
    }
    let mut text = report::capture::text(&profile, args.top as usize, host.width());
    let mut exit = Exit::Success;
    let mut failure = None;
    if let Some(output) = &args.output {
        match captured_cases(args, &folder, output, &processes, setup, host) {
            Ok(cases) => {
                exit = add_cases(&mut text, &cases);
                failure =
                    cases.iter().all(|case| case.folder.is_none()).then(|| nothing_captured(args, &profile, &cases));
            }
            // Without the cases, the profile is still useful.
            Err(error) => failure = Some(error),
        }
    }
    let mut answer = CommandOutput::new(text, String::new(), exit);
    answer.deliver_json(trace, &trace::trace(&profile));
    answer.deliver(page, || Ok(report::html::capture(&profile, args.top as usize)))?;
    answer.deliver_json(json, &profile);
    if let Some(error) = failure {
        answer.add_late_note(Err(error));
    }
    pass_on_exit_code(&mut answer, program, status);
    if !status.success() {
        note_unfinished(&mut answer, args.output.as_deref(), &processes);
    }
    Ok(answer)
}

/// Names the kernels that the driver was compiling when the program ended, and saves them below `output`.
fn note_unfinished(answer: &mut CommandOutput, output: Option<&Path>, processes: &[Vec<LayerEvent>]) {
    for events in processes {
        let shared = SharedEntries::of(events);
        for (number, pipeline) in capture::unfinished(events).enumerate() {
            let name = name_of(events, &shared, pipeline, None);
            let folder = output.map(|output| output.join(format!("compiling-{}", folder_name(number + 1, &name))));
            let saved = folder.as_deref().map(|folder| write_only_kernel(pipeline, &name, folder));
            let rest = match (folder, saved) {
                (Some(folder), Some(Ok(()))) => {
                    format!(": `gpukern inspect {}` compiles it again", shown_word(&folder.shown()))
                }
                (_, Some(Err(reason))) => format!("; it is not saved: {reason}"),
                _ => "; --output DIR saves it".into(),
            };
            let name = brief(&name);
            let _ = writeln!(answer.late_notes, "note: the driver was compiling '{name}' when the program ended{rest}");
        }
    }
}

fn no_folder(error: &io::Error) -> Error {
    Error::Failure(format!("no folder for what the layer tells: {error}"))
}

fn settings(args: &CaptureArgs) -> Result<CaptureSettings> {
    if let Some(pattern) = &args.kernel {
        regex_lite::Regex::new(pattern)
            .map_err(|e| usage!("--kernel '{}' is no regular expression: {e}", brief(pattern)))?;
    }
    let CaptureArgs { overlapped, sample, kernel, call, every, max_bytes, .. } = args;
    let take = Take { kernel: kernel.clone(), call: *call, every: *every, max_bytes: max_bytes.0 };
    Ok(CaptureSettings { overlapped: *overlapped, sample: *sample, take: args.output.as_ref().map(|_| take) })
}

/// Returns the files of the command: the program with those that its arguments name, and the outputs.
fn files(args: &CaptureArgs) -> Files {
    let program = Path::new(&args.program[0]);
    // A program name without a folder is searched on the `PATH`.
    let has_folder = program.components().count() > 1;
    let words: Vec<_> = args.program.iter().map(|word| word.to_string_lossy()).collect();
    let argument_files = command_files::files_of_arguments(words.iter().map(AsRef::as_ref), Path::new("."));
    Files::default()
        .read("the program", has_folder.then_some(program))
        .read("a file of the program", argument_files)
        .written("--json", &args.json)
        .written("--trace", &args.trace)
        .written("--page", &args.page)
        .reserved_folder("--output", args.output.as_deref())
}

/// Makes a private folder for the layer's files: next to the cases, if there are any, so that their contents need not
/// be copied to another disk.
fn make_scratch(cases: Option<&Path>) -> Result<Scratch> {
    let Some(cases) = cases else { return Scratch::new().map_err(|e| no_folder(&e)) };
    let make = || {
        make_private_folder(cases)?;
        if cases.read_dir()?.next().is_some() {
            return Err(io::Error::other("it has files already"));
        }
        Scratch::inside(cases)
    };
    make().map_err(|reason| usage!("--output '{}': {reason}; choose a folder that is new or empty", cases.shown()))
}

/// Writes the captured dispatches as cases below `output`.
fn captured_cases(
    args: &CaptureArgs,
    spool: &Path,
    output: &Path,
    processes: &[Vec<LayerEvent>],
    setup: &Setup,
    host: &Host,
) -> Result<Vec<ConvertedCase>> {
    let shared: Vec<_> = processes.iter().map(|events| SharedEntries::of(events)).collect();
    let kernel_name = |process: usize, pipeline: &format::PipelineInfo, label: Option<&str>| {
        name_of(&processes[process], &shared[process], pipeline, label)
    };
    let dispatches = select_dispatches(processes, Some(args.top as usize), &kernel_name);
    write_cases(&dispatches, spool, output, setup, host)
}

/// Adds a line for each case to `text`. Returns `Rejected` if one did not repeat.
fn add_cases(text: &mut String, cases: &[ConvertedCase]) -> Exit {
    if !cases.is_empty() {
        text.push('\n');
    }
    let mut exit = Exit::Success;
    for ConvertedCase { name, folder, unverified } in cases {
        let subject = folder.as_deref().map_or_else(|| name.as_str().into(), |folder| folder.to_string_lossy());
        let result = match unverified {
            None => "repeats".to_string(),
            Some(reason) if folder.is_some() => {
                exit = Exit::Rejected;
                format!("does not repeat: {reason}")
            }
            Some(reason) => format!("not captured: it {reason}"),
        };
        let _ = writeln!(text, "{}  {}", printable(&subject), printable(&result));
    }
    exit
}

/// Returns the error for a program of which no dispatch became a case, with the reason.
fn nothing_captured(args: &CaptureArgs, profile: &Profile, cases: &[ConvertedCase]) -> Error {
    let reason = if profile.devices().all(|(_, device)| device.dispatches == 0) {
        "the program ran no dispatches".to_string()
    } else if !cases.is_empty() {
        "the reasons are below the profile".to_string()
    } else if args.kernel.is_none() && args.call == 1 {
        "`run` can take none of its kernels, for the reasons in the profile".to_string()
    } else {
        "no kernel in the profile that `run` can take fits --kernel and --call".to_string()
    };
    Error::Failure(format!("captured no case: {reason}"))
}

/// Unpacks the layer and its manifest, to the cache or else to `folder`. Returns their folder.
fn unpack_layer(cache: &CacheFolder, folder: &Path) -> Result<PathBuf> {
    if LAYER.is_empty() {
        return Err(Error::Failure(
            "this gpukern was cross-compiled, and has no Vulkan layer to load into programs; build it on this machine"
                .into(),
        ));
    }
    unpack_into(cache)
        .or_else(|_| unpack_into(&CacheFolder::new(Some(folder))))
        .map_err(|e| Error::Failure(format!("cannot unpack the Vulkan layer: {e}; name a folder with --cache-dir")))
}

/// Writes the layer and its manifest to a cache. Returns their folder.
fn unpack_into(cache: &CacheFolder) -> io::Result<PathBuf> {
    let folder = format!("{LAYER_FOLDER}{}", fingerprint(&[LAYER]));
    let name = format!("{}{LAYER_NAME}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = cache.file_of(&folder, &name, LAYER)?;
    let manifest = json!({
        "file_format_version": "1.1.0",
        "layer": {
            "name": LAYER_NAME,
            "type": "GLOBAL",
            "library_path": library.to_str().ok_or_else(|| io::Error::other("its path is not UTF-8"))?,
            "api_version": API_VERSION,
            "implementation_version": "1",
            "description": "Tells gpukern what a program does",
            "functions": { NEGOTIATE: NEGOTIATE },
        },
    });
    let manifest = cache.file_of(&folder, &format!("{LAYER_NAME}.json"), manifest.to_string().as_bytes())?;
    Ok(manifest.parent().unwrap_or(Path::new("/")).to_path_buf())
}

/// Makes the program's loader load the layer in `folder`, before layers that the environment already names.
fn load_layer(command: &mut Command, folder: &Path, host: &Host) {
    put_first(command, "VK_INSTANCE_LAYERS", Path::new(LAYER_NAME), host);
    put_first(command, "VK_ADD_LAYER_PATH", folder, host);
    // If this variable is set, the loader searches no other folder.
    if host.variable_os("VK_LAYER_PATH").is_some_and(|path| !path.is_empty()) {
        put_first(command, "VK_LAYER_PATH", folder, host);
    }
}

/// Puts `first` before the other entries of a variable that is a list of paths.
pub(super) fn put_first(command: &mut Command, variable: &str, first: &Path, host: &Host) {
    let value = host.variable_os(variable).unwrap_or_default();
    let mut paths: Vec<_> = std::env::split_paths(value).collect();
    paths.retain(|path| !path.as_os_str().is_empty() && path != first);
    paths.insert(0, first.to_path_buf());
    if let Ok(value) = std::env::join_paths(paths) {
        command.env(variable, value);
    }
}

/// Returns the error for a program that cannot be started, with a remedy.
fn cannot_start(program: &OsStr, error: &io::Error) -> Error {
    let name = program.to_string_lossy();
    if error.kind() == ErrorKind::WouldBlock {
        return Error::Failure(format!("{CANNOT_START} '{}': {}", brief(&name), explained(error)));
    }
    let remedy = match error.kind() {
        ErrorKind::NotFound if Path::new(program).components().count() > 1 => "check the path".to_string(),
        ErrorKind::NotFound => format!("name a program in PATH, or give its path: ./{}", brief(&name)),
        ErrorKind::PermissionDenied => "is it executable? chmod +x".to_string(),
        _ => "name a program, or an interpreter and a script: python infer.py".to_string(),
    };
    let reason = if error.kind() == ErrorKind::NotFound { "no such program".into() } else { error.to_string() };
    usage!("cannot start '{}': {reason}; {remedy}", brief(&name))
}

fn profile(args: &CaptureArgs, status: ExitStatus, wall: Nanos, processes: &[Vec<LayerEvent>]) -> Profile {
    Profile {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        program: args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        ending: ending(status),
        wall,
        overlapped: args.overlapped,
        sample: args.sample,
        processes: processes.iter().map(|events| ProfiledProcess::of(events)).collect(),
    }
}

/// Explains why no process of the program created a device.
fn without_device(program: &OsStr, status: ExitStatus, processes: &[Vec<LayerEvent>]) -> CommandOutput {
    let why = if processes.is_empty() {
        "it does not use Vulkan, it runs with privileges that the loader does not pass layers to (setuid), or it has its own \
         loader, which loads no layers (ncnn's opens the driver that VK_DRIVER_FILES or VK_ICD_FILENAMES names: unset them \
         and put the manifest into /etc/vulkan/icd.d); VK_LOADER_DEBUG=layer shows what the loader finds"
    } else {
        "it found no device, or ended before; `gpukern devices` lists what is here"
    };
    let mut answer = CommandOutput::new(String::new(), String::new(), Exit::Failure);
    answer.late_notes = format!("error: '{}' created no Vulkan device: {why}\n", brief(&program.to_string_lossy()));
    pass_on_exit_code(&mut answer, program, status);
    answer
}

/// Makes the program's exit code that of this command: 128 and the signal if a signal ended it, as in a shell.
pub(super) fn pass_on_exit_code(answer: &mut CommandOutput, program: &OsStr, status: ExitStatus) {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    #[cfg(unix)]
    let code = code.or(std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| 128 + signal as u8));
    let code = code.unwrap_or(Exit::Failure as u8);
    if status.code().is_none() {
        let name = program.to_string_lossy();
        let _ = writeln!(answer.late_notes, "note: '{}' ended: {}; exit code {code}", brief(&name), ending(status));
    }
    answer.program_exit = Some(code).filter(|code| *code != 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_layer_is_unpacked_once_unless_altered() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = CacheFolder::new(Some(&folder.path().join("cache")));
        let layer = unpack_layer(&cache, folder.path()).expect("unpacked");
        let library = layer.join(format!("lib{LAYER_NAME}.so"));
        let manifest = std::fs::read(layer.join(format!("{LAYER_NAME}.json"))).expect("written");
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
        assert_eq!(manifest["layer"]["library_path"].as_str().map(Path::new), Some(&*library));
        assert!(library.is_absolute() && std::fs::read(&library).expect("written") == LAYER);
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().expect("there"));
        let first = inode(&library);
        assert_eq!(unpack_layer(&cache, folder.path()).expect("it is kept"), layer);
        assert_eq!(inode(&library), first, "it was written again");
        std::fs::write(&library, "altered").expect("written");
        unpack_layer(&cache, folder.path()).expect("unpacked");
        assert!(std::fs::read(&library).expect("written") == LAYER);
        // Without a cache, the layer is unpacked next to the other temporary files.
        let layer = unpack_layer(&CacheFolder::none(), folder.path()).expect("unpacked");
        assert!(layer.starts_with(folder.path()), "{}", layer.display());
    }
}
