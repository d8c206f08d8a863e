//! Where a record comes from: git, the CI system and the host say.

use super::host::Host;
use crate::basis::error::Error;
use crate::basis::printable::brief;
use crate::basis::threads;
use crate::record::{CHOOSING, MAX_TEXT_LENGTH, Origin, is_commit};
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The variables of a CI system.
struct CiSystem {
    /// The variable that only it sets.
    sign: &'static str,
    commit: &'static str,
    /// The first that is set is the branch: that of a pull request comes first.
    branch: &'static [&'static str],
    /// The first that is set is the address of the job.
    job: &'static [&'static str],
}

/// Common CI systems, as their documentation has them in 2026.
const SYSTEMS: [CiSystem; 12] = [
    CiSystem {
        sign: "GITHUB_ACTIONS",
        commit: "GITHUB_SHA",
        branch: &["GITHUB_HEAD_REF", "GITHUB_REF_NAME"],
        job: &[],
    },
    CiSystem {
        sign: "GITLAB_CI",
        commit: "CI_COMMIT_SHA",
        branch: &["CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"],
        job: &["CI_JOB_URL"],
    },
    CiSystem {
        sign: "BUILDKITE",
        commit: "BUILDKITE_COMMIT",
        branch: &["BUILDKITE_BRANCH"],
        job: &["BUILDKITE_BUILD_URL"],
    },
    CiSystem {
        sign: "JENKINS_URL",
        commit: "GIT_COMMIT",
        branch: &["CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH"],
        job: &["BUILD_URL"],
    },
    CiSystem { sign: "CIRCLECI", commit: "CIRCLE_SHA1", branch: &["CIRCLE_BRANCH"], job: &["CIRCLE_BUILD_URL"] },
    CiSystem {
        sign: "TF_BUILD",
        commit: "BUILD_SOURCEVERSION",
        branch: &["SYSTEM_PULLREQUEST_SOURCEBRANCH", "BUILD_SOURCEBRANCHNAME"],
        job: &[],
    },
    CiSystem {
        sign: "TRAVIS",
        commit: "TRAVIS_COMMIT",
        branch: &["TRAVIS_PULL_REQUEST_BRANCH", "TRAVIS_BRANCH"],
        job: &["TRAVIS_JOB_WEB_URL"],
    },
    CiSystem {
        sign: "DRONE",
        commit: "DRONE_COMMIT_SHA",
        branch: &["DRONE_SOURCE_BRANCH"],
        job: &["DRONE_BUILD_LINK"],
    },
    CiSystem {
        sign: "CI_PIPELINE_FORGE_URL",
        commit: "CI_COMMIT_SHA",
        branch: &["CI_COMMIT_SOURCE_BRANCH", "CI_COMMIT_BRANCH"],
        job: &["CI_PIPELINE_URL"],
    },
    CiSystem { sign: "BITBUCKET_BUILD_NUMBER", commit: "BITBUCKET_COMMIT", branch: &["BITBUCKET_BRANCH"], job: &[] },
    CiSystem {
        sign: "APPVEYOR",
        commit: "APPVEYOR_REPO_COMMIT",
        branch: &["APPVEYOR_PULL_REQUEST_HEAD_REPO_BRANCH", "APPVEYOR_REPO_BRANCH"],
        job: &[],
    },
    CiSystem { sign: "TEAMCITY_VERSION", commit: "BUILD_VCS_NUMBER", branch: &[], job: &["BUILD_URL"] },
];

/// The variable that names the commit where neither git nor a CI system does.
const COMMIT: &str = "GPUKERN_COMMIT";

/// The origin of what this process measures.
///
/// # Errors
/// When the label is none.
pub(super) fn here(label: Option<&str>, here: &Host) -> Result<Origin, Error> {
    check_label(label)?;
    let variable = |name: &str| here.variable(name);
    let (host, system) = machine(variable);
    let known = match of_user(variable)? {
        Some(origin) => origin,
        None => joined(of_git(), of_ci(variable)),
    };
    let environment = environment(here);
    let mut origin = Origin { label: label.map(String::from), host, system, environment, ..known };
    // What cannot be kept is as good as unknown.
    for text in origin.texts_mut() {
        *text = text.take().filter(|text| !text.is_empty() && text.chars().nth(MAX_TEXT_LENGTH).is_none());
    }
    Ok(origin)
}

/// The variables that choose the driver here; those that are too long to keep are left out.
pub(super) fn environment(host: &Host) -> BTreeMap<String, String> {
    chosen(|name| host.variable(name))
}

/// Whether a variable is set, and too long to keep.
pub(super) fn is_long(name: &str, host: &Host) -> bool {
    host.variable(name).is_some_and(|value| value.chars().nth(MAX_TEXT_LENGTH).is_some())
}

fn chosen(variable: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let set = CHOOSING.iter().filter_map(|name| Some((name.to_string(), variable(name)?)));
    set.filter(|(_, value)| value.chars().nth(MAX_TEXT_LENGTH).is_none()).collect()
}

