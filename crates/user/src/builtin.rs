//! Built-in algorithm that solves the same problem as a user's kernels: its oracle is their reference, and its variants
//! compete with them on the same buffers.

use super::oracle::ReferenceData;
use super::resolved::{Builtin, ResolvedBuffer, ResolvedPoint, size_of};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{AUTO, Algorithm, CaseSpec, Oracle, Problem, Variant};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::Error;
use crate::case::tile::CaseTile;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::Role;
use crate::kernel::program::{BufferId, Program};
use crate::plan::CaseGroup;
use crate::tuning::tuned::{self, Tuned};
use std::borrow::Cow;

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
        Some(ReferenceData::new(self.indices(point, Role::is_output)[0], buffer, bytes))
    }

    /// Builds the program of a variant, or of the one that `auto` chooses, on the buffers of the point: with the tiles and
    /// choices of `tuned`, as `bench` has them.
    pub(super) fn program(&self, variant: &str, device: &DeviceInfo, tuned: &Tuned) -> Program {
        let program = match (variant, self.algorithm.candidates) {
            (AUTO, None) => Err(format!("has no model to choose from {}", self.algorithm.name)),
            _ => self.chosen_program(variant, device, tuned),
        };
        // The algorithm's buffers take their places among the point's; its scratch buffers follow those.
        let own_count = self.places.len();
        let place = |id: BufferId| match self.places.get(id.0) {
            Some(place) => BufferId(*place),
            None => BufferId(id.0 - own_count + self.buffer_count),
        };
        program.map_or_else(Program::refused, |program| program.with_buffers(place))
    }

    /// Builds the program that `bench` would run of this variant, or of `auto`. Its note says where tile and choice come from,
    /// unless the tile is the variant's own.
    fn chosen_program(&self, name: &str, device: &DeviceInfo, tuned: &Tuned) -> Result<Program, String> {
        let auto = name == AUTO;
        let variants = if auto { vec![] } else { vec![self.algorithm.variant(name)?.clone()] };
        let group = CaseGroup { auto, ..CaseGroup::new(self.algorithm.into(), self.case, variants) };
        let mut chosen = tuned::choose(&group, device, tuned).pop().ok_or("has no candidates")?;
        let program = self.feasible(chosen.variant, &chosen.spec, device)?;
        chosen.tile.take_if(|tile| matches!(tile, CaseTile::BuiltIn { .. }));
        let notes: Vec<_> = chosen.notes().into_iter().chain(program.note.map(Cow::into_owned)).collect();
        let note = (!notes.is_empty()).then(|| notes.join("; ").into());
        let chosen_by_auto = chosen.chosen_by_auto().map(|name| format!("{}:{name}", self.algorithm.name));
        Ok(Program { note, chosen_by_auto, ..program })
    }

    fn feasible(&self, variant: &Variant, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        self.algorithm.feasible(variant, case, self.problem.as_ref(), device)
    }
}
