//! Determines which buffers a kernel reads and writes by following pointers and addresses through its SPIR-V. Where the
//! analysis fails, it assumes both.

use crate::kernel::instructions::{Instruction, instructions};
use rspirv::spirv::{Decoration, Op, StorageClass};
use std::collections::HashMap;

/// Access of a kernel to a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
pub struct Access {
    pub reads: bool,
    pub writes: bool,
    /// Whether atomic operations change the buffer, as they do counters.
    pub counts: bool,
    /// Whether values of the buffer serve as indices that the kernel does not bound.
    pub indexes: bool,
}

impl Access {
    /// Access to assume without analysis.
    pub const UNKNOWN: Self = Self { reads: true, writes: true, counts: false, indexes: false };
}

/// Origin of a pointer to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Root {
    /// Descriptor, by set and binding.
    Slot(u32, u32),
    /// Address in the push constants, by its offset.
    Address(u32),
}

/// Returns the access of the kernel `words` to the buffer of each root.
pub(super) fn accesses(words: &[u32], roots: &[Root]) -> Vec<Access> {
    let both = || vec![Access::UNKNOWN; roots.len()];
    let Ok(all) = instructions(words).collect::<Result<Vec<_>, _>>() else { return both() };
    if roots.len() > RootSet::BITS as usize {
        return both();
    }
    let mut flow = Flow { roots, ..Flow::default() };
    for instruction in &all {
        flow.declare(*instruction);
    }
    let begin = all.iter().position(|instruction| instruction.op() == Some(Op::Function)).unwrap_or(all.len());
    let (head, body) = all.split_at(begin);
    head.iter()
        .filter(|instruction| instruction.op() == Some(Op::Variable))
        .for_each(|instruction| flow.follow(*instruction));
    // Each pass carries facts one step further against the order of the module.
    for _ in 0..MAX_PASSES {
        flow.changed = false;
        for instruction in body {
            flow.follow(*instruction);
            flow.follow_value(*instruction);
        }
        if !flow.changed {
            let access = |at: usize| {
                let is = |set: RootSet| set >> at & 1 == 1;
                let [reads, writes] = [flow.reads, flow.writes].map(is);
                Access { reads, writes, counts: is(flow.counts), indexes: is(flow.indexes) }
            };
            return (0..roots.len()).map(access).collect();
        }
    }
    both()
}

/// Most passes over a module before the analysis gives up.
const MAX_PASSES: usize = 32;

/// Roots, as a bit mask of their indices.
type RootSet = u128;

/// Pointer into the push constants; without an offset if an index is unknown.
#[derive(Clone, Copy)]
struct PushPointer {
    kind: u32,
    offset: Option<u32>,
}

/// Data-flow analysis of which values point to which buffers. Facts are added until a pass adds none.
#[derive(Default)]
struct Flow<'a> {
    roots: &'a [Root],
    /// Buffers that a value may point to. A local variable, and every pointer into it, stand for the pointers stored in
    /// the variable.
    points: HashMap<u32, RootSet>,
    /// Local variable that a pointer points into.
    locals: HashMap<u32, u32>,
    /// Pointers into the push constants.
    pushed: HashMap<u32, PushPointer>,
    /// Buffers to which the kernel stored pointers in memory.
    stored: RootSet,
    reads: RootSet,
    writes: RootSet,
    /// Buffers that atomic operations change, and buffers that hold indices.
    counts: RootSet,
    indexes: RootSet,
    /// Buffers that a value was read from, or computed from.
    values: HashMap<u32, RootSet>,
    changed: bool,
    types: HashMap<u32, &'a [u32]>,
    constants: HashMap<u32, u32>,
    decorations: HashMap<(u32, Option<u32>, u32), u32>,
    /// Parameters of each function.
    parameters: HashMap<u32, Vec<u32>>,
    /// Sets of debug instructions.
    descriptive: Vec<u32>,
    function: u32,
}

const PUSH_CONSTANT: u32 = StorageClass::PushConstant as u32;
/// Storage classes of variables that are local to an invocation or a work-group.
const LOCAL_CLASSES: [u32; 3] =
    [StorageClass::Function as u32, StorageClass::Private as u32, StorageClass::Workgroup as u32];

