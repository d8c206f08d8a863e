//! Source lines of a module's instructions: from its debug information, or from a table beside a module without any.
//!
//! `build.rs` includes this file, to write the tables of built-in kernels.

use super::instructions::{Instruction, instructions, string};
use rspirv::spirv::Op;
use std::collections::HashMap;

/// Instructions of `NonSemantic.Shader.DebugInfo` and `OpenCL.DebugInfo`.
const DEBUG_SOURCE: u32 = 35;
const DEBUG_SOURCE_CONTINUED: u32 = 102;
const DEBUG_LINE: u32 = 103;
const DEBUG_NO_LINE: u32 = 104;

/// Debug instructions that give source lines. They refer only to each other, to strings and to constants.
pub const LINE_INSTRUCTIONS: [u32; 4] = [DEBUG_SOURCE, DEBUG_SOURCE_CONTINUED, DEBUG_LINE, DEBUG_NO_LINE];

/// Source lines of the instructions of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    files: Vec<SourceFile>,
    /// In the order of the words; each holds until the next.
    changes: Vec<LineStart>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SourceFile {
    name: String,
    /// Empty if the module does not have it.
    text: String,
}

/// First instruction of those that come from one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineStart {
    /// Index of its first word in the module.
    word: usize,
    /// Index of the file, and line from 1; `None` if they are unknown.
    place: Option<(usize, u32)>,
}

impl Lines {
    /// Reads the debug information of a module: `OpLine`, or `DebugLine` of `NonSemantic.Shader.DebugInfo`. A damaged
    /// module has the lines before the damage.
    pub fn read(module: &[u32]) -> Self {
        let mut reader = LineReader::default();
        for instruction in instructions(module).map_while(Result::ok) {
            reader.read(instruction);
        }
        for file in &mut reader.lines.files {
            file.text = without_preamble(std::mem::take(&mut file.text));
        }
        reader.lines
    }

    /// Returns the file and line, from 1, of the instruction at word `word` of the module.
    pub fn at(&self, word: usize) -> Option<(&str, u32)> {
        let (file, line) = self.place(word)?;
        Some((&self.files.get(file)?.name, line))
    }

    /// Returns the text of a line, if the module contains its source.
    pub fn text(&self, file: &str, line: u32) -> Option<&str> {
        let file = self.files.iter().find(|own| own.name == file)?;
        file.text.lines().nth((line as usize).checked_sub(1)?)
    }

    fn place(&self, word: usize) -> Option<(usize, u32)> {
        let next = self.changes.partition_point(|change| change.word <= word);
        self.changes[..next].last()?.place
    }

    /// Adds a place from word `word` on, which is not before the last.
    fn push(&mut self, word: usize, place: Option<(usize, u32)>) {
        if self.changes.last().and_then(|change| change.place) != place {
            self.changes.push(LineStart { word, place });
        }
    }

    /// Returns the number of the file `name`.
    fn file(&mut self, name: &str) -> usize {
        self.files.iter().position(|file| file.name == name).unwrap_or_else(|| {
            self.files.push(SourceFile { name: name.into(), text: String::new() });
            self.files.len() - 1
        })
    }

    /// Returns the lines of the module `plain`, read from `debug`: the same module, compiled with debug information.
    /// `None` if the two differ in more than that and the numbers of their ids.
    pub fn of_plain(plain: &[u32], debug: &[u32]) -> Option<Self> {
        let lines = Self::read(debug);
        let mut moved = Self { files: lines.files.clone(), changes: vec![] };
        let (mut plain, mut debug) = (code(plain), code(debug));
        loop {
            match (plain.next(), debug.next()) {
                (Some(Ok(to)), Some(Ok(from))) if to.words[0] == from.words[0] => {
                    moved.push(to.at, lines.place(from.at));
                }
                (None, None) => return Some(moved),
                _ => return None,
            }
        }
    }

