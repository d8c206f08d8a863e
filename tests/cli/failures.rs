//! Failures of the machine rather than of the user: exit code 3, and a message that says what to do.

use super::{
    BRIEF, check_text, driver_manifest, expect_error, expect_exit, expect_output, gpukern, line, read_json, replaced,
    run_process, statuses, stderr, stdout, temporary, use_drivers,
};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_loader_that_is_not_there_is_named() {
    for arguments in [&["devices"][..], &["bench", "matmul"], &["verify"]] {
        let output = expect_exit(gpukern(arguments).env("GPUKERN_LOADER", "/nonexistent/libvulkan.so.1"), 3);
        // The reason is in the words of the system.
        check_text(
            &replaced(&stderr(&output), r"\([^)]*\)", "(…)"),
            "error: cannot load Vulkan from '/nonexistent/libvulkan.so.1' (…); --loader takes a library such as \
             libvulkan.so.1\n",
        );
    }
}

#[test]
fn a_chosen_driver_without_a_device_is_named() {
    let (folder, library) = temporary("libbroken.so");
    std::fs::write(&library, "not a library").expect("written");
    let broken = driver_manifest(folder.path(), &library);
    let other = folder.path().join("libother.so");
    let mut elf = std::fs::read(env!("CARGO_BIN_EXE_gpukern")).expect("the binary")[..64].to_vec();
    elf[18] ^= 0xff;
    std::fs::write(&other, &elf).expect("written");
    std::fs::create_dir(folder.path().join("other")).expect("made");
    let other = driver_manifest(&folder.path().join("other"), &other);
    elf[18] ^= 0xff;
    let refusing = folder.path().join("librefusing.so");
    std::fs::write(&refusing, &elf).expect("written");
    std::fs::create_dir(folder.path().join("refusing")).expect("made");
    let refusing = driver_manifest(&folder.path().join("refusing"), &refusing);
    let truncated = folder.path().join("truncated.json");
    std::fs::write(&truncated, "{\n \"ICD\": {").expect("written");
    let unusable = |reason: &str| format!("cannot be used: {reason}");
    let refuses = "gives the loader no instance: its library cannot be loaded, or refuses to start here; \
                   `VK_DRIVER_FILES=FILE VK_LOADER_DEBUG=error,driver gpukern devices` shows what the loader and the \
                   driver say";
    for (drivers, reason) in [
        (Path::new("/nonexistent.json"), unusable("no such file")),
        (&broken, unusable("its library 'FOLDER/libbroken.so' is not an ELF file")),
        (&other, unusable("its library 'FOLDER/libother.so' is for another architecture than gpukern")),
        (&refusing, refuses.into()),
        // Loaders fail with this one as if memory had run out.
        (&truncated, unusable("it is not valid JSON: it ends too early, in line 2, column 9")),
    ] {
        for arguments in [&["devices"][..], &["bench", "matmul"], &["devices", "--device", "gpu"]] {
            let mut command = gpukern(arguments);
            let output = expect_exit(use_drivers(&mut command, drivers.as_os_str()), 3);
            let said = stderr(&output);
            let said = line(&said, "error: ");
            let file = drivers.display().to_string();
            let said = said.replace(&file, "FILE").replace(&folder.path().display().to_string(), "FOLDER");
            assert_eq!(said, format!("error: the driver FILE {reason}; unset VK_DRIVER_FILES to use other drivers"));
        }
    }
}

