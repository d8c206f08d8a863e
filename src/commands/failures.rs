//! `--keep-failures`: saves a reproducer in a folder for each case that crashed, hung or was wrong, with its wrong elements.

use super::create_folder;
use super::origin;
use super::program_file::{DispatchEntry, write_dispatches};
use super::reproducer::Reproducer;
use crate::basis::alike::{distinct, grouped};
use crate::basis::destination;
use crate::basis::file_name::file_name;
use crate::basis::printable::{self, shown_word};
use crate::basis::units::Bytes;
use crate::case::check::WrongElements;
use crate::compare::paired::{SideResult, Trials};
use crate::compare::recipe;
use crate::engine::job::duel::Side;
use crate::record::changes_drivers;
use crate::tuning::tuned::{self, Configuration};
use crate::user::options::CASE;
use crate::user::resolved::{Reference, ResolvedPoint};
use crate::{
    CATALOGUE, Case, CaseGroup, DeviceInfo, DeviceKind, Error, Host, HostArray, Outcome, Plan, Problem, Program,
    Record, Request, Result, Selection, Shown, Tuned, UserKernels, VulkanOptions, counted, input_file,
};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// File that tells of a saved failure.
pub(super) const FAILURE: &str = "failure.json";
/// Field of it with the reason why `run` cannot repeat the case.
const NOT_RUNNABLE: &str = "not_runnable";

/// Maximum size of the inputs saved for a case; the reproducing command generates larger ones again.
const MAX_INPUT_BYTES: Bytes = Bytes(64 << 20);

/// Creates the folder for reproducers, before any time is spent measuring.
pub(super) fn open(folder: &Path) -> Result<&Path> {
    create_folder(folder, "make --keep-failures", "folder").map(|()| folder)
}

/// Writer of reproducers for the failures of a `request` and its `plan`, with the tiles of `tuned` and the user's `kernels`.
#[derive(Clone, Copy)]
pub(super) struct FailureKeeper<'a> {
    folder: &'a Path,
    plan: &'a Plan,
    tuned: &'a Tuned,
    request: &'a Request,
    kernels: &'a [UserKernels],
}

impl<'a> FailureKeeper<'a> {
    /// Opens `folder`, if reproducers are wanted.
    pub(super) fn open(
        folder: Option<&'a Path>,
        plan: &'a Plan,
        tuned: &'a Tuned,
        request: &'a Request,
        kernels: &'a [UserKernels],
    ) -> Result<Option<Self>> {
        let Some(folder) = folder.map(open).transpose()? else { return Ok(None) };
        Ok(Some(Self { folder, plan, tuned, request, kernels }))
    }

    /// Saves a reproducer if `case`, which ended in the run of `record`, failed, and none is saved. Returns its folder.
    pub(super) fn keep(&self, record: &Record, case: &Case) -> Result<Option<PathBuf>> {
        let Self { folder, plan, tuned, request, kernels } = *self;
        let Some(device) = record.device(case.device).filter(|_| is_failure(&case.outcome)) else { return Ok(None) };
        let Some((group, chosen)) = find_configuration(case, device, plan, tuned) else { return Ok(None) };
        let validation = record.method.validation;
        let variables = &record.origin.environment;
        let command = recipe::assignments(variables) + &reproducing_request(request, case, device).command();
        let substitute = None;
        let failure = Failure { case, device, group, chosen, substitute, kernels, command, validation, variables };
        failure.write(folder, &folder_name(case, record)).map(Some)
    }

    /// Saves reproducers of the failures of `record`, unless they were saved when their cases ended. Returns a note.
    pub(super) fn save(&self, record: &Record) -> Result<String> {
        let mut saved = vec![];
        for case in &record.cases {
            saved.extend(self.keep(record, case)?.map(|folder| (case, folder)));
        }
        let others = saved.iter().filter(|(_, folder)| !is_repeatable(folder)).count();
        let others = match others {
            0 => String::new(),
            count => format!("{count} of them, which `run` cannot repeat, say how to measure them again\n"),
        };
        Ok(note(saved.len(), self.folder) + &others + &kinds(&saved))
    }
}

/// Whether `run` can repeat the failure in this folder.
fn is_repeatable(folder: &Path) -> bool {
    folder.join(CASE).exists()
}

/// Number of saved failures that need no summary.
const MAX_FEW: usize = 3;
/// Largest number of lines in the summary, so that it fits a screen.
const MAX_KINDS: usize = 12;

