//! Kernels for tests.

use crate::algorithm::UserKernels;
use crate::basis::dtype::DType;
use crate::kernel::buffer::{Binding, Descriptor, Role, SpecValue};
use crate::kernel::interface::SlotKind;
use crate::kernel::program::{BufferId, Dispatch};
use crate::resolved::{
    Fill, KernelConfiguration, Module, PassList, Reference, ResolvedBuffer, ResolvedPoint, ResolvedProblem, Tolerance,
};
use crate::tuning::tuned::Tuned;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// Compiles GLSL to SPIR-V.
pub fn spirv(glsl: &str) -> Vec<u32> {
    let compiler = shaderc::Compiler::new().expect("a compiler");
    let mut options = shaderc::CompileOptions::new().expect("options");
    options.set_target_env(shaderc::TargetEnv::Vulkan, shaderc::EnvVersion::Vulkan1_2 as u32);
    let kind = shaderc::ShaderKind::Compute;
    let artifact = compiler.compile_into_spirv(glsl, kind, "k.comp", "main", Some(&options));
    artifact.expect("it compiles").as_binary().to_vec()
}

/// Scales and shifts, with a bool, a 64-bit constant, a uniform buffer, two sets, and a push constant at an offset.
pub const SHIFT: &str = "#version 460
    layout(local_size_x_id = 0) in;
    layout(constant_id = 1) const bool NEGATE = false;
    layout(constant_id = 2) const double SCALE = 1.0;
    layout(set = 0, binding = 1) readonly buffer A { float a[]; };
    layout(set = 2, binding = 0) uniform U { vec4 bias; };
    layout(set = 2, binding = 3) buffer D { float d[]; };
    layout(push_constant) uniform P { layout(offset = 16) uint n; };
    void main() {
        uint i = gl_GlobalInvocationID.x;
        if (i < n) d[i] = (NEGATE ? -1.0 : 1.0) * float(SCALE) * a[i] + bias.z;
    }";

/// Bindings of [`SHIFT`] in each set, with the types 7 (storage buffer) and 8 (uniform buffer with a dynamic offset).
pub const SHIFT_SETS: [&[[u32; 3]]; 3] = [&[[1, 7, 1]], &[], &[[0, 8, 1], [3, 7, 1]]];

/// Returns the module of a kernel in GLSL.
pub fn compiled(name: &str, source: &str) -> Module {
    Module { name: name.into(), spirv: spirv(source), files: vec![] }
}

/// Returns a buffer of f32 with a small tolerance.
pub fn buffer(name: &str, len: u64, role: Role, fill: Option<Fill>) -> ResolvedBuffer {
    let tolerance = Tolerance::Close { rtol: 1e-6, atol: 1e-6 };
    ResolvedBuffer { fill, tolerance, checked: true, ..ResolvedBuffer::new(name, DType::F32, vec![len], role) }
}

/// Returns the descriptor of a whole buffer.
pub fn bound(set: u32, binding: u32, kind: SlotKind, buffer: usize) -> Descriptor {
    Descriptor { at: Binding::whole(set, binding, kind, BufferId(buffer)), bytes: None }
}

/// Returns the value of a specialization constant.
pub fn constant(id: u32, bits: u64, bytes: u32) -> SpecValue {
    SpecValue { id, bits, bytes }
}

/// Returns kernels `k0`, `k1`, … with one point, from a list of passes for each.
pub fn kernels(
    name: &str,
    modules: Vec<Module>,
    buffers: Vec<ResolvedBuffer>,
    reference: Reference,
    lists: Vec<PassList>,
) -> UserKernels {
    let configuration = |index| KernelConfiguration { kernel: format!("k{index}"), choice: vec![] };
    let configurations = (0..lists.len()).map(configuration).collect();
    let pass_lists = lists.into_iter().map(Ok).collect();
    let points = vec![ResolvedPoint { buffers, reference, pass_lists, ..ResolvedPoint::default() }];
    let name = name.to_string();
    let problem = ResolvedProblem { name: name.clone(), modules, configurations, points, ..ResolvedProblem::default() };
    UserKernels { name, problem, against: vec![], saves: vec![], tuned: Tuned::none() }
}

/// Returns the passes of [`SHIFT`] on the buffers of [`shifted`].
pub fn shift(negate: bool, scale: f64) -> PassList {
    let mut push = vec![0; 20];
    push[16..].copy_from_slice(&100u32.to_le_bytes());
    let pass = Dispatch {
        constants: vec![constant(0, 64, 4), constant(1, u64::from(negate), 4), constant(2, scale.to_bits(), 8)],
        groups: [2, 1, 1],
        push,
        descriptors: vec![
            bound(0, 1, SlotKind::Storage, 0),
            bound(2, 0, SlotKind::Uniform, 1),
            bound(2, 3, SlotKind::Storage, 2),
        ],
        ..Dispatch::bare(0usize)
    };
    PassList { dispatches: vec![pass], scratch: vec![] }
}

