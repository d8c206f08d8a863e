//! Generates descriptions from kernels (`run --init`), and lists the options that a run without a description needs.

use super::access::Access;
use super::analyzed::{AnalyzedPass, parameter_block};
use super::compile::Fallback;
use super::description::{
    Described, DescribedBuffer, DescribedMember, Description, Fault, Formula, GridFields, KernelFields, OTHERS,
    OneOrMany, OrderedMap,
};
use super::loaded::{LoadedPass, constant_key, load_kernels};
use super::members::{BITS_PREFIX, number};
use super::options::typed;
use super::polynomial::GRID_AXES;
use super::reach::Parameter;
use super::resolved::Tolerance;
use super::structure::StructureLayout;
use super::written::{Commented, check, inline, key, line, table};
use crate::basis::dtype::DType;
use crate::basis::error::Error;
use crate::basis::printable::{printable, shown_word};
use crate::basis::units::{counted, in_words};
use crate::kernel::image::{ImageFormat, ImageSampler};
use crate::kernel::interface::{Argument, ArgumentKind, Block, ImageType, Scalar, Slot, SlotKind, SpecConstant};
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;
use toml::Value;

/// Returns the default tolerance of outputs.
pub fn default_tolerance(element: DType) -> Tolerance {
    match element {
        DType::F64 => Tolerance::Close { rtol: 1e-10, atol: 1e-12 },
        DType::F32 => Tolerance::Close { rtol: 1e-4, atol: 1e-5 },
        DType::F16 => Tolerance::Close { rtol: 1e-2, atol: 1e-3 },
        DType::Bf16 => Tolerance::Close { rtol: 2e-2, atol: 1e-2 },
        _ => Tolerance::Exact,
    }
}

/// Writes a description of the kernels in TOML, with comments on values to be checked. Its sources are named as seen from
/// `folder`, if the file's folder is known, or else from the working folder.
pub fn init(described: &Described, folder: Option<&Path>) -> Result<String, Error> {
    let mut commented = template(described).map_err(|fault| described.error(&fault))?;
    if let (Some(folder), Some(kernel)) = (folder, &mut commented.description.kernel) {
        kernel.source = match std::mem::take(&mut kernel.source) {
            OneOrMany::One(source) => OneOrMany::One(seen_from(folder, source)),
            OneOrMany::Many(sources) => {
                OneOrMany::Many(sources.into_iter().map(|source| seen_from(folder, source)).collect())
            }
        };
    }
    Ok(commented.text())
}

/// Returns the path of a file relative to `folder`, or the whole path if the file is elsewhere.
fn seen_from(folder: &Path, path: String) -> String {
    let whole = std::path::absolute(&path).unwrap_or_default();
    match std::env::current_dir() {
        Ok(current) if current == folder => path,
        _ => whole.strip_prefix(folder).unwrap_or(&whole).to_string_lossy().into_owned(),
    }
}

/// Makes a description of the first kernel, with guesses for everything that the module does not tell.
fn template(described: &Described) -> Result<Commented, Fault> {
    let kernels = load_kernels(described)?;
    let pass = &kernels[0].passes[0];
    let analyzed = AnalyzedPass::new(pass);
    let mut commented = Commented::default();
    let name = Path::new(&pass.source).file_name().map_or(pass.source.as_str().into(), OsStr::to_string_lossy);
    // The simulator has no images.
    let has_images = pass.interface.slots.iter().any(|slot| slot.blocks.iter().any(|block| block.image.is_some()));
    let then = if has_images { "." } else { ", and `gpukern sanitize` finds its races." };
    commented.head = format!(
        "# What gpukern found in {}. Lines marked (…) are guesses: check them.\n# `gpukern help description` explains the \
         fields. Then `gpukern run` verifies\n# and times the kernel{then}\n",
        printable(&name)
    );
    let fields = described.description.kernel.clone().unwrap_or_default();
    let source = match kernels.as_slice() {
        [_] => OneOrMany::One(pass.source.clone()),
        several => OneOrMany::Many(several.iter().map(|kernel| kernel.passes[0].source.clone()).collect()),
    };
    commented.description.kernel = Some(KernelFields { source, groups: None, indirect: None, ..fields });
    let axes = analyzed.grid_axes();
    let names: Vec<&str> = axes.iter().map(|(axis, _)| *axis).collect();
    let remark = match names[..] {
        [_] => "swept; expressions below may use these names".into(),
        _ => format!("names for expressions below; -s {} sets them", names.join("x")),
    };
    commented.remark("axes", remark);
    let sweep = if analyzed.is_checked() {
        "doubling; or [4096, 14336], \"128..1024:128\""
    } else {
        "doubling; others may overrun: no check seen"
    };
    for (axis, values) in &axes {
        let remark = if *axis == GRID_AXES[0] { sweep } else { "" };
        commented.description.axes.set(axis, OneOrMany::One(formula(values)));
        commented.remark(format!("axes.{axis}"), format!("(…) {remark}"));
    }
    add_constants(pass, &described.description, &mut commented);
    commented.remark("push", "numbers, or expressions of axes");
    for member in pass.interface.arguments.iter() {
        if let ArgumentKind::Scalar(scalar) = member.kind {
            let name = member_key(&pass.interface.arguments, member);
            let (value, remark) = analyzed.guess(Parameter { block: None, offset: member.offset }, member, scalar);
            commented.remark(format!("push.{name}"), remark);
            commented.description.push.set(&name, value);
        }
    }
    add_slots(&analyzed, &mut commented);
    let [x, y, z] = pass.default_local_size();
    commented.remark("dispatch", format!("work-groups of {x}×{y}×{z}: local_x, …"));
    let further = analyzed.further_directions();
    let remark = match &further[..] {
        [] => "(…)".into(),
        names => format!("(…) it tells groups along {} apart, too", in_words(names, "and")),
    };
    commented.remark("dispatch.groups", remark);
    let groups = analyzed.grid_groups();
    commented.tail = optional_tables(&commented, &groups);
    commented.description.dispatch = Some(GridFields { groups: Some(OneOrMany::Many(groups)), indirect: None });
    Ok(commented)
}

