//! Reads the events that the layer of `gpukern capture` wrote, one file per process, and builds profile, trace and
//! cases from them.

pub mod case;
pub mod fixture;
pub mod profile;
pub mod trace;

#[cfg(test)]
use gpukern_kernels as kernels;
use gpukern_model::{basis, device, stats};
use gpukern_program::kernel;
use gpukern_user as user;

use crate::basis::printable::Shown;
use gpukern_layer::format::{self, CreatedPipeline, LayerEvent, PipelineInfo};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Contents of the layer's shared object, compiled into gpukern; empty in a cross-compiled one.
pub const LAYER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/layer"));

/// Reads the events of each process in `folder`, sorted by the start of the processes. The error names the unreadable
/// file.
pub fn read(folder: &Path) -> io::Result<Vec<Vec<LayerEvent>>> {
    let mut processes = vec![];
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != format::ENDING) {
            continue;
        }
        let events = std::fs::read(&path).and_then(|bytes| format::decode_events(&bytes));
        let events = events.map_err(|e| io::Error::new(e.kind(), format!("'{}' {e}", path.shown())))?;
        let events = with_creations(events);
        if !events.is_empty() {
            processes.push(events);
        }
    }
    processes.sort_by_key(|events| match events.first() {
        Some(LayerEvent::Process(process)) => (process.started, process.id),
        _ => (u64::MAX, 0),
    });
    Ok(processes)
}

/// Gives each pipeline the time of its creation, and leaves out those whose creation failed.
fn with_creations(events: Vec<LayerEvent>) -> Vec<LayerEvent> {
    let created = |event: &LayerEvent| match event {
        LayerEvent::Created(created) => Some((created.pipeline, created.clone())),
        _ => None,
    };
    let created: HashMap<u32, CreatedPipeline> = events.iter().filter_map(created).collect();
    let mut kept = vec![];
    for event in events {
        match event {
            LayerEvent::Created(_) => {}
            LayerEvent::Pipeline(mut info) => match created.get(&info.pipeline) {
                Some(CreatedPipeline { success: false, .. }) => {}
                end => {
                    info.took = end.map(|end| end.took);
                    kept.push(LayerEvent::Pipeline(info));
                }
            },
            other => kept.push(other),
        }
    }
    kept
}

/// Returns the pipelines of a process whose creation never ended: the driver was compiling them when it did.
pub fn unfinished(events: &[LayerEvent]) -> impl Iterator<Item = &PipelineInfo> {
    events.iter().filter_map(|event| match event {
        LayerEvent::Pipeline(info) if info.took.is_none() => Some(info),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpukern_layer::format::ProcessInfo;

    /// Encodes the events as a process's file.
    fn file(events: &[LayerEvent]) -> Vec<u8> {
        format::MAGIC.into_iter().chain(events.iter().flat_map(format::encode_frame)).collect()
    }

    #[test]
    fn processes_are_sorted_by_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let process = |id, started| {
            vec![LayerEvent::Process(ProcessInfo {
                id,
                arguments: vec![],
                started,
                application: None,
                engine: None,
                sample: 0,
            })]
        };
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).expect("written");
        write("9.events", &file(&process(9, 2)));
        write("10.events", &file(&process(10, 1)));
        write("killed.events", &format::MAGIC[..3]);
        write("b1.bin", b"bytes of a buffer");
        write(format::SETTINGS, b"");
        assert_eq!(read(folder.path()).expect("readable"), [process(10, 1), process(9, 2)]);
        write("old.events", b"gpukcap\x63abc");
        let error = read(folder.path()).expect_err("another version").to_string();
        let old = folder.path().join("old.events");
        assert_eq!(error, format!("'{}' is no file of a capture by this version of gpukern", old.display()));
    }
}