    /// Encodes file names and lines as numbers of 7 bits per byte, each relative to the last. Texts are left out.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![];
        put(&mut bytes, self.files.len() as u64);
        for file in &self.files {
            put(&mut bytes, file.name.len() as u64);
            bytes.extend(file.name.as_bytes());
        }
        let mut last = LineStart { word: 0, place: None };
        for change in &self.changes {
            // File 0 is none.
            let [(last_file, last_line), (file, line)] = [last.place, change.place]
                .map(|place| place.map_or((0, 0), |(file, line)| (file as u64 + 1, i64::from(line))));
            let by = line - last_line;
            put(&mut bytes, (change.word - last.word) as u64);
            // The lowest bit tells whether the file changes, the next holds the sign.
            put(&mut bytes, by.unsigned_abs() << 2 | u64::from(by < 0) << 1 | u64::from(file != last_file));
            if file != last_file {
                put(&mut bytes, file);
            }
            last = *change;
        }
        bytes
    }

    /// Decodes the result of [`encode`](Self::encode).
    pub fn decode(mut bytes: &[u8]) -> Self {
        let mut lines = Self::default();
        let bytes = &mut bytes;
        for _ in 0..take(bytes).unwrap_or(0) {
            let name = take(bytes).and_then(|length| bytes.split_at_checked(length as usize));
            let Some((name, rest)) = name else { return lines };
            lines.files.push(SourceFile { name: String::from_utf8_lossy(name).into_owned(), text: String::new() });
            *bytes = rest;
        }
        let (mut word, mut file, mut line) = (0_usize, 0, 0_u32);
        while let (Some(words), Some(code)) = (take(bytes), take(bytes)) {
            word = word.wrapping_add(words as usize);
            let by = (code >> 2) as u32;
            line = if code & 2 == 0 { line.wrapping_add(by) } else { line.wrapping_sub(by) };
            if code & 1 == 1 {
                file = take(bytes).unwrap_or(0) as usize;
            }
            lines.changes.push(LineStart { word, place: file.checked_sub(1).map(|file| (file, line)) });
        }
        lines
    }
}

/// Iterates over the instructions that are no names, lines or sources.
pub fn code(module: &[u32]) -> impl Iterator<Item = Result<Instruction<'_>, String>> {
    const NAMES: [Op; 2] = [Op::Name, Op::MemberName];
    const LINES: [Op; 2] = [Op::Line, Op::NoLine];
    const SOURCES: [Op; 5] = [Op::String, Op::Source, Op::SourceContinued, Op::SourceExtension, Op::ModuleProcessed];
    instructions(module).filter(|instruction| {
        let op = instruction.as_ref().ok().and_then(|instruction| instruction.op());
        op.is_none_or(|op| [&NAMES[..], &LINES, &SOURCES].iter().all(|other| !other.contains(&op)))
    })
}

/// Appends a number, 7 bits a byte.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a number from the front.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Debug information of the instructions read so far.
#[derive(Default)]
struct LineReader {
    lines: Lines,
    /// Imported sets of debug instructions.
    sets: Vec<u32>,
    strings: HashMap<u32, String>,
    constants: HashMap<u32, u32>,
    /// Files by the ids of their `OpString` or `DebugSource`.
    files: HashMap<u32, usize>,
    /// File whose text the next `OpSourceContinued` continues.
    open: Option<usize>,
    place: Option<(usize, u32)>,
}

impl LineReader {
    fn read(&mut self, instruction: Instruction<'_>) {
        match (instruction.op(), instruction.operands()) {
            (Some(Op::ExtInstImport), [id, name @ ..]) => {
                let name = string(name);
                if ["NonSemantic.Shader.DebugInfo", "OpenCL.DebugInfo"].iter().any(|set| name.starts_with(set)) {
                    self.sets.push(*id);
                }
            }
            (Some(Op::String), [id, text @ ..]) => _ = self.strings.insert(*id, string(text)),
            (Some(Op::Constant), [_, id, value]) => _ = self.constants.insert(*id, *value),
            (Some(Op::Source), [_, _, file, text @ ..]) => {
                self.open = self.file(*file);
                self.extend(Some(string(text)));
            }
            (Some(Op::SourceContinued), text) => self.extend(Some(string(text))),
            (Some(Op::Line), [file, line, ..]) => self.place = self.file(*file).map(|file| (file, *line)),
            (Some(Op::NoLine), _) => self.place = None,
            (Some(Op::ExtInst), [_, result, set, number, operands @ ..]) if self.sets.contains(set) => {
                self.read_debug(*result, *number, operands);
            }
            (op, _) => {
                self.lines.push(instruction.at, self.place.filter(|(_, line)| *line > 0));
                // A line holds until the end of its block. Compilers do not repeat it in the next block, so it is kept
                // until the end of the function.
                if op == Some(Op::FunctionEnd) {
                    self.place = None;
                }
            }
        }
    }

