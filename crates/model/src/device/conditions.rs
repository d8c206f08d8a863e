//! System state during a measurement, on Linux: the clock of a device (NVML for NVIDIA; sysfs for AMD, Intel and the
//! host's cores) and the CPU use of other programs, which slows down devices that compute on the host's cores.

use crate::device::capability::vendor::NVIDIA;
use crate::device::capability::{DeviceInfo, DeviceKind};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock as NvmlClock;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Source of a device's clock frequency.
pub enum ClockSource {
    /// NVIDIA's management library, and the device's PCI address.
    Nvml(Box<Nvml>, String),
    /// AMD's table of clock levels; a star marks the current one.
    Table(PathBuf),
    /// Files with one frequency each, and the file's units per MHz.
    Files(Vec<PathBuf>, f64),
}

impl ClockSource {
    /// Finds the source for `device`, if the system has one.
    pub fn of(device: &DeviceInfo) -> Option<Self> {
        Self::below(device, Path::new("/sys"))
    }

    /// Finds the source for `device` below `sys`, where Linux mounts sysfs.
    fn below(device: &DeviceInfo, sys: &Path) -> Option<Self> {
        if device.kind == DeviceKind::Cpu {
            let cores = numbered_folders(&sys.join("devices/system/cpu"), "cpu");
            return Self::of_files(&cores, "cpufreq/scaling_cur_freq", 1000.0);
        }
        let address = device.pci_address.clone()?;
        if device.vendor_id == NVIDIA {
            let nvml = Nvml::init().ok()?;
            return Some(Self::Nvml(Box::new(nvml), address));
        }
        let folder = sys.join("bus/pci/devices").join(address);
        let table = folder.join("pp_dpm_sclk");
        if table.is_file() {
            return Some(Self::Table(table));
        }
        Self::of_files(&numbered_folders(&folder.join("drm"), "card"), "gt_act_freq_mhz", 1.0)
    }

    /// Uses the files called `name` in `folders`, which count `units` per MHz; `None` if there are none.
    fn of_files(folders: &[PathBuf], name: &str, units: f64) -> Option<Self> {
        let mut files: Vec<_> = folders.iter().map(|folder| folder.join(name)).collect();
        files.retain(|file| file.is_file());
        if files.is_empty() { None } else { Some(Self::Files(files, units)) }
    }

    /// Returns the energy in joules that the board has used since its driver was loaded, if there is a counter. NVML's
    /// counter advances in steps of millijoules, a few times per tenth of a second.
    pub fn joules(&self) -> Option<f64> {
        let Self::Nvml(nvml, address) = self else { return None };
        let device = nvml.device_by_pci_bus_id(address.as_str()).ok()?;
        device.total_energy_consumption().ok().map(|millijoules| millijoules as f64 / 1e3)
    }

    /// Returns the current clock in MHz; the mean over several cores.
    pub fn mhz(&self) -> Option<f64> {
        match self {
            Self::Nvml(nvml, address) => {
                let device = nvml.device_by_pci_bus_id(address.as_str()).ok()?;
                device.clock_info(NvmlClock::SM).ok().map(f64::from)
            }
            Self::Table(path) => {
                let text = read_to_string(path).ok()?;
                // The active level has a star: `1: 1200Mhz *` (amdgpu's pp_dpm_sclk).
                let line = text.lines().find(|line| line.trim_end().ends_with('*'))?;
                let (_, frequency) = line.split_once(':')?;
                let (digits, _) = frequency.trim().split_once(|c: char| !c.is_ascii_digit())?;
                digits.parse().ok()
            }
            Self::Files(files, units) => {
                let mut sum = 0.0;
                for file in files {
                    sum += read_to_string(file).ok()?.trim().parse::<f64>().ok()?;
                }
                Some(sum / files.len() as f64 / units)
            }
        }
    }
}

