//! Compiles users' sources to SPIR-V: GLSL by shaderc, WGSL by naga, Slang and HLSL by their compilers if these are on
//! the PATH.

use super::entry::{chosen, isolate, resize};
use super::front_end;
use super::loaded::bytes;
use super::options::similar;
use crate::basis::destination::Scratch;
use crate::basis::input_file;
use crate::basis::printable::{Shown, brief, excerpt};
use crate::basis::threads::{CANNOT_START, explained};
use crate::basis::units::{Bytes, counted};
use crate::kernel::instructions::{HEADER, MAGIC};
use crate::kernel::interface::{Interface, Scalar, SpecConstant};
use crate::kernel::spirv::MAX_FILE_BYTES;
use crate::process::guarded::{self, ProgramEnd};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Source file and its compiler options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct KernelSource {
    pub path: PathBuf,
    /// Entry point; by default `main` or the only one.
    pub entry: Option<String>,
    /// Folders that `#include` searches after the file's own.
    pub include: Vec<PathBuf>,
    /// Macros with their values.
    pub define: Vec<(String, String)>,
    /// Whether to compile for Vulkan 1.3 instead of 1.2.
    pub newest: bool,
    /// Work-group size, if the source leaves it to the host.
    pub local_size: Option<[u32; 3]>,
    /// Whether the SPIR-V has debug information with source lines.
    pub lines: bool,
}

/// Result of a compilation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Compiled {
    source: KernelSource,
    pub(super) spirv: Vec<u32>,
    /// Names of variables that are declared but never used, and therefore not in the SPIR-V.
    pub(super) unused: Vec<String>,
    /// Source file and its includes.
    pub(super) files: Vec<PathBuf>,
    /// Overrides of WGSL, whose values are compiled into the SPIR-V.
    pub(super) overrides: Vec<Override>,
    /// Work-group size of WGSL, which may depend on overrides.
    pub(super) local_size: Option<[u32; 3]>,
    /// Results for other values of the overrides, by these values.
    #[serde(skip)]
    specialized: Mutex<BTreeMap<String, Arc<Compiled>>>,
}

/// Override of WGSL, in a form that the compiler's process can send.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Override {
    pub name: String,
    pub id: u32,
    #[serde(with = "ScalarAcross")]
    scalar: Scalar,
    /// Bits of the value in the SPIR-V.
    pub value: u64,
    pub fallback: Fallback,
}

/// Where the value of an override comes from if none is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fallback {
    /// The source.
    Default,
    /// Other overrides.
    Derived,
    /// Nowhere: the SPIR-V has a guess.
    Missing,
    /// Nowhere, and the entry point does not use it.
    Unused,
}

/// Serde implementation for [`Scalar`], which the build script compiles without serde.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Scalar")]
enum ScalarAcross {
    Bool,
    Int { bits: u32, signed: bool },
    Float { bits: u32 },
    Bfloat16,
}

/// Validated WGSL module.
#[derive(Debug)]
struct Wgsl {
    /// Source and its text, from which the module was parsed.
    source: KernelSource,
    text: String,
    module: naga::Module,
    info: naga::valid::ModuleInfo,
    entry: String,
}

/// GLSL compiler. It stays alive because it caches the built-in declarations of a GLSL version, which take longer to
/// parse than most kernels.
static COMPILER: LazyLock<Result<shaderc::Compiler, shaderc::Error>> = LazyLock::new(shaderc::Compiler::new);

/// Options of slangc and dxc that give the registers `b0`, `t0` and `u0` bindings of their own.
const REGISTER_SHIFTS: [&str; 9] =
    ["-fvk-b-shift", "0", "all", "-fvk-t-shift", "100", "all", "-fvk-u-shift", "200", "all"];

/// File extensions of supported languages.
pub const ENDINGS: [&str; 6] = ["comp", "glsl", "spv", "wgsl", "slang", "hlsl"];

