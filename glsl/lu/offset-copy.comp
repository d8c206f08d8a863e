// Copies what this pivot changed of U back to A: (n-i-1)×(n-i) elements at (i+1, i). Vulkan copies no rectangle of a
// buffer, where the document copies a sub-buffer.
// Mapping: x is the column, y the row.
// Source: the LU post, the improved version's h.copy(acc_udiag, acc_matrix).
#version 460
#pragma dtypes f32
#include "lu.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = i + 1 + folded_group_y();
    uint column = i + gl_GlobalInvocationID.x;
    if (row >= n || column >= n) return;
    A.at[row * n + column] = U.at[row * n + column];
}
