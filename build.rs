//! Compiles every `glsl/<algorithm>/<kernel>.comp` to SPIR-V, once per kernel of its `#pragma kernel …` lines, element
//! type of its `#pragma dtypes …` line and operand layout of its `#pragma layouts …` line; reflects the binaries, and
//! writes the typed table of shaders that `crates/kernels/src/shaders.rs` includes.
//!
//! An error in a kernel fails the build with the file and line of the GLSL source.

// Modules shared with the tool, which reads users' kernels with them and uses more of their items.
#[allow(unreachable_pub, dead_code)]
#[path = "crates/program/src/kernel/instructions.rs"]
mod instructions;
#[allow(unreachable_pub, dead_code)]
#[path = "crates/program/src/kernel/interface.rs"]
mod interface;
#[allow(unreachable_pub, dead_code)]
#[path = "crates/program/src/kernel/lines.rs"]
mod lines;
#[path = "build/pragmas.rs"]
mod pragmas;
#[allow(unreachable_pub, dead_code)]
#[path = "crates/program/src/kernel/reflection.rs"]
mod reflection;
#[allow(unreachable_pub)]
#[path = "crates/program/src/kernel/required.rs"]
mod required;
#[path = "build/table.rs"]
mod table;

use interface::Interface;
use lines::Lines;
use pragmas::{KernelPragma, Pragmas};

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// Root of the repository, as seen from crates/kernels.
const ROOT: &str = "../..";

/// Directory that `#include "…"` is resolved in.
const INCLUDES: &str = "glsl/include";

/// Sources and library versions that the binaries depend on; part of the key of cached binaries.
const PROGRAM: [&str; 9] = [
    include_str!("build.rs"),
    include_str!("build/pragmas.rs"),
    include_str!("build/table.rs"),
    include_str!("crates/program/src/kernel/instructions.rs"),
    include_str!("crates/program/src/kernel/interface.rs"),
    include_str!("crates/program/src/kernel/lines.rs"),
    include_str!("crates/program/src/kernel/reflection.rs"),
    include_str!("crates/program/src/kernel/required.rs"),
    include_str!("Cargo.lock"),
];

fn main() {
    // Cargo starts this program in crates/kernels; errors name kernels as seen from the root.
    env::set_current_dir(ROOT).expect("crates/kernels is two folders below the root");
    println!("cargo::rerun-if-changed={ROOT}/glsl");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let compiler = shaderc::Compiler::new().expect("shaderc starts");
    // Sorted by name, so that the table is the same on every machine and duplicate names are found.
    let mut entries = BTreeMap::new();
    let mut messages = vec![];
    for source in list_sources(Path::new("glsl")) {
        match compile_or_reuse(&compiler, &source, &out) {
            Ok(kernels) => {
                for (name, lines) in kernels {
                    if entries.insert(name.clone(), lines).is_some() {
                        messages.push(format!("{}: a second file makes a kernel '{name}'", source.display()));
                    }
                }
            }
            Err(message) => messages.push(message),
        }
    }
    // cargo prints one line per instruction, so each line of a message needs its own.
    for line in messages.iter().flat_map(|message| message.lines()) {
        println!("cargo::error={line}");
    }
    let table = format!("&[\n{}]", entries.into_values().collect::<String>());
    fs::write(out.join("shaders.rs"), table).expect("OUT_DIR can be written");
    if !messages.is_empty() {
        process::exit(1);
    }
}

/// Lists the `.comp` files in the folders of `root`, sorted, so that errors come in the same order on every machine.
fn list_sources(root: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for folder in list_folder(root).into_iter().filter(|path| path.is_dir()) {
        files.extend(list_folder(&folder));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "comp"));
    files.sort();
    files
}

fn list_folder(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|entry| entry.expect("a readable folder").path()).collect()
}

