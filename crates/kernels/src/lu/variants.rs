//! Variants of lu: the LU post's two programs, with the improved one in the two steps that its text describes, and the
//! blocked ones. To add one, write kernels in `glsl/lu/` that include `lu.glsl`, and an entry here.
//!
//! A program is recorded once: the steps of the post's variants differ only in the argument `i`. They first set the
//! status word, clear L and copy A to U, which the post does on the host.

use super::factors::{A, L, NO_BAD_PIVOT, STATUS, U, order};
use super::{blocked, pivot, refine, solve};
use crate::algorithms::Solution;
use crate::case::{Shortcut, input::Input};
use crate::elements::{arguments, groups_over};
use crate::prelude::*;
use crate::shaders::built_in;

/// Work-group size: the post's 64, adjacent columns of one row, or rows of one column.
const GROUP: u32 = 64;

/// Shortcut of variants that factorize without pivoting.
const NO_PIVOTING: Measures = Measures::Shortcuts(&[Shortcut::NoPivoting]);

pub(super) static VARIANTS: &[Variant] = &[
    variant! { "naive" or "v0", "an n×n launch and a full copy of U per pivot: most invocations find no work",
        from "the LU post, the naive version",
        measures NO_PIVOTING,
        &["lu/identity-square", "lu/naive"] => &|shaders, case, device| {
            let elimination = Elimination::new(case, device);
            let n = elimination.n;
            elimination.program(elimination.dispatch(shaders[0], 0, [n, n]), |i| {
                vec![elimination.dispatch(shaders[1], i, [n, n]), Step::Copy { from: U, to: A }]
            })
        }
    },
    variant! { "offset-copy" or "v1", "launches and copies cover only the elements that a pivot changes",
        from "the LU post, offsets, non-uniform groups and sub-buffers",
        measures NO_PIVOTING,
        &["lu/identity", "lu/offset-column", "lu/offset-update", "lu/offset-copy"] => &|shaders, case, device| {
            let elimination = Elimination::new(case, device);
            elimination.program(elimination.dispatch(shaders[0], 0, [1, elimination.n]), |i| {
                let rows = elimination.n - i - 1;
                vec![
                    elimination.dispatch(shaders[1], i, [1, rows]),
                    elimination.dispatch(shaders[2], i, [rows, rows + 1]),
                    elimination.dispatch(shaders[3], i, [rows, rows + 1]),
                ]
            })
        }
    },
    variant! { "in-place" or "v2",
        "updates U in place, without a copy; each sub-group reads the pivot once and shares it in local memory",
        from "the LU post, the split update and the sub-group leader",
        measures NO_PIVOTING,
        &["lu/identity", "lu/in-place-column", "lu/in-place-update", "lu/in-place-clear"] => &|shaders, case, device| {
            let elimination = Elimination::new(case, device);
            elimination.program(elimination.dispatch(shaders[0], 0, [1, elimination.n]), |i| {
                let rows = elimination.n - i - 1;
                let mut column = elimination.dispatch(shaders[1], i, [1, rows]);
                if let Step::Dispatch(dispatch) = &mut column {
                    dispatch.subgroup_size = case.subgroup_size;
                }
                vec![column, elimination.dispatch(shaders[2], i, [rows, rows]), elimination.dispatch(shaders[3], i, [1, rows])]
            })
        }
    },
    variant! { "blocked", "one large product per block of columns, with the next diagonal block factorized alongside",
    from "right-looking with look-ahead; docs/studies/lu.md",
    measures NO_PIVOTING,
    &["lu/blocked-pad", "lu/blocked-corner", "lu/blocked-solve", "lu/blocked-update"] => &blocked::without_pivoting },
    variant! { "blocked-split",
    "blocked with its large products on the matrix units: three f16 products for each one in f32",
    from "as blocked, and Ootomo and Yokota 2022; docs/studies/lu.md",
    measures Measures::Shortcuts(&[Shortcut::NoPivoting, Shortcut::LessAccurate]),
    &["lu/blocked-pad", "lu/blocked-corner", "lu/blocked-solve", "lu/blocked-update", "lu/split-scales",
        "lu/split-halves", "lu/split-update"] => &blocked::without_pivoting },
    variant! { "blocked-pivot", "blocked with partial pivoting: rows stay in place and are looked up through a list",
    from "right-looking with look-ahead; docs/studies/lu.md",
    pivot::KERNELS => &pivot::with_pivoting },
    variant! { "blocked-pivot-texel",
    "blocked-pivot for software devices: products load through texel views and shuffle the panel",
    from "measured on llvmpipe; docs/studies/lu.md",
    &["lu/blocked-pad", "lu/pivot-rows", "lu/pivot-store-texel", "lu/pivot-finish-texel",
        "lu/blocked-solve-texel", "lu/blocked-update-texel", "lu/pivot-panel", "lu/pivot-panel-short",
        "lu/pivot-apply"] => &pivot::with_pivoting },
    variant! { "refined", "an f64 solution from the f32 factors of blocked-pivot, refined to a backward error of 1e-12",
    from "HPL-MxP; LAPACK's DSGESV; docs/studies/lu.md",
    measures Measures::Solution,
    refine::KERNELS => &refine::program },
];

