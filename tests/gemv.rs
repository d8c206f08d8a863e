//! Products on a device whose K is cut into parts: right in every layout, and the same bits in every run. Products by
//! few vectors are cut as for a GPU and as for a software device.

mod same_bits;

use gpukern::{CATALOGUE, CacheFolder, CaseSpec, DType, Device, DeviceKind, Layout, Size, Workbench};

/// Runs `gemv` as [`assert_same_bits`] does, and returns the number of parts of K.
fn gemv_parts(workbench: &mut Workbench, device: &Device, kind: DeviceKind, case: &CaseSpec, runs: usize) -> usize {
    assert_same_bits("gemv", workbench, device, kind, case, runs)[1] as usize
}

/// Runs a variant `runs` times, as built for a device of this kind, and asserts that every answer passes and has the same
/// bits. Returns the work-groups of its first dispatch.
fn assert_same_bits(
    variant: &str,
    workbench: &mut Workbench,
    device: &Device,
    kind: DeviceKind,
    case: &CaseSpec,
    runs: usize,
) -> [u64; 3] {
    let matmul = CATALOGUE.find("matmul").expect("an algorithm");
    let mut info = device.info.clone();
    info.kind = kind;
    // A GPU's work-groups have more sub-groups of 8 than llvmpipe reports as its limit, yet llvmpipe runs them.
    info.subgroup.most_in_group = None;
    let program = matmul.variant(variant).and_then(|variant| variant.program(case, &info)).expect("a program");
    let problem = (matmul.problem)(case).expect("a problem");
    same_bits::run(workbench, problem, &program, runs, &format!("{case:?} {kind:?}"));
    program.dispatches().next().expect("a dispatch").groups
}

fn case(size: [u64; 3], layout: Layout) -> CaseSpec {
    let size = Size::Three(size[0], size[1], size[2]);
    CaseSpec::new(CATALOGUE.find("matmul").expect("an algorithm"), size, DType::F32)
        .with(|options| options.layout = layout)
}

#[test]
fn every_form_is_right_however_it_is_cut_and_wherever_rows_start() {
    let device = same_bits::device(true);
    let mut workbench = Workbench::new(&CATALOGUE.probes, &device, &CacheFolder::none()).expect("a workbench");
    for kind in [DeviceKind::Cpu, DeviceKind::DiscreteGpu] {
        for size in [[1, 64, 1000], [1, 65, 999], [3, 130, 64], [70, 2, 260], [71, 1, 4099], [5, 2, 31]] {
            for layout in Layout::ALL {
                gemv_parts(&mut workbench, &device, kind, &case(size, layout), 2);
            }
        }
    }
}

#[test]
fn a_hundred_runs_over_parts_of_k_give_the_same_bits() {
    let device = same_bits::device(true);
    let mut workbench = Workbench::new(&CATALOGUE.probes, &device, &CacheFolder::none()).expect("a workbench");
    // Rows of the matrix across K, and along it.
    for layout in [Layout::Nn, Layout::Nt] {
        let parts = gemv_parts(&mut workbench, &device, DeviceKind::DiscreteGpu, &case([2, 33, 40_000], layout), 100);
        assert!(parts > 8, "{layout}: {parts}");
    }
}

#[test]
fn a_hundred_runs_of_a_tiled_product_whose_blocks_groups_share_give_the_same_bits() {
    let device = same_bits::device(true);
    let mut workbench = Workbench::new(&CATALOGUE.probes, &device, &CacheFolder::none()).expect("a workbench");
    for (layout, runs) in [(Layout::Nn, 100), (Layout::Nt, 3), (Layout::Tn, 3)] {
        // 19 groups share two blocks of 375 slabs, the last slab cut off; one group has some of both.
        let tile = Some("32x32x8/16x32/8x8/g19".parse().expect("a tile"));
        let case = CaseSpec { tile, ..case([33, 31, 2999], layout) };
        let groups = assert_same_bits("tiled", &mut workbench, &device, device.info.kind, &case, runs);
        assert_eq!(groups, [19, 1, 1], "{layout}");
    }
}