impl<'a> Flow<'a> {
    /// Processes a declaration.
    fn declare(&mut self, instruction: Instruction<'a>) {
        let words = instruction.operands();
        match (instruction.op(), words) {
            (Some(Op::Decorate), &[id, kind, value]) => drop(self.decorations.insert((id, None, kind), value)),
            (Some(Op::MemberDecorate), &[id, member, kind, value]) => {
                self.decorations.insert((id, Some(member), kind), value);
            }
            (Some(Op::TypePointer | Op::TypeStruct | Op::TypeArray | Op::TypeVector | Op::TypeMatrix), &[id, ..]) => {
                self.types.insert(id, instruction.words);
            }
            (Some(Op::Constant), &[_, id, value, ..]) => drop(self.constants.insert(id, value)),
            (Some(Op::ExtInstImport), [id, name, ..]) if [*b"NonS", *b"Open"].contains(&name.to_le_bytes()) => {
                self.descriptive.push(*id);
            }
            (Some(Op::Function), &[_, id, ..]) => self.function = id,
            (Some(Op::FunctionParameter), &[_, id]) => self.parameters.entry(self.function).or_default().push(id),
            _ => {}
        }
    }

    /// Returns the storage class of a pointer type.
    fn class(&self, kind: u32) -> Option<u32> {
        let words = self.types.get(&kind)?;
        (words[0] & 0xffff == Op::TypePointer as u32).then(|| words.get(2).copied()).flatten()
    }

    fn bits(&self, is: impl Fn(Root) -> bool) -> RootSet {
        self.roots.iter().enumerate().filter(|(_, root)| is(**root)).fold(0, |set, (at, _)| set | 1 << at)
    }

    /// Returns the variable that represents all pointers into it.
    fn local(&mut self, id: u32) -> u32 {
        let mut last = id;
        while let Some(next) = self.locals.get(&last).filter(|next| **next != last) {
            last = *next;
        }
        // Path compression, as in union-find.
        let mut at = id;
        while at != last {
            at = self.locals.insert(at, last).unwrap_or(last);
        }
        last
    }

    fn get(&mut self, id: u32) -> RootSet {
        let id = self.local(id);
        self.points.get(&id).copied().unwrap_or_default()
    }

    /// Adds what `from` point to, to what `to` points to.
    fn join(&mut self, to: u32, from: &[u32]) {
        let set = from.iter().fold(0, |set, id| set | self.get(*id));
        self.add(to, set);
    }

    fn add(&mut self, id: u32, set: RootSet) {
        let id = self.local(id);
        self.changed |= extend(self.points.entry(id).or_default(), set);
    }

