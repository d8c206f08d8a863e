//! Runs hand-made users' kernels on a device: descriptors, uniform data, constants, references, red zones.

use gpukern_engine::executor::Silent;
use gpukern_engine::runner::{Runner, Timing};
use gpukern_kernels::CATALOGUE;
use gpukern_model::basis::dtype::DType;
use gpukern_model::case::accepted::Mutation;
use gpukern_model::device::cache::CacheFolder;
use gpukern_model::device::capability::DeviceKind;
use gpukern_program::algorithms::CaseSpec;
use gpukern_program::kernel::buffer::{Address, Role};
use gpukern_program::kernel::interface::SlotKind;
use gpukern_program::kernel::program::{BufferId, Dispatch};
use gpukern_record::plan::options::{SamplingArgs, Selection};
use gpukern_record::plan::{CaseGroup, PlanSection};
use gpukern_record::record::{Case, Outcome};
use gpukern_user::algorithm::{Save, UserKernels};
use gpukern_user::array;
use gpukern_user::fixture::{SHIFT, bound, buffer, compiled, constant, kernels, shift, shifted};
use gpukern_user::resolved::{Builtin, Fill, Module, PassList, Reference, ResolvedBuffer, Tolerance};
use gpukern_vulkan::{Device, Instance, Validation};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Returns the reason why a case was rejected.
fn rejection(case: &Case) -> &str {
    let Outcome::Rejected(wrong) = &case.outcome else { panic!("{:?}", case.outcome) };
    &wrong.worst
}

/// Returns the group of users' kernels on their first problem.
fn group(kernels: &UserKernels) -> CaseGroup {
    let algorithm = kernels.clone().algorithm(&CATALOGUE).expect("it fits");
    let spec = CaseSpec::new(&algorithm, kernels.problem.sizes()[0], kernels.dtype());
    let variants = kernels.choices(0, true).map(|index| algorithm.variants[index].clone()).collect();
    CaseGroup::new(algorithm, spec, variants)
}

/// Runs users' kernels on the software device, or else on the first device, with the validation layer if it is
/// installed.
fn run(kernels: &UserKernels) -> Vec<Case> {
    // As in gpukern, one thread of a process calls Vulkan: Mesa's compiler has crashed with several.
    static VULKAN: Mutex<()> = Mutex::new(());
    let _alone = VULKAN.lock().unwrap_or_else(PoisonError::into_inner);
    let interrupted: &AtomicBool = Box::leak(Box::default());
    let sampling = SamplingArgs { max_time: Some("20ms".into()), ..SamplingArgs::default() };
    let selection = Selection { sampling, ..Selection::default() };
    let section = PlanSection::of(vec![group(kernels)], &selection).expect("a section");
    let instance = Instance::new(Validation::On, None).or_else(|_| Instance::new(Validation::Off, None));
    let instance = instance.expect("Vulkan");
    let devices = instance.devices().expect("devices");
    let physical = devices.iter().find(|device| device.info.kind == DeviceKind::Cpu).or(devices.first());
    let device = Device::open(&instance, physical.expect("a device"), true).expect("it opens");
    let mut runner =
        Runner::new(&CATALOGUE, &device, Timing::VerifyOnly, &CacheFolder::none(), interrupted).expect("a runner");
    let cases = runner.run(&section, &mut Silent);
    assert_eq!(device.validation_messages(), Vec::<String>::new());
    drop((runner, Rc::clone(&device)));
    cases
}