/// Returns the buffers A, U and D of [`SHIFT`].
pub fn shifted() -> Vec<ResolvedBuffer> {
    vec![
        buffer("A", 100, Role::Input, Some(Fill::Uniform { low: -1.0, high: 1.0 })),
        buffer("U", 4, Role::Input, Some(Fill::Iota)),
        buffer("D", 100, Role::Output, None),
    ]
}

/// Parses a description.
pub fn described(text: &str) -> serde_json::Value {
    toml::from_str(text).expect("TOML")
}

/// Fossilize archive, whose headers may be wrong.
#[derive(Default)]
pub struct ArchiveWriter {
    /// Tag, hash and payload of each entry.
    pub entries: Vec<(u32, u64, Vec<u8>)>,
    pub compressed: bool,
    /// Checksum of pipelines.
    pub crc: u32,
    /// Number that is added to the length of pipelines in their headers.
    pub expanded: i64,
    /// Flags of pipelines.
    pub flags: u32,
}

impl ArchiveWriter {
    /// Adds a module.
    pub fn module(mut self, hash: u64, words: &[u32]) -> Self {
        let mut code = vec![];
        for mut word in words.iter().copied() {
            while word >= 0x80 {
                code.push(word as u8 | 0x80);
                word >>= 7;
            }
            code.push(word as u8);
        }
        let fields = format!("\"varintOffset\":0,\"varintSize\":{},\"codeSize\":{}", code.len(), 4 * words.len());
        let json = format!("{{\"version\":6,\"shaderModules\":{{\"{hash:016x}\":{{{fields},\"flags\":0}}}}}}\0");
        self.entries.push((4, hash, [json.as_bytes(), &code].concat()));
        self
    }

    /// Adds the layout of all pipelines: the bindings of each set, each with its number, `VkDescriptorType` and count. A set
    /// without bindings is null. There are 20 bytes of push constants.
    pub fn layout(mut self, sets: &[&[[u32; 3]]]) -> Self {
        let mut hashes = vec![];
        for (hash, bindings) in (1..).zip(sets) {
            hashes.push(format!("\"{:x}\"", if bindings.is_empty() { 0 } else { hash }));
            let binding = |[binding, kind, count]: &[u32; 3]| {
                format!(
                    "{{\"binding\":{binding},\"descriptorType\":{kind},\"descriptorCount\":{count},\"stageFlags\":32}}"
                )
            };
            let bindings: Vec<_> = bindings.iter().map(binding).collect();
            self.object(2, "setLayouts", hash, &format!("\"flags\":0,\"bindings\":[{}]", bindings.join(",")));
        }
        let push = "\"pushConstantRanges\":[{\"stageFlags\":32,\"offset\":0,\"size\":20}]";
        self.object(3, "pipelineLayouts", 3, &format!("\"flags\":0,{push},\"setLayouts\":[{}]", hashes.join(",")));
        self
    }

    fn object(&mut self, tag: u32, table: &str, hash: u64, fields: &str) {
        let json = format!("{{\"version\":6,\"{table}\":{{\"{hash:016x}\":{{{fields}}}}}}}");
        self.entries.push((tag, hash, json.into_bytes()));
    }

    /// Adds a compute pipeline of a module's `main`, with `stated` fields of its stage, each followed by a comma.
    pub fn pipeline(mut self, hash: u64, module: u64, stated: &str) -> Self {
        let stage = format!("{{{stated}\"flags\":0,\"stage\":32,\"module\":\"{module:016x}\",\"name\":\"main\"}}");
        let fields = format!("\"flags\":FLAGS,\"layout\":\"{:016x}\",\"stage\":{stage}", 3);
        self.object(7, "computePipelines", hash, &fields);
        self
    }

    /// Adds an entry of another kind, without contents.
    pub fn other(mut self, tag: u32, hash: u64) -> Self {
        self.entries.push((tag, hash, vec![]));
        self
    }

    /// Returns the file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut file = b"\x81FOSSILIZEDB\0\0\0\x06".to_vec();
        for (tag, hash, payload) in &self.entries {
            let is_pipeline = *tag == 7;
            let payload = match String::from_utf8(payload.clone()) {
                Ok(text) if is_pipeline => text.replace("FLAGS", &self.flags.to_string()).into_bytes(),
                _ => payload.clone(),
            };
            let mut stored = payload.clone();
            if self.compressed {
                let mut encoder = ZlibEncoder::new(vec![], Compression::fast());
                encoder.write_all(&payload).expect("memory");
                stored = encoder.finish().expect("memory");
            }
            let [crc, more] = if is_pipeline { [self.crc.into(), self.expanded] } else { [0, 0] };
            file.extend(format!("{tag:024x}{hash:016x}").bytes());
            let format = 1 + i64::from(self.compressed);
            for word in [stored.len() as i64, format, crc, payload.len() as i64 + more] {
                file.extend((word as u32).to_le_bytes());
            }
            file.extend(stored);
        }
        file
    }
}
