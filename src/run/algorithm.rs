//! Makes an [`Algorithm`] like those of the table of what was resolved.

use super::builtin::{AUTO, Counterpart, dtype};
use super::loaded;
use super::problem::PointProblem;
use super::resolved::{Buffer, Configuration, Module, Pass, PassList, Point, Reference, ResolvedRun};
use crate::algorithms::input::Input;
use crate::algorithms::{Algorithm, CaseSpec, Measures, Problem, Sweeps, Variant};
use crate::basis::dtype::DType;
use crate::basis::handle::Handle;
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
use std::sync::Arc;

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

/// What a user's algorithm and its variants share: the kernels with their interfaces read.
pub(super) struct Loaded {
    pub(super) own: UserKernels,
    /// Those of the modules.
    pub(super) shaders: Vec<Handle<Shader>>,
    /// Those of the points.
    sizes: Vec<Size>,
}

impl Loaded {
    /// The place of the point that a case is of.
    fn place(&self, case: &CaseSpec) -> Result<usize, String> {
        let found = self.sizes.iter().position(|size| *size == case.size);
        found.ok_or_else(|| format!("{} is no point of its axes", case.size))
    }

    fn point(&self, case: &CaseSpec) -> Result<&Point, String> {
        self.place(case).map(|at| &self.own.run.points[at])
    }

    /// The program of a configuration.
    fn kernel(&self, configuration: usize, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let point = self.point(case)?;
        let list = point.pass_lists[configuration].as_ref().map_err(String::clone)?;
        Ok(program(&self.shaders, point, list, device))
    }

    /// The program of a built-in variant.
    fn builtin(&self, name: &str, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let point = self.point(case)?;
        let Reference::Builtin(builtin) = &point.reference else {
            return Err("has no built-in reference to run beside".into());
        };
        Ok(Counterpart::new(builtin, point)?.program(name, device))
    }
}

/// A variant of a user's algorithm.
fn variant(
    name: String,
    program: impl Fn(&CaseSpec, &DeviceInfo) -> Result<Program, String> + Send + Sync + 'static,
) -> Variant {
    Variant {
        name: name.into(),
        aliases: &[],
        summary: "a kernel of the user's",
        source: "the user",
        measures: Measures::Problem,
        kernels: &[],
        program: Handle::Shared(Arc::new(move |_: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo| {
            program(case, device).unwrap_or_else(Program::refused)
        })),
    }
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
    /// The algorithm of the kernels.
    ///
    /// # Errors
    /// When a kernel cannot be read, or a built-in algorithm does not fit.
    pub(crate) fn algorithm(self) -> Result<Handle<Algorithm>, String> {
        for point in &self.run.points {
            if let Reference::Builtin(builtin) = &point.reference {
                let counterpart = Counterpart::new(builtin, point)?;
                for name in self.against.iter().filter(|name| *name != AUTO) {
                    counterpart.algorithm.variant(name)?;
                }
            }
        }
        let kernel = |(index, module): (_, &Module)| shader(module, format!("{}/{}#{index}", self.name, module.name));
        let shaders = self.run.modules.iter().enumerate().map(kernel).collect::<Result<_, _>>()?;
        // What is in the kernels is part of what they are: records of others are not taken for records of these.
        let fingerprint = fingerprint(&[&serde_json::to_vec(&self).unwrap_or_default()]);
        let loaded = Arc::new(Loaded { shaders, sizes: self.run.sizes(), own: self });
        let own = &loaded.own;
        let kernels = own.run.configurations.iter().map(label).enumerate().map(|(index, label)| {
            let loaded = Arc::clone(&loaded);
            variant(label, move |case, device| loaded.kernel(index, case, device))
        });
        let against = own.against.iter().cloned().map(|name| {
            let loaded = Arc::clone(&loaded);
            variant(label_of_builtin(own, &name), move |case, device| loaded.builtin(&name, case, device))
        });
        Ok(Handle::Shared(Arc::new(Algorithm {
            name: own.name.clone().into(),
            fingerprint: Some(fingerprint),
            summary: "kernels of the user's",
            work: "as the description states it",
            default_size: Sweeps::same("1"),
            verify_size: Sweeps::same("1"),
            iterative: false,
            inputs: &[Input::Uniform],
            layouts: &[Layout::Nn],
            variants: kernels.chain(against).collect(),
            tunable: &[],
            candidates: None,
            solution: None,
            problem: Handle::Shared(Arc::new(move |case: &CaseSpec| {
                let (at, loaded) = (loaded.place(case)?, Arc::clone(&loaded));
                Ok(Box::new(PointProblem { loaded, at, seed: case.seed }) as Box<dyn Problem>)
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
fn shader(module: &Module, name: String) -> Result<Handle<Shader>, String> {
    let spirv = loaded::bytes(&module.spirv);
    let interface = loaded::interface(&spirv).map_err(|reason| format!("{}: {reason}", module.name))?;
    let (name, spirv) = (name.into(), spirv.into());
    let shader = Shader { name, dtype: None, layout: None, spirv, interface, built_in: false };
    Ok(Handle::Shared(Arc::new(shader)))
}

/// A buffer as programs know it.
pub(super) fn spec(buffer: &Buffer) -> BufferSpec {
    BufferSpec::new(buffer.name.clone(), buffer.role, buffer.element, buffer.len())
}

/// The program of a configuration at a point.
pub(super) fn program(shaders: &[Handle<Shader>], point: &Point, list: &PassList, device: &DeviceInfo) -> Program {
    let buffers: Vec<&Buffer> = point.buffers.iter().chain(&list.scratch).collect();
    let steps = list.passes.iter().map(|pass| Step::Dispatch(dispatch(&shaders[pass.module], pass, &buffers, device)));
    let scratch = list.scratch.iter().map(spec).collect();
    Program { steps: steps.collect(), scratch, ..Program::default() }
}

fn dispatch(shader: &Handle<Shader>, pass: &Pass, buffers: &[&Buffer], device: &DeviceInfo) -> Dispatch {
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
    Dispatch { constants, push, addresses, descriptors, ..Dispatch::bare(shader.clone()) }.groups(pass.groups)
}

#[cfg(test)]
mod tests;
