//! Control flow: functions inlined, blocks in structured order, phis as moves on edges.

use super::{Label, LoweredValue, Lowerer};
use crate::code::{Edge, Reg, RegisterOp};
use crate::module::{BasicBlock, Function, Id, Inst};
use rspirv::spirv::Op;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Deepest nesting of inlined calls; a module that exceeds it recurses, which shaders must not.
const MAX_DEPTH: usize = 64;

/// Function being inlined.
struct InlinedFunction<'f> {
    labels: HashMap<Id, Label>,
    blocks: HashMap<Id, &'f BasicBlock>,
    /// Registers for the returned value.
    result: &'f [Reg],
    exit: Label,
}

impl Lowerer {
    pub(super) fn new_label(&mut self) -> Label {
        self.labels.push(None);
        self.labels.len() as Label - 1
    }

    /// Begins the block of a label here.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label as usize] = Some(self.code.blocks.len() as u32);
        self.code.blocks.push(self.pc());
        self.code.merges.push(None);
    }

    /// Replaces labels in edges by the numbers of blocks.
    pub(super) fn resolve_labels(&mut self) -> Result<(), String> {
        for instruction in &mut self.code.instructions {
            let edges: Vec<&mut Edge> = match instruction {
                RegisterOp::Jump(edge) => vec![edge],
                RegisterOp::Branch { yes, no, .. } => vec![yes, no],
                RegisterOp::Switch { cases, default, .. } => {
                    cases.iter_mut().map(|(_, edge)| edge).chain([default]).collect()
                }
                _ => continue,
            };
            for edge in edges {
                edge.block = self.labels[edge.block as usize].ok_or("a branch leads to no block")?;
            }
        }
        for merge in &mut self.code.merges {
            *merge = merge.and_then(|label| self.labels[label as usize]);
        }
        Ok(())
    }

    /// Emits a function's body, which is entered from here and leaves its value in the registers `result`, at `exit`.
    pub(super) fn inline(
        &mut self,
        id: Id,
        arguments: &[(LoweredValue, Id)],
        result: &[Reg],
        exit: Label,
    ) -> Result<(), String> {
        if self.frames.len() > MAX_DEPTH {
            return Err("calls functions recursively".into());
        }
        let function = self.module.functions.get(&id).ok_or_else(|| format!("calls %{id}, which is no function"))?;
        let function = Rc::clone(function);
        let words = function.blocks.iter().map(|block| 1 + block.instructions.len()).sum::<usize>();
        self.inlined = self.inlined.saturating_add(words);
        Self::check_count(self.inlined)?;
        let mut values = HashMap::new();
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            values.insert(*parameter, argument.clone());
        }
        self.frames.push(values);
        let mut frame = InlinedFunction { labels: HashMap::new(), blocks: HashMap::new(), result, exit };
        for block in &function.blocks {
            frame.labels.insert(block.label, self.new_label());
            frame.blocks.insert(block.label, block);
            self.allocate_phis(block)?;
        }
        if function.blocks.len() > 1 {
            // Lanes that call a function together meet behind the call, wherever they return.
            let call = self.new_label();
            self.emit(RegisterOp::Jump(Edge { block: call, moves: 0..0 }))?;
            self.place(call);
            if let Some(merge) = self.code.merges.last_mut() {
                *merge = Some(exit);
            }
        }
        let order = structured_order(&function)?;
        let entry = order.first().ok_or("has a function without blocks")?;
        let entry = Edge { block: frame.labels[entry], moves: 0..0 };
        self.emit(RegisterOp::Jump(entry))?;
        for label in order {
            self.place(frame.labels[&label]);
            let merge = frame.blocks[&label].merge.and_then(|merge| frame.labels.get(&merge));
            if let Some(block) = self.code.merges.last_mut() {
                *block = merge.copied();
            }
            self.lower_block(frame.blocks[&label], &frame)?;
            // A call splits a block, whose last part has the branch.
            if let Some(last @ None) = self.code.merges.last_mut() {
                *last = merge.copied();
            }
        }
        self.frames.pop();
        Ok(())
    }

    /// Allocates the registers of a block's phis, which branches to it write.
    fn allocate_phis(&mut self, block: &BasicBlock) -> Result<(), String> {
        for phi in block.instructions.iter().filter(|inst| inst.op == Op::Phi) {
            self.at = phi.at;
            let count = self.module.scalar_count(phi.ty)? as u32;
            let first = self.new_registers(count)?;
            self.define_value(phi, LoweredValue::Registers((first..first + count).collect()));
        }
        Ok(())
    }

    fn lower_block(&mut self, block: &BasicBlock, frame: &InlinedFunction<'_>) -> Result<(), String> {
        let Some((last, body)) = block.instructions.split_last() else {
            return Err(format!("block %{} is empty", block.label));
        };
        for inst in body {
            self.at = inst.at;
            match inst.op {
                Op::Phi => {}
                Op::FunctionCall => self.call(inst)?,
                _ => self.lower_instruction(inst)?,
            }
        }
        self.at = last.at;
        self.lower_terminator(last, block.label, frame)
    }

    fn call(&mut self, inst: &Inst) -> Result<(), String> {
        let mut arguments = vec![];
        for id in inst.rest(1) {
            let ty = self.type_of(*id)?;
            let value = match self.find(*id) {
                Some((value, _)) => value.clone(),
                None => LoweredValue::Registers(self.registers(*id)?),
            };
            arguments.push((value, ty));
        }
        let count = self.module.scalar_count(inst.ty)? as u32;
        let first = self.new_registers(count)?;
        let result: Vec<Reg> = (first..first + count).collect();
        let exit = self.new_label();
        let at = self.at;
        self.inline(inst.operand(0)?, &arguments, &result, exit)?;
        self.at = at;
        self.place(exit);
        self.define_value(inst, LoweredValue::Registers(result));
        Ok(())
    }

    fn lower_terminator(&mut self, inst: &Inst, from: Id, frame: &InlinedFunction<'_>) -> Result<(), String> {
        match inst.op {
            Op::Branch => {
                let edge = self.edge(from, inst.operand(0)?, frame)?;
                self.emit(RegisterOp::Jump(edge))
            }
            Op::BranchConditional => {
                let condition = self.register(inst.operand(0)?)?;
                let yes = self.edge(from, inst.operand(1)?, frame)?;
                let no = self.edge(from, inst.operand(2)?, frame)?;
                self.emit(RegisterOp::Branch { condition, yes, no })
            }
            Op::Switch => {
                let selector_type = self.type_of(inst.operand(0)?)?;
                let mask = crate::module::mask(self.module.scalar(selector_type)?);
                let selector = self.register(inst.operand(0)?)?;
                let default = self.edge(from, inst.operand(1)?, frame)?;
                let mut cases = vec![];
                for case in inst.rest(2).chunks(3) {
                    let &[low, high, target] = case else { return Err("OpSwitch is cut short".into()) };
                    let value = (u64::from(low) | u64::from(high) << 32) & mask;
                    cases.push((value, self.edge(from, target, frame)?));
                }
                self.emit(RegisterOp::Switch { selector, cases, default })
            }
            Op::Return | Op::Kill | Op::TerminateInvocation if frame.result.is_empty() => {
                self.emit(RegisterOp::Jump(Edge { block: frame.exit, moves: 0..0 }))
            }
            Op::ReturnValue => {
                let from = self.registers(inst.operand(0)?)?;
                for (to, from) in frame.result.iter().zip(from) {
                    self.emit(RegisterOp::Copy { to: *to, from })?;
                }
                self.emit(RegisterOp::Jump(Edge { block: frame.exit, moves: 0..0 }))
            }
            Op::Unreachable => self.emit(RegisterOp::Unreachable),
            op => Err(format!("Op{op:?} ends a block, which is not simulated")),
        }
    }

    /// Returns the edge from one block to another, with the moves of the target's phis.
    fn edge(&mut self, from: Id, to: Id, frame: &InlinedFunction<'_>) -> Result<Edge, String> {
        let block = *frame.labels.get(&to).ok_or_else(|| format!("branches to %{to}, which is no block here"))?;
        let mut moves = vec![];
        for phi in frame.blocks[&to].instructions.iter().filter(|inst| inst.op == Op::Phi) {
            self.list(phi.operands.len())?;
            let source = phi.operands.chunks(2).find(|pair| pair.get(1) == Some(&from));
            let source = source.ok_or_else(|| format!("phi %{} has no value for block %{from}", phi.result))?[0];
            let targets = self.registers(phi.result)?;
            moves.extend(targets.into_iter().zip(self.registers(source)?));
        }
        moves.retain(|(to, from)| to != from);
        Self::check_count(self.code.moves.len() + moves.len())?;
        let first = self.code.moves.len() as u32;
        let targets: HashSet<Reg> = moves.iter().map(|(to, _)| *to).collect();
        if moves.iter().any(|(_, from)| targets.contains(from)) {
            // All values move at once: those that a move overwrites go by way of others.
            let temporary = self.new_registers(moves.len() as u32)?;
            for (number, (_, from)) in (temporary..).zip(&mut moves) {
                self.code.moves.push((number, *from));
                *from = number;
            }
        }
        self.code.moves.extend(moves);
        Ok(Edge { block, moves: first..self.code.moves.len() as u32 })
    }
}

