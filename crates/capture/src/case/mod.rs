//! Converts captured dispatches to cases: folders that `run` accepts.

mod buffers;
mod source;
pub mod store;
mod text;

use crate::basis::destination::make_private_folder;
use crate::basis::error::Error;
use crate::basis::printable::Shown;
use crate::kernel::interface::Slot;
use crate::user::description::{Described, Description, Kernel, OneOrMany};
use crate::user::init::place;
use crate::user::loaded::{LoadedPass, load_kernels};
use crate::user::options::CASE;
use buffers::{AddressMember, BoundSlot, CaseBuffer, data};
use gpukern_layer::format::{CapturedDispatch, DeviceProperties, LayerEvent, PipelineInfo, ProcessInfo};
use std::collections::HashMap;
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
    /// Device time of all calls with this grid, and the median of one, in nanoseconds.
    pub total: f64,
    pub median: f64,
}

/// Selects the cases of the `top` kernels, counted by grid, with the most device time, in that order. `name` returns
/// the name of a process's pipeline.
pub fn select_dispatches<'a>(
    processes: &'a [Vec<LayerEvent>],
    top: Option<usize>,
    name: &dyn Fn(usize, &PipelineInfo) -> String,
) -> Vec<SelectedDispatch<'a>> {
    let mut kernels: Vec<Vec<SelectedDispatch<'a>>> = vec![];
    for (at, events) in processes.iter().enumerate() {
        let Some(process) = events.iter().find_map(|event| match event {
            LayerEvent::Process(process) => Some(process),
            _ => None,
        }) else {
            continue;
        };
        let times = times(events);
        let mut selected: HashMap<CallKey, Vec<SelectedDispatch<'a>>> = HashMap::new();
        for case in events.iter().filter_map(|event| if let LayerEvent::Case(case) = event { Some(case) } else { None })
        {
            let pipeline = events.iter().find_map(|event| match event {
                LayerEvent::Pipeline(known) if known.pipeline == case.pipeline => Some(known),
                _ => None,
            });
            let Some(pipeline) = pipeline else { continue };
            let device = events.iter().find_map(|event| match event {
                LayerEvent::Device(known) if known.device == pipeline.device => Some(known),
                _ => None,
            });
            let Some(device) = device else { continue };
            let key = call_key(case.pipeline, case.groups, case.indirect);
            let times = times.get(&key).map_or(&[][..], Vec::as_slice);
            let (total, median) = (times.iter().sum(), times.get(times.len() / 2).copied().unwrap_or(0.0));
            let name = name(at, pipeline);
            selected.entry(key).or_default().push(SelectedDispatch {
                name,
                process,
                device,
                pipeline,
                case,
                total,
                median,
            });
        }
        kernels.extend(selected.into_values());
    }
    let order = |cases: &Vec<SelectedDispatch<'_>>| {
        let first = &cases[0];
        (first.process.started, first.pipeline.pipeline, first.case.groups)
    };
    kernels.sort_by(|a, b| b[0].total.total_cmp(&a[0].total).then_with(|| order(a).cmp(&order(b))));
    kernels.into_iter().take(top.unwrap_or(usize::MAX)).flatten().collect()
}

/// Pipeline and grid of a dispatch; no grid for an indirect one.
type CallKey = (u32, Option<[u32; 3]>);

fn call_key(pipeline: u32, groups: [u32; 3], indirect: bool) -> CallKey {
    (pipeline, (!indirect).then_some(groups))
}

/// Collects the times of each kernel's calls in nanoseconds, in ascending order.
fn times(events: &[LayerEvent]) -> HashMap<CallKey, Vec<f64>> {
    let period = |device: u32| {
        events.iter().find_map(|event| match event {
            LayerEvent::Device(known) if known.device == device => Some(f64::from(known.period)),
            _ => None,
        })
    };
    let mut times: HashMap<CallKey, Vec<f64>> = HashMap::new();
    for event in events {
        let LayerEvent::Submission(submission) = event else { continue };
        let period = period(submission.device).unwrap_or(0.0);
        for dispatch in &submission.dispatches {
            let time = dispatch.end.saturating_sub(dispatch.begin) as f64 * period;
            times.entry(call_key(dispatch.pipeline, dispatch.groups, dispatch.indirect)).or_default().push(time);
        }
    }
    for times in times.values_mut() {
        times.sort_by(f64::total_cmp);
    }
    times
}

