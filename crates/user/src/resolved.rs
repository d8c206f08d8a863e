//! Resolved problems: numbers and bytes, without expressions or names to look up. Workers receive them as JSON.

use super::command_files;
use super::description::Captured;
use super::loops::{has_growing_loop, has_long_loop};
use super::member_map::MemberMap;
use super::structure::Places;
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::basis::units::Work;
use crate::kernel::buffer::{Address, Role};
use crate::kernel::image::Image;
use crate::kernel::program::Dispatch;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// Everything that one `run` can measure: kernels with their specialization constants, at the points that the axes span.
/// The hash of a plan includes its JSON, so the names of the first version stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResolvedProblem {
    /// Name of the problem in tables: the description's, or else the first source's without extension.
    pub name: String,
    /// Names of the axes, in the order of the description.
    pub axes: Vec<String>,
    /// Indices of the independent axes, which determine the others; empty if all are independent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free: Vec<usize>,
    /// Modules of all passes, each compiled once.
    pub modules: Vec<Module>,
    /// Kernels with their choices of specialization constants, the first choice of a kernel first.
    #[serde(rename = "contenders")]
    pub configurations: Vec<KernelConfiguration>,
    /// Problems, in the order of the sweep.
    pub points: Vec<ResolvedPoint>,
    /// Descriptions, and all sources with their includes, even those of kernels that a condition excludes. Not sent to
    /// workers.
    #[serde(skip)]
    pub sources: Vec<PathBuf>,
    /// Shell commands of the description, each with its field, to be shown before they run. Not sent to workers.
    #[serde(skip)]
    pub commands: Vec<(&'static str, String)>,
    /// Origin of the first kernel, if it was captured. Not sent to workers.
    #[serde(skip)]
    pub captured: Option<Captured>,
    /// Names that kernels run without. Not sent to workers.
    #[serde(skip)]
    pub left_out: Vec<LeftOut>,
    /// Whether a size leaves a work-group or tile of every kernel partly idle, as far as the grids tell by `cdiv`. Not sent to
    /// workers.
    #[serde(skip)]
    pub partial_groups: Option<bool>,
    /// Why its kernels cannot run, such as the compiler's messages: its cases fail with this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
}

/// Differences of a kernel from others of its description.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    pub kernel: String,
    /// Names that the description sets for others, and that it does not declare.
    pub names: Vec<String>,
    /// Grids that `--init` drafts for it and for the first kernel, if they differ: both run on the description's.
    pub grids: Option<[String; 2]>,
}

/// Role of a description, or of a file of code, among the [files](ResolvedProblem::files) of a problem.
const SOURCE: &str = "a source";

impl ResolvedProblem {
    /// Whether a kernel has a loop that is not plainly short: see [`has_growing_loop`].
    pub fn has_growing_loops(&self) -> bool {
        self.modules.iter().any(|module| has_growing_loop(&module.spirv))
    }

    /// Whether a kernel has a loop that may take more than `most` rounds, whatever the axes are: see [`has_long_loop`].
    pub fn has_long_loops(&self, most: u64) -> bool {
        self.modules.iter().any(|module| has_long_loop(&module.spirv, most))
    }

    /// Lists every file that the run reads, with its use: outputs must not overwrite one. The patterns name all fields,
    /// so that a new field does not compile until it is considered here.
    pub fn files(&self) -> BTreeSet<(&'static str, PathBuf)> {
        let Self {
            name: _,
            axes: _,
            free: _,
            modules,
            configurations: _,
            points,
            sources,
            commands: _,
            captured: _,
            left_out: _,
            partial_groups: _,
            unusable: _,
        } = self;
        let mut files: BTreeSet<_> = sources.iter().map(|path| (SOURCE, path.clone())).collect();
        for Module { name: _, spirv: _, files: compiled } in modules {
            files.extend(compiled.iter().map(|path| (SOURCE, path.clone())));
        }
        let mut commands = BTreeSet::new();
        for ResolvedPoint { values: _, buffers, reference, unverified: _, inputs, work: _, pass_lists } in points {
            let scratch = pass_lists.iter().flatten().flat_map(|PassList { dispatches: _, scratch }| scratch);
            let views = buffers.iter().chain(scratch).flat_map(ResolvedBuffer::with_members);
            let fills = views.filter_map(|buffer| buffer.fill.as_ref()?.path());
            files.extend(fills.map(|path| ("a fill", path.to_path_buf())));
            commands.extend(inputs);
            match reference {
                Reference::Files(answers) => {
                    let paths = answers.iter().filter_map(|(_, answer)| answer.path());
                    files.extend(paths.map(|path| ("the reference", path.to_path_buf())));
                }
                Reference::Command(command) => commands.extend([command]),
                // A kernel is one of the modules.
                Reference::None | Reference::Kernel(_) | Reference::Builtin(_) => {}
            }
        }
        for ShellCommand { line, folder } in commands {
            let paths = files_of_command(line, folder);
            files.extend(paths.into_iter().map(|path| ("a file of a command", path)));
        }
        files
    }