/// Counts many saved failures by device, kernel and status, and names the folder of the smallest case of each. Empty for few.
fn kinds(saved: &[(&Case, PathBuf)]) -> String {
    if saved.len() <= MAX_FEW {
        return String::new();
    }
    let mut kinds = grouped(saved, |(case, _)| case.failure_kind());
    kinds.sort_by_key(|kind| Reverse(kind.len()));
    let mut text = String::from("count  how        folder of the smallest case, which to repeat first\n");
    for kind in kinds.iter().take(MAX_KINDS) {
        let order = |(case, folder): &&(&Case, PathBuf)| (!is_repeatable(folder), case.effort());
        let Some((case, folder)) = kind.iter().copied().min_by_key(|saved| order(saved)) else { continue };
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(text, "{:5}  {:9}  {name}", kind.len(), case.outcome.status());
    }
    let rest: usize = kinds.iter().skip(MAX_KINDS).map(Vec::len).sum();
    if rest > 0 {
        let _ = writeln!(text, "{rest:5}  more, of {}", counted(kinds.len() - MAX_KINDS, "other kind"));
    }
    text
}

/// Saves a reproducer of a failed side of `ab`, under its name, in `folder`: of the problem of a group, with the user's kernels.
/// The side ran `kernel` on the driver that `variables` choose, and `ab` itself in `environment`.
pub(super) fn save_side(
    folder: &Path,
    (name, side): (&str, &SideResult),
    (kernel, tuned): (&Side, &Tuned),
    (group, kernels): (&CaseGroup, &[UserKernels]),
    trials: &Trials,
    [environment, variables]: [&BTreeMap<String, String>; 2],
) -> Result<()> {
    let SideResult { case, device, .. } = side;
    let chosen = tuned::with_tile(group, kernel.variant(group), device, tuned);
    let substitute = kernel.substitute.as_ref();
    let typed = trials.command.iter().map(|word| shown_word(word));
    let command = recipe::assignments(environment) + &typed.collect::<Vec<_>>().join(" ");
    let validation = trials.validation;
    let failure = Failure { case, device, group, chosen, substitute, kernels, command, validation, variables };
    failure.write(folder, &format!("{name}_{}", named_folder(&case.id, case, ""))).map(drop)
}

/// Returns a note about the saved failures; empty if there are none.
pub(super) fn note(saved: usize, folder: &Path) -> String {
    if saved == 0 {
        return String::new();
    }
    format!("{} saved in {}; `gpukern run FOLDER` repeats one\n", counted(saved, "failure"), folder.shown())
}

/// Refuses saved failures that `run` cannot repeat: by their folders, or by the descriptions in these.
pub(super) fn check_runnable(folders: &[PathBuf]) -> Result<()> {
    for path in folders {
        let folder = own_folder(path);
        let document = document_of(path).unwrap_or_default();
        if let Some(reason) = document[NOT_RUNNABLE].as_str() {
            let [reason, command] =
                [reason, document["command"].as_str().unwrap_or_default()].map(printable::printable);
            let folder = folder.shown();
            return Err(usage!("'{folder}' cannot be run again: {reason}; this measures the case anew: `{command}`"));
        }
    }
    Ok(())
}

/// Returns the folder of a saved failure, which may be named by its description.
fn own_folder(path: &Path) -> &Path {
    path.parent().filter(|_| path.ends_with(CASE)).unwrap_or(path)
}

/// Reads what tells of the failure saved in a folder; `None` for other folders.
fn document_of(path: &Path) -> Option<Value> {
    serde_json::from_str(&input_file::read_text(&own_folder(path).join(FAILURE)).ok()?).ok()
}

/// Failure that `--keep-failures` saved.
pub(super) struct Kept {
    /// How the case ended.
    pub(super) status: String,
    device: DeviceInfo,
    /// Variables that changed what the driver did.
    variables: BTreeMap<String, String>,
}

/// Returns what a saved failure tells of itself; `None` for other folders.
pub(super) fn kept(path: &Path) -> Option<Kept> {
    let mut document = document_of(path)?;
    let status = document["case"]["outcome"]["status"].as_str()?.replace('-', " ");
    let device = serde_json::from_value(document["device"].take()).ok()?;
    let mut variables: BTreeMap<String, String> = serde_json::from_value(document["variables"].take()).ok()?;
    variables.retain(|name, _| changes_drivers(name));
    Some(Kept { status, device, variables })
}

