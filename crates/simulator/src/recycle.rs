//! Reuses registers: values that live within one block share registers, so that those of a gang fit into the host's
//! caches.

use crate::code::{Code, Location, MemoryPlace, Reg, RegisterOp, Term};
use crate::matrix::{MatrixInstruction, MatrixType};

/// Use of a register by an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RegisterUse {
    Read,
    Write,
    /// This and further ones, so many in all, whose numbers must stay.
    Pinned(u32),
}

type Visit<'v> = &'v mut dyn FnMut(&mut Reg, RegisterUse);

fn visit_location(at: &mut Location, visit: Visit<'_>) {
    if let Some(offset) = &mut at.offset {
        visit(offset, RegisterUse::Read);
    }
    visit_place(&mut at.place, visit);
}

fn visit_place(place: &mut MemoryPlace, visit: Visit<'_>) {
    if let MemoryPlace::Slot { element: Some(element), .. } = place {
        visit(element, RegisterUse::Read);
    }
}

fn visit_range(first: Reg, count: u32, visit: Visit<'_>) {
    visit(&mut { first }, RegisterUse::Pinned(count));
}

/// Calls `visit` for each register of an instruction: those that it reads before the one that it writes.
fn visit_registers(instruction: &mut RegisterOp, terms: &mut [Term], visit: Visit<'_>) {
    match instruction {
        RegisterOp::Compute { operation, to, from, .. } => {
            let count = operation.operand_count();
            for register in &mut from[..count] {
                visit(register, RegisterUse::Read);
            }
            let first = from[0];
            from[count..].fill(first);
            visit(to, RegisterUse::Write);
        }
        RegisterOp::Copy { to, from } => {
            visit(from, RegisterUse::Read);
            visit(to, RegisterUse::Write);
        }
        RegisterOp::Select { to, condition, yes, no } => {
            for register in [condition, yes, no] {
                visit(register, RegisterUse::Read);
            }
            visit(to, RegisterUse::Write);
        }
        RegisterOp::Undefine { first, count } => visit_range(*first, *count, visit),
        RegisterOp::LoadIndexed { to, first, count, index } => {
            visit_range(*first, *count, visit);
            visit(index, RegisterUse::Read);
            visit(to, RegisterUse::Write);
        }
        RegisterOp::StoreIndexed { from, first, count, index } => {
            visit_range(*first, *count, visit);
            visit(from, RegisterUse::Read);
            visit(index, RegisterUse::Read);
        }
        RegisterOp::Offset { to, base, terms: range, .. } => {
            if let Some(base) = base {
                visit(base, RegisterUse::Read);
            }
            for term in &mut terms[range.start as usize..range.end as usize] {
                visit(&mut term.index, RegisterUse::Read);
            }
            visit(to, RegisterUse::Write);
        }
        _ => visit_memory(instruction, visit),
    }
}

/// Calls `visit` for each register of an instruction that accesses memory, exchanges values or branches.
fn visit_memory(instruction: &mut RegisterOp, visit: Visit<'_>) {
    match instruction {
        RegisterOp::AddressOf { to, location } | RegisterOp::Load { to, at: location, .. } => {
            visit_location(location, visit);
            visit(to, RegisterUse::Write);
        }
        RegisterOp::Store { from, at, .. } => {
            visit_location(at, visit);
            visit(from, RegisterUse::Read);
        }
        RegisterOp::Fetch { to, index, .. } => {
            visit(index, RegisterUse::Read);
            visit(to, RegisterUse::Write);
        }
        RegisterOp::Atomic { to, at, value, comparator, .. } => {
            visit_location(at, visit);
            visit(value, RegisterUse::Read);
            visit(comparator, RegisterUse::Read);
            visit(to, RegisterUse::Write);
        }
        RegisterOp::ArrayLength { to, place, .. } => {
            visit_place(place, visit);
            visit(to, RegisterUse::Write);
        }
        RegisterOp::TexelCount { to, .. } | RegisterOp::Clock { to } => visit(to, RegisterUse::Write),
        RegisterOp::Subgroup { to, value, argument, second, .. } => {
            // Results and operands may be ballots, of four registers.
            for first in [*to, *value, *argument] {
                visit_range(first, 4, visit);
            }
            if let Some(second) = second {
                visit_range(*second, 1, visit);
            }
        }
        RegisterOp::Matrix(matrix) => visit_matrix(matrix, visit),
        RegisterOp::Branch { condition: register, .. } | RegisterOp::Switch { selector: register, .. } => {
            visit(register, RegisterUse::Read);
        }
        // Barriers and plain branches have none; the rest is visited above.
        _ => {}
    }
}