    /// Returns the files that fill the buffers or judge the answers: all but the sources.
    pub fn data_files(&self) -> BTreeSet<PathBuf> {
        self.files().into_iter().filter_map(|(role, path)| (role != SOURCE).then_some(path)).collect()
    }

    /// Returns the files that are the problem's own text: descriptions, sources, and what its commands name below their
    /// folders, with what that imports. Other readings of a command's words, such as the user's keys or what `PATH` finds, are not its own.
    pub fn own_texts(&self) -> BTreeSet<PathBuf> {
        let sources = self.sources.iter().chain(self.modules.iter().flat_map(|module| &module.files));
        let mut texts: BTreeSet<_> = sources.cloned().collect();
        let mut commands = BTreeSet::new();
        for ResolvedPoint { reference, inputs, .. } in &self.points {
            commands.extend(inputs);
            commands.extend(if let Reference::Command(command) = reference { Some(command) } else { None });
        }
        for ShellCommand { line, folder } in commands {
            let is_visible = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.to_string_lossy().starts_with('.'));
            let is_below =
                |path: &PathBuf| path.strip_prefix(folder).is_ok_and(|path| path.components().all(is_visible));
            texts.extend(files_of_command(line, folder).into_iter().filter(is_below));
        }
        texts
    }

    /// Returns a unique size for each point: the values of up to three axes, or else the point's number.
    pub fn sizes(&self) -> Vec<Size> {
        let column = |axis: usize| self.points.iter().map(|point| point.values[axis]).collect();
        let mut columns: Vec<Vec<i64>> = self.free_axes().map(column).collect();
        if columns.len() > 3 {
            // Axes that are constant, or equal to another axis, do not distinguish points.
            let mut known = BTreeSet::new();
            columns.retain(|values| values.iter().any(|value| *value != values[0]) && known.insert(values.clone()));
        }
        let count = self.points.len();
        let sizes: Option<Vec<Size>> = (0..count).map(|point| size_at(&columns, point)).collect();
        match sizes {
            Some(sizes) if sizes.iter().collect::<BTreeSet<_>>().len() == count => sizes,
            _ => (1..=count as u64).map(Size::Uniform).collect(),
        }
    }

    /// Returns the indices of the independent axes.
    pub fn free_axes(&self) -> impl Iterator<Item = usize> {
        (0..self.axes.len()).filter(|axis| self.free.is_empty() || self.free.contains(axis))
    }

    /// Returns the axes of a point with their values, for ids: `M=512,K=64`.
    pub fn extents(&self, point: usize) -> String {
        let values = &self.points[point].values;
        let extents: Vec<_> = self.axes.iter().zip(values).map(|(axis, value)| format!("{axis}={value}")).collect();
        if extents.is_empty() { "1".into() } else { extents.join(",") }
    }
}

/// Returns the files that a command names, and those that its scripts import from beside them.
fn files_of_command(line: &str, folder: &Path) -> BTreeSet<PathBuf> {
    let mut files = command_files::files_of_line(line, folder);
    let imported: Vec<_> = files.iter().map(|path| command_files::imported(path)).collect();
    files.extend(imported.into_iter().flatten());
    files
}

/// Returns the size of a point from the columns of axis values; `None` if they are too many, or one is not positive.
fn size_at(columns: &[Vec<i64>], point: usize) -> Option<Size> {
    let mut extents = vec![];
    for values in columns {
        extents.push(u64::try_from(values[point]).ok().filter(|extent| *extent > 0)?);
    }
    let size = size_of(&extents)?;
    // Workers receive the size as text, which must mean the same.
    (size.to_string().parse() == Ok(size)).then_some(size)
}

/// Converts one to three extents to a size.
pub fn size_of(extents: &[u64]) -> Option<Size> {
    match *extents {
        [n] => Some(Size::Uniform(n)),
        [a, b] => Some(Size::Two(a, b)),
        [m, n, k] => Some(Size::Three(m, n, k)),
        _ => None,
    }
}

