// Column i of U below the diagonal becomes zero, once no other kernel of this pivot needs it.
// Mapping: n-i-1 invocations, from row i+1.
// Source: the LU post, the (N-(i+1))×1 part of the split update.
#version 460
#pragma dtypes f32
#include "lu.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = i + 1 + gl_GlobalInvocationID.x;
    if (row < n) U.at[row * n + i] = store(ACC(0));
}