#[test]
fn a_kernel_is_judged_by_another_kernel_and_not_by_itself() {
    let lists = vec![shift(true, 2.5), shift(true, 2.0)];
    let reference = Reference::Kernel(shift(true, 2.5));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("d.npy");
    let mut own = kernels("shift", vec![compiled("shift", SHIFT)], shifted(), reference, lists);
    own.saves = vec![Save { buffer: "D".into(), path: path.clone() }];
    let cases = run(&own);
    assert_eq!(cases[0].id, "shift/k0/f32/1");
    // Of itself it would say nothing.
    let unverified = cases[0].measured().and_then(|measured| measured.verification.unverified());
    assert_eq!(unverified.as_deref(), Some("unverified: the reference is this kernel itself"));
    let wrong = rejection(&cases[1]);
    assert!(wrong.starts_with("D["), "{wrong}");
    // The second kernel ran last: −2·a + 2.
    let buffers = shifted();
    let d = array::read(&path, DType::F32, &[100]).expect("it was saved");
    let a = buffers[0].contents(1, 0, Path::new(".")).expect("values");
    for (d, a) in d.chunks_exact(4).zip(a.chunks_exact(4)) {
        assert!((DType::F32.value(d) - (2.0 - 2.0 * DType::F32.value(a))).abs() < 1e-6);
    }
}

/// Kernels, selected by MODE, for checks that accept wrong results.
const BLIND: &str = "#version 460
    layout(local_size_x = 64) in;
    layout(constant_id = 0) const int MODE = 0;
    layout(binding = 0) readonly buffer A { float a[]; };
    layout(binding = 1) buffer D { float d[]; };
    void main() {
        uint i = gl_GlobalInvocationID.x;
        if (MODE == 0) d[i] = a[i];
        if (MODE == 1) d[i] = a[i < 16384 ? i : i - 1];
        if (MODE == 2) d[i] = clamp(d[i], -1.0, 1.0);
        if (MODE == 3 && i == 65536) d[i] = 0.0;
        if (MODE == 4) d[i] = i == 7 ? -3.4e38 : a[i] * 2.0;
        if (MODE == 5) d[i] = i == 7 ? -3.4e38 : a[i] * -50.0 + 9.0;
        if (MODE == 6) d[i] = i % 2 == 0 ? exp(a[i]) : uintBitsToFloat(i / 2);
        if (MODE == 7) d[i] = i % 2 == 0 ? exp(a[i]) : uintBitsToFloat(i / 2 ^ 1);
        if (MODE == 8) d[i] = min(max(d[i], -1.0), 1.0);
    }";

/// Runs a mode of [`BLIND`] against another mode as reference, with this fill of A and this output.
fn blind(mode: u64, reference: u64, fill: Fill, output: &ResolvedBuffer) -> Case {
    let list = |mode| {
        let pass = Dispatch {
            constants: vec![constant(0, mode, 4)],
            groups: [output.len() / 64, 1, 1],
            descriptors: vec![bound(0, 0, SlotKind::Storage, 0), bound(0, 1, SlotKind::Storage, 1)],
            ..Dispatch::bare(0usize)
        };
        PassList { dispatches: vec![pass], scratch: vec![] }
    };
    let buffers = vec![buffer("A", output.len(), Role::Input, Some(fill)), output.clone()];
    let (module, reference) = (compiled("blind", BLIND), Reference::Kernel(list(reference)));
    run(&kernels("blind", vec![module], buffers, reference, vec![list(mode)])).remove(0)
}

fn close(rtol: f64, atol: f64) -> Tolerance {
    Tolerance::Close { rtol, atol }
}

/// Returns the mutations that the check of a measured case accepts, each with the member if there are several.
fn accepts(case: &Case) -> Vec<(Mutation, Option<u32>)> {
    let measured = case.measured().unwrap_or_else(|| panic!("{:?}", case.outcome));
    measured.accepts.iter().map(|own| (own.mutation, own.member)).collect()
}

#[test]
fn an_output_that_starts_as_the_answer_is_unverified() {
    let fill = |high| Some(Fill::Uniform { low: -1.0, high });
    let of = |mode, high| blind(mode, 8, Fill::Iota, &buffer("D", 1024, Role::InPlace, fill(high)));
    for mode in [2, 3] {
        let case = of(mode, 1.0);
        let unverified = case.measured().and_then(|measured| measured.verification.unverified()).expect("unverified");
        assert!(unverified.starts_with("unverified: a kernel that does nothing would pass: "), "{unverified}");
    }
    let case = of(2, 2.0);
    assert!(case.measured().is_some_and(|own| own.verification.verified().is_some()), "{:?}", case.outcome);
    assert!(accepts(&case).is_empty(), "a third of its elements change");
    assert!(matches!(of(3, 2.0).outcome, Outcome::Rejected(_)));
}

