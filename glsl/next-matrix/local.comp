// Next matrix of the similarity transform, M[r,c] *= s[c] / s[r]: the row sum of the row and those of the columns of a
// work-group are staged in shared memory.
// Mapping: x is the column of M, y (folded into z) its row; a work-group lies in one row.
// Source: the similarity post, kernelSimilarityTransform, whose column index (the linear index modulo the group's size)
// is right in the first group of a row only; here it is the column.
#version 460
#pragma dtypes f32
#include "reals.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    InPlace M;
    Input s;
    uint n;
};

#include "next-matrix.glsl"

void main() { next_matrix(M, s, n); }
