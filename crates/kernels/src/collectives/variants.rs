//! Variants of collectives: each operation in its sub-group form and through shared memory. To add one, write a kernel
//! in `glsl/collectives/` that defines `operation`, and add an entry with operation and form, whose names joined by `-`
//! name the variant.

use super::primitive::Primitive;
use crate::case::Form;
use crate::elements::arguments;
use crate::prelude::*;
use crate::shaders::built_in;

/// Sub-groups in the work-group.
pub(super) const SUBGROUPS: u32 = 2;
/// Longest chain: the host computes it as well.
const MAX_CHAIN: u64 = 1 << 20;

/// Declares variants that run a chain of one primitive. An entry whose operation contains a loop also names the
/// function that returns its rounds.
macro_rules! chains {
    ($($operation:literal, $form:literal: $primitive:ident, $($loops:ident,)? $source:literal, $summary:literal;)*) => {
        pub(super) static VARIANTS: &[Variant] = &[$(Variant {
            name: Borrowed(concat!($operation, "-", $form)),
            choice: std::collections::BTreeMap::new(),
            aliases: &[],
            summary: $summary,
            source: $source,
            measures: Measures::Form(Form { operation: $operation, name: $form }),
            kernels: built_in(&[concat!("collectives/", $operation, "-", $form)]),
            program: Static(&|shaders, case, device| {
                if case.subgroup_size(device) < 2 {
                    return Program::refused("needs sub-groups of 2 at least: a lane alone has no partner".into());
                }
                let rounds = 0 $(+ $loops(case.subgroup_size(device)))?;
                Program::single(chain(shaders[0], case, device, Primitive::$primitive, rounds))
            }),
        },)*];
    };
}

#[rustfmt::skip]
chains! {
    "nothing", "subgroup": Nothing, "the zero of the scale",
        "the empty loop: subtract its time from the others";
    "barrier", "subgroup": Nothing, "Data Parallel C++, barriers of sub-groups",
        "a sub-group barrier: subgroupBarrier";
    "barrier", "workgroup": Nothing, "Data Parallel C++, barriers of work-groups",
        "a work-group barrier, which every exchange through shared memory needs";
    "broadcast", "subgroup": Broadcast, "Data Parallel C++, group_broadcast (figure 9-10)",
        "all lanes get one lane's value: subgroupBroadcast from a lane chosen at run time";
    "broadcast", "shared": Broadcast, "Data Parallel C++, group_broadcast (figure 9-10)",
        "one lane writes to shared memory, and all read it after a work-group barrier";
    "vote-any", "subgroup": VoteAny, "Data Parallel C++, any_of_group (figure 9-13)",
        "whether a condition holds in any lane: subgroupAny";
    "vote-any", "shared": VoteAny, "Data Parallel C++, any_of_group (figure 9-13)",
        "whether a condition holds in any lane: an atomic OR into a shared flag, one work-group barrier";
    "vote-all", "subgroup": VoteAll, "Data Parallel C++, all_of_group (figure 9-13)",
        "whether a condition holds in all lanes: subgroupAll";
    "vote-all", "shared": VoteAll, "Data Parallel C++, all_of_group (figure 9-13)",
        "whether a condition holds in all lanes: an atomic OR of its negation into a shared flag";
    "vote-none", "subgroup": VoteNone, "Data Parallel C++, none_of_group (figure 9-13)",
        "whether a condition holds in no lane: the negation of subgroupAny";
    "vote-none", "shared": VoteNone, "Data Parallel C++, none_of_group (figure 9-13)",
        "whether a condition holds in no lane: an atomic OR into a shared flag, then negated";
    "ballot", "subgroup": Ballot, "Data Parallel C++, votes (figure 9-13) lane by lane",
        "a bit mask of the lanes in which a condition holds: subgroupBallot";
    "ballot", "shared": Ballot, "Data Parallel C++, votes (figure 9-13) lane by lane",
        "the same bit mask in shared memory: each lane sets its bit with an atomic OR";
    "shuffle", "subgroup": Select, "Data Parallel C++, select_from_group (figure 9-14)",
        "each lane reads a lane of its choice: subgroupShuffle";
    "shuffle", "shared": Select, "Data Parallel C++, select_from_group (figure 9-14)",
        "each lane reads a slot of its choice in shared memory after a work-group barrier";
    "shift-left", "subgroup": ShiftLeft, "Data Parallel C++, shift_group_left (figure 9-15)",
        "each lane reads the one 5/8 of a sub-group above: subgroupShuffleDown";
    "shift-left", "shared": ShiftLeft, "Data Parallel C++, shift_group_left (figure 9-15)",
        "the same shift through shared memory and a work-group barrier";
    "shift-right", "subgroup": ShiftRight, "Data Parallel C++, shift_group_right",
        "each lane reads the one 5/8 of a sub-group below: subgroupShuffleUp";
    "shift-right", "shared": ShiftRight, "Data Parallel C++, shift_group_right",
        "the same shift through shared memory and a work-group barrier";
    "xor", "subgroup": Xor, "Data Parallel C++, permute_group_by_xor (figure 9-16)",
        "neighboring lanes swap: subgroupShuffleXor with mask 1";
    "xor", "shared": Xor, "Data Parallel C++, permute_group_by_xor (figure 9-16)",
        "neighboring lanes swap through shared memory and a work-group barrier";
    "reverse", "subgroup": Reverse, "Data Parallel C++, permute_group_by_xor (figure 9-17)",
        "lanes in reverse order: subgroupShuffleXor with a mask of ones";
    "reverse", "shared": Reverse, "Data Parallel C++, permute_group_by_xor (figure 9-17)",
        "lanes in reverse order through shared memory and a work-group barrier";
    "reduce-add", "subgroup": ReduceAdd, "Data Parallel C++, collective functions",
        "all lanes get the sum over all: subgroupAdd";
    "reduce-add", "shared": ReduceAdd, log2, "Data Parallel C++, collective functions",
        "a butterfly sum through shared memory: log2(lanes) work-group barriers";
    "scan", "subgroup": Scan, "Data Parallel C++, inclusive scans by shifts (at figure 9-15)",
        "each lane gets the sum up to its own value: subgroupInclusiveAdd";
    "scan", "shared": Scan, log2, "Data Parallel C++, inclusive scans by shifts (at figure 9-15)",
        "Hillis and Steele's inclusive scan through shared memory: log2(lanes) work-group barriers";
}

