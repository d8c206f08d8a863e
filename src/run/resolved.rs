//! What is to be run, once everything that a person wrote has been found to make sense: numbers and bytes, no expressions
//! and no names that are still to be looked up. It is what a worker is sent.

use super::command_files;
use super::description::Captured;
use super::member_map::MemberMap;
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::basis::units::Work;
use crate::kernel::buffer::{Address, Role};
use crate::kernel::program::Dispatch;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

/// Everything one `run` can measure: kernels with their specialization constants, at the points that axes span. The hash
/// of a plan includes the text that it is sent as, which keeps the names of its first version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResolvedRun {
    /// What tables call the problem: the name that the description gives it, or that of the first source without its
    /// extension.
    pub name: String,
    /// The names of the axes, in the order of the description.
    pub axes: Vec<String>,
    /// The axes that have values of their own, by their places; none where all do. Of the others these say all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free: Vec<usize>,
    /// Every module that a pass runs, each compiled once.
    pub modules: Vec<Module>,
    /// Each kernel with each choice of its specialization constants, the first choice of a kernel first.
    #[serde(rename = "contenders")]
    pub configurations: Vec<KernelConfiguration>,
    /// The problems, in the order of the sweep.
    pub points: Vec<Point>,
    /// The descriptions, and every source with what it includes, also where nothing of it runs. They have been read: a
    /// worker has no use for them.
    #[serde(skip)]
    pub sources: Vec<PathBuf>,
    /// The commands that it runs, as the description has them, each with its field: for whoever starts it to see. No part of
    /// what is to be run.
    #[serde(skip)]
    pub commands: Vec<(&'static str, String)>,
    /// Where a program ran the first kernel. No part of what is to be run either.
    #[serde(skip)]
    pub captured: Option<Captured>,
}

impl ResolvedRun {
    /// Every file that is read for it, and what it is: nothing may be written there. Fields are named one by one, so that
    /// whoever adds one decides whether it names a file.
    pub(crate) fn files(&self) -> BTreeSet<(&'static str, PathBuf)> {
        let Self { name: _, axes: _, free: _, modules, configurations: _, points, sources, commands: _, captured: _ } =
            self;
        let compiled = modules.iter().flat_map(|Module { name: _, spirv: _, files }| files);
        let mut files: BTreeSet<_> = sources.iter().chain(compiled).map(|path| ("a source", path.clone())).collect();
        let mut commands = BTreeSet::new();
        for Point { values: _, buffers, reference, inputs, work: _, pass_lists } in points {
            let scratch = pass_lists.iter().flatten().flat_map(|PassList { passes: _, scratch }| scratch);
            let fills = buffers.iter().chain(scratch).filter_map(|buffer| buffer.fill.as_ref()?.path());
            files.extend(fills.map(|path| ("a fill", path.to_path_buf())));
            commands.extend(inputs);
            match reference {
                Reference::Files(answers) => {
                    let answers = answers.iter().filter_map(|(_, answer)| answer.path());
                    files.extend(answers.map(|path| ("the reference", path.to_path_buf())));
                }
                Reference::Command(command) => commands.extend([command]),
                // A kernel is one of the modules.
                Reference::None | Reference::Kernel(_) | Reference::Builtin(_) => {}
            }
        }
        let named = commands.into_iter().flat_map(|ShellCommand { line, folder }| command_files::of_line(line, folder));
        files.extend(named.map(|path| ("a file of a command", path)));
        files
    }

