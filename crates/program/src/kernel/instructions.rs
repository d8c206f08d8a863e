//! A SPIR-V module as a sequence of undecoded instructions (specification, section 2.3). rspirv offers only a parser
//! that decodes each by the grammar, and panics at some malformed ones.
//!
//! `build.rs` includes this file, because `reflection.rs` needs it, so it imports nothing else from the crate.

use rspirv::spirv::Op;

/// First word of every module.
pub const MAGIC: u32 = 0x0723_0203;
/// Words in the header.
pub const HEADER: usize = 5;

/// Undecoded instruction of a module.
#[derive(Clone, Copy)]
pub struct Instruction<'a> {
    /// Index of its first word in the module.
    pub at: usize,
    /// Words of the instruction: first its length and opcode, then its operands.
    pub words: &'a [u32],
}

impl<'a> Instruction<'a> {
    /// Returns the opcode; `None` if rspirv does not know it.
    pub fn op(self) -> Option<Op> {
        Op::from_u32(self.words[0] & 0xffff)
    }

    pub fn operands(self) -> &'a [u32] {
        &self.words[1..]
    }
}

/// Decodes a string literal.
pub fn string(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Iterates over the instructions behind a module's header. An instruction of zero words, or one that exceeds the
/// module, yields an error and ends the iteration.
pub fn instructions(module: &[u32]) -> impl Iterator<Item = Result<Instruction<'_>, String>> {
    let mut next = HEADER;
    std::iter::from_fn(move || {
        let begin = next;
        let length = (*module.get(begin)? >> 16) as usize;
        match module.get(begin..begin + length) {
            Some(words) if length > 0 => {
                next = begin + length;
                Some(Ok(Instruction { at: begin, words }))
            }
            _ => {
                next = module.len();
                Some(Err(format!("it is damaged at word {begin}: an instruction reaches beyond its end")))
            }
        }
    })
}

/// Whether an instruction is an atomic read-modify-write.
pub fn is_atomic_update(op: Op) -> bool {
    (Op::AtomicExchange as u32..=Op::AtomicXor as u32).contains(&(op as u32))
        || matches!(op, Op::AtomicFAddEXT | Op::AtomicFMinEXT | Op::AtomicFMaxEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_instruction_without_words_or_with_too_many_ends_the_module() {
        let module = |last: u32| [&[MAGIC, 0x1_0500, 0, 9, 0][..], &[0x2_0011, 1], &[last, 0]].concat();
        let read = |last| {
            instructions(&module(last))
                .map(|instruction| instruction.map(|instruction| (instruction.at, instruction.op())))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(0x2_0011), [Ok((5, Some(Op::Capability))), Ok((7, Some(Op::Capability)))]);
        for last in [0x0_0011, 0x3_0011, u32::MAX] {
            let damaged = "it is damaged at word 7: an instruction reaches beyond its end";
            assert_eq!(read(last), [Ok((5, Some(Op::Capability))), Err(damaged.into())]);
        }
        assert_eq!(instructions(&[MAGIC]).count(), 0);
    }

    proptest! {
        #[test]
        fn every_word_belongs_to_one_instruction_or_to_the_damage(
            words in prop::collection::vec(prop_oneof![any::<u32>(), (0u32..9, 0u32..400).prop_map(|(n, op)| n << 16 | op)], 0..200)
        ) {
            let mut next = HEADER;
            for instruction in instructions(&words) {
                prop_assert!(next < words.len());
                next = match instruction {
                    Ok(instruction) => {
                        prop_assert_eq!((instruction.at, instruction.words), (next, &words[next..=next + instruction.operands().len()]));
                        instruction.at + instruction.words.len()
                    }
                    Err(_) => words.len(),
                };
            }
            prop_assert!(next >= words.len().min(HEADER));
        }
    }
}