/// Whether these are saved failures alone, if there are any.
pub(super) fn are_kept(files: &[PathBuf]) -> bool {
    !files.is_empty() && files.iter().all(|file| kept(file).is_some())
}

impl Kept {
    /// Names the device with its driver, and the variables that changed what this did.
    pub(super) fn place(&self) -> String {
        let driver = with_driver(&self.device);
        match words(&self.variables) {
            none if none.is_empty() => driver,
            variables => format!("{driver} with {}", variables.trim_end()),
        }
    }

    /// Says which variables of the driver differ from those `now`, and how to set them; `None` if they are the same.
    fn changed_variables(&self, now: &BTreeMap<String, String>) -> Option<String> {
        let (mut changes, mut to_set, mut to_unset) = (vec![], self.variables.clone(), vec![]);
        for name in
            now.keys().chain(self.variables.keys()).filter(|name| changes_drivers(name)).collect::<BTreeSet<_>>()
        {
            let [then, here] = [&self.variables, now].map(|variables| variables.get(name));
            if then == here {
                to_set.remove(name);
                continue;
            }
            let here = here.map_or_else(|| "not set now".into(), |value| format!("now {}", shown_word(value)));
            changes.push(match then {
                Some(then) => format!("with {name}={} ({here})", shown_word(then)),
                None => format!("without {name} ({here})"),
            });
            to_unset.extend(then.is_none().then(|| format!("-u {name} ")));
        }
        let prefix = if to_unset.is_empty() { String::new() } else { format!("env {}", to_unset.concat()) };
        let prefix = prefix + &words(&to_set);
        let changes = changes.join(", ");
        (!changes.is_empty())
            .then(|| format!("{} {changes}; to repeat it, put `{}` before the command", self.status, prefix.trim_end()))
    }
}

/// Formats variables as a prefix of a shell command, without those that stand for options. Those of `ab` have any names.
fn words(variables: &BTreeMap<String, String>) -> String {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let own = variables.iter().filter(|(name, _)| is_name(name) && !name.starts_with("GPUKERN_"));
    own.map(|(name, value)| format!("{name}={} ", shown_word(value))).collect()
}

/// Says which variables of drivers the saved failures in `folders` had that are otherwise now, with the `own` ones of a side.
pub(super) fn changed_variables(folders: &[PathBuf], own: &[(String, OsString)], host: &Host) -> String {
    let mut notes = String::new();
    for kept in folders.iter().filter_map(|folder| kept(folder)) {
        let mut now = origin::environment(host);
        // `ab` may have set one that records do not name.
        now.extend(kept.variables.keys().filter_map(|name| Some((name.clone(), host.variable(name)?))));
        now.extend(own.iter().map(|(name, value)| (name.clone(), value.to_string_lossy().into_owned())));
        if let Some(change) = kept.changed_variables(&now) {
            let _ = writeln!(notes, "note      {change}");
        }
    }
    notes
}

/// Names a device with its driver.
fn with_driver(device: &DeviceInfo) -> String {
    format!("{}, {}", device.name, device.driver_beside_name())
}

/// Says which of the saved failures in `folders` ran on another device or driver than those of `record`, or with other
/// variables than this process.
pub(super) fn moved(folders: &[PathBuf], record: &Record, host: &Host) -> String {
    let here = distinct(record.devices.iter().map(with_driver)).join(" and ");
    let mut notes = String::new();
    for Kept { status, device, .. } in folders.iter().filter_map(|folder| kept(folder)) {
        if !record.devices.iter().any(|other| with_driver(other) == with_driver(&device)) {
            let _ = writeln!(notes, "note      {status} on {}; this is {here}", with_driver(&device));
        }
    }
    notes + &changed_variables(folders, &[], host)
}

/// Failed case, and the parts of its reproducer.
struct Failure<'a> {
    case: &'a Case,
    device: &'a DeviceInfo,
    group: &'a CaseGroup,
    chosen: Configuration<'a>,
    /// Label of a kernel, and the SPIR-V that ran in its place.
    substitute: Option<&'a (String, Vec<u8>)>,
    /// User's kernels, with the descriptions of the problems.
    kernels: &'a [UserKernels],
    command: String,
    validation: bool,
    /// Variables that chose the driver.
    variables: &'a BTreeMap<String, String>,
}

