//! `gpukern` measures compute kernels on any Vulkan device: which variant of an algorithm is fastest here, and is
//! its answer right. The binary is a thin shell around this library; `ARCHITECTURE.md` is its map.
//!
//! The names below serve the binary, the tests and the examples. They are no stable interface.

#![warn(missing_docs)]

mod commands;

use gpukern_capture as capture;
use gpukern_engine as engine;
use gpukern_judge::{compare, history};
use gpukern_kernels as kernels;
use gpukern_model::{basis, case, device, stats};
use gpukern_process as process;
use gpukern_program::{algorithms, kernel};
use gpukern_record::{peak, plan, record, tuning};
use gpukern_show::{export, report};
use gpukern_user as user;
use gpukern_vulkan as vulkan;

pub use algorithms::{Algorithm, CaseSpec, Oracle, Problem, Variant};
pub use basis::dtype::{DType, HostArray};
pub use basis::error::{Error, Exit};
pub use basis::handle::Handle;
pub use basis::layout::Layout;
pub use basis::size::Size;
pub use basis::units::Work;
pub use case::check::CheckResult;
pub use case::input::Input;
pub use case::{CaseOptions, Goal, StopRule, StopTest};
pub use commands::cli::Cli;
pub use commands::host::{Host, Printed};
pub use commands::run;
pub use compare::{Settings, compare};
pub use device::cache::CacheFolder;
pub use device::capability::{DeviceInfo, DeviceKind, Feature};
pub use engine::executor::{Observer, Silent};
pub use engine::runner::{Runner, Timing};
pub use engine::workbench::Workbench;
pub use export::Format;
pub use gpukern_simulator as simulator;
pub use kernel::buffer::BufferSpec;
pub use kernel::program::{Program, Step};
pub use kernel::shaders::Shader;
pub use kernels::CATALOGUE;
pub use kernels::matrix::for_factorization;
pub use kernels::shaders::find as find_shader;
pub use plan::axes::AxisValues;
pub use plan::options::Selection;
pub use plan::{PlanSection, Purpose};
pub use record::reader::parse as parse_record;
pub use record::{Case, NamedRecord, Outcome, Record};
pub use report::{html, tables};
pub use simulator::trial::try_kernel;
pub use user::{check_array, check_description, check_expression, check_kernel};
pub use vulkan::{Device, Instance, Validation};

// Names that nearly every command uses.
use basis::input_file;
use basis::printable::{Shown, brief, printable};
use basis::units::{Nanos, about, counted};
use engine::measurement::{LimitPolicy, MeasureOptions, MeasuredPlan};
use engine::session::Setup;
use plan::request::{FieldOptions, Request, VulkanOptions};
use plan::{CaseGroup, Plan};
use tuning::tuned::Tuned;
use user::algorithm::UserKernels;

/// Result of a step of a command; its error ends the command unless a caller adds it to the notes.
type Result<T, E = Error> = std::result::Result<T, E>;
