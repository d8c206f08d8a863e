//! No command overwrites a file that it reads, or another one that it writes: that would lose data, or verify the next run
//! against a wrong answer.

use super::{expect_exit, gpukern, stderr, stdout};
use gpukern::Cli;
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const KERNEL: &str = "
    @group(0) @binding(0) var<storage, read> A: array<f32>;
    @group(0) @binding(1) var<storage, read_write> D: array<f32>;
    @compute @workgroup_size(4) fn double(@builtin(local_invocation_index) i: u32) { D[i] = 2.0 * A[i]; }";

/// GLSL kernel that doubles A into D, half of it in another file.
const INCLUDING: &str = "#version 460
    #extension GL_GOOGLE_include_directive : require
    #include \"double.glsl\"
    layout(local_size_x = 4) in;
    void main() { twice(gl_GlobalInvocationID.x); }";
const INCLUDED: &str = "
    layout(binding = 0) readonly buffer A { float a[]; };
    layout(binding = 1) writeonly buffer D { float d[]; };
    void twice(uint i) { d[i] = 2.0 * a[i]; }";

/// Part that all descriptions share.
const COMMON: &str = "[buffer.D]\ntype = 'f32'\nshape = [4]\n[dispatch]\ngroups = [1]\n\
    [kernel]\nsource = ['k.wgsl']\n[buffer.A]\ntype = 'f32'\nshape = [4]\n";

/// Command lines, each of which would overwrite a file in the folder of [`files`].
const COMMANDS: &[&str] = &[
    // Kernels and their inputs.
    "run k.toml --save D=k.toml",
    "inspect k.toml --json k.toml",
    "inspect k.toml --junit k.wgsl",
    "inspect k.toml --save k.wgsl",
    "run k.toml --save D=./include/../k.wgsl",
    "run include.toml --save D=include/double.glsl",
    "run two.toml --json plain.wgsl",
    "run k.toml --save D=a.npy",
    "run k.toml --save D=right.npy",
    "run k.toml --json right.npy",
    "run k.toml --resume right.npy",
    "run k.toml --save D=link.npy",
    "run k.toml --save D=hard.npy",
    "run --config k.toml --json k.toml",
    "run bin.toml --json a.bin",
    "run bin.toml --save D=right.bin",
    "run by.toml --json make.sh",
    "run by.toml --save D=ref.sh",
    "run quoted.toml --json quoted\u{a0}ref.sh",
    "run elsewhere.toml --json include/ref.sh",
    "run nested.toml --json ref.sh",
    "run module.toml --json tools/ref.py",
    "run by-kernel.toml --save D=right.wgsl",
    "run k.toml other.toml --json other.toml",
    "run other.toml k.wgsl --json k.wgsl",
    "run k.toml --set reference.file=in.npy --json in.npy",
    "run k.toml --set buffer.A.fill=@in.npy --json in.npy",
    "inspect k.toml --set buffer.A.fill=@in.npy --json in.npy",
    "run two.toml --ab --json a.npy",
    "run two.toml --tune --json a.npy",
    // Two outputs.
    "capture --json new --trace new true",
    "capture --page new --trace ./new true",
    "capture --output new --page new/page.html true",
    "capture --json ./k.wgsl ./k.wgsl",
    "capture --json k.wgsl cat k.wgsl",
    "capture --trace ref.sh -- sh -e include/../ref.sh",
    "capture --page k.wgsl -- env FILES=new,k.wgsl true",
    "run k.toml --json new --save D=new",
    "run k.toml --json new --save D=./include/../new",
    "run k.toml --json new --save D=new.part",
    "run k.toml --json new --keep-failures new",
    "run k.toml --json new --compare m.json --rounds new",
    "run k.toml --save D=new --save D=new",
    "run k.toml --compare m.json --rounds rounds --save D=rounds/round-2.json",
    "bench matmul --json new --keep-failures new",
    "bench matmul --compare m.json --json new --rounds new",
    "compare m.json other.json --json new --junit ./new",
    "verify matmul --junit new --keep-failures new",
    "ab matmul --a naive --b tiled -s 8 --json new --keep-failures new",
    // Records and configurations.
    "run k.toml --compare m.json --save D=m.json",
    "run k.toml --compare m.json --resume m.json",
    "bench --config config.toml --json config.toml",
    "bench --config config.toml --json k.wgsl",
    "bench --config config.toml --json k.toml",
    "bench --config config.toml --json right.npy",
    "bench --config config.toml --parallel --json a.npy",
    "bench --config config.toml --explain --json config.toml",
    "bench --config config.toml --resume k.toml",
    "bench --config config.toml --beside config.toml --json config.toml",
    "bench --config config.toml --beside config.toml --gate gate.toml --json gate.toml",
    "bench matmul --compare m.json --json hard.json",
    "bench matmul --reference figures.csv --json figures.csv",
    "bench matmul --tuned tuned.toml --json tuned.toml",
    "inspect matmul --tuned tuned.toml --json tuned.toml",
    "run k.toml --tuned tuned.toml --json tuned.toml",
    "ab matmul -V naive --against tiled --tuned tuned.toml --json tuned.toml",
    "bench matmul --compare m.json.part --json m.json",
    "compare m.json other.json --json m.json",
    "compare other.json m.json --junit link.json",
    "compare other.json other.json --baseline m.json --json m.json",
    "compare other.json other.json --candidate m.json --json m.json",
    "compare m.json other.json --gate gate.toml --json gate.toml",
    "export m.json --to csv --output hard.json",
    "report other.json m.json --output m.json",
    "report other.json m.json --json m.json",
    "report m.json --reference figures.csv --json figures.csv",
    "report --baseline m.json --candidate other.json --output m.json",
    "report --baseline other.json --candidate m.json --output link.json",
    "report charts/01-lu-f32-uniform-input-time-nvidia-h100-80gb-hbm3.svg --output new --svg charts",
    "merge m.json other.json --output ./m.json",
    "history . --output m.json",
    "history . --json m.json",
    "history . --output link.json",
    "history . --order order.txt --output order.txt",
    "history store --order otava/otava.yaml --to otava --output otava",
    "verify --expect known.toml --junit known.toml",
    "verify --expect known.toml --json known.toml",
    "sanitize matmul --known known.toml --json known.toml",
    "sanitize k.toml --junit k.wgsl",
    "sanitize k.toml --set buffer.A.fill=@in.npy --json in.npy",
    "verify --config config.toml --junit config.toml",
    "verify --config config.toml --junit k.wgsl",
    "verify --config config.toml --resume k.toml",
    "ab matmul -V naive -s 8 --a-spirv k.spv --json k.spv",
    "ab matmul -V naive -s 8 --b-spirv k.spv --json k.spv",
    "ab matmul -V naive -s 8 --a-driver icd.json --b-driver other.json --json icd.json",
    "ab matmul -V naive -s 8 --a-driver other.json --b-driver icd.json --json icd.json",
    "tune matmul --shapes shapes.txt --tuned shapes.txt",
    "tune matmul --size @shapes.txt --tuned shapes.txt",
    "bench matmul --size @shapes.txt --json shapes.txt",
    "verify matmul --size @shapes.txt --json shapes.txt",
    "inspect matmul --size @shapes.txt --json shapes.txt",
    "sanitize matmul -V naive --size @shapes.txt --json shapes.txt",
    "ab matmul -V naive --against tiled --size @shapes.txt --json shapes.txt",
    "peak --loader libvulkan.so --json libvulkan.so",
];