pub(super) fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rejected(_)) || outcome.failure().is_some()
}

/// Returns the name of a case's folder, to which [`create_unique`] may add a number. It has the device's if the record has
/// several.
pub(super) fn folder_name(case: &Case, record: &Record) -> String {
    named_folder(&case.id, case, &device_suffix(record, case.device))
}

/// Makes a file name of an id, which begins with the algorithm and the variant of `case`, and of what is to follow.
pub(super) fn named_folder(id: &str, case: &Case, suffix: &str) -> String {
    let plain = |c: char| if "/=,@: ".contains(c) { '_' } else { c };
    // A description's only kernel is often called as the description.
    let doubled = if case.algorithm == case.variant { format!("{}/", case.algorithm) } else { String::new() };
    let id = id.strip_prefix(&doubled).unwrap_or(id);
    file_name(&(id.chars().map(plain).collect::<String>() + suffix))
}

/// Returns what tells the folders of one device of a record from those of its others: its name, with its index if another
/// has the same; empty for the only device.
pub(super) fn device_suffix(record: &Record, index: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
    let name = |device: &DeviceInfo| format!("_{}", brief_name(device)).chars().map(plain).collect::<String>();
    let own = record.device(index).map(name).unwrap_or_default();
    let alike = record.devices.iter().filter(|other| name(other) == own).count();
    match record.devices.iter().filter(|other| other.kind != DeviceKind::Host).count() {
        0 | 1 => String::new(),
        _ if alike > 1 => format!("{own}_{index}"),
        _ => own,
    }
}

/// Returns the name of a device without what another build of its driver may change: the compiler, in brackets.
fn brief_name(device: &DeviceInfo) -> &str {
    device.name.split(" (").next().unwrap_or_default()
}

/// Returns the group of a case, and its variant as configured for the device; `None` for a case of the host.
pub(super) fn find_configuration<'a>(
    case: &Case,
    device: &DeviceInfo,
    plan: &'a Plan,
    tuned: &Tuned,
) -> Option<(&'a CaseGroup, Configuration<'a>)> {
    if device.kind == DeviceKind::Host {
        return None;
    }
    for group in plan.sections.iter().flat_map(|section| section.groups_on(device.kind)) {
        for chosen in tuned::choose(group, device, tuned) {
            if group.id(chosen.variant).to_string() == case.id {
                return Some((group, chosen));
            }
        }
    }
    None
}

/// Returns the paths for a file or folder of this name in `folder`, in the order in which to try them: all but the first have a
/// number before the ending.
pub(super) fn numbered(folder: &Path, name: &str, ending: &str) -> impl Iterator<Item = PathBuf> {
    let numbers = std::iter::once(String::new()).chain((2..).map(|number| format!("_{number}")));
    numbers.map(move |number| folder.join(format!("{name}{number}{ending}")))
}

/// Creates a folder of this name in `folder`, with a number appended if it exists: an earlier reproducer may be an input of
/// this run.
pub(super) fn create_unique(folder: &Path, name: &str) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut paths = numbered(folder, name, "");
    loop {
        let path = paths.next().unwrap_or_default();
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| path),
        }
    }
}

