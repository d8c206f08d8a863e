//! Finds loops that may take many rounds, from the structure of a kernel's SPIR-V.

use crate::kernel::instructions::{Instruction, instructions};
use rspirv::spirv::Op;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Integer arithmetic that takes a counter from a round to the next.
const STEPS: [Op; 8] = [
    Op::IAdd,
    Op::ISub,
    Op::IMul,
    Op::UDiv,
    Op::SDiv,
    Op::ShiftLeftLogical,
    Op::ShiftRightLogical,
    Op::ShiftRightArithmetic,
];
/// Whether a kernel has a loop that no counter ends, such as an iteration until its values converge, or one that a counter
/// ends at a constant above `most`.
pub(super) fn has_long_loop(words: &[u32], most: u64) -> bool {
    let all: Vec<_> = instructions(words).flatten().collect();
    let large: HashSet<u32> = all.iter().filter_map(|own| large_constant(own, most)).collect();
    let loops = ranges(&all);
    loops.iter().any(|range| {
        let nested: Vec<_> = loops.iter().filter(|own| own.start > range.start && range.contains(&own.start)).collect();
        let is_own = |at: &usize| !nested.iter().any(|own| own.contains(at));
        let own: Vec<_> = range.clone().filter(is_own).map(|at| all[at]).collect();
        !has_counter(&own, &large)
    })
}

/// Returns the instructions of each loop by their numbers, from its header to what follows it. Blocks are taken to be in the
/// order in which compilers write them.
fn ranges(all: &[Instruction<'_>]) -> Vec<Range<usize>> {
    let mut labels = HashMap::new();
    let mut headers = vec![];
    let mut block = 0;
    for (number, instruction) in all.iter().enumerate() {
        match (instruction.op(), instruction.operands()) {
            (Some(Op::Label), &[id]) => {
                labels.insert(id, number);
                block = number;
            }
            (Some(Op::LoopMerge), &[merge, ..]) => headers.push((block, merge)),
            _ => {}
        }
    }
    headers.iter().filter_map(|(start, merge)| Some(*start..*labels.get(merge)?)).collect()
}

/// Returns the id of a constant above `most`. One with the highest bit may be negative.
fn large_constant(instruction: &Instruction<'_>, most: u64) -> Option<u32> {
    match (instruction.op(), instruction.operands()) {
        (Some(Op::Constant | Op::SpecConstant), &[_, id, value]) => {
            u64::try_from(value.cast_signed()).is_ok_and(|value| value > most).then_some(id)
        }
        _ => None,
    }
}

/// Whether the instructions of a loop step a variable or a phi by integer arithmetic and compare it with something, but for
/// the constants `large`.
fn has_counter(code: &[Instruction<'_>], large: &HashSet<u32>) -> bool {
    let mut loads = HashMap::new();
    let mut steps: HashMap<u32, &[u32]> = HashMap::new();
    for instruction in code {
        match (instruction.op(), instruction.operands()) {
            (Some(Op::Load), &[_, result, pointer, ..]) => _ = loads.insert(result, pointer),
            (Some(op), [_, result, operands @ ..]) if STEPS.contains(&op) => _ = steps.insert(*result, operands),
            _ => {}
        }
    }
    // A variable and its loaded value are the same here.
    let origin = |id: &u32| loads.get(id).copied().unwrap_or(*id);
    let is_step_of =
        |id: u32, value: &u32| steps.get(value).is_some_and(|from| from.iter().map(origin).any(|of| of == id));
    let counters = code.iter().filter_map(|instruction| match (instruction.op(), instruction.operands()) {
        (Some(Op::Store), [pointer, value, ..]) => is_step_of(*pointer, value).then_some(*pointer),
        (Some(Op::Phi), [_, result, values @ ..]) => {
            values.iter().any(|own| is_step_of(*result, own)).then_some(*result)
        }
        _ => None,
    });
    let counters: HashSet<u32> = counters.collect();
    let counts = |id: &u32| {
        counters.contains(&origin(id))
            || steps.get(id).is_some_and(|from| from.iter().any(|of| counters.contains(&origin(of))))
    };
    code.iter().any(|instruction| match (instruction.op(), instruction.operands()) {
        (Some(op), [_, _, sides @ ..]) if (Op::IEqual..=Op::SLessThanEqual).contains(&op) => {
            sides.iter().any(counts) && !sides.iter().any(|side| large.contains(side))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::spirv;

    #[test]
    fn loops_without_a_counter_or_with_a_large_constant_are_long() {
        for (body, expected) in [
            ("for (uint k = 0; k < n; ++k) s += 1.0;", false),
            ("for (int k = 5; k > -1; k--) s += 1.0;", false),
            ("for (uint k = 0; k + 3 < n; k += 4) if (s > 1e9) break;", false),
            ("uint k = n; do s *= 2.0; while (--k > 0u);", false),
            ("uint k = n; while (true) { if (k == 0u) break; k >>= 1; s += 1.0; }", false),
            ("for (uint k = 0; k < 65535u; ++k) s += 1.0;", false),
            ("for (uint k = 0; k < 65536u; ++k) s += 1.0;", true),
            ("while (s < 1e30 && n > 0u) s = s * 0.5 + 1.0;", true),
            ("while (s < 1e30) for (uint k = 0; k < n; ++k) s += 1.0;", true),
            ("for (uint k = 0; k < n; ++k) while (s < float(k)) s = s * 0.5 + 1.0;", true),
            ("uint k = n; while (k != 0u) k = next[k];", true),
            ("while (n > 0u) s += 1.0;", true),
            ("s = float(n);", false),
        ] {
            let words = spirv(&format!(
                "#version 460\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer D {{ float d[]; }};
                 layout(binding = 1) readonly buffer N {{ uint next[]; }};\nlayout(push_constant) uniform P {{ uint n; }};
                 void main() {{ float s = d[0]; {body} d[0] = s; }}"
            ));
            assert_eq!(has_long_loop(&words, 65_535), expected, "{body}");
        }
    }
}
