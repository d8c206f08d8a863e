// The kernel next-matrix/local in the loop of the pipeline: does nothing once the device has decided to stop, and counts
// the rounds, which are updates of the matrix.
// Mapping: x is the column of M, y (folded into z) its row; a work-group lies in one row.
// Source: the similarity post, kernelSimilarityTransform and the loop around it.
#version 460
#pragma dtypes f32
#include "reals.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    InPlace M;
    Input s;
    Words stop;
    Words rounds;
    uint n;
};

#include "next-matrix.glsl"

void main() {
    if (stop.at[0] != 0) return;  // uniform in the dispatch: nothing writes the flag now
    if (gl_GlobalInvocationID == uvec3(0)) rounds.at[0] += 1;
    next_matrix(M, s, n);
}