/// Returns an array of four figures in `NumPy`'s format.
fn npy(figures: [f32; 4]) -> Vec<u8> {
    let mut header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }".to_string();
    header += &" ".repeat(118 - 1 - header.len());
    let data: Vec<u8> = figures.iter().flat_map(|figure| figure.to_le_bytes()).collect();
    [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), b"\n", &data].concat()
}

/// Writes kernels and descriptions, each of which names other files in a different way.
fn write_kernels(write: &dyn Fn(&str, &[u8])) {
    for name in ["k.wgsl", "plain.wgsl", "right.wgsl"] {
        write(name, KERNEL.as_bytes());
    }
    write("k.comp", INCLUDING.as_bytes());
    write("include/double.glsl", INCLUDED.as_bytes());
    for (name, source, rest) in [
        ("k.toml", "'k.wgsl'", "fill = '@a.npy'\n[reference]\nfile = 'right.npy'\n"),
        ("include.toml", "'k.comp']\ninclude = ['include'", "fill = 'iota'\n"),
        ("bin.toml", "'k.wgsl'", "fill = '@a.bin'\n[reference]\nfile = 'right.bin'\n"),
        (
            "by.toml",
            "'k.wgsl'",
            "[reference]\ncommand = 'sh ref.sh {in} {out}'\n[inputs]\ncommand = 'sh ./make.sh {out}'\n",
        ),
        ("quoted.toml", "'k.wgsl'", "fill = 'iota'\n[reference]\ncommand = \"sh 'quoted\u{a0}ref.sh' {in} {out}\"\n"),
        ("elsewhere.toml", "'k.wgsl'", "fill = 'iota'\n[reference]\ncommand = 'cd include && sh ref.sh {in} {out}'\n"),
        (
            "nested.toml",
            "'k.wgsl'",
            "fill = 'iota'\n[reference]\ncommand = \"sh -c 'sh \\\"$PWD/ref.sh\\\"' {in} {out}\"\n",
        ),
        ("module.toml", "'k.wgsl'", "fill = 'iota'\n[reference]\ncommand = 'python3 -m tools.ref {in} {out}'\n"),
        ("by-kernel.toml", "'k.wgsl'", "fill = 'iota'\n[reference]\nkernel = 'right.wgsl'\ngroups = [1]\n"),
        ("two.toml", "'k.wgsl', 'plain.wgsl'", "fill = '@a.npy'\n"),
        ("other.toml", "'plain.wgsl'", "fill = 'iota'\n"),
    ] {
        write(name, (COMMON.replace("'k.wgsl'", source) + rest).as_bytes());
    }
}

