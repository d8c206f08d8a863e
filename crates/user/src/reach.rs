//! Finds what a kernel does with its parameters, and how far its indices reach, by abstract interpretation of its
//! SPIR-V: each integer has an upper bound, a polynomial of the axes. Branches are not followed; an index that the kernel
//! compares with a parameter stays below it everywhere, and below a tighter limit where that guards the code (`guards.rs`).

use super::access::{LOCAL_CLASSES, Root};
use super::guards::{Guard, find_guards};
use super::polynomial::Polynomial;
use crate::kernel::instructions::{Instruction, instructions};
use crate::kernel::interface::Scalar;
use rspirv::spirv::{BuiltIn, Decoration, Op, StorageClass};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// Most bytes from a column of a matrix of f32 to the next, or from a row.
const COLUMN_BYTES: u32 = 16;

/// Member of a block of parameters: of the push constants, or of a bound block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Parameter {
    /// Index of the block among the roots; `None` for the push constants.
    pub(super) block: Option<usize>,
    pub(super) offset: u32,
}

/// Facts that the analysis assumes.
#[derive(Clone, Debug, Default)]
pub(super) struct Assumed<'a> {
    /// Buffers that are analyzed.
    pub(super) roots: &'a [Root],
    /// Parameters, of which the first [`MAX_PARAMETERS`] are followed.
    pub(super) parameters: &'a [Parameter],
    /// Value of each parameter; `None` if it is unknown.
    pub(super) values: Vec<Option<Polynomial>>,
    /// Whether the integers in the buffer of each root are smaller than N.
    pub(super) indices: Vec<bool>,
    /// Extents of a work-group.
    pub(super) local_size: [i64; 3],
    /// Axes that the grid has.
    pub(super) dimensions: usize,
    /// Elements along each axis for which there is one invocation.
    pub(super) per_invocation: [f64; 3],
    /// Whether there is a work-group for each M, such as a row, and not for so many N.
    pub(super) is_by_group: bool,
    /// Whether the kernel compares its position along each axis with something; otherwise axes are multiples of the
    /// work-group's extents.
    pub(super) is_checked: [bool; 3],
}

/// Most parameters that are followed; the others count as used, and as no extents.
pub(super) const MAX_PARAMETERS: usize = 120;

/// Facts that the analysis finds.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    /// Whether the kernel reads each parameter.
    pub(super) is_used: Vec<bool>,
    /// Whether it compares an index with each parameter.
    pub(super) is_extent: Vec<bool>,
    pub(super) is_checked: [bool; 3],
    /// Whether it compares the number of a work-group alone with each parameter.
    pub(super) is_row_count: Vec<bool>,
    /// Whether it multiplies the number of a work-group by a parameter.
    pub(super) has_rows: bool,
    /// Whether that number is whole, and no part of a row's such as `group / 4`. What it is multiplied by may be divided: a
    /// row of a quantised matrix has a block for each 32 columns.
    pub(super) has_whole_rows: bool,
    /// Whether it compares rounds of a loop with each parameter, and no position in the grid: the inner extent of a product.
    pub(super) is_depth: Vec<bool>,
    /// Whether each invocation probably loops over an extent, so that time grows faster than the grid.
    pub(super) has_inner_loop: bool,
    /// Elements along each axis that an invocation works on, by the comparisons of its position; infinite without any.
    pub(super) per_invocation: [f64; 3],
    /// Whether no invocation knows its work-group, so that more than one would repeat the work.
    pub(super) has_one_group: bool,
    /// Bytes behind the start of the array at the end of each root's block that the kernel may access; `None` if that
    /// is unknown.
    pub(super) bytes: Vec<Option<Polynomial>>,
    /// Whether the kernel accesses, or asks the length of, the array of each root.
    pub(super) is_array_used: Vec<bool>,
    /// Type and stride of the elements of that array; `bytes` for structures.
    pub(super) elements: Vec<Option<(String, u64)>>,
}

/// Parameters that a value is computed from, as a bit mask of their indices.
type ParameterSet = u128;

/// Bit in a [`ParameterSet`] for the length of an array.
const LENGTH: ParameterSet = 1 << 127;

/// Bit in `varies` for values that differ between rounds of a loop; the bits below are the axes of the grid.
const ROUND: u8 = 1 << 3;
/// Bit in `varies` for contents of buffers, and for those that are indices.
const DATA: u8 = 1 << 4;
const INDEX: u8 = 1 << 5;
/// Bits in `varies` for numbers of work-groups, and for positions in them.
const GROUP: u8 = 1 << 6;
const LOCAL: u8 = 1 << 7;
/// The number of a work-group along x, alone.
const GROUP_NUMBER: u8 = GROUP | 1;

/// Bytes of an array that a kernel accesses.
#[derive(Clone, Debug, Default, PartialEq)]
enum Accessed {
    #[default]
    Nothing,
    Unknown,
    Below(Polynomial),
}

impl Accessed {
    fn bound(self) -> Option<Polynomial> {
        if let Self::Below(bytes) = self { Some(bytes) } else { None }
    }
}

/// Abstract number: a scalar, or a component of a vector.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bounded {
    parameters: ParameterSet,
    /// Reasons for which it differs between invocations or in time, as a bit mask.
    varies: u8,
    /// Upper bound, if it is an integer with a known one.
    bound: Option<Polynomial>,
}

impl Bounded {
    fn known(varies: u8, bound: Polynomial) -> Self {
        Self { parameters: 0, varies, bound: Some(bound) }
    }
}

/// Object that a pointer points into.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PointerBase {
    /// Push constants.
    Push,
    /// Buffer, by index of its root.
    Buffer(usize),
    /// Local variable, parameter of a function or built-in.
    Local(u32),
}

/// Pointer with its type and the path to it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TracedPointer {
    base: PointerBase,
    /// Id of the type that it points to.
    pointee: u32,
    /// Bytes from the start of a block, if all indices are constants.
    offset: Option<u32>,
    /// Component of a vector.
    component: Option<u32>,
}

/// Variable or value whose comparisons bound it, with the component of a vector.
type Bearer = (u32, Option<u32>);

/// Comparison of a number, plus a constant, with a limit by its id.
#[derive(Clone, Copy, Debug)]
struct LimitComparison {
    op: Op,
    added: f64,
    limit: u32,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Analysis<'a> {
    assumed: Assumed<'a>,
    types: HashMap<u32, &'a [u32]>,
    decorations: HashMap<(u32, Option<u32>, u32), u32>,
    /// Instructions of functions, by result.
    definitions: HashMap<u32, Instruction<'a>>,
    /// Values that are stored to each whole local variable.
    stored: HashMap<u32, Vec<u32>>,
    parameters: HashMap<u32, Vec<u32>>,
    function: u32,
    values: HashMap<u32, Vec<Bounded>>,
    pointers: HashMap<u32, TracedPointer>,
    contents: HashMap<u32, Vec<Bounded>>,
    /// Largest value of what is compared with a limit.
    limits: HashMap<Bearer, Polynomial>,
    /// Comparisons that hold for a part of the code, by what they compare; known after the first passes.
    comparisons: HashMap<Bearer, Vec<(Range<usize>, LimitComparison)>>,
    /// Position in the module of what is followed.
    at: usize,
    used: ParameterSet,
    extents: ParameterSet,
    is_checked: [bool; 3],
    row_counts: ParameterSet,
    /// Parameters that a work-group's number is multiplied by.
    row_lengths: ParameterSet,
    has_whole_rows: bool,
    /// Parameters with which rounds of a loop are compared, and positions in the grid.
    rounds: ParameterSet,
    positions: ParameterSet,
    bytes: Vec<Accessed>,
    is_array_used: Vec<bool>,
    elements: Vec<Option<(String, u64)>>,
    /// First of the sums of the same numbers, by each of them.
    first_sums: HashMap<u32, u32>,
    /// First sum of two numbers, known after the first passes.
    sums: HashMap<[Bearer; 2], u32>,
    /// Axis of each value that is below a limit, by id and component, and the elements along it from one invocation to the
    /// next.
    strides: HashMap<(u32, u32), Option<(usize, f64)>>,
    /// Whether this pass over the module added a fact, and its number.
    changed: bool,
    pass: usize,
    /// Whether values that no pass has found are unknown, rather than not found yet.
    is_last: bool,
    /// Whether all limits are known.
    has_limits: bool,
}

