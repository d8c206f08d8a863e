//! Converts captured dispatches to cases: folders that `run` accepts.

mod buffers;
mod images;
pub(crate) mod source;
pub mod store;
mod text;

use crate::basis::destination::make_private_folder;
use crate::basis::error::Error;
use crate::basis::printable::{Shown, printable};
use crate::basis::units::Nanos;
use crate::kernel::interface::Slot;
use crate::profile::{CallTimes, is_first_call};
use crate::user::description::{Described, Description, KernelFields, OneOrMany};
use crate::user::init::place;
use crate::user::loaded::{LoadedPass, load_kernels};
use crate::user::options::CASE;
use buffers::{BoundSlot, CaseBuffer, ParameterBlock, collect_buffers};
use gpukern_layer::format::{CapturedDispatch, DeviceProperties, LayerEvent, PipelineInfo, ProcessInfo};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use store::Store;

/// Captured dispatch that becomes a case.
#[derive(Clone, Debug)]
pub struct SelectedDispatch<'a> {
    /// Name of the kernel.
    pub name: String,
    pub process: &'a ProcessInfo,
    pub device: &'a DeviceProperties,
    pub pipeline: &'a PipelineInfo,
    pub case: &'a CapturedDispatch,
    /// Device time of all calls with this grid, without first ones on a software device unless there are no others, in
    /// nanoseconds.
    pub total: f64,
    /// Median time of these calls; `None` for first calls and without timestamps.
    pub median: Option<f64>,
}

/// Selects the cases of the `top` kernels, counted by grid, with the most device time, in that order. `name` returns
/// the name of a process's pipeline under a label.
pub fn select_dispatches<'a>(
    processes: &'a [Vec<LayerEvent>],
    top: Option<usize>,
    name: &dyn Fn(usize, &PipelineInfo, Option<&str>) -> String,
) -> Vec<SelectedDispatch<'a>> {
    // The calls of each kernel and grid.
    let mut kernels: Vec<Vec<SelectedDispatch<'a>>> = vec![];
    for (number, events) in processes.iter().enumerate() {
        let mut process = None;
        let mut devices = HashMap::new();
        let mut pipelines = HashMap::new();
        for event in events {
            match event {
                LayerEvent::Process(info) => process = process.or(Some(info)),
                LayerEvent::Device(info) => drop(devices.insert(info.device, info)),
                LayerEvent::Pipeline(info) => drop(pipelines.insert(info.pipeline, info)),
                _ => {}
            }
        }
        let Some(process) = process else { continue };
        let times = call_times(events, &devices);
        let mut selected: HashMap<CallKey, Vec<SelectedDispatch<'a>>> = HashMap::new();
        for event in events {
            let LayerEvent::Case(case) = event else { continue };
            let Some(pipeline) = pipelines.get(&case.pipeline).copied() else { continue };
            let Some(device) = devices.get(&pipeline.device).copied() else { continue };
            let key = call_key(case.pipeline, case.groups, case.indirect);
            let (total, median) = times.get(&key).copied().unwrap_or_default();
            let name = name(number, pipeline, case.label.as_deref());
            let dispatch = SelectedDispatch { name, process, device, pipeline, case, total, median };
            selected.entry(key).or_default().push(dispatch);
        }
        kernels.extend(selected.into_values());
    }
    kernels.sort_by(|a, b| {
        let order = |first: &SelectedDispatch<'_>| (first.process.started, first.pipeline.pipeline, first.case.groups);
        b[0].total.total_cmp(&a[0].total).then_with(|| order(&a[0]).cmp(&order(&b[0])))
    });
    kernels.into_iter().take(top.unwrap_or(usize::MAX)).flatten().collect()
}

/// Pipeline and grid of a dispatch; no grid for an indirect one.
type CallKey = (u32, Option<[u32; 3]>);

fn call_key(pipeline: u32, groups: [u32; 3], indirect: bool) -> CallKey {
    (pipeline, (!indirect).then_some(groups))
}