/// Returns the end of a description whose dispatch has these groups; of a product, with its operations and the roles of its
/// buffers.
fn optional_tables(commented: &Commented, groups: &[Formula]) -> String {
    let extents: Vec<String> = groups.iter().map(|extent| line(&extent.to_string())).collect();
    let mut tail = OPTIONAL_TABLES.replace("GROUPS", &format!("[{}]", extents.join(", ")));
    if ["M", "N", "K"].iter().all(|axis| commented.description.axes.get(axis).is_some()) {
        tail = tail.replace("\"2*N\"               # for example", "\"2*M*N*K\"           # for example");
        let names = [["M", "K"], ["K", "N"], ["M", "N"]].map(|shape| buffer_of_shape(commented, shape));
        if let [Some(a), Some(b), Some(c)] = names {
            let roles = format!("{{ A = \"{a}\", B = \"{b}\", C = \"{c}\" }}");
            tail = tail.replace("{ C = \"D\" }", &roles);
        }
    }
    tail
}

/// Names the first buffer of a shape.
fn buffer_of_shape<'c>(commented: &'c Commented, shape: [&str; 2]) -> Option<&'c str> {
    let has_shape = |fields: &DescribedBuffer| {
        let own = fields.shape.iter().flat_map(OneOrMany::values).map(ToString::to_string);
        own.eq(shape.map(String::from))
    };
    commented.description.buffer.iter().find(|(_, fields)| has_shape(fields)).map(|(name, _)| name)
}

/// Adds the blocks of parameters, the buffers that slots bind, and those that addresses refer to.
fn add_slots(analyzed: &AnalyzedPass<'_>, commented: &mut Commented) {
    let pass = analyzed.pass;
    let mut pointers = vec![];
    for (index, member) in pass.addresses().enumerate() {
        let analyzed = Some(pass.interface.slots.len() + index);
        let (root, members) = (pass.pointees.root(None), &*pass.interface.arguments);
        pointers.push(PointerMember { block: None, root, path: vec![], members, member, analyzed });
    }
    for (index, slot) in pass.interface.slots.iter().enumerate() {
        let key = buffer_key(pass, slot);
        if let Some(block) = parameter_block(slot, analyzed.accesses[index]) {
            let remark = format!("set {}, binding {}: its members", slot.set, slot.binding);
            add_uniform(&key, index, remark, block, analyzed, commented);
            pointers.extend(PointerMember::all_of(block, &key, pass.pointees.root(Some(slot)), &[]));
        } else {
            add_bound_buffer(&key, index, slot, analyzed, commented);
        }
    }
    add_pointed(pointers, analyzed, commented);
}

/// Address in a block of parameters, or in a block that such an address leads to.
struct PointerMember<'a> {
    /// Block by its key; `None` for the push constants.
    block: Option<String>,
    /// Type of the block in the module.
    root: Option<u32>,
    /// Types of the blocks whose addresses lead to it, which end with its own.
    path: Vec<u32>,
    members: &'a [Argument],
    member: &'a Argument,
    /// Index of the analyzed buffer.
    analyzed: Option<usize>,
}

