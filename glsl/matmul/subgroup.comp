// A sub-group computes neighbouring elements of one row of C. Each lane keeps one value of that row of A in a
// register; subgroupBroadcast hands them round, so there is no shared memory and no barrier.
// The work-group is exactly one sub-group: a tile wider than that would broadcast from lanes that do not exist.
// Source: the matmul post, kernel v2; Data Parallel C++, figure 9-12.
#version 460
#extension GL_KHR_shader_subgroup_ballot : require
#pragma dtypes f32 f64 f16 bf16 i32
#pragma layouts nn
#include "matmul.glsl"

layout(local_size_x_id = 0) in;

const uint WIDTH = gl_WorkGroupSize.x;

void main() {
    uint row = folded_group_y();
    uint column = gl_GlobalInvocationID.x;
    uint lane = gl_SubgroupInvocationID;
    if (row >= M) return;  // uniform in the group
    // A column beyond the last is clamped, not skipped: its lane holds values of A, and a branch in the inner loop
    // would cost every lane.
    uint from = min(column, N - 1);

    ACC sum = ACC(0);
    uint k = 0;
    // The lane to broadcast from is the loop counter: dynamically uniform, as SPIR-V 1.5 asks.
    for (; k + WIDTH <= K; k += WIDTH) {
        ACC tile = load(A.at[row * K + k + lane]);
        for (uint i = 0; i < WIDTH; ++i) sum += subgroupBroadcast(tile, i) * load(B.at[(k + i) * N + from]);
    }
    // The last tile, narrower than the others.
    ACC tile = k + lane < K ? load(A.at[row * K + k + lane]) : ACC(0);
    for (uint i = 0; i < K - k; ++i) sum += subgroupBroadcast(tile, i) * load(B.at[(k + i) * N + from]);

    if (column < N) C.at[row * N + column] = store(sum);
}
