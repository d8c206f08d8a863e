//! Probes of memory: bandwidth over working sets, shared-memory bandwidth, rate of atomic additions.
//!
//! Bandwidth: size `WxT` is a working set of W 32-bit words, traversed until T words are accessed, both powers of two.
//! Small working sets show caches; only one much larger than the last-level cache shows memory. Nominal work: 4·T
//! bytes; no operations. For copies the working set is source and target together, and loads and stores both count
//! (STREAM's convention).
//!
//! Shared memory: each invocation cycles through an array of 16-byte vectors, one per invocation; neighbors read
//! adjacent vectors, so there are no bank conflicts. Nominal work: n·256·4096·16 bytes for n work-groups of 256
//! invocations with 4096 loads each; no operations.
//!
//! Atomic additions: size `NxC` is N invocations that add 64 times each, spread over C counters, powers of two. One
//! counter is the worst case, as many as invocations the best. Nominal work: 64·N operations; almost no bytes.

use super::{GROUP, SIZE_IS_CHECKED, power_of_two, random_words};
use crate::case::check::{WrongElement, WrongElements};
use crate::case::quantity::{AtomicPattern, Pattern, Quantity};
use crate::elements::{Plain, arguments, buffers, in_place, input, integers, output};
use crate::error_bound::{check_without_error, exact};
use crate::prelude::*;

/// Declares the probe of one access pattern: name, summary, and the summary and source of its variant `vec4`; further
/// variants may follow.
macro_rules! memory {
    ($($static:ident $name:literal $pattern:ident $summary:literal $shows:literal $source:literal $($more:expr)?;)*) => {$(
        #[doc = concat!("Bandwidth of memory: ", $summary, ".")]
        pub static $static: Algorithm = Algorithm {
            name: Borrowed($name),
            summary: $summary,
            work: "4·T bytes for T words touched; no operations",
            default_size: Sweeps { gpu: "2^16x2^28,2^22x2^28,2^28x2^28", cpu: "2^12x2^24,2^18x2^24,2^24x2^24" },
            verify_size: Sweeps::same("2^12x2^15,2^14x2^18,2^16x2^16"),
            variants: Borrowed(&[
                variant! { "vec4", $shows, from $source,
                    measures Measures::Limit {
                        of: |size, _| limit(size, Pattern::$pattern),
                        quick: !matches!(Pattern::$pattern, Pattern::Write),
                    },
                    &[concat!($name, "/vec4")] => &|shaders, case, _| {
                        Program::single(dispatch(shaders[0], case, Pattern::$pattern))
                    }
                },
                $($more,)?
            ]),
            problem: Static(&|case| problem(case, Pattern::$pattern)),
            ..Algorithm::PLAIN
        };
    )*};
}

#[rustfmt::skip]
memory! {
    MEMORY_READ "memory-read" Read
        "read bandwidth: reads a working set of W words over and over until it has read T words"
        "16-byte loads, neighboring invocations at neighboring addresses" "the read test of every memory benchmark"
        variant! { "texel", "four-word fetches through a texel view: the fastest path to memory on software devices",
            from "none; known from llvmpipe, where a fetch costs less than a load",
            measures Measures::Limit { of: |size, _| limit(size, Pattern::Read), quick: true },
            &["memory-read/texel"] => &|shaders, case, _| Program::single(dispatch(shaders[0], case, Pattern::Read)) };
    MEMORY_WRITE "memory-write" Write
        "write bandwidth: writes a working set of W words over and over until it has written T words"
        "16-byte stores, neighboring invocations at neighboring addresses" "the write test of every memory benchmark";
    MEMORY_COPY "memory-copy" Copy
        "copy bandwidth: copies half of a working set of W words to the other half until it has touched T words"
        "a 16-byte load and store a step" "STREAM (McCalpin 1995), its copy";
}

