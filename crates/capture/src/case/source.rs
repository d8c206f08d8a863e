//! Extracts the source text from a module's debug information.

use crate::kernel::instructions::{HEADER, instructions};
use crate::user::string;
use rspirv::spirv::{Op, SourceLanguage};
use std::collections::HashMap;

/// `DebugSource` and `DebugSourceContinued` of `NonSemantic.Shader.DebugInfo.100`.
const DEBUG_SOURCE: u32 = 35;
const DEBUG_SOURCE_CONTINUED: u32 = 102;

/// Returns the first source text of `spirv` and its file extension; `None` if the text or its language is missing.
pub(super) fn embedded(spirv: &[u32]) -> Option<(String, &'static str)> {
    if spirv.len() < HEADER {
        return None;
    }
    let (mut strings, mut sets) = (HashMap::new(), vec![]);
    let (mut language, mut text): (Option<u32>, Option<String>) = (None, None);
    // Whether a continuation belongs to the first text.
    let mut open = false;
    for instruction in instructions(spirv).flatten() {
        match (instruction.op(), instruction.operands()) {
            (Some(Op::Function), _) => break,
            (Some(Op::String), [id, rest @ ..]) => drop(strings.insert(*id, string(rest).0)),
            (Some(Op::ExtInstImport), [id, rest @ ..])
                if string(rest).0.starts_with("NonSemantic.Shader.DebugInfo") =>
            {
                sets.push(*id);
            }
            (Some(Op::Source), [of, _, rest @ ..]) => {
                language = language.or(Some(*of));
                let found = rest.get(1..).map(|words| string(words).0).filter(|found| !found.is_empty());
                open = text.is_none() && found.is_some();
                text = text.or(found);
            }
            (Some(Op::SourceContinued), rest) if open => text.iter_mut().for_each(|text| *text += &string(rest).0),
            (Some(Op::ExtInst), [_, _, set, DEBUG_SOURCE, _, rest @ ..]) if sets.contains(set) => {
                let found = rest.first().and_then(|id| strings.get(id)).filter(|found| !found.is_empty());
                open = text.is_none() && found.is_some();
                text = text.or_else(|| found.cloned());
            }
            (Some(Op::ExtInst), [_, _, set, DEBUG_SOURCE_CONTINUED, more, ..]) if open && sets.contains(set) => {
                text.iter_mut().zip(strings.get(more)).for_each(|(text, more)| *text += more);
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
