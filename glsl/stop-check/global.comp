// Stop criterion: every invocation reads its element and the next from global memory; a sub-group votes by
// subgroupAll, and one lane takes the atomic minimum of the flag.
// Mapping: one invocation an element; work-groups folded into y.
// Source: the similarity post, kernelStopCriteria_v0.
#version 460
#extension GL_KHR_shader_subgroup_vote : require
#pragma dtypes f32
#include "stop-check.glsl"

void main() {
    uint i = folded_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    bool near = i >= n || abs(s.at[i] - s.at[(i + 1) % n]) < eps;
    bool all_near = subgroupAll(near);
    if (subgroupElect()) atomicMin(stop.at[0], all_near ? 1 : 0);
}
