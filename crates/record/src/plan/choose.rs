//! Resolves typed names, sizes and values. Without a text, the default depends on the purpose.

use super::{DeviceClass, Purpose};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{AUTO, Algorithm, Sweeps, Variant};
use crate::basis::alike::distinct;
use crate::basis::dtype::DType;
use crate::basis::error::unknown;
use crate::basis::input_file;
use crate::basis::layout::Layout;
use crate::basis::pattern::{is_pattern, matches, no_match};
use crate::basis::printable::{Shown, brief};
use crate::basis::size::{Size, sweep};
use crate::case::Goal;
use crate::case::input::Input;
use std::path::Path;
use std::str::FromStr;

/// Context in which axis values are chosen.
pub struct Choosing<'a> {
    pub algorithm: &'static Algorithm,
    pub purpose: Purpose,
    /// Variants, at least one of which must support each value.
    pub variants: &'a [&'static Variant],
    /// Goals requested from the algorithm.
    pub goals: Vec<Goal>,
}

/// Resolves names of algorithms.
pub(super) fn algorithms(
    catalogue: &Catalogue,
    named: &[String],
    purpose: Purpose,
) -> Result<Vec<&'static Algorithm>, String> {
    if named.is_empty() {
        return match purpose {
            Purpose::Verify => Ok(catalogue.algorithms.to_vec()),
            Purpose::Bench => Err(format!("no algorithm given; name one of: {}", catalogue.names(|_| true).join(", "))),
        };
    }
    unique(named.iter().map(|name| catalogue.find(name)), |a, b| std::ptr::eq(*a, *b))
}

/// Keeps the `algorithms` with a variant that one of `names` matches; refuses a pattern without any match.
pub(super) fn with_variants(
    mut algorithms: Vec<&'static Algorithm>,
    names: &[String],
) -> Result<Vec<&'static Algorithm>, String> {
    // A name that no algorithm has is refused for each later, with what it may have meant.
    let all = algorithms.clone();
    let may_have = |algorithm: &Algorithm, name: &str| {
        has_variant(algorithm, name) || !is_pattern(name) && !all.iter().any(|other| has_variant(other, name))
    };
    for name in names {
        if !algorithms.iter().any(|algorithm| may_have(algorithm, name)) {
            let owners: Vec<_> = algorithms.iter().map(|algorithm| &*algorithm.name).collect();
            let variants = algorithms.iter().flat_map(|algorithm| algorithm.variants.iter());
            let variant_names = distinct(variants.map(|variant| &*variant.name));
            return Err(no_match(name, &format!("variant of {}", owners.join(", ")), &variant_names));
        }
    }
    algorithms.retain(|algorithm| names.is_empty() || names.iter().any(|name| may_have(algorithm, name)));
    Ok(algorithms)
}

fn has_variant(algorithm: &Algorithm, name: &str) -> bool {
    match name {
        "all" | AUTO => true,
        name if is_pattern(name) => algorithm.variants.iter().any(|variant| matches(name, &variant.name)),
        name => algorithm.variant(name).is_ok(),
    }
}