#[test]
fn accepted_neighbors_are_reported() {
    let output = |tolerance| ResolvedBuffer { tolerance, ..buffer("D", 1 << 16, Role::Output, None) };
    let case = blind(1, 0, Fill::Iota, &output(close(1e-4, 1e-5)));
    assert_eq!(accepts(&case), [(Mutation::Neighbors, None), (Mutation::FewNeighbors, None)]);
    let own = &case.measured().expect("it passes").accepts[0];
    assert_eq!((own.check.as_str(), own.buffer.as_str()), ("iota; rtol = 1e-4, atol = 1e-5", "D"));
    assert!(own.share > 0.5 && own.share < 1.0, "{}", own.share);
    let exact = blind(1, 0, Fill::Iota, &output(Tolerance::Exact));
    assert!(matches!(exact.outcome, Outcome::Rejected(_)), "{:?}", exact.outcome);
    assert!(accepts(&blind(0, 0, Fill::Iota, &output(Tolerance::Exact))).is_empty());
    let uniform = Fill::Uniform { low: -1.0, high: 1.0 };
    assert!(accepts(&blind(0, 0, uniform, &output(close(1e-4, 1e-5)))).is_empty());
}

#[test]
fn a_large_tolerance_accepts_zeros() {
    let uniform = || Fill::Uniform { low: -1.0, high: 1.0 };
    let output = ResolvedBuffer { tolerance: close(1e-4, 3.4e34), ..buffer("D", 4096, Role::Output, None) };
    let found = accepts(&blind(5, 4, uniform(), &output));
    assert!(found.contains(&(Mutation::Zeros, None)) && found.contains(&(Mutation::SignsFlipped, None)), "{found:?}");
    // A sentinel is compared separately.
    let output = ResolvedBuffer { tolerance: Tolerance::Nmse(1e-6), ..buffer("D", 4096, Role::Output, None) };
    let wrong = blind(5, 4, uniform(), &output);
    assert!(matches!(wrong.outcome, Outcome::Rejected(_)), "{:?}", wrong.outcome);
}

#[test]
fn a_member_within_the_tolerance_is_reported_by_column() {
    let uniform = Fill::Uniform { low: 0.0, high: 1.0 };
    let output =
        ResolvedBuffer { shape: vec![1024, 2], tolerance: close(1e-4, 1e-5), ..buffer("D", 2048, Role::Output, None) };
    let found = accepts(&blind(7, 6, uniform, &output));
    assert!(found.contains(&(Mutation::Zeros, Some(1))), "{found:?}");
    assert!(found.iter().all(|(_, member)| *member != Some(0)), "{found:?}");
}

#[test]
fn a_case_is_labeled_with_the_type_of_its_output() {
    let of = |element, more: &[ResolvedBuffer]| {
        let mut buffers = shifted();
        buffers[2].element = element;
        buffers.extend_from_slice(more);
        let own = kernels("typed", vec![compiled("shift", SHIFT)], buffers, Reference::None, vec![shift(false, 1.0)]);
        let group = group(&own);
        let case = group.case("k0", group.problem().as_ref(), 0, Outcome::Interrupted);
        let read: Case = serde_json::from_str(&serde_json::to_string(&case).expect("JSON")).expect("a case");
        (read.kind(), read.of_input(), read.id)
    };
    let more = buffer("E", 8, Role::InPlace, Some(Fill::Iota));
    for (element, more, dtype) in
        [(DType::F32, &[][..], "f32"), (DType::U32, &[], "u32"), (DType::U32, &[more], "mixed")]
    {
        let (kind, of_input, id) = of(element, more);
        assert_eq!((kind, id), (format!("typed {dtype}"), format!("typed/k0/{dtype}/1")));
        assert_eq!(of_input, "", "a description says what fills its buffers");
    }
}

