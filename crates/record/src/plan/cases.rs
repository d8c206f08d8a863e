//! Cases of an algorithm: the product of the selected values on each axis, and case ids.

use super::axes::AXES;
use super::choose::{self, Choosing, Variants, unique};
use super::options::Selection;
use super::{CaseGroup, DeviceClass, HOST, Purpose, axes};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{Algorithm, CaseSpec, Measures, Problem, Variant};
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
    purpose: Purpose,
    goals: Vec<Goal>,
    /// Whether the goal and the element types were named.
    names: [bool; 2],
    /// Whether `verify` chooses the inputs because none was named: other inputs than the default are then only for
    /// cheap problems.
    chooses_inputs: bool,
    inputs: Vec<Input>,
    /// Combinations of options, as the inner lists that follow one another at each size.
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
        if let (Some(solver), [Goal::Result]) = (find_solver(&variants), &goals[..]) {
            return Err(format!(
                "variant '{}' of {} solves systems of equations; add --solve",
                solver.name, algorithm.name
            ));
        }
        // `auto` may choose any variant, so it supports every type that one of them does.
        let all_variants: Vec<_> = algorithm.variants.iter().collect();
        let candidates = if variants.auto { &all_variants } else { &variants.all };
        let choosing = Choosing { algorithm, purpose, variants: candidates, goals };
        let outer = vary(&choosing, selection, algorithm.options(DType::ALL[0]), false)?;
        let inputs = unique(outer.iter().map(|options| Ok(options.input)), |a, b| a == b)?;
        let mut options = vec![];
        for outer in outer {
            options.push(vary(&choosing, selection, outer, true)?);
        }
        Ok(Self {
            algorithm,
            options,
            inputs,
            sizes: choose::sizes(algorithm, &selection.size, purpose)?,
            any_layout: !selection.axes.has(&axes::LAYOUT),
            purpose,
            goals: choosing.goals,
            names: [&axes::GOAL, &axes::DTYPE].map(|axis| selection.axes.has(axis)),
            chooses_inputs: purpose == Purpose::Verify && !selection.axes.has(&axes::INPUT),
            on_host: selection.device.iter().any(|device| device == HOST),
            variants,
        })
    }

    /// Returns one group per problem, with its variants.
    pub(super) fn groups(&self) -> Result<Vec<CaseGroup>, String> {
        let mut groups = vec![];
        for options_at_size in &self.options {
            for (size, on) in &self.sizes {
                for options in options_at_size {
                    let spec = CaseSpec { size: *size, options: *options, tile: None };
                    groups.extend(self.group(spec, *on)?);
                }
            }
        }
        Ok(groups)
    }

    /// Returns the group of a problem; `None` if no variant supports it, because some have a type only for another goal.
    fn group(&self, spec: CaseSpec, on: DeviceClass) -> Result<Option<CaseGroup>, String> {
        let Self { algorithm, on_host, .. } = *self;
        let variants = self.variants_for(&spec);
        let is_reached = algorithm.variants.iter().any(|variant| variant.reaches(spec.goal, spec.dtype));
        let auto = self.variants.auto && is_reached && self.wants_input(&spec, None);
        if variants.is_empty() && !auto {
            return Ok(None);
        }
        if let Err(reason) = (algorithm.problem)(&spec) {
            return Err(format!("{} cannot have size {}: {reason}", algorithm.name, spec.size));
        }
        Ok(Some(CaseGroup { algorithm: algorithm.into(), spec, variants, on, auto, on_host, turns: None }))
    }

    /// Returns the variants for a problem: those that support its goal, type and layout. Explicitly named ones are kept
    /// for all that was named, and report what they lack.
    fn variants_for(&self, spec: &CaseSpec) -> Vec<Variant> {
        // A layout that was not named leaves out the variants without it, even named ones.
        let is_unasked_layout = self.any_layout && spec.layout.unusual().is_some();
        let mut variants = vec![];
        for variant in &self.variants.all {
            let is_named = self.variants.named.iter().any(|named| std::ptr::eq(*named, *variant));
            let reaches = variant.reaches(spec.goal, spec.dtype) || is_named && self.asks_for_lacking(variant, spec);
            let has_layout = is_named && !is_unasked_layout || variant.shaders(spec.dtype, spec.layout).is_some();
            if reaches && has_layout && self.wants_input(spec, Some(variant)) {
                variants.push((*variant).clone());
            }
        }
        variants
    }

    /// Whether the goal or type of `spec`, which the variant does not reach, was asked of it. Where `verify` chooses them, a
    /// variant is only for those that it has.
    fn asks_for_lacking(&self, variant: &Variant, spec: &CaseSpec) -> bool {
        let [names_goal, names_dtype] = self.names;
        match self.purpose {
            Purpose::Bench => true,
            Purpose::Verify if names_dtype => {
                let is_solved = self.variants.all.iter().any(|other| other.reaches(spec.goal, spec.dtype));
                is_solved && !self.goals.iter().any(|goal| variant.reaches(*goal, spec.dtype))
            }
            Purpose::Verify => names_goal && !DType::ALL.iter().any(|dtype| variant.reaches(spec.goal, *dtype)),
        }
    }

    /// Whether a variant gets the input of `spec`; `None` stands for `auto`. Outside `verify`, and if the user named the
    /// inputs, every variant gets all of them. Otherwise it gets the first of its inputs, and the others if the problem
    /// is cheap; for a system of equations, its inputs are those that it solves accurately.
    fn wants_input(&self, spec: &CaseSpec, variant: Option<&Variant>) -> bool {
        if !self.chooses_inputs {
            return true;
        }
        let inputs = match (&self.algorithm.solution, variant) {
            (Some(solution), Some(variant)) if spec.goal == Goal::Solution => {
                (solution.inputs)(&variant.name, spec.dtype)
            }
            _ => &self.inputs[..],
        };
        if inputs.first() == Some(&spec.input) {
            return true;
        }
        let is_cheap = |problem: &dyn Problem| problem.work().operations <= MAX_EXTRA_INPUT_WORK;
        inputs.contains(&spec.input) && (self.algorithm.problem)(spec).is_ok_and(|problem| is_cheap(problem.as_ref()))
    }
}

/// Returns a variant that only solves systems of equations, if one was named or all selected ones do.
fn find_solver(variants: &Variants) -> Option<&'static Variant> {
    let solves = |variant: &Variant| matches!(variant.measures, Measures::Solution);
    let named_solver = variants.named.iter().copied().find(|variant| solves(variant));
    if named_solver.is_some() || !variants.all.iter().all(|variant| solves(variant)) {
        return named_solver;
    }
    variants.all.first().copied()
}

/// Returns `base` with each combination of selected values, on the axes within a size or on the other ones.
fn vary(
    choosing: &Choosing<'_>,
    selection: &Selection,
    base: CaseOptions,
    within_size: bool,
) -> Result<Vec<CaseOptions>, String> {
    let mut cases = vec![base];
    for axis in AXES.iter().filter(|axis| axis.within_size == within_size) {
        let mut varied = vec![];
        for case in cases {
            varied.extend((axis.choose)(choosing, selection.axes.of(axis), case)?);
        }
        cases = varied;
    }
    Ok(cases)
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
