//! A device with a problem loaded: inputs uploaded, outputs poisoned, programs run, verified and timed.

mod cause;
mod load;
mod mutate;
mod poison;
mod sampler;
mod transfer;
mod verify;

use crate::algorithms::Oracle;
use crate::algorithms::catalogue::Probes;
use crate::basis::units::Bytes;
use crate::device::cache;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, RED_ZONE};
use crate::kernel::program::Program;
use crate::record::Phases;
use crate::vulkan::{Device, DeviceBuffer, Pipelines, Recorder, Region, Use, VulkanError};
pub use mutate::BlindSpots;
use poison::{PATTERN_BYTES, PATTERN_COUNT, Poison, WORDS_BYTES};
use sampler::Evictor;
pub use sampler::Sampler;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
pub(crate) use verify::{LaterAnswer, VerificationError, correctness};
pub use verify::{SecondRun, Verified};

/// Bytes per copy between host and device, so that a transfer needs little host memory.
const MAX_COPY_BYTES: u64 = 16 << 20;

/// Device with its pipelines and staging buffers.
pub struct Workbench {
    pub(crate) device: Rc<Device>,
    /// Algorithms that measuring itself uses.
    pub(crate) probes: &'static Probes,
    /// Compiled pipelines.
    pub pipelines: Pipelines,
    upload_staging: DeviceBuffer,
    download_staging: DeviceBuffer,
    /// Tiled [`Poison::Number`] patterns.
    patterns: DeviceBuffer,
    /// Program that empties the caches by reading more memory than they hold; created on first use.
    evictor: Option<Rc<Evictor>>,
    /// Buffer through which contents are moved; created on first use.
    copy_buffer: Option<Rc<DeviceBuffer>>,
    /// Interruption flag, checked between rounds of a multi-round run, which nothing else can end.
    pub(crate) interrupted: Option<&'static AtomicBool>,
    /// Longest time of a run. Multi-round runs, whose duration is unknown, are stopped after it.
    pub(crate) max_run: Duration,
}

/// Problem loaded onto a device.
pub struct LoadedProblem {
    specs: Vec<BufferSpec>,
    buffers: Vec<DeviceBuffer>,
    /// Initial contents of the in-place buffers.
    initial: Vec<Option<DeviceBuffer>>,
    oracle: Box<dyn Oracle>,
    /// Program whose answer is the right one, if it is not the host's.
    reference: Option<Program>,
    /// Copies of the inputs that kernels could overwrite, by buffer number.
    input_copies: RefCell<BTreeMap<usize, Rc<DeviceBuffer>>>,
    /// Current fill pattern of the red zones.
    red_zone_poison: Cell<Poison>,
    /// First out-of-bounds or input write found after timed runs.
    first_bad_write: RefCell<Option<String>>,
    /// Fills of the inputs, for messages.
    fills: Vec<String>,
    /// Fingerprint of the inputs, if they come from files or another program.
    pub(crate) input_fingerprint: Option<String>,
    /// Whether the check has been tested with mutations.
    pub(crate) check_was_tested: Cell<bool>,
    /// Host time spent so far.
    pub phases: Phases,
}

impl LoadedProblem {
    /// Returns notes for a reader about the correct answer.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.oracle.notes()
    }

    /// Returns the data regions of the buffers, by number.
    fn regions(&self) -> Vec<Region<'_>> {
        self.buffers.iter().zip(&self.specs).map(|(buffer, spec)| region(buffer, spec)).collect()
    }

    /// Whether each run needs [`Self::record_restore`] before it.
    fn changes_in_place(&self) -> bool {
        self.initial.iter().any(Option::is_some)
    }

    /// Records the copying of initial contents to the in-place buffers.
    fn record_restore(&self, recorder: &mut Recorder) {
        for ((initial, buffer), spec) in self.initial.iter().zip(&self.buffers).zip(&self.specs) {
            if let Some(initial) = initial {
                let Region { offset, bytes, .. } = region(buffer, spec);
                recorder.copy((initial, offset), (buffer, offset), bytes);
            }
        }
    }
}

/// Returns a region of the whole buffer, including its red zones.
fn whole(buffer: &DeviceBuffer) -> Region<'_> {
    Region { buffer, offset: 0, bytes: buffer.size.0 }
}

/// Returns the region of a buffer's data, without its red zones, in whole words.
fn region<'a>(buffer: &'a DeviceBuffer, spec: &BufferSpec) -> Region<'a> {
    Region { buffer, offset: RED_ZONE, bytes: spec.bytes().0.next_multiple_of(4) }
}

impl Workbench {
    /// Prepares `device`; compiled kernels are saved in `cache`.
    pub fn new(probes: &'static Probes, device: &Rc<Device>, cache: &cache::CacheFolder) -> Result<Self, VulkanError> {
        let upload_staging = DeviceBuffer::new(device, "upload staging", Bytes(MAX_COPY_BYTES), Use::Upload)?;
        let download_staging = DeviceBuffer::new(device, "download staging", Bytes(MAX_COPY_BYTES), Use::Download)?;
        let mut patterns =
            DeviceBuffer::new(device, "fillings", Bytes(PATTERN_COUNT as u64 * PATTERN_BYTES), Use::Upload)?;
        let areas = patterns.mapped_mut().chunks_exact_mut(PATTERN_BYTES as usize).take(PATTERN_COUNT);
        for (number, area) in areas.enumerate() {
            let words = Poison::Number.words(number).map(u32::to_le_bytes);
            for part in area.chunks_exact_mut(WORDS_BYTES as usize) {
                part.copy_from_slice(words.as_flattened());
            }
        }
        Ok(Self {
            probes,
            upload_staging,
            download_staging,
            patterns,
            evictor: None,
            copy_buffer: None,
            interrupted: None,
            max_run: Duration::MAX,
            pipelines: Pipelines::new(device, cache)?,
            device: Rc::clone(device),
        })
    }

    /// Creates an uninitialized buffer on the device.
    fn create_buffer(&self, spec: &BufferSpec) -> Result<DeviceBuffer, VulkanError> {
        DeviceBuffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel)
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.device.info
    }

    /// Whether the user asked to stop.
    fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
    }
}
