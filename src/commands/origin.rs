//! The origin of a record: commit, branch, job, host and variables, from git, the CI system and the environment.

use crate::basis::threads;
use crate::engine::host::processor;
use crate::record::{CHOOSING, MAX_TEXT_LENGTH, Origin, is_commit};
use crate::{Host, Result, brief};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Common CI systems, as documented in 2026: the variable that only this system sets, and the variables of the commit, the
/// branch (that of a pull request first) and the address of the job. The first variable of several that is set counts.
const SYSTEMS: [[&str; 4]; 12] = [
    ["GITHUB_ACTIONS", "GITHUB_SHA", "GITHUB_HEAD_REF GITHUB_REF_NAME", ""],
    ["GITLAB_CI", "CI_COMMIT_SHA", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME CI_COMMIT_REF_NAME", "CI_JOB_URL"],
    ["BUILDKITE", "BUILDKITE_COMMIT", "BUILDKITE_BRANCH", "BUILDKITE_BUILD_URL"],
    ["JENKINS_URL", "GIT_COMMIT", "CHANGE_BRANCH BRANCH_NAME GIT_BRANCH", "BUILD_URL"],
    ["CIRCLECI", "CIRCLE_SHA1", "CIRCLE_BRANCH", "CIRCLE_BUILD_URL"],
    ["TF_BUILD", "BUILD_SOURCEVERSION", "SYSTEM_PULLREQUEST_SOURCEBRANCH BUILD_SOURCEBRANCHNAME", ""],
    ["TRAVIS", "TRAVIS_COMMIT", "TRAVIS_PULL_REQUEST_BRANCH TRAVIS_BRANCH", "TRAVIS_JOB_WEB_URL"],
    ["DRONE", "DRONE_COMMIT_SHA", "DRONE_SOURCE_BRANCH", "DRONE_BUILD_LINK"],
    ["CI_PIPELINE_FORGE_URL", "CI_COMMIT_SHA", "CI_COMMIT_SOURCE_BRANCH CI_COMMIT_BRANCH", "CI_PIPELINE_URL"],
    ["BITBUCKET_BUILD_NUMBER", "BITBUCKET_COMMIT", "BITBUCKET_BRANCH", ""],
    ["APPVEYOR", "APPVEYOR_REPO_COMMIT", "APPVEYOR_PULL_REQUEST_HEAD_REPO_BRANCH APPVEYOR_REPO_BRANCH", ""],
    ["TEAMCITY_VERSION", "BUILD_VCS_NUMBER", "", "BUILD_URL"],
];

/// Variable that names the commit where there is no git, such as in containers and on nodes of a cluster.
const COMMIT: &str = "GPUKERN_COMMIT";

/// Commit that this program was built from; empty outside a checkout.
pub(super) const BUILT_FROM: &str = env!("GPUKERN_BUILT_FROM");

/// Returns the origin of a record that this process measures. Refuses a malformed label or variable.
pub(super) fn of_this_process(label: Option<&str>, host: &Host) -> Result<Origin> {
    check_label(label)?;
    let variable = |name: &str| host.variable(name);
    let mut origin = match from_user(variable)? {
        Some(origin) => origin,
        None => combined(from_git(Path::new("")), from_ci(variable)),
    };
    origin.label = label.map(String::from);
    origin.environment = environment(host);
    name_host(&mut origin, variable);
    origin.processor = Some(processor());
    origin.built_from = Some(BUILT_FROM.into());
    // A text too long for a record is left out.
    for text in origin.texts_mut() {
        *text = text.take().filter(|text| !text.is_empty() && !exceeds_record(text));
    }
    Ok(origin)
}

/// Returns the variables that choose the driver, except those too long for a record.
pub(super) fn environment(host: &Host) -> BTreeMap<String, String> {
    let variables = CHOOSING.iter().filter_map(|name| Some((name.to_string(), host.variable(name)?)));
    variables.filter(|(_, value)| !exceeds_record(value)).collect()
}

/// Returns whether a variable is set, and too long for a record.
pub(super) fn is_too_long(name: &str, host: &Host) -> bool {
    host.variable(name).is_some_and(|value| exceeds_record(&value))
}

/// Returns whether a text has more characters than a record keeps.
fn exceeds_record(text: &str) -> bool {
    text.chars().nth(MAX_TEXT_LENGTH).is_some()
}

/// Returns the commit and branch that the user's variables state.
fn from_user(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Origin>> {
    let Some(commit) = variable(COMMIT) else { return Ok(None) };
    if !is_commit(&commit) {
        return Err(usage!("{COMMIT} is '{}', which is no commit; write 7 to 64 hexadecimal digits", brief(&commit)));
    }
    Ok(Some(Origin { commit: Some(commit), branch: variable("GPUKERN_BRANCH"), ..Origin::default() }))
}

/// Refuses a label that is blank or too long.
fn check_label(label: Option<&str>) -> Result<()> {
    match label {
        Some(label) if label.trim().is_empty() || exceeds_record(label) => Err(usage!(
            "--label '{}' is no label; write one of 1 to {MAX_TEXT_LENGTH} characters, such as 'mesa-main, 24 h'",
            brief(label)
        )),
        _ => Ok(()),
    }
}

/// Combines the origins from git and from the CI system, which adds its job. If both name the same commit, it also adds its
/// branch if git knows none; outside a git repository, its origin is used.
fn combined(git: Origin, ci: Origin) -> Origin {
    if git.commit.is_none() {
        return ci;
    }
    let ci_branch = if git.commit == ci.commit { ci.branch } else { None };
    Origin { branch: git.branch.or(ci_branch), job: ci.job, ..git }
}

/// Returns the origin that the variables of a CI system state.
fn from_ci(variable: impl Fn(&str) -> Option<String>) -> Origin {
    let Some([_, commit, branch, job]) = SYSTEMS.into_iter().find(|[marker, ..]| variable(marker).is_some()) else {
        return Origin::default();
    };
    let first = |names: &str| names.split(' ').find_map(&variable);
    let github_run = || {
        let [server, repository, run] = ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"].map(&variable);
        Some(format!("{}/{}/actions/runs/{}", server?, repository?, run?))
    };
    Origin {
        commit: variable(commit).filter(|commit| is_commit(commit)),
        branch: first(branch).map(|branch| branch.trim_start_matches("origin/").to_string()),
        job: first(job).or_else(github_run),
        ..Origin::default()
    }
}

/// Returns the origin that git states for a folder; an empty path is the working directory.
pub(super) fn from_git(folder: &Path) -> Origin {
    let git = |arguments: &[&str]| git(folder, arguments);
    let Some(commit) = git(&["log", "-1", "--no-show-signature", "--format=%H %cI"]) else { return Origin::default() };
    let (commit, committed) = commit.split_once(' ').unwrap_or((&commit, ""));
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--ignore-submodules"]);
    Origin {
        commit: Some(commit.to_string()).filter(|commit| is_commit(commit)),
        committed: Some(committed.to_string()).filter(|time| time.parse::<jiff::Timestamp>().is_ok()),
        modified: changed.is_some_and(|changed| !changed.is_empty()),
        branch: git(&["symbolic-ref", "--quiet", "--short", "HEAD"]),
        ..Origin::default()
    }
}

/// Time limit of a git command: a repository on an unreachable network drive never answers.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the standard output of `git` with these arguments in a folder; `None` if git is missing or fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Git takes an empty path for the working directory.
    command.arg("-C").arg(folder);
    output_of(command.arg("--no-optional-locks").args(arguments), GIT_TIMEOUT)
}

/// Returns the standard output of a program; `None` if it fails or exceeds the timeout.
fn output_of(command: &mut Command, timeout: Duration) -> Option<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut output = child.stdout.take()?;
    let (sender, whole) = mpsc::channel();
    let reading = threads::start(move || {
        let mut text = String::new();
        let _ = sender.send(output.read_to_string(&mut text).map(|_| text));
    });
    let text = reading.ok().and_then(|_| whole.recv_timeout(timeout).ok());
    if text.is_none() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    Some(text?.ok()?.trim().to_string()).filter(|_| status.success())
}

