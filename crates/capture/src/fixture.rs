//! Captured programs for tests.

use crate::basis::units::Nanos;
use crate::profile::{Profile, ProfiledProcess, SCHEMA};
use crate::user::fixture::spirv;
use gpukern_layer::format::{
    CapturedDispatch, CapturedRegion, DescriptorBinding, DeviceProperties, DispatchEvent, LayerEvent, Other,
    PipelineInfo, ProcessInfo, Submission,
};

/// Returns a pipeline with this SPIR-V, distinguished only by its words.
pub fn pipeline(id: u32, device: u32, spirv: &[u32], entry: &str) -> PipelineInfo {
    PipelineInfo {
        pipeline: id,
        device,
        spirv: spirv.to_vec(),
        entry: entry.into(),
        specialization: vec![(0, vec![16, 0, 0, 0])],
        subgroup: None,
        stage_flags: 0,
        flags: 0,
        robustness: None,
        took: Some(1000),
    }
}

pub fn device(id: u32, period: f32) -> DeviceProperties {
    DeviceProperties {
        device: id,
        name: format!("device {id}"),
        vendor: 0x10005,
        id: 0,
        kind: 2,
        api_version: 0x0040_30e6,
        driver_version: 1,
        driver: "llvmpipe".into(),
        driver_info: "Mesa 22.3.6".into(),
        uuid: [0xab; 16],
        period,
        extensions: vec![],
    }
}

/// Returns the event of a process.
pub fn process(id: u32) -> LayerEvent {
    let arguments = vec!["python".into(), "infer.py".into()];
    LayerEvent::Process(ProcessInfo { id, arguments, started: 1_000_000, application: None, engine: None, sample: 0 })
}

/// Returns a dispatch of this many work-groups between these ticks.
pub fn dispatch(pipeline: u32, groups: u32, begin: u64, end: u64) -> DispatchEvent {
    let (groups, indirect, label, uncapturable) = ([groups, 1, 1], false, None, None);
    DispatchEvent { pipeline, groups, indirect, begin, end, label, uncapturable }
}

/// Returns the event of a submission between these ticks.
pub fn submission(device: u32, [submitted, done]: [u64; 2], dispatches: Vec<DispatchEvent>) -> LayerEvent {
    let (queue, others) = ((0, 0), vec![]);
    LayerEvent::Submission(Submission { device, queue, submitted, done, dispatches, others })
}

/// Returns two kernels over three submissions, a copy, a gap within a submission and gaps between them.
pub fn sample_events() -> Vec<LayerEvent> {
    let mut sample = dispatch(1, 4, 1800, 2000);
    sample.uncapturable = Some("binding 0.3 is an image".into());
    let mut last = submission(0, [5000, 9000], vec![dispatch(0, 64, 3000, 3500)]);
    if let LayerEvent::Submission(last) = &mut last {
        last.others.push(Other { what: "copy".into(), begin: 3600, end: 3700 });
    }
    vec![
        process(7),
        LayerEvent::Device(device(0, 2.0)),
        LayerEvent::Pipeline(pipeline(0, 0, &[1; 8], "mul_mat")),
        LayerEvent::Pipeline(pipeline(1, 0, &[2; 8], "main")),
        submission(0, [1000, 3000], vec![dispatch(0, 64, 1000, 1300), dispatch(0, 64, 1300, 1700), sample]),
        LayerEvent::Name { pipeline: 1, name: "pool".into() },
        last,
        LayerEvent::Untimed { what: "draws".into(), count: 2 },
        LayerEvent::Untimed { what: "draws".into(), count: 3 },
    ]
}

pub fn profile(processes: &[Vec<LayerEvent>]) -> Profile {
    Profile {
        schema: SCHEMA.into(),
        version: "0.1.0".into(),
        program: vec!["python".into(), "infer.py".into()],
        ending: "exit code 0".into(),
        wall: Nanos(10_000.0),
        overlapped: false,
        sample: 1,
        processes: processes.iter().map(|events| ProfiledProcess::of(events)).collect(),
    }
}

pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Events about one dispatch, and the folder with its contents.
pub struct CapturedFixture {
    pub spool: tempfile::TempDir,
    pub events: Vec<LayerEvent>,
}

impl CapturedFixture {
    pub fn new(glsl: &str, case: CapturedDispatch, specialization: Vec<(u32, Vec<u8>)>) -> Self {
        let spool = tempfile::tempdir().expect("a folder");
        let arguments = vec!["infer".into(), "a\nb\u{1b}[31m'\"\"\"".into()];
        let process = ProcessInfo { id: 1, arguments, started: 1, application: None, engine: None, sample: 0 };
        let device = DeviceProperties { name: "llvmpipe".into(), driver_info: "Mesa".into(), ..device(0, 2.0) };
        let pipeline = PipelineInfo { specialization, ..pipeline(0, 0, &spirv(glsl), "main") };
        let events = vec![
            LayerEvent::Process(process),
            LayerEvent::Device(device),
            LayerEvent::Pipeline(pipeline),
            LayerEvent::Case(case),
        ];
        Self { spool, events }
    }

    pub fn file(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.spool.path().join(name), bytes).expect("written");
    }
}

pub fn bound(binding: u32, region: u32, offset: u64, range: u64) -> DescriptorBinding {
    DescriptorBinding { binding, kind: 7, region: Some(region), offset, range, ..DescriptorBinding::default() }
}

pub fn region(name: &str, bytes: u64, changed: bool, address: Option<u64>) -> CapturedRegion {
    let (before, after) = (format!("{name}.before"), changed.then(|| format!("{name}.after")));
    CapturedRegion { bytes, address, image: None, before, after }
}

pub fn case(bindings: Vec<DescriptorBinding>, regions: Vec<CapturedRegion>, push: Vec<u8>) -> CapturedDispatch {
    let (pipeline, call, base, indirect, label, lost) = (0, 3, [0; 3], false, None, None);
    CapturedDispatch { pipeline, call, groups: [1, 1, 1], base, indirect, push, bindings, regions, label, lost }
}

const SCALE: &str = "#version 460
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const float BIAS = 0;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) writeonly buffer D { float d[]; };
layout(set = 0, binding = 2) readonly buffer Unused { float unused[]; };
layout(push_constant) uniform P { uint n; float scale; } p;
void main() { uint i = gl_GlobalInvocationID.x; if (i < p.n) d[i] = a[i] * p.scale + BIAS; }
";

/// Call of `SCALE` that writes two of four elements.
pub fn scale(bits: u32, changed: bool) -> CapturedFixture {
    let push = [2u32.to_le_bytes(), bits.to_le_bytes()].concat();
    let bindings = vec![bound(0, 0, 0, 16), bound(1, 1, 0, 16)];
    let regions = vec![region("a", 16, false, None), region("d", 16, changed, None)];
    let constants = vec![(0, 4u32.to_le_bytes().to_vec()), (1, 0.1f32.to_le_bytes().to_vec()), (77, vec![1])];
    let captured = CapturedFixture::new(SCALE, case(bindings, regions, push), constants);
    captured.file("a.before", &floats(&[1.0, 2.0, 3.0, 4.0]));
    captured.file("d.before", &floats(&[9.0, 8.0, 7.0, 6.0]));
    captured.file("d.after", &floats(&[2.1, 4.1, 7.0, 6.0]));
    captured
}
