//! Compiles the cases of a plan without running them.

use crate::device::cache::CacheFolder;
use crate::executor::Observer;
use crate::plan::CaseGroup;
use crate::record::Outcome;
use crate::runner::DeviceWatcher;
use crate::tuning::tuned::{self, Tuned};
use crate::vulkan::{Device, Pipelines, VulkanError};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Device whose driver compiles kernels.
pub(super) struct Inspector {
    device: Rc<Device>,
    pipelines: Pipelines,
    /// Whether to fetch the driver's internal representations.
    texts: bool,
    tuned: Tuned,
}

impl Inspector {
    pub(super) fn new(device: &Rc<Device>, texts: bool, tuned: Tuned) -> Result<Self, VulkanError> {
        let pipelines = Pipelines::new(device, &CacheFolder::none())?;
        Ok(Self { device: Rc::clone(device), pipelines, texts, tuned })
    }

    /// Compiles the kernels of each case of `group`. Reports cases to `observer` and, before that, to `watcher`.
    pub(super) fn inspect(
        &mut self,
        group: &CaseGroup,
        interrupted: &AtomicBool,
        watcher: &dyn DeviceWatcher,
        observer: &mut dyn Observer,
    ) {
        let problem = group.problem();
        for chosen in tuned::choose(group, &self.device.info, &self.tuned) {
            let name = group.id(chosen.variant).to_string();
            observer.begin(&name);
            watcher.on_device(&name);
            let info = &self.device.info;
            let mut case = group.case(&chosen.variant.name, problem.as_ref(), info.index, Outcome::Inspected);
            if let Some(reason) = problem.unusable() {
                case.outcome = Outcome::failed(reason);
                observer.end(&case);
                continue;
            }
            match chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), info) {
                Err(reason) => case.outcome = Outcome::unsupported(chosen.refusal(reason)),
                Ok(_) if interrupted.load(Ordering::Relaxed) => case.outcome = Outcome::Interrupted,
                Ok(program) => {
                    case.notes.extend(program.note.as_deref().map(String::from));
                    case.chosen_by_auto.clone_from(&program.chosen_by_auto);
                    case.notes.extend(chosen.notes());
                    case.chosen_by_auto = case.chosen_by_auto.or_else(|| chosen.chosen_by_auto());
                    case.tile.clone_from(&chosen.tile);
                    case.launches = program.launches();
                    case.computes = program.computes;
                    match self.pipelines.inspect(&program, self.texts, &|kernel| watcher.compiling(Some(kernel))) {
                        Ok(kernels) => case.kernels = kernels,
                        Err(error) if error.is_loss() => watcher.lost(&error.to_string()),
                        Err(error) => case.outcome = Outcome::failed(error.to_string()),
                    }
                }
            }
            observer.end(&case);
        }
    }
}
