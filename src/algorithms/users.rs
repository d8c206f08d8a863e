//! Users' kernels as algorithms: they stand beside those of the table, and everything that takes an [`Algorithm`] takes
//! them.

use super::Algorithm;
use std::sync::{PoisonError, RwLock};

/// The users' algorithms of this process. They live as long as it, as those of the table do.
static REGISTERED: RwLock<Vec<&'static Algorithm>> = RwLock::new(vec![]);

/// Lets `algorithm` be found by its name, in place of an earlier one of that name.
pub(crate) fn register(algorithm: Algorithm) -> &'static Algorithm {
    let algorithm: &'static Algorithm = Box::leak(Box::new(algorithm));
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|other| other.name != algorithm.name);
    registered.push(algorithm);
    algorithm
}

/// The user's algorithm of this name.
pub(super) fn find(name: &str) -> Option<&'static Algorithm> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    registered.iter().copied().find(|algorithm| algorithm.name == name)
}

/// Whether `algorithm` is a user's.
#[must_use]
pub(crate) fn is(algorithm: &Algorithm) -> bool {
    find(algorithm.name).is_some_and(|found| std::ptr::eq(found, algorithm))
}

/// Whether this process has any.
#[must_use]
pub(crate) fn any() -> bool {
    !REGISTERED.read().unwrap_or_else(PoisonError::into_inner).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::{self, CaseSpec, Measures, Variant, matmul::MATMUL};
    use crate::basis::dtype::DType;
    use crate::basis::size::Size;
    use crate::device::capability::tests::software_device;
    use crate::kernel::program::{BufferId, Program, Step};

    /// An algorithm that fills a buffer with `word`.
    fn filling(word: u32) -> Algorithm {
        let build = move |_: &[_], _: &CaseSpec, _: &_| Program {
            steps: vec![Step::Fill { buffer: BufferId(2), word }],
            ..Program::default()
        };
        let variant = Variant {
            name: "fill",
            aliases: &[],
            summary: "a word",
            source: "a test",
            measures: Measures::Problem,
            kernels: &[],
            program: Box::leak(Box::new(build)),
        };
        Algorithm { name: "own", variants: Box::leak(Box::new([variant])), tunable: &[], candidates: None, ..MATMUL }
    }

    #[test]
    fn a_users_algorithm_stands_beside_the_table_and_gives_way_to_a_later_one_of_its_name() {
        assert!(algorithms::find("own").is_err());
        for word in [1, 2] {
            register(filling(word));
            let own = algorithms::find("own").expect("it is registered");
            let case = CaseSpec::new(own, Size::Uniform(4), DType::F32);
            let problem = (own.problem)(&case).expect("a product");
            let program = own.feasible(&own.variants[0], &case, problem.as_ref(), &software_device());
            let program = program.expect("it asks for nothing");
            assert!(matches!(program.steps[..], [Step::Fill { word: found, .. }] if found == word));
        }
        assert!(any());
    }
}
