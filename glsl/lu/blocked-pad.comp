// W = A with rows of `stride` elements, and ones on the diagonal beyond n: L and U of that are those of A, with ones on
// their diagonals beyond n.
// Mapping: x is the column, y the row.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"
#include "fold.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Reals A;  // n×n
    Reals W;
    uint n, stride;
};

void main() {
    uint row = folded_group_y(), column = gl_GlobalInvocationID.x;
    if (row >= stride || column >= stride) return;
    float beyond = row == column ? 1.0 : 0.0;
    W.at[row * stride + column] = row < n && column < n ? A.at[row * n + column] : beyond;
}
