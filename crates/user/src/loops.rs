//! Finds loops that may take many rounds, from the structure of a kernel's SPIR-V.

use crate::kernel::instructions::{Instruction, instructions};
use rspirv::spirv::Op;
use std::collections::{HashMap, HashSet};
use std::ops::{Range, RangeInclusive};

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

/// Steps that end a loop after as many rounds as its counter has bits.
const FACTORS: [Op; 6] =
    [Op::IMul, Op::UDiv, Op::SDiv, Op::ShiftLeftLogical, Op::ShiftRightLogical, Op::ShiftRightArithmetic];

/// Comparisons of integers.
const COMPARISONS: RangeInclusive<Op> = Op::IEqual..=Op::SLessThanEqual;

/// Most rounds of a plainly short loop: even those of a second one inside it are no problem to any driver.
const MOST_SHORT: u32 = 128;

/// Whether a kernel has a loop that no counter ends, such as an iteration until its values converge, or one that a counter
/// ends at a constant above `most`.
pub(super) fn has_long_loop(words: &[u32], most: u64) -> bool {
    let all: Vec<_> = instructions(words).flatten().collect();
    let large: HashSet<u32> = all.iter().filter_map(|own| large_constant(own, most)).collect();
    let constants = constants(&all);
    loops(&all).iter().any(|(code, _)| !Counters::of(code, &constants).are_compared(code, &large))
}

/// Whether a kernel has a loop that is not plainly short: one whose counter neither stops at a constant of up to
/// [`MOST_SHORT`] nor is multiplied or divided in each round, as in a tree of sums. The value of a specialization constant is
/// not known here.
pub(super) fn has_growing_loop(words: &[u32]) -> bool {
    let all: Vec<_> = instructions(words).flatten().collect();
    let constants = constants(&all);
    loops(&all).iter().any(|(code, merge)| !is_short(code, *merge, &constants))
}

/// Whether a loop ends in few rounds: a branch to `merge`, which follows it, depends on such a counter.
fn is_short(code: &[Instruction<'_>], merge: u32, constants: &HashMap<u32, u32>) -> bool {
    let exits: HashSet<u32> = code
        .iter()
        .filter_map(|own| match (own.op(), own.operands()) {
            (Some(Op::BranchConditional), [condition, targets @ ..]) => targets.contains(&merge).then_some(*condition),
            _ => None,
        })
        .collect();
    let counters = Counters::of(code, constants);
    let is_small = |id: &u32| constants.get(id).is_some_and(|value| (1..=MOST_SHORT).contains(value));
    code.iter().any(|own| match (own.op(), own.operands()) {
        (Some(op), [_, result, sides @ ..]) if COMPARISONS.contains(&op) && exits.contains(result) => {
            let is_below = [Op::ULessThan, Op::SLessThan, Op::ULessThanEqual, Op::SLessThanEqual].contains(&op);
            let steps = sides.first().map(|side| counters.steps_of(*side)).unwrap_or_default();
            let has_all = |ops: &[Op]| {
                !steps.is_empty() && steps.iter().all(|(op, from)| ops.contains(op) && from.iter().any(is_small))
            };
            has_all(&FACTORS) || is_below && has_all(&[Op::IAdd]) && is_small(&sides[1])
        }
        _ => false,
    })
}

/// Returns the numbers of 32 bits that are constant, by their ids.
fn constants(all: &[Instruction<'_>]) -> HashMap<u32, u32> {
    let constant = |own: &Instruction<'_>| match (own.op(), own.operands()) {
        (Some(Op::Constant), &[_, id, value]) => Some((id, value)),
        _ => None,
    };
    all.iter().filter_map(constant).collect()
}

/// Whether arithmetic leaves its number as it is: a counter with such a step ends no loop.
fn is_neutral((op, from): Step<'_>, constants: &HashMap<u32, u32>) -> bool {
    let neutral = u32::from([Op::IMul, Op::UDiv, Op::SDiv].contains(&op));
    from.iter().any(|id| constants.get(id) == Some(&neutral))
}

/// Returns the instructions of each loop, without those of the loops in it, and the label of what follows it.
fn loops<'a>(all: &[Instruction<'a>]) -> Vec<(Vec<Instruction<'a>>, u32)> {
    let loops = ranges(all);
    let own = |(range, merge): &(Range<usize>, u32)| {
        let is_nested = |(own, _): &&(Range<usize>, u32)| own.start > range.start && range.contains(&own.start);
        let nested: Vec<_> = loops.iter().filter(is_nested).collect();
        let is_own = |at: &usize| !nested.iter().any(|(own, _)| own.contains(at));
        (range.clone().filter(is_own).map(|at| all[at]).collect(), *merge)
    };
    loops.iter().map(own).collect()
}

/// Returns the instructions of each loop by their numbers, from its header to what follows it, whose label it adds. Blocks
/// are taken to be in the order in which compilers write them.
fn ranges(all: &[Instruction<'_>]) -> Vec<(Range<usize>, u32)> {
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
    headers.iter().filter_map(|(start, merge)| Some((*start..*labels.get(merge)?, *merge))).collect()
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

/// Arithmetic, and what it is of.
type Step<'a> = (Op, &'a [u32]);

/// Variables and phis of a loop that integer arithmetic takes from a round to the next.
struct Counters<'a> {
    /// Variable of each loaded value.
    loads: HashMap<u32, u32>,
    /// Arithmetic by its result.
    steps: HashMap<u32, Step<'a>>,
    /// Steps of each counter.
    own: HashMap<u32, Vec<Step<'a>>>,
}