    /// The size by which each point is known, unlike that of all others: of up to three axes their values, else the
    /// number of the point.
    pub(crate) fn sizes(&self) -> Vec<Size> {
        let points = &self.points;
        let column = |axis: usize| points.iter().map(|point| point.values[axis]).collect::<Vec<_>>();
        let shown = |axis: &usize| self.free.is_empty() || self.free.contains(axis);
        let mut columns: Vec<Vec<i64>> = (0..self.axes.len()).filter(shown).map(column).collect();
        if columns.len() > 3 {
            // Axes that do not vary, or vary as another does, tell no points apart.
            let mut known = BTreeSet::new();
            columns.retain(|values| values.iter().any(|value| *value != values[0]) && known.insert(values.clone()));
        }
        let size = |point: usize| {
            let values: Option<Vec<u64>> =
                columns.iter().map(|values| u64::try_from(values[point]).ok().filter(|value| *value > 0)).collect();
            let size = size_of(&values?)?;
            // It is sent as text.
            (size.to_string().parse() == Ok(size)).then_some(size)
        };
        let sizes: Option<Vec<Size>> = (0..points.len()).map(size).collect();
        let unlike = |sizes: &Vec<Size>| sizes.iter().collect::<BTreeSet<_>>().len() == sizes.len();
        sizes.filter(unlike).unwrap_or_else(|| (1..=points.len() as u64).map(Size::Uniform).collect())
    }

    /// The axes of a point with their values, for ids: `M=512,K=64`.
    pub(crate) fn extents(&self, point: usize) -> String {
        let values = &self.points[point].values;
        let named: Vec<_> = self.axes.iter().zip(values).map(|(axis, value)| format!("{axis}={value}")).collect();
        if named.is_empty() { "1".into() } else { named.join(",") }
    }
}

/// The size of one to three extents.
pub(crate) fn size_of(extents: &[u64]) -> Option<Size> {
    match *extents {
        [n] => Some(Size::Uniform(n)),
        [a, b] => Some(Size::Two(a, b)),
        [m, n, k] => Some(Size::Three(m, n, k)),
        _ => None,
    }
}

/// A compiled source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Module {
    /// The source as it was named, for reports: `mul_mm.comp`.
    pub name: String,
    /// SPIR-V in the order of this machine.
    pub spirv: Vec<u32>,
    /// The file and all that it includes, to be watched for changes.
    pub files: Vec<PathBuf>,
}

/// A kernel, or a sequence of them, with one choice of its specialization constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KernelConfiguration {
    /// The kernel: its source without folder and extension, or the name of the description where that has several passes.
    pub kernel: String,
    /// The specialization constants of which the description lists several values, with the chosen ones: `BM`, `64`.
    pub choice: Vec<(String, String)>,
}

/// A problem: what the axes' values make of the description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The value of each axis, in their order.
    pub values: Vec<i64>,
    /// What the buffers are called, and hold, for every configuration. None of them is scratch.
    pub buffers: Vec<ResolvedBuffer>,
    /// Where the right answer comes from.
    pub reference: Reference,
    /// How the inputs that a file or a program supplies are made, where one does.
    pub inputs: Option<ShellCommand>,
    /// Nominal work: what the description states, else each input and each output crossing the memory interface once.
    pub work: Work,
    /// What each configuration does, or why it does not run: `where.legal is false: …`.
    #[serde(rename = "jobs")]
    pub pass_lists: Vec<Result<PassList, String>>,
}

/// What one configuration does at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PassList {
    /// The dispatches, in order: each waits for the one before. Their kernels are modules, by their places in
    /// [`ResolvedRun::modules`], and their buffers are those of the point, with the scratch behind them.
    pub passes: Vec<Dispatch<usize>>,
    /// Buffers of its own, numbered behind those of the point.
    pub scratch: Vec<ResolvedBuffer>,
}

/// A buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResolvedBuffer {
    /// The name in the description.
    pub name: String,
    #[serde(deserialize_with = "any_type")]
    pub element: DType,
    /// Extents, the slowest first.
    pub shape: Vec<u64>,
    pub role: Role,
    /// What it holds before a run, where somebody fills it.
    pub fill: Option<Fill>,
    /// How far its elements may be from the right ones.
    pub tolerance: Tolerance,
    /// Whether that is what the description states, not what is usual.
    pub checked: bool,
    /// How the kernels' blocks see it, which a worker reads from their modules.
    #[serde(skip)]
    pub members: MemberMap,
}

