// A work-group computes gl_WorkGroupSize.x neighbouring elements of one row of C. It stages as many values of
// that row of A in shared memory, so each is read from global memory once a group; two barriers a tile.
// Source: the matmul post, kernel v1; Data Parallel C++, figure 9-8.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32
#pragma layouts nn
#include "matmul.glsl"

layout(local_size_x_id = 0) in;

const uint WIDTH = gl_WorkGroupSize.x;
shared ACC tile[WIDTH];

void main() {
    uint row = folded_group_y();
    uint column = gl_GlobalInvocationID.x;
    uint lane = gl_LocalInvocationID.x;
    if (row >= M) return;  // uniform in the group: no invocation misses a barrier
    // A column beyond the last is clamped, not skipped: its invocation fills the tile, and a branch in the inner loop
    // would cost every invocation.
    uint from = min(column, N - 1);

    ACC sum = ACC(0);
    uint k = 0;
    for (; k + WIDTH <= K; k += WIDTH) {
        tile[lane] = load(A.at[row * K + k + lane]);
        barrier();
        for (uint i = 0; i < WIDTH; ++i) sum += tile[i] * load(B.at[(k + i) * N + from]);
        barrier();
    }
    // The last tile, narrower than the others.
    if (k + lane < K) tile[lane] = load(A.at[row * K + k + lane]);
    barrier();
    for (uint i = 0; i < K - k; ++i) sum += tile[i] * load(B.at[(k + i) * N + from]);

    if (column < N) C.at[row * N + column] = store(sum);
}