impl<'a> Counters<'a> {
    fn of(code: &[Instruction<'a>], constants: &HashMap<u32, u32>) -> Self {
        let mut all = Self { loads: HashMap::new(), steps: HashMap::new(), own: HashMap::new() };
        for instruction in code {
            match (instruction.op(), instruction.operands()) {
                (Some(Op::Load), &[_, result, pointer, ..]) => _ = all.loads.insert(result, pointer),
                (Some(op), [_, result, operands @ ..]) if STEPS.contains(&op) => {
                    all.steps.insert(*result, (op, operands));
                }
                _ => {}
            }
        }
        let mut counters: HashMap<u32, Vec<Step<'_>>> = HashMap::new();
        for instruction in code {
            let (counter, values) = match (instruction.op(), instruction.operands()) {
                (Some(Op::Store), [pointer, value, ..]) => (*pointer, std::slice::from_ref(value)),
                (Some(Op::Phi), [_, result, values @ ..]) => (*result, values),
                _ => continue,
            };
            let own = values.iter().filter_map(|value| all.steps.get(value));
            let own = own.filter(|step| step.1.iter().any(|id| all.origin(*id) == counter));
            let own = own.filter(|step| !is_neutral(**step, constants)).copied();
            counters.entry(counter).or_default().extend(own);
        }
        counters.retain(|_, steps| !steps.is_empty());
        Self { own: counters, ..all }
    }

    /// Returns the variable of a loaded value, which are the same here.
    fn origin(&self, id: u32) -> u32 {
        self.loads.get(&id).copied().unwrap_or(id)
    }

    /// Returns the steps of the counter that a number is, or that it is one step from; empty for other numbers.
    fn steps_of(&self, id: u32) -> Vec<Step<'a>> {
        let of = |id: u32| self.own.get(&self.origin(id));
        let behind = || self.steps.get(&id).and_then(|(_, from)| from.iter().find_map(|own| of(*own)));
        of(id).or_else(behind).cloned().unwrap_or_default()
    }

    /// Whether the loop compares a counter with something, but for the constants `large`.
    fn are_compared(&self, code: &[Instruction<'_>], large: &HashSet<u32>) -> bool {
        code.iter().any(|instruction| match (instruction.op(), instruction.operands()) {
            (Some(op), [_, _, sides @ ..]) if COMPARISONS.contains(&op) => {
                sides.iter().any(|side| !self.steps_of(*side).is_empty())
                    && !sides.iter().any(|side| large.contains(side))
            }
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::spirv;

    /// Compiles a kernel whose `main` has these statements on a sum `s`.
    fn kernel(body: &str) -> Vec<u32> {
        spirv(&format!(
            "#version 460\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer D {{ float d[]; }};
             layout(binding = 1) readonly buffer N {{ uint next[]; }};\nlayout(push_constant) uniform P {{ uint n; }};
             layout(constant_id = 0) const uint EACH = 4;
             void main() {{ float s = d[0]; {body} d[0] = s; }}"
        ))
    }

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
            ("for (uint k = 1; k < n; k <<= 0) s += 1.0;", true),
            ("for (uint k = 1; k < n; k += 0) s += 1.0;", true),
            ("s = float(n);", false),
        ] {
            assert_eq!(has_long_loop(&kernel(body), 65_535), expected, "{body}");
        }
    }

    #[test]
    fn only_loops_that_a_small_constant_or_a_factor_ends_are_plainly_short() {
        for (body, expected) in [
            ("s = float(n);", false),
            ("for (uint k = 0; k < 32; ++k) s += 1.0;", false),
            ("for (int k = 0; k <= 7; k += 2) for (uint i = 0; i < 16; ++i) s += 1.0;", false),
            ("for (uint k = 32; k > 0; k >>= 1) s += 1.0;", false),
            ("for (uint k = n; k > 0; k /= 2) s += 1.0;", false),
            ("for (uint k = 1; k < n; k *= 2) s += 1.0;", false),
            ("for (uint k = 0; k < n; ++k) s += 1.0;", true),
            ("for (uint k = 0; k < n; ++k) if (k < 3) s += 1.0;", true),
            ("for (uint k = 0; k < 16; ++k) for (uint i = 0; i < n; ++i) s += 1.0;", true),
            ("for (uint k = 0; k < 4096; ++k) s += 1.0;", true),
            ("for (uint k = n; k > 0; --k) s += 1.0;", true),
            ("for (int k = -int(n); k < 0; ++k) s += 1.0;", true),
            ("for (uint k = 0; k < 16;) k += next[k] % 2;", true),
            ("for (uint k = 0; k < 16; k += n) s += 1.0;", true),
            ("for (uint k = 0; k < 16; k += 0) s += 1.0;", true),
            ("for (uint k = 1; k < 16; k <<= 0) s += 1.0;", true),
            ("for (uint k = 1; k < 16; k *= 1) s += 1.0;", true),
            ("for (uint k = 0; k < EACH; ++k) s += 1.0;", true),
            ("while (s < 1e30) s *= 2.0;", true),
        ] {
            assert_eq!(has_growing_loop(&kernel(body)), expected, "{body}");
        }
    }
}