/// Compiled source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// Name of the source in reports: `mul_mm.comp`.
    pub name: String,
    /// SPIR-V words in host byte order.
    pub spirv: Vec<u32>,
    /// Source file and its includes, which `--watch` watches.
    pub files: Vec<PathBuf>,
}

/// Names of a kernel and of one choice of its specialization constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelConfiguration {
    /// Stem of the kernel's source, or the description's name if there are several passes.
    pub kernel: String,
    /// Chosen values of the specialization constants that have several: `BM`, `64`.
    pub choice: Vec<(String, String)>,
}

/// Problem at one point of the axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResolvedPoint {
    /// Values of the axes, in order.
    pub values: Vec<i64>,
    /// Buffers that all configurations share, without scratch.
    pub buffers: Vec<ResolvedBuffer>,
    /// Source of the correct answer.
    pub reference: Reference,
    /// Whether nothing verified the reference.
    pub unverified: bool,
    /// Command that makes the inputs, if there is one.
    pub inputs: Option<ShellCommand>,
    /// Nominal work: as stated, or else the bytes of each input and output once.
    pub work: Work,
    /// Passes of each configuration, or the reason why it does not run: `where.legal does not hold: …`.
    #[serde(rename = "jobs")]
    pub pass_lists: Vec<Result<PassList, String>>,
}

/// Passes of one configuration at a point, with their loops unrolled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassList {
    /// Dispatches, each of which waits for the previous one. Shaders are indices into [`ResolvedProblem::modules`]; buffers
    /// are numbered like the point's, followed by the scratch buffers.
    #[serde(rename = "passes")]
    pub dispatches: Vec<Dispatch<usize>>,
    /// Scratch buffers, and blocks that are given by member.
    pub scratch: Vec<ResolvedBuffer>,
}

/// Buffer with its extents at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResolvedBuffer {
    /// Name in the description.
    pub name: String,
    #[serde(deserialize_with = "deserialize_element")]
    pub element: DType,
    /// Extents, the slowest first.
    pub shape: Vec<u64>,
    pub role: Role,
    /// Contents before a run; `None` for an output or scratch that starts with any contents.
    pub fill: Option<Fill>,
    /// Tolerance of the elements.
    pub tolerance: Tolerance,
    /// Whether the description states the tolerance, rather than the element type's default.
    pub checked: bool,
    /// Image that kernels see, if they bind it as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Layout of the blocks that bind the buffer. Each process reads it from the modules.
    #[serde(skip)]
    pub members: MemberMap,
    /// Members of its structures, if it is described by these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ResolvedBuffer>,
    /// Places of the numbers, if it is a member itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Places>,
}