/// Creates a folder with a file of every kind that a command reads.
fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, contents: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, contents).expect("written");
    };
    write_kernels(&write);
    for (name, figures) in [("a.npy", [1.0; 4]), ("right.npy", [2.0; 4]), ("in.npy", [3.0; 4])] {
        write(name, &npy(figures));
    }
    write("a.bin", &[0; 16]);
    write("right.bin", &[0; 16]);
    write("config.toml", b"[[run]]\ndescription = 'k.toml'\n");
    for name in [
        "quoted\u{a0}ref.sh",
        "include/ref.sh",
        "tools/ref.py",
        "make.sh",
        "ref.sh",
        "k.spv",
        "libvulkan.so",
        "figures.csv",
        "gate.toml",
        "known.toml",
    ] {
        write(name, name.as_bytes());
    }
    write("tuned.toml", b"schema = 'gpukern-tuned/1'\n");
    write("icd.json", b"{}");
    write("shapes.txt", b"8x8x8");
    for name in ["order.txt", "otava/otava.yaml"] {
        write(name, b"0123456789abcdef\n");
    }
    let record = include_bytes!("../fixtures/run-1.json");
    let store = String::from_utf8_lossy(record).replacen('{', "{\"origin\":{\"commit\":\"0123456789abcdef\"},", 1);
    write("store/run.json", store.as_bytes());
    for name in ["m.json", "m.json.part", "other.json", "charts/01-lu-f32-uniform-input-time-nvidia-h100-80gb-hbm3.svg"]
    {
        write(name, record);
    }
    fs::create_dir(folder.path().join("rounds")).expect("made");
    #[cfg(unix)]
    for (target, name) in [("m", "json"), ("right", "npy")] {
        let (target, inside) = (format!("{target}.{name}"), |link: &str| folder.path().join(format!("{link}.{name}")));
        std::os::unix::fs::symlink(&target, inside("link")).expect("linked");
        fs::hard_link(folder.path().join(&target), inside("hard")).expect("linked");
    }
    folder
}

/// Returns the contents of all files below `folder`.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path());
    let below = entries.flat_map(|path| {
        if path.is_dir() {
            contents(&path)
        } else {
            BTreeMap::from([(path.clone(), fs::read(path).expect("readable"))])
        }
    });
    below.collect()
}

#[test]
#[cfg(unix)]
fn no_command_writes_where_it_reads_or_writes() {
    let folder = files();
    let before = contents(folder.path());
    for line in COMMANDS {
        let words: Vec<_> = line.split(' ').collect();
        let mut command = gpukern(&words);
        // A missing loader shows that no device is opened.
        command.env("GPUKERN_LOADER", "/nonexistent").current_dir(folder.path());
        let output = expect_exit(&mut command, 2);
        let message = stderr(&output);
        assert!(
            ["would overwrite '", "which has it alone"].iter().any(|part| message.contains(part)),
            "{line}: {message}"
        );
        assert!(stdout(&output).is_empty(), "{line}: {}", stdout(&output));
        assert!(contents(folder.path()) == before, "{line} changed a file");
    }
}

