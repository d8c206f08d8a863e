//! Loads the kernels of a description: compiles them and reads their interfaces.

use super::access::{Access, Root, accesses};
use super::compile::{Compiled, KernelSource};
use super::description::{
    Described, Description, Fault, Formula, KernelFields, OTHERS, OneOrMany, OrderedMap, is_on_path,
};
use super::expression::Values;
use super::init::place;
use crate::basis::input_file;
use crate::kernel::interface::{Argument, ArgumentKind, Interface, Slot, SpecConstant, Word};
use crate::kernel::reflection::Pointees;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};

/// Most levels of nested rounds.
const MAX_NESTING: usize = 8;

/// Prefix of the fields of `[kernel]`.
const KERNEL_PREFIX: &str = "kernel.";

/// Kernel that solves the problem, in one pass or several.
#[derive(Debug)]
pub struct LoadedKernel {
    /// Name of the kernel in configurations.
    pub name: String,
    /// Passes with a source, in order.
    pub passes: Vec<LoadedPass>,
    /// Passes as in the description, where they may repeat and nest.
    pub pass_tree: Vec<KernelFields>,
}

/// Compiled source of a kernel.
#[derive(Debug)]
pub struct LoadedPass {
    /// Source as named in the description.
    pub source: String,
    /// Prefix of the pass's fields in messages: empty, `pass.0.`, `pass.1.pass.0.`, `reference.`.
    pub prefix: String,
    pub(super) compiled: Compiled,
    /// Interface with the defaults of all constants; in WGSL, the constants are the overrides.
    pub interface: Interface,
    /// Blocks that addresses point to.
    pub pointees: Pointees,
    /// Fields of the pass in the description.
    pub fields: KernelFields,
}

/// Kernel of a captured case, whose values the kernels that compete with it take.
pub(super) struct CaseKernel<'a> {
    pass: LoadedPass,
    description: &'a Description,
}

impl<'a> CaseKernel<'a> {
    /// Loads the captured kernel if others compete with it in the first of these descriptions, which is a case's, or in
    /// later ones.
    pub(super) fn of(described: &'a [Described]) -> Result<Option<Self>, Fault> {
        let Some(first) = described.first().filter(|first| first.of_case) else { return Ok(None) };
        let Some(kernel) = &first.description.kernel else { return Ok(None) };
        match kernel.source.values() {
            [source, others @ ..] if described.len() + others.len() > 1 => {
                Ok(Some(Self { pass: load(first, kernel, source, "")?, description: &first.description }))
            }
            _ => Ok(None),
        }
    }

    /// Gives a pass the case's push constants and block members, unless its `description` states others.
    pub(super) fn give_values(&self, description: &Description, pass: &mut LoadedPass) {
        let Self { pass: captured, description: case } = self;
        if description.push.is_empty() || description.push == case.push {
            pass.fields.push = values_of(&pass.interface.arguments, &captured.interface.arguments, &case.push);
        }
        if !description.uniform.is_empty() && description.uniform != case.uniform {
            return;
        }
        for (key, values) in case.uniform.iter() {
            let Some(slot) = captured.interface.slots.iter().find(|slot| slot.is_called(key)) else { continue };
            let key = place(slot);
            let Some(own) = pass.interface.slots.iter().find(|own| own.is_called(&key)) else { continue };
            let block = |slot: &Slot| slot.blocks.iter().find(|block| !block.members.is_empty()).cloned();
            let values = match (block(own), block(slot)) {
                (Some(own), Some(captured)) if own.array.is_none() && captured.array.is_none() => {
                    values_of(&own.members, &captured.members, values)
                }
                _ => values.clone(),
            };
            pass.fields.uniform.set(&key, values);
        }
    }
}

/// Returns the values of captured members for a block's `own` members: of those at the same offsets, because names may
/// differ, or of those with the same names if a kernel that has no others declares them elsewhere.
fn values_of(own: &[Argument], captured: &[Argument], values: &OrderedMap<Formula>) -> OrderedMap<Formula> {
    let has_name =
        |member: &Argument| !member.name.is_empty() && captured.iter().any(|other| other.name == member.name);
    let has_place =
        |member: &Argument| captured.iter().any(|other| (other.offset, other.kind) == (member.offset, member.kind));
    let by_name = own.iter().all(has_name) && !own.iter().all(has_place);
    let mut found = OrderedMap::default();
    for member in own {
        let is_same =
            |other: &&Argument| if by_name { other.name == member.name } else { other.offset == member.offset };
        let Some(other) = captured.iter().find(is_same) else { continue };
        if let Some((_, value)) = values.iter().find(|(key, _)| other.is_called(key)) {
            found.set(&format!("byte {}", member.offset), value.clone());
        }
    }
    if let Some(value) = values.get(OTHERS) {
        found.set(OTHERS, value.clone());
    }
    found
}

