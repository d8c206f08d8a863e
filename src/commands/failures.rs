//! `--keep-failures`: a folder for each case that crashed, hung or was wrong, with all that runs it again elsewhere, and the
//! elements that are wrong.

use crate::algorithms::{self, Problem};
use crate::basis::destination;
use crate::basis::error::Error;
use crate::basis::file_name::file_name;
use crate::basis::printable;
use crate::basis::printable::Shown;
use crate::basis::units::{Bytes, counted};
use crate::case::check::WrongElements;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::kernel::buffer::{Binding, Descriptor};
use crate::kernel::program::{BufferId, Dispatch, Program};
use crate::measure::job::duel::Side;
use crate::plan::options::Selection;
use crate::plan::request::Request;
use crate::plan::{CaseGroup, Plan};
use crate::record::{Case, Outcome, Record};
use crate::tuning::tuned::{self, Configuration, Tuned};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of inputs that are kept of a case; the command makes larger ones again.
const MOST_INPUTS: Bytes = Bytes(64 << 20);

/// Makes the folder that failures are kept in, before any time is spent measuring.
pub(super) fn open(folder: &Path) -> Result<&Path, Error> {
    std::fs::create_dir_all(folder).map(|()| folder).map_err(|e| {
        Error::Usage(format!("cannot make --keep-failures '{}': {e}; choose another folder", folder.shown()))
    })
}

/// Keeps the failures of `record`, which is of `request` and its `plan` with the tiles of `tuned`, in `folder`; says how many
/// there were.
pub(super) fn keep(
    folder: &Path,
    record: &Record,
    plan: &Plan,
    tuned: &Tuned,
    request: &Request,
) -> Result<String, Error> {
    let mut kept = 0;
    for case in record.cases.iter().filter(|case| is_failure(&case.outcome)) {
        let Some(device) = record.device(case.device) else { continue };
        let Some((group, chosen)) = find(case, device, plan, tuned) else { continue };
        let command = reproducing(request, case, device).command();
        let validation = record.method.validation;
        let failure = Failure { case, device, group, chosen, substitute: None, command, validation };
        failure.write(folder, &name(case))?;
        kept += 1;
    }
    Ok(told(kept, folder))
}

/// Keeps the sides of `ab` that failed, on the problem of `group`, in `folder`: each with its name, its device and what ran
/// in its kernel's place; returns how many there were. `command` is the one that was typed.
pub(super) fn keep_sides(
    folder: &Path,
    sides: [(&str, &Case, &DeviceInfo, &Side); 2],
    group: &CaseGroup,
    command: &str,
    validation: bool,
) -> Result<usize, Error> {
    let mut kept = 0;
    for (side, case, device, ran) in sides.into_iter().filter(|(_, case, ..)| is_failure(&case.outcome)) {
        let chosen = tuned::with_tile(group, ran.variant(group), device, &Tuned::none());
        let (substitute, command) = (ran.substitute.as_ref(), command.to_string());
        let failure = Failure { case, device, group, chosen, substitute, command, validation };
        failure.write(folder, &format!("{side}_{}", name(case)))?;
        kept += 1;
    }
    Ok(kept)
}

/// Says how many failures were kept.
pub(super) fn told(kept: usize, folder: &Path) -> String {
    if kept > 0 { format!("{} saved in {}\n", counted(kept, "failure"), folder.shown()) } else { String::new() }
}

/// A case that failed, and what runs it again.
struct Failure<'a> {
    case: &'a Case,
    device: &'a DeviceInfo,
    group: &'a CaseGroup,
    chosen: Configuration<'a>,
    /// The label of a kernel, and the SPIR-V that ran in its place.
    substitute: Option<&'a (String, Vec<u8>)>,
    command: String,
    validation: bool,
}

fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rejected(_)) || outcome.failure().is_some()
}

/// The name of a case's folder: [`fresh`] tells cases apart that have the same one.
fn name(case: &Case) -> String {
    let plain = |c: char| if "/=,@: ".contains(c) { '_' } else { c };
    file_name(&format!("{}_device-{}", case.id.chars().map(plain).collect::<String>(), case.device))
}

/// The group of a case, and its variant as the device runs it; `None` for a case of the host.
fn find<'a>(
    case: &Case,
    device: &DeviceInfo,
    plan: &'a Plan,
    tuned: &Tuned,
) -> Option<(&'a CaseGroup, Configuration<'a>)> {
    let groups = plan.runs.iter().flat_map(|run| run.groups_on(device.kind));
    let mut of_groups = groups
        .filter(|_| device.kind != DeviceKind::Host)
        .flat_map(|group| tuned::choose(group, device, tuned).into_iter().map(move |chosen| (group, chosen)));
    of_groups.find(|(group, chosen)| group.id(chosen.variant).to_string() == case.id)
}

