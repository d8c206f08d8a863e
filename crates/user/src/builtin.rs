//! Built-in algorithm that solves the problem of a user's kernels: its oracle is the reference, and its variants run
//! beside the kernels on the same buffers.

use super::oracle::{Expected, ExpectedOutput};
use super::resolved::{Builtin, ResolvedBuffer, ResolvedPoint, size_of};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{Algorithm, CaseSpec, Oracle, Problem, Variant};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::Error;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
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
    /// Makes the algorithm that `builtin` names, on the buffers of `point`. Refuses buffers that do not fit.
    pub(super) fn new(catalogue: &Catalogue, builtin: &Builtin, point: &ResolvedPoint) -> Result<Self, String> {
        let algorithm = catalogue.find(&builtin.algorithm)?;
        let Some(size) = size_of(&builtin.size) else {
            let count = builtin.size.len();
            return Err(format!("reference.size has {count} extents; {} takes at most three", algorithm.name));
        };
        let place = |name: &str| builtin.roles.iter().find(|(role, _)| role == name).map(|(_, place)| *place);
        // The first buffer has the element type of the case.
        let probe = (algorithm.problem)(&CaseSpec::new(algorithm, size, first_dtype(algorithm)))?;
        let first = probe.buffers().first().and_then(|spec| place(&spec.name));
        let first = first.and_then(|place| dtype(&point.buffers[place]));
        let dtype = first.ok_or_else(|| {
            format!("no buffer takes the part of {}; add it to reference.roles", parts(&probe.buffers()))
        })?;
        let mut case = CaseSpec::new(algorithm, size, dtype);
        if let Some(layout) = &builtin.layout {
            case.layout = layout.parse()?;
        }
        let problem = (algorithm.problem)(&case)?;
        let specs = problem.buffers();
        let found = specs.iter().map(|spec| {
            let place = place(&spec.name).ok_or_else(|| {
                format!("no buffer takes the part of {} of {}; add it to reference.roles", spec.name, algorithm.name)
            })?;
            fits(spec, &point.buffers[place], &algorithm.name).map(|()| place)
        });
        let places = found.collect::<Result<_, _>>()?;
        Ok(Self { algorithm, case, problem, places, count: point.buffers.len() })
    }

    /// Makes the oracle for `inputs`, the point's filled buffers.
    pub(super) fn oracle(&self, inputs: &[HostArray], point: &ResolvedPoint) -> Result<Box<dyn Oracle>, Error> {
        let among =
            |place: usize, is: fn(Role) -> bool| point.buffers[..place].iter().filter(|buffer| is(buffer.role)).count();
        let specs = self.problem.buffers();
        let parts = || specs.iter().zip(&self.places);
        let taken: Vec<_> = parts()
            .filter(|(spec, _)| spec.role.is_input())
            .map(|(_, place)| inputs[among(*place, Role::is_input)].clone())
            .collect();
        let outputs = parts().filter(|(spec, _)| spec.role.is_output());
        // Index of each of the algorithm's outputs among the point's outputs.
        let places: Vec<usize> = outputs.map(|(_, place)| among(*place, Role::is_output)).collect();
        let output = self.places.last().map(|place| &point.buffers[*place]).filter(|output| output.checked);
        if let Some((output, exact)) = output.zip(self.algorithm.exact.and_then(|exact| exact(&self.case, &taken))) {
            let mut answer = vec![];
            for value in exact {
                output.element.push(value, &mut answer);
            }
            let expected = ExpectedOutput { index: places[0], buffer: output.clone(), answer };
            return Ok(Box::new(Expected::new(vec![expected]).map_err(Error::Usage)?));
        }
        let oracle = self.problem.oracle(&taken)?;
        Ok(Box::new(move |outputs: &[HostArray]| {
            oracle.check(&places.iter().map(|place| outputs[*place].clone()).collect::<Vec<_>>())
        }))
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

/// Returns the element type of a buffer, if built-in algorithms support it.
pub(super) fn dtype(buffer: &ResolvedBuffer) -> Option<DType> {
    Some(buffer.element).filter(|element| DType::ALL.contains(element))
}

fn first_dtype(algorithm: &Algorithm) -> DType {
    let any = |dtype: &DType| algorithm.variants.iter().any(|variant| variant.supports(*dtype));
    DType::ALL.into_iter().find(any).unwrap_or(DType::F32)
}

fn parts(buffers: &[BufferSpec]) -> String {
    buffers.iter().map(|buffer| &*buffer.name).collect::<Vec<_>>().join(", ")
}

/// Checks that a buffer can play the role of a built-in algorithm's buffer.
fn fits(spec: &BufferSpec, buffer: &ResolvedBuffer, algorithm: &str) -> Result<(), String> {
    let (name, other) = (&buffer.name, &spec.name);
    if dtype(buffer) != Some(spec.dtype) {
        let (element, expected) = (buffer.element.name(), spec.dtype);
        return Err(format!(
            "buffer {name} has elements of {element}, {other} of {algorithm} of {expected}; make them agree"
        ));
    }
    if buffer.len() != spec.len {
        return Err(format!(
            "buffer {name} has {} elements, {other} of {algorithm} {}; make shape and reference.size agree",
            buffer.len(),
            spec.len
        ));
    }
    if spec.role.is_output() && !buffer.role.is_output() || spec.role.is_input() && !buffer.role.is_input() {
        return Err(format!(
            "buffer {name} is not filled and written as {other} of {algorithm} is; correct reference.roles"
        ));
    }
    Ok(())
}
