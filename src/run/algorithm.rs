//! Makes an [`Algorithm`] like those of the table of what was resolved.

use super::builtin::{AUTO, Counterpart, dtype};
use super::loaded;
use super::problem::PointProblem;
use super::resolved::{Buffer, Configuration, Module, Pass, PassList, Point, Reference, ResolvedRun};
use crate::algorithms::input::Input;
use crate::algorithms::{Algorithm, Build, CaseSpec, Measures, Problem, Sweeps, Variant};
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::basis::size::Size;
use crate::device::cache::fingerprint;
use crate::device::capability::DeviceInfo;
use crate::kernel::binding::{Binding, Descriptor, SpecValue};
use crate::kernel::buffer::{BufferSpec, RED_ZONE, Role};
use crate::kernel::interface::SlotKind;
use crate::kernel::program::{Dispatch, Program, Step};
use crate::kernel::shaders::Shader;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A user's kernels that solve the same problem, and what runs beside them. A worker makes the same algorithm of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct UserKernels {
    /// The name of the algorithm, which no built-in one has.
    pub(crate) name: String,
    #[serde(rename = "undertaking")]
    pub(crate) run: ResolvedRun,
    /// Variants of the built-in algorithm that is the reference, or `auto`: they follow the configurations.
    pub(crate) against: Vec<String>,
    /// Buffers to write to files when an answer is checked.
    pub(crate) saves: Vec<Save>,
}

/// A buffer that is written to a .npy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Save {
    /// Its name.
    pub(crate) buffer: String,
    pub(crate) path: PathBuf,
}

/// The point that a case is of.
fn place(sizes: &[Size], case: &CaseSpec) -> Result<usize, String> {
    let found = sizes.iter().position(|size| *size == case.size);
    found.ok_or_else(|| format!("{} is no point of its axes", case.size))
}

/// A variant of a user's algorithm.
fn variant(own: &'static UserKernels, name: String, program: Build) -> Variant {
    // What is in the kernels is part of what a variant is: records of others are not taken for records of these.
    let json = serde_json::to_vec(own).unwrap_or_default();
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

fn of_kernels(
    own: &'static UserKernels,
    kernels: &'static [&'static Shader],
    sizes: &'static [Size],
    configuration: usize,
) -> Build {
    Box::leak(Box::new(move |_: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo| {
        let at = match place(sizes, case) {
            Ok(at) => at,
            Err(reason) => return Program::refused(reason),
        };
        let point = &own.run.points[at];
        match &point.pass_lists[configuration] {
            Ok(list) => program(kernels, point, list, device),
            Err(reason) => Program::refused(reason.clone()),
        }
    }))
}

fn of_builtin(own: &'static UserKernels, sizes: &'static [Size], name: &'static str) -> Build {
    Box::leak(Box::new(move |_: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo| {
        let made = place(sizes, case).and_then(|at| {
            let point = &own.run.points[at];
            let Reference::Builtin(builtin) = &point.reference else {
                return Err("has no built-in reference to run beside".into());
            };
            Ok(Counterpart::new(builtin, point)?.program(name, device))
        });
        made.unwrap_or_else(Program::refused)
    }))
}

/// The name of a configuration: `mul_mm`, `mul_mm[BM=64]`.
fn label(Configuration { kernel, choice }: &Configuration) -> String {
    let chosen: Vec<_> = choice.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if chosen.is_empty() { kernel.clone() } else { format!("{kernel}[{}]", chosen.join(",")) }
}

/// The name of a built-in variant beside them: `matmul:tiled`.
fn label_of_builtin(own: &UserKernels, variant: &str) -> String {
    let of = own.run.points.iter().find_map(|point| match &point.reference {
        Reference::Builtin(builtin) => Some(builtin.algorithm.as_str()),
        _ => None,
    });
    format!("{}:{variant}", of.unwrap_or("builtin"))
}

