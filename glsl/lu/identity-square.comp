// Writes the diagonal of L = I by an n×n launch, in which one invocation of n has something to do. L is zero before.
// Mapping: x is the column, y the row.
// Source: the LU post, the naive version.
#version 460
#pragma dtypes f32
#include "lu.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = folded_group_y();
    uint column = gl_GlobalInvocationID.x;
    if (row >= n || column >= n) return;
    if (row == column) L.at[row * n + column] = store(ACC(1));
}
