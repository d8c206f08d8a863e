// Stop criterion: as `shuffle`, but a sub-group decides by the ballot of the lanes that are far from their neighbour.
// Mapping: one invocation an element, consecutive in a sub-group; work-groups folded into y.
// Source: ours, after the similarity post; Data Parallel C++ for ballots.
#version 460
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#extension GL_KHR_shader_subgroup_ballot : require
#pragma dtypes f32
#include "stop-check-shuffle.glsl"

void main() {
    uvec4 far = subgroupBallot(!near_neighbour());
    // Four words, for sub-groups of up to 128 lanes.
    bool all_near = (far.x | far.y | far.z | far.w) == 0;
    if (subgroupElect()) atomicMin(stop.at[0], all_near ? 1 : 0);
}