    /// Makes two pointers point into the same variable.
    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.local(a), self.local(b));
        if a != b {
            let set = self.get(b);
            self.locals.insert(b, a);
            self.add(a, set);
            self.changed = true;
        }
    }

    /// Makes `to`, of type `kind`, equal to `from`.
    fn pass(&mut self, kind: u32, to: u32, from: u32) {
        if let Some(push) = self.pushed.get(&from).copied() {
            self.push(to, push);
        } else if self.class(kind).is_some_and(|class| LOCAL_CLASSES.contains(&class)) {
            // A value that is used before its definition is known in the next pass.
            if self.locals.contains_key(&from) {
                self.unite(from, to);
            }
        } else {
            self.join(to, &[from]);
        }
    }

    /// Makes a pointer point into the push constants, at an unknown offset if it pointed elsewhere before.
    fn push(&mut self, id: u32, push: PushPointer) {
        let known = self.pushed.get(&id).copied();
        let offset = push.offset.filter(|offset| known.is_none_or(|known| known.offset == Some(*offset)));
        if known.is_none_or(|known| known.offset != offset) {
            self.pushed.insert(id, PushPointer { offset, ..push });
            self.changed = true;
        }
    }

    /// Follows indices into the push constants.
    fn member(&self, mut at: PushPointer, indices: &[u32]) -> PushPointer {
        let decoration = |id, member, kind: Decoration| self.decorations.get(&(id, member, kind as u32)).copied();
        for index in indices {
            let index = self.constants.get(index).copied();
            let (kind, step) = match self.types.get(&at.kind).copied() {
                Some([head, id, members @ ..]) if head & 0xffff == Op::TypeStruct as u32 => {
                    let member = index.and_then(|index| members.get(index as usize)).copied();
                    (
                        member.unwrap_or_default(),
                        index.and_then(|index| decoration(*id, Some(index), Decoration::Offset)),
                    )
                }
                Some([head, id, element, ..]) if head & 0xffff == Op::TypeArray as u32 => {
                    let stride = decoration(*id, None, Decoration::ArrayStride);
                    (*element, index.zip(stride).and_then(|(index, stride)| index.checked_mul(stride)))
                }
                // Components of a vector hold no addresses.
                Some([_, _, element, ..]) => (*element, None),
                _ => (0, None),
            };
            at = PushPointer { kind, offset: at.offset.zip(step).and_then(|(offset, step)| offset.checked_add(step)) };
        }
        at
    }

    /// Returns the buffers that a value loaded through a pointer may point to.
    fn loaded(&mut self, pointer: u32) -> RootSet {
        if let Some(push) = self.pushed.get(&pointer).copied() {
            let is_whole = self
                .types
                .get(&push.kind)
                .is_some_and(|words| [Op::TypeStruct as u32, Op::TypeArray as u32].contains(&(words[0] & 0xffff)));
            let at = push.offset.filter(|_| !is_whole);
            return self.bits(|root| matches!(root, Root::Address(byte) if at.is_none_or(|at| at == byte)));
        }
        if self.locals.contains_key(&pointer) {
            return self.get(pointer);
        }
        let set = self.get(pointer);
        self.changed |= extend(&mut self.reads, set);
        self.stored
    }

    /// Stores a value that may point to `set` through a pointer.
    fn put(&mut self, pointer: u32, set: RootSet) {
        if self.locals.contains_key(&pointer) {
            return self.add(pointer, set);
        }
        let target = self.get(pointer);
        self.changed |= extend(&mut self.writes, target);
        self.changed |= extend(&mut self.stored, set);
    }

    /// Assumes reads and writes through all pointers among the operands.
    fn both(&mut self, operands: &[u32]) {
        for id in operands {
            let set = if self.locals.contains_key(id) { 0 } else { self.get(*id) };
            self.changed |= extend(&mut self.reads, set);
            self.changed |= extend(&mut self.writes, set);
        }
    }

    /// Follows pointers through an instruction.
    fn follow(&mut self, instruction: Instruction<'a>) {
        let words = instruction.operands();
        let Some(op) = instruction.op() else { return self.both(words) };
        match (op, words) {
            (Op::Variable, &[kind, id, class, ..]) => self.variable(kind, id, class),
            (Op::Function, &[_, id, ..]) => self.function = id,
            (Op::FunctionParameter, &[kind, id]) => self.add_local(kind, id),
            (Op::FunctionCall, [_, id, function, given @ ..]) => self.call(*id, *function, given),
            (Op::ReturnValue, &[id]) => self.join(self.function, &[id]),
            (Op::AccessChain | Op::InBoundsAccessChain, [kind, id, base, indices @ ..]) => {
                match self.pushed.get(base).copied() {
                    Some(push) => self.push(*id, self.member(push, indices)),
                    None => self.pass(*kind, *id, *base),
                }
            }
            (
                Op::PtrAccessChain | Op::InBoundsPtrAccessChain | Op::CopyObject | Op::CopyLogical,
                &[kind, id, base, ..],
            ) => self.pass(kind, id, base),
            (Op::Select, &[kind, id, _, a, b]) => {
                self.pass(kind, id, a);
                self.pass(kind, id, b);
            }
            (Op::Phi, [kind, id, pairs @ ..]) => pairs.chunks(2).for_each(|pair| self.pass(*kind, *id, pair[0])),
            // The further operands are literals, not ids.
            (Op::CompositeExtract, &[_, id, from, ..]) => self.join(id, &[from]),
            (Op::CompositeInsert | Op::VectorShuffle, &[_, id, a, b, ..]) => self.join(id, &[a, b]),
            (Op::Load | Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixLoadNV, &[_, id, pointer, ..]) => {
                let set = self.loaded(pointer);
                self.add(id, set);
            }
            (Op::Store | Op::CooperativeMatrixStoreKHR | Op::CooperativeMatrixStoreNV, &[pointer, value, ..]) => {
                let set = self.get(value);
                self.put(pointer, set);
            }
            (Op::CopyMemory | Op::CopyMemorySized, &[to, from, ..]) => {
                let set = self.loaded(from);
                self.put(to, set);
            }
            (Op::ExtInst, [_, _, set, ..]) if self.descriptive.contains(set) => {}
            (Op::ExtInst, [_, id, _, _, operands @ ..]) => {
                self.join(*id, operands);
                self.both(operands);
            }
            (_, [_, id, operands @ ..]) if is_arithmetic(op) => self.join(*id, operands),
            _ if is_silent(op) => {}
            // Atomics, and other instructions with pointers.
            (_, [_, id, operands @ ..]) => {
                self.join(*id, operands);
                self.both(words);
            }
            _ => self.both(words),
        }
    }

    /// Returns the buffers that a value, or the contents of a local variable, come from.
    fn value(&mut self, id: u32) -> RootSet {
        let id = self.local(id);
        self.values.get(&id).copied().unwrap_or_default()
    }

    fn add_value(&mut self, id: u32, set: RootSet) {
        let id = self.local(id);
        self.changed |= extend(self.values.entry(id).or_default(), set);
    }

    fn join_values(&mut self, to: u32, from: &[u32]) {
        let set = from.iter().fold(0, |set, id| set | self.value(*id));
        self.add_value(to, set);
    }

    /// Follows values of buffers through an instruction, to where they serve as indices.
    fn follow_value(&mut self, instruction: Instruction<'a>) {
        let words = instruction.operands();
        let Some(op) = instruction.op() else { return };
        match (op, words) {
            (
                Op::AccessChain | Op::InBoundsAccessChain | Op::PtrAccessChain | Op::InBoundsPtrAccessChain,
                [_, _, _, indices @ ..],
            ) => {
                let set = indices.iter().fold(0, |set, index| set | self.value(*index));
                self.changed |= extend(&mut self.indexes, set);
            }
            (Op::Load, &[_, id, pointer, ..]) => {
                let is_local = self.locals.contains_key(&pointer);
                let set = if is_local { self.value(pointer) } else { self.get(pointer) };
                self.add_value(id, set);
            }
            (Op::Store, &[pointer, value, ..]) if self.locals.contains_key(&pointer) => {
                self.join_values(pointer, &[value]);
            }
            (Op::FunctionCall, [_, id, function, given @ ..]) => {
                let parameters = self.parameters.get(function).cloned().unwrap_or_default();
                parameters.into_iter().zip(given).for_each(|(to, from)| self.join_values(to, &[*from]));
                self.join_values(*id, &[*function]);
            }
            (Op::ReturnValue, &[id]) => self.join_values(self.function, &[id]),
            (Op::Select, &[_, id, _, a, b]) | (Op::CompositeInsert | Op::VectorShuffle, &[_, id, a, b, ..]) => {
                self.join_values(id, &[a, b]);
            }
            (Op::Phi, [_, id, pairs @ ..]) => {
                pairs.chunks(2).for_each(|pair| self.join_values(*id, &pair[..1]));
            }
            (Op::CompositeExtract | Op::CopyObject, &[_, id, from, ..]) => self.join_values(id, &[from]),
            (Op::ExtInst, [_, id, _, number, operands @ ..]) if !BOUNDING_INSTRUCTIONS.contains(number) => {
                self.join_values(*id, operands);
            }
            (_, &[_, _, pointer, ..]) if is_atomic(op) => {
                let set = self.get(pointer);
                self.changed |= extend(&mut self.counts, set);
            }
            (_, [_, id, operands @ ..]) if is_arithmetic(op) && !is_bounding(op) => self.join_values(*id, operands),
            _ => {}
        }
    }

    fn variable(&mut self, kind: u32, id: u32, class: u32) {
        let place = |decoration: Decoration| self.decorations.get(&(id, None, decoration as u32)).copied();
        if let (Some(set), Some(binding)) = (place(Decoration::DescriptorSet), place(Decoration::Binding)) {
            let bits = self.bits(|root| root == Root::Slot(set, binding));
            self.add(id, bits);
        } else if class == PUSH_CONSTANT {
            let pointee = self.types.get(&kind).and_then(|words| words.get(3)).copied().unwrap_or_default();
            self.push(id, PushPointer { kind: pointee, offset: Some(0) });
        } else {
            self.add_local(kind, id);
        }
    }

    /// Registers a pointer to a local variable.
    fn add_local(&mut self, kind: u32, id: u32) {
        if self.class(kind).is_some_and(|class| LOCAL_CLASSES.contains(&class)) {
            self.locals.entry(id).or_insert(id);
        }
    }

    fn call(&mut self, id: u32, function: u32, given: &[u32]) {
        let parameters = self.parameters.get(&function).cloned().unwrap_or_default();
        for (parameter, argument) in parameters.into_iter().zip(given) {
            if let Some(push) = self.pushed.get(argument).copied() {
                self.push(parameter, push);
            } else if self.locals.contains_key(argument) && self.locals.contains_key(&parameter) {
                self.unite(*argument, parameter);
            } else {
                self.join(parameter, &[*argument]);
            }
        }
        self.join(id, &[function]);
    }
}

