//! The problem that a point of axes poses.

use super::algorithm::{Loaded, program, spec};
use super::array;
use super::builtin::Counterpart;
use super::oracle::{Expected, NoReference, Saving};
use super::resolved::{Buffer, Command, Fill, Point, Reference};
use crate::algorithms::{MakeOracle, Oracle, Problem};
use crate::basis::dtype::HostArray;
use crate::basis::units::Work;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::BufferSpec;
use crate::kernel::program::Program;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

/// The problem of one point.
#[derive(Clone)]
pub(super) struct PointProblem {
    pub(super) loaded: Arc<Loaded>,
    /// The point, by its place.
    pub(super) at: usize,
    pub(super) seed: u64,
}

impl PointProblem {
    fn point(&self) -> &Point {
        &self.loaded.own.run.points[self.at]
    }

    /// The buffers that the host fills, each with its place among all.
    fn filled(&self) -> impl Iterator<Item = (usize, &Buffer)> {
        self.point().buffers.iter().enumerate().filter(|(_, buffer)| buffer.role.is_input())
    }

    /// The buffers that the host looks at, each with its place among all.
    fn outputs(&self) -> impl Iterator<Item = (usize, &Buffer)> {
        self.point().buffers.iter().enumerate().filter(|(_, buffer)| buffer.role.is_output())
    }

    /// The answers of a command to `inputs`.
    fn asked(&self, command: &Command, inputs: &[HostArray]) -> Result<Expected, String> {
        let folder = |what: &str| tempfile::tempdir().map_err(|e| format!("cannot make a folder for {what}: {e}"));
        let (given, answered) = (folder("inputs")?, folder("answers")?);
        for ((_, buffer), input) in self.filled().zip(inputs) {
            let path = given.path().join(format!("{}.npy", buffer.name));
            let written = array::write(&path, buffer.element, &buffer.shape, input.as_bytes());
            written.map_err(|e| format!("cannot write '{}': {e}", path.display()))?;
        }
        shell(&command.line, &command.folder, &[("in", given.path()), ("out", answered.path())])?;
        let there = |buffer: &Buffer| {
            ["npy", "bin"].iter().any(|kind| answered.path().join(format!("{}.{kind}", buffer.name)).exists())
        };
        let without: Vec<&Buffer> = self.outputs().map(|(_, buffer)| buffer).filter(|buffer| !there(buffer)).collect();
        let answers = self.outputs().enumerate().filter(|(_, (_, buffer))| there(buffer));
        let answers = answers.map(|(index, (_, buffer))| {
            found(buffer, Fill::Made, answered.path()).map(|answer| (index, buffer.clone(), answer))
        });
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        if answers.is_empty() {
            let names: Vec<_> = self.outputs().map(|(_, buffer)| format!("{}.npy", buffer.name)).collect();
            return Err(format!(
                "the command `{}` wrote no answer; let it write {} to {{out}}",
                command.line,
                names.join(" or ")
            ));
        }
        if let Some(missing) = without.iter().find(|buffer| buffer.checked) {
            return Err(format!(
                "the command `{}` did not write {}.npy, which has a check; it wrote {}",
                command.line,
                missing.name,
                names_in(answered.path()).join(", ")
            ));
        }
        Ok(Expected::new(answers)?.beside(without.into_iter().map(|buffer| buffer.name.clone()).collect()))
    }

    /// The answers in files.
    fn read(&self, files: &[(usize, Fill)]) -> Result<Expected, String> {
        let answers = files.iter().filter_map(|(place, fill)| {
            let (index, (_, buffer)) = self.outputs().enumerate().find(|(_, (other, _))| other == place)?;
            Some(found(buffer, fill.clone(), Path::new(".")).map(|answer| (index, buffer.clone(), answer)))
        });
        Expected::new(answers.collect::<Result<_, _>>()?)
    }

    /// The oracle with the buffers written to files that are wanted so.
    fn saving(&self, oracle: Box<dyn Oracle>) -> Box<dyn Oracle> {
        if self.loaded.own.saves.is_empty() {
            return oracle;
        }
        let of = |name: &str| self.outputs().enumerate().find(|(_, (_, buffer))| buffer.name == name);
        let saves = self.loaded.own.saves.iter().filter_map(|save| {
            let (index, (_, buffer)) = of(&save.buffer)?;
            Some((index, buffer.clone(), save.path.clone()))
        });
        Box::new(Saving { oracle, saves: saves.collect() })
    }

