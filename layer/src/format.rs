//! Exchange format between the layer and `gpukern capture`: a folder with the [`CaptureSettings`] of the layer and, for
//! each process that creates a Vulkan device, a file of [`LayerEvent`]s and files with the contents of buffers.
//!
//! A file of events is [`MAGIC`], then frames: the length of an event in bytes (u32, little-endian) and the event as
//! [postcard](https://postcard.jamesmunns.com/wire-format). Each frame is one `write` call, so that a program that is
//! killed loses at most its last frame.

use serde::{Deserialize, Serialize};
use std::io;

/// First bytes of every file of events: the kind of file, and the version of the format. `gpukern` carries its own
/// layer, so the versions of the writer and the reader differ only for files of an earlier `gpukern`.
pub const MAGIC: [u8; 8] = *b"gpukcap\x02";
/// Environment variable with the path of the folder. Without it the layer is inactive.
pub const FOLDER: &str = "GPUKERN_CAPTURE";
/// Name of the file of [`CaptureSettings`] in that folder.
pub const SETTINGS: &str = "settings";
/// Extension of the files of events; their names start with the process id.
pub const ENDING: &str = "events";

/// Settings of the layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureSettings {
    /// Let dispatches overlap, as in the program without the layer; their timestamps then overlap as well.
    pub overlapped: bool,
    /// Time the first two commands of each kind, and of the others one of so many; all of them for 0 or 1.
    pub sample: u32,
    /// Selection of the dispatches to capture; none without it.
    pub take: Option<Take>,
}

/// Selection of the dispatches to capture. Dispatches with the same pipeline and grid are calls of the same kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Take {
    /// Regular expression that a kernel's name has to match.
    pub kernel: Option<String>,
    /// First call to capture of each kernel and grid, counted from 1.
    pub call: u64,
    /// Distance between captured calls after the first; only the first without it.
    pub every: Option<u64>,
    /// Limit on the captured bytes.
    pub max_bytes: u64,
}

/// Event in a process. Host times are nanoseconds since the process's first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LayerEvent {
    /// First event of each file.
    Process(ProcessInfo),
    Device(DeviceProperties),
    Pipeline(PipelineInfo),
    /// End of a pipeline's creation. A driver that ends the process while it compiles leaves none.
    Created(CreatedPipeline),
    /// Debug name that the program gives to a pipeline after its creation.
    Name {
        pipeline: u32,
        name: String,
    },
    Submission(Submission),
    Case(CapturedDispatch),
    /// Number of commands of a kind that the layer does not time, such as "draws", since the last event of this kind.
    Untimed {
        what: String,
        count: u64,
    },
    /// Reason why the dispatches of a device are neither timed nor captured. The program continues.
    Stopped {
        why: String,
    },
}

/// Process that loaded the layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessInfo {
    pub id: u32,
    /// Command line.
    pub arguments: Vec<String>,
    /// Start of recording, in nanoseconds since 1970.
    pub started: u64,
    /// Application name that the program passes to Vulkan.
    pub application: Option<String>,
    pub engine: Option<String>,
    /// [`CaptureSettings::sample`].
    pub sample: u32,
}

/// Device that the program created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceProperties {
    /// Number of the device in other events: 0, 1, ….
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
    /// Nanoseconds per tick of the timestamps; 0 for a device without timestamps.
    pub period: f32,
    /// Extensions that the program enabled.
    pub extensions: Vec<String>,
}

/// Compute pipeline, recorded before its creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineInfo {
    /// Number of the pipeline in other events: 0, 1, …, over all devices of a process.
    pub pipeline: u32,
    pub device: u32,
    pub spirv: Vec<u32>,
    pub entry: String,
    /// Specialization constants that the program sets, as id and bytes.
    pub specialization: Vec<(u32, Vec<u8>)>,
    /// Required subgroup size.
    pub subgroup: Option<u32>,
    /// Flags of the shader stage (`VkPipelineShaderStageCreateFlagBits`): full subgroups, varying subgroup size.
    pub stage_flags: u32,
    /// Flags of the pipeline (`VkPipelineCreateFlagBits`).
    pub flags: u32,
    /// `VkPipelineRobustnessCreateInfo` of storage and of uniform buffers, as Vulkan's enum values.
    pub robustness: Option<(i32, i32)>,
    /// Creation time in nanoseconds, which the reader takes from [`LayerEvent::Created`]; `None` if it never ended.
    pub took: Option<u64>,
}

/// How the creation of a pipeline ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreatedPipeline {
    pub pipeline: u32,
    /// Whether there is a pipeline.
    pub success: bool,
    /// Time in nanoseconds.
    pub took: u64,
}

/// Batch of a finished submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    pub device: u32,
    /// Family and index of the queue.
    pub queue: (u32, u32),
    /// Host time of the submission; `done` is when the layer saw that the batch had finished, or `submitted` if it has no
    /// timestamps.
    pub submitted: u64,
    pub done: u64,
    pub dispatches: Vec<DispatchEvent>,
    pub others: Vec<Other>,
}

/// Transfer command, which takes device time as a dispatch does: "copy", "fill", "update".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Other {
    pub what: String,
    /// Timestamps in ticks, as in [`DispatchEvent`].
    pub begin: u64,
    pub end: u64,
}

