//! The problem that a point of axes poses.

use super::builtin::Counterpart;
use super::oracle::{Expected, Saving, Unknown};
use super::program::{Kernel, program, spec};
use super::{Guest, command, sizes};
use crate::algorithms::{Oracle, Problem, Reference};
use crate::basis::dtype::HostArray;
use crate::basis::units::Work;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::BufferSpec;
use crate::run::array;
use crate::run::job::{self, Buffer, Command, Fill, Point};
use std::path::Path;

/// The problem of one point.
pub(super) struct Posed {
    pub(super) guest: &'static Guest,
    pub(super) kernels: &'static [Kernel],
    /// The point, by its place.
    pub(super) at: usize,
    pub(super) seed: u64,
}

impl Posed {
    fn point(&self) -> &'static Point {
        &self.guest.undertaking.points[self.at]
    }

    /// The buffers that the host fills, each with its place among all.
    fn filled(&self) -> impl Iterator<Item = (usize, &'static Buffer)> {
        self.point().buffers.iter().enumerate().filter(|(_, buffer)| spec(buffer).role.is_input())
    }

    /// The buffers that the host looks at, each with its place among all.
    fn outputs(&self) -> impl Iterator<Item = (usize, &'static Buffer)> {
        self.point().buffers.iter().enumerate().filter(|(_, buffer)| spec(buffer).role.is_output())
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
        command::run(&command.line, &command.folder, &[("in", given.path()), ("out", answered.path())])?;
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
        if self.guest.saves.is_empty() {
            return oracle;
        }
        let of = |name: &str| self.outputs().enumerate().find(|(_, (_, buffer))| buffer.name == name);
        let saves = self.guest.saves.iter().filter_map(|save| {
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

impl Problem for Posed {
    fn extents(&self) -> String {
        sizes::extents(&self.guest.undertaking, self.at)
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

    fn inputs(&self) -> Vec<HostArray> {
        self.fetch().unwrap_or_default()
    }

    fn fetch(&self) -> Result<Vec<HostArray>, String> {
        let made = match &self.point().inputs {
            None => None,
            Some(Command { line, folder }) => {
                let made = tempfile::tempdir().map_err(|e| format!("cannot make a folder for inputs: {e}"))?;
                command::run(line, folder, &[("out", made.path())])?;
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

    fn oracle(&self, inputs: &[HostArray]) -> Box<dyn Oracle> {
        let unknown = || Box::new(Unknown { outputs: self.outputs().map(|(_, buffer)| buffer.clone()).collect() });
        self.judge(inputs).unwrap_or_else(|_| unknown())
    }

    fn judge(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, String> {
        let point = self.point();
        let oracle: Box<dyn Oracle> = match &point.reference {
            job::Reference::None => {
                Box::new(Unknown { outputs: self.outputs().map(|(_, buffer)| buffer.clone()).collect() })
            }
            job::Reference::Files(files) => Box::new(self.read(files)?),
            job::Reference::Command(command) => Box::new(self.asked(command, inputs)?),
            job::Reference::Builtin(builtin) => Counterpart::new(builtin, point)?.oracle(inputs, point),
            job::Reference::Kernel(_) => return Err("the reference has not run".into()),
        };
        Ok(self.saving(oracle))
    }

    fn reference(&self, device: &DeviceInfo) -> Option<Reference> {
        let job::Reference::Kernel(job) = &self.point().reference else { return None };
        let own = Self { ..*self };
        Some(Reference {
            program: Ok(program(self.kernels, self.point(), job, device)),
            judge: Box::new(move |outputs| {
                let answers = own.outputs().zip(Self::bytes(outputs)).enumerate();
                let answers = answers.map(|(index, ((_, buffer), answer))| (index, buffer.clone(), answer)).collect();
                Ok(own.saving(Box::new(Expected::new(answers)?)))
            }),
        })
    }
}