/// Returns the `names` for one of several algorithms: without those that only others of them have.
pub(super) fn names_for(algorithm: &Algorithm, algorithms: &[&'static Algorithm], names: &[String]) -> Vec<String> {
    let others_have = |name: &String| algorithms.iter().any(|other| has_variant(other, name));
    names.iter().filter(|name| has_variant(algorithm, name) || !others_have(name)).cloned().collect()
}

/// Selected variants.
#[derive(Default)]
pub(super) struct Variants {
    pub(super) all: Vec<&'static Variant>,
    /// Variants named explicitly, which are kept even if they lack an element type, and report that.
    pub(super) named: Vec<&'static Variant>,
    /// Whether `auto` is among the names.
    pub(super) auto: bool,
}

/// Resolves names and patterns of variants.
pub(super) fn variants(
    catalogue: &Catalogue,
    algorithm: &'static Algorithm,
    names: &[String],
) -> Result<Variants, String> {
    if names.is_empty() || names == ["all"] {
        return Ok(Variants { all: algorithm.variants.iter().collect(), ..Variants::default() });
    }
    if names.iter().any(|name| name == "all") {
        return Err(format!("variants '{}' mix 'all' with names; write either", names.join(",")));
    }
    let auto = names.iter().any(|name| name == AUTO);
    if auto && algorithm.candidates.is_none() {
        let available: Vec<_> = algorithm.variants.iter().map(|variant| &*variant.name).collect();
        return Err(format!(
            "variant 'auto' has no rule for {}; name one of: {}, all",
            algorithm.name,
            available.join(", ")
        ));
    }
    let is_same_variant = |a: &&Variant, b: &&Variant| std::ptr::eq(*a, *b);
    let plain_names = names.iter().filter(|name| *name != AUTO && !is_pattern(name));
    let named = unique(plain_names.map(|name| catalogue.variant(algorithm, name)), is_same_variant)?;
    let is_matched =
        |variant: &&Variant| names.iter().any(|name| is_pattern(name) && *name != AUTO && matches(name, &variant.name));
    let matching = algorithm.variants.iter().filter(is_matched);
    let all = unique(named.iter().copied().chain(matching).map(Ok), is_same_variant)?;
    Ok(Variants { all, named, auto })
}

/// Returns the typed element types or, without any, the first that a variant supports, or all for verification.
pub(super) fn dtypes(choosing: &Choosing<'_>, names: &[String]) -> Result<Vec<DType>, String> {
    let Choosing { algorithm, purpose, variants, goals } = choosing;
    let is_supported =
        |dtype: &DType| goals.iter().any(|goal| variants.iter().any(|variant| variant.reaches(*goal, *dtype)));
    let supported: Vec<_> = DType::ALL.into_iter().filter(is_supported).collect();
    if names.is_empty() {
        return Ok(match purpose {
            Purpose::Bench => supported[..1].to_vec(),
            Purpose::Verify => supported,
        });
    }
    let available: Vec<_> = supported.iter().map(|dtype| dtype.name()).collect();
    // A correctly spelled but unsupported type must not be "corrected" to a different one.
    let parse = |name: &String| {
        let dtype = DType::OF_BUFFERS.into_iter().find(|dtype| dtype.name() == name);
        dtype.ok_or_else(|| DType::unknown("dtype", name, &format!(" for {}", algorithm.name), &available))
    };
    let dtypes = unique(names.iter().map(parse), |a, b| a == b)?;
    if let Some(dtype) = dtypes.iter().find(|dtype| !supported.contains(dtype)) {
        let available = available.join(", ");
        return Err(format!("no chosen variant of {} has dtype {dtype}; available: {available}", algorithm.name));
    }
    Ok(dtypes)
}

/// Returns the goals: solutions with `--solve`, or else results; verification includes both.
pub(super) fn goals(
    catalogue: &Catalogue,
    algorithm: &Algorithm,
    solve: bool,
    purpose: Purpose,
) -> Result<Vec<Goal>, String> {
    if solve && algorithm.solution.is_none() {
        return Err(format!(
            "{} has no systems of equations to solve; leave out --solve, which is for: {}",
            algorithm.name,
            catalogue.names(|other| other.solution.is_some()).join(", ")
        ));
    }
    Ok(match purpose {
        _ if solve => vec![Goal::Solution],
        Purpose::Verify => algorithm.goals().to_vec(),
        Purpose::Bench => vec![Goal::Result],
    })
}

/// Returns the typed layouts or, without any, the algorithm's first, or all for verification.
pub(super) fn layouts(choosing: &Choosing<'_>, names: &[String]) -> Result<Vec<Layout>, String> {
    let Choosing { algorithm, purpose, .. } = choosing;
    if names.is_empty() {
        return Ok(match purpose {
            Purpose::Bench => algorithm.layouts[..1].to_vec(),
            Purpose::Verify => algorithm.layouts.to_vec(),
        });
    }
    let layouts = unique(names.iter().map(|name| name.parse::<Layout>()), |a, b| a == b)?;
    if let Some(layout) = layouts.iter().find(|layout| !algorithm.layouts.contains(layout)) {
        let available: Vec<_> = algorithm.layouts.iter().map(|layout| layout.name()).collect();
        return Err(format!("{} has no layout {layout}; available: {}", algorithm.name, available.join(", ")));
    }
    Ok(layouts)
}

/// Returns the typed input or, without one, the algorithm's first, or all with an answer for verification.
pub(super) fn inputs(choosing: &Choosing<'_>, names: &[String]) -> Result<Vec<Input>, String> {
    let Choosing { algorithm, purpose, .. } = choosing;
    let Some(name) = names.first() else {
        return Ok(match purpose {
            Purpose::Bench => algorithm.inputs[..1].to_vec(),
            // The other inputs have no answer; they only demonstrate how failures are reported.
            Purpose::Verify => algorithm.inputs.iter().copied().filter(|input| input.has_answer()).collect(),
        });
    };
    let input: Input = name.parse()?;
    if !algorithm.inputs.contains(&input) {
        let available: Vec<_> = algorithm.inputs.iter().map(|input| input.name()).collect();
        return Err(format!("{} has no input '{input}'; available: {}", algorithm.name, available.join(", ")));
    }
    Ok(vec![input])
}

pub(super) fn subgroup_size(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(size) if size.is_power_of_two() && size <= 128 => Ok(size),
        _ => Err(format!("sub-group size '{text}' is not a power of two up to 128; `gpukern devices` lists the range")),
    }
}