/// Reads the type of a buffer, which need not be one of built-in kernels.
fn any_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
    DType::of_buffer(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

impl ResolvedBuffer {
    /// Number of elements; the resolver has seen that it and the bytes fit 64 bits.
    #[must_use]
    pub(crate) fn len(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Bytes of its data.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.len() * self.element.bytes()
    }
}

impl fmt::Display for ResolvedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<_> = self.shape.iter().map(ToString::to_string).collect();
        write!(f, "{} {}[{}]", self.name, self.element.name(), shape.join(","))?;
        self.fill.iter().try_for_each(|fill| write!(f, " {fill}"))
    }
}

impl fmt::Display for Fill {
    /// As descriptions have it, files without their folders.
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
            Self::Block { bytes, .. } => write!(f, "block({} bytes)", bytes.len()),
        }
    }
}

/// What a buffer holds before a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fill {
    /// Zeros.
    Zero,
    /// 0, 1, 2, …, which wraps in the integers that end.
    Iota,
    /// Normally distributed.
    Normal { mean: f64, deviation: f64 },
    /// Evenly distributed from `low` to `high`, both included for integers.
    Uniform { low: f64, high: f64 },
    /// A whole number that f64 does not have, by the bits of an `i64` or a `u64`.
    Whole { bits: u64, negative: bool },
    /// Values that cover their type: floats of both signs and several magnitudes, no two neighbours alike; integers of which
    /// every bit varies, with zeros among them.
    Varied,
    /// 0 or 1.
    Mask,
    /// The elements of an array in `NumPy`'s format, which has the type and the shape of the buffer.
    Npy(PathBuf),
    /// The bytes of a file, as many as the buffer has.
    Raw(PathBuf),
    /// What [`Point::inputs`] writes: `<name>.npy` or `<name>.bin` in its folder.
    Made,
    /// These bytes, with addresses of buffers in them.
    Block { bytes: Vec<u8>, addresses: Vec<Address> },
}

/// How far elements may be from the right ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tolerance {
    /// |x − r| ≤ atol + rtol·|r| for every element, as of `NumPy`'s `isclose`.
    Close { rtol: f64, atol: f64 },
    /// Σ(x − r)² / Σr² at most.
    Nmse(f64),
    /// Representable values between x and r at most.
    Ulp(u64),
    /// The same bits, but that zeros are equal.
    Exact,
    /// As [`Self::Close`], with an absolute part for each place along the last extent.
    Columns { rtol: f64, atol: Vec<f64> },
    /// The same rows along the first extent, in any order: what is compacted, or sorted with ties.
    Set,
    /// Indices along the last extent of this input, by its place: those of elements that are equal are as good.
    Picks(usize),
    /// Random numbers: their mean and standard deviation are within five standard errors of these.
    Moments { mean: f64, deviation: f64 },
}

impl fmt::Display for Tolerance {
    /// As descriptions have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close { rtol, atol } => write!(f, "{{ rtol = {rtol:e}, atol = {atol:e} }}"),
            Self::Nmse(most) => write!(f, "{{ nmse = {most:e} }}"),
            Self::Ulp(most) => write!(f, "{{ ulp = {most} }}"),
            Self::Exact => f.write_str("\"exact\""),
            Self::Columns { rtol, atol } => write!(f, "{{ rtol = {rtol:e}, atol = {atol:?} }}"),
            Self::Set => f.write_str("\"set\""),
            Self::Picks(place) => write!(f, "{{ picks = {place} }}"),
            Self::Moments { mean, deviation } => write!(f, "{{ mean = {mean}, deviation = {deviation} }}"),
        }
    }
}

/// Where the right answer comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reference {
    /// Nowhere: the result is unverified.
    None,
    /// Files, for each output by its place among the buffers.
    Files(Vec<(usize, Fill)>),
    /// A program that is given the inputs as `.npy` in one folder and writes the outputs as `.npy` in another.
    Command(ShellCommand),
    /// Another kernel, or a sequence of them.
    Kernel(PassList),
    /// An algorithm of this program's, by its oracle on the host.
    Builtin(Builtin),
}

