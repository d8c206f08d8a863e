//! Timestamp queries, and ticks turned into time.

use super::device::Device;
use super::error::{Context, VulkanError};
use crate::basis::units::Nanos;
use crate::device::capability;
use ash::vk;
use std::rc::Rc;

/// Pairs of timestamps around pieces of work.
pub(crate) struct TimestampPool {
    pub(super) pool: vk::QueryPool,
    /// Number of pairs.
    pub(super) pairs: u32,
    device: Rc<Device>,
}

impl TimestampPool {
    /// A pool for `pairs` pairs.
    ///
    /// # Errors
    /// When the device cannot make it.
    pub(crate) fn new(device: &Rc<Device>, pairs: u32) -> Result<Self, VulkanError> {
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2 * pairs);
        // SAFETY: the device is alive.
        let pool = unsafe { device.handle.create_query_pool(&info, None) }.call("vkCreateQueryPool")?;
        Ok(Self { pool, pairs, device: Rc::clone(device) })
    }

    /// The time between the stamps of all pairs together, once the commands that write them have run.
    ///
    /// # Errors
    /// When the results cannot be read.
    pub(crate) fn elapsed(&self) -> Result<Nanos, VulkanError> {
        let mut ticks = vec![0u64; 2 * self.pairs as usize];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: every query of the pool was written by the submission that was just waited for.
        unsafe { self.device.handle.get_query_pool_results(self.pool, 0, &mut ticks, flags) }
            .call("vkGetQueryPoolResults")?;
        let clock = self.device.info.timestamps;
        Ok(ticks.chunks_exact(2).map(|pair| interval(clock, pair[0], pair[1])).sum())
    }
}

impl Drop for TimestampPool {
    fn drop(&mut self) {
        // SAFETY: submissions are waited for before their queries are dropped.
        unsafe { self.device.handle.destroy_query_pool(self.pool, None) };
    }
}

/// Time from one timestamp to a later one. Only `valid_bits` of them count, so the counter may wrap in between; the
/// period is a fraction on many devices and must not be rounded before the product.
fn interval(clock: capability::Timestamps, start: u64, end: u64) -> Nanos {
    let mask = 1u64.checked_shl(clock.valid_bits).map_or(u64::MAX, |bit| bit - 1);
    let ticks = (end & mask).wrapping_sub(start & mask) & mask;
    Nanos(ticks as f64 * f64::from(clock.period_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(valid_bits: u32, period_ns: f32, start: u64, end: u64) -> f64 {
        interval(capability::Timestamps { period_ns, valid_bits }, start, end).0
    }

    #[test]
    fn a_fractional_period_is_kept() {
        assert!((nanos(64, 52.083, 0, 1000) - 52_083.0).abs() < 0.1);
    }

    #[test]
    fn a_counter_that_wraps_at_its_valid_bits_still_measures() {
        assert_eq!(nanos(36, 1.0, (1 << 36) - 5, 10), 15.0);
        assert_eq!(nanos(64, 1.0, u64::MAX, 4), 5.0);
    }

    #[test]
    fn bits_beyond_the_valid_ones_are_ignored() {
        assert_eq!(nanos(36, 1.0, 7, 9 | 1 << 40), 2.0);
    }
}
