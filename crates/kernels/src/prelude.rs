//! Names that most files of this crate use: cases and problems, sizes and types, devices, and the parts of programs.

pub(super) use crate::algorithms::product_tile::{Dims, ProductTile};
pub(super) use crate::algorithms::{Algorithm, CaseSpec, Measures, Oracle, OutputComparison, Problem, Sweeps, Variant};
pub(super) use crate::basis::dtype::{DType, HostArray};
pub(super) use crate::basis::handle::Handle::Static;
pub(super) use crate::basis::layout::Layout;
pub(super) use crate::basis::random::generator;
pub(super) use crate::basis::size::Size;
pub(super) use crate::basis::units::{Bytes, Metric, Nanos, Work};
pub(super) use crate::case::check::{CheckMethod, CheckResult};
pub(super) use crate::case::input::Input;
pub(super) use crate::device::capability::{Accumulator, DeviceInfo, DeviceKind};
pub(super) use crate::kernel::buffer::BufferSpec;
pub(super) use crate::kernel::program::{ArgumentValue, BufferId, Dispatch, Program, Step};
pub(super) use crate::kernel::shaders::Shader;
pub(super) use std::borrow::Cow::Borrowed;
