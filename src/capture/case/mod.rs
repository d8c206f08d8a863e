//! What becomes of a dispatch that was taken: a folder that `run` takes.

mod buffers;
mod source;
pub(crate) mod store;
mod text;

use crate::basis::destination::make_private_folder;
use crate::basis::error::Error;
use crate::basis::printable::Shown;
use crate::kernel::interface::Slot;
use crate::run::access::Access;
use crate::run::description::{Described, Description, Kernel, Listed};
use crate::run::init::place;
use crate::run::loaded::{LoadedPass, programs};
use crate::run::options::CASE;
use buffers::{Data, Pointer, data};
use gpukern_layer::format::{Binding, Case, Device, Event, Pipeline, Process};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use store::Store;

/// A dispatch that is to become a folder.
#[derive(Clone, Debug)]
pub(crate) struct Chosen<'a> {
    /// What the kernel is called.
    pub(crate) name: String,
    pub(crate) process: &'a Process,
    pub(crate) device: &'a Device,
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) case: &'a Case,
    /// The device time of all calls with this grid, and the median of one, in nanoseconds.
    pub(crate) total: f64,
    pub(crate) median: f64,
}

/// The kernels that took most device time with one grid, those with most first: all cases of the first `top`. `name` says
/// what a pipeline of a process is called.
pub(crate) fn chosen<'a>(
    processes: &'a [Vec<Event>],
    top: Option<usize>,
    name: &dyn Fn(usize, &Pipeline) -> String,
) -> Vec<Chosen<'a>> {
    let mut kernels: Vec<Vec<Chosen<'a>>> = vec![];
    for (at, events) in processes.iter().enumerate() {
        let Some(process) = events.iter().find_map(|event| match event {
            Event::Process(process) => Some(process),
            _ => None,
        }) else {
            continue;
        };
        let times = times(events);
        let mut own: HashMap<Key, Vec<Chosen<'a>>> = HashMap::new();
        for case in events.iter().filter_map(|event| if let Event::Case(case) = event { Some(case) } else { None }) {
            let pipeline = events.iter().find_map(|event| match event {
                Event::Pipeline(known) if known.pipeline == case.pipeline => Some(known),
                _ => None,
            });
            let Some(pipeline) = pipeline else { continue };
            let device = events.iter().find_map(|event| match event {
                Event::Device(known) if known.device == pipeline.device => Some(known),
                _ => None,
            });
            let Some(device) = device else { continue };
            let key = key(case.pipeline, case.groups, case.indirect);
            let times = times.get(&key).map_or(&[][..], Vec::as_slice);
            let (total, median) = (times.iter().sum(), times.get(times.len() / 2).copied().unwrap_or(0.0));
            let name = name(at, pipeline);
            own.entry(key).or_default().push(Chosen { name, process, device, pipeline, case, total, median });
        }
        kernels.extend(own.into_values());
    }
    let order = |cases: &Vec<Chosen<'_>>| {
        let first = &cases[0];
        (first.process.started, first.pipeline.pipeline, first.case.groups)
    };
    kernels.sort_by(|a, b| b[0].total.total_cmp(&a[0].total).then_with(|| order(a).cmp(&order(b))));
    kernels.into_iter().take(top.unwrap_or(usize::MAX)).flatten().collect()
}

/// A pipeline and its grid; none where the grid came from a buffer.
type Key = (u32, Option<[u32; 3]>);

fn key(pipeline: u32, groups: [u32; 3], indirect: bool) -> Key {
    (pipeline, (!indirect).then_some(groups))
}

/// The times of each kernel's calls in nanoseconds, shortest first.
fn times(events: &[Event]) -> HashMap<Key, Vec<f64>> {
    let period = |device: u32| {
        events.iter().find_map(|event| match event {
            Event::Device(known) if known.device == device => Some(f64::from(known.period)),
            _ => None,
        })
    };
    let mut times: HashMap<Key, Vec<f64>> = HashMap::new();
    for event in events {
        let Event::Submission(submission) = event else { continue };
        let period = period(submission.device).unwrap_or(0.0);
        for own in &submission.dispatches {
            let time = own.end.saturating_sub(own.begin) as f64 * period;
            times.entry(key(own.pipeline, own.groups, own.indirect)).or_default().push(time);
        }
    }
    for times in times.values_mut() {
        times.sort_by(f64::total_cmp);
    }
    times
}

