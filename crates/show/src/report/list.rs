//! Text of `list`.

use super::document::Document;
use crate::algorithms::{Algorithm, Measures, Solution, Sweeps, Variant};
use crate::basis::alike::distinct;
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::case::Shortcut;
use crate::device::capability::{Requirement, requirement};
use serde::Serialize;
use std::fmt::Write;

/// Publication that kernels are taken from.
#[derive(Serialize)]
struct Publication {
    /// Name that a variant's [`source`](Variant::source) uses.
    name: &'static str,
    /// Title, author and year.
    title: &'static str,
    address: &'static str,
}

/// Algorithms with a study of their variants.
const STUDIED: [&str; 3] = ["matmul", "lu", "eigen"];

/// Publications that the project began with, in order of appearance.
const PUBLICATIONS: [Publication; 5] = [
    Publication {
        name: "the matmul post",
        title: "Speeding up Matrix Multiplication on GPGPU, using SYCL DPC++ (Anjan Roy, 2021)",
        address: "https://itzmeanjan.in/pages/speeding-up-matrix-multiplication-on-gpgpu.html",
    },
    Publication {
        name: "the LU post",
        title: "Improving Parallel LU Decomposition by ~20x (Anjan Roy, 2021)",
        address: "https://itzmeanjan.in/pages/improved-parallel-lu-decomposition.html",
    },
    Publication {
        name: "the similarity post",
        title: "Optimizing Parallel Similarity Transformation (Anjan Roy, 2021)",
        address: "https://itzmeanjan.in/pages/optimizing-parallel-similarity-transformation.html",
    },
    Publication {
        name: "the SYCL workshop",
        title: "Heterogeneous programming with SYCL, nd-range data-parallel kernels (ENCCS)",
        address: "https://enccs.github.io/sycl-workshop/",
    },
    Publication {
        name: "Data Parallel C++",
        title: "second edition, chapter 9, Communication and Synchronization (James Reinders and others, 2023)",
        address: "https://doi.org/10.1007/978-1-4842-9691-2",
    },
];

/// Returns the publications that one of `variants` names.
fn publications_of(variants: &[Variant]) -> impl Iterator<Item = &'static Publication> {
    PUBLICATIONS.iter().filter(|source| variants.iter().any(|variant| variant.source.contains(source.name)))
}

/// Whether an algorithm serves to find a limit of a device.
pub(super) fn is_limit(algorithm: &Algorithm) -> bool {
    algorithm.variants.iter().all(|variant| matches!(variant.measures, Measures::Limit { .. }))
}

/// Prints the algorithms with the names of their variants.
pub fn short(algorithms: &[&Algorithm], width: usize) -> String {
    let mut document = Document::default();
    let first_limit = algorithms.iter().position(|algorithm| is_limit(algorithm));
    for (at, algorithm) in algorithms.iter().enumerate() {
        if first_limit == Some(at) {
            document.verbatim("\ndevice limits, which `gpukern peak` measures:\n\n");
        }
        let names: Vec<_> = algorithm.variants.iter().map(|variant| &*variant.name).collect();
        document.hanging(4, format!("{}  {}", algorithm.name, algorithm.summary));
        document.hanging(4, format!("    {}", names.join(", ")));
    }
    document.verbatim("\n`gpukern list ALGORITHM` describes its variants and what they need.\n");
    document.terminal(width)
}

/// Algorithm in `list --json`.
#[derive(Serialize)]
pub struct ListedAlgorithm {
    name: &'static str,
    summary: &'static str,
    work: &'static str,
    /// Default sizes.
    sizes_on_gpu: &'static str,
    sizes_on_cpu: &'static str,
    inputs: Vec<&'static str>,
    layouts: Vec<&'static str>,
    /// Whether `--solve` continues to the solution of a system.
    solves: bool,
    variants: Vec<ListedVariant>,
    sources: Vec<&'static Publication>,
}

/// Variant in `list --json`.
#[derive(Serialize)]
struct ListedVariant {
    name: &'static str,
    aliases: &'static [&'static str],
    shows: &'static str,
    from: &'static str,
    dtypes: Vec<&'static str>,
    layouts: Vec<&'static str>,
    shortcuts: &'static [Shortcut],
    needs: String,
}

