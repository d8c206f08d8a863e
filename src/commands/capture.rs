//! `gpukern capture`: runs a program with the layer loaded into it, and prints the profile.

use super::document::{Document, Files, JSON, Target};
use super::{CommandOutput, interrupt};
use crate::basis::destination::{Scratch, make_private_folder};
use crate::basis::error::{Error, Exit};
use crate::basis::printable::{Shown, brief, ending, printable};
use crate::basis::threads::{CANNOT_START, explained};
use crate::basis::units::Nanos;
use crate::capture::case::select_dispatches;
use crate::capture::profile::{Profile, ProfiledProcess, SCHEMA, name_of};
use crate::capture::{self, trace};
use crate::commands::cli::CaptureArgs;
use crate::commands::host::Host;
use crate::commands::run::replay::{ConvertedCase, write_cases};
use crate::device::cache::{CacheFolder, LAYER_FOLDER, fingerprint};
use crate::engine::session::Setup;
use crate::report;
use crate::user::command_files;
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

pub(super) fn run(args: &CaptureArgs, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    let settings = settings(args)?;
    let program = &*args.program[0];
    files(args).check(host)?;
    let json = Target::open_if_named(JSON, args.json.as_ref())?;
    let trace = Target::open_if_named(TRACE, args.trace.as_ref())?;
    let page = Target::open_if_named(PAGE, args.page.as_ref())?;
    let failed = |e: io::Error| Error::Failure(format!("no folder for what the layer tells: {e}"));
    let scratch = scratch(args.output.as_deref())?;
    let folder = std::path::absolute(scratch.path()).map_err(failed)?;
    std::fs::write(folder.join(format::SETTINGS), format::settings(&settings)).map_err(failed)?;
    let layer = unpacked(&setup.cache, &folder)?;
    let mut command = Command::new(program);
    command.args(&args.program[1..]).env(format::FOLDER, &folder);
    load(&mut command, &layer, host);
    let start = host.elapsed();
    let status = interrupt::supervise(|| command.spawn().map_err(|e| cannot_start(program, &e)))?;
    let wall = Nanos::from(host.since(start));
    let processes = capture::read(&folder).map_err(|e| Error::Failure(format!("what the layer told: {e}")))?;
    let profile = profile(args, status, wall, &processes);
    if profile.devices().next().is_none() {
        return Ok(without_device(program, status, &processes));
    }
    let mut text = report::capture::text(&profile, args.top as usize, host.width());
    // Without the cases, the profile is still useful.
    let (mut failed, mut exit) = (None, Exit::Success);
    if let Some(output) = &args.output {
        match cases(args, &folder, output, &processes, setup, host) {
            Ok((said, all_verified)) => {
                text += &said;
                exit = if all_verified { exit } else { Exit::Rejected };
            }
            Err(error) => failed = Some(error),
        }
    }
    let mut answer = CommandOutput::new(text, String::new(), exit);
    answer.deliver_json(trace, &trace::trace(&profile));
    if let Some(target) = page {
        answer.deliver(target, &report::html::capture(&profile, args.top as usize));
    }
    answer.deliver_json(json, &profile);
    if let Some(error) = failed {
        answer.add_note(Err(error));
    }
    hand_on(&mut answer, program, status);
    Ok(answer)
}

/// Converts the arguments to the layer's settings.
fn settings(args: &CaptureArgs) -> Result<CaptureSettings, Error> {
    if let Some(pattern) = &args.kernel {
        regex_lite::Regex::new(pattern)
            .map_err(|e| Error::Usage(format!("--kernel '{}' is no regular expression: {e}", brief(pattern))))?;
    }
    let CaptureArgs { overlapped, kernel, call, every, max_bytes, .. } = args;
    let take = Take { kernel: kernel.clone(), call: *call, every: *every, max_bytes: max_bytes.0 };
    Ok(CaptureSettings { overlapped: *overlapped, take: args.output.as_ref().map(|_| take) })
}