/// Refuses GLSL versions without compute shaders for Vulkan: for some the compiler prints all its built-in
/// declarations, for others it blames unrelated lines.
fn check_version(source: &str) -> Result<(), String> {
    let directive = |line: &str| {
        let version = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("version")?;
        let version = version.split("//").next()?.split("/*").next()?;
        Some(version.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let version = source.lines().find_map(directive);
    let version = version.ok_or("it has no `#version`; make `#version 460` its first line")?;
    let number = version.strip_suffix(" core").unwrap_or(&version);
    match (number, &*version) {
        ("420" | "430" | "440" | "450" | "460", _) | (_, "310 es" | "320 es") => Ok(()),
        _ => Err(format!("its `#version {}` has no compute shaders for Vulkan; write `#version 460`", brief(&version))),
    }
}

impl KernelSource {
    /// Says that the file cannot be read, with a remedy if a description names its own folder.
    fn unreadable(&self, reason: &dyn fmt::Display) -> String {
        let text = format!("cannot read '{}': {reason}", self.path.shown());
        let name = self.path.file_name().unwrap_or_default();
        let beside = self.path.parent().and_then(Path::parent).map(|folder| folder.join(name));
        match beside.filter(|path| path.exists()) {
            Some(_) => format!("{text}; paths are relative to the description's folder: '{}'", Path::new(name).shown()),
            None if self.path.exists() => text,
            None if self.path.to_string_lossy().contains("examples/public/") => {
                format!("{text}; `scripts/corpus` fetches the public kernels")
            }
            None => similar(&self.path).map_or_else(|| text.clone(), |question| format!("{text}; {question}")),
        }
    }

    /// Compiles the source with these values of WGSL overrides. Errors are the compiler's messages, with file and line.
    pub(crate) fn compile(&self, overrides: &[(String, f64)]) -> Result<Compiled, String> {
        let compiled = match self.ending() {
            "comp" | "glsl" | "wgsl" => front_end::compile(self, overrides),
            "spv" => self.bytes().and_then(|bytes| self.check_spirv(&bytes, self.entry.as_deref())),
            "slang" => self.compile_by_program(&["slangc"]),
            "hlsl" => self.compile_by_program(&["dxc", "slangc"]),
            _ if self.path.is_dir() => Err(format!("{} is a folder; name a file", self.path.shown())),
            _ if !self.path.exists() => Err(self.unreadable(&"no such file")),
            "foz" => Err(format!(
                "{}: a Fossilize archive has pipelines, but no buffers and grids to run them with; `gpukern inspect` compiles them",
                self.path.shown()
            )),
            _ => {
                let known = ENDINGS.map(|ending| format!(".{ending}")).join(", ");
                Err(format!(
                    "{}: gpukern does not know this extension; a kernel ends in {known}, a description in .toml",
                    self.path.shown()
                ))
            }
        };
        // Compilers repeat the path as they received it, unescaped.
        compiled.map_err(|reason| reason.replace(&*self.path.to_string_lossy(), &self.path.shown()))
    }

    /// Returns the extension.
    fn ending(&self) -> &str {
        self.path.extension().and_then(|ending| ending.to_str()).unwrap_or_default()
    }

    /// Compiles GLSL or WGSL on the current stack, which deeply nested sources may overflow.
    pub(super) fn compile_here(&self, overrides: &[(String, f64)]) -> Result<Compiled, String> {
        if self.ending() != "wgsl" {
            return self.compile_glsl();
        }
        self.wgsl()?.compile(overrides).map_err(|e| format!("{}: {e}", self.path.shown()))
    }

    /// Makes the result of a compilation without includes and overrides.
    fn compiled(&self, spirv: Vec<u32>, unused: Vec<String>) -> Compiled {
        let files = vec![self.path.clone()];
        let specialized = Mutex::default();
        Compiled { source: self.clone(), spirv, unused, files, overrides: vec![], local_size: None, specialized }
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        input_file::read(&self.path, MAX_FILE_BYTES as u64).map_err(|e| self.unreadable(&e))
    }

    fn text(&self) -> Result<String, String> {
        String::from_utf8(self.bytes()?).map_err(|_| format!("{}: it is not UTF-8 text", self.path.shown()))
    }

    /// Checks SPIR-V and isolates an entry point as `main`; without a name the only one.
    fn check_spirv(&self, bytes: &[u8], entry: Option<&str>) -> Result<Compiled, String> {
        let shown = self.path.shown();
        if !bytes.len().is_multiple_of(4) {
            return Err(format!(
                "{shown}: it has {} bytes, which is not a multiple of 4, so it is not SPIR-V; compile it again",
                bytes.len()
            ));
        }
        let words: Vec<u32> =
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
        if words.len() < HEADER || words[0] != MAGIC {
            return Err(format!("{shown}: it is not SPIR-V; give it the extension of its language, or compile it"));
        }
        let (spirv, unused) = isolate(&words, entry, self.lines).map_err(|reason| format!("{shown}: {reason}"))?;
        Ok(self.compiled(spirv, unused))
    }

    fn compile_glsl(&self) -> Result<Compiled, String> {
        let shown = self.path.display().to_string();
        let source = self.text()?;
        check_version(&source).map_err(|reason| format!("{}: {reason}", self.path.shown()))?;
        if let Some(entry) = self.entry.as_deref().filter(|name| *name != "main") {
            return Err(format!("{shown}: GLSL begins at main, not at '{}'; leave `entry` out", brief(entry)));
        }
        if [&source, &shown].iter().any(|text| text.contains('\0')) {
            return Err(format!("{shown}: it contains a zero byte, so it is not text; save it as UTF-8"));
        }
        let includes = RefCell::new(Includes::default());
        let spirv = self.run_shaderc(&source, &shown, &includes);
        let includes = includes.into_inner();
        if let Some(reason) = includes.refused {
            return Err(format!("{shown}: {reason}"));
        }
        let mut words = spirv?;
        if let Some(size) = self.local_size {
            resize(&mut words, size).map_err(|reason| format!("{shown}: {reason}"))?;
        }
        let (spirv, unused) = isolate(&words, None, self.lines).map_err(|reason| format!("{shown}: {reason}"))?;
        let mut compiled = self.compiled(spirv, unused);
        compiled.files.extend(includes.files);
        Ok(compiled)
    }

    /// Compiles GLSL by shaderc, which calls back for each include. `shown` is the path in its messages.
    fn run_shaderc(&self, source: &str, shown: &str, includes: &RefCell<Includes>) -> Result<Vec<u32>, String> {
        let failed = |e: &shaderc::Error| format!("shaderc does not start: {e}");
        let compiler = COMPILER.as_ref().map_err(failed)?;
        let mut options = shaderc::CompileOptions::new().map_err(|e| failed(&e))?;
        let (vulkan, version) = if self.newest || source.lines().any(|line| line == "#pragma vulkan 1.3") {
            (shaderc::EnvVersion::Vulkan1_3, shaderc::SpirvVersion::V1_6)
        } else {
            (shaderc::EnvVersion::Vulkan1_2, shaderc::SpirvVersion::V1_5)
        };
        options.set_target_env(shaderc::TargetEnv::Vulkan, vulkan as u32);
        options.set_target_spirv(version);
        if self.lines {
            options.set_generate_debug_info();
        }
        for (name, value) in &self.define {
            options.add_macro_definition(name, Some(value));
        }
        options.set_include_callback(|requested, kind, from, depth| {
            let mut includes = includes.borrow_mut();
            // glslang retries a refused include for each file that is open.
            if let Some(reason) = &includes.refused {
                return Err(reason.clone());
            }
            let (path, content) = self.read_include(requested, kind, from)?;
            let entered = includes.enter(&simplified(self.path.clone()), path.clone(), depth, content.len());
            entered.inspect_err(|reason| includes.refused = Some(reason.clone()))?;
            Ok(shaderc::ResolvedInclude { resolved_name: path.display().to_string(), content })
        });
        let artifact = compiler.compile_into_spirv(source, shaderc::ShaderKind::Compute, shown, "main", Some(&options));
        match artifact {
            Ok(artifact) => Ok(artifact.as_binary().to_vec()),
            Err(shaderc::Error::CompilationError(_, text)) => Err(brief_errors(&text, source, shown)),
            // shaderc catches failed allocations.
            Err(shaderc::Error::InternalError(_)) => {
                Err(format!("{shown}: its compiler ran out of memory or failed; split it into smaller parts"))
            }
            Err(other) => Err(format!("{shown}: {other}")),
        }
    }

    /// Finds the file that `requested` names, and reads it.
    fn read_include(
        &self,
        requested: &str,
        kind: shaderc::IncludeType,
        from: &str,
    ) -> Result<(PathBuf, String), String> {
        let own_folder = Path::new(from).parent().filter(|_| matches!(kind, shaderc::IncludeType::Relative));
        let folders = own_folder.into_iter().chain(self.include.iter().map(PathBuf::as_path));
        let mut tried = vec![];
        for folder in folders {
            let path = simplified(folder.join(requested));
            if path.is_file() {
                let text = input_file::read_text(&path).map_err(|e| format!("{}: {e}", path.shown()))?;
                return Ok((path, text));
            }
            tried.push(path.shown());
        }
        let tried = if tried.is_empty() { "no folder".to_string() } else { tried.join(", ") };
        Err(format!("cannot find '{requested}': looked for {tried}; add its folder with -I or `include`"))
    }

    /// Returns the parsed module. The last one is cached, because each choice of overrides needs it.
    fn wgsl(&self) -> Result<Arc<Wgsl>, String> {
        static LAST: Mutex<Option<Arc<Wgsl>>> = Mutex::new(None);
        let text = self.text()?;
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wgsl) = &*last
            && wgsl.source == *self
            && wgsl.text == text
        {
            return Ok(Arc::clone(wgsl));
        }
        let wgsl = Arc::new(self.parse_wgsl(text)?);
        *last = Some(Arc::clone(&wgsl));
        Ok(wgsl)
    }

    fn parse_wgsl(&self, text: String) -> Result<Wgsl, String> {
        let shown = self.path.shown();
        if let Some((name, _)) = self.define.first() {
            return Err(format!("{shown}: WGSL has no macros ('{name}'); declare an `override` and set it in `spec`"));
        }
        // naga gives no position for its own limits.
        let with_path = |message: String| {
            let message = message.trim_end().trim_start_matches("error: ");
            if message.contains(&shown) { message.to_string() } else { format!("{shown}: {message}") }
        };
        let module = naga::front::wgsl::parse_str(&without_subgroups(&text))
            .map_err(|e| with_path(e.emit_to_string_with_path(&text, &shown)))?;
        let flags = naga::valid::ValidationFlags::all();
        let info = naga::valid::Validator::new(flags, naga::valid::Capabilities::all())
            .validate(&module)
            .map_err(|e| with_path(e.emit_to_string_with_path(&text, &shown)))?;
        let kernels = module.entry_points.iter().filter(|entry| entry.stage == naga::ShaderStage::Compute);
        let names: Vec<&str> = kernels.map(|entry| entry.name.as_str()).collect();
        let entry = chosen(self.entry.as_deref(), &names).map_err(|reason| format!("{shown}: {reason}"))?;
        let entry = entry.to_string();
        Ok(Wgsl { source: self.clone(), text, module, info, entry })
    }

    /// Compiles with the first of these compilers that is on the PATH.
    fn compile_by_program(&self, compilers: &[&str]) -> Result<Compiled, String> {
        let shown = self.path.shown();
        for name in compilers {
            let Some(compiled) = self.run_compiler(name, &[])? else { continue };
            let interface = Interface::read(&bytes(&compiled.spirv));
            if interface.is_ok_and(|interface| interface.slots.iter().all(|slot| slot.blocks.len() == 1)) {
                return Ok(compiled);
            }
            return Ok(self.run_compiler(name, &REGISTER_SHIFTS)?.unwrap_or(compiled));
        }
        let names = compilers.join(" or ");
        let in_sdk = if compilers.len() > 1 { "both" } else { "it" };
        Err(format!(
            "{shown}: there is no {names} on the PATH to compile it; install the Vulkan SDK (vulkan.lunarg.com), which has \
             {in_sdk}, or compile it to SPIR-V yourself and name the .spv"
        ))
    }

    /// Compiles with the compiler `name` and these further options; returns `None` if it is not on the PATH.
    fn run_compiler(&self, name: &str, options: &[&str]) -> Result<Option<Compiled>, String> {
        let shown = self.path.shown();
        let scratch = Scratch::new().map_err(|e| format!("no folder for compiled kernels: {e}"))?;
        let output = scratch.path().join("kernel.spv");
        match guarded::run(&self.compiler_command(name, options, &output), &scratch, true) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                Err(format!("{CANNOT_START} {name}: {}", explained(&e)))
            }
            Err(e) => Err(format!("{shown}: {name} {e}")),
            Ok(ProgramEnd { failed: None, .. }) if output.is_file() => {
                let bytes = input_file::read(&output, MAX_FILE_BYTES as u64);
                let bytes = bytes.map_err(|e| format!("{shown}: what {name} wrote: {e}"))?;
                // slangc renames every entry point to `main`.
                self.check_spirv(&bytes, None).map(Some)
            }
            Ok(ProgramEnd { failed, said, .. }) => {
                let said = if said.trim().is_empty() { failed.unwrap_or("it wrote nothing".into()) } else { said };
                Err(format!("{shown}: {name}: {}", said.trim_end()))
            }
        }
    }

    /// Returns the command that starts slangc or dxc with these further options.
    fn compiler_command(&self, name: &str, options: &[&str], output: &Path) -> Command {
        let mut command = Command::new(name);
        let entry = self.entry.as_deref().unwrap_or("main");
        if name == "slangc" {
            command.args(["-target", "spirv", "-stage", "compute", "-entry", entry]).arg("-o").arg(output);
            command.args(self.lines.then_some("-g"));
        } else {
            let vulkan = if self.newest { "1.3" } else { "1.2" };
            command.args(["-spirv", "-T", "cs_6_6", "-E", entry]).arg(format!("-fspv-target-env=vulkan{vulkan}"));
            command.arg("-Fo").arg(output);
            command.args(self.lines.then_some("-fspv-debug=line"));
        }
        // A path that starts with `-` must not be read as an option, and after an empty one, as that of the current
        // folder is, `-I` would take the next argument.
        let here = Path::new(".");
        command.args(self.include.iter().map(|folder| format!("-I{}", here.join(folder).display())));
        command.args(self.define.iter().map(|(name, value)| format!("-D{name}={value}")));
        command.args(options).arg(here.join(&self.path));
        command
    }
}