/// Kernels for which a description may set what its own kernels lack. Without such a kernel, the name is a typo.
pub(super) struct OtherKernels<'a> {
    pub(super) described: &'a Described,
    /// Descriptions of the same problem, and this one with the sources that the command line replaced.
    others: Vec<Cow<'a, Described>>,
    /// Their passes, loaded when a name is not found; those that do not load are told elsewhere.
    passes: OnceCell<Vec<LoadedPass>>,
}

impl<'a> OtherKernels<'a> {
    /// Returns those for a description, which is number `index` of `all` that state the problem.
    pub(super) fn of(described: &'a Described, all: &'a [Described], index: usize) -> Self {
        let others = all.iter().enumerate().filter(|(other, _)| *other != index);
        let mut others: Vec<_> = others.map(|(_, other)| Cow::Borrowed(other)).collect();
        if let ([_, ..], Some(kernel)) = (&described.replaced[..], &described.description.kernel) {
            let source = OneOrMany::Many(described.replaced.clone());
            let mut original = described.clone();
            original.description.kernel = Some(KernelFields { source, ..kernel.clone() });
            others.push(Cow::Owned(original));
        }
        Self { described, others, passes: OnceCell::new() }
    }

    /// Returns the passes of the other kernels if a field may be meant for them: if an option sets it, if it is inherited,
    /// or if the description's own kernel was replaced.
    pub(super) fn passes(&self, field: &str) -> Vec<&LoadedPass> {
        let Described { options, inherited, replaced, .. } = self.described;
        let mut set = options.iter().map(|(option, _)| &**option).chain(inherited.iter().copied());
        if replaced.is_empty() && !set.any(|table| is_on_path(table, field)) {
            return vec![];
        }
        let load = |other: &Cow<'_, Described>| {
            let reference = load_reference(other).ok().flatten();
            load_kernels(other).into_iter().flatten().chain(reference).flat_map(|kernel| kernel.passes)
        };
        self.passes.get_or_init(|| self.others.iter().flat_map(load).collect()).iter().collect()
    }
}

/// Loads the kernels of a description: one for each source of `[kernel]`, or one from all `[[pass]]`.
pub fn load_kernels(described: &Described) -> Result<Vec<LoadedKernel>, Fault> {
    let Description { kernel, pass, name, dispatch, .. } = &described.description;
    match (kernel, pass.as_slice()) {
        (Some(_), [_, ..]) => Err(Fault::new("pass", "stands beside [kernel]; keep one of them")),
        (None, []) => Err(Fault::new("kernel", "is missing; name a source: [kernel] source = \"k.comp\"")),
        (Some(kernel), []) => load_sources(described, kernel),
        (None, passes) => {
            if dispatch.is_some() {
                return Err(Fault::new("dispatch", "is for a single [kernel]; give each [[pass]] its groups"));
            }
            let loaded = load_passes(described, passes, "", MAX_NESTING)?;
            let name = name.clone().or_else(|| loaded.first().map(|pass| stem(&pass.source))).unwrap_or_default();
            Ok(vec![LoadedKernel { name, passes: loaded, pass_tree: passes.to_vec() }])
        }
    }
}

