//! A program on the simulated device: its buffers, its steps and rounds.

use crate::basis::dtype::HostArray;
use crate::basis::units::Bytes;
use crate::fault::{KernelFault, SourcePlace};
use crate::findings::Object;
use crate::kernel::buffer::{BufferId, BufferSpec, Descriptor, FILLER, RED_ZONE, Start, write_addresses};
use crate::kernel::program::{Dispatch, Program, Step};
use crate::lower::{self, Kernel};
use crate::machine::{Bound, Launch, SimulatedDevice, Stopped, address};
use crate::memory::Memory;
use crate::module::SpirvModule;
use crate::report::{FaultReporter, Traces};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

/// How operations with a tolerance compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Rounded to nearest.
    Exact,
    /// Erring by as much as Vulkan allows, chosen by the seed.
    Loose,
}

/// Where lanes that parted meet again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconvergence {
    /// At the merge block of the construct in which they parted, as maximal reconvergence requires.
    AtMerges,
    /// Only behind constructs that all lanes of the sub-group entered.
    Late,
    /// At merge blocks, but blocks that leave a loop run when all lanes have left it.
    BehindLoops,
}

/// Device to simulate, and schedule.
#[derive(Clone, Copy, Debug)]
pub struct SimulationSettings {
    pub subgroup_size: u32,
    /// 0 runs work-groups in order and their sub-groups in step; other seeds choose an order of work-groups and
    /// sub-groups, and a layout of cooperative matrices.
    pub seed: u64,
    /// Ignored by kernels that ask for maximal reconvergence.
    pub reconvergence: Reconvergence,
    pub arithmetic: Arithmetic,
    /// Time at which the simulation gives up.
    pub deadline: Option<Instant>,
}

/// Result of a simulated program.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Contents of the outputs (in-place ones included), in buffer order.
    pub outputs: Vec<HostArray>,
    /// Index of the first element of each output that nothing wrote.
    pub unwritten: Vec<Option<usize>>,
    /// Name of an input that the program changed, although it is no output.
    pub changed_input: Option<String>,
    pub faults: Vec<KernelFault>,
    /// Instructions times active lanes.
    pub lane_operations: u64,
    /// Whether work-groups waited for others, which were assumed to make progress.
    pub assumed_progress: bool,
    /// First access of a kernel to single elements of cooperative matrices.
    pub matrix_element: Option<SourcePlace>,
    /// Exchanges within sub-groups in order, with a hash of the lanes that took part.
    pub exchanges: Vec<(SourcePlace, u64)>,
}

/// Reason why a program was not simulated to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimulationError {
    /// The kernel uses what the simulator lacks, or its module is invalid.
    Unsupported(String),
    /// The deadline passed; the message says how far it came.
    TooLong(String),
    /// The buffers and registers would take too much memory.
    TooLarge(String),
}

/// Most bytes of memory that the buffers of a program and their shadow state may take.
const MAX_BYTES: u64 = 1 << 30;
/// Most bytes of the shadow state, which bytes and halves need more of than words.
const MAX_SHADOW_BYTES: u64 = 3 << 29;
/// Bytes of shadow state for each byte of a buffer, at most: a cell of 40 bytes for every four.
const SHADOW_BYTES: u64 = 12;

/// Runs `program` once on a simulated device. `specs` are the problem's buffers and `inputs` the contents of those that
/// the host fills, in buffer order.
pub fn simulate(
    program: &Program,
    specs: &[BufferSpec],
    inputs: &[HostArray],
    settings: &SimulationSettings,
) -> Result<Simulated, SimulationError> {
    let all: Vec<&BufferSpec> = specs.iter().chain(&program.scratch).collect();
    if let Some(image) = program.images().first() {
        let name = &all[image.0].name;
        return Err(SimulationError::Unsupported(format!("binds {name} as an image; images are not simulated")));
    }
    let bytes = all.iter().fold(0, |sum: u64, spec| sum.saturating_add(spec.bytes().0));
    if bytes.saturating_mul(1 + SHADOW_BYTES) > MAX_BYTES {
        let (buffers, most) = (Bytes(bytes), Bytes(MAX_BYTES / (1 + SHADOW_BYTES)));
        return Err(SimulationError::TooLarge(format!(
            "its buffers have {buffers}; the simulator has room for {most}"
        )));
    }
    let memory = Memory::new(initial_contents(program, specs, inputs));
    let reporter = FaultReporter::new(all.iter().map(|spec| (*spec).clone()).collect());
    let mut run = ProgramRun {
        memory,
        reporter,
        buffer_bytes: all.iter().map(|spec| spec.bytes().0).collect(),
        kernels: HashMap::new(),
        settings: *settings,
        lane_operations: 0,
        assumed_progress: false,
    };
    for start in &program.starts {
        run.write_start(start);
    }
    run.steps(&program.steps)?;
    if let Some(rounds) = &program.rounds {
        for _ in 0..rounds.bound {
            run.steps(&rounds.body)?;
            if run.word(rounds.stop, 0) != 0 {
                break;
            }
        }
    }
    let mut outputs = vec![];
    let mut unwritten = vec![];
    for (number, spec) in specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output()) {
        let mut output = HostArray::zeros(spec.dtype, spec.len as usize);
        let bytes = output.as_bytes_mut();
        bytes.copy_from_slice(&run.memory.bytes(number as u32)[..bytes.len()]);
        let size = spec.dtype.bytes() as usize;
        let first = run.memory.first_undefined(number as u32).filter(|byte| *byte < bytes.len());
        // A value that was written may be undefined, too.
        let element = first.map(|byte| byte / size);
        unwritten.push(element.filter(|at| bytes[at * size..][..size] == filler(number, size as u64)));
        outputs.push(output);
    }
    let (changed_input, faults) = (changed_input(&run.memory, specs, inputs), run.reporter.finish(&run.memory));
    let ProgramRun { lane_operations, assumed_progress, reporter, .. } = run;
    let FaultReporter { matrix_element, exchanges, .. } = reporter;
    Ok(Simulated {
        outputs,
        unwritten,
        changed_input,
        faults,
        lane_operations,
        assumed_progress,
        matrix_element,
        exchanges,
    })
}

