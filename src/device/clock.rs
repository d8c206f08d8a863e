//! The clock of a device as the system tells it: NVML for NVIDIA, sysfs for AMD, Intel and the host's own cores.

use crate::device::capability::{DeviceInfo, DeviceKind};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock as NvmlClock;
use std::path::{Path, PathBuf};

/// `VkPhysicalDeviceProperties::vendorID` of NVIDIA.
const NVIDIA: u32 = 0x10de;

/// A source of a device's clock.
pub(crate) enum ClockSource {
    /// NVIDIA's management library, and the PCI address of the device.
    Nvml(Box<Nvml>, String),
    /// AMD's table of clocks: the current one is marked with a star.
    Table(PathBuf),
    /// Files that hold one frequency each, and how many of their units are one MHz.
    Files(Vec<PathBuf>, f64),
}

impl ClockSource {
    /// The source for `device`, if the system has one.
    #[must_use]
    pub(crate) fn of(device: &DeviceInfo) -> Option<Self> {
        Self::below(device, Path::new("/sys"))
    }

    fn below(device: &DeviceInfo, sys: &Path) -> Option<Self> {
        if device.kind == DeviceKind::Cpu {
            let cores = folders(&sys.join("devices/system/cpu"), "cpu");
            let files: Vec<_> = cores.iter().map(|core| core.join("cpufreq/scaling_cur_freq")).collect();
            let files: Vec<_> = files.into_iter().filter(|file| file.is_file()).collect();
            return (!files.is_empty()).then_some(Self::Files(files, 1000.0));
        }
        let address = device.pci_address.clone()?;
        if device.vendor_id == NVIDIA {
            return Nvml::init().ok().map(|nvml| Self::Nvml(Box::new(nvml), address));
        }
        let folder = sys.join("bus/pci/devices").join(address);
        let table = folder.join("pp_dpm_sclk");
        if table.is_file() {
            return Some(Self::Table(table));
        }
        let files = folders(&folder.join("drm"), "card").into_iter().map(|card| card.join("gt_act_freq_mhz"));
        let files: Vec<_> = files.filter(|file| file.is_file()).collect();
        (!files.is_empty()).then_some(Self::Files(files, 1.0))
    }

    /// The clock now, in MHz: the mean where there are several cores.
    #[must_use]
    pub(crate) fn mhz(&self) -> Option<f64> {
        match self {
            Self::Nvml(nvml, address) => {
                let device = nvml.device_by_pci_bus_id(address.as_str()).ok()?;
                device.clock_info(NvmlClock::SM).ok().map(f64::from)
            }
            Self::Table(path) => {
                let text = std::fs::read_to_string(path).ok()?;
                // `1: 1200Mhz *`
                let line = text.lines().find(|line| line.trim_end().ends_with('*'))?;
                let figure = line.split_once(':')?.1.trim();
                figure[..figure.find(|c: char| !c.is_ascii_digit())?].parse().ok()
            }
            Self::Files(files, units) => {
                let read = |file: &PathBuf| std::fs::read_to_string(file).ok()?.trim().parse::<f64>().ok();
                let clocks = files.iter().map(read).collect::<Option<Vec<_>>>()?;
                Some(clocks.iter().sum::<f64>() / clocks.len() as f64 / units)
            }
        }
    }
}

/// The folders `prefix`0, `prefix`1, … in `parent`.
fn folders(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let numbered = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(prefix));
        name.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(numbered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::tests::software_device;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    fn gpu() -> DeviceInfo {
        let pci_address = Some("0000:03:00.0".into());
        DeviceInfo { kind: DeviceKind::DiscreteGpu, pci_address, vendor_id: 0x1002, ..software_device() }
    }

    #[test]
    fn the_clocks_of_cores_are_averaged() {
        let sys = tempfile::tempdir().expect("a folder");
        assert!(ClockSource::below(&software_device(), sys.path()).is_none());
        write(sys.path(), "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000\n");
        write(sys.path(), "devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2000000\n");
        write(sys.path(), "devices/system/cpu/cpufreq/scaling_cur_freq", "1\n");
        let source = ClockSource::below(&software_device(), sys.path()).expect("two cores");
        assert_eq!(source.mhz(), Some(2500.0));
    }

    #[test]
    fn the_marked_line_of_a_table_is_the_clock() {
        let sys = tempfile::tempdir().expect("a folder");
        assert!(ClockSource::below(&gpu(), sys.path()).is_none());
        write(sys.path(), "bus/pci/devices/0000:03:00.0/pp_dpm_sclk", "0: 500Mhz\n1: 1450Mhz *\n2: 2400Mhz\n");
        assert_eq!(ClockSource::below(&gpu(), sys.path()).expect("a table").mhz(), Some(1450.0));
        write(sys.path(), "bus/pci/devices/0000:03:00.0/pp_dpm_sclk", "no clock *\n");
        assert_eq!(ClockSource::below(&gpu(), sys.path()).expect("a table").mhz(), None);
    }

    #[test]
    fn a_card_with_one_file_is_read_as_megahertz() {
        let sys = tempfile::tempdir().expect("a folder");
        write(sys.path(), "bus/pci/devices/0000:03:00.0/drm/card1/gt_act_freq_mhz", "1100\n");
        assert_eq!(ClockSource::below(&gpu(), sys.path()).expect("a card").mhz(), Some(1100.0));
    }
}