/// Orders a function's blocks such that each comes before the blocks that it leads to, back edges aside, the body of a
/// loop before its continue target, and all blocks of a construct before its merge block. Blocks that cannot be reached
/// are left out.
fn structured_order(function: &Function) -> Result<Vec<Id>, String> {
    let blocks: HashMap<Id, &BasicBlock> = function.blocks.iter().map(|block| (block.label, block)).collect();
    let Some(entry) = function.blocks.first() else { return Ok(vec![]) };
    let mut seen = HashSet::from([entry.label]);
    let mut stack = vec![(entry.label, successors(entry))];
    let mut order = vec![];
    // Depth first, merge blocks before everything else, and then in reverse: an explicit stack, because modules can be
    // deep.
    while let Some((label, pending)) = stack.last_mut() {
        let Some(next) = pending.pop() else {
            order.push(*label);
            stack.pop();
            continue;
        };
        if seen.insert(next) {
            let block = blocks.get(&next).ok_or_else(|| format!("branches to %{next}, which is no block here"))?;
            stack.push((next, successors(block)));
        }
    }
    order.reverse();
    Ok(order)
}

/// Returns the blocks that a block leads to, and those that it names as merge and continue blocks, which come last: they
/// are visited first.
fn successors(block: &BasicBlock) -> Vec<Id> {
    let mut targets = vec![];
    if let Some(inst) = block.instructions.last() {
        match inst.op {
            Op::Branch => targets.extend(inst.operands.first()),
            Op::BranchConditional => targets.extend(inst.operands.iter().skip(1).take(2).rev()),
            Op::Switch => {
                targets.extend(inst.operands.get(1));
                targets.extend(inst.rest(2).iter().skip(2).step_by(3).rev());
            }
            _ => {}
        }
    }
    targets.extend(block.continue_target);
    targets.extend(block.merge);
    targets
}
