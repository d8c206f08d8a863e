//! Variants of lu: the LU post's two programs, with the improved one in the two steps that its text describes, and the
//! blocked ones. To add one, write kernels in `glsl/lu/` that include `lu.glsl`, and an entry here.
//!
//! A program is recorded once: the steps of the post's variants differ only in the argument `i`. They first set the
//! status word, clear L and copy A to U, which the post does on the host.

use super::factors::{A, L, NO_BAD_PIVOT, STATUS, U, order};
use super::{blocked, pivot, refine, solve};
use crate::algorithms::{CaseSpec, Measures, Solution, Variant};
use crate::basis::dtype::DType;
use crate::basis::handle::Handle::Static;
use crate::case::Shortcut;
use crate::case::input::Input;
use crate::device::capability::DeviceInfo;
use crate::elements::groups_over;
use crate::kernel::program::{ArgumentValue, Dispatch, Program, Step};
use crate::kernel::shaders::Shader;
use crate::shaders::built_in;
use std::borrow::Cow::Borrowed;

/// Work-group size: the post's 64, adjacent columns of one row, or rows of one column.
const GROUP: u32 = 64;

pub(super) static VARIANTS: &[Variant] = &[
    Variant {
        name: Borrowed("naive"),
        aliases: &["v0"],
        summary: "an n×n launch and a full copy of U per pivot: most invocations find no work",
        source: "the LU post, the naive version",
        measures: Measures::Shortcuts(&[Shortcut::NoPivoting]),
        kernels: built_in(&["lu/identity-square", "lu/naive"]),
        program: Static(&|shaders, case, device| {
            let grid = Launch::new(case, device);
            let n = grid.n;
            grid.program(grid.dispatch(shaders[0], 0, [n, n]), |i| {
                vec![grid.dispatch(shaders[1], i, [n, n]), Step::Copy { from: U, to: A }]
            })
        }),
    },
    Variant {
        name: Borrowed("offset-copy"),
        aliases: &["v1"],
        summary: "launches and copies cover only the elements that a pivot changes",
        source: "the LU post, offsets, non-uniform groups and sub-buffers",
        measures: Measures::Shortcuts(&[Shortcut::NoPivoting]),
        kernels: built_in(&["lu/identity", "lu/offset-column", "lu/offset-update", "lu/offset-copy"]),
        program: Static(&|shaders, case, device| {
            let grid = Launch::new(case, device);
            grid.program(grid.dispatch(shaders[0], 0, [1, grid.n]), |i| {
                let rows = grid.n - i - 1;
                vec![
                    grid.dispatch(shaders[1], i, [1, rows]),
                    grid.dispatch(shaders[2], i, [rows, rows + 1]),
                    grid.dispatch(shaders[3], i, [rows, rows + 1]),
                ]
            })
        }),
    },
    Variant {
        name: Borrowed("in-place"),
        aliases: &["v2"],
        summary: "updates U in place, without a copy; each sub-group reads the pivot once and shares it in local memory",
        source: "the LU post, the split update and the sub-group leader",
        measures: Measures::Shortcuts(&[Shortcut::NoPivoting]),
        kernels: built_in(&["lu/identity", "lu/in-place-column", "lu/in-place-update", "lu/in-place-clear"]),
        program: Static(&|shaders, case, device| {
            let grid = Launch::new(case, device);
            grid.program(grid.dispatch(shaders[0], 0, [1, grid.n]), |i| {
                let rows = grid.n - i - 1;
                let mut column = grid.dispatch(shaders[1], i, [1, rows]);
                if let (Step::Dispatch(dispatch), Some(size)) = (&mut column, case.subgroup_size) {
                    *dispatch = dispatch.clone().subgroups_of(size);
                }
                vec![column, grid.dispatch(shaders[2], i, [rows, rows]), grid.dispatch(shaders[3], i, [1, rows])]
            })
        }),
    },
    Variant {
        name: Borrowed("blocked"),
        aliases: &[],
        summary: "one large product per block of columns, with the next diagonal block factorised alongside",
        source: "right-looking with look-ahead; docs/lu.md",
        measures: Measures::Shortcuts(&[Shortcut::NoPivoting]),
        kernels: built_in(&["lu/blocked-pad", "lu/blocked-corner", "lu/blocked-solve", "lu/blocked-update"]),
        program: Static(&blocked::without_pivoting),
    },
    Variant {
        name: Borrowed("blocked-split"),
        aliases: &[],
        summary: "blocked with its large products on the matrix units: three f16 products for each one in f32",
        source: "as blocked, and Ootomo and Yokota 2022; docs/lu.md",
        measures: Measures::Shortcuts(&[Shortcut::NoPivoting, Shortcut::LessAccurate]),
        kernels: built_in(&[
            "lu/blocked-pad",
            "lu/blocked-corner",
            "lu/blocked-solve",
            "lu/blocked-update",
            "lu/split-scales",
            "lu/split-halves",
            "lu/split-update",
        ]),
        program: Static(&blocked::without_pivoting),
    },
    Variant {
        name: Borrowed("blocked-pivot"),
        aliases: &[],
        summary: "blocked with partial pivoting: rows stay in place and are looked up through a list",
        source: "right-looking with look-ahead; docs/lu.md",
        measures: Measures::Problem,
        kernels: built_in(pivot::KERNELS),
        program: Static(&pivot::with_pivoting),
    },
    Variant {
        name: Borrowed("blocked-pivot-texel"),
        aliases: &[],
        summary: "blocked-pivot for software devices: products load through texel views and shuffle the panel",
        source: "measured on llvmpipe; docs/lu.md",
        measures: Measures::Problem,
        kernels: built_in(&[
            "lu/blocked-pad",
            "lu/pivot-rows",
            "lu/pivot-store-texel",
            "lu/pivot-finish-texel",
            "lu/blocked-solve-texel",
            "lu/blocked-update-texel",
            "lu/pivot-panel",
            "lu/pivot-panel-short",
            "lu/pivot-apply",
        ]),
        program: Static(&pivot::with_pivoting),
    },
    Variant {
        name: Borrowed("refined"),
        aliases: &[],
        summary: "an f64 solution from the f32 factors of blocked-pivot, refined to a backward error of 1e-12",
        source: "HPL-MxP; LAPACK's DSGESV; docs/lu.md",
        measures: Measures::Solution,
        kernels: built_in(refine::KERNELS),
        program: Static(&refine::program),
    },
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
    let own = VARIANTS.iter().find(|own| own.name == variant);
    match (own.is_some_and(|own| own.shortcuts().contains(&Shortcut::NoPivoting)), dtype) {
        (true, _) => &[Input::DiagonallyDominant, Input::Hilbert],
        (false, DType::F64) => &[Input::Uniform, Input::DiagonallyDominant, Input::IllScaled],
        (false, _) => &[Input::Uniform, Input::DiagonallyDominant, Input::Hilbert, Input::IllScaled],
    }
}

