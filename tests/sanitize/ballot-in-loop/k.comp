#version 460
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint first = gl_WorkGroupID.x * 128;
    const uint l = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    const uint i = first + l;
    const uint lane = gl_SubgroupInvocationID;
    const uint key = x[i] % 4;
    uint same = 0;
    while (true) {
        if (key == subgroupBroadcastFirst(key)) {
            same = subgroupBallotBitCount(subgroupBallot(true));
            break;
        }
    }
    // Checked by a count that needs no loop, so that the answer is the same at every sub-group size.
    uint expected = 0;
    for (uint k = 0; k < 4; k++) {
        const uint count = subgroupBallotBitCount(subgroupBallot(key == k));
        expected = key == k ? count : expected;
    }
    y[i] = same == expected ? x[i] : 0xffffffffu;
}
