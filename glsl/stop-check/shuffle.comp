// Stop criterion: the neighbour comes from the next lane by subgroupShuffleDown, and only the last lane of a sub-group
// reads a second value from global memory; the vote and the flag are those of `global`.
// Mapping: one invocation an element, consecutive in a sub-group; work-groups folded into y.
// Source: the similarity post, kernelStopCriteria with sub-group shuffling.
#version 460
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#extension GL_KHR_shader_subgroup_vote : require
#pragma dtypes f32
#include "stop-check-shuffle.glsl"

void main() {
    bool all_near = subgroupAll(near_neighbour());
    if (subgroupElect()) atomicMin(stop.at[0], all_near ? 1 : 0);
}
