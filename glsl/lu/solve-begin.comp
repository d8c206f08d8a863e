// v = P·b: the right-hand side in the order of the pivots.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Reals b;
    Reals v;
    Indices rows;  // row i of P·A is row `rows[i]` of A
    uint n;
};

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) v.at[i] = b.at[rows.at[i]];
}