/// Most passes over a module, and the one from which growing bounds become unknown.
const MAX_PASSES: usize = 24;
const WIDENING_PASS: usize = 8;

/// Most components of a value that are followed: composites may double at each level.
const MAX_COMPONENTS: usize = 16;

/// Most steps from a value to the variable that holds it.
const MAX_STEPS: usize = 16;

/// Most conditions within each other that are followed: each may have two.
const MAX_CONDITIONS: usize = 8;

/// Analyzes the kernel `words`; `None` if it is damaged or takes too long.
pub(super) fn analyze(words: &[u32], assumed: Assumed<'_>) -> Option<Reach> {
    let all: Vec<_> = instructions(words).collect::<Result<_, _>>().ok()?;
    let mut analysis = Analysis::new(assumed);
    for instruction in &all {
        analysis.declare(*instruction);
    }
    analysis.find_sums(&all);
    while analysis.changed {
        analysis.changed = false;
        analysis.pass += 1;
        if analysis.pass > MAX_PASSES {
            return None;
        }
        for instruction in &all {
            analysis.follow(*instruction);
        }
        if !analysis.changed && !analysis.has_limits {
            analysis.find_addends(&all);
            analysis.find_comparisons(&all);
            analysis.restart();
        } else if !analysis.changed && !analysis.is_last {
            analysis.is_last = true;
            analysis.changed = true;
        }
    }
    Some(analysis.reach())
}

/// Interprets a constant as a signed number, because those above 2^31 are usually negative.
fn signed(value: u32) -> f64 {
    f64::from(value.cast_signed())
}

impl<'a> Analysis<'a> {
    fn new(assumed: Assumed<'a>) -> Self {
        let roots = assumed.roots.len();
        Self {
            assumed,
            bytes: vec![Accessed::Nothing; roots],
            is_array_used: vec![false; roots],
            elements: vec![None; roots],
            changed: true,
            ..Self::default()
        }
    }

    /// Returns what the finished analysis has found.
    fn reach(self) -> Reach {
        let is_in = |set: ParameterSet| {
            (0..self.assumed.parameters.len()).map(move |index| index < MAX_PARAMETERS && set >> index & 1 == 1)
        };
        // With any number of work-groups, a loop with steps of the whole grid reaches all elements.
        let mut per_invocation = [f64::INFINITY; 3];
        let is_number_of_groups = |((_, _, kind), value): (&(u32, Option<u32>, u32), &u32)| {
            (*kind, *value) == (Decoration::BuiltIn as u32, BuiltIn::NumWorkgroups as u32)
        };
        let is_of_group = |((_, _, kind), value): (&(u32, Option<u32>, u32), &u32)| {
            let group = [BuiltIn::GlobalInvocationId as u32, BuiltIn::WorkgroupId as u32];
            *kind == Decoration::BuiltIn as u32 && group.contains(value)
        };
        let has_grid_loop = self.decorations.iter().any(is_number_of_groups);
        for (axis, elements) in self.strides.values().flatten().filter(|_| !has_grid_loop) {
            per_invocation[*axis] = per_invocation[*axis].min(*elements);
        }
        let is_used = is_in(self.used).enumerate().map(|(index, is_used)| is_used || index >= MAX_PARAMETERS).collect();
        Reach {
            is_used,
            is_extent: is_in(self.extents).collect(),
            is_checked: self.is_checked,
            is_row_count: is_in(self.row_counts).collect(),
            has_rows: self.row_lengths != 0,
            has_whole_rows: self.has_whole_rows,
            is_depth: is_in(self.rounds & !self.positions).collect(),
            has_inner_loop: self.rounds != 0,
            per_invocation,
            has_one_group: !self.decorations.iter().any(is_of_group),
            bytes: self.bytes.into_iter().map(Accessed::bound).collect(),
            is_array_used: self.is_array_used,
            elements: self.elements,
        }
    }

    fn declare(&mut self, instruction: Instruction<'a>) {
        let words = instruction.operands();
        match (instruction.op(), words) {
            (Some(Op::Decorate), &[id, kind, value, ..]) => drop(self.decorations.insert((id, None, kind), value)),
            (Some(Op::MemberDecorate), &[id, member, kind, value, ..]) => {
                self.decorations.insert((id, Some(member), kind), value);
            }
            (Some(Op::Function), &[_, id, ..]) => self.function = id,
            (Some(Op::FunctionParameter), &[_, id]) => self.parameters.entry(self.function).or_default().push(id),
            (Some(Op::Store), &[pointer, value, ..]) => self.stored.entry(pointer).or_default().push(value),
            (Some(op), &[id, ..]) if (Op::TypeVoid as u32..=Op::TypePointer as u32).contains(&(op as u32)) => {
                self.types.insert(id, instruction.words);
            }
            _ => {}
        }
        if let &[_, id, ..] = words
            && self.function != 0
            && self.types.contains_key(&words[0])
        {
            self.definitions.insert(id, instruction);
        }
    }

    /// Forgets the bounds of values that were found before the limits of all indices.
    fn restart(&mut self) {
        self.values.clear();
        self.contents.clear();
        self.bytes.fill(Accessed::Nothing);
        self.pass = 0;
        self.has_limits = true;
        self.changed = true;
    }

    fn decoration(&self, id: u32, member: Option<u32>, kind: Decoration) -> Option<u32> {
        self.decorations.get(&(id, member, kind as u32)).copied()
    }

    /// Returns the opcode and the operands of a type.
    fn kind(&self, id: u32) -> Option<(Op, &'a [u32])> {
        let words = self.types.get(&id)?;
        Some((Op::from_u32(words[0] & 0xffff)?, &words[2..]))
    }

    /// Returns the type of a vector's components, or the type itself.
    fn component(&self, id: u32) -> u32 {
        match self.kind(id) {
            Some((Op::TypeVector, &[component, _])) => component,
            _ => id,
        }
    }

    fn is_integer(&self, id: u32) -> bool {
        matches!(self.kind(self.component(id)), Some((Op::TypeInt, _)))
    }

