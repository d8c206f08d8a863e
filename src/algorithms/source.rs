//! The posts and books that kernels were taken from.

use serde::Serialize;

/// A text that kernels were taken from.
#[derive(Serialize)]
pub(crate) struct Source {
    /// What a variant's [`source`](super::Variant::source) calls it.
    pub(crate) name: &'static str,
    /// Its title, author and year.
    pub(crate) title: &'static str,
    pub(crate) address: &'static str,
}

/// The texts that this project began with, in the order in which they appeared.
pub(crate) const SOURCES: [Source; 5] = [
    Source {
        name: "the matmul post",
        title: "Speeding up Matrix Multiplication on GPGPU, using SYCL DPC++ (Anjan Roy, 2021)",
        address: "https://itzmeanjan.in/pages/speeding-up-matrix-multiplication-on-gpgpu.html",
    },
    Source {
        name: "the LU post",
        title: "Improving Parallel LU Decomposition by ~20x (Anjan Roy, 2021)",
        address: "https://itzmeanjan.in/pages/improved-parallel-lu-decomposition.html",
    },
    Source {
        name: "the similarity post",
        title: "Optimizing Parallel Similarity Transformation (Anjan Roy, 2021)",
        address: "https://itzmeanjan.in/pages/optimizing-parallel-similarity-transformation.html",
    },
    Source {
        name: "the SYCL workshop",
        title: "Heterogeneous programming with SYCL, nd-range data-parallel kernels (ENCCS)",
        address: "https://enccs.github.io/sycl-workshop/",
    },
    Source {
        name: "Data Parallel C++",
        title: "second edition, chapter 9, Communication and Synchronization (James Reinders and others, 2023)",
        address: "https://doi.org/10.1007/978-1-4842-9691-2",
    },
];

/// The texts that one of `variants` names.
pub(crate) fn named_by(variants: &[super::Variant]) -> impl Iterator<Item = &'static Source> {
    SOURCES.iter().filter(|source| variants.iter().any(|variant| variant.source.contains(source.name)))
}
