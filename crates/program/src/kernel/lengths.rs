//! Replaces lengths of run-time arrays (`x.length()`, `OpArrayLength`) by constants. A driver derives a length from the
//! bound range, so a kernel that reads one could not be given more of a buffer than its data: red zones would be out of
//! reach, and accesses beyond the data would be dropped instead of detected.

use super::instructions::{HEADER, Instruction, instructions};
use rspirv::spirv::{Decoration, Op};
use std::collections::HashMap;

/// Index of the header word with the module's id bound.
const BOUND: usize = 3;

/// Declarations of a module that array lengths depend on.
#[derive(Default)]
struct LengthDeclarations<'a> {
    /// Types, variables and pointer expressions, by id.
    declarations: HashMap<u32, Instruction<'a>>,
    /// First operand of each decoration, by id, member and decoration.
    decorations: HashMap<(u32, Option<u32>, u32), u32>,
}

impl<'a> LengthDeclarations<'a> {
    fn read(module: &'a [u32]) -> Option<Self> {
        let mut read = Self::default();
        for instruction in instructions(module) {
            let instruction = instruction.ok()?;
            match (instruction.op(), instruction.operands()) {
                (Some(Op::Decorate), &[id, decoration, value]) => {
                    read.decorations.insert((id, None, decoration), value);
                }
                (Some(Op::MemberDecorate), &[id, member, decoration, value]) => {
                    read.decorations.insert((id, Some(member), decoration), value);
                }
                (Some(Op::TypePointer | Op::TypeStruct | Op::TypeArray | Op::TypeRuntimeArray), &[id, ..])
                | (Some(Op::Variable | Op::AccessChain | Op::InBoundsAccessChain | Op::CopyObject), &[_, id, ..]) => {
                    read.declarations.insert(id, instruction);
                }
                _ => {}
            }
        }
        Some(read)
    }

    fn decoration(&self, id: u32, member: Option<u32>, decoration: Decoration) -> Option<u32> {
        self.decorations.get(&(id, member, decoration as u32)).copied()
    }

    /// Returns an operand of the instruction that declares `id`.
    fn operand(&self, id: u32, index: usize) -> Option<u32> {
        self.declarations.get(&id)?.operands().get(index).copied()
    }

    /// Returns the variable that `pointer` points into.
    fn variable(&self, mut pointer: u32) -> Option<u32> {
        // Each step leads to an earlier instruction, so more steps than instructions mean a loop.
        for _ in 0..self.declarations.len() {
            let instruction = self.declarations.get(&pointer)?;
            if instruction.op() == Some(Op::Variable) {
                return Some(pointer);
            }
            pointer = self.operand(pointer, 2)?;
        }
        None
    }

    /// Returns the length of the run-time array that is `member` of the block at `pointer`; `bytes` gives the bound
    /// size of a set and binding.
    fn length(&self, pointer: u32, member: u32, bytes: &dyn Fn(u32, u32) -> Option<u64>) -> Option<u32> {
        let variable = self.variable(pointer)?;
        let set = self.decoration(variable, None, Decoration::DescriptorSet)?;
        let binding = self.decoration(variable, None, Decoration::Binding)?;
        let pointer_type = self.operand(variable, 0)?;
        let mut block = self.operand(pointer_type, 2)?;
        if self.declarations.get(&block)?.op() != Some(Op::TypeStruct) {
            // An array of buffers: its elements are the blocks.
            block = self.operand(block, 1)?;
        }
        let array = self.operand(block, 1 + member as usize)?;
        let offset = self.decoration(block, Some(member), Decoration::Offset)?;
        let stride = self.decoration(array, None, Decoration::ArrayStride)?;
        let length = bytes(set, binding)?.saturating_sub(offset.into()).checked_div(stride.into())?;
        u32::try_from(length).ok()
    }
}

