//! The built-in algorithms with their variants, kernels, oracles and host baselines: data, pure functions and host code.
//! Nothing here calls Vulkan.

/// Declares a variant: name and aliases, summary, source, what it measures if that is not the problem itself, then its
/// kernels and the function that builds its program from them.
macro_rules! variant {
    ($name:literal $(or $alias:literal)*, $summary:literal, from $source:literal, $kernels:expr => $program:expr) => {
        variant! {
            $name $(or $alias)*, $summary, from $source, measures $crate::algorithms::Measures::Problem,
            $kernels => $program
        }
    };
    ($name:literal $(or $alias:literal)*, $summary:literal, from $source:literal, measures $measures:expr,
     $kernels:expr => $program:expr) => {
        $crate::algorithms::Variant {
            name: std::borrow::Cow::Borrowed($name),
            choice: std::collections::BTreeMap::new(),
            aliases: &[$($alias),*],
            summary: $summary,
            source: $source,
            measures: $measures,
            kernels: $crate::shaders::built_in($kernels),
            program: $crate::basis::handle::Handle::Static($program),
        }
    };
}

pub mod collectives;
pub mod eigen;
pub mod elements;
mod error_bound;
#[cfg(test)]
mod fixture;
mod host;
pub mod lu;
pub mod matmul;
pub mod matrix;
mod prelude;
pub mod probes;
pub mod product;
pub mod shaders;

use gpukern_model::{basis, case, device};
use gpukern_program::{algorithms, kernel};

use crate::algorithms::catalogue::{Catalogue, Probes};