impl<'a> PointerMember<'a> {
    /// Lists the addresses in a block that the description calls `key`.
    fn all_of(block: &'a Block, key: &str, root: Option<u32>, path: &[u32]) -> impl Iterator<Item = Self> {
        let members = &*block.members;
        let addresses = members.iter().filter(|member| member.kind == ArgumentKind::Address);
        addresses.map(move |member| Self {
            block: Some(key.to_string()),
            root,
            path: path.to_vec(),
            members,
            member,
            analyzed: None,
        })
    }
}

/// Most blocks with further addresses that are listed.
const MAX_POINTED: usize = 64;

/// Adds the buffers that addresses refer to, and those blocks that hold further addresses.
fn add_pointed<'a>(mut pointers: Vec<PointerMember<'a>>, analyzed: &AnalyzedPass<'a>, commented: &mut Commented) {
    let pass = analyzed.pass;
    let mut blocks = 0;
    let mut next = 0;
    while next < pointers.len() {
        let PointerMember { block, root, path, members, member, analyzed: index } = &pointers[next];
        let own_name = member.name.rsplit('.').next().unwrap_or_default();
        let Description { buffer, uniform, .. } = &commented.description;
        let is_taken = |name: &str| buffer.get(name).is_some() || uniform.get(name).is_some() || has_slot(pass, name);
        let key = member_key(members, member);
        let table = block.as_deref().unwrap_or("push");
        let plain_key = key.replace('[', ".").replace(']', "");
        let candidates = if path.is_empty() {
            [own_name.to_string(), key.clone(), format!("{table} {key}")]
        } else {
            [format!("{table}.{plain_key}"), format!("{table} {key}"), format!("{table} byte {}", member.offset)]
        };
        let is_free = |name: &&String| !name.is_empty() && !is_taken(name);
        let name = candidates.iter().find(is_free).unwrap_or(&candidates[2]).clone();
        if name != own_name {
            let value = formula(&name);
            match block {
                None => commented.description.push.set(&key, value),
                Some(block) => {
                    let mut table = commented.description.uniform.get(block).cloned().unwrap_or_default();
                    table.set(&key, value);
                    commented.description.uniform.set(block, table);
                }
            }
        }
        let target = root.and_then(|root| pass.pointees.target(root, member.offset));
        match target.filter(|(kind, block)| block.has_addresses() && !path.contains(kind) && blocks < MAX_POINTED) {
            Some((kind, pointed)) => {
                blocks += 1;
                let path = [&path[..], &[kind]].concat();
                let remark = format!("at the address in {}: its members", member.name);
                add_uniform(&name, usize::MAX, remark, pointed, analyzed, commented);
                pointers.extend(PointerMember::all_of(pointed, &name, Some(kind), &path));
            }
            None => add_address_buffer(&name, member, *index, target.map(|(_, block)| block), analyzed, commented),
        }
        next += 1;
    }
}

/// Adds the buffer that a member is the address of.
fn add_address_buffer(
    name: &str,
    member: &Argument,
    root: Option<usize>,
    block: Option<&Block>,
    analyzed: &AnalyzedPass<'_>,
    commented: &mut Commented,
) {
    let access = root.map_or(Access::UNKNOWN, |root| analyzed.accesses[root]);
    let declared = block.and_then(|block| Some((scalar_of(block)?.name(), block.array?.stride)));
    let elements = root.and_then(|root| analyzed.address_elements(root)).or(declared);
    if elements.is_none() {
        commented.remark(format!("buffer.{name}.type"), "(…)");
    }
    let (element, stride) = elements.unwrap_or_else(|| ("f32".into(), 4));
    let bytes = DType::of_buffer(&element).map_or(1, DType::bytes);
    let (mut extents, is_known) = match root {
        Some(root) => analyzed.extents(root, stride),
        None => analyzed.grid_extents(),
    };
    if stride > bytes {
        extents.push(Formula::Integer((stride / bytes).cast_signed()));
    }
    commented.remark(format!("buffer.{name}"), format!("at the address in {}: {}", member.name, access_text(access)));
    if !is_known {
        commented.remark(format!("buffer.{name}.shape"), "(…)");
    }
    add_buffer(name, &member.name, &element, OneOrMany::Many(extents), false, access, commented);
}

/// Whether a name denotes a slot of the kernel.
fn has_slot(pass: &LoadedPass, name: &str) -> bool {
    pass.interface.slots.iter().any(|slot| slot.is_called(name))
}

