//! Values and extents that `run --init` proposes for a kernel, from what its code does with its parameters and indices.

use super::access::{Access, Root};
use super::description::Formula;
use super::loaded::LoadedPass;
use super::polynomial::{GRID_AXES, Polynomial};
use super::reach::{Assumed, Parameter, Reach, analyze};
use crate::kernel::instructions::instructions;
use crate::kernel::interface::{Argument, ArgumentKind, Block, Scalar, Slot, SlotKind};
use rspirv::spirv::{BuiltIn, Decoration, Op};
use std::collections::{BTreeSet, HashMap};

/// Kernel with the facts that its code reveals.
pub(super) struct AnalyzedPass<'a> {
    pub(super) pass: &'a LoadedPass,
    /// Access to each slot, then to the buffer of each address among the push constants.
    pub(super) accesses: Vec<Access>,
    roots: Vec<Root>,
    /// Numbers in the push constants and in blocks of parameters.
    parameters: Vec<(Parameter, &'a Argument)>,
    /// Facts about them; `None` if the code cannot be followed.
    reach: Option<Reach>,
    /// Whether there is a work-group for each M, such as a row.
    is_by_group: bool,
    /// Elements along each axis that an invocation works on.
    per_invocation: [f64; 3],
    /// Extents of a work-group.
    local_size: [i64; 3],
    /// Specialization constants that are factors of the elements of a work-group along each axis, with their defaults.
    factors: [Vec<(String, f64)>; 3],
    /// Whether those elements stay as many when a constant makes the work-group larger along each axis.
    is_fixed: [bool; 3],
}

/// Returns the name of a member without those of the structures around it, in lower case.
fn lowest_name(member: &Argument) -> String {
    member.name.rsplit('.').next().unwrap_or_default().to_lowercase()
}

/// Whether a number of this name is probably the length of a row in memory, which no index is compared with.
fn is_pitch(name: &str) -> bool {
    ["pitch", "stride"].iter().any(|word| name.contains(word)) || matches!(name, "ld" | "lda" | "ldb" | "ldc" | "ldd")
}

/// Most specialization constants that are tried with another value.
const MAX_CONSTANTS: usize = 8;

/// Guesses for floats, in turn: 1 would be neutral in a product, and equal ones would hide that two are exchanged.
const GUESSED_FLOATS: [f64; 5] = [0.75, 0.625, 0.875, 0.5625, 0.6875];

/// Returns the block of a slot that holds parameters, whose members are given one by one: a uniform block, one of
/// addresses, or one that looks like a structure of parameters, because the kernel only reads it and its members have
/// fixed places and several types.
pub(super) fn parameter_block(slot: &Slot, access: Access) -> Option<&Block> {
    let block = slot.blocks.iter().find(|block| !block.members.is_empty())?;
    let is_structure = !access.writes && block.array.is_none() && block.numbers().is_none();
    (slot.kind == SlotKind::Uniform || is_structure || block.is_addresses()).then_some(block)
}

