//! What a driver made of a kernel.

use crate::basis::units::{Bytes, Metric, Nanos};
use serde::{Deserialize, Serialize};

/// A kernel as the device runs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Kernel"))]
pub struct CompiledKernel {
    /// Its name with its element type: `matmul/naive.f32`.
    pub name: String,
    /// A hash of its SPIR-V and specialization constants: another hash is another program.
    pub hash: String,
    /// What the driver tells of its compilation (`VK_KHR_pipeline_executable_properties`): registers, spills, ….
    #[serde(default)]
    pub statistics: Vec<Metric>,
    /// What `inspect` found beside them; absent where the kernel ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspection>,
}

/// What it takes to create the pipeline of a kernel, and what the driver shows of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Inspection {
    /// Host time to create the pipeline with an empty pipeline cache.
    pub created: Nanos,
    /// The same once that cache has it.
    pub cached: Nanos,
    /// Bytes of shared memory that the kernel declares for a work-group.
    pub shared: Bytes,
    /// The sub-group size that was required of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroup_size: Option<u32>,
    /// The driver's internal representations, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<Representation>,
}

/// A stage of a driver's compiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Representation {
    /// The driver's name for it: `Assembly`, `NIR Shader(s)`.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Representation {
    /// Whether it is what the device executes, not a stage before it.
    #[must_use]
    pub fn is_isa(&self) -> bool {
        let name = self.name.to_lowercase();
        ["assembly", "disassembly", "isa", "sass", "machine code"].iter().any(|word| name.contains(word))
    }
}

impl CompiledKernel {
    /// Its name, or the file of a user's, whose versions have numbers: `sum.comp` of `sum/sum.comp#0`.
    #[must_use]
    pub fn source(&self) -> &str {
        let path = self.name.rsplit_once('#').map(|(path, _)| path);
        path.map_or(&self.name, |path| path.rsplit_once('/').map_or(path, |(_, file)| file))
    }

    /// Whether it is a user's.
    #[must_use]
    pub fn is_users(&self) -> bool {
        self.name.contains('#')
    }
}
