//! Built-in algorithm that solves the problem of a user's kernels: its oracle is the reference, and its variants run
//! beside the kernels on the same buffers.

use super::oracle::Contents;
use super::resolved::{Builtin, ResolvedBuffer, ResolvedPoint, size_of};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{Algorithm, CaseSpec, Oracle, Problem, Variant};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::Error;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::Role;
use crate::kernel::program::{BufferId, Program};

/// Name of the variant that the model prefers.
pub(super) const AUTO: &str = "auto";

/// Built-in algorithm at a point.
pub(super) struct Counterpart {
    pub(super) algorithm: &'static Algorithm,
    case: CaseSpec,
    problem: Box<dyn Problem>,
    /// Index of the point's buffer for each of the algorithm's buffers.
    places: Vec<usize>,
    /// Number of buffers of the point.
    count: usize,
}

impl Counterpart {
    /// Makes the algorithm that `builtin` names, on the buffers of `point`, whose sizes and types the resolver has
    /// checked. Refuses buffers with other roles than the algorithm's.
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
                let (other, algorithm) = (&spec.name, &algorithm.name);
                return Err(format!(
                    "buffer {name} is not filled and written as {other} of {algorithm} is; correct reference.roles"
                ));
            }
        }
        Ok(Self { algorithm, case, problem, places, count: point.buffers.len() })
    }

    /// Lists the indices of the point's buffers, among those for which `is` holds, that take the algorithm's roles for
    /// which it holds.
    fn places(&self, point: &ResolvedPoint, is: fn(Role) -> bool) -> Vec<usize> {
        let specs = self.problem.buffers();
        let parts = specs.iter().zip(&self.places).filter(|(spec, _)| is(spec.role));
        parts.map(|(_, place)| point.buffers[..*place].iter().filter(|buffer| is(buffer.role)).count()).collect()
    }

    /// Selects the algorithm's inputs among those of the point.
    fn inputs(&self, inputs: &[HostArray], point: &ResolvedPoint) -> Vec<HostArray> {
        self.places(point, Role::is_input).into_iter().map(|place| inputs[place].clone()).collect()
    }

    /// Makes the algorithm's own oracle for `inputs`, the point's filled buffers.
    pub(super) fn oracle(&self, inputs: &[HostArray], point: &ResolvedPoint) -> Result<Box<dyn Oracle>, Error> {
        let oracle = self.problem.oracle(&self.inputs(inputs, point))?;
        let places = self.places(point, Role::is_output);
        Ok(Box::new(move |outputs: &[HostArray]| {
            oracle.check(&places.iter().map(|place| outputs[*place].clone()).collect::<Vec<_>>())
        }))
    }

    /// Computes the only correct output in f64, if there is one, for a check that the description states.
    pub(super) fn exact(&self, inputs: &[HostArray], point: &ResolvedPoint) -> Option<Contents> {
        let buffer = self.places.last().map(|place| &point.buffers[*place]).filter(|output| output.checked)?;
        let values = (self.algorithm.exact?)(&self.case, &self.inputs(inputs, point))?;
        let mut bytes = vec![];
        for value in values {
            buffer.element.push(value, &mut bytes);
        }
        Some(Contents { index: self.places(point, Role::is_output)[0], buffer: buffer.clone(), bytes })
    }

    /// Builds the program of a variant, or of the one that the model prefers, on the buffers of the point.
    pub(super) fn program(&self, variant: &str, device: &DeviceInfo) -> Program {
        let made = match (variant, self.algorithm.candidates) {
            (AUTO, Some(candidates)) => {
                let mut made = candidates(self.algorithm, &self.case, device).into_iter().map(|candidate| {
                    let case = CaseSpec { tile: candidate.tile, ..self.case };
                    self.feasible(self.algorithm.variant(candidate.variant)?, &case, device)
                });
                let first = made.next().unwrap_or_else(|| Err("has no candidates".into()));
                first.or_else(|reason| made.find_map(Result::ok).ok_or(reason))
            }
            (AUTO, None) => Err(format!("has no model to choose from {}", self.algorithm.name)),
            _ => self.algorithm.variant(variant).and_then(|variant| self.feasible(variant, &self.case, device)),
        };
        let count = self.places.len();
        let place =
            |id: BufferId| BufferId(self.places.get(id.0).copied().unwrap_or(id.0 - count.min(id.0) + self.count));
        made.map_or_else(Program::refused, |program| program.with_buffers(place))
    }

    fn feasible(&self, variant: &Variant, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        self.algorithm.feasible(variant, case, self.problem.as_ref(), device)
    }
}
