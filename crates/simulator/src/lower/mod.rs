//! Lowers a SPIR-V module to register code: scalarised, specialised, with functions inlined and blocks in structured
//! order.

mod arithmetic;
mod control;
mod extended;
mod groups;
mod memory;

use crate::alu;
use crate::code::{Code, MemoryPlace, Pc, Reg, RegisterOp};
use crate::kernel::interface::Scalar;
use crate::kernel::lines::Lines;
use crate::module::{Id, Inst, SpirvModule, ValueType};
use memory::Pointer;
use rspirv::spirv::{BuiltIn, Decoration, Op, StorageClass};
use std::cell::OnceCell;
use std::collections::HashMap;

/// Kernel in register code, with what a launch must know.
pub(crate) struct Kernel {
    pub(crate) module: SpirvModule,
    pub(crate) code: Code,
    /// Source lines, decoded for the first report.
    pub(crate) lines: OnceCell<Lines>,
    /// Word in the module of the instruction that each instruction comes from.
    pub(crate) sites: Vec<usize>,
    /// Descriptor slots by index.
    pub(crate) slots: Vec<KernelSlot>,
    /// Registers that hold built-in values, with their number of components.
    pub(crate) builtins: Vec<(BuiltIn, Reg, u32)>,
    /// Variables in shared memory: id, pointee, first byte.
    pub(crate) shared: Vec<SharedVariable>,
    /// Bytes of the narrowest access to memory: 1, 2 or 4.
    pub(crate) granule: u32,
    /// Bytes of shadow state for each of these.
    pub(crate) shadow_bytes: u64,
    /// Rank of each block for lanes that meet behind loops.
    pub(crate) natural_ranks: Vec<u32>,
    /// Rank of each block for lanes that take the other side of a branch first.
    pub(crate) swapped_ranks: Vec<u32>,
    /// Word of the first access to single elements of a cooperative matrix.
    pub(crate) matrix_element: Option<usize>,
}

/// Descriptor slot of a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelSlot {
    pub(crate) set: u32,
    pub(crate) binding: u32,
}

/// Variable in shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedVariable {
    pub(crate) variable: Id,
    pub(crate) ty: Id,
    pub(crate) offset: u64,
}

/// Value of an id during lowering.
#[derive(Clone, Debug)]
enum LoweredValue {
    /// Registers of the scalars, in order.
    Registers(Vec<Reg>),
    /// Pointer whose variable is known.
    Pointer(Pointer),
    /// Texel buffer, by slot.
    Texels(u32),
}

/// Most instructions of a kernel; inlining multiplies them.
const MAX_INSTRUCTIONS: usize = 1 << 21;
/// Most registers in lists of operands and results; a composite's instructions have them all.
const MAX_LISTED: usize = 1 << 26;
/// Most registers of a kernel.
const MAX_REGISTERS: u32 = 1 << 20;

/// Number of a block before blocks are placed.
type Label = u32;

pub(crate) struct Lowerer {
    module: SpirvModule,
    code: Code,
    sites: Vec<usize>,
    /// Word of the instruction that is lowered.
    at: usize,
    /// Values and their types: first those of the module, then those of each function that is being inlined.
    frames: Vec<HashMap<Id, (LoweredValue, Id)>>,
    /// Registers of constants by their bits.
    constants: HashMap<u64, Reg>,
    /// Block of each label, once placed.
    labels: Vec<Option<u32>>,
    slots: Vec<KernelSlot>,
    builtins: Vec<(BuiltIn, Reg, u32)>,
    shared: Vec<SharedVariable>,
    granule: u32,
    matrix_element: Option<usize>,
    /// Instructions of the functions that were inlined, reached or not.
    inlined: usize,
    /// Registers in lists of operands and results.
    listed: usize,
}