    /// Returns the number of components; 1 for anything but a vector.
    fn components(&self, id: u32) -> usize {
        match self.kind(id) {
            Some((Op::TypeVector, &[_, count])) => count.min(4) as usize,
            _ => 1,
        }
    }

    fn constant(&self, id: u32) -> Option<f64> {
        match self.values.get(&id)?.as_slice() {
            [Bounded { parameters: 0, varies: 0, bound: Some(bound) }] => bound.value(),
            _ => None,
        }
    }

    fn follow(&mut self, instruction: Instruction<'a>) {
        let words = instruction.operands();
        let Some(op) = instruction.op() else { return };
        self.at = instruction.at;
        match (op, words) {
            (Op::Constant | Op::SpecConstant, &[kind, id, value, ref rest @ ..]) => {
                let is_small = rest.iter().all(|word| *word == 0);
                let bound = (self.is_integer(kind) && is_small).then(|| Polynomial::constant(signed(value)));
                self.set_value(id, vec![Bounded { bound, ..Bounded::default() }]);
            }
            (
                Op::ConstantTrue
                | Op::ConstantFalse
                | Op::ConstantNull
                | Op::SpecConstantTrue
                | Op::SpecConstantFalse
                | Op::Undef,
                &[_, id],
            ) => self.set_value(id, vec![Bounded::known(0, Polynomial::default())]),
            (Op::Variable, &[kind, id, class, ref initial @ ..]) => self.declare_variable(kind, id, class, initial),
            (Op::Function | Op::FunctionParameter | Op::FunctionCall | Op::ReturnValue, words) => {
                self.follow_function(op, words);
            }
            (Op::AccessChain | Op::InBoundsAccessChain, [_, id, base, indices @ ..]) => {
                if let Some(base) = self.pointers.get(base).copied() {
                    let pointer = self.step(base, indices);
                    self.set_pointer(*id, pointer);
                }
            }
            (Op::Store, &[pointer, value, ..]) => self.store(pointer, value),
            (Op::SpecConstantOp, &[kind, id, operation, ref operands @ ..]) => {
                if let Some(op) = Op::from_u32(operation) {
                    self.compute(op, kind, id, operands);
                }
            }
            (Op::ArrayLength, &[_, id, pointer, ..]) => {
                if let Some(TracedPointer { base: PointerBase::Buffer(root), .. }) = self.pointers.get(&pointer) {
                    self.is_array_used[*root] = true;
                }
                let length = Bounded { parameters: LENGTH, varies: 0, bound: Some(Polynomial::axis(0)) };
                self.set_value(id, vec![length]);
            }
            (Op::ImageQuerySize | Op::ImageQuerySizeLod, &[kind, id, ..]) => self.set_image_size(kind, id),
            (Op::ConstantComposite | Op::SpecConstantComposite, &[kind, id, ref operands @ ..]) => {
                self.compute(op, kind, id, operands);
            }
            (_, &[kind, id, ref operands @ ..])
                if self.definitions.get(&id).is_some_and(|own| own.at == instruction.at) =>
            {
                if (Op::IEqual as u32..=Op::SLessThanEqual as u32).contains(&(op as u32))
                    && let &[x, y] = operands
                {
                    self.compare(op, x, y);
                }
                if op == Op::IMul {
                    self.note_rows(operands);
                }
                self.compute(op, kind, id, operands);
            }
            _ => {}
        }
    }

    /// Notes the size of an image, which has the extents of the grid.
    fn set_image_size(&mut self, kind: u32, id: u32) {
        let extent = |axis| Bounded { parameters: LENGTH, varies: 0, bound: Some(Polynomial::axis(axis)) };
        self.set_value(id, (0..self.components(kind).min(3)).map(extent).collect());
    }

    /// Follows the parameters, calls and results of functions.
    fn follow_function(&mut self, op: Op, words: &[u32]) {
        match (op, words) {
            (Op::Function, &[_, id, ..]) => self.function = id,
            (Op::FunctionParameter, &[kind, id]) => {
                if let Some((Op::TypePointer, &[class, pointee])) = self.kind(kind)
                    && LOCAL_CLASSES.contains(&class)
                {
                    self.set_pointer(id, TracedPointer::to(PointerBase::Local(id), pointee));
                }
            }
            (Op::FunctionCall, [_, id, function, arguments @ ..]) => self.call(*id, *function, arguments),
            (Op::ReturnValue, &[id]) => {
                if let Some(value) = self.values.get(&id).cloned() {
                    self.join_value(self.function, &value);
                }
            }
            _ => {}
        }
    }

    fn set_value(&mut self, id: u32, value: Vec<Bounded>) {
        if self.values.get(&id) != Some(&value) {
            self.changed = true;
            self.values.insert(id, value);
        }
    }

    fn set_pointer(&mut self, id: u32, pointer: TracedPointer) {
        if self.pointers.get(&id) != Some(&pointer) {
            self.changed = true;
            self.pointers.insert(id, pointer);
        }
    }

    fn join_value(&mut self, id: u32, value: &[Bounded]) {
        let joined = joined(self.values.get(&id), value, self.pass);
        self.set_value(id, joined);
    }

    fn join_contents(&mut self, variable: u32, value: &[Bounded]) {
        let joined = joined(self.contents.get(&variable), value, self.pass);
        if self.contents.get(&variable) != Some(&joined) {
            self.changed = true;
            self.contents.insert(variable, joined);
        }
    }
}

/// Joins two values; bounds that still grow in late passes become unknown.
fn joined(old: Option<&Vec<Bounded>>, new: &[Bounded], pass: usize) -> Vec<Bounded> {
    let Some(old) = old else { return new.to_vec() };
    let length = old.len().max(new.len());
    let get = |value: &[Bounded], index: usize| value.get(index).or(value.last()).cloned().unwrap_or_default();
    let mut joined = vec![];
    for index in 0..length {
        let [a, b] = [old, new].map(|value| get(value, index));
        let mut bound = a.bound.as_ref().zip(b.bound.as_ref()).map(|(a, b)| a.upper(b));
        if pass > WIDENING_PASS && bound != a.bound {
            bound = None;
        }
        joined.push(Bounded { parameters: a.parameters | b.parameters, varies: a.varies | b.varies, bound });
    }
    joined
}

impl TracedPointer {
    /// Returns a pointer to the start of an object.
    fn to(base: PointerBase, pointee: u32) -> Self {
        Self { base, pointee, offset: Some(0), component: None }
    }
}