#[test]
fn nan_is_reported_even_without_a_reference() {
    let lists = vec![shift(false, 1.0), shift(false, f64::NAN)];
    let cases = run(&kernels("unknown", vec![compiled("shift", SHIFT)], shifted(), Reference::None, lists));
    let unverified = |case: &Case| case.measured().and_then(|measured| measured.verification.unverified());
    assert_eq!(unverified(&cases[0]).as_deref(), Some("unverified: there is no reference"));
    let odd = unverified(&cases[1]).expect("it has a time");
    assert_eq!(odd, "unverified: there is no reference; D[0] is not a number, and 99 others of 100 are not finite");
}

/// Returns a dispatch of two groups of 64, with `buffers` bound in order.
fn over(module: usize, buffers: &[ResolvedBuffer]) -> PassList {
    let numbers = 0..buffers.len();
    let descriptors = numbers.map(|number| bound(0, number as u32, SlotKind::Storage, number)).collect();
    let pass = Dispatch { groups: [2, 1, 1], descriptors, ..Dispatch::bare(module) };
    PassList { dispatches: vec![pass], scratch: vec![] }
}

/// Runs a dispatch of `module` over `buffers` against the reference, if there is one.
fn run_against(reference: Option<Module>, module: Module, buffers: Vec<ResolvedBuffer>) -> Case {
    let mut modules = vec![module];
    modules.extend(reference);
    let reference = if modules.len() > 1 { Reference::Kernel(over(1, &buffers)) } else { Reference::None };
    let list = over(0, &buffers);
    run(&kernels("kernel", modules, buffers, reference, vec![list])).remove(0)
}

/// Returns a kernel in GLSL with invocation `i`.
fn kernel(bindings: &str, body: &str) -> String {
    format!(
        "#version 460
        layout(local_size_x = 64) in;
        {bindings}
        void main() {{ uint i = gl_GlobalInvocationID.x; {body} }}"
    )
}

#[test]
fn accesses_past_the_end_are_detected_although_nan_stays_nan() {
    let copy = kernel(
        "layout(binding = 0) readonly buffer A { float a[]; }; layout(binding = 1) buffer D { float d[]; };",
        "d[i] = 2.0 * a[i];",
    );
    let double = kernel("layout(binding = 0) buffer D { float d[]; };", "d[i] *= 2.0;");
    let numbers = Some(Fill::Uniform { low: 1.0, high: 2.0 });
    let copied = vec![buffer("A", 100, Role::Input, numbers.clone()), buffer("D", 100, Role::Output, None)];
    let doubled = vec![buffer("D", 100, Role::InPlace, numbers)];
    for (source, buffers) in [(copy, copied), (double, doubled)] {
        let case = run_against(None, compiled("beyond", &source), buffers);
        let wrong = rejection(&case);
        assert!(wrong.starts_with("the kernel wrote outside buffer D: it wrote byte 40"), "{wrong}");
    }
}

#[test]
fn a_kernel_that_writes_nothing_fails_on_poisoned_memory() {
    let [nothing, poison] = ["if (i < d.length()) {}", "if (i < d.length()) d[i] = -127;"]
        .map(|body| compiled("writes", &kernel("layout(binding = 0) buffer D { int d[]; };", body)));
    let buffers = vec![ResolvedBuffer { element: DType::I32, ..buffer("D", 128, Role::Output, None) }];
    let case = run_against(Some(poison), nothing, buffers);
    let wrong = rejection(&case);
    assert!(wrong.starts_with("right in one run, wrong in the next with other memory contents: "), "{wrong}");
}

#[test]
fn a_kernel_that_relies_on_zeroed_scratch_fails() {
    let bindings = "layout(binding = 0) writeonly buffer D { int d[]; };
        layout(binding = 1) readonly buffer T { int t[]; };";
    let [counts, zero] = ["if (i < d.length()) d[i] = t[i] + 1;", "if (i < d.length()) d[i] = 0;"]
        .map(|body| compiled("scratch", &kernel(bindings, body)));
    let with = |name, role| ResolvedBuffer { element: DType::I32, ..buffer(name, 128, role, None) };
    let buffers = [with("D", Role::Output), with("T", Role::Scratch)];
    let list = |module| PassList { scratch: vec![buffers[1].clone()], ..over(module, &buffers) };
    let outputs = vec![buffers[0].clone()];
    let cases = run(&kernels("counts", vec![counts, zero], outputs, Reference::Kernel(list(1)), vec![list(0)]));
    // Scratch starts with all bits set, like counters in users' programs.
    assert!(matches!(cases[0].outcome, Outcome::Rejected(_)), "{:?}", cases[0].outcome);
}

