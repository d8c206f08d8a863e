// Eigenvector: the first lane of a sub-group reads the maximum and broadcasts it.
// Mapping: one invocation an element; work-groups folded into y.
// Source: the similarity post, kernelComputeEigenVector_v1.
#version 460
#extension GL_KHR_shader_subgroup_ballot : require
#pragma dtypes f32
#include "eigenvector.glsl"

void main() {
    // Every lane is active here, those beyond the end too: the elected lane is the first one.
    float largest = 0.0;
    if (subgroupElect()) largest = maximum.at[0];
    largest = subgroupBroadcastFirst(largest);
    uint i = index();
    if (i < n) e.at[i] *= s.at[i] / largest;
}