/// Words per element: kernels load and store 16 bytes at a time.
const ELEMENT: u64 = 4;
/// Elements per invocation for a working set that caches may hold, if there are enough.
const CACHED_COUNT: u64 = 256;
/// Elements that an invocation reads of a larger working set. On an H100, reads reach 3.00 TB/s with 32, 2.87 with 4 and
/// 2.49 with 1.
const STREAMED_READS: u64 = 32;
/// Elements that an invocation writes to a larger working set. On an H100, copies reach 3.02 TB/s with 1, 2.94 with 8 and
/// 2.83 with 256.
const STREAMED_WRITES: u64 = 1;
/// Steps per iteration of the kernels' loops.
const UNROLL: u64 = 8;
/// Most work-groups along x; every device allows as many.
const MAX_GROUPS: u64 = 1 << 15;
/// Size in words of the smallest buffer that counts as larger than any cache: 128 MiB.
const UNCACHED_WORDS: u64 = 1 << 25;

/// Returns the limit that a case measures: the bandwidth over its working set.
fn limit(size: Size, pattern: Pattern) -> Option<Quantity> {
    let Size::Two(words, _) = size else { return None };
    Some(Quantity::bandwidth(pattern, words))
}

/// Distribution of a case's traffic over invocations.
struct Traffic {
    /// Words of the working set.
    words: u64,
    /// Words accessed.
    touched: u64,
    pattern: Pattern,
}

impl Traffic {
    /// Reads the case's size, `WxT`: words of the working set and words touched, both powers of two.
    fn new(case: &CaseSpec, pattern: Pattern) -> Result<Self, String> {
        let Size::Two(words, touched) = case.size else {
            return Err(format!(
                "'{}' is not WxT, words of the working set and words touched; write 2^20x2^24",
                case.size
            ));
        };
        let words = power_of_two("words of a working set", words, 2 * ELEMENT * GROUP)?;
        // A group runs at least one iteration of its unrolled loop.
        let touched = power_of_two("words touched", touched, 2 * UNROLL * ELEMENT * GROUP)?;
        if touched < words {
            return Err(format!("{touched} words touched do not go once over {words}; write {words}x{words}"));
        }
        Ok(Self { words, touched, pattern })
    }

    fn buffer_words(&self) -> u64 {
        self.words / self.buffers()
    }

    /// Returns the number of buffers that share the working set.
    fn buffers(&self) -> u64 {
        if self.pattern == Pattern::Copy { 2 } else { 1 }
    }

    /// Returns the steps of all invocations together.
    fn steps(&self) -> u64 {
        self.touched / self.buffers() / ELEMENT
    }

    /// Whether the buffer is too large for caches, so that work-groups stream through it in order.
    fn is_streamed(&self) -> bool {
        self.buffer_words() >= UNCACHED_WORDS
    }

    /// Returns the elements per invocation.
    fn count(&self) -> u64 {
        match (self.is_streamed(), self.pattern) {
            (true, Pattern::Read) => STREAMED_READS,
            (true, Pattern::Write | Pattern::Copy) => STREAMED_WRITES,
            (false, _) => CACHED_COUNT.min(self.steps() / GROUP),
        }
    }

    fn invocations(&self) -> u64 {
        self.steps() / self.count()
    }
}

/// Builds the dispatch that reads, writes or copies a working set.
fn dispatch(shader: &'static Shader, case: &CaseSpec, pattern: Pattern) -> Dispatch {
    let traffic = Traffic::new(case, pattern).expect(SIZE_IS_CHECKED);
    let first = BufferId(0);
    let second = BufferId(1);
    let buffers = match pattern {
        Pattern::Read if shader.interface.has_views() => vec![("X4", first), ("S", second)],
        Pattern::Read => vec![("X", first), ("S", second)],
        Pattern::Write => vec![("Y", first)],
        Pattern::Copy => vec![("X", first), ("Y", second)],
    };
    // The number of elements is a power of two.
    let mask = traffic.buffer_words() / ELEMENT - 1;
    let groups = traffic.invocations() / GROUP;
    Dispatch::new(shader, &arguments(&buffers, &[("MASK", mask), ("COUNT", traffic.count())]))
        .group_size([GROUP as u32, 1, 1])
        .groups([groups.min(MAX_GROUPS), groups.div_ceil(MAX_GROUPS), 1])
        .constant("STREAM", u32::from(traffic.is_streamed()))
        .constant("UNROLL", UNROLL.min(traffic.count()) as u32)
        .loops(traffic.count())
}

