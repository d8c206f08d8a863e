//! The commands of descriptions: printed before they run, refused if forbidden, ended with all their processes.
#![cfg(unix)]

use super::{
    BRIEF, brief_bench, check_text, expect_error, expect_exit, expect_refusal, gpukern, line, run_process, signal,
    start, stderr, stdout, valid_record, wait_until, within,
};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command};

const COPY: &str = "#version 460
    layout(local_size_x = 64) in;
    layout(binding = 0) readonly buffer A { float a[]; };
    layout(binding = 1) writeonly buffer D { float d[]; };
    layout(push_constant) uniform P { uint n; } p;
    void main() { uint i = gl_GlobalInvocationID.x; if (i < p.n) d[i] = a[i]; }";

const DESCRIPTION: &str = "[kernel]
    source = 'copy.comp'
    [axes]
    N = [100, 200]
    [push]
    n = 'N'
    [buffer.A]
    type = 'f32'
    shape = ['N']
    fill = 'iota'
    [buffer.D]
    type = 'f32'
    shape = ['N']
    [dispatch]
    groups = ['cdiv(N, 64)']
    ";

/// Reference command with the right answer.
const RIGHT: &str = "cp {in}/A.npy {out}/D.npy";

/// Creates a folder with the kernel and its description, with this reference command, if any.
fn folder(command: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let reference = command.map_or_else(String::new, |line| format!("[reference]\ncommand = '''{line}'''\n"));
    fs::write(folder.path().join("copy.comp"), COPY).expect("written");
    fs::write(folder.path().join("copy.toml"), format!("{DESCRIPTION}{reference}")).expect("written");
    folder
}

/// Returns the command that runs the description in a folder, with few samples.
fn run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = gpukern(&["run"]);
    command.arg(folder.join("copy.toml")).args(BRIEF).args(arguments.iter().map(|argument| within(folder, argument)));
    command
}

/// Returns the descendant of `child` whose first arguments are `wanted`.
#[cfg(target_os = "linux")]
fn descendant(child: &Child, wanted: &str) -> Option<String> {
    // Linux lists children by the thread that started them.
    let children = |pid: &str| {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.map(|of| fs::read_to_string(of.path().join("children")).unwrap_or_default() + " ").collect::<String>()
    };
    let mut all = vec![child.id().to_string()];
    while let Some(pid) = all.pop() {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = command.split(|byte| *byte == 0).skip(1).collect();
        if words.starts_with(&wanted.split(' ').map(str::as_bytes).collect::<Vec<_>>()) {
            return Some(pid);
        }
        all.extend(children(&pid).split_whitespace().map(String::from));
    }
    None
}

/// Returns the command that runs a Slang kernel in a folder, with this script as its compiler.
fn compile(folder: &Path, script: &str) -> Command {
    use std::os::unix::fs::PermissionsExt;
    let bin = folder.join("bin");
    fs::create_dir(&bin).expect("made");
    fs::write(folder.join("k.slang"), "").expect("written");
    fs::write(bin.join("slangc"), format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(bin.join("slangc"), fs::Permissions::from_mode(0o755)).expect("set");
    let mut command = run(folder, &["@/k.slang"]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()));
    command.current_dir(folder);
    command
}

/// Shell script that hangs and starts hanging processes in its group and in another session, each with `alive` open.
const HANGS: &str = "exec 9<>alive; echo {out} > up
    for each in 1 2; do { sleep 100; echo late >&9; } & done
    setsid sh -c \"sleep 100; echo late >&9\" &
    sleep 100; echo late >&9";

/// Starts a run whose command hangs, then calls `end`, and waits until none of its processes is left. Returns the exit code.
#[cfg(target_os = "linux")]
fn ended(command: &str, arguments: &[&str], end: impl Fn(&mut Child)) -> Option<i32> {
    let folder = folder(Some(command));
    ended_in(folder.path(), &mut run(folder.path(), arguments), end)
}