impl Compiled {
    /// Returns the overrides of WGSL as specialization constants.
    pub(crate) fn overrides(&self) -> Vec<SpecConstant> {
        let constant = |Override { name, id, scalar, value, .. }| {
            let name = name.into();
            SpecConstant { name, id, scalar, default: value, is_ambiguous: false }
        };
        self.overrides.iter().cloned().map(constant).collect()
    }

    /// Compiles WGSL with these values of overrides.
    pub(crate) fn specialized(&self, overrides: &[(String, f64)]) -> Result<Arc<Compiled>, String> {
        let key = format!("{overrides:?}");
        let mut specialized = self.specialized.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = specialized.get(&key) {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(self.source.compile(overrides)?);
        specialized.insert(key, Arc::clone(&compiled));
        Ok(compiled)
    }
}

/// Most levels of nested includes.
const MAX_INCLUDE_DEPTH: usize = 100;
/// Maximum number of shaderc's lines that are told.
const MAX_ERRORS: usize = 8;
/// Marks the error of an include that is not there.
const NOT_FOUND: &str = "'#include' : cannot find ";
/// Most includes in total: they double at each level if each file includes two others.
const MAX_INCLUDES: usize = 10_000;
/// Most files of a deep chain of includes that a message names.
const MAX_SHOWN: usize = 8;

/// Includes of a source, with their nesting.
#[derive(Default)]
struct Includes {
    /// Files that are open: the one that the source includes, the one that this includes, and so on.
    open: Vec<PathBuf>,
    files: BTreeSet<PathBuf>,
    /// Number of includes and their total size; a repeated file counts each time.
    count: usize,
    bytes: usize,
    /// Reason why the last include was refused.
    refused: Option<String>,
}

/// Returns the first errors of shaderc, below the first one its line of the `source` that is called `shown`, after the one
/// above if a `;` or another token may be missing there. After an include that is not found, the others are about what
/// it declares.
fn brief_errors(text: &str, source: &str, shown: &str) -> String {
    let without_ending = |line: &'_ str| line.split(" for header name: ").next().unwrap_or_default().to_string();
    let mut errors: Vec<String> = text.trim_end().lines().map(without_ending).collect();
    if errors.iter().any(|error| error.contains(NOT_FOUND)) {
        errors.retain(|error| error.contains(NOT_FOUND));
    }
    if let Some(rest) = errors.len().checked_sub(MAX_ERRORS).filter(|rest| *rest > 0) {
        errors.truncate(MAX_ERRORS);
        errors.push(format!("and {}", counted(rest, "other line")));
    }
    let place = errors.first().and_then(|error| error.strip_prefix(shown)?.strip_prefix(':'));
    let number = place.and_then(|rest| rest.split(':').next()?.parse().ok());
    let is_code = |(_, line): &(usize, &str)| !line.is_empty();
    let mut lines = source.lines().map(str::trim).enumerate().take(number.unwrap_or(0)).collect::<Vec<_>>();
    // `#line` may number lines beyond those of the source.
    if let Some(line) = lines.pop().filter(|line| is_code(line) && Some(line.0 + 1) == number) {
        let misses_token = errors[0].contains("unexpected") && errors[0].contains("expecting");
        let above = lines.into_iter().rfind(is_code).filter(|_| misses_token);
        let shown = above.into_iter().chain([line]).map(|(index, line)| format!("  {} | {}", index + 1, excerpt(line)));
        errors.splice(1..1, shown);
    }
    errors.join("\n")
}

impl Includes {
    /// Adds a file that is included at this depth, which is 1 in `source` itself. Refuses deep nesting and too many
    /// includes, because glslang continues until memory is exhausted.
    fn enter(&mut self, source: &Path, path: PathBuf, depth: usize, bytes: usize) -> Result<(), String> {
        self.open.truncate(depth.saturating_sub(1));
        self.open.push(path.clone());
        self.bytes = self.bytes.saturating_add(bytes);
        self.count += 1;
        if depth > MAX_INCLUDE_DEPTH {
            return Err(self.too_deep(source));
        }
        let last = path.shown();
        if self.bytes > MAX_FILE_BYTES {
            let limit = Bytes(MAX_FILE_BYTES as u64);
            return Err(format!(
                "its includes add up to more than {limit}; the last was {last}: include each file once"
            ));
        }
        if self.count > MAX_INCLUDES {
            return Err(format!(
                "it includes files more than {MAX_INCLUDES} times, last {last}: include each file once"
            ));
        }
        self.files.insert(path);
        Ok(())
    }

