//! Jobs: operations on a device. The file of each has the work itself, and the caller's answer to a worker's death. A new
//! job is a file here and a line in [`JOBS`].

pub mod baseline;
pub mod cases;
pub mod duel;
mod executes;
pub mod explain;
mod group;
pub mod host_side;
mod inspect;
pub mod open;
pub mod tune;

use super::runner::{DeviceWatcher, Runner};
use super::session::{LoadedVulkan, Setup};
use crate::algorithms::Algorithm;
use crate::basis::handle::Handle;
use crate::plan::CaseGroup;
use group::SentGroup;
use inspect::Inspector;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

/// Operation on a device, carried out in this process or in a worker.
pub trait Job: Serialize + DeserializeOwned + 'static {
    /// Result of the work.
    type Done: Serialize + DeserializeOwned + 'static;
    /// Report that the job sends on the way; `()` if it sends none.
    type Event: Serialize + DeserializeOwned + 'static;
    /// Name by which a worker knows the operation.
    const NAME: &'static str;
    /// Whether the job waits for an answer to each event.
    const WAITS_FOR_ANSWERS: bool = false;

    /// Does the work. An error means that no device was opened, or that the other process is another program.
    fn run(self, context: &mut JobContext<'_>, report: Report<'_, Self::Event>) -> Result<Self::Done, String>;
}

/// Defines a job without events: a struct of the job's arguments, its name, its result and its work.
macro_rules! job {
    (
        $(#[$doc:meta])*
        $job:ident($name:literal) { $($argument:ident: $type:ty),* } -> $done:ty
        |$self:ident, $context:ident| $work:expr
    ) => {
        $(#[$doc])*
        #[derive(serde::Serialize, serde::Deserialize)]
        pub(crate) struct $job {
            $(pub $argument: $type),*
        }

        impl $crate::job::Job for $job {
            type Done = $done;
            type Event = ();
            const NAME: &'static str = $name;

            fn run(
                $self,
                $context: &mut $crate::job::JobContext<'_>,
                _: $crate::job::Report<'_, ()>,
            ) -> Result<$done, String> {
                $work
            }
        }
    };
}
use job;

/// Receiver of a job's events. Its answer says whether to go on; only jobs that wait for answers see it.
pub type Report<'a, E> = &'a mut dyn FnMut(E) -> bool;

/// Resources of jobs: Vulkan and a device that is open.
pub struct JobContext<'a> {
    pub(super) setup: &'a Setup,
    /// Algorithms by whose names another process sends groups.
    pub(super) algorithms: Vec<Handle<Algorithm>>,
    /// Vulkan, if it could be loaded.
    pub(super) vulkan: Option<LoadedVulkan>,
    pub(super) watcher: Rc<dyn DeviceWatcher>,
    pub(super) interrupted: &'static AtomicBool,
    opened: Opened,
}

/// Device that is open, if any, for running kernels or only for compiling them.
enum Opened {
    Nothing,
    Runner(Box<Runner>),
    Inspector(Box<Inspector>),
}

impl<'a> JobContext<'a> {
    /// Returns a context without an open device.
    pub(super) fn new(
        setup: &'a Setup,
        algorithms: Vec<Handle<Algorithm>>,
        vulkan: Option<LoadedVulkan>,
        watcher: Rc<dyn DeviceWatcher>,
        interrupted: &'static AtomicBool,
    ) -> Self {
        Self { setup, algorithms, vulkan, watcher, interrupted, opened: Opened::Nothing }
    }

    fn runner(&mut self) -> Result<&mut Runner, String> {
        match &mut self.opened {
            Opened::Runner(runner) => Ok(runner),
            Opened::Nothing | Opened::Inspector(_) => Err("no device was opened to run kernels".into()),
        }
    }

    fn resolve_groups(&self, groups: Vec<SentGroup>) -> Result<Vec<CaseGroup>, String> {
        groups.into_iter().map(|group| group.resolve(&self.algorithms)).collect()
    }
}

/// Function that carries out a job that arrived as JSON text, and returns its result as JSON text. Passes events as
/// JSON text to a callback, and whether the job waits for its answer.
type Perform = fn(&str, &mut JobContext<'_>, &mut dyn FnMut(String, bool) -> bool) -> Result<String, String>;

/// Every job by name.
const JOBS: [(&str, Perform); 9] = [
    entry::<open::Open>(),
    entry::<cases::RunCases>(),
    entry::<duel::Duel>(),
    entry::<duel::RunSide>(),
    entry::<tune::Tune>(),
    entry::<explain::Explain>(),
    entry::<executes::Executes>(),
    entry::<host_side::TimeHostSide>(),
    entry::<baseline::HostBaseline>(),
];

const fn entry<J: Job>() -> (&'static str, Perform) {
    (J::NAME, perform::<J>)
}

fn perform<J: Job>(
    job: &str,
    context: &mut JobContext<'_>,
    report: &mut dyn FnMut(String, bool) -> bool,
) -> Result<String, String> {
    let job: J = serde_json::from_str(job).map_err(|e| e.to_string())?;
    let done = job.run(context, &mut |event| report(to_json(&event), J::WAITS_FOR_ANSWERS))?;
    Ok(to_json(&done))
}

/// Returns the function for the job of this name; an error if the other process is another program.
pub(super) fn performer(name: &str) -> Result<Perform, String> {
    match JOBS.iter().find(|(job_name, _)| *job_name == name) {
        Some((_, perform)) => Ok(*perform),
        None => Err(format!("there is no job {name}")),
    }
}

/// Returns a job, an event or a result as JSON text for another process.
pub(super) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("jobs have nothing that JSON lacks")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::six_cases;

    #[test]
    fn job_names_are_unique() {
        let names: std::collections::BTreeSet<_> = JOBS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), JOBS.len());
        assert!(performer("no such job").is_err());
    }

    #[test]
    fn a_case_survives_serialization() {
        for case in six_cases().cases {
            let sent = to_json(&cases::CaseEvent::End(Box::new(case.clone())));
            let Ok(cases::CaseEvent::End(read)) = serde_json::from_str(&sent) else { panic!("{sent}") };
            assert_eq!(*read, case);
        }
    }
}
