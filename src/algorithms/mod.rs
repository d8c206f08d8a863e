//! The algorithms that can be measured and their variants: data, pure functions and host oracles. Nothing here
//! talks to Vulkan.

pub mod input;
pub mod matmul;

use crate::capability::DeviceInfo;
use crate::dtype::{DType, HostArray};
use crate::error;
use crate::program::Program;
use crate::shaders::Shader;
use crate::size::Size;
use crate::units::{Bytes, Work};
use input::Input;

/// Every algorithm, in the order that lists show them.
pub static ALGORITHMS: &[&Algorithm] = &[&matmul::MATMUL];

/// A computation with several implementations.
pub struct Algorithm {
    /// Canonical name: in tables, records and case ids.
    pub name: &'static str,
    /// What it computes, in one sentence.
    pub summary: &'static str,
    /// The formula of nominal work, for documentation.
    pub work: &'static str,
    /// The sweep of `bench` when none is given.
    pub default_size: &'static str,
    /// The sizes of `verify`: awkward ones.
    pub verify_size: &'static str,
    /// Kinds of input data, the default first.
    pub inputs: &'static [Input],
    /// The implementations.
    pub variants: &'static [Variant],
    /// The problem that a case poses, or why its size makes no sense.
    pub problem: fn(&CaseSpec) -> Result<Box<dyn Problem>, String>,
}

/// One implementation of an algorithm.
pub struct Variant {
    /// Canonical name.
    pub name: &'static str,
    /// Other names accepted on the command line, such as the numbers that a source document uses.
    pub aliases: &'static [&'static str],
    /// What it shows, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The kernels it runs; `program` gets them compiled for the case's element type, in this order.
    pub kernels: &'static [&'static str],
    /// The steps that solve a case on a device. Pure; the result is checked against the device's limits afterwards.
    pub program: fn(&[&'static Shader], &CaseSpec, &DeviceInfo) -> Program,
}

/// What one case of a plan asks for, apart from the variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaseSpec {
    /// The size as it was asked for.
    pub size: Size,
    /// The element type.
    pub dtype: DType,
    /// The kind of input data.
    pub input: Input,
    /// Seed of the input data.
    pub seed: u64,
}

/// A problem of a given size: its buffers, its inputs and how its answer is checked.
pub trait Problem {
    /// The size written out in full, for case ids: `1024x1024x1024`.
    fn extents(&self) -> String;
    /// The buffers that programs refer to by position.
    fn buffers(&self) -> Vec<BufferSpec>;
    /// Nominal work of one run.
    fn work(&self) -> Work;
    /// The contents of the input buffers, in their order.
    fn inputs(&self) -> Vec<HostArray>;
    /// Solves the problem on the host. The inputs may be dropped afterwards.
    fn oracle(&self, inputs: &[HostArray]) -> Box<dyn Oracle>;
}

/// A buffer that a problem needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// The name that the documentation of the algorithm uses.
    pub name: &'static str,
    /// What it is for.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub len: u64,
}

impl BufferSpec {
    /// Its size in memory.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes(self.len * self.dtype.bytes())
    }
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Filled by the host, read by the program.
    Input,
    /// Written by the program, checked by the host.
    Output,
}

/// The right answer of a problem.
pub trait Oracle {
    /// Compares the output buffers, in their order, with the right answer.
    fn check(&self, outputs: &[HostArray]) -> Check;
}

/// How far an answer is from the right one.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The largest error in the terms of the algorithm's error bound; infinite when an output is not finite.
    pub residual: f64,
    /// The largest residual that a right implementation can have.
    pub tolerance: f64,
    /// How the answer was checked: every element, or random combinations of them.
    pub method: CheckMethod,
    /// Where the answer is worst, for the report of a rejected case.
    pub worst: String,
}

impl Check {
    /// Whether the answer is right. Written so that a NaN residual is not.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.residual <= self.tolerance
    }
}

/// How an answer was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CheckMethod {
    /// Every element against the oracle.
    Elementwise,
    /// Random combinations of elements against the oracle (Freivalds).
    Probabilistic,
}

/// Finds an algorithm by name.
///
/// # Errors
/// A message with the nearest name when there is none of this name.
pub fn find(name: &str) -> Result<&'static Algorithm, String> {
    ALGORITHMS.iter().copied().find(|algorithm| algorithm.name == name).ok_or_else(|| {
        let names: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
        error::unknown("algorithm", name, "", &names)
    })
}