/// Blocks, pointers and variables.
impl Analysis<'_> {
    fn declare_variable(&mut self, kind: u32, id: u32, class: u32, initial: &[u32]) {
        let Some((_, &[_, pointee])) = self.kind(kind) else { return };
        let set = self.decoration(id, None, Decoration::DescriptorSet);
        let binding = self.decoration(id, None, Decoration::Binding);
        let slot = set.zip(binding).map(|(set, binding)| Root::Slot(set, binding));
        let root = slot.and_then(|slot| self.assumed.roots.iter().position(|root| *root == slot));
        let base = match root {
            Some(root) => PointerBase::Buffer(root),
            None if class == StorageClass::PushConstant as u32 => PointerBase::Push,
            None => PointerBase::Local(id),
        };
        self.set_pointer(id, TracedPointer::to(base, pointee));
        if let Some(built_in) = self.decoration(id, None, Decoration::BuiltIn) {
            let value = self.built_in(built_in);
            self.join_contents(id, &value);
        }
        if let Some(value) = initial.first().and_then(|initial| self.values.get(initial)).cloned() {
            self.join_contents(id, &value);
        }
    }

    /// Returns the value of a variable that the device sets.
    fn built_in(&self, number: u32) -> Vec<Bounded> {
        let Assumed { local_size, dimensions, per_invocation, is_by_group, is_checked, .. } = &self.assumed;
        let mut parts = vec![];
        for axis in 0..3 {
            let local = local_size[axis].max(1) as f64;
            let varies = 1 << axis;
            // Largest number of a work-group; cdiv(N, local) - 1.
            let elements = local * per_invocation[axis];
            let slack = if is_checked[axis] { (elements - 1.0) / elements } else { 0.0 };
            let group = if *is_by_group && axis == 0 {
                Polynomial::axis(1).plus_constant(-1.0)
            } else if axis < *dimensions {
                Polynomial::axis(axis).times(1.0 / elements).plus_constant(slack - 1.0)
            } else {
                Polynomial::default()
            };
            parts.push(match BuiltIn::from_u32(number) {
                Some(BuiltIn::GlobalInvocationId) => {
                    Bounded::known(varies | GROUP | LOCAL, group.times(local).plus_constant(local - 1.0))
                }
                Some(BuiltIn::WorkgroupId) => Bounded::known(varies | GROUP, group),
                Some(BuiltIn::LocalInvocationId) => Bounded::known(varies | LOCAL, Polynomial::constant(local - 1.0)),
                Some(BuiltIn::NumWorkgroups) => Bounded::known(0, group.plus_constant(1.0)),
                _ => {
                    let all = local_size.iter().product::<i64>().max(1) as f64;
                    // Also sizes and numbers of sub-groups.
                    return vec![Bounded::known(
                        1 | LOCAL,
                        Polynomial::constant((all - 1.0).max(127.0).min(all.max(128.0))),
                    )];
                }
            });
        }
        parts
    }

    /// Follows the indices of an access chain.
    fn step(&mut self, base: TracedPointer, indices: &[u32]) -> TracedPointer {
        let mut pointer = base;
        for index in indices {
            let constant = self.constant(*index).filter(|constant| *constant >= 0.0).map(|constant| constant as u32);
            let mut bytes = None;
            pointer.pointee = match self.kind(pointer.pointee) {
                Some((Op::TypeStruct, members)) => {
                    bytes =
                        constant.and_then(|index| self.decoration(pointer.pointee, Some(index), Decoration::Offset));
                    constant.and_then(|index| members.get(index as usize)).copied().unwrap_or_default()
                }
                Some((Op::TypeRuntimeArray, &[element])) => {
                    self.reach_element(pointer, *index);
                    element
                }
                Some((Op::TypeArray, &[element, ..])) => {
                    let stride = self.decoration(pointer.pointee, None, Decoration::ArrayStride);
                    bytes = constant.zip(stride).and_then(|(index, stride)| index.checked_mul(stride));
                    element
                }
                Some((Op::TypeVector, &[component, _])) => {
                    pointer.component = constant;
                    bytes = constant.and_then(|index| index.checked_mul(self.scalar_bytes(component)));
                    component
                }
                Some((_, &[part, ..])) => part,
                _ => 0,
            };
            pointer.offset = pointer.offset.zip(bytes).and_then(|(offset, bytes)| offset.checked_add(bytes));
        }
        pointer
    }

    fn scalar_bytes(&self, id: u32) -> u32 {
        match self.kind(id) {
            Some((Op::TypeInt | Op::TypeFloat, &[bits, ..])) => bits / 8,
            _ => 4,
        }
    }

    /// Returns the name of the type of a number or of a vector's components, or else `bytes`.
    fn scalar_name(&self, id: u32) -> String {
        match self.kind(self.component(id)) {
            Some((Op::TypeInt, &[bits, signed])) => Scalar::Int { bits, signed: signed != 0 }.name(),
            Some((Op::TypeFloat, &[bits])) => Scalar::Float { bits }.name(),
            Some((Op::TypeFloat, &[16, _])) => Scalar::Bfloat16.name(),
            _ => "bytes".into(),
        }
    }

    /// Notes an access to an element of the array at the end of a block.
    fn reach_element(&mut self, pointer: TracedPointer, index: u32) {
        let PointerBase::Buffer(root) = pointer.base else { return };
        self.is_array_used[root] = true;
        if let Some((_, &[element])) = self.kind(pointer.pointee) {
            let stride = self.decoration(pointer.pointee, None, Decoration::ArrayStride).unwrap_or(1);
            self.elements[root] = Some((self.scalar_name(element), stride.into()));
        }
        let unknown = self.is_last.then(Bounded::default);
        let Some(index) = self.value_here(index).and_then(|value| value.first().cloned()).or(unknown) else { return };
        let stride = self.decoration(pointer.pointee, None, Decoration::ArrayStride).unwrap_or(4);
        let bytes = index.bound.as_ref().map(|bound| bound.plus_constant(1.0).times(stride.into()));
        let old = self.bytes[root].clone();
        self.bytes[root] = match (&old, bytes) {
            (_, None) | (Accessed::Unknown, _) => Accessed::Unknown,
            (Accessed::Nothing, Some(bytes)) => Accessed::Below(bytes),
            (Accessed::Below(old), Some(bytes)) => Accessed::Below(old.upper(&bytes)),
        };
        self.changed |= old != self.bytes[root];
    }

    fn load(&mut self, kind: u32, id: u32, pointer: TracedPointer) -> Option<Vec<Bounded>> {
        let count = self.components(kind);
        match pointer.base {
            PointerBase::Local(variable) => {
                let unknown = self.is_last.then(|| vec![Bounded::default()]);
                let contents = self.contents.get(&variable).or(unknown.as_ref())?;
                match pointer.component {
                    Some(component) => Some(vec![contents.get(component as usize).or(contents.last())?.clone()]),
                    None => Some(contents.clone()),
                }
            }
            PointerBase::Push | PointerBase::Buffer(_) => {
                let block = match pointer.base {
                    PointerBase::Buffer(root) => Some(root),
                    _ => None,
                };
                self.load_address(kind, id, block, pointer.offset);
                let bytes = match self.kind(kind) {
                    Some((Op::TypeVector, &[component, _])) => self.scalar_bytes(component),
                    _ => 0,
                };
                let parts = (0..count as u32).map(|part| self.parameter(block, pointer.offset, part * bytes));
                let mut value: Vec<Bounded> = parts.collect();
                if let (Some((Op::TypeMatrix, &[_, columns])), [whole]) = (self.kind(kind), value.as_mut_slice()) {
                    // A product mixes all numbers of a matrix.
                    for at in (0..columns * COLUMN_BYTES).step_by(4) {
                        whole.parameters |= self.parameter(block, pointer.offset, at).parameters;
                    }
                    whole.bound = None;
                }
                for part in &value {
                    self.changed |= part.parameters & !self.used != 0;
                    self.used |= part.parameters;
                }
                Some(value)
            }
        }
    }

    /// Follows an address that a kernel loads from a block.
    fn load_address(&mut self, kind: u32, id: u32, block: Option<usize>, offset: Option<u32>) {
        if let (Some((Op::TypePointer, &[_, pointee])), None, Some(offset)) = (self.kind(kind), block, offset)
            && let Some(root) = self.assumed.roots.iter().position(|root| *root == Root::Address(offset))
        {
            self.set_pointer(id, TracedPointer::to(PointerBase::Buffer(root), pointee));
        }
    }

    /// Returns a number in a block: a parameter, all of them if the offset is unknown, or contents of a buffer.
    fn parameter(&self, block: Option<usize>, offset: Option<u32>, skipped: u32) -> Bounded {
        let mut value = Bounded::default();
        let mut is_of_parameters = block.is_none();
        for (index, parameter) in self.assumed.parameters.iter().enumerate().take(MAX_PARAMETERS) {
            if parameter.block != block {
                continue;
            }
            is_of_parameters = true;
            match offset.map(|offset| offset.saturating_add(skipped)) {
                Some(offset) if offset == parameter.offset => {
                    value.parameters |= 1 << index;
                    value.bound.clone_from(&self.assumed.values[index]);
                }
                Some(_) => {}
                None => value.parameters |= 1 << index,
            }
        }
        if !is_of_parameters {
            let is_index = block.is_some_and(|root| self.assumed.indices[root]);
            value.varies = if is_index { INDEX } else { DATA };
            value.bound = is_index.then(|| Polynomial::axis(0).plus_constant(-1.0));
        }
        value
    }

    fn store(&mut self, pointer: u32, value: u32) {
        let Some(value) = self.values.get(&value).cloned() else { return };
        let Some(TracedPointer { base: PointerBase::Local(variable), component, .. }) = self.pointers.get(&pointer)
        else {
            return;
        };
        let (variable, component) = (*variable, *component);
        let mut value = value;
        if let Some(component) = component {
            let mut whole = self.contents.get(&variable).cloned().unwrap_or_default();
            let last = whole.last().or(value.first()).cloned().unwrap_or_default();
            whole.resize(whole.len().max(component.min(3) as usize + 1), last);
            whole[component.min(3) as usize] = value.first().cloned().unwrap_or_default();
            value = whole;
        }
        if self.stored.get(&variable).is_some_and(|values| values.len() > 1) {
            for part in &mut value {
                part.varies |= ROUND;
            }
        }
        self.join_contents(variable, &value);
    }

    fn call(&mut self, id: u32, function: u32, arguments: &[u32]) {
        let parameters = self.parameters.get(&function).cloned().unwrap_or_default();
        for (parameter, argument) in parameters.into_iter().zip(arguments) {
            match self.pointers.get(argument).copied() {
                Some(TracedPointer { base: PointerBase::Local(variable), component: None, .. }) => {
                    for (to, from) in [(parameter, variable), (variable, parameter)] {
                        if let Some(contents) = self.contents.get(&from).cloned() {
                            self.join_contents(to, &contents);
                        }
                    }
                }
                Some(pointer) => self.set_pointer(parameter, pointer),
                None => {
                    if let Some(value) = self.values.get(argument).cloned() {
                        self.join_value(parameter, &value);
                    }
                }
            }
        }
        if let Some(value) = self.values.get(&function).cloned() {
            self.join_value(id, &value);
        }
    }
}