/// The built-in algorithms.
pub static CATALOGUE: Catalogue = Catalogue {
    algorithms: &[
        &matmul::MATMUL,
        &lu::LU,
        &eigen::ROW_SUM,
        &eigen::VECTOR_MAX,
        &eigen::EIGENVECTOR,
        &eigen::NEXT_MATRIX,
        &eigen::STOP_CHECK,
        &eigen::EIGEN,
        &collectives::COLLECTIVES,
        &probes::FMA,
        &probes::MATRIX_UNIT,
        &probes::MEMORY_READ,
        &probes::MEMORY_WRITE,
        &probes::MEMORY_COPY,
        &probes::SHARED_MEMORY,
        &probes::ATOMIC_ADD,
        &probes::LAUNCH,
    ],
    probes: Probes {
        memory_read: &probes::MEMORY_READ,
        memory_write: &probes::MEMORY_WRITE,
        memory_copy: &probes::MEMORY_COPY,
        matrix_unit: &probes::MATRIX_UNIT,
        fma: &probes::FMA,
        fma_steps: probes::fma::STEPS,
        fma_with_steps: probes::fma::with_steps,
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::size::sweep;
    use crate::case::{Goal, Shortcut};
    use crate::device::capability::Feature;
    use crate::device::fixture::{gpu, matrix, software_device};
    use crate::prelude::*;
    use std::collections::BTreeSet;

    fn all_variants() -> impl Iterator<Item = (&'static Algorithm, &'static Variant)> {
        CATALOGUE
            .algorithms
            .iter()
            .flat_map(|algorithm| algorithm.variants.iter().map(move |variant| (*algorithm, variant)))
    }

    #[test]
    fn names_and_aliases_are_unique_and_fit_case_ids() {
        for algorithm in CATALOGUE.algorithms {
            let variants = algorithm.variants.iter();
            let names: Vec<_> = variants.flat_map(|v| v.aliases.iter().copied().chain([&*v.name])).collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}: {names:?}", algorithm.name);
            for name in names.iter().copied().chain([&*algorithm.name]) {
                let fits_ids = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
                assert!(fits_ids && !["all", "auto"].contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn every_kernel_belongs_to_a_variant_and_every_variant_has_its_kernels() {
        let mut named: BTreeSet<&str> =
            all_variants().flat_map(|(_, variant)| variant.kernels.names.iter().copied()).collect();
        for solution in CATALOGUE.algorithms.iter().filter_map(|algorithm| algorithm.solution) {
            named.extend(solution.kernels.names);
        }
        let compiled: BTreeSet<&str> = shaders::SHADERS.iter().map(|shader| &*shader.name).collect();
        // The message names the missing kernel and the nearest existing one.
        for (algorithm, variant) in all_variants() {
            assert!(DType::ALL.into_iter().any(|d| variant.supports(d)), "{}/{}", algorithm.name, variant.name);
        }
        let unused: Vec<_> = compiled.difference(&named).collect();
        assert!(
            unused.is_empty(),
            "no variant names the kernels {unused:?}: add them to a variant's `kernels`, and its algorithm to CATALOGUE"
        );
        let missing: Vec<_> = named.difference(&compiled).collect();
        assert!(missing.is_empty(), "there is no glsl/ source for the kernels {missing:?}");
    }

    #[test]
    #[should_panic = "unknown kernel 'matmul/naiv' of variant slip in glsl/; did you mean 'matmul/naive'?"]
    fn a_variant_that_names_a_kernel_that_does_not_exist_is_named_with_it() {
        let slip = variant! { "slip", "", from "", &["matmul/split", "matmul/naiv"] => &|_, _, _| Program::default() };
        let _ = slip.supports(DType::F32);
    }

    #[test]
    fn every_program_builds_at_every_default_size_and_fits_the_software_device() {
        let device = software_device();
        for (algorithm, variant) in all_variants() {
            let sizes = [algorithm.default_size.cpu, algorithm.verify_size.cpu];
            let sizes = sizes.iter().flat_map(|text| sweep(text).expect("a sweep"));
            for size in sizes {
                let goals = algorithm.goals().iter().flat_map(|goal| DType::ALL.map(|dtype| (*goal, dtype)));
                for (goal, dtype) in goals.filter(|(goal, dtype)| variant.reaches(*goal, *dtype)) {
                    let case = CaseSpec::new(algorithm, size, dtype).with(|options| options.goal = goal);
                    let problem = (algorithm.problem)(&case).expect("a sensible size");
                    let shaders = variant.shaders(dtype, Layout::Nn).expect("it supports the type");
                    let needs_matrices = shaders.iter().any(|shader| shader.declares("CooperativeMatrixKHR"));
                    match algorithm.program(variant, &case, &device) {
                        Ok(program) => {
                            let buffers = problem.buffers().len() + program.scratch.len();
                            assert!(program.all_steps().flat_map(Step::buffers).all(|id| id.0 < buffers));
                        }
                        Err(reason) if needs_matrices => {
                            let expected = ["needs feature", "assumes NVIDIA's register layout"];
                            assert!(expected.iter().any(|start| reason.starts_with(start)), "{reason}");
                        }
                        // Some variants require few rows or columns.
                        Err(reason) if reason.starts_with("only for products with") => {}
                        Err(reason) => panic!("{}/{} {size}: {reason}", algorithm.name, variant.name),
                    }
                }
            }
        }
    }

    // A variant with an error allowance has the shortcut "less accurate", and an LU variant without a promised
    // multiplier bound has "no pivoting".
    #[test]
    fn shortcuts_are_those_of_the_programs() {
        let mut device = gpu();
        device.features = Feature::ALL.iter().copied().collect();
        device.cooperative_matrices = ["f16", "f32"].map(|accumulator| matrix([16; 3], "f16", accumulator)).into();
        let mut with_shortcuts = BTreeSet::new();
        for (algorithm, variant) in all_variants() {
            let name = format!("{}/{}", algorithm.name, variant.name);
            let size = sweep(algorithm.default_size.cpu).expect("a sweep")[0];
            let case = |dtype| CaseSpec::new(algorithm, size, dtype);
            let dtypes = DType::ALL.into_iter().filter(|dtype| variant.reaches(Goal::Result, *dtype));
            let has = |shortcut| variant.shortcuts().contains(&shortcut);
            for program in dtypes.filter_map(|dtype| variant.program(&case(dtype), &device).ok()) {
                assert_eq!(program.allowance > 0.0, has(Shortcut::LessAccurate), "{name}");
                let is_unbounded = algorithm.name == "lu" && program.promise.is_none();
                assert_eq!(is_unbounded, has(Shortcut::NoPivoting), "{name}");
                if !variant.shortcuts().is_empty() {
                    with_shortcuts.insert(name.clone());
                }
            }
        }
        for name in ["matmul/split", "matmul/coopmat-narrow", "lu/naive", "lu/blocked-split"] {
            assert!(with_shortcuts.contains(name), "{name} does not run: {with_shortcuts:?}");
        }
    }

    #[test]
    fn the_documentation_has_the_nominal_work_of_every_algorithm() {
        let text = include_str!("../../../docs/limits.md");
        let table = text.split("\n## ").find(|section| section.starts_with("Nominal work")).expect("a section");
        let names: BTreeSet<_> = table.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next()).collect();
        for algorithm in CATALOGUE.algorithms {
            let lists_algorithm = |name: &&str| name.split([' ', ',']).any(|word| word == algorithm.name);
            assert!(names.iter().any(lists_algorithm), "docs/limits.md has no nominal work of {}", algorithm.name);
        }
    }

    #[test]
    fn every_text_of_the_registry_says_something_to_a_person_and_ends_without_a_stop() {
        for (algorithm, variant) in all_variants() {
            let texts = [
                ("summary of the algorithm", algorithm.summary),
                ("`summary`", variant.summary),
                ("`source`", variant.source),
            ];
            let of_baseline = algorithm.baseline.map(|baseline| ("summary of the baseline", baseline.summary));
            for (what, text) in texts.into_iter().chain(of_baseline) {
                let subject = format!("{}/{}: its {what}, '{text}',", algorithm.name, variant.name);
                let is_long = text.chars().count() > 8;
                assert!(is_long, "{subject} is shorter than 9 letters: say what it is, or who it is from");
                assert!(!text.ends_with('.'), "{subject} ends with a full stop: leave it out");
            }
        }
    }

    #[test]
    fn every_tunable_variant_is_in_its_algorithm_s_table() {
        for algorithm in CATALOGUE.algorithms {
            for tunable in algorithm.tunable {
                assert!(algorithm.variant(tunable.variant).is_ok(), "{} {}", algorithm.name, tunable.variant);
            }
        }
    }
}
