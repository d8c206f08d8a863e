//! The kernels of a description, compiled and with their interfaces read.

use super::access::{Access, Root, accesses};
use super::compile::{Compiled, Source};
use super::description::{Described, Description, Fault, Formula, Kernel, Listed};
use super::resolved::Module;
use crate::kernel::interface::{Argument, ArgumentKind, Interface, Slot, SlotKind, SpecConstant, Word};
use std::path::{Path, PathBuf};

/// A kernel that solves the problem, or a sequence of them.
#[derive(Debug)]
pub(crate) struct LoadedKernel {
    /// The name of its configurations.
    pub(crate) name: String,
    pub(crate) passes: Vec<LoadedPass>,
    /// In which order they run.
    pub(crate) order: Vec<PassStep>,
}

/// What runs next.
#[derive(Debug)]
pub(crate) enum PassStep {
    /// The pass of this number.
    Pass(usize),
    /// Rounds of passes.
    Loop { times: Formula, index: String, body: Vec<PassStep> },
}

impl PassStep {
    /// This, as often as `kernel` says.
    fn repeated(self, kernel: &Kernel) -> Self {
        match &kernel.times {
            None => self,
            Some(times) => Self::looped(times, kernel, vec![self]),
        }
    }

    fn looped(times: &Formula, kernel: &Kernel, body: Vec<Self>) -> Self {
        Self::Loop { times: times.clone(), index: kernel.index.clone().unwrap_or_else(|| "i".into()), body }
    }
}

/// A dispatch of a kernel that has been read.
#[derive(Debug)]
pub(crate) struct LoadedPass {
    /// The source as it was named.
    pub(crate) source: String,
    /// What stands before the names of its fields in messages: empty, `pass.`, `reference.`.
    pub(crate) prefix: &'static str,
    compiled: Compiled,
    /// The interface, where all constants have their defaults; of WGSL its constants are the overrides.
    pub(crate) interface: Interface,
    /// What the description states of it.
    pub(crate) stated: Kernel,
}

/// The programs of a description: one for each source of `[kernel]`, or one of all `[[pass]]`.
///
/// # Errors
/// What the compiler says; a description without a kernel.
pub(crate) fn programs(described: &Described) -> Result<Vec<LoadedKernel>, Fault> {
    let Description { kernel, pass, name, dispatch, .. } = &described.description;
    match (kernel, pass.as_slice()) {
        (Some(_), [_, ..]) => Err(Fault::new("pass", "stands beside [kernel]; keep one of them")),
        (None, []) => Err(Fault::new("kernel", "is missing; name a source: [kernel] source = \"k.comp\"")),
        (Some(kernel), []) => {
            if kernel.source.values().is_empty() {
                return Err(Fault::new(
                    "kernel.source",
                    "is missing; name a file: `gpukern run k.comp`, or source = \"k.comp\" in a description",
                ));
            }
            if kernel.groups.is_some() && dispatch.as_ref().is_some_and(|dispatch| dispatch.groups.is_some()) {
                return Err(Fault::new("kernel.groups", "stands beside dispatch.groups; keep one of them"));
            }
            if !kernel.pass.is_empty() {
                return Err(Fault::new("kernel.pass", "is for [[pass]]; write [[pass]] in place of [kernel]"));
            }
            let grid = dispatch.clone().unwrap_or_default();
            let kernel = &Kernel {
                groups: grid.groups.or_else(|| kernel.groups.clone()),
                indirect: grid.indirect.or_else(|| kernel.indirect.clone()),
                ..kernel.clone()
            };
            let program = |(at, source): (usize, &String)| {
                let mut pass = load(described, kernel, source, "");
                // What is held against a captured kernel need not call its entry point as that does.
                if described.of_case && at > 0 && kernel.entry.is_some() && pass.is_err() {
                    pass = load(described, &Kernel { entry: None, ..kernel.clone() }, source, "");
                }
                let order = vec![PassStep::Pass(0).repeated(kernel)];
                Ok(LoadedKernel { name: stem(source), passes: vec![pass?], order })
            };
            let mut programs = kernel.source.values().iter().enumerate().map(program).collect::<Result<Vec<_>, _>>()?;
            // Files of one name in two folders are told apart by their paths.
            let names: Vec<String> = programs.iter().map(|program| program.name.clone()).collect();
            for (program, source) in programs.iter_mut().zip(kernel.source.values()) {
                if names.iter().filter(|name| **name == program.name).count() > 1 {
                    program.name.clone_from(source);
                }
            }
            Ok(programs)
        }
        (None, passes) => {
            if dispatch.is_some() {
                return Err(Fault::new("dispatch", "is for a single [kernel]; give each [[pass]] its groups"));
            }
            let mut loaded = vec![];
            let order = ordered(described, passes, DEEPEST, &mut loaded)?;
            let name = name.clone().or_else(|| loaded.first().map(|pass| stem(&pass.source))).unwrap_or_default();
            Ok(vec![LoadedKernel { name, passes: loaded, order }])
        }
    }
}