/// Returns the path of the library of tests/layer/failing.rs.
pub(super) fn failing_library() -> PathBuf {
    let library =
        examples().join(format!("{}failing_layer{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    assert!(
        library.exists(),
        "{} is missing; a plain `cargo test` builds it, and so does `cargo build --examples`",
        library.display()
    );
    library
}

#[test]
fn the_fuzzer_begins_with_files_that_are_accepted() {
    let fuzz = examples().join(format!("fuzz{}", std::env::consts::EXE_SUFFIX));
    for target in ["records", "descriptions", "arrays", "spirv", "expressions"] {
        let output = Command::new(&fuzz).args([target, "--executions", "20"]).output().expect("cargo builds examples");
        assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Returns the command of the binary under the layer of tests/layer/failing.rs, which makes `function` fail.
pub(super) fn with_failing(function: &str, arguments: &[&str], folder: &Path) -> Command {
    let manifest = serde_json::json!({
        "file_format_version": "1.2.0",
        "layer": {
            "name": "VK_LAYER_GPUKERN_failing",
            "type": "GLOBAL",
            "library_path": failing_library(),
            "api_version": "1.3.0",
            "implementation_version": "1",
            "description": "makes one function fail"
        }
    });
    std::fs::write(folder.join("failing.json"), manifest.to_string()).expect("written");
    let mut command = gpukern(arguments);
    command
        .env("VK_LAYER_PATH", folder)
        .env("VK_INSTANCE_LAYERS", "VK_LAYER_GPUKERN_failing")
        .env("GPUKERN_TEST_FAIL", function)
        // The validation layer would complain about the failing calls.
        .env("GPUKERN_VALIDATION", "0");
    command
}

#[test]
fn a_clock_that_runs_backwards_or_stands_still_fails_every_case() {
    let (folder, path) = temporary("run.json");
    for (clock, counted) in [("back", "18446744074 s"), ("zero", "0 ns")] {
        let bench = ["bench", "matmul", "-V", "naive", "-s", "8", "--json"];
        let mut command = with_failing("none", &bench, folder.path());
        let output = expect_exit(command.arg(&path).args(BRIEF).env("GPUKERN_TEST_CLOCK", clock), 3);
        let start =
            format!("failed    matmul/naive/f32/8x8x8: the device's clock is nonsense: it counted {counted} while ");
        let said = stderr(&output);
        let (_, remedy) = line(&said, &start).split_once(" passed on the host; ").expect("the other clock");
        assert_eq!(remedy, "no time of this device can be trusted: update its driver, or choose another --device");
        assert_eq!(statuses(&read_json(&path)), ["failed"]);
    }
}

/// Returns the folder in which cargo puts examples: next to the binary.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_gpukern")).parent().expect("a folder").join("examples")
}

#[test]
fn a_function_that_fails_is_named_with_the_remedy_and_the_rest_still_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = ["bench", "matmul", "-V", "naive", "-s", "8", "--no-peak", "--max-time=100ms", "--precision=50%"];
    // The layer itself changes nothing.
    expect_exit(&mut with_failing("none", &bench, folder.path()), 0);
    for (function, message) in [
        (
            "vkCreateDevice",
            "error: vkCreateDevice failed: ERROR_INITIALIZATION_FAILED; the driver does not work here: choose another \
             device with --device, or reinstall the driver",
        ),
        ("vkAllocateMemory", "error: cannot allocate 16 MiB for upload staging: Out of memory; choose a smaller size"),
    ] {
        let output = expect_exit(&mut with_failing(function, &bench, folder.path()), 3);
        check_text(line(&stderr(&output), "error: "), message);
        assert!(stdout(&output).is_empty(), "{function}");
    }
    expect_output(&mut with_failing("vkCreateDevice", &["devices"], folder.path()), 0, &["device 0"]);
}

#[test]
fn a_lost_device_fails_its_cases_and_the_record_is_written_all_the_same() {
    let (folder, path) = temporary("run.json");
    let bench = ["bench", "matmul", "-V", "naive", "-s", "8,16", "--json"];
    let cache = folder.path().join("cache");
    let output =
        expect_exit(with_failing("vkQueueSubmit", &bench, folder.path()).arg(&path).env("GPUKERN_CACHE", &cache), 3);
    check_text(
        line(&stderr(&output), "crashed   matmul/naive/f32/8x8x8 and 1 more: "),
        "crashed   matmul/naive/f32/8x8x8 and 1 more: vkQueueSubmit failed: ERROR_DEVICE_LOST; the kernel hung or crashed the \
         device: see the system log, in gpukern's own test whether the device executes anything (driver llvmpipe Mesa)",
    );
    assert_eq!(statuses(&read_json(&path)), ["crashed", "crashed"]);
    // The limits of a lost device are not kept for later runs.
    let mut files = std::fs::read_dir(&cache).expect("a cache").map(|file| file.expect("a file").path());
    if let Some(kept) = files.find(|file| file.to_string_lossy().ends_with(".limits.json")) {
        // The file starts with a checksum.
        let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(kept).expect("there")[32..]).expect("JSON");
        assert_eq!((&kept["figures"], &kept["missing"]), (&serde_json::json!([]), &serde_json::json!([])));
    }
    // Limits and noise fail too.
    for arguments in [&["peak", "--quick"][..], &["bench", "matmul", "-V", "naive", "-s", "8", "--noise=2"]] {
        let output =
            expect_exit(with_failing("vkQueueSubmit", arguments, folder.path()).env("GPUKERN_CACHE", &cache), 3);
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains("ERROR_DEVICE_LOST"), "{said}");
    }
}