/// Lowers the entry point of `module`. The error names the instruction that is not simulated, or invalid.
pub(crate) fn lower(module: SpirvModule) -> Result<Kernel, String> {
    let mut lowerer = Lowerer {
        module,
        code: Code::default(),
        sites: vec![],
        at: 0,
        frames: vec![HashMap::new()],
        constants: HashMap::new(),
        labels: vec![],
        slots: vec![],
        builtins: vec![],
        shared: vec![],
        granule: 4,
        matrix_element: None,
        inlined: 0,
        listed: 0,
    };
    lowerer.lower_module().map_err(|reason| format!("word {} of its module: {reason}", lowerer.at))?;
    lowerer.code.constants = lowerer.constants.into_iter().map(|(bits, register)| (register, bits)).collect();
    crate::recycle::recycle(&mut lowerer.code);
    let has_atomics = lowerer.code.instructions.iter().any(|inst| matches!(inst, RegisterOp::Atomic { .. }));
    Ok(Kernel {
        shadow_bytes: crate::memory::shadow_bytes(has_atomics),
        lines: OnceCell::new(),
        natural_ranks: crate::order::natural_ranks(&lowerer.code),
        swapped_ranks: crate::order::swapped_ranks(&lowerer.code),
        module: lowerer.module,
        code: lowerer.code,
        sites: lowerer.sites,
        slots: lowerer.slots,
        builtins: lowerer.builtins,
        shared: lowerer.shared,
        granule: lowerer.granule,
        matrix_element: lowerer.matrix_element,
    })
}

impl Lowerer {
    fn lower_module(&mut self) -> Result<(), String> {
        let first = self.new_label();
        self.place(first);
        for variable in std::mem::take(&mut self.module.variables) {
            self.at = variable.at;
            self.declare_variable(&variable)?;
        }
        let end = self.new_label();
        self.inline(self.module.entry, &[], &[], end)?;
        self.place(end);
        self.emit(RegisterOp::Finish)?;
        self.resolve_labels()
    }

    /// Gives a module-scope variable its memory or registers.
    fn declare_variable(&mut self, inst: &Inst) -> Result<(), String> {
        let ValueType::Pointer { class, pointee } = *self.module.ty(inst.ty)? else {
            return Err("a variable's type is no pointer".into());
        };
        let value = match class {
            StorageClass::Private | StorageClass::Output => self.private_variable(inst, class, pointee)?,
            StorageClass::Input => self.builtin_variable(inst, pointee)?,
            StorageClass::Workgroup => self.shared_variable(inst, pointee)?,
            StorageClass::PushConstant => LoweredValue::Pointer(Pointer::to(MemoryPlace::Push, class, pointee)),
            StorageClass::StorageBuffer | StorageClass::Uniform | StorageClass::UniformConstant => {
                self.descriptor(inst, class, pointee)?
            }
            _ => return Err(format!("has variables of storage class {class:?}")),
        };
        self.frames[0].insert(inst.result, (value, inst.ty));
        Ok(())
    }

    fn builtin_variable(&mut self, inst: &Inst, pointee: Id) -> Result<LoweredValue, String> {
        let decoration = self.module.decoration(inst.result, Decoration::BuiltIn).and_then(|words| words.first());
        let builtin = decoration.copied().and_then(BuiltIn::from_u32);
        let builtin = builtin.ok_or("has an input that is no built-in")?;
        let count = self.module.scalar_count(pointee)? as u32;
        let first = self.new_registers(count)?;
        self.builtins.push((builtin, first, count));
        Ok(LoweredValue::Pointer(Pointer::private(first, count, StorageClass::Input, pointee)))
    }

    fn shared_variable(&mut self, inst: &Inst, pointee: Id) -> Result<LoweredValue, String> {
        let offset = self.code.shared_bytes.next_multiple_of(16);
        let bytes = self.module.bytes(pointee)?;
        self.code.shared_bytes = offset + bytes;
        if self.code.shared_bytes > 1 << 24 {
            return Err(format!("has {} bytes of shared memory", self.code.shared_bytes));
        }
        self.shared.push(SharedVariable { variable: inst.result, ty: pointee, offset });
        let mut pointer = Pointer::to(MemoryPlace::Shared, StorageClass::Workgroup, pointee);
        pointer.constant = offset;
        pointer.variable = Some(inst.result);
        Ok(LoweredValue::Pointer(pointer))
    }

