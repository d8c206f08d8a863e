//! Finds the conditions under which the code of a kernel runs, from the structure of its SPIR-V.

use crate::kernel::instructions::Instruction;
use rspirv::spirv::Op;
use std::collections::HashMap;
use std::ops::Range;

/// Condition under which a part of the code runs.
#[derive(Debug)]
pub(super) struct Guard {
    /// First block of that part.
    pub(super) block: u32,
    /// Positions in the module.
    pub(super) code: Range<usize>,
    pub(super) condition: u32,
    /// Whether the condition holds there, or its opposite.
    pub(super) holds: bool,
}

/// Most guards that are found.
const MAX_GUARDS: usize = 1024;

/// Finds the branches of selections, and the code behind those that leave the kernel. Blocks are taken to be in the order
/// in which compilers write them: a branch, the other branch, and then what follows both.
pub(super) fn find_guards(all: &[Instruction<'_>]) -> Vec<Guard> {
    let mut labels = HashMap::new();
    for instruction in all {
        if let (Some(Op::Label), &[id]) = (instruction.op(), instruction.operands()) {
            labels.insert(id, instruction.at);
        }
    }
    let ends = all.iter().filter(|instruction| instruction.op() == Some(Op::FunctionEnd));
    let mut borders: Vec<usize> = ends.map(|end| end.at).collect();
    let mut guards = vec![];
    for (index, instruction) in all.iter().enumerate() {
        if guards.len() >= MAX_GUARDS {
            break;
        }
        let merge = match (instruction.op(), instruction.operands()) {
            (Some(Op::SelectionMerge), &[merge, _]) => merge,
            // Where a loop continues or ends, and the cases of a switch: none is under a condition in another.
            (Some(Op::LoopMerge | Op::Switch), blocks) => {
                borders.extend(blocks.iter().filter_map(|block| labels.get(block)));
                continue;
            }
            _ => continue,
        };
        let branch = all.get(index + 1).map(|next| (next.op(), next.operands()));
        let Some((Some(Op::BranchConditional), &[condition, yes, no, ..])) = branch else { continue };
        let own = [yes, no, merge].map(|block| labels.get(&block).copied());
        let [Some(_), Some(_), Some(joined)] = own else { continue };
        let before = borders.clone();
        borders.extend(own.into_iter().flatten());
        let next = |from: usize, borders: &[usize]| borders.iter().copied().filter(|at| *at > from).min();
        for (block, holds) in [(yes, true), (no, false)] {
            let Some(end) = next(labels[&block], &borders).filter(|_| block != merge) else { continue };
            let code = labels[&block]..end;
            let goes_on = |own: &Instruction<'_>| {
                let is_branch = matches!(own.op(), Some(Op::Branch | Op::BranchConditional | Op::Switch));
                is_branch && code.contains(&own.at) && own.operands().contains(&merge)
            };
            let leaves = !all[index..].iter().take_while(|own| own.at < end).any(goes_on);
            // Behind a branch that never gets there, the opposite holds.
            if let (true, Some(end)) = (leaves, next(joined, &before)) {
                guards.push(Guard { block: merge, code: joined..end, condition, holds: !holds });
            }
            guards.push(Guard { block, code, condition, holds });
        }
    }
    guards
}
