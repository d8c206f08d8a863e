//! What the layer tells `gpukern capture`: a folder with [`Settings`] for the layer and, from each process that makes a
//! Vulkan device, a file of [`Event`]s beside the bytes of buffers.
//!
//! A file of events is [`MAGIC`], then frames: the length of an event in bytes (u32, little-endian) and the event as
//! [postcard](https://postcard.jamesmunns.com/wire-format). Each frame is written by one call, so a program that is
//! killed loses at most the frame that was being written.

use serde::{Deserialize, Serialize};
use std::io;

/// The start of every file: what it is, and the version of the format. A layer and a reader of different versions never
/// meet, because `gpukern` carries its own layer; a file that is kept may still be older.
pub const MAGIC: [u8; 8] = *b"gpukcap\x01";
/// The environment variable that names the folder. Without it the layer does nothing.
pub const FOLDER: &str = "GPUKERN_CAPTURE";
/// The file in that folder with the [`Settings`].
pub const SETTINGS: &str = "settings";
/// How the names of files of events end; they start with the process's id.
pub const ENDING: &str = "events";

/// What the layer is to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Let dispatches overlap as the program has them; their times then overlap too.
    pub overlapped: bool,
    /// What to copy; nothing without it.
    pub take: Option<Take>,
}

/// Which dispatches to copy. Dispatches of one pipeline and one grid are calls of the same kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Take {
    /// Only kernels whose name matches this regular expression.
    pub kernel: Option<String>,
    /// The first call to take of each kernel and grid, from 1.
    pub call: u64,
    /// Take every so many calls from there on; only that one without it.
    pub every: Option<u64>,
    /// Bytes of buffers to write at most.
    pub max_bytes: u64,
}

/// Something that happened. Times of the host are nanoseconds of one clock that starts with the process's first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The first of each file.
    Process(Process),
    Device(Device),
    Pipeline(Pipeline),
    /// A name that the program gives to a pipeline after it was made.
    Name {
        pipeline: u32,
        name: String,
    },
    Submission(Submission),
    Case(Case),
    /// Something that the layer saw recorded but does not time, "draws" or "rays", and how many since this was last told.
    Beyond {
        what: String,
        count: u64,
    },
    /// Why nothing more is told: a second device group, a fork. The program goes on.
    Stopped {
        why: String,
    },
}

/// The process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    pub id: u32,
    /// Its command line.
    pub arguments: Vec<String>,
    /// When it started to be watched, in nanoseconds since 1970.
    pub started: u64,
    /// What the program calls itself to Vulkan, and its engine.
    pub application: Option<String>,
    pub engine: Option<String>,
}

/// A device that the program made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// How other events refer to it: 0, 1, ….
    pub device: u32,
    pub name: String,
    pub vendor: u32,
    pub id: u32,
    pub kind: i32,
    pub api_version: u32,
    pub driver_version: u32,
    pub driver: String,
    pub driver_info: String,
    pub uuid: [u8; 16],
    /// Nanoseconds per tick of its time stamps; 0 where it has none.
    pub period: f32,
    /// Extensions that the program asked for.
    pub extensions: Vec<String>,
}

/// A compute pipeline, told when it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// How other events refer to it: 0, 1, …, in all devices of a process.
    pub pipeline: u32,
    pub device: u32,
    pub spirv: Vec<u32>,
    pub entry: String,
    /// Specialization constants that the program sets: id and bytes.
    pub specialization: Vec<(u32, Vec<u8>)>,
    /// The sub-group size that it requires.
    pub subgroup: Option<u32>,
    /// Flags of the shader's stage (`VkPipelineShaderStageCreateFlagBits`): full sub-groups, varying size.
    pub stage_flags: u32,
    /// Flags of the pipeline (`VkPipelineCreateFlagBits`).
    pub flags: u32,
    /// What `VkPipelineRobustnessCreateInfo` says of storage and uniform buffers, as numbers.
    pub robustness: Option<(i32, i32)>,
    /// Nanoseconds that making it took.
    pub took: u64,
}

/// One batch of a submission that has finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    pub device: u32,
    /// Family and index of its queue.
    pub queue: (u32, u32),
    /// When the program handed it over, and when it was seen to be done.
    pub submitted: u64,
    pub done: u64,
    pub dispatches: Vec<Dispatch>,
    pub others: Vec<Other>,
}

/// A command other than a dispatch that takes device time: "copy", "fill", "update".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Other {
    pub what: String,
    /// Ticks, as of a [`Dispatch`].
    pub begin: u64,
    pub end: u64,
}