    /// Returns the value of a variable that a descriptor binds.
    fn descriptor(&mut self, inst: &Inst, class: StorageClass, pointee: Id) -> Result<LoweredValue, String> {
        let number = |decoration| {
            self.module.decoration(inst.result, decoration).and_then(|words| words.first()).copied().unwrap_or(0)
        };
        let (set, binding) = (number(Decoration::DescriptorSet), number(Decoration::Binding));
        let (block, count) = match *self.module.ty(pointee)? {
            ValueType::Array { element, count } => (element, count.min(u64::from(u32::MAX)) as u32),
            ValueType::RuntimeArray { element } => (element, u32::MAX),
            _ => (pointee, 1),
        };
        let slot = self.slots.len() as u32;
        self.slots.push(KernelSlot { set, binding });
        match self.module.ty(block)? {
            ValueType::Texels => Ok(LoweredValue::Texels(slot)),
            ValueType::Opaque(op) => {
                Err(format!("has a descriptor of Op{op:?}; images and samplers are not simulated"))
            }
            _ => {
                let place = MemoryPlace::Slot { slot, count, element: None };
                let mut pointer = Pointer::to(place, class, pointee);
                pointer.selects_descriptor = block != pointee;
                pointer.variable = Some(inst.result);
                Ok(LoweredValue::Pointer(pointer))
            }
        }
    }

    /// Allocates registers for a variable of functions or of the module's private memory, and initializes them.
    fn private_variable(&mut self, inst: &Inst, class: StorageClass, pointee: Id) -> Result<LoweredValue, String> {
        let count = self.module.scalar_count(pointee)? as u32;
        let first = self.new_registers(count)?;
        match inst.operands.get(1) {
            Some(initial) => {
                let values = self.registers(*initial)?;
                if values.len() != count as usize {
                    return Err("initializes a variable with a value of another type".into());
                }
                for (to, from) in (first..).zip(values) {
                    self.emit(RegisterOp::Copy { to, from })?;
                }
            }
            None => self.emit(RegisterOp::Undefine { first, count })?,
        }
        let mut pointer = Pointer::private(first, count, class, pointee);
        pointer.variable = Some(inst.result);
        Ok(LoweredValue::Pointer(pointer))
    }

    fn emit(&mut self, instruction: RegisterOp) -> Result<(), String> {
        let Code { instructions, moves, terms, .. } = &self.code;
        Self::check_count(instructions.len().max(moves.len()).max(terms.len()))?;
        self.code.instructions.push(instruction);
        self.sites.push(self.at);
        Ok(())
    }

    /// Checks a number of instructions, or of what they consist of.
    fn check_count(count: usize) -> Result<(), String> {
        if count < MAX_INSTRUCTIONS {
            return Ok(());
        }
        Err(format!("has more than {MAX_INSTRUCTIONS} operations when its functions are inlined"))
    }

    /// Counts registers in a list.
    fn list(&mut self, count: usize) -> Result<(), String> {
        self.listed = self.listed.saturating_add(count);
        if self.listed > MAX_LISTED { Err("has too many operands".into()) } else { Ok(()) }
    }

    fn new_registers(&mut self, count: u32) -> Result<Reg, String> {
        let first = self.code.registers;
        if count > MAX_REGISTERS - first {
            return Err("has too many values".into());
        }
        self.code.registers += count;
        Ok(first)
    }

    fn new_register(&mut self) -> Result<Reg, String> {
        self.new_registers(1)
    }

    /// Returns a register that holds a constant.
    fn constant(&mut self, bits: u64) -> Result<Reg, String> {
        if let Some(register) = self.constants.get(&bits) {
            return Ok(*register);
        }
        let register = self.new_register()?;
        self.constants.insert(bits, register);
        Ok(register)
    }

    /// Returns the type of a value.
    fn type_of(&self, id: Id) -> Result<Id, String> {
        if let Some((_, ty)) = self.find(id) {
            return Ok(*ty);
        }
        self.module.constant(id).map(|constant| constant.ty).map_err(|_| format!("id %{id} has no value here"))
    }