/// Returns the chain length that a size stands for.
pub(super) fn chain_length(size: Size) -> Result<u64, String> {
    match size {
        Size::Uniform(n) if n <= MAX_CHAIN => Ok(n),
        Size::Uniform(_) => Err(format!("the host follows chains of at most {MAX_CHAIN} operations")),
        Size::Two(..) | Size::Three(..) => {
            Err(format!("'{size}' is not one number, the operations of the chain; write 1024"))
        }
    }
}

/// Returns the rounds of a loop that doubles a distance up to the sub-group size.
fn log2(lanes: u32) -> u64 {
    lanes.ilog2().into()
}

/// Builds the dispatch of one work-group of [`SUBGROUPS`] full sub-groups that runs the chain; each operation loops
/// `rounds` times.
fn chain(shader: &'static Shader, case: &CaseSpec, device: &DeviceInfo, primitive: Primitive, rounds: u64) -> Dispatch {
    let lanes = case.subgroup_size(device);
    let n = chain_length(case.size).expect("the problem of this case was made, which checks its size");
    let buffers = [("X", BufferId(0)), ("Y", BufferId(1)), ("F", BufferId(2))];
    Dispatch::new(shader, &arguments(&buffers, &[("N", n), ("PRIMITIVE", primitive as u64)]))
        .group_size([SUBGROUPS * lanes, 1, 1])
        .subgroups_of(lanes)
        .loops(n * (1 + rounds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::COLLECTIVES;
    use crate::device::fixture::software_device;

    fn case(n: u64) -> CaseSpec {
        CaseSpec::new(&COLLECTIVES, Size::Uniform(n), DType::I32)
    }

    #[test]
    fn a_chain_runs_in_one_work_group_of_two_required_sub_groups() {
        let mut device = software_device();
        (device.subgroup.min_size, device.subgroup.max_size) = (8, 32);
        for variant in VARIANTS {
            for (required, lanes) in [(None, 8), (Some(16), 16), (Some(32), 32)] {
                let case = case(33).with(|options| options.subgroup_size = required);
                let program = variant.program(&case, &device).expect("it runs on the software device");
                let dispatch = program.dispatches().next().expect("one dispatch");
                assert_eq!((dispatch.groups, dispatch.subgroup_size), ([1; 3], Some(lanes)), "{}", variant.name);
                let group = dispatch.shader.interface.local_size[0].value(&dispatch.constants);
                assert_eq!(group, 2 * lanes, "{}", variant.name);
            }
        }
    }

    #[test]
    fn a_sub_group_size_that_the_device_lacks_is_a_reason_to_skip() {
        let case = case(33).with(|options| options.subgroup_size = Some(64));
        for variant in VARIANTS {
            let reason = variant.program(&case, &software_device()).expect_err("it has sub-groups of 8");
            assert_eq!(reason, "needs sub-groups of 64; the device has 8", "{}", variant.name);
        }
    }

    #[test]
    fn the_rounds_of_an_operation_count_as_loop_iterations() {
        let program = |name| COLLECTIVES.variant(name)?.program(&case(16_384), &software_device());
        let expected = "needs 65536 loop iterations an invocation; this driver silently stops after 65535";
        assert_eq!(program("scan-shared").expect_err("too many"), expected);
        assert!(program("scan-subgroup").is_ok());
    }

    #[test]
    fn every_operation_of_sub_groups_has_its_form_in_shared_memory() {
        for variant in VARIANTS {
            let Form { operation, name } = variant.form().expect("each is a form");
            let counterpart = match (operation, name) {
                ("nothing", "subgroup") => continue,
                ("barrier", "subgroup") => "barrier-workgroup".to_string(),
                ("barrier", "workgroup") | (_, "shared") => format!("{operation}-subgroup"),
                (_, "subgroup") => format!("{operation}-shared"),
                _ => panic!("{}: unknown form", variant.name),
            };
            assert!(COLLECTIVES.variant(&counterpart).is_ok(), "{} has no {counterpart}", variant.name);
        }
    }
}
