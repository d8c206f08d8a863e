// Row sums: a sub-group adds its elements up by subgroupAdd; one lane adds the result to the sum of the row.
// Mapping: x is the column of A, y (folded into z) its row; a work-group lies in one row.
// Source: the similarity post, kernelSumAcrossRows_v1.
#version 460
#pragma dtypes f32
#pragma kernel subgroup
#pragma kernel subgroup-cas CAS
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "float-atomic.glsl"
#include "row-sum.glsl"

void main() {
    uint row = folded_group_y();
    if (row >= n) return;  // uniform in the group
    float sum = subgroupAdd(element(row));
    if (subgroupElect()) atomic_add(s, row, sum);
}