/// Returns the total and the median time of each kernel's calls, as in [`SelectedDispatch`].
fn call_times(
    events: &[LayerEvent],
    devices: &HashMap<u32, &DeviceProperties>,
) -> HashMap<CallKey, (f64, Option<f64>)> {
    let mut times: HashMap<CallKey, CallTimes> = HashMap::new();
    let mut called = HashSet::new();
    let mut is_sampled = false;
    for event in events {
        if let LayerEvent::Process(process) = event {
            is_sampled = process.sample > 1;
        }
        let LayerEvent::Submission(submission) = event else { continue };
        let Some(device) = devices.get(&submission.device) else { continue };
        for dispatch in &submission.dispatches {
            let ticks = dispatch.end.saturating_sub(dispatch.begin);
            let time = Nanos(ticks as f64 * f64::from(device.period));
            let is_timed = (dispatch.begin, dispatch.end) != (0, 0);
            let is_first = is_first_call(device, dispatch, &mut called);
            let key = call_key(dispatch.pipeline, dispatch.groups, dispatch.indirect);
            times.entry(key).or_default().add(is_timed.then_some(time), is_first);
        }
    }
    let summarized = times.into_iter().map(|(key, mut times)| {
        let total = times.summary(is_sampled).map_or(0.0, |times| times.total.0);
        let later = &mut times.later;
        later.sort_by(|a, b| a.0.total_cmp(&b.0));
        let median = later.get(later.len() / 2).map(|time| time.0);
        (key, (total, median.filter(|median| *median > 0.0)))
    });
    summarized.collect()
}

/// Most characters of a kernel's name in its folder's name.
const MAX_NAME_LEN: usize = 40;

/// Makes the folder name of case `number`: `03-mul_mat_vec`. A malicious kernel name cannot lead to another folder.
pub fn folder_name(number: usize, name: &str) -> String {
    let to_plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.chars().take(MAX_NAME_LEN).map(to_plain).collect();
    let name = name.trim_matches('-');
    format!("{number:02}-{}", if name.is_empty() { "kernel" } else { name })
}

/// Initial contents of buffers that the kernel writes but perhaps does not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Starts {
    /// Without a replay: the contents before the call, with the answer inverted in the elements that the call changed,
    /// so that a kernel which does nothing fails.
    #[default]
    Known,
    /// For a replay that finds the elements which the kernel writes: the inverted answer in every element of buffers
    /// that it does not read, and with `true` also of those that the call did not change.
    Inverted(bool),
    /// After such a replay, by buffer name, the contents that it left: the answer is inverted in the elements that the
    /// replay wrote.
    Found(HashMap<String, Vec<u8>>),
}

/// Case in its folder, before the description is written.
pub struct Draft<'a> {
    chosen: &'a SelectedDispatch<'a>,
    folder: PathBuf,
    pass: LoadedPass,
    /// Slots that the kernel uses.
    slots: Vec<BoundSlot<'a>>,
    buffers: Vec<CaseBuffer>,
    /// Push constants and blocks whose members the description lists.
    blocks: Vec<ParameterBlock>,
    /// File name of the source, if the module contains it.
    source: Option<String>,
}

/// File name of the module.
const MODULE: &str = "kernel.spv";

