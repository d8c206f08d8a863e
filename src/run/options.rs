//! The fields of a description as options of the command line, and where descriptions come from.

use super::compile::ENDINGS;
use super::description::{
    Bound, Check, CheckFigures, Described, Description, Dispatch, Formula, Inputs, Kernel, Listed, OutputFiles,
    ReferenceTable, Work,
};
use super::fill::split;
use crate::basis::dtype::DType;
use crate::basis::error::{Error, unknown};
use crate::basis::input_file;
use crate::basis::printable::{Shown, brief};
use std::path::{Path, PathBuf};

/// The description of a case, in its folder.
pub(crate) const CASE: &str = "case.toml";

/// What a kernel takes and computes, option by option; each wins over the same field of a description.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub(crate) struct Fields {
    pub(crate) size: Vec<String>,
    pub(crate) define: Vec<String>,
    pub(crate) include: Vec<String>,
    pub(crate) entry: Option<String>,
    pub(crate) vulkan: Option<String>,
    pub(crate) spec: Vec<String>,
    #[serde(rename = "where")]
    pub(crate) conditions: Vec<String>,
    pub(crate) push: Vec<String>,
    pub(crate) uniform: Vec<String>,
    pub(crate) subgroup: Option<String>,
    pub(crate) buffer: Vec<String>,
    pub(crate) bind: Vec<String>,
    pub(crate) check: Vec<String>,
    pub(crate) groups: Option<String>,
    pub(crate) right: Option<String>,
    pub(crate) role: Vec<String>,
    pub(crate) right_by: Option<String>,
    pub(crate) inputs_by: Option<String>,
    pub(crate) flops: Option<String>,
    pub(crate) bytes: Option<String>,
}

/// The problems that a command line names, each by its descriptions: several folders are as many problems.
///
/// # Errors
/// As of [`describe`]; a folder beside other problems' files.
pub(crate) fn problems(
    kernels: &[PathBuf],
    config: Option<&Path>,
    fields: &Fields,
) -> Result<Vec<Vec<Described>>, Error> {
    let (cases, others): (Vec<_>, Vec<_>) = kernels.iter().partition(|path| path.is_dir());
    if cases.len() < 2 {
        return Ok(vec![describe(kernels, config, fields)?]);
    }
    if let Some(other) = config.or(others.first().map(|path| path.as_path())) {
        let other = other.shown();
        return Err(Error::Usage(format!("'{other}' stands beside several cases; name it beside one of them")));
    }
    cases.into_iter().map(|case| describe(std::slice::from_ref(case), None, fields)).collect()
}

/// The descriptions of one problem: those of `config`, of `.toml` files and of a folder among `kernels`, with the other
/// kernels in place of theirs, or beside that of a folder, and `fields` in place of what they state.
///
/// # Errors
/// What cannot be read or understood.
pub(crate) fn describe(kernels: &[PathBuf], config: Option<&Path>, fields: &Fields) -> Result<Vec<Described>, Error> {
    let is_description = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "toml") || path.is_dir();
    let files: Vec<&Path> =
        config.into_iter().chain(kernels.iter().filter(is_description).map(PathBuf::as_path)).collect();
    let sources: Vec<&PathBuf> = kernels.iter().filter(|path| !is_description(path)).collect();
    let mut described = files.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    if described.is_empty() {
        described.push(Described::default());
    }
    if let ([_, _, ..], Some(source)) = (described.as_slice(), sources.first()) {
        return Err(Error::Usage(format!(
            "kernel '{}' stands beside several descriptions; name it in one of them",
            source.shown()
        )));
    }
    if let Some((_, twice)) = sources.iter().enumerate().find(|(at, source)| sources[..*at].contains(source)) {
        let twice = twice.shown();
        return Err(Error::Usage(format!("kernel '{twice}' is named twice; copy it to compare it with itself")));
    }
    if files.is_empty() && sources.is_empty() {
        let message = "no kernel given; name a file, such as `gpukern run k.comp`";
        return Err(Error::Usage(message.into()));
    }
    if !sources.is_empty() {
        let relative = described[0].file.is_none();
        let names = sources.iter().map(|source| here(source, relative)).collect::<Result<Vec<_>, _>>();
        let names = names.map_err(Error::Usage)?;
        let of_case = described[0].of_case;
        let description = &mut described[0].description;
        if !description.pass.is_empty() {
            return Err(Error::Usage("a kernel stands beside a description with [[pass]]; name it in a pass".into()));
        }
        let kernel = description.kernel.get_or_insert_default();
        // The captured kernel is what others are compared with.
        let own = if of_case { kernel.source.values().to_vec() } else { vec![] };
        kernel.source = Listed::Many([own, names].concat());
    }
    for described in &mut described {
        let relative = described.file.is_none();
        fields.apply(&mut described.description, relative).map_err(Error::Usage)?;
        described.options = fields.stated();
    }
    if !sources.is_empty() {
        // An argument needs no name in messages.
        described[0].options.push(("kernel.source".into(), String::new()));
    }
    Ok(described)
}

