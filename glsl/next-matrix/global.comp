// Next matrix of the similarity transform, M[r,c] *= s[c] / s[r]: both row sums from global memory.
// Mapping: x is the column of M, y (folded into z) its row; a work-group lies in one row.
// Source: the similarity post, kernelSimilarityTransform without its local memory.
#version 460
#pragma dtypes f32
#include "reals.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    InPlace M;
    Input s;
    uint n;
};

void main() {
    uint row = folded_group_y(), column = gl_GlobalInvocationID.x;
    if (row < n && column < n) M.at[row * n + column] *= s.at[column] / s.at[row];
}