pub(super) static SOLUTION: Solution = Solution {
    summary: "solves A·x = b with the factors, or refines it from f32 to f64; right if HPL's scaled residual is below 16",
    work: "2/3·n³ + 2·n² operations; A and b read once, x written once",
    inputs,
    kernels: built_in(solve::KERNELS),
    program: |mut program, case, device| {
        if let Some(refusal) = solve::refusal(case, device) {
            return Program::refused(refusal);
        }
        // The guarantee concerns the factors, which the check of a solution does not see.
        program.promise = None;
        program
    },
};

/// Returns the kinds of matrix whose systems a variant solves accurately.
///
/// Without pivoting, elements of a uniform matrix grow by chance: of 200 orders up to 3000, `blocked` missed HPL's
/// bound with 5 on an H100, and with different rounding these are other orders. Without pivoting, elimination is stable
/// if the diagonal dominates or the matrix is positive definite, as Hilbert's is (Higham, *Accuracy and Stability of
/// Numerical Algorithms*, 2nd ed., theorems 9.9 and 10.3). With pivoting, the growth of Wilkinson's matrix consumes
/// every digit, and the condition of Hilbert's those that a refinement to f64 would start from.
fn inputs(variant: &str, dtype: DType) -> &'static [Input] {
    let variant = VARIANTS.iter().find(|other| other.name == variant);
    if variant.is_some_and(|variant| variant.shortcuts().contains(&Shortcut::NoPivoting)) {
        &[Input::DiagonallyDominant, Input::Hilbert]
    } else if dtype == DType::F64 {
        &[Input::Uniform, Input::DiagonallyDominant, Input::IllScaled]
    } else {
        &[Input::Uniform, Input::DiagonallyDominant, Input::Hilbert, Input::IllScaled]
    }
}

/// Builder of the programs of variants that eliminate one pivot after the other.
struct Elimination<'a> {
    n: u64,
    case: &'a CaseSpec,
    device: &'a DeviceInfo,
}

impl<'a> Elimination<'a> {
    fn new(case: &'a CaseSpec, device: &'a DeviceInfo) -> Self {
        // Sizes that are not those of a square matrix were refused earlier.
        let n = order(case.size).unwrap_or_default();
        Self { n, case, device }
    }

    /// Builds the step of pivot `i` that has one invocation for each of `rows`×`columns` elements.
    fn dispatch(&self, shader: &'static Shader, i: u64, [rows, columns]: [u64; 2]) -> Step {
        let buffers = [("A", A), ("L", L), ("U", U), ("status", STATUS)];
        let groups = groups_over([columns, rows], [GROUP, 1], self.device);
        let dispatch = Dispatch::new(shader, &arguments(&buffers, &[("n", self.n), ("i", i)]));
        Step::Dispatch(dispatch.group_size([GROUP, 1, 1]).groups(groups))
    }

    /// Builds a program: the common initial steps, then the steps of each pivot but the last, which has nothing below
    /// it, then the solution if requested.
    fn program(&self, identity: Step, pivot: impl Fn(u64) -> Vec<Step>) -> Program {
        let mut steps = vec![
            Step::Fill { buffer: STATUS, word: NO_BAD_PIVOT as u32 },
            Step::Fill { buffer: L, word: 0 },
            Step::Copy { from: A, to: U },
            identity,
        ];
        steps.extend((0..self.n.saturating_sub(1)).flat_map(pivot));
        let mut program = Program { steps, ..Program::default() };
        if !self.case.goal.is_result() {
            solve::append_solution(&mut program, self.case, self.device);
        }
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;
    use crate::lu::LU;

    fn program(variant: &str, n: u64) -> Program {
        let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
        crate::fixture::program(&LU, variant, &case, &software_device())
    }

    #[test]
    fn launches_shrink_with_the_pivot_except_in_the_naive_variant() {
        let groups = |variant| program(variant, 130).dispatches().map(|d| d.groups).collect::<Vec<_>>();
        assert!(groups("naive").iter().all(|groups| *groups == [3, 130, 1]));
        let exact = groups("offset-copy");
        assert_eq!(exact[..4], [[3, 1, 1], [3, 1, 1], [3, 129, 1], [3, 129, 1]]);
        assert_eq!(exact[exact.len() - 3..], [[1, 1, 1]; 3]);
        assert_eq!(groups("in-place")[1..4], [[3, 1, 1], [3, 129, 1], [3, 1, 1]]);
    }

    #[test]
    fn a_matrix_of_one_element_is_only_copied() {
        for variant in ["naive", "offset-copy", "in-place"] {
            assert_eq!(program(variant, 1).steps.len(), 4, "{variant}");
        }
    }

    #[test]
    fn only_the_published_copies_write_a() {
        let copies = |variant| program(variant, 9).steps.iter().filter(|s| matches!(s, Step::Copy { .. })).count();
        assert_eq!((copies("naive"), copies("offset-copy"), copies("in-place")), (9, 1, 1));
    }
}