/// Computes C = A·B, with the addresses of A and B in push constants and C bound to a descriptor.
const PRODUCT: &str = "#version 460
    #extension GL_EXT_buffer_reference : require
    layout(local_size_x = 8, local_size_y = 8) in;
    layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float at[]; };
    layout(binding = 0) buffer C { float c[]; };
    layout(push_constant) uniform P { Floats a; Floats b; uint m, n, k; };
    void main() {
        uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
        if (row >= m || column >= n) return;
        float sum = 0.0;
        for (uint i = 0; i < k; i++) sum += a.at[row * k + i] * b.at[i * n + column];
        c[row * n + column] = sum;
    }";

#[test]
fn built_in_variants_share_buffers_and_oracle_with_a_kernel() {
    let (m, n, k) = (33u64, 20u64, 17u64);
    let mut push = vec![0; 16];
    push.extend([m, n, k].iter().flat_map(|extent| (*extent as u32).to_le_bytes()));
    let pass = |push: Vec<u8>| Dispatch {
        groups: [n.div_ceil(8), m.div_ceil(8), 1],
        push,
        addresses: vec![
            Address { offset: 0, buffer: BufferId(2), skipped: 0 },
            Address { offset: 8, buffer: BufferId(1), skipped: 0 },
        ],
        descriptors: vec![bound(0, 0, SlotKind::Storage, 0)],
        ..Dispatch::bare(0usize)
    };
    let list = |push| PassList { dispatches: vec![pass(push)], scratch: vec![] };
    let mut short = push.clone();
    short[24..].copy_from_slice(&16u32.to_le_bytes());
    // The buffers are in a different order than the built-in algorithm's.
    let uniform = || Some(Fill::Uniform { low: 0.0, high: 1.0 });
    let buffers = vec![
        buffer("c", m * n, Role::Output, None),
        buffer("b", k * n, Role::Input, uniform()),
        buffer("a", m * k, Role::Input, uniform()),
    ];
    let roles = [("A", 2), ("B", 1), ("C", 0)].map(|(role, place)| (role.to_string(), place)).to_vec();
    let builtin = Builtin { algorithm: "matmul".into(), size: vec![m, n, k], layout: None, roles };
    let reference = Reference::Builtin(builtin);
    let lists = vec![list(push), list(short)];
    let mut own = kernels("product", vec![compiled("product", PRODUCT)], buffers, reference, lists);
    own.against = vec!["tiled".into(), "split".into(), "auto".into()];
    let cases = run(&own);
    let right: Vec<_> = cases.iter().map(|case| (case.variant.as_str(), case.measured().is_some())).collect();
    let expected = [("k0", true), ("k1", false), ("matmul:tiled", true), ("matmul:split", true), ("matmul:auto", true)];
    assert_eq!(right[..3], expected[..3], "{cases:?}");
    assert_eq!(right[4], expected[4], "{cases:?}");
    let wrong = rejection(&cases[1]);
    // The buffer has a stated check.
    assert!(wrong.starts_with("c["), "{wrong}");
}

/// Returns why the kernel is rejected, with A and D of `len` elements.
fn rejected(element: DType, [source, reference]: [&str; 2], fill: Fill, len: u64) -> String {
    let output = ResolvedBuffer { tolerance: Tolerance::Exact, ..buffer("D", len, Role::Output, None) };
    let mut buffers = vec![buffer("A", len, Role::Input, Some(fill)), output];
    for buffer in &mut buffers {
        buffer.element = element;
    }
    let case = run_against(Some(compiled("reference", reference)), compiled("k", source), buffers);
    match case.outcome {
        Outcome::Rejected(wrong) => wrong.worst,
        other => format!("{other:?}"),
    }
}

