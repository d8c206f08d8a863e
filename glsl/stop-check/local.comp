// Stop criterion: as `shuffle`, but the sub-groups of a work-group meet in a flag in shared memory; after a barrier one
// invocation takes the atomic minimum of the flag in global memory, once a work-group.
// Mapping: one invocation an element, consecutive in a sub-group; work-groups folded into y.
// Source: the similarity post, kernelStopCriteria, the final kernel.
#version 460
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#extension GL_KHR_shader_subgroup_vote : require
#pragma dtypes f32
#include "stop-check-shuffle.glsl"

shared uint group_stop;

void main() {
    if (gl_LocalInvocationIndex == 0) group_stop = 1;
    barrier();
    bool all_near = subgroupAll(near_neighbour());
    if (subgroupElect()) atomicMin(group_stop, all_near ? 1 : 0);
    barrier();
    if (gl_LocalInvocationIndex == 0) atomicMin(stop.at[0], group_stop);
}
