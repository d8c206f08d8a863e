//! Source lines of a module's instructions: from its debug information, or from a table beside a module without any.
//!
//! `build.rs` includes this file, to write the tables of built-in kernels.

use super::instructions::{Instruction, instructions};
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
    /// Sorted by word; each holds until the next.
    changes: Vec<Change>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SourceFile {
    name: String,
    /// Empty if the module does not have it.
    text: String,
}

/// First instruction of those that come from one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    /// Index of its first word in the module.
    word: usize,
    /// Index of the file, and line from 1; `None` if they are unknown.
    place: Option<(usize, u32)>,
}

impl Lines {
    /// Reads the debug information of a module: `OpLine`, or `DebugLine` of `NonSemantic.Shader.DebugInfo`. A damaged
    /// module has the lines before the damage.
    pub fn read(module: &[u32]) -> Self {
        let mut reader = Reader::default();
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
            self.changes.push(Change { word, place });
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
        let (mut plain, mut debug) = (without_debug(plain), without_debug(debug));
        loop {
            match (plain.next(), debug.next()) {
                (Some(Ok(to)), Some(Ok(from))) if to.words[0] == from.words[0] => {
                    moved.push(to.at, lines.place(from.at))
                }
                (None, None) => return Some(moved),
                _ => return None,
            }
        }
    }

    /// Encodes names and lines, without source texts, as numbers of 7 bits a byte, each relative to the last.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![];
        put(&mut bytes, self.files.len() as u64);
        for file in &self.files {
            put(&mut bytes, file.name.len() as u64);
            bytes.extend(file.name.as_bytes());
        }
        let mut last = (0, 0, 0);
        for Change { word, place } in &self.changes {
            // File 0 is none.
            let (file, line) = place.map_or((0, last.2), |(file, line)| (file as u64 + 1, i64::from(line)));
            let by = line - last.2;
            let zigzag = (by << 1 ^ by >> 63).cast_unsigned();
            put(&mut bytes, *word as u64 - last.0);
            put(&mut bytes, zigzag << 1 | u64::from(file != last.1));
            if file != last.1 {
                put(&mut bytes, file);
            }
            last = (*word as u64, file, line);
        }
        bytes
    }

    /// Decodes what [`encode`](Self::encode) wrote.
    pub fn decode(mut bytes: &[u8]) -> Self {
        let mut lines = Self::default();
        let bytes = &mut bytes;
        for _ in 0..take(bytes).unwrap_or(0) {
            let length = take(bytes).unwrap_or(0) as usize;
            let Some((name, rest)) = bytes.split_at_checked(length) else { return lines };
            lines.files.push(SourceFile { name: String::from_utf8_lossy(name).into_owned(), text: String::new() });
            *bytes = rest;
        }
        let (mut word, mut file, mut line) = (0_u64, 0, 0_i64);
        while let (Some(words), Some(code)) = (take(bytes), take(bytes)) {
            word = word.wrapping_add(words);
            let zigzag = code >> 1;
            line = line.wrapping_add((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed());
            if code & 1 == 1 {
                file = take(bytes).unwrap_or(0) as usize;
            }
            let place = file.checked_sub(1).map(|file| (file, line as u32));
            lines.changes.push(Change { word: word as usize, place });
        }
        lines
    }
}

/// Iterates over the instructions that do not depend on whether a module has debug information.
fn without_debug(module: &[u32]) -> impl Iterator<Item = Result<Instruction<'_>, String>> {
    instructions(module).filter(|instruction| {
        let op = instruction.as_ref().ok().and_then(|instruction| instruction.op());
        !matches!(op, Some(Op::String | Op::Source | Op::SourceContinued | Op::ModuleProcessed | Op::Line | Op::NoLine))
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
struct Reader {
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

impl Reader {
    fn read(&mut self, instruction: Instruction<'_>) {
        let Instruction { at, .. } = instruction;
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
                self.extend(&string(text));
            }
            (Some(Op::SourceContinued), text) => self.extend(&string(text)),
            (Some(Op::Line), [file, line, ..]) => self.place = self.file(*file).map(|file| (file, *line)),
            (Some(Op::NoLine), _) => self.place = None,
            (Some(Op::ExtInst), [_, result, set, number, operands @ ..]) if self.sets.contains(set) => {
                self.read_debug(*result, *number, operands);
            }
            (op, _) => {
                self.lines.push(at, self.place.filter(|(_, line)| *line > 0));
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
                self.extend_by(text);
            }
            (DEBUG_SOURCE_CONTINUED, text) => self.extend_by(text),
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
    fn extend(&mut self, text: &str) {
        if let Some(file) = self.open.and_then(|file| self.lines.files.get_mut(file)) {
            file.text.push_str(text);
        }
    }

    /// Appends the string with this id.
    fn extend_by(&mut self, text: &[u32]) {
        if let Some(text) = text.first().and_then(|id| self.strings.get(id)).cloned() {
            self.extend(&text);
        }
    }
}

/// Decodes a string.
fn string(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Removes the options that glslang writes above a source, as comments that end with `#line 1`.
fn without_preamble(text: String) -> String {
    match text.split_once("\n#line 1\n") {
        Some((preamble, source)) if preamble.starts_with("// OpModuleProcessed") => source.into(),
        _ => text,
    }
}