/// Loads each source of `[kernel]` as a kernel of one pass.
fn load_sources(described: &Described, kernel: &KernelFields) -> Result<Vec<LoadedKernel>, Fault> {
    let dispatch = described.description.dispatch.clone().unwrap_or_default();
    let sources = kernel.source.values();
    if !kernel.pass.is_empty() {
        return Err(Fault::new("kernel.pass", "is for [[pass]]; write [[pass]] in place of [kernel]"));
    }
    if sources.is_empty() {
        return Err(Fault::new(
            "kernel.source",
            "is missing; name a file: `gpukern run k.comp`, or source = \"k.comp\" in a description",
        ));
    }
    if kernel.groups.is_some() && dispatch.groups.is_some() {
        return Err(Fault::new("kernel.groups", "stands beside dispatch.groups; keep one of them"));
    }
    let fields = KernelFields {
        groups: dispatch.groups.or_else(|| kernel.groups.clone()),
        indirect: dispatch.indirect.or_else(|| kernel.indirect.clone()),
        ..kernel.clone()
    };
    let stems: Vec<String> = sources.iter().map(|source| stem(source)).collect();
    let mut kernels = vec![];
    for (index, source) in sources.iter().enumerate() {
        let mut pass = load(described, &fields, source, "");
        // Kernels compared with a captured one may name their entry points differently, so those files are tried again
        // without the name.
        if described.of_case && index > 0 && fields.entry.is_some() && pass.is_err() {
            pass = load(described, &KernelFields { entry: None, ..fields.clone() }, source, "");
        }
        // Files of the same name are told apart by their folders.
        let namesakes = stems.iter().enumerate().filter(|(other, stem)| *other != index && **stem == stems[index]);
        let namesakes: Vec<_> = namesakes.map(|(other, _)| described.path(&sources[other])).collect();
        let name = match &namesakes[..] {
            [] => stems[index].clone(),
            others => match distinguishing_folder(&described.path(source), others) {
                Some(folder) => format!("{folder}:{}", stems[index]),
                None => source.clone(),
            },
        };
        kernels.push(LoadedKernel { name, passes: vec![pass?], pass_tree: vec![fields.clone()] });
    }
    Ok(kernels)
}

impl LoadedKernel {
    /// Returns the prefix outside of its passes: that of `[kernel]`, which is its own only pass, or none.
    pub(super) fn outer_prefix(&self) -> &'static str {
        if self.passes.iter().all(|pass| pass.prefix.is_empty()) { KERNEL_PREFIX } else { "" }
    }
}

/// Returns the prefix of the fields of a pass, as `--set` names them; `outer` is the prefix of the loop around it.
pub(super) fn pass_prefix(outer: &str, index: usize) -> String {
    if outer == KERNEL_PREFIX { outer.into() } else { format!("{outer}pass.{index}.") }
}

/// Loads the passes with a source, in order. `outer` is the prefix of the loop around them, and `levels` are the levels
/// of nesting that are still allowed.
fn load_passes(
    described: &Described,
    passes: &[KernelFields],
    outer: &str,
    levels: usize,
) -> Result<Vec<LoadedPass>, Fault> {
    if levels == 0 {
        let message = format!("is nested more than {MAX_NESTING} deep; write the passes out");
        return Err(Fault::new(format!("{outer}pass"), message));
    }
    let mut loaded = vec![];
    for (index, pass) in passes.iter().enumerate() {
        let prefix = pass_prefix(outer, index);
        let fault = |field: &str, message: &str| Fault::new(format!("{prefix}{field}").trim_end_matches('.'), message);
        match (pass.source.values(), pass.pass.as_slice()) {
            ([source], []) => loaded.push(load(described, pass, source, &prefix)?),
            ([], [_, ..]) => {
                let others = KernelFields { times: None, index: None, pass: vec![], ..pass.clone() };
                if others != KernelFields::default() {
                    let message = "has passes of its own: write everything but times and index in these";
                    return Err(fault("", message));
                }
                if pass.times.is_none() {
                    return Err(fault("times", "is missing: say how often its passes run"));
                }
                loaded.extend(load_passes(described, &pass.pass, &prefix, levels - 1)?);
            }
            _ => return Err(fault("source", "must name one file in each [[pass]]")),
        }
    }
    Ok(loaded)
}

/// Loads the kernel that is the reference, if there is one.
pub fn load_reference(described: &Described) -> Result<Option<LoadedKernel>, Fault> {
    let Description { reference, kernel, dispatch, .. } = &described.description;
    let Some(reference) = reference else { return Ok(None) };
    let KernelFields { source, local_size, subgroup, indirect, times, index, pass, .. } = &reference.kernel_fields;
    for (field, is_stated) in [
        ("source", !source.values().is_empty()),
        ("local_size", !local_size.is_empty()),
        ("subgroup", subgroup.is_some()),
        ("indirect", indirect.is_some()),
        ("times", times.is_some()),
        ("index", index.is_some()),
        ("pass", !pass.is_empty()),
    ] {
        if is_stated {
            return Err(Fault::new(format!("reference.{field}"), "is no field of [reference]; leave it out"));
        }
    }
    let source = match reference.kernel.values() {
        [] => return Ok(None),
        [source] => source,
        _ => return Err(Fault::new("reference.kernel", "names several files; one is the reference")),
    };
    let mut fields = reference.kernel_fields.clone();
    // Without a grid of its own, the reference uses the kernel's.
    if fields.groups.is_none() {
        let dispatch_groups = dispatch.as_ref().and_then(|dispatch| dispatch.groups.clone());
        fields.groups = dispatch_groups.or_else(|| kernel.as_ref()?.groups.clone());
    }
    let pass = load(described, &fields, source, "reference.")?;
    Ok(Some(LoadedKernel { name: stem(source), passes: vec![pass], pass_tree: vec![fields] }))
}

