//! The text of `list`.

use crate::algorithms::{Algorithm, Measures, Solution, Sweeps, Variant};
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::device::capability::{Requirement, requirement};
use std::fmt::Write;

/// Algorithms with their variants: what each shows, what it needs, where it comes from.
#[must_use]
pub(crate) fn text(algorithms: &[&Algorithm]) -> String {
    let mut out = String::new();
    for algorithm in algorithms {
        if !out.is_empty() {
            out.push('\n');
        }
        let inputs: Vec<_> = algorithm.inputs.iter().map(|input| input.name()).collect();
        let _ = writeln!(out, "{}  {}", algorithm.name, algorithm.summary);
        let _ = writeln!(out, "    work     {}", algorithm.work);
        let sizes = match algorithm.default_size {
            Sweeps { gpu, cpu } if gpu == cpu => format!("{gpu} by default"),
            Sweeps { gpu, cpu } => format!("{gpu} by default, on a software device {cpu}"),
        };
        let _ = writeln!(out, "    sizes    {sizes}");
        let _ = writeln!(out, "    inputs   {}", inputs.join(", "));
        if let Some(Solution { summary, work, .. }) = algorithm.solution {
            let _ = writeln!(out, "    --solve  {summary}\n             {work}");
        }
        for variant in algorithm.variants {
            let aliases = match variant.aliases {
                [] => String::new(),
                aliases => format!(" ({})", aliases.join(", ")),
            };
            let dtypes: Vec<_> = DType::ALL.into_iter().filter(|d| variant.supports(*d)).map(DType::name).collect();
            let _ = writeln!(out, "\n  {}{aliases}", variant.name);
            let _ = writeln!(out, "    shows    {}", variant.summary);
            let _ = writeln!(out, "    from     {}", variant.source);
            let only = if matches!(variant.measures, Measures::Solution) { ", with --solve alone" } else { "" };
            let _ = writeln!(out, "    dtypes   {}{only}", dtypes.join(", "));
            if algorithm.layouts.len() > 1 {
                let has = |layout: &&Layout| DType::ALL.iter().any(|d| variant.shaders(*d, **layout).is_some());
                let layouts: Vec<_> = algorithm.layouts.iter().filter(has).map(|layout| layout.name()).collect();
                let _ = writeln!(out, "    layouts  {}", layouts.join(", "));
            }
            let _ = writeln!(out, "    needs    {}", needs(variant));
        }
    }
    out
}

/// What the variant needs of a device, for any element type and for particular ones.
fn needs(variant: &Variant) -> String {
    let of = |dtype| -> Vec<&'static str> {
        let shaders = variant.shaders(dtype, Layout::default()).unwrap_or_default();
        let mut names = vec![];
        for name in shaders.iter().flat_map(|shader| shader.interface.capabilities.iter()) {
            let need = match requirement(name) {
                Some(Requirement::Feature(feature)) => feature.name(),
                Some(Requirement::Subgroup("basic") | Requirement::Nothing) | None => continue,
                Some(Requirement::Subgroup(operation)) => operation,
            };
            if !names.contains(&need) {
                names.push(need);
            }
        }
        names
    };
    let dtypes: Vec<_> = DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)).collect();
    let common: Vec<_> =
        of(dtypes[0]).into_iter().filter(|need| dtypes.iter().all(|d| of(*d).contains(need))).collect();
    let mut text = common.join(", ");
    for dtype in dtypes {
        let extra: Vec<_> = of(dtype).into_iter().filter(|need| !common.contains(need)).collect();
        if !extra.is_empty() {
            let _ = write!(text, "; {dtype}: {}", extra.join(", "));
        }
    }
    text
}
