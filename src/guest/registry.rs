//! What this process knows of kernels of the user's, to be told to workers.

use super::builtin::{AUTO, Counterpart, dtype};
use super::problem::Posed;
use super::program::{Kernel, program};
use super::{Guest, sizes};
use crate::algorithms::input::Input;
use crate::algorithms::{Algorithm, Build, CaseSpec, Measures, Problem, Sweeps, Variant, guests};
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::basis::size::Size;
use crate::device::cache::fingerprint;
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;
use crate::kernel::shaders::Shader;
use crate::run::job::{Contender, Point, Reference, Undertaking};
use std::sync::{PoisonError, RwLock};

/// The guests of this process and their algorithms.
static KNOWN: RwLock<Vec<(&'static Guest, &'static Algorithm)>> = RwLock::new(vec![]);

/// Every guest, as another process is told of it.
pub(crate) fn all() -> Vec<Guest> {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).iter().map(|(guest, _)| (*guest).clone()).collect()
}

/// Makes an algorithm of `guest`, in place of one that had its name.
///
/// # Errors
/// When a kernel cannot be read, or a built-in algorithm does not fit.
pub(crate) fn learn(guest: Guest) -> Result<&'static Algorithm, String> {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, algorithm)) = known.iter().find(|(other, _)| **other == guest) {
        return Ok(algorithm);
    }
    let guest: &'static Guest = Box::leak(Box::new(guest));
    let algorithm = guests::welcome(algorithm(guest)?);
    known.retain(|(other, _)| other.name != guest.name);
    known.push((guest, algorithm));
    Ok(algorithm)
}

fn algorithm(guest: &'static Guest) -> Result<Algorithm, String> {
    let undertaking = &guest.undertaking;
    let kernel = |(index, module)| Kernel::new(module, format!("{}/{}#{index}", guest.name, module.name));
    let kernels: Vec<_> = undertaking.modules.iter().enumerate().map(kernel).collect::<Result<_, _>>()?;
    let kernels: &'static [Kernel] = kernels.leak();
    let sizes: &'static [Size] = sizes::of(undertaking).leak();
    for point in &undertaking.points {
        if let Reference::Builtin(builtin) = &point.reference {
            let counterpart = Counterpart::new(builtin, point)?;
            for name in guest.against.iter().filter(|name| *name != AUTO) {
                counterpart.algorithm.variant(name)?;
            }
        }
    }
    let own = undertaking.contenders.iter().enumerate();
    let own = own.map(|(index, contender)| variant(guest, label(contender), of_kernels(guest, kernels, sizes, index)));
    let against = guest.against.iter().map(|name| {
        let label = label_of_builtin(guest, name);
        variant(guest, label, of_builtin(guest, sizes, name))
    });
    let variants: Vec<_> = own.chain(against).collect();
    Ok(Algorithm {
        name: &guest.name,
        summary: "kernels of the user's",
        work: "as the description states it",
        default_size: Sweeps::same("1"),
        verify_size: Sweeps::same("1"),
        iterative: false,
        inputs: &[Input::Uniform],
        layouts: &[Layout::Nn],
        variants: variants.leak(),
        tunable: &[],
        candidates: None,
        solution: None,
        problem: Box::leak(Box::new(move |case: &CaseSpec| {
            let at = place(sizes, case)?;
            Ok(Box::new(Posed { guest, kernels, at, seed: case.seed }) as Box<dyn Problem>)
        })),
    })
}

/// The point that a case is of.
fn place(sizes: &[Size], case: &CaseSpec) -> Result<usize, String> {
    let found = sizes.iter().position(|size| *size == case.size);
    found.ok_or_else(|| format!("{} is no point of its axes", case.size))
}

/// A variant of a guest.
fn variant(guest: &'static Guest, name: String, program: Build) -> Variant {
    // What is in the kernels is part of what a variant is: records of others are not taken for records of these.
    let json = serde_json::to_vec(guest).unwrap_or_default();
    Variant {
        name: name.leak(),
        aliases: &[],
        summary: "a kernel of the user's",
        source: fingerprint(&[&json]).leak(),
        measures: Measures::Problem,
        kernels: &[],
        program,
    }
}

fn of_kernels(guest: &'static Guest, kernels: &'static [Kernel], sizes: &'static [Size], contender: usize) -> Build {
    Box::leak(Box::new(move |_: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo| {
        let at = match place(sizes, case) {
            Ok(at) => at,
            Err(reason) => return Program::refused(reason),
        };
        let point = &guest.undertaking.points[at];
        match &point.jobs[contender] {
            Ok(job) => program(kernels, point, job, device),
            Err(reason) => Program::refused(reason.clone()),
        }
    }))
}

