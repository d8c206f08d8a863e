//! Puts findings into words: source lines, names of elements, invocations, and what to do.

use crate::code::{Edge, MemoryPlace, Pc, RegisterOp};
use crate::fault::{FaultKind, KernelFault, SourcePlace};
use crate::findings::{
    AccessKind, Findings, FoundFault, Hazards, Invocation, MAX_FINDINGS, Object, Subject, UndefinedStore,
    UndefinedStores,
};
use crate::kernel::buffer::BufferSpec;
use crate::kernel::lines::Lines;
use crate::kernel::program::Dispatch;
use crate::lower::Kernel;
use crate::memory::Memory;
use crate::module::{Id, ValueType};
use crate::sanitize::SUBGROUP_BARRIER;
use rspirv::spirv::Op;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

/// Collects the faults of a program's dispatches.
pub(crate) struct FaultReporter {
    specs: Vec<BufferSpec>,
    faults: Vec<KernelFault>,
    /// First access to single elements of cooperative matrices.
    pub(crate) matrix_element: Option<SourcePlace>,
    /// Exchanges within sub-groups, with a hash of the lanes that took part.
    pub(crate) exchanges: Vec<(SourcePlace, u64)>,
    pending: Vec<PendingStore>,
    /// Whether a fault is the use of a value that was read from a buffer and never written.
    reads_unwritten: bool,
}

/// Store of undefined values to a buffer, which is a fault if one of them is still there at the end.
struct PendingStore {
    buffer: u32,
    offsets: Vec<u64>,
    fault: KernelFault,
    /// Whether the values were read from a buffer.
    is_of_buffer: bool,
}

/// Traces of a dispatch that reports are made of.
pub(crate) struct Traces<'a> {
    pub(crate) findings: &'a Findings,
    pub(crate) undefined_stores: &'a UndefinedStores,
    /// For each exchange within sub-groups, a hash of the lanes that took part.
    pub(crate) exchanges: &'a HashMap<Pc, u64>,
    pub(crate) hazards: &'a Hazards,
}

/// Dispatch whose findings are put into words.
struct Scene<'a> {
    kernel: &'a Kernel,
    name: String,
    specs: &'a [BufferSpec],
    groups: [u32; 3],
    lines: &'a Lines,
    /// Words of the module, for the names of instructions.
    spirv: &'a [u8],
    hazards: &'a Hazards,
}

impl FaultReporter {
    pub(crate) fn new(specs: Vec<BufferSpec>) -> Self {
        Self { specs, faults: vec![], matrix_element: None, exchanges: vec![], pending: vec![], reads_unwritten: false }
    }

    /// Adds the findings of a dispatch.
    pub(crate) fn add(&mut self, dispatch: &Dispatch, kernel: &Kernel, groups: [u32; 3], traces: &Traces<'_>) {
        let Traces { findings, undefined_stores, exchanges, hazards } = traces;
        let accesses_element = kernel.matrix_element.is_some() && self.matrix_element.is_none();
        if findings.is_empty() && undefined_stores.is_empty() && exchanges.is_empty() && !accesses_element {
            return;
        }
        let shader = &dispatch.shader;
        let name = shader.name.rsplit_once('#').map_or(&*shader.name, |(name, _)| name);
        let name = if shader.built_in { name.to_string() } else { name.rsplit('/').next().unwrap_or(name).to_string() };
        let lines = kernel.lines.get_or_init(|| shader.lines());
        let scene = Scene { kernel, name, specs: &self.specs, groups, lines, spirv: &shader.spirv, hazards };
        let is_read_of_buffer = |pc: Pc| kernel.code.instructions[pc as usize].reads_buffer();
        for (finding, count) in findings.iter() {
            self.reads_unwritten |=
                finding.kind == FaultKind::Uninitialized && finding.other.is_some_and(is_read_of_buffer);
            merge(&mut self.faults, scene.fault(finding, count));
        }
        self.matrix_element =
            self.matrix_element.take().or(kernel.matrix_element.map(|word| scene.place_of_word(word)));
        let mut exchanges: Vec<_> = exchanges.iter().collect();
        exchanges.sort_unstable();
        self.exchanges.extend(exchanges.into_iter().map(|(pc, lanes)| (scene.place(*pc), *lanes)));
        let mut stores: BTreeMap<(u32, Pc, Pc), BTreeMap<u64, Invocation>> = BTreeMap::new();
        for (&(object, offset), &UndefinedStore { pc, origin, who }) in *undefined_stores {
            let Object::Buffer(buffer) = object else { continue };
            stores.entry((buffer, pc, origin)).or_default().insert(offset, who);
        }
        for ((buffer, pc, origin), places) in stores.into_iter().take(MAX_FINDINGS) {
            let Some((offset, who)) = places.first_key_value() else { continue };
            let fault = scene.undefined_store(buffer, *offset, pc, origin, *who);
            let is_of_buffer = is_read_of_buffer(origin);
            self.pending.push(PendingStore { buffer, offsets: places.into_keys().collect(), fault, is_of_buffer });
        }
    }