/// Most characters of a kernel's name in its folder's name.
const MAX_NAME_LEN: usize = 40;

/// Makes the folder name of case `number`. A malicious kernel name cannot lead to another folder.
pub fn folder_name(number: usize, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.chars().take(MAX_NAME_LEN).map(plain).collect();
    let name = name.trim_matches('-');
    format!("{number:02}-{}", if name.is_empty() { "kernel" } else { name })
}

/// Initial contents of buffers that the kernel writes but perhaps does not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Starts {
    /// Contents known without a replay: elements that the call changed must not hold the answer.
    #[default]
    Known,
    /// Inverted answers in every element, to find those that the kernel writes: in buffers that it does not read, and
    /// with `true` also in those that the call did not change.
    Inverted(bool),
    /// Contents that a replay over inverted answers left, by buffer name: only elements that it wrote may be inverted.
    Found(HashMap<String, Vec<u8>>),
}

/// Case in its folder, before the description is written.
pub struct Draft<'a> {
    chosen: &'a SelectedDispatch<'a>,
    folder: PathBuf,
    pass: LoadedPass,
    /// Slots that the kernel uses.
    slots: Vec<BoundSlot<'a>>,
    data: Vec<CaseBuffer>,
    pointers: Vec<AddressMember>,
    /// File name of the source, if the module contains it.
    source: Option<String>,
}

/// File name of the module.
const MODULE: &str = "kernel.spv";

impl<'a> Draft<'a> {
    /// Writes module, source, inputs and outputs to `folder`, with the contents that the layer wrote to `spool`. The
    /// error says why `run` cannot accept the dispatch.
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
        let pass = loaded(chosen.pipeline, folder)?;
        let slots = slots(&pass, chosen.case)?;
        let (data, pointers) = data(&pass, &slots, chosen.case, spool, folder, store)?;
        let folder = folder.to_path_buf();
        Ok(Self { chosen, folder, pass, slots, data, pointers, source: source.map(|(name, _)| name) })
    }

    /// Writes the description, and the initial contents that depend on `starts`.
    pub fn write(&mut self, starts: &Starts, exact: bool, store: &mut Store) -> Result<(), String> {
        for data in &mut self.data {
            data.start(starts, &self.folder, store)?;
        }
        let text = self.text(exact);
        store::write(&self.folder.join(CASE), text.as_bytes()).map_err(|e| format!("'{}': {e}", self.folder.shown()))
    }

    /// Lists the outputs for which only a replay shows which elements the kernel writes; with `all`, also those that it
    /// may read and that the call did not change.
    pub fn doubtful(&self, all: bool) -> Vec<&str> {
        self.data.iter().filter(|data| data.is_doubtful(all)).map(|data| data.name.as_str()).collect()
    }
}

/// Loads the module as `run` does.
fn loaded(pipeline: &PipelineInfo, folder: &Path) -> Result<LoadedPass, String> {
    let entry = Some(pipeline.entry.clone());
    let kernel = Kernel { source: OneOrMany::One(MODULE.into()), entry, ..Kernel::default() };
    let description = Description { kernel: Some(kernel), ..Description::default() };
    let described = Described { description, folder: folder.to_path_buf(), ..Described::default() };
    let kernels = load_kernels(&described).map_err(|fault| fault.message)?;
    let pass = kernels.into_iter().flat_map(|kernel| kernel.passes).next();
    pass.ok_or_else(|| Error::Failure("has no kernel".into()).to_string())
}

/// Returns the slots that the kernel uses.
fn slots<'a>(pass: &LoadedPass, case: &'a CapturedDispatch) -> Result<Vec<BoundSlot<'a>>, String> {
    let all = pass.interface.slots.iter().zip(pass.accesses()?).map(|(slot, access)| {
        let key = (slot.set, slot.binding, slot.element);
        let bound = case.bindings.iter().find(|bound| (bound.set, bound.binding, bound.element) == key);
        let bound = bound.ok_or_else(|| format!("has nothing bound at {}", place(slot)))?;
        Ok(BoundSlot { slot: slot.clone(), access, bound })
    });
    all.collect()
}

#[cfg(test)]
pub mod tests;