fn files(args: &CaptureArgs) -> Files {
    // A program name without a folder is searched on the `PATH`.
    let program = Path::new(&args.program[0]);
    let words: Vec<_> = args.program.iter().map(|word| word.to_string_lossy()).collect();
    let named = command_files::files_of_arguments(words.iter().map(AsRef::as_ref), Path::new("."));
    let files = Files::default().read("the program", Some(program).filter(|program| program.components().count() > 1));
    let files = files.read("a file of the program", named);
    let files = files.written("--json", &args.json).written("--trace", &args.trace).written("--page", &args.page);
    files.reserved_folder("--output", args.output.as_deref())
}

/// Makes a private folder for the layer's files: next to the cases, if there are any, so that their contents need not
/// be copied to another disk.
fn scratch(cases: Option<&Path>) -> Result<Scratch, Error> {
    let Some(cases) = cases else {
        return Scratch::new().map_err(|e| Error::Failure(format!("no folder for what the layer tells: {e}")));
    };
    let refuse = |reason: String| {
        Error::Usage(format!("--output '{}': {reason}; choose a folder that is new or empty", cases.shown()))
    };
    make_private_folder(cases).map_err(|e| refuse(e.to_string()))?;
    match cases.read_dir().map(|mut entries| entries.next().is_some()) {
        Ok(false) => Scratch::inside(cases).map_err(|e| refuse(e.to_string())),
        Ok(true) => Err(refuse("it has files already".into())),
        Err(error) => Err(refuse(error.to_string())),
    }
}

/// Writes the captured dispatches as cases below `output`; returns a line for each, and whether every case was
/// verified.
fn cases(
    args: &CaptureArgs,
    spool: &Path,
    output: &Path,
    processes: &[Vec<LayerEvent>],
    setup: &Setup,
    host: &Host,
) -> Result<(String, bool), Error> {
    let called = |process: usize, pipeline: &format::PipelineInfo| name_of(&processes[process], pipeline);
    let chosen = select_dispatches(processes, Some(args.top as usize), &called);
    let (mut text, mut all_verified) = (String::new(), true);
    for ConvertedCase { name, folder, verified } in write_cases(&chosen, spool, output, Some((setup, host)))? {
        all_verified &= folder.is_none() || verified.is_ok();
        let shown = folder.as_deref().map_or_else(|| name.into(), |folder| folder.to_string_lossy());
        let what = match (&folder, verified) {
            (Some(_), Ok(())) => "verified".to_string(),
            (Some(_), Err(reason)) => format!("not verified: {reason}"),
            (None, Err(reason)) => format!("not captured: it {reason}"),
            (None, Ok(())) => String::new(),
        };
        let _ = writeln!(text, "{}  {}", printable(&shown), printable(&what));
    }
    Ok((if text.is_empty() { text } else { format!("\n{text}") }, all_verified))
}