/// What whoever runs it says: for places without git, such as containers and the nodes of a cluster.
fn of_user(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Origin>, Error> {
    let Some(commit) = variable(COMMIT) else { return Ok(None) };
    if !is_commit(&commit) {
        let shown = brief(&commit);
        return Err(Error::Usage(format!(
            "{COMMIT} is '{shown}', which is no commit; write 7 to 64 hexadecimal digits"
        )));
    }
    Ok(Some(Origin { commit: Some(commit), branch: variable("GPUKERN_BRANCH"), ..Origin::default() }))
}

fn check_label(label: Option<&str>) -> Result<(), Error> {
    match label {
        Some(label) if label.trim().is_empty() || label.chars().nth(MAX_TEXT_LENGTH).is_some() => {
            Err(Error::Usage(format!(
                "--label '{}' is no label; write one of 1 to {MAX_TEXT_LENGTH} characters, such as 'mesa-main, 24 h'",
                brief(label)
            )))
        }
        _ => Ok(()),
    }
}

/// What git says of the working directory, completed by what the CI system says of the same commit. A working directory
/// that is no repository of git has the CI system's word alone.
fn joined(git: Origin, ci: Origin) -> Origin {
    match (&git.commit, &ci.commit) {
        (None, _) => ci,
        (Some(here), Some(there)) if here == there => Origin { branch: git.branch.or(ci.branch), job: ci.job, ..git },
        _ => Origin { job: ci.job, ..git },
    }
}

/// What the environment of a CI system says.
fn of_ci(variable: impl Fn(&str) -> Option<String>) -> Origin {
    let Some(system) = SYSTEMS.iter().find(|system| variable(system.sign).is_some()) else {
        return Origin::default();
    };
    let first = |names: &[&str]| names.iter().find_map(|name| variable(name));
    let run = || {
        let [server, repository, run] = ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"].map(&variable);
        Some(format!("{}/{}/actions/runs/{}", server?, repository?, run?))
    };
    Origin {
        commit: variable(system.commit).filter(|commit| is_commit(commit)),
        branch: first(system.branch).map(|branch| branch.trim_start_matches("origin/").to_string()),
        job: first(system.job).or_else(run),
        ..Origin::default()
    }
}

/// What git says of the working directory.
fn of_git() -> Origin {
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

/// Time that git has: a repository on a network that went away never answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// What `git` with these arguments writes to standard output, if it is there and ends well.
fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    answer(command.arg("--no-optional-locks").args(arguments), PATIENCE)
}

/// What a program writes to standard output, if it ends well within this time.
fn answer(command: &mut Command, patience: Duration) -> Option<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut output = child.stdout.take()?;
    let (sender, whole) = mpsc::channel();
    let reading = threads::start(move || {
        let mut text = String::new();
        let _ = sender.send(output.read_to_string(&mut text).map(|_| text));
    });
    let text = reading.ok().and_then(|_| whole.recv_timeout(patience).ok());
    if text.is_none() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    Some(text?.ok()?.trim().to_string()).filter(|_| status.success())
}

/// The names of this host and of its system.
#[cfg(unix)]
fn machine(_: impl Fn(&str) -> Option<String>) -> (Option<String>, Option<String>) {
    let Ok(name) = nix::sys::utsname::uname() else { return (None, None) };
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    (Some(text(name.nodename())), Some(format!("{} {}", text(name.sysname()), text(name.release()))))
}

#[cfg(not(unix))]
fn machine(variable: impl Fn(&str) -> Option<String>) -> (Option<String>, Option<String>) {
    (variable("COMPUTERNAME"), variable("OS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn ci(variables: &[(&str, &str)]) -> Origin {
        of_ci(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_string()))
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
        let of = |commit: Option<&str>, branch: Option<&str>, job: Option<&str>| {
            let [commit, branch, job] = [commit, branch, job].map(|text| text.map(String::from));
            Origin { commit, branch, job, ..Origin::default() }
        };
        let there = of(Some(COMMIT), Some("main"), Some("job"));
        assert_eq!(joined(of(None, None, None), there.clone()), there);
        assert_eq!(joined(of(Some(COMMIT), None, None), there.clone()), there);
        assert_eq!(joined(of(Some(COMMIT), Some("own"), None), there.clone()).branch.as_deref(), Some("own"));
        let other = joined(of(Some("fedcba9"), None, None), there);
        assert_eq!(other, of(Some("fedcba9"), None, Some("job")), "the branch is that of another repository");
    }

    #[test]
    fn the_user_has_the_first_word_and_is_told_what_is_no_commit() {
        let said = |value: &'static str| of_user(move |name| (name == super::COMMIT).then(|| value.to_string()));
        assert_eq!(said("0123456").expect("a commit").and_then(|origin| origin.commit).as_deref(), Some("0123456"));
        assert!(said("HEAD").expect_err("no commit").to_string().contains("GPUKERN_COMMIT is 'HEAD'"));
        assert!(of_user(|_| None).expect("nothing").is_none());
    }

    #[test]
    #[cfg(unix)]
    fn a_program_that_does_not_end_is_not_waited_for() {
        let of = |line: &str, seconds| answer(Command::new("sh").args(["-c", line]), Duration::from_secs(seconds));
        assert_eq!(of("echo ' main '", 60).as_deref(), Some("main"));
        assert_eq!(of("echo main; exit 1", 60), None);
        let begun = std::time::Instant::now();
        assert_eq!(of("exec sleep 100", 0), None);
        assert!(begun.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn variables_that_choose_the_driver_are_kept() {
        let of = |known: &'static str, value: &str| chosen(|name| (name == known).then(|| value.to_string()));
        assert_eq!(of("VK_DRIVER_FILES", "a b.json"), [("VK_DRIVER_FILES".into(), "a b.json".into())].into());
        assert!(of("HOME", "/root").is_empty() && of("VK_DRIVER_FILES", &"x".repeat(MAX_TEXT_LENGTH + 1)).is_empty());
    }

    #[test]
    fn a_label_is_a_text_of_some_characters() {
        for label in ["", "  ", &"x".repeat(MAX_TEXT_LENGTH + 1)] {
            assert!(check_label(Some(label)).is_err());
        }
        assert!(check_label(None).is_ok() && check_label(Some("nightly")).is_ok());
    }
}
