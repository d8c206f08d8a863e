//! Files of the repository for tests.

use std::path::PathBuf;

/// Returns the path of a file of the repository, whichever crate's tests ask for it.
pub fn in_repository(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", path].iter().collect()
}

/// Compares `schema` with the committed file at `path`, or writes the file if `UPDATE_SCHEMA` is set.
pub fn assert_committed(path: &str, schema: &schemars::Schema) {
    let file = in_repository(path);
    let generated = serde_json::to_string_pretty(schema).expect("a schema is JSON") + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&file, &generated).expect("docs/ can be written");
    } else {
        let committed = std::fs::read_to_string(&file).expect("it is committed");
        // `assert_eq!` would print both schemas.
        assert!(
            committed == generated,
            "{path}: run `UPDATE_SCHEMA=1 cargo test --release schema` and review the change"
        );
    }
}