pub(super) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("malformed number '{}'; write one such as 7", brief(text)))
}

/// Parses a goal by its name in records.
pub(super) fn goal(name: &str) -> Result<Goal, String> {
    let goals = [Goal::Result, Goal::Solution];
    let goal = goals.into_iter().find(|goal| goal.name() == name);
    goal.ok_or_else(|| unknown("goal", name, "", &goals.map(Goal::name)))
}

pub(super) fn eps(texts: &[String], default: f64) -> Result<f64, String> {
    let eps = match texts.first() {
        Some(text) => number(text)?,
        None => default,
    };
    if !(eps.is_finite() && eps > 0.0) {
        return Err(format!("eps {eps} is not a positive number; write --eps 1e-4"));
    }
    if eps >= 1.0 {
        return Err(format!(
            "eps {eps:e} asks for no precision: it may be met before the first round; write --eps 1e-4"
        ));
    }
    Ok(eps)
}

pub(super) fn max_rounds(texts: &[String], default: u32) -> Result<u32, String> {
    let Some(text) = texts.first() else { return Ok(default) };
    match number(text)? {
        0 => Err("max-rounds 0 leaves no round to run; the smallest is 1".into()),
        rounds => Ok(rounds),
    }
}

/// Returns the typed sizes, or the default ones for GPUs and CPUs, with the devices that they are for.
pub(super) fn sizes(
    algorithm: &Algorithm,
    texts: &[String],
    purpose: Purpose,
) -> Result<Vec<(Size, DeviceClass)>, String> {
    let sizes_for =
        |text: &str, on| -> Result<Vec<_>, String> { Ok(sweep(text)?.into_iter().map(|size| (size, on)).collect()) };
    if !texts.is_empty() {
        let mut expanded = vec![];
        for text in texts {
            match text.strip_prefix('@') {
                Some(file) => expanded.extend(sizes_in(Path::new(file))?),
                None if Path::new(text).is_file() && sweep(text).is_err() => {
                    return Err(format!("'{0}' is a file; write @{0} for the sizes in it", brief(text)));
                }
                None => expanded.push(text.clone()),
            }
        }
        return sizes_for(&expanded.join(","), DeviceClass::Any);
    }
    let Sweeps { gpu, cpu } = match purpose {
        Purpose::Verify => algorithm.verify_size,
        Purpose::Bench => algorithm.default_size,
    };
    if gpu == cpu {
        return sizes_for(gpu, DeviceClass::Any);
    }
    Ok([sizes_for(gpu, DeviceClass::Gpu)?, sizes_for(cpu, DeviceClass::Cpu)?].concat())
}

/// Reads the sizes in a file, one or more per line; `#` starts a comment.
///
/// # Errors
/// The file cannot be read, or has no sizes.
pub fn sizes_in(path: &Path) -> Result<Vec<String>, String> {
    let name = path.shown();
    let text = input_file::read_text(path)
        .map_err(|e| format!("cannot read sizes from '{name}': {e}; name a file with one per line"))?;
    let mut sizes = vec![];
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let numbers: Vec<_> = line.split(',').map(str::trim).collect();
        let is_shape = numbers.len() == 3 && numbers.iter().all(|text| text.parse::<u64>().is_ok());
        let checked = if is_shape {
            Err(format!("'{line}' may be one size or three; write {}, or one per line", numbers.join("x")))
        } else {
            sweep(line).map(drop)
        };
        checked.map_err(|error| format!("{name}, line {}: {error}", index + 1))?;
        sizes.push(line.to_string());
    }
    if sizes.is_empty() { Err(format!("there are no sizes in '{name}'; write one per line")) } else { Ok(sizes) }
}

/// Returns the items without repetitions, or the first error.
pub(super) fn unique<T>(
    items: impl Iterator<Item = Result<T, String>>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Result<Vec<T>, String> {
    let mut unique: Vec<T> = vec![];
    for item in items {
        let item = item?;
        if !unique.iter().any(|earlier| is_same(earlier, &item)) {
            unique.push(item);
        }
    }
    Ok(unique)
}