/// Arithmetic and comparisons.
impl Analysis<'_> {
    /// Computes a result from its operands, if they are known already.
    fn compute(&mut self, op: Op, kind: u32, id: u32, operands: &[u32]) {
        let get = |id: &u32| self.values.get(id);
        let value = match (op, operands) {
            (Op::Load, [pointer, ..]) => {
                let Some(pointer) = self.pointers.get(pointer).copied() else { return };
                self.load(kind, id, pointer)
            }
            (Op::CompositeConstruct | Op::ConstantComposite | Op::SpecConstantComposite, parts) => parts
                .iter()
                .map(get)
                .collect::<Option<Vec<_>>>()
                .map(|parts| parts.into_iter().flatten().take(MAX_COMPONENTS).cloned().collect()),
            (Op::CompositeExtract, [whole, index, ..]) => {
                get(whole).and_then(|whole| whole.get(*index as usize).or(whole.last()).cloned()).map(|part| vec![part])
            }
            (Op::VectorShuffle, [a, b, picks @ ..]) => get(a).zip(get(b)).map(|(a, b)| {
                let both: Vec<_> = a.iter().chain(b).collect();
                picks
                    .iter()
                    .take(MAX_COMPONENTS)
                    .map(|pick| both.get(*pick as usize).map_or_else(Bounded::default, |part| (*part).clone()))
                    .collect()
            }),
            (Op::UMulExtended | Op::SMulExtended, [a, b]) => {
                get(a).and_then(|a| a.first()).zip(get(b).and_then(|b| b.first())).map(|(a, b)| double_product(a, b))
            }
            (Op::Phi, pairs) => {
                let mut value = None;
                for known in pairs.chunks(2).filter_map(|pair| get(&pair[0])) {
                    value = Some(joined(value.as_ref(), known, 0));
                }
                value.map(|mut value| {
                    for part in &mut value {
                        part.varies |= ROUND;
                    }
                    joined(self.values.get(&id), &value, self.pass)
                })
            }
            (Op::Select, [condition, a, b]) => self.chosen(*condition, [*a, *b]).map(|[a, b]| {
                let mut value = joined(Some(&a), &b, 0);
                let varies = get(condition).and_then(|condition| condition.first()).map_or(0, |part| part.varies);
                for part in &mut value {
                    part.varies |= varies;
                }
                value
            }),
            (Op::ExtInst, [_, number, operands @ ..]) => {
                self.bound_index(*number, operands);
                self.arithmetic(kind, operands, |parts| bounded_function(*number, parts))
            }
            _ => self.arithmetic(kind, operands, |parts| operation(op, parts)),
        };
        if let Some(mut value) = value {
            for (index, part) in (0..).zip(&mut value) {
                self.limit(id, index, part);
            }
            self.set_value(id, value);
        }
    }

    /// Applies an operation to each component of vectors.
    fn arithmetic(
        &self,
        kind: u32,
        operands: &[u32],
        bound: impl Fn(&[&Bounded]) -> Option<Polynomial>,
    ) -> Option<Vec<Bounded>> {
        let known: Vec<_> = operands.iter().filter_map(|id| self.value_here(*id)).collect();
        if known.len() < operands.len() && !self.is_last {
            return None;
        }
        let mut value = vec![];
        for index in 0..self.components(kind) {
            let parts: Vec<_> = known.iter().filter_map(|value| value.get(index).or(value.last())).collect();
            let parameters = parts.iter().fold(0, |set, part| set | part.parameters);
            let varies = parts.iter().fold(0, |set, part| set | part.varies);
            let bound = if self.is_integer(kind) && parts.len() == operands.len() { bound(&parts) } else { None };
            value.push(Bounded { parameters, varies, bound });
        }
        Some(value)
    }

    /// Lowers the bound of a value that the kernel compares with a limit.
    fn limit(&mut self, id: u32, component: u32, part: &mut Bounded) {
        let unlimited = part.bound.clone();
        let mut bearers = vec![self.bearer(id, MAX_STEPS)];
        bearers.push((bearers[0].0, bearers[0].1.or(Some(component))));
        for bearer in bearers {
            if let Some(limit) = self.limits.get(&bearer) {
                part.bound = Some(limit.clone());
            }
        }
        if component == 0
            && let Some(regrouped) = self.regrouped(id)
        {
            part.bound = Some(regrouped);
        }
        // A sum of what is below a limit already tells nothing of the grid.
        if let Some(definition) = self.definitions.get(&id)
            && matches!(definition.op(), Some(Op::IAdd | Op::ISub))
            && definition.operands().iter().skip(2).any(|operand| self.is_limited(*operand))
        {
            return;
        }
        if let Some((before, after)) = unlimited.zip(part.bound.as_ref()).filter(|(before, after)| before != *after) {
            self.strides.insert((id, component), before.ratio_along_axis(after));
        }
    }

    /// Returns the bound of a sum of which a part is below a limit that the sum's own grouping hides: of `row * n + k + x`,
    /// which is `(row * n + k) + x`, behind `k + x < n`.
    fn regrouped(&self, id: u32) -> Option<Polynomial> {
        let parts = |id: u32| match self.definition_behind(id).map(|sum| (sum.op(), sum.operands())) {
            Some((Some(Op::IAdd), &[_, _, a, b])) => vec![(a, b), (b, a)],
            _ => vec![],
        };
        for (inner, last) in parts(id) {
            for (first, middle) in parts(inner) {
                let [middle, last] = [middle, last].map(|part| self.bearer(part, MAX_STEPS));
                let sum = self.sums.get(&[middle, last]).or_else(|| self.sums.get(&[last, middle]));
                if let Some(limit) = sum.and_then(|sum| self.limits.get(&(*sum, None)))
                    && let Some(Bounded { bound: Some(bound), .. }) =
                        self.values.get(&first).and_then(|value| value.first())
                {
                    return Some(bound.plus(limit));
                }
            }
        }
        None
    }

    /// Whether a value is below a limit that grows with an axis.
    fn is_limited(&self, id: u32) -> bool {
        self.limits.get(&self.bearer(id, MAX_STEPS)).is_some_and(|limit| limit.degree() > 0)
    }

    /// Finds the sums that a kernel computes again, such as that of `if (i + 1 < n) y = x[i + 1]`.
    fn find_sums(&mut self, all: &[Instruction<'_>]) {
        let mut first = HashMap::new();
        for instruction in all {
            if let (Some(op @ (Op::IAdd | Op::ISub)), &[_, id, a, b]) = (instruction.op(), instruction.operands()) {
                let sum = (op, self.bearer(a, MAX_STEPS), self.bearer(b, MAX_STEPS));
                self.first_sums.insert(id, *first.entry(sum).or_insert(id));
            }
        }
    }

    /// Lists the sums by what they add, as it is known now: behind pointers too.
    fn find_addends(&mut self, all: &[Instruction<'_>]) {
        for instruction in all {
            if let (Some(Op::IAdd), &[_, id, a, b]) = (instruction.op(), instruction.operands()) {
                let addends = [a, b].map(|part| self.bearer(part, MAX_STEPS));
                let sum = self.first_sums.get(&id).copied().unwrap_or(id);
                self.sums.entry(addends).or_insert(sum);
            }
        }
    }

    /// Returns the variable or value that holds a number, behind loads and conversions.
    fn bearer(&self, id: u32, steps: usize) -> Bearer {
        let Some(definition) = self.definitions.get(&id).filter(|_| steps > 0) else {
            return self.bearer_of_variable(id, steps);
        };
        match (definition.op(), definition.operands()) {
            (Some(Op::Load | Op::CopyObject | Op::Bitcast | Op::UConvert | Op::SConvert), &[_, _, from, ..]) => {
                self.bearer(from, steps - 1)
            }
            (Some(Op::CompositeExtract), &[_, _, from, index]) => (self.bearer(from, steps - 1).0, Some(index)),
            (Some(Op::AccessChain | Op::InBoundsAccessChain), &[_, _, base, index]) => {
                match self.constant(index).zip(self.pointers.get(&base)) {
                    Some((constant, TracedPointer { base: PointerBase::Local(_), .. })) => {
                        (self.bearer(base, steps - 1).0, Some(constant as u32))
                    }
                    _ => (id, None),
                }
            }
            (Some(Op::IAdd | Op::ISub), _) => (self.first_sums.get(&id).copied().unwrap_or(id), None),
            _ => self.bearer_of_variable(id, steps),
        }
    }

    /// Returns the holder of the only value that a variable gets, or the variable itself.
    fn bearer_of_variable(&self, id: u32, steps: usize) -> Bearer {
        match self.stored.get(&id).map(Vec::as_slice) {
            Some([value]) if steps > 0 => self.bearer(*value, steps - 1),
            _ => (id, None),
        }
    }

    /// Follows a comparison of either side with the other.
    fn compare(&mut self, op: Op, x: u32, y: u32) {
        for (target, limit, op) in [(x, y, op), (y, x, partner(&MIRRORED, op))] {
            // The larger of several indices is compared for each of them; below `i + 1 < n` and `i + 1 <= n`, `i < n`.
            let mut targets = vec![(target, op)];
            for at in 0..MAX_STEPS {
                let Some(&(id, op)) = targets.get(at) else { break };
                let Some(definition) = self.definition_behind(id) else { continue };
                match (definition.op(), definition.operands()) {
                    (Some(Op::ExtInst), &[_, _, _, number, a, b]) if MAXIMUMS.contains(&number) => {
                        targets.extend([(a, op), (b, op)]);
                    }
                    (Some(Op::IAdd), &[_, _, a, b]) => {
                        let is_positive = |id: &u32| self.constant(*id).is_some_and(|constant| constant > 0.0);
                        targets.extend(
                            [(a, b), (b, a)].into_iter().find(|(_, b)| is_positive(b)).map(|(a, _)| (a, strict(op))),
                        );
                    }
                    _ => {}
                }
            }
            for (target, op) in targets {
                self.compare_index(op, target, limit);
            }
        }
    }

    /// Returns the instruction that computes a value, behind the only variable that it is stored to.
    fn definition_behind(&self, id: u32) -> Option<Instruction<'_>> {
        let (held, _) = self.bearer(id, MAX_STEPS);
        self.definitions
            .get(&id)
            .filter(|own| own.op() != Some(Op::Load))
            .or_else(|| self.definitions.get(&held))
            .copied()
    }

    /// Follows a comparison of an index, or of each component of a vector of indices, with a limit.
    fn compare_index(&mut self, op: Op, target: u32, limit: u32) {
        let [Some(indices), Some(limits)] = [target, limit].map(|id| self.values.get(&id).cloned()) else { return };
        let bearer = self.bearer(target, MAX_STEPS);
        for (component, index) in (0..).zip(&indices) {
            let Some(limit) = limits.get(component as usize).or(limits.last()) else { continue };
            let of_vector = bearer.1.or((indices.len() > 1).then_some(component));
            self.compare_number(op, index, limit, (bearer.0, of_vector));
        }
    }

    fn compare_number(&mut self, op: Op, index: &Bounded, limit: &Bounded, bearer: Bearer) {
        if index.varies & !DATA == 0 {
            return;
        }
        let is_fixed = limit.varies == 0 && limit.parameters != 0;
        if is_fixed {
            self.note_extent(index, limit);
        }
        let is_round = index.varies & ROUND != 0;
        let is_below = matches!(op, Op::ULessThan | Op::SLessThan | Op::ULessThanEqual | Op::SLessThanEqual);
        // `i >= n` usually leaves the kernel; `i > n` may guard an access beyond it.
        let is_order = is_below || matches!(op, Op::UGreaterThanEqual | Op::SGreaterThanEqual);
        if !(is_fixed && is_order || is_round && (is_below || op == Op::INotEqual)) {
            return;
        }
        let is_inclusive = matches!(op, Op::ULessThanEqual | Op::SLessThanEqual);
        if let Some(bound) = &limit.bound {
            let last = if is_inclusive { bound.clone() } else { bound.plus_constant(-1.0) };
            let last = self.limits.get(&bearer).map_or(last.clone(), |old| old.upper(&last));
            let old = self.limits.insert(bearer, last.clone());
            self.changed |= old != Some(last);
        }
    }

    /// Notes that an index is compared with parameters.
    fn note_extent(&mut self, index: &Bounded, limit: &Bounded) {
        let before = (self.extents, self.is_checked, self.row_counts);
        self.extents |= limit.parameters;
        if index.varies == GROUP_NUMBER {
            self.row_counts |= limit.parameters;
        }
        for axis in 0..3 {
            self.is_checked[axis] |= index.varies >> axis & 1 == 1;
        }
        if index.varies & GROUP != 0 {
            self.positions |= limit.parameters;
        } else if index.varies & ROUND != 0 {
            self.rounds |= limit.parameters;
        }
        self.changed |= before != (self.extents, self.is_checked, self.row_counts);
    }

    /// Notes that the number of a work-group is multiplied by a parameter, as the number of a row is.
    fn note_rows(&mut self, operands: &[u32]) {
        let parts: Vec<_> = operands.iter().filter_map(|id| self.values.get(id)?.first()).collect();
        if parts.iter().any(|part| part.varies == GROUP_NUMBER) {
            let fixed = parts.iter().filter(|part| part.varies == 0);
            let lengths = fixed.fold(0, |set, part| set | part.parameters);
            self.row_lengths |= lengths;
            let is_whole = |part: &Bounded| part.bound.as_ref().is_some_and(Polynomial::is_whole);
            let mut groups = parts.iter().filter(|part| part.varies == GROUP_NUMBER);
            self.has_whole_rows |= lengths != 0 && groups.all(|part| is_whole(part));
        }
    }

    /// Follows `min` and `clamp` of an index.
    fn bound_index(&mut self, number: u32, operands: &[u32]) {
        let parts: Vec<_> = operands.iter().filter_map(|id| self.values.get(id)?.first()).cloned().collect();
        if BOUNDING_INSTRUCTIONS.contains(&number)
            && let Some(index) = parts.iter().find(|part| part.varies != 0)
        {
            for limit in parts.iter().filter(|part| part.varies == 0 && part.parameters != 0) {
                self.note_extent(index, limit);
            }
        }
    }
}