impl ListedAlgorithm {
    pub fn new(algorithm: &'static Algorithm) -> Self {
        let variant = |variant: &'static Variant| ListedVariant {
            name: &variant.name,
            aliases: variant.aliases,
            shows: variant.summary,
            from: variant.source,
            dtypes: dtypes(variant),
            layouts: layouts(algorithm, variant),
            shortcuts: variant.shortcuts(),
            needs: needs(variant),
        };
        Self {
            name: &algorithm.name,
            summary: algorithm.summary,
            work: algorithm.work,
            sizes_on_gpu: algorithm.default_size.gpu,
            sizes_on_cpu: algorithm.default_size.cpu,
            inputs: algorithm.inputs.iter().map(|input| input.name()).collect(),
            layouts: algorithm.layouts.iter().map(|layout| layout.name()).collect(),
            solves: algorithm.solution.is_some(),
            variants: algorithm.variants.iter().map(variant).collect(),
            sources: publications_of(&algorithm.variants).collect(),
        }
    }
}

fn dtypes(variant: &Variant) -> Vec<&'static str> {
    DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)).map(DType::name).collect()
}

fn layouts(algorithm: &Algorithm, variant: &Variant) -> Vec<&'static str> {
    let has = |layout: &&Layout| DType::ALL.iter().any(|dtype| variant.shaders(*dtype, **layout).is_some());
    algorithm.layouts.iter().filter(has).map(|layout| layout.name()).collect()
}

/// Prints an algorithm with its variants: purpose, requirements and sources.
pub fn long(algorithm: &Algorithm, width: usize) -> String {
    let mut document = Document::default();
    let mut line = |text: String| document.hanging(13, text);
    let inputs: Vec<_> = algorithm.inputs.iter().map(|input| input.name()).collect();
    line(format!("{}  {}", algorithm.name, algorithm.summary));
    line(format!("    work     {}", algorithm.work));
    line(match algorithm.default_size {
        Sweeps { gpu, cpu } if gpu == cpu => format!("    sizes    {gpu} by default"),
        Sweeps { gpu, cpu } => format!("    sizes    {gpu} by default, {cpu} on a software device"),
    });
    line(format!("    inputs   {}", inputs.join(", ")));
    if let Some(Solution { summary, work, .. }) = algorithm.solution {
        line(format!("    --solve  {summary}"));
        line(format!("             {work}"));
    }
    for variant in algorithm.variants.iter() {
        let aliases = match variant.aliases {
            [] => String::new(),
            aliases => format!(" ({})", aliases.join(", ")),
        };
        let only = if matches!(variant.measures, Measures::Solution) { ", only with --solve" } else { "" };
        line(String::new());
        line(format!("  {}{aliases}", variant.name));
        line(format!("    shows    {}", variant.summary));
        line(format!("    from     {}", variant.source));
        line(format!("    dtypes   {}{only}", dtypes(variant).join(", ")));
        for shortcut in variant.shortcuts() {
            line(format!("    caveat   {}: {}", shortcut.name(), shortcut.meaning()));
        }
        if algorithm.layouts.len() > 1 {
            line(format!("    layouts  {}", layouts(algorithm, variant).join(", ")));
        }
        line(format!("    needs    {}", needs(variant)));
    }
    if STUDIED.contains(&&*algorithm.name) {
        line(String::new());
        let name = &algorithm.name;
        line(format!("  docs/studies/{name}.md says why the faster ones are faster; glsl/{name} has their source"));
    }
    // Addresses are too long to be indented further.
    for (at, Publication { name, title, address }) in publications_of(&algorithm.variants).enumerate() {
        document.verbatim(if at == 0 { "\nsources\n" } else { "\n" });
        document.line(format!("  {name}: {title}"));
        document.verbatim(format!("  {address}\n"));
    }
    document.terminal(width)
}

/// Lists a variant's requirements of a device, for any element type and for particular ones.
fn needs(variant: &Variant) -> String {
    let needs_of = |dtype| -> Vec<&'static str> {
        let shaders = variant.shaders(dtype, Layout::default()).unwrap_or_default();
        let declared = shaders.iter().flat_map(|shader| shader.interface.capabilities.iter());
        let declared = declared.filter_map(|name| match requirement(name)? {
            // With several alternatives, the instructions determine the feature.
            Requirement::Features(any) => (any.len() == 1).then(|| any[0].name()),
            Requirement::Subgroup("basic") | Requirement::Nothing | Requirement::Impossible(_) => None,
            Requirement::Subgroup(operation) => Some(operation),
        });
        let used = shaders.iter().flat_map(|shader| shader.interface.features.iter().map(|name| &**name));
        distinct(declared.chain(used))
    };
    let dtypes: Vec<_> = DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)).collect();
    let common: Vec<_> =
        needs_of(dtypes[0]).into_iter().filter(|need| dtypes.iter().all(|d| needs_of(*d).contains(need))).collect();
    let mut text = common.join(", ");
    for dtype in dtypes {
        let extra: Vec<_> = needs_of(dtype).into_iter().filter(|need| !common.contains(need)).collect();
        if !extra.is_empty() {
            let _ = write!(text, "; {dtype}: {}", extra.join(", "));
        }
    }
    text
}
