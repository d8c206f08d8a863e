//! Order of blocks by natural loops, as compilers without maximal reconvergence lay them out: a block from which a loop
//! cannot be continued, such as one that ends in a `break`, runs behind the loop, when all lanes have left it. And order
//! of blocks with the sides of each branch exchanged.

use crate::code::{Code, RegisterOp};

/// Most blocks and edges times loops to analyze; modules with more are taken to have their blocks in order.
const MAX_WORK: usize = 1 << 24;

/// Returns the rank of each block; lanes at the block of the lowest rank go first.
pub(crate) fn natural_ranks(code: &Code) -> Vec<u32> {
    let successors: Vec<Vec<usize>> = (0..code.blocks.len()).map(|block| successors(code, block)).collect();
    let back_edges = successors.iter().enumerate().map(|(block, to)| to.iter().filter(|to| **to <= block).count());
    let edges = successors.iter().map(|to| 1 + to.len()).sum::<usize>();
    if edges.saturating_mul(back_edges.sum()) > MAX_WORK {
        return (0..successors.len() as u32).collect();
    }
    let loops = natural_loops(&successors);
    let mut ranks = vec![0; successors.len()];
    let mut seen = vec![false; successors.len()];
    let mut stack = vec![(0, exits_last(&successors, &loops, 0))];
    let mut next = successors.len() as u32;
    if let Some(first) = seen.first_mut() {
        *first = true;
    }
    // Reverse postorder, with the ways out of loops visited first.
    while let Some((block, pending)) = stack.last_mut() {
        match pending.pop() {
            None => {
                next -= 1;
                ranks[*block] = next;
                stack.pop();
            }
            Some(target) if !seen[target] => {
                seen[target] = true;
                stack.push((target, exits_last(&successors, &loops, target)));
            }
            Some(_) => {}
        }
    }
    ranks
}

/// Returns the rank of each block if the lanes that take the other side of a branch go first. The sides of a selection lie
/// behind one another in the code, before its merge block; where the first leads into the second, they stay in order.
pub(crate) fn swapped_ranks(code: &Code) -> Vec<u32> {
    let count = code.blocks.len();
    let mut ranks = vec![0; count];
    let mut order = 0..;
    let mut ranges = vec![(0, count)];
    while let Some((block, end)) = ranges.pop() {
        if block == end {
            continue;
        }
        ranks[block] = order.next().unwrap_or_default();
        let mut sides = successors(code, block);
        sides.sort_unstable();
        match (code.merges[block].map(|merge| merge as usize), &sides[..]) {
            (Some(merge), &[first, second])
                if first == block + 1
                    && (first + 1..merge).contains(&second)
                    && merge <= end
                    && (first..second)
                        .flat_map(|own| successors(code, own))
                        .all(|to| !(second..merge).contains(&to)) =>
            {
                ranges.extend([(merge, end), (first, second), (second, merge)]);
            }
            _ => ranges.push((block + 1, end)),
        }
    }
    ranks
}

fn successors(code: &Code, block: usize) -> Vec<usize> {
    let end = code.blocks.get(block + 1).map_or(code.instructions.len(), |next| *next as usize);
    let edges = match end.checked_sub(1).and_then(|last| code.instructions.get(last)) {
        Some(RegisterOp::Jump(edge)) => vec![edge],
        Some(RegisterOp::Branch { yes, no, .. }) => vec![no, yes],
        Some(RegisterOp::Switch { cases, default, .. }) => {
            [default].into_iter().chain(cases.iter().rev().map(|(_, edge)| edge)).collect()
        }
        _ => vec![],
    };
    edges.into_iter().map(|edge| edge.block as usize).collect()
}

/// Returns the blocks of each natural loop. Blocks are in structured order, so an edge to an earlier one closes a loop.
fn natural_loops(successors: &[Vec<usize>]) -> Vec<Vec<bool>> {
    let mut predecessors = vec![vec![]; successors.len()];
    for (block, targets) in successors.iter().enumerate() {
        for target in targets {
            predecessors[*target].push(block);
        }
    }
    let mut loops = vec![];
    for (block, targets) in successors.iter().enumerate() {
        for header in targets.iter().filter(|target| **target <= block) {
            let mut members = vec![false; successors.len()];
            members[*header] = true;
            let mut pending = vec![block];
            while let Some(member) = pending.pop() {
                if !std::mem::replace(&mut members[member], true) {
                    pending.extend(&predecessors[member]);
                }
            }
            loops.push(members);
        }
    }
    loops
}

/// Returns the successors of a block with those last that leave the most loops: they are taken from the end.
fn exits_last(successors: &[Vec<usize>], loops: &[Vec<bool>], block: usize) -> Vec<usize> {
    let mut targets = successors[block].clone();
    targets.sort_by_key(|target| loops.iter().filter(|members| members[block] && !members[*target]).count());
    targets
}