    /// Returns the message for includes that are nested too deeply. It shows a cycle once.
    fn too_deep(&self, source: &Path) -> String {
        let chain: Vec<&Path> = std::iter::once(source).chain(self.open.iter().map(PathBuf::as_path)).collect();
        let repeated = (1..chain.len()).find(|index| chain[..*index].contains(&chain[*index]));
        let shown: Vec<_> = chain[..=repeated.unwrap_or(MAX_SHOWN)].iter().map(|file| file.shown()).collect();
        let problem = match repeated {
            Some(_) => "a file includes itself",
            None => "files include each other too deeply",
        };
        format!("{problem}: {}; {MAX_INCLUDE_DEPTH} levels are the most", shown.join(" > "))
    }
}

/// Simplifies `a/..` in a path, unless a symbolic link makes it a different file.
fn simplified(path: PathBuf) -> PathBuf {
    let mut short = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(short.components().next_back(), Some(Component::Normal(_))) => {
                short.pop();
            }
            other => short.push(other),
        }
    }
    match (short.canonicalize(), path.canonicalize()) {
        (Ok(file), Ok(original)) if file == original => short,
        _ => path,
    }
}

/// Blanks out `subgroups` in the `enable` directives at the head of WGSL, which naga refuses although it knows the
/// extension's functions. All else keeps its place, for messages.
fn without_subgroups(text: &str) -> String {
    let mut plain = text.to_string();
    let mut end = 0;
    loop {
        let mut tokens = vec![];
        while tokens.last().is_none_or(|last: &Range<usize>| &text[last.clone()] != ";") {
            let token = wgsl_token(text, end);
            let directive = &text[tokens.first().unwrap_or(&token).clone()];
            if token.is_empty() || !["enable", "requires", "diagnostic"].contains(&directive) {
                return plain;
            }
            end = token.end;
            tokens.push(token);
        }
        let is = |token: &Range<usize>, word: &str| &text[token.clone()] == word;
        let mut blank = |tokens: std::vec::Drain<'_, Range<usize>>| {
            for token in tokens {
                plain.replace_range(token.clone(), &" ".repeat(token.len()));
            }
        };
        while is(&tokens[0], "enable")
            && let Some(at) = tokens.iter().position(|token| is(token, "subgroups"))
        {
            // A list without this name has one comma less.
            let (before, after) = (is(&tokens[at - 1], ","), is(&tokens[at + 1], ","));
            blank(tokens.drain(if after { at..at + 2 } else { at - usize::from(before)..at + 1 }));
            if tokens.len() == 2 {
                blank(tokens.drain(..));
                break;
            }
        }
    }
}