/// Returns `module` with each array length replaced by a constant; `bytes` gives the bound size of a set and binding.
/// `None` if a length is unknown.
pub fn with_constant_lengths(module: &[u32], bytes: &dyn Fn(u32, u32) -> Option<u64>) -> Option<Vec<u32>> {
    let declarations = LengthDeclarations::read(module)?;
    let mut changed = module.get(..HEADER)?.to_vec();
    let mut constants = vec![];
    let mut functions = vec![];
    let mut in_functions = false;
    for instruction in instructions(module) {
        let instruction = instruction.ok()?;
        in_functions |= instruction.op() == Some(Op::Function);
        match (instruction.op(), instruction.operands()) {
            (Some(Op::ArrayLength), &[ty, result, pointer, member]) => {
                let length = declarations.length(pointer, member, bytes)?;
                let constant = changed[BOUND];
                changed[BOUND] += 1;
                constants.extend([4 << 16 | Op::Constant as u32, ty, constant, length]);
                functions.extend([4 << 16 | Op::CopyObject as u32, ty, result, constant]);
            }
            (Some(Op::ArrayLength), _) => return None,
            _ if in_functions => functions.extend(instruction.words),
            _ => changed.extend(instruction.words),
        }
    }
    changed.extend(constants);
    changed.extend(functions);
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a module that reads the length of the last member of a block at set 1, binding 2: an array of 8-byte
    /// elements at offset 16. If `chained`, the block is an element of an array.
    fn module(chained: bool) -> Vec<u32> {
        let op = |op: Op, operands: &[u32]| [&[(operands.len() as u32 + 1) << 16 | op as u32], operands].concat();
        let decorate = |id, decoration: Decoration, value| op(Op::Decorate, &[id, decoration as u32, value]);
        let parts = [
            vec![0x0723_0203, 0x1_0500, 0, 20, 0],
            decorate(1, Decoration::DescriptorSet, 1),
            decorate(1, Decoration::Binding, 2),
            decorate(4, Decoration::ArrayStride, 8),
            op(Op::MemberDecorate, &[3, 1, Decoration::Offset as u32, 16]),
            op(Op::TypeRuntimeArray, &[4, 10]),
            op(Op::TypeStruct, &[3, 11, 4]),
            if chained { op(Op::TypeArray, &[5, 3, 12]) } else { vec![] },
            op(Op::TypePointer, &[2, 12, if chained { 5 } else { 3 }]),
            op(Op::Variable, &[2, 1, 12]),
            op(Op::Function, &[10, 13, 0, 10]),
            if chained { op(Op::AccessChain, &[2, 6, 1, 14]) } else { vec![] },
            op(Op::ArrayLength, &[15, 16, if chained { 6 } else { 1 }, 1]),
            op(Op::FunctionEnd, &[]),
        ];
        parts.concat()
    }

    #[test]
    fn a_length_becomes_the_number_of_whole_elements_that_are_bound() {
        for chained in [false, true] {
            let bytes = |set, binding| ((set, binding) == (1, 2)).then_some(16 + 5 * 8 + 7);
            let changed = with_constant_lengths(&module(chained), &bytes).expect("it can be told");
            let declarations: Vec<_> = instructions(&changed).map(|instruction| instruction.expect("whole")).collect();
            let position = |op| declarations.iter().position(|instruction| instruction.op() == Some(op));
            let operands = |op| position(op).map(|index| declarations[index].operands().to_vec());
            assert_eq!(operands(Op::Constant), Some(vec![15, 20, 5]), "{chained}");
            assert_eq!(operands(Op::CopyObject), Some(vec![15, 16, 20]));
            assert_eq!((operands(Op::ArrayLength), changed[BOUND]), (None, 21));
            assert!(position(Op::Constant) < position(Op::Function), "constants come before functions");
        }
    }

    #[test]
    fn a_length_that_depends_on_the_element_of_an_array_cannot_be_told() {
        assert_eq!(with_constant_lengths(&module(true), &|_, _| None), None);
        // A pointer from elsewhere than a variable, such as a parameter.
        let mut from_parameter = module(false);
        let pointer = from_parameter.len() - 3;
        from_parameter[pointer] = 17;
        assert_eq!(with_constant_lengths(&from_parameter, &|_, _| Some(64)), None);
    }
}