    /// Reads an instruction of a debug set.
    fn read_debug(&mut self, result: u32, number: u32, operands: &[u32]) {
        match (number, operands) {
            (DEBUG_SOURCE, [file, text @ ..]) => {
                self.open = self.file(*file);
                self.files.extend(self.open.map(|file| (result, file)));
                self.extend(text.first().and_then(|id| self.strings.get(id)).cloned());
            }
            (DEBUG_SOURCE_CONTINUED, [text, ..]) => self.extend(self.strings.get(text).cloned()),
            (DEBUG_LINE, [source, line, ..]) => {
                let line = self.constants.get(line).copied();
                self.place = self.files.get(source).copied().zip(line);
            }
            (DEBUG_NO_LINE, _) => self.place = None,
            _ => {}
        }
    }

    /// Returns the file whose name has this id.
    fn file(&mut self, id: u32) -> Option<usize> {
        if let Some(file) = self.files.get(&id) {
            return Some(*file);
        }
        let file = self.lines.file(self.strings.get(&id)?);
        self.files.insert(id, file);
        Some(file)
    }

    /// Appends to the text of the open file.
    fn extend(&mut self, text: Option<String>) {
        if let (Some(file), Some(text)) = (self.open.and_then(|file| self.lines.files.get_mut(file)), text) {
            file.text.push_str(&text);
        }
    }
}

/// Removes the options that glslang writes above a source, as comments that end with `#line 1`.
fn without_preamble(text: String) -> String {
    match text.split_once("\n#line 1\n") {
        Some((preamble, source)) if preamble.starts_with("// OpModuleProcessed") => source.into(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::instructions::MAGIC;
    use proptest::prelude::*;

    const HEADER: [u32; 5] = [MAGIC, 0x1_0500, 0, 99, 0];

    /// Returns an instruction with these operands, then a string.
    fn instruction(op: Op, operands: &[u32], text: &str) -> Vec<u32> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(if text.is_empty() { 0 } else { text.len() / 4 * 4 + 4 }, 0);
        let text = bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let words: Vec<u32> = operands.iter().copied().chain(text).collect();
        [&[(1 + words.len() as u32) << 16 | op as u32], &words[..]].concat()
    }

    #[test]
    fn debug_instructions_hold_until_the_next_or_the_end_of_the_function() {
        let debug = |operands: &[u32]| instruction(Op::ExtInst, &[&[1, 40, 2], operands].concat(), "");
        let nop = || instruction(Op::Nop, &[], "");
        let mut module = HEADER.to_vec();
        module.extend(instruction(Op::ExtInstImport, &[2], "NonSemantic.Shader.DebugInfo.100"));
        module.extend(instruction(Op::String, &[5], "a.comp"));
        module.extend(instruction(Op::String, &[6], "x\ny\n"));
        module.extend(instruction(Op::Constant, &[3, 17, 2], ""));
        module.extend([debug(&[DEBUG_SOURCE, 5, 6]), nop(), debug(&[DEBUG_LINE, 40, 17, 17, 17, 17]), nop()].concat());
        module.extend([debug(&[DEBUG_NO_LINE]), nop(), debug(&[DEBUG_LINE, 40, 17, 17, 17, 17])].concat());
        module.extend([instruction(Op::FunctionEnd, &[], ""), nop()].concat());
        let lines = Lines::read(&module);
        let known = instructions(&module).flatten().filter(|at| matches!(at.op(), Some(Op::Nop | Op::FunctionEnd)));
        let places: Vec<_> = known.map(|instruction| lines.at(instruction.at)).collect();
        assert_eq!(places, [None, Some(("a.comp", 2)), None, Some(("a.comp", 2)), None]);
        let texts = [("a.comp", 2), ("a.comp", 0), ("a.comp", 3), ("b.comp", 1)];
        assert_eq!(texts.map(|(file, line)| lines.text(file, line)), [Some("y"), None, None, None]);
    }

    proptest! {
        #[test]
        fn any_lines_are_decoded_as_they_were_and_damage_causes_no_panic(
            changes in prop::collection::vec((1_usize..1 << 20, prop::option::of((0_usize..9, any::<u32>()))), 0..50),
            bytes in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let mut lines = Lines::default();
            (0..9).for_each(|file| _ = lines.file(&format!("{file}.glsl")));
            let mut word = 0;
            for (words, place) in changes {
                word += words;
                lines.push(word, place);
            }
            prop_assert_eq!(&Lines::decode(&lines.encode()), &lines);
            let _ = Lines::decode(&bytes).at(9);
            let words = bytes.chunks_exact(3).map(|part| u32::from(part[0] % 4) << 16 | u32::from(part[1]));
            let _ = Lines::read(&HEADER.into_iter().chain(words).collect::<Vec<_>>());
        }
    }
}
