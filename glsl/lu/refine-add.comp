// x + d/scale, where d solves A·d = r·scale. FIRST: x is d.
#version 460
#pragma dtypes f64
#include "lu-refine.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FIRST = 0;

layout(push_constant, scalar) uniform Arguments {
    Doubles x;
    Floats d;
    Indices ended;
    Doubles state;
    uint n;
};

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= n) return;
    if (FIRST != 0) x.at[i] = double(d.at[i]);
    else if (ended.at[0] == GOES_ON) x.at[i] += double(d.at[i]) / state.at[SCALE];
}
