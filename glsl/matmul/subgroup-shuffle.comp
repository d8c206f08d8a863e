// The `subgroup` product with subgroupShuffle, which may read a different lane in each invocation, in place of
// subgroupBroadcast: what the generality costs where every invocation asks for the same lane.
// The work-group is exactly one sub-group: a tile wider than that would broadcast from lanes that do not exist.
// Source: document 004, select_from_group (figure 9-14).
#version 460
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma dtypes f32 f64 f16 bf16 i32
#include "matmul.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = folded_group_y();
    uint column = gl_GlobalInvocationID.x;
    uint lane = gl_SubgroupInvocationID;
    if (row >= M) return;  // uniform: lanes beyond the last column stay, for they hold values of A

    ACC sum = ACC(0);
    for (uint k = 0; k < K; k += gl_WorkGroupSize.x) {
        ACC tile = k + lane < K ? load(A.at[row * K + k + lane]) : ACC(0);
        uint end = min(gl_WorkGroupSize.x, K - k);
        for (uint i = 0; i < end; ++i) {
            ACC a = subgroupShuffle(tile, i);
            if (column < N) sum += a * load(B.at[(k + i) * N + column]);
        }
    }
    if (column < N) C.at[row * N + column] = store(sum);
}