/// Returns the first name of a slot that no other slot has, or else its set and binding.
fn buffer_key(pass: &LoadedPass, slot: &Slot) -> String {
    let is_unique = |name: &&str| pass.interface.slots.iter().filter(|slot| slot.is_called(name)).count() == 1;
    slot.names().into_iter().find(is_unique).map_or_else(|| place(slot), String::from)
}

/// Formats the set and binding of a slot, `0.3`; with the element, from the second of an array on: `0.3[1]`.
pub fn place(slot: &Slot) -> String {
    let element = if slot.element == 0 { String::new() } else { format!("[{}]", slot.element) };
    format!("{}.{}{element}", slot.set, slot.binding)
}

/// Returns the name of a member if it is unique, or else its offset.
pub fn member_key(members: &[Argument], member: &Argument) -> String {
    let is_unique = members.iter().filter(|other| other.name == member.name).count() == 1;
    if is_unique && !member.name.is_empty() { member.name.to_string() } else { format!("byte {}", member.offset) }
}

fn formula(text: &str) -> Formula {
    Formula::Text(text.into())
}

/// End of the description that `--init` writes: tables that cannot be derived from a kernel, as examples in comments.
const OPTIONAL_TABLES: &str = "
# [reference]                 # (…) the right answer, or nothing is verified
# kernel = \"naive.comp\"       # another kernel, and its grid:
# groups = GROUPS
#                             # or a program that reads NAME.npy of each input
#                             # from {in} and writes NAME.npy of each output
# command = \"python3 ref.py {in} {out}\"
# file = \"d.npy\"              # or a file
# builtin = \"matmul\"          # or a built-in algorithm, whose C is D here
# size = [\"M\", \"N\", \"K\"]
# roles = { C = \"D\" }

# [work]                      # (…) for rates and the share of the limit
# flops = \"2*N\"               # for example
# bytes = \"12*N\"              # if not each input and output moves once
";

/// Describes a kernel's access to a buffer.
fn access_text(access: Access) -> &'static str {
    match (access.reads, access.writes) {
        (true, true) => "read and written",
        (true, false) => "read",
        (false, true) => "written",
        (false, false) => "not used",
    }
}

/// Adds the specialization constants with their defaults, but no overrides that follow from others.
fn add_constants(pass: &LoadedPass, description: &Description, commented: &mut Commented) {
    commented.remark("spec", "defaults; a list is what --tune searches");
    for constant in pass.interface.constants.iter() {
        let SpecConstant { scalar, default: bits, id, .. } = constant;
        let declared = pass.compiled.overrides.iter().find(|declared| declared.id == *id);
        let is_own = |key: &str| pass.constant(key).is_some_and(|stated| stated.id == *id);
        let remark = match declared.map(|declared| declared.fallback) {
            Some(Fallback::Derived | Fallback::Unused) => continue,
            Some(Fallback::Missing) if !description.spec.names().into_iter().any(is_own) => {
                format!("(…) {}, without a default", scalar.name())
            }
            Some(_) if *id > u16::MAX.into() => scalar.name(),
            _ => format!("{}, constant_id {id}", scalar.name()),
        };
        let number = number(*scalar, *bits);
        let value = match scalar {
            Scalar::Bool => Formula::Truth(*bits != 0),
            Scalar::Int { .. } => Formula::whole(scalar.integer(*bits).unwrap_or_default()),
            _ if !number.is_finite() => formula(&format!("{BITS_PREFIX}{bits:x}")),
            Scalar::Float { .. } | Scalar::Bfloat16 => Formula::Number(number),
        };
        let key = constant_key(constant);
        let is_unique = pass.interface.constants.iter().filter(|other| constant_key(other) == key).count() == 1;
        let name = if is_unique { key } else { id.to_string() };
        commented.description.spec.set(&name, OneOrMany::One(value));
        commented.remark(format!("spec.{name}"), remark);
    }
}

/// Most members of a block that are listed; the others share the value of [`OTHERS`].
const MAX_LISTED: usize = 24;

/// Adds a block of parameters with a guess for each member.
fn add_uniform(
    name: &str,
    index: usize,
    remark: String,
    block: &Block,
    analyzed: &AnalyzedPass<'_>,
    commented: &mut Commented,
) {
    commented.remark(format!("uniform.{name}"), remark);
    let (listed, others) = block.members.split_at(block.members.len().min(MAX_LISTED));
    let mut members = OrderedMap::default();
    for member in listed {
        let ArgumentKind::Scalar(scalar) = member.kind else { continue };
        let key = member_key(&block.members, member);
        let (value, remark) = analyzed.guess(Parameter { block: Some(index), offset: member.offset }, member, scalar);
        commented.remark(format!("uniform.{name}.{key}"), remark);
        members.set(&key, value);
    }
    if let Some(first) = others.first() {
        let more = match others.len() - 1 {
            0 => String::new(),
            count => format!(" and {}", counted(count, "other")),
        };
        members.set(OTHERS, Formula::Integer(0));
        commented.remark(format!("uniform.{name}.{OTHERS}"), format!("(…) {}{more}", first.name));
    }
    commented.description.uniform.set(name, members);
}

