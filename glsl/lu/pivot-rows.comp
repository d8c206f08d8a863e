// rows[i] = i: before the first pivot, row i is where it was.
// Mapping: x is the row.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Indices rows;
    uint stride;
};

void main() {
    if (gl_GlobalInvocationID.x < stride) rows.at[gl_GlobalInvocationID.x] = gl_GlobalInvocationID.x;
}