/// Levels to which rounds of passes may be nested.
const DEEPEST: usize = 8;

/// Loads passes and returns their order.
fn ordered(
    described: &Described,
    passes: &[Kernel],
    depth: usize,
    loaded: &mut Vec<LoadedPass>,
) -> Result<Vec<PassStep>, Fault> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Fault::new("pass.pass", format!("is nested more than {DEEPEST} deep; write the passes out")));
    };
    let mut order = vec![];
    for pass in passes {
        match (pass.source.values(), pass.pass.as_slice()) {
            ([source], []) => {
                loaded.push(load(described, pass, source, "pass.")?);
                order.push(PassStep::Pass(loaded.len() - 1).repeated(pass));
            }
            ([], [_, ..]) => {
                let own = Kernel { times: None, index: None, pass: vec![], ..pass.clone() };
                if own != Kernel::default() {
                    let message = "has passes of its own: write everything but times and index in these";
                    return Err(Fault::new("pass", message));
                }
                let Some(times) = &pass.times else {
                    return Err(Fault::new("pass.times", "is missing: say how often its passes run"));
                };
                let body = ordered(described, &pass.pass, depth, loaded)?;
                order.push(PassStep::looped(times, pass, body));
            }
            _ => return Err(Fault::new("pass.source", "must name one file in each [[pass]]")),
        }
    }
    Ok(order)
}

/// The kernel that is the reference, where one is.
///
/// # Errors
/// What the compiler says.
pub(crate) fn reference(described: &Described) -> Result<Option<LoadedKernel>, Fault> {
    let Description { reference, kernel, dispatch, .. } = &described.description;
    let Some(reference) = reference else { return Ok(None) };
    let Kernel { source, local_size, subgroup, indirect, times, index, pass, .. } = &reference.own;
    let others = [
        ("source", !source.values().is_empty()),
        ("local_size", !local_size.is_empty()),
        ("subgroup", subgroup.is_some()),
        ("indirect", indirect.is_some()),
        ("times", times.is_some()),
        ("index", index.is_some()),
        ("pass", !pass.is_empty()),
    ];
    if let Some((field, _)) = others.iter().find(|(_, is_stated)| *is_stated) {
        return Err(Fault::new(format!("reference.{field}"), "is no field of [reference]; leave it out"));
    }
    let source = match reference.kernel.values() {
        [] => return Ok(None),
        [source] => source,
        _ => return Err(Fault::new("reference.kernel", "names several files; one is the reference")),
    };
    // No option states its grid.
    let of_kernels = || Some(dispatch.as_ref()?.groups.as_ref()?.clone());
    let groups = reference.own.groups.clone().or_else(of_kernels).or_else(|| kernel.as_ref()?.groups.clone());
    let kernel = Kernel { groups, ..reference.own.clone() };
    let pass = load(described, &kernel, source, "reference.")?;
    Ok(Some(LoadedKernel { name: stem(source), passes: vec![pass], order: vec![PassStep::Pass(0)] }))
}

/// The name of a file without folder and ending.
fn stem(source: &str) -> String {
    let stem = Path::new(source).file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or(source).to_string()
}

/// Compiles a kernel whose fields messages call by this prefix.
fn load(described: &Described, kernel: &Kernel, source: &str, prefix: &'static str) -> Result<LoadedPass, Fault> {
    let field = |rest: &str| if prefix.is_empty() { format!("kernel.{rest}") } else { format!("{prefix}{rest}") };
    let newest = match kernel.vulkan.as_deref() {
        None | Some("1.2") => false,
        Some("1.3") => true,
        Some(other) => {
            return Err(Fault::new(field("vulkan"), format!("'{other}' is not supported; write \"1.2\" or \"1.3\"")));
        }
    };
    let mut folders: Vec<_> = kernel.include.iter().map(|folder| described.path(folder)).collect();
    folders.push(described.folder.clone());
    let text = Source {
        path: described.path(source),
        entry: kernel.entry.clone(),
        include: folders,
        define: kernel
            .define
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), value.macro_text()?)))
            .collect(),
        newest,
        local_size: match kernel.local_size.as_slice() {
            [] => None,
            &[x] if x > 0 => Some([x, 1, 1]),
            &[x, y] if x > 0 && y > 0 => Some([x, y, 1]),
            &[x, y, z] if x > 0 && y > 0 && z > 0 => Some([x, y, z]),
            other => {
                return Err(Fault::new(field("local_size"), format!("is {other:?}; write 1 to 3 extents above zero")));
            }
        },
    };
    let stated_by = match prefix {
        "" => "kernel.source",
        "pass." => "pass",
        _ => "reference.kernel",
    };
    let fault = |message: String| Fault::new(stated_by, message);
    let compiled = text.compile(&[]).map_err(fault)?;
    let words = compiled.spirv(&[]).map_err(fault)?;
    let named = |reason: String| fault(format!("{source}: {reason}"));
    let mut interface = interface(&bytes(&words)).map_err(named)?;
    let overrides = compiled.overrides();
    if !overrides.is_empty() {
        interface.constants = overrides.into();
    }
    Ok(LoadedPass { source: source.to_string(), prefix, compiled, interface, stated: kernel.clone() })
}