    fn find(&self, id: Id) -> Option<&(LoweredValue, Id)> {
        let inner = self.frames.last().and_then(|frame| frame.get(&id));
        inner.or_else(|| self.frames[0].get(&id))
    }

    /// Returns the registers of a value's scalars.
    fn registers(&mut self, id: Id) -> Result<Vec<Reg>, String> {
        match self.find(id) {
            Some((LoweredValue::Registers(registers), _)) => {
                let registers = registers.clone();
                self.list(registers.len())?;
                return Ok(registers);
            }
            Some((LoweredValue::Pointer(pointer), _)) => {
                let pointer = pointer.clone();
                return Ok(vec![self.address_of(&pointer)?]);
            }
            Some((LoweredValue::Texels(_), _)) => return Err("uses a texel buffer as a number".into()),
            None => {}
        }
        let constant = self.module.constant(id).map_err(|_| format!("id %{id} has no value here"))?;
        let (scalars, is_undefined, ty) = (constant.scalars.clone(), constant.is_undefined, constant.ty);
        self.list(scalars.len())?;
        if is_undefined {
            return self.undefined(scalars.len() as u32);
        }
        let mut registers = vec![];
        for bits in scalars {
            registers.push(self.constant(bits)?);
        }
        // The next use finds them at once.
        self.frames[0].insert(id, (LoweredValue::Registers(registers.clone()), ty));
        Ok(registers)
    }

    /// Returns new registers with undefined values.
    fn undefined(&mut self, count: u32) -> Result<Vec<Reg>, String> {
        let first = self.new_registers(count)?;
        self.emit(RegisterOp::Undefine { first, count })?;
        Ok((first..first + count).collect())
    }

    /// Returns the register of a value that is one scalar.
    fn register(&mut self, id: Id) -> Result<Reg, String> {
        match self.registers(id)?[..] {
            [register] => Ok(register),
            _ => Err(format!("id %{id} is no scalar")),
        }
    }

    fn define(&mut self, inst: &Inst, registers: Vec<Reg>) -> Result<(), String> {
        let expected = self.module.scalar_count(inst.ty)?;
        if registers.len() as u64 != expected {
            return Err(format!("Op{:?} gives {} numbers, its type has {expected}", inst.op, registers.len()));
        }
        self.list(registers.len())?;
        self.define_value(inst, LoweredValue::Registers(registers));
        Ok(())
    }

    fn define_value(&mut self, inst: &Inst, value: LoweredValue) {
        let frame = self.frames.last_mut().expect("the module's frame stays");
        frame.insert(inst.result, (value, inst.ty));
    }

    /// Emits a scalar operation.
    fn compute(&mut self, op: Op, from: Scalar, to: Scalar, operands: &[Reg]) -> Result<Reg, String> {
        let operation =
            alu::operation(op, from, to).ok_or_else(|| format!("Op{op:?} on {} is not simulated", from.name()))?;
        let error = alu::error_bound(op, from).map(|bound| (bound, to));
        let to =
            self.emit_compute(operation, operands, alu::hazard(op, from, to).map(|hazard| (hazard, from)), error)?;
        if let Some(RegisterOp::Compute { absorbing, .. }) = self.code.instructions.last_mut() {
            *absorbing = alu::absorbing(op, from);
        }
        Ok(to)
    }

    fn emit_compute(
        &mut self,
        operation: crate::code::LaneFunction,
        operands: &[Reg],
        hazard: Option<(crate::code::Hazard, Scalar)>,
        error: Option<(alu::ErrorBound, Scalar)>,
    ) -> Result<Reg, String> {
        let needed = operation.operand_count();
        let Some(operands) = operands.get(..needed) else {
            return Err("has an operation with too few operands".into());
        };
        let to = self.new_register()?;
        // Unused operands repeat the first.
        let mut from = [operands[0]; 4];
        from[..needed].copy_from_slice(operands);
        self.emit(RegisterOp::Compute { operation, to, from, hazard, absorbing: None, error })?;
        Ok(to)
    }

    /// Returns the instruction that lowering has reached, for tests and reports.
    fn pc(&self) -> Pc {
        self.code.instructions.len() as Pc
    }
}
