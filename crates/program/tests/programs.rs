//! Programs of built-in kernels: arguments, limits, launches, buffers.

use gpukern_kernels::shaders::find;
use gpukern_model::basis::dtype::DType;
use gpukern_model::device::fixture::software_device;
use gpukern_program::kernel::buffer::{Binding, BufferSpec, Descriptor, Role};
use gpukern_program::kernel::interface::SlotKind;
use gpukern_program::kernel::program::{ArgumentValue, BufferId, Dispatch, Program, Rounds, Step, waits};

fn naive() -> Dispatch {
    let shader = find("matmul/naive", DType::F32).expect("it is in glsl/matmul");
    let [a, b, c] = [0, 1, 2].map(|i| ArgumentValue::Buffer(BufferId(i)));
    let n = ArgumentValue::U32(7);
    Dispatch::new(shader, &[("A", a), ("B", b), ("C", c), ("M", n), ("N", n), ("K", n)]).group_size([16, 16, 1])
}

#[test]
fn arguments_are_laid_out_as_the_kernel_declares_them() {
    let block = naive().argument_block(&[0x1111, 0x2222, 0x3333]);
    assert_eq!(block.len(), 36);
    assert_eq!(block[8..16], 0x2222u64.to_le_bytes());
    assert_eq!(block[32..36], 7u32.to_le_bytes());
    let other = naive().argument("B", ArgumentValue::Buffer(BufferId(2))).argument("K", ArgumentValue::U32(8));
    let block = other.argument_block(&[0x1111, 0x2222, 0x3333]);
    assert_eq!((&block[8..16], &block[32..]), (&0x3333u64.to_le_bytes()[..], &8u32.to_le_bytes()[..]));
    assert_eq!(
        (other.value("B"), other.value("K")),
        (Some(ArgumentValue::Buffer(BufferId(2))), Some(ArgumentValue::U32(8)))
    );
    assert_eq!((other.value("D"), naive().values().count()), (None, 6));
}

#[test]
fn what_a_kernel_does_not_take_is_named_with_the_kernel() {
    let shader = find("matmul/naive", DType::F32).expect("it is in glsl/matmul");
    let [a, n] = [ArgumentValue::Buffer(BufferId(0)), ArgumentValue::U32(7)];
    let all = [("A", a), ("B", a), ("C", a), ("M", n), ("N", n), ("K", n)];
    let error = |arguments: &[(&str, ArgumentValue)]| Dispatch::with_arguments(shader, arguments).expect_err("refused");
    let missing = "matmul/naive.f32 takes the argument 'K', which has no value; give it one";
    assert_eq!(error(&all[..5]), missing);
    let unknown = "matmul/naive.f32 has no argument 'D'; available: A, B, C, M, N, K";
    assert_eq!(error(&[&all[..], &[("D", a)]].concat()), unknown);
    let twice = "the argument 'A' of matmul/naive.f32 has two values; leave one out";
    assert_eq!(error(&[&all[..], &[("A", a)]].concat()), twice);
    let kind = "the argument 'C' of matmul/naive.f32 is a buffer, not an integer";
    assert_eq!(error(&[("A", a), ("B", a), ("C", n), ("M", n), ("N", n), ("K", n)]), kind);
    let view = find("matmul/texel", DType::F32).expect("it is in glsl/matmul");
    let views = Dispatch::with_arguments(view, &[&all[..], &[("A4", a), ("B4", ArgumentValue::F32(1.0))]].concat());
    let view = "the argument 'B4' of matmul/texel.f32 is a buffer, not a float";
    assert_eq!(views.expect_err("refused"), view);
}

#[test]
#[should_panic = "matmul/naive.f32 has no specialization constant 'BM'; available: local_size_x, local_size_y"]
fn a_constant_that_a_kernel_does_not_have_is_named_with_the_kernel() {
    let _ = naive().constant("BM", 7);
}

#[test]
#[should_panic = "matmul/naive.f32 fixes its work-groups to 1 invocations along z, not 2; leave them so"]
fn an_extent_that_a_kernel_fixes_is_named_with_the_kernel() {
    let _ = naive().group_size([16, 16, 2]);
}