/// Returns a kernel on A and D of one type.
fn over_two(element: &str, body: &str) -> String {
    let bindings = format!(
        "layout(binding = 0) buffer A {{ {element} a[]; }}; layout(binding = 1) buffer D {{ {element} d[]; }};"
    );
    kernel(&bindings, &format!("if (i < 100) {{ {body} }}"))
}

#[test]
fn uninitialized_and_stray_reads_are_diagnosed() {
    let ones = Fill::Uniform { low: 1.0, high: 1.0 };
    for (element, name) in [(DType::F32, "float"), (DType::U32, "uint"), (DType::I32, "int")] {
        let right = over_two(name, "d[i] = a[i] + (i < 99 ? a[i + 1] : 0);");
        let cause = |body: &str| rejected(element, [&over_two(name, body), &right], ones.clone(), 100);
        let said = cause("d[i] = a[i] + a[i + 1];");
        assert!(
            said.ends_with("the kernel reads past the end of A: D[99] depends on what lies there, gpukern's filler"),
            "{said}"
        );
        let said = cause("d[i] = d[i] + a[i];");
        assert!(said.contains("] depends on what D held before"), "{said}");
        let said = cause("if (i != 7) d[i] = a[i] + (i < 99 ? a[i + 1] : 0);");
        assert!(
            said.contains("D[7] was never written")
                && said.ends_with(": does the grid, or an `if`, leave it out, or is its value undefined?"),
            "{said}"
        );
        // Neither memory past the end nor the previous contents explain the result.
        let said = cause("d[i] = 5;");
        assert_eq!(said, "D[0] is 5, the reference has 2");
        // The reference is at fault.
        let right = over_two(name, "if (i != 41) d[i] = 2;");
        let said = rejected(element, [&over_two(name, "d[i] = 2;"), &right], ones.clone(), 100);
        assert!(said.contains("the reference is unusable: it never writes D[41]"), "{said}");
    }
}

#[test]
fn padding_is_not_compared() {
    for (element, name) in [(DType::F32, "vec3"), (DType::U32, "uvec3"), (DType::I32, "ivec3")] {
        let over_vectors = |body: &str| over_two(name, body).replace("i < 100", "i < 25");
        let right = over_vectors("d[i] = 2 * a[i];");
        let of = |body: &str| rejected(element, [&over_vectors(body), &right], Fill::Iota, 100);
        assert!(of("d[i] = a[i] + a[i];").starts_with("Measured"), "{}", of("d[i] = a[i] + a[i];"));
        assert!(of("d[i] = a[i];").starts_with("D["), "{}", of("d[i] = a[i];"));
        let unwritten = of("d[i].xy = a[i].xy + a[i].xy; if (i != 3) d[i].z = a[i].z + a[i].z;");
        assert!(unwritten.contains("D[14] was never written"), "{unwritten}");
    }
}

#[test]
fn a_write_to_a_readonly_input_is_detected() {
    let mut lying = compiled("k", &over_two("float", "d[i] = 2 * a[i]; a[i] = 0;"));
    let (decorate, binding, readonly) = (71, 33, 24);
    // Set 0, binding 0 is A.
    let mut at = 5;
    while lying.spirv[at] & 0xffff != decorate || lying.spirv[at + 2..at + 4] != [binding, 0] {
        at += (lying.spirv[at] >> 16) as usize;
    }
    let words = [3 << 16 | decorate, lying.spirv[at + 1], readonly];
    lying.spirv.splice(at..at, words);
    let numbers = Some(Fill::Uniform { low: 1.0, high: 2.0 });
    let buffers = vec![buffer("A", 100, Role::Input, numbers), buffer("D", 100, Role::Output, None)];
    let reference = compiled("reference", &over_two("float", "d[i] = 2 * a[i];"));
    let case = run_against(Some(reference), lying, buffers);
    let wrong = rejection(&case);
    assert!(wrong.starts_with("the kernel changed its input A"), "{wrong}");
}