    /// Returns all faults. Undefined values count if they are in an output in the end.
    pub(crate) fn finish(&mut self, memory: &Memory) -> Vec<KernelFault> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|store| store.offsets.iter().any(|offset| !memory.is_defined(store.buffer, *offset)));
        let is_output = |buffer: u32| self.specs.get(buffer as usize).is_some_and(|spec| spec.role.is_output());
        let (outputs, others): (Vec<_>, Vec<_>) = pending.into_iter().partition(|store| is_output(store.buffer));
        for store in outputs {
            self.reads_unwritten |= store.is_of_buffer;
            merge(&mut self.faults, store.fault);
        }
        // A later dispatch that reads such a value knows only that no defined one was written.
        for store in others.into_iter().filter(|_| self.reads_unwritten) {
            merge(&mut self.faults, store.fault);
        }
        std::mem::take(&mut self.faults)
    }
}

/// Adds a fault to a list, or its count to the same fault there.
fn merge(faults: &mut Vec<KernelFault>, fault: KernelFault) {
    match faults.iter_mut().find(|known| known.kernel == fault.kernel && known.is_same(&fault)) {
        Some(same) => same.count += fault.count,
        None => faults.push(fault),
    }
}

impl Scene<'_> {
    fn fault(&self, finding: &FoundFault, count: u64) -> KernelFault {
        let FoundFault { kind, pc, other, who, other_who, subject } = finding;
        let invocation = self.invocation(*who);
        let (what, other_what) = match subject {
            Subject::Memory { object, offset, bytes, access, other, .. } => {
                let element = self.element(*object, *offset);
                let what = match kind {
                    FaultKind::OutOfBounds => self.beyond(*object, *offset, *bytes, *access),
                    _ => format!("{} {element}", verb(*access)),
                };
                let other_what = match (other, other_who) {
                    (Some(access), Some(who)) => {
                        format!("{} it ({}), {}", verb(*access), self.invocation(*who), unordered(*kind, subject))
                    }
                    _ => String::new(),
                };
                (format!("{what} ({invocation})"), other_what)
            }
            Subject::Index { index, bound, variable } => {
                let name = variable.and_then(|variable| self.kernel.module.names.get(&variable));
                let name = name.filter(|name| !name.is_empty()).map_or_else(String::new, |name| format!("{name}, "));
                (format!("uses index {index} of {name}an array of {bound} ({invocation})"), String::new())
            }
            Subject::Text(text) => (format!("{text} ({invocation})"), self.origin_text(*kind, *other, *who)),
            Subject::Advised { text, .. } => (format!("{text} ({invocation})"), String::new()),
        };
        let passed = match subject {
            Subject::Memory { object, passed_barrier: true, .. } => Some(*object),
            _ => None,
        };
        let mut fault = KernelFault { count, ..self.make(*kind, *pc, *other, [what, other_what], passed) };
        let is_across = *kind == FaultKind::RaceStorage && other_who.is_some_and(|other| other.group != who.group);
        match subject {
            Subject::Memory { access, other: Some(earlier), passed_barrier, .. } => {
                // No barrier stands between one instruction and itself, unless it is in a loop.
                let is_lone = *other == Some(*pc) && !self.is_in_loop(*pc, *pc);
                let plain = if *access == AccessKind::Atomic { fault.other.as_ref() } else { fault.at.as_ref() };
                if let Some(remedy) = remedy_of_accesses([*access, *earlier], is_across, is_lone, plain, &fault.remedy)
                {
                    fault.remedy = remedy;
                } else if *kind == FaultKind::RaceStorage && !passed_barrier {
                    fault.remedy += "; across work-groups, use an atomic or two dispatches";
                }
            }
            Subject::Advised { remedy, .. } => fault.remedy = (*remedy).into(),
            _ => {}
        }
        if let Some(line) = updated_in(&fault) {
            fault.remedy = format!("an atomic in line {line}, such as atomicAdd(), in place of the update");
        }
        fault
    }

    fn undefined_store(&self, buffer: u32, offset: u64, pc: Pc, origin: Pc, who: Invocation) -> KernelFault {
        let kind = self.kernel.code.instructions[origin as usize].fault_of_result();
        let element = self.element(Object::Buffer(buffer), offset);
        let what = format!("writes an undefined value to {element} ({})", self.invocation(who));
        self.make(kind, pc, Some(origin), [what, self.origin_text(kind, Some(origin), who)], None)
    }

    /// Makes a fault that was found once, with what happens at its two places.
    fn make(
        &self,
        kind: FaultKind,
        pc: Pc,
        other: Option<Pc>,
        [what, other_what]: [String; 2],
        passed: Option<Object>,
    ) -> KernelFault {
        let carried = other.filter(|other| self.is_in_loop(pc, *other)).map(|other| self.has_barrier(pc, other));
        let left = other.and_then(|other| self.block_left(other, pc));
        let around = other.and_then(|other| self.block_around(pc, other));
        let (at, other) = (Some(self.place(pc)), other.map(|other| self.place(other)));
        let mut remedy = remedy(kind, [&at, &other], passed, carried, left);
        // A fence before a barrier that is there needs no place of its own.
        let needs_barrier = passed.is_none() && matches!(kind, FaultKind::RaceShared | FaultKind::RaceStorage);
        if let Some(line) = around.filter(|_| needs_barrier) {
            let _ = write!(remedy, ", where all invocations reach it, also those that skip the `if` in line {line}");
        }
        let kernel = self.name.clone();
        KernelFault { kind, kernel, at, other, what, other_what, remedy, subgroup_sizes: vec![], count: 1 }
    }

    /// Returns the first line of the outermost `if`, `switch` or loop around `from` that ends before `to`: a barrier inside
    /// it might not be reached by all invocations.
    fn block_left(&self, from: Pc, to: Pc) -> Option<u32> {
        let [from, to] = [from, to].map(|pc| self.kernel.code.block_at(pc));
        let mut left = self.nested_blocks().filter(|(inside, _)| inside.contains(&from) && inside.end <= to);
        // A function's call is a block too, but not one that its caller sees.
        let (_, header) = left.find(|(_, header)| self.op_at(header.end - 1) != Some(Op::FunctionCall))?;
        self.line_of(header.end - 1)
    }

    /// Lists the blocks inside each `if`, `switch`, loop and call, from the outermost on, with the instructions that end in its
    /// branch.
    fn nested_blocks(&self) -> impl DoubleEndedIterator<Item = (Range<usize>, Range<Pc>)> + '_ {
        let code = &self.kernel.code;
        code.merges.iter().enumerate().filter_map(|(header, merge)| {
            let [first, end] = [code.blocks.get(header)?, code.blocks.get(header + 1)?];
            (first < end).then_some((header + 1..(*merge)? as usize, *first..*end))
        })
    }

    fn op_at(&self, pc: Pc) -> Option<Op> {
        self.op(*self.kernel.sites.get(pc as usize)?)
    }

    fn line_of(&self, pc: Pc) -> Option<u32> {
        self.lines.at(*self.kernel.sites.get(pc as usize)?).map(|(_, line)| line)
    }

    /// Returns the line of the innermost `if` or `switch` around two instructions.
    fn block_around(&self, pc: Pc, other: Pc) -> Option<u32> {
        let code = &self.kernel.code;
        let places = [pc, other].map(|pc| code.block_at(pc));
        let is_branch = |header: &Range<Pc>| {
            let last = header.end - 1;
            matches!(code.instructions.get(last as usize), Some(RegisterOp::Branch { .. }))
                && !self.is_in_loop(header.start, last)
        };
        let mut around = self.nested_blocks().filter(|(inside, _)| places.iter().all(|place| inside.contains(place)));
        let (_, header) = around.rfind(|(_, header)| is_branch(header))?;
        self.line_of(header.end - 1)
    }

    /// Whether a loop holds two instructions: a branch behind both leads back to before them.
    fn is_in_loop(&self, pc: Pc, other: Pc) -> bool {
        let code = &self.kernel.code;
        let first = code.block_at(pc.min(other)) as u32;
        let leads_back = |edge: &Edge| edge.block <= first;
        code.instructions.iter().skip(pc.max(other) as usize).any(|instruction| match instruction {
            RegisterOp::Jump(edge) => leads_back(edge),
            RegisterOp::Branch { yes, no, .. } => leads_back(yes) || leads_back(no),
            _ => false,
        })
    }

    /// Whether a barrier stands between two accesses of an iteration, so that those of different iterations race.
    fn has_barrier(&self, pc: Pc, other: Pc) -> bool {
        let between = pc.min(other) as usize + 1..pc.max(other) as usize;
        let instructions = self.kernel.code.instructions.get(between).unwrap_or_default();
        instructions.iter().any(|instruction| matches!(instruction, RegisterOp::ControlBarrier { .. }))
    }

    /// Says where an undefined value that `who` uses comes from.
    fn origin_text(&self, kind: FaultKind, origin: Option<Pc>, who: Invocation) -> String {
        let Some(origin) = origin else { return String::new() };
        let text = match (&self.kernel.code.instructions[origin as usize], kind) {
            (_, FaultKind::DivergentBarrier) => "others wait here",
            (RegisterOp::Load { at, .. } | RegisterOp::Atomic { at, .. }, _) if at.place == MemoryPlace::Shared => {
                "reads shared memory that nothing wrote"
            }
            (RegisterOp::Load { .. } | RegisterOp::Fetch { .. } | RegisterOp::Atomic { .. }, _) => {
                "reads memory that nothing wrote"
            }
            (RegisterOp::Compute { .. }, _) => return self.hazard_text(origin, who),
            (RegisterOp::Subgroup { .. }, _) => "reads from a lane that is inactive or missing",
            (RegisterOp::Matrix(_), _) => "reads memory that nothing wrote, or an element that the matrix lacks",
            (RegisterOp::Undefine { .. }, _) => "has no value",
            (RegisterOp::Copy { .. } | RegisterOp::LoadIndexed { .. }, _) => "reads a variable that nothing wrote",
            _ => "makes it",
        };
        text.into()
    }

    /// Says for which operands an operation has no defined result: those of `who`, or else of an invocation that it names,
    /// because the value may have come through memory.
    fn hazard_text(&self, pc: Pc, who: Invocation) -> String {
        let word = self.kernel.sites.get(pc as usize).copied().unwrap_or(0);
        let op = self.op(word);
        let name = op.map_or_else(|| "an operation".into(), |op| format!("Op{op:?}"));
        let first = || self.hazards.range((pc, Invocation::default())..).next().filter(|((other, _), _)| *other == pc);
        let found = self.hazards.get_key_value(&(pc, who)).or_else(first);
        let text = match (op, found.map(|(_, operands)| operands)) {
            (Some(Op::ConvertFToS | Op::ConvertFToU), Some([a, _])) => {
                format!("converts {a} to an integer type that does not hold it ({name})")
            }
            (Some(Op::ShiftLeftLogical | Op::ShiftRightLogical | Op::ShiftRightArithmetic), Some([a, b])) => {
                format!("shifts {a} by {b} bits, which is undefined ({name})")
            }
            (_, Some([a, b])) => format!("has {name} of {a} and {b}, whose result is undefined"),
            (_, None) => format!("has {name}, whose result is undefined here"),
        };
        match found {
            Some(((_, other), _)) if *other != who => format!("{text}, in {}", self.invocation(*other)),
            _ => text,
        }
    }

    /// Returns the opcode at a word of the module.
    fn op(&self, word: usize) -> Option<Op> {
        let first = self.spirv.get(4 * word..4 * word + 2)?;
        Op::from_u32(u32::from_le_bytes([first[0], first[1], 0, 0]))
    }

    /// Returns the source line of an instruction.
    fn place(&self, pc: Pc) -> SourcePlace {
        self.place_of_word(self.kernel.sites.get(pc as usize).copied().unwrap_or(0))
    }

    fn place_of_word(&self, word: usize) -> SourcePlace {
        let line = self.lines.at(word);
        let text = line.and_then(|(file, line)| self.lines.text(file, line)).map(|text| text.trim().to_string());
        // Instructions of a line are one place.
        let instruction = match (line, self.op(word)) {
            (Some(_), _) => String::new(),
            (None, Some(op)) => format!("Op{op:?} at word {word}"),
            (None, None) => format!("word {word}"),
        };
        SourcePlace { line: line.map(|(file, line)| (file.to_string(), line)), instruction, text }
    }

    /// Names an invocation: `invocation 3,12 of group 0,0`.
    fn invocation(&self, who: Invocation) -> String {
        let [width, height, depth] = self.kernel.module.local_size;
        let position = [who.local % width, who.local / width % height, who.local / width / height];
        let [columns, rows, layers] = self.groups.map(|extent| extent.max(1));
        let group = [who.group % columns, who.group / columns % rows, who.group / columns / rows];
        let shown = |position: [u32; 3], [_, y, z]: [u32; 3]| match (y, z) {
            (1, 1) => position[0].to_string(),
            (_, 1) => format!("{},{}", position[0], position[1]),
            _ => format!("{},{},{}", position[0], position[1], position[2]),
        };
        let position = shown(position, [width, height, depth]);
        format!("invocation {position} of group {}", shown(group, [columns, rows, layers]))
    }

    /// Names the element at a byte offset: `tile[9][4]`, `X[12]`.
    fn element(&self, object: Object, offset: u64) -> String {
        match object {
            Object::Shared => {
                let module = &self.kernel.module;
                let inside = |end: u64, begin: u64| (begin..end).contains(&offset);
                for shared in &self.kernel.shared {
                    let bytes = module.bytes(shared.ty).unwrap_or(0);
                    if inside(shared.offset + bytes, shared.offset) {
                        let name = module.names.get(&shared.variable).filter(|name| !name.is_empty());
                        let name = name.cloned().unwrap_or_else(|| "shared memory".into());
                        return self.path(name, shared.ty, offset - shared.offset);
                    }
                }
                format!("byte {offset} of shared memory")
            }
            Object::Buffer(buffer) => {
                let Some(spec) = self.specs.get(buffer as usize) else { return format!("byte {offset}") };
                let bytes = spec.dtype.bytes();
                if offset.is_multiple_of(bytes) && offset < spec.bytes().0 {
                    format!("{}[{}]", spec.name, offset / bytes)
                } else {
                    format!("byte {} of {}", offset.cast_signed(), spec.name)
                }
            }
        }
    }

    /// Appends the indices and members that lead to a byte offset within a type.
    fn path(&self, mut name: String, mut ty: Id, mut offset: u64) -> String {
        let module = &self.kernel.module;
        loop {
            match module.ty(ty) {
                Ok(ValueType::Array { element, .. }) => {
                    let stride = module.stride(ty).unwrap_or(1).max(1);
                    let _ = write!(name, "[{}]", offset / stride);
                    offset %= stride;
                    ty = *element;
                }
                Ok(ValueType::Vector { component, .. }) => {
                    let bytes = module.bytes(*component).unwrap_or(1).max(1);
                    let component = ["x", "y", "z", "w"].get((offset / bytes) as usize);
                    return name + "." + component.unwrap_or(&"?");
                }
                Ok(ValueType::Struct(members)) => {
                    let holder = (0..members.len() as u32)
                        .rfind(|member| module.member_offset(ty, *member).is_ok_and(|begin| begin <= offset));
                    let Some(member) = holder else { return name };
                    let member_name = module.member_names.get(&(ty, member)).cloned();
                    let _ = write!(name, ".{}", member_name.unwrap_or_else(|| member.to_string()));
                    offset -= module.member_offset(ty, member).unwrap_or(0);
                    ty = members[member as usize];
                }
                _ => return name,
            }
        }
    }

    /// Describes an access beyond the accessible range of its memory.
    fn beyond(&self, object: Object, offset: u64, bytes: u32, access: AccessKind) -> String {
        let verb = verb(access);
        match object {
            Object::Shared => format!(
                "{verb} bytes {offset} to {} of shared memory, which has {}",
                offset.wrapping_add(u64::from(bytes)).wrapping_sub(1),
                self.kernel.code.shared_bytes
            ),
            Object::Buffer(buffer) => {
                let Some(spec) = self.specs.get(buffer as usize) else { return format!("{verb} outside its buffers") };
                let size = spec.dtype.bytes();
                let (signed, count) = (offset.cast_signed(), spec.len);
                let is_inside = u64::try_from(signed).is_ok_and(|first| first + u64::from(bytes) <= spec.bytes().0);
                if signed % size.cast_signed() == 0 {
                    let element = signed / size.cast_signed();
                    let extent = if is_inside {
                        "outside the range that is bound".into()
                    } else {
                        format!("of {count} elements")
                    };
                    return format!("{verb} {}[{element}], {extent}", spec.name);
                }
                format!("{verb} byte {signed} of {}, which has {}", spec.name, spec.bytes().0)
            }
        }
    }
}