impl Failure<'_> {
    /// Writes the reproducer to a new folder of this name in `folder`, unless one there is of this failure. Returns the folder.
    fn write(&self, folder: &Path, name: &str) -> Result<PathBuf> {
        let facts = self.facts();
        let is_of_this = |path: &PathBuf| {
            let document = document_of(path).unwrap_or_default();
            facts.as_object().is_some_and(|facts| facts.iter().all(|(key, value)| document[key] == *value))
        };
        if let Some(known) = numbered(folder, name, "").take_while(|path| path.exists()).find(is_of_this) {
            return Ok(known);
        }
        let write = |own_folder: PathBuf| self.try_write(&own_folder).map(|()| own_folder);
        create_unique(folder, name).and_then(write).map_err(|e| {
            let reason = destination::explained(e);
            Error::Failure(format!("cannot keep the failure of {} in '{}': {reason}", self.case.id, folder.shown()))
        })
    }

    /// Writes `failure.json` and the files that it names.
    fn try_write(&self, folder: &Path) -> io::Result<()> {
        let Self { case, device, group, chosen, substitute, kernels, command, .. } = self;
        let problem = (group.algorithm.problem)(&group.spec).map_err(io::Error::other)?;
        let program = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device);
        let program = program.map_err(io::Error::other)?;
        let wrong = match &case.outcome {
            Outcome::Rejected(verification) => write_wrong_elements(folder, &verification.wrong)?,
            _ => Value::Null,
        };
        let dispatches = write_dispatches(folder, problem.as_ref(), &program, *substitute)?;
        let inputs = kept_inputs(problem.as_ref());
        let buffers = write_buffers(folder, problem.as_ref(), &inputs)?;
        let sources: Vec<_> = dispatches.iter().map(|dispatch| dispatch.spirv.clone()).collect();
        let own = kernels.iter().find(|own| own.name == case.algorithm);
        let point = own.and_then(|own| point_of(group, own));
        let axes = named_extents(group, kernels);
        let name = if own.is_some() { case.algorithm.clone() } else { format!("{}-{}", case.algorithm, case.variant) };
        let reproducer = Reproducer {
            folder,
            name,
            head: self.head(),
            group,
            device,
            problem: problem.as_ref(),
            program: &program,
            sources: &sources,
            inputs: Some(inputs.as_deref().unwrap_or_default()),
            point,
            needs_reference: self.needs_reference(&program, point),
            axes,
        };
        let not_runnable = reproducer.write().err();
        if let Some(reason) = &not_runnable {
            write_description(folder, &dispatches, &format!("{reason}, but this measures the case anew: {command}"))?;
        }
        let mut document = self.facts();
        document["dispatches"] = json!(dispatches);
        document["buffers"] = json!(buffers);
        document["wrong_elements"] = wrong;
        document[NOT_RUNNABLE] = json!(not_runnable);
        std::fs::write(folder.join(FAILURE), printable::json(serde_json::to_string_pretty(&document)? + "\n"))
    }

    /// Returns what tells this failure from others, as it is read back.
    fn facts(&self) -> Value {
        let Self { case, device, command, validation, variables, .. } = self;
        let facts = json!({
            "gpukern": env!("CARGO_PKG_VERSION"),
            "validation": validation,
            "command": command,
            // The driver may be one of several for the device.
            "variables": variables,
            // A later process of the run may have measured the other cases.
            "case": Case { process: 0, place: None, ..(*case).clone() },
            "device": device,
        });
        serde_json::from_str(&printable::json(facts.to_string())).unwrap_or(facts)
    }

    /// Whether the case, whose kernels are those of `program`, may end well without its reference: that judged its answer, or
    /// may be what failed.
    fn needs_reference(&self, program: &Program, point: Option<&ResolvedPoint>) -> bool {
        if point.is_some_and(|point| point.reference == Reference::None) {
            return false;
        }
        match &self.case.outcome {
            Outcome::Rejected(_) => true,
            // Only a user's kernel has a reference that fails on its own.
            Outcome::Crashed(death) | Outcome::TimedOut(death) if point.is_some() => {
                let own: Vec<_> = program.dispatches().map(|dispatch| dispatch.shader.label()).collect();
                death.kernels.iter().any(|kernel| !own.contains(kernel))
            }
            Outcome::Failed { .. } => point.is_some(),
            _ => false,
        }
    }

    /// Returns comments at the head of a description: what failed where, and how.
    fn head(&self) -> String {
        let Self { case, device, variables, .. } = self;
        let driver = device.driver_beside_name();
        let chosen_by = match words(variables) {
            none if none.is_empty() => none,
            variables => format!("# with {}\n", variables.trim_end()),
        };
        let reason = case.outcome.reason().unwrap_or_default();
        let status = case.outcome.status();
        printable::printable_lines(&format!(
            "# {} on {}, {driver}\n{chosen_by}# {status}: {reason}\n",
            case.id, device.name
        ))
        .into()
    }
}

/// Returns the point of a user's problem that a group measures.
fn point_of<'a>(group: &CaseGroup, kernels: &'a UserKernels) -> Option<&'a ResolvedPoint> {
    let UserKernels { problem, .. } = kernels;
    problem.points.iter().zip(problem.sizes()).find(|(_, size)| *size == group.spec.size).map(|(point, _)| point)
}

/// Returns the size of a group by its axes: those of the user's `kernels` that it is of, or else numbered ones.
pub(super) fn named_extents(group: &CaseGroup, kernels: &[UserKernels]) -> Vec<(String, i64)> {
    let own = kernels.iter().find(|own| *own.name == *group.algorithm.name);
    match own.and_then(|own| Some((&own.problem, point_of(group, own)?))) {
        Some((own, point)) => own.free_axes().map(|axis| (own.axes[axis].clone(), point.values[axis])).collect(),
        None => extents_as_axes(&group.spec.size.extents()),
    }
}