impl Algorithm {
    /// Finds a variant by name or alias.
    ///
    /// # Errors
    /// A message with the nearest name when there is none of this name.
    pub fn variant(&self, name: &str) -> Result<&'static Variant, String> {
        let found = self.variants.iter().find(|variant| variant.name == name || variant.aliases.contains(&name));
        found.ok_or_else(|| {
            let names: Vec<_> = self.variants.iter().map(|variant| variant.name).collect();
            error::unknown("variant", name, &format!(" for {}", self.name), &names)
        })
    }

    /// The element types that at least one variant has.
    pub fn dtypes(&self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(|dtype| self.variants.iter().any(|variant| variant.supports(*dtype)))
    }
}

impl Variant {
    /// Whether its kernels are compiled for `dtype`.
    #[must_use]
    pub fn supports(&self, dtype: DType) -> bool {
        self.shaders(dtype).is_some()
    }

    /// Its kernels compiled for `dtype`.
    #[must_use]
    pub fn shaders(&self, dtype: DType) -> Option<Vec<&'static Shader>> {
        self.kernels.iter().map(|name| Shader::find(name, dtype)).collect()
    }

    /// Its program for a case on a device.
    ///
    /// # Errors
    /// Why it cannot run there.
    pub fn program(&self, case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let shaders = self.shaders(case.dtype).ok_or_else(|| format!("has no {} kernel", case.dtype))?;
        let program = (self.program)(&shaders, case, device);
        program.unsupported(device).map_or(Ok(program), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::tests::software_device;
    use crate::shaders::SHADERS;
    use crate::size::Sweep;
    use std::collections::BTreeSet;

    fn all_variants() -> impl Iterator<Item = (&'static Algorithm, &'static Variant)> {
        ALGORITHMS.iter().flat_map(|algorithm| algorithm.variants.iter().map(move |variant| (*algorithm, variant)))
    }

    #[test]
    fn names_and_aliases_are_unique_and_fit_case_ids() {
        for algorithm in ALGORITHMS {
            let names = algorithm.variants.iter().flat_map(|v| v.aliases.iter().copied().chain([v.name]));
            let names: Vec<_> = names.collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}: {names:?}", algorithm.name);
            for name in names.iter().chain([&algorithm.name]) {
                let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
                assert!(plain && *name != "all", "{name}");
            }
        }
    }

    #[test]
    fn every_kernel_belongs_to_a_variant_and_every_variant_has_its_kernels() {
        let named: BTreeSet<&str> = all_variants().flat_map(|(_, variant)| variant.kernels.iter().copied()).collect();
        let compiled: BTreeSet<&str> = SHADERS.iter().map(|shader| shader.name).collect();
        assert_eq!(named, compiled, "glsl/*/*.comp and the registry differ");
        for (algorithm, variant) in all_variants() {
            assert!(DType::ALL.into_iter().any(|d| variant.supports(d)), "{}/{}", algorithm.name, variant.name);
        }
    }

    #[test]
    fn every_program_builds_at_every_default_size_and_fits_the_software_device() {
        let device = software_device();
        for (algorithm, variant) in all_variants() {
            let sizes = [algorithm.default_size, algorithm.verify_size];
            let sizes = sizes.iter().flat_map(|text| text.parse::<Sweep>().expect("a sweep").0);
            for size in sizes {
                for dtype in DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)) {
                    let case = CaseSpec { size, dtype, input: algorithm.inputs[0], seed: 1 };
                    let problem = (algorithm.problem)(&case).expect("a sensible size");
                    let program = variant.program(&case, &device);
                    let program = program.unwrap_or_else(|e| panic!("{}/{} {size}: {e}", algorithm.name, variant.name));
                    let buffers = problem.buffers().len();
                    assert!(program.steps.iter().flat_map(crate::program::Step::buffers).all(|id| id.0 < buffers));
                }
            }
        }
    }

    #[test]
    fn every_text_of_the_registry_is_a_sentence_for_a_person() {
        for (algorithm, variant) in all_variants() {
            for text in [algorithm.summary, variant.summary, variant.source] {
                assert!(text.len() > 8 && !text.ends_with('.'), "{}: '{text}'", variant.name);
            }
        }
    }
}