/// What a person calls a specialization constant: its name, or its number.
pub(crate) fn constant_key(constant: &SpecConstant) -> String {
    if constant.name.is_empty() { constant.id.to_string() } else { constant.name.to_string() }
}

/// What a person calls a slot: the best of its names, or its set and binding.
pub(crate) fn slot_key(slot: &Slot) -> String {
    slot.names().first().map_or_else(|| format!("{}.{}", slot.set, slot.binding), ToString::to_string)
}

/// Words in the order of SPIR-V files.
pub(crate) fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The interface of a user's kernel.
///
/// # Errors
/// What is wrong with it, or cannot be served, and what to do.
pub(crate) fn interface(spirv: &[u8]) -> Result<Interface, String> {
    let interface = Interface::read(spirv)?;
    match interface.slots.iter().find(|slot| slot.kind == SlotKind::Texel) {
        Some(view) => Err(format!(
            "'{}' is an image, a sampler or a texel buffer; use storage and uniform buffers",
            view.names().first().copied().unwrap_or_default()
        )),
        None => Ok(interface),
    }
}

impl LoadedPass {
    /// The constant of this name or number.
    pub(crate) fn constant(&self, key: &str) -> Option<&SpecConstant> {
        let id = key.parse::<u32>().ok();
        self.interface.constants.iter().find(|constant| constant.name == key || Some(constant.id) == id)
    }

    /// The module with these values of overrides, which specialization constants are not.
    ///
    /// # Errors
    /// What its compiler says.
    pub(crate) fn module(&self, overrides: &[(String, f64)]) -> Result<Module, String> {
        let spirv = self.compiled.spirv(overrides)?;
        Ok(Module { name: self.source.clone(), spirv, files: self.compiled.files().to_vec() })
    }

    /// The sub-group sizes that compete.
    pub(crate) fn subgroups(&self) -> &[Formula] {
        self.stated.subgroup.as_ref().map_or(&[], Listed::values)
    }

    /// The name of its source without the folder.
    pub(crate) fn file(&self) -> &str {
        Path::new(&self.source).file_name().and_then(|name| name.to_str()).unwrap_or(&self.source)
    }

    /// Its source and all that it includes.
    pub(crate) fn files(&self) -> &[PathBuf] {
        self.compiled.files()
    }

    /// What a person may call the variables that it declares and never uses.
    pub(crate) fn unused(&self) -> &[String] {
        self.compiled.unused()
    }

    /// Whether its constants are compiled in.
    pub(crate) fn has_overrides(&self) -> bool {
        !self.compiled.overrides().is_empty()
    }

    /// The work-group size, where constants have these values.
    pub(crate) fn local_size(&self, values: &[(u32, i64)]) -> [i64; 3] {
        self.interface.local_size.map(|word| match word {
            Word::Literal(value) => i64::from(value),
            Word::Constant { id, default } => {
                values.iter().find(|(own, _)| *own == id).map_or(i64::from(default), |(_, value)| *value)
            }
        })
    }

    /// The buffers whose addresses are push constants.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Argument> {
        self.interface.arguments.iter().filter(|member| member.kind == ArgumentKind::Address)
    }

    /// What it does with each of its slots, and behind them with each of its [`Self::addresses`].
    ///
    /// # Errors
    /// What its compiler says.
    pub(crate) fn accesses(&self) -> Result<Vec<Access>, String> {
        let slots = self.interface.slots.iter();
        let roots = slots.clone().map(|slot| Root::Slot(slot.set, slot.binding));
        let roots: Vec<_> = roots.chain(self.addresses().map(|member| Root::Address(member.offset))).collect();
        let mut found = accesses(&self.compiled.spirv(&[])?, &roots);
        for (access, slot) in found.iter_mut().zip(slots) {
            access.reads &= slot.is_readable();
            access.writes &= slot.is_writable();
        }
        Ok(found)
    }

    /// The name of a field of this pass.
    pub(crate) fn field(&self, rest: &str) -> String {
        match (self.prefix, rest) {
            ("", "groups" | "indirect") => format!("dispatch.{rest}"),
            ("", rest) if ["bind", "times", "index", "subgroup"].iter().any(|own| rest.starts_with(own)) => {
                format!("kernel.{rest}")
            }
            (prefix, rest) => format!("{prefix}{rest}"),
        }
    }

    /// What is bound, as a person would call it: `A (0.0), B (0.1)`.
    pub(crate) fn listing(&self) -> String {
        let slot = |slot: &Slot| match slot.names().first() {
            Some(name) => format!("{name} ({}.{})", slot.set, slot.binding),
            None => format!("{}.{}", slot.set, slot.binding),
        };
        self.interface.slots.iter().map(slot).collect::<Vec<_>>().join(", ")
    }
}