/// Adds a buffer that a slot binds.
fn add_bound_buffer(name: &str, index: usize, slot: &Slot, analyzed: &AnalyzedPass<'_>, commented: &mut Commented) {
    let access = analyzed.accesses[index];
    let aliases: Vec<&str> = slot.names().into_iter().filter(|alias| *alias != name).collect();
    let also = if aliases.is_empty() { String::new() } else { format!(" (also {})", aliases.join(", ")) };
    let remark = format!("set {}, binding {}: {}{also}", slot.set, slot.binding, access_text(access));
    commented.remark(format!("buffer.{name}"), remark);
    if let Some(ty) = slot.blocks.iter().find_map(|block| block.image.as_ref()) {
        return add_image(name, slot, ty, analyzed, access, commented);
    }
    if let Some(layout) = mixed_layout(slot) {
        return add_structures(name, index, &layout, analyzed, commented);
    }
    let element = element(&[slot]);
    let of_element = |block: &&Block| {
        block.array.and_then(|array| array.scalar).map_or_else(|| "bytes".into(), Scalar::name) == element
    };
    let arrays = || slot.blocks.iter().filter(|block| block.array.is_some());
    let shortest = arrays().filter(of_element).min_by_key(|block| block.array.map(|array| array.stride));
    let (shape, remark) = if let Some(block) = shortest.or_else(|| arrays().next()) {
        array_shape(index, block, &element, analyzed)
    } else {
        let bytes = slot.blocks.iter().map(|block| block.fixed).max().unwrap_or_default();
        let width = DType::of_buffer(&element).map_or(1, DType::bytes);
        let extent = Formula::Integer(block_numbers(slot).unwrap_or(bytes / width).cast_signed());
        (vec![extent], "the block's size".to_string())
    };
    commented.remark(format!("buffer.{name}.shape"), remark);
    let has_integer = |block: &Block| {
        let is_integer = |member: &Argument| matches!(member.kind, ArgumentKind::Scalar(Scalar::Int { .. }));
        let is_header = |member: &Argument| u64::from(member.offset) < block.fixed;
        let is_mixed = block.array.is_some() || block.scalar.is_none();
        is_mixed && block.members.iter().any(|member| is_integer(member) && is_header(member))
    };
    let is_counted = slot.blocks.iter().any(has_integer);
    add_buffer(name, name, &element, OneOrMany::Many(shape), is_counted, access, commented);
}

/// Adds the buffer of an image that a slot binds, with the grid's extents.
fn add_image(
    name: &str,
    slot: &Slot,
    ty: &ImageType,
    analyzed: &AnalyzedPass<'_>,
    access: Access,
    commented: &mut Commented,
) {
    let format = ty.format.as_deref().and_then(ImageFormat::of_shader);
    let guess =
        ImageFormat::all().filter(|format| format.components() == 4).find(|format| format.scalar() == ty.scalar);
    let Some(texel) = format.or(guess) else { return };
    let extents = texel.extents(ty.shape);
    let (grid, _) = analyzed.grid_extents();
    let mut shape = vec![Formula::Integer(1); (ty.shape.dimensions as usize).saturating_sub(grid.len())];
    shape.extend(grid.into_iter().rev().take(ty.shape.dimensions as usize).rev());
    if ty.shape.arrayed {
        shape.insert(0, Formula::Integer(1));
    }
    if texel.components() > 1 {
        shape.push(Formula::Integer(texel.components().cast_signed()));
    }
    commented.remark(format!("buffer.{name}.shape"), format!("(…) {}", extents.join(", ")));
    let element = texel.element().name();
    add_buffer(name, name, element, OneOrMany::Many(shape), false, access, commented);
    commented.remark(format!("buffer.{name}.image"), "(…) the kernel states no format");
    if slot.kind == SlotKind::CombinedImage {
        let lines = "# (…) also linear; repeat, mirrored-repeat, clamp-to-border; false: texels\n";
        commented.end(format!("buffer.{name}"), lines);
    }
    if let Some(buffer) = commented.description.buffer.0.last_mut().map(|(_, buffer)| buffer) {
        buffer.image = format.is_none().then(|| texel.name());
        buffer.sampler = (slot.kind == SlotKind::CombinedImage).then(ImageSampler::default);
    }
}

