//! A kernel as a driver compiled it.

use crate::basis::metric::Metric;
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
}