/// Makes a folder of this name in `folder`, with a number where there is one: what an earlier run kept may be what this one
/// was given.
fn fresh(folder: &Path, name: &str) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut numbered = (2..).map(|number| folder.join(format!("{name}_{number}")));
    let mut own = folder.join(name);
    loop {
        match std::fs::create_dir(&own) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => own = numbered.next().unwrap_or_default(),
            made => return made.map(|()| own),
        }
    }
}

impl Failure<'_> {
    /// Writes what is known of the case into a folder of this name in `folder`.
    fn write(&self, folder: &Path, name: &str) -> Result<(), Error> {
        fresh(folder, name).and_then(|own| self.try_write(&own)).map_err(|e| {
            let (id, shown, reason) = (&self.case.id, folder.shown(), destination::explained(e));
            Error::Failure(format!("cannot keep the failure of {id} in '{shown}': {reason}"))
        })
    }

    fn try_write(&self, folder: &Path) -> io::Result<()> {
        let Self { case, device, group, chosen, substitute, command, validation } = self;
        let problem = (group.algorithm.problem)(&group.spec).map_err(io::Error::other)?;
        let program = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device);
        let program = program.map_err(io::Error::other)?;
        let wrong = match &case.outcome {
            Outcome::Rejected(verification) => wrong_elements(folder, &verification.wrong)?,
            _ => Value::Null,
        };
        let document = json!({
            "gpukern": env!("CARGO_PKG_VERSION"),
            "validation": validation,
            "command": command,
            "case": case,
            "device": device,
            "dispatches": dispatches(folder, problem.as_ref(), &program, *substitute)?,
            "buffers": buffers(folder, problem.as_ref())?,
            "wrong_elements": wrong,
        });
        std::fs::write(folder.join("failure.json"), printable::json(serde_json::to_string_pretty(&document)? + "\n"))
    }
}

/// The elements that are wrong, as comma-separated values; how many there are, and in the file. Null where the check tells
/// no single ones.
fn wrong_elements(folder: &Path, wrong: &WrongElements) -> io::Result<Value> {
    const FILE: &str = "wrong.csv";
    if wrong.is_empty() {
        return Ok(Value::Null);
    }
    let mut file = csv::Writer::from_path(folder.join(FILE))?;
    for element in &wrong.first {
        file.serialize(element)?;
    }
    file.flush()?;
    Ok(json!({ "file": FILE, "in_the_file": wrong.first.len(), "all": wrong.count }))
}

/// The request of the case alone; one of the user's kernels is asked for as in `request`, in the same folder.
fn reproducing(request: &Request, case: &Case, device: &DeviceInfo) -> Request {
    let no_peak = true;
    let in_table = request.config.is_some() && algorithms::find(&case.algorithm).is_err();
    if request.kernels.is_some() || in_table {
        return Request { only: vec![case.id.clone()], no_peak, processes: None, ..request.clone() };
    }
    let selection = Selection { device: vec![device.uuid.clone()], ..case.selection() };
    Request { selection, no_peak, ..Request::default() }
}

/// The kernels of a program with their constants and grids; the SPIR-V of each is a file.
fn dispatches(
    folder: &Path,
    problem: &dyn Problem,
    program: &Program,
    substitute: Option<&(String, Vec<u8>)>,
) -> io::Result<Vec<Value>> {
    let specs = problem.buffers();
    let name = |buffer: BufferId| specs.iter().chain(&program.scratch).nth(buffer.0).map_or("", |spec| &*spec.name);
    let mut dispatches = vec![];
    for dispatch in program.dispatches() {
        let label = dispatch.shader.label();
        // Labels of built-in kernels have one form, in which no two differ by this sign alone.
        let file = file_name(&if dispatch.shader.built_in { label.replace('/', "-") } else { label.clone() }) + ".spv";
        let in_its_place = substitute.filter(|(label, _)| *label == dispatch.shader.label());
        let spirv = in_its_place.map_or(&dispatch.shader.spirv[..], |(_, spirv)| spirv);
        std::fs::write(folder.join(&file), spirv)?;
        let words = dispatch.constants.iter().filter(|constant| constant.bytes == 4);
        let words: Vec<_> = words.map(|constant| json!([constant.id, constant.bits as u32])).collect();
        // A user's kernel need not name its arguments.
        let (arguments, bindings) = if dispatch.shader.built_in {
            (dispatch.values().map(|value| format!("{value:?}")).collect::<Vec<_>>(), Value::Null)
        } else {
            (vec![], bindings(dispatch, &name))
        };
        dispatches.push(json!({
            "kernel": dispatch.shader.label(),
            "spirv": file,
            "constants": words,
            "subgroup_size": dispatch.subgroup_size,
            "groups": dispatch.groups,
            "arguments": arguments,
            "bindings": bindings,
        }));
    }
    Ok(dispatches)
}