/// Comparisons that hold for a part of the code.
impl Analysis<'_> {
    /// Lists what the conditions compare under which code runs, as it is known now: behind pointers too.
    fn find_comparisons(&mut self, all: &[Instruction<'_>]) {
        let guards = find_guards(all);
        for guard in &guards {
            for (bearer, comparison) in self.holding(guard.condition, guard.holds, &guards, MAX_CONDITIONS) {
                self.comparisons.entry(bearer).or_default().push((guard.code.clone(), comparison));
            }
        }
    }

    /// Returns the comparisons that follow from a condition that holds or does not.
    fn holding(&self, condition: u32, holds: bool, guards: &[Guard], steps: usize) -> Vec<(Bearer, LimitComparison)> {
        let Some(definition) = self.definition_behind(condition).filter(|_| steps > 0) else { return vec![] };
        let both = |parts: [u32; 2]| parts.map(|part| self.holding(part, holds, guards, steps - 1)).concat();
        match (definition.op(), definition.operands()) {
            (Some(Op::LogicalNot), &[_, _, negated]) => self.holding(negated, !holds, guards, steps - 1),
            (Some(Op::LogicalAnd), &[_, _, a, b]) if holds => both([a, b]),
            (Some(Op::LogicalOr), &[_, _, a, b]) if !holds => both([a, b]),
            // `a && b` and `a || b` evaluate b in a block of its own, under a or under its opposite.
            (Some(Op::Phi), &[_, _, a, _, b, block]) => {
                let is_under_a = guards.iter().filter(|guard| guard.block == block).any(|guard| {
                    let negated =
                        self.definition_behind(guard.condition).filter(|own| own.op() == Some(Op::LogicalNot));
                    match negated.map(Instruction::operands) {
                        Some(&[_, _, negated]) => negated == a && guard.holds != holds,
                        _ => guard.condition == a && guard.holds == holds,
                    }
                });
                if is_under_a { both([a, b]) } else { vec![] }
            }
            (Some(op), &[_, _, x, y]) => {
                let op = if holds { op } else { partner(&OPPOSITES, op) };
                [self.compared(op, x, y), self.compared(partner(&MIRRORED, op), y, x)].concat()
            }
            _ => vec![],
        }
    }

    /// Returns a comparison of a number, and of that to which it adds a constant.
    fn compared(&self, op: Op, number: u32, limit: u32) -> Vec<(Bearer, LimitComparison)> {
        let is_upper =
            [Op::ULessThan, Op::SLessThan, Op::ULessThanEqual, Op::SLessThanEqual, Op::INotEqual].contains(&op);
        let of = |id, added| (self.bearer(id, MAX_STEPS), LimitComparison { op, added, limit });
        let mut compared = vec![of(number, 0.0)];
        if let Some((Some(Op::IAdd), &[_, _, a, b])) =
            self.definition_behind(number).map(|sum| (sum.op(), sum.operands()))
        {
            let is_added = |(_, b): &(u32, u32)| self.constant(*b).is_some_and(|constant| constant > 0.0);
            let sum = [(a, b), (b, a)].into_iter().find(is_added);
            compared.extend(sum.and_then(|(a, b)| Some(of(a, self.constant(b)?))));
        }
        // A variable that is set again need not be what was compared.
        let is_set_once = |bearer: &Bearer| self.stored.get(&bearer.0).is_none_or(|values| values.len() < 2);
        compared.retain(|(bearer, _)| is_upper && is_set_once(bearer));
        compared
    }

    /// Returns a value with the bounds that hold for it in the instruction that is followed.
    fn value_here(&self, id: u32) -> Option<Cow<'_, [Bounded]>> {
        let value = self.values.get(&id)?;
        let comparisons = self.comparisons.get(&self.bearer(id, MAX_STEPS));
        let here = comparisons.into_iter().flatten().filter(|(code, _)| code.contains(&self.at));
        Some(self.lowered(value, here.map(|(_, comparison)| *comparison)))
    }

    /// Lowers the bound of a number by comparisons that hold.
    fn lowered<'a>(&self, value: &'a [Bounded], here: impl Iterator<Item = LimitComparison>) -> Cow<'a, [Bounded]> {
        let mut value = Cow::Borrowed(value);
        for LimitComparison { op, added, limit: id } in here {
            let Some([Bounded { varies: 0, bound: Some(limit), .. }]) = self.values.get(&id).map(Vec::as_slice) else {
                continue;
            };
            // A parameter's number is a guess, which whoever replaces it would not repeat in a shape.
            if limit.value().is_some() && self.constant(id).is_none() {
                continue;
            }
            let ([own], limit) = (&*value, limit.plus_constant(-added)) else { continue };
            let last = match op {
                Op::ULessThanEqual | Op::SLessThanEqual => limit,
                Op::INotEqual if own.bound.as_ref() != Some(&limit) => continue,
                _ => limit.plus_constant(-1.0),
            };
            let bound = own.bound.as_ref().map_or(last.clone(), |bound| bound.lower(&last));
            value = Cow::Owned(vec![Bounded { bound: Some(bound), ..own.clone() }]);
        }
        value
    }

    /// Returns the two values that a condition chooses between, each with the bounds that hold when it is chosen.
    fn chosen(&self, condition: u32, choices: [u32; 2]) -> Option<[Vec<Bounded>; 2]> {
        let choose = |id: u32, holds: bool| {
            let holding = if self.has_limits { self.holding(condition, holds, &[], MAX_CONDITIONS) } else { vec![] };
            let lowered = |id: u32| {
                let bearer = self.bearer(id, MAX_STEPS);
                let here = holding.iter().filter(|(own, _)| *own == bearer).map(|(_, comparison)| *comparison);
                Some(self.lowered(self.values.get(&id)?, here).into_owned())
            };
            let whole = lowered(id)?;
            let sum = self.definition_behind(id).map(|sum| (sum.op(), sum.operands()));
            let (Some((Some(op @ Op::IAdd), &[_, _, a, b])), [own]) = (sum, whole.as_slice()) else {
                return Some(whole);
            };
            let parts = [lowered(a)?, lowered(b)?];
            let bound = operation(op, &[parts[0].first()?, parts[1].first()?]);
            let bound = own.bound.as_ref().zip(bound).map(|(own, bound)| own.lower(&bound));
            Some(vec![Bounded { bound, ..own.clone() }])
        };
        Some([choose(choices[0], true)?, choose(choices[1], false)?])
    }
}

