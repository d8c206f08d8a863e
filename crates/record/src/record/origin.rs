//! Origin of a record: commit, host and environment.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of displayed digits of a commit, which identify it in any repository.
const COMMIT_DIGITS: usize = 12;

/// Largest number of characters of a text in an origin.
pub const MAX_TEXT_LENGTH: usize = 1000;

/// Variables that choose the driver or change what it does, and those that stand for options of `bench`; first the
/// [`PLACES`].
pub const CHOOSING: [&str; 40] = [
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "VK_ADD_DRIVER_FILES",
    "VK_LOADER_DRIVERS_SELECT",
    "VK_LOADER_DRIVERS_DISABLE",
    "LD_LIBRARY_PATH",
    "MESA_VK_DEVICE_SELECT",
    "VK_INSTANCE_LAYERS",
    "VK_LOADER_LAYERS_ENABLE",
    "MESA_SHADER_CACHE_DISABLE",
    "ACO_DEBUG",
    "AGX_MESA_DEBUG",
    "AMD_DEBUG",
    "ANV_DEBUG",
    "BIFROST_MESA_DEBUG",
    "FD_MESA_DEBUG",
    "INTEL_DEBUG",
    "INTEL_SIMD_DEBUG",
    "IR3_SHADER_DEBUG",
    "GALLIVM_DEBUG",
    "GALLIVM_PERF",
    "LP_DEBUG",
    "LP_NATIVE_VECTOR_WIDTH",
    "LP_NUM_THREADS",
    "LP_PERF",
    "MESA_SPIRV_DEBUG",
    "NAK_DEBUG",
    "NIR_DEBUG",
    "NVK_DEBUG",
    "PAN_MESA_DEBUG",
    "PANVK_DEBUG",
    "RADV_DEBUG",
    "RADV_PERFTEST",
    "TU_DEBUG",
    "V3D_DEBUG",
    "GPUKERN_CACHE",
    "GPUKERN_DEVICE",
    "GPUKERN_LOADER",
    "GPUKERN_TUNED",
    "GPUKERN_VALIDATION",
];

/// Number of the variables that only say where a driver is found: a record names the driver itself.
const PLACES: usize = 7;

/// Origin of a record: person, host and commit. Unknown facts are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// Name that the user gave it: `--label`.
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
    /// The host's processor with its threads, which is the device where that is software: `AMD EPYC 7763, 4 threads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// The commit that gpukern was built from, with `-dirty` if its files were changed: `5f3a9c0`. Absent for a build
    /// outside a checkout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_from: Option<String>,
    /// The variables that chose the driver, with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