/// Creates the problem of reading, writing or copying a working set.
fn problem(case: &CaseSpec, pattern: Pattern) -> Result<Box<dyn Problem>, String> {
    let traffic = Traffic::new(case, pattern)?;
    let Traffic { words, touched, .. } = traffic;
    let len = traffic.buffer_words();
    let seed = case.seed;
    Ok(Box::new(Plain {
        extents: format!("{words}x{touched}"),
        buffers: match pattern {
            Pattern::Read => vec![input("X", DType::I32, len), output("S", DType::I32, traffic.invocations())],
            Pattern::Write => vec![output("Y", DType::I32, len)],
            Pattern::Copy => vec![input("X", DType::I32, len), output("Y", DType::I32, len)],
        },
        work: Work { operations: 0, bytes: Bytes(4 * touched) },
        chain: None,
        inputs: Box::new(move || {
            if pattern == Pattern::Write {
                return vec![];
            }
            // Bits of floats in [1, 2): normal numbers if a kernel loads them as floats.
            let normal = |word: i32| word & 0x007f_ffff | 0x3f80_0000;
            vec![HostArray::I32(random_words(len, seed).into_iter().map(normal).collect())]
        }),
        oracle: Box::new(move |inputs| match pattern {
            // Each word is read touched / words times: a power of two, and 2^31 as i32 wraps to the same.
            Pattern::Read => Box::new(SumOracle(sum(integers(&inputs[0])).wrapping_mul((touched / words) as i32))),
            Pattern::Copy => exact("Y", integers(&inputs[0]).to_vec()),
            Pattern::Write => exact("Y", (0..len as u32).map(|word| word.wrapping_mul(0x9e37_79b1) as i32).collect()),
        }),
    }))
}

/// Returns the sum modulo 2³².
fn sum(words: &[i32]) -> i32 {
    words.iter().fold(0i32, |sum, word| sum.wrapping_add(*word))
}

/// Oracle that expects this sum of all reads, because kernels may distribute words freely.
struct SumOracle(i32);

impl Oracle for SumOracle {
    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String> {
        let HostArray::I32(sums) = &outputs[0] else {
            return Err("S is not of 32-bit integers".into());
        };
        let mut wrong = WrongElements::default();
        if sum(sums) != self.0 {
            wrong.add(|| WrongElement::new("the sum of S".into(), sum(sums), self.0));
        }
        Ok(check_without_error(wrong))
    }

    fn comparison(&self, _: usize) -> Option<OutputComparison> {
        Some(OutputComparison { ordered: false, ..OutputComparison::default() })
    }
}

/// Shared-memory bandwidth.
pub static SHARED_MEMORY: Algorithm = Algorithm {
    name: Borrowed("shared-memory"),
    summary: "shared-memory bandwidth: n work-groups of 256 invocations, each loading 4096 vectors of 16 bytes",
    work: "n·256·4096·16 bytes; no operations",
    default_size: Sweeps { gpu: "2^13", cpu: "2^4" },
    verify_size: Sweeps::same("1,2,64"),
    variants: Borrowed(&[variant! { "read",
        "16-byte loads without bank conflicts",
        from "the usual method: fill a tile once and read it again and again",
        measures Measures::Limit { of: |_, _| Some(Quantity::SharedMemory), quick: false },
        &["shared-memory/read"] => &|shaders, case, _| {
            let groups = shared_groups(case).expect(SIZE_IS_CHECKED);
            let dispatch = Dispatch::new(shaders[0], &buffers([("X", 0), ("Y", 1)]))
                .group_size([GROUP as u32, 1, 1])
                .groups([groups, 1, 1])
                .constant("LOADS", SHARED_LOADS);
            Program::single(dispatch.loops(u64::from(SHARED_LOADS) / SHARED_UNROLL))
        }
    }]),
    problem: Static(&shared_problem),
    ..Algorithm::PLAIN
};

/// Loads per invocation.
const SHARED_LOADS: u32 = 4096;
/// Loads per iteration of the kernel's loop.
const SHARED_UNROLL: u64 = 16;

/// Reads the number of work-groups from the size.
fn shared_groups(case: &CaseSpec) -> Result<u64, String> {
    match case.size {
        Size::Uniform(n) if n <= 1 << 15 => power_of_two("work-groups", n, 1),
        size => Err(format!("'{size}' is not one number up to 2^15, the work-groups; write 2^12")),
    }
}