/// Returns the kernels of the source at `path`, as [`compile`] does: from the cache of an earlier build if this
/// program, the source and its includes are unchanged, because compiling all sources takes half a minute.
fn compile_or_reuse(compiler: &shaderc::Compiler, path: &Path, out: &Path) -> Result<Vec<(String, String)>, String> {
    let file_error = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let source = fs::read_to_string(path).map_err(|e| file_error(path, e))?;
    let mut hasher = DefaultHasher::new();
    // The cached lines name binaries by absolute path, so an entry only serves builds with the same output folder.
    (PROGRAM, out, path).hash(&mut hasher);
    hash_with_includes(&source, &mut BTreeSet::new(), &mut hasher);
    let key = hasher.finish().to_string();
    // One folder per source: a kernel that moves to another source cannot overwrite a cached binary.
    let folder = out.join(path.with_extension(""));
    let cache = folder.join("kept");
    if let Some((cached_key, kernels)) = fs::read_to_string(&cache).unwrap_or_default().split_once('\n')
        && cached_key == key
    {
        let kernels = kernels.split_terminator('\0').filter_map(|kernel| kernel.split_once('\t'));
        return Ok(kernels.map(|(name, lines)| (name.into(), lines.into())).collect());
    }
    // Compilation replaces the binaries and may fail half-way, so the cache entry is removed first.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|e| file_error(&folder, e))?;
    let kernels = compile(compiler, path, &source, &folder)?;
    let text: String = kernels.iter().map(|(name, lines)| format!("{name}\t{lines}\0")).collect();
    let draft = folder.join("whole");
    fs::write(&draft, format!("{key}\n{text}")).map_err(|e| file_error(&draft, e))?;
    // Written under another name and renamed: a full disk leaves no incomplete cache entry.
    fs::rename(&draft, &cache).map_err(|e| file_error(&cache, e))?;
    Ok(kernels)
}

/// Hashes `source` and every file that it includes, directly or indirectly, except those `hashed` already.
fn hash_with_includes(source: &str, hashed: &mut BTreeSet<String>, hasher: &mut DefaultHasher) {
    source.hash(hasher);
    let included = source.lines().filter_map(|line| {
        line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.split('"').nth(1)
    });
    for name in included {
        if hashed.insert(name.into()) {
            // The compiler reports a missing file, with the line of the include.
            let content = fs::read_to_string(Path::new(INCLUDES).join(name)).unwrap_or_default();
            hash_with_includes(&content, hashed, hasher);
        }
    }
}

