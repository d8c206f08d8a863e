//! Takes the commit that gpukern is built from, for `--version` and the origin of records. A new commit rebuilds only the
//! crate of this script.

use std::path::Path;
use std::process::Command;

/// Files and folders of which the binary is made.
const PARTS: [&str; 8] = ["src", "crates", "glsl", "layer", "build", "build.rs", "Cargo.toml", "Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-changed=build/commit.rs");
    let commit = commit().unwrap_or_default();
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let long = if commit.is_empty() { version } else { format!("{version} ({commit})") };
    println!("cargo::rustc-env=GPUKERN_BUILT_FROM={commit}");
    println!("cargo::rustc-env=GPUKERN_LONG_VERSION={long}");
}

/// Returns the commit, with `-dirty` where a part was changed; `None` outside a checkout, such as in a package that was
/// unpacked inside another project's.
fn commit() -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    // The log of HEAD changes with each commit, wherever git keeps the branch.
    let reference = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_else(|| "HEAD".into());
    for name in ["HEAD", "logs/HEAD", &reference] {
        watch(&git(&["rev-parse", "--git-path", name])?);
    }
    // Tests may write snapshots, which are no part of the binary.
    let parts = [&["--"], &PARTS[..], &[":(exclude)*.snap"]].concat();
    git(&[&["ls-files"], &parts[..]].concat())?.lines().for_each(watch);
    let changes = git(&[&["status", "--porcelain", "--untracked-files=no"], &parts[..]].concat())?;
    Some(if changes.is_empty() { commit } else { commit + "-dirty" })
}

/// Has cargo run this again when a file changes; without one, it would run it each time.
fn watch(path: &str) {
    if Path::new(path).exists() {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // A hook of another repository sets these.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    let output = command.arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}