/// Dispatch in a submission, in order of recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DispatchEvent {
    pub pipeline: u32,
    /// Number of workgroups; zeros for an indirect dispatch, whose [`CapturedDispatch`] holds them if it was captured.
    pub groups: [u32; 3],
    pub indirect: bool,
    /// Device timestamps in ticks at the start and the end; equal on a queue without timestamps.
    pub begin: u64,
    pub end: u64,
    /// Innermost debug label around the dispatch.
    pub label: Option<String>,
    /// Reason why the dispatch cannot be captured, whether or not it was selected: "binding 0.3 is a cube image".
    pub uncapturable: Option<String>,
}

/// Captured dispatch: all memory that it can access, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapturedDispatch {
    pub pipeline: u32,
    /// Number of the call of this pipeline and grid, from 1.
    pub call: u64,
    pub groups: [u32; 3],
    /// First workgroup (`vkCmdDispatchBase`).
    pub base: [u32; 3],
    pub indirect: bool,
    /// Push constants from byte 0 on; bytes that the program did not set are 0.
    pub push: Vec<u8>,
    pub bindings: Vec<DescriptorBinding>,
    pub regions: Vec<CapturedRegion>,
    pub label: Option<String>,
    /// Reason why the capture failed, such as the limit on bytes.
    pub lost: Option<String>,
}

/// Buffer range, image or inline block that a descriptor refers to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DescriptorBinding {
    pub set: u32,
    pub binding: u32,
    /// Element of the descriptor array.
    pub element: u32,
    /// `VkDescriptorType`.
    pub kind: i32,
    /// Index of the [`CapturedRegion`]; `None` for an inline uniform block.
    pub region: Option<u32>,
    /// Offset from the region's start in bytes, dynamic offset included.
    pub offset: u64,
    pub range: u64,
    /// Contents of an inline uniform block.
    pub inline: Vec<u8>,
    /// Sampler of a combined image.
    pub sampler: Option<CapturedSampler>,
}

/// Settings of a sampler; names are Vulkan's without the prefix, in lower case, with hyphens: `clamp-to-edge`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapturedSampler {
    /// Filter for magnification and minification.
    pub filter: String,
    /// Address modes along width, height and depth.
    pub addresses: [String; 3],
    pub border: String,
    pub normalized: bool,
}

/// Range of a buffer: the union of the overlapping ranges of descriptors and addresses, so that aliased bindings share
/// their bytes. The start is a multiple of 256 bytes in the buffer. Or layers of one mip level of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CapturedRegion {
    pub bytes: u64,
    /// Device address of the first byte, for a buffer that has one.
    pub address: Option<u64>,
    pub image: Option<CapturedImage>,
    /// Names of the files with the contents before and after the dispatch; `after` is `None` if nothing changed.
    pub before: String,
    pub after: Option<String>,
}

/// Image in a region: its texels, tightly packed, row by row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapturedImage {
    /// Vulkan's name of the format without the prefix, in lower case: `r8g8b8a8_unorm`.
    pub format: String,
    /// Width, preceded by the height and by the number of layers or the depth, as far as the image has them.
    pub extents: Vec<u32>,
}

/// Returns the bytes of a texel of one, two or four components of 8, 16 or 32 bits; `None` for other formats, which
/// `gpukern run` lacks. `format` is the number in `VkFormat`.
pub fn texel_bytes(format: i32) -> Option<u64> {
    // Vulkan numbers formats by their components and widths; sRGB, which kernels cannot store, comes last of each.
    Some(match format {
        9..=14 => 1,
        16..=21 | 70..=76 => 2,
        37..=42 | 44..=49 | 77..=83 | 98..=100 => 4,
        91..=97 | 101..=103 => 8,
        107..=109 => 16,
        _ => return None,
    })
}

/// Encodes an event as a frame.
///
/// # Panics
/// Never: postcard can encode every field.
#[must_use]
pub fn encode_frame(event: &LayerEvent) -> Vec<u8> {
    let body = postcard::to_stdvec(event).expect("every event has bytes");
    let length = u32::try_from(body.len()).expect("an event is smaller than 4 GiB");
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// Decodes the events of a file, in order; ignores an incomplete last frame.
///
/// # Errors
/// Another kind of file, another version, or a frame that cannot be decoded.
pub fn decode_events(bytes: &[u8]) -> io::Result<Vec<LayerEvent>> {
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
        let position = bytes.len() - rest.len();
        events.push(postcard::from_bytes(frame).map_err(|e| wrong(format!("byte {position} starts no event: {e}")))?);
        rest = after;
    }
    Ok(events)
}

/// Encodes the contents of the file [`SETTINGS`].
///
/// # Panics
/// Never: postcard can encode every field.
#[must_use]
pub fn encode_settings(settings: &CaptureSettings) -> Vec<u8> {
    postcard::to_stdvec(settings).expect("settings have bytes")
}

/// Decodes the contents of the file [`SETTINGS`]; `None` for invalid bytes.
#[must_use]
pub fn decode_settings(bytes: &[u8]) -> Option<CaptureSettings> {
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_file_has_its_complete_events() {
        let some = [LayerEvent::Name { pipeline: 1, name: "x".into() }, LayerEvent::Stopped { why: "fork".into() }];
        let frames = some.each_ref().map(encode_frame);
        let whole: Vec<u8> = MAGIC.into_iter().chain(frames.iter().flatten().copied()).collect();
        for cut in 0..=whole.len() {
            let n = usize::from(cut >= 8 + frames[0].len()) + usize::from(cut == whole.len());
            assert_eq!(decode_events(&whole[..cut]).expect("readable"), some[..n], "{cut}");
        }
        let error = decode_events(b"gpukcap\x63abc").expect_err("another version").to_string();
        assert_eq!(error, "is no file of a capture by this version of gpukern");
    }
}