fn verb(access: AccessKind) -> &'static str {
    match access {
        AccessKind::Read => "reads",
        AccessKind::Write => "writes",
        AccessKind::Atomic => "changes",
    }
}

fn unordered(kind: FaultKind, subject: &Subject) -> &'static str {
    match (subject, kind) {
        (Subject::Memory { access: AccessKind::Atomic, other: Some(AccessKind::Atomic), .. }, _) => {
            "and the scope of the atomics is too small for both"
        }
        (Subject::Memory { object: Object::Shared, passed_barrier: true, .. }, _) => {
            "with a barrier between that does not order shared memory"
        }
        (Subject::Memory { passed_barrier: true, .. }, _) => "with a barrier between that does not order buffers",
        (_, FaultKind::Lockstep) => "ordered only if the sub-group runs in step",
        (_, FaultKind::RaceStorage) => "with nothing that orders them",
        _ => "with no barrier between",
    }
}

/// Returns the remedy of a race that depends on its accesses, if they ask for another than `barrier`. `is_across` tells of
/// two work-groups, which no barrier orders, `is_lone` of one instruction that no loop repeats, `plain` is the place of the
/// access that is no atomic.
fn remedy_of_accesses(
    accesses: [AccessKind; 2],
    is_across: bool,
    is_lone: bool,
    plain: Option<&SourcePlace>,
    barrier: &str,
) -> Option<String> {
    use AccessKind::{Atomic, Read, Write};
    let dispatches = if is_across { ", or two dispatches" } else { "" };
    let atomic = match accesses {
        [Atomic, Atomic] => {
            let scope = if is_across { "gl_ScopeDevice" } else { "gl_ScopeWorkgroup" };
            return Some(format!("{scope} in both atomics, or atomics without a scope, such as atomicAdd(x, 1)"));
        }
        [Atomic, Read] | [Read, Atomic] => "atomicAdd(…, 0) in place of the plain read",
        [Atomic, Write] | [Write, Atomic] if is_across => "atomicExchange() in place of the plain write",
        [Write, Write] if is_across || is_lone => {
            let own = "an index of its own for each invocation, if it writes its own element";
            return Some(format!("{own}; otherwise an atomic{dispatches}"));
        }
        _ if is_across => {
            let flag = "an atomic flag with memoryBarrierBuffer() before it is set and after it is read";
            return Some(format!("two dispatches, or {flag}"));
        }
        _ => return None,
    };
    let line = plain.and_then(|place| place.line.as_ref());
    let atomic = line.map_or_else(|| atomic.into(), |(_, line)| format!("{atomic} in line {line}"));
    Some(if is_across { atomic + dispatches } else { format!("{barrier}; if any order will do, {atomic}") })
}

