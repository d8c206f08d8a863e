//! Names of kernels, derived from their SPIR-V.

use crate::module::declarations;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Returns a module's name: the stem of the source file in its debug information, or else the entry point's name,
/// unless that is `main`. `None` if the module has neither.
#[must_use]
pub fn of_module(spirv: &[u32], entry: &str) -> Option<String> {
    source_file(spirv).or(of_entry(entry))
}

/// Returns an entry point's name, unless it is `main`.
#[must_use]
pub fn of_entry(entry: &str) -> Option<String> {
    if matches!(entry, "main" | "") { None } else { Some(entry.to_string()) }
}

/// Returns a module's hash: the first 8 bytes of SHA-256 as 16 hexadecimal digits. Kernels without a name are called by
/// its first digits.
#[must_use]
pub fn hash(spirv: &[u32]) -> String {
    let mut hash = Sha256::new();
    for word in spirv {
        hash.update(word.to_le_bytes());
    }
    hash.finalize()[..8].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the stem of the file that the first `OpSource` names, without folders; `None` for `shader`, a compiler's
/// placeholder.
#[must_use]
pub fn source_file(spirv: &[u32]) -> Option<String> {
    const OP_SOURCE: u32 = 3;
    const OP_STRING: u32 = 7;
    let mut strings = std::collections::HashMap::new();
    for instruction in declarations(spirv) {
        match instruction {
            (OP_STRING, [id, text @ ..]) => drop(strings.insert(*id, text)),
            (OP_SOURCE, [_, _, file, ..]) => {
                let text: Vec<u8> = strings.get(file)?.iter().flat_map(|word| word.to_le_bytes()).collect();
                let text = String::from_utf8_lossy(text.split(|byte| *byte == 0).next()?).into_owned();
                let file = text.rsplit(['/', '\\']).next()?;
                let stem = file.split('.').next().filter(|stem| !stem.is_empty() && *stem != "shader");
                return stem.map(String::from);
            }
            _ => {}
        }
    }
    None
}