/// Returns the name of the nearest folder in which the path of a file differs from those of `others`: `base` of
/// base/kernels/k.comp and slow/kernels/k.comp.
pub(super) fn distinguishing_folder(path: &Path, others: &[PathBuf]) -> Option<String> {
    let folders = |path: &Path| -> Vec<String> {
        let whole = path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.into());
        let folders = whole.ancestors().skip(1).filter_map(Path::file_name);
        folders.map(|name| name.to_string_lossy().into_owned()).collect()
    };
    let others: Vec<_> = others.iter().map(|other| folders(other)).collect();
    let mut own = folders(path).into_iter().enumerate();
    own.find(|(level, name)| others.iter().all(|other| other.get(*level) != Some(name))).map(|(_, name)| name)
}

/// Returns a file name without folder and extension.
pub(super) fn stem(source: &str) -> String {
    let stem = Path::new(source).file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or(source).to_string()
}

/// Compiles the source of a pass, and reads its interface. Messages use `prefix` for its fields.
fn load(described: &Described, fields: &KernelFields, source: &str, prefix: &str) -> Result<LoadedPass, Fault> {
    let field_prefix = if prefix.is_empty() { KERNEL_PREFIX } else { prefix };
    let newest = match fields.vulkan.as_deref() {
        None | Some("1.2") => false,
        Some("1.3") => true,
        Some(other) => {
            let message = format!("'{other}' is not supported; write \"1.2\" or \"1.3\"");
            return Err(Fault::new(format!("{field_prefix}vulkan"), message));
        }
    };
    let local_size = match *fields.local_size.as_slice() {
        [] => None,
        [x] if x > 0 => Some([x, 1, 1]),
        [x, y] if x > 0 && y > 0 => Some([x, y, 1]),
        [x, y, z] if x > 0 && y > 0 && z > 0 => Some([x, y, z]),
        _ => {
            let message = format!("is {:?}; write 1 to 3 extents above zero", fields.local_size);
            return Err(Fault::new(format!("{field_prefix}local_size"), message));
        }
    };
    let mut include: Vec<_> = fields.include.iter().map(|folder| described.path(folder)).collect();
    include.push(described.folder.clone());
    let mut define = vec![];
    for (name, value) in fields.define.iter() {
        if let Some(text) = value.macro_text() {
            define.push((name.to_string(), text));
        }
    }
    let path = described.path(source);
    let kernel_source =
        KernelSource { path, entry: fields.entry.clone(), include, define, newest, local_size, lines: described.lines };
    let source_field = match prefix {
        "reference." => "reference.kernel".into(),
        _ => format!("{field_prefix}source"),
    };
    let fault = |message: String| Fault::new(source_field.as_str(), message);
    // WGSL may have no valid default.
    let mut stated = vec![];
    let described_spec = described.description.spec.iter();
    let first_values = described_spec.filter_map(|(name, values)| Some((name, values.values().first()?)));
    for (name, value) in fields.spec.iter().chain(first_values) {
        if let Ok(number) = value.expression().and_then(|expression| expression.number(&Values::default())) {
            stated.push((name.to_string(), number));
        }
    }
    let compiled = kernel_source.compile(&stated).map_err(fault)?;
    let spirv = bytes(&compiled.spirv);
    let mut interface = Interface::read(&spirv).map_err(|reason| fault(format!("{source}: {reason}")))?;
    let overrides = compiled.overrides();
    if !overrides.is_empty() {
        interface.constants = overrides.into();
    }
    // Most kernels have no addresses, and then the module need not be read again.
    let pointees =
        if interface.uses_addresses() { Pointees::read(&spirv).unwrap_or_default() } else { Pointees::default() };
    Ok(LoadedPass {
        source: source.to_string(),
        prefix: prefix.into(),
        compiled,
        interface,
        pointees,
        fields: fields.clone(),
    })
}

/// Returns the key of a specialization constant: its name, or its id.
pub fn constant_key(constant: &SpecConstant) -> String {
    if constant.name.is_empty() { constant.id.to_string() } else { constant.name.to_string() }
}

/// Returns the key of a slot: its best name, or its set and binding.
pub fn slot_key(slot: &Slot) -> String {
    slot.names().first().map_or_else(|| format!("{}.{}", slot.set, slot.binding), ToString::to_string)
}