impl<'a> AnalyzedPass<'a> {
    /// Analyzes a kernel: first to find its extents, then, with their values, how far its indices reach.
    pub(super) fn new(pass: &'a LoadedPass) -> Self {
        let accesses = pass.accesses();
        let mut parameters: Vec<_> = pass
            .interface
            .arguments
            .iter()
            .map(|member| (Parameter { block: None, offset: member.offset }, member))
            .collect();
        for (index, (slot, access)) in pass.interface.slots.iter().zip(&accesses).enumerate() {
            let members = parameter_block(slot, *access).into_iter().flat_map(|block| block.members.iter());
            parameters.extend(members.map(|member| (Parameter { block: Some(index), offset: member.offset }, member)));
        }
        let roots = pass.roots();
        let (is_by_group, per_invocation) = (false, [1.0; 3]);
        let mut analyzed = Self {
            pass,
            accesses,
            roots,
            parameters,
            reach: None,
            is_by_group,
            per_invocation,
            local_size: pass.default_local_size(),
            factors: [const { vec![] }; 3],
            is_fixed: [false; 3],
        };
        let words = &pass.compiled.spirv;
        let unknown = vec![None; analyzed.parameters.len()];
        analyzed.reach = analyzed.analyze(words, unknown, [true; 3]);
        let Some(found) = analyzed.reach.clone() else { return analyzed };
        analyzed.reach = analyzed.reach_with_values(words, &found);
        // With fewer work-groups where an invocation works on several elements.
        if let Some(reach) = &analyzed.reach {
            let is_several = |elements: f64| elements.is_finite() && elements >= 2.0 && elements.fract() == 0.0;
            analyzed.per_invocation =
                reach.per_invocation.map(|elements| if is_several(elements) { elements } else { 1.0 });
            if analyzed.per_invocation != [1.0; 3] {
                analyzed.reach = analyzed.reach_with_values(words, &found);
            }
            analyzed.find_factors(&found);
        }
        // A group whose number is multiplied by an extent works on a row: it is the number of no part of N.
        if analyzed.dimensions() == 1 && (found.has_rows || analyzed.divides_products()) {
            analyzed.is_by_group = true;
            let by_group = analyzed.reach_with_values(words, &found);
            let by_element = std::mem::replace(&mut analyzed.reach, by_group);
            let has_whole_rows = analyzed.reach.as_ref().is_some_and(|reach| reach.has_whole_rows);
            if analyzed.divides_products() && !has_whole_rows || !analyzed.has_products() {
                (analyzed.is_by_group, analyzed.reach) = (false, by_element);
            }
        }
        analyzed
    }

    /// Analyzes the kernel with values for the parameters that `found` tells.
    fn reach_with_values(&self, words: &[u32], found: &Reach) -> Option<Reach> {
        let values = self.parameters.iter().map(|(parameter, member)| self.bound(*parameter, member)).collect();
        let reach = self.analyze(words, values, found.is_checked)?;
        let Reach { is_used, is_extent, is_checked, is_row_count, has_rows, is_depth, has_inner_loop, .. } =
            found.clone();
        Some(Reach { is_used, is_extent, is_checked, is_row_count, has_rows, is_depth, has_inner_loop, ..reach })
    }

    /// Whether the number of elements that an array needs is a fraction of a product of axes.
    fn divides_products(&self) -> bool {
        self.reach.as_ref().is_some_and(|reach| {
            reach.bytes.iter().zip(&reach.elements).any(|(bytes, element)| {
                let stride = element.as_ref().map_or(4, |(_, stride)| *stride);
                bytes.as_ref().is_some_and(|bytes| bytes.times(1.0 / stride.max(1) as f64).divides_products())
            })
        })
    }

    /// Whether an array has as many elements as a product of axes.
    fn has_products(&self) -> bool {
        let mut sizes = self.reach.iter().flat_map(|reach| reach.bytes.iter().flatten());
        sizes.any(|bytes| bytes.degree() > 1)
    }

    fn analyze(&self, words: &[u32], values: Vec<Option<Polynomial>>, is_checked: [bool; 3]) -> Option<Reach> {
        let parameters: Vec<_> = self.parameters.iter().map(|(parameter, _)| *parameter).collect();
        let assumed = Assumed {
            roots: &self.roots,
            parameters: &parameters,
            values,
            indices: self.accesses.iter().map(|access| access.indexes).collect(),
            local_size: self.local_size,
            dimensions: self.dimensions(),
            per_invocation: self.per_invocation,
            is_by_group: self.is_by_group,
            is_checked,
        };
        analyze(words, assumed)
    }