/// Creates the problem of the sums of all loads from an array in shared memory.
fn shared_problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let groups = shared_groups(case)?;
    let seed = case.seed;
    Ok(Box::new(Plain {
        extents: groups.to_string(),
        buffers: vec![input("X", DType::I32, ELEMENT * GROUP), output("Y", DType::I32, groups * GROUP)],
        work: Work { operations: 0, bytes: Bytes(groups * GROUP * u64::from(SHARED_LOADS) * 16) },
        chain: None,
        inputs: Box::new(move || vec![HostArray::I32(random_words(ELEMENT * GROUP, seed))]),
        oracle: Box::new(move |inputs| {
            // Every invocation cycles through the array several times.
            let cycles = (u64::from(SHARED_LOADS) / GROUP) as i32;
            let sum = sum(integers(&inputs[0])).wrapping_mul(cycles);
            exact("Y", vec![sum; (groups * GROUP) as usize])
        }),
    }))
}

/// Rate of atomic additions.
pub static ATOMIC_ADD: Algorithm = Algorithm {
    name: Borrowed("atomic-add"),
    summary: "rate of atomic additions: N invocations each add 64 times to C counters",
    work: "64·N operations; almost no bytes",
    default_size: Sweeps { gpu: "2^18x1,2^18x2^18", cpu: "2^12x1,2^12x2^12" },
    verify_size: Sweeps::same("64x1,2^12x2^12,2^12x64"),
    variants: Borrowed(&[variant! { "counters",
        "32-bit integer atomicAdd to global memory, result unused",
        from "the usual method",
        measures Measures::Limit {
            of: |size, _| match size {
                Size::Two(_, 1) => Some(Quantity::Atomics { pattern: AtomicPattern::Same }),
                Size::Two(..) => Some(Quantity::Atomics { pattern: AtomicPattern::Spread }),
                Size::Uniform(_) | Size::Three(..) => None,
            },
            quick: false,
        },
        &["atomic-add/counters"] => &|shaders, case, _| {
            let [invocations, counters] = invocations_and_counters(case).expect(SIZE_IS_CHECKED);
            let group = invocations.min(GROUP);
            let dispatch = Dispatch::new(shaders[0], &arguments(&[("C", BufferId(0))], &[("MASK", counters - 1)]))
                .group_size([group as u32, 1, 1])
                .groups([invocations / group, 1, 1])
                .constant("ADDS", ADDS);
            Program::single(dispatch.loops(u64::from(ADDS)))
        }
    }]),
    problem: Static(&atomic_problem),
    ..Algorithm::PLAIN
};

/// Additions per invocation: 0 and 1 in turn.
const ADDS: u32 = 64;

/// Reads and checks the case's size, `NxC`: invocations and counters, both powers of two.
fn invocations_and_counters(case: &CaseSpec) -> Result<[u64; 2], String> {
    let Size::Two(invocations, counters) = case.size else {
        return Err(format!("'{}' is not NxC, invocations and counters; write 2^18x1", case.size));
    };
    let invocations = power_of_two("invocations", invocations, 64)?;
    if invocations > 1 << 23 || counters > invocations {
        return Err(format!("'{}' has more than 2^23 invocations, or fewer of them than counters", case.size));
    }
    Ok([invocations, power_of_two("counters", counters, 1)?])
}

