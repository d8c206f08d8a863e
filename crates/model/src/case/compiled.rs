//! Compiled kernels as a driver reports them.

use crate::basis::units::{Bytes, Metric, Nanos};
use serde::{Deserialize, Serialize};

/// Kernel as compiled for the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Kernel")]
pub struct CompiledKernel {
    /// Name with the element type: `matmul/naive.f32`.
    pub name: String,
    /// Hash of SPIR-V and specialization constants; for a user's kernel also of grid and push constants.
    pub hash: String,
    /// Compilation statistics from the driver (`VK_KHR_pipeline_executable_properties`): registers, spills, ….
    #[serde(default)]
    pub statistics: Vec<Metric>,
    /// Results of `inspect`; absent if the kernel was run instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspection>,
}

/// Results of inspecting a kernel: pipeline creation times and the driver's texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Inspection {
    /// Host time to create the pipeline with an empty pipeline cache: the median of `samples`, if there are any.
    pub created: Nanos,
    /// Times of several compilations, each with an empty cache of its own; absent if one took long, or a driver that keeps
    /// code elsewhere compiled only once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Nanos>,
    /// Host time to create the pipeline a second time, from the pipeline cache.
    pub cached: Nanos,
    /// Bytes of shared memory per work-group that the kernel declares.
    pub shared: Bytes,
    /// Sub-group size required from the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroup_size: Option<u32>,
    /// Driver's internal representations, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<Representation>,
}

/// Output of one stage of the driver's compiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Representation {
    /// Driver's name of the stage: `Assembly`, `NIR Shader(s)`.
    pub name: String,
    /// Text of the representation.
    pub text: String,
}

impl Representation {
    /// Whether the text is machine code, not an earlier stage.
    pub fn is_isa(&self) -> bool {
        let name = self.name.to_lowercase();
        ["assembly", "disassembly", "isa", "sass", "machine code"].iter().any(|word| name.contains(word))
    }
}

impl CompiledKernel {
    /// Returns the kernel's name; for a user's kernel, whose name ends in a number, the file: `sum.comp`.
    pub fn source(&self) -> &str {
        match self.name.rsplit_once('#') {
            Some((path, _)) => path.rsplit_once('/').map_or(path, |(_, file)| file),
            None => &self.name,
        }
    }

    /// Whether it is a user's kernel.
    pub fn is_users(&self) -> bool {
        self.name.contains('#')
    }
}