/// The description in a file, or of the case in a folder.
fn read(path: &Path) -> Result<Described, Error> {
    let of_case = path.is_dir();
    let path = &if of_case { path.join(CASE) } else { path.to_path_buf() };
    if of_case && !path.exists() {
        let folder = path.parent().unwrap_or(path).shown();
        return Err(Error::Usage(format!(
            "{folder} has no {CASE}; name a kernel, or a folder of `gpukern capture -o`"
        )));
    }
    let usage = |reason: String| Error::Usage(format!("{}: {reason}", path.shown()));
    let unread = |e| Error::Usage(format!("cannot read '{}': {e}", path.shown()));
    let text = input_file::read_text(path).map_err(unread)?;
    let description = Description::parse(&text).map_err(usage)?;
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(Described { description, folder, file: Some((path.clone(), text)), options: vec![], of_case })
}

/// A path from the folder of this process, where those of the description are from another.
fn here(path: impl AsRef<Path>, relative: bool) -> Result<String, String> {
    let path = path.as_ref();
    let named = |reason: String| format!("{}: {reason}", path.shown());
    let path =
        if relative { path.to_path_buf() } else { std::path::absolute(path).map_err(|e| named(e.to_string()))? };
    path.into_os_string().into_string().map_err(|_| named("its name is not UTF-8; rename it".into()))
}

/// The two sides of `NAME=VALUE`.
fn assigned<'a>(option: &str, text: &'a str, example: &str) -> Result<(&'a str, &'a str), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if name.trim().is_empty() || value.trim().is_empty() {
        return Err(format!("{option} '{}' is not NAME=VALUE; write {option} {example}", brief(text)));
    }
    Ok((name.trim(), value.trim()))
}

/// The name of a condition of the command line.
fn condition(number: usize) -> String {
    format!("option_{number}")
}

fn text(value: &str) -> Formula {
    Formula::Text(value.to_string())
}

fn list(value: &str) -> Listed {
    match split(value).as_slice() {
        [one] => Listed::One(text(one)),
        many => Listed::Many(many.iter().map(|value| text(value)).collect()),
    }
}

impl Fields {
    /// The fields of a description that they state, each with the option that does.
    fn stated(&self) -> Vec<(String, String)> {
        let tables: [(&str, &str, &[&str], &[String]); 9] = [
            ("size", "axes", &[""], &self.size),
            ("spec", "spec", &[""], &self.spec),
            ("push", "push", &[""], &self.push),
            ("uniform", "uniform", &[""], &self.uniform),
            ("buffer", "buffer", &["", ".type", ".shape", ".fill", ".scratch"], &self.buffer),
            ("check", "buffer", &[".check"], &self.check),
            ("bind", "kernel.bind", &[""], &self.bind),
            ("define", "kernel.define", &[""], &self.define),
            ("role", "reference.roles", &[""], &self.role),
        ];
        let of_tables = tables.into_iter().flat_map(|(option, table, fields, given)| {
            given.iter().flat_map(move |text| {
                let name = text.split('=').next().unwrap_or_default().trim();
                fields.iter().map(move |field| (format!("{table}.{name}{field}"), format!("--{option} {text}")))
            })
        });
        let single: [(&str, &[&str], &Option<String>); 9] = [
            ("entry", &["kernel.entry"], &self.entry),
            ("vulkan", &["kernel.vulkan"], &self.vulkan),
            ("subgroup", &["kernel.subgroup"], &self.subgroup),
            ("groups", &["dispatch.groups"], &self.groups),
            (
                "right",
                &["reference", "reference.file", "reference.kernel", "reference.builtin", "reference.size"],
                &self.right,
            ),
            ("right-by", &["reference", "reference.command"], &self.right_by),
            ("inputs-by", &["inputs.command"], &self.inputs_by),
            ("flops", &["work.flops"], &self.flops),
            ("bytes", &["work.bytes"], &self.bytes),
        ];
        let of_single = single.into_iter().flat_map(|(option, fields, text)| {
            let said = text.iter().map(move |text| format!("--{option} {text}"));
            said.flat_map(|said| fields.iter().map(move |field| (String::from(*field), said.clone())))
        });
        let conditions = self.conditions.iter().zip(1..);
        let conditions =
            conditions.map(|(text, number)| (format!("where.{}", condition(number)), format!("--where {text}")));
        let all = of_tables.chain(of_single).chain(conditions);
        all.map(|(field, option)| (field, brief(&option).into_owned())).collect()
    }

