// Row sums: every invocation adds its element of A to the sum of its row in global memory.
// Mapping: x is the column of A, y (folded into z) its row; a work-group lies in one row.
// Source: the similarity post, kernelSumAcrossRows_v0.
#version 460
#pragma dtypes f32
#pragma kernel atomic
#pragma kernel atomic-cas CAS
#include "float-atomic.glsl"
#include "row-sum.glsl"

void main() {
    uint row = folded_group_y();
    if (row < n && gl_GlobalInvocationID.x < n) atomic_add(s, row, element(row));
}