/// Adds a buffer of structures, member by member.
fn add_structures(
    name: &str,
    index: usize,
    layout: &StructureLayout,
    analyzed: &AnalyzedPass<'_>,
    commented: &mut Commented,
) {
    let access = analyzed.accesses[index];
    let mut buffer = DescribedBuffer::default();
    if let Some((_, None)) = layout.array {
        let (extents, is_known) = analyzed.extents(index, layout.stride);
        buffer.shape = Some(OneOrMany::Many(extents));
        let header: Vec<&str> =
            layout.members.iter().filter(|member| !member.is_repeated).map(|member| &*member.name).collect();
        let mut remark = format!("structures of {} bytes", layout.stride);
        if !header.is_empty() {
            remark = format!("behind {} ({} bytes)", header.join(", "), layout.fixed);
        }
        let mark = if is_known { "" } else { "(…) " };
        commented.remark(format!("buffer.{name}.shape"), format!("{mark}{remark}"));
    }
    if layout.array.is_none() {
        buffer.shape = Some(OneOrMany::One(Formula::Integer(1)));
        commented.remark(format!("buffer.{name}.shape"), format!("a structure of {} bytes", layout.fixed));
    }
    let mut ending = String::new();
    for member in &layout.members {
        let element = member.scalar.name();
        let is_float = matches!(member.scalar, Scalar::Float { .. } | Scalar::Bfloat16);
        let access = Access { indexes: access.indexes && !is_float, ..access };
        let tolerance = DType::of_buffer(&element).map_or(Tolerance::Exact, default_tolerance);
        let mut described = DescribedMember::default();
        if access.reads || !access.writes {
            let (fill, remark) = fill_with_remark(&member.name, &element, !member.is_repeated && !is_float, access);
            described.fill = Some(fill);
            commented.remark(format!("buffer.{name}.{}.fill", member.name), remark);
        }
        if access.reads && access.writes {
            described.check = Some(check(&tolerance, &[]));
        } else if access.writes {
            let _ = writeln!(ending, "# {}.check = {tolerance}", key(&member.name));
        }
        commented.remark(format!("buffer.{name}.{}", member.name), &element);
        buffer.members.set(&member.name, described);
    }
    if !ending.is_empty() {
        commented.end(format!("buffer.{name}"), format!("{ending}#   the defaults; or {{ ulp = 4 }}, \"exact\"\n"));
    }
    commented.description.buffer.set(name, buffer);
}

/// Returns the shape of a buffer whose block has an array at its end, with a remark on what it consists of.
fn array_shape(root: usize, block: &Block, element: &str, analyzed: &AnalyzedPass<'_>) -> (Vec<Formula>, String) {
    let bytes = DType::of_buffer(element).map_or(1, DType::bytes);
    let stride = block.array.map_or(bytes, |array| array.stride);
    let (mut extents, is_known) = analyzed.extents(root, stride);
    let width = stride / bytes;
    let members = block.members.iter().filter(|member| u64::from(member.offset) >= block.fixed).count() as u64;
    let mut remark = match width {
        // A guess beyond whole rows may hide an index that is out of bounds.
        1 if let Some((_, reached)) = analyzed.off_by_one(root, stride) => format!("indices reach {reached}: one off?"),
        1 if extents.iter().any(|extent| extent.to_string().contains(" + ")) => "as far as indices may reach".into(),
        1 => String::new(),
        _ if element == "bytes" => format!("structures of {stride} bytes"),
        width if members < width && members > 0 => format!("{members} numbers and {} of padding each", width - members),
        width => format!("{width} numbers each"),
    };
    if !analyzed.is_used(root) {
        remark = "not used".into();
    }
    if width > 1 {
        extents.push(Formula::Integer(width.cast_signed()));
    }
    if block.fixed > 0 {
        let header: Vec<&Argument> =
            block.members.iter().filter(|member| u64::from(member.offset) < block.fixed).collect();
        let names: Vec<&str> = header.iter().map(|member| &*member.name).collect();
        let names = names.join(", ");
        let behind = if names.is_empty() || names.len() > 30 { counted(header.len(), "member") } else { names };
        remark = format!("behind {behind} ({} bytes)", block.fixed);
        let factors: Vec<String> = extents.iter().map(|extent| factor(&extent.to_string())).collect();
        extents = vec![formula(&format!("{} + {}", block.fixed.div_ceil(bytes), factors.join("*")))];
    }
    let mark = if is_known { "" } else { "(…) " };
    (extents, format!("{mark}{remark}"))
}

