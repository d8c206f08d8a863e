//! Cooperative matrices.
