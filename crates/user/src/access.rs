//! Determines which buffers a kernel reads and writes by following pointers and addresses through its SPIR-V. Where the
//! analysis fails, it assumes both.

use crate::kernel::instructions::{Instruction, instructions, is_atomic_update};
use rspirv::spirv::{Decoration, Op, StorageClass};
use std::collections::{HashMap, HashSet};

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

    /// Adds the reads and writes of another access to the same buffer.
    pub fn join(&mut self, other: Self) {
        self.reads |= other.reads;
        self.writes |= other.writes;
    }
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
    let unknown = vec![Access::UNKNOWN; roots.len()];
    let Ok(all) = instructions(words).collect::<Result<Vec<_>, _>>() else { return unknown };
    if roots.len() > RootSet::BITS as usize {
        return unknown;
    }
    let mut flow = Flow { roots, ..Flow::default() };
    for instruction in &all {
        flow.declare(*instruction);
    }
    let body = all.iter().position(|instruction| instruction.op() == Some(Op::Function)).unwrap_or(all.len());
    for instruction in &all[..body] {
        if instruction.op() == Some(Op::Variable) {
            flow.follow_pointers(*instruction);
        }
    }
    // Within a pass, facts travel along the order of the module; against it, they travel one step further per pass.
    for _ in 0..MAX_PASSES {
        flow.changed = false;
        for instruction in &all[body..] {
            flow.follow_pointers(*instruction);
            flow.follow_values(*instruction);
        }
        if !flow.changed {
            return (0..roots.len()).map(|root| flow.access(root)).collect();
        }
    }
    unknown
}

/// Most passes over a module before the analysis gives up.
const MAX_PASSES: usize = 32;

/// Roots, as a bit mask of their indices.
type RootSet = u128;

/// Pointer into the push constants.
#[derive(Clone, Copy)]
struct PushPointer {
    /// Id of the type that it points to.
    pointee: u32,
    /// Bytes from the start of the push constants; `None` if an index is unknown.
    offset: Option<u32>,
}

/// Data-flow analysis of the buffers that values point to and come from. Maps are keyed by result ids of SPIR-V. Facts are
/// only added, so the analysis is complete when a pass over the module adds none.
#[derive(Default)]
struct Flow<'a> {
    roots: &'a [Root],
    /// Buffers that a value may point to. A local variable, and every pointer into it, stand for the pointers stored in
    /// the variable.
    pointer_targets: HashMap<u32, RootSet>,
    /// Buffers that a value was read from, or computed from.
    value_origins: HashMap<u32, RootSet>,
    /// Local variable that a pointer points into, directly or by further entries, as in a union-find forest.
    locals: HashMap<u32, u32>,
    push_pointers: HashMap<u32, PushPointer>,
    /// Buffers to which the kernel stored pointers in memory.
    stored_targets: RootSet,
    reads: RootSet,
    writes: RootSet,
    /// Buffers that atomic operations change.
    counts: RootSet,
    /// Buffers that hold indices.
    indexes: RootSet,
    /// Whether this pass over the module added a fact.
    changed: bool,
    /// Instructions that declare the types.
    types: HashMap<u32, &'a [u32]>,
    /// Types of images.
    images: HashSet<u32>,
    constants: HashMap<u32, u32>,
    /// Values of decorations by id, member and decoration.
    decorations: HashMap<(u32, Option<u32>, u32), u32>,
    /// Parameters of each function.
    parameters: HashMap<u32, Vec<u32>>,
    /// Sets of debug instructions.
    descriptive: Vec<u32>,
    /// Function that the current instruction belongs to.
    function: u32,
}

const PUSH_CONSTANT: u32 = StorageClass::PushConstant as u32;

/// Storage classes of variables that are local to an invocation or a work-group.
pub(super) const LOCAL_CLASSES: [u32; 3] =
    [StorageClass::Function as u32, StorageClass::Private as u32, StorageClass::Workgroup as u32];