    /// Finds the specialization constants by which the elements of a work-group grow, by analyzing the kernel with twice the
    /// default of each.
    fn find_factors(&mut self, found: &Reach) {
        let (elements, local_size) = (self.per_invocation, self.local_size);
        let integers = self.pass.interface.constants.iter().filter(|constant| {
            let is_integer = matches!(constant.scalar, Scalar::Int { bits: 32, .. });
            is_integer && !constant.name.is_empty() && (1..1 << 16).contains(&constant.default)
        });
        for constant in integers.take(MAX_CONSTANTS) {
            let words = with_constant(&self.pass.compiled.spirv, constant.id, 2 * constant.default as u32);
            let is_set = self.pass.local_size(|id| (id == constant.id).then_some(-1)).map(|extent| extent == -1);
            for axis in (0..3).filter(|axis| is_set[*axis]) {
                self.local_size[axis] *= 2;
            }
            self.per_invocation = [1.0; 3];
            let doubled = self.reach_with_values(&words, found).map_or(elements, |reach| reach.per_invocation);
            (self.per_invocation, self.local_size) = (elements, local_size);
            for axis in 0..3 {
                match doubled[axis] / elements[axis] {
                    2.0 if !is_set[axis] => {
                        self.factors[axis].push((constant.name.to_string(), constant.default as f64));
                    }
                    0.5 if is_set[axis] => self.is_fixed[axis] = true,
                    _ => {}
                }
            }
        }
    }

    /// Returns the largest value of a parameter, if it is an integer.
    fn bound(&self, parameter: Parameter, member: &Argument) -> Option<Polynomial> {
        let ArgumentKind::Scalar(scalar @ (Scalar::Int { .. } | Scalar::Bool)) = member.kind else { return None };
        match self.guess(parameter, member, scalar) {
            (Formula::Integer(value), _) => Some(Polynomial::constant(value as f64)),
            _ => GRID_AXES.iter().position(|axis| *axis == self.axis_of(parameter, member)).map(Polynomial::axis),
        }
    }

    /// Guesses the value of a parameter, with a remark: an axis if the kernel compares an index with it.
    pub(super) fn guess(&self, parameter: Parameter, member: &Argument, scalar: Scalar) -> (Formula, String) {
        let fact = |facts| self.fact(parameter, facts);
        let name = scalar.name();
        let axis = self.axis_of(parameter, member);
        match scalar {
            _ if fact(|reach| &reach.is_used) == Some(false) => (Formula::Integer(0), format!("{name}, not used")),
            Scalar::Float { .. } | Scalar::Bfloat16 => {
                let alike = |_: Parameter, member: &Argument| {
                    matches!(member.kind, ArgumentKind::Scalar(Scalar::Float { .. } | Scalar::Bfloat16))
                };
                let value = GUESSED_FLOATS[self.number_of(parameter, alike) % GUESSED_FLOATS.len()];
                (Formula::Number(value), format!("(…) {name}"))
            }
            Scalar::Int { bits, signed } if self.is_extent(parameter, member) => {
                let most = u64::MAX >> (64 - bits + u32::from(signed));
                let value = if bits < 32 { format!("min({axis}, {most})") } else { axis.into() };
                (Formula::Text(value), format!("(…) {name}"))
            }
            Scalar::Int { .. } => {
                let alike = |parameter, member: &Argument| {
                    matches!(member.kind, ArgumentKind::Scalar(Scalar::Int { .. }))
                        && !self.is_extent(parameter, member)
                };
                (Formula::Integer(1 + self.number_of(parameter, alike) as i64), format!("(…) {name}"))
            }
            Scalar::Bool => (Formula::Integer(1), format!("(…) {name}")),
        }
    }

    /// Whether an integer is probably an extent: the kernel compares an index with it, or its name says so.
    fn is_extent(&self, parameter: Parameter, member: &Argument) -> bool {
        self.fact(parameter, |reach| &reach.is_extent) != Some(false)
            || self.axis_count() > 1 && is_pitch(&lowest_name(member))
    }

    /// Returns the number of a parameter among those that are alike.
    fn number_of(&self, parameter: Parameter, is_alike: impl Fn(Parameter, &Argument) -> bool) -> usize {
        let mut alike = self.parameters.iter().filter(|(parameter, member)| is_alike(*parameter, member));
        alike.position(|(other, _)| *other == parameter).unwrap_or(0)
    }