/// Order of the matrix, and context for the layout of launches.
struct Launch<'a> {
    n: u64,
    case: &'a CaseSpec,
    device: &'a DeviceInfo,
}

impl<'a> Launch<'a> {
    fn new(case: &'a CaseSpec, device: &'a DeviceInfo) -> Self {
        // Sizes that are not those of a square matrix were refused earlier.
        let n = order(case.size).unwrap_or_default();
        Self { n, case, device }
    }

    /// Dispatches `shader` with one invocation for each of `rows`×`columns` elements.
    fn dispatch(&self, shader: &'static Shader, i: u64, [rows, columns]: [u64; 2]) -> Step {
        // n is at most 2^16, and i is below n.
        let [n, i] = [self.n, i].map(|extent| ArgumentValue::U32(extent as u32));
        let [a, l, u, status] = [A, L, U, STATUS].map(ArgumentValue::Buffer);
        Step::Dispatch(
            Dispatch::new(shader, &[("A", a), ("L", l), ("U", u), ("status", status), ("n", n), ("i", i)])
                .group_size([GROUP, 1, 1])
                .groups(groups_over([columns, rows], [GROUP, 1], self.device)),
        )
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
    use crate::basis::size::Size;
    use crate::device::fixture::software_device;
    use crate::lu::LU;

    fn program(variant: &str, n: u64) -> Program {
        let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
        let variant = LU.variant(variant).expect("it is in the table");
        variant.program(&case, &software_device()).expect("it runs on the software device")
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
        for variant in LU
            .variants
            .iter()
            .filter(|variant| !["blocked", "refined"].iter().any(|other| variant.name.starts_with(other)))
        {
            assert_eq!(program(&variant.name, 1).steps.len(), 4, "{}", variant.name);
        }
    }

    #[test]
    fn only_the_published_copies_write_a() {
        let copies = |variant| program(variant, 9).steps.iter().filter(|s| matches!(s, Step::Copy { .. })).count();
        assert_eq!((copies("naive"), copies("offset-copy"), copies("in-place")), (9, 1, 1));
    }
}
