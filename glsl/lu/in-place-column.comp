// Column i of L below the diagonal: L[r][i] = U[r][i] / U[i][i]. The elected lane of each sub-group reads the pivot from
// global memory into shared memory; a sub-group barrier lets the others read it there.
// Mapping: n-i-1 invocations, from row i+1. Sub-groups of any size: each has a word of shared memory of its own (the
// document has one for the work-group, which all of its sub-groups write).
// Source: the LU post, the listing with sycl::ONEAPI::leader and sg.barrier().
#version 460
#extension GL_KHR_shader_subgroup_basic : require
#pragma dtypes f32
#include "lu.glsl"

layout(local_size_x_id = 0) in;

// A group has at most as many sub-groups as invocations.
shared ACC pivots[gl_WorkGroupSize.x];

void main() {
    if (subgroupElect()) pivots[gl_SubgroupID] = load(U.at[i * n + i]);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    // Only now may invocations leave: the elected lane must not be among them.
    uint row = i + 1 + gl_GlobalInvocationID.x;
    if (row >= n) return;

    ACC pivot = pivots[gl_SubgroupID];
    if (row == i + 1) check_pivot(pivot);
    L.at[row * n + i] = store(load(U.at[row * n + i]) / pivot);
}