/// Names the extents of a built-in case as axes; three are those of a product.
pub(super) fn extents_as_axes(extents: &[u64]) -> Vec<(String, i64)> {
    let mut axes = vec![];
    for (at, extent) in extents.iter().enumerate() {
        let name = match extents.len() {
            1 => "size".into(),
            3 => ["M", "N", "K"][at].into(),
            _ => format!("size_{}", at + 1),
        };
        axes.extend(i64::try_from(*extent).ok().map(|extent| (name, extent)));
    }
    axes
}

/// Writes the first wrong elements as CSV. Returns the file name and the counts; null if the check reports no elements.
fn write_wrong_elements(folder: &Path, wrong: &WrongElements) -> io::Result<Value> {
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

/// Returns the request for this case only. For a user's kernel it repeats `request`, to be run in the same folder.
pub(super) fn reproducing_request(request: &Request, case: &Case, device: &DeviceInfo) -> Request {
    let is_of_table = request.config.is_some() && CATALOGUE.find(&case.algorithm).is_err();
    if request.kernels.is_some() || is_of_table {
        return Request { only: vec![case.id.clone()], no_peak: true, processes: None, ..request.clone() };
    }
    // Another build of the driver may give the device another UUID.
    let name = brief_name(device).to_string();
    let selection = Selection { device: vec![name], ..case.selection() };
    // A hang ends after the same time, and the layers find what they found.
    let vulkan = VulkanOptions { cache_dir: None, ..request.vulkan.clone() };
    Request { selection, no_peak: true, vulkan, ..Request::default() }
}

/// Writes a description with which `gpukern inspect` compiles the only kernel of a case as it was; none for several. `reason`
/// says why `run` cannot repeat the case.
fn write_description(folder: &Path, dispatches: &[DispatchEntry], reason: &str) -> io::Result<()> {
    let kernels = distinct(dispatches.iter().map(|own| (&own.spirv, &own.constants, own.subgroup_size)));
    let [(spirv, constants, subgroup)] = kernels[..] else {
        let _ = std::fs::remove_file(folder.join(CASE));
        return Ok(());
    };
    let reason = printable::printable(reason);
    let mut text = format!(
        "# `gpukern inspect FOLDER` compiles it again; `run` cannot repeat it: {reason}\n[kernel]\nsource = {}\n",
        json!(spirv)
    );
    if let Some(size) = subgroup {
        let _ = writeln!(text, "subgroup = {size}");
    }
    let _ = writeln!(text, "\n[spec]");
    for (id, bits) in constants {
        let _ = writeln!(text, "{id} = \"bits {bits:#x}\"");
    }
    std::fs::write(folder.join(CASE), text)
}

/// Returns the inputs of a problem, unless they are too large to be kept.
fn kept_inputs(problem: &dyn Problem) -> Result<Vec<HostArray>> {
    let specs = problem.buffers();
    let size: u64 = specs.iter().filter(|spec| spec.role.is_input()).map(|spec| spec.bytes().0).sum();
    if size > MAX_INPUT_BYTES.0 {
        return Err(Error::Failure(format!("inputs of more than {MAX_INPUT_BYTES} are not kept")));
    }
    problem.inputs()
}

/// Writes the data of each input to a file. Returns the buffers of a problem.
fn write_buffers(folder: &Path, problem: &dyn Problem, inputs: &Result<Vec<HostArray>>) -> io::Result<Vec<Value>> {
    let specs = problem.buffers();
    let missing_reason = inputs.as_ref().err().map(ToString::to_string);
    let mut inputs = inputs.iter().flatten();
    let mut buffers = vec![];
    for spec in specs {
        let mut buffer = json!({
            "name": spec.name,
            "dtype": spec.dtype,
            "elements": spec.len,
            "input": null,
            "missing": null,
        });
        if spec.role.is_input() {
            buffer["missing"] = json!(missing_reason);
            if let Some(input) = inputs.next() {
                let file = file_name(&spec.name) + ".bin";
                std::fs::write(folder.join(&file), input.as_bytes())?;
                buffer["input"] = file.into();
            }
        }
        buffers.push(buffer);
    }
    Ok(buffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;
    use crate::kernel::buffer::Role;
    use crate::record::Death;
    use crate::record::fixture::six_cases;
    use crate::{BufferSpec, CaseOptions, DType, Goal, HostArray, Layout, Oracle, Work};

    /// Problem whose only input cannot be generated.
    struct MissingInput;

    impl Problem for MissingInput {
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

        fn oracle(&self, _: &[HostArray]) -> Result<Box<dyn Oracle>> {
            unreachable!("nobody asks for an answer")
        }

        fn inputs(&self) -> Result<Vec<HostArray>> {
            Err(Error::Usage("inputs.command failed".into()))
        }
    }

    #[test]
    fn an_input_that_cannot_be_generated_is_missing_for_a_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let written = write_buffers(folder.path(), &MissingInput, &kept_inputs(&MissingInput)).expect("written");
        assert_eq!((&written[0]["input"], &written[0]["missing"]), (&Value::Null, &json!("inputs.command failed")));
        assert_eq!(written[1]["missing"], Value::Null);
    }

    #[test]
    fn a_failure_that_run_cannot_repeat_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(
            folder.path().join(FAILURE),
            r#"{"not_runnable": "it runs in rounds", "command": "gpukern bench eigen"}"#,
        )
        .expect("written");
        let refused = check_runnable(&[folder.path().into()]).expect_err("it cannot be run").to_string();
        let end = "cannot be run again: it runs in rounds; this measures the case anew: `gpukern bench eigen`";
        assert!(refused.ends_with(end), "{refused}");
        check_runnable(&[folder.path().join(CASE)]).expect_err("nor by its description");
        check_runnable(&[folder.path().join("own.toml")]).expect("a file of the user's");
    }

    #[test]
    fn variables_of_drivers_that_a_failure_had_otherwise_are_named_with_the_words_that_set_them() {
        let variables = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let kept = |pairs| Kept { status: "rejected".into(), device: software_device(), variables: variables(pairs) };
        let own = kept(&[("LP_PERF", "no_tex,x y"), ("OWN", "1"), ("NIR_DEBUG", "")]);
        let same = variables(&[("GPUKERN_CACHE", "c"), ("VK_DRIVER_FILES", "other.json"), ("LP_PERF", "1")]);
        assert_eq!(kept(&[("LP_PERF", "1")]).changed_variables(&same), None);
        let said = [
            kept(&[("LP_PERF", "no_tex")]).changed_variables(&variables(&[])),
            kept(&[]).changed_variables(&same),
            own.changed_variables(&variables(&[("OWN", "1"), ("LP_PERF", "1"), ("RADV_DEBUG", "llvm")])),
            Some(own.place()),
        ];
        insta::assert_snapshot!(said.map(Option::unwrap_or_default).join("\n"), @"
        rejected with LP_PERF=no_tex (not set now); to repeat it, put `LP_PERF=no_tex` before the command
        rejected without LP_PERF (now 1); to repeat it, put `env -u LP_PERF` before the command
        rejected with LP_PERF='no_tex,x y' (now 1), with NIR_DEBUG='' (not set now), without RADV_DEBUG (now llvm); to repeat it, put `env -u RADV_DEBUG LP_PERF='no_tex,x y' NIR_DEBUG=''` before the command
        software, test with LP_PERF='no_tex,x y' NIR_DEBUG='' OWN=1
        ");
    }

    #[test]
    fn many_failures_are_counted_by_kernel_with_the_smallest_to_repeat() {
        let record = six_cases();
        let case = |variant: &str, size: u64, outcome: Outcome| Case {
            variant: variant.into(),
            size: crate::record::CaseSize::Known(crate::Size::Uniform(size)),
            outcome,
            ..record.cases[0].clone()
        };
        let failed = |size| case("naive", size, Outcome::failed("one".into()));
        let cases = [case("tiled", 4, failed(4).outcome), failed(64), failed(8), failed(32)];
        let saved = |count: usize| -> Vec<_> {
            cases.iter().take(count).map(|case| (case, PathBuf::from(format!("kept/{}", case.size)))).collect()
        };
        assert_eq!(kinds(&saved(3)), "");
        insta::assert_snapshot!(kinds(&saved(4)), @r"
        count  how        folder of the smallest case, which to repeat first
            3  failed     8
            1  failed     4
        ");
        // A size of several extents may be less work than one of a single extent, whose square or cube it is.
        let sized = |size: crate::Size, operations: u64| Case {
            size: crate::record::CaseSize::Known(size),
            work: Work { operations, ..record.cases[0].work },
            ..failed(1)
        };
        let [cube, flat] = [(crate::Size::Uniform(64), 2 << 18), (crate::Size::Three(5, 4, 33), 1320)]
            .map(|(size, operations)| sized(size, operations));
        let mut all = saved(4);
        all[0] = (&cube, "kept/64".into());
        all[1] = (&flat, "kept/5x4x33".into());
        all.truncate(2);
        all.extend(vec![(&cube, PathBuf::from("kept/64_2")); 2]);
        assert!(kinds(&all).ends_with("    4  failed     5x4x33\n"), "{}", kinds(&all));
    }

    #[test]
    fn kernels_of_a_variant_are_counted_apart() {
        let case = six_cases().cases.remove(0);
        let death = |kernel: &str| Death {
            cause: "SIGILL".into(),
            kernels: vec![kernel.into()],
            driver: "SwiftShader".into(),
            said: vec![],
        };
        let crashed = |kernel: &str| Case { outcome: Outcome::Crashed(death(kernel)), ..case.clone() };
        let failed = |dtype| Case {
            options: CaseOptions { dtype, ..case.options },
            outcome: Outcome::failed("it says no".into()),
            ..case.clone()
        };
        let cases = [
            crashed("matmul/tiled.f32"),
            crashed("matmul/tiled.f32"),
            crashed("matmul/tiled.f32.nt"),
            failed(DType::F32),
            failed(DType::F16),
        ];
        let saved: Vec<_> = cases.iter().map(|case| (case, PathBuf::from("kept/case"))).collect();
        assert_eq!(kinds(&saved).lines().count() - 1, 4, "{}", kinds(&saved));
    }

    #[test]
    fn only_folders_of_several_devices_name_theirs() {
        let mut record = six_cases();
        let names =
            |record: &Record| record.devices.iter().map(|own| device_suffix(record, own.index)).collect::<Vec<_>>();
        assert_eq!(names(&record), [""]);
        let device = |index, name: &str, kind| DeviceInfo { index, name: name.into(), kind, ..software_device() };
        record.devices.push(device(1, "host", DeviceKind::Host));
        assert_eq!(names(&record)[0], "", "nothing of the host is saved");
        record.devices.push(device(2, "../a/b (LLVM 15, 256 bits)", DeviceKind::Cpu));
        assert_eq!(names(&record)[2], "_.._a_b");
        record.devices.push(device(3, "../a b (LLVM 16)", DeviceKind::Cpu));
        assert_eq!(names(&record)[2..], ["_.._a_b_2", "_.._a_b_3"]);
        let own = folder_name(&Case { device: 3, ..record.cases[0].clone() }, &record);
        assert_eq!(own, "matmul_naive_f32_64x64x64_.._a_b_3");
    }

    #[test]
    fn an_earlier_reproducer_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let folders = ["case", "case", "case", "other"]
            .map(|name| create_unique(&folder.path().join("kept"), name).expect("made"));
        let names = folders.map(|path| path.file_name().expect("a name").to_string_lossy().into_owned());
        assert_eq!(names, ["case", "case_2", "case_3", "other"]);
    }

    #[test]
    fn the_command_of_a_failure_names_its_problem_whole() {
        let usual = six_cases().cases.remove(0);
        let options = CaseOptions { layout: Layout::Nt, goal: Goal::Solution, ..usual.options };
        let unusual = Case { options, ..usual.clone() };
        let request = |case| reproducing_request(&Request::default(), &case, &software_device());
        let timeout =
            || VulkanOptions { timeout: "5s".into(), cache_dir: Some("cache".into()), ..VulkanOptions::default() };
        let hung = Request { vulkan: timeout(), ..Request::default() };
        let limited = reproducing_request(&hung, &usual, &software_device()).vulkan;
        assert_eq!(limited, VulkanOptions { cache_dir: None, ..timeout() }, "a hang ends after the same time");
        insta::assert_snapshot!([usual, unusual].map(|case| request(case).command()).join("\n"), @"
        gpukern bench matmul --variant=naive --size=64 --dtype=f32 --input=uniform --seed=1 --device=software --no-peak
        gpukern bench matmul --variant=naive --size=64 --dtype=f32 --input=uniform --layout=nt --seed=1 --solve --device=software --no-peak
        ");
    }
}