    /// Returns the number of dimensions of the kernel's work-groups: 2 if they extend along y, but not along z.
    pub(super) fn dimensions(&self) -> usize {
        self.pass.default_local_size().iter().rposition(|extent| *extent > 1).unwrap_or(0) + 1
    }

    /// Returns the directions beyond these dimensions along which the kernel tells work-groups apart, such as `y`.
    pub(super) fn further_directions(&self) -> Vec<&'static str> {
        let module = &self.pass.compiled.spirv;
        let group = [BuiltIn::GlobalInvocationId as u32, BuiltIn::WorkgroupId as u32];
        let mut numbers = vec![];
        let mut constants = HashMap::new();
        let mut components = BTreeSet::new();
        for instruction in instructions(module).map_while(Result::ok) {
            match (instruction.op(), instruction.operands()) {
                (Some(Op::Decorate), [id, kind, value])
                    if *kind == Decoration::BuiltIn as u32 && group.contains(value) =>
                {
                    numbers.push(*id);
                }
                (Some(Op::Constant), [_, id, value]) => {
                    constants.insert(*id, *value);
                }
                (Some(Op::Load), [_, id, from, ..]) if numbers.contains(from) => numbers.push(*id),
                (Some(Op::AccessChain), [_, _, from, index]) if numbers.contains(from) => {
                    components.extend(constants.get(index));
                }
                (Some(Op::CompositeExtract), [_, _, from, index]) if numbers.contains(from) => {
                    components.insert(*index);
                }
                _ => {}
            }
        }
        let beyond = |component: &u32| *component as usize >= self.dimensions();
        components
            .into_iter()
            .filter(beyond)
            .filter_map(|component| ["x", "y", "z"].get(component as usize).copied())
            .collect()
    }

    /// Whether the kernel compares its indices with the extents, as far as that is known.
    pub(super) fn is_checked(&self) -> bool {
        let dimensions = self.dimensions();
        self.reach.as_ref().is_none_or(|reach| reach.is_checked[..dimensions].iter().all(|is| *is))
    }

    /// Returns the number of axes: one for each dimension, M for the work-groups that are rows, and K for the inner extent of
    /// a product.
    fn axis_count(&self) -> usize {
        if self.is_by_group { 2 } else { self.dimensions() + usize::from(self.has_depth()) }
    }

    /// Whether a two-dimensional kernel has an inner extent: a parameter with which it compares only rounds of a loop.
    fn has_depth(&self) -> bool {
        self.dimensions() == 2 && self.reach.as_ref().is_some_and(|reach| reach.is_depth.contains(&true))
    }

    /// Returns the axes with values to sweep, in the order in which the kernel declares their extents: `M`, `N`, `K` of a
    /// product that does so. Those without a parameter follow from x on.
    pub(super) fn grid_axes(&self) -> Vec<(&'static str, String)> {
        let dimensions = self.dimensions();
        let degrees = self.reach.iter().flat_map(|reach| reach.bytes.iter().flatten()).map(Polynomial::degree);
        let degree = degrees.max().unwrap_or(0).max(dimensions as u32);
        let has_inner_loop = self.reach.as_ref().is_some_and(|reach| reach.has_inner_loop);
        let (odd, first, last) = match degree {
            // A product is cubic in time: on a CPU, a run at 2048 takes seconds.
            2 if has_inner_loop && dimensions == 2 => (255, 256, 512),
            1 if has_inner_loop => (1001, 1024, 8192),
            0 | 1 => (1001, 1024, 65536),
            2 => (255, 256, 2048),
            3 => (33, 64, 256),
            _ => (9, 16, 32),
        };
        let is_checked = self.is_checked();
        let local_size = self.pass.default_local_size();
        let step = local_size[..dimensions].iter().fold(1, |step, extent| lcm(step, (*extent).clamp(1, 1 << 16)));
        let multiple = step * (first + step - 1).div_euclid(step);
        let widths = if is_checked {
            // The first value is no multiple of a work-group, to expose missing bounds checks.
            format!("{odd},{first}..{last}")
        } else {
            format!("{multiple}..{}", multiple.max(last))
        };
        // Extents differ where the kernel receives them, to expose swapped extents.
        let others = [("M", "N+3"), ("K", "N+6")].map(|(axis, value)| {
            let is_free = self.is_by_group || is_checked && self.extent_along(axis).is_some();
            (axis, if is_free { value } else { "N" }.to_string())
        });
        let mut axes: Vec<_> = [("N", widths)].into_iter().chain(others).take(self.axis_count()).collect();
        axes.sort_by_key(|(axis, _)| self.extent_along(axis).unwrap_or(usize::MAX));
        axes
    }

    /// Returns the number of the first parameter that is probably the extent along `axis`, guessed from its name.
    fn extent_along(&self, axis: &str) -> Option<usize> {
        self.parameters.iter().position(|(parameter, member)| match member.kind {
            ArgumentKind::Scalar(scalar) => self.guess(*parameter, member, scalar).0 == Formula::Text(axis.into()),
            ArgumentKind::Address => false,
        })
    }

    /// Returns one of the facts about a parameter; `None` if it is not followed.
    fn fact(&self, parameter: Parameter, facts: fn(&Reach) -> &Vec<bool>) -> Option<bool> {
        let index = self.parameters.iter().position(|(known, _)| *known == parameter)?;
        self.reach.as_ref().map(facts)?.get(index).copied()
    }

    /// Returns the axis that a number is probably the size of, by the comparisons with it, or else by its name.
    fn axis_of(&self, parameter: Parameter, member: &Argument) -> &'static str {
        if self.is_by_group && self.fact(parameter, |reach| &reach.is_row_count) == Some(true) {
            return "M";
        }
        if self.has_depth() && self.fact(parameter, |reach| &reach.is_depth) == Some(true) {
            return "K";
        }
        match &*lowest_name(member) {
            "lda" | "stride_a" if self.has_depth() => "K",
            "m" | "rows" | "row" | "nrows" | "num_rows" | "n_rows" | "height" | "h" | "y" | "ny"
                if self.axis_count() > 1 =>
            {
                "M"
            }
            "k" | "depth" | "d" | "z" | "nz" if self.dimensions() > 2 => "K",
            _ => "N",
        }
    }

    /// Takes the constants that are factors along an axis out of a number of elements. Returns the rest and their names.
    fn factored(&self, axis: usize, mut elements: f64) -> (f64, Vec<&str>) {
        let mut names = vec![];
        for (name, value) in &self.factors[axis] {
            if elements % value == 0.0 {
                elements /= value;
                names.push(&**name);
            }
        }
        (elements, names)
    }

    /// Returns the work-groups that cover the axes.
    pub(super) fn grid_groups(&self) -> Vec<Formula> {
        let mut groups = vec![];
        for (axis, direction) in GRID_AXES.iter().zip(["x", "y", "z"]).take(self.dimensions()) {
            let index = groups.len();
            let elements = self.per_invocation[index];
            let of_invocation = self.factored(index, elements);
            let of_group = self.factored(index, elements * self.local_size[index] as f64);
            // A tile of TILE rows has as many, however many invocations work on it.
            let is_of_group = self.is_fixed[index] || of_group.1.len() > of_invocation.1.len();
            let (rest, mut names) = if is_of_group { of_group } else { of_invocation };
            let local = format!("local_{direction}");
            names.extend((!is_of_group).then_some(&*local));
            let number = (rest > 1.0 || names.is_empty()).then(|| rest.to_string());
            let factors: Vec<&str> = number.iter().map(String::as_str).chain(names).collect();
            groups.push(Formula::Text(format!("cdiv({axis}, {})", factors.join("*"))));
        }
        if self.is_by_group {
            groups[0] = Formula::Text("M".into());
        } else if self.reach.as_ref().is_some_and(|reach| reach.has_one_group) {
            groups.clear();
        }
        groups.resize(3, Formula::Text("1".into()));
        groups
    }

    /// Whether the kernel uses the buffer of a root.
    pub(super) fn is_used(&self, root: usize) -> bool {
        let access = self.accesses[root];
        access.reads || access.writes || self.reach.as_ref().is_none_or(|reach| reach.is_array_used[self.first(root)])
    }

    /// Returns the first root with the same binding: buffers of an array share their code.
    fn first(&self, root: usize) -> usize {
        self.roots.iter().position(|known| *known == self.roots[root]).unwrap_or(root)
    }

    /// Returns the type and the stride of the elements that the kernel accesses through an address.
    pub(super) fn address_elements(&self, root: usize) -> Option<(String, u64)> {
        self.reach.as_ref()?.elements[root].clone()
    }

    /// Returns the extents of a buffer with an element for each invocation, as a guess.
    pub(super) fn grid_extents(&self) -> (Vec<Formula>, bool) {
        let axes = GRID_AXES.iter().take(self.axis_count() - usize::from(self.has_depth())).rev();
        (axes.map(|axis| Formula::Text((*axis).into())).collect(), false)
    }

    /// Returns the number of elements of `stride` bytes that indices reach, if it is known.
    fn elements(&self, root: usize, stride: u64) -> Option<Polynomial> {
        let bytes = self.reach.as_ref()?.bytes[self.first(root)].as_ref()?;
        Some(bytes.times(1.0 / stride.max(1) as f64))
    }

    /// Returns the axis that a guarded array has for its extent but for one element, which is a mistake more often than meant, and
    /// the number of elements that indices reach.
    pub(super) fn off_by_one(&self, root: usize, stride: u64) -> Option<(Polynomial, String)> {
        let count = self.elements(root, stride).filter(|_| self.is_checked())?;
        let mut wholes = [1.0, -1.0].into_iter().map(|excess| count.plus_constant(excess));
        let whole = wholes.find(|whole| whole.axes().is_some_and(|axes| axes.len() == 1))?;
        Some((whole, count.text()))
    }

    /// Returns the extents of an array of elements of `stride` bytes, the slowest first; the second value tells whether
    /// they are known from the code. Those that name axes are guesses, as the axes are.
    pub(super) fn extents(&self, root: usize, stride: u64) -> (Vec<Formula>, bool) {
        if !self.is_used(root) {
            return (vec![Formula::Integer(1)], true);
        }
        let Some(count) = self.elements(root, stride) else { return self.grid_extents() };
        if let Some(count) = count.value() {
            return (vec![Formula::Integer(count.max(1.0).ceil() as i64)], true);
        }
        // A guard that is a row or an element too wide is a mistake, which an array as large as that would hide.
        let is_guarded = self.dimensions() > 1 && self.is_checked();
        let count = count.without_overrun().filter(|_| is_guarded).unwrap_or(count);
        let count = self.off_by_one(root, stride).map_or(count, |(whole, _)| whole);
        // The first factor of a product is M×K.
        let mut axes = count.axes().unwrap_or_else(|| vec![count.text()]);
        if self.has_depth() && axes == ["K", "M"] {
            axes.reverse();
        }
        (axes.into_iter().map(Formula::Text).collect(), false)
    }
}

/// Returns a module whose specialization constant has another default.
fn with_constant(words: &[u32], constant: u32, value: u32) -> Vec<u32> {
    let mut changed = words.to_vec();
    let mut ids = vec![];
    for instruction in instructions(words).map_while(Result::ok) {
        match (instruction.op(), instruction.operands()) {
            (Some(Op::Decorate), &[id, kind, number]) if kind == Decoration::SpecId as u32 && number == constant => {
                ids.push(id);
            }
            (Some(Op::SpecConstant), &[_, id, _]) if ids.contains(&id) => changed[instruction.at + 3] = value,
            _ => {}
        }
    }
    changed
}

/// Returns the least common multiple of two numbers above zero.
fn lcm(a: i64, b: i64) -> i64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