/// What a user's kernel is given.
fn bindings<'a>(dispatch: &Dispatch, name: &dyn Fn(BufferId) -> &'a str) -> Value {
    let descriptors = dispatch.descriptors.iter().map(|Descriptor { at, bytes, .. }| {
        let Binding { set, binding, element, kind, buffer, offset, range: _ } = *at;
        let buffer = name(buffer);
        json!({
            "set": set, "binding": binding, "element": element, "kind": kind, "buffer": buffer, "offset": offset,
            "bytes": bytes
        })
    });
    let addresses = dispatch
        .addresses
        .iter()
        .map(|at| json!({ "byte": at.offset, "buffer": name(at.buffer), "skipped": at.skipped }));
    let sized = dispatch.constants.iter().filter(|constant| constant.bytes != 4);
    let sized = sized.map(|constant| json!([constant.id, constant.data()]));
    json!({
        "descriptors": descriptors.collect::<Vec<_>>(),
        "push_constants": dispatch.push,
        "addresses": addresses.collect::<Vec<_>>(),
        "sized_constants": sized.collect::<Vec<_>>(),
    })
}

/// The buffers of a problem; the data of each input is a file, where it is not too large.
fn buffers(folder: &Path, problem: &dyn Problem) -> io::Result<Vec<Value>> {
    let specs = problem.buffers();
    let size: u64 = specs.iter().filter(|spec| spec.role.is_input()).map(|spec| spec.bytes().0).sum();
    let fetched = if size <= MOST_INPUTS.0 {
        problem.inputs()
    } else {
        Err(Error::Failure(format!("inputs of more than {MOST_INPUTS} are not kept")))
    };
    let (inputs, missing) = match fetched {
        Ok(inputs) => (inputs, None),
        Err(reason) => (vec![], Some(reason.to_string())),
    };
    let mut inputs = inputs.into_iter();
    let mut buffers = vec![];
    for spec in specs {
        let input = if spec.role.is_input() { inputs.next() } else { None };
        let file = input.as_ref().map(|_| file_name(&spec.name) + ".bin");
        if let (Some(input), Some(file)) = (&input, &file) {
            std::fs::write(folder.join(file), input.as_bytes())?;
        }
        let missing = missing.as_ref().filter(|_| spec.role.is_input());
        buffers.push(json!({
            "name": spec.name,
            "dtype": spec.dtype,
            "elements": spec.len,
            "input": file,
            "missing": missing,
        }));
    }
    Ok(buffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Oracle;
    use crate::basis::dtype::{DType, HostArray};
    use crate::basis::layout::Layout;
    use crate::basis::units::Work;
    use crate::case::{CaseOptions, Goal};
    use crate::device::capability::tests::software_device;
    use crate::kernel::buffer::{BufferSpec, Role};
    use crate::record::fixture::six_cases;

    /// A problem whose one input nobody can make.
    struct Unmade;

    impl Problem for Unmade {
        fn extents(&self) -> String {
            "1".into()
        }

        fn buffers(&self) -> Vec<BufferSpec> {
            let spec = |name, role| BufferSpec::new(name, role, DType::F32, 1);
            vec![spec("A", Role::Input), spec("C", Role::Output)]
        }

        fn work(&self) -> Work {
            Work::default()
        }

        fn oracle(&self, _: &[HostArray]) -> Result<Box<dyn Oracle>, Error> {
            unreachable!("nobody asks for an answer")
        }

        fn inputs(&self) -> Result<Vec<HostArray>, Error> {
            Err(Error::Usage("inputs.command failed".into()))
        }
    }

    #[test]
    fn an_input_that_nobody_can_make_is_missing_for_a_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = buffers(folder.path(), &Unmade).expect("written");
        assert_eq!((&kept[0]["input"], &kept[0]["missing"]), (&Value::Null, &json!("inputs.command failed")));
        assert_eq!(kept[1]["missing"], Value::Null);
    }

    #[test]
    fn what_an_earlier_run_kept_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let made =
            ["case", "case", "case", "other"].map(|name| fresh(&folder.path().join("kept"), name).expect("made"));
        let names = made.map(|path| path.file_name().expect("a name").to_string_lossy().into_owned());
        assert_eq!(names, ["case", "case_2", "case_3", "other"]);
    }

    #[test]
    fn the_command_of_a_failure_names_its_problem_whole() {
        let case = six_cases().cases.remove(0);
        let usual = reproducing(&Request::default(), &case, &software_device()).command();
        assert!(
            usual.starts_with("gpukern bench matmul ") && !usual.contains("--layout") && !usual.contains("--solve")
        );
        let unusual =
            Case { options: CaseOptions { layout: Layout::Nt, goal: Goal::Solution, ..case.options }, ..case };
        let command = reproducing(&Request::default(), &unusual, &software_device()).command();
        assert!(command.contains(" --layout=nt ") && command.contains(" --solve "), "{command}");
    }
}