    fn bytes(outputs: Vec<HostArray>) -> Vec<Vec<u8>> {
        outputs.into_iter().map(|output| output.as_bytes().to_vec()).collect()
    }
}

/// The names of the files in a folder, in order.
fn names_in(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The answer for a buffer, which `fill` says where to find.
fn found(buffer: &Buffer, fill: Fill, folder: &Path) -> Result<Vec<u8>, String> {
    let answer = Buffer { fill: Some(fill), ..buffer.clone() };
    answer.contents(0, 0, folder).map_err(|reason| format!("the reference for {}: {reason}", buffer.name))
}

impl Problem for PointProblem {
    fn extents(&self) -> String {
        self.loaded.own.run.extents(self.at)
    }

    fn buffers(&self) -> Vec<BufferSpec> {
        self.point().buffers.iter().map(spec).collect()
    }

    fn work(&self) -> Work {
        self.point().work
    }

    fn data(&self) -> Vec<String> {
        self.point().buffers.iter().map(ToString::to_string).collect()
    }

    fn inputs(&self) -> Result<Vec<HostArray>, String> {
        let made = match &self.point().inputs {
            None => None,
            Some(Command { line, folder }) => {
                let made = tempfile::tempdir().map_err(|e| format!("cannot make a folder for inputs: {e}"))?;
                shell(line, folder, &[("out", made.path())])?;
                Some(made)
            }
        };
        let folder = made.as_ref().map_or(Path::new("."), tempfile::TempDir::path);
        let contents = self.filled().map(|(stream, buffer)| {
            let contents = buffer.contents(self.seed, stream as u64, folder);
            let contents = contents.map(|bytes| HostArray::of_bytes(buffer.element, &bytes));
            contents.map_err(|reason| format!("buffer {}: {reason}", buffer.name))
        });
        contents.collect()
    }

    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, String> {
        let point = self.point();
        let oracle: Box<dyn Oracle> = match &point.reference {
            Reference::None => {
                Box::new(NoReference { outputs: self.outputs().map(|(_, buffer)| buffer.clone()).collect() })
            }
            Reference::Files(files) => Box::new(self.read(files)?),
            Reference::Command(command) => Box::new(self.asked(command, inputs)?),
            Reference::Builtin(builtin) => Counterpart::new(builtin, point)?.oracle(inputs, point)?,
            Reference::Kernel(_) => return Err("the reference has not run".into()),
        };
        Ok(self.saving(oracle))
    }

    fn reference(&self, device: &DeviceInfo) -> Option<(Program, MakeOracle)> {
        let Reference::Kernel(list) = &self.point().reference else { return None };
        let own = self.clone();
        let oracle: MakeOracle = Box::new(move |outputs| {
            let answers = own.outputs().zip(Self::bytes(outputs)).enumerate();
            let answers = answers.map(|(index, ((_, buffer), answer))| (index, buffer.clone(), answer)).collect();
            Ok(own.saving(Box::new(Expected::new(answers)?)))
        });
        Some((program(&self.loaded.shaders, self.point(), list, device), oracle))
    }
}

/// Has the shell run `line` in `folder`, with what is in braces replaced by the paths of `places`.
///
/// # Errors
/// When it cannot be started or fails; with its last words.
fn shell(line: &str, folder: &Path, places: &[(&str, &Path)]) -> Result<(), String> {
    let mut text = line.to_string();
    for (name, path) in places {
        text = text.replace(&format!("{{{name}}}"), &path.to_string_lossy());
    }
    let (program, option) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut command = std::process::Command::new(program);
    // Standard output may be the pipe to another process of this program.
    command.args([option, &text]).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().map_err(|e| format!("the command `{line}` cannot be started: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("the command `{line}` failed ({}): {last}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_command_runs_in_its_folder_with_the_paths_in_it_and_says_why_it_failed() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out");
        shell("pwd > {out}", folder.path(), &[("out", &out)]).expect("it runs");
        assert!(std::fs::read_to_string(&out).expect("written").contains(&*folder.path().to_string_lossy()));
        let failed = shell("echo wrong >&2; exit 7", folder.path(), &[]).expect_err("it fails");
        assert!(failed.contains("exit status: 7") && failed.ends_with("wrong"), "{failed}");
        let missing = shell("no-such-program-here", Path::new(""), &[]).expect_err("there is none");
        assert!(missing.contains("no-such-program-here"), "{missing}");
    }
}