/// Names an input that a program changed, although it is no output.
fn changed_input(memory: &Memory, specs: &[BufferSpec], inputs: &[HostArray]) -> Option<String> {
    let read = specs.iter().enumerate().filter(|(_, spec)| spec.role.is_input());
    let changed = read.zip(inputs).find(|((number, spec), input)| {
        let bytes = input.as_bytes();
        !spec.role.is_output() && memory.bytes(*number as u32)[..bytes.len()] != *bytes
    });
    changed.map(|((_, spec), _)| spec.name.to_string())
}

/// Returns what fills this many bytes of a buffer of this number that nothing has written.
fn filler(number: usize, bytes: u64) -> Vec<u8> {
    let word = (FILLER.start() + (number % 0x7f) as u32).to_le_bytes();
    word.iter().copied().cycle().take(bytes as usize).collect()
}

/// Returns the contents of all buffers before the first step, and whether they are defined.
fn initial_contents(program: &Program, specs: &[BufferSpec], inputs: &[HostArray]) -> Vec<(Vec<u8>, bool)> {
    let mut contents = vec![];
    let mut inputs = inputs.iter();
    for (number, spec) in specs.iter().enumerate() {
        let input = if spec.role.is_input() { inputs.next() } else { None };
        contents.push(match input {
            Some(input) => (input.as_bytes().to_vec(), true),
            None => (filler(number, spec.bytes().0), false),
        });
    }
    for (number, spec) in program.scratch.iter().enumerate() {
        // Built-in programs count from the state in which all bits are set.
        contents.push(if program.is_users() {
            (filler(specs.len() + number, spec.bytes().0), false)
        } else {
            (vec![u8::MAX; spec.bytes().0 as usize], true)
        });
    }
    if !program.is_users() {
        // gpukern's buffers have a red zone of poison behind their data, and its own kernels may read it: whether they
        // make use of it shows in the answer.
        for (number, (bytes, _)) in contents.iter_mut().enumerate() {
            bytes.extend(filler(number, RED_ZONE));
        }
    }
    contents
}

/// Program in execution.
struct ProgramRun {
    memory: Memory,
    reporter: FaultReporter,
    buffer_bytes: Vec<u64>,
    /// Kernels by shader, constants and sub-group size: many steps launch the same one.
    kernels: HashMap<String, Rc<Kernel>>,
    settings: SimulationSettings,
    lane_operations: u64,
    assumed_progress: bool,
}

impl ProgramRun {
    fn steps(&mut self, steps: &[Step]) -> Result<(), SimulationError> {
        for step in steps {
            match step {
                Step::Dispatch(dispatch) => self.dispatch(dispatch)?,
                Step::Fill { buffer, word } => self.memory.fill(buffer.0 as u32, *word),
                Step::Copy { from, to } => self.memory.copy(from.0 as u32, to.0 as u32),
            }
        }
        Ok(())
    }

    /// Writes the initial contents of a scratch buffer.
    fn write_start(&mut self, start: &Start) {
        let length = self.buffer_bytes.get(start.buffer.0).copied().unwrap_or(0) as usize;
        let mut bytes: Vec<u8> = start.bytes.iter().copied().cycle().take(length).collect();
        write_addresses(&mut bytes, &start.addresses, &self.addresses());
        self.memory.replace(start.buffer.0 as u32, 0, &bytes);
    }

    fn addresses(&self) -> Vec<u64> {
        (0..self.buffer_bytes.len()).map(address).collect()
    }

