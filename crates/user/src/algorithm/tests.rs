//! Runs hand-made users' kernels on a device: descriptors, uniform data, constants, references, red zones; and the
//! commands of a description.

use super::{REFERENCE, UserKernels, guarded, make_folders, run_shell};
use crate::algorithms::CaseSpec;
use crate::basis::destination::Scratch;
use crate::basis::error::Error;
use crate::fixture::{SHIFT, buffer, compiled, kernels};
use crate::kernel::buffer::Role;
use crate::kernels::CATALOGUE;
use crate::resolved::{Builtin, Fill, Reference, ShellCommand};
use std::path::Path;

#[test]
fn a_misfit_with_a_built_in_algorithm_is_refused_without_a_device() {
    let refused = |[b, c]: [usize; 2], against: &str| {
        let input = |name| buffer(name, 16, Role::Input, Some(Fill::Zero));
        let buffers = vec![input("a"), input("b"), buffer("c", 16, Role::Output, None)];
        let roles = [("A", 0), ("B", b), ("C", c)].map(|(role, index)| (role.to_string(), index)).to_vec();
        let builtin = Builtin { algorithm: "matmul".into(), size: vec![4], layout: None, roles };
        let mut own = kernels("misfit", vec![compiled("shift", SHIFT)], buffers, Reference::Builtin(builtin), vec![]);
        own.against = vec![against.into()];
        own.algorithm(&CATALOGUE).err().expect("it does not fit")
    };
    let swapped = "buffer c is not filled and written as B of matmul is; correct reference.roles";
    assert_eq!(refused([2, 1], "tiled"), swapped);
    assert!(refused([1, 2], "tilde").starts_with("unknown variant 'tilde' for matmul; did you mean 'tiled'?"));
}

/// Runs a shell command in `folder`, and returns what it wrote to `{out}/text`.
#[cfg(unix)]
fn run_line(line: &str, folder: &Path) -> Result<String, String> {
    let scratch = make_folders(REFERENCE, &["out"]).expect("a folder");
    let command = ShellCommand { line: line.into(), folder: folder.into() };
    run_shell(REFERENCE, &command, &scratch, &["out"]).map_err(|e| e.to_string())?;
    Ok(std::fs::read_to_string(scratch.path().join("out/text")).unwrap_or_default())
}

#[test]
#[cfg(unix)]
fn a_command_runs_in_its_folder_and_reports_its_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = run_line("pwd > {out}/text", folder.path()).expect("it runs");
    assert!(written.contains(&*folder.path().to_string_lossy()));
    let failed = run_line("echo wrong >&2; exit 7", folder.path()).expect_err("it fails");
    assert_eq!(failed, "the reference command `echo wrong >&2; exit 7` failed (exit code 7): wrong");
    let missing = run_line("no-such-program-here", Path::new("")).expect_err("there is none");
    assert!(missing.contains("no-such-program-here"), "{missing}");
}

#[test]
#[cfg(unix)]
fn only_the_end_of_a_long_output_is_stored() {
    // 40 MB on each stream.
    let line = "head -c 40000000 /dev/zero; head -c 40000000 /dev/zero >&2; echo >&2; echo last >&2; exit 1";
    let failed = run_line(line, Path::new("")).expect_err("it fails");
    assert!(failed.ends_with("(exit code 1): last"), "{failed}");
    let scratch = Scratch::new().expect("a folder");
    let mut program = std::process::Command::new("sh");
    program.args(["-c", "head -c 40000000 /dev/zero; head -c 40000000 /dev/zero >&2; printf end >&2"]);
    for joined in [false, true] {
        let tail = guarded::run(&program, &scratch, joined).expect("it runs").said;
        assert!(tail.len() == 64 << 10 && tail.ends_with("\0end"), "{}", tail.len());
    }
}

/// Makes the inputs at the only point of kernels, and the oracle for them.
#[cfg(unix)]
fn judge(kernels: &UserKernels) -> Result<(), Error> {
    let algorithm = kernels.clone().algorithm(&CATALOGUE).expect("it fits");
    let spec = CaseSpec::new(&algorithm, kernels.problem.sizes()[0], kernels.dtype());
    let problem = (algorithm.problem)(&spec).expect("a problem");
    problem.oracle(&problem.inputs()?).map(drop)
}