    /// Writes them into a description, whose paths are relative to the folder of this process or not.
    fn apply(&self, description: &mut Description, relative: bool) -> Result<(), String> {
        let known: Vec<String> = description.axes.names().into_iter().map(String::from).collect();
        let mut sized = vec![];
        for axis in &self.size {
            let example = known.first().map_or_else(|| "M=512..4096".into(), |axis| format!("{axis}=512..4096"));
            let (name, values) = assigned("--size", axis, &example)?;
            // Beside those of a description one more would change nothing, and be a slip of the keyboard.
            if !known.is_empty() && !known.iter().any(|known| known == name) {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(unknown("axis", name, " for --size", &known));
            }
            if sized.contains(&name) {
                return Err(format!("--size states {name} twice; write its values in one: -s {name}=64,128"));
            }
            sized.push(name);
            description.axes.set(name, Listed::One(text(values)));
        }
        for constant in &self.spec {
            let (name, values) = assigned("--spec", constant, "BM=64,128")?;
            description.spec.set(name, list(values));
        }
        for (number, stated) in (1..).zip(&self.conditions) {
            description.conditions.set(&condition(number), text(stated));
        }
        for member in &self.push {
            let (name, value) = assigned("--push", member, "stride=K")?;
            description.push.set(name, text(value));
        }
        for buffer in &self.buffer {
            set_buffer(description, buffer, relative)?;
        }
        for uniform in &self.uniform {
            let (name, value) = assigned("--uniform", uniform, "Params.width=W")?;
            let (block, member) = name.split_once('.').ok_or_else(|| {
                format!("--uniform '{}' names no member; write --uniform BLOCK.MEMBER={value}", brief(uniform))
            })?;
            let mut members = description.uniform.get(block).cloned().unwrap_or_default();
            members.set(member, text(value));
            description.uniform.set(block, members);
        }
        for check in &self.check {
            set_check(description, check)?;
        }
        if let Some(groups) = &self.groups {
            description.dispatch = Some(Dispatch { groups: Some(list(groups)), indirect: None });
        }
        let work = description.work.clone().unwrap_or_default();
        let flops = self.flops.as_deref().map(text).or(work.flops);
        let bytes = self.bytes.as_deref().map(text).or(work.bytes);
        description.work = Some(Work { flops, bytes }).filter(|work| *work != Work::default());
        if let Some(command) = &self.inputs_by {
            description.inputs = Some(Inputs { command: Some(command.clone()) });
        }
        self.apply_kernel(description, relative)?;
        self.apply_reference(description, relative)
    }

    /// How the kernel is compiled.
    fn apply_kernel(&self, description: &mut Description, relative: bool) -> Result<(), String> {
        let mut kernel = description.kernel.take().unwrap_or_default();
        for define in &self.define {
            let (name, value) = define.split_once('=').map_or((define.as_str(), "1"), |(name, value)| (name, value));
            kernel.define.set(name, text(value));
        }
        for folder in &self.include {
            kernel.include.push(here(folder, relative)?);
        }
        for bind in &self.bind {
            let (block, buffer) = assigned("--bind", bind, "A=weights")?;
            kernel.bind.set(block, Listed::One(Bound::Name(buffer.to_string())));
        }
        kernel.subgroup = self.subgroup.as_deref().map(list).or(kernel.subgroup);
        kernel.entry = self.entry.clone().or(kernel.entry);
        kernel.vulkan = self.vulkan.clone().or(kernel.vulkan);
        if description.pass.is_empty() {
            description.kernel = Some(kernel);
        } else if kernel != Kernel::default() {
            return Err(
                "--define, --include, --bind, --entry, --vulkan and --subgroup are for one kernel; write them in [[pass]]".into()
            );
        }
        Ok(())
    }