impl Origin {
    /// Returns the properties that all `origins` share; modified if one of them is.
    pub fn common<'a>(origins: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut origins = origins.into_iter();
        let mut common = origins.next().cloned().unwrap_or_default();
        for other in origins {
            for (text, (_, other_text)) in common.texts_mut().into_iter().zip(other.texts()) {
                if text != other_text {
                    *text = None;
                }
            }
            common.modified |= other.modified;
            common.environment.retain(|name, value| other.environment.get(name) == Some(value));
        }
        common
    }

    /// Formats the variables that change what drivers do: `RADV_DEBUG=llvm`; `none` without any.
    pub fn driver_variables(&self) -> String {
        let variables = self.environment.iter().filter(|(name, _)| changes_drivers(name));
        let texts: Vec<_> = variables.map(|(name, value)| format!("{name}={value}")).collect();
        if texts.is_empty() { "none".into() } else { texts.join(" ") }
    }

    /// Formats the abbreviated commit with its branch: `5f3a9c0d1e2b (main, modified)`.
    pub fn commit_text(&self) -> Option<String> {
        let short = short_commit(self.commit.as_ref()?);
        let mut remarks: Vec<&str> = self.branch.as_deref().into_iter().collect();
        if self.modified {
            remarks.push("modified");
        }
        Some(if remarks.is_empty() { short } else { format!("{short} ({})", remarks.join(", ")) })
    }

    /// Formats the host, its system and processor: `builder-7, Linux 6.1.0-40-amd64, AMD EPYC 7763, 4 threads`.
    pub fn host_text(&self) -> Option<String> {
        let texts: Vec<_> =
            [&self.host, &self.system, &self.processor].into_iter().flatten().map(String::as_str).collect();
        if texts.is_empty() { None } else { Some(texts.join(", ")) }
    }

    /// Returns the texts with their names.
    pub fn texts(&self) -> [(&'static str, &Option<String>); 9] {
        let Self {
            commit,
            modified: _,
            committed,
            branch,
            label,
            job,
            host,
            system,
            processor,
            built_from,
            environment: _,
        } = self;
        let names = ["commit", "committed", "branch", "label", "job", "host", "system", "processor", "built_from"];
        let texts = [commit, committed, branch, label, job, host, system, processor, built_from];
        std::array::from_fn(|at| (names[at], texts[at]))
    }

    /// Returns mutable references to the texts.
    pub fn texts_mut(&mut self) -> [&mut Option<String>; 9] {
        let Self { commit, committed, branch, label, job, host, system, processor, built_from, .. } = self;
        [commit, committed, branch, label, job, host, system, processor, built_from]
    }

    /// Describes an impossible property, if there is one.
    pub(super) fn nonsense(&self) -> Option<String> {
        let is_long = |text: &str| text.chars().nth(MAX_TEXT_LENGTH).is_some();
        for (name, text) in self.texts() {
            if text.as_ref().is_some_and(|text| text.is_empty() || is_long(text)) {
                return Some(format!("`{name}` is empty, or longer than {MAX_TEXT_LENGTH} characters"));
            }
        }
        let mut variables = self.environment.iter();
        if self.environment.len() > CHOOSING.len() || variables.any(|(name, value)| is_long(name) || is_long(value)) {
            return Some(format!(
                "`environment` has more than {} variables, or one of more than {MAX_TEXT_LENGTH} characters",
                CHOOSING.len()
            ));
        }
        if let Some(commit) = self.commit.as_ref().filter(|commit| !is_commit(commit)) {
            return Some(format!("`commit` is '{commit}', not 7 to 64 hexadecimal digits"));
        }
        let committed = self.committed.as_ref().filter(|text| text.parse::<jiff::Timestamp>().is_err())?;
        Some(format!("`committed` is '{committed}', not a time (RFC 3339)"))
    }
}

/// Whether a variable changes what a driver does. Those of gpukern stand for options, which records have.
pub fn changes_drivers(name: &str) -> bool {
    !CHOOSING[..PLACES].contains(&name) && !name.starts_with("GPUKERN_")
}

/// Shortens the hash of a commit.
pub fn short_commit(commit: &str) -> String {
    commit.chars().take(COMMIT_DIGITS).collect()
}

/// Whether `text` can be the name of a commit, short or long.
pub fn is_commit(text: &str) -> bool {
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
        let built = |commit: &str| Origin { built_from: Some(commit.into()), ..a.clone() };
        assert_eq!(Origin::common([&built("0123456"), &built("0123456-dirty")]), a);
    }

    #[test]
    fn commit_and_host_are_formatted_in_one_line() {
        let mut origin = origin("0123456789abcdef", "a");
        assert_eq!(origin.commit_text().as_deref(), Some("0123456789ab (main)"));
        (origin.modified, origin.branch, origin.system) = (true, None, Some("Linux 6".into()));
        assert_eq!(origin.commit_text().as_deref(), Some("0123456789ab (modified)"));
        assert_eq!(origin.host_text().as_deref(), Some("a, Linux 6"));
        assert_eq!((Origin::default().commit_text(), Origin::default().host_text()), (None, None));
    }

    #[test]
    fn impossible_origins_are_described() {
        assert_eq!(origin("0123456", "a").nonsense(), None);
        let environment = (0..=CHOOSING.len()).map(|at| (at.to_string(), String::new())).collect();
        for (origin, expected) in [
            (origin("main", "a"), "`commit` is 'main'"),
            (origin("0123456", ""), "`host` is empty"),
            (Origin { label: Some("x".repeat(MAX_TEXT_LENGTH + 1)), ..Origin::default() }, "`label`"),
            (Origin { committed: Some("yesterday".into()), ..Origin::default() }, "`committed` is 'yesterday'"),
            (Origin { environment, ..Origin::default() }, "`environment`"),
        ] {
            let error = origin.nonsense().expect(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