/// Comparisons of which one holds where the other does not.
const OPPOSITES: [(Op, Op); 5] = [
    (Op::IEqual, Op::INotEqual),
    (Op::ULessThan, Op::UGreaterThanEqual),
    (Op::SLessThan, Op::SGreaterThanEqual),
    (Op::UGreaterThan, Op::ULessThanEqual),
    (Op::SGreaterThan, Op::SLessThanEqual),
];

/// Comparisons that are the same with their operands exchanged.
const MIRRORED: [(Op, Op); 4] = [
    (Op::ULessThan, Op::UGreaterThan),
    (Op::SLessThan, Op::SGreaterThan),
    (Op::ULessThanEqual, Op::UGreaterThanEqual),
    (Op::SLessThanEqual, Op::SGreaterThanEqual),
];

/// Returns the other operation of the pair that `op` belongs to, or `op` if it is in none.
fn partner(pairs: &[(Op, Op)], op: Op) -> Op {
    let of = |(a, b): &(Op, Op)| if op == *a { Some(*b) } else { (op == *b).then_some(*a) };
    pairs.iter().find_map(of).unwrap_or(op)
}

/// `UMin`, `SMin`, `UClamp` and `SClamp` of GLSL.std.450.
const BOUNDING_INSTRUCTIONS: [u32; 4] = [38, 39, 44, 45];

