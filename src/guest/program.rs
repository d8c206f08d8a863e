//! The programs of kernels of the user's.

use crate::device::capability::DeviceInfo;
use crate::kernel::binding::{Bindings, Descriptor, DescriptorKind};
use crate::kernel::buffer::{BufferSpec, RED_ZONE};
use crate::kernel::foreign::Foreign;
use crate::kernel::instructions::instructions;
use crate::kernel::program::{BufferId, Dispatch, Program, Step};
use crate::kernel::shaders::Shader;
use crate::run::job::{self, Buffer, Job, Module, Pass, Point};
use rspirv::spirv::Op;

/// A compiled kernel as the device is given it.
pub(super) struct Kernel {
    pub(super) shader: &'static Shader,
    /// Whether it asks how long the arrays are that it is given.
    asks_lengths: bool,
    /// The sets and bindings that it may write to.
    writable: Vec<(u32, u32)>,
}

impl Kernel {
    /// The kernel of a module, which no other has the name of.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn new(module: &Module, name: String) -> Result<Self, String> {
        let spirv: Vec<u8> = module.spirv.iter().flat_map(|word| word.to_le_bytes()).collect();
        let foreign = Foreign::read(&spirv).map_err(|reason| format!("{}: {reason}", module.name))?;
        let writable = foreign.slots.iter().filter(|(_, slot)| slot.is_writable()).map(|(place, _)| *place).collect();
        let interface = foreign.interface;
        let shader = Shader { name: name.into(), dtype: None, layout: None, spirv: spirv.into(), interface };
        Ok(Self { shader: Box::leak(Box::new(shader)), asks_lengths: asks_lengths(&module.spirv), writable })
    }
}

/// Whether a module has an `OpArrayLength`.
fn asks_lengths(spirv: &[u32]) -> bool {
    instructions(spirv).flatten().any(|own| own.op() == Some(Op::ArrayLength))
}

/// A buffer as programs know it.
pub(super) fn spec(buffer: &'static Buffer) -> BufferSpec {
    BufferSpec { name: &buffer.name, role: buffer.role, dtype: buffer.element, len: buffer.len() }
}

/// The program of a job at a point.
pub(super) fn program(kernels: &[Kernel], point: &'static Point, job: &'static Job, device: &DeviceInfo) -> Program {
    let buffers: Vec<&Buffer> = point.buffers.iter().chain(&job.scratch).collect();
    let steps = job.passes.iter().map(|pass| Step::Dispatch(dispatch(&kernels[pass.module], pass, &buffers, device)));
    let scratch = job.scratch.iter().map(spec).collect();
    Program { steps: steps.collect(), scratch, poisoned: true, ..Program::default() }
}

fn dispatch(kernel: &Kernel, pass: &Pass, buffers: &[&Buffer], device: &DeviceInfo) -> Dispatch {
    let descriptor = |binding: &job::Binding| {
        let bytes = buffers[binding.buffer].bytes();
        // What is written behind the data is to be found in the red zone, where nobody would see it otherwise: robust
        // accesses end with the descriptor. A kernel that asks for lengths is told the true ones.
        let guarded = bytes + RED_ZONE;
        let fits = guarded <= device.limits.storage_buffer_range.0;
        let bytes = match binding.kind {
            DescriptorKind::Storage if fits && !kernel.asks_lengths => guarded,
            DescriptorKind::Storage | DescriptorKind::Uniform => bytes,
        };
        let &job::Binding { set, binding, kind, buffer } = binding;
        let writable = kernel.writable.contains(&(set, binding));
        Descriptor { set, binding, kind, buffer: BufferId(buffer), offset: 0, bytes, writable }
    };
    let (words, others): (Vec<_>, Vec<_>) = pass.constants.iter().partition(|constant| constant.bytes == 4);
    let bindings = Bindings {
        descriptors: pass.bindings.iter().map(descriptor).collect(),
        block: pass.push.clone(),
        addresses: pass.addresses.iter().map(|address| (address.offset, BufferId(address.buffer))).collect(),
        constants: others,
    };
    let mut constants: Vec<_> = words.iter().map(|constant| (constant.id, constant.bits as u32)).collect();
    constants.sort_unstable();
    Dispatch { constants, ..Dispatch::bound(kernel.shader, bindings) }.groups(pass.groups)
}
