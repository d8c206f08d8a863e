//! Writes captured dispatches as cases that `run` accepts, and replays each case to check that it reproduces the
//! program's results.

use super::{named_kernels, planned};
use crate::basis::destination::make_private_folder;
use crate::basis::error::Error;
use crate::basis::file_name::file_name;
use crate::basis::printable::Shown;
use crate::capture::case::store::Store;
use crate::capture::case::{Draft, SelectedDispatch, Starts, folder_name};
use crate::commands::host::Host;
use crate::commands::measure_quietly;
use crate::engine::measurement::{LimitPolicy, MeasureOptions};
use crate::engine::runner::Timing;
use crate::engine::session::Setup;
use crate::kernels::CATALOGUE;
use crate::plan::Plan;
use crate::plan::options::Selection;
use crate::plan::request::FieldOptions;
use crate::record::{Correctness, Outcome};
use crate::tuning::tuned::Tuned;
use crate::user::algorithm::{Save, UserKernels};
use crate::user::options::describe;
use crate::user::{array, resolve};
use crate::vulkan::uuid;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Outcome of converting a dispatch.
pub(crate) struct ConvertedCase {
    /// Name of its kernel.
    pub(crate) name: String,
    /// Folder of the case; `None` if `run` cannot accept it.
    pub(crate) folder: Option<PathBuf>,
    /// Whether a replay reproduced the program's results; if not, the reason.
    pub(crate) verified: Result<(), String>,
}

/// Folder of cases whose replay gave different results. The shell's `*` does not match it.
const UNVERIFIED: &str = ".unverified";

/// Result of a replay.
enum Replay {
    Right {
        same_bits: bool,
    },
    Wrong(String),
    /// Not run.
    None(String),
}