/// An algorithm of this program's and how its buffers are called here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Builtin {
    /// `matmul`.
    pub algorithm: String,
    /// Its extents, in the order of its sizes: for a product M, N, K.
    pub size: Vec<u64>,
    /// The layout of its operands, where it is not the usual one: `nt`.
    pub layout: Option<String>,
    /// The name of each of its buffers, and the place of the buffer that takes this part.
    pub roles: Vec<(String, usize)>,
}

/// A program to be run by `sh -c`, with placeholders replaced already but for the folders `{in}` and `{out}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ShellCommand {
    /// The line.
    pub line: String,
    /// The folder that it is run in: that of the description.
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(axes: &[&str], points: &[&[i64]]) -> ResolvedRun {
        let point = |values: &&[i64]| Point {
            values: values.to_vec(),
            buffers: vec![],
            reference: Reference::None,
            inputs: None,
            work: Work::default(),
            pass_lists: vec![],
        };
        ResolvedRun {
            free: vec![],
            name: "test".into(),
            axes: axes.iter().map(ToString::to_string).collect(),
            modules: vec![],
            configurations: vec![],
            points: points.iter().map(point).collect(),
            sources: vec![],
            commands: vec![],
            captured: None,
        }
    }

    #[test]
    fn every_file_that_a_run_reads_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ref.py"), "").expect("written");
        let command = |line: &str| ShellCommand { line: line.into(), folder: folder.path().to_path_buf() };
        let buffer = |fill: Fill| ResolvedBuffer {
            name: "A".into(),
            element: DType::F32,
            shape: vec![1],
            role: Role::Input,
            fill: Some(fill),
            tolerance: Tolerance::Exact,
            checked: false,
            members: MemberMap::default(),
        };
        let references = [
            Reference::Files(vec![(0, Fill::Raw("right.bin".into()))]),
            Reference::Command(command("python3 'ref.py' {in} {out}; cat absent")),
            Reference::None,
        ];
        let mut run = run(&["N"], &[&[1], &[2], &[3]]);
        for (point, reference) in run.points.iter_mut().zip(references) {
            point.reference = reference;
            point.buffers = vec![buffer(Fill::Npy("a.npy".into())), buffer(Fill::Iota), buffer(Fill::Made)];
        }
        run.points[0].inputs = Some(command("./make<seed.txt"));
        std::fs::write(folder.path().join("seed.txt"), "").expect("written");
        run.modules = vec![Module { name: "k".into(), spirv: vec![], files: vec!["k.comp".into(), "k.glsl".into()] }];
        run.sources = vec!["k.toml".into(), "k.comp".into()];
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
        let mut files = run.files();
        files.retain(|(what, path)| *what != "a file of a command" || path.starts_with(folder.path()));
        assert_eq!(files, expected);
    }

    #[test]
    fn points_are_told_apart_by_up_to_three_axes_else_by_their_number() {
        let text = |axes: &[&str], points: &[&[i64]]| {
            run(axes, points).sizes().iter().map(Size::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text(&[], &[&[]]), "1");
        assert_eq!(text(&["N"], &[&[7], &[9]]), "7 9");
        assert_eq!(text(&["M", "N"], &[&[7, 8], &[7, 9]]), "7x8 7x9");
        assert_eq!(text(&["M", "N", "K", "R"], &[&[1, 1, 2, 5], &[3, 3, 2, 5]]), "1 3");
        assert_eq!(text(&["A", "B", "C", "D"], &[&[1, 2, 3, 4], &[2, 3, 4, 5], &[3, 5, 7, 1]]), "1 2 3");
        assert_eq!(text(&["N"], &[&[0], &[5]]), "1 2");
        assert_eq!(text(&["N"], &[&[1 << 40], &[5]]), "1 2");
        let reduction = ResolvedRun { free: vec![0], ..run(&["N", "GROUPS"], &[&[1000, 4], &[65536, 64]]) };
        assert_eq!(reduction.sizes(), [1000, 65536].map(Size::Uniform));
        assert_eq!(reduction.extents(1), "N=65536,GROUPS=64", "ids stay what they were");
        assert_eq!(run(&["M", "K"], &[&[3, 4]]).extents(0), "M=3,K=4");
    }
}