impl UserKernels {
    /// The algorithm of the kernels. It lives as long as the process, as those of the table do.
    ///
    /// # Errors
    /// When a kernel cannot be read, or a built-in algorithm does not fit.
    pub(crate) fn algorithm(self) -> Result<&'static Algorithm, String> {
        let own: &'static Self = Box::leak(Box::new(self));
        let run = &own.run;
        let kernel = |(index, module)| shader(module, format!("{}/{}#{index}", own.name, module.name));
        let kernels: Vec<_> = run.modules.iter().enumerate().map(kernel).collect::<Result<_, _>>()?;
        let kernels: &'static [&'static Shader] = kernels.leak();
        let sizes: &'static [Size] = run.sizes().leak();
        for point in &run.points {
            if let Reference::Builtin(builtin) = &point.reference {
                let counterpart = Counterpart::new(builtin, point)?;
                for name in own.against.iter().filter(|name| *name != AUTO) {
                    counterpart.algorithm.variant(name)?;
                }
            }
        }
        let labels = run.configurations.iter().map(label).enumerate();
        let variants = labels.map(|(index, label)| variant(own, label, of_kernels(own, kernels, sizes, index)));
        let against = own.against.iter().map(|name| {
            let label = label_of_builtin(own, name);
            variant(own, label, of_builtin(own, sizes, name))
        });
        let variants: Vec<_> = variants.chain(against).collect();
        Ok(Box::leak(Box::new(Algorithm {
            name: &own.name,
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
                Ok(Box::new(PointProblem { own, kernels, at, seed: case.seed }) as Box<dyn Problem>)
            })),
        })))
    }

    /// Checks what runs beside the kernels.
    ///
    /// # Errors
    /// When there is nothing that names their buffers, or no such variant.
    pub(crate) fn check(&self) -> Result<(), String> {
        let builtin = |point: &Point| matches!(point.reference, Reference::Builtin(_));
        if self.against.is_empty() || self.run.points.iter().all(builtin) {
            return Ok(());
        }
        Err(format!(
            "--against {} needs a built-in algorithm that solves the same problem; add [reference] with builtin = \"matmul\", \
             size and roles",
            self.against.join(",")
        ))
    }

    /// What competes at a point, by its places among the variants: of each kernel the first choice of its
    /// specialization constants that can be, or `all`; then the built-in variants.
    pub(crate) fn choices(&self, point: usize, all: bool) -> impl Iterator<Item = usize> {
        let ResolvedRun { configurations, points, .. } = &self.run;
        let possible = move |at: &usize| points[point].pass_lists[*at].is_ok();
        let first = move |at: &usize| {
            let same = |other: &usize| configurations[*other].kernel == configurations[*at].kernel;
            all || !(0..*at).filter(same).any(|other| possible(&other))
        };
        let own = (0..configurations.len()).filter(possible).filter(first);
        own.chain(configurations.len()..configurations.len() + self.against.len())
    }

    /// Whether more than one kernel competes.
    pub(crate) fn has_several_kernels(&self) -> bool {
        let all = &self.run.configurations;
        all.iter().any(|configuration| configuration.kernel != all[0].kernel)
    }

    /// The choice of specialization constants that a variant is named by.
    pub(crate) fn choice(&self, variant: &str) -> Option<&[(String, String)]> {
        let found = self.run.configurations.iter().find(|own| label(own) == variant);
        found.map(|own| &own.choice[..]).filter(|choice| !choice.is_empty())
    }

    /// Why there is nothing to run.
    pub(crate) fn nothing(&self) -> String {
        let mut lists = self.run.points.iter().flat_map(|point| &point.pass_lists);
        let reason = lists.find_map(|list| list.as_ref().err());
        format!("nothing to run: {}", reason.map_or("there is no kernel", String::as_str))
    }

    /// The element type that cases are named by: that of the first output.
    pub(crate) fn dtype(&self) -> DType {
        let point = self.run.points.first();
        let outputs = point.into_iter().flat_map(|point| &point.buffers);
        let of = |role| move |buffer: &&Buffer| buffer.role == role;
        let first = |role| outputs.clone().filter(of(role)).find_map(dtype);
        first(Role::Output).or_else(|| first(Role::InPlace)).unwrap_or(DType::F32)
    }
}

/// The kernel of a module, which no other has the name of.
fn shader(module: &Module, name: String) -> Result<&'static Shader, String> {
    let spirv = loaded::bytes(&module.spirv);
    let interface = loaded::interface(&spirv).map_err(|reason| format!("{}: {reason}", module.name))?;
    let (name, spirv) = (name.into(), spirv.into());
    let shader = Shader { name, dtype: None, layout: None, spirv, interface, built_in: false };
    Ok(Box::leak(Box::new(shader)))
}

/// A buffer as programs know it.
pub(super) fn spec(buffer: &'static Buffer) -> BufferSpec {
    BufferSpec { name: &buffer.name, role: buffer.role, dtype: buffer.element, len: buffer.len() }
}

/// The program of a configuration at a point.
pub(super) fn program(
    kernels: &[&'static Shader],
    point: &'static Point,
    list: &'static PassList,
    device: &DeviceInfo,
) -> Program {
    let buffers: Vec<&Buffer> = point.buffers.iter().chain(&list.scratch).collect();
    let steps = list.passes.iter().map(|pass| Step::Dispatch(dispatch(kernels[pass.module], pass, &buffers, device)));
    let scratch = list.scratch.iter().map(spec).collect();
    Program { steps: steps.collect(), scratch, ..Program::default() }
}

fn dispatch(shader: &'static Shader, pass: &Pass, buffers: &[&Buffer], device: &DeviceInfo) -> Dispatch {
    let descriptor = |at: &Binding| {
        let bytes = buffers[at.buffer.0].bytes();
        // What is written behind the data is to be found in the red zone, where nobody would see it otherwise: robust
        // accesses end with the descriptor. A kernel that asks for lengths is told the true ones.
        let guarded = bytes + RED_ZONE;
        let fits = guarded <= device.limits.storage_buffer_range.0 && !shader.interface.asks_lengths;
        let bytes = if at.kind == SlotKind::Storage && fits { guarded } else { bytes };
        Descriptor { at: *at, offset: 0, bytes: Some(bytes) }
    };
    let (mut constants, others): (Vec<SpecValue>, Vec<_>) =
        pass.constants.iter().copied().partition(|constant| constant.bytes == 4);
    constants.sort_unstable_by_key(|constant| constant.id);
    constants.extend(others);
    let (push, addresses) = (pass.push.clone(), pass.addresses.clone());
    let descriptors = pass.bindings.iter().map(descriptor).collect();
    Dispatch { constants, push, addresses, descriptors, ..Dispatch::bare(shader) }.groups(pass.groups)
}

#[cfg(test)]
mod tests;