fn of_builtin(guest: &'static Guest, sizes: &'static [Size], name: &'static str) -> Build {
    Box::leak(Box::new(move |_: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo| {
        let made = place(sizes, case).and_then(|at| {
            let point = &guest.undertaking.points[at];
            let Reference::Builtin(builtin) = &point.reference else {
                return Err("has no built-in reference to run beside".into());
            };
            Ok(Counterpart::new(builtin, point)?.program(name, device))
        });
        made.unwrap_or_else(Program::refused)
    }))
}

/// The name of a contender: `mul_mm`, `mul_mm[BM=64]`.
pub(super) fn label(Contender { kernel, choice }: &Contender) -> String {
    let chosen: Vec<_> = choice.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if chosen.is_empty() { kernel.clone() } else { format!("{kernel}[{}]", chosen.join(",")) }
}

/// The name of a built-in variant among contenders: `matmul:tiled`.
fn label_of_builtin(guest: &Guest, variant: &str) -> String {
    let of = guest.undertaking.points.iter().find_map(|point| match &point.reference {
        Reference::Builtin(builtin) => Some(builtin.algorithm.as_str()),
        _ => None,
    });
    format!("{}:{variant}", of.unwrap_or("builtin"))
}

impl Guest {
    /// Checks what runs beside the kernels.
    ///
    /// # Errors
    /// When there is nothing that names their buffers, or no such variant.
    pub(crate) fn check(&self) -> Result<(), String> {
        let builtin = |point: &Point| matches!(point.reference, Reference::Builtin(_));
        if self.against.is_empty() || self.undertaking.points.iter().all(builtin) {
            return Ok(());
        }
        Err(format!(
            "--against {} needs a built-in algorithm that solves the same problem; add [reference] with builtin = \"matmul\", \
             size and roles",
            self.against.join(",")
        ))
    }

    /// The contenders at a point, by their places among the variants: of each kernel the first choice of its
    /// specialization constants that can be, or `all`; then the built-in variants.
    pub(crate) fn contenders(&self, point: usize, all: bool) -> impl Iterator<Item = usize> {
        let Undertaking { contenders, points, .. } = &self.undertaking;
        let possible = move |at: &usize| points[point].jobs[*at].is_ok();
        let first = move |at: &usize| {
            let same = |other: &usize| contenders[*other].kernel == contenders[*at].kernel;
            all || !(0..*at).filter(same).any(|other| possible(&other))
        };
        let own = (0..contenders.len()).filter(possible).filter(first);
        own.chain(contenders.len()..contenders.len() + self.against.len())
    }

    /// Whether more than one kernel competes.
    pub(crate) fn has_several_kernels(&self) -> bool {
        let contenders = &self.undertaking.contenders;
        contenders.iter().any(|contender| contender.kernel != contenders[0].kernel)
    }

    /// The choice of specialization constants that a variant is named by.
    pub(crate) fn choice(&self, variant: &str) -> Option<&[(String, String)]> {
        let found = self.undertaking.contenders.iter().find(|contender| label(contender) == variant);
        found.map(|contender| &contender.choice[..]).filter(|choice| !choice.is_empty())
    }

    /// Why no point has a contender.
    pub(crate) fn nothing(&self) -> String {
        let mut jobs = self.undertaking.points.iter().flat_map(|point| &point.jobs);
        let reason = jobs.find_map(|job| job.as_ref().err());
        format!("nothing to run: {}", reason.map_or("there is no kernel", String::as_str))
    }

    /// The sizes by which its points are known, in their order.
    pub(crate) fn sizes(&self) -> Vec<Size> {
        sizes::of(&self.undertaking)
    }

    /// The element type that cases are named by: that of the first output.
    pub(crate) fn dtype(&self) -> DType {
        use crate::kernel::buffer::Role;
        let point = self.undertaking.points.first();
        let outputs = point.into_iter().flat_map(|point| &point.buffers);
        let of = |role| move |buffer: &&crate::run::job::Buffer| buffer.role == role;
        let first = |role| outputs.clone().filter(of(role)).find_map(dtype);
        first(Role::Output).or_else(|| first(Role::InPlace)).unwrap_or(DType::F32)
    }
}
