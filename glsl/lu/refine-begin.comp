// v = P·r·scale in f32, where the scale is a power of two that makes the largest element of r lie between 1 and 2: what
// is left of b becomes small beyond the range of f32. FIRST: r is b itself, as it is.
#version 460
#pragma dtypes f64
#include "lu-refine.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FIRST = 0;

layout(push_constant, scalar) uniform Arguments {
    Doubles r;
    Floats v;
    Indices rows;    // row i of P·A is row `rows[i]` of A
    Indices ended;
    Doubles state;
    uint n;
};

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= n) return;
    if (FIRST != 0) v.at[i] = float(r.at[rows.at[i]]);
    // Nothing is added to a solution that is done.
    else v.at[i] = ended.at[0] == GOES_ON ? float(r.at[rows.at[i]] * state.at[SCALE]) : 0.0;
}