impl<'a> Draft<'a> {
    /// Creates `folder` and writes the module, its source if it has one, and the buffers to it; their contents come
    /// from the files that the layer wrote to `spool`. The error says why `run` cannot accept the dispatch, or which
    /// file could not be written.
    pub fn new(
        chosen: &'a SelectedDispatch<'a>,
        spool: &Path,
        folder: &Path,
        store: &mut Store,
    ) -> Result<Self, String> {
        let CapturedDispatch { lost, base, groups, .. } = chosen.case;
        if let Some(why) = lost {
            return Err(why.clone());
        }
        if *base != [0; 3] {
            return Err(format!("starts at work-group {base:?} (vkCmdDispatchBase), and `run` at the first"));
        }
        if groups.contains(&0) {
            return Err(format!("has an empty grid, {groups:?}"));
        }
        let failed = |e: std::io::Error| format!("'{}': {e}", folder.shown());
        make_private_folder(folder).map_err(failed)?;
        let words = &chosen.pipeline.spirv;
        store::write(&folder.join(MODULE), &crate::user::loaded::bytes(words)).map_err(failed)?;
        let source = source::embedded(words).map(|(text, ending)| (format!("kernel.{ending}"), text));
        if let Some((name, text)) = &source {
            store::write(&folder.join(name), text.as_bytes()).map_err(failed)?;
        }
        let pass = load_pass(chosen.pipeline, folder)?;
        let slots = bound_slots(&pass, chosen.case)?;
        let (buffers, blocks) = collect_buffers(&pass, &slots, chosen.case, spool, folder, store)?;
        let folder = folder.to_path_buf();
        Ok(Self { chosen, folder, pass, slots, buffers, blocks, source: source.map(|(name, _)| name) })
    }

    /// Writes the description, and the initial contents that depend on `starts`.
    pub fn write(&mut self, starts: &Starts, exact: bool, store: &mut Store) -> Result<(), String> {
        for buffer in &mut self.buffers {
            buffer.set_fill(starts, &self.folder, store)?;
        }
        let text = self.text(exact);
        store::write(&self.folder.join(CASE), text.as_bytes()).map_err(|e| format!("'{}': {e}", self.folder.shown()))
    }

    /// Lists the outputs for which only a replay shows which elements the kernel writes; with `all`, also those that it
    /// may read and that the call did not change.
    pub fn doubtful(&self, all: bool) -> Vec<&str> {
        self.buffers.iter().filter(|buffer| buffer.is_doubtful(all)).map(|buffer| buffer.name.as_str()).collect()
    }
}

/// Writes the module of a pipeline to a new folder, with a description that compiles it as the program did: the entry
/// point, the sub-group size and the specialization constants. It has neither buffers nor a grid.
pub fn write_only_kernel(pipeline: &PipelineInfo, name: &str, folder: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("'{}': {e}", folder.shown());
    make_private_folder(folder).map_err(failed)?;
    store::write(&folder.join(MODULE), &crate::user::loaded::bytes(&pipeline.spirv)).map_err(failed)?;
    let pass = load_pass(pipeline, folder)?;
    let name = printable(name);
    let head =
        format!("# {name}: a driver was compiling it when the program ended. `gpukern inspect` compiles it again.\n");
    store::write(&folder.join(CASE), text::only_kernel(pipeline, &pass, head).as_bytes()).map_err(failed)
}

/// Loads the module as `run` does.
fn load_pass(pipeline: &PipelineInfo, folder: &Path) -> Result<LoadedPass, String> {
    let entry = Some(pipeline.entry.clone());
    let kernel = KernelFields { source: OneOrMany::One(MODULE.into()), entry, ..KernelFields::default() };
    let description = Description { kernel: Some(kernel), ..Description::default() };
    let described = Described { description, folder: folder.to_path_buf(), ..Described::default() };
    let kernels = load_kernels(&described).map_err(|fault| fault.message)?;
    let pass = kernels.into_iter().flat_map(|kernel| kernel.passes).next();
    pass.ok_or_else(|| Error::Failure("has no kernel".into()).to_string())
}

/// Returns the slots that the kernel uses, with the descriptors bound to them.
fn bound_slots<'a>(pass: &LoadedPass, case: &'a CapturedDispatch) -> Result<Vec<BoundSlot<'a>>, String> {
    let mut slots = vec![];
    for (slot, access) in pass.interface.slots.iter().zip(pass.accesses()) {
        let key = (slot.set, slot.binding, slot.element);
        let bound = case.bindings.iter().find(|bound| (bound.set, bound.binding, bound.element) == key);
        let bound = bound.ok_or_else(|| format!("has nothing bound at {}", place(slot)))?;
        slots.push(BoundSlot { slot: slot.clone(), access, bound });
    }
    Ok(slots)
}

#[cfg(test)]
pub mod tests;
