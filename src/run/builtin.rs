//! A built-in algorithm that solves the problem of kernels of the user's: its oracle knows the answer, and its variants run
//! beside them, over the same buffers.

use super::oracle::Expected;
use super::resolved::{Builtin, Point, ResolvedBuffer, size_of};
use crate::algorithms::matmul::{MATMUL, product_in_f64};
use crate::algorithms::{self, Algorithm, CaseSpec, Oracle, Problem, Variant};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::Error;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{BufferId, Program};

/// The name that stands for what the model takes for the best variant.
pub(super) const AUTO: &str = "auto";

/// A built-in algorithm at a point.
pub(super) struct Counterpart {
    pub(super) algorithm: &'static Algorithm,
    case: CaseSpec,
    problem: Box<dyn Problem>,
    /// The buffer that takes the place of each of its own.
    places: Vec<usize>,
    /// Number of buffers of the point.
    count: usize,
}

impl Counterpart {
    /// The algorithm that `builtin` names, over the buffers of `point`.
    ///
    /// # Errors
    /// What does not fit.
    pub(super) fn new(builtin: &Builtin, point: &Point) -> Result<Self, String> {
        let algorithm = algorithms::find(&builtin.algorithm)?;
        let Some(size) = size_of(&builtin.size) else {
            let count = builtin.size.len();
            return Err(format!("reference.size has {count} extents; {} takes at most three", algorithm.name));
        };
        let place = |name: &str| builtin.roles.iter().find(|(role, _)| role == name).map(|(_, place)| *place);
        // The first buffer has the element type of the case.
        let probe = (algorithm.problem)(&CaseSpec::new(algorithm, size, first_dtype(algorithm)))?;
        let first = probe.buffers().first().and_then(|own| place(&own.name));
        let first = first.and_then(|place| dtype(&point.buffers[place]));
        let dtype = first.ok_or_else(|| {
            format!("no buffer takes the part of {}; add it to reference.roles", parts(&probe.buffers()))
        })?;
        let mut case = CaseSpec::new(algorithm, size, dtype);
        if let Some(layout) = &builtin.layout {
            case.layout = layout.parse()?;
        }
        let problem = (algorithm.problem)(&case)?;
        let own = problem.buffers();
        let found = own.iter().map(|own| {
            let place = place(&own.name).ok_or_else(|| {
                format!("no buffer takes the part of {} of {}; add it to reference.roles", own.name, algorithm.name)
            })?;
            fits(own, &point.buffers[place], &algorithm.name).map(|()| place)
        });
        let places = found.collect::<Result<_, _>>()?;
        Ok(Self { algorithm, case, problem, places, count: point.buffers.len() })
    }

    /// What knows the answer for `inputs`, those of the point's buffers that are filled.
    pub(super) fn oracle(&self, inputs: &[HostArray], point: &Point) -> Result<Box<dyn Oracle>, Error> {
        let among =
            |place: usize, is: fn(Role) -> bool| point.buffers[..place].iter().filter(|own| is(own.role)).count();
        let own = self.problem.buffers();
        let parts = || own.iter().zip(&self.places);
        let taken: Vec<_> = parts()
            .filter(|(own, _)| own.role.is_input())
            .map(|(_, place)| inputs[among(*place, Role::is_input)].clone())
            .collect();
        let outputs = parts().filter(|(own, _)| own.role.is_output());
        // The place of what stands for each of its outputs among those of the point.
        let places: Vec<usize> = outputs.map(|(_, place)| among(*place, Role::is_output)).collect();
        let output = self.places.last().map(|place| &point.buffers[*place]).filter(|output| output.checked);
        if let Some((output, product)) = output.zip(self.product(&taken)) {
            let mut answer = vec![];
            for value in product {
                output.element.push(value, &mut answer);
            }
            let answers = vec![(places[0], output.clone(), answer)];
            return Ok(Box::new(Expected::new(answers).map_err(Error::Usage)?));
        }
        let oracle = self.problem.oracle(&taken)?;
        Ok(Box::new(move |outputs: &[HostArray]| {
            oracle.check(&places.iter().map(|place| outputs[*place].clone()).collect::<Vec<_>>())
        }))
    }

    /// Every element of a product of floats, for a check that the description states. Other algorithms have answers of which
    /// several are right.
    fn product(&self, inputs: &[HostArray]) -> Option<Vec<f64>> {
        std::ptr::eq(self.algorithm, &raw const MATMUL).then(|| product_in_f64(&self.case, inputs)).flatten()
    }

    /// The program of a variant, or of the one that the model prefers, over the buffers of the point.
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
        let own = self.places.len();
        let place =
            |id: BufferId| BufferId(self.places.get(id.0).copied().unwrap_or(id.0 - own.min(id.0) + self.count));
        made.map_or_else(Program::refused, |program| program.with_buffers(place))
    }

    fn feasible(&self, variant: &Variant, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        self.algorithm.feasible(variant, case, self.problem.as_ref(), device)
    }
}

/// The element type that a buffer of a built-in algorithm would have in its place.
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

/// Refuses a buffer that cannot take the part of one of a built-in algorithm's.
fn fits(own: &BufferSpec, buffer: &ResolvedBuffer, algorithm: &str) -> Result<(), String> {
    let (name, other) = (&buffer.name, &own.name);
    if dtype(buffer) != Some(own.dtype) {
        let (element, expected) = (buffer.element.name(), own.dtype);
        return Err(format!(
            "buffer {name} has elements of {element}, {other} of {algorithm} of {expected}; make them agree"
        ));
    }
    if buffer.len() != own.len {
        return Err(format!(
            "buffer {name} has {} elements, {other} of {algorithm} {}; make shape and reference.size agree",
            buffer.len(),
            own.len
        ));
    }
    if own.role.is_output() && !buffer.role.is_output() || own.role.is_input() && !buffer.role.is_input() {
        return Err(format!(
            "buffer {name} is not filled and written as {other} of {algorithm} is; correct reference.roles"
        ));
    }
    Ok(())
}
