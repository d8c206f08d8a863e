//! Loads the kernels of a description: compiles them and reads their interfaces.

use super::access::{Access, Root, accesses};
use super::compile::{Compiled, KernelSource};
use super::description::{Described, Description, Fault, Kernel};
use crate::kernel::interface::{Argument, ArgumentKind, Interface, Slot, SlotKind, SpecConstant, Word};
use std::path::Path;

/// Kernel that solves the problem, or a sequence of kernels.
#[derive(Debug)]
pub struct LoadedKernel {
    /// Name of the kernel in configurations.
    pub name: String,
    pub passes: Vec<LoadedPass>,
    /// Passes as the description states them, which may repeat and nest; `passes` are those with a source, in order.
    pub stated: Vec<Kernel>,
}

/// Loaded kernel of one pass.
#[derive(Debug)]
pub struct LoadedPass {
    /// Source as named in the description.
    pub source: String,
    /// Prefix of the pass's fields in messages: empty, `pass.`, `reference.`.
    pub prefix: &'static str,
    pub(super) compiled: Compiled,
    /// Interface with the defaults of all constants; in WGSL, the constants are the overrides.
    pub interface: Interface,
    /// Fields that the description states.
    pub stated: Kernel,
}

/// Loads the programs of a description: one for each source of `[kernel]`, or one from all `[[pass]]`.
pub fn programs(described: &Described) -> Result<Vec<LoadedKernel>, Fault> {
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
                // Kernels compared with a captured one may name their entry points differently.
                if described.of_case && at > 0 && kernel.entry.is_some() && pass.is_err() {
                    pass = load(described, &Kernel { entry: None, ..kernel.clone() }, source, "");
                }
                Ok(LoadedKernel { name: stem(source), passes: vec![pass?], stated: vec![kernel.clone()] })
            };
            let mut programs = kernel.source.values().iter().enumerate().map(program).collect::<Result<Vec<_>, _>>()?;
            // Files of the same name in different folders are distinguished by path.
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
            load_passes(described, passes, MAX_NESTING, &mut loaded)?;
            let name = name.clone().or_else(|| loaded.first().map(|pass| stem(&pass.source))).unwrap_or_default();
            Ok(vec![LoadedKernel { name, passes: loaded, stated: passes.to_vec() }])
        }
    }
}

/// Most levels of nested rounds.
const MAX_NESTING: usize = 8;

/// Loads the passes with a source, in order.
fn load_passes(
    described: &Described,
    passes: &[Kernel],
    depth: usize,
    loaded: &mut Vec<LoadedPass>,
) -> Result<(), Fault> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Fault::new("pass.pass", format!("is nested more than {MAX_NESTING} deep; write the passes out")));
    };
    for pass in passes {
        match (pass.source.values(), pass.pass.as_slice()) {
            ([source], []) => loaded.push(load(described, pass, source, "pass.")?),
            ([], [_, ..]) => {
                let others = Kernel { times: None, index: None, pass: vec![], ..pass.clone() };
                if others != Kernel::default() {
                    let message = "has passes of its own: write everything but times and index in these";
                    return Err(Fault::new("pass", message));
                }
                if pass.times.is_none() {
                    return Err(Fault::new("pass.times", "is missing: say how often its passes run"));
                }
                load_passes(described, &pass.pass, depth, loaded)?;
            }
            _ => return Err(Fault::new("pass.source", "must name one file in each [[pass]]")),
        }
    }
    Ok(())
}

/// Loads the kernel that is the reference, if there is one.
pub fn reference(described: &Described) -> Result<Option<LoadedKernel>, Fault> {
    let Description { reference, kernel, dispatch, .. } = &described.description;
    let Some(reference) = reference else { return Ok(None) };
    let Kernel { source, local_size, subgroup, indirect, times, index, pass, .. } = &reference.kernel_fields;
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
    // Without a grid of its own, the reference uses the kernel's.
    let of_kernels = || Some(dispatch.as_ref()?.groups.as_ref()?.clone());
    let groups = reference.kernel_fields.groups.clone().or_else(of_kernels).or_else(|| kernel.as_ref()?.groups.clone());
    let kernel = Kernel { groups, ..reference.kernel_fields.clone() };
    let pass = load(described, &kernel, source, "reference.")?;
    Ok(Some(LoadedKernel { name: stem(source), passes: vec![pass], stated: vec![kernel] }))
}

/// Returns a file name without folder and extension.
fn stem(source: &str) -> String {
    let stem = Path::new(source).file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or(source).to_string()
}

/// Compiles a kernel. Messages use `prefix` for its fields.
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
    let text = KernelSource {
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

/// Reads the interface of a user's kernel. Refuses images, samplers and texel buffers.
pub fn interface(spirv: &[u8]) -> Result<Interface, String> {
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
    /// Returns the constant of this name or id.
    pub fn constant(&self, key: &str) -> Option<&SpecConstant> {
        let id = key.parse::<u32>().ok();
        self.interface.constants.iter().find(|constant| constant.name == key || Some(constant.id) == id)
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

    /// Iterates over the push constants that are buffer addresses.
    pub fn addresses(&self) -> impl Iterator<Item = &Argument> {
        self.interface.arguments.iter().filter(|member| member.kind == ArgumentKind::Address)
    }

    /// Returns the access to each slot, then to the buffer of each of [`Self::addresses`].
    pub fn accesses(&self) -> Result<Vec<Access>, String> {
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

    /// Returns the name of a field of this pass.
    pub fn field(&self, rest: &str) -> String {
        match (self.prefix, rest) {
            ("", "groups" | "indirect") => format!("dispatch.{rest}"),
            ("", rest) if ["bind", "times", "index", "subgroup"].iter().any(|field| rest.starts_with(field)) => {
                format!("kernel.{rest}")
            }
            (prefix, rest) => format!("{prefix}{rest}"),
        }
    }

    /// Formats the bound blocks: `A (0.0), B (0.1)`.
    pub fn listing(&self) -> String {
        let slot = |slot: &Slot| match slot.names().first() {
            Some(name) => format!("{name} ({}.{})", slot.set, slot.binding),
            None => format!("{}.{}", slot.set, slot.binding),
        };
        self.interface.slots.iter().map(slot).collect::<Vec<_>>().join(", ")
    }
}
