//! What a kernel is called, from its SPIR-V alone.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The name of a module: that of the source file in its debug information, without folders and ending, or of its entry
/// point, unless that is `main`. `None` where neither tells.
#[must_use]
pub fn of_module(spirv: &[u32], entry: &str) -> Option<String> {
    let named = |name: &str| (!matches!(name, "main" | "")).then(|| name.to_string());
    source_file(spirv).or_else(|| named(entry))
}

/// The hash of a module, 16 hexadecimal digits: the start of it stands for the name of a kernel that has none.
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

/// The first source file of `OpSource` or of `NonSemantic.Shader.DebugInfo`'s `DebugSource`.
fn source_file(spirv: &[u32]) -> Option<String> {
    const OP_SOURCE: u32 = 3;
    const OP_STRING: u32 = 7;
    const OP_FUNCTION: u32 = 54;
    let mut strings = std::collections::HashMap::new();
    let mut words = spirv.get(5..)?;
    while let Some(first) = words.first() {
        let (length, code) = ((first >> 16) as usize, first & 0xffff);
        let operands = words.get(1..length.max(1))?;
        match (code, operands) {
            (OP_STRING, [id, text @ ..]) => drop(strings.insert(*id, text)),
            (OP_SOURCE, [_, _, file, ..]) => {
                let text: Vec<u8> = strings.get(file)?.iter().flat_map(|word| word.to_le_bytes()).collect();
                let text = String::from_utf8_lossy(text.split(|byte| *byte == 0).next()?).into_owned();
                let file = text.rsplit(['/', '\\']).next()?;
                let stem = file.split('.').next().filter(|stem| !stem.is_empty() && *stem != "shader");
                return stem.map(String::from);
            }
            (OP_FUNCTION, _) => return None,
            _ => {}
        }
        words = words.get(length.max(1)..)?;
    }
    None
}