/// Returns the line of a race that updates an element in place, as `bins[i] += 1` and `bins[i] = bins[i] + 1` do. A line
/// that names another element of the array, as `sums[i] += sums[i + 1]`, needs barriers instead.
fn updated_in(fault: &KernelFault) -> Option<u32> {
    let is_race = matches!(fault.kind, FaultKind::RaceShared | FaultKind::RaceStorage | FaultKind::Lockstep);
    let place = fault.at.as_ref().filter(|_| is_race && fault.at == fault.other)?;
    let (text, (_, line)) = (place.text.as_ref()?, place.line.as_ref()?);
    let mut operators = ["+=", "-=", "|=", "&=", "^=", "++", "--"].into_iter();
    let (updated, rest) =
        operators.find_map(|operator| text.split_once(operator)).or_else(|| text.split_once(" = "))?;
    let element = element_at_end(updated);
    let name = element.split('[').next().filter(|name| !name.is_empty())?;
    // A variable of the invocation's own is updated beside the memory that races.
    let is_element = element.contains('[') || fault.what.split_whitespace().nth(1) == Some(element);
    let named = count_names(text, &format!("{name}["));
    let is_assigned = text.contains(&format!("{element} = "));
    let is_in_place = is_assigned && count_names(rest, element) > 0 && named == 2;
    (is_element && (is_in_place || !is_assigned && named < 2)).then_some(*line)
}

