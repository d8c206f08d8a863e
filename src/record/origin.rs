//! The origin of a record: what places it among others.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Digits of a commit that a person reads.
const SHORT: usize = 12;

/// Characters that a text of an origin has at most.
pub(crate) const LONGEST: usize = 1000;

/// Variables that choose the driver or change what it does, and those that stand for options of `bench`.
pub(crate) const CHOOSING: [&str; 28] = [
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_ADD_DRIVER_FILES",
    "VK_LOADER_DRIVERS_SELECT",
    "VK_LOADER_DRIVERS_DISABLE",
    "LD_LIBRARY_PATH",
    "VK_INSTANCE_LAYERS",
    "VK_LOADER_LAYERS_ENABLE",
    "MESA_VK_DEVICE_SELECT",
    "MESA_SHADER_CACHE_DISABLE",
    "ANV_DEBUG",
    "INTEL_DEBUG",
    "GALLIVM_DEBUG",
    "GALLIVM_PERF",
    "LP_NATIVE_VECTOR_WIDTH",
    "LP_NUM_THREADS",
    "LP_PERF",
    "NIR_DEBUG",
    "NVK_DEBUG",
    "PANVK_DEBUG",
    "RADV_DEBUG",
    "RADV_PERFTEST",
    "TU_DEBUG",
    "GPUKERN_CACHE",
    "GPUKERN_DEVICE",
    "GPUKERN_LOADER",
    "GPUKERN_TUNED",
    "GPUKERN_VALIDATION",
];

/// Who measured a record, and at which commit. What nobody could tell is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Origin {
    /// The commit of the working directory, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether files of that commit were changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub modified: bool,
    /// When the commit was made (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed: Option<String>,
    /// The branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What whoever measured it calls it: `--label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Address of the CI job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Name of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The host's operating system with the version of its kernel: `Linux 6.1.0-40-amd64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The variables that chose the driver, with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

impl Origin {
    /// What all of `origins` agree on.
    #[must_use]
    pub(crate) fn common<'a>(origins: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut origins = origins.into_iter();
        let first = origins.next().cloned().unwrap_or_default();
        origins.fold(first, |mut common, other| {
            let fields = common.texts_mut().into_iter().zip(other.texts());
            fields.filter(|(own, (_, other))| **own != **other).for_each(|(own, _)| *own = None);
            common.modified |= other.modified;
            if common.environment != other.environment {
                common.environment.clear();
            }
            common
        })
    }

    /// The commit as a person reads it, with its branch: `5f3a9c0d1e2b (main, modified)`.
    #[must_use]
    pub(crate) fn commit_text(&self) -> Option<String> {
        let short = self.commit.as_ref()?.chars().take(SHORT).collect::<String>();
        let branch = self.branch.as_deref();
        let remarks: Vec<_> = branch.into_iter().chain(self.modified.then_some("modified")).collect();
        Some(if remarks.is_empty() { short } else { format!("{short} ({})", remarks.join(", ")) })
    }

    /// The host and its system: `builder-7, Linux 6.1.0-40-amd64`.
    #[must_use]
    pub(crate) fn host_text(&self) -> Option<String> {
        let known: Vec<_> = [&self.host, &self.system].into_iter().flatten().map(String::as_str).collect();
        (!known.is_empty()).then(|| known.join(", "))
    }

    /// The texts by their names.
    pub(crate) fn texts(&self) -> [(&'static str, &Option<String>); 7] {
        let Self { commit, modified: _, committed, branch, label, job, host, system, environment: _ } = self;
        let names = ["commit", "committed", "branch", "label", "job", "host", "system"];
        let texts = [commit, committed, branch, label, job, host, system];
        std::array::from_fn(|at| (names[at], texts[at]))
    }

    /// The texts, to be replaced.
    pub(crate) fn texts_mut(&mut self) -> [&mut Option<String>; 7] {
        let Self { commit, modified: _, committed, branch, label, job, host, system, environment: _ } = self;
        [commit, committed, branch, label, job, host, system]
    }

    /// What makes it unbelievable.
    pub(super) fn nonsense(&self) -> Option<String> {
        if let Some((name, _)) = self
            .texts()
            .into_iter()
            .find(|(_, text)| text.as_ref().is_some_and(|text| text.is_empty() || text.chars().nth(LONGEST).is_some()))
        {
            return Some(format!("`{name}` is empty, or longer than {LONGEST} characters"));
        }
        let long = |text: &String| text.chars().nth(LONGEST).is_some();
        let mut variables = self.environment.iter();
        if self.environment.len() > CHOOSING.len() || variables.any(|(name, value)| long(name) || long(value)) {
            return Some(format!(
                "`environment` has more than {} variables, or one of more than {LONGEST} characters",
                CHOOSING.len()
            ));
        }
        let hexadecimal = |text: &&String| !is_commit(text);
        if let Some(commit) = self.commit.as_ref().filter(hexadecimal) {
            return Some(format!("`commit` is '{commit}', not 7 to 64 hexadecimal digits"));
        }
        let time = |text: &&String| text.parse::<jiff::Timestamp>().is_err();
        self.committed.as_ref().filter(time).map(|text| format!("`committed` is '{text}', not a time (RFC 3339)"))
    }
}