    fn word(&self, buffer: BufferId, at: u64) -> u32 {
        let bytes = self.memory.bytes(buffer.0 as u32).get(at as usize..at as usize + 4);
        bytes.map_or(0, |bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn dispatch(&mut self, dispatch: &Dispatch) -> Result<(), SimulationError> {
        let subgroup_size = dispatch.subgroup_size.unwrap_or(self.settings.subgroup_size).max(1);
        let kernel = self.kernel(dispatch, subgroup_size)?;
        let cells = self.buffer_bytes.iter().sum::<u64>() / u64::from(kernel.granule);
        if cells.saturating_mul(kernel.shadow_bytes) > MAX_SHADOW_BYTES {
            let (shadow, most) = (Bytes(cells.saturating_mul(kernel.shadow_bytes)), Bytes(MAX_SHADOW_BYTES));
            return Err(SimulationError::TooLarge(format!(
                "its buffers need shadow state of {shadow}, of at most {most}"
            )));
        }
        let mut groups = dispatch.groups.map(|extent| extent.min(u64::from(u32::MAX)) as u32);
        if let Some((counts, at)) = dispatch.indirect {
            groups = std::array::from_fn(|axis| self.word(counts, at + 4 * axis as u64));
        }
        let launch = Launch {
            groups,
            subgroup_size,
            bindings: self.bindings(&kernel, &dispatch.descriptors),
            buffer_bytes: self.buffer_bytes.clone(),
            push: dispatch.argument_block(&self.addresses()),
            readable_behind: if dispatch.shader.built_in { RED_ZONE } else { 0 },
            seed: self.settings.seed,
            reconvergence: if kernel.module.reconverges_maximally {
                Reconvergence::AtMerges
            } else {
                self.settings.reconvergence
            },
            is_loose: self.settings.arithmetic == Arithmetic::Loose,
            deadline: self.settings.deadline,
        };
        let mut machine = SimulatedDevice::new(&kernel, &mut self.memory, launch);
        let stopped = machine.dispatch();
        self.lane_operations += machine.operations;
        self.assumed_progress |= machine.assumed_progress;
        let exchanges = std::mem::take(&mut machine.exchanges);
        let hazards = std::mem::take(&mut machine.hazards);
        let mut undefined_stores = std::mem::take(&mut machine.undefined_stores);
        undefined_stores.retain(|(object, offset), _| match object {
            Object::Buffer(buffer) => !self.memory.is_defined(*buffer, *offset),
            Object::Shared => false,
        });
        let findings = std::mem::take(&mut self.memory.findings);
        let traces = Traces {
            findings: &findings,
            undefined_stores: &undefined_stores,
            exchanges: &exchanges,
            hazards: &hazards,
        };
        self.reporter.add(dispatch, &kernel, groups, &traces);
        stopped.map_err(|stopped| match stopped {
            Stopped::TooLarge(reason) => SimulationError::TooLarge(reason),
            Stopped::TooLong(reason) => SimulationError::TooLong(reason),
        })
    }

    /// Returns the lowered kernel of a dispatch.
    fn kernel(&mut self, dispatch: &Dispatch, subgroup_size: u32) -> Result<Rc<Kernel>, SimulationError> {
        let key = format!("{} {:?} {subgroup_size}", dispatch.shader.label(), dispatch.constants);
        if let Some(kernel) = self.kernels.get(&key) {
            return Ok(Rc::clone(kernel));
        }
        let kernel =
            SpirvModule::read(&dispatch.shader.words(), &dispatch.constants, subgroup_size).and_then(lower::lower);
        let kernel = kernel.map_err(|reason| {
            SimulationError::Unsupported(format!("the simulator cannot run {}: {reason}", dispatch.shader.label()))
        })?;
        let kernel = Rc::new(kernel);
        self.kernels.insert(key, Rc::clone(&kernel));
        Ok(kernel)
    }

    /// Returns the ranges that descriptors bind to the kernel's slots.
    fn bindings(&self, kernel: &Kernel, descriptors: &[Descriptor]) -> Vec<Vec<Option<Bound>>> {
        let mut bindings = vec![];
        for slot in &kernel.slots {
            let mut elements = vec![];
            for Descriptor { at, .. } in descriptors {
                if (at.set, at.binding) != (slot.set, slot.binding) {
                    continue;
                }
                let element = at.element as usize;
                if elements.len() <= element {
                    elements.resize(element + 1, None);
                }
                let rest = self.buffer_bytes.get(at.buffer.0).copied().unwrap_or(0).saturating_sub(at.offset);
                let length = at.range.map_or(rest, |range| range.min(rest));
                elements[element] = Some(Bound { buffer: at.buffer.0 as u32, offset: at.offset, length });
            }
            bindings.push(elements);
        }
        bindings
    }
}
