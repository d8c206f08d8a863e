//! Algorithms that are made while the program runs, from kernels of the user's: they stand beside those of the table, and
//! everything that takes an [`Algorithm`] takes them.

use super::Algorithm;
use std::sync::{PoisonError, RwLock};

/// The guests of this process. They live as long as it, as those of the table do.
static GUESTS: RwLock<Vec<&'static Algorithm>> = RwLock::new(vec![]);

/// Lets `algorithm` be found by its name, in place of a guest that had it before.
pub(crate) fn welcome(algorithm: Algorithm) -> &'static Algorithm {
    let guest: &'static Algorithm = Box::leak(Box::new(algorithm));
    let mut guests = GUESTS.write().unwrap_or_else(PoisonError::into_inner);
    guests.retain(|other| other.name != guest.name);
    guests.push(guest);
    guest
}

/// The guest of this name.
pub(super) fn find(name: &str) -> Option<&'static Algorithm> {
    let guests = GUESTS.read().unwrap_or_else(PoisonError::into_inner);
    guests.iter().copied().find(|guest| guest.name == name)
}

/// Whether `algorithm` is one.
#[must_use]
pub(crate) fn is(algorithm: &Algorithm) -> bool {
    find(algorithm.name).is_some_and(|guest| std::ptr::eq(guest, algorithm))
}

/// Whether this process has any.
#[must_use]
pub(crate) fn any() -> bool {
    !GUESTS.read().unwrap_or_else(PoisonError::into_inner).is_empty()
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
        Algorithm { name: "guest", variants: Box::leak(Box::new([variant])), tunable: &[], candidates: None, ..MATMUL }
    }

    #[test]
    fn a_guest_stands_beside_the_table_and_gives_way_to_a_later_one_of_its_name() {
        assert!(algorithms::find("guest").is_err());
        for word in [1, 2] {
            welcome(filling(word));
            let guest = algorithms::find("guest").expect("it was welcomed");
            let case = CaseSpec::new(guest, Size::Uniform(4), DType::F32);
            let problem = (guest.problem)(&case).expect("a product");
            let program = guest.feasible(&guest.variants[0], &case, problem.as_ref(), &software_device());
            let program = program.expect("it asks for nothing");
            assert!(matches!(program.steps[..], [Step::Fill { word: found, .. }] if found == word));
        }
        assert!(any());
    }
}
