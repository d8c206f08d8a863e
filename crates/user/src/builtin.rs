//! Built-in algorithm that solves the same problem as a user's kernels: its oracle is their reference, and its variants
//! compete with them on the same buffers.

use super::oracle::ReferenceData;
use super::resolved::{Builtin, ResolvedBuffer, ResolvedPoint, size_of};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{Algorithm, CaseSpec, Oracle, Problem, Variant};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::Error;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::Role;
use crate::kernel::program::{BufferId, Program};

/// Name for the variant and tile that the algorithm's performance model prefers.
pub(super) const AUTO: &str = "auto";

/// Built-in algorithm at a point of the sweep.
pub(super) struct Counterpart {
    pub(super) algorithm: &'static Algorithm,
    case: CaseSpec,
    problem: Box<dyn Problem>,
    /// Index of the point's buffer for each of the algorithm's buffers.
    places: Vec<usize>,
    /// Number of buffers of the point.
    buffer_count: usize,
}

impl Counterpart {
    /// Matches the buffers of the algorithm that `builtin` names to those of `point`, whose sizes and types the
    /// resolver has checked. Refuses a buffer that is not read or written as the algorithm's is.
    pub(super) fn new(catalogue: &Catalogue, builtin: &Builtin, point: &ResolvedPoint) -> Result<Self, String> {
        let algorithm = catalogue.find(&builtin.algorithm)?;
        let places: Vec<usize> = builtin.roles.iter().map(|(_, place)| *place).collect();
        // The first buffer has the element type of the case.
        let dtype = places.first().map_or(DType::F32, |place| point.buffers[*place].element);
        let size = size_of(&builtin.size).ok_or_else(|| format!("{} takes at most three extents", algorithm.name))?;
        let mut case = CaseSpec::new(algorithm, size, dtype);
        if let Some(layout) = &builtin.layout {
            case.layout = layout.parse()?;
        }
        let problem = (algorithm.problem)(&case)?;
        for (spec, place) in problem.buffers().iter().zip(&places) {
            let ResolvedBuffer { name, role, .. } = &point.buffers[*place];
            if spec.role.is_output() && !role.is_output() || spec.role.is_input() && !role.is_input() {
                return Err(format!(
                    "buffer {name} is not filled and written as {} of {} is; correct reference.roles",
                    spec.name, algorithm.name
                ));
            }
        }
        Ok(Self { algorithm, case, problem, places, buffer_count: point.buffers.len() })
    }

    /// Returns the number of arithmetic operations that solve the problem.
    pub(super) fn operations(&self) -> u64 {
        self.problem.work().operations
    }

    /// Returns, for each input or each output of the algorithm (as `is_kind` says), its index among the point's buffers
    /// of the same kind.
    fn indices(&self, point: &ResolvedPoint, is_kind: fn(Role) -> bool) -> Vec<usize> {
        let mut indices = vec![];
        for (spec, place) in self.problem.buffers().iter().zip(&self.places) {
            if is_kind(spec.role) {
                indices.push(point.buffers[..*place].iter().filter(|buffer| is_kind(buffer.role)).count());
            }
        }
        indices
    }

    /// Selects the algorithm's inputs among those of the point.
    fn inputs(&self, inputs: &[HostArray], point: &ResolvedPoint) -> Vec<HostArray> {
        self.indices(point, Role::is_input).into_iter().map(|index| inputs[index].clone()).collect()
    }

    /// Makes the algorithm's own oracle for `inputs`, the point's filled buffers.
    pub(super) fn oracle(&self, inputs: &[HostArray], point: &ResolvedPoint) -> Result<Box<dyn Oracle>, Error> {
        let oracle = self.problem.oracle(&self.inputs(inputs, point))?;
        let indices = self.indices(point, Role::is_output);
        Ok(Box::new(move |outputs: &[HostArray]| {
            oracle.check(&indices.iter().map(|index| outputs[*index].clone()).collect::<Vec<_>>())
        }))
    }

    /// Computes the algorithm's output in f64, to be compared by the tolerance that the description states for it.
    /// `None` if it states none, or the algorithm has several correct answers.
    pub(super) fn exact(&self, inputs: &[HostArray], point: &ResolvedPoint) -> Option<ReferenceData> {
        let buffer = self.places.last().map(|place| &point.buffers[*place]).filter(|output| output.checked)?;
        let values = (self.algorithm.exact?)(&self.case, &self.inputs(inputs, point))?;
        let mut bytes = vec![];
        for value in values {
            buffer.element.push(value, &mut bytes);
        }
        Some(ReferenceData { index: self.indices(point, Role::is_output)[0], buffer: buffer.clone(), bytes })
    }

    /// Builds the program of a variant, or of the one that the model prefers, on the buffers of the point.
    pub(super) fn program(&self, variant: &str, device: &DeviceInfo) -> Program {
        let program = match (variant, self.algorithm.candidates) {
            (AUTO, Some(_)) => self.preferred_program(device),
            (AUTO, None) => Err(format!("has no model to choose from {}", self.algorithm.name)),
            _ => self.algorithm.variant(variant).and_then(|variant| self.feasible(variant, &self.case, device)),
        };
        // The algorithm's buffers take their places among the point's; its scratch buffers follow those.
        let own_count = self.places.len();
        let place = |id: BufferId| match self.places.get(id.0) {
            Some(place) => BufferId(*place),
            None => BufferId(id.0 - own_count + self.buffer_count),
        };
        program.map_or_else(Program::refused, |program| program.with_buffers(place))
    }

    /// Builds the first feasible program of the model's candidates. The error is that of the first candidate.
    fn preferred_program(&self, device: &DeviceInfo) -> Result<Program, String> {
        let mut first_reason = None;
        let candidates = self.algorithm.candidates.map(|candidates| candidates(self.algorithm, &self.case, device));
        for candidate in candidates.into_iter().flatten() {
            let case = CaseSpec { tile: candidate.tile, ..self.case };
            let variant = self.algorithm.variant(candidate.variant);
            match variant.and_then(|variant| self.feasible(variant, &case, device)) {
                Ok(program) => {
                    let tile = candidate.tile.map_or_else(String::new, |tile| format!(", tile {tile}"));
                    let choice = format!("auto runs {}{tile}", candidate.variant);
                    let note = program.note.map_or_else(|| choice.clone(), |note| format!("{choice}; {note}"));
                    let chosen = format!("{}:{}", self.algorithm.name, candidate.variant);
                    return Ok(Program { note: Some(note.into()), chosen_by_auto: Some(chosen), ..program });
                }
                Err(reason) => first_reason = first_reason.or(Some(reason)),
            }
        }
        Err(first_reason.unwrap_or_else(|| "has no candidates".into()))
    }

    fn feasible(&self, variant: &Variant, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        self.algorithm.feasible(variant, case, self.problem.as_ref(), device)
    }
}