/// Writes the cases of `all`, with their contents from `spool`, to folders below `output`, and replays each on its
/// original device if `rerun` is set. A folder is completed in `spool`, on the same file system, and then renamed, so
/// that no incomplete case remains if the process ends early. Cases that fail the replay go to [`UNVERIFIED`].
pub(crate) fn write_cases(
    all: &[SelectedDispatch<'_>],
    spool: &Path,
    output: &Path,
    rerun: Option<(&Setup, &Host)>,
) -> Result<Vec<ConvertedCase>, Error> {
    let mut store = Store::default();
    let mut written = vec![];
    for chosen in all {
        let case_name = folder_name(written.len() + 1, &chosen.name);
        let name = chosen.name.clone();
        let made = spool.join(&case_name);
        match Draft::new(chosen, spool, &made, &mut store) {
            Ok(mut draft) => {
                let verified = write_verified(&mut draft, chosen, &made, &mut store, rerun)?;
                let place = if verified.is_ok() { output.to_path_buf() } else { output.join(UNVERIFIED) };
                let folder = place.join(&case_name);
                let failed = |e| Error::Failure(format!("'{}': {e}", folder.shown()));
                make_private_folder(&place).and_then(|()| std::fs::rename(&made, &folder)).map_err(failed)?;
                store.moved(&made, &folder);
                written.push(ConvertedCase { name, folder: Some(folder), verified });
            }
            Err(reason) => {
                let _ = std::fs::remove_dir_all(&made);
                written.push(ConvertedCase { name, folder: None, verified: Err(reason) });
            }
        }
    }
    Ok(written)
}

/// Writes the description so that a replay reproduces the program's results, or else so that no wrong result passes.
fn write_verified(
    draft: &mut Draft<'_>,
    chosen: &SelectedDispatch<'_>,
    folder: &Path,
    store: &mut Store,
    rerun: Option<(&Setup, &Host)>,
) -> Result<Result<(), String>, Error> {
    let failed = Error::Failure;
    draft.write(&Starts::Known, false, store).map_err(failed)?;
    let Some((setup, host)) = rerun else { return Ok(Err("not run again".into())) };
    let mut last = String::new();
    // The analysis may report reads that never happen. First assume that unchanged buffers are only written.
    for all in [true, false] {
        let doubtful: Vec<String> = draft.doubtful(all).into_iter().map(String::from).collect();
        if !all && doubtful == draft.doubtful(true) {
            break;
        }
        let mut found = HashMap::new();
        if !doubtful.is_empty() {
            draft.write(&Starts::Inverted(all), false, store).map_err(failed)?;
            let scratch = crate::basis::destination::Scratch::new().map_err(|e| failed(e.to_string()))?;
            let (replay, left) = replay(folder, &doubtful, &scratch.path(), chosen, setup, host)?;
            found = left;
            if let Replay::None(reason) = replay {
                draft.write(&Starts::Known, false, store).map_err(failed)?;
                return Ok(Err(reason));
            }
        }
        let starts = Starts::Found(found);
        draft.write(&starts, false, store).map_err(failed)?;
        match replay(folder, &[], Path::new(""), chosen, setup, host)?.0 {
            Replay::Right { same_bits } => {
                draft.write(&starts, same_bits, store).map_err(failed)?;
                return Ok(Ok(()));
            }
            Replay::Wrong(reason) => last = reason,
            Replay::None(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Err(last))
}

/// Replays the case in `folder` once; also returns the contents of the buffers `wanted`.
fn replay(
    folder: &Path,
    wanted: &[String],
    scratch: &Path,
    chosen: &SelectedDispatch<'_>,
    setup: &Setup,
    host: &Host,
) -> Result<(Replay, HashMap<String, Vec<u8>>), Error> {
    let described = describe(&[folder.to_path_buf()], None, &FieldOptions::default())?;
    let run = resolve::resolve(&CATALOGUE, &described)?;
    let buffers: Vec<_> = run.points.iter().flat_map(|point| point.buffers.clone()).collect();
    let path = |name: &str| scratch.join(file_name(name) + ".npy");
    let saves = wanted.iter().map(|name| Save { buffer: name.clone(), path: path(name) }).collect();
    let kernels = UserKernels { saves, ..named_kernels(&[], run, &[])? };
    let device = vec![uuid(chosen.device.uuid)];
    let selection = Selection { device, ..Selection::default() };
    let plan = Plan { sections: vec![planned(&kernels, false, &selection)?], run_tables: vec![] };
    let tuned = Tuned::none();
    let options = MeasureOptions::new(Timing::VerifyOnly, LimitPolicy::Ignore, &tuned, host.command_line());
    let record = match measure_quietly(&plan, &setup.with_kernels(vec![kernels]), &options, host) {
        Ok(record) => record,
        Err(Error::Interrupted(why)) => return Err(Error::Interrupted(why)),
        Err(error) => return Ok((Replay::None(error.to_string()), HashMap::new())),
    };
    let left = buffers.iter().filter(|buffer| wanted.contains(&buffer.name)).filter_map(|buffer| {
        let bytes = array::read(&path(&buffer.name), buffer.element, &buffer.shape).ok()?;
        Some((buffer.name.clone(), bytes))
    });
    let replay = match record.cases.first().map(|case| &case.outcome) {
        Some(Outcome::Measured(measured)) => match &measured.verification {
            Correctness::Verified(found) => Replay::Right { same_bits: found.residual == Some(0.0) },
            Correctness::Unverified { unverified } => Replay::Wrong(unverified.clone()),
        },
        Some(Outcome::Rejected(found)) => Replay::Wrong(found.worst.clone()),
        Some(Outcome::Skipped { reason }) => Replay::None(reason.clone()),
        Some(other) => Replay::None(other.failure().unwrap_or_else(|| other.status().into())),
        None => Replay::None("no device ran it".into()),
    };
    Ok((replay, left.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::case::select_dispatches;
    use crate::capture::fixture::{CapturedFixture, bound, case, floats, region, scale};
    use crate::device::cache::CacheFolder;
    use crate::user::fixture::described;
    use crate::user::fixture::spirv;

    use crate::vulkan::{Instance, Validation};
    use gpukern_layer::format::LayerEvent;

    /// Replaces the captured device by the first one of this machine.
    fn here(captured: &mut CapturedFixture) {
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

    /// Writes the case; returns its folder, its description and the result of its replay.
    fn written(captured: &mut CapturedFixture) -> (PathBuf, String, Result<(), String>) {
        here(captured);
        let all = [captured.events.clone()];
        let chosen = select_dispatches(&all, None, &|_, _| "k".into());
        let output = captured.spool.path().join("cases");
        std::fs::create_dir_all(&output).expect("made");
        let mut found = write_cases(
            &chosen,
            captured.spool.path(),
            &output,
            Some((&Setup::in_process(&CATALOGUE, CacheFolder::none()), &Host::in_memory([], [], "gpukern"))),
        )
        .expect("written");
        let converted = found.pop().expect("one");
        let folder = converted.folder.expect("a folder");
        let text = std::fs::read_to_string(folder.join("case.toml")).expect("a description");
        (folder, text, converted.verified)
    }

    /// Replays the case with a different kernel.
    fn with(captured: &CapturedFixture, folder: &Path, glsl: &str) -> Replay {
        let bytes: Vec<u8> = spirv(glsl).iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(folder.join("kernel.spv"), bytes).expect("written");
        let all = [captured.events.clone()];
        replay(
            folder,
            &[],
            Path::new(""),
            &select_dispatches(&all, None, &|_, _| "k".into())[0],
            &Setup::in_process(&CATALOGUE, CacheFolder::none()),
            &Host::in_memory([], [], "gpukern"),
        )
        .expect("replayed")
        .0
    }

    /// Returns a kernel with the interface of [`scale`]'s and this body.
    fn other(body: &str) -> String {
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

    const NOTHING: &str = "if (p.n > 9) d[i] = a[i] * p.scale + BIAS;";

    #[test]
    fn a_partially_written_output_is_verified() {
        for changed in [true, false] {
            let mut captured = scale(2f32.to_bits(), changed);
            let right = [1.0f32 * 2.0 + 0.1, 2.0f32 * 2.0 + 0.1, 7.0, 6.0];
            captured.file("d.after", &floats(&right));
            if !changed {
                captured.file("d.before", &floats(&right));
            }
            let (folder, text, verified) = written(&mut captured);
            assert_eq!(verified, Ok(()), "{text}");
            let case = described(&text);
            assert_eq!((&case["captured"]["exact"], &case["buffer"]["D"]["fill"]), (&true.into(), &"@in/D.bin".into()));
            let beyond = other("d[i] = i < p.n ? a[i] * p.scale + BIAS : 0.5;");
            for wrong in [other(NOTHING), beyond] {
                assert!(matches!(with(&captured, &folder, &wrong), Replay::Wrong(_)), "{changed}: {wrong}");
            }
        }
    }

    #[test]
    fn a_different_answer_is_reported_with_its_element() {
        let mut captured = scale(2f32.to_bits(), true);
        captured.file("d.after", &floats(&[2.1, 40.0, 7.0, 6.0]));
        let (folder, text, verified) = written(&mut captured);
        let why = verified.expect_err("another answer");
        assert!(folder.ends_with("cases/.unverified/01-k"), "{}", folder.display());
        assert_eq!(why, "D[1] is 4.1, the reference has 40");
        assert_eq!(described(&text)["captured"]["exact"], false);
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
        let (_, text, verified) = written(&mut captured);
        assert_eq!(verified, Ok(()), "{text}");
        assert_eq!(described(&text)["uniform"]["1.3"]["by"], 2.5);
    }
}
