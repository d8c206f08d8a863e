//! Drivers' statistics of compiled kernels (`VK_KHR_pipeline_executable_properties`), under common names.

use crate::basis::named::named;
use crate::basis::units::Metric;
use crate::case::compiled::CompiledKernel;
use std::cmp::Ordering;

/// Name of the sub-group size that a kernel was compiled for, beside the driver's own statistics.
pub const SUBGROUP_SIZE: &str = "Subgroup Size";

/// Statistic of a compiled kernel. Every driver has its own name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Figure")]
#[serde(rename_all = "kebab-case")]
pub enum CompilerStatistic {
    /// Registers per invocation.
    Registers,
    /// Registers spilled to memory, or instructions that spill, whichever the driver counts.
    Spills,
    /// Bytes of private memory, for spills and for arrays that do not fit in registers.
    Scratch,
    /// Bytes of shared memory per work-group.
    Shared,
    /// Concurrency limit, in the driver's unit: sub-groups, warps, waves or threads.
    Occupancy,
    /// Number of instructions.
    Instructions,
    /// Size of the machine code in bytes.
    Code,
}

/// Bytes of a double word, turnip's unit for code sizes.
const DWORD: f64 = 4.0;

named!(CompilerStatistic, "statistic", [
    Registers "regs", Spills "spills", Scratch "scratch", Shared "shared", Occupancy "occup", Instructions "instr",
    Code "code",
]);

impl CompilerStatistic {
    /// Returns the name within a sentence.
    pub fn name_in_sentence(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Occupancy => "occupancy",
            Self::Instructions => "instructions",
            Self::Shared => "shared memory",
            Self::Code => "code size",
            Self::Spills | Self::Scratch => self.name(),
        }
    }

    /// Lists the drivers' names: RADV, NVIDIA, NVK, ANV, turnip and `PanVK`, Honeykrisp (AGX), V3DV. The first one that
    /// a kernel has is used. RADV's spilled scalar registers are excluded: they go to vector registers, not to memory.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Registers => &[
                "VGPRs",
                "Register Count",
                "Number of GPRs",
                "Max live registers",
                "Registers used",
                "GPRs",
                "Registers",
            ],
            Self::Spills => &["Spilled VGPRs", "Spills to memory", "Spill Count", "Spills", "TMU Spills", "STP Count"],
            Self::Scratch => {
                &["Scratch size", "Local Memory Size", "SLM Size", "Scratch Memory Size", "Scratch", "Spill Size"]
            }
            Self::Shared => &["LDS size", "Shared Memory Size", "Workgroup Memory Size"],
            Self::Occupancy => &["Subgroups per SIMD", "Max warps/SM", "Max Waves Per Core", "Threads", "Thread Count"],
            Self::Instructions => &["Instructions", "Instruction Count"],
            Self::Code => &["Code size", "Binary Size"],
        }
    }

    /// Whether a driver's statistic of this name has a common one.
    pub fn is_known(name: &str) -> bool {
        Self::ALL.iter().flat_map(|figure| figure.names()).any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Returns the driver's name of the statistic, and the value in the common unit; `None` if it is not reported.
    pub fn reported(self, kernel: &CompiledKernel) -> Option<(&str, f64)> {
        let mut by_name = self.names().iter().map(|name| metrics_called(kernel, name));
        let metrics = by_name.find(|metrics| !metrics.is_empty())?;
        // A pipeline may have several executables; the worst value counts.
        let mut worst = metrics.iter().filter_map(|metric| value(metric)).reduce(self.worse())?;
        let is_turnip = !metrics_called(kernel, "Max Waves Per Core").is_empty();
        if self == Self::Code && is_turnip {
            worst *= DWORD;
        }
        Some((&metrics[0].name, worst))
    }

    /// Returns the value: the driver's, or for shared memory the size that the kernel declares.
    pub fn of(self, kernel: &CompiledKernel) -> Option<f64> {
        match self.reported(kernel) {
            Some((_, value)) => Some(value),
            None if self == Self::Shared => Some(kernel.inspection.as_ref()?.shared.0 as f64),
            None => None,
        }
    }

    /// Returns the column of exports, with the unit if there is one.
    pub fn column(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Spills => "spills",
            Self::Scratch => "scratch_bytes",
            Self::Shared => "shared_bytes",
            Self::Occupancy => "occupancy",
            Self::Instructions => "instructions",
            Self::Code => "code_bytes",
        }
    }

    /// Returns the worst value of a case's kernels.
    pub fn worst(self, kernels: &[CompiledKernel]) -> Option<f64> {
        kernels.iter().filter_map(|kernel| self.of(kernel)).reduce(self.worse())
    }

    /// Returns the worse of two values: the smaller occupancy, the larger of anything else.
    fn worse(self) -> fn(f64, f64) -> f64 {
        if self == Self::Occupancy { f64::min } else { f64::max }
    }

    /// Compares two values: `Greater` if a kernel got worse from `before` to `after`. More registers or instructions
    /// may well be faster; more spills or lower occupancy are not.
    pub fn judge(self, before: f64, after: f64) -> Ordering {
        match self {
            Self::Spills | Self::Scratch => after.total_cmp(&before),
            Self::Occupancy => before.total_cmp(&after),
            Self::Registers | Self::Shared | Self::Instructions | Self::Code => Ordering::Equal,
        }
    }
}

