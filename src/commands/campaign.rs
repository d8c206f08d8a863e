//! The devices of a command, one after the other.

use super::host::Host;
use super::{announce, selectors};
use crate::basis::error::Error;
use crate::device::capability::DeviceInfo;
use crate::measure::executor::Executor;
use crate::measure::measurement::Measurement;
use crate::measure::runner::Timing;
use crate::measure::session::{Session, Setup};
use crate::plan::Plan;
use crate::tuning::tuned::Tuned;
use std::sync::atomic::{AtomicBool, Ordering};

/// Devices of a command, with all that it takes to run jobs on them.
pub(super) struct Campaign<'a> {
    pub(super) session: Session<'a>,
    interrupted: &'static AtomicBool,
}

impl<'a> Campaign<'a> {
    /// Loads Vulkan, says which devices of `selectors` are left out, and listens for Ctrl-C.
    pub(super) fn begin<'s>(
        setup: &'a Setup,
        selectors: impl IntoIterator<Item = &'s [String]>,
        host: &Host,
    ) -> Result<Self, Error> {
        let session = Session::open(setup)?;
        announce(&session, selectors, host);
        Ok(Self { session, interrupted: host.listen()? })
    }

    /// Opens `device`, for jobs that take no tuned tiles.
    pub(super) fn open(&self, device: &DeviceInfo, timing: Timing) -> Result<Executor<'_>, Error> {
        self.session.executor(device, timing, &Tuned::none(), self.interrupted)
    }

    /// Whether somebody interrupted the command.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Hands each of `items` to `step`, until somebody interrupts the command.
    pub(super) fn each<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        mut step: impl FnMut(T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        items.into_iter().take_while(|_| !self.is_interrupted()).try_for_each(&mut step)
    }
}

/// Loads Vulkan if `plan` needs it, and says which of its devices are left out.
pub(super) fn session_of<'a>(plan: &Plan, setup: &'a Setup, host: &Host) -> Result<Option<Session<'a>>, Error> {
    let session = Measurement::session(plan, setup)?;
    if let Some(session) = &session {
        announce(session, selectors(plan).iter().map(Vec::as_slice), host);
    }
    Ok(session)
}