impl<'a> Flow<'a> {
    /// Notes what the analysis needs of a declaration.
    fn declare(&mut self, instruction: Instruction<'a>) {
        let words = instruction.operands();
        match (instruction.op(), words) {
            (Some(Op::Decorate), &[id, kind, value]) => drop(self.decorations.insert((id, None, kind), value)),
            (Some(Op::MemberDecorate), &[id, member, kind, value]) => {
                self.decorations.insert((id, Some(member), kind), value);
            }
            (Some(Op::TypeImage | Op::TypeSampledImage), &[id, ..]) => drop(self.images.insert(id)),
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

    /// Returns the access to a root, by index.
    fn access(&self, root: usize) -> Access {
        let [reads, writes, counts, indexes] =
            [self.reads, self.writes, self.counts, self.indexes].map(|set| set >> root & 1 == 1);
        Access { reads, writes, counts, indexes }
    }

    fn roots_where(&self, is_wanted: impl Fn(Root) -> bool) -> RootSet {
        let mut set = 0;
        for (index, root) in self.roots.iter().enumerate() {
            set |= RootSet::from(is_wanted(*root)) << index;
        }
        set
    }

    /// Returns the variable that represents all pointers into it.
    fn find_local(&mut self, id: u32) -> u32 {
        let mut last = id;
        while let Some(next) = self.locals.get(&last).filter(|next| **next != last) {
            last = *next;
        }
        // Path compression, as in union-find.
        let mut current = id;
        while current != last {
            current = self.locals.insert(current, last).unwrap_or(last);
        }
        last
    }

    /// Returns the buffers that a value may point to.
    fn pointees(&mut self, id: u32) -> RootSet {
        let id = self.find_local(id);
        self.pointer_targets.get(&id).copied().unwrap_or_default()
    }

    /// Makes `to` point to every buffer that `from` point to.
    fn join_pointees(&mut self, to: u32, from: &[u32]) {
        let set = from.iter().fold(0, |set, id| set | self.pointees(*id));
        self.add_pointees(to, set);
    }

    fn add_pointees(&mut self, id: u32, set: RootSet) {
        let id = self.find_local(id);
        self.changed |= extend(self.pointer_targets.entry(id).or_default(), set);
    }

    /// Makes two pointers point into the same variable.
    fn unite(&mut self, a: u32, b: u32) {
        let a = self.find_local(a);
        let b = self.find_local(b);
        if a != b {
            let set = self.pointees(b);
            self.locals.insert(b, a);
            self.add_pointees(a, set);
            self.changed = true;
        }
    }

    /// Makes `to`, of type `kind`, equal to `from`.
    fn copy_pointer(&mut self, kind: u32, to: u32, from: u32) {
        if let Some(push) = self.push_pointers.get(&from).copied() {
            self.set_push_pointer(to, push);
        } else if self.is_local(kind) {
            // A value that is used before its definition is known in the next pass.
            if self.locals.contains_key(&from) {
                self.unite(from, to);
            }
        } else {
            self.join_pointees(to, &[from]);
        }
    }

    /// Makes a pointer point into the push constants, at an unknown offset if it pointed elsewhere before.
    fn set_push_pointer(&mut self, id: u32, push: PushPointer) {
        let mut joined = push;
        if let Some(earlier) = self.push_pointers.get(&id) {
            if earlier.offset != push.offset {
                joined.offset = None;
            }
            if earlier.offset == joined.offset {
                return;
            }
        }
        self.push_pointers.insert(id, joined);
        self.changed = true;
    }

    /// Follows the indices of an access chain into the push constants.
    fn follow_indices(&self, base: PushPointer, indices: &[u32]) -> PushPointer {
        let decoration = |id, member, kind: Decoration| self.decorations.get(&(id, member, kind as u32)).copied();
        let mut pointer = base;
        for index in indices {
            let index = self.constants.get(index).copied();
            let mut step = None;
            pointer.pointee = match self.types.get(&pointer.pointee).copied() {
                Some([head, id, members @ ..]) if head & 0xffff == Op::TypeStruct as u32 => {
                    step = index.and_then(|index| decoration(*id, Some(index), Decoration::Offset));
                    index.and_then(|index| members.get(index as usize)).copied().unwrap_or_default()
                }
                Some([head, id, element, ..]) if head & 0xffff == Op::TypeArray as u32 => {
                    let stride = decoration(*id, None, Decoration::ArrayStride);
                    step = index.zip(stride).and_then(|(index, stride)| index.checked_mul(stride));
                    *element
                }
                // Components of a vector hold no addresses.
                Some([_, _, element, ..]) => *element,
                _ => 0,
            };
            pointer.offset = pointer.offset.zip(step).and_then(|(offset, step)| offset.checked_add(step));
        }
        pointer
    }

    /// Returns the buffers that a value loaded through a pointer may point to.
    fn load(&mut self, pointer: u32) -> RootSet {
        if let Some(push) = self.push_pointers.get(&pointer).copied() {
            // A structure or an array may hold any of the addresses.
            let op = self.types.get(&push.pointee).map(|words| words[0] & 0xffff);
            let is_whole = op == Some(Op::TypeStruct as u32) || op == Some(Op::TypeArray as u32);
            return self.roots_where(|root| match root {
                Root::Address(offset) => is_whole || push.offset.is_none_or(|pushed| pushed == offset),
                Root::Slot(..) => false,
            });
        }
        if self.locals.contains_key(&pointer) {
            return self.pointees(pointer);
        }
        let set = self.pointees(pointer);
        self.changed |= extend(&mut self.reads, set);
        self.stored_targets
    }

    /// Stores a value that may point to the buffers `set` through a pointer.
    fn store(&mut self, pointer: u32, set: RootSet) {
        if self.locals.contains_key(&pointer) {
            return self.add_pointees(pointer, set);
        }
        let target = self.pointees(pointer);
        self.changed |= extend(&mut self.writes, target);
        self.changed |= extend(&mut self.stored_targets, set);
    }

    /// Assumes reads and writes through all pointers among the operands.
    fn access_all(&mut self, operands: &[u32]) {
        for id in operands {
            let set = if self.locals.contains_key(id) { 0 } else { self.pointees(*id) };
            self.changed |= extend(&mut self.reads, set);
            self.changed |= extend(&mut self.writes, set);
        }
    }

    /// Follows images through an instruction; returns whether it loads or accesses one. The value of an image stands for
    /// its buffer, as a pointer does.
    fn follow_image(&mut self, op: Op, words: &[u32]) -> bool {
        match (op, words) {
            (Op::Load, &[kind, id, image, ..]) if self.images.contains(&kind) => self.join_pointees(id, &[image]),
            (Op::Image | Op::SampledImage | Op::ImageTexelPointer, &[_, id, image, ..]) => {
                self.join_pointees(id, &[image]);
            }
            (Op::ImageWrite, &[image, ..]) => {
                let set = self.pointees(image);
                self.changed |= extend(&mut self.writes, set);
            }
            (_, &[_, _, image, ..]) if reads_image(op) => {
                let set = self.pointees(image);
                self.changed |= extend(&mut self.reads, set);
            }
            _ => return false,
        }
        true
    }

    /// Follows pointers through an instruction.
    fn follow_pointers(&mut self, instruction: Instruction<'a>) {
        let words = instruction.operands();
        let Some(op) = instruction.op() else { return self.access_all(words) };
        if self.follow_image(op, words) {
            return;
        }
        match (op, words) {
            (Op::Variable, &[kind, id, class, ..]) => self.declare_variable(kind, id, class),
            (Op::Function, &[_, id, ..]) => self.function = id,
            (Op::FunctionParameter, &[kind, id]) => self.add_local(kind, id),
            (Op::FunctionCall, [_, id, function, arguments @ ..]) => self.call_function(*id, *function, arguments),
            (Op::ReturnValue, &[id]) => self.join_pointees(self.function, &[id]),
            (Op::AccessChain | Op::InBoundsAccessChain, [kind, id, base, indices @ ..]) => {
                match self.push_pointers.get(base).copied() {
                    Some(push) => self.set_push_pointer(*id, self.follow_indices(push, indices)),
                    None => self.copy_pointer(*kind, *id, *base),
                }
            }
            (
                Op::PtrAccessChain | Op::InBoundsPtrAccessChain | Op::CopyObject | Op::CopyLogical,
                &[kind, id, base, ..],
            ) => self.copy_pointer(kind, id, base),
            (Op::Select, &[kind, id, _, a, b]) => {
                self.copy_pointer(kind, id, a);
                self.copy_pointer(kind, id, b);
            }
            (Op::Phi, [kind, id, pairs @ ..]) => {
                pairs.chunks(2).for_each(|pair| self.copy_pointer(*kind, *id, pair[0]));
            }
            // The further operands are literals, not ids.
            (Op::CompositeExtract, &[_, id, from, ..]) => self.join_pointees(id, &[from]),
            (Op::CompositeInsert | Op::VectorShuffle, &[_, id, a, b, ..]) => self.join_pointees(id, &[a, b]),
            (Op::Load | Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixLoadNV, &[_, id, pointer, ..]) => {
                let set = self.load(pointer);
                self.add_pointees(id, set);
            }
            (Op::Store | Op::CooperativeMatrixStoreKHR | Op::CooperativeMatrixStoreNV, &[pointer, value, ..]) => {
                let set = self.pointees(value);
                self.store(pointer, set);
            }
            (Op::CopyMemory | Op::CopyMemorySized, &[to, from, ..]) => {
                let set = self.load(from);
                self.store(to, set);
            }
            (Op::ExtInst, [_, _, set, ..]) if self.descriptive.contains(set) => {}
            (Op::ExtInst, [_, id, _, _, operands @ ..]) => {
                self.join_pointees(*id, operands);
                self.access_all(operands);
            }
            (_, [_, id, operands @ ..]) if is_arithmetic(op) => self.join_pointees(*id, operands),
            _ if is_silent(op) => {}
            // Atomics, and other instructions with pointers.
            (_, [_, id, operands @ ..]) => {
                self.join_pointees(*id, operands);
                self.access_all(words);
            }
            _ => self.access_all(words),
        }
    }

    /// Returns the buffers that a value, or the contents of a local variable, were computed from.
    fn origins(&mut self, id: u32) -> RootSet {
        let id = self.find_local(id);
        self.value_origins.get(&id).copied().unwrap_or_default()
    }

    fn add_origins(&mut self, id: u32, set: RootSet) {
        let id = self.find_local(id);
        self.changed |= extend(self.value_origins.entry(id).or_default(), set);
    }

    fn join_origins(&mut self, to: u32, from: &[u32]) {
        let set = from.iter().fold(0, |set, id| set | self.origins(*id));
        self.add_origins(to, set);
    }

    /// Follows values of buffers through an instruction, to the indices that they become.
    fn follow_values(&mut self, instruction: Instruction<'a>) {
        let words = instruction.operands();
        let Some(op) = instruction.op() else { return };
        match (op, words) {
            (
                Op::AccessChain | Op::InBoundsAccessChain | Op::PtrAccessChain | Op::InBoundsPtrAccessChain,
                [_, _, _, indices @ ..],
            ) => {
                let set = indices.iter().fold(0, |set, index| set | self.origins(*index));
                self.changed |= extend(&mut self.indexes, set);
            }
            (Op::Load, &[_, id, pointer, ..]) => {
                let is_local = self.locals.contains_key(&pointer);
                let set = if is_local { self.origins(pointer) } else { self.pointees(pointer) };
                self.add_origins(id, set);
            }
            (Op::Store, &[pointer, value, ..]) if self.locals.contains_key(&pointer) => {
                self.join_origins(pointer, &[value]);
            }
            (Op::FunctionCall, [_, id, function, arguments @ ..]) => {
                let parameters = self.parameters.get(function).cloned().unwrap_or_default();
                for (parameter, argument) in parameters.into_iter().zip(arguments) {
                    self.join_origins(parameter, &[*argument]);
                }
                self.join_origins(*id, &[*function]);
            }
            (Op::ReturnValue, &[id]) => self.join_origins(self.function, &[id]),
            (Op::Select, &[_, id, _, a, b]) | (Op::CompositeInsert | Op::VectorShuffle, &[_, id, a, b, ..]) => {
                self.join_origins(id, &[a, b]);
            }
            (Op::Phi, [_, id, pairs @ ..]) => pairs.chunks(2).for_each(|pair| self.join_origins(*id, &pair[..1])),
            (Op::CompositeExtract | Op::CopyObject, &[_, id, from, ..]) => self.join_origins(id, &[from]),
            (Op::ExtInst, [_, id, _, number, operands @ ..]) if !BOUNDING_INSTRUCTIONS.contains(number) => {
                self.join_origins(*id, operands);
            }
            (_, &[_, _, pointer, ..]) if is_atomic_update(op) => {
                let set = self.pointees(pointer);
                self.changed |= extend(&mut self.counts, set);
            }
            (_, [_, id, operands @ ..]) if is_arithmetic(op) && !is_bounding(op) => self.join_origins(*id, operands),
            _ => {}
        }
    }

    /// Registers a buffer, the push constants or a local variable.
    fn declare_variable(&mut self, kind: u32, id: u32, class: u32) {
        let decoration = |kind: Decoration| self.decorations.get(&(id, None, kind as u32)).copied();
        if let (Some(set), Some(binding)) = (decoration(Decoration::DescriptorSet), decoration(Decoration::Binding)) {
            let bits = self.roots_where(|root| root == Root::Slot(set, binding));
            self.add_pointees(id, bits);
        } else if class == PUSH_CONSTANT {
            let pointee = self.types.get(&kind).and_then(|words| words.get(3)).copied().unwrap_or_default();
            self.set_push_pointer(id, PushPointer { pointee, offset: Some(0) });
        } else {
            self.add_local(kind, id);
        }
    }

    /// Registers a pointer of type `kind` if it points to a local variable.
    fn add_local(&mut self, kind: u32, id: u32) {
        if self.is_local(kind) {
            self.locals.entry(id).or_insert(id);
        }
    }

    /// Whether pointers of type `kind` point to local variables.
    fn is_local(&self, kind: u32) -> bool {
        let Some([head, _, class, ..]) = self.types.get(&kind) else { return false };
        head & 0xffff == Op::TypePointer as u32 && LOCAL_CLASSES.contains(class)
    }

    fn call_function(&mut self, id: u32, function: u32, arguments: &[u32]) {
        for (parameter, argument) in self.parameters.get(&function).cloned().into_iter().flatten().zip(arguments) {
            if let Some(push) = self.push_pointers.get(argument).copied() {
                self.set_push_pointer(parameter, push);
            } else if self.locals.contains_key(argument) && self.locals.contains_key(&parameter) {
                self.unite(*argument, parameter);
            } else {
                self.join_pointees(parameter, &[*argument]);
            }
        }
        self.join_pointees(id, &[function]);
    }
}

/// Adds `roots` to `set`; returns whether they were not all in it.
fn extend(set: &mut RootSet, roots: RootSet) -> bool {
    let before = *set;
    *set |= roots;
    *set != before
}

/// Instructions of GLSL.std.450 with a bounded result: `min` and `clamp`.
const BOUNDING_INSTRUCTIONS: [u32; 6] = [37, 38, 39, 43, 44, 45];

/// Returns whether an instruction bounds its result, as taking a digit of a key or comparing does.
fn is_bounding(op: Op) -> bool {
    (Op::LogicalEqual as u32..=Op::FUnordGreaterThanEqual as u32).contains(&(op as u32))
        || matches!(op, Op::BitwiseAnd | Op::UMod | Op::SRem | Op::SMod | Op::BitCount)
        || matches!(op, Op::ShiftRightLogical | Op::ShiftRightArithmetic)
        || matches!(op, Op::BitFieldUExtract | Op::BitFieldSExtract)
}

/// Returns whether an instruction reads texels of its image, its first operand.
fn reads_image(op: Op) -> bool {
    (Op::ImageSampleImplicitLod as u32..=Op::ImageRead as u32).contains(&(op as u32))
        || (Op::ImageSparseSampleImplicitLod as u32..=Op::ImageSparseDrefGather as u32).contains(&(op as u32))
        || op == Op::ImageSparseRead
}

/// Returns whether an instruction does not access memory through its operands.
fn is_silent(op: Op) -> bool {
    (Op::LoopMerge as u32..=Op::Unreachable as u32).contains(&(op as u32))
        || (Op::ImageQueryFormat as u32..=Op::ImageQuerySamples as u32).contains(&(op as u32))
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
    use super::super::compile::tests::compile_text;
    use super::*;
    use crate::kernel::interface::{ArgumentKind, Interface};
    use crate::loaded::bytes;
    use std::time::{Duration, Instant};

    fn compile(ending: &str, text: &str) -> Vec<u32> {
        compile_text(ending, text).expect(text).spirv
    }

    /// Analyzes a kernel; returns the access to each buffer, by set, binding or offset: `r`, `w`, `rw` or `-`.
    fn analyze(words: &[u32]) -> String {
        let interface = Interface::read(&bytes(words)).expect("a kernel");
        let slots = interface.slots.iter().map(|slot| Root::Slot(slot.set, slot.binding));
        let addresses = interface.arguments.iter().filter(|member| member.kind == ArgumentKind::Address);
        let roots: Vec<Root> = slots.chain(addresses.map(|member| Root::Address(member.offset))).collect();
        let shown = accesses(words, &roots).into_iter().map(|access| match (access.reads, access.writes) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, true) => "w",
            (false, false) => "-",
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    fn glsl(declarations: &str, body: &str) -> Vec<u32> {
        let head = "#version 460
            #extension GL_EXT_buffer_reference : require
            #extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
            layout(local_size_x = 64) in;
            layout(buffer_reference, std430) buffer Floats { float at[]; };";
        compile("comp", &format!("{head}\n{declarations}\nvoid main() {{ uint i = gl_GlobalInvocationID.x; {body} }}"))
    }

    #[test]
    fn images_are_read_written_and_measured() {
        let declared = "layout(binding = 0, r32f) uniform image2D I; layout(binding = 1, r32ui) uniform uimage2D J[2];
            layout(binding = 2) uniform sampler2D S;
            float load(sampler2D image) { return texelFetch(image, ivec2(0), 0).x; }";
        for (body, expected) in [
            ("imageStore(I, ivec2(i), texture(S, vec2(0)));", "w r"),
            ("imageStore(I, ivec2(i), imageLoad(I, ivec2(i)) + load(S));", "rw r"),
            ("imageAtomicAdd(J[i & 1], imageSize(I), 1);", "- rw rw"),
        ] {
            assert_eq!(analyze(&glsl(declared, body)), expected, "{body}");
        }
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
            assert_eq!(analyze(&glsl(&format!("{ABC}{declared}"), body)), expected, "{declared} {body}");
        }
        let declared = "struct S { n: u32, x: array<f32> }
            @group(0) @binding(0) var<storage, read_write> a: array<vec4<f32>>;
            @group(0) @binding(1) var<storage, read_write> b: S;
            @group(1) @binding(0) var<storage, read_write> c: array<atomic<u32>>;
            fn put(p: ptr<function, f32>) { b.x[0] = *p; }
            @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32)";
        // naga leaves out unused variables.
        for (body, expected) in [
            ("b.x[i] = a[i].x;", "r w"),
            ("var f = a[i].x; put(&f);", "r w"),
            ("let p = &a[i]; (*p).y = 1.0; atomicStore(&c[0], b.n);", "w r rw"),
            ("if i < arrayLength(&b.x) { a[i] = vec4(0.0); }", "w -"),
        ] {
            assert_eq!(analyze(&compile("wgsl", &format!("{declared} {{ {body} }}"))), expected, "{body}");
        }
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
            let words = glsl(&format!("{ABC}{declared}"), body);
            let accesses = accesses(&words, &[0, 1, 2].map(|binding| Root::Slot(0, binding)));
            let named = |has: fn(&Access) -> bool| {
                let names =
                    accesses.iter().zip(["A", "B", "C"]).filter(|(access, _)| has(access)).map(|(_, name)| name);
                names.collect::<String>()
            };
            assert_eq!(named(|access| access.indexes), indexes, "{declared} {body}");
            assert_eq!(named(|access| access.counts), counts, "{declared} {body}");
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
            assert_eq!(analyze(&glsl(&format!("{PUSH}{declared}"), body)), expected, "{declared} {body}");
        }
        // An address loaded from memory may be any that was stored there.
        let memory = format!("{PUSH}layout(binding = 0) buffer T {{ uint64_t t[]; }};");
        let arrays = "layout(push_constant) uniform P { Floats A[2]; Floats B; } p;";
        for (declared, body, expected) in [
            (&*memory, "t[i] = uint64_t(p.A); Floats(t[0]).at[i] = 1.0;", "rw w -"),
            (arrays, "p.A[1].at[i] = p.B.at[i];", "- w r"),
            (arrays, "p.A[i & 1u].at[i] = p.A[0].at[i];", "rw w w"),
        ] {
            assert_eq!(analyze(&glsl(declared, body)), expected, "{body}");
        }
    }

    #[test]
    fn damaged_and_huge_modules_are_analyzed_quickly() {
        let roots = [Root::Slot(0, 0), Root::Address(0)];
        let text = "#version 460\nlayout(local_size_x = 1) in; layout(binding = 0) buffer A { float a[]; };
            float f(inout float x) { x += a[0]; return x; }
            void main() { float x = 1.0; a[1] = f(x) + f(a[2]); }";
        let words = compile("comp", text);
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