/// Starts `command`, which hangs in `folder`, as [`ended`] does.
#[cfg(target_os = "linux")]
fn ended_in(folder: &Path, command: &mut Command, end: impl Fn(&mut Child)) -> Option<i32> {
    use std::os::unix::fs::OpenOptionsExt;
    const O_NONBLOCK: i32 = 0o4000;
    let temporary = tempfile::tempdir().expect("a folder");
    assert!(Command::new("mkfifo").arg(folder.join("alive")).status().expect("it runs").success());
    let mut child = start(command.env("TMPDIR", temporary.path()));
    wait_until("a command", || {
        assert!(child.try_wait().expect("a process").is_none(), "{command:?}: the run ended first");
        folder.join("up").exists()
    });
    let alive = fs::File::options().read(true).custom_flags(O_NONBLOCK).open(folder.join("alive"));
    let mut alive = alive.expect("a pipe");
    end(&mut child);
    // The pipe reaches its end when the last process that has it open ends.
    wait_until("the end of what the command started", || match alive.read(&mut [0; 8]) {
        Ok(count) => {
            assert_eq!(count, 0, "{command:?}: a process outlived the run");
            true
        }
        Err(_) => false,
    });
    let code = child.wait().expect("it ends").code();
    wait_until("the end of temporary folders", || fs::read_dir(temporary.path()).expect("a folder").count() == 0);
    code
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_hangs_ends_with_the_run_whatever_ends_that() {
    for more in [&[][..], &["--in-process"]] {
        assert_eq!(ended(HANGS, more, |child| signal(child, "TERM")), Some(130), "{more:?}");
        assert_eq!(ended(HANGS, more, |child| signal(child, "INT")), Some(130), "{more:?}");
        assert_eq!(ended(HANGS, more, |child| signal(child, "KILL")), None, "{more:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_hangs_ends_with_its_worker_and_with_its_guard() {
    let kill = |name: &str, pid: &str| {
        let killed = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
        assert!(killed.expect("it runs").success());
    };
    // Without its guard, only the processes of the command's group end.
    let in_group: Vec<_> = HANGS.lines().filter(|line| !line.contains("setsid")).collect();
    let in_group = in_group.join("\n");
    for (process, name, command) in [("worker", "KILL", HANGS), ("guard", "KILL", &in_group), ("guard", "TERM", HANGS)]
    {
        ended(command, &[], |child| {
            let pid = descendant(child, process).expect("it is there");
            // A guard with a second thread, which reads its input, has reported the group that it guards.
            wait_until("a guard at work", || {
                let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("a process").count();
                process != "guard" || threads > 1
            });
            kill(name, &pid);
            // The case of a dead worker is tried once more.
            signal(child, "TERM");
        });
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_compiler_that_hangs_ends_with_the_run_and_one_that_says_much_is_quoted_at_its_end() {
    for name in ["TERM", "KILL"] {
        let folder = folder(None);
        assert_eq!(
            ended_in(folder.path(), &mut compile(folder.path(), HANGS), |child| signal(child, name)),
            None,
            "{name}"
        );
    }
    let folder = folder(None);
    let mut watch = compile(folder.path(), HANGS);
    assert_eq!(ended_in(folder.path(), watch.arg("--watch"), |child| signal(child, "TERM")), Some(0));
    let folder = super::commands::folder(None);
    let script = "head -c 40000000 /dev/zero | tr '\\0' x >&2; echo; echo 'k.slang(1): error: no kernel'; exit 1";
    let said = stderr(&expect_exit(&mut compile(folder.path(), script), 2));
    assert!(said.ends_with("k.slang(1): error: no kernel\n") && said.len() < 70_000, "{} bytes", said.len());
}

#[test]
#[cfg(target_os = "linux")]
fn a_compiler_that_somebody_kills_is_started_once_more() {
    let folder = folder(None);
    // This function takes long to compile and is never called.
    let idle = format!("float idle(float x) {{\n{} return x; }}\nvoid main()", "x = x * 1.5 + 1.0;\n".repeat(50_000));
    fs::write(folder.path().join("copy.comp"), COPY.replace("void main()", &idle)).expect("written");
    let mut command = run(folder.path(), &["-s=N=100"]);
    let mut child = start(&mut command);
    let mut compiler = None;
    wait_until("a compiler", || {
        compiler = descendant(&child, "worker --compiler");
        compiler.is_some() || child.try_wait().expect("a process").is_some()
    });
    let killed = Command::new("kill").args(["-KILL", &compiler.expect("it compiles")]).status();
    assert!(killed.expect("it runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_command_that_takes_too_long_is_ended_and_the_remedy_is_named() {
    let folder = folder(Some("sleep 100; echo {out}"));
    // With --in-process the short timeout applies to nothing else.
    let output = run_process(&mut run(folder.path(), &["--in-process", "--timeout=20ms", "-s=N=100"]));
    assert_eq!(output.status.code(), Some(3));
    check_text(
        line(&stderr(&output), "failed  "),
        "failed    copy/copy/f32/N=100: the reference command `sleep 100; echo {out}` did not end within 0.2 s, 10 \
         times --timeout; --timeout=0.04s gives it more time",
    );
}

#[test]
fn a_mistake_in_a_reference_script_is_reported_once_with_the_remedy() {
    for (reference, expected) in [
        (
            "echo \"KeyError: 'B'\" >&2; exit 1; {out}",
            "the reference command `echo \"KeyError: 'B'\" >&2; exit 1; {out}` failed (exit code 1): KeyError: 'B' \
             ({in} has A.npy)",
        ),
        (
            "cp {in}/A.npy {out}/E.npy",
            "the reference command `cp {in}/A.npy {out}/E.npy` wrote E.npy to {out}; make it write D.npy",
        ),
        ("echo no > {out}/D.npy", "the reference for D: D.npy: it is shorter than the header of a .npy"),
    ] {
        let folder = folder(Some(reference));
        let said = stderr(&expect_exit(&mut run(folder.path(), &["--json=@/run.json"]), 2));
        assert_eq!(said.matches("failed    ").count(), 1, "{said}");
        let reason = line(&said, "failed    ").strip_prefix("failed    copy/copy/f32/N=100 and 1 more: ");
        check_text(reason.expect("both cases"), expected);
        let record = valid_record(&fs::read_to_string(folder.path().join("run.json")).expect("written"));
        assert!(
            record["cases"].as_array().is_some_and(|cases| cases.iter().all(|case| case["outcome"]["mistake"] == true))
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_background_job_of_a_script_ignores_ctrl_c_and_ends_at_sigterm() {
    let end = |child: &mut Child| {
        signal(child, "INT");
        signal(child, "TERM");
    };
    let deaf = |command: &Command, folder: &Path| {
        let mut deaf = super::limited("trap '' INT", command);
        deaf.current_dir(folder);
        deaf
    };
    for name in ["compiling", "measuring"] {
        let folder = folder(Some(HANGS));
        let command =
            if name == "compiling" { compile(folder.path(), HANGS) } else { run(folder.path(), &["--in-process"]) };
        let code = ended_in(folder.path(), &mut deaf(&command, folder.path()), end);
        assert_eq!(code, (name == "measuring").then_some(130), "{name}");
    }
}

#[test]
fn a_process_that_a_command_leaves_behind_is_ended_with_a_note() {
    let line = format!("{RIGHT}; {{ exec 9>alive; sleep 100; echo late >&9; }} & exit 0");
    let folder = folder(Some(&line));
    expect_error(&mut run(folder.path(), &["-s=N=100"]), 0, &["left processes running; gpukern ended them"]);
    assert_eq!(fs::read_to_string(folder.path().join("alive")).unwrap_or_default(), "");
}

#[test]
fn folders_of_commands_are_one_word_of_a_shell_wherever_temporary_files_are() {
    let line =
        "cp '{in}/A.npy' {out}/D.npy; cat \"{in}/A.npy\" | sh -c 'cat > \"{out}/D.npy\"'; ls -ld {in}/.. >&2; true";
    let folder = folder(Some(line));
    let temporary = folder.path().join("a b;touch owned;'$(touch owned)\"`touch owned`");
    fs::create_dir(&temporary).expect("made");
    let output = expect_exit(run(folder.path(), &["--json=-"]).env("TMPDIR", &temporary), 0);
    let record: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    for case in record["cases"].as_array().expect("cases") {
        assert!(case["outcome"]["verification"]["residual"].is_number(), "{case}");
    }
    assert!(!folder.path().join("owned").exists(), "a part of a path was run");
    assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "a folder was left behind");
    // The remedy is named once if there is no such folder.
    let said = stderr(&expect_exit(run(folder.path(), &["-s=N=100"]).env("TMPDIR", "/no/such"), 3));
    check_text(
        &said,
        "running the reference: `cp '{in}/A.npy' {out}/D.npy; cat \"{in}/A.npy\" | sh -c 'cat > \"{out}/D.npy\"'; ls \
         -ld {in}/.. >&2; true`\ndevice 0: llvmpipe\nfailed    copy/copy/f32/N=100: cannot make a folder for the \
         reference command: TMPDIR: there is no folder '/no/such'; make it, or set TMPDIR to another\n",
    );
}

#[test]
fn a_run_is_not_resumed_with_another_reference_or_another_description() {
    let folder = folder(Some("sh right.sh {in} {out}"));
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("right.sh", "cp $1/A.npy $2/D.npy\n");
    expect_exit(&mut run(folder.path(), &["--json=@/run.json"]), 0);
    let resume = || run(folder.path(), &["--resume=@/run.json"]);
    expect_error(&mut resume(), 0, &["resuming: 2 cases measured, 0 to go\n"]);
    write("right.sh", "cp $1/A.npy $2/D.npy # again\n");
    expect_refusal(
        &mut resume(),
        "cannot resume: @/right.sh changed since the run was recorded, so answers would be judged in two ways; measure anew",
    );
    write("right.sh", "cp $1/A.npy $2/D.npy\n");
    let description = fs::read_to_string(folder.path().join("copy.toml")).expect("there");
    write("copy.toml", &description.replace("[dispatch]", "check = { rtol = 0.5 }\n[dispatch]"));
    let said = "cannot resume: the run has another plan, as @/copy.toml changed: its cases, checks or sampling differ";
    expect_error(&mut resume(), 2, &[&within(folder.path(), said)]);
}

#[test]
fn commands_are_named_once_before_they_run_and_refused_where_they_are_forbidden() {
    let reference = format!("echo x >> ran; {RIGHT}");
    let folder = folder(Some(&reference));
    let (path, named) = (folder.path(), format!("running the reference: `{reference}`\n"));
    fs::write(path.join("all.toml"), "[[run]]\ndescription = 'copy.toml'\n").expect("written");
    let bench = |more: &[&str]| {
        let mut bench = brief_bench(&[&within(path, "--config=@/all.toml")]);
        bench.args(more);
        bench
    };
    let inputs = [
        "--no-commands",
        "--set=inputs.command=echo x > ran",
        "--set=reference={ builtin = 'matmul', size = ['N', 1, 1] }",
    ];
    let forbidden = format!(
        "@/copy.toml:17: reference.command: --no-commands forbids `{reference}`; leave --no-commands out if you trust \
         it"
    );
    for more in [&[][..], &["--watch"], &["--ab"]] {
        expect_refusal(run(path, &["--no-commands"]).args(more), &forbidden);
    }
    for mut command in [bench(&["--no-commands"]), bench(&["--no-commands", "--dry-run"])] {
        expect_refusal(&mut command, &forbidden);
    }
    expect_refusal(
        &mut run(path, &inputs),
        "--set inputs.command=echo x > ran: inputs.command: --no-commands forbids `echo x > ran`; leave --no-commands \
         out if you trust it",
    );
    let by = ["--no-commands", "--set=reference.command=cp {in}/A.npy {out}/D.npy"];
    expect_refusal(
        &mut run(path, &by),
        "--set reference.command=cp {in}/A.npy {out}/D.npy: reference.command: --no-commands forbids `cp {in}/A.npy \
         {out}/D.npy`; leave --no-commands out if you trust it",
    );
    // A run refused for another reason runs no command either.
    for arguments in ["--processes=0", "--compare=gone.json", "--device=99"] {
        let said = stderr(&expect_exit(&mut run(path, &[arguments]), 2));
        assert!(!said.contains(&named), "{said}");
    }
    // Neither --dry-run nor --init runs a command.
    for mut command in [bench(&["--dry-run"]), run(path, &["--init"]), run(path, &["--init", "--no-commands"])] {
        let said = stderr(&expect_exit(&mut command, 0));
        assert!(!said.contains(&named), "{said}");
    }
    assert!(!path.join("ran").exists());
    for mut command in [run(path, &["--processes=2", "--quiet"]), bench(&[])] {
        let said = stderr(&expect_exit(&mut command, 0));
        assert_eq!(said.matches(&named).count(), 1, "{said}");
    }
    assert!(path.join("ran").exists());
    // A description without commands is allowed.
    fs::write(path.join("copy.toml"), DESCRIPTION).expect("written");
    let said = stderr(&expect_exit(&mut run(path, &["--no-commands"]), 0));
    // Its advice is about `run`, not `bench`.
    check_text(
        line(&said, "note      device 0 "),
        "note      device 0 (CPU): ± covers one process only; medians of others may differ by 20 % or more \
         (`--processes 5` measures this)",
    );
}