/// Adds `set` to `known`; returns whether `known` changed.
fn extend(known: &mut RootSet, set: RootSet) -> bool {
    let before = *known;
    *known |= set;
    *known != before
}

/// Instructions of GLSL.std.450 with a bounded result: `min` and `clamp`.
const BOUNDING_INSTRUCTIONS: [u32; 6] = [37, 38, 39, 43, 44, 45];

/// Returns whether an instruction bounds its result, as taking a digit of a key or comparing does.
fn is_bounding(op: Op) -> bool {
    let part = [
        Op::BitwiseAnd,
        Op::UMod,
        Op::SRem,
        Op::SMod,
        Op::ShiftRightLogical,
        Op::ShiftRightArithmetic,
        Op::BitFieldUExtract,
        Op::BitFieldSExtract,
        Op::BitCount,
    ];
    part.contains(&op) || (Op::LogicalEqual as u32..=Op::FUnordGreaterThanEqual as u32).contains(&(op as u32))
}

/// Returns whether an instruction is an atomic read-modify-write.
fn is_atomic(op: Op) -> bool {
    (Op::AtomicExchange as u32..=Op::AtomicXor as u32).contains(&(op as u32))
        || matches!(op, Op::AtomicFAddEXT | Op::AtomicFMinEXT | Op::AtomicFMaxEXT)
}