/// Unpacks the layer and its manifest, to the cache or else to `folder`.
fn unpacked(cache: &CacheFolder, folder: &Path) -> Result<PathBuf, Error> {
    if LAYER.is_empty() {
        return Err(Error::Failure(
            "this gpukern was cross-compiled, and has no Vulkan layer to load into programs; build it on this machine"
                .into(),
        ));
    }
    let name = format!("{}{LAYER_NAME}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let below = format!("{LAYER_FOLDER}{}", fingerprint(&[LAYER]));
    let unpack = |cache: &CacheFolder| -> io::Result<PathBuf> {
        let library = cache.file_of(&below, &name, LAYER)?;
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
        let manifest = cache.file_of(&below, &format!("{LAYER_NAME}.json"), manifest.to_string().as_bytes())?;
        Ok(manifest.parent().unwrap_or(Path::new("/")).to_path_buf())
    };
    unpack(cache)
        .or_else(|_| unpack(&CacheFolder::new(Some(folder))))
        .map_err(|e| Error::Failure(format!("cannot unpack the Vulkan layer: {e}; name a folder with --cache-dir")))
}

/// Makes the program's loader load the layer in `folder`, before layers that the environment already names.
fn load(command: &mut Command, folder: &Path, host: &Host) {
    let mut put_first = |variable: &str, first: &OsStr| {
        let others = host.variable_os(variable).unwrap_or_default();
        let others =
            std::env::split_paths(others).filter(|other| !other.as_os_str().is_empty() && other != Path::new(first));
        if let Ok(all) = std::env::join_paths(std::iter::once(PathBuf::from(first)).chain(others)) {
            command.env(variable, all);
        }
    };
    put_first("VK_INSTANCE_LAYERS", OsStr::new(LAYER_NAME));
    put_first("VK_ADD_LAYER_PATH", folder.as_os_str());
    // If it is set, the loader searches no other folder.
    if host.variable_os("VK_LAYER_PATH").is_some_and(|path| !path.is_empty()) {
        put_first("VK_LAYER_PATH", folder.as_os_str());
    }
}

fn cannot_start(program: &OsStr, error: &io::Error) -> Error {
    let shown = program.to_string_lossy();
    if error.kind() == ErrorKind::WouldBlock {
        return Error::Failure(format!("{CANNOT_START} '{}': {}", brief(&shown), explained(error)));
    }
    let remedy = match error.kind() {
        ErrorKind::NotFound if Path::new(program).components().count() > 1 => "check the path".to_string(),
        ErrorKind::NotFound => format!("name a program in PATH, or give its path: ./{}", brief(&shown)),
        ErrorKind::PermissionDenied => "is it executable? chmod +x".to_string(),
        _ => "name a program, or an interpreter and a script: python infer.py".to_string(),
    };
    Error::Usage(format!("cannot start '{}': {error}; {remedy}", brief(&shown)))
}

fn profile(args: &CaptureArgs, status: ExitStatus, wall: Nanos, processes: &[Vec<LayerEvent>]) -> Profile {
    Profile {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        program: args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        ending: ending(status),
        wall,
        overlapped: args.overlapped,
        processes: processes.iter().map(|events| ProfiledProcess::of(events)).collect(),
    }
}

/// Explains why no process of the program created a device.
fn without_device(program: &OsStr, status: ExitStatus, processes: &[Vec<LayerEvent>]) -> CommandOutput {
    let why = if processes.is_empty() {
        "it does not use Vulkan, it runs with privileges that the loader does not pass layers to (setuid), or it is linked \
         with its own loader, which loads no layers; VK_LOADER_DEBUG=layer shows what the loader finds"
    } else {
        "it found no device, or ended before; `gpukern devices` lists what is here"
    };
    let mut answer = CommandOutput::new(String::new(), String::new(), Exit::Failure);
    answer.trouble = format!("error: '{}' created no Vulkan device: {why}\n", brief(&program.to_string_lossy()));
    hand_on(&mut answer, program, status);
    answer
}

/// Passes on the program's exit code.
fn hand_on(answer: &mut CommandOutput, program: &OsStr, status: ExitStatus) {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    #[cfg(unix)]
    let code = code.or(std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| 128 + signal as u8));
    let code = code.unwrap_or(Exit::Failure as u8);
    if status.code().is_none() {
        let (program, how) = (program.to_string_lossy(), ending(status));
        let _ = writeln!(answer.trouble, "note: '{}' ended: {how}; exit code {code}", brief(&program));
    }
    answer.program = Some(code).filter(|code| *code != 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_layer_is_unpacked_once_unless_altered() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = CacheFolder::new(Some(&folder.path().join("cache")));
        let layer = unpacked(&cache, folder.path()).expect("unpacked");
        let library = layer.join(format!("lib{LAYER_NAME}.so"));
        let manifest = std::fs::read(layer.join(format!("{LAYER_NAME}.json"))).expect("written");
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
        assert_eq!(manifest["layer"]["library_path"].as_str().map(Path::new), Some(&*library));
        assert!(library.is_absolute() && std::fs::read(&library).expect("written") == LAYER);
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().expect("there"));
        let first = inode(&library);
        assert_eq!(unpacked(&cache, folder.path()).expect("there"), layer);
        assert_eq!(inode(&library), first, "it was written again");
        std::fs::write(&library, "altered").expect("written");
        unpacked(&cache, folder.path()).expect("unpacked");
        assert!(std::fs::read(&library).expect("written") == LAYER);
        // Without a cache, the layer is unpacked next to the other temporary files.
        let layer = unpacked(&CacheFolder::none(), folder.path()).expect("unpacked");
        assert!(layer.starts_with(folder.path()), "{}", layer.display());
    }
}