/// Counts the places where a text has what begins with a name, and not with the end of a longer one.
fn count_names(text: &str, wanted: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || "_.".contains(c);
    text.match_indices(wanted).filter(|(at, _)| !text[..*at].ends_with(is_part)).count()
}

/// Returns the element that a text ends with: `bins[l]` of `if (h[l] != 0) bins[l]`.
fn element_at_end(text: &str) -> &str {
    let text = text.trim_end();
    let mut depth = 0;
    let begin = text.char_indices().rev().find(|(_, c)| {
        depth += i32::from(*c == ']') - i32::from(*c == '[');
        depth <= 0 && *c != '[' && !c.is_alphanumeric() && !"_.".contains(*c)
    });
    begin.map_or(text, |(at, c)| &text[at + c.len_utf8()..])
}

/// Says what to do about a fault: about races, by their lines. `passed` is the memory that a barrier between does not order,
/// `carried` tells of accesses in one loop whether it has a barrier between them, `left` is the first line of a block that
/// ends between.
fn remedy(
    kind: FaultKind,
    [at, other]: [&Option<SourcePlace>; 2],
    passed: Option<Object>,
    carried: Option<bool>,
    left: Option<u32>,
) -> String {
    let line = |place: &Option<SourcePlace>| place.as_ref().and_then(|place| place.line.clone());
    let is_wgsl = line(at).is_some_and(|(file, _)| Path::new(&file).extension().is_some_and(|ending| ending == "wgsl"));
    if let Some(object) = passed {
        let fence = match (object, is_wgsl) {
            (Object::Buffer(_), false) => "memoryBarrierBuffer()",
            (Object::Buffer(_), true) => "storageBarrier()",
            (Object::Shared, false) => "memoryBarrierShared()",
            (Object::Shared, true) => "workgroupBarrier()",
        };
        return format!("{fence} before that barrier");
    }
    let between = match (line(at), line(other)) {
        (Some((_, here)), Some((_, there))) if carried == Some(true) => {
            format!("at the end of each iteration, after line {}", here.max(there))
        }
        (Some((_, here)), Some((_, there))) if there < here => match left.filter(|left| *left < there) {
            Some(left) => format!("after the block that begins in line {left}"),
            None => format!("after line {there}"),
        },
        (Some((_, here)), Some((_, there))) if there == here => {
            let iteration = if carried.is_some() {
                ", or in each iteration of the loop around it, if every invocation runs it equally often"
            } else {
                ""
            };
            format!("between the two accesses of line {here}{iteration}")
        }
        (Some((_, here)), Some((_, there))) => format!("between lines {} and {}", here.min(there), here.max(there)),
        _ => "between them".into(),
    };
    match kind {
        FaultKind::RaceShared if is_wgsl => format!("workgroupBarrier() {between}"),
        FaultKind::RaceShared => format!("barrier() {between}"),
        FaultKind::RaceStorage if is_wgsl => format!("storageBarrier() {between}"),
        FaultKind::RaceStorage => format!("memoryBarrierBuffer() and barrier() {between}"),
        FaultKind::Lockstep => format!("{SUBGROUP_BARRIER}{between}"),
        _ => kind.remedy().into(),
    }
}