/// Converts words to the bytes of a SPIR-V file.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl LoadedPass {
    /// Returns the constant of this name or id, or that of `local_size_x_id`, which may have another name, too.
    pub fn constant(&self, key: &str) -> Option<&SpecConstant> {
        let of_name = self.interface.constants.iter().find(|constant| constant.name == key);
        let axis = ["local_size_x", "local_size_y", "local_size_z"].iter().position(|name| *name == key);
        let id = match axis.map(|axis| self.interface.local_size[axis]) {
            Some(Word::Constant { id, .. }) => Some(id),
            _ => key.parse::<u32>().ok(),
        };
        of_name.or_else(|| self.interface.constants.iter().find(|constant| Some(constant.id) == id))
    }

    /// Returns the name of its source without the folder.
    pub fn file(&self) -> &str {
        Path::new(&self.source).file_name().and_then(|name| name.to_str()).unwrap_or(&self.source)
    }

    /// Returns the work-group size for these values of constants, by id.
    pub fn local_size(&self, value: impl Fn(u32) -> Option<i64>) -> [i64; 3] {
        self.interface.local_size.map(|word| match word {
            Word::Literal(value) => i64::from(value),
            Word::Constant { id, default } => value(id).unwrap_or_else(|| default.into()),
        })
    }

    /// Returns the extents of a work-group with the constants' defaults, as a description states them: `local_size_x_id = 0` is
    /// the constant with id 0.
    pub(super) fn default_local_size(&self) -> [i64; 3] {
        self.local_size(|id| {
            let of_id = self.interface.constants.iter().filter(|constant| constant.id == id);
            of_id.filter_map(|constant| i64::try_from(constant.default).ok()).max()
        })
    }

    /// Iterates over the push constants that are buffer addresses.
    pub fn addresses(&self) -> impl Iterator<Item = &Argument> {
        self.interface.arguments.iter().filter(|member| member.kind == ArgumentKind::Address)
    }

    /// Returns each slot, then each of [`Self::addresses`], as origins of pointers.
    pub(super) fn roots(&self) -> Vec<Root> {
        let slots = self.interface.slots.iter().map(|slot| Root::Slot(slot.set, slot.binding));
        slots.chain(self.addresses().map(|member| Root::Address(member.offset))).collect()
    }

    /// Returns the access to each slot, then to the buffer of each of [`Self::addresses`].
    pub fn accesses(&self) -> Vec<Access> {
        let mut accesses = accesses(&self.compiled.spirv, &self.roots());
        for (access, slot) in accesses.iter_mut().zip(self.interface.slots.iter()) {
            access.reads &= slot.is_readable();
            access.writes &= slot.is_writable();
        }
        accesses
    }

    /// Whether the source declares a block of this name that the kernel never uses, and that its interface lacks.
    pub(super) fn has_unused(&self, block: &str) -> bool {
        self.compiled.unused.iter().any(|name| name == block)
    }

    /// Whether the description or the source defines a macro of this name.
    pub(super) fn has_macro(&self, name: &str) -> bool {
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '(';
        let defines = |line: &str| {
            let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
            let rest = directive.and_then(|rest| rest.strip_prefix("define")).map(str::trim_start);
            rest.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| !rest.starts_with(goes_on))
        };
        let files = self.compiled.files.iter().filter_map(|path| input_file::read_text(path).ok());
        self.fields.define.get(name).is_some() || files.into_iter().any(|text| text.lines().any(defines))
    }

    /// Returns the name of a field of this pass, such as `dispatch.groups`, `pass.groups` or `reference.groups`.
    pub fn field(&self, rest: &str) -> String {
        if !self.prefix.is_empty() {
            return format!("{}{rest}", self.prefix);
        }
        if rest == "groups" || rest == "indirect" {
            return format!("dispatch.{rest}");
        }
        // A single kernel states the other tables, such as `push`, at the top level.
        let is_of_kernel = ["bind", "times", "index", "subgroup"].iter().any(|field| rest.starts_with(field));
        if is_of_kernel { format!("kernel.{rest}") } else { rest.to_string() }
    }

    /// Formats the bound blocks: `A (0.0), B (0.1)`.
    pub fn listing(&self) -> String {
        let mut blocks = vec![];
        for slot in self.interface.slots.iter() {
            let numbers = format!("{}.{}", slot.set, slot.binding);
            blocks.push(match slot.names().first() {
                Some(name) => format!("{name} ({numbers})"),
                None => numbers,
            });
        }
        blocks.join(", ")
    }
}
