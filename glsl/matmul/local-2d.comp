// A square work-group stages a tile of A and a tile of B in shared memory: each value that is read from global
// memory serves a whole row or column of the group.
// Source: the SYCL workshop, the tiled exercise.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32
#pragma layouts nn
#include "matmul.glsl"

layout(local_size_x_id = 0, local_size_y_id = 1) in;

const uint TILE = gl_WorkGroupSize.x;  // the group is TILE×TILE
shared ACC tile_a[TILE * TILE];
shared ACC tile_b[TILE * TILE];

void main() {
    uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
    uint row = folded_group_y() * TILE + y;
    uint column = gl_GlobalInvocationID.x;

    ACC sum = ACC(0);
    for (uint k = 0; k < K; k += TILE) {
        // Zeros beyond the edges add nothing to the sums.
        tile_a[y * TILE + x] = row < M && k + x < K ? load(A.at[row * K + k + x]) : ACC(0);
        tile_b[y * TILE + x] = k + y < K && column < N ? load(B.at[(k + y) * N + column]) : ACC(0);
        barrier();
        for (uint i = 0; i < TILE; ++i) sum += tile_a[y * TILE + i] * tile_b[i * TILE + x];
        barrier();
    }
    if (row < M && column < N) C.at[row * N + column] = store(sum);
}