/// Returns the place of the first token of WGSL from byte `at` on; empty at the end of the text.
fn wgsl_token(text: &str, mut at: usize) -> Range<usize> {
    loop {
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { return at..at };
        if rest.starts_with("//") {
            at += rest.find(['\n', '\u{b}', '\u{c}', '\r', '\u{85}', '\u{2028}', '\u{2029}']).unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            // Block comments nest.
            let mut depth = 1;
            at += 2;
            while depth > 0 && at < text.len() {
                let mark = &text.as_bytes()[at..text.len().min(at + 2)];
                at += if mark == b"/*" || mark == b"*/" { 2 } else { 1 };
                depth = if mark == b"/*" { depth + 1 } else { depth - usize::from(mark == b"*/") };
            }
        } else if first.is_whitespace() || ['\u{200e}', '\u{200f}'].contains(&first) {
            at += first.len_utf8();
        } else {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            return at..at + word.max(first.len_utf8());
        }
    }
}

/// Returns the bits of a global expression, if it is a literal, zero or a constant.
fn literal_bits(module: &naga::Module, expression: naga::Handle<naga::Expression>) -> Option<u64> {
    use naga::{Expression, Literal};
    let literal = match module.global_expressions[expression] {
        Expression::Literal(literal) => literal,
        Expression::Constant(constant) => return literal_bits(module, module.constants[constant].init),
        Expression::ZeroValue(_) => return Some(0),
        _ => return None,
    };
    Some(match literal {
        Literal::F64(value) => value.to_bits(),
        Literal::F32(value) => u64::from(value.to_bits()),
        Literal::F16(value) => u64::from(value.to_bits()),
        Literal::U32(value) => u64::from(value),
        Literal::I32(value) => u64::from(value.cast_unsigned()),
        Literal::U64(value) => value,
        Literal::I64(value) => value.cast_unsigned(),
        Literal::Bool(value) => u64::from(value),
        _ => return None,
    })
}

impl Wgsl {
    /// Lists the declared overrides. One without an id gets a number beyond those that WGSL allows.
    fn overrides(&self) -> Vec<Override> {
        let mut overrides = vec![];
        for (handle, declared) in self.module.overrides.iter() {
            // naga makes a nameless one of each expression that an array's length is.
            let Some(name) = declared.name.clone() else { continue };
            let scalar = match self.module.types[declared.ty].inner {
                naga::TypeInner::Scalar(scalar) => match (scalar.kind, u32::from(scalar.width) * 8) {
                    (naga::ScalarKind::Bool, _) => Scalar::Bool,
                    (naga::ScalarKind::Float, bits) => Scalar::Float { bits },
                    (naga::ScalarKind::Sint, bits) => Scalar::Int { bits, signed: true },
                    (_, bits) => Scalar::Int { bits, signed: false },
                },
                _ => Scalar::Int { bits: 32, signed: false },
            };
            let default = declared.init.map(|init| literal_bits(&self.module, init));
            let fallback = match default {
                None => Fallback::Missing,
                Some(None) => Fallback::Derived,
                Some(Some(_)) => Fallback::Default,
            };
            let id = declared.id.map_or(u32::from(u16::MAX) + 1 + handle.index() as u32, u32::from);
            overrides.push(Override { name, id, scalar, value: default.flatten().unwrap_or(0), fallback });
        }
        overrides
    }

    /// Compiles the entry point with these values of overrides, by name or id. A guess replaces a value that is missing.
    fn compile(&self, stated: &[(String, f64)]) -> Result<Compiled, String> {
        let mut overrides = self.overrides();
        let mut constants = naga::back::PipelineConstants::default();
        for Override { name, id, scalar, fallback, .. } in &overrides {
            let is_own = |(key, _): &&(String, f64)| key == name || key.parse() == Ok(*id);
            let guess = (*fallback == Fallback::Missing).then(|| guess(*scalar));
            if let Some(value) = stated.iter().find(is_own).map(|(_, value)| *value).or(guess) {
                let has_id = *id <= u16::MAX.into();
                constants.insert(if has_id { id.to_string() } else { name.clone() }, value);
            }
        }
        let entry = (naga::ShaderStage::Compute, self.entry.as_str());
        let (module, info) =
            naga::back::pipeline_constants::process_overrides(&self.module, &self.info, Some(entry), &constants)
                .map_err(|e| with_causes(&e))?;
        for own in &mut overrides {
            let used = module.overrides.iter().find(|(_, used)| used.name.as_ref() == Some(&own.name));
            match used {
                Some((_, used)) => own.value = used.init.and_then(|init| literal_bits(&module, init)).unwrap_or(0),
                None => own.fallback = Fallback::Unused,
            }
        }
        let spirv = self.spirv(&module, &info)?;
        let kernel = module.entry_points.iter().find(|entry| entry.name == self.entry);
        let local_size = kernel.map(|entry| entry.workgroup_size);
        Ok(Compiled { overrides, local_size, ..self.source.compiled(spirv, vec![]) })
    }