/// Returns the error for a reference or for inputs that these commands make.
#[cfg(unix)]
fn find_mistake(inputs: Option<&str>, reference: &str) -> String {
    let command = |line: &str| ShellCommand { line: line.into(), folder: "".into() };
    let fill = Some(if inputs.is_some() { Fill::Made } else { Fill::Iota });
    let buffers = vec![buffer("A", 100, Role::Input, fill), buffer("D", 100, Role::Output, None)];
    let mut own = kernels("faulty", vec![], buffers, Reference::Command(command(reference)), vec![]);
    own.problem.points[0].inputs = inputs.map(command);
    match judge(&own).expect_err("it is wrong") {
        // The user can fix it.
        Error::Usage(message) => message,
        other => panic!("{other}"),
    }
}

#[test]
#[cfg(unix)]
fn faulty_files_are_blamed_on_their_command() {
    for (line, expected) in [
        ("cp {in}/A.npy {out}/D.npy; exit 7", "the reference command `{line}` failed (exit"),
        ("true", "the reference command `{line}` wrote nothing to {out}; make it write D.npy"),
        ("mkdir {out}/D.npy", "the reference command `{line}` wrote D.npy/ to {out}; make it write D.npy"),
        ("cp {in}/A.npy {out}/E.npy", "the reference command `{line}` wrote E.npy to {out}; make it write D.npy"),
        ("echo no > {out}/D.npy", "the reference for D: D.npy: it is shorter than the header of a .npy"),
        ("head -c 7 /dev/zero > {out}/D.bin", "the reference for D: D.bin: its data ends: it has 7 bytes"),
    ] {
        let message = find_mistake(None, line);
        assert!(message.starts_with(&expected.replace("{line}", line)), "{line}: {message}");
    }
    // The last line of a script's traceback is shown with its position.
    let traceback = "printf 'Traceback:\\n  File \"ref.py\", line 3, in <module>\\n  File \"/usr/lib/python3/x.py\", line 9\\n\\
                     FileNotFoundError: {in}/B.npy\\n' >&2; exit 1";
    let message = find_mistake(None, traceback);
    let expected = "failed (exit code 1): FileNotFoundError: {in}/B.npy (File \"ref.py\", line 3, in <module>) \
                    ({in} has A.npy)";
    assert!(message.ends_with(expected), "{message}");
    for (line, expected) in [
        ("exit 7", "the inputs command `exit 7` failed (exit code 7): it said nothing"),
        ("echo no > {out}/A.npy", "buffer A, from the inputs command: A.npy: it is shorter than the header of a .npy"),
        ("true", "buffer A, from the inputs command: neither A.npy nor A.bin is in {out}"),
    ] {
        let message = find_mistake(Some(line), "true");
        assert!(message.starts_with(expected), "{line}: {message}");
    }
}

#[test]
#[cfg(unix)]
fn unusual_buffer_names_cannot_escape_the_folder() {
    let command = |line: &str| ShellCommand { line: line.into(), folder: "".into() };
    let names = ["../../gpukern-escape", "/tmp/gpukern-escape", &"n".repeat(300), "a\nb", "A", "a"];
    let mut buffers: Vec<_> = names.iter().map(|name| buffer(name, 4, Role::Input, Some(Fill::Iota))).collect();
    buffers.push(buffer("../D", 4, Role::Output, None));
    let line = "test $(ls {in}/*.npy | wc -l) = 6 && d=$(sed 's/.*\"..\\/D\":\"\\([^\"]*\\).*/\\1/' {in}/names.json) && \
                cp {in}/A.npy \"{out}/$d.npy\"";
    let own = kernels("unusual", vec![], buffers, Reference::Command(command(line)), vec![]);
    judge(&own).expect("the reference has an answer");
    for folder in [std::env::temp_dir(), "/tmp".into()] {
        assert!(!folder.join("gpukern-escape.npy").exists(), "a name was a path");
    }
}