/// Returns the statistics of a kernel's executables with this name.
fn metrics_called<'k>(kernel: &'k CompiledKernel, name: &str) -> Vec<&'k Metric> {
    kernel.statistics.iter().filter(|metric| metric.name.eq_ignore_ascii_case(name)).collect()
}

/// Returns the value of a driver's statistic. NVIDIA reports local memory as a 64-bit number with the bytes in the
/// lower half: 16 · 2³² + 1024 for an array of 1024.
pub fn value(statistic: &Metric) -> Option<f64> {
    let is_packed = statistic.name.eq_ignore_ascii_case("Local Memory Size");
    statistic.value.map(|value| if is_packed { value % 2_f64.powi(32) } else { value })
}

/// Returns the driver's count of spilled registers of `kernel`, if it is above zero.
pub fn spills(kernel: &CompiledKernel) -> Option<f64> {
    CompilerStatistic::Spills.of(kernel).filter(|spills| *spills > 0.0)
}

/// Returns the worst number of spills in `kernels`, or of bytes of scratch memory if the driver counts no spills.
pub fn spilled(kernels: &[CompiledKernel]) -> Option<f64> {
    kernels
        .iter()
        .filter_map(|kernel| CompilerStatistic::Spills.of(kernel).or_else(|| CompilerStatistic::Scratch.of(kernel)))
        .reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a kernel with the driver's statistics in `text`: `VGPRs=24, Code size=100`.
    fn kernel(text: &str) -> CompiledKernel {
        let metric = |part: &str| {
            let (name, value) = part.split_once('=').expect("a name and a value");
            Metric::new(name.trim(), value.parse().expect("a number"))
        };
        let statistics = text.split(',').map(metric).collect();
        CompiledKernel { name: "k".into(), hash: String::new(), statistics, inspection: None }
    }

    /// Returns registers, spills, scratch, shared memory, occupancy, instructions and code size.
    fn figures(text: &str) -> [Option<f64>; 7] {
        CompilerStatistic::ALL.map(|figure| figure.of(&kernel(text)))
    }

    #[test]
    fn every_drivers_names_have_a_common_one() {
        let radv = "Driver pipeline hash=7,SGPRs=128,VGPRs=256,Spilled SGPRs=12,Spilled VGPRs=335,Code size=25460,\
                    LDS size=1024,Scratch size=2048,Subgroups per SIMD=4,Hash=1,Instructions=3000,VALU=1000";
        assert_eq!(figures(radv), [256.0, 335.0, 2048.0, 1024.0, 4.0, 3000.0, 25460.0].map(Some));
        let nvk =
            "Instruction count=700,Code Size=11200,Number of GPRs=24,SLM Size=0,Spills to memory=2,Max warps/SM=48";
        assert_eq!(figures(nvk), [Some(24.0), Some(2.0), Some(0.0), None, Some(48.0), Some(700.0), Some(11200.0)]);
        let nvidia = "Register Count=40,Binary Size=4352,Stack Size=0,Local Memory Size=16";
        assert_eq!(figures(nvidia), [Some(40.0), None, Some(16.0), None, None, None, Some(4352.0)]);
        let anv = "Instruction Count=120,SEND Count=9,Loop Count=1,Cycle Count=900,Spill Count=3,Fill Count=5,\
                   Scratch Memory Size=1024,Max dispatch width=16,Max live registers=24,Workgroup Memory Size=512";
        assert_eq!(figures(anv), [Some(24.0), Some(3.0), Some(1024.0), Some(512.0), None, Some(120.0), None]);
        let agx = "Instructions=90,ALU=40,Code size=600,GPRs=48,Scratch=0,Threads=1024,Spills=0,Fills=0";
        assert_eq!(figures(agx), [Some(48.0), Some(0.0), Some(0.0), None, Some(1024.0), Some(90.0), Some(600.0)]);
        // Mesa 26.2's statistics of `tiled` for Tiger Lake.
        let anv = "Instructions=2667,Code size=35968,SENDs=97,Loops=1,Cycles=126532,Spills=95,Fills=83,\
                   Scratch Memory Size=2048,GRF registers=0,Push constant registers=20,Max dispatch width=8,\
                   Max live registers=177,Workgroup Memory Size=24832";
        assert_eq!(
            figures(anv),
            [Some(177.0), Some(95.0), Some(2048.0), Some(24832.0), None, Some(2667.0), Some(35968.0)]
        );
        let llvmpipe = "LLVM passes=3";
        assert_eq!(figures(llvmpipe), [None; 7]);
    }

    #[test]
    fn code_that_turnip_counts_in_words_is_told_in_bytes() {
        let turnip = "Max Waves Per Core=16,Instruction Count=64,Code size=128,Registers used=12,STP Count=0";
        let [registers, spills, _, _, waves, instructions, code] = figures(turnip);
        assert_eq!([registers, spills, waves, instructions, code], [12.0, 0.0, 16.0, 64.0, 512.0].map(Some));
    }

    #[test]
    fn nvidia_s_local_memory_is_the_lower_half_of_what_it_tells() {
        // An H100 with driver 580.159: no array, one of 256 f32, one of 1024.
        for (reported, bytes) in [(68_719_476_736u64, 0.0), (68_719_477_760, 1024.0), (68_719_480_832, 4096.0)] {
            let kernel = kernel(&format!("Register Count=31,Local Memory Size={reported}"));
            assert_eq!(CompilerStatistic::Scratch.of(&kernel), Some(bytes));
        }
    }

    #[test]
    fn of_several_executables_the_worst_counts() {
        let [_, spills, _, _, occupancy, ..] = figures("Spill Count=0,Max warps/SM=48,Spill Count=7,Max warps/SM=16");
        assert_eq!([spills, occupancy], [Some(7.0), Some(16.0)]);
    }

    #[test]
    fn more_spills_and_less_in_flight_are_worse_and_more_instructions_are_not() {
        assert_eq!(CompilerStatistic::Spills.judge(0.0, 442.0), Ordering::Greater);
        assert_eq!(CompilerStatistic::Occupancy.judge(16.0, 8.0), Ordering::Greater);
        assert_eq!(CompilerStatistic::Occupancy.judge(8.0, 16.0), Ordering::Less);
        assert_eq!(CompilerStatistic::Instructions.judge(10.0, 1000.0), Ordering::Equal);
    }
}