#[test]
#[cfg(unix)]
fn a_standard_stream_may_be_a_file_that_is_read_or_written() {
    let folder = files();
    let before = contents(folder.path());
    let open = |name: &str| File::options().read(true).append(true).open(folder.path().join(name)).expect("there");
    for (line, stream, file) in [
        ("run k.toml", 1, "k.wgsl"),
        ("export m.json --to csv", 1, "hard.json"),
        ("merge other.json --output m.json", 1, "m.json"),
        ("compare - other.json --json m.json", 0, "m.json"),
        ("export m.json --to csv", 2, "m.json"),
        ("run k.toml", 2, "right.npy"),
        ("compare m.json other.json --nonsense", 2, "hard.json"),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let mut command = gpukern(&words);
        command.env("GPUKERN_LOADER", "/nonexistent").current_dir(folder.path());
        match stream {
            0 => command.stdin(open(file)),
            1 => command.stdout(open(file)),
            _ => command.stderr(open(file)),
        };
        let output = expect_exit(&mut command, 2);
        assert!(contents(folder.path()) == before, "{line} changed a file");
        // A message about standard error goes to standard output.
        assert_eq!(stdout(&output).contains("standard error would overwrite '"), stream == 2, "{line}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn messages_are_never_appended_to_a_record_that_no_command_names() {
    let folder = files();
    let before = contents(folder.path());
    for line in ["devices", "history .", "bench matmul -s 8", "nonsense"] {
        let words: Vec<_> = line.split(' ').collect();
        let mut command = gpukern(&words);
        let errors = File::options().append(true).open(folder.path().join("m.json")).expect("there");
        command.env("GPUKERN_LOADER", "/nonexistent").env("GPUKERN_CACHE", "/proc/cache").current_dir(folder.path());
        let output =
            expect_exit(command.stderr(errors), if line == "devices" || line.starts_with("bench") { 3 } else { 2 });
        assert!(contents(folder.path()) == before, "{line} changed a file");
        assert!(!stdout(&output).is_empty(), "{line}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn no_command_writes_over_the_program_or_what_the_environment_names() {
    let folder = files();
    let inside = |name: &str| folder.path().join(name);
    let program = inside("program");
    fs::copy(env!("CARGO_BIN_EXE_gpukern"), &program).expect("copied");
    fs::hard_link(&program, inside("same-program")).expect("linked");
    fs::create_dir(inside("cache")).expect("made");
    fs::write(inside("cache/0123456789abcdef.peak"), "kept").expect("written");
    fs::write(inside("library.so"), "a library").expect("written");
    fs::write(inside("driver.json"), r#"{ "ICD": { "library_path": "./library.so" } }"#).expect("written");
    fs::write(inside("layer.json"), r#"{ "layers": [{ "library_path": "./library.so" }] }"#).expect("written");
    let before = contents(folder.path());
    let own = folder.path().to_string_lossy();
    for (variable, value, output) in [
        ("NOTHING", "", "program"),
        ("NOTHING", "", "same-program"),
        ("NOTHING", "", "/proc/self/exe"),
        ("VK_DRIVER_FILES", "driver.json", "driver.json"),
        ("VK_ICD_FILENAMES", "other.json:driver.json", "include/../driver.json"),
        ("VK_ADD_DRIVER_FILES", "driver.json", "library.so"),
        ("VK_LAYER_PATH", &own, "layer.json"),
        ("VK_ADD_IMPLICIT_LAYER_PATH", ".", "library.so"),
        ("LD_PRELOAD", "one.so library.so", "library.so"),
        ("GPUKERN_CACHE", "cache", "cache/0123456789abcdef.peak"),
    ] {
        for line in ["merge m.json other.json --output", "bench matmul --json"] {
            let mut command = std::process::Command::new(&program);
            command.args(line.split(' ')).arg(output).current_dir(folder.path());
            command.env("GPUKERN_CONFIG", "").env("GPUKERN_CACHE", "cache").env("GPUKERN_LOADER", "/nonexistent");
            let output = expect_exit(command.env(variable, value), 2);
            let message = stderr(&output);
            assert!(message.contains("would overwrite '"), "{line} with {variable}: {message}");
            assert!(contents(folder.path()) == before, "{line} with {variable} changed a file");
        }
    }
    // A record in a folder of manifests may be overwritten.
    let mut command = gpukern(&["export", "m.json", "--to", "csv", "--output", "store/run.json"]);
    expect_exit(command.env("VK_LAYER_PATH", "store").current_dir(folder.path()), 0);
}

/// Requires a command line in [`COMMANDS`] for every option that names a file, also a new one.
#[test]
fn every_option_that_names_a_file_is_tried() {
    /// Folders with files of nobody's but gpukern's: caches, sources that name their includes, manual pages. And a file of
    /// which only the name is printed, and one that may not be in the only folder that the command writes.
    const NONE_IS_READ: [(&str, &str); 4] =
        [("run", "include"), ("man", "output"), ("config", "tuned"), ("compare-commits", "gate")];
    /// Options whose values name files among other things.
    const AMONG_OTHERS: [&str; 3] = ["save", "set", "order"];
    let tried: BTreeSet<(&str, &str)> = COMMANDS
        .iter()
        .flat_map(|line| {
            let (command, words) = line.split_once(' ').expect("words");
            words.split(' ').filter_map(move |word| Some((command, word.strip_prefix("--")?)))
        })
        .collect();
    let program = <Cli as clap::CommandFactory>::command();
    // Hidden commands are for gpukern itself.
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        for option in command.get_arguments() {
            let Some(name) = option.get_long() else { continue };
            let names_file = option.get_value_parser().type_id() == TypeId::of::<PathBuf>();
            let (command, exempt) = (command.get_name(), NONE_IS_READ.contains(&(command.get_name(), name)));
            if (names_file || AMONG_OTHERS.contains(&name) && command != "list") && !exempt {
                assert!(tried.contains(&(command, name)), "no line above has {command} --{name}");
            }
        }
    }
}
