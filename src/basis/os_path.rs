//! Serde of a path that need not be text, as a file system may have it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(crate) fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.as_os_str()).map(OsStr::to_owned).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    Option::<OsString>::deserialize(deserializer).map(|path| path.map(PathBuf::from))
}
