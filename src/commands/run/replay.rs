//! Writes captured dispatches as cases that `run` accepts, and replays each case to check that it reproduces the
//! program's results.

use super::{named_kernels, plan_section};
use crate::basis::destination::{Scratch, make_private_folder};
use crate::basis::file_name::file_name;
use crate::capture::case::store::Store;
use crate::capture::case::{Draft, SelectedDispatch, Starts, folder_name};
use crate::commands::MeasurementCall;
use crate::record::Correctness;
use crate::user::algorithm::Save;
use crate::user::options::describe;
use crate::user::{array, resolve};
use crate::vulkan::uuid;
use crate::{
    CATALOGUE, Error, FieldOptions, Host, LimitPolicy, MeasureOptions, Outcome, Plan, Result, Selection, Setup, Shown,
    Timing, Tuned, UserKernels,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Outcome of converting a dispatch.
pub(crate) struct ConvertedCase {
    pub(crate) name: String,
    /// Folder of the case; `None` if `run` cannot accept it.
    pub(crate) folder: Option<PathBuf>,
    /// Reason why no replay reproduced the program's results; `None` if one did.
    pub(crate) unverified: Option<String>,
}

/// Folder of cases whose replay gave different results. The shell's `*` does not match it.
const UNVERIFIED: &str = ".unverified";

enum Replay {
    /// Not run, for this reason.
    NotRun(String),
    Ran {
        /// Difference from the program's results; `None` if the answer is right.
        mistake: Option<String>,
        /// Whether the answer has the same bits as the program's.
        same_bits: bool,
        /// Final contents of the buffers that the caller asked for, by name.
        contents: HashMap<String, Vec<u8>>,
    },
}

/// Writes `dispatches`, with their contents from `spool`, as cases to folders below `output`, and replays each on its
/// original device. A folder is completed in `spool`, on the same file system, and then renamed, so that no incomplete case
/// remains if the process ends early. Cases that fail the replay go to [`UNVERIFIED`].
pub(crate) fn write_cases(
    dispatches: &[SelectedDispatch<'_>],
    spool: &Path,
    output: &Path,
    setup: &Setup,
    host: &Host,
) -> Result<Vec<ConvertedCase>> {
    let mut store = Store::default();
    let mut cases = vec![];
    for dispatch in dispatches {
        let mut case = ConvertedCase { name: dispatch.name.clone(), folder: None, unverified: None };
        let case_name = folder_name(cases.len() + 1, &dispatch.name);
        let draft_folder = spool.join(&case_name);
        match Draft::new(dispatch, spool, &draft_folder, &mut store) {
            Ok(mut draft) => {
                case.unverified = write_verified(&mut draft, dispatch, &draft_folder, &mut store, setup, host)?;
                let parent = if case.unverified.is_none() { output.to_path_buf() } else { output.join(UNVERIFIED) };
                let folder = parent.join(&case_name);
                make_private_folder(&parent)
                    .and_then(|()| std::fs::rename(&draft_folder, &folder))
                    .map_err(|e| Error::Failure(format!("'{}': {e}", folder.shown())))?;
                store.follow_rename(&draft_folder, &folder);
                case.folder = Some(folder);
            }
            Err(reason) => {
                let _ = std::fs::remove_dir_all(&draft_folder);
                case.unverified = Some(reason);
            }
        }
        cases.push(case);
    }
    Ok(cases)
}

/// Writes the description so that a replay reproduces the program's results, or else so that no wrong result passes. Returns
/// the reason why no replay reproduced them, or `None`.
fn write_verified(
    draft: &mut Draft<'_>,
    dispatch: &SelectedDispatch<'_>,
    folder: &Path,
    store: &mut Store,
    setup: &Setup,
    host: &Host,
) -> Result<Option<String>> {
    draft.write(&Starts::Known, false, store).map_err(Error::Failure)?;
    let mut last_mistake = String::new();
    // The analysis may report reads that never happen. First assume that unchanged buffers are only written.
    for all in [true, false] {
        let doubtful: Vec<String> = draft.doubtful(all).into_iter().map(String::from).collect();
        if !all && doubtful == draft.doubtful(true) {
            break;
        }
        let mut contents_after = HashMap::new();
        if !doubtful.is_empty() {
            draft.write(&Starts::Inverted(all), false, store).map_err(Error::Failure)?;
            let scratch = Scratch::new().map_err(|e| Error::Failure(e.to_string()))?;
            match replay(folder, &doubtful, &scratch.path(), dispatch, setup, host)? {
                Replay::Ran { contents, .. } => contents_after = contents,
                Replay::NotRun(reason) => {
                    draft.write(&Starts::Known, false, store).map_err(Error::Failure)?;
                    return Ok(Some(reason));
                }
            }
        }
        let starts = Starts::Found(contents_after);
        draft.write(&starts, false, store).map_err(Error::Failure)?;
        match replay(folder, &[], Path::new(""), dispatch, setup, host)? {
            Replay::NotRun(reason) => return Ok(Some(reason)),
            Replay::Ran { mistake: Some(mistake), .. } => last_mistake = mistake,
            Replay::Ran { mistake: None, same_bits, .. } => {
                draft.write(&starts, same_bits, store).map_err(Error::Failure)?;
                return Ok(None);
            }
        }
    }
    Ok(Some(last_mistake))
}

/// Replays the case in `folder` once. Returns the contents of the buffers with these `names`, which go through files in
/// `scratch`.
fn replay(
    folder: &Path,
    names: &[String],
    scratch: &Path,
    dispatch: &SelectedDispatch<'_>,
    setup: &Setup,
    host: &Host,
) -> Result<Replay> {
    let described = describe(&[folder.to_path_buf()], None, &FieldOptions::default())?;
    let problem = match resolve::resolve(&CATALOGUE, &described) {
        Ok(problem) => problem,
        Err(error) => {
            // The folder has another name once the case is complete.
            let reason = error.to_string().replace(&format!("{}/", folder.shown()), "");
            return Ok(Replay::NotRun(reason));
        }
    };
    let buffers: Vec<_> = problem.points.iter().flat_map(|point| point.buffers.clone()).collect();
    let path = |name: &str| scratch.join(file_name(name) + ".bin");
    let saves = names.iter().map(|name| Save { buffer: name.clone(), path: path(name) }).collect();
    let kernels = UserKernels { saves, ..named_kernels(&[], problem, &[])? };
    let selection = Selection { device: vec![uuid(dispatch.device.uuid)], ..Selection::default() };
    let plan = Plan { sections: vec![plan_section(&kernels, false, &selection)?], run_tables: vec![] };
    let tuned = Tuned::none();
    let options = MeasureOptions::new(Timing::VerifyOnly, LimitPolicy::Ignore, &tuned, host.command_line());
    let setup = setup.with_kernels(vec![kernels]);
    let record = match MeasurementCall::new(&plan, &setup, &options, host).measure_quietly() {
        Ok(record) => record,
        Err(Error::Interrupted(before)) => return Err(Error::Interrupted(before)),
        Err(error) => return Ok(Replay::NotRun(error.to_string())),
    };
    let mut same_bits = false;
    let mistake = match record.cases.first().map(|case| &case.outcome) {
        Some(Outcome::Measured(measured)) => match &measured.verification {
            Correctness::Verified(verification) => {
                same_bits = verification.residual == Some(0.0);
                None
            }
            Correctness::Unverified { unverified } => Some(unverified.clone()),
        },
        Some(Outcome::Rejected(verification)) => Some(verification.worst.clone()),
        Some(Outcome::Skipped { reason, .. }) => return Ok(Replay::NotRun(reason.clone())),
        Some(other) => return Ok(Replay::NotRun(other.failure().unwrap_or_else(|| other.status().into()))),
        None => return Ok(Replay::NotRun("no device ran it".into())),
    };
    let mut contents = HashMap::new();
    for buffer in buffers.iter().filter(|buffer| names.contains(&buffer.name)) {
        if let Ok(bytes) = array::read_raw(&path(&buffer.name), buffer.bytes()) {
            contents.insert(buffer.name.clone(), bytes);
        }
    }
    Ok(Replay::Ran { mistake, same_bits, contents })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::case::select_dispatches;
    use crate::capture::fixture::{CapturedFixture, bound, case, floats, region, scale};
    use crate::user::fixture::{described, spirv};
    use crate::{CacheFolder, Instance, Validation};
    use gpukern_layer::format::LayerEvent;

    /// Replaces the captured device by the first one of this machine.
    fn move_to_this_machine(captured: &mut CapturedFixture) {
        let instance = Instance::new(Validation::Off, None).expect("a loader");
        let devices = instance.devices().expect("devices");
        let info = &devices.first().expect("a device").info;
        for event in &mut captured.events {
            if let LayerEvent::Device(device) = event {
                let digits = info.uuid.replace('-', "");
                let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal");
                device.uuid = std::array::from_fn(byte);
                device.name.clone_from(&info.name);
            }
        }
    }

    fn setup() -> Setup {
        Setup::in_process(&CATALOGUE, CacheFolder::none())
    }

    fn host() -> Host {
        Host::in_memory([], [], "gpukern")
    }

    /// Writes and replays the only case of a capture.
    fn convert(captured: &mut CapturedFixture) -> ConvertedCase {
        move_to_this_machine(captured);
        let processes = [captured.events.clone()];
        let dispatches = select_dispatches(&processes, None, &|_, _, _| "k".into());
        let spool = captured.spool.path();
        let output = spool.join("cases");
        std::fs::create_dir_all(&output).expect("made");
        write_cases(&dispatches, spool, &output, &setup(), &host()).expect("written").remove(0)
    }

    fn description(folder: &Path) -> String {
        std::fs::read_to_string(folder.join("case.toml")).expect("a description")
    }

    /// Returns whether a replay with a different kernel is rejected.
    fn is_rejected(captured: &CapturedFixture, folder: &Path, glsl: &str) -> bool {
        let bytes: Vec<u8> = spirv(glsl).iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(folder.join("kernel.spv"), bytes).expect("written");
        let processes = [captured.events.clone()];
        let dispatch = &select_dispatches(&processes, None, &|_, _, _| "k".into())[0];
        let replay = replay(folder, &[], Path::new(""), dispatch, &setup(), &host()).expect("replayed");
        matches!(replay, Replay::Ran { mistake: Some(_), .. })
    }

    /// Returns a kernel with the interface of [`scale`]'s and this body.
    fn kernel(body: &str) -> String {
        format!(
            "#version 460
            layout(local_size_x_id = 0) in;
            layout(constant_id = 1) const float BIAS = 0;
            layout(set = 0, binding = 0) readonly buffer A {{ float a[]; }};
            layout(set = 0, binding = 1) buffer D {{ float d[]; }};
            layout(push_constant) uniform P {{ uint n; float scale; }} p;
            void main() {{ uint i = gl_GlobalInvocationID.x; {body} }}"
        )
    }

    #[test]
    fn a_partially_written_output_is_verified() {
        for changed in [true, false] {
            let mut captured = scale(2f32.to_bits(), changed);
            let answer = [1.0f32 * 2.0 + 0.1, 2.0f32 * 2.0 + 0.1, 7.0, 6.0];
            captured.file("d.after", &floats(&answer));
            if !changed {
                captured.file("d.before", &floats(&answer));
            }
            let ConvertedCase { folder, unverified, .. } = convert(&mut captured);
            let folder = folder.expect("a folder");
            let text = description(&folder);
            assert_eq!(unverified, None, "{text}");
            let case = described(&text);
            assert_eq!((&case["captured"]["exact"], &case["buffer"]["D"]["fill"]), (&true.into(), &"@in/D.bin".into()));
            let writes_nothing = "if (p.n > 9) d[i] = a[i] * p.scale + BIAS;";
            let writes_too_much = "d[i] = i < p.n ? a[i] * p.scale + BIAS : 0.5;";
            for body in [writes_nothing, writes_too_much] {
                assert!(is_rejected(&captured, &folder, &kernel(body)), "{changed}: {body}");
            }
        }
    }

    #[test]
    fn a_different_answer_is_reported_with_its_element() {
        let mut captured = scale(2f32.to_bits(), true);
        captured.file("d.after", &floats(&[2.1, 40.0, 7.0, 6.0]));
        let ConvertedCase { folder, unverified, .. } = convert(&mut captured);
        let folder = folder.expect("a folder");
        assert!(folder.ends_with("cases/.unverified/01-k"), "{}", folder.display());
        assert_eq!(unverified.as_deref(), Some("D[1] is 4.1, the reference has 40"));
        assert_eq!(described(&description(&folder))["captured"]["exact"], false);
    }

    #[test]
    fn a_buffer_that_is_read_and_written_is_updated_in_place() {
        let glsl = "#version 460
            layout(local_size_x = 1) in;
            layout(set = 0, binding = 0) buffer A { float a[]; };
            layout(set = 1, binding = 3) uniform U { float by; vec3 unused; } u;
            void main() { a[1] += u.by; }";
        let mut binding = bound(3, 0, 0, 32);
        (binding.set, binding.region, binding.inline) = (1, None, floats(&[2.5, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0]));
        let captured = case(vec![bound(0, 0, 0, 16), binding], vec![region("a", 16, true, None)], vec![]);
        let mut captured = CapturedFixture::new(glsl, captured, vec![]);
        captured.file("a.before", &floats(&[1.0, 2.0, 3.0, 4.0]));
        captured.file("a.after", &floats(&[1.0, 4.5, 3.0, 4.0]));
        let ConvertedCase { folder, unverified, .. } = convert(&mut captured);
        let text = description(&folder.expect("a folder"));
        assert_eq!(unverified, None, "{text}");
        assert_eq!(described(&text)["uniform"]["1.3"]["by"], 2.5);
    }
}
