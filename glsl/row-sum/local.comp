// Row sums: sub-groups leave their sums in shared memory; after a barrier one sub-group adds those up, and one lane
// adds the total to the sum of the row: one addition in global memory a work-group.
// Mapping: x is the column of A, y (folded into z) its row; a work-group lies in one row.
// Source: the similarity post, kernelSumAcrossRows_v2.
#version 460
#pragma dtypes f32
#pragma kernel local
#pragma kernel local-cas CAS
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "float-atomic.glsl"
#include "row-sum.glsl"

shared float partial[gl_WorkGroupSize.x];  // one a sub-group, of which there are at most as many as invocations

void main() {
    uint row = folded_group_y();
    if (row >= n) return;  // uniform in the group: no invocation misses a barrier
    float sum = subgroupAdd(element(row));
    if (subgroupElect()) partial[gl_SubgroupID] = sum;
    barrier();
    if (gl_SubgroupID != 0) return;
    float rest = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) rest += partial[i];
    float total = subgroupAdd(rest);
    if (subgroupElect()) atomic_add(s, row, total);
}
