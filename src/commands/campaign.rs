//! The loop that commands share: one device after another, until interrupted.

use super::host::Host;
use super::{announce_left_out, selectors};
use crate::basis::error::Error;
use crate::device::capability::DeviceInfo;
use crate::measure::executor::Executor;
use crate::measure::measurement::Measurement;
use crate::measure::runner::Timing;
use crate::measure::session::{Session, Setup};
use crate::plan::Plan;
use crate::tuning::tuned::Tuned;
use std::sync::atomic::{AtomicBool, Ordering};

/// Open session of a command that runs jobs on several devices.
pub(super) struct Campaign<'a> {
    pub(super) session: Session<'a>,
    interrupted: &'static AtomicBool,
}

impl<'a> Campaign<'a> {
    /// Loads Vulkan, prints which devices of `selectors` are left out, and listens for Ctrl-C.
    pub(super) fn begin<'s>(
        setup: &'a Setup,
        selectors: impl IntoIterator<Item = &'s [String]>,
        host: &Host,
    ) -> Result<Self, Error> {
        let session = Session::open(setup)?;
        announce_left_out(&session, selectors, host);
        Ok(Self { session, interrupted: host.listen()? })
    }

    /// Opens `device` for jobs with built-in tiles.
    pub(super) fn open(&self, device: &DeviceInfo, timing: Timing) -> Result<Executor<'_>, Error> {
        self.session.executor(device, timing, &Tuned::none(), self.interrupted)
    }

    /// Returns whether the user has interrupted the command.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Calls `step` with each item until the command is interrupted or fails.
    pub(super) fn each<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        mut step: impl FnMut(T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        items.into_iter().take_while(|_| !self.is_interrupted()).try_for_each(&mut step)
    }
}

/// Loads Vulkan if `plan` needs it, and prints which of its devices are left out.
pub(super) fn open_session<'a>(plan: &Plan, setup: &'a Setup, host: &Host) -> Result<Option<Session<'a>>, Error> {
    let session = Measurement::session(plan, setup)?;
    if let Some(session) = &session {
        announce_left_out(session, selectors(plan).iter().map(Vec::as_slice), host);
    }
    Ok(session)
}
