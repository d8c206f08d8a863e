//! Dominant eigenvalue and eigenvector of a positive matrix by similarity transform (after the similarity post), and
//! its kernels, each as an algorithm. All in f32.
//!
//! The post's kernels share one work-group size, so that variants differ only in how they communicate; the project's
//! own (`streaming`, `fused`) choose it by device.

mod common;
mod components;
mod fused;
mod pipeline;
mod power;
mod stop_check;
mod streaming;

pub use components::{EIGENVECTOR, NEXT_MATRIX, ROW_SUM, VECTOR_MAX};
pub use pipeline::EIGEN;
pub use stop_check::{EPS as STOP_CHECK_EPS, STOP_CHECK};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::Feature;
    use crate::device::fixture::software_device;
    use crate::prelude::*;

    /// Returns the grids of the dispatches in a variant's program.
    fn groups(algorithm: &'static Algorithm, variant: &str, n: u64) -> Vec<[u64; 3]> {
        let case = CaseSpec::new(algorithm, Size::Uniform(n), DType::F32);
        let program = crate::fixture::program(algorithm, variant, &case, &software_device());
        program.dispatches().map(|dispatch| dispatch.groups).collect()
    }

    #[test]
    fn grids_cover_the_data_and_fold_beyond_the_limit() {
        assert_eq!(groups(&ROW_SUM, "v0", 1000), [[4, 1000, 1]]);
        assert_eq!(groups(&VECTOR_MAX, "v1", 1 << 25), [[43_691, 3, 1]]);
    }

    #[test]
    fn a_device_without_float_atomics_gets_the_compare_exchange_form_and_the_note_says_so() {
        let mut device = software_device();
        let case = CaseSpec::new(&ROW_SUM, Size::Uniform(8), DType::F32);
        let program = |device: &DeviceInfo| ROW_SUM.variants[0].program(&case, device).expect("a program");
        assert_eq!(program(&device).note, None);
        device.features.remove(&Feature::ShaderBufferFloat32AtomicAdd);
        assert_eq!(program(&device).note.as_deref(), Some("float atomics: compare-exchange"));
    }

    #[test]
    fn sizes_of_three_extents_and_matrices_beyond_the_index_are_refused() {
        let problem = |algorithm: &'static Algorithm, size| {
            (algorithm.problem)(&CaseSpec::new(algorithm, size, DType::F32)).err().expect("refused")
        };
        assert_eq!(problem(&ROW_SUM, Size::Three(2, 3, 4)), "the matrix is square; write N");
        let large = "the matrix would have 50000×50000 elements, more than the 2^31 that kernels can index";
        assert_eq!(problem(&EIGEN, Size::Uniform(50_000)), format!("{large}; choose a smaller size"));
        let beyond = "kernels can index 2^31 elements; choose a smaller size";
        assert_eq!(problem(&STOP_CHECK, Size::Uniform(u64::from(u32::MAX))), beyond);
    }
}
