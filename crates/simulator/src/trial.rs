//! A trial of any module, for fuzzing.

use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle;
use crate::kernel::buffer::{Address, Binding, BufferId, BufferSpec, Descriptor, Role};
use crate::kernel::interface::{ArgumentKind, Interface};
use crate::kernel::program::{Dispatch, Program};
use crate::kernel::shaders::Shader;
use crate::program::{Arithmetic, Reconvergence, SimulationError, SimulationSettings, simulate};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a trial.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Most bytes of push constants.
const MAX_PUSH: usize = 4096;

/// Runs a kernel with buffers at every slot and address, and 16 for every number. Sub-group size and schedule follow from
/// the length of the module.
///
/// # Errors
/// The module is no kernel, or uses what the simulator lacks.
pub fn try_kernel(spirv: &[u8]) -> Result<(), String> {
    let interface = Interface::read(spirv)?;
    let roles = [Role::Input, Role::Output, Role::InPlace];
    let specs = roles.map(|role| BufferSpec::new("a buffer", role, DType::F32, 1 << 12));
    let inputs: Vec<HostArray> = vec![HostArray::zeros(DType::F32, 1 << 12); 2];
    let mut addresses = vec![];
    let mut push = vec![0; (interface.argument_bytes() as usize).min(MAX_PUSH)];
    for (index, argument) in interface.arguments.iter().enumerate() {
        let buffer = BufferId(index % specs.len());
        let begin = argument.offset as usize;
        let Some(bytes) = push.get_mut(begin..begin.saturating_add(argument.kind.bytes() as usize)) else { continue };
        match argument.kind {
            ArgumentKind::Address => addresses.push(Address { offset: argument.offset, buffer, skipped: 0 }),
            ArgumentKind::Scalar(_) => bytes[0] = 16,
        }
    }
    let slots = interface.slots.iter().enumerate().filter(|(_, slot)| slot.element < 16);
    let descriptors = slots.map(|(index, slot)| {
        let whole = Binding::whole(slot.set, slot.binding, slot.kind, BufferId(index % specs.len()));
        Descriptor { at: Binding { element: slot.element, ..whole }, bytes: None }
    });
    let descriptors = descriptors.collect();
    let spirv = spirv.to_vec();
    let (subgroup_size, seed) = ([1, 4, 32, 128][spirv.len() / 4 % 4], spirv.len() as u64 / 16 % 3);
    let shader = Shader {
        name: "a kernel".into(),
        dtype: None,
        layout: None,
        spirv: spirv.into(),
        line_table: vec![].into(),
        interface,
        built_in: false,
    };
    let bare: Dispatch = Dispatch::bare(Handle::Shared(Arc::new(shader)));
    let dispatch = Dispatch { push, addresses, descriptors, ..bare.groups([2, 1, 1]) };
    let reconvergence = [Reconvergence::AtMerges, Reconvergence::Late, Reconvergence::BehindLoops][seed as usize];
    let deadline = Instant::now().checked_add(TIMEOUT);
    let settings = SimulationSettings { subgroup_size, seed, reconvergence, arithmetic: Arithmetic::Loose, deadline };
    match simulate(&Program::single(dispatch), &specs, &inputs, &settings) {
        Err(SimulationError::Unsupported(reason)) => Err(reason),
        // A limit is a valid answer.
        Err(SimulationError::TooLong(_) | SimulationError::TooLarge(_)) | Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rspirv::spirv::Op;

    /// Ids of `main`, void, its function type, `uint`, and the constants 2 and 264.
    const MAIN: u32 = 1;
    const VOID: u32 = 2;
    const FUNCTION: u32 = 3;
    const UINT: u32 = 4;
    const TWO: u32 = 5;
    const ORDER: u32 = 6;

    /// Makes a module of the instructions before `main` and in it; ids from 7 on are free.
    fn module(before: &[(Op, &[u32])], body: &[(Op, &[u32])]) -> Vec<u8> {
        let head: [(Op, &[u32]); 9] = [
            (Op::Capability, &[1]),
            (Op::MemoryModel, &[0, 1]),
            (Op::EntryPoint, &[5, MAIN, u32::from_le_bytes(*b"main"), 0]),
            (Op::ExecutionMode, &[MAIN, 17, 4, 1, 1]),
            (Op::TypeVoid, &[VOID]),
            (Op::TypeFunction, &[FUNCTION, VOID]),
            (Op::TypeInt, &[UINT, 32, 0]),
            (Op::Constant, &[UINT, TWO, 2]),
            (Op::Constant, &[UINT, ORDER, 0x108]),
        ];
        let begin: [(Op, &[u32]); 2] = [(Op::Function, &[VOID, MAIN, 0, FUNCTION]), (Op::Label, &[7])];
        let mut words = vec![0x0723_0203, 0x1_0600, 0, 100, 0];
        for (op, operands) in head.iter().chain(before).chain(&begin).chain(body).chain(&[(Op::FunctionEnd, &[][..])]) {
            words.push((operands.len() as u32 + 1) << 16 | *op as u32);
            words.extend(*operands);
        }
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn hostile_modules_end_in_answers() {
        let endless = module(
            &[],
            &[(Op::Branch, &[8]), (Op::Label, &[8]), (Op::ControlBarrier, &[TWO, TWO, ORDER]), (Op::Branch, &[8])],
        );
        assert_eq!(try_kernel(&endless), Ok(()));
        let contains_itself = module(
            &[
                (Op::TypeStruct, &[8, UINT]),
                (Op::TypeStruct, &[9, 8]),
                (Op::TypeStruct, &[8, 9]),
                (Op::TypePointer, &[10, 4, 8]),
                (Op::Variable, &[10, 11, 4]),
            ],
            &[(Op::Load, &[8, 12, 11]), (Op::Return, &[])],
        );
        let reason = "the simulator cannot run a kernel: type %8 is declared twice";
        assert_eq!(try_kernel(&contains_itself), Err(reason.into()));
        // The registers behind the variable's are others', or none.
        let too_long = module(
            &[
                (Op::TypeArray, &[8, UINT, ORDER]),
                (Op::ConstantNull, &[8, 9]),
                (Op::TypePointer, &[10, 6, UINT]),
                (Op::Variable, &[10, 11, 6, 9]),
            ],
            &[(Op::Store, &[11, TWO]), (Op::Return, &[])],
        );
        let reason = try_kernel(&too_long).expect_err("the value does not fit");
        assert!(reason.ends_with("initializes a variable with a value of another type"), "{reason}");
    }
}