/// Creates the problem of the final values of all counters.
fn atomic_problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let [invocations, counters] = invocations_and_counters(case)?;
    let seed = case.seed;
    Ok(Box::new(Plain {
        extents: format!("{invocations}x{counters}"),
        buffers: vec![in_place("C", DType::I32, counters)],
        work: Work { operations: invocations * u64::from(ADDS), bytes: Bytes(0) },
        chain: None,
        inputs: Box::new(move || vec![HostArray::I32(random_words(counters, seed))]),
        oracle: Box::new(move |inputs| {
            // Below 2^31, because there are at most 2^23 invocations.
            let added = (invocations / counters * u64::from(ADDS) / 2) as i32;
            exact("C", integers(&inputs[0]).iter().map(|start| start.wrapping_add(added)).collect())
        }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(words: u64, touched: u64, pattern: Pattern) -> Result<Traffic, String> {
        Traffic::new(&CaseSpec::new(&MEMORY_READ, Size::Two(words, touched), DType::I32), pattern)
    }

    /// Returns the element of step `j`, as `memory.glsl` computes it.
    fn place(traffic: &Traffic, group: u64, lane: u64, j: u64) -> u64 {
        let groups = traffic.invocations() / GROUP;
        let steps = (traffic.buffer_words() / ELEMENT / GROUP / groups).max(1);
        let piece = if traffic.is_streamed() {
            group * traffic.count() + j
        } else {
            (j % steps) * groups + (group + 37 * (j / steps)) % groups
        };
        (piece * GROUP + lane) % (traffic.buffer_words() / ELEMENT)
    }

    /// Returns the element of step `j`, as `memory-read/texel` computes it.
    fn place_of_texel(traffic: &Traffic, group: u64, lane: u64, j: u64) -> u64 {
        let invocation = group * GROUP + lane;
        (invocation / 8 * traffic.count() * 8 + invocation % 8 + 8 * j) % (traffic.buffer_words() / ELEMENT)
    }

    #[test]
    fn every_element_is_touched_equally_often() {
        for (words, touched) in [(1 << 11, 1 << 14), (1 << 14, 1 << 20), (1 << 19, 1 << 20), (1 << 26, 1 << 27)] {
            for (pattern, place) in [
                (Pattern::Read, place as fn(&Traffic, u64, u64, u64) -> u64),
                (Pattern::Read, place_of_texel),
                (Pattern::Copy, place),
            ] {
                let traffic = traffic(words, touched, pattern).expect("a sensible size");
                let mut touches = vec![0u64; (traffic.buffer_words() / ELEMENT) as usize];
                for group in 0..traffic.invocations() / GROUP {
                    for j in 0..traffic.count() {
                        for lane in 0..GROUP {
                            touches[place(&traffic, group, lane, j) as usize] += 1;
                        }
                    }
                }
                assert!(touches.iter().all(|n| *n == touched / words), "{words}x{touched}");
            }
        }
    }

    #[test]
    fn a_read_is_right_if_its_sums_come_to_those_of_all_words_as_often_as_they_are_touched() {
        let traffic = traffic(1 << 11, 1 << 14, Pattern::Read).expect("a sensible size");
        let case = CaseSpec::new(&MEMORY_READ, Size::Two(1 << 11, 1 << 14), DType::I32);
        let problem = problem(&case, Pattern::Read).expect("a sensible size");
        let inputs = problem.inputs().expect("inputs");
        let x = integers(&inputs[0]);
        let oracle = problem.oracle(&inputs).expect("an oracle");
        let mut sums = vec![0; traffic.invocations() as usize];
        for _ in 0..8 {
            for (i, word) in x.iter().enumerate() {
                let invocation = i % sums.len();
                sums[invocation] = word.wrapping_add(sums[invocation]);
            }
        }
        let check = |sums: &[i32]| oracle.check(&[HostArray::I32(sums.to_vec())]).expect("an answer");
        assert!(check(&sums).passes());
        // One word read twice, another not at all.
        sums[0] = sums[0].wrapping_add(x[0]).wrapping_sub(x[1]);
        let wrong = check(&sums);
        assert!(!wrong.passes() && wrong.worst.starts_with("the sum of S is "), "{wrong:?}");
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        let error = |words, touched| traffic(words, touched, Pattern::Read).err().expect("refused");
        let expected = "1000 words of a working set are not a power of two from 2048 to 2^30; write 2^11";
        assert_eq!(error(1000, 1 << 20), expected);
        let expected = "524288 words touched do not go once over 1048576; write 1048576x1048576";
        assert_eq!(error(1 << 20, 1 << 19), expected);
        let case = CaseSpec::new(&MEMORY_READ, Size::Uniform(64), DType::I32);
        let expected = "'64' is not WxT, words of the working set and words touched; write 2^20x2^24";
        assert_eq!(Traffic::new(&case, Pattern::Read).err().as_deref(), Some(expected));
    }

    #[test]
    fn sizes_that_would_overflow_or_idle_are_refused() {
        for size in [Size::Uniform(64), Size::Two(1 << 24, 1), Size::Two(64, 128), Size::Two(100, 1), Size::Two(64, 3)]
        {
            assert!(invocations_and_counters(&CaseSpec::new(&ATOMIC_ADD, size, DType::I32)).is_err(), "{size}");
        }
    }
}