/// Puts an expression of several terms into parentheses.
fn factor(text: &str) -> String {
    if text.contains(' ') && !text.starts_with("cdiv(") { format!("({text})") } else { text.into() }
}

/// Returns the number of a buffer's elements, if it has no array at its end and consists of one type.
fn block_numbers(slot: &Slot) -> Option<u64> {
    if slot.blocks.iter().any(|block| block.array.is_some()) {
        return None;
    }
    slot.blocks.iter().find_map(Block::fills).map(|(_, count)| count)
}

/// Returns the type of a block's numbers; `None` if there are several.
pub fn scalar_of(block: &Block) -> Option<Scalar> {
    block.array.map_or(block.scalar, |array| array.scalar)
}

/// Returns the layout of a slot's block if its numbers have several types, so that its members are described.
pub fn mixed_layout(slot: &Slot) -> Option<StructureLayout> {
    let [block] = &*slot.blocks else { return None };
    StructureLayout::new(block, &[]).ok().flatten().filter(StructureLayout::is_mixed)
}

/// Returns the element type of a buffer from all blocks that bind it. Floats take precedence: other blocks may access
/// them as integers for bit operations or atomics.
pub fn element(slots: &[&Slot]) -> String {
    let blocks = slots.iter().flat_map(|slot| slot.blocks.iter());
    let scalars: Vec<Scalar> = blocks.filter_map(scalar_of).collect();
    let is_float = |scalar: &&Scalar| matches!(scalar, Scalar::Float { .. } | Scalar::Bfloat16);
    let scalar = scalars.iter().find(is_float).or(scalars.first());
    scalar.map_or_else(|| "bytes".to_string(), |scalar| scalar.name())
}

/// Adds a buffer, with fill and check according to the access. `called` is its name in the kernel.
/// `is_counted` tells whether it begins with integers, which may be lengths.
fn add_buffer(
    name: &str,
    called: &str,
    element: &str,
    shape: OneOrMany,
    is_counted: bool,
    access: Access,
    commented: &mut Commented,
) {
    let mut buffer =
        DescribedBuffer { element: Some(element.into()), shape: Some(shape), ..DescribedBuffer::default() };
    if access.reads || !access.writes {
        let (fill, remark) = fill_with_remark(called, element, is_counted, access);
        buffer.fill = Some(fill);
        commented.remark(format!("buffer.{name}.fill"), remark);
    }
    let tolerance = DType::of_buffer(element).map_or(Tolerance::Exact, default_tolerance);
    if access.writes && access.reads {
        buffer.check = Some(check(&tolerance, &[]));
        let lines = "# (…) filled and checked: updated in place. An output has no fill. Or:\n\
                     # scratch = true              # if the host never reads it\n";
        commented.end(format!("buffer.{name}"), lines);
    } else if access.writes {
        let exact = if tolerance == Tolerance::Exact { "" } else { ", \"exact\"" };
        let lines = format!("# check = {tolerance}\n#   the default; or {{ nmse = 1e-6 }}, {{ ulp = 4 }}{exact}\n");
        commented.end(format!("buffer.{name}"), lines);
    }
    commented.description.buffer.set(name, buffer);
}

/// Guesses the fill of a buffer, or of a member of structures, with a remark. `is_counted` tells whether it begins with
/// integers, which may be lengths.
fn fill_with_remark(called: &str, element: &str, is_counted: bool, access: Access) -> (String, &'static str) {
    let fill = if is_counted { "zero".into() } else { guess_fill(called, element, access) };
    let remark = match &*fill {
        fill if fill.starts_with("uniform(") => "(…) used as indices: keep them in range",
        _ if is_counted => "(…) if it counts elements, a number: not zero",
        _ => "(…) also iota, normal, @x.npy, @x.bin",
    };
    (fill, remark)
}

/// Parts of names that suggest a buffer of 0 and 1.
const MASK_NAMES: [&str; 7] = ["mask", "flag", "valid", "active", "enabled", "visible", "predicate"];

/// Returns a fill that covers the type; zeros for integers that atomic operations change, which are usually counters, and
/// for indices in structures.
fn guess_fill(name: &str, element: &str, access: Access) -> String {
    let is_float = element.starts_with('f') || element == "bf16";
    let name = name.to_lowercase();
    let indices = match element {
        "bytes" => "zero",
        "i8" | "u8" => "uniform(0, min(N, 128) - 1)",
        "i16" | "u16" | "f16" | "bf16" => "uniform(0, min(N, 32768) - 1)",
        _ => "uniform(0, N - 1)",
    };
    let fill = match element {
        _ if !access.writes && MASK_NAMES.iter().any(|part| name.contains(part)) => "mask",
        _ if access.indexes && !access.counts => indices,
        _ if is_float => "varied",
        _ if access.counts => "zero",
        _ if access.indexes => indices,
        _ => "varied",
    };
    fill.into()
}