/// Compiles all kernels of `source`, read from `path`. Returns the name of each and its lines of the table, one per
/// element type and layout.
fn compile(
    compiler: &shaderc::Compiler,
    path: &Path,
    source: &str,
    out: &Path,
) -> Result<Vec<(String, String)>, String> {
    let shown = path.display().to_string();
    let stem = path.file_stem().and_then(|s| s.to_str()).ok_or_else(|| format!("{shown}: name is not UTF-8"))?;
    let folder = path.parent().and_then(Path::file_name).and_then(|s| s.to_str()).expect("kernels are in folders");
    let Pragmas { lists, mut kernels } = pragmas::read(source, &shown)?;
    if kernels.is_empty() {
        kernels.push(KernelPragma { name: stem, macros: vec![], dtypes: vec![] });
    }
    // Without a pragma the source is compiled once, for no particular element type or layout.
    let choices = |names: Option<&Vec<_>>| names.map_or(vec![None], |names| names.iter().copied().map(Some).collect());
    let layouts: Vec<Option<&str>> = choices(lists.get("layouts"));
    let is_newest = lists.contains_key("vulkan");
    let mut table = vec![];
    let mut binaries = BTreeMap::new();
    for KernelPragma { name, macros, dtypes } in &kernels {
        let mut lines = String::new();
        let dtypes = choices(if dtypes.is_empty() { lists.get("dtypes") } else { Some(dtypes) });
        for (dtype, layout) in dtypes.iter().flat_map(|dtype| layouts.iter().map(move |layout| (*dtype, *layout))) {
            let mut definitions = vec![];
            definitions.extend(dtype.map(|name| format!("DTYPE_{}", name.to_uppercase())));
            definitions.extend(layout.map(|name| format!("LAYOUT_{}", name.to_uppercase())));
            definitions.extend(macros.iter().map(ToString::to_string));
            let compiled = |debug| compile_to_spirv(compiler, source, &shown, is_newest, &definitions, debug);
            let plain = compiled(false)?;
            // Drivers get binaries without debug information, whose lines are in a table beside them.
            let line_table = Lines::of_plain(plain.as_binary(), compiled(true)?.as_binary())
                .ok_or_else(|| format!("{shown}: with debug information it is a different program"))?
                .encode();
            let binary = plain.as_binary_u8().to_vec();
            let suffix: String = dtype.iter().chain(&layout).map(|name| format!(".{name}")).collect();
            let file = out.join(format!("{folder}-{name}{suffix}.spv"));
            for (path, bytes) in [(&file, &binary), (&file.with_extension("lines"), &line_table)] {
                fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            let interface = Interface::read_built_in(&binary).map_err(|e| format!("{shown}: {e}"))?;
            lines += &table_line(&format!("{folder}/{name}"), dtype, layout, &file, &interface);
            if let Some(other) = binaries.insert(binary, name) {
                let reason = "are the same program; is a macro misspelt?";
                return Err(format!("{shown}: '{other}' and '{name}{suffix}' {reason}"));
            }
        }
        table.push((format!("{folder}/{name}"), lines));
    }
    Ok(table)
}

/// Formats the line of the table for one binary.
fn table_line(name: &str, dtype: Option<&str>, layout: Option<&str>, file: &Path, interface: &Interface) -> String {
    format!(
        "    Shader {{ name: {}, dtype: {}, layout: {}, spirv: Cow::Borrowed(include_bytes!({:?})), line_table: Cow::Borrowed(include_bytes!({:?})), interface: {}, built_in: true }},\n",
        table::string(name),
        table::choice("DType", dtype),
        table::choice("Layout", layout),
        file.display().to_string(),
        file.with_extension("lines").display().to_string(),
        table::interface(interface),
    )
}

/// Compiles `source`, which messages call `shown`, to SPIR-V 1.5 for Vulkan 1.2, or if `is_newest` to SPIR-V 1.6 for
/// Vulkan 1.3, if `debug` with debug information. Optimization is left to the driver, and names are kept for reflection.
fn compile_to_spirv(
    compiler: &shaderc::Compiler,
    source: &str,
    shown: &str,
    is_newest: bool,
    macros: &[String],
    debug: bool,
) -> Result<shaderc::CompilationArtifact, String> {
    let mut options = shaderc::CompileOptions::new().map_err(|e| e.to_string())?;
    let vulkan = if is_newest { shaderc::EnvVersion::Vulkan1_3 } else { shaderc::EnvVersion::Vulkan1_2 };
    options.set_target_env(shaderc::TargetEnv::Vulkan, vulkan as u32);
    options.set_target_spirv(if is_newest { shaderc::SpirvVersion::V1_6 } else { shaderc::SpirvVersion::V1_5 });
    options.set_warnings_as_errors();
    if debug {
        options.set_generate_debug_info();
    }
    for name in macros {
        options.add_macro_definition(name, None);
    }
    options.set_include_callback(|requested, _, from, _| {
        let path = Path::new(INCLUDES).join(requested);
        let resolved_name = path.display().to_string();
        let content = fs::read_to_string(&path).map_err(|e| format!("{resolved_name}, included by {from}: {e}"))?;
        let Pragmas { lists, kernels } = pragmas::read(&content, &resolved_name)?;
        if let Some(pragma) = lists.into_keys().chain(kernels.iter().map(|_| "kernel")).next() {
            return Err(format!("{resolved_name}: '#pragma {pragma}' belongs in {from}, which includes it"));
        }
        Ok(shaderc::ResolvedInclude { resolved_name, content })
    });
    compiler.compile_into_spirv(source, shaderc::ShaderKind::Compute, shown, "main", Some(&options)).map_err(
        |e| match e {
            shaderc::Error::CompilationError(_, text) => text,
            other => format!("{shown}: {other}"),
        },
    )
}