#[test]
fn a_device_that_cannot_be_opened_fails_its_cases_and_no_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let [config, path] = ["two.toml", "run.json"].map(|name| folder.path().join(name));
    let table = |size| format!("[[bench]]\nalgorithm = 'matmul'\nvariant = 'naive'\nsize = {size}\n");
    std::fs::write(&config, table(8) + &table(16)).expect("written");
    let mut command = with_failing("vkCreateDevice", &["bench", "--config"], folder.path());
    expect_exit(command.arg(&config).arg("--json").arg(&path), 3);
    let record = read_json(&path);
    assert_eq!(statuses(&record), ["failed", "failed"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_a_failure_of_every_command_that_writes() {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/run-1.json");
    for arguments in [
        &["export", run, "--to", "csv", "--output", "/dev/full"][..],
        &["report", run, "--output", "/dev/full"],
        &["compare", run, run, "--json", "/dev/full"],
        &["compare", run, run, "--junit", "/dev/full"],
    ] {
        expect_error(&mut gpukern(arguments), 3, &["to '/dev/full': No space left on device"]);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn standard_output_that_is_a_file_is_written_and_not_replaced() {
    use std::os::unix::fs::MetadataExt;
    let (_folder, path) = temporary("out.csv");
    let file = std::fs::File::create(&path).expect("made");
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/run-1.json");
    let export = |output: &str| gpukern(&["export", run, "--to", "csv", "--output", output]);
    let expected = stdout(&expect_exit(&mut export("-"), 0));
    let mut command = export("/dev/stdout");
    let status = command.stdout(file.try_clone().expect("a second handle")).status().expect("the binary starts");
    assert_eq!(status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&path).expect("readable"), expected);
    assert_eq!(path.metadata().expect("there").ino(), file.metadata().expect("there").ino(), "it was replaced");
    assert_eq!(stdout(&run_process(&mut export("/dev/stdout"))), expected, "through a pipe");
}

#[test]
fn a_reference_kernel_that_the_driver_breaks_is_a_failure_and_one_that_leaves_elements_out_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    let source = |body: &str| {
        format!(
            "#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer X {{ uint x[]; }};\n\
             layout(binding = 1) buffer Y {{ uint y[]; }};\nvoid main() {{ uint i = gl_GlobalInvocationID.x; {body} }}\n"
        )
    };
    write("copy.comp", &source("y[i] = x[i];"));
    write(
        "copy.toml",
        "[kernel]\nsource = 'copy.comp'\n[buffer.X]\ntype = 'u32'\nshape = 64\nfill = 'iota'\n\
         [buffer.Y]\ntype = 'u32'\nshape = 64\n[dispatch]\ngroups = 1\n[reference]\nkernel = 'reference.comp'\n",
    );
    write("verify.toml", "[[run]]\ndescription = 'copy.toml'\n");
    let blame = "but a simulated device can use it: this driver is at fault";
    for (loops, when, code) in [(70_000, "k == 69999u", 3), (70, "k == 69u && i < 60u", 2)] {
        // llvmpipe leaves loops after 65535 iterations.
        write("reference.comp", &source(&format!("for (uint k = 0u; k < {loops}u; k++) if ({when}) y[i] = x[i];")));
        let mut verify = gpukern(&["verify", "--config", "verify.toml"]);
        let said = stderr(&expect_exit(verify.current_dir(folder.path()), code));
        assert!(line(&said, "failed    copy/").contains("the reference is unusable: it never writes Y["), "{said}");
        assert_eq!(said.contains(blame), code == 3, "{said}");
    }
}
