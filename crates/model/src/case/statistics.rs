//! Drivers' statistics of compiled kernels (`VK_KHR_pipeline_executable_properties`), under common names.

use crate::basis::units::Metric;
use crate::case::compiled::CompiledKernel;
use std::cmp::Ordering;

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

impl CompilerStatistic {
    /// All statistics, in the order of tables.
    pub const ALL: [Self; 7] =
        [Self::Registers, Self::Spills, Self::Scratch, Self::Shared, Self::Occupancy, Self::Instructions, Self::Code];

    /// Returns the heading in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registers => "regs",
            Self::Spills => "spills",
            Self::Scratch => "scratch",
            Self::Shared => "shared",
            Self::Occupancy => "occup",
            Self::Instructions => "instr",
            Self::Code => "code",
        }
    }

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

    /// Returns the driver's name of the statistic and its value in the common unit; `None` if the driver does not
    /// report it.
    pub fn reported(self, kernel: &CompiledKernel) -> Option<(&str, f64)> {
        let named =
            |name: &'static str| kernel.statistics.iter().filter(move |own| own.name.eq_ignore_ascii_case(name));
        let name = self.names().iter().find(|name| named(name).next().is_some())?;
        // A pipeline may have several executables; the worst value counts.
        let worst = |a: f64, b: f64| if self == Self::Occupancy { a.min(b) } else { a.max(b) };
        let value = named(name).filter_map(value).reduce(worst)?;
        let turnip = self == Self::Code && named("Max Waves Per Core").next().is_some();
        let name = named(name).next().map(|metric| metric.name.as_str())?;
        Some((name, if turnip { DWORD * value } else { value }))
    }

    /// Returns the value: the driver's, or for shared memory the size that the kernel declares.
    pub fn of(self, kernel: &CompiledKernel) -> Option<f64> {
        let declared = || Some(kernel.inspection.as_ref()?.shared.0 as f64).filter(|_| self == Self::Shared);
        self.reported(kernel).map(|(_, value)| value).or_else(declared)
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

/// Returns the value of a driver's statistic. NVIDIA reports local memory as a 64-bit number with the bytes in the
/// lower half: 16 · 2³² + 1024 for an array of 1024.
pub fn value(statistic: &Metric) -> Option<f64> {
    let bytes = statistic.name.eq_ignore_ascii_case("Local Memory Size");
    statistic.value.map(|value| if bytes { value % 2_f64.powi(32) } else { value })
}

/// Returns the driver's count of spilled registers of `kernel`, if it is above zero.
pub fn spills(kernel: &CompiledKernel) -> Option<f64> {
    CompilerStatistic::Spills.of(kernel).filter(|spills| *spills > 0.0)
}

/// Returns the worst spill count of `kernels`: registers, or bytes of scratch memory if the driver reports no count;
/// `None` if it reports neither.
pub fn spilled(kernels: &[CompiledKernel]) -> Option<f64> {
    kernels
        .iter()
        .filter_map(|kernel| CompilerStatistic::Spills.of(kernel).or_else(|| CompilerStatistic::Scratch.of(kernel)))
        .reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Metric;

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
        let (none, some) = (None, Some::<f64>);
        assert_eq!(figures(nvk), [some(24.0), some(2.0), some(0.0), none, some(48.0), some(700.0), some(11200.0)]);
        let nvidia = "Register Count=40,Binary Size=4352,Stack Size=0,Local Memory Size=16";
        assert_eq!(figures(nvidia), [some(40.0), none, some(16.0), none, none, none, some(4352.0)]);
        let anv = "Instruction Count=120,SEND Count=9,Loop Count=1,Cycle Count=900,Spill Count=3,Fill Count=5,\
                   Scratch Memory Size=1024,Max dispatch width=16,Max live registers=24,Workgroup Memory Size=512";
        assert_eq!(figures(anv), [some(24.0), some(3.0), some(1024.0), some(512.0), none, some(120.0), none]);
        let agx = "Instructions=90,ALU=40,Code size=600,GPRs=48,Scratch=0,Threads=1024,Spills=0,Fills=0";
        assert_eq!(figures(agx), [some(48.0), some(0.0), some(0.0), none, some(1024.0), some(90.0), some(600.0)]);
        // Mesa 26.2's statistics of `tiled` for Tiger Lake.
        let anv = "Instructions=2667,Code size=35968,SENDs=97,Loops=1,Cycles=126532,Spills=95,Fills=83,\
                   Scratch Memory Size=2048,GRF registers=0,Push constant registers=20,Max dispatch width=8,\
                   Max live registers=177,Workgroup Memory Size=24832";
        assert_eq!(
            figures(anv),
            [some(177.0), some(95.0), some(2048.0), some(24832.0), none, some(2667.0), some(35968.0)]
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
        let of =
            |told: u64| CompilerStatistic::Scratch.of(&kernel(&format!("Register Count=31,Local Memory Size={told}")));
        // An H100 with driver 580.159: no array, one of 256 f32, one of 1024.
        let told = [68_719_476_736, 68_719_477_760, 68_719_480_832].map(of);
        assert_eq!(told, [0.0, 1024.0, 4096.0].map(Some));
    }

    #[test]
    fn of_several_executables_the_worst_counts() {
        let several = "Spill Count=0,Max warps/SM=48,Spill Count=7,Max warps/SM=16";
        assert_eq!(
            [CompilerStatistic::Spills, CompilerStatistic::Occupancy].map(|own| own.of(&kernel(several))),
            [Some(7.0), Some(16.0)]
        );
    }

    #[test]
    fn more_spills_and_less_in_flight_are_worse_and_more_instructions_are_not() {
        assert_eq!(CompilerStatistic::Spills.judge(0.0, 442.0), Ordering::Greater);
        assert_eq!(CompilerStatistic::Occupancy.judge(16.0, 8.0), Ordering::Greater);
        assert_eq!(CompilerStatistic::Occupancy.judge(8.0, 16.0), Ordering::Less);
        assert_eq!(CompilerStatistic::Instructions.judge(10.0, 1000.0), Ordering::Equal);
    }
}
