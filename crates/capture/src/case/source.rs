//! Extracts the source text from a module's debug information.

use crate::kernel::instructions::{HEADER, instructions};
use crate::user::string;
use rspirv::spirv::{Op, SourceLanguage};
use std::collections::HashMap;

/// `DebugSource` and `DebugSourceContinued` of `NonSemantic.Shader.DebugInfo.100`.
const DEBUG_SOURCE: u32 = 35;
const DEBUG_SOURCE_CONTINUED: u32 = 102;

/// Returns the first source text of `spirv` and its file extension; `None` if the text or its language is missing.
pub(crate) fn embedded(spirv: &[u32]) -> Option<(String, &'static str)> {
    if spirv.len() < HEADER {
        return None;
    }
    let mut strings = HashMap::new();
    // Ids of the imported sets of debug instructions.
    let mut debug_sets = vec![];
    let mut language: Option<u32> = None;
    let mut text: Option<String> = None;
    // Whether a continuation belongs to the first text.
    let mut is_open = false;
    for instruction in instructions(spirv).flatten() {
        match (instruction.op(), instruction.operands()) {
            (Some(Op::Function), _) => break,
            (Some(Op::String), [id, rest @ ..]) => drop(strings.insert(*id, string(rest).0)),
            (Some(Op::ExtInstImport), [id, rest @ ..])
                if string(rest).0.starts_with("NonSemantic.Shader.DebugInfo") =>
            {
                debug_sets.push(*id);
            }
            (Some(Op::Source), [id, _, rest @ ..]) => {
                language = language.or(Some(*id));
                let part = rest.get(1..).map(|words| string(words).0).filter(|part| !part.is_empty());
                is_open = text.is_none() && part.is_some();
                text = text.or(part);
            }
            (Some(Op::SourceContinued), rest) if is_open => {
                if let Some(text) = &mut text {
                    *text += &string(rest).0;
                }
            }
            (Some(Op::ExtInst), [_, _, set, DEBUG_SOURCE, _, rest @ ..]) if debug_sets.contains(set) => {
                let part = rest.first().and_then(|id| strings.get(id)).filter(|part| !part.is_empty());
                is_open = text.is_none() && part.is_some();
                text = text.or(part.cloned());
            }
            (Some(Op::ExtInst), [_, _, set, DEBUG_SOURCE_CONTINUED, id, ..]) if is_open && debug_sets.contains(set) => {
                if let (Some(text), Some(part)) = (&mut text, strings.get(id)) {
                    *text += part;
                }
            }
            _ => {}
        }
    }
    let ending = match SourceLanguage::from_u32(language?)? {
        SourceLanguage::GLSL | SourceLanguage::ESSL => "comp",
        SourceLanguage::HLSL => "hlsl",
        SourceLanguage::WGSL => "wgsl",
        SourceLanguage::Slang => "slang",
        _ => "txt",
    };
    Some((text?, ending))
}
