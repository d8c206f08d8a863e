//! Sub-group operations.
