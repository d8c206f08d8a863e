// Writes the diagonal of L = I by a launch of n invocations. L is zero before.
// Mapping: x is the row.
// Source: the LU post, the improved version.
#version 460
#pragma dtypes f32
#include "lu.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = gl_GlobalInvocationID.x;
    if (row < n) L.at[row * n + row] = store(ACC(1));
}
