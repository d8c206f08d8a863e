//! Records from files.

use crate::error::Error;
use crate::record::{Record, SCHEMA};
use std::path::Path;

/// The record in the file `path`.
pub(super) fn read(path: &Path) -> Result<Record, Error> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::Usage(format!("cannot read record '{shown}': {e}; `gpukern bench … --json PATH` writes one"))
    })?;
    let invalid = |reason: String| {
        Error::Usage(format!("'{shown}' is no {SCHEMA} record: {reason}; `gpukern bench … --json PATH` writes one"))
    };
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|e| invalid(e.to_string()))?;
    match json.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => serde_json::from_value(json).map_err(|e| invalid(e.to_string())),
        Some(other) => Err(invalid(format!("its schema is '{other}'"))),
        None => Err(invalid("it has no schema".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_is_refused_with_its_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        assert!(read(&path).expect_err("missing").to_string().contains("cannot read record"));
        for (text, expected) in [
            ("", "EOF"),
            ("[]", "it has no schema"),
            (r#"{"schema":"gpukern-run/9"}"#, "its schema is 'gpukern-run/9'"),
            (r#"{"schema":"gpukern-run/2"}"#, "missing field"),
        ] {
            std::fs::write(&path, text).expect("written");
            let error = read(&path).expect_err("refused").to_string();
            assert!(error.contains(expected) && error.contains(&path.display().to_string()), "{error}");
        }
    }
}