    /// Translates the module, in which overrides have become constants, to SPIR-V.
    fn spirv(&self, module: &naga::Module, info: &naga::valid::ModuleInfo) -> Result<Vec<u32>, String> {
        let lang_version = if self.source.newest { (1, 6) } else { (1, 5) };
        // Kernels have no inputs and outputs of 16 bits, for which naga would require a capability of the device.
        let use_storage_input_output_16 = false;
        let mut options = naga::back::spv::Options { lang_version, use_storage_input_output_16, ..Default::default() };
        options.flags |= naga::back::spv::WriterFlags::DEBUG;
        let file_name = self.source.path.display().to_string();
        options.debug_info = self.source.lines.then_some(naga::back::spv::DebugInfo {
            source_code: &self.text,
            file_name: &file_name,
            language: naga::back::spv::SourceLanguage::WGSL,
        });
        let pipeline = naga::back::spv::PipelineOptions {
            shader_stage: naga::ShaderStage::Compute,
            entry_point: self.entry.clone(),
        };
        let words = naga::back::spv::write_vec(module, info, &options, Some(&pipeline)).map_err(|e| with_causes(&e))?;
        // naga leaves out the names of unused variables.
        isolate(&words, Some(&self.entry), self.source.lines).map(|(module, _)| module)
    }
}

/// Returns a value for an override without a default: small, because three may be a work-group's extents.
fn guess(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::Bool => 1.0,
        Scalar::Int { .. } => 8.0,
        Scalar::Float { .. } | Scalar::Bfloat16 => 0.75,
    }
}