/// `UMax` and `SMax` of GLSL.std.450.
const MAXIMUMS: [u32; 2] = [41, 42];

/// Returns the comparison without equality: that of `i` with `n` if `i + 1` is compared.
fn strict(op: Op) -> Op {
    match op {
        Op::ULessThanEqual => Op::ULessThan,
        Op::SLessThanEqual => Op::SLessThan,
        Op::UGreaterThan => Op::UGreaterThanEqual,
        Op::SGreaterThan => Op::SGreaterThanEqual,
        op => op,
    }
}

/// Returns the low and the high half of a product.
fn double_product(a: &Bounded, b: &Bounded) -> Vec<Bounded> {
    let product = a.bound.as_ref().zip(b.bound.as_ref()).and_then(|(a, b)| a.product(b));
    let half = |factor: f64| {
        let bound = product.as_ref().map(|product| product.times(factor));
        Bounded { parameters: a.parameters | b.parameters, varies: a.varies | b.varies, bound }
    };
    vec![half(1.0), half(0.5_f64.powi(32))]
}

/// Returns the upper bound of a function of GLSL.std.450.
fn bounded_function(number: u32, parts: &[&Bounded]) -> Option<Polynomial> {
    let bounds = parts.iter().map(|part| part.bound.as_ref());
    match (number, parts) {
        (38 | 39, [_, _]) => bounds.flatten().cloned().reduce(|a, b| a.lower(&b)),
        (44 | 45, [_, _, high]) => high.bound.clone(),
        (41 | 42, [a, b]) => Some(a.bound.as_ref()?.upper(b.bound.as_ref()?)),
        _ => None,
    }
}

/// Returns the upper bound of an operation on integers above zero.
fn operation(op: Op, parts: &[&Bounded]) -> Option<Polynomial> {
    let constant = |part: &Bounded| part.bound.as_ref().and_then(Polynomial::value).filter(|_| part.varies == 0);
    let (a, b) = match parts {
        [a] => (a.bound.as_ref(), None),
        [a, b] => (a.bound.as_ref(), b.bound.as_ref()),
        _ => return None,
    };
    match op {
        Op::UConvert | Op::SConvert | Op::Bitcast | Op::CopyObject => a.cloned(),
        Op::IAdd | Op::BitwiseOr | Op::BitwiseXor => Some(a?.plus(b?)),
        Op::ISub => Some(a?.plus_constant(-constant(parts[1]).unwrap_or(0.0).max(0.0))),
        Op::IMul => a?.product(b?),
        Op::UDiv | Op::SDiv => match constant(parts[1]) {
            Some(divisor) if divisor > 0.0 => Some(a?.times(1.0 / divisor)),
            _ => a.cloned(),
        },
        Op::UMod | Op::SRem | Op::SMod => match (a, b.map(|divisor| divisor.plus_constant(-1.0))) {
            (Some(a), Some(last)) if a.degree() < last.degree() => Some(a.clone()),
            (a, last) => last.or(a.cloned()),
        },
        Op::BitwiseAnd => match (constant(parts[0]), constant(parts[1])) {
            (Some(mask), _) | (_, Some(mask)) if mask >= 0.0 => Some(Polynomial::constant(mask)),
            (Some(_), _) => b.cloned(),
            _ => a.or(b).cloned(),
        },
        Op::ShiftLeftLogical => a?.product(&Polynomial::constant(constant(parts[1])?.exp2())),
        Op::ShiftRightLogical | Op::ShiftRightArithmetic => match constant(parts[1]) {
            Some(shift) => Some(a?.times((-shift).exp2())),
            None => a.cloned(),
        },
        Op::SNegate => Some(Polynomial::default()),
        _ => None,
    }
}
