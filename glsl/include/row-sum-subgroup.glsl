// The body of row-sum/subgroup and row-sum/subgroup-cas.
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "row-sum.glsl"

void main() {
    uint row = folded_group_y();
    if (row >= n) return;  // uniform in the group
    float sum = subgroupAdd(element(row));
    if (subgroupElect()) atomic_add(s, row, sum);
}