/// Lists the folders `prefix`0, `prefix`1, … in `parent`.
fn numbered_folders(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut folders = vec![];
    for entry in parent.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)).unwrap_or_default();
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            folders.push(entry.path());
        }
    }
    folders
}

/// Samples of the number of runnable threads, and the time between them.
const LOAD_SAMPLES: usize = 5;
const LOAD_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the factor by which other programs slow down work on all cores at present; 1 where the system does not tell.
pub fn slowdown_by_others() -> f64 {
    let mut loads = vec![];
    for _ in 0..LOAD_SAMPLES {
        loads.extend(read_to_string("/proc/loadavg").ok());
        std::thread::sleep(LOAD_INTERVAL);
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    slowdown_of(&loads, cores)
}

/// Returns the factor from the contents of `/proc/loadavg` at several times (proc(5)). The average alone would count a
/// program that has just ended, the runnable threads alone one that runs for a moment.
fn slowdown_of(loads: &[String], cores: usize) -> f64 {
    let parse = |text: &String| {
        let mut fields = text.split(' ');
        let average: f64 = fields.next()?.parse().ok()?;
        let (runnable, _) = fields.nth(2)?.split_once('/')?;
        // This thread is one of them.
        Some((average, runnable.parse::<f64>().ok()? - 1.0))
    };
    let parsed: Vec<_> = loads.iter().filter_map(parse).collect();
    let count = parsed.len().max(1) as f64;
    let average = parsed.iter().map(|(average, _)| average).sum::<f64>() / count;
    let runnable = parsed.iter().map(|(_, runnable)| runnable).sum::<f64>() / count;
    let cores = cores as f64;
    (cores + average.min(runnable).max(0.0)) / cores
}

/// Fewest ticks of all processors together, 10 ms each, over which a share is meaningful.
const MIN_TICKS: u64 = 20;

/// CPU ticks since the machine started, of the processors that this process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLoad {
    /// All ticks.
    total: u64,
    /// Ticks that were not idle, including those that a hypervisor took.
    busy: u64,
    /// Ticks used by this process.
    own: u64,
}

impl HostLoad {
    /// Reads the current ticks; `None` if the system does not report them.
    pub fn now() -> Option<Self> {
        let read = |path: &str| read_to_string(path).ok();
        Self::parse(&read("/proc/stat")?, &read("/proc/self/status")?, &read("/proc/self/stat")?)
    }

    /// Parses the kernel's files: `stat` of the machine, `status` and `process_stat` of this process (proc(5)).
    fn parse(stat: &str, status: &str, process_stat: &str) -> Option<Self> {
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        let allowed = parse_processors(allowed.trim())?;
        let mut load = Self::default();
        for line in stat.lines().filter(|line| line.starts_with("cpu")) {
            let (name, ticks) = line[3..].split_once(' ')?;
            if !name.parse().is_ok_and(|number| allowed.contains(&number)) {
                continue;
            }
            // user nice system idle iowait irq softirq steal; guests' time is included in user.
            let ticks = ticks.split_whitespace().take(8).map(|tick| tick.parse().ok()).collect::<Option<Vec<u64>>>()?;
            let idle = ticks.get(3)? + ticks.get(4)?;
            let total: u64 = ticks.iter().sum();
            load.total += total;
            load.busy += total - idle;
        }
        // The process name, field 2, may contain spaces and brackets; user and system time are fields 14 and 15.
        let (_, fields) = process_stat.rsplit_once(')')?;
        let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<u64>);
        load.own = ticks.next()?.ok()? + ticks.next()?.ok()?;
        (load.total > 0).then_some(load)
    }

    /// Returns the share of the processors that other programs used since `earlier`, if that is long enough ago.
    pub fn others_since(self, earlier: Self) -> Option<f64> {
        let total = self.total.saturating_sub(earlier.total);
        let busy = self.busy.saturating_sub(earlier.busy);
        let own = self.own.saturating_sub(earlier.own);
        if total < MIN_TICKS {
            return None;
        }
        // Subtraction saturates: the system's and the process's ticks are counted at different moments.
        Some((busy.saturating_sub(own) as f64 / total as f64).min(1.0))
    }
}

