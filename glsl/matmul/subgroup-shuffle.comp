// The `subgroup` product with subgroupShuffle, which may read a different lane in each invocation, in place of
// subgroupBroadcast: what the generality costs where every invocation asks for the same lane.
// The work-group is exactly one sub-group: a tile wider than that would broadcast from lanes that do not exist.
// Source: Data Parallel C++, select_from_group (figure 9-14).
#version 460
#extension GL_KHR_shader_subgroup_shuffle : require
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
    for (; k + WIDTH <= K; k += WIDTH) {
        ACC tile = load(A.at[row * K + k + lane]);
        for (uint i = 0; i < WIDTH; ++i) sum += subgroupShuffle(tile, i) * load(B.at[(k + i) * N + from]);
    }
    // The last tile, narrower than the others.
    ACC tile = k + lane < K ? load(A.at[row * K + k + lane]) : ACC(0);
    for (uint i = 0; i < K - k; ++i) sum += subgroupShuffle(tile, i) * load(B.at[(k + i) * N + from]);

    if (column < N) C.at[row * N + column] = store(sum);
}