/// Sets the names of this host and of its operating system.
#[cfg(unix)]
fn name_host(origin: &mut Origin, _: impl Fn(&str) -> Option<String>) {
    if let Ok(uname) = nix::sys::utsname::uname() {
        origin.host = Some(uname.nodename().to_string_lossy().into_owned());
        let [name, release] = [uname.sysname(), uname.release()].map(std::ffi::OsStr::to_string_lossy);
        origin.system = Some(format!("{name} {release}"));
    }
}

/// Sets the names of this host and of its operating system.
#[cfg(not(unix))]
fn name_host(origin: &mut Origin, variable: impl Fn(&str) -> Option<String>) {
    origin.host = variable("COMPUTERNAME");
    origin.system = variable("OS");
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn ci(variables: &[(&str, &str)]) -> Origin {
        from_ci(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn ci_systems_say_commit_branch_and_job() {
        let text = |text: &str| Some(text.to_string());
        let github = ci(&[
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_SHA", COMMIT),
            ("GITHUB_REF_NAME", "7/merge"),
            ("GITHUB_HEAD_REF", "faster"),
            ("GITHUB_SERVER_URL", "https://github.example"),
            ("GITHUB_REPOSITORY", "a/b"),
            ("GITHUB_RUN_ID", "9"),
        ]);
        let job = text("https://github.example/a/b/actions/runs/9");
        assert_eq!(github, Origin { commit: text(COMMIT), branch: text("faster"), job, ..Origin::default() });
        let jenkins = ci(&[("JENKINS_URL", "x"), ("GIT_COMMIT", COMMIT), ("GIT_BRANCH", "origin/main")]);
        assert_eq!((jenkins.commit, jenkins.branch), (text(COMMIT), text("main")));
        let buildkite = ci(&[("BUILDKITE", "true"), ("BUILDKITE_COMMIT", "HEAD"), ("BUILDKITE_BRANCH", "main")]);
        assert_eq!((buildkite.commit, buildkite.branch), (None, text("main")), "HEAD is no commit");
        assert_eq!(ci(&[("GITHUB_SHA", COMMIT)]), Origin::default(), "the variables of another tool");
    }

    #[test]
    fn git_comes_first_and_the_ci_system_completes_the_same_commit() {
        let origin = |texts: [Option<&str>; 3]| {
            let [commit, branch, job] = texts.map(|text| text.map(String::from));
            Origin { commit, branch, job, ..Origin::default() }
        };
        let ci = [Some(COMMIT), Some("main"), Some("job")];
        for (git, expected) in [
            ([None, None, None], ci),
            ([Some(COMMIT), None, None], ci),
            ([Some(COMMIT), Some("own"), None], [Some(COMMIT), Some("own"), Some("job")]),
            // The branch is that of another repository.
            ([Some("fedcba9"), None, None], [Some("fedcba9"), None, Some("job")]),
        ] {
            assert_eq!(combined(origin(git), origin(ci)), origin(expected));
        }
    }

    #[test]
    fn a_commit_that_the_user_states_is_used_or_refused() {
        let stated = |value: &str| from_user(|name| (name == super::COMMIT).then(|| value.to_string()));
        assert_eq!(stated("0123456").expect("a commit").and_then(|origin| origin.commit).as_deref(), Some("0123456"));
        let error = stated("HEAD").expect_err("no commit").to_string();
        assert_eq!(error, "GPUKERN_COMMIT is 'HEAD', which is no commit; write 7 to 64 hexadecimal digits");
        assert!(from_user(|_| None).expect("nothing").is_none());
    }

    #[test]
    #[cfg(unix)]
    fn a_program_that_does_not_end_is_not_waited_for() {
        let run = |line: &str, seconds| output_of(Command::new("sh").args(["-c", line]), Duration::from_secs(seconds));
        assert_eq!(run("echo ' main '", 60).as_deref(), Some("main"));
        assert_eq!(run("echo main; exit 1", 60), None);
        let started = std::time::Instant::now();
        assert_eq!(run("exec sleep 100", 0), None);
        assert!(started.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn variables_that_choose_the_driver_are_kept() {
        let kept =
            |name: &str, value: &str| environment(&Host::in_memory([], [(name.into(), value.into())], "gpukern"));
        assert_eq!(kept("VK_DRIVER_FILES", "a b.json"), [("VK_DRIVER_FILES".into(), "a b.json".into())].into());
        assert!(kept("HOME", "/root").is_empty());
        assert!(kept("VK_DRIVER_FILES", &"x".repeat(MAX_TEXT_LENGTH + 1)).is_empty());
    }

    #[test]
    fn a_label_is_a_text_of_some_characters() {
        for label in ["", "  ", &"x".repeat(MAX_TEXT_LENGTH + 1)] {
            assert!(check_label(Some(label)).is_err());
        }
        assert!(check_label(None).is_ok() && check_label(Some("nightly")).is_ok());
    }
}