/// Characters of a kernel's name in that of its folder.
const MOST_OF_A_NAME: usize = 40;

/// The name of the folder of case `number`: nothing that a module can be called leads elsewhere.
pub(crate) fn folder_name(number: usize, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.chars().take(MOST_OF_A_NAME).map(plain).collect();
    let name = name.trim_matches('-');
    format!("{number:02}-{}", if name.is_empty() { "kernel" } else { name })
}

/// What buffers hold before a run that the kernel may not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Starts {
    /// What can be known without a device: of what the program's call changed, something else than the answer.
    #[default]
    Known,
    /// Something else than the answer in every element, in buffers that the kernel may not read, and with `true` also in
    /// those that it left as they were: to find out which elements it writes.
    Inverted(bool),
    /// What a run over that left, by the names of buffers: only what it wrote need not be there before.
    Found(HashMap<String, Vec<u8>>),
}

/// A case whose kernel, inputs and outputs are in its folder, but for the description.
pub(crate) struct Draft<'a> {
    chosen: &'a Chosen<'a>,
    folder: PathBuf,
    pass: LoadedPass,
    /// The slots that the kernel uses: what it does with each, what is bound there.
    slots: Vec<(Slot, Access, &'a Binding)>,
    data: Vec<Data>,
    pointers: Vec<Pointer>,
    /// The file of its source, if the module has it.
    source: Option<String>,
}

/// The module's file.
const MODULE: &str = "kernel.spv";

impl<'a> Draft<'a> {
    /// Writes module, source, inputs and outputs to `folder`, with the bytes that the layer wrote to `spool`.
    ///
    /// # Errors
    /// Why `run` cannot take the dispatch, with the place; why a file cannot be read or written.
    pub(crate) fn new(chosen: &'a Chosen<'a>, spool: &Path, folder: &Path, store: &mut Store) -> Result<Self, String> {
        let Case { lost, base, groups, .. } = chosen.case;
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
        store::write(&folder.join(MODULE), &crate::run::loaded::bytes(words)).map_err(failed)?;
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

    /// Writes the description, and what buffers hold before a run that depends on `starts`.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub(crate) fn write(&mut self, starts: &Starts, exact: bool, store: &mut Store) -> Result<(), String> {
        for data in &mut self.data {
            data.start(starts, &self.folder, store)?;
        }
        let text = self.text(exact);
        store::write(&self.folder.join(CASE), text.as_bytes()).map_err(|e| format!("'{}': {e}", self.folder.shown()))
    }

    /// The outputs of which a run over something else must tell which elements the kernel writes: with `all` also those
    /// that it may read and left as they were.
    pub(crate) fn doubtful(&self, all: bool) -> Vec<&str> {
        self.data.iter().filter(|data| data.is_doubtful(all)).map(|data| data.name.as_str()).collect()
    }
}

/// The module as `run` reads it.
fn loaded(pipeline: &Pipeline, folder: &Path) -> Result<LoadedPass, String> {
    let entry = Some(pipeline.entry.clone());
    let kernel = Kernel { source: Listed::One(MODULE.into()), entry, ..Kernel::default() };
    let description = Description { kernel: Some(kernel), ..Description::default() };
    let described = Described { description, folder: folder.to_path_buf(), ..Described::default() };
    let programs = programs(&described).map_err(|fault| fault.message)?;
    let pass = programs.into_iter().flat_map(|program| program.passes).next();
    pass.ok_or_else(|| Error::Failure("has no kernel".into()).to_string())
}

/// What the kernel does with each slot that it uses, and what is bound there.
fn slots<'a>(pass: &LoadedPass, case: &'a Case) -> Result<Vec<(Slot, Access, &'a Binding)>, String> {
    let accesses = pass.accesses()?;
    let bound = |slot: &Slot| {
        let place = (slot.set, slot.binding, slot.element);
        case.bindings.iter().find(|own| (own.set, own.binding, own.element) == place)
    };
    let all = pass.interface.slots.iter().zip(accesses);
    let all = all.map(|(slot, access)| {
        let bound = bound(slot).ok_or_else(|| format!("has nothing bound at {}", place(slot)))?;
        Ok((slot.clone(), access, bound))
    });
    all.collect()
}

#[cfg(test)]
pub(crate) mod tests;