/// A dispatch within a submission, in the order of recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    pub pipeline: u32,
    /// Work-groups; for an indirect dispatch zeros, unless it was taken: its [`Case`] has them.
    pub groups: [u32; 3],
    pub indirect: bool,
    /// Ticks of the device's clock at its start and end; equal where the queue has no time stamps.
    pub begin: u64,
    pub end: u64,
    /// The innermost debug label around it.
    pub label: Option<String>,
    /// Why it could not be taken, whether or not that was asked for: "binding 0.3 is an image".
    pub beyond: Option<String>,
}

/// A dispatch that was taken: everything that it could see, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub pipeline: u32,
    /// Which call of this pipeline and grid it is, from 1.
    pub call: u64,
    pub groups: [u32; 3],
    /// The first work-group (`vkCmdDispatchBase`).
    pub base: [u32; 3],
    pub indirect: bool,
    /// Push constants from byte 0 on. Bytes that nobody set are 0.
    pub push: Vec<u8>,
    pub bindings: Vec<Binding>,
    pub regions: Vec<Region>,
    pub label: Option<String>,
    /// Why it is not here after all, with bytes that would be needed.
    pub lost: Option<String>,
}

/// What a descriptor refers to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    pub set: u32,
    pub binding: u32,
    /// The element of an array of descriptors.
    pub element: u32,
    /// `VkDescriptorType`.
    pub kind: i32,
    /// The index of a [`Region`]; `None` of an inline uniform block.
    pub region: Option<u32>,
    /// Bytes from the region's start, dynamic offsets included.
    pub offset: u64,
    pub range: u64,
    /// The bytes of an inline uniform block.
    pub inline: Vec<u8>,
}

/// A range of a buffer: the union of what overlapping descriptors and addresses reach, so that what a kernel sees twice is
/// there once. Its start is a multiple of 256 from the buffer's, or the buffer's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    pub bytes: u64,
    /// The device's address of its first byte, where the buffer has one.
    pub address: Option<u64>,
    /// Names of files in the folder with its bytes before and after; no file after where nothing changed.
    pub before: String,
    pub after: Option<String>,
}

/// The bytes of a frame.
///
/// # Panics
/// Never: all fields can be written.
#[must_use]
pub fn frame(event: &Event) -> Vec<u8> {
    let body = postcard::to_stdvec(event).expect("every event has bytes");
    let length = u32::try_from(body.len()).expect("an event is smaller than 4 GiB");
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// The events of a file, in order. A last frame that is cut off is left out.
///
/// # Errors
/// What is wrong with it: another kind of file, another version, a frame that is no event.
pub fn events(bytes: &[u8]) -> io::Result<Vec<Event>> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let Some((magic, mut rest)) = bytes.split_first_chunk::<8>() else {
        return if MAGIC.starts_with(bytes) { Ok(vec![]) } else { Err(wrong("is no file of a capture".into())) };
    };
    if *magic != MAGIC {
        return Err(wrong("is no file of a capture by this version of gpukern".into()));
    }
    let mut events = vec![];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let Some((frame, after)) = after.split_at_checked(u32::from_le_bytes(*length) as usize) else { break };
        let at = bytes.len() - rest.len();
        events.push(postcard::from_bytes(frame).map_err(|e| wrong(format!("byte {at} starts no event: {e}")))?);
        rest = after;
    }
    Ok(events)
}

/// The bytes of the file [`SETTINGS`].
///
/// # Panics
/// Never: all fields can be written.
#[must_use]
pub fn settings(settings: &Settings) -> Vec<u8> {
    postcard::to_stdvec(settings).expect("settings have bytes")
}

/// What that file says.
#[must_use]
pub fn read_settings(bytes: &[u8]) -> Option<Settings> {
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_off_anywhere_has_the_events_before() {
        let some = [Event::Name { pipeline: 1, name: "x".into() }, Event::Stopped { why: "fork".into() }];
        let frames = some.each_ref().map(frame);
        let whole: Vec<u8> = MAGIC.into_iter().chain(frames.iter().flatten().copied()).collect();
        for cut in 0..=whole.len() {
            let n = usize::from(cut >= 8 + frames[0].len()) + usize::from(cut == whole.len());
            assert_eq!(events(&whole[..cut]).expect("readable"), some[..n], "{cut}");
        }
        let error = events(b"gpukcap\x63abc").expect_err("another version").to_string();
        assert_eq!(error, "is no file of a capture by this version of gpukern");
    }
}