/// Formats an error with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let _ = write!(text, ": {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kernel::instructions::instructions;
    use crate::kernel::lines::Lines;
    use rspirv::spirv::Op;

    fn source(path: PathBuf) -> KernelSource {
        KernelSource { path, ..KernelSource::default() }
    }

    /// Compiles a kernel in a file that has this ending.
    pub(crate) fn compile_text(ending: &str, text: &str) -> Result<Compiled, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!("k.{ending}"));
        std::fs::write(&path, text).expect("written");
        source(path).compile(&[])
    }

    /// Compiles a kernel that includes the first of these files; returns the error, or the number of files.
    fn compile_with(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let path = folder.path().join("k.comp");
        let kernel = format!("#version 460\n#include \"{}\"\nvoid main() {{}}\n", files[0].0);
        std::fs::write(&path, kernel).expect("written");
        let text = source(path).compile(&[]).map_or_else(|e| e, |compiled| format!("{} files", compiled.files.len()));
        text.replace(&format!("{}/", folder.path().display()), "")
    }

    #[test]
    fn cyclic_includes_are_refused_with_the_cycle() {
        let of = |name: &str| format!("#include \"{name}\"\n");
        for (files, circle) in [
            (&[("a", &*of("b")), ("b", &of("a"))][..], "k.comp > a > b > a"),
            (&[("a", &of("a"))], "k.comp > a > a"),
            (&[("a", &of("k.comp"))], "k.comp > a > k.comp"),
        ] {
            assert_eq!(
                compile_with(files),
                format!("k.comp: a file includes itself: {circle}; 100 levels are the most")
            );
        }
        // Including a file twice is not a cycle.
        assert_eq!(compile_with(&[("a", "#include \"b\"\n#include \"b\"\n"), ("b", "")]), "3 files");
    }

    #[test]
    fn the_size_and_the_number_of_includes_are_limited() {
        let names: Vec<String> = (0..40).map(|at| format!("f{at}")).collect();
        for (padding, expected) in [
            (1 << 16, "its includes add up to more than 16 MiB; the last was f34: include each file once"),
            (0, "it includes files more than 10000 times, last f39: include each file once"),
        ] {
            let padding = "/".repeat(padding);
            let text = |at: usize| format!("//{padding}\n#include \"f{0}\"\n#include \"f{0}\"\n", at + 1);
            let texts: Vec<String> = (0..39).map(text).chain([String::new()]).collect();
            let files: Vec<_> = names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
            let start = std::time::Instant::now();
            assert_eq!(compile_with(&files), format!("k.comp: {expected}"));
            assert!(start.elapsed().as_secs() < 300, "{:?}", start.elapsed());
        }
    }

    #[test]
    fn paths_of_includes_are_simplified() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(of("a/b")).expect("made");
        std::fs::write(of("a/x"), "").expect("written");
        assert_eq!(simplified(of("a/b/../../a/./x")), of("a/x"));
        assert_eq!(simplified(of("a/no/../x")), of("a/no/../x"), "it does not exist");
        std::fs::write(of("a/b/y"), "#include \"../z\"\n").expect("written");
        std::fs::write(of("a/z"), "#include \"b/y\"\n").expect("written");
        let path = of("k.comp");
        std::fs::write(&path, "#version 460\n#include \"a/z\"\nvoid main() {}\n").expect("written");
        let said = source(path).compile(&[]).expect_err("a cycle");
        let said = said.replace(&format!("{}/", folder.path().display()), "");
        let circle = "k.comp > a/z > a/b/y > a/z";
        assert_eq!(said, format!("k.comp: a file includes itself: {circle}; 100 levels are the most"));
        // Behind a link, `..` is a different folder.
        #[cfg(unix)]
        {
            std::fs::create_dir_all(of("far/c")).expect("made");
            std::os::unix::fs::symlink(of("far/c"), of("link")).expect("linked");
            std::fs::write(of("far/x"), "").expect("written");
            assert_eq!(simplified(of("link/../x")), of("link/../x"));
        }
    }

    #[test]
    fn each_choice_of_overrides_is_compiled_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("k.wgsl");
        let text = "override N: u32 = 1; @group(0) @binding(0) var<storage, read_write> d: array<u32>;
            @compute @workgroup_size(N) fn main() { d[0] = N; }";
        std::fs::write(&path, text).expect("written");
        let compiled = source(path.clone()).compile(&[]).expect("WGSL");
        let choice = |value: f64| compiled.specialized(&[("N".into(), value)]).map(|compiled| compiled.spirv.clone());
        let first = choice(2.0).expect("compiled");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(choice(2.0), Ok(first));
        choice(3.0).expect_err("its source is gone");
    }

    #[test]
    fn a_line_that_may_lack_a_semicolon_is_shown_above_the_next() {
        let source = "void main() {\n  float x = 1.0\n\n  x += y;\n}";
        let expecting = "k.comp:4: error: '' : syntax error, unexpected IDENTIFIER, expecting COMMA or SEMICOLON";
        for (error, shown) in [
            (expecting, "  2 | float x = 1.0\n  4 | x += y;"),
            ("k.comp:4: error: 'y' : undeclared identifier", "  4 | x += y;"),
            ("k.comp:1: error: '' : syntax error, unexpected VOID, expecting X", "  1 | void main() {"),
        ] {
            assert_eq!(brief_errors(error, source, "k.comp"), format!("{error}\n{shown}"));
        }
        let renumbered = "k.comp:1004: error: 'y' : undeclared identifier";
        assert_eq!(brief_errors(renumbered, source, "k.comp"), renumbered);
    }

    #[test]
    fn a_missing_compiler_is_named() {
        // No program has these names.
        let hlsl = source("k.hlsl".into()).compile_by_program(&["no-such-dxc", "no-such-slangc"]);
        let hlsl = hlsl.expect_err("there is none");
        let slang = source("k.slang".into()).compile_by_program(&["no-such-slangc"]).expect_err("there is none");
        insta::assert_snapshot!(hlsl + "\n" + &slang, @"
        k.hlsl: there is no no-such-dxc or no-such-slangc on the PATH to compile it; install the Vulkan SDK (vulkan.lunarg.com), which has both, or compile it to SPIR-V yourself and name the .spv
        k.slang: there is no no-such-slangc on the PATH to compile it; install the Vulkan SDK (vulkan.lunarg.com), which has it, or compile it to SPIR-V yourself and name the .spv
        ");
    }

    #[test]
    fn no_option_of_a_compiler_has_an_empty_value() {
        let path = Path::new("k.hlsl").into();
        let define = vec![("SCALE".into(), "3".into())];
        let source = KernelSource { path, include: vec!["".into(), "inc".into()], define, ..KernelSource::default() };
        for name in ["slangc", "dxc"] {
            let command = source.compiler_command(name, &["-x"], Path::new("k.spv"));
            let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
            let expected = ["-I./", "-I./inc", "-DSCALE=3", "-x", "./k.hlsl"];
            assert_eq!(
                arguments.join(" ").replace('\\', "/").rsplit_once("k.spv ").expect("an output").1,
                expected.join(" ")
            );
        }
    }

    /// Registers of HLSL that would be one binding get their own, if the compiler's output shows that they are.
    #[test]
    #[cfg(unix)]
    fn registers_that_collide_are_shifted() {
        const SCRIPT: &str = "#!/bin/sh\nhere=${0%/*}\necho \"$@\" >> \"$here/log\"\nfile=once\n\
            case \"$*\" in *-fvk-u-shift\\ 200\\ all*) file=shifted;; esac\n\
            while [ \"$1\" != -Fo ]; do shift; done\ncp \"$here/$file.spv\" \"$2\"\n";
        let folder = tempfile::tempdir().expect("a folder");
        let of = |name: &str| folder.path().join(name);
        // A script that this process has open for writing could not be started.
        let mut writer = Command::new("sh");
        writer.args(["-c", "printf %s \"$1\" > \"$0\"; chmod +x \"$0\""]).arg(of("dxc")).arg(SCRIPT);
        assert!(writer.status().expect("a shell").success());
        let compiled = |kinds: [&str; 2], binding: u32| {
            let glsl = format!(
                "#version 460\nlayout(binding = 0) {} X {{ float x[4]; }};\n\
                 layout(binding = {binding}) {} Y {{ float y[4]; }};\nvoid main() {{ y[0] = x[0]; }}",
                kinds[0], kinds[1]
            );
            bytes(&crate::fixture::spirv(&glsl))
        };
        std::fs::write(of("shifted.spv"), compiled(["buffer", "buffer"], 200)).expect("written");
        for (kinds, binding, runs) in
            [(["buffer", "buffer"], 0, 2), (["uniform", "buffer"], 0, 2), (["buffer", "buffer"], 1, 1)]
        {
            std::fs::write(of("once.spv"), compiled(kinds, binding)).expect("written");
            let compiler = of("dxc").display().to_string();
            let compiled = source(of("k.hlsl")).compile_by_program(&[&compiler]).expect("it compiles");
            let interface = Interface::read(&bytes(&compiled.spirv)).expect("an interface");
            let bindings: Vec<u32> = interface.slots.iter().map(|slot| slot.binding).collect();
            assert_eq!(bindings, [0, if runs == 2 { 200 } else { 1 }], "{kinds:?}");
            let log = std::fs::read_to_string(of("log")).expect("the arguments");
            assert_eq!(log.lines().count(), runs, "{log}");
            std::fs::remove_file(of("log")).expect("removed");
        }
    }

    #[test]
    fn wgsl_may_enable_subgroups() {
        for (text, expected) in [
            ("enable subgroups;", "                 "),
            (
                "/* a /* b */ */ requires x; enable\n subgroups ; // subgroups",
                "/* a /* b */ */ requires x;       \n             // subgroups",
            ),
            ("enable f16, subgroups;", "enable f16           ;"),
            ("enable f16, subgroups,;", "enable f16,           ;"),
            ("enable subgroups/*,*/, f16;enable subgroups,;", "enable          /*,*/  f16;                  "),
            ("diagnostic(off, a.b); enable subgroups", "diagnostic(off, a.b); enable subgroups"),
            (
                "// enable subgroups;\nconst a = 1; enable subgroups;",
                "// enable subgroups;\nconst a = 1; enable subgroups;",
            ),
            ("/* enable subgroups;", "/* enable subgroups;"),
            ("// \u{e9}\u{2028}\u{200e}enable subgroups;\u{e9}", "// \u{e9}\u{2028}\u{200e}                 \u{e9}"),
            ("enable subgroups_x, subgroups, subgroups;", "enable subgroups_x                      ;"),
            ("requires subgroups;", "requires subgroups;"),
            ("enable", "enable"),
            ("", ""),
        ] {
            assert_eq!(without_subgroups(text), expected);
        }
        let kernel = "enable subgroups, f16;\n@group(0) @binding(0) var<storage, read_write> d: array<f16>;\n\
            @compute @workgroup_size(64) fn main() { d[0] = subgroupAdd(d[1]); }";
        let compiled = compile_text("wgsl", kernel).expect("it compiles");
        let interface = Interface::read(&bytes(&compiled.spirv)).expect("an interface");
        // The device needs no 16-bit inputs and outputs.
        assert!(!interface.capabilities.iter().any(|name| name == "StorageInputOutput16"), "{interface:?}");
        let error = compile_text("wgsl", &kernel.replace("d[1]", "e[1]")).expect_err("e is not declared");
        assert!(error.contains("k.wgsl:3:61"), "{error}");
    }

    #[test]
    fn bare_immediates_have_the_name_of_the_variable() {
        for (declared, value, expected) in [
            ("gain: f32", "gain", "gain 0"),
            ("size: vec3<f32>", "size.z", "size.x 0, size.y 4, size.z 8"),
            ("list: array<f32, 2>", "list[1]", "list[0] 0, list[1] 4"),
            ("p: P", "p.b", "a 0, b 4"),
            ("p: Q", "p.b", "b 0"),
        ] {
            let text = format!(
                "struct P {{ a: u32, b: f32 }}\nstruct Q {{ b: f32 }}\nvar<immediate> {declared};\n\
                 @group(0) @binding(0) var<storage, read_write> y: array<f32>;\n\
                 @compute @workgroup_size(4) fn main() {{ y[0] = {value}; }}"
            );
            let compiled = compile_text("wgsl", &text).expect(declared);
            let interface = Interface::read(&bytes(&compiled.spirv)).expect("an interface");
            let members: Vec<_> =
                interface.arguments.iter().map(|member| format!("{} {}", member.name, member.offset)).collect();
            assert_eq!(members.join(", "), expected);
        }
    }

    #[test]
    fn huge_wgsl_expressions_do_not_crash() {
        let head = "@group(0) @binding(0) var<storage, read_write> d: array<u32>;\n@compute @workgroup_size(1)";
        // As many levels overflow the 2 MiB stack of a test's thread. naga's time grows with their square.
        let many = |part: &str| part.repeat(6000);
        for body in [
            format!("d[0] = d[1]{};", many(" + 1u")),
            format!("d[0] = {}1u{};", many("d["), many("]")),
            format!("if d[0] == 0u {{ }} {}", many("else if d[0] == 1u { }")),
            format!("d[0] = {}1u{};", many("("), many(")")),
            format!("d[0] = {}d[1];", many("-")),
            format!("{}{}", many("{"), many("}")),
        ] {
            // naga refuses some of these as nested too deeply.
            if let Err(error) = compile_text("wgsl", &format!("{head} fn main() {{ {body} }}\n")) {
                assert!(error.contains("k.wgsl"), "{error}");
            }
        }
    }

    #[test]
    fn instructions_have_source_lines_on_request() {
        const GLSL: &str = "#version 460\n#extension GL_GOOGLE_include_directive : enable\n\
            layout(binding = 0) buffer D { uint d[]; };\nlayout(binding = 1) buffer Unused { uint unused[]; };\n\
            #include \"put.glsl\"\nvoid main() {\n    d[0] = 1;\n    put(3);\n}\n";
        const WGSL: &str = "@group(0) @binding(0) var<storage, read_write> d: array<u32>;\n\
            @compute @workgroup_size(1)\nfn main() {\n    d[0] = 1u;\n}\n";
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name, text| std::fs::write(folder.path().join(name), text).expect("written");
        write("put.glsl", "void put(uint i) {\n    d[i] = 2;\n}\n");
        for (name, text, expected) in [
            ("k.comp", GLSL, "k.comp:7 d[0] = 1;, k.comp:8 put(3);, put.glsl:2 d[i] = 2;"),
            ("k.wgsl", WGSL, "k.wgsl:4 d[0] = 1u;"),
        ] {
            write(name, text);
            let path = folder.path().join(name);
            let compiled = |lines| KernelSource { path: path.clone(), lines, ..KernelSource::default() }.compile(&[]);
            let [with, without] = [true, false].map(|lines| compiled(lines).expect("it compiles"));
            let lines = Lines::read(&with.spirv);
            let mut places = vec![];
            for store in instructions(&with.spirv).flatten().filter(|store| store.op() == Some(Op::Store)) {
                let (file, line) = lines.at(store.at).expect("a line");
                let name = file.rsplit(['/', '\\']).next().unwrap_or_default();
                places.push(format!("{name}:{line} {}", lines.text(file, line).unwrap_or_default().trim()));
            }
            assert_eq!(places.join(", "), expected);
            assert_eq!(without.unused, with.unused);
            assert_eq!(Lines::read(&without.spirv), Lines::default());
            // The module without debug information has the same instructions.
            let lines = Lines::of_plain(&without.spirv, &with.spirv).expect("the same instructions");
            let stores = instructions(&without.spirv).flatten().filter(|store| store.op() == Some(Op::Store));
            assert_eq!(stores.filter(|store| lines.at(store.at).is_some()).count(), places.len());
        }
    }
}