/// Whether `text` can be the name of a commit, short or long.
#[must_use]
pub(crate) fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(commit: &str, host: &str) -> Origin {
        let text = |text: &str| Some(text.to_string());
        Origin { commit: text(commit), branch: text("main"), host: text(host), ..Origin::default() }
    }

    #[test]
    fn a_common_origin_has_the_texts_that_all_share() {
        let [a, b] = [origin("0123456", "a"), Origin { modified: true, ..origin("0123456", "b") }];
        let common = Origin { host: None, modified: true, ..a.clone() };
        assert_eq!(Origin::common([&a, &b]), common);
        assert_eq!(Origin::common([&a, &Origin::default()]), Origin::default());
        assert_eq!((Origin::common([&a]), Origin::common([])), (a.clone(), Origin::default()));
        let driven =
            |value: &str| Origin { environment: [("VK_DRIVER_FILES".into(), value.into())].into(), ..a.clone() };
        assert_eq!(Origin::common([&driven("1"), &driven("1")]).environment.len(), 1);
        assert_eq!(Origin::common([&driven("1"), &driven("2")]), a);
    }

    #[test]
    fn it_reads_as_a_line() {
        let mut origin = origin("0123456789abcdef", "a");
        assert_eq!(origin.commit_text().as_deref(), Some("0123456789ab (main)"));
        (origin.modified, origin.branch, origin.system) = (true, None, Some("Linux 6".into()));
        assert_eq!(origin.commit_text().as_deref(), Some("0123456789ab (modified)"));
        assert_eq!(origin.host_text().as_deref(), Some("a, Linux 6"));
        assert_eq!((Origin::default().commit_text(), Origin::default().host_text()), (None, None));
    }

    #[test]
    fn impossible_origins_are_described() {
        let said = |origin: Origin| origin.nonsense();
        assert_eq!(said(origin("0123456", "a")), None);
        let error = said(origin("main", "a")).expect("no commit");
        assert!(error.contains("`commit` is 'main'"), "{error}");
        assert!(said(origin("0123456", "")).is_some_and(|error| error.contains("`host` is empty")));
        let long = Origin { label: Some("x".repeat(LONGEST + 1)), ..Origin::default() };
        assert!(said(long).is_some_and(|error| error.contains("`label`")));
        let late = Origin { committed: Some("yesterday".into()), ..Origin::default() };
        assert!(said(late).is_some_and(|error| error.contains("`committed` is 'yesterday'")));
        let crowded = Origin {
            environment: (0..=CHOOSING.len()).map(|at| (at.to_string(), String::new())).collect(),
            ..Origin::default()
        };
        assert!(said(crowded).is_some_and(|error| error.contains("`environment`")));
    }
}