#[test]
fn a_dispatch_beyond_a_limit_is_refused_with_the_limit() {
    let of_sub_groups = |x| naive().group_size([x, 16, 1]).subgroups_of(8);
    for (dispatch, reason) in [
        (naive().groups([1, 70_000, 1]), Some("needs 70000 work-groups along y; the device dispatches at most 65535")),
        (
            naive().loops(65_536),
            Some("needs 65536 loop iterations an invocation; this driver silently stops after 65535"),
        ),
        (naive().loops(65_535), None),
        (of_sub_groups(4), Some("has work-groups of 4, not a multiple of the sub-group size 8")),
        (of_sub_groups(16), None),
        (
            naive().group_size([64, 64, 1]),
            Some("needs work-groups of 64×64×1 invocations; the device has at most 1024 in a group"),
        ),
    ] {
        assert_eq!(Program::single(dispatch).unsupported(&software_device()).as_deref(), reason);
    }
}

#[test]
fn a_view_of_more_texels_than_the_device_allows_is_refused() {
    let shader = find("matmul/texel", DType::F32).expect("it is in glsl/matmul");
    let [a, b, c] = [0, 1, 2].map(|i| ArgumentValue::Buffer(BufferId(i)));
    let n = ArgumentValue::U32(7);
    let arguments = [("A", a), ("B", b), ("C", c), ("A4", a), ("B4", b), ("M", n), ("N", n), ("K", n)];
    let program = Program::single(Dispatch::new(shader, &arguments));
    assert_eq!(program.all_steps().next().expect("one step").buffers(), [0, 1, 2, 0, 1].map(BufferId));
    let buffer = |name, len| BufferSpec::new(name, Role::Input, DType::F32, len);
    let mut device = software_device();
    device.limits.texel_buffer_elements = 1 << 16;
    let fits = [buffer("A", 4 << 16), buffer("B", 1), buffer("C", 1 << 20)];
    assert_eq!(program.unviewable(&fits, &device), None);
    let reason = program.unviewable(&[buffer("A", 1), buffer("B", (4 << 16) + 1), buffer("C", 1)], &device);
    let expected = "needs a texel view of 65537 elements of B; the device allows 65536";
    assert_eq!(reason.as_deref(), Some(expected));
}

#[test]
fn launches_that_share_no_buffer_are_one_stage() {
    let fill = |buffer| Step::Fill { buffer: BufferId(buffer), word: 0 };
    let kernel = || Step::Dispatch(naive());
    let program = |steps| Program { steps, ..Program::default() };
    assert_eq!(waits(&[fill(0), fill(1), fill(0), fill(1)]), [false, false, true, false]);
    assert_eq!(program(vec![kernel(), kernel(), fill(9), kernel()]).launches(), 3);
    assert_eq!(program(vec![fill(0), kernel()]).launches(), 1);
    let mut skipped = naive();
    skipped.indirect = Some((BufferId(3), 0));
    assert_eq!(program(vec![kernel(), Step::Dispatch(skipped), kernel()]).launches(), 2);
}

#[test]
fn a_program_over_other_buffers_names_them_in_every_step() {
    let steps = || {
        let at = Binding::whole(0, 0, SlotKind::Texel, BufferId(1));
        let mut kernel = naive().indirect(BufferId(2));
        kernel.descriptors = vec![Descriptor { at, bytes: None }];
        let [a, b, c] = [0, 1, 2].map(BufferId);
        vec![Step::Dispatch(kernel), Step::Fill { buffer: a, word: 0 }, Step::Copy { from: b, to: c }]
    };
    let rounds = Some(Rounds { body: steps(), stop: BufferId(2), bound: 1 });
    let program = Program { steps: steps(), rounds, ..Program::default() }.with_buffers(|id| BufferId(10 * id.0 + 1));
    let named: Vec<_> = program.all_steps().map(Step::buffers).collect();
    let expected = [vec![1, 11, 21, 11, 21], vec![1], vec![11, 21]].map(|ids| ids.into_iter().map(BufferId).collect());
    assert!(named.chunks(3).all(|steps| steps == &expected as &[Vec<_>]) && named.len() == 6, "{named:?}");
    assert_eq!(program.rounds.expect("rounds").stop, BufferId(21));
}
