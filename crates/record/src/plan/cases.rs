//! Cases of an algorithm: the product of the selected values on each axis, and case ids.

use super::axes::AXES;
use super::choose::{self, Choosing, Variants, unique};
use super::options::Selection;
use super::{CaseGroup, DeviceClass, HOST, Purpose, axes};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{Algorithm, CaseSpec, Measures, Variant};
use crate::basis::dtype::DType;
use crate::basis::handle::Handle;
use crate::basis::size::Size;
use crate::case::input::Input;
use crate::case::{CaseOptions, Goal};
use std::fmt;

/// Nominal work up to which `verify` uses every kind of input, not only the default.
const MAX_EXTRA_INPUT_WORK: u64 = 100_000_000;

/// Selected values for one algorithm, whose product is its cases.
pub(super) struct Cases {
    pub(super) algorithm: &'static Algorithm,
    variants: Variants,
    /// Whether no layout was named: other layouts than the default are then only for variants that support them.
    any_layout: bool,
    /// Whether no input was named: other inputs than the default are then only for cheap problems.
    any_input: bool,
    inputs: Vec<Input>,
    /// Options by axis: for each outer combination, the options that follow one another at each size.
    options: Vec<Vec<CaseOptions>>,
    sizes: Vec<(Size, DeviceClass)>,
    on_host: bool,
}

impl Cases {
    /// Builds the cases of `algorithm`.
    pub(super) fn new(
        catalogue: &Catalogue,
        algorithm: &'static Algorithm,
        selection: &Selection,
        purpose: Purpose,
    ) -> Result<Self, String> {
        let goals = choose::goals(catalogue, algorithm, selection.axes.has(&axes::GOAL), purpose)?;
        let variants = choose::variants(catalogue, algorithm, &selection.variant)?;
        let solves = |variant: &Variant| matches!(variant.measures, Measures::Solution);
        let all_solve = variants.all.iter().all(|variant| solves(variant));
        let solver = variants.named.iter().find(|variant| solves(variant));
        let solver = solver.or_else(|| variants.all.first().filter(|_| all_solve));
        if let (Some(variant), [Goal::Result]) = (solver, &goals[..]) {
            return Err(format!(
                "variant '{}' of {} solves systems of equations; add --solve",
                variant.name, algorithm.name
            ));
        }
        // `auto` may choose any variant, so it supports every type that one of them does.
        let all: Vec<_> = algorithm.variants.iter().collect();
        let candidates = if variants.auto { &all } else { &variants.all };
        let choosing = Choosing { algorithm, purpose, variants: candidates, goals };
        let vary = |bases: Vec<CaseOptions>, within_size: bool| {
            AXES.iter().filter(|axis| axis.within_size == within_size).try_fold(bases, |bases, axis| {
                let values = selection.axes.of(axis);
                let varied = bases.into_iter().map(|base| (axis.choose)(&choosing, values, base));
                Ok::<_, String>(varied.collect::<Result<Vec<_>, _>>()?.concat())
            })
        };
        let outer = vary(vec![algorithm.options(DType::ALL[0])], false)?;
        let inputs = unique(outer.iter().map(|options| Ok(options.input)), |a, b| a == b)?;
        Ok(Self {
            algorithm,
            options: outer.into_iter().map(|base| vary(vec![base], true)).collect::<Result<_, _>>()?,
            inputs,
            sizes: choose::sizes(algorithm, &selection.size, purpose)?,
            any_layout: !selection.axes.has(&axes::LAYOUT),
            any_input: purpose == Purpose::Verify && !selection.axes.has(&axes::INPUT),
            on_host: selection.device.iter().any(|device| device == HOST),
            variants,
        })
    }

    /// Iterates over the problems, each with the devices that it is for.
    fn problems(&self) -> impl Iterator<Item = (CaseSpec, DeviceClass)> {
        let sized = self.options.iter().flat_map(|options| self.sizes.iter().map(move |size| (options, *size)));
        sized.flat_map(|(options, (size, on))| {
            options.iter().map(move |options| (CaseSpec { size, options: *options, tile: None }, on))
        })
    }

    /// Returns one group per problem, with its variants.
    pub(super) fn groups(&self) -> Result<Vec<CaseGroup>, String> {
        let mut groups = vec![];
        for (spec, on) in self.problems() {
            let variants = self.variants_for(&spec);
            // Skip problems that no variant supports: some variants have the type only for a different goal.
            let auto = self.variants.auto;
            if auto && self.asks(&spec, None) || !variants.is_empty() {
                self.check_size(&spec)?;
                let Self { algorithm, on_host, .. } = *self;
                groups.push(CaseGroup { algorithm: algorithm.into(), spec, variants, on, auto, on_host });
            }
        }
        Ok(groups)
    }

    /// Returns the variants for a problem: those that support its goal, type and layout. Explicitly named ones are kept
    /// in any case, and report what they lack.
    fn variants_for(&self, spec: &CaseSpec) -> Vec<Variant> {
        // Nobody asked for this layout in particular, so a variant without it is left out even if it was named.
        let is_unasked_layout = self.any_layout && spec.layout.unusual().is_some();
        let mut variants = vec![];
        for variant in &self.variants.all {
            let is_named = self.variants.named.iter().any(|named| std::ptr::eq(*named, *variant));
            let reaches = is_named || variant.reaches(spec.goal, spec.dtype);
            let has_layout = is_named && !is_unasked_layout || variant.shaders(spec.dtype, spec.layout).is_some();
            if reaches && has_layout && self.asks(spec, Some(variant)) {
                variants.push((*variant).clone());
            }
        }
        variants
    }

    /// Whether a problem's input is requested for a variant. If no input was named: the default, and others if cheap;
    /// for systems of equations, only those that the variant solves accurately.
    fn asks(&self, spec: &CaseSpec, variant: Option<&Variant>) -> bool {
        let asked = match (&self.algorithm.solution, variant) {
            _ if !self.any_input => return true,
            (Some(solution), Some(variant)) if spec.goal == Goal::Solution => {
                (solution.inputs)(&variant.name, spec.dtype)
            }
            _ => &self.inputs[..],
        };
        let problem = || (self.algorithm.problem)(spec);
        let is_cheap = || problem().is_ok_and(|problem| problem.work().operations <= MAX_EXTRA_INPUT_WORK);
        asked.first() == Some(&spec.input) || asked.contains(&spec.input) && is_cheap()
    }

    /// Checks that the problem can have this size.
    fn check_size(&self, spec: &CaseSpec) -> Result<(), String> {
        let refuse = |reason| format!("{} cannot have size {}: {reason}", self.algorithm.name, spec.size);
        (self.algorithm.problem)(spec).map(|_| ()).map_err(refuse)
    }
}

/// Stable name of a case: the key that joins the records of several runs. It is never parsed: code that needs
/// properties of a case reads its fields.
#[derive(Clone)]
pub struct CaseId {
    pub algorithm: Handle<Algorithm>,
    /// Variant, or baseline on the host's cores.
    pub variant: String,
    /// Size in full: `1024x1024x1024`.
    pub extents: String,
    /// All other options.
    pub options: CaseOptions,
}

/// Compares the printed ids: cases that differ only in their seed are equal.
impl PartialEq for CaseId {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for CaseId {
    /// Formats as `matmul/subgroup/f32/1024x1024x1024`, followed by options that differ from the defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, variant, extents, options } = self;
        let more = axes::id(options, &algorithm.options(options.dtype));
        f.pad(&format!("{}/{variant}/{}/{extents}{more}", algorithm.name, options.dtype))
    }
}
