//! Schemas that are generated from types and committed, for readers who have no Rust.

/// Holds `schema` against the committed file at `path`, or writes it there where `UPDATE_SCHEMA` is set.
pub(crate) fn assert_committed(path: &str, schema: &schemars::Schema) {
    let generated = serde_json::to_string_pretty(schema).expect("a schema is JSON") + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &generated).expect("docs/ can be written");
    } else {
        let committed = std::fs::read_to_string(path).expect("it is committed");
        // Not `assert_eq!`, which would print both.
        assert!(
            committed == generated,
            "{path}: run `UPDATE_SCHEMA=1 cargo test --release schema` and review the change"
        );
    }
}