/// Returns the CPU time of all threads of this process; `None` if the system does not report it.
pub fn cpu_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        use nix::sys::resource::{UsageWho, getrusage};
        use nix::sys::time::TimeValLike;
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let spent = usage.user_time() + usage.system_time();
        u64::try_from(spent.num_microseconds()).ok().map(Duration::from_micros)
    }
    #[cfg(not(unix))]
    None
}

/// Parses a list of processors such as `0-3,8`.
fn parse_processors(list: &str) -> Option<Vec<usize>> {
    let mut processors = vec![];
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        processors.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(processors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;

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
    fn the_clock_of_a_card_is_the_marked_line_of_its_table_or_its_only_number() {
        for (path, text, mhz) in [
            ("pp_dpm_sclk", "0: 500Mhz\n1: 1450Mhz *\n2: 2400Mhz\n", Some(1450.0)),
            ("pp_dpm_sclk", "no clock *\n", None),
            ("drm/card1/gt_act_freq_mhz", "1100\n", Some(1100.0)),
        ] {
            let sys = tempfile::tempdir().expect("a folder");
            assert!(ClockSource::below(&gpu(), sys.path()).is_none());
            write(sys.path(), &format!("bus/pci/devices/0000:03:00.0/{path}"), text);
            assert_eq!(ClockSource::below(&gpu(), sys.path()).expect("a file").mhz(), mhz, "{text}");
        }
    }

    const OWN: &str = "7 (a) b) R 1 1 1 0 -1 4194304 85 0 0 0 30 12 0 0 20 0 1 0 2344 0 0";

    #[test]
    fn the_rest_of_what_the_own_processors_did_is_that_of_others() {
        let stat = |busy: u64| {
            format!(
                "cpu  9 9 9 9 9 9 9 9\ncpu0 {busy} 10 5 100 3 0 1 2 0 0\ncpu1 0 0 0 50 0 0 0 0 0 0\ncpu2 7 7 7 7 7 7 7 7\nintr 5\n"
            )
        };
        let load = |busy, own: &str| HostLoad::parse(&stat(busy), "Cpus_allowed_list:\t0-1\n", own).expect("a load");
        let [before, after] = [load(20, OWN), load(120, &OWN.replace("30 12", "60 22"))];
        assert_eq!((before, after.total - before.total), (HostLoad { total: 191, busy: 38, own: 42 }, 100));
        assert_eq!(after.others_since(before), Some(0.6));
        assert_eq!(after.others_since(HostLoad { total: after.total - 19, ..after }), None, "too short");
    }

    #[test]
    fn threads_that_run_and_have_run_slow_down_others() {
        let slowdown = |loads: &[&str]| slowdown_of(&loads.iter().map(ToString::to_string).collect::<Vec<_>>(), 2);
        assert_eq!(slowdown(&["2.00 1.00 0.50 3/300 7"]), 2.0);
        assert_eq!(slowdown(&["2.00 1.00 0.50 1/300 7", "2.00 1.00 0.50 1/300 7"]), 1.0, "they have ended");
        assert_eq!(slowdown(&["0.00 1.00 0.50 9/300 7"]), 1.0, "they have just begun");
        assert_eq!((slowdown(&[]), slowdown(&["what"])), (1.0, 1.0));
    }

    #[test]
    fn lists_of_processors_are_read_and_what_is_none_tells_nothing() {
        assert_eq!(parse_processors("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_processors(""), None);
        assert_eq!(HostLoad::parse("cpu0 1 2", "Cpus_allowed_list: 0", OWN), None);
        assert_eq!(HostLoad::parse("cpu0 1 2 3 4 5 6 7 8", "Cpus_allowed_list: 0", "7 (a) R 1"), None);
    }
}
