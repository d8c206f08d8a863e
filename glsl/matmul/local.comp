// A work-group computes gl_WorkGroupSize.x neighbouring elements of one row of C. It stages as many values of
// that row of A in shared memory, so each is read from global memory once a group; two barriers a tile.
// Source: document 000, kernel v1; document 004, figure 9-8.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32
#include "matmul.glsl"

layout(local_size_x_id = 0) in;

shared ACC tile[gl_WorkGroupSize.x];

void main() {
    uint row = folded_group_y();
    uint column = gl_GlobalInvocationID.x;
    uint lane = gl_LocalInvocationID.x;
    if (row >= M) return;  // uniform in the group: no invocation misses a barrier

    ACC sum = ACC(0);
    for (uint k = 0; k < K; k += gl_WorkGroupSize.x) {
        tile[lane] = k + lane < K ? load(A.at[row * K + k + lane]) : ACC(0);
        barrier();
        uint end = min(gl_WorkGroupSize.x, K - k);
        if (column < N) {
            for (uint i = 0; i < end; ++i) sum += tile[i] * load(B.at[(k + i) * N + column]);
        }
        barrier();
    }
    if (column < N) C.at[row * N + column] = store(sum);
}
