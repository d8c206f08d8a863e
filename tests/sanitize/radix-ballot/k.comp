#version 460
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
// Stable sort of 256 keys of 8 bits, one bit a pass: a ballot ranks the keys within a sub-group.
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint keys[256];
shared uint zeros[256];
void main() {
    const uint first = gl_WorkGroupID.x * 256;
    const uint l = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    uint key = x[first + l];
    for (uint bit = 0; bit < 8; bit++) {
        const bool one = (key >> bit & 1) == 1;
        const uvec4 ones = subgroupBallot(one);
        const uint lower = subgroupBallotExclusiveBitCount(ones);
        const uint all = subgroupBallotBitCount(ones);
        if (subgroupElect()) {
            zeros[gl_SubgroupID] = gl_SubgroupSize - all;
        }
        barrier();
        uint before = 0;
        uint total = 0;
        for (uint i = 0; i < gl_NumSubgroups; i++) {
            before += i < gl_SubgroupID ? zeros[i] : 0;
            total += zeros[i];
        }
        const uint zeros_before = before + gl_SubgroupInvocationID - lower;
        keys[one ? total + l - zeros_before : zeros_before] = key;
        barrier();
        key = keys[l];
    }
    y[first + l] = key;
}