fn visit_matrix(instruction: &mut MatrixInstruction, visit: Visit<'_>) {
    // A lane holds fewer elements than the matrix has; pinning too many does no harm.
    let elements = |matrix: &MatrixType| matrix.registers(1);
    match instruction {
        MatrixInstruction::Load { to: register, matrix, memory }
        | MatrixInstruction::Store { from: register, matrix, memory } => {
            visit_range(*register, elements(matrix), visit);
            visit_location(&mut memory.at, &mut |register, _| visit_range(*register, 1, visit));
            if let Some(stride) = memory.stride {
                visit_range(stride, 1, visit);
            }
        }
        MatrixInstruction::MulAdd { to, a, b, c, result, .. } => {
            visit_range(*to, elements(result), visit);
            for (first, matrix) in [a, b, c] {
                visit_range(*first, elements(matrix), visit);
            }
        }
    }
}

/// Place of a register's uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Unused,
    /// Written first and used only in this block, last by this instruction.
    Within {
        block: usize,
        last: usize,
    },
    Elsewhere,
}

/// Returns the life of each register.
fn lives(code: &Code, instructions: &mut [RegisterOp], terms: &mut [Term]) -> Vec<Life> {
    let mut lives = vec![Life::Unused; code.registers as usize];
    // How many more ranges of pinned registers there are from a register on than at the one before.
    let mut pinned = vec![0i64; code.registers as usize + 1];
    let mut block = 0;
    for (pc, instruction) in instructions.iter_mut().enumerate() {
        while code.blocks.get(block + 1).is_some_and(|begin| *begin as usize <= pc) {
            block += 1;
        }
        visit_registers(instruction, terms, &mut |register, usage| {
            if let RegisterUse::Pinned(count) = usage {
                let end = register.saturating_add(count).min(code.registers);
                pinned[end.min(*register) as usize] += 1;
                pinned[end as usize] -= 1;
                return;
            }
            let Some(life) = lives.get_mut(*register as usize) else { return };
            *life = match (*life, usage) {
                (Life::Unused, RegisterUse::Write) => Life::Within { block, last: pc },
                (Life::Within { block: own, .. }, RegisterUse::Read | RegisterUse::Write) if own == block => {
                    Life::Within { block, last: pc }
                }
                _ => Life::Elsewhere,
            };
        });
    }
    let mut depth = 0;
    for (life, change) in lives.iter_mut().zip(pinned) {
        depth += change;
        if depth > 0 {
            *life = Life::Elsewhere;
        }
    }
    let moved = code.moves.iter().flat_map(|(to, from)| [*to, *from]);
    for register in moved.chain(code.constants.iter().map(|(register, _)| *register)) {
        lives[register as usize] = Life::Elsewhere;
    }
    lives
}

/// Lets values that are written first and used only within one block share registers. Registers that nothing uses any
/// longer take no memory.
pub(crate) fn recycle(code: &mut Code) {
    let mut instructions = std::mem::take(&mut code.instructions);
    let mut terms = std::mem::take(&mut code.terms);
    let lives = lives(code, &mut instructions, &mut terms);
    // Values that live within a block keep the number of the first of those that share it.
    let mut free: Vec<Reg> = vec![];
    let mut numbers: Vec<Option<Reg>> = vec![None; lives.len()];
    for (pc, instruction) in instructions.iter_mut().enumerate() {
        let mut ended = vec![];
        visit_registers(instruction, &mut terms, &mut |register, usage| {
            let old = *register as usize;
            let Some(Life::Within { last, .. }) = lives.get(old) else { return };
            if matches!(usage, RegisterUse::Pinned(_)) {
                return;
            }
            let number = *numbers[old].get_or_insert_with(|| free.pop().unwrap_or(*register));
            *register = number;
            if *last == pc && !ended.contains(&number) {
                ended.push(number);
            }
        });
        // An operand's register is free only behind the instruction, whose result must not overwrite it.
        free.extend(ended);
    }
    code.used = vec![false; lives.len()];
    for instruction in &mut instructions {
        visit_registers(instruction, &mut terms, &mut |register, _| {
            if let Some(used) = code.used.get_mut(*register as usize) {
                *used = true;
            }
        });
    }
    for (register, life) in code.used.iter_mut().zip(&lives) {
        *register |= *life == Life::Elsewhere;
    }
    code.instructions = instructions;
    code.terms = terms;
}
