//! Transfers between host and device, and their times.

use super::{MAX_COPY_BYTES, Workbench, whole};
use crate::basis::units::{Bytes, Nanos};
use crate::kernel::buffer::RED_ZONE;
use crate::vulkan::{DeviceBuffer, Recorder, Use, VulkanError};
use std::time::Instant;

impl Workbench {
    /// Measures `count` host times from the submission of an empty command buffer until its completion is known.
    pub fn time_submissions(&mut self, count: usize) -> Result<Vec<Nanos>, VulkanError> {
        let empty = Recorder::new(&self.device)?.finish()?;
        (0..count).map(|_| empty.run()).collect()
    }

    /// Measures the host times of `count` uploads of `bytes`, each written by one thread, then copied.
    pub fn time_uploads(&mut self, bytes: Bytes, count: usize) -> Result<Vec<Nanos>, VulkanError> {
        let mut staging = DeviceBuffer::new(&self.device, "upload probe", bytes, Use::Upload)?;
        let target = DeviceBuffer::new(&self.device, "upload probe", bytes, Use::Kernel)?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.copy((&staging, 0), (&target, 0), bytes.0);
        let commands = recorder.finish()?;
        let data = vec![0x5a; bytes.0 as usize];
        let mut upload = || {
            let start = Instant::now();
            staging.mapped_mut().copy_from_slice(&data);
            commands.run().map(|_| start.elapsed().into())
        };
        // The first run only faults the pages in.
        upload()?;
        (0..count).map(|_| upload()).collect()
    }

    /// Measures the host times of `count` downloads of `bytes`, each copied, then read by one thread.
    pub fn time_downloads(&mut self, bytes: Bytes, count: usize) -> Result<Vec<Nanos>, VulkanError> {
        let source = DeviceBuffer::new(&self.device, "download probe", bytes, Use::Kernel)?;
        let download_staging = DeviceBuffer::new(&self.device, "download probe", bytes, Use::Download)?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.fill(&whole(&source), 0x5a5a_5a5a);
        recorder.barrier();
        recorder.copy((&source, 0), (&download_staging, 0), bytes.0);
        recorder.finish()?.run()?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.copy((&source, 0), (&download_staging, 0), bytes.0);
        let commands = recorder.finish()?;
        let mut data = vec![0; bytes.0 as usize];
        let mut download = || {
            let start = Instant::now();
            commands.run()?;
            data.copy_from_slice(download_staging.mapped());
            Ok(start.elapsed().into())
        };
        (0..count).map(|_| download()).collect()
    }

    pub(super) fn upload(&mut self, buffer: &DeviceBuffer, bytes: &[u8]) -> Result<(), VulkanError> {
        for (chunk, offset) in bytes.chunks(MAX_COPY_BYTES as usize).zip((RED_ZONE..).step_by(MAX_COPY_BYTES as usize))
        {
            self.upload_staging.mapped_mut()[..chunk.len()].copy_from_slice(chunk);
            let mut recorder = Recorder::new(&self.device)?;
            recorder.copy((&self.upload_staging, 0), (buffer, offset), chunk.len() as u64);
            recorder.finish()?.run()?;
        }
        Ok(())
    }

    pub(super) fn download(&mut self, buffer: &DeviceBuffer, from: u64, bytes: &mut [u8]) -> Result<(), VulkanError> {
        for (chunk, offset) in bytes.chunks_mut(MAX_COPY_BYTES as usize).zip((from..).step_by(MAX_COPY_BYTES as usize))
        {
            let mut recorder = Recorder::new(&self.device)?;
            recorder.barrier();
            recorder.copy((buffer, offset), (&self.download_staging, 0), chunk.len() as u64);
            recorder.finish()?.run()?;
            chunk.copy_from_slice(&self.download_staging.mapped()[..chunk.len()]);
        }
        Ok(())
    }
}
