@group(0) @binding(0) var<storage, read> X: array<u32>;
@group(0) @binding(1) var<storage, read_write> Y: array<u32>;
var<workgroup> s: array<u32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = global.x;
    s[l] = X[i];
    Y[i] = s[63u - l];
}
