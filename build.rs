//! Compiles every `glsl/<algorithm>/<kernel>.comp` to SPIR-V, once for each element type that its
//! `#pragma dtypes …` line names and each layout of operands of its `#pragma layouts …` line, reflects the result and
//! writes a typed table of shaders for `src/kernel/shaders.rs`.
//!
//! An error in a kernel fails the build with the file and line of the GLSL source.

// What the crate reads users' kernels with; the crate uses more of it than this program.
#[allow(unreachable_pub, dead_code)]
#[path = "src/kernel/instructions.rs"]
mod instructions;
#[allow(unreachable_pub, dead_code)]
#[path = "src/kernel/interface.rs"]
mod interface;
#[path = "build/pragmas.rs"]
mod pragmas;
#[allow(unreachable_pub, dead_code)]
#[path = "src/kernel/reflection.rs"]
mod reflection;
#[allow(unreachable_pub)]
#[path = "src/kernel/required.rs"]
mod required;
#[path = "build/table.rs"]
mod table;

use interface::Interface;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// The directory that `#include "…"` is resolved in.
const INCLUDES: &str = "glsl/include";

fn main() {
    println!("cargo::rerun-if-changed=glsl");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/kernel/instructions.rs");
    println!("cargo::rerun-if-changed=src/kernel/interface.rs");
    println!("cargo::rerun-if-changed=src/kernel/reflection.rs");
    println!("cargo::rerun-if-changed=src/kernel/required.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let compiler = shaderc::Compiler::new().expect("shaderc starts");
    let mut table = String::from("&[\n");
    let mut failures = 0;
    for source in kernels(Path::new("glsl")) {
        match compile(&compiler, &source, &out) {
            Ok(entries) => table.push_str(&entries),
            Err(message) => {
                failures += 1;
                // One line of the compiler's answer per line of cargo's output.
                message.lines().for_each(|line| println!("cargo::error={line}"));
            }
        }
    }
    table.push(']');
    fs::write(out.join("shaders.rs"), table).expect("OUT_DIR can be written");
    if failures > 0 {
        process::exit(1);
    }
}

/// Every `.comp` file in the folders of `root`, sorted, so that the table is the same on every machine.
fn kernels(root: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        entries.map(|entry| entry.expect("a readable folder").path()).collect()
    };
    let mut files: Vec<PathBuf> = list(root)
        .into_iter()
        .filter(|path| path.is_dir())
        .flat_map(|folder| list(&folder))
        .filter(|path| path.extension().is_some_and(|extension| extension == "comp"))
        .collect();
    files.sort();
    files
}

/// The table entries of one kernel, a line for each element type and layout.
fn compile(compiler: &shaderc::Compiler, path: &Path, out: &Path) -> Result<String, String> {
    let shown = path.display().to_string();
    let source = fs::read_to_string(path).map_err(|e| format!("{shown}: {e}"))?;
    let stem = path.file_stem().and_then(|s| s.to_str()).ok_or_else(|| format!("{shown}: name is not UTF-8"))?;
    let folder = path.parent().and_then(Path::file_name).and_then(|s| s.to_str()).expect("kernels are in folders");
    let name = format!("{folder}/{stem}");
    let mut entries = String::new();
    let pragmas = pragmas::read(&source, &shown)?;
    // A kernel without the line is compiled once for all of them.
    let listed = |pragma| pragmas.get(pragma).map_or(vec![None], |names| names.iter().copied().map(Some).collect());
    let (dtypes, layouts) = (listed("dtypes"), listed("layouts"));
    let newest = pragmas.contains_key("vulkan");
    for (dtype, layout) in dtypes.iter().flat_map(|dtype| layouts.iter().map(move |layout| (*dtype, *layout))) {
        let suffix: String = dtype.iter().chain(&layout).map(|name| format!(".{name}")).collect();
        let macros = [("DTYPE", dtype), ("LAYOUT", layout)];
        let binary = spirv(compiler, &source, &shown, newest, macros)?;
        let file = out.join(format!("{folder}-{stem}{suffix}.spv"));
        fs::write(&file, &binary).map_err(|e| format!("{}: {e}", file.display()))?;
        let interface = Interface::read_built_in(&binary).map_err(|e| format!("{shown}: {e}"))?;
        let dtype = table::choice("DType", dtype);
        let layout = table::choice("Layout", layout);
        let file = file.display().to_string();
        writeln!(
            entries,
            "    Shader {{ name: {}, dtype: {dtype}, layout: {layout}, spirv: Cow::Borrowed(include_bytes!({file:?})), interface: {}, built_in: true }},",
            table::string(&name),
            table::interface(&interface),
        )
        .map_err(|e| e.to_string())?;
    }
    Ok(entries)
}

/// SPIR-V 1.5 of `source` for Vulkan 1.2, or where it asks for the `newest` 1.6 for Vulkan 1.3. Optimisation is left to
/// the driver; names are kept for reflection.
fn spirv(
    compiler: &shaderc::Compiler,
    source: &str,
    shown: &str,
    newest: bool,
    macros: [(&str, Option<&str>); 2],
) -> Result<Vec<u8>, String> {
    let mut options = shaderc::CompileOptions::new().map_err(|e| e.to_string())?;
    let (vulkan, version) = if newest {
        (shaderc::EnvVersion::Vulkan1_3, shaderc::SpirvVersion::V1_6)
    } else {
        (shaderc::EnvVersion::Vulkan1_2, shaderc::SpirvVersion::V1_5)
    };
    options.set_target_env(shaderc::TargetEnv::Vulkan, vulkan as u32);
    options.set_target_spirv(version);
    options.set_warnings_as_errors();
    for (prefix, name) in macros.into_iter().filter_map(|(prefix, name)| Some((prefix, name?))) {
        options.add_macro_definition(&format!("{prefix}_{}", name.to_uppercase()), None);
    }
    options.set_include_callback(|requested, _, from, _| {
        let path = Path::new(INCLUDES).join(requested);
        let resolved_name = path.display().to_string();
        let content = fs::read_to_string(&path).map_err(|e| format!("{resolved_name}, included by {from}: {e}"))?;
        match pragmas::read(&content, &resolved_name)?.first_key_value() {
            Some((pragma, _)) => Err(format!("{resolved_name}: '#pragma {pragma}' belongs into the kernel {from}")),
            None => Ok(shaderc::ResolvedInclude { resolved_name, content }),
        }
    });
    let artifact = compiler
        .compile_into_spirv(source, shaderc::ShaderKind::Compute, shown, "main", Some(&options))
        .map_err(|e| match e {
            shaderc::Error::CompilationError(_, text) => text,
            other => format!("{shown}: {other}"),
        })?;
    Ok(artifact.as_binary_u8().to_vec())
}