/// Returns whether an instruction does not access memory through its operands.
fn is_silent(op: Op) -> bool {
    (Op::LoopMerge as u32..=Op::Unreachable as u32).contains(&(op as u32))
        || matches!(op, Op::Nop | Op::Undef | Op::Line | Op::NoLine | Op::FunctionEnd | Op::ArrayLength)
}

/// Returns whether an instruction only computes a value, for example an address, without accessing memory.
fn is_arithmetic(op: Op) -> bool {
    let number = op as u32;
    (Op::VectorExtractDynamic as u32..=Op::Transpose as u32).contains(&number)
        || (Op::ConvertFToU as u32..=Op::FwidthCoarse as u32).contains(&number)
        || matches!(op, Op::PtrEqual | Op::PtrNotEqual | Op::PtrDiff)
}

#[cfg(test)]
mod tests {
    use super::super::compile::KernelSource;
    use super::*;
    use crate::kernel::interface::{ArgumentKind, Interface};
    use crate::loaded::{bytes, read_interface};
    use std::time::{Duration, Instant};

    fn compiled(ending: &str, text: &str) -> (Vec<u32>, Interface) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!("k.{ending}"));
        std::fs::write(&path, text).expect("written");
        let compiled = KernelSource { path, ..KernelSource::default() }.compile(&[]).expect(text);
        let words = compiled.spirv(&[]).expect("SPIR-V");
        let interface = read_interface(&bytes(&words)).expect("a kernel");
        (words, interface)
    }

    /// Analyzes a kernel; returns the access to each buffer, by set, binding or offset: `r`, `w`, `rw` or `-`.
    fn done(ending: &str, text: &str) -> String {
        let (words, interface) = compiled(ending, text);
        let slots = interface.slots.iter().map(|slot| Root::Slot(slot.set, slot.binding));
        let addresses = interface.arguments.iter().filter(|member| member.kind == ArgumentKind::Address);
        let roots: Vec<Root> = slots.chain(addresses.map(|member| Root::Address(member.offset))).collect();
        let shown = accesses(&words, &roots).into_iter().map(|access| match (access.reads, access.writes) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, true) => "w",
            (false, false) => "-",
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    fn glsl(declarations: &str, body: &str) -> String {
        let head = "#version 460
            #extension GL_EXT_buffer_reference : require
            #extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
            layout(local_size_x = 64) in;
            layout(buffer_reference, std430) buffer Floats { float at[]; };";
        done("comp", &format!("{head}\n{declarations}\nvoid main() {{ uint i = gl_GlobalInvocationID.x; {body} }}"))
    }

    #[test]
    fn accesses_come_from_the_code_not_the_declarations() {
        const ABC: &str = "layout(binding = 0) buffer A { float a[]; }; layout(binding = 1) buffer B { float b[]; };
            layout(binding = 2) buffer C { uint c[]; };";
        for (declared, body, expected) in [
            ("", "b[i] = a[i];", "r w"),
            ("", "b[i] += a[i];", "r rw"),
            ("", "atomicAdd(c[0], uint(a[i]));", "r rw"),
            ("", "if (i < a.length()) b[i] = 1.0;", "- w"),
            ("", "float x[4]; for (int k = 0; k < 4; k++) x[k] = a[k]; b[i] = x[i % 4u];", "r w"),
            ("shared float s[64];", "s[i] = a[i]; barrier(); b[i] = s[63u - i]; c[i] = 1u;", "r w w"),
            ("float get(uint k) { return a[k]; } void put(uint k, float v) { b[k] = v; }", "put(i, get(i));", "r w"),
            ("void two(inout float x, out float y) { y = x; x = 0.0; }", "two(a[i], b[i]);", "rw w"),
            ("float one(in float x) { return x; }", "b[i] = one(a[i]);", "r w"),
            ("", "b[i] = modf(a[i], a[i + 1]);", "rw w"),
            // The same binding under two names.
            ("layout(binding = 0) buffer D { uint d[]; };", "b[i] = a[i]; d[0] = 1u;", "rw w"),
        ] {
            assert_eq!(glsl(&format!("{ABC}{declared}"), body), expected, "{declared} {body}");
        }
        let wgsl = |body: &str| {
            done(
                "wgsl",
                &format!(
                    "struct S {{ n: u32, x: array<f32> }}
                @group(0) @binding(0) var<storage, read_write> a: array<vec4<f32>>;
                @group(0) @binding(1) var<storage, read_write> b: S;
                @group(1) @binding(0) var<storage, read_write> c: array<atomic<u32>>;
                fn put(p: ptr<function, f32>) {{ b.x[0] = *p; }}
                @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {{ {body} }}"
                ),
            )
        };
        // naga leaves out unused variables.
        assert_eq!(wgsl("b.x[i] = a[i].x;"), "r w");
        assert_eq!(wgsl("var f = a[i].x; put(&f);"), "r w");
        assert_eq!(wgsl("let p = &a[i]; (*p).y = 1.0; atomicStore(&c[0], b.n);"), "w r rw");
        assert_eq!(wgsl("if i < arrayLength(&b.x) { a[i] = vec4(0.0); }"), "w -");
    }

    #[test]
    fn indices_and_counters_are_recognized() {
        const ABC: &str = "layout(binding = 0) buffer A { uint a[]; }; layout(binding = 1) buffer B { float b[]; };
            layout(binding = 2) buffer C { uint c[]; };";
        for (declared, body, indexes, counts) in [
            ("", "b[i] = b[a[i]];", "A", ""),
            ("", "uint k = a[i] + 1u; b[k] = 1.0;", "A", ""),
            ("uint at(uint k) { return 2u * a[k]; }", "b[at(i)] = 1.0;", "A", ""),
            ("", "float s = 0.0; for (uint k = a[i]; k < a[i + 1u]; k++) s += b[k]; b[i] = s;", "A", ""),
            ("", "if (a[i] > 0u) b[i] = 1.0;", "", ""),
            // A digit of a key, and bounded values.
            ("", "atomicAdd(c[(a[i] >> 8) & 255u], 1u);", "", "C"),
            ("", "c[min(a[i], 7u)] = c[a[i] % 8u];", "", ""),
            ("", "atomicAdd(c[a[i]], 1u);", "A", "C"),
        ] {
            let head = "#version 460\nlayout(local_size_x = 64) in;";
            let text = format!("{head}\n{ABC}{declared}\nvoid main() {{ uint i = gl_GlobalInvocationID.x; {body} }}");
            let (words, _) = compiled("comp", &text);
            let found = accesses(&words, &[0, 1, 2].map(|at| Root::Slot(0, at)));
            let named = |is: fn(&Access) -> bool| {
                found
                    .iter()
                    .zip(["A", "B", "C"])
                    .filter(|(access, _)| is(access))
                    .map(|(_, name)| name)
                    .collect::<String>()
            };
            assert_eq!(
                [named(|access| access.indexes), named(|access| access.counts)],
                [indexes, counts],
                "{declared} {body}"
            );
        }
    }

    #[test]
    fn addresses_are_followed_through_variables_functions_structures_and_arithmetic() {
        const PUSH: &str = "layout(push_constant) uniform P { uint n; Floats A; Floats B; uint64_t C; } p;";
        for (declared, body, expected) in [
            ("", "p.B.at[i] = p.A.at[i];", "r w"),
            ("", "Floats f = p.A; f.at[i] = 1.0; Floats g = p.B; f.at[i] += g.at[i];", "rw r"),
            ("", "Floats f = i < 7u ? p.A : p.B; f.at[i] = 0.0;", "w w"),
            ("", "Floats f = p.A; if (i > 3u) f = p.B; p.A.at[0] = f.at[i];", "rw r"),
            ("", "Floats f = Floats(uint64_t(p.A) + 4ul * i); f.at[0] = p.B.at[i];", "w r"),
            ("float get(Floats f, uint k) { return f.at[k]; }", "p.B.at[i] = get(p.A, i);", "r w"),
            (
                "float get(Floats f, uint k) { return f.at[k]; } void put(Floats f, uint k, float v) { f.at[k] = v; }",
                "put(p.B, i, get(p.A, i));",
                "r w",
            ),
            (
                "struct Pair { Floats x; Floats y; }; void go(Pair q, uint k) { q.y.at[k] = 1.0; }",
                "Pair q; q.x = p.A; q.y = p.A; go(q, i); p.B.at[i] = 1.0;",
                "w w",
            ),
            ("", "Floats f = Floats(p.C); f.at[i] = p.A.at[i];", "r -"),
        ] {
            assert_eq!(glsl(&format!("{PUSH}{declared}"), body), expected, "{declared} {body}");
        }
        // An address loaded from memory may be any that was stored there.
        let memory = "layout(binding = 0) buffer T { uint64_t t[]; };";
        assert_eq!(glsl(&format!("{PUSH}{memory}"), "t[i] = uint64_t(p.A); Floats(t[0]).at[i] = 1.0;"), "rw w -");
        let arrays = "layout(push_constant) uniform P { Floats A[2]; Floats B; } p;";
        assert_eq!(glsl(arrays, "p.A[1].at[i] = p.B.at[i];"), "- w r");
        assert_eq!(glsl(arrays, "p.A[i & 1u].at[i] = p.A[0].at[i];"), "rw w w");
    }

    #[test]
    fn damaged_and_huge_modules_are_analyzed_quickly() {
        let roots = [Root::Slot(0, 0), Root::Address(0)];
        let text = "#version 460\nlayout(local_size_x = 1) in; layout(binding = 0) buffer A { float a[]; };
            float f(inout float x) { x += a[0]; return x; }
            void main() { float x = 1.0; a[1] = f(x) + f(a[2]); }";
        let (words, _) = compiled("comp", text);
        for at in 0..words.len() {
            for other in [0, words[at] ^ 1, words[at] ^ 1 << 16, words[at.max(1) - 1], u32::MAX] {
                let mut hostile = words.clone();
                hostile[at] = other;
                let _ = accesses(&hostile, &roots);
            }
        }
        // Pointers used before their definitions, each defined by the next.
        let mut words = vec![0x0723_0203, 0x1_0500, 0, 1 << 20, 0];
        words.extend([0x4_0020, 2, StorageClass::Function as u32, 1, 0x5_0036, 1, 3, 0, 1]);
        words.extend((10..300_000).flat_map(|id| [0x4_0053, 2, id, id + 1]));
        words.extend([0x4_003b, 2, 300_000, StorageClass::Function as u32, 0x1_0038]);
        let start = Instant::now();
        assert_eq!(accesses(&words, &roots).len(), 2);
        assert_eq!(accesses(&words, &[roots[0]; 200])[199], Access::UNKNOWN, "too many to follow");
        assert!(start.elapsed() < Duration::from_secs(300), "{:?}", start.elapsed());
    }
}