/// Reads the element type of a buffer, which may be one that built-in kernels lack.
fn deserialize_element<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
    DType::of_buffer(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

impl ResolvedBuffer {
    /// Returns a buffer without a fill whose elements have to be exact.
    pub fn new(name: &str, element: DType, shape: Vec<u64>, role: Role) -> Self {
        let name = name.to_string();
        let members = MemberMap::default();
        let (tolerance, parts, places) = (Tolerance::Exact, vec![], None);
        Self { name, element, shape, role, fill: None, tolerance, checked: false, image: None, members, parts, places }
    }

    /// Returns the number of elements. The resolver has checked that it and the number of bytes fit 64 bits.
    pub fn len(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Returns the addresses of other buffers in its initial contents.
    pub(crate) fn addresses(&self) -> &[Address] {
        if let Some(Fill::Block(block)) = &self.fill { &block.addresses } else { &[] }
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.len() * self.element.bytes()
    }

    /// Whether it has only floats, with a fill of as many negative as positive ones, of equal magnitudes.
    pub(crate) fn has_both_signs(&self) -> bool {
        let is_symmetric = match self.fill {
            Some(Fill::Varied) => true,
            Some(Fill::Normal { mean, .. }) => mean == 0.0,
            Some(Fill::Uniform { low, high }) => low < 0.0 && low == -high,
            _ => false,
        };
        let is_plain = self.parts.is_empty() && self.image.is_none() && self.members.is_plain();
        is_symmetric && is_plain && self.element.is_float()
    }
}

impl fmt::Display for ResolvedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<_> = self.shape.iter().map(ToString::to_string).collect();
        write!(f, "{} {}[{}]", self.name, self.element.name(), shape.join(","))?;
        if let Some(image) = &self.image {
            write!(f, " {}", image.format.name())?;
        }
        if let Some(fill) = &self.fill {
            write!(f, " {fill}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Fill {
    /// Writes a fill as descriptions do, with files stripped of their folders.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("zero"),
            Self::Iota => f.write_str("iota"),
            Self::Normal { mean, deviation } => write!(f, "normal({mean},{deviation})"),
            Self::Uniform { low, high } => write!(f, "uniform({low},{high})"),
            Self::Whole { bits, negative: true } => write!(f, "{}", bits.cast_signed()),
            Self::Whole { bits, negative: false } => write!(f, "{bits}"),
            Self::Varied => f.write_str("varied"),
            Self::Mask => f.write_str("mask"),
            Self::Npy(path) | Self::Raw(path) => {
                write!(f, "@{}", path.file_name().unwrap_or_default().to_string_lossy())
            }
            Self::Made => f.write_str("inputs.command"),
            Self::Block(block) => write!(f, "block({} bytes)", block.bytes.len()),
        }
    }
}

/// Contents of a buffer before a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Zeros.
    Zero,
    /// 0, 1, 2, …, wrapping in integers of up to 32 bits.
    Iota,
    /// Normally distributed.
    Normal { mean: f64, deviation: f64 },
    /// Uniformly distributed from `low` to `high`, both included for integers.
    Uniform { low: f64, high: f64 },
    /// Integer that f64 cannot represent, as the bits of an `i64` or a `u64`.
    Whole { bits: u64, negative: bool },
    /// Values that cover their type: floats of both signs and several magnitudes, neighbors always different; integers
    /// in which every bit varies, with zeros among them.
    Varied,
    /// Random 0 or 1.
    Mask,
    /// Elements of a `NumPy` array with the shape of the buffer.
    Npy(PathBuf),
    /// Raw bytes of a file, exactly as long as the buffer.
    Raw(PathBuf),
    /// Output of [`ResolvedPoint::inputs`]: `<name>.npy` or `<name>.bin` in its folder.
    Made,
    /// Literal bytes with addresses of buffers in them.
    Block(PackedBlock),
}

/// Bytes of a block that a description gives by member, with places for the addresses of buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackedBlock {
    pub bytes: Vec<u8>,
    pub addresses: Vec<Address>,
}

/// Tolerance of elements x against the reference r.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tolerance {
    /// |x − r| ≤ atol + rtol·|r| for every element, as in `NumPy`'s `isclose`.
    Close { rtol: f64, atol: f64 },
    /// Upper limit of Σ(x − r)² / Σr².
    Nmse(f64),
    /// Upper limit of the distance in representable values.
    Ulp(u64),
    /// Same bits, except that zeros of both signs are equal.
    Exact,
    /// As [`Self::Close`], with an absolute part for each index of the last extent.
    Columns { rtol: f64, atol: Vec<f64> },
    /// Same rows along the first extent in any order, as after compaction or sorting with ties.
    Set,
    /// Indices into the last extent of the input at this index among the buffers: indices of equal elements are equally
    /// correct.
    Picks(usize),
    /// Random numbers whose mean and standard deviation lie within five standard errors of these.
    Moments { mean: f64, deviation: f64 },
}

impl fmt::Display for Tolerance {
    /// Writes a tolerance as descriptions do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close { rtol, atol } => write!(f, "{{ rtol = {rtol:e}, atol = {atol:e} }}"),
            Self::Nmse(limit) => write!(f, "{{ nmse = {limit:e} }}"),
            Self::Ulp(limit) => write!(f, "{{ ulp = {limit} }}"),
            Self::Exact => f.write_str("\"exact\""),
            Self::Columns { rtol, atol } => write!(f, "{{ rtol = {rtol:e}, atol = {atol:?} }}"),
            Self::Set => f.write_str("\"set\""),
            Self::Picks(index) => write!(f, "{{ picks = {index} }}"),
            Self::Moments { mean, deviation } => write!(f, "{{ mean = {mean}, deviation = {deviation} }}"),
        }
    }
}

/// Source of the correct answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// No reference: the result is unverified.
    #[default]
    None,
    /// Files for the outputs, each with the index of its buffer.
    Files(Vec<(usize, Fill)>),
    /// Program that reads the inputs from the folder `{in}`, and writes the outputs to `{out}`, as `.npy`.
    Command(ShellCommand),
    /// Passes of another kernel, which run on the same device.
    Kernel(PassList),
    /// Built-in algorithm, whose oracle runs on the host.
    Builtin(Builtin),
}

