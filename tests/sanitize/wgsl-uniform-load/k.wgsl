@group(0) @binding(0) var<storage, read> X: array<u32>;
@group(0) @binding(1) var<storage, read_write> Y: array<u32>;
var<workgroup> rounds: u32;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) global: vec3<u32>, @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let i = global.x;
    var sum = 0u;
    for (var k = 0u; k < 3u; k++) {
        if l == 0u {
            rounds = X[group.x + k] % 4u;
        }
        let n = workgroupUniformLoad(&rounds);
        for (var j = 0u; j < n; j++) {
            sum += X[i] + j;
        }
    }
    Y[i] = sum;
}