/// Extent of the axes of a kernel that is compiled without a description.
const GUESSED_EXTENT: i64 = 256;

/// Completes a kernel without a description by guesses at its axes, buffers and grid, so that it can be compiled.
/// Returns whether it had none.
pub fn complete(described: &mut Described) -> Result<bool, Error> {
    if is_described(&described.description) {
        return Ok(false);
    }
    let guessed = template(described).map_err(|fault| described.error(&fault))?.description;
    let Description { axes, push, uniform, .. } = &mut described.description;
    for (name, values) in guessed.axes.0 {
        // The first axis is a sweep, the others are expressions of it.
        let extent = if axes.is_empty() { OneOrMany::One(Formula::Integer(GUESSED_EXTENT)) } else { values };
        if axes.get(&name).is_none() {
            axes.set(&name, extent);
        }
    }
    push.add_missing(guessed.push);
    uniform.add_missing(guessed.uniform);
    described.description.buffer = guessed.buffer;
    described.description.dispatch = guessed.dispatch;
    Ok(true)
}

/// Whether a description states more than kernels and options.
fn is_described(description: &Description) -> bool {
    !description.buffer.is_empty() || description.dispatch.is_some() || !description.pass.is_empty()
}

/// Returns the message that says how to describe a kernel, by a file or by options; `None` if it is described.
pub fn missing(described: &Described) -> Result<Option<String>, Fault> {
    if is_described(&described.description) {
        return Ok(None);
    }
    let commented = template(described)?;
    let fields = table(&commented.description);
    let fields_of = |table: &str| fields.get(table).and_then(Value::as_table).into_iter().flatten();
    let sizes: Vec<_> = fields_of("axes").map(|(axis, values)| format!("-s {axis}={}", bare(values))).collect();
    let source = load_kernels(described)?[0].passes[0].source.clone();
    let shown = shown_word(&source);
    let mut words = vec![format!("gpukern run {shown} {}", sizes.join(" "))];
    words.extend(fields_of("buffer").map(|(name, buffer)| set_option("buffer", name, buffer)));
    for (name, members) in fields_of("uniform") {
        let block = format!("uniform.{}", key(name));
        let members = members.as_table().into_iter().flatten();
        words.extend(members.map(|(member, value)| set_option(&block, member, value)));
    }
    words.extend(fields_of("push").map(|(name, value)| set_option("push", name, value)));
    let guessed =
        fields_of("spec").filter(|(name, _)| commented.remark_on(&format!("spec.{name}")).starts_with("(…) "));
    words.extend(guessed.map(|(name, value)| set_option("spec", name, value)));
    words.extend(fields_of("dispatch").map(|(name, value)| set_option("dispatch", name, value)));
    // In the working folder, to which paths in the draft are relative; never the name of a file that is there.
    let stem = Path::new(&source).file_stem().unwrap_or_default().to_string_lossy();
    let names = ["", "-new", "-draft"].map(|end| format!("{stem}{end}.toml"));
    let free = names.iter().find(|name| !Path::new(name).exists()).unwrap_or(&names[2]);
    let description = shown_word(free);
    let beside = Path::new(&source).with_extension("toml");
    let known = if beside.exists() {
        format!("If {} describes it, name that file. Otherwise draft", shown_word(&beside.to_string_lossy()))
    } else {
        "Draft".to_string()
    };
    Ok(Some(format!(
        "{} alone does not say what its buffers hold, how long they are, or how many work-groups run.\n{known} a description, \
         edit it, and run that:\n  gpukern run {shown} --init > {description}\nor give these options to `run` or `sanitize` \
         (check every value):\n  {}",
        printable(&source),
        words.join(" \\\n    ")
    )))
}

/// Formats the option that sets a field, quoted for a shell.
fn set_option(table: &str, field: &str, value: &Value) -> String {
    // Member names contain dots, which separate keys.
    let is_bare = field.split('.').all(|part| key(part) == part);
    let field = if is_bare && table != "buffer" { field.to_string() } else { key(field) };
    format!("--set {}", shown_word(&format!("{table}.{field}={}", bare(value))))
}

/// Formats a value as `--set` takes it: strings without quotes, unless they would be read as another type.
fn bare(value: &Value) -> String {
    match value.as_str() {
        Some(text) if typed(text).as_ref() == Ok(value) => text.into(),
        _ => inline(value),
    }
}

#[cfg(test)]
mod tests;
