// The body of row-sum/local and row-sum/local-cas.
#extension GL_KHR_shader_subgroup_arithmetic : require
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