/// Built-in algorithm and the buffers that play its roles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Builtin {
    /// Name, such as `matmul`.
    pub algorithm: String,
    /// Extents, in the algorithm's order: for a product M, N, K.
    pub size: Vec<u64>,
    /// Operand layout, if it is not the default: `nt`.
    pub layout: Option<String>,
    /// Names of the algorithm's buffers, each with the index of the buffer that plays the role.
    pub roles: Vec<(String, usize)>,
}

/// Command for the shell, with all placeholders but the folders `{in}` and `{out}` replaced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ShellCommand {
    pub line: String,
    /// Working folder: the description's.
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(axes: &str, points: &[&[i64]]) -> ResolvedProblem {
        let point = |values: &&[i64]| ResolvedPoint { values: values.to_vec(), ..ResolvedPoint::default() };
        let axes = axes.split_whitespace().map(String::from).collect();
        ResolvedProblem { axes, points: points.iter().map(point).collect(), ..ResolvedProblem::default() }
    }

    #[test]
    fn every_file_that_a_run_reads_is_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ref.py"), "").expect("written");
        let command = |line: &str| ShellCommand { line: line.into(), folder: folder.path().to_path_buf() };
        let buffer =
            |fill| ResolvedBuffer { fill: Some(fill), ..ResolvedBuffer::new("A", DType::F32, vec![1], Role::Input) };
        let references = [
            Reference::Files(vec![(0, Fill::Raw("right.bin".into()))]),
            Reference::Command(command("python3 'ref.py' {in} {out}; cat absent")),
            Reference::None,
        ];
        let mut problem = problem("N", &[&[1], &[2], &[3]]);
        for (point, reference) in problem.points.iter_mut().zip(references) {
            point.reference = reference;
            point.buffers = vec![buffer(Fill::Npy("a.npy".into())), buffer(Fill::Iota), buffer(Fill::Made)];
        }
        problem.points[0].inputs = Some(command("./make<seed.txt"));
        std::fs::write(folder.path().join("seed.txt"), "").expect("written");
        let files = vec!["k.comp".into(), "k.glsl".into()];
        problem.modules = vec![Module { name: "k".into(), spirv: vec![], files }];
        problem.sources = vec!["k.toml".into(), "k.comp".into()];
        let of_command = |name: &str| ("a file of a command", folder.path().join(name));
        let expected = BTreeSet::from([
            ("a source", "k.toml".into()),
            ("a source", "k.comp".into()),
            ("a source", "k.glsl".into()),
            ("a fill", "a.npy".into()),
            ("the reference", "right.bin".into()),
            of_command("ref.py"),
            of_command("seed.txt"),
        ]);
        // Programs in PATH are files of a command, too.
        let mut files = problem.files();
        files.retain(|(what, path)| *what != "a file of a command" || path.starts_with(folder.path()));
        assert_eq!(files, expected);
    }

    #[test]
    fn points_have_unique_sizes() {
        let cases: [(&str, &[&[i64]], &str); 7] = [
            ("", &[&[]], "1"),
            ("N", &[&[7], &[9]], "7 9"),
            ("M N", &[&[7, 8], &[7, 9]], "7x8 7x9"),
            ("M N K R", &[&[1, 1, 2, 5], &[3, 3, 2, 5]], "1 3"),
            ("A B C D", &[&[1, 2, 3, 4], &[2, 3, 4, 5], &[3, 5, 7, 1]], "1 2 3"),
            ("N", &[&[0], &[5]], "1 2"),
            ("N", &[&[1 << 40], &[5]], "1 2"),
        ];
        for (axes, points, expected) in cases {
            let sizes: Vec<String> = problem(axes, points).sizes().iter().map(Size::to_string).collect();
            assert_eq!(sizes.join(" "), expected);
        }
        let reduction = ResolvedProblem { free: vec![0], ..problem("N GROUPS", &[&[1000, 4], &[65536, 64]]) };
        assert_eq!(reduction.sizes(), [1000, 65536].map(Size::Uniform));
        assert_eq!(reduction.extents(1), "N=65536,GROUPS=64", "ids stay what they were");
        assert_eq!(problem("M K", &[&[3, 4]]).extents(0), "M=3,K=4");
    }
}
