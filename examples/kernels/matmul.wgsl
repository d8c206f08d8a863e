// C = A·B by TILE × TILE work-groups that walk along K with a tile of A and one of B in workgroup memory.
override TILE: u32 = 16;

struct Shape { M: u32, N: u32, K: u32 }

@group(0) @binding(0) var<storage, read> A: array<f32>;
@group(0) @binding(1) var<storage, read> B: array<f32>;
@group(0) @binding(2) var<storage, read_write> C: array<f32>;
var<immediate> shape: Shape;

// At most 16 × 16: an override can size a workgroup array only as its whole length.
var<workgroup> a_tile: array<f32, 256>;
var<workgroup> b_tile: array<f32, 256>;

@compute @workgroup_size(TILE, TILE)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
    let row = group.y * TILE + local.y;
    let column = group.x * TILE + local.x;
    var sum = 0.0;
    for (var first = 0u; first < shape.K; first += TILE) {
        let a_column = first + local.x;
        let b_row = first + local.y;
        let at = local.y * TILE + local.x;
        a_tile[at] = 0.0;
        b_tile[at] = 0.0;
        if row < shape.M && a_column < shape.K {
            a_tile[at] = A[row * shape.K + a_column];
        }
        if b_row < shape.K && column < shape.N {
            b_tile[at] = B[b_row * shape.N + column];
        }
        workgroupBarrier();
        for (var k = 0u; k < TILE; k++) {
            sum += a_tile[local.y * TILE + k] * b_tile[k * TILE + local.x];
        }
        workgroupBarrier();
    }
    if row < shape.M && column < shape.N {
        C[row * shape.N + column] = sum;
    }
}