    /// Where the right answer comes from.
    fn apply_reference(&self, description: &mut Description, relative: bool) -> Result<(), String> {
        if let Some(command) = &self.right_by {
            description.reference =
                Some(ReferenceTable { command: Some(command.clone()), ..ReferenceTable::default() });
        }
        if let Some(right) = &self.right {
            let ending = Path::new(right).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            let mut reference = ReferenceTable::default();
            match (ending, right.split_once('[')) {
                ("npy" | "bin", _) => {
                    reference.file = Some(OutputFiles::One(here(right, relative)?));
                }
                (ending, _) if ENDINGS.contains(&ending) => {
                    reference.kernel = Listed::One(here(right, relative)?);
                }
                (_, Some((name, extents))) => {
                    let extents = extents.strip_suffix(']').ok_or_else(|| format!("--right '{right}' lacks a ']'"))?;
                    reference.builtin = Some(name.trim().to_string());
                    reference.size = Some(list(extents));
                }
                _ => {
                    return Err(format!(
                        "--right '{}' is not a .npy, a .bin, a kernel or an algorithm with its extents, such as matmul[M,N,K]",
                        brief(right)
                    ));
                }
            }
            description.reference = Some(reference);
        }
        for role in &self.role {
            let (part, buffer) = assigned("--role", role, "C=D")?;
            description.reference.get_or_insert_default().roles.set(part, buffer.to_string());
        }
        Ok(())
    }
}

/// Sets the buffer of `--buffer`.
fn set_buffer(description: &mut Description, option: &str, relative: bool) -> Result<(), String> {
    const EXAMPLE: &str = "'A=f32[M,K]:uniform(-1,1)'";
    let (name, value) = assigned("--buffer", option, EXAMPLE)?;
    let malformed = || {
        let known = DType::OF_BUFFERS.map(DType::name).join(", ");
        format!("--buffer '{}' is not NAME=TYPE[SHAPE]:FILL; write {EXAMPLE}; types: {known}", brief(option))
    };
    let (element, rest) = value.split_once('[').ok_or_else(malformed)?;
    let (shape, rest) = rest.split_once(']').ok_or_else(malformed)?;
    let mut buffer = description.buffer.get(name).cloned().unwrap_or_default();
    buffer.element = Some(element.trim().to_string());
    buffer.shape = Some(list(shape));
    match rest.trim() {
        "" => {}
        rest => match rest.strip_prefix(':').ok_or_else(malformed)?.trim() {
            "scratch" => buffer.scratch = true,
            fill => {
                let file = fill.strip_prefix('@').map(|file| here(file, relative)).transpose()?;
                buffer.fill = Some(file.map_or_else(|| fill.to_string(), |file| format!("@{file}")));
            }
        },
    }
    description.buffer.set(name, buffer);
    Ok(())
}

/// Sets the tolerance of `--check`.
fn set_check(description: &mut Description, option: &str) -> Result<(), String> {
    const EXAMPLE: &str = "D=rtol:1e-4,atol:1e-5";
    let (name, value) = assigned("--check", option, EXAMPLE)?;
    let malformed = || {
        format!(
            "--check '{}' is not a tolerance; write {EXAMPLE}, D=nmse:1e-6, D=ulp:4, D=exact or D=set",
            brief(option)
        )
    };
    let mut buffer = description.buffer.get(name).cloned().unwrap_or_default();
    if value == "set" {
        buffer.check = Some(Check::Name(value.into()));
        description.buffer.set(name, buffer);
        return Ok(());
    }
    let mut figures = CheckFigures::default();
    for part in value.split(',') {
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| malformed());
        match part.split_once(':').map_or((part.trim(), ""), |(kind, figure)| (kind.trim(), figure)) {
            ("exact", "") => figures.exact = Some(true),
            ("picks", keys) if !keys.trim().is_empty() => figures.picks = Some(keys.trim().to_string()),
            ("mean", figure) => figures.mean = Some(number(figure)?),
            ("deviation", figure) => figures.deviation = Some(number(figure)?),
            ("rtol", figure) => figures.rtol = Some(number(figure)?),
            ("atol", figure) => figures.atol = Some(Listed::One(number(figure)?)),
            ("nmse", figure) => figures.nmse = Some(number(figure)?),
            ("ulp", figure) => figures.ulp = Some(figure.trim().parse().map_err(|_| malformed())?),
            _ => return Err(malformed()),
        }
    }
    buffer.check = Some(Check::Figures(figures));
    description.buffer.set(name, buffer);
    Ok(())
}
