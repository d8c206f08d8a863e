#version 460
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 2) buffer Count { uint count; };
void main() {
    const uint first = gl_WorkGroupID.x * 128;
    const uint l = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    const uint i = first + l;
    const uint lane = gl_SubgroupInvocationID;
    const bool taken = x[i] % 3 == 0;
    const uvec4 takers = subgroupBallot(taken);
    uint start = 0;
    if (subgroupElect()) {
        start = atomicAdd(count, subgroupBallotBitCount(takers));
    }
    start = subgroupBroadcastFirst(start);
    if (taken) {
        y[start + subgroupBallotExclusiveBitCount(takers)] = x[i];
    }
}
